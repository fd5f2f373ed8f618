//! Any text is an entry ID or an error. An ID that is written parses back to the same text. Normalising twice is
//! normalising once. An ID serves its own request, and two IDs are compatible where the rule about their parts says so.
#![no_main]

offload_fuzz::target!(ids, bytes);

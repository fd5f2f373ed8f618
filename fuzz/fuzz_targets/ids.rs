//! Any text is an entry ID or none. What is written of one parses back and is written the same again, normalising twice
//! is normalising once, an ID serves its own request, and two IDs are compatible where the rule says so of their parts.
#![no_main]

offload_fuzz::target!(ids, bytes);

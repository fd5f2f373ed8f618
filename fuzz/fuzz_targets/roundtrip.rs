//! Whatever is bundled in binary comes back byte for byte, with any IDs, alignment and compression, and is listed in
//! its order. An uncompressed bundle is, byte for byte, what the format's description says.
#![no_main]

offload_fuzz::target!(roundtrip, bytes);

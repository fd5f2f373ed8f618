//! Members of a binary bundle come back byte for byte, with any IDs, alignment and compression, and are listed in
//! order. An uncompressed bundle has the bytes that the format's description gives.
#![no_main]

offload_fuzz::target!(roundtrip, bytes);

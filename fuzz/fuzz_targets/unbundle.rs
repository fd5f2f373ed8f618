//! Any bytes, taken for a file of any type, are unbundled or are an error, which writes nothing. Whatever comes out is
//! bytes that the input holds, and is the same twice.
#![no_main]

offload_fuzz::target!(unbundle, files);

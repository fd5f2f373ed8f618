//! Any bytes, read as a file of any type, are unbundled or are an error, which writes nothing. Outputs have bytes of
//! the input, the same ones in two runs.
#![no_main]

offload_fuzz::target!(unbundle, files);

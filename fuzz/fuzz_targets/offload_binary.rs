//! Any bytes are offload binaries, hold some, hold none, or are an error, which writes nothing; images and strings are
//! from the input. Packed in any version, compressed or not, images and strings come back.
#![no_main]

offload_fuzz::target!(offload_binary, files);

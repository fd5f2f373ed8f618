//! From any bytes, the code objects that a search finds and a selection matches are extracted, byte for byte and with
//! the same result in two runs. Their files have different, plain names. After an error, no file is left.
#![no_main]

offload_fuzz::target!(extract, files);

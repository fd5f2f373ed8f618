//! Any bytes are recompressed or are an error, which writes nothing. The code objects that are kept are the same as
//! before, no fault is added, doing it again changes nothing, and in a program only the bytes of bundles change.
#![no_main]

offload_fuzz::target!(recompress, files);

//! From any bytes, exactly what a search finds and a selection takes is extracted, byte for byte, twice the same, into
//! files with plain names of their own; or there is an error and nothing is left.
#![no_main]

offload_fuzz::target!(extract, files);

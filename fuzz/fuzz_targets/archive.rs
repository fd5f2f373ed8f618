//! Any bytes are an archive or an error. Members are inside of the archive and follow one another. Listing and
//! unbundling succeed, or fail and write nothing. Outputs are archives, with the same bytes in two runs; their members
//! have names without directories, and bytes of the input.
#![no_main]

offload_fuzz::target!(archive, files);

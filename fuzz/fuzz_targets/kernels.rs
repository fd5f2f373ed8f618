//! Any bytes are read as a code object and as its metadata, twice the same, and the kernels of one that is written come
//! back with all of their numbers.
#![no_main]

offload_fuzz::target!(kernels, files);

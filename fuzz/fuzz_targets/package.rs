//! Whatever is in a package is found there as it is found by itself.
#![no_main]

offload_fuzz::target!(package, bytes);

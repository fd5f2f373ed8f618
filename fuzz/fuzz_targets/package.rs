//! The code objects found in a package are those found in its members alone.
#![no_main]

offload_fuzz::target!(package, bytes);

//! In bundles with any code, the GPUs that are served, what `verify` misses and what is extracted are what a plain
//! reading of the rules of runtimes says.
#![no_main]

offload_fuzz::target!(coverage, bytes);

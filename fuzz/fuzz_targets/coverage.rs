//! In bundles with any code, a plain reading of the runtimes' rules gives the same GPUs that are served, the same
//! faults of `verify` and the same extracted files.
#![no_main]

offload_fuzz::target!(coverage, bytes);

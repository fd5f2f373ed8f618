//! Any bytes are names of kernels, which are demangled in a bounded time.
#![no_main]

offload_fuzz::target!(names, bytes);

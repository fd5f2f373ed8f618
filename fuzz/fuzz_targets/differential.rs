//! If LLVM 22's tool lists or unbundles some bytes with success, so does ours, with the same result, except for the
//! rows of `docs/differences.md`. Without LLVM 22, prints that and does nothing.
#![no_main]

offload_fuzz::target!(differential, files);

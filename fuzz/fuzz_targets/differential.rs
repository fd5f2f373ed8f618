//! Where LLVM 22's tool lists or unbundles any bytes with success, we do too, with the same result, but for the rows of
//! `docs/differences.md`. Says so and does nothing where LLVM 22 is not installed.
#![no_main]

offload_fuzz::target!(differential, files);

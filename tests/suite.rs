//! The integration tests of all files but `portable.rs`, in one executable: shared code is compiled once, and all tests
//! run in parallel.
//!
//! `cargo test --test suite hip::` runs the tests of `tests/hip.rs`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    unreachable_pub,
    reason = "in a test, what must not happen ends the test, and what is skipped is said; the fuzz targets share the properties"
)]

mod action;
mod agreement;
mod archives;
mod cuda;
mod cuda_driver;
mod documents;
mod examples;
mod faults;
mod fuzz_corpus;
mod hip;
mod hostile;
mod inputs;
mod kpack;
mod lists;
mod machine;
mod measured;
mod names_from_files;
mod objects;
mod outputs;
mod packager;
mod packages;
mod parts;
mod printed_names;
mod properties;
mod reference;
mod subcommands;
mod sycl;
mod uris;

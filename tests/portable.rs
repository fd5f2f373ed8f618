//! The integration tests that need only the executable. They also run on other processors, and `cli` with the release
//! build too.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    unreachable_pub,
    reason = "in a test, what must not happen ends the test, and what is skipped is said; modules are shared with `suite.rs`"
)]

mod cli;
mod fixtures;
mod lists;
mod machine;
mod search_path;

//! The `clang-offload-bundler` executable: passes the arguments to `cli` and returns its exit status.

mod cli;

fn main() -> std::process::ExitCode {
    cli::run(offload_bundle::io::sys::arguments())
}

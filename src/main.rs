//! `clang-offload-bundler`: the command-line tool over the `offload_bundle` library.

mod cli;

fn main() -> std::process::ExitCode {
    cli::run(std::env::args_os().collect())
}

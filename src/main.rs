//! The `clang-offload-bundler` executable: passes the arguments to the library and returns its exit status.

fn main() -> std::process::ExitCode {
    offload_bundle::main()
}

//! `llvm-offload-binary` where there are no links: in a wheel, or from `cargo install`.

#[path = "launch.rs"]
mod launch;

fn main() -> std::process::ExitCode {
    launch::run()
}

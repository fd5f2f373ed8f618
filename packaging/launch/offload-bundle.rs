//! `offload-bundle` in a wheel.

#[path = "launch.rs"]
mod launch;

fn main() -> std::process::ExitCode {
    launch::run()
}

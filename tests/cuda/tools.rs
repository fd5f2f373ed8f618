//! NVIDIA's programs and libraries.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::machine::skip_unless;
use crate::subcommands::must;

/// The directory of NVIDIA's packages that `.ci/install cuda` installs.
const INSTALLED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/target/cuda");

/// The programs of CUDA 13.5 that make and read fatbins.
pub struct Tools {
    pub ptxas: PathBuf,
    pub fatbinary: PathBuf,
    pub cuobjdump: PathBuf,
    /// clang needs it to link relocatable device code.
    pub nvlink: PathBuf,
}

impl Tools {
    /// The programs from the first of `$CUDA_HOME/bin`, `target/cuda` and the PATH that has them. If one is missing,
    /// prints that and returns none.
    pub fn find(test: &str) -> Option<Self> {
        let directories = directories();
        let find = |name: &str| {
            let found = directories.iter().map(|directory| directory.join(name)).find(|path| path.exists());
            if found.is_none() {
                skip(test, &format!("CUDA's {name} is not installed"));
            }
            found
        };
        Some(Self {
            ptxas: find("ptxas")?,
            fatbinary: find("fatbinary")?,
            cuobjdump: find("cuobjdump")?,
            nvlink: find("nvlink")?,
        })
    }
}

/// Prints that a test was skipped. This is a failure if `OFFLOAD_REQUIRE_CUDA=1` requires NVIDIA's packages.
pub fn skip(test: &str, why: &str) {
    skip_unless("OFFLOAD_REQUIRE_CUDA", test, why);
}

fn directories() -> Vec<PathBuf> {
    let home = std::env::var_os("CUDA_HOME").map(|home| Path::new(&home).join("bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    home.into_iter().chain(installed("nvidia/*/bin")).chain(std::env::split_paths(&path)).collect()
}

/// The paths in the directory of NVIDIA's packages that match a pattern, by name.
pub fn installed(pattern: &str) -> Vec<PathBuf> {
    let pattern = format!("{}/{pattern}", glob::Pattern::escape(INSTALLED));
    glob::glob(&pattern).unwrap().map(Result::unwrap).collect()
}

/// Runs a program in a directory. It must succeed.
pub fn run(program: &Path, dir: &Path, args: &[impl AsRef<std::ffi::OsStr>]) -> String {
    let output = must(Command::new(program).args(args).current_dir(dir));
    String::from_utf8(output.stdout).unwrap()
}

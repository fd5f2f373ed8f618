//! Finds the tools of this machine that tests need, and reports and counts skipped tests.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{LazyLock, Mutex};

/// Returns the directory of LLVM 22's tools: `LLVM_BIN`, or that of Debian's packages.
pub fn llvm_directory() -> PathBuf {
    std::env::var_os("LLVM_BIN").map_or_else(|| PathBuf::from("/usr/lib/llvm-22/bin"), PathBuf::from)
}

/// Returns the directory of LLVM 22's tools. If one of the needed tools is missing, prints that the test is skipped.
pub fn llvm(test: &str, needed: &[&str]) -> Option<PathBuf> {
    let directory = llvm_directory();
    let Some(missing) = needed.iter().map(|tool| directory.join(tool)).find(|tool| !tool.exists()) else {
        return Some(directory);
    };
    skip(test, &format!("LLVM 22 is not installed ({} is not there)", missing.display()));
    None
}

/// Returns the executable under test: `OFFLOAD_EXECUTABLE`, or the build of this test run.
pub fn executable() -> PathBuf {
    let built = || PathBuf::from(env!("CARGO_BIN_EXE_clang-offload-bundler"));
    std::env::var_os("OFFLOAD_EXECUTABLE").map_or_else(built, PathBuf::from)
}

/// Prints that a test was skipped. This is a failure if `OFFLOAD_REQUIRE_LLVM=1` requires all tests.
pub fn skip(test: &str, why: &str) {
    skip_unless("OFFLOAD_REQUIRE_LLVM", test, why);
}

/// Prints that a test was skipped. This is a failure if the variable is 1.
pub fn skip_unless(variable: &str, test: &str, why: &str) {
    let required = std::env::var_os(variable).is_some_and(|value| value == "1");
    assert!(!required, "{test}: {why}, and {variable}=1 is set");
    let name = match variable {
        "OFFLOAD_REQUIRE_CUDA" => Some("cuda"),
        "OFFLOAD_REQUIRE_LLVM23" => Some("llvm23"),
        // Nothing that can be installed gives this right.
        "OFFLOAD_REQUIRE_NAMESPACES" => None,
        "OFFLOAD_REQUIRE_PATCHELF" => Some("patchelf"),
        "OFFLOAD_REQUIRE_SYCL" => Some("sycl"),
        "OFFLOAD_REQUIRE_WHEEL" => Some("sample_wheel"),
        _ => Some("packages"),
    };
    skipped(&format!("{why}: {test}"), name);
}

/// The skips of this process.
struct Skips {
    count: usize,
    /// The number of skips that `.ci/install` can mend.
    mendable: usize,
    /// What `.ci/install` installs then.
    names: BTreeSet<&'static str>,
}

static SKIPS: Mutex<Skips> = Mutex::new(Skips { count: 0, mendable: 0, names: BTreeSet::new() });

/// Prints that a test, or a part of it, was skipped, and counts it for the last line of the run. `name` is what
/// `.ci/install` calls the missing tool, if it installs it.
pub fn skipped(what: &str, name: Option<&'static str>) {
    loud(&format!("SKIPPED: {what}"));
    let Ok(mut skips) = SKIPS.lock() else { return };
    if skips.count == 0 {
        // SAFETY: the function may be called at any time, and does not unwind.
        #[allow(unsafe_code, reason = "the test runner has no hook after its last line")]
        let _ = unsafe { libc::atexit(sum_up_skips) };
    }
    skips.count += 1;
    if let Some(name) = name {
        skips.mendable += 1;
        skips.names.insert(name);
    }
}

/// Prints how much was skipped, and the command that installs the missing tools.
extern "C" fn sum_up_skips() {
    let Ok(skips) = SKIPS.lock() else { return };
    if skips.names.is_empty() {
        return loud(&format!("{} skipped", skips.count));
    }
    let names: Vec<&str> = skips.names.iter().copied().collect();
    let command = format!(".ci/install {}", names.join(" "));
    loud(&format!("{} skipped; `{command}` installs the missing tools for {} of them", skips.count, skips.mendable));
}

/// Prints a line directly, bypassing the test runner, which captures the output of passing tests.
pub fn loud(line: &str) {
    drop(writeln!(std::io::stderr(), "{line}"));
}

/// The free space, in bytes, that memory must have for temporary files.
const MEMORY_MIN: u64 = 2 << 30;

/// Makes a temporary directory, in memory if the system has room there and runs programs from there: file systems on
/// disks take long to make and remove thousands of small files.
pub fn memory_directory() -> tempfile::TempDir {
    const IN_MEMORY: &str = "/dev/shm";
    static SERVES: LazyLock<bool> = LazyLock::new(|| {
        let system = rustix::fs::statvfs(IN_MEMORY);
        system.is_ok_and(|system| {
            let free = system.f_bavail.saturating_mul(system.f_frsize);
            free >= MEMORY_MIN && !system.f_flag.contains(rustix::fs::StatVfsMountFlags::NOEXEC)
        })
    });
    let in_memory = SERVES.then(|| tempfile::tempdir_in(IN_MEMORY).ok()).flatten();
    in_memory.unwrap_or_else(|| tempfile::tempdir().unwrap())
}

/// Writes a program with another process: a file that is open for writing cannot be run, and the processes that other
/// tests start inherit open files.
pub fn write_program(path: &Path, content: &[u8]) {
    let mut install = Command::new("install");
    let mut child = install.args(["-m", "755", "/dev/stdin"]).arg(path).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(content).unwrap();
    assert!(child.wait().unwrap().success(), "{}", path.display());
}

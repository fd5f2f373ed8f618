//! Unusual files and environments: files without an end or a length, files replaced with a pipe, directories with
//! thousands of levels, a small stack, and a full disk for temporary files.
mod depth;
mod endless;
mod room;

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;

use crate::machine::{executable, memory_directory, skip_unless};

const HOST: &str = "host-x86_64-unknown-linux-gnu-";
const GFX906: &str = "hip-amdgcn-amd-amdhsa--gfx906";

/// The time in seconds after which a run hangs, even on a busy machine.
const PATIENCE: &str = "600";

/// A directory for a run, and another one for its temporary files.
struct Bench {
    work: tempfile::TempDir,
    temporary: tempfile::TempDir,
}

impl Bench {
    fn new(files: &[(&str, &[u8])]) -> Self {
        let (work, temporary) = (memory_directory(), tempfile::tempdir().unwrap());
        for (name, data) in files {
            fs::write(work.path().join(name), data).unwrap();
        }
        Self { work, temporary }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.work.path().join(name)
    }

    /// The tool with these arguments, run by a shell after the command `before`, which sets limits.
    fn command(&self, before: &str, words: &[&str]) -> Command {
        let mut command = Command::new("timeout");
        // A limit on file sizes keeps a failing test from filling the disk.
        let script = format!("ulimit -f 400000; {before}\nexec \"$@\"");
        command.args([PATIENCE, "sh", "-c", &script, "sh"]).arg(executable()).args(words);
        command.current_dir(self.work.path()).env("TMPDIR", self.temporary.path()).stdin(Stdio::null());
        command
    }

    fn run(&self, words: &[&str]) -> Output {
        self.command("", words).output().unwrap()
    }

    /// Checks that there are no other files.
    fn assert_only(&self, names: &[&str], what: &str) {
        let mut left = list(self.work.path());
        left.retain(|name| !names.contains(&name.as_str()));
        assert!(left.is_empty() && list(self.temporary.path()).is_empty(), "{what}: {left:?} are left");
    }
}

fn list(directory: &Path) -> Vec<String> {
    fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn stderr(run: &Output) -> String {
    String::from_utf8_lossy(&run.stderr).into_owned()
}

fn stdout(run: &Output) -> String {
    String::from_utf8_lossy(&run.stdout).into_owned()
}

/// Checks that the run failed normally, with this message.
fn assert_fails(what: &str, run: &Output, message: &str) {
    assert_eq!(run.status.code(), Some(1), "{what}: {:?} {}", run.status, stderr(run));
    assert!(stderr(run).contains(message), "{what}: {}", stderr(run));
}

fn assert_succeeds(what: &str, run: &Output) {
    assert!(run.status.success(), "{what}: {:?} {}", run.status, stderr(run));
}

/// The options of `unshare` for a namespace in which file systems can be mounted, or none if this process may not make
/// one. Root can do without a namespace for users, in which it could not enter the directories of other users.
pub static UNSHARE: LazyLock<Option<&str>> = LazyLock::new(|| {
    let works = |options: &&str| {
        let mut mount = Command::new("unshare");
        mount.args([options, "sh", "-c", "mount -t tmpfs -o size=64k none /tmp"]);
        mount.output().is_ok_and(|run| run.status.success())
    };
    ["-m", "-Urm"].into_iter().find(works)
});

/// Whether this process can make a namespace and mount file systems in it.
pub fn has_namespaces() -> bool {
    let works = UNSHARE.is_some();
    if !works {
        skip_unless(
            "OFFLOAD_REQUIRE_NAMESPACES",
            "full disks and read-only directories",
            "no file systems can be mounted",
        );
    }
    works
}

/// Every command line that reads one file, given as `FILE`, and writes to `out`.
fn readers() -> Vec<Vec<&'static str>> {
    [
        "-type=bc -list -input=FILE",
        "-type=o -list -input=FILE",
        "-type=a -list -input=FILE",
        "-type=bc -unbundle -targets=hip-amdgcn-amd-amdhsa--gfx906 -input=FILE -output=out",
        "-type=a -unbundle -targets=hip-amdgcn-amd-amdhsa--gfx906 -input=FILE -output=out",
        "-type=bc -targets=host-x86_64-unknown-linux-gnu- -input=FILE -output=out",
        "-type=o -targets=host-x86_64-unknown-linux-gnu- -input=FILE -output=out",
        "package FILE --image=arch=gfx906,file=out",
        "package -o out --image=file=FILE,triple=amdgcn-amd-amdhsa",
        "inspect FILE",
        "inspect --inflate --json FILE",
        "verify FILE",
        "extract FILE -o out",
        "kernels FILE",
        "diff FILE /dev/null",
        "recompress FILE -o out",
    ]
    .iter()
    .map(|line| line.split(' ').collect())
    .collect()
}

/// Returns the words of a command line on a file.
fn on(file: &str, line: &[&str]) -> Vec<String> {
    line.iter().map(|word| word.replace("FILE", file)).collect()
}

fn words(line: &[String]) -> Vec<&str> {
    line.iter().map(String::as_str).collect()
}

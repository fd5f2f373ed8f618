//! A file that claims much, with the command line that reads it and its limits.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::machine::{llvm_directory, memory_directory};
use crate::measured::{self, Run};

pub const MB: u64 = 1 << 20;

/// The processor time after which a tool counts as hanging.
const HANGS: Duration = Duration::from_secs(40);

/// The processor time that our tool may take for a bomb.
const TIME: Duration = Duration::from_secs(20);

/// A file that claims large amounts of data, and the command line to run on it.
pub struct Bomb {
    name: &'static str,
    called: &'static str,
    args: Vec<String>,
    own_args: Vec<String>,
    dir: tempfile::TempDir,
    files: usize,
    memory: u64,
}

/// Whether measurements are printed.
pub fn is_asked_for() -> bool {
    std::env::var_os("OFFLOAD_MEASURE").is_some_and(|value| value == "1")
}

impl Bomb {
    pub fn new(name: &'static str, args: &[&str]) -> Self {
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        let dir = memory_directory();
        Self { name, called: "clang-offload-bundler", args, own_args: vec![], dir, files: 0, memory: 64 * MB }
    }

    pub fn packager(mut self) -> Self {
        self.called = "llvm-offload-binary";
        self
    }

    pub fn file(mut self, name: &str, data: Vec<u8>) -> Self {
        fs::write(self.dir.path().join(name), data).unwrap();
        self.files += 1;
        self
    }

    /// Keeps the files on the disk: in memory, the holes of a mapped file count as memory of whoever reads them. To be
    /// called before files are added.
    pub fn on_disk(mut self) -> Self {
        self.dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        self
    }

    /// Adds an argument that LLVM's tools do not have.
    pub fn own_arg(mut self, arg: &str) -> Self {
        self.own_args.push(arg.to_owned());
        self
    }

    /// Sets the memory limit; 64 MiB by default.
    pub fn memory(mut self, most: u64) -> Self {
        self.memory = most;
        self
    }

    /// Expects status 1 and this message, no output and no files.
    pub fn fails(self, text: &str) {
        let run = self.run();
        assert_eq!(run.status, Some(1), "{}: {}", self.name, run.stderr);
        assert!(run.stderr.contains(text), "{}: {}", self.name, run.stderr);
        assert!(run.stdout.is_empty(), "{}: {}", self.name, run.stdout);
        assert!(run.stderr.len() < 1000, "{}: {}", self.name, run.stderr);
        self.check_files(self.files);
    }

    /// Expects success and this output.
    pub fn succeeds(self, text: &str) {
        let run = self.run();
        assert_eq!((run.status, run.stdout.trim_end()), (Some(0), text), "{}: {}", self.name, run.stderr);
        self.check_files(self.files);
    }

    /// Expects success and one written file.
    pub fn ends_well(self) {
        let run = self.run();
        assert_eq!(run.status, Some(0), "{}: {}", self.name, run.stderr);
        self.check_files(self.files + 1);
    }

    /// Expects status 1 and this output.
    pub fn finds(self, text: &str) {
        let run = self.run();
        assert_eq!(run.status, Some(1), "{}: {}", self.name, run.stderr);
        assert!(run.stdout.contains(text), "{}: {:.2000}", self.name, run.stdout);
        self.check_files(self.files);
    }

    /// Expects status 1 and this message beside a report, and no files.
    pub fn reports(self, text: &str) {
        let run = self.run();
        assert_eq!(run.status, Some(1), "{}: {}", self.name, run.stderr);
        assert!(run.stderr.contains(text), "{}: {}", self.name, run.stderr);
        self.check_files(self.files);
    }

    /// Expects either success or a normal failure.
    pub fn ends(self) {
        let run = self.run();
        assert!(matches!(run.status, Some(0 | 1)), "{}: {}", self.name, run.stderr);
    }

    fn check_files(&self, expected: usize) {
        assert_eq!(self.files().len(), expected, "{}: files are left", self.name);
    }

    /// Runs our tool and checks the limits.
    fn run(&self) -> Run {
        let ours = Path::new(env!("CARGO_BIN_EXE_clang-offload-bundler"));
        let run = self.run_tool(ours, &[self.args.as_slice(), &self.own_args].concat());
        if is_asked_for() {
            self.report(&run);
        }
        assert!(run.took < TIME, "{}: {:?}", self.name, run.took);
        assert!(run.peak < self.memory, "{}: {} MB", self.name, run.peak / MB);
        run
    }

    /// Prints the measurements of both tools, and removes the files of LLVM's.
    fn report(&self, run: &Run) {
        let ours = self.files();
        let theirs = llvm_directory().join(self.called);
        let theirs = theirs.exists().then(|| describe(&self.run_tool(&theirs, &self.args)));
        let input = ours.iter().map(|path| path.metadata().unwrap().len()).max();
        let (input, theirs) = (input.unwrap_or_default(), theirs.unwrap_or_default());
        println!("| {} | {input} | {} | {theirs} |", self.name, describe(run));
        for path in self.files().difference(&ours) {
            fs::remove_file(path).unwrap();
        }
    }

    fn files(&self) -> BTreeSet<PathBuf> {
        fs::read_dir(self.dir.path()).unwrap().map(|file| file.unwrap().path()).collect()
    }

    fn run_tool(&self, program: &Path, args: &[String]) -> Run {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        measured::run(program, self.called, &args, self.dir.path(), HANGS)
    }
}

/// Formats a cell of the printed table.
fn describe(run: &Run) -> String {
    let first = run.stderr.lines().next().unwrap_or_default();
    let outcome = match (run.status, run.signal) {
        (Some(0), _) => "status 0".to_owned(),
        (Some(_), _) if first.is_empty() => "error".to_owned(),
        (Some(status), _) => format!("status {status}: {}", first.rsplit("error: ").next().unwrap_or(first)),
        (None, Some(9)) => "hangs".to_owned(),
        (None, signal) => format!("crash (signal {})", signal.unwrap_or_default()),
    };
    let outcome: String = outcome.chars().take(160).collect();
    format!("{outcome} | {:.2} s | {} MB", run.took.as_secs_f64(), run.peak / MB)
}

//! One run of a tool on one bomb, measured from outside.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::measured::{self, Run};

pub const MB: u64 = 1 << 20;

/// How long a tool may take before it counts as hanging.
const HANGS: Duration = Duration::from_secs(if cfg!(debug_assertions) { 60 } else { 20 });

/// A file that claims much, and what is asked of it.
pub struct Bomb {
    name: &'static str,
    called: &'static str,
    args: Vec<String>,
    own_args: Vec<String>,
    dir: tempfile::TempDir,
    files: usize,
    memory: u64,
}

/// Whether figures are to be printed.
pub fn is_asked_for() -> bool {
    std::env::var_os("OFFLOAD_MEASURE").is_some_and(|value| value == "1")
}

impl Bomb {
    pub fn new(name: &'static str, args: &[&str]) -> Self {
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        let dir = tempfile::tempdir().unwrap();
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

    /// An argument that LLVM's tools do not know.
    pub fn own_arg(mut self, arg: &str) -> Self {
        self.own_args.push(arg.to_owned());
        self
    }

    /// The memory that it may take; 64 MiB unless said.
    pub fn memory(mut self, most: u64) -> Self {
        self.memory = most;
        self
    }

    /// It fails with status 1, says this, prints and leaves nothing.
    pub fn fails(self, text: &str) {
        let run = self.run();
        assert_eq!(run.status, Some(1), "{}: {}", self.name, run.stderr);
        assert!(run.stderr.contains(text), "{}: {}", self.name, run.stderr);
        assert!(run.stdout.is_empty(), "{}: {}", self.name, run.stdout);
        assert!(run.stderr.len() < 1000, "{}: {}", self.name, run.stderr);
        self.check_files(self.files);
    }

    /// It succeeds and prints this.
    pub fn succeeds(self, text: &str) {
        let run = self.run();
        assert_eq!((run.status, run.stdout.trim_end()), (Some(0), text), "{}: {}", self.name, run.stderr);
        self.check_files(self.files);
    }

    /// It succeeds and writes one file.
    pub fn ends_well(self) {
        let run = self.run();
        assert_eq!(run.status, Some(0), "{}: {}", self.name, run.stderr);
        self.check_files(self.files + 1);
    }

    /// It fails with status 1 and prints this; how long that takes.
    pub fn finds(self, text: &str) -> Duration {
        let run = self.run();
        assert_eq!(run.status, Some(1), "{}: {}", self.name, run.stderr);
        assert!(run.stdout.contains(text), "{}: {:.2000}", self.name, run.stdout);
        self.check_files(self.files);
        run.took
    }

    /// It ends in one way or the other.
    pub fn ends(self) {
        let run = self.run();
        assert!(matches!(run.status, Some(0 | 1)), "{}: {}", self.name, run.stderr);
    }

    fn check_files(&self, expected: usize) {
        assert_eq!(self.files().len(), expected, "{}: files are left", self.name);
    }

    /// Runs our tool, and holds it to the limits.
    fn run(&self) -> Run {
        let ours = Path::new(env!("CARGO_BIN_EXE_clang-offload-bundler"));
        let run = self.run_tool(ours, &[self.args.as_slice(), &self.own_args].concat());
        if is_asked_for() {
            self.report(&run);
        }
        assert!(run.took < HANGS / 2, "{}: {:?}", self.name, run.took);
        assert!(run.peak < self.memory, "{}: {} MB", self.name, run.peak / MB);
        run
    }

    /// Prints what it cost, and what the same costs LLVM's tool, of which nothing is left.
    fn report(&self, run: &Run) {
        let ours = self.files();
        let theirs = PathBuf::from("/usr/lib/llvm-22/bin").join(self.called);
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

/// One cell of the table that people read.
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

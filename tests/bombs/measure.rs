//! One run of a tool on one bomb, measured from outside.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};

pub const MB: u64 = 1 << 20;

/// The variable that makes the test `measured_run` a run of the program that it names.
const PROGRAM: &str = "OFFLOAD_BOMB_PROGRAM";

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

/// What a run was like.
struct Run {
    /// None if it was killed or had to be stopped.
    status: Option<i32>,
    stdout: String,
    stderr: String,
    /// Of the process that died, if it did.
    signal: Option<i32>,
    took: Duration,
    peak: u64,
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
        assert_eq!(fs::read_dir(self.dir.path()).unwrap().count(), expected, "{}: files are left", self.name);
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

    fn report(&self, run: &Run) {
        let theirs = PathBuf::from("/usr/lib/llvm-22/bin").join(self.called);
        let theirs = theirs.exists().then(|| self.run_tool(&theirs, &self.args).describe());
        let input = fs::read_dir(self.dir.path()).unwrap().map(|file| file.unwrap().metadata().unwrap().len()).max();
        let (input, theirs) = (input.unwrap_or_default(), theirs.unwrap_or_default());
        println!("| {} | {input} | {} | {theirs} |", self.name, run.describe());
        let known = |name: &std::ffi::OsStr| name == "in" || name.len() < 4 || name == "leaf";
        for file in fs::read_dir(self.dir.path()).unwrap().map(Result::unwrap) {
            if !known(&file.file_name()) || file.file_name() == "out" {
                drop(fs::remove_file(file.path()));
            }
        }
    }

    fn run_tool(&self, program: &Path, args: &[String]) -> Run {
        let aside = tempfile::tempdir().unwrap();
        let [out, err, cost] = ["out", "err", "cost"].map(|name| aside.path().join(name));
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "measure::measured_run", "--nocapture"]).args(["--test-threads=1"]);
        command.env(PROGRAM, program).env("OFFLOAD_BOMB_CALLED", self.called).env("OFFLOAD_BOMB_DIR", aside.path());
        command.env("OFFLOAD_BOMB_ARGS", args.join("\u{1f}")).current_dir(self.dir.path());
        let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
        assert!(status.success(), "{}: the measuring process failed", self.name);
        let cost = fs::read_to_string(cost).unwrap();
        let numbers: Vec<i64> = cost.split_whitespace().map(|number| number.parse().unwrap()).collect();
        let [status, signal, millis, peak] = numbers[..] else { panic!("{cost}") };
        let text = |path| String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned();
        Run {
            status: i32::try_from(status).ok().filter(|&status| status >= 0),
            signal: i32::try_from(signal).ok().filter(|&signal| signal > 0),
            stdout: text(out),
            stderr: text(err),
            took: Duration::from_millis(millis.unsigned_abs()),
            peak: peak.unsigned_abs() * 1024,
        }
    }
}

impl Run {
    fn describe(&self) -> String {
        let first = self.stderr.lines().next().unwrap_or_default();
        let outcome = match (self.status, self.signal) {
            (Some(0), _) => "status 0".to_owned(),
            (Some(_), _) if first.is_empty() => "error".to_owned(),
            (Some(status), _) => format!("status {status}: {}", first.rsplit("error: ").next().unwrap_or(first)),
            (None, Some(9)) => "hangs".to_owned(),
            (None, signal) => format!("crash (signal {})", signal.unwrap_or_default()),
        };
        let outcome: String = outcome.chars().take(160).collect();
        format!("{outcome} | {:.2} s | {} MB", self.took.as_secs_f64(), self.peak / MB)
    }
}

/// Not a test, but the process that runs one program and waits for it: the operating system tells the peak memory of a
/// process only to its parent, and to a parent of several only the largest.
#[test]
fn measured_run() {
    use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
    let Some(program) = std::env::var_os(PROGRAM) else { return };
    let variable = |name: &str| std::env::var(name).unwrap();
    let dir = PathBuf::from(variable("OFFLOAD_BOMB_DIR"));
    let file = |name: &str| fs::File::create(dir.join(name)).unwrap();
    // What takes more address space than this would take the machine down.
    nix::sys::resource::setrlimit(nix::sys::resource::Resource::RLIMIT_AS, 12 << 30, 12 << 30).unwrap();
    let mut command = Command::new(program);
    command.arg0(variable("OFFLOAD_BOMB_CALLED")).args(variable("OFFLOAD_BOMB_ARGS").split('\u{1f}'));
    let started = Instant::now();
    let mut child = command.stdout(file("out")).stderr(file("err")).spawn().unwrap();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if started.elapsed() > HANGS {
            child.kill().unwrap();
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let took = started.elapsed().as_millis();
    let peak = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap().max_rss();
    let (code, signal) = (status.code().unwrap_or(-1), status.signal().unwrap_or(0));
    fs::write(dir.join("cost"), format!("{code} {signal} {took} {peak}")).unwrap();
}

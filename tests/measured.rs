//! Runs a program and measures its time and peak memory, independent of other tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, UsageWho, getrusage, setrlimit};

/// The variable that makes the test `measured_run` run the program that it names.
const PROGRAM: &str = "OFFLOAD_MEASURED_PROGRAM";

/// The separator of arguments in a variable.
const SEPARATOR: char = '\u{1f}';

/// The exit status of a program, and its cost.
pub struct Run {
    /// `None` if a signal ended the program.
    pub status: Option<i32>,
    pub signal: Option<i32>,
    pub stdout: String,
    pub stderr: String,
    /// Wall-clock time.
    pub took: Duration,
    /// Processor time in user mode.
    pub user: Duration,
    /// Peak memory in bytes.
    pub peak: u64,
}

/// Runs a program under the name `called`, with empty input, and kills it after `limit`.
pub fn run(program: &Path, called: &str, args: &[&str], dir: &Path, limit: Duration) -> Run {
    let aside = tempfile::tempdir().unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "measured::measured_run", "--nocapture", "--test-threads=1"]).current_dir(dir);
    command.env(PROGRAM, program).env("OFFLOAD_MEASURED_CALLED", called).env("OFFLOAD_MEASURED_DIR", aside.path());
    command.env("OFFLOAD_MEASURED_LIMIT", limit.as_secs().to_string());
    command.env("OFFLOAD_MEASURED_ARGS", args.join(&SEPARATOR.to_string()));
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
    assert!(status.success(), "the measuring process failed: {args:?}");
    let text = |name: &str| String::from_utf8_lossy(&fs::read(aside.path().join(name)).unwrap()).into_owned();
    let cost = text("cost");
    let numbers: Vec<i64> = cost.split_whitespace().map(|number| number.parse().unwrap()).collect();
    let [status, signal, took, user, peak] = numbers[..] else { panic!("{cost}") };
    Run {
        status: i32::try_from(status).ok().filter(|&status| status >= 0),
        signal: i32::try_from(signal).ok().filter(|&signal| signal > 0),
        stdout: text("out"),
        stderr: text("err"),
        took: Duration::from_micros(took.unsigned_abs()),
        user: Duration::from_micros(user.unsigned_abs()),
        peak: peak.unsigned_abs() * 1024,
    }
}

/// Not a test, but a process that runs one program and waits for it. The operating system reports to a parent only the
/// total time of its children and the peak memory of the largest one.
#[test]
fn measured_run() {
    use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
    let Some(program) = std::env::var_os(PROGRAM) else { return };
    let variable = |name: &str| std::env::var(format!("OFFLOAD_MEASURED_{name}")).unwrap();
    let limit = Duration::from_secs(variable("LIMIT").parse().unwrap());
    let dir = PathBuf::from(variable("DIR"));
    let file = |name: &str| fs::File::create(dir.join(name)).unwrap();
    // A larger address space could exhaust the memory of the machine.
    setrlimit(Resource::RLIMIT_AS, 12 << 30, 12 << 30).unwrap();
    let mut command = Command::new(program);
    command.arg0(variable("CALLED")).args(variable("ARGS").split(SEPARATOR));
    let started = Instant::now();
    let mut child = command.stdout(file("out")).stderr(file("err")).spawn().unwrap();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if started.elapsed() > limit {
            child.kill().unwrap();
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let took = started.elapsed().as_micros();
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap();
    let (user, peak) = (usage.user_time(), usage.max_rss());
    let user = user.tv_sec() * 1_000_000 + user.tv_usec();
    let (code, signal) = (status.code().unwrap_or(-1), status.signal().unwrap_or(0));
    fs::write(dir.join("cost"), format!("{code} {signal} {took} {user} {peak}")).unwrap();
}

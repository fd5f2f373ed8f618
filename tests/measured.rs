//! Runs a program and measures its time and peak memory, independent of other tests.

use crate::machine::memory_directory;
use std::fs;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, UsageWho, getrusage, setrlimit};
use nix::sys::time::{TimeVal, TimeValLike as _};
use nix::time::{clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;

/// The variable that makes the test `measured_run` run the program that it names.
const PROGRAM: &str = "OFFLOAD_MEASURED_PROGRAM";

/// The separator of arguments in a variable.
const SEPARATOR: char = '\u{1f}';

/// How long a program may wait for others: only one that hangs is still there after that, on a busy machine too.
const WATCHDOG: Duration = Duration::from_secs(600);

/// Waits for the end of a program, or ends it after this much processor time, or if it hangs without using any.
pub fn wait(child: &mut Child, most: Duration) -> Option<ExitStatus> {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        let elapsed = started.elapsed();
        // On several processors, the processor time can exceed the elapsed time.
        if elapsed > WATCHDOG || (elapsed > most / 16 && processor_time(child.id()) > most) {
            child.kill().unwrap();
            child.wait().unwrap();
            return None;
        }
        std::thread::sleep(Duration::from_micros(700));
    }
}

/// The processor time of a running process, in user mode and for the system; zero where `/proc` does not say it.
fn processor_time(process: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).map(|field| field.parse::<u64>().unwrap()).sum();
    Duration::from_millis(ticks * 10)
}

/// Runs a program with empty input and returns its processor time, or ends it after this much. Its messages are shown
/// if its status is neither 0 nor 1. Unlike `run`, this needs no process between, and cannot tell the peak memory.
pub fn time(program: &Path, args: &[&str], dir: &Path, most: Duration) -> Duration {
    use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
    let mut messages = tempfile::tempfile().unwrap();
    let mut command = Command::new(program);
    command.args(args).current_dir(dir).env("TMPDIR", dir).stdin(Stdio::null()).stdout(Stdio::null());
    let mut child = command.stderr(messages.try_clone().unwrap()).spawn().unwrap();
    let process = Pid::from_raw(child.id().try_into().unwrap());
    // A process that ended keeps its clock until it is waited for.
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT | WaitPidFlag::WNOHANG;
    let clock = clock_getcpuclockid(process).unwrap();
    let started = Instant::now();
    while waitid(Id::Pid(process), flags).unwrap() == WaitStatus::StillAlive {
        if started.elapsed() > WATCHDOG || Duration::from(clock_gettime(clock).unwrap()) > most {
            child.kill().unwrap();
        }
        std::thread::sleep(Duration::from_micros(700));
    }
    let took = clock_gettime(clock).unwrap().into();
    let status = child.wait().unwrap();
    let mut text = String::new();
    messages.seek(SeekFrom::Start(0)).unwrap();
    messages.read_to_string(&mut text).unwrap();
    assert!(matches!(status.code(), Some(0 | 1)), "{args:?}: {status} {text}");
    took
}

/// The processor time of this thread.
pub fn thread_time() -> Duration {
    let usage = getrusage(UsageWho::RUSAGE_THREAD).unwrap();
    duration(usage.user_time()) + duration(usage.system_time())
}

fn duration(time: TimeVal) -> Duration {
    Duration::from_micros(time.num_microseconds().unsigned_abs())
}

/// The exit status of a program, and its cost.
pub struct Run {
    /// `None` if a signal ended the program.
    pub status: Option<i32>,
    pub signal: Option<i32>,
    pub stdout: String,
    pub stderr: String,
    /// Processor time, in user mode and for the system.
    pub took: Duration,
    /// Peak memory in bytes.
    pub peak: u64,
}

/// Runs a program under the name `called`, with empty input, and kills it after `limit` of processor time. Its
/// temporary files are in `dir` too.
pub fn run(program: &Path, called: &str, args: &[&str], dir: &Path, limit: Duration) -> Run {
    let aside = memory_directory();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "measured::measured_run", "--nocapture", "--test-threads=1"]).current_dir(dir);
    command
        .env("TMPDIR", dir)
        .env(PROGRAM, program)
        .env("OFFLOAD_MEASURED_CALLED", called)
        .env("OFFLOAD_MEASURED_DIR", aside.path());
    command.env("OFFLOAD_MEASURED_LIMIT", limit.as_secs().to_string());
    command.env("OFFLOAD_MEASURED_ARGS", args.join(&SEPARATOR.to_string()));
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
    assert!(status.success(), "the measuring process failed: {args:?}");
    let text = |name: &str| String::from_utf8_lossy(&fs::read(aside.path().join(name)).unwrap()).into_owned();
    let cost = text("cost");
    let numbers: Vec<i64> = cost.split_whitespace().map(|number| number.parse().unwrap()).collect();
    let [status, signal, took, peak] = numbers[..] else { panic!("{cost}") };
    Run {
        status: i32::try_from(status).ok().filter(|&status| status >= 0),
        signal: i32::try_from(signal).ok().filter(|&signal| signal > 0),
        stdout: text("out"),
        stderr: text("err"),
        took: Duration::from_micros(took.unsigned_abs()),
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
    let mut child = command.stdout(file("out")).stderr(file("err")).spawn().unwrap();
    let status = wait(&mut child, limit);
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap();
    let (took, peak) = (duration(usage.user_time()) + duration(usage.system_time()), usage.max_rss());
    let code = status.and_then(|status| status.code()).unwrap_or(-1);
    let signal = status.map_or(Some(9), |status| status.signal()).unwrap_or(0);
    fs::write(dir.join("cost"), format!("{code} {signal} {} {peak}", took.as_micros())).unwrap();
}

//! Runs a program and measures its processor time and peak memory, independent of what else the machine does.

use std::fs;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::{TimeVal, TimeValLike as _};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::time::{clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;

/// How long a program may wait for others: only one that hangs is still there after that, on a busy machine too.
const WATCHDOG: Duration = Duration::from_secs(600);

/// The peak memory in bytes after which a program is killed.
const MEMORY_MAX: u64 = 12 << 30;

/// The time between two looks at a running program.
const STEP: Duration = Duration::from_micros(700);

/// Waits for the end of a program, or ends it after this much processor time, or if it hangs without using any.
pub fn wait(child: &mut Child, most: Duration) -> Option<ExitStatus> {
    let (_, _, is_killed) = watch(child, most);
    let status = child.wait().unwrap();
    if is_killed { None } else { Some(status) }
}

/// Waits until a program ends, or kills it. Returns its processor time, its peak memory in bytes, and whether it was
/// killed. The program has still to be waited for.
///
/// The peak is the last one that was seen, so it may lack what the program took within the last millisecond.
fn watch(child: &mut Child, most: Duration) -> (Duration, u64, bool) {
    let process = Pid::from_raw(child.id().try_into().unwrap());
    // A process that ended keeps its clock until it is waited for.
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT | WaitPidFlag::WNOHANG;
    let clock = clock_getcpuclockid(process).unwrap();
    let took = || Duration::from(clock_gettime(clock).unwrap());
    let (started, mut peak, mut is_killed) = (Instant::now(), 0, false);
    while waitid(Id::Pid(process), flags).unwrap() == WaitStatus::StillAlive {
        peak = peak_memory(child.id()).unwrap_or(peak);
        if !is_killed && (started.elapsed() > WATCHDOG || took() > most || peak > MEMORY_MAX) {
            child.kill().unwrap();
            is_killed = true;
        }
        std::thread::sleep(STEP);
    }
    (took(), peak, is_killed)
}

/// Returns the peak memory of a running process in bytes, or `None` if it has ended.
fn peak_memory(process: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().unwrap() * 1024)
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

/// Runs a program under the name `called`, with empty input, and kills it after `most` of processor time. Its temporary
/// files are in `dir` too.
pub fn run(program: &Path, called: &str, args: &[&str], dir: &Path, most: Duration) -> Run {
    let mut outputs = [(); 2].map(|()| tempfile::tempfile().unwrap());
    let [stdout, stderr] = outputs.each_ref().map(|output| output.try_clone().unwrap());
    let mut command = Command::new(program);
    command.arg0(called).args(args).current_dir(dir).env("TMPDIR", dir);
    let mut child = command.stdin(Stdio::null()).stdout(stdout).stderr(stderr).spawn().unwrap();
    let (took, peak, _) = watch(&mut child, most);
    let status = child.wait().unwrap();
    let [stdout, stderr] = outputs.each_mut().map(|output| {
        let mut text = Vec::new();
        output.seek(SeekFrom::Start(0)).unwrap();
        output.read_to_end(&mut text).unwrap();
        String::from_utf8_lossy(&text).into_owned()
    });
    Run { status: status.code(), signal: status.signal(), stdout, stderr, took, peak }
}

#[test]
fn time_and_peak_memory_are_those_of_the_program_alone() {
    let dir = std::env::temp_dir();
    let run = |program: &str, args: &[&str]| run(program.as_ref(), program, args, &dir, Duration::from_secs(60));
    let large = run("dd", &["if=/dev/zero", "of=/dev/null", "bs=300M", "count=2"]);
    assert_eq!(large.status, Some(0), "{}", large.stderr);
    assert!((250 << 20..400 << 20).contains(&large.peak), "{}", large.peak);
    let small = run("sleep", &["0.1"]);
    assert!(small.peak < 20 << 20 && small.took < Duration::from_millis(100), "{} {:?}", small.peak, small.took);
}

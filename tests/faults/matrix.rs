//! Injects a fault or a kill into every system call of a run, with `strace`.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::scenario::{Files, OLD, Place, Scenario, has_unnamed_files};
use crate::lists::{hash_of, is_in_share, share_out};
use crate::machine::skipped;

/// The possible failures of system calls, in the notation of `strace`. Other calls cannot fail (`exit_group`), or
/// belong to the runtime (`futex`).
const FAULTS: &[(&[&str], &[&str])] = &[
    (&["open", "openat", "creat"], &["error=EACCES", "error=EMFILE", "error=ENOSPC", "error=EIO", "error=EINTR"]),
    (&["read", "pread64", "readv"], &["error=EIO", "error=EINTR", "retval=0"]),
    (&["write", "pwrite64", "writev"], &["error=ENOSPC", "error=EIO", "error=EINTR", "error=EDQUOT", "retval=0"]),
    (&["copy_file_range", "sendfile"], &["error=EIO", "error=ENOSPC", "error=EXDEV", "error=EINTR", "retval=0"]),
    (&["mmap"], &["error=ENOMEM", "error=ENODEV"]),
    (&["ftruncate", "fallocate"], &["error=EIO", "error=ENOSPC"]),
    (&["fchmod", "fchown", "fchmodat", "fchownat", "chmod"], &["error=EPERM", "error=EIO"]),
    (&["link", "linkat"], &["error=EEXIST", "error=ENOENT", "error=EACCES", "error=ENOSPC"]),
    (&["rename", "renameat", "renameat2"], &["error=EINVAL", "error=EACCES", "error=ENOSPC", "error=EIO"]),
    (&["unlink", "unlinkat"], &["error=EIO"]),
    (&["lseek", "fdatasync", "fsync"], &["error=EIO"]),
    (
        &["stat", "fstat", "lstat", "newfstatat", "statx", "access", "readlink", "readlinkat"],
        &["error=EIO", "error=EACCES"],
    ),
    (&["close"], &["error=EIO", "error=EINTR"]),
    (&["fcntl", "dup"], &["error=EMFILE"]),
    (&["clone", "clone3"], &["error=EAGAIN"]),
    (&["rt_sigaction", "prlimit64", "getcwd", "madvise", "sysinfo"], &["error=EPERM"]),
];

/// Failures that the program treats alike: each call gets one of those that it can return.
const ALIKE: [&str; 5] = ["error=EACCES", "error=ENOSPC", "error=EIO", "error=EDQUOT", "error=EPERM"];

/// The guarantee that a failure broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// Status 0 although an output is incomplete.
    FalseSuccess,
    /// The old content of an output is lost, and there is no new content.
    LostOld,
    /// An output is neither old nor new.
    Partial,
    /// An output is new, although the run failed before it puts outputs in place.
    Early,
    /// Files other than the outputs are left.
    Leftover,
    /// A status other than 0 and 1.
    Crash,
    /// No message names a file and the cause.
    Message,
}

/// A system call of a run without faults.
struct Call {
    name: String,
    /// The number of the call in its thread among calls of the same name, from 1.
    number: usize,
    /// The number without the calls before the first that touches an input: how many there are depends on the machine.
    place: usize,
    line: String,
}

impl Call {
    fn changes_a_file(&self) -> bool {
        let changing =
            ["write", "copy", "sendfile", "trunc", "falloc", "ch", "link", "rename", "creat", "mkdir", "rmdir"];
        let creates = || ["O_CREAT", "O_TMPFILE", "O_TRUNC"].iter().any(|flag| self.line.contains(flag));
        changing.iter().any(|part| self.name.contains(part)) || creates()
    }

    /// The call without numbers, and without the bytes that it moves.
    fn shape(&self) -> String {
        let of_bytes =
            if ["read", "pread64", "write", "pwrite64"].contains(&self.name.as_str()) { "\"[^\"]*\"|" } else { "" };
        let numbers = regex_lite::Regex::new(&format!("{of_bytes}0x[0-9a-f]+|[0-9]+")).unwrap();
        numbers.replace_all(&self.line, "N").into_owned()
    }
}

/// A scenario, its calls, and its results without faults.
struct Clean {
    calls: Vec<Call>,
    outputs: Files,
    stdout: Vec<u8>,
}

/// A run with one fault.
struct Fault {
    scenario: usize,
    /// The index of the call.
    call: usize,
    /// The fault to inject, in the notation of `strace`.
    what: &'static str,
}

/// The results of many runs.
#[derive(Default)]
pub struct Tally {
    /// The number of possible faults. Only a sample of them may be injected.
    pub listed: usize,
    pub runs: usize,
    /// The number of runs with an injected fault.
    pub injected: usize,
    pub time: BTreeMap<&'static str, Duration>,
    pub harmless: usize,
    pub orderly: usize,
    /// The number of runs that left the name of a temporary file.
    pub names_left: usize,
    /// The broken guarantees of each run that broke any.
    pub broken: Vec<Vec<Broken>>,
    /// Descriptions of these runs.
    pub examples: Vec<String>,
}

impl Tally {
    /// The number of runs that broke any of these guarantees.
    pub fn count(&self, any_of: &[Broken]) -> usize {
        self.broken.iter().filter(|broken| broken.iter().any(|broken| any_of.contains(broken))).count()
    }
}

/// Whether `strace` is usable. If it is required but not usable, the test fails.
pub fn has_strace() -> bool {
    let works = Command::new("strace").args(["-o", "/dev/null", "true"]).output().is_ok_and(|run| run.status.success());
    if !works {
        assert!(std::env::var("OFFLOAD_REQUIRE_STRACE").as_deref() != Ok("1"), "strace is required and does not work");
        skipped("strace is not installed or not allowed here; no faults are injected", Some("packages"));
    }
    works
}

/// Runs a scenario where closing the output reports a full disk, as network file systems do.
pub fn run_with_late_error(scenario: &Scenario, tool: &Path) -> (Place, Output) {
    let clean = Clean::of(scenario, tool);
    let opened = clean.calls.iter().position(|call| call.line.contains("O_TMPFILE")).unwrap();
    let (_, descriptor) = clean.calls[opened].line.rsplit_once(" = ").unwrap();
    let closes = |call: &&Call| call.line.contains(&format!("close({descriptor})"));
    let close = clean.calls[opened..].iter().find(closes).unwrap();
    let place = Place::new(scenario);
    let inject = format!("inject=close:error=ENOSPC:when={}", close.number);
    let run = strace(&place, scenario, tool, &["-f", "-qq", "-o", "/dev/null", "-e", "trace=close", "-e", &inject]);
    (place, run)
}

/// The kind of injected fault.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Injection {
    Errors,
    /// As `Errors`, on a file system without support for unnamed files.
    ErrorsWithNamedFiles,
    /// As `Errors`, in a run with several threads. Which of them makes the call differs between runs, and the fault
    /// meets each thread that makes as many calls of the name.
    ErrorsInThreads,
    Kills,
}

impl Injection {
    /// Returns the number of faults for each one that runs unless `OFFLOAD_COMPLETE=1` requests all: some hundreds of
    /// each kind run.
    fn share(self) -> usize {
        match self {
            Self::Errors => 10,
            Self::ErrorsWithNamedFiles | Self::ErrorsInThreads => 3,
            Self::Kills => 5,
        }
    }
}

/// Runs all scenarios with a fault in each of their calls.
pub fn run(scenarios: &[Scenario], tool: &Path, injection: Injection) -> Tally {
    let clean: Vec<Clean> = scenarios.iter().map(|scenario| Clean::of(scenario, tool)).collect();
    let mut faults = Vec::new();
    for (scenario, clean) in clean.iter().enumerate() {
        let last = clean.numbers();
        let differing = if injection == Injection::Kills { clean.states() } else { clean.shapes() };
        for (index, call) in differing.into_iter().map(|index| (index, &clean.calls[index])) {
            let is_in_sample = || moves_bytes(&call.name) && is_in_sample(call.number, &last[&call.name]);
            if scenarios[scenario].long && !is_in_sample() {
                continue;
            }
            let name = format!("{}: {} {}", scenarios[scenario].name, call.name, call.place);
            let whats = match injection {
                Injection::Kills => vec!["signal=KILL"],
                // Two are enough for scenarios that take long.
                _ if scenarios[scenario].long => errors_of(&call.name, &name).into_iter().take(2).collect(),
                _ => errors_of(&call.name, &name),
            };
            faults.extend(whats.into_iter().map(|what| Fault { scenario, call: index, what }));
        }
    }
    if injection == Injection::ErrorsWithNamedFiles {
        faults.retain(|fault| !clean[fault.scenario].calls[fault.call].name.starts_with("open"));
    }
    let listed = faults.len();
    faults.retain(|fault| {
        let (scenario, call) = (scenarios[fault.scenario].name, &clean[fault.scenario].calls[fault.call]);
        is_in_share(&format!("{scenario}: {} {} {}", call.name, call.place, fault.what), injection.share())
    });
    let tally = Mutex::new(Tally { listed, ..Tally::default() });
    share_out(faults, |faults| {
        for fault in faults {
            let (scenario, clean) = (&scenarios[fault.scenario], &clean[fault.scenario]);
            try_one(scenario, clean, &fault, tool, injection, &tally);
        }
    });
    tally.into_inner().unwrap()
}

/// Returns the failures of a call: one of those treated alike, chosen by the place of the call, and all others.
fn errors_of(name: &str, place: &str) -> Vec<&'static str> {
    let errors = FAULTS.iter().find(|(names, _)| names.contains(&name)).map_or(&[][..], |(_, errors)| errors);
    // Another tool may tell them apart.
    if std::env::var_os("OFFLOAD_FAULTS_TOOL").is_some() {
        return errors.to_vec();
    }
    let (alike, others): (Vec<_>, Vec<_>) = errors.iter().partition(|error| ALIKE.contains(error));
    let turn = hash_of(place) % alike.len().max(1);
    alike.get(turn).into_iter().copied().chain(others).collect()
}

/// Whether the number of calls depends on the length of the run.
fn moves_bytes(name: &str) -> bool {
    ["openat", "read", "pread64", "write", "copy_file_range", "mmap", "clone", "clone3", "linkat"].contains(&name)
}

/// Whether a call is in the sample: the first, some in the middle and the last of many.
fn is_in_sample(number: usize, (first, last): &(usize, usize)) -> bool {
    let middle = (first + last) / 2;
    number < first + 2 || number + 2 > *last || number == middle
}

impl Clean {
    fn of(scenario: &Scenario, tool: &Path) -> Self {
        let place = Place::new(scenario);
        let log = place.temporary.with_file_name("log");
        let run = strace(&place, scenario, tool, &["-f", "-s", "200", "-o", log.to_str().unwrap()]);
        assert!(run.status.success(), "{}: {}", scenario.name, String::from_utf8_lossy(&run.stderr));
        let log = std::fs::read_to_string(log).unwrap();
        let calls = calls(&log);
        assert!(calls.len() > 5, "{}: {log}", scenario.name);
        Self { calls, outputs: place.outputs(scenario), stdout: told(&run, &place) }
    }

    /// The first and last number of each call.
    fn numbers(&self) -> HashMap<String, (usize, usize)> {
        let mut numbers: HashMap<String, (usize, usize)> = HashMap::new();
        for call in &self.calls {
            let (first, last) = numbers.entry(call.name.clone()).or_insert((call.number, call.number));
            (*first, *last) = ((*first).min(call.number), (*last).max(call.number));
        }
        numbers
    }

    /// Returns the calls where a kill leaves other files than at the call before: calls that change a file, and the
    /// calls after them.
    fn states(&self) -> Vec<usize> {
        let is_new = |&index: &usize| index == 0 || self.calls[index - 1..=index].iter().any(Call::changes_a_file);
        (0..self.calls.len()).filter(is_new).collect()
    }

    /// Returns the first and the last of calls that differ only in numbers and in the bytes that they move: an error
    /// meets the program in the same state at each.
    fn shapes(&self) -> Vec<usize> {
        let mut shapes: BTreeMap<String, (usize, usize)> = BTreeMap::new();
        for (index, call) in self.calls.iter().enumerate() {
            shapes.entry(call.shape()).or_insert((index, index)).1 = index;
        }
        shapes.into_values().flat_map(|(first, last)| [first, last]).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Whether outputs may be in place at the call: it gives an output its name, or comes later. An output that is
    /// written in place is complete when it is synced.
    fn may_be_placed(&self, index: usize) -> bool {
        let is_placing = |call: &Call| match call.name.as_str() {
            name if name.starts_with("link") => !call.line.contains(".tmp\""),
            name => name.starts_with("rename") || name == "fdatasync",
        };
        self.calls.iter().position(is_placing).is_some_and(|first| first <= index)
    }

    /// Whether a kill at the call may leave a name: between giving a new file a name beside its old one and the rename.
    fn may_leave_a_name(&self, index: usize) -> bool {
        let is_temporary = |call: &Call| call.line.contains(".tmp\"");
        let is_linked = |call: &Call| is_temporary(call) && call.name.starts_with("link");
        let first = self.calls.iter().position(is_linked);
        let last = self.calls.iter().rposition(is_temporary);
        first.zip(last).is_some_and(|(first, last)| (first + 1..=last).contains(&index))
    }
}

/// The calls in a log from the first that touches an input. Earlier ones belong to the loader and the runtime.
fn calls(log: &str) -> Vec<Call> {
    let mut counts: HashMap<(&str, &str), usize> = HashMap::new();
    let mut calls: Vec<Call> = Vec::new();
    let mut touched = false;
    // The calls that the main thread has made before. Injections count in each thread, so lower numbers would hit
    // those.
    let mut before: HashMap<String, usize> = HashMap::new();
    for line in log.lines() {
        let Some((thread, call)) = line.split_once(' ') else { continue };
        let Some((name, arguments)) = call.trim_start().split_once('(') else { continue };
        if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            continue;
        }
        let number = counts.entry((thread, name)).or_insert(0);
        *number += 1;
        let number = *number;
        // Before `main`, the program asks whether standard input is open.
        let reads_standard_input = name == "fcntl" && arguments.starts_with("0,") && !arguments.contains("F_GETFD");
        touched |= name != "execve" && (arguments.contains("\"input") || reads_standard_input);
        // Calls of two threads with the same number are one injection.
        let is_new = || !calls.iter().any(|call| call.name == name && call.number == number);
        if !touched {
            before.insert(name.to_owned(), number);
        } else if number > before.get(name).copied().unwrap_or(0) && is_new() {
            let place = number - before.get(name).copied().unwrap_or(0);
            calls.push(Call { name: name.to_owned(), number, place, line: line.to_owned() });
        }
    }
    calls
}

/// Runs a scenario on one processor: strace counts the calls of each thread separately, so a fault would also hit the
/// thread that prints the message.
fn strace(place: &Place, scenario: &Scenario, tool: &Path, options: &[&str]) -> Output {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let (_, allowed) = status.split_once("Cpus_allowed_list:").unwrap();
    let processor: String = allowed.trim_start().chars().take_while(char::is_ascii_digit).collect();
    let mut command = place.command(scenario, Path::new("taskset"));
    command
        .args(["-c", &processor, "strace"])
        .args(options)
        .arg("--")
        .arg(tool)
        .args(&scenario.arguments)
        .output()
        .unwrap()
}

fn try_one(scenario: &Scenario, clean: &Clean, fault: &Fault, tool: &Path, injection: Injection, tally: &Mutex<Tally>) {
    let started = Instant::now();
    let place = Place::new(scenario);
    let call = &clean.calls[fault.call];
    let inject = format!("inject={}:{}:when={}", call.name, fault.what, call.number);
    let more = if injection == Injection::ErrorsWithNamedFiles { ",open,openat" } else { "" };
    let trace = format!("trace={}{more}", call.name);
    let log = place.temporary.with_file_name("log");
    let mut options = vec!["-f", "-qq", "-o", log.to_str().unwrap(), "-e", &trace, "-e", &inject];
    if injection != Injection::Kills {
        // This is faster, but strace 6.1 then forgets the signals.
        options.push("--seccomp-bpf");
    }
    let mut named = Vec::new();
    if injection == Injection::ErrorsWithNamedFiles {
        let unnamed = |call: &&Call| call.line.contains("O_TMPFILE");
        named.extend(
            clean
                .calls
                .iter()
                .filter(unnamed)
                .map(|call| format!("inject={}:error=EOPNOTSUPP:when={}", call.name, call.number)),
        );
    }
    assert!(injection != Injection::ErrorsWithNamedFiles || !named.is_empty(), "{}", scenario.name);
    options.extend(named.iter().flat_map(|inject| ["-e", inject]));
    let run = strace(&place, scenario, tool, &options);
    let outputs = place.outputs(scenario);
    let is_tidy = place.is_tidy();
    let log = std::fs::read_to_string(log).unwrap();
    let injected = log.contains("(INJECTED)");
    let mut broken = match injection {
        Injection::Kills => judge_kill(scenario, clean, fault.call, &outputs, is_tidy),
        _ => judge(scenario, clean, fault.call, &run, &place),
    };
    // The thread that prints the message may be met too.
    if log.lines().any(|line| line.contains("write(2, ") && line.contains("(INJECTED)")) {
        broken.retain(|&broken| broken != Broken::Message);
    }
    let mut tally = tally.lock().unwrap();
    tally.runs += 1;
    tally.names_left += usize::from(has_leftovers(clean, &outputs, is_tidy));
    tally.injected += usize::from(injected || run.status.signal() == Some(9));
    *tally.time.entry(scenario.name).or_default() += started.elapsed();
    match (run.status.code(), broken.is_empty()) {
        (Some(0), true) => tally.harmless += 1,
        (_, true) => tally.orderly += 1,
        _ => {
            let names: Vec<_> = outputs.iter().map(|(name, content)| format!("{name} ({})", content.len())).collect();
            let stderr = String::from_utf8_lossy(&run.stderr);
            let example = format!("{}: {inject}: {broken:?}: {}; {names:?}; {stderr}", scenario.name, run.status);
            tally.examples.push(example);
        }
    }
    tally.broken.extend(Some(broken).filter(|broken| !broken.is_empty()));
}

/// The state of an output after a run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Is {
    Old,
    New,
    Lost,
    Partial,
}

fn states(scenario: &Scenario, clean: &Clean, outputs: &Files) -> Vec<Is> {
    let state = |(name, new): (&String, &Vec<u8>)| {
        let was_there = scenario.old.contains(&name.as_str());
        match outputs.get(name) {
            None if !was_there => Is::Old,
            None => Is::Lost,
            Some(now) if was_there && now == OLD => Is::Old,
            Some(now) if now == new => Is::New,
            // The output was opened but not written: the old content is lost, or a new file is empty.
            Some(now) if now.is_empty() && was_there => Is::Lost,
            Some(_) => Is::Partial,
        }
    };
    clean.outputs.iter().map(state).collect()
}

fn has_leftovers(clean: &Clean, outputs: &Files, is_tidy: bool) -> bool {
    !is_tidy || outputs.keys().any(|name| !clean.outputs.contains_key(name))
}

fn judge(scenario: &Scenario, clean: &Clean, index: usize, run: &Output, place: &Place) -> Vec<Broken> {
    let (mut broken, call) = (Vec::new(), &clean.calls[index]);
    let (outputs, is_tidy) = (place.outputs(scenario), place.is_tidy());
    let states = states(scenario, clean, &outputs);
    let all = |state: Is| states.iter().all(|&is| is == state);
    let stderr = String::from_utf8_lossy(&run.stderr);
    let is_refusal = |text: &&str| stderr.contains(text);
    let out_of_memory = call.name == "mmap"
        && ["memory allocation of", "failed to allocate an alternative stack"].iter().any(is_refusal);
    match run.status.code() {
        Some(0) if !all(Is::New) || told(run, place) != clean.stdout => broken.push(Broken::FalseSuccess),
        Some(0) => {}
        // `verify` reports faults on standard output.
        Some(1)
            if !names_file_and_cause(&stderr)
                && ![&b" fault\n"[..], b" faults\n"].iter().any(|end| run.stdout.ends_with(end)) =>
        {
            broken.push(Broken::Message);
        }
        Some(1) => {}
        // Rust aborts if it runs out of memory. No output is in place at that point.
        _ if out_of_memory && all(Is::Old) => {}
        _ => broken.push(Broken::Crash),
    }
    if run.status.code() != Some(0) {
        broken.extend(states.contains(&Is::Lost).then_some(Broken::LostOld));
        broken.extend(states.contains(&Is::Partial).then_some(Broken::Partial));
        broken.extend((states.contains(&Is::New) && !clean.may_be_placed(index)).then_some(Broken::Early));
    }
    // If the removal itself fails, the file stays.
    if has_leftovers(clean, &outputs, is_tidy) && !call.name.starts_with("unlink") {
        broken.push(Broken::Leftover);
    }
    broken
}

/// The messages of a run, without the names of its directories.
fn told(run: &Output, place: &Place) -> Vec<u8> {
    match String::from_utf8(run.stdout.clone()) {
        Ok(text) => text.replace(place.work.to_str().unwrap(), "").into_bytes(),
        Err(_) => run.stdout.clone(),
    }
}

/// Whether an error or its note contains `'FILE': CAUSE`.
fn names_file_and_cause(stderr: &str) -> bool {
    let cause =
        |line: &str| line.split_once("': ").is_some_and(|(head, cause)| head.contains('\'') && !cause.is_empty());
    stderr.contains("error: ") && stderr.lines().any(cause)
}

fn judge_kill(scenario: &Scenario, clean: &Clean, index: usize, outputs: &Files, is_tidy: bool) -> Vec<Broken> {
    let mut broken = Vec::new();
    // An output that is written in place cannot be complete at every moment.
    if scenario.stdout.is_none() {
        let states = states(scenario, clean, outputs);
        broken.extend(states.contains(&Is::Lost).then_some(Broken::LostOld));
        broken.extend(states.contains(&Is::Partial).then_some(Broken::Partial));
    }
    if has_leftovers(clean, outputs, is_tidy) && has_unnamed_files() && !clean.may_leave_a_name(index) {
        broken.push(Broken::Leftover);
    }
    broken
}

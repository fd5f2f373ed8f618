//! Runs one command line with both tools and compares the results.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::time::Duration;

use super::view::view;
use super::{fork_server, llvm23 as rules_of_23, rules};
use crate::lists::{evenly_spread, is_complete, sample, share_out};
use crate::machine::{executable, llvm, llvm_directory, loud, memory_directory, skip_unless};
use crate::measured;

/// The name under which both tools are called, unless a case specifies another.
const NAME: &str = "clang-offload-bundler";

/// The processor time after which a tool counts as hanging, the same as in `fork_server.c`.
const PATIENCE: Duration = Duration::from_secs(20);

/// SIGPROF and SIGALRM, which the server stops a tool with.
const ALARMS: [i32; 2] = [27, 14];

/// The status for a tool that was stopped.
pub const HANGS: i32 = 1000;

/// The number of unexpected differences that are printed in full.
const SHOWN: usize = 25;

/// The number of cases of a list that run unless `OFFLOAD_COMPLETE=1` requests all.
const SAMPLE: usize = 50;

/// The number of cases of a list that run with LLVM 23 even then, if they all run with LLVM 22.
const SAMPLE_OF_23: usize = 100;

/// The release of LLVM's tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Release {
    #[default]
    Llvm22,
    Llvm23,
}

/// The two tools.
pub struct Tools {
    pub theirs: PathBuf,
    pub ours: PathBuf,
    pub release: Release,
}

impl Tools {
    /// Returns both bundlers. If LLVM 22 is not installed, prints that and returns `None`.
    pub fn find(test: &str) -> Option<Self> {
        Self::find_tool(test, NAME)
    }

    fn find_tool(test: &str, name: &str) -> Option<Self> {
        let theirs = llvm(test, &[name])?.join(name);
        Some(Self { theirs, ..Self::ours_alone() })
    }

    /// LLVM 23's bundler and ours. If LLVM 23 is not installed, prints that and returns none.
    pub fn find_23(test: &str) -> Option<Self> {
        let theirs = llvm23(test, &[NAME])?.join(NAME);
        Some(Self { theirs, release: Release::Llvm23, ..Self::ours_alone() })
    }

    /// Our bundler in both places.
    pub fn ours_alone() -> Self {
        let ours = executable();
        Self { theirs: ours.clone(), ours, release: Release::default() }
    }

    /// Returns both packagers. If LLVM 22 is not installed, prints that and returns `None`.
    pub fn find_packagers(test: &str) -> Option<Self> {
        Self::find_tool(test, "llvm-offload-binary")
    }
}

/// The directory of LLVM 23's tools: `LLVM23_BIN`, or where `.ci/install llvm23` installs them.
pub fn llvm23_directory() -> PathBuf {
    let installed = || {
        // Debian's pip adds a directory.
        let prefix = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/llvm23");
        ["local/bin", "bin"].map(|bin| prefix.join(bin)).into_iter().find(|bin| bin.exists()).unwrap_or(prefix)
    };
    std::env::var_os("LLVM23_BIN").map_or_else(installed, PathBuf::from)
}

/// The directory of LLVM 23's tools, with these. If one of them is missing, prints that the test is skipped, which is a
/// failure if `OFFLOAD_REQUIRE_LLVM23=1` is set.
pub fn llvm23(test: &str, needed: &[&str]) -> Option<PathBuf> {
    let directory = llvm23_directory();
    let Some(missing) = needed.iter().map(|tool| directory.join(tool)).find(|tool| !tool.exists()) else {
        return Some(directory);
    };
    let why = format!("LLVM 23 is not installed ({} is not there)", missing.display());
    skip_unless("OFFLOAD_REQUIRE_LLVM23", test, &why);
    None
}

/// Random numbers that are the same in every run (xorshift64*).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next()).unwrap() % limit
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next().to_le_bytes()[0]).collect()
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for index in (1..items.len()).rev() {
            items.swap(index, self.below(index + 1));
        }
    }
}

/// A command line and its files.
#[derive(Clone, Debug, Default)]
pub struct Case {
    /// The name under which the tools are called, if it is not the bundler's.
    pub called: Option<&'static str>,
    pub args: Vec<String>,
    pub env: Vec<(&'static str, String)>,
    pub files: Vec<(String, Arc<[u8]>)>,
    pub dirs: Vec<&'static str>,
    pub stdin: Vec<u8>,
    /// The lines that our tool must list, in this order.
    pub file_order: Option<Vec<String>>,
    /// The files that our tool must write.
    pub wanted: Vec<(String, Arc<[u8]>)>,
    /// Whether contents look like parts of the format, so that LLVM may misread them.
    pub nested: bool,
}

impl Case {
    pub fn new<S: AsRef<str>>(args: &[S]) -> Self {
        Self { args: args.iter().map(|arg| arg.as_ref().to_owned()).collect(), ..Self::default() }
    }

    pub fn called(mut self, name: &'static str) -> Self {
        self.called = Some(name);
        self
    }

    pub fn name(&self) -> &'static str {
        self.called.unwrap_or(NAME)
    }

    pub fn arg(mut self, arg: impl Into<String>) -> Self {
        self.args.push(arg.into());
        self
    }

    pub fn file(mut self, name: impl Into<String>, content: impl Into<Arc<[u8]>>) -> Self {
        self.files.push((name.into(), content.into()));
        self
    }

    pub fn env(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.env.push((name, value.into()));
        self
    }

    pub fn dir(mut self, name: &'static str) -> Self {
        self.dirs.push(name);
        self
    }

    pub fn stdin(mut self, data: impl Into<Vec<u8>>) -> Self {
        self.stdin = data.into();
        self
    }

    pub fn listing(mut self, lines: Vec<String>) -> Self {
        self.file_order = Some(lines);
        self
    }

    pub fn wants(mut self, name: impl Into<String>, content: impl Into<Arc<[u8]>>) -> Self {
        self.wanted.push((name.into(), content.into()));
        self
    }

    pub fn has(&self, arg: &str) -> bool {
        self.args.iter().any(|a| a.trim_start_matches('-') == arg)
    }

    /// The values of an option, with lists split into elements.
    pub fn values(&self, option: &str) -> Vec<&str> {
        let with = |arg: &'_ String| -> Option<usize> {
            let rest = arg.trim_start_matches('-').strip_prefix(option)?.strip_prefix('=')?;
            Some(arg.len() - rest.len())
        };
        self.args.iter().filter_map(|arg| with(arg).map(|at| &arg[at..])).flat_map(|list| list.split(',')).collect()
    }
}

/// The results of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The exit status; 128 plus the signal's number if a signal ended the tool.
    pub status: i32,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    /// The files after the run.
    pub files: BTreeMap<String, Vec<u8>>,
}

impl Outcome {
    pub fn stderr_text(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    pub fn crashed(&self) -> bool {
        self.status >= 128
    }
}

/// Runs a case with one tool in a new directory.
pub fn run(tool: &Path, case: &Case) -> Outcome {
    let scratch = memory_directory();
    let work = scratch.path().join("work");
    let side = scratch.path().join("side");
    for dir in [&work, &side] {
        fs::create_dir(dir).unwrap();
    }
    for dir in &case.dirs {
        fs::create_dir(work.join(dir)).unwrap();
    }
    for (name, content) in &case.files {
        fs::write(work.join(name), content).unwrap();
    }
    let (out, err, input) = (side.join("out"), side.join("err"), side.join("in"));
    fs::write(&input, &case.stdin).unwrap();
    let status = Start { tool, case, work: &work, side: &side, files: [&input, &out, &err] }.status();
    let unplaced = |data: Vec<u8>| replace(&data, work.to_str().unwrap().as_bytes(), b"DIR");
    let mut files = BTreeMap::new();
    collect(&work, "", &mut files);
    Outcome { status, stdout: unplaced(fs::read(out).unwrap()), stderr: unplaced(fs::read(err).unwrap()), files }
}

/// A command line with its directories, and the files for standard input, output and error.
struct Start<'a> {
    tool: &'a Path,
    case: &'a Case,
    work: &'a Path,
    side: &'a Path,
    files: [&'a Path; 3],
}

impl Start<'_> {
    fn status(&self) -> i32 {
        let [work, side] = [self.work, self.side].map(|path| path.to_str().unwrap());
        // Without the last one, symbolizing a crash of LLVM takes a second more.
        let usual = [("PATH", "/usr/bin:/bin"), ("TMPDIR", side), ("PWD", work), ("LLVM_DISABLE_SYMBOLIZATION", "1")];
        let own = self.case.env.iter().map(|(name, value)| (*name, value.as_str()));
        let variables: BTreeMap<&str, &str> = usual.into_iter().chain(own).collect();
        let can_fork = [llvm_directory(), llvm23_directory()].iter().any(|directory| self.tool.starts_with(directory));
        let forked = can_fork.then(|| self.forked(&variables)).flatten();
        forked.unwrap_or_else(|| self.started(&variables))
    }

    /// Returns the status of a fork of the tool, or `None` if that is not possible.
    fn forked(&self, variables: &BTreeMap<&str, &str>) -> Option<i32> {
        let count = (1 + self.case.args.len()).to_string();
        let variables: Vec<String> = variables.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let mut strings = vec![count.as_str(), self.work.to_str()?];
        strings.extend(self.files.map(|path| path.to_str().unwrap()));
        strings.push(self.case.name());
        strings.extend(self.case.args.iter().chain(&variables).map(String::as_str));
        let status = fork_server::run(self.tool, &strings)?;
        let stopped = status.signal().is_some_and(|signal| ALARMS.contains(&signal));
        Some(if stopped { HANGS } else { number(status) })
    }

    /// Returns the status of the tool in a new process.
    fn started(&self, variables: &BTreeMap<&str, &str>) -> i32 {
        let mut command = Command::new(self.tool);
        command.arg0(self.case.name()).args(&self.case.args).current_dir(self.work).env_clear().envs(variables);
        let [input, out, err] = self.files;
        command.stdin(File::open(input).unwrap());
        command.stdout(File::create(out).unwrap()).stderr(File::create(err).unwrap());
        wait(&mut command)
    }
}

fn number(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap())
}

fn wait(command: &mut Command) -> i32 {
    let mut child = command.spawn().unwrap();
    measured::wait(&mut child, PATIENCE).map_or(HANGS, number)
}

fn collect(dir: &Path, prefix: &str, files: &mut BTreeMap<String, Vec<u8>>) {
    for entry in fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            collect(&entry.path(), &format!("{name}/"), files);
        } else {
            files.insert(name, fs::read(entry.path()).unwrap());
        }
    }
}

pub fn replace(data: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut result = Vec::with_capacity(data.len());
    let mut rest = data;
    while let Some(at) = find(rest, from) {
        result.extend(&rest[..at]);
        result.extend(to);
        rest = &rest[at + from.len()..];
    }
    result.extend(rest);
    result
}

fn input_of(case: &Case) -> &[u8] {
    case.files.iter().find(|(name, _)| name == "in").map_or(&[], |(_, input)| input)
}

pub fn find(data: &[u8], what: &[u8]) -> Option<usize> {
    memchr::memmem::find(data, what)
}

/// The results of a group of cases.
pub struct Report {
    group: &'static str,
    release: Release,
    /// Whether the lists are also compared with LLVM 22.
    is_second: bool,
    /// The number of cases in the lists, and the number that ran.
    listed: usize,
    taken: usize,
    compared: usize,
    by_rule: BTreeMap<&'static str, usize>,
    unexpected: Vec<String>,
}

impl Report {
    pub fn new(group: &'static str) -> Self {
        Self::with(group, Release::default())
    }

    fn with(group: &'static str, release: Release) -> Self {
        Self {
            group,
            release,
            is_second: false,
            listed: 0,
            taken: 0,
            compared: 0,
            by_rule: BTreeMap::new(),
            unexpected: Vec::new(),
        }
    }

    /// Notes that the lists were compared with LLVM 22, so that a part of them is enough.
    pub fn was_compared_with_22(&mut self) {
        self.is_second = true;
    }

    /// Runs a group of cases if both tools are available.
    pub fn group(tools: Option<Tools>, name: &'static str, compare: impl FnOnce(&mut Self, &Tools)) {
        if let Some(tools) = tools {
            let mut report = Self::with(name, tools.release);
            compare(&mut report, &tools);
            report.finish();
        }
    }

    /// Runs a case with both tools and compares. Returns both results.
    pub fn compare(&mut self, tools: &Tools, case: &Case) -> (Outcome, Outcome) {
        let mut theirs = run(&tools.theirs, case);
        let ours = run(&tools.ours, case);
        if let Some(other) = rules::with_first_newline(case).filter(|_| theirs != ours) {
            theirs = run(&tools.theirs, &other);
            // Outputs that are the whole input, and the input itself, have one newline more.
            let (whole, input) = (input_of(&other), input_of(case));
            theirs.files.values_mut().filter(|file| **file == *whole).for_each(|file| *file = input.to_vec());
            self.by_rule("a text bundle without its first newline");
        }
        self.judge(case, &theirs, &ours);
        (theirs, ours)
    }

    /// Compares a list of cases.
    pub fn compare_all(&mut self, tools: &Tools, cases: Vec<Case>) {
        self.each(cases, |report, case| drop(report.compare(tools, &case)));
    }

    /// Compares a list, or a sample of it, on all processors.
    pub fn each<T: Send>(&mut self, items: Vec<T>, compare: impl Fn(&mut Self, T) + Sync) {
        self.listed += items.len();
        let items = match (self.is_second, is_complete()) {
            (true, true) => evenly_spread(items, SAMPLE_OF_23),
            _ => sample(items, SAMPLE),
        };
        self.taken += items.len();
        let parts = share_out(items, |items| {
            let mut report = Self::with(self.group, self.release);
            items.for_each(|item| compare(&mut report, item));
            report
        });
        for part in parts {
            self.compared += part.compared;
            self.unexpected.extend(part.unexpected);
            part.by_rule.into_iter().for_each(|(rule, count)| *self.by_rule.entry(rule).or_default() += count);
        }
    }

    /// Counts a case, and records it if it differs without a rule.
    pub fn judge(&mut self, case: &Case, theirs: &Outcome, ours: &Outcome) {
        self.compared += 1;
        if let Some(order) = case.file_order.as_ref().filter(|_| ours.status == 0) {
            let listed: Vec<String> = String::from_utf8_lossy(&ours.stdout).lines().map(str::to_owned).collect();
            if &listed != order {
                self.unexpected.push(format!("{:?}\n  lists {listed:?}, not in file order {order:?}", case.args));
            }
        }
        for (name, content) in case.wanted.iter().filter(|_| ours.status == 0) {
            if ours.files.get(name).map(Vec::as_slice) != Some(content) {
                self.unexpected.push(format!("{:?}\n  our {name} is not what was bundled", case.args));
            }
        }
        let (mut theirs, ours) = (view(case, theirs), view(case, ours));
        if self.release == Release::Llvm23 {
            rules_of_23::turn_back(case, &mut theirs, &ours).into_iter().for_each(|rule| self.by_rule(rule));
        }
        if theirs == ours {
            return;
        }
        let rules = rules::explain(case, &theirs, &ours);
        if rules.is_empty() {
            self.unexpected.push(difference(case, &theirs, &ours));
        }
        for rule in rules {
            if std::env::var_os("OFFLOAD_SHOW_RULE").is_some_and(|shown| shown == rule) {
                loud(&format!("by rule '{rule}': {}", difference(case, &theirs, &ours)));
            }
            self.by_rule(rule);
        }
    }

    /// Counts a case that involves only one of the tools.
    pub fn check(&mut self, holds: bool, what: impl FnOnce() -> String) {
        self.compared += 1;
        if !holds {
            self.unexpected.push(what());
        }
    }

    pub fn by_rule(&mut self, rule: &'static str) {
        *self.by_rule.entry(rule).or_default() += 1;
    }

    /// Prints the counts, and fails if there were unexpected differences.
    pub fn finish(mut self) {
        self.unexpected.sort();
        let explained: usize = self.by_rule.values().sum();
        let mut text =
            format!("{}, {:?}: {} comparisons, {explained} by rule", self.group, self.release, self.compared);
        if self.listed > 0 {
            write!(text, "; {} of {} listed cases", self.taken, self.listed).unwrap();
        }
        for (rule, count) in &self.by_rule {
            write!(text, "\n    {count:5}  {rule}").unwrap();
        }
        loud(&text);
        let shown = self.unexpected.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join("\n\n");
        assert!(
            self.unexpected.is_empty(),
            "{}: {} unexpected differences\n\n{shown}\n",
            self.group,
            self.unexpected.len()
        );
    }
}

fn difference(case: &Case, theirs: &Outcome, ours: &Outcome) -> String {
    let mut text = format!("{} {}", case.name(), case.args.join(" "));
    for (name, value) in &case.env {
        write!(text, "\n  with {name}={value}").unwrap();
    }
    for (who, outcome) in [("LLVM", theirs), ("ours", ours)] {
        let (stdout, stderr) = (&excerpt(&outcome.stdout), &excerpt(&outcome.stderr));
        write!(text, "\n  {who}: status {}\n    stdout {stdout}\n    stderr {stderr}", outcome.status).unwrap();
        for (name, content) in &outcome.files {
            let other = if who == "LLVM" { ours } else { theirs };
            if other.files.get(name) != Some(content) {
                write!(text, "\n    {name} ({} bytes): {}", content.len(), excerpt(content)).unwrap();
            }
        }
    }
    text
}

fn excerpt(data: &[u8]) -> String {
    let end = data.len().min(700);
    format!("\"{}\"{}", data[..end].escape_ascii(), if end < data.len() { "…" } else { "" })
}

//! Command-line tests as data files: every `tests/cli/**/*.test` is a case and its golden transcript.
//!
//! `tests/cli/README.md` explains the format and the switches `BLESS`, `CASE` and `LLVM_BIN`.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, anyhow, bail, ensure};

use crate::lists::{sample, share_out};
use crate::machine::{executable, llvm, loud, memory_directory, write_program};
use crate::search_path::PathWithout;

/// The directory of the cases.
const CASES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli");
/// The directory of the files for `# COPY:`.
const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures");
/// The names of the executable.
const NAMES: [&str; 5] = [
    "clang-offload-bundler",
    "llvm-offload-binary",
    "clang-offload-packager",
    "llvm-extract-bundle-entry",
    "offload-bundle",
];
/// Variables that change the behaviour of the program.
const VARIABLES: [&str; 6] = [
    "OFFLOAD_BUNDLER_COMPRESS",
    "OFFLOAD_BUNDLER_VERBOSE",
    "OFFLOAD_BUNDLER_COMPRESSION_LEVEL",
    "OFFLOAD_BUNDLER_IGNORE_ENV_VAR",
    "COMPRESSED_BUNDLE_FORMAT_VERSION",
    "OFFLOAD_BINARY_HIP_KIND",
];
/// The number of cases that run with LLVM's tools, and in an emulator, unless `OFFLOAD_COMPLETE=1` requests all.
const SAMPLE: usize = 50;
/// The folders of cases that do not run in wine: IDs and files mean the same on all systems.
const ALIKE: [&str; 3] = ["hostile", "ids", "list"];
/// The limit of processor time in seconds. A run that exceeds it is killed and counts as hanging.
const CPU_LIMIT: u32 = 5;
/// The limit of output in bytes. Further output is cut off.
const OUTPUT_LIMIT: u64 = 1 << 20;

/// The line between a case and its golden transcript. No line of a transcript can be the same.
const SEPARATOR: &str = "\n---\n";

/// A test file.
struct Case {
    path: PathBuf,
    /// The text before the separator.
    source: String,
    /// The text after it, if there is one.
    golden: Option<String>,
    steps: Vec<Step>,
    /// The reason why LLVM's tool behaves differently.
    differs: Option<String>,
    /// The reason why the program does not match the golden transcript yet, although the transcript is right.
    fault: Option<String>,
    /// The feature of the case that only Unix has.
    unix: Option<String>,
    /// The feature of the case that only Windows has.
    windows: Option<String>,
    /// The feature of the case that a build of the clone alone lacks.
    beyond: Option<String>,
}

impl Case {
    fn is_for_windows(&self) -> bool {
        let is_alike = |folder: &&str| self.path.starts_with(Path::new(CASES).join(folder));
        self.windows.is_some() || (self.unix.is_none() && !ALIKE.iter().any(is_alike))
    }
}

/// A step of a test file.
enum Step {
    /// Create a file.
    File { name: String, content: String },
    /// Copy a file from `fixtures/`.
    Copy(String),
    /// Run a command that must succeed, without adding it to the transcript.
    Setup(String),
    /// Run a command that must exit with this status.
    Run { command: String, status: i32 },
    /// Add the content of a file to the transcript.
    Show(String),
    /// Add the names of all files to the transcript.
    Files,
}

/// The program under test.
struct Subject<'a> {
    /// The directory with its names, which is prepended to `path`.
    directory: PathBuf,
    /// Whether the order of lists is ignored.
    sort_lists: bool,
    /// The programs of this machine, without an installed package of ours.
    path: &'a PathWithout,
}

#[test]
fn transcripts_are_golden() {
    let bless = std::env::var_os("BLESS").is_some();
    let names = names_of_the_executable().unwrap();
    let path = PathWithout::new(&NAMES);
    let subject = Subject { directory: names.path().to_owned(), sort_lists: false, path: &path };
    let mut cases = cases().unwrap();
    assert!(!cases.is_empty(), "no case in {CASES}");
    let all = cases.len();
    if is_clone() {
        cases.retain(|case| case.beyond.is_none());
    }
    cases.retain(|case| if is_for_windows() { case.is_for_windows() } else { case.windows.is_none() });
    if std::env::var_os("OFFLOAD_EMULATOR").is_some() {
        cases = sample(cases, SAMPLE);
        loud(&format!("tests/cli: {} of {all} cases in an emulator", cases.len()));
    }
    let failures = share_out(cases, |cases| {
        let failures = cases.filter_map(|case| Some((check(&case, &subject, bless).err()?, case.path)));
        failures.map(|(error, path)| format!("--- {}\n{error:#}\n", path.display())).collect::<String>()
    });
    let failures = failures.concat();
    assert!(failures.is_empty(), "\n{failures}\n(BLESS=1 rewrites the golden transcripts)");
}

/// A directory of the caller's `PATH` may have an installed package of ours: LLVM's side of a comparison must not find
/// it.
#[test]
fn an_installed_package_is_not_in_the_path_of_a_case() {
    let installed = memory_directory();
    for name in NAMES.iter().chain(&["another-tool"]) {
        write_program(&installed.path().join(name), b"#!/bin/sh\necho installed\n");
    }
    let empty = memory_directory();
    let path = PathWithout::in_directories(&[installed.path().to_owned(), PathBuf::from("/bin")], &NAMES);
    let subject = Subject { directory: empty.path().to_owned(), sort_lists: false, path: &path };
    for name in NAMES {
        let run = subject.shell(&format!("command -v {name}"), empty.path()).output().unwrap();
        assert!(!run.status.success(), "{name} is found: {}", String::from_utf8_lossy(&run.stdout));
    }
    let run = subject.shell("another-tool", empty.path()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&run.stdout), "installed\n");
}

#[test]
fn the_reference_agrees_except_where_a_case_says_so() {
    let Some(directory) = llvm("the cases of tests/cli/ with LLVM's tools", &["clang-offload-bundler"]) else { return };
    let names = names_of_the_executable().unwrap();
    let path = PathWithout::new(&NAMES);
    let ours = Subject { directory: names.path().to_owned(), sort_lists: true, path: &path };
    let theirs = Subject { directory, sort_lists: true, path: &path };
    let compare = |case: Case| {
        let ours = ours.play(&case).unwrap().text;
        // LLVM's tool may refuse the command that makes the inputs of a case.
        let theirs = match (theirs.play(&case), &case.differs) {
            (Err(_), Some(_)) => return None,
            (played, _) => played.unwrap().text,
        };
        let name = case.path.display();
        match (&case.differs, ours == theirs) {
            (None, false) => Some(format!("--- {name}: differs\n{}\n", difference(&theirs, &ours))),
            (Some(reason), true) => Some(format!("--- {name}: does not differ ({reason})\n")),
            _ => None,
        }
    };
    let mut cases = cases().unwrap();
    cases.retain(|case| case.fault.is_none() && case.windows.is_none() && (case.beyond.is_none() || !is_clone()));
    // LLVM's tools have no subcommands to compare with.
    cases.retain(|case| case.beyond.is_none() || case.differs.is_some());
    let listed = cases.len();
    let cases = sample(cases, SAMPLE);
    loud(&format!("tests/cli: {} of {listed} cases with LLVM's tools", cases.len()));
    let failures = share_out(cases, |cases| cases.filter_map(compare).collect::<String>()).concat();
    assert!(failures.is_empty(), "\n{failures}");
}

/// Whether the executable under test is the clone of LLVM's tools alone, without subcommands: `OFFLOAD_CLONE=1`.
fn is_clone() -> bool {
    std::env::var_os("OFFLOAD_CLONE").is_some_and(|value| value == "1")
}

/// Whether the executable is one of Windows, which runs in wine.
fn is_for_windows() -> bool {
    executable().extension().is_some_and(|extension| extension == "exe")
}

/// A directory with the executable under the names of its tools: as links or, for another machine, as scripts.
fn names_of_the_executable() -> Result<tempfile::TempDir> {
    let directory = memory_directory();
    let emulator = std::env::var("OFFLOAD_EMULATOR");
    for name in NAMES {
        let path = directory.path().join(name);
        match &emulator {
            Ok(emulator) => {
                write_program(&path, emulating(emulator).as_bytes());
            }
            Err(_) => std::os::unix::fs::symlink(executable(), path)?,
        }
    }
    Ok(directory)
}

/// A script that runs the executable in an emulator, under the name of the script.
fn emulating(emulator: &str) -> String {
    let name = "case $0 in /*) name=${0##*/} ;; *) name=$0 ;; esac";
    let executable = executable();
    if is_for_windows() {
        let name = format!("{name}\nexport OFFLOAD_BUNDLE_CALLED_AS=\"$name\" LC_ALL=C.UTF-8");
        return format!("#!/bin/sh\n{name}\nexec {emulator} '{}' \"$@\"\n", executable.display());
    }
    format!("#!/bin/sh\n{name}\nexec {emulator} -0 \"$name\" '{}' \"$@\"\n", executable.display())
}

/// Runs a case and compares its transcript with the golden one, or writes the golden one.
fn check(case: &Case, subject: &Subject, bless: bool) -> Result<()> {
    let played = subject.play(case)?;
    let golden = || case.golden.as_deref().context("no golden transcript");
    if let Some(reason) = &case.fault {
        ensure!(golden()? != played.text, "the program is right now, remove the FAULT line ({reason})");
        return Ok(());
    }
    ensure!(played.wrong_status.is_empty(), "{}{}", played.wrong_status, played.text);
    if bless {
        let text = [&case.source, SEPARATOR, &played.text].concat();
        return fs::write(&case.path, text).context("cannot write the golden transcript");
    }
    ensure!(golden()? == played.text, "{}", difference(golden()?, &played.text));
    Ok(())
}

/// The result of running a case.
struct Played {
    text: String,
    /// Commands with an unexpected exit status.
    wrong_status: String,
}

impl Subject<'_> {
    fn play(&self, case: &Case) -> Result<Played> {
        let directory = memory_directory();
        let at = directory.path();
        let mut played = Played { text: String::new(), wrong_status: String::new() };
        for step in &case.steps {
            match step {
                Step::File { name, content } => fs::write(at.join(name), content)?,
                Step::Copy(name) => {
                    let from = Path::new(FIXTURES).join(name);
                    let name = from.file_name().context("no file name")?;
                    fs::copy(&from, at.join(name)).with_context(|| from.display().to_string())?;
                }
                Step::Setup(command) => {
                    let output = self.shell(command, at).output()?;
                    ensure!(output.status.success(), "setup failed: {command}\n{output:?}");
                }
                Step::Run { command, status } => self.run(command, *status, at, &mut played)?,
                Step::Show(name) => {
                    writeln!(played.text, "# {name}")?;
                    match fs::read(at.join(name)) {
                        Ok(content) => quote(&mut played.text, ": ", &content),
                        Err(_) => played.text.push_str("(not there)\n"),
                    }
                }
                Step::Files => {
                    played.text.push_str("# files\n");
                    quote(&mut played.text, ": ", list_directory(at)?.as_bytes());
                }
            }
        }
        Ok(played)
    }

    fn run(&self, command: &str, expected: i32, at: &Path, played: &mut Played) -> Result<()> {
        let output = bounded_output(self.shell(command, at))?;
        writeln!(played.text, "$ {command}")?;
        let mut stdout = output.stdout;
        if self.sort_lists && command.contains("-list") {
            let mut lines: Vec<&[u8]> = stdout.split_inclusive(|&byte| byte == b'\n').collect();
            lines.sort_unstable();
            stdout = lines.concat();
        }
        quote(&mut played.text, "> ", &stdout);
        quote(&mut played.text, "! ", &output.stderr);
        let status = output.status.code();
        if status != Some(0) {
            writeln!(played.text, "= {}", output.status)?;
        }
        if status != Some(expected) {
            writeln!(played.wrong_status, "expected status {expected}, got {}: {command}", output.status)?;
        }
        Ok(())
    }

    fn shell(&self, command: &str, at: &Path) -> Command {
        let path = self.path.after(&self.directory);
        let mut shell = Command::new("/bin/sh");
        shell.arg("-c").arg(format!("ulimit -t {CPU_LIMIT}; ulimit -c 0\n{command}"));
        shell.current_dir(at).stdin(Stdio::null()).env("PATH", path).env("LC_ALL", "C");
        for name in VARIABLES {
            shell.env_remove(name);
        }
        shell
    }
}

/// Runs a command until it ends or exceeds the output limit.
fn bounded_output(mut command: Command) -> Result<Output> {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let stderr = std::thread::spawn(move || read_bounded(stderr));
    let stdout = read_bounded(stdout)?;
    let stderr = stderr.join().map_err(|_| anyhow!("the reader of stderr panicked"))??;
    Ok(Output { status: child.wait()?, stdout, stderr })
}

/// Closes the reading end at the limit, so that the writer gets a broken pipe.
fn read_bounded(pipe: Option<impl Read>) -> Result<Vec<u8>> {
    let mut data = Vec::new();
    pipe.context("no pipe")?.take(OUTPUT_LIMIT).read_to_end(&mut data)?;
    Ok(data)
}

/// The names of all files below `directory`, with sizes and link targets, one per line.
fn list_directory(directory: &Path) -> Result<String> {
    let mut lines = BTreeSet::new();
    let mut open = vec![directory.to_owned()];
    while let Some(current) = open.pop() {
        for entry in fs::read_dir(&current)? {
            let path = entry?.path();
            let name = path.strip_prefix(directory)?.display().to_string();
            let metadata = path.symlink_metadata()?;
            if metadata.is_dir() {
                lines.insert(format!("{name}/\n"));
                open.push(path);
            } else if metadata.is_symlink() {
                lines.insert(format!("{name} -> {}\n", path.read_link()?.display()));
            } else {
                lines.insert(format!("{name} {}\n", metadata.len()));
            }
        }
    }
    Ok(lines.into_iter().collect())
}

/// Appends `data` line by line, each after `prefix`. Bytes that are not printable ASCII are escaped, long runs of zeros
/// are counted, and `\c` marks a last line without newline.
fn quote(text: &mut String, prefix: &str, data: &[u8]) {
    for line in data.split_inclusive(|&byte| byte == b'\n') {
        text.push_str(prefix);
        let (line, end) = line.strip_suffix(b"\n").map_or((line, "\\c\n"), |line| (line, "\n"));
        let mut rest = line;
        while let Some((&byte, behind)) = rest.split_first() {
            let zeros = rest.iter().take_while(|&&byte| byte == 0).count();
            if zeros > 8 {
                text.push_str(&format!("\\0{{{zeros}}}"));
                rest = rest.get(zeros..).unwrap_or_default();
                continue;
            }
            match byte {
                0 => text.push_str("\\0"),
                b'\\' => text.push_str("\\\\"),
                b'\t' => text.push_str("\\t"),
                b' '..=b'~' => text.push(char::from(byte)),
                _ => text.push_str(&format!("\\x{byte:02x}")),
            }
            rest = behind;
        }
        text.push_str(end);
    }
}

/// The lines that differ, with `-` before expected and `+` before actual ones.
fn difference(expected: &str, actual: &str) -> String {
    let (expected, actual): (Vec<_>, Vec<_>) = (expected.lines().collect(), actual.lines().collect());
    let head = expected.iter().zip(&actual).take_while(|(a, b)| a == b).count();
    let most = expected.len().min(actual.len()) - head;
    let tail = expected.iter().rev().zip(actual.iter().rev()).take(most).take_while(|(a, b)| a == b).count();
    let mut text = String::new();
    let context = head.saturating_sub(3);
    let runs = [
        (" ", expected.get(context..head)),
        ("-", expected.get(head..expected.len() - tail)),
        ("+", actual.get(head..actual.len() - tail)),
    ];
    for (sign, lines) in runs {
        lines.unwrap_or_default().iter().for_each(|line| text.push_str(&format!("{sign} {line}\n")));
    }
    text
}

/// Returns all cases, or those whose path contains `$CASE`.
fn cases() -> Result<Vec<Case>> {
    let filter = std::env::var("CASE").unwrap_or_default();
    let paths = files_with_extension(Path::new(CASES), "test")?;
    let chosen = paths.into_iter().filter(|path| path.to_string_lossy().contains(&filter));
    chosen.map(|path| parse(&path).with_context(|| path.display().to_string())).collect()
}

fn files_with_extension(directory: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(files_with_extension(&path, extension)?);
        } else if path.extension().is_some_and(|e| e == extension) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn parse(path: &Path) -> Result<Case> {
    let text = fs::read_to_string(path)?;
    let (source, golden) = match text.rsplit_once(SEPARATOR) {
        Some((source, golden)) => (source, Some(golden.to_owned())),
        None => (text.trim_end(), None),
    };
    let (path, steps) = (path.to_owned(), Vec::new());
    let mut case = Case {
        path,
        source: source.to_owned(),
        golden,
        steps,
        differs: None,
        fault: None,
        unix: None,
        windows: None,
        beyond: None,
    };
    let mut lines = source.lines();
    let described = source.starts_with("# ") && directive(source.lines().next().unwrap_or_default()).is_none();
    ensure!(described, "the first line must say what the case shows");
    while let Some(line) = lines.next() {
        let Some((keyword, value)) = directive(line) else {
            ensure!(line.is_empty() || line.starts_with('#'), "neither directive nor comment: {line}");
            continue;
        };
        let mut value = value.to_owned();
        while let Some(head) = value.strip_suffix('\\') {
            let next = lines.next().and_then(|line| line.strip_prefix('#')).context("nothing behind the last \\")?;
            value = format!("{} {}", head.trim_end(), next.trim());
        }
        let step = match keyword {
            "FILE" => {
                let (name, end) = value.split_once(" <<").context("FILE: name <<END")?;
                let body: Vec<&str> = lines.by_ref().take_while(|line| *line != end).collect();
                let content = body.iter().map(|line| format!("{line}\n")).collect();
                Step::File { name: name.to_owned(), content }
            }
            "COPY" => Step::Copy(value),
            "SETUP" => Step::Setup(value),
            "RUN" => Step::Run { command: value, status: 0 },
            "FAIL" => Step::Run { command: value, status: 1 },
            "SHOW" => Step::Show(value),
            "FILES" => Step::Files,
            "DIFFERS" | "FAULT" | "UNIX" | "WINDOWS" | "BEYOND" => {
                ensure!(!value.is_empty(), "{keyword} needs a reason");
                let reason = match keyword {
                    "DIFFERS" => &mut case.differs,
                    "FAULT" => &mut case.fault,
                    "UNIX" => &mut case.unix,
                    "WINDOWS" => &mut case.windows,
                    _ => &mut case.beyond,
                };
                *reason = Some(value);
                continue;
            }
            _ => bail!("no such directive: {keyword}"),
        };
        case.steps.push(step);
    }
    let checks = |step: &Step| matches!(step, Step::Run { .. });
    ensure!(case.steps.iter().any(checks), "the case runs nothing");
    Ok(case)
}

/// `# KEYWORD: value`.
fn directive(line: &str) -> Option<(&str, &str)> {
    let (keyword, value) = line.strip_prefix("# ")?.split_once(':')?;
    let upper = !keyword.is_empty() && keyword.chars().all(|c| c.is_ascii_uppercase());
    upper.then_some((keyword, value.trim()))
}

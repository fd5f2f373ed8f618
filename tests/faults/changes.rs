//! Inputs that change while they are read. A named pipe stops the tool after it has opened the file and before it reads
//! it.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Output, Stdio};
use std::time::{Duration, SystemTime};

use super::scenario::{Files, GFX90A, GFX906, HOST, OLD, OURS, Place, Scenario, bundling, islands, noise};
use crate::machine::skipped;
use crate::properties::make::{archive, thin_archive};

const SHORTER: &str = "the file became shorter while it was read";
const CHANGED: &str = "the file changed while it was read";

/// A run that is stopped at a pipe.
struct Held {
    place: Place,
    scenario: Scenario,
    child: Child,
    pipe: Pipe,
}

/// A pipe, by its name in the directory.
#[derive(Clone, Copy)]
enum Pipe {
    /// The tool reads it as an input.
    Read(&'static str),
    /// The tool writes it as an output.
    Written(&'static str),
}

impl Pipe {
    fn name(self) -> &'static str {
        let (Self::Read(name) | Self::Written(name)) = self;
        name
    }
}

impl Held {
    /// Starts the tool, and waits until it has opened `input` and is blocked at the pipe.
    fn start(scenario: &Scenario, pipe: Pipe, input: &str) -> Self {
        let place = Place::new(scenario);
        let path = place.work.join(pipe.name());
        let _ = fs::remove_file(&path);
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        let mut command = place.command(scenario, Path::new(OURS));
        let child = command.args(&scenario.arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let about = |what: &str| fs::read_to_string(format!("/proc/{}/{what}", child.id())).unwrap();
        let input = place.work.join(input).to_str().unwrap().to_owned();
        let waits = || about("maps").contains(&input) && about("status").contains("State:\tS");
        // The tool sleeps only there.
        while !(waits() && waits()) {
            std::thread::sleep(Duration::from_millis(2));
        }
        Self { place, scenario: scenario.clone(), child, pipe }
    }

    /// Lets the tool continue and waits for its end.
    fn release(self) -> (Output, Files) {
        let path = self.place.work.join(self.pipe.name());
        match self.pipe {
            Pipe::Read(_) => fs::write(&path, b"what comes through the pipe").unwrap(),
            Pipe::Written(_) => drop(fs::read(&path).unwrap()),
        }
        let output = self.child.wait_with_output().unwrap();
        fs::remove_file(path).unwrap();
        assert!(self.place.is_tidy());
        (output, self.place.outputs(&self.scenario))
    }
}

/// A change of the input.
type Change = fn(&Path);

fn cut_to_nothing(path: &Path) {
    OpenOptions::new().write(true).open(path).unwrap().set_len(0).unwrap();
}

fn cut_last_byte(path: &Path) {
    let file = OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(file.metadata().unwrap().len() - 1).unwrap();
}

fn append(path: &Path) {
    OpenOptions::new().append(true).open(path).unwrap().write_all(b"more").unwrap();
}

fn rewrite(path: &Path) {
    let mut content = fs::read(path).unwrap();
    content.iter_mut().for_each(|byte| *byte = !*byte);
    let mut file = OpenOptions::new().write(true).open(path).unwrap();
    file.write_all(&content).unwrap();
    // Larger than the resolution of the clock.
    file.set_modified(SystemTime::now() + Duration::from_secs(1)).unwrap();
}

/// Restores the time of modification, as tools do that copy files with their times.
fn rewrite_and_hide(path: &Path) {
    let modified = path.metadata().unwrap().modified().unwrap();
    rewrite(path);
    OpenOptions::new().write(true).open(path).unwrap().set_modified(modified).unwrap();
}

/// Changes the attributes of a file, but no bytes.
fn touch_other_things(path: &Path) {
    let link = path.with_extension("link");
    fs::hard_link(path, &link).unwrap();
    let mode = path.metadata().unwrap().permissions().mode();
    fs::set_permissions(path, Permissions::from_mode(mode ^ 0o040)).unwrap();
    fs::remove_file(link).unwrap();
}

const CHANGES: [(Change, &str); 5] = [
    (cut_to_nothing, SHORTER),
    (cut_last_byte, SHORTER),
    (append, CHANGED),
    (rewrite, CHANGED),
    (rewrite_and_hide, CHANGED),
];

/// Whether an error names an input and what happened to it. If the tool read after its new end, it names the whole
/// path.
fn names(stderr: &str, input: &str, expected: &str) -> bool {
    let whole = cfg!(target_os = "linux") && stderr.contains(&format!("/{input}': {expected}"));
    whole || stderr.contains(&format!("'{input}': {expected}")) || stderr.contains("error: a mapped file: ")
}

/// Checks that every change of an input is an error that names it.
fn check(scenario: &Scenario, pipe: Pipe, input: &str) {
    for (change, expected) in CHANGES {
        let held = Held::start(scenario, pipe, input);
        change(&held.place.work.join(input));
        let (output, outputs) = held.release();
        let stderr = String::from_utf8_lossy(&output.stderr);
        let name = scenario.name;
        assert_eq!(output.status.code(), Some(1), "{name}: {:?} {stderr}", output.status);
        assert!(names(&stderr, input, expected), "{name}: {stderr}");
        assert_eq!(outputs.len(), scenario.old.len(), "{name}: {:?}", outputs.keys());
        assert!(outputs.values().all(|content| content == OLD), "{name}");
    }
    // Without a change of the bytes it works.
    for change in [|_: &Path| {}, touch_other_things] {
        let held = Held::start(scenario, pipe, input);
        change(&held.place.work.join(input));
        let (output, _) = held.release();
        assert!(output.status.success(), "{}: {}", scenario.name, String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn inputs_of_a_bundle() {
    // Small code objects are read through the mapping, large ones by the kernel, and compressed ones block by block.
    // Above one megabyte, a second reader computes the hash.
    for len in [20_000, 200_000, 2 << 20] {
        for options in [&["-type=bc"][..], &["-type=bc", "-compress"]] {
            let mut scenario = bundling("bundle", options, 100, &["out"]);
            scenario.inputs.insert("input-a".to_owned(), islands(len));
            check(&scenario, Pipe::Read("input-b"), "input-a");
        }
    }
}

#[test]
fn inputs_of_a_package() {
    let images = ["906", "90a"].map(|gpu| format!("--image=file=input-{gpu},triple=t,arch=gfx{gpu},kind=hip"));
    let arguments = ["package", "-o=out", &images[0], &images[1]];
    let (first, second) = (noise(20_000, 3), Vec::new());
    let scenario = Scenario::new("package", &arguments, &[("input-906", &first), ("input-90a", &second)], &["out"]);
    check(&scenario, Pipe::Read("input-90a"), "input-906");
}

#[test]
fn unbundling_a_changing_file_fails_or_is_complete() {
    let targets = format!("-targets={HOST},{GFX906},{GFX90A}");
    let outputs = ["-output=old", "-output=new", "-output=pipe"];
    for (name, options, len) in [
        ("unbundle", &["-type=bc"][..], 20_000),
        ("unbundle, large", &["-type=bc"], 200_000),
        ("unbundle, compressed", &["-type=bc", "-compress"], 17 << 20),
    ] {
        let bundle = bundling("", options, len, &[]).product();
        let arguments = [&["-type=bc", "-unbundle", "-input=input", &targets], &outputs[..]].concat();
        let scenario = Scenario::new(name, &arguments, &[("input", &bundle)], &["old"]);
        check(&scenario, Pipe::Written("pipe"), "input");
    }
}

#[test]
fn archives_and_what_thin_ones_name() {
    let bundle = bundling("", &["-type=bc"], 100_000, &[]).product();
    let targets = format!("-targets={GFX906},{GFX90A}");
    let arguments = ["-type=a", "-unbundle", "-input=input.a", &targets, "-output=old", "-output=pipe"];
    let library = archive(&[("1.o", &bundle), ("2.o", &bundle)]);
    let scenario = Scenario::new("archive", &arguments, &[("input.a", &library)], &["old"]);
    check(&scenario, Pipe::Written("pipe"), "input.a");
    let thin = thin_archive(&[("input.o", bundle.len())]);
    let scenario = Scenario::new("thin archive", &arguments, &[("input.a", &thin), ("input.o", &bundle)], &["old"]);
    check(&scenario, Pipe::Written("pipe"), "input.o");
    check(&scenario, Pipe::Written("pipe"), "input.a");
}

#[test]
fn unpackaging_a_changing_file_fails_or_is_complete() {
    let image = "--image=file=input-906,triple=t,arch=gfx906,kind=hip";
    let scenario = Scenario::new("", &["package", "-o=out", image], &[("input-906", &noise(20_000, 3))], &[]);
    let package = scenario.product();
    let arguments = ["package", "input", "--image=file=old,kind=hip", "--image=file=pipe,kind=hip"];
    let scenario = Scenario::new("unpackage", &arguments, &[("input", &package)], &["old"]);
    check(&scenario, Pipe::Written("pipe"), "input");
}

#[test]
fn listing_a_changing_file_fails_or_is_complete() {
    // More than the capacity of a pipe, so that the tool waits for its reader in the middle of the file.
    let id = format!("hip-amdgcn-amd-amdhsa--{}", "x".repeat(200));
    let header_len = 32 + 24 + u64::try_from(id.len()).unwrap();
    let mut bundle = b"__CLANG_OFFLOAD_BUNDLE__\x01\0\0\0\0\0\0\0".to_vec();
    for field in [header_len, 8000, header_len - 56] {
        bundle.extend(field.to_le_bytes());
    }
    bundle.extend(id.as_bytes());
    bundle.resize(bundle.len() + 8000, 7);
    let file = bundle.repeat(2000);
    let scenario = Scenario::new("list", &["-type=bc", "-list", "-input=input"], &[("input", &file)], &[]);
    for (change, expected) in CHANGES {
        let place = Place::new(&scenario);
        let mut command = place.command(&scenario, Path::new(OURS));
        let mut child =
            command.args(&scenario.arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut first = [0; 10];
        child.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
        change(&place.work.join("input"));
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{:?} {stderr}", output.status);
        assert!(names(&stderr, "input", expected), "{stderr}");
    }
}

#[test]
fn an_input_on_a_terminated_run_leaves_nothing() {
    if !super::scenario::has_unnamed_files() {
        skipped("no unnamed files here; a killed run leaves a hidden file", None);
        return;
    }
    let bundle = bundling("", &["-type=bc"], 100_000, &[]).product();
    let targets = format!("-targets={HOST},{GFX906},{GFX90A}");
    let arguments = ["-type=bc", "-unbundle", "-input=input", &targets, "-output=old", "-output=new", "-output=pipe"];
    let scenario = Scenario::new("unbundle", &arguments, &[("input", &bundle)], &["old"]);
    // A process started in the background or by `nohup` inherits some ignored signals.
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap().trim();
    let ignored = u64::from_str_radix(ignored, 16).unwrap();
    let signals = [rustix::process::Signal::INT, rustix::process::Signal::TERM, rustix::process::Signal::HUP];
    for signal in signals.into_iter().filter(|signal| ignored >> (signal.as_raw() - 1) & 1 == 0) {
        let held = Held::start(&scenario, Pipe::Written("pipe"), "input");
        let process = rustix::process::Pid::from_child(&held.child);
        rustix::process::kill_process(process, signal).unwrap();
        let Held { place, scenario, child, .. } = held;
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.signal(), Some(signal.as_raw()));
        fs::remove_file(place.work.join("pipe")).unwrap();
        assert!(place.is_tidy());
        assert_eq!(place.outputs(&scenario).into_iter().collect::<Vec<_>>(), [("old".to_owned(), OLD.to_vec())]);
    }
}

//! Existing files at the path of an output: links, private files, read-only files, devices. Every way of writing an
//! output is tried on each of them, with our tool and, where it is installed, with LLVM 22's. Both must behave as the
//! tables below state. Where they differ, `docs/differences.md` has a row.
use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::lists::share_of;
use crate::machine::{executable, llvm, memory_directory, skipped};
use crate::properties::make::pe;

const TARGETS: &str = "-targets=host-x86_64-unknown-linux-gnu-,hip-amdgcn-amd-amdhsa--gfx906";
const DEVICE: &str = "-targets=hip-amdgcn-amd-amdhsa--gfx906";
const OLD: &str = "old";

/// The two tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tool {
    Ours,
    Theirs,
}

/// How LLVM writes an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Opens the file and writes into it.
    Rewrites,
    /// Opens and thereby empties the file, then replaces it with another one with the mode of the host's object.
    FatObject,
    /// Replaces the file, except a device.
    Replaces,
    /// Replaces any file.
    ReplacesAll,
    /// Replaces any file, under a generated name.
    Generates,
}

/// The name, the arguments, and the way of writing. Each command writes one file.
const COMMANDS: &[(&str, &[&str], Way)] = &[
    ("fat object", &["-type=o", TARGETS, "-input=host.o", "-input=device", "-output=out"], Way::FatObject),
    ("bundle", &["-type=bc", TARGETS, "-input=host.o", "-input=device", "-output=out"], Way::Rewrites),
    ("text bundle", &["-type=s", TARGETS, "-input=device", "-input=device", "-output=out"], Way::Rewrites),
    ("compressed", &["-type=bc", "-compress", TARGETS, "-input=host.o", "-input=device", "-output=out"], Way::Rewrites),
    ("unbundle", &["-type=bc", "-unbundle", DEVICE, "-input=bundle", "-output=out"], Way::Rewrites),
    ("unbundle a fat object", &["-type=o", "-unbundle", DEVICE, "-input=fat.o", "-output=out"], Way::Rewrites),
    ("unbundle an archive", &["-type=a", "-unbundle", DEVICE, "-input=fat.a", "-output=out"], Way::ReplacesAll),
    (
        "package",
        &["package", "-o", "out", "--image=file=device,triple=amdgcn-amd-amdhsa,arch=gfx906,kind=hip"],
        Way::Replaces,
    ),
    ("unpackage", &["package", "images", "--image=file=out,arch=gfx906"], Way::Replaces),
    ("package nothing", &["package", "-o", "out"], Way::Rewrites),
    ("unpackage an empty image", &["package", "empties", "--image=file=out,arch=gfx906"], Way::Rewrites),
    (
        "unpackage into an archive",
        &["package", "images", "--archive", "--image=file=out,arch=gfx906"],
        Way::ReplacesAll,
    ),
    ("unpackage by generated names", &["package", "images", "--image=arch=gfx906"], Way::Generates),
    ("extract", &["extract", "-o", ".", "--target=*gfx906", "bundle"], Way::Generates),
    ("recompress", &["recompress", "bundle", "-o", "out"], Way::Rewrites),
    ("recompress a DLL", &["recompress", "x.dll", "-o", "out"], Way::Rewrites),
    ("drop code from a fat object", &["recompress", "two.o", "--drop=gfx90a", "-o", "out"], Way::Rewrites),
];

/// The existing file at the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum There {
    Nothing,
    File(u32),
    LinkToFile,
    LinkToNothing,
    LinkToItself,
    LinkToNull,
    Directory,
}

const THERE: [There; 11] = [
    There::Nothing,
    There::File(0o600),
    There::File(0o644),
    There::File(0o666),
    There::File(0o444),
    There::File(0o777),
    There::LinkToFile,
    There::LinkToNothing,
    There::LinkToItself,
    There::LinkToNull,
    There::Directory,
];

/// The file at the path after the run.
#[derive(Clone, Debug, PartialEq, Eq)]
enum After {
    /// The run failed, and the file is unchanged.
    Unchanged,
    /// A new file with this mode.
    New(u32),
    /// A link to a new file with this mode.
    LinkToNew(u32),
    /// The target of the link, `/dev/null`, is written; it discards the data.
    Written,
    /// A new file with this mode, and an empty file at the old target of the link.
    NewAndEmpty(u32),
}

/// The mode of a new file with umask 022.
const NEW: u32 = 0o644;

/// The expected file after a tool has written, where `host` is the mode of the host's object.
fn after(tool: Tool, way: Way, there: There, host: u32) -> After {
    use There::{Directory, File, LinkToFile, LinkToItself, LinkToNothing, LinkToNull, Nothing};
    let new = if way == Way::FatObject { host & !0o022 } else { NEW };
    let follows = matches!(way, Way::Rewrites | Way::FatObject);
    match (there, tool) {
        (Directory, _) => After::Unchanged,
        (LinkToItself, _) if follows => After::Unchanged,
        (File(0o444), _) if follows => After::Unchanged,
        (Nothing | LinkToItself, _) => After::New(new),
        (File(mode), _) if way == Way::Rewrites => After::New(mode),
        (File(mode), Tool::Ours) => After::New(mode & new),
        (File(_), _) => After::New(new),
        // LLVM writes a fat object to a temporary file next to the opened output, and then renames it.
        (LinkToFile | LinkToNothing, Tool::Theirs) if way == Way::FatObject => After::NewAndEmpty(new),
        (LinkToNull, Tool::Theirs) if matches!(way, Way::FatObject | Way::ReplacesAll) => After::New(new),
        (LinkToFile, _) if way == Way::Rewrites => After::LinkToNew(0o666),
        (LinkToFile, Tool::Ours) if follows => After::LinkToNew(0o666 & new),
        (LinkToFile | LinkToNothing, _) if follows => After::LinkToNew(new),
        (LinkToNull, _) if tool == Tool::Theirs || way != Way::Generates => After::Written,
        (LinkToFile | LinkToNothing | LinkToNull, _) => After::New(new),
    }
}

/// A minimal ELF object for x86-64: a header without sections.
fn object() -> Vec<u8> {
    let mut object = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x01\0\x3e\0\x01\0\0\0".to_vec();
    object.resize(52, 0);
    object.extend_from_slice(&[64, 0, 0, 0, 0, 0, 64, 0, 0, 0, 0, 0]);
    object
}

/// Runs one of [`COMMANDS`] with the rights of this process, but without those of root.
fn run(tool: Tool, llvm: Option<&Path>, directory: &Path, words: &[&str]) -> bool {
    let (executable, words) = match (tool, words.split_first()) {
        (Tool::Theirs, Some((&"package", rest))) => (llvm.unwrap().join("llvm-offload-binary"), rest),
        (Tool::Theirs, _) => (llvm.unwrap().join("clang-offload-bundler"), words),
        (Tool::Ours, _) => (executable(), words),
    };
    let mut command = Command::new("sh");
    command.args(["-c", "umask 022; exec \"$@\"", "sh"]);
    if rustix::process::geteuid().is_root() {
        command.args(["setpriv", "--bounding-set=-all", "--inh-caps=-all"]);
    }
    command.arg(executable).args(words).current_dir(directory).output().unwrap().status.success()
}

/// A directory with the files that the commands read.
fn inputs() -> tempfile::TempDir {
    let directory = memory_directory();
    let path = |name: &str| directory.path().join(name);
    fs::write(path("host.o"), object()).unwrap();
    fs::write(path("device"), "device").unwrap();
    fs::write(path("empty"), "").unwrap();
    for words in [
        &["-type=bc", TARGETS, "-input=host.o", "-input=device", "-output=bundle"][..],
        &["-type=o", TARGETS, "-input=host.o", "-input=device", "-output=fat.o"],
        &[
            "-type=o",
            &[TARGETS, ",hip-amdgcn-amd-amdhsa--gfx90a"].concat(),
            "-input=host.o",
            "-input=device",
            "-input=device",
            "-output=two.o",
        ],
        &["package", "-o", "images", "--image=file=device,triple=amdgcn-amd-amdhsa,arch=gfx906,kind=hip"],
        &["package", "-o", "empties", "--image=file=empty,triple=amdgcn-amd-amdhsa,arch=gfx906,kind=hip"],
    ] {
        assert!(run(Tool::Ours, None, directory.path(), words), "{words:?}");
    }
    fs::write(path("x.dll"), pe(&[(".hip_fat", &fs::read(path("bundle")).unwrap())])).unwrap();
    let fat = fs::read(path("fat.o")).unwrap();
    let header = format!("!<arch>\n{:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", "fat.o/", 0, 0, 0, 644, fat.len());
    let padding = if fat.len() % 2 == 1 { "\n" } else { "" };
    fs::write(path("fat.a"), [header.as_bytes(), &fat, padding.as_bytes()].concat()).unwrap();
    directory
}

fn copy(inputs: &tempfile::TempDir) -> tempfile::TempDir {
    let directory = memory_directory();
    for input in fs::read_dir(inputs.path()).unwrap().map(Result::unwrap) {
        fs::copy(input.path(), directory.path().join(input.file_name())).unwrap();
    }
    directory
}

/// The name of the file that a command writes.
fn output(inputs: &tempfile::TempDir, words: &[&str]) -> OsString {
    let directory = copy(inputs);
    assert!(run(Tool::Ours, None, directory.path(), words), "{words:?}");
    let names = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let new: Vec<_> = names.filter(|name| !inputs.path().join(name).exists()).collect();
    assert_eq!(new.len(), 1, "{words:?} wrote {new:?}");
    new.into_iter().next().unwrap()
}

fn mode(path: &Path) -> u32 {
    path.symlink_metadata().unwrap().mode() & 0o7777
}

/// Creates a file at a path. Links lead to `target`.
fn put(there: There, path: &Path, target: &Path) {
    let file = |path: &Path, mode| {
        fs::write(path, OLD).unwrap();
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    };
    match there {
        There::Nothing => {}
        There::File(mode) => file(path, mode),
        There::LinkToFile => {
            file(target, 0o666);
            symlink("target", path).unwrap();
        }
        There::LinkToNothing => symlink("target", path).unwrap(),
        There::LinkToItself => symlink(path.file_name().unwrap(), path).unwrap(),
        There::LinkToNull => symlink("/dev/null", path).unwrap(),
        There::Directory => fs::create_dir(path).unwrap(),
    }
}

/// The state of a path after the run.
fn look(there: There, path: &Path, target: &Path) -> After {
    let content = |path: &Path| fs::read(path).unwrap_or_default();
    let is_new =
        |path: &Path| path.metadata().is_ok_and(|metadata| metadata.is_file() && content(path) != OLD.as_bytes());
    if path.is_symlink() {
        match there {
            There::LinkToNull => After::Written,
            _ if is_new(target) => After::LinkToNew(mode(target)),
            _ => After::Unchanged,
        }
    } else if is_new(path) {
        let kept = if there == There::LinkToFile { OLD } else { "" };
        match target.metadata() {
            Ok(emptied) if emptied.len() == 0 => After::NewAndEmpty(mode(path)),
            _ => {
                assert_eq!(content(target), kept.as_bytes(), "what a link led to has changed");
                After::New(mode(path))
            }
        }
    } else {
        if let There::File(old) = there {
            assert_eq!((content(path), mode(path)), (OLD.into(), old), "a failure has changed something");
        }
        After::Unchanged
    }
}

#[test]
fn existing_output_files_are_treated_as_llvm_does() {
    if rustix::process::geteuid().is_root() && Command::new("setpriv").arg("--version").output().is_err() {
        return skipped("root may write any file, and there is no setpriv to give that up", None);
    }
    let llvm = llvm("what LLVM does with what is at the path of an output", &["clang-offload-bundler"]);
    let inputs = inputs();
    let mut runs = 0;
    for (name, words, way) in COMMANDS {
        let output = output(&inputs, words);
        for tool in [Tool::Ours, Tool::Theirs] {
            if tool == Tool::Theirs && (llvm.is_none() || ["extract", "recompress"].contains(&words[0])) {
                continue;
            }
            let hosts: &[u32] = if *way == Way::FatObject { &[0o644, 0o600, 0o755, 0o440] } else { &[0o644] };
            let cases: Vec<_> = hosts.iter().flat_map(|host| THERE.map(|there| (host, there))).collect();
            // LLVM's tool does not change with this code, so a part of its cases is enough.
            let cases = if tool == Tool::Ours { cases } else { share_of(name, cases, 4) };
            for (&host, there) in cases {
                // The new file is in the directory then, which `a_failure_names_the_output` shows.
                if words[0] == "recompress" && there == There::Directory {
                    continue;
                }
                let directory = copy(&inputs);
                fs::set_permissions(directory.path().join("host.o"), Permissions::from_mode(host)).unwrap();
                let (path, target) = (directory.path().join(&output), directory.path().join("target"));
                put(there, &path, &target);
                let expected = after(tool, *way, there, host);
                let succeeded = run(tool, llvm.as_deref(), directory.path(), words);
                assert_eq!(look(there, &path, &target), expected, "{tool:?}: {name}, host {host:o}: {there:?}");
                assert_eq!(succeeded, expected != After::Unchanged, "{tool:?}: {name}: {there:?}");
                runs += 1;
            }
        }
    }
    assert!(runs >= COMMANDS.len() * THERE.len() - 1, "{runs} runs");
}

#[test]
fn archives_go_to_the_standard_output_as_everything_else_does() {
    let inputs = inputs();
    for words in [
        &["-type=a", "-unbundle", DEVICE, "-input=fat.a", "-output=-"][..],
        &["package", "images", "--archive", "--image=file=-,arch=gfx906"],
    ] {
        let run = Command::new(executable()).args(words).current_dir(inputs.path()).output().unwrap();
        assert!(run.status.success(), "{words:?}");
        assert!(run.stdout.starts_with(b"!<arch>\n") && run.stdout.ends_with(b"device"), "{words:?}");
        assert!(!inputs.path().join("-").exists(), "{words:?}");
    }
}

#[test]
fn a_failure_names_the_output() {
    let inputs = inputs();
    for (name, words, _) in COMMANDS {
        let directory = copy(&inputs);
        let mut output = PathBuf::from(output(&inputs, words));
        if words[0] == "recompress" {
            // A directory gets a file with the name of the input.
            output.push(words[1]);
        }
        fs::create_dir_all(directory.path().join(&output)).unwrap();
        let run = Command::new(executable()).args(*words).current_dir(directory.path()).output().unwrap();
        let stderr = String::from_utf8_lossy(&run.stderr).into_owned();
        let expected = format!("{}': Is a directory\n", output.display());
        assert!(run.status.code() == Some(1) && stderr.ends_with(&expected), "{name}: {stderr}");
    }
}

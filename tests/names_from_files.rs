//! Names from files are harmless: they never lead out of the directory, and a terminal shows them without interpreting
//! them.

use crate::bombs::files;
use crate::machine::memory_directory;
use crate::reference::formats;
use crate::reference::offload;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use crate::reference::offload::Image;

const GFX906: &str = "hip-amdgcn-amd-amdhsa--gfx906";

/// Harmful names: paths out of the directory, line ends, terminal escape sequences, and very long names.
const NAMES: [&str; 12] = [
    "../../../x",
    "/etc/x",
    "a/b",
    "..",
    ".",
    "\n",
    "a\nb\r",
    "\x1b[2J\x1b]0;title\x07",
    "\u{9b}31m",
    "\u{202e}cod.exe",
    "\x7f\x08\x08",
    "-rf",
];

/// The directory of a run, two levels below a temporary one.
struct Lab {
    outer: tempfile::TempDir,
}

/// The results of a run.
struct Run {
    status: Option<i32>,
    stdout: String,
    stderr: String,
    /// The names of all new files.
    written: Vec<OsString>,
}

impl Lab {
    fn new() -> Self {
        let outer = memory_directory();
        fs::create_dir(outer.path().join("inner")).unwrap();
        Self { outer }
    }

    fn file(self, name: &str, data: &[u8]) -> Self {
        fs::write(self.outer.path().join("inner").join(name), data).unwrap();
        self
    }

    fn run(&self, called: &str, args: &[&str]) -> Run {
        let names = |dir: &Path| -> Vec<OsString> {
            fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name()).collect()
        };
        let inner = self.outer.path().join("inner");
        let before = names(&inner);
        let mut command = Command::new(env!("CARGO_BIN_EXE_clang-offload-bundler"));
        let output = command.arg0(called).args(args).current_dir(&inner).output().unwrap();
        assert_eq!(names(self.outer.path()), ["inner"], "{args:?}: a file outside the directory");
        for text in [&output.stdout, &output.stderr] {
            assert!(is_harmless(text), "{args:?}: {}", text.escape_ascii());
        }
        let written = names(&inner).into_iter().filter(|name| !before.contains(name)).collect::<Vec<_>>();
        for name in &written {
            let is_name = is_harmless(name.as_bytes()) && !name.as_bytes().iter().any(u8::is_ascii_control);
            assert!(is_name, "{args:?}: {}", name.display());
            assert!(inner.join(name).symlink_metadata().unwrap().is_file(), "{args:?}: {}", name.display());
            if *name != *"out" {
                fs::remove_file(inner.join(name)).unwrap();
            }
        }
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Run { status: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr), written }
    }

    fn bundler(&self, args: &[&str]) -> Run {
        self.run("clang-offload-bundler", args)
    }

    fn packager(&self, args: &[&str]) -> Run {
        self.run("llvm-offload-binary", args)
    }
}

/// Whether every terminal shows these bytes as plain lines of text.
fn is_harmless(bytes: &[u8]) -> bool {
    bytes.utf8_chunks().all(|chunk| {
        let turns = |c: char| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        // Messages contain tabs.
        let valid = chunk.valid().chars().all(|c| matches!(c, '\n' | '\t') || (!c.is_control() && !turns(c)));
        valid && !chunk.invalid().iter().any(|byte| (0x80..0xa0).contains(byte))
    })
}

fn named(name: &str) -> Image {
    Image::new(1, 4, &[("triple", name), ("arch", name)], b"code")
}

#[test]
fn entry_ids_are_printed_and_never_obeyed() {
    for name in NAMES {
        let id = format!("hip-amdgcn-amd-amdhsa--{name}");
        let lab = Lab::new().file("in", &formats::binary(&[(&id, b"code"), (name, b"")], 1));
        let listed = lab.bundler(&["-list", "-type=bc", "-input=in"]);
        assert_eq!((listed.status, listed.stdout.lines().count()), (Some(0), 2), "{name:?}: {}", listed.stdout);
        // IDs that are requested, and missing IDs.
        let target = format!("-targets={id}");
        let unbundle = ["-unbundle", "-type=bc", "-input=in", "-output=out"];
        for target in [target.as_str(), "-targets=hip-amdgcn-amd-amdhsa--gfx90a"] {
            let run = lab.bundler(&[&unbundle[..], &[target]].concat());
            assert!(run.written.iter().all(|name| name == "out"), "{name:?}");
        }
    }
}

#[test]
fn ids_in_errors_are_shown_and_cut() {
    let long = "x".repeat(100_000);
    for name in NAMES.into_iter().chain([long.as_str()]).filter(|name| !name.contains('\n')) {
        let unclosed = format!("\n# __CLANG_OFFLOAD_BUNDLE____START__ {name}\ncode\n");
        let mut binary = formats::binary(&[(name, b"code")], 1);
        binary.pop();
        for (file_type, data) in [("s", unclosed.into_bytes()), ("bc", binary)] {
            let run = Lab::new().file("in", &data).bundler(&["-list", &format!("-type={file_type}"), "-input=in"]);
            assert_eq!(run.status, Some(1), "{name:?}");
            assert!(run.stderr.len() < 1000 && run.stderr.lines().count() == 1, "{name:?}: {}", run.stderr);
        }
    }
}

#[test]
fn members_of_archives_are_named_and_never_obeyed() {
    let long = "y".repeat(4000);
    for name in NAMES.into_iter().chain([long.as_str()]) {
        // A broken bundle, a bundle with a conflict, and invalid bitcode: each is reported with the member's name.
        let mut broken = formats::binary(&[(GFX906, b"code")], 1);
        broken.pop();
        let conflict = formats::binary(&[(GFX906, b""), (&format!("{GFX906}:xnack+"), b"")], 1);
        let bitcode = formats::binary(&[(GFX906, b"BC\xc0\xde1")], 1);
        let other = formats::binary(&[(GFX906, b"code")], 1);
        for (content, sound) in [(&broken, false), (&conflict, false), (&bitcode, true), (&other, true)] {
            let lab = Lab::new().file("in", &bsd(name, content));
            drop(lab.bundler(&["-list", "-type=a", "-input=in"]));
            let targets = format!("-targets={GFX906}");
            let run =
                lab.bundler(&["-unbundle", "-type=a", "-check-input-archive", "-input=in", &targets, "-output=out"]);
            assert_eq!(run.status == Some(0), sound, "{name:?}: {}", run.stderr);
            if sound {
                let out = fs::read(lab.outer.path().join("inner/out")).unwrap();
                members(&out).iter().for_each(|name| assert!(!name.contains(&b'/'), "{}", name.escape_ascii()));
            }
        }
    }
}

/// An archive with one member. Its name, which may be any bytes, precedes the content.
fn bsd(name: &str, content: &[u8]) -> Vec<u8> {
    let (field, size) = (format!("#1/{}", name.len()), name.len() + content.len());
    let header = format!("!<arch>\n{field:<16}0           0     0     644     {size:<10}`\n");
    let mut data = [header.as_bytes(), name.as_bytes(), content].concat();
    data.resize(data.len().next_multiple_of(2), b'\n');
    data
}

fn members(archive: &[u8]) -> Vec<Vec<u8>> {
    let mut archive = ar::Archive::new(archive);
    let mut names = Vec::new();
    while let Some(member) = archive.next_entry() {
        names.push(member.unwrap().header().identifier().to_vec());
    }
    assert!(names.iter().all(|name| is_harmless(name) && !name.iter().any(u8::is_ascii_control)));
    names
}

#[test]
fn generated_names_stay_in_the_directory() {
    for name in NAMES {
        let lab = Lab::new().file("in", &offload::write(2, &[named(name)]));
        let run = lab.packager(&["in", "--image=kind=hip"]);
        assert_eq!((run.status, run.written.len()), (Some(0), 1), "{name:?}: {}", run.stderr);
        // The names of members of archives become those of members.
        let lab = Lab::new().file("in", &bsd(name, &offload::write(1, &[named(name)])));
        let run = lab.packager(&["in", "--archive", "--image=file=out"]);
        assert_eq!(run.status, Some(0), "{name:?}: {}", run.stderr);
        let out = fs::read(lab.outer.path().join("inner/out")).unwrap();
        for member in members(&out) {
            let leads_out = member.starts_with(b"/") || member.split(|&byte| byte == b'/').any(|part| part == b"..");
            assert!(!leads_out || member == b"..", "{name:?}: {}", member.escape_ascii());
        }
    }
}

#[test]
fn names_that_no_file_can_have_are_errors_or_changed() {
    let image = |arch: &[u8]| {
        let mut image = named("t");
        image.strings[1].1 = arch.to_vec();
        Lab::new().file("in", &offload::write(2, &[image])).packager(&["in", "--image=kind=hip"])
    };
    let long = image(&[b'x'; 300]);
    assert_eq!((long.status, long.written.len()), (Some(1), 0));
    assert!(long.stderr.contains("File name too long"), "{}", long.stderr);
    let longer = image(&[b'x'; 100_000]);
    assert_eq!((longer.status, longer.written.len()), (Some(1), 0));
    for (arch, expected) in
        [(&b"a\0b"[..], &b"in-t-a_b.0.o"[..]), (b"\xff\x9b", b"in-t-\xff_.0.o"), (b"", b"in-t-.0.o")]
    {
        assert_eq!(image(arch).written, [OsString::from_vec(expected.to_vec())]);
    }
}

#[test]
fn files_beside_thin_archives_are_named_and_never_obeyed() {
    for name in NAMES.into_iter().chain(["", "\0", "/dev/zero", "/proc/self/fd"]) {
        let field = format!("#1/{}", name.len());
        let gnu = format!("!<thin>\n{:<48}{:<10}`\n{name}/\n", "//", name.len() + 2);
        let gnu = format!("{gnu}{}{:<48}{:<10}`\n", if gnu.len() % 2 == 1 { "\n" } else { "" }, "/0", 5);
        let bsd = format!("!<thin>\n{field:<48}{:<10}`\n{name}", name.len());
        for data in [gnu, bsd] {
            let lab = Lab::new().file("in", data.as_bytes());
            for run in [lab.packager(&["in", "--image=file=out"]), lab.bundler(&["-list", "-type=a", "-input=in"])] {
                assert!(matches!(run.status, Some(0 | 1)) && run.written.is_empty(), "{name:?}: {}", run.stderr);
            }
        }
    }
}

#[test]
fn section_names_are_shown_and_never_obeyed() {
    for name in NAMES {
        // The section, which has the name of an entry, extends beyond the file.
        let section = format!("__CLANG_OFFLOAD_BUNDLE__{name}");
        let data = files::elf::named_section(&section, 1 << 40);
        let run = Lab::new().file("in", &data).bundler(&["-list", "-type=o", "-input=in"]);
        assert_eq!(run.status, Some(1), "{name:?}: {}", run.stdout);
        assert_eq!(run.stderr.lines().count(), 1, "{name:?}: {}", run.stderr);
    }
}

#[test]
fn names_in_output_of_subcommands_are_shown_and_never_obeyed() {
    for name in NAMES {
        let bundle = formats::binary(&[(&format!("hip-amdgcn-amd-amdhsa--{name}"), b"code"), (name, b"code")], 1);
        let file = name.replace('/', "_");
        // The names of a file, of a member, and of an entry. JSON contains the name of a file unchanged.
        let lab = Lab::new().file("in", &bsd(name, &bundle)).file(&format!("in{file}"), &bundle);
        for args in [&["inspect", "."][..], &["inspect", "--each", "."], &["inspect", "--json", "in"], &["verify", "."]]
        {
            let run = lab.run("clang-offload-bundler", args);
            assert!(!run.stdout.is_empty(), "{args:?} on {name:?}: {}", run.stderr);
        }
        for args in [["report", ".", "-o", "out"], ["inspect", ".", "--svg", "out"]] {
            assert_eq!(lab.bundler(&args).status, Some(0), "{args:?} on {name:?}");
            let picture = fs::read(lab.outer.path().join("inner/out")).unwrap();
            assert!(is_harmless(&picture), "{args:?} on {name:?}: {}", picture.escape_ascii());
        }
        // The list of available targets if nothing matches, and the names of written files.
        assert_eq!(lab.bundler(&["extract", "in", "--target", "gfx1030"]).status, Some(1), "{name:?}");
        assert_eq!(lab.bundler(&["extract", "in"]).written.len(), 2, "{name:?}");
    }
}

#[test]
fn paths_in_messages_are_shown_and_never_obeyed() {
    for name in ["\x1b[2J", "a\nb", "\u{9b}m", "\u{202e}x"] {
        let lab = Lab::new().file(name, b"\x10\xff\x10\xad");
        let input = format!("-input={name}");
        let missing = format!("-input={name}{name}");
        for input in [&input, &missing] {
            let run = lab.bundler(&["-unbundle", "-type=a", input, &format!("-targets={GFX906}"), "-output=out"]);
            assert_eq!((run.status, run.stderr.lines().count()), (Some(1), 1), "{name:?}: {}", run.stderr);
        }
        assert_eq!(lab.packager(&[name, "--image=file=out"]).status, Some(1), "{name:?}");
    }
}

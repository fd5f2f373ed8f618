//! References to any file, and any content of these files: nothing hangs, nothing is written, and the rest is reported.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};

use super::tree::{LIBRARY, PATH, Tree, archives, codes, expected, program, program_with};
use crate::properties::kpacks::{self, Archive, Code, Scheme, Value};
use crate::properties::make::{Elf, STORED, Section, Zipped, zip};

/// The time in seconds after which a run hangs, even on a busy machine.
const PATIENCE: &str = "600";

/// Command lines that write nothing.
const LOOKS: [&[&str]; 7] = [
    &["inspect"],
    &["inspect", "--json"],
    &["inspect", "--inflate", "--json"],
    &["inspect", "--no-follow"],
    &["verify"],
    &["verify", "--json"],
    &["extract", "-n"],
];

/// The names of all files below the root, and their lengths.
fn files(tree: &Tree) -> Vec<(String, u64)> {
    let entries = walkdir::WalkDir::new(tree.root()).sort_by_file_name().into_iter().map(Result::unwrap);
    entries.map(|entry| (entry.path().display().to_string(), entry.path().symlink_metadata().unwrap().len())).collect()
}

/// Runs every command line on the library, and on a bundle after it, which every command line that lists must report.
fn endure(what: &str, tree: &Tree) -> Vec<String> {
    let id = "hip-amdgcn-amd-amdhsa--gfx1201";
    tree.put("sound.bundle", &crate::reference::formats::binary(&[(id, b"code")], 1));
    let before = files(tree);
    let mut printed = Vec::new();
    for look in LOOKS {
        let mut command = Command::new("timeout");
        command.args([PATIENCE, crate::subcommands::PROGRAM]).args(look).args([LIBRARY, "sound.bundle"]);
        // A pipe that nobody writes to and nobody closes.
        let (reader, writer) = std::io::pipe().unwrap();
        command.current_dir(tree.root()).stdin(Stdio::from(reader));
        let output = command.output().unwrap();
        drop(writer);
        let [out, said] = [&output.stdout, &output.stderr].map(|text| String::from_utf8(text.clone()).unwrap());
        let what = format!("{what}, {look:?}: {said}");
        assert!(matches!(output.status.code(), Some(0 | 1)), "{:?} {what}", output.status);
        assert!(look[0] != "inspect" || out.contains("gfx1201"), "{what}: {out:.2000}");
        assert!(!out.chars().chain(said.chars()).any(|c| c.is_control() && c != '\n'), "{what}: {out:.2000}");
        assert!(out.len() + said.len() < 200_000, "{what}: {}", out.len() + said.len());
        assert!(files(tree) == before, "{what}: files have changed");
        printed.push(out + &said);
    }
    printed
}

#[test]
fn references_may_lead_anywhere() {
    let up = "../".repeat(40);
    let long = "n/".repeat(3000);
    for path in [
        "/dev/zero",
        "/dev/stdin",
        "/dev/tty",
        "/proc/self/pagemap",
        "/proc/self/mem",
        "/proc/kmsg",
        "/etc/passwd",
        "/",
        "",
        ".",
        "..",
        "libtest.so",
        "./@GFXARCH@",
        "@GFXARCH@",
        "@GFXARCH@/@GFXARCH@/@GFXARCH@",
        "/@GFXARCH@/x",
        "/proc/self/fd/@GFXARCH@",
        "\0",
        "x\0y@GFXARCH@",
        "\x1b[2J\n\u{202e}@GFXARCH@",
        &format!("{up}dev/zero"),
        &format!("{up}dev/stdin"),
        &long,
        &format!("{long}@GFXARCH@"),
        &"n".repeat(60_000),
    ] {
        let tree = Tree::sound(Scheme::Zstd, 1);
        tree.put(LIBRARY, &program(&kpacks::reference(&[path], LIBRARY), 1));
        endure(&format!("{:.60?}", path), &tree);
        // Archives of the other paths are found.
        tree.put(LIBRARY, &program(&kpacks::reference(&[path, PATH], LIBRARY), 1));
        for printed in endure(&format!("{:.60?} and another", path), &tree).iter().take(3) {
            assert!(path.len() > 50_000 || printed.contains("gfx90a:xnack-"), "{path:.60?}: {printed:.2000}");
        }
    }
}

#[test]
fn files_named_like_an_archive_may_have_any_content() {
    type Make = fn(&std::path::Path);
    let makes: [(&str, Make); 7] = [
        ("a pipe", |path| assert!(Command::new("mkfifo").arg(path).status().unwrap().success())),
        ("a link to itself", |path| symlink(path, path).unwrap()),
        ("a link to nothing", |path| symlink("nothing", path).unwrap()),
        ("a link to a device", |path| symlink("/dev/zero", path).unwrap()),
        ("a directory", |path| fs::create_dir(path).unwrap()),
        ("an empty file", |path| fs::write(path, b"").unwrap()),
        ("a text", |path| fs::write(path, b"text").unwrap()),
    ];
    for (what, make) in makes {
        for name in ["test_lib_gfx1100.kpack", "direct.kpack"] {
            let tree = Tree::sound(Scheme::Zstd, 1);
            tree.put(LIBRARY, &program(&kpacks::reference(&["../.kpack/direct.kpack", PATH], LIBRARY), 1));
            make(&tree.path(".kpack").join(name));
            for printed in endure(&format!("{what}, {name}"), &tree).iter().take(3) {
                assert!(printed.contains("gfx90a:xnack-"), "{what}: {printed}");
            }
        }
    }
    // A sparse file of 1 TB, with the header of an archive.
    let tree = Tree::sound(Scheme::Zstd, 1);
    let path = tree.path(".kpack/test_lib_gfx1100.kpack");
    let toc_at: u64 = (1 << 40) - 10;
    fs::write(&path, [&b"KPAK\x01\0\0\0"[..], &toc_at.to_le_bytes()].concat()).unwrap();
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(1 << 40).unwrap();
    endure("an archive of 1 TB", &tree);
}

#[test]
fn the_placeholder_is_replaced_once_anywhere_in_a_path() {
    for (path, name) in [
        ("../@GFXARCH@/test.kpack", "TARGET/test.kpack"),
        ("../a/@GFXARCH@/b/test.kpack", "a/TARGET/b/test.kpack"),
        ("../x_@GFXARCH@_y/test.kpack", "x_TARGET_y/test.kpack"),
        ("@GFXARCH@.kpack", "lib/TARGET.kpack"),
        ("../x/@GFXARCH@", "x/TARGET"),
        // As AMD's loader does, only the first is replaced.
        ("../x/@GFXARCH@_@GFXARCH@", "x/TARGET_@GFXARCH@"),
        ("../@GFXARCH@/@GFXARCH@.kpack", "TARGET/@GFXARCH@.kpack"),
    ] {
        let tree = Tree::new();
        let codes = codes(2);
        for (number, (_, archive)) in archives(Scheme::Zstd, &codes).into_iter().enumerate() {
            let target = archive.arches[0].clone();
            tree.put(&name.replace("TARGET", &target), &archive.write());
            // A file with another word in place of the target ID is not an archive.
            tree.put(&name.replace("TARGET", &format!("other{number}")), b"text");
        }
        tree.put(LIBRARY, &program(&kpacks::reference(&[path], LIBRARY), 2));
        assert!(tree.extracted(&[LIBRARY]) == expected(&codes), "{path}");
    }
}

#[test]
fn a_reference_to_many_archives_ends() {
    let tree = Tree::sound(Scheme::Zstd, 1);
    for number in 0..1000 {
        fs::copy(
            tree.path(".kpack/test_lib_gfx906.kpack"),
            tree.path(&format!(".kpack/test_lib_gfx{number:04x}.kpack")),
        )
        .unwrap();
    }
    endure("1,000 archives", &tree);
}

/// A reference of these values.
fn reference_of(paths: Option<Value>, name: Option<Value>) -> Vec<u8> {
    let pairs = [("kpack_search_paths", paths), ("kernel_name", name)];
    Value::map(pairs.into_iter().filter_map(|(key, value)| Some((key, value?)))).encode()
}

#[test]
fn broken_references_are_reported() {
    let (paths, name) = (Value::texts(&[PATH]), Value::text(LIBRARY));
    let both = |paths: &Value, name: &Value| reference_of(Some(paths.clone()), Some(name.clone()));
    let sound = both(&paths, &name);
    let mut cases = vec![
        ("no name", reference_of(Some(paths.clone()), None)),
        ("no paths", reference_of(None, Some(name.clone()))),
        ("paths that are none", both(&Value::List(Vec::new()), &name)),
        ("a path that is not a list", both(&Value::text(PATH), &name)),
        ("paths that are numbers", both(&Value::List(vec![Value::Int(1)]), &name)),
        ("a name that is a number", both(&paths, &Value::Int(1))),
        ("a name that is a list", both(&paths, &paths)),
        ("nothing", Vec::new()),
        ("zeros", vec![0; 100]),
        ("a list", Value::List(vec![paths.clone(), name.clone()]).encode()),
        ("a text", b"../.kpack/test_lib_@GFXARCH@.kpack".to_vec()),
        ("a list of 2^32-1 paths", both(&Value::Raw(vec![0xdd, 0xff, 0xff, 0xff, 0xff]), &name)),
        ("a name of 2^32-1 bytes", both(&paths, &Value::Raw(vec![0xdb, 0xff, 0xff, 0xff, 0xff]))),
        ("a map of 2^32-1 pairs", vec![0xdf, 0xff, 0xff, 0xff, 0xff]),
        ("60,000 lists in one another", [&[0x91; 60_000][..], &[0xc0]].concat()),
        ("a name of 70,000 bytes", both(&paths, &Value::Text("n".repeat(70_000)))),
        ("10,000 search paths", both(&Value::texts(&vec![PATH; 10_000]), &name)),
        ("200 search paths", both(&Value::texts(&vec![PATH; 200]), &name)),
    ];
    cases.extend((0..sound.len()).step_by(7).map(|len| ("a cut", sound[..len].to_vec())));
    for (what, reference) in cases {
        let tree = Tree::sound(Scheme::Zstd, 1);
        tree.put(LIBRARY, &program(&reference, 1));
        endure(what, &tree);
        for args in [["inspect", LIBRARY], ["verify", LIBRARY]] {
            assert_eq!(tree.run(&args).status.code(), Some(1), "{what}");
        }
    }
    // AMD's loader accepts other keys, another order, and bytes after the map.
    let wide = Value::Map(vec![
        (Value::Int(7), Value::List(vec![Value::Map(Vec::new())])),
        (Value::text("kernel_name"), name.clone()),
        (Value::text("more"), Value::Int(u64::MAX)),
        (Value::text("kpack_search_paths"), Value::List(vec![Value::Int(3), Value::text(PATH)])),
    ]);
    for reference in [wide.encode(), [&sound[..], &[0; 300]].concat(), [&sound[..], b"\xc1text"].concat()] {
        let tree = Tree::sound(Scheme::Zstd, 1);
        tree.put(LIBRARY, &program(&reference, 1));
        assert!(tree.extracted(&[LIBRARY]) == expected(&codes(1)), "{}", reference.escape_ascii());
    }
}

#[test]
fn sections_with_wrappers_may_hold_anything() {
    let reference = kpacks::reference(&[PATH], LIBRARY);
    let sound = kpacks::wrapper(0x2_0000, 0);
    for (what, wrappers) in [
        ("none", Vec::new()),
        ("a cut one", sound[..20].to_vec()),
        ("zeros between, as of sanitizers", [&sound[..], &[0; 40], &sound, &[0; 40]].concat()),
        ("those of a library that was not split", [b"FPIH", &sound[4..]].concat()),
        ("100,000 of the same", sound.repeat(100_000)),
        ("large indices", (0..100).flat_map(|index| kpacks::wrapper(0x2_0000, u32::MAX - index)).collect()),
    ] {
        let tree = Tree::sound(Scheme::Zstd, 1);
        tree.put(LIBRARY, &program_with(&reference, &wrappers));
        endure(what, &tree);
    }
}

/// A reference counts for the library that a loader loads, not for libraries inside of other files.
#[test]
fn references_in_other_files_lead_nowhere() {
    let library = program(&kpacks::reference(&["gfx906.kpack"], LIBRARY), 1);
    let wheel = zip(&[Zipped::new("libtest.so", STORED, &library)]);
    let code = Code::new(&format!("{LIBRARY}#0"), "gfx906", &library);
    let archive = Archive::new("g", Scheme::None, vec![code]);
    let section = Elf::LIBRARY.write(&[Section::new(".hip_fatbin", &archive.write())]);
    for (name, data) in [("in.whl", wheel), ("in.kpack", archive.write()), ("in.so", section)] {
        let tree = Tree::new();
        tree.put(name, &data);
        tree.put("gfx906.kpack", &Archive::new("g", Scheme::None, codes(1)).write());
        tree.put("lib/gfx906.kpack", &Archive::new("g", Scheme::None, codes(1)).write());
        let out = String::from_utf8(tree.run(&["inspect", "--json", name]).stdout).unwrap();
        assert!(!out.contains("gfx90a"), "{name}: {out}");
    }
}

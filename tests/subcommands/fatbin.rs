//! CUDA fatbins that the tests write themselves, without NVIDIA's tools: fixtures, damage, and wrappers.

use std::fs;

use super::*;

use crate::hostile::files::elf;
use crate::lists::places;
use crate::machine::memory_directory;
use crate::objects::exists_in_path;
use crate::properties::fatbins::{self, Code};

/// The fixtures, and how they are written. The bytes of compressed code depend on the version of zstd.
fn fixtures() -> [(&'static str, Vec<u8>); 2] {
    let plain = [Code::ptx(90), Code::cubin(80, 5).with_source("dir/b.cu"), Code::cubin(90, 300)];
    let plain = fatbins::fatbin(&plain.each_ref().map(fatbins::entry));
    [("fatbin/plain.fatbin", plain), ("fatbin/every-form.fatbin", fatbins::sample())]
}

/// The names and contents of all code objects.
fn extracted(data: &[u8]) -> Vec<(String, Vec<u8>)> {
    let dir = memory_directory();
    fs::write(dir.path().join("in"), data).unwrap();
    assert_eq!(text(&tool_in(dir.path(), &["extract", "in", "-o", "out"])).0, 0);
    let files = fs::read_dir(dir.path().join("out")).unwrap().map(|file| file.unwrap());
    let mut files: Vec<_> =
        files.map(|file| (file.file_name().into_string().unwrap(), fs::read(file.path()).unwrap())).collect();
    files.sort();
    files
}

#[test]
fn fixtures_hold_what_is_written() {
    for (name, data) in fixtures() {
        if std::env::var_os("BLESS").is_some() {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, &data).unwrap();
        }
        let files = extracted(&fixture(name));
        assert!(files.len() > 2 && files == extracted(&data), "{name}: BLESS=1 writes it again");
    }
    assert!(fixture("fatbin/plain.fatbin") == fixtures()[0].1);
}

#[test]
fn verify_reports_damage_that_hides_code() {
    let data = fixture("fatbin/every-form.fatbin");
    let whole = extracted(&data);
    let dir = memory_directory();
    let mut names = Vec::new();
    for at in places(data.len(), 4) {
        let mut damaged = data.clone();
        damaged[at] ^= 0xff;
        let name = format!("{at:05}");
        fs::write(dir.path().join(&name), damaged).unwrap();
        names.push(name);
    }
    let words: Vec<&str> = ["verify", "--json"].into_iter().chain(names.iter().map(String::as_str)).collect();
    let (status, report, _) = text(&tool_in(dir.path(), &words));
    assert_eq!(status, 1);
    let report: Value = serde_json::from_str(&report).unwrap();
    let mut silent = 0;
    for file in report["files"].as_array().unwrap() {
        // Damage may mark code as obfuscated, so that it cannot be checked: that is counted.
        if !file["faults"].as_array().unwrap().is_empty() || file["code_objects"] == 0 || file["unchecked"] != 0 {
            continue;
        }
        silent += 1;
        let name = file["path"].as_str().or(file["file"].as_str()).unwrap();
        let found = extracted(&fs::read(dir.path().join(name)).unwrap());
        // Several code objects may become one of an unknown kind, which is shown.
        let is_unknown = found.iter().any(|(name, _)| name.contains("--kind"));
        assert!(found.len() == whole.len() || is_unknown, "code is lost silently by damage at {name}");
    }
    assert!(silent > 0 && silent < names.len());
}

#[test]
fn many_relocations_are_followed() {
    let verify = |fatbin: &[u8]| {
        let dir = memory_directory();
        fs::write(dir.path().join("in"), elf::relocated_wrappers(fatbin, 100)).unwrap();
        text(&tool_in(dir.path(), &["verify", "in"])).1
    };
    let fatbin = fatbins::fatbin(&[fatbins::entry(&Code::ptx(90))]);
    assert_eq!(verify(&fatbin), "in: 1 code object in 1 bundle, nothing wrong\n");
    let out = verify(&[vec![0; 8], fatbin].concat());
    assert_eq!(out.matches("a wrapper that does not point at a fatbin").count(), 100, "{out}");
}

/// Returns two fatbins, and assembly with them and with wrappers that point at these expressions.
fn assembly(flags: &str, [code, wrappers]: [&str; 2], targets: &[&str]) -> (Vec<u8>, String) {
    let first = fatbins::fatbin(&[fatbins::entry(&Code::ptx(90))]);
    let second = fatbins::fatbin(&[fatbins::entry(&Code::cubin(90, 5))]);
    let mut source = format!(
        ".section {code}{flags}\n.balign 8\nfatbins: .incbin \"fatbins\"\n.set first, {}\n.data\nother: .quad 1\n",
        first.len()
    );
    source += &format!(".section {wrappers}{}\n.balign 8\n", flags.replace('r', "w").replace("\"a\"", "\"aw\""));
    for target in targets {
        source += &format!(".int 0x466243b1, 1\n.quad {target}, 0\n");
    }
    ([first, second].concat(), source)
}

/// Faults of the wrappers of a file that these commands make of the assembly `in.s`.
fn wrapper_faults(assembly: (Vec<u8>, String), commands: &[&[&str]]) -> usize {
    let dir = memory_directory();
    fs::write(dir.path().join("fatbins"), assembly.0).unwrap();
    fs::write(dir.path().join("in.s"), assembly.1).unwrap();
    for command in commands {
        must(Command::new(command[0]).args(&command[1..]).current_dir(dir.path()));
    }
    let (status, out, err) = text(&tool_in(dir.path(), &["verify", "out"]));
    let faults = out.matches("a wrapper that does not point at a fatbin").count();
    assert!(out.contains("2 code objects in 2 bundles"), "{out}{err}");
    assert_eq!(status, i32::from(faults > 0), "{out}{err}");
    faults
}

#[test]
fn wrappers_are_followed_through_relocations() {
    let right: &[&str] = &["fatbins", "fatbins + first"];
    let wrong: &[&str] = &["fatbins", "fatbins + 8", "other", "other + 0x100000", "fatbins + first"];
    let names = long_names();
    let as_object: &[&[&str]] = &[&["as", "in.s", "-o", "out"]];
    let linked = |linker: &'static str, option: &'static str| -> [Vec<&'static str>; 2] {
        [vec!["as", "in.s", "-o", "o"], vec![linker, "-shared", option, "o", "-o", "out"]]
    };
    if !exists_in_path("as") || !exists_in_path("ld") {
        return skip("wrappers", "binutils is not installed");
    }
    assert_eq!(wrapper_faults(assembly(",\"a\"", names, right), as_object), 0);
    assert_eq!(wrapper_faults(assembly(",\"a\"", names, wrong), as_object), 3);
    // Another object defines it.
    assert_eq!(wrapper_faults(assembly(",\"a\"", names, &["elsewhere"]), as_object), 0);
    let lld = llvm("wrappers by lld", "ld.lld").map(|path| &*path.to_str().unwrap().to_owned().leak());
    for linker in [Some("ld"), lld].into_iter().flatten() {
        for option in ["-znorelro", "-zpack-relative-relocs", "--apply-dynamic-relocs"] {
            if option.starts_with("--") && linker == "ld" {
                continue;
            }
            let commands = linked(linker, option);
            let commands: Vec<&[&str]> = commands.iter().map(Vec::as_slice).collect();
            assert_eq!(wrapper_faults(assembly(",\"a\"", names, right), &commands), 0, "{linker} {option}");
            assert_eq!(wrapper_faults(assembly(",\"a\"", names, wrong), &commands), 3, "{linker} {option}");
        }
    }
}

#[test]
fn empty_sections_hide_no_wrappers() {
    if !exists_in_path("as") {
        return skip("wrappers after empty sections", "binutils is not installed");
    }
    let fatbins =
        [fatbins::fatbin(&[fatbins::entry(&Code::ptx(90))]), fatbins::fatbin(&[fatbins::entry(&Code::cubin(90, 5))])];
    for (target, faults) in [("fatbins", 0), ("fatbins + 8", 1)] {
        // `.text`, `.data` and the wrappers begin at the same offset.
        let source = format!(
            ".section .nvFatBinSegment,\"aw\"\n.balign 8\n.int 0x466243b1, 1\n.quad {target}, 0\n\
             .section .nv_fatbin,\"a\"\n.balign 8\nfatbins: .incbin \"fatbins\"\n"
        );
        assert_eq!(wrapper_faults((fatbins.concat(), source), &[&["as", "in.s", "-o", "out"]]), faults, "{target}");
    }
}

#[test]
fn wrappers_in_pe_files_are_followed() {
    if !exists_in_path("x86_64-w64-mingw32-as") {
        return skip("wrappers in PE files", "binutils-mingw-w64-x86-64 is not installed");
    }
    let commands: &[&[&str]] =
        &[&["x86_64-w64-mingw32-as", "in.s", "-o", "o"], &["x86_64-w64-mingw32-ld", "-shared", "o", "-o", "out"]];
    let pe = [".nv_fatb", ".nvFatBi"];
    assert_eq!(wrapper_faults(assembly(",\"dr\"", pe, &["fatbins", "fatbins + first"]), commands), 0);
    assert_eq!(wrapper_faults(assembly(",\"dr\"", pe, &["fatbins + 8", "other", "fatbins"]), commands), 2);
    let object: &[&[&str]] = &[&["x86_64-w64-mingw32-as", "in.s", "-o", "out"]];
    assert_eq!(wrapper_faults(assembly(",\"dr\"", long_names(), &["fatbins", "elsewhere"]), object), 0);
    assert_eq!(wrapper_faults(assembly(",\"dr\"", long_names(), &["fatbins + 8", "fatbins + first"]), object), 1);
}

/// The names in ELF files, and in COFF objects.
fn long_names() -> [&'static str; 2] {
    [".nv_fatbin", ".nvFatBinSegment"]
}

//! The wrappers that programs register fatbins with: `verify` follows their addresses as linkers write them.

use crate::machine::memory_directory;
use std::fs;
use std::path::Path;
use std::process::Command;

use super::*;
use crate::subcommands::must;

/// Two fatbins and their wrappers. The second address is wrong by `{off}`.
const SOURCE: &str = "
 .section .nv_fatbin,\"{a}\"
 .p2align 3
first: .incbin \"compressed.fatbin\"
second: .incbin \"default.fatbin\"
 .section .nvFatBinSegment,\"{w}\"
 .p2align 3
 .long 0x466243b1, 1
 .quad first, 0
 .long 0x466243b1, 1
 .quad second + {off}, 0
";

const MAIN: &str = "int main(void) { return 0; }";

/// Linkers write addresses in the section, in relocations with addend, or in relative relocations; objects have
/// relocations.
const LINKED: &[(&str, &str, &[&str])] = &[
    ("object.o", "clang", &["-c", "kernel.s"]),
    ("main.o", "clang", &["-c", "main.c"]),
    ("gnu.so", "clang", &["-shared", "object.o"]),
    ("lld.so", "clang", &["-shared", "-fuse-ld=lld", "object.o"]),
    ("relr.so", "clang", &["-shared", "-fuse-ld=lld", "-Wl,-z,pack-relative-relocs", "object.o"]),
    ("pie", "clang", &["object.o", "main.o"]),
    ("program", "clang", &["-no-pie", "object.o", "main.o"]),
    ("object.obj", "clang", &["--target=x86_64-w64-windows-gnu", "-c", "windows.s"]),
    ("library.dll", "lld-link", &["/dll", "/noentry", "/opt:noref", "object.obj"]),
];

fn build(dir: &Path, inputs: &[Input], off: i32) {
    for input in inputs.iter().filter(|input| ["compressed.fatbin", "default.fatbin"].contains(&input.name.as_str())) {
        fs::write(dir.join(&input.name), &input.data).unwrap();
    }
    let source = SOURCE.replace("{off}", &off.to_string());
    let linux = source.replace("{a}", "a").replace("{w}", "aw");
    fs::write(dir.join("kernel.s"), linux + " .section .note.GNU-stack,\"\",@progbits\n").unwrap();
    fs::write(dir.join("windows.s"), source.replace("{a}", "dr").replace("{w}", "dw")).unwrap();
    fs::write(dir.join("main.c"), MAIN).unwrap();
    for (name, program, args) in LINKED {
        let output =
            if *program == "lld-link" { vec![format!("/out:{name}")] } else { vec!["-o".into(), (*name).into()] };
        must(Command::new(llvm("wrappers", program).unwrap()).args(*args).args(output).current_dir(dir));
    }
}

#[test]
fn wrappers_that_do_not_point_at_a_fatbin_are_a_fault() {
    let Some(inputs) = inputs("wrappers of fatbins") else { return };
    for off in [0, 8, 16, -8] {
        let dir = memory_directory();
        build(dir.path(), inputs, off);
        for (name, ..) in LINKED.iter().filter(|(name, ..)| *name != "main.o") {
            let data = fs::read(dir.path().join(name)).unwrap();
            let outcome = tool(&["verify", name], &[(*name, &data)]);
            let lines = String::from_utf8_lossy(&outcome.stdout).into_owned();
            let found = lines.contains("a wrapper that does not point at a fatbin");
            assert_eq!((outcome.status, found), (i32::from(off != 0), off != 0), "{name}, off by {off}: {lines}");
        }
    }
}

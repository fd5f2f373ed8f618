//! Programs with device images as linkers write them: the addresses in their tables are in the section, in relocations
//! with addend, or in packed relative relocations.

use crate::machine::memory_directory;
use std::fs;
use std::path::Path;
use std::process::Command;

use super::*;
use crate::subcommands::{Linked, link, llvm, must};

const SOURCE: &str = "
 .section \"__CLANG_OFFLOAD_BUNDLE__sycl-spir64\",\"{a}\"
 .p2align 4
first: .incbin \"first\"
 .p2align 4
second: .incbin \"second.zst\"
 .section \"__CLANG_OFFLOAD_BUNDLE__sycl-spir64_gen\",\"{a}\"
 .p2align 4
third: .incbin \"third\"
 .section OFFLOAD_DEVICE_CODE,\"{a}\"
 .p2align 4
fourth: .incbin \"fourth\"
 .section .tgtimg,\"{w}\"
 .p2align 4
 .quad second, {second}
 .quad first, {first}
 .quad third, {third}
 .quad 0, 0
 .quad fourth, {fourth}
";

const MAIN: &str = "int main(void) { return 0; }";

const LINKED: &[Linked] = &[
    ("object.o", "clang", &["-c", "images.s"]),
    ("main.o", "clang", &["-c", "main.c"]),
    ("gnu.so", "clang", &["-shared", "object.o"]),
    ("lld.so", "clang", &["-shared", "-fuse-ld=lld", "object.o"]),
    ("apart.so", "clang", &["-shared", "-fuse-ld=lld", "-Wl,-z,separate-code", "-Wl,--image-base=0x40000", "object.o"]),
    ("addends.so", "clang", &["-shared", "-fuse-ld=lld", "-Wl,--apply-dynamic-relocs", "object.o"]),
    ("relr.so", "clang", &["-shared", "-fuse-ld=lld", "-Wl,-z,pack-relative-relocs", "object.o"]),
    ("pie", "clang", &["object.o", "main.o"]),
    ("program", "clang", &["-no-pie", "object.o", "main.o"]),
    ("static", "clang", &["-static", "object.o", "main.o"]),
    ("object.obj", "clang", &["--target=x86_64-w64-windows-gnu", "-c", "windows.s"]),
    ("library.dll", "lld-link", &["/dll", "/noentry", "/opt:noref", "object.obj"]),
    ("mingw.dll", "ld.lld", &["-m", "i386pep", "-shared", "--entry=second", "object.obj"]),
];

fn build(dir: &Path, images: &[Vec<u8>; 4]) -> Option<()> {
    let test = "device images of linkers";
    ["clang", "ld.lld", "lld-link"].iter().all(|program| llvm(test, program).is_some()).then_some(())?;
    let mut source = SOURCE.to_owned();
    for (name, image) in ["first", "second", "third", "fourth"].iter().zip(images) {
        source = source.replace(&format!("{{{name}}}"), &image.len().to_string());
        fs::write(dir.join(name), image).unwrap();
    }
    fs::write(dir.join("second.zst"), zstd::bulk::compress(&images[1], 3).unwrap()).unwrap();
    let linux = source.replace("{a}", "a").replace("{w}", "aw");
    fs::write(dir.join("images.s"), linux + " .section .note.GNU-stack,\"\",@progbits\n").unwrap();
    fs::write(dir.join("windows.s"), source.replace("{a}", "dr").replace("{w}", "dw") + " .globl second\n").unwrap();
    fs::write(dir.join("main.c"), MAIN).unwrap();
    link(test, dir, LINKED);
    Some(())
}

#[test]
fn images_are_found_however_they_are_linked() {
    let images = [spirv(9, 1), spirv(90, 2), zebin(PVC, b"code"), spirv(2, 3)];
    let dir = memory_directory();
    if build(dir.path(), &images).is_none() {
        return;
    }
    let expected: Vec<_> = ["sycl-spir64", "sycl-spir64", "sycl-spir64_gen-unknown-unknown--pvc", "sycl-spir64"]
        .map(str::to_owned)
        .into_iter()
        .zip(images)
        .collect();
    let sorted = |mut images: Vec<(String, Vec<u8>)>| {
        images.sort();
        images
    };
    for (name, ..) in LINKED.iter().filter(|(name, ..)| !["object.o", "object.obj", "main.o"].contains(name)) {
        let data = fs::read(dir.path().join(name)).unwrap();
        assert_eq!(sorted(extracted(&[], &data)), sorted(expected.clone()), "{name}");
        let own = images::listed(&data);
        let sections: std::collections::BTreeSet<String> = texts(&listed(&data), "section").into_iter().collect();
        assert_eq!(
            (own.len(), sections.len()),
            (4, if name.ends_with(".dll") { 2 } else { 3 }),
            "{name}: {sections:?}"
        );
        assert!(out(&run(&["verify"], &data)).ends_with("4 code objects in 3 bundles, nothing wrong\n"), "{name}");
    }
    // Of an object that is not linked, each section with the name of an entry is one code object, as for LLVM's
    // bundler.
    let data = fs::read(dir.path().join("object.o")).unwrap();
    assert_eq!(texts(&listed(&data), "container"), ["fat object", "fat object", "device images"]);
}

#[test]
fn images_without_a_table_are_those_of_each_section() {
    let images = [spirv(9, 1), spirv(90, 2), zebin(PVC, b"code"), spirv(2, 3)];
    let dir = memory_directory();
    if build(dir.path(), &images).is_none() {
        return;
    }
    let Some(objcopy) = llvm("device images without a table", "llvm-objcopy") else { return };
    for name in ["lld.so", "program"] {
        let with_table = extracted(&[], &fs::read(dir.path().join(name)).unwrap());
        must(Command::new(&objcopy).args(["--rename-section", ".tgtimg=.other", name, "out"]).current_dir(dir.path()));
        assert_eq!(extracted(&[], &fs::read(dir.path().join("out")).unwrap()), with_table, "{name}");
    }
}

//! Device code in forms of host files that few linkers and tools write: images without an offload binary, files without
//! section headers, Mach-O, and relocations that are packed for Android.

use std::fs;
use std::path::Path;

use offload_bundle::scan::{Finding, Scan};

use super::*;
use crate::machine::memory_directory;
use crate::objects::exists_in_path;
use crate::properties::make::{Elf, Section, coff, mach_o, pe};
use crate::properties::{fatbins, hcfs, images};
use crate::reference::formats;
use crate::reference::harness::Random;
use crate::reference::offload::{self, Image};

fn bundle() -> Vec<u8> {
    formats::binary(&[(HOST, b""), (GFX906, b"first"), (GFX90A, b"second")], 16)
}

/// The findings in some bytes: sections, IDs and sizes of code objects, and the texts of all other findings.
fn found(data: &[u8], deep: bool) -> (Vec<(String, String, u64)>, Vec<String>) {
    let (mut codes, mut others) = (Vec::new(), Vec::new());
    let mut scan = Scan::default();
    scan.deep = deep;
    let mut visit = |finding: Finding<'_>| {
        match finding {
            Finding::Bundle(bundle) => {
                for code in bundle.code_objects() {
                    let section = bundle.place.section().unwrap_or_default();
                    codes.push((section, code.shown_id(), code.size()));
                }
            }
            Finding::Broken { error, .. } => others.push(error.to_string()),
            Finding::Unread { what, .. } => others.push(what.name().to_owned()),
            other => others.push(format!("{other:?}")),
        }
        Ok(())
    };
    scan.run(data, &mut visit).unwrap();
    (codes, others)
}

/// Images that OpenMP may offload to, and the ID of each.
fn image(random: &mut Random) -> (Vec<u8>, String) {
    let size = random.below(40);
    let text = random.bytes(size);
    let sections = [Section::new(".text", &text)];
    match random.below(6) {
        0 => (Elf::amdgpu(0x3f).write(&sections), "amdgcn-amd-amdhsa--gfx90a".into()),
        1 => (fatbins::cubin(90, random.below(9)), "nvptx64-nvidia-cuda--sm_90".into()),
        2 => (Elf::LIBRARY.write(&sections), "x86_64-unknown-unknown".into()),
        3 => (images::spirv_with_function(6), "spirv64-unknown-unknown".into()),
        4 => (fixture("bitcode/llvm22-thin.bc"), "x86_64-unknown-linux-gnu".into()),
        _ => {
            let strings = [("triple", "amdgcn-amd-amdhsa"), ("arch", "gfx906")];
            (offload::write(1, &[Image::new(1, 1, &strings, &text)]), "openmp-amdgcn-amd-amdhsa--gfx906".into())
        }
    }
}

/// Images are found one after another, with offload binaries among them and zeros between them; other data is not.
#[test]
fn images_without_an_offload_binary_are_found() {
    let mut random = Random::new(19);
    for round in 0..300 {
        let (mut content, mut expected) = (Vec::new(), Vec::new());
        for _ in 0..1 + random.below(5) {
            let (image, id) = image(&mut random);
            content.extend(image);
            content.resize(content.len().next_multiple_of(8) + 8 * random.below(3), 0);
            expected.push(id);
        }
        let name = *random.pick(&[".llvm.offloading", ".llvm.offloading.relocatable"]);
        let file = |content: &[u8]| match round % 4 {
            0 => (Elf::OBJECT.write(&[Section::new(name, content).offloading()]), name),
            1 => (Elf::LIBRARY.write(&[Section::new(name, content)]), name),
            2 => (coff(&[(name, content)]), name),
            _ => (pe(&[(".llvm.of", content)]), ".llvm.of"),
        };
        let (data, section) = file(&content);
        for deep in [false, true] {
            let (codes, others) = found(&data, deep);
            assert_eq!(others, [""; 0], "{round}: {expected:?}");
            assert!(codes.iter().all(|code| code.0 == section), "{round}: {codes:?}");
            assert_eq!(codes.into_iter().map(|code| code.1).collect::<Vec<_>>(), expected, "{round}");
        }
        let (codes, others) = found(&file(&[&content[..], b"something else"].concat()).0, false);
        assert_eq!((codes.len(), others.len()), (expected.len(), 1), "{round}: {others:?}");
        let (codes, others) = found(&file(&[&content[..], b"\x7fELF\x02\x01\x01"].concat()).0, false);
        assert_eq!((codes.len(), others.len()), (expected.len(), 1), "{round}: {others:?}");
        assert!(others[0].contains("a device image that is not complete"), "{others:?}");
    }
}

#[test]
fn images_of_the_openmp_wrapper_are_found() {
    let test = "images of llvm-offload-wrapper";
    let (Some(wrapper), Some(clang)) = (llvm(test, "llvm-offload-wrapper"), llvm(test, "clang")) else { return };
    let dir = memory_directory();
    let at = |name: &str| dir.path().join(name).into_os_string().into_string().unwrap();
    let images = [Elf::amdgpu(0x3f), Elf::amdgpu(0x2f), Elf::LIBRARY].map(|elf| elf.write(&[Section::new("a", b"b")]));
    let names: Vec<String> = (0..images.len()).map(|number| at(&format!("image{number}"))).collect();
    for (name, image) in names.iter().zip(&images) {
        fs::write(name, image).unwrap();
    }
    let triple = "--triple=x86_64-unknown-linux-gnu";
    must(Command::new(wrapper).args(["--kind=openmp", triple]).args(&names).args(["-o", &at("wrapper.bc")]));
    let expected = ["amdgcn-amd-amdhsa--gfx90a", "amdgcn-amd-amdhsa--gfx906", "x86_64-unknown-unknown"];
    for args in
        [&["-c"][..], &["-shared", "-nostdlib"], &["-shared", "-nostdlib", "-fuse-ld=lld"], &["-r", "-nostdlib"]]
    {
        must(Command::new(&clang).args(["-Wno-override-module", &at("wrapper.bc"), "-o", &at("out")]).args(args));
        let (codes, others) = found(&fs::read(at("out")).unwrap(), false);
        assert_eq!(others, [""; 0], "{args:?}");
        assert_eq!(codes.iter().map(|code| code.1.as_str()).collect::<Vec<_>>(), expected, "{args:?}");
        let (status, said, _) = text(&tool_in(dir.path(), &["verify", "out"]));
        assert_eq!((status, said.as_str()), (0, "out: 3 code objects without a bundle, nothing wrong\n"), "{args:?}");
    }
}

/// Two bundles and their wrappers. The second address is wrong by `{off}`.
const WRAPPERS: &str = "
 .section .hip_fatbin,\"a\",@progbits
 .p2align 12
first: .incbin \"bundle\"
 .p2align 12
second: .incbin \"bundle\"
 .section .hipFatBinSegment,\"aw\",@progbits
 .p2align 3
 .long 0x48495046, 1
 .quad first, 0
 .long 0x48495046, 1
 .quad second + {off}, 0
 .section .nv_fatbin,\"a\",@progbits
 .p2align 3
third: .incbin \"fatbin\"
 .section .nvFatBinSegment,\"aw\",@progbits
 .p2align 3
 .long 0x466243b1, 1
 .quad third, 0
 .data
 .quad first, other, other + 8, 0
 .section .note.GNU-stack,\"\",@progbits
";

/// The forms in which linkers write relocations.
const LINKED: &[&[&str]] = &[
    &["-fuse-ld=bfd"],
    &["-fuse-ld=gold"],
    &["-fuse-ld=lld"],
    &["-fuse-ld=lld", "-Wl,-z,rel"],
    &["-fuse-ld=lld", "-Wl,--pack-dyn-relocs=relr"],
    &["-fuse-ld=lld", "-Wl,--pack-dyn-relocs=android"],
    &["-fuse-ld=lld", "-Wl,--pack-dyn-relocs=android+relr"],
    &["-fuse-ld=lld", "-Wl,--pack-dyn-relocs=android,-z,rel"],
    &["-fuse-ld=lld", "-Wl,-z,separate-code"],
    &["-fuse-ld=lld", "-Wl,--no-rosegment"],
];

/// The faults that `verify` finds in a file, without its name.
fn faults(dir: &Path, name: &str) -> Vec<String> {
    let (_, said, _) = text(&tool_in(dir, &["verify", name]));
    let faults = said.lines().filter(|line| line.ends_with(']'));
    let text = |line: &str| line.split_once(": ").unwrap().1.split_once(" at offset ").unwrap().0.to_owned();
    faults.map(text).collect()
}

/// Libraries have the same code objects and the same faults in each form of relocations, with section headers and
/// without.
#[test]
fn libraries_are_the_same_in_each_form_of_relocations_and_without_section_headers() {
    let test = "wrappers in forms of relocations";
    let (Some(clang), Some(objcopy)) = (llvm(test, "clang"), llvm(test, "llvm-objcopy")) else { return };
    let dir = memory_directory();
    fs::write(dir.path().join("bundle"), bundle()).unwrap();
    fs::write(dir.path().join("fatbin"), fatbins::sample()).unwrap();
    let mut expected: Option<Vec<(String, u64)>> = None;
    for off in [0, 16] {
        fs::write(dir.path().join("wrappers.s"), WRAPPERS.replace("{off}", &off.to_string())).unwrap();
        for args in LINKED.iter().filter(|args| !args[0].ends_with("gold") || exists_in_path("ld.gold")) {
            for form in [&["-shared"][..], &["-pie", "-Wl,--defsym=main=0,--defsym=other=0"]] {
                let link = ["-nostdlib", "wrappers.s", "-o", "whole"];
                must(Command::new(&clang).args(*args).args(form).args(link).current_dir(dir.path()));
                must(Command::new(&objcopy).args(["--strip-sections", "whole", "bare"]).current_dir(dir.path()));
                for (name, deep) in [("whole", false), ("whole", true), ("bare", false), ("bare", true)] {
                    let (codes, others) = found(&fs::read(dir.path().join(name)).unwrap(), deep);
                    assert_eq!(others, [""; 0], "{args:?} {form:?} {name}");
                    assert!(name == "whole" || codes.iter().all(|code| code.0.starts_with("segment ")), "{codes:?}");
                    let mut codes: Vec<_> = codes.into_iter().map(|code| (code.1, code.2)).collect();
                    codes.sort();
                    assert_eq!(
                        &codes,
                        expected.get_or_insert_with(|| codes.clone()),
                        "{args:?} {form:?} {name} {deep}"
                    );
                }
                for name in ["whole", "bare"] {
                    let expected = if off == 0 { &[][..] } else { &["a wrapper that does not point at a bundle"] };
                    assert_eq!(faults(dir.path(), name), expected, "{off} {args:?} {form:?} {name}");
                }
            }
        }
    }
    assert!(expected.is_some_and(|expected| expected.len() > 7), "bundles and a fatbin");
    let (status, _, said) = text(&tool_in(dir.path(), &["recompress", "bare", "-o", "out"]));
    assert_eq!(status, 1);
    assert!(said.contains("an ELF file without section headers: not supported"), "{said}");
    assert!(!dir.path().join("out").exists());
    for (name, status) in [("whole", 0), ("bare", 0)] {
        let output = tool_in(dir.path(), &["extract", "-t", "gfx906", "-o", &format!("{name}.d"), name]);
        assert_eq!(text(&output).0, status, "{name}: {}", text(&output).2);
        assert_eq!(fs::read_dir(dir.path().join(format!("{name}.d"))).unwrap().count(), 2, "{name}");
    }
}

/// A library without section headers, whose segments have these ranges in the file and addresses.
fn segments(content: &[u8], segments: &[(usize, usize, usize)]) -> Vec<u8> {
    let mut data = Elf::LIBRARY.write(&[]);
    data.truncate(64);
    data[40..48].fill(0);
    data[58..64].fill(0);
    data[32] = 64;
    data[56] = u8::try_from(segments.len()).unwrap();
    for (start, len, address) in segments {
        data.extend([1_u32.to_le_bytes(), 6_u32.to_le_bytes()].concat());
        for number in [*start, *address, *address, *len, *len, 1] {
            data.extend(u64::try_from(number).unwrap().to_le_bytes());
        }
    }
    data.resize(4096, 0);
    data.extend(content);
    data
}

#[test]
fn segments_may_share_bytes_or_end_after_the_file() {
    let content = [bundle(), vec![0; 64], bundle()].concat();
    let len = content.len();
    for (ranges, faults) in [
        (&[(4096, len, 0)][..], 0),
        (&[(0, 4096, 0), (4096, len, 0x10000)], 0),
        (&[(4096, len, 0), (4096, len, 0x10000), (4000, len, 0x20000)], 0),
        (&[(4096, len + 1, 0)], 1),
        (&[(4096, usize::MAX - 4096, 0)], 1),
    ] {
        let data = segments(&content, ranges);
        for deep in [false, true] {
            let (codes, others) = found(&data, deep);
            assert_eq!((codes.len(), others.len()), (6, faults), "{ranges:?} {deep}: {others:?}");
        }
    }
    let (codes, others) = found(&segments(&content, &[]), false);
    assert_eq!((codes.len(), others), (0, vec!["ELF file without section headers".to_owned()]));
    // UPX leaves its magic after the program headers.
    let mut packed = segments(b"packed", &[(0, 4096, 0)]);
    packed[124..128].copy_from_slice(b"UPX!");
    assert_eq!(found(&packed, false), (vec![], vec!["program packed with UPX".to_owned()]));
    assert_eq!(found(&segments(b"text", &[(0, 4096, 0)]), false), (vec![], vec![]));
}

#[test]
fn sections_of_mach_o_objects_are_read() {
    let strings = [("triple", "amdgcn-amd-amdhsa"), ("arch", "gfx906")];
    let offload = offload::write(1, &[Image::new(1, 4, &strings, b"image")]);
    let (bundle, fatbin) = (bundle(), fatbins::sample());
    let whole = [
        ("__TEXT", "__text", &b"code"[..]),
        ("__HIP", "__hip_fatbin", &bundle),
        ("__LLVM", "__offloading", &offload),
        ("__NV_CUDA", "__nv_fatbin", &fatbin),
        ("__DATA", "__data", &bundle),
    ];
    let (codes, others) = found(&mach_o(&whole), false);
    assert_eq!(others, [""; 0]);
    let mut sections: Vec<&str> = codes.iter().map(|code| code.0.as_str()).collect();
    sections.dedup();
    assert_eq!(sections, ["__HIP,__hip_fatbin", "__LLVM,__offloading", "__NV_CUDA,__nv_fatbin"]);
    // The names count only in their segments, and the data of programs is searched only on demand.
    for rest in [&[("__DATA", "__hip_fatbin", &bundle[..])][..], &whole[4..], &whole[..1], &[]] {
        let (codes, others) = found(&mach_o(rest), false);
        assert_eq!((codes, others), (vec![], vec!["Mach-O file".to_owned()]));
        let (codes, others) = found(&mach_o(rest), true);
        let count = if rest.iter().any(|section| section.2 == bundle) { 3 } else { 0 };
        assert_eq!((codes.len(), others), (count, vec!["Mach-O file".to_owned()]));
    }
}

/// AdaptiveCpp's IR for any GPU is bitcode with the triple of a host.
#[test]
fn hcf_data_is_named_with_its_target_and_kind() {
    let bitcode = fixture("bitcode/llvm22-thin.bc");
    let images = [bitcode.clone(), Elf::amdgpu(0x3f).write(&[]), images::spirv(2, 3), b"unknown".to_vec()];
    let ids =
        ["generic-unknown-unknown", "amdgcn-amd-amdhsa--gfx90a", "spirv64-unknown-unknown", "generic-unknown-unknown"];
    for marker in hcfs::MARKERS {
        let data = hcfs::write(marker, &images);
        let library = Elf::LIBRARY.write(&[Section::new(".rodata", &[&b"text\0"[..], &data].concat())]);
        for (file, section) in [(&data, ""), (&library, ".rodata")] {
            let outcome = tool(&["inspect", "--json", "in"], &[("in", file)]);
            let rows = told(&json_of(&outcome));
            assert_eq!(rows.iter().map(|row| row.0.as_str()).collect::<Vec<_>>(), vec![format!(":{section}"); 4]);
            assert!(rows.iter().all(|row| row.1 == "HCF data"), "{rows:?}");
            assert_eq!(rows.iter().map(|row| row.2.clone()).collect::<Vec<_>>(), ids.map(|id| format!("sycl-{id}")));
            let outcome = tool(&["extract", "-k", "sycl", "in"], &[("in", file)]);
            let mut contents: Vec<_> =
                outcome.files.iter().filter(|(name, _)| *name != "in").map(|file| file.1).collect();
            contents.sort();
            let mut expected: Vec<_> = images.iter().collect();
            expected.sort();
            assert!(outcome.status == 0 && contents == expected, "{}", outcome.stderr_text());
            let outcome = tool(&["verify", "in"], &[("in", file)]);
            let said = String::from_utf8_lossy(&outcome.stdout).into_owned();
            assert!(!said.contains("[entry-id]") && !said.contains("[duplicate]"), "{said}");
        }
    }
    // Each fault is named, and nothing is read beyond the data.
    let whole = String::from_utf8(hcfs::write(hcfs::MARKERS[0], &[b"image".to_vec()])).unwrap();
    for (old, new, fault) in [
        ("size=5", "size=6", "the content of a node of HCF data"),
        ("start = 0", "start = 18446744073709551615", "the content of a node of HCF data"),
        ("start = 0", "begin = 0", "content without a range in HCF data"),
        ("size=5", "size=-5", "content without a range in HCF data"),
        ("}.kernels\n", "", "a node without an end in HCF data"),
        ("}.images", "}.image", "an end without a node in HCF data"),
        ("{.kernels", "kernels", "a line that is not a property or a node in HCF data"),
        (hcfs::MARKERS[0], "", "no binary appendix in HCF data"),
    ] {
        let (codes, others) = found(whole.replacen(old, new, 1).as_bytes(), false);
        assert_eq!((codes.len(), others.len()), (0, 1), "{old}: {codes:?} {others:?}");
        assert!(others[0].contains(fault), "{old}: {others:?}");
    }
}

/// Objects that LLVM assembles for macOS, whose sections have addresses before they are linked.
#[test]
fn wrappers_of_mach_o_objects_are_checked() {
    let test = "wrappers of Mach-O objects";
    let Some(clang) = llvm(test, "clang") else { return };
    let dir = memory_directory();
    fs::write(dir.path().join("bundle"), bundle()).unwrap();
    for triple in ["x86_64-apple-macosx10.15.0", "arm64-apple-macosx13.0"] {
        for (symbol, off) in [("L_first", 0), ("_first", 0), ("L_first", 16), ("_first", 16)] {
            let source = format!(
                " .section __DATA,__data\n .zero 40\n .section __HIP,__hip_fatbin\n .zero 0\n{symbol}: .incbin \"bundle\"\n \
                 .section __HIP,__fatbin\n .p2align 3\n .long 0x48495046, 1\n .quad {symbol} + {off}, 0\n"
            );
            fs::write(dir.path().join("source.s"), source).unwrap();
            let args = ["-target", triple, "-c", "source.s", "-o", "object"];
            must(Command::new(&clang).args(args).current_dir(dir.path()));
            let expected = if off == 0 { &[][..] } else { &["a wrapper that does not point at a bundle"] };
            assert_eq!(faults(dir.path(), "object"), expected, "{triple} {symbol} {off}");
        }
    }
}

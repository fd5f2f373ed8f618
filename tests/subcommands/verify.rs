//! Tests of `verify`: each rule broken alone, and no faults in valid files.

use std::fs;

use object::Endianness;
use object::read::elf::ElfFile64;
use object::read::{Object as _, ObjectSection as _, ObjectSymbol as _};
use offload_bundle::io::Input;
use offload_bundle::job::{Verify, VerifyRule};

use super::*;
use crate::machine::{loud, memory_directory};
use crate::properties::fatbins::{self, Code};
use crate::properties::make::{DEFLATED, Elf, STORED, Section, Zipped, archive, coff, pe, zip};
use crate::properties::{images, packages};
use crate::reference::formats;
use crate::reference::harness::Random;
use crate::reference::offload::{self, Image};

/// The rules broken in a file. The text output must report the same.
fn rules(data: &[u8]) -> Vec<String> {
    let outcome = tool(&["verify", "--allow-none", "--json", "in"], &[("in", data)]);
    let document: Value = serde_json::from_slice(&outcome.stdout).unwrap();
    schema::check("verify", &document);
    let faults = document["files"][0]["faults"].as_array().unwrap();
    let rules: Vec<String> = faults.iter().map(|fault| fault["rule"].as_str().unwrap().to_owned()).collect();
    let text = tool(&["verify", "--allow-none", "in"], &[("in", data)]);
    let printed = String::from_utf8(text.stdout.clone()).unwrap();
    assert_eq!((outcome.status, text.status), (i32::from(!rules.is_empty()), outcome.status), "{printed}");
    assert_eq!((outcome.stderr_text(), text.stderr_text()), (String::new(), String::new()));
    assert_eq!(printed.lines().count(), rules.len() + 1, "{printed}");
    assert!(printed.chars().all(|c| c == '\n' || !c.is_control()), "{printed}");
    for (line, fault) in printed.lines().zip(faults) {
        let ends = format!(": {} [{}]", fault["text"].as_str().unwrap(), fault["rule"].as_str().unwrap());
        assert!(line.starts_with("in") && line.ends_with(&ends), "{line}");
    }
    rules
}

fn hip(target: &str) -> String {
    format!("hip-amdgcn-amd-amdhsa--{target}")
}

/// A bundle with code objects for these targets.
fn targets(targets: &[&str]) -> Vec<u8> {
    let ids: Vec<String> = targets.iter().map(|target| hip(target)).collect();
    let entries: Vec<(&str, &[u8])> = ids.iter().map(|id| (id.as_str(), &b"content"[..])).collect();
    formats::binary(&entries, 16)
}

/// The size of the beginning of a plain bundle where HIP's runtime looks for entries.
const HEADER_MAX: usize = 4096;

/// A bundle with a header of `len` bytes: a host, code for gfx90a, and entries without code for other processors.
fn wide(len: usize, kind: &str, host: &[u8], code: &[u8]) -> Vec<u8> {
    let id = |target: &str| format!("{kind}-amdgcn-amd-amdhsa--{target}");
    let mut ids = vec![HOST.to_owned(), id("gfx90a")];
    let end = |ids: &[String]| 32 + ids.iter().map(|id| 24 + id.len()).sum::<usize>();
    while end(&ids) + 200 < len {
        ids.push(id(&format!("gfx{:03}", ids.len())));
    }
    let last = id("gfx1");
    ids.push(format!("{last}{}", "0".repeat(len - end(&ids) - 24 - last.len())));
    assert_eq!(end(&ids), len);
    let contents = [host, code].into_iter().chain(std::iter::repeat(&b"\x01"[..]));
    formats::binary(&ids.iter().map(String::as_str).zip(contents).collect::<Vec<_>>(), 16)
}

/// Writes a container with these entries.
type Form<'f> = dyn Fn(&[(&str, &[u8])]) -> Vec<u8> + 'f;

#[test]
fn entries_without_code_are_faults_beside_code_and_counted_elsewhere() {
    let fixture = |name: &str| fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name)).unwrap();
    let (one, other) = (hip("gfx90a"), hip("gfx906"));
    let sections = |entries: &[(&str, &[u8])]| {
        let names: Vec<String> = entries.iter().map(|(id, _)| format!("__CLANG_OFFLOAD_BUNDLE__{id}")).collect();
        let sections = names.iter().zip(entries).map(|(name, (_, content))| Section::new(name, content));
        Elf::OBJECT.write(&sections.collect::<Vec<_>>())
    };
    let forms: [&Form<'_>; 4] = [
        &|entries| formats::binary(entries, 8),
        &|entries| formats::compressed(2, 1, &formats::binary(entries, 8)),
        &sections,
        &|entries| archive(&[("a.o", &sections(entries))]),
    ];
    let codes = [fixture("kernels/llvm22-gfx90a.elf"), fixture("bitcode/llvm22-link.bc"), images::spirv(5, 0)];
    let said = |data: &[u8]| String::from_utf8(tool(&["verify", "in"], &[("in", data)]).stdout.clone()).unwrap();
    for form in forms {
        for code in &codes {
            for (content, what) in [(&b""[..], "is empty"), (b"hello", "is text"), (b"\x01", "")] {
                let bundle = form(&[(HOST, b""), (&one, code), (&other, content)]);
                let expected = if what.is_empty() { Vec::new() } else { vec!["code-object".to_owned()] };
                assert_eq!(rules(&bundle), expected, "{what}");
                assert!(said(&bundle).contains(&format!("{other}' {what}")) || what.is_empty(), "{}", said(&bundle));
            }
        }
        let text = form(&[(HOST, &codes[0]), (&one, b"text"), (&other, b"")]);
        assert!(rules(&text).is_empty() && said(&text).contains(": 2 code objects (1 text) in 1 bundle"));
    }
    let assembly = formats::text("#", &[(HOST, b"host"), (&one, b"one")]);
    assert!(said(&assembly).ends_with("2 code objects (1 text) in 1 bundle, nothing wrong\n"));
}

#[test]
fn files_that_break_one_rule_have_one_fault() {
    let sound = targets(&["gfx906", "gfx90a"]);
    let packed = formats::compressed(2, 1, &sound);
    let changed = |data: &[u8], at: usize, with: &[u8]| {
        let mut data = data.to_vec();
        data[at..at + with.len()].copy_from_slice(with);
        data
    };
    let elf = Elf::amdgpu(0x3f).write(&[]);
    let elf_xnack = Elf::amdgpu(0x33f).write(&[]);
    let (id, other, third) = (hip("gfx90a"), hip("gfx906"), hip("gfx90a:xnack-"));
    let holds = |id: &str, elf: &[u8]| formats::binary(&[(id, elf)], 8);
    let library = |content: &[u8]| Elf::LIBRARY.write(&[Section::new(".hip_fatbin", content)]);
    let padded = [&sound[..], &[0; 100]].concat();
    // The second of three code objects is moved onto the first one.
    let three = targets(&["gfx906", "gfx90a", "gfx1100"]);
    let overlapping = changed(&three, 32 + 24 + other.len(), &three[32..40]);
    let tail = [&padded[..], b"tail"].concat();
    let mut broken_crc = Zipped::new("x", STORED, &sound);
    broken_crc.crc ^= 1;
    let fat = format!("__CLANG_OFFLOAD_BUNDLE__{}", hip("gfx906:xnack"));
    let wide = wide(HEADER_MAX + 1, "hipv4", &[], &elf);
    for (name, data, expected) in [
        ("a cut bundle", sound[..sound.len() - 1].to_vec(), "readable"),
        ("a cut compressed bundle", packed[..packed.len() - 1].to_vec(), "readable"),
        ("a wrong hash", changed(&packed, 16, &[packed[16] ^ 1]), "readable"),
        ("a wrong inflated size", changed(&packed, 12, &[packed[12] ^ 1]), "readable"),
        ("a stream that is none", changed(&packed, 24, &[0; 4]), "readable"),
        ("a cut bundle in a compressed one", formats::compressed(2, 1, &sound[..sound.len() - 1]), "readable"),
        ("a text without end", formats::text("#", &[(GFX906, b"x")])[..60].to_vec(), "readable"),
        (
            "a cut offload binary",
            offload::write(2, &[Image::new(1, 4, &[("arch", "gfx906")], b"xxxxxxxxx")])[..50].to_vec(),
            "readable",
        ),
        ("a cut archive", archive(&[("a", &sound)])[..100].to_vec(), "readable"),
        ("a cut zip file", zip(&[Zipped::new("x", STORED, &sound)])[..100].to_vec(), "readable"),
        ("a wrong checksum of what is stored", zip(&[broken_crc]), "readable"),
        (
            "a wrong checksum of what is deflated",
            zip(&[Zipped { crc: 1, ..Zipped::new("x", DEFLATED, &sound) }]),
            "readable",
        ),
        ("a cut object", library(&sound)[..200].to_vec(), "readable"),
        ("a tail", tail.clone(), "trailing"),
        ("a tail in a section", library(&tail), "trailing"),
        ("a section with something else", library(b"something else"), "trailing"),
        ("a linked section that was overwritten with zeros", library(&[0; 5000]), "trailing"),
        ("no entry ID", formats::binary(&[("no entry ID", b"x")], 1), "entry-id"),
        ("an empty ID", formats::binary(&[("", b"x")], 1), "entry-id"),
        ("an unknown kind", formats::binary(&[("hop-amdgcn-amd-amdhsa--gfx906", b"x")], 1), "entry-id"),
        ("a feature without sign", targets(&["gfx906:xnack"]), "entry-id"),
        ("an ID that is no UTF-8", changed(&targets(&["gfx906"]), 60, &[0xff]), "entry-id"),
        ("an ID that a terminal would obey", formats::binary(&[("hop-\x1b[2J\n-a-b-c-d", b"x")], 1), "entry-id"),
        ("a section with such an ID", Elf::OBJECT.write(&[Section::new(&fat, b"x")]), "entry-id"),
        ("a feature that the processor lacks", targets(&["gfx1030:xnack+"]), "feature"),
        ("an unknown feature", targets(&["gfx90a:fast+"]), "feature"),
        ("one ID twice", formats::binary(&[(&id, b"x"), (&other, b"x"), (&id, b"y")], 1), "duplicate"),
        (
            "one ID twice, compressed",
            formats::compressed(3, 1, &formats::binary(&[(&id, b"x"), (&id, b"y")], 1)),
            "duplicate",
        ),
        ("one ID twice in a text", formats::text(";", &[(&id, b"x"), (&id, b"y")]), "duplicate"),
        ("a feature that is set in one", targets(&["gfx90a", "gfx90a:xnack+"]), "conflict"),
        (
            "another feature that is set in one",
            targets(&["gfx906", "gfx90a:xnack+", "gfx90a:sramecc+:xnack-"]),
            "conflict",
        ),
        ("code objects in one place", overlapping, "overlap"),
        ("an ELF file for another processor", holds(&other, &elf), "target"),
        ("an ELF file with another setting", holds(&third, &elf_xnack), "target"),
        ("the same in a compressed bundle", formats::compressed(2, 0, &holds(&other, &elf)), "target"),
        (
            "the same in an archive in a zip file",
            zip(&[Zipped::new("a", DEFLATED, &archive(&[("b", &library(&holds(&other, &elf)))]))]),
            "target",
        ),
        (
            "the same in an offload binary",
            offload::write(1, &[Image::new(1, 4, &[("triple", "amdgcn-amd-amdhsa"), ("arch", "gfx906")], &elf)]),
            "target",
        ),
        ("more entries than HIP's runtime finds", wide.clone(), "loadable"),
        ("the same in a library", library(&wide), "loadable"),
    ] {
        assert_eq!(rules(&data), [expected], "{name}");
    }
}

#[test]
fn sound_files_have_no_fault() {
    let elf = Elf::amdgpu(0x53f).write(&[]);
    let elf_on = Elf::amdgpu(0x73f).write(&[]);
    let holds = |target: &str, elf: &[u8]| formats::binary(&[(HOST, b""), (&hip(target), elf)], 8);
    let sound = targets(&["gfx90a:xnack+", "gfx90a:xnack-", "gfx906:sramecc+:xnack-", "gfx1100"]);
    let openmp = formats::binary(
        &[("hip-amdgcn-amd-amdhsa--gfx906", b"x"), ("openmp-amdgcn-amd-amdhsa--gfx906:xnack+", b"y")],
        1,
    );
    let empty = formats::binary(&[(&hip("gfx906"), b""), (&hip("gfx90a"), b"")], 1);
    let bitcode = fixture("bitcode/llvm22-one.bc");
    for (name, data) in [
        ("what fits", sound.clone()),
        ("padding", [&sound[..], &vec![0; 5000], &sound].concat()),
        ("an ELF file of its target", holds("gfx90a", &elf)),
        ("an ELF file of any setting", holds("gfx90a:xnack+", &elf)),
        ("an ELF file of the same setting", holds("gfx90a:xnack+", &elf_on)),
        ("an ELF file of gfx1250, as newer compilers call it", holds("gfx1250:xnack+", &Elf::amdgpu(0x349).write(&[]))),
        ("an ELF file of a GPU that LLVM 22 does not know", holds("gfx1310", &Elf::amdgpu(0x50).write(&[]))),
        ("an ID without a processor", formats::binary(&[("openmp-amdgcn-amd-amdhsa--", &elf)], 8)),
        ("kinds do not conflict", openmp),
        ("empty code objects are in one place", empty),
        ("a code object by itself", elf.clone()),
        ("a library whose section is yet to be filled", Elf::OBJECT.write(&[Section::new(".hip_fatbin", &[0; 8])])),
        ("nothing", b"text".to_vec()),
        ("no object", coff(&[(".text", b"x")])),
        ("a program", pe(&[(".hip_fat", &sound)])),
        ("as many entries as HIP's runtime finds", wide(HEADER_MAX, "hip", &[], &elf)),
        ("compressed, it finds more", formats::compressed(2, 1, &wide(HEADER_MAX + 1, "hip", &[], &elf))),
        ("more entries for another runtime", wide(HEADER_MAX + 1, "openmp", &[], &elf)),
        ("more entries with host code", wide(HEADER_MAX + 1, "hip", &Elf::OBJECT.write(&[]), &elf)),
        ("more entries with bitcode", wide(HEADER_MAX + 1, "hip", &[], &bitcode)),
        ("a stored member", zip(&[Zipped::new("x", STORED, &sound), Zipped::new("y", DEFLATED, b"text")])),
    ] {
        assert_eq!(rules(&data), [""; 0], "{name}");
    }
}

/// The texts of the faults of rule `compressed` in a file with some size.
fn plain(data: &[u8], option: &str) -> Vec<String> {
    let outcome = tool(&["verify", "--json", option, "in"], &[("in", data)]);
    let document: Value = serde_json::from_slice(&outcome.stdout).unwrap();
    schema::check("verify", &document);
    let faults = document["files"][0]["faults"].as_array().unwrap();
    assert_eq!(outcome.status, i32::from(!faults.is_empty()), "{document:#}");
    let text = |fault: &Value| {
        assert_eq!(fault["rule"], "compressed");
        fault["text"].as_str().unwrap().to_owned()
    };
    faults.iter().map(text).collect()
}

#[test]
fn plain_code_is_a_fault_where_compression_is_expected() {
    let id = hip("gfx90a");
    let large = vec![1; 70_000];
    let bundle = formats::binary(&[(HOST, b""), (&id, &large)], 16);
    let packed = formats::compressed(2, 1, &bundle);
    let said = |plain: usize, all: usize, size: usize, most: usize| {
        vec![format!("{plain} of {all} code objects are not compressed: {size} bytes, expected at most {most}")]
    };
    let fault = said(1, 1, 70_000, 65_536);
    let image = |content: &[u8]| Image::new(1, 1, &[("triple", "amdgcn-amd-amdhsa"), ("arch", "gfx90a")], content);
    let library = |content: &[u8]| Elf::LIBRARY.write(&[Section::new(".hip_fatbin", content)]);
    let fat = format!("__CLANG_OFFLOAD_BUNDLE__{id}");
    for (name, data, expected) in [
        ("a bundle", bundle.clone(), fault.clone()),
        ("a compressed one", packed.clone(), Vec::new()),
        ("one in a library", library(&bundle), fault.clone()),
        ("one of two", library(&[&packed[..], &vec![0; 4096 - packed.len() % 4096], &bundle].concat()), fault.clone()),
        ("one in a deflated member", zip(&[Zipped::new("lib.so", DEFLATED, &library(&bundle))]), fault.clone()),
        ("one in a stored member", zip(&[Zipped::new("lib.so", STORED, &library(&bundle))]), fault.clone()),
        ("one in an archive", archive(&[("a.o", &library(&bundle))]), fault.clone()),
        ("an offload binary", offload::write(1, &[image(&large)]), fault.clone()),
        ("a compressed one", offload::compressed(false, &[image(&large)]), Vec::new()),
        ("a compressed bundle in an offload binary", offload::write(1, &[image(&packed)]), Vec::new()),
        ("a plain bundle in an offload binary", offload::write(1, &[image(&bundle)]), fault.clone()),
        (
            "a plain bundle in a compressed bundle",
            formats::compressed(2, 1, &formats::binary(&[(&id, &bundle)], 16)),
            Vec::new(),
        ),
        ("a fat object", Elf::OBJECT.write(&[Section::new(&fat, &large)]), Vec::new()),
        ("a text bundle", formats::text("#", &[(&id, &vec![b'x'; 70_000])]), Vec::new()),
        ("a code object", Elf::amdgpu(0x3f).write(&[Section::new("x", &large)]), Vec::new()),
    ] {
        assert_eq!(plain(&data, "--compressed"), expected, "{name}");
    }
    // The size is that of the plain code objects together, and the default is not a lower limit.
    let two = formats::binary(&[(&id, &[1; 600]), (&hip("gfx906"), &[1; 424])], 16);
    for (option, expected) in [
        ("--compressed", Vec::new()),
        ("--compressed=1K", Vec::new()),
        ("--compressed=1023", said(2, 2, 1024, 1023)),
        ("--compressed=0", said(2, 2, 1024, 0)),
    ] {
        assert_eq!(plain(&two, option), expected, "{option}");
    }
    let wrong = tool(&["verify", "--compressed=1T", "in"], &[("in", &two)]);
    assert_eq!(wrong.status, 2);
    assert!(wrong.stderr_text().contains("expected a number of bytes, optionally with suffix K, M or G"));
    // The line names file, section, bundle and offset, as for other faults.
    let outcome = tool(&["verify", "--compressed", "in"], &[("in", &library(&bundle))]);
    let out = String::from_utf8(outcome.stdout.clone()).unwrap();
    assert!(out.starts_with("in(.hip_fatbin): bundle 0 at offset ") && out.contains(" [compressed]\n"), "{out}");
}

#[test]
fn plain_code_of_fatbins_is_added_up() {
    let [ptx, one, other] = [Code::ptx(90), Code::cubin(80, 500), Code::cubin(90, 3000)];
    let packed = |code: &Code| fatbins::entry(&code.clone().with_flags(fatbins::LZ4));
    let [ptx_size, one_size, other_size] = [&ptx, &one, &other].map(|code| code.extracted().len());
    let mixed = fatbins::fatbin(&[fatbins::entry(&ptx), fatbins::entry(&one), packed(&other)]);
    let size = ptx_size + one_size;
    let limit = |size: usize| format!("--compressed={size}");
    assert_eq!(plain(&mixed, &limit(size)), [""; 0]);
    let fault = |size: usize, plain: usize, all: usize| {
        let most = size - 1;
        [format!("{plain} of {all} code objects are not compressed: {size} bytes, expected at most {most}")]
    };
    assert_eq!(plain(&mixed, &limit(size - 1)), fault(size, 2, 3));
    let all =
        fatbins::fatbin(&[packed(&Code::cubin(75, 9)), fatbins::concatenated(fatbins::LZ4, &[one, other.clone()])]);
    assert_eq!(plain(&all, "--compressed=0"), [""; 0]);
    // A fatbin in a compressed bundle is compressed with the bundle; in an offload binary, the fatbin counts.
    let bundled = formats::binary(&[(&hip("gfx90a"), &mixed)], 16);
    assert_eq!(plain(&formats::compressed(2, 1, &bundled), "--compressed=0"), [""; 0]);
    let image = Image::new(4, 2, &[("triple", "nvptx64-nvidia-cuda"), ("arch", "sm_90")], &mixed);
    assert_eq!(plain(&offload::write(1, &[image]), &limit(size - 1)), fault(size, 2, 3));
    // Two in a row count one by one.
    let plain_one = fatbins::fatbin(&[fatbins::entry(&other)]);
    let both = [&plain_one[..], &plain_one].concat();
    assert_eq!(plain(&both, &limit(other_size)), [""; 0]);
    assert_eq!(plain(&both, &limit(other_size - 1)), [fault(other_size, 1, 1), fault(other_size, 1, 1)].concat());
}

#[test]
fn the_runtime_finds_what_the_first_4096_bytes_describe() {
    let elf = Elf::amdgpu(0x3f).write(&[]);
    let (mut random, mut lost) = (Random::new(1), 0);
    for _ in 0..500 {
        let count = 40 + random.below(60);
        let ids: Vec<String> = (0..count)
            .map(|number| match number {
                0 => HOST.to_owned(),
                _ => {
                    let kind = random.pick(&["hip", "hipv4", "openmp"]);
                    format!("{kind}-amdgcn-amd-amdhsa--gfx9{number:0width$}", width = 2 + random.below(40))
                }
            })
            .collect();
        let contents: Vec<&[u8]> = (0..count).map(|_| *random.pick(&[&b"x"[..], b"", &elf])).collect();
        let entries: Vec<(&str, &[u8])> = ids.iter().map(String::as_str).zip(contents.iter().copied()).collect();
        let data = formats::binary(&entries, 8);
        // Found by reading the header, as the runtime does.
        let number = |at: usize| usize::try_from(u64::from_le_bytes(data[at..at + 8].try_into().unwrap())).unwrap();
        let (mut at, mut unseen) = (32, Vec::new());
        for id in &ids {
            at += 24 + number(at + 16);
            unseen.extend((at > HEADER_MAX).then_some(id.as_str()));
        }
        let is_loaded = entries.iter().any(|(id, content)| id.starts_with("hip") && *content == elf.as_slice());
        let expected = (is_loaded && contents[0].is_empty()).then(|| unseen.first().copied()).flatten();
        lost += usize::from(expected.is_some());

        let verified = Verify::default().check(&Input::from_bytes("in", data.clone())).unwrap();
        let mut faults = verified.faults.iter().filter(|fault| fault.rule == VerifyRule::Loadable);
        let fault = faults.next().map(|fault| fault.text.as_str());
        assert_eq!((fault.is_some(), faults.count()), (expected.is_some(), 0), "{fault:?}, {ids:?}");
        let text = expected.map(|first| format!("those from '{first}' on ({} of {count}) are not there", unseen.len()));
        assert!(text.is_none_or(|text| fault.unwrap().ends_with(&text)), "{fault:?}");
    }
    assert!((50..450).contains(&lost), "{lost} of 500 bundles are too wide");
}

#[test]
fn sound_fixtures_are_clean_and_broken_ones_are_not() {
    let odd = ["binary/duplicate-id.bundle", "binary/odd-ids.bundle", "sequence/tail.bundle"];
    let mut clean = 0;
    for name in ["binary", "text", "compressed", "bitcode", "offload", "sequence"].into_iter().flat_map(fixtures) {
        let found = rules(&fixture(&name));
        assert_eq!(found.is_empty(), !odd.contains(&name.as_str()), "{name}: {found:?}");
        clean += usize::from(found.is_empty());
    }
    for name in fixtures("hostile") {
        // The data after a recorded size that is too small is not a bundle either.
        let also = (name == "hostile/total-too-small.ccob").then_some("trailing");
        assert_eq!(rules(&fixture(&name)), ["readable"].into_iter().chain(also).collect::<Vec<_>>(), "{name}");
    }
    loud(&format!("verify: {clean} clean fixtures, {} broken ones", fixtures("hostile").len()));
}

#[test]
fn librocrand_and_what_clang_builds_are_clean() {
    let test = "verify on what others built";
    let check = |path: &Path| {
        let (status, out, _) = text(&tool_in(Path::new("/"), &["verify", path.to_str().unwrap()]));
        assert_eq!(status, 0, "{out}");
        assert!(out.trim_end().ends_with("nothing wrong"), "{out}");
    };
    if let Some(library) = librocrand(test) {
        check(&library);
    }
    for (driver, more) in against_llvm::DRIVERS {
        let dir = memory_directory();
        if against_llvm::build(test, dir.path(), driver, more).is_some() {
            ["kernel.o", "libkernel.so", "program"].iter().for_each(|name| check(&dir.path().join(name)));
        }
    }
}

#[test]
fn one_fault_does_not_hide_the_next() {
    let elf = Elf::amdgpu(0x3f).write(&[]);
    let wrong = formats::binary(&[(&hip("gfx906"), &elf)], 8);
    let mut hash = formats::compressed(2, 1, &targets(&["gfx906"]));
    hash[16] ^= 1;
    let data = [&wrong[..], &hash, &targets(&["gfx90a", "gfx90a:xnack+"]), &wrong, b"tail"].concat();
    assert_eq!(rules(&data), ["target", "readable", "conflict", "target", "trailing"]);
    let members = archive(&[("a", &data[..data.len() - 4]), ("b", &wrong)]);
    assert_eq!(rules(&members), ["target", "readable", "conflict", "target", "target"]);
    let outcome = tool(&["verify", "--json", "in"], &[("in", &members)]);
    let document: Value = serde_json::from_slice(&outcome.stdout).unwrap();
    let file = &document["files"][0];
    assert_eq!((file["bundles"].as_u64(), file["code_objects"].as_u64()), (Some(4), Some(5)));
    let faults = file["faults"].as_array().unwrap();
    assert_eq!((faults[3]["member"].as_str(), faults[3]["bundle"].as_u64()), (Some("a"), Some(3)));
    assert_eq!((faults[4]["member"].as_str(), faults[4]["bundle"].as_u64()), (Some("b"), Some(0)));
    let at = members.windows(24).position(|window| window == formats::MAGIC).unwrap();
    assert_eq!(faults[0]["offset"].as_u64().unwrap(), u64::try_from(at).unwrap());
}

#[test]
fn several_files_and_the_status() {
    let dir = memory_directory();
    let at = |name: &str| dir.path().join(name);
    fs::create_dir(at("d")).unwrap();
    fs::write(at("d/sound"), targets(&["gfx906"])).unwrap();
    fs::write(at("d/text"), "text").unwrap();
    fs::write(at("wrong"), targets(&["gfx906:fast+"])).unwrap();
    let run = |args: &[&str]| text(&tool_in(dir.path(), &[&["verify"], args].concat()));
    let (status, out, said) = run(&["d"]);
    let expected = "d/sound: 1 code object (1 text) in 1 bundle\n\
                    Total: 2 files, 1 code object (1 text) in 1 bundle, nothing wrong\n";
    assert_eq!((status, out.as_str(), said.as_str()), (0, expected, ""));
    let (status, out, _) = run(&["d/text"]);
    assert_eq!((status, out.as_str()), (1, "d/text: no device code\n"));
    let (status, out, said) = run(&["nowhere", "d", "wrong"]);
    assert_eq!(status, 1);
    assert!(said.contains("'nowhere': No such file or directory"), "{said}");
    let expected = "wrong: 1 code object (1 text) in 1 bundle, 1 fault\n\
                    Total: 3 files, 2 code objects (2 text) in 2 bundles, 1 fault, 1 error\n";
    assert!(out.ends_with(expected), "{out}");
    let (status, out, _) = run(&["--json", "nowhere"]);
    let document: Value = serde_json::from_str(&out).unwrap();
    schema::check("verify", &document);
    assert_eq!((status, document["problems"].as_array().unwrap().len()), (1, 1));
    assert_eq!(run(&["-r", "."]).0, 1);
    assert_eq!(run(&[]).0, 2);
    assert_eq!(run(&["--jsn", "d"]).0, 2);
}

#[test]
fn many_entries_are_checked_in_bounded_time() {
    // The test harness stops a run that takes many seconds.
    let same: Vec<(&str, &[u8])> = (0..20_000).map(|_| (GFX90A, &b"x"[..])).collect();
    assert_eq!(rules(&formats::binary(&same, 1)), ["duplicate"]);
    let ids: Vec<String> = (0..3000).map(|number| hip(&format!("gfx90a:f{number}+"))).collect();
    let entries: Vec<(&str, &[u8])> = ids.iter().map(|id| (id.as_str(), &b"x"[..])).collect();
    let found = rules(&formats::binary(&entries, 1));
    assert_eq!(found.iter().filter(|rule| *rule == "conflict").count(), 2999);
}

/// An empty kernel after all others begins where the code ends: its symbol has no size.
#[test]
fn kernels_begin_in_the_code_or_where_it_ends() {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/kernels/llvm22-gfx90a.elf");
    let whole = fs::read(fixture).unwrap();
    let file = ElfFile64::<Endianness>::parse(&*whole).unwrap();
    let text = file.section_by_name(".text").unwrap();
    let code = text.address()..text.address() + text.size();
    let mut kernels = 0;
    for table in [".symtab", ".dynsym"] {
        let Some(table) = file.section_by_name(table) else { continue };
        let start = usize::try_from(table.file_range().unwrap().0).unwrap();
        let symbols = if table.name() == Ok(".dynsym") { file.dynamic_symbols() } else { file.symbols() };
        let symbols: Vec<_> = symbols.collect();
        for symbol in symbols.iter().filter(|symbol| symbol.name().unwrap().ends_with(".kd")) {
            let kernel = symbol.name().unwrap().trim_end_matches(".kd");
            let function = symbols.iter().find(|symbol| symbol.name() == Ok(kernel)).unwrap();
            let section = file.section_by_index(symbol.section_index().unwrap()).unwrap();
            let descriptor = section.file_range().unwrap().0 + symbol.address() - section.address();
            let (field, entry) = (usize::try_from(descriptor).unwrap() + 16, start + 24 * function.index().0);
            for (at, is_sound) in [
                (code.start, true),
                (code.start + 4, true),
                (code.end - 1, true),
                (code.end, true),
                (code.end + 1, false),
                (code.start - 1, false),
            ] {
                let mut changed = whole.clone();
                changed[field..field + 8].copy_from_slice(&at.wrapping_sub(symbol.address()).to_le_bytes());
                changed[entry + 8..entry + 16].copy_from_slice(&at.to_le_bytes());
                changed[entry + 16..entry + 24].fill(0);
                let verified = Verify::default().check(&Input::from_bytes("in", changed)).unwrap();
                let faults = verified.faults.iter().map(|fault| fault.text.as_str()).collect::<Vec<_>>();
                assert_eq!(faults.is_empty(), is_sound, "{kernel} at {at:#x} of {code:x?}: {faults:?}");
                let is_told = faults.iter().all(|fault| fault.contains("whose code is in no executable section"));
                assert!(is_told, "{faults:?}");
                kernels += 1;
            }
        }
    }
    assert!(kernels >= 12, "{kernels}");
}

#[test]
fn verify_fails_if_it_read_nothing() {
    let dir = memory_directory();
    let at = |name: &str| dir.path().join(name);
    fs::create_dir_all(at("deep/lib")).unwrap();
    fs::create_dir_all(at("texts/more")).unwrap();
    fs::create_dir(at("empty")).unwrap();
    fs::write(at("deep/lib/sound"), targets(&["gfx906"])).unwrap();
    fs::write(at("deep/lib/bare"), Elf::amdgpu(0x3f).write(&[])).unwrap();
    fs::write(at("texts/more/text"), "text").unwrap();
    fs::write(at("nothing"), "").unwrap();
    let run = |args: &[&str]| text(&tool_in(dir.path(), &[&["verify"], args].concat()));
    let none = "error: no device code was read, so nothing was verified";
    for (args, last) in [
        (&["empty"][..], "Total: 0 files, no device code"),
        (&["-r", "empty"], "Total: 0 files, no device code"),
        (&["-r", "texts"], "Total: 1 file, no device code"),
        (&["nothing"], "nothing: no device code"),
        (&["texts/more/text", "nothing"], "Total: 2 files, no device code"),
    ] {
        let (status, out, said) = run(args);
        assert_eq!((status, out.lines().last()), (1, Some(last)), "{args:?}");
        assert!(said.contains(none) && said.contains("hint: ") && said.contains("--allow-none"), "{args:?}: {said}");
        assert_eq!(said.contains("hint: -r"), args.contains(&"empty") && args[0] != "-r");
        let (status, out, said) = run(&[args, &["--allow-none"]].concat());
        let allowed = format!("{last}, nothing wrong");
        assert_eq!((status, out.lines().last(), said.as_str()), (0, Some(&*allowed), ""), "{args:?}");
        let (status, out, said) = run(&[args, &["--json"]].concat());
        let document: Value = serde_json::from_str(&out).unwrap();
        schema::check("verify", &document);
        assert_eq!((status, document["total"]["code_objects"].as_u64()), (1, Some(0)), "{args:?}");
        assert_eq!(document["problems"][0], none.trim_start_matches("error: "), "{args:?}");
        assert!(said.contains(none), "{said}");
    }
    // A code object without a bundle is not a bundle.
    let (status, out, said) = run(&["-r", "deep"]);
    let expected = "deep/lib/bare: 1 code object without a bundle\n\
                    deep/lib/sound: 1 code object (1 text) in 1 bundle\n\
                    Total: 2 files, 1 code object (1 text) in 1 bundle, 1 code object without a bundle, nothing wrong\n";
    assert_eq!((status, out.as_str(), said.as_str()), (0, expected, ""));
    // A broken file counts as device code.
    fs::write(at("empty/broken"), &targets(&["gfx906"])[..40]).unwrap();
    let (status, out, said) = run(&["--allow-none", "empty"]);
    assert!(
        status == 1 && out.ends_with("Total: 1 file, 0 code objects in 0 bundles, 1 fault\n") && said.is_empty(),
        "{out}{said}"
    );
}

#[test]
fn the_total_counts_unread_parts_that_are_not_listed() {
    let lz4: (&str, &[u8]) = ("x.lz4", b"\x04\x22\x4d\x18");
    let members: Vec<(&str, &[u8])> = std::iter::repeat_n(lz4, 10_001).chain([("x.lz", &b"LZIP"[..])]).collect();
    let files = [("in", &*archive(&members)), ("text", b"text")];
    let printed = String::from_utf8(tool(&["verify", "in", "text"], &files).stdout).unwrap();
    assert!(printed.contains("in: 2 parts not read and not listed\n"), "{}", printed.len());
    assert!(printed.ends_with("; not read: LZ4 file (10001), lzip file (1)\n"), "{:?}", printed.lines().last());
    let document: Value = serde_json::from_slice(&tool(&["verify", "--json", "in", "text"], &files).stdout).unwrap();
    schema::check("verify", &document);
    let counts = [&document["files"][0]["more_unread"], &document["total"]["unread"]];
    assert_eq!(counts.map(Value::as_u64), [Some(2), Some(10_002)]);
}

#[test]
fn unread_parts_are_named() {
    let library = |name: &str| Elf::LIBRARY.write(&[Section::new(name, b"content")]);
    let lz4 = b"\x04\x22\x4d\x18";
    for (what, data, certain) in [
        ("device image of an unknown format", library("OFFLOAD_DEVICE_CODE"), true),
        ("device image of an unknown format", pe(&[("OFFLOAD_", b"content")]), true),
        ("SPIR-V module without kernels", b"\x03\x02\x23\x07".to_vec(), false),
        ("LZ4 file", lz4.to_vec(), false),
        ("lzip file", archive(&[("data.tar.lz", b"LZIP")]), false),
        ("7-Zip archive", zip(&[Zipped::new("pkg.7z", STORED, b"7z\xbc\xaf\x27\x1c")]), false),
        ("LZ4 file", zip(&[Zipped::new("x.lz4", DEFLATED, lz4)]), false),
        ("LZ4 file", packages::gzip(&packages::tar(&[packages::File::new("x.lz4", lz4)])), false),
        ("RPM package of unknown compression", packages::rpm(b"LZIP"), false),
        ("ELF file without section headers", b"\x7fELF\x02\x01\x01".iter().chain(&[0; 57]).copied().collect(), false),
    ] {
        let files = [("in", data.as_slice())];
        let verified = tool(&["verify", "in"], &files);
        let (out, said) = (String::from_utf8(verified.stdout).unwrap(), String::from_utf8(verified.stderr).unwrap());
        assert!(out.contains(&format!(": {what}, not read\n")), "{what}: {out}");
        assert!(out.ends_with("in: no readable device code\n"), "{what}: {out}");
        assert!(verified.status == 1 && said.contains("nothing was verified"), "{what}: {said}");
        let document: Value = serde_json::from_slice(&tool(&["verify", "--json", "in"], &files).stdout).unwrap();
        schema::check("verify", &document);
        let unread = &document["files"][0]["unread"];
        assert_eq!((unread.as_array().unwrap().len(), unread[0]["what"].as_str()), (1, Some(what)));
        assert_eq!(unread[0]["is_device_code"].as_bool(), Some(certain), "{what}");
        let inspected = tool(&["inspect", "in"], &files);
        let out = String::from_utf8(inspected.stdout).unwrap();
        assert!(inspected.status == 0 && out.starts_with("in: no readable device code\n"), "{what}: {out}");
        assert!(out.contains(&format!("not read: {what}\n")), "{what}: {out}");
        assert_eq!(json_of(&tool(&["inspect", "--json", "in"], &files))["files"][0]["unread"], *unread, "{what}");
        // In a directory, only parts that certainly hold device code are reported.
        let out = String::from_utf8(tool(&["verify", "."], &files).stdout).unwrap();
        assert_eq!(out.contains(", not read\n"), certain, "{what}: {out}");
        assert!(out.ends_with(&format!("; not read: {what} (1)\n")), "{what}: {out}");
    }
    // A section without bytes in the file.
    let mut split = Elf::LIBRARY.write(&[Section::new(".hip_fatbin", b"x")]);
    let table = usize::try_from(u64::from_le_bytes(split[40..48].try_into().unwrap())).unwrap();
    split[table + 64 + 4] = 8;
    let what = "section for device code without content in this file";
    let out = String::from_utf8(tool(&["verify", "in"], &[("in", &split)]).stdout).unwrap();
    assert!(out.contains(&format!(": {what}, not read\n")), "{out}");
    let out = String::from_utf8(tool(&["inspect", "in"], &[("in", &split)]).stdout).unwrap();
    assert!(out.contains(&format!("not read: {what}\n")), "{out}");
    // Together with parts that are read.
    let images = Section::new("OFFLOAD_DEVICE_CODE", b"x");
    let both = Elf::LIBRARY.write(&[Section::new(".hip_fatbin", &targets(&["gfx906"])), images]);
    let outcome = tool(&["verify", "in"], &[("in", &both)]);
    let out = String::from_utf8(outcome.stdout).unwrap();
    assert!(
        outcome.status == 0 && out.contains("(OFFLOAD_DEVICE_CODE) at offset") && out.ends_with("nothing wrong\n"),
        "{out}"
    );
    // The parts of a fat object are read, whatever the kinds of its entries.
    let fat = Elf::OBJECT.write(&[Section::new("__CLANG_OFFLOAD_BUNDLE__sycl-spir64-unknown-unknown", b"x")]);
    assert_eq!(rules(&fat), [""; 0]);
}

#[test]
fn parts_that_hide_device_code_are_faults() {
    let bundle = targets(&["gfx906"]);
    let whole = Elf::LIBRARY.write(&[Section::new(".text", b"code"), Section::new(".hip_fatbin", &bundle)]);
    let number = |at: usize| usize::try_from(u64::from_le_bytes(whole[at..at + 8].try_into().unwrap())).unwrap();
    // The section headers: of no section, `.text`, `.hip_fatbin`, `.shstrtab`.
    let header = |index: usize| number(40) + 64 * index;
    let names = number(header(3) + 24)..number(header(3) + 24) + number(header(3) + 32);
    let changed = |at: usize, with: &[u8]| {
        let mut data = whole.clone();
        data[at..at + with.len()].copy_from_slice(with);
        data
    };
    for (what, data) in [
        ("a name outside of the names", changed(header(2), &[0xff; 4])),
        ("names in a section with code", changed(62, &[1, 0])),
        ("names in no section", changed(62, &[9, 0])),
        ("names of another type", changed(header(3) + 4, &[1])),
        ("names without an end", changed(names.end - 1, b"x")),
        ("no names at all", changed(header(3) + 32, &[0; 8])),
        ("a count of no sections", changed(60, &[0, 0])),
        ("a table beyond the end", changed(40, &[0xff; 4])),
        ("a table at no offset", changed(40, &[0; 8])),
        ("headers of another size", changed(58, &[40, 0])),
        ("a section beyond the end", changed(header(2) + 32, &[0xff; 4])),
    ] {
        assert_eq!(rules(&data), ["readable"], "{what}");
        let outcome = tool(&["inspect", "in"], &[("in", &data)]);
        assert!(
            outcome.status == 1 && outcome.stderr_text().contains("error: 'in'"),
            "{what}: {}",
            outcome.stderr_text()
        );
    }
    // Parts that are found are extracted nevertheless.
    let elsewhere = changed(header(1), &[0xff; 4]);
    assert_eq!(rules(&elsewhere), ["readable"]);
    assert_eq!(tool(&["extract", "in", "-o", "out"], &[("in", &elsewhere)]).status, 0);
    let mut object = coff(&[(".text", b"x"), (".hip_fatbin_long", &bundle)]);
    assert_eq!(rules(&object), [""; 0]);
    object[60..67].copy_from_slice(b"/999999");
    assert_eq!(rules(&object), ["readable"]);
    let mut cut = coff(&[(".text", b"x"), (".hip_fat", &bundle)]);
    cut.truncate(50);
    assert_eq!(rules(&cut), ["readable"]);
    let library = archive(&[("a.o", &whole)]);
    let mut name = library.clone();
    name[8..24].copy_from_slice(b"/123            ");
    assert_eq!(rules(&name), ["readable"]);
    let wheel = zip(&[Zipped::new("a", STORED, &whole), Zipped::new("b", STORED, b"text")]);
    let end = wheel.len() - 22;
    let without = |at: usize, with: &[u8]| {
        let mut wheel = wheel.clone();
        wheel[at..at + with.len()].copy_from_slice(with);
        wheel
    };
    assert_eq!(rules(&wheel), [""; 0]);
    assert_eq!(rules(&without(end + 8, &[1, 0, 1, 0])), ["readable"]);
    assert_eq!(rules(&without(end + 8, &[0; 12])), ["readable"]);
}

#[test]
fn an_object_that_llvm_refuses_is_not_without_device_code() {
    let Some(objdump) = llvm("objects that LLVM refuses", "llvm-objdump") else { return };
    let library =
        Elf::LIBRARY.write(&[Section::new(".text", b"code"), Section::new(".hip_fatbin", &targets(&["gfx906"]))]);
    let table = usize::try_from(u64::from_le_bytes(library[40..48].try_into().unwrap())).unwrap();
    let dir = memory_directory();
    let mut refused = 0;
    for at in (4..64).chain(table..library.len()) {
        let mut data = library.clone();
        data[at] ^= 0xff;
        let case = Case::new(&["--section-headers", "in"]).called("llvm-objdump").file("in", data.clone());
        if harness::run(&objdump, &case).status != 0 {
            fs::write(dir.path().join("in"), &data).unwrap();
            let (status, out, _) = text(&tool_in(dir.path(), &["verify", "in"]));
            assert!(
                !out.contains("no device code") && (status == 1 || out.contains("1 code object")),
                "byte {at}: {out}"
            );
            refused += 1;
        }
    }
    assert!(refused > 20, "{refused}");
    loud(&format!("objects that LLVM refuses: {refused}"));
}

/// A code object as a linker writes it, and after `strip`.
#[test]
fn code_that_hip_refuses_after_strip_is_a_fault_wherever_it_is() {
    let linked = fixture("kernels/llvm22-gfx90a.elf");
    // The section has another name.
    let at = linked.windows(8).rposition(|window| window == b".strtab\0").unwrap();
    let mut stripped = linked.clone();
    stripped[at + 1] = b'S';
    // No section has a name.
    let mut nameless = linked.clone();
    nameless[62..64].fill(0);
    for name in nameless_headers(&linked) {
        nameless[name..name + 4].fill(0);
    }
    let changed = |data: &[u8], at: usize, byte: u8| {
        let mut data = data.to_vec();
        data[at] = byte;
        data
    };
    let image = |code: &[u8]| Image::new(1, 4, &[("triple", "amdgcn-amd-amdhsa"), ("arch", "gfx90a")], code);
    let bundle = |id: &str, code: &[u8]| formats::binary(&[(HOST, b""), (id, code)], 4096);
    let (hip, hipv4) = (hip("gfx90a"), "hipv4-amdgcn-amd-amdhsa--gfx90a");
    let library = |bundle: &[u8]| Elf::LIBRARY.write(&[Section::new(".hip_fatbin", bundle)]);
    type Form<'f> = &'f dyn Fn(&[u8]) -> Vec<u8>;
    let forms: [Form<'_>; 7] = [
        &|code| code.to_vec(),
        &|code| bundle(&hip, code),
        &|code| library(&bundle(hipv4, code)),
        &|code| library(&formats::compressed(3, 1, &bundle(hipv4, code))),
        &|code| zip(&[Zipped::new("a.so", DEFLATED, &library(&bundle(hipv4, code))), Zipped::new("b", STORED, b"b")]),
        &|code| offload::write(1, &[image(code)]),
        &|code| archive(&[("a.o", &Elf::OBJECT.write(&[Section::new(".rodata", code)]))]),
    ];
    for (number, form) in forms.iter().enumerate() {
        assert_eq!(rules(&form(&linked)), [""; 0], "{number}");
        assert_eq!(rules(&form(&stripped)), ["loadable"], "{number}");
        assert_eq!(rules(&form(&nameless)), ["loadable"], "{number}");
        // For PAL, for Mesa, for no system, and an object for linkers.
        for (at, byte) in [(7, 65), (7, 66), (7, 0), (16, 1)] {
            let said = rules(&form(&changed(&stripped, at, byte)));
            assert!(!said.contains(&"loadable".to_owned()), "{number}, byte {at}: {said:?}");
        }
    }
    // Runtimes other than HIP's load a code object by its segments.
    assert_eq!(rules(&bundle("openmp-amdgcn-amd-amdhsa--gfx90a", &stripped)), [""; 0]);
}

/// Where the names of the sections of a 64-bit ELF file are recorded.
fn nameless_headers(data: &[u8]) -> Vec<usize> {
    let table = usize::try_from(u64::from_le_bytes(data[40..48].try_into().unwrap())).unwrap();
    (0..usize::from(data[60])).map(|number| table + 64 * number).collect()
}

#[test]
fn llvm_strip_leaves_what_hip_loads_only_with_some_options() {
    let test = "code objects after llvm-strip";
    let Some(strip) = llvm(test, "llvm-strip") else { return };
    let dir = memory_directory();
    fs::write(dir.path().join("linked"), fixture("kernels/llvm22-gfx90a.elf")).unwrap();
    for (option, is_loaded) in [
        ("--strip-all", false),
        ("--strip-unneeded", false),
        ("--strip-sections", false),
        ("-g", true),
        ("--discard-all", true),
        ("--discard-locals", true),
    ] {
        must(Command::new(&strip).args([option, "linked", "-o", "out"]).current_dir(dir.path()));
        let outcome = tool_in(dir.path(), &["verify", "out"]);
        let (status, out, _) = text(&outcome);
        assert_eq!((status, out.contains("section .strtab")), (i32::from(!is_loaded), !is_loaded), "{option}: {out}");
        fs::remove_file(dir.path().join("out")).unwrap();
    }
}

#[test]
fn images_of_no_kind_are_checked_as_those_of_others() {
    let code = fixture("kernels/llvm22-gfx90a.elf");
    let image = |kind: u16, arch: &str| {
        offload::write(1, &[Image::new(1, kind, &[("triple", "amdgcn-amd-amdhsa"), ("arch", arch)], &code)])
    };
    assert_eq!(rules(&image(0, "gfx90a")), [""; 0]);
    assert_eq!(rules(&image(0, "gfx906")), ["target"]);
    assert_eq!(rules(&image(0, "gfx90a:fast+")), ["feature"]);
    assert_eq!(rules(&image(0, "gfx90a:xnack")), ["entry-id"]);
    // A number that no release defines.
    assert_eq!(rules(&image(99, "gfx90a")), ["entry-id"]);
    let Some(packager) = llvm("images of the kind none", "llvm-offload-binary") else { return };
    let dir = memory_directory();
    fs::write(dir.path().join("code.o"), &code).unwrap();
    for kind in ["", ",kind=none", ",kind=unheard-of"] {
        let image = format!("--image=file=code.o,triple=amdgcn-amd-amdhsa,arch=gfx90a{kind}");
        must(Command::new(&packager).args(["-o", "out", &image]).current_dir(dir.path()));
        let (status, out, said) = text(&tool_in(dir.path(), &["verify", "out"]));
        assert_eq!((status, said.as_str()), (0, ""), "{kind}: {out}");
    }
}

/// The number of bytes that a broken or cut stream inflates to, read in the smallest steps: zlib writes one byte at a
/// time, zstd gets one.
fn inflated_before_fault(method: u16, stream: &[u8]) -> usize {
    if method == 1 {
        let mut decoder = zstd::stream::raw::Decoder::new().unwrap();
        let (mut space, mut count) = (vec![0; 1 << 18], 0);
        for byte in stream {
            match zstd::stream::raw::Operation::run_on_buffers(&mut decoder, &[*byte], &mut space) {
                Ok(status) => count += status.bytes_written,
                Err(_) => break,
            }
        }
        return count;
    }
    let (mut decoder, mut space) = (flate2::Decompress::new(true), [0]);
    loop {
        let at = usize::try_from(decoder.total_in()).unwrap();
        let before = (decoder.total_in(), decoder.total_out());
        let status = decoder.decompress(&stream[at..], &mut space, flate2::FlushDecompress::None);
        if status.is_err() || (decoder.total_in(), decoder.total_out()) == before {
            return usize::try_from(decoder.total_out()).unwrap();
        }
    }
}

/// The number of bytes in the error of a broken stream is right, wherever it is broken or cut.
#[test]
fn the_bytes_before_a_fault_are_counted() {
    let mut random = Random::new(9);
    let mut told = [0; 2];
    for number in 0..200 {
        let method = u16::from(number % 2 == 0);
        // zstd inflates blocks of 128 KiB as a whole.
        let most = if method == 1 { 600_000 } else { 40_000 };
        let content: Vec<u8> = (0..200 + random.below(most)).map(|_| b"abcdefgh"[random.below(8)]).collect();
        let whole = formats::binary(&[(GFX906, &content)], 8);
        let header_len = 32;
        let mut stream = formats::compressed(3, method, &whole).split_off(header_len);
        if number % 4 < 2 {
            stream.truncate(1 + random.below(stream.len() - 1));
        } else {
            let at = random.below(stream.len() - 4);
            stream[at..at + 4].iter_mut().for_each(|byte| *byte ^= 0x5a);
        }
        let packed = formats::compressed_as(3, method, &whole, &stream);
        let verified = String::from_utf8(tool(&["verify", "in"], &[("in", &packed)]).stdout).unwrap();
        if let Some((_, rest)) = verified.split_once("broken after ") {
            let expected = inflated_before_fault(method, &stream);
            assert_eq!(rest.split(' ').next().unwrap(), expected.to_string(), "{number}: {verified}");
            told[usize::from(method)] += usize::from(expected > 0);
        }
    }
    assert!(told.iter().all(|&count| count > 20), "{told:?}");
}

/// `inspect` reads the beginning of a bundle, `verify` all of it, with other buffers: both say where it breaks.
#[test]
fn broken_streams_break_after_the_same_number_of_bytes_for_all() {
    let mut random = Random::new(8);
    let mut inside = 0;
    for number in 0..120 {
        let line = random.bytes(24);
        let content: Vec<u8> = (0..60_000).map(|at| line[(at / 7 + at % 5) % 24] ^ u8::from(at % 97 == 0)).collect();
        // The header is longer than the part that is inflated at a time, so its end is in the broken part.
        let ids: Vec<String> = (0..1200).map(|number| hip(&format!("gfx{number}"))).collect();
        let entries: Vec<(&str, &[u8])> = ids.iter().map(|id| (id.as_str(), &content[..20])).collect();
        let whole = [formats::binary(&entries, 8), content].concat();
        let mut packed = formats::compressed(2, u16::from(number % 2 == 0), &whole);
        let at = 40 + random.below(packed.len() - 60);
        for byte in &mut packed[at..at + 12] {
            *byte ^= 0x5a;
        }
        let files = [("in", packed.as_slice())];
        let inspected = tool(&["inspect", "in"], &files).stderr_text();
        let verified = String::from_utf8(tool(&["verify", "in"], &files).stdout).unwrap();
        let bytes = |text: &str| {
            let (_, rest) = text.split_once("broken after ")?;
            Some(rest.split(' ').next().unwrap().to_owned())
        };
        if let (Some(one), Some(other)) = (bytes(&inspected), bytes(&verified)) {
            assert_eq!(one, other, "{inspected}{verified}");
            inside += usize::from(one != "0");
        }
    }
    assert!(inside > 10, "{inside} streams that break after some bytes");
}

/// The results of `verify` in three forms.
struct Said {
    status: i32,
    text: String,
    report: Value,
    /// The errors on standard error, as JSON.
    errors: Vec<String>,
}

fn said_of(dir: &Path, args: &[&str]) -> Said {
    let run = |more: &[&str]| text(&tool_in(dir, &[&["verify"], args, more].concat()));
    let (status, text, plain) = run(&[]);
    let (of_json, document, _) = run(&["--json"]);
    let (of_messages, _, messages) = run(&["--message-format=json"]);
    assert_eq!([of_json, of_messages], [status; 2], "{args:?}");
    let report: Value = serde_json::from_str(&document).unwrap();
    schema::check("verify", &report);
    let messages: Vec<Value> = messages.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let errors = messages.iter().filter(|message| message["level"] == "error");
    let errors: Vec<String> = errors.map(|message| message["message"].as_str().unwrap().to_owned()).collect();
    assert_eq!(plain.matches("error: ").count(), errors.len(), "{plain}");
    Said { status, text, report, errors }
}

/// Whatever the files, the places of faults and the options: "nothing wrong" means status 0, and the other way round.
#[test]
fn verify_prints_nothing_wrong_exactly_if_its_status_is_0() {
    let dir = memory_directory();
    let elf = fixture("kernels/llvm22-gfx90a.elf");
    let good = formats::binary(&[(HOST, b""), (&hip("gfx90a:xnack-"), &elf)], 4096);
    let library = Elf::LIBRARY.write(&[Section::new(".hip_fatbin", &good)]);
    let wheel = zip(&[Zipped::new("a.so", DEFLATED, &library), Zipped::new("b.so", STORED, &library)]);
    let files: [(&str, &[u8]); 12] = [
        ("d/bundle", &good),
        ("d/text", b"text"),
        ("d/sub/library", &library),
        ("d/sub/object", &elf),
        ("e/text", b"text"),
        ("f/feature", &targets(&["gfx906:fast+"])),
        ("wheel.whl", &wheel),
        ("object", &elf),
        ("cut", &good[..good.len() - 9]),
        ("text", b"text"),
        ("7z", b"7z\xbc\xaf\x27\x1c"),
        ("twice", &targets(&["gfx90a", "gfx90a"])),
    ];
    for (name, data) in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, data).unwrap();
    }
    let inputs = ["d", "d/sub", "e", "f", "wheel.whl", "object", "cut", "text", "7z", "twice", "nowhere", "d/bundle"];
    let options: [&[&str]; 10] = [
        &[],
        &["--allow-none"],
        &["-r"],
        &["--expect=gfx90a:xnack-"],
        &["--expect=gfx90a:xnack-,H100"],
        &["--expect-any=gfx1100"],
        // Files of a directory serve a GPU together.
        &["--expect-any=H100"],
        &["--expect-exactly=gfx90a"],
        &["--compressed=100"],
        &["--deep"],
    ];
    let (mut random, mut clean, mut faulty, mut on_standard_error) = (Random::new(5), 0, 0, 0);
    for _ in 0..200 {
        let mut args: Vec<&str> = (0..1 + random.below(3)).map(|_| *random.pick(&inputs)).collect();
        for _ in 0..random.below(3) {
            for option in *random.pick(&options) {
                if !option.starts_with("--expect") || !args.iter().any(|arg| arg.starts_with("--expect")) {
                    args.push(option);
                }
            }
        }
        args = args.iter().enumerate().filter(|(at, arg)| !args[..*at].contains(arg)).map(|(_, arg)| *arg).collect();
        let Said { status, text, report, errors } = said_of(dir.path(), &args);
        assert_eq!(text.contains("nothing wrong"), status == 0, "{args:?}: {text}{errors:?}");
        let listed = report["files"].as_array().unwrap().iter().flat_map(|file| file["faults"].as_array().unwrap());
        let listed = listed.count() + report["faults"].as_array().unwrap().len();
        let problems = report["problems"].as_array().unwrap();
        assert_eq!(listed == 0 && problems.is_empty(), status == 0, "{args:?}: {report}");
        let told: Vec<&str> = problems.iter().map(|problem| problem.as_str().unwrap()).collect();
        assert_eq!(told, errors, "{args:?}");
        let unserved = told.iter().filter(|problem| problem.starts_with("no code in any file")).count();
        assert_eq!(report["total"]["faults"].as_u64(), Some(u64::try_from(listed + unserved).unwrap()), "{args:?}");
        // The last line has the number of all faults.
        let last = text.lines().last().unwrap_or_default();
        let number = match listed + unserved {
            0 => String::new(),
            1 => ", 1 fault".to_owned(),
            more => format!(", {more} faults"),
        };
        assert_eq!(last.contains(" fault"), !number.is_empty(), "{args:?}: {text}");
        assert!(last.contains(&number), "{args:?}: {text}");
        clean += usize::from(status == 0);
        faulty += usize::from(listed > 0);
        on_standard_error += usize::from(listed == 0 && unserved > 0);
    }
    assert!(clean > 20 && faulty > 20 && on_standard_error > 1, "{clean} {faulty} {on_standard_error}");
    loud(&format!(
        "verify: {clean} runs with nothing wrong, {faulty} with faults, {on_standard_error} with lacking code"
    ));
}

/// nvcc writes a cubin without code for a source file without code for GPUs. No program needs it, so it says nothing about
/// the GPUs that a library serves.
#[test]
fn cubins_without_code_serve_nothing_and_are_not_missed() {
    let fatbin = |sm, cubin: &[u8]| fatbins::fatbin(&[fatbins::entry(&Code::new(2, sm, cubin))]);
    let (code, stub) = (fatbin(90, &fatbins::cubin(90, 3000)), fatbin(52, &fatbins::cubin_without_code(52)));
    let library = |fatbins: &[&[u8]]| Elf::LIBRARY.write(&[Section::new(".nv_fatbin", &fatbins.concat())]);
    for (name, data, serves) in [
        ("with code", library(&[&code]), true),
        ("with code and a stub", library(&[&code, &stub]), true),
        ("with a stub", library(&[&stub]), false),
    ] {
        for gpu in ["sm_90", "sm_52"] {
            let outcome = tool(&["verify", "--expect", gpu, "in"], &[("in", &data)]);
            let said = String::from_utf8_lossy(&outcome.stdout);
            assert_eq!(outcome.status == 0, serves && gpu == "sm_90", "{name} {gpu}: {said}");
        }
    }
}

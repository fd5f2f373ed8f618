//! Device code outside of the usual sections: `--deep`, and wrappers that point at bundles anywhere.

use std::fs;
use std::ops::Range;

use offload_bundle::container::sequence::Inflate;
use offload_bundle::scan::{Finding, Scan};

use super::*;
use crate::machine::{loud, memory_directory};
use crate::objects::exists_in_path;
use crate::properties::make::{DEFLATED, Elf, STORED, Section, Zipped, archive, coff, pe, zip};
use crate::properties::{fatbins, hcfs, images};
use crate::reference::formats;
use crate::reference::harness::Random;
use crate::reference::offload::{self, Image};

/// A code object for gfx90a.
fn gpu_elf() -> Vec<u8> {
    Elf::amdgpu(0x3f).write(&[Section::new(".text", b"instructions"), Section::new(".note", b"")])
}

fn bundle() -> Vec<u8> {
    formats::binary(&[(HOST, b""), (GFX906, b"first"), (GFX90A, b"second")], 16)
}

/// Containers of all formats, and code objects by themselves.
fn planted() -> Vec<Vec<u8>> {
    let images = [Image::new(1, 4, &[("triple", "amdgcn-amd-amdhsa"), ("arch", "gfx906")], b"first")];
    let methods = [(1, 0), (1, 1), (2, 0), (2, 1), (3, 0), (3, 1)];
    let packed = methods.map(|(version, method)| formats::compressed(version, method, &bundle()));
    let nested = formats::binary(&[(GFX906, &gpu_elf()), (GFX90A, &packed[0])], 8);
    let spirv = images::spirv_with_function(6);
    let bare = [gpu_elf(), fatbins::cubin(90, 7), nested, bundle(), fatbins::sample(), spirv];
    // The last image of the fixture is bitcode for gfx90a.
    let offload = fixture("offload/llvm22-v1.offload");
    let bitcode_at = offload.windows(4).position(|magic| magic == b"BC\xc0\xde").unwrap();
    let bare = bare.into_iter().chain([offload[bitcode_at..].to_vec(), hcfs::write(hcfs::MARKERS[0], &[gpu_elf()])]);
    packed.into_iter().chain(bare).chain((1..=3).map(|version| offload::write(version, &images))).collect()
}

/// Bytes that begin like containers or code objects, and are none.
fn decoys() -> Vec<Vec<u8>> {
    let mut decoys: Vec<Vec<u8>> = planted().iter().map(|whole| whole[..4].to_vec()).collect();
    let text = |count: u64| [formats::MAGIC, &count.to_le_bytes(), &[b'x'; 40]].concat();
    decoys.extend([0, 1, 2, 1 << 40, u64::MAX].map(text));
    decoys.push(formats::MAGIC[..22].to_vec());
    decoys.push(b"__CLANG_OFFLOAD_BUNDLE__host-x86_64\0CCOB\0".to_vec());
    for (version, method) in [(2, 0), (2, 1), (3, 0), (3, 1)] {
        let mut packed = formats::compressed(version, method, &bundle());
        let len = packed.len();
        packed[len - 30..].fill(0xee);
        packed[36..44].fill(0xee);
        decoys.push(packed);
        // Its content is not a bundle.
        decoys.push(formats::compressed(version, method, b"text"));
    }
    for (machine, at, value) in [(224, 40, 0x7f), (190, 32, 0x7f), (62, 0, 0x7f), (224, 58, 1)] {
        let mut elf = Elf { machine, ..Elf::amdgpu(0x3f) }.write(&[]);
        elf[at..at + 1].fill(value);
        elf[at + 4] = if at > 0 && at < 50 { 0x7f } else { elf[at + 4] };
        decoys.push(elf);
    }
    // Bitcode of a host, and HCF data without its end.
    decoys.push(fixture("bitcode/llvm22-thin.bc"));
    let hcf = hcfs::write("", &[]);
    decoys.extend([hcf.clone(), [&hcf[..], b"\nx\n"].concat(), b"object-id = x".to_vec()]);
    decoys.push(offload::write(2, &[])[..20].to_vec());
    decoys.push(fatbins::fatbin(&[]));
    decoys.push(fatbins::fatbin(&[vec![0xff; 80]]));
    let spirv = images::spirv_with_function(6);
    for (at, value) in [(4, 1), (6, 2), (12, 0), (16, 1), (20, 12), (28, 15), (48, 0xff), (80, 0xfd)] {
        decoys.push(spirv.clone());
        let decoy = decoys.last_mut().unwrap();
        decoy[at] = value;
    }
    decoys.extend([40, spirv.len() - 4].map(|len| spirv[..len].to_vec()));
    let head = "\0.version 8.7\n.target sm_80\n";
    for end in ["", ".entry f() {", "} .entry f() {}", "/* .entry f() {}", ".entry %s {"] {
        decoys.push([head, end, "\0"].concat().into_bytes());
    }
    for text in ["a .version 8.7\n.target sm_80\n.entry f() {}\0", "\0.version %d.%d\n.target sm_%d\n.entry f() {}\0"] {
        decoys.push(text.into());
    }
    decoys
}

/// Bytes that hold no magic.
fn filler(random: &mut Random) -> Vec<u8> {
    let len = random.below(3000);
    match random.below(4) {
        0 => vec![0; len],
        1 => b"a line of text, as programs have them\n".iter().copied().cycle().take(len).collect(),
        2 => Vec::new(),
        _ => random.bytes(len),
    }
}

/// A file with planted containers among decoys, and their ranges.
fn mixed(random: &mut Random) -> (Vec<u8>, Vec<Range<u64>>) {
    let (planted, decoys) = (planted(), decoys());
    let (mut data, mut ranges) = (b"x".to_vec(), Vec::new());
    let end = |data: &[u8]| u64::try_from(data.len()).unwrap();
    for _ in 0..random.below(12) {
        data.extend(filler(random));
        match random.below(3) {
            0 => data.extend(random.pick(&decoys)),
            _ => {
                let start = end(&data);
                data.extend(random.pick(&planted));
                ranges.push(start..end(&data));
            }
        }
    }
    // Nothing may lie after the last decoy that would complete it.
    data.extend(filler(random));
    data.extend(&formats::binary(&[(GFX906, &[1; 100])], 1)[..90]);
    (data, ranges)
}

/// Returns the ranges of the outermost findings of a deep search, and its faults.
fn found_in(data: &[u8], inflate: Inflate) -> (Vec<Range<u64>>, Vec<String>) {
    let (mut ranges, mut faults) = (Vec::new(), Vec::new());
    let mut scan = Scan::default();
    (scan.deep, scan.inflate) = (true, inflate);
    scan.run(data, &mut |finding| {
        match finding {
            Finding::Bundle(found) if found.place.steps().is_empty() => {
                assert_eq!(found.index, ranges.len(), "numbered in order");
                let range = found.bundle.range().unwrap();
                for code_object in found.code_objects().filter(|_| found.bundle.compressed.is_none()) {
                    let Some(range) = code_object.range() else { continue };
                    let [start, end] = [range.start, range.end].map(|at| usize::try_from(at).unwrap());
                    assert!(*code_object.bytes().unwrap() == data[start..end]);
                }
                ranges.push(range);
            }
            Finding::Bundle(_) => {}
            Finding::Broken { place, error } => faults.push(format!("{place}: {error}")),
            other => panic!("{other:?}"),
        }
        Ok(())
    })
    .unwrap();
    (ranges, faults)
}

#[test]
fn deep_searches_find_planted_containers_and_nothing_else() {
    let mut count = 0;
    for seed in 0..400 {
        let (data, planted) = mixed(&mut Random::new(seed));
        count += planted.len();
        for inflate in [Inflate::Headers, Inflate::Whole] {
            assert_eq!(found_in(&data, inflate), (planted.clone(), Vec::new()), "seed {seed}, {inflate:?}");
        }
    }
    assert!(count > 1000, "{count}");
    loud(&format!("deep: {count} containers and code objects among decoys"));
}

#[test]
fn blocks_of_the_search_hide_nothing() {
    for (index, planted) in planted().into_iter().enumerate() {
        for before in [-30, -24, -23, -4, -1, 0, 1] {
            let start = (256_i64 << 10) + before;
            let mut data = vec![b'x'; usize::try_from(start).unwrap()];
            data.extend(&planted);
            let start = u64::try_from(start).unwrap();
            let range = start..u64::try_from(data.len()).unwrap();
            assert_eq!(found_in(&data, Inflate::Headers), (vec![range], Vec::new()), "{index}, {before}");
        }
    }
}

/// The findings of `inspect --deep` in a file, which must have no faults.
fn deep(name: &str, data: &[u8]) -> Vec<(String, String)> {
    let outcome = tool(&["inspect", "--deep", "--json", name], &[(name, data)]);
    assert_eq!((outcome.status, outcome.stderr_text().as_str()), (0, ""), "{name}");
    told(&json_of(&outcome)).into_iter().map(|(place, container, ..)| (place, container)).collect()
}

/// Files of all forms that hold a bundle and a code object where nobody expects them, and their places.
fn hidden() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let (bundle, elf) = (bundle(), gpu_elf());
    let both = [&b"strings\0"[..], &bundle, b"\0other strings\0", &elf, b"end"].concat();
    let usual = formats::binary(&[(GFX906, b"usual")], 8);
    let in_rodata = |elf: Elf| elf.write(&[Section::new(".rodata", &both)]);
    let with_trailing = [&usual[..], b"garbage", &both].concat();
    let usual_too = Elf::LIBRARY.write(&[Section::new(".data", &both), Section::new(".hip_fatbin", &usual)]);
    vec![
        ("firmware.bin", both.clone(), ":"),
        ("object.o", in_rodata(Elf::OBJECT), ":.rodata"),
        ("library.so", in_rodata(Elf::LIBRARY), ":.rodata"),
        ("object.obj", coff(&[(".text", b"code"), (".rdata", &both)]), ":.rdata"),
        ("library.dll", pe(&[(".text", b"code"), (".rdata", &both)]), ":.rdata"),
        ("appended.so", [in_rodata(Elf { machine: 62, ..Elf::LIBRARY }), both.clone()].concat(), ":"),
        ("sycl", Elf::LIBRARY.write(&[Section::new("OFFLOAD_DEVICE_CODE", &both)]), ":OFFLOAD_DEVICE_CODE"),
        ("trailing.so", Elf::LIBRARY.write(&[Section::new(".hip_fatbin", &with_trailing)]), ":.hip_fatbin"),
        ("usual.so", usual_too, ":.data"),
        ("lib.a", archive(&[("a.txt", b"text"), ("x.bin", &both)]), "x.bin:"),
        ("stored.zip", zip(&[Zipped::new("x.bin", STORED, &both)]), "x.bin:"),
        ("packed.zip", zip(&[Zipped::new("x.bin", DEFLATED, &both)]), "x.bin:"),
        ("bundle", [&usual[..], b"garbage", &both].concat(), ":"),
        ("code", [&gpu_elf()[..], b"garbage", &bundle].concat(), ":"),
    ]
}

#[test]
fn every_place_is_searched() {
    for (name, data, place) in hidden() {
        let rows = deep(name, &data);
        let bundles = rows.iter().filter(|row| **row == (place.to_owned(), "bundle".to_owned())).count();
        let bare = rows.iter().filter(|row| **row == (place.to_owned(), "code object".to_owned())).count();
        assert!(bundles >= 3 && bare >= 1, "{name}: {rows:?}");
        let plain = tool(&["verify", "--allow-none", name], &[(name, &data)]);
        let verified = tool(&["verify", "--deep", "--json", name], &[(name, &data)]);
        let report: Value = serde_json::from_slice(&verified.stdout).unwrap();
        assert!(report["total"]["without_bundle"].as_u64() >= Some(1), "{name}: {report}");
        assert!(plain.status <= verified.status, "{name}");
        let targets = ["extract", "--deep", "-t", "gfx90a", "-o", "out", name];
        let extracted = tool(&targets, &[(name, &data)]);
        assert_eq!(extracted.status, 0, "{name}: {}", extracted.stderr_text());
        let contents: Vec<&[u8]> = extracted.files.values().map(|data| &data[..]).collect();
        assert!(contents.contains(&&b"second"[..]) && contents.contains(&&gpu_elf()[..]), "{name}");
    }
}

/// The findings in a file without `--deep`, which must have no faults.
fn by_default(name: &str, data: &[u8]) -> Vec<(String, String)> {
    let outcome = tool(&["inspect", "--json", name], &[(name, data)]);
    let said = outcome.stderr_text();
    let is_hint = said.starts_with("hint: --deep ") && said.lines().count() == 1;
    assert!(outcome.status == 0 && (said.is_empty() || is_hint), "{name}: {said}");
    told(&json_of(&outcome)).into_iter().map(|(place, container, ..)| (place, container)).collect()
}

#[test]
fn data_of_programs_and_objects_is_searched_by_default() {
    let kinds = ["code object", "code object", "fatbin"];
    let fatbin = fatbins::fatbin(&[fatbins::entry(&fatbins::Code::cubin(90, 7))]);
    let planted = [&b"text\0\0\0"[..], &gpu_elf(), &[0; 9], &fatbins::cubin(90, 7), &fatbin, b"end"].concat();
    let usual = formats::binary(&[(GFX906, &gpu_elf())], 8);
    let found = |member: &str, section: &str, kinds: &[&str]| -> Vec<(String, String)> {
        kinds.iter().map(|kind| (format!("{member}:{section}"), (*kind).to_owned())).collect()
    };
    let of_data = [".rodata", ".lrodata", ".data", ".rodata.str1.1", ".data.rel.ro.table", ".rdata$r"];
    for (section, is_searched) in of_data.map(|section| (section, true)).into_iter().chain([(".text", false)]) {
        let expected: &[&str] = if is_searched { &kinds } else { &[] };
        let sections = [(section, &planted[..]), (".hip_fatbin", &usual)];
        let elf = |elf: Elf| elf.write(&sections.map(|(name, content)| Section::new(name, content)));
        for (name, data) in
            [("library.so", elf(Elf::LIBRARY)), ("object.o", elf(Elf::OBJECT)), ("object.obj", coff(&sections))]
        {
            let whole = |member| [found(member, ".hip_fatbin", &["bundle"]), found(member, section, expected)].concat();
            assert_eq!(by_default(name, &data), whole(""), "{name} {section}");
            let members = archive(&[("a.o", &data), ("b.o", &data)]);
            assert_eq!(by_default("lib.a", &members), [whole("a.o"), whole("b.o")].concat(), "{name} {section}");
        }
    }
    for decoy in decoys() {
        for elf in [Elf::LIBRARY, Elf::OBJECT] {
            assert_eq!(by_default("in", &elf.write(&[Section::new(".data", &decoy)])), [], "{}", decoy.escape_ascii());
        }
    }
    let loaded = Elf::LIBRARY.write(&[Section::new(".cask_resource", &planted).at(0x1000)]);
    assert_eq!(by_default("library.so", &loaded), found("", ".cask_resource", &kinds));
    let data = pe(&[(".rdata", &planted), (".rsrc", &planted), (".text", &planted), (".debug", &planted)]);
    assert_eq!(by_default("library.dll", &data), [found("", ".rdata", &kinds), found("", ".rsrc", &kinds)].concat());
}

/// Compilers write a section for each variable, and linkers lay them out as they like.
#[test]
fn code_in_data_is_found_however_it_is_laid_out() {
    let (planted, decoys) = (planted(), decoys());
    let mut count = 0;
    for seed in 0..150 {
        let random = &mut Random::new(seed);
        let (mut sections, mut expected) = (Vec::new(), Vec::new());
        for number in 0..random.below(30) {
            let name = format!("{}.v{number}", random.pick(&[".rodata", ".data", ".rdata", ".debug"]));
            let mut content = filler(random);
            match random.below(6) {
                0 => {
                    content.extend(random.pick(&planted));
                    content.extend(random.pick(&decoys));
                    expected.extend((!name.starts_with(".debug")).then(|| name.clone()));
                }
                1 => content.extend(random.pick(&decoys)),
                _ => {}
            }
            sections.push((name, content));
        }
        count += expected.len();
        let named: Vec<_> = sections.iter().map(|(name, content)| (name.as_str(), &content[..])).collect();
        let elf: Vec<_> = named.iter().map(|(name, content)| Section::new(name, content).aligned(1)).collect();
        let files = [Elf::OBJECT.write(&elf), Elf::LIBRARY.write(&elf), coff(&named)];
        let expected: Vec<_> = expected.iter().map(|name| format!(":{name}")).collect();
        for (number, data) in files.iter().enumerate() {
            let mut places: Vec<_> = by_default("in", data).into_iter().map(|row| row.0).collect();
            places.dedup();
            assert_eq!(places, expected, "seed {seed}, {number}");
        }
    }
    assert!(count > 200, "{count}");
}

/// Code that no table names, at any offset: SPIR-V for kernels and PTX are code objects; that for graphics is counted.
#[test]
fn spir_v_and_ptx_in_data_are_found_and_shaders_are_named() {
    let (kernels, shader) = (images::spirv_with_function(6), images::spirv_with_function(1));
    let ptx = ".version 8.7\n.target sm_90a\n.address_size 64\n.visible .entry k() { ret; }\n";
    let commented = format!("//\n// by a compiler\n//\n\n{ptx}");
    let oneline = ".version 3.2.target sm_35.address_size 64 .entry f { exit; }";
    let parts: [&[u8]; 16] = [
        b"x",
        &kernels,
        b"\0\0\0",
        &shader,
        &shader,
        &kernels,
        b"text\0",
        commented.as_bytes(),
        b"\0",
        ptx.as_bytes(),
        b"\0\0\x01",
        oneline.as_bytes(),
        b"\0",
        oneline.as_bytes(),
        b" &R\xfb@&R\xfb\0\0",
        b"end",
    ];
    let data = parts.concat();
    let expected = [
        ("SPIR-V", &kernels[..]),
        ("SPIR-V", &kernels),
        ("PTX", commented.as_bytes()),
        ("PTX", ptx.as_bytes()),
        ("PTX", oneline.as_bytes()),
        ("PTX", oneline.as_bytes()),
    ];
    let [elf, object] = [Elf::LIBRARY, Elf::OBJECT].map(|elf| elf.write(&[Section::new(".rodata", &data)]));
    let obj = coff(&[(".rdata", &data)]);
    let library = archive(&[("x.o", &object)]);
    for (name, file) in
        [("x.so", &elf), ("x.dll", &pe(&[(".rdata", &data)])), ("x.o", &object), ("x.obj", &obj), ("x.a", &library)]
    {
        let outcome = tool(&["inspect", "--json", name], &[(name, file)]);
        assert_eq!((outcome.status, outcome.stderr_text().as_str()), (0, ""));
        let document = json_of(&outcome);
        let rows = document["files"][0]["code_objects"].as_array().unwrap();
        assert_eq!(rows.len(), expected.len(), "{document}");
        for (row, (kind, content)) in rows.iter().zip(expected) {
            let start = usize::try_from(row["offset"].as_u64().unwrap()).unwrap();
            assert_eq!(
                (row["image_kind"].as_str(), row["size"].as_u64()),
                (Some(kind), u64::try_from(content.len()).ok()),
                "{row}"
            );
            assert!(file[start..].starts_with(content), "{row}");
        }
        let unread = document["files"][0]["unread"].as_array().unwrap();
        let names: Vec<_> = unread.iter().map(|row| row["what"].as_str().unwrap()).collect();
        let shader = "SPIR-V module without kernels";
        assert_eq!(names, [shader, shader]);
        let outcome = tool(&["inspect", name], &[(name, file)]);
        let line = "not read: SPIR-V module without kernels (2)\n";
        assert!(String::from_utf8(outcome.stdout).unwrap().contains(line));
        let outcome = tool(&["verify", name], &[(name, file)]);
        assert_eq!(outcome.status, 0, "{}", outcome.stderr_text());
        let printed = String::from_utf8(outcome.stdout).unwrap();
        let line = ": SPIR-V module without kernels, not read (1 more in the same place)\n";
        assert!(printed.contains(line) && printed.lines().count() == 2, "{printed}");
    }
}

/// Device code in several sections, or in a bundle that a wrapper registers, is found once. Broken headers in sections
/// of data are not faults.
#[test]
fn code_in_data_is_found_once() {
    let nested = formats::binary(&[(GFX906, &gpu_elf())], 8);
    let wrapper = [&[0x46, 0x50, 0x49, 0x48, 1, 0, 0, 0], &8192_u64.to_le_bytes()[..], &[0; 8]].concat();
    let registered = pe(&[(".hipFatB", &wrapper), (".rdata", &[&nested[..], &gpu_elf()].concat())]);
    let rdata = |kind: &str| (":.rdata".to_owned(), kind.to_owned());
    assert_eq!(by_default("library.dll", &registered), [rdata("bundle"), rdata("code object")]);

    let mut twice = Elf::LIBRARY.write(&[Section::new(".rodata", &gpu_elf()), Section::new(".data", b"")]);
    let [first, second] = [1, 2].map(|section: usize| twice.len() - 64 * (4 - section) + 24);
    twice.copy_within(first..first + 16, second);
    assert_eq!(by_default("library.so", &twice), [(":.rodata".to_owned(), "code object".to_owned())]);
    twice[second + 8..second + 16].fill(0x7f);
    assert_eq!(by_default("library.so", &twice), [(":.rodata".to_owned(), "code object".to_owned())]);
}

/// Programs that search for device code have the magics as data.
#[test]
fn programs_that_mention_the_magics_hold_no_device_code() {
    let mut programs = vec![PathBuf::from(PROGRAM), std::env::current_exe().unwrap()];
    for tool in [
        "clang-22",
        "lld",
        "clang-offload-bundler",
        "../../x86_64-linux-gnu/libLLVM.so.22.1",
        "../lib/libclang-cpp.so.22.1",
    ] {
        programs.extend(llvm("programs without device code", tool));
    }
    for program in programs.iter().filter(|program| program.exists() && !program.ends_with("suite")) {
        // Tests hold fixtures.
        if *program == std::env::current_exe().unwrap() {
            continue;
        }
        let program = program.to_str().unwrap();
        let (status, out, err) = text(&tool_in(Path::new("."), &["inspect", "--deep", "--json", program]));
        let document: Value = serde_json::from_str(&out).unwrap();
        assert_eq!((status, err.as_str(), told(&document)), (0, "", vec![]), "{program}");
    }
}

const PADDING: &str = ".quad 0, 0, 0, 0, 0\n";

/// Bundles in two sections, and wrappers that point at these expressions.
fn assembly(windows: bool, targets: &[&str]) -> String {
    let (a, aw) = if windows { ("dr", "dw") } else { ("a", "aw") };
    let mut source = format!(
        ".section .rodata,\"{a}\"\n.asciz \"text\"\n.balign 64\nfirst: .incbin \"first\"\n.balign 8\nother: .quad 1\n\
         packed: .incbin \"packed\"\n.section .hip_fatbin,\"{a}\"\n.balign 4096\nusual: .incbin \"usual\"\n\
         .section .hipFatBinSegment,\"{aw}\"\n.balign 8\n"
    );
    for (number, target) in targets.iter().enumerate() {
        // The sanitizer of addresses puts red zones between variables.
        let padding = if number % 2 == 0 { PADDING } else { "" };
        source += &format!(".int 0x48495046, 1\n.quad {target}, 0\n{padding}");
    }
    source
}

/// The sections of the bundles in a file that these commands make of the assembly, and the faults of wrappers.
fn registered(source: &str, commands: &[Vec<&str>]) -> (Vec<String>, usize) {
    let dir = memory_directory();
    let one = |id: &str| formats::binary(&[(HOST, b""), (id, b"code")], 8);
    fs::write(dir.path().join("first"), one(GFX906)).unwrap();
    fs::write(dir.path().join("packed"), formats::compressed(3, 1, &one(GFX90A))).unwrap();
    fs::write(dir.path().join("usual"), one(GFX906)).unwrap();
    fs::write(dir.path().join("in.s"), source).unwrap();
    for command in commands {
        must(Command::new(command[0]).args(&command[1..]).current_dir(dir.path()));
    }
    let (status, out, err) = text(&tool_in(dir.path(), &["inspect", "--json", "out"]));
    assert_eq!((status, err.as_str()), (0, ""));
    let places = told(&serde_json::from_str(&out).unwrap()).into_iter().filter(|row| row.3 > 0);
    let (status, out, err) = text(&tool_in(dir.path(), &["verify", "out"]));
    let faults = out.matches("a wrapper that does not point at a bundle").count();
    assert_eq!(status, i32::from(faults > 0), "{out}{err}");
    (places.map(|row| row.0).collect(), faults)
}

#[test]
fn wrappers_lead_to_bundles_in_any_section() {
    let Some(clang) = llvm("wrappers of bundles", "clang") else { return };
    if !exists_in_path("ld") {
        return skip("wrappers of bundles", "binutils is not installed");
    }
    let bin = clang.parent().unwrap();
    let [lld, lld_link] = ["ld.lld", "lld-link"].map(|name| bin.join(name).to_str().unwrap().to_owned());
    let clang = clang.to_str().unwrap();
    let object = vec![clang, "--target=x86_64-linux-gnu", "-c", "in.s", "-o", "out"];
    let mut all = vec![(false, vec![object])];
    for linker in ["ld", &lld] {
        for option in ["-shared", "-pie", "-no-pie", "-zpack-relative-relocs", "-znorelro"] {
            let mut link = vec![linker, option, "-e0", "o", "-o", "out"];
            link.extend(option.starts_with("-z").then_some("-shared"));
            all.push((false, vec![vec![clang, "--target=x86_64-linux-gnu", "-c", "in.s", "-o", "o"], link]));
        }
    }
    let windows = [clang, "--target=x86_64-w64-windows-gnu", "-c", "in.s", "-o"];
    all.push((true, vec![[&windows[..], &["out"]].concat()]));
    let dll = vec![&*lld_link, "/dll", "/noentry", "/opt:noref", "/ignore:longsections", "o", "/out:out"];
    all.push((true, vec![[&windows[..], &["o"]].concat(), dll]));
    let both = [":.hip_fat", ":.rodata", ":.rodata"];
    for (is_windows, commands) in &all {
        let run = |targets: &[&str]| {
            let (places, faults) = registered(&assembly(*is_windows, targets), commands);
            (places.into_iter().map(|place| place.replace(".hip_fatbin", ".hip_fat")).collect::<Vec<_>>(), faults)
        };
        let expected = |places: &[&str], faults| (places.iter().map(|&place| place.to_owned()).collect(), faults);
        assert_eq!(run(&["packed", "usual", "first"]), expected(&both, 0), "{commands:?}");
        // Data is searched without a wrapper.
        assert_eq!(run(&["usual"]), expected(&both, 0), "{commands:?}");
        let wrong = ["packed + 8", "first", "other", "first", "usual + 24"];
        assert_eq!(run(&wrong), expected(&both, 3), "{commands:?}");
    }
    // Another object has it.
    assert_eq!(registered(&assembly(false, &["elsewhere", "first"]), &all[0].1), {
        (vec![":.hip_fatbin".to_owned(), ":.rodata".to_owned(), ":.rodata".to_owned()], 0)
    });
    loud(&format!("wrappers of bundles: {} ways to link", all.len()));
}

/// A registered bundle is read as a bundle, however broken it is.
#[test]
fn registered_bundles_that_are_broken_are_faults() {
    let mut bundle = bundle();
    bundle[24] = 0xff;
    let address = 8192_u64.to_le_bytes();
    let wrapper = [&[0x46, 0x50, 0x49, 0x48, 1, 0, 0, 0], &address[..], &[0; 8]].concat();
    let data = pe(&[(".hipFatB", &wrapper), (".rdata", &bundle)]);
    for args in [&["inspect", "in"][..], &["inspect", "--deep", "in"]] {
        let outcome = tool(args, &[("in", &data)]);
        assert!(outcome.stderr_text().contains("in(.rdata)': entry count"), "{}", outcome.stderr_text());
        assert_eq!(outcome.status, 1, "{args:?}");
    }
}

#[test]
fn bundles_of_other_vendors_are_read() {
    let elf = |machine: u16| Elf { machine, ..Elf::OBJECT }.write(&[]);
    // In a wrapper, with zeros after it.
    let module = fixture("bitcode/llvm22-one.bc");
    let wrapper = [0x0b17_c0de, 0, 20, u32::try_from(module.len()).unwrap(), 255].map(u32::to_le_bytes).concat();
    let bitcode = &*[&wrapper[..], &module, &[0; 12]].concat();
    let (mp_31, mp_22, xcore) = (elf(251), elf(251), elf(253));
    let maca = "maca-mxc-metax-macahca--xcore1000";
    let maca_bitcode = "maca-mxc-metax-macahca--xcore1000-bc";
    let (musa, gcu) = ("musa-mtgpu-mt-musa--mp_31", "tops-dtu-enflame-tops--efgcu500");
    let hygon = "hipv4-amdgcn-amd-amdhsa--gfx936";
    let with_end = |bundle: Vec<u8>| [&bundle[..], b"__FILE_END__\0"].concat();
    for (section, entries, targets) in [
        (".mt_fatbin", &[(musa, &mp_31[..]), ("musa-mtgpu-mt-musa-mp_22", &mp_22)][..], &["mp_31", "mp_22"][..]),
        (".mc_fatbin", &[(maca_bitcode, bitcode), (maca, &xcore)], &["xcore1000-bc", "xcore1000"]),
        (".topsfb", &[(gcu, &xcore)], &["efgcu500"]),
        (".hip_fatbin", &[(hygon, b"\x01\xffcode")], &["gfx936"]),
    ] {
        let bundle = with_end(formats::binary(&[&[(HOST, &b""[..])], entries].concat(), 8));
        let twice = [&bundle[..], &bundle].concat();
        for (data, place) in [(bundle.clone(), ""), (Elf::LIBRARY.write(&[Section::new(section, &twice)]), section)] {
            let rows = told(&json_of(&tool(&["inspect", "--json", "in"], &[("in", &data)])));
            let ids: Vec<&str> = std::iter::once(HOST).chain(entries.iter().map(|(id, _)| *id)).collect();
            let times = if place.is_empty() { 1 } else { 2 };
            assert_eq!(rows.iter().map(|row| row.2.as_str()).collect::<Vec<_>>(), ids.repeat(times), "{section}");
            assert!(rows.iter().all(|row| row.0.trim_start_matches(':') == place), "{section}");
            let faults = tool(&["verify", "in", "--expect", &targets.join(",")], &[("in", &data)]);
            assert_eq!(faults.status, 0, "{section}: {}", String::from_utf8_lossy(&faults.stdout));
            for (target, (_, code)) in targets.iter().zip(entries) {
                let outcome = tool(&["extract", "--exact", "-t", target, "in"], &[("in", &data)]);
                let files: Vec<_> = outcome.files.iter().filter(|(name, _)| *name != "in").collect();
                assert_eq!((outcome.status, files.len()), (0, times), "{target}: {}", outcome.stderr_text());
                assert!(files.iter().all(|(_, data)| data[..] == **code), "{target}");
            }
        }
        // A bundle has to serve all GPUs of its vendor, and none of another one.
        for (expected, status) in [("mp_40", section == ".mt_fatbin"), ("xcore1500", section == ".mc_fatbin")] {
            let all = format!("{},{expected}", targets.join(","));
            let outcome = tool(&["verify", "in", "--expect", &all], &[("in", &bundle)]);
            let text = String::from_utf8_lossy(&outcome.stdout).into_owned();
            let gap = text.lines().find(|line| line.contains(": bundle ") && line.ends_with("[expected]"));
            assert_eq!(gap.is_some_and(|gap| gap.contains(expected)), status, "{section}: {text}");
        }
    }
    let both = formats::binary(&[(HOST, b""), (maca_bitcode, bitcode), (maca, &xcore)], 8);
    for (args, count) in [(&["-t", "xcore1000"][..], 2), (&["-t", "xcore1000", "--exact"], 1), (&["-k", "maca"], 2)] {
        let outcome = tool(&[&["extract", "in"], args].concat(), &[("in", &both)]);
        assert_eq!((outcome.status, outcome.files.len()), (0, count + 1), "{args:?}: {}", outcome.stderr_text());
    }
    // Unknown data may follow, and sections of this name may have other data.
    let other = [&both[..], b"__FILE_END"].concat();
    assert_eq!(tool(&["verify", "in"], &[("in", &other)]).status, 1);
    let other = Elf::LIBRARY.write(&[Section::new(".topsfb", b"code")]);
    assert_eq!(tool(&["verify", "--allow-none", "in"], &[("in", &other)]).status, 0);
}

#[test]
fn text_bundles_of_enflame_are_read() {
    let text = formats::text("//", &[(HOST, b"host\n"), ("tops-dtu-enflame-tops", b"device\n")]);
    let outcome = tool(&["extract", "-k", "tops", "in", "-o", "-"], &[("in", &text)]);
    assert_eq!((outcome.status, &*outcome.stdout), (0, &b"device\n"[..]), "{}", outcome.stderr_text());
    assert_eq!(tool(&["verify", "in"], &[("in", &text)]).status, 0);
}

#[test]
fn offload_binaries_of_cray_are_read() {
    let images =
        offload::write(1, &[Image::new(2, 1, &[("triple", "amdgcn-amd-amdhsa"), ("arch", "gfx90a")], b"code of Cray")]);
    let object = Elf::OBJECT.write(&[Section::new(".cray.llvm.offloading", &images)]);
    let rows = told(&json_of(&tool(&["inspect", "--json", "in"], &[("in", &object)])));
    assert_eq!(rows.iter().map(|row| row.0.as_str()).collect::<Vec<_>>(), [":.cray.llvm.offloading"]);
}

const HCC: &str = "hcc-amdgcn--amdhsa-gfx803";

#[test]
fn bundles_of_hcc_are_read() {
    let elf = Elf { abi: 0, ..Elf::amdgpu(0x2a) }.write(&[]);
    let sram = Elf { abi: 1, ..Elf::amdgpu(0x22f) }.write(&[]);
    let ids = ["host-x86_64-unknown-linux", HCC, "hcc-amdgcn-amd-amdhsa--gfx906+sram-ecc"];
    let bundle = formats::binary(&[(ids[0], b""), (HCC, &elf), (ids[2], &sram)], 8);
    let library = Elf::LIBRARY.write(&[Section::new(".kernel", &[&bundle[..], &bundle].concat())]);
    let rows = told(&json_of(&tool(&["inspect", "--json", "in"], &[("in", &library)])));
    assert_eq!(rows.iter().map(|row| row.2.as_str()).collect::<Vec<_>>(), [ids, ids].concat());
    assert!(rows.iter().all(|row| row.0 == ":.kernel"));
    let outcome = tool(&["verify", "in"], &[("in", &library)]);
    assert_eq!((outcome.status, &*String::from_utf8_lossy(&outcome.stdout)), {
        (0, "in: 4 code objects in 2 bundles, nothing wrong\n")
    });
    let outcome = tool(&["extract", "--kind", "hcc", "-t", "gfx803", "in"], &[("in", &library)]);
    let files: Vec<_> = outcome.files.iter().filter(|(name, _)| *name != "in").collect();
    assert_eq!((outcome.status, files.len()), (0, 2), "{}", outcome.stderr_text());
    assert!(files.iter().all(|(_, data)| data[..] == elf[..]));
    // Sections of this name may have other data.
    for content in [&b"code"[..], &[0; 100], &[]] {
        let library = Elf::LIBRARY.write(&[Section::new(".kernel", content)]);
        let outcome = tool(&["verify", "--allow-none", "in"], &[("in", &library)]);
        assert_eq!(outcome.status, 0, "{}: {}", content.escape_ascii(), outcome.stderr_text());
    }
}

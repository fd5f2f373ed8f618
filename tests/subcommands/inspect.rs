//! Tests of `inspect`: its findings in files of every format, and its messages about broken files.

use std::fs;

use super::*;
use crate::machine::{loud, memory_directory};
use crate::properties::make::{
    BZIP2, DEFLATED, Elf, LZMA, STORED, Section, XZ, ZSTD, Zipped, archive, coff, pe, thin_archive, zip,
};
use crate::reference::formats;
use crate::reference::harness::Random;
use crate::reference::offload::{self, Image};

const NVIDIA: &str = "openmp-nvptx64-nvidia-cuda-unknown-sm_70";

/// A bundle with two code objects.
pub fn bundle() -> Vec<u8> {
    formats::binary(&[(HOST, b""), (GFX906, b"first"), (GFX90A, b"second")], 16)
}

fn in_bundle(place: &str, container: &str) -> Vec<Told> {
    let row = |id: &str, size| (place.to_owned(), container.to_owned(), id.to_owned(), size);
    vec![row(HOST, 0), row(GFX906, 5), row(GFX90A, 6)]
}

/// The images of an offload binary.
fn images() -> Vec<Image> {
    vec![
        Image::new(1, 4, &[("triple", "amdgcn-amd-amdhsa"), ("arch", "gfx906")], b"first"),
        Image::new(2, 1, &[("triple", "nvptx64-nvidia-cuda"), ("arch", "sm_70")], b"second!"),
    ]
}

fn of_images(place: &str) -> Vec<Told> {
    let row = |id: &str, size| (place.to_owned(), "offload binary".to_owned(), id.to_owned(), size);
    vec![row(GFX906, 5), row(NVIDIA, 7)]
}

/// The findings in a file, which must be valid.
fn found(name: &str, data: &[u8]) -> Vec<Told> {
    let outcome = tool(&["inspect", "--json", name], &[(name, data)]);
    assert_eq!((outcome.status, outcome.stderr_text().as_str()), (0, ""), "{name}");
    let document = json_of(&outcome);
    assert_eq!(document["problems"].as_array().unwrap().len(), 0);
    assert_eq!(document["files"][0]["size"].as_u64().unwrap(), u64::try_from(data.len()).unwrap());
    told(&document)
}

/// A name, the file, and the expected findings.
type Form = (String, Vec<u8>, Vec<Told>);

/// Files of all formats that hold the same bundle, or the same offload binaries, with the expected place.
fn forms() -> Vec<Form> {
    let bundle = bundle();
    let images = offload::write(1, &images());
    let mut forms = Vec::new();
    let mut add = |name: &str, data: Vec<u8>, found| forms.push((name.to_owned(), data, found));
    add("plain", bundle.clone(), in_bundle(":", "bundle"));
    for comment in ["//", "#", ";"] {
        let text = formats::text(comment, &[(HOST, b""), (GFX906, b"first"), (GFX90A, b"second")]);
        add(&format!("text {comment}"), text.clone(), in_bundle(":", "text bundle"));
        add(&format!("compressed text {comment}"), formats::compressed(2, 1, &text), in_bundle(":", "text bundle"));
    }
    // The offload binaries of several versions in a row.
    for zlib in [false, true] {
        let mixed = [
            offload::compressed(zlib, &self::images()),
            images.clone(),
            vec![0; 64],
            offload::write(2, &self::images()),
        ];
        add(&format!("mixed offload binaries, zlib {zlib}"), mixed.concat(), vec![of_images(":"); 3].concat());
    }
    for (name, elf) in [("object", Elf::OBJECT), ("library", Elf::LIBRARY), ("program", Elf { kind: 2, ..Elf::OBJECT })]
    {
        let renamed = [Section::new("anything", &images).offloading()];
        add(&format!("ELF {name} by section type"), elf.write(&renamed), of_images(":anything"));
    }
    let fat_id = |id: &str| format!("__CLANG_OFFLOAD_BUNDLE__{id}");
    let (host, first, second) = (fat_id(HOST), fat_id(GFX906), fat_id(GFX90A));
    let fat = [(".text", &b"code"[..]), (&host, b"\0"), (&first, b"first"), (&second, b"second")];
    let sections: Vec<Section<'_>> = fat.iter().map(|(name, content)| Section::new(name, content)).collect();
    let fat_rows = |size| {
        let mut rows = in_bundle(":", "fat object");
        rows[0].3 = size;
        rows
    };
    // The size of the host without these sections is checked by the tests of fat objects.
    let (elf, coff_fat) = (Elf::OBJECT.write(&sections), coff(&fat));
    add("fat ELF", elf, fat_rows(u64::MAX));
    add("fat COFF", coff_fat, fat_rows(u64::MAX));
    forms
}

#[test]
fn every_form_is_found_by_content() {
    let forms = forms();
    for (name, data, expected) in &forms {
        let mut rows = found(name.replace('/', "slash").as_str(), data);
        for (row, expected) in rows.iter_mut().zip(expected) {
            if expected.3 == u64::MAX {
                row.3 = u64::MAX;
            }
        }
        assert_eq!(&rows, expected, "{name}");
    }
    loud(&format!("inspect: {} forms of files", forms.len()));
}

#[test]
fn the_fixtures_are_found() {
    let embedded = |ids: &[&str]| ids.iter().map(|id| format!("hip-amdgcn-amd-amdhsa--{id}")).collect::<Vec<_>>();
    for (name, ids) in [
        ("bitcode/llvm22-one.bc", embedded(&["gfx906"])),
        ("bitcode/llvm22-debug.bc", embedded(&["gfx906", "gfx90a"])),
        ("bitcode/llvm22-thin.bc", embedded(&["gfx90a"])),
        ("bitcode/llvm22-wrapper.bc", embedded(&["gfx906"])),
        ("bitcode/llvm22-link.bc", embedded(&["gfx906", "gfx90a", "gfx906"])),
        ("bitcode/llvm22-cat.bc", embedded(&["gfx906", "gfx90a", "gfx906"])),
        ("offload/llvm22-embedded.o", embedded(&["gfx906"])),
    ] {
        let rows = found("in", &fixture(name));
        let found: Vec<String> = rows.iter().map(|row| row.2.clone()).collect();
        let ids: Vec<String> = ids.iter().map(|id| id.replace("hip-", "")).collect();
        let found: Vec<String> =
            found.iter().map(|id| id.split_once('-').map_or(String::new(), |(_, rest)| rest.to_owned())).collect();
        assert_eq!(found, ids, "{name}");
    }
    let folders = ["binary", "text", "compressed", "offload", "sequence"];
    for name in folders.into_iter().flat_map(fixtures) {
        assert!(!found("in", &fixture(&name)).is_empty(), "{name}");
    }
}

#[test]
fn bundles_in_bundles_are_found() {
    let inner = bundle();
    let of_bundle = formats::binary(&[(HOST, b""), (GFX906, &inner)], 8);
    let expected = |mut rows: Vec<Told>| {
        rows.extend(in_bundle(":", "bundle"));
        rows
    };
    let size = u64::try_from(inner.len()).unwrap();
    let row = |id: &str, size| (":".to_owned(), "bundle".to_owned(), id.to_owned(), size);
    let rows = expected(vec![row(HOST, 0), row(GFX906, size)]);
    assert_eq!(found("in", &of_bundle), rows);
    let images = [Image::new(1, 4, &[("triple", "amdgcn-amd-amdhsa"), ("arch", "gfx906")], &inner)];
    let mut rows = expected(vec![row(GFX906, size)]);
    rows[0].1 = "offload binary".to_owned();
    assert_eq!(found("in", &offload::write(2, &images)), rows);
    // In a compressed bundle that is fully inflated, offsets count from the start of the inner, inflated bundle.
    let packed = formats::compressed(3, 1, &of_bundle);
    let outcome = tool(&["inspect", "--json", "--inflate", "in"], &[("in", &packed)]);
    let document = json_of(&outcome);
    assert_eq!(told(&document).len(), 5);
    let objects = document["files"][0]["code_objects"].as_array().unwrap();
    let uri = objects[4]["uri"].as_str().unwrap();
    let at = inner.windows(6).position(|window| window == b"second").unwrap();
    assert!(uri.ends_with(&format!("#member=hip-amdgcn-amd-amdhsa--gfx906&offset={at}&size=6")), "{uri}");
    assert_eq!(objects[4]["bundle_offset"], 0);
    assert_eq!(objects[4]["offset"], Value::Null);
}

#[test]
fn containers_come_to_an_end() {
    let mut data = bundle();
    for depth in 0..40 {
        data = match depth % 3 {
            0 => archive(&[("inner", &data)]),
            1 => zip(&[Zipped::new("inner", DEFLATED, &data)]),
            _ => zip(&[Zipped::new("sound", ZSTD, &bundle()), Zipped::new("inner", STORED, &data)]),
        };
    }
    let outcome = tool(&["inspect", "--json", "in"], &[("in", &data)]);
    assert_eq!(outcome.status, 1);
    assert!(outcome.stderr_text().contains("nested more than 16 levels deep"), "{}", outcome.stderr_text());
    assert!(!told(&json_of(&outcome)).is_empty());
}

#[test]
fn members_of_thin_archives_are_files_beside_them() {
    let bundle = bundle();
    let thin = thin_archive(&[("one.o", bundle.len()), ("two.o", bundle.len()), ("gone.o", 7)]);
    let files: [(&str, &[u8]); 3] =
        [("lib.a", &thin), ("one.o", &bundle), ("two.o", &formats::compressed(2, 1, &bundle))];
    let outcome = tool(&["inspect", "--json", "lib.a"], &files);
    assert_eq!(outcome.status, 1);
    let said = outcome.stderr_text();
    assert!(said.contains("error: 'lib.a(gone.o)': 'gone.o': No such file or directory\n"), "{said}");
    let document = json_of(&outcome);
    assert_eq!(told(&document), [in_bundle("one.o:", "bundle"), in_bundle("two.o:", "bundle")].concat());
    let uri = document["files"][0]["code_objects"][1]["uri"].as_str().unwrap();
    assert!(uri.contains("/one.o#offset="), "{uri}");
    // Offsets in a broken member count from the start of that member, which the message names.
    let cut = &bundle[..bundle.len() - 1];
    let library = Elf::LIBRARY.write(&[Section::new(".hip_fatbin", cut)]);
    let thin = thin_archive(&[("cut.o", cut.len()), ("lib.so", library.len())]);
    let files: [(&str, &[u8]); 3] = [("lib.a", &thin), ("cut.o", cut), ("lib.so", &library)];
    let said = tool(&["inspect", "lib.a"], &files).stderr_text();
    assert!(said.contains("error: 'lib.a(cut.o)': 'cut.o': the code object of entry 2 "), "{said}");
    assert!(said.contains("error: 'lib.a(lib.so)(.hip_fatbin)': 'lib.so': the code object of entry 2 "), "{said}");
    let outcome = tool(&["inspect", "lib.a"], &[("lib.a", &thin_archive(&[("lib.a", 9)]))]);
    assert_eq!(outcome.status, 1);
    assert!(outcome.stderr_text().contains("this thin archive contains itself"), "{}", outcome.stderr_text());
}

#[test]
fn members_of_all_usual_methods_are_read_and_others_are_named() {
    let bundle = bundle();
    // More than one block of the decoders.
    let large = formats::binary(&[(GFX906, &Random::new(5).bytes(300_000)), (GFX90A, b"second")], 16);
    let objects = |data: &[u8], member: &str| {
        let outcome = tool(&["inspect", "--json", "in.whl"], &[("in.whl", data)]);
        assert_eq!(outcome.status, 0, "{}", outcome.stderr_text());
        told(&json_of(&outcome)).into_iter().filter(|row| row.0 == member).count()
    };
    let expected = objects(&zip(&[Zipped::new("a", STORED, &large)]), "a:");
    assert!(expected > 0);
    for method in [DEFLATED, BZIP2, LZMA, XZ, ZSTD] {
        let mut member = Zipped::new("a", method, &large);
        assert_eq!(objects(&zip(&[member.clone()]), "a:"), expected, "{method}");
        if method == LZMA {
            // A stream without the mark at its end, which takes the last bytes.
            member.stored.truncate(member.stored.len() - 3);
            assert_eq!(objects(&zip(&[member]), "a:"), expected, "without an end mark");
        }
    }
    let unread = |name, method| Zipped { method, ..Zipped::new(name, STORED, &bundle) };
    let data = zip(&[
        unread("b", 98),
        Zipped::new("a", BZIP2, &large),
        unread("c", 9),
        unread("d", 77),
        Zipped::new("z", DEFLATED, &large),
    ]);
    assert_eq!([objects(&data, "a:"), objects(&data, "z:")], [expected; 2]);
    let unread = json_of(&tool(&["inspect", "--json", "in.whl"], &[("in.whl", &data)]))["files"][0]["unread"].clone();
    let names: Vec<&str> = unread.as_array().unwrap().iter().map(|part| part["what"].as_str().unwrap()).collect();
    let expected = ["compressed with PPMd", "compressed with Deflate64", "compressed with an unknown method"];
    assert_eq!(names, expected.map(|how| format!("zip member {how}")));
    let verified = tool(&["verify", "in.whl"], &[("in.whl", &data)]);
    let printed = String::from_utf8(verified.stdout).unwrap();
    assert!(verified.status == 0 && printed.contains("zip member compressed with PPMd"), "{printed}");
}

#[test]
fn faults_of_a_zip_file_are_reported_and_the_rest_is_found() {
    let bundle = bundle();
    let sound = |method| Zipped::new("sound.hipfb", method, &bundle);
    let large = [&bundle[..], &vec![7; 100_000]].concat();
    let packed = Zipped::new("broken", DEFLATED, &large);
    let cut = |method| {
        let mut member = Zipped::new("broken", method, &large);
        member.stored.truncate(member.stored.len() / 2);
        member
    };
    for (broken, says) in [
        (Zipped { flags: 1, ..packed.clone() }, "the member is encrypted"),
        (Zipped { method: LZMA, ..packed.clone() }, "the properties of LZMA do not have 5 bytes"),
        (Zipped { method: BZIP2, ..packed.clone() }, "broken"),
        (Zipped { method: XZ, ..packed.clone() }, "broken"),
        (Zipped { crc: packed.crc ^ 1, ..packed.clone() }, "its checksum is wrong"),
        (Zipped { crc: 1, ..Zipped::new("broken", ZSTD, &large) }, "its checksum is wrong"),
        (Zipped { size: large.len() - 1, ..packed.clone() }, "it inflates to more than its size"),
        (Zipped { size: large.len() + 1, ..packed.clone() }, "it inflates to less than its size"),
        (Zipped { size: 1 << 31, ..packed.clone() }, "2147483648 bytes are recorded as deflated to"),
        (Zipped { method: ZSTD, ..packed.clone() }, "broken"),
        (Zipped { stored: vec![0xff; 40], ..packed.clone() }, "broken"),
        (cut(DEFLATED), "broken"),
        (cut(BZIP2), "broken"),
        (cut(LZMA), "broken"),
        (cut(XZ), "broken"),
        (cut(ZSTD), "broken"),
    ] {
        let data = zip(&[sound(STORED), broken.clone(), sound(DEFLATED)]);
        let outcome = tool(&["inspect", "--json", "in.whl"], &[("in.whl", &data)]);
        let said = outcome.stderr_text();
        assert_eq!(outcome.status, 1, "{says}");
        assert!(said.contains("error: 'in.whl(broken)': ") && said.contains(says), "{says}: {said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        let document = json_of(&outcome);
        assert_eq!(document["problems"].as_array().unwrap().len(), 1);
        let rows = told(&document).into_iter().filter(|row| row.0 == "sound.hipfb:").count();
        assert_eq!(rows, 6, "{says}: {document:#}");
    }
}

#[test]
fn zip_files_that_claim_more_than_they_have() {
    let bundle = bundle();
    let first = Zipped::new("first", DEFLATED, &bundle);
    let sound = |document: &Value| told(document).iter().filter(|row| row.0 == "first:").count() == 3;
    // Many members with the same bytes, as in a zip bomb.
    let same = |name: &str| Zipped { name: name.as_bytes().to_vec(), same_as: Some(0), ..first.clone() };
    let names: Vec<String> = (0..40).map(|number| format!("again {number}")).collect();
    let members: Vec<Zipped> = [first.clone()].into_iter().chain(names.iter().map(|name| same(name))).collect();
    let outcome = tool(&["inspect", "--json", "in"], &[("in", &zip(&members))]);
    assert_eq!(outcome.status, 1);
    assert!(outcome.stderr_text().contains("members overlap"), "{}", outcome.stderr_text());
    assert!(sound(&json_of(&outcome)));
    let data = zip(&[first.clone(), Zipped::new("last", DEFLATED, &bundle)]);
    let entry = |data: &[u8], nth: usize| {
        let starts: Vec<usize> = (0..data.len()).filter(|&at| data[at..].starts_with(b"PK\x01\x02")).collect();
        starts[nth]
    };
    // A member beyond the end of the file, a member that claims too many bytes, and a truncated directory. The first
    // member is found nevertheless.
    for (at, value) in [(42, 0x00ff_ffff_u32), (20, 0x00ff_ffff), (0, 0)] {
        let mut broken = data.clone();
        let start = entry(&broken, 1) + at;
        broken[start..start + 4].copy_from_slice(&value.to_le_bytes());
        let outcome = tool(&["inspect", "--json", "in"], &[("in", &broken)]);
        assert_eq!(outcome.status, 1, "{at}");
        assert!(outcome.stderr_text().contains("zip file broken at offset"), "{}", outcome.stderr_text());
        assert!(sound(&json_of(&outcome)), "{at}: {}", outcome.stderr_text());
    }
    for cut in [data.len() - 1, data.len() - 22, 40] {
        let outcome = tool(&["inspect", "in"], &[("in", &data[..cut])]);
        assert_eq!(outcome.status, 1, "{cut}");
        assert!(outcome.stderr_text().contains("zip file broken"), "{}", outcome.stderr_text());
    }
}

#[test]
fn a_file_without_its_end_is_recognised_and_a_deep_search_finds_what_is_left() {
    let library = Elf::LIBRARY.write(&[Section::new(".hip_fatbin", &bundle())]);
    let table = u64::from_le_bytes(library[0x28..0x30].try_into().unwrap());
    let stored = zip(&[Zipped::new("a", STORED, &bundle()), Zipped::new("b", DEFLATED, &bundle())]);
    for (data, cut, text) in [
        (&library, library.len() - 1, format!("its section table is at {table}: cut short? --deep can")),
        (&library, usize::try_from(table).unwrap(), format!("its section table is at {table}: cut short?")),
        (&stored, stored.len() - 22, "without the directory of its members: cut short? --deep can".to_owned()),
    ] {
        let run = |args: &[&str]| tool(&[&["inspect", "--json", "in"], args].concat(), &[("in", &data[..cut])]);
        let outcome = run(&[]);
        let said = outcome.stderr_text();
        assert!(outcome.status == 1 && said.contains(&text) && said.contains(&format!("ends at {cut},")), "{said}");
        assert!(json_of(&outcome)["files"][0]["code_objects"].as_array().unwrap().is_empty());
        let outcome = run(&["--deep"]);
        assert_eq!(outcome.status, 1);
        assert!(!json_of(&outcome)["files"][0]["code_objects"].as_array().unwrap().is_empty(), "{text}");
    }
}

#[test]
fn files_without_device_code_are_not_errors() {
    let mut random = Random::new(7);
    let mut files: Vec<Vec<u8>> = vec![
        b"".to_vec(),
        b"\n".to_vec(),
        b"// a comment\nint main() {}\n".to_vec(),
        b"# __CLANG_OFFLOAD".to_vec(),
        b"PK".to_vec(),
        b"MZ and a text".to_vec(),
        b"BC is a province".to_vec(),
        b"CCO".to_vec(),
        vec![0; 10_000],
        Elf::OBJECT.write(&[Section::new(".text", b"code")]),
        coff(&[(".text", b"code")]),
        pe(&[(".text", b"code")]),
        archive(&[]),
        archive(&[("a.txt", b"text")]),
        zip(&[]),
        zip(&[Zipped::new("a.txt", DEFLATED, b"text")]),
        fs::read("/bin/sh").unwrap(),
    ];
    files.extend((0..200).map(|_| {
        let len = random.below(5000);
        random.bytes(len)
    }));
    // Data that begins like a COFF object.
    files.extend((0..50).map(|_| [&[0x64, 0x86][..], &random.bytes(300)].concat()));
    let names: Vec<String> = (0..files.len()).map(|number| format!("{number:03}")).collect();
    let given: Vec<(&str, &[u8])> = names.iter().map(String::as_str).zip(files.iter().map(Vec::as_slice)).collect();
    let args: Vec<&str> = ["inspect", "--json"].into_iter().chain(names.iter().map(String::as_str)).collect();
    let outcome = tool(&args, &given);
    assert_eq!((outcome.status, outcome.stderr_text().as_str()), (0, ""));
    let document = json_of(&outcome);
    assert_eq!((told(&document).len(), document["files"].as_array().unwrap().len()), (0, files.len()));
    let outcome = tool(&["inspect", "000", "001"], &given[..2]);
    assert_eq!(String::from_utf8(outcome.stdout).unwrap(), "000: no device code\n001: no device code\n");
}

#[test]
fn objects_whose_device_code_is_elsewhere() {
    // In an object, the section may only mark the place of a symbol. `inspect` ignores contents that are not a bundle.
    for content in [&[0; 8][..], b"", b"no bundle"] {
        let object = Elf::OBJECT.write(&[Section::new(".hip_fatbin", content), Section::new(".hip_fatbin", &bundle())]);
        assert_eq!(found("in", &object), in_bundle(":.hip_fatbin", "bundle"));
    }
}

#[test]
fn broken_things_are_told_with_their_place_and_the_rest_is_found() {
    let sound = bundle();
    let mut cut = sound.clone();
    cut.truncate(cut.len() - 1);
    let so = |content: &[u8]| Elf::LIBRARY.write(&[Section::new(".hip_fatbin", content)]);
    let data =
        archive(&[("cut.o", &so(&cut)), ("elf.o", b"\x7fELF\x02\x01\x01 and no more"), ("sound.o", &so(&sound))]);
    let outcome = tool(&["inspect", "--json", "lib.a"], &[("lib.a", &data)]);
    assert_eq!(outcome.status, 1);
    let document = json_of(&outcome);
    assert_eq!(told(&document), in_bundle("sound.o:.hip_fatbin", "bundle"));
    let said = outcome.stderr_text();
    assert!(said.contains("error: 'lib.a(cut.o)(.hip_fatbin)': the code object of entry 2 "), "{said}");
    assert!(said.contains("error: 'lib.a(elf.o)': "), "{said}");
    // Everything is reported once.
    assert_eq!(said.matches("lib.a").count(), 2, "{said}");
    // The document has the same problems, and no others.
    let problems: Vec<&str> =
        document["problems"].as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect();
    assert_eq!(problems.len(), 2);
    assert!(problems.iter().all(|problem| said.contains(problem)), "{problems:?}\n{said}");
}

#[test]
fn a_broken_compressed_bundle_does_not_hide_those_behind_it() {
    let sound = bundle();
    let mut broken = formats::compressed(2, 1, &sound);
    let len = broken.len();
    // Damages the stream, not the header.
    broken[24..len - 4].fill(0xff);
    let data = [formats::compressed(2, 1, &sound), broken, sound].concat();
    let outcome = tool(&["inspect", "--json", "in"], &[("in", &data)]);
    assert_eq!(outcome.status, 1);
    let document = json_of(&outcome);
    assert_eq!(told(&document), vec![in_bundle(":", "bundle"); 2].concat());
    assert_eq!(document["files"][0]["code_objects"][3]["bundle"], 2);
    assert_eq!(document["problems"].as_array().unwrap().len(), 1, "{document:#}");
}

#[test]
fn directories_links_and_what_cannot_be_opened() {
    let dir = memory_directory();
    let at = |name: &str| dir.path().join(name);
    fs::create_dir_all(at("d/sub/deep")).unwrap();
    for name in ["d/b", "d/a", "d/sub/c", "d/sub/deep/e"] {
        fs::write(at(name), bundle()).unwrap();
    }
    fs::write(at("d/text"), "text").unwrap();
    for (target, link) in [("d/a", "link"), ("d", "dir-link"), ("nothing", "dangling")] {
        std::os::unix::fs::symlink(at(target), at(link)).unwrap();
    }
    std::os::unix::fs::symlink(at("d"), at("d/sub/loop")).unwrap();
    std::os::unix::fs::symlink(at("d/a"), at("d/file-link")).unwrap();
    let paths = |args: &[&str]| {
        let output = tool_in(dir.path(), &[&["inspect", "--json"], args].concat());
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        schema::check("inspect", &document);
        let files = document["files"].as_array().unwrap().iter();
        let names: Vec<String> = files
            .filter(|file| !file["code_objects"].as_array().unwrap().is_empty())
            .map(|file| file["path"].as_str().unwrap().to_owned())
            .collect();
        (output.status.code().unwrap(), names.join(" "), document["problems"].as_array().unwrap().len())
    };
    assert_eq!(paths(&["d"]), (0, "d/a d/b".to_owned(), 0));
    assert_eq!(paths(&["-r", "d"]), (0, "d/a d/b d/sub/c d/sub/deep/e".to_owned(), 0));
    assert_eq!(paths(&["--recursive", "d/sub", "d/a"]), (0, "d/sub/c d/sub/deep/e d/a".to_owned(), 0));
    assert_eq!(paths(&["link", "dir-link"]), (0, "link dir-link/a dir-link/b".to_owned(), 0));
    assert_eq!(paths(&["dangling", "d/a", "nowhere"]), (1, "d/a".to_owned(), 2));
    let (status, out, said) = text(&tool_in(dir.path(), &["inspect", "nowhere"]));
    assert_eq!((status, out.as_str()), (1, ""));
    assert!(said.contains("error: 'nowhere': No such file or directory"), "{said}");
    // In a directory, files without device code are not reported.
    let (_, out, _) = text(&tool_in(dir.path(), &["inspect", "d"]));
    assert!(!out.contains("text") && out.starts_with("Total: ") && out.contains(" in 2 files, "), "{out}");
    // Standard input.
    let output = must(shell("cat d/a | \"$TOOL\" inspect --json -").current_dir(dir.path()));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(told(&document).len(), 3);
}

#[test]
fn hostile_ids_reach_no_terminal() {
    let long = "x".repeat(10_000);
    let ids = ["\x1b[2J", "new\nline", "../../x", "", &long, "hip-amdgcn-amd-amdhsa--gfx906\0x"];
    let entries: Vec<(&str, &[u8])> = ids.iter().map(|id| (*id, &b"x"[..])).collect();
    let mut data = formats::binary(&entries, 1);
    let at = data.windows(7).position(|window| window == b"../../x").unwrap();
    data[at + 6] = 0xff;
    for args in [&["inspect", "in"][..], &["inspect", "--each", "in"], &["inspect", "--svg=picture", "in"]] {
        let outcome = tool(args, &[("in", &data)]);
        assert_eq!(outcome.status, 0, "{}", outcome.stderr_text());
        let out = String::from_utf8(outcome.stdout).unwrap();
        assert!(out.chars().all(|c| c == '\n' || !c.is_control()), "{out}");
        assert!(out.contains("../../\\xff") && out.contains("new\\nline"), "{out}");
    }
    let rows = told(&json_of(&tool(&["inspect", "--json", "in"], &[("in", &data)])));
    assert_eq!(rows.len(), 6);
    assert_eq!(rows[0].2, "\\x1b[2J");
}

#[test]
fn bytes_that_are_no_utf_8_in_names_are_replaced() {
    use std::os::unix::ffi::OsStrExt as _;
    let dir = memory_directory();
    fs::write(dir.path().join(std::ffi::OsStr::from_bytes(b"a\xff b#")), bundle()).unwrap();
    let (status, out, said) = text(&tool_in(dir.path(), &["inspect", "--json", "."]));
    assert_eq!((status, said.as_str()), (0, ""));
    let document: Value = serde_json::from_str(&out).unwrap();
    schema::check("inspect", &document);
    assert_eq!(document["files"][0]["path"], "./a\u{fffd} b#");
    let uri = document["files"][0]["code_objects"][1]["uri"].as_str().unwrap();
    assert!(uri.contains("/a%FF%20b%23#offset="), "{uri}");
}

#[test]
fn paths_reach_no_terminal_as_they_are() {
    let name = "a\x1b[2J\u{9b}2J\x7f\u{202e}\nb";
    let broken = [&bundle()[..], &bundle()[..60]].concat();
    for args in [&["inspect"][..], &["inspect", "--json"], &["verify"], &["verify", "--json"]] {
        let outcome = tool(&[args, &[name]].concat(), &[(name, &broken)]);
        assert_eq!(outcome.status, 1);
        let (out, said) = (String::from_utf8(outcome.stdout.clone()).unwrap(), outcome.stderr_text());
        assert!(!out.is_empty());
        for text in [&out, &said] {
            let obeyed = |c: char| c != '\n' && c.is_control() || c == '\u{202e}';
            assert!(!text.contains(obeyed), "{args:?}: {}", text.escape_debug());
        }
        if args.contains(&"--json") {
            let document: Value = serde_json::from_slice(&outcome.stdout).unwrap();
            schema::check(args[0], &document);
            assert_eq!(document["files"][0]["path"], name);
        }
    }
}

#[test]
fn devices_without_an_end_are_refused_and_others_are_read() {
    let dir = memory_directory();
    fs::write(dir.path().join("in"), bundle()).unwrap();
    let all = [&["inspect"][..], &["extract", "-o", "new"], &["kernels"], &["verify"], &["recompress", "-o", "new"]];
    for args in all.map(|args| args.join(" ")) {
        for (input, name) in [("/dev/zero", "/dev/zero"), ("/dev/full", "/dev/full"), ("- < /dev/zero", "-")] {
            // The limit stops endless reading.
            let line = format!("ulimit -f 65536; \"$TOOL\" {args} {input}");
            let run = shell(&line).current_dir(dir.path()).output().unwrap();
            let (status, out, said) = text(&run);
            assert_eq!(status, 1, "{args} {input}: {out}");
            assert!(said.contains(&format!("error: '{name}': is a device and may be endless")), "{said}");
        }
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    for input in ["inspect /dev/null", "verify --allow-none /dev/null", "inspect - < /dev/null"] {
        let run = shell(&format!("\"$TOOL\" {input}")).output().unwrap();
        assert_eq!(text(&run).0, 0, "{input}");
    }
    for input in
        ["cat in | T inspect /dev/stdin", "T inspect /dev/stdin < in", "cat in | T inspect -", "T inspect - < in"]
    {
        let run = must(shell(&input.replace('T', "\"$TOOL\"")).current_dir(dir.path()));
        assert!(String::from_utf8(run.stdout).unwrap().contains(GFX906), "{input}");
    }
}

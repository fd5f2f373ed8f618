use std::fs;
use std::io::Cursor;

use offload_bundle::container::compressed;
use offload_bundle::container::offload_binary::{self, ImageInfo, NewImage, Version};
use offload_bundle::container::sequence::Inflate;
use offload_bundle::container::stream::{Compression, Method};
use offload_bundle::io::{Input, Piece, write_to};
use offload_bundle::job::{Fault, Replace, Verify, VerifyRule};
use offload_bundle::scan::{ContentKind, Format, Uri};

use super::choices::{Choices, digest};
use super::fatbins::{self, Code, LZ4, ZLIB, ZSTD, concatenated, entry, fatbin};
use super::formats;
use super::images::{ELF_X86_64, elf};
use super::make::archive;
use super::room::Room;
use super::said;
use super::search::{LIMITS, leads_elsewhere, search_with};
use super::sources::Sources;
use super::wheels;

/// The maximum size of a file and of all its code objects, in bytes.
const SIZE_MAX: usize = 4 << 20;

/// The IDs of the entries of bundles.
const IDS: [&str; 4] = [
    "host-x86_64-unknown-linux-gnu-",
    "hip-amdgcn-amd-amdhsa--gfx906",
    "hipv4-amdgcn-amd-amdhsa--gfx90a:xnack+",
    "hip-amdgcn-amd-amdhsa--gfx906",
];

/// The rules that must have no new fault. The others are about the content of code objects.
const RULES: [VerifyRule; 4] = [VerifyRule::Readable, VerifyRule::Trailing, VerifyRule::Overlap, VerifyRule::EntryId];

/// In any bytes, or in bundles, fatbins and offload binaries of them, alone or in a library, an archive or a zip file,
/// a code object is replaced by new content. It then has exactly that content; after an error, all files are unchanged.
/// The IDs of all code objects, their order and the bytes of all others are the same, and there is no new fault.
///
/// Unless forced, the new content is of the same kind as the old one. After the old content is put back, all code
/// objects are the same as at the start. Exceptions: compressed code has no room any more, the old content has faults,
/// or it does not match the fields of its fatbin.
pub fn replace(data: &[u8]) {
    let digests = [b"1", b"2", b"3"].map(|salt| digest(&[data, salt].concat())).concat();
    let mut choices = Choices::new(&digests);
    let held = held(data, &mut choices);
    let file = around(held, &mut choices);
    if file.len() > SIZE_MAX || leads_elsewhere(&Sources::nested(&file)) {
        return;
    }
    let room = Room::with(&file);
    let Some(before) = objects(&room, "in") else { return };
    let named: Vec<usize> = (0..before.len()).filter(|at| before[*at].uri.is_some()).collect();
    if named.is_empty() {
        return;
    }
    let index = choices.pick(&named);
    let new = content(&before[index].content, data, &mut choices);
    let output = choices.pick(&["in", "out"]);
    let force = choices.below(3) > 0;
    let replaced = run(&room, &before[index], &new, output, force);
    room.holds_only(&["in", "new", if replaced.is_ok() { output } else { "in" }]);
    if replaced.is_err() || output == "out" {
        assert!(fs::read(room.input()).unwrap() == file, "the file has changed: {replaced:?}");
    }
    if replaced.is_err() {
        return;
    }
    let [old_kind, new_kind] = [&before[index].content, &new].map(|content| ContentKind::identify(content));
    assert!(force || before[index].is_recorded || old_kind == new_kind, "{old_kind:?} by {new_kind:?}");
    let after = objects(&room, output).unwrap();
    assert_eq!(after.len(), before.len(), "other code objects");
    for (at, (one, other)) in before.iter().zip(&after).enumerate() {
        let expected = if at == index { &new } else { &one.content };
        assert!(other.content == *expected, "the code object {at}: {replaced:?}");
        // The ID of a code object without a bundle is the one that it records.
        assert!(one.id == other.id || (at == index && other.is_bare), "the ID {at}");
    }
    room.write("old", &file);
    let [before_faults, after_faults] = ["old", output].map(|name| faults(&room, name));
    compare(&before_faults, &after_faults);
    // Several empty code objects may be at one offset.
    let has_one_name = after.iter().filter(|other| other.uri == after[index].uri).count() == 1;
    if after[index].uri.is_none() || !has_one_name {
        return;
    }
    match run(&room, &after[index], &before[index].content, output, true) {
        Err(error) => {
            let count = |faults: &[Fault]| faults.iter().filter(|fault| RULES.contains(&fault.rule)).count();
            let had_faults = count(&before_faults) > count(&after_faults) && error.contains("another fault");
            let is_known =
                ["needs", "room", "a cubin has to be", "PTX must not"].iter().any(|text| error.contains(text));
            assert!(is_known || had_faults, "not put back: {error}");
        }
        Ok(()) => {
            let again = objects(&room, output).unwrap();
            let is_same = |(one, other): (&Object, &Object)| one.id == other.id && one.content == other.content;
            assert!(again.len() == before.len() && before.iter().zip(&again).all(is_same), "not what it was");
        }
    }
}

/// A code object.
struct Object {
    id: Vec<u8>,
    /// `None` if the code object cannot be named.
    uri: Option<String>,
    content: Vec<u8>,
    is_bare: bool,
    /// Whether the container records the kind of the code object.
    is_recorded: bool,
}

/// Returns the readable code objects of a file, or `None` if they are too large.
fn objects(room: &Room, name: &str) -> Option<Vec<Object>> {
    let (mut objects, mut left) = (Vec::new(), SIZE_MAX);
    let input = Input::read(&room.path(name)).unwrap();
    search_with(&input, Inflate::Whole, false, &mut |found| {
        for code_object in found.code_objects() {
            left = left.saturating_sub(usize::try_from(code_object.size()).unwrap());
            let bytes = if left > 0 { code_object.bytes().ok() } else { None };
            objects.push(Object {
                id: code_object.id().to_vec(),
                uri: code_object.uri().unwrap().filter(|_| bytes.is_some()).map(|uri| uri.to_string()),
                content: bytes.map(|bytes| bytes.into_owned()).unwrap_or_default(),
                is_bare: found.format == Format::CodeObject,
                is_recorded: code_object.cuda().is_some(),
            });
        }
    });
    (left > 0).then_some(objects)
}

/// Replaces a code object; by content of any kind, if forced.
fn run(room: &Room, object: &Object, new: &[u8], output: &str, force: bool) -> Result<(), String> {
    room.write("new", new);
    let uri = Uri::parse(object.uri.as_ref().unwrap().as_ref()).unwrap();
    let mut job = Replace::new(uri, room.path("new"));
    (job.output, job.limits, job.force) = (room.path(output), LIMITS, force);
    let replaced = job.run(&mut |_| {}).map_err(|error| said(&error))?;
    assert_eq!(replaced.after, u64::try_from(new.len()).unwrap());
    Ok(())
}

fn faults(room: &Room, name: &str) -> Vec<Fault> {
    let mut verify = Verify::default();
    verify.scan.limits = LIMITS;
    verify.run(&room.path(name)).unwrap().faults
}

/// Checks that no rule has more faults than before.
fn compare(before: &[Fault], after: &[Fault]) {
    for rule in RULES {
        let count = |faults: &[Fault]| faults.iter().filter(|fault| fault.rule == rule).count();
        assert!(count(after) <= count(before), "new faults: {after:?}");
    }
}

/// A new content.
fn content(old: &[u8], data: &[u8], choices: &mut Choices<'_>) -> Vec<u8> {
    let some = &data[..data.len().min(choices.below(200))];
    match choices.below(12) {
        0 => Vec::new(),
        1 => old[..old.len() / 2].to_vec(),
        2 => old.iter().map(|byte| !byte).collect(),
        3 => [old, some, b"."].concat(),
        4 => old.repeat(3),
        5 => data.to_vec(),
        6 => fatbins::cubin(choices.byte(), choices.below(40) * 100),
        7 => Code::ptx(choices.pick(&[75, 90])).extracted().repeat(choices.below(3) + 1),
        8 => choices.pick(&[formats::MAGIC, b"CCOB", b"\x7fELF", fatbins::MAGIC, &offload_binary::MAGIC]).to_vec(),
        9 => [fatbin(&[entry(&Code::cubin(75, 5))]), some.to_vec()].concat(),
        10 => formats::marker("#", "START", IDS[1].as_bytes()),
        _ => vec![choices.byte(); choices.below(256) * 50],
    }
}

/// Bundles of some kind that hold the data; the data itself may be some.
fn held(data: &[u8], choices: &mut Choices<'_>) -> Vec<u8> {
    let parts: Vec<&[u8]> = data.chunks(data.len() / 3 + 1).collect();
    let bundle = |align| {
        let entries: Vec<_> =
            IDS.iter().zip(&parts).map(|(id, part)| (id.as_bytes().to_vec(), part.to_vec())).collect();
        formats::binary(&entries, align)
    };
    let compressed = || {
        let mut out = Cursor::new(Vec::new());
        compressed::write(&[Piece::Bytes(bundle(8))], &Compression::with_method(Method::Zstd), None, &mut out).unwrap();
        out.into_inner()
    };
    let offload = |version, count: usize| {
        let strings =
            |arch: &str| vec![(b"triple".to_vec(), b"amdgcn-amd-amdhsa".to_vec()), (b"arch".to_vec(), arch.into())];
        let info = |arch| ImageInfo { strings: strings(arch), kind_number: 4, ..ImageInfo::default() };
        let images = parts.iter().zip(["gfx906", "gfx90a", "6"]).take(count);
        let images: Vec<_> =
            images.map(|(part, arch)| NewImage { info: info(arch), content: (*part).into() }).collect();
        let mut out = Vec::new();
        write_to(&offload_binary::plan(version, &images).unwrap(), &mut out).unwrap();
        out
    };
    match choices.below(8) {
        0 | 1 => data.to_vec(),
        2 => [bundle(choices.pick(&[1, 8, 64])), vec![0; choices.below(300)], bundle(8)].concat(),
        3 => compressed(),
        4 => [compressed(), vec![0; choices.below(300)], bundle(64), vec![0; choices.below(100)]].concat(),
        5 => {
            let codes = [Code::ptx(75), Code::cubin(80, choices.below(99)), Code::cubin(100, 700).with_source("a.cu")];
            let of = |flags: u64| codes.clone().map(|code| entry(&code.with_flags(flags)));
            let flags = choices.pick(&[0, LZ4, ZSTD, ZLIB]);
            let mut entries = of(flags).to_vec();
            entries.extend((flags > 0).then(|| concatenated(flags, &codes)));
            entries.truncate(1 + choices.below(4));
            [fatbin(&entries), vec![0; choices.below(9) * 8], fatbins::sample()].concat()
        }
        6 => [offload(Version::V1, choices.below(4)), offload(Version::V2, 3)].concat(),
        _ => [offload(Version::V3, choices.below(4)), offload(Version::V1, 1)].concat(),
    }
}

/// A file with these bundles.
fn around(held: Vec<u8>, choices: &mut Choices<'_>) -> Vec<u8> {
    let section = match held.first() {
        Some(b'P') => ".nv_fatbin",
        Some(0x10) => ".llvm.offloading",
        _ => ".hip_fatbin",
    };
    let library = |room: usize| {
        let content = [held.clone(), vec![0; room]].concat();
        elf(ELF_X86_64, &[(section.to_owned(), 0x1000, content), (".data".to_owned(), 0x9000, b"data".to_vec())])
    };
    match choices.below(8) {
        0 | 1 => held,
        2 => library(0),
        3 => library(choices.below(256) * 8),
        4 => archive(&[("a.o", &library(choices.below(9) * 8)), ("b", &held)]),
        5 => wheels::write(&[("a", held)], choices.pick(&[0, 8]), choices.below(2) == 1),
        6 => wheels::write(&[("a", library(64)), ("b", held)], choices.pick(&[0, 8]), false),
        _ => wheels::write(&[("a", archive(&[("b", &held)])), ("a", held)], choices.pick(&[0, 8]), false),
    }
}

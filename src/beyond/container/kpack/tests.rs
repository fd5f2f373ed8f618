use rmp::encode::{write_array_len, write_map_len, write_str, write_uint};

use super::*;

/// A value of MessagePack to write.
#[derive(Clone)]
enum Pack {
    Number(u64),
    Text(&'static str),
    Array(Vec<Pack>),
    Map(Vec<(&'static str, Pack)>),
}

use Pack::{Array, Map, Number, Text};

impl Pack {
    fn write(&self, to: &mut Vec<u8>) {
        match self {
            Number(number) => drop(write_uint(to, *number).unwrap()),
            Text(text) => write_str(to, text).unwrap(),
            Array(values) => {
                write_array_len(to, values.len().try_into().unwrap()).unwrap();
                for value in values {
                    value.write(to);
                }
            }
            Map(values) => {
                write_map_len(to, values.len().try_into().unwrap()).unwrap();
                for (key, value) in values {
                    write_str(to, key).unwrap();
                    value.write(to);
                }
            }
        }
    }
}

/// The bytes between the header and the table of contents: more than the table has, so that the archive cannot hold
/// them twice.
const STORED: usize = 1000;
const TOC: u64 = HEADER_LEN + 1000;

fn header(magic: &[u8], version: u32, toc_offset: u64) -> Vec<u8> {
    [magic, &version.to_le_bytes(), &toc_offset.to_le_bytes()].concat()
}

fn archive(stored: &[u8], toc: &Pack) -> Vec<u8> {
    let mut data = header(&MAGIC, VERSION, HEADER_LEN + len_u64(stored));
    data.extend(stored);
    toc.write(&mut data);
    data
}

fn blob(offset: u64, size: u64) -> Pack {
    Map(vec![("offset", Number(offset)), ("size", Number(size))])
}

fn entry(ordinal: u64) -> Pack {
    Map(vec![("ordinal", Number(ordinal))])
}

fn sized_entry(ordinal: u64, size: u64) -> Pack {
    Map(vec![("ordinal", Number(ordinal)), ("original_size", Number(size))])
}

/// Makes a table of contents with these fields, one target ID, and the code objects of one binary.
fn toc(mut fields: Vec<(&'static str, Pack)>, entries: &[(&'static str, Pack)]) -> Pack {
    fields.push(("gfx_arches", Array(vec![Text("gfx906")])));
    fields.push(("toc", Map(vec![("lib#0", Map(entries.to_vec()))])));
    Map(fields)
}

/// Reads an archive at an offset in a file, so that errors must count from the start of the file.
fn read(data: &[u8]) -> Result<KpackArchive> {
    const BEFORE: usize = 1000;
    let file = [&[0; BEFORE], data].concat();
    let archive = Slice::from(&file).tail(len_u64(&file[..BEFORE])).unwrap();
    KpackArchive::read(archive)
}

fn texts(faults: &[Malformed]) -> Vec<String> {
    faults.iter().map(ToString::to_string).collect()
}

/// Returns an archive with its faults as one text.
fn fault_of(data: &[u8]) -> (KpackArchive, String) {
    let archive = read(data).unwrap();
    let texts = texts(&archive.faults);
    (archive, texts.join("; "))
}

fn ranges(archive: &KpackArchive) -> Vec<Option<Range<u64>>> {
    let mut ranges = Vec::new();
    for entry in archive.binaries.iter().flat_map(|binary| &binary.entries) {
        ranges.push(match &entry.packed {
            Some(packed) => Some(packed.stored.clone()),
            None => entry.range().cloned(),
        });
    }
    ranges
}

/// Whether `said` contains the expected text, or is empty too.
fn says(said: &str, expected: &str) -> bool {
    if expected.is_empty() { said.is_empty() } else { said.contains(expected) }
}

#[test]
fn the_header_is_checked() {
    let table = toc(vec![("blobs", Array(vec![]))], &[]);
    let len = len_u64(&archive(&[], &table));
    let cases: &[(&[u8; 4], u32, u64, &str)] = &[
        (b"KPAK", 1, 16, ""),
        (b"KPAL", 1, 16, "the file at offset 1000 is not a kpack archive"),
        (b"KPAK", 0, 16, "offset 1004"),
        (b"KPAK", 2, 16, "offset 1004"),
        (b"KPAK", 1, 15, "offset 1008"),
        (b"KPAK", 1, len, "offset 1008"),
        (b"KPAK", 1, u64::MAX, "offset 1008"),
        (b"KPAK", 1, len - 1, &format!("offset {} ", 1000 + len - 1)),
    ];
    for (magic, version, at, expected) in cases {
        let mut data = header(*magic, *version, *at);
        table.write(&mut data);
        let said = match read(&data) {
            Ok(archive) => texts(&archive.faults).join("; "),
            Err(error) => error.to_string(),
        };
        assert!(says(&said, expected), "{expected}: {said}");
    }
    let whole = header(b"KPAK", 1, 16);
    for len in 0..whole.len() {
        assert!(read(&whole[..len]).unwrap_err().to_string().contains("but the data ends"), "{len}");
    }
}

#[test]
fn target_ids_are_counted() {
    for (count, fault) in [(0, "names no target IDs"), (1, ""), (2000, "")] {
        let table = Map(vec![("gfx_arches", Array(vec![Text("gfx906"); count])), ("toc", Map(vec![]))]);
        let (archive, said) = fault_of(&archive(&[], &table));
        assert_eq!(archive.targets.len(), count);
        assert!(says(&said, fault), "{said}");
        assert_eq!(archive.claims().len(), count.min(1));
    }
}

#[test]
fn plain_code_objects_are_between_header_and_table() {
    for (offset, size, is_inside) in [
        (HEADER_LEN, 10, true),
        (HEADER_LEN - 1, 10, false),
        (0, 10, false),
        (TOC - 10, 10, true),
        (TOC - 10, 11, false),
        (TOC, 0, true),
        (TOC + 1, 0, false),
        (u64::MAX, 1, false),
    ] {
        let table = toc(vec![("blobs", Array(vec![blob(offset, size)]))], &[("gfx906", entry(0))]);
        let (archive, said) = fault_of(&archive(&[0; STORED], &table));
        let expected = if is_inside { Some(offset..offset + size) } else { None };
        assert_eq!(ranges(&archive), [expected], "{offset}, {size}: {said}");
        assert_eq!(said.is_empty(), is_inside, "{offset}, {size}: {said}");
        assert_eq!(said.contains("has 1 ranges in 'blobs' outside"), !is_inside, "{said}");
    }
}

#[test]
fn code_objects_have_an_ordinal_and_their_size_and_share_no_bytes() {
    let whole = blob(HEADER_LEN, 1000);
    for (blobs, entries, expected) in [
        (vec![whole.clone()], vec![("gfx906", entry(0))], ""),
        (vec![whole.clone()], vec![("gfx906", sized_entry(0, 1000))], ""),
        (vec![whole.clone()], vec![("gfx906", sized_entry(0, 999))], "its size is 999, but it has 1000 bytes"),
        (vec![whole.clone()], vec![("gfx906", entry(1))], "its ordinal is 1, which the archive does not have"),
        (vec![whole.clone()], vec![("gfx906", Map(vec![]))], "it has no ordinal"),
        (vec![whole.clone()], vec![("gfx906", Number(0))], "it is not a map"),
        (vec![whole; 2], vec![("gfx906", entry(0)), ("gfx906", entry(1))], "they share bytes"),
    ] {
        let (archive, said) = fault_of(&archive(&[0; STORED], &toc(vec![("blobs", Array(blobs))], &entries)));
        assert!(says(&said, expected), "{expected}: {said}");
        let entry = &archive.binaries[0].entries[0];
        assert_eq!((entry.id(), target_of(entry)), (&b"hipv4-amdgcn-amd-amdhsa--gfx906"[..], &b"gfx906"[..]));
    }
    assert_eq!(entry_id(SPIR_V), b"hipv4-spirv64-amd-amdhsa--amdgcnspirv");
}

#[test]
fn frames_end_after_their_recorded_length() {
    /// Makes frames with these recorded lengths, of 3 bytes each in the file.
    fn frames(count: u32, lens: &[u32]) -> Vec<u8> {
        let mut frames = count.to_le_bytes().to_vec();
        for len in lens {
            frames.extend([&len.to_le_bytes()[..], &[7; 3]].concat());
        }
        frames
    }
    let first = HEADER_LEN + 8;
    for (stored, expected, fault) in [
        (frames(2, &[3, 3]), vec![Some(first..first + 3), Some(first + 7..first + 10)], ""),
        (frames(1, &[3, 3]), vec![Some(first..first + 3), None], "its ordinal is 1"),
        (frames(2, &[3, 4]), vec![Some(first..first + 3), None], "zstd frame 1 needs"),
        (frames(2, &[3]), vec![Some(first..first + 3), None], "the length of zstd frame 1 needs"),
        (frames(100_000, &[3, 3]), vec![Some(first..first + 3), Some(first + 7..first + 10)], "frame 2 needs"),
        (frames(100_001, &[3, 3]), vec![None, None], "offset 1016"),
        (vec![1, 0, 0], vec![None, None], "the number of zstd frames needs"),
    ] {
        let fields = vec![
            ("compression_scheme", Text("zstd-per-kernel")),
            ("zstd_offset", Number(HEADER_LEN)),
            ("zstd_size", Number(len_u64(&stored))),
        ];
        let entries = [("gfx906", sized_entry(0, 5)), ("gfx90a", sized_entry(1, 5))];
        let (archive, said) = fault_of(&archive(&stored, &toc(fields, &entries)));
        assert_eq!(ranges(&archive), expected, "{said}");
        assert!(says(&said, fault), "{fault}: {said}");
    }
}

#[test]
fn faults_are_bounded() {
    for count in [1, FAULTS_MAX - 1, FAULTS_MAX, FAULTS_MAX + 1] {
        let mut data = header(&MAGIC, VERSION, HEADER_LEN);
        let broken = vec![("lib#0", Number(0)); count];
        Map(vec![("gfx_arches", Array(vec![Text("gfx906")])), ("toc", Map(broken))]).write(&mut data);
        assert_eq!(read(&data).unwrap().faults.len(), count.min(FAULTS_MAX));
    }
}

fn reference(paths: usize) -> Result<Reference, Malformed> {
    let mut data = Vec::new();
    let paths = Array(vec![Text("x.kpack"); paths]);
    Map(vec![("kernel_name", Text("lib.so")), ("kpack_search_paths", paths)]).write(&mut data);
    Reference::read(&data, 1000)
}

#[test]
fn search_paths_are_counted() {
    for count in [1, 32] {
        assert_eq!(reference(count).unwrap().search_paths.len(), count);
    }
    for (count, expected) in [(0, "at offset 1000 has no 'kpack_search_paths'"), (33, "more than 32 search paths")] {
        let error = reference(count).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

//! `recompress` on PE libraries, generated and written by linkers.

use std::fs;
use std::process::{Command, Stdio};

use super::*;
use crate::lists::half_of;
use crate::machine::memory_directory;
use crate::objects::exists_in_path;
use crate::properties;
use crate::properties::fatbins::{self, Code};
use crate::properties::make::{Zipped, number, pe, zip};
use crate::reference::formats;

/// Up to so many bytes that cannot be compressed.
fn noise(random: &mut harness::Random, most: usize) -> Vec<u8> {
    let len = 20 + random.below(most);
    random.bytes(len)
}

/// A bundle with noise, and with code objects that become small.
fn bundle(random: &mut harness::Random) -> Vec<u8> {
    let noise = noise(random, 9000);
    let code = vec![random.bytes(1)[0]; random.below(60_000)];
    formats::binary(&[(HOST, b""), (GFX906, &code), (GFX90A, &noise)], [8, 4096][random.below(2)])
}

/// A fatbin with cubins of some size, and with others that become small.
fn fatbin(random: &mut harness::Random) -> Vec<u8> {
    let cubins = [80, 86, 90].map(|sm| Code::cubin(sm, 64 + random.below(20_000)));
    fatbins::fatbin(&cubins.iter().map(fatbins::entry).collect::<Vec<_>>())
}

/// A library with several sections of device code, of one vendor or both, between others.
pub(super) fn library(random: &mut harness::Random) -> Vec<u8> {
    let mut sections = vec![(".text", random.bytes(700)), (".rdata", random.bytes(5000))];
    for is_cuda in [random.below(3) == 0, random.below(2) == 0] {
        let mut content = Vec::new();
        for _ in 0..=random.below(6) {
            content.resize(content.len().next_multiple_of(if is_cuda { 8 } else { 4096 }), 0);
            content.extend(if is_cuda { fatbin(random) } else { bundle(random) });
        }
        sections.push((if is_cuda { ".nv_fatb" } else { ".hip_fat" }, content));
        sections.push((".data", noise(random, 3000)));
    }
    sections.push((".debug", [vec![0; 28], b"RSDSdata".to_vec()].concat()));
    // Room for few section headers, or for many.
    sections.extend((0..random.below(12)).map(|_| (".more", vec![1])));
    let sections: Vec<(&str, &[u8])> = sections.iter().map(|(name, content)| (*name, content.as_slice())).collect();
    let mut data = pe(&sections);
    let debug = section(&data, sections.iter().position(|(name, _)| *name == ".debug").unwrap());
    put(&mut data, DEBUG, debug.address);
    put(&mut data, DEBUG + 4, 28);
    put(&mut data, debug.offset + 16, 8);
    put(&mut data, debug.offset + 24, debug.offset + 28);
    // A table of symbols, or only of names, as linkers write it for long names of sections.
    let symbols = random.below(4);
    if symbols > 1 {
        let (at, count) = (data.len(), usize::from(symbols == 2));
        put(&mut data, SYMBOLS, at);
        put(&mut data, SYMBOLS + 4, count);
        data.extend([vec![0; 18 * count], number(9, 4), b"name\0".to_vec()].concat());
    }
    if random.below(2) == 0 {
        put(&mut data, CHECKSUM, 1);
        let checksum = checksum(&data);
        put(&mut data, CHECKSUM, checksum);
    }
    data
}

/// Offsets of fields in the output of [`pe`].
const SYMBOLS: usize = 0x44 + 8;
const HEADERS_LEN: usize = 0x44 + 20 + 60;
const CHECKSUM: usize = 0x44 + 20 + 64;
const SIGNATURE: usize = 0x44 + 20 + 112 + 8 * 4;
const SECTION_COUNT: usize = 0x44 + 2;

/// The offset of the directory of debug data.
const DEBUG: usize = SIGNATURE + 16;

/// A section header.
struct Header {
    address: usize,
    offset: usize,
}

fn section(data: &[u8], index: usize) -> Header {
    let at = 0x44 + 20 + 240 + 40 * index;
    Header { address: get(data, at + 12), offset: get(data, at + 20) }
}

/// Returns the bytes of the debug data and of the symbol table, found by their offsets.
fn others(data: &[u8]) -> [Vec<u8>; 2] {
    let count = usize::from(data[SECTION_COUNT]);
    let all = (0..count).map(|index| section(data, index));
    let list = all.filter(|section| section.address == get(data, DEBUG)).map(|section| section.offset).next().unwrap();
    let debug = get(data, list + 24);
    let symbols = get(data, SYMBOLS);
    [data[debug..debug + 8].to_vec(), if symbols > 0 { data[symbols..].to_vec() } else { Vec::new() }]
}

fn extracted(data: &[u8]) -> Vec<Vec<u8>> {
    let dir = memory_directory();
    fs::write(dir.path().join("in"), data).unwrap();
    against_llvm::extracted(&dir.path().join("in"), &[])
}

fn put(data: &mut [u8], at: usize, field: usize) {
    data[at..at + 4].copy_from_slice(&number(field, 4));
}

fn get(data: &[u8], at: usize) -> usize {
    usize::try_from(u32::from_le_bytes(data[at..at + 4].try_into().unwrap())).unwrap()
}

/// The checksum that a file should have.
fn checksum(data: &[u8]) -> usize {
    let mut data = data.to_vec();
    put(&mut data, CHECKSUM, 0);
    let len = data.len();
    data.resize(len.next_multiple_of(2), 0);
    let words = data.chunks_exact(2).map(|word| usize::from(u16::from_le_bytes(word.try_into().unwrap())));
    let sum = words.fold(0, |sum, word| (sum + word) % 0xffff);
    // The sum of ones' complement is not 0 unless all words are.
    (if sum == 0 { 0xffff } else { sum }) + len
}

/// Runs `recompress` on one file, which must succeed.
fn recompress(args: &[&str], data: &[u8]) -> (Vec<u8>, String) {
    let outcome = tool(&[&["recompress", "in", "-o", "out"], args].concat(), &[("in", data)]);
    assert_eq!(outcome.status, 0, "{args:?}: {}", outcome.stderr_text());
    (outcome.files["out"].clone(), outcome.stderr_text())
}

/// Generated libraries load the same bytes, become shorter, and come back.
#[test]
fn shortened_pe_libraries_load_the_same_bytes_and_come_back() {
    let mut random = harness::Random::new(11);
    let (mut grown, mut split) = (0, 0);
    for round in half_of((0..24).collect::<Vec<_>>()) {
        let data = library(&mut random);
        properties::recompress(&data);
        let (small, said) = recompress(&["--level=1", "--close-gaps"], &data);
        assert!(small.len() < data.len() && said.contains(" shorter\n"), "{round}: {said}");
        grown += usize::from(get(&small, HEADERS_LEN) > get(&data, HEADERS_LEN));
        split += usize::from(small[SECTION_COUNT] > data[SECTION_COUNT]);
        assert!(get(&small, CHECKSUM) == 0 || get(&small, CHECKSUM) == checksum(&small), "{round}: checksum");
        assert_eq!(others(&small), others(&data), "{round}");
        assert!(extracted(&small) == extracted(&data), "{round}: other code objects");
        assert!(small[SECTION_COUNT] == data[SECTION_COUNT] || get(&data, SYMBOLS + 4) == 0, "{round}: symbols");
        let (back, _) = recompress(&["--none"], &small);
        assert!(back == data, "{round}: other bytes come back");
        let (plain, _) = recompress(&["--none"], &data);
        assert!(plain == data, "{round}: other bytes than before");
        let (hole, said) = recompress(&["--level=1"], &data);
        assert!(hole.len() == data.len() && said.contains(" a hole\n"), "{said}");
        assert!(recompress(&["--level=1"], &small).0 == small, "{round}: it does not stay short");
        let (again, _) = recompress(&["--level=1", "--close-gaps"], &hole);
        assert!(again == small, "{round}: other bytes than at once");
    }
    assert!(grown > 2 && split > 5, "{grown} headers have grown, {split} sections were split");
}

/// An error of `recompress`, which writes nothing.
fn refused(args: &[&str], data: &[u8]) -> String {
    let outcome = tool(&[&["recompress", "in", "-o", "out"], args].concat(), &[("in", data)]);
    assert_eq!((outcome.status, outcome.files.len()), (1, 1), "{args:?}");
    outcome.stderr_text()
}

#[test]
fn a_signature_is_kept_or_removed() {
    let unsigned = pe(&[(".hip_fat", &bundle(&mut harness::Random::new(4))), (".data", b"some data")]);
    let mut data = unsigned.clone();
    put(&mut data, CHECKSUM, 1);
    let small = recompress(&[], &data).0;
    assert_eq!(get(&small, CHECKSUM), checksum(&small));
    put(&mut data, SIGNATURE, unsigned.len());
    put(&mut data, SIGNATURE + 4, 64);
    let signed = [&data, &vec![7; 64][..]].concat();
    let said = refused(&[], &signed);
    let hint = "hint: recompress --drop-signature removes the signature; sign the new file again\n";
    assert!(said.contains("error: 'in': it is signed\n") && said.ends_with(hint), "{said}");
    for zeros in [0, 8] {
        assert!(
            recompress(&["--drop-signature"], &[&signed[..], &vec![0; zeros]].concat()).0 == small,
            "{zeros} zeros"
        );
    }
    for broken in [&[&signed[..], b"data"].concat(), &signed[..signed.len() - 1]] {
        let said = refused(&["--drop-signature"], broken);
        assert!(said.contains("cannot remove its signature: other data may follow it"), "{said}");
    }
    // Nothing else would change.
    let small_bundle = recompress(&[], &bundle(&mut harness::Random::new(4))).0;
    for checksum in [0, 1] {
        let mut same = pe(&[(".hip_fat", &small_bundle), (".data", b"some data")]);
        let len = same.len();
        put(&mut same, CHECKSUM, checksum);
        put(&mut same, SIGNATURE, len);
        put(&mut same, SIGNATURE + 4, 64);
        same.extend([7; 64]);
        let (written, said) = recompress(&["--drop-signature"], &same);
        assert!(written == same, "{said}");
    }
    // The bundles need more than the signature did.
    let mut longer = shortened();
    let len = longer.len();
    put(&mut longer, SIGNATURE, len);
    put(&mut longer, SIGNATURE + 4, 64);
    longer.extend([7; 64]);
    let (new, said) = recompress(&["--drop-signature", "--none"], &longer);
    assert!(new.len() > longer.len() && !said.contains("shorter") && !said.contains("that it had"), "{said}");
    let said = refused(&["--none"], &[&shortened()[..], b"data"].concat());
    assert!(said.contains("\nhint: other data follows the sections"), "{said}");
    // A signature matters only in files that change.
    let other = [pe(&[(".text", b"code")]), vec![7; 64]].concat();
    let archive = zip(&[Zipped::new("a.dll", 8, &signed), Zipped::new("b.dll", 8, &other)]);
    assert!(refused(&[], &archive).contains("a.dll"));
    let (written, _) = recompress(&["--drop-signature"], &archive);
    assert!(written.len() < archive.len() && extracted(&written) == extracted(&archive));
}

/// The offset of the header of the first section in the output of [`pe`].
const TABLE: usize = 0x44 + 20 + 240;

/// A library of one section with a bundle, which is longer in memory, and of another section.
fn longer_in_memory(content: &[u8], memory: usize) -> Vec<u8> {
    let mut data = pe(&[(".hip_fat", content), (".data", b"some data")]);
    put(&mut data, TABLE + 8, memory);
    put(&mut data, TABLE + 40 + 12, 0x1000_0000);
    data
}

/// Linkers leave out zeros at the end of a section too, and other data may lie before them.
#[test]
fn pe_files_that_were_never_shortened_do_not_become_longer() {
    let bundle = bundle(&mut harness::Random::new(4));
    let of_pages = |after: &[u8]| {
        let mut content = [&bundle, after].concat();
        content.resize(content.len().next_multiple_of(4096), 0);
        content
    };
    let (unaligned, with_data) = (of_pages(&[0; 8]), of_pages(b"data"));
    for (what, content) in [("part of a page", &unaligned), ("other data", &with_data)] {
        let mut data = longer_in_memory(content, 32 << 20);
        if what == "part of a page" {
            put(&mut data, TABLE + 16, content.len() - 8);
        }
        for args in [&["--none"][..], &["--close-gaps"]] {
            let (new, said) = recompress(args, &data);
            assert!(new.len() <= data.len(), "{what}: {said}");
            let next = section(&new, usize::from(new[SECTION_COUNT]) - 1);
            assert!(next.offset.is_multiple_of(512) && new[next.offset..].starts_with(b"some data"), "{what}: {said}");
            let is_compressed = args != ["--none"];
            let becomes_shorter = is_compressed && what == "other data";
            assert_eq!(said.contains(" shorter\n"), becomes_shorter, "{what}: {said}");
            let keeps_hole = said.contains("in: what follows cannot move by whole pages\n");
            assert_eq!(keeps_hole, is_compressed && what == "part of a page", "{what}: {said}");
            assert!(is_compressed || new == data, "{what}: {said}");
        }
    }
}

/// A text bundle ends with its section, and a section with the bytes up to the next multiple of the alignment.
#[test]
fn text_bundles_and_padding_of_pe_sections_come_back() {
    let noise = bundle(&mut harness::Random::new(4));
    let text = long_text_bundle();
    let after = pe(&[(".hip_fat", &[&noise[..], &text].concat()), (".data", b"some data")]);
    let (small, said) = recompress(&["--close-gaps"], &after);
    assert!(said.starts_with("2 bundles: ") && said.contains(" shorter\n"), "{said}");
    assert!(recompress(&["--none"], &small).0 == after, "{said}");
    // The text bundle would swallow the other one, if it were not compressed.
    properties::comes_back(&pe(&[(".hip_fat", &[&text[..], &noise].concat()), (".data", b"some data")]));
    let mut content = noise.clone();
    content.resize(content.len().next_multiple_of(512) + 200, 0);
    for content in [noise, content] {
        let data = pe(&[(".hip_fat", &content), (".data", b"some data")]);
        let end = section(&data, 0).offset + content.len();
        for at in [end, end.next_multiple_of(512) - 1] {
            let mut padded = data.clone();
            padded[at] = 1;
            properties::comes_back(&padded);
        }
    }
}

/// Returns a shortened library with three bundles, without other data that may need room.
fn shortened() -> Vec<u8> {
    let mut row = Vec::new();
    for code in 1..4 {
        row.resize(usize::next_multiple_of(row.len(), 4096), 0);
        row.extend(formats::binary(&[(HOST, b""), (GFX906, &[code; 30_000])], 4096));
    }
    let small = recompress(&["--close-gaps"], &pe(&[(".hip_fat", &row), (".data", b"some data")])).0;
    assert_eq!(small[SECTION_COUNT], 4);
    small
}

#[test]
fn parts_of_a_pe_section_stay_apart_if_another_tool_changed_them() {
    let small = shortened();
    let mut symbols = small.clone();
    put(&mut symbols, SYMBOLS, small.len());
    put(&mut symbols, SYMBOLS + 4, 1);
    symbols.extend([vec![0; 18], number(4, 4)].concat());
    assert_eq!(recompress(&[], &symbols).0[SECTION_COUNT], 4);
    let said = refused(&["--none"], &symbols);
    assert!(said.contains(": 3 bundles cannot be written "), "{said}");
    // Loaders take the size in the file then.
    let mut without_size = small;
    put(&mut without_size, TABLE + 40 + 8, 0);
    let new = recompress(&[], &without_size).0;
    assert_eq!(extracted(&new).len(), 3);
    assert!(extracted(&new) == extracted(&without_size));
}

/// Sections that are aligned to more than a page keep their parts: search finds parts only in their first page.
#[test]
fn pe_files_of_larger_alignment_keep_their_length() {
    let mut row = Vec::new();
    for code in 1..4 {
        row.resize(usize::next_multiple_of(row.len(), 4096), 0);
        row.extend(formats::binary(&[(HOST, b""), (GFX906, &vec![code; 150_000])], 4096));
    }
    let mut data = pe(&[(".hip_fat", &row), (".data", b"some data")]);
    put(&mut data, 0x44 + 20 + 32, 0x1_0000);
    put(&mut data, TABLE + 12, 0x1_0000);
    put(&mut data, TABLE + 40 + 12, 0x100_0000);
    let (new, said) = recompress(&["--close-gaps"], &data);
    assert!(new.len() == data.len() && said.contains(" a hole\n"), "{said}");
    assert!(extracted(&new) == extracted(&data));
}

/// Programs may find appended data by its offset, so everything stays at its offset.
#[test]
fn data_after_a_pe_file_stays_at_its_offset() {
    let library = pe(&[(".hip_fat", &bundle(&mut harness::Random::new(4))), (".data", b"some data")]);
    let zip = zip(&[Zipped::new("text", 0, b"text")]);
    for (data, is_shorter) in [(&zip[..], false), (b"image", false), (&[0; 100][..], true), (b"", true)] {
        let (new, said) = recompress(&["--close-gaps"], &[&library, data].concat());
        assert_eq!(said.contains(" shorter\n"), is_shorter, "{said}");
        assert!(new.ends_with(data) && (new.len() == library.len() + data.len()) != is_shorter, "{said}");
    }
}

/// Files whose headers do not allow it keep their length.
#[test]
fn pe_files_with_unsound_headers_keep_their_length() {
    let library = pe(&[(".hip_fat", &bundle(&mut harness::Random::new(4))), (".data", b"some data")]);
    assert!(recompress(&["--close-gaps"], &library).0.len() < library.len());
    let table = 0x44 + 20 + 240;
    for (what, at, field) in [
        ("sections are aligned to 16 bytes", 0x44 + 20 + 32, 16),
        ("sections are not aligned in the file", 0x44 + 20 + 36, 16),
        ("headers are longer than the file", HEADERS_LEN, 1 << 30),
        ("headers are shorter than their table", HEADERS_LEN, 16),
        ("less data than there is", 0x44 + 20 + 8, 512),
        ("an address is not aligned", table + 40 + 12, 0x20_0001),
        ("addresses are not in order", table + 40 + 12, 0),
        ("a section shares bytes with the next", table + 40 + 20, get(&library, table + 20) + 512),
        ("a section with relocations", table + 40 + 24, 512),
        ("debug data that is nowhere", DEBUG, 0x70_0000),
    ] {
        let mut data = library.clone();
        put(&mut data, at, field);
        put(&mut data, DEBUG + 4, 28);
        let outcome = tool(&["recompress", "in", "-o", "out", "--close-gaps"], &[("in", &data)]);
        assert!(outcome.files.get("out").is_none_or(|out| out.len() == data.len()), "{what}");
        assert!(
            outcome.status == 0 || outcome.stderr_text().contains("shares bytes"),
            "{what}: {}",
            outcome.stderr_text()
        );
        properties::recompress(&data);
    }
}

/// Device code, wrappers that point at it, and other sections, as clang and nvcc write them for Windows.
const LIBRARY: &str = r#"
.section .hip_fat,"dr"
.p2align 12
first: .incbin "bundle"
.p2align 12
second: .incbin "bundle"
.p2align 12
third: .incbin "bundle"
.section .nv_fatb,"dr"
.p2align 3
a: .incbin "fatbin"
.p2align 3
b: .incbin "fatbin"
.p2align 3
c: .incbin "fatbin"
.section .hipFatB,"dr"
.p2align 3
.int 0x48495046, 1
.quad first, 0
.int 0x48495046, 1
.quad second, 0
.int 0x48495046, 1
.quad third, 0
.section .nvFatBi,"dr"
.p2align 3
.int 0x466243b1, 1
.quad a, 0
.int 0x466243b1, 1
.quad b, 0
.int 0x466243b1, 1
.quad c, 0
.section .zdata,"dr"
.ascii "data that follows"
.text
.globl answer
answer: mov $42, %eax
 ret
.data
.quad third, answer
.section .drectve,"yn"
.ascii " /export:answer"
"#;

/// Writes [`LIBRARY`], linked by lld or GNU ld, to a directory. Returns the names.
fn linked(dir: &Path) -> Vec<&'static str> {
    let mut random = harness::Random::new(8);
    let noise = random.bytes(6000);
    let code: Vec<u8> = (0..90_000_u32).map(|at| (at / 300 + 1).to_le_bytes()[0]).collect();
    let bundle = formats::binary(&[(HOST, b""), (GFX906, &code), (GFX90A, &noise)], 4096);
    let cubins = [Code::cubin(80, 30_000), Code::cubin(90, 9_000)];
    fs::write(dir.join("bundle"), bundle).unwrap();
    fs::write(dir.join("fatbin"), fatbins::fatbin(&cubins.iter().map(fatbins::entry).collect::<Vec<_>>())).unwrap();
    fs::write(dir.join("library.s"), LIBRARY).unwrap();
    let mut names = Vec::new();
    let lld = ["/dll", "/noentry", "/opt:noref", "/debug", "/release", "/timestamp:0", "library.o"];
    let compile = ["--target=x86_64-pc-windows-msvc", "-c", "library.s", "-o", "library.o"];
    if let Some(bin) = crate::machine::llvm("linked PE files", &["clang", "lld-link"]) {
        must(Command::new(bin.join("clang")).args(compile).current_dir(dir));
        for (name, more) in [("lld.dll", ""), ("lld-names.dll", "/debug:dwarf")] {
            let mut command = Command::new(bin.join("lld-link"));
            command.args(lld).arg(format!("/out:{name}")).args(Some(more).filter(|more| !more.is_empty()));
            must(command.current_dir(dir));
            names.push(name);
        }
    }
    if exists_in_path("x86_64-w64-mingw32-as") {
        let source = LIBRARY.replace(",\"yn\"\n", ",\"n\"\n");
        fs::write(dir.join("gnu.s"), source).unwrap();
        must(Command::new("x86_64-w64-mingw32-as").args(["gnu.s", "-o", "gnu.o"]).current_dir(dir));
        for (name, more) in [("gnu.dll", "--strip-all"), ("gnu-symbols.dll", "--discard-none")] {
            let words = ["-shared", "--section-alignment", "4096", more, "gnu.o", "-o", name];
            must(Command::new("x86_64-w64-mingw32-ld").args(words).current_dir(dir));
            names.push(name);
        }
    } else {
        skip("PE files of GNU ld", "binutils-mingw-w64-x86-64 is not installed");
    }
    names
}

/// A program that prints, as hexadecimal numbers, the result of `answer` of a library, and a hash of each of its loaded
/// pages.
const LOADER: &str = r#"
typedef unsigned long long hash_t;
typedef unsigned char byte_t;
__declspec(dllimport) byte_t *LoadLibraryA(const char *);
__declspec(dllimport) void *GetProcAddress(void *, const char *);
__declspec(dllimport) void ExitProcess(unsigned);
__declspec(dllimport) char *GetCommandLineA(void);
__declspec(dllimport) void *GetStdHandle(unsigned);
__declspec(dllimport) int WriteFile(void *, const void *, unsigned, unsigned *, void *);
static void print(hash_t number) {
  char text[17];
  unsigned count;
  for (int at = 0; at < 16; ++at) text[at] = "0123456789abcdef"[number >> (60 - 4 * at) & 15];
  text[16] = '\n';
  WriteFile(GetStdHandle(-11), text, 17, &count, 0);
}
void start(void) {
  char *name = GetCommandLineA();
  while (*name && *name != ' ') ++name;
  while (*name == ' ') ++name;
  byte_t *base = LoadLibraryA(name);
  if (!base) ExitProcess(3);
  print(((int (*)(void))GetProcAddress(base, "answer"))());
  unsigned size = *(unsigned *)(base + *(unsigned *)(base + 60) + 24 + 56);
  for (byte_t *page = base + 4096; page < base + size; page += 4096) {
    hash_t hash = 14695981039346656037ull;
    for (int at = 0; at < 4096; ++at) hash = (hash ^ page[at]) * 1099511628211ull;
    print(hash);
  }
  ExitProcess(0);
}
"#;

/// Wine loads the same bytes from a library that is shorter as from one with holes.
#[test]
fn wine_loads_what_became_shorter() {
    const TEST: &str = "libraries in wine";
    let Some(wine) = ["/usr/lib/wine/wine64", "/usr/bin/wine64"].into_iter().find(|wine| Path::new(wine).exists())
    else {
        return skip(TEST, "wine is not installed");
    };
    let Some(bin) = crate::machine::llvm(TEST, &["clang", "lld-link", "llvm-dlltool"]) else { return };
    let dir = memory_directory();
    linked(dir.path());
    let names = "LoadLibraryA GetProcAddress ExitProcess GetCommandLineA GetStdHandle WriteFile".replace(' ', "\n");
    fs::write(dir.path().join("kernel32.def"), format!("LIBRARY KERNEL32.dll\nEXPORTS\n{names}\n")).unwrap();
    fs::write(dir.path().join("loader.c"), LOADER).unwrap();
    for (tool, words) in [
        ("llvm-dlltool", &["-m", "i386:x86-64", "-d", "kernel32.def", "-l", "kernel32.lib"][..]),
        ("clang", &["--target=x86_64-pc-windows-msvc", "-O1", "-ffreestanding", "-c", "loader.c", "-o", "loader.obj"]),
        ("lld-link", &["/entry:start", "/subsystem:console", "/nodefaultlib", "loader.obj", "kernel32.lib"]),
    ] {
        must(Command::new(bin.join(tool)).args(words).current_dir(dir.path()));
    }
    let run = |name: &str| {
        let mut command = Command::new(wine);
        let prefix = concat!(env!("CARGO_TARGET_TMPDIR"), "/wine");
        command.args(["loader.exe", name]).env("WINEPREFIX", prefix).env("WINEDEBUG", "-all").current_dir(dir.path());
        command
    };
    // Wine's services stay for seconds, with the standard output of the program that started them.
    assert!(
        run("lld.dll").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success()
    );
    let loaded = |name: &str| String::from_utf8(must(&mut run(name)).stdout).unwrap();
    let before = loaded("lld.dll");
    assert!(before.starts_with("000000000000002a\n"), "{before}");
    for args in [&["--level=1"][..], &["--none", "--keep=gfx90a,sm_90"]] {
        let recompressed = |to: &str, more: &[&str]| {
            let line = [&["recompress", "lld.dll", "-o", to], args, more].concat();
            let (status, _, said) = text(&tool_in(dir.path(), &line));
            assert_eq!(status, 0, "{line:?}: {said}");
            loaded(to)
        };
        let [small, hole] = [recompressed("small.dll", &["--close-gaps"]), recompressed("hole.dll", &[])];
        assert!(small == hole && small.lines().count() == before.lines().count(), "{args:?}");
    }
}

/// Returns the output of a tool about a file, without the lines that differ because the file is shorter.
fn described(dir: &Path, name: &str) -> String {
    if !exists_in_path("x86_64-w64-mingw32-objdump") {
        return String::new();
    }
    let output = must(Command::new("x86_64-w64-mingw32-objdump").args(["-p", name]).current_dir(dir));
    let text = String::from_utf8(output.stdout).unwrap();
    let moves = ["SizeOfInitializedData", "SizeOfHeaders", "CheckSum"];
    // The first lines have the name of the file.
    let lines = text.lines().skip(2).filter(|line| !moves.iter().any(|field| line.starts_with(field)));
    // The last number of debug data is its offset, which objdump follows.
    let stays = |line: &str| match line.contains("CodeView") {
        true => line.rsplit_once(' ').map(|(stays, _)| stays.to_owned()).unwrap(),
        false => line.to_owned(),
    };
    lines.map(|line| stays(line) + "\n").collect()
}

#[test]
fn pe_libraries_of_linkers_become_shorter_and_come_back() {
    let dir = memory_directory();
    let run = |words: &[&str]| text(&tool_in(dir.path(), words));
    for name in linked(dir.path()) {
        let before = fs::read(dir.path().join(name)).unwrap();
        properties::recompress(&before);
        let (status, out, said) = run(&["verify", name]);
        assert_eq!((status, said.as_str()), (0, ""), "{name}: {out}");
        for (args, saved) in [(&["--level=1"][..], 260_000), (&["--none", "--keep=gfx90a,sm_90"], 240_000)] {
            let (status, _, said) = run(&[&["recompress", name, "-o", "small.dll", "--close-gaps"], args].concat());
            assert_eq!(status, 0, "{name}: {said}");
            let small = fs::read(dir.path().join("small.dll")).unwrap();
            // In a file with symbols, only bytes at the end of a section are taken out.
            let least = if ["lld-names.dll", "gnu-symbols.dll"].contains(&name) { 80_000 } else { saved };
            assert!(before.len() - small.len() > least, "{name}: {said}");
            let (status, out, said) = run(&["verify", "small.dll"]);
            assert_eq!((status, said.as_str()), (0, ""), "{name}: {out}");
            assert_eq!(described(dir.path(), "small.dll"), described(dir.path(), name), "{name}");
            let again = run(&["recompress", "small.dll", "-o", "again.dll", args[0]]).0;
            assert!(again == 0 && fs::read(dir.path().join("again.dll")).unwrap() == small, "{name}");
        }
        run(&["recompress", "--level=1", "--close-gaps", name, "-o", "small.dll"]);
        run(&["recompress", "--none", "small.dll", "-o", "back.dll"]);
        assert!(fs::read(dir.path().join("back.dll")).unwrap() == before, "{name}: other bytes come back");
    }
}

//! Tests with small handmade objects, using the `object` crate as an independent reader.

use object::Endianness;
use object::read::{Object as _, ObjectSection as _};

use super::*;
use crate::base::io::input::Input;
use crate::base::io::piece::emit;
use crate::llvm::container::host::elf::Encoding;

const HOST: &str = "host-x86_64-unknown-linux-gnu-";
const DEVICE: &str = "hip-amdgcn-amd-amdhsa--gfx906";
const CODE: &[u8] = b"code object";

/// Numbers in the encoding of an ELF object.
impl Encoding {
    fn number(self, value: usize, width: usize) -> Vec<u8> {
        let mut bytes = vec![0; width];
        self.write(value.try_into().unwrap(), &mut bytes);
        bytes
    }

    fn half(self, value: usize) -> Vec<u8> {
        self.number(value, 2)
    }

    fn full(self, value: usize) -> Vec<u8> {
        self.number(value, 4)
    }

    fn wide(self, value: usize) -> Vec<u8> {
        self.number(value, self.word)
    }
}

/// An ELF object with a `.text`, a symbol table with one symbol in it, and names.
fn elf(word: usize, order: Endianness) -> Vec<u8> {
    let encoding = Encoding { word, order };
    let class = u8::try_from(word / 4).unwrap();
    let mut file = vec![0x7f, b'E', b'L', b'F', class, if order == Endianness::Big { 2 } else { 1 }, 1];
    file.resize(16, 0);
    let names = b"\0.text\0.symtab\0.names\0f\0";
    let symbol_len = if word == 8 { 24 } else { 16 };
    let (header_len, section_len) = if word == 8 { (64, 64) } else { (52, 40) };
    let text_at = header_len + 4;
    let symbols_at = text_at + 8;
    let names_at = symbols_at + 2 * symbol_len;
    let table = (names_at + names.len()).next_multiple_of(8);
    file.extend([encoding.half(1), encoding.half(62), encoding.full(1)].concat());
    file.extend([encoding.wide(0), encoding.wide(0), encoding.wide(table), encoding.full(0)].concat());
    for number in [header_len, 0, 0, section_len, 4, 3] {
        file.extend(encoding.half(number));
    }
    file.extend(b"gap-TEXTtext");
    file.resize(symbols_at + symbol_len, 0);
    let symbol = match word {
        8 => [encoding.full(22), vec![0x10, 0], encoding.half(1), vec![0; 16]].concat(),
        _ => [encoding.full(22), vec![0; 8], vec![0x10, 0], encoding.half(1)].concat(),
    };
    file.extend(symbol);
    file.extend(names);
    file.resize(table + section_len, 0);
    for (name, kind, at, size, link, info, entry) in [
        (1, 1, text_at, 8, 0, 0, 0),
        (7, 2, symbols_at, 2 * symbol_len, 3, 1, symbol_len),
        (15, 3, names_at, names.len(), 0, 0, 0),
    ] {
        file.extend([encoding.full(name), encoding.full(kind)].concat());
        for number in [0, 0, at, size] {
            file.extend(encoding.wide(number));
        }
        file.extend([encoding.full(link), encoding.full(info), encoding.wide(1), encoding.wide(entry)].concat());
    }
    file.extend(b"behind all");
    file
}

fn coff_number(value: usize) -> [u8; 4] {
    u32::try_from(value).unwrap().to_le_bytes()
}

/// A COFF object with the named sections of four bytes each, one symbol for each, and `tail` after its strings.
fn coff(big: bool, names: &[&str], tail: &[u8]) -> Vec<u8> {
    let header_len = if big { 56 } else { 20 };
    let contents_at = header_len + 40 * names.len();
    let symbols_at = contents_at + 4 * names.len();
    let mut file = if big { vec![0, 0, 0xff, 0xff, 2, 0, 0x64, 0x86] } else { vec![0x64, 0x86] };
    if big {
        file.resize(12, 0);
        file.extend(b"\xc7\xa1\xba\xd1\xee\xba\xa9\x4b\xaf\x20\xfa\xf6\x6a\xa4\xdc\xb8");
        file.resize(44, 0);
        file.extend([coff_number(names.len()), coff_number(symbols_at), coff_number(2 * names.len())].concat());
    } else {
        file.extend(&coff_number(names.len())[..2]);
        file.extend([[0; 4], coff_number(symbols_at), coff_number(2 * names.len()), [0; 4]].concat());
    }
    let mut strings = Vec::new();
    for (index, name) in names.iter().enumerate() {
        let mut field = [0; 8];
        let short = if name.len() > 8 { format!("/{}", 4 + strings.len()) } else { (*name).to_owned() };
        field[..short.len()].copy_from_slice(short.as_bytes());
        if name.len() > 8 {
            strings.extend(name.bytes().chain([0]));
        }
        file.extend(field);
        file.extend([[0; 4], [0; 4], coff_number(4), coff_number(contents_at + 4 * index)].concat());
        file.extend([[0; 4], [0; 4], [0; 4], 0x4000_0040_u32.to_le_bytes()].concat());
    }
    for digit in (b'0'..).take(names.len()) {
        file.extend([digit; 4]);
    }
    for index in 1..=names.len() {
        file.extend(b"symbol\0\0\0\0\0\0");
        file.extend(&coff_number(index)[..if big { 4 } else { 2 }]);
        file.extend([0, 0, 3, 1]);
        // Each section is associated with the last one.
        file.extend([[0; 4], [0; 4], [0; 4], coff_number(names.len())].concat());
        file.extend(&[0; 4][..if big { 4 } else { 2 }]);
    }
    file.extend(coff_number(strings.len() + 4));
    file.extend(strings);
    file.extend(tail);
    file
}

fn samples() -> Vec<Vec<u8>> {
    let names = [".text", ".a_long_name", ".data"];
    vec![
        elf(8, Endianness::Little),
        elf(8, Endianness::Big),
        elf(4, Endianness::Little),
        elf(4, Endianness::Big),
        coff(false, &names, b""),
        coff(true, &names, b""),
        coff(false, &names, b"behind all"),
        coff(true, &[], b""),
    ]
}

fn fat(host: &[u8]) -> Vec<u8> {
    fat_with(CODE, host)
}

fn fat_with(code: &[u8], host: &[u8]) -> Vec<u8> {
    try_fat(code, host).unwrap()
}

fn try_fat(code: &[u8], host: &[u8]) -> Result<Vec<u8>> {
    try_fat_of(&[(DEVICE, code), (HOST, host)])
}

fn try_fat_of(members: &[(&str, &[u8])]) -> Result<Vec<u8>> {
    let mut inputs = Vec::new();
    for (id, content) in members {
        inputs.push(((*id).to_owned(), Input::from_bytes("input", content.to_vec())));
    }
    let members: Vec<_> =
        inputs.iter().map(|(id, input)| Member { id: id.clone(), content: input.as_slice() }).collect();
    let plan = FatObject.plan(&members)?;
    let mut out = Vec::new();
    emit(&plan, &mut out)?;
    Ok(out)
}

fn read(data: &[u8]) -> Result<Option<Contents>, Malformed> {
    FatObject.read(data, len_u64(data), 0)
}

/// The IDs and contents of a fat object, the host's last.
fn entries(data: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut entries = Vec::new();
    for entry in read(data).unwrap().unwrap().entries {
        let content = entry.content(data).unwrap();
        entries.push((String::from_utf8(entry.id).unwrap(), content));
    }
    entries
}

/// The sections with their contents, as the `object` crate reads them.
fn sections(data: &[u8]) -> Vec<(String, Vec<u8>)> {
    let file = object::File::parse(data).unwrap();
    let mut sections = Vec::new();
    for section in file.sections() {
        let name = section.name().unwrap();
        if name != ".names" {
            sections.push((name.to_owned(), section.data().unwrap().to_vec()));
        }
    }
    sections
}

#[test]
fn a_host_comes_back_byte_for_byte() {
    for host in samples() {
        let fat = fat(&host);
        let expected = [(DEVICE.to_owned(), CODE.to_vec()), (HOST.to_owned(), host.clone())];
        assert!(entries(&fat) == expected);
        let mut all = sections(&host);
        all.extend([([MAGIC, DEVICE].concat(), CODE.to_vec()), ([MAGIC, HOST].concat(), vec![0])]);
        assert_eq!(sections(&fat), all);
        // A fat object may itself be a host, and bytes after it are harmless.
        let twice = entries(&self::fat(&fat));
        assert!(twice[3] == (HOST.to_owned(), fat.clone()));
        assert!(entries(&[fat.as_slice(), b"\n\n"].concat())[1].1 == host);
    }
}

#[test]
fn only_the_hosts_section_stands_for_the_host() {
    for host in samples() {
        let expected = [(DEVICE.to_owned(), vec![0]), (HOST.to_owned(), host.clone())];
        assert!(entries(&fat_with(&[0], &host)) == expected);
    }
}

#[test]
fn a_section_without_an_id_is_no_entry_and_no_part_of_the_host() {
    for host in samples() {
        let mut fat = try_fat_of(&[("", CODE), (DEVICE, CODE), (HOST, &host)]).unwrap();
        let device = (DEVICE.to_owned(), CODE.to_vec());
        assert!(entries(&fat) == [device.clone(), (HOST.to_owned(), host.clone())]);
        let record = memchr::memmem::find(&fat, b"clang-offload-bundler fa").unwrap();
        fat[record] = b'C';
        let mut entries = entries(&fat);
        let restored = entries.remove(1).1;
        assert!(entries == [device] && sections(&restored) == sections(&host));
    }
    assert_eq!(read(&coff(false, &[".text", MAGIC], b"")), Ok(None));
}

#[test]
fn without_our_record_the_sections_are_removed() {
    for host in samples() {
        let mut fat = fat(&host);
        let record = memchr::memmem::find(&fat, b"clang-offload-bundler fa").unwrap();
        fat[record] = b'C';
        let restored = entries(&fat).remove(1).1;
        assert_ne!(restored, host);
        assert_eq!(sections(&restored), sections(&host));
        assert_eq!(read(&restored), Ok(None));
    }
}

#[test]
#[cfg_attr(miri, ignore = "slow")]
fn a_record_that_says_something_else_is_not_believed() {
    for host in samples() {
        let fat = fat(&host);
        let record = memchr::memmem::find(&fat, b"clang-offload-bundler fa").unwrap();
        for at in record + 24..record + 56 {
            let mut changed = fat.clone();
            changed[at] ^= 1;
            let restored = entries(&changed).remove(1).1;
            assert!(restored == host || sections(&restored) == sections(&host), "byte {}", at - record);
        }
    }
}

#[test]
fn sections_behind_those_of_the_bundle_get_other_numbers() {
    let bundle = [MAGIC, DEVICE].concat();
    for big in [false, true] {
        let mut data = coff(big, &[".text", &bundle, ".data", ".last"], b"");
        // The symbol of the bundle's section becomes one of .text.
        let width = if big { 20 } else { 18 };
        let symbols = data.len() - 4 - bundle.len() - 1 - 8 * width;
        data[symbols + 2 * width + 12] = 1;
        let object = Object::parse(HostFormat::Coff, View::whole(&data, 0)).unwrap();
        let found = object.find_sections().unwrap();
        assert_eq!(found.len(), 1);
        let parts = object.host(&data, &found);
        let restored = Entry { id: vec![], parts, image: None }.content(&data).unwrap();
        let expected = [(".text", b"0000"), (".data", b"2222"), (".last", b"3333")];
        assert_eq!(sections(&restored), expected.map(|(name, data)| (name.to_owned(), data.to_vec())));
        let symbols = restored.len() - 4 - bundle.len() - 1 - 8 * width;
        let numbers: Vec<u8> = (0..8).map(|index| restored[symbols + index * width + 12]).collect();
        assert_eq!(numbers, [1, 3, 1, 3, 2, 3, 3, 3]);
        // A symbol of the bundle's section becomes an absolute one, without auxiliary records.
        let symbols = data.len() - 4 - bundle.len() - 1 - 8 * width;
        data[symbols + 2 * width + 12] = 2;
        let restored = coff_host(&data, &found).content(&data).unwrap();
        let symbols_left = restored.len() - 4 - bundle.len() - 1 - 8 * width;
        let symbol = &restored[symbols_left + 2 * width..symbols_left + 4 * width];
        let (number_len, fields) = if big { (4, [0, 0, 3, 1]) } else { (2, [0, 0, 3, 1]) };
        assert_eq!(symbol[..12], *b"symbol\0\0\0\0\0\0");
        assert_eq!(symbol[12..12 + number_len], [0xff; 4][..number_len]);
        assert_eq!(symbol[12 + number_len..width], fields);
        assert!(symbol[width..].iter().all(|&byte| byte == 0));
        // A section associated with the bundle's section cannot stay.
        data[symbols + width + 12] = 2;
        assert!(matches!(coff_host(&data, &found).parts[..], [Part::Unreadable(Malformed::Fault { .. })]));
        // Nor can a section with a relocation that refers to the symbol, which has the number 2.
        data[symbols + width + 12] = 4;
        let section = if big { 56 } else { 20 };
        let relocation = u32::try_from(data.len()).unwrap().to_le_bytes();
        data[section + 24..section + 28].copy_from_slice(&relocation);
        data[section + 32] = 1;
        for (symbol, fits) in [(0, true), (2, false), (4, true)] {
            let data = [data.as_slice(), &[0; 4], &[symbol, 0, 0, 0, 0, 0]].concat();
            let is_broken = matches!(coff_host(&data, &found).parts[..], [Part::Unreadable(Malformed::Fault { .. })]);
            assert_eq!(is_broken, !fits, "{symbol}");
        }
    }
}

/// The host of a COFF object whose bundle has the sections `found`.
fn coff_host(data: &[u8], found: &[FoundSection]) -> Entry {
    let parts = Object::parse(HostFormat::Coff, View::whole(data, 0)).unwrap().host(data, found);
    Entry { id: vec![], parts, image: None }
}

#[test]
fn symbols_in_no_section_stay_when_sections_are_removed() {
    for (word, order) in [(8, Endianness::Little), (8, Endianness::Big), (4, Endianness::Little), (4, Endianness::Big)]
    {
        let at = if word == 8 { 64 + 12 + 24 + 6 } else { 52 + 12 + 16 + 14 };
        // Undefined, of `.text`, absolute, common.
        for number in [0_u64, 1, 0xfff1, 0xfff2] {
            let mut host = elf(word, order);
            Encoding { word, order }.write(number, &mut host[at..at + 2]);
            let mut fat = fat(&host);
            let record = memchr::memmem::find(&fat, b"clang-offload-bundler fa").unwrap();
            fat[record] = b'C';
            assert_eq!(sections(&entries(&fat).remove(1).1), sections(&host), "{number:#x}");
        }
    }
}

#[test]
fn what_a_coff_object_keeps_is_not_that_of_the_bundle() {
    let bundle = [MAGIC, DEVICE].concat();
    for (big, header_len, width) in [(false, 20, 18), (true, 56, 20)] {
        let data = coff(big, &[".text", &bundle, ".data", ".last"], b"");
        let contents = header_len + 4 * 40;
        let host = |changes: &[(usize, usize)]| {
            let mut data = data.clone();
            changes.iter().for_each(|&(at, byte)| data[at] = byte.try_into().unwrap());
            let object = Object::parse(HostFormat::Coff, View::whole(&data, 0)).unwrap();
            let parts = object.host(&data, &object.find_sections().unwrap());
            Entry { id: vec![], parts, image: None }.content(&data)
        };
        // The offset of `.data`, and its size.
        let (offset, size) = (header_len + 2 * 40 + 20, header_len + 2 * 40 + 16);
        assert!(host(&[]).is_some());
        assert!(host(&[(offset, contents + 4)]).is_none() && host(&[(offset, contents + 1)]).is_none());
        assert!(host(&[(offset, contents + 5), (size, 0)]).is_some());
        // Only the record after the symbol of a section names another section.
        let class = contents + 4 * 4 + width - 2;
        for (number, associated) in [(3, 3), (2, 4)] {
            let restored = host(&[(class, number)]).unwrap();
            let symbols = restored.len() - 4 - bundle.len() - 1 - 8 * width;
            assert_eq!(restored[symbols + width + 12], associated, "{number}");
        }
    }
}

#[test]
fn an_elf_file_without_sections_gets_all_it_needs() {
    let mut host = elf(8, Endianness::Little);
    host[40..48].fill(0);
    host[58..64].fill(0);
    let fat = fat(&host);
    assert!(entries(&fat)[1].1 == host);
    let names: Vec<_> = sections(&fat).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, [".shstrtab".to_owned(), [MAGIC, DEVICE].concat(), [MAGIC, HOST].concat()]);
}

#[test]
fn broken_objects_are_errors_that_say_where() {
    let good = fat(&elf(8, Endianness::Little));
    let table = u64::from_le_bytes(good[40..48].try_into().unwrap());
    let cut = &good[..good.len() - 1];
    let expected = format!("the table of 6 section headers needs 384 bytes at offset {table}, but the data ends");
    assert!(fault_of(cut).starts_with(&expected), "{}", fault_of(cut));
    let mut data = good.clone();
    data[58] = 63;
    assert_eq!(fault_of(&data), "section header size 63 at offset 58, expected 64");
    let mut data = good.clone();
    data[62] = 9;
    let expected = "the section names are in section 9 of 6, according to the ELF header at offset 0";
    assert_eq!(fault_of(&data), expected);
    let mut data = good.clone();
    let last = usize::try_from(table).unwrap() + 5 * 64;
    data[last..last + 4].fill(0xff);
    let names = good.windows(4).rposition(|window| window == b"\0f\0_").unwrap() - 21;
    let expected =
        format!("the name of section 5 at byte 4294967295 is outside the 133 bytes of names at offset {names}");
    assert_eq!(fault_of(&data), expected);
    let mut data = fat(&coff(false, &[".text"], b""));
    let headers = 20 + 40;
    data[headers + 1..headers + 8].copy_from_slice(b"9999999");
    let expected = "the name '/9999999' of section 1 is outside the string table; the table is at offset";
    assert!(fault_of(&data).starts_with(expected));
    let mut data = fat(&coff(false, &[".text"], b""));
    data[headers + 19] = 0xff;
    assert!(fault_of(&data).contains(&format!("section 1 ('{MAGIC}{DEVICE}') needs")), "{}", fault_of(&data));
}

fn fault_of(data: &[u8]) -> String {
    read(data).unwrap_err().to_string()
}

/// The error of making a fat object of this host alone.
fn refusal_of(host: &[u8]) -> String {
    try_fat_of(&[(HOST, host)]).unwrap_err().to_string()
}

#[test]
fn a_host_whose_names_are_unclear_makes_no_fat_object() {
    let mut host = elf(8, Endianness::Little);
    let names = host.len() - b"behind all".len() - 64;
    for kind in [0, 8, 1] {
        host[names + 4] = kind;
        assert!(refusal_of(&host).contains("section 3 should hold the section names"), "{}", refusal_of(&host));
    }
    let bundle = [MAGIC, DEVICE].concat();
    let mut host = coff(false, &[".text", &bundle], b"");
    let end = host.len() - 1;
    host[end] = b'x';
    assert!(refusal_of(&host).contains("the name of section 1 is not terminated"), "{}", refusal_of(&host));
}

#[test]
fn a_host_that_could_not_come_back_makes_no_fat_object() {
    let good = coff(false, &[".text"], b"");
    let end = u32::try_from(good.len()).unwrap();
    let relocations = 20 + 24;
    // Two section headers of 40 bytes are added.
    for (offset, error) in [(end, false), (end + 79, true), (end + 80, true), (end + 81, false), (u32::MAX, false)] {
        let mut host = good.clone();
        host[relocations..relocations + 4].copy_from_slice(&offset.to_le_bytes());
        match try_fat(CODE, &host) {
            Ok(fat) => assert!(!error && entries(&fat)[1].1 == host, "{offset}"),
            Err(malformed) => {
                assert!(error && malformed.to_string().contains("past the end of the file"), "{malformed}")
            }
        }
    }
    let mut host = good;
    host[8..12].fill(0);
    let malformed = try_fat(CODE, &host).unwrap_err();
    assert!(malformed.to_string().contains("no symbol table for the 2 symbols counted in the header"), "{malformed}");
}

#[test]
fn there_is_one_host() {
    let host = elf(8, Endianness::Little);
    let members = [HOST, DEVICE, "host-powerpc64le-unknown-linux-gnu-"].map(|id| (id, host.as_slice()));
    assert!(try_fat_of(&members).unwrap_err().kind() == ErrorKind::Usage);
}

#[test]
fn an_object_whose_names_cannot_be_read_is_not_taken_for_one_without_a_bundle() {
    const SECTIONS_AT: usize = 40;
    let host = elf(8, Endianness::Little);
    let fat_elf = fat(&host);
    for object in [host, fat_elf] {
        let table = u64::from_le_bytes(object[SECTIONS_AT..SECTIONS_AT + 8].try_into().unwrap());
        let table = usize::try_from(table).unwrap();
        let names = table + 3 * 64;
        let (kind, size, index) = (names + 4, names + 32, 62);
        for (at, value) in
            [(kind, 0), (kind, 1), (kind, 8), (size, 0), (index, 0), (index, 1), (index, 99), (table + 2, 1)]
        {
            let mut data = object.clone();
            data[at] = value;
            assert!(read(&data).is_err(), "{value} at {at}");
        }
        // Without sections, nobody looks for names.
        let mut data = object.clone();
        data[SECTIONS_AT..SECTIONS_AT + 8].fill(0);
        assert!(matches!(read(&data), Ok(None)));
    }
    for big in [false, true] {
        let fat_coff = fat(&coff(big, &[".text"], b""));
        let headers_end = if big { 56 } else { 20 } + 3 * 40;
        for len in headers_end..fat_coff.len() {
            assert!(read(&fat_coff[..len]).is_err(), "the first {len} of {} bytes", fat_coff.len());
        }
    }
}

/// Returns whether an object has sections of a bundle, by the reader of another library, or `None` if that cannot read
/// all names.
fn has_a_bundle(data: &[u8]) -> Option<bool> {
    let file = object::File::parse(data).ok()?;
    let names = file.sections().map(|section| Some(section.name_bytes().ok()?.starts_with(MAGIC.as_bytes())));
    Some(names.collect::<Option<Vec<_>>>()?.contains(&true))
}

#[test]
#[cfg_attr(miri, ignore = "slow")]
fn no_change_of_one_byte_and_no_cut_is_worse_than_an_error() {
    for host in samples() {
        let fat = fat(&host);
        for len in 0..fat.len() {
            read_and_bundle(&fat[..len]);
        }
        for at in 0..fat.len() {
            for flip in [1, 0x80, 0xff] {
                let mut data = fat.clone();
                data[at] ^= flip;
                read_and_bundle(&data);
                // Without our record the sections are removed.
                if let Some(record) = memchr::memmem::find(&data, b"clang-offload-bundler fa") {
                    data[record] = 0;
                    read_and_bundle(&data);
                }
            }
        }
    }
}

/// Reads an object in every way and makes it the host of a fat object, which may fail.
fn read_and_bundle(data: &[u8]) {
    let contents = read(data);
    let is_silent = matches!(contents, Ok(None)) && memchr::memmem::find(data, MAGIC.as_bytes()).is_some();
    if is_silent && HostFormat::identify(data).is_some() {
        assert_eq!(has_a_bundle(data), Some(false));
    }
    for contents in contents.into_iter().flatten() {
        for entry in contents.entries {
            drop(entry.content(data));
        }
    }
    drop(try_fat_of(&[(HOST, data)]));
}

#[test]
fn adjacent_parts_are_joined() {
    let mut parts = vec![Part::Range(0..3), Part::Range(7..7), Part::Range(3..5), Part::Range(6..7)];
    for index in [0, 3] {
        parts.insert(index, Part::Bytes(Vec::new()));
    }
    assert_eq!(super::view::join_parts(parts), [Part::Range(0..5), Part::Range(6..7)]);
    let parts = vec![Part::Bytes(vec![1]), Part::Range(9..9), Part::Bytes(vec![2]), Part::Range(0..1)];
    assert_eq!(super::view::join_parts(parts), [Part::Bytes(vec![1, 2]), Part::Range(0..1)]);
}

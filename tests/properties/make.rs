//! Writes files that hold device code, from the descriptions of their formats.

use std::io::Write as _;

pub const SHT_PROGBITS: u32 = 1;
const SHT_NOTE: u32 = 7;
const SHT_NOBITS: u32 = 8;
pub const SHT_LLVM_OFFLOADING: u32 = 0x6fff_4c0b;

/// The number in `width` bytes, little-endian.
pub fn number(value: usize, width: usize) -> Vec<u8> {
    u64::try_from(value).unwrap().to_le_bytes()[..width].to_vec()
}

/// A section of an object.
pub struct Section<'s> {
    pub name: &'s str,
    pub kind: u32,
    pub content: &'s [u8],
    pub align: usize,
    /// The address in memory; zero for a section that is not loaded.
    pub address: usize,
    /// The numbers of other sections, and the length of an entry, for tables.
    pub table: [usize; 3],
}

impl<'s> Section<'s> {
    pub fn new(name: &'s str, content: &'s [u8]) -> Self {
        Self { name, kind: SHT_PROGBITS, content, align: 16, address: 0, table: [0; 3] }
    }

    pub fn aligned(self, align: usize) -> Self {
        Self { align, ..self }
    }

    pub fn offloading(self) -> Self {
        Self { kind: SHT_LLVM_OFFLOADING, ..self }
    }

    pub fn at(self, address: usize) -> Self {
        Self { address, ..self }
    }

    pub fn notes(self) -> Self {
        Self { kind: SHT_NOTE, ..self }
    }

    /// A table of this type: with the number of a section that it refers to, another number, and the length of an
    /// entry.
    pub fn table(self, kind: u32, link: usize, info: usize, entry_len: usize) -> Self {
        Self { kind, table: [link, info, entry_len], align: 8, ..self }
    }

    /// Only the size of the content is recorded.
    pub fn without_content(self) -> Self {
        Self { kind: SHT_NOBITS, ..self }
    }
}

/// Fields of an ELF header: machine and type.
#[derive(Clone, Copy)]
pub struct Elf {
    pub machine: u16,
    pub kind: u16,
    pub os: u8,
    pub abi: u8,
    pub flags: u32,
}

impl Elf {
    pub const OBJECT: Self = Self { machine: 62, kind: 1, os: 0, abi: 0, flags: 0 };
    pub const LIBRARY: Self = Self { kind: 3, ..Self::OBJECT };
    /// A header for an AMD GPU.
    pub const fn amdgpu(flags: u32) -> Self {
        Self { machine: 224, kind: 3, os: 64, abi: 4, flags }
    }

    /// The file, with 64 bits, little-endian.
    pub fn write(self, sections: &[Section<'_>]) -> Vec<u8> {
        let mut data = [b"\x7fELF\x02\x01\x01".as_slice(), &[self.os, self.abi], &[0; 7]].concat();
        data.extend([self.kind.to_le_bytes(), self.machine.to_le_bytes()].concat());
        data.extend(1_u32.to_le_bytes());
        data.resize(64, 0);
        data[48..52].copy_from_slice(&self.flags.to_le_bytes());
        data[52..64].copy_from_slice(&[64, 0, 56, 0, 0, 0, 64, 0, 0, 0, 0, 0]);
        let (mut names, mut headers) = (vec![0_u8], vec![0_u8; 64]);
        let of_strings = |name: &'static str, content| Section { kind: 3, align: 1, ..Section::new(name, content) };
        let names_section = of_strings(".shstrtab", &[]);
        // HIP's runtime takes no linked code without it.
        let is_refused = self.machine == 224 && self.kind != 1 && sections.iter().all(|known| known.name != ".strtab");
        let strings_section = is_refused.then(|| of_strings(".strtab", &[0]));
        for section in sections.iter().chain(&strings_section).chain([&names_section]) {
            let name_at = names.len();
            names.extend(section.name.as_bytes());
            names.push(0);
            let content = if section.name == ".shstrtab" { &names } else { section.content };
            data.resize(data.len().next_multiple_of(section.align), 0);
            headers.extend([number(name_at, 4), section.kind.to_le_bytes().to_vec()].concat());
            let flags = if section.address == 0 && !is_data(section.name) { 0 } else { 2 };
            headers.extend([number(flags, 8), number(section.address, 8)].concat());
            let [link, info, entry_len] = section.table;
            headers
                .extend([number(data.len(), 8), number(content.len(), 8), number(link, 4), number(info, 4)].concat());
            headers.extend([number(section.align, 8), number(entry_len, 8)].concat());
            if section.kind != SHT_NOBITS {
                data.extend(content);
            }
        }
        data.resize(data.len().next_multiple_of(8), 0);
        let (at, count) = (data.len(), headers.len() / 64);
        data[40..48].copy_from_slice(&number(at, 8));
        data[60..62].copy_from_slice(&number(count, 2));
        data[62..64].copy_from_slice(&number(count - 1, 2));
        data.extend(headers);
        data
    }
}

/// Whether sections of this name are data that programs load.
fn is_data(name: &str) -> bool {
    [".rodata", ".lrodata", ".data", ".rdata"].into_iter().any(|data| name.starts_with(data))
}

/// The characteristics of a section in COFF and PE: code that is run, data, or data that is not loaded.
fn characteristics(name: &str) -> usize {
    match name {
        ".text" => 0x6000_0020,
        name if name.starts_with(".debug") => 0x4200_0040,
        _ => 0x4000_0040,
    }
}

/// A COFF object for x86-64.
pub fn coff(sections: &[(&str, &[u8])]) -> Vec<u8> {
    let mut data = [&[0x64, 0x86][..], &number(sections.len(), 2), &[0; 16]].concat();
    let (mut names, mut contents) = (vec![0_u8; 4], vec![]);
    let contents_at = 20 + 40 * sections.len();
    for (name, content) in sections {
        let mut short = name.as_bytes().to_vec();
        if short.len() > 8 {
            short = format!("/{}", names.len()).into_bytes();
            names.extend(name.as_bytes());
            names.push(0);
        }
        short.resize(8, 0);
        data.extend(short);
        data.extend([vec![0; 8], number(content.len(), 4), number(contents_at + contents.len(), 4)].concat());
        data.extend([vec![0; 12], number(characteristics(name), 4)].concat());
        contents.extend(*content);
    }
    let len = names.len();
    names[..4].copy_from_slice(&number(len, 4));
    data[8..12].copy_from_slice(&number(contents_at + contents.len(), 4));
    [data, contents, names].concat()
}

/// A Mach-O object for x86-64 with these sections: segment, name and content.
pub fn mach_o(sections: &[(&str, &str, &[u8])]) -> Vec<u8> {
    let field = |name: &str| {
        let mut field = name.as_bytes().to_vec();
        field.resize(16, 0);
        field
    };
    let command_len = 72 + 80 * sections.len();
    let contents_at = 32 + command_len;
    let (mut headers, mut contents) = (Vec::new(), Vec::new());
    for (segment, name, content) in sections {
        let (address, offset) = (number(contents.len(), 8), number(contents_at + contents.len(), 4));
        headers.extend([field(name), field(segment), address, number(content.len(), 8), offset, vec![0; 28]].concat());
        contents.extend(*content);
        contents.resize(contents.len().next_multiple_of(8), 0);
    }
    let (len, at) = (number(contents.len(), 8), number(contents_at, 8));
    let head = [[0xcf, 0xfa, 0xed, 0xfe], [7, 0, 0, 1], [3, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0]].concat();
    let segment =
        [number(0x19, 4), number(command_len, 4), vec![0; 24], len.clone(), at, len, number(0x7_0000_0007, 8)];
    let segment = [segment.concat(), number(sections.len(), 4), vec![0; 4]].concat();
    [head, number(command_len, 4), vec![0; 8], segment, headers, contents].concat()
}

/// A PE library for x86-64 with these sections, whose names have at most 8 characters. The sections are at multiples of
/// 4096, one after another.
pub fn pe(sections: &[(&str, &[u8])]) -> Vec<u8> {
    let headers = (0x40 + 4 + 20 + 240 + 40 * sections.len()).next_multiple_of(512);
    let stored: Vec<usize> = sections.iter().map(|(_, content)| content.len().next_multiple_of(512)).collect();
    let mut data = b"MZ".to_vec();
    data.resize(0x3c, 0);
    data.extend(number(0x40, 4));
    data.extend(b"PE\0\0\x64\x86");
    data.extend([number(sections.len(), 2), vec![0; 12], number(240, 2), number(0x2022, 2)].concat());
    let (optional, mut address) = (data.len(), 4096);
    data.resize(optional + 240, 0);
    let mut contents = Vec::new();
    for ((name, content), stored) in sections.iter().zip(&stored) {
        let mut short = name.as_bytes().to_vec();
        short.resize(8, 0);
        data.extend([short, number(content.len(), 4), number(address, 4), number(*stored, 4)].concat());
        data.extend([number(headers + contents.len(), 4), vec![0; 12], number(characteristics(name), 4)].concat());
        address += content.len().max(1).next_multiple_of(4096);
        contents.extend(*content);
        contents.resize(contents.len().next_multiple_of(512), 0);
    }
    let fields = [(8, stored.iter().sum()), (32, 4096), (36, 512), (56, address), (60, headers), (108, 16)];
    data[optional..optional + 2].copy_from_slice(&[0x0b, 2]);
    for (at, field) in fields {
        data[optional + at..optional + at + 4].copy_from_slice(&number(field, 4));
    }
    data.resize(headers, 0);
    [data, contents].concat()
}

/// The header of a member of an archive.
pub fn archive_header(name: &str, size: usize) -> String {
    format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{size:<10}`\n", 0, 0, 0, 644)
}

/// A GNU archive without a symbol index.
pub fn archive(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut data = b"!<arch>\n".to_vec();
    for (name, content) in members {
        data.extend(archive_header(&format!("{name}/"), content.len()).as_bytes());
        data.extend(*content);
        data.resize(data.len().next_multiple_of(2), b'\n');
    }
    data
}

/// A thin GNU archive: the names and sizes of its members, which are files in its directory.
pub fn thin_archive(members: &[(&str, usize)]) -> Vec<u8> {
    let names: String = members.iter().map(|(name, _)| format!("{name}/\n")).collect();
    let mut data = format!("!<thin>\n{}{names}", archive_header("//", names.len())).into_bytes();
    data.resize(data.len().next_multiple_of(2), b'\n');
    let mut at = 0;
    for (name, size) in members {
        data.extend(archive_header(&format!("/{at}"), *size).as_bytes());
        at += name.len() + 2;
    }
    data
}

pub const STORED: u16 = 0;
pub const DEFLATED: u16 = 8;
pub const BZIP2: u16 = 12;
pub const LZMA: u16 = 14;
pub const ZSTD: u16 = 93;
pub const XZ: u16 = 95;

/// An LZMA stream as in zip files, with a mark at its end: the version of a library, the length of the properties, the
/// properties (`lc` 3, `lp` 0, `pb` 2, a dictionary of 64 KiB), and the stream.
fn lzma(content: &[u8]) -> Vec<u8> {
    let mut options = liblzma::stream::LzmaOptions::new_preset(1).unwrap();
    options.dict_size(1 << 16);
    let mut filters = liblzma::stream::Filters::new();
    filters.lzma1(&options);
    let stream = liblzma::stream::Stream::new_raw_encoder(&filters).unwrap();
    let header = vec![9, 20, 5, 0, 0x5d, 0, 0, 1, 0];
    let mut encoder = liblzma::write::XzEncoder::new_stream(header, stream);
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

/// A member of a zip file, and its fields in the directory.
#[derive(Clone)]
pub struct Zipped {
    pub name: Vec<u8>,
    pub method: u16,
    pub flags: u16,
    pub crc: u32,
    pub size: usize,
    pub stored: Vec<u8>,
    /// The index of the member that has the same bytes.
    pub same_as: Option<usize>,
    /// Whether sizes are in the extra field of 64-bit zip files.
    pub wide: bool,
}

impl Zipped {
    pub fn new(name: &str, method: u16, content: &[u8]) -> Self {
        let stored = match method {
            DEFLATED => {
                let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::default());
                encoder.write_all(content).unwrap();
                encoder.finish().unwrap()
            }
            BZIP2 => {
                let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
                encoder.write_all(content).unwrap();
                encoder.finish().unwrap()
            }
            LZMA => lzma(content),
            ZSTD => zstd::encode_all(content, 3).unwrap(),
            XZ => liblzma::encode_all(content, 1).unwrap(),
            _ => content.to_vec(),
        };
        let mut crc = flate2::Crc::new();
        crc.update(content);
        let (crc, size) = (crc.sum(), content.len());
        Self { name: name.as_bytes().to_vec(), method, flags: 0, crc, size, stored, same_as: None, wide: false }
    }

    fn sizes(&self) -> (Vec<u8>, Vec<u8>) {
        let real = [self.stored.len(), self.size];
        if self.wide {
            let extra = [number(1, 2), number(16, 2), number(self.size, 8), number(self.stored.len(), 8)].concat();
            return (vec![0xff; 8], extra);
        }
        (real.iter().flat_map(|&size| number(size, 4)).collect(), Vec::new())
    }

    fn common(&self) -> (Vec<u8>, Vec<u8>) {
        let (sizes, extra) = self.sizes();
        let head = [number(45, 2), self.flags.to_le_bytes().to_vec(), self.method.to_le_bytes().to_vec(), vec![0; 4]];
        let rest = [self.crc.to_le_bytes().to_vec(), sizes, number(self.name.len(), 2), number(extra.len(), 2)];
        ([head.concat(), rest.concat()].concat(), extra)
    }
}

/// A zip file, with the directory of 64-bit zip files if a member is wide.
pub fn zip(members: &[Zipped]) -> Vec<u8> {
    let (mut data, mut directory, mut places) = (Vec::new(), Vec::new(), Vec::new());
    for member in members {
        let at = member.same_as.map_or(data.len(), |other: usize| places[other]);
        places.push(at);
        let (common, extra) = member.common();
        if member.same_as.is_none() {
            data.extend([b"PK\x03\x04".as_slice(), &common, &member.name, &extra, &member.stored].concat());
        }
        directory.extend([b"PK\x01\x02\x2d\0".as_slice(), &common, &[0; 10], &number(at, 4)].concat());
        directory.extend([member.name.as_slice(), &extra].concat());
    }
    let (at, len, count) = (data.len(), directory.len(), members.len());
    data.extend(directory);
    if members.iter().any(|member| member.wide) {
        let wide_at = data.len();
        data.extend([b"PK\x06\x06".as_slice(), &number(44, 8), &[45, 0, 45, 0], &[0; 8]].concat());
        data.extend([count, count, len, at].iter().flat_map(|&value| number(value, 8)));
        data.extend([b"PK\x06\x07\0\0\0\0".as_slice(), &number(wide_at, 8), &[1, 0, 0, 0]].concat());
    }
    let end = [vec![0; 4], number(count, 2), number(count, 2), number(len, 4), number(at, 4), vec![0; 2]].concat();
    [data, b"PK\x05\x06".to_vec(), end].concat()
}

//! Writes programs with device images as DPC++ links them, from the description of their format, independent of the
//! library.

use super::formats::{number, read_number};
use super::make;

/// The alignment of images in a section.
const ALIGNMENT: usize = 16;

/// The address of the first section. It differs from the offset in the file.
const ADDRESS: usize = 0x40_0000;

/// A device image.
#[derive(Clone, Debug)]
pub struct Image {
    pub content: Vec<u8>,
    /// Whether it is stored as a zstd frame.
    pub is_packed: bool,
    /// Whether the table has it.
    pub is_listed: bool,
}

impl Image {
    pub fn new(content: &[u8]) -> Self {
        Self { content: content.to_vec(), is_packed: false, is_listed: true }
    }

    pub fn packed(self) -> Self {
        Self { is_packed: true, ..self }
    }

    pub fn unlisted(self) -> Self {
        Self { is_listed: false, ..self }
    }

    pub fn stored(&self) -> Vec<u8> {
        if self.is_packed { zstd::bulk::compress(&self.content, 3).unwrap() } else { self.content.clone() }
    }
}

/// A section of an ELF file: name, address and content.
pub type Section = (String, usize, Vec<u8>);

/// A program: sections with images, and their table, whose entries begin with the one at `rotated`.
#[derive(Clone, Debug)]
pub struct Program {
    pub sections: Vec<(String, Vec<Image>)>,
    pub rotated: usize,
}

impl Program {
    pub fn new(sections: &[(&str, &[Image])]) -> Self {
        let sections = sections.iter().map(|(name, images)| ((*name).to_owned(), images.to_vec())).collect();
        Self { sections, rotated: 0 }
    }

    /// The file.
    pub fn write(&self) -> Vec<u8> {
        elf(ELF_X86_64, &self.to_sections())
    }

    pub fn to_sections(&self) -> Vec<Section> {
        let mut sections: Vec<Section> = Vec::new();
        let mut table: Vec<[usize; 2]> = Vec::new();
        let mut address = ADDRESS;
        for (name, images) in &self.sections {
            let mut content = Vec::new();
            for image in images {
                content.resize(content.len().next_multiple_of(ALIGNMENT), 0);
                if image.is_listed {
                    table.push([address + content.len(), image.content.len()]);
                }
                content.extend(image.stored());
            }
            let end = (address + content.len()).next_multiple_of(0x1000);
            sections.push((name.clone(), address, content));
            address = end + 0x1000;
        }
        let len = table.len().max(1);
        table.rotate_left(self.rotated % len);
        if !table.is_empty() {
            sections.push((".tgtimg".to_owned(), address, table.concat().into_iter().flat_map(number).collect()));
        }
        sections
    }

    /// The images in the order of the file, with the names of their sections.
    pub fn images(&self) -> impl Iterator<Item = (&str, &Image)> {
        self.sections.iter().flat_map(|(name, images)| images.iter().map(|image| (name.as_str(), image)))
    }
}

/// Machines and types of ELF files.
pub const ELF_X86_64: (u16, u16) = (62, 3);
pub const ELF_INTEL: (u16, u16) = (205, 1);

/// A bundle whose entries all are one ELF file for Intel GPUs, with many sections.
pub fn shared_zebin(entries: usize, sections: usize) -> Vec<u8> {
    let sections: Vec<Section> = std::iter::repeat_n((".text".to_owned(), 0, Vec::new()), sections).collect();
    let code = elf(ELF_INTEL, &sections);
    let (count, id) = (u64::try_from(entries).unwrap(), b"sycl-spir64_gen--".as_slice());
    let [start, len, id_len] = [32 + count * 41, u64::try_from(code.len()).unwrap(), 17].map(u64::to_le_bytes);
    let entry = [start.as_slice(), &len, &id_len, id].concat();
    let header = [b"__CLANG_OFFLOAD_BUNDLE__".as_slice(), &count.to_le_bytes()].concat();
    [header, entry.repeat(entries), code].concat()
}

/// An ELF file of 64 bits with these sections.
pub fn elf((machine, kind): (u16, u16), sections: &[Section]) -> Vec<u8> {
    let mut made: Vec<_> = Vec::new();
    for (name, address, content) in sections {
        let section = make::Section::new(name, content).at(*address);
        made.push(if name == ".note.intelgt.compat" { section.notes() } else { section });
    }
    make::Elf { machine, kind, ..make::Elf::OBJECT }.write(&made)
}

/// Returns a SPIR-V module for kernels, with an instruction of `words` words that are `fill`.
pub fn spirv(words: u16, fill: u32) -> Vec<u8> {
    let mut module = vec![0x0723_0203, 0x1_0100, 0x6_000e, 100, 0, 0x2_0011, 4, 0x2_0011, 6, 0x3_000e, 2, 2];
    if words > 0 {
        module.push(u32::from(words) << 16 | 7);
        module.extend((1..words).map(|_| fill));
    }
    module.into_iter().flat_map(u32::to_le_bytes).collect()
}

/// A whole SPIR-V module with a function: for kernels (capability 6), or for graphics (1).
pub fn spirv_with_function(capability: u32) -> Vec<u8> {
    let head = [0x0723_0203, 0x1_0500, 0x6_000e, 9, 0, 0x2_0011, capability, 0x3_000e, 2, 2, 0x2_0013, 1];
    let function = [0x5_0036, 1, 2, 0, 3, 0x2_00f8, 4, 0x1_00fd, 0x1_0038];
    head.iter().chain(&function).flat_map(|word: &u32| word.to_le_bytes()).collect()
}

/// An ELF file for the Intel GPU with an IP version.
pub fn zebin(version: u32, code: &[u8]) -> Vec<u8> {
    let notes = [8, 4, 1].map(u32::to_le_bytes).concat();
    let notes = [&notes[..], b"IntelGT\0", &1270_u32.to_le_bytes()].concat();
    let config = [[8, 4, 6].map(u32::to_le_bytes).concat(), b"IntelGT\0".to_vec(), version.to_le_bytes().to_vec()];
    let notes = [notes, config.concat()].concat();
    elf(ELF_INTEL, &[(".text.k".to_owned(), 0, code.to_vec()), (".note.intelgt.compat".to_owned(), 0, notes)])
}

/// The IP version of Ponte Vecchio, as an example.
pub const PVC: u32 = 0x030f_0007;

/// The images that the table of a program of 64 bits, ELF or PE, has: their offsets and recorded sizes, in the order of
/// the file. A plain reader, to compare with.
pub fn listed(data: &[u8]) -> Vec<(usize, usize)> {
    let at = |at: usize, width: usize| usize::try_from(read_number(&data[at..at + width])).unwrap();
    // Name, address, offset, size.
    let mut sections: Vec<(Vec<u8>, usize, usize, usize)> = Vec::new();
    let mut relocated: Vec<(usize, usize)> = Vec::new();
    let name = |start: usize| data[start..].iter().copied().take_while(|&byte| byte != 0).collect::<Vec<u8>>();
    if data.starts_with(b"MZ") {
        let header = at(0x3c, 4);
        let (count, table) = (at(header + 6, 2), header + 24 + at(header + 20, 2));
        let base = at(header + 48, 8);
        for start in (0..count).map(|index| table + 40 * index) {
            let short: Vec<u8> = name(start).into_iter().take(8).collect();
            sections.push((short, base + at(start + 12, 4), at(start + 20, 4), at(start + 8, 4)));
        }
    } else {
        let (table, count, names) = (at(40, 8), at(60, 2), at(62, 2));
        let names = at(table + 64 * names + 24, 8);
        for start in (0..count).map(|index| table + 64 * index) {
            let (kind, offset, size) = (at(start + 4, 4), at(start + 24, 8), at(start + 32, 8));
            if kind == 4 {
                let of_relative = (offset..offset + size).step_by(24).filter(|&start| at(start + 8, 4) == 8);
                relocated.extend(of_relative.map(|start| (at(start, 8), at(start + 16, 8))));
            }
            if kind != 8 && at(start + 8, 8) & 2 != 0 {
                sections.push((name(names + at(start, 4)), at(start + 16, 8), offset, size));
            }
        }
    }
    relocated.sort_unstable();
    let mut images = Vec::new();
    for (_, address, offset, size) in sections.iter().filter(|(name, ..)| name == b".tgtimg") {
        for entry in (0..size / 16).map(|index| 16 * index) {
            let found = relocated.binary_search_by_key(&(address + entry), |(place, _)| *place);
            let target = found.map_or_else(|_| at(offset + entry, 8), |index| relocated[index].1);
            let holds =
                |(_, start, _, size): &&(Vec<u8>, usize, usize, usize)| (*start..*start + *size).contains(&target);
            if let Some((_, start, of_section, _)) = sections.iter().find(holds) {
                images.push((target - start + of_section, at(offset + entry + 8, 8)));
            }
        }
    }
    images.sort_unstable();
    images
}

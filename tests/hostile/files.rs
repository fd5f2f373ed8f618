//! Generates files that claim large amounts of data, from the descriptions of their formats.

use std::io::Write as _;

use md5::{Digest as _, Md5};

use crate::properties::make::archive_header;

/// A zstd frame of blocks written without a compressor.
pub struct Frame {
    data: Vec<u8>,
    last: usize,
    inflated: u64,
}

impl Frame {
    /// A frame without a size, with a window of 2 to the power of `log` bytes.
    pub fn new(log: u8) -> Self {
        let data = vec![0x28, 0xb5, 0x2f, 0xfd, 0, (log - 10) << 3];
        Self { last: data.len(), data, inflated: 0 }
    }

    fn block(mut self, kind: u32, size: usize, content: &[u8]) -> Self {
        self.last = self.data.len();
        let header = u32::try_from(size).unwrap() << 3 | kind << 1;
        self.data.extend(&header.to_le_bytes()[..3]);
        self.data.extend(content);
        self.inflated += u64::try_from(size).unwrap();
        self
    }

    /// Adds a block of these bytes.
    pub fn raw(self, content: &[u8]) -> Self {
        self.block(0, content.len(), content)
    }

    /// Adds `len` zero bytes: 128 KiB for every four bytes of the frame.
    pub fn zeros(mut self, mut len: usize) -> Self {
        while len > 0 {
            let size = len.min(128 << 10);
            self = self.block(1, size, &[0]);
            len -= size;
        }
        self
    }

    /// The inflated size.
    pub fn inflated(&self) -> u64 {
        self.inflated
    }

    pub fn finish(mut self) -> Vec<u8> {
        self.data[self.last] |= 1;
        self.data
    }
}

/// A compressed bundle with the given values in its header. Its hash is wrong.
pub fn ccob(version: u16, method: u16, inflated: u64, stream: &[u8]) -> Vec<u8> {
    let width = if version == 3 { 8 } else { 4 };
    let header_len = if version == 1 { 20 } else { 8 + 2 * width + 8 };
    let mut data = [b"CCOB".as_slice(), &version.to_le_bytes(), &method.to_le_bytes()].concat();
    if version > 1 {
        data.extend(&u64::try_from(header_len + stream.len()).unwrap().to_le_bytes()[..width]);
    }
    data.extend(&inflated.to_le_bytes()[..width]);
    data.extend(&Md5::digest(stream)[..8]);
    data.extend(stream);
    data
}

/// A valid compressed bundle of this content.
pub fn sealed(content: &[u8], stream: &[u8]) -> Vec<u8> {
    let mut data = ccob(2, 1, u64::try_from(content.len()).unwrap(), stream);
    data[16..24].copy_from_slice(&Md5::digest(content)[..8]);
    data
}

/// Zero bytes as a zlib stream.
pub fn zlib_zeros(len: usize) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    let block = vec![0; 1 << 16];
    (0..len / block.len()).for_each(|_| encoder.write_all(&block).unwrap());
    encoder.finish().unwrap()
}

/// A thin archive.
pub fn thin(members: &[&str]) -> Vec<u8> {
    let heads = members.iter().map(|name| archive_header(&format!("{name}/"), 0));
    format!("!<thin>\n{}", heads.collect::<String>()).into_bytes()
}

pub mod elf {
    fn file(sections: &[[u64; 6]], content: &[u8], names_index: u16) -> Vec<u8> {
        let mut data = b"\x7fELF\x02\x01\x01".to_vec();
        data.resize(16, 0);
        data.extend([1_u16.to_le_bytes(), 62_u16.to_le_bytes()].concat());
        data.extend(1_u32.to_le_bytes());
        let table = (64 + content.len()).next_multiple_of(8);
        [0, 0, u64::try_from(table).unwrap()].iter().for_each(|field: &u64| data.extend(field.to_le_bytes()));
        data.extend([0; 4]);
        let count = u16::try_from(sections.len()).unwrap();
        [64, 0, 0, 64, count, names_index].iter().for_each(|field: &u16| data.extend(field.to_le_bytes()));
        data.extend(content);
        data.resize(table, 0);
        for [name, kind, offset, size, link, info] in sections {
            [name, kind].iter().for_each(|field| data.extend(&field.to_le_bytes()[..4]));
            [0, 0, *offset, *size].iter().for_each(|field: &u64| data.extend(field.to_le_bytes()));
            [link, info].iter().for_each(|field| data.extend(&field.to_le_bytes()[..4]));
            let entry_len: u64 = if *kind == 2 { 24 } else { 0 };
            [1, entry_len].iter().for_each(|field| data.extend(field.to_le_bytes()));
        }
        data
    }

    /// An object with `count` sections that share one content, and a section with their names after them.
    pub fn sections(count: usize, kind: u64, content: &[u8]) -> Vec<u8> {
        let len = u64::try_from(content.len()).unwrap();
        let mut sections = vec![[0; 6]];
        sections.extend(vec![[1, kind, 64, len, 0, 0]; count]);
        sections.push([1, 3, 64 + len, 4, 0, 0]);
        let names_index = u16::try_from(count + 1).unwrap();
        file(&sections, &[content, b"\0a\0\0"].concat(), names_index)
    }

    /// An object with `count` sections of one name that share one content, and a section with their names after them.
    pub fn sections_of(name: &str, count: usize, content: &[u8]) -> Vec<u8> {
        let names = [b"\0", name.as_bytes(), b"\0"].concat();
        let [len, names_len] = [content.len(), names.len()].map(|len| u64::try_from(len).unwrap());
        let mut sections = vec![[0; 6]];
        sections.extend(vec![[1, 1, 64, len, 0, 0]; count]);
        sections.push([0, 3, 64 + len, names_len, 0, 0]);
        file(&sections, &[content, &names].concat(), u16::try_from(count + 1).unwrap())
    }

    /// An object with a fatbin, and `count` wrappers that relocations point at it.
    pub fn relocated_wrappers(fatbin: &[u8], count: usize) -> Vec<u8> {
        let names = b"\0.nv_fatbin\0.nvFatBinSegment\0";
        let wrappers = crate::properties::fatbins::wrapper(0).repeat(count);
        let address = |number: usize| u64::try_from(24 * number + 8).unwrap();
        let relocations = (0..count).flat_map(|number| [address(number), 1 << 32 | 1, 0]);
        let relocations: Vec<u8> = relocations.flat_map(u64::to_le_bytes).collect();
        // A symbol for section 1.
        let symbols = [&[0; 24][..], &[0, 0, 0, 0, 3, 0, 1, 0], &[0; 16]].concat();
        let contents = [fatbin, &wrappers, &relocations, &symbols, names];
        let kinds = [[1, 1, 0, 0], [12, 1, 0, 0], [0, 4, 4, 2], [0, 2, 5, 2], [0, 3, 0, 0]];
        let (mut sections, mut at) = (vec![[0; 6]], 64);
        for (content, [name, kind, link, info]) in contents.iter().zip(kinds) {
            let len = u64::try_from(content.len()).unwrap();
            sections.push([name, kind, at, len, link, info]);
            at += len;
        }
        file(&sections, &contents.concat(), 5)
    }

    /// An object with one section of this name and size, regardless of its content.
    pub fn named_section(name: &str, size: u64) -> Vec<u8> {
        let names = [b"\0", name.as_bytes(), b"\0"].concat();
        let len = u64::try_from(names.len()).unwrap();
        file(&[[0; 6], [1, 1, 64, size, 0, 0], [0, 3, 64, len, 0, 0]], &names, 2)
    }

    /// An object with this table of symbols and these names.
    pub fn symbol_table(table: &[u8], names: &[u8]) -> Vec<u8> {
        let [table_len, names_len] = [table.len(), names.len()].map(|len| u64::try_from(len).unwrap());
        let symtab = [0, 2, 64, table_len, 2, 1];
        file(&[[0; 6], symtab, [0, 3, 64 + table_len, names_len, 0, 0]], &[table, names].concat(), 2)
    }

    /// An object with `count` symbols that share one long name.
    pub fn symbols(count: usize, name_len: usize) -> Vec<u8> {
        let mut content = vec![0; 24];
        for _ in 0..count {
            content.extend(1_u32.to_le_bytes());
            content.extend([0x12, 0, 1, 0]);
            content.extend([0; 16]);
        }
        let names = [b"\0", vec![b'n'; name_len].as_slice(), b"\0"].concat();
        symbol_table(&content, &names)
    }
}

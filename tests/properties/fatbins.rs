//! Writes CUDA fatbins from the description of their format, independent of the library.

use std::io::Write as _;

use super::formats::number;

pub const MAGIC: &[u8] = b"\x50\xed\x55\xba";

pub const PTX: u16 = 1;
pub const CUBIN: u16 = 2;
const CONCATENATED: u16 = 256;

pub const ZLIB: u64 = 0x1000;
pub const LZ4: u64 = 0x2000;
pub const ZSTD: u64 = 0x8000;
/// The flags of a family-specific architecture, and of one architecture only.
pub const FAMILY: u64 = 0x20_0000;
pub const SPECIFIC: u64 = 0x10_0000;

/// 64-bit addresses, for a Linux host.
const FLAGS: u64 = 0x11;

/// A code object to write.
#[derive(Clone, Debug)]
pub struct Code {
    pub kind: u16,
    pub sm: u32,
    /// The method of compression, and other flags.
    pub flags: u64,
    pub source: Vec<u8>,
    pub options: Option<Vec<u8>>,
    /// With the zero byte after PTX.
    pub content: Vec<u8>,
}

impl Code {
    pub fn new(kind: u16, sm: u32, content: &[u8]) -> Self {
        Self { kind, sm, flags: FLAGS, source: Vec::new(), options: None, content: content.to_vec() }
    }

    /// PTX with its options, as `fatbinary` writes it.
    pub fn ptx(sm: u32) -> Self {
        let text = format!(".version 8.7\n.target sm_{sm}\n.address_size 64\n\0");
        Self { options: Some(Vec::new()), ..Self::new(PTX, sm, text.as_bytes()) }
    }

    /// A small ELF file of `fill` bytes besides its headers.
    pub fn cubin(sm: u8, fill: usize) -> Self {
        Self::new(CUBIN, sm.into(), &cubin(sm, fill))
    }

    pub fn with_flags(self, flags: u64) -> Self {
        Self { flags: self.flags | flags, ..self }
    }

    pub fn with_source(self, source: &str) -> Self {
        Self { source: source.as_bytes().to_vec(), ..self }
    }

    /// The content without the zero byte after PTX.
    pub fn extracted(&self) -> &[u8] {
        self.content.strip_suffix(b"\0").filter(|_| self.kind == PTX).unwrap_or(&self.content)
    }
}

/// An ELF file for an SM architecture: a section header of no section, contents, and a program header at an odd offset.
pub fn cubin(sm: u8, fill: usize) -> Vec<u8> {
    let mut elf = b"\x7fELF\x02\x01\x01\x41\x08".to_vec();
    elf.resize(64, 0);
    (elf[16], elf[18], elf[20]) = (2, 190, 1);
    elf[48..52].copy_from_slice(&[4, sm, 0, 6]);
    (elf[52], elf[54], elf[56], elf[58], elf[60]) = (64, 56, 1, 64, 1);
    elf[40] = 64;
    elf.resize(128, 0);
    elf.extend((0..fill).map(|at| if at % 64 < 48 { sm } else { u8::try_from(at / 64 % 251).unwrap() }));
    let end = number(elf.len());
    elf[32..40].copy_from_slice(&end);
    elf.extend([0; 56]);
    elf
}

/// A cubin as nvcc writes it for a source without code for GPUs: of its two sections, one has a table that is not loaded.
pub fn cubin_without_code(sm: u8) -> Vec<u8> {
    let mut elf = cubin(sm, 0);
    elf.truncate(128);
    elf[32..40].fill(0);
    (elf[56], elf[60]) = (0, 2);
    let mut section = [0; 64];
    section[4..8].copy_from_slice(&0x7000_0001_u32.to_le_bytes());
    elf.extend(section);
    elf
}

fn short(number: usize) -> [u8; 4] {
    u32::try_from(number).unwrap().to_le_bytes()
}

/// The data with zeros up to a multiple of 8.
pub fn padded(data: &[u8]) -> Vec<u8> {
    let mut data = data.to_vec();
    data.resize(data.len().next_multiple_of(8), 0);
    data
}

/// An LZ4 block of the literals, and then `repeats` times the last of them. Ends in five more literals, which are the
/// same, as a block must.
pub fn lz4_block(literals: &[u8], repeats: usize) -> Vec<u8> {
    let extra = |len: usize, out: &mut Vec<u8>| {
        if len >= 15 {
            out.extend(vec![255; (len - 15) / 255]);
            out.push(u8::try_from((len - 15) % 255).unwrap());
        }
    };
    let nibble = |len: usize| u8::try_from(len.min(15)).unwrap();
    let mut block = Vec::new();
    let matched = repeats.checked_sub(5).filter(|&matched| matched >= 12);
    let Some(matched) = matched else {
        let literals = [literals, &vec![literals.last().copied().unwrap_or(0); repeats]].concat();
        block.push(nibble(literals.len()) << 4);
        extra(literals.len(), &mut block);
        return [block, literals].concat();
    };
    block.push(nibble(literals.len()) << 4 | nibble(matched - 4));
    extra(literals.len(), &mut block);
    block.extend(literals);
    block.extend([1, 0]);
    extra(matched - 4, &mut block);
    block.push(5 << 4);
    block.extend([*literals.last().unwrap(); 5]);
    block
}

/// Returns the data compressed by the method in the flags, or `None` if it is plain.
fn packed(flags: u64, data: &[u8]) -> Option<Vec<u8>> {
    Some(match flags & (ZLIB | LZ4 | ZSTD) {
        0 => return None,
        ZLIB => {
            let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(data).unwrap();
            encoder.finish().unwrap()
        }
        LZ4 => {
            let end = data.iter().rposition(|byte| Some(byte) != data.last()).map_or(1, |at| at + 2).min(data.len());
            lz4_block(&data[..end], data.len() - end)
        }
        _ => zstd::bulk::compress(data, 3).unwrap(),
    })
}

/// The header of an entry or a record: the number at 4 (its length, unless given), the stored and the exact length, and
/// the inflated length.
fn header(code: &Code, at_4: Option<usize>, [stored, exact, inflated]: [usize; 3]) -> Vec<u8> {
    let mut strings = Vec::new();
    let (mut source_at, mut options_at) = (0, 0);
    if !code.source.is_empty() {
        source_at = 64;
        strings.extend(padded(&[&code.source[..], b"\0"].concat()));
    }
    if let Some(options) = &code.options {
        options_at = 64 + strings.len();
        strings.extend([short(options_at + 8), short(options.len())].concat());
        strings.extend(padded(&[&options[..], b"\0"].concat()));
    }
    let mut header = [code.kind.to_le_bytes(), [1, 1]].concat();
    header.extend(short(at_4.unwrap_or(64 + strings.len())));
    header.extend(number(stored));
    header.extend([short(exact), short(options_at), [7, 0, 1, 0], code.sm.to_le_bytes()].concat());
    header.extend([short(source_at), short(code.source.len())].concat());
    header.extend([code.flags.to_le_bytes(), [0; 8], number(inflated)].concat());
    [header, strings].concat()
}

/// An entry whose stored bytes and inflated length may be anything.
pub fn stored_entry(code: &Code, stored: &[u8], inflated: usize) -> Vec<u8> {
    let stored_len = stored.len().next_multiple_of(8);
    [header(code, None, [stored_len, stored.len(), inflated]), padded(stored)].concat()
}

/// An entry.
pub fn entry(code: &Code) -> Vec<u8> {
    match packed(code.flags, &code.content) {
        Some(stored) => stored_entry(code, &stored, code.content.len()),
        None => {
            let stored = padded(&code.content);
            [header(code, None, [stored.len(), 0, 0]), stored].concat()
        }
    }
}

/// The records of code objects that are compressed together, with their number and length. Each has an offset and a
/// length in the inflated bytes.
pub fn records(parts: &[(&Code, usize, usize)]) -> Vec<u8> {
    let records: Vec<u8> = parts.iter().flat_map(|(code, at, len)| header(code, Some(*at), [*len, 0, 0])).collect();
    [&short(parts.len())[..], &short(records.len() + 8), &records].concat()
}

/// An entry of code objects that are compressed together: their records, the stored bytes, and the inflated length.
pub fn stored_concatenated(flags: u64, records: &[u8], stored: &[u8], inflated: usize) -> Vec<u8> {
    let mut header = header(
        &Code::new(CONCATENATED, 0, &[]).with_flags(flags),
        Some(64 + records.len()),
        [stored.len().next_multiple_of(8), stored.len(), inflated],
    );
    header.extend(records);
    [header, padded(stored)].concat()
}

/// An entry of code objects that are compressed together by a method.
pub fn concatenated(flags: u64, parts: &[Code]) -> Vec<u8> {
    let (mut whole, mut places) = (Vec::new(), Vec::new());
    for part in parts {
        let content = padded(&part.content);
        places.push((part, whole.len(), content.len()));
        whole.extend(content);
    }
    stored_concatenated(flags, &records(&places), &packed(flags, &whole).unwrap(), whole.len())
}

/// A fatbin of these entries.
pub fn fatbin(entries: &[Vec<u8>]) -> Vec<u8> {
    let entries = entries.concat();
    [MAGIC, &[1, 0, 16, 0], &number(entries.len()), &entries].concat()
}

/// A wrapper of a fatbin at an address.
pub fn wrapper(address: u64) -> Vec<u8> {
    [&[0xb1, 0x43, 0x62, 0x46, 1, 0, 0, 0], &address.to_le_bytes()[..], &[0; 8]].concat()
}

/// A fatbin with each form of entry, without faults.
pub fn sample() -> Vec<u8> {
    let large = |sm| Code::cubin(sm, 901).with_source("a.cu");
    fatbin(&[
        entry(&Code::ptx(75)),
        entry(&Code::ptx(90).with_flags(SPECIFIC | ZSTD)),
        entry(&Code::cubin(80, 5).with_source("dir/b.cu")),
        entry(&Code::cubin(100, 700).with_flags(FAMILY | LZ4)),
        entry(&Code { kind: 16, ..Code::cubin(120, 3).with_flags(ZLIB) }),
        concatenated(ZSTD, &[large(75), large(86), large(89)]),
        concatenated(LZ4, &[Code::ptx(86), Code::ptx(120).with_flags(FAMILY)]),
    ])
}

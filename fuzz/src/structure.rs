//! Finds the numbers of each format. Takes containers apart and puts them together again.

use std::io::Write as _;

use memchr::memmem::find_iter;

use crate::properties::fatbins;
use crate::properties::formats::{self, Ccob, read_number};
use crate::properties::kpacks;

/// A number in the data: its offset, width and byte order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field {
    pub(crate) at: usize,
    pub(crate) width: usize,
    pub(crate) big: bool,
}

/// The maximum depth of containers in containers that is searched. Deeper ones are only changed as bytes.
const DEPTH_MAX: u32 = 3;

/// The number of records of one table whose numbers are used: enough for variety, and quick to find.
const RECORDS_MAX: u64 = 64;

/// Returns the numbers of the container at the start of some bytes, and of the containers in it.
pub(crate) fn fields(data: &[u8]) -> Vec<Field> {
    let mut fields = Vec::new();
    find(data, 0, DEPTH_MAX, &mut fields);
    fields.retain(|field| field.at.checked_add(field.width).is_some_and(|end| end <= data.len()));
    fields
}

/// Adds the numbers of the container at the start of `data`, and of containers in it, to `out`. `base` is the offset of
/// `data` in the input.
fn find(data: &[u8], base: usize, depth: u32, out: &mut Vec<Field>) {
    let Some(depth) = depth.checked_sub(1) else { return };
    let mut inner = |start: usize, len: usize| {
        if let Some(data) = start.checked_add(len).and_then(|end| data.get(start..end)) {
            find(data, base + start, depth, out);
        }
    };
    let mut own = Vec::new();
    if data.starts_with(formats::MAGIC) {
        own = binary(data);
        for entry in own.chunks(3) {
            if let [start, size, _] = entry {
                inner(value(data, start), value(data, size));
            }
        }
        find_after(data, binary_end(data), &mut inner);
    } else if let Some(header) = Ccob::read(data) {
        own = widths(4, &[2, 2], false);
        let wide = if header.version == 3 { 8 } else { 4 };
        own.extend(widths(8, if header.version == 1 { &[4, 8] } else { &[4, 4, 8] }, false).iter().scan(
            8,
            |at, field| {
                let width = if field.width == 8 { 8 } else { wide };
                *at += width;
                Some(Field { at: *at - width, width, big: false })
            },
        ));
        find_after(data, header.total.and_then(|total| usize::try_from(total).ok()), &mut inner);
    } else if data.starts_with(&[0x10, 0xff, 0x10, 0xad]) {
        own = offload_binary(data);
    } else if data.starts_with(fatbins::MAGIC) {
        own = fatbin(data);
    } else if data.starts_with(kpacks::MAGIC) {
        own = kpack(data);
    } else if data.starts_with(b"!<arch>\n") {
        for (start, len) in members(data) {
            inner(start, len);
        }
    } else if data.starts_with(b"\x7fELF") {
        own = elf(data);
        for section in sections(data) {
            inner(section.at, section.len);
        }
    } else if is_zip(data) {
        own = zip(data);
        for member in zip_members(data) {
            inner(member.at, member.stored);
        }
    } else if data.len() > 20 {
        own = coff(data);
    }
    out.extend(own.into_iter().map(|field| Field { at: field.at.saturating_add(base), ..field }));
}

/// Calls `inner` for the data after a bundle and its padding of zeros, if there is any. `end` is the end of the bundle,
/// or `None` if it is not known.
fn find_after(data: &[u8], end: Option<usize>, inner: &mut impl FnMut(usize, usize)) {
    if let Some(trailing) = end.and_then(|end| data.get(end..)) {
        let rest = without_zeros(trailing);
        if !rest.is_empty() {
            inner(data.len() - rest.len(), rest.len());
        }
    }
}

fn without_zeros(data: &[u8]) -> &[u8] {
    &data[data.iter().take_while(|byte| **byte == 0).count()..]
}

fn value(data: &[u8], field: &Field) -> usize {
    let Some(bytes) = field.at.checked_add(field.width).and_then(|end| data.get(field.at..end)) else { return 0 };
    let number = if field.big { bytes.iter().fold(0, |n, b| n << 8 | u64::from(*b)) } else { read_number(bytes) };
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Returns consecutive numbers of these widths.
fn widths(at: usize, widths: &[usize], big: bool) -> Vec<Field> {
    widths
        .iter()
        .scan(at, |at, width| {
            let field = Field { at: *at, width: *width, big };
            *at = at.saturating_add(*width);
            Some(field)
        })
        .collect()
}

/// Returns start, size and ID length of each entry, then the number of entries.
fn binary(data: &[u8]) -> Vec<Field> {
    let count = Field { at: 24, width: 8, big: false };
    let mut fields = Vec::new();
    let mut at = 32_usize;
    for _ in 0..u64::try_from(value(data, &count)).unwrap_or(0).min(RECORDS_MAX) {
        let entry = widths(at, &[8, 8, 8], false);
        let Some(end) = at.checked_add(24).and_then(|end| end.checked_add(value(data, &entry[2]))) else { break };
        if end > data.len() {
            break;
        }
        fields.extend(entry);
        at = end;
    }
    fields.push(count);
    fields
}

/// Returns the end of a binary bundle.
fn binary_end(data: &[u8]) -> Option<usize> {
    let fields = binary(data);
    let ends = fields.chunks_exact(3).map(|entry| value(data, &entry[0]).checked_add(value(data, &entry[1])));
    ends.collect::<Option<Vec<_>>>()?.into_iter().max()
}

fn offload_binary(data: &[u8]) -> Vec<Field> {
    let mut fields = widths(4, &[4, 8, 8, 8, 8], false);
    let number = |field: &Field| value(data, field);
    let (entries, count) = (number(&fields[2]), if number(&fields[0]) == 1 { 1 } else { number(&fields[3]) });
    for index in 0..count.min(8) {
        let entry = widths(entries.saturating_add(index * 40), &[2, 2, 4, 8, 8, 8, 8], false);
        let (strings, count) = (number(&entry[3]), number(&entry[4]));
        fields.extend(entry);
        fields.extend(widths(strings, &[8; 24][..count.min(8) * 3], false));
    }
    fields
}

/// Returns the fields of the header, of the entries' headers, and of the numbers and records of code objects that are
/// compressed together.
fn fatbin(data: &[u8]) -> Vec<Field> {
    const ENTRY: [usize; 16] = [2, 2, 4, 8, 4, 4, 2, 2, 4, 4, 4, 8, 8, 8, 4, 4];
    let mut fields = widths(4, &[2, 2, 8], false);
    let mut at = value(data, &fields[1]);
    for _ in 0..RECORDS_MAX {
        let entry = widths(at, &ENTRY, false);
        let (header_len, stored_len) = (value(data, &entry[2]), value(data, &entry[3]));
        if header_len < 64 {
            break;
        }
        if value(data, &entry[0]) == 256 {
            fields.extend(widths(at.saturating_add(72), &ENTRY, false));
        }
        fields.extend(entry);
        at = at.saturating_add(header_len).saturating_add(stored_len);
        if at >= data.len() {
            break;
        }
    }
    fields
}

/// The header, the number and first length of frames, and the lengths and integers of the table of contents.
fn kpack(data: &[u8]) -> Vec<Field> {
    let mut fields = [widths(4, &[4, 8], false), widths(64, &[4, 4], false)].concat();
    let mut at = value(data, &fields[1]);
    while let Some(&marker) = data.get(at).filter(|_| fields.len() < 1000) {
        let (width, is_text) = match marker {
            0xc4 | 0xd9 => (1, true),
            0xc5 | 0xda => (2, true),
            0xc6 | 0xdb => (4, true),
            0xcc | 0xd0 => (1, false),
            0xcd | 0xd1 | 0xdc | 0xde => (2, false),
            0xce | 0xd2 | 0xdd | 0xdf => (4, false),
            0xcf | 0xd3 => (8, false),
            _ => (0, false),
        };
        // Short lengths and numbers are part of the marker.
        let field = Field { at: if width == 0 { at } else { at + 1 }, width: width.max(1), big: true };
        let text = match marker {
            0xa0..0xc0 => usize::from(marker & 0x1f),
            _ if is_text => value(data, &field),
            _ => 0,
        };
        fields.push(field);
        at = at.saturating_add(1 + width).saturating_add(text);
    }
    fields
}

/// The header, section headers and the symbols of symbol tables.
fn elf(data: &[u8]) -> Vec<Field> {
    let (wide, big) = (data.get(4) == Some(&2), data.get(5) == Some(&2));
    let word = if wide { 8 } else { 4 };
    let mut fields = widths(16, &[2, 2, 4, word, word, word, 4, 2, 2, 2, 2, 2, 2], big);
    let (table, count) = (value(data, &fields[5]), value(data, &fields[11]));
    let section: [usize; 10] = [4, 4, word, word, word, word, 4, 4, word, word];
    let mut symbols = Vec::new();
    for index in 0..u64::try_from(count).unwrap_or(0).min(RECORDS_MAX) {
        let at = table.saturating_add(usize::try_from(index).unwrap_or(0) * if wide { 64 } else { 40 });
        let section = widths(at, &section, big);
        if matches!(value(data, &section[1]), 2 | 17 | 18) {
            symbols.push((value(data, &section[4]), value(data, &section[5])));
        }
        fields.extend(section);
    }
    for (at, len) in symbols {
        fields.extend(widths(at, &[4; 32][..(len / 4).min(32)], big));
    }
    fields
}

/// Returns the fields of the header, section headers and symbols of a COFF object. COFF has no magic number, so any
/// bytes that are nothing else are treated as COFF.
fn coff(data: &[u8]) -> Vec<Field> {
    let big_object = data.starts_with(&[0, 0, 0xff, 0xff]);
    let (mut fields, header, symbol) = if big_object {
        (widths(44, &[4, 4, 4], false), 56, &[4, 4, 4, 4, 2, 1, 1][..])
    } else {
        (widths(2, &[2, 4, 4, 4, 2, 2], false), 20, &[4, 4, 4, 2, 2, 1, 1][..])
    };
    let (sections, table, symbols) =
        (fields[0], fields[if big_object { 1 } else { 2 }], fields[if big_object { 2 } else { 3 }]);
    for index in 0..value(data, &sections).min(32) {
        fields.extend(widths(header + index * 40, &[8, 4, 4, 4, 4, 4, 4, 2, 2, 4], false));
    }
    let size: usize = symbol.iter().sum();
    let count = value(data, &symbols).min(32);
    for index in 0..count {
        fields.extend(widths(value(data, &table).saturating_add(index * size), symbol, false));
    }
    let strings = value(data, &symbols).saturating_mul(size).saturating_add(value(data, &table));
    fields.extend(widths(strings, &[4], false));
    fields
}

/// Returns the ranges of the contents of the members of an archive.
fn members(data: &[u8]) -> Vec<(usize, usize)> {
    let mut members = Vec::new();
    let mut at = 8;
    while let Some(header) = data.get(at..at + 60) {
        let size = std::str::from_utf8(&header[48..58]).ok().and_then(|size| size.trim_end().parse::<usize>().ok());
        let Some(size) = size.filter(|size| *size <= data.len() - at - 60) else { break };
        members.push((at + 60, size));
        at += 60 + size.next_multiple_of(2);
    }
    members
}

/// A section of a 64-bit little-endian ELF file that holds containers.
pub(crate) struct Section {
    at: usize,
    len: usize,
    /// The offset of its header.
    header: usize,
}

fn sections(data: &[u8]) -> Vec<Section> {
    if !data.starts_with(b"\x7fELF\x02\x01") {
        return Vec::new();
    }
    let [table, count] = [(40, 8), (60, 2)].map(|(at, width)| value(data, &Field { at, width, big: false }));
    let headers = (0..count.min(32)).map(|index| table.saturating_add(index * 64));
    let section = |header: usize| {
        let [at, len] =
            [24, 32].map(|field| value(data, &Field { at: header.saturating_add(field), width: 8, big: false }));
        let content = data.get(at..at.checked_add(len)?)?;
        let magics: [&[u8]; 5] =
            [formats::MAGIC, b"CCOB", &[0x10, 0xff, 0x10, 0xad], fatbins::MAGIC, kpacks::MAGIC];
        magics.iter().any(|magic| content.starts_with(magic)).then_some(Section { at, len, header })
    };
    headers.filter_map(section).collect()
}

fn is_zip(data: &[u8]) -> bool {
    data.starts_with(b"PK\x03\x04") || data.starts_with(b"PK\x05\x06")
}

/// The signatures of the records of a zip file, and the widths of the numbers in each.
const RECORDS: [(&[u8; 4], &[usize]); 5] = [
    (b"PK\x03\x04", &[2, 2, 2, 2, 2, 4, 4, 4, 2, 2]),
    (b"PK\x01\x02", &[2, 2, 2, 2, 2, 2, 4, 4, 4, 2, 2, 2, 2, 2, 4, 4]),
    (b"PK\x05\x06", &[2, 2, 2, 2, 4, 4, 2]),
    (b"PK\x06\x06", &[8, 2, 2, 4, 4, 8, 8, 8, 8]),
    (b"PK\x06\x07", &[4, 8, 4]),
];

/// The local headers, the directory with the extra fields that 64-bit zip files have, and the end.
fn zip(data: &[u8]) -> Vec<Field> {
    let mut fields = Vec::new();
    for (magic, record) in RECORDS {
        for at in find_iter(data, magic).take(16) {
            let record = widths(at + 4, record, false);
            let extra = match record.len() {
                10 => at.saturating_add(30).saturating_add(value(data, &record[8])),
                16 => at.saturating_add(46).saturating_add(value(data, &record[9])),
                _ => usize::MAX,
            };
            fields.extend(record);
            if data.get(extra..).is_some_and(|extra| extra.starts_with(&[1, 0])) {
                fields.extend(widths(extra, &[2, 2, 8, 8, 8], false));
            }
        }
    }
    fields
}

/// A member of a zip file, as its directory records it.
struct ZipMember {
    name: Vec<u8>,
    method: u16,
    at: usize,
    stored: usize,
}

/// Returns the members whose bytes are in the file.
fn zip_members(data: &[u8]) -> Vec<ZipMember> {
    let number = |at: usize, width: usize| value(data, &Field { at, width, big: false });
    let member = |at: usize| {
        let name = data.get(at + 46..(at + 46).checked_add(number(at + 28, 2))?)?.to_vec();
        let (mut stored, local) = (number(at + 20, 4), number(at + 42, 4));
        if stored == 0xffff_ffff {
            stored = number((at + 46 + name.len()).checked_add(12)?, 8);
        }
        let start = local.checked_add(30)?.checked_add(number(local.checked_add(26)?, 2))?;
        let start = start.checked_add(number(local.checked_add(28)?, 2))?;
        data.get(start..start.checked_add(stored)?)?;
        Some(ZipMember { name, method: u16::try_from(number(at + 10, 2)).ok()?, at: start, stored })
    };
    find_iter(data, b"PK\x01\x02").take(32).filter_map(member).collect()
}

/// A container taken apart: any of its payloads may be replaced.
pub(crate) enum Parts {
    /// The inflated bytes, and how they are compressed.
    Compressed { version: u16, method: u16, payload: Vec<u8>, trailing: TrailingData },
    /// The entries of a binary bundle, and the data after it.
    Binary { entries: Vec<(Vec<u8>, Vec<u8>)>, trailing: TrailingData },
    /// Members of an archive, each with its header.
    Archive(Vec<(Vec<u8>, Vec<u8>)>),
    /// Members of a zip file: names, methods, contents.
    Zip(Vec<(Vec<u8>, u16, Vec<u8>)>),
    /// An ELF file, and the contents of its sections that hold containers.
    Elf { data: Vec<u8>, sections: Vec<(Section, Vec<u8>)> },
}

/// The data after a bundle, and its alignment.
pub(crate) struct TrailingData {
    align: usize,
    rest: Vec<u8>,
}

impl TrailingData {
    fn of(data: &[u8], end: usize) -> Self {
        let trailing = data.get(end..).unwrap_or_default();
        let rest = without_zeros(trailing);
        let is_page = rest.len() < trailing.len() && (data.len() - rest.len()).is_multiple_of(4096);
        Self { align: if is_page { 4096 } else { 1 }, rest: rest.to_vec() }
    }

    /// Returns the bundle followed by this data.
    fn join(&self, mut bundle: Vec<u8>) -> Vec<u8> {
        if !self.rest.is_empty() {
            bundle.resize(bundle.len().next_multiple_of(self.align), 0);
            bundle.extend(&self.rest);
        }
        bundle
    }
}

impl Parts {
    /// Takes a container apart, or returns `None` if the bytes are not a container that can be put together again.
    pub(crate) fn of(data: &[u8]) -> Option<Self> {
        if let Some(Ccob { version, method, total, header_len, .. }) = Ccob::read(data) {
            let end = total.and_then(|total| usize::try_from(total).ok()).unwrap_or(data.len()).min(data.len());
            let payload = formats::inflate(method, data.get(header_len..end)?);
            return Some(Self::Compressed { version, method, payload, trailing: TrailingData::of(data, end) });
        }
        if data.starts_with(formats::MAGIC) {
            let fields = binary(data);
            let mut last = 0;
            let entries = fields.chunks_exact(3).map(|entry| {
                let [start, size, id] = [0, 1, 2].map(|index| value(data, &entry[index]));
                let end = start.checked_add(size)?;
                last = last.max(end);
                let at = entry[2].at + 8;
                Some((data.get(at..at.checked_add(id)?)?.to_vec(), data.get(start..end)?.to_vec()))
            });
            let entries = entries.collect::<Option<Vec<_>>>()?;
            return Some(Self::Binary { entries, trailing: TrailingData::of(data, last) });
        }
        if is_zip(data) {
            let member = |member: ZipMember| {
                let stored = &data[member.at..member.at + member.stored];
                let content = match member.method {
                    8 => formats::inflate(formats::RAW_DEFLATE, stored),
                    93 => formats::inflate(1, stored),
                    _ => stored.to_vec(),
                };
                (member.name, member.method, content)
            };
            return Some(Self::Zip(zip_members(data).into_iter().map(member).collect()));
        }
        if data.starts_with(b"\x7fELF") {
            let sections = sections(data).into_iter();
            let sections = sections.map(|section| {
                let content = data[section.at..section.at + section.len].to_vec();
                (section, content)
            });
            return Some(Self::Elf { data: data.to_vec(), sections: sections.collect() });
        }
        if !data.starts_with(b"!<arch>\n") {
            return None;
        }
        let member =
            |(start, len): (usize, usize)| (data[start - 60..start].to_vec(), data[start..start + len].to_vec());
        Some(Self::Archive(members(data).into_iter().map(member).collect()))
    }

    /// Returns the parts that may be changed: contents, IDs, names, and data after a bundle.
    pub(crate) fn payloads(&mut self) -> Vec<&mut Vec<u8>> {
        let trailing = |trailing| Some(trailing).filter(|trailing: &&mut Vec<u8>| !trailing.is_empty());
        match self {
            Self::Compressed { payload, trailing: TrailingData { rest, .. }, .. } => {
                [payload].into_iter().chain(trailing(rest)).collect()
            }
            Self::Binary { entries, trailing: TrailingData { rest, .. } } => {
                entries.iter_mut().flat_map(|(id, content)| [id, content]).chain(trailing(rest)).collect()
            }
            Self::Archive(members) => members.iter_mut().map(|(_, content)| content).collect(),
            Self::Zip(members) => members.iter_mut().flat_map(|(name, _, content)| [name, content]).collect(),
            Self::Elf { sections, .. } => sections.iter_mut().map(|(_, content)| content).collect(),
        }
    }

    /// Returns the container around the payloads, which may have been changed, with correct headers. `choice` is a
    /// random number that decides on further changes: another order, method, version or alignment.
    pub(crate) fn join(self, choice: u64) -> Vec<u8> {
        match self {
            Self::Compressed { version, method, payload, trailing } => {
                let (version, method) = if choice % 8 == 0 {
                    (u16::try_from(choice / 8 % 3).unwrap_or(0) + 1, u16::try_from(choice / 64 % 2).unwrap_or(0))
                } else {
                    (version, method)
                };
                trailing.join(compressed(version, method, &payload))
            }
            Self::Binary { mut entries, trailing } => {
                rearrange(&mut entries, choice);
                let align = [1, 1, 8, 64][usize::try_from(choice / 1024 % 4).unwrap_or(0)];
                trailing.join(formats::binary(&entries, align))
            }
            Self::Zip(mut members) => {
                rearrange(&mut members, choice);
                if choice / 1024 % 4 == 0
                    && let Some((_, method, _)) = members.first_mut()
                {
                    *method = [0, 8, 93][usize::try_from(choice / 4096 % 3).unwrap_or(0)];
                }
                zipped(&members, choice / 65536 % 8 == 0)
            }
            Self::Elf { data, sections } => placed(data, &sections),
            Self::Archive(members) => {
                let mut data = b"!<arch>\n".to_vec();
                for (mut header, content) in members {
                    header[48..58].copy_from_slice(format!("{:<10}", content.len()).as_bytes());
                    data.extend(header);
                    data.extend(&content);
                    data.resize(data.len().next_multiple_of(2), b'\n');
                }
                data
            }
        }
    }
}

/// Removes, repeats or rotates entries, if `choice` says so.
fn rearrange<T: Clone>(entries: &mut Vec<T>, choice: u64) {
    let index = usize::try_from(choice / 16).unwrap_or(0) % entries.len().max(1);
    match choice % 16 {
        0 if !entries.is_empty() => drop(entries.remove(index)),
        1 if !entries.is_empty() => entries.push(entries[index].clone()),
        2 if !entries.is_empty() => entries.rotate_left(index),
        _ => {}
    }
}

/// Puts the contents into their sections, or at the end of the file if they have become longer. Corrects the offsets
/// and sizes in the section headers.
fn placed(mut data: Vec<u8>, sections: &[(Section, Vec<u8>)]) -> Vec<u8> {
    for (section, content) in sections {
        let mut at = section.at;
        if content.len() > section.len {
            at = data.len().next_multiple_of(4096);
            data.resize(at + content.len(), 0);
        } else {
            data[at..at + section.len].fill(0);
        }
        data[at..at + content.len()].copy_from_slice(content);
        for (field, number) in [(24, at), (32, content.len())] {
            let bytes = u64::try_from(number).unwrap_or(0).to_le_bytes();
            data[section.header + field..section.header + field + 8].copy_from_slice(&bytes);
        }
    }
    data
}

/// Returns a zip file of names, methods and contents, with correct sizes and checksums.
fn zipped(members: &[(Vec<u8>, u16, Vec<u8>)], wide: bool) -> Vec<u8> {
    let number = |number: usize, width: usize| u64::try_from(number).unwrap_or(0).to_le_bytes()[..width].to_vec();
    let (mut data, mut directory) = (Vec::new(), Vec::new());
    for (name, method, content) in members {
        let stored = match method {
            8 => {
                let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
                encoder.write_all(content).and_then(|()| encoder.finish()).unwrap_or_default()
            }
            93 => zstd::encode_all(content.as_slice(), 1).unwrap_or_default(),
            _ => content.clone(),
        };
        let mut crc = flate2::Crc::new();
        crc.update(content);
        let name = &name[..name.len().min(1000)];
        let (sizes, extra) = if wide {
            let extra = [number(1, 2), number(16, 2), number(content.len(), 8), number(stored.len(), 8)];
            (vec![0xff; 8], extra.concat())
        } else {
            ([number(stored.len(), 4), number(content.len(), 4)].concat(), Vec::new())
        };
        let head = [number(45, 2), number(0, 2), method.to_le_bytes().to_vec(), vec![0; 4]].concat();
        let rest = [crc.sum().to_le_bytes().to_vec(), sizes, number(name.len(), 2), number(extra.len(), 2)].concat();
        let at = number(data.len(), 4);
        data.extend([b"PK\x03\x04", &head[..], &rest, name, &extra, &stored].concat());
        directory.extend([b"PK\x01\x02\x2d\0", &head[..], &rest, &[0; 10], &at, name, &extra].concat());
    }
    let (at, len, count) = (data.len(), directory.len(), members.len());
    data.extend(directory);
    if wide {
        let wide_at = data.len();
        data.extend([b"PK\x06\x06", &number(44, 8)[..], &[45, 0, 45, 0], &[0; 8]].concat());
        data.extend([count, count, len, at].iter().flat_map(|value| number(*value, 8)));
        data.extend([b"PK\x06\x07\0\0\0\0", &number(wide_at, 8)[..], &[1, 0, 0, 0]].concat());
    }
    let end = [number(0, 4), number(count, 2), number(count, 2), number(len, 4), number(at, 4), number(0, 2)].concat();
    [data, b"PK\x05\x06".to_vec(), end].concat()
}

/// A compressed bundle of a version and a method around some bytes.
fn compressed(version: u16, method: u16, payload: &[u8]) -> Vec<u8> {
    let stream = if method == 0 {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(payload).and_then(|()| encoder.finish()).unwrap_or_default()
    } else {
        zstd::encode_all(payload, 1).unwrap_or_default()
    };
    let (width, header_len) = match version {
        1 => (4, 20),
        2 => (4, 24),
        _ => (8, 32),
    };
    let number = |number: usize| u64::try_from(number).unwrap_or(0).to_le_bytes();
    let mut data = [b"CCOB".as_slice(), &version.to_le_bytes(), &method.to_le_bytes()].concat();
    if version != 1 {
        data.extend(&number(header_len + stream.len())[..width]);
    }
    data.extend(&number(payload.len())[..width]);
    data.extend(formats::hash(payload).to_le_bytes());
    data.extend(stream);
    data
}

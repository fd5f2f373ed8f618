//! Where the numbers of each format are, and taking a container apart and putting it together again.

use std::io::Write as _;

use crate::properties::formats::{self, Ccob, read_number};

/// A number in the data: where, how wide, and in which byte order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field {
    pub(crate) at: usize,
    pub(crate) width: usize,
    pub(crate) big: bool,
}

/// How deep containers in containers are looked for.
const DEPTH_MAX: u32 = 3;

/// How many records of one table are fields.
const RECORDS_MAX: u64 = 64;

/// The numbers of the container that some bytes are, and of those inside.
pub(crate) fn fields(data: &[u8]) -> Vec<Field> {
    let mut fields = Vec::new();
    find(data, 0, DEPTH_MAX, &mut fields);
    fields.retain(|field| field.at.checked_add(field.width).is_some_and(|end| end <= data.len()));
    fields
}

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
    } else if data.starts_with(&[0x10, 0xff, 0x10, 0xad]) {
        own = offload_binary(data);
    } else if data.starts_with(b"!<arch>\n") {
        for (start, len) in members(data) {
            inner(start, len);
        }
    } else if data.starts_with(b"\x7fELF") {
        own = elf(data);
    } else if data.len() > 20 {
        own = coff(data);
    }
    out.extend(own.into_iter().map(|field| Field { at: field.at.saturating_add(base), ..field }));
}

fn value(data: &[u8], field: &Field) -> usize {
    let Some(bytes) = field.at.checked_add(field.width).and_then(|end| data.get(field.at..end)) else { return 0 };
    let number = if field.big { bytes.iter().fold(0, |n, b| n << 8 | u64::from(*b)) } else { read_number(bytes) };
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Numbers of these widths, one behind the other.
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

/// Start, size and ID length of each entry, then the count.
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

/// The header, section headers and symbols; of bytes that are no COFF, numbers at these places all the same.
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

/// Where the contents of the members of an archive are.
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

/// A container taken apart: its payloads, of which any may be replaced.
pub(crate) enum Parts {
    /// The inflated bytes, and how they are compressed.
    Compressed { version: u16, method: u16, payload: Vec<u8>, behind: Vec<u8> },
    /// The entries of a binary bundle, and what follows.
    Binary { entries: Vec<(Vec<u8>, Vec<u8>)>, behind: Vec<u8> },
    /// Members of an archive, each with its header.
    Archive(Vec<(Vec<u8>, Vec<u8>)>),
}

impl Parts {
    pub(crate) fn of(data: &[u8]) -> Option<Self> {
        if let Some(Ccob { version, method, total, header_len, .. }) = Ccob::read(data) {
            let end = total.and_then(|total| usize::try_from(total).ok()).unwrap_or(data.len()).min(data.len());
            let payload = formats::inflate(method, data.get(header_len..end)?);
            return Some(Self::Compressed { version, method, payload, behind: data[end..].to_vec() });
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
            return Some(Self::Binary { entries, behind: data.get(last..).unwrap_or_default().to_vec() });
        }
        if !data.starts_with(b"!<arch>\n") {
            return None;
        }
        let member =
            |(start, len): (usize, usize)| (data[start - 60..start].to_vec(), data[start..start + len].to_vec());
        Some(Self::Archive(members(data).into_iter().map(member).collect()))
    }

    /// The payloads.
    pub(crate) fn payloads(&mut self) -> Vec<&mut Vec<u8>> {
        match self {
            Self::Compressed { payload, .. } => vec![payload],
            Self::Binary { entries, .. } => entries.iter_mut().flat_map(|(id, content)| [id, content]).collect(),
            Self::Archive(members) => members.iter_mut().map(|(_, content)| content).collect(),
        }
    }

    /// The container around the payloads as they are now; `choice` decides what else it may change.
    pub(crate) fn join(self, choice: u64) -> Vec<u8> {
        match self {
            Self::Compressed { version, method, payload, behind } => {
                let (version, method) = if choice % 8 == 0 {
                    (u16::try_from(choice / 8 % 3).unwrap_or(0) + 1, u16::try_from(choice / 64 % 2).unwrap_or(0))
                } else {
                    (version, method)
                };
                [compressed(version, method, &payload), behind].concat()
            }
            Self::Binary { mut entries, behind } => {
                let len = entries.len().max(1);
                let index = usize::try_from(choice / 16).unwrap_or(0) % len;
                match choice % 16 {
                    0 if !entries.is_empty() => drop(entries.remove(index)),
                    1 if !entries.is_empty() => entries.push(entries[index].clone()),
                    2 if !entries.is_empty() => entries.rotate_left(index),
                    _ => {}
                }
                let align = [1, 1, 8, 64][usize::try_from(choice / 1024 % 4).unwrap_or(0)];
                [formats::binary(&entries, align), behind].concat()
            }
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

//! Writes and reads offload binaries from their description, independent of both tools.

use std::io::{Read as _, Write as _};

pub const MAGIC: &[u8] = b"\x10\xff\x10\xad";

/// An image and its recorded fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    pub image_kind: u16,
    pub kind: u16,
    pub flags: u32,
    pub strings: Vec<(Vec<u8>, Vec<u8>)>,
    pub content: Vec<u8>,
}

impl Image {
    pub fn new(image_kind: u16, kind: u16, strings: &[(&str, &str)], content: &[u8]) -> Self {
        let strings = strings.iter().map(|(key, value)| (key.as_bytes().to_vec(), value.as_bytes().to_vec())).collect();
        Self { image_kind, kind, flags: 0, strings, content: content.to_vec() }
    }

    /// The value of a key; empty without the key, and the last one of several.
    pub fn string(&self, key: &str) -> String {
        let found = self.strings.iter().rev().find(|(known, _)| known == key.as_bytes());
        found.map_or(String::new(), |(_, value)| String::from_utf8_lossy(value).into_owned())
    }
}

fn u64_bytes(number: usize) -> [u8; 8] {
    u64::try_from(number).unwrap().to_le_bytes()
}

/// Offload binaries of a version: one per image in version 1, otherwise one with all images.
pub fn write(version: u32, images: &[Image]) -> Vec<u8> {
    if version == 1 {
        return images.iter().flat_map(|image| write_one(1, std::slice::from_ref(image))).collect();
    }
    write_one(version, images)
}

fn write_one(version: u32, images: &[Image]) -> Vec<u8> {
    let header = if version == 3 { 40 } else { 32 };
    let string_entry = if version == 1 { 16 } else { 24 };
    let strings: usize = images.iter().map(|image| image.strings.len()).sum();
    let table_at = header + 40 * images.len() + string_entry * strings;
    let (mut table, mut string_entries, mut entries, mut contents) = (vec![0], vec![], vec![], Vec::<u8>::new());
    let table_len: usize =
        images.iter().flat_map(|image| &image.strings).map(|(key, value)| key.len() + value.len() + 2).sum();
    let contents_at = (table_at + 1 + table_len).next_multiple_of(8);
    for image in images {
        let strings_at = header + 40 * images.len() + string_entries.len();
        entries.extend([image.image_kind.to_le_bytes(), image.kind.to_le_bytes()].concat());
        entries.extend(image.flags.to_le_bytes());
        let numbers = [strings_at, image.strings.len(), contents_at + contents.len(), image.content.len()];
        numbers.iter().for_each(|&number| entries.extend(u64_bytes(number)));
        contents.extend(&image.content);
        for (key, value) in &image.strings {
            for text in [key, value] {
                string_entries.extend(u64_bytes(table_at + table.len()));
                table.extend(text);
                table.push(0);
            }
            if version > 1 {
                string_entries.extend(u64_bytes(value.len()));
            }
        }
    }
    let size = (contents_at + contents.len()).next_multiple_of(8);
    let of_entries = if version == 1 { 40 } else { images.len() };
    let mut data = [MAGIC, &version.to_le_bytes()].concat();
    [size, header, of_entries].iter().for_each(|&number| data.extend(u64_bytes(number)));
    data.resize(header, 0);
    data.extend([entries, string_entries, table].concat());
    data.resize(contents_at, 0);
    data.extend(contents);
    data.resize(size, 0);
    data
}

/// A compressed offload binary of version 3.
pub fn compressed(zlib: bool, images: &[Image]) -> Vec<u8> {
    let plain = write(3, images);
    let stream = if zlib {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(&plain[40..]).unwrap();
        encoder.finish().unwrap()
    } else {
        zstd::encode_all(&plain[40..], 3).unwrap()
    };
    let mut data = plain[..8].to_vec();
    [40 + stream.len(), 40].iter().for_each(|&number| data.extend(u64_bytes(number)));
    data.extend([&plain[24..32], &u64_bytes(plain.len()), &stream].concat());
    data.resize(data.len().next_multiple_of(8), 0);
    data
}

/// The images of a valid file of offload binaries, ignoring zeros between them; none for any other file.
pub fn read(data: &[u8]) -> Option<Vec<Image>> {
    let mut images = Vec::new();
    let mut rest = data;
    while !rest.is_empty() {
        rest = rest.strip_prefix(&[0]).unwrap_or(rest);
        if rest.first().is_some_and(|&byte| byte != 0) {
            let number = |at: usize| read_u64(rest, at);
            let version = *rest.strip_prefix(MAGIC)?.first()?;
            let size = number(8)?;
            let mut inflated = rest.get(..size)?.to_vec();
            if version == 3 && number(32)? != 0 {
                inflated.truncate(40);
                inflated.extend(inflate(rest.get(40..size)?)?);
                inflated[8..16].copy_from_slice(&u64_bytes(number(32)?));
                if inflated.len() != number(32)? {
                    return None;
                }
            }
            images.extend(read_one(&inflated, version)?);
            rest = &rest[size..];
        }
    }
    Some(images)
}

fn read_u64(data: &[u8], at: usize) -> Option<usize> {
    let bytes = data.get(at..at.checked_add(8)?)?;
    usize::try_from(u64::from_le_bytes(bytes.try_into().unwrap())).ok()
}

fn read_one(data: &[u8], version: u8) -> Option<Vec<Image>> {
    let number = |at: usize| read_u64(data, at);
    let count = if version == 1 { 1 } else { number(24)? };
    if version == 1 {
        data.get(number(16)?..number(16)?.checked_add(number(24)?)?)?;
    }
    let mut images = Vec::new();
    for index in 0..count {
        // Reads an entry with all its fields at once, so that faults are found.
        let at = number(16)?.checked_add(40 * index)?;
        data.get(at..at.checked_add(40)?)?;
        let small = |at: usize| Some(u16::from_le_bytes(data.get(at..at + 2)?.try_into().unwrap()));
        let flags = u32::from_le_bytes(data.get(at + 4..at + 8)?.try_into().unwrap());
        let step = if version == 1 { 16 } else { 24 };
        let mut strings = Vec::new();
        for string in 0..number(at + 16)? {
            let at = number(at + 8)?.checked_add(step * string)?;
            data.get(at..at.checked_add(step)?)?;
            let text = |at: usize| {
                Some(data.get(at..)?.split_inclusive(|&byte| byte == 0).next()?.strip_suffix(&[0])?.to_vec())
            };
            let value = text(number(at + 8)?)?;
            if version > 1 && number(at + 16)? != value.len() {
                return None;
            }
            strings.push((text(number(at)?)?, value));
        }
        let content = data.get(number(at + 24)?..)?.get(..number(at + 32)?)?.to_vec();
        images.push(Image { image_kind: small(at)?, kind: small(at + 2)?, flags, strings, content });
    }
    Some(images)
}

fn inflate(stream: &[u8]) -> Option<Vec<u8>> {
    let mut inflated = Vec::new();
    if stream.starts_with(b"\x28\xb5\x2f\xfd") {
        zstd::Decoder::new(stream).ok()?.read_to_end(&mut inflated).ok()?;
    } else {
        flate2::read::ZlibDecoder::new(stream).read_to_end(&mut inflated).ok()?;
    }
    Some(inflated)
}

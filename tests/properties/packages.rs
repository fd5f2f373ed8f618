//! Writes tar and cpio archives, RPM packages and compressed files, from the descriptions of their formats.

use std::io::Write as _;

/// The name, type and content of a member of an archive.
pub struct File<'f> {
    pub name: &'f str,
    /// The type flag of tar.
    pub kind: u8,
    pub content: &'f [u8],
}

impl<'f> File<'f> {
    pub fn new(name: &'f str, content: &'f [u8]) -> Self {
        Self { name, kind: b'0', content }
    }
}

/// The header of a member of a tar archive in the form of POSIX of 1988, for a size that the caller may make up.
pub fn tar_header(name: &[u8], kind: u8, size: u64) -> Vec<u8> {
    let mut header = name[..name.len().min(100)].to_vec();
    header.resize(100, 0);
    header.extend(format!("{:07o}\0{:07o}\0{:07o}\0{size:011o}\0{:011o}\0        ", 0o644, 0, 0, 0).as_bytes());
    header.push(kind);
    header.resize(257, 0);
    header.extend(b"ustar\x0000");
    header.resize(512, 0);
    let sum: u32 = header.iter().map(|&byte| u32::from(byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    header
}

/// A tar archive. Long names are written as GNU tar writes them.
pub fn tar(files: &[File<'_>]) -> Vec<u8> {
    let mut data = Vec::new();
    let mut member = |name: &[u8], kind: u8, content: &[u8]| {
        data.extend(tar_header(name, kind, u64::try_from(content.len()).unwrap()));
        data.extend(content);
        data.resize(data.len().next_multiple_of(512), 0);
    };
    for file in files {
        if file.name.len() > 100 {
            member(b"././@LongLink", b'L', &[file.name.as_bytes(), b"\0"].concat());
        }
        member(file.name.as_bytes(), file.kind, file.content);
    }
    data.resize(data.len() + 1024, 0);
    data
}

/// A cpio archive in the form `070701`.
pub fn cpio(files: &[File<'_>]) -> Vec<u8> {
    let mut data = Vec::new();
    let mut member = |name: &str, mode: u32, content: &[u8]| {
        let fields = [0, mode, 0, 0, 1, 0, u32::try_from(content.len()).unwrap(), 0, 0, 0, 0];
        let digits: String = fields.iter().map(|field| format!("{field:08x}")).collect();
        data.extend(format!("070701{digits}{:08x}{:08x}{name}\0", name.len() + 1, 0).as_bytes());
        data.resize(data.len().next_multiple_of(4), 0);
        data.extend(content);
        data.resize(data.len().next_multiple_of(4), 0);
    };
    for file in files {
        member(file.name, if file.kind == b'0' { 0o100_644 } else { 0o120_777 }, file.content);
    }
    member("TRAILER!!!", 0, &[]);
    data
}

/// An RPM package with empty headers around a payload.
pub fn rpm(payload: &[u8]) -> Vec<u8> {
    let mut lead = [&[0xed, 0xab, 0xee, 0xdb, 3, 0][..], &[0; 90]].concat();
    let header = |count: u32, len: u32| {
        let numbers = [count, len].map(u32::to_be_bytes).concat();
        let content = vec![0; usize::try_from(count * 16 + len).unwrap()];
        [&[0x8e, 0xad, 0xe8, 1, 0, 0, 0, 0][..], &numbers, &content].concat()
    };
    // The first is padded to a multiple of 8.
    lead.extend([header(1, 3), vec![0; 5], header(2, 5), payload.to_vec()].concat());
    lead
}

pub fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

pub fn zstd(data: &[u8]) -> Vec<u8> {
    ::zstd::encode_all(data, 1).unwrap()
}

//! Packages that claim, or inflate to, gigabytes.

use super::super::bomb::{Bomb, MB};
use super::super::files::Frame;
use super::search::looks_end;
use crate::properties::make::{ZSTD, Zipped, zip};
use crate::properties::packages::{self, File, tar_header};

const GIB: usize = 1 << 30;

/// Runs our subcommands on a file.
fn ends(name: &'static str, data: &[u8]) {
    looks_end(name, data, &[], &[&["extract", "-o", "new", "in"], &["recompress", "in", "-o", "out"]], 100 * MB);
}

fn end(name: &'static str, data: &[u8], lines: &[&[&str]]) {
    for line in lines {
        Bomb::new(name, line).file("in", data.to_vec()).memory(100 * MB).ends();
    }
}

/// A tar archive with a member of zeros after `begin`, in a zstd frame, which is 30,000 times smaller.
fn tar_of_zeros(kind: u8, begin: &[u8], len: usize) -> Vec<u8> {
    let size = u64::try_from(begin.len() + len).unwrap();
    Frame::new(20).raw(&tar_header(b"usr/lib/libx.so", kind, size)).raw(begin).zeros(len).finish()
}

#[test]
fn members_that_inflate_to_gigabytes() {
    let elf = [&b"\x7fELF\x02\x01\x01"[..], &[0; 57]].concat();
    let exceeded = "bytes to read; stopped";
    for (name, data, told) in [
        ("a library of 8 GB in a tar archive", tar_of_zeros(b'0', &elf, 8 * GIB - 1000), exceeded),
        (
            "a name of 4 GB in a tar archive",
            tar_of_zeros(b'L', b"a", 4 * GIB),
            "the headers of a member are longer than 1 MiB",
        ),
        ("8 GB after a tar archive", Frame::new(20).raw(&tar_header(b"x", b'0', 0)).zeros(8 * GIB).finish(), exceeded),
        ("a library of 8 GB in a zstd file", Frame::new(20).raw(&elf).zeros(8 * GIB).finish(), "exceeds"),
    ] {
        assert!(data.len() < 300_000, "{name}: {}", data.len());
        ends(name, &data);
        Bomb::new(name, &["inspect", "in"]).file("in", data).memory(100 * MB).reports(told);
    }
}

#[test]
fn data_that_is_decoded_twice() {
    let zst = |data: &[u8], times: usize| {
        // A repeated block.
        ::zstd::encode_all(&*data.repeat(times), 3).unwrap()
    };
    // A search that finds nothing is the same in all subcommands, except that `diff` searches two files at a time.
    let searches: [&[&str]; 2] = [&["inspect", "--deep", "in"], &["diff", "--json", "in", "in"]];
    let empty_gzip = packages::gzip(b"");
    end("8 MiB of empty gzip files in zstd", &zst(&empty_gzip, (8 << 20) / empty_gzip.len()), &searches);
    let zeros = || Frame::new(20).raw(b"\x7fELF\x02\x01\x01").zeros(GIB).finish();
    let member = |name: &str| Zipped { stored: zeros(), size: GIB + 7, ..Zipped::new(name, ZSTD, b"") };
    ends("six members of 1 GiB in a zip file", &zip(&["a", "b", "c", "d", "e", "f"].map(member)));
}

#[test]
fn sizes_that_are_not_there() {
    let cpio = |at: usize, digits: &[u8]| {
        let mut data = packages::cpio(&[File::new("lib/libx.so", b"CCOB")]);
        data[at..at + 8].copy_from_slice(digits);
        data
    };
    ends("a name of 4 GB in a cpio archive", &cpio(94, b"ffffffff"));
    ends("a member of 4 GB in a cpio archive", &cpio(54, b"ffffffff"));
    let mut rpm = packages::rpm(b"");
    rpm[104..112].fill(0xff);
    ends("a header of 64 GB in an RPM package", &rpm);
    let mut sparse = tar_header(b"libx.so", b'S', 512);
    // A range of 512 bytes at an offset of 8 GB, in a file that ends with it.
    sparse[386..398].copy_from_slice(b"077777776000");
    sparse[398..410].copy_from_slice(b"00000001000\0");
    sparse[483..495].copy_from_slice(b"077777777000");
    sparse[257..265].copy_from_slice(b"ustar  \0");
    sparse[148..156].fill(b' ');
    let sum: u32 = sparse.iter().map(|&byte| u32::from(byte)).sum();
    sparse[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    ends("a file with a hole of 8 GB in a tar archive", &[sparse, vec![0; 1536]].concat());
}

#[test]
fn dictionaries_are_believed_as_far_as_the_data() {
    let data = liblzma::encode_all(&b"text"[..], 1).unwrap();
    // After the header of 12 bytes: the length of the block header, flags, filter, length of its properties,
    // dictionary.
    assert_eq!(data[12..16], [2, 0, 0x21, 1]);
    for (size, name) in [(35, "an xz dictionary of 768 MiB"), (40, "an xz dictionary of 4 GiB")] {
        let mut data = data.clone();
        data[16] = size;
        let mut crc = flate2::Crc::new();
        crc.update(&data[12..20]);
        data[20..24].copy_from_slice(&crc.sum().to_le_bytes());
        ends(name, &data);
    }
}

//! CUDA fatbins.

use super::super::bomb::{Bomb, MB};
use super::super::files::{Frame, elf};
use super::search::looks_end;
use crate::properties::fatbins::{self, Code};

/// Runs our subcommands on a file with fatbins. Each ends; `extract` and `recompress` may write all inflated bytes.
fn fatbin_ends(name: &'static str, data: &[u8], memory: u64) {
    let more: [&[&str]; 4] = [
        &["extract", "-o", "new", "in"],
        &["recompress", "in", "-o", "out"],
        &["recompress", "--none", "in", "-o", "out"],
        &["recompress", "--keep", "sm_90", "in", "-o", "out"],
    ];
    looks_end(name, data, &[], &more, memory);
}

#[test]
fn fatbins_that_inflate_to_much() {
    let size = 20 << 20;
    let zeros = |flags| Code::new(fatbins::CUBIN, 90, &[]).with_flags(flags);
    let frame = Frame::new(27).zeros(size).finish();
    let zstd = fatbins::fatbin(&[fatbins::stored_entry(&zeros(fatbins::ZSTD), &frame, size)]);
    assert!(zstd.len() < size / 25_000, "{}", zstd.len());
    fatbin_ends("fatbin: zstd 32,000:1, 20 MiB", &zstd, 100 * MB);
    let block = fatbins::lz4_block(&[0], size - 1);
    let lz4 = fatbins::fatbin(&[fatbins::stored_entry(&zeros(fatbins::LZ4), &block, size)]);
    fatbin_ends("fatbin: LZ4 255:1, 20 MiB", &lz4, 100 * MB);
    for (name, data) in [("fatbin: zstd, --max-size=16M", &zstd), ("fatbin: LZ4, --max-size=16M", &lz4)] {
        let limit = "exceeds the limit of 16777216";
        let bomb = |args| Bomb::new(name, args).file("in", data.clone()).own_arg("--max-size=16M");
        bomb(&["verify", "in"]).finds(limit);
        bomb(&["extract", "-o", "new", "in"]).fails(limit);
        bomb(&["recompress", "in", "-o", "out"]).fails(limit);
        bomb(&["recompress", "--none", "in", "-o", "out"]).fails(limit);
    }
}

#[test]
fn fatbins_whose_code_objects_share_bytes() {
    let part = Code::cubin(90, 1 << 18);
    let content = fatbins::padded(&part.content);
    let parts = vec![(&part, 0, content.len()); 25_000];
    let records = fatbins::records(&parts);
    let packed = zstd::bulk::compress(&content, 3).unwrap();
    let one = |flags, stored: &[u8], inflated| {
        fatbins::fatbin(&[fatbins::stored_concatenated(flags, &records, stored, inflated)])
    };
    let data = one(fatbins::ZSTD, &packed, content.len());
    fatbin_ends("fatbin: 25,000 records of the same 256 KiB, zstd", &data, 64 * MB);
    fatbin_ends("fatbin: 25,000 records of the same 256 KiB, plain", &one(0, &content, 0), 64 * MB);
}

/// Sections that share their bytes multiply what is in them.
#[test]
fn sections_of_the_same_fatbins_and_wrappers() {
    let one = fatbins::fatbin(&[fatbins::entry(&Code::ptx(90))]);
    let library = |wrappers: &[u8]| elf::sections_of(".nvFatBinSegment", 1500, wrappers);
    let wrappers = fatbins::wrapper(64).repeat(20_000);
    fatbin_ends("1,500 sections of the same 20,000 wrappers of zeros", &library(&vec![0; 480_000]), 64 * MB);
    fatbin_ends("1,500 sections of the same 20,000 wrappers", &library(&wrappers), 64 * MB);
    let sections = elf::sections_of(".nv_fatbin", 1500, &one.repeat(500));
    fatbin_ends("1,500 sections with the same fatbins", &sections, 64 * MB);
}

//! Small files that claim, or inflate to, large amounts of data: each shows one limit once. The executable runs on each,
//! and its peak memory and processor time are limited. The files here are those of LLVM's tools; the folder has those of
//! the search.
//!
//! `OFFLOAD_MEASURE=1 cargo test --release --test suite hostile::claims:: -- --nocapture --test-threads=1` prints a table
//! of the measurements, including those of LLVM 22 where it is installed.
mod fatbins;
mod images;
mod kpacks;
mod packages;
pub mod search;

use super::bits;
use super::bomb::{Bomb, MB};
use super::files::{self, Frame, ccob, elf, thin};
use crate::properties::make::{self, STORED, Zipped, archive, archive_header};
use crate::reference::formats;
use crate::reference::offload;

const GFX906: &str = "hip-amdgcn-amd-amdhsa--gfx906";

/// Lists a file of the given type.
fn list(name: &'static str, file_type: &str, data: Vec<u8>) -> Bomb {
    Bomb::new(name, &["-list", &format!("-type={file_type}"), "-input=in"]).file("in", data)
}

/// Unbundles a file of the given type.
fn unbundle(name: &'static str, file_type: &str, data: Vec<u8>) -> Bomb {
    let targets = format!("-targets={GFX906}");
    Bomb::new(name, &["-unbundle", &format!("-type={file_type}"), &targets, "-input=in", "-output=out"])
        .file("in", data)
}

/// Extracts all images of a file.
fn extract(name: &'static str, data: Vec<u8>) -> Bomb {
    Bomb::new(name, &["in", "--image=triple=t"]).packager().file("in", data)
}

/// A bundle with one code object of `len` zero bytes, as a very small zstd frame.
fn bundle_of_zeros(len: usize) -> Frame {
    let mut header = formats::binary(&[(GFX906, b"")], 1);
    header[40..48].copy_from_slice(&u64::try_from(len).unwrap().to_le_bytes());
    Frame::new(27).raw(&header).zeros(len)
}

#[test]
fn claim_of_2_62_bytes() {
    let stream = Frame::new(20).raw(b"__CLANG_OFFLOAD_BUNDLE__").finish();
    let data = ccob(3, 1, 1 << 62, &stream);
    assert!(data.len() <= 100, "{}", data.len());
    list("100 bytes claim 2^62", "bc", data.clone()).fails("recorded as 4611686018427387904 bytes, but is 24");
    unbundle("100 bytes claim 2^62, unbundled", "bc", data).fails("recorded as 4611686018427387904 bytes, but is 24");
}

#[test]
fn zstd_inflates_to_what_it_claims() {
    let size = 1 << 30;
    let frame = bundle_of_zeros(size);
    let data = ccob(3, 1, frame.inflated(), &frame.finish());
    assert!(data.len() < size / 30_000, "{}", data.len());
    list("zstd 32,000:1, 1 GiB, listed", "bc", data.clone()).succeeds(GFX906);
    list("zstd 32,000:1, --max-size=64M", "bc", data.clone()).own_arg("--max-size=64M").fails(
        "'in': compressed bundle at offset 0: its inflated size of 1073741909 bytes exceeds the limit of 67108864",
    );
    unbundle("zstd 32,000:1, unbundled with --max-size=64M", "bc", data)
        .own_arg("--max-size=64M")
        .fails("exceeds the limit of 67108864");
}

#[test]
fn zstd_inflates_to_more_than_it_claims() {
    let stream = bundle_of_zeros(1 << 34).finish();
    list("zstd 16 GiB, claims 1 MiB", "bc", ccob(2, 1, 1 << 20, &stream))
        .fails("recorded as 1048576 bytes, but is at least");
    // Data after the recorded size does not matter if less is requested, but no memory may be allocated for it.
    unbundle("zstd 16 GiB, claims 17 MiB", "bc", ccob(3, 1, 17 << 20, &stream))
        .fails("recorded as 17825792 bytes, but is at least 17825877");
}

#[test]
fn zlib_inflates_to_less_and_more_than_it_claims() {
    let stream = files::zlib_zeros(64 << 20);
    assert!(stream.len() < 80_000, "{}", stream.len());
    list("zlib 1000:1, claims 1 MiB", "bc", ccob(2, 0, 1 << 20, &stream))
        .fails("recorded as 1048576 bytes, but is at least");
    // Listing stops where no bundle begins.
    list("zlib 1000:1, claims 4 GiB", "bc", ccob(2, 0, (1 << 32) - 1, &stream)).succeeds("");
    list("zlib 1000:1, version 1, claims 4 GiB", "bc", ccob(1, 0, (1 << 32) - 1, &stream)).succeeds("");
    // Where each of them ends is known once it is inflated.
    let many = make::zip(&[Zipped::new("a", STORED, &ccob(1, 0, 64 << 20, &stream).repeat(20))]);
    Bomb::new("a zip member of 20 bundles of version 1", &["inspect", "in"]).file("in", many).memory(100 * MB).ends();
    list("zlib 1000:1, version 1, --max-size=1M", "bc", ccob(1, 0, 64 << 20, &stream))
        .own_arg("--max-size=1M")
        .fails("its inflated size of 67108864 bytes exceeds the limit of 1048576");
}

#[test]
fn a_window_is_believed_as_far_as_the_claim() {
    let bundle = formats::binary(&[(GFX906, b"code")], 1);
    let stream = |log| Frame::new(log).raw(&bundle).finish();
    let len = u64::try_from(bundle.len()).unwrap();
    list("zstd window of 2^31", "bc", ccob(2, 1, len, &stream(31))).fails("Frame requires too much memory");
    list("zstd window of 2^27", "bc", files::sealed(&bundle, &stream(27))).succeeds(GFX906);
}

#[test]
fn counts_of_everything() {
    for (name, count) in [("entry count 2^63", 1 << 63), ("entry count 2^64-1", u64::MAX)] {
        let mut data = formats::binary(&[(GFX906, b"code")], 1);
        data[24..32].copy_from_slice(&u64::to_le_bytes(count));
        list(name, "bc", data.clone()).fails(&format!("entry count {count} at offset 24 is too large"));
    }
    let mut data = formats::binary(&[(GFX906, b"code")], 1);
    data[48..56].copy_from_slice(&u64::MAX.to_le_bytes());
    list("ID length 2^64-1", "bc", data).fails("the ID of entry 0 needs 18446744073709551615 bytes at offset 56");
    let image = [offload::Image::new(1, 4, &[("triple", "t")], b"code")];
    for (name, at, claim, text) in [
        ("image count 2^63", 24, 1 << 63, "the table of entries needs"),
        ("image count 2^64-1", 24, u64::MAX, "the table of entries needs"),
        ("string count 2^63", 32 + 16, 1 << 63, "the table of strings of image 0 needs"),
        ("string count 2^64-1", 32 + 16, u64::MAX, "the table of strings of image 0 needs"),
        ("image size 2^64-1", 32 + 32, u64::MAX, "image 0 needs"),
    ] {
        let mut data = offload::write(2, &image);
        data[at..at + 8].copy_from_slice(&u64::to_le_bytes(claim));
        extract(name, data).fails(text);
    }
}

#[test]
fn headers_that_inflate_to_much() {
    // 17 MB of entries without content, and an ID of 100 MB.
    let count = 300_000_usize;
    let mut header = formats::MAGIC.to_vec();
    header.extend(u64::try_from(count).unwrap().to_le_bytes());
    let end = 32 + 57 * u64::try_from(count).unwrap();
    for number in 0..count {
        let fields = [end, 0, 33];
        fields.iter().for_each(|field| header.extend(field.to_le_bytes()));
        header.extend(format!("{GFX906}{number:04}").as_bytes()[..33].iter());
    }
    let data = formats::compressed(3, 1, &header);
    list("300,000 entries, compressed", "bc", data)
        .fails("entry count 300000 at offset 24, expected no more than 100000");
    let mut header = formats::MAGIC.to_vec();
    [1, 56 + 100_000_000, 0, 100_000_000_u64].iter().for_each(|field| header.extend(field.to_le_bytes()));
    let frame = Frame::new(27).raw(&header).zeros(100_000_000);
    list("an ID of 100 MB, compressed", "bc", ccob(3, 1, frame.inflated(), &frame.finish()))
        .fails("entry ID length 100000000");
}

#[test]
fn text_bundles_of_a_million_entries() {
    let lines = |id: &str| {
        format!("\n# __CLANG_OFFLOAD_BUNDLE____START__ {id}\n\n# __CLANG_OFFLOAD_BUNDLE____END__ {id}\n").into_bytes()
    };
    let unclosed = b"\n# __CLANG_OFFLOAD_BUNDLE____START__ x\n".repeat(1_100_000);
    list("text of 1,100,000 start lines", "s", unclosed).memory(200 * MB).fails("number of marker lines 1048577");
    let many = lines("x").repeat(150_000);
    list("text of 150,000 entries, compressed", "s", formats::compressed(3, 1, &many))
        .fails("entry count 100001 at offset");
}

#[test]
fn entries_that_share_bytes() {
    let image = offload::Image::new(1, 4, &[("triple", "t")], &vec![1; 1 << 20]);
    let mut data = offload::write(2, &[vec![image], vec![offload::Image::default(); 10_000]].concat());
    for entry in (72..32 + 40 * 10_001).step_by(40) {
        data.copy_within(32 + 24..32 + 40, entry + 24);
        data.copy_within(32 + 8..32 + 24, entry + 8);
    }
    extract("10,000 images of the same 1 MiB", data).fails("together with");
    let content = offload::write(1, &[offload::Image::new(1, 4, &[("triple", "t")], &vec![1; 1 << 20])]);
    extract("10,000 sections of the same 1 MiB", elf::sections(10_000, 0x6fff_4c0b, &content))
        .fails("size of the sections with device code");
}

#[test]
fn archives_in_archives_and_in_themselves() {
    let mut nested = archive(&[("leaf", b"leaf")]);
    for _ in 0..20 {
        nested = archive(&[("x.a", &nested)]);
    }
    extract("20 archives in one another", nested).fails("archives nested more than 16 levels deep");
    extract("a thin archive in itself", thin(&["in"])).fails("'in': this thin archive contains itself");
    extract("two thin archives in each other", thin(&["b"]))
        .file("b", thin(&["in"]))
        .fails("'in': this thin archive contains itself");
    list("a thin archive in itself, listed", "a", thin(&["in"])).succeeds("");
    let names: Vec<String> = (0..13).map(|level| format!("l{level}")).collect();
    let mut bomb = extract("10^12 members of thin archives", thin(&["l0"; 10]));
    for pair in names.windows(2) {
        bomb = bomb.file(&pair[0], thin(&[pair[1].as_str(); 10]));
    }
    bomb.file("l12", b"leaf".to_vec()).fails("thin archives refer to more than 2000 files");
    list("100,000 members of a thin archive", "a", thin(&vec!["leaf"; 100_000]))
        .file("leaf", b"leaf".to_vec())
        .fails("thin archives refer to more than 60000 files");
}

#[test]
fn claims_of_archives_are_limited() {
    let archive = |rest: &str| ["!<arch>\n", rest].concat().into_bytes();
    let long_name = archive(&(archive_header("#1/9999999", 4) + "abcd"));
    list("archive: a name of 9,999,999 bytes", "a", long_name.clone()).fails("'in'");
    extract("archive: a name of 9,999,999 bytes", long_name).fails("'in'");
    // Half a megabyte of names; every member uses all of it.
    let names = "n".repeat(500_000) + "/\n";
    let members = archive_header("//", names.len()) + &names + &archive_header("/0", 0).repeat(8000);
    list("archive: 8,000 names of 500 kB", "a", archive(&members)).fails("length of a member name 500000");
}

#[test]
fn symbols_that_share_a_name() {
    let id = GFX906;
    let bundle = formats::binary(&[(id, &elf::symbols(20_000, 500_000))], 1);
    let member = archive(&[("m.o", &bundle)]);
    unbundle("20,000 symbols with one name of 500 kB", "a", member).fails("together longer than four times the file");
}

#[test]
fn records_of_literals() {
    let data = bits::literals(1 << 16);
    extract("bitcode: records of 256 literals", data.clone()).succeeds("");
    let bundle = formats::binary(&[(GFX906, &data)], 1);
    unbundle("bitcode: the same, for an index", "a", archive(&[("m.o", &bundle)])).memory(100 * MB).ends();
    extract("bitcode: an array of 2^64-1 elements", bits::array(u64::MAX)).fails("the bitstream ends too early");
}

#[test]
fn inflated_sizes_are_limited_in_every_command_line() {
    let bundle = formats::binary(&[("host-x86_64-unknown-linux-gnu-", b""), (GFX906, &[7; 1000])], 1);
    let limited = |bomb: Bomb, text| bomb.own_arg("--max-size=64").fails(text);
    let limit = "exceeds the limit of 64";
    for (version, method) in [(1, 0), (3, 1)] {
        let packed = formats::compressed(version, method, &bundle);
        for file_type in ["bc", "o", "s"] {
            limited(list("limited: listed", file_type, packed.clone()), limit);
            limited(unbundle("limited: unbundled", file_type, packed.clone()), limit);
            // A file without a bundle is treated as the host's code object, inflated.
            let host = unbundle("limited: host", file_type, packed.clone()).own_arg("-allow-missing-bundles");
            limited(host, limit);
        }
        let first = formats::binary(&[("hip-amdgcn-amd-amdhsa--gfx90a", b"code")], 1);
        limited(unbundle("limited: the second bundle", "bc", [first, packed.clone()].concat()), limit);
        let (library, in_library) = (archive(&[("m.o", &packed)]), "'in(m.o)': compressed bundle at offset 68");
        limited(list("limited: archive, listed", "a", library.clone()), in_library);
        limited(unbundle("limited: archive", "a", library.clone()), in_library);
        limited(unbundle("limited: archive, checked", "a", library).own_arg("-check-input-archive"), in_library);
    }
    let packed = offload::compressed(false, &[offload::Image::new(1, 4, &[("triple", "t")], &[7; 1000])]);
    for data in [packed.clone(), archive(&[("m.o", &packed)]), elf::sections(1, 0x6fff_4c0b, &packed)] {
        limited(extract("limited: image", data.clone()), limit);
        limited(Bomb::new("limited: nothing", &["in"]).packager().file("in", data), limit);
    }
    let args = ["in", "--archive", "--image=file=out"];
    limited(Bomb::new("limited: archive", &args).packager().file("in", packed), limit);
}

#[test]
fn archives_of_many_compressed_members() {
    // Each inflates to less than the minimum for a temporary file.
    let member = |number: usize| {
        let frame = bundle_of_zeros(60_000 + number % 7);
        let mut bundle = formats::binary(&[(GFX906, b"")], 1);
        bundle[40..48].copy_from_slice(&u64::try_from(60_000 + number % 7).unwrap().to_le_bytes());
        bundle.resize(bundle.len() + 60_000 + number % 7, 0);
        files::sealed(&bundle, &frame.finish())
    };
    let kinds: Vec<Vec<u8>> = (0..7).map(member).collect();
    let members: Vec<(&str, &[u8])> = (0..2000).map(|number| ("m", kinds[number % 7].as_slice())).collect();
    // The inflated data is as large as the output, but need not be in memory.
    unbundle("archive: 2,000 x 60 kB, compressed", "a", archive(&members)).memory(48 * MB).ends_well();
    let image = offload::compressed(false, &[offload::Image::new(1, 4, &[("triple", "t")], &[0; 60_000])]);
    Bomb::new("offload binaries: 2,000 x 60 kB", &["in", "--archive", "--image=file=out"])
        .packager()
        .file("in", archive(&vec![("m", image.as_slice()); 2000]))
        .memory(48 * MB)
        .ends_well();
}

#[test]
fn names_that_members_share() {
    let bundle = formats::binary(&[(GFX906, b"x")], 1);
    let image = offload::write(1, &[offload::Image::new(1, 4, &[("triple", "t")], b"x")]);
    let with_one_name = |content: &[u8]| {
        let names = "n".repeat(4000) + "/\n";
        let mut data = format!("!<arch>\n{}{names}", archive_header("//", names.len())).into_bytes();
        for _ in 0..40_000 {
            data.extend(archive_header("/0", content.len()).as_bytes());
            data.extend(content);
            data.resize(data.len().next_multiple_of(2), b'\n');
        }
        data
    };
    let (name, too_long) = ("archive: 40,000 members with one name of 4 kB", "length of all names of new members ");
    unbundle(name, "a", with_one_name(&bundle)).memory(80 * MB).fails(too_long);
    Bomb::new(name, &["in", "--archive", "--image=file=out"])
        .packager()
        .file("in", with_one_name(&image))
        .memory(80 * MB)
        .fails(too_long);
}

#[test]
fn response_files_in_themselves() {
    let ours = "recursive expansion of";
    Bomb::new("a response file in itself", &["@in"]).file("in", b"-list @in".to_vec()).fails(ours);
    Bomb::new("a response file in itself, packager", &["@in"]).packager().file("in", b"@in".to_vec()).fails(ours);
    let mut bomb = Bomb::new("10^12 words of response files", &["@0"]);
    for level in 0..12 {
        bomb = bomb.file(&level.to_string(), format!("@{} ", level + 1).repeat(10).into_bytes());
    }
    bomb.file("12", b"x".to_vec()).fails("may hold no more than 4194304 bytes together");
}

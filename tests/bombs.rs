//! Small files that claim, or inflate to, large amounts of data. The executable runs on each; its peak memory and time
//! are measured and limited.
//!
//! `OFFLOAD_MEASURE=1 cargo test --release --test suite bombs:: -- --nocapture --test-threads=1` prints a table of the
//! measurements, including those of LLVM 22 where it is installed.
pub mod bits;
pub mod files;
mod images;
mod kpacks;
mod measure;
mod packages;

use crate::lists::{is_in_share, sample, share_of};
use crate::properties::code_objects::{self, Kernel, amd_with};
use crate::properties::fatbins::{self, Code};
use crate::properties::make::{self, DEFLATED, Elf, STORED, Section, Zipped, archive, archive_header};
use crate::reference::formats;
use crate::reference::offload;
use files::{Frame, ccob, elf, thin};
use std::time::Duration;

use measure::{Bomb, MB, SMALL};

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
    let header = formats::binary(&[(GFX906, b"")], 1);
    let mut header = header;
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
    let many = make::zip(&[Zipped::new("a", STORED, &ccob(1, 0, 64 << 20, &stream).repeat(200))]);
    Bomb::new("a zip member of 200 bundles of version 1", &["inspect", "in"]).file("in", many).memory(100 * MB).ends();
    list("zlib 1000:1, version 1, --max-size=1M", "bc", ccob(1, 0, 64 << 20, &stream))
        .own_arg("--max-size=1M")
        .fails("its inflated size of 67108864 bytes exceeds the limit of 1048576");
}

/// A text bundle has no header that a prefix holds.
#[test]
fn compressed_text_bundles_in_a_row() {
    let text = formats::text("#", &[(GFX906, &vec![b' '; 17 << 20])]);
    let stream = Frame::new(27).raw(&text[..70]).zeros(text.len() - 70).finish();
    let row = crate::properties::packages::gzip(&files::sealed(&text, &stream).repeat(500));
    Bomb::new("500 compressed text bundles of 17 MiB in gzip", &["verify", "in.gz"])
        .file("in.gz", row)
        .memory(100 * MB)
        .ends();
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
    if measure::is_asked_for() {
        let million = (0..1_000_000).flat_map(|number| lines(&number.to_string())).collect();
        list("text of 1,000,000 entries", "s", million).memory(200 * MB).fails("number of marker lines 1048577");
    }
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
    for _ in 0..1000 {
        nested = archive(&[("x.a", &nested)]);
    }
    extract("1,000 archives in one another", nested).fails("archives nested more than 16 levels deep");
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
    let header = |name: &str, size: &str| format!("{name:<16}0           0     0     644     {size:<10}`\n");
    let archive = |rest: &str| ["!<arch>\n", rest].concat().into_bytes();
    for (name, rest) in [
        ("archive: a member of 9,999,999,999 bytes", header("a/", "9999999999")),
        ("archive: an index of 9,999,999,999 bytes", header("/", "9999999999") + "\u{7f}\u{7f}\u{7f}\u{7f}"),
        ("archive: names of 9,999,999,999 bytes", header("//", "9999999999") + "x/\n"),
        ("archive: a name at 9,999,999", header("//", "4") + "x/\n\n" + &header("/9999999", "0")),
        ("archive: a name of 9,999,999 bytes", header("#1/9999999", "4") + "abcd"),
    ] {
        list(name, "a", archive(&rest)).fails("'in'");
        extract(name, archive(&rest)).fails("'in'");
    }
    // Half a megabyte of names; every member uses all of it.
    let names = "n".repeat(500_000) + "/\n";
    let members = header("//", &names.len().to_string()) + &names + &header("/0", "0").repeat(8000);
    list("archive: 8,000 names of 500 kB", "a", archive(&members)).fails("length of a member name 500000");
    let index = [0x7f; 4].iter().chain(&[0; 8]).map(|&byte| char::from(byte)).collect::<String>();
    // The index is never read.
    list("archive: an index of 2^31 symbols", "a", archive(&(header("/", "12") + &index))).succeeds("");
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
    let data = bits::literals(if measure::is_asked_for() { 1 << 20 } else { 1 << 16 });
    extract("bitcode: records of 256 literals", data.clone()).succeeds("");
    let bundle = formats::binary(&[(GFX906, &data)], 1);
    unbundle("bitcode: the same, for an index", "a", archive(&[("m.o", &bundle)])).memory(100 * MB).ends();
    extract("bitcode: an array of 2^64-1 elements", bits::array(u64::MAX)).fails("the bitstream ends too early");
}

#[test]
fn claims_of_objects_are_limited() {
    let mut data = elf::sections(1, 1, b"__CLANG_OFFLOAD_BUNDLE__");
    data[60..62].copy_from_slice(&[0; 2]);
    let table = usize::try_from(u64::from_le_bytes(data[40..48].try_into().unwrap())).unwrap();
    data[table + 32..table + 40].copy_from_slice(&(1_u64 << 58).to_le_bytes());
    list("ELF: 2^58 sections", "o", data.clone()).fails("the table of 288230376151711744 section headers needs");
    extract("ELF: 2^58 sections, packager", data).ends();
    let mut data = elf::sections(1, 1, b"__CLANG_OFFLOAD_BUNDLE__");
    let names = table + 2 * 64;
    data[names + 32..names + 40].copy_from_slice(&u64::MAX.to_le_bytes());
    list("ELF: section names of 2^64-1 bytes", "o", data).fails("the table of section names needs");
    let coff = |sections: u16, symbols: u32, strings: u32| {
        let mut data = vec![0x64, 0x86];
        data.extend(sections.to_le_bytes());
        [0, 60, symbols].iter().for_each(|field: &u32| data.extend(field.to_le_bytes()));
        data.extend([0; 4]);
        data.extend([0; 40]);
        data.extend(strings.to_le_bytes());
        data.extend(b"__CLANG_OFFLOAD_BUNDLE__");
        data
    };
    list("COFF: 65,279 sections", "o", coff(0xfeff, 0, 4)).fails("the table of 65279 section headers needs");
    list("COFF: 2^32-1 symbols", "o", coff(1, u32::MAX, 4)).fails("the table of 4294967295 symbols needs");
    list("COFF: 2^32-1 bytes of strings", "o", coff(1, 0, u32::MAX)).fails("the string table needs");
}

#[test]
fn inflated_sizes_are_limited_in_every_command_line() {
    let bundle = formats::binary(&[("host-x86_64-unknown-linux-gnu-", b""), (GFX906, &[7; 1000])], 1);
    let limit = "exceeds the limit of 64";
    for (version, method) in [(1, 0), (1, 1), (2, 0), (2, 1), (3, 0), (3, 1)] {
        let packed = formats::compressed(version, method, &bundle);
        for file_type in ["bc", "o", "s"] {
            let own = |bomb: Bomb| bomb.own_arg("--max-size=64").fails(limit);
            own(list("limited: listed", file_type, packed.clone()));
            own(list("limited: listed, -verbose", file_type, packed.clone()).own_arg("-verbose"));
            own(unbundle("limited: unbundled", file_type, packed.clone()));
            // A file without a bundle is treated as the host's code object, inflated.
            own(unbundle("limited: host", file_type, packed.clone()).own_arg("-allow-missing-bundles"));
        }
        let first = formats::binary(&[("hip-amdgcn-amd-amdhsa--gfx90a", b"code")], 1);
        unbundle("limited: the second bundle", "bc", [first, packed.clone()].concat())
            .own_arg("--max-size=64")
            .fails(limit);
        let library = archive(&[("m.o", &packed)]);
        let in_library = "'in(m.o)': compressed bundle at offset 68";
        let own = |bomb: Bomb| bomb.own_arg("--max-size=64").fails(in_library);
        own(list("limited: archive, listed", "a", library.clone()));
        own(unbundle("limited: archive", "a", library.clone()));
        own(unbundle("limited: archive, checked", "a", library).own_arg("-check-input-archive"));
    }
    for zlib in [false, true] {
        let packed = offload::compressed(zlib, &[offload::Image::new(1, 4, &[("triple", "t")], &[7; 1000])]);
        for data in [packed.clone(), archive(&[("m.o", &packed)]), elf::sections(1, 0x6fff_4c0b, &packed)] {
            let own = |bomb: Bomb| bomb.own_arg("--max-size=64").fails(limit);
            own(extract("limited: image", data.clone()));
            own(Bomb::new("limited: nothing", &["in"]).packager().file("in", data.clone()));
            own(Bomb::new("limited: file", &["in", "--image=file=out"]).packager().file("in", data.clone()));
            let args = ["in", "--archive", "--image=file=out"];
            own(Bomb::new("limited: archive", &args).packager().file("in", data));
        }
    }
}

/// A bundle whose entries all have the same bytes.
fn of_one_content(ids: &[String], content: &[u8]) -> Vec<u8> {
    let entries: Vec<(&str, &[u8])> = ids.iter().map(|id| (id.as_str(), &b""[..])).collect();
    let mut data = formats::binary(&entries, 1);
    let (end, len, mut at) = (u64::try_from(data.len()).unwrap(), u64::try_from(content.len()).unwrap(), 32);
    for id in ids {
        data[at..at + 16].copy_from_slice(&[end.to_le_bytes(), len.to_le_bytes()].concat());
        at += 24 + id.len();
    }
    data.extend(content);
    data
}

#[test]
fn reading_of_code_objects_is_limited() {
    let verify = |name, ids: &[String], object: &[u8], text: &str| {
        Bomb::new(name, &["verify", "in"]).file("in", of_one_content(ids, object)).finds(text)
    };
    // 5,000 symbol tables of the same megabyte, for an AMD GPU.
    let mut object = elf::sections(5000, 2, &vec![0; 24 * 40_000]);
    object[18] = 224;
    let table = usize::try_from(u64::from_le_bytes(object[40..48].try_into().unwrap())).unwrap();
    for header in (table + 64..object.len()).step_by(64) {
        object[header + 40..header + 44].copy_from_slice(&5001_u32.to_le_bytes());
    }
    verify("5,000 symbol tables in one place", &[GFX906.to_owned()], &object, "tables that share their bytes");
    // 5,000 entries of the same ten megabytes.
    let ids: Vec<String> = (0..5000).map(|number| format!("{GFX906}{number}")).collect();
    let mut object = elf::sections(1, 1, &vec![0; 10 << 20]);
    object[18] = 224;
    verify("5,000 entries of one code object", &ids, &object, "not all of them were checked");
}

#[test]
fn verify_takes_as_long_as_the_file_and_not_as_its_names() {
    let verify =
        |name, data, text: &str| Bomb::new(name, &["verify", "in"]).memory(128 * MB).file("in", data).finds(text);
    // Every entry conflicts with the first and overlaps it. Each has 4,000 bytes, and a fault shows 200 of them.
    let conflicts = |count: usize| {
        let id = |number: usize| format!("{GFX906}:{}{number}+", "f".repeat(3900));
        let ids: Vec<String> = (0..count).map(id).collect();
        formats::compressed(3, 1, &of_one_content(&ids, b"xx"))
    };
    let few = verify("500 long IDs in conflict", conflicts(500), " in 1 bundle, 1,498 faults");
    let many = verify("2,000 long IDs in conflict", conflicts(2000), " in 1 bundle, 5,998 faults");
    // Four times as many entries take about four times as long, not sixteen times. A busy machine measures twice as
    // much.
    assert!(many < 12 * few.max(Duration::from_millis(100)), "{few:?} {many:?}");
    // Every other entry overlaps the first, whose ID is half a megabyte long.
    let overlaps = |len: usize| {
        let id = |number: usize| format!("{GFX906}{}", if number == 0 { "x".repeat(len) } else { number.to_string() });
        of_one_content(&(0..4000).map(id).collect::<Vec<_>>(), b"xx")
    };
    let short = verify("4,000 overlaps", overlaps(5000), " in 1 bundle, 4,000 faults");
    let long = verify("4,000 overlaps with a long ID", overlaps(500_000), " in 1 bundle, 4,000 faults");
    assert!(long < 10 * short.max(Duration::from_millis(100)), "{short:?} {long:?}");
    // A feature for every four bytes of the IDs, of one and of many.
    let features = (0..16_000).map(|number| format!(":{number:x}+")).collect::<String>();
    let many: Vec<String> = (0..4000).map(|number| format!("{GFX906}{}:{number}-", &features[..3900])).collect();
    verify("4,000 IDs of 800 features", of_one_content(&many, b"xx"), " in 1 bundle, 7,999 faults");
    verify("an ID of 16,000 features", of_one_content(&[GFX906.to_owned() + &features], b"xx"), "1 fault");
}

#[test]
fn lists_of_kernels_are_limited() {
    let run = |name, args: &[&str], data| Bomb::new(name, &[&["kernels"], args, &["in"]].concat()).file("in", data);
    // Maps of one byte each.
    let empty = [&b"\x81\xaeamdhsa.kernels\xdd"[..], &5_000_000_u32.to_be_bytes(), &vec![0x80; 5_000_000]].concat();
    run("5,000,000 kernels without a name", &[], amd_with(&empty, &[])).reports("a kernel without a name");
    let short =
        [&b"\x81\xaeamdhsa.kernels\xdd"[..], &300_000_u32.to_be_bytes(), &b"\x81\xa5.name\xa1k".repeat(300_000)]
            .concat();
    let limit = "exceed the limits of 262144 kernels and 67108864 bytes of names";
    run("300,000 kernels", &["--json"], amd_with(&short, &[])).memory(128 * MB).reports(limit);
    // Five code objects in a bundle, each with fewer.
    let short =
        [&b"\x81\xaeamdhsa.kernels\xdd"[..], &250_000_u32.to_be_bytes(), &b"\x81\xa5.name\xa1k".repeat(250_000)]
            .concat();
    let object = amd_with(&short, &[]);
    let ids: Vec<String> = (0..5).map(|number| format!("{GFX906}{number}")).collect();
    let entries: Vec<(&str, &[u8])> = ids.iter().map(|id| (id.as_str(), &object[..])).collect();
    let bundle = formats::binary(&entries, 8);
    let limit = "more than 1048576 kernels, or 268435456 bytes of names; the rest is not listed";
    let packed = formats::compressed(3, 1, &bundle);
    let runs = vec![
        ("1,250,000 kernels", &["--sort=vgpr", "--top=1"][..], &bundle),
        ("compressed", &["--json"], &packed),
        ("1,250,000 kernels", &["--name=x"], &bundle),
    ];
    for (name, args, data) in sample(runs, 2) {
        run(name, args, data.clone()).memory(640 * MB).reports(limit);
    }
    // Arguments: of one byte each in one kernel, and different ones of many kernels and code objects.
    let arguments = |args: &[u8]| {
        let kernel = [&b"\x82\xa5.name\xa1k\xa5.args"[..], args].concat();
        amd_with(&[&b"\x81\xaeamdhsa.kernels\x91"[..], &kernel].concat(), &[])
    };
    let empty = [&b"\xdd"[..], &5_000_000_u32.to_be_bytes(), &vec![0x80; 5_000_000]].concat();
    let limit = "exceed the limits of 65536 for a kernel and 67108864 bytes of different ones";
    run("5,000,000 arguments", &["--json", "--arguments"], arguments(&empty)).memory(128 * MB).reports(limit);
    let listed = |from: u32, kernels: u32| {
        let mut metadata = [&b"\x81\xaeamdhsa.kernels\xdd"[..], &kernels.to_be_bytes()].concat();
        for number in from..from + kernels {
            metadata.extend(b"\x82\xa5.name\xa1k\xa5.args\xdc\0\x64");
            (0..100).for_each(|at| {
                metadata.extend([&b"\x81\xa7.offset\xce"[..], &(number * 100 + at).to_be_bytes()].concat())
            });
        }
        amd_with(&metadata, &[])
    };
    let args = ["--json", "--arguments", "--sort=vgpr", "--top=1"];
    run("1,500,000 arguments", &args, listed(0, 15_000)).memory(256 * MB).reports(limit);
    let objects: Vec<Vec<u8>> = (0..5).map(|number| listed(number * 13_000, 13_000)).collect();
    let entries: Vec<(&str, &[u8])> = ids.iter().zip(&objects).map(|(id, object)| (id.as_str(), &object[..])).collect();
    let limit = "more than 33554432 arguments, or 268435456 bytes of different ones; the rest is not listed";
    run("6,500,000 arguments", &args, formats::binary(&entries, 8)).memory(640 * MB).reports(limit);
    // 5,000 entries of the same code object, and 5,000 symbols with the same name.
    let ids: Vec<String> = (0..5000).map(|number| format!("{GFX906}{number}")).collect();
    let object = code_objects::amd(&[Kernel::named(&"k".repeat(1_000_000))]);
    let shared = of_one_content(&ids, &object);
    Bomb::new("5,000 entries of one code object, one kernel", &["extract", "-n", "in", "--kernel=k*"])
        .file("in", shared.clone())
        .fails("expected no more than 16 times the bundle");
    run("5,000 entries of one code object", &[], shared).reports("overlap too much");
    let mut cubin = code_objects::cubin(&vec![Kernel::named("k"); 5000]);
    let name = cubin.windows(3).position(|window| window == b"\0k\0").unwrap() + 1;
    cubin[name..name + 9000].iter_mut().step_by(2).for_each(|byte| *byte = b'k');
    cubin[name + 1..name + 9000].iter_mut().step_by(2).for_each(|byte| *byte = b'k');
    run("kernels with names in one another", &[], cubin).memory(128 * MB).ends();
    // A name whose parts each repeat the one before it twice.
    let digits = "02468ACEGIKMOQSUWY".chars();
    let parts = digits.map(|digit| format!("1aIS{digit}_S{digit}_E")).collect::<String>();
    let doubling = Kernel::named(&format!("_Z1f1aIiiE{parts}"));
    Bomb::new("a name that doubles", &["kernels", "in"]).file("in", code_objects::amd(&[doubling])).ends();
}

/// Command lines of our subcommands that only read. Command lines that do less than one of these are left out: `inspect
/// --json`, plain `verify`, and `extract -n` of everything.
const LOOKS: [&[&str]; 7] = [
    &["inspect", "in"],
    &["inspect", "--inflate", "--json", "in"],
    &["inspect", "--deep", "in"],
    &["verify", "--json", "--expect-exactly", "gfx906,sm_80", "--compressed=0", "in"],
    &["extract", "-n", "-t", "gfx906", "--as-runtime", "in"],
    &["kernels", "--json", "--arguments", "in"],
    &["diff", "--json", "in", "in"],
];

/// Runs our subcommands, and more command lines, on a file in a directory with other files. Each ends soon. Half of the
/// files run, each with one command line, unless `OFFLOAD_COMPLETE=1` requests all. The files are as small as a cost
/// that grows with the square of their counts can be told from one that grows in proportion.
fn looks_end(name: &'static str, data: &[u8], beside: &[(&str, &[u8])], more: &[&[&str]], memory: u64) {
    if !is_in_share(name, 2) {
        return;
    }
    for line in share_of(name, LOOKS.iter().chain(more).collect(), 1) {
        let bomb = Bomb::new(name, line).file("in", data.to_vec()).memory(memory).time(SMALL);
        beside.iter().fold(bomb, |bomb, (name, data)| bomb.file(name, data.to_vec())).ends();
    }
}

#[test]
fn names_are_shown_in_part_and_findings_are_charged_for_theirs() {
    let header = |len: usize| {
        let mut header = formats::MAGIC.to_vec();
        let len = u64::try_from(len).unwrap();
        [1, 56 + len, 0, len].iter().for_each(|field| header.extend(field.to_le_bytes()));
        header
    };
    let one_id = |len: usize| {
        let frame = Frame::new(27).raw(&header(len)).raw(GFX906.as_bytes()).zeros(len - GFX906.len());
        ccob(3, 1, frame.inflated(), &frame.finish())
    };
    let broken = ccob(3, 0, 100, b"");
    let bundle = formats::binary(&[(GFX906, b"")], 1);
    let zip = |content: &[u8]| make::zip(&[Zipped::new(&"n".repeat(65_000), STORED, content)]);
    for (name, data) in [
        ("an ID of 15 MB, compressed", one_id(15_000_000)),
        ("four of them", one_id(15_000_000).repeat(4)),
        ("an ID of 60 MB, compressed", one_id(60_000_000)),
        ("a zip member with a name of 65 kB and 16,000 broken bundles", zip(&broken.repeat(16_000))),
        ("the same with 10,000 bundles", zip(&bundle.repeat(10_000))),
    ] {
        for look in share_of(name, LOOKS.to_vec(), 1) {
            // `kernels` inflates a bundle on each processor, `diff` two files at a time; a search that inflates all,
            // one that waits besides.
            let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get().min(8));
            let at_once = match look[0] {
                "kernels" => u64::try_from(threads).unwrap(),
                "verify" => u64::try_from(threads + 1).unwrap(),
                "inspect" if look.contains(&"--inflate") => u64::try_from(threads + 1).unwrap(),
                "diff" => u64::try_from(threads.max(2)).unwrap(),
                _ => 1,
            };
            Bomb::new(name, look).file("in", data.clone()).memory(at_once * 100 * MB).ends();
        }
        // The headers of a bundle stay while all of it is inflated.
        Bomb::new(name, &["recompress", "in", "-o", "out"]).file("in", data.clone()).memory(150 * MB).ends();
        list(name, "bc", data).memory(100 * MB).ends();
    }
    // Lists, and reports of what would be written, take memory for the IDs a few times, however they are escaped.
    let long = |ids: usize, end: &[u8]| {
        let ids: Vec<String> =
            (0..ids).map(|number| format!("{GFX906}{number}{}", text_of(end, 60_000_000 / ids))).collect();
        ids.chunks(20_000)
            .flat_map(|ids| formats::binary(&ids.iter().map(|id| (id.as_str(), &b"x"[..])).collect::<Vec<_>>(), 1))
            .collect::<Vec<u8>>()
    };
    list("an ID of 60 MB to be escaped", "bc", long(1, b"\0")).memory(200 * MB).ends();
    let many = long(80_000, b"9");
    list("80,000 IDs of 750 bytes", "bc", many.clone()).memory(100 * MB).ends();
    Bomb::new("80,000 IDs of 750 bytes", &["extract", "-n", "in"]).file("in", many).memory(400 * MB).ends();
}

/// A text of this byte, of `len` bytes.
fn text_of(byte: &[u8], len: usize) -> String {
    String::from_utf8(byte.repeat(len)).unwrap()
}

#[test]
fn wheels_whose_record_claims_much() {
    let bundle = formats::binary(&[(GFX906, &[7; 5000])], 1);
    let wheel = |record: &[u8]| {
        let record = Zipped::new("a-1.dist-info/RECORD", DEFLATED, record);
        make::zip(&[Zipped::new("a.co", DEFLATED, &bundle), record])
    };
    let bomb = |name, data| Bomb::new(name, &["recompress", "in", "-o", "out"]).file("in", data);
    let text = |pattern: &[u8]| pattern.repeat((4 << 20) / pattern.len());
    for (name, pattern) in [
        ("a RECORD of 4 MiB in one field", &b"x"[..]),
        ("a RECORD of 4 MiB of quotes", b"\""),
        ("a RECORD of 4 Mi fields", b","),
        ("a RECORD of 4 Mi lines", b"\n"),
        ("a RECORD of 400,000 lines for one file", b"a.co,x,1\r\n"),
    ] {
        bomb(name, wheel(&text(pattern))).memory(200 * MB).ends();
    }
    let large = wheel(&text(b"x").repeat(64));
    bomb("a RECORD of 256 MiB", large.clone())
        .memory(50 * MB)
        .fails("RECORD has 268435456 bytes, which is more than the limit");
    // A library may inflate as far as a search would inflate it.
    let library = [&Elf::LIBRARY.write(&[])[..64], &[0; 100 << 20]].concat();
    let zipped = make::zip(&[Zipped::new("a.so", DEFLATED, &library)]);
    bomb("a library of 100 MiB of zeros", zipped)
        .own_arg("--max-size=1M")
        .memory(50 * MB)
        .fails("exceeds the limit of 1048576");
}

#[test]
fn static_libraries_whose_index_claims_much() {
    let bundle = formats::binary(&[(GFX906, &[7; 5000])], 1);
    let object = Elf::OBJECT.write(&[Section::new(".hip_fatbin", &bundle)]);
    for (name, index) in [("/", vec![0xff; 64]), ("/SYM64/", vec![0xff; 64]), ("__.SYMDEF", vec![0xff; 64])] {
        let members = [archive_header(name, index.len()).into_bytes(), index, archive(&[("a", &object)])[8..].to_vec()];
        Bomb::new("an index that claims 2^32 members", &["recompress", "in", "-o", "out"])
            .file("in", [b"!<arch>\n", &members.concat()[..]].concat())
            .memory(50 * MB)
            .fails("the index of the archive needs");
    }
}

/// `recompress` leaves holes after bundles, which are zeros in a wheel. Reading them takes no memory.
#[test]
fn holes_in_members_take_no_memory() {
    let bundle = formats::compressed(2, 1, &formats::binary(&[(GFX906, &[7; 5000])], 1));
    let hole = vec![0; 96 << 20];
    let library = Elf::LIBRARY.write(&[Section::new(".hip_fatbin", &[&bundle, &hole, &bundle, &hole[..]].concat())]);
    let zipped = make::zip(&[Zipped::new("a.so", DEFLATED, &library)]);
    let wheel = |args: &[&str]| {
        let bomb = Bomb::new("a library of 192 MiB of holes in a wheel", args).on_disk();
        bomb.file("in", zipped.clone()).memory(48 * MB)
    };
    for args in [&["inspect", "--summary", "in"][..], &["verify", "in"], &["extract", "in", "-n"], &["kernels", "in"]] {
        wheel(args).ends();
    }
    wheel(&["recompress", "in", "-o", "out", "--level=9"]).ends_well();
}

/// A library that looks as if `recompress` had made it shorter. All of its segments could be parts of all old ones.
#[test]
fn gaps_that_are_claimed_again_and_again() {
    let (front, segments, sections) = (0x2_0000_u64, 1160_u16, 60_000_u16);
    let header = |tables: u64| {
        let numbers = [0x3e_0003_u64, 0, 64, tables].map(u64::to_le_bytes).concat();
        let counts = [0, 0, 64, 56, segments, 64, sections, 0].map(u16::to_le_bytes).concat();
        [&b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0"[..], &numbers[..4], &1_u32.to_le_bytes(), &numbers[8..], &counts]
            .concat()
    };
    let segment = |offset: u64, address: u64, len: u64| {
        [1 | 4 << 32, offset, address, address, len, len, 4096].map(u64::to_le_bytes).concat()
    };
    let new = (0..u64::from(segments)).map(|number| segment(front, number * 8192, 16));
    let old = segment(0, 0, u64::from(segments) * 8192).repeat(segments.into());
    let mut data = [header(2 * front), new.flatten().collect()].concat();
    data.resize(usize::try_from(front).unwrap(), 0);
    data.extend([header(front), old].concat());
    data.resize(2 * usize::try_from(front).unwrap(), 0);
    let section = [1 | 1 << 32, 2, 8, front, 8, 0, 8, 0].map(u64::to_le_bytes).concat();
    // A section without contents has the name of the others.
    data.extend([1 | 8 << 32, 2, 8, front, 8, 0, 8, 0].map(u64::to_le_bytes).concat());
    data.extend(section.repeat(usize::from(sections) - 1));
    Bomb::new("gaps that 1,160 segments claim", &["recompress", "in", "-o", "out"]).file("in", data).ends();
}

/// Libraries for Windows that look as if `recompress` had made them shorter: by much, or in all of many sections.
#[test]
fn pe_files_that_claim_to_have_been_longer() {
    let bundle = formats::binary(&[(GFX906, &[1; 3000])], 1);
    let table = 0x44 + 20 + 240;
    let much = |after: &[u8]| {
        let mut content = [&bundle, after].concat();
        content.resize(4096, 0);
        let mut data = make::pe(&[(".hip_fat", &content)]);
        data[table + 8..table + 12].copy_from_slice(&0xe000_0000_u32.to_le_bytes());
        data
    };
    let (empty, followed) = (much(b""), much(b"data"));
    let parts: Vec<(&str, &[u8])> = (0..60_000).map(|_| (".hip_fat", &b""[..])).collect();
    let mut many = make::pe(&parts);
    let (at, count) = (many.len(), 60_000);
    many.extend(&bundle);
    many.resize((at + 4096) + 512, 0);
    for (number, header) in (0..count).zip(many[table..].chunks_exact_mut(40)) {
        let fields = [4096, 4096 * (number + 1_000), 0, u32::try_from(at).unwrap()].map(u32::to_le_bytes).concat();
        header[8..24].copy_from_slice(&fields);
    }
    many[table + 16..table + 20].copy_from_slice(&3500_u32.to_le_bytes());
    for (name, data) in [
        ("a PE file that was 3.7 GB long", empty),
        ("a PE file of 3.7 GB with other data", followed),
        ("60,000 parts of a PE section", many),
    ] {
        for line in [&["recompress", "in", "-o", "out"][..], &["recompress", "--none", "in", "-o", "out"]] {
            Bomb::new(name, line).file("in", data.clone()).memory(100 * MB).ends();
        }
    }
}

/// Data that begins like a container at every few bytes, and fails late.
#[test]
fn files_full_of_magics_are_searched_once() {
    let fields = |numbers: &[u64]| numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<_>>();
    let ccob = |version: u8, method: u8| [b"CCOB", &[version, 0, method, 0][..], &fields(&[1 << 20])].concat();
    let mut elf = Elf::amdgpu(0x3f).write(&[])[..64].to_vec();
    elf[40..48].copy_from_slice(&fields(&[64]));
    elf[60..62].copy_from_slice(&[0xff, 0xff]);
    let offload = [&b"\x10\xff\x10\xad\x02\0\0\0"[..], &fields(&[1 << 16, 32, 1000])].concat();
    // Bundles whose entries are named by the next bundles.
    let chain = [&fields(&[0, 0, 32])[..], formats::MAGIC, &fields(&[90_000])].concat();
    let short_blocks = [&ccob(1, 1)[..], &fields(&[0])[..4], &[0x28, 0xb5, 0x2f, 0xfd, 0, 80, 0, 0, 0]].concat();
    let spirv = crate::properties::images::spirv_with_function(6);
    // Each module reads the next one as an operand, and goes on after its start.
    let mut hidden = spirv[..spirv.len() - 4].to_vec();
    hidden.extend((0x8_0000_u32 | 7).to_le_bytes());
    let patterns = vec![
        ("CCOB", b"CCOB".to_vec()),
        ("ELF", b"\x7fELF".to_vec()),
        ("bundles", formats::MAGIC.to_vec()),
        ("bundles that claim 1,000 entries", [formats::MAGIC, &fields(&[1000])].concat()),
        ("bundles that name each other", chain),
        ("compressed bundles of version 1", [&ccob(1, 0)[..], &fields(&[0])[..4], b"\x78\x9c"].concat()),
        ("compressed bundles of short blocks", short_blocks),
        ("compressed bundles of version 2", [ccob(2, 1), fields(&[0])].concat()),
        ("GPU ELF headers", elf),
        ("offload binaries", offload),
        ("fatbins", [&b"\x50\xed\x55\xba\x01\0\x10\0"[..], &fields(&[1 << 20])].concat()),
        ("fatbins without entries", fatbins::fatbin(&[])),
        ("SPIR-V without end", spirv[..spirv.len() - 8].to_vec()),
        ("SPIR-V in SPIR-V", hidden),
        ("PTX in comments without end", b"\0/* .version 8.7 .target sm_80".to_vec()),
        ("PTX without end", b"\n.version 8.7\n.target sm_80\n.entry f {".to_vec()),
    ];
    for (name, pattern) in sample(patterns, 4) {
        let data = [b"x", pattern.repeat((1 << 20) / pattern.len()).as_slice()].concat();
        for look in [&["inspect", "--deep", "in"][..], &["verify", "--deep", "in"]] {
            Bomb::new(name, look).file("in", data.clone()).memory(200 * MB).ends();
        }
    }
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
    for (name, count) in [("archive: 500 x 60 kB, compressed", 500), ("archive: 2,000 x 60 kB, compressed", 2000)] {
        let members: Vec<(&str, &[u8])> = (0..count).map(|number| ("m", kinds[number % 7].as_slice())).collect();
        let data = archive(&members);
        assert!(data.len() < count * 200, "{}", data.len());
        // The inflated data is as large as the output, but need not be in memory.
        unbundle(name, "a", data).memory(48 * MB).ends_well();
    }
    let image = offload::compressed(false, &[offload::Image::new(1, 4, &[("triple", "t")], &[0; 60_000])]);
    for (name, count) in [("offload binaries: 500 x 60 kB", 500), ("offload binaries: 2,000 x 60 kB", 2000)] {
        let data = archive(&vec![("m", image.as_slice()); count]);
        Bomb::new(name, &["in", "--archive", "--image=file=out"])
            .packager()
            .file("in", data)
            .memory(48 * MB)
            .ends_well();
    }
}

#[test]
fn names_that_members_share() {
    let bundle = formats::binary(&[(GFX906, b"x")], 1);
    let image = offload::write(1, &[offload::Image::new(1, 4, &[("triple", "t")], b"x")]);
    let with_one_name = |count: usize, content: &[u8]| {
        let names = "n".repeat(4000) + "/\n";
        let mut data = format!("!<arch>\n{}{names}", archive_header("//", names.len())).into_bytes();
        for _ in 0..count {
            data.extend(archive_header("/0", content.len()).as_bytes());
            data.extend(content);
            data.resize(data.len().next_multiple_of(2), b'\n');
        }
        data
    };
    for (name, count) in [("archive: 5,000 members with one name of 4 kB", 5000), ("archive: 40,000 of them", 40_000)] {
        let too_long = "length of all names of new members ";
        unbundle(name, "a", with_one_name(count, &bundle)).memory(80 * MB).fails(too_long);
        Bomb::new(name, &["in", "--archive", "--image=file=out"])
            .packager()
            .file("in", with_one_name(count, &image))
            .memory(80 * MB)
            .fails(too_long);
    }
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
    // The fatbin may be in a compressed bundle in a zip file.
    let bundle = formats::binary(&[(GFX906, &lz4)], 1);
    let member = Zipped::new("x", DEFLATED, &formats::compressed(3, 1, &bundle));
    fatbin_ends("a fatbin in a compressed bundle in a zip file", &make::zip(&[member]), 100 * MB);
}

#[test]
fn fatbins_that_claim_much() {
    let code = |flags| Code::new(fatbins::CUBIN, 90, &[]).with_flags(flags);
    let claims = |flags| fatbins::fatbin(&[fatbins::stored_entry(&code(flags), b"stored", 1 << 62)]);
    for method in [fatbins::ZSTD, fatbins::LZ4, fatbins::ZLIB, 0x4000, 0x1_0000] {
        fatbin_ends("fatbin: 100 bytes claim 2^62", &claims(method), 16 * MB);
    }
    let mut long = fatbins::fatbin(&[fatbins::entry(&code(0))]);
    for (at, claim) in [(8, u64::MAX), (8, 1 << 62), (24, u64::MAX - 80), (24, 1 << 62)] {
        let old = long.clone();
        long[at..at + 8].copy_from_slice(&claim.to_le_bytes());
        fatbin_ends("fatbin: a length of 2^62", &long, 16 * MB);
        long = old;
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

#[test]
fn many_fatbins_and_wrappers() {
    let one = fatbins::fatbin(&[fatbins::entry(&Code::ptx(90))]);
    fatbin_ends("12,500 fatbins", &one.repeat(12_500), 64 * MB);
    fatbin_ends("100,000 empty fatbins", &fatbins::fatbin(&[]).repeat(100_000), 64 * MB);
    let entries = fatbins::fatbin(&vec![fatbins::entry(&Code::ptx(90)); 25_000]);
    fatbin_ends("fatbin: 25,000 entries", &entries, 80 * MB);
    let library = |wrappers: &[u8], count: usize| elf::sections_of(".nvFatBinSegment", count, wrappers);
    let wrapper = fatbins::wrapper(64);
    for (name, data) in [
        ("50,000 wrappers", library(&wrapper.repeat(50_000), 1)),
        ("100,000 wrappers of zeros", library(&vec![0; 2_400_000], 1)),
        ("1,500 sections of the same 20,000 wrappers of zeros", library(&vec![0; 480_000], 1500)),
        ("1,500 sections of the same 20,000 wrappers", library(&wrapper.repeat(20_000), 1500)),
        ("1,500 sections with the same fatbins", elf::sections_of(".nv_fatbin", 1500, &one.repeat(500))),
    ] {
        fatbin_ends(name, &data, 64 * MB);
    }
}

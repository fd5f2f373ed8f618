//! Claims that the budget of a search answers, and those of files that are written again.

use super::super::bomb::{Bomb, MB};
use super::super::files::{Frame, ccob, elf};
use super::GFX906;
use crate::lists::{is_complete, share_of};
use crate::properties::code_objects::{self, Kernel, amd_with};
use crate::properties::make::{self, DEFLATED, Elf, STORED, Section, Zipped, archive, archive_header};
use crate::reference::formats;
use crate::subcommands::kernels::{bundle, changed_bundle};

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

/// Runs one of our subcommands, or of more command lines, on a file in a directory with other files; all of them if
/// `OFFLOAD_COMPLETE=1` is set. Each ends soon.
pub fn looks_end(name: &'static str, data: &[u8], beside: &[(&str, &[u8])], more: &[&[&str]], memory: u64) {
    for line in share_of(name, LOOKS.iter().chain(more).collect(), 1) {
        let bomb = Bomb::new(name, line).file("in", data.to_vec()).memory(memory);
        beside.iter().fold(bomb, |bomb, (name, data)| bomb.file(name, data.to_vec())).ends();
    }
}

/// A bundle whose entries all have the same bytes.
pub fn of_one_content(ids: &[String], content: &[u8]) -> Vec<u8> {
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
    run("1,250,000 kernels", &["--sort=vgpr", "--top=1"], bundle).memory(640 * MB).reports(limit);
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
    // This takes some seconds.
    if is_complete() {
        let objects: Vec<Vec<u8>> = (0..5).map(|number| listed(number * 13_000, 13_000)).collect();
        let entries: Vec<(&str, &[u8])> =
            ids.iter().zip(&objects).map(|(id, object)| (id.as_str(), &object[..])).collect();
        let limit = "more than 33554432 arguments, or 268435456 bytes of different ones; the rest is not listed";
        run("6,500,000 arguments", &args, formats::binary(&entries, 8)).memory(640 * MB).reports(limit);
    }
    // 5,000 entries of the same code object.
    let ids: Vec<String> = (0..5000).map(|number| format!("{GFX906}{number}")).collect();
    let object = code_objects::amd(&[Kernel::named(&"k".repeat(1_000_000))]);
    let shared = of_one_content(&ids, &object);
    Bomb::new("5,000 entries of one code object, one kernel", &["extract", "-n", "in", "--kernel=k*"])
        .file("in", shared.clone())
        .fails("expected no more than 16 times the bundle");
    run("5,000 entries of one code object", &[], shared).reports("overlap too much");
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
    let zip = |content: &[u8]| make::zip(&[Zipped::new(&"n".repeat(65_000), STORED, content)]);
    for (name, data) in [
        ("an ID of 15 MB, compressed", one_id(15_000_000)),
        ("four of them", one_id(15_000_000).repeat(4)),
        ("a zip member with a name of 65 kB and 16,000 broken bundles", zip(&broken.repeat(16_000))),
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
        Bomb::new(name, &["-list", "-type=bc", "-input=in"]).file("in", data).memory(100 * MB).ends();
    }
    // Lists, and reports of what would be written, take memory for the IDs a few times.
    let ids: Vec<String> = (0..20_000).map(|number| format!("{GFX906}{number}{}", "9".repeat(750))).collect();
    let many = formats::binary(&ids.iter().map(|id| (id.as_str(), &b"x"[..])).collect::<Vec<_>>(), 1);
    Bomb::new("20,000 IDs of 750 bytes", &["-list", "-type=bc", "-input=in"])
        .file("in", many.clone())
        .memory(60 * MB)
        .ends();
    Bomb::new("20,000 IDs of 750 bytes", &["extract", "-n", "in"]).file("in", many).memory(200 * MB).ends();
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
        ("a RECORD of 4 Mi fields", b","),
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
    for (name, index) in [("/", vec![0xff; 64]), ("/SYM64/", vec![0xff; 64])] {
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
    let hole = vec![0; 32 << 20];
    let library = Elf::LIBRARY.write(&[Section::new(".hip_fatbin", &[&bundle, &hole, &bundle, &hole[..]].concat())]);
    let zipped = make::zip(&[Zipped::new("a.so", DEFLATED, &library)]);
    let wheel = |args: &[&str]| {
        let bomb = Bomb::new("a library of 64 MiB of holes in a wheel", args).on_disk();
        bomb.file("in", zipped.clone()).memory(40 * MB)
    };
    for args in [&["inspect", "--summary", "in"][..], &["verify", "in"], &["extract", "in", "-n"], &["kernels", "in"]] {
        wheel(args).ends();
    }
    wheel(&["recompress", "in", "-o", "out", "--level=9"]).ends_well();
}

/// Of a library in a package, little stays once it is read: less than its inflated bytes.
#[test]
fn libraries_in_a_package_take_little_memory() {
    let rest: Vec<u8> = (0..120_000_u64).map(|number| u8::try_from(number * number % 251).unwrap()).collect();
    let wheel = |bundle: &[u8]| {
        let library = Elf::LIBRARY.write(&[Section::new(".hip_fatbin", bundle), Section::new(".text", &rest)]);
        let names: Vec<String> = (0..500).map(|number| format!("lib{number}.so")).collect();
        make::zip(&names.iter().map(|name| Zipped::new(name, DEFLATED, &library)).collect::<Vec<_>>())
    };
    let (old, new) = (wheel(&bundle()), wheel(&changed_bundle()));
    for line in ["inspect old", "verify old", "kernels old", "report -o out old", "diff --json old new"] {
        let bomb = Bomb::new("500 libraries of 120 kB", &line.split(' ').collect::<Vec<_>>());
        bomb.file("old", old.clone()).file("new", new.clone()).memory(48 * MB).ends();
    }
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

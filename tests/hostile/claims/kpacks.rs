//! kpack archives and references to them.

use super::super::bomb::{Bomb, MB};
use super::super::files::{Frame, elf};
use super::search::looks_end;
use crate::kpack::tree::program;
use crate::properties::kpacks::{self, Archive, Code, Scheme, Value, file, frames};

/// Runs our subcommands on a file in a directory with other files.
fn ends(name: &'static str, data: &[u8], beside: &[(&str, &[u8])], memory: u64) {
    looks_end(name, data, beside, &[&["extract", "-o", "new", "in"], &["recompress", "in", "-o", "out"]], memory);
}

/// The table of contents of an archive, with other values for some keys.
fn changed(archive: &Archive, changes: &[(&str, Value)]) -> Vec<u8> {
    let Value::Map(mut pairs) = archive.toc() else { unreachable!() };
    for (key, value) in &mut pairs {
        let Value::Text(key) = key else { unreachable!() };
        if let Some((_, other)) = changes.iter().find(|(name, _)| name == key) {
            *value = other.clone();
        }
    }
    Value::Map(pairs).encode()
}

fn with(archive: &Archive, key: &str, value: Value) -> Vec<u8> {
    file(&archive.blobs(), &changed(archive, &[(key, value)]))
}

fn small(scheme: Scheme) -> Archive {
    Archive::new("g", scheme, vec![Code::new("lib/a.so#0", "gfx906", b"content of a code object")])
}

#[test]
fn archives_that_inflate_to_much() {
    let size = 20 << 20;
    let archive = |frame: &[u8], size: usize| {
        let blobs = frames(&[frame.to_vec()]);
        let entry = Value::map([("ordinal", Value::Int(0)), ("original_size", Value::len(size))]);
        let toc = Value::map([("lib/a.so#0", Value::map([("gfx906", entry)]))]);
        let zstd_size = Value::len(blobs.len());
        file(&blobs, &changed(&small(Scheme::Zstd), &[("toc", toc), ("zstd_size", zstd_size)]))
    };
    let zeros = Frame::new(27).zeros(size).finish();
    let bomb = archive(&zeros, size);
    assert!(bomb.len() < size / 20_000, "{}", bomb.len());
    ends("kpack: zstd 32,000:1, 20 MiB", &bomb, &[], 100 * MB);
    let limit = "exceeds the limit of 16777216";
    let limited = |args| Bomb::new("kpack: --max-size=16M", args).file("in", bomb.clone()).own_arg("--max-size=16M");
    limited(&["verify", "in"]).finds(limit);
    limited(&["extract", "-o", "new", "in"]).fails(limit);
    for claim in [0, size + 1, usize::MAX / 2] {
        let data = archive(&zeros, claim);
        ends("kpack: a wrong size", &data, &[], 100 * MB);
        Bomb::new("kpack: a wrong size", &["extract", "-o", "new", "in"])
            .file("in", data)
            .memory(100 * MB)
            .fails("'in(lib/a.so#0)'");
    }
    ends("kpack: a window of 2 GiB", &archive(&Frame::new(31).raw(b"code").finish(), 4), &[], 64 * MB);
}

#[test]
fn deep_tables_of_contents() {
    let deep = |levels: usize| [vec![0x91; levels], vec![0xc0]].concat();
    let sound = small(Scheme::None);
    ends("kpack: 1,000,000 lists in one another", &file(b"", &deep(1_000_000)), &[], 32 * MB);
    ends("kpack: the same in the table", &with(&sound, "toc", Value::Raw(deep(1_000_000))), &[], 32 * MB);
    let maps = [[0x81, 0xa1, b'a'].repeat(250_000), vec![0xc0]].concat();
    ends("kpack: 250,000 maps in one another", &with(&sound, "toc", Value::Raw(maps)), &[], 32 * MB);
}

/// Small tables whose entries share bytes or names, or that hold much.
#[test]
fn tables_whose_entries_share_bytes() {
    let sound = small(Scheme::None);
    let same = Value::Map(vec![(Value::text("a"), Value::Map(Vec::new())); 110_000]);
    ends("kpack: 110,000 binaries with one name", &with(&sound, "toc", same), &[], 64 * MB);
    let arches = Value::List(vec![Value::text("gfx906"); 250_000]);
    ends("kpack: 250,000 target IDs", &with(&sound, "gfx_arches", arches), &[], 100 * MB);
    let blobs = Value::List(vec![Value::map([("offset", Value::Int(64)), ("size", Value::Int(8))]); 110_000]);
    ends("kpack: 110,000 blobs of the same bytes", &with(&sound, "blobs", blobs), &[], 64 * MB);
    let entry = || Value::map([("ordinal", Value::Int(0)), ("original_size", Value::Int(24))]);
    let targets = |count: usize| Value::Map((0..count).map(|at| (Value::Text(format!("gfx{at}")), entry())).collect());
    let of_one_key = Value::map([("lib/a.so#0", targets(25_000))]);
    ends("kpack: 25,000 targets of the same bytes", &with(&sound, "toc", of_one_key.clone()), &[], 100 * MB);
    ends("kpack: 25,000 targets of one frame", &with(&small(Scheme::Zstd), "toc", of_one_key), &[], 100 * MB);
    let long = Value::map([(&*"k".repeat(500_000), targets(2500))]);
    ends("kpack: a key of 500 kB, 2,500 targets", &with(&sound, "toc", long), &[], 200 * MB);
    let nested = (0..5).fold(vec![0; 1 << 16], |data, _| {
        let codes = (0..8).map(|at| Code::new(&format!("a#{at}"), "gfx906", &data)).collect();
        Archive::new("g", Scheme::Zstd, codes).write()
    });
    ends("kpack: 5 levels of 8, compressed", &nested, &[], 64 * MB);
}

#[test]
fn references_that_lead_to_much() {
    let codes = (0..500).map(|at| Code::new(&format!("lib/a.so#{at}"), "gfx906", b"content of a code object"));
    let archive = Archive::new("g", Scheme::None, codes.collect()).write();
    let reference = kpacks::reference(&["a_@GFXARCH@.kpack"], "lib/a.so");
    let names: Vec<String> = (0..20).map(|number| format!("a_gfx{number:x}.kpack")).collect();
    let beside: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), archive.as_slice())).collect();
    ends("a reference to 20 archives of the same code", &program(&reference, 500), &beside, 128 * MB);
    // Each section leads to all of them.
    let sections = elf::sections_of(".rocm_kpack_ref", 2500, &reference);
    ends("2,500 sections with the same reference", &sections, &beside, 100 * MB);
    let paths = vec!["a_@GFXARCH@.kpack"; 32];
    let repeated = kpacks::reference(&paths, "lib/a.so");
    ends("32 times the same path", &program(&repeated, 1), &beside, 128 * MB);
    let long = kpacks::reference(&["a_@GFXARCH@.kpack"], &"n".repeat(60_000));
    ends("2,500 sections with a long name", &elf::sections_of(".rocm_kpack_ref", 2500, &long), &beside, 64 * MB);
    let wrappers = kpacks::wrapper(0x2_0000, 0).repeat(250_000);
    let many = crate::kpack::tree::program_with(&reference, &wrappers);
    ends("250,000 wrappers of one code object", &many, &beside, 128 * MB);
}

use offload_bundle::container::Limits;
use offload_bundle::container::archive::{Archive, MemberLocation};
use offload_bundle::id::{EntryId, Rules};
use offload_bundle::io::Input;
use offload_bundle::llvm::UnbundleArchive;

use super::formats;
use super::offload_binary::images;
use super::room::Room;
use super::said;

const GFX906: &str = "hip-amdgcn-amd-amdhsa--gfx906";

/// Any bitcode has embedded offload binaries, has none, or is an error. As a member of a library, its symbols are read
/// for the index, or it is stored without them; in both cases it is restored byte for byte. The index contains only
/// names from the bitcode.
pub fn bitcode(data: &[u8]) {
    drop(images(&Room::with(data)));
    symbols(data);
}

fn symbols(data: &[u8]) {
    let is_bitcode = data.starts_with(b"BC\xc0\xde");
    let bundle = formats::binary(&[(GFX906.as_bytes().to_vec(), data.to_vec())], 4);
    let header = format!("{:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", "m.o/", 0, 0, 0, 644, bundle.len());
    let room = Room::with(&[b"!<arch>\n", header.as_bytes(), &bundle, &b"\n"[..bundle.len() % 2]].concat());
    let requests = vec![(EntryId::parse(GFX906).unwrap(), room.path("out.a"))];
    let (rules, allow_missing, check) = (Rules::default(), false, true);
    let limits = Limits::default();
    let mut job = UnbundleArchive::new(room.input(), requests);
    job.rules = rules;
    job.allow_missing = allow_missing;
    job.check = check;
    job.limits = limits;
    if job.run(&mut |_| {}).map_err(|error| said(&error)).is_err() {
        // An object that is not bitcode may be broken.
        assert!(!is_bitcode, "bitcode is stored even if it cannot be read");
        return room.holds_only(&["in"]);
    }
    let archive = room.take("out.a").unwrap();
    let input = Input::from_bytes("out", archive.clone());
    let members: Vec<_> = Archive::read(input.as_slice()).unwrap().members().map(Result::unwrap).collect();
    let [MemberLocation::Inside(content)] = [&members[0].location] else { panic!("no member inside") };
    assert!(members.len() == 1 && content.bytes() == data, "bitcode comes back changed");
    let index = object::read::archive::ArchiveFile::parse(archive.as_slice()).unwrap().symbols().unwrap();
    for symbol in index.into_iter().flatten() {
        let named = symbol.unwrap().name();
        assert!(!is_bitcode || memchr::memmem::find(data, named).is_some(), "{}", named.escape_ascii());
    }
}

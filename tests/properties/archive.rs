use offload_bundle::container::archive::{Archive, MemberLocation};
use offload_bundle::id::EntryId;
use offload_bundle::io::Input;
use offload_bundle::llvm::{FileType, List, UnbundleArchive};

use super::room::Room;
use super::said;
use super::sources::Sources;

const REQUESTS: [&str; 3] = [
    "hip-amdgcn-amd-amdhsa--gfx906",
    "hip-amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-",
    "host-x86_64-unknown-linux-gnu-",
];

/// Any bytes are an archive or an error. The members of an archive are inside it, one after another. It is listed and
/// unbundled, or gives an error and nothing is written. The outputs are archives, equal in two runs; the names of their
/// members are not paths, and the bytes of their members are from the file.
pub fn archive(data: &[u8]) {
    if !Archive::is_archive(data) {
        return;
    }
    members(data);
    let room = Room::with(data);
    let sources = Sources::of(data);
    let mut lines = Vec::new();
    let list = List::new(room.input(), FileType::Archive);
    let listed = list.run(&mut lines, &mut |_| {}).map_err(|error| said(&error)).is_ok();
    for (allow_missing, check) in [(true, false), (false, true)] {
        let outcome = run(&room, allow_missing, check);
        assert_eq!(run(&room, allow_missing, check), outcome, "unbundled twice");
        let Ok(archives) = outcome else { continue };
        assert!(listed || sources.is_large(), "unbundled and not listed");
        for (archive, request) in archives.iter().zip(REQUESTS) {
            check_written(archive, request, &sources);
        }
    }
}

/// Checks the members inside the archive.
fn members(data: &[u8]) {
    let input = Input::from_bytes("in", data.to_vec());
    let Ok(archive) = Archive::read(input.as_slice()) else { return };
    // Members of AIX archives are a linked list in any order.
    let in_order = !data.starts_with(b"<bigaf>");
    let mut end = 0;
    for member in archive.members() {
        let Ok(member) = member else { break };
        if let MemberLocation::Inside(slice) = member.location {
            assert!(!in_order || slice.offset() >= end, "members overlap");
            end = slice.offset() + slice.len();
            assert!(end <= input.len(), "a member outside");
        }
    }
}

fn run(room: &Room, allow_missing: bool, check: bool) -> Result<Vec<Vec<u8>>, String> {
    let ids = REQUESTS.into_iter().map(|id| EntryId::parse(id).unwrap());
    let names: Vec<String> = (0..REQUESTS.len()).map(|index| format!("out{index}.a")).collect();
    let requests = ids.zip(names.iter().map(|name| room.path(name))).collect();
    let mut job = UnbundleArchive::new(room.input(), requests);
    (job.allow_missing, job.check) = (allow_missing, check);
    let outcome = job.run(&mut |_| {}).inspect_err(|error| room.holds_fault(error)).map_err(|error| said(&error));
    let outcome = outcome.map(|()| names.iter().map(|name| room.take(name).unwrap()).collect());
    room.holds_only(&["in"]);
    outcome
}

fn check_written(archive: &[u8], request: &str, sources: &Sources<'_>) {
    let input = Input::from_bytes("out", archive.to_vec());
    for member in Archive::read(input.as_slice()).unwrap().members() {
        let member = member.unwrap();
        assert!(!member.name.iter().any(|byte| b"/\n\0".contains(byte)), "{}", member.name.escape_ascii());
        let MemberLocation::Inside(content) = member.location else { panic!("a thin archive") };
        // The host of a fat object is the rest of the object.
        if !request.starts_with("host-") {
            sources.hold(content.bytes(), "a code object");
        }
    }
}

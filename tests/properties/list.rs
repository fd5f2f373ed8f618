use offload_bundle::container::Container;
use offload_bundle::container::Entry;
use offload_bundle::container::archive::Archive;
use offload_bundle::container::binary::Binary;
use offload_bundle::container::object::Objects;
use offload_bundle::container::sequence::{Bundles, Inflate};
use offload_bundle::container::text::Text;
use offload_bundle::io::Input;
use offload_bundle::llvm::{FileType, List};

use super::room::Room;
use super::said;
use super::sources::Sources;

/// A file type for every container of bundles.
pub(super) const TYPES: [&str; 5] = ["bc", "o", "ii", "s", "ll"];

pub(super) fn container(file_type: &str) -> Box<dyn Container<Entry = Entry>> {
    match FileType::from_name(file_type).unwrap() {
        FileType::Text(comment) => Box::new(Text { comment }),
        FileType::Binary => Box::new(Binary::default()),
        FileType::Object | FileType::Archive => Box::new(Objects::default()),
    }
}

/// The IDs of all entries, and whether the file is complete.
pub(super) fn ids(data: &[u8], file_type: &str, inflate: Inflate) -> (Vec<Vec<u8>>, bool) {
    let input = Input::from_bytes("in", data.to_vec());
    let container = container(file_type);
    let mut ids = Vec::new();
    for bundle in Bundles::new(input.as_slice(), &*container, inflate) {
        match bundle {
            Ok(bundle) => ids.extend(bundle.entries.into_iter().map(|entry| entry.id)),
            Err(error) => {
                said(&error);
                return (ids, false);
            }
        }
    }
    (ids, true)
}

/// Any bytes, read as any type, are listed or give an error. The lines are the IDs that the library finds in memory,
/// whose bytes are in the file. Two runs give the same lines and the same error.
pub fn list(data: &[u8]) {
    let room = Room::with(data);
    let sources = Sources::of(data);
    for file_type in TYPES.into_iter().chain(["a"]) {
        let (lines, error) = run(&room, file_type);
        assert_eq!(run(&room, file_type), (lines.clone(), error.clone()), "listed twice");
        assert!(lines.chars().all(|c| c == '\n' || !c.is_control()), "control characters: {lines:?}");
        if file_type == "a" && Archive::is_archive(data) {
            continue;
        }
        let (ids, whole) = ids(data, file_type, Inflate::Whole);
        if !sources.is_large() {
            assert_eq!(whole, error.is_none(), "{error:?}");
            assert_eq!(lines.lines().count(), ids.len());
        }
        ids.iter().for_each(|id| sources.hold(id, "an entry ID"));
    }
    room.holds_only(&["in"]);
}

fn run(room: &Room, file_type: &str) -> (String, Option<String>) {
    let mut out = Vec::new();
    let job = List::new(room.input(), FileType::from_name(file_type).unwrap());
    let result = job.run(&mut out, &mut |_| {}).inspect_err(|error| room.holds_fault(error));
    (String::from_utf8(out).unwrap(), result.err().map(|error| said(&error)))
}

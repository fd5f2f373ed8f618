use std::collections::BTreeSet;
use std::path::PathBuf;

use offload_bundle::container::object::HostFormat;
use offload_bundle::container::sequence::Inflate;
use offload_bundle::id::{EntryId, OffloadKind};
use offload_bundle::llvm::{FileType, Unbundle};

use super::list::{TYPES, ids};
use super::room::Room;
use super::said;
use super::sources::Sources;

const OTHERS: [&str; 2] = ["host-x86_64-unknown-linux-gnu-", "hip-amdgcn-amd-amdhsa--gfx90a:xnack+"];

/// The outputs of a job, or its error.
type Outcome = Result<Vec<Vec<u8>>, String>;

/// Any bytes, read as any type, are unbundled, or give an error and nothing is written. The bytes of the outputs are
/// from the file, and are the same in two runs.
pub fn unbundle(data: &[u8]) {
    let room = Room::with(data);
    let sources = Sources::of(data);
    for file_type in TYPES {
        let held = requests_of(&ids(data, file_type, Inflate::Whole).0);
        check(&room, &sources, file_type, &held, Missing::Refused, data);
        let all: Vec<EntryId> = held.into_iter().take(2).chain(others()).collect();
        check(&room, &sources, file_type, &all, Missing::Allowed, data);
    }
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Missing {
    Refused,
    Allowed,
}

/// IDs that are requested from every file.
pub(super) fn others() -> Vec<EntryId> {
    OTHERS.into_iter().map(|id| EntryId::parse(id).unwrap()).collect()
}

/// The first valid IDs, without duplicates.
fn requests_of(ids: &[Vec<u8>]) -> Vec<EntryId> {
    let mut seen = BTreeSet::new();
    let parsed = ids.iter().filter_map(|id| EntryId::parse(std::str::from_utf8(id).ok()?).ok());
    parsed.filter(|id| seen.insert(id.to_string())).take(4).collect()
}

fn check(room: &Room, sources: &Sources<'_>, file_type: &str, requests: &[EntryId], missing: Missing, data: &[u8]) {
    let outcome = run(room, file_type, requests, missing);
    assert_eq!(run(room, file_type, requests, missing), outcome, "unbundled twice");
    // The host of a fat object is the rest of the object.
    let whole_object =
        |id: &EntryId| id.kind() == OffloadKind::Host && file_type == "o" && HostFormat::identify(data).is_some();
    for (id, content) in requests.iter().zip(outcome.unwrap_or_default()) {
        if !whole_object(id) {
            sources.hold(&content, "a code object");
        }
    }
}

/// Unbundles the requested entries, each into a separate file.
pub(super) fn unbundling(
    input: PathBuf,
    file_type: &str,
    requests: Vec<(EntryId, PathBuf)>,
    missing: Missing,
) -> Unbundle {
    let mut job = Unbundle::new(input, FileType::from_name(file_type).unwrap(), requests);
    job.allow_missing = missing == Missing::Allowed;
    job
}

pub(super) fn run(room: &Room, file_type: &str, requests: &[EntryId], missing: Missing) -> Outcome {
    let names: Vec<String> = (0..requests.len()).map(|index| format!("out{index}")).collect();
    let requests = requests.iter().cloned().zip(names.iter().map(|name| room.path(name))).collect();
    let outcome = unbundling(room.input(), file_type, requests, missing).run(&mut |_| {}).map_err(|error| said(&error));
    let outcome = outcome.map(|()| names.iter().map(|name| room.take(name).unwrap()).collect());
    room.holds_only(&["in"]);
    outcome
}

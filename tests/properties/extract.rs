use std::collections::BTreeSet;
use std::fs;

use offload_bundle::container::sequence::Inflate;
use offload_bundle::id::OffloadKind;
use offload_bundle::inventory::{Comparison, Pattern, Selection};
use offload_bundle::io::Input;
use offload_bundle::job::{Destination, Extract, Extracted, Source};
use offload_bundle::scan::FoundBundle;

use sha2::{Digest as _, Sha256};

use super::choices::{Choices, digest};
use super::room::Room;
use super::said;
use super::search::{LIMITS, Seen, is_embedded, leads_elsewhere, search_with};
use super::sources::Sources;

const PATTERNS: [&str; 6] = ["*", "gfx906", "gfx90a:xnack+", "*gfx9*", "hip-amdgcn-amd-amdhsa--gfx90a", "host-*"];

/// From any bytes, exactly the code objects that a search finds and the selection matches are extracted, in their order
/// and with the same result in two runs. After an error, there is no output. A file has the size and the bytes of its
/// code object; the bytes of compressed code objects inflate from the input.
///
/// File names are unique and contain only plain characters. A dry run reports the same, SHA-256 included.
pub fn extract(data: &[u8]) {
    let sources = Sources::nested(data);
    if leads_elsewhere(&sources) {
        return;
    }
    let room = Room::with(data);
    for selection in [all(), chosen(data)] {
        check(&room, &sources, &selection);
    }
}

/// A selection of all code objects, including hosts.
pub(super) fn all() -> Selection {
    let mut selection = Selection::default();
    selection.targets = vec![Pattern::parse("*").unwrap()];
    selection
}

/// A selection derived from the bytes.
pub(super) fn chosen(data: &[u8]) -> Selection {
    let digest = digest(data);
    let mut choices = Choices::new(&digest);
    let mut selection = Selection::default();
    let count = choices.below(3);
    selection.targets = (0..count).map(|_| Pattern::parse(choices.pick(&PATTERNS)).unwrap()).collect();
    let kind = choices.pick(&[None, None, Some(OffloadKind::Hip), Some(OffloadKind::OpenMp)]);
    selection.kinds.extend(kind);
    selection.comparison = choices.pick(&[Comparison::Compatible, Comparison::Exact]);
    selection
}

/// The names and contents of the files that are extracted, as [`files`].
pub(super) fn run(room: &Room, selection: &Selection) -> Result<Vec<(String, Vec<u8>)>, String> {
    let name = |file: &Extracted| file.path.file_name().unwrap().to_str().unwrap().to_owned();
    Ok(files(room, selection)?.into_iter().map(|(file, content)| (name(&file), content)).collect())
}

/// Extracts the code objects of a selection. On success, exactly the reported files exist; they are removed afterwards.
/// After an error, no files exist.
fn files(room: &Room, selection: &Selection) -> Result<Vec<(Extracted, Vec<u8>)>, String> {
    let directory = room.path("new");
    let result = job(room, selection, Destination::Directory(directory.clone()));
    let files = result.map(|extracted| {
        let files = extracted.into_iter().map(|file| {
            assert_eq!(file.path.parent(), Some(directory.as_path()));
            let content = fs::read(&file.path).unwrap();
            assert_eq!(u64::try_from(content.len()).unwrap(), file.code_object.size, "{}", file.path.display());
            assert_eq!(file.sha256, Some(Sha256::digest(&content).into()), "{}", file.path.display());
            (file, content)
        });
        let files: Vec<(Extracted, Vec<u8>)> = files.collect();
        assert_eq!(fs::read_dir(&directory).unwrap().count(), files.len(), "files that were not told");
        fs::remove_dir_all(&directory).unwrap();
        files
    });
    room.holds_only(&["in"]);
    files
}

pub(super) fn job(room: &Room, selection: &Selection, destination: Destination) -> Result<Vec<Extracted>, String> {
    let selection = selection.clone();
    let input = Source::named(room.input());
    let mut job = Extract::new(vec![input], selection, destination);
    (job.scan.limits, job.sha256) = (LIMITS, true);
    job.run(&mut |_| {}).map_err(|error| said(&error))
}

/// A code object that the search found and the selection matches.
struct Wanted {
    size: u64,
    in_place: Option<Vec<u8>>,
    /// Whether its bytes are contiguous somewhere.
    in_one_piece: bool,
    /// Whether the code object may be padded to 8 bytes: the exact end of compressed code is known only when it is
    /// inflated.
    is_packed: bool,
}

/// The expected code objects, and all findings. If the total size is too large, only the first code objects are
/// compared.
fn wanted(room: &Room, selection: &Selection) -> (Vec<Wanted>, Seen) {
    let mut wanted = Vec::new();
    let mut room_left = 32_usize << 20;
    let input = Input::read(&room.input()).unwrap();
    let look = &mut |found: &FoundBundle<'_>| {
        for code_object in found.code_objects().filter(|code_object| selection.takes(code_object)) {
            let in_place = code_object.in_place().map(|slice| slice.bytes());
            let in_place = in_place.filter(|bytes| bytes.len() <= room_left).map(<[u8]>::to_vec);
            room_left -= in_place.as_ref().map_or(0, Vec::len);
            let in_one_piece = code_object.range().is_some() && !is_embedded(found.place);
            wanted.push(Wanted {
                size: code_object.size(),
                in_place,
                in_one_piece,
                is_packed: code_object.packed().is_some(),
            });
        }
    };
    let seen = search_with(&input, Inflate::Headers, false, look);
    (wanted, seen)
}

fn check(room: &Room, sources: &Sources<'_>, selection: &Selection) {
    let first = files(room, selection);
    let nowhere = job(room, selection, Destination::Nowhere(room.path("new")));
    room.holds_only(&["in"]);
    let told = first.as_ref().map(|files| files.iter().map(|(file, _)| file.clone()).collect::<Vec<_>>());
    assert_eq!(nowhere.as_ref(), told.as_ref().map_err(|error| *error), "what is told without files");
    let outcome = run(room, selection);
    let again = first.map(|files| files.into_iter().map(|(_, content)| content).collect::<Vec<_>>());
    let contents =
        |files: &Vec<(String, Vec<u8>)>| files.iter().map(|(_, content)| content.clone()).collect::<Vec<_>>();
    assert!(outcome.as_ref().map(contents) == again.as_ref().cloned(), "extracted twice");

    let (wanted, seen) = wanted(room, selection);
    let Ok(files) = outcome else { return };
    assert_eq!(seen.broken, [""; 0], "extracted in spite of it");
    assert_eq!(files.len(), wanted.len(), "another number of files than of code objects");
    let mut seen_names = BTreeSet::new();
    let mut looked_for = 0;
    for ((name, content), wanted) in files.iter().zip(&wanted) {
        assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-._=".contains(&byte)), "{name:?}");
        assert!(seen_names.insert(name), "two files have the name {name}");
        let len = u64::try_from(content.len()).unwrap();
        let is_padded = wanted.is_packed && len < wanted.size && wanted.size - len <= 8;
        assert!(len == wanted.size || is_padded, "{name}: {len} and {}", wanted.size);
        if let Some(expected) = &wanted.in_place {
            assert!(content == expected, "{name} is not its code object");
        } else if wanted.in_one_piece && looked_for < 64 {
            looked_for += 1;
            sources.hold(content, "a code object");
        }
    }
}

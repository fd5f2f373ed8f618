use std::ops::Range;

use offload_bundle::container::Part;
use offload_bundle::container::sequence::Inflate;
use offload_bundle::container::stream::{Compression, Method, Recorded};
use offload_bundle::id::OffloadKind;
use offload_bundle::io::Input;
use offload_bundle::job::{Fault, Recompress, Recompressed, Verify};
use offload_bundle::scan::{CodeObject, Format, Found, Selection, Step};

use super::choices::{Choices, digest};
use super::extract::chosen;
use super::room::Room;
use super::search::{LIMITS, search_with};
use super::sources::Sources;

/// The most bytes of code objects that are compared.
const COMPARED_MAX: usize = 32 << 20;

/// How much may inflate from a file whose faults are compared: of what inflates to more, not all is looked at.
const INFLATED_MAX: usize = 8 << 20;

/// Any bytes are recompressed, twice the same, or there is an error and nothing is left. The same code objects, IDs and
/// bytes, are then in the same order in as many bundles, but for those that were left out; without any left out, no fault
/// is found that was not there before. Doing it again changes nothing, nor is anything else there of what was made plain
/// in between.
///
/// A program is as long as before, each bundle is where it was, zeros follow it up to its old end, and every byte that
/// belongs to none is as before.
pub fn recompress(data: &[u8]) {
    let digest = digest(data);
    let mut choices = Choices::new(&digest);
    let method = choices.pick(&[None, Some(Method::Zstd), Some(Method::Zlib)]);
    let compression = method.map(|method| {
        let mut compression = Compression::of(method);
        compression.level = choices.pick(&[1, 3, 6]);
        compression
    });
    let (keep, drop) = match choices.below(4) {
        0 => (Some(chosen(data)), None),
        1 => (None, Some(chosen(data))),
        _ => (None, None),
    };
    let room = Room::with(data);
    let change = Change { compression, keep, drop };
    let Some((output, result)) = change.run(&room) else { return };
    let (before, after) = (Held::of(data, &|code_object| change.keeps(code_object)), Held::of(&output, &|_| true));
    let is_program = data.starts_with(b"\x7fELF");
    if is_program && overlap(&before.bundles) {
        assert_eq!(output.len(), data.len());
        return;
    }
    assert_eq!((before.bundles.len(), before.stored()), (result.bundles, result.before), "what there was");
    assert!(before.contents == after.contents, "other code objects than before");
    assert!(after.bundles.len() == result.bundles && after.stored() == result.after, "what there is");
    if is_program {
        program(data, &output, &before, &after);
    } else {
        assert!(output.ends_with(before.trailing(data)), "what follows the bundles is lost");
        let is_larger = change.compression.is_some() && result.dropped == 0 && output.len() > data.len();
        assert!(!is_larger, "larger than before");
    }

    let mut sound = Verify::default();
    sound.limits.inflated = LIMITS.inflated;
    let faults = |room: &Room| sound.run(&room.input()).unwrap().faults;
    let faults_before = faults(&room);
    room.write("in", &output);
    if result.dropped == 0 && Sources::nested(data).inflated_len() < INFLATED_MAX {
        compare(&faults_before, &faults(&room));
    }
    if after.bundles.is_empty() {
        return;
    }
    let change = Change { keep: None, drop: None, ..change };
    let (again, _) = change.run(&room).unwrap();
    // What zlib makes of pieces depends on where one ends.
    let in_pieces =
        result.dropped > 0 && change.compression.is_some_and(|compression| compression.method == Method::Zlib);
    assert!(again == output || (in_pieces && again.len() <= output.len()), "done again, it is changed");
    let Some((plain, _)) = (Change { compression: None, keep: None, drop: None }).run(&room) else {
        assert!(is_program || after.must_stay_compressed, "cannot be made plain");
        return;
    };
    let plain = Held::of(&plain, &|_| true);
    assert!(is_program || plain.contents == after.contents, "other code objects when plain");
    assert!(plain.compressed <= usize::from(is_program) * after.compressed, "compressed when plain");
}

/// That there are no more faults of a rule than there were.
fn compare(before: &[Fault], after: &[Fault]) {
    for fault in after {
        let count = |faults: &[Fault]| faults.iter().filter(|other| other.rule == fault.rule).count();
        assert!(count(after) <= count(before), "a new fault: {fault}");
    }
}

/// What stays of a program: all that is no bundle, and where the bundles are.
fn program(data: &[u8], output: &[u8], before: &Held, after: &Held) {
    assert_eq!(output.len(), data.len());
    assert!(
        after.bundles.iter().all(|new| before.bundles.iter().any(|old| old.start == new.start)),
        "a bundle has moved"
    );
    let touched: Vec<&Range<u64>> = before.bundles.iter().chain(&after.bundles).collect();
    let mut position = 0;
    for (at, (old, new)) in (0_u64..).zip(data.iter().zip(output)) {
        if at < position {
            continue;
        }
        match touched.iter().filter(|range| range.contains(&at)).map(|range| range.end).max() {
            Some(end) => position = end,
            None => assert_eq!(old, new, "the byte at {at} belongs to no bundle"),
        }
    }
    for (at, byte) in (0_u64..).zip(output) {
        let is_left = before.bundles.iter().any(|range| range.contains(&at))
            && !after.bundles.iter().any(|range| range.contains(&at));
        assert!(!is_left || *byte == 0, "the byte at {at} is left of a bundle");
    }
}

fn overlap(ranges: &[Range<u64>]) -> bool {
    let mut ranges = ranges.to_vec();
    ranges.sort_by_key(|range| range.start);
    ranges.windows(2).any(|pair| pair[0].end > pair[1].start)
}

/// What is to be done.
#[derive(Default)]
pub(super) struct Change {
    compression: Option<Compression>,
    keep: Option<Selection>,
    drop: Option<Selection>,
}

impl Change {
    /// The file that is written, or an error, which leaves nothing.
    pub(super) fn run_once(&self, room: &Room) -> (Option<Vec<u8>>, Result<Recompressed, String>) {
        let mut job = Recompress::new(room.input(), room.path("out"));
        job.compression = self.compression;
        job.keep = self.keep.clone();
        job.drop = self.drop.clone();
        job.limits = LIMITS;
        let result = job.run(&mut |_| {}).map_err(|error| error.to_string());
        let output = room.take("out");
        assert_eq!(output.is_some(), result.is_ok(), "{result:?}");
        room.holds_only(&["in"]);
        (output, result)
    }

    /// The file that is written, twice the same; none if there is an error.
    fn run(&self, room: &Room) -> Option<(Vec<u8>, Recompressed)> {
        let (output, result) = self.run_once(room);
        assert!(self.run_once(room) == (output.clone(), result.clone()), "recompressed twice");
        output.zip(result.ok())
    }

    fn keeps(&self, code_object: &CodeObject<'_>) -> bool {
        let is_host = code_object.entry_id().is_some_and(|id| id.kind() == OffloadKind::Host);
        let takes = |selection: &Option<Selection>| selection.as_ref().map(|selection| selection.takes(code_object));
        takes(&self.drop) != Some(true) && (is_host || takes(&self.keep) != Some(false))
    }
}

/// The bundles of a file that belong to it alone, and their code objects.
#[derive(Default)]
struct Held {
    /// Where each bundle is stored.
    bundles: Vec<Range<u64>>,
    /// Of each bundle that has any code objects, their IDs and contents. An empty text bundle is nothing at all.
    contents: Vec<Vec<(Vec<u8>, Vec<u8>)>>,
    /// Whether the place where a compressed one ends may be lost when it is plain: it is a text bundle, or inflates to more
    /// than a bundle.
    must_stay_compressed: bool,
    /// How many are compressed.
    compressed: usize,
    /// Where something follows them that is no bundle.
    trailing: Option<u64>,
}

impl Held {
    fn of(data: &[u8], keeps: &dyn Fn(&CodeObject<'_>) -> bool) -> Self {
        let mut held = Self::default();
        let mut left = COMPARED_MAX;
        let look = &mut |found: &Found<'_>| {
            let start = usize::try_from(found.bundle.offset).unwrap();
            let is_compressed = data.get(start..).is_some_and(|data| data.starts_with(b"CCOB"));
            let is_own = match found.place.steps() {
                [] => is_compressed || matches!(found.format, Format::Bundle | Format::TextBundle),
                [Step::Section(_)] => is_compressed || found.format != Format::OffloadBinary,
                _ => false,
            };
            let range = found.bundle.range().unwrap();
            // Two sections in one place are one.
            if !is_own || held.bundles.contains(&range) {
                return;
            }
            let ends = found.bundle.entries.iter().flat_map(|entry| &entry.parts).map(|part| match part {
                Part::Range(range) => range.end,
                _ => 0,
            });
            let end = ends.max().unwrap_or(0);
            let is_text = found.format == Format::TextBundle;
            let hides = |recorded: Recorded| is_text || end < recorded.inflated;
            held.must_stay_compressed |= is_compressed && found.bundle.compressed.is_some_and(hides);
            held.bundles.push(range);
            held.compressed += usize::from(found.bundle.compressed.is_some());
            let mut contents = Vec::new();
            for code_object in found.code_objects().filter(|code_object| keeps(code_object)) {
                let mut content = Vec::new();
                let size = usize::try_from(code_object.size()).unwrap();
                if size <= left {
                    left -= size;
                    found.bundle.write_to(code_object.index(), &mut content).unwrap();
                }
                contents.push((code_object.id().to_vec(), content));
            }
            held.contents.extend(Some(contents).filter(|contents| !contents.is_empty()));
        };
        let seen = search_with(&Input::from_bytes("in", data.to_vec()), Inflate::Whole, look);
        held.trailing = seen.trailing.iter().find(|(place, _)| place.steps().is_empty()).map(|(_, offset)| *offset);
        held
    }

    fn trailing<'d>(&self, data: &'d [u8]) -> &'d [u8] {
        &data[self.trailing.map_or(data.len(), |offset| usize::try_from(offset).unwrap())..]
    }

    fn stored(&self) -> u64 {
        self.bundles.iter().map(|range| range.end - range.start).sum()
    }
}

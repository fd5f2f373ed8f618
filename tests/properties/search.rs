use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::{ControlFlow, Range};

use offload_bundle::container::Codec;
use offload_bundle::container::Limits;
use offload_bundle::container::sequence::Inflate;
use offload_bundle::io::Input;
use offload_bundle::scan::{
    Checksums, CodeObject, CodeObjectRef, ContentKind, Finding, Format, FoundBundle, Place, PlaceOrigin, Scan, Step,
    Uri,
};

use super::room::Room;
use super::said;
use super::sources::Sources;

/// Limits on the inflated size of a file, so that no input takes long.
pub(super) const LIMITS: Limits = Limits::up_to(32 << 20);

/// The maximum number of bundles and code objects that a search reports.
const FOUND_MAX: usize = 250_000;

/// The maximum size of a compressed bundle that a search with `Inflate::AsNeeded` inflates fully.
const WHOLE_MAX: u64 = 16 << 20;

/// The maximum number of compared bytes of code objects, and of code objects searched for elsewhere: many of them may
/// share the same bytes.
const COMPARED_MAX: usize = 32 << 20;
const LOOKED_FOR_MAX: usize = 64;

/// The maximum number of code objects that are read again after the search, and the maximum size of each.
const READ_MAX: usize = 256;
const READ_SIZE_MAX: u64 = 1 << 16;

/// The maximum number of URIs that are resolved: each may take another search.
const RESOLVED_MAX: usize = 64;

/// A code object found by the search.
#[derive(Debug, PartialEq)]
pub(super) struct SeenObject {
    pub(super) id: Vec<u8>,
    /// `None` if the code object alone is compressed: its exact end may be known only when it is inflated.
    pub(super) size: Option<u64>,
    pub(super) range: Option<Range<u64>>,
    /// `None` if the code object alone is compressed, as the size is part of the URI.
    uri: Option<String>,
    kind: Option<ContentKind>,
    /// Whether its compression is not known.
    pub(super) is_obfuscated: bool,
}

/// A bundle found by the search.
#[derive(Debug, PartialEq)]
pub(super) struct SeenBundle {
    pub(super) place: Place,
    pub(super) index: usize,
    pub(super) format: Format,
    pub(super) offset: u64,
    pub(super) stored_len: u64,
    pub(super) inflated: Option<u64>,
    pub(super) objects: Vec<SeenObject>,
}

/// The findings, in order.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Seen {
    pub(super) bundles: Vec<SeenBundle>,
    pub(super) broken: Vec<String>,
    pub(super) trailing: Vec<(Place, Option<u64>)>,
    /// Errors that hide device code.
    pub(super) hidden: Vec<String>,
    /// Parts that are recognised but not read.
    pub(super) unread: Vec<(Place, u64)>,
}

impl SeenBundle {
    fn of(found: &FoundBundle<'_>) -> Self {
        let object = |code_object: CodeObjectRef<'_>| SeenObject {
            id: code_object.id().to_vec(),
            size: code_object.packed().is_none().then(|| code_object.size()),
            range: code_object.range(),
            uri: code_object.uri().unwrap().filter(|_| code_object.packed().is_none()).map(|uri| uri.to_string()),
            kind: code_object.kind(),
            is_obfuscated: code_object.packed().is_some_and(|packed| packed.codec == Codec::Unknown),
        };
        Self {
            place: found.place.clone(),
            index: found.index,
            format: found.format,
            offset: found.bundle.offset,
            stored_len: found.bundle.stored_len().unwrap(),
            inflated: found.bundle.compressed.map(|recorded| recorded.inflated),
            objects: found.code_objects().map(object).collect(),
        }
    }

    fn ids(&self) -> (&Place, usize, Vec<&[u8]>) {
        (&self.place, self.index, self.objects.iter().map(|object| object.id.as_slice()).collect())
    }

    /// The place and the offset, as they are shown, and the IDs.
    fn whereabouts(&self) -> (String, u64, Vec<&[u8]>) {
        (self.place.to_string(), self.offset, self.ids().2)
    }

    /// Whether the bundle is inside a code object of another bundle.
    pub(super) fn is_nested(&self) -> bool {
        self.place.steps().iter().any(|step| matches!(step, Step::Entry(_)))
    }
}

impl Seen {
    /// The number of code objects.
    pub(super) fn code_objects(&self) -> usize {
        self.bundles.iter().map(|bundle| bundle.objects.len()).sum()
    }
}

fn settings(inflate: Inflate, deep: bool) -> Scan {
    let mut search = Scan::default();
    (search.inflate, search.deep, search.limits) = (inflate, deep, LIMITS);
    search.checksums = if inflate == Inflate::Whole { Checksums::OfAll } else { Checksums::None };
    search
}

/// Searches a file; `look` receives each bundle.
pub(super) fn search_with(input: &Input, inflate: Inflate, deep: bool, look: &mut dyn FnMut(&FoundBundle<'_>)) -> Seen {
    let search = settings(inflate, deep);
    let mut seen = Seen::default();
    let visit = &mut |finding: Finding<'_>| {
        match finding {
            Finding::Bundle(found) => {
                look(&found);
                seen.bundles.push(SeenBundle::of(&found));
            }
            Finding::Broken { place, error } => seen.broken.push(format!("{place}: {}", said(&error))),
            Finding::Trailing { place, offset, .. } => seen.trailing.push((place.clone(), offset)),
            Finding::Hidden { place, error } => seen.hidden.push(format!("{place}: {}", said(&error))),
            Finding::Unread { place, offset, .. } => seen.unread.push((place.clone(), offset)),
            // The code objects in them are reported as bundles.
            Finding::Kpack { .. } | Finding::Split { .. } => {}
            other => panic!("{other:?}"),
        }
        Ok(())
    };
    search.run(input, visit).unwrap();
    seen
}

/// Whether other files may belong to this one: thin archives refer to files.
pub(super) fn leads_elsewhere(sources: &Sources<'_>) -> bool {
    sources.contain(b"!<thin>\n")
}

/// Any bytes are searched, with the same result in two runs. Each code object is inside its bundle, and the bundle
/// inside the file. A code object in place has the bytes of the file at its range. Its URI leads to its bytes, wherever
/// they are. All other code objects inflate from the file.
///
/// A code object that a search finds can be read again, in whatever containers it is.
///
/// Places, IDs and URIs contain no control characters. There are at most 250,000 bundles and code objects.
///
/// A search that inflates everything finds the same bundles with the same IDs as one that inflates only headers, and
/// additionally those in compressed bundles. If the former finds no fault, neither does the latter. Deep searches have
/// the same properties, and find everything that other searches find.
pub fn search(data: &[u8]) {
    let sources = Sources::nested(data);
    if leads_elsewhere(&sources) {
        return;
    }
    let room = Room::with(data);
    let input = Input::read(&room.input()).unwrap();
    let [known, all] = [false, true].map(|deep| search_input(data, &sources, &input, deep));
    // A wrapper may point into the inside of another container, which a deep search skips.
    if known.broken.is_empty() && all.broken.is_empty() && !sources.contain(b"FPIH") {
        let found: HashSet<_> = all.bundles.iter().map(SeenBundle::whereabouts).collect();
        let missed = known.bundles.iter().find(|bundle| !found.contains(&bundle.whereabouts()));
        assert!(missed.is_none(), "not found by a deep search: {missed:?}");
    }
    room.holds_only(&["in"]);
}

/// Searches a file three times. Returns the result of the search that inflates everything.
fn search_input(data: &[u8], sources: &Sources<'_>, input: &Input, deep: bool) -> Seen {
    let run = |inflate| {
        let mut check = Check { data, input, sources, compared: 0, looked_for: 0, resolved: 0 };
        let seen = search_with(input, inflate, deep, &mut |found| check.bundle(found));
        assert!(search_with(input, inflate, deep, &mut |_| {}) == seen, "searched twice");
        let found = seen.bundles.len() + seen.code_objects();
        assert!(found <= FOUND_MAX, "{found} bundles and code objects");
        let trailing = seen.trailing.iter().filter_map(|(place, offset)| Some((place, (*offset)?)));
        let unread = seen.unread.iter().map(|(place, offset)| (place, *offset));
        trailing.chain(unread).for_each(|(place, offset)| check.offset(place, offset));
        seen
    };
    [Inflate::Headers, Inflate::Whole].into_iter().for_each(|inflate| read_again(input, inflate, deep));
    let [headers, as_needed, whole] = [Inflate::Headers, Inflate::AsNeeded, Inflate::Whole].map(run);
    if whole.broken.is_empty() {
        compare(&headers, &whole);
        compare(&as_needed, &whole);
        if whole.bundles.iter().all(|bundle| bundle.inflated.is_none_or(|inflated| inflated <= WHOLE_MAX)) {
            assert!(as_needed == whole, "a search that inflates as it needs finds something else");
        }
    }
    whole
}

/// Checks that code objects have the same bytes after a search as during it.
fn read_again(input: &Input, inflate: Inflate, deep: bool) {
    let scan = settings(inflate, deep);
    let (mut known, mut expected) = (Vec::new(), Vec::new());
    let visit = &mut |finding: Finding<'_>| {
        let Finding::Bundle(found) = finding else { return Ok(ControlFlow::Continue(())) };
        let info = found.info()?;
        for code_object in found.code_objects().filter(|code_object| code_object.size() <= READ_SIZE_MAX) {
            known.push(code_object.keep(&info));
            expected.push(code_object.bytes().ok().map(Cow::into_owned));
        }
        Ok(if known.len() < READ_MAX { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
    };
    scan.run_until(input, visit).unwrap();
    let wanted: Vec<&CodeObject> = known.iter().collect();
    scan.read(input, &wanted, &mut |index, read| {
        let expected = std::mem::take(&mut expected[index]);
        assert!(read.as_ref().ok() == expected.as_ref(), "{:?}: {expected:?}, then {read:?}", wanted[index]);
        ControlFlow::Continue(())
    })
    .unwrap();
    // If a bundle cannot be inflated, only its first code object has an error.
    assert!(expected.iter().all(Option::is_none), "not read: {expected:?}");
}

/// Checks that a search finds the bundles of a search that inflates everything and finds no fault.
fn compare(some: &Seen, whole: &Seen) {
    assert_eq!(some.broken, [""; 0], "wrong only where less is inflated");
    let mut left = some.bundles.iter().map(SeenBundle::ids).peekable();
    for bundle in &whole.bundles {
        if left.next_if_eq(&bundle.ids()).is_none() {
            let is_inflated = *bundle.place.origin() == PlaceOrigin::Inflated;
            assert!(is_inflated && bundle.is_nested(), "found only where all is inflated: {:?}", bundle.ids());
        }
    }
    assert_eq!(left.next(), None, "found only where less is inflated");
}

/// Compares the findings of one search with the bytes.
struct Check<'d> {
    data: &'d [u8],
    input: &'d Input,
    sources: &'d Sources<'d>,
    compared: usize,
    looked_for: usize,
    resolved: usize,
}

impl Check<'_> {
    fn offset(&self, place: &Place, offset: u64) {
        let in_file = matches!(place.origin(), PlaceOrigin::File(_));
        assert!(!in_file || offset < u64::try_from(self.data.len()).unwrap(), "{offset} lies behind the file");
        harmless(&place.to_string());
    }

    fn bundle(&mut self, found: &FoundBundle<'_>) {
        let (place, len) = (found.place, u64::try_from(self.data.len()).unwrap());
        harmless(&place.to_string());
        [place.member(), place.section()].into_iter().flatten().for_each(|name| harmless(&name));
        for code_object in found.code_objects() {
            harmless(&code_object.shown_id());
            let (range, around) = (code_object.range(), found.bundle.range().unwrap());
            assert!(!code_object.is_in_file() || around.end <= len, "{around:?} lies behind the file");
            let Some(range) = range else {
                assert!(code_object.in_place().is_none());
                if code_object.uri().unwrap().is_some() {
                    assert!(code_object.packed().is_some());
                    self.uri(&code_object);
                }
                continue;
            };
            assert_eq!(range.end - range.start, code_object.size());
            let around = match found.bundle.compressed {
                Some(recorded) => 0..recorded.inflated,
                None => around,
            };
            assert!(around.start <= range.start && range.end <= around.end, "{range:?} lies outside of {around:?}");
            self.uri(&code_object);
            self.bytes(&code_object, place, &range);
        }
    }

    /// Checks that parsing the written URI gives the same URI, and that it leads to the code object.
    fn uri(&mut self, code_object: &CodeObjectRef<'_>) {
        let uri = code_object.uri().unwrap().unwrap();
        let text = uri.to_string();
        assert!(text.bytes().all(|byte| byte.is_ascii_graphic()), "{text:?}");
        assert_eq!(Uri::parse(text.as_ref()).unwrap(), uri);
        assert!(uri.path().is_absolute() && uri.path().ends_with("in"), "{uri}");
        if self.resolved == RESOLVED_MAX {
            return;
        }
        self.resolved += 1;
        let Ok(bytes) = code_object.bytes() else { return };
        let resolved = uri.resolve(self.input, LIMITS).unwrap();
        assert!(resolved.as_slice().bytes() == &*bytes, "{uri}");
    }

    /// Checks that the content consists of the bytes at the range, or inflates from the file.
    fn bytes(&mut self, code_object: &CodeObjectRef<'_>, place: &Place, range: &Range<u64>) {
        let Some(slice) = code_object.in_place() else { return };
        assert_eq!((slice.offset(), slice.len()), (range.start, code_object.size()));
        let bytes = slice.bytes();
        if self.compared + bytes.len() > COMPARED_MAX {
            return;
        }
        self.compared += bytes.len();
        let [start, end] = [range.start, range.end].map(|number| usize::try_from(number).unwrap());
        if code_object.is_in_file() {
            assert!(bytes == &self.data[start..end], "not the bytes of the file at {range:?}");
        } else if !is_embedded(place) && self.looked_for < LOOKED_FOR_MAX {
            self.looked_for += 1;
            self.sources.hold(bytes, "a code object");
        }
    }
}

/// Whether it is in data embedded in bitcode, which is assembled bit by bit.
pub(super) fn is_embedded(place: &Place) -> bool {
    place.steps().iter().any(|step| matches!(step, Step::Embedded(_)))
}

/// Checks that a terminal shows the text literally.
pub(super) fn harmless(text: &str) {
    let is_harmful = |c: char| {
        c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}'..='\u{200f}')
    };
    assert!(!text.contains(is_harmful), "{text:?}");
}

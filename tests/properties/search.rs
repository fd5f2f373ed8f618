use std::ops::Range;

use offload_bundle::container::Limits;
use offload_bundle::container::sequence::Inflate;
use offload_bundle::io::Input;
use offload_bundle::scan::{Checksums, CodeObject, ContentKind, Finding, Format, Found, Origin, Place, Scan, Step};

use super::room::Room;
use super::sources::Sources;

/// What one file may inflate to, so that no input takes long.
pub(super) const LIMITS: Limits = Limits::of(32 << 20);

/// How many bundles and code objects a search tells of at most.
const FOUND_MAX: usize = 250_000;

/// Up to this size a compressed bundle is inflated as a whole where a search inflates as it needs.
const WHOLE_MAX: u64 = 16 << 20;

/// How many bytes of code objects are compared with the file's, and how many code objects are looked for elsewhere:
/// many of them may share the same bytes.
const COMPARED_MAX: usize = 32 << 20;
const LOOKED_FOR_MAX: usize = 64;

/// A code object that was found.
#[derive(Debug, PartialEq)]
pub(super) struct SeenObject {
    pub(super) id: Vec<u8>,
    pub(super) size: u64,
    pub(super) range: Option<Range<u64>>,
    uri: Option<String>,
    kind: Option<ContentKind>,
}

/// A bundle that was found.
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

/// All that was found, in order.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Seen {
    pub(super) bundles: Vec<SeenBundle>,
    pub(super) broken: Vec<String>,
    pub(super) trailing: Vec<(Place, u64)>,
    /// What is in the way to device code, and broken.
    pub(super) hidden: Vec<String>,
    /// What is recognised, but not read.
    pub(super) unread: Vec<(Place, u64)>,
}

impl SeenBundle {
    fn of(found: &Found<'_>) -> Self {
        let object = |code_object: CodeObject<'_>| SeenObject {
            id: code_object.id().to_vec(),
            size: code_object.size(),
            range: code_object.range(),
            uri: code_object.uri().unwrap(),
            kind: code_object.kind(),
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

    /// Whether it lies in a code object of another bundle.
    pub(super) fn is_nested(&self) -> bool {
        self.place.steps().iter().any(|step| matches!(step, Step::Entry(_)))
    }
}

impl Seen {
    /// How many code objects there are.
    pub(super) fn code_objects(&self) -> usize {
        self.bundles.iter().map(|bundle| bundle.objects.len()).sum()
    }
}

/// Searches a file; `look` is shown each bundle meanwhile.
pub(super) fn search_with(input: &Input, inflate: Inflate, look: &mut dyn FnMut(&Found<'_>)) -> Seen {
    let mut search = Scan::default();
    (search.inflate, search.limits) = (inflate, LIMITS);
    search.checksums = if inflate == Inflate::Whole { Checksums::OfAll } else { Checksums::None };
    let mut seen = Seen::default();
    let visit = &mut |finding: Finding<'_>| {
        match finding {
            Finding::Bundle(found) => {
                look(&found);
                seen.bundles.push(SeenBundle::of(&found));
            }
            Finding::Broken { place, error } => seen.broken.push(format!("{place}: {error}")),
            Finding::Trailing { place, offset } => seen.trailing.push((place.clone(), offset)),
            Finding::Hidden { place, error } => seen.hidden.push(format!("{place}: {error}")),
            Finding::Unread { place, offset, .. } => seen.unread.push((place.clone(), offset)),
            other => panic!("{other:?}"),
        }
        Ok(())
    };
    search.run(input, visit).unwrap();
    seen
}

/// Whether files other than this one may belong to it: thin archives name them.
pub(super) fn leads_elsewhere(sources: &Sources<'_>) -> bool {
    sources.contain(b"!<thin>\n")
}

/// Any bytes are searched, twice the same. Each code object lies in its bundle, and the bundle in the file; in place it is
/// the bytes of the file at its range, which its URI names. What lies in no file is from what inflates from it.
///
/// Places, IDs and URIs hold no control characters. There are no more than 250,000 bundles and code objects.
///
/// Where all is inflated, the same bundles with the same IDs are found as where only headers are, besides those in
/// compressed bundles; and if nothing is wrong with all of it, nothing is with the headers.
pub fn search(data: &[u8]) {
    let sources = Sources::nested(data);
    if leads_elsewhere(&sources) {
        return;
    }
    let room = Room::with(data);
    let input = Input::read(&room.input()).unwrap();
    let run = |inflate| {
        let mut check = Check { data, sources: &sources, compared: 0, looked_for: 0 };
        let seen = search_with(&input, inflate, &mut |found| check.bundle(found));
        assert!(search_with(&input, inflate, &mut |_| {}) == seen, "searched twice");
        let found = seen.bundles.len() + seen.code_objects();
        assert!(found <= FOUND_MAX, "{found} bundles and code objects");
        seen.trailing.iter().chain(&seen.unread).for_each(|(place, offset)| check.offset(place, *offset));
        seen
    };
    let [headers, as_needed, whole] = [Inflate::Headers, Inflate::AsNeeded, Inflate::Whole].map(run);
    if whole.broken.is_empty() {
        compare(&headers, &whole);
        compare(&as_needed, &whole);
        if whole.bundles.iter().all(|bundle| bundle.inflated.is_none_or(|inflated| inflated <= WHOLE_MAX)) {
            assert!(as_needed == whole, "a search that inflates as it needs finds something else");
        }
    }
    room.holds_only(&["in"]);
}

/// That a search finds what one finds that inflates all, in which nothing is wrong.
fn compare(some: &Seen, whole: &Seen) {
    assert_eq!(some.broken, [""; 0], "wrong only where less is inflated");
    let mut left = some.bundles.iter().map(SeenBundle::ids).peekable();
    for bundle in &whole.bundles {
        if left.next_if_eq(&bundle.ids()).is_none() {
            let is_inflated = *bundle.place.origin() == Origin::Inflated;
            assert!(is_inflated && bundle.is_nested(), "found only where all is inflated: {:?}", bundle.ids());
        }
    }
    assert_eq!(left.next(), None, "found only where less is inflated");
}

/// What is held against the bytes of one search.
struct Check<'d> {
    data: &'d [u8],
    sources: &'d Sources<'d>,
    compared: usize,
    looked_for: usize,
}

impl Check<'_> {
    fn offset(&self, place: &Place, offset: u64) {
        let in_file = matches!(place.origin(), Origin::File(_));
        assert!(!in_file || offset < u64::try_from(self.data.len()).unwrap(), "{offset} lies behind the file");
        harmless(&place.to_string());
    }

    fn bundle(&mut self, found: &Found<'_>) {
        let (place, len) = (found.place, u64::try_from(self.data.len()).unwrap());
        harmless(&place.to_string());
        [place.member(), place.section()].into_iter().flatten().for_each(|name| harmless(&name));
        for code_object in found.code_objects() {
            harmless(&code_object.shown_id());
            let (range, around) = (code_object.range(), code_object.bundle_range().unwrap());
            assert!(!code_object.is_in_file() || around.end <= len, "{around:?} lies behind the file");
            let Some(range) = range else {
                assert!(code_object.uri().unwrap().is_none() && code_object.in_place().is_none());
                continue;
            };
            assert_eq!(range.end - range.start, code_object.size());
            let around = match found.bundle.compressed {
                Some(recorded) => 0..recorded.inflated,
                None => around,
            };
            assert!(around.start <= range.start && range.end <= around.end, "{range:?} lies outside of {around:?}");
            self.uri(&code_object, found, &range);
            self.bytes(&code_object, place, &range);
        }
    }

    /// That the URI is that of the range.
    fn uri(&self, code_object: &CodeObject<'_>, found: &Found<'_>, range: &Range<u64>) {
        let uri = code_object.uri().unwrap().unwrap();
        assert!(uri.bytes().all(|byte| byte.is_ascii_graphic()), "{uri:?}");
        let (file, fields) = uri.split_once('#').unwrap();
        assert!(file.starts_with("file:///") && file.ends_with("/in"), "{uri}");
        let fields: Vec<(&str, &str)> = fields.split('&').map(|field| field.split_once('=').unwrap()).collect();
        let part = |range: &Range<u64>| [range.start, range.end - range.start].map(|number| number.to_string());
        let (outer, inner) = match found.bundle.compressed {
            Some(_) => (part(&code_object.bundle_range().unwrap()), Some(part(range))),
            None => (part(range), None),
        };
        let mut expected = Vec::new();
        if !code_object.is_in_file() {
            let (name, way) = fields[0];
            assert_eq!((name, way.split('/').count() >= found.place.steps().len()), ("member", true), "{uri}");
            expected.push(fields[0]);
        }
        expected.extend([("offset", outer[0].as_str()), ("size", &outer[1])]);
        if let Some([start, size]) = &inner {
            expected.extend([("inflated-offset", start.as_str()), ("inflated-size", size)]);
        }
        assert_eq!(fields, expected, "{uri}");
    }

    /// That what is there are the bytes at the range, or such as inflate from the file.
    fn bytes(&mut self, code_object: &CodeObject<'_>, place: &Place, range: &Range<u64>) {
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

/// Whether it lies in what bitcode embeds, which is put together bit by bit.
pub(super) fn is_embedded(place: &Place) -> bool {
    place.steps().iter().any(|step| matches!(step, Step::Embedded(_)))
}

/// That a text obeys no one and reads as it stands.
pub(super) fn harmless(text: &str) {
    let is_harmful = |c: char| {
        c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}'..='\u{200f}')
    };
    assert!(!text.contains(is_harmful), "{text:?}");
}

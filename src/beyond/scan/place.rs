//! Records where device code is in a file: the path through members and sections.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::base::bytes::{add, len_u64, total};
use crate::base::display::{printable, printable_name};
use crate::base::error::{Error, Result, WithPath};
use crate::beyond::limits::NUMBERED_MAX;
use crate::llvm::uri::{Uri, UriStep};

/// The number of a step that is not numbered.
const NOT_NUMBERED: u64 = 0;

/// A step into a file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// The member of an archive or of a zip file with this name, which may be any bytes.
    Member(Vec<u8>),
    /// The section with this name.
    Section(Vec<u8>),
    /// An object that bitcode embeds, by its index from 0.
    Embedded(usize),
    /// The code object with this bundle entry ID, which is itself a bundle.
    Entry(Vec<u8>),
}

/// The start of the offsets at a place: the start of a file, or of inflated data.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PlaceOrigin {
    /// This file: the searched file, or a member of a thin archive, which is a separate file.
    File(PathBuf),
    /// The inflated content of the innermost compressed container on the path, which is in no file.
    Inflated,
}

/// The location of device code.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    file: PathBuf,
    steps: Vec<Step>,
    /// The number of each step among the steps with the same name from the same place, counted from 1, or
    /// [`NOT_NUMBERED`]. An archive may have several members of one name, which only the number tells apart in a URI.
    numbers: Vec<u64>,
    /// The file that holds the bytes, perhaps compressed, if it is not the searched file: a member of a thin archive,
    /// or a kpack archive.
    separate_file: Option<PathBuf>,
    /// The steps from the file that holds the bytes to the innermost inflated data, as a range in `steps`. Empty if the
    /// bytes are in the file itself.
    inflated_steps: Range<usize>,
    origin: PlaceOrigin,
    /// The number of steps to the [library](Self::library).
    library_steps: usize,
}

impl Place {
    /// Returns the place that is a file itself.
    pub(crate) fn of_file(file: &Path) -> Self {
        let (file, origin) = (file.to_owned(), PlaceOrigin::File(file.to_owned()));
        let (steps, numbers, separate_file) = (Vec::new(), Vec::new(), None);
        Self { file, steps, numbers, separate_file, inflated_steps: 0..0, origin, library_steps: 0 }
    }

    /// Returns the place one step further in. The step is the first with its name.
    pub(crate) fn join(&self, step: Step) -> Self {
        self.join_numbered(step, 1)
    }

    /// Returns the place one step further in. `number` tells the step apart from others with the same name.
    pub(super) fn join_numbered(&self, step: Step, number: u64) -> Self {
        let mut place = self.clone();
        place.steps.push(step);
        place.numbers.push(number);
        place
    }

    /// Returns the same place, whose last step is a file in a package, so that it may be a library. A package inside of
    /// a library, in one of its sections for example, belongs to that library.
    pub(crate) fn packaged(self) -> Self {
        let is_in_library = self.steps.iter().any(|step| !matches!(step, Step::Member(_)));
        if is_in_library { self } else { Self { library_steps: self.steps.len(), ..self } }
    }

    /// Returns the same place for inflated bytes: the bytes at the last step are compressed in the file, and offsets
    /// count from the start of the inflated bytes.
    pub(super) fn inflated(self) -> Self {
        Self { inflated_steps: self.inflated_steps.start..self.steps.len(), origin: PlaceOrigin::Inflated, ..self }
    }

    /// Returns the same place for bytes that are in a separate file. Offsets count from the start of that file.
    pub(super) fn in_file(self, file: &Path) -> Self {
        let (base, origin) = (self.steps.len(), PlaceOrigin::File(file.to_owned()));
        Self { inflated_steps: base..base, separate_file: Some(file.to_owned()), origin, ..self }
    }

    /// The file that was searched, as the caller named it.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Returns the memory that the names of the steps take, in bytes.
    pub(crate) fn weight(&self) -> u64 {
        total(self.steps.iter().map(Step::name_len))
    }

    /// The steps from the file to the place; empty if the file itself is the place.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Returns the place without its last step, and the name of this step. Returns `None` if the step is not a member.
    pub(crate) fn parent(&self) -> Option<(Self, &[u8])> {
        let (last, steps) = self.steps.split_last()?;
        let Step::Member(name) = last else { return None };
        Some((self.first_steps(steps.len()), name))
    }

    /// Returns the place after the first `len` steps, for display and comparison: where its bytes are is not kept.
    fn first_steps(&self, len: usize) -> Self {
        let mut place = Self::of_file(&self.file);
        for (step, number) in self.steps.iter().zip(&self.numbers).take(len) {
            place.steps.push(step.clone());
            place.numbers.push(*number);
        }
        place.library_steps = self.library_steps.min(place.steps.len());
        place
    }

    /// Returns the number of each step among the steps with the same name from the same place, or [`NOT_NUMBERED`].
    pub(super) fn step_numbers(&self) -> &[u64] {
        &self.numbers
    }

    /// The base of the offsets of bundles at this place.
    pub fn origin(&self) -> &PlaceOrigin {
        &self.origin
    }

    /// The name of the innermost member on the path.
    pub(crate) fn innermost_member(&self) -> Option<&[u8]> {
        self.member_names().next_back()
    }

    fn member_names(&self) -> impl DoubleEndedIterator<Item = &[u8]> {
        member_names(&self.steps)
    }

    /// Returns the names of the members on the path, joined by slashes, or `None` without members.
    pub fn member(&self) -> Option<String> {
        member_of(&self.steps)
    }

    /// Returns the library that the place belongs to: the innermost file, which is the searched file or a file in a
    /// package. A program, an object and a code object by itself are libraries too, and all members of an `ar` archive
    /// are one: a static library. Content decides what a package is, and no name.
    pub(crate) fn library(&self) -> Self {
        self.first_steps(self.library_steps)
    }

    /// Returns whether the bytes were inflated from an entry that is packed: an entry of a compressed bundle, or one
    /// that is compressed alone. For both, the last step to the inflated data is the entry.
    pub(crate) fn is_in_packed_entry(&self) -> bool {
        let inflated_steps = self.steps.get(..self.inflated_steps.end).unwrap_or_default();
        self.origin == PlaceOrigin::Inflated && matches!(inflated_steps.last(), Some(Step::Entry(_)))
    }

    /// Returns whether the place is inside of a code object.
    pub(crate) fn is_in_code_object(&self) -> bool {
        self.steps().iter().any(|step| matches!(step, Step::Entry(_)))
    }

    /// Returns whether the place is inside of a code object of a bundle at the place `outer`.
    pub(crate) fn is_in_entry_at(&self, outer: &Self) -> bool {
        matches!(self.steps.strip_prefix(&*outer.steps), Some([Step::Entry(_), ..]))
    }

    /// Returns whether the place is a whole file or whole inflated data, rather than a part such as a section.
    pub(super) fn is_whole_data(&self) -> bool {
        self.inflated_steps.end == self.steps.len()
    }

    /// Returns the place of the whole file, or of the whole inflated data, that holds the bytes at this place. Offsets
    /// at both places count from the same start.
    pub(crate) fn data(&self) -> Self {
        let mut data = self.clone();
        data.steps.truncate(self.inflated_steps.end);
        data.numbers.truncate(self.inflated_steps.end);
        data.library_steps = self.library_steps.min(data.steps.len());
        data
    }

    /// Returns the file with its bytes, if that is not the searched file: a member of a thin archive, or the archive of
    /// a split library.
    pub fn other_file(&self) -> Option<&Path> {
        match &self.origin {
            PlaceOrigin::File(file) if *file != self.file => Some(file),
            _ => None,
        }
    }

    /// The name of the last section on the path.
    pub fn section(&self) -> Option<String> {
        self.steps.iter().rev().find_map(|step| match step {
            Step::Section(name) => Some(printable_name(name)),
            _ => None,
        })
    }

    /// Returns the names and numbers of the steps to the innermost inflated data.
    fn steps_to_inflated(&self) -> impl Iterator<Item = (Cow<'_, [u8]>, u64)> {
        let steps = self.steps.iter().zip(&self.numbers).take(self.inflated_steps.end).skip(self.inflated_steps.start);
        steps.map(|(step, number)| (step.name(), *number))
    }

    /// Returns whether this is the place of the inflated data at the end of the steps of a URI.
    pub(super) fn is_end_of(&self, steps: &[UriStep]) -> bool {
        // The steps of a URI begin at its file. Data in a separate file, such as a member of a thin archive, has the
        // steps to that file before its own, so its own do not start at 0, and no URI of the outer file leads to it.
        let is_inflated_data =
            self.origin == PlaceOrigin::Inflated && self.inflated_steps.start == 0 && self.is_whole_data();
        let steps = steps.iter().map(|step| (Cow::Borrowed(step.name.as_slice()), step.number));
        is_inflated_data && self.steps_to_inflated().eq(steps)
    }

    /// Returns whether the last step of the place is also in `steps`, at the same index. The earlier steps are not
    /// compared: a walk calls this after each step.
    pub(super) fn last_step_is_in(&self, steps: &[UriStep]) -> bool {
        let (Some(last), Some(&number)) = (self.steps.last(), self.numbers.last()) else { return false };
        let Some(wanted) = steps.get(self.steps.len().saturating_sub(1)) else { return false };
        *last.name() == *wanted.name && number == wanted.number
    }

    /// Returns the [URI](Uri) of a range of bytes at this place or, with `inflated`, of a range in the compressed
    /// bundle at `range`.
    ///
    /// Returns `None` if the search did not number the steps to the place, because there are too many. Also returns
    /// `None` if the searched bytes were read by a URI already, and no URI can name a range in them.
    ///
    /// # Errors
    /// [`ErrorKind::Io`](crate::ErrorKind::Io) if the file has a relative path, and the system does not report the
    /// current directory.
    pub fn uri(&self, range: Range<u64>, inflated: Option<Range<u64>>) -> Result<Option<Uri>> {
        let steps: Vec<UriStep> =
            self.steps_to_inflated().map(|(name, number)| UriStep { name: name.into_owned(), number }).collect();
        if steps.iter().any(|step| step.number == NOT_NUMBERED) {
            return Ok(None);
        }
        let file = self.separate_file.as_deref().unwrap_or(&self.file);
        match Uri::of_path(file) {
            // The searched bytes were themselves read by a URI, so the new one goes on from there.
            Some(outer) => Ok(Uri::new(PathBuf::new(), steps, range, inflated).inside(outer?)),
            None => Ok(Some(Uri::new(std::path::absolute(file).with_path(file)?, steps, range, inflated))),
        }
    }
}

/// Returns the names of the members among some steps, the outermost first.
fn member_names(steps: &[Step]) -> impl DoubleEndedIterator<Item = &[u8]> {
    steps.iter().filter_map(|step| match step {
        Step::Member(name) => Some(name.as_slice()),
        _ => None,
    })
}

/// Returns the names of the members on a path, joined by slashes, or `None` without members.
pub(crate) fn member_of(steps: &[Step]) -> Option<String> {
    let names: Vec<String> = member_names(steps).map(printable_name).collect();
    if names.is_empty() { None } else { Some(names.join("/")) }
}

impl Error {
    /// Adds the place to the error, unless the file alone identifies it.
    pub fn at(self, place: &Place) -> Self {
        if place.steps().is_empty() {
            return self;
        }
        self.inside(&place.file, place.to_string())
    }
}

impl Step {
    /// The memory that the name takes, in bytes.
    fn name_len(&self) -> u64 {
        match self {
            Self::Member(name) | Self::Section(name) | Self::Entry(name) => len_u64(name),
            Self::Embedded(_) => 0,
        }
    }

    /// The name in a [URI](Uri).
    pub(super) fn name(&self) -> Cow<'_, [u8]> {
        match self {
            Self::Member(name) | Self::Section(name) | Self::Entry(name) => Cow::Borrowed(name),
            Self::Embedded(_) => Cow::Owned(self.to_string().into_bytes()),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Member(name) | Self::Section(name) | Self::Entry(name) => f.write_str(&printable_name(name)),
            Self::Embedded(index) => write!(f, "embedded object {index}"),
        }
    }
}

/// The file, then each step in parentheses, as linkers name members. All of it is safe to print on a terminal.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&printable(&self.file.to_string_lossy()))?;
        for step in &self.steps {
            write!(f, "({step})")?;
        }
        Ok(())
    }
}

/// Numbers the steps with the same name from the same place, by counting them.
#[derive(Default)]
pub(super) struct StepNumbers {
    state: RandomState,
    /// The number of steps so far, by the hash of place and name.
    counts: HashMap<u64, u64>,
}

impl StepNumbers {
    /// Returns the key of the place before a step.
    pub(super) fn place_key(&self, place: &Place) -> u64 {
        self.state.hash_one(place)
    }

    /// Counts a step from the place with this key. Returns the number of the step, counted from 1, or [`NOT_NUMBERED`]
    /// if there are too many different steps to count them.
    pub(super) fn count_step(&mut self, place: u64, name: &[u8]) -> u64 {
        let key = self.state.hash_one((place, name));
        if self.counts.len() >= NUMBERED_MAX && !self.counts.contains_key(&key) {
            return NOT_NUMBERED;
        }
        let count = self.counts.entry(key).or_default();
        add(count, 1);
        *count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_named_step_by_step() {
        let file = Place::of_file(Path::new("dir/lib.a"));
        let section = file.join(Step::Member(b"x.o".to_vec())).join(Step::Section(b".hip_fatbin".to_vec()));
        assert_eq!(section.to_string(), "dir/lib.a(x.o)(.hip_fatbin)");
        assert_eq!((section.member().as_deref(), section.section().as_deref()), (Some("x.o"), Some(".hip_fatbin")));
        assert_eq!((file.member(), file.section()), (None, None));
        assert_eq!(Place::of_file(Path::new("a\x1b[2J\u{202e}é")).to_string(), "a\\u{1b}[2J\\u{202e}é");
        let hostile = file.join(Step::Member(b"a\x1b[2J\xff".to_vec()));
        assert_eq!(hostile.to_string(), "dir/lib.a(a\\x1b[2J\\xff)");
    }

    #[test]
    fn uris_name_what_a_reader_needs_to_find_the_bytes() {
        let place = Place::of_file(Path::new("/a b/lib#1.so"));
        let uri = |place: &Place, inflated| place.uri(8..24, inflated).unwrap().map(|uri| uri.to_string());
        let file = "file:///a%20b/lib%231.so";
        assert_eq!(uri(&place, None), Some(format!("{file}#offset=8&size=16")));
        let within = Some(format!("{file}#offset=8&size=16&inflated-offset=100&inflated-size=200"));
        assert_eq!(uri(&place, Some(100..300)), within);
        let member = |name: &[u8]| Step::Member(name.to_vec());
        let inside = place.join(member(b"a;b.tgz")).join_numbered(member(b"x/y.so"), 2).inflated();
        let steps = "member=a%3Bb.tgz&member=x/y.so;2";
        assert_eq!(uri(&inside, None), Some(format!("{file}#{steps}&offset=8&size=16")));
        // The section is in the inflated member, and the offset counts from the member.
        assert_eq!(uri(&inside.join(Step::Section(b".hip_fatbin".to_vec())), None), uri(&inside, None));
        assert_eq!(uri(&place.join_numbered(member(b"x"), 0).inflated(), None), None);
        let separate_file = inside.join(member(b"z.o")).in_file(Path::new("/z.o"));
        assert_eq!(uri(&separate_file, None).as_deref(), Some("file:///z.o#offset=8&size=16"));
    }

    #[test]
    fn uris_in_the_bytes_of_a_uri_are_those_of_its_file() {
        let uri = |outer: &str, inflated: Option<Range<u64>>| {
            let uri = Place::of_file(Path::new(outer)).uri(8..24, inflated).unwrap();
            uri.map(|uri| uri.to_string())
        };
        let is = |outer: &str, inflated, expected: &str| assert_eq!(uri(outer, inflated).as_deref(), Some(expected));
        is("file:///x", None, "file:///x#offset=8&size=16");
        is("file:///x#offset=100&size=50", None, "file:///x#offset=108&size=16");
        is("file:///x#member=m", Some(1..2), "file:///x#member=m&offset=8&size=16&inflated-offset=1&inflated-size=1");
        let bundle = "file:///x#offset=100&size=50&inflated-offset=";
        is(&format!("{bundle}30&inflated-size=30"), None, &format!("{bundle}38&inflated-size=16"));
        assert_eq!(uri(&format!("{bundle}30&inflated-size=30"), Some(1..2)), None);
    }
}

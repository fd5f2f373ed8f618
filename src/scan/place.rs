//! Records where device code is in a file: the path through members and sections.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};

use crate::bytes::{len_of, len_u64};
use crate::display::{printable, printable_name};
use crate::error::{Error, Result, WithPath};

/// The bytes that are escaped in a URI.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// A step into a file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// The member of an archive or of a zip file with this name, which may be any bytes.
    Member(Vec<u8>),
    /// The section with this name.
    Section(Vec<u8>),
    /// An object that bitcode embeds, counted from 0.
    Embedded(usize),
    /// The code object with this bundle entry ID, which is itself a bundle.
    Entry(Vec<u8>),
}

/// The base of the offsets of a place.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// This file: the searched file, or a member of a thin archive, which is a separate file.
    File(PathBuf),
    /// The bytes of the innermost inflated step, which are not in any file.
    Inflated,
}

/// The location of device code.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    file: PathBuf,
    steps: Vec<Step>,
    origin: Origin,
}

impl Place {
    pub(crate) fn of_file(file: &Path) -> Self {
        Self { file: file.to_owned(), steps: Vec::new(), origin: Origin::File(file.to_owned()) }
    }

    /// The same place one step further in.
    pub(crate) fn join(&self, step: Step) -> Self {
        let steps = self.steps.iter().cloned().chain([step]).collect();
        Self { steps, ..self.clone() }
    }

    /// The same place, with its bytes inflated rather than in the file.
    pub(super) fn inflated(self) -> Self {
        Self { origin: Origin::Inflated, ..self }
    }

    /// The same place, with its bytes in another file.
    pub(super) fn in_file(self, file: &Path) -> Self {
        Self { origin: Origin::File(file.to_owned()), ..self }
    }

    /// The file that was searched, as the caller named it.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The memory that its names take, in bytes.
    pub(crate) fn weight(&self) -> u64 {
        let name = |step: &Step| match step {
            Step::Member(name) | Step::Section(name) | Step::Entry(name) => len_u64(name),
            Step::Embedded(_) => 0,
        };
        self.steps.iter().map(name).fold(0, u64::saturating_add)
    }

    /// The steps from the file to the place; empty if the file itself is the place.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The base of the offsets of bundles at this place.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The file that holds its bytes; for inflated bytes, the searched file.
    pub(crate) fn origin_file(&self) -> &Path {
        match &self.origin {
            Origin::File(file) => file,
            Origin::Inflated => &self.file,
        }
    }

    /// The name of the innermost member on the path.
    pub(crate) fn innermost_member(&self) -> Option<&[u8]> {
        self.member_names().next_back()
    }

    fn member_names(&self) -> impl DoubleEndedIterator<Item = &[u8]> {
        self.steps.iter().filter_map(|step| match step {
            Step::Member(name) => Some(name.as_slice()),
            _ => None,
        })
    }

    /// The names of the members on the path, joined by slashes; none without members.
    pub fn member(&self) -> Option<String> {
        let names: Vec<String> = self.member_names().map(printable_name).collect();
        (!names.is_empty()).then(|| names.join("/"))
    }

    /// The name of the last section on the path.
    pub fn section(&self) -> Option<String> {
        self.steps.iter().rev().find_map(|step| match step {
            Step::Section(name) => Some(printable_name(name)),
            _ => None,
        })
    }

    /// The URI of a range of bytes at this place, as ROCm's debuggers and profilers name code objects
    /// (`file://<path>#offset=<n>&size=<n>`, both in bytes).
    ///
    /// Code objects that a reader cannot find by offset and size alone have further fields: `member=<name>` if the
    /// range is in an inflated member, and `inflated-offset=<n>&inflated-size=<n>` for the range in the compressed
    /// bundle at `range`.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io) if the file has a relative path, and the system does not report the current
    /// directory.
    pub fn uri(&self, range: Range<u64>, inflated: Option<Range<u64>>) -> Result<String> {
        let file = self.origin_file();
        let file = std::path::absolute(file).with_path(file)?;
        let mut uri = format!("file://{}#", percent_encode(file.as_os_str().as_encoded_bytes(), ESCAPED));
        if self.origin == Origin::Inflated {
            let way: Vec<String> = self.steps.iter().map(Step::to_string).collect();
            uri.push_str(&format!("member={}&", percent_encode(way.join("/").as_bytes(), ESCAPED)));
        }
        uri.push_str(&format!("offset={}&size={}", range.start, len_of(&range)));
        if let Some(inner) = inflated {
            uri.push_str(&format!("&inflated-offset={}&inflated-size={}", inner.start, len_of(&inner)));
        }
        Ok(uri)
    }
}

impl Error {
    /// The same error, with the place added unless the file alone identifies it.
    pub fn at(self, place: &Place) -> Self {
        if place.steps().is_empty() {
            return self;
        }
        Self::Inside { file: place.file.clone(), place: place.to_string(), error: Box::new(self) }
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
        self.steps.iter().try_for_each(|step| write!(f, "({step})"))
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
        assert_eq!(place.uri(8..24, None).unwrap(), "file:///a%20b/lib%231.so#offset=8&size=16");
        assert_eq!(
            place.uri(8..24, Some(100..300)).unwrap(),
            "file:///a%20b/lib%231.so#offset=8&size=16&inflated-offset=100&inflated-size=200"
        );
        let inside = place.join(Step::Member(b"x/y.so".to_vec())).inflated();
        assert_eq!(inside.uri(0..1, None).unwrap(), "file:///a%20b/lib%231.so#member=x/y.so&offset=0&size=1");
        let beside = place.join(Step::Member(b"z.o".to_vec())).in_file(Path::new("/z.o"));
        assert_eq!(beside.uri(0..1, None).unwrap(), "file:///z.o#offset=0&size=1");
    }
}

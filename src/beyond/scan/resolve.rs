//! Finds the bytes that a URI names, in the file at its path.

use std::ops::ControlFlow;
use std::path::Path;
use std::rc::Rc;

use super::found::WalkEvent;
use super::walk::{Goal, Walk};
use super::{BundleReader, CodeObjectRef, Finding, Scan};
use crate::base::display::shown;
use crate::base::error::{Error, ErrorKind, Result, WithPath};
use crate::base::io::input::{Input, Slice};
use crate::beyond::container::Magic;
use crate::beyond::container::sequence::Content;
use crate::beyond::uri::has_scheme;
use crate::llvm::container::Limits;
use crate::llvm::container::sequence::Inflate;
use crate::llvm::uri::{Uri, ensure_inside};

/// The bytes that a URI names.
#[derive(Debug)]
pub struct Resolved<'a>(Content<'a>);

impl Resolved<'_> {
    /// The bytes: a range of the file, or of data that was inflated from it.
    pub fn as_slice(&self) -> Slice<'_> {
        self.0.as_slice()
    }
}

impl Uri {
    /// Parses a path that is a URI. Returns `None` for the path of an existing file, and for a path that does not begin
    /// as URIs do.
    pub(super) fn of_path(path: &Path) -> Option<Result<Self>> {
        let uri = path.as_os_str();
        if has_scheme(uri) && !path.exists() { Some(Self::parse(uri)) } else { None }
    }

    /// Opens a file with `open` or, if `path` is a URI, copies the bytes that it names. The path of the input is the
    /// URI.
    ///
    /// # Errors
    /// The errors of `open`, [`parse`](Self::parse) and [`resolve`](Self::resolve), and that the file has changed.
    /// An [`Error`] of the kind [`NotFound`](ErrorKind::NotFound) if a part of the file is not a code object, begins
    /// with no known format, and holds nothing that a deep search finds.
    pub fn open(path: &Path, limits: Limits, open: impl FnOnce(&Path) -> Result<Input>) -> Result<Input> {
        let Some(uri) = Self::of_path(path).transpose()? else { return open(path) };
        let file = open(&uri.path)?;
        let opening = UriToOpen { uri: &uri, name: path, file: &file, limits };
        file.unless_changed(opening.part())
    }

    /// Returns whether this is the URI of a code object that a search of `file` found.
    pub(crate) fn names(&self, code_object: &CodeObjectRef<'_>, file: &Input) -> Result<bool> {
        let path = std::path::absolute(file.path()).with_path(file.path())?;
        let Some(uri) = code_object.uri()? else { return Ok(false) };
        // The URI of a code object in a thin archive has the path of another file: the member.
        Ok(uri.path == path && uri.is_same_part(self, file.len()))
    }

    /// Returns the error for a URI that no code object has.
    pub(crate) fn not_found(&self) -> Error {
        let reason = format!("no code object has the URI '{self}'; `inspect --uri FILE` prints the URIs");
        Error::refused(ErrorKind::NotFound, &self.path, None, reason)
    }

    /// Returns the bytes that the URI names. `file` is the file at its [path](Self::path).
    ///
    /// # Errors
    /// An [`Error`] of the kind [`NotFound`](ErrorKind::NotFound) if the file has no such member or range, otherwise
    /// the errors of inflating.
    pub fn resolve<'a>(&self, file: &'a Input, limits: Limits) -> Result<Resolved<'a>> {
        if self.steps.is_empty() {
            return Ok(Resolved(self.inflated_part(Content::InPlace(self.part_of(file.as_slice())?), limits)?));
        }
        let mut fault = None;
        // A deep search goes to more members, and so may number members of one name in another way. Most URIs are from
        // searches that are not deep, so a deep search comes second.
        for deep in [false, true] {
            let mut part = None;
            let mut take = |data: Slice<'_>| {
                part = Some(Input::spool_copy(&self.path, self.part_of(data)?.bytes()).with_path(&self.path)?);
                Ok(ControlFlow::Break(()))
            };
            self.walk_to_data(file, Scan { deep, limits, ..Scan::default() }, &mut fault, &mut take, &mut |_| Ok(()))?;
            if let Some(part) = part {
                return Ok(Resolved(self.inflated_part(Content::Restored(part), limits)?));
            }
        }
        Err(self.no_data(fault))
    }

    /// Returns the range of the inflated bundle that the URI names, if `part` is a compressed bundle. Returns all of
    /// `part` if the URI names no such range.
    fn inflated_part<'a>(&self, part: Content<'a>, limits: Limits) -> Result<Content<'a>> {
        let Some(inflated) = &self.inflated else { return Ok(part) };
        let bundle = part.as_slice();
        let reader = BundleReader::for_magic(Magic::identify(bundle.bytes()));
        let compressed = reader.container.compressed(bundle, limits)?;
        let Some(compressed) = compressed else {
            let offset = bundle.offset();
            let reason = format!("there is no compressed bundle at offset {offset}, which 'inflated-offset' asks for");
            return Err(Error::refused(ErrorKind::NotFound, &self.path, offset, reason));
        };
        let (input, _) = compressed.inflate_whole()?;
        ensure_inside(&self.path, "inflated bundle", inflated, input.len())?;
        Ok(Content::Inflated(Rc::new(input), inflated.clone()))
    }

    /// Walks to the inflated data at the end of the steps of the URI, and passes the data to `take`. Unless `take`
    /// breaks off, the data is searched. Each code object on the way and in the data is passed to `each`. `fault` is
    /// set to the first fault that the walk meets, if it is not set yet.
    fn walk_to_data(
        &self,
        file: &Input,
        scan: Scan,
        fault: &mut Option<Error>,
        take: &mut dyn FnMut(Slice<'_>) -> Result<ControlFlow<()>>,
        each: &mut dyn FnMut(&CodeObjectRef<'_>) -> Result<()>,
    ) -> Result<()> {
        let scan = Scan { inflate: Inflate::Whole, ..scan };
        let mut visit = |visit: WalkEvent<'_>| {
            match visit {
                WalkEvent::Found(Finding::Broken { place, error }) => {
                    fault.get_or_insert_with(|| error.at(place));
                }
                WalkEvent::Found(Finding::Bundle(found)) => {
                    for code_object in found.code_objects() {
                        each(&code_object)?;
                    }
                }
                WalkEvent::Found(_) | WalkEvent::End(..) => {}
            }
            Ok(ControlFlow::Continue(()))
        };
        let goal = Goal { steps: &self.steps, take };
        Walk::new(&scan, file.as_slice(), &mut visit).with_goal(goal).search_file(file.as_slice())?;
        Ok(())
    }

    /// Returns the error for a URI whose data a walk did not reach: the fault on the way there, or else that the steps
    /// of the URI do not exist.
    fn no_data(&self, fault: Option<Error>) -> Error {
        if let Some(fault) = fault {
            return fault;
        }
        let names: Vec<String> = self.steps.iter().map(|step| shown(&step.name).to_string()).collect();
        let reason = format!("there is no data to inflate at '{}'", names.join("', in it '"));
        Error::refused(ErrorKind::NotFound, &self.path, None, reason)
    }
}

/// A URI that is opened like a file.
struct UriToOpen<'u> {
    uri: &'u Uri,
    /// The URI as it was given.
    name: &'u Path,
    /// The file at the path of the URI.
    file: &'u Input,
    limits: Limits,
}

impl UriToOpen<'_> {
    /// Returns a copy of the bytes that the URI names.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if the data does not exist, and if its bytes are not known to be code: a URI should name
    /// a code object. Their format is not known, and no search of the file reports a code object with this URI.
    fn part(&self) -> Result<Input> {
        if self.uri.steps.is_empty() {
            let part = self.copy_part(self.file.as_slice())?;
            if self.is_known_as_code(&part)? || self.is_of_code_object()? {
                return Ok(part);
            }
            return Err(self.uri.not_found());
        }
        let (mut fault, mut has_data) = (None, false);
        // A deep search may number members in another way, and comes second, as in `resolve`.
        for deep in [false, true] {
            let (mut part, mut is_known_format, mut is_code_object) = (None, false, false);
            let mut take = |data: Slice<'_>| {
                let copy = self.copy_part(data)?;
                is_known_format = self.is_known_as_code(&copy)?;
                part = Some(copy);
                // If the format is not known, searching the data may find a code object with the URI.
                Ok(if is_known_format { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            };
            let mut each = |code_object: &CodeObjectRef<'_>| {
                // A code object that is compressed on its own is visited with its bundle, before the walk reaches the
                // inflated data. So the code objects on the way to the data are compared with the URI too.
                if !is_code_object {
                    is_code_object = self.uri.names(code_object, self.file)?;
                }
                Ok(())
            };
            self.uri.walk_to_data(self.file, self.scan(deep), &mut fault, &mut take, &mut each)?;
            has_data |= part.is_some();
            if let Some(part) = part
                && (is_known_format || is_code_object)
            {
                return Ok(part);
            }
        }
        Err(if has_data { self.uri.not_found() } else { self.uri.no_data(fault) })
    }

    /// Copies the part of the data that the URI names.
    fn copy_part(&self, data: Slice<'_>) -> Result<Input> {
        let part = self.uri.inflated_part(Content::InPlace(self.uri.part_of(data)?), self.limits)?;
        Input::spool_copy(self.name, part.as_slice().bytes()).with_path(self.name)
    }

    /// Returns whether a part begins with a known format, or holds something that a deep search finds. Returns true for
    /// a URI without a range, which names a whole file: that may hold anything.
    fn is_known_as_code(&self, part: &Input) -> Result<bool> {
        if self.uri.range.is_none() || Magic::identify(part.bytes()) != Magic::Unknown {
            return Ok(true);
        }
        // A search reports any bytes without code as trailing bytes, so these do not count.
        finds(&self.scan(true), part, |finding| Ok(!matches!(finding, Finding::Trailing { .. })))
    }

    /// Returns whether a search of the file finds a code object with this URI.
    fn is_of_code_object(&self) -> Result<bool> {
        // A deep search may number members in another way, and comes second, as in `resolve`.
        for deep in [false, true] {
            // The ends of some code objects are found only when they are inflated.
            let scan = Scan { inflate: Inflate::Whole, ..self.scan(deep) };
            if finds(&scan, self.file, |finding| self.is_named_in(&finding))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns whether a code object of a finding has the URI.
    fn is_named_in(&self, finding: &Finding<'_>) -> Result<bool> {
        if let Finding::Bundle(found) = finding {
            for code_object in found.code_objects() {
                if self.uri.names(&code_object, self.file)? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Returns the settings of a search for the URI.
    fn scan(&self, deep: bool) -> Scan {
        Scan { deep, limits: self.limits, ..Scan::default() }
    }
}

/// Searches a file until `is_wanted` accepts a finding. Returns whether it accepted one.
fn finds(scan: &Scan, file: &Input, is_wanted: impl Fn(Finding<'_>) -> Result<bool>) -> Result<bool> {
    let mut is_found = false;
    scan.run_until(file, &mut |finding| {
        is_found = is_wanted(finding)?;
        Ok(if is_found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    Ok(is_found)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    fn parsed(uri: &str) -> Uri {
        Uri::parse(OsStr::new(uri)).unwrap()
    }

    #[test]
    fn ranges_and_steps_that_are_not_there_are_errors() {
        let file = Input::from_bytes("/x", b"CCOB, 16 bytes..".to_vec());
        for (fields, reason) in [
            ("offset=17&size=0", "offset in URI (17) is beyond the end of the source (16)"),
            ("offset=0&size=17", "size in URI (17) is larger than source (16)"),
            ("offset=8&size=9", "offset + size (17) in URI is beyond the end of the source (16)"),
            (
                "offset=1&size=8&inflated-offset=0&inflated-size=1",
                "there is no compressed bundle at offset 1, which 'inflated-offset' asks for",
            ),
        ] {
            let error = parsed(&format!("file:///x#{fields}")).resolve(&file, Limits::default()).unwrap_err();
            assert_eq!(error.to_string(), format!("'/x': {reason}"));
        }
        let file = Input::from_bytes("/x", b"no container".to_vec());
        let error = parsed("file:///x#member=a&member=b;2").resolve(&file, Limits::default()).unwrap_err();
        assert_eq!(error.to_string(), "'/x': there is no data to inflate at 'a', in it 'b'");
        let part = parsed("file:///x#offset=3&size=4");
        assert_eq!(part.resolve(&file, Limits::default()).unwrap().as_slice().bytes(), b"cont");
        assert_eq!(parsed("file:///x").resolve(&file, Limits::default()).unwrap().as_slice().bytes(), file.bytes());
    }
}

//! Finds the bytes that a URI names, in the file at its path.

use std::ops::ControlFlow;
use std::path::Path;
use std::rc::Rc;

use super::found::Visit;
use super::walk::{Goal, Walk};
use super::{BundleReader, CodeObjectRef, Finding, Scan};
use crate::base::display::shown;
use crate::base::error::{Error, ErrorKind, Result, WithPath};
use crate::base::io::input::{Input, Slice};
use crate::llvm::container::Limits;
use crate::llvm::container::magic::Magic;
use crate::llvm::container::sequence::{Content, Inflate};
use crate::llvm::uri::{MEMORY, SCHEME, Uri, ensure_inside};

/// The bytes that a URI names.
#[derive(Debug)]
pub struct Resolved<'a>(Content<'a>);

impl Resolved<'_> {
    /// The bytes: a range of the file, or of what was inflated from it.
    pub fn as_slice(&self) -> Slice<'_> {
        self.0.as_slice()
    }
}

impl Uri {
    /// Returns the URI that stands in the place of a path, or `None` for the path of an existing file, and for one that
    /// does not begin as URIs do.
    pub(super) fn of_path(path: &Path) -> Option<Result<Self>> {
        let uri = path.as_os_str();
        let is_uri = [SCHEME, MEMORY].into_iter().any(|scheme| uri.as_encoded_bytes().starts_with(scheme));
        (is_uri && !path.exists()).then(|| Self::parse(uri))
    }

    /// Opens a file with `open` or, if `path` is a URI, copies the bytes that it names. The path of the input is the
    /// URI.
    ///
    /// # Errors
    /// The errors of `open`, [`parse`](Self::parse) and [`resolve`](Self::resolve), that the file has changed, and
    /// an [`Error`] of the kind [`NotFound`](ErrorKind::NotFound) if a part of the file is not a code object, begins
    /// with no known format, and holds nothing that a deep search finds.
    pub fn open(path: &Path, limits: Limits, open: impl FnOnce(&Path) -> Result<Input>) -> Result<Input> {
        let Some(uri) = Self::of_path(path).transpose()? else { return open(path) };
        let file = open(&uri.path)?;
        let copied = uri.resolve(&file, limits).and_then(|part| {
            let part = Input::set_aside(path, part.as_slice().bytes()).with_path(path)?;
            let is_known = uri.range.is_none() || Magic::identify(part.bytes()) != Magic::Unknown;
            let deep = Scan { deep: true, limits, ..Scan::default() };
            let has_code = || finds(&deep, &part, |finding| Ok(!matches!(finding, Finding::Trailing { .. })));
            if !is_known && !has_code()? && !uri.is_of_code_object(&file, limits)? {
                return Err(uri.not_found());
            }
            Ok(part)
        });
        file.vouch_for(copied)
    }

    /// Whether a code object has the URI. `file` is the file at its [path](Self::path).
    fn is_of_code_object(&self, file: &Input, limits: Limits) -> Result<bool> {
        // The ends of some code objects are found only when they are inflated.
        for (inflate, deep) in [(Inflate::Headers, false), (Inflate::Whole, false), (Inflate::Whole, true)] {
            let is_it = |finding: Finding<'_>| {
                let Finding::Bundle(found) = finding else { return Ok(false) };
                found.code_objects().try_fold(false, |is_it, next| Ok(is_it || self.names(&next, file)?))
            };
            if finds(&Scan { inflate, deep, limits, ..Scan::default() }, file, is_it)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether it is the URI of a code object in `file`.
    pub(crate) fn names(&self, code_object: &CodeObjectRef<'_>, file: &Input) -> Result<bool> {
        // Members of thin archives are in other files.
        let path = std::path::absolute(file.path()).with_path(file.path())?;
        Ok(code_object.uri()?.is_some_and(|uri| uri.path == path && uri.is_same_part(self, file.len())))
    }

    pub(crate) fn not_found(&self) -> Error {
        let reason = format!("no code object has the URI '{self}'; inspect --json prints those that there are");
        Error::refused(ErrorKind::NotFound, &self.path, None, reason)
    }

    /// The bytes that the URI names. `file` is the file at its [path](Self::path).
    ///
    /// # Errors
    /// an [`Error`] of the kind [`NotFound`](ErrorKind::NotFound) if the file has no such member or range, otherwise
    /// those of reading what is compressed.
    pub fn resolve<'a>(&self, file: &'a Input, limits: Limits) -> Result<Resolved<'a>> {
        let stored = match self.way.is_empty() {
            true => Content::InPlace(self.part_of(file.as_slice())?),
            false => Content::Restored(self.member(file, limits)?),
        };
        let Some(inflated) = &self.inflated else { return Ok(Resolved(stored)) };
        let bundle = stored.as_slice();
        let reader = BundleReader::of(Magic::identify(bundle.bytes()));
        let compressed = reader.container.compressed(bundle, limits)?;
        let (what, offset) = ("there is no compressed bundle", bundle.offset());
        let compressed = compressed.ok_or_else(|| {
            let reason = format!("{what} at offset {offset}, which 'inflated-offset' asks for");
            Error::refused(ErrorKind::NotFound, &self.path, offset, reason)
        })?;
        let (input, _) = compressed.inflate_whole()?;
        ensure_inside(&self.path, "inflated bundle", inflated, input.len())?;
        Ok(Resolved(Content::Inflated(Rc::new(input), inflated.clone())))
    }

    /// The range of the inflated data to which the steps lead.
    fn member(&self, file: &Input, limits: Limits) -> Result<Input> {
        let mut broken = None;
        // What only a deep search looks into is not a member for another.
        for deep in [false, true] {
            let scan = Scan { inflate: Inflate::Whole, deep, limits, ..Scan::default() };
            let mut found = None;
            let mut take = |data: Slice<'_>| {
                let part = self.part_of(data)?;
                found = Some(Input::set_aside(&self.path, part.bytes()).with_path(&self.path)?);
                Ok(())
            };
            let mut note = |visit: Visit<'_>| {
                if let Visit::Found(Finding::Broken { place, error }) = visit {
                    broken.get_or_insert_with(|| error.at(place));
                }
                Ok(ControlFlow::Continue(()))
            };
            let goal = Goal { way: &self.way, take: &mut take };
            Walk::new(&scan, file.as_slice(), &mut note).with_goal(goal).file(file.as_slice())?;
            if let Some(found) = found {
                return Ok(found);
            }
        }
        let names: Vec<String> = self.way.iter().map(|level| shown(&level.name).to_string()).collect();
        let reason = format!("there is no data to inflate at '{}'", names.join("', in it '"));
        Err(broken.unwrap_or_else(|| Error::refused(ErrorKind::NotFound, &self.path, None, reason)))
    }
}

/// Whether a search finds something for which `is_it` is true, after which it ends.
fn finds(scan: &Scan, file: &Input, is_it: impl Fn(Finding<'_>) -> Result<bool>) -> Result<bool> {
    let mut has_some = false;
    scan.run_until(file, &mut |finding| {
        has_some |= is_it(finding)?;
        Ok(if has_some { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    Ok(has_some)
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

//! Copies the bytes that URIs name, as LLVM 23's `llvm-extract-bundle-entry` does.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::path::PathBuf;

use crate::base::bytes::len_of;
use crate::base::display::plain;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::io::input::{Accept, Input, Slice};
use crate::base::io::output::{self, Output, OverwriteMode};
use crate::llvm::container::Limits;
use crate::llvm::uri::Uri;
use crate::llvm::work::open;

/// The maximum length of the name of a member in a generated file name, in bytes. File systems allow file names of
/// about 255 bytes.
const MEMBER_MAX: usize = 80;

/// Copies the bytes that each URI names to a file.
///
/// The new file is in the directory of the URI's file. Its name consists of:
///
/// - the path of the URI;
/// - the names of the members on the path to inflated bytes, with only letters, digits and `+-._=`, and the number of
///   each, if it is not the first of its name;
/// - `-offset<O>-size<S>`;
/// - `-inflated-offset<O>-inflated-size<S>` for a range of a compressed bundle;
/// - `.co`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ExtractUris {
    /// The URIs. Duplicates are copied once.
    pub uris: Vec<Uri>,
    /// The file to write instead, for a single URI; `-` is standard output.
    pub output: Option<PathBuf>,
    /// Limits on the inflated size of compressed containers.
    pub limits: Limits,
    /// Reads the bytes of a URI. The clone alone reads only stored bytes; other parts of the program also inflate.
    read: ReadUri,
}

/// Reads the bytes that a URI names in its file, within the limits, and passes them to a function that writes them.
pub(crate) type ReadUri = fn(&Uri, &Input, Limits, &mut dyn FnMut(Slice<'_>) -> Result<Output>) -> Result<Output>;

/// Reads the bytes of a URI that the file stores as they are. URIs of LLVM name no other bytes. Any other URI is an
/// error. The limits have no use, because nothing is inflated.
pub(crate) fn read_stored(
    uri: &Uri,
    file: &Input,
    _limits: Limits,
    write: &mut dyn FnMut(Slice<'_>) -> Result<Output>,
) -> Result<Output> {
    if !uri.is_stored() {
        let reason = format!("'{uri}' names inflated bytes, which this program was built without");
        return Err(Error::refused(ErrorKind::Unsupported, uri.path(), None, reason));
    }
    write(uri.part_of(file.as_slice())?)
}

impl ExtractUris {
    /// Copies the bytes of each URI to a new file, in the directory of the file that the URI names.
    pub fn new(uris: Vec<Uri>) -> Self {
        Self { uris, output: None, limits: Limits::default(), read: read_stored }
    }

    /// Sets how the bytes that a URI names are read.
    #[cfg(feature = "llvm")]
    #[must_use]
    pub(crate) fn with_reader(mut self, read: ReadUri) -> Self {
        self.read = read;
        self
    }

    /// Writes the files.
    ///
    /// # Errors
    /// Any [`Error`]; then nothing is written. The kind is [`Usage`](ErrorKind::Usage) if several URIs have one output,
    /// and [`Conflict`](ErrorKind::Conflict) if two URIs have one file name, or a file name is that of an input.
    pub fn run(&self) -> Result<()> {
        if self.output.is_some() && self.uris.len() > 1 {
            return Err(Error::usage("an output file cannot be given for more than one URI"));
        }
        let inputs: HashSet<_> = self.uris.iter().filter_map(|uri| uri.path().canonicalize().ok()).collect();
        let mut written: HashMap<PathBuf, &Uri> = HashMap::new();
        let mut outputs = Vec::new();
        for uri in &self.uris {
            let (path, overwrite) = match &self.output {
                Some(path) => (path.clone(), OverwriteMode::Rewrite),
                None => (file_name_of(uri), OverwriteMode::Generated),
            };
            match written.insert(path.clone(), uri) {
                // A repeated URI is copied once.
                Some(before) if before == uri => continue,
                Some(before) => {
                    let reason = format!("both '{before}' and '{uri}' would be written to this file");
                    return Err(Error::refused(ErrorKind::Conflict, path, None, reason));
                }
                None => {}
            }
            if overwrite == OverwriteMode::Generated
                && let Ok(path) = path.canonicalize()
                && inputs.contains(&path)
            {
                return Err(Error::overwrites_input(&path));
            }
            let input = open(uri.path(), Accept::Finite, self.limits.streamed)?;
            let copied =
                (self.read)(uri, &input, self.limits, &mut |bytes| Output::with_content(&path, overwrite, bytes));
            outputs.push(input.unless_changed(copied)?);
        }
        output::commit(outputs)
    }
}

/// The generated name of the file for a URI, as [`ExtractUris`] describes it. Of the long name of a member, only the
/// end is used, which is its file name.
fn file_name_of(uri: &Uri) -> PathBuf {
    let mut name: OsString = uri.path().into();
    for (member, number) in uri.members() {
        let member = plain(member);
        let end = member.get(member.len().saturating_sub(MEMBER_MAX)..).unwrap_or_default();
        name.push(format!("-{end}"));
        if number != 1 {
            name.push(format!("-{number}"));
        }
    }
    for (prefix, range) in [("", uri.range()), ("inflated-", uri.inflated_range())] {
        if let Some(range) = range {
            name.push(format!("-{prefix}offset{}-{prefix}size{}", range.start, len_of(range)));
        }
    }
    name.push(".co");
    name.into()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn files_are_named_after_the_uri_and_lie_beside_its_file() {
        for (uri, name) in [
            ("file://d/x.o#offset=0x10&size=8", "d/x.o-offset16-size8.co"),
            ("file:///x", "/x.co"),
            (
                "file:///x#offset=1&size=2&inflated-offset=3&inflated-size=4",
                "/x-offset1-size2-inflated-offset3-inflated-size4.co",
            ),
            ("file:///x#member=../../etc/x;2&member=%00y&offset=1&size=2", "/x-.._.._etc_x-2-_y-offset1-size2.co"),
        ] {
            assert_eq!(file_name_of(&Uri::parse(uri.as_ref()).unwrap()), Path::new(name));
        }
    }
}

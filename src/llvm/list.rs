//! Lists the entries of a file.

use std::io::Write;
use std::path::PathBuf;

use super::library::{LibraryMember, OpenArchive};
use super::{FileType, observe_inflated, observe_plain};
use crate::container::Limits;
use crate::container::archive::Archive;
use crate::container::sequence::{Bundle, Bundles, Inflate};
use crate::display::printable_name;
use crate::error::{Error, Result};
use crate::event::Observer;
use crate::io::input::Accept;
use crate::job::open;

/// Lists the entry IDs of all bundles in a file, or in the members of an archive, in file order.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct List {
    /// The file.
    pub input: PathBuf,
    /// Its type.
    pub file_type: FileType,
    /// The extent to which compressed bundles are inflated.
    pub inflate: Inflate,
    /// Limits on the inflated size of the file.
    pub limits: Limits,
}

impl List {
    /// Lists a file, inflating compressed bundles up to the end of their headers.
    pub fn new(input: impl Into<PathBuf>, file_type: FileType) -> Self {
        Self { input: input.into(), file_type, inflate: Inflate::AsNeeded, limits: Limits::default() }
    }

    /// Writes one entry ID per line. Bytes that are not printable text are escaped.
    ///
    /// # Errors
    /// Any [`Error`]; the entries before the fault are written. If `out` fails, the file is `-`.
    pub fn run(&self, out: &mut dyn Write, observer: &mut Observer<'_>) -> Result<()> {
        let input = open(&self.input, Accept::Any, self.limits.streamed)?;
        if self.file_type == FileType::Archive && Archive::is_archive(input.bytes()) {
            let library = OpenArchive::open(input, self.limits)?;
            let each = &mut |bundle: Bundle<'_>, _: &mut Observer<'_>| print(&bundle, out);
            let list = |member: LibraryMember<'_>| member.bundles(self.inflate, observer, each);
            let listed = library.members().and_then(|members| members.into_iter().try_for_each(list));
            return library.vouch_for(listed);
        }
        observe_plain(input.as_slice(), observer);
        let container = self.file_type.container();
        let mut bundles = Bundles::new(input.as_slice(), &*container, self.inflate).with_limits(self.limits);
        let listed = bundles.try_for_each(|bundle| {
            let bundle = bundle?;
            observe_inflated(&bundle, observer);
            print(&bundle, out)
        });
        input.vouch_for(listed)
    }
}

fn print(bundle: &Bundle<'_>, out: &mut dyn Write) -> Result<()> {
    bundle
        .entries
        .iter()
        .try_for_each(|entry| writeln!(out, "{}", printable_name(&entry.id)))
        .map_err(|error| Error::io("-", error))
}

//! Lists the entries of a file.

use std::io::Write;
use std::path::PathBuf;

use super::library::OpenArchive;
use super::{FileType, report_if_inflated, report_if_plain};
use crate::base::display::write_name;
use crate::base::error::{Error, Result};
use crate::base::io::input::{Accept, Input};
use crate::llvm::container::Limits;
use crate::llvm::container::archive::Archive;
use crate::llvm::container::sequence::{Bundle, Bundles, Inflate};
use crate::llvm::event::Observer;
use crate::llvm::work::open;

/// Lists the entry IDs of all bundles in a file, or in the members of an archive, in file order.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct List {
    /// The file.
    pub input: PathBuf,
    /// The type of the file.
    pub file_type: FileType,
    /// How much of compressed bundles is inflated to find their entries.
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
    /// Any [`Error`]; the entries before the fault are written. An error of `out` names the file `-`.
    pub fn run(&self, out: &mut dyn Write, observer: &mut Observer<'_>) -> Result<()> {
        let input = open(&self.input, Accept::Any, self.limits.streamed)?;
        if self.file_type == FileType::Archive && Archive::is_archive(input.bytes()) {
            let library = OpenArchive::open(input, self.limits)?;
            library.unless_changed(self.list_members(&library, out, observer))
        } else {
            input.unless_changed(self.list_file(&input, out, observer))
        }
    }

    /// Lists the bundles in the members of an archive.
    fn list_members(&self, library: &OpenArchive, out: &mut dyn Write, observer: &mut Observer<'_>) -> Result<()> {
        for member in library.members()? {
            member.for_each_bundle(self.inflate, observer, &mut |bundle, _| print_ids(&bundle, out))?;
        }
        Ok(())
    }

    /// Lists the bundles of a file that is not an archive.
    fn list_file(&self, input: &Input, out: &mut dyn Write, observer: &mut Observer<'_>) -> Result<()> {
        report_if_plain(input.as_slice(), observer);
        let container = self.file_type.container();
        for bundle in Bundles::new(input.as_slice(), &*container, self.inflate).with_limits(self.limits) {
            let bundle = bundle?;
            report_if_inflated(&bundle, observer);
            print_ids(&bundle, out)?;
        }
        Ok(())
    }
}

fn print_ids(bundle: &Bundle<'_>, out: &mut dyn Write) -> Result<()> {
    for entry in &bundle.entries {
        write_name(&entry.id, out).and_then(|()| out.write_all(b"\n")).map_err(|error| Error::io("-", error))?;
    }
    Ok(())
}

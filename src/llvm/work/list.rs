//! Lists the entries of a file.

use std::io::Write;
use std::path::PathBuf;

use super::library::OpenArchive;
use super::{FileType, report_if_inflated, report_if_plain};
use crate::base::bytes::slice;
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

/// The number of bytes of a file that are enough to name its format.
const HEAD_LEN: u64 = 4096;

/// The result of listing a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PrintedList {
    /// The number of bundles.
    pub bundles: usize,
    /// The first bytes of the file, at most 4096.
    pub head: Vec<u8>,
}

impl List {
    /// Lists a file, inflating compressed bundles up to the end of their headers.
    pub fn new(input: impl Into<PathBuf>, file_type: FileType) -> Self {
        Self { input: input.into(), file_type, inflate: Inflate::AsNeeded, limits: Limits::default() }
    }

    /// Writes one entry ID per line. Bytes that are not printable text are escaped. Returns the number of bundles, and
    /// the first bytes of the file.
    ///
    /// # Errors
    /// Any [`Error`]; the entries before the fault are written. An error of `out` names the file `-`.
    pub fn run(&self, out: &mut dyn Write, observer: &mut Observer<'_>) -> Result<PrintedList> {
        let input = open(&self.input, Accept::Any, self.limits.streamed)?;
        let head = slice(input.bytes(), 0, HEAD_LEN).unwrap_or(input.bytes()).to_vec();
        let bundles = if self.file_type == FileType::Archive && Archive::is_archive(input.bytes()) {
            let library = OpenArchive::open(input, self.limits)?;
            library.unless_changed(self.list_members(&library, out, observer))?
        } else {
            input.unless_changed(self.list_file(&input, out, observer))?
        };
        Ok(PrintedList { bundles, head })
    }

    /// Lists the bundles in the members of an archive, and returns their number.
    fn list_members(&self, library: &OpenArchive, out: &mut dyn Write, observer: &mut Observer<'_>) -> Result<usize> {
        let mut count = 0;
        for member in library.members()? {
            member.for_each_bundle(self.inflate, observer, &mut |bundle, _| {
                count += 1;
                print_ids(&bundle, out)
            })?;
        }
        Ok(count)
    }

    /// Lists the bundles of a file that is not an archive, and returns their number.
    fn list_file(&self, input: &Input, out: &mut dyn Write, observer: &mut Observer<'_>) -> Result<usize> {
        report_if_plain(input.as_slice(), observer);
        let container = self.file_type.container();
        let mut count = 0;
        for bundle in Bundles::new(input.as_slice(), &*container, self.inflate).with_limits(self.limits) {
            let bundle = bundle?;
            report_if_inflated(&bundle, observer);
            count += 1;
            print_ids(&bundle, out)?;
        }
        Ok(count)
    }
}

fn print_ids(bundle: &Bundle<'_>, out: &mut dyn Write) -> Result<()> {
    for entry in &bundle.entries {
        write_name(&entry.id, out).and_then(|()| out.write_all(b"\n")).map_err(|error| Error::io("-", error))?;
    }
    Ok(())
}

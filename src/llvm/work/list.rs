//! Lists the entries of a file.

use std::io::Write;
use std::path::PathBuf;

use super::library::{LibraryMember, OpenArchive};
use super::{FileType, observe_inflated, observe_plain};
use crate::base::display::printable_name;
use crate::base::error::{Error, Result};
use crate::base::io::input::Accept;
use crate::llvm::container::Limits;
use crate::llvm::container::archive::Archive;
use crate::llvm::container::magic::Magic;
use crate::llvm::container::sequence::{Bundle, Bundles, Inflate};
use crate::llvm::event::Observer;
use crate::llvm::work::open;

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

/// The result of listing a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listed {
    /// The number of bundles.
    pub bundles: usize,
    /// The name of the format that the file begins like, such as `offload binary`; none if it is not known.
    pub format: Option<&'static str>,
}

impl List {
    /// Lists a file, inflating compressed bundles up to the end of their headers.
    pub fn new(input: impl Into<PathBuf>, file_type: FileType) -> Self {
        Self { input: input.into(), file_type, inflate: Inflate::AsNeeded, limits: Limits::default() }
    }

    /// Writes one entry ID per line. Bytes that are not printable text are escaped. Returns the number of bundles, and
    /// the format of the file.
    ///
    /// # Errors
    /// Any [`Error`]; the entries before the fault are written. If `out` fails, the file is `-`.
    pub fn run(&self, out: &mut dyn Write, observer: &mut Observer<'_>) -> Result<Listed> {
        let input = open(&self.input, Accept::Any, self.limits.streamed)?;
        let mut result = Listed { bundles: 0, format: Magic::identify(input.bytes()).name() };
        if self.file_type == FileType::Archive && Archive::is_archive(input.bytes()) {
            let library = OpenArchive::open(input, self.limits)?;
            let each = &mut |bundle: Bundle<'_>, _: &mut Observer<'_>| {
                result.bundles += 1;
                print(&bundle, out)
            };
            let list = |member: LibraryMember<'_>| member.bundles(self.inflate, observer, each);
            let listed = library.members().and_then(|members| members.into_iter().try_for_each(list));
            return library.vouch_for(listed.map(|()| result));
        }
        observe_plain(input.as_slice(), observer);
        let container = self.file_type.container();
        let mut bundles = Bundles::new(input.as_slice(), &*container, self.inflate).with_limits(self.limits);
        let listed = bundles.try_for_each(|bundle| {
            let bundle = bundle?;
            observe_inflated(&bundle, observer);
            result.bundles += 1;
            print(&bundle, out)
        });
        input.vouch_for(listed.map(|()| result))
    }
}

fn print(bundle: &Bundle<'_>, out: &mut dyn Write) -> Result<()> {
    bundle
        .entries
        .iter()
        .try_for_each(|entry| writeln!(out, "{}", printable_name(&entry.id)))
        .map_err(|error| Error::io("-", error))
}

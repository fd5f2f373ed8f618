//! The findings of a search: bundles, their places, and the code objects in them.

use std::collections::HashMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::code_object::{BundleInfo, CodeObjectRef, Locator};
use super::place::Place;
use super::{Format, Unread};
use crate::base::error::{Error, Result};
use crate::base::io::input::Slice;
use crate::beyond::code::gpu_header::GpuHeader;
use crate::beyond::code::target;
use crate::beyond::code::undefined::UndefinedSymbols;
use crate::beyond::container::kpack::{KpackArchive, Reference};
use crate::beyond::container::{Bundle, Rule};

/// A finding of a search: device code, or a part of the file that the search could not read.
#[derive(Debug)]
#[non_exhaustive]
pub enum Finding<'f> {
    /// A bundle.
    Bundle(FoundBundle<'f>),
    /// A place that begins like device code, or like a container of device code, but cannot be read.
    Broken {
        /// The place.
        place: &'f Place,
        /// The reason, with the file name.
        error: Error,
    },
    /// Trailing bytes after the bundles of a place that are not a bundle, or after a package.
    Trailing {
        /// The place.
        place: &'f Place,
        /// The offset of the first trailing byte, or `None` after a package that had to be inflated itself.
        offset: Option<u64>,
        /// The format of the package, or `None` after bundles.
        after: Option<&'static str>,
    },
    /// A format that holds or may hold device code, and is recognised but not read.
    Unread {
        /// The place.
        place: &'f Place,
        /// The offset of its start, counted from the [origin](Place::origin) of the place.
        offset: u64,
        /// The format.
        what: Unread,
    },
    /// A kpack archive. It is reported after the code objects in it.
    Kpack {
        /// The place.
        place: &'f Place,
        /// The table of contents.
        archive: &'f KpackArchive,
    },
    /// A library whose device code is in kpack archives. It is reported after the code objects in the archives that
    /// were followed.
    Split {
        /// The place of the reference.
        place: &'f Place,
        /// The reference.
        split: Split<'f>,
    },
    /// A member of a zip file with device code that has the same bytes as an earlier member. It is reported after the
    /// findings in it, if [`Scan::copies`](super::Scan::copies) is set.
    Copy {
        /// The place of the member.
        place: &'f Place,
        /// The place of the first member with these bytes.
        first: &'f Place,
        /// The inflated size of the member in bytes.
        size: u64,
        /// The stored size of the member in bytes.
        stored: u64,
    },
    /// A part of a file that may hold device code but cannot be searched, because its names or tables are broken. The
    /// search continues with the rest of the file.
    Hidden {
        /// The place.
        place: &'f Place,
        /// The fault, with the file name.
        error: Error,
    },
}

/// A split library: its reference, and the archives that it leads to.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Split<'f> {
    /// The reference.
    pub reference: &'f Reference,
    /// The indices in the wrappers of the library, in the order of their section.
    pub indices: &'f [u32],
    /// The archives that exist, or `None` if the reference was not followed.
    pub archives: Option<&'f [Followed]>,
}

impl Split<'_> {
    /// The number of code objects in the archives that the library loads.
    pub fn code_objects(&self) -> usize {
        let counts = self.archives.unwrap_or_default().iter().map(|followed| followed.code_objects);
        counts.sum()
    }
}

/// An archive that a reference leads to.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Followed {
    /// The canonical path of the archive.
    pub path: PathBuf,
    /// The table of contents, or `None` if it cannot be read.
    pub archive: Option<KpackArchive>,
    /// The number of code objects in the archive that the library loads.
    pub code_objects: usize,
}

/// An event of a walk, for its visitor.
pub(super) enum WalkEvent<'f> {
    Found(Finding<'f>),
    /// The end of a file, or of inflated data, with its place and its bytes. After this event the walk releases the
    /// bytes, so the visitor has to read code objects in them now.
    End(&'f Place, Slice<'f>),
}

/// Facts about a bundle and its entries that the search finds out, because the bundle does not record them.
#[derive(Debug, Default)]
pub(crate) struct EntryFacts {
    /// For each entry, its ordinal among the entries at the place with the same ID, counted from 1: two bundles at one
    /// place may have entries of one ID.
    pub(super) numbers: Vec<u64>,
    /// The number of bytes that each entry shares with entries before it. Empty if a job does not sum up sizes.
    pub(super) shared: Vec<u64>,
    /// Whether the bundle is at the start of a file, or of a member of a package.
    pub(super) begins_file: bool,
    /// When code in the section around the bundle is linked. [`FoundBundle::linking`] also looks at the format.
    pub(super) linking: Linking,
    /// The targets of ELF files, by the ranges of the files. To find a target, the whole file may have to be read. Many
    /// entries may have the same range, which is then read once.
    pub(super) targets: Mutex<HashMap<Range<u64>, Option<String>>>,
    /// The headers of code objects that are compressed on their own, by the indices of the entries. A header is known
    /// if the content was inflated for another reason, or its beginning for the header.
    pub(super) headers: Mutex<HashMap<usize, Option<GpuHeader>>>,
    /// The symbols that code objects need and do not define, by the indices of the entries. Only a job that reads all
    /// content knows them.
    pub(super) undefined: Mutex<HashMap<usize, UndefinedSymbols>>,
}

/// Locks some facts: several threads may read the code objects of a bundle.
fn locked<T>(facts: &Mutex<T>) -> MutexGuard<'_, T> {
    facts.lock().unwrap_or_else(PoisonError::into_inner)
}

/// When the code of a bundle is linked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Linking {
    /// Before the bundle was made.
    #[default]
    Before,
    /// When the object with the bundle is linked: the bundle is an input of a linker.
    WithObject,
    /// When the program starts: the linker left relocatable CUDA code in a linked file, and the driver links it.
    AtStart,
}

impl EntryFacts {
    /// Notes the header of the entry with an index, or that the entry is not an ELF file for a GPU.
    pub(super) fn note_header(&self, index: usize, header: Option<GpuHeader>) {
        locked(&self.headers).insert(index, header);
    }

    /// Returns the noted header of the entry with an index, or `None` if nothing is noted.
    pub(super) fn noted_header(&self, index: usize) -> Option<Option<GpuHeader>> {
        locked(&self.headers).get(&index).copied()
    }

    /// Notes the symbols that the entry with an index needs and does not define.
    pub(super) fn note_undefined(&self, index: usize, undefined: UndefinedSymbols) {
        locked(&self.undefined).insert(index, undefined);
    }

    /// Returns the noted symbols that the entry with an index needs, or `None` if none are noted.
    pub(super) fn noted_undefined(&self, index: usize) -> Option<UndefinedSymbols> {
        locked(&self.undefined).get(&index).cloned()
    }

    /// Returns the target of the ELF file in some bytes of the bundle. The first call for the bytes reads them.
    pub(super) fn target(&self, code: Slice<'_>) -> Option<String> {
        let range = code.offset()..code.end();
        locked(&self.targets).entry(range).or_insert_with(|| target::target_id(code.bytes())).clone()
    }
}

/// The [`space_end`](FoundBundle::space_end) of a bundle that other data may follow directly.
pub(crate) const UNKNOWN_SPACE_END: u64 = 0;

/// A bundle at a place.
#[derive(Clone, Copy, Debug)]
pub struct FoundBundle<'f> {
    /// The place of the bundle.
    pub place: &'f Place,
    /// The format of the bundle.
    pub format: Format,
    /// The index of the bundle among those at the same place, counted from 0.
    pub index: usize,
    /// The bundle itself.
    pub bundle: &'f Bundle<'f>,
    pub(crate) facts: &'f EntryFacts,
    /// The end of the section, member or file around the bundle, if that holds only bundles of this format and padding.
    /// Otherwise [`UNKNOWN_SPACE_END`]: other data may follow, which a longer bundle would overwrite.
    pub(crate) space_end: u64,
}

impl<'f> FoundBundle<'f> {
    /// The code objects in file order.
    pub fn code_objects(&self) -> impl Iterator<Item = CodeObjectRef<'f>> + use<'f> {
        let (found, entries) = (*self, self.bundle.entries.iter().enumerate());
        entries.map(move |(index, entry)| CodeObjectRef { found, entry, index })
    }

    /// Returns the facts about the bundle, to be kept after the search with [its code objects](CodeObjectRef::keep).
    ///
    /// # Errors
    /// The errors of [`Bundle::stored_len`].
    pub fn info(&self) -> Result<Arc<BundleInfo>> {
        BundleInfo::new(self).map(Arc::new)
    }

    /// Returns whether the bundle is at the start of a file, or of a member of a zip file, a tar or cpio archive. It
    /// may still be followed by more bundles.
    pub(crate) fn is_file(&self) -> bool {
        self.facts.begins_file
    }

    /// Returns whether the bundle need not serve every GPU of a program, because other bundles or files may serve the
    /// rest.
    pub(crate) fn is_for_some_gpus(&self) -> bool {
        self.format.has(Rule::ForSomeGpus) || self.is_relinked()
    }

    /// Returns whether the bundle has relocatable CUDA code that the linker left in a linked file. The driver can link
    /// it for GPUs that the linked code in the file does not serve.
    pub(crate) fn is_relinked(&self) -> bool {
        self.linking() == Linking::AtStart
    }

    /// Returns when the code of the bundle is linked, by its format and the section around it.
    pub(crate) fn linking(&self) -> Linking {
        match self.facts.linking {
            // The driver links only some formats, so code of other formats was linked before, whatever its section.
            Linking::AtStart if !self.format.has(Rule::LinkedByDriver) => Linking::Before,
            // The bundle is an object that a linker reads, in whatever section it is.
            _ if self.format.has(Rule::Object) => Linking::WithObject,
            of_section => of_section,
        }
    }

    /// Returns the locator of the entry with an index.
    pub(crate) fn locator(&self, entry: usize) -> Locator<'f> {
        Locator { place: self.place, bundle: self.index, entry }
    }
}

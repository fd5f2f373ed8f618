//! Checks a rewritten file before it is put in place: a search, which is what every subcommand starts with, finds the
//! code objects that were to be kept, and no more faults than in the old file.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use crate::base::error::Result;
use crate::base::io::input::Slice;
use crate::beyond::container::Rule;
use crate::beyond::inventory::each_bundle;
use crate::beyond::scan::{Checksums, Format, FoundBundle, Place, Scan};
use crate::llvm::container::Limits;

/// The indices of the code objects that are kept, by the offset of their bundle in the old file. A bundle that is not
/// listed keeps all of them.
pub(super) type KeptByOffset = BTreeMap<u64, Vec<usize>>;

/// The code objects that a search finds in a file, and its faults. Code objects inside of others are left out, because
/// code objects are written as they were.
pub(super) struct FileCode {
    /// The code objects of each bundle that has any.
    bundles: Vec<KnownObjects>,
    faults: usize,
}

/// The code objects of a bundle, as a hash: a bundle may have any number of them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct KnownObjects {
    count: usize,
    /// A hash of their entry IDs, and of their sizes in bytes if these are the same however they are stored.
    hash: u64,
}

impl FileCode {
    /// Searches a file.
    pub(super) fn of(data: Slice<'_>, limits: Limits) -> Result<Self> {
        Self::kept_of(data, &KeptByOffset::new(), limits)
    }

    /// Searches a file, and leaves out the code objects that are not kept.
    pub(super) fn kept_of(data: Slice<'_>, kept: &KeptByOffset, limits: Limits) -> Result<Self> {
        // A search that compares checksums also checks wrappers.
        let scan = Scan { checksums: Checksums::OfAll, limits, ..Scan::default() };
        let mut found = Self { bundles: Vec::new(), faults: 0 };
        let faults = each_bundle(&scan, &Place::of_file(data.path()), data, &mut |bundle| {
            if !bundle.place.is_in_code_object() {
                found.add(KnownObjects::of(bundle, kept.get(&bundle.bundle.offset)));
            }
            Ok(())
        })?;
        Ok(Self { faults, ..found })
    }

    /// The code of a file without faults: that of each bundle.
    pub(super) fn without_faults(bundles: impl Iterator<Item = KnownObjects>) -> Self {
        let mut found = Self { bundles: Vec::new(), faults: 0 };
        bundles.for_each(|bundle| found.add(bundle));
        found
    }

    /// Adds the code objects of a bundle, if there are any.
    fn add(&mut self, objects: KnownObjects) {
        if objects.count > 0 {
            self.bundles.push(objects);
        }
    }

    /// Returns whether these are the `expected` code objects, without new faults.
    pub(super) fn is_as_expected(&self, expected: &Self) -> bool {
        self.bundles == expected.bundles && self.faults <= expected.faults
    }
}

impl KnownObjects {
    /// Returns the code objects of a bundle with the indices in `kept`, or all of them if it is `None`.
    pub(super) fn of(found: &FoundBundle<'_>, kept: Option<&Vec<usize>>) -> Self {
        let (mut count, mut hasher) = (0, DefaultHasher::new());
        for code_object in found.code_objects() {
            let is_kept = kept.is_none_or(|kept| kept.binary_search(&code_object.index()).is_ok());
            // The host code of a fat object is the object around its bundle.
            let is_object_itself = found.format.has(Rule::Object) && code_object.parsed_id().is_host();
            if is_kept && !is_object_itself {
                // The recorded size of compressed code in a fatbin may include padding.
                let size = if found.format == Format::Fatbin { None } else { Some(code_object.size()) };
                count += 1;
                (code_object.id(), size).hash(&mut hasher);
            }
        }
        Self { count, hash: hasher.finish() }
    }
}

//! The sums over the files that `inspect` lists.

use std::collections::{BTreeMap, HashMap};

use crate::base::display::printable_start;
use crate::beyond::inventory::{BundleContents, Contents, Coverage, Needs, Targets};
use crate::beyond::scan::{CodeObject, Sizes};

/// The maximum number of GPUs with their own sums. All further GPUs share one, because hostile files can name any
/// number.
const GPUS_MAX: usize = 10_000;

/// The longest name of a GPU that tells it apart from others, in characters.
const NAME_MAX: usize = 200;

/// The sums over files.
///
/// A file counts as one of four kinds: with code, unreadable, with code in kpack archives only, or without device code.
/// A file that has only unread parts is of none of these kinds. Unread parts and missing code count for all files.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct InspectTotal {
    /// The number of files.
    pub files: usize,
    /// The number of files with bundles or code objects.
    pub files_with_bundles: usize,
    /// The number of files without device code.
    pub files_without_device_code: usize,
    /// The number of files with errors and without bundles.
    pub files_broken: usize,
    /// The number of files with parts in a format that is recognised and not read.
    pub files_with_unread: usize,
    /// The number of files that refer to kpack archives, although none of the archives has code for them.
    pub files_with_missing: usize,
    /// The number of files without bundles that refer to kpack archives for their device code.
    pub files_with_references_only: usize,
    /// The number of libraries with code.
    pub libraries: usize,
    /// The sizes of all code objects.
    pub sizes: Sizes,
    /// The sizes for each GPU, and for the host, in the order in which they were found.
    pub gpus: Vec<GpuSizes>,
    /// The index in `gpus` of each GPU, by the start of its name.
    indices: HashMap<String, usize>,
    /// The GPUs that the bundles serve.
    pub coverage: Coverage,
    /// Whether a bundle or a code object is compressed.
    pub is_compressed: bool,
    /// The number of unread parts by the name of their format.
    pub unread: BTreeMap<&'static str, usize>,
    /// The requirements of a machine that reads the code.
    pub needs: Needs,
}

/// The sizes of the code objects for a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GpuSizes {
    /// The [target](CodeObject::target) of the code objects, or `others` for GPUs without sums of their own.
    pub gpu: String,
    /// Their number and sizes.
    pub sizes: Sizes,
    /// Whether some of the stored sizes are shares of data that is compressed together.
    pub is_share: bool,
    /// Whether the kind of some is not known, because too little of a compressed bundle was inflated.
    pub has_unknown_kind: bool,
}

impl InspectTotal {
    /// Adds a file.
    pub fn add(&mut self, file: &Contents) {
        self.files += 1;
        let Contents { bundles, unread, references, problems, .. } = file;
        if !bundles.is_empty() {
            self.files_with_bundles += 1;
        } else if !problems.is_empty() {
            self.files_broken += 1;
        } else if !references.is_empty() {
            self.files_with_references_only += 1;
        } else if unread.is_empty() {
            self.files_without_device_code += 1;
        }
        // Code is missing only where archives were searched.
        let is_missing = references.iter().any(|reference| reference.archives.is_some() && reference.code_objects == 0);
        self.files_with_missing += usize::from(is_missing);
        self.files_with_unread += usize::from(!unread.is_empty());
        for part in unread {
            *self.unread.entry(part.what.name()).or_default() += 1;
        }
        self.libraries += file.libraries_with_code();
        self.coverage.merge(&file.coverage());
        self.needs.add(file);
        let mut targets = Targets::default();
        for bundle in bundles {
            self.sizes += bundle.sizes();
            self.is_compressed |= bundle.is_compressed();
            for code_object in &bundle.code_objects {
                self.add_code_object(code_object, targets.target_of(code_object));
            }
        }
    }

    /// Adds a code object to the sums of its GPU. Adds nothing for a container: its contents are code objects too, and
    /// count in its place.
    pub(crate) fn add_code_object(&mut self, code_object: &CodeObject, target: &str) {
        let sizes = code_object.sizes();
        if sizes.code_objects == 0 {
            return;
        }
        let mut gpu = target;
        let mut key = printable_start(gpu, NAME_MAX);
        if self.gpus.len() >= GPUS_MAX && !self.indices.contains_key(&key) {
            gpu = "others";
            key = gpu.to_owned();
        }
        let index = *self.indices.entry(key).or_insert(self.gpus.len());
        let more = GpuSizes {
            gpu: gpu.to_owned(),
            sizes,
            is_share: code_object.has_shared_size(),
            has_unknown_kind: code_object.kind.is_none(),
        };
        match self.gpus.get_mut(index) {
            Some(sizes_of_gpu) => sizes_of_gpu.add(&more),
            None => self.gpus.push(more),
        }
    }
}

impl GpuSizes {
    /// Adds the sizes of other code objects, for this GPU or another one.
    pub fn add(&mut self, more: &Self) {
        self.sizes += more.sizes;
        self.is_share |= more.is_share;
        self.has_unknown_kind |= more.has_unknown_kind;
    }
}

impl BundleContents {
    /// Returns whether the bundle, or a code object in it, is compressed.
    pub fn is_compressed(&self) -> bool {
        self.info.compressed.is_some() || self.codecs().next().is_some()
    }
}

impl CodeObject {
    /// Returns whether the code object is compressed together with others, so that only their stored size in total is
    /// known. The code object then has a share of this size, in proportion to its inflated size.
    pub(crate) fn has_shared_size(&self) -> bool {
        self.bundle.compressed.is_some() || self.packed.as_ref().is_some_and(|packed| packed.is_shared())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;
    use crate::beyond::inventory::UnreadPart;
    use crate::beyond::scan::{Place, Unread};

    #[test]
    fn a_file_is_of_one_kind() {
        let unread =
            || UnreadPart { place: Place::of_file("a".as_ref()), offset: 0, what: Unread::anything("7-Zip archive") };
        let problem = || Error::io("a", std::io::ErrorKind::Other.into());
        let mut total = InspectTotal::default();
        for (unread, problems) in [
            (vec![], vec![]),
            (vec![unread(), unread()], vec![]),
            (vec![unread()], vec![problem()]),
            (vec![], vec![problem(), problem()]),
        ] {
            total.add(&Contents { unread, problems, ..Contents::default() });
        }
        let kinds = [
            total.files_with_bundles,
            total.files_broken,
            total.files_with_references_only,
            total.files_without_device_code,
        ];
        assert_eq!((total.files, kinds), (4, [0, 2, 0, 1]));
        assert_eq!((total.files_with_unread, total.unread), (2, BTreeMap::from([("7-Zip archive", 3)])));
    }
}

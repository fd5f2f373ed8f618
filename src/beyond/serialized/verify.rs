//! The report of `verify`.

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use super::Report;
use super::fields::shown;
use crate::beyond::job::{Fault, Verified, VerifyRule};

impl Serialize for VerifyRule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.name().serialize(serializer)
    }
}

/// Whether the device code in files is sound.
#[derive(Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct VerifyReport<F, A, T> {
    /// The files that could be checked: in the order of the command line, those of a directory by name. Files without
    /// device code are included.
    #[cfg_attr(test, schemars(with = "Vec<Verified>"))]
    pub files: F,
    /// The faults that only several files show together: between libraries and the kpack archives with their device
    /// code, and of directories whose files serve GPUs together.
    #[cfg_attr(test, schemars(with = "Vec<FaultOfTree>"))]
    pub faults: A,
    /// The sums over all files. If `bundles` and `code_objects` are 0, nothing was verified, and the exit status is 1
    /// unless `--allow-none` is given: `problems` says so.
    #[cfg_attr(test, schemars(with = "VerifyTotal"))]
    pub total: T,
}

impl<F: Serialize, A: Serialize, T: Serialize> Report for VerifyReport<F, A, T> {
    // In version 1, `bundles` also counted code objects without a bundle.
    const VERSION: u32 = 2;
}

/// A fault that only several files show together.
#[derive(Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct FaultOfTree {
    /// The file, or the directory of files, that the fault is reported for. Names of GPUs in the path of a directory
    /// are replaced by `*`: directories that differ only in them are one.
    path: String,
    #[serde(flatten)]
    fault: Fault,
}

impl FaultOfTree {
    pub(crate) fn new(fault: Fault) -> Self {
        Self { path: shown(fault.place.file()).into_owned(), fault }
    }
}

/// The sums over all files.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct VerifyTotal {
    /// The number of files that were read.
    pub files: usize,
    /// The number of bundles that were checked.
    pub bundles: usize,
    /// The number of code objects that were checked, without empty entries.
    pub code_objects: usize,
    /// The number of code objects without a bundle.
    pub without_bundle: usize,
    /// The number of code objects whose content could not be read, so that only their bundles were checked.
    pub unchecked: usize,
    /// The number of code objects for devices that are text.
    pub without_code: usize,
    /// The number of faults, listed or not, and of expected GPUs that no file serves, which are in `problems`.
    pub faults: usize,
    /// The number of parts that are recognised but not read, listed or not.
    pub unread: usize,
    /// The number of code objects that need symbols which they do not define, listed or not.
    pub undefined: usize,
    /// The number of references to kpack archives.
    pub kpack_references: usize,
}

impl VerifyTotal {
    /// Adds a file.
    pub(crate) fn add(&mut self, verified: &Verified) {
        self.files += 1;
        self.bundles += verified.bundles;
        self.code_objects += verified.code_objects;
        self.without_bundle += verified.without_bundle;
        self.unchecked += verified.unchecked;
        self.without_code += verified.without_code;
        self.faults += verified.faults.len() + verified.more_faults;
        self.unread += verified.unread.len() + verified.more_unread.values().sum::<usize>();
        self.undefined += verified.undefined.len() + verified.more_undefined;
        self.kpack_references += verified.kpack_references;
    }

    /// Whether nothing was checked. A fault counts as a check: it may be the reason why no bundle could be read.
    pub(crate) fn is_none(&self) -> bool {
        self.code_objects == 0 && self.bundles == 0 && self.faults == 0
    }
}

//! The report of `verify`.

use std::borrow::Cow;

#[cfg(test)]
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, Serializer};

use super::{Inside, Report, serialized_as, shown};
use crate::job::{Fault, NotRead, Verified};

#[cfg(test)]
use super::tests;

serialized_as!(Verified => VerifiedFile, Fault => FaultFields);

/// Whether the device code in files is sound.
#[derive(Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct VerifyReport<F, A, T> {
    /// The files that could be checked: in the order of the command line, those of a directory by name. Files without device code are
    /// included.
    #[cfg_attr(test, schemars(with = "Vec<Verified>"))]
    pub files: F,
    /// The faults that only several files show together: between libraries and the kpack archives with their device code.
    #[cfg_attr(test, schemars(with = "Vec<FaultOfTree>"))]
    pub faults: A,
    /// The sums over all files. If `bundles` and `code_objects` are 0, nothing was verified, and the exit status is 1 unless
    /// `--allow-none` is given.
    #[cfg_attr(test, schemars(with = "VerifyTotal"))]
    pub total: T,
}

impl<F: Serialize, A: Serialize, T: Serialize> Report for VerifyReport<F, A, T> {
    // In version 1, `bundles` also counted code objects without a bundle.
    const VERSION: u32 = 2;
}

/// A file.
#[derive(Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
struct VerifiedFile<'r> {
    /// The path as named on the command line, or as found in a directory. Bytes that are not UTF-8 are replaced by U+FFFD, so such a path
    /// cannot be opened.
    path: Cow<'r, str>,
    /// The number of bundles that were checked: bundles, text bundles, fat objects and offload binaries.
    bundles: usize,
    /// The number of code objects that were checked, including host code and empty ones.
    code_objects: usize,
    /// The number of code objects without a bundle.
    without_bundle: usize,
    /// The number of code objects for devices that are empty or text, in bundles that have nothing else for devices, such as bundles of
    /// assembly. Next to other code objects, they are faults.
    without_code: usize,
    /// The faults in file order, at most 10,000 of a file.
    faults: &'r [Fault],
    /// The number of faults that are not listed.
    more_faults: usize,
    /// Parts that are recognised but not read, in file order, at most 10,000 of a file.
    unread: &'r [NotRead],
    /// The number of parts that are recognised but neither read nor listed.
    more_unread: usize,
    /// The number of references to kpack archives with the device code of split ROCm libraries.
    kpack_references: usize,
}

impl<'r> VerifiedFile<'r> {
    fn of(verified: &'r Verified) -> Self {
        Self {
            path: shown(&verified.path),
            bundles: verified.bundles,
            code_objects: verified.code_objects,
            without_bundle: verified.without_bundle,
            without_code: verified.without_code,
            faults: &verified.faults,
            more_faults: verified.more_faults,
            unread: &verified.unread,
            more_unread: verified.more_unread.values().sum(),
            kpack_references: verified.kpack_references,
        }
    }
}

/// A fault.
#[derive(Serialize)]
#[cfg_attr(test, derive(JsonSchema), schemars(rename = "Fault"))]
struct FaultFields<'r> {
    /// The broken rule.
    ///
    /// `readable`: headers, ranges, sizes and hashes agree with the data, and wrappers point at fatbins, bundles or references to kpack
    /// archives. `trailing`: there is only padding between bundles, after them, and after packages. `entry-id`: every bundle entry ID is
    /// valid. `feature`: a processor has the features that its target ID sets. `duplicate`: no two entries of a bundle have the same ID.
    /// `conflict`: a feature is set in all entries for a processor, or in none. `overlap`: code objects do not overlap. `target`: an ELF
    /// file for a GPU is built for the target in its entry ID. `code-object`: headers, tables, symbols and notes of ELF files, SPIR-V and
    /// bitcode are in bounds and agree, PTX is complete, and next to code no entry for a device is empty or text; offsets in `text` count
    /// from the start of the code object. `loadable`: HIP runtimes can read a bundle of code objects for them. `kpack`: the kpack archives
    /// of a split library have code for all of its wrappers or for none of them, for each target ID that they claim, and only code that is
    /// claimed and loaded. `expected`: with `--expect`, every bundle serves every GPU of the vendors for which it has entries, where
    /// offload binaries at one place are one bundle for each source file; with `--expect-any`, every library serves it with any of its
    /// bundles. `unexpected`: with `--expect-exactly`, all code is loaded for one of the GPUs. `compressed`: with `--compressed`, a
    /// bundle, fatbin or offload binary has at most that many bytes of plain code.
    #[cfg_attr(test, schemars(schema_with = "tests::rules"))]
    rule: &'static str,
    #[serde(flatten)]
    inside: Inside,
    /// The number of the bundle among those at the same place (path, member, section), counted from 0. Null if the fault is not in a
    /// bundle.
    bundle: Option<usize>,
    /// The offset of the bundle or, for `trailing`, of the bytes that do not belong there: from the start of the file, or from the start of
    /// the innermost inflated data, such as a deflated member of a zip file. Null if `bundle` is, except for `trailing`, and after a
    /// package that is compressed as a whole.
    offset: Option<u64>,
    /// The fault, as a sentence for people.
    text: &'r str,
    /// For `expected`, the GPU that the bundle or the library does not serve; for `unexpected`, the GPU for which it has code. Null for
    /// other rules.
    gpu: Option<&'r str>,
    /// For these two rules, the source file of the bundle, if a CUDA fatbin or the symbol table of a library records it. Otherwise null.
    source: Option<&'r str>,
}

impl<'r> FaultFields<'r> {
    fn of(fault: &'r Fault) -> Self {
        Self {
            rule: fault.rule.name(),
            inside: Inside::of(&fault.place),
            bundle: fault.bundle,
            offset: fault.offset,
            text: &fault.text,
            gpu: fault.gpu.as_deref(),
            source: fault.source.as_deref(),
        }
    }
}

/// A fault that only several files show together.
#[derive(Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct FaultOfTree {
    /// The file that the fault is reported for.
    path: String,
    #[serde(flatten)]
    fault: Fault,
}

impl FaultOfTree {
    /// A fault with its file.
    pub fn new(fault: Fault) -> Self {
        Self { path: shown(fault.place.file()).into_owned(), fault }
    }
}

/// The sums over all files.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct VerifyTotal {
    /// The number of files that were read.
    pub files: usize,
    /// The number of bundles that were checked.
    pub bundles: usize,
    /// The number of code objects that were checked.
    pub code_objects: usize,
    /// The number of code objects without a bundle.
    pub without_bundle: usize,
    /// The number of code objects for devices that are empty or text.
    pub without_code: usize,
    /// The number of faults, listed or not.
    pub faults: usize,
    /// The number of parts that are recognised but not read, listed or not.
    pub unread: usize,
    /// The number of references to kpack archives.
    pub kpack_references: usize,
}

impl VerifyTotal {
    /// Adds a file.
    pub fn add(&mut self, verified: &Verified) {
        self.files += 1;
        self.bundles += verified.bundles;
        self.code_objects += verified.code_objects;
        self.without_bundle += verified.without_bundle;
        self.without_code += verified.without_code;
        self.faults += verified.faults.len() + verified.more_faults;
        self.unread += verified.unread.len() + verified.more_unread.values().sum::<usize>();
        self.kpack_references += verified.kpack_references;
    }

    /// Whether nothing was checked.
    pub fn is_none(&self) -> bool {
        self.code_objects == 0 && self.bundles == 0 && self.faults == 0
    }
}

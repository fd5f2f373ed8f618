//! Verifies all device code in a file.

mod expect;
mod kpack_tree;
mod report;
mod rules;

pub use expect::{Expect, ExpectExtent};
pub use report::{FaultOfTree, VerifiedFiles, VerifyReport, VerifyTotal};

use std::cell::LazyCell;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::base::bytes::{add, len_u64, total};
use crate::base::display::{short_name, shown};
use crate::base::error::{Error, Result};
use crate::base::io::input::{Accept, Input};
use crate::beyond::container::Rule;
use crate::beyond::inventory::{Bad, BadPart, Keep, Reading, ServedBundles, Unit, UnreadPart, Visit};
use crate::beyond::limits::{LISTED_BYTES_MAX, LISTED_MAX};
use crate::beyond::runtime::{Device, loadable};
use crate::beyond::scan::{self, Checksums, Format, FoundBundle, Place, Scan, is_zip};
use crate::llvm::container::sequence::Inflate;
use crate::llvm::work::open;
use expect::{ExpectComparison, Expected, ServingDirectories};
use kpack_tree::KpackTree;

/// Verifies all device code in a file.
///
/// Reads every header and range, inflates every compressed bundle, and compares it with its recorded sizes and hash.
/// Then checks the entries of each bundle against the rules of the Clang Offload Bundler documentation, and the content
/// of code objects: headers, tables and notes of ELF files, SPIR-V and bitcode. Bundles for HIP's runtime must be
/// within its limits. Formats that are recognised but not read are reported.
///
/// A split library is compared with its kpack archives. [`VerifiedFiles`] sums up several files, and finds the faults
/// that only several files show together.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Verify {
    /// The options of the search. The job itself sets how much is inflated and which checksums are compared, whatever
    /// is set here.
    pub scan: Scan,
    /// The GPUs that the file must serve.
    pub expect: Option<Expect>,
    /// The maximum number of bytes of plain code in a bundle, a CUDA fatbin or an offload binary, or `None` for any
    /// number. There is no limit in text bundles and fat objects, which have no compressed form in place, and inside of
    /// a compressed entry. Nested containers count separately.
    pub plain_max: Option<u64>,
}

/// The contents of a file, and its faults.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(all(test, feature = "serde"), derive(schemars::JsonSchema))]
#[cfg_attr(all(test, feature = "serde"), schemars(rename = "VerifiedFile", description = "A file."))]
#[non_exhaustive]
pub struct Verified {
    /// The path as named on the command line, or as found in a directory. Bytes that are not UTF-8 are replaced by
    /// U+FFFD, so such a path cannot be opened.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::beyond::document::path"))]
    pub path: PathBuf,
    /// The number of bundles that were checked: bundles, text bundles, fat objects and offload binaries.
    pub bundles: usize,
    /// The number of code objects that were checked, including host code. Empty entries are not counted, and neither
    /// are containers in addition to the code objects in them.
    pub code_objects: usize,
    /// The number of code objects without a bundle.
    pub without_bundle: usize,
    /// The number of code objects whose content could not be read, so that only their bundles were checked. The reasons
    /// are in `unread`.
    pub unchecked: usize,
    /// The number of code objects for devices that are text, in bundles that have nothing else for devices, such as
    /// bundles of assembly. Next to other code objects, text and empty entries are faults.
    pub without_code: usize,
    /// The faults in file order, at most 10,000 of a file. Those about expected GPUs follow the others.
    pub faults: Vec<Fault>,
    /// The number of faults that are not listed.
    pub more_faults: usize,
    /// Parts that are recognised but not read, such as obfuscated code objects, in file order, at most 10,000 of a
    /// file.
    pub unread: Vec<UnreadPart>,
    /// The number of parts that are recognised but neither read nor listed, by the
    /// [name](crate::scan::Unread::name) of their format.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::beyond::document::sum"))]
    #[cfg_attr(
        all(test, feature = "serde"),
        schemars(with = "usize", description = "The number of parts that are recognised but neither read nor listed.")
    )]
    pub more_unread: BTreeMap<&'static str, usize>,
    /// The code objects that need symbols which they do not define, in file order, at most 10,000 of a file. Their
    /// runtimes do not load them, unless a program defines the symbols, which it can do for variables alone. Only with
    /// `--expect` is that a fault.
    pub undefined: Vec<UndefinedInCode>,
    /// The number of code objects with undefined symbols that are not listed.
    pub more_undefined: usize,
    /// The number of references to kpack archives with the device code of split ROCm libraries.
    pub kpack_references: usize,
    /// For each [expected](Verify::expect) GPU, in their order: the number of bundles of the file that should serve it,
    /// and of those that do. Null without expected GPUs, and if there are too many GPUs and bundles to compare.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::beyond::inventory::ServedGpu::serialize_all"))]
    #[cfg_attr(all(test, feature = "serde"), schemars(with = "Option<Vec<crate::inventory::ServedGpu>>"))]
    pub expected: Option<Vec<(Device, ServedBundles)>>,
    /// The names of the [expected](Verify::expect) GPUs that some code of the file serves.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub served: Vec<String>,
    /// Whether every library has code for each expected GPU in some of its bundles, as [`ExpectExtent::Libraries`]
    /// requires.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub is_served_by_libraries: bool,
    /// Whether the file is a package: a wheel or another file to be installed.
    #[cfg_attr(feature = "serde", serde(skip))]
    is_package: bool,
    /// The libraries and archives that can only be checked together with other files.
    #[cfg_attr(feature = "serde", serde(skip))]
    kpack: KpackTree,
    /// The directory of the file, if the file is a code object, a bundle or a fatbin itself. Otherwise empty.
    #[cfg_attr(feature = "serde", serde(skip))]
    directories: ServingDirectories,
    /// The size of the listed faults, in bytes.
    #[cfg_attr(feature = "serde", serde(skip))]
    listed_bytes: u64,
}

/// The symbols that a code object needs and does not define: those without a definition in linked code for AMD GPUs,
/// and functions that PTX calls.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(all(test, feature = "serde"), derive(schemars::JsonSchema), schemars(rename = "Undefined"))]
#[non_exhaustive]
pub struct UndefinedInCode {
    /// The place.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub place: Place,
    /// The number of the bundle among those at the same place, counted from 0.
    pub bundle: usize,
    /// The offset of the bundle, as of a fault.
    pub offset: u64,
    /// The bundle entry ID.
    pub id: String,
    /// The names of the first 16 symbols.
    pub symbols: Vec<String>,
    /// The number of further symbols.
    pub more_symbols: usize,
}

/// Writes the place, the bundle, the code object and the symbols.
impl fmt::Display for UndefinedInCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { place, bundle, offset, id, symbols, more_symbols } = self;
        write!(f, "{place}: bundle {bundle} at offset {offset}: ")?;
        write!(f, "'{id}' needs symbols that it does not define: {}", symbols.join(", "))?;
        if *more_symbols > 0 { write!(f, " and {more_symbols} more") } else { Ok(()) }
    }
}

/// A fault.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(all(test, feature = "serde"), derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Fault {
    /// The broken rule.
    ///
    /// `readable`: headers, ranges, sizes and hashes agree with the data, and wrappers point at fatbins, bundles or
    /// references to kpack archives. `trailing`: there is only padding between bundles, after them, and after packages.
    /// `entry-id`: every bundle entry ID is valid. `feature`: a processor has the features that its target ID sets.
    /// `duplicate`: no two entries of a bundle have the same ID. `conflict`: a feature is set in all entries for a
    /// processor, or in none. `overlap`: code objects do not overlap. `target`: an ELF file for a GPU is built for the
    /// target in its entry ID. `code-object`: headers, tables, symbols and notes of ELF files, SPIR-V and bitcode are
    /// in bounds and agree, PTX is complete, and next to code no entry for a device is empty or text; offsets in `text`
    /// count from the start of the code object. `loadable`: HIP runtimes can read a bundle of code objects for them,
    /// and load these: linked code has a section `.strtab`.
    /// `kpack`: the kpack archives of a split library have code for all of its wrappers or for none of them, for each
    /// target ID that they claim, and only code that is claimed and loaded. `expected`: with `--expect`, every bundle
    /// serves every GPU of the vendors for which it has entries, where offload binaries at one place are one bundle for
    /// each source file, and so do the files of a directory that are code objects, bundles or fatbins themselves,
    /// together; with `--expect-any`, every library serves it with any of its bundles; and each named file, and each
    /// package in a directory, serves it with some of its code. Code that the runtime does not find or load serves no
    /// GPU. `unexpected`: with `--expect-exactly`, all code is loaded for one of the GPUs. `compressed`: with
    /// `--compressed`, a bundle, fatbin or offload binary has at most that many bytes of plain code.
    #[cfg_attr(all(test, feature = "serde"), schemars(schema_with = "crate::beyond::job::schemas::rules"))]
    pub rule: VerifyRule,
    /// The place.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub place: Place,
    /// The number of the bundle among those at the same place (path, member, section), counted from 0. Null if the
    /// fault is not in a bundle.
    pub bundle: Option<usize>,
    /// The offset of the bundle or, for `trailing`, of the bytes that do not belong there: from the start of the file,
    /// or from the start of the innermost inflated data, such as a deflated member of a zip file. Null if `bundle` is,
    /// except for `trailing`, and after a package that is compressed as a whole.
    pub offset: Option<u64>,
    /// The fault, as a sentence for people.
    pub text: String,
    /// For `expected`, the GPU that the bundle, the library, the directory or the file does not serve; for
    /// `unexpected`, the GPU for which it has code. Null for other rules.
    pub gpu: Option<String>,
    /// For these two rules, the source file of the bundle, if a CUDA fatbin or the symbol table of a library records
    /// it. Otherwise null.
    pub source: Option<String>,
    /// The files that may correct the fault, or `None` if no other file can.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub(crate) correctable_by: Option<CorrectableBy>,
}

/// The files that may correct a fault of a single file, because they are checked together with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CorrectableBy {
    /// The other files in the same directory.
    FilesOfDirectory,
    /// All files of the command, if the command line names a directory that holds the file.
    FilesOfCommand,
}

/// The rules that device code must follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum VerifyRule {
    /// Headers, ranges, sizes and hashes match the data.
    Readable,
    /// Bundles are separated and followed only by padding.
    Trailing,
    /// Every entry ID is valid.
    EntryId,
    /// A processor supports the features that its target ID sets.
    Feature,
    /// Entries of a bundle have different IDs.
    Duplicate,
    /// A feature is set in all entries of a processor, or in none.
    Conflict,
    /// Code objects do not overlap.
    Overlap,
    /// A code object is for the target in its entry ID.
    Target,
    /// A code object is complete: its headers, tables and notes are in bounds and consistent.
    CodeObject,
    /// HIP's runtime can read each bundle made for it, and load the code objects in it.
    Loadable,
    /// The kpack archives of a split library hold all of its code.
    Kpack,
    /// A bundle serves an expected GPU.
    Expected,
    /// A bundle holds only code for expected GPUs.
    Unexpected,
    /// A bundle, a fatbin or an offload binary is compressed.
    Compressed,
}

#[cfg(feature = "serde")]
impl serde::Serialize for VerifyRule {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl VerifyRule {
    /// Returns the name of the rule.
    pub fn name(self) -> &'static str {
        match self {
            Self::Readable => "readable",
            Self::Trailing => "trailing",
            Self::EntryId => "entry-id",
            Self::Feature => "feature",
            Self::Duplicate => "duplicate",
            Self::Conflict => "conflict",
            Self::Overlap => "overlap",
            Self::Target => "target",
            Self::CodeObject => "code-object",
            Self::Loadable => "loadable",
            Self::Kpack => "kpack",
            Self::Expected => "expected",
            Self::Unexpected => "unexpected",
            Self::Compressed => "compressed",
        }
    }
}

impl Fault {
    /// Creates a fault at a place, outside of bundles.
    pub(super) fn new(place: &Place, rule: VerifyRule, text: String) -> Self {
        let place = place.clone();
        Self { place, bundle: None, offset: None, rule, text, gpu: None, source: None, correctable_by: None }
    }
}

impl Fault {
    /// Returns the two parts of the line about the fault: its place, and its description.
    pub(crate) fn parts(&self) -> [String; 2] {
        let mut place = self.place.to_string();
        if let Some(bundle) = self.bundle {
            place.push_str(&format!(": bundle {bundle}"));
        }
        if let Some(offset) = self.offset {
            place.push_str(&format!(" at offset {offset}"));
        }
        [place + ": ", format!("{} [{}]", self.text, self.rule.name())]
    }
}

/// Writes the place, the bundle and the fault.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.parts().concat())
    }
}

/// The maximum length of the text of a fault, in characters. Reasons may quote IDs of any length.
const TEXT_MAX: usize = 800;

impl Verify {
    /// Checks a file.
    ///
    /// # Errors
    /// [`ErrorKind::Io`](crate::ErrorKind::Io) if the file cannot be read. A fault in its contents is a [`Fault`].
    pub fn run(&self, path: &Path) -> Result<Verified> {
        self.check(&open(path, Accept::Finite, self.scan.limits.streamed)?)
    }

    /// Checks an open file.
    ///
    /// # Errors
    /// The errors of [`run`](Self::run).
    pub fn check(&self, input: &Input) -> Result<Verified> {
        let path = input.path().to_owned();
        let mut verified = Verified { path, is_package: scan::is_package(input.as_slice()), ..Verified::default() };
        let mut scan = Scan { inflate: Inflate::Whole, checksums: Checksums::OfAll, ..self.scan.clone() };
        // A split library is compared with the tables of its kpack archives. Their code is verified where they are
        // inputs.
        scan.follow = scan.follow.map(|follow| Arc::new(follow.tables_only()));
        let keep = if self.expect.is_some() { Keep::Units } else { Keep::Nothing };
        // In a zip file, a split library finds its kpack archives among the members. In other archives it does not.
        let is_zip = is_zip(input.as_slice());
        let contents = Reading::new(&scan, keep).visit(input, |visit| {
            match visit {
                Visit::Bundle(_, found, _) => verified.check_bundle(&found, self.plain_max)?,
                Visit::Archive(place, archive) => {
                    verified.list_kpack_faults(place, kpack_tree::check_archive(archive, place));
                    verified.kpack.add_archive(place, is_zip, archive);
                }
                Visit::Split(place, split) => {
                    verified.kpack_references += 1;
                    let faults = verified.kpack.add_library(place, is_zip, &split);
                    verified.list_kpack_faults(place, faults);
                }
                Visit::Bad(part) => verified.list_bad_part(part),
                Visit::Unread(part) => verified.list_unread(part),
                Visit::End(..) | Visit::Read(()) => {}
            }
            Ok(())
        });
        let contents = input.unless_changed(contents)?;
        // A code object that only holds others, such as a nested bundle, does not count itself.
        verified.code_objects =
            verified.code_objects.saturating_sub(contents.holders.len()).max(verified.without_bundle);
        if let Some(expect) = &self.expect {
            let served = contents.coverage().served_each(&expect.devices);
            verified.expected = served.map(|served| expect.devices.iter().cloned().zip(served).collect());
            verified.compare(expect, input, &contents.units);
        }
        Ok(verified)
    }
}

impl Verified {
    /// Lists the fault of a part that could not be read, or that does not belong where it is.
    fn list_bad_part(&mut self, BadPart { place, fault, .. }: BadPart) {
        let (rule, offset, text) = match fault {
            // Sections are hidden if their names or tables are broken. Code in them could not be checked.
            Bad::Broken(error) | Bad::Hidden(error) => (VerifyRule::Readable, None, inner_text(&error)),
            Bad::Trailing { offset, after: Some(package) } => {
                (VerifyRule::Trailing, offset, format!("unexpected data after the {package}"))
            }
            Bad::Trailing { offset, after: None } => {
                (VerifyRule::Trailing, offset, "trailing data is not a bundle".to_owned())
            }
        };
        self.list(Fault { offset, ..Fault::new(&place, rule, text) });
    }

    /// Compares the units of the file with the expected GPUs.
    fn compare(&mut self, expect: &Expect, input: &Input, units: &[Unit]) {
        // The symbols are read when a fault needs them.
        let sources = LazyCell::new(|| scan::source_files(input.bytes()));
        let source_at = |offset| sources.get(&offset).cloned();
        let path = self.path.clone();
        let list = &mut |fault| self.list(fault);
        let Expected { served, has_unserved_library, directories } =
            ExpectComparison::new(expect, &path, &source_at, list).compare(units);
        self.is_served_by_libraries = !has_unserved_library;
        self.directories = directories;
        for (index, device) in expect.devices.iter().enumerate() {
            if served.contains(&index) {
                self.served.push(device.name().to_owned());
            }
        }
    }

    /// Lists a fault, or counts it if there is no more room.
    pub(super) fn list(&mut self, fault: Fault) {
        // The text may quote entry IDs, which can contain any characters.
        let fault = Fault { text: short_name(fault.text.as_bytes(), TEXT_MAX), ..fault };
        if self.take_room(self.faults.len(), &fault.place, len_u64(fault.text.as_bytes())) {
            self.faults.push(fault);
        } else {
            self.more_faults += 1;
        }
    }

    fn list_kpack_faults(&mut self, place: &Place, texts: Vec<String>) {
        for text in texts {
            self.list(Fault::new(place, VerifyRule::Kpack, text));
        }
    }

    /// Lists a part that is recognised but not read, or counts it if there is no more room.
    fn list_unread(&mut self, part: UnreadPart) {
        // The item has no text besides its place.
        const NO_TEXT: u64 = 0;
        if self.take_room(self.unread.len(), &part.place, NO_TEXT) {
            self.unread.push(part);
        } else {
            let more = self.more_unread.entry(part.what.name()).or_default();
            *more += 1;
        }
    }

    /// Counts and lists the code objects of a bundle whose content cannot be read.
    fn note_unchecked(&mut self, found: &FoundBundle<'_>) {
        // An unreadable code object of an archive is a fault of the archive.
        if found.format.has(Rule::Archive) {
            return;
        }
        for code_object in found.code_objects() {
            if let (Some(what), Some(packed)) = (code_object.unread(), code_object.packed()) {
                self.unchecked += 1;
                let offset = found.bundle.offset.saturating_add(packed.stored.start);
                self.list_unread(UnreadPart { place: found.place.clone(), offset, what });
            }
        }
    }

    /// Lists the code objects of a bundle that need symbols which they do not define, unless they are linked later.
    fn list_undefined(&mut self, found: &FoundBundle<'_>) {
        for code_object in found.code_objects() {
            let Some(undefined) = code_object.undefined_symbols() else { continue };
            if loadable::is_linked_later(found) {
                return;
            }
            let len = total(undefined.names.iter().map(|name| len_u64(name.as_bytes())));
            if !self.take_room(self.undefined.len(), found.place, len) {
                self.more_undefined += 1;
                continue;
            }
            self.undefined.push(UndefinedInCode {
                place: found.place.clone(),
                bundle: found.index,
                offset: found.bundle.offset,
                id: shown(code_object.id()).to_string(),
                more_symbols: undefined.more(),
                symbols: undefined.names,
            });
        }
    }

    /// Takes room for another item at a place, with a text of `text_len` bytes, in a list of `listed` items. Returns
    /// whether there was room. The first item of a list always has room, even if the names of its place are long.
    fn take_room(&mut self, listed: usize, place: &Place, text_len: u64) -> bool {
        add(&mut self.listed_bytes, total([place.weight(), text_len]));
        listed == 0 || (listed < LISTED_MAX && self.listed_bytes <= LISTED_BYTES_MAX)
    }

    /// Checks a bundle, lists its faults, and counts the bundle and its code objects. Plain code of more than
    /// `plain_max` bytes is a fault.
    fn check_bundle(&mut self, found: &FoundBundle<'_>, plain_max: Option<u64>) -> Result<()> {
        let code_objects = found.bundle.entries.iter().filter(|entry| entry.size() > 0).count();
        self.code_objects += code_objects;
        let mut list_fault = |(rule, text): rules::BrokenRule| {
            let (bundle, offset) = (Some(found.index), Some(found.bundle.offset));
            self.list(Fault { bundle, offset, ..Fault::new(found.place, rule, text) });
        };
        self.without_code += rules::check(found, plain_max, &mut list_fault)?;
        self.note_unchecked(found);
        self.list_undefined(found);
        match found.format {
            Format::CodeObject => self.without_bundle += code_objects,
            _ => self.bundles += 1,
        }
        Ok(())
    }
}

/// Returns the text of an error without the file, because the place already names it.
fn inner_text(error: &Error) -> String {
    match error.fault() {
        Some(fault) => fault.to_string(),
        None => error.to_string(),
    }
}

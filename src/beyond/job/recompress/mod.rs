//! Makes bundles smaller, by compressing them again or by removing the code for some GPUs.
//!
//! To write another container again takes:
//!
//! 1. an arm in `Recompression::rewrite`, which first calls `pick_in` for the file: it decides what is kept (`pick/`),
//!    and the rewriter only asks for it. If members move, also a file like `archive.rs` or `job/rewrite/zip.rs`: for each
//!    member in the order of the file, `copy_until` its header, write the new header and contents, and `skip_until` its
//!    end; then write the tables, with `new_offset` for each old offset;
//! 2. a function next to its reader that makes a header or table with other sizes and offsets. It refuses headers that
//!    it cannot write;
//! 3. if addresses stay, as in ELF and PE, the tables of the format in `scan/overlap.rs`, and a file in
//!    `container/host/gaps/` with `close`, which takes gaps out, and `open`, which puts them back;
//! 4. for `replace`, an arm in `job/replace/bundle.rs` or `member.rs`. The check afterwards
//!    (`job/replace/unchanged.rs`) searches any container;
//! 5. rows in `tests/properties/` (code objects that are not removed are found again with the same bytes),
//!    `tests/outputs.rs` and `tests/faults.rs`.

mod archive;
mod bundles;
mod check;
mod file;
mod linked;
mod local_version;
mod object;
mod pick;
mod refusals;
mod remaining;
mod run;
mod unsupported;
mod wheel;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;

use crate::base::bytes::add;
use crate::base::codec::Compression;
use crate::beyond::base::text::listed;
use crate::beyond::codec::Codec;
pub use crate::beyond::container::host::gaps::HoleReason;
use crate::beyond::inventory::kernel_names::KernelNames;
use crate::beyond::inventory::request::Selection;
use crate::beyond::runtime::Device;
use crate::llvm::container::Limits;
pub use local_version::LocalVersion;

/// Compresses the bundles of a file again, and removes code objects.
///
/// The file holds one bundle, or bundles or CUDA fatbins in a row, or is an ELF or PE file with these in its sections.
/// Archives and zip files of such files are supported too.
///
/// # Form
///
/// Each bundle is written in the smallest of these forms, or in the first one if several have the same size:
///
/// 1. unchanged, unless code objects are removed from it;
/// 2. compressed again;
/// 3. plain, unless the offset of its end would be lost. This is so for a text bundle that was compressed, and for any
///    bundle that was compressed together with data after it.
///
/// If [`compression`](Self::compression) is `None`, every bundle is plain. It is an error then if the offset of an end
/// would be lost and data follows.
///
/// In a fatbin, each cubin, and PTX that was compressed, is written in the smallest form: unchanged, compressed, or
/// plain. Other code objects stay as they were. [`keep`](Self::keep) removes no PTX, because the driver can compile it
/// for GPUs that have no cubin. If [`compression`](Self::compression) is `None`, cubins are
/// plain, and PTX stays as it was.
///
/// # Location
///
/// In a program or library each bundle keeps its address, because the program contains it. Everything else stays at its
/// offset, and the space that bundles no longer need becomes a hole in the file. With [`close_gaps`](Self::close_gaps),
/// and in a zip file, the hole is taken out of a library, and the data after it moves in the file. A library without
/// its holes is one that `strip`, `objcopy` and `patchelf` may break. If a hole stays, [`Recompressed::holes_left`] has
/// the reason.
///
/// In a relocatable object, sections become shorter or longer, and symbols and relocations follow, unless other data
/// than sections has to move. A symbol or relocation that leads into the middle of a bundle is an error.
///
/// A bundle that lost code and does not fit before the data after it is compressed again at the slow levels of its
/// method. A bundle that does not fit even then is an error. So is a section that shares bytes with bundles,
/// because neither can be rewritten without the other.
///
/// Bundles in a row move together. Each begins at the first offset after the previous one with exactly the alignment of
/// its old offset: the largest power of two that divides it, up to 4096. Everything after the last bundle is kept,
/// including zeros.
///
/// A file of plain bundles is restored byte by byte if it is recompressed, and the result is recompressed without
/// compression. Nothing may have been removed, and the bundles may have no more padding than their alignment needs. In
/// other files, two things are lost: padding between bundles that no alignment requires, and the compression of bundles
/// that were compressed before. An ELF file of plain bundles is always restored: pages that were taken out come back. A
/// PE file is restored too, unless it was signed or had a wrong checksum.
///
/// # Fat objects
///
/// Code objects are removed from a fat object of HIP or SYCL, which is written again around the same host. It is not
/// compressed, because linkers do not read a compressed form.
///
/// # Signatures
///
/// A PE file with bundles that is signed is an error, or loses its signature if
/// [`drop_signature`](Self::drop_signature) is set and anything changes.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Recompress {
    /// The file to read.
    pub input: PathBuf,
    /// The file to write, which may be the input, or a directory, in which the file gets the name of the input. With
    /// [`local_version`](Self::local_version), the file has the name of the new wheel.
    pub output: PathBuf,
    /// The compression of the bundles, or `None` to write them plain.
    pub compression: Option<Compression>,
    /// The compression of code objects in fatbins, with the level of [`compression`](Self::compression). With `None`,
    /// the method that the fatbin uses already, or LZ4. Drivers before that of CUDA 12.4 read LZ4, but not zstd.
    pub fatbin_codec: Option<Codec>,
    /// The code objects to keep, besides host code and PTX, or `None` to keep all.
    pub keep: Option<Selection>,
    /// The GPUs whose code is kept, besides that of hosts: the code objects of each bundle that their runtimes load, by
    /// the [rules of the vendors](Device), and in inputs of linkers all that they could take. An
    /// [exact expectation](super::Expect::exactly) of the same GPUs finds nothing else. If there are none, only
    /// [`keep`](Self::keep) decides.
    pub keep_for: Vec<Device>,
    /// The kernels that are launched: code objects that define only others are removed, PTX too.
    pub keep_kernels: Option<KernelNames>,
    /// The code objects to remove.
    pub drop: Option<Selection>,
    /// The local version that a wheel gets, or `None` to keep its version.
    pub local_version: Option<LocalVersion>,
    /// Whether holes are taken out of ELF libraries and PE files, which become shorter. In a zip file they always are,
    /// and a file that an earlier job made shorter stays so.
    pub close_gaps: bool,
    /// Whether PE files lose their signature, which would no longer be valid.
    pub drop_signature: bool,
    /// Limits on the inflated size of compressed bundles.
    pub limits: Limits,
}

/// The result of recompressing a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recompressed {
    /// The number of bundles.
    pub bundles: usize,
    /// The number of bundles left unchanged because they would have become larger.
    pub unchanged: usize,
    /// The number of HIP's bundles that were plain and are compressed now.
    pub packed: usize,
    /// The number of removed code objects.
    pub dropped: usize,
    /// The size of the old bundles in bytes.
    pub before: u64,
    /// The size of the new bundles in bytes.
    pub after: u64,
    /// The number of bytes of the file that became holes. In an archive or a zip file, the holes of its new members
    /// count.
    pub holes: u64,
    /// The files and members that have holes left, with the reasons.
    pub holes_left: Vec<HoleLeft>,
    /// The members of archives and zip files that stay as they were, because they would save nothing but a hole.
    pub stayed: Vec<HoleLeft>,
    /// The files that are not restored: an earlier job took holes out of them, and another tool has rewritten them
    /// since.
    pub not_restored: Vec<String>,
    /// The number of bytes that ELF and PE files and archives became shorter.
    pub shortened: u64,
    /// The number of bytes that ELF and PE files and archives became longer.
    pub lengthened: u64,
    /// The number of members of archives and zip files that have no code object for a device left.
    pub emptied: usize,
    /// The numbers of a zip file, or `None` for another file.
    pub zip: Option<RecompressedZip>,
    /// The path of the new wheel, if it has a local version.
    pub wheel: Option<PathBuf>,
    /// The removed code that GPUs named in [`Recompress::keep`] would have used.
    pub missed: Vec<MissedCode>,
    /// The removed code, by its target ID, or by its bundle entry ID if it has none.
    pub removed: BTreeMap<String, RemovedCode>,
    /// The code that stays although its GPU was left out, because it is outside of the rewritten bundles: by vendor and
    /// kind of container, such as "Intel's SYCL images".
    pub left: BTreeMap<String, RemovedCode>,
    /// The number of offload binaries that stay without compression.
    pub uncompressed: usize,
    /// Code for GPUs of [`Recompress::keep_for`] that is only in parts of the file that stay as they are.
    pub elsewhere: Option<CodeElsewhere>,
    /// The number of HIP's bundles that have no code left for some target, because the code for that target defined
    /// none of [`Recompress::keep_kernels`].
    pub unlaunched: usize,
}

/// Code in parts of a file that recompress does not change, such as device images of SYCL.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CodeElsewhere {
    /// The names of the GPUs or targets, in quotes.
    pub gpus: Vec<String>,
    /// The places of the code.
    pub places: Vec<String>,
}

impl fmt::Display for CodeElsewhere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (gpus, places) = (self.gpus.join(" and "), listed(&self.places, PLACES_MAX, ", ", ", and "));
        write!(f, "the code for {gpus} is in parts that recompress does not change: {places}")
    }
}

/// The largest number of places that a message lists.
const PLACES_MAX: usize = 3;

/// Code that was removed from bundles, and that a GPU would have used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MissedCode {
    /// The GPU.
    pub device: Device,
    /// The number of bundles that lost the code.
    pub bundles: usize,
    /// The targets of the code, in the order of their names.
    pub targets: BTreeSet<String>,
}

/// Code objects that were removed, or should have been.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RemovedCode {
    /// The number of code objects.
    pub code_objects: usize,
    /// The inflated size of these code objects in bytes.
    pub size: u64,
}

impl RemovedCode {
    pub(super) fn add(&mut self, size: u64) {
        self.code_objects += 1;
        add(&mut self.size, size);
    }
}

/// A hole that stays in a file, or would stay in a new file that was not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HoleLeft {
    /// The file, or the member of one.
    pub place: String,
    /// The size of the hole in bytes, or of all holes of the file.
    pub size: u64,
    /// The reason why the hole stays.
    pub reason: HoleReason,
}

/// The result of recompressing a zip file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecompressedZip {
    /// The number of members with new contents, without `RECORD` and `METADATA` of a wheel.
    pub members: usize,
    /// The number of members left unchanged because they would not have become smaller.
    pub unchanged: usize,
    /// The size of the old zip file in bytes.
    pub before: u64,
    /// The size of the new zip file in bytes.
    pub after: u64,
}

impl Recompress {
    /// Creates a job that compresses the bundles with the default settings and keeps all code objects.
    pub fn new(input: impl Into<PathBuf>, output: impl Into<PathBuf>) -> Self {
        let compression = Some(Compression::default());
        Self {
            input: input.into(),
            output: output.into(),
            compression,
            fatbin_codec: None,
            keep: None,
            keep_for: Vec::new(),
            keep_kernels: None,
            drop: None,
            local_version: None,
            close_gaps: false,
            drop_signature: false,
            limits: Limits::default(),
        }
    }

    /// Returns whether the job may remove code objects.
    fn removes(&self) -> bool {
        self.removes_targets() || self.keep_kernels.is_some()
    }

    /// Returns whether the job may remove code objects because of their targets.
    fn removes_targets(&self) -> bool {
        self.keep.is_some() || !self.keep_for.is_empty() || self.drop.is_some()
    }
}

impl Recompressed {
    /// Returns the numbers for an old file that is kept although a new one was made. The holes of the new file are the
    /// reason why it saved nothing.
    fn for_kept_file(mut self) -> Self {
        self.stayed.append(&mut self.holes_left);
        Self { after: self.before, unchanged: 0, packed: 0, holes: 0, shortened: 0, lengthened: 0, ..self }
    }

    /// Notes by how much the file became shorter or longer.
    fn note_len(&mut self, before: u64, after: u64) {
        (self.shortened, self.lengthened) = (before.saturating_sub(after), after.saturating_sub(before));
    }

    /// Adds the numbers of another file.
    fn add(&mut self, other: &Self) {
        self.bundles += other.bundles;
        self.unchanged += other.unchanged;
        self.packed += other.packed;
        self.dropped += other.dropped;
        self.before += other.before;
        self.after += other.after;
        self.holes += other.holes;
        self.holes_left.extend_from_slice(&other.holes_left);
        self.stayed.extend_from_slice(&other.stayed);
        self.not_restored.extend_from_slice(&other.not_restored);
        self.shortened += other.shortened;
        self.lengthened += other.lengthened;
        self.emptied += other.emptied;
        self.uncompressed += other.uncompressed;
    }
}

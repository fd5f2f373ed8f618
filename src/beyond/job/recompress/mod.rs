//! Makes bundles smaller, by compressing them again or by removing the code for some GPUs.
//!
//! To write another container again takes:
//!
//! 1. an arm in `Recompression::rewrite`, and for one in which members move a file like `archive.rs` or `wheel.rs`: for
//!    each member in the order of the file, `copy_until` its header, write the new header and contents, `skip_until`
//!    its end; then the tables, with `moved` for each old offset;
//! 2. a function beside its reader that makes a header or table with other sizes and offsets. It refuses what it could
//!    not write again;
//! 3. where addresses stay (as in ELF and PE), an arm in `Recompression::rewrite`, the tables of the format in
//!    `scan/overlap.rs`, and a file in `container/host/gaps/` whose `close` takes gaps out, and whose `open` undoes
//!    what `close` would make again;
//! 4. for `replace`, the way to its members (`Replacing::way`). The check afterwards (`job/replace/unchanged.rs`)
//!    searches any container;
//! 5. rows in `tests/properties/` (all that is not removed is found again with the same bytes), `tests/outputs.rs` and
//!    `tests/faults.rs`.

mod archive;
mod bundles;
mod choice;
mod file;
mod form;
mod linked;
mod object;
mod record;
mod refusals;
mod run;
mod span;
mod unsupported;
mod wheel;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::kernel_names::KernelNames;
use crate::base::bytes::add;
use crate::base::codec::{Codec, Compression};
use crate::base::io::input::Slice;
pub use crate::beyond::container::host::gaps::HoleReason;
use crate::beyond::runtime::Device;
use crate::beyond::scan::Selection;
use crate::llvm::container::Limits;
pub(super) use run::rewrite_with;

/// Compresses the bundles of a file again, and removes code objects.
///
/// The file holds one bundle or several in a row, or CUDA fatbins in a row, or is an ELF or PE file with any of these
/// in its sections, or an archive or a zip file of such files.
///
/// # Form
///
/// Each bundle is written in the smallest of these forms; among forms of equal size, in the first:
///
/// 1. unchanged, unless code objects are removed from it;
/// 2. compressed again;
/// 3. plain, unless the offset of its end would be lost: that of a text bundle that was compressed, or of any bundle
///    that was compressed together with data after it.
///
/// If [`compression`](Self::compression) is `None`, every bundle is plain, and losing the offset of an end is an error
/// unless nothing follows.
///
/// In a fatbin, each cubin, and PTX that was compressed, is written in the smallest form: unchanged, compressed, or
/// plain. All else stays as it was. PTX is only removed if [`drop`](Self::drop) selects it, because the driver can
/// compile it for GPUs that have no cubin. If [`compression`](Self::compression) is `None`, cubins are plain, and PTX
/// stays as it was.
///
/// # Location
///
/// In a program or library each bundle keeps its address, since the program contains it. The pages of a library that it
/// no longer needs are taken out, and what follows moves in the file, unless [`keep_offsets`](Self::keep_offsets) is
/// set. If it is set, in an ELF program, and if other data follows the file, all stays at its offset, and the space
/// becomes a hole in the file. [`Recompressed::holes_left`] has the reason. In a relocatable object, sections become shorter or longer, and symbols and relocations follow, unless other data than
/// sections has to move; one that leads into the middle of a bundle is an error. A bundle whose form does not fit
/// before the data that follows is an error. So is a section that shares bytes with bundles, because neither can be
/// rewritten without the other.
///
/// Bundles in a row move together. Each begins at the first offset after the previous one that is a multiple of the
/// same power of two as its old offset, up to 4096, and not of a higher one. Everything after the last bundle is kept,
/// including zeros.
///
/// So recompressing a file of plain bundles, and then recompressing the result without compression, restores it byte by
/// byte if nothing was removed and each bundle begins as near to the previous one as some power of two up to 4096
/// allows: directly after it without padding, or at the start of a page. In other files, two things are lost: padding
/// between bundles that no such alignment requires, and the compression of bundles that were compressed before. An ELF
/// file of plain bundles is always restored: pages that were taken out come back. So is a PE file, unless it was signed
/// or had a wrong checksum.
///
/// # Fat objects
///
/// From a fat object of HIP or SYCL, code objects are removed: it is written again around the same host. Linkers read
/// no compressed form.
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
    /// The file to write, which may be the input.
    pub output: PathBuf,
    /// The compression of the bundles; `None` writes them plain.
    pub compression: Option<Compression>,
    /// The compression of code objects in fatbins, with the level of [`compression`](Self::compression); `None` uses
    /// the method that the fatbin uses already, or LZ4. Drivers before that of CUDA 12.4 read LZ4, but not zstd.
    pub fatbin_codec: Option<Codec>,
    /// The code objects to keep, besides those of hosts and PTX; `None` keeps all.
    pub keep: Option<Selection>,
    /// The GPUs for which all is kept that their runtimes could take, by the [rules of the vendors](Device), besides
    /// the code of hosts; if there are none, all is kept that [`keep`](Self::keep) does not exclude.
    pub keep_for: Vec<Device>,
    /// The kernels that are launched: code objects that define only others are removed, PTX too.
    pub keep_kernels: Option<KernelNames>,
    /// The code objects to remove.
    pub drop: Option<Selection>,
    /// Whether all stays at its offset in ELF and PE programs and libraries, which then do not become shorter.
    pub keep_offsets: bool,
    /// Whether PE files lose their signature, which would not be right any more.
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
    /// The size of the bundles before, in bytes.
    pub before: u64,
    /// The size of the bundles after, in bytes.
    pub after: u64,
    /// The number of bytes of the file that became holes; of an archive or a zip file, those of its new members.
    pub holes: u64,
    /// Why holes stay, for each file in which any do.
    pub holes_left: Vec<HoleLeft>,
    /// The members of archives and zip files that stay as they were, because all that they would save would be a hole.
    pub stayed: Vec<HoleLeft>,
    /// The files that keep holes which an earlier job took out of them, because another tool has rewritten them since.
    pub not_restored: Vec<String>,
    /// The number of bytes by which ELF and PE files and archives became shorter.
    pub shortened: u64,
    /// The number of bytes by which ELF and PE files and archives became longer.
    pub lengthened: u64,
    /// The number of members of archives and zip files in which no code object for a device is left.
    pub emptied: usize,
    /// The numbers of a zip file; none of another file.
    pub zip: Option<RecompressedZip>,
    /// What GPUs that are named in [`Recompress::keep`] would have used, and was removed.
    pub missed: Vec<Missed>,
    /// What was removed, by the target ID, or by the bundle entry ID of code without one.
    pub removed: BTreeMap<String, Removed>,
    /// Code that stays although its GPU was left out, because it is outside of the rewritten bundles; by its place.
    pub left: BTreeMap<String, Removed>,
    /// The number of offload binaries that stay without compression.
    pub uncompressed: usize,
    /// The number of HIP's bundles that have no code left for some target, since it defined none of
    /// [`Recompress::keep_kernels`].
    pub unlaunched: usize,
}

/// Code that a GPU would have used, in bundles from which it was removed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Missed {
    /// The GPU.
    pub device: Device,
    /// The number of bundles.
    pub bundles: usize,
    /// The targets of the code, in the order of their names.
    pub targets: BTreeSet<String>,
}

/// Code objects that were removed, or should have been.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Removed {
    /// The number of code objects.
    pub code_objects: usize,
    /// Their size in bytes, not compressed.
    pub size: u64,
}

impl Removed {
    pub(super) fn add(&mut self, size: u64) {
        self.code_objects += 1;
        add(&mut self.size, size);
    }
}

/// A hole that stays in a file, or would.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HoleLeft {
    /// The file, or the member of one.
    pub place: String,
    /// The size of the hole in bytes, or of all of its holes.
    pub size: u64,
    /// Why it stays.
    pub reason: HoleReason,
}

/// The result of recompressing a zip file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecompressedZip {
    /// The number of members with new contents, without the `RECORD` of a wheel.
    pub members: usize,
    /// The number of members left unchanged because they would not have become smaller.
    pub kept: usize,
    /// The size of the zip file before, in bytes.
    pub before: u64,
    /// The size of the zip file after, in bytes.
    pub after: u64,
}

impl Recompress {
    /// Compresses the bundles with the default settings and keeps all code objects.
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
            keep_offsets: false,
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

/// A code object that gets another content, in a file of which all else stays as it is.
pub(super) struct Replacing<'n> {
    /// The members of zip files that lead to it, each with its number among those of its name.
    pub(super) way: Vec<(Vec<u8>, u64)>,
    /// The offset of its bundle in the file or, if that is compressed, in the member.
    pub(super) bundle: u64,
    /// The index in the bundle.
    pub(super) index: usize,
    /// The new content.
    pub(super) content: Slice<'n>,
    /// Whether a plain bundle is compressed now; none if it was not written yet.
    pub(super) done: Option<bool>,
}

impl Recompressed {
    /// The numbers of a file that stays as it was.
    fn unchanged(mut self) -> Self {
        self.stayed.append(&mut self.holes_left);
        Self { after: self.before, unchanged: 0, packed: 0, holes: 0, shortened: 0, lengthened: 0, ..self }
    }

    /// Notes the lengths of the file before and after.
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

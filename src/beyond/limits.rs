//! The budget of a search and of the jobs that use it. Any number in a file may be hostile, so whatever a file can name
//! more often than it has bytes is counted. The limits are far beyond anything that compilers write.
//!
//! | cost | limit | where it is counted |
//! |---|---|---|
//! | inflated bytes | [`Limits`](crate::llvm::container::Limits), which the caller chooses | each container |
//! | bytes that a search reads | [`SEARCHED_MAX`] times the file | `scan::Budget` |
//! | bundles, code objects, faults | [`FOUND_MAX`] | `scan::Budget` |
//! | names of findings | [`FOUND_NAMES_MAX`] and the file | `scan::Budget` |
//! | numbers for places of one name | [`NUMBERED_MAX`] | `scan::place` |
//! | bytes that entries or tables share | [`SHARED_MAX`] times the bundle or code object | each bundle, each code object |
//! | faults of one table | [`FAULTS_MAX`] | each reader of a table |
//! | kernels, their names and arguments | [`KERNELS_MAX`] and the constants after it | each code object, each file |
//! | faults that `verify` lists | [`LISTED_MAX`], [`LISTED_BYTES_MAX`] | `job::verify` |
//! | comparisons of GPUs with code objects | [`COMPARISONS_MAX`] | `inventory` |
//!
//! The limits of LLVM's tools, on entries, IDs, headers and strings of one container, are in
//! [`llvm::container::limits`](crate::llvm::container::limits). Other constants in this part that end in `MAX` are
//! limits of one format or algorithm, such as the demangler's, or of a layout, and stand beside it.

use crate::llvm::container::limits::Allowance;

/// The maximum number of bytes that a search reads, as a multiple of the file's size. A few passes are enough for most
/// files. Deflate, the compression of zip files, makes zeros up to 1,032 times smaller. Libraries that `recompress`
/// has made are full of zeros and come near.
pub(crate) const SEARCHED_MAX: u64 = 1040;

/// The maximum number of bundles, code objects and faults of one search. Each takes some hundred bytes of memory in a
/// caller that prints all of them. Libraries, GPUs and units of a file are never more than these.
pub(crate) const FOUND_MAX: u64 = 250_000;

/// The maximum size of the names of all findings of one search, in bytes, in addition to the length of the file. Entry
/// IDs count, and for each finding and each code object the names on the path to it: reports repeat the path each time.
pub(crate) const FOUND_NAMES_MAX: u64 = 8 << 20;

/// The maximum number of steps with different names or starts that a search numbers. Each takes some 20 bytes of memory,
/// and a member without device code is not a finding.
pub(crate) const NUMBERED_MAX: usize = 1 << 18;

/// The maximum size of what is read or written of a bundle through its entries, or of a code object through its tables,
/// as a multiple of its own size. Entries and tables may share bytes: code objects of a fat object do with their host,
/// and tables of compilers share notes and strings.
pub(crate) const SHARED_MAX: u64 = 16;

/// The number of faults after which the rest of a fatbin, a kpack archive, or a table in a section is not read. In a
/// broken file, every row of a table could be a fault.
pub(crate) const FAULTS_MAX: usize = 1000;

/// The maximum number of kernels of one code object, and the maximum size of their names in bytes. A kernel takes some
/// hundred bytes of memory.
pub(crate) const KERNELS_MAX: u64 = 1 << 18;
pub(crate) const KERNEL_NAMES_MAX: u64 = 64 << 20;

/// The maxima for the kernels of all code objects of one file, which share names.
pub(crate) const FILE_KERNELS_MAX: u64 = 1 << 20;
pub(crate) const FILE_KERNEL_NAMES_MAX: u64 = 256 << 20;

/// The maximum number of arguments of one kernel, and the maximum size in memory of the argument lists of one code
/// object, in bytes. Kernels with equal arguments share a list, which counts once.
pub(crate) const ARGUMENTS_MAX: usize = 1 << 16;
pub(crate) const ARGUMENT_LISTS_MAX: u64 = 64 << 20;

/// The maxima for all code objects of one file: the size of the argument lists, and the number of arguments of all
/// kernels. A list that kernels share counts once for its size, and for each kernel in the number.
pub(crate) const FILE_ARGUMENT_LISTS_MAX: u64 = 256 << 20;
pub(crate) const FILE_ARGUMENTS_MAX: u64 = 1 << 25;

/// The maximum number of faults that are listed for a file, and their maximum total size in bytes. Further faults are
/// only counted. A fault has a text, so that [`FOUND_MAX`] of them would take hundreds of megabytes.
pub(crate) const LISTED_MAX: usize = 10_000;
pub(crate) const LISTED_BYTES_MAX: u64 = 32 << 20;

/// The maximum number of comparisons of a GPU with a code object, for the table of a report. Each GPU is compared with
/// the code of each library. Tests have a smaller limit, so that they reach it quickly.
pub(crate) const COMPARISONS_MAX: usize = if cfg!(test) { 40_000 } else { 16_000_000 };

impl Allowance {
    /// Raises the limit, and what is left of it, by `more`.
    pub(crate) fn add(&mut self, more: u64) {
        (self.left, self.most) = (self.left.saturating_add(more), self.most.saturating_add(more));
    }
}

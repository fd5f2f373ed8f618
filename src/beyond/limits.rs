//! Limits on what a search and its jobs find and keep, besides those of the clone: numbers of findings, sizes of names.
//! All are far beyond anything that compilers write.

use crate::llvm::container::limits::Allowance;

/// The number of faults after which the rest of a fatbin, a kpack archive, or a table in a section is not read. In a
/// broken file, every row of a table could be a fault.
pub(crate) const FAULTS_MAX: usize = 1000;

/// The maximum number of code objects that a kpack archive stores: a bundle may not have more entries.
pub(crate) const FRAMES_MAX: usize = 100_000;

/// The maximum number of bytes that a check reads through the tables of a code object, as a multiple of its size. In
/// files of compilers, tables share only notes and strings, each named twice.
pub(crate) const CHECKED_MAX: u64 = 8;

/// The maximum number of bytes that a search reads, as a multiple of the file's size. A few passes are enough for most
/// files. Deflate, the compression of zip files, makes zeros up to 1,032 times smaller. Libraries that `recompress`
/// has made are full of zeros and come near.
pub(crate) const SEARCHED_MAX: u64 = 1040;

/// The maximum number of bundles, code objects and faults of one search. Each takes some hundred bytes of memory in a
/// caller that prints all of them.
pub(crate) const FOUND_MAX: u64 = 250_000;

/// The maximum size of the names of all findings of one search, in bytes, in addition to the length of the file. Entry
/// IDs count, and for each finding and each code object the names on the path to it: reports repeat the path each time.
pub(crate) const FOUND_NAMES_MAX: u64 = 8 << 20;

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

impl Allowance {
    /// Raises the limit and the rest.
    pub(crate) fn add(&mut self, more: u64) {
        (self.left, self.most) = (self.left.saturating_add(more), self.most.saturating_add(more));
    }
}

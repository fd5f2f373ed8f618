//! The differences between systems: a module for each, with the same functions. No other module depends on the system
//! that it is built for.
//!
//! On Windows a file cannot be removed or written over while it is mapped, but it can be renamed. So an input that an
//! output replaces gets another name, and is removed when it is no longer mapped.

#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(not(target_os = "linux"))]
pub(crate) use elsewhere::*;
#[cfg(unix)]
pub use unix::*;
#[cfg(windows)]
pub use windows::*;

/// The time when a file or its metadata last changed, and the metadata. All are zero on systems without such a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Status {
    /// The time in seconds and nanoseconds.
    changed: (i64, i64),
    /// The metadata that may have changed at that time in place of the bytes: mode, owner, group, number of names.
    metadata: [u64; 4],
}

impl Status {
    /// Whether the bytes of the file may have changed since an earlier status: the time differs, and no change of the
    /// metadata explains that. In contrast to the time of modification, no program can set this time.
    pub(crate) fn may_have_other_bytes(&self, since: &Self) -> bool {
        self.changed != since.changed && self.metadata == since.metadata
    }
}

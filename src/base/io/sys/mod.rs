//! The differences between systems: a module for each, with the same functions. No other module depends on the system
//! that it is built for.
//!
//! On Windows a file cannot be removed or written over while it is mapped, but it can be renamed. So an output that
//! replaces an input exchanges its name with it, and the old file is removed when it is no longer mapped.

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

/// The time when a file or its metadata last changed, and the metadata that explains such a change: the mode, the
/// owner, the group and the number of names. All are zero on systems without them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Status {
    changed: (i64, i64),
    kept: [u64; 4],
}

impl Status {
    /// Whether the bytes of the file may have changed since an earlier status: the time differs, and no change of the
    /// other metadata explains that. Unlike the time of modification, no program can set this time.
    pub(crate) fn may_have_other_bytes(&self, since: &Self) -> bool {
        self.changed != since.changed && self.kept == since.kept
    }
}

//! Settings for compression.

use std::ops::RangeInclusive;

use super::Method;

/// The sizes of zstd's window that can be selected, as powers of two of bytes. A window is the distance over which zstd
/// finds repeated bytes.
pub const WINDOW_LOGS: RangeInclusive<u32> = 10..=31;

/// The largest window that is written by default: 1 GiB, because a streaming decoder needs as much memory.
const WINDOW_LOG_DEFAULT_MAX: u32 = 30;

/// Settings for compression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Compression {
    /// The method.
    pub method: Method,
    /// The level in the method's own scale, clamped to [`Method::levels`] as in LLVM.
    pub level: i32,
    /// The largest zstd window, as a power of two of bytes, in [`WINDOW_LOGS`]. Streaming decoders keep a whole window
    /// in memory, and refuse more than 27 by default.
    pub window_log_max: u32,
}

impl Default for Compression {
    /// zstd at its default level.
    fn default() -> Self {
        Self::with_method(Method::Zstd)
    }
}

impl Compression {
    /// The default settings of a method.
    pub const fn with_method(method: Method) -> Self {
        Self { method, level: method.default_level(), window_log_max: WINDOW_LOG_DEFAULT_MAX }
    }
}

//! Writes the stream of a compressed container.

use std::io::{Seek, SeekFrom, Write};
use std::ops::RangeInclusive;

use super::{Form, Method};
use crate::error::{Error, Result, WithPath};
use crate::io::meter::{Meter, emit};
use crate::io::piece::{Piece, Writer, total_len};

/// The zstd windows that can be selected, as powers of two of bytes.
pub const WINDOW_LOGS: RangeInclusive<u32> = 10..=31;

/// The largest window that is written by default. A streaming decoder needs this much memory.
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
        Self::of(Method::Zstd)
    }
}

impl Compression {
    /// The default settings of a method.
    pub const fn of(method: Method) -> Self {
        Self { method, level: method.default_level(), window_log_max: WINDOW_LOG_DEFAULT_MAX }
    }
}

/// Writes the pieces as one stream that starts at `start`. Returns its length in bytes.
///
/// The result depends only on the pieces and the settings, not on the machine or its number of threads.
pub(crate) fn deflate<W: Write + Seek>(
    pieces: &[Piece<'_>],
    compression: &Compression,
    start: u64,
    to: &mut Writer<'_, W>,
    meter: &mut Meter<'_>,
) -> Result<u64> {
    let path = to.path;
    to.seek(SeekFrom::Start(start))?;
    let mut work = |out: &mut dyn Write| emit(pieces, &mut Writer { out, path }, meter);
    match compression.method {
        Method::Zlib => Form::Zlib.write(compression.level, &mut to.out, path, work).map(drop),
        Method::Zstd => with!("zstd", {
            let encoder = super::frames::encoder(pieces, total_len(pieces)?, compression).with_path(path)?;
            let mut encoder = zstd::Encoder::with_encoder(&mut to.out, encoder);
            work(&mut encoder)?;
            encoder.finish().with_path(path).map(drop)
        }),
    }?;
    let end = to.seek(SeekFrom::Current(0))?;
    end.checked_sub(start).ok_or_else(|| Error::internal("the compressed data ends before its start"))
}

//! Frames of zstd: their windows and lengths, and the settings of the encoder.

use std::cell::RefCell;
use std::io::{self, BufRead};

use zstd::stream::raw::{CParameter, Encoder, InBuffer, Operation, OutBuffer};
use zstd::stream::zio;
use zstd::zstd_safe::{self, DCtx, DParameter, ResetDirective, WriteBuf};

use super::compression::{Compression, WINDOW_LOGS};
use super::{FRAMES_MAX, Method};
use crate::base::bytes::{add, to_u64};
use crate::base::io::piece::Piece;
use crate::base::threads;

/// The largest zstd window on this machine: with 32-bit addresses, zstd has no room for more.
const WINDOW_LOG_MAX: u32 = if usize::BITS < 64 { 30 } else { *WINDOW_LOGS.end() };

/// The size of zstd's smallest table for long-distance matching, as a power of two of entries.
const LDM_HASH_LOG_MIN: u32 = 6;

/// The number of bytes of the window for each entry of the table for long-distance matching, as a power of two. The
/// default of zstd at the default level, 7, means half the entries and finds fewer matches.
const LDM_BYTES_LOG: u32 = 6;
/// The sizes of the two tables for other matches at the default level, as powers of two of entries. They are one more
/// than the defaults of zstd.
const HASH_LOG: u32 = 18;
const CHAIN_LOG: u32 = 17;
/// The window of LLVM 22.1.8, as a power of two of bytes: zstd's default for long-distance matching. It is the smallest
/// window that is chosen for data, because zstd itself reduces the window for less data. The user may ask for less.
const WINDOW_LOG_LLVM: u32 = 27;

/// The bytes that one thread compresses at a time; less data is compressed in one go. Smaller jobs make the stream
/// larger, larger ones make threads wait.
const JOB_LEN: u32 = 128 << 20;

/// The maximum number of threads: more need more memory, and builds run several processes anyway.
const THREADS_MAX: u32 = 4;

/// The level above which each thread takes hundreds of megabytes.
const LEVEL_OF_MUCH_MEMORY: i32 = 15;
/// The maximum number of threads above that level.
const THREADS_MAX_WITH_MUCH_MEMORY: u32 = 2;

/// Returns the largest window, as a power of two of bytes, that a stream of this inflated size may use: one that holds
/// all of it, and at least LLVM's. A decoder needs memory for the window, so a larger one is an error.
fn window_log_allowed(inflated: u64) -> u32 {
    window_log_for(inflated).clamp(WINDOW_LOG_LLVM, WINDOW_LOG_MAX)
}

/// Returns the smallest window, as a power of two of bytes, that holds `len` bytes. If no window does, returns
/// `u32::MAX`, which callers reduce to a possible window.
fn window_log_for(len: u64) -> u32 {
    match len.checked_next_power_of_two() {
        Some(window) => window.ilog2(),
        None => u32::MAX,
    }
}

/// The largest decoder that its thread keeps for the next frames, in bytes of memory.
const KEPT_DECODER_MAX: usize = 32 << 20;

thread_local! {
    /// The last decoder of this thread, whose memory the next one uses.
    static SPARE: RefCell<Option<DCtx<'static>>> = const { RefCell::new(None) };
}

/// A reader of frames that inflate to about `inflated` bytes.
pub(crate) fn decoder<R: BufRead>(reader: R, inflated: u64) -> io::Result<zio::Reader<R, FrameDecoder>> {
    Ok(zio::Reader::new(reader, FrameDecoder::new(window_log_allowed(inflated))?))
}

/// A decoder that uses the memory of the last decoder of its thread. Getting new memory for the window of each bundle
/// would take as long as inflating the bundle.
///
/// zstd does not report the bytes that it has written in a call that fails. So each call gets a header or one block,
/// and none that fails has written bytes before.
pub(crate) struct FrameDecoder {
    /// `None` only while it is dropped.
    context: Option<DCtx<'static>>,
    /// The number of bytes that zstd expects next: up to the end of a header, or of a block and the header after it. It
    /// is 0 between frames.
    expected: usize,
}

impl FrameDecoder {
    /// Returns a decoder that accepts windows of up to 2^`window_log_max` bytes. Takes the context that an earlier
    /// decoder of this thread has left, if there is one.
    fn new(window_log_max: u32) -> io::Result<Self> {
        let spare = SPARE.with(|spare| spare.borrow_mut().take());
        let mut context = match spare {
            Some(context) => context,
            None => DCtx::try_create().ok_or(io::ErrorKind::OutOfMemory)?,
        };
        context.reset(ResetDirective::SessionAndParameters).map_err(zstd_error)?;
        context.set_parameter(DParameter::WindowLogMax(window_log_max)).map_err(zstd_error)?;
        Ok(Self { context: Some(context), expected: 0 })
    }

    fn context(&mut self) -> io::Result<&mut DCtx<'static>> {
        self.context.as_mut().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Drop for FrameDecoder {
    fn drop(&mut self) {
        // The next decoder of this thread uses the context again, unless it is large.
        if let Some(context) = self.context.take()
            && context.sizeof() <= KEPT_DECODER_MAX
        {
            // If the thread is ending, `SPARE` may no longer exist, and the context is freed.
            drop(SPARE.try_with(|spare| spare.replace(Some(context))));
        }
    }
}

impl Operation for FrameDecoder {
    /// Inflates one part of the input, and moves `input` past it. Returns the number of bytes that zstd expects next.
    fn run<C: WriteBuf + ?Sized>(
        &mut self,
        input: &mut InBuffer<'_>,
        output: &mut OutBuffer<'_, C>,
    ) -> io::Result<usize> {
        let unread = input.src.get(input.pos..).unwrap_or_default();
        // No more than one header or block, as the type documents.
        let part = unread.get(..next_part_len(self.expected)).unwrap_or(unread);
        let mut part = InBuffer::around(part);
        self.expected = self.context()?.decompress_stream(output, &mut part).map_err(zstd_error)?;
        input.pos = input.pos.saturating_add(part.pos);
        Ok(self.expected)
    }

    fn reinit(&mut self) -> io::Result<()> {
        self.expected = 0;
        self.context()?.reset(ResetDirective::SessionOnly).map(drop).map_err(zstd_error)
    }

    fn finish<C: WriteBuf + ?Sized>(
        &mut self,
        _output: &mut OutBuffer<'_, C>,
        finished_frame: bool,
    ) -> io::Result<usize> {
        // The reader calls this at the end of its input. A decoder has nothing left to write then, so 0 bytes remain.
        if !finished_frame {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "incomplete frame"));
        }
        Ok(0)
    }
}

/// Returns the number of bytes to pass to zstd in one call, of the `expected` bytes that it asks for: at most one
/// header or block. If zstd asks for a block and the header after it, the header is left for the next call.
fn next_part_len(expected: usize) -> usize {
    /// The length of the header of a block.
    const BLOCK_HEADER_LEN: usize = 3;
    /// The length of the start of a frame. A frame header and the first block header are longer together.
    const START_LEN: usize = 5;
    match expected {
        0 => START_LEN,
        1..=BLOCK_HEADER_LEN => expected,
        _ => expected.saturating_sub(BLOCK_HEADER_LEN),
    }
}

pub(crate) fn zstd_error(code: usize) -> io::Error {
    io::Error::other(zstd_safe::get_error_name(code))
}

/// Returns the length of the frames at the start of `data`, of at most [`FRAMES_MAX`] frames. Fails unless there is at
/// least one; other data after the frames is not counted.
pub(super) fn frames_len(data: &[u8]) -> io::Result<u64> {
    let mut len = zstd_safe::find_frame_compressed_size(data).map_err(zstd_error)?;
    for _ in 1..FRAMES_MAX {
        let Some(Ok(next)) = data.get(len..).map(zstd_safe::find_frame_compressed_size) else { break };
        len = len.saturating_add(next);
    }
    Ok(to_u64(len))
}

/// Returns an encoder with long-distance matching, as in LLVM 22.1.8. `total` is the length of all pieces. Up to
/// [`JOB_LEN`] bytes are compressed on the calling thread; more get several threads and larger tables, which made
/// bundles smaller in measurements.
pub(super) fn encoder(pieces: &[Piece<'_>], total: u64, compression: &Compression) -> io::Result<Encoder<'static>> {
    if total <= u64::from(JOB_LEN) {
        return encoder_with(ON_CALLING_THREAD, pieces, total, compression);
    }
    let threads_max = if compression.level > LEVEL_OF_MUCH_MEMORY { THREADS_MAX_WITH_MUCH_MEMORY } else { THREADS_MAX };
    // Even a process that may use only one thread gets a second one here, which compresses: the calling thread alone
    // would write another stream.
    let mut threads = u32::try_from(threads::count()).unwrap_or(threads_max).min(threads_max);
    loop {
        let mut encoder = encoder_with(threads, pieces, total, compression)?;
        // The first call, even without data, starts the threads. If the system cannot start them, fewer are tried.
        match encoder.run_on_buffers(&[], &mut []) {
            Ok(_) => return Ok(encoder),
            Err(_) if threads > ON_CALLING_THREAD => threads /= 2,
            Err(error) => return Err(error),
        }
    }
}

/// The number of threads to start for an encoder that works on the calling thread.
const ON_CALLING_THREAD: u32 = 0;

/// Returns an encoder that starts this number of threads. With [`ON_CALLING_THREAD`], the stream differs a little,
/// because it is not split into jobs. `total` is the length of all pieces.
fn encoder_with(
    threads: u32,
    pieces: &[Piece<'_>],
    total: u64,
    compression: &Compression,
) -> io::Result<Encoder<'static>> {
    let mut encoder = Encoder::new(compression.level)?;
    encoder.set_parameter(CParameter::EnableLongDistanceMatching(true))?;
    // Decoders that inflate a frame in one go need its size in the frame.
    encoder.set_pledged_src_size(Some(total))?;
    let window_log = window_log(pieces).min(compression.window_log_max).min(WINDOW_LOG_MAX);
    encoder.set_parameter(CParameter::WindowLog(window_log))?;
    // Data that is compressed in one go gets only LLVM's settings.
    if total <= u64::from(JOB_LEN) {
        return Ok(encoder);
    }
    // A larger table for long-distance matching than zstd's default finds more matches.
    encoder.set_parameter(CParameter::LdmHashLog(window_log.saturating_sub(LDM_BYTES_LOG).max(LDM_HASH_LOG_MIN)))?;
    // These sizes are one more than zstd's own at the default level. Other levels keep zstd's own.
    if compression.level == Method::Zstd.default_level() {
        encoder.set_parameter(CParameter::HashLog(HASH_LOG))?;
        encoder.set_parameter(CParameter::ChainLog(CHAIN_LOG))?;
    }
    if threads > ON_CALLING_THREAD {
        encoder.set_parameter(CParameter::JobSize(JOB_LEN))?;
        encoder.set_parameter(CParameter::NbWorkers(threads))?;
    }
    Ok(encoder)
}

/// Returns the window, as a power of two of bytes, for some pieces. Code objects for similar GPUs repeat much of each
/// other at about the same position. So the window reaches from each code object to that position in the previous one,
/// and an eighth of the code object farther.
fn window_log<'p>(pieces: impl IntoIterator<Item = &'p Piece<'p>>) -> u32 {
    window_log_of(pieces.into_iter().map(|piece| (piece.len(), is_code_object(piece))))
}

/// Whether a piece is a code object; the others are headers and padding.
fn is_code_object(piece: &Piece<'_>) -> bool {
    matches!(piece, Piece::Input(slice) if !slice.is_empty())
}

/// Does the work of [`window_log`]. Each piece has its length in bytes, and whether it is a code object.
fn window_log_of(pieces: impl Iterator<Item = (u64, bool)>) -> u32 {
    let mut position = 0_u64;
    // Start and length of the previous code object.
    let mut previous: Option<(u64, u64)> = None;
    // The longest distance back that any code object needs.
    let mut reach = 0;
    for (len, is_code_object) in pieces {
        let start = position;
        add(&mut position, len);
        if !is_code_object {
            continue;
        }
        if let Some((previous_start, previous_len)) = previous {
            // A code object that is much smaller than the previous one has little in common with it.
            let is_similar = len >= previous_len / 4;
            if is_similar {
                // Back to the same position in the previous code object, and an eighth of this one farther.
                reach = reach.max(start.saturating_sub(previous_start).saturating_add(len / 8));
            }
        }
        previous = Some((start, len));
    }
    window_log_for(reach).max(WINDOW_LOG_LLVM)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_reaches_the_code_object_before() {
        const M: u64 = 1 << 20;
        let log = |lens: &[u64]| window_log_of(lens.iter().map(|&len| (len, len > 0)));
        assert_eq!(log(&[]), 27);
        assert_eq!(log(&[1, 1, 1]), 27);
        assert_eq!(log(&[0, 180 * M, 180 * M]), 28);
        assert_eq!(log(&[180 * M, 1]), 27);
        assert_eq!(log(&[300 * M, 200 * M]), 29);
        assert_eq!(log(&[1, 800 * M]), 27);
        assert_eq!(window_log_of([(180 * M, true), (100 * M, false), (180 * M, true)].into_iter()), 29);
    }

    #[test]
    fn the_levels_are_those_of_zstd() {
        assert_eq!(Method::Zstd.levels(), zstd::compression_level_range());
    }

    #[test]
    fn windows_are_believed_up_to_what_all_decoders_take_or_the_stream_needs() {
        for (inflated, log) in
            [(0, 27), (1 << 27, 27), ((1 << 27) + 1, 28), (1 << 31, WINDOW_LOG_MAX), (u64::MAX, WINDOW_LOG_MAX)]
        {
            assert_eq!(window_log_allowed(inflated), log, "{inflated}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "compresses")]
    fn every_window_can_be_asked_for() {
        let data = Piece::Zeros(u64::from(JOB_LEN) + 1);
        for window_log_max in [10, 11, 31] {
            let compression = Compression { window_log_max, ..Compression::with_method(Method::Zstd) };
            assert!(encoder(std::slice::from_ref(&data), data.len(), &compression).is_ok(), "{window_log_max}");
        }
    }
}

//! Readers of inflated bytes, which know how much compressed data they used.

use std::cell::Cell;
use std::io::{self, BufRead, Read};
use std::rc::Rc;

use crate::base::bytes::to_u64;

/// A reader of inflated bytes.
pub(crate) struct Decoder<'d> {
    inflated: Box<dyn Read + 'd>,
    progress: Rc<Cell<Progress>>,
}

/// The progress of a decoder in its compressed data.
#[derive(Clone, Copy, Default)]
struct Progress {
    /// The number of compressed bytes that were read.
    used: u64,
    /// Whether the compressed file ended, and other data follows.
    is_before_other_data: bool,
}

impl<'d> Decoder<'d> {
    /// Returns a decoder of the bytes of `reader`. `decode` makes it from a reader that counts these bytes.
    pub(super) fn new<R: BufRead + 'd>(
        reader: R,
        decode: impl FnOnce(CountedReader<R>) -> io::Result<Box<dyn Read + 'd>>,
    ) -> io::Result<Self> {
        let progress = Rc::<Cell<Progress>>::default();
        let inflated = decode(CountedReader { reader, progress: Rc::clone(&progress) })?;
        Ok(Self { inflated, progress })
    }

    /// The number of compressed bytes that were needed so far.
    pub(crate) fn used(&self) -> u64 {
        self.progress.get().used
    }

    /// Returns the offset of data that follows the compressed parts of a file and is not such a part. Returns `None` if
    /// nothing follows them, or if the last part was not read to its end.
    pub(crate) fn trailing(&self) -> Option<u64> {
        let progress = self.progress.get();
        if progress.is_before_other_data { Some(progress.used) } else { None }
    }
}

impl Read for Decoder<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.inflated.read(buffer)
    }
}

/// A reader that counts the compressed bytes that a decoder takes from it.
pub(super) struct CountedReader<R> {
    reader: R,
    progress: Rc<Cell<Progress>>,
}

impl<R: BufRead> CountedReader<R> {
    /// Skips zeros after a compressed part. Returns whether another part follows, which `begins` recognizes by its
    /// first bytes. If other data follows, notes this for [`Decoder::trailing`].
    pub(super) fn skip_to_next_part(&mut self, begins: impl Fn(&[u8]) -> bool) -> io::Result<bool> {
        loop {
            let rest = self.fill_buf()?;
            let zeros = rest.iter().take_while(|&&byte| byte == 0).count();
            match zeros {
                0 if rest.is_empty() => return Ok(false),
                0 if begins(rest) => return Ok(true),
                0 => {
                    self.progress.set(Progress { is_before_other_data: true, ..self.progress.get() });
                    return Ok(false);
                }
                zeros => self.consume(zeros),
            }
        }
    }
}

impl<R: BufRead> Read for CountedReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.fill_buf()?.read(buffer)?;
        self.consume(count);
        Ok(count)
    }
}

impl<R: BufRead> BufRead for CountedReader<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.reader.fill_buf()
    }

    fn consume(&mut self, count: usize) {
        let progress = self.progress.get();
        self.progress.set(Progress { used: progress.used.saturating_add(to_u64(count)), ..progress });
        self.reader.consume(count);
    }
}

/// Whether data begins with a magic number. Data that is shorter than the number has to be the beginning of it.
pub(super) fn may_begin_with(data: &[u8], magic: &[u8]) -> bool {
    data.iter().zip(magic).all(|(found, byte)| found == byte)
}

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

/// The number of compressed bytes that a decoder used, and whether they are a file before other data.
type Progress = (u64, bool);

impl<'d> Decoder<'d> {
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
        self.progress.get().0
    }

    /// Returns the offset of other data after the end of a compressed file, or `None` if there is none, or the file was
    /// not read to its end.
    pub(crate) fn trailing(&self) -> Option<u64> {
        let (used, is_before_other_data) = self.progress.get();
        if is_before_other_data { Some(used) } else { None }
    }
}

impl Read for Decoder<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.inflated.read(buffer)
    }
}

/// Compressed bytes, which are counted.
pub(super) struct CountedReader<R> {
    reader: R,
    progress: Rc<Cell<Progress>>,
}

impl<R: BufRead> CountedReader<R> {
    /// Skips zeros. Returns whether another part follows: `begins` looks at its first bytes.
    pub(super) fn goes_on(&mut self, begins: impl Fn(&[u8]) -> bool) -> io::Result<bool> {
        loop {
            let rest = self.fill_buf()?;
            let zeros = rest.iter().take_while(|&&byte| byte == 0).count();
            match zeros {
                0 if rest.is_empty() => return Ok(false),
                0 if begins(rest) => return Ok(true),
                0 => {
                    self.progress.set((self.progress.get().0, true));
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
        let (used, is_before_other_data) = self.progress.get();
        self.progress.set((used.saturating_add(to_u64(count)), is_before_other_data));
        self.reader.consume(count);
    }
}

/// Whether data begins with a magic, or with as much of it as a buffer holds.
pub(super) fn may_be(data: &[u8], magic: &[u8]) -> bool {
    data.iter().zip(magic).all(|(found, byte)| found == byte)
}

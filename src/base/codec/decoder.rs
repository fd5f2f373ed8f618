//! Readers of inflated bytes, which know how much compressed data they used.

use std::cell::Cell;
use std::io::{self, BufRead, Read};
use std::rc::Rc;

use crate::base::bytes::to_u64;

/// A reader of inflated bytes.
pub(crate) struct Decoder<'d> {
    inflated: Box<dyn Read + 'd>,
    /// The number of compressed bytes that were read.
    used: Rc<Cell<u64>>,
}

impl<'d> Decoder<'d> {
    /// Returns a decoder of the bytes of `reader`. `decode` receives `reader` in a wrapper that counts the bytes read,
    /// and returns the reader of the inflated bytes.
    pub(crate) fn new<R: BufRead + 'd>(
        reader: R,
        decode: impl FnOnce(CountedReader<R>) -> io::Result<Box<dyn Read + 'd>>,
    ) -> io::Result<Self> {
        let used = Rc::<Cell<u64>>::default();
        let inflated = decode(CountedReader { reader, used: Rc::clone(&used) })?;
        Ok(Self { inflated, used })
    }

    /// The number of compressed bytes that were needed so far.
    pub(crate) fn used(&self) -> u64 {
        self.used.get()
    }
}

impl Read for Decoder<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.inflated.read(buffer)
    }
}

/// A reader that counts the compressed bytes that a decoder takes from it.
pub(crate) struct CountedReader<R> {
    reader: R,
    used: Rc<Cell<u64>>,
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
        self.used.set(self.used.get().saturating_add(to_u64(count)));
        self.reader.consume(count);
    }
}

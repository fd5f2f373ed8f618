//! Reports the progress of a job.

use crate::base::bytes::{add, len_u64};
use crate::base::error::Result;
use crate::base::io::input::Slice;
use crate::base::io::piece::{self, Piece, Sink, total_len};

/// The number of bytes between two progress reports, which take some hundredths of a second to process.
const STEP: u64 = 32 << 20;

/// Counts the bytes that a job has processed.
pub(crate) struct Meter<'m> {
    /// The number of bytes processed.
    done: u64,
    /// The number of bytes to process, as far as it is known.
    total: u64,
    report: Option<&'m mut dyn FnMut(u64, u64)>,
}

impl<'m> Meter<'m> {
    /// A meter that reports the bytes done and the bytes expected.
    pub(crate) fn new(report: &'m mut dyn FnMut(u64, u64)) -> Self {
        Self { done: 0, total: 0, report: Some(report) }
    }

    /// A meter without reports.
    pub(crate) fn silent() -> Self {
        Self { done: 0, total: 0, report: None }
    }

    /// Adds to the number of bytes to process.
    pub(crate) fn expect(&mut self, bytes: u64) {
        add(&mut self.total, bytes);
    }

    /// Adds to the number of bytes done, and reports if that completes a step.
    pub(crate) fn advance(&mut self, bytes: u64) {
        let before = self.done / STEP;
        add(&mut self.done, bytes);
        if self.done / STEP > before
            && let Some(report) = &mut self.report
        {
            report(self.done, self.total);
        }
    }
}

/// Passes all pieces to a sink, in order, and counts them.
pub(crate) fn emit(pieces: &[Piece<'_>], sink: &mut dyn Sink, meter: &mut Meter<'_>) -> Result<()> {
    meter.expect(total_len(pieces)?);
    piece::emit(pieces, &mut Metered { sink, meter })
}

/// A sink that counts its bytes.
pub(crate) struct Metered<'s, 'm, 't> {
    pub(crate) sink: &'s mut dyn Sink,
    pub(crate) meter: &'m mut Meter<'t>,
}

impl Sink for Metered<'_, '_, '_> {
    fn write(&mut self, data: &[u8]) -> Result<()> {
        self.sink.write(data)?;
        self.meter.advance(len_u64(data));
        Ok(())
    }

    fn copy(&mut self, slice: Slice<'_>) -> Result<()> {
        // Copied step by step, so that progress is reported between.
        let mut position = 0;
        while position < slice.len() {
            let len = slice.len().saturating_sub(position).min(STEP);
            let Some(part) = slice.slice(position, len) else { break };
            self.sink.copy(part)?;
            self.meter.advance(len);
            add(&mut position, len);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::io::input::Input;

    #[test]
    fn large_copies_are_told_step_by_step() {
        let input = Input::from_bytes("x", vec![7; usize::try_from(2 * STEP + 5).unwrap()]);
        let mut told = Vec::new();
        let mut tell = |done, total| told.push((done, total));
        let mut meter = Meter::new(&mut tell);
        meter.expect(input.len() + 3);
        let mut out = Vec::new();
        let mut sink = Metered { sink: &mut out, meter: &mut meter };
        sink.write(b"abc").unwrap();
        sink.copy(input.as_slice()).unwrap();
        let total = 2 * STEP + 8;
        assert_eq!(told, [(STEP + 3, total), (2 * STEP + 3, total)]);
        assert_eq!(len_u64(&out), total);
    }
}

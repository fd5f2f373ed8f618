//! Code objects that a container compresses one by one, as kpack archives do, or several together, as CUDA fatbins do.
//!
//! zlib is one stream, zstd one frame, and LZ4 one block without a frame, whose sizes only the container records.
//!
//! Rejected: data that its decoder refuses, that inflates to more or fewer bytes than recorded, or that other bytes
//! follow; a method that was left out when the library was built.

use std::io::{self, Read};
use std::ops::Range;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};

use super::fatbin::{CudaKind, plain_len};
use crate::base::bytes::{len_of, len_u64, slice};
use crate::base::codec::{Method, opened};
use crate::base::error::{Error, Malformed, Result, WithPath};
use crate::base::io::input::{Input, Slice};
use crate::beyond::codec::{self, Codec, StreamForm};
use crate::llvm::container::limits::Limits;
use crate::llvm::container::stream::{Compressed, HashCheck, Recorded};

/// The largest ratio of inflated to stored size of an LZ4 block: each byte of a length counts for 255 bytes.
const LZ4_RATIO_MAX: u64 = 255;

/// The name of compressed data in messages.
const WHAT: &str = "code object";

/// A code object that its container stores compressed, on its own or together with others.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Packed {
    /// The range of the compressed bytes, counted from the start of the bundle.
    pub stored: Range<u64>,
    /// The method of compression.
    pub codec: Codec,
    /// The recorded size of all inflated bytes.
    pub inflated: u64,
    /// The range of the code object in the inflated bytes. If the code object is padded there, its exact end is known
    /// only after inflating.
    pub range: Range<u64>,
    pub(crate) end: ContentEnd,
    /// The largest size in bytes that is inflated: code that records a larger size is an error.
    pub(crate) limit: u64,
}

/// The rule to find the end of a code object in its inflated bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContentEnd {
    /// The container records the end.
    Exact,
    /// The container records the end, and a zero byte follows there.
    BeforeZero,
    /// The container records only the length with padding to 8 bytes. The end is found in the content, by the rules of
    /// its kind.
    Padded(CudaKind),
}

impl Packed {
    /// Describes a single code object that has all of the inflated bytes.
    pub(crate) fn whole(stored: Range<u64>, codec: Codec, inflated: u64) -> Self {
        Self { stored, codec, inflated, range: 0..inflated, end: ContentEnd::Exact, limit: u64::MAX }
    }

    /// The size of the code object in bytes.
    pub fn len(&self) -> u64 {
        len_of(&self.range)
    }

    /// Whether the code object is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the exact end of the code object is known.
    pub(crate) fn is_exact(&self) -> bool {
        !matches!(self.end, ContentEnd::Padded(_))
    }

    /// Whether the code object is compressed together with others.
    pub fn is_shared(&self) -> bool {
        // A code object that is not shared has all inflated bytes, or all but the zero byte after PTX.
        matches!(self.end, ContentEnd::Padded(_)) || self.len() < self.inflated.saturating_sub(1)
    }

    /// The stored size in bytes. A code object that is compressed with others has a share in proportion to its size.
    pub fn stored_len(&self) -> u64 {
        let stored = len_of(&self.stored);
        if !self.is_shared() {
            return stored;
        }
        let share = u128::from(stored).saturating_mul(self.len().into()).checked_div(self.inflated.into());
        u64::try_from(share.unwrap_or_default()).unwrap_or(stored)
    }

    /// Inflates up to `len` bytes from the start of a code object in the bundle `data`, or more if its compression
    /// inflates a block at a time. Returns `None` if the code object is compressed with others, or is broken. Device
    /// images of DPC++ are read in this way, and code objects of fatbins that are files.
    pub(crate) fn head(&self, data: Slice<'_>, len: u64) -> Option<Vec<u8>> {
        if self.is_shared() {
            return None;
        }
        let form = match self.codec {
            Codec::Zstd => StreamForm::Frame,
            Codec::Zlib => StreamForm::Zlib,
            Codec::Lz4 => return Some(slice(self.inflate(data).ok()?.bytes(), 0, len)?.to_vec()),
            Codec::Unknown => return None,
        };
        // Reads through the mapping. The job checks at its end whether the file has changed since.
        let decoder = form.decoder(data.range(&self.stored)?.bytes(), self.inflated).ok()?;
        let mut head = Vec::new();
        decoder.take(len.min(self.inflated)).read_to_end(&mut head).ok()?;
        Some(head)
    }

    /// Returns the code object in the inflated bytes, without padding.
    pub(crate) fn slice_of<'i>(&self, inflated: &'i Input) -> Result<Slice<'i>> {
        let slice = inflated.as_slice().claimed(&self.range)?;
        let ContentEnd::Padded(kind) = self.end else { return Ok(slice) };
        slice.claimed(&(0..plain_len(kind, slice.bytes())))
    }

    /// Finds the exact end of a padded code object by inflating it, and records that end. `data` is the bundle. `last`
    /// keeps the inflated bytes for the next code object, which may be compressed together with this one.
    pub(crate) fn find_exact_end(&mut self, data: Slice<'_>, last: &mut LastInflated) -> Result<()> {
        if let ContentEnd::Padded(_) = self.end {
            let inflated = last.get(data, self)?;
            self.range.end = self.range.start.saturating_add(self.slice_of(&inflated)?.len());
            self.end = ContentEnd::Exact;
        }
        Ok(())
    }

    /// Whether both code objects inflate the same bytes with the same result. A broken file may record different sizes
    /// or methods for the same range, so these are compared too.
    pub(crate) fn inflates_like(&self, other: &Self) -> bool {
        self.stored == other.stored && self.claims() == other.claims()
    }

    /// Everything that decides the result of [`Self::inflate`].
    fn claims(&self) -> (Codec, u64, u64, bool) {
        (self.codec, self.inflated, self.limit, self.end == ContentEnd::BeforeZero)
    }

    /// Inflates all bytes. `data` is the bundle.
    ///
    /// # Errors
    /// `ErrorKind::Malformed` if they cannot be inflated to the recorded size, `ErrorKind::Temporary` if there is no
    /// room for them.
    fn inflate(&self, data: Slice<'_>) -> Result<Input> {
        let stored = data.claimed(&self.stored)?;
        let limits = Limits { inflated: self.limit, ..Limits::default() };
        limits.check(WHAT, stored.offset(), self.inflated).with_path(data.path())?;
        let input = match self.codec {
            Codec::Zlib => self.inflate_stream(stored, Method::Zlib, StreamForm::Zlib),
            Codec::Lz4 => self.inflate_block(stored),
            Codec::Zstd => self.inflate_stream(stored, Method::Zstd, StreamForm::Frame),
            Codec::Unknown => Err(unsupported(stored, "its compression is not known, or it is obfuscated")),
        }?;
        if self.end == ContentEnd::BeforeZero && input.bytes().last() != Some(&0) {
            return Err(self.broken(stored, self.inflated, "it does not end in a zero byte"));
        }
        Ok(input)
    }

    /// Inflates an LZ4 block into memory, after a check of the recorded size.
    fn inflate_block(&self, stored: Slice<'_>) -> Result<Input> {
        if self.inflated / LZ4_RATIO_MAX > stored.len() {
            return Err(self.wrong_size(stored, format!("at most {}", stored.len().saturating_mul(LZ4_RATIO_MAX))));
        }
        // The decoder takes the size as a signed number of 32 bits.
        let size = i32::try_from(self.inflated)
            .map_err(|_| self.wrong_size(stored, format!("at most {}, the largest of an LZ4 block", i32::MAX)))?;
        let inflated = codec::inflate_block(stored.bytes(), size);
        // Unlike the other decoders, this one reads from the mapping, so the bytes are counted here.
        stored.note_all_read();
        match inflated {
            Ok(inflated) if len_u64(&inflated) == self.inflated => Ok(Input::from_bytes(stored.path(), inflated)),
            Ok(inflated) => Err(self.wrong_size(stored, inflated.len().to_string())),
            Err(error) if error.kind() == io::ErrorKind::Unsupported => Err(unsupported(stored, error)),
            // The decoder does not report how far it came.
            Err(error) => Err(wrong(stored, format!("the LZ4 block is broken: {error}"))),
        }
    }

    /// Inflates a stream of zlib or zstd, in memory or to a temporary file.
    fn inflate_stream(&self, body: Slice<'_>, method: Method, form: StreamForm) -> Result<Input> {
        // No header precedes the stream, so version, total length and hash are not recorded.
        let recorded = Recorded { what: WHAT, version: 0, method, total: None, inflated: self.inflated, hash: None };
        let (offset, stream_len) = (body.offset(), Arc::new(OnceLock::from(body.len())));
        let stream = Compressed { recorded, offset, header_len: 0, prefix: None, body, stream_len };
        let decoder = opened(form.inflate(body, self.inflated), body, WHAT, offset)?;
        // One byte more than recorded shows that the stream is longer.
        stream.read_up_to(self.inflated.saturating_add(1), stream.inflate_by(decoder, HashCheck::Compare))
    }

    fn wrong_size(&self, stored: Slice<'_>, actual: String) -> Error {
        wrong(stored, format!("the inflated size is recorded as {} bytes, but is {actual}", self.inflated))
    }

    fn broken(&self, stored: Slice<'_>, inflated: u64, reason: impl std::fmt::Display) -> Error {
        let method = self.codec.name();
        wrong(stored, format!("the {method} stream is broken after {inflated} inflated bytes: {reason}"))
    }
}

fn wrong(stored: Slice<'_>, reason: String) -> Error {
    Error::malformed(stored.path(), Malformed::compressed(WHAT, stored.offset(), reason))
}

fn unsupported(stored: Slice<'_>, reason: impl std::fmt::Display) -> Error {
    Error::malformed(stored.path(), codec::unsupported(WHAT, stored.offset(), reason))
}

/// The bytes that were inflated last. They are kept because code objects that are compressed together are read one
/// after another.
#[derive(Default)]
pub(crate) struct LastInflated(Option<(Packed, Rc<Input>)>);

impl LastInflated {
    /// Returns all inflated bytes of `packed`, in the bundle `data`.
    ///
    /// # Errors
    /// The errors of inflating them.
    pub(crate) fn get(&mut self, data: Slice<'_>, packed: &Packed) -> Result<Rc<Input>> {
        match &self.0 {
            Some((last, input)) if last.inflates_like(packed) => Ok(Rc::clone(input)),
            _ => {
                // Frees the memory before more is needed.
                self.0 = None;
                let input = Rc::new(packed.inflate(data)?);
                self.0 = Some((packed.clone(), Rc::clone(&input)));
                Ok(input)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::error::ErrorKind;

    #[test]
    #[cfg_attr(miri, ignore = "compresses")]
    fn entries_that_share_stored_bytes_are_inflated_by_their_own_claims() {
        let stored = Codec::Lz4.compress(&[7; 99], 0, "".as_ref()).unwrap();
        let whole = Packed::whole(0..len_u64(&stored), Codec::Lz4, 99);
        let mut last = LastInflated::default();
        for (inflated, end, is_right) in [
            (99, ContentEnd::Exact, true),
            (99, ContentEnd::BeforeZero, false),
            (99, ContentEnd::Exact, true),
            (100, ContentEnd::Exact, false),
            (99, ContentEnd::Exact, true),
            (98, ContentEnd::Exact, false),
        ] {
            let packed = Packed { inflated, range: 0..inflated, end, ..whole.clone() };
            match last.get(stored.as_slice().into(), &packed) {
                Ok(inflated) => assert_eq!(packed.slice_of(&inflated).is_ok(), is_right),
                Err(_) => assert!(!is_right),
            }
        }
        let outside = Packed { range: 90..101, ..whole };
        let inflated = last.get(stored.as_slice().into(), &outside).unwrap();
        assert_eq!(outside.slice_of(&inflated).unwrap_err().kind(), ErrorKind::Malformed);
    }

    #[test]
    fn code_objects_compressed_together_share_what_is_stored() {
        for (range, end, is_exact, is_shared, stored_len) in [
            (0..100, ContentEnd::Exact, true, false, 40),
            (0..99, ContentEnd::BeforeZero, true, false, 40),
            (0..98, ContentEnd::Exact, true, true, 39),
            (50..100, ContentEnd::Exact, true, true, 20),
            (0..0, ContentEnd::Exact, true, true, 0),
            (0..100, ContentEnd::Padded(CudaKind::Cubin), false, true, 40),
            (0..25, ContentEnd::Padded(CudaKind::Cubin), false, true, 10),
        ] {
            let (stored, codec) = (7..47, Codec::Zstd);
            let packed = Packed { stored, codec, inflated: 100, range, end, limit: u64::MAX };
            let found = (packed.is_exact(), packed.is_shared(), packed.stored_len());
            assert_eq!(found, (is_exact, is_shared, stored_len), "{packed:?}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "inflates")]
    fn left_out_methods_of_code_objects_are_errors_that_name_their_features() {
        let packed = Packed {
            stored: 0..4,
            codec: Codec::Lz4,
            inflated: 9,
            range: 0..9,
            end: ContentEnd::Exact,
            limit: u64::MAX,
        };
        let error = LastInflated::default().get(b"code"[..].into(), &packed).unwrap_err().to_string();
        let missing = "LZ4 is missing: this program was built without the feature 'lz4' of offload_bundle";
        assert_eq!(error.ends_with(missing), !codec::has_feature("lz4"), "{error}");
    }
}

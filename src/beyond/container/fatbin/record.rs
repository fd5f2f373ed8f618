//! Records of fatbins: the header of an entry, and the header of a code object that is compressed with others in one
//! entry. Both have the same fields.

use std::ops::Range;

use super::{CODECS, CudaKind, Image, PADDING};
use crate::base::bytes::{Bounds, Cursor, add, bytes_in, len_u64, slice, span, tail, total};
use crate::base::error::Malformed;
use crate::beyond::codec::Codec;
use crate::llvm::container::records::{Encoding, record};

pub(super) const ENCODING: Encoding = Encoding::LITTLE_64;

/// The length of a header without strings, in bytes.
pub(super) const FIXED_LEN: u64 = 64;

/// The offset of the records of code objects that are compressed together: after their number and length.
pub(super) const RECORDS_AT: u64 = 72;

/// The offsets of the fields `at_4` and `exact_len` in a header, for messages.
const AT_4: u64 = 4;
const EXACT_LEN_AT: u64 = 16;

/// The kind of entries with PTX that is linked at run time, which nvFatbin writes.
const LINKED_PTX: u64 = 64;
/// The kinds of all entries with PTX.
const PTX: [u64; 2] = [1, LINKED_PTX];
/// The kinds of entries with cubins. Cubins of kind 16 are for a later GPU to finish.
const CUBINS: [u64; 2] = [2, 16];
const LTO_IR: u64 = 8;
const TILE_IR: u64 = 128;
const CONCATENATED: u64 = 256;

record! {
    /// A header without its strings.
    EntryHeader(_word) {
        kind: 2,
        version: 2,
        /// The length of the header with its strings. In a record of a code object that is compressed with others, the
        /// offset of the code object among them.
        at_4: 4,
        /// The length of the code object as stored, with padding.
        stored_len: 8,
        /// The length of the code object without padding if it is compressed, otherwise 0.
        exact_len: 4,
        /// The offset in the header of two numbers, the offset and the length of the options, or 0 without options.
        options: 4,
        minor: 2,
        major: 2,
        sm: 4,
        /// The offset in the header of the identifier, or 0 without one.
        identifier: 4,
        identifier_len: 4,
        flags: 8,
        /// Unknown. Copied when the header is written again.
        at_48: 8,
        /// The inflated length if the code object is compressed, otherwise 0.
        inflated: 8,
    }
}

/// A record: the header of an entry, or of a code object that is compressed with others.
#[derive(Clone, Debug)]
pub(super) struct Record<'a> {
    pub(super) fields: EntryHeader,
    /// The header with its strings.
    header: &'a [u8],
    /// The offset of the header in the file.
    base: u64,
    /// The range of the code object as stored, with padding, counted from the start of the fatbin. Empty for a code
    /// object that is compressed with others.
    pub(super) payload: Range<u64>,
}

impl<'a> Record<'a> {
    /// Reads the entry at `position` of a fatbin with entries up to `end`. `base` is the offset of the fatbin in the
    /// file.
    ///
    /// # Errors
    /// [`Malformed`] if the entry ends after `end`.
    fn read(data: &'a [u8], base: u64, position: u64, end: u64) -> Result<Self, Malformed> {
        let offset = base.saturating_add(position);
        let rest = bytes_in(data, position..end).unwrap_or_default();
        let mut record = Self::read_fixed(rest, offset)?;
        let header_len = record.fields.at_4;
        if header_len < FIXED_LEN {
            return Err(record.invalid("header length of a fatbin entry", header_len, AT_4, "64 or more"));
        }
        let fatbin = Bounds { base, len: end };
        let header = fatbin.claim(position, header_len, "the header of a fatbin entry")?;
        record.header = slice(rest, 0, header_len).unwrap_or_default();
        record.payload = fatbin.claim(header.end, record.fields.stored_len, "the code object of a fatbin entry")?;
        Ok(record)
    }

    /// Returns the entries in a range of a fatbin. An entry that does not end in the range is an error, and the last
    /// item. `base` is the offset of the fatbin in the file.
    pub(super) fn all(
        data: &'a [u8],
        base: u64,
        range: Range<u64>,
    ) -> impl Iterator<Item = Result<Self, Malformed>> + use<'a> {
        let mut position = range.start;
        std::iter::from_fn(move || {
            if position >= range.end {
                return None;
            }
            let record = Self::read(data, base, position, range.end);
            position = match &record {
                Ok(record) => record.payload.end,
                Err(_) => range.end,
            };
            Some(record)
        })
    }

    /// Reads the fixed fields of a header.
    fn read_fixed(data: &'a [u8], offset: u64) -> Result<Self, Malformed> {
        let header = Cursor::new(data, offset).take(FIXED_LEN, "the header of a fatbin entry")?;
        Ok(Self { fields: ENCODING.decode(header), header, base: offset, payload: 0..0 })
    }

    /// The bytes of the header after the fixed fields.
    pub(super) fn strings(&self) -> &'a [u8] {
        tail(self.header, FIXED_LEN).unwrap_or_default()
    }

    /// The offset of the header in the file.
    pub(super) fn offset(&self) -> u64 {
        self.base
    }

    /// The offset in the file of a byte of the header.
    fn at(&self, position: u64) -> u64 {
        self.base.saturating_add(position)
    }

    /// The offset of a code object in the bytes that are compressed together.
    pub(super) fn offset_in_whole(&self) -> u64 {
        self.fields.at_4
    }

    /// The range of the entry with its header, counted from the start of the fatbin.
    pub(super) fn range(&self) -> Range<u64> {
        self.payload.start.saturating_sub(len_u64(self.header))..self.payload.end
    }

    pub(super) fn kind(&self) -> CudaKind {
        match self.fields.kind {
            LTO_IR => CudaKind::LtoIr,
            TILE_IR => CudaKind::TileIr,
            kind if PTX.contains(&kind) => CudaKind::Ptx,
            kind if CUBINS.contains(&kind) => CudaKind::Cubin,
            other => CudaKind::Other(u16::try_from(other).unwrap_or(u16::MAX)),
        }
    }

    pub(super) fn is_ptx(&self) -> bool {
        self.kind() == CudaKind::Ptx
    }

    pub(super) fn has_options(&self) -> bool {
        self.fields.options > 0
    }

    /// Returns the copy of the section `.nv.compat` in the header of a cubin, or `None` if the entry is not a cubin or
    /// has no options.
    ///
    /// Cubins for sm_100 and later have the copy instead of options, with a zero byte before it. The recorded length
    /// does not count the zero byte, so the copy is the `len` bytes after it. Options of an older cubin would
    /// be returned, too. `ensure_attributes` then refuses to replace that cubin, unless the new one has a section
    /// `.nv.compat` with the same bytes. So no cubin gets the options of another one.
    pub(super) fn attributes(&self) -> Option<&'a [u8]> {
        if self.kind() != CudaKind::Cubin {
            return None;
        }
        let (start, len) = self.options_range().ok().flatten()?;
        slice(self.header, start.saturating_add(1), len)
    }

    /// Returns the start of the options in the header and their length, or `None` if the header has no options. The
    /// field `options` is the offset of these two numbers in the header.
    fn options_range(&self) -> Result<Option<(u64, u64)>, Malformed> {
        if !self.has_options() {
            return Ok(None);
        }
        let what = "the place of the options of a fatbin entry";
        let mut cursor = Cursor::new(self.within(self.fields.options, 8, what)?, self.base);
        Ok(Some((cursor.u32(what)?.into(), cursor.u32(what)?.into())))
    }

    /// Returns the records of the code objects that are compressed together, or `None` for a single code object.
    ///
    /// # Errors
    /// [`Malformed`] if the entry records another number of records than it has, if the records do not fill the header,
    /// or if code objects share bytes.
    pub(super) fn parts(&self) -> Result<Option<Vec<Self>>, Malformed> {
        if self.fields.kind != CONCATENATED {
            return Ok(None);
        }
        let what = "the number of code objects compressed together";
        let header_len = len_u64(self.header);
        // The number and the length of the records, then the records.
        let table = self.strings();
        let mut cursor = Cursor::new(table, self.at(FIXED_LEN));
        let (count, len) = (cursor.u32(what)?, cursor.u32(what)?);
        if u64::from(len) != len_u64(table) {
            return Err(cursor.invalid("length of the records of a fatbin entry", len, "the rest of the header"));
        }
        let mut position = RECORDS_AT;
        let (mut parts, mut previous_end) = (Vec::new(), 0);
        while position < header_len {
            let rest = tail(self.header, position).unwrap_or_default();
            let mut part = Self::read_fixed(rest, self.at(position))?;
            // The fields of the part say how long its strings are. Until then, its header may reach to the end.
            part.header = rest;
            let len = part.len_with_strings()?;
            part.header = part.within(0, len, "the strings of a fatbin entry")?;
            let start = part.offset_in_whole();
            if start < previous_end {
                let (what, expected) =
                    ("offset of a code object compressed with others", "the end of the one before it or more");
                return Err(part.invalid(what, start, AT_4, expected));
            }
            previous_end = start.saturating_add(part.fields.stored_len);
            parts.push(part);
            add(&mut position, len);
        }
        if u32::try_from(parts.len()) == Ok(count) {
            return Ok(Some(parts));
        }
        let what = "number of code objects compressed together";
        Err(self.invalid(what, count, FIXED_LEN, "the number of their records"))
    }

    /// The additional data of the code object.
    ///
    /// # Errors
    /// [`Malformed::Truncated`] if the identifier is outside the header.
    pub(super) fn image(&self) -> Result<Image, Malformed> {
        let kind = self.kind();
        let EntryHeader { identifier: start, identifier_len: len, major, minor, sm, flags, .. } = self.fields;
        let what = "the identifier of a fatbin entry";
        // Strings come after the fixed fields. Without an identifier, both numbers are 0.
        if start < FIXED_LEN && len > 0 {
            return Err(self.bounds().truncated(start, len, what));
        }
        let source = self.within(start, len, what)?.to_vec();
        let is_linked_at_run_time = self.fields.kind == LINKED_PTX;
        let [major, minor] = [major, minor].map(|number| u16::try_from(number).unwrap_or(u16::MAX));
        let sm = u32::try_from(sm).unwrap_or(u32::MAX);
        Ok(Image { kind, version: (major, minor), sm, flags, source, is_linked_at_run_time })
    }

    /// Returns the compression of the code object, or `None` if it is plain.
    pub(super) fn codec(&self) -> Option<Codec> {
        let (_, codec) = CODECS.into_iter().find(|(flag, _)| self.fields.flags & flag != 0)?;
        Some(codec)
    }

    /// Returns the range of the code object as stored, without padding if it is compressed.
    ///
    /// # Errors
    /// [`Malformed`] if the exact length of a compressed code object is 0 or exceeds its length with padding.
    pub(super) fn stored(&self) -> Result<Range<u64>, Malformed> {
        let Range { start, end } = self.payload;
        let len = self.fields.exact_len;
        match self.codec() {
            None => return Ok(start..end),
            // An unknown method may not record the exact length.
            Some(Codec::Unknown) if len == 0 => return Ok(start..end),
            Some(_) => {}
        }
        if len == 0 || len > self.fields.stored_len {
            let expected = "at least 1 and no more than its length with padding";
            return Err(self.invalid("length of a compressed code object", len, EXACT_LEN_AT, expected));
        }
        Ok(span(start, len))
    }

    /// Computes the length of the header with its strings, which are each padded to 8. An entry records this length in
    /// the field `at_4`, but the record of a code object that is compressed with others has an offset there.
    fn len_with_strings(&self) -> Result<u64, Malformed> {
        let EntryHeader { identifier: start, identifier_len: len, .. } = self.fields;
        let mut end = if start == 0 { FIXED_LEN } else { padded_end(start, len).max(FIXED_LEN) };
        if let Some((start, len)) = self.options_range()? {
            end = end.max(padded_end(start, len));
        }
        Ok(end)
    }

    fn bounds(&self) -> Bounds {
        Bounds::of(self.header, self.base)
    }

    /// Returns `len` bytes of the header from `start`. `what` is their name in errors.
    fn within(&self, start: u64, len: u64, what: &str) -> Result<&'a [u8], Malformed> {
        slice(self.header, start, len).ok_or_else(|| self.bounds().truncated(start, len, what))
    }

    /// The fault of the field at `at` in the header, which has the value `found`. `what` is its name.
    fn invalid(&self, what: &str, found: impl Into<u64>, at: u64, expected: &str) -> Malformed {
        Malformed::value(what, found, self.at(at), expected)
    }
}

/// The end of a string with the zero byte and the padding after it.
fn padded_end(start: u64, len: u64) -> u64 {
    total([start, len, 1]).next_multiple_of(PADDING)
}

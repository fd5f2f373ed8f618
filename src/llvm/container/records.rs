//! Records of numbers. Each is declared once: reading and writing both follow from the names and widths of its fields.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use std::marker::PhantomData;

use object::Endianness;

use crate::base::bytes::to_u64;

/// A record that consists of numbers only, one after another.
pub(crate) trait Record: Copy + Default {
    /// The fields in the order in which they are stored, each with its width in bytes. `word` is the width of a word in
    /// the file, which some fields have.
    fn fields(&mut self, word: usize) -> impl IntoIterator<Item = (&mut u64, usize)>;
}

/// Declares a record: its fields in their stored order, with their widths in bytes, which may depend on the width of a
/// word. After `or` comes a condition on that width, and the order of the fields if it holds: 64-bit ELF files store
/// some fields in another order than 32-bit ones.
macro_rules! record {
    (
        $(#[$about:meta])* $name:ident($word:ident) { $($(#[$note:meta])* $field:ident: $width:expr,)+ }
        $(or $condition:expr => [$($other:ident),+])?
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub(crate) struct $name {
            $($(#[$note])* pub(crate) $field: u64,)+
        }

        impl $crate::llvm::container::records::Record for $name {
            #[inline]
            fn fields(&mut self, $word: usize) -> impl IntoIterator<Item = (&mut u64, usize)> {
                // Not every record uses the word. Naming it here avoids the warning of an unused parameter.
                let (_, Self { $($field),+ }) = ($word, self);
                $(let $field = ($field, $width);)+
                // Now each name is a field with its width. Only a record with `or` has this second order.
                $(if $condition {
                    return [$($other),+];
                })?
                [$($field),+]
            }
        }
    };
}
pub(crate) use record;

/// How a file stores its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Encoding {
    /// The width of addresses, offsets and sizes in bytes, 4 or 8.
    pub(crate) word: usize,
    pub(crate) order: Endianness,
}

impl Encoding {
    pub(crate) const LITTLE_64: Self = Self { word: 8, order: Endianness::Little };

    /// The encoding of an ELF file that begins with `head`, from the bytes for its class and its byte order.
    pub(crate) fn of(head: &[u8]) -> Self {
        // The class 2 is 64-bit, the byte order 2 is big-endian.
        let word = if head.get(4) == Some(&2) { 8 } else { 4 };
        Self { word, order: if head.get(5) == Some(&2) { Endianness::Big } else { Endianness::Little } }
    }

    /// The number in up to eight bytes.
    #[inline]
    pub(crate) fn read(self, bytes: &[u8]) -> u64 {
        match (self.order, bytes) {
            (Endianness::Big, _) => bytes.iter().fold(0, append_byte),
            // Most numbers have these widths, and most files this byte order.
            (_, &[a, b]) => u16::from_le_bytes([a, b]).into(),
            (_, &[a, b, c, d]) => u32::from_le_bytes([a, b, c, d]).into(),
            (_, &[a, b, c, d, e, f, g, h]) => u64::from_le_bytes([a, b, c, d, e, f, g, h]),
            _ => bytes.iter().rev().fold(0, append_byte),
        }
    }

    /// Fills `out` with a number, truncated to its length.
    pub(crate) fn write(self, number: u64, out: &mut [u8]) {
        let bytes = number.to_le_bytes();
        match self.order {
            Endianness::Little => {
                for (out, byte) in out.iter_mut().zip(bytes) {
                    *out = byte;
                }
            }
            Endianness::Big => {
                for (out, byte) in out.iter_mut().rev().zip(bytes) {
                    *out = byte;
                }
            }
        }
    }

    /// The length of a record in bytes.
    pub(crate) fn len_of<R: Record>(self) -> u64 {
        to_u64(R::default().fields(self.word).into_iter().map(|(_, width)| width).sum())
    }

    /// Decodes the record at the start of some bytes. Fields beyond the end of the bytes are zero.
    pub(crate) fn decode<R: Record>(self, bytes: &[u8]) -> R {
        // For the most common encoding, the compiler can compute the offset of each field. This matters, because
        // symbols are read by the million.
        if self == Self::LITTLE_64 { Self::LITTLE_64.decode_each(bytes) } else { self.decode_each(bytes) }
    }

    /// The part of `decode` that is compiled once for each encoding, so it has to be inlined there.
    #[inline(always)]
    fn decode_each<R: Record>(self, mut bytes: &[u8]) -> R {
        let mut record = R::default();
        for (field, width) in record.fields(self.word) {
            // If the bytes end too early, both parts are empty, and the number is 0.
            let (number, rest) = bytes.split_at_checked(width).unwrap_or_default();
            (*field, bytes) = (self.read(number), rest);
        }
        record
    }

    /// The bytes of some records. Numbers are truncated to their fields.
    pub(crate) fn encode<R: Record>(self, records: &[R]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for mut record in records.iter().copied() {
            for (field, width) in record.fields(self.word) {
                let mut number = [0; 8];
                let number = number.get_mut(..width).unwrap_or_default();
                self.write(*field, number);
                bytes.extend_from_slice(number);
            }
        }
        bytes
    }
}

#[inline]
fn append_byte(number: u64, byte: &u8) -> u64 {
    number << 8 | u64::from(*byte)
}

/// A table of records. Each is decoded when it is requested.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Table<'d, R> {
    pub(crate) bytes: &'d [u8],
    pub(crate) encoding: Encoding,
    /// The length of a record in bytes.
    record_len: usize,
    records: PhantomData<R>,
}

impl<'d, R: Record> Table<'d, R> {
    pub(crate) fn new(encoding: Encoding, bytes: &'d [u8]) -> Self {
        let record_len = usize::try_from(encoding.len_of::<R>()).unwrap_or(usize::MAX);
        Self { bytes, encoding, record_len, records: PhantomData }
    }

    pub(crate) fn chunks(&self) -> std::slice::ChunksExact<'d, u8> {
        self.bytes.chunks_exact(self.record_len)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = R> + use<'d, R> {
        let encoding = self.encoding;
        self.chunks().map(move |record| encoding.decode(record))
    }
}

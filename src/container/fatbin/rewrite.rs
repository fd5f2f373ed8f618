//! Writes a fatbin again: with fewer code objects, or with others compressed.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use std::io::{Seek, SeekFrom, Write};
use std::ops::Range;
use std::rc::Rc;

use super::record::{FIXED_LEN, RECORDS_AT, Record};
use super::{FLAG_ATTRIBUTES, FLAG_LZ4, FLAG_ZLIB, FLAG_ZSTD, ImageKind, PADDING, entries_range, plain_len};
use crate::bytes::{len_u64, slice};
use crate::container::Packed;
use crate::container::packed::{Codec, End, LastInflated};
use crate::error::{Error, Result, WithPath};
use crate::io::input::{Input, Slice};
use crate::io::piece::{self, Piece, Sink, TOO_LONG, emit, sum, total_len};

/// How code objects are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    /// In the smallest form: as they are, compressed, or plain.
    Smallest {
        /// The method; none for the one that the fatbin uses already, or LZ4 if it uses none.
        codec: Option<Codec>,
        /// The level of zstd.
        level: i32,
    },
    /// Cubins plain. PTX stays as it is, since `fatbinary` compresses it unless told otherwise.
    Plain,
}

/// Writes a fatbin with the code objects for which `keeps`, given their index, is true. Returns its length in bytes.
///
/// # Errors
/// [`Error::Malformed`] if the fatbin has a fault or a code object cannot be inflated, [`Error::Usage`] if the method was
/// left out when the library was built, [`Error::Io`] if `to` fails.
pub(crate) fn rewrite<W: Write + Seek>(
    data: Slice<'_>,
    keeps: impl Fn(usize) -> bool,
    packing: Packing,
    to: &mut piece::Writer<'_, W>,
) -> Result<u64> {
    let path = data.path();
    let range = entries_range(data.bytes(), data.offset()).with_path(path)?;
    let records = Record::all(data.bytes(), data.offset(), range.clone()).collect::<Result<Vec<_>, _>>();
    let records = records.with_path(path)?;
    let writer = Writer { data, target: target(&records, packing) };
    let start = to.seek(SeekFrom::Current(0))?;
    let mut header = writer.at(0..range.start)?.bytes().to_vec();
    to.write(&header)?;
    let (mut len, mut index) = (0_u64, 0_usize);
    for record in &records {
        let parts = record.parts().with_path(path)?;
        let count = parts.as_ref().map_or(1, Vec::len);
        let kept: Vec<bool> = (index..index.saturating_add(count)).map(&keeps).collect();
        index = index.saturating_add(count);
        let pieces = match parts {
            _ if !kept.contains(&true) => continue,
            None => writer.entry(record)?,
            Some(parts) => writer.concatenated(record, &parts, &kept)?,
        };
        len = sum([len, total_len(&pieces)?])?;
        emit(&pieces, to)?;
    }
    put(&mut header, 8, &len.to_le_bytes())?;
    to.fill_in(start, &header)?;
    sum([range.start, len])
}

/// The method of compression and the level; none if code objects are written plain.
fn target(records: &[Record<'_>], packing: Packing) -> Option<(Codec, i32)> {
    let Packing::Smallest { codec, level } = packing else { return None };
    let uses_zstd = || records.iter().any(|record| record.codec() == Some(Codec::Zstd));
    Some((codec.unwrap_or_else(|| if uses_zstd() { Codec::Zstd } else { Codec::Lz4 }), level))
}

struct Writer<'a> {
    data: Slice<'a>,
    target: Option<(Codec, i32)>,
}

/// The bytes of code objects, with the zero byte after PTX, without padding.
enum Content<'a> {
    InPlace(Slice<'a>),
    Inflated(Rc<Input>),
}

impl Content<'_> {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::InPlace(slice) => slice.bytes(),
            Self::Inflated(input) => input.bytes(),
        }
    }
}

impl<'a> Writer<'a> {
    /// The pieces of an entry with one code object.
    fn entry(&self, record: &Record<'a>) -> Result<Vec<Piece<'a>>> {
        let as_it_was = vec![Piece::Input(self.at(record.range())?)];
        let codec = record.codec();
        if codec == Some(Codec::Unknown) {
            return Ok(as_it_was);
        }
        let Some((target, level)) = self.target.filter(|_| !needs_attributes(record)) else {
            return match codec {
                Some(_) if !record.is_ptx() => match self.content(record)? {
                    content if keeps_end(record, content.bytes()) => plain(record.header, content.bytes()),
                    _ => Ok(as_it_was),
                },
                _ => Ok(as_it_was),
            };
        };
        let content = self.content(record)?;
        let packed = target.compress(content.bytes(), level, self.data.path())?;
        let packed = entry(record.header, &packed, Some((target, len_u64(content.bytes()))))?;
        let mut forms = vec![packed];
        if keeps_end(record, content.bytes()) {
            forms.push(plain(record.header, content.bytes())?);
        }
        if may_stay(codec, target) {
            forms.insert(0, as_it_was);
        }
        smallest(forms)
    }

    /// The pieces of an entry with several code objects, of which some are kept.
    fn concatenated(&self, record: &Record<'a>, parts: &[Record<'a>], kept: &[bool]) -> Result<Vec<Piece<'a>>> {
        let is_ptx = parts.iter().all(Record::is_ptx);
        let stays = record.codec() == Some(Codec::Unknown) || (is_ptx && self.target.is_none());
        if stays && !kept.contains(&false) {
            return Ok(vec![Piece::Input(self.at(record.range())?)]);
        }
        let content = self.content(record)?;
        let kept_parts = parts.iter().zip(kept).filter(|(_, kept)| **kept).map(|(part, _)| part);
        let bytes_of = |part: &Record<'a>| {
            let bytes = slice(content.bytes(), part.offset_in_whole(), part.stored_len);
            bytes.ok_or(Error::Internal("a code object lies outside of what was compressed with it"))
        };
        let Some((target, level)) = self.target else {
            let pieces = kept_parts.map(|part| plain(part.header, bytes_of(part)?)).collect::<Result<Vec<_>>>()?;
            return Ok(pieces.concat());
        };
        let (mut whole, mut headers) = (Vec::new(), Vec::new());
        for part in kept_parts {
            let offset = u32::try_from(whole.len()).map_err(|_| TOO_LONG)?;
            let mut header = part.header.to_vec();
            put(&mut header, 4, &offset.to_le_bytes())?;
            headers.push(header);
            whole.extend(bytes_of(part)?);
        }
        let mut header = slice(record.header, 0, FIXED_LEN).unwrap_or_default().to_vec();
        let lens =
            headers.iter().map(|part| len_u64(part)).fold(RECORDS_AT.saturating_sub(FIXED_LEN), u64::saturating_add);
        header.extend(u32::try_from(headers.len()).map_err(|_| TOO_LONG)?.to_le_bytes());
        header.extend(u32::try_from(lens).map_err(|_| TOO_LONG)?.to_le_bytes());
        headers.iter().for_each(|part| header.extend(part));
        let packed = target.compress(&whole, level, self.data.path())?;
        let mut forms = vec![entry(&header, &packed, Some((target, len_u64(&whole))))?];
        if !kept.contains(&false) && may_stay(record.codec(), target) {
            forms.insert(0, vec![Piece::Input(self.at(record.range())?)]);
        }
        smallest(forms)
    }

    fn content(&self, record: &Record<'a>) -> Result<Content<'a>> {
        let path = self.data.path();
        let (stored, image) = (record.stored().with_path(path)?, record.image().with_path(path)?);
        let Some(codec) = image.codec else {
            let payload = self.at(stored.clone())?;
            let zero = u64::from(image.kind == ImageKind::Ptx);
            let len = plain_len(image.kind, payload.bytes()).saturating_add(zero).min(payload.len());
            return self.at(stored.start..stored.start.saturating_add(len)).map(Content::InPlace);
        };
        let inflated = record.inflated;
        let packed = Packed { stored, codec, inflated, range: 0..inflated, end: End::Exact };
        Ok(Content::Inflated(LastInflated::default().get(self.data, &packed)?))
    }

    fn at(&self, range: Range<u64>) -> Result<Slice<'a>> {
        let len = range.end.saturating_sub(range.start);
        self.data.slice(range.start, len).ok_or(Error::Internal("no such range in the fatbin"))
    }
}

/// Whether a cubin lacks the attributes that those for sm_100 and later have in their header: `fatbinary` leaves such a
/// cubin plain.
fn needs_attributes(record: &Record<'_>) -> bool {
    record.flags & FLAG_ATTRIBUTES != 0 && !record.has_options()
}

/// Whether a code object may stay as it is where others are compressed with `target`: every driver that reads zstd reads
/// LZ4.
fn may_stay(codec: Option<Codec>, target: Codec) -> bool {
    codec.is_none_or(|codec| codec == target || codec == Codec::Lz4)
}

/// Whether the end of a code object is found again if it is plain. Only that of a compressed one is recorded.
fn keeps_end(record: &Record<'_>, content: &[u8]) -> bool {
    let Ok(image) = record.image() else { return false };
    let mut padded = content.to_vec();
    padded.resize(content.len().next_multiple_of(8), 0);
    plain_len(image.kind, &padded).saturating_add(u64::from(record.is_ptx())) == len_u64(content)
}

fn smallest(forms: Vec<Vec<Piece<'_>>>) -> Result<Vec<Piece<'_>>> {
    let forms = forms.into_iter().map(|form| Ok((total_len(&form)?, form))).collect::<Result<Vec<_>>>()?;
    let smallest = forms.into_iter().min_by_key(|(len, _)| *len);
    smallest.map(|(_, form)| form).ok_or(Error::Internal("a code object has no form"))
}

fn plain<'p>(header: &[u8], content: &[u8]) -> Result<Vec<Piece<'p>>> {
    entry(header, content, None)
}

/// An entry with these bytes, which are `compressed` by a method from a number of bytes, or plain.
fn entry<'p>(header: &[u8], bytes: &[u8], compressed: Option<(Codec, u64)>) -> Result<Vec<Piece<'p>>> {
    let (len, mut header) = (len_u64(bytes), header.to_vec());
    let stored_len = len.checked_next_multiple_of(PADDING).ok_or(TOO_LONG)?;
    let flags = slice(&header, 40, 8).and_then(|flags| flags.first_chunk()).copied().map(u64::from_le_bytes);
    let flags = flags.ok_or(Error::Internal("the header of a fatbin entry is too short"))?;
    let flag = match compressed {
        None | Some((Codec::Unknown, _)) => 0,
        Some((Codec::Zlib, _)) => FLAG_ZLIB,
        Some((Codec::Lz4, _)) => FLAG_LZ4,
        Some((Codec::Zstd, _)) => FLAG_ZSTD,
    };
    let exact_len = compressed.map_or(Ok(0), |_| u32::try_from(len)).map_err(|_| TOO_LONG)?;
    let header_len = u32::try_from(header.len()).map_err(|_| TOO_LONG)?;
    put(&mut header, 4, &header_len.to_le_bytes())?;
    put(&mut header, 8, &stored_len.to_le_bytes())?;
    put(&mut header, 16, &exact_len.to_le_bytes())?;
    put(&mut header, 40, &((flags & !(FLAG_ZLIB | FLAG_LZ4 | FLAG_ZSTD)) | flag).to_le_bytes())?;
    put(&mut header, 56, &compressed.map_or(0, |(_, inflated)| inflated).to_le_bytes())?;
    Ok(vec![Piece::Bytes(header), Piece::Bytes(bytes.to_vec()), Piece::Zeros(stored_len.saturating_sub(len))])
}

fn put(header: &mut [u8], at: usize, bytes: &[u8]) -> Result<()> {
    let field = header.get_mut(at..).and_then(|rest| rest.get_mut(..bytes.len()));
    field.ok_or(Error::Internal("the header of a fatbin is too short"))?.copy_from_slice(bytes);
    Ok(())
}

//! Writes a fatbin again: with fewer code objects, with others compressed, or with another content of one.

use std::borrow::Cow;
use std::io::{Seek, SeekFrom, Write};

use memchr::memmem;

use super::record::{ENCODING, EntryHeader, FIXED_LEN, RECORDS_AT, Record};
use super::{CODECS, CudaKind, FLAG_ATTRIBUTES, PADDING, entries_range, plain_len};
use crate::base::bytes::{len_of, len_u64, slice, span, text};
use crate::base::codec::{Codec, Method};
use crate::base::error::{Error, ErrorKind, Malformed, Result, WithPath};
use crate::base::io::input::Slice;
use crate::base::io::piece::{self, Piece, Sink, emit, sum, too_long, total_len};
use crate::beyond::container::packed::{LastInflated, Packed};
use crate::beyond::container::ptx;
use crate::llvm::container::host::elf;
use crate::llvm::container::magic::Magic;
use crate::llvm::container::sequence::Content;

/// The levels of zstd for a code object that is replaced: the second is slow, and only for one that the first makes
/// longer than the old one.
const LEVELS: [i32; 2] = [9, 19];

/// How cubins and PTX are written. PTX that is plain, and code of other kinds, stays as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing<'n> {
    /// In the smallest form: as they are, compressed, or plain.
    Smallest {
        /// The method; none for the one that the fatbin uses already, or LZ4 if it uses none.
        codec: Option<Codec>,
        /// The level of zstd.
        level: i32,
    },
    /// Cubins plain. PTX stays as it is.
    Plain,
    /// As they are, but for one code object, of any kind, which gets another content in the form that it has.
    Replacing {
        /// Its index.
        index: usize,
        /// The content.
        content: &'n [u8],
    },
}

/// Writes a fatbin without faults, with the code objects for which `keeps`, given their index, is true. What is
/// compressed may inflate to `limit` bytes. Returns the length of the fatbin in bytes.
///
/// # Errors
/// [`ErrorKind::Malformed`] if a code object cannot be inflated, [`ErrorKind::Usage`] if the method was left out when
/// the library was built, [`ErrorKind::Io`] if `to` fails, [`ErrorKind::Unsupported`] if the end of a new content would
/// be lost.
pub(crate) fn rewrite<W: Write + Seek>(
    data: Slice<'_>,
    keeps: impl Fn(usize) -> bool,
    packing: Packing<'_>,
    limit: u64,
    to: &mut piece::Writer<'_, W>,
) -> Result<u64> {
    let path = data.path();
    let range = entries_range(data.bytes(), data.offset()).with_path(path)?;
    let records = Record::all(data.bytes(), data.offset(), range.clone()).collect::<Result<Vec<_>, _>>();
    let records = records.with_path(path)?;
    let writer = FatbinWriter { data, target: target(&records, packing), limit };
    let start = to.seek(SeekFrom::Current(0))?;
    let mut header = writer.data.claimed(&(0..range.start))?.bytes().to_vec();
    to.write(&header)?;
    let (mut len, mut index) = (0_u64, 0_usize);
    for record in &records {
        let parts = record.parts().with_path(path)?;
        let count = parts.as_ref().map_or(1, Vec::len);
        let indices = index..index.saturating_add(count);
        let kept: Vec<bool> = indices.clone().map(&keeps).collect();
        index = indices.end;
        let new = match packing {
            Packing::Replacing { index, content } if indices.contains(&index) => {
                Some((index.saturating_sub(indices.start), content))
            }
            _ => None,
        };
        let pieces = match (parts, new) {
            _ if !kept.contains(&true) => continue,
            (_, None) if matches!(packing, Packing::Replacing { .. }) => writer.as_it_was(record)?,
            (None, None) => writer.entry(record)?,
            (None, Some((_, content))) => writer.replaced(record, content)?,
            (Some(parts), new) => writer.concatenated(record, &parts, &kept, new)?,
        };
        len = sum([len, total_len(&pieces)?])?;
        emit(&pieces, to)?;
    }
    let field = header.get_mut(8..16).ok_or_else(|| Error::internal("the header of a fatbin is too short"))?;
    field.copy_from_slice(&len.to_le_bytes());
    to.fill_in(start, &header)?;
    sum([range.start, len])
}

/// Returns the method of compression and the level, or `None` if code objects are written plain.
fn target(records: &[Record<'_>], packing: Packing<'_>) -> Option<Target> {
    let Packing::Smallest { codec, level } = packing else { return None };
    let uses_zstd = || records.iter().any(|record| record.codec() == Some(Codec::Zstd));
    Some((codec.unwrap_or_else(|| if uses_zstd() { Codec::Zstd } else { Codec::Lz4 }), level))
}

struct FatbinWriter<'a> {
    data: Slice<'a>,
    target: Option<Target>,
    /// The largest size that may be inflated, in bytes.
    limit: u64,
}

/// The method of compression, and the level of zstd.
type Target = (Codec, i32);

impl<'a> FatbinWriter<'a> {
    /// The pieces of an entry with one code object.
    fn entry(&self, record: &Record<'a>) -> Result<Vec<Piece<'a>>> {
        let (codec, kind) = (record.codec(), record.kind());
        let stays = match (kind, self.target) {
            _ if codec == Some(Codec::Unknown) => true,
            // `fatbinary` compresses PTX unless it is told not to.
            (CudaKind::Ptx, None) => true,
            (CudaKind::Ptx, Some(_)) | (CudaKind::Cubin, None) => codec.is_none(),
            (CudaKind::Cubin, Some(_)) => codec.is_none() && needs_attributes(record),
            // No tool is known that reads another form of these.
            (CudaKind::LtoIr | CudaKind::TileIr | CudaKind::Other(_), _) => true,
        };
        if stays {
            return self.as_it_was(record);
        }
        let content = self.content(record)?;
        let old = self.target.is_none_or(|(target, _)| may_stay(codec, target)).then(|| self.as_it_was(record));
        self.single(NewHeader::of(record), kind, content.as_slice().bytes(), self.target, old.transpose()?)
    }

    /// The pieces of an entry with another content of its code object, in the form that the old one has.
    fn replaced(&self, record: &Record<'a>, content: &[u8]) -> Result<Vec<Piece<'a>>> {
        let kind = record.kind();
        self.ensure_attributes(record, content)?;
        let (header, content) = (header_for(record, content), with_zero(kind, content));
        let Some(codec) = record.codec() else {
            self.ensure_end(record, &content)?;
            return entry(header, content.into_owned(), None);
        };
        let (codec, packed) = self.pack_as(record, codec, &content)?;
        entry(header, packed, Some((codec, len_u64(&content))))
    }

    /// Compresses a new content as the old one is, and harder if it would be longer: an entry in a library has no room
    /// to grow.
    fn pack_as(&self, record: &Record<'_>, codec: Codec, content: &[u8]) -> Result<(Codec, Vec<u8>)> {
        let (codec, _) = own_target(Some(codec));
        let old = record.stored().with_path(self.data.path())?;
        let packed = codec.compress(content, LEVELS[0], self.data.path())?;
        let is_longer = len_u64(&packed) > len_of(&old) && codec == Codec::Zstd;
        let packed = if is_longer { codec.compress(content, LEVELS[1], self.data.path())? } else { packed };
        Ok((codec, packed))
    }

    /// Fails if a new cubin has other attributes than those of the old one, which are in the header too.
    fn ensure_attributes(&self, record: &Record<'_>, content: &[u8]) -> Result<()> {
        let new = elf::File::read(content).ok().and_then(|cubin| cubin.section_named(b".nv.compat"));
        if record.attributes().is_none_or(|old| new == Some(old)) {
            return Ok(());
        }
        let reason = "the fatbin has a copy of the section '.nv.compat' of its cubin, and the new cubin has another one: it was made \
             for another architecture, or with other options";
        Err(Error::refused(ErrorKind::Unsupported, self.data.path(), record.offset(), reason))
    }

    /// Fails if the end of a code object would not be found again without being recorded.
    fn ensure_end(&self, record: &Record<'_>, content: &[u8]) -> Result<()> {
        if keeps_end(record.kind(), content) {
            return Ok(());
        }
        let rule = match record.kind() {
            CudaKind::Cubin => "a cubin has to be an ELF file without bytes after it",
            CudaKind::Ptx => "PTX must not end in zeros",
            CudaKind::LtoIr | CudaKind::TileIr | CudaKind::Other(_) => "it needs a multiple of 8 bytes",
        };
        let reason = format!("the fatbin does not record where the new content ends: {rule}");
        Err(Error::refused(ErrorKind::Unsupported, self.data.path(), record.offset(), reason))
    }

    /// The pieces of an entry with several code objects, of which some are kept. One of them may be `new`: its index
    /// among them, and its other content.
    fn concatenated(
        &self,
        record: &Record<'a>,
        parts: &[Record<'a>],
        kept: &[bool],
        new: Option<(usize, &[u8])>,
    ) -> Result<Vec<Piece<'a>>> {
        let codec = record.codec();
        let is_ptx = parts.iter().all(Record::is_ptx);
        let keeps_all = !kept.contains(&false) && new.is_none();
        if keeps_all && (codec == Some(Codec::Unknown) || (is_ptx && self.target.is_none())) {
            return self.as_it_was(record);
        }
        let content = self.content(record)?;
        let mut codes = Vec::new();
        for ((index, part), _) in parts.iter().enumerate().zip(kept).filter(|(_, kept)| **kept) {
            let (header, bytes) = match new {
                Some((replaced, content)) if replaced == index => {
                    self.ensure_attributes(part, content)?;
                    let mut content = with_zero(part.kind(), content).into_owned();
                    self.ensure_end(part, &content)?;
                    content.resize(content.len().next_multiple_of(8), 0);
                    (header_for(part, &content), Cow::Owned(content))
                }
                _ => {
                    let bytes = slice(content.as_slice().bytes(), part.offset_in_whole(), part.fields.stored_len);
                    (NewHeader::of(part), Cow::Borrowed(bytes.ok_or_else(|| self.outside(part))?))
                }
            };
            codes.push((header, part.kind(), bytes));
        }
        // PTX stays compressed, and so does all else if one of them is replaced.
        let stays = is_ptx || (new.is_some() && codec.is_some());
        let target = self.target.or(stays.then_some(own_target(codec)));
        let Some((target, level)) = target.filter(|_| codes.len() > 1) else {
            // An entry of one code object has no records.
            let old = keeps_all && target.is_none_or(|(target, _)| may_stay(codec, target));
            let single = |(header, kind, bytes): &(NewHeader<'_>, CudaKind, Cow<'_, [u8]>)| {
                let old = (old && codes.len() == 1).then(|| self.as_it_was(record)).transpose()?;
                self.single(*header, *kind, code_with_zero(*kind, bytes), target, old)
            };
            return Ok(codes.iter().map(single).collect::<Result<Vec<_>>>()?.concat());
        };
        let (mut whole, mut records) = (Vec::new(), Vec::new());
        for (NewHeader { fields, strings }, _, bytes) in codes {
            let fields = EntryHeader { at_4: len_u64(&whole), stored_len: len_u64(&bytes), ..fields };
            records.extend(ENCODING.try_encode(&[fields]).ok_or_else(too_long)?);
            records.extend(strings);
            whole.extend_from_slice(&bytes);
        }
        let count = kept.iter().filter(|kept| **kept).count();
        let len = len_u64(&records).saturating_add(RECORDS_AT - FIXED_LEN);
        let numbers = [u32::try_from(count).ok(), u32::try_from(len).ok()];
        let [count, len] = numbers.map(|number| number.ok_or_else(too_long).map(u32::to_le_bytes));
        let strings = [&count?[..], &len?, &records].concat();
        let header = NewHeader { fields: record.fields, strings: &strings };
        let packed = match (new, codec) {
            (Some(_), Some(codec)) => self.pack_as(record, codec, &whole)?.1,
            _ => target.compress(&whole, level, self.data.path())?,
        };
        let old_len = len_of(&record.range());
        if keeps_all && may_stay(codec, target) && old_len <= entry_len(header, &packed)? {
            return self.as_it_was(record);
        }
        entry(header, packed, Some((target, len_u64(&whole))))
    }

    /// The pieces of an entry with a code object in its smallest form, or plain if there is no target. `old` is the
    /// form that it had, if that may stay.
    fn single(
        &self,
        header: NewHeader<'_>,
        kind: CudaKind,
        content: &[u8],
        target: Option<Target>,
        old: Option<Vec<Piece<'a>>>,
    ) -> Result<Vec<Piece<'a>>> {
        let old_len = old.as_deref().map_or(Ok(u64::MAX), total_len)?;
        let plain_len = if keeps_end(kind, content) { entry_len(header, content)? } else { u64::MAX };
        // LZ4 takes no more than 2 GiB.
        let target = target.filter(|(codec, _)| *codec != Codec::Lz4 || i32::try_from(content.len()).is_ok());
        if let Some((codec, level)) = target {
            let packed = codec.compress(content, level, self.data.path())?;
            let packed_len = entry_len(header, &packed)?;
            if packed_len < old_len && packed_len <= plain_len {
                return entry(header, packed, Some((codec, len_u64(content))));
            }
        }
        match old {
            Some(old) if target.is_some() && old_len <= plain_len => Ok(old),
            Some(old) if plain_len == u64::MAX => Ok(old),
            _ => entry(header, content.to_vec(), None),
        }
    }

    fn as_it_was(&self, record: &Record<'a>) -> Result<Vec<Piece<'a>>> {
        Ok(vec![Piece::Input(self.data.claimed(&record.range())?)])
    }

    /// The bytes of the code objects of an entry, with the zero byte after PTX, without padding.
    fn content(&self, record: &Record<'a>) -> Result<Content<'a>> {
        let stored = record.stored().with_path(self.data.path())?;
        let Some(codec) = record.codec() else {
            let payload = self.data.claimed(&stored)?;
            let len = len_u64(code_with_zero(record.kind(), payload.bytes()));
            return self.data.claimed(&span(stored.start, len)).map(Content::InPlace);
        };
        let packed = Packed { limit: self.limit, ..Packed::whole(stored, codec, record.fields.inflated) };
        let whole = LastInflated::default().get(self.data, &packed)?;
        let range = 0..whole.len();
        Ok(Content::Inflated(whole, range))
    }

    fn outside(&self, part: &Record<'_>) -> Error {
        let (what, expected) =
            ("length of a code object compressed with others", "no more than their inflated bytes have");
        let malformed = Malformed::value(what, part.fields.stored_len, part.offset(), expected);
        Error::malformed(self.data.path(), malformed)
    }
}

/// Whether a cubin lacks the attributes that those for sm_100 and later have in their header: `fatbinary` leaves such a
/// cubin plain.
fn needs_attributes(record: &Record<'_>) -> bool {
    record.fields.flags & FLAG_ATTRIBUTES != 0 && !record.has_options()
}

/// Whether a code object may stay as it is where others are compressed with `target`: zstd is read by later drivers
/// only.
fn may_stay(codec: Option<Codec>, target: Codec) -> bool {
    codec != Some(Codec::Zstd) || target == Codec::Zstd
}

/// The method in which code stays compressed, with its level. zlib is not written.
fn own_target(codec: Option<Codec>) -> Target {
    (if codec == Some(Codec::Zstd) { Codec::Zstd } else { Codec::Lz4 }, Method::Zstd.default_level())
}

/// The bytes of a code object as they are stored: PTX ends in a zero byte.
fn with_zero(kind: CudaKind, content: &[u8]) -> Cow<'_, [u8]> {
    if kind == CudaKind::Ptx { Cow::Owned([content, b"\0"].concat()) } else { Cow::Borrowed(content) }
}

/// A header to write: its lengths and the flags of the method are filled in by [`entry`].
#[derive(Clone, Copy)]
struct NewHeader<'s> {
    fields: EntryHeader,
    strings: &'s [u8],
}

impl<'s> NewHeader<'s> {
    fn of(record: &Record<'s>) -> Self {
        Self { fields: record.fields, strings: record.strings() }
    }
}

/// The header of a record for another content, which has its version.
fn header_for<'s>(record: &Record<'s>, content: &[u8]) -> NewHeader<'s> {
    let mut header = NewHeader::of(record);
    let version = match record.kind() {
        CudaKind::Ptx => ptx::Header::of(content).map(|header| header.version),
        // The version of the ELF file, of which the smaller part is that of the ABI.
        CudaKind::Cubin => {
            content.get(8).filter(|_| Magic::identify(content) == Magic::Cubin).map(|&abi| (1, abi.into()))
        }
        CudaKind::LtoIr | CudaKind::TileIr | CudaKind::Other(_) => None,
    };
    if let Some((major, minor)) = version {
        (header.fields.major, header.fields.minor) = (u64::from(major), u64::from(minor));
    }
    header
}

/// The architecture for which a compiler made PTX or a cubin, with its suffix, which the ELF header does not always
/// tell.
pub(crate) fn made_for(content: &[u8]) -> Option<String> {
    const OPTION: &[u8] = b"-arch ";
    if Magic::identify(content) != Magic::Cubin {
        return ptx::Header::of(content).map(|header| header.sm);
    }
    let note = elf::File::read(content).ok()?.section_named(b".note.nv.tkinfo")?;
    let word = note.get(memmem::find(note, OPTION)?..)?.strip_prefix(OPTION)?;
    text(word.split(|byte| byte.is_ascii_whitespace() || *byte == 0).next()?)
}

/// A code object without its padding, with the zero byte after PTX.
fn code_with_zero(kind: CudaKind, padded: &[u8]) -> &[u8] {
    let len = plain_len(kind, padded).saturating_add(u64::from(kind == CudaKind::Ptx));
    slice(padded, 0, len).unwrap_or(padded)
}

/// Whether the end of a code object is found again if it is plain. Only that of a compressed one is recorded.
fn keeps_end(kind: CudaKind, content: &[u8]) -> bool {
    let mut padded = Cow::Borrowed(content);
    let len = content.len().next_multiple_of(8);
    if len > content.len() {
        padded.to_mut().resize(len, 0);
    }
    code_with_zero(kind, &padded) == content
}

/// The length of an entry with these bytes.
fn entry_len(header: NewHeader<'_>, bytes: &[u8]) -> Result<u64> {
    sum([FIXED_LEN, len_u64(header.strings), len_u64(bytes).checked_next_multiple_of(PADDING).ok_or_else(too_long)?])
}

/// An entry with these bytes, which are `compressed` by a method from a number of bytes, or plain.
fn entry<'p>(header: NewHeader<'_>, bytes: Vec<u8>, compressed: Option<(Codec, u64)>) -> Result<Vec<Piece<'p>>> {
    let NewHeader { fields, strings } = header;
    let len = len_u64(&bytes);
    let stored_len = len.checked_next_multiple_of(PADDING).ok_or_else(too_long)?;
    let known = compressed.filter(|(codec, _)| *codec != Codec::Unknown);
    let flag = CODECS.iter().find(|(_, codec)| known.is_some_and(|(known, _)| known == *codec));
    let plain = CODECS.iter().fold(fields.flags, |flags, (flag, _)| flags & !flag);
    let fields = EntryHeader {
        at_4: sum([FIXED_LEN, len_u64(strings)])?,
        stored_len,
        exact_len: compressed.map_or(0, |_| len),
        flags: plain | flag.map_or(0, |(flag, _)| *flag),
        inflated: compressed.map_or(0, |(_, inflated)| inflated),
        ..fields
    };
    let header = [&ENCODING.try_encode(&[fields]).ok_or_else(too_long)?, strings].concat();
    Ok(vec![Piece::Bytes(header), Piece::Bytes(bytes), Piece::Zeros(stored_len.saturating_sub(len))])
}

//! Writes a fatbin again: with fewer code objects, with another compression, or with another content of a code object.

use std::borrow::Cow;
use std::io::{Seek, SeekFrom, Write};
use std::ops::Range;

use memchr::memmem;

use super::record::{ENCODING, EntryHeader, FIXED_LEN, RECORDS_AT, Record};
use super::{CODECS, CudaKind, FLAG_ATTRIBUTES, PADDING, entries_range, plain_len};
use crate::base::bytes::{len_of, len_u64, slice, span, text};
use crate::base::codec::Method;
use crate::base::error::{Error, ErrorKind, Malformed, Result, WithPath};
use crate::base::io::input::Slice;
use crate::base::io::piece::{self, Piece, Sink, emit, sum, too_long, total_len};
use crate::beyond::code::{CodeMagic, elf, ptx};
use crate::beyond::codec::Codec;
use crate::beyond::container::Magic;
use crate::beyond::container::packed::{LastInflated, Packed};
use crate::beyond::container::sequence::Content;
use crate::beyond::parallel;

/// The field of a fatbin's header with the length of all entries.
const ENTRIES_LEN: Range<usize> = 8..16;

/// The level of zstd for the first try to compress the new content of a code object.
const FIRST_LEVEL: i32 = 9;

/// The slower level of zstd for a new content that is longer than the old one at [`FIRST_LEVEL`].
const SLOW_LEVEL: i32 = 19;

/// The offset of the ABI version in an ELF header, in bytes.
const ABI_VERSION_AT: usize = 8;

/// The way in which the code objects of a fatbin are written. Unless they are replaced, plain PTX and code of other
/// kinds than PTX and cubins keep their form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CodePacking<'n> {
    /// Writes each code object in the smallest of three forms: as it is, compressed, or plain.
    Smallest {
        /// The method, or `None` for the method that the fatbin uses already (LZ4 if its code is plain).
        codec: Option<Codec>,
        /// The level of zstd.
        level: i32,
    },
    /// Writes cubins plain, and PTX as it is.
    Plain,
    /// Writes the code objects as they are, except one of any kind, which gets another content in its old form.
    Replacing {
        /// The index of the replaced code object in the fatbin.
        index: usize,
        /// The new content.
        content: &'n [u8],
    },
}

/// Writes a fatbin again, with the code objects whose index passes `keeps`. The fatbin must have no faults. Compressed
/// code may inflate to `limit` bytes. Returns the length of the new fatbin in bytes.
///
/// # Errors
/// - [`ErrorKind::Malformed`] if a code object cannot be inflated
/// - [`ErrorKind::Usage`] if the method was left out when the library was built
/// - [`ErrorKind::Io`] if `to` fails
/// - [`ErrorKind::Unsupported`] if the end of a new content would be lost
pub(crate) fn rewrite<W: Write + Seek>(
    data: Slice<'_>,
    keeps: impl Fn(usize) -> bool,
    packing: CodePacking<'_>,
    limit: u64,
    to: &mut piece::Writer<'_, W>,
) -> Result<u64> {
    let path = data.path();
    let range = entries_range(data.bytes(), data.offset()).with_path(path)?;
    let records = Record::all(data.bytes(), data.offset(), range.clone()).collect::<Result<Vec<_>, _>>();
    let records = records.with_path(path)?;
    let writer = FatbinWriter { data, compression: choose_compression(&records, packing), limit };
    let start = to.seek(SeekFrom::Current(0))?;
    let mut header = writer.data.claimed(&(0..range.start))?.bytes().to_vec();
    // The old header only reserves the space: it is written again at the end, when the length of the entries is known.
    to.write(&header)?;
    let entries = kept_entries(&records, keeps).with_path(path)?;
    let len = parallel::in_order(
        entries,
        |entry| writer.rewrite_entry(&entry, packing),
        // An error takes hardly any memory.
        |pieces| pieces.as_deref().map_or(1, |pieces| pieces.iter().map(weight_of).sum()),
        |entries| {
            let mut len = 0;
            for pieces in entries {
                let pieces = pieces?;
                len = sum([len, total_len(&pieces)?])?;
                emit(&pieces, to)?;
            }
            Ok::<_, Error>(len)
        },
    )?;
    let field = header.get_mut(ENTRIES_LEN).ok_or_else(|| Error::internal("the header of a fatbin is too short"))?;
    field.copy_from_slice(&len.to_le_bytes());
    to.fill_in(start, &header)?;
    sum([range.start, len])
}

/// An entry with at least one code object that is kept.
struct KeptEntry<'r, 'a> {
    record: &'r Record<'a>,
    /// The code objects that are compressed together, or `None` for a single one.
    parts: Option<Vec<Record<'a>>>,
    /// The indices of its code objects in the fatbin.
    indices: Range<usize>,
    /// Whether each code object is kept.
    kept: Vec<bool>,
}

/// Returns the entries with code objects that are kept.
fn kept_entries<'r, 'a>(
    records: &'r [Record<'a>],
    keeps: impl Fn(usize) -> bool,
) -> Result<Vec<KeptEntry<'r, 'a>>, Malformed> {
    let (mut entries, mut next_index) = (Vec::new(), 0_usize);
    for record in records {
        let parts = record.parts()?;
        // Indices count code objects, and an entry may have several.
        let count = match &parts {
            Some(parts) => parts.len(),
            None => 1,
        };
        let indices = next_index..next_index.saturating_add(count);
        next_index = indices.end;
        let kept: Vec<bool> = indices.clone().map(&keeps).collect();
        if kept.contains(&true) {
            entries.push(KeptEntry { record, parts, indices, kept });
        }
    }
    Ok(entries)
}

/// Returns the weight of a piece for [`parallel::in_order`], by the memory that it takes until it is written.
fn weight_of(piece: &Piece<'_>) -> usize {
    match piece {
        Piece::Bytes(bytes) => parallel::weight_of_len(len_u64(bytes)),
        Piece::Input(_) | Piece::Zeros(_) => 1,
    }
}

/// Returns the code object to replace in an entry whose code objects have these `indices` in the fatbin: its index in
/// the entry, and its new content. Returns `None` if the entry keeps its contents.
fn replacement_in<'n>(indices: &Range<usize>, packing: CodePacking<'n>) -> Option<(usize, &'n [u8])> {
    match packing {
        CodePacking::Replacing { index, content } if indices.contains(&index) => {
            Some((index.saturating_sub(indices.start), content))
        }
        _ => None,
    }
}

/// Returns the method of compression and the level, or `None` if code objects are written plain. If the caller leaves
/// the method open, zstd is used only in a fatbin that has it already: older drivers do not read it.
fn choose_compression(records: &[Record<'_>], packing: CodePacking<'_>) -> Option<Compression> {
    let CodePacking::Smallest { codec, level } = packing else { return None };
    if let Some(codec) = codec {
        return Some((codec, level));
    }
    let uses_zstd = records.iter().any(|record| record.codec() == Some(Codec::Zstd));
    Some((if uses_zstd { Codec::Zstd } else { Codec::Lz4 }, level))
}

/// Makes the new entries of a fatbin.
struct FatbinWriter<'a> {
    data: Slice<'a>,
    /// The compression of code objects that get smaller by it, or `None` to write them plain.
    compression: Option<Compression>,
    /// The largest size in bytes that compressed code may inflate to.
    limit: u64,
}

/// The method of compression, and the level of zstd.
type Compression = (Codec, i32);

impl<'a> FatbinWriter<'a> {
    /// Makes the new form of an entry.
    fn rewrite_entry(&self, entry: &KeptEntry<'_, 'a>, packing: CodePacking<'_>) -> Result<Vec<Piece<'a>>> {
        let record = entry.record;
        match (&entry.parts, replacement_in(&entry.indices, packing)) {
            // Only the entry of the replaced code object changes.
            (_, None) if matches!(packing, CodePacking::Replacing { .. }) => self.keep(record),
            (None, None) => self.repack(record),
            (None, Some((_, content))) => self.replace_content(record, content),
            (Some(parts), replacement) => self.repack_concatenated(record, parts, &entry.kept, replacement),
        }
    }

    /// Packs an entry with one code object again, or keeps it as it is.
    fn repack(&self, record: &Record<'a>) -> Result<Vec<Piece<'a>>> {
        let (codec, kind) = (record.codec(), record.kind());
        let keeps_form = match (kind, self.compression) {
            // Code with an unknown method cannot be inflated.
            _ if codec == Some(Codec::Unknown) => true,
            // PTX keeps its form even if code is not to be compressed: `fatbinary` compresses PTX by default.
            (CudaKind::Ptx, None) => true,
            // Plain PTX stays plain: its compiler was asked for that.
            (CudaKind::Ptx, Some(_)) => codec.is_none(),
            // Cubins are written plain.
            (CudaKind::Cubin, None) => codec.is_none(),
            // `fatbinary` leaves a cubin plain if its header lacks attributes.
            (CudaKind::Cubin, Some(_)) => codec.is_none() && lacks_attributes(record),
            // No tool is known that reads another form of these.
            (CudaKind::LtoIr | CudaKind::TileIr | CudaKind::Other(_), _) => true,
        };
        if keeps_form {
            return self.keep(record);
        }
        let content = self.content(record)?;
        let old = if may_keep_form(codec, self.compression) { Some(self.keep(record)?) } else { None };
        self.pack(NewHeader::of(record), kind, content.as_slice().bytes(), self.compression, old)
    }

    /// Gives the code object of an entry another content, compressed or plain like the old one. `content` is without
    /// the zero byte after PTX, which [`with_zero`] adds.
    fn replace_content(&self, record: &Record<'a>, content: &[u8]) -> Result<Vec<Piece<'a>>> {
        let kind = record.kind();
        self.ensure_attributes(record, content)?;
        let (header, content) = (header_for(record, content), with_zero(kind, content));
        let Some(codec) = record.codec() else {
            self.ensure_end_can_be_found(record, &content)?;
            return encode_entry(header, content.into_owned(), None);
        };
        let (codec, packed) = self.pack_as(record, codec, &content)?;
        encode_entry(header, packed, Some((codec, len_u64(&content))))
    }

    /// Compresses a new content with the method of the old one, but with LZ4 instead of zlib. If the result is longer
    /// than the old one, zstd compresses it at a slower level, because an entry in a library has no room to grow. LZ4
    /// has no levels here.
    fn pack_as(&self, record: &Record<'_>, codec: Codec, content: &[u8]) -> Result<(Codec, Vec<u8>)> {
        let (codec, _) = same_compression(Some(codec));
        let old = record.stored().with_path(self.data.path())?;
        let mut packed = codec.compress(content, FIRST_LEVEL, self.data.path())?;
        if len_u64(&packed) > len_of(&old) && codec == Codec::Zstd {
            packed = codec.compress(content, SLOW_LEVEL, self.data.path())?;
        }
        Ok((codec, packed))
    }

    /// Fails if a new cubin has other attributes than the old one. The header has a copy of them.
    fn ensure_attributes(&self, record: &Record<'_>, content: &[u8]) -> Result<()> {
        let Some(old) = record.attributes() else { return Ok(()) };
        let new = elf::File::read(content).ok().and_then(|cubin| cubin.section_named(b".nv.compat"));
        if new == Some(old) {
            return Ok(());
        }
        let reason = "the fatbin has a copy of the section '.nv.compat' of its cubin, and the new cubin has another one: it was made \
             for another architecture, or with other options";
        Err(Error::refused(ErrorKind::Unsupported, self.data.path(), record.offset(), reason))
    }

    /// Fails if a reader would not find the end of `content` again. The fatbin records the exact length only of code
    /// objects that are compressed on their own. A reader finds the end of a plain code object, or of one that is
    /// compressed with others, in its content.
    fn ensure_end_can_be_found(&self, record: &Record<'_>, content: &[u8]) -> Result<()> {
        if end_can_be_found(record.kind(), content) {
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

    /// Packs an entry with several code objects again, without the code objects for which `kept` is false.
    /// `replacement` is the code object to replace: its index in the entry, and its new content.
    fn repack_concatenated(
        &self,
        record: &Record<'a>,
        parts: &[Record<'a>],
        kept: &[bool],
        replacement: Option<(usize, &[u8])>,
    ) -> Result<Vec<Piece<'a>>> {
        let codec = record.codec();
        let is_ptx = parts.iter().all(Record::is_ptx);
        // An entry without a change stays if it cannot be inflated, or if it is PTX and code is not to be compressed.
        let keeps_all = !kept.contains(&false) && replacement.is_none();
        let may_stay = codec == Some(Codec::Unknown) || (is_ptx && self.compression.is_none());
        if keeps_all && may_stay {
            return self.keep(record);
        }
        let content = self.content(record)?;
        let codes = self.kept_codes(parts, kept, content.as_slice().bytes(), replacement)?;
        // PTX stays compressed, and so does all code of the entry if a code object is replaced.
        let stays_compressed = is_ptx || (replacement.is_some() && codec.is_some());
        let compression = match self.compression {
            None if stays_compressed => Some(same_compression(codec)),
            compression => compression,
        };
        // Code objects are put together only to be compressed, and a single one needs no records.
        let Some((method, level)) = compression.filter(|_| codes.len() > 1) else {
            let may_keep = keeps_all && codes.len() == 1 && may_keep_form(codec, compression);
            let old = if may_keep { Some(self.keep(record)?) } else { None };
            return self.pack_separately(codes, compression, old);
        };
        let (whole, strings) = concatenate(codes)?;
        let header = NewHeader { fields: record.fields, strings: &strings };
        // An entry with a replaced code object keeps its method. It may be compressed harder to fit into the old space.
        // `pack_as` uses the same `method`, because a replacement comes without a compression for the whole fatbin.
        let packed = match (replacement, codec) {
            (Some(_), Some(codec)) => self.pack_as(record, codec, &whole)?.1,
            _ => method.compress(&whole, level, self.data.path())?,
        };
        let old_len = len_of(&record.range());
        if keeps_all && drivers_read(codec, method) && old_len <= entry_len(header, &packed)? {
            return self.keep(record);
        }
        encode_entry(header, packed, Some((method, len_u64(&whole))))
    }

    /// Gives each code object its own entry. `old` is the old entry of a single code object, or `None` if that entry
    /// must not stay.
    fn pack_separately(
        &self,
        codes: Vec<KeptCode<'_>>,
        compression: Option<Compression>,
        mut old: Option<Vec<Piece<'a>>>,
    ) -> Result<Vec<Piece<'a>>> {
        let mut pieces = Vec::new();
        for KeptCode { header, kind, bytes } in codes {
            pieces.extend(self.pack(header, kind, without_padding(kind, &bytes), compression, old.take())?);
        }
        Ok(pieces)
    }

    /// Returns the code objects of an entry that are `kept`. `whole` has the bytes of all code objects of the entry.
    /// `replacement` is the code object to replace: its index in the entry, and its new content.
    fn kept_codes<'c>(
        &self,
        parts: &[Record<'c>],
        kept: &[bool],
        whole: &'c [u8],
        replacement: Option<(usize, &[u8])>,
    ) -> Result<Vec<KeptCode<'c>>> {
        let mut codes = Vec::new();
        for ((index, part), &is_kept) in parts.iter().enumerate().zip(kept) {
            if !is_kept {
                continue;
            }
            let (header, bytes) = match replacement {
                Some((replaced, content)) if replaced == index => {
                    self.ensure_attributes(part, content)?;
                    let mut content = with_zero(part.kind(), content).into_owned();
                    // The record of a code object has only its length with padding, even if the entry is compressed.
                    self.ensure_end_can_be_found(part, &content)?;
                    content.resize(content.len().next_multiple_of(8), 0);
                    (header_for(part, &content), Cow::Owned(content))
                }
                _ => {
                    let bytes = slice(whole, part.offset_in_whole(), part.fields.stored_len);
                    (NewHeader::of(part), Cow::Borrowed(bytes.ok_or_else(|| self.beyond_inflated(part))?))
                }
            };
            codes.push(KeptCode { header, kind: part.kind(), bytes });
        }
        Ok(codes)
    }

    /// Packs one code object in its smallest form, or plain without a `compression`. `old` is the old entry, or `None`
    /// if the code object must not keep its form.
    fn pack(
        &self,
        header: NewHeader<'_>,
        kind: CudaKind,
        content: &[u8],
        mut compression: Option<Compression>,
        old: Option<Vec<Piece<'a>>>,
    ) -> Result<Vec<Piece<'a>>> {
        // A form that must not be used counts as the longest.
        let old_len = match &old {
            Some(old) => total_len(old)?,
            None => u64::MAX,
        };
        let can_be_plain = end_can_be_found(kind, content);
        let plain_len = if can_be_plain { entry_len(header, content)? } else { u64::MAX };
        // LZ4 takes no more than 2 GiB.
        if matches!(compression, Some((Codec::Lz4, _))) && i32::try_from(content.len()).is_err() {
            compression = None;
        }
        if let Some((codec, level)) = compression {
            let packed = codec.compress(content, level, self.data.path())?;
            let packed_len = entry_len(header, &packed)?;
            if packed_len < old_len && packed_len <= plain_len {
                return encode_entry(header, packed, Some((codec, len_u64(content))));
            }
        }
        match old {
            // The compressed form was not smaller, and the plain form is not smaller either.
            Some(old) if compression.is_some() && old_len <= plain_len => Ok(old),
            // A reader would not find the end of the plain code object.
            Some(old) if !can_be_plain => Ok(old),
            // The plain form is asked for or the smallest. Or the code object must not keep its form and cannot be
            // compressed: then readers may drop zeros at its end as padding.
            _ => encode_entry(header, content.to_vec(), None),
        }
    }

    /// Keeps an entry as it was.
    fn keep(&self, record: &Record<'a>) -> Result<Vec<Piece<'a>>> {
        Ok(vec![Piece::Input(self.data.claimed(&record.range())?)])
    }

    /// Returns the code objects of an entry, PTX with its zero byte: all inflated bytes of a compressed entry,
    /// otherwise the code object without padding.
    fn content(&self, record: &Record<'a>) -> Result<Content<'a>> {
        let stored = record.stored().with_path(self.data.path())?;
        let Some(codec) = record.codec() else {
            let payload = self.data.claimed(&stored)?;
            let len = len_u64(without_padding(record.kind(), payload.bytes()));
            return Ok(Content::InPlace(self.data.claimed(&span(stored.start, len))?));
        };
        let packed = Packed { limit: self.limit, ..Packed::whole(stored, codec, record.fields.inflated) };
        // Each entry is read once, so the inflated bytes are not kept for the next one.
        let whole = LastInflated::default().get(self.data, &packed)?;
        let range = 0..whole.len();
        Ok(Content::Inflated(whole, range))
    }

    /// Makes the error for a code object that is compressed with others, and would end after their inflated bytes.
    fn beyond_inflated(&self, part: &Record<'_>) -> Error {
        let (what, expected) =
            ("length of a code object compressed with others", "no more than their inflated bytes have");
        let malformed = Malformed::value(what, part.fields.stored_len, part.offset(), expected);
        Error::malformed(self.data.path(), malformed)
    }
}

/// Whether the header of a cubin lacks the attributes that cubins for sm_100 and later have there. The flag marks such
/// a cubin, and the attributes would be in place of the options.
fn lacks_attributes(record: &Record<'_>) -> bool {
    record.fields.flags & FLAG_ATTRIBUTES != 0 && !record.has_options()
}

/// Whether a code object may stay compressed as it is while the other code of its fatbin gets `compression`: each
/// driver that reads the new compression must also read the old one.
fn may_keep_form(codec: Option<Codec>, compression: Option<Compression>) -> bool {
    match compression {
        Some((method, _)) => drivers_read(codec, method),
        None => true,
    }
}

/// Whether all drivers that read `method` also read code with the compression `codec`: only later drivers read zstd.
fn drivers_read(codec: Option<Codec>, method: Codec) -> bool {
    codec != Some(Codec::Zstd) || method == Codec::Zstd
}

/// Returns the compression for new code in place of code with the compression `codec`: zstd for zstd, otherwise LZ4.
fn same_compression(codec: Option<Codec>) -> Compression {
    (if codec == Some(Codec::Zstd) { Codec::Zstd } else { Codec::Lz4 }, Method::Zstd.default_level())
}

/// Returns the bytes of a code object as they are stored: PTX ends in a zero byte.
fn with_zero(kind: CudaKind, content: &[u8]) -> Cow<'_, [u8]> {
    if kind == CudaKind::Ptx { Cow::Owned([content, b"\0"].concat()) } else { Cow::Borrowed(content) }
}

/// Returns the bytes of code objects that are to be compressed together, and the strings of their entry: a record for
/// each code object, after the two numbers about the records.
fn concatenate(codes: Vec<KeptCode<'_>>) -> Result<(Vec<u8>, Vec<u8>)> {
    let count = u32::try_from(codes.len()).map_err(|_| too_long())?;
    let (mut whole, mut records) = (Vec::new(), Vec::new());
    for KeptCode { header: NewHeader { fields, strings }, bytes, .. } in codes {
        // In a record, the field at 4 is the offset of the code object in `whole`.
        let fields = EntryHeader { at_4: len_u64(&whole), stored_len: len_u64(&bytes), ..fields };
        records.extend(ENCODING.try_encode(&[fields]).ok_or_else(too_long)?);
        records.extend(strings);
        whole.extend_from_slice(&bytes);
    }
    // The second number is the length of the records with both numbers.
    let len = len_u64(&records).saturating_add(RECORDS_AT - FIXED_LEN);
    let len = u32::try_from(len).map_err(|_| too_long())?;
    let strings = [&count.to_le_bytes()[..], &len.to_le_bytes(), &records].concat();
    Ok((whole, strings))
}

/// A code object that is kept of an entry with several, or its new content.
struct KeptCode<'c> {
    header: NewHeader<'c>,
    kind: CudaKind,
    /// The code object with its padding.
    bytes: Cow<'c, [u8]>,
}

/// A header to write. [`encode_entry`] fills in its lengths and the flags of the method.
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

/// Returns the header of a record for another content, with the version of that content.
fn header_for<'s>(record: &Record<'s>, content: &[u8]) -> NewHeader<'s> {
    let mut header = NewHeader::of(record);
    if let Some((major, minor)) = version_of(record.kind(), content) {
        (header.fields.major, header.fields.minor) = (u64::from(major), u64::from(minor));
    }
    header
}

/// Returns the major and minor version that the header of an entry has for its content: the version of the language for
/// PTX; for a cubin, the version of ELF, which is always 1, and the ABI version. Returns `None` for other content.
fn version_of(kind: CudaKind, content: &[u8]) -> Option<(u16, u16)> {
    match kind {
        CudaKind::Ptx => Some(ptx::Header::of(content)?.version),
        CudaKind::Cubin if Magic::identify(content) == Magic::Code(CodeMagic::Cubin) => {
            Some((1, (*content.get(ABI_VERSION_AT)?).into()))
        }
        CudaKind::Cubin | CudaKind::LtoIr | CudaKind::TileIr | CudaKind::Other(_) => None,
    }
}

/// Returns the architecture of PTX or a cubin as the compiler was asked for it, with its suffix, or `None` if the
/// content does not record it. The ELF header does not always have the suffix, so a note with the compiler's options is
/// read.
pub(crate) fn made_for(content: &[u8]) -> Option<String> {
    const OPTION: &[u8] = b"-arch ";
    if Magic::identify(content) != Magic::Code(CodeMagic::Cubin) {
        return Some(ptx::Header::of(content)?.sm);
    }
    let note = elf::File::read(content).ok()?.section_named(b".note.nv.tkinfo")?;
    let word = note.get(memmem::find(note, OPTION)?..)?.strip_prefix(OPTION)?;
    text(word.split(|byte| byte.is_ascii_whitespace() || *byte == 0).next()?)
}

/// Returns a code object without its padding, with the zero byte after PTX.
fn without_padding(kind: CudaKind, padded: &[u8]) -> &[u8] {
    let len = plain_len(kind, padded).saturating_add(u64::from(kind == CudaKind::Ptx));
    slice(padded, 0, len).unwrap_or(padded)
}

/// Whether a reader finds the end of a plain code object again, once it is padded. The fatbin does not record the exact
/// length of a plain code object.
fn end_can_be_found(kind: CudaKind, content: &[u8]) -> bool {
    let mut padded = Cow::Borrowed(content);
    // Padded as `encode_entry` does it, and read as `content` does it.
    let len = content.len().next_multiple_of(8);
    if len > content.len() {
        padded.to_mut().resize(len, 0);
    }
    without_padding(kind, &padded) == content
}

/// The length of an entry with these bytes.
fn entry_len(header: NewHeader<'_>, bytes: &[u8]) -> Result<u64> {
    sum([FIXED_LEN, len_u64(header.strings), len_u64(bytes).checked_next_multiple_of(PADDING).ok_or_else(too_long)?])
}

/// Makes the pieces of an entry with these bytes. `compressed` has the method and the inflated length, or is `None` for
/// plain bytes.
fn encode_entry<'p>(header: NewHeader<'_>, bytes: Vec<u8>, compressed: Option<(Codec, u64)>) -> Result<Vec<Piece<'p>>> {
    let NewHeader { mut fields, strings } = header;
    let len = len_u64(&bytes);
    let stored_len = len.checked_next_multiple_of(PADDING).ok_or_else(too_long)?;
    // The field has the length of the header here. If the header was a record, the field was an offset.
    fields.at_4 = sum([FIXED_LEN, len_u64(strings)])?;
    fields.stored_len = stored_len;
    (fields.exact_len, fields.inflated) = (0, 0);
    for (flag, _) in CODECS {
        fields.flags &= !flag;
    }
    if let Some((method, inflated)) = compressed {
        (fields.exact_len, fields.inflated) = (len, inflated);
        for (flag, codec) in CODECS {
            // Nothing is compressed with an unknown method, so its flags are never set.
            if codec == method && codec != Codec::Unknown {
                fields.flags |= flag;
            }
        }
    }
    let header = [&ENCODING.try_encode(&[fields]).ok_or_else(too_long)?, strings].concat();
    Ok(vec![Piece::Bytes(header), Piece::Bytes(bytes), Piece::Zeros(stored_len.saturating_sub(len))])
}

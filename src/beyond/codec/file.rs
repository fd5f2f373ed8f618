//! Inflates files that are compressed as a whole: gzip, xz, bzip2 and zstd.
//!
//! Several compressed parts in a row are one file, as for the programs of these names. The decoders find wrong
//! checksums.
//!
//! Rejected: data that the decoder refuses, an xz file that needs more than 1 GiB of memory, and a zstd file with a
//! window of more than 128 MiB. `zstd` writes such windows only with the option `--long`.

use std::cell::Cell;
use std::io::{self, BufRead, Read};
use std::rc::Rc;

use crate::base::codec::decoder::Decoder;

/// A method that compresses a whole file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coding {
    Gzip,
    Xz,
    Bzip2,
    Zstd,
}

impl Coding {
    /// The name of a file that is compressed with this method.
    pub(crate) const fn file_name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip file",
            Self::Xz => "xz file",
            Self::Bzip2 => "bzip2 file",
            Self::Zstd => "zstd file",
        }
    }

    /// A reader of the inflated bytes of a file that begins with a compressed part. Other parts may follow, and zeros,
    /// as tapes are padded to whole blocks. The reader ends before any other data; see [`FileDecoder::trailing`].
    pub(crate) fn inflate<'d>(self, reader: impl BufRead + 'd) -> io::Result<FileDecoder<'d>> {
        let is_before_other_data = Rc::<Cell<bool>>::default();
        let flag = Rc::clone(&is_before_other_data);
        let decoder = Decoder::new(reader, |reader| {
            let reader = PartsReader { reader, is_before_other_data: flag };
            // `with!` returns an error in a build without the library of the format.
            match self {
                Self::Gzip => with!("zlib", {
                    type Part<R> = flate2::bufread::GzDecoder<R>;
                    Ok(Box::new(FileParts {
                        part: Some(Part::new(reader)),
                        skip_to_next: |part: &mut Part<PartsReader<_>>| part.get_mut().skip_to_next_part(begins_gzip),
                        next: |part: Part<_>| Part::new(part.into_inner()),
                    }))
                }),
                Self::Xz => with!("xz", Ok(Box::new(super::xz::Xz::new(reader)?))),
                Self::Bzip2 => with!("bzip2", {
                    type Part<R> = bzip2::bufread::BzDecoder<R>;
                    Ok(Box::new(FileParts {
                        part: Some(Part::new(reader)),
                        skip_to_next: |part: &mut Part<PartsReader<_>>| part.get_mut().skip_to_next_part(begins_bzip2),
                        next: |part: Part<_>| Part::new(part.into_inner()),
                    }))
                }),
                Self::Zstd => with!("zstd", Ok(Box::new(super::frames::ZstdFile::new(reader)?))),
            }
        })?;
        Ok(FileDecoder { decoder, is_before_other_data })
    }
}

/// A reader of the inflated bytes of a file.
pub(crate) struct FileDecoder<'d> {
    decoder: Decoder<'d>,
    /// Whether the compressed parts ended, and other data follows.
    is_before_other_data: Rc<Cell<bool>>,
}

impl FileDecoder<'_> {
    /// Returns the offset of data that follows the compressed parts of a file and is not such a part. Returns `None` if
    /// nothing follows them, or if the last part was not read to its end.
    pub(crate) fn trailing(&self) -> Option<u64> {
        if self.is_before_other_data.get() { Some(self.decoder.used()) } else { None }
    }
}

impl Read for FileDecoder<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.decoder.read(buffer)
    }
}

/// A reader of compressed data that finds the parts of a file.
pub(super) struct PartsReader<R> {
    pub(super) reader: R,
    /// Whether the compressed parts ended, and other data follows.
    pub(super) is_before_other_data: Rc<Cell<bool>>,
}

impl<R: BufRead> PartsReader<R> {
    /// Skips zeros after a compressed part. Returns whether another part follows, which `begins` recognizes by its
    /// first bytes. If other data follows, notes this for [`FileDecoder::trailing`].
    pub(super) fn skip_to_next_part(&mut self, begins: impl Fn(&[u8]) -> bool) -> io::Result<bool> {
        loop {
            let rest = self.fill_buf()?;
            let zeros = rest.iter().take_while(|&&byte| byte == 0).count();
            match zeros {
                0 if rest.is_empty() => return Ok(false),
                0 if begins(rest) => return Ok(true),
                0 => {
                    self.is_before_other_data.set(true);
                    return Ok(false);
                }
                zeros => self.consume(zeros),
            }
        }
    }
}

impl<R: Read> Read for PartsReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.reader.read(buffer)
    }
}

impl<R: BufRead> BufRead for PartsReader<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.reader.fill_buf()
    }

    fn consume(&mut self, count: usize) {
        self.reader.consume(count);
    }
}

/// Whether data begins with a part of a gzip file.
fn begins_gzip(data: &[u8]) -> bool {
    may_begin_with(data, b"\x1f\x8b\x08")
}

/// The bytes after the level in a bzip2 file: the start of a block, or the end of a part without content.
pub(crate) const BZIP2_BLOCKS: [&[u8]; 2] = [b"1AY&SY", &[0x17, 0x72, 0x45, 0x38, 0x50, 0x90]];

/// Whether data begins with a part of a bzip2 file: `BZh`, a digit for the size of the blocks, and the magic number of
/// a block or of the end of the part. Data that is shorter has to be the beginning of these.
fn begins_bzip2(data: &[u8]) -> bool {
    let (magic, rest) = data.split_at(data.len().min(3));
    if !may_begin_with(magic, b"BZh") {
        return false;
    }
    let Some((size, rest)) = rest.split_first() else { return true };
    matches!(size, b'1'..=b'9') && BZIP2_BLOCKS.iter().any(|block| may_begin_with(rest, block))
}

/// A reader of all compressed parts of a file, one after the other, for decoders that end with their part.
struct FileParts<P, G, N> {
    /// The decoder of the current part; `None` after the last part.
    part: Option<P>,
    /// Skips padding after the end of the current part. Returns whether another part follows.
    skip_to_next: G,
    /// Turns the decoder of a part that has ended into that of the next part.
    next: N,
}

impl<P: Read, G: Fn(&mut P) -> io::Result<bool>, N: Fn(P) -> P> Read for FileParts<P, G, N> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(part) = &mut self.part {
            let read = part.read(buffer)?;
            // Without room in the buffer, 0 bytes are not the end of the part.
            if read > 0 || buffer.is_empty() {
                return Ok(read);
            }
            let has_next = (self.skip_to_next)(part)?;
            let ended = self.part.take();
            if has_next {
                self.part = ended.map(&self.next);
            }
        }
        Ok(0)
    }
}

/// Whether data begins with a magic number. Data that is shorter than the number has to be the beginning of it.
pub(super) fn may_begin_with(data: &[u8], magic: &[u8]) -> bool {
    data.iter().zip(magic).all(|(found, byte)| found == byte)
}

//! Reads and writes compressed bundles (CCOB): a header, then one zlib or zstd stream of a whole bundle of any other
//! format.
//!
//! | offset | v1 | v2 | v3 | meaning |
//! |---|---|---|---|---|
//! | 0 | 4 | 4 | 4 | magic `CCOB` |
//! | 4 | 2 | 2 | 2 | version |
//! | 6 | 2 | 2 | 2 | method: 0 zlib, 1 zstd |
//! | 8 | – | 4 | 8 | total size in bytes, this header included |
//! | | 4 | 4 | 8 | size of the inflated bundle in bytes |
//! | | 8 | 8 | 8 | hash: the first 8 bytes of the MD5 of the inflated bundle |
//!
//! Integers are little-endian. A zstd stream may be several frames, skippable ones too. Version 1 does not record the
//! total size: the bundle ends with the last whole zstd frame, of 256 at most, or with the zlib stream. Only
//! inflating finds the end of a zlib stream. Layout: LLVM 18 (v1), LLVM 19 (v2), LLVM 22.1.8 (v3). The writer selects
//! the oldest of v2 and v3 that can hold the sizes, so that runtimes before ROCm 7 can read it. The default
//! compression is that of LLVM 22.1.8: zstd with long-distance matching, level 3.
//!
//! Rejected: another version or method, sizes or a hash that disagree with the data, bytes after the stream.

use std::io::{self, Seek, SeekFrom, Write};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use super::limits::Limits;
use super::stream::{Compressed, Recorded};
use crate::base::bytes::Cursor;
use crate::base::codec::{self, Compression, Method, deflate, hash};
use crate::base::error::{Error, ErrorKind, Malformed, Result, WithPath};
use crate::base::io::input::Slice;
use crate::base::io::piece::{Piece, Writer, sum, total_len};

/// The magic string of a compressed bundle.
pub const MAGIC: &[u8; 4] = b"CCOB";

/// The name of the format in messages.
const WHAT: &str = "compressed bundle";

/// A version of the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderVersion {
    /// Without a total size. Only read, because LLVM no longer writes it.
    V1,
    /// With 32-bit sizes.
    V2,
    /// With 64-bit sizes.
    V3,
}

impl HeaderVersion {
    const ALL: [Self; 3] = [Self::V1, Self::V2, Self::V3];

    /// The number of the version, as stored in the header.
    pub fn number(self) -> u16 {
        match self {
            Self::V1 => 1,
            Self::V2 => 2,
            Self::V3 => 3,
        }
    }

    /// The length of the header in bytes.
    pub fn header_len(self) -> u64 {
        match self {
            Self::V1 => 20,
            Self::V2 => 24,
            Self::V3 => 32,
        }
    }
}

/// The fields of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Header {
    version: HeaderVersion,
    method: Method,
    /// The size of header and stream in bytes, or `None` in version 1, which does not record it.
    total: Option<u64>,
    /// The size of the inflated bundle in bytes.
    inflated: u64,
    /// The first 8 bytes of the MD5 of the inflated bundle, as a little-endian number.
    hash: u64,
}

impl Header {
    /// Reads the header at the start of `data`. Returns `None` without the magic. Offsets in errors count from `base`.
    ///
    /// # Errors
    /// [`Malformed`] for a truncated header, or an invalid version, method or total.
    fn read(data: &[u8], base: u64) -> Result<Option<Self>, Malformed> {
        let Some(mut cursor) = Cursor::after(MAGIC, data, base) else { return Ok(None) };
        let number = cursor.u16("the version of the compressed bundle")?;
        let version = HeaderVersion::ALL.into_iter().find(|version| version.number() == number);
        let version = version.ok_or_else(|| cursor.invalid("compressed bundle version", number, "1, 2 or 3"))?;
        let number = cursor.u16("the method of the compressed bundle")?;
        let method = [Method::Zlib, Method::Zstd].into_iter().find(|&method| method_number(method) == number);
        let method = method.ok_or_else(|| cursor.invalid("compression method", number, "0 (zlib) or 1 (zstd)"))?;
        let total_at = cursor.offset();
        let total = match version {
            HeaderVersion::V1 => None,
            _ => Some(read_size(&mut cursor, version, "the total size of the compressed bundle")?),
        };
        let inflated = read_size(&mut cursor, version, "the inflated size of the compressed bundle")?;
        let hash = cursor.u64("the hash of the compressed bundle")?;
        if let Some(total) = total
            && total < version.header_len()
        {
            return Err(Malformed::value("total size", total, total_at, "at least the length of the header"));
        }
        Ok(Some(Self { version, method, total, inflated, hash }))
    }

    fn recorded(&self) -> Recorded {
        let Self { version, method, total, inflated, hash } = *self;
        let version = u32::from(version.number());
        Recorded { what: WHAT, version, method, total, inflated, hash: Some(hash) }
    }

    /// Encodes the header. Sizes that do not fit the version are truncated.
    fn to_bytes(self) -> Vec<u8> {
        let mut bytes = Vec::from(MAGIC);
        bytes.extend(self.version.number().to_le_bytes());
        bytes.extend(method_number(self.method).to_le_bytes());
        let width = if self.version == HeaderVersion::V3 { 8 } else { 4 };
        for size in self.total.into_iter().chain([self.inflated]) {
            bytes.extend(size.to_le_bytes().iter().take(width));
        }
        bytes.extend(self.hash.to_le_bytes());
        bytes
    }
}

/// Reads a size in the width that the version has for sizes. `what` names the field in errors.
fn read_size(cursor: &mut Cursor<'_>, version: HeaderVersion, what: &'static str) -> Result<u64, Malformed> {
    match version {
        HeaderVersion::V1 | HeaderVersion::V2 => Ok(cursor.u32(what)?.into()),
        HeaderVersion::V3 => cursor.u64(what),
    }
}

fn method_number(method: Method) -> u16 {
    match method {
        Method::Zlib => 0,
        Method::Zstd => 1,
    }
}

/// Reads the header of the compressed bundle at the start of `data`. Returns `None` without the magic.
///
/// # Errors
/// [`ErrorKind::Malformed`] for a broken or incomplete bundle, or one that claims more than `limits` allow.
pub fn read<'a>(data: impl Into<Slice<'a>>, limits: Limits) -> Result<Option<Compressed<'a>>> {
    let data = data.into();
    parse(data, limits).with_path(data.path())
}

/// Like [`read`], with errors that do not name the file.
fn parse(data: Slice<'_>, limits: Limits) -> Result<Option<Compressed<'_>>, Malformed> {
    let offset = data.offset();
    let Some(header) = Header::read(data.bytes(), offset)? else { return Ok(None) };
    limits.check(WHAT, offset, header.inflated)?;
    let Header { version, method, total, .. } = header;
    let header_len = version.header_len();
    let recorded = header.recorded();
    let whole = data.claim(0, total.unwrap_or(data.len()), format_args!("the {WHAT}"))?;
    let rest = whole.claim(header_len, whole.len().saturating_sub(header_len), WHAT)?;
    // Without a total, the length of a zstd stream follows from its frames. The length of a zlib stream stays unknown
    // until the stream is inflated, and its body is all data after the header.
    let known_len = match total {
        Some(_) => Some(rest.len()),
        None => method.stream_len(rest.bytes()).map_err(|error| broken_stream(method, offset, error))?,
    };
    let body = rest.claim(0, known_len.unwrap_or(rest.len()), WHAT)?;
    let stream_len = match known_len {
        Some(len) => OnceLock::from(len),
        None => OnceLock::new(),
    };
    let stream_len = Arc::new(stream_len);
    Ok(Some(Compressed { recorded, offset, header_len, prefix: None, body, stream_len }))
}

/// The error for a stream of unknown length in which the end cannot be found, or whose method this build lacks.
fn broken_stream(method: Method, offset: u64, error: io::Error) -> Malformed {
    if error.kind() == io::ErrorKind::Unsupported {
        return codec::unsupported(WHAT, offset, error);
    }
    let reason = format!("the {} stream is broken: {error}", method.name());
    Malformed::compressed(WHAT, offset, reason)
}

/// Statistics of a compression.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Deflation {
    /// The header that was written.
    pub recorded: Recorded,
    /// The size of the stream without the header, in bytes.
    pub stream_len: u64,
    /// The requested level.
    pub level: i32,
    /// The time taken by compressing and hashing.
    pub elapsed: Duration,
}

/// Compresses a planned bundle to `out`, from its current position. Without a requested version, the header is the
/// oldest that can hold the sizes.
///
/// # Errors
/// [`ErrorKind::Limit`] if the requested version cannot hold the sizes, [`ErrorKind::Io`] if an input cannot be read,
/// and on the path `-` if `out` fails.
///
/// # Example
/// ```
/// use std::io::Cursor;
///
/// use offload_bundle::container::binary::Binary;
/// use offload_bundle::container::stream::{Compression, Method};
/// use offload_bundle::container::{Container, Member, compressed};
///
/// let code = vec![0; 100_000];
/// let member = Member { id: "hip-amdgcn-amd-amdhsa--gfx90a".to_owned(), content: (&code).into() };
/// let plan = Binary::default().plan(&[member])?;
/// let mut out = Cursor::new(Vec::new());
/// let deflation = compressed::write(&plan, &Compression::with_method(Method::Zstd), None, &mut out)?;
/// assert_eq!(deflation.recorded.total, Some(out.position()));
/// assert!(out.get_ref().starts_with(compressed::MAGIC) && out.position() < 1000);
/// # Ok::<(), offload_bundle::Error>(())
/// ```
pub fn write<W: Write + Seek>(
    pieces: &[Piece<'_>],
    compression: &Compression,
    requested: Option<HeaderVersion>,
    out: &mut W,
) -> Result<Deflation> {
    write_to(pieces, compression, requested, &mut Writer::new(out))
}

/// Like [`write`], with errors that name the output.
pub(crate) fn write_to<W: Write + Seek>(
    pieces: &[Piece<'_>],
    compression: &Compression,
    requested: Option<HeaderVersion>,
    to: &mut Writer<'_, W>,
) -> Result<Deflation> {
    write_with_limit(pieces, compression, requested, to, u64::from(u32::MAX))
}

/// Like [`write_to`], for tests with another `limit`: the largest size that a version 2 header can record.
fn write_with_limit<W: Write + Seek>(
    pieces: &[Piece<'_>],
    compression: &Compression,
    requested: Option<HeaderVersion>,
    to: &mut Writer<'_, W>,
    limit: u64,
) -> Result<Deflation> {
    let started = Instant::now();
    let inflated = total_len(pieces)?;
    // A request for version 1, which is never written, gives version 2.
    let mut version = match requested {
        Some(HeaderVersion::V3) => HeaderVersion::V3,
        None if inflated > limit => HeaderVersion::V3,
        _ if inflated > limit => return Err(too_large("Uncompressed size")),
        _ => HeaderVersion::V2,
    };
    // The stream is written first, because the header records its length.
    let start = to.seek(SeekFrom::Current(0))?;
    let stream_start = sum([start, version.header_len()])?;
    let (hash, mut stream_len) = hash::hash_during(pieces, || deflate(pieces, compression, stream_start, to))?;
    if version == HeaderVersion::V2 && sum([version.header_len(), stream_len])? > limit {
        if requested.is_some() {
            return Err(too_large("Total file size"));
        }
        // Compression has made data of almost 4 GiB larger. A header of version 3 is longer, so the stream has to begin
        // later. That is so rare that the data is simply compressed again.
        version = HeaderVersion::V3;
        stream_len = deflate(pieces, compression, sum([start, version.header_len()])?, to)?;
    }
    let total = Some(sum([version.header_len(), stream_len])?);
    let header = Header { version, method: compression.method, total, inflated, hash };
    to.fill_in(start, &header.to_bytes())?;
    Ok(Deflation { recorded: header.recorded(), stream_len, level: compression.level, elapsed: started.elapsed() })
}

/// The error for a size that does not fit a version 2 header, in LLVM's words.
fn too_large(size: &str) -> Error {
    Error::new(ErrorKind::Limit, format!("{size} exceeds version 2 limit"))
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;
    use crate::base::bytes::len_u64;
    use crate::base::codec::FRAMES_MAX;
    use crate::base::io::input::Input;

    /// Incompressible bytes.
    fn noise(len: usize) -> Vec<u8> {
        let mut state = 1_u32;
        let mut noise = Vec::with_capacity(len);
        for _ in 0..len {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            noise.push(state.to_be_bytes()[0]);
        }
        noise
    }

    fn compress(
        data: &[u8],
        compression: &Compression,
        requested: Option<HeaderVersion>,
        limit: u64,
    ) -> Result<(Vec<u8>, Deflation)> {
        let pieces = [Piece::Bytes(data.to_vec())];
        // Bytes before the bundle stay unchanged.
        let mut out = Cursor::new(b"before".to_vec());
        out.set_position(6);
        let to = &mut Writer::new(&mut out);
        let deflation = write_with_limit(&pieces, compression, requested, to, limit)?;
        assert_eq!(out.position(), len_u64(out.get_ref()));
        Ok((out.into_inner().strip_prefix(b"before").unwrap().to_vec(), deflation))
    }

    fn inflate(file: &[u8]) -> Result<Vec<u8>> {
        let input = Input::from_bytes("in", file.to_vec());
        let compressed = read(input.as_slice(), Limits::default())?.unwrap();
        Ok(compressed.inflate_whole()?.0.bytes().to_vec())
    }

    #[test]
    #[cfg_attr(miri, ignore = "compresses")]
    fn left_out_methods_are_errors_that_name_their_features() {
        let zlib = ("zlib", cfg!(feature = "zlib"));
        let zstd = ("zstd", cfg!(feature = "zstd"));
        for (name, (feature, is_built)) in
            [("v1-zlib", zlib), ("v1-zstd", zstd), ("v2-zlib", zlib), ("llvm22-v3", zstd)]
        {
            let method = Method::from_name(feature).unwrap();
            let file = format!("{}/fixtures/compressed/{name}.ccob", env!("CARGO_MANIFEST_DIR"));
            let read = inflate(&std::fs::read(file).unwrap()).map(|_| ());
            let written = compress(b"data", &Compression::with_method(method), None, 1 << 30).map(|_| ());
            for outcome in [read, written] {
                assert_eq!(outcome.is_ok(), is_built, "{name}");
                let text = outcome.err().map(|error| error.to_string());
                assert!(
                    text.is_none_or(
                        |text| text.ends_with(&format!("without the feature '{feature}' of offload_bundle"))
                    )
                );
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "compresses")]
    fn the_oldest_header_that_can_hold_the_sizes_is_written() {
        let data = noise(5000);
        let compression = Compression::with_method(Method::Zstd);
        // First every size fits. Then the total does not fit, so that the stream is moved. Last, not even the inflated
        // size fits.
        for (limit, version) in [(6000, HeaderVersion::V2), (5000, HeaderVersion::V3), (4999, HeaderVersion::V3)] {
            let (file, deflation) = compress(&data, &compression, None, limit).unwrap();
            let header = Header::read(&file, 0).unwrap().unwrap();
            assert_eq!((header.version, header.total), (version, Some(len_u64(&file))));
            assert_eq!(header.recorded(), deflation.recorded);
            assert_eq!(inflate(&file).unwrap(), data);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "compresses")]
    fn a_version_that_was_asked_for_is_kept_or_refused() {
        let data = noise(5000);
        let compression = Compression::with_method(Method::Zstd);
        let (_, deflation) = compress(&data, &compression, Some(HeaderVersion::V3), 6000).unwrap();
        assert_eq!(deflation.recorded.version, 3);
        for (limit, text) in
            [(4999, "Uncompressed size exceeds version 2 limit"), (5000, "Total file size exceeds version 2 limit")]
        {
            let error = compress(&data, &compression, Some(HeaderVersion::V2), limit).unwrap_err();
            assert_eq!(error.to_string(), text);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "compresses")]
    fn both_methods_come_back_at_any_level() {
        let data = [b"some text ".repeat(1000), noise(100)].concat();
        for method in [Method::Zlib, Method::Zstd] {
            for level in [-5, 0, 1, 9, 22, 100] {
                let (file, _) =
                    compress(&data, &Compression { level, ..Compression::with_method(method) }, None, 1 << 30).unwrap();
                assert_eq!(inflate(&file).unwrap(), data, "{method:?} {level}");
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "compresses")]
    fn version_1_ends_where_its_stream_ends() {
        for method in [Method::Zlib, Method::Zstd] {
            let data = noise(3000);
            let compression = Compression { level: 1, ..Compression::with_method(method) };
            let (file, _) = compress(&data, &compression, None, 1 << 30).unwrap();
            let header = Header { version: HeaderVersion::V1, total: None, ..Header::read(&file, 0).unwrap().unwrap() };
            let first = [&header.to_bytes(), &file[24..]].concat();
            let input = Input::from_bytes("in", [&first[..], b"CCOB and so on"].concat());
            let compressed = read(input.as_slice(), Limits::default()).unwrap().unwrap();
            assert_eq!(compressed.stream_len.get().is_some(), method == Method::Zstd);
            assert_eq!(compressed.inflate_whole().unwrap().0.bytes(), data);
            assert_eq!(compressed.stream_len.get(), Some(&(len_u64(&first) - 20)));
            assert_eq!(
                read(input.as_slice(), Limits::default()).unwrap().unwrap().stored_len().unwrap(),
                len_u64(&first)
            );
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "compresses")]
    fn version_1_ends_with_the_last_whole_frame() {
        let data = noise(3000);
        let hash = hash::hash_during(&[Piece::Bytes(data.clone())], || Ok(())).unwrap().0;
        let skippable = [&b"\x50\x2a\x4d\x18"[..], &[4, 0, 0, 0], b"CCOB"].concat();
        let [first, second] = [&data[..1000], &data[1000..]].map(|data| {
            let (pieces, mut out) = ([Piece::Bytes(data.to_vec())], Cursor::new(Vec::new()));
            let to = &mut Writer::new(&mut out);
            deflate(&pieces, &Compression::default(), 0, to).unwrap();
            out.into_inner()
        });
        let cut = second.len() - 1;
        for (parts, is_whole) in [
            (vec![&first, &second], true),
            (vec![&skippable, &first, &skippable, &skippable, &second, &skippable], true),
            (vec![&first], false),
            (vec![&skippable], false),
            (vec![&first, &second[..cut].to_vec()], false),
            ([vec![&skippable; FRAMES_MAX - 2], vec![&first, &second]].concat(), true),
            ([vec![&skippable; FRAMES_MAX - 1], vec![&first, &second]].concat(), false),
        ] {
            let header = Header { version: HeaderVersion::V1, method: Method::Zstd, total: None, inflated: 3000, hash };
            let bundle = [&header.to_bytes(), &parts.into_iter().flatten().copied().collect::<Vec<_>>()[..]].concat();
            // The bytes after the frame are no frame, or not a whole one.
            for after in [&b""[..], b"CCOB", &[0; 8], &skippable[..11], &skippable[..4]] {
                let input = Input::from_bytes("in", [&bundle[..], after].concat());
                let compressed = read(input.as_slice(), Limits::default()).unwrap().unwrap();
                let inflated = compressed.inflate_whole().map(|(inflated, _)| inflated.bytes().to_vec());
                assert_eq!(inflated.is_ok(), is_whole);
                if is_whole {
                    assert_eq!(inflated.unwrap(), data);
                    assert_eq!(compressed.stored_len().unwrap(), len_u64(&bundle));
                }
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "compresses")]
    fn every_field_is_checked() {
        for method in [Method::Zlib, Method::Zstd] {
            let compression = Compression { level: 1, ..Compression::with_method(method) };
            let (file, _) = compress(&noise(3000), &compression, None, 1 << 30).unwrap();
            let (header, stream) = (Header::read(&file, 0).unwrap().unwrap(), &file[24..]);
            let fault = fault_of(Header { hash: 1, ..header }, stream).to_string();
            assert!(fault.contains("recorded hash is 0x0000000000000001, but"), "{fault}");
            for inflated in [2999, 3001] {
                let fault = fault_of(Header { inflated, ..header }, stream).to_string();
                let expected = format!("the inflated size is recorded as {inflated} bytes, but is");
                assert!(fault.contains(&expected), "{fault}");
            }
            let total = header.total.map(|total| total + 1);
            assert!(matches!(fault_of(Header { total, ..header }, stream), Malformed::Truncated { .. }));
            let longer = [stream, b"x"].concat();
            assert!(matches!(fault_of(Header { total, ..header }, &longer), Malformed::Fault { .. }));
            let total = header.total.map(|total| total - 1);
            let fault = fault_of(Header { total, ..header }, stream).to_string();
            assert!(fault.contains(" stream is broken after "), "{fault}");
        }
    }

    /// The fault of a bundle of this header and stream.
    fn fault_of(header: Header, stream: &[u8]) -> Malformed {
        inflate(&[&header.to_bytes(), stream].concat()).unwrap_err().fault().unwrap().clone()
    }

    #[test]
    #[cfg(feature = "zstd")]
    fn the_total_size_counts_the_header() {
        for version in [HeaderVersion::V2, HeaderVersion::V3] {
            let compression = Compression { level: 3, ..Compression::default() };
            let (file, _) = compress(b"content", &compression, Some(version), u64::MAX).unwrap();
            let width = if version == HeaderVersion::V2 { 4 } else { 8 };
            for total in 0..=version.header_len() {
                let mut file = file.clone();
                file[8..8 + width].copy_from_slice(&total.to_le_bytes()[..width]);
                let said = inflate(&file).unwrap_err().to_string();
                let is_too_small = said.contains("total size") && said.contains("offset 8");
                assert_eq!(is_too_small, total < version.header_len(), "{total}: {said}");
            }
        }
    }
}

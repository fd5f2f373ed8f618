//! Reads kpack archives, in which ROCm keeps the device code of libraries that were split, and the references of those
//! libraries.
//!
//! | offset | width | meaning |
//! |---|---|---|
//! | 0 | 4 | magic `KPAK` |
//! | 4 | 4 | version 1 |
//! | 8 | 8 | offset of the table of contents, which ends with the archive |
//! | 64 | | the code objects |
//!
//! The table of contents is one MessagePack map; its keys may be in any order:
//!
//! | key | value |
//! |---|---|
//! | `gfx_arches` | array of target IDs: the loader decides by them whether the archive serves a GPU |
//! | `compression_scheme` | `none`, which is the default, or `zstd-per-kernel` |
//! | `blobs` | scheme `none`: array of maps with `offset` and `size` of each code object |
//! | `zstd_offset`, `zstd_size` | scheme `zstd-per-kernel`: the number of frames in 4 bytes, then each with its length before it in 4 bytes |
//! | `toc` | map of binary keys to maps of target IDs to maps with `ordinal` and `original_size` |
//!
//! A binary key is the path of a library in its tree, `#`, and the index of a wrapper in that library. The ordinal is
//! the index of the code object among the blobs or frames. Integers are little-endian, offsets count from the start of
//! the archive.
//!
//! Sources: rocm-kpack of February 2026, whose other keys are not used here; ROCm's loader of August 2026.
//!
//! Rejected: another version, a table of contents that is not a map, more target IDs or code objects than any archive
//! has. Faults, after which the rest is read: bytes after the map, code objects outside the bytes between header and
//! table, or together longer than the archive, and everything that `container::packed` rejects. With an unknown scheme,
//! code objects are listed only.

mod reference;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::fmt::Arguments;
use std::io::Read;
use std::ops::Range;

use super::entry::{SearchEntry, Stored};
use super::packed::Packed;
use crate::base::bytes::{Bounds, Cursor, len_of, len_u64, slice, tail, to_u64};
use crate::base::codec::{self, Codec};
use crate::base::display::shown;
use crate::base::error::{ErrorKind, Malformed, Result, WithPath};
use crate::base::io::input::Slice;
use crate::beyond::messagepack::Value;
use crate::llvm::container::limits::{Allowance, EntryRoom, FAULTS_MAX, FRAMES_MAX};
pub use crate::llvm::container::magic::KPACK as MAGIC;
pub(crate) use reference::PLACEHOLDER;
pub use reference::Reference;

/// The version of the format.
const VERSION: u32 = 1;

/// The length of the header without its padding, in bytes.
const HEADER_LEN: u64 = 16;

/// The maximum number of target IDs of an archive: each code object is compared with all of them.
const TARGETS_MAX: usize = 1000;

/// The names of the section with a [`Reference`]; the second is that in PE.
pub(crate) const REFERENCE_SECTIONS: [&str; 2] = [".rocm_kpack_ref", ".kpackrf"];

/// The table of contents of an archive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct KpackArchive {
    /// The target IDs for which the archive claims to hold code, as recorded.
    pub targets: Vec<Vec<u8>>,
    /// The code objects, by the wrapper that loads them.
    pub binaries: Vec<WrappedBinary>,
    /// Faults in an archive that can be read all the same. It has only the code objects that could be read.
    pub faults: Vec<Malformed>,
}

/// The code objects that one wrapper of a library loads.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WrappedBinary {
    /// The path of the library in its tree, `#`, and the index of the wrapper: `lib/librocrand.so.1#0`.
    pub key: Vec<u8>,
    /// The code objects, one for each target ID. Their ranges count from the start of the archive.
    pub entries: Vec<SearchEntry>,
}

impl KpackArchive {
    /// Reads the archive `data`.
    ///
    /// # Errors
    /// [`ErrorKind::Malformed`] if the header or the structure of the table of contents is broken.
    /// Other faults are [`faults`](Self::faults).
    pub fn read<'a>(data: impl Into<Slice<'a>>) -> Result<Self> {
        let archive = data.into();
        Self::parse(archive).with_path(archive.path())
    }

    fn parse(archive: Slice<'_>) -> Result<Self, Malformed> {
        let (data, base) = (archive.bytes(), archive.offset());
        let toc_offset = toc_offset(data, base)?;
        let at = archive.absolute(toc_offset);
        let toc = tail(data, toc_offset).unwrap_or_default();
        let (map, rest) = Value::first(toc, at).ok_or_else(|| fault(at, "is not complete MessagePack"))?;
        if map.map().is_none() {
            return Err(fault(at, "is not a map"));
        }
        let mut faults = Vec::new();
        if !rest.is_empty() {
            faults.push(fault(at, &format!("is followed by {} other bytes", rest.len())));
        }
        let targets = map.get(b"gfx_arches").and_then(Value::array);
        let targets: Vec<_> = targets.into_iter().flatten().filter_map(Value::text).map(<[u8]>::to_vec).collect();
        match targets.len() {
            0 => faults.push(fault(at, "names no target IDs in 'gfx_arches'")),
            1..=TARGETS_MAX => {}
            _ => return Err(fault(at, &format!("names more than {TARGETS_MAX} target IDs in 'gfx_arches'"))),
        }
        let stored = CodeBytes::read(archive, toc_offset, map, &mut faults);
        let mut reader = Reader { data, stored, faults, room: EntryRoom::new(), bytes: Allowance::new(len_u64(data)) };
        let binaries = map.get(b"toc").and_then(Value::map).ok_or_else(|| fault(at, "has no map 'toc'"))?;
        let binaries = reader.binaries(binaries);
        Ok(Self { targets, binaries, faults: reader.faults })
    }

    /// Whether AMD's loader finds code for a target ID in this archive: whether the archive claims to hold it.
    pub(crate) fn claims(&self, target: &[u8]) -> bool {
        self.targets.iter().any(|claimed| claimed == target)
    }
}

fn toc_offset(data: &[u8], base: u64) -> Result<u64, Malformed> {
    let mut cursor = Cursor::new(data, base);
    let magic = cursor.take(len_u64(&MAGIC), "the magic of the kpack archive")?;
    if magic != MAGIC {
        return Err(Malformed::fault("the file", base, " is not a kpack archive"));
    }
    let version = cursor.u32("the version of the kpack archive")?;
    if version != VERSION {
        return Err(cursor.invalid("kpack version", version, "1"));
    }
    let toc_offset = cursor.u64("the offset of the table of contents")?;
    if !(HEADER_LEN..len_u64(data)).contains(&toc_offset) {
        let expected = "between the header and the end of the archive";
        return Err(cursor.invalid("offset of the table of contents", toc_offset, expected));
    }
    Ok(toc_offset)
}

/// A fault in the table of contents, at or below the value at `offset`.
fn fault(offset: u64, what: &str) -> Malformed {
    Malformed::fault("the table of contents", offset, format!(" {what}"))
}

/// The bytes of the code objects.
struct CodeBytes {
    /// The range of each, by its ordinal; none if it is broken.
    ranges: Vec<Option<Range<u64>>>,
    /// The compression; none if they are plain.
    codec: Option<Codec>,
}

impl CodeBytes {
    /// Reads as many ranges as can be read, and pushes a fault if that is not all.
    fn read(archive: Slice<'_>, toc_offset: u64, map: Value<'_>, faults: &mut Vec<Malformed>) -> Self {
        let mut stored = Self { ranges: Vec::new(), codec: None };
        match map.get(b"compression_scheme").and_then(Value::text) {
            // ROCm's loader takes this scheme for granted.
            None | Some(b"none") => {
                let blobs = map.get(b"blobs").and_then(Value::array).into_iter().flatten().take(FRAMES_MAX);
                stored.ranges =
                    blobs.map(|blob| inside(toc_offset, number(blob, "offset"), number(blob, "size"))).collect();
                let broken = stored.ranges.iter().filter(|range| range.is_none()).count();
                if broken > 0 {
                    faults.push(fault(map.offset, &format!("has {broken} ranges in 'blobs' outside of the archive")));
                }
            }
            Some(b"zstd-per-kernel") => {
                stored.codec = Some(Codec::Zstd);
                match inside(toc_offset, number(map, "zstd_offset"), number(map, "zstd_size")) {
                    Some(range) => {
                        let mut ranges = Vec::new();
                        faults.extend(frames(archive, &range, &mut ranges).err());
                        stored.ranges = ranges.into_iter().map(Some).collect();
                    }
                    None => faults.push(fault(map.offset, "has its frames outside of the archive")),
                }
            }
            Some(other) => {
                let text = format!("compression scheme '{}' of the kpack archive is not known", shown(other));
                faults.push(Malformed::other(ErrorKind::Unsupported, map.offset, text));
                stored.codec = Some(Codec::Unknown);
            }
        }
        stored
    }
}

fn number(map: Value<'_>, key: &str) -> Option<u64> {
    map.get(key.as_bytes())?.number()
}

/// A range between the header and the table of contents.
fn inside(toc_offset: u64, start: Option<u64>, len: Option<u64>) -> Option<Range<u64>> {
    let start = start.filter(|start| *start >= HEADER_LEN)?;
    let end = start.checked_add(len?).filter(|end| *end <= toc_offset)?;
    Some(start..end)
}

/// The zstd frames in a range of the archive, up to the first that cannot be read. Their lengths are read from the file
/// rather than through the mapping, which would load the pages around each.
fn frames(data: Slice<'_>, range: &Range<u64>, ranges: &mut Vec<Range<u64>>) -> Result<(), Malformed> {
    let bounds = Bounds { base: data.offset(), len: range.end };
    let number = |at: u64, what: Arguments<'_>| {
        let field = bounds.claim(at, 4, what)?;
        let mut bytes = [0; 4];
        match data.range(&field).map(|field| field.reader().read_exact(&mut bytes)) {
            Some(Ok(())) => Ok(u64::from(u32::from_le_bytes(bytes))),
            _ => Err(bounds.truncated(at, 4, what)),
        }
    };
    let count = number(range.start, format_args!("the number of zstd frames"))?;
    if count > to_u64(FRAMES_MAX) {
        let offset = bounds.absolute(range.start);
        return Err(Malformed::value("number of zstd frames", count, offset, "no more than 100000"));
    }
    let mut at = range.start.saturating_add(4);
    for index in 0..count {
        let len = number(at, format_args!("the length of zstd frame {index}"))?;
        let frame = bounds.claim(at.saturating_add(4), len, format_args!("zstd frame {index}"))?;
        at = frame.end;
        ranges.push(frame);
    }
    Ok(())
}

/// The state of reading a table of contents.
struct Reader<'d> {
    data: &'d [u8],
    stored: CodeBytes,
    faults: Vec<Malformed>,
    room: EntryRoom,
    /// What the code objects may take of the archive, whose bytes no two of them share.
    bytes: Allowance,
}

impl<'d> Reader<'d> {
    fn binaries(&mut self, toc: impl Iterator<Item = (Value<'d>, Value<'d>)>) -> Vec<WrappedBinary> {
        let mut binaries = Vec::new();
        let mut keys = HashSet::new();
        for (key, by_target) in toc {
            if self.faults.len() >= FAULTS_MAX {
                break;
            }
            let Some((name, by_target)) = key.text().zip(by_target.map()) else {
                self.faults.push(fault(key.offset, "has a binary that is not a name with a map"));
                continue;
            };
            if !keys.insert(name) {
                self.faults.push(fault(key.offset, &format!("names the binary '{}' twice", shown(name))));
            }
            let mut binary = WrappedBinary { key: name.to_vec(), entries: Vec::new() };
            if let Err(error) = self.entries(key, by_target, &mut binary) {
                self.faults.push(error);
                break;
            }
            binaries.push(binary);
        }
        binaries
    }

    /// Reads the code objects of a binary.
    ///
    /// # Errors
    /// [`Malformed`] if the archive has more of them than it may.
    fn entries(
        &mut self,
        key: Value<'d>,
        by_target: impl Iterator<Item = (Value<'d>, Value<'d>)>,
        binary: &mut WrappedBinary,
    ) -> Result<(), Malformed> {
        self.room.take(&binary.key, key.offset)?;
        for (target, entry) in by_target {
            let Some(name) = target.text() else {
                self.faults.push(fault(target.offset, "has a target ID that is not a string"));
                continue;
            };
            let id = entry_id(name);
            self.room.take(&id, target.offset)?;
            let part = self.part(entry).unwrap_or_else(|what| {
                let text = format!("code object of '{}' for '{}': {what}", shown(&binary.key), shown(name));
                let malformed = Malformed::other(ErrorKind::Malformed, entry.offset, text);
                self.faults.push(malformed.clone());
                Stored::Unreadable(malformed)
            });
            binary.entries.push(SearchEntry::new(id, part));
            if self.faults.len() >= FAULTS_MAX {
                break;
            }
        }
        Ok(())
    }

    /// The code object of an entry, or why there is none.
    fn part(&mut self, entry: Value<'d>) -> Result<Stored, String> {
        let _ = entry.map().ok_or("it is not a map")?;
        let recorded = number(entry, "original_size");
        if self.stored.codec == Some(Codec::Unknown) {
            let inflated = recorded.unwrap_or_default();
            return Ok(Stored::Packed(Packed::whole(0..0, Codec::Unknown, inflated)));
        }
        let ordinal = number(entry, "ordinal").ok_or("it has no ordinal")?;
        let stored =
            usize::try_from(ordinal).ok().and_then(|ordinal| self.stored.ranges.get(ordinal)).cloned().flatten();
        let stored = stored.ok_or_else(|| format!("its ordinal is {ordinal}, which the archive does not have"))?;
        let len = len_of(&stored);
        self.bytes.take(len).ok_or("together with others it is longer than the archive, so they share bytes")?;
        let Some(codec) = self.stored.codec else {
            return match recorded {
                Some(recorded) if recorded != len => Err(format!("its size is {recorded}, but it has {len} bytes")),
                _ => Ok(Stored::Range(stored)),
            };
        };
        let frame = slice(self.data, stored.start, len).unwrap_or_default();
        let inflated = recorded.or_else(|| codec::frame_size(frame).ok().flatten()).ok_or("it has no size")?;
        Ok(Stored::Packed(Packed::whole(stored, codec, inflated)))
    }
}

/// The target ID of code for all AMD GPUs.
pub(crate) const SPIR_V: &[u8] = b"amdgcnspirv";

/// The end of a triple in an entry ID.
const DASHES: &[u8] = b"--";

/// The bundle entry ID under which HIP's runtime would ask a bundle for code of a target.
fn entry_id(target: &[u8]) -> Vec<u8> {
    let triple: &[u8] = if target == SPIR_V { b"hipv4-spirv64-amd-amdhsa" } else { b"hipv4-amdgcn-amd-amdhsa" };
    [triple, DASHES, target].concat()
}

/// The target ID of a code object in an archive, as recorded.
pub(crate) fn target_of(entry: &SearchEntry) -> &[u8] {
    let at = memchr::memmem::find(entry.id(), DASHES).unwrap_or_default();
    entry.id().get(at.saturating_add(DASHES.len())..).unwrap_or_default()
}

//! Reads kpack archives, where ROCm keeps the device code of libraries that were split, and the references of these
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
//! Rejected: another version, a table of contents that is not a map, more code objects than any archive has. Faults
//! after which the rest is still read: bytes after the map, code objects outside the bytes between header and table, or
//! together longer than the archive, and everything that `container::packed` rejects. With an unknown scheme, code
//! objects are listed only.

mod reference;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::fmt::Arguments;
use std::io::Read;
use std::ops::Range;

use super::entry::{SearchEntry, Stored};
use super::packed::Packed;
use crate::base::bytes::{Bounds, Cursor, len_of, len_u64, slice, tail};
use crate::base::display::shown;
use crate::base::error::{ErrorKind, Malformed, Result, WithPath};
use crate::base::io::input::Slice;
use crate::beyond::codec::{self, Codec};
use crate::beyond::limits::FAULTS_MAX;
use crate::beyond::messagepack::Value;
use crate::llvm::container::limits::{Allowance, ENTRIES_MAX, EntryAllowance, check_entry_count};
pub(crate) use reference::PLACEHOLDER;
pub use reference::Reference;

/// The first bytes of a kpack archive.
pub const MAGIC: [u8; 4] = *b"KPAK";

/// The version of the format.
const VERSION: u32 = 1;

/// The length of the header without its padding, in bytes.
const HEADER_LEN: u64 = 16;

/// The names of the section with a [`Reference`], in ELF and in PE files.
pub(crate) const REFERENCE_SECTIONS: [&str; 2] = [".rocm_kpack_ref", ".kpackrf"];

/// The table of contents of an archive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct KpackArchive {
    /// The target IDs that the archive claims to serve, as recorded.
    pub targets: Vec<Vec<u8>>,
    /// The code objects, by the wrapper that loads them.
    pub binaries: Vec<WrappedBinary>,
    /// Faults in parts of the archive. The code objects of these parts are missing.
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

    /// Reads the header and the table of contents, which is a map in MessagePack.
    fn parse(archive: Slice<'_>) -> Result<Self, Malformed> {
        let (data, base) = (archive.bytes(), archive.offset());
        let toc_offset = toc_offset(data, base)?;
        let toc_at = archive.absolute(toc_offset);
        let toc = tail(data, toc_offset).unwrap_or_default();
        let (map, rest) = Value::first(toc, toc_at).ok_or_else(|| fault(toc_at, "is not complete MessagePack"))?;
        if map.map().is_none() {
            return Err(fault(toc_at, "is not a map"));
        }
        let mut faults = Vec::new();
        if !rest.is_empty() {
            faults.push(fault(toc_at, &format!("is followed by {} other bytes", rest.len())));
        }
        let targets: Vec<_> = array_items(map, "gfx_arches").filter_map(Value::text).map(<[u8]>::to_vec).collect();
        if targets.is_empty() {
            faults.push(fault(toc_at, "names no target IDs in 'gfx_arches'"));
        }
        let code_ranges = CodeRanges::read(archive, toc_offset, map, &mut faults);
        let (room, unclaimed_bytes) = (EntryAllowance::new(), Allowance::new(len_u64(data)));
        let mut reader = TableReader { data, code_ranges, faults, room, unclaimed_bytes };
        let binaries = map.get(b"toc").and_then(Value::map).ok_or_else(|| fault(toc_at, "has no map 'toc'"))?;
        let binaries = reader.read_binaries(binaries);
        Ok(Self { targets, binaries, faults: reader.faults })
    }

    /// Returns the target IDs that the archive claims to hold code for. AMD's loader asks an archive for no others.
    pub(crate) fn claims(&self) -> HashSet<&[u8]> {
        self.targets.iter().map(Vec::as_slice).collect()
    }
}

/// Reads the header. Returns the offset of the table of contents in the archive, which is at `base` in its file.
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

/// A fault in the table of contents, in the value at `offset`. `problem` continues the message after "the table of
/// contents": "is not a map".
fn fault(offset: u64, problem: &str) -> Malformed {
    Malformed::fault("the table of contents", offset, format!(" {problem}"))
}

/// The bytes of the code objects.
struct CodeRanges {
    /// The range of each code object, by its ordinal, or `None` if it is broken.
    ranges: Vec<Option<Range<u64>>>,
    /// The compression of all code objects, or `None` if they are plain.
    codec: Option<Codec>,
}

impl CodeRanges {
    /// Reads the ranges of code objects from the table of contents, which is the `map` at `toc_offset`. Adds a fault
    /// for ranges that are not in the archive.
    fn read(archive: Slice<'_>, toc_offset: u64, map: Value<'_>, faults: &mut Vec<Malformed>) -> Self {
        let mut code = Self { ranges: Vec::new(), codec: None };
        match map.get(b"compression_scheme").and_then(Value::text) {
            // ROCm's loader assumes this scheme if none is recorded.
            None | Some(b"none") => {
                // More code objects than any archive has are not read.
                for (blob, _) in array_items(map, "blobs").zip(0..ENTRIES_MAX) {
                    code.ranges.push(recorded_range(blob, "offset", "size", toc_offset));
                }
                let broken_count = code.ranges.iter().filter(|range| range.is_none()).count();
                if broken_count > 0 {
                    faults.push(fault(
                        map.offset,
                        &format!("has {broken_count} ranges in 'blobs' outside of the archive"),
                    ));
                }
            }
            Some(b"zstd-per-kernel") => {
                code.codec = Some(Codec::Zstd);
                match recorded_range(map, "zstd_offset", "zstd_size", toc_offset) {
                    Some(range) => {
                        if let Err(fault) = read_frames(archive, &range, &mut code.ranges) {
                            faults.push(fault);
                        }
                    }
                    None => faults.push(fault(map.offset, "has its frames outside of the archive")),
                }
            }
            Some(other) => {
                let text = format!("compression scheme '{}' of the kpack archive is not known", shown(other));
                faults.push(Malformed::other(ErrorKind::Unsupported, map.offset, text));
                code.codec = Some(Codec::Unknown);
            }
        }
        code
    }

    /// Returns the range of the code object with an ordinal, or `None` if it is broken or does not exist.
    fn range_at(&self, ordinal: u64) -> Option<Range<u64>> {
        self.ranges.get(usize::try_from(ordinal).ok()?)?.clone()
    }
}

/// Returns the number with a key in a map, or `None` without one.
fn number(map: Value<'_>, key: &str) -> Option<u64> {
    map.get(key.as_bytes())?.number()
}

/// Returns the values of the array with a key in a map, or no values if the map has no such array.
fn array_items<'d>(map: Value<'d>, key: &str) -> impl Iterator<Item = Value<'d>> {
    map.get(key.as_bytes()).and_then(Value::array).into_iter().flatten()
}

/// Returns the range that a map records, or `None` if it is not between the header and the table of contents.
fn recorded_range(map: Value<'_>, start_key: &str, len_key: &str, toc_offset: u64) -> Option<Range<u64>> {
    let start = number(map, start_key)?;
    let end = start.checked_add(number(map, len_key)?)?;
    if start >= HEADER_LEN && end <= toc_offset { Some(start..end) } else { None }
}

/// Reads a number of 4 bytes from the file rather than through the mapping, which would load the pages around it.
fn number_in_file(data: Slice<'_>, bounds: Bounds, at: u64, what: Arguments<'_>) -> Result<u64, Malformed> {
    let field = bounds.claim(at, 4, what)?;
    let mut bytes = [0; 4];
    match data.range(&field).map(|field| field.reader().read_exact(&mut bytes)) {
        Some(Ok(())) => Ok(u32::from_le_bytes(bytes).into()),
        _ => Err(bounds.truncated(at, 4, what)),
    }
}

/// Finds the zstd frames in a range of the archive, up to the first that cannot be read.
fn read_frames(data: Slice<'_>, range: &Range<u64>, frames: &mut Vec<Option<Range<u64>>>) -> Result<(), Malformed> {
    let bounds = Bounds { base: data.offset(), len: range.end };
    let count = number_in_file(data, bounds, range.start, format_args!("the number of zstd frames"))?;
    check_entry_count(count, bounds.absolute(range.start))?;
    let mut len_at = range.start.saturating_add(4);
    for index in 0..count {
        let len = number_in_file(data, bounds, len_at, format_args!("the length of zstd frame {index}"))?;
        let frame = bounds.claim(len_at.saturating_add(4), len, format_args!("zstd frame {index}"))?;
        len_at = frame.end;
        frames.push(Some(frame));
    }
    Ok(())
}

/// The state of reading a table of contents.
struct TableReader<'d> {
    data: &'d [u8],
    code_ranges: CodeRanges,
    faults: Vec<Malformed>,
    /// The limit on the number of code objects and on their IDs.
    room: EntryAllowance,
    /// The bytes of the archive that no code object has yet: code objects must not share bytes.
    unclaimed_bytes: Allowance,
}

impl<'d> TableReader<'d> {
    /// Reads the map of binaries. Faults are kept with the others. Reading stops if there are too many faults or code
    /// objects.
    fn read_binaries(&mut self, toc: impl Iterator<Item = (Value<'d>, Value<'d>)>) -> Vec<WrappedBinary> {
        let mut binaries = Vec::new();
        let mut keys = HashSet::new();
        for (key, by_target) in toc {
            if self.faults.len() >= FAULTS_MAX {
                break;
            }
            let (Some(name), Some(by_target)) = (key.text(), by_target.map()) else {
                self.faults.push(fault(key.offset, "has a binary that is not a name with a map"));
                continue;
            };
            // Of a binary with two maps, both are read: the fault is only reported.
            if !keys.insert(name) {
                self.faults.push(fault(key.offset, &format!("names the binary '{}' twice", shown(name))));
            }
            let mut binary = WrappedBinary { key: name.to_vec(), entries: Vec::new() };
            if let Err(error) = self.read_entries(key, by_target, &mut binary) {
                self.faults.push(error);
                break;
            }
            binaries.push(binary);
        }
        binaries
    }

    /// Reads the code objects of a binary, and adds them to it.
    ///
    /// # Errors
    /// [`Malformed`] if the archive has too many code objects.
    fn read_entries(
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
            let stored = match self.stored_code(entry) {
                Ok(stored) => stored,
                Err(reason) => {
                    let text = format!("code object of '{}' for '{}': {reason}", shown(&binary.key), shown(name));
                    let malformed = Malformed::other(ErrorKind::Malformed, entry.offset, text);
                    self.faults.push(malformed.clone());
                    Stored::Unreadable(malformed)
                }
            };
            binary.entries.push(SearchEntry::new(id, stored));
            if self.faults.len() >= FAULTS_MAX {
                break;
            }
        }
        Ok(())
    }

    /// Returns the code object of an entry, or the reason why it cannot be read.
    fn stored_code(&mut self, entry: Value<'d>) -> Result<Stored, String> {
        if entry.map().is_none() {
            return Err("it is not a map".to_owned());
        }
        let recorded_size = number(entry, "original_size");
        if self.code_ranges.codec == Some(Codec::Unknown) {
            // How this scheme stores code objects is not known, so their range is empty.
            let inflated = recorded_size.unwrap_or_default();
            return Ok(Stored::Packed(Packed::whole(0..0, Codec::Unknown, inflated)));
        }
        let ordinal = number(entry, "ordinal").ok_or("it has no ordinal")?;
        let Some(stored) = self.code_ranges.range_at(ordinal) else {
            return Err(format!("its ordinal is {ordinal}, which the archive does not have"));
        };
        let len = len_of(&stored);
        // Code objects that share bytes could make a small archive inflate without bound.
        self.unclaimed_bytes
            .take(len)
            .ok_or("together with others it is longer than the archive, so they share bytes")?;
        let Some(codec) = self.code_ranges.codec else {
            return match recorded_size {
                Some(recorded_size) if recorded_size != len => {
                    Err(format!("its size is {recorded_size}, but it has {len} bytes"))
                }
                _ => Ok(Stored::Range(stored)),
            };
        };
        let inflated = match recorded_size {
            Some(recorded_size) => Some(recorded_size),
            None => codec::frame_size(slice(self.data, stored.start, len).unwrap_or_default()).ok().flatten(),
        };
        Ok(Stored::Packed(Packed::whole(stored, codec, inflated.ok_or("it has no size")?)))
    }
}

/// The target ID of code for all AMD GPUs.
pub(crate) const SPIR_V: &[u8] = b"amdgcnspirv";

/// The end of a triple in an entry ID.
const DASHES: &[u8] = b"--";

/// Returns the bundle entry ID that HIP's runtime would look for in a bundle, for code of a target.
fn entry_id(target: &[u8]) -> Vec<u8> {
    let triple: &[u8] = if target == SPIR_V { b"hipv4-spirv64-amd-amdhsa" } else { b"hipv4-amdgcn-amd-amdhsa" };
    [triple, DASHES, target].concat()
}

/// Returns the target ID of a code object in an archive, as recorded: the end of its entry ID.
pub(crate) fn target_of(entry: &SearchEntry) -> &[u8] {
    let at = memchr::memmem::find(entry.id(), DASHES).unwrap_or_default();
    entry.id().get(at.saturating_add(DASHES.len())..).unwrap_or_default()
}

//! Reads SYCLBIN files: device code of SYCL, compiled apart from any program, that programs load while they run.
//!
//! A file consists of abstract modules. The parts of a module are the same kernels for different devices: IR modules,
//! and native device code images. A file of version 2 is an offload binary whose entries all have the image kind 7. The
//! strings of an entry say which part it is:
//!
//! | `role` | image | other strings |
//! |---|---|---|
//! | `global_metadata` | property sets of the file; there is one such entry | `sycl_format_version`: `2` |
//! | `am_metadata` | property sets of an abstract module; one for each | `am_index` |
//! | `ir` | length of property sets (8), property sets, code | `am_index`, `ir_type`, `triple` |
//! | `native` | the same | `am_index`, `arch`, `triple` |
//!
//! Abstract modules have the decimal numbers `am_index` from 0 on. Files of version 1 have tables of their own and are
//! not read. If one is the image of an offload binary, that image has the same kind but no `role`.
//!
//! Integers are little-endian. Property sets are lines: `[name]`, then `key=1|number` and `key=2|bytes`. The bytes are
//! a length in bits (8 bytes) and the value, six bits in each character of base64, the lowest ones first, without
//! padding. Metadata of IR modules and native images have the keys `target` (the triple), `type` (0 SPIR-V, 1 PTX, 2
//! AMD's bitcode) and `arch`, such as `pvc` or `intel_gpu_pvc`.
//!
//! Sources: SYCLBINDesign.md and PropertySets.md of DPC++, and its reader and writers, of 2026.
//!
//! Rejected: other versions, sizes beyond the entry. Faults of single parts are reported beside the others.

use std::ops::Range;

use super::sycl;
use crate::base::bytes::{self, Bounds, Cursor, add, len_of, len_u64, slice, tail, to_u64};
use crate::base::display::shown;
use crate::base::error::{Malformed, Result};
use crate::base::io::input::Slice;
use crate::llvm::container::limits::{Limits, NAME_MAX};
use crate::llvm::container::offload_binary::{ImageInfo, ImageKind, OffloadBinary};
use crate::llvm::container::stream::Compressed;
use crate::llvm::container::{Container, Contents, Entry, Part};

/// The length of the number before metadata or an array of bytes, which is their length.
const LENGTH_LEN: u64 = 8;

/// The number of the offload kind of SYCL.
const SYCL_KIND: u16 = 8;

/// The prefixes of names of GPUs in `-fsycl-targets`. IDs have the names without them.
const VENDOR_PREFIXES: [&[u8]; 3] = [b"intel_gpu_", b"nvidia_gpu_", b"amd_gpu_"];

/// The number of bytes of code that are enough to identify its format.
const HEAD_LEN: u64 = 512;

/// The reader of offload binaries that may be SYCLBIN files. Of a SYCLBIN file, it returns the IR modules and native
/// images, and of any other offload binary all entries.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SyclBin;

impl SyclBin {
    /// Whether the first entry of an offload binary is a part of a SYCLBIN file. A SYCLBIN image without a role is a
    /// file of version 1, which is not read.
    pub(crate) fn has_part(first: Option<&Entry>) -> bool {
        match first {
            Some(Entry { image: Some(image), .. }) => {
                image.image_kind == ImageKind::SyclBin && image.string(b"role").is_some()
            }
            _ => false,
        }
    }
}

impl Container for SyclBin {
    type Entry = Entry;

    /// Reads a SYCLBIN file, or another offload binary.
    fn read(&self, data: &[u8], total: u64, base: u64) -> Result<Option<Contents>, Malformed> {
        let Some(contents) = OffloadBinary::default().read(data, total, base)? else { return Ok(None) };
        // Any other offload binary keeps its entries.
        if !Self::has_part(contents.entries.first()) {
            return Ok(Some(contents));
        }
        let reader = SyclBinReader { data, is_whole: len_u64(data) >= total, base };
        reader.read(contents).map(Some)
    }

    fn compressed<'a>(&self, data: Slice<'a>, limits: Limits) -> Result<Option<Compressed<'a>>> {
        OffloadBinary::default().compressed(data, limits)
    }
}

/// The names that the metadata of an IR module or native image record. A name that is not recorded is empty.
#[derive(Default)]
struct RecordedIds {
    triple: Vec<u8>,
    arch: Vec<u8>,
}

/// The abstract modules that the entries read so far belong to.
#[derive(Default)]
struct AbstractModules {
    /// Whether metadata of the module was read, by the index of the module. The list has one item for each entry of the
    /// file. Each module has an entry for its metadata, so a file has no more modules than entries.
    have_metadata: Vec<bool>,
    /// The number of modules: the largest module index plus one.
    count: u64,
    /// The offset of the first entry with the largest module index. If metadata of a module are missing, the fault is
    /// reported there, because that index says how many modules there are.
    largest_at: u64,
}

impl AbstractModules {
    /// Adds the module that an entry belongs to, and returns its index. `at` is the offset of the entry.
    ///
    /// # Errors
    /// [`Malformed`] if the index is not a number, or not less than the number of entries: see [`Self::have_metadata`].
    fn add_module(&mut self, info: &ImageInfo, at: u64) -> Result<usize, Malformed> {
        let recorded = info.string(b"am_index").unwrap_or_default();
        let entry_count = self.have_metadata.len();
        let index = match number(recorded) {
            Some(index) if index < to_u64(entry_count) => index,
            _ => {
                let what = format!("the am_index '{}' of a SYCLBIN entry", shown(recorded));
                return Err(Malformed::fault(what, at, ", expected a number less than that of the entries"));
            }
        };
        if index >= self.count {
            (self.count, self.largest_at) = (index.saturating_add(1), at);
        }
        Ok(usize::try_from(index).unwrap_or(entry_count))
    }

    /// Notes that the entry at the offset `at` has the metadata of a module.
    ///
    /// # Errors
    /// [`Malformed`] if an earlier entry has them already.
    fn add_metadata(&mut self, index: usize, at: u64) -> Result<(), Malformed> {
        // `add_module` returns only indices of the list.
        let Some(has_metadata) = self.have_metadata.get_mut(index) else { return Ok(()) };
        if *has_metadata {
            return Err(Malformed::at(format!("a second entry with metadata of abstract module {index}"), at));
        }
        *has_metadata = true;
        Ok(())
    }
}

/// The bytes of a SYCLBIN file that a reader has so far.
struct SyclBinReader<'a> {
    data: &'a [u8],
    /// Whether `data` is the whole file. Otherwise it has only the first bytes of the file.
    is_whole: bool,
    /// The offset of the file in the input.
    base: u64,
}

impl<'a> SyclBinReader<'a> {
    fn bounds(&self, range: &Range<u64>) -> Bounds {
        Bounds { base: self.at(range), len: len_of(range) }
    }

    /// The offset in the file of the start of a range.
    fn at(&self, range: &Range<u64>) -> u64 {
        self.base.saturating_add(range.start)
    }

    /// A cursor over a range, which is inside of the file.
    fn cursor(&self, range: &Range<u64>) -> Cursor<'a> {
        // The range may end after the bytes that were read so far.
        let rest = tail(self.data, range.start).unwrap_or_default();
        Cursor::new(slice(rest, 0, len_of(range)).unwrap_or(rest), self.at(range))
    }

    /// Returns the part that was read, or adds its fault to `faults` and returns `None`. A fault that may only mean
    /// that more bytes of the file are needed is returned as the error.
    fn keep_fault<T>(&self, faults: &mut Vec<Malformed>, read: Result<T, Malformed>) -> Result<Option<T>, Malformed> {
        match read {
            Ok(part) => Ok(Some(part)),
            Err(malformed @ Malformed::Truncated { .. }) if !self.is_whole => Err(malformed),
            Err(malformed) => {
                faults.push(malformed);
                Ok(None)
            }
        }
    }

    /// Converts the entries of an offload binary into those of a SYCLBIN file.
    fn read(&self, contents: Contents) -> Result<Contents, Malformed> {
        let count = contents.entries.len();
        let mut modules = AbstractModules { have_metadata: vec![false; count], ..AbstractModules::default() };
        let (mut entries, mut faults, mut global_count) = (Vec::new(), contents.faults, 0_u64);
        for Entry { parts, image, .. } in contents.entries {
            // An image that cannot be read has a fault already.
            let (Some(info), [Part::Range(range)]) = (image, parts.as_slice()) else { continue };
            if info.string(b"role") == Some(b"global_metadata") {
                add(&mut global_count, 1);
            }
            let part = self.read_part(*info, range, &mut modules);
            entries.extend(self.keep_fault(&mut faults, part)?.flatten());
        }
        if global_count != 1 {
            faults.push(Malformed::value("number of entries with global metadata", global_count, self.base, "1"));
        }
        // Each module needs metadata, up to the largest index in the file.
        let mut has_metadata = modules.have_metadata.iter().take(usize::try_from(modules.count).unwrap_or(count));
        if let Some(missing) = has_metadata.position(|has| !has) {
            let what =
                format!("abstract modules up to {}, but no metadata of {missing},", modules.count.saturating_sub(1));
            faults.push(Malformed::at(what, modules.largest_at));
        }
        Ok(Contents { entries, faults, len: contents.len })
    }

    /// Returns the IR module or native image of an entry, or `None` if the entry holds metadata, which are only
    /// checked.
    fn read_part(
        &self,
        info: ImageInfo,
        range: &Range<u64>,
        modules: &mut AbstractModules,
    ) -> Result<Option<Entry>, Malformed> {
        let at = self.at(range);
        if info.image_kind != ImageKind::SyclBin {
            let expected = "7, as the other entries of a SYCLBIN file";
            return Err(Malformed::value("image kind", info.image_kind.number(), at, expected));
        }
        let role = info.string(b"role").unwrap_or_default();
        match role {
            b"global_metadata" => {
                let version = info.string(b"sycl_format_version").unwrap_or(b"2");
                if version != b"2" {
                    let what = format!("the SYCLBIN version '{}'", shown(version));
                    return Err(Malformed::fault(what, at, ", expected 2"));
                }
                self.properties(range).map(|_| None)
            }
            b"am_metadata" => {
                let index = modules.add_module(&info, at)?;
                modules.add_metadata(index, at)?;
                self.properties(range).map(|_| None)
            }
            b"ir" | b"native" => {
                modules.add_module(&info, at)?;
                self.read_code(info, range).map(Some)
            }
            _ => Err(Malformed::at(format!("a SYCLBIN entry with the unknown role '{}'", shown(role)), at)),
        }
    }

    /// Returns the IR module or native image in a range. The range begins with the length of metadata and the metadata,
    /// and the rest is the code.
    fn read_code(&self, info: ImageInfo, range: &Range<u64>) -> Result<Entry, Malformed> {
        let mut cursor = self.cursor(range);
        let size = cursor.u64("the size of the metadata of a SYCLBIN entry")?;
        let start = range.start.saturating_add(LENGTH_LEN);
        let after_size = start..range.end;
        let metadata = self.bounds(&after_size).claim(0, size, "the metadata of a SYCLBIN entry")?;
        let end = start.saturating_add(metadata.end);
        let recorded = self.properties(&(start..end))?;
        // The strings of the entry may repeat what the metadata record.
        for (key, found) in [(&b"triple"[..], &recorded.triple), (b"arch", &recorded.arch)] {
            let string = info.string(key).unwrap_or_default();
            if !string.is_empty() && !found.is_empty() && string != found {
                let what = format!("a SYCLBIN entry with the {} '{}'", shown(key), shown(string));
                let problem = format!(", but its metadata say '{}'", shown(found));
                return Err(Malformed::fault(what, self.at(range), problem));
            }
        }
        self.entry(info, recorded, end..range.end)
    }

    /// Makes the entry for the code in a range. Triple and architecture come from the metadata, or else from the
    /// strings of the entry. If neither has a triple, it is found in the code itself.
    fn entry(&self, info: ImageInfo, recorded: RecordedIds, code: Range<u64>) -> Result<Entry, Malformed> {
        let mut triple = recorded.triple;
        if triple.is_empty() {
            triple = info.string(b"triple").unwrap_or_default().to_vec();
        }
        let mut arch = recorded.arch;
        if arch.is_empty() {
            arch = info.string(b"arch").unwrap_or_default().to_vec();
        }
        let arch = VENDOR_PREFIXES.iter().find_map(|start| arch.strip_prefix(*start)).unwrap_or(&arch).to_vec();
        if triple.is_empty() {
            let head = self.cursor(&code).take(len_of(&code).min(HEAD_LEN), "the code of a module or image")?;
            triple = sycl::triple(head).unwrap_or_default().as_bytes().to_vec();
        }
        let role = info.string(b"role").unwrap_or_default().to_vec();
        let strings = vec![(b"role".to_vec(), role), (b"triple".to_vec(), triple), (b"arch".to_vec(), arch)];
        // The code is for SYCL, whatever offload kind the offload binary records.
        let info = ImageInfo { image_kind: ImageKind::SyclBin, kind_number: SYCL_KIND, strings, ..info };
        Ok(Entry { image: Some(Box::new(info.clone())), ..Entry::at(&info.entry_id(), code) })
    }

    /// Reads property sets, which may be empty.
    fn properties(&self, range: &Range<u64>) -> Result<RecordedIds, Malformed> {
        let at = self.at(range);
        let text = self.cursor(range).take(len_of(range), "the metadata of a SYCLBIN file")?;
        parse_properties(text).map_err(|problem| Malformed::fault("SYCLBIN metadata", at, problem))
    }
}

/// Returns the target and the architecture that property sets record, or the reason why the sets are malformed.
fn parse_properties(text: &[u8]) -> Result<RecordedIds, String> {
    let mut recorded = RecordedIds::default();
    let mut is_in_set = false;
    for line in text.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
        let wrong = |what: &str| Err(format!(": {what}: '{}'", shown(line)));
        if line.first() == Some(&b'[') {
            if !line.contains(&b']') {
                return wrong("a set whose name does not end");
            }
            is_in_set = true;
            continue;
        }
        if !is_in_set {
            return wrong("a property outside of any set");
        }
        // Kind 1 is a number, and kind 2 is an array of bytes in base64.
        let (key, kind, value) = match split_once(line, b'=') {
            Some((key, [kind @ (b'1' | b'2'), b'|', value @ ..])) if !key.is_empty() => (key, kind, value),
            _ => return wrong("a line that is not a property"),
        };
        if *kind == b'1' {
            if number(value).is_none() {
                return wrong("a value that is not a number");
            }
            continue;
        }
        // The decoded bytes are a length, which is not needed, and the value.
        let value = base64(value);
        let Some(value) = value.as_deref().and_then(|value| tail(value, LENGTH_LEN)) else {
            return wrong("a value that is not an array of bytes");
        };
        let field = match key {
            b"target" => &mut recorded.triple,
            b"arch" => &mut recorded.arch,
            _ => continue,
        };
        if value.len() > NAME_MAX {
            return wrong("a name that is too long");
        }
        *field = value.to_vec();
    }
    Ok(recorded)
}

/// Reads a decimal number of at least one digit.
fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() { None } else { bytes::digits(digits, 10) }
}

fn split_once(line: &[u8], separator: u8) -> Option<(&[u8], &[u8])> {
    let at = line.iter().position(|&byte| byte == separator)?;
    Some((line.get(..at)?, line.get(at.checked_add(1)?..)?))
}

/// Decodes base64 without padding, whose characters have the lowest bits first. Returns `None` if the text is not
/// base64.
fn base64(text: &[u8]) -> Option<Vec<u8>> {
    let (mut bits, mut bit_count) = (0_u32, 0_u32);
    let mut decoded = Vec::with_capacity(text.len());
    for character in text {
        let value = match character {
            b'A'..=b'Z' => character.wrapping_sub(b'A'),
            b'a'..=b'z' => character.wrapping_sub(b'a').wrapping_add(26),
            b'0'..=b'9' => character.wrapping_sub(b'0').wrapping_add(52),
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits |= u32::from(value).checked_shl(bit_count)?;
        bit_count = bit_count.saturating_add(6);
        if bit_count >= 8 {
            let [low, ..] = bits.to_le_bytes();
            decoded.push(low);
            (bits, bit_count) = (bits >> 8, bit_count.saturating_sub(8));
        }
    }
    // One character alone is less than a byte.
    if text.len() % 4 == 1 { None } else { Some(decoded) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn property_sets_have_numbers_and_arrays_of_bytes() {
        // The array is one byte, as DPC++ writes it: 8 bits, of which the lowest is set.
        assert_eq!(base64(b"IAAAAAAAAAQA"), Some([&8_u64.to_le_bytes()[..], &[1]].concat()));
        let longer = [&40_u64.to_le_bytes()[..], b"\xff\xff\x7f\xff\x70"].concat();
        assert_eq!(base64(b"oAAAAAAAAAw///3/wB"), Some(longer));
        for (text, decoded) in
            [(&b""[..], Some(&b""[..])), (b"A", None), (b"/D", Some(b"\xff")), (b"+D", Some(b"\xfe")), (b"==", None)]
        {
            assert_eq!(base64(text).as_deref(), decoded, "{}", text.escape_ascii());
        }
        let text = b"[SYCLBIN/ir module metadata]\ntype=1|0\n\ntarget=2|YAAAAAAAAAAc2NG\n";
        assert_eq!(parse_properties(text).map(|recorded| recorded.triple), Ok(b"pvc".to_vec()));
        assert!(parse_properties(b"").is_ok() && parse_properties(b"[]\n").is_ok());
        for (line, wrong) in [
            ("[set", "a set whose name does not end"),
            ("type=1|", "a value that is not a number"),
            ("type=1|x", "a value that is not a number"),
            ("type", "a line that is not a property"),
            ("=1|0", "a line that is not a property"),
            ("type=3|0", "a line that is not a property"),
            ("target=2|IAAAAAAA", "a value that is not an array of bytes"),
        ] {
            let error = parse_properties(format!("[set]\n{line}\n").as_bytes()).err();
            assert_eq!(error, Some(format!(": {wrong}: '{line}'")));
        }
        assert_eq!(parse_properties(b"type=1|0").err().as_deref(), Some(": a property outside of any set: 'type=1|0'"));
    }

    #[test]
    fn strings_of_an_entry_and_its_metadata_may_not_differ() {
        let with_target = b"[SYCLBIN/ir module metadata]\ntarget=2|YAAAAAAAAAAc2NG\n";
        for (string, metadata, expected) in [
            (&b""[..], &with_target[..], Some(&b"pvc"[..])),
            (b"pvc", with_target, Some(b"pvc")),
            (b"other", b"[]\n", Some(b"other")),
            (b"other", with_target, None),
        ] {
            let data = [&len_u64(metadata).to_le_bytes()[..], metadata, b"code"].concat();
            let reader = SyclBinReader { data: &data, is_whole: true, base: 1000 };
            let strings = [(&b"role"[..], &b"ir"[..]), (b"am_index", b"0"), (b"triple", string)];
            let strings = strings.map(|(key, value)| (key.to_vec(), value.to_vec())).to_vec();
            let info = ImageInfo { image_kind: ImageKind::SyclBin, strings, ..ImageInfo::default() };
            let mut modules = AbstractModules { have_metadata: vec![false], ..AbstractModules::default() };
            let part = reader.read_part(info, &(0..len_u64(&data)), &mut modules);
            match expected {
                Some(triple) => {
                    let entry = part.unwrap().unwrap();
                    let code = len_u64(&data) - 4..len_u64(&data);
                    assert_eq!(entry.parts, [Part::Range(code)]);
                    assert_eq!(entry.image.unwrap().string(b"triple"), Some(triple));
                }
                None => {
                    let text = "a SYCLBIN entry with the triple 'other' at offset 1000, but its metadata say 'pvc'";
                    assert_eq!(part.unwrap_err().to_string(), text);
                }
            }
        }
    }
}

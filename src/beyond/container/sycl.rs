//! Reads the device images of programs and libraries that Intel's DPC++ has linked, for SYCL or for OpenMP.
//!
//! The images lie one after another in sections:
//!
//! | section | PE | images for |
//! |---|---|---|
//! | `__CLANG_OFFLOAD_BUNDLE__<kind>-<triple>` | `__CLANG_` | one triple |
//! | `OFFLOAD_DEVICE_CODE` | `OFFLOAD_` | any triples |
//!
//! The section `.tgtimg` has a table of them, 16 bytes for each:
//!
//! | offset | width | meaning |
//! |---|---|---|
//! | 0 | 8 | address of the image, after relocation; 0 in padding |
//! | 8 | 8 | size in bytes; for a compressed image, its inflated size |
//!
//! An image is SPIR-V, LLVM bitcode, an ELF file, PTX, an `ar` archive with an ELF file for each of several GPUs, or a
//! bundle or fatbin of another compiler. With `--offload-compress`, each is one zstd frame (RFC 8878), whose blocks
//! record its end. With `-emit-reg-funcs=0` there is no table, and the end of an image is found in its content.
//!
//! Sources: DPC++ of 2026 (clang-offload-wrapper, clang-linker-wrapper, clang-offload-extract); libraries of oneAPI
//! 2023 to 2026, for Linux and Windows.
//!
//! Rejected: addresses outside of sections, images and frames that extend beyond their section, tables of 32-bit
//! programs.

use std::borrow::Cow;
use std::io;
use std::ops::Range;

use object::elf::EM_X86_64;

use super::entry::Stored;
use super::host::wrapper::PointerMap;
use super::packed::Packed;
use crate::base::bytes::{Bounds, add, bytes_in, is_zero, len_of, len_u64, number, span, to_u64};
use crate::base::error::Malformed;
use crate::beyond::code::elf_machine;
use crate::beyond::code::spirv::{self, Width};
use crate::beyond::code::{CodeMagic, bitcode, elf, intel_gpu};
use crate::beyond::codec::{self, Codec};
use crate::beyond::container::{Format, Magic};
use crate::beyond::limits::FAULTS_MAX;
use crate::llvm::container::archive::{Archive, MemberLocation};
use crate::llvm::container::limits::check_entry_count;

/// The section with the table of images.
pub(crate) const TABLE: &str = ".tgtimg";

/// The length of an entry of the table.
const ENTRY_LEN: u64 = 16;

/// The offset of the size in an entry.
const SIZE_AT: u64 = 8;

/// A number of images that is too large for a section: one more than [`check_entry_count`] allows. The search for
/// images stops there, because [`all_images`] then reports that there are too many.
const TOO_MANY: usize = 100_001;

/// The first bytes of a zstd frame.
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// An image, as its table records it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Image {
    /// The offset in the file or section.
    pub(crate) offset: u64,
    /// The size, which is that of the inflated image if it is compressed.
    pub(crate) size: u64,
}

/// Returns the images that a table records, each once and in file order, and the faults of the table. `table` is the
/// range of the table in the object file `data`. Offsets of faults count from `base`.
pub(crate) fn images(data: &[u8], base: u64, table: &Range<u64>) -> (Vec<Image>, Vec<Malformed>) {
    let (mut images, mut faults, bounds) = (Vec::new(), Vec::new(), Bounds { base, len: table.end });
    let map = match PointerMap::read(data, table) {
        Some(map) if map.is_64() => map,
        _ => {
            let what = "a table of device images that is not in a 64-bit program";
            return (images, vec![Malformed::at(what, bounds.absolute(table.start))]);
        }
    };
    let count = len_of(table).checked_div(ENTRY_LEN).unwrap_or_default();
    for index in 0..count {
        let entry_at = table.start.saturating_add(index.saturating_mul(ENTRY_LEN));
        match image(data, &map, entry_at) {
            Ok(image) => images.extend(image),
            Err(what) if faults.len() < FAULTS_MAX => {
                faults.push(Malformed::at(what, bounds.absolute(entry_at)));
            }
            // More faults are not reported, but the rest of the images is still found.
            Err(_) => {}
        }
    }
    let end = table.start.saturating_add(count.saturating_mul(ENTRY_LEN));
    let rest = bytes_in(data, end..table.end).unwrap_or_default();
    if !is_zero(rest) {
        faults.push(bounds.truncated(end, ENTRY_LEN, "an entry of the table of device images"));
    }
    images.sort_unstable();
    images.dedup();
    (images, faults)
}

/// Returns the image of an entry at an offset in the file, or `None` if it is padding.
fn image(data: &[u8], map: &PointerMap<'_>, at: u64) -> Result<Option<Image>, &'static str> {
    let size = at.checked_add(SIZE_AT).and_then(|at| number::<8>(data, at));
    let size = size.ok_or("a table of device images beyond the end of the file")?;
    let target = map.target_at(at).ok_or("a device image in another file")?;
    if target.is_null() {
        return Ok(None);
    }
    let offset = map.offset_of(target).ok_or("a device image whose address is in no section")?;
    Ok(Some(Image { offset, size }))
}

/// Returns the images in a section, in order. `images` are the images that its tables record, in order, with offsets in
/// the section. Other images are found between them by their content. If there are too many, an unreadable image ends
/// the list. Offsets in errors count from `base`.
pub(crate) fn all_images(section: &[u8], base: u64, images: &[Image]) -> Vec<Stored> {
    let mut parts = Vec::new();
    let mut position = 0_u64;
    for image in recorded_images(section, base, images) {
        add_unlisted_images(section, base, position..image.range.start, &mut parts);
        position = position.max(image.range.end);
        parts.push(image.part);
    }
    add_unlisted_images(section, base, position..len_u64(section), &mut parts);
    if let Err(malformed) = check_entry_count(to_u64(parts.len()), base) {
        parts.truncate(TOO_MANY);
        parts.push(Stored::Unreadable(malformed));
    }
    parts
}

/// Returns the images in a section that its tables record, in order, without the images between them. `images` are in
/// order too, with offsets in the section. If several have the same offset, only the first one can be read: no compiler
/// lets images share bytes, and to read the same bytes for many entries would take long. Offsets in errors count from
/// `base`.
pub(crate) fn recorded_images(section: &[u8], base: u64, images: &[Image]) -> Vec<StoredImage> {
    let mut stored = Vec::new();
    // No further images are read: `all_images` reports that there are too many.
    let images = images.get(..TOO_MANY).unwrap_or(images);
    // An image ends before the next offset that a table records, so the images are read from the last to the first.
    let (mut limit, mut next_offset) = (len_u64(section), len_u64(section));
    for (index, image) in images.iter().enumerate().rev() {
        // Images with the same offset have the same limit.
        if image.offset != next_offset {
            limit = next_offset;
        }
        let is_first_at_offset = match index.checked_sub(1).and_then(|before| images.get(before)) {
            Some(before) => before.offset != image.offset,
            None => true,
        };
        next_offset = image.offset;
        stored.push(if is_first_at_offset {
            StoredImage::find(section, base, *image, limit)
        } else {
            StoredImage::unreadable_duplicate(base, *image)
        });
    }
    stored.reverse();
    stored
}

/// An image, with the bytes that it takes in its section.
pub(crate) struct StoredImage {
    /// The range of these bytes, in the section.
    pub(crate) range: Range<u64>,
    /// The image, or the reason why it cannot be read.
    pub(crate) part: Stored,
}

impl StoredImage {
    /// Makes the unreadable image of a table entry with the same offset as the entry before it.
    fn unreadable_duplicate(base: u64, image: Image) -> Self {
        let offset = base.saturating_add(image.offset);
        let malformed = Malformed::value("size of a device image", image.size, offset, "one image at each address");
        Self { range: image.offset..image.offset, part: Stored::Unreadable(malformed) }
    }

    /// Finds the bytes of an image that a table records. Another image, or the end of the section, is at `limit`.
    /// Offsets in errors count from `base`.
    fn find(section: &[u8], base: u64, image: Image, limit: u64) -> Self {
        let Image { offset, size } = image;
        let space = bytes_in(section, offset..limit).unwrap_or_default();
        if space.starts_with(&ZSTD_MAGIC) {
            return Self::find_frame(space, base, image, limit);
        }
        match Bounds::of(section, base).claim(offset, size, "the device image") {
            Ok(range) => Self { range: range.clone(), part: Stored::Range(range) },
            Err(malformed) => Self { range: offset..limit, part: Stored::Unreadable(malformed) },
        }
    }

    /// Finds the zstd frame of an image. `space` are the bytes of the section from the start of the image to `limit`.
    /// Offsets in errors count from `base`.
    fn find_frame(space: &[u8], base: u64, image: Image, limit: u64) -> Self {
        let Image { offset, size } = image;
        match codec::frame_len_and_size(space) {
            // The table has the inflated size, but some releases record the length of the frame there.
            Ok((len, Some(recorded))) if size == len => Self::in_frame(offset, len, recorded),
            Ok((len, _)) => Self::in_frame(offset, len, size),
            Err(error) => {
                let reason = "its zstd frame does not end before the next image";
                let malformed = frame_fault(base.saturating_add(offset), error, reason);
                Self { range: offset..limit, part: Stored::Unreadable(malformed) }
            }
        }
    }

    /// Makes the image in a zstd frame of `len` bytes at `offset`, which inflates to `inflated` bytes.
    fn in_frame(offset: u64, len: u64, inflated: u64) -> Self {
        let range = span(offset, len);
        let packed = Packed::whole(range.clone(), Codec::Zstd, inflated);
        Self { range, part: Stored::Packed(packed) }
    }
}

/// Adds the images in a range of a section that no table records. Zeros before an image are padding. The image ends
/// where its content does. If its format does not say where, it has the rest of the range without the zeros at the end.
/// Offsets in errors count from `base`. The search stops at [`TOO_MANY`] images, which [`all_images`] reports.
fn add_unlisted_images(section: &[u8], base: u64, range: Range<u64>, parts: &mut Vec<Stored>) {
    let mut position = range.start;
    while let Some(rest) = bytes_in(section, position..range.end) {
        let Some(zeros) = rest.iter().position(|&byte| byte != 0) else { break };
        add(&mut position, to_u64(zeros));
        let rest = bytes_in(section, position..range.end).unwrap_or_default();
        let (len, part) = match Magic::identify(rest) {
            _ if rest.starts_with(&ZSTD_MAGIC) => unlisted_frame(rest, base, position),
            Magic::Code(CodeMagic::SpirV) => (spirv_len(rest), None),
            Magic::Archive => (archive_len(rest), None),
            magic if magic.is_elf() => (elf::len(rest), None),
            _ => (None, None),
        };
        // A length of 0 would find the same image again.
        let len = match len {
            Some(len) if len > 0 => len,
            _ => len_without_zeros(rest),
        };
        let end = position.saturating_add(len);
        parts.push(part.unwrap_or(Stored::Range(position..end)));
        position = end;
        if parts.len() >= TOO_MANY {
            return;
        }
    }
}

/// Returns the length of the zstd frame at the start of some bytes, or `None` if it has no end, and the image in the
/// frame. The image is unreadable if the frame does not record its inflated size. `offset` is the offset of the frame
/// in the section. Offsets in errors count from `base`.
fn unlisted_frame(rest: &[u8], base: u64, offset: u64) -> (Option<u64>, Option<Stored>) {
    let at = base.saturating_add(offset);
    match codec::frame_len_and_size(rest) {
        Err(error) => (None, Some(Stored::Unreadable(frame_fault(at, error, "its zstd frame has no end")))),
        Ok((len, Some(inflated))) => (Some(len), Some(StoredImage::in_frame(offset, len, inflated).part)),
        Ok((len, None)) => {
            let malformed = Malformed::compressed("device image", at, "its inflated size is not recorded");
            (Some(len), Some(Stored::Unreadable(malformed)))
        }
    }
}

/// Makes the fault of a zstd frame that cannot be read, for a `reason` in the data unless zstd was left out when the
/// library was built.
fn frame_fault(at: u64, error: io::Error, reason: &str) -> Malformed {
    match error.kind() {
        io::ErrorKind::Unsupported => codec::unsupported("device image", at, error),
        _ => Malformed::compressed("device image", at, reason),
    }
}

/// The length of some bytes without the zeros at their end.
fn len_without_zeros(bytes: &[u8]) -> u64 {
    match bytes.iter().rposition(|&byte| byte != 0) {
        Some(last) => to_u64(last).saturating_add(1),
        None => 0,
    }
}

/// Returns the length of the SPIR-V module at the start of some bytes, or `None` if its header is cut off. The module
/// ends at the header of another module, or at a word that is not an instruction.
fn spirv_len(data: &[u8]) -> Option<u64> {
    let mut len = spirv::HEADER_LEN;
    for (first, range) in spirv::instructions(data) {
        if first == spirv::MAGIC || range.is_empty() || range.end > len_u64(data) {
            break;
        }
        len = range.end;
    }
    if len <= len_u64(data) { Some(len) } else { None }
}

/// Returns the length of the `ar` archive at the start of some bytes, up to the end of its last member, or `None` if it
/// has no readable member. An unreadable member ends the archive.
fn archive_len(data: &[u8]) -> Option<u64> {
    let mut end = None;
    for member in Archive::read(data).ok()?.members() {
        match member.ok().map(|member| member.location) {
            Some(MemberLocation::Inside(content)) => end = Some(content.end()),
            _ => break,
        }
    }
    end
}

/// Returns the triple that DPC++ gives an image with this content, or `None` if the content is of no known form.
pub(crate) fn triple(content: &[u8]) -> Option<Cow<'static, str>> {
    let triple = match Magic::identify(content) {
        Magic::Code(CodeMagic::SpirV) if spirv::width(content) == Some(Width::Bits32) => "spir",
        Magic::Code(CodeMagic::SpirV) => "spir64",
        Magic::Code(CodeMagic::IntelGpu) | Magic::Archive => intel_gpu::ARCH,
        Magic::Code(CodeMagic::Elf) if elf_machine(content) == Some(EM_X86_64) => "spir64_x86_64",
        Magic::Container(Format::Fatbin) | Magic::Code(CodeMagic::Cubin | CodeMagic::Ptx) => "nvptx64-nvidia-cuda",
        Magic::Container(Format::Bundle) | Magic::CompressedBundle | Magic::Code(CodeMagic::AmdGpu) => {
            "amdgcn-amd-amdhsa"
        }
        Magic::Container(Format::OffloadBinary) => "spirv64-intel",
        Magic::Code(CodeMagic::Bitcode) => return bitcode::triple(content).map(Cow::Owned),
        _ => return None,
    };
    Some(Cow::Borrowed(triple))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame with these fields and one raw block of three bytes.
    #[cfg(feature = "zstd")]
    fn frame(descriptor: u8, fields: &[u8], end: &[u8]) -> Vec<u8> {
        [&ZSTD_MAGIC[..], &[descriptor], fields, &[3 << 3 | 1, 0, 0], b"abc", end].concat()
    }

    #[test]
    #[cfg(feature = "zstd")]
    fn frames_end_with_their_last_block() {
        for (data, inflated) in [
            (frame(0x20, &[3], b""), Some(3)),
            (frame(0x60, &[0, 1], b""), Some(512)),
            (frame(0xa0, &[3, 0, 0, 1], b""), Some(0x100_0003)),
            (frame(0xe0, &[3, 0, 0, 0, 0, 0, 0, 0], b""), Some(3)),
            (frame(0x00, &[0x58], b""), None),
            (frame(0x04, &[0x58], b"sum!"), None),
            (frame(0x23, &[1, 2, 3, 4, 3], b""), Some(3)),
        ] {
            let len = len_u64(&data);
            let read = |data: &[u8]| codec::frame_len_and_size(data).ok();
            assert_eq!(read(&data), Some((len, inflated)), "{data:?}");
            assert_eq!(read(&[&data[..], b"more"].concat()), Some((len, inflated)));
            assert!((0..data.len()).all(|len| read(&data[..len]).is_none()), "{data:?}");
        }
        // A block that repeats a byte takes one; there is no fourth type.
        let len = |data: &[u8]| codec::frame_len_and_size(data).ok().map(|(len, _)| len);
        assert_eq!(len(&[&ZSTD_MAGIC[..], &[0x20, 9, 9 << 3 | 3, 0, 0, b'x']].concat()), Some(10));
        assert_eq!(len(&[&ZSTD_MAGIC[..], &[0x20, 9, 7, 0, 0, b'x']].concat()), None);
    }

    #[test]
    fn modules_end_at_the_next_one_or_at_zeros() {
        let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
        let module = words(&[spirv::MAGIC, 0x1_0000, 0, 1, 0, 0x2_0011, 6, 0x3_000e, 2, 2]);
        for after in [&b""[..], &[0; 8], &module, b"\x7fELF", b"x"] {
            assert_eq!(spirv_len(&[&module, after].concat()), Some(40), "{after:?}");
        }
        assert_eq!(spirv_len(&module[..19]), None);
    }

    #[test]
    fn an_archive_ends_with_its_last_member() {
        let member = |content: &str| format!("{:<48}{:<10}`\n{content}", "a.o/", content.len());
        let archive = ["!<arch>\n", &member("even"), &member("zeros\0\0\0\0\0")].concat();
        let section = [archive.as_bytes(), &[0; 6]].concat();
        let found = all_images(&section, 0, &[]);
        assert!(
            matches!(&found[..], [Stored::Range(range)] if *range == (0..len_u64(archive.as_bytes()))),
            "{found:?}"
        );
    }

    #[test]
    #[cfg(feature = "zstd")]
    fn what_no_table_has_is_found_between_the_images() {
        let module = [spirv::MAGIC, 0x1_0000, 0, 1, 0, 0x2_0011, 6].map(u32::to_le_bytes).concat();
        let section = [&module[..], &[0; 4], &frame(0x20, &[3], b""), &[0; 3], &module, &[0; 9]].concat();
        let found = |images: &[Image]| {
            let of = |part: &Stored| part.range().cloned().unwrap_or(0..0);
            all_images(&section, 0, images).iter().map(of).collect::<Vec<_>>()
        };
        let all = [0..28, 32..44, 47..75];
        assert_eq!(found(&[]), all);
        assert_eq!(found(&[Image { offset: 0, size: 28 }]), all);
        assert_eq!(found(&[Image { offset: 32, size: 3 }, Image { offset: 47, size: 28 }]), all);
        // The size of a frame may be recorded, or that of the inflated image.
        for (size, expected) in [(3, 3), (12, 3), (5, 5)] {
            let [part, ..] = &all_images(&section, 0, &[Image { offset: 32, size }])[1..] else { panic!("{size}") };
            assert!(matches!(part, Stored::Packed(packed) if packed.inflated == expected), "{part:?}");
        }
        // A size beyond the section, and a frame that another image cuts: what its rest is, nothing tells.
        assert_eq!(found(&[Image { offset: 47, size: 99 }]), [0..28, 32..44, 0..0]);
        assert_eq!(
            found(&[Image { offset: 32, size: 3 }, Image { offset: 36, size: 4 }]),
            [0..28, 0..0, 36..40, 41..72]
        );
    }
}

//! Finds the device images of programs that Intel's DPC++ has linked, and names each.
//!
//! An image records no ID. Its offload kind and triple are in the name of its section. Otherwise the kind is SYCL, and
//! the content decides the triple ([`sycl::triple`]):
//!
//! | content | triple |
//! |---|---|
//! | SPIR-V | `spir64`, `spir` |
//! | ELF file for Intel GPUs, `ar` archive | `spir64_gen` |
//! | ELF file for x86-64 (OpenCL on CPUs) | `spir64_x86_64` |
//! | fatbin, cubin, PTX | `nvptx64-nvidia-cuda` |
//! | bundle, ELF file for AMD GPUs | `amdgcn-amd-amdhsa` |
//! | bitcode | the triple that it records |
//!
//! An ELF file for one Intel GPU adds its name as the target ID: `sycl-spir64_gen-unknown-unknown--pvc`. An archive is
//! searched like any archive.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::ops::Range;

use super::Format;
use super::Unread;
use super::place::{Place, Step};
use super::sections::{self, ListedSections};
use super::walk::{FilePart, ONLY_BUNDLE, Walk};
use crate::base::bytes::{len_of, span, text};
use crate::base::error::{Malformed, Result, WithPath};
use crate::base::id::EntryId;
use crate::base::io::input::Slice;
use crate::beyond::code::{CodeMagic, intel_gpu, target};
use crate::beyond::container::sycl::{self, Image};
use crate::beyond::container::{ContentKind, Magic, SearchEntry, Stored};
use crate::llvm::container::MAGIC;

/// The finding for an image in a table whose content has no known format. Images for the host, for example, are tables
/// of functions of the program.
const UNKNOWN_IMAGE: Unread = Unread::device_code("device image of an unknown format");

/// The maximum cost of inflating the beginning of a compressed image, in bytes: one block of zstd.
const HEAD_COST: u64 = 128 << 10;

/// The largest compressed image that is inflated as a whole to find the name of its Intel GPU, in bytes.
const INTEL_IMAGE_MAX: u64 = 64 << 20;

/// The tables of device images of an object, and the sections that hold such images.
#[derive(Default)]
pub(super) struct ImageTables {
    /// The ranges of the tables in the object.
    tables: Vec<Range<u64>>,
    /// The ranges of the sections with images, in order. Sections that share bytes are one range.
    sections: Vec<Range<u64>>,
    /// The content of all tables, once they were read.
    read: OnceCell<ReadTables>,
}

/// The content of all tables of an object.
#[derive(Default)]
struct ReadTables {
    /// All images, in the order of the file.
    images: Vec<Image>,
    /// The faults, each with the index of its table.
    faults: Vec<(usize, Malformed)>,
}

impl ImageTables {
    /// Takes the ranges of the tables, and of the sections with images, in any order.
    pub(super) fn new(tables: impl Iterator<Item = Range<u64>>, sections: impl Iterator<Item = Range<u64>>) -> Self {
        let mut sections: Vec<Range<u64>> = sections.collect();
        sections.sort_unstable_by_key(|range| (range.start, range.end));
        // Joins each range with the next ones that share bytes with it. So an offset is in one range at most, and
        // `is_in_section` finds that range by its start.
        sections.dedup_by(|next, range| {
            let shares_bytes = next.start < range.end;
            range.end = if shares_bytes { range.end.max(next.end) } else { range.end };
            shares_bytes
        });
        Self { tables: tables.collect(), sections, read: OnceCell::new() }
    }

    /// Returns the ranges of the images that are outside of the sections for images, in order. Returns no ranges if the
    /// tables were not read before.
    pub(super) fn ranges_outside_sections(&self) -> Vec<Range<u64>> {
        let mut ranges = Vec::new();
        if let Some(read) = self.read.get() {
            for image in &read.images {
                if !self.is_in_section(image.offset) {
                    ranges.push(span(image.offset, image.size));
                }
            }
        }
        ranges
    }

    /// Returns whether an offset in the object is in a section with device images.
    fn is_in_section(&self, offset: u64) -> bool {
        let starting_before = self.sections.partition_point(|range| range.start <= offset);
        let Some(last) = starting_before.checked_sub(1) else { return false };
        match self.sections.get(last) {
            Some(range) => offset < range.end,
            None => false,
        }
    }
}

impl Walk<'_, '_, '_> {
    /// Returns the content of the tables of an object, and reads it at the first call: reading a table takes the
    /// relocations of the whole file. Tables beyond the cost limit are left out.
    fn read_tables<'t>(&mut self, object: FilePart<'_>, tables: &'t ImageTables) -> Result<&'t ReadTables> {
        if let Some(read) = tables.read.get() {
            return Ok(read);
        }
        let (data, mut read) = (object.data, ReadTables::default());
        for (index, table) in tables.tables.iter().enumerate() {
            if !self.spend(object, data.len())? {
                break;
            }
            let (images, faults) = sycl::images(data.bytes(), data.offset(), table);
            read.images.extend(images);
            read.faults.extend(faults.into_iter().map(|fault| (index, fault)));
        }
        // Several tables may list the same image, which is reported once.
        read.images.sort_unstable();
        read.images.dedup();
        Ok(tables.read.get_or_init(|| read))
    }

    /// Reports the device images in a section of an object: the images that the tables list, and the data between them,
    /// which [`sycl::all_images`] divides into images.
    pub(super) fn report_device_images(
        &mut self,
        object: Slice<'_>,
        section: FilePart<'_>,
        tables: &ImageTables,
    ) -> Result<()> {
        let data = section.data;
        let Range { start, end } = span(data.start_in(object), data.len());
        let all = &self.read_tables(section.with_bytes(object), tables)?.images;
        let before_section = all.partition_point(|image| image.offset < start);
        let inside = all.iter().skip(before_section).take_while(|image| image.offset < end);
        let images: Vec<Image> = inside.map(|image| relative(image, start)).collect();
        self.report_images(section, sycl::all_images(data.bytes(), data.offset(), &images))
    }

    /// Reports the faults of a table of device images. With the first table of the object, also reports the images of
    /// all tables that are outside of the sections for images.
    pub(super) fn report_image_table(
        &mut self,
        object: FilePart<'_>,
        table: FilePart<'_>,
        tables: &ImageTables,
    ) -> Result<()> {
        let data = object.data;
        let read = self.read_tables(table.with_bytes(data), tables)?;
        let start = table.data.start_in(data);
        let Some(index) = tables.tables.iter().position(|range| range.start == start) else { return Ok(()) };
        let faults = read.faults.iter().filter(|(of_table, _)| *of_table == index).map(|(_, fault)| fault.clone());
        self.report_faults(table, faults)?;
        let is_first_table = index == 0;
        if is_first_table {
            let elsewhere = read.images.iter().filter(|image| !tables.is_in_section(image.offset)).collect();
            self.report_images_elsewhere(object, elsewhere)?;
        }
        Ok(())
    }

    /// Reports device images that are not in sections for images, such as images in `.rodata`: as one bundle for each
    /// section that has any. Images before the first section are left out.
    fn report_images_elsewhere(&mut self, object: FilePart<'_>, images: Vec<&Image>) -> Result<()> {
        if images.is_empty() {
            return Ok(());
        }
        let data = object.data;
        let mut all = sections::read(data.bytes(), data.offset(), ListedSections::All).with_path(data.path())?;
        all.others.append(&mut all.for_device);
        all.others.sort_by_key(|section| section.range.start);
        let mut by_section: BTreeMap<usize, Vec<&Image>> = BTreeMap::new();
        for image in images {
            let starting_before = all.others.partition_point(|section| section.range.start <= image.offset);
            if let Some(last) = starting_before.checked_sub(1) {
                by_section.entry(last).or_default().push(image);
            }
        }
        for (index, images) in by_section {
            let Some(section) = all.others.get(index) else { continue };
            let Some(place) = self.step(object.place, Step::Section(section.name.clone())) else { continue };
            let Some(data) = data.range(&section.range) else { continue };
            let images: Vec<Image> = images.into_iter().map(|image| relative(image, section.range.start)).collect();
            let stored = sycl::recorded_images(data.bytes(), data.offset(), &images);
            self.report_images(object.at_place(&place, data), stored.into_iter().map(|stored| stored.part).collect())?;
        }
        Ok(())
    }

    /// Reports images in a section as one bundle. An image without an ID is left out of the bundle and reported alone:
    /// neither the name of the section nor the content of the image gives a triple.
    fn report_images(&mut self, at: FilePart<'_>, parts: Vec<Stored>) -> Result<()> {
        let recorded = recorded_kind_and_triple(at.place);
        let mut entries = Vec::with_capacity(parts.len());
        for part in parts {
            let content = self.identifying_bytes(at, &part)?;
            match (image_id(recorded.as_deref(), content.as_deref().unwrap_or_default()), part) {
                (Some(id), part) => entries.push(SearchEntry::new(id.into_bytes(), part)),
                (None, Stored::Unreadable(malformed)) => self.report_faults(at, [malformed])?,
                (None, part) => {
                    let start = part.range().map_or(0, |range| range.start);
                    let from_image = at.data.tail(start).unwrap_or(at.data);
                    self.report_unread(at.with_bytes(from_image), UNKNOWN_IMAGE)?;
                }
            }
            if self.budget.is_over {
                return Ok(());
            }
        }
        if entries.is_empty() { Ok(()) } else { self.report_entries(at, Format::DeviceImages, ONLY_BUNDLE, entries) }
    }

    /// Returns the bytes of an image that identify its content: the whole image, but only the first bytes of a
    /// compressed image that is not for Intel GPUs. Returns `None` if the image cannot be read, or once the cost limit
    /// is exceeded.
    fn identifying_bytes<'s>(&mut self, section: FilePart<'s>, part: &Stored) -> Result<Option<Cow<'s, [u8]>>> {
        let packed = match part {
            Stored::Range(range) => {
                // Identifying the content may read all of the image, and images may overlap, so each is charged.
                if !self.spend(section, len_of(range))? {
                    return Ok(None);
                }
                let image = section.data.range(range);
                return Ok(image.map(|image| Cow::Borrowed(image.bytes())));
            }
            Stored::Packed(packed) => packed,
            Stored::Unreadable(_) => return Ok(None),
        };
        if !self.spend(section, HEAD_COST.min(packed.inflated))? {
            return Ok(None);
        }
        let head = packed.head(section.data, ContentKind::HEAD_LEN);
        // An ELF file for an Intel GPU names the GPU in a section, which is not in the first bytes.
        let is_intel = match &head {
            Some(head) => Magic::identify(head) == Magic::Code(CodeMagic::IntelGpu),
            None => false,
        };
        // The whole image is charged only if its size is within the limits.
        let is_whole_needed = is_intel
            && packed.inflated <= INTEL_IMAGE_MAX.min(self.scan.limits.inflated)
            && self.spend(section, packed.inflated)?;
        let whole = if is_whole_needed { packed.head(section.data, packed.inflated) } else { None };
        Ok(whole.or(head).map(Cow::Owned))
    }
}

/// Returns an image with its offset counted from `start`.
fn relative(image: &Image, start: u64) -> Image {
    Image { offset: image.offset.saturating_sub(start), ..*image }
}

/// Returns the offload kind and triple in the name of the section at a place, or `None` if the name has neither. Names
/// are `__CLANG_OFFLOAD_BUNDLE__` with kind and triple, or a triple alone, which is for SYCL.
fn recorded_kind_and_triple(place: &Place) -> Option<String> {
    let Some(Step::Section(name)) = place.steps().last() else { return None };
    match name.strip_prefix(MAGIC.as_bytes()) {
        Some([]) => None,
        Some(id) => text(id),
        // Other names, such as `OFFLOAD_DEVICE_CODE` and the cut names in PE files, do not parse.
        None => {
            let id = ["sycl-", &text(name)?].concat();
            if EntryId::parse_any(&id).is_ok() { Some(id) } else { None }
        }
    }
}

/// Returns the ID of an image with this content. `recorded` is the kind and triple in the name of its section. Without
/// a record, the content decides; returns `None` if its format is not known.
fn image_id(recorded: Option<&str>, content: &[u8]) -> Option<String> {
    let id = match recorded {
        Some(recorded) => recorded.to_owned(),
        None => ["sycl-", &sycl::triple(content)?].concat(),
    };
    if Magic::identify(content) == Magic::Code(CodeMagic::IntelGpu)
        && let Some(gpu) = target::target_id(content)
        && let Some(id) = with_target_id(&id, &gpu)
    {
        return Some(id);
    }
    Some(id)
}

/// Adds a target ID to an ID for Intel GPUs. A target ID follows a full triple, so missing fields are filled with
/// `unknown`. Returns `None` for an ID with another architecture.
fn with_target_id(id: &str, target_id: &str) -> Option<String> {
    let (kind, triple) = id.split_once('-')?;
    let mut fields = triple.split('-');
    let arch = fields.next().filter(|arch| *arch == intel_gpu::ARCH)?;
    let (vendor, os) = (fields.next().unwrap_or("unknown"), fields.next().unwrap_or("unknown"));
    Some(format!("{kind}-{arch}-{vendor}-{os}--{target_id}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_named_by_section_or_content() {
        let spirv = [0x0723_0203_u32, 0x1_0000, 0, 1, 0, 0x2_0011, 6, 0x3_000e, 1, 2].map(u32::to_le_bytes).concat();
        let mut elf = b"\x7fELF\x02\x01\x01".to_vec();
        elf.resize(64, 0);
        elf[18] = 62;
        for (recorded, content, expected) in [
            (Some("sycl-spir64"), &spirv[..], Some("sycl-spir64")),
            (Some("openmp-spir64_gen"), b"", Some("openmp-spir64_gen")),
            (None, &spirv, Some("sycl-spir")),
            (None, &elf, Some("sycl-spir64_x86_64")),
            (None, b"!<arch>\n", Some("sycl-spir64_gen")),
            (None, b"//\n.version 8.0\n.target sm_80\n", Some("sycl-nvptx64-nvidia-cuda")),
            (None, b"", None),
        ] {
            assert_eq!(image_id(recorded, content).as_deref(), expected);
        }
    }

    #[test]
    fn ids_with_a_gpu_can_be_parsed() {
        for (id, expected) in [
            ("sycl-spir64_gen", Some("sycl-spir64_gen-unknown-unknown--dg2-g10")),
            ("openmp-spir64_gen-intel", Some("openmp-spir64_gen-intel-unknown--dg2-g10")),
            ("sycl-spir64", None),
        ] {
            let with_target_id = with_target_id(id, "dg2-g10");
            assert_eq!(with_target_id.as_deref(), expected);
            let parsed = with_target_id.map(|id| EntryId::parse_any(&id).unwrap());
            assert!(parsed.is_none_or(|id| id.target_id().processor() == "dg2-g10"));
        }
    }
}

//! Reads the wrappers that programs use to register device code: the sections that hold them, one after another, and
//! the addresses in them.
//!
//! | section | PE | magic | wraps |
//! |---|---|---|---|
//! | `.nvFatBinSegment` | `.nvFatBi` | 0x466243B1 | a CUDA fatbin |
//! | `.hipFatBinSegment` | `.hipFatB` | 0x48495046 | a bundle, plain or compressed |
//! | | | 0x4B504948 | the section `.rocm_kpack_ref` |
//!
//! A wrapper is 24 bytes long:
//!
//! | offset | width | meaning |
//! |---|---|---|
//! | 0 | 4 | magic |
//! | 4 | 4 | version 1; for CUDA also 2, for linked device code |
//! | 8 | 8 | address of the code |
//! | 16 | 8 | CUDA, version 2: address of the addresses of the fatbins that were linked, which are not checked |
//! | 16 | 4 | kpack: index, which ends the binary key of its code |
//!
//! The address is in the section, in a relocation, or in both. Zeros between wrappers are padding, in multiples of 8.
//! Sources: CUDA 13.5; clang 22.1.8, lld and GNU ld; rocm-kpack of February 2026.
//!
//! Linked ELF files without section headers have the same wrappers in their segments ([`runs`]).
//!
//! Rejected: another magic, an address at which no code begins and, for kpack, an address other than that of the
//! section `.rocm_kpack_ref`.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use object::elf::SHF_ALLOC;
use object::read::Relocation;
use object::{
    BinaryFormat, File, Object, ObjectKind, ObjectSection, ObjectSymbol, ObjectSymbolTable, RelocationTarget,
    SectionFlags, SymbolKind,
};

use memchr::memmem::Finder;

use super::dynamic::{Dynamic, loaded_segments};
use crate::base::bytes::{Cursor, array, bytes_in, is_zero, len_of, number, slice, span, tail, to_u64};
use crate::base::error::Malformed;
use crate::beyond::base::error::fail_at;
use crate::beyond::code::CodeMagic;
use crate::beyond::container::kpack::REFERENCE_SECTIONS;
use crate::beyond::container::{Format, Magic};
use crate::beyond::limits::FAULTS_MAX;

const WRAPPER_LEN: u64 = 24;
/// The offset of the address in a wrapper.
const ADDRESS_AT: u64 = 8;
/// The offset of the index in a kpack wrapper.
const INDEX_AT: u64 = 16;
/// The alignment of wrappers, in bytes.
const ALIGNMENT: u64 = 8;
/// The base of offsets in errors that nobody sees: wrappers that cannot be read are left out.
const NO_BASE: u64 = 0;
/// The versions of wrappers.
const VERSIONS: [u32; 2] = [1, 2];

/// The maximum number of runs of wrappers that are read in a file without section headers. Linkers write one run for
/// each kind, and all relocations of the file are read for each run.
pub(crate) const RUNS_MAX: usize = 16;

/// The kind of a wrapper, by the code that it registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WrapperKind {
    Fatbin,
    Bundle,
    /// A reference to kpack archives, instead of a bundle.
    KpackReference,
}

impl WrapperKind {
    const fn magic(self) -> u32 {
        match self {
            Self::Fatbin => 0x4662_43b1,
            Self::Bundle => 0x4849_5046,
            Self::KpackReference => 0x4b50_4948,
        }
    }

    /// The name of the target of a wrapper of this kind, for messages.
    fn target(self) -> &'static str {
        match self {
            Self::Fatbin => "a fatbin",
            Self::Bundle => "a bundle",
            Self::KpackReference => "the reference to kpack archives",
        }
    }

    /// The kinds of wrappers that may be in one section with wrappers of this kind: in a split library, references
    /// replace bundles.
    fn kinds_in_section(self) -> &'static [Self] {
        match self {
            Self::Fatbin => &[Self::Fatbin],
            Self::Bundle | Self::KpackReference => &[Self::Bundle, Self::KpackReference],
        }
    }
}

/// Returns the offsets of the wrappers in a section. The last one may be cut off, and their magics are not checked.
fn wrapper_starts(section: &[u8]) -> impl Iterator<Item = u64> {
    let mut next = 0_u64;
    std::iter::from_fn(move || {
        loop {
            let start = next;
            let rest = tail(section, start)?;
            if rest.is_empty() {
                return None;
            }
            // A wrapper begins with its magic, which is not zero.
            let is_padding = is_zero(slice(rest, 0, ALIGNMENT).unwrap_or(rest));
            if !is_padding {
                next = start.saturating_add(WRAPPER_LEN);
                return Some(start);
            }
            next = start.saturating_add(ALIGNMENT);
        }
    })
}

/// Returns the offsets of the wrappers of a kind in a section.
fn starts_of_kind(section: &[u8], kind: WrapperKind) -> impl Iterator<Item = u64> {
    let magic = kind.magic().to_le_bytes();
    wrapper_starts(section).filter(move |start| slice(section, *start, 4) == Some(&magic))
}

/// The number of wrappers of a kind in a section.
pub(crate) fn count(section: &[u8], kind: WrapperKind) -> u64 {
    to_u64(starts_of_kind(section, kind).count())
}

/// The indices in the kpack wrappers of a section. Each ends the binary key of the code that the wrapper loads.
pub(crate) fn kpack_indices(section: &[u8]) -> Vec<u32> {
    let mut indices = Vec::new();
    for start in starts_of_kind(section, WrapperKind::KpackReference) {
        if let Some(index) = array(section, start.saturating_add(INDEX_AT)) {
            indices.push(u32::from_le_bytes(index));
        }
    }
    indices
}

/// Finds the wrappers in a range of a linked ELF file without section headers, by their magics and versions. Returns
/// the range of each run of wrappers, with the kind of its first wrapper, but at most [`RUNS_MAX`] runs.
pub(crate) fn runs(data: &[u8], range: &Range<u64>) -> Vec<(WrapperKind, Range<u64>)> {
    let mut runs = Vec::new();
    for kind in [WrapperKind::Fatbin, WrapperKind::Bundle, WrapperKind::KpackReference] {
        let magic = kind.magic().to_le_bytes();
        let finder = Finder::new(&magic);
        let mut position = range.start;
        while let Some(rest) = bytes_in(data, position..range.end)
            && let Some(hit) = finder.find(rest)
            && runs.len() < RUNS_MAX
        {
            let start = position.saturating_add(to_u64(hit));
            let len = run_len(bytes_in(data, start..range.end).unwrap_or_default(), kind);
            let is_aligned = start.is_multiple_of(ALIGNMENT);
            if len > 0 && is_aligned && !runs.iter().any(|(_, run): &(_, Range<u64>)| run.contains(&start)) {
                runs.push((kind, span(start, len)));
            }
            // A wrapper is longer than its magic.
            position = start.saturating_add(len.max(1));
        }
    }
    runs.sort_by_key(|(_, run)| run.start);
    runs
}

/// Returns the length of the run of wrappers at the start of data, without the padding after it, or 0 if the data does
/// not begin with a wrapper. All wrappers of a run may be in one section with `kind`.
fn run_len(data: &[u8], kind: WrapperKind) -> u64 {
    let magics: Vec<u32> = kind.kinds_in_section().iter().map(|kind| kind.magic()).collect();
    let mut end = 0;
    for start in wrapper_starts(data) {
        let Some(wrapper) = slice(data, start, WRAPPER_LEN) else { break };
        let number = |at| array(wrapper, at).map(u32::from_le_bytes).unwrap_or_default();
        // Zeros that are longer than a wrapper end the run.
        let is_far = start.saturating_sub(end) > WRAPPER_LEN;
        if is_far || !magics.contains(&number(0)) || !VERSIONS.contains(&number(4)) {
            break;
        }
        end = start.saturating_add(WRAPPER_LEN);
    }
    end
}

/// Returns the offset of the reference to kpack archives in a linked ELF file without section headers: the target of
/// the first wrapper in the range `wrappers` that points at one.
pub(crate) fn reference(data: &[u8], wrappers: &Range<u64>) -> Option<u64> {
    PointerMap::read(data, wrappers)?.reference
}

/// Checks the wrappers in a section for one kind. `wrappers` is the range of the section in the object file `data`.
/// Returns the first faults, whose offsets count from `base`. An object file that cannot be read has none.
pub(crate) fn faults(data: &[u8], base: u64, wrappers: &Range<u64>, kind: WrapperKind) -> Vec<Malformed> {
    let Some(map) = PointerMap::read(data, wrappers) else { return Vec::new() };
    map.starts().filter_map(|start| map.check_wrapper(start, base, kind).err()).take(FAULTS_MAX).collect()
}

/// Returns the targets of the wrappers of a kind as offsets in the file. Leaves out targets outside of the file.
/// `wrappers` is the range of their section in the object file `data`.
pub(crate) fn targets(data: &[u8], wrappers: &Range<u64>, kind: WrapperKind) -> Vec<u64> {
    let Some(map) = PointerMap::read(data, wrappers) else { return Vec::new() };
    let mut targets = Vec::new();
    for start in map.starts() {
        // `faults` reports broken wrappers.
        match map.read_wrapper(start, NO_BASE, kind) {
            Ok(Wrapper { kind: found, target: Some(target) }) if found == kind => targets.extend(map.offset_of(target)),
            _ => {}
        }
    }
    targets
}

/// Returns the source file of each bundle in a linked file, by the offset of the bundle. The symbol table names a
/// source file before the symbols of that file. A wrapper among these symbols points at the bundle of the source file.
/// `wrappers` is the section of the wrappers.
pub(crate) fn sources(data: &[u8], wrappers: &Range<u64>) -> HashMap<u64, Vec<u8>> {
    let (Some(map), Ok(file)) = (PointerMap::read(data, wrappers), File::parse(data)) else { return HashMap::new() };
    let (mut source, mut sources) = (None, HashMap::new());
    for symbol in file.symbols() {
        if symbol.kind() == SymbolKind::File {
            source = symbol.name_bytes().ok();
            continue;
        }
        // No source file was named yet.
        let Some(source) = source else { continue };
        // Only local symbols follow the name of their source file.
        if symbol.is_local()
            && let Some(start) = map.offset_of(PointerValue::Address(symbol.address()))
            && wrappers.contains(&start)
            && let Ok(Wrapper { target: Some(target), .. }) = map.read_wrapper(start, NO_BASE, WrapperKind::Bundle)
            && let Some(bundle) = map.offset_of(target)
        {
            sources.insert(bundle, source.to_vec());
        }
    }
    sources
}

/// The wrapper of a bundle, a fatbin or a kpack reference, as read from its section.
struct Wrapper {
    kind: WrapperKind,
    /// The address of the code, or `None` if another object holds the code.
    target: Option<PointerValue>,
}

/// The pointers in a section of an object file, after relocation.
pub(crate) struct PointerMap<'d> {
    data: &'d [u8],
    /// Whether addresses are 64 bits wide.
    is_64: bool,
    /// The range of the section in the file.
    section: Range<u64>,
    /// The targets that relocations write, by the offset of the pointer in the file. A target is `None` if another
    /// object defines it.
    relocated: HashMap<u64, Option<PointerValue>>,
    /// The size of each section of a linked file and its offset in the file, by its address. In a file without section
    /// headers, these are the segments.
    mapped: BTreeMap<u64, (u64, u64)>,
    /// The offset of the section with the reference to kpack archives, if the file has one.
    reference: Option<u64>,
}

/// The target of a pointer after relocation.
#[derive(Clone, Copy)]
pub(crate) enum PointerValue {
    Address(u64),
    /// An offset in the file: an object that is not linked has no addresses.
    Offset(u64),
}

impl PointerValue {
    pub(crate) fn is_null(self) -> bool {
        matches!(self, Self::Address(0))
    }
}

impl<'d> PointerMap<'d> {
    /// Reads the relocations of the section that has the range `range` in the file `data`. Returns `None` if `data` is
    /// not an object file, or if no section with content begins there.
    pub(crate) fn read(data: &'d [u8], range: &Range<u64>) -> Option<Self> {
        let file = File::parse(data).ok()?;
        // Linked Mach-O files have their relocations in forms that are not read.
        let is_linked = file.kind() != ObjectKind::Relocatable;
        if is_linked && file.format() == BinaryFormat::MachO {
            return None;
        }
        let reference = REFERENCE_SECTIONS.iter().find_map(|name| file.section_by_name(name)?.file_range());
        let reference = reference.map(|(start, _)| start);
        let (relocated, mapped) = (HashMap::new(), BTreeMap::new());
        let mut map = Self { data, is_64: file.is_64(), section: range.clone(), relocated, mapped, reference };
        if file.sections().next().is_none() {
            map.read_segments(&file)?;
            return Some(map);
        }
        let pointer_section = file.sections().find(|section| match section.file_range() {
            Some((start, size)) => start == range.start && size > 0,
            None => false,
        })?;
        if is_linked {
            map.read_sections(&file);
            map.read_dynamic_relocations(&file, pointer_section.address());
        } else {
            map.read_relocations(&file, pointer_section.relocations().take(map.relocations_max()));
        }
        Some(map)
    }

    /// Reads where the segments of a linked ELF file without section headers are, its relocations, and the reference to
    /// kpack archives. Returns `None` if no segment holds the pointers.
    fn read_segments(&mut self, file: &File<'_>) -> Option<()> {
        let segments = loaded_segments(self.data);
        let pointer_segment = segments.iter().find(|segment| segment.range.contains(&self.section.start))?;
        let section_address =
            pointer_segment.address.wrapping_add(self.section.start.saturating_sub(pointer_segment.range.start));
        for segment in &segments {
            self.mapped.insert(segment.address, (len_of(&segment.range), segment.range.start));
        }
        self.read_dynamic_relocations(file, section_address);
        let reference =
            self.starts().find_map(|start| match self.read_wrapper(start, NO_BASE, WrapperKind::KpackReference) {
                Ok(Wrapper { kind: WrapperKind::KpackReference, target: Some(target) }) => self.offset_of(target),
                _ => None,
            });
        self.reference = reference;
        Some(())
    }

    /// The maximum number of relocations that are read. A broken file may list the same relocations many times. In a
    /// valid file, each is for a word of its own, of at least 4 bytes.
    fn relocations_max(&self) -> usize {
        self.data.len() / 4
    }

    /// Reads the relocations of an object that is not linked, which lead to offsets in its sections.
    fn read_relocations(&mut self, file: &File<'_>, relocations: impl Iterator<Item = (u64, Relocation)>) {
        for (offset, relocation) in relocations {
            let Some(pointer_at) = self.section.start.checked_add(offset) else { continue };
            let target = match symbol_offset(file, &relocation) {
                Some(start) => self.relocated_value(&relocation, start, pointer_at),
                None => None,
            };
            self.relocated.insert(pointer_at, target.map(PointerValue::Offset));
        }
    }

    /// Reads the relocations of a linked file, and keeps those of the section. `section_address` is the address of the
    /// section.
    fn read_dynamic_relocations(&mut self, file: &File<'_>, section_address: u64) {
        let (section, max_count) = (self.section.clone(), self.relocations_max());
        let pointer_offset = |address: u64| {
            let pointer_at = section.start.saturating_add(address.checked_sub(section_address)?);
            if section.contains(&pointer_at) { Some(pointer_at) } else { None }
        };
        // The dynamic segment also leads to packed relocations, and it needs no section headers.
        if let Some(dynamic) = Dynamic::read(self.data) {
            dynamic.visit_relocations(max_count, &mut |relocation| {
                let Some(pointer_at) = pointer_offset(relocation.address) else { return };
                let start = dynamic.symbol_address(relocation.symbol);
                let addend = relocation.addend.or_else(|| number::<8>(self.data, pointer_at));
                let target = start.zip(addend).map(|(start, addend)| start.wrapping_add(addend));
                self.relocated.insert(pointer_at, target.map(PointerValue::Address));
            });
            return;
        }
        for (address, relocation) in file.dynamic_relocations().into_iter().flatten().take(max_count) {
            let Some(pointer_at) = pointer_offset(address) else { continue };
            let target = match symbol_address(file, &relocation) {
                Some(start) => self.relocated_value(&relocation, start, pointer_at),
                None => None,
            };
            self.relocated.insert(pointer_at, target.map(PointerValue::Address));
        }
    }

    /// Reads where the sections of a linked file are, so that addresses can be found in the file.
    fn read_sections(&mut self, file: &File<'_>) {
        for section in file.sections() {
            // Sections that are empty or not in memory may have the same address as another.
            match section.file_range() {
                Some((start, size)) if size > 0 && is_loaded(&section) => {
                    self.mapped.insert(section.address(), (size, start));
                }
                _ => {}
            }
        }
    }

    /// Returns the value that a relocation writes at the offset `pointer_at` of the file. `symbol` is the address or
    /// offset of its symbol. The addend is in the relocation, or in the bytes that it replaces.
    fn relocated_value(&self, relocation: &Relocation, symbol: u64, pointer_at: u64) -> Option<u64> {
        let replaced = if relocation.has_implicit_addend() { number::<8>(self.data, pointer_at)? } else { 0 };
        Some(symbol.wrapping_add_signed(relocation.addend()).wrapping_add(replaced))
    }

    pub(crate) fn is_64(&self) -> bool {
        self.is_64
    }

    /// Returns the target of the pointer at an offset in the file, or `None` if another object defines it, or if the
    /// file ends before the pointer does. Without a relocation, the bytes in the file are the address.
    pub(crate) fn target_at(&self, at: u64) -> Option<PointerValue> {
        match self.relocated.get(&at) {
            Some(target) => *target,
            None => Some(PointerValue::Address(number::<8>(self.data, at)?)),
        }
    }

    /// The offsets of the wrappers in the file.
    fn starts(&self) -> impl Iterator<Item = u64> {
        let section = bytes_in(self.data, self.section.clone()).unwrap_or_default();
        wrapper_starts(section).map(|start| self.section.start.saturating_add(start))
    }

    /// Reads the wrapper at the offset `start` of the file, in a section for the kind `section_kind`. Offsets in errors
    /// count from `base`.
    fn read_wrapper(&self, start: u64, base: u64, section_kind: WrapperKind) -> Result<Wrapper, Malformed> {
        let rest = bytes_in(self.data, start..self.section.end).unwrap_or_default();
        let mut cursor = Cursor::new(rest, base.saturating_add(start));
        // A section for bundles may have kpack references instead. Messages name only the usual kind.
        let usual = if section_kind == WrapperKind::Fatbin { WrapperKind::Fatbin } else { WrapperKind::Bundle };
        let (target, expected) = (usual.target(), usual.magic());
        let magic = cursor.u32(format_args!("a wrapper of {target}"))?;
        let Some(&kind) = section_kind.kinds_in_section().iter().find(|kind| kind.magic() == magic) else {
            let what = format!("magic of the wrapper of {target}");
            return Err(cursor.invalid(&what, magic, &format!("{expected} ({expected:#x})")));
        };
        // Checks only that version and address are not cut off: the address is read after relocation.
        cursor.u32(format_args!("a wrapper of {target}"))?;
        cursor.u64(format_args!("a wrapper of {target}"))?;
        Ok(Wrapper { kind, target: self.target_at(start.saturating_add(ADDRESS_AT)) })
    }

    /// Checks the wrapper at the offset `start` of the file, in a section for the kind `section_kind`. Offsets in
    /// errors count from `base`.
    fn check_wrapper(&self, start: u64, base: u64, section_kind: WrapperKind) -> Result<(), Malformed> {
        let Wrapper { kind, target } = self.read_wrapper(start, base, section_kind)?;
        // Another object holds the code.
        let Some(target) = target else { return Ok(()) };
        if self.points_at_code(kind, target) {
            return Ok(());
        }
        fail_at(format!("a wrapper that does not point at {}", kind.target()), base.saturating_add(start))
    }

    /// Whether code that a wrapper of this kind may point at begins at the target.
    fn points_at_code(&self, kind: WrapperKind, target: PointerValue) -> bool {
        let Some(offset) = self.offset_of(target) else { return false };
        if kind == WrapperKind::KpackReference {
            return self.reference == Some(offset);
        }
        let Some(code) = tail(self.data, offset) else { return false };
        let magic = Magic::identify(code);
        if kind == WrapperKind::Fatbin {
            return magic == Magic::Container(Format::Fatbin);
        }
        // HIP's runtime also takes a code object without a bundle.
        matches!(magic, Magic::Container(Format::Bundle) | Magic::CompressedBundle | Magic::Code(CodeMagic::AmdGpu))
    }

    /// Returns the offset of a target in the file, or `None` if no section with content holds it.
    pub(crate) fn offset_of(&self, target: PointerValue) -> Option<u64> {
        let address = match target {
            PointerValue::Offset(offset) => return Some(offset),
            PointerValue::Address(address) => address,
        };
        let (start, (size, offset)) = self.mapped.range(..=address).next_back()?;
        let offset_in_section = address.checked_sub(*start)?;
        if offset_in_section < *size { offset.checked_add(offset_in_section) } else { None }
    }
}

/// Whether a section has an address: in ELF files, only if it is in memory when the file is loaded. In other
/// formats, each section has one.
fn is_loaded<'d>(section: &impl ObjectSection<'d>) -> bool {
    match section.flags() {
        SectionFlags::Elf { sh_flags, .. } => sh_flags.contains(SHF_ALLOC),
        _ => true,
    }
}

/// Returns the offset in the file of the symbol or section that a relocation refers to, or `None` if another object
/// defines it.
fn symbol_offset(file: &File<'_>, relocation: &Relocation) -> Option<u64> {
    let (section, offset) = match relocation.target() {
        RelocationTarget::Symbol(index) => {
            let symbol = file.symbol_by_index(index).ok()?;
            (symbol.section_index()?, symbol.address())
        }
        RelocationTarget::Section(index) => (index, 0),
        _ => return None,
    };
    let section = file.section_by_index(section).ok()?;
    let (start, _) = section.file_range()?;
    // In Mach-O objects, sections have addresses before they are linked. Elsewhere the address is 0.
    Some(start.wrapping_add(offset).wrapping_sub(section.address()))
}

/// Returns the address of the symbol that a relocation of a linked file refers to, or `None` if another file defines
/// it.
fn symbol_address(file: &File<'_>, relocation: &Relocation) -> Option<u64> {
    match relocation.target() {
        // The addend is the address.
        RelocationTarget::Absolute => Some(0),
        RelocationTarget::Symbol(index) => {
            let symbol = file.dynamic_symbol_table()?.symbol_by_index(index).ok()?;
            if symbol.is_undefined() { None } else { Some(symbol.address()) }
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_in_a_section_up_to_its_end() {
        let mapped = [(100, (50, 7)), (150, (0, 9)), (200, (1, u64::MAX))].into();
        let relocated = HashMap::new();
        let map = PointerMap { data: b"", is_64: true, section: 0..0, relocated, mapped, reference: None };
        for (address, offset) in
            [(99, None), (100, Some(7)), (149, Some(56)), (150, None), (199, None), (200, Some(u64::MAX)), (201, None)]
        {
            assert_eq!(map.offset_of(PointerValue::Address(address)), offset, "{address}");
        }
        assert_eq!(map.offset_of(PointerValue::Offset(99)), Some(99));
    }
}

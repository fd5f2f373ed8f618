//! Checks the wrappers of fatbins, with which programs register them.
//!
//! The section `.nvFatBinSegment` (`.nvFatBi` in PE) holds wrappers of 24 bytes:
//!
//! | offset | width | meaning |
//! |---|---|---|
//! | 0 | 4 | magic 0x466243B1 |
//! | 4 | 4 | version 1, or 2 for linked device code |
//! | 8 | 8 | address of the fatbin |
//! | 16 | 8 | version 2: address of the addresses of the fatbins that were linked, which are not checked |
//!
//! The address is in the section, in a relocation, or in both. Source: CUDA 13.5; clang 22.1.8, lld and GNU ld.
//!
//! Rejected: another magic, an address at which no fatbin begins.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use object::read::Relocation;
use object::{File, Object, ObjectKind, ObjectSection, ObjectSymbol, RelocationTarget};

use super::{FAULTS_MAX, MAGIC};
use crate::bytes::{Cursor, len_u64, slice};
use crate::error::Malformed;

const WRAPPER_MAGIC: u32 = 0x4662_43b1;
const WRAPPER_LEN: u64 = 24;
/// The offset of the address in a wrapper.
const ADDRESS: u64 = 8;

/// The first faults of the wrappers in a range of an object file. Offsets in them count from `base`.
pub(crate) fn faults(data: &[u8], base: u64, wrappers: &Range<u64>) -> Vec<Malformed> {
    let Ok(file) = File::parse(data) else { return Vec::new() };
    let Some(map) = Map::new(&file, data, wrappers) else { return Vec::new() };
    let starts = (wrappers.start..wrappers.end).step_by(usize::try_from(WRAPPER_LEN).unwrap_or(usize::MAX));
    starts.filter_map(|start| map.fault(start, base).err()).take(FAULTS_MAX).collect()
}

/// The addresses in an object file.
struct Map<'d> {
    data: &'d [u8],
    /// The end of the section with wrappers, in the file.
    end: u64,
    /// The addresses that relocations put at offsets in the file.
    relocated: HashMap<u64, Option<Target>>,
    /// The sections of a linked file by address: size, and offset in the file.
    sections: BTreeMap<u64, (u64, u64)>,
}

/// The value of an address after relocation.
#[derive(Clone, Copy)]
enum Target {
    Address(u64),
    /// An offset in the file, of an object that is not linked.
    Offset(u64),
}

impl<'d> Map<'d> {
    fn new(file: &File<'d>, data: &'d [u8], wrappers: &Range<u64>) -> Option<Self> {
        let is_own = |(start, size)| start == wrappers.start && size > 0;
        let own = file.sections().find(|section| section.file_range().is_some_and(is_own))?;
        let own_address = own.address();
        let value_at = |at: u64| Some(u64::from_le_bytes(*slice(data, at, 8)?.first_chunk()?));
        let mut relocated = HashMap::new();
        let mut sections = BTreeMap::new();
        let is_linked = file.kind() != ObjectKind::Relocatable;
        // No relocation takes less than 8 bytes; a broken file may name the same ones often.
        let most = data.len() / 8;
        if is_linked {
            for (address, relocation) in file.dynamic_relocations().into_iter().flatten().take(most) {
                let Some(offset) =
                    address.checked_sub(own_address).filter(|_| relocation.target() == RelocationTarget::Absolute)
                else {
                    continue;
                };
                let Some(at) = wrappers.start.checked_add(offset).filter(|at| wrappers.contains(at)) else { continue };
                relocated.insert(at, sum(&relocation, 0, value_at(at)).map(Target::Address));
            }
            for section in file.sections() {
                // Empty sections may have the address of another.
                if let Some((start, size)) = section.file_range().filter(|(_, size)| *size > 0) {
                    sections.insert(section.address(), (size, start));
                }
            }
        } else {
            for (offset, relocation) in own.relocations().take(most) {
                let Some(at) = wrappers.start.checked_add(offset) else { continue };
                let target = start_of(file, &relocation).and_then(|start| sum(&relocation, start, value_at(at)));
                relocated.insert(at, target.map(Target::Offset));
            }
        }
        Some(Self { data, end: wrappers.end, relocated, sections })
    }

    /// Checks the wrapper at an offset in the file.
    fn fault(&self, start: u64, base: u64) -> Result<(), Malformed> {
        let at = base.saturating_add(start);
        let rest = slice(self.data, start, self.end.saturating_sub(start)).unwrap_or_default();
        // Padding of PE sections.
        if slice(rest, 0, WRAPPER_LEN).unwrap_or(rest).iter().all(|&byte| byte == 0) {
            return Ok(());
        }
        let mut cursor = Cursor::new(rest, at);
        let what = || "a wrapper of a fatbin".to_owned();
        let magic = cursor.u32(what)?;
        if magic != WRAPPER_MAGIC {
            let (what, expected) = ("magic of the wrapper of a fatbin", "1180844977 (0x466243b1)");
            return Err(Malformed::Value { what, found: magic.into(), offset: at, expected });
        }
        cursor.u32(what)?;
        let recorded = cursor.u64(what)?;
        let target = match self.relocated.get(&start.saturating_add(ADDRESS)) {
            // The code is in another object.
            Some(None) => return Ok(()),
            Some(Some(target)) => *target,
            None => Target::Address(recorded),
        };
        let offset = match target {
            Target::Offset(offset) => Some(offset),
            Target::Address(address) => self.offset_of(address),
        };
        let magic = offset.and_then(|offset| slice(self.data, offset, len_u64(&MAGIC)));
        if magic == Some(&MAGIC) {
            return Ok(());
        }
        Err(Malformed::Object { what: "a wrapper that does not point at a fatbin".to_owned(), offset: at })
    }

    fn offset_of(&self, address: u64) -> Option<u64> {
        let (start, (size, offset)) = self.sections.range(..=address).next_back()?;
        let inside = address.checked_sub(*start).filter(|inside| inside < size)?;
        offset.checked_add(inside)
    }
}

/// The offset in the file of the symbol or section of a relocation; none if another object defines it.
fn start_of(file: &File<'_>, relocation: &Relocation) -> Option<u64> {
    let (section, offset) = match relocation.target() {
        RelocationTarget::Symbol(index) => {
            let symbol = file.symbol_by_index(index).ok()?;
            (symbol.section_index()?, symbol.address())
        }
        RelocationTarget::Section(index) => (index, 0),
        _ => return None,
    };
    let (start, _) = file.section_by_index(section).ok()?.file_range()?;
    start.checked_add(offset)
}

/// The sum of a relocation: of a start, its addend, and the value that it replaces if that counts.
fn sum(relocation: &Relocation, start: u64, replaced: Option<u64>) -> Option<u64> {
    let replaced = if relocation.has_implicit_addend() { replaced? } else { 0 };
    Some(start.wrapping_add_signed(relocation.addend()).wrapping_add(replaced))
}

//! Makes a fat object out of an ELF object.
//!
//! The host's bytes stay in place, except for the fields of the file header that locate the section headers. After them
//! come a copy of the table of section names with the new names at its end, the contents, a [`Record`], and a new copy
//! of all section headers. Section numbers stay the same, so nothing else changes.
//!
//! Names, type, flags, alignment and order of the sections are the same as LLVM 22.1.8's. An object without section
//! names gets a section for them, `.shstrtab`, as in LLVM.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use object::elf::{SHF_ALLOC, SHF_COMPRESSED, SHF_EXCLUDE, SHT_PROGBITS, SHT_STRTAB};

use super::super::record::{self, Record};
use super::super::view::{AddedSection, too_many};
use super::{Elf, SECTION_NUMBERS_LEN, align, content_of, name_len};
use crate::base::bytes::{add, len_of, len_u64, to_u64, total};
use crate::base::error::Malformed;
use crate::base::io::piece::Piece;
use crate::llvm::container::host::elf::Section;

/// The maximum alignment of the table of section names: a page. A broken file may record any alignment.
const MAX_ALIGNMENT: u64 = 4096;

impl<'a> Elf<'a> {
    /// Plans the fat object: this object with more sections.
    pub(in crate::llvm::container::object) fn append_sections(
        &self,
        added: &[AddedSection<'a>],
    ) -> Result<Vec<Piece<'a>>, Malformed> {
        let mut sections = self.sections.clone();
        if sections.is_empty() {
            // Every table of sections begins with an unused section.
            sections.push(Section::default());
        }
        let mut new_names = Vec::new();
        let names_index = self.find_or_add_names_section(&mut sections, &mut new_names)?;
        let names = sections.get(names_index).copied().unwrap_or_default();
        let old_names = content_of(&names);
        // The table of names is copied to the end of the file, where it can grow. Names need no alignment; the recorded
        // one is kept unless it is absurd.
        let names_at = align(self.view.len(), names.alignment.min(MAX_ALIGNMENT));
        // At this point, `new_names` has at most the name of the section that was just added for the names.
        let first_name_at = len_of(&old_names).saturating_add(len_u64(&new_names));
        let names_len = first_name_at.saturating_add(total(added.iter().map(|section| name_len(&section.name))));
        let contents_at = names_at.saturating_add(names_len);
        let contents_end = add_headers(&mut sections, added, first_name_at, contents_at);
        for section in added {
            new_names.extend(&section.name);
            new_names.push(0);
        }
        if names_len > u64::from(u32::MAX) {
            let most = u64::from(u32::MAX);
            return Err(too_many("bytes of section names", names_len, most));
        }
        if let Some(names) = sections.get_mut(names_index) {
            (names.offset, names.size) = (names_at, names_len);
        }
        // The record that restores the host is directly before the section headers, where a reader looks for it.
        let record_at = align(contents_end, self.word());
        let headers_at = record_at.saturating_add(record::LEN);
        let (header, headers) = self.encode_headers(sections, headers_at, names_index);
        self.check_len(headers_at.saturating_add(len_u64(&headers)))?;
        let mut pieces = vec![Piece::Bytes(header)];
        // The old names and the old section headers stay in the host's bytes, unused.
        pieces.extend(self.view.pieces(&(self.header_len()..self.view.len())));
        pieces.push(Piece::Zeros(names_at.saturating_sub(self.view.len())));
        pieces.extend(self.view.pieces(&old_names));
        pieces.push(Piece::Bytes(new_names));
        pieces.extend(added.iter().map(|section| section.content.clone()));
        pieces.push(Piece::Zeros(record_at.saturating_sub(contents_end)));
        pieces.push(Piece::Bytes(self.record_of_host(added).to_bytes()));
        pieces.push(Piece::Bytes(headers));
        Ok(pieces)
    }

    /// Returns the index of the section with the section names. If it is missing, adds it to `sections`, and adds its
    /// own name to `new_names`.
    ///
    /// # Errors
    /// [`Malformed`] if the names cannot grow, because they are compressed or part of the program.
    fn find_or_add_names_section(
        &self,
        sections: &mut Vec<Section>,
        new_names: &mut Vec<u8>,
    ) -> Result<usize, Malformed> {
        const OWN_NAME: &[u8] = b"\0.shstrtab\0";
        let section = if self.names_index > 0 { self.sections.get(self.names_index) } else { None };
        let Some(section) = section else {
            new_names.extend(OWN_NAME);
            let kind = u64::from(SHT_STRTAB.0);
            // The name is at offset 1 of the new table, after the empty name.
            sections.push(Section { name: 1, kind, alignment: 1, ..Section::default() });
            return Ok(sections.len().saturating_sub(1));
        };
        // Names that a program loads cannot be moved to the end of the file.
        let fixed = SHF_ALLOC.0 | SHF_COMPRESSED.0;
        if section.flags & fixed != 0 {
            let what = "the table of section names is compressed or part of the program and cannot grow; it starts";
            return Err(self.view.broken(what, section.offset));
        }
        Ok(self.names_index)
    }

    /// The record that restores this object as the host of the fat object.
    fn record_of_host(&self, added: &[AddedSection<'_>]) -> Record {
        let header = self.encoding.encode(&[self.header]);
        let numbers = match header.last_chunk::<SECTION_NUMBERS_LEN>() {
            Some(numbers) => self.encoding.read(numbers),
            None => 0,
        };
        let (host_len, added) = (self.view.len(), to_u64(added.len()));
        Record { host_len, added, saved: [self.header.sections_at, numbers] }
    }
}

/// Adds the headers of the added sections, whose names begin at `name_at` in the table of section names, and whose
/// contents begin at `contents_at`. Returns the end of the contents.
fn add_headers(sections: &mut Vec<Section>, added: &[AddedSection<'_>], mut name_at: u64, contents_at: u64) -> u64 {
    let mut position = contents_at;
    for section in added {
        sections.push(Section {
            name: name_at,
            kind: u64::from(SHT_PROGBITS.0),
            flags: SHF_EXCLUDE.0,
            offset: position,
            size: section.content.len(),
            alignment: 1,
            ..Section::default()
        });
        add(&mut name_at, name_len(&section.name));
        add(&mut position, section.content.len());
    }
    position
}

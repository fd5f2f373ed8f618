//! The records of ELF files, 32-bit and 64-bit, in both byte orders.
//!
//! Large numbers that do not fit the file header are in the first section header instead. Its size is the number of
//! sections, its link the number of the section with the names, its info the number of program headers. Layout: System
//! V ABI, generic part.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use object::elf::{Machine, SHT_NOBITS, SHT_NULL, SectionType};

use crate::llvm::container::records::record;
pub(crate) use crate::llvm::container::records::{Encoding, Table};

record! {
    /// The file header.
    Header(word) {
        /// The magic, the class and the byte order.
        ident: 8,
        abi: 8,
        kind: 2,
        machine: 2,
        version: 4,
        entry: word,
        /// The offset of the program headers.
        segments_at: word,
        /// The offset of the section headers.
        sections_at: word,
        flags: 4,
        len: 2,
        segment_len: 2,
        segment_count: 2,
        section_len: 2,
        section_count: 2,
        /// The number of the section with the names of all sections.
        names: 2,
    }
}

impl Header {
    pub(crate) fn machine(&self) -> Machine {
        Machine(u16::try_from(self.machine).unwrap_or_default())
    }
}

record! {
    /// A program header.
    Segment(word) {
        kind: 4,
        flags: 4,
        offset: word,
        address: word,
        physical: word,
        /// The size in the file, and the size in memory.
        size: word,
        memory: word,
        alignment: word,
    }
    or word == 4 => [kind, offset, address, physical, size, memory, flags, alignment]
}

record! {
    /// A section header.
    Section(word) {
        /// The offset of the name in the section with all names.
        name: 4,
        kind: 4,
        flags: word,
        address: word,
        offset: word,
        size: word,
        link: 4,
        info: 4,
        alignment: word,
        entry_len: word,
    }
}

impl Section {
    pub(crate) fn is(&self, kind: SectionType) -> bool {
        self.kind == u64::from(kind.0)
    }

    pub(crate) fn is_any(&self, kinds: &[SectionType]) -> bool {
        kinds.iter().any(|kind| self.is(*kind))
    }

    /// The number of bytes that the section takes in a file other than a cubin.
    pub(crate) fn stored(&self) -> u64 {
        if self.is_any(&[SHT_NOBITS, SHT_NULL]) { 0 } else { self.size }
    }
}

record! {
    /// A symbol.
    Symbol(word) {
        /// The offset of the name in the string table.
        name: 4,
        /// The binding and, in the lower 4 bits, the type.
        info: 1,
        other: 1,
        section: 2,
        value: word,
        size: word,
    }
    or word == 4 => [name, value, size, info, other, section]
}

record! {
    /// A relocation with an addend.
    Relocation(word) {
        offset: word,
        /// The symbol and the type.
        info: word,
        addend: word,
    }
}

record! {
    /// A relocation whose addend is in the bytes that it changes.
    ShortRelocation(word) {
        offset: word,
        info: word,
    }
}

/// The symbol in the field `info` of a relocation, which also holds the type.
pub(crate) fn symbol_of(info: u64, encoding: Encoding) -> u64 {
    info >> if encoding.word == 8 { 32 } else { 8 }
}

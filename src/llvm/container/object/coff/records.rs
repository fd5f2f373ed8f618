//! The records of COFF objects. Section numbers are wider in big ones, which have other fields too.

use crate::llvm::container::records::record;

/// The width of section numbers in big objects, and in plain ones.
pub(super) const BIG: usize = 4;
pub(super) const PLAIN: usize = 2;

/// The width of a field that only big objects have, or only plain ones.
const fn in_big(word: usize, width: usize) -> usize {
    if word == BIG { width } else { 0 }
}

const fn in_plain(word: usize, width: usize) -> usize {
    if word == PLAIN { width } else { 0 }
}

record! {
    /// The file header. In plain objects, an optional header may come between it and the section headers.
    CoffHeader(word) {
        machine: in_plain(word, 2),
        signature: in_big(word, 8),
        time_and_class: in_big(word, 8),
        class: in_big(word, 8),
        class_and_len: in_big(word, 8),
        flags_and_more: in_big(word, 8),
        more: in_big(word, 4),
        section_count: word,
        time: in_plain(word, 4),
        /// The offset of the symbol table.
        symbols: 4,
        symbol_count: 4,
        optional_len: in_plain(word, 2),
        flags: in_plain(word, 2),
    }
}

record! {
    /// A symbol.
    CoffSymbol(word) {
        name: 8,
        value: 4,
        /// The number of the symbol's section.
        section: word,
        kind: 2,
        class: 1,
        /// The number of the auxiliary records that follow.
        auxiliary_count: 1,
    }
}

record! {
    /// The first auxiliary record of a symbol.
    AuxiliaryRecord(word) {
        start: 8,
        /// Of a function: the offset of its line numbers in the file, 0 if it has none.
        lines: 4,
        /// Of a section: the number of the section that it is associated with, and its upper half in a big object.
        associated: 2,
        selection: 2,
        associated_high: in_big(word, 2),
        end: 2,
    }
}

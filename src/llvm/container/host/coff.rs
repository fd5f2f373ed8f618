//! The section headers of COFF objects, programs and libraries. Layout: Microsoft's "PE Format" of 2025.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use crate::llvm::container::records::record;

record! {
    /// A section header.
    CoffSection(_word) {
        /// The name. In objects, the field of a long name holds its offset among the strings.
        name: 8,
        /// The size and the address in memory.
        memory: 4,
        address: 4,
        /// The size and the offset in the file.
        size: 4,
        offset: 4,
        /// The offsets of relocations and line numbers, and their counts.
        relocations: 4,
        lines: 4,
        relocation_count: 2,
        line_count: 2,
        flags: 4,
    }
}

//! Reads the symbols of LLVM bitcode, for the index of an archive.
//!
//! A file lists them in its symbol table, one blob, with the names in the string table after it:
//!
//! | offset | width | meaning |
//! |---|---|---|
//! | 0 | 4 | version |
//! | 4 | 8 | producer: offset, length in the string table |
//! | 12 | 8 | the modules: offset, count in the symbol table |
//! | 20 | 8 | the COMDATs |
//! | 28 | 8 | the symbols, each of 24 bytes: name (8), IR name (8), COMDAT (4), flags (4) |
//!
//! Integers are little-endian. The symbols of modules without a symbol table (`llvm-as` writes none) are read from
//! their functions, variables, aliases and indirect functions, which are all the symbols of a module without assembly.
//! Layout and order: LLVM 22.1.8.
//!
//! Rejected: data beyond the end, names outside the string table, modules older than LLVM 5.

use super::bitstream::{Block, Record};
use super::not_bitcode::{NotBitcode, Result};
use super::{ALIAS, FUNCTION, INDIRECT, MODULE_BLOCK, STRTAB_BLOCK, SYMTAB_BLOCK, VARIABLE, VERSION, open};
use crate::base::bytes::{add, number, slice, to_u64};
use crate::llvm::container::limits::{NAMES_TOO_LONG, SymbolNames};

/// Flags of a symbol: defined elsewhere, visible to others, format-specific (not a symbol for linkers).
const UNDEFINED: u64 = 1 << 3;
const GLOBAL: u64 = 1 << 10;
const FORMAT_SPECIFIC: u64 = 1 << 11;

/// Reads the names of the symbols that the modules of a file define for others, in the order in which LLVM lists them.
pub(crate) fn symbols(data: &[u8]) -> Result<Vec<Vec<u8>>> {
    let file = SymbolBlocks::read(data)?;
    let mut names = SymbolNames::new(data);
    // If files were concatenated, the table of the first one describes fewer modules than there are. As in LLVM, it is
    // not used then.
    match file.symtab {
        Some((symtab, strtab)) if number::<4>(symtab, MODULE_COUNT) == Some(to_u64(file.modules.len())) => {
            add_symbols_of_table(symtab, strtab, &mut names)?;
        }
        _ => {
            for (module, strtab) in &file.modules {
                add_symbols_of_module(module, strtab, &mut names)?;
            }
        }
    }
    Ok(names.names)
}

/// The blocks of a bitcode file that hold symbols.
#[derive(Default)]
struct SymbolBlocks<'a> {
    /// The modules, each with its string table.
    modules: Vec<(Block<'a>, &'a [u8])>,
    /// The symbol table with its string table.
    symtab: Option<(&'a [u8], &'a [u8])>,
}

impl<'a> SymbolBlocks<'a> {
    /// Finds the blocks. A string table belongs to all modules and to the symbol table before it, up to the previous
    /// string table.
    fn read(data: &'a [u8]) -> Result<Self> {
        let mut file = Self::default();
        let mut symtab = None;
        let mut modules = Vec::new();
        let mut stream = open(data)?;
        while let Some(block) = stream.next_block()? {
            match block.number {
                MODULE_BLOCK => modules.push(block),
                SYMTAB_BLOCK if symtab.is_none() => symtab = Some(read_blob(block)?),
                STRTAB_BLOCK => {
                    let strtab = read_blob(block)?;
                    // If files were concatenated, LLVM uses the first symbol table.
                    if let (None, Some(symtab)) = (file.symtab, symtab) {
                        file.symtab = Some((symtab, strtab));
                    }
                    file.modules.extend(modules.drain(..).map(|module| (module, strtab)));
                }
                _ => {}
            }
        }
        if !modules.is_empty() {
            return Err(NotBitcode("a module has no string table"));
        }
        Ok(file)
    }
}

/// Reads the blob of a block that holds one; empty if it is missing.
fn read_blob(mut block: Block<'_>) -> Result<&[u8]> {
    const BLOB: u64 = 1;
    while let Some(record) = block.next_record()? {
        if record.code == BLOB {
            return Ok(record.blob);
        }
    }
    Ok(&[])
}

/// The offset of the number of modules in a symbol table.
const MODULE_COUNT: u64 = 16;

/// Adds the names of the global symbols that are defined according to the symbol table of a file. Leaves out
/// format-specific symbols, which are not for linkers.
fn add_symbols_of_table(symtab: &[u8], strtab: &[u8], names: &mut SymbolNames) -> Result<()> {
    const SYMBOLS_OFFSET_AT: u64 = 28;
    const SYMBOLS_COUNT_AT: u64 = 32;
    const SYMBOL_LEN: u64 = 24;
    // In a symbol, a name is its offset and its length in the string table.
    const NAME_OFFSET_AT: u64 = 0;
    const NAME_LEN_AT: u64 = 4;
    const FLAGS_AT: u64 = 20;
    let cut = NotBitcode("the symbol table ends too early");
    let (offset, count) =
        number::<4>(symtab, SYMBOLS_OFFSET_AT).zip(number::<4>(symtab, SYMBOLS_COUNT_AT)).ok_or(cut)?;
    let table = slice(symtab, offset, count.saturating_mul(SYMBOL_LEN)).ok_or(cut)?;
    for symbol in table.chunks_exact(usize::try_from(SYMBOL_LEN).unwrap_or(usize::MAX)) {
        let flags = number::<4>(symbol, FLAGS_AT).ok_or(cut)?;
        let is_listed = flags & (UNDEFINED | GLOBAL | FORMAT_SPECIFIC) == GLOBAL;
        if is_listed {
            let (offset, len) = number::<4>(symbol, NAME_OFFSET_AT).zip(number::<4>(symbol, NAME_LEN_AT)).ok_or(cut)?;
            names.push(string(strtab, offset, len)?).ok_or(TOO_LONG)?;
        }
    }
    Ok(())
}

const TOO_LONG: NotBitcode = NotBitcode(NAMES_TOO_LONG);

fn string(strtab: &[u8], offset: u64, len: u64) -> Result<&[u8]> {
    slice(strtab, offset, len).ok_or(NotBitcode("a name lies outside the string table"))
}

/// Adds the names of the symbols that a module defines for others, for a file without a symbol table.
fn add_symbols_of_module(module: &Block<'_>, strtab: &[u8], names: &mut SymbolNames) -> Result<()> {
    let metadata_section = find_metadata_section(module.clone())?;
    // LLVM lists the definitions in this order.
    for kind in [FUNCTION, VARIABLE, ALIAS, INDIRECT] {
        let mut module = module.clone();
        while let Some(record) = module.next_record()? {
            if record.code != kind {
                continue;
            }
            let name = string(strtab, record.value(0), record.value(1))?;
            // Variables of this section, and names of LLVM's own, are notes for the compiler.
            let is_note = kind == VARIABLE && metadata_section == Some(record.value(VARIABLE_SECTION))
                || name.starts_with(b"llvm.");
            if is_visible(&record) && !is_note {
                // A leading byte 1 only says that the name is already in its final form.
                names.push(name.strip_prefix(b"\x01").unwrap_or(name)).ok_or(TOO_LONG)?;
            }
        }
    }
    Ok(())
}

/// Returns the number of the section `llvm.metadata`, counted from 1 as in variables, or `None` if the module does not
/// name it.
///
/// # Errors
/// A module without a string table, whose names are in other blocks.
fn find_metadata_section(mut module: Block<'_>) -> Result<Option<u64>> {
    const SECTION: u64 = 5;
    let (mut version, mut found, mut section_count) = (0, None, 0_u64);
    while let Some(record) = module.next_record()? {
        if record.code == VERSION {
            version = record.value(0);
        }
        if record.code == SECTION {
            add(&mut section_count, 1);
            if record.values().eq(b"llvm.metadata".map(u64::from)) {
                found = Some(section_count);
            }
        }
    }
    // From version 2 on, the names are in the string table.
    if version < 2 {
        return Err(NotBitcode("the module is older than LLVM 5 and has no symbol table"));
    }
    Ok(found)
}

// The indices of values in the record of a global value. The first two are offset and length of the name, then its
// type.
const FUNCTION_IS_DECLARED: usize = 4;
const VARIABLE_INITIALISER: usize = 4;
const LINKAGE: usize = 5;
const VARIABLE_SECTION: usize = 7;

/// Whether the record of a global value defines a symbol that other modules see.
fn is_visible(record: &Record<'_>) -> bool {
    // The numbers of linkages in bitcode. LLVM reads two old linkages, 13 and 14, as private.
    const INTERNAL: u64 = 3;
    const PRIVATE: [u64; 3] = [9, 13, 14];
    const AVAILABLE_EXTERNALLY: u64 = 12;
    let linkage = record.value(LINKAGE);
    let is_only_declared = match record.code {
        FUNCTION => record.value(FUNCTION_IS_DECLARED) != 0,
        VARIABLE => record.value(VARIABLE_INITIALISER) == 0,
        _ => false,
    };
    !is_only_declared && linkage != INTERNAL && linkage != AVAILABLE_EXTERNALLY && !PRIVATE.contains(&linkage)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{BitWriter, start};
    use super::*;
    use crate::llvm::container::magic::Magic;

    /// A module that defines `one` to `four`, and uses or hides the other names.
    fn module(block: &mut BitWriter) {
        block.record(1, &[2]);
        block.record(5, &b"llvm.metadata".map(u64::from));
        block.block(3, 17, |block| block.record(99, &[1 << 40]));
        block.record(7, &[3, 3, 0, 2 << 2 | 3, 1, 0, 0, 0]); // two, in the address space for constants
        block.record(7, &[3, 3, 0, 0, 0, 0, 0, 0]); // declared only
        block.record(7, &[3, 3, 0, 0, 1, 0, 0, 1]); // in llvm.metadata
        block.record(14, &[6, 5, 0, 0, 0, 0]); // three
        block.record(8, &[0, 3, 0, 0, 0, 0]); // one
        block.record(8, &[0, 3, 0, 0, 1, 0]); // declared only
        block.record(8, &[0, 3, 0, 0, 0, 3]); // internal
        block.record(8, &[15, 9, 0, 0, 0, 0]); // llvm.used
        block.record(18, &[11, 4, 0, 0, 0, 0]); // four
    }

    const STRINGS: &[u8] = b"onetwothreefourllvm.used";

    fn without_table() -> Vec<u8> {
        let mut file = start();
        file.block(2, MODULE_BLOCK, module);
        file.blob(STRTAB_BLOCK, STRINGS);
        file.into_bytes()
    }

    fn with_table() -> Vec<u8> {
        let mut symtab: Vec<u32> = vec![3, 0, 0, 0, 1, 0, 0, 60, 4];
        symtab.resize(15, 0);
        for (offset, len, flags) in [(3, 3, GLOBAL), (0, 3, GLOBAL | UNDEFINED), (6, 5, 0), (11, 4, GLOBAL | 1 << 4)] {
            symtab.extend([offset, len, 0, 0, 0, u32::try_from(flags).unwrap()]);
        }
        let symtab: Vec<u8> = symtab.into_iter().flat_map(u32::to_le_bytes).collect();
        let mut file = start();
        file.block(2, MODULE_BLOCK, module);
        file.blob(SYMTAB_BLOCK, &symtab);
        file.blob(STRTAB_BLOCK, STRINGS);
        file.into_bytes()
    }

    fn read(data: &[u8]) -> Vec<String> {
        symbols(data).unwrap().into_iter().map(|name| String::from_utf8(name).unwrap()).collect()
    }

    #[test]
    fn the_symbol_table_counts() {
        assert_eq!(read(&with_table()), ["two", "four"]);
    }

    #[test]
    #[cfg_attr(miri, ignore = "slow")]
    fn a_module_without_symbol_table_is_read_itself() {
        assert_eq!(read(&without_table()), ["one", "two", "three", "four"]);
        let two = [without_table(), without_table().split_off(4)].concat();
        assert_eq!(read(&two), ["one", "two", "three", "four", "one", "two", "three", "four"]);
    }

    #[test]
    fn a_wrapper_is_taken_off() {
        let inner = with_table();
        let fields = [0x0B17_C0DE, 0, 20, u32::try_from(inner.len()).unwrap(), 7].map(u32::to_le_bytes);
        let wrapped = [fields.concat(), inner.clone(), vec![0; 8]].concat();
        assert_eq!([&wrapped, &inner].map(|data| Magic::identify(data)), [Magic::Bitcode; 2]);
        assert_eq!(read(&wrapped), ["two", "four"]);
        assert!(symbols(&wrapped[..wrapped.len() - 12]).is_err());
    }

    #[test]
    #[cfg_attr(miri, ignore = "slow")]
    fn damage_is_an_error_or_gives_names_from_the_file() {
        for whole in [with_table(), without_table()] {
            for at in 0..whole.len() {
                assert_eq!(symbols(&whole[..at]).unwrap_or_default(), [b""; 0], "cut at {at}");
                for flip in [0xff, 1, 0x80] {
                    let mut flipped = whole.clone();
                    flipped[at] ^= flip;
                    for name in symbols(&flipped).unwrap_or_default() {
                        assert!(memchr::memmem::find(&flipped, &name).is_some(), "{at}, {flip}: {name:?}");
                    }
                }
            }
        }
    }
}

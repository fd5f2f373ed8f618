//! Reads the symbols of a code object for the index of an archive, as LLVM 22.1.8's archive writer lists them.
//!
//! | code object | symbols |
//! |---|---|
//! | ELF, COFF, Mach-O, XCOFF | the global and defined symbols of the symbol table, in its order, without mapping symbols of ELF |
//! | COFF import object | the imported name and its pointer |
//! | bitcode | the global and defined symbols of its modules, see [`bitcode`] |
//! | WebAssembly | none, though it counts as an object |
//! | anything else | none; it is not an object |
//!
//! Rejected: an object that does not parse, a name outside the string table. The symbols of bitcode that does not parse
//! are not listed; it may only be newer than the reader.

use object::LittleEndian;
use object::pe::{IMAGE_SYM_CLASS_WEAK_EXTERNAL, IMAGE_WEAK_EXTERN_SEARCH_ALIAS};
use object::read::coff::{CoffFile, CoffHeader, ImportFile, ImportType, Symbol as CoffSymbol};
use object::read::{Architecture, BinaryFormat, File, Object, ObjectSymbol, SymbolIndex, SymbolKind};

use crate::llvm::container::limits::{NAMES_TOO_LONG, SymbolNames};
use crate::llvm::container::magic::{Magic, is_coff_object};
use crate::llvm::container::{bitcode, host};

/// The symbols that a code object adds to the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum IndexedSymbols {
    /// The member is not an object. An archive with such members only has no index.
    None,
    /// The names of its symbols.
    Names(Vec<Vec<u8>>),
    /// The member is bitcode that could not be read, with the reason.
    Unreadable(&'static str),
}

/// Reads the symbols of a code object.
///
/// # Errors
/// The reason why an object cannot be read. For bitcode, the reason is a result, [`IndexedSymbols::Unreadable`].
pub(crate) fn read_symbols(data: &[u8]) -> Result<IndexedSymbols, String> {
    // LLVM treats fewer bytes as plain data, even if they begin like an ELF file.
    const ELF_MIN: usize = 18;
    match Magic::identify(data) {
        Magic::Bitcode => Ok(match bitcode::symbols(data) {
            Ok(names) => IndexedSymbols::Names(names),
            Err(broken) => IndexedSymbols::Unreadable(broken.0),
        }),
        // LLVM counts modules of version 1 as objects, but lists no symbols of them.
        Magic::Wasm if data.starts_with(b"\0asm\x01\0\0\0") => Ok(IndexedSymbols::Names(Vec::new())),
        Magic::CoffImport => read_imported(data),
        Magic::BrokenElf => Ok(IndexedSymbols::None),
        magic if magic.is_elf() && data.len() < ELF_MIN => Ok(IndexedSymbols::None),
        magic if magic.is_elf() => read_defined(data),
        Magic::MachO | Magic::Pe | Magic::Xcoff => read_defined(data),
        _ if is_coff_object(data) => read_defined(data),
        _ => Ok(IndexedSymbols::None),
    }
}

/// Reads the names of the global symbols that an object defines.
fn read_defined(data: &[u8]) -> Result<IndexedSymbols, String> {
    let file = host::parse(data, 0).map_err(|malformed| malformed.to_string())?;
    let mut names = SymbolNames::new(data);
    for symbol in file.symbols() {
        let is_named = !matches!(symbol.kind(), SymbolKind::File | SymbolKind::Section);
        let is_defined = !symbol.is_undefined() && !is_fallback(&file, symbol.index());
        if !is_named || !symbol.is_global() || !is_defined {
            continue;
        }
        let name = symbol.name_bytes().map_err(|error| error.to_string())?;
        if !is_mapping(&file, name) {
            names.push(name).ok_or_else(|| NAMES_TOO_LONG.to_owned())?;
        }
    }
    Ok(IndexedSymbols::Names(names.names))
}

/// Whether LLVM 22.1.8 treats a name as that of a mapping symbol, which marks where code or data begins. On RISC-V, it
/// also leaves out the label `.L0 `, which assemblers use to compute differences of addresses.
fn is_mapping(file: &File<'_>, name: &[u8]) -> bool {
    if file.format() != BinaryFormat::Elf {
        return false;
    }
    match file.architecture() {
        Architecture::Aarch64 | Architecture::Aarch64_Ilp32 => matches!(name, [b'$', b'd' | b'x', ..]),
        Architecture::Arm => matches!(name, [] | [b'$', b'a' | b'd' | b't', ..]),
        Architecture::Csky => matches!(name, [b'$', b'd' | b't', ..]),
        Architecture::Riscv32 | Architecture::Riscv64 => matches!(name, b".L0 " | [b'$', b'd' | b'x', ..]),
        _ => false,
    }
}

/// Whether a symbol of a COFF object is a reference with a fallback: the linker uses another symbol of the object if it
/// finds no definition. LLVM lists other weak symbols, which are aliases and therefore definitions.
fn is_fallback(file: &File<'_>, index: SymbolIndex) -> bool {
    match file {
        File::Coff(file) => is_coff_fallback(file, index),
        File::CoffBig(file) => is_coff_fallback(file, index),
        _ => false,
    }
}

/// Whether a symbol is a weak reference whose auxiliary record names the other symbol, and not an alias.
fn is_coff_fallback<'d, Coff: CoffHeader>(file: &CoffFile<'d, &'d [u8], Coff>, index: SymbolIndex) -> bool {
    let table = file.coff_symbol_table();
    let Ok(symbol) = table.symbol(index) else { return false };
    if symbol.storage_class() != IMAGE_SYM_CLASS_WEAK_EXTERNAL || symbol.number_of_aux_symbols() == 0 {
        return false;
    }
    let Ok(aux) = table.aux_weak_external(index) else { return false };
    let is_alias = aux.weak_search_type.get(LittleEndian) == IMAGE_WEAK_EXTERN_SEARCH_ALIAS;
    !is_alias
}

/// Reads the names that a COFF import object defines: the pointer to the imported symbol and, for code, a jump to it.
fn read_imported(data: &[u8]) -> Result<IndexedSymbols, String> {
    let import = ImportFile::parse(data).map_err(|error| error.to_string())?;
    let mut names = vec![[b"__imp_", import.symbol()].concat()];
    if import.import_type() != ImportType::Data {
        names.push(import.symbol().to_vec());
    }
    Ok(IndexedSymbols::Names(names))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &[&str]) -> IndexedSymbols {
        IndexedSymbols::Names(list.iter().map(|name| name.as_bytes().to_vec()).collect())
    }

    #[test]
    fn what_is_no_object_has_no_symbols() {
        let broken_elf = [&b"\x7fELF\x03\x01\x01"[..], &[0; 100]].concat();
        for data in [&b""[..], b"text", b"\x7fELF", b"!<arch>\n", &[0; 3], &broken_elf] {
            assert_eq!(read_symbols(data), Ok(IndexedSymbols::None), "{}", data.escape_ascii());
        }
    }

    #[test]
    fn data_that_begins_like_coff_is_an_object_or_broken() {
        for machine in [[0, 0], [0x64, 0x86], [0x66, 1], [0xf0, 2], [0x4e, 0xa6]] {
            for len in [4, 19, 20, 64] {
                let data = [&machine[..], &vec![0; len - 2]].concat();
                let expected = if len >= 20 { Some(names(&[])) } else { None };
                assert_eq!(read_symbols(&data).ok(), expected, "{}", data.escape_ascii());
            }
        }
    }

    #[test]
    fn an_import_defines_its_pointer_and_code_its_jump_too() {
        for (kind, expected) in [(0b100, &["__imp_f", "f"][..]), (0b101, &["__imp_f"])] {
            let header = [0, 0, 0xff, 0xff, 0, 0, 0x64, 0x86, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, kind, 0];
            assert_eq!(read_symbols(&[&header[..], b"f\0a.dll\0"].concat()), Ok(names(expected)));
        }
    }

    #[test]
    fn broken_objects_are_errors_and_broken_bitcode_is_not() {
        assert!(read_symbols(b"\x7fELF\x02\x01\x01 and no more of it").is_err());
        assert_eq!(read_symbols(b"BC\xc0\xde!"), Ok(IndexedSymbols::Unreadable("Invalid bitcode signature")));
    }
}

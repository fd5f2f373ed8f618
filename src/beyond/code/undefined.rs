//! Symbols that code needs and does not define, so that its runtime does not load it.
//!
//! | code | symbols |
//! |---|---|
//! | linked ELF file for an AMD GPU | the global ones without a section in `.dynsym` that a relocation names. ROCr fails with `HSA_STATUS_ERROR_VARIABLE_UNDEFINED`, unless the program has defined a variable of this name. Weak ones are zero then. LDS variables in code of ROCm 5 are undefined too, but no relocation names them |
//! | PTX | functions that are declared `.extern`, called, and not defined in the same PTX. CUDA's driver compiles it alone, and provides only [`SYSTEM_FUNCTIONS`] and the functions of its device runtime |
//!
//! lld records no type for undefined symbols, so only symbols with the type of variables are known to be variables.
//!
//! Sources: System V ABI; `ExecutableImpl::ApplyDynamicRelocation` in ROCr; PTX ISA 9.0; PTX Writer's Guide to
//! Interoperability, "System Calls"; "Unresolved extern function" of ptxas 13.5.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use memchr::{memchr, memmem};
use object::elf::{EM_AMDGPU, ET_DYN, ET_EXEC, SHT_DYNSYM, SHT_REL, SHT_RELA, STT_OBJECT};

use crate::base::bytes::slice;
use crate::base::display::shown;
use crate::beyond::base::text::listed;
use crate::beyond::code::elf::{File, Relocation, ShortRelocation, Symbol, Table, name_of};
use crate::beyond::code::{CodeMagic, ptx};
use crate::beyond::limits::SHARED_MAX;
use crate::llvm::container::limits::Allowance;

/// The number of symbols that are kept by name.
const NAMES_MAX: usize = 16;

/// The binding of symbols that have to be defined.
const STB_GLOBAL: u64 = 1;

/// The functions that CUDA's driver provides for PTX.
const SYSTEM_FUNCTIONS: [&[u8]; 4] = [b"vprintf", b"malloc", b"free", b"__assertfail"];

/// The beginnings of names of the device runtime and of the driver's other functions.
const SYSTEM_PREFIXES: [&[u8]; 3] = [b"cuda", b"__cuda", b"cnp"];

/// The symbols that a code object needs and does not define.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct UndefinedSymbols {
    /// The names of the first undefined symbols, safe to print on a terminal.
    pub(crate) names: Vec<String>,
    /// The number of all undefined symbols.
    pub(crate) count: usize,
    /// Whether some of these symbols may be functions. A program that uses the code can define variables, but not
    /// functions.
    pub(crate) has_function: bool,
}

impl UndefinedSymbols {
    /// Adds a symbol. `name` returns its name. It is called for the first symbols only, because names in a hostile file
    /// may share megabytes.
    fn add<'n>(&mut self, name: impl FnOnce() -> &'n [u8], is_variable: bool) {
        if self.names.len() < NAMES_MAX {
            self.names.push(shown(name()).to_string());
        }
        self.count = self.count.saturating_add(1);
        self.has_function |= !is_variable;
    }

    /// The number of symbols that are not in [`names`](Self::names).
    pub(crate) fn more(&self) -> usize {
        self.count.saturating_sub(self.names.len())
    }
}

/// Writes the names: `a, b and 7 more`.
impl fmt::Display for UndefinedSymbols {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&listed(&self.names, NAMES_MAX, ", ", ""))?;
        match self.more() {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

/// Returns the symbols that a code object needs and does not define, or `None` if it has none, or is of a kind that is
/// linked or compiled before it is loaded. `magic` is its format, if it is known.
pub(crate) fn undefined_symbols(magic: Option<CodeMagic>, data: &[u8]) -> Option<UndefinedSymbols> {
    let undefined = match magic {
        Some(CodeMagic::Ptx) => undefined_functions(data),
        Some(magic) if magic.is_elf() => undefined_in_elf(data).unwrap_or_default(),
        _ => return None,
    };
    if undefined.count > 0 { Some(undefined) } else { None }
}

/// Returns the undefined symbols of a linked ELF file for an AMD GPU, or `None` for other files and broken ones.
fn undefined_in_elf(data: &[u8]) -> Option<UndefinedSymbols> {
    let file = File::read(data).ok()?;
    if file.header.machine() != EM_AMDGPU || ![ET_DYN, ET_EXEC].contains(&file.header.kind()) {
        return None;
    }
    // A linked file has one table of dynamic symbols.
    let (table_index, table) = (0_u64..).zip(file.sections.iter()).find(|(_, section)| section.is(SHT_DYNSYM))?;
    let strings = file.sections.get(usize::try_from(table.link).ok()?)?;
    let names = slice(data, strings.offset, strings.size)?;
    let symbols: Table<'_, Symbol> = Table::new(file.encoding, slice(data, table.offset, table.size)?);
    let mut candidates = BTreeMap::new();
    for (index, symbol) in (0_u64..).zip(symbols.iter()) {
        if symbol.section == 0 && symbol.info >> 4 == STB_GLOBAL {
            candidates.insert(index, symbol);
        }
    }
    let mut undefined = UndefinedSymbols::default();
    if candidates.is_empty() {
        return Some(undefined);
    }
    let needed = symbols_in_relocations(&file, table_index)?;
    for (_, symbol) in candidates.into_iter().filter(|(index, _)| needed.contains(index)) {
        undefined.add(|| name_of(names, symbol.name), symbol.is(STT_OBJECT));
    }
    Some(undefined)
}

/// Returns the indices of the symbols that relocations name, in the symbol table in the section `table_index`. Returns
/// `None` if a table of relocations is outside the file, or if tables share their bytes many times.
fn symbols_in_relocations(file: &File<'_>, table_index: u64) -> Option<BTreeSet<u64>> {
    let (mut symbols, mut work) = (BTreeSet::new(), Allowance::times(SHARED_MAX, file.data));
    for section in file.sections.iter().filter(|section| section.link == table_index) {
        let content = slice(file.data, section.offset, section.stored())?;
        if section.is(SHT_RELA) {
            work.take(section.size)?;
            let relocations: Table<'_, Relocation> = Table::new(file.encoding, content);
            symbols.extend(relocations.iter().map(|relocation| relocation.symbol(file.encoding)));
        } else if section.is(SHT_REL) {
            work.take(section.size)?;
            let relocations: Table<'_, ShortRelocation> = Table::new(file.encoding, content);
            symbols.extend(relocations.iter().map(|relocation| relocation.symbol(file.encoding)));
        }
    }
    Some(symbols)
}

/// Returns the functions that PTX calls, declares `.extern`, and does not define.
fn undefined_functions(ptx: &[u8]) -> UndefinedSymbols {
    let mut undefined = UndefinedSymbols::default();
    // Most PTX declares no such function, or only system functions. Then the rest of it is not read.
    if !may_declare_functions(ptx) {
        return undefined;
    }
    let Functions { declared, defined, called } = Functions::of(ptx);
    for name in declared.intersection(&called).filter(|name| !defined.contains(*name)) {
        const IS_VARIABLE: bool = false;
        undefined.add(|| *name, IS_VARIABLE);
    }
    undefined
}

/// Returns whether PTX may declare functions `.extern` that CUDA's driver does not provide. Reads only the statements
/// after each `.extern`, which may be in a comment.
fn may_declare_functions(mut ptx: &[u8]) -> bool {
    let mut functions = Functions::default();
    while functions.declared.is_empty()
        && let Some(at) = memmem::find(ptx, b".extern")
    {
        let mut tokens = Tokens(ptx.get(at..).unwrap_or_default());
        functions.read_statement(&mut tokens);
        // The search goes on after the statement, which may contain `.extern` many times.
        ptx = tokens.0;
    }
    !functions.declared.is_empty()
}

/// Returns whether CUDA's driver provides a function for PTX.
fn is_system_function(name: &[u8]) -> bool {
    SYSTEM_FUNCTIONS.contains(&name) || SYSTEM_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// The names of functions in PTX.
#[derive(Default)]
struct Functions<'p> {
    /// The functions that are declared `.extern` and not provided by CUDA's driver.
    declared: BTreeSet<&'p [u8]>,
    /// The functions with a body, and aliases.
    defined: BTreeSet<&'p [u8]>,
    called: BTreeSet<&'p [u8]>,
}

impl<'p> Functions<'p> {
    /// Reads all statements of PTX.
    fn of(ptx: &'p [u8]) -> Self {
        let (mut functions, mut tokens) = (Self::default(), Tokens(ptx));
        while functions.read_statement(&mut tokens) {}
        functions
    }

    /// Reads a statement: everything up to a semicolon or a brace. Returns whether anything may follow.
    fn read_statement(&mut self, tokens: &mut Tokens<'p>) -> bool {
        let (mut is_extern, mut function) = (false, None);
        while let Some(token) = tokens.next() {
            match token {
                b".extern" => is_extern = true,
                b".func" => function = tokens.name(),
                b".alias" => self.defined.extend(tokens.name()),
                b"call" => self.called.extend(tokens.name()),
                instruction if instruction.starts_with(b"call.") => self.called.extend(tokens.name()),
                b"{" => {
                    self.defined.extend(function);
                    return true;
                }
                b";" => {
                    if let Some(name) = function
                        && is_extern
                        && !is_system_function(name)
                    {
                        self.declared.insert(name);
                    }
                    return true;
                }
                b"}" => return true,
                _ => {}
            }
        }
        false
    }
}

/// The words, braces and other characters of PTX, without blanks, comments and strings.
struct Tokens<'p>(&'p [u8]);

impl<'p> Tokens<'p> {
    /// Skips directives and the results of a function, which are in parentheses, and returns the function's name.
    /// Returns `None` for a register, which holds the address of the called function.
    fn name(&mut self) -> Option<&'p [u8]> {
        let mut depth = 0_usize;
        loop {
            let before = self.0;
            match self.next()? {
                b"(" => depth = depth.saturating_add(1),
                b")" => depth = depth.saturating_sub(1),
                // The end of the statement is left to the caller.
                b";" | b"{" | b"}" => {
                    self.0 = before;
                    return None;
                }
                _ if depth > 0 => {}
                [b'.', ..] | b"," => {}
                [b'%', ..] => return None,
                name => return Some(name),
            }
        }
    }
}

impl<'p> Iterator for Tokens<'p> {
    type Item = &'p [u8];

    /// Returns the next word, or a single character that is not part of a word.
    fn next(&mut self) -> Option<&'p [u8]> {
        loop {
            let (&first, rest) = self.0.split_first()?;
            match first {
                b'"' => self.0 = ptx::after_string(rest).unwrap_or_default(),
                b'/' if rest.starts_with(b"/") => {
                    self.0 = rest.get(memchr(b'\n', rest).unwrap_or(rest.len())..).unwrap_or_default();
                }
                b'/' if rest.starts_with(b"*") => {
                    let end = memmem::find(rest, b"*/").unwrap_or(rest.len());
                    self.0 = rest.get(end..).and_then(|rest| rest.get(2..)).unwrap_or_default();
                }
                _ if is_word_byte(first) => {
                    let len = self.0.iter().take_while(|&&byte| is_word_byte(byte)).count();
                    let (word, rest) = self.0.split_at_checked(len)?;
                    self.0 = rest;
                    return Some(word);
                }
                _ if first.is_ascii_graphic() => {
                    let (character, rest) = self.0.split_at_checked(1)?;
                    self.0 = rest;
                    return Some(character);
                }
                _ => self.0 = rest,
            }
        }
    }
}

/// Returns whether a byte is part of the name of a function, a directive, an instruction or a register.
fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_$.%".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(ptx: &str) -> Vec<String> {
        undefined_functions(ptx.as_bytes()).names
    }

    #[test]
    fn called_functions_without_a_definition_are_undefined() {
        let extern_f = ".extern .func (.param .b32 r) f (.param .b64 a);\n";
        let call = ".entry k() { call.uni (r), f, (a); }\n";
        for (ptx, expected) in [
            (format!("{extern_f}{call}"), &["f"][..]),
            (format!("{call}{extern_f}"), &["f"]),
            (".extern .func f;\n.entry k() { call f; }".to_owned(), &["f"]),
            (".extern .func .noreturn f();\n.entry k() { @%p1 call.uni f, (); }".to_owned(), &["f"]),
            // Without a call, nothing is linked.
            (extern_f.to_owned(), &[]),
            (format!("{extern_f}.entry k() {{ call.uni (r), %f, (a), proto; }}"), &[]),
            (format!("{extern_f}// {call}"), &[]),
            (format!("{extern_f}/* {call} */ .file 1 \"call f;\""), &[]),
            // Defined in the same PTX.
            (format!("{extern_f}.func (.param .b32 r) f (.param .b64 a) {{ ret; }}\n{call}"), &[]),
            (format!("{extern_f}.func g() {{ ret; }}\n.alias f, g;\n{call}"), &[]),
            (format!("{extern_f}.visible .func (.param .b32 r) f (.param .b64 a);\n{call}"), &["f"]),
            (".func f();\n.entry k() { call f; }".to_owned(), &[]),
            (".extern .shared .b8 f[];\n.entry k() { call f; }".to_owned(), &[]),
            // A declaration in a comment, and system functions.
            ("// .extern .func f();\n.entry k() { call f; }".to_owned(), &[]),
            (
                ".extern .func vprintf(); .extern .func g();\n.entry k() { call vprintf; call g, (); }".to_owned(),
                &["g"],
            ),
            (".extern .func cudaLaunchDeviceV2();\n.entry k() { call cudaLaunchDeviceV2; }".to_owned(), &[]),
        ] {
            assert_eq!(names(&ptx), expected, "{ptx}");
        }
        for name in SYSTEM_FUNCTIONS.map(|name| String::from_utf8_lossy(name).into_owned()) {
            assert!(names(&format!(".extern .func {name}();\n.entry k() {{ call {name}; }}")).is_empty(), "{name}");
        }
    }

    #[test]
    fn only_the_first_names_are_kept() {
        let functions = (0..20)
            .map(|number| format!(".extern .func f{number:02}();\n.func g{number}() {{ call f{number:02}; }}\n"));
        let undefined = undefined_functions(functions.collect::<String>().as_bytes());
        assert_eq!((undefined.names.len(), undefined.count, undefined.more()), (NAMES_MAX, 20, 4));
        assert!(undefined.to_string().starts_with("f00, f01, ") && undefined.to_string().ends_with("f15 and 4 more"));
    }
}

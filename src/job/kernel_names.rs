//! Names of kernels, which choose code objects.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use object::{Object as _, ObjectSymbol as _};

use crate::bytes;
use crate::code::ContentKind;
use crate::code::kernels::{self, ptx};
use crate::display::{listed, shown};
use crate::error::{Error, ErrorKind, Malformed, Result};

/// The number of names that an error lists.
const LISTED_MAX: usize = 5;

/// Names of kernels, as programs or profilers list them, and of global variables that programs copy to or from. White
/// space in them does not count, nor does `.kd` or `[clone .kd]` at their end, which AMD's tools add.
#[derive(Clone, Debug)]
pub struct KernelNames {
    /// As typed, without duplicates.
    names: Vec<String>,
    by_name: HashMap<String, usize>,
    /// The names with wildcards, with their indices.
    patterns: Vec<(usize, glob::Pattern)>,
    demangle: Demangle,
    /// Whether names are allowed that no code object defines.
    pub allow_unused: bool,
}

/// Gives the name in the source code of a kernel with a mangled name; none if it is not mangled.
pub type Demangle = fn(&[u8]) -> Option<String>;

impl KernelNames {
    /// Reads a list with a name in each line, as of [`new`](Self::new). Empty lines, and those that begin with `#`, are
    /// passed over.
    pub fn parse(list: &str, demangle: Demangle) -> Self {
        let lines = list.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        Self::new(lines, demangle)
    }

    /// Some names. A name is mangled, or it is what `demangle` makes of it; with the wildcards `*`, `?` and `[...]`, it
    /// stands for all kernels whose whole name matches. In a name that ends with a parenthesis, as the signature of a
    /// function does, they stand for themselves.
    pub fn new<'n>(typed: impl IntoIterator<Item = &'n str>, demangle: Demangle) -> Self {
        let mut all =
            Self { names: Vec::new(), by_name: HashMap::new(), patterns: Vec::new(), demangle, allow_unused: false };
        for line in typed {
            let (name, index) = (plain(line), all.names.len());
            if all.by_name.contains_key(&name) {
                continue;
            }
            if name.contains(['*', '?', '[']) && !name.ends_with(')') {
                all.patterns.extend(glob::Pattern::new(&name).ok().map(|pattern| (index, pattern)));
            }
            all.by_name.insert(name, index);
            all.names.push(line.to_owned());
        }
        all
    }

    /// The names, without duplicates.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The error that some files have no kernel of some names, unless these are [allowed](Self::allow_unused).
    pub(super) fn ensure_used(&self, used: &HashSet<usize>, files: &[&Path]) -> Result<()> {
        let unused = self.names.iter().enumerate().filter(|(index, _)| !used.contains(index) && !self.allow_unused);
        let unused: Vec<String> = unused.map(|(_, name)| format!("'{}'", shown(name.as_bytes()))).collect();
        if unused.is_empty() {
            return Ok(());
        }
        let reason = format!("no code object defines a kernel {}", listed(&unused, LISTED_MAX, " or ", " or "));
        Err(match files {
            [file] => Error::refused(ErrorKind::NotFound, *file, None, reason),
            files => Error::new(ErrorKind::NotFound, format!("{reason} in {} files", files.len())),
        })
    }

    /// The indices of the names that mean a kernel.
    fn meaning(&self, kernel: &[u8]) -> Vec<usize> {
        let mangled = bytes::text_lossy(kernel);
        let spellings = [Some(plain(&mangled)), (self.demangle)(mangled.as_bytes()).as_deref().map(plain)];
        let mut indices = Vec::new();
        for name in spellings.iter().flatten() {
            indices.extend(self.by_name.get(name));
            indices.extend(self.patterns.iter().filter(|(_, pattern)| pattern.matches(name)).map(|(index, _)| *index));
        }
        indices
    }

    /// The indices of the names that mean kernels or variables of a code object, and whether it is known to have
    /// kernels.
    pub(super) fn in_code(&self, code: &[u8]) -> Result<(Vec<usize>, bool), Malformed> {
        let kernels = kernels::of(code)?;
        let mut names: HashSet<&[u8]> = match ContentKind::of(code) {
            ContentKind::Ptx => ptx::names(code).collect(),
            _ => kernels.iter().map(|kernel| &*kernel.name).collect(),
        };
        let has_kernels = !names.is_empty();
        // The symbol of a kernel's descriptor is a variable too.
        names.extend(variables(code).into_iter().map(|name| name.strip_suffix(b".kd").unwrap_or(name)));
        let meant = names.into_iter().flat_map(|name| self.meaning(name)).collect();
        Ok((meant, has_kernels))
    }
}

/// The names of the global variables of an ELF file.
fn variables(code: &[u8]) -> Vec<&[u8]> {
    let Ok(file) = object::File::parse(code) else { return Vec::new() };
    let is_variable = |symbol: &object::Symbol<'_, '_>| {
        symbol.kind() == object::SymbolKind::Data && symbol.is_global() && symbol.is_definition()
    };
    let all = file.symbols().chain(file.dynamic_symbols()).filter(is_variable);
    all.filter_map(|symbol| symbol.name_bytes().ok()).collect()
}

/// A name without what tools write in different ways.
fn plain(name: &str) -> String {
    let name = name.trim_end();
    let name = name.strip_suffix("[clone .kd]").or_else(|| name.strip_suffix(".kd")).unwrap_or(name);
    name.chars().filter(|letter| !letter.is_whitespace()).collect()
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    thread_local!(static DEMANGLED: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) });

    #[test]
    fn each_name_is_demangled_once() {
        let code = include_bytes!("../../fixtures/kernels/llvm22-gfx90a.elf");
        let demangle = |name: &[u8]| {
            DEMANGLED.with_borrow_mut(|names| names.push(name.to_vec()));
            None
        };
        let names = KernelNames::parse("_ZN2ns6spillsIiEEvPT_.kd", demangle);
        assert_eq!(names.in_code(code).unwrap(), (vec![0], true));
        let mut demangled = DEMANGLED.take();
        demangled.sort_unstable();
        let mut kernels: Vec<_> = kernels::of(code).unwrap().iter().map(|kernel| kernel.name.to_vec()).collect();
        kernels.sort_unstable();
        assert_eq!(demangled, kernels);
    }

    #[test]
    fn names_are_those_of_programs_and_profilers() {
        let demangle = |name: &[u8]| (name == b"_Z3addPi").then(|| "void add<int>(int*)".to_owned());
        for (list, expected) in [
            ("_Z3addPi", true),
            ("_Z3addPi.kd", true),
            ("void add<int>(int *)", true),
            ("  void add<int>(int*) [clone .kd]\r\n", true),
            ("void add<*", true),
            ("_Z3add??", true),
            ("_Z[0-9]addPi", true),
            // A pointer is not a wildcard.
            ("void add<*>(int*)", false),
            ("add", false),
            ("_Z3add", false),
            ("# _Z3addPi\n\n", false),
            ("_Z3add[", false),
        ] {
            assert_eq!(!KernelNames::parse(list, demangle).meaning(b"_Z3addPi").is_empty(), expected, "{list}");
        }
        let names = KernelNames::parse("a*\nb\na*\n b \n", |_| None);
        assert_eq!(names.names(), ["a*", "b"]);
        assert_eq!((names.meaning(b"ab"), names.meaning(b"b"), names.meaning(b"c")), (vec![0], vec![1], vec![]));
    }
}

//! Names of kernels, which choose code objects.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::ControlFlow;
use std::path::Path;

use object::{Object as _, ObjectSymbol as _};

use super::share::check_size;
use crate::base::bytes;
use crate::base::display::{listed, shown};
use crate::base::error::{Error, ErrorKind, Malformed, Result};
use crate::base::io::Input;
use crate::beyond::code::kernels::{self, ptx};
use crate::beyond::globs::{Globs, WILDCARDS};
use crate::beyond::scan::{CodeObject, Finding, Reading, Scan, Together, contents, weight_of};
use crate::llvm::container::content_kind::ContentKind;

/// The number of names that an error lists.
const LISTED_MAX: usize = 5;

/// Names of kernels, as programs or profilers list them, and of global variables that programs copy to or from. White
/// space in them does not count, nor does `.kd` or `[clone .kd]` at their end, which AMD's tools add.
#[derive(Clone, Debug)]
pub struct KernelNames {
    /// As typed, without duplicates.
    names: Vec<String>,
    by_name: HashMap<String, usize>,
    /// The names with wildcards, with their indices as numbers.
    patterns: Globs,
    demangle: Demangle,
    /// Whether names are allowed that no code object defines.
    pub allow_unused: bool,
}

/// Gives the name in the source code of a kernel with a mangled name; none if it is not mangled.
pub type Demangle = fn(&[u8]) -> Option<String>;

/// The names that mean a kernel, or kernels and variables of a code object, by their indices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Meant {
    /// Those that equal one of its names.
    pub(super) equal: BTreeSet<usize>,
    /// Those with wildcards that match one of its names.
    pub(super) matching: BTreeSet<usize>,
}

impl Meant {
    /// The number of the names.
    pub(super) fn len(&self) -> usize {
        self.equal.len() + self.matching.len()
    }

    /// The indices of all, if some names equal those of kernels, which their wildcards do not count for then.
    pub(super) fn unless_equal(&self, equal: &HashSet<usize>) -> BTreeSet<usize> {
        let matching = self.matching.iter().filter(|index| !equal.contains(index));
        self.equal.iter().chain(matching).copied().collect()
    }
}

impl KernelNames {
    /// Reads a list with a name in each line, as of [`new`](Self::new). Empty lines, and those that begin with `#`, are
    /// passed over.
    pub fn parse(list: &str, demangle: Demangle) -> Self {
        let lines = list.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        Self::new(lines, demangle)
    }

    /// Some names. A name is mangled, or it is what `demangle` makes of it; with the wildcards `*`, `?` and `[...]`, it
    /// stands for all kernels whose whole name matches. In a name that equals one of a kernel of the file they stand for
    /// themselves, and in one that ends with a parenthesis, as the signature of a function does.
    pub fn new<'n>(typed: impl IntoIterator<Item = &'n str>, demangle: Demangle) -> Self {
        let (names, by_name, patterns) = (Vec::new(), HashMap::new(), Globs::default());
        let mut all = Self { names, by_name, patterns, demangle, allow_unused: false };
        for line in typed {
            let (name, index) = (plain(line), all.names.len());
            if all.by_name.contains_key(&name) {
                continue;
            }
            if name.contains(WILDCARDS)
                && !name.ends_with(')')
                && let Ok(pattern) = glob::Pattern::new(&name)
            {
                all.patterns.add(index, pattern);
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

    /// Whether one of the names is that of a kernel, which is given in one of its spellings: mangled or not.
    pub fn has(&self, spelling: &str) -> bool {
        self.by_name.contains_key(&plain(spelling))
    }

    /// Whether a name has wildcards.
    pub(super) fn has_patterns(&self) -> bool {
        !self.patterns.is_empty()
    }

    /// Lets the wildcards stand for themselves in the names with these indices, which equal those of kernels.
    pub(super) fn take_literally(&mut self, equal: &HashSet<usize>) {
        self.patterns = self.patterns.without(equal);
    }

    /// The indices of the names that equal those of kernels or variables in a file. What cannot be read has none.
    pub(super) fn equal_in(&self, scan: &Scan, input: &Input) -> Result<HashSet<usize>> {
        let mut equal = HashSet::new();
        let meant = |together: Together<'_, (), CodeObject>| {
            contents(together, |_, code| {
                Ok(self.in_code(code.bytes()).map_or_else(|_| Meant::default(), |(meant, _)| meant))
            })
        };
        scan.run_and_read(input, &meant, &|read| weight_of(read, Meant::len), &mut |step| {
            match step {
                Reading::Found(Finding::Bundle(found), reads) => {
                    let all = check_size(input.path(), found.bundle, 0..found.bundle.entries.len());
                    if let (Ok(()), Ok(info)) = (all, found.info()) {
                        found.code_objects().for_each(|object| reads.add(Some(&found), ((), object.known(&info))));
                    }
                }
                Reading::Found(..) | Reading::End(..) => {}
                Reading::Read(read) => {
                    equal.extend(read.into_iter().filter_map(|(_, meant)| meant.ok()).flat_map(|meant| meant.equal));
                }
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(equal)
    }

    /// Adds the names that mean a kernel.
    fn add_meaning(&self, kernel: &[u8], meant: &mut Meant) {
        let mangled = bytes::text_lossy(kernel);
        let spellings = [Some(plain(&mangled)), (self.demangle)(mangled.as_bytes()).as_deref().map(plain)];
        for name in spellings.iter().flatten() {
            meant.equal.extend(self.by_name.get(name));
            meant.matching.extend(self.patterns.matching(name));
        }
    }

    /// The names that mean kernels or variables of a code object, and whether it is known to have kernels.
    pub(super) fn in_code(&self, code: &[u8]) -> Result<(Meant, bool), Malformed> {
        let kernels = kernels::of(code)?;
        let mut names: HashSet<&[u8]> = match ContentKind::of(code) {
            ContentKind::Ptx => ptx::names(code).collect(),
            _ => kernels.iter().map(|kernel| &*kernel.name).collect(),
        };
        let has_kernels = !names.is_empty();
        // The symbol of a kernel's descriptor is a variable too.
        names.extend(variables(code).into_iter().map(|name| name.strip_suffix(b".kd").unwrap_or(name)));
        let mut meant = Meant::default();
        names.into_iter().for_each(|name| self.add_meaning(name, &mut meant));
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
        let code = include_bytes!("../../../fixtures/kernels/llvm22-gfx90a.elf");
        let demangle = |name: &[u8]| {
            DEMANGLED.with_borrow_mut(|names| names.push(name.to_vec()));
            None
        };
        let names = KernelNames::parse("_ZN2ns6spillsIiEEvPT_.kd", demangle);
        let meant = Meant { equal: BTreeSet::from([0]), matching: BTreeSet::new() };
        assert_eq!(names.in_code(code).unwrap(), (meant, true));
        let mut demangled = DEMANGLED.take();
        demangled.sort_unstable();
        let mut kernels: Vec<_> = kernels::of(code).unwrap().iter().map(|kernel| kernel.name.to_vec()).collect();
        kernels.sort_unstable();
        assert_eq!(demangled, kernels);
    }

    /// The indices of the names that equal, and of those that match.
    fn meaning(names: &KernelNames, kernel: &[u8]) -> (Vec<usize>, Vec<usize>) {
        let mut meant = Meant::default();
        names.add_meaning(kernel, &mut meant);
        (meant.equal.into_iter().collect(), meant.matching.into_iter().collect())
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
            let meant = meaning(&KernelNames::parse(list, demangle), b"_Z3addPi");
            assert_eq!(meant != (vec![], vec![]), expected, "{list}");
        }
        let names = KernelNames::parse("a*\nb\na*\n b \n", |_| None);
        assert_eq!(names.names(), ["a*", "b"]);
        for (kernel, expected) in [("ab", (vec![], vec![0])), ("b", (vec![1], vec![])), ("a*", (vec![0], vec![0]))] {
            assert_eq!(meaning(&names, kernel.as_bytes()), expected, "{kernel}");
        }
    }
}

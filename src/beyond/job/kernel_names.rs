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
use crate::beyond::scan::{CodeObject, CodeObjectsOfBundle, Finding, ReadEvent, Scan, contents, weight_of};
use crate::llvm::container::content_kind::ContentKind;

/// The number of names that an error lists.
const LISTED_MAX: usize = 5;

/// Names of kernels, as programs or profilers list them, and of global variables that programs copy to or from. White
/// space is ignored, and so is `.kd` or `[clone .kd]` at the end of a name, which AMD's tools add.
#[derive(Clone, Debug)]
pub struct KernelNames {
    /// As typed, without duplicates.
    names: Vec<String>,
    by_name: HashMap<String, usize>,
    /// The names with wildcards, with their indices as numbers.
    patterns: Globs,
    demangle: Demangle,
    /// Whether names that no code object defines are allowed.
    pub allow_unused: bool,
}

/// Returns the name in the source code of a kernel with a mangled name, or `None` if the name is not mangled.
pub type Demangle = fn(&[u8]) -> Option<String>;

/// The [`KernelNames`] that mean a kernel, or kernels and variables of a code object, by their indices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct MeantNames {
    /// The names that equal one of its names.
    pub(super) equal: BTreeSet<usize>,
    /// The names with wildcards that match one of its names.
    pub(super) matching: BTreeSet<usize>,
}

impl MeantNames {
    /// Returns the number of the names.
    pub(super) fn len(&self) -> usize {
        self.equal.len() + self.matching.len()
    }

    /// Returns the indices of the names. Names that `equal` a name in the file match nothing else: their wildcards are
    /// literal.
    pub(super) fn without_patterns(&self, equal: &HashSet<usize>) -> BTreeSet<usize> {
        let mut names = self.equal.clone();
        for index in &self.matching {
            if !equal.contains(index) {
                names.insert(*index);
            }
        }
        names
    }
}

impl KernelNames {
    /// Parses a list with a name in each line, as for [`new`](Self::new). Empty lines, and lines that begin with `#`, are
    /// ignored.
    pub fn parse(list: &str, demangle: Demangle) -> Self {
        let lines = list.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        Self::new(lines, demangle)
    }

    /// Creates a list of names. A name is mangled, or as `demangle` returns it. With the wildcards `*`, `?` and `[...]`, it
    /// means all kernels whose whole name matches. They are literal in a name that equals that of a kernel in the file,
    /// and in a name that ends with a parenthesis, as the signature of a function does.
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

    /// Returns the names, without duplicates.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Fails if names are not used because the files have no such kernel, unless that is [allowed](Self::allow_unused).
    pub(super) fn ensure_used(&self, used: &HashSet<usize>, files: &[&Path]) -> Result<()> {
        if self.allow_unused {
            return Ok(());
        }
        let mut unused = Vec::new();
        for (index, name) in self.names.iter().enumerate() {
            if !used.contains(&index) {
                unused.push(format!("'{}'", shown(name.as_bytes())));
            }
        }
        if unused.is_empty() {
            return Ok(());
        }
        let reason = format!("no code object defines a kernel {}", listed(&unused, LISTED_MAX, " or ", " or "));
        Err(match files {
            [file] => Error::refused(ErrorKind::NotFound, *file, None, reason),
            files => Error::new(ErrorKind::NotFound, format!("{reason} in {} files", files.len())),
        })
    }

    /// Returns whether one of the names is that of a kernel, given in one spelling: mangled or not.
    pub fn has(&self, spelling: &str) -> bool {
        self.by_name.contains_key(&plain(spelling))
    }

    /// Returns whether a name has wildcards.
    pub(super) fn has_patterns(&self) -> bool {
        !self.patterns.is_empty()
    }

    /// Makes the wildcards literal in the names with these indices, because kernels have these names.
    pub(super) fn take_literally(&mut self, equal: &HashSet<usize>) {
        self.patterns = self.patterns.without(equal);
    }

    /// Returns the indices of the names that kernels or variables in a file have. Unreadable code objects are
    /// passed over.
    pub(super) fn find_equal(&self, scan: &Scan, input: &Input) -> Result<HashSet<usize>> {
        let mut equal = HashSet::new();
        let read = &|together: CodeObjectsOfBundle<'_, (), CodeObject>| {
            contents(together, |_, code| match self.find_in_code(code.bytes()) {
                Ok((meant, _)) => Ok(meant),
                Err(_) => Ok(MeantNames::default()),
            })
        };
        scan.run_and_read(input, read, &|read| weight_of(read, MeantNames::len), &mut |step| {
            match step {
                ReadEvent::Found(Finding::Bundle(found), reads) => {
                    let all = check_size(input.path(), found.bundle, 0..found.bundle.entries.len());
                    if let (Ok(()), Ok(info)) = (all, found.info()) {
                        for code_object in found.code_objects() {
                            reads.add(Some(&found), ((), code_object.known(&info)));
                        }
                    }
                }
                ReadEvent::Found(..) | ReadEvent::End(..) => {}
                ReadEvent::Read(read) => {
                    for (_, meant) in read {
                        if let Ok(meant) = meant {
                            equal.extend(meant.equal);
                        }
                    }
                }
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(equal)
    }

    /// Adds the names that mean a kernel.
    fn add_meaning(&self, kernel: &[u8], meant: &mut MeantNames) {
        let mangled = bytes::text_lossy(kernel);
        let spellings = [Some(plain(&mangled)), (self.demangle)(mangled.as_bytes()).as_deref().map(plain)];
        for name in spellings.iter().flatten() {
            meant.equal.extend(self.by_name.get(name));
            meant.matching.extend(self.patterns.matching(name));
        }
    }

    /// Returns the names that mean kernels or variables of a code object, and whether it is known to have kernels.
    pub(super) fn find_in_code(&self, code: &[u8]) -> Result<(MeantNames, bool), Malformed> {
        let kernels = kernels::of(code)?;
        let mut names: HashSet<&[u8]> = match ContentKind::of(code) {
            ContentKind::Ptx => ptx::names(code).collect(),
            _ => kernels.iter().map(|kernel| &*kernel.name).collect(),
        };
        let has_kernels = !names.is_empty();
        // The symbol of a kernel's descriptor is a variable too.
        names.extend(variables(code).into_iter().map(|name| name.strip_suffix(b".kd").unwrap_or(name)));
        let mut meant = MeantNames::default();
        for name in names {
            self.add_meaning(name, &mut meant);
        }
        Ok((meant, has_kernels))
    }
}

/// Returns the names of the global variables of an ELF file.
fn variables(code: &[u8]) -> Vec<&[u8]> {
    let Ok(file) = object::File::parse(code) else { return Vec::new() };
    let mut names = Vec::new();
    for symbol in file.symbols().chain(file.dynamic_symbols()) {
        let is_variable = symbol.kind() == object::SymbolKind::Data;
        if is_variable
            && symbol.is_global()
            && symbol.is_definition()
            && let Ok(name) = symbol.name_bytes()
        {
            names.push(name);
        }
    }
    names
}

/// Returns a name without white space and suffixes, because tools write these in different ways.
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
        let meant = MeantNames { equal: BTreeSet::from([0]), matching: BTreeSet::new() };
        assert_eq!(names.find_in_code(code).unwrap(), (meant, true));
        let mut demangled = DEMANGLED.take();
        demangled.sort_unstable();
        let mut kernels: Vec<_> = kernels::of(code).unwrap().iter().map(|kernel| kernel.name.to_vec()).collect();
        kernels.sort_unstable();
        assert_eq!(demangled, kernels);
    }

    /// Returns the indices of the names that equal a kernel's name, and of the names that match it.
    fn meaning(names: &KernelNames, kernel: &[u8]) -> (Vec<usize>, Vec<usize>) {
        let mut meant = MeantNames::default();
        names.add_meaning(kernel, &mut meant);
        (meant.equal.into_iter().collect(), meant.matching.into_iter().collect())
    }

    #[test]
    fn names_of_programs_and_profilers_mean_kernels() {
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

//! Names of kernels, which choose code objects.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::Path;

use object::{Object as _, ObjectSymbol as _};

use super::similar_names::{SimilarNames, SoughtName, without_space};
use crate::base::bytes;
use crate::base::display::shown;
use crate::base::error::{Error, ErrorKind, Malformed, Result};
use crate::beyond::base::text::listed;
use crate::beyond::code::kernels::{self, ptx};
use crate::beyond::container::ContentKind;
use crate::beyond::globs::{Globs, WILDCARDS};

/// The largest number of names that an error lists.
const LISTED_NAMES_MAX: usize = 5;

/// The character before a typed name that means only the kernel of this name.
pub(crate) const EXACT: char = '=';

/// Names of kernels, as programs or profilers list them, and of global variables that programs copy to or from. White
/// space is ignored, and so is `.kd` or `[clone .kd]` at the end of a name, which AMD's tools add.
#[derive(Clone, Debug)]
pub struct KernelNames {
    /// The names as typed, without duplicates.
    names: Vec<String>,
    /// For the [plain] name of a kernel, the indices of the names that mean exactly this kernel.
    by_name: HashMap<String, Vec<usize>>,
    /// The names that mean every kernel whose name contains them, with their indices.
    parts: Vec<(usize, String)>,
    /// The names with wildcards, with their indices as numbers.
    patterns: Globs,
    /// The typed names, by their indices, for the error that suggests similar names. Empty if the names are from a
    /// list.
    sought: Vec<SoughtName>,
    demangle: Demangle,
    /// Whether names that no code object defines are allowed.
    pub allow_unused: bool,
}

/// Returns the name in the source code of a kernel with a mangled name, or `None` if the name is not mangled.
pub type Demangle = fn(&[u8]) -> Option<String>;

/// How a typed name means a kernel, the weakest way first. In a file, only the strongest way counts for each typed
/// name: a name that equals that of a kernel is not a pattern too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NameMatch {
    /// The typed name has wildcards, which match the whole name of the kernel.
    Pattern,
    /// The name of the kernel contains the typed name.
    Part,
    /// The typed name is the name of the kernel.
    Name,
}

/// The names of a list of [`KernelNames`] that mean a certain kernel, or that mean any kernel or variable of some code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MeantNames {
    /// The strongest way in which each name means a kernel or a variable, by the index of the name.
    strongest: BTreeMap<usize, NameMatch>,
    /// The names of kernels and variables that are similar to the typed names.
    pub(crate) similar: SimilarNames,
}

impl MeantNames {
    /// Returns the number of names that mean something.
    pub(crate) fn len(&self) -> usize {
        self.strongest.len()
    }

    fn add(&mut self, index: usize, way: NameMatch) {
        let strongest = self.strongest.entry(index).or_insert(way);
        *strongest = way.max(*strongest);
    }

    /// Adds the matches in other code, so that `self` has the matches of both.
    pub(crate) fn extend(&mut self, more: &Self) {
        for (index, way) in &more.strongest {
            self.add(*index, *way);
        }
        self.similar.extend(&more.similar);
    }

    /// Returns the indices of the names that match in this code as strongly as anywhere in the file, which has the
    /// matches `in_file`.
    pub(crate) fn strongest(&self, in_file: &Self) -> BTreeSet<usize> {
        let is_strongest = |(index, way): &(&usize, &NameMatch)| {
            let strongest_in_file = in_file.strongest.get(index);
            strongest_in_file.is_none_or(|strongest| *way >= strongest)
        };
        self.strongest.iter().filter(is_strongest).map(|(index, _)| *index).collect()
    }
}

impl KernelNames {
    /// Parses a list with a name in each line, as for [`new`](Self::new). Empty lines, and lines that begin with `#`,
    /// are ignored.
    pub fn parse(list: &str, demangle: Demangle) -> Self {
        let lines = list.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        Self::new(lines, demangle)
    }

    /// Creates a list of names. A name is mangled, or as `demangle` returns it. With the wildcards `*`, `?` and
    /// `[...]`, it means all kernels whose whole name matches. They are literal in a name that equals that of a kernel
    /// in the file, and in a name that ends with a parenthesis, as the signature of a function does.
    pub fn new<'n>(listed: impl IntoIterator<Item = &'n str>, demangle: Demangle) -> Self {
        let mut kernel_names = Self::empty(demangle);
        for line in listed {
            let (name, index) = (plain(line), kernel_names.names.len());
            if kernel_names.by_name.contains_key(&name) {
                continue;
            }
            // In a signature, asterisks and brackets belong to types.
            if !name.ends_with(')') {
                kernel_names.add_pattern(index, &name);
            }
            kernel_names.by_name.insert(name, vec![index]);
            kernel_names.names.push(line.to_owned());
        }
        kernel_names
    }

    /// Creates names as a user types them: each means all kernels whose names contain it, mangled or as `demangle`
    /// returns them. A name with the wildcards `*`, `?` and `[...]` must match the whole name of a kernel. Its
    /// wildcards are literal if the name of a kernel in the file contains it as typed. A name after `=` means only the
    /// kernel of this name.
    pub fn typed<'n>(typed: impl IntoIterator<Item = &'n str>, demangle: Demangle) -> Self {
        let mut kernel_names = Self::empty(demangle);
        for text in typed {
            if kernel_names.names.iter().any(|known| known == text) {
                continue;
            }
            let index = kernel_names.names.len();
            kernel_names.names.push(text.to_owned());
            kernel_names.sought.push(SoughtName::new(text));
            if let Some(name) = text.strip_prefix(EXACT) {
                kernel_names.by_name.entry(plain(name)).or_default().push(index);
                continue;
            }
            let name = plain(text);
            if name.contains(WILDCARDS) {
                kernel_names.add_pattern(index, &name);
                // A kernel may have a name with these characters, and is then meant literally:
                // `MeantNames::strongest` leaves out the weaker matches of the pattern.
                kernel_names.by_name.entry(name.clone()).or_default().push(index);
            }
            kernel_names.parts.push((index, name));
        }
        kernel_names
    }

    /// Returns a list without names.
    fn empty(demangle: Demangle) -> Self {
        Self {
            names: Vec::new(),
            by_name: HashMap::new(),
            parts: Vec::new(),
            patterns: Globs::default(),
            sought: Vec::new(),
            demangle,
            allow_unused: false,
        }
    }

    /// Adds the pattern of a name with wildcards. Does nothing for other names and for invalid patterns, which are only
    /// literal.
    fn add_pattern(&mut self, index: usize, name: &str) {
        if name.contains(WILDCARDS)
            && let Ok(pattern) = glob::Pattern::new(name)
        {
            self.patterns.add(index, pattern);
        }
    }

    /// Returns the names, without duplicates.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Fails if the files have no kernel for some names, unless that is [allowed](Self::allow_unused). `used` has the
    /// indices of the other names. The message suggests names of kernels that are `similar` to the unused ones.
    pub(crate) fn ensure_used(&self, used: &BTreeSet<usize>, similar: &SimilarNames, files: &[&Path]) -> Result<()> {
        if self.allow_unused {
            return Ok(());
        }
        let (mut unused, mut suggested) = (Vec::new(), SimilarNames::default());
        for (index, name) in self.names.iter().enumerate() {
            if !used.contains(&index) {
                unused.push(format!("'{}'", shown(name.as_bytes())));
                suggested.extend_for(index, similar);
            }
        }
        if unused.is_empty() {
            return Ok(());
        }
        let mut reason =
            format!("no code object defines a kernel {}", listed(&unused, LISTED_NAMES_MAX, " or ", " or "));
        if !matches!(files, [_]) {
            reason = format!("{reason} in {} files", files.len());
        }
        if let Some(question) = suggested.question() {
            reason = format!("{reason}; {question}");
        }
        Err(match files {
            [file] => Error::refused(ErrorKind::NotFound, *file, None, reason),
            _ => Error::new(ErrorKind::NotFound, reason),
        })
    }

    /// Returns the strongest match of any name with a kernel that has these spellings, such as mangled and demangled.
    /// Returns `None` if no name means it.
    pub fn strongest_match(&self, spellings: &[&str]) -> Option<NameMatch> {
        let mut meant = MeantNames::default();
        for spelling in spellings {
            self.add_meaning(&plain(spelling), &mut meant);
        }
        meant.strongest.into_values().max()
    }

    /// Adds the name of a kernel, demangled if possible, to `similar` if it is similar to one of the names.
    pub(crate) fn add_similar(&self, kernel: &str, similar: &mut SimilarNames) {
        for (index, sought) in self.sought.iter().enumerate() {
            similar.add(index, sought, kernel);
        }
    }

    /// Returns whether a name has wildcards.
    pub(crate) fn has_patterns(&self) -> bool {
        !self.patterns.is_empty()
    }

    /// Adds the names that mean the kernel or variable of this symbol to `meant`, and the symbol to `meant.similar` if
    /// it is similar to a typed name.
    fn add_meaning_of_symbol(&self, symbol: &[u8], meant: &mut MeantNames) {
        let mangled = bytes::text_lossy(symbol);
        let demangled = (self.demangle)(mangled.as_bytes());
        self.add_meaning(&plain(&mangled), meant);
        if let Some(demangled) = &demangled {
            self.add_meaning(&plain(demangled), meant);
        }
        self.add_similar(demangled.as_deref().unwrap_or(&mangled), &mut meant.similar);
    }

    /// Adds the names that mean a kernel with this [plain] name to `meant`.
    fn add_meaning(&self, name: &str, meant: &mut MeantNames) {
        for index in self.by_name.get(name).into_iter().flatten() {
            meant.add(*index, NameMatch::Name);
        }
        for index in self.patterns.matching(name) {
            meant.add(index, NameMatch::Pattern);
        }
        for (index, part) in &self.parts {
            if name.contains(part.as_str()) {
                meant.add(*index, NameMatch::Part);
            }
        }
    }

    /// Returns the names that mean kernels or variables of a code object, and whether kernels were found in it. Kernels
    /// of bitcode and LTO-IR are not read.
    pub(crate) fn find_in_code(&self, code: &[u8]) -> Result<(MeantNames, bool), Malformed> {
        let kernels = kernels::list(code)?;
        // `kernels::list` returns no kernels of PTX.
        let mut names: HashSet<&[u8]> = match ContentKind::identify(code) {
            ContentKind::Ptx => ptx::names(code).collect(),
            _ => kernels.iter().map(|kernel| &*kernel.name).collect(),
        };
        let has_kernels = !names.is_empty();
        // AMD's compilers make a data symbol for the descriptor of each kernel: its name and `.kd`.
        names.extend(variables(code).into_iter().map(|name| name.strip_suffix(b".kd").unwrap_or(name)));
        let mut meant = MeantNames::default();
        for name in names {
            self.add_meaning_of_symbol(name, &mut meant);
        }
        Ok((meant, has_kernels))
    }
}

/// Returns the names of the global variables of an ELF file.
fn variables(code: &[u8]) -> Vec<&[u8]> {
    let Ok(file) = object::File::parse(code) else { return Vec::new() };
    let mut names = Vec::new();
    for symbol in file.symbols().chain(file.dynamic_symbols()) {
        let is_global_variable =
            symbol.kind() == object::SymbolKind::Data && symbol.is_global() && symbol.is_definition();
        if is_global_variable && let Ok(name) = symbol.name_bytes() {
            names.push(name);
        }
    }
    names
}

/// Returns a name in the form that is compared: without white space, and without the suffix of a kernel descriptor,
/// which some of AMD's tools print.
pub(crate) fn plain(name: &str) -> String {
    let mut name = name.trim_end();
    for suffix in ["[clone .kd]", ".kd"] {
        if let Some(rest) = name.strip_suffix(suffix) {
            name = rest;
            break;
        }
    }
    without_space(name)
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
        let meant = MeantNames { strongest: BTreeMap::from([(0, NameMatch::Name)]), ..MeantNames::default() };
        assert_eq!(names.find_in_code(code).unwrap(), (meant, true));
        let mut demangled = DEMANGLED.take();
        demangled.sort_unstable();
        let mut kernels: Vec<_> = kernels::list(code).unwrap().iter().map(|kernel| kernel.name.to_vec()).collect();
        kernels.sort_unstable();
        assert_eq!(demangled, kernels);
    }

    /// Returns the names that mean a kernel, by their indices.
    fn meaning(names: &KernelNames, kernel: &[u8]) -> Vec<(usize, NameMatch)> {
        let mut meant = MeantNames::default();
        names.add_meaning_of_symbol(kernel, &mut meant);
        meant.strongest.into_iter().collect()
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
            assert_eq!(!meant.is_empty(), expected, "{list}");
        }
        let names = KernelNames::parse("a*\nb\na*\n b \n", |_| None);
        assert_eq!(names.names(), ["a*", "b"]);
        for (kernel, expected) in
            [("ab", (0, NameMatch::Pattern)), ("b", (1, NameMatch::Name)), ("a*", (0, NameMatch::Name))]
        {
            assert_eq!(meaning(&names, kernel.as_bytes()), [expected], "{kernel}");
        }
    }

    #[test]
    fn a_weaker_way_counts_only_where_no_code_of_the_file_matches_in_a_stronger_one() {
        let names = KernelNames::typed(["a?c", "b"], |_| None);
        let meant = |kernels: &[&str]| {
            let mut meant = MeantNames::default();
            for kernel in kernels {
                names.add_meaning_of_symbol(kernel.as_bytes(), &mut meant);
            }
            meant
        };
        let (pattern, part, name) = (meant(&["abc"]), meant(&["xa?cb"]), meant(&["a?c", "other"]));
        for (code, in_file, expected) in [
            (&pattern, meant(&["abc", "abc"]), BTreeSet::from([0, 1])),
            (&pattern, meant(&["abc", "xa?c"]), BTreeSet::from([1])),
            (&part, meant(&["abc", "xa?cb"]), BTreeSet::from([0, 1])),
            (&part, meant(&["a?c", "xa?cb"]), BTreeSet::from([1])),
            (&name, meant(&["a?c", "xa?cb", "abc"]), BTreeSet::from([0])),
            (&pattern, MeantNames::default(), BTreeSet::from([0, 1])),
        ] {
            assert_eq!(code.strongest(&in_file), expected, "{code:?}");
        }
        assert_eq!(names.strongest_match(&["abc", "xabcx"]), Some(NameMatch::Part));
        assert_eq!(names.strongest_match(&["ac"]), None);
    }
}

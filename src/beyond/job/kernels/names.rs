//! The names of kernels, as reports show them.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use crate::base::bytes;
use crate::base::display::{printable_name, printable_start};
use crate::beyond::inventory::kernel_names::{KernelNames, NameMatch};
use crate::beyond::inventory::similar_names::SimilarNames;
use crate::beyond::parallel;

/// Returns the name in the source code of a kernel with a mangled name, or `None` if the name is not mangled.
pub type DemangleName<'d> = &'d (dyn Fn(&[u8]) -> Option<String> + Sync);

/// The longest name that is shown in full: in characters, or in bytes if it is mangled. Hostile files have longer ones.
const SHOWN_MAX: usize = 16 << 10;

/// The number of names that a thread demangles at a time.
const NAMES_AT_A_TIME: usize = 256;

/// The names of kernels as reports show them, by the recorded names.
pub(in super::super) type ShownNames = HashMap<Arc<[u8]>, Arc<str>>;

/// Returns the names of kernels as reports show them. Each is demangled once.
pub(in super::super) fn shown_names<'n>(
    names: impl Iterator<Item = &'n Arc<[u8]>>,
    demangle: DemangleName<'_>,
) -> ShownNames {
    let all_wanted = None;
    selected(&KernelName::of_all(names, all_wanted, demangle))
}

/// The name of a kernel.
pub(super) struct KernelName<'n> {
    mangled: &'n Arc<[u8]>,
    /// The name as reports show it.
    shown: Arc<str>,
    /// How the typed name selects the kernel, or `None` if it does not.
    match_kind: Option<NameMatch>,
}

impl<'n> KernelName<'n> {
    /// Demangles the names of kernels, each once, and matches them with the `wanted` ones. Without `wanted`, all
    /// kernels are selected.
    pub(super) fn of_all(
        names: impl Iterator<Item = &'n Arc<[u8]>>,
        wanted: Option<&KernelNames>,
        demangle: DemangleName<'_>,
    ) -> Vec<Self> {
        let mut seen = HashSet::new();
        let names: Vec<&Arc<[u8]>> = names.filter(|name| seen.insert(*name)).collect();
        let chunks: Vec<&[&Arc<[u8]>]> = names.chunks(NAMES_AT_A_TIME).collect();
        parallel::in_order(
            chunks,
            |chunk| chunk.iter().map(|name| KernelName::new(demangle(name), name, wanted)).collect::<Vec<_>>(),
            Vec::len,
            |demangled| demangled.flatten().collect(),
        )
    }

    /// Matches a name, both mangled and demangled, with the `wanted` names.
    fn new(demangled: Option<String>, name: &'n Arc<[u8]>, wanted: Option<&KernelNames>) -> Self {
        let match_kind = match wanted {
            // Without a selection, all kernels have the same kind of match.
            None => Some(NameMatch::Name),
            Some(wanted) => {
                let mangled = bytes::text_lossy(name);
                match &demangled {
                    Some(demangled) => wanted.strongest_match(&[&mangled, demangled]),
                    None => wanted.strongest_match(&[&mangled]),
                }
            }
        };
        Self { mangled: name, shown: shown_name(name, demangled), match_kind }
    }
}

/// Returns the selected names: those with the strongest kind of match. So a typed name that the name of a kernel
/// contains as it stands is not used as a pattern too.
pub(super) fn selected(names: &[KernelName<'_>]) -> ShownNames {
    let strongest = names.iter().filter_map(|name| name.match_kind).max();
    let mut selected = HashMap::new();
    for name in names {
        if name.match_kind.is_some() && name.match_kind == strongest {
            selected.insert(Arc::clone(name.mangled), Arc::clone(&name.shown));
        }
    }
    selected
}

/// Returns the name of a kernel as reports show it: demangled if possible, and safe to print on a terminal.
fn shown_name(name: &[u8], demangled: Option<String>) -> Arc<str> {
    match demangled {
        Some(demangled) => printable_start(&demangled, SHOWN_MAX).into(),
        None => mangled(name).into(),
    }
}

/// Returns a mangled name, safe to print on a terminal.
pub(super) fn mangled(name: &[u8]) -> String {
    match name.get(..SHOWN_MAX) {
        Some(start) if start.len() < name.len() => printable_name(start) + "...",
        _ => printable_name(name),
    }
}

/// The result of a selection by name: whether it selects a kernel, and if not, names of kernels for the error.
#[derive(Debug, Default)]
pub(super) struct NameMatches {
    has_match: bool,
    /// The names of the first kernels in the files, for the error: at most one more than it shows, so that it can say
    /// that there are more.
    present: Vec<Arc<str>>,
    /// Names of kernels that are similar to the typed name, which selects nothing.
    similar: SimilarNames,
}

/// The number of names that an error lists.
const NAMES_SHOWN: usize = 10;

/// The number of characters of each of these names that the error shows.
const CHARACTERS_SHOWN: usize = 80;

impl NameMatches {
    /// Returns the result for the kernels of a file. `has_match` says whether `wanted` selects any of them.
    pub(super) fn new(kernels: &[KernelName<'_>], wanted: Option<&KernelNames>, has_match: bool) -> Self {
        let mut matches = Self { has_match, ..Self::default() };
        if let Some(wanted) = wanted
            && !has_match
        {
            // Only the error that no name matches needs the names of other kernels.
            matches.add_present(kernels, wanted);
        }
        matches
    }

    /// Adds the first kernels of a file, and all those with similar names.
    fn add_present(&mut self, kernels: &[KernelName<'_>], wanted: &KernelNames) {
        for kernel in kernels {
            wanted.add_similar(&kernel.shown, &mut self.similar);
            // One name more than is shown says that there are more.
            if self.present.len() <= NAMES_SHOWN {
                self.present.push(Arc::clone(&kernel.shown));
            }
        }
    }

    /// Adds the result of another file.
    pub(super) fn add(&mut self, more: Self) {
        self.has_match |= more.has_match;
        self.present.extend(more.present);
        // One name more than is shown says that there are more.
        self.present.truncate(NAMES_SHOWN + 1);
        self.similar.extend(&more.similar);
    }

    /// Returns the error that no kernel has the typed name, or `None` if one has it. Also returns `None` if no kernel
    /// was found at all and a file could not be read (`is_complete` is false): that file may have the kernel.
    pub(super) fn error(&self, typed: &str, paths: &[PathBuf], is_complete: bool) -> Option<String> {
        if self.has_match || (self.present.is_empty() && !is_complete) {
            return None;
        }
        let (place, have) = match paths {
            [path] => (format!("'{}'", path.display()), "it has"),
            paths => (format!("{} files", paths.len()), "they have"),
        };
        let others = match self.similar.question() {
            Some(question) => question,
            None if self.present.is_empty() => format!("{have} none"),
            None => {
                let present = self.present.iter().take(NAMES_SHOWN);
                let names: Vec<String> = present.map(|name| printable_start(name, CHARACTERS_SHOWN)).collect();
                let and_more = if self.present.len() > NAMES_SHOWN { ", and more" } else { "" };
                format!("{have}: {}{and_more}", names.join(", "))
            }
        };
        Some(format!("no kernel matches '{typed}' in {place}; {others}"))
    }
}

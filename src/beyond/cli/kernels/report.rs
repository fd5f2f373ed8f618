//! The kernels of a file, with demangled names, filtered and sorted.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use crate::base::display::{printable_name, printable_start};
use crate::base::error::Error;
use crate::beyond::inventory::CodeFor;
use crate::beyond::job::{CodeObjectKernels, KernelList, KernelNames, NameMatch, SelectionMatches, SimilarNames};
use crate::beyond::parallel;
use crate::beyond::scan::CodeObject;
use crate::beyond::serialized::KernelRow;
use anyhow::bail;
use serde::ser::Error as _;
use serde::{Serialize, Serializer};

use super::column::{RecordedKeys, SortKey};
use super::demangle::Demangler;
use super::disassemble::Contents;
use super::fail::{ConditionResults, KernelCondition};
use super::row::NamedKernel;
use crate::beyond::cli::print::units::{CountsByKind, first};

/// The longest name that is shown in full: in characters, or in bytes if it is mangled. Hostile files have longer ones.
const SHOWN_MAX: usize = 16 << 10;

/// The number of names that a thread demangles at a time.
const NAMES_AT_A_TIME: usize = 256;

/// The least number of rows that are added before rows are sorted again, and all but the listed ones dropped. Sorting
/// after every file would take too long, and keeping all rows too much memory.
pub(crate) const ROWS_BETWEEN_SORTS: usize = 256;

/// A kernel with the URI of its code object, or the error of the URI.
pub(crate) struct KernelWithUri {
    row: NamedKernel,
    uri: crate::base::error::Result<Option<Arc<str>>>,
}

impl Serialize for KernelWithUri {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let NamedKernel { code_object, gpu, name, kernel } = &self.row;
        let uri = self.uri.as_ref().map_err(S::Error::custom)?.as_deref();
        KernelRow::new(code_object, uri, gpu, (name, mangled(&kernel.name)), kernel).serialize(serializer)
    }
}

/// Adds URIs to kernels. The URI is computed once for kernels of the same code object that follow each other.
pub(crate) fn with_uris(rows: impl Iterator<Item = NamedKernel>) -> impl Iterator<Item = KernelWithUri> {
    let mut last: Option<(Arc<CodeObject>, Option<Arc<str>>)> = None;
    rows.map(move |row| {
        let uri = match &last {
            Some((code_object, uri)) if Arc::ptr_eq(code_object, &row.code_object) => Ok(uri.clone()),
            _ => row.code_object.uri().map(|uri| uri.map(|uri| uri.to_string().into())),
        };
        last = match &uri {
            Ok(uri) => Some((Arc::clone(&row.code_object), uri.clone())),
            Err(_) => None,
        };
        KernelWithUri { row, uri }
    })
}

/// The selected kernels of a file.
#[derive(Debug)]
pub(crate) struct FileKernels {
    pub(crate) rows: Vec<NamedKernel>,
    pub(crate) sums: KernelSums,
    pub(crate) problems: Vec<Error>,
    /// The bytes of the code objects, if they are disassembled.
    pub(super) contents: Contents,
}

/// Sums and other results about the kernels of one or more files.
#[derive(Debug, Default)]
pub(crate) struct KernelSums {
    /// The code objects whose kernels have no registers yet, such as PTX, which is compiled later.
    pub(crate) others: CountsByKind,
    pub(super) matches: SelectionMatches,
    pub(super) names: NameMatches,
    pub(super) conditions: ConditionResults,
    /// The keys that the kernels can be sorted by.
    pub(super) sort_keys: RecordedKeys,
}

impl KernelSums {
    /// Adds the sums of another file.
    pub(super) fn add(&mut self, more: Self) {
        for (kind, number) in more.others.iter() {
            self.others.add(kind, number);
        }
        self.matches.add(more.matches);
        self.names.add(more.names);
        self.conditions.add(more.conditions);
        self.sort_keys.add(more.sort_keys);
    }
}

/// The kernels that a report lists.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WantedKernels<'o> {
    /// The name that the user typed to select kernels, or `None` if all kernels are listed.
    pub(crate) name: Option<&'o KernelNames>,
    /// Whether only kernels that need calls of the host are listed.
    pub(crate) hostcall: bool,
    pub(crate) fail_on: &'o [KernelCondition],
    pub(crate) order: Option<KernelOrder>,
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
    fn new(kernels: &[KernelName<'_>], wanted: Option<&KernelNames>, has_match: bool) -> Self {
        let mut matches = Self { has_match, ..Self::default() };
        if let Some(wanted) = wanted
            && !has_match
        {
            // Only the error that no name matches needs the names of other kernels.
            matches.note_present(kernels, wanted);
        }
        matches
    }

    /// Notes the first kernels of a file, and all those with similar names.
    fn note_present(&mut self, kernels: &[KernelName<'_>], wanted: &KernelNames) {
        for kernel in kernels {
            wanted.note_similar(&kernel.shown, &mut self.similar);
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
        self.similar.add(&more.similar);
    }

    /// Fails if no kernel has the typed name. Does not fail if no kernel was found at all and a file could not be read
    /// (`is_complete` is false): that file may have the kernel.
    pub(super) fn ensure_match(&self, typed: &str, paths: &[PathBuf], is_complete: bool) -> anyhow::Result<()> {
        if self.has_match || (self.present.is_empty() && !is_complete) {
            return Ok(());
        }
        let (place, have) = match paths {
            [path] => (format!("'{}'", path.display()), "it has"),
            paths => (format!("{} files", paths.len()), "they have"),
        };
        if let Some(question) = self.similar.question() {
            bail!("no kernel matches '{typed}' in {place}; {question}");
        }
        let (present, more) = first(&self.present, NAMES_SHOWN);
        let names: Vec<String> = present.iter().map(|name| printable_start(name, CHARACTERS_SHOWN)).collect();
        let names = names.join(", ");
        if names.is_empty() {
            bail!("no kernel matches '{typed}' in {place}; {have} none");
        }
        let and_more = if more > 0 { ", and more" } else { "" };
        bail!("no kernel matches '{typed}' in {place}; {have}: {names}{and_more}")
    }
}

/// The order of all kernels, and the number of listed kernels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KernelOrder {
    pub(super) key: SortKey,
    pub(super) most: usize,
}

impl KernelOrder {
    /// Sorts rows, and keeps only the listed ones. The order of equal rows stays.
    fn keep_first(self, rows: &mut Vec<NamedKernel>) {
        rows.sort_by(|a, b| self.key.compare(a, b));
        rows.truncate(self.most);
    }

    /// Returns the sorted rows of all files, at most the number that is listed.
    pub(super) fn merge(self, files: &mut dyn Iterator<Item = Vec<NamedKernel>>) -> Vec<NamedKernel> {
        let mut kept = Vec::new();
        for rows in files {
            kept.extend(rows);
            // Dropping rows only when at least half of them can go keeps the time for sorting low.
            if kept.len() / 2 > self.most.max(ROWS_BETWEEN_SORTS) {
                self.keep_first(&mut kept);
            }
        }
        self.keep_first(&mut kept);
        kept
    }
}

impl FileKernels {
    /// Selects kernels, checks them, and sorts them.
    ///
    /// # Errors
    /// The errors of the URI of a code object, whose kernel meets a condition.
    pub(crate) fn new(list: KernelList, wanted: WantedKernels<'_>) -> crate::base::error::Result<Self> {
        let WantedKernels { name, hostcall, fail_on, order } = wanted;
        let kernels = list.code_objects.iter().flat_map(|code_object| &code_object.kernels);
        let demangled = KernelName::demangle(kernels.map(|kernel| &kernel.name), name);
        let names = selected(&demangled);
        let name_matches = NameMatches::new(&demangled, name, !names.is_empty());
        let (mut rows, mut conditions) = (Vec::new(), ConditionResults::new(fail_on));
        for CodeObjectKernels { code_object, recorded_target, kernels, .. } in list.code_objects {
            let gpu: Arc<str> = CodeFor::of(&code_object, recorded_target.as_deref()).name().into();
            for kernel in kernels {
                // Only selected kernels have a name in this map.
                let Some(name) = names.get(&kernel.name).map(Arc::clone) else { continue };
                // A kernel that --hostcall leaves out was looked at too, so that --fail-on had something to judge.
                conditions.count_judged(&kernel);
                if !hostcall || kernel.hostcall == Some(true) {
                    rows.push(NamedKernel {
                        code_object: Arc::clone(&code_object),
                        gpu: Arc::clone(&gpu),
                        name,
                        kernel,
                    });
                }
            }
        }
        // Conditions also apply to kernels that --top leaves out, so they are checked before rows are dropped.
        conditions.count_matches(&rows)?;
        let mut sort_keys = RecordedKeys::default();
        if let Some(order) = order {
            sort_keys = RecordedKeys::of_kernels(&rows);
            order.keep_first(&mut rows);
        }
        let others = CountsByKind(list.others);
        let sums = KernelSums { others, matches: list.matches, names: name_matches, conditions, sort_keys };
        Ok(Self { rows, sums, problems: list.problems, contents: Contents::new() })
    }
}

/// Returns the names of kernels, as they are shown. Each is demangled once.
pub(crate) fn demangled_names<'n>(names: impl Iterator<Item = &'n Arc<[u8]>>) -> HashMap<Arc<[u8]>, Arc<str>> {
    selected(&KernelName::demangle(names, None))
}

/// The name of a kernel.
struct KernelName<'n> {
    mangled: &'n Arc<[u8]>,
    shown: Arc<str>,
    /// How the typed name selects the kernel, or `None` if it does not.
    match_kind: Option<NameMatch>,
}

impl<'n> KernelName<'n> {
    /// Demangles the names of kernels, each once, and matches them with the `wanted` ones. Without `wanted`, all
    /// kernels are selected.
    fn demangle(names: impl Iterator<Item = &'n Arc<[u8]>>, wanted: Option<&KernelNames>) -> Vec<Self> {
        let mut known = HashSet::new();
        let names: Vec<&Arc<[u8]>> = names.filter(|name| known.insert(*name)).collect();
        let chunks: Vec<&[&Arc<[u8]>]> = names.chunks(NAMES_AT_A_TIME).collect();
        let demangler = Demangler::default();
        parallel::in_order(
            chunks,
            |chunk| chunk.iter().map(|name| KernelName::new(&demangler, name, wanted)).collect::<Vec<_>>(),
            Vec::len,
            |demangled| demangled.flatten().collect(),
        )
    }

    /// Demangles a name and matches it, both mangled and demangled, with the `wanted` names.
    fn new(demangler: &Demangler, name: &'n Arc<[u8]>, wanted: Option<&KernelNames>) -> Self {
        let demangled = demangler.demangled(name);
        let match_kind = match wanted {
            // All kernels are wanted, so all have the same kind of match.
            None => Some(NameMatch::Name),
            Some(wanted) => {
                let mangled = String::from_utf8_lossy(name);
                match &demangled {
                    Some(demangled) => wanted.strongest_match(&[&mangled, demangled]),
                    None => wanted.strongest_match(&[&mangled]),
                }
            }
        };
        Self { mangled: name, shown: shown_name(name, demangled), match_kind }
    }
}

/// Returns the selected names. Only kernels with the strongest kind of match are selected. So a typed name that a
/// kernel has as it stands is not used as a pattern too.
fn selected(names: &[KernelName<'_>]) -> HashMap<Arc<[u8]>, Arc<str>> {
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
pub(crate) fn mangled(name: &[u8]) -> String {
    match name.get(..SHOWN_MAX) {
        Some(start) if start.len() < name.len() => printable_name(start) + "...",
        _ => printable_name(name),
    }
}

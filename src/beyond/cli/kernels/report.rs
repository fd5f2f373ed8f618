//! The kernels of a file, with demangled names, filtered and sorted.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use crate::base::display::{printable_name, printable_start};
use crate::base::error::Error;
use crate::beyond::job::{CodeObjectKernels, KernelList, KernelNames, SelectionMatches};
use crate::beyond::parallel;
use crate::beyond::scan::CodeObject;
use crate::beyond::serialized::KernelRow;
use anyhow::bail;
use serde::ser::Error as _;
use serde::{Serialize, Serializer};

use super::column::SortKey;
use super::demangle::Demangler;
use super::disassemble::Contents;
use super::fail::{ConditionResults, KernelCondition};
use super::row::NamedKernel;
use crate::beyond::cli::patterns;
use crate::beyond::cli::print::units::{CountsByKind, first};

/// The longest name that is shown in full: in characters, or in bytes if it is mangled.
const SHOWN_MAX: usize = 16 << 10;

/// The number of names that a thread demangles at a time.
const NAMES_AT_A_TIME: usize = 256;

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
    /// The code objects that have no kernels yet.
    pub(crate) others: CountsByKind,
    pub(super) matches: SelectionMatches,
    pub(super) names: NameMatches,
    pub(super) conditions: ConditionResults,
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
    }
}

/// The kernels that a report lists.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WantedKernels<'o> {
    pub(crate) name: Option<&'o NameFilter>,
    /// Whether only kernels that need calls of the host are listed.
    pub(crate) hostcall: bool,
    pub(crate) fail_on: &'o [KernelCondition],
    pub(crate) order: Option<KernelOrder>,
}

/// The result of a filter by name: whether it selects a kernel, and if not, the first names of kernels.
#[derive(Debug, Default)]
pub(super) struct NameMatches {
    has_match: bool,
    present: Vec<Arc<str>>,
}

impl NameMatches {
    /// The number of names that an error lists, and the characters of each.
    const SHOWN: (usize, usize) = (10, 80);

    fn new(list: &KernelList, has_match: bool) -> Self {
        let mut present = Vec::new();
        if !has_match {
            let (mut known, demangler) = (HashSet::new(), Demangler::default());
            let kernels = list.code_objects.iter().flat_map(|code_object| &code_object.kernels);
            for kernel in kernels {
                if present.len() > Self::SHOWN.0 {
                    break;
                }
                if known.insert(&kernel.name) {
                    present.push(shown_name(&kernel.name, demangler.demangled(&kernel.name)));
                }
            }
        }
        Self { has_match, present }
    }

    /// Adds the result of another file.
    pub(super) fn add(&mut self, more: Self) {
        self.has_match |= more.has_match;
        self.present.extend(more.present);
        self.present.truncate(Self::SHOWN.0 + 1);
    }

    /// Fails if no kernel matches, unless no kernels could be read.
    pub(super) fn ensure_match(&self, name: &NameFilter, paths: &[PathBuf], is_complete: bool) -> anyhow::Result<()> {
        if self.has_match || (self.present.is_empty() && !is_complete) {
            return Ok(());
        }
        let typed = match name {
            NameFilter::Part(part) => part,
            NameFilter::Whole { pattern, .. } => pattern.as_str(),
        };
        let (most, chars) = Self::SHOWN;
        let (present, more) = first(&self.present, most);
        let (place, have) = match paths {
            [path] => (format!("'{}'", path.display()), "it has"),
            paths => (format!("{} files", paths.len()), "they have"),
        };
        let names: Vec<String> = present.iter().map(|name| printable_start(name, chars)).collect();
        let names = match (names.join(", "), more) {
            (names, _) if names.is_empty() => " none".to_owned(),
            (names, 0) => format!(": {names}"),
            (names, _) => format!(": {names}, and more"),
        };
        bail!("no kernel matches '{typed}' in {place}; {have}{names}")
    }
}

/// A filter by name.
#[derive(Clone, Debug)]
pub(crate) enum NameFilter {
    /// A part of the name.
    Part(String),
    /// The whole name: the name of a kernel, or else a pattern.
    Whole { pattern: glob::Pattern, literally: KernelNames },
}

/// The way in which a filter selects a name, the weaker one first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum SelectedBy {
    Pattern,
    /// The filter is the name itself, although it has characters that may be wildcards.
    Name,
}

impl NameFilter {
    /// Parses the value of `--name`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("it is empty".to_owned());
        }
        if !text.contains(['*', '?', '[']) {
            return Ok(Self::Part(text.to_owned()));
        }
        let literally = KernelNames::new([text], patterns::demangled);
        let pattern = glob::Pattern::new(text).map_err(|error| error.msg.to_owned())?;
        Ok(Self::Whole { pattern, literally })
    }

    fn selects(&self, name: &str) -> Option<SelectedBy> {
        match self {
            Self::Part(part) if name.contains(part.as_str()) => Some(SelectedBy::Pattern),
            Self::Whole { literally, .. } if literally.has(name) => Some(SelectedBy::Name),
            Self::Whole { pattern, .. } if pattern.matches(name) => Some(SelectedBy::Pattern),
            _ => None,
        }
    }
}

/// The order of all kernels, and the number of listed kernels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KernelOrder {
    pub(super) key: SortKey,
    pub(super) most: usize,
}

impl KernelOrder {
    /// Sorts rows, and keeps the first ones. The order of equal rows stays.
    fn keep(self, rows: &mut Vec<NamedKernel>) {
        rows.sort_by(|a, b| self.key.compare(a, b));
        rows.truncate(self.most);
    }

    /// The first rows of all files.
    pub(super) fn merge(self, files: &mut dyn Iterator<Item = Vec<NamedKernel>>) -> Vec<NamedKernel> {
        let mut kept = Vec::new();
        for rows in files {
            kept.extend(rows);
            // Sorting at every file would take time for each of them.
            if kept.len() / 2 > self.most.max(NAMES_AT_A_TIME) {
                self.keep(&mut kept);
            }
        }
        self.keep(&mut kept);
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
        let names = demangled_names(kernels.map(|kernel| &kernel.name), name);
        let name_matches = NameMatches::new(&list, !names.is_empty());
        let (mut rows, mut conditions) = (Vec::new(), ConditionResults::new(fail_on));
        for CodeObjectKernels { code_object, recorded_target, kernels, .. } in list.code_objects {
            let gpu: Arc<str> = gpu_name(&code_object, recorded_target).into();
            for kernel in kernels {
                let Some(name) = names.get(&kernel.name).map(Arc::clone) else { continue };
                conditions.note(&kernel);
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
        conditions.check(&rows)?;
        if let Some(order) = order {
            order.keep(&mut rows);
        }
        let sums =
            KernelSums { others: CountsByKind(list.others), matches: list.matches, names: name_matches, conditions };
        Ok(Self { rows, sums, problems: list.problems, contents: Contents::new() })
    }
}

/// The GPU of a code object in one word.
fn gpu_name(code_object: &CodeObject, recorded: Option<String>) -> String {
    let has_target_id = match code_object.entry_id() {
        Some(id) => !id.target().is_empty(),
        None => false,
    };
    match recorded {
        Some(recorded) if !has_target_id => recorded,
        _ => code_object.target(),
    }
}

/// The names of the kernels that `filter` selects, as they are shown. Each is demangled once. If the filter is the name
/// of a kernel, it selects only that kernel, and is not used as a pattern.
pub(crate) fn demangled_names<'n>(
    names: impl Iterator<Item = &'n Arc<[u8]>>,
    filter: Option<&NameFilter>,
) -> HashMap<Arc<[u8]>, Arc<str>> {
    let mut known = HashSet::new();
    let names: Vec<&Arc<[u8]>> = names.filter(|name| known.insert(*name)).collect();
    let chunks: Vec<&[&Arc<[u8]>]> = names.chunks(NAMES_AT_A_TIME).collect();
    let demangler = Demangler::default();
    let mut selected: Vec<_> = parallel::in_order(
        chunks,
        |chunk| chunk.iter().map(|name| shown_if_selected(&demangler, name, filter)).collect::<Vec<_>>(),
        Vec::len,
        |shown| {
            names.iter().zip(shown.flatten()).filter_map(|(name, shown)| Some((Arc::clone(name), shown?))).collect()
        },
    );
    if selected.iter().any(|(_, (_, by))| *by == SelectedBy::Name) {
        selected.retain(|(_, (_, by))| *by == SelectedBy::Name);
    }
    selected.into_iter().map(|(name, (shown, _))| (name, shown)).collect()
}

/// Returns a name as it is shown, and the way in which it is selected, or `None` if it is not selected.
fn shown_if_selected(
    demangler: &Demangler,
    name: &[u8],
    filter: Option<&NameFilter>,
) -> Option<(Arc<str>, SelectedBy)> {
    let demangled = demangler.demangled(name);
    let mut selected = Some(SelectedBy::Pattern);
    if let Some(filter) = filter {
        selected = filter.selects(&String::from_utf8_lossy(name));
        if let Some(demangled) = &demangled {
            selected = selected.max(filter.selects(demangled));
        }
    }
    Some((shown_name(name, demangled), selected?))
}

fn shown_name(name: &[u8], demangled: Option<String>) -> Arc<str> {
    match demangled {
        Some(demangled) => printable_start(&demangled, SHOWN_MAX).into(),
        None => mangled(name).into(),
    }
}

/// A mangled name, safe to print on a terminal.
pub(crate) fn mangled(name: &[u8]) -> String {
    match name.get(..SHOWN_MAX) {
        Some(start) if start.len() < name.len() => printable_name(start) + "...",
        _ => printable_name(name),
    }
}

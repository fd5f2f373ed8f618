//! The kernels of a file, with demangled names, filtered and sorted.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use crate::base::display::{printable_name, printable_start};
use crate::base::error::Error;
use crate::beyond::job::{CodeObjectKernels, KernelList, KernelNames, Matches};
use crate::beyond::parallel;
use crate::beyond::scan::CodeObject;
use crate::beyond::serialized::KernelRow;
use anyhow::bail;
use serde::ser::Error as _;
use serde::{Serialize, Serializer};

use super::column::SortKey;
use super::demangle::Demangler;
use super::disassemble::Contents;
use super::fail::{Failing, KernelCondition};
use super::row::Row;
use crate::beyond::cli::patterns;
use crate::beyond::cli::print::units::{Kinds, first};

/// The longest name that is shown in full: in characters, or in bytes if it is mangled.
const SHOWN_MAX: usize = 16 << 10;

/// The number of names that a thread demangles at a time.
const NAMES_AT_A_TIME: usize = 256;

/// A kernel with the URI of its code object, or why that cannot be told.
pub(crate) struct RowWithUri {
    row: Row,
    uri: crate::base::error::Result<Option<Arc<str>>>,
}

impl Serialize for RowWithUri {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Row { code_object, gpu, name, kernel } = &self.row;
        let uri = self.uri.as_ref().map_err(S::Error::custom)?.as_deref();
        KernelRow::new(code_object, uri, gpu, (name, mangled(&kernel.name)), kernel).serialize(serializer)
    }
}

/// Adds the URIs, each once for the kernels of a code object that follow each other.
pub(crate) fn with_uris(rows: impl Iterator<Item = Row>) -> impl Iterator<Item = RowWithUri> {
    let mut last: Option<(Arc<CodeObject>, Option<Arc<str>>)> = None;
    rows.map(move |row| {
        let known = last.as_ref().filter(|(code_object, _)| Arc::ptr_eq(code_object, &row.code_object));
        let uri = match known {
            Some((_, uri)) => Ok(uri.clone()),
            None => row.code_object.uri().map(|uri| uri.map(|uri| uri.to_string().into())),
        };
        last = uri.as_ref().ok().map(|uri| (Arc::clone(&row.code_object), uri.clone()));
        RowWithUri { row, uri }
    })
}

/// The kernels of a file that are asked for.
#[derive(Debug)]
pub(crate) struct FileKernels {
    pub(crate) rows: Vec<Row>,
    pub(crate) sums: KernelSums,
    pub(crate) problems: Vec<Error>,
    /// The bytes of the code objects, if they are disassembled.
    pub(super) contents: Contents,
}

/// Sums and other facts about the kernels of one or more files.
#[derive(Debug, Default)]
pub(crate) struct KernelSums {
    /// The code objects that have no kernels yet.
    pub(crate) others: Kinds,
    pub(super) matches: Matches,
    pub(super) named: Named,
    pub(super) failing: Failing,
}

impl KernelSums {
    /// Adds those of another file.
    pub(super) fn add(&mut self, more: Self) {
        more.others.iter().for_each(|(kind, number)| self.others.add(kind, number));
        self.matches.add(more.matches);
        self.named.add(more.named);
        self.failing.add(more.failing);
    }
}

/// The kernels that a report is about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WantedKernels<'o> {
    pub(crate) name: Option<&'o Name>,
    /// Whether only those that need calls of the host are listed.
    pub(crate) hostcall: bool,
    pub(crate) fail_on: &'o [KernelCondition],
    pub(crate) order: Option<KernelOrder>,
}

/// Whether a filter by name selects a kernel, and if not, the first names that there are.
#[derive(Debug, Default)]
pub(super) struct Named {
    has_match: bool,
    present: Vec<Arc<str>>,
}

impl Named {
    /// The number of names that an error lists, and the characters of each.
    const SHOWN: (usize, usize) = (10, 80);

    fn of(list: &KernelList, has_match: bool) -> Self {
        let kernels = list.code_objects.iter().flat_map(|code_object| &code_object.kernels);
        let mut named = Self { has_match, present: Vec::new() };
        if !has_match {
            let (mut known, demangler) = (HashSet::new(), Demangler::default());
            let names = kernels.map(|kernel| &kernel.name).filter(|name| known.insert(*name));
            named.present = names
                .take(Self::SHOWN.0 + 1)
                .filter_map(|name| shown(&demangler, name, None).map(|(name, _)| name))
                .collect();
        }
        named
    }

    /// Adds those of another file.
    pub(super) fn add(&mut self, more: Self) {
        self.has_match |= more.has_match;
        self.present.extend(more.present);
        self.present.truncate(Self::SHOWN.0 + 1);
    }

    /// Fails if no kernel matches, unless none could be read.
    pub(super) fn ensure_match(&self, name: &Name, paths: &[PathBuf], is_complete: bool) -> anyhow::Result<()> {
        if self.has_match || (self.present.is_empty() && !is_complete) {
            return Ok(());
        }
        let typed = match name {
            Name::Part(part) => part,
            Name::Whole { pattern, .. } => pattern.as_str(),
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
pub(crate) enum Name {
    /// A part of the name.
    Part(String),
    /// The whole name: that of a kernel, or else a pattern.
    Whole { pattern: glob::Pattern, literally: KernelNames },
}

/// How a filter selects a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Selected {
    /// It is the name itself, although it has characters that may be wildcards.
    ByName,
    ByPattern,
}

impl Name {
    /// Reads the value of `--name`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        match text.contains(['*', '?', '[']) {
            _ if text.is_empty() => Err("it is empty".to_owned()),
            true => {
                let literally = KernelNames::new([text], patterns::demangled);
                let pattern = glob::Pattern::new(text).map_err(|error| error.msg.to_owned())?;
                Ok(Self::Whole { pattern, literally })
            }
            false => Ok(Self::Part(text.to_owned())),
        }
    }

    fn selects(&self, name: &str) -> Option<Selected> {
        let matches = match self {
            Self::Part(part) => name.contains(part.as_str()),
            Self::Whole { literally, .. } if literally.has(name) => return Some(Selected::ByName),
            Self::Whole { pattern, .. } => pattern.matches(name),
        };
        matches.then_some(Selected::ByPattern)
    }
}

/// The order of all kernels, and how many of them are listed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KernelOrder {
    pub(super) key: SortKey,
    pub(super) most: usize,
}

impl KernelOrder {
    /// Sorts rows, and keeps the first ones. The order of equal rows stays.
    fn keep(self, rows: &mut Vec<Row>) {
        rows.sort_by(|a, b| self.key.compare(a, b));
        rows.truncate(self.most);
    }

    /// The first rows of all files.
    pub(super) fn merge(self, files: &mut dyn Iterator<Item = Vec<Row>>) -> Vec<Row> {
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
        let named = Named::of(&list, !names.is_empty());
        let (mut rows, mut failing) = (Vec::new(), Failing::new(fail_on));
        for CodeObjectKernels { code_object, recorded_target, kernels, .. } in list.code_objects {
            let gpu: Arc<str> = gpu(&code_object, recorded_target).into();
            for kernel in kernels {
                let Some(name) = names.get(&kernel.name).map(Arc::clone) else { continue };
                failing.note(&kernel);
                if !hostcall || kernel.hostcall == Some(true) {
                    rows.push(Row { code_object: Arc::clone(&code_object), gpu: Arc::clone(&gpu), name, kernel });
                }
            }
        }
        failing.check(&rows)?;
        if let Some(order) = order {
            order.keep(&mut rows);
        }
        let sums = KernelSums { others: Kinds(list.others), matches: list.matches, named, failing };
        Ok(Self { rows, sums, problems: list.problems, contents: Contents::new() })
    }
}

/// The GPU of a code object in one word.
fn gpu(code_object: &CodeObject, recorded: Option<String>) -> String {
    let has_target_id = code_object.entry_id().is_some_and(|id| !id.target().is_empty());
    recorded.filter(|_| !has_target_id).unwrap_or_else(|| code_object.target())
}

/// The names of the kernels that `filter` selects, as they are shown. Each is demangled once. A filter that is the name
/// of a kernel selects that, and not what it would match.
pub(crate) fn demangled_names<'n>(
    names: impl Iterator<Item = &'n Arc<[u8]>>,
    filter: Option<&Name>,
) -> HashMap<Arc<[u8]>, Arc<str>> {
    let mut known = HashSet::new();
    let names: Vec<&Arc<[u8]>> = names.filter(|name| known.insert(*name)).collect();
    let chunks: Vec<&[&Arc<[u8]>]> = names.chunks(NAMES_AT_A_TIME).collect();
    let demangler = Demangler::default();
    let shown = |chunk: &[&Arc<[u8]>]| chunk.iter().map(|name| shown(&demangler, name, filter)).collect::<Vec<_>>();
    let mut selected: Vec<_> = parallel::in_order(chunks, shown, Vec::len, |shown| {
        names.iter().zip(shown.flatten()).filter_map(|(name, shown)| Some((Arc::clone(name), shown?))).collect()
    });
    if selected.iter().any(|(_, (_, selected))| *selected == Selected::ByName) {
        selected.retain(|(_, (_, selected))| *selected == Selected::ByName);
    }
    selected.into_iter().map(|(name, (shown, _))| (name, shown)).collect()
}

/// Returns a name as it is shown, and how it is selected, or `None` if it is not.
fn shown(demangler: &Demangler, name: &[u8], filter: Option<&Name>) -> Option<(Arc<str>, Selected)> {
    let demangled = demangler.demangled(name);
    let selected = match filter {
        None => Selected::ByPattern,
        Some(filter) => {
            let ways = [
                demangled.as_deref().and_then(|name| filter.selects(name)),
                filter.selects(&String::from_utf8_lossy(name)),
            ];
            let is_by_name = ways.contains(&Some(Selected::ByName));
            if is_by_name { Selected::ByName } else { ways.into_iter().flatten().next()? }
        }
    };
    let shown = match demangled {
        Some(name) => printable_start(&name, SHOWN_MAX).into(),
        None => mangled(name).into(),
    };
    Some((shown, selected))
}

/// A mangled name, safe to print on a terminal.
pub(crate) fn mangled(name: &[u8]) -> String {
    match name.get(..SHOWN_MAX) {
        Some(start) if start.len() < name.len() => printable_name(start) + "...",
        _ => printable_name(name),
    }
}

//! The text report of `inspect`: a table for each place, and the totals for each GPU.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::io;

use crate::base::display::{printable, printable_start};
use crate::beyond::job::{Inspected, InspectedBundle, NotRead};
use crate::beyond::runtime::Coverage;
use crate::beyond::scan::{Format, Origin as Base, Sizes, Step};
use crate::llvm::container::Codec;

use super::lines::{LABEL_MAX, Line, Scale, TableRows, Targets, gpu_table, lines, table, tell_served};
use super::sort_by_need;
use crate::beyond::cli::gpus::generation;
use crate::beyond::cli::print::text::Text;
use crate::beyond::cli::print::units::{Kinds, bytes, count, first, sum};

/// The text report, a file at a time.
pub(super) struct InspectTables<'o> {
    rows: TableRows,
    text: Text<'o>,
    totals: Totals,
    /// Whether nothing has been printed yet.
    is_silent: bool,
}

impl<'o> InspectTables<'o> {
    pub(super) fn new(rows: TableRows, text: Text<'o>) -> Self {
        Self { rows, text, totals: Totals::default(), is_silent: true }
    }

    /// Writes what is said of a file, which may be nothing.
    pub(super) fn file(&mut self, file: &Inspected, is_named: bool) -> io::Result<()> {
        self.totals.add(file);
        let is_told = is_named
            || !file.bundles.is_empty()
            || file.unread.iter().any(|row| row.what.is_device_code())
            || !file.references.is_empty();
        if self.rows.is_summary() || !is_told {
            return Ok(());
        }
        self.is_silent = false;
        self.told(file)?;
        self.text.out.flush()
    }

    /// Writes what is said of all files.
    pub(super) fn end(&mut self) -> io::Result<()> {
        let Self { rows, text, totals, is_silent } = self;
        if rows.is_summary() {
            return totals.summary(*rows, text);
        }
        if totals.groups > 1 && !(totals.files == 1 && is_summed_first(*rows, totals.groups)) {
            totals.table(*rows, text)?;
        }
        if totals.is_unsure {
            text.line("?: not inflated; use --inflate to see the kind")?;
        }
        match totals.unread.total() {
            _ if !*is_silent || totals.files == 0 => Ok(()),
            0 => text.line("no device code found"),
            _ => text.line(&format!("no device code found; not read: {}", totals.unread)),
        }
    }

    fn told(&mut self, file: &Inspected) -> io::Result<()> {
        let Self { rows, text, .. } = self;
        let name = printable(&file.path.to_string_lossy());
        if let Some(what) = without_table(file) {
            text.heading(&name, &format!(": {what}"))?;
            references_text(file, text)?;
            return unread_text(file, text);
        }
        let groups = groups(&file.bundles).map(|group| {
            let coverage = group.first().and_then(|first| file.coverage_in(first.info.container()));
            let mut lines = lines(group, *rows);
            tell_served(&mut lines, coverage.filter(|_| !rows.is_each()));
            (group, lines)
        });
        let groups: Vec<(&[InspectedBundle], Vec<Line>)> = groups.collect();
        let scale = Scale::of(groups.iter().flat_map(|(_, lines)| lines));
        let sizes = sum(file.bundles.iter().map(InspectedBundle::sizes));
        let inflated = file.bundles.iter().any(|bundle| *bundle.info.place.origin() == Base::Inflated);
        let inflated = if inflated { ", members inflated" } else { "" };
        text.heading(&name, &format!(": {}, code objects {}{inflated}", bytes(file.size), text_of(&sizes)))?;
        if is_summed_first(*rows, groups.len()) {
            // The totals so far are those of the first file.
            let mut own = Totals::default();
            let is_first = self.totals.files == 1;
            if !is_first {
                own.add(file);
            }
            (if is_first { &self.totals } else { &own }).table(*rows, text)?;
        }
        for (bundles, lines) in &groups {
            text.subheading(&heading(bundles))?;
            table(lines, scale, ("ENTRY ID", true), bundles.iter().any(is_compressed), text)?;
        }
        references_text(file, text)?;
        unread_text(file, text)?;
        if groups.len() == 1 {
            incomplete_text(&file.coverage(), text)?;
        }
        text.empty_line()
    }
}

/// The reason why a file has no table.
fn without_table(file: &Inspected) -> Option<&'static str> {
    let Inspected { bundles, problems, unread, references, .. } = file;
    match (bundles.is_empty(), problems.is_empty(), unread.is_empty()) {
        (false, ..) => None,
        _ if !references.is_empty() => Some("device code in kpack archives"),
        (true, false, _) => Some("nothing readable"),
        (true, true, true) => Some("no device code"),
        (true, true, false) => Some("no readable device code"),
    }
}

/// Whether the totals of a file are before its tables, where these are too many to be read.
fn is_summed_first(rows: TableRows, groups: usize) -> bool {
    const GROUPS_MAX: usize = 5;
    rows == TableRows::Grouped && groups > GROUPS_MAX
}

/// The longest list of search paths, in characters.
const PATHS_MAX: usize = 500;

/// Lists the references to kpack archives, and whether those exist.
fn references_text(file: &Inspected, text: &mut Text<'_>) -> io::Result<()> {
    for reference in &file.references {
        let paths = printable_start(&reference.search_paths.join(", "), PATHS_MAX);
        let found = match reference.archives.as_deref() {
            None => "kpack archives (not searched)".to_owned(),
            Some([]) => "no kpack archive found".to_owned(),
            Some(archives) => {
                let none = if reference.code_objects == 0 { "no code for this library in " } else { "" };
                format!("{none}{}", count(archives.len(), "kpack archive", "kpack archives"))
            }
        };
        text.item(&format!("{}{found} at {paths}", way(reference.place.steps())))?;
    }
    Ok(())
}

/// The maximum number of lines for unread parts of a file.
const UNREAD_MAX: usize = 100;

/// Lists the unread parts of a file by their places.
fn unread_text(file: &Inspected, text: &mut Text<'_>) -> io::Result<()> {
    let of = |parts: &mut dyn Iterator<Item = &NotRead>| {
        let mut kinds = Kinds::default();
        parts.for_each(|part| kinds.add(part.what.name(), 1));
        kinds.to_string()
    };
    let mut rows = file.unread.chunk_by(|one, next| one.place == next.place);
    for parts in rows.by_ref().take(UNREAD_MAX) {
        let steps = parts.first().map_or(&[][..], |part| part.place.steps());
        let kinds = if let [part] = parts { part.what.name().to_owned() } else { of(&mut parts.iter()) };
        text.item(&format!("{}not read: {kinds}", way(steps)))?;
    }
    let mut others = rows.flatten().peekable();
    match others.peek() {
        Some(_) => text.item(&format!("not read, too: {}", of(&mut others))),
        None => Ok(()),
    }
}

/// The inflated size of code objects, and the stored one if it is another.
fn text_of(sizes: &Sizes) -> String {
    match sizes.stored == sizes.size {
        true => bytes(sizes.size),
        false => format!("{}, stored in {}", bytes(sizes.size), bytes(sizes.stored)),
    }
}

/// The bundles by place, format and whether they are compressed.
fn groups(bundles: &[InspectedBundle]) -> impl Iterator<Item = &[InspectedBundle]> {
    let key = |bundle: &InspectedBundle| (bundle.info.format, bundle.info.compressed.is_some());
    bundles.chunk_by(move |a, b| a.info.container() == b.info.container() && key(a) == key(b))
}

/// Whether a bundle, or a code object in it, is compressed.
fn is_compressed(bundle: &InspectedBundle) -> bool {
    bundle.info.compressed.is_some() || bundle.codecs().next().is_some()
}

/// The heading of a group: its place, format and number of bundles.
fn heading(group: &[InspectedBundle]) -> String {
    let Some(first) = group.first() else { return String::new() };
    let (one, many) = match first.info.format {
        Format::TextBundle => ("text bundle", "text bundles"),
        Format::FatObject => ("fat object", "fat objects"),
        Format::OffloadBinary => ("offload binary", "offload binaries"),
        Format::Fatbin => ("fatbin", "fatbins"),
        Format::SyclBin => ("SYCLBIN file", "SYCLBIN files"),
        Format::CodeObject => ("code object without a bundle", "code objects without a bundle"),
        _ => ("bundle", "bundles"),
    };
    let mut text = match first.info.format {
        Format::Kpack => in_kpack(group),
        Format::DeviceImages => {
            count(group.iter().map(|bundle| bundle.code_objects.len()).sum(), "device image", "device images")
        }
        _ => count(group.len(), one, many),
    };
    if let Some(recorded) = first.info.compressed {
        let stored = group.iter().map(InspectedBundle::stored).sum();
        text.push_str(&format!(", {} in {}", recorded.method.name(), bytes(stored)));
    }
    let codecs: BTreeSet<&str> = group.iter().flat_map(InspectedBundle::codecs).map(Codec::name).collect();
    if !codecs.is_empty() {
        let is_whole = group.iter().all(|bundle| bundle.codecs().count() == bundle.code_objects.len());
        let names = codecs.into_iter().collect::<Vec<_>>().join(" and ");
        text.push_str(&format!(", {}{names}", if is_whole { "" } else { "partly " }));
    }
    way(first.info.container()) + &text
}

/// The number of code objects, and of the kpack archives that hold them.
fn in_kpack(group: &[InspectedBundle]) -> String {
    let objects = group.iter().map(|bundle| bundle.code_objects.len()).sum();
    let archives: BTreeSet<_> = group.iter().map(|bundle| bundle.info.place.other_file()).collect();
    let archives = if archives.len() == 1 { "a kpack archive" } else { &format!("{} kpack archives", archives.len()) };
    format!("{} in {archives}", count(objects, "code object", "code objects"))
}

/// The steps from a file to a place, before the description of what is there.
fn way(steps: &[Step]) -> String {
    let steps: Vec<String> = steps.iter().map(Step::to_string).collect();
    if steps.is_empty() { String::new() } else { steps.join(" > ") + ": " }
}

/// The largest number of GPUs that are listed because not all bundles serve them.
const INCOMPLETE_MAX: usize = 8;

/// Names the GPUs that some bundles serve, and others do not.
fn incomplete_text(coverage: &Coverage, text: &mut Text<'_>) -> io::Result<()> {
    let Some(mut gpus) = coverage.gpus() else {
        return text.item("too many GPUs and bundles to tell which bundles serve which GPU");
    };
    sort_by_need(&mut gpus);
    gpus.retain(|(_, served)| !served.is_complete());
    let (listed, more) = first(&gpus, INCOMPLETE_MAX);
    let mut listed: Vec<String> = listed.iter().map(|(gpu, served)| format!("{gpu} ({served})")).collect();
    listed.extend((more > 0).then(|| format!("{more} more (--gpus lists all)")));
    if !listed.is_empty() {
        text.item(&format!("not served by all bundles: {}", printable(&listed.join(", "))))?;
    }
    unfound_lines(coverage).iter().try_for_each(|line| text.item(line))
}

/// The largest number of entry IDs of which the reason is printed why a runtime does not find their code.
const UNFOUND_MAX: usize = 3;

/// Names the code that a runtime does not find.
pub(super) fn unfound_lines(coverage: &Coverage) -> Vec<String> {
    let unfound = coverage.unfound();
    let (listed, more) = first(&unfound, UNFOUND_MAX);
    let mut lines = listed.to_vec();
    if more > 0 {
        lines.push(format!("{} that HIP's runtime does not find", count(more, "more entry ID", "more entry IDs")));
    }
    lines
}

/// The totals of all files.
#[derive(Debug, Default)]
pub(super) struct Totals {
    files: usize,
    files_with_bundles: usize,
    files_without_device_code: usize,
    files_broken: usize,
    files_with_unread: usize,
    files_with_missing: usize,
    files_split: usize,
    /// The number of tables.
    groups: usize,
    /// A line for each GPU, and the index of each by label.
    pub(super) lines: Vec<Line>,
    known: HashMap<String, usize>,
    coverage: Coverage,
    sizes: Sizes,
    is_compressed: bool,
    /// Whether the kind of some code objects is unknown.
    is_unsure: bool,
    unread: Kinds,
}

/// The maximum number of GPUs with their own line in the totals. Hostile files can name any number.
const GPUS_MAX: usize = 10_000;

impl Totals {
    fn add(&mut self, file: &Inspected) {
        self.files += 1;
        let Inspected { bundles, unread, references, problems, .. } = file;
        match (bundles.is_empty(), problems.is_empty()) {
            (false, _) => self.files_with_bundles += 1,
            (true, false) => self.files_broken += 1,
            (true, true) if !references.is_empty() => self.files_split += 1,
            (true, true) => self.files_without_device_code += usize::from(unread.is_empty()),
        }
        let is_missing = references.iter().any(|reference| reference.archives.is_some() && reference.code_objects == 0);
        self.files_with_missing += usize::from(is_missing);
        self.files_with_unread += usize::from(!unread.is_empty());
        unread.iter().for_each(|row| self.unread.add(row.what.name(), 1));
        self.groups += groups(bundles).count();
        self.coverage.merge(&file.coverage());
        let mut targets = Targets::default();
        for bundle in bundles {
            self.sizes += bundle.sizes();
            self.is_compressed |= is_compressed(bundle);
            let line = |code_object| Line::new(code_object, TableRows::Totals, &mut targets);
            bundle.code_objects.iter().map(line).for_each(|line| self.add_line(line));
        }
    }

    /// Adds the line of a code object, unless what is in it counts.
    pub(super) fn add_line(&mut self, mut line: Line) {
        if !line.is_counted() {
            return;
        }
        line.sizes = line.counted;
        self.is_unsure |= line.unsure;
        let name = if self.lines.len() < GPUS_MAX { &line.gpu } else { "others" };
        line.label = printable_start(name, LABEL_MAX);
        let index = *self.known.entry(line.label.clone()).or_insert(self.lines.len());
        match self.lines.get_mut(index) {
            Some(same) => same.add(&line),
            None => self.lines.push(line),
        }
    }

    /// Writes the table, one line for each GPU, largest first, unless `rows` are GPUs by generation.
    fn table(&self, rows: TableRows, text: &mut Text<'_>) -> io::Result<()> {
        let mut lines = self.lines.clone();
        tell_served(&mut lines, Some(&self.coverage));
        if rows == TableRows::Gpus {
            lines.retain(|line| line.gpu != "host");
            lines.sort_by_cached_key(|line| generation(&line.gpu));
        } else {
            lines.sort_by_key(|line| Reverse(line.sizes.stored));
        }
        let scale = Scale::of(lines.iter());
        let objects = count(self.sizes.code_objects, "code object", "code objects");
        let files = count(self.files_with_bundles, "file", "files");
        text.heading(&format!("Total: {objects} in {files}, {}", text_of(&self.sizes)), "")?;
        if rows == TableRows::Gpus {
            return gpu_table(&lines, text);
        }
        table(&lines, scale, ("GPU", false), self.is_compressed, text)?;
        incomplete_text(&self.coverage, text)
    }

    /// Writes the table, and the numbers of files without device code, files without anything readable, and files with
    /// unread parts.
    fn summary(&self, rows: TableRows, text: &mut Text<'_>) -> io::Result<()> {
        if self.files_with_bundles > 0 {
            self.table(rows, text)?;
        }
        let is_empty = self.files_with_bundles == 0
            && self.files_broken == 0
            && self.files_with_unread == 0
            && self.files_split == 0;
        let files = |number| count(number, "file", "files");
        let without = self.files_without_device_code;
        let lines = [
            (without > 0 || is_empty, format!("No device code in {}", files(without))),
            (self.files_broken > 0, format!("Nothing readable in {}", files(self.files_broken))),
            (self.files_split > 0, format!("Device code of {} in kpack archives", files(self.files_split))),
            (
                self.files_with_missing > 0,
                format!("No code found in kpack archives for {}", files(self.files_with_missing)),
            ),
            (self.files_with_unread > 0, format!("Not read in {}: {}", files(self.files_with_unread), self.unread)),
        ];
        lines.iter().filter(|(is_shown, _)| *is_shown).try_for_each(|(_, line)| text.line(line))
    }
}

//! The text report of `inspect`: a table for each place, and the totals for each GPU.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;

use offload_bundle::container::Codec;
use offload_bundle::display::{printable, printable_start};
use offload_bundle::job::{Inspected, InspectedBundle};
use offload_bundle::runtime::{Coverage, Served};
use offload_bundle::scan::{CodeObject, ContentKind, Format, Origin as Base, Sizes, Step};

use super::{FileReport, sort_by_need};
use crate::cli::files::FileOrigin;
use crate::cli::print::table::{BAR, Cell, Column, Fit, Style, Table};
use crate::cli::print::units::{Kinds, bytes, count, percent};

/// The code objects that each line of a table summarises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TableRows {
    /// All code objects at a place with the same entry ID.
    Grouped,
    /// One code object.
    Each,
    /// All code objects for the same GPU in all files. Only totals are printed.
    Totals,
}

/// The narrowest label; other columns are left out before labels get narrower.
const LABEL_MIN: usize = 18;

/// The width of the longest title of the label column.
const TITLE_MIN: usize = 8;

/// The width of the longest known kind.
const KIND_MIN: usize = 7;

/// The longest label, in characters.
const LABEL_MAX: usize = 200;

/// A line of a table.
#[derive(Clone, Debug)]
struct Line {
    label: String,
    /// The length of the target at the end of the label, in bytes.
    accent: usize,
    /// The kind of image; none if it is not known.
    kind: Option<ContentKind>,
    /// Whether the kind of some of them is unknown.
    unsure: bool,
    sizes: Sizes,
    /// Whether the stored size is a share of what is compressed together.
    is_share: bool,
    /// The GPU, and in how many bundles it is served.
    gpu: String,
    served: Option<Served>,
}

/// The text report, a file at a time.
#[derive(Debug)]
pub(super) struct InspectTables {
    rows: TableRows,
    style: Style,
    totals: Totals,
    /// Whether nothing has been printed yet.
    is_silent: bool,
}

impl InspectTables {
    pub(super) fn new(rows: TableRows, style: Style) -> Self {
        Self { rows, style, totals: Totals::default(), is_silent: true }
    }

    /// The text for a file, which may be empty.
    pub(super) fn file(&mut self, file: &FileReport) -> String {
        self.totals.add(file);
        let mut out = String::new();
        let is_told = !file.inspected.bundles.is_empty()
            || file.origin == FileOrigin::Named
            || file.inspected.unread.iter().any(|row| row.what.is_device_code())
            || !file.inspected.references.is_empty();
        if self.rows != TableRows::Totals && is_told {
            file_text(file, self.rows, self.style, &mut out);
        }
        self.is_silent &= out.is_empty();
        out
    }

    /// The text for all files.
    pub(super) fn end(&self) -> String {
        let Self { rows, style, totals, is_silent } = self;
        let mut out = String::new();
        if *rows == TableRows::Totals {
            totals.summary(*style, &mut out);
            return out;
        }
        if totals.groups > 1 {
            totals.table(*style, &mut out);
        }
        if totals.is_unsure {
            line(&mut out, "?: not inflated; use --inflate to see the kind");
        }
        if *is_silent && totals.files > 0 {
            match totals.unread.total() {
                0 => line(&mut out, "no device code found"),
                _ => line(&mut out, &format!("no device code found; not read: {}", totals.unread)),
            }
        }
        out
    }
}

/// The reason why a file has no table.
fn without_table(file: &FileReport) -> Option<&'static str> {
    let Inspected { bundles, problems, unread, references, .. } = &file.inspected;
    match (bundles.is_empty(), problems.is_empty(), unread.is_empty()) {
        (false, ..) => None,
        _ if !references.is_empty() => Some("device code in kpack archives"),
        (true, false, _) => Some("nothing readable"),
        (true, true, true) => Some("no device code"),
        (true, true, false) => Some("no readable device code"),
    }
}

fn file_text(file: &FileReport, rows: TableRows, style: Style, out: &mut String) {
    let name = style.paint("1", &printable(&file.inspected.path.to_string_lossy()));
    if let Some(what) = without_table(file) {
        line(out, &format!("{name}: {what}"));
        references_text(&file.inspected, out);
        return unread_text(&file.inspected, out);
    }
    let Inspected { bundles, .. } = &file.inspected;
    let groups = groups(bundles).map(|group| {
        let coverage = group.first().and_then(|first| file.inspected.coverage_beside(&first.info));
        let mut lines = lines(group, rows);
        tell_served(&mut lines, coverage.filter(|_| rows != TableRows::Each));
        (group, lines)
    });
    let groups: Vec<(&[InspectedBundle], Vec<Line>)> = groups.collect();
    let scale = Scale::of(groups.iter().flat_map(|(_, lines)| lines));
    let mut sizes = Sizes::default();
    bundles.iter().for_each(|bundle| sizes += bundle.sizes());
    let sizes = text_of(&sizes);
    let inflated = bundles.iter().any(|bundle| *bundle.info.place.origin() == Base::Inflated);
    let inflated = if inflated { ", members inflated" } else { "" };
    line(out, &format!("{name}: {}, code objects {sizes}{inflated}", bytes(file.inspected.size)));
    for (bundles, lines) in &groups {
        line(out, &format!("  {}", style.paint("36", &heading(bundles))));
        table(lines, scale, ("ENTRY ID", true), bundles.iter().any(is_compressed), style, out);
    }
    references_text(&file.inspected, out);
    unread_text(&file.inspected, out);
    if groups.len() == 1 {
        incomplete_text(&file.inspected.coverage(), out);
    }
    out.push('\n');
}

/// The longest list of search paths, in characters.
const PATHS_MAX: usize = 500;

/// Lists the references to kpack archives, and whether those exist.
fn references_text(file: &Inspected, out: &mut String) {
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
        line(out, &format!("  {}{found} at {paths}", way(reference.place.steps())));
    }
}

/// The maximum number of unread parts of a file that are listed.
const UNREAD_MAX: usize = 100;

/// Lists the unread parts of a file, each with its place.
fn unread_text(file: &Inspected, out: &mut String) {
    let (listed, others) = file.unread.split_at(file.unread.len().min(UNREAD_MAX));
    for part in listed {
        line(out, &format!("  {}not read: {}", way(part.place.steps()), part.what.name()));
    }
    if !others.is_empty() {
        let mut kinds = Kinds::default();
        others.iter().for_each(|part| kinds.add(part.what.name(), 1));
        line(out, &format!("  not read, too: {kinds}"));
    }
}

/// The inflated size of code objects, and the stored one if it is another.
fn text_of(sizes: &Sizes) -> String {
    match sizes.stored == sizes.size {
        true => bytes(sizes.size),
        false => format!("{}, stored in {}", bytes(sizes.size), bytes(sizes.stored)),
    }
}

/// The sizes that shares and bars are relative to.
#[derive(Clone, Copy, Debug)]
struct Scale {
    whole: u64,
    largest: u64,
}

impl Scale {
    fn of<'l>(lines: impl Iterator<Item = &'l Line>) -> Self {
        lines.fold(Self { whole: 0, largest: 0 }, |scale, line| Self {
            whole: scale.whole.saturating_add(line.sizes.stored),
            largest: scale.largest.max(line.sizes.stored),
        })
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
        let stored = group.iter().map(InspectedBundle::stored).fold(0, u64::saturating_add);
        write!(text, ", {} in {}", recorded.method.name(), bytes(stored)).unwrap_or_default();
    }
    let codecs: BTreeSet<&str> = group.iter().flat_map(InspectedBundle::codecs).map(Codec::name).collect();
    if !codecs.is_empty() {
        let is_whole = group.iter().all(|bundle| bundle.codecs().count() == bundle.code_objects.len());
        let names = codecs.into_iter().collect::<Vec<_>>().join(" and ");
        write!(text, ", {}{names}", if is_whole { "" } else { "partly " }).unwrap_or_default();
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
fn incomplete_text(coverage: &Coverage, out: &mut String) {
    let Some(mut gpus) = coverage.gpus() else {
        return line(out, "  too many GPUs and bundles to tell which bundles serve which GPU");
    };
    sort_by_need(&mut gpus);
    let incomplete: Vec<_> = gpus.iter().filter(|(_, served)| !served.is_complete()).collect();
    let mut listed: Vec<String> =
        incomplete.iter().take(INCOMPLETE_MAX).map(|(gpu, served)| format!("{gpu} ({served})")).collect();
    let more = incomplete.len().saturating_sub(INCOMPLETE_MAX);
    listed.extend((more > 0).then(|| format!("{more} more")));
    if !listed.is_empty() {
        line(out, &format!("  not served by all bundles: {}", printable(&listed.join(", "))));
    }
}

fn lines(group: &[InspectedBundle], rows: TableRows) -> Vec<Line> {
    let (code_objects, mut targets) = (group.iter().flat_map(|bundle| &bundle.code_objects), Targets::default());
    merged(code_objects.map(|code_object| (&*code_object.id, Line::new(code_object, rows, &mut targets))), rows)
}

/// The lines for code objects, which have their IDs.
fn merged<'i>(code_objects: impl Iterator<Item = (&'i [u8], Line)>, rows: TableRows) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    let mut known: HashMap<&[u8], Vec<usize>> = HashMap::new();
    for (id, line) in code_objects {
        let same_id = known.entry(id).or_default();
        let takes =
            |index: &&usize| rows != TableRows::Each && lines.get(**index).is_some_and(|other| other.takes(&line));
        match same_id.iter().find(takes).and_then(|&index| lines.get_mut(index)) {
            Some(same) => same.add(&line),
            None => {
                same_id.push(lines.len());
                lines.push(line);
            }
        }
    }
    lines
}

/// Adds to each line in how many bundles its GPU is served, if there are several bundles.
fn tell_served(lines: &mut [Line], coverage: Option<&Coverage>) {
    let several = coverage.filter(|coverage| coverage.bundles() > 1);
    let Some(gpus) = several.and_then(Coverage::gpus) else { return };
    let known: HashMap<&str, Served> = gpus.iter().map(|(gpu, served)| (gpu.name(), *served)).collect();
    for line in lines {
        // In offload binaries, PTX is called like a GPU.
        let ptx = || line.gpu.strip_prefix("sm_").map(|sm| format!("compute_{sm}"));
        line.served = known.get(line.gpu.as_str()).or_else(|| known.get(ptx()?.as_str())).copied();
    }
}

/// The targets of code objects, by their IDs: to parse an ID takes longer than all else that a line needs.
#[derive(Default)]
struct Targets<'c>(HashMap<(&'c [u8], Format), String>);

impl<'c> Targets<'c> {
    fn of(&mut self, code_object: &'c CodeObject) -> String {
        let target = self.0.entry((&code_object.id, code_object.bundle.format)).or_insert_with(|| code_object.target());
        target.clone()
    }
}

impl Line {
    fn new<'c>(code_object: &'c CodeObject, rows: TableRows, targets: &mut Targets<'c>) -> Self {
        let (bundle, kind) = (&code_object.bundle, code_object.kind);
        let id = printable_start(&code_object.shown_id(), LABEL_MAX);
        let label = match rows {
            TableRows::Grouped | TableRows::Totals => id,
            TableRows::Each => match bundle.place.steps().last().filter(|_| bundle.format == Format::Kpack) {
                Some(key) => format!("{key}  {id}"),
                None => format!("{:>5}  {id}", bundle.index),
            },
        };
        let gpu = targets.of(code_object);
        let accent = if label.ends_with(&gpu) { gpu.len() } else { 0 };
        let is_packed_with_others = || code_object.packed.as_ref().is_some_and(|packed| packed.is_shared());
        let is_share = bundle.compressed.is_some() || is_packed_with_others();
        let (sizes, unsure) = (code_object.sizes(), kind.is_none());
        Self { label, accent, kind, unsure, sizes, is_share, gpu, served: None }
    }

    fn add(&mut self, more: &Self) {
        self.kind = self.kind.or(more.kind);
        self.unsure |= more.unsure;
        self.sizes += more.sizes;
        self.is_share |= more.is_share;
    }

    /// Whether two lines with the same ID are merged. A code object that was not inflated far enough to determine its
    /// kind is assumed to have the kind of the others, but not to be empty: sizes are always known.
    fn takes(&self, other: &Self) -> bool {
        match (self.kind, other.kind) {
            (None, Some(kind)) | (Some(kind), None) => kind != ContentKind::Empty,
            (one, other) => one == other,
        }
    }

    fn stored_text(&self, style: Style) -> String {
        let about = if style.unicode { "≈ " } else { "~" };
        format!("{}{}", if self.is_share { about } else { "" }, bytes(self.sizes.stored))
    }

    fn kind(&self) -> String {
        let doubt = if self.unsure { "?" } else { "" };
        self.kind.map_or("", ContentKind::name).to_owned() + doubt
    }
}

/// Adds a table. `title` is that of the labels, after which the kinds follow if `has_kinds`.
fn table<'l>(
    lines: impl IntoIterator<Item = &'l Line> + Clone,
    scale: Scale,
    (title, has_kinds): (&'static str, bool),
    is_compressed: bool,
    style: Style,
    out: &mut String,
) {
    let has_served = lines.clone().into_iter().any(|line| line.served.is_some_and(|served| served.bundles > 1));
    let label = Column { fit: Fit::Shortened(LABEL_MIN), width: TITLE_MIN, ..Column::name(title) };
    let kind = has_kinds.then(|| Column { width: KIND_MIN, fit: Fit::LeftOut(3), ..Column::label("IMAGE") });
    let stored = is_compressed.then(|| Column { gap: 0, width: 11, fit: Fit::LeftOut(2), ..Column::number("STORED") });
    let count = Column { gap: 1, width: 6, fit: Fit::LeftOut(1), ..Column::number("COUNT") };
    let size = Column { gap: 1, width: 9, fit: Fit::Stays, ..Column::number("SIZE") };
    let served = has_served.then(|| Column::number("SERVED"));
    let share = Column { gap: 1, width: 7, fit: Fit::Stays, ..Column::number("SHARE") };
    let bar = Column { fit: Fit::Bar, width: BAR, ..Column::label("") };
    let columns = [Some(label), kind, Some(count), Some(size), stored, served, Some(share), Some(bar)];
    let table = Table { indent: 4, columns: columns.into_iter().flatten().collect() };
    let cells = |line: &Line| {
        let kind = has_kinds.then(|| line.kind());
        let stored = is_compressed.then(|| line.stored_text(style));
        let served = has_served.then(|| line.served.as_ref().map(Served::to_string).unwrap_or_default());
        let share = percent(line.sizes.stored, scale.whole);
        let texts = [
            kind,
            Some(line.sizes.code_objects.to_string()),
            Some(bytes(line.sizes.size)),
            stored,
            served,
            Some(share),
        ];
        let label = Cell::Ending { text: line.label.clone(), accent: line.accent };
        let bar = Cell::Bar { part: line.sizes.stored, whole: scale.largest };
        [label].into_iter().chain(texts.into_iter().flatten().map(Cell::Text)).chain([bar]).collect()
    };
    let rows: Vec<Vec<Cell>> = lines.into_iter().map(cells).collect();
    table.lines(|| rows.iter(), style).for_each(|text| line(out, &text));
}

/// The totals of all files.
#[derive(Debug, Default)]
struct Totals {
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
    lines: Vec<Line>,
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
    fn add(&mut self, file: &FileReport) {
        self.files += 1;
        let FileReport { inspected: Inspected { bundles, unread, references, problems, .. }, .. } = file;
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
        self.coverage.merge(&file.inspected.coverage());
        let mut targets = Targets::default();
        for bundle in bundles {
            self.sizes += bundle.sizes();
            self.is_compressed |= is_compressed(bundle);
            let line = |code_object| Line::new(code_object, TableRows::Totals, &mut targets);
            bundle.code_objects.iter().map(line).for_each(|line| self.add_line(line));
        }
    }

    fn add_line(&mut self, line: Line) {
        self.is_unsure |= line.unsure;
        let name = if self.lines.len() < GPUS_MAX { &line.gpu } else { "others" };
        let label = printable_start(name, LABEL_MAX);
        let line = Line { label, ..line };
        let index = *self.known.entry(line.label.clone()).or_insert(self.lines.len());
        match self.lines.get_mut(index) {
            Some(same) => same.add(&line),
            None => self.lines.push(line),
        }
    }

    /// Adds the table, one line for each GPU, largest first.
    fn table(&self, style: Style, out: &mut String) {
        let mut lines = self.lines.clone();
        tell_served(&mut lines, Some(&self.coverage));
        lines.sort_by_key(|line| Reverse(line.sizes.stored));
        let scale = Scale::of(lines.iter());
        let objects = count(self.sizes.code_objects, "code object", "code objects");
        let files = count(self.files_with_bundles, "file", "files");
        line(out, &style.paint("1", &format!("Total: {objects} in {files}, {}", text_of(&self.sizes))));
        table(&lines, scale, ("GPU", false), self.is_compressed, style, out);
        incomplete_text(&self.coverage, out);
    }

    /// Adds the table, and the numbers of files without device code, files without anything readable, and files with
    /// unread parts.
    fn summary(&self, style: Style, out: &mut String) {
        if self.files_with_bundles > 0 {
            self.table(style, out);
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
        lines.iter().filter(|(is_shown, _)| *is_shown).for_each(|(_, text)| line(out, text));
    }
}

/// Adds a line without trailing spaces.
fn line(out: &mut String, text: &str) {
    out.push_str(text.trim_end());
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use offload_bundle::scan::{Finding, Scan};
    use unicode_width::UnicodeWidthStr;

    use super::*;

    fn row(label: &str, accent: usize) -> Line {
        let mut sizes = Sizes::default();
        (sizes.code_objects, sizes.size, sizes.stored) = (1, 1, 1);
        Line {
            label: label.into(),
            accent,
            gpu: String::new(),
            served: None,
            kind: Some(ContentKind::Elf),
            unsure: false,
            sizes,
            is_share: true,
        }
    }

    /// The lines of a table with these labels in a terminal of this width.
    fn shown(labels: &[&str], width: usize, compressed: bool, unicode: bool) -> Vec<String> {
        let lines: Vec<Line> = labels.iter().map(|label| row(label, 6.min(label.len()))).collect();
        let (scale, style) = (Scale::of(lines.iter()), Style { color: false, unicode, width: Some(width) });
        let mut out = String::new();
        table(&lines, scale, ("ENTRY ID", true), compressed, style, &mut out);
        out.lines().map(str::to_owned).collect()
    }

    #[test]
    fn no_line_of_a_table_is_wider_than_the_terminal() {
        let long = "hipv4-amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-".repeat(4);
        for label in
            ["gfx90a", "hipv4-amdgcn-amd-amdhsa--gfx90a", &long, "目标目标目标目标目标gfx90a", "e\u{301}gfx90a"]
        {
            for width in 34..140 {
                for (compressed, unicode) in [(false, true), (true, true), (true, false)] {
                    let lines = shown(&[label, "host"], width, compressed, unicode);
                    assert!(lines.iter().all(|line| line.width() <= width), "{width}: {lines:#?}");
                    assert!(lines[1].contains("gfx90a") || label == long, "{width}: {lines:#?}");
                    assert!(lines[0].ends_with("SHARE") && lines[1].contains("50.0 %"), "{width}: {lines:#?}");
                }
            }
        }
    }

    #[test]
    fn what_is_narrow_loses_the_bar_then_the_middle_of_the_label_then_columns() {
        let id = "hipv4-amdgcn-amd-amdhsa--gfx90a";
        let second = |width| shown(&[id], width, false, true).swap_remove(1);
        assert!(second(200).ends_with(&format!("  {}", "█".repeat(24))));
        assert!(second(80).ends_with(&format!("100.0 %  {}", "█".repeat(9))), "{}", second(80));
        assert_eq!(second(70), format!("    {id}  ELF          1       1 B 100.0 %"));
        assert_eq!(second(60), "    hipv4-amdgcn-…--gfx90a  ELF          1       1 B 100.0 %");
        assert_eq!(second(50), "    hipv4-amdgcn…--gfx90a      1       1 B 100.0 %");
        assert_eq!(second(40), "    hipv4-amd…--gfx90a       1 B 100.0 %");
    }

    /// A bundle with an empty code object.
    fn code_object() -> CodeObject {
        let id = b"hipv4-amdgcn-amd-amdhsa--gfx90a";
        let numbers = [1, 0, 0, 31].map(u64::to_le_bytes).concat();
        let data = [&b"__CLANG_OFFLOAD_BUNDLE__"[..], &numbers, id].concat();
        let mut known = None;
        let mut visit = |finding: Finding<'_>| {
            if let Finding::Bundle(found) = finding {
                let info = found.info()?;
                known = found.code_objects().next().map(|code_object| code_object.known(&info));
            }
            Ok(())
        };
        Scan::default().run(&data, &mut visit).unwrap();
        known.unwrap()
    }

    /// A code object: its kind, and whether it was not inflated far enough to determine that.
    type Code = (ContentKind, bool);

    /// All sequences of up to `len` code objects.
    fn sequences(len: usize) -> Vec<Vec<Code>> {
        use ContentKind::{Elf, Empty, SpirV};
        let codes = [(Empty, false), (Elf, false), (Elf, true), (SpirV, false), (SpirV, true)];
        let mut sequences = vec![vec![]];
        let mut from = 0;
        for _ in 0..len {
            let to = sequences.len();
            for index in from..to {
                sequences.extend(codes.map(|code| [&sequences[index][..], &[code]].concat()));
            }
            from = to;
        }
        sequences
    }

    #[test]
    fn partial_knowledge_adds_no_rows_and_loses_no_code_objects() {
        let known = code_object();
        for sequence in sequences(5) {
            let rows = |inflated: bool| {
                let line = |(number, &(kind, is_hidden)): (usize, &Code)| {
                    let mut code_object = known.clone();
                    code_object.kind = (inflated || !is_hidden).then_some(kind);
                    // A sum of sizes says which code objects are in it.
                    code_object.size = if kind == ContentKind::Empty { 0 } else { 1 << number };
                    Line::new(&code_object, TableRows::Grouped, &mut Targets::default())
                };
                let lines: Vec<Line> = sequence.iter().enumerate().map(line).collect();
                let mut totals = Totals::default();
                lines.iter().for_each(|line| totals.add_line(line.clone()));
                (merged(lines.into_iter().map(|line| (&*known.id, line)), TableRows::Grouped), totals.lines)
            };
            let ((partial, partial_totals), (complete, totals)) = (rows(false), rows(true));
            assert!(partial.len() <= complete.len(), "{sequence:?}: {partial:?}, {complete:?}");
            let sums = |lines: &[Line]| {
                lines.iter().fold((0, 0, 0), |(count, size, stored), line| {
                    (count + line.sizes.code_objects, size + line.sizes.size, stored + line.sizes.stored)
                })
            };
            for lines in [&partial, &totals, &partial_totals] {
                assert_eq!(sums(lines), sums(&complete), "{sequence:?}");
            }
            assert!(totals.len() <= 1 && partial_totals.len() == totals.len(), "{sequence:?}");
            // Sizes are always known, so empty code objects are not mixed with others.
            let empty = |lines: &[Line]| {
                let empty = lines.iter().find(|line| line.kind == Some(ContentKind::Empty));
                empty.map(|line| (line.kind(), line.sizes.code_objects, line.sizes.size))
            };
            assert_eq!(empty(&partial), empty(&complete), "{sequence:?}");
            let hides = sequence.iter().any(|&(_, is_hidden)| is_hidden);
            assert_eq!(partial.iter().any(|line| line.kind().ends_with('?')), hides, "{sequence:?}");
        }
    }

    #[test]
    fn wide_characters_take_two_columns() {
        let lines = shown(&["目标", "ab"], 200, false, true);
        assert_eq!(lines[1].split("ELF").next().map(UnicodeWidthStr::width), Some(14), "{lines:#?}");
        assert_eq!(lines[2].split("ELF").next().map(UnicodeWidthStr::width), Some(14), "{lines:#?}");
    }
}

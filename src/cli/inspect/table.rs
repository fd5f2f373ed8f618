//! The text report of `inspect`: a table for each place, and the totals for each GPU.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::fmt::{self, Write};

use offload_bundle::container::Codec;
use offload_bundle::display::{printable, printable_start};
use offload_bundle::job::{Inspected, InspectedBundle};
use offload_bundle::runtime::{Coverage, Served};
use offload_bundle::scan::{CodeObject, ContentKind, Format, Origin as Base, Step};
use unicode_width::UnicodeWidthStr;

use super::report::{FileReport, sort_by_need};
use crate::cli::files::FileOrigin;
use crate::cli::print::table::Style;
use crate::cli::print::units::{Kinds, bytes, count, per_mille, percent};

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

/// The width of the indentation and of the shares together.
const FIXED: usize = 12;

/// The space before a bar.
const BAR_GAP: usize = 2;

/// The widths of the longest and of the shortest useful bar.
const BAR: usize = 24;
const BAR_MIN: usize = 4;

/// The narrowest label; other columns are dropped before labels get narrower.
const LABEL_MIN: usize = 18;

/// The width of the longest known kind.
const KIND_MIN: usize = 7;

/// The width of the title of the column of served bundles.
const SERVED_MIN: usize = 6;

/// The width of the longest title of the label column.
const TITLE_MIN: usize = 8;

impl Style {
    fn bar(self, part: u64, whole: u64, width: usize) -> String {
        let cells = u64::try_from(width).unwrap_or_default();
        let eighths = per_mille(part, whole).saturating_mul(cells * 8).div_ceil(1000);
        let full = usize::try_from(eighths / 8).unwrap_or_default();
        if !self.unicode {
            return "#".repeat(full.max(usize::from(part > 0)).min(width));
        }
        let rest = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
        let rest = usize::try_from(eighths % 8).ok().and_then(|index| rest.get(index)).copied().unwrap_or_default();
        "█".repeat(full) + rest
    }

    /// The label of a line, padded to `width`, with everything except the target ID dimmed.
    fn label(self, line: &Line, width: usize) -> String {
        // The end names the target.
        let target = line.label.len().checked_sub(line.accent).and_then(|at| line.label.get(at..)).unwrap_or_default();
        let tail = if target.is_empty() { width.saturating_sub(1) / 2 } else { target.width().saturating_add(2) };
        let (label, end) = self.elided(&line.label, width, tail);
        let accent = line.accent.min(end);
        let padding = " ".repeat(width.saturating_sub(label.width()));
        match label.len().checked_sub(accent).and_then(|at| label.split_at_checked(at)) {
            Some((before, accent)) if !before.is_empty() && !accent.is_empty() => {
                format!("{}{}{padding}", self.paint("2", before), self.paint("1", accent))
            }
            _ => format!("{label}{padding}"),
        }
    }
}

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
    count: usize,
    size: u64,
    stored: u64,
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
    let mut sizes = SizePair::default();
    bundles.iter().for_each(|bundle| sizes.add(bundle));
    let inflated = bundles.iter().any(|bundle| *bundle.info.place.origin() == Base::Inflated);
    let inflated = if inflated { ", members inflated" } else { "" };
    line(out, &format!("{name}: {}, code objects {sizes}{inflated}", bytes(file.inspected.size)));
    for (bundles, lines) in &groups {
        line(out, &format!("  {}", style.paint("36", &heading(bundles))));
        let mut columns = vec![Column::Kind, Column::Count, Column::Size];
        columns.extend(bundles.iter().any(is_compressed).then_some(Column::Stored));
        table(lines, scale, columns, style, out);
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

/// The inflated and the stored size of code objects, in bytes.
#[derive(Clone, Copy, Debug, Default)]
struct SizePair {
    inflated: u64,
    stored: u64,
}

impl SizePair {
    fn add(&mut self, bundle: &InspectedBundle) {
        self.inflated = self.inflated.saturating_add(bundle.info.size);
        self.stored = self.stored.saturating_add(bundle.stored());
    }
}

impl fmt::Display for SizePair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.stored == self.inflated {
            true => f.write_str(&bytes(self.inflated)),
            false => write!(f, "{}, stored in {}", bytes(self.inflated), bytes(self.stored)),
        }
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
            whole: scale.whole.saturating_add(line.stored),
            largest: scale.largest.max(line.stored),
        })
    }
}

/// A column between the labels and the shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Kind,
    Count,
    Size,
    Stored,
    Served,
}

impl Column {
    fn title(self) -> &'static str {
        match self {
            Self::Kind => "IMAGE",
            Self::Count => "COUNT",
            Self::Size => "SIZE",
            Self::Stored => "STORED",
            Self::Served => "SERVED",
        }
    }

    fn text(self, line: &Line, style: Style) -> String {
        match self {
            Self::Kind => line.kind(),
            Self::Count => line.count.to_string(),
            Self::Size => bytes(line.size),
            Self::Stored if !line.is_share => bytes(line.stored),
            Self::Served => line.served.as_ref().map(Served::to_string).unwrap_or_default(),
            Self::Stored => format!("{}{}", if style.unicode { "≈ " } else { "~" }, bytes(line.stored)),
        }
    }

    /// A text with the padding of this column.
    fn padded(self, text: &str, Widths { kind, served }: Widths) -> String {
        match self {
            Self::Kind => format!("  {text:<kind$}"),
            Self::Served => format!("  {text:>served$}"),
            Self::Count => format!(" {text:>6}"),
            Self::Size => format!(" {text:>9}"),
            Self::Stored => format!("{text:>11}"),
        }
    }
}

/// The widths of columns that depend on what they hold.
#[derive(Clone, Copy, Debug)]
struct Widths {
    kind: usize,
    served: usize,
}

/// The columns that fit, and their widths.
#[derive(Debug)]
struct Layout {
    columns: Vec<Column>,
    label: usize,
    widths: Widths,
    bar: usize,
}

impl Layout {
    /// Fits a table to the terminal: first bars get shorter, then they are dropped, then labels are elided and the
    /// least important columns dropped.
    fn new(mut columns: Vec<Column>, label: usize, widths: Widths, style: Style) -> Self {
        let Some(width) = style.width else { return Self { columns, label, widths, bar: BAR } };
        let width = width.saturating_sub(widths.kind.saturating_sub(KIND_MIN));
        let room = |columns: &[Column]| {
            let widths = columns.iter().map(|column| column.padded("", Widths { kind: KIND_MIN, ..widths }).len());
            width.saturating_sub(FIXED + widths.sum::<usize>())
        };
        let bar = room(&columns).saturating_sub(label).saturating_sub(BAR_GAP).min(BAR);
        if bar >= BAR_MIN {
            return Self { columns, label, widths, bar };
        }
        for dropped in [Column::Kind, Column::Stored, Column::Count, Column::Served] {
            if room(&columns) < label.min(LABEL_MIN) {
                columns.retain(|column| *column != dropped);
            }
        }
        let label = label.min(room(&columns).max(TITLE_MIN));
        Self { columns, label, widths, bar: 0 }
    }

    /// The columns of a line, with the text of each.
    fn cells(&self, text: impl Fn(Column) -> String) -> String {
        self.columns.iter().map(|&column| column.padded(&text(column), self.widths)).collect()
    }

    fn row(&self, row: &Line, scale: Scale, style: Style) -> String {
        let label = style.label(row, self.label);
        let cells = self.cells(|column| column.text(row, style));
        let share = percent(row.stored, scale.whole);
        let bar = style.paint("32", &style.bar(row.stored, scale.largest, self.bar));
        format!("    {label}{cells} {share:>7}  {bar}")
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
        let (size, stored, unsure) = (code_object.size, code_object.stored(), kind.is_none());
        Self { label, accent, kind, unsure, count: 1, size, stored, is_share, gpu, served: None }
    }

    fn add(&mut self, more: &Self) {
        self.kind = self.kind.or(more.kind);
        self.unsure |= more.unsure;
        self.count += more.count;
        self.size = self.size.saturating_add(more.size);
        self.stored = self.stored.saturating_add(more.stored);
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

    fn kind(&self) -> String {
        let doubt = if self.unsure { "?" } else { "" };
        self.kind.map_or("", ContentKind::name).to_owned() + doubt
    }
}

fn table<'l>(
    lines: impl IntoIterator<Item = &'l Line> + Clone,
    scale: Scale,
    mut columns: Vec<Column>,
    style: Style,
    out: &mut String,
) {
    let served = || lines.clone().into_iter().filter_map(|line| line.served);
    columns.extend(served().any(|served| served.bundles > 1).then_some(Column::Served));
    let widest = |width: fn(&Line) -> usize| lines.clone().into_iter().map(width).max().unwrap_or(0);
    let (label, kind) = (widest(|line| line.label.width()), widest(|line| line.kind().len()));
    let served = served().map(|served| served.to_string().len()).max().unwrap_or(0);
    let widths = Widths { kind: kind.max(KIND_MIN), served: served.max(SERVED_MIN) };
    let title = if columns.contains(&Column::Kind) { "ENTRY ID" } else { "GPU" };
    let layout = Layout::new(columns, label.max(TITLE_MIN), widths, style);
    let (label, cells) = (layout.label, layout.cells(|column| column.title().to_owned()));
    line(out, &style.paint("2", &format!("    {title:<label$}{cells}   SHARE")));
    lines.into_iter().for_each(|row| line(out, &layout.row(row, scale, style)));
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
    sizes: SizePair,
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
            self.sizes.add(bundle);
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
        lines.sort_by_key(|line| Reverse(line.stored));
        let scale = Scale::of(lines.iter());
        let objects: usize = lines.iter().map(|line| line.count).sum();
        let objects = count(objects, "code object", "code objects");
        let files = count(self.files_with_bundles, "file", "files");
        line(out, &style.paint("1", &format!("Total: {objects} in {files}, {}", self.sizes)));
        let mut columns = vec![Column::Count, Column::Size];
        columns.extend(self.is_compressed.then_some(Column::Stored));
        table(&lines, scale, columns, style, out);
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
        if self.files_without_device_code > 0 || is_empty {
            line(out, &format!("No device code in {}", files(self.files_without_device_code)));
        }
        if self.files_broken > 0 {
            line(out, &format!("Nothing readable in {}", files(self.files_broken)));
        }
        if self.files_split > 0 {
            line(out, &format!("Device code of {} in kpack archives", files(self.files_split)));
        }
        if self.files_with_missing > 0 {
            line(out, &format!("No code found in kpack archives for {}", files(self.files_with_missing)));
        }
        if self.files_with_unread > 0 {
            line(out, &format!("Not read in {}: {}", files(self.files_with_unread), self.unread));
        }
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

    use super::*;

    fn style(color: bool, unicode: bool) -> Style {
        Style { color, unicode, width: None }
    }

    fn row(label: &str, accent: usize) -> Line {
        Line {
            label: label.into(),
            accent,
            gpu: String::new(),
            served: None,
            kind: Some(ContentKind::Elf),
            unsure: false,
            count: 1,
            size: 1,
            stored: 1,
            is_share: true,
        }
    }

    #[test]
    fn the_target_id_stands_out_in_colour_and_labels_are_padded() {
        let (plain, color) = (style(false, true), style(true, true));
        let gpu = row("hip-amdgcn-amd-amdhsa--gfx90a", 6);
        assert_eq!(plain.label(&gpu, 31), "hip-amdgcn-amd-amdhsa--gfx90a  ");
        assert_eq!(color.label(&gpu, 30), "\x1b[2mhip-amdgcn-amd-amdhsa--\x1b[0m\x1b[1mgfx90a\x1b[0m ");
        for (label, accent) in [("host-x86_64-linux", 0), ("gfx90a", 6), ("é", 1), ("short", 9)] {
            assert_eq!(color.label(&row(label, accent), label.width()), label);
        }
    }

    /// The lines of a table with these labels in a terminal of this width.
    fn shown(labels: &[&str], width: usize, compressed: bool, unicode: bool) -> Vec<String> {
        let lines: Vec<Line> = labels.iter().map(|label| row(label, 6.min(label.len()))).collect();
        let (scale, style) = (Scale::of(lines.iter()), Style { color: false, unicode, width: Some(width) });
        let mut out = String::new();
        let mut columns = vec![Column::Kind, Column::Count, Column::Size];
        columns.extend(compressed.then_some(Column::Stored));
        table(&lines, scale, columns, style, &mut out);
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
                    (count + line.count, size + line.size, stored + line.stored)
                })
            };
            for lines in [&partial, &totals, &partial_totals] {
                assert_eq!(sums(lines), sums(&complete), "{sequence:?}");
            }
            assert!(totals.len() <= 1 && partial_totals.len() == totals.len(), "{sequence:?}");
            // Sizes are always known, so empty code objects are not mixed with others.
            let empty = |lines: &[Line]| {
                let empty = lines.iter().find(|line| line.kind == Some(ContentKind::Empty));
                empty.map(|line| (line.kind(), line.count, line.size))
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

    #[test]
    fn bars_reach_as_far_as_the_part() {
        let (unicode, ascii) = (style(false, true), style(false, false));
        assert_eq!((unicode.bar(10, 10, BAR), ascii.bar(10, 10, BAR)), ("█".repeat(24), "#".repeat(24)));
        assert_eq!((unicode.bar(1, 2, BAR), ascii.bar(1, 2, BAR)), ("█".repeat(12), "#".repeat(12)));
        assert_eq!((unicode.bar(1, 1000, BAR), ascii.bar(1, 1000, BAR)), ("▏".to_owned(), "#".to_owned()));
        assert_eq!((unicode.bar(0, 10, BAR), ascii.bar(0, 0, BAR)), (String::new(), String::new()));
    }
}

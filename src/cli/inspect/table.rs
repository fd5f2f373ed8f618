//! The report for people: a table for each place, and the totals for each GPU.

use std::collections::HashMap;
use std::fmt::Write;

use offload_bundle::error::printable;
use offload_bundle::scan::{ContentKind, Format, Origin as Base, Place, Step};

use super::report::{BundleRow, FileReport, Report, Row};
use crate::cli::files::Origin;
use crate::cli::units::{Kinds, bytes, count, per_mille};

/// What gets a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rows {
    /// All code objects of a place that have the same ID.
    Grouped,
    /// Every code object.
    Each,
}

/// What the terminal can show.
#[derive(Clone, Copy, Debug)]
pub(super) struct Style {
    color: bool,
    unicode: bool,
}

/// The width of a bar in characters.
const BAR: u64 = 24;

impl Style {
    /// The style for `--color=when` and where the table goes.
    pub(super) fn new(when: &str, terminal: bool) -> Self {
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let dumb = set("TERM").is_some_and(|term| term == "dumb");
        let color = match when {
            "always" => true,
            "never" => false,
            _ => terminal && set("NO_COLOR").is_none() && !dumb,
        };
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set);
        let utf8 = |locale: std::ffi::OsString| {
            let name = locale.to_string_lossy().to_ascii_lowercase();
            name.contains("utf-8") || name.contains("utf8")
        };
        Self { color, unicode: locale.is_none_or(utf8) }
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.color && !text.is_empty() { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    fn bar(self, part: u64, whole: u64) -> String {
        let eighths = per_mille(part, whole).saturating_mul(BAR * 8).div_ceil(1000);
        let full = usize::try_from(eighths / 8).unwrap_or_default();
        if !self.unicode {
            return "#".repeat(full.max(usize::from(part > 0)));
        }
        let rest = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
        let rest = usize::try_from(eighths % 8).ok().and_then(|index| rest.get(index)).copied().unwrap_or_default();
        "█".repeat(full) + rest
    }

    /// The label of a line, padded, and all of it but the target ID dimmed.
    fn label(self, line: &Line, width: usize) -> String {
        let label = &line.label;
        let padding = " ".repeat(width.saturating_sub(label.chars().count()));
        match label.len().checked_sub(line.accent).and_then(|at| label.split_at_checked(at)) {
            Some((before, accent)) if !before.is_empty() && !accent.is_empty() => {
                format!("{}{}{padding}", self.paint("2", before), self.paint("1", accent))
            }
            _ => format!("{label}{padding}"),
        }
    }

    fn about(self) -> &'static str {
        if self.unicode { "≈ " } else { "~" }
    }
}

/// The longest label, in characters.
const LABEL_MAX: usize = 200;

/// A line of a table.
#[derive(Debug)]
struct Line {
    label: String,
    /// How many of the last bytes of the label say who the code object is for.
    accent: usize,
    /// What kind of image, as far as it is known.
    kind: Option<&'static str>,
    /// Whether there are some among them whose kind is not known.
    unsure: bool,
    count: usize,
    size: u64,
    stored: u64,
}

/// The whole report.
pub(super) fn text(report: &Report, rows: Rows, style: Style) -> String {
    let mut out = String::new();
    let is_told = |file: &&FileReport| {
        !file.bundles.is_empty()
            || file.origin == Origin::Named
            || file.unread.iter().any(|row| row.what.is_device_code())
    };
    let shown = report.files.iter().filter(is_told);
    shown.for_each(|file| file_text(file, rows, style, &mut out));
    let found: Vec<&BundleRow> = report.files.iter().flat_map(|file| &file.bundles).collect();
    let places = groups(&found).len();
    if places > 1 {
        totals(report, &found, style, &mut out);
    }
    let unknown = |bundle: &&BundleRow| bundle.code_objects.iter().any(|row| row.content.is_none());
    if found.iter().any(unknown) {
        line(&mut out, "?: not inflated that far; --inflate shows it");
    }
    if found.is_empty() && !report.files.is_empty() && out.is_empty() {
        let unread: Vec<&str> = report.files.iter().flat_map(|file| &file.unread).map(|row| row.what.name()).collect();
        match unread.is_empty() {
            true => out.push_str("no device code found\n"),
            false => line(&mut out, &format!("no device code found; not read: {}", Kinds::from_iter(unread))),
        }
    }
    out
}

fn file_text(file: &FileReport, rows: Rows, style: Style, out: &mut String) {
    let name = style.paint("1", &printable(&file.path.to_string_lossy()));
    if file.bundles.is_empty() {
        let what = match (file.problems.is_empty(), file.unread.is_empty()) {
            (false, _) => "nothing that can be read",
            (true, true) => "no device code",
            (true, false) => "no device code that can be read",
        };
        line(out, &format!("{name}: {what}"));
        return unread_text(file, out);
    }
    let bundles: Vec<&BundleRow> = file.bundles.iter().collect();
    let groups: Vec<Group<'_>> = groups(&bundles).into_iter().map(|bundles| Group::new(bundles, rows)).collect();
    let scale = Scale::of(groups.iter().flat_map(|group| &group.lines));
    let sizes = sizes(bundles.iter().copied());
    let inflated = bundles.iter().any(|bundle| *bundle.place.origin() == Base::Inflated);
    let inflated = if inflated { ", members inflated" } else { "" };
    line(out, &format!("{name}: {}, code objects {sizes}{inflated}", bytes(file.size)));
    for Group { bundles, lines } in groups {
        line(out, &format!("  {}", style.paint("36", &heading(&bundles))));
        let compressed = bundles.iter().any(|bundle| bundle.compressed.is_some());
        table(&lines, scale, Columns { kind: true, compressed }, style, out);
    }
    unread_text(file, out);
    out.push('\n');
}

/// How many parts of a file that are not read get a line.
const UNREAD_MAX: usize = 100;

/// What is in a file and not read: each part with its place.
fn unread_text(file: &FileReport, out: &mut String) {
    for row in file.unread.iter().take(UNREAD_MAX) {
        let name = row.what.name();
        match way(&row.place) {
            way if way.is_empty() => line(out, &format!("  not read: {name}")),
            way => line(out, &format!("  {way}: not read: {name}")),
        }
    }
    if file.unread.len() > UNREAD_MAX {
        let kinds: Kinds = file.unread.iter().skip(UNREAD_MAX).map(|row| row.what.name()).collect();
        line(out, &format!("  not read, too: {kinds}"));
    }
}

/// How large code objects are, and how much they take where they are compressed.
fn sizes<'r>(bundles: impl Iterator<Item = &'r BundleRow>) -> String {
    let (mut size, mut stored) = (0_u64, 0_u64);
    for bundle in bundles {
        size = size.saturating_add(bundle.size());
        stored = stored.saturating_add(if bundle.compressed.is_some() { bundle.stored() } else { bundle.size() });
    }
    match stored == size {
        true => bytes(size),
        false => format!("{}, stored in {}", bytes(size), bytes(stored)),
    }
}

/// Bundles that share a heading, and what stands below it.
struct Group<'r> {
    bundles: Vec<&'r BundleRow>,
    lines: Vec<Line>,
}

impl<'r> Group<'r> {
    fn new(bundles: Vec<&'r BundleRow>, rows: Rows) -> Self {
        let lines = lines(&bundles, rows);
        Self { bundles, lines }
    }
}

/// What shares and bars are measured by.
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

/// Which columns a table has besides those that all have.
#[derive(Clone, Copy, Debug)]
struct Columns {
    kind: bool,
    compressed: bool,
}

/// The bundles by place, format and whether they are compressed.
fn groups<'r>(bundles: &[&'r BundleRow]) -> Vec<Vec<&'r BundleRow>> {
    let alike = |a: &BundleRow, b: &BundleRow| {
        a.place == b.place && a.format == b.format && a.compressed.is_some() == b.compressed.is_some()
    };
    bundles.chunk_by(|a, b| alike(a, b)).map(<[&BundleRow]>::to_vec).collect()
}

/// What a group is and where.
fn heading(group: &[&BundleRow]) -> String {
    let Some(first) = group.first() else { return String::new() };
    let (one, many) = match first.format {
        Format::TextBundle => ("text bundle", "text bundles"),
        Format::FatObject => ("fat object", "fat objects"),
        Format::OffloadBinary => ("offload binary", "offload binaries"),
        Format::CodeObject => ("code object without a bundle", ""),
        _ => ("bundle", "bundles"),
    };
    let mut text = count(group.len(), one, many);
    if let Some(recorded) = first.compressed {
        let stored = group.iter().map(|bundle| bundle.stored()).fold(0, u64::saturating_add);
        write!(text, ", {} in {}", recorded.method.name(), bytes(stored)).unwrap_or_default();
    }
    match way(&first.place) {
        way if way.is_empty() => text,
        way => format!("{way}: {text}"),
    }
}

fn way(place: &Place) -> String {
    place.steps().iter().map(Step::to_string).collect::<Vec<_>>().join(" > ")
}

fn lines(group: &[&BundleRow], rows: Rows) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    let mut known: HashMap<&str, Vec<usize>> = HashMap::new();
    for bundle in group {
        for row in &bundle.code_objects {
            let line = line_of(bundle, row, rows);
            if rows == Rows::Each {
                lines.push(line);
                continue;
            }
            let same_id = known.entry(&row.id).or_default();
            match same_id.iter().find(|&&index| lines.get(index).is_some_and(|other| other.takes(&line))) {
                Some(&index) => add(&mut lines, index, &line),
                None => {
                    same_id.push(lines.len());
                    lines.push(line);
                }
            }
        }
    }
    lines
}

impl Line {
    /// Whether code objects of one ID share a line. What was not inflated far enough to tell what it is most likely is what the
    /// others are.
    fn takes(&self, other: &Self) -> bool {
        self.kind.is_none() || other.kind.is_none() || self.kind == other.kind
    }

    fn kind(&self) -> String {
        match self.kind {
            Some(kind) if self.unsure => format!("{kind}?"),
            kind => kind.unwrap_or("?").to_owned(),
        }
    }
}

fn line_of(bundle: &BundleRow, row: &Row, rows: Rows) -> Line {
    let kind = row.content.map(ContentKind::name);
    let label = match rows {
        Rows::Grouped => cut(&row.id),
        Rows::Each => format!("{:>5}  {}", bundle.index, cut(&row.id)),
    };
    let for_whom = row.for_whom();
    let accent = if label.ends_with(for_whom) { for_whom.len() } else { 0 };
    Line { label, accent, kind, unsure: kind.is_none(), count: 1, size: row.size, stored: bundle.share(row) }
}

fn add(lines: &mut [Line], index: usize, more: &Line) {
    if let Some(line) = lines.get_mut(index) {
        line.kind = line.kind.or(more.kind);
        line.unsure |= more.unsure;
        line.count = line.count.saturating_add(more.count);
        line.size = line.size.saturating_add(more.size);
        line.stored = line.stored.saturating_add(more.stored);
    }
}

fn table(lines: &[Line], scale: Scale, columns: Columns, style: Style, out: &mut String) {
    let width = lines.iter().map(|line| line.label.chars().count()).max().unwrap_or(0).max(8);
    let optional = |wanted: bool, text: String| if wanted { text } else { String::new() };
    let title = if columns.kind { "ENTRY ID" } else { "GPU" };
    let kinds = lines.iter().map(|line| line.kind().len()).max().unwrap_or(0).max(7);
    let kind = optional(columns.kind, format!("  {:<kinds$}", "IMAGE"));
    let stored = optional(columns.compressed, format!("{:>11}", "STORED"));
    let heading = format!("    {title:<width$}{kind} {:>6} {:>9}{stored}   SHARE", "COUNT", "SIZE");
    line(out, &style.paint("2", &heading));
    for row in lines {
        let label = style.label(row, width);
        let kind = optional(columns.kind, format!("  {:<kinds$}", row.kind()));
        let stored = optional(columns.compressed, format!("{:>11}", style.about().to_owned() + &bytes(row.stored)));
        let share = per_mille(row.stored, scale.whole);
        let percent = format!("{}.{} %", share / 10, share % 10);
        let bar = style.paint("32", &style.bar(row.stored, scale.largest));
        let (count, size) = (row.count, bytes(row.size));
        line(out, &format!("    {label}{kind} {count:>6} {size:>9}{stored} {percent:>7}  {bar}"));
    }
}

/// The totals of all files, for each GPU.
fn totals(report: &Report, found: &[&BundleRow], style: Style, out: &mut String) {
    let mut lines: Vec<Line> = Vec::new();
    let mut known = HashMap::new();
    let mut compressed = false;
    for bundle in found {
        compressed |= bundle.compressed.is_some();
        for row in &bundle.code_objects {
            let line = Line { label: cut(row.for_whom()), ..line_of(bundle, row, Rows::Grouped) };
            let index = *known.entry(line.label.clone()).or_insert(lines.len());
            if index < lines.len() { add(&mut lines, index, &line) } else { lines.push(line) }
        }
    }
    lines.sort_by_key(|line| std::cmp::Reverse(line.stored));
    let scale = Scale::of(lines.iter());
    let files = report.files.iter().filter(|file| !file.bundles.is_empty()).count();
    let objects: usize = lines.iter().map(|line| line.count).sum();
    let objects = count(objects, "code object", "code objects");
    let sizes = sizes(found.iter().copied());
    let heading = format!("In all: {objects} in {}, {sizes}", count(files, "file", "files"));
    line(out, &style.paint("1", &heading));
    table(&lines, scale, Columns { kind: false, compressed }, style, out);
}

/// A name, which may be megabytes long, as a table has room for it.
fn cut(name: &str) -> String {
    match name.char_indices().nth(LABEL_MAX) {
        Some((end, _)) => format!("{}...", name.get(..end).unwrap_or_default()),
        None => name.to_owned(),
    }
}

/// Adds a line, without spaces at its end.
fn line(out: &mut String, text: &str) {
    out.push_str(text.trim_end());
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(label: &str, accent: usize) -> Line {
        Line { label: label.into(), accent, kind: Some("ELF"), unsure: false, count: 1, size: 1, stored: 1 }
    }

    #[test]
    fn the_target_id_stands_out_in_colour_and_labels_are_padded() {
        let (plain, color) = (Style { color: false, unicode: true }, Style { color: true, unicode: true });
        let gpu = row("hip-amdgcn-amd-amdhsa--gfx90a", 6);
        assert_eq!(plain.label(&gpu, 31), "hip-amdgcn-amd-amdhsa--gfx90a  ");
        assert_eq!(color.label(&gpu, 30), "\x1b[2mhip-amdgcn-amd-amdhsa--\x1b[0m\x1b[1mgfx90a\x1b[0m ");
        for (label, accent) in [("host-x86_64-linux", 0), ("gfx90a", 6), ("é", 1), ("short", 9)] {
            assert_eq!(color.label(&row(label, accent), 0), label);
        }
    }

    #[test]
    fn long_names_are_cut() {
        assert_eq!(cut(&"é".repeat(200)), "é".repeat(200));
        assert_eq!(cut(&"é".repeat(100_000)), "é".repeat(200) + "...");
    }

    #[test]
    fn bars_reach_as_far_as_the_part() {
        let (unicode, ascii) = (Style { color: false, unicode: true }, Style { color: false, unicode: false });
        assert_eq!((unicode.bar(10, 10), ascii.bar(10, 10)), ("█".repeat(24), "#".repeat(24)));
        assert_eq!((unicode.bar(1, 2), ascii.bar(1, 2)), ("█".repeat(12), "#".repeat(12)));
        assert_eq!((unicode.bar(1, 1000), ascii.bar(1, 1000)), ("▏".to_owned(), "#".to_owned()));
        assert_eq!((unicode.bar(0, 10), ascii.bar(0, 0)), (String::new(), String::new()));
    }
}

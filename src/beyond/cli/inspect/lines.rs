//! The lines of the tables of `inspect`: one for each entry ID of a place, code object or GPU.

use std::collections::HashMap;
use std::io;

use crate::base::display::printable_start;
use crate::beyond::container::{ContentKind, Rule};
use crate::beyond::inventory::{BundleContents, Coverage, ServedBundles};
use crate::beyond::job::GpuSizes;
use crate::beyond::scan::{CodeObject, Sizes};

use crate::beyond::cli::gpus::{Targets, products_of, some_products_of};
use crate::beyond::cli::print::table::{BAR, Cell, Column, GAP, Table, WhenNarrow};
use crate::beyond::cli::print::text::{Style, Text};
use crate::beyond::cli::print::units::{bytes, percent, shown_uri};

/// The code objects that each line of a table summarises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TableRows {
    /// The code objects at a place with the same entry ID.
    Grouped,
    /// A single code object, for `--each`.
    Each,
    /// A single code object, with its URI.
    EachWithUri,
    /// The code objects for the same GPU in all files, for `--summary`.
    Totals,
    /// The code objects for the same GPU in all files, by generation and with products, for `--gpus`.
    Gpus,
}

impl TableRows {
    /// Returns whether each code object has its own line.
    pub(super) fn is_one_per_object(self) -> bool {
        matches!(self, Self::Each | Self::EachWithUri)
    }

    /// Returns whether only totals are printed.
    pub(super) fn is_summary(self) -> bool {
        matches!(self, Self::Totals | Self::Gpus)
    }
}

/// The narrowest label; other columns are left out before labels get narrower.
const LABEL_MIN: usize = 18;

/// The width of the longest title of the label column.
const TITLE_MIN: usize = 8;

/// The width of the longest known kind.
const KIND_MIN: usize = 7;

/// The least widths of the columns with numbers, enough for all but very large numbers, so that the tables of several
/// places have their columns below each other. Most numbers are shorter, so small gaps between the columns are enough.
const COUNT_MIN: usize = 6;
const SIZE_MIN: usize = 9;
const STORED_MIN: usize = 11;
const SHARE_MIN: usize = 7;

/// The space before a line.
const INDENT: usize = 4;

/// The longest label, in characters.
const LABEL_MAX: usize = 200;

/// A line of a table.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) label: String,
    /// The length in bytes of the target at the end of the label, which is written in bold letters. 0 if the label does
    /// not end with the target.
    accent: usize,
    /// The kind of image, or `None` if too little was inflated to know it.
    kind: Option<ContentKind>,
    /// Whether the kind of some of the code objects is unknown.
    has_unknown_kind: bool,
    pub(super) sizes: Sizes,
    /// The sizes that count in sums: 0 for a container, whose contents have lines of their own.
    pub(super) counted: Sizes,
    /// Whether the stored size is a share of data that is compressed together.
    is_share: bool,
    pub(super) gpu: String,
    /// The number of bundles that serve the GPU, or `None` if [`add_served`] adds none.
    served: Option<ServedBundles>,
    uri: Option<String>,
}

/// The sizes that shares and bars are relative to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    /// The stored size of all code objects, which is a share of 100 %.
    whole: u64,
    /// The largest stored size of a line, which has the longest bar.
    largest: u64,
}

impl Scale {
    /// Returns the scale of tables that have these lines.
    pub(super) fn new<'l>(lines: impl Iterator<Item = &'l Line>) -> Self {
        let (mut whole, mut largest) = (Sizes::default(), 0);
        for line in lines {
            whole += line.counted;
            largest = largest.max(line.counted.stored);
        }
        Self { whole: whole.stored, largest }
    }
}

/// Returns the lines for a group of bundles.
pub(super) fn group_lines(group: &[BundleContents], rows: TableRows) -> Vec<Line> {
    let (code_objects, mut targets) = (group.iter().flat_map(|bundle| &bundle.code_objects), Targets::default());
    merged(code_objects.map(|code_object| (&*code_object.id, Line::new(code_object, rows, &mut targets))), rows)
}

/// Merges the lines of code objects with the same ID, unless each code object has its own line.
fn merged<'i>(code_objects: impl Iterator<Item = (&'i [u8], Line)>, rows: TableRows) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    // The indices of the lines of each ID. Lines with the same ID have different kinds of images.
    let mut indices_by_id: HashMap<&[u8], Vec<usize>> = HashMap::new();
    for (id, line) in code_objects {
        let indices = indices_by_id.entry(id).or_default();
        let can_merge = |index: &usize| lines.get(*index).is_some_and(|earlier| earlier.merges_with(&line));
        let index = if rows.is_one_per_object() { None } else { indices.iter().copied().find(can_merge) };
        match index.and_then(|index| lines.get_mut(index)) {
            Some(earlier) => earlier.add(&line),
            None => {
                indices.push(lines.len());
                lines.push(line);
            }
        }
    }
    lines
}

/// Adds to each line the number of bundles that serve its GPU. Adds nothing for a single bundle, which serves all its
/// GPUs unless a runtime does not find the code. Adds nothing either if there are too many bundles to compare.
pub(super) fn add_served(lines: &mut [Line], coverage: &Coverage) {
    if coverage.bundles() < 2 && coverage.unfound().is_empty() {
        return;
    }
    let Some(gpus) = coverage.gpus() else { return };
    let known: HashMap<&str, ServedBundles> =
        gpus.iter().map(|(gpu, served)| (gpu.name(), served.without_implied_jit(gpu))).collect();
    for line in lines {
        line.served = known.get(line.gpu.as_str()).copied();
    }
}

impl Line {
    /// Returns the line of a single code object, which [`merged`] may merge with others. Its label depends on `rows`.
    /// `targets` keeps the targets of IDs that were parsed before.
    pub(super) fn new<'c>(code_object: &'c CodeObject, rows: TableRows, targets: &mut Targets<'c>) -> Self {
        let (bundle, kind) = (&code_object.bundle, code_object.kind);
        let id = printable_start(&code_object.shown_id(), LABEL_MAX);
        // A line that is never merged begins with the place of its code object: the key in a kpack archive, or the
        // number of its bundle.
        let label = if !rows.is_one_per_object() {
            id
        } else if bundle.format.has(Rule::Archive)
            && let Some(key) = bundle.place.steps().last()
        {
            format!("{key}  {id}")
        } else {
            // The numbers of up to 99,999 bundles end in the same column.
            format!("{:>5}  {id}", bundle.index)
        };
        let gpu = targets.target_of(code_object).to_owned();
        // The target at the end of the label stands out.
        let accent = if label.ends_with(&gpu) { gpu.len() } else { 0 };
        let is_share = code_object.has_shared_size();
        // The line shows the sizes of the code object itself. Sums take `counted`, where nothing counts twice.
        let (sizes, counted) = (code_object.own_sizes(), code_object.sizes());
        let has_unknown_kind = kind.is_none();
        let uri = if rows == TableRows::EachWithUri { Some(shown_uri(code_object)) } else { None };
        Self { label, accent, kind, has_unknown_kind, sizes, counted, is_share, gpu, served: None, uri }
    }

    /// Returns the line of a GPU, about code objects of any kind.
    pub(super) fn of_gpu(GpuSizes { gpu, sizes, is_share, has_unknown_kind, .. }: &GpuSizes) -> Self {
        let label = printable_start(gpu, LABEL_MAX);
        Self {
            accent: label.len(),
            label,
            kind: None,
            has_unknown_kind: *has_unknown_kind,
            sizes: *sizes,
            counted: *sizes,
            is_share: *is_share,
            gpu: gpu.clone(),
            served: None,
            uri: None,
        }
    }

    /// Adds the code objects of another line to this line, which keeps its label.
    pub(super) fn add(&mut self, more: &Self) {
        self.kind = self.kind.or(more.kind);
        self.has_unknown_kind |= more.has_unknown_kind;
        self.sizes += more.sizes;
        self.counted += more.counted;
        self.is_share |= more.is_share;
    }

    /// Returns whether two lines with the same ID are merged: code objects of one kind share a line. A code object
    /// whose kind is unknown, because too little of it was inflated, counts as the kind of the other line. But it is
    /// never merged with empty ones: its size is known, and not 0.
    fn merges_with(&self, other: &Self) -> bool {
        match (self.kind, other.kind) {
            (None, Some(kind)) | (Some(kind), None) => kind != ContentKind::Empty,
            (one, other) => one == other,
        }
    }

    /// Returns the kind of image, with a question mark if it is not certain for all code objects of the line.
    fn kind(&self) -> String {
        let name = match self.kind {
            Some(kind) => kind.name(),
            None => "",
        };
        if self.has_unknown_kind { format!("{name}?") } else { name.to_owned() }
    }

    /// Returns whether the code objects count in sums. A container does not; its contents do.
    pub(super) fn is_counted(&self) -> bool {
        self.counted.code_objects > 0
    }

    pub(super) fn count(&self) -> String {
        self.sizes.code_objects.to_string()
    }

    pub(super) fn size(&self) -> String {
        bytes(self.sizes.size)
    }

    /// Returns the stored size, with a sign for "about" if it is a share of compressed data.
    pub(super) fn stored(&self, style: Style) -> String {
        let about = if style.unicode { "≈ " } else { "~" };
        format!("{}{}", if self.is_share { about } else { "" }, bytes(self.sizes.stored))
    }

    fn served(&self) -> String {
        self.served.as_ref().map(ServedBundles::to_string).unwrap_or_default()
    }

    /// Returns whether the number of bundles that serve the GPU is worth a column: there are several, or none serves
    /// it.
    fn needs_served(&self) -> bool {
        match self.served {
            Some(served) => served.bundles > 1 || served.serving == 0,
            None => false,
        }
    }

    /// Returns the share of the stored size in `whole`, or an empty text for a line that does not count in sums.
    fn share(&self, whole: u64) -> String {
        if self.is_counted() { percent(self.counted.stored, whole) } else { String::new() }
    }
}

/// The columns of a table besides those with sizes.
#[derive(Clone, Copy, Debug)]
pub(super) struct LineColumns {
    /// The title of the column of labels.
    pub(super) title: &'static str,
    /// Whether there is a column with the kinds of images.
    pub(super) has_kinds: bool,
    /// Whether there is a column of products, if products are known for any of the lines.
    pub(super) has_products: bool,
    /// Whether stored sizes differ from the sizes.
    pub(super) is_compressed: bool,
}

/// The largest width of products, which they also get in a table of unlimited width.
const PRODUCTS_MAX: usize = 40;
/// The least width of products in a table of limited width.
const PRODUCTS_MIN: usize = 14;

/// The width that products leave to bars, if there is room for both.
const BAR_BESIDE_PRODUCTS: usize = 8;

/// Writes a table with the columns that `shown` asks for, with sizes, and with bars or URIs. Shares and bars are
/// relative to the sizes in `scale`.
pub(super) fn write_lines(lines: &[Line], scale: Scale, shown: LineColumns, text: &mut Text<'_>) -> io::Result<()> {
    let style = text.style;
    let has_products = shown.has_products && lines.iter().any(|line| !products_of(&line.gpu).is_empty());
    // The ranks in `LeftOut` let a narrow terminal lose the columns SHARE (if there are products), PRODUCTS, IMAGE,
    // STORED and COUNT, in this order.
    let mut columns = vec![Column {
        when_narrow: WhenNarrow::Shortened(LABEL_MIN),
        width: TITLE_MIN,
        ..Column::name(shown.title, |line: &Line| Cell::Ending { text: line.label.clone(), accent: line.accent })
    }];
    if shown.has_kinds {
        columns.push(Column {
            width: KIND_MIN,
            when_narrow: WhenNarrow::LeftOut(3),
            ..Column::label("IMAGE", Line::kind)
        });
    }
    columns.push(Column {
        gap: 1,
        width: COUNT_MIN,
        when_narrow: WhenNarrow::LeftOut(1),
        ..Column::number("COUNT", Line::count)
    });
    columns.push(Column {
        gap: 1,
        width: SIZE_MIN,
        when_narrow: WhenNarrow::Stays,
        ..Column::number("SIZE", Line::size)
    });
    if shown.is_compressed {
        let stored = Column::number("STORED", move |line: &Line| line.stored(style));
        columns.push(Column { gap: 0, width: STORED_MIN, when_narrow: WhenNarrow::LeftOut(2), ..stored });
    }
    if lines.iter().any(Line::needs_served) {
        columns.push(Column::number("SERVED", Line::served));
    }
    let share = Column::number("SHARE", move |line: &Line| line.share(scale.whole));
    let when_narrow = if has_products { WhenNarrow::LeftOut(4) } else { WhenNarrow::Stays };
    columns.push(Column { gap: 1, width: SHARE_MIN, when_narrow, ..share });
    let mut table = Table { indent: INDENT, columns };
    let products_width = match style.width {
        Some(width) => {
            let used = table.width_of(lines.iter()) + GAP + BAR_BESIDE_PRODUCTS + GAP;
            width.saturating_sub(used).clamp(PRODUCTS_MIN, PRODUCTS_MAX)
        }
        None => PRODUCTS_MAX,
    };
    if lines.iter().any(|line| line.uri.is_some()) {
        table.columns.push(Column::label("URI", |line: &Line| line.uri.clone().unwrap_or_default()));
    } else {
        let bar = Column::label("", move |line: &Line| Cell::Bar { part: line.counted.stored, whole: scale.largest });
        table.columns.push(Column { when_narrow: WhenNarrow::Bar, width: BAR, ..bar });
    }
    if has_products {
        let products = move |line: &Line| some_products_of(&[&line.gpu], products_width, style.range());
        table.columns.push(Column { when_narrow: WhenNarrow::LeftOut(3), ..Column::label("PRODUCTS", products) });
    }
    text.write_table(table, || lines.iter())
}

#[cfg(test)]
mod tests {
    use crate::beyond::cli::print::out::Buffer;
    use crate::beyond::job::InspectTotal;
    use crate::beyond::scan::{Finding, Scan};
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
            uri: None,
            kind: Some(ContentKind::Elf),
            has_unknown_kind: false,
            sizes,
            counted: sizes,
            is_share: true,
        }
    }

    /// The lines of a table with these labels in a terminal of this width.
    fn shown(labels: &[&str], width: usize, compressed: bool, unicode: bool) -> Vec<String> {
        let lines: Vec<Line> = labels.iter().map(|label| row(label, 6.min(label.len()))).collect();
        let (scale, style) =
            (Scale::new(lines.iter()), Style { color: false, unicode, width: Some(width), is_markdown: false });
        let mut buffer = Buffer::default();
        let columns = LineColumns { title: "ENTRY ID", has_kinds: true, has_products: true, is_compressed: compressed };
        write_lines(&lines, scale, columns, &mut Text { style, out: buffer.out() }).unwrap();
        buffer.text().lines().map(str::to_owned).collect()
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
    fn a_narrow_table_loses_the_bar_then_the_middle_of_the_label_then_columns() {
        let id = "hipv4-amdgcn-amd-amdhsa--gfx90a";
        let second = |width| shown(&[id], width, false, true).swap_remove(1);
        assert!(second(200).ends_with(&format!("  {}", "█".repeat(24))));
        assert!(second(80).ends_with(&format!("100.0 %  {}", "█".repeat(9))), "{}", second(80));
        assert_eq!(second(70), format!("    {id}  ELF          1       1 B 100.0 %"));
        assert_eq!(second(60), "    hipv4-amdgcn-…--gfx90a  ELF          1       1 B 100.0 %");
        assert_eq!(second(50), "    hipv4-amdgcn…--gfx90a      1       1 B 100.0 %");
        assert_eq!(second(40), "    hipv4-amd…--gfx90a       1 B 100.0 %");
    }

    #[test]
    fn wide_characters_take_two_columns() {
        let lines = shown(&["目标", "ab"], 200, false, true);
        assert_eq!(lines[1].split("ELF").next().map(UnicodeWidthStr::width), Some(14), "{lines:#?}");
        assert_eq!(lines[2].split("ELF").next().map(UnicodeWidthStr::width), Some(14), "{lines:#?}");
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
                known = found.code_objects().next().map(|code_object| code_object.keep(&info));
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
                let code_object = |(number, &(kind, is_hidden)): (usize, &Code)| {
                    let mut code_object = known.clone();
                    code_object.kind = (inflated || !is_hidden).then_some(kind);
                    // A sum of sizes says which code objects are in it.
                    code_object.size = if kind == ContentKind::Empty { 0 } else { 1 << number };
                    code_object
                };
                let (mut lines, mut total) = (Vec::new(), InspectTotal::default());
                for code in sequence.iter().enumerate() {
                    let code_object = code_object(code);
                    total.add_code_object(&code_object, &code_object.target());
                    lines.push(Line::new(&code_object, TableRows::Grouped, &mut Targets::default()));
                }
                let merged = merged(lines.into_iter().map(|line| (&*known.id, line)), TableRows::Grouped);
                (merged, total.gpus.iter().map(Line::of_gpu).collect::<Vec<_>>())
            };
            let ((partial, partial_totals), (complete, totals)) = (rows(false), rows(true));
            assert!(partial.len() <= complete.len(), "{sequence:?}: {partial:?}, {complete:?}");
            for lines in [&partial, &totals, &partial_totals] {
                assert_eq!(total(lines), total(&complete), "{sequence:?}");
            }
            assert!(totals.len() <= 1 && partial_totals.len() == totals.len(), "{sequence:?}");
            // Sizes are always known, so empty code objects are not mixed with others.
            assert_eq!(empty(&partial), empty(&complete), "{sequence:?}");
            let hides = sequence.iter().any(|&(_, is_hidden)| is_hidden);
            assert_eq!(partial.iter().any(|line| line.kind().ends_with('?')), hides, "{sequence:?}");
        }
    }

    fn total(lines: &[Line]) -> Sizes {
        let mut total = Sizes::default();
        for line in lines {
            total += line.counted;
        }
        total
    }

    /// The kind, number and size of the empty code objects.
    fn empty(lines: &[Line]) -> Option<(String, usize, u64)> {
        let empty = lines.iter().find(|line| line.kind == Some(ContentKind::Empty))?;
        Some((empty.kind(), empty.sizes.code_objects, empty.sizes.size))
    }
}

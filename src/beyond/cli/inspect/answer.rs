//! The first table of `inspect`: the GPUs that files have code for, with products, the libraries that serve them, and
//! sizes.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::io;

use crate::base::display::printable;
use crate::beyond::base::text::natural_order;
use crate::beyond::inventory::{Coverage, Libraries, Library, ServedBundles, ServingLibraries, listed_order};
use crate::beyond::runtime::Device;
use crate::beyond::scan::Sizes;

use super::by_file::ByFile;
use super::lines::Line;
use super::matrix::cell;
use crate::beyond::cli::gpus::{
    by_generation, family_of, label_of_family, loaded_here, products_of, short_target, some_products_of,
};
use crate::beyond::cli::print::names::CommonParts;
use crate::beyond::cli::print::table::{BAR, Cell, Column, GAP, Table, WhenNarrow, widest};
use crate::beyond::cli::print::text::{Style, Text, Tone};
use crate::beyond::cli::print::units::{bytes, count};

/// The libraries or bundles that may serve GPUs.
#[derive(Clone, Copy)]
pub(super) enum Servers<'l> {
    /// Several libraries.
    Libraries(&'l Libraries),
    /// The bundles of one library.
    Bundles(&'l Coverage),
}

/// The number of libraries or bundles that serve the GPUs of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServingNumber {
    Libraries(ServingLibraries),
    Bundles(ServedBundles),
    /// The target is not a GPU that bundles serve, such as LTO-IR, or there are too many bundles to compare.
    Unknown,
}

impl Servers<'_> {
    /// Returns the title of the column with [`ServingNumber`]s.
    fn title(self) -> &'static str {
        match self {
            Self::Libraries(_) => "LIBRARIES",
            Self::Bundles(_) => "SERVED",
        }
    }

    /// Returns the number of libraries or bundles that serve each GPU that they have code for, by its name. Returns
    /// nothing if there are too many to compare.
    fn serving(self) -> HashMap<String, ServingNumber> {
        let mut numbers = HashMap::new();
        match self {
            Self::Bundles(coverage) => {
                for (gpu, served) in coverage.gpus().unwrap_or_default() {
                    numbers.insert(gpu.name().to_owned(), ServingNumber::Bundles(served.without_implied_jit(&gpu)));
                }
            }
            Self::Libraries(libraries) => {
                let gpus: Vec<Device> =
                    by_generation(libraries.coverage()).unwrap_or_default().into_iter().map(|(gpu, _)| gpu).collect();
                let serving = libraries.serving(&gpus).unwrap_or_default();
                for (gpu, libraries) in gpus.iter().zip(serving) {
                    numbers.insert(gpu.name().to_owned(), ServingNumber::Libraries(libraries));
                }
            }
        }
        numbers
    }
}

impl ServingNumber {
    /// Returns the text of the cell, which is empty for an unknown number.
    fn text(&self) -> String {
        match self {
            Self::Libraries(libraries) => libraries.to_string(),
            Self::Bundles(bundles) => bundles.to_string(),
            Self::Unknown => String::new(),
        }
    }

    /// Returns the text in the colour of what it says: a gap, or code that is compiled when the program starts.
    fn cell(self) -> Cell {
        let (missing, jit) = match self {
            Self::Libraries(libraries) => (libraries.all.saturating_sub(libraries.complete), libraries.jit),
            Self::Bundles(bundles) => (bundles.missing(), bundles.jit),
            Self::Unknown => (0, 0),
        };
        match self.text() {
            text if missing > 0 => Cell::Toned(Tone::Bad, text),
            text if jit > 0 => Cell::Toned(Tone::Caution, text),
            text => Cell::Text(text),
        }
    }

    /// Returns whether some libraries serve the GPU with some of their bundles only.
    fn is_partial(&self) -> bool {
        match self {
            Self::Libraries(libraries) => libraries.partial > 0,
            Self::Bundles(_) | Self::Unknown => false,
        }
    }

    /// Returns whether the number is worth a column: there are several libraries or bundles, or none serves the GPU.
    /// "1 of 1" for each GPU would say nothing.
    fn is_needed(&self) -> bool {
        match self {
            Self::Libraries(libraries) => libraries.all > 1 || libraries.complete == 0,
            Self::Bundles(served) => served.bundles > 1 || served.serving == 0,
            Self::Unknown => false,
        }
    }
}

/// A line of the table: one GPU, or several of a family that are served alike.
#[derive(Clone, Debug)]
struct GpuLine {
    targets: Vec<String>,
    serving: ServingNumber,
    /// For each file that has a column, the number of its bundles that serve these GPUs.
    by_file: Vec<ServedBundles>,
    /// Whether the GPUs of this machine load code for any of these targets.
    is_loaded_here: bool,
    /// The sums of the code objects for these GPUs.
    sums: Line,
}

impl GpuLine {
    /// Returns the names of the GPUs, in short unless `is_full` is set; safe to print.
    fn label(&self, style: Style, is_full: bool) -> String {
        let label = match self.targets.as_slice() {
            [_] if is_full => self.sums.label.clone(),
            [_] => short_target(&self.sums.label).to_owned(),
            _ => label_of_family(&self.targets(), style.range()),
        };
        if self.is_loaded_here { format!("{label} *") } else { label }
    }

    fn targets(&self) -> Vec<&str> {
        self.targets.iter().map(String::as_str).collect()
    }

    /// Returns whether two lines are merged: both are for GPUs of one family of AMD's, and served alike. NVIDIA's GPUs
    /// have too many products to share a line.
    fn merges_with(&self, other: &Self) -> bool {
        // All targets of a line are of one family, so the first ones are enough.
        let (Some(first), Some(next)) = (self.targets.first(), other.targets.first()) else { return false };
        let family = family_of(first);
        first.starts_with("gfx")
            && family.is_some()
            && family == family_of(next)
            && self.serving == other.serving
            && self.by_file == other.by_file
    }
}

/// Returns the lines of GPUs in the order of [`listed_order`], without the host. Merges GPUs of a family unless
/// `is_full` is set. `files` has the numbers for columns of files.
fn gpu_lines(totals: &[Line], servers: Servers<'_>, files: Option<&ByFile>, is_full: bool) -> Vec<GpuLine> {
    let serving = servers.serving();
    let mut sorted: Vec<&Line> = totals.iter().filter(|line| line.gpu != "host").collect();
    sorted.sort_by_cached_key(|line| listed_order(&line.gpu));
    let loaded_here = loaded_here(sorted.iter().map(|line| line.gpu.as_str()));
    let mut lines: Vec<GpuLine> = Vec::new();
    for total in sorted {
        let serving = serving.get(&total.gpu).copied().unwrap_or(ServingNumber::Unknown);
        let by_file = files.map(|files| files.served(&total.gpu)).unwrap_or_default();
        let is_loaded_here = loaded_here.contains(total.gpu.as_str());
        let line = GpuLine { targets: vec![total.gpu.clone()], serving, by_file, is_loaded_here, sums: total.clone() };
        match lines.last_mut() {
            Some(last) if !is_full && last.merges_with(&line) => {
                last.targets.extend(line.targets);
                last.is_loaded_here |= line.is_loaded_here;
                last.sums.add(&line.sums);
            }
            _ => lines.push(line),
        }
    }
    lines
}

/// A table of at least this width has room for stored sizes too. Tables in Markdown have this width.
const WIDE: usize = 100;

/// The space before a line.
const INDENT: usize = 2;

/// The least widths of a size and of a stored size in the table of GPUs, each with the space before it. The table of
/// libraries uses the first for both.
const SIZE_WIDTH: usize = 10;
const STORED_WIDTH: usize = 11;

/// Other columns are left out before the name of a GPU gets narrower than this.
const NAME_MIN: usize = 14;

/// The largest width of the names of GPUs that leaves less room for products. A longer name makes the table wider
/// instead.
const LABEL_MAX: usize = 24;

/// The least room for products, and the least room beside bars, which are left out otherwise.
const PRODUCTS_MIN: usize = 20;
const PRODUCTS_BESIDE_BAR: usize = 30;
/// The room for products beside columns of files, if names of GPUs are short.
const PRODUCTS_BESIDE_FILES: usize = 16;

/// The width of a table, divided by this, is the width of its bars, which is never larger than [`BAR`].
const BAR_DIVISOR: usize = 10;

/// The columns that the table of GPUs has room for.
struct GpuColumns {
    /// Whether long names of GPUs may be shortened.
    when_narrow: WhenNarrow,
    /// Whether there is a column with [`ServingNumber`]s.
    has_serving: bool,
    /// Whether there is a column with stored sizes.
    has_stored: bool,
    /// The width of the bars, or 0 without bars.
    bar: usize,
    /// The width of the products.
    products: usize,
}

impl GpuColumns {
    /// Chooses the columns, and divides the width of the table: the products get the width that all other columns
    /// leave. `is_full` and `is_compressed` are those of [`write`].
    fn new(
        lines: &[GpuLine],
        servers: Servers<'_>,
        files: Option<&ByFile>,
        (is_full, is_compressed): (bool, bool),
        style: Style,
    ) -> Self {
        let width = style.width.unwrap_or(WIDE);
        let label_width = widest(lines.iter().map(|line| line.label(style, is_full)), "GPU");
        let has_serving = files.is_none_or(ByFile::has_own_table) && lines.iter().any(|line| line.serving.is_needed());
        let has_stored = is_compressed && !is_full && width >= WIDE;
        // `SIZE_WIDTH` and `STORED_WIDTH` include the space before the column.
        let mut used = INDENT + SIZE_WIDTH + label_width.min(LABEL_MAX) + files.map_or(0, ByFile::width);
        if has_serving {
            used += GAP + widest(lines.iter().map(|line| line.serving.text()), servers.title());
        }
        if has_stored {
            used += STORED_WIDTH;
        }
        let room = width.saturating_sub(used + GAP);
        let widest_bar = (width / BAR_DIVISOR).min(BAR);
        let has_bars = !is_full
            && lines.len() >= 2
            && files.is_none()
            && widest_bar > 0
            && room >= GAP + widest_bar + PRODUCTS_BESIDE_BAR;
        let bar = if has_bars { widest_bar } else { 0 };
        let room = if has_bars { room - GAP - bar } else { room };
        // Beside columns of files, long names of GPUs take up to half of the room for products. There, only products
        // are shortened, unless a name is very long.
        let has_file_columns = files.is_some_and(|files| !files.has_own_table());
        let products_min = if has_file_columns { PRODUCTS_BESIDE_FILES / 2 } else { PRODUCTS_MIN };
        let when_narrow = if has_file_columns && label_width <= LABEL_MAX {
            WhenNarrow::Stays
        } else {
            WhenNarrow::Shortened(NAME_MIN)
        };
        Self { when_narrow, has_serving, has_stored, bar, products: room.max(products_min) }
    }
}

/// Writes the table of the GPUs. If `is_full`, each GPU has a line with all its products. Otherwise GPUs of a family
/// may share a line, the last number of each line has a bar, and only as many products are named as fit into the width
/// of the output, or into 80 columns. If some code `is_compressed`, wide tables that are not full also have the stored
/// sizes.
pub(super) fn write(
    totals: &[Line],
    servers: Servers<'_>,
    (is_full, is_compressed): (bool, bool),
    text: &mut Text<'_>,
) -> io::Result<()> {
    let style = if is_full { text.style } else { text.style.with_width() };
    let files = match servers {
        Servers::Libraries(libraries) if !is_full => {
            let other_columns = INDENT + NAME_MIN + SIZE_WIDTH + GAP + PRODUCTS_BESIDE_FILES;
            ByFile::new(libraries, style.width.unwrap_or(WIDE).saturating_sub(other_columns))
        }
        _ => None,
    };
    let lines = gpu_lines(totals, servers, files.as_ref(), is_full);
    let shown = GpuColumns::new(&lines, servers, files.as_ref(), (is_full, is_compressed), style);
    let name = Column::label("GPU", move |line: &GpuLine| Cell::Bold(line.label(style, is_full)));
    let mut columns = vec![Column { when_narrow: shown.when_narrow, ..name }];
    if is_full {
        let number = Column::number("COUNT", |line: &GpuLine| line.sums.count());
        columns.push(Column { when_narrow: WhenNarrow::LeftOut(1), ..number });
    }
    if shown.has_serving {
        let serving = Column::number(servers.title(), |line: &GpuLine| line.serving.cell());
        columns.push(Column { when_narrow: WhenNarrow::Stays, ..serving });
    }
    for (index, name) in files.iter().flat_map(ByFile::names).enumerate() {
        let served =
            Column::number("", move |line: &GpuLine| cell(line.by_file.get(index).copied().unwrap_or_default()));
        columns.push(Column { title: name.to_owned().into(), when_narrow: WhenNarrow::Stays, ..served });
    }
    let size = Column::number("SIZE", |line: &GpuLine| line.sums.size());
    columns.push(Column { width: SIZE_WIDTH - GAP, when_narrow: WhenNarrow::Stays, ..size });
    if shown.has_stored {
        let stored = Column::number("STORED", move |line: &GpuLine| line.sums.stored(style));
        columns.push(Column { width: STORED_WIDTH - GAP, when_narrow: WhenNarrow::LeftOut(2), ..stored });
    }
    if shown.bar > 0 {
        let has_stored = shown.has_stored;
        let last_number = move |line: &GpuLine| if has_stored { line.sums.sizes.stored } else { line.sums.sizes.size };
        let largest = lines.iter().map(last_number).max().unwrap_or_default();
        let bar = Column::label("", move |line: &GpuLine| Cell::Bar { part: last_number(line), whole: largest });
        columns.push(Column { when_narrow: WhenNarrow::Bar, width: shown.bar, ..bar });
    }
    columns.push(Column::name("PRODUCTS", move |line: &GpuLine| match line.targets.as_slice() {
        [target] if is_full => products_of(target),
        _ => some_products_of(&line.targets(), shown.products, style.range()),
    }));
    let mut text = text.with_style(style);
    text.write_table(Table { indent: INDENT, columns }, || lines.iter())?;
    if let Some(files) = &files {
        files.write_rest(&mut text)?;
    }
    if lines.iter().any(|line| line.is_loaded_here) {
        text.write_item("*: what the GPUs of this machine load")?;
    }
    // An example explains numbers of this form. It is not about this file.
    if shown.has_serving && lines.iter().any(|line| line.serving.is_partial()) {
        text.write_item("5+2 of 9: five libraries serve the GPU with all bundles, two with some")?;
    }
    Ok(())
}

/// The largest number of libraries that are listed.
const LISTED_LIBRARIES_MAX: usize = 40;

/// Writes a table of libraries with their sizes: in the natural order of their names or, if there are too many, the
/// largest ones.
pub(super) fn write_libraries(libraries: &Libraries, is_compressed: bool, text: &mut Text<'_>) -> io::Result<()> {
    let mut listed = libraries.by_name();
    let number = libraries.len();
    let are_too_many = number > LISTED_LIBRARIES_MAX;
    // The largest libraries are selected by size, and then listed by name.
    if are_too_many {
        listed.sort_by_cached_key(|library| Reverse(library.sizes().stored));
        listed.truncate(LISTED_LIBRARIES_MAX);
        listed.sort_by(|one, other| natural_order(&one.name, &other.name));
    }
    let mut by_package: Vec<(Option<&str>, Vec<&Library>)> = Vec::new();
    for library in listed {
        match by_package.iter_mut().find(|(package, _)| *package == library.package()) {
            Some((_, libraries)) => libraries.push(library),
            None => by_package.push((library.package(), vec![library])),
        }
    }
    let largest = libraries.iter().map(|library| library.sizes().stored).max().unwrap_or_default();
    if are_too_many {
        text.write_item(&format!("the largest {LISTED_LIBRARIES_MAX} of {}:", count(number, "library", "libraries")))?;
    }
    let has_one_table = by_package.len() == 1;
    for (package, libraries) in by_package {
        // The heading of a single table leaves out the name of the package, which only tells tables apart. Libraries
        // that are files themselves have no such name to leave out.
        let is_only_package = has_one_table && package.is_some();
        write_package(&libraries, is_only_package, (largest, is_compressed), text)?;
    }
    Ok(())
}

/// Writes a table of the libraries in a package, or of files that are libraries themselves. If `is_only_package`, the
/// heading leaves out the name of the package. A bar has its full length for the stored size `largest`. If some code
/// `is_compressed`, the table also has the stored sizes.
fn write_package(
    libraries: &[&Library],
    is_only_package: bool,
    (largest, is_compressed): (u64, bool),
    text: &mut Text<'_>,
) -> io::Result<()> {
    type Row<'l> = (String, &'l Library, Sizes);
    let names = libraries.iter().filter(|library| !library.is_rest).map(|library| library.name.as_str());
    let common = CommonParts::of(names);
    let mut heading = count(libraries.len(), "library", "libraries");
    if !common.is_empty() {
        let pattern = common.pattern();
        // The part of the pattern inside the parentheses is about the members of the package.
        let shown_pattern = match pattern.split_once('(') {
            Some((_, member)) if is_only_package => member.trim_end_matches(')'),
            _ => &pattern,
        };
        // A pattern of `*` alone says nothing about the names.
        if shown_pattern != "*" {
            heading = format!("{heading}: {}", printable(shown_pattern));
        }
    }
    text.write_subheading(&heading)?;
    let mut rows: Vec<Row<'_>> = Vec::new();
    for library in libraries {
        rows.push((printable(common.remove_from(&library.name)), library, library.sizes()));
    }
    let size = Column::number("SIZE", |(_, _, sizes): &Row<'_>| bytes(sizes.size));
    let mut columns = vec![
        Column::name("LIBRARY", |(name, ..): &Row<'_>| name.clone()),
        Column::number("COUNT", |(_, _, sizes): &Row<'_>| sizes.code_objects.to_string()),
        Column { width: SIZE_WIDTH - GAP, when_narrow: WhenNarrow::Stays, ..size },
    ];
    if is_compressed {
        let stored = Column::number("STORED", |(_, _, sizes): &Row<'_>| bytes(sizes.stored));
        columns.push(Column { width: SIZE_WIDTH - GAP, ..stored });
    }
    let bar = Column::label("", move |(_, _, sizes): &Row<'_>| Cell::Bar { part: sizes.stored, whole: largest });
    columns.push(Column { when_narrow: WhenNarrow::Bar, width: BAR, ..bar });
    let mut text = text.with_style(text.style.with_width());
    let indent = 4;
    text.write_table(Table { indent, columns }, || rows.iter())
}

//! The first table of `inspect`: the GPUs that files have code for, with products, the libraries that serve them, and
//! sizes.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::io;

use crate::base::display::printable;
use crate::beyond::base::text::natural_order;
use crate::beyond::inventory::{COMPARED_GPUS_MAX, Coverage, Libraries, Library, ServedBundles, ServingLibraries};
use crate::beyond::runtime::{Code, Device};
use crate::beyond::scan::Sizes;

use super::lines::Line;
use crate::beyond::cli::gpus::{
    by_generation, family_of, generation, label_of_family, loaded_here, products_of, short_target, some_products_of,
};
use crate::beyond::cli::print::names::CommonParts;
use crate::beyond::cli::print::table::{BAR, Cell, Column, Table, WhenNarrow, widest};
use crate::beyond::cli::print::text::{Style, Text};
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

    /// Returns the number of libraries or bundles that serve each GPU that they have code for, by its name. With
    /// libraries, GPUs beyond the first [`COMPARED_GPUS_MAX`] are left out. Returns nothing if there are too many
    /// bundles to compare.
    fn serving(self) -> HashMap<String, ServingNumber> {
        let mut numbers = HashMap::new();
        match self {
            Self::Bundles(coverage) => {
                for (gpu, mut served) in coverage.gpus().unwrap_or_default() {
                    // The name of PTX and SPIR-V says already that they are compiled when the program starts.
                    if gpu.is_by_code() {
                        served.jit = 0;
                    }
                    numbers.insert(gpu.name().to_owned(), ServingNumber::Bundles(served));
                }
            }
            Self::Libraries(libraries) => {
                let mut gpus: Vec<Device> =
                    by_generation(libraries.coverage()).unwrap_or_default().into_iter().map(|(gpu, _)| gpu).collect();
                gpus.truncate(COMPARED_GPUS_MAX);
                let serving = libraries.serving(&gpus).unwrap_or_default();
                for (gpu, mut libraries) in gpus.iter().zip(serving) {
                    if gpu.is_by_code() {
                        libraries.jit = 0;
                    }
                    numbers.insert(gpu.name().to_owned(), ServingNumber::Libraries(libraries));
                }
            }
        }
        numbers
    }
}

impl ServingNumber {
    /// Returns the text of the cell, which is empty for an unknown number.
    fn text(self) -> String {
        match self {
            Self::Libraries(libraries) => libraries.to_string(),
            Self::Bundles(bundles) => bundles.to_string(),
            Self::Unknown => String::new(),
        }
    }

    /// Returns whether some libraries serve the GPU with some of their bundles only.
    fn is_partial(self) -> bool {
        match self {
            Self::Libraries(libraries) => libraries.partial > 0,
            Self::Bundles(_) | Self::Unknown => false,
        }
    }

    /// Returns whether the number is worth a column: there are several libraries or bundles, or none serves the GPU.
    /// "1 of 1" for each GPU would say nothing.
    fn is_needed(self) -> bool {
        match self {
            Self::Libraries(libraries) => libraries.all > 1 || libraries.complete == 0,
            Self::Bundles(bundles) => bundles.bundles > 1 || bundles.serving == 0,
            Self::Unknown => false,
        }
    }
}

/// A line of the table: one GPU, or several of a family that are served alike.
#[derive(Clone, Debug)]
struct GpuLine {
    targets: Vec<String>,
    serving: ServingNumber,
    /// Whether the GPUs of this machine load code for one of them.
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
        first.starts_with("gfx") && family.is_some() && family == family_of(next) && self.serving == other.serving
    }
}

/// Returns the lines of GPUs by generation, without the host. Merges GPUs of a family unless `is_full` is set.
fn gpu_lines(totals: &[Line], servers: Servers<'_>, is_full: bool) -> Vec<GpuLine> {
    let serving = servers.serving();
    let mut sorted: Vec<&Line> = totals.iter().filter(|line| line.gpu != "host").collect();
    let is_jit = |target: &str| Code::from_name(target).is_some_and(|code| code.is_jit());
    sorted.sort_by_cached_key(|line| (is_jit(&line.gpu), generation(&line.gpu)));
    let loaded_here = loaded_here(sorted.iter().map(|line| line.gpu.as_str()));
    let mut lines: Vec<GpuLine> = Vec::new();
    for total in sorted {
        let serving = serving.get(&total.gpu).copied().unwrap_or(ServingNumber::Unknown);
        let is_loaded_here = loaded_here.contains(total.gpu.as_str());
        let line = GpuLine { targets: vec![total.gpu.clone()], serving, is_loaded_here, sums: total.clone() };
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

/// The width of a size and of a stored size, each with the space before it. The table of libraries has the same widths,
/// so that its sizes are below those of the GPUs.
const SIZE: usize = 10;
const STORED: usize = 11;

/// Other columns are left out before the name of a GPU gets narrower than this.
const NAME_MIN: usize = 14;

/// The most width of the names of GPUs that is taken from the products. A longer name makes the table wider.
const LABEL_MAX: usize = 24;

/// The least room for products.
const PRODUCTS_MIN: usize = 20;

/// Writes the table of the GPUs. If `is_full`, each GPU has a line with all its products. Otherwise GPUs of a family
/// may share a line, and products are left out: the table is as wide as the output, or 80 columns wide. Without
/// `is_compressed`, stored sizes equal the sizes and are not shown. Full tables, and tables narrower than [`WIDE`],
/// never show them.
pub(super) fn write(
    totals: &[Line],
    servers: Servers<'_>,
    (is_full, is_compressed): (bool, bool),
    text: &mut Text<'_>,
) -> io::Result<()> {
    let lines = gpu_lines(totals, servers, is_full);
    let style = if is_full { text.style } else { text.style.with_width() };
    let width = style.width.unwrap_or(WIDE);
    let has_serving = lines.iter().any(|line| line.serving.is_needed());
    let has_stored = is_compressed && !is_full && width >= WIDE;
    // The column of products is as wide as the other columns allow. `SIZE` and `STORED` include the space before them.
    let mut used = INDENT + SIZE + widest(lines.iter().map(|line| line.label(style, is_full)), "GPU").min(LABEL_MAX);
    if has_serving {
        used += GAP + widest(lines.iter().map(|line| line.serving.text()), servers.title());
    }
    if has_stored {
        used += STORED;
    }
    let room = width.saturating_sub(used + GAP).max(PRODUCTS_MIN);
    let products = move |line: &GpuLine| match line.targets.as_slice() {
        [target] if is_full => products_of(target),
        _ => some_products_of(&line.targets(), room, style.range()),
    };
    let name = Column::label("GPU", move |line: &GpuLine| Cell::Bold(line.label(style, is_full)));
    let mut columns = vec![Column { when_narrow: WhenNarrow::Shortened(NAME_MIN), ..name }];
    if is_full {
        columns.push(Column {
            when_narrow: WhenNarrow::LeftOut(1),
            ..Column::number("COUNT", |line: &GpuLine| line.sums.count())
        });
    }
    if has_serving {
        let serving = Column::number(servers.title(), |line: &GpuLine| line.serving.text());
        columns.push(Column { when_narrow: WhenNarrow::Stays, ..serving });
    }
    let size = Column::number("SIZE", |line: &GpuLine| line.sums.size());
    columns.push(Column { width: SIZE - GAP, when_narrow: WhenNarrow::Stays, ..size });
    if has_stored {
        let stored = Column::number("STORED", move |line: &GpuLine| line.sums.stored(style));
        columns.push(Column { width: STORED - GAP, when_narrow: WhenNarrow::LeftOut(2), ..stored });
    }
    columns.push(Column::name("PRODUCTS", products));
    let mut text = text.with_style(style);
    text.write_table(Table { indent: INDENT, columns }, || lines.iter())?;
    if lines.iter().any(|line| line.is_loaded_here) {
        text.write_item("*: what the GPUs of this machine load")?;
    }
    // An example explains such numbers. It is not about this file.
    if lines.iter().any(|line| line.serving.is_partial()) {
        text.write_item("5+2 of 9: five libraries serve the GPU with all bundles, two with some")?;
    }
    Ok(())
}

/// The space between columns.
const GAP: usize = 2;

/// The largest number of libraries that are listed.
const LISTED_LIBRARIES_MAX: usize = 40;

/// Writes a table of libraries with their sizes: in the natural order of their names or, if there are too many, the
/// largest ones.
pub(super) fn write_libraries(libraries: &Libraries, is_compressed: bool, text: &mut Text<'_>) -> io::Result<()> {
    let mut listed = libraries.by_name();
    let number = libraries.len();
    // The largest libraries are selected by size, and then listed by name.
    if number > LISTED_LIBRARIES_MAX {
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
    if number > LISTED_LIBRARIES_MAX {
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
/// heading leaves out the name of the package. A bar has its full length for the stored size `largest`.
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
        let in_package = match pattern.split_once('(') {
            Some((_, member)) if is_only_package => member.trim_end_matches(')'),
            _ => &pattern,
        };
        // A pattern of `*` alone says nothing about the names.
        if in_package != "*" {
            heading = format!("{heading}: {}", printable(in_package));
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
        Column { width: SIZE - GAP, when_narrow: WhenNarrow::Stays, ..size },
    ];
    if is_compressed {
        let stored = Column::number("STORED", |(_, _, sizes): &Row<'_>| bytes(sizes.stored));
        columns.push(Column { width: SIZE - GAP, ..stored });
    }
    let bar = Column::label("", move |(_, _, sizes): &Row<'_>| Cell::Bar { part: sizes.stored, whole: largest });
    columns.push(Column { when_narrow: WhenNarrow::Bar, width: BAR, ..bar });
    let mut text = text.with_style(text.style.with_width());
    text.write_table(Table { indent: 4, columns }, || rows.iter())
}

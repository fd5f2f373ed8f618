//! The text report of `diff`: GPUs, sizes by GPU, files, and kernels.

use std::cmp::Reverse;
use std::io;
use std::path::Path;

use crate::base::display::{printable, printable_name};
use crate::beyond::base::text::common_directory;
use crate::beyond::job::{
    Compared, Counts, DiffTotals, GpuDiff, GpuTotal, KernelRow, KernelRows, LibraryLoss, Presence,
};
use crate::beyond::scan::{Place, Step};

use crate::beyond::cli::gpus::short_target;
use crate::beyond::cli::kernels;
use crate::beyond::cli::kernels::table::{ListedKernel, PlaceColumn, old_to_new};
use crate::beyond::cli::print::table::{Cell, Column, Table, WhenNarrow};
use crate::beyond::cli::print::text::{Text, Tone};
use crate::beyond::cli::print::units::{bytes, count, grouped, percent};

/// The space before each line of a table.
const INDENT: usize = 4;

/// The text report of all files. If directories are compared, each file that differs has a line.
pub(super) struct DiffTable<'r, 'o> {
    roots: ComparedRoots<'r>,
    /// The largest number of kernels in the table.
    top: usize,
    rows: KernelRows,
    file_lines: Vec<String>,
    text: Text<'o>,
}

impl<'r, 'o> DiffTable<'r, 'o> {
    pub(super) fn new([old, new]: [&'r Path; 2], top: usize, text: Text<'o>) -> Self {
        let roots = ComparedRoots { old, new, is_tree: old.is_dir() };
        Self { roots, top, rows: KernelRows::default(), file_lines: Vec::new(), text }
    }

    /// Adds the differences of a pair of files.
    pub(super) fn add(&mut self, compared: Compared) {
        if self.roots.is_tree && !compared.diff.code_objects.is_empty() {
            self.file_lines.push(file_line(&compared));
        }
        self.rows.add(compared.rows, self.top);
    }

    /// Writes the report after the last pair.
    pub(super) fn write(self, total: &DiffTotals) -> io::Result<()> {
        let Self { roots, top, mut rows, file_lines, text } = self;
        rows.keep_first(top);
        let [old, new] = [roots.old, roots.new].map(|path| printable(&path.to_string_lossy()));
        let mut report = DiffText { total, roots, text };
        report.write_head(&format!("{old} -> {new}"))?;
        report.write_gpus()?;
        for line in &file_lines {
            report.text.write_item(line)?;
        }
        report.write_kernels(&rows)?;
        report.write_not_read()
    }
}

/// The paths that are compared. The title of the report has them, so the rest of the report leaves them out.
struct ComparedRoots<'r> {
    old: &'r Path,
    new: &'r Path,
    /// Whether the paths are directories.
    is_tree: bool,
}

impl ComparedRoots<'_> {
    /// Returns the text for a place, without the path in the title. Of two directories, this is the path below the
    /// directory, with the members and sections in it. Of two files, it is the member and the sections in it, or only
    /// the sections. It is empty for the file itself.
    fn place_text(&self, place: &Place) -> String {
        let file = place.file();
        let shown = place.to_string();
        let steps = shown.strip_prefix(&printable(&file.to_string_lossy())).unwrap_or(&shown);
        if self.is_tree {
            let mut below = file;
            for root in [self.new, self.old] {
                if let Ok(path) = file.strip_prefix(root) {
                    below = path;
                    break;
                }
            }
            return printable(&below.to_string_lossy()) + steps;
        }
        if let Some(Step::Member(name)) = place.steps().first() {
            let member = printable_name(name);
            let rest = steps.strip_prefix(&format!("({member})")).unwrap_or_default();
            return member + rest;
        }
        steps.to_owned()
    }

    /// Returns the text for the library of a loss: only its member if two files are compared, and otherwise its full
    /// name.
    fn library_text<'t>(&self, loss: &'t LibraryLoss) -> &'t str {
        match &loss.member {
            Some(member) if !self.is_tree => member,
            _ => &loss.library,
        }
    }
}

/// Returns the line about a file of two directories.
fn file_line(compared: &Compared) -> String {
    let (path, sum) = (compared.shown_path(), compared.diff.gpus.values().sum::<GpuDiff>());
    let count = |number| count(number, "code object", "code objects");
    match (&compared.old, &compared.new) {
        (_, None) => format!("{path}: only in the old directory, {}", count(sum.removed)),
        (None, _) => format!("{path}: only in the new directory, {}", count(sum.added)),
        _ => format!("{path}: {}", changed_objects(&sum)),
    }
}

/// Returns the numbers of code objects that differ, as text.
fn changed_objects(gpu: &GpuDiff) -> String {
    change_numbers(gpu.changed, gpu.added, gpu.removed)
}

/// Returns the numbers above 0, each with its word, such as "5 changed, 2 added".
fn change_numbers(changed: usize, added: usize, removed: usize) -> String {
    let mut numbers = Vec::new();
    for (number, change) in [(changed, "changed"), (added, "added"), (removed, "removed")] {
        if number > 0 {
            numbers.push(format!("{} {change}", grouped(number)));
        }
    }
    numbers.join(", ")
}

/// The text report after the last pair, when the sums are known.
struct DiffText<'r, 'o> {
    total: &'r DiffTotals,
    roots: ComparedRoots<'r>,
    text: Text<'o>,
}

/// A line of the table of GPUs.
struct GpuRow<'r> {
    name: &'r str,
    gpu: GpuDiff,
    presence: Presence,
}

impl GpuRow<'_> {
    /// Returns the difference of the sizes in percent, as text. It is empty if the old or the new files have no code of
    /// this name.
    fn percentage(&self) -> String {
        match self.presence {
            Presence::Both => difference(&self.gpu, |difference| percent(difference, self.gpu.old.stored)),
            _ => String::new(),
        }
    }

    /// Returns the last cell of a row: the numbers of code objects that differ, or a word for a GPU that only the old
    /// or the new files have.
    fn note(&self) -> Cell {
        let name = self.presence.name().to_owned();
        match self.presence {
            Presence::Both => Cell::Text(changed_objects(&self.gpu)),
            Presence::Replaced => Cell::Text(name),
            Presence::Lost => Cell::Toned(Tone::Bad, name),
            Presence::Gained => Cell::Toned(Tone::Good, name),
        }
    }

    /// Returns the key that sorts rows: GPUs that are lost, GPUs that are gained, then GPUs with the largest
    /// difference.
    fn sort_key(&self) -> Reverse<(u8, u64)> {
        let rank = match self.presence {
            Presence::Lost => 2,
            Presence::Gained => 1,
            Presence::Replaced | Presence::Both => 0,
        };
        Reverse((rank, self.gpu.new.stored.abs_diff(self.gpu.old.stored)))
    }
}

/// Returns a column with a number of each GPU.
fn gpu_column<'c, 'r>(title: &'static str, number: fn(&GpuDiff) -> String) -> Column<'c, GpuRow<'r>> {
    Column::number(title, move |row: &GpuRow<'r>| number(&row.gpu))
}

impl DiffText<'_, '_> {
    /// Writes the title with the number of differences, and the GPUs that are lost or gained.
    fn write_head(&mut self, title: &str) -> io::Result<()> {
        let (all, total) = (self.total.all(), self.total);
        let (changed, equal) = (changed_objects(&all), grouped(total.summary.code_objects.equal));
        let has_code = all.old.code_objects > 0 || all.new.code_objects > 0;
        let facts = if !has_code && total.pairs == 0 {
            "nothing was compared".to_owned()
        } else if !has_code {
            "no code objects to compare in either".to_owned()
        } else if changed.is_empty() {
            format!("no differences in device code; code objects compared: {equal}")
        } else {
            format!("code objects: {changed}, {equal} equal")
        };
        self.text.write_heading(title, &format!(": {facts}"))?;
        let presences = [("GPUs lost", Presence::Lost, Tone::Bad), ("GPUs gained", Presence::Gained, Tone::Good)];
        for (title, presence, tone) in presences {
            let names: Vec<&str> = total.names(presence).map(short_target).collect();
            if !names.is_empty() {
                self.text.write_toned_item(tone, &format!("{title}: {}", names.join(", ")))?;
            }
        }
        // GPUs without any code are named in the lines above.
        for loss in total.partial_losses() {
            self.text.write_toned_item(Tone::Bad, &loss.text(self.roots.library_text(loss)))?;
        }
        Ok(())
    }

    /// Writes the number of code objects that are equal only by recorded hashes or checksums.
    fn write_not_read(&mut self) -> io::Result<()> {
        let summary = &self.total.summary;
        match summary.equal_by_hash + summary.equal_by_checksum {
            0 => Ok(()),
            number => {
                let objects = count(number, "code object", "code objects");
                self.text.write_line(&format!("equal by their recorded hash or checksum only, not read: {objects}"))
            }
        }
    }

    /// Writes the sizes by GPU.
    fn write_gpus(&mut self) -> io::Result<()> {
        // GPUs whose code objects are all equal are listed only if no code object differs. Otherwise their stored
        // sizes may differ only because they share compressed bundles with code that changed.
        let has_changes = self.total.gpus.iter().any(|gpu| has_changed_objects(&gpu.numbers));
        let mut rows = Vec::new();
        for GpuTotal { target_id, presence, numbers: gpu, .. } in &self.total.gpus {
            let is_listed = has_changed_objects(gpu) || !has_changes && gpu.old.stored != gpu.new.stored;
            if is_listed {
                rows.push(GpuRow { name: short_target(target_id), gpu: *gpu, presence: *presence });
            }
        }
        if rows.is_empty() {
            return Ok(());
        }
        rows.sort_by_key(GpuRow::sort_key);
        // The sum is the last row, so it is added after sorting.
        rows.push(GpuRow { name: "all", gpu: self.total.all(), presence: Presence::Both });
        let columns = vec![
            Column::label("GPU", |row: &GpuRow<'_>| Cell::Bold(row.name.to_owned())),
            gpu_column("OBJECTS", |gpu| old_to_new(gpu.old.code_objects, gpu.new.code_objects, grouped)),
            gpu_column("OLD", |gpu| bytes(gpu.old.stored)),
            gpu_column("NEW", |gpu| bytes(gpu.new.stored)),
            Column { when_narrow: WhenNarrow::Stays, ..gpu_column("DIFFERENCE", |gpu| difference(gpu, bytes)) },
            Column::number("", GpuRow::percentage),
            Column::name("", GpuRow::note),
        ];
        self.text.write_table(Table { indent: INDENT, columns }, || rows.iter())
    }

    /// Writes the numbers of kernels, and the table of the kernels that differ. Writes nothing if no code object that
    /// differs has kernels.
    fn write_kernels(&mut self, rows: &KernelRows) -> io::Result<()> {
        let Counts { equal, changed, added, removed, .. } = self.total.summary.kernels;
        if changed + added + removed + equal == 0 {
            return Ok(());
        }
        let places = KernelPlaces::new(&rows.kept, &self.roots);
        self.text.write_item(&self.kernels_line(rows, &places))?;
        let mut listed = Vec::new();
        for (row, place) in rows.kept.iter().zip(places.shown()) {
            listed.push(ListedKernel { place: Some(place), ..listed_kernel(row) });
        }
        let place_column = if places.are_equal { PlaceColumn::None } else { PlaceColumn::File };
        // `--sort` of `kernels` sorts by a column. These rows are sorted by `severity`.
        let sort_key = None;
        kernels::table::write_kernels(|| listed.iter().copied(), place_column, sort_key, INDENT, &mut self.text)
    }

    /// Returns the line before the table of kernels: their numbers, and which of them the table lists.
    fn kernels_line(&self, rows: &KernelRows, places: &KernelPlaces) -> String {
        let Counts { equal, changed, added, removed, .. } = self.total.summary.kernels;
        let differing = changed + added + removed;
        let mut numbers = Vec::new();
        if differing > 0 {
            numbers.push(change_numbers(changed, added, removed));
        }
        if equal > 0 {
            numbers.push(format!("{} without a difference in numbers", grouped(equal)));
        }
        let mut line = format!("kernels: {}", numbers.join(", "));
        if rows.repeats > 0 {
            let number = grouped(rows.repeats);
            line.push_str(&format!("; not listed: {number} of relocatable code that linked code has too"));
        }
        let mut notes = Vec::new();
        // Repeats count as kernels that differ, but have no rows.
        if rows.kept.len() < differing - rows.repeats && !rows.kept.is_empty() {
            notes.push(format!("the first {}", grouped(rows.kept.len())));
        }
        notes.extend(places.note());
        if !notes.is_empty() {
            line.push_str(&format!("; {}:", notes.join(", ")));
        }
        line
    }
}

/// The places of the listed kernels.
struct KernelPlaces {
    texts: Vec<String>,
    /// The length in bytes of the directory that all texts begin with. The table leaves it out.
    common_len: usize,
    /// Whether all places are the same, so that the table needs no column for them.
    are_equal: bool,
}

impl KernelPlaces {
    /// Returns the places of the kernels in these rows, in their order.
    fn new(rows: &[KernelRow], roots: &ComparedRoots<'_>) -> Self {
        let mut texts = Vec::new();
        for row in rows {
            texts.push(roots.place_text(&row.diff.code_object.bundle.place));
        }
        let mut common_len = common_directory(texts.iter().map(String::as_str));
        // A path inside a package says nothing without the package. So only the directory of the package is left out,
        // and not a directory in it.
        if let Some(first) = texts.first()
            && let Some((package, _)) = first.get(..common_len).unwrap_or_default().split_once('(')
        {
            common_len = common_directory([package].into_iter());
        }
        let are_equal = texts.windows(2).all(|pair| matches!(pair, [one, other] if one == other));
        Self { texts, common_len, are_equal }
    }

    /// Returns the places without the common directory, in the order of the kernels.
    fn shown(&self) -> impl Iterator<Item = &str> {
        self.texts.iter().map(|text| text.get(self.common_len..).unwrap_or(text))
    }

    /// Returns a note on the part that all places have in common. Returns `None` if they have nothing in common, or if
    /// all are the compared files themselves, which the title names.
    fn note(&self) -> Option<String> {
        let first = self.texts.first()?;
        let directory = first.get(..self.common_len).unwrap_or_default();
        // A place that begins with a parenthesis is a section of the compared file.
        if self.are_equal && !first.is_empty() && !first.starts_with('(') {
            Some(format!("all in {first}"))
        } else if !self.are_equal && !directory.is_empty() {
            Some(format!("in files of {directory}"))
        } else {
            None
        }
    }
}

fn has_changed_objects(gpu: &GpuDiff) -> bool {
    gpu.changed > 0 || gpu.added > 0 || gpu.removed > 0
}

/// Returns the difference of the stored sizes with its sign, or an empty text if they are equal.
fn difference(GpuDiff { old, new, .. }: &GpuDiff, text: impl Fn(u64) -> String) -> String {
    match new.stored.abs_diff(old.stored) {
        0 => String::new(),
        difference => format!("{}{}", if new.stored < old.stored { "-" } else { "+" }, text(difference)),
    }
}

/// Returns the row for a kernel with its demangled name. The caller adds the place.
fn listed_kernel(KernelRow { diff: kernel, name, .. }: &KernelRow) -> ListedKernel<'_> {
    ListedKernel {
        gpu: &kernel.gpu,
        code_object: &kernel.code_object,
        place: None,
        name,
        change: Some(kernel.change()),
        old: kernel.old.as_ref(),
        new: kernel.new.as_ref(),
    }
}

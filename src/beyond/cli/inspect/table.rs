//! The text report of `inspect`: a table for each place, and the totals for each GPU.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::io;

use crate::base::display::{printable, printable_start};
use crate::beyond::base::text::listed;
use crate::beyond::codec::Codec;
use crate::beyond::inventory::{
    BundleContents, Contents, Coverage, Libraries, LibrariesBuilder, MemberCopies, Need, UnreadPart,
};
use crate::beyond::job::InspectTotal;
use crate::beyond::scan::{Format, Place, Sizes, Step};

use super::answer::{self, Servers};
use super::lines::{Line, LineColumns, Scale, TableRows, add_served, group_lines, write_lines};
use super::sort_by_need;
use crate::beyond::cli::print::names::{NameOfWheel, short_names};
use crate::beyond::cli::print::out::Buffer;
use crate::beyond::cli::print::text::{Text, Tone};
use crate::beyond::cli::print::units::{CountsByKind, bytes, count, first};

/// The text report. Files are added one at a time.
///
/// A single library has its own tables. Several libraries share a table of GPUs and a table of libraries. So without
/// `--each`, the report is written only after the last file.
pub(super) struct InspectTables<'o> {
    rows: TableRows,
    text: Text<'o>,
    total: InspectTotal,
    /// The number of tables that `--each` writes, one for each group of bundles.
    tables: usize,
    /// The heading of the first file, if it has code: its name, and the text after it.
    heading: Option<(String, String)>,
    /// The file of the first library, as long as there is no second one.
    only_file: Option<Contents>,
    /// The libraries of all files, once there are several.
    libraries: LibrariesBuilder,
    /// The texts about files without tables: about files before the only library, and about files after it.
    notes: [Buffer; 2],
    /// The lines about copies in files with tables.
    copies: Vec<String>,
    /// The paths of the first files with tables, each with what a machine needs to read the code.
    needs: Vec<(String, Vec<Need>)>,
    /// The unread parts of files with tables.
    unread: CountsByKind,
    /// Whether no file has a text so far.
    is_silent: bool,
    /// Whether the last text is a table, so that an empty line comes before the next text.
    is_after_table: bool,
}

/// The largest number of files of which each has a line with its own needs.
const OWN_NEEDS_MAX: usize = 6;

impl<'o> InspectTables<'o> {
    pub(super) fn new(rows: TableRows, text: Text<'o>) -> Self {
        Self {
            rows,
            text,
            total: InspectTotal::default(),
            tables: 0,
            heading: None,
            only_file: None,
            libraries: LibrariesBuilder::default(),
            notes: Default::default(),
            copies: Vec::new(),
            needs: Vec::new(),
            unread: CountsByKind::default(),
            is_silent: true,
            is_after_table: false,
        }
    }

    /// Adds a file. With `--each`, writes its tables at once. Otherwise keeps what the report will need. A file that
    /// was found in a directory and has no device code counts only in the totals, because most files there have none.
    pub(super) fn add_file(&mut self, file: Contents, is_named: bool) -> io::Result<()> {
        self.total.add(&file);
        self.tables += groups_by_place(&file.bundles).count();
        // A report about a single file has the heading of this file. With more files, this heading is not used.
        if !file.bundles.is_empty() && self.total.files == 1 {
            self.heading = Some((file.path.to_string_lossy().into_owned(), facts(&file)));
        }
        // A summary never gets to `keep`, which adds the libraries for other reports.
        if self.rows == TableRows::Gpus {
            self.libraries.add(&file);
        }
        let is_listed = is_named
            || !file.bundles.is_empty()
            || file.unread.iter().any(|part| part.what.is_device_code())
            || !file.references.is_empty();
        if self.rows.is_summary() || !is_listed {
            return Ok(());
        }
        self.is_silent = false;
        if self.rows.is_one_per_object() {
            if self.is_after_table {
                self.text.write_empty_line()?;
            }
            write_file(&file, self.rows, &mut self.text)?;
            self.is_after_table = !file.bundles.is_empty();
            return self.text.out.flush();
        }
        if file.bundles.is_empty() {
            return self.keep_note(&file);
        }
        self.keep(file);
        Ok(())
    }

    /// Keeps a file with tables, or what a report about several libraries needs of it, until all files are read.
    fn keep(&mut self, file: Contents) {
        for part in &file.unread {
            self.unread.add(part.what.name(), 1);
        }
        if self.needs.len() <= OWN_NEEDS_MAX {
            self.needs.push((file.path.to_string_lossy().into_owned(), file.needs()));
        }
        let room = COPIES_MAX.saturating_sub(self.copies.len());
        self.copies.extend(copies_lines(&file.copies).take(room));
        // A single library has its own tables, so its file is kept until a second library follows.
        if self.total.libraries == 1 {
            self.only_file = Some(file);
            return;
        }
        if let Some(first) = self.only_file.take() {
            self.libraries.add(&first);
        }
        self.libraries.add(&file);
    }

    /// Keeps the text about a file without a table until all files are read. If there is only one library, its tables
    /// come between the texts, so that all follow the order of files.
    fn keep_note(&mut self, file: &Contents) -> io::Result<()> {
        let [before, after] = &mut self.notes;
        let notes = if self.total.libraries == 0 { before } else { after };
        write_file(file, self.rows, &mut Text { style: self.text.style, out: notes.out() })
    }

    /// Writes everything that was kept, and the totals. Call it after the last file. With `--each`, the texts of all
    /// files are written already, and only the totals follow.
    pub(super) fn write_rest(mut self) -> io::Result<()> {
        let libraries = std::mem::take(&mut self.libraries).finish();
        if self.rows.is_summary() {
            return write_summary(&self.total, self.rows, &libraries, &mut self.text);
        }
        if !self.rows.is_one_per_object() && self.total.libraries > 1 {
            return self.write_several_libraries(&libraries);
        }
        // With `--each`, nothing was kept. Otherwise there is at most one library: `only_file` has it, and the notes
        // are the texts about files before it and after it.
        let Self {
            rows,
            mut text,
            total,
            tables,
            only_file,
            notes: [before, after],
            is_silent,
            mut is_after_table,
            ..
        } = self;
        text.out.write_buffer(&before)?;
        if let Some(file) = only_file {
            write_file(&file, rows, &mut text)?;
            is_after_table = true;
        }
        let has_total = rows.is_one_per_object() && tables > 1;
        let has_unknown_kinds = total.gpus.iter().any(|gpu| gpu.has_unknown_kind);
        if is_after_table && (after.len() > 0 || has_total || has_unknown_kinds) {
            text.write_empty_line()?;
        }
        text.out.write_buffer(&after)?;
        if has_total {
            write_total(&total, &mut text)?;
        }
        if has_unknown_kinds {
            text.write_line("?: not inflated; use --inflate to see the kind")?;
        }
        // Without any other line, the report says why it is empty. If no file could be read, the errors say that.
        if !is_silent || total.files == 0 {
            return Ok(());
        }
        if total.unread.is_empty() {
            return text.write_line("no device code found");
        }
        text.write_line(&format!("no device code found; not read: {}", CountsByKind(total.unread)))
    }

    /// Writes the report about several libraries: the table of GPUs, the table of libraries, and notes.
    fn write_several_libraries(self, libraries: &Libraries) -> io::Result<()> {
        let Self { mut text, total, .. } = self;
        match &self.heading {
            Some((name, rest)) if total.files == 1 => text.write_heading(name, rest)?,
            _ => write_total_heading(&total, &mut text)?,
        }
        let is_full = false;
        write_gpus(&total, is_full, libraries, &mut text)?;
        // Files of a directory that serve GPUs together are one library. A table of one would only repeat the totals.
        if libraries.iter().count() > 1 {
            answer::write_libraries(libraries, total.is_compressed, &mut text)?;
        }
        write_unfound(&total.coverage, &mut text)?;
        for line in &self.copies {
            text.write_item(line)?;
        }
        if self.unread.total() > 0 {
            text.write_item(&format!("not read: {}", self.unread))?;
        }
        if total.files_with_missing > 0 {
            text.write_item(&missing_text(&total))?;
        }
        let first_needs = self.needs.first().map(|(_, needs)| needs);
        let are_needs_equal = self.needs.iter().all(|(_, needs)| Some(needs) == first_needs);
        if are_needs_equal || self.needs.len() > OWN_NEEDS_MAX {
            write_needs(NEEDS, &total.needs.newest(), &mut text)?;
        } else {
            let paths: Vec<&str> = self.needs.iter().map(|(path, _)| path.as_str()).collect();
            for (name, (_, needs)) in short_names(&paths, NameOfWheel::Short).iter().zip(&self.needs) {
                write_needs(&format!("{} {NEEDS}", printable(name)), needs, &mut text)?;
            }
        }
        for notes in &self.notes {
            text.out.write_buffer(notes)?;
        }
        text.write_line("more: --matrix (GPUs by library), --each (code objects), --gpus (products)")
    }
}

/// Writes the text about a file: its tables, copies of members, references to kpack archives, unread parts and needs. A
/// file without bundles has no tables, but the reason in its heading. With `--each`, the needs are left out.
fn write_file(file: &Contents, rows: TableRows, text: &mut Text<'_>) -> io::Result<()> {
    let name = file.path.to_string_lossy();
    if let Some(reason) = reason_without_table(file) {
        text.write_heading(&name, &format!(": {reason}"))?;
        write_references(file, text)?;
        return write_unread(file, text);
    }
    text.write_heading(&name, &facts(file))?;
    // Files that consist of bundles, as compilers write them, have few entry IDs. Other files may have too many to
    // list.
    let consists_of_bundles = file.bundles.iter().all(|bundle| bundle.info.container().is_empty());
    if rows.is_one_per_object() || consists_of_bundles {
        write_groups(file, rows, text)?;
    } else {
        let coverage = write_gpus_of(file, text)?;
        write_places(file, text)?;
        write_unfound(&coverage, text)?;
    }
    for line in copies_lines(&file.copies).take(COPIES_MAX) {
        text.write_item(&line)?;
    }
    write_references(file, text)?;
    write_unread(file, text)?;
    if rows.is_one_per_object() { Ok(()) } else { write_needs(NEEDS, &file.needs(), text) }
}

/// Writes a table for each group of bundles, with a line for each entry ID or, with `--each`, for each code object.
/// Without `--each`, a table of GPUs comes first if there are several groups.
fn write_groups(file: &Contents, rows: TableRows, text: &mut Text<'_>) -> io::Result<()> {
    let mut groups: Vec<(&[BundleContents], Vec<Line>)> = Vec::new();
    let coverage = file.coverage_by_container();
    for group in groups_by_place(&file.bundles) {
        let mut lines = group_lines(group, rows);
        if !rows.is_one_per_object()
            && let Some(first) = group.first()
            && let Some(coverage) = coverage.get(first.info.container())
        {
            add_served(&mut lines, coverage);
        }
        groups.push((group, lines));
    }
    let scale = Scale::new(groups.iter().flat_map(|(_, lines)| lines));
    // The coverage that the table of GPUs shows, or `None` without this table.
    let shown_coverage =
        if !rows.is_one_per_object() && groups.len() > 1 { Some(write_gpus_of(file, text)?) } else { None };
    for (bundles, lines) in &groups {
        text.write_subheading(&group_heading(&bundles.iter().collect::<Vec<_>>()))?;
        let columns = LineColumns {
            title: "ENTRY ID",
            has_kinds: true,
            // The table of GPUs, if there is one, has the products.
            has_products: !rows.is_one_per_object() && shown_coverage.is_none(),
            is_compressed: bundles.iter().any(BundleContents::is_compressed),
        };
        write_lines(lines, scale, columns, text)?;
    }
    // The table of GPUs has the numbers of bundles that serve each GPU. With `--each`, such a table comes after the
    // last file.
    match shown_coverage {
        Some(coverage) => write_unfound(&coverage, text),
        None if groups.len() == 1 => write_incomplete(&file.coverage(), text),
        None => Ok(()),
    }
}

/// Writes a table of the GPUs that a file has code for. Returns which of them its bundles serve.
fn write_gpus_of(file: &Contents, text: &mut Text<'_>) -> io::Result<Coverage> {
    let mut total = InspectTotal::default();
    total.add(file);
    let is_full = false;
    answer::write(&gpu_lines(&total), Servers::Bundles(&total.coverage), (is_full, total.is_compressed), text)?;
    Ok(total.coverage)
}

/// The largest number of groups of bundles that a report about GPUs names.
const GROUPS_MAX: usize = 8;

/// Writes a line for each of the first places of a file with bundles, and the number of the other places.
fn write_places(file: &Contents, text: &mut Text<'_>) -> io::Result<()> {
    // The bundles of a place may be compressed and plain in turn. Each kind of them has one line.
    let mut groups: Vec<Vec<&BundleContents>> = Vec::new();
    let mut index_by_key: HashMap<GroupKey<'_>, usize> = HashMap::new();
    for bundle in &file.bundles {
        let index = *index_by_key.entry(group_key(bundle)).or_insert(groups.len());
        match groups.get_mut(index) {
            Some(group) => group.push(bundle),
            None => groups.push(vec![bundle]),
        }
    }
    let (named, more) = first(&groups, GROUPS_MAX);
    for bundles in named {
        text.write_item(&group_heading(bundles))?;
    }
    match more {
        0 => Ok(()),
        more => text.write_item(&format!("{} (--each)", count(more, "more place", "more places"))),
    }
}

fn write_unfound(coverage: &Coverage, text: &mut Text<'_>) -> io::Result<()> {
    unfound_lines(coverage).iter().try_for_each(|line| text.write_toned_item(Tone::Bad, line))
}

/// The label of the needs of all files. Those of one file have its name before it.
const NEEDS: &str = "needs";

/// Writes what a machine needs to read the code, after `label`. Writes nothing if there are no needs.
fn write_needs(label: &str, needs: &[Need], text: &mut Text<'_>) -> io::Result<()> {
    if needs.is_empty() {
        return Ok(());
    }
    let needs: Vec<String> = needs.iter().map(Need::to_string).collect();
    text.write_item(&format!("{label}: {}", needs.join("; ")))
}

/// Returns the text after the name of a file: the size of the file, and the sizes of its code objects.
fn facts(file: &Contents) -> String {
    let sizes: Sizes = file.bundles.iter().map(BundleContents::sizes).sum();
    format!(": {}, code objects {}", bytes(file.size), size_text(&sizes))
}

/// Returns the reason why a file has no table, or `None` if it has one.
fn reason_without_table(file: &Contents) -> Option<&'static str> {
    let Contents { bundles, problems, unread, references, .. } = file;
    if !bundles.is_empty() {
        None
    } else if !references.is_empty() {
        Some("device code in kpack archives")
    } else if !problems.is_empty() {
        Some("nothing readable")
    } else if !unread.is_empty() {
        Some("no readable device code")
    } else {
        Some("no device code")
    }
}

/// The largest number of lines about copies, and of copies that a line names.
const COPIES_MAX: usize = 40;
const NAMED_COPIES_MAX: usize = 3;

/// Returns a line for each member that has copies: their number, their sizes, and the names of the first ones.
fn copies_lines(copies: &[MemberCopies]) -> impl Iterator<Item = String> {
    copies.iter().map(|MemberCopies { first, copies, size, stored, .. }| {
        let number = count(copies.len(), "copy", "copies");
        let sizes = size_text(&Sizes { size: *size, stored: *stored, ..Sizes::default() });
        let names = listed(copies.iter().filter_map(Place::member), NAMED_COPIES_MAX, ", ", " and ");
        format!("{number} of {first}: {sizes}: {names}")
    })
}

/// The longest list of search paths, in characters.
const PATHS_MAX: usize = 500;

/// Lists the references to kpack archives, and the number of archives that were found.
fn write_references(file: &Contents, text: &mut Text<'_>) -> io::Result<()> {
    for reference in &file.references {
        let paths = printable_start(&reference.search_paths.join(", "), PATHS_MAX);
        let found = match reference.archives.as_deref() {
            None => "kpack archives (not searched)".to_owned(),
            Some([]) => "no kpack archive found".to_owned(),
            Some(archives) => {
                let lack = if reference.code_objects == 0 { "no code for this library in " } else { "" };
                format!("{lack}{}", count(archives.len(), "kpack archive", "kpack archives"))
            }
        };
        text.write_item(&format!("{}{found} at {paths}", prefix(reference.place.steps())))?;
    }
    Ok(())
}

/// The maximum number of lines for unread parts of a file.
const UNREAD_MAX: usize = 100;

/// Lists the unread parts of a file by their places.
fn write_unread(file: &Contents, text: &mut Text<'_>) -> io::Result<()> {
    let mut places = file.unread.chunk_by(|one, next| one.place == next.place);
    // The first places have a line each. The parts in all other places share one.
    for parts in places.by_ref().take(UNREAD_MAX) {
        let [first, others @ ..] = parts else { continue };
        let prefix = prefix(first.place.steps());
        if others.is_empty() {
            text.write_item(&format!("{prefix}not read: {}", first.what.name()))?;
        } else {
            text.write_item(&format!("{prefix}not read: {}", kinds_of(parts)))?;
        }
    }
    let others = kinds_of(places.flatten());
    if others.total() > 0 {
        text.write_item(&format!("not read, too: {others}"))?;
    }
    Ok(())
}

/// Counts unread parts by the kind of data.
fn kinds_of<'p>(parts: impl IntoIterator<Item = &'p UnreadPart>) -> CountsByKind {
    let mut kinds = CountsByKind::default();
    for part in parts {
        kinds.add(part.what.name(), 1);
    }
    kinds
}

/// Returns the inflated size of code objects, and the stored size if it differs.
fn size_text(sizes: &Sizes) -> String {
    if sizes.stored == sizes.size {
        bytes(sizes.size)
    } else {
        format!("{}, stored in {}", bytes(sizes.size), bytes(sizes.stored))
    }
}

/// Groups bundles that follow each other by place, format, and whether they are compressed.
fn groups_by_place(bundles: &[BundleContents]) -> impl Iterator<Item = &[BundleContents]> {
    bundles.chunk_by(|one, next| group_key(one) == group_key(next))
}

/// The place of a bundle, its format, and whether it is compressed.
type GroupKey<'b> = (&'b [Step], Format, bool);

fn group_key(bundle: &BundleContents) -> GroupKey<'_> {
    let info = &bundle.info;
    (info.container(), info.format, info.compressed.is_some())
}

/// Returns the heading of a group: its place, its format, the number of its bundles, and their compression.
fn group_heading(group: &[&BundleContents]) -> String {
    let Some(first) = group.first() else { return String::new() };
    let (one, many) = first.info.format.row().counted;
    let mut text = match first.info.format {
        Format::Kpack => count_in_kpack(group),
        Format::DeviceImages => count(group.iter().map(|bundle| bundle.code_objects.len()).sum(), one, many),
        _ => count(group.len(), one, many),
    };
    // Whole bundles may be compressed, or each code object in them on its own (`codecs`).
    if let Some(recorded) = first.info.compressed {
        let stored = group.iter().map(|bundle| bundle.stored()).sum();
        text.push_str(&format!(", {} in {}", recorded.method.name(), bytes(stored)));
    }
    let codecs: BTreeSet<&str> = group.iter().flat_map(|bundle| bundle.codecs()).map(Codec::name).collect();
    if !codecs.is_empty() {
        let are_all_compressed = group.iter().all(|bundle| bundle.codecs().count() == bundle.code_objects.len());
        let names = codecs.into_iter().collect::<Vec<_>>().join(" and ");
        text.push_str(&format!(", {}{names}", if are_all_compressed { "" } else { "partly " }));
    }
    prefix(first.info.container()) + &text
}

/// Returns a text with the number of code objects, and of the kpack archives that hold them.
fn count_in_kpack(group: &[&BundleContents]) -> String {
    let objects = group.iter().map(|bundle| bundle.code_objects.len()).sum();
    let archives: BTreeSet<_> = group.iter().map(|bundle| bundle.info.place.other_file()).collect();
    let archives = if archives.len() == 1 { "a kpack archive" } else { &format!("{} kpack archives", archives.len()) };
    format!("{} in {archives}", count(objects, "code object", "code objects"))
}

/// Returns the steps from a file to a place, as the prefix of a text about the place.
fn prefix(steps: &[Step]) -> String {
    let steps: Vec<String> = steps.iter().map(Step::to_string).collect();
    if steps.is_empty() { String::new() } else { steps.join(" > ") + ": " }
}

/// The largest number of GPUs that are listed because not all bundles serve them.
const INCOMPLETE_MAX: usize = 8;

/// Writes a line that names the first GPUs which some bundles serve and others do not, and the lines of
/// [`unfound_lines`].
fn write_incomplete(coverage: &Coverage, text: &mut Text<'_>) -> io::Result<()> {
    let Some(mut gpus) = coverage.gpus() else {
        return text.write_item("too many GPUs and bundles to tell which bundles serve which GPU");
    };
    sort_by_need(&mut gpus);
    gpus.retain(|(_, served)| !served.is_complete());
    let (listed, more) = first(&gpus, INCOMPLETE_MAX);
    let mut listed: Vec<String> =
        listed.iter().map(|(gpu, served)| format!("{gpu} ({})", served.without_implied_jit(gpu))).collect();
    if more > 0 {
        listed.push(format!("{more} more (--gpus lists all)"));
    }
    if !listed.is_empty() {
        text.write_toned_item(Tone::Bad, &format!("not served by all bundles: {}", listed.join(", ")))?;
    }
    write_unfound(coverage, text)
}

/// The largest number of entry IDs that are listed with the reason why a runtime does not find their code.
const UNFOUND_MAX: usize = 3;

/// Returns a line for each of the first entry IDs whose code runtimes do not find or load, so that it never runs, and a
/// line with the number of further ones.
pub(super) fn unfound_lines(coverage: &Coverage) -> Vec<String> {
    let unfound = coverage.unfound();
    let (listed, more) = first(&unfound, UNFOUND_MAX);
    let mut lines = listed.to_vec();
    if more > 0 {
        let ids = count(more, "more entry ID", "more entry IDs");
        lines.push(format!("{ids} whose code the runtime does not find or load"));
    }
    lines
}

/// Writes the total of all files: a heading, a table with a line for each GPU, largest first, and the GPUs that not all
/// bundles serve.
fn write_total(total: &InspectTotal, text: &mut Text<'_>) -> io::Result<()> {
    let mut lines = gpu_lines(total);
    add_served(&mut lines, &total.coverage);
    lines.sort_by_key(|line| Reverse(line.sizes.stored));
    let scale = Scale::new(lines.iter());
    write_total_heading(total, text)?;
    let columns = LineColumns {
        title: "GPU",
        // A GPU may have code of several kinds.
        has_kinds: false,
        has_products: true,
        is_compressed: total.is_compressed,
    };
    write_lines(&lines, scale, columns, text)?;
    write_incomplete(&total.coverage, text)
}

fn write_total_heading(total: &InspectTotal, text: &mut Text<'_>) -> io::Result<()> {
    let objects = count(total.sizes.code_objects, "code object", "code objects");
    let files = count(total.files_with_bundles, "file", "files");
    let no_rest = "";
    text.write_heading(&format!("Total: {objects} in {files}, {}", size_text(&total.sizes)), no_rest)
}

/// Writes the table of the GPUs by generation, with products, and with the number of libraries or bundles that
/// serve each, or with a column for each of several files. If `is_full`, GPUs do not share lines and have all their
/// products, see [`answer::write`].
fn write_gpus(total: &InspectTotal, is_full: bool, libraries: &Libraries, text: &mut Text<'_>) -> io::Result<()> {
    let servers = if libraries.iter().filter(|library| library.has_bundles()).count() > 1 {
        Servers::Libraries(libraries)
    } else {
        Servers::Bundles(&total.coverage)
    };
    answer::write(&gpu_lines(total), servers, (is_full, total.is_compressed), text)
}

/// Returns the line with the number of files whose kpack archives have no code for them.
fn missing_text(total: &InspectTotal) -> String {
    format!("No code found in kpack archives for {}", file_count(total.files_with_missing))
}

/// Writes the report of `--summary` or `--gpus`: the table of GPUs, and a line for each kind of files that are not
/// in the table.
fn write_summary(total: &InspectTotal, rows: TableRows, libraries: &Libraries, text: &mut Text<'_>) -> io::Result<()> {
    if total.files_with_bundles > 0 && rows == TableRows::Gpus {
        write_total_heading(total, text)?;
        let is_full = true;
        write_gpus(total, is_full, libraries, text)?;
    } else if total.files_with_bundles > 0 {
        write_total(total, text)?;
    }
    let is_empty = total.files_with_bundles == 0
        && total.files_broken == 0
        && total.files_with_unread == 0
        && total.files_with_references_only == 0;
    // A summary without any other line says that no device code is in 0 files.
    if total.files_without_device_code > 0 || is_empty {
        text.write_line(&format!("No device code in {}", file_count(total.files_without_device_code)))?;
    }
    if total.files_broken > 0 {
        text.write_line(&format!("Nothing readable in {}", file_count(total.files_broken)))?;
    }
    if total.files_with_references_only > 0 {
        text.write_line(&format!("Device code of {} in kpack archives", file_count(total.files_with_references_only)))?;
    }
    if total.files_with_missing > 0 {
        text.write_line(&missing_text(total))?;
    }
    if total.files_with_unread > 0 {
        let kinds = CountsByKind(total.unread.clone());
        text.write_line(&format!("Not read in {}: {}", file_count(total.files_with_unread), kinds))?;
    }
    Ok(())
}

/// Returns a line for each GPU.
fn gpu_lines(total: &InspectTotal) -> Vec<Line> {
    total.gpus.iter().map(Line::of_gpu).collect()
}

fn file_count(number: usize) -> String {
    count(number, "file", "files")
}

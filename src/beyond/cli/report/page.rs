//! The page: a template, its styles and its script, the pictures, and the data of the tables.

use std::collections::HashMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use crate::base::display::is_shown;
use crate::beyond::base::text::file_name;
use crate::beyond::codec::Codec;
use crate::beyond::inventory::LibrariesBuilder;
use crate::beyond::job::DiffTotals;
use data_encoding::BASE64;
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::changes;
use super::columns::Columns;
use crate::beyond::cli::picture::{self, Canvas, Matrix, PicturedLibraries, Served, escaped};
use crate::beyond::cli::print::json::push_escaped;
use crate::beyond::cli::print::names::{NameOfWheel, short_names};
use crate::beyond::cli::print::problem::Problem;
use crate::beyond::cli::print::units::{bytes, count, grouped};

const TEMPLATE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// The widths and heights of the map on wide, middle and narrow screens, with their classes in the styles.
const SCREENS: [(u64, u64, &str); 3] = [(1120, 480, "wide"), (720, 460, "middle"), (350, 440, "narrow")];

/// Data of the tables is compressed if it has at least this many bytes. Smaller data stays readable in the page.
const COMPRESSED_MIN: usize = 32 << 10;

/// The strongest compression of zlib.
const LEVEL: i32 = 9;

/// The most rows in the table of sizes, which replaces the map for readers of screens.
const SIZES_MAX: usize = 500;

/// The contents of the page.
#[derive(Debug, Default)]
pub(super) struct Page {
    /// The number of files that were read.
    pub(super) files: usize,
    pub(super) libraries: LibrariesBuilder,
    pub(super) kernels: Columns,
    /// The number of code objects whose kernels have no registers yet, such as PTX, which is compiled later.
    pub(super) without_registers: usize,
    pub(super) changes: Option<Changes>,
}

/// The differences between the old and the new files.
#[derive(Debug)]
pub(super) struct Changes {
    pub(super) total: DiffTotals,
    pub(super) kernels: Columns,
}

/// The data of the tables.
#[derive(Serialize)]
struct Tables<'p> {
    kernels: &'p Columns,
    changes: Option<&'p Columns>,
}

impl Page {
    /// Returns the page about files with these paths. If it has changes, the paths are those of the old and new file.
    pub(super) fn html(mut self, paths: &[PathBuf], problems: &[Problem]) -> anyhow::Result<String> {
        self.kernels.fill_columns();
        let libraries = PicturedLibraries::new(std::mem::take(&mut self.libraries).finish());
        let library_names = libraries.by_path();
        self.kernels.add_libraries(&library_names);
        if let Some(changes) = &mut self.changes {
            changes.kernels.fill_columns();
            changes.kernels.add_libraries(&library_names);
        }
        let tables = Tables { kernels: &self.kernels, changes: self.changes.as_ref().map(|changes| &changes.kernels) };
        let (form, data) = embedded(&serde_json::to_vec(&tables)?);
        let [size, facts] = libraries.summary();
        let title_parts = title_parts(paths);
        let (mut title, mut heading) = (escaped(&title_parts.join("")), title_html(&title_parts));
        let (mut summary, mut changes) = (format!("{size}: {facts}"), String::new());
        // A page about changes begins with the summary and the section of the changes. The summary of the new file
        // comes after them.
        if let (Some(compared), [old, new]) = (&self.changes, paths) {
            let [old, new] = names_of_compared(old, new).map(|name| escaped(&name));
            changes = changes_section(compared, &new, &summary);
            title = format!("{old} → {new}");
            heading = format!("<span>{old} →</span> <span>{new}</span>");
            summary = changes::summary(&compared.total);
        }
        let parts = [
            ("policy", policy()),
            ("title", title),
            ("heading", heading),
            ("style", STYLE.to_owned()),
            ("picture-style", picture::STYLE.to_owned()),
            ("lead", escaped(&summary)),
            ("problems", problem_list(problems)),
            ("changes", changes),
            ("map", map_section(&libraries)),
            ("no-sizes", if libraries.stored() > 0 { "" } else { " hidden" }.to_owned()),
            ("sizes", size_rows(&libraries)),
            ("coverage", coverage_section(&libraries)),
            ("others", self.note_on_registers()),
            ("form", form.to_owned()),
            ("data", data),
            ("script", SCRIPT.to_owned()),
            ("version", env!("CARGO_PKG_VERSION").to_owned()),
        ];
        Ok(fill_template(TEMPLATE, &parts.into_iter().collect()))
    }

    /// Returns the end of the line about kernels: the number of code objects whose kernels are not in the table,
    /// because they have no registers yet. Returns an empty text if there are none.
    fn note_on_registers(&self) -> String {
        match self.without_registers {
            0 => String::new(),
            number => format!("; {} no registers yet", count(number, "code object has", "code objects have")),
        }
    }
}

/// Returns the map of sizes with its legend.
fn map_section(libraries: &PicturedLibraries) -> String {
    if libraries.stored() == 0 {
        return "<p>No device code.</p>\n".to_owned();
    }
    let [size, facts] = libraries.summary();
    let label = format!("Map of sizes: {size}, {facts}. The table of sizes has the numbers.");
    let map = map_for_screens(libraries, &label);
    let names = match libraries.pattern() {
        Some(pattern) => format!(" Names of libraries are the part * of <code>{}</code>.", escaped(&pattern)),
        None => String::new(),
    };
    format!(
        "<p>Stored size by library, section and target.{names}</p>\n\
         <div class=\"map\" data-hint=\"map-hint\" tabindex=\"0\" role=\"group\" aria-label=\"Map of sizes, by arrow keys\">{map}</div>\n\
         <output class=\"hint\" id=\"map-hint\">Point at a rectangle, tap it, or use the arrow keys.</output>\n{}",
        picture::legend(libraries)
    )
}

/// Draws the map once for each width of screens. The style sheet shows one of them.
fn map_for_screens(libraries: &PicturedLibraries, label: &str) -> String {
    let mut maps = String::new();
    for (width, height, class) in SCREENS {
        let mut canvas = Canvas::of_page(width);
        canvas.draw_treemap(libraries, height);
        maps.push_str(&canvas.into_part(label, class));
    }
    maps
}

/// Returns the rows of the table of sizes, largest first: library, section, GPU, and three numbers.
fn size_rows(libraries: &PicturedLibraries) -> String {
    let mut rows = Vec::new();
    for library in libraries.all.iter() {
        rows.extend(picture::sections(library).map(|section| (library, section)));
    }
    rows.sort_by_key(|(_, (_, _, sizes))| std::cmp::Reverse(sizes.stored));
    let mut out = String::new();
    for (library, (section, gpu, sizes)) in rows.iter().take(SIZES_MAX) {
        let texts = [&library.name, *section, *gpu].map(|text| format!("<td>{}</td>", escaped(text))).concat();
        let numbers = [grouped(sizes.code_objects), bytes(sizes.size), bytes(sizes.stored)];
        let numbers = numbers.map(|number| format!("<td class=\"number\">{number}</td>")).concat();
        let _ = writeln!(out, "<tr>{texts}{numbers}</tr>");
    }
    let more = rows.len().saturating_sub(SIZES_MAX);
    if more > 0 {
        let _ = writeln!(out, "<tr><td colspan=\"6\">{}</td></tr>", count(more, "more row", "more rows"));
    }
    out
}

/// Returns the matrices of GPUs with files and libraries, and a legend, or a sentence if there is no matrix.
fn coverage_section(libraries: &PicturedLibraries) -> String {
    let served = Served::new(libraries);
    let matrices = served.matrices();
    let Some((first, others)) = matrices.split_first() else {
        return "<p>There are no bundles to compare, or too many.</p>\n".to_owned();
    };
    let mut html = format!("<p>{}</p>\n{}", escaped(&first.facts), picture::legend_of_matrices(&matrices));
    push_tables(first, &mut html);
    for matrix in others {
        let _ = write!(html, "<h3>{}</h3>\n<p>{}</p>\n", matrix.title, escaped(&matrix.facts));
        push_tables(matrix, &mut html);
    }
    html.push_str(
        "<output class=\"hint\" id=\"matrix-hint\">Point at a cell, tap it, or use the arrow keys.</output>\n",
    );
    html
}

/// Adds the tables of a matrix, each in a part of the page that scrolls sideways.
fn push_tables(matrix: &Matrix<'_>, html: &mut String) {
    for table in matrix.tables() {
        let _ = writeln!(
            html,
            "<div class=\"scroll\" data-hint=\"matrix-hint\" tabindex=\"0\" role=\"region\" \
             aria-label=\"{}\">{table}</div>",
            matrix.title
        );
    }
}

/// Returns the title of the page, in parts between which a line may end: the names of the first files, each with a
/// comma after it unless it is the last, and the number of the others.
fn title_parts(paths: &[PathBuf]) -> Vec<String> {
    const NAMES_MAX: usize = 4;
    let paths: Vec<String> = paths.iter().map(|path| path.to_string_lossy().into_owned()).collect();
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    if let [path] = paths.as_slice() {
        return vec![file_name(path.as_ref())];
    }
    let mut parts = short_names(&paths, NameOfWheel::WithVersion);
    let more = parts.split_off(parts.len().min(NAMES_MAX)).len();
    if more > 0 {
        parts.push(format!("{more} more"));
    }
    let last = parts.len().saturating_sub(1);
    parts.iter_mut().take(last).for_each(|part| part.push_str(", "));
    parts
}

/// Returns the title as HTML. A line may end only between two of its parts.
fn title_html(parts: &[String]) -> String {
    match parts {
        [part] => escaped(part),
        parts => parts.iter().map(|part| format!("<span>{}</span> ", escaped(part.trim_end()))).collect(),
    }
}

/// Returns names that tell two paths apart: the names of the files, or the whole paths if these are the same.
fn names_of_compared(old: &Path, new: &Path) -> [String; 2] {
    let names = [old, new].map(file_name);
    let [old_name, new_name] = &names;
    if old_name == new_name { [old, new].map(|path| path.to_string_lossy().into_owned()) } else { names }
}

/// Returns the section about the differences, and the heading of the sections about the new file: its name `new`,
/// already escaped for HTML, and its summary.
fn changes_section(changes: &Changes, new: &str, summary: &str) -> String {
    format!(
        "<section aria-labelledby=\"changes-title\"><h2 id=\"changes-title\">What changed</h2>\n\
         <p>Stored size of the code for each GPU: {}</p>\n{}\
         <h3>Kernels that differ</h3>\n<div data-table=\"changes\"></div></section>\n\
         <p class=\"kind new-file\">The new file: {}</p>\n<p class=\"kind\">{}</p>\n",
        changes::counts(&changes.total),
        changes::tables(&changes.total),
        new,
        escaped(summary)
    )
}

/// Returns the list of problems as HTML, or an empty text if there are none.
fn problem_list(problems: &[Problem]) -> String {
    if problems.is_empty() {
        return String::new();
    }
    let title = count(problems.len(), "problem", "problems");
    let items: String = problems.iter().map(|problem| format!("<li>{}</li>\n", escaped(&problem.text))).collect();
    format!(
        "<details class=\"problems\" open><summary>{title}: not everything could be read</summary><ul>{items}</ul></details>"
    )
}

/// Returns the Content Security Policy of the page: the browser loads nothing, and runs no script but ours. So a script
/// in the name of a kernel, say, would not run even if it were not escaped.
fn policy() -> String {
    let hash = BASE64.encode(&Sha256::digest(SCRIPT));
    format!(
        "default-src 'none'; script-src 'sha256-{hash}'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
    )
}

/// Returns data for an element of the page, as `page.js` reads it: the name of its form, and the data in this form. The
/// form `zlib` is compressed JSON in base64. Data that is short or cannot be compressed is plain `json`.
fn embedded(json: &[u8]) -> (&'static str, String) {
    // The path is only for errors, which are not shown here.
    if json.len() >= COMPRESSED_MIN
        && let Ok(data) = Codec::Zlib.compress(json, LEVEL, Path::new("-"))
    {
        return ("zlib", BASE64.encode(&data));
    }
    ("json", escaped_json(&String::from_utf8_lossy(json)))
}

/// Escapes all characters of JSON that HTML or an editor interprets.
fn escaped_json(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if is_shown(c) && !matches!(c, '<' | '>' | '&') {
            out.push(c);
        } else {
            push_escaped(&mut out, c);
        }
    }
    out
}

/// Replaces each `{{name}}` in the template by the part of this name, or by nothing if there is no such part. Parts are
/// not searched for names, because they have texts from files.
fn fill_template(template: &str, parts: &HashMap<&str, String>) -> String {
    let mut pieces = template.split("{{");
    let mut out = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        // Our template closes all braces.
        let (name, rest) = piece.split_once("}}").unwrap_or(("", piece));
        if let Some(part) = parts.get(name) {
            out.push_str(part);
        }
        out.push_str(rest);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_no_template() {
        let parts = HashMap::from([("a", "{{b}}".to_owned()), ("b", "x".to_owned())]);
        assert_eq!(fill_template("1{{a}}2{{b}}3{{c}}4", &parts), "1{{b}}2x34");
    }

    #[test]
    fn every_name_of_the_template_has_a_part() {
        let page = Page::default().html(&[], &[]).unwrap();
        assert!(page.contains("</html>") && !page.contains("{{"), "{page}");
        assert!(TEMPLATE.matches("{{").count() >= 16);
    }

    #[test]
    fn data_ends_no_element() {
        let hostile = serde_json::to_string(&["</script><!--", "a & b\u{202e}\u{1f600}"]).unwrap();
        let (form, text) = embedded(hostile.as_bytes());
        assert_eq!((form, text.contains(['<', '>', '&', '\u{202e}'])), ("json", false));
        let back: Vec<String> = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_string(&back).unwrap(), hostile);
    }

    #[test]
    fn the_script_has_at_most_550_lines() {
        assert!(SCRIPT.lines().count() <= 550);
    }
}

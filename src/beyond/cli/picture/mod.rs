//! Pictures of device code: the sizes, and the bundles that serve each GPU. `inspect --svg` writes them as a file, and
//! `report` puts them into its page.

mod colors;
mod library;
mod matrix;
mod matrix_picture;
mod served;
mod treemap;

use std::fmt::Write;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::base::display::printable;
use crate::beyond::container::kpack;
use crate::beyond::inventory::Libraries;
use crate::beyond::job::ensure_directory;
use anyhow::bail;

pub(super) use library::{LibraryName, PicturedLibraries, sections};
pub(super) use matrix::{Matrix, Served};
pub(super) use matrix_picture::legend as legend_of_matrices;
pub(super) use served::{GpuGroup, ServedFile, ServedFiles, ServedLibrary, ServedTable, word_of};
pub(super) use treemap::legend;

/// Returns the picture for `inspect --svg`: the sizes of code in libraries, and the bundles that serve each GPU.
pub(super) fn picture(libraries: Libraries) -> String {
    let libraries = PicturedLibraries::new(libraries);
    let (mut canvas, [title, facts]) = (Canvas::of_file(), libraries.summary());
    canvas.draw_heading(&title, &facts);
    canvas.draw_treemap(&libraries, TREEMAP_HEIGHT);
    canvas.skip(16);
    canvas.draw_legend(&libraries);
    // The matrix of a single bundle would say only that the bundle serves its GPUs.
    if libraries.all.coverage().bundles() > 1 {
        for matrix in Served::new(&libraries).matrices() {
            canvas.skip(16);
            canvas.draw_heading(matrix.title, &matrix.facts);
            matrix.draw(&mut canvas);
        }
    }
    canvas.into_file()
}

/// Fails if the output that `option` names would overwrite an input, or a kpack archive, which an input may refer to.
/// An earlier page or picture may be overwritten, even if it is among the inputs, as a file in an input directory.
/// Fails too if the directory of the output does not exist.
pub(super) fn ensure_apart<P: AsRef<Path>>(
    (option, output): (&str, Option<&Path>),
    mut inputs: impl Iterator<Item = P>,
) -> anyhow::Result<()> {
    let Some(output) = output else { return Ok(()) };
    ensure_directory(output)?;
    // A file that does not exist yet, or a device, overwrites nothing.
    let Ok(output) = output.canonicalize() else { return Ok(()) };
    if !output.is_file() || STARTS_OF_OUTPUTS.iter().any(|start| begins_with(&output, start)) {
        return Ok(());
    }
    if let Some(path) = inputs.find(|path| is_same_file(path.as_ref(), &output)) {
        bail!("'{}': {option} would overwrite this input", path.as_ref().display());
    }
    if begins_with(&output, &kpack::MAGIC) {
        bail!("'{}': {option} would overwrite this kpack archive", output.display());
    }
    Ok(())
}

/// Returns whether an input is this file, whose path is canonical.
fn is_same_file(input: &Path, file: &Path) -> bool {
    // Standard input may come from the file.
    let input = if input == Path::new("-") { Path::new("/dev/stdin") } else { input };
    match input.canonicalize() {
        Ok(input) => input == file,
        Err(_) => false,
    }
}

/// The first bytes of the pages and pictures that we write.
const STARTS_OF_OUTPUTS: [&[u8]; 2] = [b"<!DOCTYPE html>", b"<svg xmlns="];

/// Returns whether a file begins with these bytes. A file that cannot be read does not.
fn begins_with(path: &Path, start: &[u8]) -> bool {
    let mut head = vec![0; start.len()];
    let Ok(mut file) = File::open(path) else { return false };
    file.read_exact(&mut head).is_ok() && head == start
}

/// The width of a picture in a separate file, in pixels.
const WIDTH: u64 = 960;

/// The margin around a picture in a separate file, in pixels.
const MARGIN: u64 = 28;

/// The space above the first heading of a file, in pixels. The heading has some space around it.
const TOP_MARGIN: u64 = 24;

/// The height of the map of sizes in a file, in pixels.
const TREEMAP_HEIGHT: u64 = 480;

/// An upper bound on the average width of a character of a label, in pixels.
const CHARACTER_WIDTH: u64 = 8;

/// Styles for light pages and paper, and for dark screens. Parts are outlined, since some fill colours are close to the
/// background.
pub(super) const STYLE: &str = "svg { print-color-adjust: exact; -webkit-print-color-adjust: exact }
svg text { fill: #1f2328 } .page { fill: #ffffff } .track { fill: #eaeef2 } svg .faint { fill: #59636e } .part { stroke: #59636e }
.hatching { pointer-events: none }
@media screen and (prefers-color-scheme: dark) {
svg text { fill: #e6edf3 } .page { fill: #0d1117 } .track { fill: #21262d } svg .faint { fill: #9198a1 } .part { stroke: #9198a1 }
}
";

/// The hint of a rectangle that shows no text while a mouse points at it.
const NO_HINT: &str = "";

/// A rectangle in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rect {
    x: u64,
    y: u64,
    width: u64,
    height: u64,
}

impl Rect {
    fn is_empty(&self) -> bool {
        self.width == 0 || self.height == 0
    }
}

/// A picture that grows downwards as parts are drawn. Lengths are in pixels.
#[derive(Debug)]
pub(super) struct Canvas {
    /// The elements of SVG.
    out: String,
    margin: u64,
    /// The width inside the margins.
    inner_width: u64,
    /// The height of the parts that are drawn so far: the next part begins here.
    height: u64,
}

impl Canvas {
    /// Returns an empty picture for a file, with margins.
    fn of_file() -> Self {
        Self { out: String::new(), margin: MARGIN, inner_width: WIDTH - 2 * MARGIN, height: TOP_MARGIN }
    }

    /// Returns an empty picture for a part of a page, which has its own margins.
    pub(super) fn of_page(inner_width: u64) -> Self {
        Self { out: String::new(), margin: 0, inner_width, height: 0 }
    }

    /// Returns the picture as a file.
    fn into_file(self) -> String {
        let height = self.height + MARGIN;
        let style = format!(
            "<style>\n{STYLE}</style>\n<rect class=\"page\" width=\"{WIDTH}\" height=\"{height}\" rx=\"8\"/>\n"
        );
        let size = format!(r#"width="{WIDTH}" height="{height}""#);
        svg(&size, (WIDTH, height), &(style + &self.elements()))
    }

    /// Returns the picture as a part of a page, as wide as the style sheet says for `class`. Screen readers read the
    /// label instead.
    pub(super) fn into_part(self, label: &str, class: &str) -> String {
        let (width, height) = (self.inner_width + 2 * self.margin, self.height);
        let attributes = format!(r#"class="{class}" role="img" aria-label="{}""#, escaped(label));
        svg(&attributes, (width, height), &self.elements())
    }

    fn skip(&mut self, height: u64) {
        self.height += height;
    }

    /// Makes the picture higher, and returns the new part inside the margins.
    fn reserve(&mut self, height: u64) -> Rect {
        let rect = Rect { x: self.margin, y: self.height, width: self.inner_width, height };
        self.height += height;
        rect
    }

    /// Draws a text on the baseline `y`. The text begins at `x`, unless `attributes` have another `text-anchor`.
    fn draw_text(&mut self, x: u64, y: u64, attributes: &str, content: &str) {
        let content = escaped(content);
        // Writing to a string does not fail.
        let _ = writeln!(self.out, r#"<text x="{x}" y="{y}" {attributes}>{content}</text>"#);
    }

    /// Draws a rectangle with a text that is shown while a mouse points at it, or with [`NO_HINT`].
    fn draw_rect(&mut self, Rect { x, y, width, height }: Rect, attributes: &str, hint: &str) {
        let hint = if hint.is_empty() { String::new() } else { format!("<title>{}</title>", escaped(hint)) };
        let size = format!(r#"x="{x}" y="{y}" width="{width}" height="{height}""#);
        // Writing to a string does not fail.
        let _ = writeln!(self.out, r#"<rect {size} {attributes}>{hint}</rect>"#);
    }

    /// Hatches a rectangle: the sign of code that is compiled when a program starts.
    fn draw_hatching(&mut self, Rect { x, y, width, height }: Rect) {
        let id = self.hatching_id();
        let _ =
            writeln!(self.out, r#"<path class="hatching" fill="url(#{id})" d="M{x} {y}h{width}v{height}h-{width}z"/>"#);
    }

    /// Returns the ID of the pattern for hatching. It has the width of the picture, because a page has several pictures
    /// of different widths, and IDs must differ.
    fn hatching_id(&self) -> String {
        format!("jit-{}", self.inner_width)
    }

    /// Returns the elements of the picture, with the pattern that they use.
    fn elements(&self) -> String {
        let id = self.hatching_id();
        format!(
            "<defs><pattern id=\"{id}\" width=\"7\" height=\"7\" patternUnits=\"userSpaceOnUse\" \
             patternTransform=\"rotate(45)\"><path d=\"M0 0h3v7h-3z\" fill=\"#fff\" fill-opacity=\".6\"/>\
             <path d=\"M3 0h1v7h-1z\" fill-opacity=\".25\"/></pattern></defs>\n{}",
            self.out
        )
    }

    /// Draws the heading of a picture, or of a part of it.
    fn draw_heading(&mut self, title: &str, facts: &str) {
        let Rect { x, y, .. } = self.reserve(58);
        self.draw_text(x, y + 20, r#"font-size="20" font-weight="600""#, title);
        self.draw_text(x, y + 42, r#"class="faint""#, facts);
    }
}

/// Returns a picture in SVG with this size and content. The text in it has 13 pixels unless it sets another size.
fn svg(attributes: &str, (width, height): (u64, u64), content: &str) -> String {
    let font = r#"font-family="-apple-system, 'Segoe UI', Helvetica, Arial, sans-serif" font-size="13""#;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" {attributes} {font}>\n{content}</svg>\n"
    )
}

/// Returns a text for XML and HTML. The source of a page is also safe to show on a terminal.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in printable(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            // XML does not allow these.
            '\u{fffe}' | '\u{ffff}' => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    out
}

/// Returns the length of a bar for `size`, in pixels, if the bar for `whole` has the length `width`. It is 0 if
/// `whole` is 0.
fn scaled(size: u64, whole: u64, width: u64) -> u64 {
    let length = (u128::from(size) * u128::from(width)).checked_div(whole.into()).unwrap_or(0);
    u64::try_from(length).unwrap_or(0)
}

/// Returns whether a text fits into a width in pixels.
fn fits(text: &str, width: u64) -> bool {
    to_u64(text.chars().count()).saturating_mul(CHARACTER_WIDTH) <= width
}

/// Shortens a text to a width in pixels by leaving out its middle.
fn shortened(text: &str, width: u64) -> String {
    let (characters, room) = (text.chars().count(), usize::try_from(width / CHARACTER_WIDTH).unwrap_or(0));
    if characters <= room {
        return text.to_owned();
    }
    let half = room.saturating_sub(1) / 2;
    let (start, end) = (text.chars().take(half), text.chars().skip(characters - half));
    start.chain(['…']).chain(end).collect()
}

fn to_u64(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_lose_their_middle() {
        assert_eq!(shortened("short.so", 640), "short.so");
        let long = shortened(&format!("{}{}", "a".repeat(60), "b".repeat(60)), 81 * CHARACTER_WIDTH);
        assert_eq!(long, format!("{}…{}", "a".repeat(40), "b".repeat(40)));
        assert_eq!(shortened("abc", 0), "…");
    }
}

//! What all pictures share: the page, its colours, and labelled bars.

use std::fmt::Write;
use std::path::Path;

use anyhow::bail;
use offload_bundle::display::printable;

/// Fails if the picture would overwrite one of the inputs.
pub(in crate::cli) fn ensure_apart<P: AsRef<Path>>(
    svg: Option<&Path>,
    mut inputs: impl Iterator<Item = P>,
) -> anyhow::Result<()> {
    let canonical = svg.and_then(|svg| svg.canonicalize().ok()).filter(|svg| svg.is_file());
    let is_same = |path: &P| canonical.is_some() && path.as_ref().canonicalize().ok() == canonical;
    match inputs.find(is_same) {
        Some(path) => bail!("'{}': --svg would overwrite this input", path.as_ref().display()),
        None => Ok(()),
    }
}

/// Distances and sizes in pixels.
pub(in crate::cli) const WIDTH: u64 = 960;
pub(in crate::cli) const MARGIN: u64 = 28;
pub(in crate::cli) const INNER: u64 = WIDTH - 2 * MARGIN;

const FONT: &str = r#"font-family="-apple-system, 'Segoe UI', Helvetica, Arial, sans-serif" font-size="13""#;

/// Styles for light pages and paper, and for dark screens. Parts are outlined, since some fill colours are close to the
/// background.
pub(in crate::cli) const STYLE: &str = "<style>
svg { print-color-adjust: exact; -webkit-print-color-adjust: exact }
text { fill: #1f2328 } .page { fill: #ffffff } .track { fill: #eaeef2 } .faint { fill: #59636e } .part { stroke: #59636e }
@media screen and (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .page { fill: #0d1117 } .track { fill: #21262d } .faint { fill: #9198a1 } .part { stroke: #9198a1 }
}
</style>";

/// A page of a height, with some content.
pub(in crate::cli) fn page(height: u64, content: &str) -> String {
    let size = format!(r#"width="{WIDTH}" height="{height}""#);
    format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {WIDTH} {height}" {FONT}>
{STYLE}
<rect class="page" {size} rx="8"/>
{content}</svg>
"#
    )
}

pub(in crate::cli) fn text(out: &mut String, x: u64, y: u64, attributes: &str, content: &str) {
    let content = escaped(content);
    // Writing to a string does not fail.
    let _ = writeln!(out, r#"<text x="{x}" y="{y}" {attributes}>{content}</text>"#);
}

/// The heading of a picture, or of a part of it.
pub(in crate::cli) fn heading(out: &mut String, y: u64, title: &str, facts: &str) {
    text(out, MARGIN, y, r#"font-size="20" font-weight="600""#, title);
    text(out, MARGIN, y + 22, r#"class="faint""#, facts);
}

pub(in crate::cli) fn escaped(text: &str) -> String {
    let escape = |c: char| match c {
        '&' => "&amp;".to_owned(),
        '<' => "&lt;".to_owned(),
        '>' => "&gt;".to_owned(),
        '"' => "&quot;".to_owned(),
        c => c.to_string(),
    };
    printable(text).chars().map(escape).collect()
}

/// The part of `width` that `size` is of `whole`, in pixels.
pub(in crate::cli) fn part(size: u64, whole: u64, width: u64) -> u64 {
    let x = u128::from(size).saturating_mul(width.into()).checked_div(whole.into()).unwrap_or(0);
    u64::try_from(x).unwrap_or(0)
}

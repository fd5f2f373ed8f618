//! A picture of who takes the space: a bar for each file, a part of it for each GPU.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::report::{FileReport, Report};
use crate::cli::units::bytes;

/// Distances and sizes in pixels.
const WIDTH: u64 = 960;
const MARGIN: u64 = 24;
const BAR_HEIGHT: u64 = 22;
const ROW: u64 = 52;
const LEGEND_ROW: u64 = 20;
const LEGEND_COLUMNS: u64 = 4;

/// Colours that differ in hue and in brightness, from the Okabe-Ito palette and Tol's muted one.
const COLORS: [&str; 14] = [
    "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#332288", "#88ccee", "#44aa99",
    "#117733", "#999933", "#aa4499", "#882255",
];

/// Files beyond these share one bar.
const FILES_MAX: usize = 40;

/// The space that each GPU takes, by name.
type Shares = BTreeMap<String, u64>;

/// The picture.
pub(super) fn draw(report: &Report) -> String {
    let mut bars: Vec<(String, Shares)> =
        report.files.iter().filter(|file| !file.bundles.is_empty()).map(bar).collect();
    bars.sort_by_key(|(_, shares)| std::cmp::Reverse(total(shares)));
    let rest = bars.split_off(bars.len().min(FILES_MAX));
    if !rest.is_empty() {
        let name = format!("{} more files", rest.len());
        bars.push((name, merged(rest.iter().map(|(_, shares)| shares))));
    }
    let all = merged(bars.iter().map(|(_, shares)| shares));
    let mut names: Vec<(&String, &u64)> = all.iter().filter(|(_, size)| **size > 0).collect();
    names.sort_by_key(|(name, size)| (std::cmp::Reverse(**size), *name));
    let color: BTreeMap<&String, &str> =
        names.iter().zip(COLORS.iter().cycle()).map(|((name, _), color)| (*name, *color)).collect();

    let legend_rows = u64::try_from(names.len()).unwrap_or(0).div_ceil(LEGEND_COLUMNS);
    let rows = u64::try_from(bars.len()).unwrap_or(0);
    let height = MARGIN * 3 + 24 + rows * ROW + legend_rows * LEGEND_ROW;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"sans-serif\" font-size=\"13\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    let title = format!("Device code by file and GPU: {}", bytes(total(&all)));
    text(&mut out, MARGIN, MARGIN + 8, "16", &title);
    let scale = bars.iter().map(|(_, shares)| total(shares)).max().unwrap_or(0);
    for (index, (name, shares)) in (0..).zip(&bars) {
        let top = MARGIN * 2 + 8 + index * ROW;
        text(&mut out, MARGIN, top + 14, "13", &format!("{name}: {}", bytes(total(shares))));
        segments(&mut out, shares, &names, &color, top + 20, scale);
    }
    let top = MARGIN * 2 + 24 + rows * ROW;
    for (index, (name, size)) in (0..).zip(&names) {
        let x = MARGIN + (index % LEGEND_COLUMNS) * ((WIDTH - 2 * MARGIN) / LEGEND_COLUMNS);
        let y = top + (index / LEGEND_COLUMNS) * LEGEND_ROW;
        rect(&mut out, x, y, 12, 12, color.get(name).copied().unwrap_or("#888"), name);
        text(&mut out, x + 18, y + 11, "12", &format!("{name} {}", bytes(**size)));
    }
    out.push_str("</svg>\n");
    out
}

fn bar(file: &FileReport) -> (String, Shares) {
    let mut shares = Shares::new();
    for bundle in &file.bundles {
        for row in &bundle.code_objects {
            let share = shares.entry(row.for_whom().to_owned()).or_default();
            *share = share.saturating_add(bundle.share(row));
        }
    }
    (file.path.file_name().unwrap_or(file.path.as_os_str()).to_string_lossy().into_owned(), shares)
}

fn merged<'s>(all: impl Iterator<Item = &'s Shares>) -> Shares {
    all.flatten().fold(Shares::new(), |mut merged, (name, size)| {
        let share = merged.entry(name.clone()).or_default();
        *share = share.saturating_add(*size);
        merged
    })
}

fn total(shares: &Shares) -> u64 {
    shares.values().copied().fold(0, u64::saturating_add)
}

/// The parts of a bar, largest GPU of all first, each as long as its size against `scale`.
fn segments(
    out: &mut String,
    shares: &Shares,
    names: &[(&String, &u64)],
    color: &BTreeMap<&String, &str>,
    top: u64,
    scale: u64,
) {
    let at = |size: u64| {
        let x = u128::from(size).saturating_mul((WIDTH - 2 * MARGIN).into()).checked_div(scale.into()).unwrap_or(0);
        u64::try_from(x).unwrap_or(0)
    };
    let mut done = 0_u64;
    for (name, _) in names {
        let size = shares.get(*name).copied().unwrap_or(0);
        let (from, to) = (at(done), at(done.saturating_add(size)));
        done = done.saturating_add(size);
        if to > from {
            let hint = format!("{name}: {}", bytes(size));
            rect(out, MARGIN + from, top, to - from, BAR_HEIGHT, color.get(name).copied().unwrap_or("#888"), &hint);
        }
    }
}

fn rect(out: &mut String, x: u64, y: u64, width: u64, height: u64, fill: &str, hint: &str) {
    let hint = escaped(hint);
    // Writing to a string does not fail.
    let _ = writeln!(
        out,
        "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" fill=\"{fill}\" stroke=\"white\"><title>{hint}</title></rect>"
    );
}

fn text(out: &mut String, x: u64, y: u64, size: &str, content: &str) {
    let content = escaped(content);
    let _ = writeln!(out, "<text x=\"{x}\" y=\"{y}\" font-size=\"{size}\">{content}</text>");
}

fn escaped(text: &str) -> String {
    let escape = |c: char| match c {
        '&' => "&amp;".to_owned(),
        '<' => "&lt;".to_owned(),
        '>' => "&gt;".to_owned(),
        '"' => "&quot;".to_owned(),
        c if c.is_control() => c.escape_default().to_string(),
        c => c.to_string(),
    };
    text.chars().map(escape).collect()
}

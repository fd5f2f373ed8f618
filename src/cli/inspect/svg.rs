//! The chart of `inspect --svg`: a bar for each file, divided by GPU, and in how many bundles each GPU is served.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write;

use offload_bundle::job::Inspected;
use offload_bundle::runtime::{Coverage, Device, Served};

use super::sort_by_need;
use crate::cli::print::svg::{INNER, MARGIN, WIDTH, escaped, heading, page, part, text};
use crate::cli::print::units::{bytes, count, percent};

/// Distances and sizes in pixels.
const HEAD: u64 = 94;
const BAR_HEIGHT: u64 = 40;
const FILE_ROW: u64 = 78;
const LEGEND_ROW: u64 = 26;
const LEGEND_COLUMNS: u64 = 3;
/// The gap between the parts of a bar, if they are wide enough.
const GAP: u64 = 2;
/// An upper bound on the average width of a character in a label.
const LABEL_CHARACTER: u64 = 8;

/// The width of a legend key with a two-digit number.
const KEY: u64 = 20;

/// Fill colours, each with the colour of the text on it. The first come from the Okabe-Ito palette; each further one is
/// the colour of moderate chroma farthest in CIELAB from all colours before it.
#[rustfmt::skip]
const COLORS: [(&str, &str); 24] = [
    ("#0072b2", "#fff"), ("#e69f00", "#000"), ("#009e73", "#000"), ("#cc79a7", "#000"), ("#56b4e9", "#000"),
    ("#d55e00", "#000"), ("#f0e442", "#000"), ("#332288", "#fff"), ("#544800", "#fff"), ("#780c18", "#fff"),
    ("#fcb490", "#000"), ("#609000", "#000"), ("#cce49c", "#000"), ("#a890fc", "#000"), ("#0c483c", "#fff"),
    ("#fc606c", "#000"), ("#543048", "#fff"), ("#60f0f0", "#000"), ("#9c0078", "#fff"), ("#6cf090", "#000"),
    ("#00540c", "#fff"), ("#e4ccfc", "#000"), ("#b49c48", "#000"), ("#9c6054", "#fff"),
];

/// The colours for host code.
const GREY: (&str, &str) = ("#8b949e", "#000");

/// The number of files that have their own bar; the others share one.
const FILES_MAX: usize = 40;

/// The height of the row of a GPU, and the widths of its name and of its numbers.
const SERVED_ROW: u64 = 24;
const SERVED_NAME: u64 = 250;
const SERVED_NUMBERS: u64 = 130;

/// The largest number of GPUs with such a row.
const SERVED_MAX: usize = 60;

/// Half of the longest file name that is shown in full, in characters.
const NAME_HALF: usize = 40;

/// The size of the code for each GPU in bytes, by name.
type Shares = BTreeMap<String, u64>;

/// A bar for one file or several.
#[derive(Debug, Default)]
struct Bar {
    name: String,
    code_objects: usize,
    shares: Shares,
}

/// A GPU, its total size in bytes, and its appearance.
#[derive(Debug)]
struct GpuBar<'b> {
    name: &'b str,
    size: u64,
    /// Its number in the legend, shown where the name does not fit.
    key: String,
    color: (&'static str, &'static str),
}

/// A chart. Files are added one by one.
#[derive(Debug, Default)]
pub(super) struct Chart {
    bars: Vec<Bar>,
    /// The bar of the other files, and their number.
    rest: Bar,
    others: usize,
    coverage: Coverage,
}

impl Chart {
    pub(super) fn add(&mut self, file: &Inspected) {
        if file.bundles.is_empty() {
            return;
        }
        self.coverage.merge(&file.coverage());
        let bar = bar(file);
        let size = total(&bar.shares);
        let index = self.bars.partition_point(|other| total(&other.shares) >= size);
        self.bars.insert(index, bar);
        if self.bars.len() > FILES_MAX {
            self.bars.pop().into_iter().for_each(|smallest| self.add_to_rest(&smallest));
        }
    }

    fn add_to_rest(&mut self, bar: &Bar) {
        self.others += 1;
        self.rest.name = count(self.others, "more file", "more files");
        self.rest.code_objects += bar.code_objects;
        merge(&mut self.rest.shares, &bar.shares);
    }

    /// Renders the chart.
    pub(super) fn draw(self) -> String {
        let mut bars = self.bars;
        bars.extend((self.others > 0).then_some(self.rest));
        let mut all = Shares::new();
        bars.iter().for_each(|bar| merge(&mut all, &bar.shares));
        let (gpus, whole) = (gpus(&all), total(&all));
        let legend = HEAD + to_u64(bars.len()) * FILE_ROW + 6;
        let mut height = legend + to_u64(gpus.len()).div_ceil(LEGEND_COLUMNS) * LEGEND_ROW + MARGIN;
        let mut out = String::new();
        draw_head(&mut out, &bars, &gpus, whole);
        let scale = bars.iter().map(|bar| total(&bar.shares)).max().unwrap_or(0);
        for (index, bar) in (0..).zip(&bars) {
            draw_bar(&mut out, bar, &gpus, HEAD + index * FILE_ROW, scale);
        }
        draw_legend(&mut out, &gpus, legend, whole);
        if self.coverage.bundles() > 1 {
            height = draw_coverage(&mut out, &self.coverage, height);
        }
        page(height, &out)
    }
}

/// Draws a row for each GPU, those that the fewest bundles serve first. Returns where it ends.
fn draw_coverage(out: &mut String, coverage: &Coverage, top: u64) -> u64 {
    let Some(mut gpus) = coverage.gpus() else { return top };
    sort_by_need(&mut gpus);
    let complete = gpus.iter().filter(|(_, served)| served.is_complete()).count();
    let more = gpus.split_off(gpus.len().min(SERVED_MAX)).len();
    let more = if more > 0 { format!("; {more} more GPUs are not shown") } else { String::new() };
    let all = count(coverage.bundles(), "bundle", "bundles");
    let facts = format!("{all}; {} served by all of them{more}", count(complete, "GPU is", "GPUs are"));
    heading(out, top + 16, "Bundles that serve each GPU", &facts);
    let top = top + 58;
    for (index, (gpu, served)) in (0..).zip(&gpus) {
        draw_served(out, gpu, *served, top + index * SERVED_ROW);
    }
    top + to_u64(gpus.len()) * SERVED_ROW + MARGIN
}

fn draw_served(out: &mut String, gpu: &Device, served: Served, top: u64) {
    let width = INNER - SERVED_NAME - SERVED_NUMBERS;
    let (x, height) = (MARGIN + SERVED_NAME, SERVED_ROW - 8);
    text(out, MARGIN, top + 13, r#"font-weight="600""#, gpu.name());
    let _ = writeln!(out, r#"<rect class="track" x="{x}" y="{top}" width="{width}" height="{height}" rx="3"/>"#);
    let filled = part(to_u64(served.serving), to_u64(served.bundles), width).max(u64::from(served.serving > 0));
    let fill = if served.is_complete() { COLORS[0].0 } else { COLORS[5].0 };
    let _ = writeln!(
        out,
        r#"<rect class="part" x="{x}" y="{top}" width="{filled}" height="{height}" rx="3" fill="{fill}"/>"#
    );
    text(out, WIDTH - MARGIN, top + 13, r#"text-anchor="end""#, &served.to_string());
}

fn to_u64(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

fn bar(file: &Inspected) -> Bar {
    let mut shares = Shares::new();
    for code_object in file.bundles.iter().flat_map(|bundle| &bundle.code_objects) {
        let share = shares.entry(code_object.target()).or_default();
        *share = share.saturating_add(code_object.stored());
    }
    let name = file.path.file_name().unwrap_or(file.path.as_os_str()).to_string_lossy().into_owned();
    let code_objects = file.bundles.iter().map(|bundle| bundle.code_objects.len()).sum();
    Bar { name, code_objects, shares }
}

fn merge(into: &mut Shares, shares: &Shares) {
    for (name, size) in shares {
        let share = into.entry(name.clone()).or_default();
        *share = share.saturating_add(*size);
    }
}

fn total(shares: &Shares) -> u64 {
    shares.values().copied().fold(0, u64::saturating_add)
}

/// The GPUs with code of any size, largest first.
fn gpus(all: &Shares) -> Vec<GpuBar<'_>> {
    let mut names: Vec<(&String, u64)> = all.iter().map(|(name, size)| (name, *size)).collect();
    names.retain(|(_, size)| *size > 0);
    names.sort_unstable_by_key(|(name, size)| (Reverse(*size), *name));
    let mut colors = COLORS.into_iter().cycle();
    let mut color = |name: &str| if name == "host" { GREY } else { colors.next().unwrap_or(GREY) };
    let gpus = (1..).zip(names);
    gpus.map(|(key, (name, size))| GpuBar { name, size, key: i32::to_string(&key), color: color(name) }).collect()
}

fn draw_head(out: &mut String, bars: &[Bar], gpus: &[GpuBar<'_>], whole: u64) {
    let code_objects = count(bars.iter().map(|bar| bar.code_objects).sum(), "code object", "code objects");
    let targets = count(gpus.iter().filter(|gpu| gpu.name != "host").count(), "target", "targets");
    let files = count(bars.len(), "file", "files");
    let facts = format!("{code_objects} for {targets} in {files}");
    heading(out, 44, &format!("{} of code objects", bytes(whole)), &facts);
}

fn draw_bar(out: &mut String, bar: &Bar, gpus: &[GpuBar<'_>], top: u64, scale: u64) {
    text(out, MARGIN, top + 14, r#"font-weight="600""#, &shortened(&bar.name));
    let size = total(&bar.shares);
    let facts = format!("{}, {}", bytes(size), count(bar.code_objects, "code object", "code objects"));
    text(out, WIDTH - MARGIN, top + 14, r#"class="faint" text-anchor="end""#, &facts);
    let top = top + 24;
    // Writing to a string does not fail.
    let _ =
        writeln!(out, r#"<rect class="track" x="{MARGIN}" y="{top}" width="{INNER}" height="{BAR_HEIGHT}" rx="4"/>"#);
    let mut done = 0_u64;
    for gpu in gpus {
        let size = bar.shares.get(gpu.name).copied().unwrap_or(0);
        let end = done.saturating_add(size);
        let (from, to) = (part(done, scale, INNER), part(end, scale, INNER));
        done = end;
        segment(out, gpu, size, MARGIN + from..MARGIN + to, top);
    }
}

/// Draws a GPU's part of a bar, with as much of a label as fits: name and size, only the name, or the number in the
/// legend.
fn segment(out: &mut String, gpu: &GpuBar<'_>, size: u64, range: std::ops::Range<u64>, top: u64) {
    let width = range.end.saturating_sub(range.start);
    if width == 0 {
        return;
    }
    let (x, size, (fill, ink)) = (range.start, bytes(size), gpu.color);
    // An outline would hide a narrow part.
    let (drawn, class) = if width > 4 * GAP { (width - GAP, r#" class="part""#) } else { (width, "") };
    let hint = format!("<title>{}</title>", escaped(&format!("{}: {size}", gpu.name)));
    let _ = writeln!(
        out,
        r#"<rect{class} x="{x}" y="{top}" width="{drawn}" height="{BAR_HEIGHT}" rx="2" fill="{fill}">{hint}</rect>"#
    );
    let fits_with = |text: &str, room: u64| {
        u64::try_from(text.chars().count()).is_ok_and(|count| count * LABEL_CHARACTER + room <= drawn)
    };
    let fits = |text: &str| fits_with(text, 12);
    let plain = format!(r#"style="fill: {ink}" font-size="12""#);
    let bold = format!(r#"{plain} font-weight="600""#);
    if fits(gpu.name) && fits(&size) {
        text(out, x + 8, top + 17, &bold, gpu.name);
        text(out, x + 8, top + 32, &plain, &size);
    } else if fits(gpu.name) {
        text(out, x + 8, top + 25, &bold, gpu.name);
    } else if fits_with(&gpu.key, 1) {
        text(out, x + drawn / 2, top + 25, &format!(r#"{bold} text-anchor="middle""#), &gpu.key);
    }
}

fn draw_legend(out: &mut String, gpus: &[GpuBar<'_>], top: u64, whole: u64) {
    for (index, gpu) in (0..).zip(gpus) {
        let x = MARGIN + (index % LEGEND_COLUMNS) * (INNER / LEGEND_COLUMNS);
        let y = top + (index / LEGEND_COLUMNS) * LEGEND_ROW;
        let (fill, ink) = gpu.color;
        let _ = writeln!(out, r#"<rect class="part" x="{x}" y="{y}" width="{KEY}" height="15" rx="3" fill="{fill}"/>"#);
        let bold = format!(r#"style="fill: {ink}" font-size="11" font-weight="600" text-anchor="middle""#);
        text(out, x + KEY / 2, y + 12, &bold, &gpu.key);
        text(out, x + KEY + 8, y + 12, "", gpu.name);
        let size = format!("{}, {}", bytes(gpu.size), percent(gpu.size, whole));
        text(out, x + INNER / LEGEND_COLUMNS - MARGIN, y + 12, r#"class="faint" text-anchor="end""#, &size);
    }
}

/// The name, with its middle elided if it is long.
fn shortened(name: &str) -> String {
    let characters: Vec<char> = name.chars().collect();
    match (characters.first_chunk::<NAME_HALF>(), characters.last_chunk::<NAME_HALF>()) {
        (Some(start), Some(end)) if characters.len() > 2 * NAME_HALF => {
            format!("{}…{}", String::from_iter(start), String::from_iter(end))
        }
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::print::svg::STYLE;

    #[test]
    fn gpus_have_colours_by_size_and_the_host_has_none() {
        let shares =
            [("host", 5), ("gfx906", 1), ("gfx90a", 9), ("gfx803", 0)].map(|(name, size)| (name.to_owned(), size));
        let shares = Shares::from(shares);
        let found: Vec<(&str, &str)> = gpus(&shares).iter().map(|gpu| (gpu.name, gpu.color.0)).collect();
        assert_eq!(found, [("gfx90a", COLORS[0].0), ("host", GREY.0), ("gfx906", COLORS[1].0)]);
    }

    #[test]
    fn colours_are_all_different_and_can_be_written_on_and_told_from_the_page() {
        let all: Vec<Rgb> = COLORS.into_iter().chain([GREY]).map(|(color, _)| rgb(color)).collect();
        for (index, &a) in all.iter().enumerate() {
            for &b in &all[..index] {
                assert!(distance(a, b) > 20.0, "{a:?} {b:?}");
            }
        }
        for (color, ink) in COLORS.into_iter().chain([GREY]) {
            let ink = if ink == "#fff" { [255.0; 3] } else { [0.0; 3] };
            assert!(contrast(rgb(color), ink) >= 4.5, "{color}");
            // The edge must contrast with the track or with the page, in light and dark mode.
            for (edge, track) in [("#59636e", "#eaeef2"), ("#9198a1", "#21262d")] {
                let told = contrast(rgb(color), rgb(track)).max(contrast(rgb(edge), rgb(track)));
                assert!(told >= 3.0, "{color} on {track}");
                assert!(
                    STYLE.contains(&format!(".track {{ fill: {track} }}"))
                        && STYLE.contains(&format!("stroke: {edge}"))
                );
            }
        }
    }

    type Rgb = [f64; 3];

    fn rgb(hex: &str) -> Rgb {
        [1, 3, 5].map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap().into())
    }

    fn linear(value: f64) -> f64 {
        let value = value / 255.0;
        if value <= 0.040_45 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
    }

    /// The contrast ratio of WCAG 2.
    fn contrast(a: Rgb, b: Rgb) -> f64 {
        let luminance = |rgb: Rgb| {
            let [r, g, b] = rgb.map(linear);
            0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05
        };
        let (a, b) = (luminance(a), luminance(b));
        a.max(b) / a.min(b)
    }

    /// The distance in CIELAB.
    fn distance(a: Rgb, b: Rgb) -> f64 {
        let lab = |rgb: Rgb| {
            let [r, g, b] = rgb.map(linear);
            let f = |t: f64| if t > 0.008_856 { t.cbrt() } else { 7.787 * t + 16.0 / 116.0 };
            let x = f((0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.950_47);
            let y = f(0.2126 * r + 0.7152 * g + 0.0722 * b);
            let z = f((0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.088_83);
            [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
        };
        lab(a).iter().zip(lab(b)).map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt()
    }

    #[test]
    fn two_dozen_gpus_have_colours_of_their_own_and_every_part_a_name_or_a_number() {
        let shares: Shares =
            (0..24).map(|gpu| (format!("gfx90{}:sramecc+:xnack-", char::from(b'a' + gpu)), 10)).collect();
        let gpus = gpus(&shares);
        let mut colors: Vec<&str> = gpus.iter().map(|gpu| gpu.color.0).collect();
        colors.sort_unstable();
        colors.dedup();
        assert_eq!(colors.len(), 24);
        let bar = Bar { name: "a.so".into(), code_objects: 24, shares: shares.clone() };
        let mut out = String::new();
        draw_bar(&mut out, &bar, &gpus, 0, total(&shares));
        for gpu in &gpus {
            assert!(out.contains(&format!(">{}</text>", gpu.key)), "{}: {out}", gpu.key);
        }
    }

    #[test]
    fn parts_of_a_bar_follow_one_another_and_are_named_where_the_name_fits() {
        let shares = Shares::from([("gfx90a".to_owned(), 900), ("gfx906".to_owned(), 100)]);
        let bar = Bar { name: "a<b>.so".into(), code_objects: 2, shares: shares.clone() };
        let mut out = String::new();
        draw_bar(&mut out, &bar, &gpus(&shares), 0, 2000);
        assert!(out.contains(">a&lt;b&gt;.so</text>") && out.contains(">1.00 kB, 2 code objects</text>"), "{out}");
        let (first, second) = (INNER * 9 / 20, INNER / 2 - INNER * 9 / 20);
        assert!(out.contains(&format!("x=\"{MARGIN}\" y=\"24\" width=\"{}\"", first - GAP)), "{out}");
        assert!(out.contains(&format!("x=\"{}\" y=\"24\" width=\"{}\"", MARGIN + first, second - GAP)), "{out}");
        let named = |text: &str| out.matches(&format!(">{text}</text>")).count();
        // The second one is too narrow for its name, so it has its number in the legend.
        assert_eq!((named("gfx90a"), named("gfx906"), named("2")), (1, 0, 1), "{out}");
    }

    #[test]
    fn long_names_lose_their_middle() {
        assert_eq!(shortened("short.so"), "short.so");
        let long = shortened(&format!("{}{}", "a".repeat(60), "b".repeat(60)));
        assert_eq!(long, format!("{}…{}", "a".repeat(40), "b".repeat(40)));
    }
}

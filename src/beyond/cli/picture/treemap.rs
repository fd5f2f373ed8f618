//! The map of sizes: a rectangle for each library, in it one for each section, and in that one for each GPU.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt::Write;

use super::colors::{COLORS, GREY};
use super::library::{PicturedLibraries, total};
use super::{Canvas, Rect, escaped, fits, shortened, to_u64};
use crate::beyond::cli::print::units::{bytes, count, percent};
use crate::beyond::inventory::{Library, SizesByGpu};

/// The height of the name at the top of a rectangle.
const NAME: u64 = 18;

/// The smallest height of a rectangle with a name. In a smaller one, too little would be left for the parts.
const NAMED_MIN: u64 = 44;

/// The least width to which a name is shortened. If there is less space, the name is left out.
const READABLE_MIN: u64 = 96;

/// The smallest area of a part, in square pixels; smaller items share a part. This also limits the size of a picture,
/// since files can name any number of targets.
const PART_MIN: u128 = 64;

/// Sizes of the legend, in pixels: the height of a row.
const LEGEND_ROW: u64 = 26;
/// The least width of a column.
const LEGEND_COLUMN: u64 = 290;
/// The width of the coloured box with the number of a GPU.
const KEY: u64 = 20;

/// The number of GPUs in the legend.
const LEGEND_MAX: usize = 60;

/// The least height of a part for two lines, its name and its size.
const TWO_LINES_MIN: u64 = 40;

/// The least height of a part for its name alone.
const NAME_LINE_MIN: u64 = 20;

/// The least height of a part for the number of its GPU in the legend.
const KEY_MIN: u64 = 14;

/// The style of a GPU: its number in the legend, and its colour with the colour of the text on it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct GpuStyle {
    key: String,
    color: (&'static str, &'static str),
}

type GpuStyles<'p> = HashMap<&'p str, GpuStyle>;

impl Canvas {
    /// Draws the map: a rectangle for each library, whose area is in proportion to its stored size.
    pub(crate) fn draw_treemap(&mut self, libraries: &PicturedLibraries, height: u64) {
        let gpus = libraries.gpus();
        let (styles, whole) = (gpu_styles(gpus.iter().map(|(gpu, _)| gpu.as_str())), libraries.stored());
        let area = self.reserve(height);
        let shown = libraries.labelled().map(|library| (library, library.0.sizes().stored)).collect::<Vec<_>>();
        let is_one = shown.len() == 1;
        let (parts, rest) = layout(area, shown);
        let no_place = "";
        self.draw_small(rest, ("library", "libraries"), no_place);
        for ((library, label), rect) in parts {
            // The name of the only library is left out: there is nothing to tell it from.
            let inner = if is_one { rect } else { self.draw_name(rect, label) };
            self.draw_sections(library, inner, &styles, whole);
        }
    }

    /// Divides the rectangle of a library among its sections. The only section, and code outside of sections, have no
    /// name.
    fn draw_sections(&mut self, library: &Library, area: Rect, styles: &GpuStyles<'_>, whole: u64) {
        let sections: Vec<(_, u64)> = library.sections.iter().map(|section| (section, total(section.1))).collect();
        let is_one = sections.len() == 1;
        let (parts, rest) = layout(area, sections);
        self.draw_small(rest, ("section", "sections"), &library.name);
        for ((section, shares), rect) in parts {
            let inner = if is_one || section.is_empty() { rect } else { self.draw_name(rect, section) };
            let place = if section.is_empty() { library.name.clone() } else { format!("{}, {section}", library.name) };
            self.draw_gpus(shares, &place, inner, styles, whole);
        }
    }

    /// Divides the rectangle of a section among GPUs. `whole` is the size of all libraries, for percentages.
    fn draw_gpus(&mut self, shares: &SizesByGpu, place: &str, area: Rect, styles: &GpuStyles<'_>, whole: u64) {
        let gpus: Vec<(_, u64)> = shares.iter().map(|share| (share, share.1.stored)).collect();
        let (parts, rest) = layout(area, gpus);
        self.draw_small(rest, ("target", "targets"), place);
        for ((gpu, sizes), rect) in parts {
            let Some(style) = styles.get(gpu.as_str()) else { continue };
            let share = percent(sizes.stored, whole);
            let code_objects = count(sizes.code_objects, "code object", "code objects");
            let hint = format!("{gpu}: {} ({share}), {code_objects}; {place}", bytes(sizes.stored));
            self.draw_part(rect, (gpu, &bytes(sizes.stored)), style, &hint);
        }
    }

    /// Draws the part that items share because they are too small. Draws nothing if there are no such items. `one` and
    /// `many` name the items, and `place` is the library or section that they are in, or empty.
    fn draw_small(&mut self, small: Option<SmallItems>, (one, many): (&str, &str), place: &str) {
        let Some(SmallItems { number, size, rect }) = small else { return };
        let style = GpuStyle { key: "…".to_owned(), color: GREY };
        let (one, many) = (format!("more {one}"), format!("more {many}"));
        let hint = format!("{}: {}; {place}", count(number, &one, &many), bytes(size));
        // Without a place, nothing follows the semicolon.
        let hint = hint.trim_end_matches("; ");
        self.draw_part(rect, (&format!("{number} more"), &bytes(size)), &style, hint);
    }

    /// Writes a name into the top of a rectangle, and returns the rest of the rectangle. If there is too little space,
    /// writes nothing and returns all of it.
    fn draw_name(&mut self, rect: Rect, name: &str) -> Rect {
        let room = rect.width.saturating_sub(4);
        let is_readable = fits(name, room) || room >= READABLE_MIN;
        if rect.height < NAMED_MIN || !is_readable {
            return rect;
        }
        let name = shortened(name, room);
        self.draw_text(rect.x + 2, rect.y + 13, r#"font-size="12" font-weight="600""#, &name);
        Rect { y: rect.y + NAME, height: rect.height - NAME, ..rect }
    }

    /// Draws a GPU's part with as much of a label as fits: name and size, only the name, or the number in the legend.
    fn draw_part(&mut self, rect: Rect, (name, size): (&str, &str), style: &GpuStyle, hint: &str) {
        let GpuStyle { key, color: (fill, ink) } = style;
        // The outline and the gap to the next part take two pixels, and would hide a narrow part.
        let has_outline = rect.width > 6 && rect.height > 6;
        let drawn = if has_outline { Rect { width: rect.width - 2, height: rect.height - 2, ..rect } } else { rect };
        let class = if has_outline { r#"class="part" rx="2" "# } else { "" };
        self.draw_rect(drawn, &format!(r#"{class}fill="{fill}""#), hint);
        let plain = format!(r#"style="fill: {ink}" font-size="12""#);
        let bold = format!(r#"{plain} font-weight="600""#);
        let (x, y, width) = (drawn.x + 8, drawn.y, drawn.width.saturating_sub(12));
        if drawn.height >= TWO_LINES_MIN && fits(name, width) && fits(size, width) {
            self.draw_text(x, y + 18, &bold, name);
            self.draw_text(x, y + 33, &plain, size);
        } else if drawn.height >= NAME_LINE_MIN && fits(name, width) {
            self.draw_text(x, y + drawn.height / 2 + 4, &bold, name);
        } else if drawn.height >= KEY_MIN && fits(key, drawn.width.saturating_sub(1)) {
            let middle = format!(r#"{bold} text-anchor="middle""#);
            self.draw_text(drawn.x + drawn.width / 2, y + drawn.height / 2 + 4, &middle, key);
        }
    }

    /// Draws the legend: each GPU with its colour, size and share, up to [`LEGEND_MAX`] GPUs, and the number of others.
    pub(crate) fn draw_legend(&mut self, libraries: &PicturedLibraries) {
        let (gpus, whole) = (libraries.gpus(), libraries.stored());
        let styles = gpu_styles(gpus.iter().map(|(gpu, _)| gpu.as_str()));
        let columns = (self.inner_width / LEGEND_COLUMN).max(1);
        let (width, more) = (self.inner_width / columns, gpus.len().saturating_sub(LEGEND_MAX));
        let rows = to_u64(gpus.len().min(LEGEND_MAX)).div_ceil(columns);
        let area = self.reserve(rows * LEGEND_ROW);
        for (index, (gpu, sizes)) in (0..).zip(gpus.iter().take(LEGEND_MAX)) {
            // `gpu_styles` returns a style for each of these GPUs, so none is left out.
            let Some(GpuStyle { key, color: (fill, ink) }) = styles.get(gpu.as_str()) else { continue };
            let (x, y) = (area.x + index % columns * width, area.y + index / columns * LEGEND_ROW);
            self.draw_rect(Rect { x, y, width: KEY, height: 15 }, &format!(r#"class="part" rx="3" fill="{fill}""#), "");
            let bold = format!(r#"style="fill: {ink}" font-size="11" font-weight="600" text-anchor="middle""#);
            self.draw_text(x + KEY / 2, y + 12, &bold, key);
            let size = size_and_share(sizes.stored, whole);
            // Digits are narrower than other characters: 7 pixels. 44 pixels are the spaces beside the name and the
            // size.
            let room = width.saturating_sub(KEY + 44 + to_u64(size.len()) * 7);
            self.draw_text(x + KEY + 8, y + 12, "", &shortened(gpu, room));
            self.draw_text(x + width - 24, y + 12, r#"class="faint" text-anchor="end""#, &size);
        }
        if more > 0 {
            let Rect { x, y, .. } = self.reserve(LEGEND_ROW);
            self.draw_text(x, y + 12, r#"class="faint""#, &unnamed(more));
        }
    }
}

/// Returns the legend as a list of HTML.
pub(crate) fn legend(libraries: &PicturedLibraries) -> String {
    let (gpus, whole) = (libraries.gpus(), libraries.stored());
    let styles = gpu_styles(gpus.iter().map(|(gpu, _)| gpu.as_str()));
    let mut out = String::from("<ul class=\"legend\">\n");
    for (gpu, sizes) in gpus.iter().take(LEGEND_MAX) {
        // `gpu_styles` returns a style for each of these GPUs, so none is left out.
        let Some(GpuStyle { key, color: (fill, ink) }) = styles.get(gpu.as_str()) else { continue };
        // `<wbr>` allows a line break in a long target ID.
        let name = escaped(gpu).replace(':', ":<wbr>").replace('_', "_<wbr>");
        let size = bytes(sizes.stored);
        let share = percent(sizes.stored, whole);
        let _ = writeln!(
            out,
            "<li><b style=\"background:{fill};color:{ink}\">{key}</b><span>{name}</span> <div>{size}<i>, {share}</i></div></li>"
        );
    }
    let more = gpus.len().saturating_sub(LEGEND_MAX);
    if more > 0 {
        let _ = writeln!(out, "<li>{}</li>", unnamed(more));
    }
    out.push_str("</ul>\n");
    out
}

fn size_and_share(size: u64, whole: u64) -> String {
    format!("{}, {}", bytes(size), percent(size, whole))
}

/// Returns a text with the number of GPUs that are not in the legend.
fn unnamed(more: usize) -> String {
    count(more, "more target is not named", "more targets are not named")
}

/// Returns the styles of GPUs, which are in the order of the legend. The first GPUs, which have most code, get the
/// colours. The others share grey, and only their numbers tell them apart.
fn gpu_styles<'g>(gpus: impl Iterator<Item = &'g str>) -> GpuStyles<'g> {
    let mut colors = COLORS.into_iter();
    let mut styles = HashMap::new();
    for (index, gpu) in gpus.enumerate() {
        let color = if gpu == "host" { GREY } else { colors.next().unwrap_or(GREY) };
        styles.insert(gpu, GpuStyle { key: (index + 1).to_string(), color });
    }
    styles
}

/// Items that are too small for parts of their own, and share one.
#[derive(Debug)]
struct SmallItems {
    number: usize,
    size: u64,
    rect: Rect,
}

/// Divides a rectangle into parts for items, the largest first, and a part for the items that are too small, if there
/// are several. Items without size have no part.
fn layout<T>(area: Rect, mut items: Vec<(T, u64)>) -> (Vec<(T, Rect)>, Option<SmallItems>) {
    items.retain(|(_, size)| *size > 0);
    items.sort_by_key(|(_, size)| Reverse(*size));
    let whole: u128 = items.iter().map(|(_, size)| u128::from(*size)).sum();
    let pixels = u128::from(area.width) * u128::from(area.height);
    // The area of an item, `pixels * size / whole`, must be at least `PART_MIN`.
    let mut rest = items.split_off(items.partition_point(|(_, size)| u128::from(*size) * pixels >= whole * PART_MIN));
    // A single small item takes no more space than a part for "1 more".
    if rest.len() == 1 {
        items.append(&mut rest);
    }
    let mut sizes: Vec<u64> = items.iter().map(|(_, size)| *size).collect();
    let size = rest.iter().map(|(_, size)| *size).fold(0, u64::saturating_add);
    // `divide` needs descending sizes, so the sum of the small items has its place among the others.
    let at = sizes.partition_point(|other| *other >= size);
    if !rest.is_empty() {
        sizes.insert(at, size);
    }
    let mut rects = Vec::with_capacity(sizes.len());
    divide(area, &sizes, &mut rects);
    let mut small = None;
    if !rest.is_empty() {
        let rect = rects.remove(at);
        if !rect.is_empty() {
            small = Some(SmallItems { number: rest.len(), size, rect });
        }
    }
    let mut parts = Vec::with_capacity(items.len());
    for ((item, _), rect) in items.into_iter().zip(rects) {
        if !rect.is_empty() {
            parts.push((item, rect));
        }
    }
    (parts, small)
}

/// Divides a rectangle by sizes that descend, again and again into two parts that are as equal as possible. Each part
/// is at most two thirds of the whole, or has one size.
fn divide(area: Rect, sizes: &[u64], rects: &mut Vec<Rect>) {
    let whole: u128 = sizes.iter().copied().map(u128::from).sum();
    let [first, rest @ ..] = sizes else { return };
    if rest.is_empty() {
        return rects.push(area);
    }
    let (mut number, mut size) = (1, u128::from(*first));
    // The first part gets sizes until it is as near to half of the whole as possible. The last size is left for the
    // other part, which must not be empty.
    for next in rest.iter().take(rest.len() - 1) {
        if size * 2 + u128::from(*next) > whole {
            break;
        }
        (number, size) = (number + 1, size + u128::from(*next));
    }
    let (largest, others) = sizes.split_at(number);
    let (one, other) = if area.width >= area.height {
        let width = share_of(area.width, size, whole);
        (Rect { width, ..area }, Rect { x: area.x + width, width: area.width - width, ..area })
    } else {
        let height = share_of(area.height, size, whole);
        (Rect { height, ..area }, Rect { y: area.y + height, height: area.height - height, ..area })
    };
    divide(one, largest, rects);
    divide(other, others, rects);
}

/// Returns the part of a length that belongs to `size`, if the whole length belongs to `whole`.
fn share_of(length: u64, size: u128, whole: u128) -> u64 {
    let part = (u128::from(length) * size).checked_div(whole).unwrap_or(0);
    u64::try_from(part).unwrap_or(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    const AREA: Rect = Rect { x: 10, y: 20, width: 900, height: 400 };

    #[test]
    fn gpus_without_a_colour_of_their_own_are_grey() {
        let names: Vec<String> = (0..30).map(|number| format!("gfx{number}")).collect();
        let styles = gpu_styles(names.iter().map(String::as_str));
        assert_eq!(
            (styles["gfx23"].color, styles["gfx24"].color, styles["gfx24"].key.as_str()),
            (COLORS[23], GREY, "25")
        );
    }

    #[test]
    fn gpus_have_colours_by_size_and_the_host_has_none() {
        let styles = gpu_styles(["gfx90a", "host", "gfx906"].into_iter());
        let found = ["gfx90a", "host", "gfx906"].map(|gpu| (styles[gpu].key.as_str(), styles[gpu].color));
        assert_eq!(found, [("1", COLORS[0]), ("2", GREY), ("3", COLORS[1])]);
    }

    #[test]
    fn parts_fill_a_rectangle_without_overlap_by_their_sizes() {
        for sizes in [
            vec![1],
            vec![900, 100],
            vec![5; 24],
            [vec![1_000_000], vec![1; 100_000]].concat(),
            (0..64).map(|bit| u64::MAX >> bit).collect(),
            vec![3, 0, 2],
        ] {
            let (mut parts, rest) = layout(AREA, sizes.iter().map(|size| (*size, *size)).collect());
            let number = sizes.iter().filter(|size| **size > 0).count() - parts.len();
            assert_eq!(rest.as_ref().map_or(0, |rest| rest.number), number, "{sizes:?}");
            parts.extend(rest.map(|rest| (rest.size, rest.rect)));
            assert_eq!(parts.iter().map(|(_, rect)| area(rect)).sum::<u64>(), area(&AREA), "{sizes:?}");
            let whole: u128 = sizes.iter().copied().map(u128::from).sum();
            for (index, (size, a)) in parts.iter().enumerate() {
                let fair = u64::try_from(u128::from(area(&AREA)) * u128::from(*size) / whole).unwrap();
                // Each division is rounded to a pixel of at most the longer side.
                assert!(area(a).abs_diff(fair) <= 7 * AREA.width, "{sizes:?}: {a:?}");
                for (_, b) in &parts[..index] {
                    assert!(apart(a.x, a.width, b.x, b.width) || apart(a.y, a.height, b.y, b.height), "{a:?} {b:?}");
                }
            }
        }
    }

    fn area(rect: &Rect) -> u64 {
        rect.width * rect.height
    }

    fn apart(a: u64, a_len: u64, b: u64, b_len: u64) -> bool {
        a + a_len <= b || b + b_len <= a
    }

    /// The texts in a part of this size.
    fn label(width: u64, height: u64) -> Vec<String> {
        let style = GpuStyle { key: "2".to_owned(), color: GREY };
        let mut canvas = Canvas::of_page(900);
        canvas.draw_part(Rect { x: 0, y: 0, width, height }, ("gfx906", "1.00 kB"), &style, "<hint>");
        assert!(canvas.out.contains("<title>&lt;hint&gt;</title>"), "{}", canvas.out);
        let texts = canvas.out.split("</text>").filter(|part| part.contains("<text "));
        texts.map(|text| text[text.rfind('>').unwrap() + 1..].to_owned()).collect()
    }

    #[test]
    fn parts_have_a_name_or_a_number_where_there_is_room() {
        assert_eq!(label(100, 60), ["gfx906", "1.00 kB"]);
        assert_eq!(label(100, 30), ["gfx906"]);
        assert_eq!(label(20, 60), ["2"]);
        assert_eq!(label(5, 5), [""; 0]);
    }
}

//! The map of sizes: a rectangle for each file, in it one for each library, then for each section, and for each GPU.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt::Write;

use super::colors::{GREY, Generation, Look, generations, looks, with_products};
use super::library::{PicturedLibraries, stored_in_all};
use super::{Canvas, NO_HINT, Rect, escaped, fits, shortened, to_u64};
use crate::beyond::cli::gpus::number_of;
use crate::beyond::cli::print::units::{bytes, count, first, percent};
use crate::beyond::inventory::{Library, SizesByGpu};
use crate::beyond::scan::Sizes;

/// The height of the name at the top of a rectangle, in pixels.
const NAME_HEIGHT: u64 = 18;

/// The smallest height of a rectangle with a name. In a smaller one, too little would be left for the parts.
const NAMED_MIN: u64 = 44;

/// The least width to which a name is shortened. If there is less space, the name is left out.
const READABLE_MIN: u64 = 96;

/// The smallest area of a part, in square pixels; smaller items share a part. This also limits the size of a picture,
/// since files can name any number of targets.
const PART_MIN: u128 = 64;

/// Sizes of the legend, in pixels: the height of a row.
const LEGEND_ROW_HEIGHT: u64 = 26;
/// The least width of a column.
const LEGEND_COLUMN_MIN: u64 = 290;
/// The width of the colour of a generation.
const KEY_WIDTH: u64 = 20;

/// The number of generations in the legend. Files can name any number of targets.
const LEGEND_MAX: usize = 60;

/// The least height of a part for two lines, its name and its size.
const TWO_LINES_MIN: u64 = 40;

/// The least height of a part for its name alone.
const NAME_LINE_MIN: u64 = 16;

/// The text of the legend about hatched parts.
const HATCHED: &str = "JIT: compiled when the program starts";

/// The look of each target, by its name.
type Looks<'p> = HashMap<&'p str, Look>;

impl Canvas {
    /// Draws the map: a rectangle for each file, and in it one for each library. Areas are in proportion to stored
    /// sizes.
    pub(crate) fn draw_treemap(&mut self, libraries: &PicturedLibraries, height: u64) {
        let generations = generations(&libraries.all.gpus());
        let (looks, whole) = (looks(&generations), libraries.stored());
        let area = self.reserve(height);
        let mut files = Vec::new();
        for (name, libraries) in libraries.by_file() {
            let stored = libraries.iter().map(|(library, _)| library.sizes().stored).fold(0, u64::saturating_add);
            files.push(((name, libraries), stored));
        }
        let no_place = "";
        let (parts, small) = layout(area, files);
        self.draw_small(small, ("file", "files"), no_place);
        for ((name, libraries), rect) in parts {
            // The name is empty for libraries that are files themselves, and for the only package.
            let inner = if name.is_empty() { rect } else { self.draw_name(rect, &name) };
            let is_only_library = libraries.len() == 1;
            let sized = libraries.into_iter().map(|named| {
                let stored = named.0.sizes().stored;
                (named, stored)
            });
            let (parts, small) = layout(inner, sized.collect());
            self.draw_small(small, ("library", "libraries"), &name);
            for ((library, label), rect) in parts {
                // The only library needs no name, because there is no other one.
                let inner = if is_only_library { rect } else { self.draw_name(rect, &label) };
                self.draw_sections(library, inner, &looks, whole);
            }
        }
    }

    /// Divides the rectangle of a library among its sections. The only section, and code outside of sections, have no
    /// name. `whole` is the size of all libraries, for percentages.
    fn draw_sections(&mut self, library: &Library, area: Rect, looks: &Looks<'_>, whole: u64) {
        let sections: Vec<_> = library.sections.iter().map(|section| (section, stored_in_all(section.1))).collect();
        let is_only_section = sections.len() == 1;
        let (parts, small) = layout(area, sections);
        self.draw_small(small, ("section", "sections"), &library.name);
        for ((section, shares), rect) in parts {
            let inner = if is_only_section || section.is_empty() { rect } else { self.draw_name(rect, section) };
            let place = if section.is_empty() { library.name.clone() } else { format!("{}, {section}", library.name) };
            self.draw_gpus(shares, &place, inner, looks, whole);
        }
    }

    /// Divides the rectangle of a section among GPUs. `place` names the section, and `whole` is the size of all
    /// libraries, for percentages.
    fn draw_gpus(&mut self, shares: &SizesByGpu, place: &str, area: Rect, looks: &Looks<'_>, whole: u64) {
        let gpus: Vec<(_, u64)> = shares.iter().map(|share| (share, share.1.stored)).collect();
        let (parts, small) = layout(area, gpus);
        self.draw_small(small, ("target", "targets"), place);
        for ((gpu, sizes), rect) in parts {
            let Some(look) = looks.get(gpu.as_str()) else { continue };
            let share = percent(sizes.stored, whole);
            let code_objects = count(sizes.code_objects, "code object", "code objects");
            let hint = format!("{}: {} ({share}), {code_objects}; {place}", with_products(gpu), bytes(sizes.stored));
            self.draw_part(rect, [gpu, &bytes(sizes.stored), number_of(gpu)], *look, &hint);
        }
    }

    /// Draws the part that items share because they are too small. Draws nothing if there are no such items. `one` and
    /// `many` name the items, and `place` is the library or section that they are in, or empty.
    fn draw_small(&mut self, small: Option<SmallItems>, (one, many): (&str, &str), place: &str) {
        let Some(SmallItems { number, size, rect }) = small else { return };
        let look = Look { color: GREY, is_jit: false };
        let (one, many) = (format!("more {one}"), format!("more {many}"));
        let hint = format!("{}: {}; {place}", count(number, &one, &many), bytes(size));
        // Without a place, nothing follows the semicolon.
        let hint = hint.trim_end_matches("; ");
        self.draw_part(rect, [&format!("{number} more"), &bytes(size), "…"], look, hint);
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
        Rect { y: rect.y + NAME_HEIGHT, height: rect.height - NAME_HEIGHT, ..rect }
    }

    /// Draws the part of a GPU or of small items, with as much of a label as fits: name and size, only the name, or the
    /// short name. The text `hint` is shown while a mouse points at it.
    fn draw_part(&mut self, rect: Rect, [name, size, short]: [&str; 3], Look { color, is_jit }: Look, hint: &str) {
        // The outline and the gap to the next part take two pixels, and would hide a narrow part.
        let has_outline = rect.width > 6 && rect.height > 6;
        let drawn = if has_outline { Rect { width: rect.width - 2, height: rect.height - 2, ..rect } } else { rect };
        let class = if has_outline { r#"class="part" rx="2" "# } else { "" };
        self.draw_rect(drawn, &format!(r#"{class}fill="{color}""#), hint);
        if is_jit {
            self.draw_hatching(drawn);
        }
        let plain = r#"style="fill: #000" font-size="12""#;
        let (x, y, width) = (drawn.x + 8, drawn.y, drawn.width.saturating_sub(12));
        if drawn.height >= TWO_LINES_MIN && fits(name, width) && fits(size, width) {
            self.draw_text(x, y + 18, &format!(r#"{plain} font-weight="600""#), name);
            self.draw_text(x, y + 33, plain, size);
        } else if drawn.height >= NAME_LINE_MIN {
            let middle = drawn.y + drawn.height / 2 + 4;
            if fits(name, width) {
                self.draw_text(x, middle, &format!(r#"{plain} font-weight="600""#), name);
            } else if fits(short, drawn.width) {
                self.draw_text(drawn.x + drawn.width / 2, middle, &format!(r#"{plain} text-anchor="middle""#), short);
            }
        }
    }

    /// Draws the legend: for each vendor its generations with their colours, sizes and shares.
    pub(crate) fn draw_legend(&mut self, libraries: &PicturedLibraries) {
        let (generations, whole) = (generations(&libraries.all.gpus()), libraries.stored());
        let columns = (self.inner_width / LEGEND_COLUMN_MIN).max(1);
        let width = self.inner_width / columns;
        let (shown, more) = first(&generations, LEGEND_MAX);
        for vendor_generations in shown.chunk_by(|one, next| one.vendor() == next.vendor()) {
            let Rect { x, y, .. } = self.reserve(LEGEND_ROW_HEIGHT);
            self.draw_text(x, y + 14, r#"font-weight="600""#, &heading(vendor_generations, whole));
            let rows = to_u64(vendor_generations.len()).div_ceil(columns);
            let area = self.reserve(rows * LEGEND_ROW_HEIGHT);
            for (index, generation) in (0..).zip(vendor_generations) {
                let (x, y) = (area.x + index % columns * width, area.y + index / columns * LEGEND_ROW_HEIGHT);
                self.draw_key(x, y, generation.look);
                let size = size_and_share(generation.sizes.stored, whole);
                // Digits are narrower than other characters: 7 pixels. 40 pixels are the spaces beside the name and the
                // size.
                let room = width.saturating_sub(KEY_WIDTH + 40 + to_u64(size.len()) * 7);
                let no_attributes = "";
                self.draw_text(x + KEY_WIDTH + 8, y + 12, no_attributes, &shortened(&generation.label(), room));
                self.draw_text(x + width - 24, y + 12, r#"class="faint" text-anchor="end""#, &size);
            }
        }
        let mut notes = Vec::new();
        notes.extend(if more > 0 { Some(unnamed(more)) } else { None });
        notes.extend(if has_jit(&generations) { Some(HATCHED.to_owned()) } else { None });
        for note in notes {
            let Rect { x, y, .. } = self.reserve(LEGEND_ROW_HEIGHT);
            self.draw_text(x, y + 12, r#"class="faint""#, &note);
        }
    }

    /// Draws the colour of a generation.
    fn draw_key(&mut self, x: u64, y: u64, Look { color, is_jit }: Look) {
        let rect = Rect { x, y, width: KEY_WIDTH, height: 15 };
        self.draw_rect(rect, &format!(r#"class="part" rx="3" fill="{color}""#), NO_HINT);
        if is_jit {
            self.draw_hatching(rect);
        }
    }
}

/// Returns the legend as a list of HTML.
pub(crate) fn legend(libraries: &PicturedLibraries) -> String {
    let (generations, whole) = (generations(&libraries.all.gpus()), libraries.stored());
    let (shown, more) = first(&generations, LEGEND_MAX);
    let mut out = String::new();
    for vendor_generations in shown.chunk_by(|one, next| one.vendor() == next.vendor()) {
        let _ = writeln!(out, "<h3>{}</h3>\n<ul class=\"legend\">", heading(vendor_generations, whole));
        for generation in vendor_generations {
            let Look { color, is_jit } = generation.look;
            let class = if is_jit { " class=\"hatched\"" } else { "" };
            // `<wbr>` allows a line break in a long name.
            let name = escaped(&generation.label()).replace(',', ",<wbr>").replace(':', ":<wbr>");
            let (size, share) = (bytes(generation.sizes.stored), percent(generation.sizes.stored, whole));
            let key = format!("<b{class} style=\"background-color:{color}\"></b>");
            let _ = writeln!(out, "<li>{key}<span>{name}</span> <div>{size}<i>, {share}</i></div></li>");
        }
        out.push_str("</ul>\n");
    }
    if more > 0 {
        let _ = writeln!(out, "<p>{}</p>", unnamed(more));
    }
    if has_jit(&generations) {
        let _ = writeln!(out, "<p class=\"key\">{HATCHED}</p>");
    }
    out
}

/// Returns the heading of a vendor's generations.
fn heading(vendor_generations: &[Generation], whole: u64) -> String {
    let sizes: Sizes = vendor_generations.iter().map(|generation| generation.sizes).sum();
    let vendor = vendor_generations.first().map(Generation::vendor).unwrap_or_default();
    format!("{vendor}: {}", size_and_share(sizes.stored, whole))
}

fn has_jit(generations: &[Generation]) -> bool {
    generations.iter().any(|generation| generation.look.is_jit)
}

fn size_and_share(size: u64, whole: u64) -> String {
    format!("{}, {}", bytes(size), percent(size, whole))
}

/// Returns a text with the number of generations that are not in the legend.
fn unnamed(more: usize) -> String {
    count(more, "more target is not named", "more targets are not named")
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
    let mut small_items =
        items.split_off(items.partition_point(|(_, size)| u128::from(*size) * pixels >= whole * PART_MIN));
    // A single small item takes no more space than a part for "1 more".
    if small_items.len() == 1 {
        items.append(&mut small_items);
    }
    let mut sizes: Vec<u64> = items.iter().map(|(_, size)| *size).collect();
    let small_size = small_items.iter().map(|(_, size)| *size).fold(0, u64::saturating_add);
    // `divide` needs descending sizes, so the sum of the small items has its place among the others.
    let small_index = sizes.partition_point(|size| *size >= small_size);
    if !small_items.is_empty() {
        sizes.insert(small_index, small_size);
    }
    let mut rects = Vec::with_capacity(sizes.len());
    divide(area, &sizes, &mut rects);
    let mut small = None;
    if !small_items.is_empty() {
        let rect = rects.remove(small_index);
        if !rect.is_empty() {
            small = Some(SmallItems { number: small_items.len(), size: small_size, rect });
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

/// Divides a rectangle by descending sizes, and adds a rectangle for each size to `rects`. Divides it into two parts
/// that are as equal as possible, and each of them again. Each part is at most two thirds of the whole, or has one
/// size.
fn divide(area: Rect, sizes: &[u64], rects: &mut Vec<Rect>) {
    let whole: u128 = sizes.iter().copied().map(u128::from).sum();
    let [first, rest @ ..] = sizes else { return };
    if rest.is_empty() {
        return rects.push(area);
    }
    let (mut first_count, mut first_size) = (1, u128::from(*first));
    // The first part gets sizes until it is as near to half of the whole as possible. The last size is left for the
    // other part, which must not be empty.
    for next in rest.iter().take(rest.len() - 1) {
        if first_size * 2 + u128::from(*next) > whole {
            break;
        }
        (first_count, first_size) = (first_count + 1, first_size + u128::from(*next));
    }
    let (first_sizes, other_sizes) = sizes.split_at(first_count);
    let (one, other) = if area.width >= area.height {
        let width = share_of(area.width, first_size, whole);
        (Rect { width, ..area }, Rect { x: area.x + width, width: area.width - width, ..area })
    } else {
        let height = share_of(area.height, first_size, whole);
        (Rect { height, ..area }, Rect { y: area.y + height, height: area.height - height, ..area })
    };
    divide(one, first_sizes, rects);
    divide(other, other_sizes, rects);
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
        let mut canvas = Canvas::of_page(900);
        let look = Look { color: GREY, is_jit: true };
        canvas.draw_part(Rect { x: 0, y: 0, width, height }, ["gfx906", "1.00 kB", "906"], look, "<hint>");
        assert!(canvas.out.contains("<title>&lt;hint&gt;</title>"), "{}", canvas.out);
        assert!(canvas.out.contains("url(#jit-900)") && canvas.elements().contains("id=\"jit-900\""), "{}", canvas.out);
        let texts = canvas.out.split("</text>").filter(|part| part.contains("<text "));
        texts.map(|text| text[text.rfind('>').unwrap() + 1..].to_owned()).collect()
    }

    #[test]
    fn parts_have_a_name_or_a_number_where_there_is_room() {
        assert_eq!(label(100, 60), ["gfx906", "1.00 kB"]);
        assert_eq!(label(100, 30), ["gfx906"]);
        assert_eq!(label(26, 60), ["906"]);
        assert_eq!(label(5, 5), [""; 0]);
    }
}

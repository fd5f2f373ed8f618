//! The picture of `diff --svg`: for each GPU, the stored size of its code objects before and now.

use std::cmp::Reverse;
use std::fmt::Write;

use offload_bundle::job::GpuDiff;

use super::total::DiffTotal;
use crate::cli::print::svg::{INNER, MARGIN, WIDTH, heading, page, part, text};
use crate::cli::print::units::{bytes, count, percent};

/// Distances and sizes in pixels.
const HEAD: u64 = 94;
const ROW: u64 = 38;
const BAR: u64 = 11;
const NAME: u64 = 230;
const NUMBERS: u64 = 250;

/// The colours of the old size, and of a new one that is not larger, or larger.
const OLD: &str = "#8b949e";
const SMALLER: &str = "#0072b2";
const LARGER: &str = "#d55e00";

/// The largest number of GPUs with a row.
const GPUS_MAX: usize = 60;

/// Draws a row for each GPU, those whose size differs most first.
pub(super) fn draw(total: &DiffTotal) -> String {
    let mut gpus: Vec<(&str, &GpuDiff)> = total.gpus.iter().map(|(gpu, diff)| (&**gpu, diff)).collect();
    gpus.sort_by_key(|(_, diff)| Reverse(diff.old.stored.abs_diff(diff.new.stored)));
    let more = gpus.split_off(gpus.len().min(GPUS_MAX)).len();
    let all = total.all();
    let mut out = String::new();
    let facts = format!(
        "stored size of {}, grey before, coloured now{}",
        count(gpus.len(), "GPU", "GPUs"),
        if more > 0 { format!("; {more} more are not shown") } else { String::new() },
    );
    heading(&mut out, 44, &format!("Device code: {}", change(all.old.stored, all.new.stored)), &facts);
    let largest = gpus.iter().map(|(_, diff)| diff.old.stored.max(diff.new.stored)).max().unwrap_or(0);
    let mut top = HEAD;
    for (gpu, diff) in gpus {
        let (old, new) = (diff.old.stored, diff.new.stored);
        text(&mut out, MARGIN, top + 16, r#"font-weight="600""#, gpu);
        bar(&mut out, top, old, largest, OLD);
        bar(&mut out, top + BAR + 1, new, largest, if new > old { LARGER } else { SMALLER });
        text(&mut out, WIDTH - MARGIN, top + 16, r#"text-anchor="end""#, &change(old, new));
        top += ROW;
    }
    page(top + MARGIN, &out)
}

/// A size before and now, and the difference.
fn change(old: u64, new: u64) -> String {
    let sign = if new < old { "-" } else { "+" };
    match old {
        _ if new == old => format!("{}, no difference", bytes(new)),
        0 => format!("{}, new", bytes(new)),
        _ => format!("{} → {}, {sign}{}", bytes(old), bytes(new), percent(old.abs_diff(new), old)),
    }
}

fn bar(out: &mut String, top: u64, size: u64, largest: u64, fill: &str) {
    let (x, width) = (MARGIN + NAME, part(size, largest, INNER - NAME - NUMBERS).max(u64::from(size > 0)));
    // Writing to a string does not fail.
    let _ = writeln!(
        out,
        r#"<rect class="part" x="{x}" y="{top}" width="{width}" height="{BAR}" rx="2" fill="{fill}"><title>{}</title></rect>"#,
        bytes(size)
    );
}

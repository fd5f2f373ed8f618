//! For each GPU, the stored size of its code objects before and now.

use std::cmp::Reverse;

use crate::beyond::job::GpuDiff;

use super::{Canvas, Rect, scaled, shortened};
use crate::beyond::cli::diff::total::DiffTotal;
use crate::beyond::cli::print::units::{bytes, count, percent};

const ROW: u64 = 52;
const BAR: u64 = 9;

/// The colours of the old size, and of a new one that is not larger, or larger.
const OLD: &str = "#8b949e";
const SMALLER: &str = "#0072b2";
const LARGER: &str = "#d55e00";

/// The largest number of GPUs with a row.
const GPUS_MAX: usize = 60;

/// The heading about all changes, and the line after it.
pub(crate) fn summary(total: &DiffTotal) -> [String; 2] {
    let (all, shown) = (total.all(), total.gpus.len().min(GPUS_MAX));
    let more = total.gpus.len() - shown;
    let facts = format!(
        "stored size of {}, grey before, coloured now{}",
        count(shown, "GPU", "GPUs"),
        if more > 0 { format!("; {more} more are not shown") } else { String::new() },
    );
    [format!("Device code: {}", change(all.old.stored, all.new.stored)), facts]
}

/// The picture of a file.
pub(crate) fn picture(total: &DiffTotal) -> String {
    let (mut canvas, [title, facts]) = (Canvas::of_file(), summary(total));
    canvas.draw_heading(&title, &facts);
    draw(total, &mut canvas);
    canvas.into_file()
}

/// Draws a row for each GPU, the largest differences first.
pub(crate) fn draw(total: &DiffTotal, canvas: &mut Canvas) {
    let mut gpus: Vec<(&str, &GpuDiff)> = total.gpus.iter().map(|(gpu, diff)| (&**gpu, diff)).collect();
    gpus.sort_by_key(|(_, diff)| Reverse(diff.old.stored.abs_diff(diff.new.stored)));
    gpus.truncate(GPUS_MAX);
    let largest = gpus.iter().map(|(_, diff)| diff.old.stored.max(diff.new.stored)).max().unwrap_or(0);
    for (gpu, diff) in gpus {
        let (old, new) = (diff.old.stored, diff.new.stored);
        let rect = canvas.reserve(ROW);
        let change = change(old, new);
        canvas.draw_text(rect.x, rect.y + 13, r#"font-weight="600""#, &shortened(gpu, rect.width / 2));
        canvas.draw_text(rect.x + rect.width, rect.y + 13, r#"text-anchor="end""#, &change);
        for (top, size, fill) in [(20, old, OLD), (20 + BAR + 1, new, if new > old { LARGER } else { SMALLER })] {
            let width = scaled(size, largest, rect.width).max(u64::from(size > 0));
            let bar = Rect { y: rect.y + top, height: BAR, width, ..rect };
            canvas.draw_rect(bar, &format!(r#"class="part" rx="2" fill="{fill}""#), &bytes(size));
        }
    }
}

/// A size before and now, and the difference.
fn change(old: u64, new: u64) -> String {
    let sign = if new < old { "-" } else { "+" };
    if new == old {
        format!("{}, no difference", bytes(new))
    } else if old == 0 {
        format!("{}, new", bytes(new))
    } else {
        format!("{} → {}, {sign}{}", bytes(old), bytes(new), percent(old.abs_diff(new), old))
    }
}

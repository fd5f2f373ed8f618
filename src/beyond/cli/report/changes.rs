//! For each GPU, the stored size of its code objects before and now, as tables of HTML.

use std::cmp::Reverse;
use std::fmt::Write;

use crate::beyond::cli::picture::escaped;
use crate::beyond::cli::print::units::{bytes, count, per_mille, percent};
use crate::beyond::job::{DiffTotals, Presence};

/// The largest number of GPUs in each table.
const GPUS_MAX: usize = 60;

/// The largest number of losses in single libraries that the page shows unfolded.
const LOSSES_OPEN_MAX: usize = 10;

/// Describes how the code for a GPU changed. GPUs are shown in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum SizeChange {
    Lost,
    Larger,
    Smaller,
    /// Only the old or only the new files have code of this name, but the other ones serve the GPU with other code.
    Replaced,
    SameSize,
    Gained,
}

impl SizeChange {
    const ALL: [Self; 6] = [Self::Lost, Self::Larger, Self::Smaller, Self::Replaced, Self::SameSize, Self::Gained];

    /// Returns the change of a GPU. Sizes are compared only if both the old and the new files have code of its name.
    fn new(presence: Presence, old: u64, new: u64) -> Self {
        match presence {
            Presence::Lost => Self::Lost,
            Presence::Gained => Self::Gained,
            Presence::Replaced => Self::Replaced,
            Presence::Both if new > old => Self::Larger,
            Presence::Both if new < old => Self::Smaller,
            Presence::Both => Self::SameSize,
        }
    }

    /// Returns the word in the legend. This word is also the class, which gives the colour of the new size.
    fn word(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Larger => "larger",
            Self::Smaller => "smaller",
            Self::Replaced => "replaced",
            Self::SameSize => "unchanged",
            Self::Gained => "new",
        }
    }
}

/// The stored sizes of the code for a GPU.
struct GpuChange<'t> {
    gpu: &'t str,
    old: u64,
    new: u64,
    change: SizeChange,
}

impl GpuChange<'_> {
    /// Returns the difference of the sizes, or one word if only one of the files has the name of the GPU.
    fn difference(&self) -> String {
        match self.change {
            SizeChange::Lost | SizeChange::Replaced | SizeChange::Gained => self.change.word().to_owned(),
            SizeChange::Larger | SizeChange::Smaller | SizeChange::SameSize => difference(self.old, self.new),
        }
    }
}

/// Returns the largest size of all GPUs, before or after, which has the longest bar.
fn largest(gpus: &[GpuChange<'_>]) -> u64 {
    gpus.iter().map(|gpu| gpu.old.max(gpu.new)).max().unwrap_or(0)
}

/// Returns the GPUs in the order of [`SizeChange`], and GPUs with the same change by their difference, largest first.
fn gpu_changes(total: &DiffTotals) -> Vec<GpuChange<'_>> {
    let mut changes = Vec::with_capacity(total.gpus.len());
    for gpu in &total.gpus {
        let (old, new) = (gpu.numbers.old.stored, gpu.numbers.new.stored);
        changes.push(GpuChange { gpu: &gpu.target_id, old, new, change: SizeChange::new(gpu.presence, old, new) });
    }
    changes.sort_by_key(|gpu| (gpu.change, Reverse(gpu.old.abs_diff(gpu.new))));
    changes
}

/// Returns a line with the sizes of all device code, old and new, and their difference.
pub(super) fn summary(total: &DiffTotals) -> String {
    let all = total.all();
    let (old, new) = (all.old.stored, all.new.stored);
    format!("Device code: {} → {}, {}", bytes(old), bytes(new), difference(old, new))
}

/// Returns the number of GPUs with each kind of change, such as "2 lost, 5 larger, 11 smaller".
pub(super) fn counts(total: &DiffTotals) -> String {
    let gpus = gpu_changes(total);
    let mut counts = Vec::new();
    for change in SizeChange::ALL {
        let number = gpus.iter().filter(|gpu| gpu.change == change).count();
        if number > 0 {
            counts.push(format!("{number} {}", change.word()));
        }
    }
    counts.join(", ")
}

/// Returns the words of the legend: the old size, and the changes that occur. Equal and replaced sizes have the colour of
/// the old size.
fn legend(gpus: &[GpuChange<'_>]) -> Vec<&'static str> {
    let mut words = vec!["before"];
    for change in [SizeChange::Lost, SizeChange::Larger, SizeChange::Smaller, SizeChange::Gained] {
        if gpus.iter().any(|gpu| gpu.change == change) {
            words.push(change.word());
        }
    }
    words
}

/// Returns the GPUs as HTML: the names of lost GPUs, the legend, a table of all GPUs but the gained ones, and a folded
/// table of gained GPUs.
pub(super) fn tables(total: &DiffTotals) -> String {
    let gpus = gpu_changes(total);
    let largest = largest(&gpus);
    // Gained GPUs are the last ones.
    let (not_gained, gained) = gpus.split_at(gpus.partition_point(|gpu| gpu.change != SizeChange::Gained));
    let mut out = String::new();
    let lost: Vec<&str> = not_gained.iter().filter(|gpu| gpu.change == SizeChange::Lost).map(|gpu| gpu.gpu).collect();
    if !lost.is_empty() {
        let _ = writeln!(out, "<p class=\"gap\">GPUs lost: {}</p>", escaped(&lost.join(", ")));
    }
    let less_served: Vec<String> = total.partial_losses().map(|loss| loss.text(&loss.library)).collect();
    if !less_served.is_empty() {
        // A long list is folded.
        let open = if less_served.len() <= LOSSES_OPEN_MAX { " open" } else { "" };
        let gpus = count(less_served.len(), "GPU of a library has", "GPUs of libraries have");
        let _ = write!(out, "<details{open}><summary class=\"gap\">{gpus} code in fewer bundles</summary><ul>");
        for sentence in less_served {
            let _ = write!(out, "<li>{}</li>", escaped(&sentence));
        }
        out.push_str("</ul></details>\n");
    }
    out.push_str("<ul class=\"key\">");
    for word in legend(&gpus) {
        let _ = write!(out, "<li class=\"{word}\"><b></b>{word}</li>");
    }
    out.push_str("</ul>\n");
    if !not_gained.is_empty() {
        push_table(not_gained, largest, &mut out);
    }
    if !gained.is_empty() {
        // The details are shown at once if there is nothing else to see.
        let open = if not_gained.is_empty() { " open" } else { "" };
        let stored = gained.iter().map(|gpu| gpu.new).fold(0, u64::saturating_add);
        let number = count(gained.len(), "GPU gained", "GPUs gained");
        let _ = writeln!(out, "<details{open}><summary>{number}, {}</summary>", bytes(stored));
        push_table(gained, largest, &mut out);
        out.push_str("</details>\n");
    }
    out
}

/// Appends a table of GPUs, each with the bars of its two sizes. A size of `largest` has the longest bar.
fn push_table(gpus: &[GpuChange<'_>], largest: u64, out: &mut String) {
    out.push_str(
        "<table class=\"changes\"><thead><tr><th scope=\"col\">GPU</th><th scope=\"col\" class=\"number\">Before</th>\
         <th scope=\"col\" class=\"number\">Now</th><th scope=\"col\" class=\"number\">Change</th><td></td></tr></thead><tbody>\n",
    );
    for gpu in gpus.iter().take(GPUS_MAX) {
        let _ = write!(out, "<tr class=\"{}\"><th scope=\"row\">{}</th>", gpu.change.word(), escaped(gpu.gpu));
        for size in [gpu.old, gpu.new] {
            let text = if size == 0 { "–".to_owned() } else { bytes(size) };
            let _ = write!(out, "<td class=\"number\">{text}</td>");
        }
        let _ = write!(out, "<td class=\"number\">{}</td><td class=\"bars\">", gpu.difference());
        // The style sheet draws `i` in the colour of the old size, and `b` in the colour of the change.
        for (element, size) in [("i", gpu.old), ("b", gpu.new)] {
            if size > 0 {
                let share = per_mille(size, largest);
                let _ = write!(out, "<{element} style=\"width:{}.{}%\"></{element}>", share / 10, share % 10);
            }
        }
        out.push_str("</td></tr>\n");
    }
    let more = gpus.len().saturating_sub(GPUS_MAX);
    if more > 0 {
        let _ = writeln!(out, "<tr><td colspan=\"5\">{}</td></tr>", count(more, "more GPU", "more GPUs"));
    }
    out.push_str("</tbody></table>\n");
}

/// Returns the difference between two sizes as a percentage of the old size. Returns words if both are equal, or if the
/// old size is 0.
fn difference(old: u64, new: u64) -> String {
    if new == old {
        "no difference".to_owned()
    } else if old == 0 {
        "new".to_owned()
    } else {
        let sign = if new < old { "-" } else { "+" };
        format!("{sign}{}", percent(old.abs_diff(new), old))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_have_one_kind_of_change_each() {
        for (presence, old, new, expected) in [
            (Presence::Lost, 5, 0, SizeChange::Lost),
            (Presence::Gained, 0, 5, SizeChange::Gained),
            (Presence::Replaced, 5, 0, SizeChange::Replaced),
            (Presence::Both, 5, 6, SizeChange::Larger),
            (Presence::Both, 5, 4, SizeChange::Smaller),
            (Presence::Both, 5, 5, SizeChange::SameSize),
        ] {
            assert_eq!(SizeChange::new(presence, old, new), expected);
        }
    }
}

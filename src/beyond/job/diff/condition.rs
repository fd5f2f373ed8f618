//! The conditions of `--fail-on`, and the conditions that are met.

use super::super::condition::{Failure, Judged, nearest_name, word_and_rest};
use super::super::kernels::{DemangleName, shown_names, spills};
use super::report::{DiffTotals, Presence};
use super::rows::SpillingKernels;
use super::{GpuDiff, KernelDiff};
use crate::beyond::base::text::{bytes, count};
use crate::beyond::runtime::Device;

/// A condition on the differences of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiffCondition {
    /// A GPU has lost all its code, or a bundle of a library.
    LostGpu,
    /// A kernel spills more registers than before.
    Spill,
    /// The size of all device code, or of the code for a GPU, grows by more than this, in percent.
    Size(u32),
    /// The size of all device code grows by more than this, in percent.
    Total(u32),
}

/// The names of the conditions, and examples of them.
const EXAMPLES: [(&str, &str); 4] =
    [("lost-gpu", "lost-gpu"), ("spill", "spill"), ("size", "size=+5%"), ("total", "total=+5%")];

/// Returns the message about a text that is not a condition: the conditions, and the one that may be meant.
fn not_a_condition(text: &str) -> String {
    let conditions = "not a condition; the conditions are lost-gpu, spill, size=+N% and total=+N%";
    let (typed, _) = word_and_rest(text);
    let nearest = nearest_name(typed, EXAMPLES.map(|(name, _)| name));
    match EXAMPLES.into_iter().find(|(name, _)| nearest == Some(name)) {
        Some((_, example)) => format!("{conditions}; did you mean '{example}'?"),
        None => conditions.to_owned(),
    }
}

impl DiffCondition {
    /// Reads a condition as the user types it.
    ///
    /// # Errors
    /// The reason why the text is no condition.
    pub fn parse(text: &str) -> Result<Self, String> {
        let without_spaces: String = text.split_whitespace().collect();
        let (name, growth) = match without_spaces.split_once('=') {
            Some((name, growth)) => (name, Some(growth)),
            None => (&*without_spaces, None),
        };
        match (name, growth) {
            ("lost-gpu", None) => Ok(Self::LostGpu),
            ("spill", None) => Ok(Self::Spill),
            ("size", growth) => Ok(Self::Size(percent(name, growth)?)),
            ("total", growth) => Ok(Self::Total(percent(name, growth)?)),
            _ => Err(not_a_condition(text.trim())),
        }
    }

    /// Returns whether code for a GPU records the numbers of the condition.
    fn is_recorded(self, gpu: &str) -> bool {
        match self {
            Self::Spill => Device::parse(gpu).is_ok_and(|device| device.records_spills()),
            Self::LostGpu | Self::Size(_) | Self::Total(_) => true,
        }
    }

    /// Returns whether code of the old files records the numbers of the condition.
    fn is_recorded_in(self, total: &DiffTotals) -> bool {
        old_gpus(total).any(|gpu| self.is_recorded(gpu))
    }

    /// Returns the name of the condition, as the user types it.
    fn name(self) -> &'static str {
        match self {
            Self::LostGpu => "lost-gpu",
            Self::Spill => "spill",
            Self::Size(_) => "size",
            Self::Total(_) => "total",
        }
    }
}

/// Reads by how many percent a size may grow, for a condition of this name. The sign may be left out.
fn percent(name: &str, growth: Option<&str>) -> Result<u32, String> {
    let growth = growth.unwrap_or_default();
    // Rust's numbers may begin with the sign.
    let number = growth.strip_suffix('%').and_then(|number| number.parse().ok());
    number.ok_or_else(|| match growth {
        "" => format!("by how much may it grow? expected {name}=+5%"),
        _ => format!("expected a whole number of percent, such as {name}=+5%"),
    })
}

/// Returns whether a size grew by more than `percent`.
fn is_exceeded(percent: u32, old: u64, new: u64) -> bool {
    // The products may need more than 64 bits.
    u128::from(new.saturating_sub(old)) * 100 > u128::from(old) * u128::from(percent)
}

/// Returns the GPUs that the old files have code for.
fn old_gpus(total: &DiffTotals) -> impl Iterator<Item = &str> {
    total.gpus.iter().filter(|gpu| gpu.numbers.old.code_objects > 0).map(|gpu| &*gpu.target_id)
}

/// The conditions of a command line.
#[derive(Clone, Debug)]
pub struct DiffConditions(pub Vec<DiffCondition>);

impl DiffConditions {
    /// Returns whether there are no conditions.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether the conditions had something to judge. They had nothing if the old or the new files have no
    /// code, and only unrecorded numbers if no code of the old files records a number that a condition compares.
    pub fn judged(&self, total: &DiffTotals) -> Judged {
        if total.all().new.code_objects == 0 || old_gpus(total).next().is_none() {
            Judged::Nothing
        } else if self.0.iter().any(|condition| condition.is_recorded_in(total)) {
            Judged::Something
        } else {
            Judged::Unrecorded
        }
    }

    /// Returns the names of the conditions whose numbers no code of the old files records. Returns an empty list if no
    /// condition was judged, because the caller reports that as an error.
    pub fn unrecorded(&self, total: &DiffTotals) -> Vec<&'static str> {
        let mut names = Vec::new();
        if self.judged(total) == Judged::Something {
            for condition in &self.0 {
                if !condition.is_recorded_in(total) {
                    names.push(condition.name());
                }
            }
        }
        names
    }

    /// Returns the conditions that are met, with the reasons.
    pub fn failures(&self, total: &DiffTotals, demangle: DemangleName<'_>) -> Vec<Failure> {
        let mut failures = Vec::new();
        for condition in &self.0 {
            let reasons = match condition {
                DiffCondition::LostGpu => lost_gpus(total),
                DiffCondition::Spill => added_spills(total, demangle),
                DiffCondition::Size(percent) => grown_sizes(total, *percent),
                DiffCondition::Total(percent) => Vec::from_iter(growth_text("all device code", &total.all(), *percent)),
            };
            for reason in reasons {
                failures.push(Failure { condition: condition.name().to_owned(), reason });
            }
        }
        failures
    }
}

/// Returns a sentence for each GPU that lost all its code, and for each GPU that fewer bundles of a library serve. GPUs
/// without any code are not reported again for each library.
fn lost_gpus(total: &DiffTotals) -> Vec<String> {
    let mut reasons = Vec::new();
    for gpu in total.gpus.iter().filter(|gpu| gpu.presence == Presence::Lost) {
        let before = count(gpu.numbers.old.code_objects, "code object", "code objects");
        reasons.push(format!("no code for {} any longer, before {before}", gpu.target_id));
    }
    reasons.extend(total.partial_losses().map(|loss| loss.text(&loss.library)));
    reasons
}

/// Returns a sentence for each GPU about the kernels that spill more registers, and one about new kernels that spill.
fn added_spills(total: &DiffTotals, demangle: DemangleName<'_>) -> Vec<String> {
    let mut reasons = Vec::new();
    for ((gpu, is_new), SpillingKernels { kernels, worst }) in &total.spills {
        let numbers = if *is_new {
            format!("{} registers", count(*kernels, "new kernel spills", "new kernels spill"))
        } else {
            format!("{} more registers", count(*kernels, "kernel spills", "kernels spill"))
        };
        reasons.push(format!("{numbers} on {gpu}, {}", spills_text(worst, demangle)));
    }
    reasons
}

/// Returns the numbers of registers that a kernel spills, now and before, and its name.
fn spills_text(kernel: &KernelDiff, demangle: DemangleName<'_>) -> String {
    let names = shown_names(std::iter::once(&kernel.name), demangle);
    let shown = names.get(&kernel.name).map(|name| &**name).unwrap_or_default();
    let [old, new] = [&kernel.old, &kernel.new].map(|kernel| match kernel {
        Some(kernel) => spills(kernel).to_string(),
        None => "none".to_owned(),
    });
    format!("{new} (before {old}) in '{shown}'")
}

/// Returns a sentence for each size that grew by more than `percent`: of all device code, and of the code for each GPU.
fn grown_sizes(total: &DiffTotals, percent: u32) -> Vec<String> {
    let mut reasons = Vec::from_iter(growth_text("all device code", &total.all(), percent));
    for gpu in &total.gpus {
        // The code for a GPU that is new or gone did not grow.
        if gpu.numbers.old.code_objects > 0 && gpu.numbers.new.code_objects > 0 {
            reasons.extend(growth_text(&format!("device code for {}", gpu.target_id), &gpu.numbers, percent));
        }
    }
    reasons
}

/// Returns a sentence about code that grew by more than `percent`, or `None` if it did not.
fn growth_text(code: &str, gpu: &GpuDiff, percent: u32) -> Option<String> {
    if !is_exceeded(percent, gpu.old.stored, gpu.new.stored) {
        return None;
    }
    let (old, new) = (bytes(gpu.old.stored), bytes(gpu.new.stored));
    Some(format!("{code} grew by more than {percent} %, from {old} to {new}"))
}

#[cfg(test)]
mod tests {
    use super::super::report::{GpuTotal, LibraryLoss};
    use super::*;
    use crate::beyond::inventory::ServedBundles;

    #[test]
    fn conditions_are_known_by_their_names_and_growths_are_percents() {
        use DiffCondition::{LostGpu, Size, Spill, Total};
        for (text, condition) in [
            ("lost-gpu", LostGpu),
            (" spill ", Spill),
            ("size=+5%", Size(5)),
            ("size=25%", Size(25)),
            ("total=+0%", Total(0)),
            ("total = + 7 %", Total(7)),
        ] {
            assert_eq!(DiffCondition::parse(text), Ok(condition), "{text}");
        }
        for text in ["size", "size="] {
            let error = DiffCondition::parse(text).unwrap_err();
            assert!(error.starts_with("by how much may it grow? expected "), "{text}: {error}");
        }
        for text in ["size=-5%", "size=+%", "size=+5", "size=0.5%", "size=1MB", "total=99999999999%"] {
            let error = DiffCondition::parse(text).unwrap_err();
            assert!(error.starts_with("expected a whole number of percent"), "{text}: {error}");
        }
        for text in ["min=100kB", "scratch", "vgpr>128", "lost", "spill=1", ""] {
            assert!(DiffCondition::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_nearest_condition_is_suggested_and_nothing_for_other_words() {
        for (text, meant) in [
            ("lostgpu", "lost-gpu"),
            ("LOST_GPU", "lost-gpu"),
            ("lost", "lost-gpu"),
            ("spills", "spill"),
            ("size>5%", "size=+5%"),
            ("totals=5%", "total=+5%"),
        ] {
            let error = DiffCondition::parse(text).unwrap_err();
            assert!(error.ends_with(&format!("; did you mean '{meant}'?")), "{text}: {error}");
        }
        for text in ["scratch", "vgpr>128", "", "l"] {
            let error = DiffCondition::parse(text).unwrap_err();
            assert!(error.ends_with(" size=+N% and total=+N%"), "{text}: {error}");
        }
    }

    #[test]
    fn a_growth_is_exceeded_by_one_byte_more() {
        assert!(!is_exceeded(5, 1000, 1050) && is_exceeded(5, 1000, 1051) && !is_exceeded(5, 1000, 0));
        assert!(is_exceeded(5, 0, 1) && !is_exceeded(5, 0, 0) && is_exceeded(5, 1, u64::MAX));
    }

    /// Returns the totals of GPUs: for each the numbers of bytes before and now, in one code object. 0 means that there
    /// is none.
    fn totals(gpus: &[(&str, u64, u64)]) -> DiffTotals {
        let mut totals = DiffTotals::default();
        for (name, old, new) in gpus {
            let mut numbers = GpuDiff::default();
            for (side, size) in [(&mut numbers.old, *old), (&mut numbers.new, *new)] {
                (side.code_objects, side.stored) = (usize::from(size > 0), size);
            }
            let (target_id, presence) = ((*name).into(), Presence::by_name(&numbers));
            totals.gpus.push(GpuTotal { target_id, presence, numbers });
        }
        totals
    }

    fn conditions(list: &str) -> DiffConditions {
        DiffConditions(list.split(',').map(|text| DiffCondition::parse(text).unwrap()).collect())
    }

    fn failures(list: &str, totals: &DiffTotals) -> Vec<String> {
        let failures = conditions(list).failures(totals, &|name| Some(format!("{}()", String::from_utf8_lossy(name))));
        failures.iter().map(Failure::to_string).collect()
    }

    #[test]
    fn sizes_fail_above_their_limits() {
        for (list, gpus, reasons) in [
            ("size=+10%", &[("gfx906", 1000, 1100)][..], &[][..]),
            (
                "size=+10%",
                &[("gfx906", 1000, 1101), ("gfx90a", 1000, 900)],
                &["size: device code for gfx906 grew by more than 10 %, from 1.00 kB to 1.10 kB"],
            ),
            (
                "size=+5%",
                &[("gfx906", 100, 100), ("gfx90a", 1000, 2000)],
                &[
                    "size: all device code grew by more than 5 %, from 1.10 kB to 2.10 kB",
                    "size: device code for gfx90a grew by more than 5 %, from 1.00 kB to 2.00 kB",
                ],
            ),
            // Code for a GPU that is new or gone has not grown.
            ("size=+50%", &[("gfx906", 0, 100), ("gfx90a", 1000, 1000), ("gfx942", 100, 0)], &[]),
            ("total=+1%", &[("gfx906", 100, 200), ("gfx90a", 10_000, 10_000)], &[]),
            (
                "total=+0%,total=+50%",
                &[("gfx906", 100, 200), ("gfx90a", 10_000, 10_000)],
                &["total: all device code grew by more than 0 %, from 10.1 kB to 10.2 kB"],
            ),
        ] {
            assert_eq!(failures(list, &totals(gpus)), reasons, "{list} {gpus:?}");
        }
    }

    #[test]
    fn gpus_are_lost_with_all_their_code_or_in_a_library() {
        let mut totals = totals(&[("gfx906", 1, 0), ("gfx90a", 1, 1), ("gfx942", 0, 1), ("sm_90", 1, 0)]);
        for (index, target_id) in [(0, "gfx906"), (1, "gfx90a")] {
            let served = |serving| {
                let mut served = ServedBundles::default();
                (served.serving, served.bundles) = (serving, 2);
                served
            };
            let (library, old, new) = (format!("{index}.so"), served(2), served(index));
            totals.losses.push(LibraryLoss { target_id: target_id.into(), library, member: None, old, new });
        }
        // The other files serve it with other code.
        totals.gpus[3].presence = Presence::Replaced;
        assert_eq!(
            failures("lost-gpu", &totals),
            [
                "lost-gpu: no code for gfx906 any longer, before 1 code object",
                "lost-gpu: 1 of 2 bundles of '1.so' serve gfx90a, before 2 of 2 bundles"
            ]
        );
    }

    #[test]
    fn conditions_judge_code_of_the_old_files_that_has_their_numbers() {
        use Judged::{Nothing, Something, Unrecorded};
        for (list, gpus, judged, unrecorded) in [
            ("spill", &[("gfx906", 1, 1)][..], Something, &[][..]),
            ("spill", &[("sm_90", 1, 1)], Unrecorded, &[]),
            // The new code has nothing to be compared with.
            ("spill", &[("sm_90", 1, 1), ("gfx906", 0, 1)], Unrecorded, &[]),
            ("spill,lost-gpu", &[("sm_90", 1, 1)], Something, &["spill"]),
            ("lost-gpu", &[("sm_90", 1, 0)], Nothing, &[]),
            ("size=+1%", &[("sm_90", 0, 1)], Nothing, &[]),
            ("total=+1%", &[], Nothing, &[]),
        ] {
            let (conditions, totals) = (conditions(list), totals(gpus));
            assert_eq!(conditions.judged(&totals), judged, "{list} {gpus:?}");
            assert_eq!(conditions.unrecorded(&totals), unrecorded, "{list} {gpus:?}");
        }
    }

    #[test]
    fn spills_fail_by_gpu_and_new_kernels_apart() {
        use super::super::rows::tests::kernel;
        use super::super::{KernelRows, ListedKernels};
        let kernels = vec![
            kernel("same", Some(2), Some(2)),
            kernel("less", Some(2), Some(1)),
            kernel("more", Some(1), Some(2)),
            kernel("most", Some(3), Some(6)),
            kernel("new", None, Some(4)),
            kernel("clean", None, Some(0)),
            kernel("gone", Some(9), None),
        ];
        // Kernels without a row count too.
        let rows = KernelRows::new(kernels, (0, ListedKernels::All), &|_| None);
        let totals = DiffTotals { spills: rows.spills, ..totals(&[("gfx906", 1, 1)]) };
        assert_eq!(
            failures("spill", &totals),
            [
                "spill: 2 kernels spill more registers on gfx906, 6 (before 3) in 'most()'",
                "spill: 1 new kernel spills registers on gfx906, 4 (before none) in 'new()'"
            ]
        );
    }
}

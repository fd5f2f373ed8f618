//! The conditions of `--fail-on` that are met.

use std::sync::Arc;

use super::kernel::{New, Spilling};
use super::total::{DiffTotal, Presence};
use crate::cli::conditions::{Condition, Growth};
use crate::cli::kernels::column::spills;
use crate::cli::kernels::report::demangled_names;
use crate::cli::print::units::{bytes, count};
use offload_bundle::job::{KernelDiff, Loss};
use offload_bundle::runtime::Served;
use offload_bundle::scan::Sizes;
use offload_bundle::serialized::Failure;

/// The conditions that are met, with the reasons.
pub(super) fn failures(conditions: &[Condition], total: &DiffTotal) -> Vec<Failure> {
    let mut failures = Vec::new();
    for condition in conditions {
        let reasons = match condition {
            Condition::LostGpu => lost_gpus(total),
            Condition::Spill => spilling(total),
            Condition::Size(growth) => grown(total, *growth),
            Condition::Hostcall | Condition::Above(..) => Vec::new(),
        };
        failures.extend(reasons.into_iter().map(|reason| Failure { condition: condition.to_string(), reason }));
    }
    failures
}

fn lost_gpus(total: &DiffTotal) -> Vec<String> {
    let presences = total.presences();
    let is_lost = |name: &str| presences.get(name) == Some(&Presence::Lost);
    let before = |sizes: &Sizes| count(sizes.code_objects, "code object", "code objects");
    let lost = total.gpus.iter().filter(|(name, _)| is_lost(name));
    let lost = lost.map(|(name, gpu)| format!("no code for {name} any longer, before {}", before(&gpu.old)));
    let in_libraries = total.losses.iter().filter(|(_, loss)| !is_lost(&loss.gpu));
    lost.chain(in_libraries.map(|(library, loss)| lost_in(library, loss))).collect()
}

/// How a GPU is served less than before.
pub(super) fn lost_in(library: &str, Loss { gpu, old, new, .. }: &Loss) -> String {
    let of = |served: &Served| format!("{} of {}", served.serving, count(served.bundles, "bundle", "bundles"));
    match new.serving {
        0 => format!("no bundle of '{library}' serves {gpu} any longer, before {}", of(old)),
        _ => format!("{} of '{library}' serve {gpu}, before {}", of(new), of(old)),
    }
}

fn spilling(total: &DiffTotal) -> Vec<String> {
    let reason = |((gpu, is_new), Spilling { kernels, worst }): (&(Arc<str>, New), &Spilling)| {
        let (numbers, more) = match is_new {
            New(false) => (count(*kernels, "kernel spills", "kernels spill"), "more "),
            New(true) => (count(*kernels, "new kernel spills", "new kernels spill"), ""),
        };
        format!("{numbers} {more}registers on {gpu}, {}", described(worst))
    };
    total.spills.iter().map(reason).collect()
}

/// A kernel, with the number of registers that it spills.
fn described(kernel: &KernelDiff) -> String {
    let names = demangled_names(std::iter::once(&kernel.name), None);
    let shown = names.get(&kernel.name).map_or("", |name| name);
    let number = |kernel: &Option<_>| kernel.as_ref().map_or("none".to_owned(), |kernel| spills(kernel).to_string());
    format!("{} (before {}) in '{shown}'", number(&kernel.new), number(&kernel.old))
}

fn grown(total: &DiffTotal, growth: Growth) -> Vec<String> {
    let all = total.all();
    let in_both = total.gpus.iter().filter(|(_, gpu)| gpu.old.code_objects > 0 && gpu.new.code_objects > 0);
    let of_gpus = in_both.map(|(name, gpu)| (format!("device code for {name}"), gpu));
    let sizes = std::iter::once(("all device code".to_owned(), &all)).chain(of_gpus);
    let exceeding = sizes.filter(|(_, gpu)| growth.is_exceeded(gpu.old.stored, gpu.new.stored));
    let reason = |(what, gpu): (String, &offload_bundle::job::GpuDiff)| {
        let (old, new) = (bytes(gpu.old.stored), bytes(gpu.new.stored));
        format!("{what} grew by more than {growth}, from {old} to {new}")
    };
    exceeding.map(reason).collect()
}

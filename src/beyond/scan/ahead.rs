//! Inflates parts of a file before their turn, on all processors.
//!
//! Large ones go to temporary files. If these have less free room than twice what is inflated at a time, or there is no
//! room for one, all others are inflated in their turn: what is found in them may need room too.

use std::sync::atomic::{AtomicBool, Ordering};
use std::{env, iter};

use crate::base::error::Result;
use crate::base::io::input::MEMORY_MAX;
use crate::base::io::sys;
use crate::beyond::parallel::{self, THREADS_MAX, WEIGHT_MAX};
use crate::llvm::container::limits::Allowance;

/// The size from which on it pays to inflate something on another thread, in bytes.
const LARGE: u64 = 1 << 20;

/// What was inflated, with a number by which its turn is found.
type NumberedResult<T> = (u64, Result<T>);

/// Calls `inflate` for items that are large, and passes the results to `consume`, in order. The items have their
/// inflated sizes; those that together exceed `budget` are left out, to be reported in their turn.
pub(super) fn inflate<I: Send, T: Send, R>(
    items: impl Iterator<Item = (u64, I)>,
    budget: u64,
    inflate: impl Fn(I) -> Option<NumberedResult<T>> + Sync,
    consume: impl FnOnce(&mut dyn Iterator<Item = NumberedResult<T>>) -> R,
) -> R {
    let mut room = Allowance::new(budget);
    let large = items.filter(|(size, _)| *size >= LARGE && room.take(*size).is_some());
    let (sizes, large): (Vec<u64>, Vec<I>) = large.unzip();
    let large = if have_room(sizes) { large } else { Vec::new() };
    let is_full = AtomicBool::new(false);
    let work = |item| {
        let inflated = if is_full.load(Ordering::Relaxed) { None } else { inflate(item) };
        let fault = inflated.as_ref().and_then(|(_, inflated)| inflated.as_ref().err());
        if fault.is_some_and(|fault| fault.io_error().is_some()) {
            is_full.store(true, Ordering::Relaxed);
        }
        inflated
    };
    // While one waits, no other is begun.
    parallel::in_order(
        large,
        work,
        |_| WEIGHT_MAX.saturating_add(1),
        |results| consume(&mut iter::from_fn(|| results.flatten().find(|_| !is_full.load(Ordering::Relaxed)))),
    )
}

/// Whether there is room for temporary files of those of some sizes that may exist at a time.
fn have_room(mut sizes: Vec<u64>) -> bool {
    sizes.retain(|size| *size > MEMORY_MAX);
    sizes.sort_unstable();
    // Each thread has one, one waits, and one is searched.
    let largest = sizes.iter().rev().take(THREADS_MAX.saturating_add(2));
    let needed = largest.fold(0_u64, |sum, size| sum.saturating_add(*size)).saturating_mul(2);
    needed == 0 || sys::free_space(&env::temp_dir()).is_some_and(|free| free >= needed)
}

//! Inflates parts of a file before their turn, on all processors.
//!
//! Large parts go to temporary files. Twice the size of the parts that are inflated at a time has to be free on the
//! disk, because the search may need as much again for containers inside of them. Otherwise, or once the disk is full,
//! all other parts are inflated in their turn.

use std::sync::atomic::{AtomicBool, Ordering};
use std::{env, iter};

use crate::base::bytes::total;
use crate::base::error::Result;
use crate::base::io::input::MEMORY_MAX;
use crate::base::io::sys;
use crate::beyond::parallel::{self, THREADS_MAX, WEIGHT_MAX};
use crate::llvm::container::limits::Allowance;

/// The minimum size of a part that is worth inflating on another thread, in bytes.
const LARGE: u64 = 1 << 20;

/// Inflated data or an error, with a number for the caller: the index or the offset of the item.
type NumberedResult<T> = (u64, Result<T>);

/// Calls `inflate` for items that are large, and passes the results to `consume`, in order. The items come with their
/// inflated sizes. Items that would exceed `budget`, in bytes, are left out, and so are items for which `inflate`
/// returns `None`. Without enough space on the disk, all are left out. The caller reads or reports these items in their
/// turn.
pub(super) fn inflate<I: Send, T: Send, R>(
    items: impl Iterator<Item = (u64, I)>,
    budget: u64,
    inflate: impl Fn(I) -> Option<NumberedResult<T>> + Sync,
    consume: impl FnOnce(&mut dyn Iterator<Item = NumberedResult<T>>) -> R,
) -> R {
    let mut room = Allowance::new(budget);
    let (mut sizes, mut large) = (Vec::new(), Vec::new());
    for (size, item) in items {
        if size >= LARGE && room.take(size).is_some() {
            sizes.push(size);
            large.push(item);
        }
    }
    if !has_disk_space(sizes) {
        large.clear();
    }
    let is_full = AtomicBool::new(false);
    parallel::in_order(
        large,
        |item| {
            if is_full.load(Ordering::Relaxed) {
                return None;
            }
            let inflated = inflate(item)?;
            // An error of the operating system most likely means that the disk is full.
            if let (_, Err(error)) = &inflated
                && error.io_error().is_some()
            {
                is_full.store(true, Ordering::Relaxed);
            }
            Some(inflated)
        },
        // A result weighs more than the limit, so that no other item is inflated while one waits.
        |_| WEIGHT_MAX.saturating_add(1),
        // Once the disk is full, the results are dropped: the caller inflates these items in their turn, which needs
        // less space, and reports the errors.
        |results| consume(&mut iter::from_fn(|| results.flatten().find(|_| !is_full.load(Ordering::Relaxed)))),
    )
}

/// Returns whether the disk has space for the largest temporary files that may exist at a time. Returns false if the
/// system does not say how much is free.
fn has_disk_space(mut sizes: Vec<u64>) -> bool {
    // Smaller parts stay in memory.
    sizes.retain(|size| *size > MEMORY_MAX);
    sizes.sort_unstable();
    // Each thread has a file, one waits, and one is searched.
    let largest = sizes.iter().rev().take(THREADS_MAX.saturating_add(2));
    let needed = total(largest.copied()).saturating_mul(2);
    if needed == 0 {
        return true;
    }
    match sys::free_space(&env::temp_dir()) {
        Some(free) => free >= needed,
        None => false,
    }
}

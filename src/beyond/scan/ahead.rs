//! Inflates parts of a file before their turn, on all processors.
//!
//! Large parts go to temporary files. Twice the size of the parts that are inflated at a time has to be free on the
//! disk, because the search may need as much again for containers inside of them. With less space, or once the disk is
//! full, the walk inflates each part itself when it reaches the part.

use std::iter;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::base::error::Result;
use crate::beyond::parallel::{self, WEIGHT_MAX, has_disk_space};
use crate::llvm::container::limits::Allowance;

/// The minimum size of a part that is worth inflating on another thread, in bytes.
const LARGE: u64 = 1 << 20;

/// Inflated data or an error, with a number for the caller: the index or the offset of the item.
type NumberedResult<T> = (u64, Result<T>);

/// Calls `inflate` for large items on all processors, and passes the results to `consume`, in order. Returns the result
/// of `consume`. The items come with their inflated sizes.
///
/// These items are left out: small ones, items that would exceed `budget`, in bytes, items for which `inflate` returns
/// `None`, and all items if the disk lacks space. `consume` has to inflate them itself, and to report why it cannot.
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
    // One file has the part itself. Others, together as large, have the containers inside of it that the search
    // inflates.
    const FILES_PER_PART: u64 = 2;
    if !has_disk_space(sizes.into_iter(), FILES_PER_PART) {
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
        // One waiting result exceeds the limit on waiting results, so that no further item is inflated to the disk.
        |_| WEIGHT_MAX.saturating_add(1),
        // Once the disk is full, the results are dropped: `consume` inflates these items itself, one at a time, which
        // needs less space.
        |results| consume(&mut iter::from_fn(|| results.flatten().find(|_| !is_full.load(Ordering::Relaxed)))),
    )
}

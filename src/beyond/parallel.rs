//! Processes many items on all processors, and gives the results in the order of the items.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::{mem, thread, vec};

/// The largest weight of results that wait for their turn. While they weigh more, no further item is begun.
pub(crate) const WEIGHT_MAX: usize = 100_000;

/// The largest number of threads. Each may need as much memory as its item is allowed.
pub(crate) const THREADS_MAX: usize = 8;

/// Calls `work` for each item, on several threads if there are several items and processors. Passes the results to
/// `consume`, in the order of the items, and returns its result. If `consume` ends early, items after the last result
/// that it took may be skipped.
///
/// `weight` estimates the memory of a result, in units of a few hundred bytes; see [`WEIGHT_MAX`].
pub(crate) fn in_order<I: Send, T: Send, R>(
    items: Vec<I>,
    work: impl Fn(I) -> T + Sync,
    weight: impl Fn(&T) -> usize + Sync,
    consume: impl FnOnce(&mut dyn Iterator<Item = T>) -> R,
) -> R {
    let threads = thread_count(items.len());
    on_threads(threads, items, work, weight, consume)
}

/// Returns the number of threads to start for some items, or 0 if this thread processes them.
fn thread_count(items: usize) -> usize {
    if items < 2 {
        return 0;
    }
    let processors = match thread::available_parallelism() {
        Ok(processors) => processors.get(),
        Err(_) => 1,
    };
    if processors < 2 { 0 } else { processors.min(THREADS_MAX).min(items) }
}

/// Does the work of [`in_order`] on `threads` threads, or on this one if `threads` is 0 or no thread can be started.
/// `weight` limits the results that wait for their turn. On this thread alone, no result waits, so it has no effect.
fn on_threads<I: Send, T: Send, R>(
    threads: usize,
    items: Vec<I>,
    work: impl Fn(I) -> T + Sync,
    weight: impl Fn(&T) -> usize + Sync,
    consume: impl FnOnce(&mut dyn Iterator<Item = T>) -> R,
) -> R {
    let state =
        PoolState { items: items.into_iter(), begun: 0, done: BTreeMap::new(), taken: 0, weight: 0, is_over: false };
    let queue = Queue { state: Mutex::new(state), changed: Condvar::new() };
    let (queue, work, weight) = (&queue, &work, &weight);
    thread::scope(|scope| {
        // If `consume` returns early or panics, the threads have to end: the scope waits for them.
        let _guard = EndOnDrop(queue);
        let mut has_threads = false;
        for _ in 0..threads {
            if thread::Builder::new().spawn_scoped(scope, || queue.process_items(work, weight)).is_err() {
                // The system allows no more threads. The threads that run do all the work.
                break;
            }
            has_threads = true;
        }
        if has_threads {
            // Each result that `next` returns lowers the weight of the waiting results.
            consume(&mut std::iter::from_fn(|| queue.next(weight)))
        } else {
            consume(&mut std::iter::from_fn(|| {
                let (_, item) = queue.begin()?;
                Some(work(item))
            }))
        }
    })
}

/// The items and results that threads share.
struct Queue<I, T> {
    state: Mutex<PoolState<I, T>>,
    /// Notified when a result is done or taken, and when the work is over.
    changed: Condvar,
}

struct PoolState<I, T> {
    items: vec::IntoIter<I>,
    /// The number of items that are complete or in progress.
    begun: usize,
    /// Results that wait for their turn, by the index of the item.
    done: BTreeMap<usize, T>,
    /// The number of results that [`Queue::next`] returned, which is the index of the next one.
    taken: usize,
    /// The weight of the results that wait.
    weight: usize,
    /// Whether [`Queue::next`] will not be called again, so that no further item has to be processed.
    is_over: bool,
}

impl<I, T> Queue<I, T> {
    fn state(&self) -> MutexGuard<'_, PoolState<I, T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_for_change<'s>(&self, state: MutexGuard<'s, PoolState<I, T>>) -> MutexGuard<'s, PoolState<I, T>> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// Processes one item after another until no item is left or the work is over.
    fn process_items(&self, work: impl Fn(I) -> T, weight: impl Fn(&T) -> usize) {
        let ends_on_panic = EndOnDrop(self);
        while let Some((index, item)) = self.begin() {
            let result = work(item);
            let mut state = self.state();
            state.weight += weight(&result);
            state.done.insert(index, result);
            drop(state);
            self.changed.notify_all();
        }
        // No panic happened, so the guard must not end the work of the other threads.
        mem::forget(ends_on_panic);
    }

    /// Returns the next item with its index, or `None` if no item is left or the work is over. Waits while the results
    /// that wait for their turn are too heavy.
    fn begin(&self) -> Option<(usize, I)> {
        let mut state = self.state();
        while state.weight > WEIGHT_MAX && !state.is_over {
            state = self.wait_for_change(state);
        }
        if state.is_over {
            return None;
        }
        let item = state.items.next()?;
        let index = state.begun;
        state.begun += 1;
        Some((index, item))
    }

    /// Waits for the next result, in the order of the items. Returns `None` after the last result, or if the work is
    /// over.
    fn next(&self, weight: impl Fn(&T) -> usize) -> Option<T> {
        let mut state = self.state();
        loop {
            let index = state.taken;
            if let Some(result) = state.done.remove(&index) {
                state.taken += 1;
                state.weight = state.weight.saturating_sub(weight(&result));
                drop(state);
                self.changed.notify_all();
                return Some(result);
            }
            // All results were taken, and no item is left that could give another.
            let is_after_last = state.begun == index && state.items.len() == 0;
            if is_after_last || state.is_over {
                return None;
            }
            state = self.wait_for_change(state);
        }
    }
}

/// Ends the work when it is dropped: when the caller needs no further result, or when a thread panics.
struct EndOnDrop<'q, I, T>(&'q Queue<I, T>);

impl<I, T> Drop for EndOnDrop<'_, I, T> {
    fn drop(&mut self) {
        self.0.state().is_over = true;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;

    const THREADS: [usize; 3] = [0, 1, 4];

    /// Doubles an item. The first items take longest.
    fn double(item: u64) -> u64 {
        thread::sleep(Duration::from_micros(1000 / (item + 1)));
        item * 2
    }

    #[test]
    fn results_come_in_the_order_of_the_items() {
        for threads in THREADS {
            for count in [0, 1, 2, 100] {
                for weight in [0, 1, WEIGHT_MAX + 1] {
                    let items = (0..count).collect();
                    let found: Vec<u64> = on_threads(threads, items, double, |_| weight, |results| results.collect());
                    assert_eq!(found, (0..count).map(|index| index * 2).collect::<Vec<_>>());
                }
            }
        }
    }

    #[test]
    fn items_are_not_begun_without_need() {
        for threads in THREADS {
            let begun = AtomicUsize::new(0);
            let items = (0..10_000).collect();
            let taken = on_threads(
                threads,
                items,
                |_| begun.fetch_add(1, Ordering::Relaxed),
                |_| WEIGHT_MAX + 1,
                |results| results.take(3).count(),
            );
            assert_eq!(taken, 3);
            assert!(begun.into_inner() <= 3 + 2 * threads);
        }
    }

    #[test]
    #[should_panic(expected = "a scoped thread panicked")]
    fn a_panic_ends_the_work() {
        let items = (0..100).collect();
        on_threads(4, items, |index| assert_ne!(index, 50), |()| WEIGHT_MAX + 1, |results| results.count());
    }
}

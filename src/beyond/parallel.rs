//! Processes many items on all processors, and gives the results in the order of the items.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::{mem, thread, vec};

/// The weight of waiting results beyond which no further item is begun.
pub(crate) const WEIGHT_MAX: usize = 100_000;

/// The most threads. Each may need as much memory as its item is allowed.
pub(crate) const THREADS_MAX: usize = 8;

/// Calls `work` for each item, on several threads if there are several items and processors, and passes the results to
/// `consume`. `weight` estimates the memory that a result takes, in units of a few hundred bytes; no item is begun
/// while results of more than [`WEIGHT_MAX`] wait. Items after the last result that `consume` takes may be skipped.
pub(crate) fn in_order<I: Send, T: Send, R>(
    items: Vec<I>,
    work: impl Fn(I) -> T + Sync,
    weight: impl Fn(&T) -> usize + Sync,
    consume: impl FnOnce(&mut dyn Iterator<Item = T>) -> R,
) -> R {
    let processors = || thread::available_parallelism().map_or(1, NonZeroUsize::get).min(THREADS_MAX);
    let threads = if items.len() > 1 { processors().min(items.len()) } else { 0 };
    on_threads(if threads > 1 { threads } else { 0 }, items, work, weight, consume)
}

/// The same on `threads` threads; on this one if there are none, or none can be started.
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
        let _guard = EndOnDrop(queue);
        let start = |_| thread::Builder::new().spawn_scoped(scope, || queue.serve(work, weight));
        match (0..threads).map(start).take_while(Result::is_ok).count() {
            0 => consume(&mut std::iter::from_fn(|| queue.begin().map(|(_, item)| work(item)))),
            _ => consume(&mut std::iter::from_fn(|| queue.next(weight))),
        }
    })
}

struct Queue<I, T> {
    state: Mutex<PoolState<I, T>>,
    changed: Condvar,
}

struct PoolState<I, T> {
    items: vec::IntoIter<I>,
    /// The number of items that are complete or in progress.
    begun: usize,
    /// Results that wait for their turn, by the index of the item.
    done: BTreeMap<usize, T>,
    /// The number of results that were taken.
    taken: usize,
    /// The weight of the results that wait.
    weight: usize,
    /// Whether no further result will be taken.
    is_over: bool,
}

impl<I, T> Queue<I, T> {
    fn state(&self) -> MutexGuard<'_, PoolState<I, T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changed<'s>(&self, state: MutexGuard<'s, PoolState<I, T>>) -> MutexGuard<'s, PoolState<I, T>> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// Processes one item after another until none is left.
    fn serve(&self, work: impl Fn(I) -> T, weight: impl Fn(&T) -> usize) {
        let ends_on_panic = EndOnDrop(self);
        while let Some((index, item)) = self.begin() {
            let result = work(item);
            let mut state = self.state();
            state.weight += weight(&result);
            state.done.insert(index, result);
            drop(state);
            self.changed.notify_all();
        }
        mem::forget(ends_on_panic);
    }

    fn begin(&self) -> Option<(usize, I)> {
        let mut state = self.state();
        while state.weight > WEIGHT_MAX && !state.is_over {
            state = self.changed(state);
        }
        let item = if state.is_over { None } else { state.items.next() }?;
        let index = state.begun;
        state.begun += 1;
        Some((index, item))
    }

    /// The next result, in the order of the items.
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
            let is_last = state.begun == index && state.items.len() == 0;
            if is_last || state.is_over {
                return None;
            }
            state = self.changed(state);
        }
    }
}

/// Ends the work when no further result is taken, or a thread panics.
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

    #[test]
    fn results_come_in_the_order_of_the_items() {
        let work = |index: u64| {
            // The first items take longest.
            thread::sleep(Duration::from_micros(1000 / (index + 1)));
            index * 2
        };
        for (threads, count) in THREADS.into_iter().flat_map(|threads| [0, 1, 2, 100].map(|count| (threads, count))) {
            for weight in [0, 1, WEIGHT_MAX + 1] {
                let items = (0..count).collect();
                let found: Vec<u64> = on_threads(threads, items, work, |_| weight, |results| results.collect());
                assert_eq!(found, (0..count).map(|index| index * 2).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn nothing_is_begun_that_nobody_waits_for() {
        for threads in THREADS {
            let begun = AtomicUsize::new(0);
            let work = |_| begun.fetch_add(1, Ordering::Relaxed);
            let items = (0..10_000).collect();
            on_threads(threads, items, work, |_| WEIGHT_MAX + 1, |results| results.take(3).for_each(drop));
            assert!(begun.into_inner() <= 3 + 2 * threads);
        }
    }

    #[test]
    #[should_panic(expected = "a scoped thread panicked")]
    fn a_panic_ends_the_work() {
        let work = |index| assert_ne!(index, 50);
        on_threads(4, (0..100).collect(), work, |()| WEIGHT_MAX + 1, |results| results.for_each(drop));
    }
}

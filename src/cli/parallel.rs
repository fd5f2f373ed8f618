//! Processes many items on all processors, and gives the results in the order of the items.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::{thread, vec};

/// The maximum total weight of waiting results; while it is exceeded, no further item is started.
const WEIGHT_MAX: usize = 100_000;

/// Calls `work` for each item, on several threads if there are several items, and passes the results to `consume`.
/// `weight` estimates the memory used by a result, in any unit of some hundred bytes. Items after the last result that
/// `consume` takes may be skipped.
pub(super) fn in_order<I: Send, T: Send, R>(
    items: Vec<I>,
    work: impl Fn(I) -> T + Sync,
    weight: impl Fn(&T) -> usize + Sync,
    consume: impl FnOnce(&mut dyn Iterator<Item = T>) -> R,
) -> R {
    let threads = match items.len() {
        0 | 1 => 1,
        several => thread::available_parallelism().map_or(1, NonZeroUsize::get).min(several),
    };
    if threads == 1 {
        return consume(&mut items.into_iter().map(work));
    }
    let state =
        State { items: items.into_iter(), begun: 0, done: BTreeMap::new(), taken: 0, weight: 0, is_over: false };
    let queue = Queue { state: Mutex::new(state), changed: Condvar::new() };
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| queue.serve(&work, &weight));
        }
        let results = Results(&queue);
        consume(&mut std::iter::from_fn(|| results.next(&weight)))
    })
}

struct Queue<I, T> {
    state: Mutex<State<I, T>>,
    changed: Condvar,
}

struct State<I, T> {
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
    fn state(&self) -> MutexGuard<'_, State<I, T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changed<'s>(&self, state: MutexGuard<'s, State<I, T>>) -> MutexGuard<'s, State<I, T>> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self) {
        self.state().is_over = true;
        self.changed.notify_all();
    }

    /// Processes one item after another until none is left.
    fn serve(&self, work: impl Fn(I) -> T, weight: impl Fn(&T) -> usize) {
        let _guard = EndOnPanic(self);
        while let Some((index, item)) = self.begin() {
            let result = work(item);
            let mut state = self.state();
            state.weight = state.weight.saturating_add(weight(&result));
            state.done.insert(index, result);
            drop(state);
            self.changed.notify_all();
        }
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
}

/// Ends the queue if a thread panics, so that no other thread waits for its result.
struct EndOnPanic<'q, I, T>(&'q Queue<I, T>);

impl<I, T> Drop for EndOnPanic<'_, I, T> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.end();
        }
    }
}

/// The results. Dropping this ends the queue.
struct Results<'q, I, T>(&'q Queue<I, T>);

impl<I, T> Results<'_, I, T> {
    fn next(&self, weight: impl Fn(&T) -> usize) -> Option<T> {
        let mut state = self.0.state();
        loop {
            let index = state.taken;
            if let Some(result) = state.done.remove(&index) {
                state.taken += 1;
                state.weight = state.weight.saturating_sub(weight(&result));
                drop(state);
                self.0.changed.notify_all();
                return Some(result);
            }
            let is_last = state.begun == index && state.items.len() == 0;
            if is_last || state.is_over {
                return None;
            }
            state = self.0.changed(state);
        }
    }
}

impl<I, T> Drop for Results<'_, I, T> {
    fn drop(&mut self) {
        self.0.end();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_items() {
        let work = |index: u64| {
            // The first items take longest.
            thread::sleep(Duration::from_micros(1000 / (index + 1)));
            index * 2
        };
        for count in [0, 1, 2, 100] {
            for weight in [0, 1, WEIGHT_MAX + 1] {
                let found: Vec<u64> = in_order((0..count).collect(), work, |_| weight, |results| results.collect());
                assert_eq!(found, (0..count).map(|index| index * 2).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn nothing_is_begun_that_nobody_waits_for() {
        let begun = AtomicUsize::new(0);
        let work = |_| begun.fetch_add(1, Ordering::Relaxed);
        in_order((0..10_000).collect(), work, |_| WEIGHT_MAX + 1, |results| results.take(3).for_each(drop));
        let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        assert!(begun.into_inner() <= 3 + 2 * threads);
    }

    #[test]
    #[should_panic(expected = "a scoped thread panicked")]
    fn a_panic_ends_the_work() {
        in_order(
            (0..100).collect(),
            |index| assert_ne!(index, 50),
            |()| WEIGHT_MAX + 1,
            |results| results.for_each(drop),
        );
        // With one processor there is only one thread.
        if thread::available_parallelism().map_or(1, NonZeroUsize::get) == 1 {
            panic!("a scoped thread panicked");
        }
    }
}

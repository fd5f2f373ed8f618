//! Processes many items on all processors, and gives the results in the order of the items.
//!
//! All calls of a process share its threads ([`threads::count`]), also calls inside of the work on an item. The thread
//! that takes the results works on items too while the next result is missing. Other threads join it when there is a
//! place for them, and wait while nothing may be begun.

mod read_ahead;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicIsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Scope;
use std::{env, iter, mem, thread, vec};

use crate::base::bytes::total;
use crate::base::io::input::MEMORY_MAX;
use crate::base::threads;
use crate::beyond::base::sys;
pub(crate) use read_ahead::read_ahead;

/// The largest weight of results that wait for their turn. While they weigh more, no further item is begun.
pub(crate) const WEIGHT_MAX: usize = 100_000;

/// The number of bytes that count as one unit of a weight.
const WEIGHT_UNIT: u64 = 256;

/// Returns the weight of a result that takes this number of bytes, of memory or of temporary files.
pub(crate) fn weight_of_len(bytes: u64) -> usize {
    usize::try_from(bytes / WEIGHT_UNIT).unwrap_or(usize::MAX).saturating_add(1)
}

/// Calls `work` for each item, on several threads if there are several items and processors. Passes the results to
/// `consume`, in the order of the items, and returns its result. If `consume` ends early, items after the last result
/// that it took may be skipped.
///
/// `weight` estimates the memory of a result, as [`weight_of_len`] does; see [`WEIGHT_MAX`].
pub(crate) fn in_order<I: Send, T: Send, R>(
    items: Vec<I>,
    work: impl Fn(I) -> T + Sync,
    weight: impl Fn(&T) -> usize + Sync,
    consume: impl FnOnce(&mut dyn Iterator<Item = T>) -> R,
) -> R {
    in_order_here(items, &work, &mut |item| work(item), weight, consume)
}

/// Processes items as [`in_order`] does. For the items that this thread works on, it calls `work_here` in place of
/// `work`.
pub(crate) fn in_order_here<I: Send, T: Send, R>(
    items: Vec<I>,
    work: impl Fn(I) -> T + Sync,
    work_here: &mut dyn FnMut(I) -> T,
    weight: impl Fn(&T) -> usize + Sync,
    consume: impl FnOnce(&mut dyn Iterator<Item = T>) -> R,
) -> R {
    HELPERS.in_order(items, work, work_here, weight, consume)
}

/// Returns whether the disk has space for the temporary files of parts with these sizes, in bytes. Not all parts exist
/// at a time: each thread holds one, and the caller uses one more. Each part takes up to `files_per_part` files of its
/// size. Returns false if the system does not say how much is free.
pub(crate) fn has_disk_space(sizes: impl Iterator<Item = u64>, files_per_part: u64) -> bool {
    // Smaller parts stay in memory.
    let mut sizes: Vec<u64> = sizes.filter(|size| *size > MEMORY_MAX).collect();
    sizes.sort_unstable();
    let largest = sizes.iter().rev().take(threads::count().saturating_add(1));
    let needed = total(largest.copied()).saturating_mul(files_per_part);
    if needed == 0 {
        return true;
    }
    match sys::free_space(&env::temp_dir()) {
        Some(free) => free >= needed,
        None => false,
    }
}

/// The threads that help the ones that call [`in_order`].
static HELPERS: Helpers = Helpers::new(None);

/// The places for threads that help. A thread runs only while it has a place.
struct Helpers {
    /// The most threads at a time, or `None` for one less than the process may use: the caller works too.
    most: Option<usize>,
    /// The number of helping threads that run, less the number of callers that wait, because another thread may run in
    /// the place of each. So the number may be negative.
    running: AtomicIsize,
    /// Held while a thread looks for a place, so that it is woken when a place becomes free in this moment.
    gate: Mutex<()>,
    /// Notified when there may be a place, and when nobody needs a thread that waits for one.
    changed: Condvar,
}

/// The place of a thread that runs. It is free again when this is dropped.
struct Running<'h>(&'h Helpers);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
        self.0.notify();
    }
}

/// A caller that waits, so that another thread may run in its place until this is dropped.
struct Waiting<'h>(&'h Helpers);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_add(1, Ordering::SeqCst);
    }
}

impl Helpers {
    const fn new(most: Option<usize>) -> Self {
        Self { most, running: AtomicIsize::new(0), gate: Mutex::new(()), changed: Condvar::new() }
    }

    /// Returns the most threads that may run beside the callers.
    fn most(&self) -> usize {
        self.most.unwrap_or_else(|| threads::count().saturating_sub(1))
    }

    /// Wakes the threads that look for a place.
    fn notify(&self) {
        drop(self.gate.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }

    /// Lets another thread run in the place of the caller, which waits for a result.
    fn wait(&self) -> Waiting<'_> {
        self.running.fetch_sub(1, Ordering::SeqCst);
        self.notify();
        Waiting(self)
    }

    /// Waits until `may_begin` says that there is an item to work on, and takes a place for this thread. Returns `None`
    /// once `is_needed` is false.
    fn take_when_free(&self, is_needed: impl Fn() -> bool, may_begin: impl Fn() -> bool) -> Option<Running<'_>> {
        let mut gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        while is_needed() {
            if may_begin()
                && let Some(running) = self.take()
            {
                return Some(running);
            }
            gate = self.changed.wait(gate).unwrap_or_else(PoisonError::into_inner);
        }
        None
    }

    /// Takes one of the places for threads. Returns `None` if none is free.
    fn take(&self) -> Option<Running<'_>> {
        let most = self.most();
        let is_free = |running| usize::try_from(running).unwrap_or_default() < most;
        let one_more = |running: isize| if is_free(running) { Some(running.saturating_add(1)) } else { None };
        self.running.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_more).ok().map(|_| Running(self))
    }

    /// Processes items as [`in_order_here`] does, on threads that have places here.
    fn in_order<I: Send, T: Send, R>(
        &self,
        items: Vec<I>,
        work: impl Fn(I) -> T + Sync,
        work_here: &mut dyn FnMut(I) -> T,
        weight: impl Fn(&T) -> usize + Sync,
        consume: impl FnOnce(&mut dyn Iterator<Item = T>) -> R,
    ) -> R {
        let state = State {
            items: items.into_iter(),
            begun: 0,
            done: BTreeMap::new(),
            taken: 0,
            weight: 0,
            is_over: false,
            threads: 0,
        };
        let [is_closed, may_begin] = [false, true].map(AtomicBool::new);
        let (state, changed) = (Mutex::new(state), Condvar::new());
        let crew = Crew { helpers: self, state, changed, is_closed, may_begin, work, weight };
        thread::scope(|scope| {
            // If `consume` returns early or panics, the threads have to end: the scope waits for them.
            let _guard = EndOnDrop(&crew);
            consume(&mut iter::from_fn(|| crew.next(work_here, scope)))
        })
    }
}

/// The state that the threads of one call of [`in_order`] share. `W` is the type of `work`, and `G` that of `weight`.
struct Crew<'h, I, T, W, G> {
    helpers: &'h Helpers,
    state: Mutex<State<I, T>>,
    /// Notified when a result is done, and when the work is over.
    changed: Condvar,
    /// Whether no further item will be begun.
    is_closed: AtomicBool,
    /// Whether another item may be begun now, for threads that wait without the lock of the state.
    may_begin: AtomicBool,
    work: W,
    weight: G,
}

/// The items and results of one call, behind a lock.
struct State<I, T> {
    items: vec::IntoIter<I>,
    /// The number of items that are complete or in progress.
    begun: usize,
    /// Results that wait for their turn, by the index of the item.
    done: BTreeMap<usize, T>,
    /// The number of results that [`Crew::next`] returned, which is the index of the next one.
    taken: usize,
    /// The weight of the results that wait.
    weight: usize,
    /// Whether [`Crew::next`] will not be called again, so that no further item has to be processed.
    is_over: bool,
    /// The number of threads that help, or wait for a place.
    threads: usize,
}

impl<I, T> State<I, T> {
    /// Whether another item may be begun now.
    fn may_begin(&self) -> bool {
        self.weight <= WEIGHT_MAX && !self.is_over && self.items.len() > 0
    }

    /// Returns the next item with its index. Returns `None` if no item is left or the work is over, and while the
    /// results that wait for their turn are too heavy.
    fn begin(&mut self) -> Option<(usize, I)> {
        if !self.may_begin() {
            return None;
        }
        let index = self.begun;
        self.begun = index.saturating_add(1);
        Some((index, self.items.next()?))
    }
}

impl<I, T, W, G> Crew<'_, I, T, W, G> {
    fn state(&self) -> MutexGuard<'_, State<I, T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the threads that wait for a place: no further item will be begun.
    fn close(&self) {
        if !self.is_closed.swap(true, Ordering::SeqCst) {
            self.helpers.notify();
        }
    }
}

impl<'h, I: Send, T: Send, W: Fn(I) -> T + Sync, G: Fn(&T) -> usize + Sync> Crew<'h, I, T, W, G> {
    /// Returns the next result, in the order of the items. Works on items with `work` while it is missing. Returns `None`
    /// after the last result, or if the work is over.
    fn next<'s>(&'s self, work: &mut dyn FnMut(I) -> T, scope: &'s Scope<'s, 'h>) -> Option<T> {
        let mut state = self.state();
        loop {
            let index = state.taken;
            if let Some(result) = state.done.remove(&index) {
                state.taken = index.saturating_add(1);
                state.weight = state.weight.saturating_sub((self.weight)(&result));
                // Threads that wait because the results were too heavy may go on.
                self.recruit(&mut state, scope);
                return Some(result);
            }
            let has_taken_all = state.begun == index && state.items.len() == 0;
            if state.is_over || has_taken_all {
                return None;
            }
            state = match state.begin() {
                Some((index, item)) => {
                    self.recruit(&mut state, scope);
                    drop(state);
                    self.keep(index, work(item));
                    self.state()
                }
                // Another thread works on the item.
                None => {
                    let _waiting = self.helpers.wait();
                    self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
                }
            };
        }
    }

    /// Tells waiting threads whether they may begin items, and ends them once no item is left. Starts a further thread
    /// if an item may be begun, and fewer threads than permitted help.
    fn recruit<'s>(&'s self, state: &mut State<I, T>, scope: &'s Scope<'s, 'h>) {
        if state.items.len() == 0 {
            self.close();
        }
        let may_begin = state.may_begin();
        if self.may_begin.swap(may_begin, Ordering::SeqCst) != may_begin {
            self.helpers.notify();
        }
        if may_begin && state.threads < self.helpers.most() {
            // If the system allows no more threads, those that run do all the work.
            let is_started = thread::Builder::new().spawn_scoped(scope, move || self.help(scope)).is_ok();
            state.threads = state.threads.saturating_add(usize::from(is_started));
        }
    }

    /// Processes items whenever there is a place for this thread, until no item is left. The thread also stays while
    /// no item may be begun: a new thread later would take more memory.
    fn help<'s>(&'s self, scope: &'s Scope<'s, 'h>) {
        let is_needed = || !self.is_closed.load(Ordering::SeqCst);
        let may_begin = || self.may_begin.load(Ordering::SeqCst);
        while let Some(_running) = self.helpers.take_when_free(is_needed, may_begin) {
            self.help_until_heavy(scope);
        }
    }

    /// Processes items until no item may be begun: none is left, or the results that wait are too heavy.
    fn help_until_heavy<'s>(&'s self, scope: &'s Scope<'s, 'h>) {
        let ends_on_panic = EndOnDrop(self);
        loop {
            let mut state = self.state();
            let Some((index, item)) = state.begin() else {
                self.may_begin.store(false, Ordering::SeqCst);
                break;
            };
            self.recruit(&mut state, scope);
            drop(state);
            self.keep(index, (self.work)(item));
        }
        // No panic happened, so the guard must not end the work of the other threads.
        mem::forget(ends_on_panic);
    }

    /// Keeps the result of the item with an index for its turn.
    fn keep(&self, index: usize, result: T) {
        let mut state = self.state();
        state.weight = state.weight.saturating_add((self.weight)(&result));
        state.done.insert(index, result);
        drop(state);
        self.changed.notify_all();
    }
}

/// Ends the work when it is dropped: when the caller needs no further result, or when a thread panics.
struct EndOnDrop<'q, 'h, I, T, W, G>(&'q Crew<'h, I, T, W, G>);

impl<I, T, W, G> Drop for EndOnDrop<'_, '_, I, T, W, G> {
    fn drop(&mut self) {
        self.0.state().is_over = true;
        self.0.changed.notify_all();
        self.0.close();
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;
    use std::sync::atomic::AtomicUsize;
    use std::time::{Duration, Instant};

    use super::*;

    const THREADS: [usize; 3] = [0, 1, 4];

    fn helpers(most: usize) -> Helpers {
        Helpers::new(Some(most))
    }

    /// Calls [`Helpers::in_order`] with the same work for all threads.
    fn in_order<T: Send, R>(
        helpers: &Helpers,
        items: Range<u64>,
        work: impl Fn(u64) -> T + Sync,
        weight: usize,
        consume: impl FnOnce(&mut dyn Iterator<Item = T>) -> R,
    ) -> R {
        helpers.in_order(items.collect(), &work, &mut |item| work(item), |_| weight, consume)
    }

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
                    let found: Vec<u64> =
                        in_order(&helpers(threads), 0..count, double, weight, |results| results.collect());
                    assert_eq!(found, (0..count).map(|index| index * 2).collect::<Vec<_>>());
                }
            }
        }
    }

    #[test]
    fn items_are_not_begun_without_need() {
        for threads in THREADS {
            let begun = AtomicUsize::new(0);
            let begin = |_| begun.fetch_add(1, Ordering::Relaxed);
            let taken =
                in_order(&helpers(threads), 0..10_000, begin, WEIGHT_MAX + 1, |results| results.take(3).count());
            assert_eq!(taken, 3);
            assert!(begun.into_inner() <= 3 + 2 * threads);
        }
    }

    #[test]
    fn a_panic_ends_the_work() {
        for threads in THREADS {
            let work = |index| assert_ne!(index, 50);
            let count = || in_order(&helpers(threads), 0..100, work, WEIGHT_MAX + 1, |results| results.count());
            assert!(std::panic::catch_unwind(count).is_err());
        }
    }

    #[test]
    fn calls_inside_of_work_share_the_threads() {
        for most in THREADS {
            let helpers = helpers(most);
            let (running, peak) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let count = |index: u64| {
                peak.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                thread::sleep(Duration::from_micros(200));
                running.fetch_sub(1, Ordering::SeqCst);
                index
            };
            let inner = |index: u64| in_order(&helpers, 0..index, count, 1, |results| results.sum::<u64>());
            let sums: Vec<u64> = in_order(&helpers, 0..20, inner, 1, |results| results.collect());
            assert_eq!(sums, (0..20).map(|index| (0..index).sum()).collect::<Vec<u64>>());
            // A thread that waited goes on although another one has taken its place.
            assert!(peak.into_inner() <= 2 * (most + 1));
            assert_eq!(helpers.running.into_inner(), 0);
        }
    }

    #[test]
    fn a_thread_that_waits_leaves_its_place_to_another() {
        let helpers = helpers(1);
        let (running, peak) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let wait_for_two = |_| {
            peak.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            let started = Instant::now();
            while peak.load(Ordering::SeqCst) < 2 && started.elapsed() < Duration::from_secs(60) {
                thread::yield_now();
            }
            running.fetch_sub(1, Ordering::SeqCst);
        };
        // The last item is the only one that takes time.
        let inner = |index| {
            if index == 9 {
                in_order(&helpers, 0..2, wait_for_two, 1, |results| results.for_each(drop));
            }
        };
        in_order(&helpers, 0..10, inner, 1, |results| results.for_each(drop));
        assert_eq!(peak.into_inner(), 2);
    }
}

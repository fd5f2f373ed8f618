//! Long lists of cases: which of them run, and on all processors.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::thread;

/// All items where `OFFLOAD_COMPLETE=1` asks for them. Otherwise `most` of them, the same in every run: one in each of `most`
/// parts of equal length, at another place in each, since neighbours are often made by a pattern.
pub fn sample<T>(items: Vec<T>, most: usize) -> Vec<T> {
    let len = items.len();
    if len <= most || std::env::var_os("OFFLOAD_COMPLETE").is_some_and(|value| value == "1") {
        return items;
    }
    let place = |part: usize| {
        let (start, end) = (part * len / most, (part + 1) * len / most);
        start + part * 7919 % (end - start)
    };
    let places: BTreeSet<usize> = (0..most).map(place).collect();
    items.into_iter().enumerate().filter(|(place, _)| places.contains(place)).map(|(_, item)| item).collect()
}

/// Shares the items out among threads, one for each processor, and returns what each thread made of its share.
pub fn share_out<T: Send, R: Send>(items: Vec<T>, work: impl Fn(&mut dyn Iterator<Item = T>) -> R + Sync) -> Vec<R> {
    let items = Mutex::new(items.into_iter());
    let next = || items.lock().unwrap().next();
    let work = || work(&mut std::iter::from_fn(next));
    thread::scope(|scope| {
        let threads = thread::available_parallelism().unwrap().get();
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

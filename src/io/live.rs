//! The mappings that are in use, in a form that a signal handler can read.
//!
//! A handler may wait for nobody and allocate nothing. So the table is made of chunks that are never given back or moved,
//! each with a link to the next; entries are used again when their mapping is gone.
//!
//! Why the handler never takes one mapping for another: it looks for a mapping that its own thread is just reading. That
//! mapping was entered before its bytes were given out and is taken out after the last use of them, so its entry does not
//! change meanwhile. The handler can leave out whatever entry is being changed (its version is odd, or another one
//! after the range was read): it is not the one. And ranges that are entered at the same time do not overlap.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::sync::{Mutex, OnceLock, PoisonError};

/// A mapping, or a place for one.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Odd while the range is being changed.
    version: AtomicUsize,
    /// The range of addresses; empty if there is no mapping.
    start: AtomicUsize,
    end: AtomicUsize,
    faulted: AtomicBool,
    temporary: AtomicBool,
}

/// So many entries come at once.
const CHUNK: usize = 64;

struct Chunk {
    entries: [Entry; CHUNK],
    next: OnceLock<Box<Chunk>>,
}

static FIRST: Chunk = Chunk::new();

/// Entries without a mapping. Only those who hold the lock change any range.
static FREE: Mutex<Vec<&'static Entry>> = Mutex::new(Vec::new());

impl Entry {
    const fn new() -> Self {
        Self {
            version: AtomicUsize::new(0),
            start: AtomicUsize::new(0),
            end: AtomicUsize::new(0),
            faulted: AtomicBool::new(false),
            temporary: AtomicBool::new(false),
        }
    }

    /// Whether the handler had to step in for the mapping.
    pub(crate) fn faulted(&self) -> bool {
        self.faulted.load(Ordering::Relaxed)
    }

    /// For the handler: says that it stepped in. Returns whether the mapping is one of a temporary file.
    pub(crate) fn set_faulted(&self) -> bool {
        self.faulted.store(true, Ordering::Relaxed);
        self.temporary.load(Ordering::Relaxed)
    }

    /// The caller holds the lock on the free entries.
    fn set(&self, range: Range<usize>) {
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        self.start.store(range.start, Ordering::Relaxed);
        self.end.store(range.end, Ordering::Relaxed);
        self.version.store(version.wrapping_add(2), Ordering::Release);
    }

    /// The range, unless it is being changed.
    fn range(&self) -> Option<Range<usize>> {
        let version = self.version.load(Ordering::Acquire);
        let range = self.start.load(Ordering::Relaxed)..self.end.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        (version.is_multiple_of(2) && self.version.load(Ordering::Relaxed) == version).then_some(range)
    }
}

impl Chunk {
    const fn new() -> Self {
        Self { entries: [const { Entry::new() }; CHUNK], next: OnceLock::new() }
    }
}

/// Every chunk that there is.
fn chunks() -> impl Iterator<Item = &'static Chunk> {
    std::iter::successors(Some(&FIRST), |chunk| chunk.next.get().map(|next| &**next))
}

/// Enters a mapping, of a temporary file or another.
pub(crate) fn enter(range: Range<usize>, temporary: bool) -> &'static Entry {
    let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
    let entry = free.pop().unwrap_or_else(|| {
        static FIRST_IS_USED: AtomicBool = AtomicBool::new(false);
        let chunk = match chunks().last() {
            Some(last) if FIRST_IS_USED.swap(true, Ordering::Relaxed) => {
                last.next.get_or_init(|| Box::new(Chunk::new()))
            }
            _ => &FIRST,
        };
        let [first, others @ ..] = &chunk.entries;
        free.extend(others);
        first
    });
    entry.faulted.store(false, Ordering::Relaxed);
    entry.temporary.store(temporary, Ordering::Relaxed);
    entry.set(range);
    entry
}

/// Takes a mapping out.
pub(crate) fn leave(entry: &'static Entry) {
    let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
    entry.set(0..0);
    free.push(entry);
}

/// For the handler: the mapping that the calling thread is reading at this address.
pub(crate) fn find(address: usize) -> Option<(&'static Entry, Range<usize>)> {
    let mut entries = chunks().flat_map(|chunk| &chunk.entries);
    entries.find_map(|entry| Some((entry, entry.range().filter(|range| range.contains(&address))?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A range that no mapping of another test has.
    fn range(number: usize) -> Range<usize> {
        let start = usize::MAX / 2 + number * 10;
        start..start + 10
    }

    #[test]
    fn there_is_room_for_any_number_of_mappings() {
        let entries: Vec<_> = (0..1000).map(|number| enter(range(number), false)).collect();
        for (number, entry) in entries.iter().enumerate() {
            for address in [range(number).start, range(number).end - 1] {
                let (found, found_range) = find(address).unwrap();
                assert!(std::ptr::eq(found, *entry) && found_range == range(number), "{number}");
            }
        }
        assert!(find(range(0).start - 1).is_none() && find(range(999).end).is_none());
        entries.into_iter().for_each(leave);
        assert!((0..1000).all(|number| find(range(number).start).is_none()));
    }

    #[test]
    fn an_entry_starts_without_a_fault() {
        let entry = enter(range(2000), false);
        assert!(!entry.set_faulted());
        assert!(entry.faulted());
        leave(entry);
        let again: Vec<_> = (2000..3000).map(|number| enter(range(number), false)).collect();
        assert!(again.iter().all(|entry| !entry.faulted()));
        again.into_iter().for_each(leave);
    }

    #[test]
    fn a_mapping_is_found_while_others_come_and_go() {
        let steady = enter(range(4000), false);
        std::thread::scope(|scope| {
            for thread in 0..3 {
                scope.spawn(move || {
                    for number in 0..2000 {
                        leave(enter(range(5000 + thread * 2000 + number), false));
                    }
                });
            }
            for _ in 0..2000 {
                let (found, found_range) = find(range(4000).start + 5).unwrap();
                assert!(std::ptr::eq(found, steady) && found_range == range(4000));
            }
        });
        leave(steady);
    }
}

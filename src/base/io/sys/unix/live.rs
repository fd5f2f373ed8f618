//! Keeps the table of live mappings, in a form that a signal handler can read.
//!
//! A handler must not wait or allocate. So the table consists of chunks that are never freed or moved, each linked to
//! the next; entries are reused when their mapping is gone.
//!
//! The handler never confuses one mapping with another, because it looks for a mapping that its own thread is reading.
//! That mapping was entered before its bytes were first used and is removed after their last use, so its entry does not
//! change meanwhile. The handler can skip any entry that is being changed (its version is odd, or differs after the
//! range was read): it is not the right one. Ranges that are in the table at the same time do not overlap.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::sync::{Mutex, OnceLock, PoisonError};

/// A mapping, or a free entry for one.
#[derive(Debug)]
pub(crate) struct LiveFile {
    /// Odd while the range is being changed.
    version: AtomicUsize,
    /// The start of the address range, which is empty without a mapping.
    start: AtomicUsize,
    end: AtomicUsize,
    faulted: AtomicBool,
    temporary: AtomicBool,
}

/// The number of entries allocated at once.
const CHUNK: usize = 64;

struct Chunk {
    entries: [LiveFile; CHUNK],
    next: OnceLock<Box<Chunk>>,
}

static FIRST: Chunk = Chunk::new();

/// The free entries. Ranges are only changed by a thread that holds the lock.
static FREE: Mutex<Vec<&'static LiveFile>> = Mutex::new(Vec::new());

impl LiveFile {
    const fn new() -> Self {
        Self {
            version: AtomicUsize::new(0),
            start: AtomicUsize::new(0),
            end: AtomicUsize::new(0),
            faulted: AtomicBool::new(false),
            temporary: AtomicBool::new(false),
        }
    }

    /// Whether the handler replaced bytes of the mapping.
    pub(crate) fn faulted(&self) -> bool {
        self.faulted.load(Ordering::Relaxed)
    }

    /// For the handler: records that it replaced bytes. Returns whether the mapping is of a temporary file.
    pub(crate) fn set_faulted(&self) -> bool {
        self.faulted.store(true, Ordering::Relaxed);
        self.temporary.load(Ordering::Relaxed)
    }

    /// Sets the range. The caller must hold the lock on the free entries.
    fn set(&self, range: Range<usize>) {
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        self.start.store(range.start, Ordering::Relaxed);
        self.end.store(range.end, Ordering::Relaxed);
        self.version.store(version.wrapping_add(2), Ordering::Release);
    }

    /// Returns the range, or `None` if it is being changed.
    fn range(&self) -> Option<Range<usize>> {
        let version = self.version.load(Ordering::Acquire);
        let range = self.start.load(Ordering::Relaxed)..self.end.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        let is_settled = version.is_multiple_of(2) && self.version.load(Ordering::Relaxed) == version;
        if is_settled { Some(range) } else { None }
    }
}

impl Chunk {
    const fn new() -> Self {
        Self { entries: [const { LiveFile::new() }; CHUNK], next: OnceLock::new() }
    }
}

/// The chunks, the oldest first.
fn chunks() -> impl Iterator<Item = &'static Chunk> {
    std::iter::successors(Some(&FIRST), |chunk| chunk.next.get().map(|next| &**next))
}

/// Enters a mapping; `temporary` marks that of a temporary file.
pub(crate) fn enter(range: Range<usize>, temporary: bool) -> &'static LiveFile {
    let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
    let entry = match free.pop() {
        Some(entry) => entry,
        None => add_chunk(&mut free),
    };
    entry.faulted.store(false, Ordering::Relaxed);
    entry.temporary.store(temporary, Ordering::Relaxed);
    entry.set(range);
    entry
}

/// Adds a chunk to the table. Returns its first entry, and adds the others to the free entries.
fn add_chunk(free: &mut Vec<&'static LiveFile>) -> &'static LiveFile {
    static FIRST_IS_USED: AtomicBool = AtomicBool::new(false);
    let chunk = match chunks().last() {
        Some(last) if FIRST_IS_USED.swap(true, Ordering::Relaxed) => last.next.get_or_init(|| Box::new(Chunk::new())),
        _ => &FIRST,
    };
    let [first, others @ ..] = &chunk.entries;
    free.extend(others);
    first
}

/// Removes a mapping.
pub(crate) fn leave(entry: &'static LiveFile) {
    let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
    entry.set(0..0);
    free.push(entry);
}

/// For the handler: returns the mapping that the calling thread is reading at this address, or `None` if it reads no
/// mapping there.
pub(crate) fn find(address: usize) -> Option<(&'static LiveFile, Range<usize>)> {
    for entry in chunks().flat_map(|chunk| &chunk.entries) {
        if let Some(range) = entry.range()
            && range.contains(&address)
        {
            return Some((entry, range));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A range that no other test uses.
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
        for entry in entries {
            leave(entry);
        }
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
        for entry in again {
            leave(entry);
        }
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

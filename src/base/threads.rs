//! The number of threads that the jobs of this process use together.

use std::num::NonZero;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// The most threads that are used without a request: each may need as much memory as a member of a wheel.
const USUAL_MAX: usize = 16;

/// The requested number of threads, or 0 without a request.
static REQUESTED: AtomicUsize = AtomicUsize::new(0);

/// Sets the number of threads that the jobs of this process may use. With 1, a job starts no thread. The default is the
/// number of processors that the process may use, at most 16. What a job writes does not depend on this number.
pub fn set(count: NonZero<usize>) {
    REQUESTED.store(count.get(), Ordering::Relaxed);
}

/// Returns the number of threads that jobs may use, including the one that started them.
pub(crate) fn count() -> usize {
    /// The number of processors that the process may use: the affinity mask and control groups limit it.
    static USABLE: OnceLock<usize> = OnceLock::new();
    match REQUESTED.load(Ordering::Relaxed) {
        0 => *USABLE.get_or_init(|| thread::available_parallelism().map_or(1, NonZero::get).min(USUAL_MAX)),
        requested => requested,
    }
}

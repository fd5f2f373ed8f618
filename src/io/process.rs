//! What belongs to the process as a whole: signals, and the limit on open files.
//!
//! A library leaves them alone unless the program [hands them over](hand_over), as the executable does. What costs more than
//! a moment is set by the first job that needs it.

use std::io;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::io::mapping;

static HANDED_OVER: AtomicBool = AtomicBool::new(false);

/// Lets this library set what belongs to the whole process:
///
/// - `SIGXFSZ` is ignored from now on, so that writing more than the process may write to a file is an error. A handler that
///   the program has for it stays.
/// - `SIGBUS` gets a handler before the first file is mapped (a temporary one too), so that a file that becomes shorter while it is read, or whose
///   disk fails, is an error and not the end of the process. Any other `SIGBUS` does what it did before: it is handed to the
///   handler that the program had by then. A handler that the program sets later takes the place of this one.
/// - The limit on open files is raised as far as the system allows when a job meets it.
///
/// There is no way back.
pub fn hand_over() {
    HANDED_OVER.store(true, Ordering::Relaxed);
    mapping::take_signals();
}

/// Opens a file; where there are too many, raises the limit and tries again. Inputs and outputs stay open until all is
/// done, and there may be thousands of them: more than the 1024 that a process begins with, far fewer than it may have.
pub(crate) fn open<T>(mut open: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    match open() {
        Err(error)
            if HANDED_OVER.load(Ordering::Relaxed) && error.raw_os_error() == Some(Errno::MFILE.raw_os_error()) =>
        {
            static RAISED: Once = Once::new();
            RAISED.call_once(allow_many_files);
            open()
        }
        opened => opened,
    }
}

fn allow_many_files() {
    let limit = getrlimit(Resource::Nofile);
    // Where it is refused, the file that cannot be opened says so.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

//! Manages state of the whole process: signals, and the limit on open files.
//!
//! A library changes neither unless the program [hands them over](hand_over), as the executable does. Settings that
//! take noticeable time are made by the first job that needs them.

use std::fs::File;
use std::io;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::base::io::sys;

static HANDED_OVER: AtomicBool = AtomicBool::new(false);

/// Allows this library to change state of the whole process:
///
/// - `SIGXFSZ` is ignored from now on, so that exceeding the file size limit of the process is an error. A handler that
///   the program has installed is kept.
/// - `SIGBUS` gets a handler. If a mapped file becomes shorter while it is read, or its disk fails, the handler prints
///   an error and ends the process with status 1. No output is put in place, and files with temporary names are
///   removed. The handler covers every file that the process has mapped. A `SIGBUS` that another process sends has its
///   previous effect; if the program survives it, the handler is no longer installed. A handler that the program
///   installs later replaces this one.
/// - The limit on open files is raised to the maximum that the system allows when a job reaches it.
///
/// This cannot be undone.
pub fn hand_over() {
    HANDED_OVER.store(true, Ordering::Relaxed);
    sys::take_signals();
}

/// Opens a file. If too many are open and the program has [handed over](hand_over) its process, raises the limit and
/// tries again.
///
/// Inputs and outputs stay open until the job ends, and there may be thousands of them: more than the initial limit of
/// 1024, and usually far fewer than the maximum. If there are more, see [`is_short_of_files`].
pub(crate) fn open<T>(mut open: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    match open() {
        Err(error) if HANDED_OVER.load(Ordering::Relaxed) && sys::is_too_many_files(&error) => {
            static RAISED: Once = Once::new();
            RAISED.call_once(sys::allow_many_files);
            open()
        }
        opened => opened,
    }
}

/// Whether the process can open few more files, given a file that was just opened. Inputs and outputs that are not in
/// use are then closed.
pub(crate) fn is_short_of_files(file: &File) -> bool {
    sys::is_late_file(file, HANDED_OVER.load(Ordering::Relaxed))
}

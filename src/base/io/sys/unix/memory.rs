//! Signals about mapped files, releasing their memory, and `close` with error reporting, on Unix.
#![allow(
    unsafe_code,
    reason = "signal handlers, advice and closing have no safe form; the arguments are written at the calls"
)]

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::IntoRawFd;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, Once, OnceLock, PoisonError};

use memmap2::{Mmap, UncheckedAdvice};

use super::mapped_file;
use crate::base::display::printable;

/// Releases the memory of a mapped file; later reads take the bytes from the file again.
pub(crate) fn release(map: &Mmap) {
    // SAFETY: pages of a file that is mapped for reading come back with the bytes of the file, which are the same, as
    // whoever mapped it has promised. If the call fails, the memory just stays in use.
    drop(unsafe { map.unchecked_advise(UncheckedAdvice::DontNeed) });
}

/// The work that is left once a file is no longer mapped: none on Unix.
#[derive(Debug)]
pub(crate) struct AfterMapping;

/// Ignores SIGXFSZ and handles SIGBUS from now on.
pub(crate) fn take_signals() {
    static TAKEN: Once = Once::new();
    TAKEN.call_once(|| {
        ignore_sigxfsz();
        handle_sigbus();
    });
}

/// The action of SIGBUS before the handler was installed.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// Installs the handler for SIGBUS, unless the present action cannot be read.
fn handle_sigbus() {
    #[allow(clippy::as_conversions, reason = "the address of a function has no other way into the structure")]
    let handler = on_sigbus as *const () as libc::sighandler_t;
    // SAFETY: the structure is plain data, for which zeros are valid: no flags, an empty mask. The handler has the
    // signature that SA_SIGINFO requires, and does only what a handler may do: see `on_sigbus`. If a call fails, the
    // signal keeps its effect.
    unsafe {
        let mut before: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(libc::SIGBUS, std::ptr::null(), &raw mut before) != 0 {
            return;
        }
        // `on_sigbus` puts this action back for a signal that is not about a mapped file.
        BEFORE.get_or_init(|| before);
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = libc::SA_SIGINFO;
        libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut());
    }
}

/// Ends the process if bytes of a mapped file cannot be read: with an error message and the status of a failure. A
/// SIGBUS that another process has sent, or that is about other memory, has the effect it had before this handler was
/// installed.
///
/// The handler may allocate and wait for locks, because the thread was reading mapped bytes when the signal came. So it
/// is not inside of an allocation, and holds no lock that is taken here.
extern "C" fn on_sigbus(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: with SA_SIGINFO the system passes a valid structure; a SIGBUS of the kernel (its code is positive) has an
    // address.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr().addr()) };
    let file = mapped_file(address);
    // Only Linux lists the mapped files. Elsewhere, every SIGBUS of the kernel is assumed to be about one.
    let is_about_mapped_file = code > 0 && (file.is_some() || !cfg!(target_os = "linux"));
    if is_about_mapped_file {
        report_lost_bytes(file);
        for path in temporary_names().iter() {
            // An error here cannot be handled.
            drop(std::fs::remove_file(path));
        }
        // SAFETY: the call only ends the process.
        unsafe { libc::_exit(1) };
    }
    if let Some(before) = BEFORE.get() {
        // SAFETY: the action is one that the system has returned. The signal is blocked until this handler returns, and
        // is then delivered again.
        unsafe {
            libc::sigaction(signal, before, std::ptr::null_mut());
            libc::raise(signal);
        }
    }
}

/// Prints the error for bytes of a mapped file that cannot be read.
fn report_lost_bytes(file: Option<String>) {
    let file = match file {
        Some(path) => format!("'{}'", printable(&path)),
        None => "a mapped file".to_owned(),
    };
    let message = format!("error: {file}: the file became shorter while it was read, or its disk failed\n");
    // If standard error is closed, only the exit status reports the failure.
    drop(io::stderr().write_all(message.as_bytes()));
}

/// The temporary names of files that are not in place yet. The handler removes them before it ends the process.
static TEMPORARY_NAMES: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

fn temporary_names() -> std::sync::MutexGuard<'static, BTreeSet<PathBuf>> {
    TEMPORARY_NAMES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notes a file to be removed if the process ends because a mapped file cannot be read.
pub(crate) fn note_temporary(name: &Path) {
    temporary_names().insert(name.to_owned());
}

/// Forgets a file that was noted, because it is in place or removed.
pub(crate) fn forget_temporary(name: &Path) {
    temporary_names().remove(name);
}

/// Makes exceeding the file size limit an error instead of the end of the process, unless the program has a handler.
fn ignore_sigxfsz() {
    // SAFETY: ignoring a signal runs no code of ours. The structure is plain data, and zeros are valid. If the call
    // fails, the signal keeps its effect.
    unsafe {
        let mut before: libc::sigaction = std::mem::zeroed();
        let asked = libc::sigaction(libc::SIGXFSZ, std::ptr::null(), &raw mut before);
        if asked == 0 && before.sa_sigaction == libc::SIG_DFL {
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        }
    }
}

/// Closes a file and returns the error: some file systems report a failed write only then.
pub(crate) fn close(file: File) -> io::Result<()> {
    // SAFETY: only the file owned the descriptor, which is not used again.
    match unsafe { libc::close(file.into_raw_fd()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::base::io::process;
    use crate::base::testing::{is_alone, map};

    static CALLS: AtomicUsize = AtomicUsize::new(0);

    extern "C" fn plain(_: libc::c_int) {
        CALLS.fetch_add(1, Ordering::SeqCst);
    }

    fn set(signal: libc::c_int, handler: libc::sighandler_t) {
        // SAFETY: the handler above only adds to a number.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handler;
            assert_eq!(libc::sigaction(signal, &raw const action, std::ptr::null_mut()), 0);
        }
    }

    fn raise(signal: libc::c_int) {
        // SAFETY: the tests are about the effect of the signal.
        assert_eq!(unsafe { libc::raise(signal) }, 0);
    }

    #[test]
    #[allow(clippy::as_conversions, reason = "the address of a function has no other way into the structure")]
    fn signals_that_are_sent_have_the_effect_they_had_before() {
        const NAME: &str = "base::io::sys::unix::memory::tests::signals_that_are_sent_have_the_effect_they_had_before";
        if !is_alone(NAME) {
            return;
        }
        set(libc::SIGBUS, plain as *const () as libc::sighandler_t);
        set(libc::SIGXFSZ, plain as *const () as libc::sighandler_t);
        process::hand_over();
        for calls in [2, 4] {
            raise(libc::SIGBUS);
            raise(libc::SIGXFSZ);
            assert_eq!(CALLS.load(Ordering::SeqCst), calls);
        }
    }

    #[test]
    fn a_signal_that_the_program_ignores_stays_ignored() {
        if !is_alone("base::io::sys::unix::memory::tests::a_signal_that_the_program_ignores_stays_ignored") {
            return;
        }
        set(libc::SIGBUS, libc::SIG_IGN);
        process::hand_over();
        raise(libc::SIGBUS);
    }

    /// Reads a mapped file after its end, with an output under a temporary name.
    #[test]
    fn bytes_that_cannot_be_read_end_the_process() {
        const NAME: &str = "base::io::sys::unix::memory::tests::bytes_that_cannot_be_read_end_the_process";
        const VARIABLE: &str = "OFFLOAD_TEST_DIRECTORY";
        if let Some(directory) = std::env::var_os(VARIABLE) {
            let path = Path::new(&directory).join("input");
            std::fs::write(&path, [1; 100_000]).unwrap();
            process::hand_over();
            let input = map(&path).unwrap();
            let temporary = Path::new(&directory).join("temporary");
            std::fs::write(&temporary, "abc").unwrap();
            note_temporary(&temporary);
            File::options().write(true).open(&path).unwrap().set_len(10).unwrap();
            panic!("{}", input.bytes()[60_000]);
        }
        let directory = tempfile::tempdir().unwrap();
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", NAME])
            .env(VARIABLE, directory.path())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.starts_with("error: ") && text.contains("the file became shorter while it was read"), "{text}");
        assert!(cfg!(not(target_os = "linux")) || text.contains("/input'"), "{text}");
        assert!(!directory.path().join("temporary").exists());
    }

    #[test]
    fn without_being_asked_no_signal_is_touched() {
        if !is_alone("base::io::sys::unix::memory::tests::without_being_asked_no_signal_is_touched") {
            return;
        }
        let handler = |signal| {
            // SAFETY: the call only queries a value.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                assert_eq!(libc::sigaction(signal, std::ptr::null(), &raw mut action), 0);
                action.sa_sigaction
            }
        };
        let handlers = || [libc::SIGBUS, libc::SIGXFSZ].map(handler);
        let before = handlers();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "abc").unwrap();
        assert_eq!(map(file.path()).unwrap().bytes(), b"abc");
        crate::base::io::write_file(&file.path().with_extension("out"), b"abc").unwrap();
        std::fs::remove_file(file.path().with_extension("out")).unwrap();
        assert!(map(Path::new("/dev/null")).unwrap().is_empty());
        assert_eq!(handlers(), before);
    }
}

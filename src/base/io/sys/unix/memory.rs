//! Signals about mapped files, releasing their memory, and `close` with error reporting, on Unix.
#![allow(
    unsafe_code,
    reason = "signal handlers, advice and closing have no safe form; the arguments are written at the calls"
)]

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::IntoRawFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Once, OnceLock};

use memmap2::{Mmap, UncheckedAdvice};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

use super::live::{self, LiveFile};

/// A mapping that the signal handler watches. It must go before the memory is unmapped.
#[derive(Debug)]
pub(crate) struct Watched(&'static LiveFile);

impl Watched {
    /// Whether some bytes could not be read, and have been zeros since.
    pub(crate) fn faulted(&self) -> bool {
        self.0.faulted()
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        live::leave(self.0);
    }
}

/// Watches the memory of a mapping; `temporary` marks one of a temporary file. Returns `None` if the library may not set
/// signals.
pub(crate) fn watch(range: Range<*const u8>, temporary: bool) -> Option<Watched> {
    if !SIGNALS_TAKEN.load(Ordering::Relaxed) {
        return None;
    }
    install_handler();
    Some(Watched(live::enter(range.start.addr()..range.end.addr(), temporary)))
}

/// The number of times that bytes of temporary files could not be read.
pub(crate) fn faults_of_temporaries() -> usize {
    FAULTS.load(Ordering::Relaxed)
}

static FAULTS: AtomicUsize = AtomicUsize::new(0);

/// Releases the memory of a mapped file; later reads take the bytes from the file again.
pub(crate) fn release(map: &Mmap) {
    // SAFETY: pages of a file that is mapped for reading come back with the bytes of the file, which are the same, as
    // whoever mapped it has promised. Pages that the handler put there come back as zeros. If the call fails, the
    // memory just stays in use.
    drop(unsafe { map.unchecked_advise(UncheckedAdvice::DontNeed) });
}

/// The work that is left once a file is no longer mapped: none on Unix.
#[derive(Debug)]
pub(crate) struct AfterMapping;

/// Whether the library may set the signals of the process.
static SIGNALS_TAKEN: AtomicBool = AtomicBool::new(false);

/// Ignores SIGXFSZ from now on, and lets SIGBUS be handled before the next file is mapped.
pub(crate) fn take_signals() {
    if !SIGNALS_TAKEN.swap(true, Ordering::Relaxed) {
        ignore_sigxfsz();
    }
}

/// The size of a page, for the handler.
static PAGE: AtomicUsize = AtomicUsize::new(0);

/// The action of SIGBUS before the handler was installed.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

fn install_handler() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        // SAFETY: the call only queries a value.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        PAGE.store(usize::try_from(page).unwrap_or(1), Ordering::Relaxed);
        #[allow(clippy::as_conversions, reason = "the address of a function has no other way into the structure")]
        let handler = on_sigbus as *const () as libc::sighandler_t;
        // SAFETY: the structure is plain data. Zeros are valid: no flags, an empty mask. The handler has the signature
        // that SA_SIGINFO requires, and only makes calls that a handler may make (see there). Rust's runtime gives its
        // threads the stack that SA_ONSTACK names; a thread without one handles the signal on its own stack. If the
        // call fails, a shortened file ends the process.
        unsafe {
            let mut before: libc::sigaction = std::mem::zeroed();
            if libc::sigaction(libc::SIGBUS, std::ptr::null(), &raw mut before) == 0 {
                BEFORE.get_or_init(|| before);
            }
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handler;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut());
        }
    });
}

/// Replaces bytes of a mapped file that cannot be read by zeros, and records that. Any other SIGBUS has the effect it
/// had before this handler was installed.
///
/// The handler only reads and writes atomics ([`live`] explains why that is enough), and makes system calls that a handler may
/// make. The interrupted thread was reading memory, so it is not between a system call and a look at its `errno`.
extern "C" fn on_sigbus(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: with SA_SIGINFO the system passes a valid structure; a SIGBUS of the kernel (its code is positive) has an
    // address.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr().addr()) };
    if code > 0
        && let Some((entry, range)) = live::find(address)
    {
        let start = address & !PAGE.load(Ordering::Relaxed).wrapping_sub(1);
        let flags = MapFlags::PRIVATE | MapFlags::FIXED;
        // SAFETY: the range from the faulting page to the end lies inside one live mapping of this module: the faulting
        // thread holds a borrow of it, so nobody unmaps it. Nobody writes to it, and readers accept any bytes there.
        let zeros = unsafe {
            mmap_anonymous(std::ptr::without_provenance_mut(start), range.end - start, ProtFlags::READ, flags)
        };
        if zeros.is_ok() {
            if entry.set_faulted() {
                FAULTS.fetch_add(1, Ordering::Relaxed);
            }
            return;
        }
    }
    as_before(signal, info, context, code > 0);
}

/// Passes a signal to its previous action. `forced` marks a fault, which cannot be ignored.
fn as_before(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void, forced: bool) {
    type Simple = extern "C" fn(libc::c_int);
    type Informed = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);
    match BEFORE.get() {
        Some(before) if before.sa_sigaction == libc::SIG_IGN && !forced => {}
        Some(before) if ![libc::SIG_IGN, libc::SIG_DFL].contains(&before.sa_sigaction) => {
            // SAFETY: the system would have called the function at this address with these arguments; the flag selects
            // the signature.
            unsafe {
                if before.sa_flags & libc::SA_SIGINFO == 0 {
                    std::mem::transmute::<libc::sighandler_t, Simple>(before.sa_sigaction)(signal);
                } else {
                    std::mem::transmute::<libc::sighandler_t, Informed>(before.sa_sigaction)(signal, info, context);
                }
            }
        }
        // SAFETY: both may be called in a handler. The signal is blocked until the handler returns, and then ends the
        // process.
        _ => unsafe {
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        },
    }
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
    use std::path::Path;

    use super::*;
    use crate::base::io::process;
    use crate::base::testing::{is_alone, map};

    static CALLS: AtomicUsize = AtomicUsize::new(0);

    extern "C" fn plain(_: libc::c_int) {
        CALLS.fetch_add(1, Ordering::SeqCst);
    }

    extern "C" fn informed(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
        // SAFETY: the system, or the handler installed before this one, passes a valid structure.
        let sender = unsafe { (*info).si_pid() };
        CALLS.fetch_add(usize::from(u32::try_from(sender) == Ok(std::process::id())), Ordering::SeqCst);
    }

    fn set(signal: libc::c_int, handler: libc::sighandler_t, flags: libc::c_int) {
        // SAFETY: the handlers above only add to a number.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handler;
            action.sa_flags = flags;
            assert_eq!(libc::sigaction(signal, &raw const action, std::ptr::null_mut()), 0);
        }
    }

    fn raise(signal: libc::c_int) {
        // SAFETY: the tests are about the effect of the signal.
        assert_eq!(unsafe { libc::raise(signal) }, 0);
    }

    /// Checks that a file that becomes shorter while it is mapped is an error.
    fn assert_that_lost_bytes_are_an_error() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), [1; 100_000]).unwrap();
        let input = map(file.path()).unwrap();
        file.as_file().set_len(10).unwrap();
        assert!(input.bytes()[60_000..].iter().all(|&byte| byte == 0));
        assert!(input.ensure_unchanged().is_err());
    }

    #[test]
    #[allow(clippy::as_conversions, reason = "the address of a function has no other way into the structure")]
    fn a_signal_that_is_not_about_bytes_that_are_not_to_be_had_goes_where_it_went_before() {
        const NAME: &str = "base::io::sys::unix::memory::tests::a_signal_that_is_not_about_bytes_that_are_not_to_be_had_goes_where_it_went_before";
        if !is_alone(NAME) {
            return;
        }
        set(libc::SIGBUS, informed as *const () as libc::sighandler_t, libc::SA_SIGINFO);
        process::hand_over();
        for calls in 1..=3 {
            assert_that_lost_bytes_are_an_error();
            raise(libc::SIGBUS);
            assert_eq!(CALLS.load(Ordering::SeqCst), calls);
        }
    }

    #[test]
    #[allow(clippy::as_conversions, reason = "the address of a function has no other way into the structure")]
    fn a_handler_without_information_gets_the_signals_that_are_not_about_bytes_that_are_not_to_be_had() {
        const NAME: &str = "base::io::sys::unix::memory::tests::a_handler_without_information_gets_the_signals_that_are_not_about_bytes_that_are_not_to_be_had";
        if !is_alone(NAME) {
            return;
        }
        set(libc::SIGBUS, plain as *const () as libc::sighandler_t, 0);
        set(libc::SIGXFSZ, plain as *const () as libc::sighandler_t, 0);
        process::hand_over();
        assert_that_lost_bytes_are_an_error();
        raise(libc::SIGBUS);
        raise(libc::SIGXFSZ);
        assert_eq!(CALLS.load(Ordering::SeqCst), 2);
    }

    #[test]
    fn a_signal_that_the_program_ignores_stays_ignored_if_it_is_not_about_bytes_that_are_not_to_be_had() {
        const NAME: &str = "base::io::sys::unix::memory::tests::a_signal_that_the_program_ignores_stays_ignored_if_it_is_not_about_bytes_that_are_not_to_be_had";
        if !is_alone(NAME) {
            return;
        }
        set(libc::SIGBUS, libc::SIG_IGN, 0);
        process::hand_over();
        assert_that_lost_bytes_are_an_error();
        raise(libc::SIGBUS);
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

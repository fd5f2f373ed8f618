//! Memory mapping of input files, what becomes of one whose file does not last, and closing a file with its errors: the
//! only module with `unsafe` code.
#![allow(
    unsafe_code,
    reason = "mapping, signal handlers and closing have no safe form; the arguments are written at the calls"
)]

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::os::fd::IntoRawFd;
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};

use memmap2::{Mmap, MmapOptions, UncheckedAdvice};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

use crate::live::{self, Entry};
use crate::process;

/// A file that is mapped for reading.
#[derive(Debug)]
pub(crate) struct Mapping {
    map: Mmap,
    /// Where the signal handler finds the mapping, if there is a handler.
    entry: Option<&'static Entry>,
}

impl Mapping {
    /// Maps the `len` bytes of a regular, non-empty file.
    pub(crate) fn of(file: &File, len: usize) -> io::Result<Self> {
        // SAFETY: the mapping is read-only, and `Mmap` keeps it alive as long as any borrow of its bytes. What nobody can
        // exclude is that another process changes or shortens the file meanwhile, where Rust takes borrowed bytes for
        // constant. The library therefore makes nothing but integers of mapped bytes: no `str`, `bool` or enum borrows
        // them, text is copied before it is checked (`bytes::text`; a lint refuses the functions that would not copy), and
        // no index is used that safe code has not compared with the length of the slice, which cannot change. The
        // decoders of zstd and zlib check positions and not contents. tests/hostile/races.rs changes files under all
        // readers; for the decoders that is evidence and not proof. Bytes after the end of a shortened file raise SIGBUS,
        // which ends the process or, with the handler below, makes zeros of them: changed bytes again. Either way no
        // output is in place yet.
        let map = unsafe { MmapOptions::new().len(len).map(file)? };
        let entry = process::is_handed_over().then(|| {
            install_handler();
            let range = map.as_ptr_range();
            live::enter(range.start.addr()..range.end.addr())
        });
        Ok(Self { map, entry })
    }

    /// Whether some bytes were not to be had, and are zeros since.
    pub(crate) fn faulted(&self) -> bool {
        self.entry.is_some_and(Entry::faulted)
    }

    /// Gives the memory back; reading it again takes it from the file again.
    pub(crate) fn release(&self) {
        // SAFETY: pages of a file that is mapped for reading come back with the bytes of the file, which are the same
        // ones unless another process changes the file: the case that `of` has argued about. Pages that the handler put
        // there come back as zeros.
        // Where it fails, memory is used that need not be.
        drop(unsafe { self.map.unchecked_advise(UncheckedAdvice::DontNeed) });
    }
}

impl Deref for Mapping {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.map
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // The memory is unmapped behind this.
        if let Some(entry) = self.entry.take() {
            live::leave(entry);
        }
    }
}

/// The size of a page, for the handler.
static PAGE: AtomicUsize = AtomicUsize::new(0);

fn install_handler() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        // SAFETY: it only asks.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        PAGE.store(usize::try_from(page).unwrap_or(1), Ordering::Relaxed);
        #[allow(clippy::as_conversions, reason = "the address of a function has no other way into the structure")]
        let handler = on_sigbus as *const () as libc::sighandler_t;
        // SAFETY: the structure is plain data, for which zeros are valid: no flags, an empty mask. The handler has the
        // signature that SA_SIGINFO asks for, and does only what a handler may do (see there). Rust's runtime gives its
        // threads the stack that SA_ONSTACK names; a thread without one handles the signal on its own.
        // Where it fails, a shortened file ends the process.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handler;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut());
        }
    });
}

/// Puts zeros where the bytes of a mapped file are not to be had, and notes that. Any other fault ends the process, as it
/// would have without this.
///
/// It only reads and writes atomics ([`live`] says why that is enough), and makes system calls that a handler may
/// make. The interrupted thread was reading memory, so it is not between a system call and a look at its `errno`.
extern "C" fn on_sigbus(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: with SA_SIGINFO the system passes a valid structure; a SIGBUS of the kernel (its code is positive) has an
    // address in it.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr().addr()) };
    if code > 0
        && let Some((entry, range)) = live::find(address)
    {
        let start = address & !PAGE.load(Ordering::Relaxed).wrapping_sub(1);
        let flags = MapFlags::PRIVATE | MapFlags::FIXED;
        // SAFETY: the range from the faulting page to the end lies inside one live mapping of this module: the fault's
        // thread holds a borrow of it, so nobody unmaps it. Nobody writes to it, and readers may find any bytes there.
        let zeros = unsafe {
            mmap_anonymous(std::ptr::without_provenance_mut(start), range.end - start, ProtFlags::READ, flags)
        };
        if zeros.is_ok() {
            entry.set_faulted();
            return;
        }
    }
    // SAFETY: both may be called in a handler. The signal is blocked until the handler returns, and then ends the process.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

/// Makes writing beyond the limit on file sizes an error instead of the end of the process, if that is ours to decide.
pub(crate) fn ignore_sigxfsz() {
    static IGNORED: Once = Once::new();
    if process::is_handed_over() {
        IGNORED.call_once(|| {
            // SAFETY: ignoring a signal runs no code of ours. Where it fails, the signal does what it did.
            let _ = unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
        });
    }
}

/// Closes a file and says whether that failed: where a file system reports late what it could not write.
pub(crate) fn close(file: File) -> io::Result<()> {
    // SAFETY: the descriptor was the file's alone, and is used no more.
    match unsafe { libc::close(file.into_raw_fd()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

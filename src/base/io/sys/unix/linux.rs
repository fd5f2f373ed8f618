//! The functions that only Linux has: copying in the kernel, holes, files without a name, extended attributes, and
//! functions that run before `main`.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, SeekFrom, linkat, seek};
use rustix::io::Errno;

use crate::base::bytes;

/// Whether standard input and standard output were closed when the program started.
static CLOSED: [AtomicBool; 2] = [const { AtomicBool::new(false) }; 2];

/// A function that the C library calls before `main`. Later, Rust's library opens `/dev/null` in the place of closed
/// streams, which cannot be distinguished from a `/dev/null` that the user chose.
#[cfg(not(miri))]
#[used]
#[allow(unsafe_code, reason = "there is no other way to run before Rust's library")]
// SAFETY: the section holds pointers to functions. The C library calls each once, with arguments that may be ignored.
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = note_closed_streams;

#[cfg(not(miri))]
extern "C" fn note_closed_streams() {
    for (descriptor, closed) in (0..).zip(&CLOSED) {
        #[allow(unsafe_code, reason = "a descriptor that may be closed has no safe type")]
        // SAFETY: the call only reads flags, and fails if nothing is open.
        let flags = unsafe { libc::fcntl(descriptor, libc::F_GETFD) };
        closed.store(flags == -1, Ordering::Relaxed);
    }
}

/// Whether standard input and standard output were closed when the program started.
pub(crate) fn closed_streams() -> [bool; 2] {
    CLOSED.each_ref().map(|closed| closed.load(Ordering::Relaxed))
}

/// The number of bytes that the kernel copies at a time. The progress is counted in between.
const COPIED_AT_A_TIME: u64 = 256 << 20;

/// Copies bytes of a range from the start, as far as the kernel can copy between the two files, and reports them to
/// `count`. Returns the number of bytes copied; the caller copies the rest.
pub(crate) fn copy_in_kernel(from: &File, range: Range<u64>, to: &File, count: &dyn Fn(u64)) -> u64 {
    let Range { start, end } = range;
    let mut position = start;
    while position < end {
        let len = usize::try_from(end.saturating_sub(position).min(COPIED_AT_A_TIME)).unwrap_or(usize::MAX);
        match rustix::fs::copy_file_range(from, Some(&mut position), to, None, len) {
            Ok(copied @ 1..) => count(bytes::to_u64(copied)),
            Err(Errno::INTR) => {}
            // The kernel cannot copy between all file systems. If the disk failed, the caller's copying fails too.
            Ok(0) | Err(_) => break,
        }
    }
    position.saturating_sub(start)
}

/// Returns the next offset with data in the file, `u64::MAX` if only a hole follows, or `None` if the system does not
/// know the holes of the file.
pub(crate) fn next_data(file: &File, offset: u64) -> Option<u64> {
    let next = match seek(file, SeekFrom::Data(offset)) {
        Ok(at) => Some(at),
        // No data up to the end of the file.
        Err(Errno::NXIO) => Some(u64::MAX),
        Err(_) => None,
    };
    // The seek above has moved the position, which a standard input shares with other processes: see
    // `Storage::of_standard_input`, which leaves it at the end.
    seek(file, SeekFrom::End(0)).ok()?;
    next
}

/// Returns the path of the file that is mapped at an address, or `None` if the system does not list it.
pub(crate) fn mapped_file(address: usize) -> Option<String> {
    let maps = std::fs::read("/proc/self/maps").ok()?;
    // A line: `7f0e5c000000-7f0e5c021000 r--p 00000000 08:01 131 /tmp/x.bundle`
    for line in bytes::text_lossy(&maps).lines() {
        let (start, rest) = line.split_once('-')?;
        let (end, rest) = rest.split_once(' ')?;
        let [start, end] = [start, end].map(|digits| usize::from_str_radix(digits, 16));
        if (start.ok()?..end.ok()?).contains(&address) {
            return rest.get(rest.find('/')?..).map(str::to_owned);
        }
    }
    None
}

/// Creates a file without a name.
pub(crate) fn unnamed(directory: &Path, mode: u32) -> io::Result<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::open(directory, flags, Mode::from_raw_mode(mode))?))
}

/// Gives an unnamed file a name that is free.
pub(crate) fn link(file: &File, name: &Path) -> io::Result<()> {
    let path_of_file = format!("/proc/self/fd/{}", file.as_raw_fd());
    match linkat(CWD, path_of_file, CWD, name, AtFlags::SYMLINK_FOLLOW) {
        // Without /proc, the file itself is linked, which older kernels allow only to privileged users.
        Err(Errno::NOENT) => Ok(linkat(file, "", CWD, name, AtFlags::EMPTY_PATH)?),
        linked => Ok(linked?),
    }
}

/// Extended attributes, among them access control lists.
pub(crate) mod attributes {
    use std::ffi::{CStr, CString};
    use std::fs::File;
    use std::io;

    use rustix::buffer::spare_capacity;
    use rustix::fs::{XattrFlags, fgetxattr, flistxattr, fremovexattr, fsetxattr};
    use rustix::io::Errno;

    use crate::base::io::staging::Inherited;

    /// Linux's maximum size of the list of names, and of a value, in bytes.
    const MAX: usize = 64 << 10;

    /// The attributes that the system removes or updates when a file is written.
    const TIED_TO_CONTENT: [&CStr; 3] = [c"security.capability", c"security.ima", c"security.evm"];

    /// Gives a new file the attributes of an old one that are to be inherited. Removes an access control list that the
    /// new file got from its directory if the old file has none.
    pub(crate) fn take_over(file: &File, old: &File, inherited: Inherited) -> io::Result<()> {
        let old_names = names(old)?;
        for name in names(file)? {
            if is_access_control_list(&name) && !old_names.contains(&name) {
                fremovexattr(file, &name)?;
            }
        }
        for name in &old_names {
            let is_inherited = match inherited {
                Inherited::Everything => !TIED_TO_CONTENT.contains(&name.as_c_str()),
                Inherited::Access => is_access_control_list(name),
            };
            if !is_inherited {
                continue;
            }
            // Setting an attribute may need a privilege, so one that already has the value is left as it is.
            let old_value = value(old, name)?;
            if value(file, name).ok().as_ref() != Some(&old_value) {
                fsetxattr(file, name, &old_value, XattrFlags::empty())?;
            }
        }
        Ok(())
    }

    /// Whether a file has an access control list.
    pub(crate) fn has_access_control_list(file: &File) -> io::Result<bool> {
        Ok(names(file)?.iter().any(|name| is_access_control_list(name)))
    }

    /// Whether an attribute is an access control list, as those of POSIX and NFS: Linux names them `system.…`.
    fn is_access_control_list(name: &CStr) -> bool {
        name.to_bytes().starts_with(b"system.")
    }

    /// Returns the names of a file's attributes; none if the file system does not support attributes.
    fn names(file: &File) -> io::Result<Vec<CString>> {
        let mut list = Vec::with_capacity(MAX);
        match flistxattr(file, spare_capacity(&mut list)) {
            Ok(_) | Err(Errno::NOTSUP) => {}
            Err(error) => return Err(error.into()),
        }
        let names = list.split_inclusive(|&byte| byte == 0);
        Ok(names.filter_map(|name| CString::from_vec_with_nul(name.into()).ok()).collect())
    }

    /// Returns the value of a file's attribute.
    fn value(file: &File, name: &CStr) -> io::Result<Vec<u8>> {
        let mut value = Vec::with_capacity(MAX);
        fgetxattr(file, name, spare_capacity(&mut value))?;
        Ok(value)
    }
}

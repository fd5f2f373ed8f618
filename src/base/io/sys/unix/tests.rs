//! Tests of outputs as far as they are about links, permissions, owners and devices.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use super::{Stat, is_trap, open_existing};
use crate::base::error::{ErrorKind, Result};
use crate::base::io::output::tests::{OVERWRITE_MODES, write};
use crate::base::io::output::{Output, OverwriteMode, commit};
use crate::base::io::piece::Sink as _;
use crate::base::io::staging::Staged;
use crate::base::testing::say;

fn write_as(path: &Path, overwrite: OverwriteMode, data: &[u8]) -> Result<()> {
    let mut output = Output::stage_as(path, overwrite)?;
    output.write(data)?;
    commit(vec![output])
}

#[test]
fn links_and_permissions_stay() {
    let dir = tempfile::tempdir().unwrap();
    let (file, link) = (dir.path().join("file"), dir.path().join("link"));
    fs::write(&file, b"old").unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o751)).unwrap();
    std::os::unix::fs::symlink("file", &link).unwrap();
    write(&link, b"new").unwrap();
    assert!(link.is_symlink());
    assert_eq!(fs::read(&file).unwrap(), b"new");
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o751);
}

#[test]
fn a_dangling_link_gets_its_target() {
    let dir = tempfile::tempdir().unwrap();
    let link = dir.path().join("link");
    std::os::unix::fs::symlink("target", &link).unwrap();
    write(&link, b"x").unwrap();
    assert_eq!(fs::read(dir.path().join("target")).unwrap(), b"x");
    assert!(link.is_symlink());
    std::os::unix::fs::symlink("round", dir.path().join("round")).unwrap();
    assert!(write(&dir.path().join("round"), b"x").is_err());
}

fn mode(path: &Path) -> u32 {
    path.symlink_metadata().unwrap().mode() & 0o7777
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn umask() -> u32 {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x");
    drop(Staged::create(&path, 0o777).map(|staged| staged.give_name(&path).unwrap()).unwrap());
    0o777 & !mode(&path)
}

#[test]
fn links_are_followed_or_replaced_and_what_they_lead_to_is_new_or_untouched() {
    for overwrite in OVERWRITE_MODES {
        let is_followed = matches!(overwrite, OverwriteMode::Rewrite | OverwriteMode::WithMode(_));
        for old in [Some(b"old"), None] {
            for name in ["link", "link-to-link"] {
                let dir = tempfile::tempdir().unwrap();
                let path = |name: &str| dir.path().join(name);
                std::os::unix::fs::symlink("target", path("link")).unwrap();
                std::os::unix::fs::symlink("link", path("link-to-link")).unwrap();
                if let Some(old) = old {
                    fs::write(path("target"), old).unwrap();
                }
                write_as(&path(name), overwrite, b"new").unwrap();
                assert_eq!(path(name).is_symlink(), is_followed, "{overwrite:?} {name}");
                assert_eq!(fs::read(path(name)).unwrap(), b"new");
                let target = if is_followed { Some(&b"new"[..]) } else { old.map(|old| &old[..]) };
                assert_eq!(fs::read(path("target")).ok().as_deref(), target, "{overwrite:?} {name}");
            }
        }
        let dir = tempfile::tempdir().unwrap();
        let round = dir.path().join("round");
        std::os::unix::fs::symlink("round", &round).unwrap();
        assert_eq!(write_as(&round, overwrite, b"new").is_err(), is_followed, "{overwrite:?}");
    }
}

#[test]
fn nothing_is_left_of_a_failure_where_a_link_was_to_be_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    std::os::unix::fs::symlink("target", path("a")).unwrap();
    let mut outputs =
        vec![Output::stage_as(&path("a"), OverwriteMode::Replace).unwrap(), Output::stage(&path("b")).unwrap()];
    fs::create_dir(path("b")).unwrap();
    for output in &mut outputs {
        output.write(b"new").unwrap();
    }
    assert!(commit(outputs).is_err());
    assert_eq!(path("a").read_link().unwrap(), Path::new("target"));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
}

#[test]
fn devices_are_written_to_unless_the_name_is_generated() {
    for overwrite in OVERWRITE_MODES {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        std::os::unix::fs::symlink("/dev/null", path("null")).unwrap();
        std::os::unix::fs::symlink("/dev/full", path("full")).unwrap();
        write_as(&path("null"), overwrite, b"new").unwrap();
        let is_written = overwrite != OverwriteMode::Generated;
        assert_eq!(path("null").is_symlink(), is_written, "{overwrite:?}");
        assert_eq!(write_as(&path("full"), overwrite, b"new").is_err(), is_written, "{overwrite:?}");
        assert!(!Path::new("/dev/null").metadata().unwrap().is_file());
        #[cfg(target_os = "linux")]
        if !is_written {
            use rustix::fs::{CWD, FileType, mknodat};
            mknodat(CWD, path("pipe"), FileType::Fifo, 0o600.into(), 0).unwrap();
            write_as(&path("pipe"), overwrite, b"new").unwrap();
            assert_eq!(fs::read(path("pipe")).unwrap(), b"new");
        }
    }
}

#[test]
fn directories_are_never_replaced() {
    for overwrite in OVERWRITE_MODES {
        let dir = tempfile::tempdir().unwrap();
        let (path, link) = (dir.path().join("x"), dir.path().join("link"));
        fs::create_dir(&path).unwrap();
        std::os::unix::fs::symlink("x", &link).unwrap();
        assert!(write_as(&path, overwrite, b"new").unwrap_err().to_string().ends_with("': Is a directory"));
        assert_eq!(write_as(&link, overwrite, b"new").is_ok(), overwrite == OverwriteMode::Generated, "{overwrite:?}");
        assert!(path.is_dir());
    }
    let dir = tempfile::tempdir().unwrap();
    let error = write_as(&dir.path().join("x/"), OverwriteMode::Rewrite, b"new").unwrap_err();
    assert!(error.to_string().ends_with("': Is a directory"), "{error}");
}

#[test]
fn nobody_may_do_more_with_a_new_file_than_with_the_old_one() {
    for old in [0o600, 0o644, 0o444, 0o200, 0o777, 0o640, 0o604, 0o066, 0o000] {
        for overwrite in OVERWRITE_MODES {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("x");
            fs::write(&path, b"old").unwrap();
            fs::set_permissions(&path, Permissions::from_mode(old)).unwrap();
            let written = write_as(&path, overwrite, b"new");
            if matches!(overwrite, OverwriteMode::Replace | OverwriteMode::Generated) || old & 0o200 != 0 {
                written.unwrap();
            } else if written.is_err() {
                // A file that may not be written is not changed. Root may write any file.
                continue;
            }
            // The access control list of a file that cannot be opened is unknown. Root may open any file.
            let is_opened = old & 0o600 != 0 || is_root();
            let expected = match overwrite {
                OverwriteMode::Rewrite => old,
                OverwriteMode::WithMode(mode) => mode & old & !umask(),
                OverwriteMode::Replace | OverwriteMode::Generated if is_opened => old & 0o666 & !umask(),
                OverwriteMode::Replace | OverwriteMode::Generated => 0,
            };
            assert_eq!(mode(&path), expected, "{overwrite:?} {old:o}");
        }
    }
}

#[test]
fn a_file_of_another_user_gives_that_user_nothing_of_what_replaces_it() {
    if !is_root() {
        say("SKIPPED: only root can make another user's file");
        return;
    }
    for overwrite in [OverwriteMode::Replace, OverwriteMode::Generated] {
        for (old, expected) in [(0o666, 0o666), (0o660, 0o600), (0o664, 0o644), (0o600, 0o600)] {
            let dir = tempfile::tempdir().unwrap();
            let (path, new) = (dir.path().join("x"), dir.path().join("new"));
            fs::write(&path, b"old").unwrap();
            fs::set_permissions(&path, Permissions::from_mode(old)).unwrap();
            std::os::unix::fs::chown(&path, Some(65534), Some(65534)).unwrap();
            write_as(&path, overwrite, b"new").unwrap();
            write_as(&new, overwrite, b"new").unwrap();
            let owner = |path: &Path| path.metadata().map(|metadata| (metadata.uid(), metadata.gid())).unwrap();
            assert_eq!(owner(&path), owner(&new));
            assert_eq!(mode(&path), expected & mode(&new), "{overwrite:?} {old:o}");
            #[cfg(target_os = "linux")]
            {
                std::os::unix::fs::chown(&path, Some(65534), Some(65534)).unwrap();
                if attributes::set(&path, attributes::ACCESS, &attributes::list(6, 6, 6, 6, 6)) {
                    write_as(&path, overwrite, b"new").unwrap();
                    assert!(owner(&path) == owner(&new) && mode(&path) == 0o600);
                }
            }
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn the_owner_of_a_file_that_is_rewritten_stays() {
    if !is_root() {
        say("SKIPPED: only root can make another user's file");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x");
    fs::write(&path, b"old").unwrap();
    std::os::unix::fs::chown(&path, Some(65534), Some(65534)).unwrap();
    write(&path, b"new").unwrap();
    assert_eq!((path.metadata().unwrap().uid(), path.metadata().unwrap().gid()), (65534, 65534));
}

#[test]
fn links_of_others_in_shared_directories_are_not_followed() {
    if !is_root() {
        say("SKIPPED: only root can make another user's link");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    std::os::unix::fs::symlink("target", path("link")).unwrap();
    std::os::unix::fs::lchown(path("link"), Some(65534), Some(65534)).unwrap();
    std::os::unix::fs::symlink("link", path("own-link")).unwrap();
    for old in [None, Some(b"old")] {
        if let Some(old) = old {
            fs::write(path("target"), old).unwrap();
        }
        for name in ["link", "own-link"] {
            fs::set_permissions(dir.path(), Permissions::from_mode(0o1777)).unwrap();
            let error = write(&path(name), b"new").unwrap_err().to_string();
            assert_eq!(error, format!("'{}': Permission denied", path(name).display()));
            assert_eq!(fs::read(path("target")).ok().as_deref(), old.map(|old| &old[..]));
            fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
        }
    }
    write(&path("own-link"), b"new").unwrap();
    assert_eq!(fs::read(path("target")).unwrap(), b"new");
}

#[test]
fn only_links_of_others_in_shared_directories_are_traps() {
    let (me, dave, root) = (1000, 1001, 0);
    for (owner, user, directory, trap) in [
        (dave, me, (root, 0o41777), true),
        (dave, root, (root, 0o41777), true),
        (me, root, (root, 0o41777), true),
        (me, me, (root, 0o41777), false),
        (root, me, (root, 0o41777), false),
        (dave, me, (dave, 0o41777), false),
        (dave, me, (root, 0o40777), false),
        (dave, me, (root, 0o41775), false),
        (dave, me, (root, 0o40755), false),
    ] {
        assert_eq!(is_trap(owner, user, directory), trap, "{owner} {user} {directory:?}");
    }
}

/// Helpers that set and read extended attributes. A message is printed if the file system does not support them.
#[cfg(target_os = "linux")]
mod attributes {
    use std::collections::BTreeMap;

    use rustix::fs::{XattrFlags, lgetxattr, llistxattr, setxattr};

    use super::*;

    pub(super) const ACCESS: &str = "system.posix_acl_access";
    pub(super) const DEFAULT: &str = "system.posix_acl_default";

    /// An access control list with the permissions of the owner, user 65534, the group, the mask (the maximum for
    /// all but the owner and others), and others.
    pub(super) fn list(owner: u16, user: u16, group: u16, mask: u16, others: u16) -> Vec<u8> {
        let entries = [(1, owner, !0), (2, user, 65534), (4, group, !0), (16, mask, !0), (32, others, !0_u32)];
        let entry =
            |(tag, may, id): (u16, u16, u32)| [&tag.to_le_bytes()[..], &may.to_le_bytes(), &id.to_le_bytes()].concat();
        [2_u32.to_le_bytes().to_vec(), entries.map(entry).concat()].concat()
    }

    pub(super) fn set(path: &Path, name: &str, value: &[u8]) -> bool {
        let set = setxattr(path, name, value, XattrFlags::empty());
        if set.is_err() {
            say(&format!("SKIPPED: extended attributes such as {name} cannot be set here"));
        }
        set.is_ok()
    }

    pub(super) fn all(path: &Path) -> BTreeMap<String, Vec<u8>> {
        let mut names = vec![0; 1 << 16];
        let len = llistxattr(path, &mut names[..]).unwrap();
        let names = names[..len].split(|&byte| byte == 0).filter(|name| !name.is_empty());
        let value = |name: &str| {
            let mut value = vec![0; 1 << 16];
            let len = lgetxattr(path, name, &mut value[..]).unwrap();
            value[..len].to_vec()
        };
        names.map(|name| std::str::from_utf8(name).unwrap()).map(|name| (name.to_owned(), value(name))).collect()
    }
}

#[cfg(target_os = "linux")]
#[test]
fn who_is_denied_by_the_access_control_list_of_a_file_is_denied_by_that_of_its_successor() {
    let permissions = [0, 4, 6, 7];
    for (user, group) in permissions.into_iter().flat_map(|user| permissions.map(|group| (user, group))) {
        for overwrite in OVERWRITE_MODES {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("x");
            fs::write(&path, b"old").unwrap();
            let list = attributes::list(6, user, group, 6, 4);
            if !attributes::set(&path, attributes::ACCESS, &list) || !attributes::set(&path, "user.test", b"1") {
                return;
            }
            let before = attributes::all(&path);
            write_as(&path, overwrite, b"new").unwrap();
            let after = attributes::all(&path);
            assert_eq!(fs::read(&path).unwrap(), b"new");
            if overwrite == OverwriteMode::Rewrite {
                assert_eq!(after, before);
            }
            if matches!(overwrite, OverwriteMode::Replace | OverwriteMode::Generated) {
                assert_eq!(mode(&path), 0o664 & !umask(), "{overwrite:?} {user} {group}");
            }
            // The mask may allow less than before; the entries are the same.
            let entry = |list: &[u8], index: usize| list[4 + 8 * index..][..8].to_vec();
            let (before, after) = (&before[attributes::ACCESS], &after[attributes::ACCESS]);
            assert!((0..3).all(|index| entry(before, index) == entry(after, index)), "{overwrite:?} {user} {group}");
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_with_an_access_control_list_is_replaced_by_one_with_the_permissions_of_any_other() {
    for old in [0o775, 0o755, 0o666, 0o640, 0o600] {
        for overwrite in [OverwriteMode::Replace, OverwriteMode::Generated] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("x");
            fs::write(&path, b"old").unwrap();
            if !attributes::set(&path, attributes::ACCESS, &attributes::list(7, 6, 7, 7, 7)) {
                return;
            }
            fs::set_permissions(&path, Permissions::from_mode(old)).unwrap();
            write_as(&path, overwrite, b"new").unwrap();
            assert_eq!(mode(&path), old & 0o666 & !umask(), "{overwrite:?} {old:o}");
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_without_an_access_control_list_gets_none_from_its_directory() {
    for overwrite in OVERWRITE_MODES {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        fs::write(&path, b"old").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        if !attributes::set(dir.path(), attributes::DEFAULT, &attributes::list(7, 7, 7, 7, 7)) {
            return;
        }
        write_as(&path, overwrite, b"new").unwrap();
        assert!(attributes::all(&path).is_empty(), "{overwrite:?}");
        assert_eq!(mode(&path), 0o640, "{overwrite:?}");
    }
}

#[test]
fn a_file_that_vanished_is_not_made_again_and_another_is_not_opened() {
    let dir = tempfile::tempdir().unwrap();
    let (path, other) = (dir.path().join("x"), dir.path().join("other"));
    for mode in [0o644, 0o600, 0] {
        fs::write(&path, b"").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        let seen = Stat::at_link(&path).unwrap();
        if mode != 0 || is_root() {
            assert!(open_existing(&path, &seen, true).unwrap().is_some(), "{mode:o}");
        }
        fs::write(&other, b"").unwrap();
        fs::rename(&other, &path).unwrap();
        assert!(open_existing(&path, &seen, true).unwrap().is_none(), "{mode:o}");
        assert!(path.exists());
        fs::remove_file(&path).unwrap();
        if mode != 0 {
            assert!(open_existing(&path, &seen, true).unwrap().is_none(), "{mode:o}");
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "{mode:o}");
        }
    }
}

#[test]
fn two_outputs_cannot_be_one_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x");
    std::os::unix::fs::symlink("x", dir.path().join("link")).unwrap();
    for other in ["link", "./x", "../x"] {
        let directory = if other.starts_with("..") { dir.path().join("sub") } else { dir.path().to_owned() };
        fs::create_dir_all(&directory).unwrap();
        let outputs = vec![Output::stage(&path).unwrap(), Output::stage(&directory.join(other)).unwrap()];
        assert!(commit(outputs).unwrap_err().kind() == ErrorKind::Conflict, "{other}");
    }
    assert!(!path.exists());
}

#[test]
fn errors_name_the_output_and_the_cause() {
    for (path, expected) in [
        ("/nonexistent/out", "'/nonexistent/out': No such file or directory"),
        ("/", "'/': Is a directory"),
        ("/dev/null/x", "'/dev/null/x': Not a directory"),
    ] {
        assert_eq!(Output::stage(Path::new(path)).unwrap_err().to_string(), expected);
    }
}

#[test]
fn devices_are_written_to() {
    write(Path::new("/dev/null"), b"abc").unwrap();
    assert!(!Path::new("/dev/null").metadata().unwrap().is_file());
    assert!(write(Path::new("/dev/full"), b"abc").is_err());
}

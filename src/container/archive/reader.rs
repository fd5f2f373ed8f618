//! Reads an archive and its members in place. The [parent module](super) documents the formats; names are as in LLVM
//! 22.1.8.
//!
//! Rejected: data that is not an archive, headers that do not parse, members that end after the archive or are together
//! larger than it, names of more than 4096 bytes.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use object::read::archive::ArchiveFile;

use crate::bytes;
use crate::container::limits::{Allowance, NAME_MAX};
use crate::container::magic::Magic;
use crate::display::shown;
use crate::error::{Error, ErrorKind, Malformed, Result, WithPath};
use crate::io::input::Slice;

/// The length of the magic, the shortest possible archive.
const MAGIC_LEN: u64 = 8;

/// The length of a member's header.
const HEADER_LEN: u64 = 60;

/// An archive in an input.
pub struct Archive<'a> {
    data: Slice<'a>,
    file: ArchiveFile<'a>,
}

/// A member of an archive.
#[derive(Clone, Debug)]
pub struct ArchiveMember<'a> {
    /// The name, which may be any bytes.
    pub name: &'a [u8],
    /// The location of its content.
    pub location: Location<'a>,
}

/// The location of a member's content.
#[derive(Clone, Debug)]
pub enum Location<'a> {
    /// In the archive.
    Inside(Slice<'a>),
    /// In a separate file, because the archive is a thin one. A relative path is relative to the directory of the
    /// archive. If the archive is bytes without a file, the path is the one recorded in the archive.
    Beside(PathBuf),
}

impl<'a> Archive<'a> {
    /// Whether `data` begins like an archive.
    pub fn is_archive(data: &[u8]) -> bool {
        Magic::identify(data) == Magic::Archive
    }

    /// Reads the archive in `data`.
    ///
    /// # Errors
    /// [`Error::NoArchive`] if it does not begin like one, [`Error::Malformed`] if its special members are broken.
    pub fn read(data: impl Into<Slice<'a>>) -> Result<Self> {
        let data = data.into();
        if !Self::is_archive(data.bytes()) {
            return Err(Error::NoArchive);
        }
        let file = ArchiveFile::parse(data.bytes()).map_err(|error| broken(data, MAGIC_LEN, &error))?;
        // If the index or the names extend past the end, the archive has no members and no error is reported.
        match special_members_end(data.bytes()) {
            Some(needed) if needed > data.len() => {
                let what = "the index or the names of the archive";
                Err(Error::malformed(data.path(), Malformed::truncated(what, data.offset(), needed, data.end())))
            }
            _ => Ok(Self { data, file }),
        }
    }

    /// The members in archive order. An error ends the iteration.
    pub fn members(&self) -> impl Iterator<Item = Result<ArchiveMember<'a>>> + use<'a> {
        let data = self.data;
        let thin = self.file.is_thin();
        // A lower bound of the next header's offset, for errors.
        let mut position = MAGIC_LEN;
        let mut room = Allowance::new(data.len());
        self.file.members().map(move |member| {
            let member = member.map_err(|error| broken(data, position, &error))?;
            let name = member.name();
            if name.len() > NAME_MAX {
                return Err(Error::malformed(data.path(), long_name(name, data, position)));
            }
            if thin {
                position = position.saturating_add(HEADER_LEN);
                return Ok(ArchiveMember { name, location: Location::Beside(beside(data.path(), name)) });
            }
            let (offset, size) = member.file_range();
            position = offset.saturating_add(size);
            let content = data.slice(offset, size).ok_or_else(|| {
                let what = format!("the archive member '{}'", shown(name));
                Error::malformed(data.path(), Malformed::truncated(what, data.absolute(offset), size, data.end()))
            })?;
            // AIX archives locate members by a table, which may give all of them the same offset.
            let expected = "together with the others no more than the archive holds";
            room.claim("size of a member", size, content.offset(), expected).with_path(data.path())?;
            Ok(ArchiveMember { name, location: Location::Inside(content) })
        })
    }
}

/// The end of the index and the names at the start of an archive, according to their headers.
fn special_members_end(data: &[u8]) -> Option<u64> {
    if data.starts_with(&object::archive::AIX_BIG_MAGIC) {
        return None;
    }
    let mut end = MAGIC_LEN;
    while let Some(header) = bytes::slice(data, end, HEADER_LEN) {
        let special: [&[u8]; 4] = [b"/ ", b"// ", b"/SYM64/ ", b"__.SYMDEF"];
        if !special.iter().any(|name| header.starts_with(name)) {
            break;
        }
        let size = bytes::text(header.get(48..58)?)?.trim_end_matches(' ').parse::<u64>().ok()?;
        end = end.checked_add(HEADER_LEN)?.checked_add(size)?;
        // A member that only lacks its padding is complete.
        if end >= bytes::len_u64(data) {
            break;
        }
        end = end.next_multiple_of(2);
    }
    Some(end)
}

fn long_name(name: &[u8], data: Slice<'_>, position: u64) -> Malformed {
    Malformed::Value {
        what: "length of a member name",
        found: bytes::len_u64(name),
        offset: data.absolute(position.min(data.len())),
        expected: "no more than 4096",
    }
}

fn broken(data: Slice<'_>, position: u64, error: &object::read::Error) -> Error {
    let offset = data.absolute(position.min(data.len()));
    let text = format!("archive broken at or after offset {offset}: {error}");
    Error::malformed(data.path(), Malformed::other(ErrorKind::Malformed, offset, text))
}

/// The path of a member's file: names are relative to the archive.
fn beside(archive: &Path, name: &[u8]) -> PathBuf {
    let path = archive.parent().unwrap_or(Path::new("")).join(OsStr::from_bytes(name));
    // A lone `-` would mean the standard input.
    if path.as_os_str() == "-" { PathBuf::from("./-") } else { path }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::input::Input;
    use crate::testing::places;

    fn header(name: &str, size: usize) -> String {
        format!("{name:<16}0           0     0     644     {size:<10}`\n")
    }

    fn member(name: &str, content: &str) -> String {
        header(name, content.len()) + content + if content.len() % 2 == 1 { "\n" } else { "" }
    }

    fn read(data: &str) -> Result<Vec<(String, String)>> {
        let input = Input::from_bytes("dir/x.a", data.as_bytes().to_vec());
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let archive = Archive::read(input.as_slice())?;
        archive
            .members()
            .map(|member| {
                let member = member?;
                let content = match member.location {
                    Location::Inside(slice) => text(slice.bytes()),
                    Location::Beside(path) => format!("@{}", path.display()),
                };
                Ok((text(member.name), content))
            })
            .collect()
    }

    fn pairs(members: &[(&str, &str)]) -> Vec<(String, String)> {
        members.iter().map(|(name, content)| (name.to_string(), content.to_string())).collect()
    }

    #[test]
    fn every_spelling_of_a_name_is_read() {
        let gnu = ["!<arch>\n", &member("/", "\0\0\0\0"), &member("//", "a long name.o/\nx y/\n")].concat();
        let gnu = gnu + &member("/0", "one") + &member("a b.o/", "two!") + &member("/15", "") + &member("/0", "again");
        let expected = [("a long name.o", "one"), ("a b.o", "two!"), ("x y", ""), ("a long name.o", "again")];
        assert_eq!(read(&gnu).unwrap(), pairs(&expected));
        let bsd =
            ["!<arch>\n", &member("#1/20", "__.SYMDEF\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"), &member("s.o", "x")].concat();
        let bsd = bsd + &member("#1/12", "long name.o\0content");
        assert_eq!(read(&bsd).unwrap(), pairs(&[("s.o", "x"), ("long name.o", "content")]));
        let coff = ["!<arch>\n", &member("/", "\0\0\0\0"), &member("/", "\0\0\0\0\0\0\0\0")].concat();
        let coff = coff + &member("//", "dir/long.obj\0") + &member("/0", "1") + &member("s.obj/", "2");
        assert_eq!(read(&coff).unwrap(), pairs(&[("dir/long.obj", "1"), ("s.obj", "2")]));
        let wide = ["!<arch>\n", &member("/SYM64/", "\0\0\0\0\0\0\0\0"), &member("a/", "1")].concat();
        assert_eq!(read(&wide).unwrap(), pairs(&[("a", "1")]));
        assert_eq!(read("!<arch>\n").unwrap(), []);
    }

    #[test]
    fn members_of_thin_archives_are_named_from_the_archive() {
        let thin = ["!<thin>\n", &member("//", "sub/a.o/\n/abs/b.o/\n"), &header("/0", 5), &header("/9", 5)].concat();
        assert_eq!(read(&thin).unwrap(), pairs(&[("sub/a.o", "@dir/sub/a.o"), ("/abs/b.o", "@/abs/b.o")]));
    }

    #[test]
    fn a_member_is_never_the_standard_input() {
        assert_eq!(beside(Path::new("x.a"), b"-"), Path::new("./-"));
        assert_eq!(beside(Path::new("x.a"), b"y"), Path::new("y"));
    }

    #[test]
    fn what_is_no_archive_has_the_message_of_the_reference() {
        for data in ["", "!<arch>", "something else"] {
            assert_eq!(read(data).unwrap_err().to_string(), "file too small to be an archive");
        }
    }

    #[test]
    fn errors_say_what_and_where() {
        let whole = ["!<arch>\n", &member("a.o/", "one"), &member("b.o/", "twenty")].concat();
        let cut = read(&whole[..whole.len() - 1]).unwrap_err().to_string();
        let text = "'dir/x.a': the archive member 'b.o' needs 6 bytes at offset 132, but the data ends at offset 137";
        assert_eq!(cut, text);
        let garbled = read(&whole.replace("6         `", "six       `")).unwrap_err().to_string();
        assert_eq!(garbled, "'dir/x.a': archive broken at or after offset 71: Invalid archive member size");
    }

    /// An AIX archive whose table lists its one member this many times.
    fn big(content: &str, times: usize) -> String {
        let header = |name: &str, size: usize| {
            let pad = if name.len() % 2 == 1 { "\0" } else { "" };
            let (zero, len) = (0, name.len());
            format!("{size:<20}{zero:<20}{zero:<20}{zero:<12}{zero:<12}{zero:<12}{zero:<12}{len:<4}{name}{pad}`\n")
        };
        let member = header("a.o", content.len()) + content + if content.len() % 2 == 1 { "\0" } else { "" };
        let offsets = format!("{:<20}", 128).repeat(times);
        let table = format!("{times:<20}{offsets}{}", "a.o\0".repeat(times));
        let (at, zero) = (128 + member.len(), 0);
        let fixed = format!("<bigaf>\n{at:<20}{zero:<20}{zero:<20}{:<20}{:<20}{zero:<20}", 128, 128);
        [fixed, member, header("", table.len()), table].concat()
    }

    #[test]
    fn members_may_not_be_larger_than_the_archive_together() {
        let content = "x".repeat(1000);
        assert_eq!(read(&big(&content, 1)).unwrap(), pairs(&[("a.o", &content)]));
        let error = read(&big(&content, 10)).unwrap_err().to_string();
        assert!(error.contains("size of a member 1000 at offset 246, expected together with the others"), "{error}");
    }

    #[test]
    fn damage_is_an_error_or_nothing_but_never_a_panic() {
        let whole = ["!<arch>\n", &member("//", "a long name.o/\n"), &member("/0", "one"), &member("#1/4", "nametwo")];
        let whole = whole.concat();
        let members = read(&whole).unwrap();
        assert_eq!(members, pairs(&[("a long name.o", "one"), ("name", "two")]));
        for end in places(whole.as_bytes()) {
            if let Ok(found) = read(&whole[..end]) {
                assert!(members.starts_with(&found), "cut at {end}: {found:?}");
            }
            for byte in ["\0", " ", "9", "/", "#"] {
                if let Ok(found) = read(&[&whole[..end], byte, &whole[end + 1..]].concat()) {
                    let size: usize = found.iter().map(|(_, content)| content.len()).sum();
                    assert!(size < whole.len(), "{byte:?} at {end}: {found:?}");
                }
            }
        }
    }
}

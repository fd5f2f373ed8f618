//! Reads an archive and its members in place. The [parent module](super) documents the formats; names are as in LLVM
//! 22.1.8.
//!
//! Rejected: data that is not an archive, headers that do not parse, members that end after the archive or are together
//! larger than it, names of more than 4096 bytes.

use std::path::{Path, PathBuf};

use object::archive::Header;
use object::read::archive::ArchiveFile;

use crate::base::bytes::{self, add};
use crate::base::display::shown;
use crate::base::error::{Error, ErrorKind, Malformed, Result, WithPath};
use crate::base::io::input::Slice;
use crate::base::io::sys;
use crate::llvm::container::limits::{Allowance, NAME_MAX};
use crate::llvm::container::magic::Magic;

/// The length of the magic, the shortest possible archive.
pub(crate) const MAGIC_LEN: u64 = 8;

/// The length of a member's header.
pub(crate) const HEADER_LEN: u64 = 60;

/// An archive in an input.
pub struct Archive<'a> {
    pub(crate) data: Slice<'a>,
    pub(crate) file: ArchiveFile<'a>,
    /// The offset of the first member after the special ones, which hold the index and the long names.
    first_member: u64,
}

/// A member of an archive.
#[derive(Clone, Debug)]
pub struct ArchiveMember<'a> {
    /// The name, which may be any bytes.
    pub name: &'a [u8],
    /// The location of the content.
    pub location: MemberLocation<'a>,
    /// The offset of the header in the archive.
    pub header: u64,
}

/// The location of a member's content.
#[derive(Clone, Debug)]
pub enum MemberLocation<'a> {
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
    /// [`ErrorKind::Malformed`] if it does not begin like one, or if its index or its long names are broken.
    pub fn read(data: impl Into<Slice<'a>>) -> Result<Self> {
        let data = data.into();
        if !Self::is_archive(data.bytes()) {
            return Err(Error::no_archive());
        }
        let file = ArchiveFile::parse(data.bytes()).map_err(|error| broken(data, MAGIC_LEN, &error.to_string()))?;
        // If the index or the names extend past the end, `object` finds no members and no error.
        let first_member = special_members_end(data.bytes()).ok_or_else(|| broken(data, MAGIC_LEN, BAD_SIZE))?;
        data.claim(0, first_member, "the index or the names of the archive").with_path(data.path())?;
        Ok(Self { data, file, first_member })
    }

    /// The members in archive order. An error ends the iteration.
    pub fn members(&self) -> impl Iterator<Item = Result<ArchiveMember<'a>>> + use<'a> {
        self.members_with_positions().map(|(_, member)| member)
    }

    /// Like [`members`](Self::members), but accepts padding after the last member, newlines and zeros, as LLVM does.
    /// Padding without any member is an error.
    pub(crate) fn members_before_padding(&self) -> impl Iterator<Item = Result<ArchiveMember<'a>>> + use<'a> {
        let data = self.data.bytes();
        let mut is_first = true;
        let mut members = self.members_with_positions();
        std::iter::from_fn(move || {
            let (position, member) = members.next()?;
            if member.is_err() && !is_first && is_padding_from(data, position) {
                return None;
            }
            is_first = false;
            Some(member)
        })
        .fuse()
    }

    /// The members, each with the end of the previous one. The header of the member is at that end, or after a newline
    /// of padding.
    fn members_with_positions(&self) -> impl Iterator<Item = (u64, Result<ArchiveMember<'a>>)> + use<'a> {
        let (data, is_thin) = (self.data, self.file.is_thin());
        let mut position = self.first_member;
        // Members may share bytes. All of them together may have as many bytes as the archive.
        let mut room = Allowance::new(data.len());
        self.file.members().map(move |member| {
            let start = position;
            let member = match member {
                Ok(member) => locate_content(data, is_thin, &member, &mut position, &mut room),
                Err(error) => Err(broken(data, start, &error.to_string())),
            };
            (start, member)
        })
    }
}

/// Whether all bytes from a position on are newlines and zeros.
fn is_padding_from(data: &[u8], position: u64) -> bool {
    match bytes::tail(data, position) {
        Some(rest) => rest.iter().all(|&byte| matches!(byte, 0 | b'\n')),
        None => false,
    }
}

/// Finds the content of a member, whose header is at or after `position`. Moves `position` to the member's end, and
/// subtracts the content from `room`, the bytes that members may have together.
fn locate_content<'a>(
    data: Slice<'a>,
    is_thin: bool,
    member: &object::read::archive::ArchiveMember<'a>,
    position: &mut u64,
    room: &mut Allowance,
) -> Result<ArchiveMember<'a>> {
    if let Some(fault) = member.header().and_then(fault_in) {
        return Err(broken(data, *position, fault));
    }
    let name = member.name();
    if name.len() > NAME_MAX {
        return Err(Error::malformed(data.path(), long_name(name, data, *position)));
    }
    // A thin archive stores only headers. The contents are in other files.
    if is_thin {
        let header = *position;
        add(position, HEADER_LEN);
        let location = MemberLocation::Beside(path_of_member(data.path(), name));
        return Ok(ArchiveMember { name, location, header });
    }
    let (offset, size) = member.file_range();
    // In BSD archives, a long name is stored between header and content.
    let name_len = member.header().and_then(|header| bsd_name_len(&header.name)).unwrap_or(0);
    let header = offset.saturating_sub(name_len.saturating_add(HEADER_LEN));
    *position = bytes::span(offset, size).end;
    let content = data.claim(offset, size, format_args!("the archive member '{}'", shown(name)));
    let content = content.with_path(data.path())?;
    // The table of a broken AIX archive could give all members the same offset.
    let expected = "together with the others no more than the archive holds";
    room.claim("size of a member", size, content.offset(), expected).with_path(data.path())?;
    Ok(ArchiveMember { name, location: MemberLocation::Inside(content), header })
}

/// Returns the fault in the header of a member that LLVM refuses, or `None` for a valid header. The crate `object` does
/// not find these faults, because it stops reading a number at a space.
fn fault_in(header: &Header) -> Option<&'static str> {
    if size_in(&header.size).is_none() {
        return Some(BAD_SIZE);
    }
    let name = header.name.split(|&byte| byte == b' ').next().unwrap_or_default();
    match name {
        b"/" | b"//" | b"/SYM64/" | b"/<ECSYMBOLS>/" | b"/<XFGHASHMAP>/" => None,
        [b'/', b'0'..=b'9', ..] | [b'#', b'1', b'/', b'0'..=b'9', ..] => None,
        [b'/', ..] => Some("Invalid archive extended name offset"),
        [b'#', b'1', b'/', ..] => Some("Invalid archive extended name length"),
        _ => None,
    }
}

const BAD_SIZE: &str = "Invalid archive member size";

/// Returns the length of a BSD name, which is stored before the content of a member, or `None` if the name is stored
/// elsewhere. `header` begins with the name field of the member's header.
pub(crate) fn bsd_name_len(header: &[u8]) -> Option<u64> {
    // The name field has 16 columns. Three of them are the prefix.
    size_in(header.strip_prefix(b"#1/")?.get(..13)?)
}

/// Parses the size in a member's header: decimal digits, then spaces.
pub(crate) fn size_in(field: &[u8]) -> Option<u64> {
    let end = field.iter().rposition(|&byte| byte != b' ')?;
    bytes::digits(field.get(..=end)?, 10)
}

/// Returns the end of the special members at the start of an archive, the index and the long names. Returns `None` if
/// the header of one is broken.
fn special_members_end(data: &[u8]) -> Option<u64> {
    // A big archive of AIX has its index elsewhere, at an offset that its first header gives.
    if data.starts_with(&object::archive::AIX_BIG_MAGIC) {
        return Some(MAGIC_LEN);
    }
    let mut end = MAGIC_LEN;
    while let Some(header) = bytes::slice(data, end, HEADER_LEN) {
        // A space pads a shorter name, and tells `/` from `/` with the offset of a long name. In BSD archives, more may
        // follow `__.SYMDEF`.
        let special: [&[u8]; 4] = [b"/ ", b"// ", b"/SYM64/ ", b"__.SYMDEF"];
        if !special.iter().any(|name| header.starts_with(name)) {
            break;
        }
        // The size has ten columns, before the two bytes that end the header.
        let size = size_in(header.get(48..58)?)?;
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
    let offset = data.absolute(position.min(data.len()));
    Malformed::value("length of a member name", bytes::len_u64(name), offset, "no more than 4096")
}

fn broken(data: Slice<'_>, position: u64, error: &str) -> Error {
    let offset = data.absolute(position.min(data.len()));
    let text = format!("archive broken at or after offset {offset}: {error}");
    Error::malformed(data.path(), Malformed::other(ErrorKind::Malformed, offset, text))
}

/// The path of the file that holds a member of a thin archive. Names are relative to the directory of the archive.
fn path_of_member(archive: &Path, name: &[u8]) -> PathBuf {
    let path = archive.parent().unwrap_or(Path::new("")).join(&*sys::os_str(name));
    // An input with the path `-` is the standard input.
    if path.as_os_str() == "-" { PathBuf::from("./-") } else { path }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::io::input::Input;
    use crate::base::testing::places;

    fn header(name: &str, size: usize) -> String {
        format!("{name:<16}0           0     0     644     {size:<10}`\n")
    }

    fn member(name: &str, content: &str) -> String {
        header(name, content.len()) + content + if content.len() % 2 == 1 { "\n" } else { "" }
    }

    fn read(data: &str) -> Result<Vec<(String, String)>> {
        let input = Input::from_bytes("dir/x.a", data.as_bytes().to_vec());
        let mut members = Vec::new();
        for member in Archive::read(input.as_slice())?.members() {
            let member = member?;
            let content = match member.location {
                MemberLocation::Inside(slice) => bytes::text_lossy(slice.bytes()),
                MemberLocation::Beside(path) => format!("@{}", path.display()),
            };
            members.push((bytes::text_lossy(member.name), content));
        }
        Ok(members)
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
    fn names_have_a_limit() {
        for (len, is_right) in [(NAME_MAX, true), (NAME_MAX + 1, false), (2 * NAME_MAX, false)] {
            let archive = ["!<arch>\n", &member(&format!("#1/{len}"), &"n".repeat(len))].concat();
            assert_eq!(read(&archive).is_ok(), is_right, "{len}");
        }
    }

    #[test]
    fn members_of_thin_archives_are_named_from_the_archive() {
        let thin = ["!<thin>\n", &member("//", "sub/a.o/\n/abs/b.o/\n"), &header("/0", 5), &header("/9", 5)].concat();
        let beside = format!("@{}", Path::new("dir").join("sub/a.o").display());
        assert_eq!(read(&thin).unwrap(), pairs(&[("sub/a.o", &beside), ("/abs/b.o", "@/abs/b.o")]));
    }

    #[test]
    fn a_member_is_never_the_standard_input() {
        assert_eq!(path_of_member(Path::new("x.a"), b"-"), Path::new("./-"));
        assert_eq!(path_of_member(Path::new("x.a"), b"y"), Path::new("y"));
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

    #[test]
    fn a_size_is_decimal_digits_and_spaces_after_them() {
        for name in ["a.o/", "/", "//", "/SYM64/"] {
            for size in ["4", "0000000004"] {
                assert!(read(&archive_of_two(name, size)).is_ok(), "{name} {size}");
            }
            for size in ["", " 4", "4      A", "4 9", "4\0", "+4", "-4", "4\t", "0x4", "4\u{7f}"] {
                let error = read(&archive_of_two(name, size)).unwrap_err().to_string();
                assert!(error.ends_with("Invalid archive member size"), "{name} {size:?}: {error}");
            }
        }
        for name in ["/x", "#1/", "#1/x", "/0/", "/9\0"] {
            let error = read(&archive_of_two(name, "4")).unwrap_err().to_string();
            assert!(error.contains("Invalid archive extended name"), "{name}: {error}");
        }
    }

    /// An archive whose first member has this name and this size field.
    fn archive_of_two(name: &str, size: &str) -> String {
        let header = header(name, 4).replace("4         `", &format!("{size:<10}`"));
        ["!<arch>\n", &header, "a/\n\n", &member("b.o/", "twenty")].concat()
    }

    /// The number of members before padding, whether they are read, and whether they are read without padding too.
    fn members_before_padding(archive: &str) -> (usize, bool, bool) {
        let archive = Archive::read(archive.as_bytes()).unwrap();
        let read: Vec<_> = archive.members_before_padding().collect();
        (read.len(), read.iter().all(Result::is_ok), archive.members().all(|member| member.is_ok()))
    }

    #[test]
    fn padding_after_the_last_member_is_newlines_and_zeros() {
        let names = member("//", "a long name.o/\n");
        for members in [member("a/", "even"), member("a/", "odd"), [names, member("/0", "one")].concat()] {
            let whole = ["!<arch>\n", &members].concat();
            assert_eq!(members_before_padding(&whole), (1, true, true));
            for padding in ["\n", "\0\0\0\0\0\0\0\0", "\n\n", &"\0".repeat(60), &"\n".repeat(200)] {
                assert_eq!(members_before_padding(&[&whole, padding].concat()), (1, true, false), "{padding:?}");
            }
            for lost in ["b/", " ", "\n\nb/", &"\0".repeat(59).replacen('\0', "b", 1)] {
                assert_eq!(members_before_padding(&[&whole, lost].concat()), (2, false, false), "{lost:?}");
            }
        }
        assert!(read("!<arch>\n\n").is_err());
    }

    fn big_header(name: &str, size: usize) -> String {
        let pad = if name.len() % 2 == 1 { "\0" } else { "" };
        let (zero, len) = (0, name.len());
        format!("{size:<20}{zero:<20}{zero:<20}{zero:<12}{zero:<12}{zero:<12}{zero:<12}{len:<4}{name}{pad}`\n")
    }

    /// An AIX archive whose table lists its one member this many times.
    fn big(content: &str, times: usize) -> String {
        let member = big_header("a.o", content.len()) + content + if content.len() % 2 == 1 { "\0" } else { "" };
        let offsets = format!("{:<20}", 128).repeat(times);
        let table = format!("{times:<20}{offsets}{}", "a.o\0".repeat(times));
        let (at, zero) = (128 + member.len(), 0);
        let fixed = format!("<bigaf>\n{at:<20}{zero:<20}{zero:<20}{:<20}{:<20}{zero:<20}", 128, 128);
        [fixed, member, big_header("", table.len()), table].concat()
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

    #[test]
    fn the_index_and_the_names_end_at_an_even_offset() {
        let (index, names, other) = (member("/", "1234"), member("//", "123"), member("a/", "x"));
        for (members, end) in [
            (vec![&*other], Some(8)),
            (vec![&*index], Some(72)),
            (vec![&*index, &*names], Some(136)),
            (vec![&*index, &*names, &*other], Some(136)),
            (vec![&*index, names.trim_end()], Some(135)),
            (vec![&*names.replace('3', "x")], None),
        ] {
            let archive = ["!<arch>\n", &members.concat()].concat();
            assert_eq!(special_members_end(archive.as_bytes()), end, "{archive}");
        }
    }
}

//! Writing an archive, byte for byte as LLVM 22.1.8's `writeArchive` does for `K_GNU`, deterministic, with an index.
//! Layout as in the [module above](super).
//!
//! The `ar_archive_writer` crate computes headers and offsets and switches to the 64-bit index when a member lies
//! behind 4 GiB. Where it differs from LLVM 22.1.8 the difference is made up here: LLVM writes no index when no
//! member is an object, and names may be any bytes.
//!
//! Rejected: an object whose symbols cannot be read, a member of 10^10 bytes or more.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet, VecDeque};
use std::ffi::OsStr;
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;

use ar_archive_writer::{ArchiveKind, DEFAULT_OBJECT_READER, NewArchiveMember, ObjectReader, write_archive_to_stream};

use super::symbols::{self, Symbols};
use crate::bytes::{self, slice};
use crate::error::{Error, Malformed, Result, WithPath};
use crate::io::input::Slice;
use crate::io::output::Output;
use crate::io::piece::Sink;

/// How the archive writer asks about members.
static READER: ObjectReader = ObjectReader { get_symbols: known_symbols, ..DEFAULT_OBJECT_READER };

thread_local! {
    /// The symbols of the members of the archive that this thread writes, by where their content is: the archive writer
    /// takes no more than a function, and reading them again would bring all members into memory at once.
    static KNOWN: RefCell<HashMap<Place, Known>> = RefCell::default();
}

/// Where in memory a content is.
type Place = (usize, usize);

fn place(content: &[u8]) -> Place {
    (content.as_ptr().addr(), content.len())
}

/// The symbols of a content.
#[derive(Default)]
struct Known {
    /// Their names, one behind the other: there may be millions of them.
    names: Vec<u8>,
    /// The length of each name in bytes.
    lens: Vec<u32>,
    /// How many members have this content, and have not been asked about.
    members: usize,
}

impl Known {
    /// Those of one member.
    fn of(names: &[Vec<u8>]) -> Self {
        // A name of 4 GiB is in no index.
        let lens = names.iter().map(|name| u32::try_from(name.len()).unwrap_or(u32::MAX)).collect();
        Self { names: names.concat(), lens, members: 1 }
    }

    fn each(&self, take: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        let mut start = 0_u64;
        self.lens.iter().try_for_each(|&len| {
            let name = slice(&self.names, start, len.into()).unwrap_or_default();
            start = start.saturating_add(len.into());
            take(name)
        })
    }
}

/// The symbols of a member, if it is an object. They are let go, since the archive writer has copies of them then.
fn known_symbols(content: &[u8], take: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<bool> {
    let known = KNOWN.with_borrow_mut(|known| {
        let mut symbols = known.remove(&place(content))?;
        symbols.members = symbols.members.saturating_sub(1);
        Some(symbols)
    });
    let Some(known) = known else { return Ok(false) };
    known.each(take)?;
    if known.members > 0 {
        KNOWN.with_borrow_mut(|all| drop(all.insert(place(content), known)));
    }
    Ok(true)
}

/// Where the writer puts an index without symbols: its header, a count, and padding.
const EMPTY_INDEX: std::ops::Range<u64> = 8..76;

/// A member to be written.
#[derive(Clone, Debug)]
pub(crate) struct NewMember<'a> {
    /// The name, which may be any bytes.
    pub(crate) name: Vec<u8>,
    /// The content, which stays where it is until it is copied.
    pub(crate) content: Slice<'a>,
}

/// Writes an archive. `unreadable` is told of bitcode whose symbols are not in the index, by name and reason.
pub(crate) fn write(
    members: &[NewMember<'_>],
    output: &mut Output,
    unreadable: &mut dyn FnMut(&str, &str),
) -> Result<()> {
    let mut all_known: HashMap<Place, Known> = HashMap::new();
    for member in members {
        let place = place(member.content.bytes());
        if let Some(known) = all_known.get_mut(&place) {
            known.members = known.members.saturating_add(1);
            continue;
        }
        match symbols::of(member.content.bytes()) {
            Ok(Symbols::Names(names)) => drop(all_known.insert(place, Known::of(&names))),
            Ok(Symbols::Unreadable(reason)) => unreadable(&bytes::text_lossy(&member.name), reason),
            Ok(Symbols::None) => {}
            Err(reason) => {
                let name = OsStr::from_bytes(&member.name);
                return Err(Error::malformed(name, Malformed::Symbols { reason }));
            }
        }
        member.content.looked_through();
    }
    let has_object = !all_known.is_empty();
    KNOWN.set(all_known);
    let names = Names::of(members);
    let new_members: Vec<_> = members
        .iter()
        .zip(names.used)
        .map(|(member, name)| NewArchiveMember::new(member.content.bytes(), &READER, name))
        .collect();
    let path = output.path().to_owned();
    let skip = if has_object || members.is_empty() { 0..0 } else { EMPTY_INDEX };
    let contents = members.iter().map(|member| member.content).filter(|content| !content.is_empty()).collect();
    let mut stream =
        Stream { output, position: 0, skip, replace: names.table, fields: names.fields, contents, failure: None };
    let written = write_archive_to_stream(&mut stream, &new_members, ArchiveKind::Gnu, false, None);
    KNOWN.take();
    match stream.failure {
        Some(error) => Err(error),
        None => written.with_path(&path),
    }
}

/// The length of the name in a member's header.
const NAME_FIELD: usize = 16;

/// What stand-ins begin with. A name that is text does not.
const STAND_IN: char = '\x01';

/// The names as the archive writer takes them, which wants text.
#[derive(Debug)]
struct Names {
    /// In the order of the members.
    used: Vec<String>,
    /// If one of them is a stand-in: the names member that the archive writer will write, and the right one.
    table: Option<(Vec<u8>, Vec<u8>)>,
    /// The name fields of headers in which stand-ins will be written, and the right ones.
    fields: HashMap<Vec<u8>, Vec<u8>>,
}

impl Names {
    fn of(members: &[NewMember<'_>]) -> Self {
        let mut stand_ins: HashMap<&[u8], String> = HashMap::new();
        let mut seen = HashSet::new();
        let (mut written, mut right) = (Vec::new(), Vec::new());
        let mut fields = HashMap::new();
        let mut used = Vec::with_capacity(members.len());
        for member in members {
            let name = match bytes::text(&member.name) {
                Some(name) => name,
                None => {
                    // Like no other, and as long as the name if it stands among other long ones.
                    let (number, len) = (stand_ins.len(), member.name.len());
                    let new = || format!("{STAND_IN}{number:\x01>width$}", width = len.saturating_sub(1));
                    let name = stand_ins.entry(&member.name).or_insert_with(new).clone();
                    if !is_long(&member.name) {
                        fields.insert(name_field(name.as_bytes()), name_field(&member.name));
                    }
                    name
                }
            };
            if is_long(&member.name) && seen.insert(member.name.as_slice()) {
                written.extend([name.as_bytes(), b"/\n"].concat());
                right.extend([&member.name, &b"/\n"[..]].concat());
            }
            used.push(name);
        }
        Self { used, table: (!stand_ins.is_empty()).then_some((written, right)), fields }
    }
}

/// A name as it stands in a header.
fn name_field(name: &[u8]) -> Vec<u8> {
    let mut field = [name, b"/"].concat();
    field.resize(NAME_FIELD, b' ');
    field
}

/// Whether a name stands in the names member rather than in its header.
fn is_long(name: &[u8]) -> bool {
    name.len() >= 16 || name.contains(&b'/')
}

/// An output, in which some things differ from what is written to it.
struct Stream<'o, 'm> {
    output: &'o mut Output,
    /// How much was written, including what was left out.
    position: u64,
    /// What is left out.
    skip: std::ops::Range<u64>,
    /// What to write, once, in place of other bytes of the same length.
    replace: Option<(Vec<u8>, Vec<u8>)>,
    /// Name fields to write in place of others.
    fields: HashMap<Vec<u8>, Vec<u8>>,
    /// What the archive writer will hand on as it is, so that it can be copied from file to file.
    contents: VecDeque<Slice<'m>>,
    /// The error behind the last failed `write`, which could only return an [`io::Error`].
    failure: Option<Error>,
}

impl Stream<'_, '_> {
    /// Writes the data or the first part of it. Returns how much.
    fn put(&mut self, data: &[u8]) -> Result<usize> {
        let next = self.contents.front().copied();
        if let Some(content) = next.filter(|content| std::ptr::eq(content.bytes(), data)) {
            self.contents.pop_front();
            self.output.copy(content)?;
            content.looked_through();
            return Ok(data.len());
        }
        if let Some((_, right)) = self.replace.take_if(|(written, _)| written == data) {
            self.output.write(&right)?;
            return Ok(data.len());
        }
        if let Some((name, rest)) = data.split_at_checked(NAME_FIELD)
            && let Some(right) = self.fields.get(name)
        {
            self.output.write(&[right, rest].concat())?;
            return Ok(data.len());
        }
        let border = [self.skip.start, self.skip.end].into_iter().find(|&border| self.position < border);
        let part = border.and_then(|border| slice(data, 0, border.saturating_sub(self.position))).unwrap_or(data);
        if !self.skip.contains(&self.position) {
            self.output.write(part)?;
        }
        Ok(part.len())
    }
}

impl Write for Stream<'_, '_> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let written = self.put(data).map_err(|error| {
            let text = error.to_string();
            self.failure = Some(error);
            io::Error::other(text)
        })?;
        self.position = self.position.saturating_add(u64::try_from(written).unwrap_or(u64::MAX));
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The writer asks for its position only.
impl Seek for Stream<'_, '_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match to {
            SeekFrom::Current(0) => Ok(self.position),
            _ => Err(io::Error::from(io::ErrorKind::Unsupported)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::input::Input;

    fn archive(members: &[(&[u8], &[u8])]) -> Vec<u8> {
        let inputs: Vec<_> =
            members.iter().map(|&(name, content)| (name.to_vec(), Input::from_bytes("x", content.to_vec()))).collect();
        let members: Vec<_> =
            inputs.iter().map(|(name, input)| NewMember { name: name.clone(), content: input.as_slice() }).collect();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.a");
        let mut output = Output::stage(&path).unwrap();
        write(&members, &mut output, &mut |_, _| {}).unwrap();
        crate::io::output::commit(vec![output]).unwrap();
        std::fs::read(path).unwrap()
    }

    fn header(name: &str, size: u32) -> String {
        format!("{name:<16}0           0     0     644     {size:<10}`\n")
    }

    fn names_header(size: u32) -> String {
        format!("{:<48}{size:<10}`\n", "//")
    }

    #[test]
    fn an_archive_without_objects_has_no_index() {
        assert_eq!(archive(&[]), b"!<arch>\n");
        let expected = ["!<arch>\n", &header("a/", 3), "one\n", &header("b/", 4), "two!"].concat();
        assert_eq!(archive(&[(b"a", b"one"), (b"b", b"two!")]), expected.as_bytes());
    }

    #[test]
    fn an_object_without_symbols_has_an_empty_index() {
        let index = "/               0           0     0     0       8         `\n\0\0\0\0\0\0\0\0";
        let module = b"\0asm\x01\0\0\0";
        let expected = ["!<arch>\n", index, &header("a/", 8), "\0asm\x01\0\0\0"].concat();
        assert_eq!(archive(&[(b"a", module)]), expected.as_bytes());
    }

    #[test]
    fn a_long_name_stands_once_in_the_names_member() {
        let long = b"a name of more than 16 bytes";
        let expected = [
            "!<arch>\n",
            &names_header(30),
            "a name of more than 16 bytes/\n",
            &header("/0", 1),
            "1\n",
            &header("/0", 2),
            "22",
        ];
        assert_eq!(archive(&[(long, b"1"), (long, b"22")]), expected.concat().as_bytes());
    }

    #[test]
    fn names_may_be_any_bytes() {
        let (a, b) = (b"\xe9 name of 18 bytes", b"\xe8 name of 18 bytes");
        let written = archive(&[(a, b"1"), (b, b"2"), (a, b"3")]);
        let mut expected = ["!<arch>\n", &names_header(40)].concat().into_bytes();
        expected.extend([&a[..], b"/\n", b, b"/\n"].concat());
        for (name, content) in [("/0", "1\n"), ("/20", "2\n"), ("/0", "3\n")] {
            expected.extend(header(name, 1).into_bytes());
            expected.extend(content.as_bytes());
        }
        assert_eq!(written, expected);
        let written = archive(&[(b"\xff", b"one!"), (b"text", b"two!"), (b"\xfe.o", b"3333"), (b"\xff", b"four")]);
        let mut expected = b"!<arch>\n".to_vec();
        for (name, content) in
            [(&b"\xff/  "[..], "one!"), (b"text/", "two!"), (b"\xfe.o/", "3333"), (b"\xff/  ", "four")]
        {
            expected.extend(name);
            expected.extend(&header("", 4).as_bytes()[name.len()..]);
            expected.extend(content.as_bytes());
        }
        assert_eq!(written, expected);
    }
}

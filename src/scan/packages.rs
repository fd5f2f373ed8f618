//! Searches packages: files that are compressed as a whole, and the archives that are usually in them: tar, cpio (also in
//! RPM packages), and zip files in any of these.
//!
//! They are read once, from start to end. A member that may hold device code is inflated to a temporary file, unless it is
//! small; others are read over. So the memory and the space that are needed are those of the largest member.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use std::cell::Cell;
use std::ffi::OsStr;
use std::io::{self, BufReader, Cursor, Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::place::{Place, Step};
use super::walk::Walk;
use super::{Finding, Unread};
use crate::bytes::to_u64;
use crate::container::coding::Coding;
use crate::container::magic::Magic;
use crate::container::{cpio, rpm};
use crate::error::{Error, ErrorKind, Malformed, Result};
use crate::io::input::{Input, Slice};

/// The number of bytes that identify what is read.
pub(crate) const HEAD: u64 = 4096;

/// The maximum length of all headers of one member, in bytes: its name, its attributes, and where its holes are.
const HEADERS_MAX: u64 = 1 << 20;

/// The buffer of a decoder, in bytes.
const BUFFER: usize = 64 << 10;

/// A member whose holes are recorded in the way of pax, which no other tool than tar itself reads.
const SPARSE: Unread = Unread::anything("sparse file in a tar archive");

/// An RPM package that is compressed in another way.
const PAYLOAD: Unread = Unread::anything("RPM package of unknown compression");

/// A member in an error.
const MEMBER: &str = "member";

/// The error for headers, or trailing data, beyond the limit.
const TOO_LONG: &str = "too much data between two members";

/// Data that is read once.
pub(super) struct Stream<'r> {
    /// The bytes of a file that it is decoded from, for errors.
    pub(super) source: Slice<'r>,
    pub(super) reader: &'r mut dyn Read,
    /// The size in bytes, if it is recorded.
    pub(super) size: Option<u64>,
}

/// A member of an archive that is read once.
struct Member<'a> {
    name: &'a [u8],
    /// The size in bytes.
    size: u64,
    is_file: bool,
}

impl Member<'_> {
    /// The step to it. Most archives of file trees name their members `./usr/...`.
    fn step(&self) -> Step {
        Step::Member(self.name.strip_prefix(b"./").unwrap_or(self.name).to_vec())
    }
}

/// The number of bytes that may be read next. It is kept where both the walk and the archive's reader can see it.
#[derive(Default)]
struct Room {
    left: Cell<u64>,
    used: Cell<u64>,
    has_failed: Cell<bool>,
}

impl Room {
    fn give(&self, most: u64) {
        self.left.set(most);
        self.used.set(0);
    }

    /// The number of bytes that were read since room was given.
    fn used(&self) -> u64 {
        self.used.get()
    }
}

/// A reader with a limit, which notes whether it has failed.
struct Bounded<'m, R> {
    reader: R,
    room: &'m Room,
}

impl<R: Read> Read for Bounded<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.room.left.get();
        let len = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        let read = match len {
            0 if !buffer.is_empty() => Err(io::Error::new(io::ErrorKind::InvalidData, TOO_LONG)),
            _ => self.reader.read(buffer.get_mut(..len).unwrap_or_default()),
        };
        let count = to_u64(*read.as_ref().unwrap_or(&0));
        self.room.left.set(left.saturating_sub(count));
        self.room.used.set(self.room.used().saturating_add(count));
        self.room.has_failed.set(read.is_err());
        read
    }
}

impl<R: Seek> Seek for Bounded<'_, R> {
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        self.reader.seek(position)
    }
}

/// A reader whose errors say what is broken.
pub(super) struct Explained<R, E> {
    pub(super) reader: R,
    pub(super) explain: E,
}

impl<R: Read, E: Fn(io::Error) -> Error> Read for Explained<R, E> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.reader.read(buffer).map_err(|error| match error.kind() {
            io::ErrorKind::Interrupted => error,
            _ => io::Error::other((self.explain)(error)),
        })
    }
}

/// The error of a reader. Those of the operating system, and those that are explained already, stay as they are.
fn error_in(source: Slice<'_>, what: &str, error: io::Error) -> Error {
    match Error::io(source.path(), error) {
        Error::Io { source: error, .. } if error.raw_os_error().is_none() => {
            let reason = match error.kind() {
                io::ErrorKind::UnexpectedEof => "it ends early".to_owned(),
                _ => error.to_string(),
            };
            let text = format!("{what} broken: {reason}");
            Error::malformed(source.path(), Malformed::other(ErrorKind::Malformed, source.offset(), text))
        }
        error => error,
    }
}

/// The first bytes that a reader gives.
fn head(reader: &mut (impl Read + ?Sized), len: u64) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    reader.take(len).read_to_end(&mut head)?;
    Ok(head)
}

/// The name of what is inflated from a file or member: without its extension, as the tools do that compressed it.
fn name_of_inflated(place: &Place) -> Vec<u8> {
    let name = place.innermost_member().map_or(place.file().as_os_str(), OsStr::from_bytes);
    Path::new(name).file_stem().unwrap_or(name).as_bytes().to_vec()
}

/// Whether the holes of a member are recorded in the way of pax.
fn is_sparse_in_pax<R: Read>(entry: &mut tar::Entry<'_, R>) -> bool {
    let extensions = entry.pax_extensions().ok().flatten();
    extensions.is_some_and(|mut extensions| {
        extensions.any(|extension| extension.is_ok_and(|extension| extension.key_bytes().starts_with(b"GNU.sparse.")))
    })
}

impl Walk<'_, '_, '_> {
    /// Searches data that is read once. It is not read to its end, unless something in it needs that.
    pub(super) fn stream(&mut self, place: &Place, stream: Stream<'_>, depth: u32) -> Result<()> {
        let mut head = Vec::new();
        let read = (&mut *stream.reader).take(HEAD).read_to_end(&mut head);
        match read {
            // A short member may be damaged after its first bytes, but these say that it holds no device code.
            Err(error) if head.is_empty() || Magic::identify(&head).may_hold_code() => {
                self.broken(place, stream.source, error_in(stream.source, MEMBER, error))
            }
            _ => self.stream_after(&head, place, stream, depth),
        }
    }

    /// Searches data of which the first bytes are read already.
    fn stream_after(&mut self, head: &[u8], place: &Place, stream: Stream<'_>, depth: u32) -> Result<()> {
        let magic = Magic::identify(head);
        let stream = Stream { reader: &mut head.chain(stream.reader), ..stream };
        match magic {
            _ if magic.is_package() => match self.deeper(place, stream.source, 1, depth)? {
                Some(depth) => self.package(magic, place, stream, depth),
                None => Ok(()),
            },
            _ if self.scan.deep => self.kept(place, stream, depth),
            _ if !magic.may_hold_code() => Ok(()),
            _ => match magic.unread() {
                Some(what) => self.tell(1, stream.source, Finding::Unread { place, offset: 0, what }),
                None => self.kept(place, stream, depth),
            },
        }
    }

    /// Searches a format that is read from start to end.
    pub(super) fn package(&mut self, magic: Magic, place: &Place, stream: Stream<'_>, depth: u32) -> Result<()> {
        match magic {
            Magic::Tar => self.tar(place, stream, depth),
            Magic::Cpio => self.cpio(place, stream, depth),
            Magic::Rpm => self.rpm(place, stream, depth),
            Magic::Coded(coding) => self.coded(coding, place, stream, depth),
            _ => Err(Error::Internal("not a package")),
        }
    }

    /// Keeps all of the data to search it.
    fn kept(&mut self, place: &Place, stream: Stream<'_>, depth: u32) -> Result<()> {
        let Stream { source, reader, size } = stream;
        let limits = self.budget.limits_at(place);
        let most = size.map_or(limits.inflated, |size| size.min(limits.inflated));
        let exceeded = |size| {
            let claim = limits.exceeded("the member", source.offset(), size);
            Error::malformed(source.path(), claim)
        };
        if let Some(size) = size.filter(|&size| size > self.scan.limits.inflated) {
            return self.broken(place, source, exceeded(size));
        }
        if !self.spend(place, source, |budget| budget.take(size.unwrap_or(0)))? {
            return Ok(());
        }
        let input = match Input::spool(source.path(), reader.take(most.saturating_add(1))) {
            Ok(input) => input,
            Err(error) => return self.broken(place, source, error_in(source, MEMBER, error)),
        };
        let len = input.len();
        match size {
            // The archive ends in this member, which its reader reports.
            Some(size) if len != size => Ok(()),
            None if len > most => self.broken(place, source, exceeded(len)),
            None if !self.spend(place, source, |budget| budget.take(len))? => Ok(()),
            _ => self.look(place, input.as_slice(), depth),
        }
    }

    /// Searches a file that is compressed as a whole: an archive, or a member without a name of its own.
    fn coded(&mut self, coding: Coding, place: &Place, stream: Stream<'_>, depth: u32) -> Result<()> {
        let Stream { source, reader, .. } = stream;
        let what = coding.file_name();
        let inflated = coding.inflate(BufReader::with_capacity(BUFFER, reader));
        let inflated = inflated.and_then(|inflated| {
            let mut inflated = Explained { reader: inflated, explain: |error| error_in(source, what, error) };
            Ok((head(&mut inflated, HEAD)?, inflated))
        });
        let (head, mut inflated) = match inflated {
            Ok(inflated) => inflated,
            Err(error) => return self.broken(place, source, error_in(source, what, error)),
        };
        let stream = Stream { source, reader: &mut inflated, size: None };
        let place = match Magic::identify(&head) {
            Magic::Tar | Magic::Cpio => place.clone(),
            _ => place.join(Step::Member(name_of_inflated(place))),
        };
        self.stream_after(&head, &place.inflated(), stream, depth)
    }

    fn rpm(&mut self, place: &Place, stream: Stream<'_>, depth: u32) -> Result<()> {
        let Stream { source, reader, .. } = stream;
        let begins = rpm::skip_headers(reader).and_then(|()| head(reader, HEAD));
        match begins {
            Err(error) => self.broken(place, source, error_in(source, "RPM package", error)),
            Ok(head) => match Magic::identify(&head) {
                Magic::Cpio | Magic::Coded(_) => {
                    let stream = Stream { source, reader, size: None };
                    self.stream_after(&head, &place.clone().inflated(), stream, depth)
                }
                _ => self.tell(1, source, Finding::Unread { place, offset: source.offset(), what: PAYLOAD }),
            },
        }
    }

    fn cpio(&mut self, place: &Place, stream: Stream<'_>, depth: u32) -> Result<()> {
        let Stream { source, reader, .. } = stream;
        let room = Room::default();
        let mut reader = Bounded { reader, room: &room };
        loop {
            room.give(HEADERS_MAX);
            let header = match cpio::Header::read(&mut reader) {
                Ok(Some(header)) => header,
                Ok(None) => return self.drain(place, source, &mut reader),
                Err(error) => return self.broken(place, source, error_in(source, "cpio archive", error)),
            };
            let member = Member { name: &header.name, size: header.size, is_file: header.is_file };
            room.give(header.size.saturating_add(header.padding));
            let content = &mut (&mut reader).take(header.size);
            if !self.member(place, source, member, content, &room, depth)? {
                return Ok(());
            }
            if let Err(error) = cpio::skip(&mut reader, header.padding) {
                return self.broken(place, source, error_in(source, "cpio archive", error));
            }
        }
    }

    fn tar(&mut self, place: &Place, stream: Stream<'_>, depth: u32) -> Result<()> {
        let Stream { source, reader, .. } = stream;
        let room = Room::default();
        let mut archive = tar::Archive::new(Bounded { reader, room: &room });
        let entries = archive.entries();
        match self.tar_members(place, source, entries, &room, None, depth)? {
            true => self.drain(place, source, &mut archive.into_inner()),
            false => Ok(()),
        }
    }

    /// Searches a tar archive whose members lie in the file.
    pub(super) fn tar_in_file(&mut self, place: &Place, data: Slice<'_>, depth: u32) -> Result<()> {
        let room = Room::default();
        let mut archive = tar::Archive::new(Bounded { reader: Cursor::new(data.bytes()), room: &room });
        let entries = archive.entries_with_seek();
        self.tar_members(place, data, entries, &room, Some(data), depth).map(|_| ())
    }

    /// Searches the members of a tar archive, which lie in `whole` if that is known. Returns whether the end was read.
    fn tar_members<R: Read>(
        &mut self,
        place: &Place,
        source: Slice<'_>,
        entries: io::Result<tar::Entries<'_, R>>,
        room: &Room,
        whole: Option<Slice<'_>>,
        depth: u32,
    ) -> Result<bool> {
        let told =
            |walk: &mut Self, error| walk.broken(place, source, error_in(source, "tar archive", error)).map(|()| false);
        let mut entries = match entries {
            Ok(entries) => entries,
            Err(error) => return told(self, error),
        };
        loop {
            room.give(HEADERS_MAX);
            let mut entry = match entries.next() {
                Some(Ok(entry)) => entry,
                Some(Err(error)) => return told(self, error),
                None => return Ok(true),
            };
            let header = entry.header().entry_type();
            let is_file = header.is_file() || header.is_contiguous() || header.is_gnu_sparse();
            let name = entry.path_bytes().into_owned();
            let member = Member { name: &name, size: entry.size(), is_file };
            if is_sparse_in_pax(&mut entry) {
                let place = place.join(member.step());
                self.tell(1, source, Finding::Unread { place: &place, offset: 0, what: SPARSE })?;
            }
            let in_place = whole.filter(|_| !header.is_gnu_sparse());
            if let Some(whole) = in_place {
                let Some(content) = whole.slice(entry.raw_file_position(), member.size) else {
                    return told(self, io::ErrorKind::UnexpectedEof.into());
                };
                if !self.spend(place, source, |budget| budget.take(room.used()))? {
                    return Ok(false);
                }
                if is_file {
                    self.look(&place.join(member.step()), content, depth)?;
                }
                let padded = member.size.checked_next_multiple_of(512).unwrap_or(u64::MAX);
                if whole.slice(entry.raw_file_position(), padded).is_none() {
                    return told(self, io::ErrorKind::UnexpectedEof.into());
                }
                whole.looked_at();
                continue;
            }
            room.give(member.size);
            if !self.member(place, source, member, &mut entry, room, depth)? {
                return Ok(false);
            }
        }
    }

    /// Searches a member of an archive and reads to its end. Returns whether the next one can be read.
    fn member(
        &mut self,
        place: &Place,
        source: Slice<'_>,
        member: Member<'_>,
        content: &mut dyn Read,
        room: &Room,
        depth: u32,
    ) -> Result<bool> {
        let header = to_u64(member.name.len()).saturating_add(HEAD.min(member.size));
        if !self.spend(place, source, |budget| budget.take(header))? {
            return Ok(false);
        }
        let place = place.join(member.step()).inflated();
        if member.is_file {
            let stream = Stream { source, reader: content, size: Some(member.size) };
            self.stream(&place, stream, depth)?;
        }
        // What fails in the stream was reported there.
        let rest = member.size.saturating_sub(room.used());
        if room.has_failed.get() || !self.spend(&place, source, |budget| budget.take(rest))? {
            return Ok(false);
        }
        match io::copy(content, &mut io::sink()) {
            Ok(_) => Ok(true),
            Err(error) => self.broken(&place, source, error_in(source, MEMBER, error)).map(|()| false),
        }
    }

    /// Reads what follows the last member, so that the reader compares sizes and checksums.
    fn drain(&mut self, place: &Place, source: Slice<'_>, reader: &mut Bounded<'_, impl Read>) -> Result<()> {
        reader.room.give(self.budget.left());
        match io::copy(reader, &mut io::sink()) {
            Ok(len) => self.spend(place, source, |budget| budget.take(len)).map(|_| ()),
            Err(error) => self.broken(place, source, error_in(source, MEMBER, error)),
        }
    }
}

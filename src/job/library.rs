//! A library of bundles: an archive, and the bundles in each of its members.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::{Event, FileType, Observer, observe_plain};
use crate::container::Container;
use crate::container::archive::{self, Archive, ArchiveMember, Location, NewMember};
use crate::container::limits::{Limits, shown};
use crate::container::sequence::{Bundle, Bundles, Inflate};
use crate::error::{Error, Result};
use crate::input::{Input, Slice, vouch_for};
use crate::output::Output;

/// An archive whose members are open.
pub(super) struct Library {
    archive: Input,
    /// The members of a thin archive, in its order.
    beside: Vec<Input>,
    container: Box<dyn Container>,
    limits: Limits,
}

/// A member of a library.
pub(super) struct Member<'a> {
    /// The name in the archive, which may be any bytes.
    pub(super) name: &'a [u8],
    content: Slice<'a>,
    library: &'a Library,
}

impl Library {
    /// Opens the members of an archive: the files beside it if it is a thin one.
    pub(super) fn open(archive: Input, limits: Limits) -> Result<Self> {
        let beside = archive.vouch_for(open_all_beside(&archive))?;
        Ok(Self { archive, beside, container: FileType::Archive.container(), limits })
    }

    /// What was made of the library, or that it cannot be trusted since one of its files has changed.
    pub(super) fn vouch_for<T>(&self, made: Result<T>) -> Result<T> {
        vouch_for([&self.archive].into_iter().chain(&self.beside), made)
    }

    /// The members in the order of the archive.
    pub(super) fn members(&self) -> Result<Vec<Member<'_>>> {
        let mut beside = self.beside.iter();
        Archive::read(self.archive.as_slice())?
            .members()
            .map(|member| {
                let ArchiveMember { name, location } = member?;
                let content = match location {
                    Location::Inside(slice) => slice,
                    Location::Beside(_) => beside.next().ok_or(Error::NoArchive)?.as_slice(),
                };
                Ok(Member { name, content, library: self })
            })
            .collect()
    }
}

impl<'a> Member<'a> {
    /// The name as it may stand in a message.
    pub(super) fn shown_name(&self) -> String {
        String::from_utf8_lossy(self.name).into_owned()
    }

    /// Its size in bytes.
    pub(super) fn size(&self) -> u64 {
        self.content.len()
    }

    /// The bundles in the member; none if it is a plain file.
    /// `each` takes them one by one, so that no more than one is inflated at a time.
    pub(super) fn bundles(
        &self,
        inflate: Inflate,
        observer: &mut Observer<'_>,
        each: &mut dyn FnMut(Bundle<'a>, &mut Observer<'_>) -> Result<()>,
    ) -> Result<()> {
        observe_plain(self.content, observer);
        let Library { container, limits, .. } = self.library;
        let bundles = Bundles::new(self.content, &**container, inflate).with_limits(*limits);
        for bundle in bundles {
            let bundle = bundle.map_err(|error| locate(error, self.library.archive.path(), self.name))?;
            if let Some(inflation) = bundle.inflation {
                observer(Event::Inflated(inflation));
            }
            each(bundle, observer)?;
        }
        self.content.looked_at();
        Ok(())
    }
}

/// Opens the files that a thin archive names.
fn open_all_beside(archive: &Input) -> Result<Vec<Input>> {
    let mut beside = Vec::new();
    let mut sources = Sources::new(archive.path());
    for member in Archive::read(archive.as_slice())?.members() {
        if let Location::Beside(path) = member?.location {
            let mut input = sources.open(&path)?;
            input.close();
            beside.push(input);
        }
    }
    Ok(beside)
}

/// A file, whatever it is called: device and inode.
type Identity = (u64, u64);

/// The files that a job reads: the one that it is given, and those that thin archives name.
#[derive(Debug)]
pub(super) struct Sources {
    all: HashSet<Identity>,
    /// The archives around what is being read, the outermost first.
    around: Vec<Option<Identity>>,
    left: u32,
    left_nested: u32,
}

impl Sources {
    /// More files than a thin archive has members, and fewer than a process may map on Linux.
    const MAX: u32 = 60_000;

    /// The same for thin archives that are members of others. No `ar` makes them.
    const NESTED_MAX: u32 = 2_000;

    /// What a job begins with.
    pub(super) fn new(input: &Path) -> Self {
        let identity = identity(input);
        let all = identity.into_iter().collect();
        Self { all, around: vec![identity], left: Self::MAX, left_nested: Self::NESTED_MAX }
    }

    /// Opens a member of a thin archive.
    pub(super) fn open(&mut self, path: &Path) -> Result<Input> {
        let identity = self.check(path)?;
        self.open_checked(path, identity)
    }

    /// Reads a member of a thin archive, with the archives in it, if it is one.
    pub(super) fn enter(&mut self, path: &Path, read: impl FnOnce(&mut Self, &Input) -> Result<()>) -> Result<()> {
        let identity = self.check(path)?;
        if identity.is_some() && self.around.contains(&identity) {
            return Err(Error::ArchiveCycle { path: path.to_owned() });
        }
        let input = self.open_checked(path, identity)?;
        self.around.push(identity);
        let done = read(self, &input);
        self.around.pop();
        done
    }

    /// Which file it is. Reading a device could go on for ever.
    fn check(&self, path: &Path) -> Result<Option<Identity>> {
        match path.metadata() {
            Ok(metadata) if !metadata.is_file() => Err(Error::NoFile { path: path.to_owned() }),
            Ok(metadata) => Ok(Some((metadata.dev(), metadata.ino()))),
            Err(_) => Ok(None),
        }
    }

    fn open_checked(&mut self, path: &Path, identity: Option<Identity>) -> Result<Input> {
        let is_nested = self.around.len() > 1;
        let (left, most) =
            if is_nested { (&mut self.left_nested, Self::NESTED_MAX) } else { (&mut self.left, Self::MAX) };
        *left = left.checked_sub(1).ok_or_else(|| Error::TooManyFiles { path: path.to_owned(), most })?;
        self.all.extend(identity);
        Input::open(path).map_err(|error| match error {
            Error::Io { path, source } => Error::Member { path, source },
            error => error,
        })
    }

    /// Whether a path leads to one of these files.
    pub(super) fn contain(&self, path: &Path) -> bool {
        path.metadata().is_ok_and(|metadata| self.all.contains(&(metadata.dev(), metadata.ino())))
    }
}

/// What file a path leads to; `-` is the standard input.
fn identity(path: &Path) -> Option<Identity> {
    let metadata = if path.as_os_str() == "-" {
        File::from(io::stdin().as_fd().try_clone_to_owned().ok()?).metadata()
    } else {
        path.metadata()
    };
    metadata.ok().map(|metadata| (metadata.dev(), metadata.ino()))
}

/// An error of a member with its name behind that of the archive, as linkers write it.
pub(super) fn locate(error: Error, archive: &Path, member: &[u8]) -> Error {
    match error {
        Error::Malformed { path, source } if path == archive => {
            let path = format!("{}({})", path.display(), shown(member)).into();
            Error::Malformed { path, source }
        }
        error => error,
    }
}

/// Stages an archive of these members.
pub(super) fn write_archive(path: &Path, members: &[NewMember<'_>], observer: &mut Observer<'_>) -> Result<Output> {
    let mut output = Output::stage(path)?;
    archive::write(members, &mut output, &mut |name, reason| {
        observer(Event::NotIndexed { name: name.to_owned(), reason: reason.to_owned() });
    })?;
    Ok(output)
}

//! Reads and writes fat objects: host objects with one more section for each entry of the bundle.
//!
//! | section | content |
//! |---|---|
//! | the host's own | unchanged |
//! | `__CLANG_OFFLOAD_BUNDLE__<entry ID>` | a code object, or one zero byte |
//! | ... | in the order of the bundle |
//!
//! Linkers leave these sections out of their output. A section without an entry ID is not an entry, and is removed from
//! the restored host. The section of the host's own ID holds one zero byte; its code object is the object without all
//! of these sections. Each object format has a folder: `elf` and `coff`. Layout: the sections that LLVM 22.1.8 adds by
//! calling llvm-objcopy, which is not needed here.
//!
//! A fat object made here contains a record (`record`) from which its host is restored byte for byte. In any other fat
//! object, the sections are removed and references to them adjusted.
//!
//! Rejected: hosts in other object formats; headers, tables, names and contents outside the file. A host that cannot be
//! restored is an error only when it is extracted.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

mod coff;
mod elf;
mod record;
#[cfg(test)]
mod tests;
mod view;

use memchr::memmem;

use self::coff::Coff;
use self::elf::Elf;
use self::record::Record;
use self::view::{Added, FoundSection, View, begins_with, join};
use super::binary::Binary;
use super::limits::HOSTS_MAX;
use super::magic::{Magic, is_coff_object};
use super::{Container, Contents, Entry, MAGIC, Member, Part, host};
use crate::base::bytes::{Bounds, len_of, len_u64, part};
use crate::base::error::{Error, ErrorKind, Malformed, Result, WithPath};
use crate::base::io::input::Slice;
use crate::base::io::piece::Piece;

/// The formats of host objects, for messages.
const SUPPORTED: &str = "ELF and COFF";

/// The format of an object file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostFormat {
    /// ELF, including programs and libraries.
    Elf,
    /// COFF, including objects with more sections than its first version could have (`/bigobj`).
    Coff,
    /// Another object format, which cannot hold a bundle.
    Other(&'static str),
}

impl HostFormat {
    /// The format of a file that begins with `data`, if it is an object file.
    pub fn of(data: &[u8]) -> Option<Self> {
        match Magic::identify(data) {
            magic if magic.is_elf() && magic != Magic::BrokenElf => Some(Self::Elf),
            Magic::Coff if is_coff_object(data) => Some(Self::Coff),
            Magic::MachO => Some(Self::Other("Mach-O")),
            Magic::Pe => Some(Self::Other("PE")),
            Magic::Xcoff => Some(Self::Other("XCOFF")),
            Magic::Wasm => Some(Self::Other("WebAssembly")),
            // Other data may begin like these, so the headers must be in order.
            _ if is_coff_object(data) && host::check_coff(data, 0).is_ok() => Some(match data {
                [0x4e, 0xa6, ..] => Self::Other("ARM64X"),
                _ => Self::Coff,
            }),
            _ => None,
        }
    }
}

/// The fat object.
#[derive(Clone, Copy, Debug, Default)]
pub struct FatObject;

impl FatObject {
    /// Passes an object and the sections of its bundle to `with`. None if `data` is not a fat object.
    fn sections<T>(
        data: &[u8],
        base: u64,
        with: impl FnOnce(&Object<'_>, &[FoundSection]) -> T,
    ) -> Result<Option<T>, Malformed> {
        let Some(format @ (HostFormat::Elf | HostFormat::Coff)) = HostFormat::of(data) else { return Ok(None) };
        let object = match Object::parse(format, View::whole(data, base)) {
            // A file without the name of such a section holds no bundle. Other faults do not matter here.
            Err(_) if !may_name_a_bundle(format, data) => return Ok(None),
            object => object?,
        };
        let found = object.found()?;
        Ok(if found.is_empty() { None } else { Some(with(&object, &found)) })
    }

    /// The object without the sections of its bundle, as the only entry, under whichever ID the bundle has it or none.
    /// `None` if `data` is not a fat object.
    pub(crate) fn host(data: &[u8], base: u64) -> Result<Option<Contents>, Malformed> {
        let parts = Self::sections(data, base, |object, found| object.host(data, found))?;
        let contents = |parts| Contents::new(vec![Entry { parts, ..Entry::at(b"", 0..0) }], len_u64(data));
        Ok(parts.map(contents))
    }

    /// The first member for the host.
    pub(crate) fn host_of<'m, 'a>(members: &'m [Member<'a>]) -> Option<&'m Member<'a>> {
        members.iter().find(|member| is_host(member.id.as_bytes()))
    }

    /// The pieces of a new fat object of `members`.
    ///
    /// # Errors
    /// [`ErrorKind::Usage`] unless one member is for the host, and those of its object file.
    pub fn plan<'a>(&self, members: &[Member<'a>]) -> Result<Vec<Piece<'a>>> {
        let mut hosts = members.iter().filter(|member| is_host(member.id.as_bytes()));
        let host = hosts.next().ok_or_else(|| Error::usage("a fat object needs the object of a host"))?.content;
        if hosts.next().is_some() {
            return Err(Error::usage("a fat object has one host"));
        }
        let added: Vec<Added> = members
            .iter()
            .map(|member| {
                let is_host = is_host(member.id.as_bytes());
                let content = if is_host { Piece::Bytes(vec![0]) } else { Piece::Input(member.content) };
                Added { name: [MAGIC, member.id.as_str()].concat().into_bytes(), content }
            })
            .collect();
        append(host, &added)
    }

    /// Returns the pieces of a fat object without the sections of some entries, which are given by their indices: all
    /// others stay as they are, also tables that [`plan`](Self::plan) writes twice, or `None` if it cannot be written
    /// so.
    pub(crate) fn without<'a>(&self, data: Slice<'a>, dropped: &[usize]) -> Option<Vec<Piece<'a>>> {
        let removed = |object: &Object<'_>, found: &[FoundSection]| {
            let with_id = found.iter().filter(|section| section.name.len() > MAGIC.len());
            let is_dropped =
                |(index, section): (usize, &FoundSection)| dropped.contains(&index).then(|| section.clone());
            object.remove(&with_id.enumerate().filter_map(is_dropped).collect::<Vec<_>>())
        };
        let parts = Self::sections(data.bytes(), data.offset(), removed).ok()??.ok()?;
        let mut pieces = Vec::new();
        for part in parts {
            pieces.push(match part {
                Part::Range(range) => Piece::Input(data.slice(range.start, len_of(&range))?),
                Part::Bytes(bytes) => Piece::Bytes(bytes),
                Part::Unreadable(_) => return None,
            });
        }
        Some(pieces)
    }
}

impl Container for FatObject {
    type Entry = Entry;

    fn repeats(&self) -> bool {
        false
    }

    fn read(&self, data: &[u8], total: u64, base: u64) -> Result<Option<Contents>, Malformed> {
        if matches!(HostFormat::of(data), Some(HostFormat::Elf | HostFormat::Coff)) && len_u64(data) < total {
            return Err(Bounds::of(data, base).truncated(0, total, "the object file"));
        }
        let entries = Self::sections(data, base, |object, found| entries(object, found, data, base))?;
        let entries = entries.filter(|entries| !entries.is_empty());
        Ok(entries.map(|entries| Contents::new(entries, len_u64(data))))
    }
}

/// Whether an object with broken tables may have sections of a bundle. If the names at the end of a COFF object are cut
/// off, LLVM fails too; a cut ELF file is plain data to it.
fn may_name_a_bundle(format: HostFormat, data: &[u8]) -> bool {
    memmem::find(data, MAGIC.as_bytes()).is_some()
        || format == HostFormat::Coff && Coff::has_long_names(View::whole(data, 0))
}

/// The entries of a fat object with the sections `found`.
fn entries(object: &Object<'_>, found: &[FoundSection], data: &[u8], base: u64) -> Vec<Entry> {
    let mut host = None;
    let mut hosts = 0..HOSTS_MAX;
    // A section without an ID is not an entry, but not a part of the host's object either.
    let with_id = found.iter().filter_map(|section| {
        Some((section.name.strip_prefix(MAGIC.as_bytes()).filter(|id| !id.is_empty())?, section))
    });
    let entries = with_id.map(|(id, section)| {
        let mut entry = Entry::at(id, section.content.clone());
        if is_host(id) && entry.content(data).as_deref() == Some(&[0]) {
            entry.parts = match hosts.next() {
                Some(_) => host.get_or_insert_with(|| object.host(data, found)).clone(),
                None => {
                    let what = format!("more than {HOSTS_MAX} sections are named as the host's object; one of them is");
                    vec![Part::Unreadable(Malformed::at(what, Bounds::of(data, base).absolute(section.content.start)))]
                }
            };
        }
        entry
    });
    entries.collect()
}

/// An object with more sections.
fn append<'a>(host: Slice<'a>, added: &[Added<'a>]) -> Result<Vec<Piece<'a>>> {
    let path = host.path();
    let format = match HostFormat::of(host.bytes()) {
        Some(HostFormat::Other(format)) => {
            let reason = format!("{format} object files cannot hold a bundle; supported are {SUPPORTED}");
            return Err(Error::refused(ErrorKind::Unsupported, path, None, reason));
        }
        Some(format) => format,
        None => return Err(Error::usage("the host's file is not an object file")),
    };
    let pieces = Object::parse(format, View::whole(host, host.offset())).and_then(|object| {
        // An object whose sections cannot be told apart would make a fat object that cannot be unbundled.
        object.found()?;
        object.append(added)
    });
    pieces.with_path(path)
}

/// The format that `-type=o` selects: a fat object if the host's file, or the file to read, is an object file, and a
/// binary bundle otherwise.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Objects {
    /// The format of binary bundles.
    pub binary: Binary,
}

impl Objects {
    /// Whether these members form a fat object.
    pub fn is_fat(members: &[Member<'_>]) -> bool {
        FatObject::host_of(members).is_some_and(|host| HostFormat::of(host.content.bytes()).is_some())
    }

    /// The pieces of a new fat object or bundle of `members`.
    ///
    /// # Errors
    /// The errors of [`FatObject::plan`] and [`Binary::plan`].
    pub fn plan<'a>(&self, members: &[Member<'a>]) -> Result<Vec<Piece<'a>>> {
        if Self::is_fat(members) { FatObject.plan(members) } else { self.binary.plan(members) }
    }
}

impl Container for Objects {
    type Entry = Entry;

    fn read(&self, data: &[u8], total: u64, base: u64) -> Result<Option<Contents>, Malformed> {
        match HostFormat::of(data) {
            Some(_) => FatObject.read(data, total, base),
            None => self.binary.read(data, total, base),
        }
    }
}

fn is_host(id: &[u8]) -> bool {
    id.starts_with(b"host-")
}

/// An object file in one of the formats.
enum Object<'a> {
    Elf(Elf<'a>),
    Coff(Coff<'a>),
}

impl<'a> Object<'a> {
    fn parse(format: HostFormat, view: View<'a>) -> Result<Self, Malformed> {
        match format {
            HostFormat::Coff => Coff::parse(view).map(Self::Coff),
            HostFormat::Elf | HostFormat::Other(_) => Elf::parse(view).map(Self::Elf),
        }
    }

    fn found(&self) -> Result<Vec<FoundSection>, Malformed> {
        match self {
            Self::Elf(elf) => elf.found(),
            Self::Coff(coff) => coff.found(),
        }
    }

    fn append(&self, added: &[Added<'a>]) -> Result<Vec<Piece<'a>>, Malformed> {
        match self {
            Self::Elf(elf) => elf.append(added),
            Self::Coff(coff) => coff.append(added),
        }
    }

    /// The object without the sections `found`.
    fn host(&self, data: &[u8], found: &[FoundSection]) -> Vec<Part> {
        let restored = self.restored(data, found);
        restored.map_or_else(|| self.remove(found), Ok).unwrap_or_else(|malformed| vec![Part::Unreadable(malformed)])
    }

    /// The object without some sections, and with references to them adjusted.
    fn remove(&self, found: &[FoundSection]) -> Result<Vec<Part>, Malformed> {
        match self {
            Self::Elf(elf) => elf.remove(found),
            Self::Coff(coff) => coff.remove(found),
        }
    }

    /// The host of a fat object that was made here and has not been changed since.
    fn restored(&self, data: &[u8], found: &[FoundSection]) -> Option<Vec<Part>> {
        let (format, claimed) = match self {
            Self::Elf(elf) => (HostFormat::Elf, elf.claimed_host()),
            Self::Coff(coff) => (HostFormat::Coff, coff.claimed_host()),
        };
        let (Record { host_len, added, .. }, parts) = claimed?;
        let fits = |own: &Part| match own {
            Part::Range(range) => range.start <= range.end && part(data, range.clone()).is_some(),
            _ => true,
        };
        let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        let host = Some(View::of_parts(data, parts.clone()));
        let host = host.filter(|host| parts.iter().all(fits) && host.len() == host_len)?;
        let own = found.len().checked_sub(usize::try_from(added).ok()?).and_then(|first| found.get(first..))?;
        let added = own.iter().map(|section| {
            let content = Piece::Input(part(data, section.content.clone())?.into());
            Some(Added { name: section.name.clone(), content })
        });
        let added = added.collect::<Option<Vec<_>>>()?;
        let again = Object::parse(format, host).and_then(|object| object.append(&added));
        begins_with(data, &again.ok()?).then(|| join(parts))
    }
}

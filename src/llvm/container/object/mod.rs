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
//! A fat object made here contains a record (`record`), which restores its host byte for byte. In any other fat object,
//! the sections are removed and references to them adjusted.
//!
//! Rejected: hosts in other object formats; headers, tables, names and contents outside the file. A host that cannot be
//! restored is an error only when it is extracted.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

mod coff;
mod elf;
mod record;
#[cfg(test)]
mod tests;
pub(crate) mod view;

use memchr::memmem;

use self::coff::Coff;
use self::elf::Elf;
use self::record::Record;
use self::view::{AddedSection, FoundSection, View, begins_with, join_parts};
use super::binary::Binary;
use super::limits::HOSTS_MAX;
use super::magic::{Magic, is_coff_object};
use super::{Container, Contents, Entry, MAGIC, Member, Part, host};
use crate::base::bytes::{Bounds, bytes_in, len_u64};
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
    /// Identifies the format of a file that begins with `data`. Returns `None` if it is not an object file.
    pub fn identify(data: &[u8]) -> Option<Self> {
        match Magic::identify(data) {
            magic if magic.is_elf() && magic != Magic::BrokenElf => Some(Self::Elf),
            Magic::Coff if is_coff_object(data) => Some(Self::Coff),
            Magic::MachO => Some(Self::Other("Mach-O")),
            Magic::Pe => Some(Self::Other("PE")),
            Magic::Xcoff => Some(Self::Other("XCOFF")),
            Magic::Wasm => Some(Self::Other("WebAssembly")),
            // Machines that only LLVM knows. Other data may begin like them, so the headers must be complete too.
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
    /// Reads an object and the sections of its bundle. Returns `None` if `data` is not a fat object.
    pub(crate) fn read_object(data: &[u8], base: u64) -> Result<Option<(Object<'_>, Vec<FoundSection>)>, Malformed> {
        let Some(format @ (HostFormat::Elf | HostFormat::Coff)) = HostFormat::identify(data) else { return Ok(None) };
        let object = match Object::parse(format, View::whole(data, base)) {
            // A broken object that cannot have sections of a bundle is not a fat object, so its faults do not matter.
            Err(_) if !may_name_a_bundle(format, data) => return Ok(None),
            object => object?,
        };
        let found = object.find_sections()?;
        if found.is_empty() {
            return Ok(None);
        }
        Ok(Some((object, found)))
    }

    /// Returns contents with one entry without an ID: the object without the sections of its bundle, even if the bundle
    /// has no entry for the host. Returns `None` if `data` is not a fat object.
    pub(crate) fn host(data: &[u8], base: u64) -> Result<Option<Contents>, Malformed> {
        let Some((object, found)) = Self::read_object(data, base)? else { return Ok(None) };
        let parts = object.host(data, &found);
        Ok(Some(Contents::new(vec![Entry { parts, ..Entry::at(b"", 0..0) }], len_u64(data))))
    }

    /// Returns the first member for the host, or `None` if no member is for the host.
    pub(crate) fn host_of<'m, 'a>(members: &'m [Member<'a>]) -> Option<&'m Member<'a>> {
        members.iter().find(|member| is_host(member.id.as_bytes()))
    }

    /// Plans a new fat object of `members`.
    ///
    /// # Errors
    /// [`ErrorKind::Usage`] unless one member is for the host, and the errors of the host's object file.
    pub fn plan<'a>(&self, members: &[Member<'a>]) -> Result<Vec<Piece<'a>>> {
        let mut hosts = members.iter().filter(|member| is_host(member.id.as_bytes()));
        let host = hosts.next().ok_or_else(|| Error::usage("a fat object needs the object of a host"))?.content;
        if hosts.next().is_some() {
            return Err(Error::usage("a fat object has one host"));
        }
        let mut added = Vec::with_capacity(members.len());
        for member in members {
            let is_host = is_host(member.id.as_bytes());
            let content = if is_host { Piece::Bytes(vec![0]) } else { Piece::Input(member.content) };
            added.push(AddedSection { name: [MAGIC, member.id.as_str()].concat().into_bytes(), content });
        }
        append_to_host(host, &added)
    }
}

impl Container for FatObject {
    type Entry = Entry;

    fn repeats(&self) -> bool {
        false
    }

    fn read(&self, data: &[u8], total: u64, base: u64) -> Result<Option<Contents>, Malformed> {
        // The tables of an object may be anywhere in it, so all of it is needed.
        if matches!(HostFormat::identify(data), Some(HostFormat::Elf | HostFormat::Coff)) && len_u64(data) < total {
            return Err(Bounds::of(data, base).truncated(0, total, "the object file"));
        }
        let Some((object, found)) = Self::read_object(data, base)? else { return Ok(None) };
        let entries = entries_of(&object, &found, data, base);
        if entries.is_empty() {
            return Ok(None);
        }
        Ok(Some(Contents::new(entries, len_u64(data))))
    }
}

/// Whether an object with broken tables may have sections of a bundle. The names at the end of a COFF object may be cut
/// off, and then LLVM fails too. LLVM treats a cut ELF file as plain data.
fn may_name_a_bundle(format: HostFormat, data: &[u8]) -> bool {
    memmem::find(data, MAGIC.as_bytes()).is_some()
        || format == HostFormat::Coff && Coff::has_long_names(View::whole(data, 0))
}

/// The entries of a fat object with the sections `found`. A host that cannot be restored is an entry too, but its code
/// object is unreadable.
fn entries_of(object: &Object<'_>, found: &[FoundSection], data: &[u8], base: u64) -> Vec<Entry> {
    let mut entries = Vec::with_capacity(found.len());
    // Each entry for the host gets a copy of the same parts, so their number is limited.
    let mut host_parts = None;
    let mut allowed = 0..HOSTS_MAX;
    for section in found {
        // A section without an ID is not an entry, but not a part of the host's object either.
        let Some(id @ [_, ..]) = section.name.strip_prefix(MAGIC.as_bytes()) else { continue };
        let mut entry = Entry::at(id, section.content.clone());
        // LLVM gives the host's section one zero byte. The host's code is the object without the bundle's sections.
        if is_host(id) && entry.content(data).as_deref() == Some(&[0]) {
            entry.parts = match allowed.next() {
                Some(_) => host_parts.get_or_insert_with(|| object.host(data, found)).clone(),
                None => {
                    let what = format!("more than {HOSTS_MAX} sections are named as the host's object; one of them is");
                    vec![Part::Unreadable(Malformed::at(what, Bounds::of(data, base).absolute(section.content.start)))]
                }
            };
        }
        entries.push(entry);
    }
    entries
}

/// Plans an object with more sections.
fn append_to_host<'a>(host: Slice<'a>, added: &[AddedSection<'a>]) -> Result<Vec<Piece<'a>>> {
    let path = host.path();
    let format = match HostFormat::identify(host.bytes()) {
        Some(HostFormat::Other(format)) => {
            let reason = format!("{format} object files cannot hold a bundle; supported are {SUPPORTED}");
            return Err(Error::refused(ErrorKind::Unsupported, path, None, reason));
        }
        Some(format) => format,
        None => return Err(Error::usage("the host's file is not an object file")),
    };
    let object = Object::parse(format, View::whole(host, host.offset())).with_path(path)?;
    // An object whose sections cannot be read would make a fat object that cannot be unbundled.
    object.find_sections().with_path(path)?;
    object.append_sections(added).with_path(path)
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
        match FatObject::host_of(members) {
            Some(host) => HostFormat::identify(host.content.bytes()).is_some(),
            None => false,
        }
    }

    /// Plans a new fat object or bundle of `members`.
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
        match HostFormat::identify(data) {
            Some(_) => FatObject.read(data, total, base),
            None => self.binary.read(data, total, base),
        }
    }
}

fn is_host(id: &[u8]) -> bool {
    id.starts_with(b"host-")
}

/// An object file in one of the formats.
pub(crate) enum Object<'a> {
    Elf(Elf<'a>),
    Coff(Coff<'a>),
}

impl<'a> Object<'a> {
    fn parse(format: HostFormat, view: View<'a>) -> Result<Self, Malformed> {
        match format {
            HostFormat::Coff => Coff::parse(view).map(Self::Coff),
            // Callers have excluded other formats.
            HostFormat::Elf | HostFormat::Other(_) => Elf::parse(view).map(Self::Elf),
        }
    }

    /// Finds the sections that hold entries of a bundle.
    fn find_sections(&self) -> Result<Vec<FoundSection>, Malformed> {
        match self {
            Self::Elf(elf) => elf.find_sections(),
            Self::Coff(coff) => coff.find_sections(),
        }
    }

    /// Plans the fat object: this object with more sections.
    fn append_sections(&self, added: &[AddedSection<'a>]) -> Result<Vec<Piece<'a>>, Malformed> {
        match self {
            Self::Elf(elf) => elf.append_sections(added),
            Self::Coff(coff) => coff.append_sections(added),
        }
    }

    /// The object without the sections `found`: byte for byte the original if a record restores it.
    fn host(&self, data: &[u8], found: &[FoundSection]) -> Vec<Part> {
        if let Some(restored) = self.restore_host(data, found) {
            return restored;
        }
        match self.remove_sections(found) {
            Ok(parts) => parts,
            Err(malformed) => vec![Part::Unreadable(malformed)],
        }
    }

    /// Removes some sections, and adjusts references to them.
    pub(crate) fn remove_sections(&self, found: &[FoundSection]) -> Result<Vec<Part>, Malformed> {
        match self {
            Self::Elf(elf) => elf.remove_sections(found),
            Self::Coff(coff) => coff.remove_sections(found),
        }
    }

    /// Restores the host from the record of a fat object. Returns `None` unless the fat object was made here and has
    /// not been changed since.
    fn restore_host(&self, data: &[u8], found: &[FoundSection]) -> Option<Vec<Part>> {
        let (format, claimed) = match self {
            Self::Elf(elf) => (HostFormat::Elf, elf.claimed_host()),
            Self::Coff(coff) => (HostFormat::Coff, coff.claimed_host()),
        };
        let (Record { host_len, added, .. }, mut parts) = claimed?;
        parts.retain(|part| !part.is_empty());
        let host = View::of_parts(data, parts.clone());
        if !parts.iter().all(|part| is_inside(part, data)) || host.len() != host_len {
            return None;
        }
        // The host may have been a fat object itself, so only the last sections were added to it.
        let first_added = found.len().checked_sub(usize::try_from(added).ok()?)?;
        let mut sections = Vec::new();
        for section in found.get(first_added..)? {
            let content = Piece::Input(bytes_in(data, section.content.clone())?.into());
            sections.push(AddedSection { name: section.name.clone(), content });
        }
        // The record is untrusted: the host is right if adding the sections to it again gives the same fat object.
        let rebuilt = Object::parse(format, host).ok()?.append_sections(&sections).ok()?;
        if begins_with(data, &rebuilt) { Some(join_parts(parts)) } else { None }
    }
}

/// Whether a part is inside of `data`. A range may not be, because it follows from the untrusted record.
fn is_inside(part: &Part, data: &[u8]) -> bool {
    match part {
        Part::Range(range) => range.start <= range.end && bytes_in(data, range.clone()).is_some(),
        Part::Bytes(_) | Part::Unreadable(_) => true,
    }
}

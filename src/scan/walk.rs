//! The walk through a file: what each part of it is, and what lies in that.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use std::path::Path;

use super::budget::{self, Budget, Spent};
use super::found::{Finding, Format, Found, ID_MAX};
use super::place::{Place, Step};
use super::sections::{self, ELF_MAGIC, EM_AMDGPU, EM_CUDA, Holds};
use super::unread::{NO_CONTENT, NO_SECTIONS, Unread};
use super::wide::Wide;
use super::zip::{self, ZipContent};
use super::{Checksums, ContentKind, Scan, Visitor, amdgpu};
use crate::bytes::len_u64;
use crate::container::archive::{Archive, Location, Sources};
use crate::container::host::Chosen;
use crate::container::object::FatObject;
use crate::container::offload_binary::{self, OffloadBinary};
use crate::container::sequence::{Bundle, Bundles, Inflate};
use crate::container::{Container, MAGIC, bitcode, compressed, host};
use crate::error::{Error, FileKind, Malformed, Result, WithPath};
use crate::io::input::{Input, Slice};

/// How deep containers may lie in containers.
const DEPTH_MAX: u32 = 16;

/// How much of a member is inflated to tell whether it is worth more.
const HEAD: u64 = 4096;

/// A walk, and who is told what it finds.
pub(super) struct Walk<'w, 'v> {
    scan: Scan,
    sources: Sources<'w>,
    budget: Budget,
    /// How many bundles were found.
    bundles: u64,
    visitor: &'w mut Visitor<'v>,
}

/// The format of some bytes, according to their beginning.
enum Look {
    Bundles,
    Text,
    OffloadBinaries,
    Bitcode,
    CodeObject,
    Object,
    Archive,
    Zip,
    Unread(Unread),
    Nothing,
}

impl Look {
    fn at(data: &[u8]) -> Self {
        if data.starts_with(MAGIC.as_bytes()) || data.starts_with(compressed::MAGIC) {
            Self::Bundles
        } else if data.starts_with(&offload_binary::MAGIC) {
            Self::OffloadBinaries
        } else if bitcode::is_bitcode(data) {
            Self::Bitcode
        } else if matches!(sections::elf_machine(data), Some(EM_CUDA | EM_AMDGPU)) {
            Self::CodeObject
        } else if Archive::is_archive(data) {
            Self::Archive
        } else if zip::is_zip(data) {
            Self::Zip
        } else if Wide::text_of(data).is_some() {
            Self::Text
        } else if host::is_object(data) || data.starts_with(ELF_MAGIC) {
            Self::Object
        } else {
            Unread::of(data).map_or(Self::Nothing, Self::Unread)
        }
    }
}

/// The kind of a file that begins with `data` and is not a bundle.
pub(crate) fn file_kind(data: &[u8]) -> FileKind {
    match Look::at(data) {
        Look::Nothing if data.is_empty() => FileKind::Empty,
        Look::Nothing | Look::Text | Look::Unread(_) => FileKind::Other,
        // One that is compressed: the other forms are bundles.
        Look::Bundles => FileKind::FatObject,
        Look::OffloadBinaries => FileKind::OffloadBinary,
        Look::Bitcode => FileKind::Bitcode,
        Look::CodeObject => FileKind::CodeObject,
        Look::Object => match sections::read(data, 0) {
            Ok(sections) if sections.chosen.iter().any(|section| section.holds == Holds::FatObject) => {
                FileKind::FatObject
            }
            _ if data.starts_with(ELF_MAGIC) => FileKind::Elf,
            _ if data.starts_with(b"MZ") => FileKind::Pe,
            Ok(_) => FileKind::Coff,
            // Anything may begin like a COFF object.
            Err(_) => FileKind::Other,
        },
        Look::Archive => FileKind::Archive,
        Look::Zip => FileKind::Zip,
    }
}

impl<'w, 'v> Walk<'w, 'v> {
    pub(super) fn new(scan: Scan, data: Slice<'w>, visitor: &'w mut Visitor<'v>) -> Self {
        let (sources, budget) = (Sources::new(data), Budget::new(scan.limits, data.len()));
        Self { scan, sources, budget, bundles: 0, visitor }
    }

    /// Walks a whole file.
    pub(super) fn file(&mut self, data: Slice<'_>) -> Result<()> {
        self.look(&Place::of_file(data.path()), data, DEPTH_MAX)
    }

    fn look(&mut self, place: &Place, data: Slice<'_>, depth: u32) -> Result<()> {
        let look = Look::at(data.bytes());
        let Some(depth) = depth.checked_sub(1) else {
            let (what, offset) = ("containers", data.offset());
            let error = Error::malformed(data.path(), Malformed::Nested { what, most: DEPTH_MAX, offset });
            return if matches!(look, Look::Nothing) { Ok(()) } else { self.broken(place, data, error) };
        };
        if matches!(look, Look::Nothing) || !self.spend(place, data, |budget| budget.take(data.len()))? {
            return Ok(());
        }
        match look {
            Look::Nothing => Ok(()),
            Look::Bundles | Look::Text => self.bundles(place, data, &Wide, Wide::form_of, depth),
            Look::OffloadBinaries => {
                self.bundles(place, data, &OffloadBinary::default(), |_| Ok(Format::OffloadBinary), depth)
            }
            Look::Bitcode => self.bitcode(place, data, depth),
            Look::CodeObject => self.code_object(place, data),
            Look::Object => self.object(place, data, depth),
            Look::Archive => self.archive(place, data, depth),
            Look::Zip => self.zip(place, data, depth),
            Look::Unread(what) => self.unread(place, data, what),
        }
    }

    /// Whether the search may go on after what this costs. That it may not is told once.
    fn spend(
        &mut self,
        place: &Place,
        data: Slice<'_>,
        cost: impl FnOnce(&mut Budget) -> Result<(), Spent>,
    ) -> Result<bool> {
        if self.budget.is_spent {
            return Ok(false);
        }
        let Err((what, limit)) = cost(&mut self.budget) else { return Ok(true) };
        self.budget.is_spent = true;
        let error = Error::malformed(data.path(), Malformed::Search { what, limit, offset: data.offset() });
        (self.visitor)(Finding::Broken { place, error })?;
        Ok(false)
    }

    /// Reports a finding, charging `count` to the finding limit; does nothing once the limit is reached.
    fn tell(&mut self, count: u64, data: Slice<'_>, finding: Finding<'_>) -> Result<()> {
        self.bundles = self.bundles.saturating_add(u64::from(matches!(finding, Finding::Bundle(_))));
        let names = finding.place().weight().saturating_mul(count).saturating_add(match &finding {
            Finding::Bundle(found) => budget::ids_shown(found.bundle),
            _ => 0,
        });
        if self
            .spend(finding.place(), data, |budget| budget.take_found(count).and_then(|()| budget.take_names(names)))?
        {
            (self.visitor)(finding)
        } else {
            Ok(())
        }
    }

    fn broken(&mut self, place: &Place, data: Slice<'_>, error: Error) -> Result<()> {
        // Nothing is wrong with the data when a temporary file cannot be written.
        if matches!(error, Error::Temporary { .. }) {
            return Err(error);
        }
        self.tell(1, data, Finding::Broken { place, error })
    }

    fn unread(&mut self, place: &Place, data: Slice<'_>, what: Unread) -> Result<()> {
        self.tell(1, data, Finding::Unread { place, offset: data.offset(), what })
    }

    /// Bundles of one family, one after another.
    fn bundles(
        &mut self,
        place: &Place,
        data: Slice<'_>,
        container: &dyn Container,
        format_of: fn(&Bundle<'_>) -> Result<Format, Malformed>,
        depth: u32,
    ) -> Result<()> {
        let mut bundles = Bundles::new(data, container, self.scan.inflate);
        for index in 0..usize::MAX {
            let limits = self.budget.limits_at(place);
            let bundle = bundles.next_within(limits);
            let claimed = bundles.claimed();
            let inflated = match (&bundle, claimed) {
                (_, None) => 0,
                (Ok(Some(bundle)), Some(_)) if self.scan.inflate != Inflate::Whole => len_u64(bundle.beginning()),
                (_, Some(claimed)) => claimed,
            };
            let cost = claimed.map_or(0, |_| Budget::inflating(place, inflated));
            if !self.spend(place, data, |budget| budget.take(cost))? {
                return Ok(());
            }
            match bundle {
                Ok(Some(bundle)) => match format_of(&bundle) {
                    Ok(format) => self.bundle(data, &Found { place, format, index, bundle: &bundle }, depth)?,
                    Err(malformed) => self.broken(place, data, Error::malformed(data.path(), malformed))?,
                },
                Ok(None) => break,
                Err(error) => self.broken(place, data, error)?,
            }
        }
        match bundles.stopped_at() {
            Some(offset) => self.tell(1, data, Finding::Trailing { place, offset }),
            None => Ok(()),
        }
    }

    /// One of them.
    fn bundle(&mut self, data: Slice<'_>, found: &Found<'_>, depth: u32) -> Result<()> {
        let Found { place, bundle, .. } = *found;
        let ids = place.weight().saturating_add(budget::ids_len(bundle));
        if self.spend(place, data, |budget| budget.take(ids))? {
            self.tell(budget::found_in(bundle), data, Finding::Bundle(*found))?;
            self.nested(place, data, bundle, depth)?;
            data.looked_at();
        }
        Ok(())
    }

    /// The code objects of a bundle that are bundles themselves.
    fn nested(&mut self, place: &Place, around: Slice<'_>, bundle: &Bundle<'_>, depth: u32) -> Result<()> {
        // Entries can name the same bytes again and again; those of compilers never do.
        let stored_len = bundle.stored_len()?;
        let mut left = stored_len;
        for (index, entry) in bundle.entries.iter().enumerate() {
            let Some(head) = bundle.head(index, ContentKind::HEAD_LEN) else { continue };
            let is_bundle = match ContentKind::of(head) {
                ContentKind::Bundle => true,
                ContentKind::FatBinary => false,
                _ => continue,
            };
            let id = entry.id.get(..ID_MAX).unwrap_or(&entry.id);
            let place = place.join(Step::Entry(id.to_vec()));
            if let Some(what) = Unread::of(head).filter(|_| !is_bundle) {
                let (place, offset) = match bundle.in_place(index) {
                    Some(data) => (place, data.offset()),
                    None => (place.inflated(), 0),
                };
                self.tell(1, around, Finding::Unread { place: &place, offset, what })?;
                continue;
            }
            if let Some(data) = bundle.in_place(index) {
                let Some(rest) = left.checked_sub(data.len()) else {
                    let (what, expected) = ("size of the bundles in it", "together no more than the bundle");
                    let found = stored_len.saturating_sub(left).saturating_add(data.len());
                    let malformed = Malformed::Value { what, found, offset: bundle.offset, expected };
                    return self.broken(&place, around, Error::malformed(data.path(), malformed));
                };
                left = rest;
                self.look(&place, data, depth)?;
            } else if self.spend(&place, around, |budget| budget.take(entry.size()))? {
                let content = match bundle.content(index) {
                    Ok(content) => content,
                    Err(error @ Error::Temporary { .. }) => return Err(error),
                    Err(_) => continue,
                };
                // Its offsets count from its own start, not from that of what was inflated around it.
                let content = content.as_slice();
                let content = Input::set_aside(content.path(), content.bytes()).with_path(content.path())?;
                self.look(&place.inflated(), content.as_slice(), depth)?;
            }
        }
        Ok(())
    }

    fn bitcode(&mut self, place: &Place, data: Slice<'_>, depth: u32) -> Result<()> {
        let embedded = match bitcode::embedded_objects(data.bytes(), data.offset()).with_path(data.path()) {
            Ok(embedded) => embedded,
            Err(error) => return self.broken(place, data, error),
        };
        let path = data.path();
        let objects: Vec<Input> = embedded.contents.into_iter().map(|object| Input::from_bytes(path, object)).collect();
        let in_order = embedded.order.into_iter().filter_map(|index| objects.get(index));
        for (index, object) in in_order.enumerate() {
            self.look(&place.join(Step::Embedded(index)).inflated(), object.as_slice(), depth)?;
        }
        Ok(())
    }

    /// An ELF file for a GPU: a bundle of one, so to speak.
    fn code_object(&mut self, place: &Place, data: Slice<'_>) -> Result<()> {
        let container = amdgpu::Bare;
        match Bundles::new(data, &container, self.scan.inflate).next() {
            Some(Ok(bundle)) => {
                let found = Found { place, format: Format::CodeObject, index: 0, bundle: &bundle };
                self.tell(2, data, Finding::Bundle(found))
            }
            Some(Err(error)) => self.broken(place, data, error),
            None => Ok(()),
        }
    }

    fn object(&mut self, place: &Place, data: Slice<'_>, depth: u32) -> Result<()> {
        let sections = match sections::read(data.bytes(), data.offset()).with_path(data.path()) {
            Ok(sections) => sections,
            Err(error) if host::is_certainly_object(data.bytes()) => return self.broken(place, data, error),
            Err(_) => return Ok(()),
        };
        if let Some(hidden) = sections.hidden {
            let error = Error::malformed(data.path(), hidden);
            self.tell(1, data, Finding::Hidden { place, error })?;
        } else if sections.count == 0 && data.bytes().starts_with(ELF_MAGIC) {
            self.unread(place, data, NO_SECTIONS)?;
        }
        for name in sections.empty {
            self.unread(&place.join(Step::Section(name)), data, NO_CONTENT)?;
        }
        if sections.chosen.iter().any(|section| section.holds == Holds::FatObject) {
            self.bundles(place, data, &FatObject, |_| Ok(Format::FatObject), depth)?;
        }
        for section in sections.chosen {
            self.section(place, data, section, sections.is_linked, depth)?;
        }
        Ok(())
    }

    fn section(
        &mut self,
        place: &Place,
        data: Slice<'_>,
        section: Chosen<Holds>,
        is_linked: bool,
        depth: u32,
    ) -> Result<()> {
        let Chosen { holds, name, range } = section;
        let section = data.slice(range.start, range.end.saturating_sub(range.start));
        let section = section.ok_or(Error::Internal("no such section"))?;
        let place = place.join(Step::Section(name));
        match holds {
            Holds::FatObject => Ok(()),
            Holds::Unread(_) if section.is_empty() => Ok(()),
            Holds::Unread(what) => self.unread(&place, section, what),
            Holds::Containers => match Look::at(section.bytes()) {
                Look::Bundles | Look::OffloadBinaries => self.look(&place, section, depth),
                // In an object that is yet to be linked, the code may come from another one.
                _ if section.is_empty() => Ok(()),
                _ if !is_linked && section.bytes().iter().take(4096).all(|&byte| byte == 0) => Ok(()),
                _ => self.tell(1, data, Finding::Trailing { place: &place, offset: section.offset() }),
            },
        }
    }

    fn archive(&mut self, place: &Place, data: Slice<'_>, depth: u32) -> Result<()> {
        let archive = match Archive::read(data) {
            Ok(archive) => archive,
            Err(error) => return self.broken(place, data, error),
        };
        for member in archive.members() {
            let member = match member {
                Ok(member) => member,
                Err(error) => return self.broken(place, data, error),
            };
            // Many members may share a long name.
            let name = len_u64(member.name);
            if !self.spend(place, data, |budget| budget.take(name))? {
                return Ok(());
            }
            let place = place.join(Step::Member(member.name.to_vec()));
            match member.location {
                Location::Inside(slice) => self.look(&place, slice, depth)?,
                Location::Beside(path) => self.beside(&place, data, &path, depth)?,
            }
            data.looked_at();
        }
        Ok(())
    }

    /// A member of a thin archive, which is a file of its own.
    fn beside(&mut self, place: &Place, around: Slice<'_>, path: &Path, depth: u32) -> Result<()> {
        let place = place.clone().in_file(path);
        let input = match self.sources.enter(path) {
            Ok(input) => input,
            Err(error) => return self.broken(&place, around, error),
        };
        self.budget.add_file(input.len());
        let looked = self.look(&place, input.as_slice(), depth);
        self.sources.leave();
        input.vouch_for(looked)
    }

    fn zip(&mut self, place: &Place, data: Slice<'_>, depth: u32) -> Result<()> {
        let (members, error) = zip::members(data);
        for member in members {
            let place = place.join(Step::Member(member.name));
            match member.content {
                Ok(content) if content.method.is_none() => self.stored_member(&place, data, &content, depth)?,
                Ok(content) => self.inflated_member(place.inflated(), &content, depth)?,
                Err(error) => self.broken(&place, data, error)?,
            }
            data.looked_at();
        }
        error.map_or(Ok(()), |error| self.broken(place, data, error))
    }

    /// A member whose bytes are in the zip file as they are, so that nothing of it has to be read for finding out what it is.
    fn stored_member(&mut self, place: &Place, around: Slice<'_>, content: &ZipContent<'_>, depth: u32) -> Result<()> {
        let before = self.bundles;
        self.look(place, content.stored, depth)?;
        let is_checked = match self.scan.checksums {
            Checksums::None => false,
            Checksums::OfFound => self.bundles > before,
            Checksums::OfAll => true,
        };
        match if is_checked { content.check() } else { Ok(()) } {
            Err(error) => self.broken(place, around, content.error(error)),
            Ok(()) => Ok(()),
        }
    }

    fn inflated_member(&mut self, place: Place, content: &ZipContent<'_>, depth: u32) -> Result<()> {
        let path = content.stored.path();
        let input = match content.head(HEAD).map(|head| Look::at(&head)) {
            Ok(Look::Nothing) => return Ok(()),
            Ok(Look::Unread(what)) => {
                return self.tell(1, content.stored, Finding::Unread { place: &place, offset: 0, what });
            }
            Ok(_) if content.size > self.scan.limits.inflated => {
                let (what, offset, limit) = ("the member", content.stored.offset(), self.scan.limits.inflated);
                let claim = Malformed::Claim { what, offset, claimed: content.size, limit };
                return self.broken(&place, content.stored, Error::malformed(path, claim));
            }
            Ok(_) if !self.spend(&place, content.stored, |budget| budget.take(content.size))? => return Ok(()),
            Ok(_) => content.reader().and_then(|reader| Input::spool(path, reader)),
            Err(error) => Err(error),
        };
        match input {
            Ok(input) => self.look(&place, input.as_slice(), depth),
            Err(error) => self.broken(&place, content.stored, content.error(error)),
        }
    }
}

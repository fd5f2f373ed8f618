//! Making bundles smaller: compressed anew, or without the code for some GPUs.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use super::present::Present;
use super::{Event, Observer};
use crate::container::binary::Binary;
use crate::container::sequence::{Bundle, Bundles, Inflate};
use crate::container::stream::Compression;
use crate::container::{Container, Member, Part, compressed};
use crate::error::{Error, Result, WithPath};
use crate::id::OffloadKind;
use crate::input::{Input, Slice};
use crate::meter::{Meter, emit};
use crate::output::{self, Output};
use crate::piece::{Piece, Sink, total_len};
use crate::scan::{CodeObject, Format, Found, Place, Selection, Wide, device_sections};

/// The largest alignment that is kept: that of memory pages.
const ALIGNMENT_MAX: u64 = 4096;

/// Compresses the bundles of a file anew, and leaves code objects out.
///
/// The file holds bundles, one or many in a row, or is an ELF file with bundles in its `.hip_fatbin` section. In the
/// latter each bundle stays at its offset, since the program has its address; what it no longer needs becomes a hole
/// in the file.
#[derive(Clone, Debug)]
pub struct Recompress {
    /// The file to read.
    pub input: PathBuf,
    /// The file to write, which may be the same.
    pub output: PathBuf,
    /// How the bundles are compressed; `None` leaves them plain.
    pub compression: Option<Compression>,
    /// If there is one, only the code objects that it takes are kept, and those of hosts.
    pub keep: Option<Selection>,
    /// The code objects that it takes are left out.
    pub drop: Option<Selection>,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recompressed {
    /// How many bundles there are.
    pub bundles: usize,
    /// How many of them are as they were, because they would have become larger.
    pub unchanged: usize,
    /// How many code objects were left out.
    pub dropped: usize,
    /// What the bundles took before, in bytes.
    pub before: u64,
    /// What they take now.
    pub after: u64,
    /// The bytes of the file that have become holes.
    pub holes: u64,
}

impl Recompress {
    /// Writes the file.
    ///
    /// # Errors
    /// Any of [`Error`]; the output is then what it was before. [`Error::NoBundle`] if there is nothing to compress,
    /// [`Error::NoMatch`] if `keep` or `drop` takes nothing, [`Error::NoRoom`] if a bundle that is to be inflated does
    /// not fit where it is.
    pub fn run(&self, observer: &mut Observer<'_>) -> Result<Recompressed> {
        let input = Input::open(&self.input)?;
        let data = input.as_slice();
        let mut work = Work {
            job: self,
            output: Output::stage(&self.output)?,
            position: 0,
            result: Recompressed::default(),
            taken: 0,
            present: Present::default(),
            left: 0,
        };
        if data.bytes().starts_with(b"\x7fELF") {
            work.program(data, observer)?;
            // As linkers do with programs and libraries.
            if self.input.metadata().is_ok_and(|metadata| metadata.permissions().mode() & 0o111 != 0) {
                work.output.make_executable()?;
            }
        } else {
            work.sequence(data, observer)?;
        }
        work.finish(data)
    }
}

/// The work under way.
struct Work<'j> {
    job: &'j Recompress,
    output: Output,
    /// How many bytes of the output there are.
    position: u64,
    result: Recompressed,
    /// How many code objects `keep` or `drop` took.
    taken: usize,
    /// What is there.
    present: Present,
    /// How many code objects of devices are left.
    left: usize,
}

impl Work<'_> {
    /// Bundles in a row, which move together.
    fn sequence(&mut self, data: Slice<'_>, observer: &mut Observer<'_>) -> Result<()> {
        let mut bundles = Bundles::new(data, &Wide, Inflate::Whole);
        while let Some(bundle) = bundles.next().transpose()? {
            // A fat object is linked as what it is, and would be none any more.
            if Wide::format_of(bundle.beginning()) == Some(Format::FatObject) {
                return Err(Error::NoBundle { path: data.path().to_owned() });
            }
            let padding = self.position.next_multiple_of(alignment(bundle.offset)).saturating_sub(self.position);
            self.position = self.position.saturating_add(padding);
            emit(&[Piece::Zeros(padding)], &mut self.output, &mut Meter::silent())?;
            self.bundle(data, &bundle, None, observer)?;
        }
        match bundles.stopped_at() {
            Some(offset) if self.result.bundles > 0 => self.copy(data, offset..data.len()),
            _ => Ok(()),
        }
    }

    /// The sections of a program, in which each bundle keeps its place.
    fn program(&mut self, data: Slice<'_>, observer: &mut Observer<'_>) -> Result<()> {
        let mut sections = device_sections(data.bytes(), data.offset()).with_path(data.path())?;
        // The table of sections may have any order. Two sections in one place are one.
        sections.sort_by_key(|section| section.start);
        for section in sections {
            if section.start < self.position {
                continue;
            }
            let section = data.slice(section.start, section.end.saturating_sub(section.start));
            let section = section.ok_or(Error::Internal("no such section"))?;
            if Wide::format_of(section.bytes()) != Some(Format::Bundle)
                && !section.bytes().starts_with(compressed::MAGIC)
            {
                continue;
            }
            let end = section.offset().saturating_add(section.len());
            let mut bundles = Bundles::new(section, &Wide, Inflate::Whole);
            let mut next = bundles.next().transpose()?;
            while let Some(bundle) = next {
                next = bundles.next().transpose()?;
                let end = next.as_ref().map_or(bundles.stopped_at().unwrap_or(end), |next| next.offset);
                self.copy(data, self.position..bundle.offset)?;
                self.bundle(data, &bundle, Some(end.saturating_sub(bundle.offset)), observer)?;
            }
        }
        self.copy(data, self.position..data.len())
    }

    /// Writes a bundle anew, into `room` bytes if it must stay where it is.
    fn bundle(
        &mut self,
        data: Slice<'_>,
        bundle: &Bundle<'_>,
        room: Option<u64>,
        observer: &mut Observer<'_>,
    ) -> Result<()> {
        let contents = self.contents(data, bundle)?;
        let members: Vec<Member<'_>> =
            contents.iter().map(|(id, content)| Member { id: id.clone(), content: content.as_slice() }).collect();
        let changed = members.len() != bundle.entries.len();
        let pieces = if changed {
            match Wide::text_of(bundle.beginning()) {
                Some(text) => text.plan(&members)?,
                None => Binary { alignment: bundle_alignment(bundle) }.plan(&members)?,
            }
        } else {
            vec![Piece::Input(bundle.whole().ok_or(Error::Internal("the bundle is not inflated"))?)]
        };
        let mut tell = |done, total| observer(Event::Progress { done, total });
        let mut len = total_len(&pieces);
        let mut scratch = None;
        if let Some(compression) = &self.job.compression {
            let mut deflated = Output::stage(&self.job.output)?;
            let deflation = compressed::write(&pieces, compression, None, &mut deflated, &mut Meter::new(&mut tell))?;
            observer(Event::Deflated(deflation));
            let deflated = Input::of_file(&self.job.output, deflated.file()?)?;
            len = deflated.len();
            scratch = Some(deflated);
        }
        let stored = bundle.stored_len;
        self.result.bundles = self.result.bundles.saturating_add(1);
        self.result.before = self.result.before.saturating_add(stored);
        if !changed && len >= stored && (self.job.compression.is_some() || bundle.compressed.is_none()) {
            self.result.unchanged = self.result.unchanged.saturating_add(usize::from(len > stored));
            len = stored;
            let old = data.slice(bundle.offset.saturating_sub(data.offset()), stored);
            self.output.copy(old.ok_or(Error::Internal("no such bundle"))?)?;
        } else if room.is_some_and(|room| len > room) {
            let (path, offset) = (data.path().to_owned(), bundle.offset);
            return Err(Error::NoRoom { path, offset, needed: len, room: room.unwrap_or_default() });
        } else {
            match &scratch {
                Some(scratch) => self.output.copy(scratch.as_slice())?,
                None => emit(&pieces, &mut self.output, &mut Meter::silent())?,
            }
        }
        self.result.after = self.result.after.saturating_add(len);
        let hole = room.map_or(0, |room| room.saturating_sub(len));
        self.output.skip(hole)?;
        self.result.holes = self.result.holes.saturating_add(hole.min(stored.saturating_sub(len)));
        self.position = self.position.saturating_add(len).saturating_add(hole);
        Ok(())
    }

    /// The code objects that are kept, with their IDs; of a bundle that stays whole, none is restored.
    fn contents<'b>(
        &mut self,
        data: Slice<'_>,
        bundle: &'b Bundle<'_>,
    ) -> Result<Vec<(String, crate::container::sequence::Content<'b>)>> {
        let place = Place::of_file(data.path());
        let found = Found { place: &place, format: Format::Bundle, index: 0, bundle };
        let mut contents = Vec::new();
        for code_object in found.code_objects() {
            if self.keeps(&code_object) {
                let id = String::from_utf8(code_object.id().to_vec());
                let id = id.map_err(|_| Error::Usage("an entry ID is no UTF-8; its bundle can only be kept whole"));
                contents.push((id, code_object.index()));
            } else {
                self.result.dropped = self.result.dropped.saturating_add(1);
            }
        }
        let whole = contents.len() == bundle.entries.len();
        let restored = contents.into_iter().map(|(id, index)| {
            let id = if whole { id.unwrap_or_default() } else { id? };
            Ok((id, bundle.content(index)?))
        });
        restored.collect()
    }

    fn keeps(&mut self, code_object: &CodeObject<'_>) -> bool {
        self.present.note(code_object);
        let is_host = code_object.entry_id().is_some_and(|id| id.kind() == OffloadKind::Host);
        let taken = |selection: &Option<Selection>| selection.as_ref().map(|selection| selection.takes(code_object));
        let (keep, drop) = (taken(&self.job.keep), taken(&self.job.drop));
        self.taken = self.taken.saturating_add(usize::from(keep == Some(true) || drop == Some(true)));
        let kept = drop != Some(true) && (is_host || keep != Some(false));
        self.left = self.left.saturating_add(usize::from(kept && !is_host));
        kept
    }

    fn copy(&mut self, data: Slice<'_>, range: std::ops::Range<u64>) -> Result<()> {
        let len = range.end.saturating_sub(range.start);
        self.output.copy(data.slice(range.start, len).ok_or(Error::Internal("no such range"))?)?;
        self.position = self.position.saturating_add(len);
        Ok(())
    }

    fn finish(mut self, data: Slice<'_>) -> Result<Recompressed> {
        if self.result.bundles == 0 {
            return Err(Error::NoBundle { path: data.path().to_owned() });
        }
        let selections = [&self.job.keep, &self.job.drop].into_iter().flatten();
        let patterns = selections.flat_map(|selection| &selection.targets).map(|pattern| pattern.as_str().to_owned());
        let targets: Vec<String> = patterns.collect();
        if !targets.is_empty() && self.taken == 0 {
            return Err(Error::NoMatch { targets, present: self.present.into_ids() });
        }
        if !targets.is_empty() && self.left == 0 {
            return Err(Error::Usage("no code object for any device would be left"));
        }
        self.output.end_at(self.position)?;
        output::commit(vec![self.output])?;
        Ok(self.result)
    }
}

/// The largest power of two that an offset is a multiple of, up to that of memory pages.
fn alignment(offset: u64) -> u64 {
    if offset == 0 { ALIGNMENT_MAX } else { 1 << offset.trailing_zeros().min(ALIGNMENT_MAX.trailing_zeros()) }
}

/// What all code objects of a bundle are aligned to.
fn bundle_alignment(bundle: &Bundle<'_>) -> std::num::NonZeroU32 {
    let starts = bundle.entries.iter().flat_map(|entry| &entry.parts).filter_map(|part| match part {
        Part::Range(range) if !range.is_empty() => Some(alignment(range.start)),
        _ => None,
    });
    let alignment = starts.min().and_then(|alignment| u32::try_from(alignment).ok());
    alignment.and_then(std::num::NonZeroU32::new).unwrap_or(std::num::NonZeroU32::MIN)
}

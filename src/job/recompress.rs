//! Making bundles smaller: compressed anew, or without the code for some GPUs.

use std::collections::HashSet;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::present::Present;
use super::share::check_size;
use super::unmatched::Unmatched;
use super::{Event, Observer, open};
use crate::container::binary::Binary;
use crate::container::magic::Magic;
use crate::container::sequence::{Bundle, Bundles, Content, Inflate};
use crate::container::stream::Compression;
use crate::container::text::Text;
use crate::container::{Container, Limits, Member, Part, compressed};
use crate::error::{Error, ErrorKind, Malformed, Result, Want, WithPath};
use crate::io::input::{Accept, Slice};
use crate::io::meter::{Meter, emit};
use crate::io::output::{self, Output};
use crate::io::piece::{Piece, Sink, sum, total_len};
use crate::scan::{Budget, Format, KnownId, Selection, Wide, bundle_sections, file_kind};

/// The largest alignment that is kept: that of memory pages.
const ALIGNMENT_MAX: u64 = 4096;

/// Compresses the bundles of a file anew, and leaves code objects out.
///
/// The file holds bundles, one or many in a row, or is an ELF file with bundles in its `.hip_fatbin` section.
///
/// # Which form a bundle gets
///
/// The smallest of these, and of equal ones the first:
///
/// 1. as it was, unless code objects of it are left out;
/// 2. compressed anew;
/// 3. plain, unless the place where it ends would be lost: that of a text bundle that was compressed, or of any bundle that
///    was compressed together with something behind it.
///
/// With [`compression`](Self::compression) `None`, every bundle is plain, and a place that would be lost is an error unless
/// nothing follows.
///
/// # Where it goes
///
/// In an ELF file each bundle stays at its offset, since the program has its address; what it no longer needs becomes a
/// hole in the file. A bundle whose form does not fit before what follows it is an error. So is a section that shares
/// bytes with bundles, as neither can be rewritten without the other.
///
/// Bundles in a row move together. Each begins at the first offset behind the one before it that is a multiple of the
/// same power of two, up to 4096, as its old offset, and of no higher one. All that stands behind the last bundle is
/// kept, zeros too.
///
/// So a file of plain bundles that is recompressed comes back byte by byte when it is recompressed again without
/// compression, if nothing was left out and each bundle begins as near to the one before it as some power of two up to
/// 4096 allows: one behind another without padding, or where a page begins. What is lost of other files is padding
/// between bundles that no such alignment asks for, and that a bundle was compressed before. An ELF file of plain bundles
/// always comes back, since nothing in it moves.
#[derive(Clone, Debug)]
#[non_exhaustive]
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
    /// How much compressed bundles may inflate to.
    pub limits: Limits,
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
    /// The bundles are compressed in the default way, and all of their code objects are kept.
    pub fn new(input: impl Into<PathBuf>, output: impl Into<PathBuf>) -> Self {
        let compression = Some(Compression::default());
        Self {
            input: input.into(),
            output: output.into(),
            compression,
            keep: None,
            drop: None,
            limits: Limits::default(),
        }
    }

    /// Writes the file.
    ///
    /// # Errors
    /// Any of [`Error`]; the output is then what it was before. [`Error::Unsupported`] if there is nothing to compress,
    /// [`Error::NoMatch`] if a pattern of `keep` or all of `drop` take nothing. [`Error::Refused`] of the kind
    /// [`NotFound`](ErrorKind::NotFound) if nothing for a device is left, [`Limit`](ErrorKind::Limit) if a bundle does not fit
    /// where it is, [`Unsupported`](ErrorKind::Unsupported) if sections overlap, if the end of a bundle would be lost, and, of a
    /// bundle that loses code objects, if an ID cannot be written or a text bundle holds more than them.
    pub fn run(&self, observer: &mut Observer<'_>) -> Result<Recompressed> {
        let input = open(&self.input, Accept::Finite, self.limits.streamed)?;
        let work = Work {
            job: self,
            data: input.as_slice(),
            output: Output::stage(&self.output)?,
            budget: Budget::new(self.limits, input.len()),
            position: 0,
            result: Recompressed::default(),
            keep: self.keep.as_ref().map(Unmatched::of),
            drops: false,
            present: Present::default(),
            left: 0,
        };
        let (mut output, result) = input.vouch_for(work.write(observer))?;
        // As linkers do with programs and libraries.
        if Magic::identify(input.bytes()).is_elf() && input.mode().is_some_and(|mode| mode & 0o111 != 0) {
            output.make_executable()?;
        }
        output::commit(vec![output])?;
        Ok(result)
    }
}

impl Recompressed {
    fn count(&mut self, stored_len: u64, chosen: &Chosen) {
        self.bundles = self.bundles.saturating_add(1);
        self.unchanged = self.unchanged.saturating_add(usize::from(chosen.would_grow));
        self.before = self.before.saturating_add(stored_len);
        self.after = self.after.saturating_add(chosen.len);
    }
}

/// A bundle without compression, and without what is left out of it.
struct Plain<'p> {
    pieces: Vec<Piece<'p>>,
    /// Whether anything is left out.
    is_changed: bool,
    /// Whether it is a text bundle, which ends only where the file does.
    is_text: bool,
    /// Whether it was compressed together with anything behind it that is not zero.
    has_tail: bool,
}

impl<'p> Plain<'p> {
    /// With these members, or with all that it has if there are none given.
    fn of(path: &Path, bundle: &'p Bundle<'_>, members: Option<&[Member<'p>]>) -> Result<Self> {
        let whole = bundle.whole().ok_or(Error::Internal("the bundle is not inflated"))?;
        let text = Text::of(bundle.beginning());
        if members.is_some() && text.is_some_and(|text| text.len_of(&bundle.entries) != whole.len()) {
            let offset = bundle.offset;
            let reason =
                format!("cannot drop entries of the text bundle at offset {offset}: it has text between its entries");
            return Err(Error::refused(ErrorKind::Unsupported, path, offset, reason));
        }
        // A text bundle of nothing would be no bundle.
        let text = text.filter(|_| members.is_none_or(|members| !members.is_empty()));
        let mut pieces = match (members, text) {
            (None, _) => vec![Piece::Input(whole)],
            (Some(members), Some(text)) => text.plan(members)?,
            (Some(members), None) => Binary { alignment: bundle_alignment(bundle) }.plan(members)?,
        };
        let tail = whole.slice(bundle.inflated_len, whole.len().saturating_sub(bundle.inflated_len));
        let tail = tail.filter(|tail| tail.bytes().iter().any(|&byte| byte != 0));
        let has_tail = tail.is_some();
        pieces.extend(tail.filter(|_| members.is_some()).map(Piece::Input));
        Ok(Self { pieces, is_changed: members.is_some(), is_text: text.is_some(), has_tail })
    }
}

/// What a bundle becomes.
#[derive(PartialEq, Eq)]
enum Form {
    /// The bytes that it has.
    AsItWas,
    /// A plain bundle.
    Plain,
    /// A compressed one, which the output has already.
    Compressed,
}

/// The form of a bundle that was chosen.
struct Chosen {
    form: Form,
    /// Its length in bytes.
    len: u64,
    /// Whether the bundle is left as it was because it would be larger otherwise.
    would_grow: bool,
}

/// The work under way.
struct Work<'j> {
    job: &'j Recompress,
    data: Slice<'j>,
    output: Output,
    /// What all bundles may come to, as in a search.
    budget: Budget,
    /// How many bytes of the output there are.
    position: u64,
    result: Recompressed,
    keep: Option<Unmatched<'j>>,
    /// Whether `drop` took anything.
    drops: bool,
    /// What is there.
    present: Present,
    /// How many code objects of devices are left.
    left: usize,
}

impl<'j> Work<'j> {
    /// Writes the whole output, but does not put it in place.
    fn write(mut self, observer: &mut Observer<'_>) -> Result<(Output, Recompressed)> {
        if Magic::identify(self.data.bytes()).is_elf() {
            self.program(observer)?;
        } else {
            self.sequence(observer)?;
        }
        self.finish()
    }

    /// Bundles in a row, which move together.
    fn sequence(&mut self, observer: &mut Observer<'_>) -> Result<()> {
        let mut bundles = Bundles::new(self.data, &Wide, Inflate::Whole).with_limits(self.job.limits);
        let mut end = 0;
        while let Some(bundle) = bundles.next().transpose()? {
            if self.is_fat_object(&bundle)? {
                break;
            }
            let padding = first_aligned_as(bundle.offset, self.position).saturating_sub(self.position);
            self.advance(padding)?;
            emit(&[Piece::Zeros(padding)], &mut self.output, &mut Meter::silent())?;
            self.bundle(&bundle, None, observer)?;
            end = bundle.range()?.end;
        }
        // Whether it is padding, nobody can tell.
        if self.result.bundles > 0 { self.copy(end..self.data.len()) } else { Ok(()) }
    }

    /// The sections of a program, in which each bundle keeps its place.
    fn program(&mut self, observer: &mut Observer<'_>) -> Result<()> {
        for section in bundle_sections(self.data)? {
            let end = section.offset().saturating_add(section.len());
            let mut bundles = Bundles::new(section, &Wide, Inflate::Whole).with_limits(self.job.limits);
            let mut next = bundles.next().transpose()?;
            while let Some(bundle) = next {
                if self.is_fat_object(&bundle)? {
                    break;
                }
                next = bundles.next().transpose()?;
                let end = next.as_ref().map_or(bundles.stopped_at().unwrap_or(end), |next| next.offset);
                self.copy(self.position..bundle.offset)?;
                self.bundle(&bundle, Some(end.saturating_sub(bundle.offset)), observer)?;
            }
        }
        self.copy(self.position..self.data.len())
    }

    /// A fat object is linked as what it is, and would be none any more: it is not for this job.
    fn is_fat_object(&self, bundle: &Bundle<'_>) -> Result<bool> {
        Ok(Wide::form_of(bundle).with_path(self.data.path())? == Format::FatObject)
    }

    /// Writes a bundle anew, into `room` bytes if it must stay where it is.
    fn bundle(&mut self, bundle: &Bundle<'_>, room: Option<u64>, observer: &mut Observer<'_>) -> Result<()> {
        let path = self.data.path();
        self.budget.take_bundle(bundle).map_err(|(what, limit)| {
            Error::malformed(path, Malformed::Search { what, limit, offset: bundle.offset })
        })?;
        let contents = self.kept(bundle).map(|kept| contents(path, bundle, &kept)).transpose()?;
        let members: Option<Vec<Member<'_>>> = contents.as_ref().map(|contents| contents.iter().map(member).collect());
        let plain = Plain::of(path, bundle, members.as_deref())?;
        let chosen = self.choose(bundle, &plain, observer)?;
        ensure_it_ends(self.data, bundle, &plain, &chosen.form)?;
        if let Some(room) = room.filter(|&room| chosen.len > room) {
            let (offset, needed) = (bundle.offset, chosen.len);
            let reason = format!("the bundle at offset {offset} needs {needed} bytes, but has room for only {room}");
            return Err(Error::refused(ErrorKind::Limit, path, offset, reason));
        }
        self.write_form(bundle, &plain, &chosen.form)?;
        self.result.count(bundle.stored_len()?, &chosen);
        self.advance(chosen.len)?;
        room.map_or(Ok(()), |room| self.leave_hole(room, bundle.stored_len()?, chosen.len))
    }

    /// The form that a bundle gets.
    fn choose(&mut self, bundle: &Bundle<'_>, plain: &Plain<'_>, observer: &mut Observer<'_>) -> Result<Chosen> {
        let kept = (!plain.is_changed).then_some((Form::AsItWas, bundle.stored_len()?));
        let plain_len = total_len(&plain.pieces)?;
        let Some(compression) = &self.job.compression else {
            let kept = kept.filter(|_| bundle.compressed.is_none());
            let (form, len) = kept.unwrap_or((Form::Plain, plain_len));
            return Ok(Chosen { form, len, would_grow: false });
        };
        let deflated_len = self.deflate(plain, compression, observer)?;
        let may_be_plain = bundle.compressed.is_none() || !(plain.is_text || plain.has_tail);
        let forms = [kept, Some((Form::Compressed, deflated_len)), may_be_plain.then_some((Form::Plain, plain_len))];
        let smallest = forms.into_iter().flatten().min_by_key(|(_, len)| *len);
        let (form, len) = smallest.ok_or(Error::Internal("a bundle has no form"))?;
        let would_grow = form == Form::AsItWas && deflated_len > len;
        if form != Form::Compressed {
            self.output.end_at(self.position)?;
        }
        Ok(Chosen { form, len, would_grow })
    }

    /// Writes a bundle compressed, where it goes if no other form is smaller. Returns its length in bytes.
    fn deflate(&mut self, plain: &Plain<'_>, compression: &Compression, observer: &mut Observer<'_>) -> Result<u64> {
        let mut tell = |done, total| observer(Event::Progress { done, total });
        let (to, meter) = (&mut self.output.writer()?, &mut Meter::new(&mut tell));
        let deflation = compressed::write_metered(&plain.pieces, compression, None, to, meter)?;
        observer(Event::Deflated(deflation));
        deflation.recorded.total.ok_or(Error::Internal("a new compressed bundle has no length"))
    }

    fn write_form(&mut self, bundle: &Bundle<'_>, plain: &Plain<'_>, form: &Form) -> Result<()> {
        match form {
            Form::AsItWas => {
                let old = self.data.slice(bundle.offset, bundle.stored_len()?);
                self.output.copy(old.ok_or(Error::Internal("no such bundle"))?)
            }
            Form::Plain => emit(&plain.pieces, &mut self.output, &mut Meter::silent()),
            Form::Compressed => Ok(()),
        }
    }

    /// Leaves out what a bundle does not need of its room.
    fn leave_hole(&mut self, room: u64, before: u64, after: u64) -> Result<()> {
        let hole = room.checked_sub(after).ok_or(Error::Internal("a bundle is larger than its room"))?;
        self.output.skip(hole)?;
        self.result.holes = self.result.holes.saturating_add(hole.min(before.saturating_sub(after)));
        self.advance(hole)
    }

    /// Counts bytes of the output.
    fn advance(&mut self, len: u64) -> Result<()> {
        self.position = sum([self.position, len])?;
        Ok(())
    }

    /// The code objects that are kept, by their index; none if all are.
    fn kept(&mut self, bundle: &Bundle<'_>) -> Option<Vec<usize>> {
        let kept = (0..).zip(&bundle.entries).filter(|(_, entry)| self.keeps(&KnownId::of(&entry.id, Format::Bundle)));
        let kept: Vec<usize> = kept.map(|(index, _)| index).collect();
        let dropped = bundle.entries.len().saturating_sub(kept.len());
        self.result.dropped = self.result.dropped.saturating_add(dropped);
        (dropped > 0).then_some(kept)
    }

    fn keeps(&mut self, id: &KnownId) -> bool {
        self.present.note(&id.shown);
        let is_dropped = self.job.drop.as_ref().is_some_and(|drop| drop.takes_id(id));
        self.drops |= is_dropped;
        let is_kept = self.keep.as_mut().is_none_or(|keep| keep.takes(id));
        let kept = !is_dropped && (id.is_host() || is_kept);
        self.left = self.left.saturating_add(usize::from(kept && !id.is_host()));
        kept
    }

    fn copy(&mut self, range: Range<u64>) -> Result<()> {
        let slice = range_of(self.data, &range)?;
        self.output.copy(slice)?;
        self.advance(slice.len())
    }

    fn finish(mut self) -> Result<(Output, Recompressed)> {
        if self.result.bundles == 0 {
            let what = file_kind(self.data.bytes());
            return Err(Error::Unsupported { path: self.data.path().to_owned(), what });
        }
        let wants = |selection: Unmatched<'_>| selection.into_wants(&HashSet::new()).0;
        let mut unmatched = self.keep.map(wants).unwrap_or_default();
        let dropping = self.job.drop.iter().filter(|_| !self.drops).flat_map(|drop| &drop.targets);
        unmatched.extend(dropping.map(|pattern| Want::Target(pattern.as_str().to_owned())));
        if !unmatched.is_empty() {
            let inputs = vec![self.data.path().to_owned()];
            return Err(Error::NoMatch { inputs, unmatched, present: self.present.into_shown() });
        }
        if self.result.dropped > 0 && self.left == 0 {
            return Err(Error::refused(ErrorKind::NotFound, self.data.path(), None, "no device code would be left"));
        }
        self.output.end_at(self.position)?;
        Ok((self.output, self.result))
    }
}

/// A text bundle ends where the file does, unless it is compressed.
fn ensure_it_ends(data: Slice<'_>, bundle: &Bundle<'_>, plain: &Plain<'_>, form: &Form) -> Result<()> {
    let is_last = bundle.range()?.end >= data.len();
    let next = match form {
        Form::Plain if bundle.compressed.is_none() => return Ok(()),
        Form::Plain if plain.has_tail => "the data that was compressed with it",
        Form::Plain if plain.is_text && !is_last => "the data after it",
        _ => return Ok(()),
    };
    let offset = bundle.offset;
    let reason = format!("cannot decompress the bundle at offset {offset}: it would run into {next}");
    Err(Error::refused(ErrorKind::Unsupported, data.path(), offset, reason))
}

fn member<'c>((id, content): &'c (String, Content<'_>)) -> Member<'c> {
    Member { id: id.clone(), content: content.as_slice() }
}

/// The code objects of a bundle that are kept, with their IDs.
fn contents<'b>(path: &Path, bundle: &'b Bundle<'_>, kept: &[usize]) -> Result<Vec<(String, Content<'b>)>> {
    check_size(path, bundle, kept.iter().copied())?;
    let content = |&index: &usize| {
        let id = bundle.entries.get(index).ok_or(Error::Internal("no such entry"))?.id.clone();
        let no_text = |_| {
            let offset = bundle.offset;
            let reason =
                format!("cannot drop entries of the bundle at offset {offset}: an entry ID is not valid UTF-8");
            Error::refused(ErrorKind::Unsupported, path, offset, reason)
        };
        Ok((String::from_utf8(id).map_err(no_text)?, bundle.content(index)?))
    };
    kept.iter().map(content).collect()
}

fn range_of<'d>(data: Slice<'d>, range: &Range<u64>) -> Result<Slice<'d>> {
    let len = range.end.checked_sub(range.start);
    len.and_then(|len| data.slice(range.start, len)).ok_or(Error::Internal("no such range in the file"))
}

/// The first offset from `position` that has the same alignment as `offset`, and no higher one: by that, the bundle can
/// go back to where it was.
fn first_aligned_as(offset: u64, position: u64) -> u64 {
    let wanted = alignment(offset);
    let first = position.checked_next_multiple_of(wanted).unwrap_or(u64::MAX);
    if alignment(first) == wanted { first } else { first.saturating_add(wanted) }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bundle_that_moved_can_go_back() {
        for power in 0..13 {
            let alignment_wanted = 1_u64 << power;
            for end in (0..20_000).step_by(37) {
                let offset = (end + 100_u64).next_multiple_of(alignment_wanted);
                for position in (1..20_000).step_by(111) {
                    let moved = first_aligned_as(offset, position);
                    assert!(moved >= position && moved - position < 2 * alignment(offset), "{offset} {position}");
                    assert_eq!(alignment(moved), alignment(offset), "{offset} {position}");
                    assert_eq!(first_aligned_as(moved, end + 100), offset, "{offset} {position}");
                }
            }
        }
    }
}

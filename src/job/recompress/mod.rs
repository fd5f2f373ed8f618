//! Makes bundles smaller, by compressing them again or by removing the code for some GPUs.

mod archive;
mod choice;
mod object;
mod record;
mod unsupported;
mod wheel;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::digest::are_equal;
use super::kernel_names::KernelNames;
use super::open;
use super::rewrite::{Rewriter, changed, changed_len};
use super::share::check_size;
use crate::bytes::{len_of, tail};
use crate::codec::{Codec, Compression};
use crate::container::archive::is_debian_package;
use crate::container::binary::Binary;
use crate::container::fatbin::{self, Fatbin, Packing};
use crate::container::host::elf::Header;
use crate::container::host::gaps::{elf, pe};
use crate::container::host::relocatable::Relocatable;
use crate::container::magic::Magic;
use crate::container::offload_binary::{self, ImageKind, NewImage, Version};
use crate::container::sequence::{Bundle, Bundles, Content, Inflate};
use crate::container::text::Text;
use crate::container::{Container, Entry, Limits, Member, Part, compressed};
use crate::error::{Error, ErrorKind, Malformed, Result, WithPath};
use crate::event::{Event, Observer};
use crate::io::input::{Accept, Input, Slice};
use crate::io::meter::Meter;
use crate::io::output::{self, Output};
use crate::io::piece::{Change, Piece, total_len};
use crate::runtime::Device;
use crate::scan::{Budget, BundleReader, Format, Place, Selection, Wide, bundle_sections, is_zip, movable_sections};
use choice::{Choice, Chosen};

pub use choice::{Missed, Removed};

/// The largest alignment that is kept: the size of a memory page.
const ALIGNMENT_MAX: u64 = 4096;

/// Compresses the bundles of a file again, and removes code objects.
///
/// The file holds one bundle or several in a row, or CUDA fatbins in a row, or is an ELF or PE file with any of these in its
/// sections, or an archive or a zip file of such files.
///
/// # Form
///
/// Each bundle is written in the smallest of these forms; among forms of equal size, in the first:
///
/// 1. unchanged, unless code objects are removed from it;
/// 2. compressed again;
/// 3. plain, unless the offset of its end would be lost: that of a text bundle that was compressed, or of any bundle
///    that was compressed together with data after it.
///
/// If [`compression`](Self::compression) is `None`, every bundle is plain, and losing the offset of an end is an error
/// unless nothing follows.
///
/// In a fatbin, each cubin, and PTX that was compressed, is written in the smallest form: unchanged, compressed, or plain.
/// All else stays as it was. PTX is only removed if [`drop`](Self::drop) selects it, because the driver can compile it for
/// GPUs that have no cubin. If [`compression`](Self::compression) is `None`, cubins are plain, and PTX stays as it was.
///
/// # Location
///
/// In a program or library each bundle keeps its address, since the program contains it. The pages that it no longer needs are taken
/// out, and what follows moves in the file, unless [`keep_offsets`](Self::keep_offsets) is set. If it
/// is set, and if other data follows the program, all stays at its offset, and the space becomes a hole in the file. In a relocatable
/// object, sections become shorter or longer, and symbols and relocations follow, unless other data than sections has to move; one that
/// leads into the middle of a bundle is an error. A bundle whose form does not fit before the data that
/// follows is an error. So is a section that shares bytes with bundles, because neither can be rewritten without the
/// other.
///
/// Bundles in a row move together. Each begins at the first offset after the previous one that is a multiple of the
/// same power of two as its old offset, up to 4096, and not of a higher one. Everything after the last bundle is kept,
/// including zeros.
///
/// So recompressing a file of plain bundles, and then recompressing the result without compression, restores it byte by
/// byte if nothing was removed and each bundle begins as near to the previous one as some power of two up to 4096
/// allows: directly after it without padding, or at the start of a page. In other files, two things are lost: padding
/// between bundles that no such alignment requires, and the compression of bundles that were compressed before. An ELF
/// file of plain bundles is always restored: pages that were taken out come back. So is a PE file, unless it was signed or had a
/// wrong checksum.
///
/// # Signatures
///
/// A PE file with bundles that is signed is an error, or loses its signature if [`drop_signature`](Self::drop_signature) is set.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Recompress {
    /// The file to read.
    pub input: PathBuf,
    /// The file to write, which may be the input.
    pub output: PathBuf,
    /// The compression of the bundles; `None` writes them plain.
    pub compression: Option<Compression>,
    /// The compression of code objects in fatbins, with the level of [`compression`](Self::compression); `None` uses the
    /// method that the fatbin uses already, or LZ4. Drivers before that of CUDA 12.4 read LZ4, but not zstd.
    pub fatbin_codec: Option<Codec>,
    /// The code objects to keep, besides those of hosts and PTX; `None` keeps all.
    pub keep: Option<Selection>,
    /// The GPUs for which all is kept that their runtimes could take, by the [rules of the vendors](Device), besides the code of hosts;
    /// if there are none, all is kept that [`keep`](Self::keep) does not exclude.
    pub keep_for: Vec<Device>,
    /// The kernels that are launched: code objects that define only others are removed, PTX too.
    pub keep_kernels: Option<KernelNames>,
    /// The code objects to remove.
    pub drop: Option<Selection>,
    /// Whether all stays at its offset in ELF and PE programs and libraries, which then do not become shorter.
    pub keep_offsets: bool,
    /// Whether PE files lose their signature, which would not be right any more.
    pub drop_signature: bool,
    /// Limits on the inflated size of compressed bundles.
    pub limits: Limits,
}

/// The result of recompressing a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recompressed {
    /// The number of bundles.
    pub bundles: usize,
    /// The number of bundles left unchanged because they would have become larger.
    pub unchanged: usize,
    /// The number of HIP's bundles that were plain and are compressed now.
    pub packed: usize,
    /// The number of removed code objects.
    pub dropped: usize,
    /// The size of the bundles before, in bytes.
    pub before: u64,
    /// The size of the bundles after, in bytes.
    pub after: u64,
    /// The number of bytes of the file that became holes. In a zip file there are none.
    pub holes: u64,
    /// The number of bytes by which ELF and PE files and archives became shorter.
    pub shortened: u64,
    /// The number of bytes by which ELF and PE files and archives became longer.
    pub lengthened: u64,
    /// The number of members of archives and zip files in which no code object for a device is left.
    pub emptied: usize,
    /// The numbers of a zip file; none of another file.
    pub zip: Option<RecompressedZip>,
    /// What GPUs that are named in [`Recompress::keep`] would have used, and was removed.
    pub missed: Vec<Missed>,
    /// What was removed, by the target ID, or by the bundle entry ID of code without one.
    pub removed: BTreeMap<String, Removed>,
    /// The number of HIP's bundles that have no code left for some target, since it defined none of [`Recompress::keep_kernels`].
    pub unlaunched: usize,
}

/// The result of recompressing a zip file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecompressedZip {
    /// The number of members with new contents, without the `RECORD` of a wheel.
    pub members: usize,
    /// The number of members left unchanged because they would not have become smaller.
    pub kept: usize,
    /// The size of the zip file before, in bytes.
    pub before: u64,
    /// The size of the zip file after, in bytes.
    pub after: u64,
}

impl Recompress {
    /// Compresses the bundles with the default settings and keeps all code objects.
    pub fn new(input: impl Into<PathBuf>, output: impl Into<PathBuf>) -> Self {
        let compression = Some(Compression::default());
        Self {
            input: input.into(),
            output: output.into(),
            compression,
            fatbin_codec: None,
            keep: None,
            keep_for: Vec::new(),
            keep_kernels: None,
            drop: None,
            keep_offsets: false,
            drop_signature: false,
            limits: Limits::default(),
        }
    }

    /// Writes the file.
    ///
    /// # Errors
    /// Any [`Error`]; the output is then unchanged. Its kind is [`NotFound`](ErrorKind::NotFound) if a pattern of `keep` or
    /// all of `drop` match nothing, or if no code object for a device is left, and [`Limit`](ErrorKind::Limit) if a bundle
    /// does not fit at its offset. It is [`Unsupported`](ErrorKind::Unsupported) if the file holds nothing to compress, if
    /// sections overlap, if it is signed, if the end of a bundle would be lost, or if a bundle loses code objects and has an ID that cannot
    /// be written or is a text bundle that holds other data too.
    pub fn run(&self, observer: &mut Observer<'_>) -> Result<Recompressed> {
        let input = open(&self.input, Accept::Finite, self.limits.streamed)?;
        let (mut run, output) = (Recompression::new(self, input.len()), Output::stage(&self.output)?);
        let magic = Magic::identify(input.bytes());
        let written = run.rewrite_file(input.as_slice(), output, observer);
        let finished = written.and_then(|output| Ok((output, run.finish(input.as_slice())?)));
        let (mut output, result) = input.vouch_for(finished)?;
        // As linkers do with programs and libraries.
        if is_program(magic) && input.mode().is_some_and(|mode| mode & 0o111 != 0) {
            output.make_executable()?;
        }
        output::commit(vec![output])?;
        Ok(result)
    }
}

/// A bundle in its plain form, without the removed code objects.
struct Plain<'p> {
    pieces: Vec<Piece<'p>>,
    /// Whether code objects are removed.
    is_changed: bool,
    /// Whether it is a text bundle, which ends only at the end of the file.
    is_text: bool,
    /// Whether it was compressed together with data after it that is not zero.
    has_tail: bool,
}

impl<'p> Plain<'p> {
    /// The plain form with the given members, or with all members if `members` is `None`.
    fn of(path: &Path, bundle: &'p Bundle<'_>, members: Option<&[Member<'p>]>) -> Result<Self> {
        let whole = bundle.whole().ok_or_else(|| Error::internal("the bundle is not inflated"))?;
        let text = Text::of(bundle.beginning());
        if members.is_some() && text.is_some_and(|text| text.len_of(&bundle.entries) != whole.len()) {
            let offset = bundle.offset;
            let reason = "it has text between its entries";
            let reason = format!("cannot drop entries of the text bundle at offset {offset}: {reason}");
            return Err(Error::refused(ErrorKind::Unsupported, path, offset, reason));
        }
        // A text bundle without entries would not be a bundle.
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

/// The form in which a bundle is written.
#[derive(PartialEq, Eq)]
enum BundleForm {
    /// Its old bytes.
    AsItWas,
    /// A plain bundle.
    Plain,
    /// Compressed; the output already has it.
    Compressed,
}

/// The chosen form of a bundle.
struct ChosenForm {
    form: BundleForm,
    /// Its length in bytes.
    len: u64,
    /// Whether the bundle is unchanged because it would be larger otherwise.
    would_grow: bool,
}

/// The state of a recompression: what all files have in common that it rewrites.
struct Recompression<'j> {
    job: &'j Recompress,
    /// The limit on the total inflated size of all bundles, as in a search.
    budget: Budget,
    result: Recompressed,
    choice: Choice<'j>,
    /// The only change, if one code object is replaced.
    replacing: Option<Replacing<'j>>,
    refusals: Refusals,
    span: Span,
}

/// The bundles that cannot be written without compression, which are named together.
#[derive(Default)]
struct Refusals {
    /// The first of them.
    listed: Vec<Error>,
    more: usize,
}

impl Refusals {
    const LISTED_MAX: usize = 10;

    fn add(&mut self, error: Error) {
        match self.listed.len() {
            Self::LISTED_MAX.. => self.more += 1,
            _ => self.listed.push(error),
        }
    }

    /// Adds the place to those from the one with this index on.
    fn place(&mut self, first: usize, place: &Place) {
        let inside = self.listed.split_off(first.min(self.listed.len()));
        self.listed.extend(inside.into_iter().map(|error| error.at(place)));
    }

    fn into_error(self, path: &Path) -> Option<Error> {
        let Self { mut listed, more } = self;
        if listed.len() < 2 {
            return listed.pop();
        }
        let count = listed.len() + more;
        let file = format!("'{}': ", path.display());
        let texts = listed.iter().map(ToString::to_string);
        let mut texts: Vec<String> = texts.map(|text| text.strip_prefix(&file).unwrap_or(&text).to_owned()).collect();
        texts.extend((more > 0).then(|| format!("and {more} more")));
        let reason = format!("{count} bundles cannot be written without compression: {}", texts.join("; "));
        let first = listed.first()?;
        Some(Error::refused(first.kind(), path, first.offset(), reason))
    }
}

/// The range of the job's input that the data which is being rewritten was read from, perhaps inflated.
#[derive(Clone, Copy)]
struct Span {
    start: u64,
    len: u64,
    /// The length of the input.
    of: u64,
}

impl Span {
    /// Reports that some of the data was rewritten.
    fn tell(self, done: u64, len: u64, observer: &mut Observer<'_>) {
        let done = self.start.saturating_add(scaled(done, len, self.len));
        observer(Event::Progress { done, total: self.of });
    }

    /// That of a range of the data, which has `len` bytes.
    fn part(self, range: &Range<u64>, len: u64) -> Self {
        let start = self.start.saturating_add(scaled(range.start, len, self.len));
        Self { start, len: scaled(len_of(range), len, self.len), ..self }
    }
}

/// The part of `total` that `done` is of `len`.
fn scaled(done: u64, len: u64, total: u64) -> u64 {
    let part = u128::from(done).saturating_mul(total.into()).checked_div(len.into());
    part.and_then(|part| u64::try_from(part).ok()).map_or(total, |part| part.min(total))
}

/// A code object that gets another content, in a file of which all else stays as it is.
pub(super) struct Replacing<'n> {
    /// The members of zip files that lead to it, each with its number among those of its name.
    pub(super) way: Vec<(Vec<u8>, u64)>,
    /// The offset of its bundle in the file or, if that is compressed, in the member.
    pub(super) bundle: u64,
    /// The index in the bundle.
    pub(super) index: usize,
    /// The new content.
    pub(super) content: Slice<'n>,
    /// Whether a plain bundle is compressed now; none if it was not written yet.
    pub(super) done: Option<bool>,
}

/// Writes a file with another content of one code object. Returns it, and whether a plain bundle is compressed now. None if
/// its bundle is not one that [`Recompress`] rewrites.
pub(super) fn rewrite_with<'j>(
    job: &'j Recompress,
    replacing: Replacing<'j>,
    data: Slice<'_>,
    output: Output,
    observer: &mut Observer<'_>,
) -> Result<Option<(Output, bool)>> {
    let mut run = Recompression { replacing: Some(replacing), ..Recompression::new(job, data.len()) };
    let output = run.rewrite_file(data, output, observer)?;
    Ok(run.replacing.and_then(|replacing| replacing.done).map(|is_now_compressed| (output, is_now_compressed)))
}

/// A rewritten file.
struct Rewritten {
    /// The file; incomplete if it holds no bundles.
    output: Output,
    /// Its numbers.
    result: Recompressed,
    /// Whether all code objects for devices were removed.
    is_emptied: bool,
}

/// A rewritten member.
struct MemberRewrite {
    /// The new contents; none if it is unchanged.
    new: Option<Input>,
    result: Recompressed,
    is_emptied: bool,
}

impl<'j> Recompression<'j> {
    /// A recompression of a file of `len` bytes.
    fn new(job: &'j Recompress, len: u64) -> Self {
        Self {
            job,
            budget: Budget::new(job.limits, len),
            result: Recompressed::default(),
            choice: Choice::new(job),
            replacing: None,
            refusals: Refusals::default(),
            span: Span { start: 0, len, of: len },
        }
    }

    fn rewrite_file(&mut self, data: Slice<'_>, output: Output, observer: &mut Observer<'_>) -> Result<Output> {
        match Magic::identify(data.bytes()) {
            Magic::Zip => wheel::rewrite(self, data, output, observer),
            // The sections of a program stay where they are, and so does a zip file after it.
            magic if !is_program(magic) && is_zip(data) => Err(zip_after_other_data(data)),
            _ => {
                let Rewritten { output, result, .. } =
                    self.rewrite(data, &Place::of_file(data.path()), output, observer)?;
                self.result.add(&result);
                Ok(output)
            }
        }
    }

    /// Whether a file from which this number of code objects was removed must be written even if it is not smaller.
    fn must_change(&self, dropped: usize) -> bool {
        let is_converted = self.job.compression.is_none() || self.job.fatbin_codec == Some(Codec::Lz4);
        dropped > 0 || is_converted || self.replacing.is_some()
    }

    /// Rewrites a member of an archive or a zip file, at a place.
    fn rewrite_member(&mut self, old: &Input, place: &Place, observer: &mut Observer<'_>) -> Result<MemberRewrite> {
        let refused = self.refusals.listed.len();
        let rewritten = self.rewrite(old.as_slice(), place, Output::aside()?, observer);
        self.refusals.place(refused, place);
        let Rewritten { output, result, is_emptied } = rewritten.map_err(|error| error.at(place))?;
        let new = if result.bundles > 0 { Some(output.into_input(old.path())?) } else { None };
        let is_same = new.as_ref().map(|new| are_equal(new.as_slice(), old.as_slice()).with_path(old.path()));
        let new = if is_same.transpose()? == Some(true) { None } else { new };
        Ok(MemberRewrite { new, result, is_emptied })
    }

    /// Rewrites a file at a place, from its first byte on, to `output`.
    fn rewrite(
        &mut self,
        data: Slice<'_>,
        place: &Place,
        output: Output,
        observer: &mut Observer<'_>,
    ) -> Result<Rewritten> {
        if Magic::identify(data.bytes()) == Magic::Archive
            && self.replacing.is_none()
            && !is_debian_package(data.bytes())
        {
            return archive::rewrite(self, data, place, output, observer);
        }
        if let Some((object, sections)) = self.movable(data)? {
            return object::rewrite(self, data, (&object, sections), output, observer);
        }
        match Magic::identify(data.bytes()) {
            Magic::Pe => self.rewrite_pe(data, output, observer),
            _ if self.job.keep_offsets || !elf::may_close(data.bytes()) => {
                Ok(self.rewrite_at_offsets(data, output, observer)?.0)
            }
            _ => {
                let close =
                    |made: Slice<'_>, holes: &[Range<u64>]| Ok(elf::close(made.bytes(), holes).unwrap_or_default());
                self.rewrite_opened(data, data.len(), elf::open, close, output, observer)
            }
        }
    }

    /// An ELF object in which sections with bundles and offload binaries can move, and these sections; none for all other files.
    ///
    /// # Errors
    /// Images are to be removed, and offload binaries of the object cannot move.
    fn movable<'d>(&self, data: Slice<'d>) -> Result<Option<(Relocatable<'d>, Vec<Slice<'d>>)>> {
        let is_object = Header::read(data.bytes()).is_some_and(|header| header.is_relocatable());
        if !is_object || self.replacing.is_some() {
            return Ok(None);
        }
        let object = if self.job.keep_offsets { None } else { Relocatable::read(data.bytes()) };
        let Recompress { keep, keep_for, keep_kernels, drop, .. } = self.job;
        let removes = keep.is_some() || !keep_for.is_empty() || keep_kernels.is_some() || drop.is_some();
        if object.is_none() && !removes {
            return Ok(None);
        }
        let sections = movable_sections(data)?;
        let ranges = || sections.iter().map(|section| section.offset()..section.end());
        if let Some(object) = object.filter(|object| !sections.is_empty() && object.can_change(ranges())) {
            return Ok(Some((object, sections)));
        }
        let is_offload = |section: &Slice<'_>| Magic::identify(section.bytes()) == Magic::OffloadBinary;
        if !removes || !sections.iter().any(is_offload) {
            return Ok(None);
        }
        let reason = match self.job.keep_offsets {
            true => "images cannot be removed from offload binaries at their offsets: leave out --keep-offsets",
            false => {
                "images cannot be removed from its offload binaries: other data or relocations of the object cannot follow"
            }
        };
        Err(Error::refused(ErrorKind::Unsupported, data.path(), None, reason))
    }

    /// Rewrites a PE file, without its signature if that is wanted.
    fn rewrite_pe(&mut self, data: Slice<'_>, output: Output, observer: &mut Observer<'_>) -> Result<Rewritten> {
        let unsigned = if self.job.drop_signature { aside(data, pe::unsigned(data.bytes()))? } else { None };
        let old = unsigned.as_ref().map_or(data, Input::as_slice);
        let may_close = !self.job.keep_offsets && pe::may_close(old.bytes());
        let ends = if may_close { self.ends_of_rows(old)? } else { Vec::new() };
        let open = |data: &[u8]| pe::open(data, &ends);
        let close = |made: Slice<'_>, holes: &[Range<u64>]| pe::close(made, if may_close { holes } else { &[] });
        self.rewrite_opened(old, data.len(), open, close, output, observer)
    }

    /// The ends of sections that hold nothing but bundles, and zeros after them.
    fn ends_of_rows(&self, data: Slice<'_>) -> Result<Vec<u64>> {
        let is_row = |section: &Slice<'_>| {
            let bundles = Bundles::new(*section, container_of(*section), Inflate::Headers);
            let mut bundles = bundles.with_limits(self.job.limits);
            let is_rewritten = |bundle| matches!(is_fat_object(data, &bundle), Ok(false));
            let mut is_row = false;
            for bundle in bundles.by_ref() {
                is_row = bundle.is_ok_and(is_rewritten);
                if !is_row {
                    return false;
                }
            }
            is_row && bundles.stopped_at().is_none()
        };
        Ok(bundle_sections(data)?.into_iter().filter(is_row).map(|section| section.end()).collect())
    }

    /// Rewrites a program, of a file that had `len` bytes, after what the bundles no longer needed has come back, since they may need
    /// it again. Then what they do not need is taken out.
    fn rewrite_opened(
        &mut self,
        data: Slice<'_>,
        len: u64,
        open: impl FnOnce(&[u8]) -> Option<Vec<Change<'static>>>,
        close: impl FnOnce(Slice<'_>, &[Range<u64>]) -> Result<Vec<Change<'static>>>,
        output: Output,
        observer: &mut Observer<'_>,
    ) -> Result<Rewritten> {
        let opened = aside(data, open(data.bytes()))?;
        let old = opened.as_ref().map_or(data, Input::as_slice);
        let (mut rewritten, holes) = self.rewrite_at_offsets(old, Output::aside()?, observer)?;
        if rewritten.result.bundles == 0 {
            return Ok(Rewritten { output, ..rewritten });
        }
        let made = rewritten.output.into_input(data.path())?;
        let changes = close(made.as_slice(), &holes)?;
        let is_closed =
            |hole: &&Range<u64>| changes.iter().any(|(old, new)| new.is_empty() && hole.contains(&old.start));
        let closed = holes.iter().filter(is_closed).map(len_of).fold(0, u64::saturating_add);
        rewritten.result.holes = rewritten.result.holes.saturating_sub(closed);
        rewritten.result.note_len(len, changed_len(made.as_slice(), &changes));
        rewritten.output = changed(made.as_slice(), &changes, output)?;
        Ok(rewritten)
    }

    /// Rewrites a file. In a program, all that follows a bundle stays at its offset, behind a hole. Returns the holes too.
    fn rewrite_at_offsets(
        &mut self,
        data: Slice<'_>,
        output: Output,
        observer: &mut Observer<'_>,
    ) -> Result<(Rewritten, Vec<Range<u64>>)> {
        let to = Rewriter::new(data, output);
        let mut work = FileRewrite { run: self, data, to, result: Recompressed::default(), left: 0 };
        match Magic::identify(data.bytes()) {
            magic if is_program(magic) => work.program(observer)?,
            // `package --compress` writes these again.
            Magic::OffloadBinary => {}
            _ => drop(work.sequence(data, observer)?),
        }
        work.finish()
    }

    /// The result, if the job did with `data` what it was asked to do.
    fn finish(self, data: Slice<'_>) -> Result<Recompressed> {
        if let Some(error) = self.refusals.into_error(data.path()) {
            return Err(error);
        }
        if self.result.bundles == 0 {
            if is_program(Magic::identify(data.bytes())) && is_zip(data) {
                return Err(zip_after_other_data(data));
            }
            return Err(unsupported::refusal(data));
        }
        let mut result = self.result;
        self.choice.finish(data.path(), &mut result)?;
        Ok(result)
    }
}

/// Whether a file has sections, in which bundles stay at their offsets.
fn is_program(magic: Magic) -> bool {
    magic.is_elf() || magic == Magic::Pe
}

/// A temporary file with some changes; none if there are none.
fn aside(data: Slice<'_>, changes: Option<Vec<Change<'_>>>) -> Result<Option<Input>> {
    let changed = |changes: Vec<_>| changed(data, &changes, Output::aside()?)?.into_input(data.path());
    changes.map(changed).transpose()
}

/// Whether a bundle of the data is a fat object, which this job rejects: linkers need it as an object, and a rewritten one would
/// no longer be one.
fn is_fat_object(data: Slice<'_>, bundle: &Bundle<'_>) -> Result<bool> {
    let is_other = Magic::identify(bundle.beginning()) == Magic::FatBinary || is_offload_binary(data, bundle);
    Ok(!is_other && Wide::form_of(bundle).with_path(data.path())? == Format::FatObject)
}

fn is_offload_binary(data: Slice<'_>, bundle: &Bundle<'_>) -> bool {
    tail(data.bytes(), bundle.offset).is_some_and(|data| Magic::identify(data) == Magic::OffloadBinary)
}

fn zip_after_other_data(data: Slice<'_>) -> Error {
    let reason = "it is a zip file after other data; recompress the zip file alone, then put that data before it";
    Error::refused(ErrorKind::Unsupported, data.path(), None, reason)
}

impl Recompressed {
    /// The numbers of a file that stays as it was.
    fn unchanged(self) -> Self {
        Self { after: self.before, unchanged: 0, packed: 0, holes: 0, shortened: 0, lengthened: 0, ..self }
    }

    /// Notes the lengths of the file before and after.
    fn note_len(&mut self, before: u64, after: u64) {
        (self.shortened, self.lengthened) = (before.saturating_sub(after), after.saturating_sub(before));
    }

    /// Adds the numbers of another file.
    fn add(&mut self, other: &Self) {
        self.bundles += other.bundles;
        self.unchanged += other.unchanged;
        self.packed += other.packed;
        self.dropped += other.dropped;
        self.before += other.before;
        self.after += other.after;
        self.holes += other.holes;
        self.shortened += other.shortened;
        self.lengthened += other.lengthened;
        self.emptied += other.emptied;
    }
}

/// The state of a file that is being rewritten.
struct FileRewrite<'r, 'j> {
    run: &'r mut Recompression<'j>,
    data: Slice<'r>,
    to: Rewriter<'r>,
    /// The numbers of this file.
    result: Recompressed,
    /// The number of remaining code objects for devices.
    left: usize,
}

/// Where each bundle of a row was and is now, counted from the start of the row.
type Moved = Vec<(Range<u64>, Range<u64>)>;

impl FileRewrite<'_, '_> {
    /// Rewrites bundles in a row, which move together.
    fn sequence(&mut self, row: Slice<'_>, observer: &mut Observer<'_>) -> Result<Moved> {
        let (mut moved, start) = (Vec::new(), self.to.written());
        let mut bundles = Bundles::new(row, container_of(row), Inflate::Whole).with_limits(self.run.job.limits);
        while let Some(bundle) = bundles.next().transpose()? {
            if is_fat_object(self.data, &bundle)? {
                break;
            }
            let (old, position) = (bundle.range()?, self.to.written().saturating_sub(start));
            let old = old.start.saturating_sub(row.offset())..old.end.saturating_sub(row.offset());
            let new =
                if is_offload_binary(self.data, &bundle) { position } else { first_aligned_as(old.start, position) };
            self.to.write(&[Piece::Zeros(new.saturating_sub(position))])?;
            self.to.skip_until(bundle.offset);
            self.bundle_or_refusal(&bundle, None, observer)?;
            moved.push((old, new..self.to.written().saturating_sub(start)));
        }
        Ok(moved)
    }

    /// Rewrites the sections of a program, in which each bundle stays at its offset.
    fn program(&mut self, observer: &mut Observer<'_>) -> Result<()> {
        let sections = bundle_sections(self.data)?;
        if !sections.is_empty()
            && let Some(signature) = pe::signature(self.data.bytes())
        {
            return Err(self.signed(&signature));
        }
        for section in sections {
            let end = section.offset().saturating_add(section.len());
            let mut bundles =
                Bundles::new(section, container_of(section), Inflate::Whole).with_limits(self.run.job.limits);
            let mut next = bundles.next().transpose()?;
            while let Some(bundle) = next {
                if is_fat_object(self.data, &bundle)? {
                    break;
                }
                next = bundles.next().transpose()?;
                let end = next.as_ref().map_or(bundles.stopped_at().unwrap_or(end), |next| next.offset);
                self.to.copy_until(bundle.offset)?;
                self.bundle_or_refusal(&bundle, Some(end.saturating_sub(bundle.offset)), observer)?;
            }
        }
        Ok(())
    }

    fn signed(&self, signature: &Range<u64>) -> Error {
        let remove = "remove the signature first: signtool remove /s";
        let (reason, hint) = match (self.run.job.drop_signature, &self.run.replacing) {
            (true, _) => ("cannot remove its signature: other data may follow it", remove),
            (false, Some(_)) => ("it is signed", remove),
            (false, None) => {
                ("it is signed", "recompress --drop-signature removes the signature; sign the new file again")
            }
        };
        Error::refused(ErrorKind::Unsupported, self.data.path(), signature.start, reason).with_hint(hint)
    }

    /// Rewrites a bundle, or keeps it and notes why it cannot be written without compression.
    fn bundle_or_refusal(&mut self, bundle: &Bundle<'_>, room: Option<u64>, observer: &mut Observer<'_>) -> Result<()> {
        let is_plain_wanted = self.run.job.compression.is_none() && self.run.replacing.is_none();
        match self.bundle(bundle, room, observer) {
            Err(error) if error.is_refusal() && is_plain_wanted => {
                self.run.refusals.add(error);
                self.to.take_back()?;
                self.result.bundles += 1;
                self.to.copy_until(bundle.range()?.end)
            }
            rewritten => rewritten,
        }
    }

    /// Rewrites a bundle, into `room` bytes if it must stay at its offset.
    fn bundle(&mut self, bundle: &Bundle<'_>, room: Option<u64>, observer: &mut Observer<'_>) -> Result<()> {
        let path = self.data.path();
        self.run.span.tell(bundle.offset, self.data.len(), observer);
        self.run
            .budget
            .take_bundle(bundle)
            .map_err(|(what, limit)| Error::malformed(path, Malformed::search(what, limit, bundle.offset)))?;
        let new = self.run.replacing.as_ref().map(|replacing| (replacing.index, replacing.content));
        if self.run.replacing.as_ref().is_some_and(|replacing| replacing.bundle != bundle.offset) {
            self.to.write(&[Piece::Input(self.data.claimed(&bundle.range()?)?)])?;
            return self.count(bundle, bundle.stored_len()?, false, room);
        }
        if Magic::identify(bundle.beginning()) == Magic::FatBinary {
            self.note_replaced(false);
            return self.fatbin(bundle, new, room);
        }
        if is_offload_binary(self.data, bundle) {
            return self.offload_binary(bundle, room);
        }
        let kept = if new.is_some() { Some((0..bundle.entries.len()).collect()) } else { self.kept(bundle)? };
        let mut contents = kept.map(|kept: Vec<usize>| contents(path, bundle, &kept)).transpose()?;
        if let (Some((index, content)), Some(contents)) = (new, &mut contents) {
            // Its caller compares the result with the old file.
            contents.get_mut(index).into_iter().for_each(|replaced| replaced.1 = Content::InPlace(content));
        }
        let members = contents.as_ref().map(|contents| contents.iter().map(member).collect::<Vec<_>>());
        let plain = Plain::of(path, bundle, members.as_deref())?;
        let chosen = match new {
            Some(_) => self.keep_form(bundle, &plain, room, observer)?,
            None => self.choose(bundle, &plain, observer)?,
        };
        let is_now_compressed = bundle.compressed.is_none() && chosen.form == BundleForm::Compressed;
        self.note_replaced(is_now_compressed);
        let is_for_hip = bundle.entries.iter().filter_map(Entry::entry_id).any(|id| id.kind().is_hip());
        self.result.packed += usize::from(is_now_compressed && is_for_hip);
        ensure_it_ends(self.data, bundle, &plain, &chosen.form)?;
        self.ensure_room("bundle", bundle, chosen.len, room)?;
        self.write_form(bundle, &plain, &chosen)?;
        self.count(bundle, chosen.len, chosen.would_grow, room)
    }

    /// Notes that the code object that is replaced was found, and whether its bundle is compressed because of that.
    fn note_replaced(&mut self, is_now_compressed: bool) {
        if let Some(replacing) = &mut self.run.replacing {
            replacing.done = Some(is_now_compressed);
        }
    }

    /// Rewrites a fatbin, into `room` bytes if it must stay at its offset. One code object may be `new`: its index, and its
    /// other content.
    fn fatbin(&mut self, bundle: &Bundle<'_>, new: Option<(usize, Slice<'_>)>, room: Option<u64>) -> Result<()> {
        let (path, before) = (self.data.path(), bundle.stored_len()?);
        if let Some(fault) = bundle.faults.first() {
            return Err(Error::malformed(path, fault.clone()));
        }
        let kept = if new.is_some() { None } else { self.kept(bundle)? };
        let keeps = |index: usize| kept.as_ref().is_none_or(|kept| kept.binary_search(&index).is_ok());
        let packing = match (new, &self.run.job.compression) {
            (Some((index, content)), _) => Packing::Replacing { index, content: content.bytes() },
            (None, Some(compression)) => {
                Packing::Smallest { codec: self.run.job.fatbin_codec, level: compression.level }
            }
            (None, None) => Packing::Plain,
        };
        let data = self.data.claimed(&bundle.range()?)?;
        let len = fatbin::rewrite(data, keeps, packing, self.run.job.limits.inflated, &mut self.to.output.writer()?)?;
        self.ensure_room("fatbin", bundle, len, room)?;
        self.to.count(len)?;
        let is_same = kept.is_none() && len == before && !bundle.entries.is_empty();
        let would_grow = is_same && packing != Packing::Plain;
        self.count(bundle, len, would_grow, room)
    }

    /// Rewrites an offload binary, from which images may be removed. Without images nothing is left of it.
    fn offload_binary(&mut self, bundle: &Bundle<'_>, room: Option<u64>) -> Result<()> {
        // The images of a SYCLBIN file are parts of one another.
        let is_one = bundle
            .entries
            .iter()
            .filter_map(|entry| entry.image.as_ref())
            .any(|info| info.image_kind == ImageKind::SyclBin);
        let kept = if is_one { None } else { self.kept(bundle)? };
        let Some(kept) = kept else {
            self.to.write(&[Piece::Input(self.data.claimed(&bundle.range()?)?)])?;
            return self.count(bundle, bundle.stored_len()?, false, room);
        };
        check_size(self.data.path(), bundle, kept.iter().copied())?;
        let contents = kept.iter().map(|&index| bundle.content(index)).collect::<Result<Vec<_>>>()?;
        let infos = kept.iter().map(|&index| bundle.entries.get(index)?.image.as_deref().cloned());
        let images = infos
            .zip(&contents)
            .map(|(info, content)| NewImage { info: info.unwrap_or_default(), content: content.as_slice() });
        let version = if bundle.compressed.is_some() { Version::V3 } else { Version::V2 };
        let pieces = offload_binary::plan(version, &images.collect::<Vec<_>>())?;
        self.to.write(&pieces)?;
        self.count(bundle, total_len(&pieces)?, false, room)
    }

    /// Fails if a bundle that must stay at its offset needs more than `room` bytes.
    fn ensure_room(&self, what: &str, bundle: &Bundle<'_>, needed: u64, room: Option<u64>) -> Result<()> {
        let Some(room) = room.filter(|&room| needed > room) else { return Ok(()) };
        let offset = bundle.offset;
        let reason = format!("the {what} at offset {offset} needs {needed} bytes, but has room for only {room}");
        Err(Error::refused(ErrorKind::Limit, self.data.path(), offset, reason))
    }

    /// Chooses the form of a bundle.
    fn choose(&mut self, bundle: &Bundle<'_>, plain: &Plain<'_>, observer: &mut Observer<'_>) -> Result<ChosenForm> {
        let kept = (!plain.is_changed).then_some((BundleForm::AsItWas, bundle.stored_len()?));
        let plain_len = total_len(&plain.pieces)?;
        let Some(compression) = &self.run.job.compression else {
            let kept = kept.filter(|_| bundle.compressed.is_none());
            let (form, len) = kept.unwrap_or((BundleForm::Plain, plain_len));
            return Ok(ChosenForm { form, len, would_grow: false });
        };
        let deflated_len = self.deflate(bundle, plain, compression, observer)?;
        let may_be_plain = bundle.compressed.is_none() || !(plain.is_text || plain.has_tail);
        let forms = [
            kept,
            Some((BundleForm::Compressed, deflated_len)),
            may_be_plain.then_some((BundleForm::Plain, plain_len)),
        ];
        let smallest = forms.into_iter().flatten().min_by_key(|(_, len)| *len);
        let (form, len) = smallest.unwrap_or((BundleForm::Compressed, deflated_len));
        let would_grow = form == BundleForm::AsItWas && deflated_len > len;
        if form != BundleForm::Compressed {
            self.to.take_back()?;
        }
        Ok(ChosenForm { form, len, would_grow })
    }

    /// The form that a bundle had, or the other one if that does not fit.
    fn keep_form(
        &mut self,
        bundle: &Bundle<'_>,
        plain: &Plain<'_>,
        room: Option<u64>,
        observer: &mut Observer<'_>,
    ) -> Result<ChosenForm> {
        let fits = |len: u64| room.is_none_or(|room| len <= room);
        let plain_len = total_len(&plain.pieces)?;
        let as_plain = ChosenForm { form: BundleForm::Plain, len: plain_len, would_grow: false };
        if bundle.compressed.is_none() && fits(plain_len) {
            return Ok(as_plain);
        }
        let len = self.deflate(bundle, plain, &self.run.job.compression.unwrap_or_default(), observer)?;
        if !fits(len) && fits(plain_len) && !plain.is_text && !plain.has_tail {
            self.to.take_back()?;
            return Ok(as_plain);
        }
        Ok(ChosenForm { form: BundleForm::Compressed, len, would_grow: false })
    }

    /// Compresses a bundle directly into the output, where it stays if no other form is smaller. Returns its length in
    /// bytes.
    fn deflate(
        &mut self,
        bundle: &Bundle<'_>,
        plain: &Plain<'_>,
        compression: &Compression,
        observer: &mut Observer<'_>,
    ) -> Result<u64> {
        let (span, stored, len) = (self.run.span, bundle.stored_len()?, self.data.len());
        let at = |done, total| bundle.offset.saturating_add(scaled(done, total, stored));
        let mut tell = |done, total| span.tell(at(done, total), len, observer);
        let (to, meter) = (&mut self.to.output.writer()?, &mut Meter::new(&mut tell));
        let deflation = compressed::write_metered(&plain.pieces, compression, None, to, meter)?;
        observer(Event::Deflated(deflation));
        deflation.recorded.total.ok_or_else(|| Error::internal("a new compressed bundle has no length"))
    }

    fn write_form(&mut self, bundle: &Bundle<'_>, plain: &Plain<'_>, chosen: &ChosenForm) -> Result<()> {
        match chosen.form {
            BundleForm::AsItWas => self.to.write(&[Piece::Input(self.data.claimed(&bundle.range()?)?)]),
            BundleForm::Plain => self.to.write(&plain.pieces),
            BundleForm::Compressed => self.to.count(chosen.len),
        }
    }

    /// Counts a bundle that was written with `after` bytes, and leaves the part of its room that it does not need.
    fn count(&mut self, bundle: &Bundle<'_>, after: u64, would_grow: bool, room: Option<u64>) -> Result<()> {
        let (result, before) = (&mut self.result, bundle.stored_len()?);
        result.bundles += 1;
        result.unchanged += usize::from(would_grow);
        result.before += before;
        result.after += after;
        let Some(room) = room else {
            self.to.skip_until(bundle.range()?.end);
            return Ok(());
        };
        let hole = room.checked_sub(after).ok_or_else(|| Error::internal("a bundle is larger than its room"))?;
        result.holes += hole.min(before.saturating_sub(after));
        self.to.leave_room(hole)?;
        self.to.skip_until(bundle.offset.saturating_add(room));
        Ok(())
    }

    /// The indices of the code objects to keep; `None` if all are kept.
    fn kept(&mut self, bundle: &Bundle<'_>) -> Result<Option<Vec<usize>>> {
        let Chosen { kept, devices } = self.run.choice.choose(self.data.path(), bundle)?;
        self.left += devices;
        let dropped = bundle.entries.len() - kept.len();
        self.result.dropped += dropped;
        Ok((dropped > 0).then_some(kept))
    }

    /// Whether all code objects for devices were removed.
    fn is_emptied(&self) -> bool {
        self.result.dropped > 0 && self.left == 0
    }

    /// Ends the file.
    fn finish(self) -> Result<(Rewritten, Vec<Range<u64>>)> {
        let is_emptied = self.is_emptied();
        let (output, holes) = if self.result.bundles > 0 { self.to.finish()? } else { (self.to.output, Vec::new()) };
        Ok((Rewritten { output, result: self.result, is_emptied }, holes))
    }
}

/// Whether a member of this kind may hold bundles that can be rewritten.
fn may_hold_bundles(magic: Magic) -> bool {
    let is_bundle = matches!(magic, Magic::Bundle | Magic::CompressedBundle | Magic::TextBundle | Magic::FatBinary);
    is_bundle || is_program(magic)
}

/// The container of the bundles that data begins with.
fn container_of(data: Slice<'_>) -> &'static dyn Container {
    match Magic::identify(data.bytes()) {
        Magic::FatBinary => &Fatbin,
        Magic::OffloadBinary => BundleReader::PACKAGER.container,
        _ => &Wide,
    }
}

/// Fails if the end of a text bundle would be lost: unless it is compressed, it ends only at the end of the file.
fn ensure_it_ends(data: Slice<'_>, bundle: &Bundle<'_>, plain: &Plain<'_>, form: &BundleForm) -> Result<()> {
    let is_last = bundle.range()?.end >= data.len();
    let next = match form {
        BundleForm::Plain if bundle.compressed.is_none() => return Ok(()),
        BundleForm::Plain if plain.has_tail => "the data that was compressed with it",
        BundleForm::Plain if plain.is_text && !is_last => "the data after it",
        _ => return Ok(()),
    };
    let offset = bundle.offset;
    let reason = format!("cannot decompress the bundle at offset {offset}: it would run into {next}");
    Err(Error::refused(ErrorKind::Unsupported, data.path(), offset, reason))
}

fn member<'c>((id, content): &'c (String, Content<'_>)) -> Member<'c> {
    Member { id: id.clone(), content: content.as_slice() }
}

/// The code objects of a bundle to keep, with their IDs.
fn contents<'b>(path: &Path, bundle: &'b Bundle<'_>, kept: &[usize]) -> Result<Vec<(String, Content<'b>)>> {
    check_size(path, bundle, kept.iter().copied())?;
    let content = |&index: &usize| {
        let id = bundle.entries.get(index).ok_or_else(|| Error::internal("no such entry"))?.id.clone();
        let no_text = |_| {
            let offset = bundle.offset;
            let reason = "an entry ID is not valid UTF-8";
            let reason = format!("cannot drop entries of the bundle at offset {offset}: {reason}");
            Error::refused(ErrorKind::Unsupported, path, offset, reason)
        };
        Ok((String::from_utf8(id).map_err(no_text)?, bundle.content(index)?))
    };
    kept.iter().map(content).collect()
}

/// The first offset from `position` on with exactly the alignment of `offset`, so that the bundle can be moved back to
/// its old offset later.
fn first_aligned_as(offset: u64, position: u64) -> u64 {
    let wanted = alignment(offset);
    let first = position.checked_next_multiple_of(wanted).unwrap_or(u64::MAX);
    if alignment(first) == wanted { first } else { first.saturating_add(wanted) }
}

/// The largest power of two that divides an offset, up to the size of a memory page.
fn alignment(offset: u64) -> u64 {
    if offset == 0 { ALIGNMENT_MAX } else { 1 << offset.trailing_zeros().min(ALIGNMENT_MAX.trailing_zeros()) }
}

/// The common alignment of all code objects of a bundle.
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

    #[test]
    fn a_bundle_is_aligned_as_all_its_code_objects_are() {
        for alignment in [1, 2, 8, 512, 4096].map(|alignment| std::num::NonZeroU32::new(alignment).unwrap()) {
            let binary = Binary { alignment };
            let members = ["empty", "one", "two", "six"].map(|id| {
                let content: &[u8] = if id == "empty" { b"" } else { b"abc" };
                Member { id: id.to_owned(), content: content.into() }
            });
            let mut data = Vec::new();
            crate::io::write_to(&binary.plan(&members).unwrap(), &mut data).unwrap();
            // Of an empty code object, any offset may be recorded.
            data[32..40].copy_from_slice(&3_u64.to_le_bytes());
            let bundle = Bundles::new(&data, &binary, Inflate::Headers).next().unwrap().unwrap();
            assert_eq!(bundle_alignment(&bundle), alignment);
        }
    }

    #[test]
    fn progress_is_in_proportion_and_never_more_than_all() {
        for (done, len, expected) in
            [(0, 10, 0), (1, 10, 30), (9, 10, 270), (10, 10, 300), (11, 10, 300), (u64::MAX, 1, 300), (0, 0, 300)]
        {
            assert_eq!(scaled(done, len, 300), expected, "{done} of {len}");
        }
        assert_eq!(scaled(u64::MAX - 1, u64::MAX, u64::MAX), u64::MAX - 1);
    }
}

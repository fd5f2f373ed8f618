//! Puts a changed code object back where it lies.

mod nature;
mod unchanged;

use std::ops::Range;
use std::path::PathBuf;

use super::recompress::{Recompress, Replacing, rewrite_with};
use super::rewrite::changed;
use crate::base::bytes::{len_of, len_u64, shifted, span};
use crate::base::codec::Compression;
use crate::base::error::{Error, ErrorKind, Result, WithPath};
use crate::base::io::input::{Accept, Input, Slice, vouch_for};
use crate::base::io::output::{self, Manner, Output};
use crate::base::io::piece::{Change, Piece, emit};
use crate::base::io::sys::{self, Stat};
use crate::beyond::code::check;
use crate::beyond::container::fatbin::{self, Fatbin, Packing};
use crate::beyond::scan::{BundleInfo, CodeObject, CodeObjectRef, Format, Scan, Step, bundle_sections, is_zip};
use crate::llvm::container::archive::is_debian_package;
use crate::llvm::container::binary::{ENTRY_FIELDS, header_ends};
use crate::llvm::container::magic::Magic;
use crate::llvm::container::offload_binary::plan_with;
use crate::llvm::container::{Container, Limits, Part};
use crate::llvm::event::Observer;
use crate::llvm::uri::Uri;
use crate::llvm::work::open;
use nature::Nature;
use unchanged::Survey;

/// Replaces the code object that a URI names.
///
/// - In a plain bundle, it is overwritten where it lies if the new one has room before the code object after it, or
///   before what follows the bundle in its section or file. Its size in the header changes, and nothing else.
/// - Otherwise its bundle is written again, as [`Recompress`] does: compressed if it was compressed, and if a plain one
///   no longer has room in its section; plain if only that has room. Bundles in a row move together, those in an ELF
///   file stay at their offsets, and in a wheel, `RECORD` is made right.
/// - A fatbin is written again, the code object compressed with the method that the old one has. So is an offload
///   binary that is not compressed. In a file of fatbins or offload binaries, all that follows moves. Elsewhere they
///   stay at their offset: fatbins before what follows them in their section or member, and offload binaries at their
///   old size, because readers look for the next one directly after it.
/// - A file that is a code object without a bundle becomes the new one. An ELF file without a bundle in a section or
///   an archive is overwritten by one that is not larger, and zeros.
/// - A code object in any other container is overwritten by one of the same size.
///
/// The new file is made in a temporary one, and takes its place only if it is the old one with just this code object
/// changed: both are searched completely, and all code objects, checksums and faults compared. The new code object has
/// to be of the same kind and for the same target as the old one, and complete, unless [`force`](Self::force) is set.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Replace {
    /// The code object, as [`CodeObject::uri`](crate::scan::CodeObject::uri) names it.
    pub uri: Uri,
    /// The file with the new code object.
    pub content: PathBuf,
    /// The file to write, which may be that of the URI.
    pub output: PathBuf,
    /// The compression of bundles that are compressed.
    pub compression: Compression,
    /// Limits on the inflated size of compressed bundles.
    pub limits: Limits,
    /// Whether the new code object may be anything: of another kind, for another target, or broken.
    pub force: bool,
}

/// The result of replacing a code object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Replaced {
    /// Whether nothing but the code object and its recorded size changed.
    pub is_in_place: bool,
    /// Whether its bundle was plain and is compressed now, because it had no room.
    pub is_now_compressed: bool,
    /// The size of the old code object in bytes.
    pub before: u64,
    /// The size of the new code object in bytes.
    pub after: u64,
}

/// The end of the zeros with which a range of a file begins.
fn zeros_end(file: Slice<'_>, range: Range<u64>) -> u64 {
    let zeros = file.range(&range).map_or(0, |after| after.bytes().iter().take_while(|&&byte| byte == 0).count());
    range.start.saturating_add(u64::try_from(zeros).unwrap_or_default())
}

/// The code object to replace.
struct ReplaceTarget {
    code_object: CodeObject,
    /// Its range, counted as its URI does.
    range: Range<u64>,
    /// Whether it is in a file of its own, without any container.
    is_file: bool,
    /// Whether its container is in a file of such containers, in which all may move.
    may_move: bool,
    /// The members of zip files, and others, that lead to its bundle, each with its number among those of its name.
    way: Vec<(Vec<u8>, u64)>,
    /// Whether its bytes, perhaps compressed, are a range of the file that no checksum of a zip file covers.
    is_reachable: bool,
    is_elf: bool,
    /// What it is; none if that cannot be read.
    nature: Option<Nature>,
    /// The end of the bundle and of the zeros after it that belong to nothing else.
    space_end: u64,
    /// The offset of its size in a plain bundle; none if its header does not end before it.
    size_at: Option<u64>,
    /// The end of its own bytes in the bundle, and of the zeros that may be its own: where the next code object starts,
    /// or at the end of the space.
    limit: u64,
    /// Whether another code object of the bundle has some of its bytes.
    is_shared: bool,
}

impl Replace {
    /// Replaces the code object in its file.
    pub fn new(uri: Uri, content: impl Into<PathBuf>) -> Self {
        let (output, compression, limits) = (uri.path().to_owned(), Compression::default(), Limits::default());
        Self { uri, content: content.into(), output, compression, limits, force: false }
    }

    /// Writes the file.
    ///
    /// # Errors
    /// Any [`Error`]; the output is then unchanged. an [`Error`] of the kind [`NotFound`](ErrorKind::NotFound) if no
    /// code object has the URI, [`Limit`](ErrorKind::Limit) if the new one has no room, and
    /// [`Unsupported`](ErrorKind::Unsupported) if its container cannot be written.
    pub fn run(&self, observer: &mut Observer<'_>) -> Result<Replaced> {
        let file = open(self.uri.path(), Accept::Finite, self.limits.streamed)?;
        let new = open(&self.content, Accept::Finite, self.limits.streamed)?;
        let written = self.write(&file, &new, observer).and_then(|(made, replaced)| {
            Ok((Output::holding(&self.output, Manner::Rewrite, made.as_slice())?, replaced))
        });
        let (mut output, replaced) = vouch_for([&file, &new], written)?;
        if Magic::identify(file.bytes()).is_elf() && file.mode().is_some_and(|mode| mode & 0o111 != 0) {
            output.make_executable()?;
        }
        output::commit(vec![output])?;
        Ok(replaced)
    }

    /// Makes the new file, beside the output, and checks it.
    fn write(&self, file: &Input, new: &Input, observer: &mut Observer<'_>) -> Result<(Input, Replaced)> {
        let (target, survey) = self.target(file)?;
        self.check(file, new, &target)?;
        let (before, after) = (len_of(&target.range), new.len());
        let in_place = target.in_place(file.as_slice(), new.as_slice());
        let is_in_place = in_place.is_some();
        let (output, is_now_compressed) = match in_place {
            Some(changes) => (changed(file.as_slice(), &changes, Output::aside()?)?, false),
            None => self.written_again(file, new, &target, observer)?,
        };
        let made = output.into_input(file.path())?;
        // Zeros after an ELF file without a bundle count as its own, unless it was found by content.
        let has_zeros = target.format() == Format::CodeObject && !target.is_file && after < before;
        let zeros = || vec![0; usize::try_from(before.saturating_sub(after)).unwrap_or(0)];
        let padded = has_zeros.then(|| [new.bytes(), &zeros()].concat());
        let contents = padded.as_deref().map(Slice::from).into_iter().chain([new.as_slice()]);
        if let Some(reason) = survey.difference(&made, contents)? {
            return Err(self.refused(&target, reason.to_owned()));
        }
        Ok((made, Replaced { is_in_place, is_now_compressed, before, after }))
    }

    /// Refuses what would be wrong although it can be written.
    fn check(&self, file: &Input, new: &Input, target: &ReplaceTarget) -> Result<()> {
        let refused = |reason: String| Err(self.refused(target, reason));
        let head = file.bytes();
        if is_debian_package(head) || Magic::identify(head) == Magic::Rpm {
            return refused("packages record checksums of their files".to_owned());
        }
        let is_regular = !sys::is_null(&self.output) && Stat::at(&self.output).map_or(true, |file| file.is_file());
        if self.output == self.uri.path() && !is_regular {
            return refused(
                "it cannot be written back, as it is not in a regular file; -o names another output".to_owned(),
            );
        }
        if target.is_nested() {
            return refused(
                "it is inside of another code object: extract that, replace it there, and put that back".to_owned(),
            );
        }
        if self.force {
            return Ok(());
        }
        let broken =
            check::code_object(new.bytes()).err().map(|error| format!("the new code object is broken: {error}"));
        let difference = || target.nature.as_ref()?.difference(&Nature::of(new.bytes()));
        match broken.or_else(difference) {
            Some(reason) => refused(format!("{reason}; only --force replaces it all the same")),
            None => Ok(()),
        }
    }

    /// Writes the file with the bundle written again. Returns also whether a plain one is compressed now.
    fn written_again(
        &self,
        file: &Input,
        new: &Input,
        target: &ReplaceTarget,
        observer: &mut Observer<'_>,
    ) -> Result<(Output, bool)> {
        let container = target.container(file.as_slice(), new.as_slice(), self.limits)?;
        let needed = container.as_ref().map_or(0, Input::len);
        if let Some(change) = container.as_ref().and_then(|again| target.around(again)) {
            return Ok((changed(file.as_slice(), &[change], Output::aside()?)?, false));
        }
        let mut job = Recompress::new(self.uri.path(), &self.output);
        (job.compression, job.limits, job.keep_offsets) = (Some(self.compression), self.limits, true);
        let replacing = Replacing {
            way: target.way.clone(),
            bundle: target.bundle().range.start,
            index: target.code_object.entry,
            content: new.as_slice(),
            done: None,
        };
        let written = match target.format() {
            Format::Bundle | Format::Fatbin if container.is_none() => {
                rewrite_with(&job, replacing, file.as_slice(), Output::aside()?, observer)?
            }
            _ => None,
        };
        written.ok_or_else(|| {
            let reason = target.no_room(new.len(), needed);
            self.refused(target, reason)
        })
    }

    fn refused(&self, target: &ReplaceTarget, reason: String) -> Error {
        let text = format!("'{}': {reason}", target.bundle().place);
        Error::new(ErrorKind::Unsupported, text).of_file(self.uri.path()).at_offset(target.range.start)
    }

    /// The code object, and what else the search finds.
    fn target(&self, file: &Input) -> Result<(ReplaceTarget, Survey)> {
        let is_zip = is_zip(file.as_slice());
        for deep in [false, true] {
            let scan = Scan { deep, limits: self.limits, ..Scan::default() };
            let mut target = None;
            let survey = Survey::of(file, scan, &mut |code_object| {
                let is_it = self.uri.names(code_object, file)?;
                if is_it && target.is_none() {
                    target = ReplaceTarget::of(code_object, is_zip, file)?;
                }
                Ok(is_it)
            })?;
            match target {
                Some(target) if target.is_shared => {
                    let reason = "another code object shares its bytes".to_owned();
                    return Err(self.refused(&target, reason));
                }
                Some(target) => return Ok((target, survey)),
                None => {}
            }
        }
        Err(self.uri.not_found())
    }
}

impl ReplaceTarget {
    fn of(code_object: &CodeObjectRef<'_>, is_zip: bool, file: &Input) -> Result<Option<Self>> {
        let found = code_object.found;
        let (place, info, entries) = (found.place, found.info()?, &found.bundle.entries);
        let (bundle, index) = (&info.range, code_object.index());
        // What is compressed on its own is where it is in the inflated bytes.
        let packed = code_object.packed().map(|packed| packed.range.clone());
        let is_packed = packed.is_some();
        let Some(range) = code_object.range().or(packed) else { return Ok(None) };
        let base = if found.bundle.compressed.is_some() { 0 } else { bundle.start };
        let ranges = entries.iter().flat_map(|entry| &entry.entry.parts).filter_map(|part| match part {
            Part::Range(range) if !range.is_empty() => Some(shifted(range, base)),
            _ => None,
        });
        let ranges: Vec<Range<u64>> = ranges.collect();
        let sharing = ranges.iter().filter(|other| other.start < range.end && range.start < other.end).count();
        let next = ranges.iter().map(|other| other.start).filter(|&start| start >= range.end).min();
        // The offset stands before the size.
        let ends: Vec<u64> = header_ends(entries.iter().map(|entry| entry.id())).collect();
        let id = entries.get(index).map_or(0, |entry| len_u64(entry.id()));
        let described = ends.get(index).copied().unwrap_or_default().saturating_sub(id).saturating_sub(ENTRY_FIELDS);
        let size_at = bundle.start.saturating_add(described).saturating_add(8);
        let header_end = bundle.start.saturating_add(ends.last().copied().unwrap_or_default());
        let is_code_object = found.format == Format::CodeObject;
        let is_alone = place.steps().is_empty();
        let is_zipped = is_zip && matches!(place.steps().first(), Some(Step::Member(_)));
        let container = Magic::identify(file.bytes());
        // The zeros after it may be those of another section.
        let has_own_bytes = !container.is_elf() || bundle_sections(file.as_slice()).is_ok();
        let space_end = zeros_end(file.as_slice(), bundle.end..if has_own_bytes { found.space_end } else { 0 });
        let way =
            place.uri(0..0, None)?.map(|uri| uri.members().map(|(name, number)| (name.to_vec(), number)).collect());
        Ok(Some(Self {
            is_reachable: code_object.is_in_file() && !is_zipped,
            is_file: is_code_object && is_alone && range == (0..file.len()),
            may_move: is_alone && matches!(container, Magic::FatBinary | Magic::OffloadBinary) && found.space_end > 0,
            space_end,
            way: way.unwrap_or_default(),
            is_elf: code_object.in_place().is_some_and(|data| Magic::identify(data.bytes()).is_gpu_elf()),
            nature: Nature::of_old(code_object),
            size_at: (header_end <= range.start).then_some(size_at),
            limit: next.unwrap_or(space_end),
            is_shared: !is_packed && sharing > usize::from(!range.is_empty()),
            code_object: code_object.known(&info),
            range,
        }))
    }

    fn bundle(&self) -> &BundleInfo {
        &self.code_object.bundle
    }

    fn format(&self) -> Format {
        self.bundle().format
    }

    fn is_compressed(&self) -> bool {
        self.bundle().compressed.is_some()
    }

    /// Whether it is compressed on its own, or with others.
    fn is_packed(&self) -> bool {
        self.code_object.packed.is_some()
    }

    /// Whether it is inside of another code object. In kpack archives, the last step is the bundle itself.
    fn is_nested(&self) -> bool {
        self.format() != Format::Kpack && self.bundle().place.steps().iter().any(|step| matches!(step, Step::Entry(_)))
    }

    /// Returns the new code object where the old one is, or `None` if that does not fit.
    fn in_place<'p>(&self, file: Slice<'_>, new: Slice<'p>) -> Option<Vec<Change<'p>>> {
        if self.is_file {
            return Some(vec![(self.range.clone(), vec![Piece::Input(new)])]);
        }
        if !self.is_plain() {
            return None;
        }
        let size = len_of(&self.range);
        let size_at = self.size_at.filter(|_| self.format() == Format::Bundle);
        let room = || zeros_end(file, self.range.end..self.limit).saturating_sub(self.range.start);
        let fits = match self.format() {
            // Of an empty code object, any offset may be recorded.
            Format::Bundle => size_at.is_some() && new.len() <= room(),
            Format::CodeObject if self.is_elf => new.len() <= size,
            // The header of the code object may change too.
            Format::Fatbin => false,
            _ => new.len() == size && !self.is_packed(),
        };
        let start = span(self.range.start, new.len()).end;
        let end = start.max(self.range.end);
        let zeros = len_of(&(start..end));
        let new_size = || vec![Piece::Bytes(new.len().to_le_bytes().to_vec())];
        let size = size_at.map(|at| (span(at, 8), new_size()));
        let content = (self.range.start..end, vec![Piece::Input(new), Piece::Zeros(zeros)]);
        fits.then(|| size.into_iter().chain([content]).collect())
    }

    /// Whether the bundle is in the file, not compressed, and no checksum is known to cover it.
    fn is_plain(&self) -> bool {
        !self.is_compressed() && self.is_reachable
    }

    /// The fatbin or plain offload binary, written again with the new code object.
    fn container(&self, file: Slice<'_>, new: Slice<'_>, limits: Limits) -> Result<Option<Input>> {
        if !self.is_plain() {
            return Ok(None);
        }
        let data = file.claimed(&self.bundle().range)?;
        let mut output = Output::aside()?;
        match self.format() {
            Format::Fatbin => {
                let contents = Fatbin.read(data.bytes(), data.len(), data.offset()).with_path(file.path())?;
                // Entries are counted without those that cannot be read.
                if let Some(fault) = contents.and_then(|contents| contents.faults.into_iter().next()) {
                    return Err(Error::malformed(file.path(), fault));
                }
                let packing = Packing::Replacing { index: self.code_object.entry, content: new.bytes() };
                fatbin::rewrite(data, |_| true, packing, limits.inflated, &mut output.writer()?)?;
            }
            Format::OffloadBinary => {
                let least = if self.may_move { 0 } else { data.len() };
                emit(&plan_with(data, self.code_object.entry, new, least)?, &mut output)?;
            }
            _ => return Ok(None),
        }
        output.into_input(file.path()).map(Some)
    }

    /// Its container written `again`, where the old one is; none if that does not fit.
    fn around<'p>(&self, again: &'p Input) -> Option<Change<'p>> {
        let Range { start, end } = self.bundle().range;
        let needed = start.saturating_add(again.len());
        let rest = if self.may_move { end } else { needed.max(end) };
        let zeros = if self.may_move { 0 } else { rest.saturating_sub(needed) };
        let fits = self.may_move || rest <= self.space_end;
        fits.then(|| (start..rest, vec![Piece::Input(again.as_slice()), Piece::Zeros(zeros)]))
    }

    /// Why there is no room for a code object of `len` bytes, whose container `needs` some bytes, if that is known.
    fn no_room(&self, len: u64, needs: u64) -> String {
        let (what, before) = (self.format().name(), len_of(&self.range));
        let room = self.space_end.saturating_sub(self.bundle().range.start);
        let most = |most: &str| format!("the new code object must have {most}{before} bytes, not {len}");
        match self.format() {
            Format::Bundle | Format::Fatbin if !self.is_plain() => {
                format!(
                    "the {what} is compressed with other data, which is not written again; unpack that, replace the code object in \
                     it, and pack it again"
                )
            }
            Format::Bundle => {
                format!("the bundle has no room for {len} bytes where it is, and cannot be written again there")
            }
            _ if !self.is_reachable => {
                "only code objects in bundles and fatbins can be replaced in zip files and in what is compressed; take the file \
                 out, and replace the code object in it"
                    .to_owned()
            }
            Format::OffloadBinary if self.is_compressed() => {
                "compressed offload binaries are not written again; `llvm-offload-binary` takes them apart, and packs their \
                 images again"
                    .to_owned()
            }
            Format::Fatbin | Format::OffloadBinary => format!(
                "the {what} needs {needs} bytes and has {room}: it has to stay at its offset, and can grow only in a file of its own"
            ),
            Format::Kpack if self.is_packed() => {
                "kpack archives are not written; AMD's rocm-kpack makes them from libraries, in which code objects can be replaced"
                    .to_owned()
            }
            _ if self.is_packed() => format!("{what}: a compressed code object cannot be written again"),
            Format::CodeObject => {
                format!("no bundle around it: {}", most(if self.is_elf { "at most " } else { "exactly " }))
            }
            _ => format!("{what}: {}", most("exactly ")),
        }
    }
}

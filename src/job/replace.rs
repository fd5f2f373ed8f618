//! Puts a changed code object back where it lies.

use std::ops::Range;
use std::path::PathBuf;

use super::recompress::{Recompress, Replacing, rewrite_with};
use super::unchanged::difference;
use super::{Observer, open};
use crate::bytes::{len_of, len_u64};
use crate::container::binary::{ENTRY_FIELDS, header_ends};
use crate::container::magic::Magic;
use crate::container::stream::Compression;
use crate::container::{Limits, Part};
use crate::error::{Error, ErrorKind, Result};
use crate::io::input::{Accept, Input, Slice, vouch_for};
use crate::io::meter::{Meter, emit};
use crate::io::output::{self, Output};
use crate::io::piece::Piece;
use crate::scan::{CodeObject, Finding, Format, Scan, Step, Uri, bundle_sections, recorded_target};

/// Replaces the code object that a URI names.
///
/// - In a plain bundle, it is overwritten where it lies if the new one has room before the code object after it, or before
///   what follows the bundle in its section or file. Its size in the header changes, and nothing else.
/// - Otherwise its bundle is written again, as [`Recompress`] does: compressed if it was compressed, and if a plain one no
///   longer has room in its section. Bundles in a row move together, those in an ELF file stay at their offsets, and in a
///   wheel, `RECORD` is made right.
/// - A file that is a code object without a bundle becomes the new one. An ELF file without a bundle in a section or
///   an archive is overwritten by one that is not larger, and zeros.
/// - A code object in any other container is overwritten by one of the same size.
///
/// The new file is made in a temporary one, and takes its place only if it is the old one with just this code object changed:
/// both are searched completely, and all code objects, checksums and faults compared.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Replace {
    /// The code object, as [`CodeObject::uri`] names it.
    pub uri: Uri,
    /// The file with the new code object.
    pub content: PathBuf,
    /// The file to write, which may be that of the URI.
    pub output: PathBuf,
    /// The compression of bundles that are compressed.
    pub compression: Compression,
    /// Limits on the inflated size of compressed bundles.
    pub limits: Limits,
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

/// The first bytes of a package of Debian.
const DEBIAN_PACKAGE: &[u8] = b"!<arch>\ndebian-binary";

/// The code object to replace.
struct Target {
    format: Format,
    is_compressed: bool,
    /// Whether its bytes, perhaps compressed, are a range of the file.
    is_in_file: bool,
    /// Whether it is in a file of its own, without any container.
    is_file: bool,
    /// Whether a checksum of a zip file covers it.
    is_zipped: bool,
    is_elf: bool,
    /// The target ID that it records itself.
    recorded_target: Option<String>,
    /// The place, for messages.
    place: String,
    bundle: Range<u64>,
    index: usize,
    /// The range of the code object, counted as its URI does.
    range: Range<u64>,
    /// The offset of its size in a plain bundle, and the end of the header with it.
    size_at: u64,
    header_end: u64,
    /// The start of the next code object in the bundle, or the end of the bundle.
    next: u64,
    /// Whether no code object of the bundle lies after it.
    is_last: bool,
    /// Whether another code object of the bundle has some of its bytes.
    is_shared: bool,
}

impl Replace {
    /// Replaces the code object in its file.
    pub fn new(uri: Uri, content: impl Into<PathBuf>) -> Self {
        let (output, compression, limits) = (uri.path().to_owned(), Compression::default(), Limits::default());
        Self { uri, content: content.into(), output, compression, limits }
    }

    /// Writes the file.
    ///
    /// # Errors
    /// Any [`Error`]; the output is then unchanged. [`Error::Refused`] of the kind [`NotFound`](ErrorKind::NotFound) if no
    /// code object has the URI, [`Limit`](ErrorKind::Limit) if the new one has no room, and
    /// [`Unsupported`](ErrorKind::Unsupported) if its container cannot be written.
    pub fn run(&self, observer: &mut Observer<'_>) -> Result<Replaced> {
        let file = open(self.uri.path(), Accept::Finite, self.limits.streamed)?;
        let new = open(&self.content, Accept::Finite, self.limits.streamed)?;
        let written = self.write(&file, &new, observer).and_then(|(made, replaced)| {
            let mut output = Output::stage(&self.output)?;
            emit(&[Piece::Input(made.as_slice())], &mut output, &mut Meter::silent())?;
            Ok((output, replaced))
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
        let (target, scan) = self.target(file)?;
        self.check(file, new, &target)?;
        let (before, after) = (len_of(&target.range), new.len());
        let mut output = Output::aside()?;
        let is_in_place = match target.in_place(file.as_slice(), new.as_slice())? {
            Some(pieces) => {
                emit(&pieces, &mut output, &mut Meter::silent())?;
                true
            }
            None => {
                output = self.written_again(file, new, &target, output, observer)?;
                false
            }
        };
        let made = output.into_input(file.path())?;
        let is_it = |code_object: &CodeObject<'_>| self.is_it(code_object, file);
        // Zeros after an ELF file without a bundle count as its own.
        let has_zeros = target.format == Format::CodeObject && !target.is_file && after < before;
        let zeros = || vec![0; usize::try_from(before.saturating_sub(after)).unwrap_or(0)];
        let padded = has_zeros.then(|| [new.bytes(), &zeros()].concat());
        let content = padded.as_deref().map_or_else(|| new.as_slice(), Slice::from);
        if let Some(reason) = difference([file, &made], scan, content, &is_it)? {
            return Err(self.refused(&target, ErrorKind::Unsupported, reason.to_owned()));
        }
        let is_now_compressed = !is_in_place && !target.is_compressed && {
            let bundle = made.as_slice().bytes().get(usize::try_from(target.bundle.start).unwrap_or(usize::MAX)..);
            bundle.is_some_and(|bundle| Magic::identify(bundle) == Magic::CompressedBundle)
        };
        Ok((made, Replaced { is_in_place, is_now_compressed, before, after }))
    }

    /// Refuses what would be wrong although it can be written.
    fn check(&self, file: &Input, new: &Input, target: &Target) -> Result<()> {
        let refused = |reason: String| Err(self.refused(target, ErrorKind::Unsupported, reason));
        let head = file.bytes();
        if head.starts_with(DEBIAN_PACKAGE) || Magic::identify(head) == Magic::Rpm {
            return refused("packages record checksums of their files".to_owned());
        }
        let is_regular = self.output.metadata().map_or(true, |file| file.is_file());
        if self.output == self.uri.path() && !is_regular {
            return refused(
                "it cannot be written back, as it is not in a regular file; -o names another output".to_owned(),
            );
        }
        let processor = |target: String| target.split(':').next().unwrap_or_default().to_owned();
        let [old, new] = [target.recorded_target.clone(), recorded_target(new.bytes())].map(|of| of.map(processor));
        match old.zip(new) {
            Some((old, new)) if old != new => {
                refused(format!("the new code object is for {new}, the old one for {old}"))
            }
            _ => Ok(()),
        }
    }

    /// Writes the file with the bundle written again.
    fn written_again(
        &self,
        file: &Input,
        new: &Input,
        target: &Target,
        output: Output,
        observer: &mut Observer<'_>,
    ) -> Result<Output> {
        let (before, after) = (len_of(&target.range), new.len());
        if target.format != Format::Bundle {
            let what = target.format.name();
            let reason = if !target.is_in_file || target.is_zipped {
                "only code objects in bundles can be replaced in zip files and in what is compressed".to_owned()
            } else if target.is_compressed {
                format!("{what}: a compressed one cannot be written again")
            } else {
                let most = if target.is_elf && target.format == Format::CodeObject { "at most " } else { "exactly " };
                let around = if target.format == Format::CodeObject { "no bundle around it" } else { what };
                format!("{around}: the new code object must have {most}{before} bytes, not {after}")
            };
            return Err(self.refused(target, ErrorKind::Unsupported, reason));
        }
        let mut job = Recompress::new(self.uri.path(), &self.output);
        (job.compression, job.limits) = (Some(self.compression), self.limits);
        let replacing = Replacing {
            way: self.uri.members().map(|(name, number)| (name.to_vec(), number)).collect(),
            bundle: target.bundle.start,
            index: target.index,
            content: new.as_slice(),
            is_done: false,
        };
        match rewrite_with(&job, replacing, file.as_slice(), output, observer)? {
            Some(output) => Ok(output),
            None => {
                let reason = match target.is_in_file && !target.is_compressed {
                    true => format!(
                        "the bundle has no room for {after} bytes where it is, and cannot be written again there"
                    ),
                    false => "the bundle is inside of something that cannot be written again".to_owned(),
                };
                Err(self.refused(target, ErrorKind::Unsupported, reason))
            }
        }
    }

    fn refused(&self, target: &Target, kind: ErrorKind, reason: String) -> Error {
        let text = format!("'{}': {reason}", target.place);
        Error::Refused { kind, path: self.uri.path().to_owned(), place: None, offset: Some(target.range.start), text }
    }

    /// Whether the URI names a code object.
    fn is_it(&self, code_object: &CodeObject<'_>, file: &Input) -> Result<bool> {
        Ok(code_object.uri()?.is_some_and(|uri| uri.is_same_part(&self.uri, file.len())))
    }

    /// The code object that the URI names, and the search that found it.
    fn target(&self, file: &Input) -> Result<(Target, Scan)> {
        for deep in [false, true] {
            let (mut target, scan) = (None, Scan { deep, limits: self.limits, ..Scan::default() });
            let is_zip = Magic::identify(file.bytes()) == Magic::Zip;
            scan.run(file, &mut |finding| {
                if let Finding::Bundle(found) = finding {
                    for code_object in found.code_objects() {
                        if target.is_none() && self.is_it(&code_object, file)? {
                            target = Target::of(&code_object, found.place, is_zip, file.len())?;
                        }
                    }
                }
                Ok(())
            })?;
            if let Some(target) = target {
                if target.is_shared {
                    let reason = "another code object shares its bytes".to_owned();
                    return Err(self.refused(&target, ErrorKind::Unsupported, reason));
                }
                return Ok((target, scan));
            }
        }
        let reason = format!("no code object has the URI '{}'; inspect --json prints those that there are", self.uri);
        Err(Error::refused(ErrorKind::NotFound, self.uri.path(), None, reason))
    }
}

impl Target {
    fn of(code_object: &CodeObject<'_>, place: &crate::scan::Place, is_zip: bool, file: u64) -> Result<Option<Self>> {
        let (bundle, entries, index) = (code_object.bundle_range()?, code_object.entries(), code_object.index());
        let Some(range) = code_object.range() else { return Ok(None) };
        let base = if code_object.is_compressed() { 0 } else { bundle.start };
        let absolute = |part: &Range<u64>| base.saturating_add(part.start)..base.saturating_add(part.end);
        let ranges = entries.iter().flat_map(|entry| &entry.parts).filter_map(|part| match part {
            Part::Range(range) if !range.is_empty() => Some(absolute(range)),
            _ => None,
        });
        let ranges: Vec<Range<u64>> = ranges.collect();
        let sharing = ranges.iter().filter(|other| other.start < range.end && range.start < other.end).count();
        let next = ranges.iter().map(|other| other.start).filter(|&start| start >= range.end).min();
        let ends: Vec<u64> = header_ends(entries.iter().map(|entry| entry.id.as_slice())).collect();
        let id = entries.get(index).map_or(0, |entry| len_u64(&entry.id));
        let described = ends.get(index).copied().unwrap_or_default().saturating_sub(id).saturating_sub(ENTRY_FIELDS);
        let is_code_object = code_object.format() == Format::CodeObject;
        Ok(Some(Self {
            format: code_object.format(),
            is_compressed: code_object.is_compressed(),
            is_in_file: code_object.is_in_file(),
            is_file: is_code_object && place.steps().is_empty() && range == (0..file),
            is_zipped: is_zip && matches!(place.steps().first(), Some(Step::Member(_))),
            is_elf: code_object.in_place().is_some_and(|data| Magic::identify(data.bytes()).is_gpu_elf()),
            recorded_target: code_object.recorded_target(),
            place: place.to_string(),
            // The offset stands before the size.
            size_at: bundle.start.saturating_add(described).saturating_add(8),
            header_end: bundle.start.saturating_add(ends.last().copied().unwrap_or_default()),
            next: next.unwrap_or(bundle.end),
            is_last: next.is_none(),
            is_shared: sharing > usize::from(!range.is_empty()),
            bundle,
            index,
            range,
        }))
    }

    /// The pieces of the file with the new code object where the old one is; none if that does not fit.
    fn in_place<'p>(&self, file: Slice<'p>, new: Slice<'p>) -> Result<Option<Vec<Piece<'p>>>> {
        let whole = |range: Range<u64>| file.range(&range).map(Piece::Input).ok_or(Error::Internal("no such range"));
        if self.is_file {
            return Ok(Some(vec![Piece::Input(new)]));
        }
        // What is inflated is not in the file.
        if self.is_compressed || self.is_zipped || !self.is_in_file {
            return Ok(None);
        }
        let size = len_of(&self.range);
        let is_plain_bundle = self.format == Format::Bundle;
        let fits = match self.format {
            // Of an empty code object, any offset may be recorded.
            Format::Bundle => self.header_end <= self.range.start && new.len() <= self.room(file)?,
            Format::CodeObject if self.is_elf => new.len() <= size,
            _ => new.len() == size,
        };
        if !fits {
            return Ok(None);
        }
        let end = self.range.start.saturating_add(new.len()).max(self.range.end);
        let zeros = len_of(&(self.range.start..end)).saturating_sub(new.len());
        let mut pieces = match is_plain_bundle {
            true => vec![
                whole(0..self.size_at)?,
                Piece::Bytes(new.len().to_le_bytes().to_vec()),
                whole(self.size_at.saturating_add(8)..self.range.start)?,
            ],
            false => vec![whole(0..self.range.start)?],
        };
        pieces.extend([Piece::Input(new), Piece::Zeros(zeros), whole(end..file.len())?]);
        Ok(Some(pieces))
    }

    /// The number of bytes from the start of the code object that are its own, or zeros that belong to nothing else.
    fn room(&self, file: Slice<'_>) -> Result<u64> {
        let limit = match self.is_last {
            false => self.next,
            true => self.end_of_space(file)?,
        };
        let after = file.range(&(self.range.end..limit.max(self.range.end))).ok_or(Error::Internal("no such range"))?;
        let zeros = after.bytes().iter().take_while(|&&byte| byte == 0).count();
        Ok(len_of(&self.range).saturating_add(u64::try_from(zeros).unwrap_or(u64::MAX)))
    }

    /// The end of the section or file that holds only the bundle, what is like it, and padding.
    fn end_of_space(&self, file: Slice<'_>) -> Result<u64> {
        let magic = Magic::identify(file.bytes());
        if matches!(magic, Magic::Bundle | Magic::CompressedBundle) {
            return Ok(file.len());
        }
        let sections = if magic.is_elf() { bundle_sections(file)? } else { Vec::new() };
        let holds = |section: &&Slice<'_>| section.offset() <= self.bundle.start && self.bundle.end <= section.end();
        Ok(sections.iter().find(holds).map_or(self.bundle.end, Slice::end))
    }
}

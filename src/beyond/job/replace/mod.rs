//! Replaces a code object in its file.

mod bundle;
mod kind_and_target;
mod member;
mod unchanged;

use std::ops::Range;
use std::path::{Path, PathBuf};

use super::output_file::output_file;
use super::rewrite::progress::ProgressRange;
use super::rewrite::{changed, is_program};
use crate::base::bytes::{len_of, len_u64, span, to_u64};
use crate::base::codec::Compression;
use crate::base::error::{Error, ErrorKind, Result, WithPath};
use crate::base::io::input::{Accept, Input, Slice, unless_changed};
use crate::base::io::output::{self, Output, OverwriteMode};
use crate::base::io::piece::{Piece, emit};
use crate::base::io::sys::{self, Stat};
use crate::beyond::base::io::ChangedRange;
use crate::beyond::base::io::shift_range;
use crate::beyond::code::check;
use crate::beyond::container::fatbin::{self, CodePacking, Fatbin};
use crate::beyond::container::offload_binary::plan_with;
use crate::beyond::container::package::is_debian_package;
use crate::beyond::container::{Magic, Rule, SearchEntry};
use crate::beyond::job::event::Observer;
use crate::beyond::runtime::loadable::header_ends;
use crate::beyond::scan::{
    BundleInfo, CodeObject, CodeObjectRef, Format, FoundBundle, Place, Scan, Step, UNKNOWN_SPACE_END, bundle_sections,
    is_zip,
};
use crate::llvm::container::binary::ENTRY_FIELDS;
use crate::llvm::container::{Container, Limits, Part};
use crate::llvm::uri::Uri;
use crate::llvm::work::open;
use bundle::NewContent;
use kind_and_target::KindAndTarget;
use member::BundleInZip;
use unchanged::FileSurvey;

/// Replaces the code object that a URI names.
///
/// - In a plain bundle, the code object is overwritten in place if the new one has room: before the next code object,
///   or before the data after the bundle. Only its size in the header changes, and nothing else.
/// - Otherwise its bundle is written again, as [`Recompress`](super::Recompress) does. It keeps its form, plain or compressed, if that has
///   room in its section, and gets the other form if not. Bundles in a row move together. Bundles in an ELF file stay
///   at their offsets. In a wheel, `RECORD` is updated.
/// - A fatbin is written again, and the new code object is compressed with the method of the old one. An offload binary
///   that is not compressed is written again too. In a file of fatbins or offload binaries, the data after it moves.
///   Elsewhere, a fatbin has room up to the next data in its section or member. An offload binary keeps its size,
///   because readers look for the next one directly after it.
/// - A file that is a code object without a bundle becomes the new one.
/// - An ELF file without a bundle, in a section or an archive, is overwritten by a code object that is not larger.
///   Zeros fill the rest.
/// - A code object in any other container is overwritten by one of the same size.
///
/// The new file is temporary at first, and is put in place only if nothing but this code object changed. Both files are
/// searched completely, and all code objects, checksums and faults are compared. The new code object must be complete,
/// and of the same kind and for the same target as the old one, unless [`force`](Self::force) is set.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Replace {
    /// The code object, as [`CodeObject::uri`](crate::scan::CodeObject::uri) names it.
    pub uri: Uri,
    /// The file with the new code object.
    pub content: PathBuf,
    /// The file to write, which may be the file of the URI. If it is a directory, the new file gets the name of the
    /// file of the URI.
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
    /// Whether its bundle was plain and is compressed now, because the plain form had no room.
    pub is_now_compressed: bool,
    /// The size of the old code object in bytes.
    pub before: u64,
    /// The size of the new code object in bytes.
    pub after: u64,
}

/// Returns the end of the zeros at the start of a range of a file. Returns the start of the range if it is empty or not
/// in the file.
fn zeros_end(file: Slice<'_>, range: Range<u64>) -> u64 {
    let Some(after) = file.range(&range) else { return range.start };
    let zeros = after.bytes().iter().take_while(|&&byte| byte == 0).count();
    range.start.saturating_add(to_u64(zeros))
}

/// The length of the offset field in an entry of a plain bundle, in bytes. The size field follows it.
const OFFSET_FIELD_LEN: u64 = 8;

/// Returns whether a path is a regular file, or does not exist yet.
fn is_regular_or_missing(path: &Path) -> bool {
    if sys::is_null(path) {
        return false;
    }
    match Stat::at(path) {
        Ok(file) => file.is_file(),
        Err(_) => true,
    }
}

/// The code object to replace.
struct ReplacedCodeObject {
    code_object: CodeObject,
    /// The range of the code object, as in its URI.
    range: Range<u64>,
    /// Whether the code object is the whole file, without any container.
    is_file: bool,
    /// Whether the file holds only containers of this format, so that the containers after this one may move.
    may_move: bool,
    /// The compressed members that lead to its bundle, each with its number among the members of its name.
    members: Vec<(Vec<u8>, u64)>,
    /// Whether its bytes, perhaps compressed, are a range of the file, and no checksum of a zip file covers them.
    is_reachable: bool,
    is_elf: bool,
    /// The kind and the target, or `None` if they cannot be read.
    kind_and_target: Option<KindAndTarget>,
    /// The end of the bundle, or of zeros after it that belong to nothing else.
    space_end: u64,
    /// The offset of the size field of its entry in a plain bundle, or `None` if the code object starts before the end
    /// of the header.
    size_field: Option<u64>,
    /// The end of the space into which the code object can grow: the start of the next code object, or `space_end`.
    growth_end: u64,
    /// Whether another code object of the bundle has some of the same bytes.
    is_shared: bool,
}

/// Counts the non-empty code objects of a bundle that have bytes in `range`, and returns the start of the next one
/// after `range`, or `None` if `range` is the last one. The ranges of `entries` count from `base`.
fn find_neighbors(entries: &[SearchEntry], base: u64, range: &Range<u64>) -> (usize, Option<u64>) {
    let (mut overlapping, mut next) = (0, None);
    for part in entries.iter().flat_map(|entry| &entry.entry.parts) {
        let Part::Range(part) = part else { continue };
        if part.is_empty() {
            continue;
        }
        let part = shift_range(part, base);
        if part.start < range.end && range.start < part.end {
            overlapping += 1;
        }
        if part.start >= range.end {
            next = Some(next.unwrap_or(u64::MAX).min(part.start));
        }
    }
    (overlapping, next)
}

/// Returns the offset of the size field of an entry in the header of a plain bundle, and the length of the header.
fn size_field_and_header_len(entries: &[SearchEntry], index: usize) -> (u64, u64) {
    // The fields of an entry are its offset, its size and the length of its ID. Then follows the ID.
    let ends: Vec<u64> = header_ends(entries.iter().map(|entry| entry.id())).collect();
    let id_len = entries.get(index).map(|entry| len_u64(entry.id())).unwrap_or_default();
    let fields = ends.get(index).copied().unwrap_or_default().saturating_sub(id_len).saturating_sub(ENTRY_FIELDS);
    (fields.saturating_add(OFFSET_FIELD_LEN), ends.last().copied().unwrap_or_default())
}

/// Returns the end of the zeros after a bundle, which belong to nothing else.
fn find_space_end(found: &FoundBundle<'_>, bundle_end: u64, file: &Input) -> u64 {
    // If sections overlap, which `bundle_sections` refuses, the zeros after the bundle may belong to another section.
    let may_overlap = Magic::identify(file.bytes()).is_elf() && bundle_sections(file.as_slice()).is_err();
    if may_overlap || found.space_end == UNKNOWN_SPACE_END {
        return bundle_end;
    }
    zeros_end(file.as_slice(), bundle_end..found.space_end)
}

impl Replace {
    /// Creates a job that replaces the code object in its file.
    pub fn new(uri: Uri, content: impl Into<PathBuf>) -> Self {
        let (output, compression, limits) = (uri.path().to_owned(), Compression::default(), Limits::default());
        Self { uri, content: content.into(), output, compression, limits, force: false }
    }

    /// Writes the file.
    ///
    /// # Errors
    /// Any [`Error`]; the output is then unchanged. The kind is [`NotFound`](ErrorKind::NotFound) if no code
    /// object has the URI, [`Limit`](ErrorKind::Limit) if the new one has no room, and
    /// [`Unsupported`](ErrorKind::Unsupported) if its container cannot be written.
    pub fn run(&self, observer: &mut Observer<'_>) -> Result<Replaced> {
        let file = open(self.uri.path(), Accept::Finite, self.limits.streamed)?;
        let new = open(&self.content, Accept::Finite, self.limits.streamed)?;
        let (mut output, replaced) = unless_changed([&file, &new], self.write(&file, &new, observer))?;
        // Linkers make programs and libraries executable. A new output is not executable yet.
        if Magic::identify(file.bytes()).is_elf()
            && let Some(mode) = file.mode()
            && mode & 0o111 != 0
        {
            output.make_executable()?;
        }
        output::commit(vec![output])?;
        Ok(replaced)
    }

    /// Writes the checked new file to the output, which is not in place yet.
    fn write(&self, file: &Input, new: &Input, observer: &mut Observer<'_>) -> Result<(Output, Replaced)> {
        let (made, replaced) = self.write_and_check(file, new, observer)?;
        let output = output_file(&self.output, self.uri.path())?;
        Ok((Output::with_content(&output, OverwriteMode::Rewrite, made.as_slice())?, replaced))
    }

    /// Writes the new file to a temporary one, and checks that only the code object differs.
    fn write_and_check(&self, file: &Input, new: &Input, observer: &mut Observer<'_>) -> Result<(Input, Replaced)> {
        let (target, survey) = self.find_target(file)?;
        self.ensure_replaceable(file, new, &target)?;
        let (before, after) = (len_of(&target.range), new.len());
        let in_place = target.change_in_place(file.as_slice(), new.as_slice());
        let is_in_place = in_place.is_some();
        let (output, is_now_compressed) = match in_place {
            Some(changes) => (changed(file.as_slice(), &changes, Output::temporary()?)?, false),
            None => self.write_bundle_again(file, new, &target, observer)?,
        };
        let made = output.into_input(file.path())?;
        // Zeros follow a smaller ELF file without a bundle. A search counts them as a part of the code object, unless
        // it finds the ELF file by its content. So the content is accepted with and without these zeros.
        let mut padded = Vec::new();
        let mut contents = vec![new.as_slice()];
        if target.format() == Format::CodeObject && !target.is_file && after < before {
            padded.extend_from_slice(new.bytes());
            padded.resize(usize::try_from(before).unwrap_or(padded.len()), 0);
            contents.push(Slice::from(&*padded));
        }
        if let Some(reason) = survey.find_difference(&made, &contents)? {
            return Err(self.refused(&target, reason.to_owned()));
        }
        Ok((made, Replaced { is_in_place, is_now_compressed, before, after }))
    }

    /// Fails if the code object must not be replaced, although the new file could be written. That is so if the file
    /// would be wrong, or if the new code object is of another kind or for another target.
    fn ensure_replaceable(&self, file: &Input, new: &Input, target: &ReplacedCodeObject) -> Result<()> {
        let head = file.bytes();
        if is_debian_package(head) || Magic::identify(head) == Magic::Rpm {
            let reason = "packages record checksums of their files";
            return Err(self.refused(target, reason.to_owned()));
        }
        if self.output == self.uri.path() && !is_regular_or_missing(&self.output) {
            let reason = "it cannot be written back, as it is not in a regular file; -o names another output";
            return Err(self.refused(target, reason.to_owned()));
        }
        if target.is_nested() {
            let reason = "it is inside of another code object: extract that, replace it there, and put that back";
            return Err(self.refused(target, reason.to_owned()));
        }
        if self.force {
            return Ok(());
        }
        let reason =
            match (check::code_object(Magic::identify(new.bytes()).code(), new.bytes()), &target.kind_and_target) {
                (Err(error), _) => Some(format!("the new code object is broken: {error}")),
                (Ok(_), Some(old)) => old.difference(&KindAndTarget::identify(new.bytes())),
                (Ok(_), None) => None,
            };
        match reason {
            Some(reason) => Err(self.refused(target, format!("{reason}; only --force replaces it all the same"))),
            None => Ok(()),
        }
    }

    /// Writes the file with the whole bundle written again. Fails if the new bundle has no room, or cannot be written.
    /// Returns also whether the bundle was plain and is compressed now.
    fn write_bundle_again(
        &self,
        file: &Input,
        new: &Input,
        target: &ReplacedCodeObject,
        observer: &mut Observer<'_>,
    ) -> Result<(Output, bool)> {
        // The new bytes of a plain fatbin or offload binary, or `None` for all other bundles.
        let container = target.write_container(file.as_slice(), new.as_slice(), self.limits)?;
        if let Some(container) = &container
            && let Some(change) = target.change_container(container)
        {
            return Ok((changed(file.as_slice(), &[change], Output::temporary()?)?, false));
        }
        let written = match target.format() {
            Format::Bundle | Format::Fatbin if container.is_none() => self.rewrite(file, new, target, observer)?,
            // The `container` has no room, or bundles of the format cannot be written again.
            _ => None,
        };
        match written {
            Some(written) => Ok(written),
            None => {
                let container_len = container.as_ref().map(Input::len);
                Err(self.refused(target, target.refusal_reason(new.len(), container_len)))
            }
        }
    }

    /// Writes the file with the bundle of the code object written again: a bundle of LLVM's format, or a fatbin in a zip
    /// file. Returns also whether the bundle was plain and is compressed now. Returns `None` if it is in data that is not
    /// written again.
    fn rewrite(
        &self,
        file: &Input,
        new: &Input,
        target: &ReplacedCodeObject,
        observer: &mut Observer<'_>,
    ) -> Result<Option<(Output, bool)>> {
        let (index, offset, data) = (target.code_object.entry, target.bundle().range.start, file.as_slice());
        let content = new.as_slice();
        let new = NewContent { index, content, compression: self.compression, limits: self.limits };
        match Magic::identify(data.bytes()) {
            Magic::Zip => BundleInZip { members: &target.members, offset }.write(data, &new, observer),
            _ if !target.members.is_empty() => Ok(None),
            // Offsets in the zip file would be wrong, because that data moves. In a program, everything stays.
            magic if !is_program(magic) && is_zip(data) => {
                let reason =
                    "a zip file after other data is not written again; replace the code object before they are joined";
                Err(self.refused(target, reason.to_owned()))
            }
            _ => {
                let progress = ProgressRange { start: 0, len: data.len(), total: data.len() };
                new.write(data, offset, progress, observer)
            }
        }
    }

    fn refused(&self, target: &ReplacedCodeObject, reason: String) -> Error {
        let text = format!("'{}': {reason}", target.bundle().place);
        Error::new(ErrorKind::Unsupported, text).with_file(self.uri.path()).at_offset(target.range.start)
    }

    /// Finds the code object, and surveys the file for the comparison with the new file. Fails if no code object has
    /// the URI, or if another code object shares its bytes and so would change too.
    fn find_target(&self, file: &Input) -> Result<(ReplacedCodeObject, FileSurvey)> {
        let is_zip = is_zip(file.as_slice());
        // A deep search is slow. It is needed only for code inside data of an unknown format.
        for deep in [false, true] {
            let scan = Scan { deep, limits: self.limits, ..Scan::default() };
            let mut target = None;
            let survey = FileSurvey::run(file, scan, &mut |code_object| {
                let is_named = self.uri.names(code_object, file)?;
                // If several code objects have the URI, `FileSurvey::find_difference` fails later.
                if is_named && target.is_none() {
                    target = ReplacedCodeObject::new(code_object, is_zip, file)?;
                }
                Ok(is_named)
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

/// Returns the compressed members that lead to a place, each with its number among the members of its name.
fn compressed_members(place: &Place) -> Result<Vec<(Vec<u8>, u64)>> {
    // A URI of the place lists its compressed members, whatever the range in it.
    const ANY_RANGE: Range<u64> = 0..0;
    let mut members = Vec::new();
    if let Some(uri) = place.uri(ANY_RANGE, None)? {
        members.extend(uri.members().map(|(name, number)| (name.to_vec(), number)));
    }
    Ok(members)
}

impl ReplacedCodeObject {
    /// Returns the properties of a code object that decide how it is replaced. Returns `None` if its bytes are not a
    /// single range, as the host code of a fat object.
    fn new(code_object: &CodeObjectRef<'_>, is_zip: bool, file: &Input) -> Result<Option<Self>> {
        let found = code_object.found;
        let (place, info, entries) = (found.place, found.info()?, &found.bundle.entries);
        let bundle = &info.range;
        // A code object that is compressed on its own has a range in the inflated bytes.
        let packed = code_object.packed().map(|packed| packed.range.clone());
        let is_packed = packed.is_some();
        let Some(range) = code_object.range().or(packed) else { return Ok(None) };
        // In a compressed bundle, ranges count from the start of the inflated bytes.
        let base = if found.bundle.compressed.is_some() { 0 } else { bundle.start };
        let (overlapping, next) = find_neighbors(entries, base, &range);
        let (size_field, header_len) = size_field_and_header_len(entries, code_object.index());
        // Any offset may be recorded for an empty code object, even one in the header. Nothing fits there, so such a
        // code object gets no `size_field`.
        let is_in_header = range.start < bundle.start.saturating_add(header_len);
        let is_code_object = found.format == Format::CodeObject;
        let is_in_file_itself = place.steps().is_empty();
        // A zip file has a checksum of each member, so no bytes of a member can be changed alone.
        let is_zipped = is_zip && matches!(place.steps().first(), Some(Step::Member(_)));
        let is_file_of_containers = is_in_file_itself
            && matches!(
                Magic::identify(file.bytes()),
                Magic::Container(Format::Fatbin) | Magic::Container(Format::OffloadBinary)
            );
        let space_end = find_space_end(&found, bundle.end, file);
        Ok(Some(Self {
            is_reachable: code_object.is_in_file() && !is_zipped,
            is_file: is_code_object && is_in_file_itself && range == (0..file.len()),
            // In a deep search, the data around the bundle is unknown, and must stay at its offset.
            may_move: is_file_of_containers && found.space_end != UNKNOWN_SPACE_END,
            space_end,
            members: compressed_members(place)?,
            is_elf: match code_object.in_place() {
                Some(data) => Magic::identify(data.bytes()).is_gpu_elf(),
                None => false,
            },
            kind_and_target: KindAndTarget::identify_old(code_object),
            size_field: if is_in_header { None } else { Some(bundle.start.saturating_add(size_field)) },
            growth_end: next.unwrap_or(space_end),
            // A code object that is not empty overlaps itself. Code objects that are compressed together do not share
            // bytes: their container is written again.
            is_shared: !is_packed && overlapping > usize::from(!range.is_empty()),
            code_object: code_object.keep(&info),
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

    /// Returns whether the code object is compressed on its own, or with others, but not with its whole bundle.
    fn is_packed(&self) -> bool {
        self.code_object.packed.is_some()
    }

    /// Returns whether the code object is inside of another one. In an archive, the last step to a bundle has its
    /// name and means no other code object.
    fn is_nested(&self) -> bool {
        !self.format().has(Rule::Archive)
            && self.bundle().place.steps().iter().any(|step| matches!(step, Step::Entry(_)))
    }

    /// Returns the changes that write the new code object in place of the old one. Returns `None` if it does not fit
    /// there, or if the container has to be written again in any case.
    fn change_in_place<'p>(&self, file: Slice<'_>, new: Slice<'p>) -> Option<Vec<ChangedRange<'p>>> {
        if self.is_file {
            return Some(vec![(self.range.clone(), vec![Piece::Input(new)])]);
        }
        if !self.is_plain_in_file() {
            return None;
        }
        let size = len_of(&self.range);
        let mut changes = Vec::new();
        let fits = match self.format() {
            Format::Bundle => {
                // Nothing fits at an offset in the header.
                let size_field = self.size_field?;
                const SIZE_FIELD_LEN: u64 = 8;
                changes.push((span(size_field, SIZE_FIELD_LEN), vec![Piece::Bytes(new.len().to_le_bytes().to_vec())]));
                new.len() <= zeros_end(file, self.range.end..self.growth_end).saturating_sub(self.range.start)
            }
            // Readers of an ELF file ignore the zeros after it.
            Format::CodeObject if self.is_elf => new.len() <= size,
            // Headers inside of a fatbin record the sizes of its code objects, so the fatbin is written again.
            Format::Fatbin => false,
            _ => new.len() == size && !self.is_packed(),
        };
        if !fits {
            return None;
        }
        // Zeros overwrite the rest of a larger old code object.
        let new_end = span(self.range.start, new.len()).end;
        let end = new_end.max(self.range.end);
        let zeros = len_of(&(new_end..end));
        changes.push((self.range.start..end, vec![Piece::Input(new), Piece::Zeros(zeros)]));
        Some(changes)
    }

    /// Returns whether the bytes of the bundle can be changed in the file: the bundle is not compressed, and no
    /// checksum of a zip file covers it.
    fn is_plain_in_file(&self) -> bool {
        !self.is_compressed() && self.is_reachable
    }

    /// Writes the fatbin or plain offload binary again, with the new code object, to a temporary file. Returns `None`
    /// for other containers.
    fn write_container(&self, file: Slice<'_>, new: Slice<'_>, limits: Limits) -> Result<Option<Input>> {
        if !self.is_plain_in_file() {
            return Ok(None);
        }
        let data = file.claimed(&self.bundle().range)?;
        let mut output = Output::temporary()?;
        match self.format() {
            Format::Fatbin => {
                let contents = Fatbin.read(data.bytes(), data.len(), data.offset()).with_path(file.path())?;
                // Broken entries are not counted, so the index would be wrong.
                if let Some(contents) = contents
                    && let Some(fault) = contents.faults.into_iter().next()
                {
                    return Err(Error::malformed(file.path(), fault));
                }
                let packing = CodePacking::Replacing { index: self.code_object.entry, content: new.bytes() };
                // All code objects are kept.
                fatbin::rewrite(data, |_| true, packing, limits.inflated, &mut output.writer()?)?;
            }
            Format::OffloadBinary => {
                // Readers look for the next offload binary directly after this one. If that must not move, this one
                // keeps its size.
                let len_min = if self.may_move { 0 } else { data.len() };
                emit(&plan_with(data, self.code_object.entry, new, len_min)?, &mut output)?;
            }
            _ => return Ok(None),
        }
        Ok(Some(output.into_input(file.path())?))
    }

    /// Returns the change that writes the new `container` in place of the old one, or `None` if there is no room for
    /// it.
    fn change_container<'p>(&self, container: &'p Input) -> Option<ChangedRange<'p>> {
        let Range { start, end } = self.bundle().range;
        if self.may_move {
            return Some((start..end, vec![Piece::Input(container.as_slice())]));
        }
        let new_end = start.saturating_add(container.len());
        // Zeros overwrite the rest of a larger old container.
        let changed_end = new_end.max(end);
        if changed_end > self.space_end {
            return None;
        }
        let zeros = changed_end.saturating_sub(new_end);
        Some((start..changed_end, vec![Piece::Input(container.as_slice()), Piece::Zeros(zeros)]))
    }

    /// Returns the reason why a code object of `len` bytes cannot replace this one. `container_len` is the size of the
    /// container with the new code object, or `None` if the container was not written again.
    fn refusal_reason(&self, len: u64, container_len: Option<u64>) -> String {
        let (format, old_len) = (self.format().name(), len_of(&self.range));
        let needed = container_len.unwrap_or_default();
        let room = self.space_end.saturating_sub(self.bundle().range.start);
        match self.format() {
            Format::Bundle | Format::Fatbin if !self.is_plain_in_file() => {
                format!(
                    "the {format} is compressed with other data, which is not written again; unpack that, replace the code object in \
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
                "the {format} needs {needed} bytes and has {room}: it has to stay at its offset, and can grow only in a file of its own"
            ),
            Format::Kpack if self.is_packed() => {
                "kpack archives are not written; AMD's rocm-kpack makes them from libraries, in which code objects can be replaced"
                    .to_owned()
            }
            _ if self.is_packed() => format!("{format}: a compressed code object cannot be written again"),
            Format::CodeObject if self.is_elf => {
                format!("no bundle around it: the new code object must have at most {old_len} bytes, not {len}")
            }
            Format::CodeObject => {
                format!("no bundle around it: the new code object must have exactly {old_len} bytes, not {len}")
            }
            _ => format!("{format}: the new code object must have exactly {old_len} bytes, not {len}"),
        }
    }
}

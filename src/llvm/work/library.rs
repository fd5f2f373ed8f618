//! Reads a library of bundles, which is an archive with bundles in its members, and writes such archives.

use std::path::Path;

use super::{FileType, report_if_inflated, report_if_plain};
use crate::base::bytes::{self, add, len_u64};
use crate::base::error::{Error, Malformed, Result};
use crate::base::io::input::{Input, Slice, unless_changed};
use crate::base::io::output::{Output, OverwriteMode};
use crate::base::io::piece::emit;
use crate::llvm::container::Limits;
use crate::llvm::container::archive::{self, Archive, ArchiveMember, InputFiles, MemberLocation, NewMember, locate};
use crate::llvm::container::sequence::{Bundle, Bundles, Inflate};
use crate::llvm::container::{Container, Entry};
use crate::llvm::event::{Event, Observer};

/// An archive whose members are open.
pub(super) struct OpenArchive {
    archive: Input,
    /// The members of a thin archive, which are files of their own, in archive order. Empty for any other archive.
    member_files: Vec<Input>,
    container: Box<dyn Container<Entry = Entry>>,
    limits: Limits,
}

/// A member of a library.
pub(super) struct LibraryMember<'a> {
    /// The name in the archive, which may contain any bytes.
    pub(super) name: &'a [u8],
    content: Slice<'a>,
    /// The library that the member is from.
    library: &'a OpenArchive,
}

impl OpenArchive {
    /// Opens an archive. The members of a thin archive are separate files, which are opened too.
    pub(super) fn open(archive: Input, limits: Limits) -> Result<Self> {
        let member_files = archive.unless_changed(open_member_files(&archive))?;
        Ok(Self { archive, member_files, container: FileType::Archive.container(), limits })
    }

    /// The length of the archive in bytes.
    pub(super) fn len(&self) -> u64 {
        self.archive.len()
    }

    /// Returns `result`, that of a job on the library, or an error if one of the library's files has changed.
    pub(super) fn unless_changed<T>(&self, result: Result<T>) -> Result<T> {
        unless_changed([&self.archive].into_iter().chain(&self.member_files), result)
    }

    /// Returns the members in archive order. Newlines and zeros after the last one are padding, and end the list
    /// without an error.
    pub(super) fn members(&self) -> Result<Vec<LibraryMember<'_>>> {
        let mut member_files = self.member_files.iter();
        let mut members = Vec::new();
        for member in Archive::read(self.archive.as_slice())?.members_before_padding() {
            let ArchiveMember { name, location, .. } = member?;
            let content = match location {
                MemberLocation::Inside(slice) => slice,
                // `open` has opened these files in the same order.
                MemberLocation::Beside(_) => member_files.next().ok_or_else(Error::no_archive)?.as_slice(),
            };
            members.push(LibraryMember { name, content, library: self });
        }
        Ok(members)
    }
}

impl<'a> LibraryMember<'a> {
    /// Passes the bundles in the member to `each`, one by one, so that only one is inflated at a time. A member that is
    /// a file without bundles is not an error: `each` is not called.
    pub(super) fn for_each_bundle(
        &self,
        inflate: Inflate,
        observer: &mut Observer<'_>,
        each: &mut dyn FnMut(Bundle<'a>, &mut Observer<'_>) -> Result<()>,
    ) -> Result<()> {
        report_if_plain(self.content, observer);
        let OpenArchive { container, limits, .. } = self.library;
        for bundle in Bundles::new(self.content, &**container, inflate).with_limits(*limits) {
            let bundle = bundle.map_err(|error| locate(error, self.library.archive.path(), self.name))?;
            report_if_inflated(&bundle, observer);
            each(bundle, observer)?;
        }
        // The member is not read again, so its pages need not stay in memory.
        self.content.note_all_read();
        Ok(())
    }
}

/// Opens the files that a thin archive names, or none for any other archive.
fn open_member_files(archive: &Input) -> Result<Vec<Input>> {
    let mut member_files = Vec::new();
    let mut sources = InputFiles::new(archive.as_slice());
    for member in Archive::read(archive.as_slice())?.members_before_padding() {
        if let MemberLocation::Beside(path) = member?.location {
            let mut input = sources.open(&path)?;
            // The mapping keeps the bytes. An archive may have more members than a process may have open files.
            input.close();
            member_files.push(input);
        }
    }
    Ok(member_files)
}

/// The maximum total length of the names of new members in bytes, in addition to the length of the input archive.
const NAMES_MAX_BEYOND_INPUT: u64 = 16 << 20;

/// Limits the memory for the names of new members. In an archive, many small members can refer to one long name, and
/// each new member would get a copy.
pub(super) struct MemberNames<'i> {
    /// The input archive, for errors.
    input: &'i Path,
    /// The total length of the names so far.
    len: u64,
    len_max: u64,
}

impl<'i> MemberNames<'i> {
    /// Starts without names. `input_len` is the length of the input archive in bytes.
    pub(super) fn new(input: &'i Path, input_len: u64) -> Self {
        Self { input, len: 0, len_max: input_len.saturating_add(NAMES_MAX_BEYOND_INPUT) }
    }

    /// Adds the length of a name to the total. Fails if the total exceeds the limit.
    pub(super) fn charge(&mut self, name: &[u8]) -> Result<()> {
        add(&mut self.len, len_u64(name));
        if self.len > self.len_max {
            let what = "length of all names of new members";
            let expected = "no more than 16 MiB beyond the archive's own";
            return Err(Error::malformed(self.input, Malformed::value(what, self.len, 0, expected)));
        }
        Ok(())
    }
}

/// Stages an archive of these members with an index of their symbols. As in LLVM, a member that cannot be indexed is
/// added nevertheless, and reported. The new file replaces an old one, even if that is not writable.
pub(super) fn write_archive(path: &Path, members: &[NewMember<'_>], observer: &mut Observer<'_>) -> Result<Output> {
    let mut output = Output::stage_as(path, OverwriteMode::Replace)?;
    let plan = archive::plan(members, &mut |member, reason| {
        observer(Event::NotIndexed { name: bytes::text_lossy(&member.name), reason: reason.to_owned() });
    })?;
    emit(&plan, &mut output)?;
    Ok(output)
}

//! Searches one of the two files of a comparison, and reads its code objects.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::super::digest::{Digest, Digester};
use super::super::kernels::{ListRoom, locate_kernel_error};
use super::Diff;
use super::names::{NameKey, RenamedMembers, members_of, unversioned};
use crate::base::bytes::len_u64;
use crate::base::error::{Error, Result, WithPath};
use crate::base::io::input::{Input, Slice};
use crate::beyond::code::kernels::{self, Kernel};
use crate::beyond::codec::Codec;
use crate::beyond::container::{ContentKind, Magic};
use crate::beyond::inventory::pick::Seen;
use crate::beyond::inventory::request::{Facts, Request};
use crate::beyond::inventory::{CodeSet, Keep, Reading, Unit, Visit};
use crate::beyond::scan::{
    Checksums, CodeObject, CodeObjectRef, CodeObjectsOfBundle, CodeObjectsWithParts, FoundBundle, OverlapLimit,
    ReadList, Scan, contents, top_member, weight_of,
};
use crate::llvm::container::sequence::Inflate;

/// A code object of either file.
#[derive(Debug)]
pub(super) struct ComparedObject<'i> {
    pub(super) code_object: Arc<CodeObject>,
    /// The names that pair code objects. Empty until both files have been searched.
    pub(super) key: NameKey,
    pub(super) stored: StoredBytes<'i>,
    pub(super) read: ReadState,
}

/// Whether the content of a code object was read.
#[derive(Debug)]
pub(super) enum ReadState {
    NotYet,
    /// Read while the search of the file has its bytes, or to be read then. If that fails, this state stays, and the
    /// error is a problem of the file.
    DuringSearch,
    Done(ReadCode),
}

/// The results of reading a code object once.
#[derive(Debug)]
pub(super) struct ReadCode {
    /// The size in bytes.
    size: u64,
    digest: Digest,
    /// The kernels, or the error of reading them, or `None` if they have to be read again.
    kernels: Option<Result<Vec<Kernel>>>,
}

impl ReadCode {
    /// Reads the digest and the kernels of a code object with the content `code`.
    pub(super) fn with_kernels(digester: &Digester, code_object: &CodeObject, code: Slice<'_>) -> Result<Self> {
        let kernels = locate_kernel_error(code_object, kernels::list(code.bytes()));
        Ok(Self { kernels: Some(kernels), ..Self::without_kernels(digester, code)? })
    }

    /// Reads the digest of the content of a code object.
    pub(super) fn without_kernels(digester: &Digester, code: Slice<'_>) -> Result<Self> {
        let digest = digester.digest(code).with_path(code.path())?;
        Ok(Self { size: len_u64(code.bytes()), digest, kernels: None })
    }

    /// Forgets the kernels if there is no room for them.
    pub(super) fn limit_kernels(&mut self, room: &mut ListRoom) {
        if let Some(Ok(kernels)) = &mut self.kernels
            && !room.reserve_for(kernels)
        {
            self.kernels = None;
        }
    }

    /// Returns the weight for [`Scan::read_with`], which limits the results that wait in memory: the number of kernels,
    /// or 1 for a digest alone.
    pub(super) fn weight(&self) -> usize {
        match &self.kernels {
            Some(Ok(kernels)) => kernels.len(),
            _ => 1,
        }
    }
}

/// The place of the stored bytes of a code object, which may be compressed.
#[derive(Clone, Copy, Debug)]
pub(super) enum StoredBytes<'i> {
    /// A range of the file.
    InFile(Slice<'i>),
    /// A range of data that was inflated for the search, and is gone. The digest of the stored bytes was computed
    /// before, because the code object cannot be inflated, or because hashes are trusted.
    Digest(Digest),
    /// Not a range of the file: in inflated data, in a compressed bundle, or in parts, as the host code of a fat object
    /// is. The code object is compared by the digest of its content.
    NotOneRange,
}

/// How a code object is compressed on its own: codec, inflated size, and the start and the end of its range in the
/// inflated bytes. `None` if it is not compressed on its own.
pub(super) type PackedForm = Option<(Codec, u64, u64, u64)>;

impl ComparedObject<'_> {
    pub(super) fn packed_form(&self) -> PackedForm {
        let packed = self.code_object.packed.as_ref()?;
        Some((packed.codec, packed.inflated, packed.range.start, packed.range.end))
    }

    /// Returns whether the content of the code object can be read. Code that is obfuscated, or compressed by an unknown
    /// method, is only compared as it is stored.
    pub(super) fn is_readable(&self) -> bool {
        match &self.code_object.packed {
            Some(packed) => packed.codec != Codec::Unknown,
            None => true,
        }
    }

    /// Returns the inflated size in bytes, or `None` if it is known only when the code object is inflated: some
    /// recorded sizes include padding.
    pub(super) fn size(&self) -> Option<u64> {
        match &self.code_object.packed {
            Some(packed) if !packed.is_exact() => None,
            _ => Some(self.code_object.size),
        }
    }

    /// Returns the size and the digest of the code object, or `None` if it was not read.
    pub(super) fn digest(&self) -> Option<(u64, Digest)> {
        match &self.read {
            ReadState::Done(read) => Some((read.size, read.digest)),
            _ => None,
        }
    }

    /// Takes the kernels, or the error of reading them. Returns `None` if they were not read, or are taken already.
    pub(super) fn take_kernels(&mut self) -> Option<Result<Vec<Kernel>>> {
        match &mut self.read {
            ReadState::Done(read) => read.kernels.take(),
            _ => None,
        }
    }

    pub(super) fn is_in_same_bundle(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.code_object.bundle, &other.code_object.bundle)
    }
}

/// The number of the finding with a code object, and the index of the code object in [`Side::objects`].
type ReadKey = (usize, usize);

/// The search results of the old or the new file.
pub(super) struct Side<'i> {
    /// The file, or `None` if the other file of the comparison has no counterpart. The results are then empty.
    pub(super) input: Option<&'i Input>,
    /// The code objects, until the comparison takes them.
    pub(super) objects: Vec<ComparedObject<'i>>,
    /// The units, whether or not their code is selected.
    pub(super) units: Vec<Unit>,
    /// The names of all members of the file, without the versions in them. Empty for a static library.
    pub(super) members: HashSet<Vec<u8>>,
    /// All code objects, selected or not.
    pub(super) seen: Seen,
    /// The problems of the file, each with the number of its finding.
    pub(super) problems: Vec<(usize, Error)>,
    /// The limits for kernels that are read before it is known whether their code object differs.
    kernel_room: ListRoom,
}

/// The arguments for the search of one file.
struct SideSearch<'s, 'i> {
    request: Request<'s>,
    digester: &'s Digester,
    input: &'i Input,
    job: &'s Diff,
    /// The members that have the same size and checksum in both files.
    equal_members: &'s HashSet<Vec<u8>>,
}

impl SideSearch<'_, '_> {
    /// Returns whether a compressed code object is compared before it is inflated: by the recorded hash of its bundle,
    /// or by its stored bytes. Only trusted hashes permit this.
    fn is_compared_before_inflation(&self, object: &ComparedObject<'_>) -> bool {
        let recorded = object.code_object.bundle.compressed;
        let has_hash = match recorded {
            Some(recorded) => recorded.hash.is_some(),
            None => false,
        };
        self.job.trust_hashes && (object.packed_form().is_some() || has_hash)
    }

    /// Returns whether a code object is in a member that has the same size and checksum in both files.
    fn is_in_equal_member(&self, object: &ComparedObject<'_>) -> bool {
        match top_member(&object.code_object.bundle.place) {
            Some(member) => self.equal_members.contains(member),
            None => false,
        }
    }
}

impl<'i> Side<'i> {
    /// Finds the code objects of a file. Reads code objects in inflated data at once, because their bytes are gone after
    /// the search. Without an `input`, the result is empty.
    ///
    /// - `is_searched` accepts the names of the members that are searched.
    /// - `equal_members` are the members with the same size and checksum in both files. Their code objects are listed,
    ///   but not read.
    pub(super) fn search(
        job: &Diff,
        digester: &Digester,
        input: Option<&'i Input>,
        is_searched: &dyn Fn(&[u8]) -> bool,
        equal_members: &HashSet<Vec<u8>>,
    ) -> Result<Self> {
        let mut side = Self {
            input,
            objects: Vec::new(),
            units: Vec::new(),
            members: HashSet::new(),
            seen: Seen::default(),
            problems: Vec::new(),
            kernel_room: ListRoom::default(),
        };
        let Some(input) = input else { return Ok(side) };
        let mut members = HashSet::new();
        // Members of a static library are objects, not libraries that can be renamed or lost.
        let are_libraries = Magic::identify(input.bytes()) != Magic::Archive;
        let mut note_and_accept = |member: &[u8]| {
            if are_libraries {
                members.insert(unversioned(member).to_vec());
            }
            is_searched(member)
        };
        let read = &|together: CodeObjectsOfBundle<'_, ReadKey, Arc<CodeObject>>| {
            contents(together, |code_object, code| ReadCode::with_kernels(digester, code_object, code))
        };
        let request = Request::new(&job.selection);
        let search = SideSearch { request, digester, input, job, equal_members };
        let checksums = if job.trust_hashes { Checksums::None } else { Checksums::OfAll };
        let scan = job.scan_with(checksums);
        let reading = Reading::new(&scan, Keep::Units).in_members(&mut note_and_accept);
        let contents = reading.run(input, read, &|read| weight_of(read, ReadCode::weight), &mut |visit| {
            match visit {
                Visit::Bundle(number, found, reads) => side.add_bundle(&search, number, &found, reads)?,
                Visit::Bad(part) => {
                    let number = part.number;
                    side.problems.extend(part.into_error().map(|error| (number, error)));
                }
                Visit::Split(..) | Visit::Archive(..) | Visit::Unread(_) | Visit::End(..) => {}
                Visit::Read(read) => {
                    read.into_iter().try_for_each(|((key, _), read)| side.note_read(key, read))?;
                }
            }
            Ok(ControlFlow::Continue(()))
        })?;
        side.members = members;
        side.units = contents.units;
        side.problems.sort_by_key(|(number, _)| *number);
        side.leave_out_holders(&contents.holders);
        Ok(side)
    }

    /// Returns the names of all members that lead to code and of all searched members, without versions.
    pub(super) fn names(&self) -> HashSet<Vec<u8>> {
        let mut names = self.members.clone();
        for object in &self.objects {
            names.extend(members_of(&object.code_object.bundle.place));
        }
        for unit in &self.units {
            names.extend(members_of(unit.at.place()));
        }
        names
    }

    /// Returns the code of the file, if it serves GPUs together with others of its directory on disk.
    pub(super) fn file_in_directory(&self) -> Option<&Arc<CodeSet>> {
        let [unit] = self.units.as_slice() else { return None };
        if unit.directory.is_some() && unit.at.place().steps().is_empty() { Some(&unit.code) } else { None }
    }

    /// Gives the members of the new file their names in the old file.
    pub(super) fn rename_as_in_old(&mut self, renamed: &RenamedMembers) {
        let members = std::mem::take(&mut self.members).into_iter();
        self.members = members.map(|name| renamed.old_name(&name).to_vec()).collect();
    }

    /// Leaves out code objects that have others inside, which are compared instead.
    fn leave_out_holders(&mut self, holders: &CodeObjectsWithParts) {
        for object in &mut self.objects {
            holders.mark(Arc::make_mut(&mut object.code_object));
        }
        self.objects.retain(|object| !object.code_object.has_parts);
    }

    /// Adds the selected code objects of a bundle. Decides how each is compared: by its bytes in the file, by a digest
    /// of its stored bytes, or by its content, which is read during the search or after it.
    fn add_bundle(
        &mut self,
        search: &SideSearch<'_, 'i>,
        number: usize,
        found: &FoundBundle<'_>,
        reads: &mut ReadList<ReadKey, Arc<CodeObject>>,
    ) -> Result<()> {
        let (mut overlap_limit, bundle) = (OverlapLimit::new(found.bundle)?, found.info()?);
        for code_object in found.code_objects() {
            self.seen.add(code_object.id(), found.format, Facts::default());
            if !search.request.takes(&code_object.parsed_id()) || !is_compared(&code_object, found) {
                continue;
            }
            // Entries may overlap, so a small bundle could otherwise take very long to compare.
            if let Err(error) = overlap_limit.charge(&code_object, search.input) {
                self.problems.push((number, error.at(found.place)));
                break;
            }
            let mut object = ComparedObject {
                code_object: Arc::new(code_object.keep(&bundle)),
                key: NameKey::default(),
                stored: StoredBytes::NotOneRange,
                read: ReadState::NotYet,
            };
            if let Some(slice) = object.code_object.stored_in(search.input) {
                object.stored = StoredBytes::InFile(slice);
            } else if search.is_in_equal_member(&object) {
                // The equal checksums of the member decide, so the code object is not read.
            } else if !object.is_readable() || search.is_compared_before_inflation(&object) {
                if let Some(slice) = code_object.stored_bytes() {
                    object.stored = StoredBytes::Digest(search.digester.digest(slice).with_path(slice.path())?);
                }
            } else if !bundle.is_in(search.input) {
                // The bytes of a bundle in inflated data are gone after the search.
                object.read = ReadState::DuringSearch;
                reads.add(Some(found), ((number, self.objects.len()), Arc::clone(&object.code_object)));
            }
            // Code objects of all other kinds are read after the search, if the comparison needs them.
            self.objects.push(object);
        }
        Ok(())
    }

    /// Notes the result of reading a code object during the search. A broken code object is a problem of the file.
    /// Fails only if the file cannot be read.
    fn note_read(&mut self, (number, index): ReadKey, read: Result<ReadCode>) -> Result<()> {
        let Some(object) = self.objects.get_mut(index) else { return Ok(()) };
        match read {
            Ok(mut read) => {
                read.limit_kernels(&mut self.kernel_room);
                object.read = ReadState::Done(read);
            }
            Err(error) if error.is_io() => return Err(error),
            Err(error) => self.problems.push((number, error)),
        }
        Ok(())
    }

    /// Reads code objects of this file, and passes the index of each and the result of `read` to `take`. `all` has the
    /// code objects of both files, and `wanted` the indices of the code objects to read. `weight` is passed to
    /// [`Scan::read_with`]. Without an input, reads nothing.
    pub(super) fn read_code_objects<T: Send>(
        &self,
        job: &Diff,
        (all, wanted): (&[ComparedObject<'_>], &[usize]),
        read: impl Fn(&CodeObject, Slice<'_>) -> Result<T> + Sync,
        weight: impl Fn(&T) -> usize + Sync,
        take: &mut dyn FnMut(usize, Result<T>),
    ) -> Result<()> {
        let Some(input) = self.input else { return Ok(()) };
        if wanted.is_empty() {
            return Ok(());
        }
        let code_objects = wanted.iter().filter_map(|index| Some(&*all.get(*index)?.code_object)).collect::<Vec<_>>();
        job.scan_with(Checksums::None).read_with(input, &code_objects, read, weight, &mut |results| {
            // The positions are those in `code_objects`, and so in `wanted`: `all` has all of these code objects.
            for (position, read) in results {
                if let Some(index) = wanted.get(position) {
                    take(*index, read);
                }
            }
            ControlFlow::Continue(())
        })
    }
}

impl Diff {
    fn scan_with(&self, checksums: Checksums) -> Scan {
        Scan { inflate: Inflate::Headers, checksums, ..self.scan.clone() }
    }
}

/// Returns whether a code object is compared. Empty code objects are not compared, and neither are entries that are
/// bundles themselves: the entries of the inner bundle are compared instead. An entry of a compressed bundle is always
/// compared, because its kind is known only when the bundle is inflated.
fn is_compared(code_object: &CodeObjectRef<'_>, found: &FoundBundle<'_>) -> bool {
    if code_object.size() == 0 {
        return false;
    }
    if found.bundle.compressed.is_some() {
        return true;
    }
    let kind = code_object.recorded_kind().or_else(|| code_object.kind());
    !matches!(kind, Some(ContentKind::Bundle | ContentKind::FatBinary))
}

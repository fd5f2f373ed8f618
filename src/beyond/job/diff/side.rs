//! Searches one of the two files of a comparison, and reads its code objects.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use super::super::digest::{Digest, Digester};
use super::super::kernels::{ListRoom, locate_kernel_error};
use super::super::unmatched::SelectionMatches;
use super::Diff;
use super::names::{LibraryName, NameKey, RenamedMembers, library_name, members_of, unversioned};
use crate::base::bytes::len_u64;
use crate::base::codec::Codec;
use crate::base::error::{Error, Result, WithPath};
use crate::base::io::input::{Input, Slice};
use crate::beyond::code::kernels::{self, Kernel};
use crate::beyond::runtime::Coverage;
use crate::beyond::scan::{
    Checksums, CodeObject, CodeObjectRef, CodeObjectsOfBundle, CodeObjectsWithParts, Finding, Format, FoundBundle,
    OverlapLimit, Place, PreparedSelection, ReadEvent, ReadList, Scan, contents, top_member, weight_of,
};
use crate::llvm::container::content_kind::ContentKind;
use crate::llvm::container::magic::Magic;
use crate::llvm::container::sequence::Inflate;

/// A code object of either file.
#[derive(Debug)]
pub(super) struct SideObject<'i> {
    pub(super) code_object: Arc<CodeObject>,
    /// The key, which is set when both files have been searched. It is empty before.
    pub(super) key: NameKey,
    pub(super) stored: StoredBytes<'i>,
    pub(super) read: ReadState,
}

/// Whether the content of a code object was read.
#[derive(Debug)]
pub(super) enum ReadState {
    NotYet,
    /// To be read while the search has its bytes. If that fails, it is a problem of the file.
    WithSearch,
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
    pub(super) fn with_kernels(digester: &Digester, code_object: &CodeObject, code: Slice<'_>) -> Result<Self> {
        let kernels = locate_kernel_error(code_object, kernels::list(code.bytes()));
        Ok(Self { kernels: Some(kernels), ..Self::without_kernels(digester, code)? })
    }

    pub(super) fn without_kernels(digester: &Digester, code: Slice<'_>) -> Result<Self> {
        let digest = digester.digest(code).with_path(code.path())?;
        Ok(Self { size: len_u64(code.bytes()), digest, kernels: None })
    }

    /// Forgets the kernels if there is no room for them.
    pub(super) fn limit_kernels(&mut self, room: &mut ListRoom) {
        if let Some(Ok(kernels)) = &mut self.kernels
            && !room.take_kernels(kernels)
        {
            self.kernels = None;
        }
    }

    /// Returns the number of kernels, as the weight of [`Scan::read_with`].
    pub(super) fn weight(&self) -> usize {
        match &self.kernels {
            Some(Ok(kernels)) => kernels.len(),
            // Without kernels, the digest remains.
            _ => 1,
        }
    }
}

/// Where the stored bytes of a code object are.
#[derive(Clone, Copy, Debug)]
pub(super) enum StoredBytes<'i> {
    /// In the file: the code object, or its compressed form.
    Here(Slice<'i>),
    /// Not in the file, but only in data that was inflated for the search. The digest was taken then, because the code
    /// object cannot be inflated, or is compared as it is stored.
    Digest(Digest),
    /// Not in the file as one range: in inflated data, in a compressed bundle, or in parts, as the host code of a fat
    /// object is. Such a code object is compared by what is read of it.
    Elsewhere,
}

/// How a code object is compressed on its own: codec, inflated size, and the start and the end of its range in the
/// inflated bytes. `None` if it is not.
pub(super) type PackedForm = Option<(Codec, u64, u64, u64)>;

impl SideObject<'_> {
    pub(super) fn packed_form(&self) -> PackedForm {
        let packed = self.code_object.packed.as_ref()?;
        Some((packed.codec, packed.inflated, packed.range.start, packed.range.end))
    }

    /// Returns whether its content can be read. Code that is obfuscated, or compressed by an unknown method, is only
    /// compared as it is stored.
    pub(super) fn is_readable(&self) -> bool {
        match &self.code_object.packed {
            Some(packed) => packed.codec != Codec::Unknown,
            None => true,
        }
    }

    /// Returns the inflated size in bytes, or `None` if it is known only when the code object is inflated. The recorded
    /// size may include padding.
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

    /// Takes the kernels, or the error of reading them, or returns `None` if they were not read.
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

/// The old or the new file, or nothing if the other file has no counterpart.
pub(super) struct Side<'i> {
    pub(super) input: Option<&'i Input>,
    /// The code objects, until the comparison takes them.
    pub(super) objects: Vec<SideObject<'i>>,
    /// The libraries, by name, and the GPUs that their bundles serve, whether or not their code is selected.
    pub(super) libraries: HashMap<LibraryName, (Place, Coverage)>,
    /// The names of all members of the file, without the versions in them. Empty for a static library.
    pub(super) members: HashSet<Vec<u8>>,
    pub(super) matches: SelectionMatches,
    pub(super) problems: Vec<Error>,
    /// The code objects that have others inside.
    holders: CodeObjectsWithParts,
    /// The room for kernels that are read before it is known whether their code object differs.
    kernels: ListRoom,
}

/// The search of one file.
struct SideSearch<'s, 'i> {
    selector: PreparedSelection<'s>,
    digester: &'s Digester,
    input: &'i Input,
    job: &'s Diff,
    /// The members that are the same in both files.
    same: &'s HashSet<Vec<u8>>,
}

impl SideSearch<'_, '_> {
    /// Returns whether a code object is compared by its recorded hash or its stored bytes first, since hashes are
    /// trusted.
    fn compares_as_recorded(&self, object: &SideObject<'_>) -> bool {
        let recorded = object.code_object.bundle.compressed;
        let has_hash = match recorded {
            Some(recorded) => recorded.hash.is_some(),
            None => false,
        };
        self.job.trust_hashes && (object.packed_form().is_some() || has_hash)
    }

    /// Returns whether a code object is in a member that is the same in both files.
    fn is_same(&self, object: &SideObject<'_>) -> bool {
        match top_member(&object.code_object.bundle.place) {
            Some(member) => self.same.contains(member),
            None => false,
        }
    }
}

impl<'i> Side<'i> {
    /// Finds the code objects of a file, in the members that `is_searched` accepts. Reads those in inflated data at
    /// once, because their bytes are gone after the search. Code objects in the members `same` are equal in both files,
    /// and are not read. Without an `input`, finds nothing.
    pub(super) fn search(
        job: &Diff,
        digester: &Digester,
        input: Option<&'i Input>,
        is_searched: &dyn Fn(&[u8]) -> bool,
        same: &HashSet<Vec<u8>>,
    ) -> Result<Self> {
        let mut side = Self {
            input,
            objects: Vec::new(),
            libraries: HashMap::new(),
            members: HashSet::new(),
            matches: SelectionMatches::default(),
            problems: Vec::new(),
            holders: CodeObjectsWithParts::default(),
            kernels: ListRoom::default(),
        };
        let Some(input) = input else { return Ok(side) };
        let members = RefCell::new(HashSet::new());
        let is_static = Magic::identify(input.bytes()) == Magic::Archive;
        let search = SideSearch { selector: PreparedSelection::new(&job.selection), digester, input, job, same };
        let checksums = if job.trust_hashes { Checksums::None } else { Checksums::OfAll };
        let scan = job.scan_with(checksums);
        let is_searched = &|member: &[u8]| {
            // Members of a static library are objects, not libraries that can be renamed or lost.
            if !is_static {
                members.borrow_mut().insert(unversioned(member).to_vec());
            }
            is_searched(member)
        };
        let read = &|together: CodeObjectsOfBundle<'_, usize, Arc<CodeObject>>| {
            contents(together, |code_object, code| ReadCode::with_kernels(digester, code_object, code))
        };
        scan.run_in_members_and_read(
            input,
            is_searched,
            read,
            &|read| weight_of(read, ReadCode::weight),
            &mut |step| {
                match step {
                    ReadEvent::Found(Finding::Bundle(found), reads) => {
                        side.add_bundle(&search, &found, reads)?;
                    }
                    ReadEvent::Found(Finding::Split { place, split }, _) => {
                        side.coverage_of(place, Format::Bundle).add_split(place, &split);
                    }
                    ReadEvent::Found(Finding::Broken { error, .. }, _) if error.is_io() => return Err(error),
                    ReadEvent::Found(Finding::Broken { place, error } | Finding::Hidden { place, error }, _) => {
                        side.problems.push(error.at(place));
                    }
                    ReadEvent::Found(..) | ReadEvent::End(..) => {}
                    ReadEvent::Read(contents) => {
                        for ((index, _), read) in contents {
                            side.note_read(index, read)?;
                        }
                    }
                }
                Ok(ControlFlow::Continue(()))
            },
        )?;
        side.members = members.into_inner();
        // Only now it is known which code objects have others inside.
        side.leave_out_holders();
        Ok(side)
    }

    /// Returns the names of all members that lead to code or were searched, without versions.
    pub(super) fn names(&self) -> HashSet<Vec<u8>> {
        let mut names = self.members.clone();
        for object in &self.objects {
            names.extend(members_of(&object.code_object.bundle.place));
        }
        for (place, _) in self.libraries.values() {
            names.extend(members_of(place));
        }
        names
    }

    /// Renames its libraries and members as in the old file.
    pub(super) fn rename(&mut self, renamed: &RenamedMembers) {
        let libraries = std::mem::take(&mut self.libraries).into_iter();
        self.libraries = libraries.map(|(name, library)| (renamed.old_library_name(name), library)).collect();
        let members = std::mem::take(&mut self.members).into_iter();
        self.members = members.map(|name| renamed.old_name(&name).to_vec()).collect();
    }

    /// Leaves out code objects that have others inside, which are compared instead.
    fn leave_out_holders(&mut self) {
        for object in &mut self.objects {
            self.holders.mark(Arc::make_mut(&mut object.code_object));
        }
        self.objects.retain(|object| !object.code_object.has_parts);
    }

    /// Returns the coverage of the library at a place, to be added to.
    fn coverage_of(&mut self, place: &Place, format: Format) -> &mut Coverage {
        let library = self.libraries.entry(library_name(place, format));
        let (_, coverage) = library.or_insert_with(|| (place.clone(), Coverage::default()));
        coverage
    }

    /// Adds the selected code objects of a bundle, and decides how each is compared: in the file, by a digest of its
    /// stored bytes, or by its content, which is read now or later.
    fn add_bundle(
        &mut self,
        search: &SideSearch<'_, 'i>,
        found: &FoundBundle<'_>,
        reads: &mut ReadList<usize, Arc<CodeObject>>,
    ) -> Result<()> {
        let (mut shared, bundle) = (OverlapLimit::new(found.bundle)?, found.info()?);
        self.coverage_of(found.place, found.format).add(found);
        self.holders.note(found.place);
        for code_object in found.code_objects() {
            if !self.matches.takes(&search.selector, &code_object.parsed_id()) || !is_compared(&code_object, found) {
                continue;
            }
            // Entries may overlap, so a small bundle could otherwise take very long to compare.
            if let Err(error) = shared.charge(&code_object, search.input) {
                self.problems.push(error.at(found.place));
                break;
            }
            let known = Arc::new(code_object.keep(&bundle));
            let mut object = SideObject {
                code_object: known,
                key: NameKey::default(),
                stored: StoredBytes::Elsewhere,
                read: ReadState::NotYet,
            };
            if let Some(slice) = object.code_object.stored_in(search.input) {
                object.stored = StoredBytes::Here(slice);
            } else if search.is_same(&object) {
                // Equal checksums decide, so the code object is not read.
            } else if !object.is_readable() || search.compares_as_recorded(&object) {
                if let Some(slice) = code_object.stored_bytes() {
                    object.stored = StoredBytes::Digest(search.digester.digest(slice).with_path(slice.path())?);
                }
            } else if !bundle.is_in(search.input) {
                // Its bytes are gone after the search.
                object.read = ReadState::WithSearch;
                reads.add(Some(found), (self.objects.len(), Arc::clone(&object.code_object)));
            }
            self.objects.push(object);
        }
        Ok(())
    }

    /// Notes the result of reading a code object while the file is searched. A broken code object is a problem of the
    /// file. Fails only if the file cannot be read.
    fn note_read(&mut self, index: usize, read: Result<ReadCode>) -> Result<()> {
        let Some(object) = self.objects.get_mut(index) else { return Ok(()) };
        match read {
            Ok(mut read) => {
                read.limit_kernels(&mut self.kernels);
                object.read = ReadState::Done(read);
            }
            Err(error) if error.is_io() => return Err(error),
            Err(error) => self.problems.push(error),
        }
        Ok(())
    }

    /// Reads code objects of this file, and passes the index of each and the result of `read` to `take`. `all` has the
    /// code objects of both files, and `wanted` the indices of those to read. `weight` is passed to
    /// [`Scan::read_with`].
    pub(super) fn read<T: Send>(
        &self,
        job: &Diff,
        (all, wanted): (&[SideObject<'_>], &[usize]),
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
            for (at, read) in results {
                if let Some(index) = wanted.get(at) {
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

/// Returns whether a code object is compared. An empty one is not, and a bundle in an entry is not: its own entries are
/// compared instead. An entry of a compressed bundle is compared whatever its kind, which is known only when the bundle
/// is inflated.
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

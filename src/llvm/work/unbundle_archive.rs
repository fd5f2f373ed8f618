//! Unbundles an archive: from a library of bundles to one library for each target.
//!
//! Follows LLVM 22.1.8, with the entries of a bundle in file order. Each entry goes to the archive of every request
//! that it is compatible with. Several entries may serve one request, and one entry may serve several requests. The
//! new member is named `<stem of the member>-<entry ID><stem of the member><extension>`, with `_` for each `:`.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::rc::Rc;

use super::file_name::FileName;
use super::library::{LibraryMember, MemberNames, OpenArchive, write_archive};
use super::requests::Requests;
use super::stored_contents::{KeptContent, StoredContents};
use crate::base::bytes;
use crate::base::display::{Slashes, harmless, printable_name};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::{EntryId, Rules};
use crate::base::io::input::{Accept, Input};
use crate::base::io::output::{self, Output};
use crate::llvm::container::Limits;
use crate::llvm::container::archive::{NewMember, place_of};
use crate::llvm::container::sequence::{Bundle, Inflate};
use crate::llvm::event::{Event, Observer};
use crate::llvm::work::open;

/// Unbundles an archive.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct UnbundleArchive {
    /// The archive to read.
    pub input: PathBuf,
    /// The requested entries, and the output archive for each.
    pub requests: Vec<(EntryId, PathBuf)>,
    /// The rules of compatibility.
    pub rules: Rules,
    /// Whether entries may be missing: a request that no entry serves then gets an empty archive.
    pub allow_missing: bool,
    /// Whether to check the target IDs of all members first, as `-check-input-archive` does: entries of one bundle for
    /// one processor must set the same features.
    pub check: bool,
    /// Limits on the inflated size of each compressed bundle in a member.
    pub limits: Limits,
}

/// An entry that becomes a member of the archive of a request.
struct ChosenEntry<'l> {
    /// The name of the member that holds the entry.
    member: &'l [u8],
    /// The bundle entry ID as recorded.
    id: Rc<[u8]>,
    /// The extension of the new member's name, or `None` to keep the extension of the old member.
    extension: Option<&'static [u8]>,
    content: KeptContent<'l>,
}

/// The contents of the archives to write.
struct NewArchives<'j, 'l> {
    requests: Requests<'j>,
    /// The chosen entries of each request, in the order of the input archive.
    chosen: Vec<Vec<ChosenEntry<'l>>>,
    /// The distinct IDs of chosen entries. Members usually have the same IDs, so entries share their memory.
    ids: HashSet<Rc<[u8]>>,
    stored: StoredContents,
}

impl UnbundleArchive {
    /// Unbundles by the rules of target IDs. Every request must be served; members are not checked.
    pub fn new(input: impl Into<PathBuf>, requests: Vec<(EntryId, PathBuf)>) -> Self {
        Self { input: input.into(), requests, ..Self::default() }
    }

    /// Writes the archives.
    ///
    /// # Errors
    /// Any [`Error`]. The kind is [`NotFound`](ErrorKind::NotFound) if no entry of the archive can serve a request.
    pub fn run(&self, observer: &mut Observer<'_>) -> Result<()> {
        let library = self.open()?;
        let staged = self.stage(&library, observer);
        output::commit(library.unless_changed(staged)?)
    }

    fn open(&self) -> Result<OpenArchive> {
        let input = open(&self.input, Accept::Any, self.limits.streamed)?;
        OpenArchive::open(input, self.limits)
    }

    /// Writes the archives, but does not put them in place.
    fn stage(&self, library: &OpenArchive, observer: &mut Observer<'_>) -> Result<Vec<Output>> {
        if self.check {
            self.check_target_ids(library)?;
        }
        let archives = self.choose_entries(library.members()?, observer)?;
        self.stage_archives(archives, library.len(), observer)
    }

    /// Chooses the entries of each archive from the members.
    fn choose_entries<'l>(
        &self,
        members: Vec<LibraryMember<'l>>,
        observer: &mut Observer<'_>,
    ) -> Result<NewArchives<'_, 'l>> {
        let mut archives = NewArchives {
            requests: Requests::new(&self.requests, self.rules),
            chosen: self.requests.iter().map(|_| Vec::new()).collect(),
            ids: HashSet::new(),
            stored: StoredContents::new(&self.input),
        };
        for member in members {
            // With `Inflate::Whole`, the hash and sizes of a bundle are checked before its entries are chosen.
            member.for_each_bundle(Inflate::Whole, observer, &mut |bundle, observer| {
                self.choose_entries_of_bundle(&member, &bundle, &mut archives, observer)
            })?;
        }
        Ok(archives)
    }

    /// Stages the archive of each request, in the order of the requests. Fails at the first request without an entry,
    /// unless entries may be missing. `input_len` is the length of the input archive.
    fn stage_archives(
        &self,
        archives: NewArchives<'_, '_>,
        input_len: u64,
        observer: &mut Observer<'_>,
    ) -> Result<Vec<Output>> {
        let NewArchives { chosen, stored, .. } = archives;
        let stored = stored.into_input()?;
        let mut outputs = Vec::with_capacity(self.requests.len());
        for ((target, path), entries) in self.requests.iter().zip(&chosen) {
            if entries.is_empty() && !self.allow_missing {
                return Err(self.nothing_compatible(target));
            }
            let members = self.new_members(entries, &stored, input_len)?;
            outputs.push(write_archive(path, &members, observer)?);
        }
        Ok(outputs)
    }

    /// The error for a target that no entry of the archive serves.
    fn nothing_compatible(&self, target: &EntryId) -> Error {
        let archive = self.input.display();
        let text = format!(
            "no compatible code object found for the target '{target}' in heterogeneous archive library: {archive}"
        );
        Error::new(ErrorKind::NotFound, text).with_file(&self.input)
    }

    /// Adds each entry of a bundle to the archives of the requests that it serves.
    fn choose_entries_of_bundle<'l>(
        &self,
        member: &LibraryMember<'l>,
        bundle: &Bundle<'l>,
        archives: &mut NewArchives<'_, 'l>,
        observer: &mut Observer<'_>,
    ) -> Result<()> {
        let NewArchives { requests: matcher, chosen, ids, stored } = archives;
        let candidates = matcher.candidates(&bundle.entries, observer);
        for (candidate, served) in matcher.served_by_each(&candidates) {
            // The code object is kept once, for all requests that the entry serves.
            let mut kept: Option<KeptContent<'l>> = None;
            for request_index in served {
                // Both lists have an element for each request, so neither is missing.
                let (Some(entries), Some((target, _))) =
                    (chosen.get_mut(request_index), self.requests.get(request_index))
                else {
                    continue;
                };
                candidate.report_missing_processor(target, observer);
                let content = match &kept {
                    Some(content) => content.clone(),
                    None => kept.insert(stored.keep(bundle, candidate.index)?).clone(),
                };
                let id = shared_id(ids, candidate.recorded_id);
                entries.push(ChosenEntry {
                    member: member.name,
                    id,
                    extension: extension_for_target(&candidate.id),
                    content,
                });
            }
        }
        Ok(())
    }

    /// Returns the members of an archive to write. Fails if their names are together much longer than the input
    /// archive, whose length in bytes is `input_len`.
    fn new_members<'l>(
        &self,
        entries: &[ChosenEntry<'l>],
        stored: &'l Input,
        input_len: u64,
    ) -> Result<Vec<NewMember<'l>>> {
        let mut names = MemberNames::new(&self.input, input_len);
        let mut members = Vec::with_capacity(entries.len());
        for ChosenEntry { member, id, extension, content } in entries {
            let name = member_name(member, id, *extension);
            names.charge(&name)?;
            members.push(NewMember { name, content: content.as_slice(stored)? });
        }
        Ok(members)
    }

    /// Fails if two entries of a member are for the same kind, triple and processor but set different features.
    ///
    /// As in LLVM, each entry is compared only with the first one for its processor, in the order of the recorded IDs,
    /// and only in one direction. A feature that the first entry sets and a later one does not is no conflict.
    fn check_target_ids(&self, library: &OpenArchive) -> Result<()> {
        for member in library.members()? {
            let mut entries: Vec<(String, EntryId)> = Vec::new();
            // The members are read again to be unbundled, and their events are reported then.
            let mut report_nothing = |_: Event<'_>| {};
            member.for_each_bundle(Inflate::Headers, &mut report_nothing, &mut |bundle, _| {
                for entry in &bundle.entries {
                    if let Some(id) = entry.entry_id() {
                        entries.push((bytes::text_lossy(&entry.id), id));
                    }
                }
                Ok(())
            })?;
            entries.sort_by(|(a, _), (b, _)| a.cmp(b));
            let mut first_for_processor = HashMap::new();
            for (second, id) in &entries {
                let processor = (id.kind().name(), id.triple().as_str(), id.target_id().processor());
                let (first, first_id): &(&String, &EntryId) =
                    first_for_processor.entry(processor).or_insert((second, id));
                if sets_feature_that_is_open_in(id, first_id) {
                    let (archive, name) = (self.input.display(), printable_name(member.name));
                    let text = format!("conflicting TargetIDs [{first}, {second}] found in {name} of {archive}");
                    let place = place_of(&self.input, member.name);
                    return Err(Error::new(ErrorKind::Conflict, text).with_place(&self.input, place));
                }
            }
        }
        Ok(())
    }
}

/// Whether `id` sets a feature, to on or off, that `other` does not set.
fn sets_feature_that_is_open_in(id: &EntryId, other: &EntryId) -> bool {
    id.target_id().features().any(|(name, _)| other.target_id().features().all(|(other, _)| other != name))
}

/// Returns the recorded ID in memory that all equal IDs share.
fn shared_id(ids: &mut HashSet<Rc<[u8]>>, recorded: &[u8]) -> Rc<[u8]> {
    if let Some(known) = ids.get(recorded) {
        return Rc::clone(known);
    }
    let new: Rc<[u8]> = recorded.into();
    ids.insert(Rc::clone(&new));
    new
}

/// Returns the extension that LLVM gives to code objects for a target, or `None` for targets other than GPUs of AMD and
/// NVIDIA. Device libraries hold bitcode for AMD, and cubins for NVIDIA. LLVM too looks for these letters anywhere.
fn extension_for_target(id: &EntryId) -> Option<&'static [u8]> {
    match id.target_id().to_string() {
        target if target.contains("gfx") => Some(b".bc"),
        target if target.contains("sm_") => Some(b".cubin"),
        _ => None,
    }
}

/// The name of a code object in its output archive, as the head of this file describes it. No name is a path, whatever
/// the member or the entry is called.
fn member_name(member: &[u8], entry: &[u8], target_extension: Option<&[u8]>) -> Vec<u8> {
    let FileName { stem, extension } = FileName::of(member);
    let extension = target_extension.unwrap_or(extension);
    // As in LLVM, the stem comes twice: LLVM writes it before the entry ID, and again with the extension.
    let mut name = [stem, b"-", entry, stem, extension].concat();
    // As in LLVM, because a colon is not allowed in every file system.
    for byte in &mut name {
        if *byte == b':' {
            *byte = b'_';
        }
    }
    harmless(&name, Slashes::Replace)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(member: &str, entry: &str) -> String {
        let id = EntryId::parse(entry).unwrap();
        String::from_utf8(member_name(member.as_bytes(), entry.as_bytes(), extension_for_target(&id))).unwrap()
    }

    #[test]
    fn members_are_named_after_member_and_entry() {
        let gfx = "hip-amdgcn-amd-amdhsa--gfx90a:xnack+";
        assert_eq!(name("a.o", gfx), "a-hip-amdgcn-amd-amdhsa--gfx90a_xnack+a.bc");
        assert_eq!(name("dir/a.b.o", gfx), "a.b-hip-amdgcn-amd-amdhsa--gfx90a_xnack+a.b.bc");
        let nvptx = "openmp-nvptx64-nvidia-cuda--sm_70";
        assert_eq!(name("a", nvptx), "a-openmp-nvptx64-nvidia-cuda--sm_70a.cubin");
        let host = "host-x86_64-unknown-linux-gnu-";
        assert_eq!(name("a b.o", host), "a b-host-x86_64-unknown-linux-gnu-a b.o");
        assert_eq!(name("..", host), "..-host-x86_64-unknown-linux-gnu-..");
        assert_eq!(name(".o", host), "-host-x86_64-unknown-linux-gnu-.o");
        assert_eq!(name("sub//", gfx), ".-hip-amdgcn-amd-amdhsa--gfx90a_xnack+..bc");
        assert_eq!(name("/", gfx), "_-hip-amdgcn-amd-amdhsa--gfx90a_xnack+_.bc");
        assert_eq!(name("a\x1b[1m\r.o", host), "a_[1m_-host-x86_64-unknown-linux-gnu-a_[1m_.o");
        assert_eq!(name("a\n.o", "hip-amdgcn-amd-amdhsa--x/../y"), "a_-hip-amdgcn-amd-amdhsa--x_.._ya_.o");
    }
}

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
use super::requests::{Requests, check_unserved_names, unknown_request_or};
use super::stored_contents::{KeptContent, StoredContents};
use crate::base::bytes::{self, add};
use crate::base::display::{Slashes, harmless, printable_name};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::{EntryId, OffloadKind, Rules};
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
    /// Whether to check first that no member holds entries that must not be in one bundle.
    pub check: bool,
    /// Whether to report each comparison of an entry with a request as [`Event::Compared`].
    pub explain: bool,
    /// Limits on the inflated size of each compressed bundle in a member.
    pub limits: Limits,
}

/// An entry chosen for the archive of a request.
struct ChosenEntry<'l> {
    /// The name of the member that holds the entry.
    member: &'l [u8],
    /// The bundle entry ID as recorded.
    id: Rc<[u8]>,
    /// The extension of the new name; `None` for that of the member.
    extension: Option<&'static [u8]>,
    content: KeptContent<'l>,
}

/// The contents of the archives to write.
struct NewArchives<'j, 'l> {
    requests: Requests<'j>,
    /// The chosen entries of each request, in the order of the input archive.
    chosen: Vec<Vec<ChosenEntry<'l>>>,
    /// The distinct bundle entry IDs found so far.
    ids: HashSet<Rc<[u8]>>,
    /// The first entry of a host that serves no request.
    other_host: Option<EntryId>,
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
    /// Any [`Error`]; all outputs are then unchanged. The kind is [`NotFound`](ErrorKind::NotFound) if no entry of the
    /// archive can serve a request.
    pub fn run(&self, observer: &mut Observer<'_>) -> Result<()> {
        let library = self.open().map_err(|error| unknown_request_or(&self.requests, error))?;
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
        let mut archives = NewArchives {
            requests: Requests::new(&self.requests, self.rules),
            chosen: self.requests.iter().map(|_| Vec::new()).collect(),
            ids: HashSet::new(),
            other_host: None,
            stored: StoredContents::new(&self.input),
        };
        let members = library.members()?;
        // Progress counts the bytes of the members read and of the archives written.
        let mut total = bytes::total(members.iter().map(LibraryMember::size));
        let mut done = 0_u64;
        for member in members {
            member.for_each_bundle(Inflate::Whole, observer, &mut |bundle, observer| {
                self.choose_entries(&member, &bundle, &mut archives, observer)
            })?;
            add(&mut done, member.size());
            observer(Event::Progress { done, total });
        }
        let NewArchives { chosen, other_host, stored, .. } = archives;
        let are_served: Vec<bool> = chosen.iter().map(|entries| !entries.is_empty()).collect();
        check_unserved_names(&self.requests, &are_served)?;
        let stored = stored.into_input()?;
        let mut outputs = Vec::with_capacity(self.requests.len());
        add(&mut total, bytes::total(chosen.iter().map(|entries| total_size(entries))));
        for ((target, path), entries) in self.requests.iter().zip(&chosen) {
            if entries.is_empty() && !self.allow_missing {
                return Err(self.missing(target));
            }
            if let Some(entry) = &other_host
                && entries.is_empty()
                && target.kind() == OffloadKind::Host
            {
                observer(Event::OtherHost { entry, request: target });
            }
            let members = self.new_members(entries, &stored, library.len())?;
            outputs.push(write_archive(path, &members, observer)?);
            add(&mut done, total_size(entries));
            observer(Event::Progress { done, total });
        }
        Ok(outputs)
    }

    /// The error for a target that no entry of the archive serves.
    fn missing(&self, target: &EntryId) -> Error {
        let archive = self.input.display();
        let text = format!(
            "no compatible code object found for the target '{target}' in heterogeneous archive library: {archive}"
        );
        Error::new(ErrorKind::NotFound, text).with_file(&self.input)
    }

    /// Adds each entry of a bundle to the archives of the requests that it serves.
    fn choose_entries<'l>(
        &self,
        member: &LibraryMember<'l>,
        bundle: &Bundle<'l>,
        archives: &mut NewArchives<'_, 'l>,
        observer: &mut Observer<'_>,
    ) -> Result<()> {
        let NewArchives { requests, chosen, ids, other_host, stored } = archives;
        let candidates = requests.candidates(&bundle.entries, observer);
        if self.explain {
            requests.explain_all(&candidates, observer);
        }
        for (candidate, served) in requests.served_by_each(&candidates) {
            let is_host = candidate.id.kind() == OffloadKind::Host;
            if served.is_empty() && is_host && other_host.is_none() && candidate.has_code(&bundle.entries) {
                *other_host = Some(candidate.id.clone());
            }
            // The code object is kept once, for all requests that the entry serves.
            let mut kept: Option<KeptContent<'l>> = None;
            for request in served {
                let Some(entries) = chosen.get_mut(request) else { continue };
                let Some((target, _)) = self.requests.get(request) else { continue };
                candidate.report_missing_processor(target, observer);
                let content = match &kept {
                    Some(content) => content.clone(),
                    None => kept.insert(stored.keep(bundle, candidate.index)?).clone(),
                };
                // Equal IDs of all members share memory.
                let id: Rc<[u8]> = ids.get(candidate.text).cloned().unwrap_or_else(|| candidate.text.into());
                ids.insert(Rc::clone(&id));
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

    /// Returns the members of an archive to write. `len` is the length of the input.
    fn new_members<'l>(&self, entries: &[ChosenEntry<'l>], stored: &'l Input, len: u64) -> Result<Vec<NewMember<'l>>> {
        let mut names = MemberNames::new(&self.input, len);
        let mut members = Vec::with_capacity(entries.len());
        for ChosenEntry { member, id, extension, content } in entries {
            let name = member_name(member, id, *extension);
            names.charge(&name)?;
            members.push(NewMember { name, content: content.as_slice(stored)? });
        }
        Ok(members)
    }

    /// Checks that all entries of a bundle with the same processor set the same features. As in LLVM, each entry is
    /// compared with the first one of its processor in the order of their texts. The first one may set features that
    /// the compared entry leaves open.
    fn check_target_ids(&self, library: &OpenArchive) -> Result<()> {
        for member in library.members()? {
            let mut entries: Vec<(String, EntryId)> = Vec::new();
            member.for_each_bundle(Inflate::Headers, &mut |_| {}, &mut |bundle, _| {
                for entry in &bundle.entries {
                    if let Some(id) = entry.entry_id() {
                        entries.push((bytes::text_lossy(&entry.id), id));
                    }
                }
                Ok(())
            })?;
            entries.sort_by(|(a, _), (b, _)| a.cmp(b));
            let mut firsts = HashMap::new();
            for (second, id) in &entries {
                let processor = (id.kind().name(), id.triple().as_str(), id.target_id().processor());
                let (first, first_id): &(&String, &EntryId) = firsts.entry(processor).or_insert((second, id));
                if sets_more(id, first_id) {
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

/// Whether `id` sets a feature that `other` leaves open.
fn sets_more(id: &EntryId, other: &EntryId) -> bool {
    id.target_id().features().any(|(name, _)| other.target_id().features().all(|(other, _)| other != name))
}

/// The total size of the code objects of some entries in bytes.
fn total_size(entries: &[ChosenEntry<'_>]) -> u64 {
    bytes::total(entries.iter().map(|entry| entry.content.len()))
}

/// Returns the extension of code objects for a target, or `None` for other targets than GPUs of AMD and NVIDIA.
fn extension_for_target(id: &EntryId) -> Option<&'static [u8]> {
    match id.target_id().to_string() {
        target if target.contains("gfx") => Some(b".bc"),
        target if target.contains("sm_") => Some(b".cubin"),
        _ => None,
    }
}

/// The name of a code object in its output archive. It is never a path.
fn member_name(member: &[u8], entry: &[u8], target_extension: Option<&[u8]>) -> Vec<u8> {
    let FileName { stem, extension } = FileName::of(member);
    let extension = target_extension.unwrap_or(extension);
    let mut name = [stem, b"-", entry, stem, extension].concat();
    // Not every file system allows a colon.
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

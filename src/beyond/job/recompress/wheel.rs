//! Recompresses the members of a zip file, such as a Python wheel.
//!
//! Every member that would be recompressed as a file is recompressed, one at a time, and compressed with its old
//! method. All other members are copied as they are, and so are members that would not become smaller, unless code was
//! removed. In a wheel, the hashes and sizes in `RECORD` are updated, and `RECORD` moves to the end, as PyPA
//! recommends. A wheel that gets a local version has other names of members too. A signed JAR file stays as it is.
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

use std::collections::{HashMap, HashSet};
use std::io::{self, Write};
use std::path::Path;

use rawzip::Crc32;
use sha2::{Digest, Sha256};

use super::super::rewrite::Rewriter;
use super::archive::is_archive;
use super::check::unexpected_parts;
use super::local_version::WheelVersion;
use super::progress::ProgressRange;
use super::record::{self, HashAndSize};
use super::run::{Recompression, may_hold_bundles};
use super::{Recompressed, RecompressedZip};
use crate::base::bytes::text;
use crate::base::display::shown;
use crate::base::error::{Error, ErrorKind, Malformed, Result, WithPath};
use crate::base::io::input::{Input, Slice, Spool};
use crate::base::io::output::Output;
use crate::base::io::piece::Piece;
use crate::beyond::codec::StreamForm;
use crate::beyond::container::Magic;
use crate::beyond::container::zip::{DirectoryRewrite, NewContents, ZipContent, ZipDirectory, ZipMember};
use crate::beyond::once;
use crate::beyond::scan::{HEAD, Place, Step, member_too_large};
use crate::llvm::event::Observer;

/// The maximum size of a `RECORD` and of `METADATA` in bytes. A wheel with 15,000 files has a `RECORD` of 1.5 MB.
const TEXT_MAX: u64 = 16 << 20;

/// Recompresses the members of a zip file, one after another in the order of the file, then writes `RECORD` and the
/// directory. If nothing has changed, the output is a copy of the old file.
pub(super) fn rewrite(
    run: &mut Recompression<'_>,
    data: Slice<'_>,
    output: Output,
    observer: &mut Observer<'_>,
) -> Result<Output> {
    let (layout, mut members) = read_members(data)?;
    let jar_signature = members.iter().find(|member| record::is_signature_of_jar(&member.name));
    let jar_signature = jar_signature.map(|signature| signature.name.clone());
    let job = run.job;
    let version = match &job.local_version {
        Some(label) => Some(VersionChange::new(WheelVersion::of_file(&job.input, label)?, &members)?),
        None => None,
    };
    // `RECORD` is written last, when the hashes of all other members are known.
    let record = take_record(&mut members)?;
    // A new version changes the paths in `RECORD`. Fail before the work is done.
    if let Some(record) = &record
        && version.is_some()
    {
        record.ensure_unsigned()?;
    }
    // The members are written in the order of the file, which the directory need not have.
    members.sort_by_key(|member| member.content.start);
    let result = RecompressedZip { before: data.len(), ..RecompressedZip::default() };
    let to = Rewriter::new(data, output);
    let mut work = ZipRewrite { run, data, layout, jar_signature, version, to, changes: HashMap::new(), result };
    // Unchanged members are copied together with the data between them, so the old `RECORD` is skipped in its place.
    let (mut hashes, mut record_to_skip) = (Vec::new(), record.as_ref());
    for member in members {
        if let Some(record) = record_to_skip.take_if(|record| record.member.content.start < member.content.start) {
            work.skip_old_record(record)?;
        }
        let stored = member.content.stored;
        work.run.progress = ProgressRange { start: stored.offset(), len: stored.len(), total: data.len() };
        // Nothing of the member is done yet.
        work.run.progress.report(0, 1, observer);
        let hash_and_size = if member.is_directory {
            None
        } else if let Some(hash_and_size) = work.rewrite_metadata(&member)? {
            Some(hash_and_size)
        } else {
            work.rewrite_member(&member, record.is_some(), observer)?
        };
        work.rename_kept_member(&member)?;
        if let Some(hash_and_size) = hash_and_size {
            hashes.push((member, hash_and_size));
        }
    }
    if let Some(record) = record_to_skip {
        work.skip_old_record(record)?;
    }
    work.finish(record, hashes)
}

/// Reads the directory of a zip file. Returns the directory, ready to be written again, and the members in its order.
fn read_members(data: Slice<'_>) -> Result<(DirectoryRewrite<'_>, Vec<WheelMember<'_>>)> {
    let mut directory = ZipDirectory::read(data);
    if let Some(error) = directory.error.take() {
        return Err(error);
    }
    let (mut numbers, mut contents, mut members) = (HashMap::new(), Vec::new(), Vec::new());
    for ZipMember { name, is_directory, content, .. } in std::mem::take(&mut directory.members) {
        let place = Place::of_file(data.path()).join(Step::Member(name.clone()));
        let content = content.map_err(|error| error.at(&place))?;
        contents.push(content);
        let number: &mut u64 = numbers.entry(name.clone()).or_default();
        *number += 1;
        members.push(WheelMember { name, is_directory, number: *number, place, content });
    }
    Ok((DirectoryRewrite::check_and_read(data, &directory, contents)?, members))
}

/// A member: a file or a directory.
struct WheelMember<'d> {
    name: Vec<u8>,
    is_directory: bool,
    /// The number of the member among those of the same name, counted from 1.
    number: u64,
    place: Place,
    content: ZipContent<'d>,
}

impl WheelMember<'_> {
    /// Adds the place to the error of reading the member.
    fn with_place<T>(&self, read: io::Result<T>) -> Result<T> {
        read.map_err(|error| self.content.error(error).at(&self.place))
    }

    /// Computes the hash and the size of the contents. Fails if the contents do not have the recorded checksum and
    /// size.
    fn hash_and_size(&self) -> Result<HashAndSize> {
        self.with_place(self.content.reader().and_then(hash_and_size_of))
    }
}

/// The `RECORD` of a wheel.
struct WheelRecord<'d> {
    member: WheelMember<'d>,
    /// The name of a signature of the `RECORD`.
    signature: Option<Vec<u8>>,
}

/// Takes the `RECORD` out of the members and returns it. Returns `None` if the members have none, and so are not a
/// wheel.
fn take_record<'d>(members: &mut Vec<WheelMember<'d>>) -> Result<Option<WheelRecord<'d>>> {
    // Readers take the last of several members with one name, so this is the `RECORD` that counts.
    let Some(at) = members.iter().rposition(|member| record::is_record(&member.name)) else { return Ok(None) };
    let member = members.remove(at);
    if members.iter().any(|other| record::is_record(&other.name) && other.name != member.name) {
        return Err(Error::refused(ErrorKind::Unsupported, member.file(), None, "a wheel has one RECORD, not several"));
    }
    let name = text(&member.name).ok_or_else(|| member.not_utf8_error())?;
    let signature = members.iter().find(|other| record::is_signature(&other.name, &name));
    let signature = signature.map(|signature| signature.name.clone());
    Ok(Some(WheelRecord { member, signature }))
}

/// The change of a wheel to a local version.
struct VersionChange<'j> {
    version: WheelVersion<'j>,
    /// The name of `METADATA`.
    metadata: Vec<u8>,
    /// The new names of members whose names have the version, by the offset of the member. Several members may have one
    /// name.
    names: HashMap<u64, Vec<u8>>,
}

impl<'j> VersionChange<'j> {
    /// Prepares the change of a wheel with these members. Fails if they are not the members of a wheel.
    fn new(version: WheelVersion<'j>, members: &[WheelMember<'_>]) -> Result<Self> {
        let old_names: Vec<&[u8]> = members.iter().map(|member| member.name.as_slice()).collect();
        let metadata = format!("{}METADATA", version.find_info(&old_names)?).into_bytes();
        let old_names: HashSet<&[u8]> = old_names.into_iter().collect();
        let mut names = HashMap::new();
        for member in members {
            let Some(name) = version.new_name(&member.name) else { continue };
            if old_names.contains(name.as_slice()) {
                return Err(version.refused(format!("a member has the new name '{}' already", shown(&name))));
            }
            names.insert(member.content.start, name);
        }
        Ok(Self { version, metadata, names })
    }
}

/// The state of a zip file that is being rewritten.
struct ZipRewrite<'r, 'j, 'd> {
    run: &'r mut Recompression<'j>,
    data: Slice<'d>,
    layout: DirectoryRewrite<'d>,
    /// The name of a member that signs the others, if the file is a signed JAR file.
    jar_signature: Option<Vec<u8>>,
    version: Option<VersionChange<'j>>,
    to: Rewriter<'d>,
    /// The renamed members and those with new contents, by their offset in the old file. Each has its offset in the
    /// output, and the values for its headers. The values are `None` if the contents are the old ones.
    changes: HashMap<u64, (u64, Option<NewContents>)>,
    result: RecompressedZip,
}

impl ZipRewrite<'_, '_, '_> {
    /// Returns the new name of a member, or `None` if it keeps its name.
    fn new_name(&self, member: &ZipContent<'_>) -> Option<&[u8]> {
        let version = self.version.as_ref()?;
        version.names.get(&member.start).map(Vec::as_slice)
    }

    /// Writes a member with its new name and its old contents, if it has a new name. Does nothing for a member that has
    /// new contents: it was written with its new name.
    fn rename_kept_member(&mut self, member: &WheelMember<'_>) -> Result<()> {
        let content = &member.content;
        if self.changes.contains_key(&content.start) {
            return Ok(());
        }
        let Some(name) = self.new_name(content) else { return Ok(()) };
        // Fails if the header contradicts the directory.
        let range = self.layout.range_of(content)?;
        let header = self.layout.rename_local(content, &self.layout.old_local_header(content)?, name)?;
        self.to.copy_until(range.start)?;
        const OLD_CONTENTS: Option<NewContents> = None;
        self.changes.insert(content.start, (self.to.written(), OLD_CONTENTS));
        // The new header replaces the old one. The stored contents follow with the next copied range.
        self.to.write(&[Piece::Bytes(header)])?;
        self.to.skip_until(content.stored.offset());
        Ok(())
    }

    /// Writes `METADATA` with the new version. Returns its hash and size, or `None` if the member is another one or no
    /// version changes.
    fn rewrite_metadata(&mut self, member: &WheelMember<'_>) -> Result<Option<HashAndSize>> {
        let Some(change) = &self.version else { return Ok(None) };
        if change.metadata != member.name {
            return Ok(None);
        }
        let old = member.read_text("METADATA")?;
        let new = Input::from_bytes("", change.version.new_metadata(old.bytes())?);
        let packed = PackedMember::new(member.content.form, new.as_slice())?;
        self.replace_member(member, new.as_slice(), packed).map(Some)
    }

    /// Recompresses a member if it holds bundles, and writes the member if it changed. Returns the hash and the size of
    /// the written contents, or `None` if the member did not change and `RECORD` does not need them.
    ///
    /// A job that removes targets also searches each member for code that it does not remove, and reports that code.
    fn rewrite_member(
        &mut self,
        member: &WheelMember<'_>,
        is_hash_needed: bool,
        observer: &mut Observer<'_>,
    ) -> Result<Option<HashAndSize>> {
        let content = &member.content;
        let head = member.with_place(read_head(content))?;
        let magic = Magic::identify(&head);
        let is_rewritten = (may_hold_bundles(magic) || is_archive(&head)) && self.may_change(member);
        if is_rewritten {
            // In a replacement, the offset of the bundle counted from the start of the zip file until now.
            // `Recompression::rewrite_member` below reads this member alone.
            self.count_from_stored_member(member);
        }
        // The search for code that remains (`note_remaining`) is needed only in members that may hold code.
        let is_searched = self.run.remaining.is_some() && magic.may_hold_code();
        // A member is inflated to be rewritten or searched. A member that exceeds a limit is not searched, but it is an
        // error if the member is to be rewritten.
        let is_inflated = if is_rewritten {
            self.charge(content).map_err(|error| error.at(&member.place))?;
            true
        } else {
            is_searched && self.charge(content).is_ok()
        };
        if !is_inflated {
            return if is_hash_needed { Ok(Some(member.hash_and_size()?)) } else { Ok(None) };
        }
        // Errors of rewriting get the place of the member, so the inflated data needs no path. A search gets the path
        // of the zip file: it opens the members of a thin archive, which are separate files, relative to this path.
        let path = if is_rewritten { Path::new("") } else { self.data.path() };
        let old = match content.reader().and_then(|reader| Input::spool(path, reader)) {
            // A broken member is copied as it is, unless its hash is needed.
            Err(_) if !is_rewritten && !is_hash_needed => return Ok(None),
            old => member.with_place(old)?,
        };
        let (new, result) = if is_rewritten {
            self.run.rewrite_member(&old, &member.place, observer)?
        } else {
            (None, Recompressed::default())
        };
        let Some(new) = new else {
            self.run.result.add(&result);
            return self.keep_member(member, &old, is_hash_needed);
        };
        let packed = PackedMember::new(member.content.form, new.as_slice())?;
        // The new member is written if it takes at most `len_max` bytes in the zip file. A stored member whose bundles
        // became smaller keeps its length, with a hole. It is written nevertheless, because the hole compresses well if
        // the wheel is compressed as a whole. A compressed member (`form` is `Some`) has to become at least one byte
        // shorter.
        let len_max = member.content.stored.len().saturating_sub(u64::from(member.content.form.is_some()));
        if packed.header_values.stored > len_max && !self.run.must_change(result.dropped) {
            self.result.kept += 1;
            self.run.result.add(&result.for_kept_file());
            return self.keep_member(member, &old, is_hash_needed);
        }
        self.run.result.add(&result);
        self.result.members += 1;
        self.note_remaining(member, new.as_slice())?;
        Ok(Some(self.replace_member(member, new.as_slice(), packed)?))
    }

    /// Keeps a member as it is, and searches it for code that remains. Returns the hash and the size of the contents,
    /// or `None` if `RECORD` does not need them.
    fn keep_member(
        &mut self,
        member: &WheelMember<'_>,
        old: &Input,
        is_hash_needed: bool,
    ) -> Result<Option<HashAndSize>> {
        self.note_remaining(member, old.as_slice())?;
        if !is_hash_needed {
            return Ok(None);
        }
        Ok(Some(member.with_place(hash_and_size_of(old.as_slice().reader()))?))
    }

    /// Notes the code in a member of the new file that stays although its target is to be removed. Does nothing if the
    /// job removes no targets.
    fn note_remaining(&mut self, member: &WheelMember<'_>, written: Slice<'_>) -> Result<()> {
        match &mut self.run.remaining {
            Some(remaining) => remaining.add(&self.run.picker, &member.place, written),
            None => Ok(()),
        }
    }

    /// Returns whether the job may change a member. A recompression may change every member, and a replacement only the
    /// member with the code object.
    fn may_change(&self, member: &WheelMember<'_>) -> bool {
        let Some(replacing) = &self.run.replacing else { return true };
        let (is_stored, stored) = (member.content.form.is_none(), member.content.stored);
        match replacing.members.as_slice() {
            // Without names of compressed members, the bundle is in a stored member. `replacing.bundle` is its offset
            // in the file until that member is rewritten. From then on it is an offset in that member
            // (`count_from_stored_member`), and must not be compared with the ranges of later members.
            [] => {
                let is_bundle_written = replacing.is_now_compressed.is_some();
                let has_bundle = (stored.offset()..stored.end()).contains(&replacing.bundle);
                is_stored && !is_bundle_written && has_bundle
            }
            // The bundle is in this compressed member.
            [(name, number)] => !is_stored && *name == member.name && *number == member.number,
            // The bundle is in a member of a member, which is not written again.
            _ => false,
        }
    }

    /// Makes the offset of the bundle to replace count from the start of the stored member with the bundle. Does
    /// nothing without a replacement, and for a compressed member.
    fn count_from_stored_member(&mut self, member: &WheelMember<'_>) {
        if let Some(replacing) = &mut self.run.replacing
            && replacing.members.is_empty()
        {
            replacing.bundle = replacing.bundle.saturating_sub(member.content.stored.offset());
        }
    }

    /// Charges the size of a member to the limits. Fails if it exceeds the limit for all members or, for a compressed
    /// member, that for a single one.
    fn charge(&mut self, content: &ZipContent<'_>) -> Result<()> {
        let (path, offset, limits) = (content.stored.path(), content.stored.offset(), self.run.job.limits);
        if content.form.is_some() && content.size > limits.inflated {
            return Err(member_too_large(content.stored, limits, content.size));
        }
        match self.run.budget.charge_bytes(content.size) {
            Ok(()) => Ok(()),
            Err((what, limit)) => Err(Error::malformed(path, Malformed::search(what, limit, offset))),
        }
    }

    /// Copies the data before a member, and writes the member with other contents.
    fn replace_member(
        &mut self,
        member: &WheelMember<'_>,
        new: Slice<'_>,
        packed: PackedMember,
    ) -> Result<HashAndSize> {
        let range = self.layout.range_of(&member.content)?;
        self.to.copy_until(range.start)?;
        let hash_and_size = self.write_member(member, new, packed)?;
        self.to.skip_until(range.end);
        Ok(hash_and_size)
    }

    /// Skips the old `RECORD`. The new one is written after all other members.
    fn skip_old_record(&mut self, record: &WheelRecord<'_>) -> Result<()> {
        let range = self.layout.range_of(&record.member.content)?;
        self.to.copy_until(range.start)?;
        self.to.skip_until(range.end);
        Ok(())
    }

    /// Writes a member with the contents `new`, which `packed` has in the form of the member. Notes its offset and
    /// contents for the directory. Returns its hash and size for `RECORD`.
    fn write_member(&mut self, member: &WheelMember<'_>, new: Slice<'_>, packed: PackedMember) -> Result<HashAndSize> {
        let mut header = self.layout.local_header(&member.content, &packed.header_values)?;
        if let Some(name) = self.new_name(&member.content) {
            header = self.layout.rename_local(&member.content, &header, name)?;
        }
        self.changes.insert(member.content.start, (self.to.written(), Some(packed.header_values)));
        // `new` has the contents, and they are stored as they are in a member that is not compressed.
        let stored = match &packed.compressed {
            Some(bytes) => bytes.as_slice(),
            None => new,
        };
        self.to.write(&[Piece::Bytes(header), Piece::Input(stored)])?;
        Ok(packed.hash_and_size)
    }

    /// Writes the `RECORD` and the directory, and returns the output. If nothing has changed, or if the new file would
    /// be larger although nothing has to change, the output is a copy of the old file. Fails if a signed JAR file would
    /// change.
    fn finish(
        mut self,
        record: Option<WheelRecord<'_>>,
        hashes: Vec<(WheelMember<'_>, HashAndSize)>,
    ) -> Result<Output> {
        self.to.copy_until(self.layout.directory_start())?;
        if let Some(record) = record {
            self.write_record_if_changed(&record, hashes)?;
        }
        let is_changed = !self.changes.is_empty();
        if is_changed {
            self.write_directory()?;
        }
        // The new RECORD may need more bytes than the members have saved.
        let is_larger = self.to.written() > self.data.len();
        let may_stay = self.version.is_none() && !self.run.must_change(self.run.result.dropped);
        if !is_changed || (is_larger && may_stay) {
            self.keep_old_file()?;
        } else if let Some(signature) = &self.jar_signature {
            let reason = format!(
                "'{}' signs the members of the JAR file, which have to change; remove the signature first",
                shown(signature)
            );
            return Err(Error::refused(ErrorKind::Unsupported, self.data.path(), None, reason));
        } else {
            self.ensure_members()?;
        }
        self.run.result.zip = Some(RecompressedZip { after: self.to.written(), ..self.result });
        Ok(self.to.output)
    }

    /// Fails if the directory of the new file does not have each member with its new size. The contents of the members
    /// are checked already.
    fn ensure_members(&mut self) -> Result<()> {
        let written = self.to.output.read_again(self.data.path())?;
        let directory = ZipDirectory::read(written.as_slice());
        let mut is_expected = directory.error.is_none() && directory.members.len() == self.layout.members.len();
        for (old, new) in self.layout.members.iter().zip(&directory.members) {
            let size = match self.changes.get(&old.start) {
                Some((_, Some(contents))) => contents.size,
                _ => old.size,
            };
            is_expected &= new.content.as_ref().is_ok_and(|content| content.size == size);
        }
        if is_expected { Ok(()) } else { Err(unexpected_parts(self.data.path(), "members")) }
    }

    /// Writes the new `RECORD` after all other members, if a member has changed or the old `RECORD` is wrong. Then the
    /// `RECORD` is one of the changed members too.
    fn write_record_if_changed(
        &mut self,
        record: &WheelRecord<'_>,
        mut hashes: Vec<(WheelMember<'_>, HashAndSize)>,
    ) -> Result<()> {
        // `RECORD` lists new members in the order of the directory.
        hashes.sort_unstable_by_key(|(member, _)| member.content.listed.offset());
        let (old, new) = self.read_old_and_make_record(record, &hashes)?;
        if self.changes.is_empty() && old.bytes() == new {
            return Ok(());
        }
        let new = Input::from_bytes("", new);
        let packed = PackedMember::new(record.member.content.form, new.as_slice())?;
        self.write_member(&record.member, new.as_slice(), packed)?;
        Ok(())
    }

    /// Replaces the output by a copy of the old file, and counts all members as kept.
    fn keep_old_file(&mut self) -> Result<()> {
        self.to.restart()?;
        self.to.copy_until(self.data.len())?;
        self.run.result = std::mem::take(&mut self.run.result).for_kept_file();
        self.result.kept += self.result.members;
        self.result.members = 0;
        Ok(())
    }

    /// Writes the directory of the new file, and the end record after it.
    fn write_directory(&mut self) -> Result<()> {
        let start = self.to.written();
        for member in &self.layout.members {
            let (offset, contents) = match self.changes.get(&member.start) {
                Some((offset, contents)) => (*offset, contents.as_ref()),
                None => (self.to.new_offset(member.start), None),
            };
            let mut header = self.layout.listed_header(member, offset, contents)?;
            if let Some(name) = self.new_name(member) {
                header = self.layout.rename_listed(member, &header, name)?;
            }
            self.to.write(&[Piece::Bytes(header)])?;
        }
        let end = self.layout.end_records(start, self.to.written() - start)?;
        self.to.write(&[Piece::Bytes(end)])
    }
}

impl ZipRewrite<'_, '_, '_> {
    /// Returns the old `RECORD` and the new one. Fails if the `RECORD` changes but is signed.
    fn read_old_and_make_record(
        &self,
        record: &WheelRecord<'_>,
        hashes: &[(WheelMember<'_>, HashAndSize)],
    ) -> Result<(Input, Vec<u8>)> {
        let old = record.member.read_text("RECORD")?;
        let (mut members, mut renamed) = (Vec::with_capacity(hashes.len()), HashMap::new());
        for (member, hash_and_size) in hashes {
            let name = self.written_name(member, &mut renamed)?;
            members.push((name, hash_and_size.clone()));
        }
        let name = self.written_name(&record.member, &mut renamed)?;
        let new = record::rewrite(old.bytes(), &name, &members, &renamed);
        if old.bytes() != new {
            record.ensure_unsigned()?;
        }
        Ok((old, new))
    }

    /// Returns the name of a member in the new wheel. Notes a new name in `renamed`, by the old one.
    fn written_name(&self, member: &WheelMember<'_>, renamed: &mut HashMap<String, String>) -> Result<String> {
        let old = text(&member.name).ok_or_else(|| member.not_utf8_error())?;
        let Some(new) = self.new_name(&member.content) else { return Ok(old) };
        let new = text(new).ok_or_else(|| member.not_utf8_error())?;
        renamed.insert(old, new.clone());
        Ok(new)
    }
}

impl WheelRecord<'_> {
    /// Returns an error if the `RECORD`, which has to change, is signed.
    fn ensure_unsigned(&self) -> Result<()> {
        let Some(signature) = &self.signature else { return Ok(()) };
        let reason = format!("'{}' signs RECORD, which has to change; remove the signature first", shown(signature));
        Err(Error::refused(ErrorKind::Unsupported, self.member.file(), None, reason))
    }
}

impl WheelMember<'_> {
    /// Returns the path of the zip file.
    fn file(&self) -> &Path {
        self.place.file()
    }

    /// Reads a text member. Fails if it is larger than [`TEXT_MAX`]: that error calls the member `name`.
    fn read_text(&self, name: &str) -> Result<Input> {
        let content = &self.content;
        if content.size > TEXT_MAX {
            let reason = format!("{name} has {} bytes, which is more than the limit of {TEXT_MAX}", content.size);
            return Err(Error::refused(ErrorKind::Limit, self.file(), content.stored.offset(), reason));
        }
        // Errors get the place of the member instead of a path.
        let old = content.reader().and_then(|reader| Input::spool(Path::new(""), reader));
        self.with_place(old)
    }

    fn not_utf8_error(&self) -> Error {
        let reason =
            format!("the name '{}' of a member is not UTF-8, as the RECORD of a wheel has to be", shown(&self.name));
        Error::refused(ErrorKind::Unsupported, self.file(), None, reason)
    }
}

/// Reads the first bytes of a member, which identify it. Never reads the last byte: the reader would then check the
/// size and the checksum, and fail for a broken member, which may only have to be copied.
fn read_head(content: &ZipContent<'_>) -> io::Result<Vec<u8>> {
    once::head(&mut content.reader()?, HEAD.min(content.size.saturating_sub(1)))
}

fn hash_and_size_of(mut reader: impl io::Read) -> io::Result<HashAndSize> {
    let mut sha256 = Sha256::new();
    let size = io::copy(&mut reader, &mut sha256)?;
    Ok(HashAndSize { hash: record::hash_text(&sha256.finalize()), size })
}

/// New contents of a member, compressed if the member is.
struct PackedMember {
    /// The checksum and the sizes for the headers of the member.
    header_values: NewContents,
    /// The compressed bytes, or `None` if the member is stored, so that the contents themselves are written.
    compressed: Option<Input>,
    /// The hash and the size for `RECORD`.
    hash_and_size: HashAndSize,
}

impl PackedMember {
    /// Packs the contents `new` in a compressed form, or leaves them as they are if `form` is `None`. Computes their
    /// hash and checksum in the same pass.
    fn new(form: Option<StreamForm>, new: Slice<'_>) -> Result<Self> {
        let (mut sha256, mut crc, path) = (Sha256::new(), Crc32::new(), new.path());
        let mut read = |to: &mut dyn Write| {
            new.read_blocks(&mut |block| {
                sha256.update(block);
                crc.update(block);
                to.write_all(block).with_path(path)
            })
        };
        let compressed = match form {
            Some(form) => {
                Some(form.write(form.usual_level(), Spool::new(), path, read)?.into_input(path).with_path(path)?)
            }
            // Stored contents are read only for the hash and the checksum.
            None => {
                read(&mut io::sink())?;
                None
            }
        };
        let size = new.len();
        let stored = match &compressed {
            Some(compressed) => compressed.len(),
            None => size,
        };
        let hash_and_size = HashAndSize { hash: record::hash_text(&sha256.finalize()), size };
        Ok(Self { header_values: NewContents { crc: crc.checksum(), size, stored }, compressed, hash_and_size })
    }
}

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
use super::local_version::WheelVersion;
use super::progress::ProgressRange;
use super::record::{self, HashAndSize};
use super::run::{Recompression, may_hold_bundles};
use super::{Recompressed, RecompressedZip};
use crate::base::bytes::text;
use crate::base::codec::{Method, StreamForm};
use crate::base::display::shown;
use crate::base::error::{Error, ErrorKind, Malformed, Result, WithPath};
use crate::base::io::input::{Input, Slice, Spool};
use crate::base::io::output::Output;
use crate::base::io::piece::Piece;
use crate::beyond::container::zip::{DirectoryRewrite, NewContents, ZipContent, ZipDirectory, ZipMember};
use crate::beyond::once;
use crate::beyond::scan::{HEAD, Place, Step, member_too_large};
use crate::llvm::container::magic::Magic;
use crate::llvm::event::Observer;

/// The maximum size of a `RECORD` and of `METADATA` in bytes. A wheel with 15,000 files has a `RECORD` of 1.5 MB.
const TEXT_MAX: u64 = 16 << 20;

/// The level for deflated members. Most wheels are written with level 6 of zlib. This is the lowest level of zlib-rs
/// that makes libraries as small.
const DEFLATE_LEVEL: i32 = 9;

/// Recompresses the members of a zip file.
pub(super) fn rewrite(
    run: &mut Recompression<'_>,
    data: Slice<'_>,
    output: Output,
    observer: &mut Observer<'_>,
) -> Result<Output> {
    let (layout, mut members) = read_members(data)?;
    let signature = members.iter().find(|member| record::is_signature_of_jar(&member.name));
    let signature = signature.map(|signature| signature.name.clone());
    let job = run.job;
    let version = match &job.local_version {
        Some(label) => Some(VersionChange::new(WheelVersion::of_file(&job.input, label)?, &members)?),
        None => None,
    };
    // `RECORD` is written last, when the hashes of all other members are known.
    let record = take_record(&mut members)?;
    if let Some(record) = &record
        && version.is_some()
    {
        record.ensure_unsigned()?;
    }
    // The members are written in the order of the file, which the directory need not have.
    members.sort_by_key(|member| member.content.start);
    let result = RecompressedZip { before: data.len(), ..RecompressedZip::default() };
    let to = Rewriter::new(data, output);
    let mut work = ZipRewrite { run, data, layout, signature, version, to, changes: HashMap::new(), result };
    // A member may be copied with the data around it, so `RECORD` is skipped where it is in the file.
    let (mut sums, mut next_record) = (Vec::new(), record.as_ref());
    for member in members {
        if let Some(record) = next_record.take_if(|record| record.member.content.start < member.content.start) {
            work.leave_out(record)?;
        }
        let stored = member.content.stored;
        work.run.progress = ProgressRange { start: stored.offset(), len: stored.len(), total: data.len() };
        // None of the member is done yet.
        work.run.progress.report(0, 1, observer);
        let sum = if member.is_directory {
            None
        } else if let Some(sum) = work.rewrite_metadata(&member)? {
            Some(sum)
        } else {
            work.rewrite_member(&member, record.is_some(), observer)?
        };
        work.rename_kept_member(&member)?;
        if let Some(sum) = sum {
            sums.push((member, sum));
        }
    }
    if let Some(record) = next_record {
        work.leave_out(record)?;
    }
    work.finish(record, sums)
}

/// Reads the directory of a zip file. Returns what is needed to write the directory again, and the members in the order
/// of the directory.
fn read_members(data: Slice<'_>) -> Result<(DirectoryRewrite<'_>, Vec<WheelMember<'_>>)> {
    let mut directory = ZipDirectory::read(data);
    if let Some(error) = directory.error.take() {
        return Err(error);
    }
    let (mut numbers, mut contents, mut members) = (HashMap::new(), Vec::new(), Vec::new());
    for ZipMember { name, is_directory, content } in std::mem::take(&mut directory.members) {
        let place = Place::of_file(data.path()).join(Step::Member(name.clone()));
        let content = content.map_err(|error| error.at(&place))?;
        contents.push(content);
        let number: &mut u64 = numbers.entry(name.clone()).or_default();
        *number += 1;
        members.push(WheelMember { name, is_directory, number: *number, place, content });
    }
    Ok((DirectoryRewrite::of(data, &directory, contents)?, members))
}

/// A member: a file or a directory.
struct WheelMember<'d> {
    name: Vec<u8>,
    is_directory: bool,
    /// Its number among the members of this name, counted from 1.
    number: u64,
    place: Place,
    content: ZipContent<'d>,
}

impl WheelMember<'_> {
    /// Adds the place to the error of reading the member.
    fn with_place<T>(&self, read: io::Result<T>) -> Result<T> {
        read.map_err(|error| self.content.error(error).at(&self.place))
    }

    /// Computes the hash and the size of its contents, and checks these.
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

/// Takes the `RECORD` out of the members and returns it, or `None` if they are not a wheel.
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
    /// Prepares the change of a wheel with these members. Fails if a zip file with them is not a wheel.
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
    /// The name of a signature of the members, if the file is a JAR file.
    signature: Option<Vec<u8>>,
    version: Option<VersionChange<'j>>,
    to: Rewriter<'d>,
    /// The members that are renamed or have new contents, by their offset in the old file: the offset in the output,
    /// and the values for the headers, or `None` if the contents are the old ones.
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
        // This fails if the header contradicts the directory.
        let range = self.layout.range_of(content)?;
        let header = self.layout.rename_local(content, &self.layout.old_local_header(content)?, name)?;
        self.to.copy_until(range.start)?;
        self.changes.insert(content.start, (self.to.written(), None));
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
        let old = member.read_small("METADATA")?;
        let new = Input::from_bytes("", change.version.new_metadata(old.bytes())?);
        let packed = PackedMember::new(member.content.form, new.as_slice())?;
        self.replace_member(member, new.as_slice(), packed).map(Some)
    }

    /// Recompresses a member if it holds bundles, and writes it if it changed. Returns the hash and the size of its
    /// contents if they `are_needed`.
    fn rewrite_member(
        &mut self,
        member: &WheelMember<'_>,
        are_needed: bool,
        observer: &mut Observer<'_>,
    ) -> Result<Option<HashAndSize>> {
        let content = &member.content;
        let head = member.with_place(read_head(content))?;
        let magic = Magic::identify(&head);
        let is_rewritten = (may_hold_bundles(magic) || is_archive(&head)) && !self.is_beside_replaced(member);
        let is_searched = self.run.remaining.is_some() && magic.may_hold_code();
        // A member that is only searched for remaining code is left out if it exceeds a limit. A member that is
        // rewritten must not exceed it.
        let is_inflated = if is_rewritten {
            self.charge(content).map_err(|error| error.at(&member.place))?;
            true
        } else {
            is_searched && self.charge(content).is_ok()
        };
        if !is_inflated {
            return if are_needed { Ok(Some(member.hash_and_size()?)) } else { Ok(None) };
        }
        // The errors of rewriting get their place here, and so have no path. A search needs the path of the zip file:
        // members of a thin archive are files beside it.
        let path = if is_rewritten { Path::new("") } else { self.data.path() };
        let old = match content.reader().and_then(|reader| Input::spool(path, reader)) {
            // A broken member is copied as it is, unless its hash is needed.
            Err(_) if !is_rewritten && !are_needed => return Ok(None),
            old => member.with_place(old)?,
        };
        let (new, result) = if is_rewritten {
            self.run.rewrite_member(&old, &member.place, observer)?
        } else {
            (None, Recompressed::default())
        };
        let Some(new) = new else {
            self.run.result.add(&result);
            return self.keep_member(member, &old, are_needed);
        };
        let packed = PackedMember::new(member.content.form, new.as_slice())?;
        // A stored member whose bundles became smaller keeps its length, with a hole. It is written nevertheless,
        // because the hole compresses well if the wheel is compressed as a whole. A compressed member has to become at
        // least one byte shorter.
        let len_max = member.content.stored.len().saturating_sub(u64::from(member.content.form.is_some()));
        if packed.header_values.stored > len_max && !self.run.must_change(result.dropped) {
            self.result.kept += 1;
            self.run.result.add(&result.unchanged());
            return self.keep_member(member, &old, are_needed);
        }
        self.run.result.add(&result);
        self.result.members += 1;
        self.note_remaining(member, new.as_slice())?;
        Ok(Some(self.replace_member(member, new.as_slice(), packed)?))
    }

    /// Keeps a member as it is. Returns the hash and the size of its contents if they `are_needed`.
    fn keep_member(&mut self, member: &WheelMember<'_>, old: &Input, are_needed: bool) -> Result<Option<HashAndSize>> {
        self.note_remaining(member, old.as_slice())?;
        if !are_needed {
            return Ok(None);
        }
        Ok(Some(member.with_place(hash_and_size_of(old.as_slice().reader()))?))
    }

    /// Notes the code in a written member that stays although its target is to be removed.
    fn note_remaining(&mut self, member: &WheelMember<'_>, written: Slice<'_>) -> Result<()> {
        match &mut self.run.remaining {
            Some(remaining) => remaining.add(&member.place, written),
            None => Ok(()),
        }
    }

    /// Returns whether a member stays as it is because the code object to replace is elsewhere. Without a replacement,
    /// none does. If the code object is in this member, and the member is stored, makes the offset of its bundle count
    /// from the start of the member.
    fn is_beside_replaced(&mut self, member: &WheelMember<'_>) -> bool {
        let Some(replacing) = &mut self.run.replacing else { return false };
        let stored = member.content.stored;
        match replacing.members.as_slice() {
            // The code object is in a stored member, at an offset in the file.
            [] if replacing.done.is_some() || member.content.form.is_some() => true,
            [] if (stored.offset()..stored.end()).contains(&replacing.bundle) => {
                replacing.bundle = replacing.bundle.saturating_sub(stored.offset());
                false
            }
            // The code object is in this compressed member, at an offset in its inflated contents.
            [(name, number)] => *name != member.name || *number != member.number || member.content.form.is_none(),
            // The code object is in a member of a member, which is not written again.
            _ => true,
        }
    }

    /// Charges the inflated size of a member to the limits.
    fn charge(&mut self, content: &ZipContent<'_>) -> Result<()> {
        let (path, offset, limits) = (content.stored.path(), content.stored.offset(), self.run.job.limits);
        if content.size > limits.inflated {
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
        let sum = self.write_member(member, new, packed)?;
        self.to.skip_until(range.end);
        Ok(sum)
    }

    /// Skips the old `RECORD`. The new one is written after all other members.
    fn leave_out(&mut self, record: &WheelRecord<'_>) -> Result<()> {
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
        Ok(packed.sum)
    }

    /// Writes the `RECORD` and the directory, and returns the output. If nothing has changed, or if the new file would
    /// be larger although nothing has to change, the output is a copy of the old file.
    fn finish(
        mut self,
        record: Option<WheelRecord<'_>>,
        mut sums: Vec<(WheelMember<'_>, HashAndSize)>,
    ) -> Result<Output> {
        // Without changed members, the file may still change: a wrong `RECORD` is corrected.
        let mut is_same = self.changes.is_empty();
        self.to.copy_until(self.layout.directory_start())?;
        if let Some(record) = record {
            // `RECORD` lists new members in the order of the directory.
            sums.sort_unstable_by_key(|(member, _)| member.content.listed.offset());
            let (old, new) = self.rewrite_record(&record, &sums)?;
            is_same &= old.bytes() == new;
            if !is_same {
                let new = Input::from_bytes("", new);
                let packed = PackedMember::new(record.member.content.form, new.as_slice())?;
                self.write_member(&record.member, new.as_slice(), packed)?;
            }
        }
        if !is_same {
            self.write_directory()?;
        }
        // The new RECORD may need more bytes than the members have saved.
        let is_larger = self.to.written() > self.data.len();
        let may_stay = self.version.is_none() && !self.run.must_change(self.run.result.dropped);
        let is_copied = is_same || (is_larger && may_stay);
        if is_copied {
            self.to.restart()?;
            self.to.copy_until(self.data.len())?;
            self.run.result = std::mem::take(&mut self.run.result).unchanged();
            self.result.kept += self.result.members;
            self.result.members = 0;
        } else if let Some(signature) = &self.signature {
            let reason = format!(
                "'{}' signs the members of the JAR file, which have to change; remove the signature first",
                shown(signature)
            );
            return Err(Error::refused(ErrorKind::Unsupported, self.data.path(), None, reason));
        }
        self.run.result.zip = Some(RecompressedZip { after: self.to.written(), ..self.result });
        Ok(self.to.output)
    }

    /// Writes the directory of the new file, and the record at its end.
    fn write_directory(&mut self) -> Result<()> {
        let start = self.to.written();
        for member in &self.layout.members {
            let (offset, contents) = match self.changes.get(&member.start) {
                Some((offset, contents)) => (*offset, contents.as_ref()),
                None => (self.to.moved(member.start), None),
            };
            let mut header = self.layout.listed_header(member, offset, contents)?;
            if let Some(name) = self.new_name(member) {
                header = self.layout.rename_listed(member, &header, name)?;
            }
            self.to.write(&[Piece::Bytes(header)])?;
        }
        let end = self.layout.end(start, self.to.written() - start)?;
        self.to.write(&[Piece::Bytes(end)])
    }
}

impl ZipRewrite<'_, '_, '_> {
    /// Returns the old `RECORD` and the new one.
    fn rewrite_record(
        &self,
        record: &WheelRecord<'_>,
        sums: &[(WheelMember<'_>, HashAndSize)],
    ) -> Result<(Input, Vec<u8>)> {
        let old = record.member.read_small("RECORD")?;
        let (mut members, mut renamed) = (Vec::with_capacity(sums.len()), HashMap::new());
        for (member, sum) in sums {
            let name = self.written_name(member, &mut renamed)?;
            members.push((name, sum.clone()));
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

    /// Reads a member whose contents are text. Fails if it is larger than [`TEXT_MAX`]. That error calls it `name`.
    fn read_small(&self, name: &str) -> Result<Input> {
        let content = &self.content;
        if content.size > TEXT_MAX {
            let reason = format!("{name} has {} bytes, which is more than the limit of {TEXT_MAX}", content.size);
            return Err(Error::refused(ErrorKind::Limit, self.file(), content.stored.offset(), reason));
        }
        let old = content.reader().and_then(|reader| Input::spool(Path::new(""), reader));
        self.with_place(old)
    }

    fn not_utf8_error(&self) -> Error {
        let reason =
            format!("the name '{}' of a member is not UTF-8, as the RECORD of a wheel has to be", shown(&self.name));
        Error::refused(ErrorKind::Unsupported, self.file(), None, reason)
    }
}

/// Reads the first bytes of a member, which identify it. The last byte is not read: with it, the reader would check the
/// size and the checksum, and a broken member may have to be copied as it is.
fn read_head(content: &ZipContent<'_>) -> io::Result<Vec<u8>> {
    once::head(&mut content.reader()?, HEAD.min(content.size.saturating_sub(1)))
}

fn hash_and_size_of(mut reader: impl io::Read) -> io::Result<HashAndSize> {
    let mut sha256 = Sha256::new();
    let size = io::copy(&mut reader, &mut sha256)?;
    Ok(HashAndSize { hash: record::hash_text(&sha256.finalize()), size })
}

/// New contents, compressed as a member.
struct PackedMember {
    /// The checksum and the sizes for the headers of the member.
    header_values: NewContents,
    /// The compressed bytes, or `None` if the member is stored, so that the contents themselves are written.
    compressed: Option<Input>,
    /// The hash and the size for `RECORD`.
    sum: HashAndSize,
}

impl PackedMember {
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
                let level = if form == StreamForm::Deflate { DEFLATE_LEVEL } else { Method::Zstd.default_level() };
                Some(form.write(level, Spool::new(), path, read)?.into_input(path).with_path(path)?)
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
        let sum = HashAndSize { hash: record::hash_text(&sha256.finalize()), size };
        Ok(Self { header_values: NewContents { crc: crc.checksum(), size, stored }, compressed, sum })
    }
}

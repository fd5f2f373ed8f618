//! Recompresses the members of a zip file, such as a Python wheel.
//!
//! Every member that would be recompressed as a file is recompressed, one at a time, and compressed with its old method.
//! All other members are copied as they are, and so are members that would not become smaller, unless code was removed.
//! In a wheel, the hashes and sizes in `RECORD` are updated, and `RECORD` moves to the end, as PyPA recommends. A signed
//! JAR file stays as it is.
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::Path;

use rawzip::Crc32;
use sha2::{Digest, Sha256};

use super::super::rewrite::Rewriter;
use super::archive::is_archive;
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
use crate::beyond::container::zip::{Directory, Layout, NewContents, ZipContent, ZipMember};
use crate::beyond::once;
use crate::beyond::scan::{HEAD, Place, Step, exceeded};
use crate::llvm::container::magic::Magic;
use crate::llvm::event::Observer;

/// The maximum size of a `RECORD` in bytes. A wheel with 15,000 files has one of 1.5 MB.
const RECORD_MAX: u64 = 16 << 20;

/// Recompresses the members of a zip file.
pub(super) fn rewrite(
    run: &mut Recompression<'_>,
    data: Slice<'_>,
    output: Output,
    observer: &mut Observer<'_>,
) -> Result<Output> {
    let mut directory = Directory::read(data);
    if let Some(error) = directory.error.take() {
        return Err(error);
    }
    let (mut numbers, mut all, mut members) = (HashMap::new(), Vec::new(), Vec::new());
    for ZipMember { name, is_directory, content } in std::mem::take(&mut directory.members) {
        let place = Place::of_file(data.path()).join(Step::Member(name.clone()));
        let content = content.map_err(|error| error.at(&place))?;
        all.push(content);
        let number: &mut u64 = numbers.entry(name.clone()).or_default();
        *number += 1;
        if !is_directory {
            members.push(WheelMember { name, number: *number, place, content });
        }
    }
    let layout = Layout::of(data, &directory, all)?;
    let signature = members.iter().find(|member| record::is_signature_of_jar(&member.name));
    let signature = signature.map(|signature| signature.name.clone());
    let record = take_record(&mut members)?;
    members.sort_by_key(|member| member.content.start);
    let result = RecompressedZip { before: data.len(), ..RecompressedZip::default() };
    let to = Rewriter::new(data, output);
    let mut work = ZipRewrite { run, data, layout, signature, to, changes: HashMap::new(), result };
    let (mut sums, mut next_record) = (Vec::new(), record.as_ref());
    for member in members {
        if let Some(record) = next_record.take_if(|record| record.member.content.start < member.content.start) {
            work.leave_out(record)?;
        }
        let stored = member.content.stored;
        work.run.progress = ProgressRange { start: stored.offset(), len: stored.len(), total: data.len() };
        work.run.progress.report(0, 1, observer);
        if let Some(sum) = work.rewrite_member(&member, record.is_some(), observer)? {
            sums.push((member, sum));
        }
    }
    if let Some(record) = next_record {
        work.leave_out(record)?;
    }
    work.finish(record, sums)
}

/// A member that is a file.
struct WheelMember<'d> {
    name: Vec<u8>,
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
    name: String,
    /// The name of a signature of the `RECORD`.
    signature: Option<Vec<u8>>,
}

/// Takes the `RECORD` out of the members and returns it, or `None` if they are not a wheel.
fn take_record<'d>(members: &mut Vec<WheelMember<'d>>) -> Result<Option<WheelRecord<'d>>> {
    // Readers take the last of several members with one name.
    let Some(at) = members.iter().rposition(|member| record::is_record(&member.name)) else { return Ok(None) };
    let member = members.remove(at);
    if members.iter().any(|other| record::is_record(&other.name) && other.name != member.name) {
        return Err(Error::refused(ErrorKind::Unsupported, member.file(), None, "a wheel has one RECORD, not several"));
    }
    let name = text(&member.name).ok_or_else(|| member.not_utf8_error())?;
    let signature = members.iter().find(|other| record::is_signature(&other.name, &name));
    let signature = signature.map(|signature| signature.name.clone());
    Ok(Some(WheelRecord { member, name, signature }))
}

/// The state of a zip file that is being rewritten.
struct ZipRewrite<'r, 'j, 'd> {
    run: &'r mut Recompression<'j>,
    data: Slice<'d>,
    layout: Layout<'d>,
    /// The name of a signature of the members, if the file is a JAR file.
    signature: Option<Vec<u8>>,
    to: Rewriter<'d>,
    /// The offset in the output and the new contents of each member that changes, by its start.
    changes: HashMap<u64, (u64, NewContents)>,
    result: RecompressedZip,
}

impl ZipRewrite<'_, '_, '_> {
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
        let is_rewritten = (may_hold_bundles(magic) || is_archive(&head)) && !self.stays(member);
        let is_searched = self.run.remaining.is_some() && magic.may_hold_code();
        let is_inflated = if is_rewritten {
            self.charge(content).map_err(|error| error.at(&member.place))?;
            true
        } else {
            // A member beyond the limit is not searched.
            is_searched && self.charge(content).is_ok()
        };
        if !is_inflated {
            return if are_needed { Ok(Some(member.hash_and_size()?)) } else { Ok(None) };
        }
        // The errors of rewriting get their place here. Members of thin archives are beside the zip file.
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
        let packed = PackedChange::new(member.content.form, new.as_slice())?;
        // A stored member whose bundles became smaller keeps its length, with a hole. It is written nevertheless, because
        // the hole compresses well if the wheel is compressed as a whole.
        let len_max = member.content.stored.len().saturating_sub(u64::from(member.content.form.is_some()));
        if packed.contents.stored > len_max && !self.run.must_change(result.dropped) {
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

    /// Notes the code in a written member that the job would have removed from bundles.
    fn note_remaining(&mut self, member: &WheelMember<'_>, written: Slice<'_>) -> Result<()> {
        match &mut self.run.remaining {
            Some(remaining) => remaining.add(&member.place, written),
            None => Ok(()),
        }
    }

    /// Returns whether a member stays as it is because a code object elsewhere is replaced. Otherwise makes the offset of
    /// the bundle in a stored member count from the start of the member.
    fn stays(&mut self, member: &WheelMember<'_>) -> bool {
        let Some(replacing) = &mut self.run.replacing else { return false };
        let stored = member.content.stored;
        match replacing.members.as_slice() {
            [] if replacing.done.is_some() || member.content.form.is_some() => true,
            [] if (stored.offset()..stored.end()).contains(&replacing.bundle) => {
                replacing.bundle = replacing.bundle.saturating_sub(stored.offset());
                false
            }
            [(name, number)] => *name != member.name || *number != member.number || member.content.form.is_none(),
            _ => true,
        }
    }

    /// Charges the inflating of a member.
    fn charge(&mut self, content: &ZipContent<'_>) -> Result<()> {
        let (path, offset, limits) = (content.stored.path(), content.stored.offset(), self.run.job.limits);
        if content.size > limits.inflated {
            return Err(exceeded(content.stored, limits, content.size));
        }
        match self.run.budget.take(content.size) {
            Ok(()) => Ok(()),
            Err((what, limit)) => Err(Error::malformed(path, Malformed::search(what, limit, offset))),
        }
    }

    /// Copies the data before a member, and writes the member with other contents.
    fn replace_member(
        &mut self,
        member: &WheelMember<'_>,
        new: Slice<'_>,
        packed: PackedChange,
    ) -> Result<HashAndSize> {
        let range = self.layout.range_of(&member.content)?;
        self.to.copy_until(range.start)?;
        let sum = self.write_member(member, new, packed)?;
        self.to.skip_until(range.end);
        Ok(sum)
    }

    /// Leaves out the `RECORD`, which is written later.
    fn leave_out(&mut self, record: &WheelRecord<'_>) -> Result<()> {
        let range = self.layout.range_of(&record.member.content)?;
        self.to.copy_until(range.start)?;
        self.to.skip_until(range.end);
        Ok(())
    }

    fn write_member(&mut self, member: &WheelMember<'_>, new: Slice<'_>, packed: PackedChange) -> Result<HashAndSize> {
        let header = self.layout.local_header(&member.content, &packed.contents)?;
        self.changes.insert(member.content.start, (self.to.written(), packed.contents));
        let stored = match &packed.bytes {
            Some(bytes) => bytes.as_slice(),
            None => new,
        };
        self.to.write(&[Piece::Bytes(header), Piece::Input(stored)])?;
        Ok(packed.sum)
    }

    /// Writes the `RECORD` and the directory.
    fn finish(
        mut self,
        record: Option<WheelRecord<'_>>,
        mut sums: Vec<(WheelMember<'_>, HashAndSize)>,
    ) -> Result<Output> {
        let mut is_same = self.changes.is_empty();
        self.to.copy_until(self.layout.directory_start())?;
        if let Some(record) = record {
            sums.sort_unstable_by_key(|(member, _)| member.content.listed.offset());
            let (old, new) = record.rewrite(&sums)?;
            is_same &= old.bytes() == new;
            if !is_same {
                let new = Input::from_bytes("", new);
                let packed = PackedChange::new(record.member.content.form, new.as_slice())?;
                self.write_member(&record.member, new.as_slice(), packed)?;
            }
        }
        if !is_same {
            self.write_directory()?;
        }
        // The new RECORD may need more than the members have saved.
        let is_larger = self.to.written() > self.data.len();
        if is_same || is_larger && !self.run.must_change(self.run.result.dropped) {
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

    fn write_directory(&mut self) -> Result<()> {
        let start = self.to.written();
        for member in &self.layout.members {
            let (offset, contents) = match self.changes.get(&member.start) {
                Some((offset, contents)) => (*offset, Some(contents)),
                None => (self.to.moved(member.start), None),
            };
            let header = self.layout.listed_header(member, offset, contents)?;
            self.to.write(&[Piece::Bytes(header)])?;
        }
        let end = self.layout.end(start, self.to.written() - start)?;
        self.to.write(&[Piece::Bytes(end)])
    }
}

impl WheelRecord<'_> {
    /// Returns the old `RECORD` and the new one.
    fn rewrite(&self, sums: &[(WheelMember<'_>, HashAndSize)]) -> Result<(Input, Vec<u8>)> {
        let content = &self.member.content;
        if content.size > RECORD_MAX {
            let reason = format!("RECORD has {} bytes, which is more than the limit of {RECORD_MAX}", content.size);
            return Err(Error::refused(ErrorKind::Limit, self.member.file(), content.stored.offset(), reason));
        }
        let old = content.reader().and_then(|reader| Input::spool(Path::new(""), reader));
        let old = self.member.with_place(old)?;
        let mut members = Vec::with_capacity(sums.len());
        for (member, sum) in sums {
            let name = text(&member.name).ok_or_else(|| member.not_utf8_error())?;
            members.push((name, sum.clone()));
        }
        let new = record::rewrite(old.bytes(), &self.name, &members);
        match &self.signature {
            Some(signature) if old.bytes() != new => {
                let reason =
                    format!("'{}' signs RECORD, which has to change; remove the signature first", shown(signature));
                Err(Error::refused(ErrorKind::Unsupported, self.member.file(), None, reason))
            }
            _ => Ok((old, new)),
        }
    }
}

impl WheelMember<'_> {
    /// Returns the path of the zip file.
    fn file(&self) -> &Path {
        self.place.file()
    }

    fn not_utf8_error(&self) -> Error {
        let reason =
            format!("the name '{}' of a member is not UTF-8, as the RECORD of a wheel has to be", shown(&self.name));
        Error::refused(ErrorKind::Unsupported, self.file(), None, reason)
    }
}

/// Reads the first bytes of a member, which identify it.
fn read_head(content: &ZipContent<'_>) -> io::Result<Vec<u8>> {
    once::head(&mut content.reader()?, HEAD.min(content.size.saturating_sub(1)))
}

fn hash_and_size_of(mut reader: impl io::Read) -> io::Result<HashAndSize> {
    let mut sha256 = Sha256::new();
    let size = io::copy(&mut reader, &mut sha256)?;
    Ok(HashAndSize { hash: record::hash_text(&sha256.finalize()), size })
}

/// New contents, compressed as a member.
struct PackedChange {
    contents: NewContents,
    /// The compressed bytes, or `None` if the contents are stored.
    bytes: Option<Input>,
    sum: HashAndSize,
}

impl PackedChange {
    fn new(form: Option<StreamForm>, new: Slice<'_>) -> Result<Self> {
        let (mut sha256, mut crc, path) = (Sha256::new(), Crc32::new(), new.path());
        let mut read = |to: &mut dyn Write| {
            new.read_blocks(&mut |block| {
                sha256.update(block);
                crc.update(block);
                to.write_all(block).with_path(path)
            })
        };
        let bytes = match form {
            Some(form) => {
                // Most wheels are written with level 6 of zlib. This is the lowest level of zlib-rs that makes libraries
                // as small.
                let level = if form == StreamForm::Deflate { 9 } else { Method::Zstd.default_level() };
                Some(form.write(level, Spool::new(), path, read)?.into_input(path).with_path(path)?)
            }
            None => {
                read(&mut io::sink())?;
                None
            }
        };
        let size = new.len();
        let stored = match &bytes {
            Some(bytes) => bytes.len(),
            None => size,
        };
        let sum = HashAndSize { hash: record::hash_text(&sha256.finalize()), size };
        Ok(Self { contents: NewContents { crc: crc.checksum(), size, stored }, bytes, sum })
    }
}

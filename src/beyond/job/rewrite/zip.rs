//! Writes a zip file, such as a Python wheel, again with other members.
//!
//! All other members are copied as they are. In a wheel, the hashes and sizes in `RECORD` are updated, and `RECORD` moves
//! to the end, as PyPA recommends. A signed JAR file stays as it is.
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

use std::collections::HashMap;
use std::io;
use std::path::Path;

use rawzip::Crc32;
use sha2::{Digest, Sha256};

use super::record::{self, HashAndSize};
use super::{NO_PATH, Rewriter, unexpected_parts};
use crate::base::bytes::{add, text, to_u64};
use crate::base::display::shown;
use crate::base::error::{Error, ErrorKind, Result, WithPath};
use crate::base::io::input::{Input, Slice, Spool};
use crate::base::io::output::Output;
use crate::base::io::piece::Piece;
use crate::beyond::codec::StreamForm;
use crate::beyond::container::zip::{DirectoryRewrite, NewContents, ZipContent, ZipDirectory, ZipMember};
use crate::beyond::scan::{Place, Step};

/// The maximum size of a `RECORD` and of `METADATA` in bytes. A wheel with 15,000 files has a `RECORD` of 1.5 MB.
const TEXT_MAX: u64 = 16 << 20;

/// A zip file that is written again.
pub(crate) struct ZipWriter<'d> {
    data: Slice<'d>,
    layout: DirectoryRewrite<'d>,
    /// The name of a member that signs the others, if the file is a signed JAR file.
    jar_signature: Option<Vec<u8>>,
    /// The new names of members that get one, by the offset of the member. Several members may have one name.
    pub(crate) new_names: HashMap<u64, Vec<u8>>,
    pub(crate) to: Rewriter<'d>,
    /// The renamed members and those with new contents, by their offset in the old file. Each has its offset in the
    /// output, and the values for its headers. The values are `None` if the contents are the old ones.
    changes: HashMap<u64, (u64, Option<NewContents>)>,
}

/// Writes a member with the `T` that was made for it, or leaves it to be copied. Returns the hash and the size of its
/// contents, or `None` if it did not change and they are not needed.
pub(crate) type WriteMember<'w, 'd, T> =
    dyn FnMut(&mut ZipWriter<'d>, &WheelMember<'d>, T) -> Result<Option<HashAndSize>> + 'w;

/// A member: a file or a directory.
pub(crate) struct WheelMember<'d> {
    pub(crate) name: Vec<u8>,
    pub(crate) is_directory: bool,
    /// The number of the member among those of the same name, counted from 1.
    pub(crate) number: u64,
    pub(crate) place: Place,
    pub(crate) content: ZipContent<'d>,
}

impl WheelMember<'_> {
    /// Adds the place to the error of reading the member.
    pub(crate) fn with_place<T>(&self, read: io::Result<T>) -> Result<T> {
        read.map_err(|error| self.content.error(error).at(&self.place))
    }

    /// Computes the hash and the size of the contents. Fails if the contents do not have the recorded checksum and
    /// size.
    pub(crate) fn hash_and_size(&self) -> Result<HashAndSize> {
        self.with_place(self.content.read(|reader| hash_and_size_of(reader)))
    }

    /// Returns the path of the zip file.
    fn file(&self) -> &Path {
        self.place.file()
    }

    /// Reads a text member. Fails if it is larger than [`TEXT_MAX`]: that error calls the member `name`.
    pub(crate) fn read_text(&self, name: &str) -> Result<Input> {
        let content = &self.content;
        if content.size > TEXT_MAX {
            let reason = format!("{name} has {} bytes, which is more than the limit of {TEXT_MAX}", content.size);
            return Err(Error::refused(ErrorKind::Limit, self.file(), content.stored.offset(), reason));
        }
        self.with_place(content.spool(Path::new(NO_PATH)))
    }

    fn not_utf8_error(&self) -> Error {
        let reason =
            format!("the name '{}' of a member is not UTF-8, as the RECORD of a wheel has to be", shown(&self.name));
        Error::refused(ErrorKind::Unsupported, self.file(), None, reason)
    }
}

/// The `RECORD` of a wheel.
pub(crate) struct WheelRecord<'d> {
    member: WheelMember<'d>,
    /// The name of a signature of the `RECORD`.
    signature: Option<Vec<u8>>,
}

impl WheelRecord<'_> {
    /// Returns an error if the `RECORD`, which has to change, is signed.
    pub(crate) fn ensure_unsigned(&self) -> Result<()> {
        let Some(signature) = &self.signature else { return Ok(()) };
        let reason = format!("'{}' signs RECORD, which has to change; remove the signature first", shown(signature));
        Err(Error::refused(ErrorKind::Unsupported, self.member.file(), None, reason))
    }
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

/// Takes the `RECORD` out of the members and returns it. Returns `None` if the members have none, and so are not a
/// wheel.
pub(crate) fn take_record<'d>(members: &mut Vec<WheelMember<'d>>) -> Result<Option<WheelRecord<'d>>> {
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

impl<'d> ZipWriter<'d> {
    /// Reads the directory of a zip file. Returns also the members, in the order of the file.
    pub(crate) fn new(data: Slice<'d>, output: Output) -> Result<(Self, Vec<WheelMember<'d>>)> {
        let (layout, mut members) = read_members(data)?;
        // The directory need not have this order.
        members.sort_by_key(|member| member.content.start);
        let jar_signature = members.iter().find(|member| record::is_signature_of_jar(&member.name));
        let jar_signature = jar_signature.map(|signature| signature.name.clone());
        let (to, new_names, changes) = (Rewriter::new(data, output), HashMap::new(), HashMap::new());
        Ok((Self { data, layout, jar_signature, new_names, to, changes }, members))
    }

    /// Passes the members, which are in the order of the file, to `write`, each with what was made for it. Skips the old
    /// `RECORD`: a new one is [written](Self::write_tables) after all other members. Returns the hashes and sizes for it.
    pub(crate) fn write_members<T>(
        &mut self,
        members: impl Iterator<Item = (WheelMember<'d>, T)>,
        record: Option<&WheelRecord<'d>>,
        write: &mut WriteMember<'_, 'd, T>,
    ) -> Result<Vec<(WheelMember<'d>, HashAndSize)>> {
        // Unchanged members are copied together with the data between them, so the old `RECORD` is skipped in its place.
        let (mut hashes, mut record_to_skip) = (Vec::new(), record);
        for (member, made) in members {
            if let Some(record) = record_to_skip.take_if(|record| record.member.content.start < member.content.start) {
                self.skip_old_record(record)?;
            }
            let hash_and_size = if member.is_directory { None } else { write(self, &member, made)? };
            self.rename_kept_member(&member)?;
            if let Some(hash_and_size) = hash_and_size {
                hashes.push((member, hash_and_size));
            }
        }
        if let Some(record) = record_to_skip {
            self.skip_old_record(record)?;
        }
        Ok(hashes)
    }

    /// Returns the new name of a member, or `None` if it keeps its name.
    fn new_name(&self, member: &ZipContent<'_>) -> Option<&[u8]> {
        self.new_names.get(&member.start).map(Vec::as_slice)
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

    /// Copies the data before a member, and writes the member with other contents.
    pub(crate) fn replace_member(
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

    /// Writes the `RECORD`, if it or a member has changed, and the directory. Returns whether anything has changed.
    pub(crate) fn write_tables(
        &mut self,
        record: Option<WheelRecord<'d>>,
        hashes: Vec<(WheelMember<'d>, HashAndSize)>,
    ) -> Result<bool> {
        self.to.copy_until(self.layout.directory_start())?;
        if let Some(record) = record {
            self.write_record_if_changed(&record, hashes)?;
        }
        let is_changed = !self.changes.is_empty();
        if is_changed {
            self.write_directory()?;
        }
        Ok(is_changed)
    }

    /// Replaces the output by a copy of the old file.
    pub(crate) fn keep_old_file(&mut self) -> Result<()> {
        self.to.restart()?;
        self.to.copy_until(self.data.len())
    }

    /// Fails if a changed file is not valid: if a signature does not permit changes, or if its directory does not have
    /// each member with its new size. The contents of the members are checked already.
    pub(crate) fn ensure_valid(&mut self) -> Result<()> {
        if let Some(signature) = &self.jar_signature {
            let reason = format!(
                "'{}' signs the members of the JAR file, which have to change; remove the signature first",
                shown(signature)
            );
            return Err(Error::refused(ErrorKind::Unsupported, self.data.path(), None, reason));
        }
        self.ensure_members()
    }

    /// Fails if the directory of the new file does not have each member with its new size.
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
        hashes.sort_unstable_by_key(|(member, _)| member.content.directory_header.offset());
        let (old, new) = self.read_old_and_make_record(record, &hashes)?;
        if self.changes.is_empty() && old.bytes() == new {
            return Ok(());
        }
        let new = Input::from_bytes(NO_PATH, new);
        let packed = PackedMember::new(record.member.content.form, new.as_slice())?;
        self.write_member(&record.member, new.as_slice(), packed)?;
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

/// Reads all bytes of a member, and returns their hash and their number.
pub(crate) fn hash_and_size_of(mut reader: impl io::Read) -> io::Result<HashAndSize> {
    let (mut sha256, mut size, mut block) = (Sha256::new(), 0, [0; 8 << 10]);
    loop {
        let count = reader.read(&mut block)?;
        if count == 0 {
            break;
        }
        sha256.update(block.get(..count).unwrap_or_default());
        add(&mut size, to_u64(count));
    }
    Ok(HashAndSize { hash: record::hash_text(&sha256.finalize()), size })
}

/// New contents of a member, compressed if the member is.
pub(crate) struct PackedMember {
    /// The checksum and the sizes for the headers of the member.
    pub(crate) header_values: NewContents,
    /// The compressed bytes, or `None` if the member is stored, so that the contents themselves are written.
    compressed: Option<Input>,
    /// The hash and the size for `RECORD`.
    hash_and_size: HashAndSize,
}

impl PackedMember {
    /// Packs the contents `new` in a compressed form, or leaves them as they are if `form` is `None`. Computes their
    /// hash and checksum in the same pass.
    pub(crate) fn new(form: Option<StreamForm>, new: Slice<'_>) -> Result<Self> {
        let (mut sha256, path) = (Sha256::new(), new.path());
        let (compressed, crc) = match form {
            Some(form) => {
                let (spool, crc) = form.pack(new, Spool::new(), &mut |block| sha256.update(block))?;
                (Some(spool.into_input(path).with_path(path)?), crc)
            }
            // Stored contents are read only for the hash and the checksum.
            None => {
                let mut crc = Crc32::new();
                new.read_blocks(&mut |block| {
                    sha256.update(block);
                    crc.update(block);
                    Ok(())
                })?;
                (None, crc.checksum())
            }
        };
        let size = new.len();
        let stored = match &compressed {
            Some(compressed) => compressed.len(),
            None => size,
        };
        let hash_and_size = HashAndSize { hash: record::hash_text(&sha256.finalize()), size };
        Ok(Self { header_values: NewContents { crc, size, stored }, compressed, hash_and_size })
    }
}

//! Recompresses the members of a zip file, such as a Python wheel.
//!
//! Every member that would be recompressed as a file is recompressed, one at a time, and compressed with its old
//! method. Members that would not become smaller stay as they are, unless code was removed. A wheel that gets a local
//! version has other names of members too.
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::Path;

use super::super::rewrite::progress::ProgressRange;
use super::super::rewrite::record::HashAndSize;
use super::super::rewrite::zip::{PackedMember, WheelMember, ZipWriter, hash_and_size_of, take_record};
use super::archive::is_archive;
use super::local_version::WheelVersion;
use super::run::{Recompression, may_hold_bundles};
use super::{Recompressed, RecompressedZip};
use crate::base::display::shown;
use crate::base::error::{Error, Malformed, Result};
use crate::base::io::input::{Input, Slice};
use crate::base::io::output::Output;
use crate::beyond::container::Magic;
use crate::beyond::container::zip::ZipContent;
use crate::beyond::once;
use crate::beyond::scan::{HEAD, member_too_large};
use crate::llvm::event::Observer;

/// Recompresses the members of a zip file, one after another in the order of the file, then writes `RECORD` and the
/// directory. If nothing has changed, the output is a copy of the old file.
pub(super) fn rewrite(
    run: &mut Recompression<'_>,
    data: Slice<'_>,
    output: Output,
    observer: &mut Observer<'_>,
) -> Result<Output> {
    let (mut zip, mut members) = ZipWriter::new(data, output)?;
    let job = run.job;
    let version = match &job.local_version {
        Some(label) => {
            let (version, new_names) = VersionChange::new(WheelVersion::of_file(&job.input, label)?, &members)?;
            zip.new_names = new_names;
            Some(version)
        }
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
    let result = RecompressedZip { before: data.len(), ..RecompressedZip::default() };
    let mut work = ZipRecompression { run, data, version, result };
    let hashes = zip.write_members(members, record.as_ref(), &mut |zip, member, is_hash_needed| {
        let stored = member.content.stored;
        work.run.progress = ProgressRange { start: stored.offset(), len: stored.len(), total: data.len() };
        // Nothing of the member is done yet.
        work.run.progress.report(0, 1, observer);
        match work.rewrite_metadata(zip, member)? {
            Some(hash_and_size) => Ok(Some(hash_and_size)),
            None => work.rewrite_member(zip, member, is_hash_needed, observer),
        }
    })?;
    let is_changed = zip.write_tables(record, hashes)?;
    work.finish(zip, is_changed)
}

/// The change of a wheel to a local version.
struct VersionChange<'j> {
    version: WheelVersion<'j>,
    /// The name of `METADATA`.
    metadata: Vec<u8>,
}

impl<'j> VersionChange<'j> {
    /// Prepares the change of a wheel with these members. Returns also the new names of members whose names have the
    /// version, by the offset of the member. Fails if they are not the members of a wheel.
    fn new(version: WheelVersion<'j>, members: &[WheelMember<'_>]) -> Result<(Self, HashMap<u64, Vec<u8>>)> {
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
        Ok((Self { version, metadata }, names))
    }
}

/// The recompression of the members of a zip file.
struct ZipRecompression<'r, 'j, 'd> {
    run: &'r mut Recompression<'j>,
    data: Slice<'d>,
    version: Option<VersionChange<'j>>,
    result: RecompressedZip,
}

impl ZipRecompression<'_, '_, '_> {
    /// Writes `METADATA` with the new version. Returns its hash and size, or `None` if the member is another one or no
    /// version changes.
    fn rewrite_metadata(&self, zip: &mut ZipWriter<'_>, member: &WheelMember<'_>) -> Result<Option<HashAndSize>> {
        let Some(change) = &self.version else { return Ok(None) };
        if change.metadata != member.name {
            return Ok(None);
        }
        let old = member.read_text("METADATA")?;
        let new = Input::from_bytes("", change.version.new_metadata(old.bytes())?);
        let packed = PackedMember::new(member.content.form, new.as_slice())?;
        zip.replace_member(member, new.as_slice(), packed).map(Some)
    }

    /// Recompresses a member if it holds bundles, and writes the member if it changed. Returns the hash and the size of
    /// the written contents, or `None` if the member did not change and `RECORD` does not need them.
    ///
    /// A job that removes targets also searches each member for code that it does not remove, and reports that code.
    fn rewrite_member(
        &mut self,
        zip: &mut ZipWriter<'_>,
        member: &WheelMember<'_>,
        is_hash_needed: bool,
        observer: &mut Observer<'_>,
    ) -> Result<Option<HashAndSize>> {
        let content = &member.content;
        let head = member.with_place(read_head(content))?;
        let magic = Magic::identify(&head);
        let is_rewritten = may_hold_bundles(magic) || is_archive(&head);
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
        Ok(Some(zip.replace_member(member, new.as_slice(), packed)?))
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

    /// Returns the output. If nothing has changed, or if the new file would be larger although nothing has to change,
    /// the output is a copy of the old file. Fails if a signed JAR file would change.
    fn finish(mut self, mut zip: ZipWriter<'_>, is_changed: bool) -> Result<Output> {
        // The new RECORD may need more bytes than the members have saved.
        let is_larger = zip.to.written() > self.data.len();
        let may_stay = self.version.is_none() && !self.run.must_change(self.run.result.dropped);
        if !is_changed || (is_larger && may_stay) {
            zip.keep_old_file()?;
            self.run.result = std::mem::take(&mut self.run.result).for_kept_file();
            // All members count as kept.
            self.result.kept += self.result.members;
            self.result.members = 0;
        } else {
            zip.ensure_valid()?;
        }
        self.run.result.zip = Some(RecompressedZip { after: zip.to.written(), ..self.result });
        Ok(zip.to.output)
    }
}

/// Reads the first bytes of a member, which identify it. Never reads the last byte: the reader would then check the
/// size and the checksum, and fail for a broken member, which may only have to be copied.
fn read_head(content: &ZipContent<'_>) -> io::Result<Vec<u8>> {
    once::head(&mut content.reader()?, HEAD.min(content.size.saturating_sub(1)))
}

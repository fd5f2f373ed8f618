//! Recompresses the members of a zip file, such as a Python wheel.
//!
//! Every member that would be recompressed as a file is recompressed, and compressed with its old method, on all
//! processors. Members that would not become smaller stay as they are, unless code was removed. They are written in the
//! order of the file. A wheel that gets a local version has other names of members too.
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::Path;

use super::super::rewrite::NO_PATH;
use super::super::rewrite::progress::ProgressRange;
use super::super::rewrite::record::HashAndSize;
use super::super::rewrite::zip::{PackedMember, WheelMember, ZipWriter, hash_and_size_of, take_record};
use super::RecompressedZip;
use super::archive::is_archive;
use super::local_version::WheelVersion;
use super::run::{Recompression, may_hold_bundles};
use crate::base::display::shown;
use crate::base::error::{Error, Malformed, Result};
use crate::base::io::input::{Input, Slice};
use crate::base::io::output::Output;
use crate::beyond::container::Magic;
use crate::beyond::container::zip::ZipContent;
use crate::beyond::job::event::Observer;
use crate::beyond::once;
use crate::beyond::parallel::{self, has_disk_space};
use crate::beyond::scan::{Budget, HEAD, member_too_large};

/// Recompresses the members of a zip file, writes them in the order of the file, then writes `RECORD` and the directory.
/// If nothing has changed, the output is a copy of the old file.
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
    let (start, is_hash_needed) = (Recompression::new(job, run.picker, data.len()), record.is_some());
    let maker = MemberMaker { start: &start, data, version: version.as_ref(), is_hash_needed };
    let mut result = RecompressedZip { before: data.len(), ..RecompressedZip::default() };
    let hashes = maker.make_all(members, observer, |made_members| {
        zip.write_members(made_members, record.as_ref(), &mut |zip, member, made| {
            let made = match made {
                Ok(made) if run.budget.charge_part(&made.run.budget).is_some() => made,
                // The member is made again with what is left of the budget. So the error is the same for any number of
                // threads, and if the disk was full, it may have room again.
                _ => {
                    let made = maker.make(member, run.budget.clone(), &mut |_| {})?;
                    run.budget = made.run.budget.clone();
                    made
                }
            };
            result.unchanged += usize::from(made.would_not_shrink);
            result.members += usize::from(made.is_rewritten);
            run.add_member(made.run);
            match made.new {
                Some((new, packed)) => zip.replace_member(member, new.as_slice(), packed).map(Some),
                None => Ok(made.hash_and_size),
            }
        })
    })?;
    let is_changed = zip.write_tables(record, hashes)?;
    finish(run, data, (zip, is_changed), result, version.is_some())
}

/// The change of a wheel to a local version.
struct VersionChange<'j> {
    version: WheelVersion<'j>,
    /// The path of the member `METADATA` in the wheel.
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

/// Makes the new contents of members.
struct MemberMaker<'m, 'd> {
    /// The recompression as it was before the first member.
    start: &'m Recompression<'m>,
    data: Slice<'d>,
    version: Option<&'m VersionChange<'m>>,
    /// Whether `RECORD` needs the hashes of members that do not change.
    is_hash_needed: bool,
}

/// The result of making a member.
struct MadeMember<'m> {
    /// The recompression of the member alone.
    run: Recompression<'m>,
    /// The new contents, or `None` if the member stays as it is.
    new: Option<(Input, PackedMember)>,
    /// The hash and the size of the old contents, or `None` if they change or `RECORD` does not need them.
    hash_and_size: Option<HashAndSize>,
    /// Whether bundles of the member were rewritten, and it changes.
    is_rewritten: bool,
    /// Whether it stays because it would not have become smaller.
    would_not_shrink: bool,
}

impl<'m> MadeMember<'m> {
    /// A member that stays as it is.
    fn unchanged(run: Recompression<'m>, hash_and_size: Option<HashAndSize>) -> Self {
        Self { run, new: None, hash_and_size, is_rewritten: false, would_not_shrink: false }
    }

    /// Returns the weight of the new contents.
    fn weight(&self) -> usize {
        let size = match &self.new {
            Some((new, packed)) => new.len().saturating_add(packed.header_values.stored),
            None => 0,
        };
        parallel::weight_of_len(size)
    }
}

impl<'m, 'd> MemberMaker<'m, 'd> {
    /// Makes all members on all processors, and passes them to `consume`, in order. Members that are made on this
    /// thread report their progress.
    fn make_all<R>(
        &self,
        members: Vec<WheelMember<'d>>,
        observer: &mut Observer<'_>,
        consume: impl FnOnce(&mut dyn Iterator<Item = (WheelMember<'d>, Result<MadeMember<'m>>)>) -> R,
    ) -> R {
        let make = |member: WheelMember<'d>, observer: &mut Observer<'_>| {
            let made = self.make(&member, self.start.budget.clone(), observer);
            (member, made)
        };
        let mut make_here = |member| make(member, observer);
        /// The inflated member, its inflated bundles, the new member, and its compressed form.
        const FILES_PER_MEMBER: u64 = 4;
        if !has_disk_space(members.iter().map(|member| member.content.size), FILES_PER_MEMBER) {
            return consume(&mut members.into_iter().map(make_here));
        }
        parallel::in_order_here(
            members,
            |member| make(member, &mut |_| {}),
            &mut make_here,
            |(_, made)| made.as_ref().map_or(1, MadeMember::weight),
            consume,
        )
    }

    /// Makes a member.
    fn make(&self, member: &WheelMember<'d>, budget: Budget, observer: &mut Observer<'_>) -> Result<MadeMember<'m>> {
        let stored = member.content.stored;
        let progress = ProgressRange { start: stored.offset(), len: stored.len(), total: self.data.len() };
        let run = self.start.of_member(budget, progress);
        if member.is_directory {
            return Ok(MadeMember::unchanged(run, None));
        }
        // Nothing of the member is done yet.
        progress.report(0, 1, observer);
        match self.version {
            Some(change) if change.metadata == member.name => {
                let old = member.read_text("METADATA")?;
                let new = Input::from_bytes(NO_PATH, change.version.new_metadata(old.bytes())?);
                let packed = PackedMember::new(member.content.form, new.as_slice())?;
                Ok(MadeMember { new: Some((new, packed)), ..MadeMember::unchanged(run, None) })
            }
            _ => self.make_content(run, member, observer),
        }
    }

    /// Recompresses a member if it holds bundles. Other members stay as they are.
    fn make_content(
        &self,
        run: Recompression<'m>,
        member: &WheelMember<'d>,
        observer: &mut Observer<'_>,
    ) -> Result<MadeMember<'m>> {
        let head = member.with_place(read_head(&member.content))?;
        let magic = Magic::identify(&head);
        if may_hold_bundles(magic) || is_archive(&head) {
            self.rewrite_content(run, member, observer)
        } else {
            self.keep_other_member(run, member, magic.may_hold_code())
        }
    }

    /// Recompresses a member that holds bundles. A member that exceeds a limit is an error.
    fn rewrite_content(
        &self,
        mut run: Recompression<'m>,
        member: &WheelMember<'d>,
        observer: &mut Observer<'_>,
    ) -> Result<MadeMember<'m>> {
        let content = &member.content;
        charge(&mut run, content).map_err(|error| error.at(&member.place))?;
        let old = member.with_place(content.spool(Path::new(NO_PATH)))?;
        let (new, result) = run.rewrite_member(&old, &member.place, observer)?;
        let Some(new) = new else {
            run.result.add(&result);
            return self.keep_member(run, member, &old);
        };
        let packed = PackedMember::new(content.form, new.as_slice())?;
        // The new member is written if it takes at most `len_max` bytes in the zip file. A stored member whose bundles
        // became smaller keeps its length, with a hole. It is written nevertheless, because the hole compresses well if
        // the wheel is compressed as a whole. A compressed member (`form` is `Some`) has to become at least one byte
        // shorter.
        let len_max = content.stored.len().saturating_sub(u64::from(content.form.is_some()));
        if packed.header_values.stored > len_max && !run.must_change(result.dropped) {
            run.result.add(&result.for_kept_file());
            return Ok(MadeMember { would_not_shrink: true, ..self.keep_member(run, member, &old)? });
        }
        run.result.add(&result);
        note_remaining(&mut run, member, new.as_slice())?;
        Ok(MadeMember { new: Some((new, packed)), is_rewritten: true, ..MadeMember::unchanged(run, None) })
    }

    /// Keeps a member without bundles as it is. If the job removes targets and the member `may_hold_code`, searches the
    /// member for code of these targets, unless it exceeds a limit.
    fn keep_other_member(
        &self,
        mut run: Recompression<'m>,
        member: &WheelMember<'d>,
        may_hold_code: bool,
    ) -> Result<MadeMember<'m>> {
        let is_searched = run.remaining.is_some() && may_hold_code && charge(&mut run, &member.content).is_ok();
        if !is_searched {
            let hash_and_size = if self.is_hash_needed { Some(member.hash_and_size()?) } else { None };
            return Ok(MadeMember::unchanged(run, hash_and_size));
        }
        // The search opens the members of a thin archive, which are separate files, relative to the zip file.
        match member.with_place(member.content.spool(self.data.path())) {
            Ok(old) => self.keep_member(run, member, &old),
            // A broken member is copied as it is, unless its hash is needed.
            Err(_) if !self.is_hash_needed => Ok(MadeMember::unchanged(run, None)),
            Err(error) => Err(error),
        }
    }

    /// Keeps a member as it is, and searches it for code that remains.
    fn keep_member(&self, mut run: Recompression<'m>, member: &WheelMember<'d>, old: &Input) -> Result<MadeMember<'m>> {
        note_remaining(&mut run, member, old.as_slice())?;
        let hash_and_size = if self.is_hash_needed {
            Some(member.with_place(hash_and_size_of(old.as_slice().reader()))?)
        } else {
            None
        };
        Ok(MadeMember::unchanged(run, hash_and_size))
    }
}

/// Notes the code in a member of the new file that stays although its target is to be removed. Does nothing if the job
/// removes no targets.
fn note_remaining(run: &mut Recompression<'_>, member: &WheelMember<'_>, written: Slice<'_>) -> Result<()> {
    match &mut run.remaining {
        Some(remaining) => remaining.add(run.picker, &member.place, written),
        None => Ok(()),
    }
}

/// Charges the size of a member to the limits. Fails if it exceeds the limit for all members or, for a compressed
/// member, that for a single one.
fn charge(run: &mut Recompression<'_>, content: &ZipContent<'_>) -> Result<()> {
    let (path, offset, limits) = (content.stored.path(), content.stored.offset(), run.job.limits);
    if content.form.is_some() && content.size > limits.inflated {
        return Err(member_too_large(content.stored, limits, content.size));
    }
    match run.budget.charge_bytes(content.size) {
        Ok(()) => Ok(()),
        Err((what, limit)) => Err(Error::malformed(path, Malformed::search(what, limit, offset))),
    }
}

/// Returns the output. If nothing has changed, or if the new file would be larger although nothing has to change, the
/// output is a copy of the old file. A wheel that `is_renamed` has to change. Fails if a signed JAR file would change.
fn finish(
    run: &mut Recompression<'_>,
    data: Slice<'_>,
    (mut zip, is_changed): (ZipWriter<'_>, bool),
    mut result: RecompressedZip,
    is_renamed: bool,
) -> Result<Output> {
    // The new RECORD may need more bytes than the members have saved.
    let is_larger = zip.to.written() > data.len();
    let may_stay = !is_renamed && !run.must_change(run.result.dropped);
    if !is_changed || (is_larger && may_stay) {
        zip.keep_old_file()?;
        run.result = std::mem::take(&mut run.result).for_kept_file();
        // All members count as unchanged.
        result.unchanged += result.members;
        result.members = 0;
    } else {
        zip.ensure_valid()?;
    }
    run.result.zip = Some(RecompressedZip { after: zip.to.written(), ..result });
    Ok(zip.to.output)
}

/// Reads the first bytes of a member, which identify it. Never reads the last byte: the reader would then check the
/// size and the checksum, and fail for a broken member, which may only have to be copied.
fn read_head(content: &ZipContent<'_>) -> io::Result<Vec<u8>> {
    once::head(&mut content.reader()?, HEAD.min(content.size.saturating_sub(1)))
}

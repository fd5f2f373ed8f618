//! Writes a zip file with another content of a code object in one of its members.

use std::path::Path;

use super::bundle::NewContent;
use crate::base::error::{Result, WithPath};
use crate::base::io::input::Slice;
use crate::base::io::output::Output;
use crate::beyond::job::digest::are_equal;
use crate::beyond::job::event::Observer;
use crate::beyond::job::rewrite::NO_PATH;
use crate::beyond::job::rewrite::progress::ProgressRange;
use crate::beyond::job::rewrite::zip::{PackedMember, WheelMember, ZipWriter, take_record};

/// A bundle in a zip file.
pub(super) struct BundleInZip<'t> {
    /// The compressed members that lead to the bundle, each with its number among the members of its name.
    pub(super) members: &'t [(Vec<u8>, u64)],
    /// The offset of the bundle: in the zip file or, if a member is compressed, in the inflated member.
    pub(super) offset: u64,
}

impl BundleInZip<'_> {
    /// Returns the offset of the bundle in the contents of a member, or `None` if the bundle is not in this member, or
    /// in a compressed member of it, which is not written again.
    fn offset_in(&self, member: &WheelMember<'_>) -> Option<u64> {
        let (is_stored, stored) = (member.content.form.is_none(), member.content.stored);
        match self.members {
            [] if is_stored && (stored.offset()..stored.end()).contains(&self.offset) => {
                self.offset.checked_sub(stored.offset())
            }
            [(name, number)] if !is_stored && *name == member.name && *number == member.number => Some(self.offset),
            _ => None,
        }
    }

    /// Writes the zip file with the bundle written again. Returns also whether the bundle was plain and is compressed
    /// now. Returns `None` if the bundle cannot be written again.
    pub(super) fn write(
        &self,
        file: Slice<'_>,
        new: &NewContent<'_>,
        observer: &mut Observer<'_>,
    ) -> Result<Option<(Output, bool)>> {
        let (mut zip, mut members) = ZipWriter::new(file, Output::temporary()?)?;
        let record = take_record(&mut members)?;
        let mut written = None;
        let is_hash_needed = record.is_some();
        let members = members.into_iter().map(|member| (member, ()));
        let hashes = zip.write_members(members, record.as_ref(), &mut |zip, member, ()| {
            if let Some(offset) = self.offset_in(member) {
                let stored = member.content.stored;
                let progress = ProgressRange { start: stored.offset(), len: stored.len(), total: file.len() };
                let old = member.with_place(member.content.spool(Path::new(NO_PATH)))?;
                let made = new.write(old.as_slice(), offset, progress, observer);
                if let Some((output, is_now_compressed)) = made.map_err(|error| error.at(&member.place))? {
                    written = Some(is_now_compressed);
                    let made = output.into_input(old.path())?;
                    if !are_equal(made.as_slice(), old.as_slice()).with_path(old.path())? {
                        let packed = PackedMember::new(member.content.form, made.as_slice())?;
                        return zip.replace_member(member, made.as_slice(), packed).map(Some);
                    }
                }
            }
            if is_hash_needed { member.hash_and_size().map(Some) } else { Ok(None) }
        })?;
        let Some(is_now_compressed) = written else { return Ok(None) };
        if zip.write_tables(record, hashes)? {
            zip.ensure_valid()?;
        } else {
            zip.keep_old_file()?;
        }
        Ok(Some((zip.to.output, is_now_compressed)))
    }
}

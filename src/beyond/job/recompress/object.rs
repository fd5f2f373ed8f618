//! Recompresses the sections of a relocatable object, whose other data moves, and removes code from fat objects.

use std::ops::Range;

use super::super::rewrite::bundles::{BundleWriter, MovedRanges};
use super::super::rewrite::form::{as_member, read_contents};
use super::super::rewrite::{NO_CHANGES, changed, changed_len};
use super::Recompressed;
use super::bundles::FileRecompression;
use super::pick::{NOTHING_LEFT, PickedBundle};
use super::run::{Recompression, RewrittenFile};
use crate::base::bytes::len_of;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::io::input::Slice;
use crate::base::io::output::Output;
use crate::base::io::piece::{Piece, total_len};
use crate::beyond::container::entry::SearchFormat;
use crate::beyond::container::host::relocatable::{MovedBundle, NewContent, Relocatable};
use crate::beyond::container::{Bundle, SearchBundles};
use crate::beyond::job::event::Observer;
use crate::beyond::scan::sections::{SectionContent, device_contents};
use crate::llvm::container::object::{FatObject, Objects};
use crate::llvm::container::sequence::Inflate;
use crate::llvm::container::{MAGIC, Member, Part};

/// Recompresses the `sections` of a relocatable object. Returns the new object, and the numbers for it.
pub(super) fn rewrite(
    run: &mut Recompression<'_>,
    data: Slice<'_>,
    (object, sections): (&Relocatable<'_>, Vec<Slice<'_>>),
    output: Output,
    observer: &mut Observer<'_>,
) -> Result<RewrittenFile> {
    run.pick_in(data)?;
    // First write only the new sections, one after another, to a temporary file. Then write the object around them,
    // because offsets in its headers and tables depend on all lengths.
    let (limits, mut writer) = (run.job.limits, BundleWriter::new(data, Output::temporary()?, run.progress));
    let mut work = FileRecompression::new(run, data, observer);
    let mut written = Vec::new();
    for section in sections {
        let old = section.offset()..section.end();
        writer.to.skip_until(old.start);
        let start = writer.to.written();
        let bundles = writer.rewrite_adjacent(section, limits, &mut work)?;
        writer.end_section(&bundles, &old)?;
        written.push(WrittenSection { old, new: start..writer.to.written(), bundles });
    }
    let (to, mut result) = work.finish(writer);
    let made = to.output.into_input(data.path())?;
    let mut contents = Vec::new();
    for section in written {
        contents.push(section.new_content(data, made.as_slice())?);
    }
    let changes = object.changes(&contents).map_err(|reason| {
        let reason = format!("cannot rewrite the bundles: {reason}");
        Error::refused(ErrorKind::Unsupported, data.path(), None, reason)
    })?;
    result.note_len(data.len(), changed_len(data, &changes));
    Ok((changed(data, &changes, output)?, result))
}

/// A section of an object whose bundles were written again.
struct WrittenSection {
    /// The range of the section in the object.
    old: Range<u64>,
    /// The range of the new section in the temporary file.
    new: Range<u64>,
    bundles: MovedRanges,
}

impl WrittenSection {
    /// Returns the section as a change of the `object`. `made` is the temporary file with the new sections.
    fn new_content<'m>(self, object: Slice<'_>, made: Slice<'m>) -> Result<NewContent<'m>> {
        let (old, new) = (object.claimed(&self.old)?, made.claimed(&self.new)?);
        let mut bundles = Vec::new();
        for (old_range, new_range) in self.bundles {
            // Symbols and relocations may lead into a bundle only if its bytes are the same.
            let keeps_bytes = old.claimed(&old_range)?.bytes() == new.claimed(&new_range)?.bytes();
            bundles.push(MovedBundle { old_range, new_range, keeps_bytes });
        }
        Ok(NewContent { old: self.old, new, bundles })
    }
}

/// Reads the bundle of a fat object that the job has to rewrite. Returns `None` for other files. Also returns `None` if
/// the job removes no code, because a fat object is not compressed.
pub(super) fn read_fat_object<'d>(run: &mut Recompression<'_>, data: Slice<'d>) -> Result<Option<Bundle<'d>>> {
    if !run.job.removes() {
        return Ok(None);
    }
    match device_contents(data.bytes()) {
        Ok(contents) if contents.contains(&SectionContent::FatObject) => {}
        _ => return Ok(None),
    }
    let mut bundles = SearchBundles::new(data, &SearchFormat(FatObject), Inflate::Whole).with_limits(run.job.limits);
    let bundle = bundles.next().transpose()?;
    if let Some(bundle) = &bundle {
        run.take_bundle(data, bundle)?;
    }
    Ok(bundle)
}

/// Removes code from a fat object. The new object is written as the bundler writes it, with a section for each kept
/// code object added to the same host. Linkers read code objects only from such sections.
pub(super) fn rewrite_fat(
    run: &mut Recompression<'_>,
    data: Slice<'_>,
    bundle: &Bundle<'_>,
    output: Output,
) -> Result<RewrittenFile> {
    run.pick_in(data)?;
    let mut result = Recompressed { bundles: 1, before: data.len(), after: data.len(), ..Recompressed::default() };
    let (kept, device_count) = match run.take_picked(data, bundle)? {
        Some(PickedBundle { kept, device_count, .. }) if kept.len() < bundle.entries.len() => (kept, device_count),
        // An object that keeps everything is copied.
        _ => return Ok((changed(data, NO_CHANGES, output)?, result)),
    };
    let dropped = bundle.entries.len() - kept.len();
    run.kept.insert(bundle.offset, kept.clone());
    let contents = read_contents(data.path(), bundle, &kept)?;
    let members: Vec<Member<'_>> = contents.iter().map(as_member).collect();
    ensure_fat(data, &members)?;
    let mut pieces = FatObject.plan(&members)?;
    // The bundler writes some tables of the host twice, and other tools do not. If the new object is therefore larger
    // than the old one, keep the old object and take out only the sections of the removed code. The old object has its
    // code in sections of the same names, so linkers read it too.
    let is_larger = total_len(&pieces)? > data.len();
    // If the sections cannot be taken out (`None`), the larger object is written: the code has to be removed.
    if is_larger && let Some(old_without_dropped) = FatObject.without(data, |index| !kept.contains(&index)) {
        pieces = old_without_dropped;
    }
    let changes = [(0..data.len(), pieces)];
    (result.dropped, result.emptied) = (dropped, usize::from(device_count == 0));
    result.after = changed_len(data, &changes);
    result.note_len(result.before, result.after);
    Ok((changed(data, &changes, output)?, result))
}

/// Fails if the kept code objects cannot be written as a fat object.
fn ensure_fat(data: Slice<'_>, members: &[Member<'_>]) -> Result<()> {
    let path = data.path();
    if members.is_empty() {
        return Err(Error::refused(ErrorKind::NotFound, path, None, NOTHING_LEFT));
    }
    if FatObject::host_of(members).is_none() {
        let reason = "a fat object cannot lose its host code, which is the object itself";
        return Err(Error::refused(ErrorKind::Unsupported, path, None, reason));
    }
    if !Objects::is_fat(members) {
        let reason = "cannot remove code: a linker has merged several fat objects into it (ld -r)";
        let hint = "remove the code from each fat object before they are merged";
        return Err(Error::refused(ErrorKind::Unsupported, path, None, reason).with_hint(hint));
    }
    Ok(())
}

impl FatObject {
    /// Plans the fat object in `data` without the sections of some entries, which `is_dropped` names by their indices.
    /// Everything else stays, also the old copies of the tables that [`plan`](FatObject::plan) writes again. Returns
    /// `None` if that is not possible.
    fn without<'a>(&self, data: Slice<'a>, is_dropped: impl Fn(usize) -> bool) -> Option<Vec<Piece<'a>>> {
        let (object, found) = Self::read_object(data.bytes(), data.offset()).ok()??;
        // A section without an ID is not an entry.
        let of_entries = found.into_iter().filter(|section| section.name.len() > MAGIC.len());
        let dropped = of_entries.enumerate().filter(|(index, _)| is_dropped(*index));
        let removed: Vec<_> = dropped.map(|(_, section)| section).collect();
        let parts = object.remove_sections(&removed).ok()?;
        let mut pieces = Vec::new();
        for part in parts {
            pieces.push(match part {
                Part::Range(range) => Piece::Input(data.slice(range.start, len_of(&range))?),
                Part::Bytes(bytes) => Piece::Bytes(bytes),
                Part::Unreadable(_) => return None,
            });
        }
        Some(pieces)
    }
}

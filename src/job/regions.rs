//! Where offload binaries lie in a file: in itself, in sections of objects, in globals of bitcode, and in whatever of
//! these the members of an archive are.

use super::library::locate;
use crate::container::archive::{Archive, Location, Sources};
use crate::container::bitcode::Embedded;
use crate::container::offload_binary::offloading_sections;
use crate::container::{bitcode, host, offload_binary};
use crate::error::{Error, Malformed, Result, WithPath};
use crate::io::input::{Input, Slice};

/// How deep archives may lie in archives.
const DEPTH_MAX: u32 = 16;

/// Some offload binaries, one after another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Region<'a> {
    /// The name of the archive member around them.
    pub(super) member: Option<&'a [u8]>,
    /// Their bytes.
    pub(super) data: Slice<'a>,
}

/// Takes the regions of a file one by one, so that no more are in memory than one module of bitcode embeds.
pub(super) type Visitor<'v> = dyn FnMut(Region<'_>) -> Result<()> + 'v;

/// Visits all regions of a file, in its order. A file of another kind has none.
/// `sources` is told of the files that thin archives name.
pub(super) fn visit(file: Slice<'_>, sources: &mut Sources<'_>, visitor: &mut Visitor<'_>) -> Result<()> {
    visit_file(file, None, DEPTH_MAX, sources, visitor)
}

fn visit_file(
    file: Slice<'_>,
    member: Option<&[u8]>,
    depth: u32,
    sources: &mut Sources<'_>,
    visitor: &mut Visitor<'_>,
) -> Result<()> {
    let bytes = file.bytes();
    if bytes.starts_with(&offload_binary::MAGIC) {
        return visitor(Region { member, data: file });
    }
    if bitcode::is_bitcode(bytes) {
        let Embedded { contents, order } = bitcode::embedded_objects(bytes, file.offset()).with_path(file.path())?;
        let objects: Vec<Input> = contents.into_iter().map(|object| Input::from_bytes(file.path(), object)).collect();
        for object in order.into_iter().filter_map(|index| objects.get(index)) {
            visitor(Region { member, data: object.as_slice() })?;
        }
        return Ok(());
    }
    if host::is_object(bytes) {
        for range in offloading_sections(bytes, file.offset()).with_path(file.path())? {
            let size = range.end.saturating_sub(range.start);
            let data = file.slice(range.start, size).ok_or(Error::Internal("no such section"))?;
            visitor(Region { member, data })?;
        }
        return Ok(());
    }
    if Archive::is_archive(bytes) { visit_archive(file, depth, sources, visitor) } else { Ok(()) }
}

fn visit_archive(file: Slice<'_>, depth: u32, sources: &mut Sources<'_>, visitor: &mut Visitor<'_>) -> Result<()> {
    let Some(depth) = depth.checked_sub(1) else {
        let (what, offset) = ("archives", file.offset());
        return Err(Error::malformed(file.path(), Malformed::Nested { what, most: DEPTH_MAX, offset }));
    };
    for member in Archive::read(file)?.members() {
        let member = member?;
        let name = Some(member.name);
        match member.location {
            Location::Inside(slice) => visit_file(slice, name, depth, sources, visitor),
            Location::Beside(path) => {
                let input = sources.enter(&path)?;
                let visited = input.vouch_for(visit_file(input.as_slice(), name, depth, sources, visitor));
                sources.leave();
                visited
            }
        }
        .map_err(|error| locate(error, file.path(), member.name))?;
    }
    Ok(())
}

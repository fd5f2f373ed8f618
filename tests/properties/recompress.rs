use std::num::NonZero;
use std::ops::Range;

use offload_bundle::container::Part;
use offload_bundle::container::fatbin::CudaKind;
use offload_bundle::container::sequence::Inflate;
use offload_bundle::container::stream::{Compression, Method, Recorded};
use offload_bundle::id::OffloadKind;
use offload_bundle::inventory::Selection;
use offload_bundle::io::Input;
use offload_bundle::job::{Fault, KernelNames, Recompress, Recompressed, Verify};
use offload_bundle::runtime::{self, Device};
use offload_bundle::scan::{CodeObjectRef, Format, FoundBundle, Scan, Step};
use offload_bundle::threads;

use super::choices::{Choices, digest};
use super::extract::chosen;
use super::room::Room;
use super::said;
use super::search::{LIMITS, search_with};
use super::sources::Sources;
use super::static_libraries;
use super::wheels;

/// The maximum number of compared bytes of code objects.
const COMPARED_MAX: usize = 32 << 20;

/// The maximum inflated size of a file whose faults are compared. Larger ones are not fully searched.
const INFLATED_MAX: usize = 8 << 20;

/// Any bytes are recompressed, with the same result in two runs, or there is an error and no output. The output has the
/// same number of bundles, with the same code objects (IDs and bytes) in the same order, except removed ones. If none
/// are removed, there are no new faults. Recompressing again changes nothing, and neither does making the bundles plain
/// in between.
///
/// A program keeps its length, each bundle its offset, and zeros follow it up to its old end. Every byte outside of
/// bundles is unchanged. Addresses in a PE file, which may become shorter, are unchanged too. In a relocatable object,
/// all sections except those of bundles, symbols and relocations keep their bytes, and references to a bundle still
/// lead to it. In a wheel, the bytes become the same. Nothing becomes larger, unless it is made plain.
pub fn recompress(data: &[u8]) {
    let digest = digest(data);
    let mut choices = Choices::new(&digest);
    let method = choices.pick(&[None, Some(Method::Zstd), Some(Method::Zlib)]);
    let compression = method.map(|method| {
        let mut compression = Compression::with_method(method);
        compression.level = choices.pick(&[1, 3, 6]);
        compression
    });
    let mut change = Change { compression, ..Change::default() };
    match choices.below(6) {
        0 => change.keep = Some(chosen(data)),
        1 => change.drop = Some(chosen(data)),
        2 => change.keep_for = gpus(data, &mut choices),
        3 => {
            let mut names = KernelNames::parse(choices.pick(&["*", "*_Z*\nadd", "plain", "a"]), |_| None);
            names.allow_unused = true;
            change.keep_kernels = Some(names);
        }
        _ => {}
    }
    if data.starts_with(b"MZ") || data.starts_with(b"\x7fELF") && data.get(16..18) != Some(&[1, 0]) {
        comes_back(data);
    }
    let room = Room::with(data);
    if data.starts_with(b"PK") {
        return wheels::as_it_is(data, &change);
    }
    wheels::as_a_member(data, &change);
    if data.starts_with(b"!<arch>\n") {
        return static_libraries::as_it_is(data, &change);
    }
    let Some((output, result)) = change.run(&room) else { return };
    let keeps = |code_object: &CodeObjectRef<'_>| change.keeps(code_object);
    // Offload binaries are rewritten only where sections can move.
    let is_object = data.starts_with(b"\x7fELF") && data[16..18] == [1, 0];
    let with_offload_binaries = is_object && Held::of(data, &keeps, false).bundles.len() != result.bundles;
    let (before, after) =
        (Held::of(data, &keeps, with_offload_binaries), Held::of(&output, &|_| true, with_offload_binaries));
    let is_pe = data.starts_with(b"MZ");
    let is_program = is_pe || data.starts_with(b"\x7fELF");
    if is_program && overlap(&before.bundles) {
        assert_eq!(output.len(), data.len());
        return;
    }
    assert_eq!((before.bundles.len(), before.stored()), (result.bundles, result.before), "what there was");
    if change.keep_for.is_empty() && change.keep_kernels.is_none() {
        assert!(before.contents == after.contents, "other code objects than before");
    } else {
        assert!(is_part(&after.contents.concat(), &before.contents.concat()), "other code objects than before");
        let loaded = |data: &[u8]| loaded(&change.keep_for, data);
        assert!(
            change.keep_kernels.is_some() || loaded(data) == loaded(&output),
            "runtimes load other code than before"
        );
    }
    let is_all = after.bundles.len() == result.bundles || with_offload_binaries && result.dropped > 0;
    assert!(is_all && after.stored() == result.after, "what there is");
    if is_pe {
        assert!(change.compression.is_none() || output.len() <= data.len(), "larger than before");
        pe(data, &output, &before, &after);
    } else if is_object {
        static_libraries::is_followed(data, &output);
    } else if is_program {
        program(data, &output, &before.bundles, &after.bundles);
    } else {
        assert!(output.ends_with(before.trailing(data)), "what follows the bundles is lost");
        let is_larger = change.compression.is_some() && result.dropped == 0 && output.len() > data.len();
        assert!(!is_larger, "larger than before");
    }

    let mut sound = Verify::default();
    sound.scan.limits.inflated = LIMITS.inflated;
    let faults = |room: &Room| sound.run(&room.input()).unwrap().faults;
    let faults_before = faults(&room);
    room.write("in", &output);
    if result.dropped == 0 && Sources::nested(data).inflated_len() < INFLATED_MAX {
        compare(&faults_before, &faults(&room));
    }
    if after.bundles.is_empty() {
        return;
    }
    let change = Change { compression: change.compression, ..Change::default() };
    let (again, _) = change.run(&room).unwrap();
    // The result of zlib for pieces depends on where a piece ends.
    let in_pieces =
        result.dropped > 0 && change.compression.is_some_and(|compression| compression.method == Method::Zlib);
    // Without zstd in it, a fatbin is packed with LZ4.
    let may_shrink = in_pieces || after.has_fatbins;
    assert!(again == output || (may_shrink && again.len() <= output.len()), "done again, it is changed");
    let Some((plain, _)) = Change::default().run(&room) else {
        let is_unread = after.contents.iter().flatten().any(|(_, content)| content.is_none());
        assert!(is_program || after.must_stay_compressed || is_unread, "cannot be made plain");
        return;
    };
    let plain = Held::of(&plain, &|_| true, with_offload_binaries);
    assert!(is_program || plain.contents == after.contents, "other code objects when plain");
    assert!(plain.compressed <= usize::from(is_program) * after.compressed, "compressed when plain");
}

/// If bundles of a linked file can be compressed, it holds the same code objects and has no more faults than before.
/// Without compression, it is the old file again if all was plain. All this is so with holes and without them.
pub fn comes_back(data: &[u8]) {
    for leaves_holes in [false, true] {
        comes_back_from(data, leaves_holes);
    }
}

fn comes_back_from(data: &[u8], leaves_holes: bool) {
    let mut compression = Compression::with_method(Method::Zstd);
    compression.level = 1;
    let room = Room::with(data);
    let change = Change { compression: Some(compression), leaves_holes, ..Change::default() };
    let Some(small) = change.run_once(&room).0 else { return };
    assert!(contents(data) == contents(&small), "other code objects than before");
    let mut sound = Verify::default();
    sound.scan.limits.inflated = LIMITS.inflated;
    let before = sound.run(&room.input()).unwrap().faults;
    room.write("in", &small);
    compare(&before, &sound.run(&room.input()).unwrap().faults);
    let (back, result) = Change { leaves_holes, ..Change::default() }.run_once(&room);
    let was = Held::of(data, &|_| true, false);
    if was.compressed == 0 && !was.has_packed {
        let back = back.unwrap_or_else(|| panic!("it does not come back: {result:?}"));
        assert!(without_checksum(back) == without_checksum(data.to_vec()), "it comes back with other bytes");
    }
}

/// The IDs and bytes of all code objects in a file, in their order.
fn contents(data: &[u8]) -> Vec<(String, Option<Vec<u8>>)> {
    wheels::code_objects(data).into_iter().map(|(_, id, bytes)| (id, bytes)).collect()
}

/// A file without the checksum of a PE file, which is made right.
fn without_checksum(mut data: Vec<u8>) -> Vec<u8> {
    let start = data.get(60..64).map(|at| u32::from_le_bytes(at.try_into().unwrap()));
    let start = start.and_then(|start| usize::try_from(start).ok()).and_then(|start| start.checked_add(4 + 20 + 64));
    if data.starts_with(b"MZ")
        && let Some(checksum) = start.and_then(|start| data.get_mut(start..start.checked_add(4)?))
    {
        checksum.fill(0);
    }
    data
}

/// Returns GPUs. The file has code for some of them.
fn gpus(data: &[u8], choices: &mut Choices<'_>) -> Vec<Device> {
    let mut names: Vec<String> =
        ["gfx906", "gfx90a:xnack-", "gfx1100", "sm_89", "compute_75"].map(str::to_owned).to_vec();
    let look = &mut |found: &FoundBundle<'_>| {
        let targets =
            found.code_objects().filter_map(|code_object| Some(code_object.entry_id()?.target_id().to_string()));
        names.extend(targets.take(8));
    };
    search_with(&Input::from_bytes("in", data.to_vec()), Inflate::Whole, false, look);
    let mut gpus: Vec<Device> = names.iter().filter_map(|name| Device::parse(name).ok()).collect();
    let count = choices.below(2) + 1;
    (0..count).map(|_| gpus.swap_remove(choices.below(gpus.len()))).collect()
}

/// The code objects that the runtimes of some GPUs load, by their IDs.
fn loaded(gpus: &[Device], data: &[u8]) -> Vec<(Vec<usize>, Box<[u8]>)> {
    let mut scan = Scan::default();
    scan.limits.inflated = LIMITS.inflated;
    let loaded = runtime::loaded(&scan, data, gpus).unwrap_or_default();
    loaded.into_iter().map(|loaded| (loaded.devices, loaded.code_object.id)).collect()
}

/// Whether `part` is `whole` without some items.
fn is_part<T: PartialEq>(part: &[T], whole: &[T]) -> bool {
    let mut whole = whole.iter();
    part.iter().all(|item| whole.any(|other| item == other))
}

/// Checks that no rule has more faults than before.
fn compare(before: &[Fault], after: &[Fault]) {
    for fault in after {
        let count = |faults: &[Fault]| faults.iter().filter(|other| other.rule == fault.rule).count();
        assert!(count(after) <= count(before), "a new fault: {fault}");
    }
}

/// Checks the loaded image of a PE file: all bytes outside of bundles, and the addresses of bundles.
fn pe(data: &[u8], output: &[u8], before: &Held, after: &Held) {
    let (Some((old, old_memory)), Some((new, new_memory))) = (loaded_sections(data), loaded_sections(output)) else {
        return;
    };
    let bundles = |sections: &[LoadedCodeObject], held: &Held| {
        let address = |range: &Range<u64>| {
            let section = sections.iter().find(|section| section.stored.contains(&range.start))?;
            let start = section.address + range.start - section.stored.start;
            Some(start..start + range.end - range.start)
        };
        held.bundles.iter().map(address).collect::<Option<Vec<_>>>().expect("a bundle that is not loaded")
    };
    program(&old_memory, &new_memory, &bundles(&old, before), &bundles(&new, after));
}

/// A section of a PE file.
struct LoadedCodeObject {
    address: u64,
    /// Its range in the file.
    stored: Range<u64>,
}

/// Returns the sections of a PE file, and its memory from the first section on. Returns `None` if sections share
/// addresses, or if the memory is too large.
fn loaded_sections(data: &[u8]) -> Option<(Vec<LoadedCodeObject>, Vec<u8>)> {
    let (mut sections, mut memory) = (Vec::new(), Vec::new());
    let (table, debug) = pe_headers(data)?;
    for header in data.get(table)?.chunks_exact(40) {
        let field = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().unwrap());
        let [size, address, stored, offset] = [8, 12, 16, 20].map(field);
        let [size, address, offset] = [size, address, offset].map(|number| usize::try_from(number).unwrap());
        if address < memory.len() || address + size > COMPARED_MAX {
            return None;
        }
        memory.resize(address, 0);
        let stored = size.min(usize::try_from(stored).unwrap());
        memory.extend(data.get(offset..offset + stored)?);
        memory.resize(address + size, 0);
        let offset = u64::try_from(offset).unwrap();
        let stored = offset..offset + u64::try_from(stored).unwrap();
        sections.push(LoadedCodeObject { address: u64::try_from(address).unwrap(), stored });
    }
    // Debug data has its offset in memory too.
    let list = memory.get_mut(debug).unwrap_or_default();
    list.chunks_exact_mut(28).for_each(|entry| entry[24..].fill(0));
    Some((sections, memory))
}

/// The range of the section headers of a PE file, and that of the list of debug data in memory.
fn pe_headers(data: &[u8]) -> Option<(Range<usize>, Range<usize>)> {
    let number = |at: usize, width: usize| {
        let mut number = [0; 8];
        number[..width].copy_from_slice(data.get(at..at + width)?);
        usize::try_from(u64::from_le_bytes(number)).ok()
    };
    let coff = number(60, 4)? + 4;
    let optional = coff + 20;
    let directories = optional + if number(optional, 2)? == 0x10b { 96 } else { 112 };
    let [address, size] = [0, 4].map(|at| number(directories + 6 * 8 + at, 4));
    let start = optional + number(coff + 16, 2)?;
    Some((start..start + 40 * number(coff + 2, 2)?, address?..address? + size?))
}

/// Checks the unchanged parts of a program: all bytes outside of bundles, and the offsets of bundles.
fn program(data: &[u8], output: &[u8], before: &[Range<u64>], after: &[Range<u64>]) {
    assert_eq!(output.len(), data.len());
    assert!(after.iter().all(|new| before.iter().any(|old| old.start == new.start)), "a bundle has moved");
    let touched: Vec<&Range<u64>> = before.iter().chain(after).collect();
    let mut position = 0;
    for (at, (old, new)) in (0_u64..).zip(data.iter().zip(output)) {
        if at < position {
            continue;
        }
        match touched.iter().filter(|range| range.contains(&at)).map(|range| range.end).max() {
            Some(end) => position = end,
            None => assert_eq!(old, new, "the byte at {at} belongs to no bundle"),
        }
    }
    for (at, byte) in (0_u64..).zip(output) {
        let is_left = before.iter().any(|range| range.contains(&at)) && !after.iter().any(|range| range.contains(&at));
        assert!(!is_left || *byte == 0, "the byte at {at} is left of a bundle");
    }
}

fn overlap(ranges: &[Range<u64>]) -> bool {
    let mut ranges = ranges.to_vec();
    ranges.sort_by_key(|range| range.start);
    ranges.windows(2).any(|pair| pair[0].end > pair[1].start)
}

/// The settings of a recompression.
#[derive(Clone, Default)]
pub(super) struct Change {
    pub(super) compression: Option<Compression>,
    pub(super) keep: Option<Selection>,
    pub(super) keep_for: Vec<Device>,
    pub(super) keep_kernels: Option<KernelNames>,
    pub(super) drop: Option<Selection>,
    /// Whether libraries keep their holes.
    pub(super) leaves_holes: bool,
}

impl Change {
    /// The written file, or an error, which leaves no output.
    pub(super) fn run_once(&self, room: &Room) -> (Option<Vec<u8>>, Result<Recompressed, String>) {
        let mut job = Recompress::new(room.input(), room.path("out"));
        job.compression = self.compression;
        job.keep = self.keep.clone();
        job.keep_for = self.keep_for.clone();
        job.keep_kernels = self.keep_kernels.clone();
        job.drop = self.drop.clone();
        job.close_gaps = !self.leaves_holes;
        job.limits = LIMITS;
        let result = job.run(&mut |_| {}).map_err(|error| said(&error));
        let output = room.take("out");
        assert_eq!(output.is_some(), result.is_ok(), "{result:?}");
        room.holds_only(&["in"]);
        (output, result)
    }

    /// The written file, which must be the same on one thread and on several; none after an error.
    pub(super) fn run(&self, room: &Room) -> Option<(Vec<u8>, Recompressed)> {
        let on_threads = |count| {
            threads::set(NonZero::new(count).unwrap());
            self.run_once(room)
        };
        let (output, result) = on_threads(1);
        assert!(on_threads(3) == (output.clone(), result.clone()), "recompressed on one thread and on three");
        output.zip(result.ok())
    }

    fn keeps(&self, code_object: &CodeObjectRef<'_>) -> bool {
        let is_host = code_object.entry_id().is_some_and(|id| id.kind() == OffloadKind::Host);
        let takes = |selection: &Option<Selection>| selection.as_ref().map(|selection| selection.takes(code_object));
        let is_ptx = code_object.cuda().is_some_and(|image| image.kind == CudaKind::Ptx);
        takes(&self.drop) != Some(true) && (is_host || is_ptx || takes(&self.keep) != Some(false))
    }
}

/// The ID and the content of a code object; no content if it cannot be read.
type Content = (Vec<u8>, Option<Vec<u8>>);

/// The bundles of a file that are not inside others, and their code objects.
#[derive(Default)]
struct Held {
    /// The byte range of each bundle.
    bundles: Vec<Range<u64>>,
    /// The IDs and contents of each bundle with code objects. An empty text bundle is omitted. Some code objects in
    /// fatbins cannot be read, and stay as they are.
    contents: Vec<Vec<Content>>,
    /// Whether there are fatbins.
    has_fatbins: bool,
    /// Whether code objects are compressed by themselves.
    has_packed: bool,
    /// Whether the end of a compressed bundle could be lost in plain form: it is a text bundle, or inflates to more
    /// than a bundle.
    must_stay_compressed: bool,
    /// The number of compressed bundles.
    compressed: usize,
    /// The offset of other data after them, if any.
    trailing: Option<u64>,
}

impl Held {
    fn of(data: &[u8], keeps: &dyn Fn(&CodeObjectRef<'_>) -> bool, with_offload_binaries: bool) -> Self {
        let mut held = Self::default();
        let mut left = COMPARED_MAX;
        let look = &mut |found: &FoundBundle<'_>| {
            let start = usize::try_from(found.bundle.offset).unwrap();
            let is_compressed = data.get(start..).is_some_and(|data| data.starts_with(b"CCOB"));
            let is_own = match found.place.steps() {
                [] => is_compressed || matches!(found.format, Format::Bundle | Format::TextBundle | Format::Fatbin),
                [Step::Section(_)] => is_compressed || with_offload_binaries || found.format != Format::OffloadBinary,
                _ => false,
            };
            let range = found.bundle.range().unwrap();
            // Two sections with the same range count as one.
            if !is_own || held.bundles.contains(&range) {
                return;
            }
            let ends = found.bundle.entries.iter().flat_map(|entry| &entry.entry.parts).map(|part| match part {
                Part::Range(range) => range.end,
                _ => 0,
            });
            let end = ends.max().unwrap_or(0);
            let is_text = found.format == Format::TextBundle;
            let hides = |recorded: Recorded| is_text || end < recorded.inflated;
            held.must_stay_compressed |= is_compressed && found.bundle.compressed.is_some_and(hides);
            held.has_fatbins |= found.format == Format::Fatbin;
            held.has_packed |= found.code_objects().any(|code_object| code_object.packed().is_some());
            held.bundles.push(range);
            held.compressed += usize::from(found.bundle.compressed.is_some());
            let mut contents = Vec::new();
            for code_object in found.code_objects().filter(|code_object| keeps(code_object)) {
                let mut content = Vec::new();
                let mut is_read = true;
                let size = usize::try_from(code_object.size()).unwrap();
                if size <= left {
                    left -= size;
                    let written = found.bundle.write_to(code_object.index(), &mut content);
                    assert!(written.is_ok() || found.format == Format::Fatbin, "{written:?}");
                    is_read = written.is_ok();
                }
                contents.push((code_object.id().to_vec(), is_read.then_some(content)));
            }
            held.contents.extend(Some(contents).filter(|contents| !contents.is_empty()));
        };
        let seen = search_with(&Input::from_bytes("in", data.to_vec()), Inflate::Whole, false, look);
        held.trailing =
            seen.trailing.iter().find(|(place, _)| place.steps().is_empty()).and_then(|(_, offset)| *offset);
        held
    }

    fn trailing<'d>(&self, data: &'d [u8]) -> &'d [u8] {
        &data[self.trailing.map_or(data.len(), |offset| usize::try_from(offset).unwrap())..]
    }

    fn stored(&self) -> u64 {
        self.bundles.iter().map(|range| range.end - range.start).sum()
    }
}

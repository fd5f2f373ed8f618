//! Counts the walks of each job through a wheel of two libraries, and the bytes that it inflates of the members.

use std::io::Write;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::{Destination, Diff, Extract, Inspect, ListKernels, Recompress, Replace, Source, Verify};
use crate::base::bytes::{len_u64, to_u64};
use crate::base::io::input::Input;
use crate::base::testing::{WorkDone, map, take_work_done};
use crate::beyond::codec::{Crc, checksum};
use crate::beyond::inventory::{Pattern, Selection, each_bundle};
use crate::beyond::runtime::Device;
use crate::beyond::scan::{HEAD, Place, Scan, Step, Uri};
use crate::llvm::container::{Limits, MAGIC};

/// The bytes at the start of a member that are inflated to identify it, before it is known whether all of it is needed.
const HEADS: u64 = 2 * HEAD;

/// Makes a zip file with deflated members.
fn zip(members: &[(&str, &[u8])]) -> Vec<u8> {
    let (mut data, mut directory) = (Vec::new(), Vec::new());
    for (name, content) in members {
        let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(content).unwrap();
        let stored = encoder.finish().unwrap();
        let mut crc = Crc::default();
        crc.update(content);
        // The fields that both headers of a member have: version 2.0, no flags, the method deflate, and no time. Then
        // checksum, both sizes, and the lengths of the name and of the extra field.
        let mut common = vec![20, 0, 0, 0, 8, 0, 0, 0, 0, 0];
        common.extend(checksum(&crc).to_le_bytes());
        common.extend([u32_of(stored.len()), u32_of(content.len())].concat());
        common.extend([u16_of(name.len()), [0; 2]].concat());
        let start = u32_of(data.len());
        data.extend([b"PK\x03\x04", &common[..], name.as_bytes(), &stored].concat());
        // In the directory, the version of the writer (2.0) precedes these fields. The length of the comment, the disk
        // and the attributes (10 zeros) and the offset of the member follow.
        directory.extend([b"PK\x01\x02\x14\0", &common[..], &[0; 10], &start, name.as_bytes()].concat());
    }
    // The end record: two disks, the number of members twice, size and offset of the directory, length of the comment.
    let count = u16_of(members.len());
    let end = [&[0; 4][..], &count, &count, &u32_of(directory.len()), &u32_of(data.len()), &[0; 2]].concat();
    [&data[..], &directory, b"PK\x05\x06", &end].concat()
}

fn u16_of(number: usize) -> [u8; 2] {
    u16::try_from(number).unwrap().to_le_bytes()
}

fn u32_of(number: usize) -> [u8; 4] {
    u32::try_from(number).unwrap().to_le_bytes()
}

fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name)).unwrap()
}

/// A wheel on disk.
struct Wheel {
    directory: TempDir,
    path: PathBuf,
    /// The size of all members.
    size: u64,
}

impl Wheel {
    /// Writes a wheel with a plain and a compressed bundle, an object with an offload binary, and a text.
    fn new(plain: &str, compressed: &str) -> Self {
        Self::of(fixture(plain), compressed)
    }

    /// Writes such a wheel with the bytes of a plain bundle.
    fn of(plain: Vec<u8>, compressed: &str) -> Self {
        let contents = [plain, fixture(compressed), fixture("offload/llvm22-embedded.o"), vec![b'a'; 9000]];
        let names = ["pkg/plain.hipfb", "pkg/packed.hipfb", "pkg/embedded.o", "pkg/readme.txt"];
        let record = names.map(|name| format!("{name},,\n")).concat() + "pkg-1.dist-info/RECORD,,\n";
        let mut members: Vec<_> = names.into_iter().zip(contents.iter().map(Vec::as_slice)).collect();
        members.push(("pkg-1.dist-info/RECORD", record.as_bytes()));
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("pkg-1-py3-none-any.whl");
        std::fs::write(&path, zip(&members)).unwrap();
        let size = members.iter().map(|(_, content)| len_u64(content)).sum();
        Self { directory, path, size }
    }

    fn open(&self) -> Input {
        map(&self.path).unwrap()
    }

    /// Checks the work done for the wheel since the last check: the number of walks, and that each member was inflated
    /// at most once, besides the heads of its 5 members.
    fn assert_read_once(&self, job: &str, walks: usize) {
        let WorkDone { walks: walked, inflated } = take_work_done(&self.path);
        assert_eq!(walked, walks, "{job}: walks");
        let most = self.size + 5 * HEADS;
        assert!(inflated <= most, "{job}: inflated {inflated} bytes of members that have {}", self.size);
    }
}

fn wheel() -> Wheel {
    Wheel::new("binary/llvm22-plain.bundle", "compressed/llvm22-v3.ccob")
}

fn extract(wheel: &Wheel) -> Extract {
    let destination = Destination::Directory(wheel.directory.path().join("extracted"));
    Extract::new(vec![Source::named(wheel.path.clone())], Selection::default(), destination)
}

#[test]
#[cfg_attr(miri, ignore = "inflates")]
fn searches_walk_once_and_inflate_each_member_once() {
    let wheel = wheel();
    Inspect::default().run(&wheel.open()).unwrap();
    wheel.assert_read_once("inspect", 1);
    Verify::default().run(&wheel.path).unwrap();
    wheel.assert_read_once("verify", 1);
    let list = ListKernels::default().run(&wheel.open()).unwrap();
    assert!(list.problems.is_empty(), "{:?}", list.problems);
    wheel.assert_read_once("kernels", 1);
    assert!(extract(&wheel).run(&mut |_| {}).unwrap().len() > 4);
    wheel.assert_read_once("extract", 1);
    let mut extract = extract(&wheel);
    extract.devices = vec![Device::parse("gfx90a").unwrap()];
    extract.destination = Destination::Nowhere("x".into());
    assert!(!extract.run(&mut |_| {}).unwrap().is_empty());
    wheel.assert_read_once("extract --as-runtime", 1);
}

/// Makes a plain bundle of one code object.
fn bundle(id: &str, code: &[u8]) -> Vec<u8> {
    // The header: the magic, the number of entries, and for each its offset, its size, and its ID with the length.
    let start = MAGIC.len() + 4 * 8 + id.len();
    let fields = [1, start, code.len(), id.len()].map(|number| to_u64(number).to_le_bytes());
    [MAGIC.as_bytes(), &fields.concat(), id.as_bytes(), code].concat()
}

#[test]
#[cfg_attr(miri, ignore = "inflates")]
fn containers_in_a_plain_bundle_need_no_second_walk() {
    let outer = bundle("openmp-amdgcn-amd-amdhsa--gfx906", &fixture("offload/v2.offload"));
    let wheel = Wheel::of(outer, "compressed/llvm22-v3.ccob");
    let inspected = Inspect::default().run(&wheel.open()).unwrap();
    let is_nested = |step: &Step| matches!(step, Step::Entry(_));
    assert!(inspected.bundles.iter().any(|bundle| bundle.info.place.steps().iter().any(is_nested)));
    wheel.assert_read_once("inspect", 1);
    ListKernels::default().run(&wheel.open()).unwrap();
    wheel.assert_read_once("kernels", 1);
    Verify::default().run(&wheel.path).unwrap();
    wheel.assert_read_once("verify", 1);
}

#[test]
#[cfg_attr(miri, ignore = "inflates")]
fn copies_are_found_while_members_are_inflated() {
    let (bundle, directory) = (fixture("binary/llvm22-plain.bundle"), TempDir::new().unwrap());
    let path = directory.path().join("copies.whl");
    let members = ["a.hipfb", "b.hipfb", "c.hipfb"].map(|name| (name, bundle.as_slice()));
    std::fs::write(&path, zip(&members)).unwrap();
    let inspected = Inspect::default().run(&map(&path).unwrap()).unwrap();
    assert_eq!(inspected.copies.iter().map(|copies| copies.copies.len()).collect::<Vec<_>>(), [2]);
    let WorkDone { walks, inflated } = take_work_done(&path);
    assert!(walks == 1 && inflated <= 3 * (len_u64(&bundle) + HEADS), "{walks} {inflated}");
}

#[test]
#[cfg_attr(miri, ignore = "inflates")]
fn diff_walks_once_through_each_wheel() {
    let old = wheel();
    let new = Wheel::new("binary/llvm22-hip-only.bundle", "compressed/llvm22-v2.ccob");
    for trust_hashes in [false, true] {
        let diff = Diff { trust_hashes, ..Diff::default() };
        let diff = diff.run(Some(&old.open()), Some(&new.open())).unwrap();
        assert!(!diff.code_objects.is_empty() && diff.problems.is_empty(), "{:?}", diff.problems);
        for wheel in [&old, &new] {
            let WorkDone { walks, inflated } = take_work_done(&wheel.path);
            // With trusted hashes, a second walk reads the code objects whose recorded hashes differ. Otherwise the
            // search itself reads all code objects.
            let most = if trust_hashes { 2 } else { 1 };
            assert!(walks <= most && inflated <= to_u64(most) * (wheel.size + 5 * HEADS), "{walks} {inflated}");
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "inflates")]
fn recompress_inflates_each_member_once_and_does_not_search_the_new_wheel() {
    let wheel = wheel();
    let output = wheel.directory.path().join("new.whl");
    let mut recompress = Recompress::new(&wheel.path, output);
    recompress.keep = Some(Selection { targets: vec![Pattern::parse("gfx90a").unwrap()], ..Selection::default() });
    let result = recompress.run(&mut |_| {}).unwrap();
    assert!(result.dropped > 0, "{result:?}");
    wheel.assert_read_once("recompress", 0);
}

/// Returns the URIs of the code objects in a wheel, and their bytes.
fn code_objects(wheel: &Wheel) -> Vec<(Uri, Vec<u8>)> {
    let mut code_objects = Vec::new();
    let input = wheel.open();
    each_bundle(&Scan::default(), &Place::of_file(input.path()), input.as_slice(), &mut |found| {
        for code_object in found.code_objects() {
            if let Some(uri) = code_object.uri()? {
                code_objects.push((uri, code_object.bytes()?.into_owned()));
            }
        }
        Ok(())
    })
    .unwrap();
    // The work of this search does not count for the job to be tested.
    take_work_done(&wheel.path);
    code_objects
}

#[test]
#[cfg_attr(miri, ignore = "inflates")]
fn opening_a_uri_walks_at_most_twice_whatever_its_content() {
    let wheel = wheel();
    let code_objects = code_objects(&wheel);
    // Without code objects, the loop below would test nothing.
    assert!(code_objects.len() > 6);
    for (uri, bytes) in code_objects {
        let opened = Uri::open(Path::new(&uri.to_string()), Limits::default(), map).unwrap();
        assert_eq!(opened.bytes(), bytes);
        wheel.assert_read_once(&uri.to_string(), 1);
    }
    let file = wheel.path.display();
    for missing in ["#offset=1&size=3", "#member=pkg/plain.hipfb&offset=1&size=3", "#member=gone&offset=1&size=3"] {
        let uri = format!("file://{file}{missing}");
        Uri::open(Path::new(&uri), Limits::default(), map).unwrap_err();
        // A code object that is not found is looked for a second time, in a deep search.
        let WorkDone { walks, inflated } = take_work_done(&wheel.path);
        assert!(walks <= 2 && inflated <= 2 * (wheel.size + 5 * HEADS), "{missing}: {walks} {inflated}");
    }
}

#[test]
#[cfg_attr(miri, ignore = "inflates")]
fn replace_walks_through_the_old_and_the_new_wheel() {
    let wheel = wheel();
    let (uri, _) = code_objects(&wheel).into_iter().find(|(_, bytes)| !bytes.is_empty()).unwrap();
    let new = wheel.directory.path().join("new.co");
    std::fs::write(&new, b"; text that nothing compares").unwrap();
    let mut replace = Replace::new(uri, new);
    replace.output = wheel.directory.path().join("new.whl");
    replace.force = true;
    replace.run(&mut |_| {}).unwrap();
    let WorkDone { walks, inflated } = take_work_done(&wheel.path);
    assert_eq!(walks, 2);
    // Each search inflates all members. The rewriter inflates the members that it copies, for their hashes.
    assert!(inflated <= 3 * (wheel.size + 5 * HEADS), "{inflated}");
}

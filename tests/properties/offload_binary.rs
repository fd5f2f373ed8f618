use offload_bundle::container::archive::{Archive, MemberLocation};
use offload_bundle::container::offload_binary::{ImageKind, NewImage, OffloadBinary, Version, plan};
use offload_bundle::container::sequence::{Bundles, Inflate};
use offload_bundle::id::OffloadKind;
use offload_bundle::io::{Input, write_to};
use offload_bundle::llvm::{Filter, ImageFiles, ImageRequest, Package, Unpackage};

use super::choices::{Choices, digest};
use super::room::Room;
use super::said;
use super::sources::Sources;

const KINDS: [Option<OffloadKind>; 5] =
    [None, Some(OffloadKind::OpenMp), Some(OffloadKind::Cuda), Some(OffloadKind::Hip), Some(OffloadKind::Sycl)];

/// Any bytes are offload binaries, contain some, or are an error. The bytes of all extracted images are from the file,
/// and are the same in two runs. After an error nothing is written.
///
/// Packed in any version, images and their strings are restored.
pub fn offload_binary(data: &[u8]) {
    hostile(data);
    round_trip(data);
}

fn hostile(data: &[u8]) {
    let sources = Sources::of(data);
    let input = Input::from_bytes("in", data.to_vec());
    let container = OffloadBinary::default();
    for bundle in Bundles::new(input.as_slice(), &container, Inflate::Whole) {
        let Ok(bundle) = bundle else { break };
        for image in bundle.entries.iter().filter_map(|entry| entry.image.as_ref()) {
            image.strings.iter().flat_map(|(key, value)| [key, value]).for_each(|text| sources.hold(text, "a string"));
        }
    }
    // Thin archives refer to other files.
    if !data.starts_with(b"!<thin>") {
        let room = Room::with(data);
        for content in images(&room) {
            // Data embedded in bitcode is assembled bit by bit.
            if Archive::is_archive(data) || !is_bitcode(data) {
                sources.hold(&content, "an image");
            }
        }
    }
}

fn is_bitcode(data: &[u8]) -> bool {
    data.starts_with(b"BC\xc0\xde") || data.starts_with(&[0xde, 0xc0, 0x17, 0x0b])
}

/// Returns the images of the file `in`, or an empty list after an error.
pub(super) fn images(room: &Room) -> Vec<Vec<u8>> {
    let all = |archive: bool| {
        let mut request = ImageRequest::default();
        request.file = Some(room.path("out"));
        let mut other = ImageRequest::default();
        other.file = Some(room.path("other"));
        let arch = Filter::String { key: b"arch".to_vec(), value: b"gfx906".to_vec() };
        other.filters = vec![Filter::Kind(Some(OffloadKind::Hip)), arch];
        let mut job = Unpackage::new(room.input(), vec![request, other]);
        job.archive = archive;
        let outcome = job.run(&mut |_| {}).inspect_err(|error| room.holds_fault(error)).map_err(|error| said(&error));
        let written = ["out", "other"].map(|name| room.take(name));
        room.holds_only(&["in"]);
        assert!(outcome.is_ok() || written == [None, None], "an output in spite of {outcome:?}");
        (outcome, written)
    };
    let archived = all(true);
    assert_eq!(all(true), archived, "unpacked twice");
    let (one_by_one, last) = all(false);
    let Some(archive) = &archived.1[0] else { return Vec::new() };
    let input = Input::from_bytes("out", archive.clone());
    let members = Archive::read(input.as_slice()).unwrap().members();
    let images: Vec<_> = members
        .map(|member| match member.unwrap().location {
            MemberLocation::Inside(content) => content.bytes().to_vec(),
            MemberLocation::Beside(path) => panic!("{path:?}"),
        })
        .collect();
    if one_by_one.is_ok() {
        assert_eq!(last[0].as_deref(), images.last().map(Vec::as_slice), "the last image");
    }
    images
}

fn round_trip(data: &[u8]) {
    let digest = digest(data);
    let mut choices = Choices::new(&digest);
    let (first, second) = data.split_at(choices.below(data.len() + 1));
    let room = Room::with(first);
    room.write("in1.cubin", second);
    // Strings without recorded lengths (version 1) end at a zero byte.
    let text = |bytes: &[u8]| bytes.iter().copied().filter(|byte| *byte != 0).take(40).collect::<Vec<u8>>();
    let images: Vec<ImageFiles> = ["in", "in1.cubin"]
        .into_iter()
        .zip([(first, second), (second, first)])
        .map(|(file, (a, b))| {
            let mut image = ImageFiles::default();
            (image.files, image.offload_kind) = (vec![room.path(file)], choices.pick(&KINDS));
            image.strings = vec![(b"triple".to_vec(), text(a)), (text(b), text(a)), (Vec::new(), Vec::new())];
            image
        })
        .collect();
    let output = room.path("packed");
    Package::new(images.clone(), output.clone()).run().unwrap();

    let input = Input::read(&output).unwrap();
    let container = OffloadBinary::default();
    let entries_of = |input: &Input| -> Vec<_> {
        let bundles = Bundles::new(input.as_slice(), &container, Inflate::Whole);
        bundles.flat_map(|bundle| bundle.unwrap().entries).collect()
    };
    let read = entries_of(&input);
    assert_eq!(read.len(), images.len());
    for ((entry, image), content) in read.iter().zip(&images).zip([first, second]) {
        let info = entry.image.as_ref().unwrap();
        assert_eq!(info.strings, image.strings, "strings come back changed");
        assert_eq!(info.offload_kind(), image.offload_kind);
        let kind = if image.files[0].ends_with("in") { ImageKind::None } else { ImageKind::Cubin };
        assert_eq!(info.image_kind, if is_bitcode(content) { ImageKind::Bitcode } else { kind });
        assert_eq!(entry.size(), u64::try_from(content.len()).unwrap());
    }
    let infos = read.iter().map(|entry| entry.image.as_deref().unwrap().clone()).collect::<Vec<_>>();
    for version in [Version::V2, Version::V3] {
        let contents = [first, second].map(|content| Input::from_bytes("x", content.to_vec()));
        let images = infos.iter().zip(&contents);
        let images = images.map(|(info, content)| NewImage { info: info.clone(), content: content.as_slice() });
        let mut written = Vec::new();
        write_to(&plan(version, &images.collect::<Vec<_>>()).unwrap(), &mut written).unwrap();
        let again = entries_of(&Input::from_bytes("x", written));
        assert!(again.iter().map(|entry| entry.image.as_deref().unwrap()).eq(&infos), "{version:?}");
    }
    drop(input);
    std::fs::rename(&output, room.input()).unwrap();
    std::fs::remove_file(room.path("in1.cubin")).unwrap();
    let taken = self::images(&room);
    if taken.len() == 2 {
        assert!(taken == [first, second], "images come back changed");
    }
}

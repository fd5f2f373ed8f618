use offload_bundle::container::compressed::HeaderVersion;
use offload_bundle::container::sequence::Inflate;
use offload_bundle::container::stream::Method;
use offload_bundle::id::EntryId;
use offload_bundle::llvm::{BundleFiles, FileType};

use super::choices::{Choices, digest};
use super::formats::{self, Ccob, inflate};
use super::list::{TYPES, ids};
use super::room::Room;
use super::roundtrip::compression_of;
use super::sources::Sources;
use super::unbundle::{Missing, unbundling};

const IDS: [&str; 2] = ["host-x86_64-unknown-linux-gnu-", "hip-amdgcn-amd-amdhsa--gfx90a:xnack+"];

/// Any bytes are a compressed bundle or an error, with the same result whether all or part of it is inflated. They are
/// an error if the first header contradicts its stream.
///
/// Compressed as a code object with any method, level, window and version, they are restored, and the header is
/// correct.
pub fn compressed(data: &[u8]) {
    hostile(data);
    round_trip(data);
}

fn hostile(data: &[u8]) {
    let sources = Sources::of(data);
    for file_type in TYPES {
        let (whole, complete) = ids(data, file_type, Inflate::Whole);
        if !sources.is_large() {
            assert_eq!((whole.clone(), complete), ids(data, file_type, Inflate::AsNeeded));
        }
        whole.iter().for_each(|id| sources.hold(id, "an entry ID"));
        if complete && let Some(header) = Ccob::read(data).filter(|_| !sources.is_large()) {
            let end = header.total.map_or(data.len(), |total| usize::try_from(total).unwrap());
            let payload = inflate(header.method, &data[header.header_len..end]);
            assert_eq!(payload.len(), usize::try_from(header.inflated).unwrap(), "a wrong size was believed");
            assert_eq!(formats::hash(&payload), header.hash, "a wrong hash was believed");
        }
    }
}

fn round_trip(data: &[u8]) {
    let digest = digest(data);
    let mut choices = Choices::new(&digest);
    let compression = compression_of(choices.pick(&[Method::Zstd, Method::Zlib]), &mut choices);
    let compressed_version = choices.pick(&[None, Some(HeaderVersion::V2), Some(HeaderVersion::V3)]);
    let (first, second) = data.split_at(data.len() / 3);

    let room = Room::with(first);
    room.write("in1", second);
    let parsed = IDS.map(|id| EntryId::parse(id).unwrap());
    let files = |names: [&str; 2]| parsed.iter().cloned().zip(names.map(|name| room.path(name))).collect::<Vec<_>>();
    let mut job = BundleFiles::new(files(["in", "in1"]), room.path("bundle"), FileType::Binary);
    (job.compression, job.compressed_version) = (Some(compression), compressed_version);
    job.run(&mut |_| {}).unwrap();

    let written = std::fs::read(room.path("bundle")).unwrap();
    let header = Ccob::read(&written).unwrap();
    let entries = [first, second].into_iter().zip(IDS).map(|(content, id)| (id.as_bytes().to_vec(), content.to_vec()));
    let payload = formats::binary(&entries.collect::<Vec<_>>(), 1);
    let truth = Ccob {
        version: if compressed_version == Some(HeaderVersion::V3) { 3 } else { 2 },
        method: if compression.method == Method::Zstd { 1 } else { 0 },
        total: u64::try_from(written.len()).ok(),
        inflated: u64::try_from(payload.len()).unwrap(),
        hash: formats::hash(&payload),
        header_len: header.header_len,
    };
    assert_eq!(header, truth, "{compression:?}");
    assert!(inflate(header.method, &written[header.header_len..]) == payload, "{compression:?}");

    unbundling(room.path("bundle"), "bc", files(["out0", "out1"]), Missing::Refused).run(&mut |_| {}).unwrap();
    assert!(room.take("out0").unwrap() == first && room.take("out1").unwrap() == second, "{compression:?}");
}

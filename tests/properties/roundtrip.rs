use std::collections::BTreeSet;
use std::num::NonZeroU32;

use offload_bundle::container::compressed::HeaderVersion;
use offload_bundle::container::object::HostFormat;
use offload_bundle::container::sequence::Inflate;
use offload_bundle::container::stream::{Compression, Method};
use offload_bundle::id::{EntryId, OffloadKind};
use offload_bundle::llvm::{BundleFiles, FileType, List};

use super::choices::Choices;
use super::formats;
use super::room::Room;
use super::unbundle::{Missing, unbundling};

const ALIGNMENTS: [u32; 8] = [1, 2, 3, 8, 64, 4096, 4095, 65_536];

/// Prefixes that make contents look like parts of a format.
const BEGINNINGS: [&[u8]; 6] =
    [b"", formats::MAGIC, b"CCOB\x02\0\x01\0", b"\x7fELF\x02\x01\x01", b"\0\0\0\0", b"!<arch>\n"];

/// Any contents bundled in binary are restored byte for byte, plain and compressed, and listed in their order. Without
/// compression, the bundle matches the description of the format.
pub fn roundtrip(data: &[u8]) {
    let mut choices = Choices::new(data);
    let file_type = choices.pick(&["bc", "o", "gch", "ast"]);
    let alignment = choices.pick(&ALIGNMENTS);
    let compression = choices.pick(&[None, None, Some(Method::Zstd), Some(Method::Zlib)]);
    let compression = compression.map(|method| compression_of(method, &mut choices));
    let compressed_version = choices.pick(&[None, Some(HeaderVersion::V2), Some(HeaderVersion::V3)]);
    let members = members(&mut choices);

    let room = Room::with(b"");
    for (index, (_, content)) in members.iter().enumerate() {
        room.write(&format!("in{index}"), content);
    }
    let with_names = |prefix: &str| {
        let name = |index: usize| room.path(&format!("{prefix}{index}"));
        members.iter().enumerate().map(|(index, (id, _))| (id.clone(), name(index))).collect::<Vec<_>>()
    };
    let mut job = BundleFiles::new(with_names("in"), room.path("bundle"), FileType::from_name(file_type).unwrap());
    (job.alignment, job.compression, job.compressed_version) =
        (NonZeroU32::new(alignment), compression, compressed_version);
    let host = members.iter().find(|(id, _)| id.kind() == OffloadKind::Host);
    let fat = file_type == "o" && host.is_some_and(|(_, content)| HostFormat::identify(content).is_some());
    match job.run(&mut |_| {}) {
        // Not every content that begins like an object is one.
        Err(_) if fat => return,
        result => result.unwrap(),
    }
    let entries: Vec<_> = members.iter().map(|(id, content)| (id.to_string().into_bytes(), content.clone())).collect();
    if compression.is_none() && !fat {
        let bundle = std::fs::read(room.path("bundle")).unwrap();
        assert!(bundle == formats::binary(&entries, usize::try_from(alignment).unwrap()), "not as described");
    }

    let (input, inflate) = (room.path("bundle"), Inflate::AsNeeded);
    let mut lines = Vec::new();
    let mut list = List::new(input.clone(), FileType::from_name(file_type).unwrap());
    list.inflate = inflate;
    list.run(&mut lines, &mut |_| {}).unwrap();
    let expected: Vec<u8> = entries.iter().flat_map(|(id, _)| [id, &b"\n"[..]].concat()).collect();
    assert_eq!(lines.escape_ascii().to_string(), expected.escape_ascii().to_string());

    let requests = with_names("out");
    unbundling(input, file_type, requests, Missing::Refused).run(&mut |_| {}).unwrap();
    for (index, (id, content)) in members.iter().enumerate() {
        assert!(room.take(&format!("out{index}")).unwrap() == *content, "{id} comes back changed");
    }
}

pub(super) fn compression_of(method: Method, choices: &mut Choices<'_>) -> Compression {
    let level = i32::from(choices.byte() % 32) - 8;
    let window_log_max = 10 + u32::from(choices.byte() % 22);
    let mut compression = Compression::with_method(method);
    (compression.level, compression.window_log_max) = (level, window_log_max);
    compression
}

fn members(choices: &mut Choices<'_>) -> Vec<(EntryId, Vec<u8>)> {
    let count = 1 + choices.below(6);
    let mut seen = BTreeSet::new();
    let ids: Vec<EntryId> = (0..count).map(|_| choices.id()).filter(|id| seen.insert(id.to_string())).collect();
    let mut members = Vec::new();
    for id in ids {
        let beginning = choices.pick(&BEGINNINGS);
        let repeat = 1 + usize::from(choices.byte() / 128) * 999;
        let len = choices.below(64);
        members.push((id, [beginning, &choices.take(len).repeat(repeat)].concat()));
    }
    if let Some((_, content)) = members.last_mut() {
        content.extend(choices.rest());
    }
    members
}

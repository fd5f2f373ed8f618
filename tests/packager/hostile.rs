//! Broken and malicious files: an error, or bytes that the file holds; in bounded time, and without a panic.
//!
//! LLVM is not needed for these.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use offload_bundle::container::Limits;
use offload_bundle::id::OffloadKind;
use offload_bundle::job::{Filter, ImageRequest, Unpackage};

use super::harness::{Tools, find, run};
use super::offload::{self, Image};
use super::{packager, unpack};

/// How long any of these may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Has the images of a file put into an archive and one into a file, and returns those that came.
fn images(dir: &Path, data: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (input, archive, single) = (dir.join("in"), dir.join("out.a"), dir.join("out"));
    fs::write(&input, data).unwrap();
    let request = |file: &Path, filters: Vec<Filter>| ImageRequest {
        file: Some(file.into()),
        filters,
        ..ImageRequest::default()
    };
    for file in [&archive, &single] {
        drop(fs::remove_file(file));
    }
    let started = Instant::now();
    let run = |requests: Vec<ImageRequest>, archive: bool| {
        let unpackage = Unpackage { input: input.clone(), requests, archive, limits: Limits::default() };
        unpackage.run(&mut Vec::new(), &mut |_| {}).is_ok()
    };
    let in_archive = run(vec![request(&archive, vec![])], true);
    // What is no archive is no file either; to try that for one in a few is enough.
    let alone = (in_archive || data.len().is_multiple_of(16))
        && run(vec![request(&single, vec![Filter::Kind(Some(OffloadKind::Hip))])], false);
    assert!(started.elapsed() < PATIENCE, "{:?}", started.elapsed());
    assert!(in_archive || !archive.exists(), "an error left a file");
    assert!(alone || !single.exists(), "an error left a file");
    assert_eq!(fs::read_dir(dir).unwrap().count(), 1 + usize::from(archive.exists()) + usize::from(single.exists()));
    if !in_archive && !alone {
        return None;
    }
    let mut found: Vec<Vec<u8>> = fs::read(&single).into_iter().collect();
    if let Ok(archive) = fs::read(&archive) {
        let mut members = ar::Archive::new(archive.as_slice());
        while let Some(member) = members.next_entry() {
            let mut content = Vec::new();
            std::io::copy(&mut member.unwrap(), &mut content).unwrap();
            found.push(content);
        }
    }
    Some(found)
}

/// Samples of all versions, and whether their images lie in them as they are.
fn samples() -> Vec<(&'static str, Vec<u8>, bool)> {
    let images = unpack::three();
    vec![
        ("version 1", offload::write(1, &images[..2]), true),
        ("version 2", offload::write(2, &images), true),
        ("version 3", offload::write(3, &images), true),
        ("version 3, zstd", offload::compressed(false, &images), false),
        ("version 3, zlib", offload::compressed(true, &images), false),
    ]
}

/// Every image found is part of the file, or, where it was compressed, has at least a size that fits.
fn hold(what: &str, data: &[u8], plain: bool, found: Option<Vec<Vec<u8>>>) {
    for image in found.into_iter().flatten() {
        let held = image.is_empty() || if plain { find(data, &image).is_some() } else { image.len() < 1000 };
        assert!(held, "{what}: {} is not in the file", image.escape_ascii());
    }
}

#[test]
fn every_truncation_is_an_error_or_whole_images() {
    let dir = tempfile::tempdir().unwrap();
    for (what, data, plain) in samples() {
        let whole = images(dir.path(), &data).unwrap();
        assert!(whole.len() >= 3, "{what}: {} images", whole.len());
        for len in 0..data.len() {
            let found = images(dir.path(), &data[..len]);
            for image in found.iter().flatten() {
                assert!(whole.contains(image), "{what}, {len} bytes: {} is cut", image.escape_ascii());
            }
            hold(what, &data[..len], plain, found);
        }
    }
}

#[test]
fn every_flipped_byte_is_an_error_or_what_the_file_holds() {
    let dir = tempfile::tempdir().unwrap();
    for (what, data, plain) in samples() {
        for at in 0..data.len() {
            for flip in [0xff, 1] {
                let mut flipped = data.clone();
                flipped[at] ^= flip;
                let found = images(dir.path(), &flipped);
                hold(what, &flipped, plain, found);
            }
        }
    }
}

#[test]
fn every_number_may_be_anything() {
    let dir = tempfile::tempdir().unwrap();
    for (what, data, plain) in samples() {
        // The header, the entries and the string entries, or the header of a compressed one.
        let end = if plain { data.len().min(400) } else { 40 };
        let len = u64::try_from(data.len()).unwrap();
        for at in (0..end - 7).step_by(8) {
            let old = u64::from_le_bytes(data[at..at + 8].try_into().unwrap());
            let near = [old.wrapping_sub(1), old.wrapping_add(1), len, len + 1];
            let far = [0, 1, u64::from(u32::MAX), 1 << 63, u64::MAX / 40, u64::MAX - 7, u64::MAX];
            for value in near.into_iter().chain(far) {
                let mut changed = data.clone();
                changed[at..at + 8].copy_from_slice(&value.to_le_bytes());
                let found = images(dir.path(), &changed);
                hold(what, &changed, plain, found);
            }
        }
    }
}

#[test]
fn entries_that_share_their_strings_make_no_more_of_them() {
    // 2,000 entries, each of which claims the same 2,000 strings.
    let count = 2000_u64;
    let strings: Vec<(String, String)> =
        (0..count).map(|number| (format!("key {number}"), "value".repeat(50))).collect();
    let strings: Vec<(&str, &str)> = strings.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    let first = Image::new(1, 4, &strings, b"content");
    let other = Image::new(1, 4, &[], b"");
    let mut data = offload::write(2, &[vec![first], vec![other; usize::try_from(count).unwrap()]].concat());
    for entry in (32..32 + 40 * usize::try_from(count).unwrap()).step_by(40) {
        data.copy_within(32 + 8..32 + 24, entry + 8);
    }
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(images(dir.path(), &data), None);
}

#[test]
fn offload_binaries_in_offload_binaries_come_to_an_end() {
    let tools = Tools { theirs: "".into(), ours: env!("CARGO_BIN_EXE_clang-offload-bundler").into() };
    let wrap = |compressed: bool, content: &[u8]| {
        let image = [Image::new(1, 4, &[("triple", "t")], content)];
        if compressed { offload::compressed(false, &image) } else { offload::write(1, &image) }
    };
    for compressed in [false, true] {
        let mut data = b"the innermost".to_vec();
        for depth in 0..20 {
            let outcome = run(&tools.ours, &packager(&["in"]).file("in", data.clone()));
            match depth {
                0 => assert!(outcome.stderr_text().contains("holds no image"), "{}", outcome.stderr_text()),
                1..=9 => assert_eq!(outcome.files["in-t.0.o"], b"the innermost", "{depth}: {}", outcome.stderr_text()),
                _ => {
                    assert_eq!((outcome.status, outcome.files.len()), (1, 1), "{depth}");
                    assert!(
                        outcome.stderr_text().contains("lie in one another more than 8 deep"),
                        "{}",
                        outcome.stderr_text()
                    );
                }
            }
            data = wrap(compressed, &data);
        }
    }
}

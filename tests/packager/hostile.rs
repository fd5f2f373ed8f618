//! Malicious files, which must give an error in limited time. `tests/hostile.rs` damages files systematically;
//! `tests/bombs.rs` has files that claim large amounts of data. LLVM is not needed for these tests.

use crate::machine::memory_directory;
use std::fs;
use std::path::Path;
use std::time::Duration;

use offload_bundle::id::OffloadKind;
use offload_bundle::llvm::{Filter, ImageRequest, Unpackage};

use crate::measured::thread_time;
use crate::reference::offload::{self, Image};

/// The processor time that any of these may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Extracts the images of a file, all into an archive and one into a file. Returns the extracted images.
fn images(dir: &Path, data: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (input, archive, single) = (dir.join("in"), dir.join("out.a"), dir.join("out"));
    fs::write(&input, data).unwrap();
    let request = |file: &Path, filters: Vec<Filter>| {
        let mut request = ImageRequest::default();
        (request.file, request.filters) = (Some(file.into()), filters);
        request
    };
    for file in [&archive, &single] {
        drop(fs::remove_file(file));
    }
    let started = thread_time();
    let run = |requests: Vec<ImageRequest>, archive: bool| {
        let mut unpackage = Unpackage::new(input.clone(), requests);
        unpackage.archive = archive;
        unpackage.run(&mut |_| {}).is_ok()
    };
    let in_archive = run(vec![request(&archive, vec![])], true);
    // A file that cannot be extracted into an archive cannot be extracted into a file either; this is tried for one in
    // 16.
    let alone = (in_archive || data.len().is_multiple_of(16))
        && run(vec![request(&single, vec![Filter::Kind(Some(OffloadKind::Hip))])], false);
    let took = thread_time() - started;
    assert!(took < PATIENCE, "{took:?}");
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

#[test]
fn entries_that_share_their_strings_make_no_more_of_them() {
    // Each of 2,000 entries claims the same 2,000 strings.
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
    let dir = memory_directory();
    assert_eq!(images(dir.path(), &data), None);
}

//! Files with one changed byte: the change is an error or makes no difference, but never leads to a wrong output.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use offload_bundle::id::EntryId;
use offload_bundle::inventory::{Pattern, Selection};
use offload_bundle::job::{Destination, Extract, Source};
use offload_bundle::llvm::{FileType, Unbundle};

use super::inspect::bundle;
use super::*;
use crate::machine::{loud, memory_directory};
use crate::properties::make::{DEFLATED, STORED, ZSTD, Zipped, zip};
use crate::reference::formats;

/// The files that `extract` writes for the file `in`, by name, or its error.
fn extracted(dir: &Path, targets: &[&str]) -> Result<BTreeMap<String, Vec<u8>>, String> {
    let mut selection = Selection::default();
    selection.targets = targets.iter().map(|target| Pattern::parse(target).unwrap()).collect();
    let inputs = vec![Source::named(dir.join("in"))];
    let out = dir.join("files");
    let destination = Destination::Directory(out.clone());
    let written = Extract::new(inputs, selection, destination).run(&mut |_| {});
    let files = written.map_err(|error| error.to_string()).map(|written| {
        let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
        written.into_iter().map(|file| (name(&file.path), fs::read(&file.path).unwrap())).collect()
    });
    drop(fs::remove_dir_all(out));
    files
}

/// The output of `-unbundle` for GFX906 and the file `in`, or its error.
fn unbundled(dir: &Path, allow_missing: bool) -> Result<Vec<u8>, String> {
    let mut unbundle =
        Unbundle::new(dir.join("in"), FileType::Binary, vec![(EntryId::parse(GFX906).unwrap(), dir.join("out"))]);
    unbundle.allow_missing = allow_missing;
    unbundle.run(&mut |_| {}).map_err(|error| error.to_string())?;
    Ok(fs::read(dir.join("out")).unwrap())
}

/// Returns the data with one byte changed, for every byte and some other values of it.
fn changes(data: &[u8]) -> impl Iterator<Item = (usize, Vec<u8>)> {
    let mut random = harness::Random::new(7);
    (0..data.len()).flat_map(move |at| {
        let any = random.bytes(1)[0] | 2;
        [1, any].map(|bits| {
            let mut changed = data.to_vec();
            changed[at] ^= bits;
            (at, changed)
        })
    })
}

/// A bundle with zeros after its last code object, and slightly compressible code.
fn sample() -> Vec<u8> {
    let code: Vec<u8> = harness::Random::new(11).bytes(300).iter().map(|byte| byte % 32).collect();
    let mut bundle = formats::binary(&[(HOST, b""), (GFX906, &code[..200]), (GFX90A, &code[200..])], 8);
    bundle.push(0);
    bundle
}

#[test]
fn every_byte_of_a_compressed_bundle_counts() {
    let dir = memory_directory();
    let (mut tried, mut harmless) = (0, 0);
    for (version, method) in [(1, 0), (1, 1), (2, 0), (2, 1), (3, 0), (3, 1)] {
        let sound = formats::compressed(version, method, &sample());
        fs::write(dir.path().join("in"), &sound).unwrap();
        let selections: [&[&str]; 3] = [&["gfx906"], &["gfx906", "gfx90a"], &[]];
        let wanted = selections.map(|targets| extracted(dir.path(), targets).unwrap());
        assert_eq!(wanted.each_ref().map(BTreeMap::len), [1, 2, 2], "version {version}, method {method}");
        for (at, changed) in changes(&sound) {
            fs::write(dir.path().join("in"), changed).unwrap();
            for (targets, wanted) in selections.iter().zip(&wanted) {
                tried += 1;
                if let Ok(files) = extracted(dir.path(), targets) {
                    harmless += 1;
                    assert!(&files == wanted, "version {version}, method {method}, byte {at}, {targets:?}");
                }
            }
        }
    }
    loud(&format!("changed bytes of compressed bundles: {tried} extractions, {harmless} without an error"));
}

#[test]
fn every_byte_of_a_zip_members_content_counts() {
    let dir = memory_directory();
    let bundle = bundle();
    for method in [STORED, DEFLATED, ZSTD] {
        // Nothing is requested from the second member, so its state does not matter.
        let sound = zip(&[Zipped::new("lib.so", method, &bundle), Zipped::new("notes", method, b"nothing for a GPU")]);
        fs::write(dir.path().join("in"), &sound).unwrap();
        let contents = |files: BTreeMap<String, Vec<u8>>| files.into_values().collect::<Vec<_>>();
        let wanted = contents(extracted(dir.path(), &["gfx906"]).unwrap());
        assert_eq!(wanted, [b"first"], "method {method}");
        let mut errors = 0;
        for (at, changed) in changes(&sound) {
            fs::write(dir.path().join("in"), changed).unwrap();
            match extracted(dir.path(), &["gfx906"]) {
                Ok(files) => assert_eq!(contents(files), wanted, "method {method}, byte {at}"),
                Err(_) => errors += 1,
            }
        }
        assert!(errors > bundle.len() / 2, "method {method}: {errors}");
    }
}

#[test]
fn a_large_compressed_bundle_is_checked_to_its_end() {
    let dir = memory_directory();
    // More than is checked completely before it is used; the requested code object comes first.
    let filler = vec![7; 17 << 20];
    let plain = formats::binary(&[(HOST, b""), (GFX906, b"first"), (GFX90A, &filler)], 8);
    for (version, method) in [(1, 1), (2, 0), (3, 1)] {
        let sound = formats::compressed(version, method, &plain);
        fs::write(dir.path().join("in"), &sound).unwrap();
        assert!(
            extracted(dir.path(), &["gfx906"]).unwrap().values().eq([b"first"]),
            "version {version}, method {method}"
        );
        assert_eq!(unbundled(dir.path(), false).unwrap(), b"first", "version {version}, method {method}");
        // The recorded hash is kept while the bytes change.
        let header_len = [20, 24, 32][usize::from(version) - 1];
        let with_old_hash = |at: &[u8], bytes: &[u8]| {
            let mut other = plain.clone();
            let at = other.windows(at.len()).position(|window| window == at).unwrap();
            other[at..at + bytes.len()].copy_from_slice(bytes);
            let mut other = formats::compressed(version, method, &other);
            other[header_len - 8..header_len].copy_from_slice(&sound[header_len - 8..header_len]);
            fs::write(dir.path().join("in"), other).unwrap();
        };
        with_old_hash(b"first", b"other");
        for said in [extracted(dir.path(), &["gfx906"]).unwrap_err(), unbundled(dir.path(), false).unwrap_err()] {
            assert!(said.contains("the recorded hash is "), "version {version}: {said}");
        }
        // With a broken ID, the request would get an empty file.
        with_old_hash(b"gfx906", b"gfx908");
        let said = unbundled(dir.path(), true).unwrap_err();
        assert!(said.contains("the recorded hash is "), "version {version}: {said}");
    }
}

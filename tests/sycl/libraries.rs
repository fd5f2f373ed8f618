//! Libraries that Intel's compiler has linked, for Linux and Windows: the images equal the findings of a plain reader.

use std::fs;
use std::path::PathBuf;

use super::*;
use crate::machine::{loud, skip_unless};

/// Where the packages of `.ci/sycl.txt` and `.ci/sycl-windows.txt` are installed.
fn directory() -> Option<PathBuf> {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("target/sycl");
    if ["lib", "windows/dpctl"].iter().all(|part| directory.join(part).exists()) {
        return Some(directory);
    }
    skip_unless(
        "OFFLOAD_REQUIRE_SYCL",
        "device images of real libraries",
        "the packages of .ci/sycl.txt are not installed",
    );
    None
}

fn size_of(object: &Value) -> usize {
    usize::try_from(object["size"].as_u64().unwrap()).unwrap()
}

#[test]
fn images_of_real_libraries_are_those_of_their_tables() {
    let Some(directory) = directory() else { return };
    let (mut libraries, mut count, mut packed) = (0, 0, 0);
    for file in walkdir::WalkDir::new(&directory).sort_by_file_name() {
        let path = file.unwrap().into_path();
        let is_program = |data: &Vec<u8>| data.starts_with(b"\x7fELF") || data.starts_with(b"MZ");
        let Some(data) = fs::read(&path).ok().filter(is_program) else { continue };
        let expected = images::listed(&data);
        if expected.is_empty() {
            continue;
        }
        // oneMKL has ELF files for Intel GPUs and SPIR-V among its data too.
        let (objects, others): (Vec<_>, Vec<_>) =
            listed(&data).into_iter().partition(|object| object["entry_id"] == "sycl-spir64");
        let is_known = |object: &Value| object["image_kind"] == "ELF" || object["image_kind"] == "SPIR-V";
        assert!(others.iter().all(is_known), "{}", path.display());
        assert_eq!(objects.len(), expected.len(), "{}", path.display());
        assert!(objects.iter().all(|object| object["image_kind"] == "SPIR-V"));
        let sizes: Vec<usize> = objects.iter().map(size_of).collect();
        assert!(sizes.iter().eq(expected.iter().map(|(_, size)| size)), "{}", path.display());
        let contents = extracted(&["-t", "sycl-spir64"], &data);
        for ((offset, size), (_, content)) in expected.iter().zip(&contents) {
            let stored = &data[*offset..];
            if stored.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
                let mut inflated = Vec::new();
                let mut decoder = zstd::Decoder::new(stored).unwrap().single_frame();
                std::io::Read::read_to_end(&mut decoder, &mut inflated).unwrap();
                assert!(*content == inflated && content.len() == *size, "{} at {offset}", path.display());
                packed += 1;
            } else {
                assert!(*content == stored[..*size], "{} at {offset}", path.display());
            }
        }
        assert!(out(&run(&["verify"], &data)).ends_with("nothing wrong\n"), "{}", path.display());
        (libraries, count) = (libraries + 1, count + expected.len());
    }
    loud(&format!("device images: {count} in {libraries} libraries, {packed} of them compressed"));
    assert!(
        libraries > 10 && count > 700 && packed > 700,
        "{libraries} libraries, {count} images, {packed} compressed"
    );
}

//! Checks that the memory for a zip file grows by little for each library in it, whatever is printed of the libraries.

use std::fs;
use std::path::Path;

use super::{HANGS, OURS};
use crate::machine::memory_directory;
use crate::measured;
use crate::properties::make::{DEFLATED, Elf, Section, Zipped, zip};
use crate::subcommands::kernels::{bundle, changed_bundle};

/// The number of libraries in the smaller file.
const COUNT: usize = 250;

/// The largest growth for each further library, in bytes. Two files of a comparison have two libraries.
const MOST: u64 = 45_000;

/// A zip file of equal libraries with kernels.
fn libraries(bundle: &[u8], count: usize) -> Vec<u8> {
    // Libraries have other sections too, so that their inflated bytes take more memory than what is kept of them.
    let rest: Vec<u8> = (0..60_000_u32).map(|number| u8::try_from(number * number % 251).unwrap()).collect();
    let library = Elf::LIBRARY.write(&[Section::new(".hip_fatbin", bundle), Section::new(".text", &rest)]);
    let mut members = Vec::new();
    for number in 0..count {
        members.push(Zipped::new(&format!("lib{number}.so"), DEFLATED, &library));
    }
    zip(&members)
}

#[test]
fn memory_grows_by_little_for_each_library() {
    let [small, large] = [COUNT, 2 * COUNT].map(|count| {
        let dir = memory_directory();
        fs::write(dir.path().join("old"), libraries(&bundle(), count)).unwrap();
        fs::write(dir.path().join("new"), libraries(&changed_bundle(), count)).unwrap();
        [
            "inspect old",
            "verify old",
            "kernels old",
            "report -o out old",
            "diff old old",
            "diff --json old new",
            "report -o out --diff old old",
        ]
        .map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            (line, measured::run(Path::new(OURS), "offload-bundle", &words, dir.path(), HANGS).peak)
        })
    });
    for ((line, small), (_, large)) in small.into_iter().zip(large) {
        let growth = large.saturating_sub(small) / u64::try_from(COUNT).unwrap();
        assert!(growth <= MOST, "{line}: {growth} bytes for each library, from {small} to {large}");
    }
}

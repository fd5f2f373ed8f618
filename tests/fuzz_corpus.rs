//! Checks the properties of the fuzz targets on the stored corpora and on inputs that once broke a property. This needs
//! no fuzzer.
//!
//! The comparison with LLVM 22 is skipped with a message if LLVM is not installed; `OFFLOAD_REQUIRE_LLVM=1` makes that
//! a failure.
use std::fs;
use std::path::{Path, PathBuf};

use crate::machine::{skip, skipped};
use crate::properties;

fn folder(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz").join(path)
}

/// Whether the corpora are available: packages of this crate do not contain the fuzz crate.
fn is_here(what: &str) -> bool {
    let is_here = folder("kept").exists();
    if !is_here {
        skipped(&format!("fuzz/ is not part of a package: {what}"), None);
    }
    is_here
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// The members of an archive, with their names.
fn members(archive: &Path) -> Vec<(String, Vec<u8>)> {
    let content = fs::read(archive).unwrap_or_else(|error| panic!("{}: {error}", archive.display()));
    let mut archive = ar::Archive::new(content.as_slice());
    let mut members = Vec::new();
    while let Some(member) = archive.next_entry() {
        let mut member = member.unwrap();
        let mut data = Vec::new();
        std::io::copy(&mut member, &mut data).unwrap();
        members.push((String::from_utf8(member.header().identifier().to_owned()).unwrap(), data));
    }
    members
}

/// Checks the property of a target on its corpus and on inputs that once broke it.
fn replay(target: &str) {
    if !is_here(target) {
        return;
    }
    let (_, property) = properties::ALL.into_iter().find(|(name, _)| *name == target).unwrap();
    let corpus = members(&folder(&format!("kept/{target}.a")));
    assert!(!corpus.is_empty(), "no corpus of {target}");
    let found = folder(&format!("found/{target}.a"));
    let found = if found.exists() { members(&found) } else { Vec::new() };
    for (name, data) in corpus.into_iter().chain(found) {
        let result = std::panic::catch_unwind(|| property(&data));
        assert!(result.is_ok(), "{name} breaks the property of {target}");
    }
}

macro_rules! replayed {
    ($($name:ident,)*) => {
        /// The targets with a test below.
        const REPLAYED: &[&str] = &[$(stringify!($name)),*];

        $(
            #[test]
            fn $name() {
                replay(stringify!($name));
            }
        )*
    };
}

replayed!(
    archive,
    bitcode,
    coff,
    compressed,
    coverage,
    diff,
    elf,
    extract,
    fatbin,
    hcf,
    ids,
    kernels,
    kpack,
    list,
    names,
    offload_binary,
    package,
    races,
    recompress,
    replace,
    roundtrip,
    search,
    static_library,
    sycl,
    syclbin,
    text,
    unbundle,
    verify,
);

#[test]
fn every_property_has_a_target_and_a_test() {
    let names = properties::ALL.map(|(name, _)| name);
    if !is_here("targets") {
        return;
    }
    let targets = files(&folder("fuzz_targets"));
    let targets: Vec<_> = targets.iter().map(|path| path.file_stem().unwrap().to_str().unwrap()).collect();
    assert_eq!(targets, names);
    let mut tested = [REPLAYED, &["differential"]].concat();
    tested.sort_unstable();
    assert_eq!(tested, names);
    for found in files(&folder("found")) {
        assert!(names.iter().any(|name| found.file_stem() == Some(name.as_ref())), "{}", found.display());
    }
}

#[test]
fn differential() {
    if properties::reference().is_none() {
        return skip("the corpus of differential", "LLVM 22 is not installed");
    }
    replay("differential");
}

#[test]
fn found_inputs_are_documented() {
    if !is_here("findings") {
        return;
    }
    let readme = fs::read_to_string(folder("README.md")).unwrap();
    for archive in files(&folder("found")) {
        let target = archive.file_stem().unwrap().display().to_string();
        for (name, _) in members(&archive) {
            assert!(
                readme.contains(&format!("`{target}/{name}`")),
                "fuzz/README.md says nothing about {target}/{name}"
            );
        }
    }
}

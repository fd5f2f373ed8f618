//! The entries of a file as `cuobjdump` lists and extracts them.

use crate::machine::memory_directory;
use std::collections::BTreeSet;
use std::fs;

use super::tools::{self, Tools};

/// A cubin or PTX.
#[derive(Clone, PartialEq, Eq)]
pub struct Row {
    /// `sm_90a` for a cubin, `compute_90a` for PTX.
    pub arch: String,
    pub data: Vec<u8>,
}

impl Row {
    pub fn new(arch: impl Into<String>, data: &[u8]) -> Self {
        Self { arch: arch.into(), data: data.to_vec() }
    }

    pub fn is_ptx(&self) -> bool {
        self.arch.starts_with("compute_")
    }
}

/// The entries of a file, relocatable ones included, in file order.
pub fn rows(tools: &Tools, name: &str, data: &[u8]) -> Vec<Row> {
    let dir = memory_directory();
    fs::write(dir.path().join(name), data).unwrap();
    let archs = listed(&tools::run(&tools.cuobjdump, dir.path(), &["-all", name]));
    let place = dir.path().join("extracted");
    fs::create_dir(&place).unwrap();
    let extract = ["-all", "-xelf", "all", "-xptx", "all", &format!("../{name}")];
    let names = extracted(&tools::run(&tools.cuobjdump, &place, &extract));
    assert_eq!(archs.len(), names.len(), "{name}: {archs:?} and {names:?}");
    // cuobjdump writes files of the same name over each other.
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "{name}: {names:?}");
    let read = |name: String| fs::read(place.join(name)).unwrap();
    archs.into_iter().zip(names).map(|(arch, name)| Row { arch, data: read(name) }).collect()
}

/// The architectures in the long listing. The short one (`-lelf`) does not print `f` of `sm_100f`.
fn listed(listing: &str) -> Vec<String> {
    let (mut archs, mut prefix) = (Vec::new(), None);
    for line in listing.lines().map(str::trim) {
        if let Some(kind) = line.strip_prefix("Fatbin ").and_then(|line| line.strip_suffix(" code:")) {
            prefix = match kind {
                "elf" => Some("sm_"),
                "ptx" => Some("compute_"),
                _ => None,
            };
        }
        let arch = line.strip_prefix("arch = sm_");
        archs.extend(prefix.zip(arch).map(|(prefix, arch)| format!("{prefix}{arch}")));
    }
    archs
}

/// The names of the files in the report of an extraction.
fn extracted(report: &str) -> Vec<String> {
    let lines = report.lines().filter(|line| line.starts_with("Extracting "));
    let names = lines.map(|line| line.split_once(": ").unwrap().1);
    names.map(|name| name.split_once(" -arch=").map_or(name, |(name, _)| name).to_owned()).collect()
}

//! Libraries from NVIDIA's packages on PyPI.

use std::path::PathBuf;

use super::tools::{Tools, installed, skip};
use super::*;

/// The libraries beside NVIDIA's programs, of which `.ci/run` installs two; cuRAND is read too if it is there.
fn libraries(test: &str) -> Option<(Tools, Vec<PathBuf>)> {
    let tools = Tools::find(test)?;
    let libraries: Vec<PathBuf> =
        ["nvidia/*/lib/libnvjpeg.so.*", "nvidia/*/lib/libcurand.so.*"].into_iter().flat_map(installed).collect();
    if libraries.len() < 2 {
        skip(test, "nvidia-nvjpeg and nvidia-nvjpeg-cu12 are not installed");
        return None;
    }
    Some((tools, libraries))
}

#[test]
fn the_entries_of_real_libraries_are_those_of_cuobjdump() {
    let Some((tools, libraries)) = libraries("NVIDIA's libraries") else { return };
    for path in libraries {
        let data = std::fs::read(&path).unwrap();
        let rows = oracle::rows(&tools, &name_of(&path), &data);
        assert!(rows.len() > 100, "{}: {}", path.display(), rows.len());
        let outcome = tool(&["inspect", "--json", "--inflate", "library"], &[("library", &data)]);
        assert_eq!((outcome.status, outcome.stderr_text().as_str()), (0, ""), "{}", path.display());
        assert_eq!(told(&json_of(&outcome)), brief(&rows), "{}", path.display());
        let contents = extracted(&path, &ALL);
        assert_eq!(contents.len(), rows.len(), "{}", path.display());
        let same = contents.iter().zip(&rows).filter(|(content, row)| **content == row.data).count();
        assert_eq!(same, rows.len(), "{}", path.display());
    }
}

#[test]
fn real_libraries_have_no_fault() {
    let Some((_, libraries)) = libraries("verify on NVIDIA's libraries") else { return };
    for path in libraries {
        let data = std::fs::read(&path).unwrap();
        let outcome = tool(&["verify", "library"], &[("library", &data)]);
        assert_eq!((outcome.status, outcome.stderr_text().as_str()), (0, ""), "{}", path.display());
    }
}

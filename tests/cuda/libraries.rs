//! Libraries from NVIDIA's packages on PyPI.

use std::path::PathBuf;

use super::tools::{installed, skip};
use super::*;

/// Returns the libraries of NVIDIA's packages. `.ci/install cuda` installs two of them; cuRAND is read too if it is there.
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

/// Runs a check for each library, with its rows by cuobjdump.
pub fn each_library(test: &str, check: impl Fn(&Tools, &Input) -> Result<(), String>) {
    let Some((tools, paths)) = libraries(test) else { return };
    for path in paths {
        let data = std::fs::read(&path).unwrap();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let rows = oracle::rows(&tools, &name, &data);
        assert!(rows.len() > 100, "{name}: {}", rows.len());
        let library = Input { name, data, rows, oracle: true };
        check(&tools, &library).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
    }
}

#[test]
fn the_entries_of_real_libraries_are_those_of_cuobjdump() {
    each_library("NVIDIA's libraries", |_, library| {
        let outcome = run(&["inspect", "--json", "--inflate"], library)?;
        same(&listed_brief(&json_of(&outcome)), &brief(&library.rows))?;
        same_bytes(&contents(library)?, &library.rows)
    });
}

#[test]
fn real_libraries_have_no_fault() {
    each_library("verify on NVIDIA's libraries", |_, library| run(&["verify"], library).map(drop));
}

#[test]
fn cuobjdump_finds_what_recompress_keeps_in_real_libraries() {
    let runs: &[recompress::Run] =
        &[(&["--cuda-method=zstd"], |_| true), (&["--keep=sm_90"], |row| row.arch == "sm_90" || row.is_ptx())];
    each_library("recompress on NVIDIA's libraries", |tools, library| recompress::check(tools, library, runs));
}

/// Every code object has room in its place, compressed again.
#[test]
fn code_in_real_libraries_is_replaced_by_itself() {
    each_library("replace on NVIDIA's libraries", |tools, library| {
        let document = json_of(&run(&["inspect", "--json"], library)?);
        for (object, row) in listed(&document).zip(&library.rows).step_by(library.rows.len() / 5) {
            let uri = object["uri"].as_str().ok_or("no URI")?;
            let data = replace::replaced(library, uri, &row.data)?.ok_or_else(|| format!("no room: {uri}"))?;
            same(&data.len(), &library.data.len())?;
            same(&(oracle::rows(tools, &library.name, &data) == library.rows), &true)?;
        }
        Ok(())
    });
}

//! `recompress` on relocatable objects and static libraries: cuobjdump and nvlink find the kept code, and nothing else.

use super::recompress::recompressed;
use super::tools::{installed, run as run_tool, skip};
use super::*;

/// The kept code: one architecture, which nvlink links, and PTX.
const KEPT: &[&str] = &["--keep=sm_90"];

/// Returns the output of nvlink for a file and an architecture.
fn linked(tools: &Tools, name: &str, data: &[u8]) -> Vec<u8> {
    let dir = memory_directory();
    std::fs::write(dir.path().join(name), data).unwrap();
    run_tool(&tools.nvlink, dir.path(), &["--arch=sm_90", name, "-o", "out"]);
    std::fs::read(dir.path().join("out")).unwrap()
}

/// Compares the findings of cuobjdump and nvlink in a file and in the smaller one.
fn check(tools: &Tools, input: &Input, is_relocatable: bool) -> Result<(), String> {
    let smaller = recompressed(KEPT, input)?.ok_or("no room")?;
    same(&(smaller.data.len() < input.data.len()), &true)?;
    let rows = input.rows.iter().filter(|row| row.arch == "sm_90" || row.is_ptx());
    same(&(oracle::rows(tools, &input.name, &smaller.data) == rows.cloned().collect::<Vec<_>>()), &true)?;
    run(&["verify"], &smaller)?;
    let [before, after] =
        [&input.data, &smaller.data].map(|data| is_relocatable.then(|| linked(tools, &input.name, data)));
    same(&(before == after), &true).map_err(|_| "nvlink makes something else".to_owned())
}

#[test]
fn objects_and_archives_keep_one_architecture() {
    let test = "objects for CUDA after recompress";
    let Some(tools) = Tools::find(test) else { return };
    let mut checked = std::sync::atomic::AtomicUsize::new(0);
    each(test, |input| {
        let has_sm_90 = input.rows.iter().any(|row| row.arch == "sm_90");
        if !input.oracle || !has_sm_90 || ![".o", ".a"].iter().any(|end| input.name.ends_with(end)) {
            return Ok(());
        }
        checked.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        check(&tools, input, input.name == "clang-relocatable.o")
    });
    assert!(*checked.get_mut() == 0 || *checked.get_mut() >= 4, "{checked:?}");
}

#[test]
fn the_static_library_of_the_device_runtime_keeps_one_architecture() {
    let test = "libcudadevrt.a after recompress";
    let Some(tools) = Tools::find(test) else { return };
    let Some(path) = installed("nvidia/*/lib/libcudadevrt.a").pop() else {
        return skip(test, "nvidia-cuda-runtime is not installed");
    };
    let data = std::fs::read(&path).unwrap();
    // From a file named like a library, nvlink takes only the members that are needed.
    let name = "library.a".to_owned();
    let rows = oracle::rows(&tools, &name, &data);
    let library = Input { name, data, rows, oracle: true };
    check(&tools, &library, true).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
    let plain = recompressed(&["--none"], &library).unwrap().unwrap();
    assert!(plain.data.len() > 5 * library.data.len(), "{}", plain.data.len());
    assert!(oracle::rows(&tools, &library.name, &plain.data) == library.rows);
    assert!(linked(&tools, &library.name, &plain.data) == linked(&tools, &library.name, &library.data));
}

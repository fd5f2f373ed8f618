//! cuobjdump finds the same entries in outputs of `recompress`, or only the kept ones.

use crate::machine::memory_directory;
use std::process::Command;

use super::*;
use crate::lists::share_of;
use crate::properties::make::{self, STORED, Zipped};
use crate::subcommands::wheel;

/// The options of a run, and whether it keeps a row.
pub type Run = (&'static [&'static str], fn(&Row) -> bool);

const RUNS: &[Run] = &[
    (&[], |_| true),
    (&["--cuda-method=lz4"], |_| true),
    (&["--cuda-method=zstd", "--close-gaps"], |_| true),
    (&["--cuda-method=zstd", "--level=19"], |_| true),
    (&["--none"], |_| true),
    (&["--keep=sm_90", "--close-gaps"], |row| row.arch == "sm_90" || row.is_ptx()),
    (&["--keep=sm_90a,sm_75", "--cuda-method=zstd"], |row| {
        ["sm_90a", "sm_75"].contains(&row.arch.as_str()) || row.is_ptx()
    }),
    (&["--drop=sm_1*"], |row| !row.arch.starts_with("sm_1")),
    (&["--drop=compute_*", "--close-gaps"], |row| !row.is_ptx()),
    (&["--drop=sm_75,compute_75", "--none"], |row| !row.arch.ends_with("_75")),
];

/// The inputs with entries for all architectures of the patterns. `recompress` refuses files for Windows.
fn is_rewritten(input: &Input) -> bool {
    let has = |arch: &str| input.rows.iter().any(|row| row.arch == arch);
    let one_file = ![".whl", ".bin", ".obj", ".dll"].iter().any(|end| input.name.ends_with(end));
    input.oracle && one_file && ["sm_75", "sm_90", "sm_90a", "sm_121", "compute_75"].into_iter().all(has)
}

/// Returns the output of `recompress`, or `None` if another method or plain code needs more room than a fatbin has in
/// its section.
pub fn recompressed(args: &[&str], input: &Input) -> Result<Option<Input>, String> {
    let args = [&["recompress", "-o", "out"], args, &[&input.name]].concat();
    let outcome = tool(&args, &[(&input.name, &input.data)]);
    let message = outcome.stderr_text();
    let grows = input.data.starts_with(b"\x7fELF") && (args.contains(&"--none") || args.contains(&"--cuda-method=lz4"));
    if grows && outcome.status == 1 && message.contains("has room for only") {
        return Ok(None);
    }
    same(&outcome.status, &0).map_err(|_| message)?;
    let data = outcome.files.get("out").ok_or("no output")?.clone();
    Ok(Some(Input { name: input.name.clone(), data, rows: Vec::new(), oracle: true }))
}

/// Compares the code objects that cuobjdump finds after each run with the expected ones.
pub fn check(tools: &Tools, input: &Input, runs: &[Run]) -> Result<(), String> {
    for (args, is_kept) in runs {
        let why = |why: String| format!("{args:?}: {why}");
        let Some(smaller) = recompressed(args, input).map_err(why)? else { continue };
        let rows: Vec<Row> = input.rows.iter().filter(|row| is_kept(row)).cloned().collect();
        let found = oracle::rows(tools, &smaller.name, &smaller.data);
        same(&brief(&found), &brief(&rows)).map_err(why)?;
        same(&(found == rows), &true).map_err(|_| why("other bytes".to_owned()))?;
        run(&["verify"], &smaller).map_err(why)?;
    }
    Ok(())
}

#[test]
fn cuobjdump_finds_what_recompress_keeps() {
    let test = "cuobjdump after recompress";
    let Some(tools) = Tools::find(test) else { return };
    each(test, |input| {
        if is_rewritten(input) { check(&tools, input, &share_of(&input.name, RUNS.to_vec(), 2)) } else { Ok(()) }
    });
}

#[test]
fn recompress_changes_nothing_but_the_fatbins_of_a_library() {
    each("libraries after recompress", |input| {
        if !input.name.contains(".so") {
            return Ok(());
        }
        for args in [&["--cuda-method=zstd"][..], &["--keep=sm_90"]] {
            let smaller = recompressed(args, input)?.ok_or("no room")?;
            same(&smaller.data.len(), &input.data.len())?;
            same(&(without_fatbins(&smaller.data) == without_fatbins(&input.data)), &true)?;
        }
        Ok(())
    });
}

#[test]
fn a_library_in_a_wheel_becomes_what_it_becomes_alone() {
    each("libraries in wheels after recompress", |input| {
        if !input.name.contains(".so") {
            return Ok(());
        }
        let alone = recompressed(&["--cuda-method=zstd", "--close-gaps"], input)?.ok_or("no room")?;
        let data =
            make::zip(&[Zipped::new("nvidia/lib.so", STORED, &input.data), Zipped::new("text", STORED, b"text")]);
        let wheel = Input { name: "in.whl".to_owned(), data, rows: Vec::new(), oracle: false };
        let smaller = recompressed(&["--cuda-method=zstd"], &wheel)?.ok_or("no room")?;
        let members = wheel::contents(&smaller.data);
        same(&members.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), &vec!["nvidia/lib.so", "text"])?;
        same(&(members[0].1 == alone.data && members[1].1 == b"text"), &true)?;
        run(&["verify"], &smaller).map(drop)
    });
}

#[test]
fn recompress_compresses_hip_bundles_beside_fatbins() {
    each("a library for both vendors", |input| {
        if input.name != "libboth.so" {
            return Ok(());
        }
        let smaller = recompressed(&["--cuda-method=zstd"], input)?.ok_or("no room")?;
        let document = json_of(&run(&["inspect", "--json"], &smaller)?);
        let objects = document["files"][0]["code_objects"].as_array().unwrap();
        let hip: Vec<&Value> = objects.iter().filter(|object| object["section"] == ".hip_fatbin").collect();
        same(&hip.len(), &2)?;
        same(&hip.iter().all(|object| object["compressed"]["method"] == "zstd"), &true)?;
        let code = run(&["extract", "--target=gfx90a", "-o", "-"], &smaller)?.stdout;
        same(&code.as_slice(), &&b"code object"[..])
    });
}

/// A library without the contents of its sections with device code.
fn without_fatbins(data: &[u8]) -> Vec<u8> {
    let dir = memory_directory();
    std::fs::write(dir.path().join("library"), data).unwrap();
    let sections =
        [".nv_fatbin", "__nv_relfatbin", ".hip_fatbin"].map(|section| format!("--dump-section={section}={section}"));
    let objcopy = llvm("the rest of a library", "llvm-objcopy").unwrap();
    let mut without = data.to_vec();
    for section in sections {
        let mut command = Command::new(&objcopy);
        let output = command.arg(&section).args(["library", "copy"]).current_dir(dir.path()).output().unwrap();
        if !output.status.success() {
            continue;
        }
        let content = std::fs::read(dir.path().join(section.rsplit('=').next().unwrap())).unwrap();
        let at = memchr::memmem::find(&without, &content).unwrap();
        without[at..at + content.len()].fill(0);
    }
    without
}

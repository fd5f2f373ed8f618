//! CUDA fatbins, in every form that NVIDIA's tools and clang write, alone and in files of every format.
//!
//! The inputs are made here with `ptxas` and `fatbinary`; the lists and bytes must be those of `cuobjdump`. If NVIDIA's
//! packages are not installed, the tests print that and pass; `OFFLOAD_REQUIRE_CUDA=1` makes that a failure.
mod inputs;
mod libraries;
mod oracle;
mod tools;

use std::path::Path;

use serde_json::Value;

use crate::lists::share_out;
use crate::look::built::extracted;
use crate::look::{json_of, tool};
use inputs::{Input, entry, fatbin, inputs};
use oracle::Row;
use tools::Tools;

/// Everything for NVIDIA's GPUs.
const ALL: [&str; 4] = ["--target", "sm_*", "--target", "compute_*"];

/// Architectures and sizes.
fn brief(rows: &[Row]) -> Vec<(String, u64)> {
    rows.iter().map(|row| (row.arch.clone(), u64::try_from(row.data.len()).unwrap())).collect()
}

/// Architectures and sizes of the code for NVIDIA's GPUs in the report of `inspect --json`.
fn told(document: &Value) -> Vec<(String, u64)> {
    let objects = document["files"][0]["code_objects"].as_array().unwrap();
    let ours = objects.iter().filter(|object| object["triple"] == "nvptx64-nvidia-cuda");
    ours.map(|object| (object["target_id"].as_str().unwrap_or_default().to_owned(), object["size"].as_u64().unwrap()))
        .collect()
}

/// Runs a check for each input, on all processors.
fn each(test: &str, check: impl Fn(&Input) + Sync) {
    let Some(inputs) = inputs(test) else { return };
    share_out(inputs.iter().collect(), |inputs| inputs.for_each(&check));
}

#[test]
fn inspect_lists_what_cuobjdump_lists() {
    each("inspect on fatbins", |input| {
        let outcome = tool(&["inspect", "--json", "--inflate", &input.name], &[(&input.name, &input.data)]);
        assert_eq!((outcome.status, outcome.stderr_text().as_str()), (0, ""), "{}", input.name);
        assert_eq!(told(&json_of(&outcome)), brief(&input.rows), "{}", input.name);
    });
}

#[test]
fn entry_ids_name_kind_triple_and_gpu() {
    let Some(inputs) = inputs("entry IDs of fatbins") else { return };
    for input in inputs.iter().filter(|input| input.name.ends_with(".fatbin")) {
        let outcome = tool(&["inspect", "--json", &input.name], &[(&input.name, &input.data)]);
        let document = json_of(&outcome);
        let objects = document["files"][0]["code_objects"].as_array().unwrap();
        let ids: Vec<&str> = objects.iter().map(|object| object["entry_id"].as_str().unwrap()).collect();
        let expected: Vec<String> =
            input.rows.iter().map(|row| format!("cuda-nvptx64-nvidia-cuda--{}", row.arch)).collect();
        assert_eq!(ids, expected, "{}", input.name);
    }
}

/// The rows of a file by cuobjdump: those of its parts.
#[test]
fn cuobjdump_finds_the_parts_in_objects_libraries_and_archives() {
    let test = "cuobjdump on objects, libraries and archives";
    let Some(tools) = Tools::find(test) else { return };
    each(test, |input| {
        if input.oracle {
            let rows = oracle::rows(&tools, &input.name, &input.data);
            assert_eq!(brief(&rows), brief(&input.rows), "{}", input.name);
            assert!(rows == input.rows, "{}", input.name);
        }
    });
}

#[test]
fn extract_writes_the_bytes_that_cuobjdump_writes() {
    each("extract on fatbins", |input| {
        if input.rows.is_empty() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(&input.name);
        std::fs::write(&path, &input.data).unwrap();
        let contents = extracted(&path, &ALL);
        let lens: Vec<usize> = contents.iter().map(Vec::len).collect();
        assert_eq!(lens, input.rows.iter().map(|row| row.data.len()).collect::<Vec<_>>(), "{}", input.name);
        assert!(contents.iter().zip(&input.rows).all(|(content, row)| *content == row.data), "{}", input.name);
    });
}

#[test]
fn extract_writes_one_entry_to_standard_output() {
    let Some(inputs) = inputs("one entry of a fatbin") else { return };
    for name in ["plain.fatbin", "compressed.fatbin", "concat-ident.fatbin", "speed-all.fatbin", "later.o"] {
        let input = inputs.iter().find(|input| input.name == name).unwrap();
        for row in &input.rows {
            let args = ["extract", "--exact", "--target", &row.arch, "-o", "-", name];
            let outcome = tool(&args, &[(name, &input.data)]);
            assert_eq!((outcome.status, outcome.stderr_text().as_str()), (0, ""), "{args:?}");
            assert!(outcome.stdout == row.data, "{args:?}");
        }
    }
}

#[test]
fn verify_finds_no_fault_in_what_the_tools_wrote() {
    each("verify on fatbins", |input| {
        // Its code object for AMD's GPU is none.
        if input.name == "libboth.so" {
            return;
        }
        let outcome = tool(&["verify", &input.name], &[(&input.name, &input.data)]);
        assert_eq!((outcome.status, outcome.stderr_text().as_str()), (0, ""), "{}", input.name);
    });
}

/// A change to the first entry of a fatbin: name, offset in the file and new bytes.
type Change = (&'static str, usize, &'static [u8]);

/// Changes that cuobjdump refuses.
const REFUSED: &[Change] = &[
    ("size of the fatbin header", 6, &[32]),
    ("size of the fatbin", 8, &[0, 0, 0xff]),
    ("huge size of the fatbin", 15, &[0x80]),
    ("no size of the entry header", 20, &[0, 0]),
    ("no size of the payload", 24, &[0, 0, 0]),
    ("no size of the stream", 32, &[0, 0, 0]),
    ("size of the stream", 32, &[0, 0xff]),
    ("not marked as compressed", 56, &[0x11, 0]),
    ("marked as LZ4", 56, &[0x11, 0x20]),
    ("inflated size too small", 72, &[1, 0]),
    ("inflated size too large", 72, &[0xff, 0xff]),
];

#[test]
fn verify_refuses_what_cuobjdump_refuses() {
    let test = "changed fatbins";
    let Some(inputs) = inputs(test) else { return };
    let Some(tools) = Tools::find(test) else { return };
    let whole = &inputs.iter().find(|input| input.name == "compressed.fatbin").unwrap().data;
    let mut files: Vec<(String, Vec<u8>)> = Vec::new();
    for (name, at, bytes) in REFUSED {
        let mut data = whole.clone();
        data[*at..at + bytes.len()].copy_from_slice(bytes);
        files.push(((*name).to_owned(), data));
    }
    for len in [8, 15, 20, 70, 200, whole.len() - 8] {
        files.push((format!("cut to {len} bytes"), whole[..len].to_vec()));
    }
    files.push(("a gap of 4 bytes".to_owned(), [&whole[..], &[0; 4], whole].concat()));
    files.push(("a gap that is not zero".to_owned(), [&whole[..], b"not zero", whole].concat()));
    files.push(("no ELF file".to_owned(), fatbin(&[entry(2, 75, 0, 0, b"not an ELF file")])));
    for (what, data) in files {
        assert!(!refusal(&tools, &data).is_empty(), "cuobjdump takes {what}");
        let outcome = tool(&["verify", "in.fatbin"], &[("in.fatbin", &data)]);
        assert_ne!(outcome.status, 0, "{what}");
    }
}

/// The message with which cuobjdump refuses a fatbin; empty if it does not.
fn refusal(tools: &Tools, data: &[u8]) -> String {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("in.fatbin"), data).unwrap();
    let mut command = std::process::Command::new(&tools.cuobjdump);
    let output = command.args(["-xelf", "all", "-xptx", "all", "in.fatbin"]).current_dir(dir.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.success(), said.is_empty(), "{said}");
    said
}

/// The name of a file, for messages.
fn name_of(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

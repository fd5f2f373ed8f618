//! CUDA fatbins, in every form that NVIDIA's tools and clang write, alone and in files of every format.
//!
//! The inputs are made here with `ptxas` and `fatbinary`; the lists and bytes must equal those of `cuobjdump`. If
//! NVIDIA's packages are not installed, the tests print that and pass; `OFFLOAD_REQUIRE_CUDA=1` makes that a failure.
mod inputs;
mod kernels;
mod libraries;
mod oracle;
mod recompress;
mod replace;
mod static_libraries;
mod targets;
mod tools;
mod undefined;
mod wrappers;

use crate::machine::memory_directory;
use serde_json::Value;

use crate::lists::share_out;
use crate::reference::harness::Outcome;
use crate::subcommands::{json_of, llvm, tool};
use inputs::{Input, entry, fatbin, inputs};
use oracle::Row;
use tools::Tools;

/// Architectures and sizes.
fn brief(rows: &[Row]) -> Vec<(String, u64)> {
    rows.iter().map(|row| (row.arch.clone(), u64::try_from(row.data.len()).unwrap())).collect()
}

/// The cubins and PTX in a report of `inspect --json`.
fn listed(document: &Value) -> impl Iterator<Item = &Value> {
    let is_ours = |object: &&Value| {
        let starts = |field: &str, prefix| object[field].as_str().is_some_and(|text| text.starts_with(prefix));
        let code = starts("target_id", "sm_") || starts("target_id", "compute_");
        starts("triple", "nvptx") && code && object["image_kind"] != "unknown"
    };
    document["files"][0]["code_objects"].as_array().unwrap().iter().filter(is_ours)
}

fn listed_brief(document: &Value) -> Vec<(String, u64)> {
    let brief = |object: &Value| (object["target_id"].as_str().unwrap().to_owned(), object["size"].as_u64().unwrap());
    listed(document).map(brief).collect()
}

/// Runs a check for each input, on all processors. Prints all failures.
fn each(test: &str, check: impl Fn(&Input) -> Result<(), String> + Sync) {
    let Some(inputs) = inputs(test) else { return };
    let failures = |inputs: &mut dyn Iterator<Item = &Input>| -> Vec<String> {
        inputs.filter_map(|input| check(input).err().map(|why| format!("{}: {why}", input.name))).collect()
    };
    let failures = share_out(inputs.iter().collect(), failures).concat();
    assert!(failures.is_empty(), "{} of {} inputs:\n{}", failures.len(), inputs.len(), failures.join("\n"));
}

fn same<T: PartialEq + std::fmt::Debug>(found: &T, expected: &T) -> Result<(), String> {
    if found == expected { Ok(()) } else { Err(format!("found {found:?}\n  instead of {expected:?}")) }
}

/// Runs the tool on an input. It must succeed and print no message.
fn run(args: &[&str], input: &Input) -> Result<Outcome, String> {
    let outcome = tool(&[args, &[&input.name]].concat(), &[(&input.name, &input.data)]);
    same(&(outcome.status, outcome.stderr_text().as_str()), &(0, ""))?;
    Ok(outcome)
}

/// The contents of the code objects that `extract` writes for the architectures of an input, in the order of its list.
fn contents(input: &Input) -> Result<Vec<Vec<u8>>, String> {
    let targets = input.rows.iter().flat_map(|row| ["--target", &row.arch]);
    let outcome = run(&["extract", "-o", "out"].into_iter().chain(targets).collect::<Vec<_>>(), input)?;
    let names = String::from_utf8_lossy(&outcome.stdout).into_owned();
    Ok(names.lines().map(|name| outcome.files[name].clone()).collect())
}

/// Compares the contents with those of the rows.
fn same_bytes(contents: &[Vec<u8>], rows: &[Row]) -> Result<(), String> {
    same(&contents.iter().map(Vec::len).collect::<Vec<_>>(), &rows.iter().map(|row| row.data.len()).collect())?;
    let different = contents.iter().zip(rows).find(|(content, row)| **content != row.data);
    different.map_or(Ok(()), |(_, row)| Err(format!("the bytes for {} are different", row.arch)))
}

#[test]
fn inspect_lists_what_cuobjdump_lists() {
    each("inspect on fatbins", |input| {
        let outcome = run(&["inspect", "--json", "--inflate"], input)?;
        same(&listed_brief(&json_of(&outcome)), &brief(&input.rows))
    });
}

#[test]
fn entry_ids_name_kind_triple_and_gpu() {
    each("entry IDs of fatbins", |input| {
        if !input.name.ends_with(".fatbin") {
            return Ok(());
        }
        let document = json_of(&run(&["inspect", "--json"], input)?);
        let ids: Vec<&str> = listed(&document).map(|object| object["entry_id"].as_str().unwrap()).collect();
        let triple = if input.name == "32.fatbin" { "nvptx-nvidia-cuda" } else { "nvptx64-nvidia-cuda" };
        let expected: Vec<String> = input.rows.iter().map(|row| format!("cuda-{triple}--{}", row.arch)).collect();
        same(&ids, &expected.iter().map(String::as_str).collect())
    });
}

#[test]
fn cuobjdump_finds_the_parts_in_objects_libraries_and_archives() {
    let test = "cuobjdump on objects, libraries and archives";
    let Some(tools) = Tools::find(test) else { return };
    each(test, |input| {
        if !input.oracle {
            return Ok(());
        }
        let rows = oracle::rows(&tools, &input.name, &input.data);
        same(&brief(&rows), &brief(&input.rows))?;
        same(&(rows == input.rows), &true)
    });
}

#[test]
fn extract_writes_the_bytes_that_cuobjdump_writes() {
    each("extract on fatbins", |input| {
        if input.rows.is_empty() {
            return Ok(());
        }
        same_bytes(&contents(input)?, &input.rows)
    });
}

#[test]
fn extract_writes_one_entry_to_standard_output() {
    each("one entry of a fatbin", |input| {
        for row in &input.rows {
            if input.rows.iter().filter(|other| other.arch == row.arch).count() == 1 {
                let outcome = run(&["extract", "--target", &row.arch, "-o", "-"], input)?;
                same_bytes(&[outcome.stdout], std::slice::from_ref(row))?;
            }
        }
        Ok(())
    });
}

#[test]
fn verify_finds_no_fault_in_what_the_tools_wrote() {
    each("verify on fatbins", |input| match input.name.as_str() {
        "twice.fatbin" => {
            let fault = "bundle 0 at offset 0: several entries have the ID 'cuda-nvptx64-nvidia-cuda--sm_75'; \
                             runtimes take one of them [duplicate]";
            let outcome = tool(&["verify", &input.name], &[(&input.name, &input.data)]);
            let lines = format!("twice.fatbin: {fault}\ntwice.fatbin: 2 code objects in 1 bundle, 1 fault\n");
            same(&(outcome.status, String::from_utf8_lossy(&outcome.stdout).as_ref()), &(1, lines.as_str()))
        }
        _ => run(&["verify"], input).map(drop),
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
        assert!(!refusal(&tools, &data).is_empty(), "cuobjdump accepts {what}");
        let outcome = tool(&["verify", "in.fatbin"], &[("in.fatbin", &data)]);
        assert_ne!(outcome.status, 0, "{what}");
    }
}

/// Returns the message of cuobjdump when it refuses a fatbin, empty if it accepts it.
fn refusal(tools: &Tools, data: &[u8]) -> String {
    let dir = memory_directory();
    std::fs::write(dir.path().join("in.fatbin"), data).unwrap();
    let mut command = std::process::Command::new(&tools.cuobjdump);
    let output = command.args(["-xelf", "all", "-xptx", "all", "in.fatbin"]).current_dir(dir.path()).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.success(), message.is_empty(), "{message}");
    message
}

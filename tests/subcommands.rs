//! Tests of our own subcommands, which find, extract, verify and recompress code objects in files of every format.
//!
//! The inputs are fixtures, files that `properties/make.rs` writes from the descriptions of their formats, the output
//! of clang 22 and other LLVM tools for a few lines of source, and Debian's librocrand. If one of these is missing, the
//! test prints that and passes; `OFFLOAD_REQUIRE_LLVM=1` makes that a failure.
mod against_llvm;
mod aks2;
mod amdgpu;
mod changed_bytes;
mod code_object_checks;
mod copies;
mod deep;
pub mod diff;
mod extract;
mod fatbin;
mod help_and_completions;
mod hints;
mod host_files;
pub mod hostile;
mod inspect;
mod kernel_names;
pub mod kernels;
mod loadable;
mod nothing_to_judge;
mod pe;
mod progress;
mod ptx;
pub mod python;
mod recompress;
mod recompress_rules;
mod replace;
mod report;
mod runtime;
pub mod schema;
mod shortened_libraries;
mod sizes;
mod static_libraries;
mod syclbin;
mod text_output;
mod verify;
pub mod wheel;

use crate::reference::harness;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::machine::{self, skip};
use crate::reference::harness::{Case, Outcome};
use serde_json::Value;

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_clang-offload-bundler");

const HOST: &str = "host-x86_64-unknown-linux-gnu-";
const GFX906: &str = "hip-amdgcn-amd-amdhsa--gfx906";
const GFX90A: &str = "hip-amdgcn-amd-amdhsa--gfx90a";

/// Returns a text bundle with so many lines that its compressed form saves pages.
fn long_text_bundle() -> Vec<u8> {
    let entry = |id: &str| {
        let lines = "text\n".repeat(9000);
        format!("# __CLANG_OFFLOAD_BUNDLE____START__ {id}\n{lines}# __CLANG_OFFLOAD_BUNDLE____END__ {id}\n")
    };
    [HOST, GFX906].map(entry).concat().into_bytes()
}

/// A program of LLVM 22. If it is not installed, prints that and returns none.
pub fn llvm(test: &str, program: &str) -> Option<PathBuf> {
    Some(machine::llvm(test, &[program])?.join(program))
}

/// Runs a program, which must succeed.
pub fn must(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// The name of a file, the program of LLVM's that makes it, and the arguments.
pub type Linked = (&'static str, &'static str, &'static [&'static str]);

/// Makes files, one after another, in a directory.
pub fn link(test: &str, dir: &Path, files: &[Linked]) {
    for (name, program, args) in files {
        let output =
            if *program == "lld-link" { vec![format!("/out:{name}")] } else { vec!["-o".into(), (*name).into()] };
        must(Command::new(llvm(test, program).unwrap()).args(*args).args(output).current_dir(dir));
    }
}

/// Runs the tool in an existing directory.
pub fn tool_in(dir: &Path, args: &[&str]) -> Output {
    Command::new(PROGRAM).args(args).current_dir(dir).env("LC_ALL", "C.UTF-8").env_remove("NO_COLOR").output().unwrap()
}

/// A line for the shell, in which `"$TOOL"` is the tool.
fn shell(line: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", line]).env("TOOL", PROGRAM);
    command
}

pub fn text(output: &Output) -> (i32, String, String) {
    let utf8 = |data: &[u8]| String::from_utf8_lossy(data).into_owned();
    (output.status.code().unwrap(), utf8(&output.stdout), utf8(&output.stderr))
}

/// Runs the tool in a new directory with these files.
pub fn tool(args: &[&str], files: &[(&str, &[u8])]) -> Outcome {
    let case = files.iter().fold(Case::new(args), |case, (name, data)| case.file(*name, *data));
    harness::run(Path::new(PROGRAM), &case.env("LC_ALL", "C.UTF-8"))
}

fn fixture(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The names of the fixtures in a folder.
fn fixtures(folder: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(folder);
    let names = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.map(|name| format!("{folder}/{name}")).collect();
    names.sort();
    names
}

/// The document printed by `inspect --json`, checked against its schema.
pub fn json_of(outcome: &Outcome) -> Value {
    let document: Value = serde_json::from_slice(&outcome.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&outcome.stdout)));
    schema::check("inspect", &document);
    document
}

/// A code object as reported by `inspect --json`: member and section, container, ID, size.
type Told = (String, String, String, u64);

/// The code objects reported by `inspect --json`.
fn told(document: &Value) -> Vec<Told> {
    let objects =
        document["files"].as_array().unwrap().iter().flat_map(|file| file["code_objects"].as_array().unwrap());
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let row = |object: &Value| {
        let place = [text(&object["member"]), text(&object["section"])].join(":");
        let size = object["size"].as_u64().unwrap();
        (place, text(&object["container"]), text(&object["entry_id"]), size)
    };
    objects.map(row).collect()
}

/// Debian's librocrand. If it is not installed, prints that and returns none.
pub fn librocrand(test: &str) -> Option<PathBuf> {
    let path = PathBuf::from("/usr/lib/x86_64-linux-gnu/librocrand.so.1");
    if !path.exists() {
        skip(test, "librocrand1 is not installed");
        return None;
    }
    Some(path)
}

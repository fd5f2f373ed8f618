//! Code objects that record AMD's triples of LLVM 23 themselves: bitcode, and the note of an ELF file.

use std::fs;

use super::*;
use crate::machine::memory_directory;

const TEST: &str = "code objects with new triples";

const MODULE: &str = "define amdgpu_kernel void @k() { ret void }\n";

/// Runs the tool, which must succeed. Returns its output.
fn printed(dir: &Path, args: &[&str]) -> String {
    let tool = env!("CARGO_BIN_EXE_clang-offload-bundler");
    String::from_utf8(must(Command::new(tool).args(args).current_dir(dir)).stdout).unwrap()
}

#[test]
fn bitcode_is_for_the_gpu_that_its_triple_names() {
    let Some(assembler) = llvm(TEST, "llvm-as") else { return };
    let scratch = memory_directory();
    let dir = scratch.path();
    for (arch, gpu) in [("amdgpu9.42", "gfx942"), ("amdgpu9.4", "gfx9-4-generic"), ("amdgpu10.30", "gfx1030")] {
        fs::write(dir.join("in.ll"), format!("target triple = \"{arch}-amd-amdhsa\"\n{MODULE}")).unwrap();
        must(Command::new(&assembler).args(["in.ll", "-o", "in.bc"]).current_dir(dir));
        let found: Value = serde_json::from_str(&printed(dir, &["inspect", "--json", "in.bc"])).unwrap();
        let text = found.to_string();
        assert!(text.contains(&format!("\"target_id\":\"{gpu}\"")), "{text}");
        printed(dir, &["verify", "--expect", gpu, "in.bc"]);
        printed(dir, &["extract", "--target", arch, "in.bc", "-o", gpu]);
        assert_eq!(fs::read_dir(dir.join(gpu)).unwrap().count(), 1, "{arch}");
    }
}

#[test]
fn an_elf_file_is_for_the_gpu_in_its_header_whatever_its_note_says() {
    let Some(compiler) = llvm(TEST, "llc") else { return };
    let (Some(assembler), Some(linker)) = (llvm(TEST, "llvm-mc"), llvm(TEST, "ld.lld")) else { return };
    let scratch = memory_directory();
    let dir = scratch.path();
    let must_run = |program: &Path, args: &[&str]| drop(must(Command::new(program).args(args).current_dir(dir)));
    fs::write(dir.join("in.ll"), MODULE).unwrap();
    let machine = ["-mtriple=amdgcn-amd-amdhsa", "-mcpu=gfx90a"];
    must_run(&compiler, &[&machine[..], &["in.ll", "-o", "in.s"]].concat());
    let source = fs::read_to_string(dir.join("in.s")).unwrap();
    let (before, after) = source.split_once("amdhsa.target:   amdgcn-amd-amdhsa--gfx90a\n").unwrap();
    let source = format!("{before}amdhsa.target:   amdgpu9.0a-amd-amdhsa-unknown-gfx90a\n{after}");
    fs::write(dir.join("in.s"), source).unwrap();
    must_run(&assembler, &["-triple=amdgcn-amd-amdhsa", "-mcpu=gfx90a", "-filetype=obj", "in.s", "-o", "in.o"]);
    must_run(&linker, &["-shared", "in.o", "-o", "in.hsaco"]);
    let code = fs::read(dir.join("in.hsaco")).unwrap();
    assert!(harness::find(&code, b"amdgpu9.0a-amd-amdhsa-unknown-gfx90a").is_some());
    assert!(printed(dir, &["verify", "--expect", "gfx90a", "in.hsaco"]).contains("nothing wrong"));
    assert!(printed(dir, &["kernels", "in.hsaco"]).contains("  gfx90a "));
}

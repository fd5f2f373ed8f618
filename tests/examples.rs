//! The examples of the documents run: every ```` ```sh ```` block is run as it stands, block after block, in a directory with the
//! files that it names, and prints what the ```` ```text ```` block below it says. What cannot be run here is listed with the reason.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "in a test, what must not happen ends the test, and a skipped one says so"
)]

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Blocks that are not run, by document and first line.
const NOT_RUN: &[(&str, &str, &str)] = &[
    ("README.md", "cargo install --path . --locked", "builds all of it once more, for minutes"),
    ("README.md", "cmake -B build -DCMAKE_HIP_FLAGS=\"-B $HOME/.cargo/bin\" .", "needs an installation of ROCm"),
    ("README.md", "cargo test --locked", "is what runs this"),
    (
        "docs/build-engineers.md",
        "cmake -B build -DCMAKE_HIP_FLAGS=\"-B $HOME/.cargo/bin\" -DCMAKE_CXX_FLAGS=\"-B $HOME/.cargo/bin\" .",
        "needs an installation of ROCm",
    ),
    (
        "docs/build-engineers.md",
        "python3 -m wheel unpack rocrand-1.1-py3-none-linux_x86_64.whl -d unpacked",
        "needs Python's package wheel, and a wheel",
    ),
    (
        "README.md",
        "apt-get install clang-tools-22 clang-22 llvm-22 lld-22 librocrand1 strace jq zsh fish groff man-db",
        "changes the system",
    ),
];

/// Real data, and its size in the Debian release whose figures the documents show.
const LIBRARY: &str = "/usr/lib/x86_64-linux-gnu/librocrand.so.1";
const LIBRARY_SIZE: u64 = 25_384_336;

/// Where LLVM's tools are, which the documents call without a version.
const LLVM: &str = "/usr/lib/llvm-22/bin";

/// What a block that says `word` needs, and whether `.ci/run` installs that.
const NEEDS: &[(&str, &str, Installed)] = &[
    ("librocrand.so.1", LIBRARY, Installed::InCi),
    ("clang", "/usr/lib/llvm-22/bin/clang", Installed::InCi),
    ("kernels.o", "/usr/lib/llvm-22/bin/clang", Installed::InCi),
    ("llvm-readelf", "/usr/lib/llvm-22/bin/llvm-readelf", Installed::InCi),
    ("llvm-objdump", "/usr/lib/llvm-22/bin/llvm-objdump", Installed::InCi),
    ("jq", "/usr/bin/jq", Installed::Perhaps),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Installed {
    InCi,
    Perhaps,
}

/// Variables that would change what the program does.
const VARIABLES: [&str; 7] = [
    "OFFLOAD_BUNDLER_COMPRESS",
    "OFFLOAD_BUNDLER_VERBOSE",
    "OFFLOAD_BUNDLER_COMPRESSION_LEVEL",
    "OFFLOAD_BUNDLER_IGNORE_ENV_VAR",
    "COMPRESSED_BUNDLE_FORMAT_VERSION",
    "OFFLOAD_BINARY_HIP_KIND",
    "CARGO_HOME",
];

const KERNELS_HIP: &str = "
struct dim3 { unsigned x, y, z; };
typedef struct ihipStream_t *hipStream_t;
extern \"C\" int hipLaunchKernel(const void *, dim3, dim3, void **, unsigned long, hipStream_t);
__attribute__((global)) void add(int *data, int count) {
  for (int i = 0; i < count; ++i) data[i] += 3;
}
";

/// An example.
#[derive(Debug)]
struct Example {
    script: String,
    /// What it prints, if the document tells.
    output: Option<String>,
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The blocks of a document: what stands behind the fence, the lines, and whether the block follows the one before it
/// with nothing in between.
fn blocks(document: &str) -> Vec<(String, String, bool)> {
    let mut blocks = Vec::new();
    let mut open: Option<(String, String, bool)> = None;
    let mut follows = false;
    for line in document.lines() {
        match (open.take(), line.strip_prefix("```")) {
            (None, Some(language)) => open = Some((language.to_owned(), String::new(), follows)),
            (None, None) => follows &= line.trim().is_empty(),
            (Some(block), Some(_)) => {
                blocks.push(block);
                follows = true;
            }
            (Some((language, text, near)), None) => open = Some((language, text + line + "\n", near)),
        }
    }
    assert!(open.is_none(), "a block that does not end");
    blocks
}

fn examples(document: &str) -> Vec<Example> {
    let blocks = blocks(&fs::read_to_string(root().join(document)).unwrap());
    let output = |index: usize| blocks.get(index + 1).filter(|(language, _, near)| language == "text" && *near);
    let shell = blocks.iter().enumerate().filter(|(_, (language, ..))| language == "sh");
    let example = |(index, (_, script, _)): (usize, &(String, String, bool))| Example {
        script: script.clone(),
        output: output(index).map(|(_, text, _)| text.clone()),
    };
    shell.map(example).collect()
}

/// A directory as the documents take it for granted: `bin` is in `PATH`, `home` is the user's, `work` the current one.
fn workshop() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    for folder in ["bin", "home/.cargo", "work"] {
        fs::create_dir_all(at(folder)).unwrap();
    }
    for name in ["clang-offload-bundler", "llvm-offload-binary", "clang-offload-packager"] {
        symlink(env!("CARGO_BIN_EXE_clang-offload-bundler"), at("bin").join(name)).unwrap();
    }
    for name in ["llvm-readelf", "llvm-objdump"] {
        symlink(Path::new(LLVM).join(name), at("bin").join(name)).unwrap();
    }
    stand_in_for_rocm(&at("bin/clang"));
    symlink(at("bin"), at("home/.cargo/bin")).unwrap();
    let fixtures = root().join("fixtures");
    fs::copy(fixtures.join("offload/llvm22-embedded.o"), at("work/host.o")).unwrap();
    for (name, content) in [
        ("gfx906.out", "code object for gfx906"),
        ("gfx90a.out", "code object for gfx90a"),
        ("gfx906.o", "code object for gfx906"),
        ("gfx90a.o", "code object for gfx90a"),
        ("kernels.c", "int kernels;\n"),
        ("kernels.hip", KERNELS_HIP),
    ] {
        fs::write(at("work").join(name), content).unwrap();
    }
    bundles(dir.path());
    dir
}

/// clang without ROCm, which would bring the headers and the device library that the examples take for granted.
fn stand_in_for_rocm(path: &Path) {
    let options = "-nogpulib -nogpuinc -Wno-unused-command-line-argument";
    fs::write(path, format!("#!/bin/sh\nexec {LLVM}/clang {options} \"$@\"\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// What the examples start from: a bundle of two GPUs, and a library of fat objects.
fn bundles(dir: &Path) {
    let script =
        "clang-offload-bundler -type=o -input=/dev/null -input=gfx906.out -input=gfx90a.out -output=kernels.hipfb \
                  -targets=host-x86_64-unknown-linux-gnu,hipv4-amdgcn-amd-amdhsa--gfx906,hipv4-amdgcn-amd-amdhsa--gfx90a
                  clang-offload-bundler -type=o -targets=host-x86_64-pc-linux-gnu-,hip-amdgcn-amd-amdhsa--gfx90a \
                  -input=host.o -input=gfx90a.out -output=kernel.o";
    let (success, said) = run(dir, script);
    assert!(success, "{said}");
    let mut archive = ar::Builder::new(fs::File::create(dir.join("work/libkernels.a")).unwrap());
    archive.append_path(dir.join("work/kernel.o")).unwrap();
    fs::remove_file(dir.join("work/kernel.o")).unwrap();
}

/// Runs a script, and returns whether it succeeds and what it prints, in the order in which it does.
fn run(dir: &Path, script: &str) -> (bool, String) {
    let path = std::env::var("PATH").unwrap_or_default();
    let mut shell = Command::new("sh");
    for variable in VARIABLES {
        shell.env_remove(variable);
    }
    let output = shell
        .args(["-euc", &format!("exec 2>&1\n{script}")])
        .current_dir(dir.join("work"))
        .env("PATH", format!("{}:{path}", dir.join("bin").display()))
        .env("HOME", dir.join("home"))
        .env("LC_ALL", "C.UTF-8")
        .env("TMPDIR", dir)
        .output()
        .unwrap();
    (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
}

fn is_word(script: &str, word: &str) -> bool {
    let part = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    script.split(|c| !part(c)).any(|found| found == word)
}

/// What a script needs and this machine does not have.
fn missing(script: &str) -> Option<(&'static str, Installed)> {
    let lacks = |(word, path, _): &&(&str, &str, Installed)| is_word(script, word) && !Path::new(path).exists();
    NEEDS.iter().find(lacks).map(|(_, path, installed)| (*path, *installed))
}

/// Runs the examples of a document. Later ones work on what earlier ones wrote.
fn check(document: &str) {
    let dir = workshop();
    let mut listed: BTreeSet<&str> =
        NOT_RUN.iter().filter(|(name, ..)| *name == document).map(|(_, first, _)| *first).collect();
    let examples = examples(document);
    assert!(examples.len() > 5, "{document}: {} examples", examples.len());
    let release = fs::metadata(LIBRARY).is_ok_and(|library| library.len() == LIBRARY_SIZE);
    for Example { script, output } in examples {
        if listed.remove(script.lines().next().unwrap_or_default()) {
            continue;
        }
        if let Some((path, installed)) = missing(&script) {
            let required = installed == Installed::InCi && std::env::var_os("OFFLOAD_REQUIRE_LLVM").is_some();
            assert!(!required, "{path} is not installed, and OFFLOAD_REQUIRE_LLVM is set");
            println!("SKIPPED: there is no {path} for:\n{script}");
            continue;
        }
        let (success, said) = run(dir.path(), &script);
        assert!(success, "{document}: this fails:\n{script}\n{said}");
        let figures_differ = is_word(&script, "librocrand.so.1") && !release;
        if let Some(expected) = output.filter(|_| !figures_differ) {
            assert_eq!(said.trim_end(), expected.trim_end(), "{document}: what this prints:\n{script}");
        }
    }
    assert!(listed.is_empty(), "{document} has no such examples any more: {listed:?}");
}

#[test]
fn the_examples_of_the_readme_run() {
    check("README.md");
}

#[test]
fn the_examples_for_build_engineers_run() {
    check("docs/build-engineers.md");
}

#[test]
fn blocks_are_found_with_what_they_print() {
    let text =
        "a\n```sh\nx\ny\n```\n\n```text\nout\n```\nb\n```text\nother\n```\n```sh\nz\n```\nc\n\n```text\nd\n```\n";
    let found: Vec<(String, bool)> =
        blocks(text).into_iter().map(|(language, text, near)| (format!("{language}:{text}"), near)).collect();
    let expected =
        [("sh:x\ny\n", false), ("text:out\n", true), ("text:other\n", false), ("sh:z\n", true), ("text:d\n", false)];
    assert_eq!(found, expected.map(|(text, near)| (text.to_owned(), near)));
}

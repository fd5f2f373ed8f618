//! Runs the examples of the documents. The ```` ```sh ```` blocks of a document are one shell session, from top to
//! bottom, on a plain Debian with the packages that the document names. Each ```` ```python ```` block is a separate
//! program. A ```` ```text ```` block directly after one is its output. `BLESS=1` rewrites the `text` blocks.
//!
//! `cargo` would build for minutes. Instead of it, a script installs the executables under test in the directory that
//! `cargo install` uses. `.ci/run` runs the same commands of `cargo`, as tests/documents.rs checks, and sets
//! `OFFLOAD_INSTALLED` to the directory of the executables that `cargo install` made. `pip` finds the wheel of the
//! README in `target/wheels`, and nothing in the network.
use std::collections::BTreeSet;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::machine::{memory_directory, skip_unless, skipped, write_program};

/// The sample library. The documents show the sizes of its Debian release.
const LIBRARY: &str = "/usr/lib/x86_64-linux-gnu/librocrand.so.1";
const LIBRARY_SIZE: u64 = 25_384_336;

/// The beginning of the name of the sample wheel, and the directory that `.ci/install sample_wheel` downloads it to.
const WHEEL: &str = "bitsandbytes-0.50.2-";
const WHEELS: &str = "target/wheels";

/// The file of Debian's pip, which the README's download of the wheel runs.
const PIP: &str = "/usr/lib/python3/dist-packages/pip";

/// Words of scripts, a file that each of them needs, and the Debian package of that file.
const NEEDS: &[(&str, &str, &str)] = &[
    ("librocrand.so.1", LIBRARY, "librocrand1"),
    ("jq", "/usr/bin/jq", "jq"),
    ("llvm-ar-22", "/usr/bin/llvm-ar-22", "llvm-22"),
    ("llvm-objdump-22", "/usr/bin/llvm-objdump-22", "llvm-22"),
    ("llvm-readelf-22", "/usr/bin/llvm-readelf-22", "llvm-22"),
    ("clang-22", "/usr/bin/clang-22", "clang-22"),
    ("clang-22", "/usr/bin/ld.lld-22", "lld-22"),
    ("clang++-22", "/usr/bin/clang++-22", "clang-22"),
    ("clang-linker-wrapper", "/usr/lib/llvm-22/bin/clang-linker-wrapper", "clang-tools-22"),
    ("wheel", "/usr/lib/python3/dist-packages/wheel", "python3-wheel"),
    ("cmake", "/usr/bin/cmake", "cmake"),
    ("cmake", "/usr/bin/make", "make"),
];

/// A `sh` or `python` block of a document.
#[derive(Debug, PartialEq, Eq)]
struct Example {
    /// The lines between its fences, counted from 0.
    script: Range<usize>,
    is_python: bool,
    /// The lines of its output, if the document shows it.
    output: Option<Range<usize>>,
}

struct Document {
    name: &'static str,
    lines: Vec<String>,
    examples: Vec<Example>,
}

impl Document {
    fn read(name: &'static str) -> Self {
        let text = fs::read_to_string(root().join(name)).unwrap();
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let examples = examples(&lines);
        assert!(examples.len() > 1, "{name}: {} examples", examples.len());
        Self { name, lines, examples }
    }

    fn text(&self, lines: &Range<usize>) -> String {
        self.lines[lines.clone()].iter().map(|line| format!("{line}\n")).collect()
    }

    fn scripts(&self) -> Vec<String> {
        let script = |example: &Example| match example.is_python {
            true => format!("python3 - <<'END OF PROGRAM'\n{}END OF PROGRAM\n", self.text(&example.script)),
            false => self.text(&example.script),
        };
        self.examples.iter().map(script).collect()
    }

    /// The number of consecutive examples from the start that can run on this machine.
    fn runnable(&self) -> usize {
        for (index, example) in self.examples.iter().enumerate() {
            let script = self.text(&example.script);
            let before = code_spans(&self.lines[..example.script.start]);
            for &(_, file, package) in NEEDS.iter().filter(|(word, ..)| is_word(&script, word)) {
                assert!(before.contains(package), "{}: the package {package} is not named above:\n{script}", self.name);
                if !Path::new(file).exists() {
                    let required = std::env::var_os("OFFLOAD_REQUIRE_LLVM").is_some_and(|value| value == "1");
                    assert!(!required, "{package} is not installed, and OFFLOAD_REQUIRE_LLVM=1 is set");
                    let first = script.lines().next().unwrap();
                    let what = format!("{package} is not installed: {} from here on: {first}", self.name);
                    skipped(&what, Some("packages"));
                    return index;
                }
            }
        }
        self.examples.len()
    }

    /// Leaves out the examples that read the sample wheel, and prints that, if the wheel is not there.
    fn without_missing_wheel(mut self) -> Self {
        let lines = &self.lines;
        let (with_wheel, others): (Vec<Example>, Vec<Example>) =
            self.examples.into_iter().partition(|example| lines[example.script.clone()].concat().contains(WHEEL));
        self.examples = others;
        if has_wheel() {
            self.examples.extend(with_wheel);
            self.examples.sort_by_key(|example| example.script.start);
        } else if !with_wheel.is_empty() {
            let what = format!("{} examples of {}", with_wheel.len(), self.name);
            skip_unless("OFFLOAD_REQUIRE_WHEEL", &what, &format!("no {WHEEL}*.whl in {WHEELS}, or no pip of Debian"));
        }
        self
    }

    /// Replaces the output of the examples, from the first example on.
    fn bless(mut self, printed: &[String]) {
        for (example, printed) in self.examples.iter().zip(printed).rev() {
            if let Some(lines) = example.output.clone().filter(|_| !self.figures_differ(example)) {
                self.lines.splice(lines, printed.trim_end().lines().map(str::to_owned));
            }
        }
        fs::write(root().join(self.name), self.lines.join("\n") + "\n").unwrap();
    }

    /// Whether an example prints figures of another release of the library.
    fn figures_differ(&self, example: &Example) -> bool {
        let release = fs::metadata(LIBRARY).is_ok_and(|library| library.len() == LIBRARY_SIZE);
        !release && is_word(&self.text(&example.script), "librocrand.so.1")
    }
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The `sh` blocks of a document, each with the `text` block directly after it, if any.
fn examples(lines: &[String]) -> Vec<Example> {
    let mut examples: Vec<Example> = Vec::new();
    let mut open: Option<(&str, usize)> = None;
    let mut after_script = false;
    for (number, line) in lines.iter().enumerate() {
        match (open.take(), line.strip_prefix("```")) {
            (None, Some(language)) => open = Some((language, number + 1)),
            (None, None) => after_script &= line.trim().is_empty(),
            (Some(block), None) => open = Some(block),
            (Some((language, start)), Some(_)) => {
                match (language, examples.last_mut()) {
                    ("sh" | "python", _) => {
                        let is_python = language == "python";
                        examples.push(Example { script: start..number, is_python, output: None });
                    }
                    ("text", Some(last)) if after_script => last.output = Some(start..number),
                    _ => {}
                }
                after_script = ["sh", "python"].contains(&language);
            }
        }
    }
    assert!(open.is_none(), "a block does not end");
    examples
}

/// The words in the code spans of the text around blocks.
fn code_spans(lines: &[String]) -> BTreeSet<String> {
    let mut inside = false;
    let mut text = String::new();
    for line in lines {
        let fence = line.starts_with("```");
        inside ^= fence;
        if !inside && !fence {
            text.extend([line, "\n"]);
        }
    }
    let spans = text.split('`').skip(1).step_by(2);
    spans.flat_map(str::split_whitespace).map(str::to_owned).collect()
}

fn is_word(text: &str, word: &str) -> bool {
    let part = |c: char| c.is_ascii_alphanumeric() || "-_.+".contains(c);
    text.split(|c| !part(c)).any(|found| found == word)
}

/// Whether the sample wheel can be read, and pip can copy it.
fn has_wheel() -> bool {
    let Ok(files) = fs::read_dir(root().join(WHEELS)) else { return false };
    let mut names = files.flatten().map(|file| file.file_name());
    Path::new(PIP).exists() && names.any(|name| name.to_string_lossy().starts_with(WHEEL))
}

/// The executables that `cargo install` installs.
const INSTALLED: [&str; 5] = [
    env!("CARGO_BIN_EXE_clang-offload-bundler"),
    env!("CARGO_BIN_EXE_offload-bundle"),
    env!("CARGO_BIN_EXE_llvm-offload-binary"),
    env!("CARGO_BIN_EXE_clang-offload-packager"),
    env!("CARGO_BIN_EXE_llvm-extract-bundle-entry"),
];

/// Makes a home directory where `cargo` is the script described at the head of this file.
fn home() -> tempfile::TempDir {
    let dir = memory_directory();
    let bin = dir.path().join(".cargo/bin");
    fs::create_dir_all(&bin).unwrap();
    let executables = match std::env::var("OFFLOAD_INSTALLED") {
        Ok(directory) => format!("'{directory}'/*"),
        Err(_) => INSTALLED.map(|path| format!("'{path}'")).join(" "),
    };
    let cargo = format!(
        "#!/bin/sh\ncase $1 in\n  install) cp {executables} ~/.cargo/bin ;;\n  test) ;;\n  *) exit 1 ;;\nesac\n"
    );
    write_program(&bin.join("cargo"), cargo.as_bytes());
    dir
}

/// Runs scripts in one shell, which starts in the repository, and returns their outputs. The first failure is an error.
fn session(scripts: &[String]) -> Vec<String> {
    let home = home();
    let parts = scripts.iter().map(|script| format!("printf '\\036'\n{script}"));
    let script = home.path().join("session");
    fs::write(&script, format!("exec 2>&1 </dev/null\n{}", parts.collect::<String>())).unwrap();
    let run = Command::new("sh")
        .arg("-eu")
        .arg(script)
        .current_dir(root())
        .env_clear()
        .env("HOME", home.path())
        .env("PATH", format!("{}/.cargo/bin:/usr/local/bin:/usr/bin:/bin", home.path().display()))
        .env("LC_ALL", "C.UTF-8")
        .env("TMPDIR", home.path())
        .env("PIP_NO_INDEX", "1")
        .env("PIP_ROOT_USER_ACTION", "ignore")
        // pip divides this at spaces, which the path of the repository may have.
        .env("PIP_FIND_LINKS", WHEELS)
        .env("PYTHONPATH", root().join("packaging/python"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stdout).into_owned();
    let printed: Vec<String> = said.split('\x1e').skip(1).map(str::to_owned).collect();
    if !run.status.success() {
        let last = printed.last().unwrap();
        panic!("{}: this fails:\n{}\n{last}", run.status, scripts[printed.len() - 1]);
    }
    assert_eq!(printed.len(), scripts.len());
    printed
}

/// Runs the examples of a document, after those of other documents that it requires.
fn check(document: Document, before: &[String]) {
    let mut scripts = before.to_vec();
    scripts.extend(document.scripts().into_iter().take(document.runnable()));
    let printed = session(&scripts).split_off(before.len());
    if std::env::var_os("BLESS").is_some() {
        return document.bless(&printed);
    }
    for (example, printed) in document.examples.iter().zip(&printed) {
        if let Some(lines) = example.output.as_ref().filter(|_| !document.figures_differ(example)) {
            let (name, script, shown) = (document.name, document.text(&example.script), document.text(lines));
            assert_eq!(
                printed.trim_end(),
                shown.trim_end(),
                "{name} (BLESS=1 rewrites it): what this prints:\n{script}"
            );
        }
    }
}

#[test]
fn the_examples_of_the_readme_run() {
    check(Document::read("README.md").without_missing_wheel(), &[]);
}

#[test]
fn the_types_of_python_are_those_of_the_schemas() {
    let run = Command::new("python3").arg(root().join("packaging/python/generate.py")).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let path = root().join("packaging/python/offload_bundle/reports.py");
    if std::env::var_os("BLESS").is_some() {
        fs::write(&path, &run.stdout).unwrap();
    }
    assert!(fs::read(&path).unwrap() == run.stdout, "{}: BLESS=1 writes it again", path.display());
}

/// The other pages continue where installation ends.
#[test]
fn the_examples_of_the_pages_run() {
    let install = Document::read("docs/install.md");
    let installed = install.scripts();
    check(install, &[]);
    for page in ["docs/guide.md", "docs/llvm.md", "docs/wheels.md", "docs/ci.md", "docs/python.md"] {
        check(Document::read(page), &installed);
    }
}

#[test]
fn blocks_are_found_with_what_they_print() {
    let text = "a\n```sh\nx\ny\n```\n\n```text\nout\n```\nb\n```text\nother\n```\n```sh\nz\n```\nc\n\n```text\nd\n```\n\
        ```python\np\n```\n\n```text\ne\n```\n";
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let expected = [(2..4, false, Some(7..8)), (14..15, false, None), (22..23, true, Some(26..27))]
        .map(|(script, is_python, output)| Example { script, is_python, output });
    assert_eq!(examples(&lines), expected);
}

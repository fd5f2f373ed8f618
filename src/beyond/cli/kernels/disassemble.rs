//! `kernels --disassemble`: runs the disassembler of LLVM or NVIDIA on the code objects that define kernels.

use std::collections::HashSet;
use std::io::{Seek, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, LazyLock};
use std::{env, fs};

use crate::base::display::printable_name;
use crate::base::io::{Input, sys};
use crate::beyond::cli::print::out::Out;
use crate::beyond::cli::print::units::count;
use crate::beyond::container::ContentKind;
use crate::beyond::scan::{CodeObject, Scan};
use anyhow::{Context as _, anyhow, bail, ensure};

use crate::beyond::job::NamedKernel;
use crate::llvm::cli::program;

/// The number of code objects of a file that are disassembled. More are an error: nobody reads them.
const CODE_OBJECTS_MAX: usize = 100;

/// The bytes of names in the arguments of one run. A command line of Windows has at most 32 KiB.
const NAMES_MAX: usize = 24 << 10;

/// The largest number of names that the line before the instructions lists.
const SHOWN_NAMES_MAX: usize = 3;

/// Characters that make it impossible to select a name. llvm-objdump takes names in a comma list. An argument ends at a
/// NUL, and the names in the output are read line by line.
const UNSELECTABLE: [(char, &str); 3] = [(',', "has a comma"), ('\0', "has a NUL"), ('\n', "has a line end")];

/// The bytes of the code objects of some kernels: one item for each slice that [`by_code_object`] returns, in the same
/// order.
pub(super) type CodeBytes = Vec<Vec<u8>>;

/// Reads the code objects of kernels, in the order of [`by_code_object`], but at most [`CODE_OBJECTS_MAX`] of them.
/// They are read while the file is open; [`write`] needs them later. Fails if one of them cannot be read.
pub(super) fn read_contents(rows: &[NamedKernel], scan: &Scan, input: &Input) -> crate::base::error::Result<CodeBytes> {
    let code_objects = by_code_object(rows).filter_map(|rows| Some(&*rows.first()?.code.code_object));
    // If there are more, `write` fails before it uses any of these.
    let wanted: Vec<&CodeObject> = code_objects.take(CODE_OBJECTS_MAX).collect();
    let mut contents = Vec::new();
    scan.read(input, &wanted, &mut |index, code| {
        contents.push((index, code));
        std::ops::ControlFlow::Continue(())
    })?;
    // Code objects in members of a package are read after all others, whatever their index in `wanted` is.
    contents.sort_by_key(|(index, _)| *index);
    contents.into_iter().map(|(_, code)| code).collect()
}

/// Writes the instructions of kernels, after a line with the command that disassembled them, and its warnings.
pub(super) fn write(rows: &[NamedKernel], contents: &CodeBytes, out: &mut Out<'_>) -> anyhow::Result<()> {
    let count = by_code_object(rows).count();
    ensure!(
        count <= CODE_OBJECTS_MAX,
        "{count} code objects define such a kernel, at most {CODE_OBJECTS_MAX} are disassembled; choose with --target"
    );
    // `names_by_run` checks the names before any program runs, so that its error comes before any output. It returns
    // several runs if a code object has too many names for one command line.
    let mut prepared = Vec::new();
    // `read_contents` has read the code objects in the same order.
    for (rows, code) in by_code_object(rows).zip(contents) {
        let Some(first) = rows.first() else { continue };
        let place = format!("{}, {}", first.code.code_object.bundle.place, first.code.gpu);
        let disassembler = Disassembler::for_code(code);
        let runs = disassembler.names_by_run(rows).map_err(|error| anyhow!("{place}: {error:#}"))?;
        prepared.push((place, disassembler, runs, code));
    }
    for (place, disassembler, runs, code) in prepared {
        for names in runs {
            let (program, output) = disassembler.run(&names, code).map_err(|error| anyhow!("{place}: {error:#}"))?;
            let command = disassembler.shown_command(program, &names);
            out.write_line(&format!("# {place}: {command}"))?;
            for warning in String::from_utf8_lossy(&output.stderr).lines() {
                out.write_line(&format!("# {warning}"))?;
            }
            for line in String::from_utf8_lossy(&output.stdout).lines() {
                out.write_fields(line.split('\t'))?;
            }
        }
    }
    Ok(())
}

/// Returns slices of the kernels, one for each code object. The kernels of a code object follow each other.
fn by_code_object(rows: &[NamedKernel]) -> impl Iterator<Item = &[NamedKernel]> {
    rows.chunk_by(|a, b| Arc::ptr_eq(&a.code, &b.code))
}

/// The disassembler of LLVM or of NVIDIA.
#[derive(Clone, Copy)]
enum Disassembler {
    Objdump,
    Nvdisasm,
}

impl Disassembler {
    /// Returns the disassembler for a code object: NVIDIA's tool for machine code of NVIDIA, LLVM's for all other code.
    fn for_code(code: &[u8]) -> Self {
        match ContentKind::identify(code) {
            ContentKind::Cubin => Self::Nvdisasm,
            _ => Self::Objdump,
        }
    }

    /// Returns the names of kernels for each run of the program. NVIDIA's tool selects functions only by number, so it
    /// runs once, without names, and prints the whole code object.
    fn names_by_run(self, rows: &[NamedKernel]) -> anyhow::Result<Vec<Vec<&str>>> {
        if matches!(self, Self::Nvdisasm) {
            return Ok(vec![Vec::new()]);
        }
        let (mut runs, mut run, mut run_len) = (Vec::new(), Vec::new(), 0);
        for row in rows {
            let name = selectable_name(row)?;
            let len_with_comma = name.len() + 1;
            if !run.is_empty() && run_len + len_with_comma > NAMES_MAX {
                runs.push(std::mem::take(&mut run));
                run_len = 0;
            }
            run_len += len_with_comma;
            run.push(name);
        }
        runs.push(run);
        Ok(runs)
    }

    /// Returns the arguments before the file.
    fn arguments(self, names: &[&str]) -> Vec<String> {
        match self {
            // `-c` prints only sections with code.
            Self::Nvdisasm => vec!["-c".to_owned()],
            Self::Objdump => vec!["-d".to_owned(), format!("--disassemble-symbols={}", names.join(","))],
        }
    }

    /// Returns the command line for people. It has only the first of many names; the output after it has all of them.
    fn shown_command(self, program: &Path, names: &[&str]) -> String {
        let (shown, others) = names.split_at_checked(SHOWN_NAMES_MAX).unwrap_or((names, &[]));
        let mut words = vec![program.to_string_lossy().into_owned()];
        words.extend(self.arguments(shown));
        if !others.is_empty() {
            words.push(format!("and {}", count(others.len(), "more kernel", "more kernels")));
        }
        words.join(" ")
    }

    /// Runs the installed programs until one succeeds: each may be too old for the code. Returns the program and its
    /// output.
    fn run(self, names: &[&str], code: &[u8]) -> anyhow::Result<(&'static Path, Output)> {
        static OBJDUMPS: LazyLock<Vec<PathBuf>> = LazyLock::new(objdumps);
        static NVDISASMS: LazyLock<Vec<PathBuf>> =
            LazyLock::new(|| find_programs(&["nvdisasm".to_owned()], ("CUDA_HOME", "/usr/local/cuda"), "bin"));
        let (programs, not_found) = match self {
            Self::Objdump => {
                (&OBJDUMPS, "llvm-objdump was not found; it is in the package llvm (Debian), or rocm-llvm (ROCm)")
            }
            Self::Nvdisasm => {
                (&NVDISASMS, "nvdisasm was not found; it is in the package cuda-nvdisasm of the CUDA toolkit")
            }
        };
        let mut failures = Vec::new();
        for program in &**programs {
            match self.run_one(program, names, code) {
                Ok(output) => return Ok((program, output)),
                Err(error) => failures.push(format!("{error:#}")),
            }
        }
        Err(if failures.is_empty() { anyhow!(not_found) } else { anyhow!(failures.join("; ")) })
    }

    /// Returns the output of a disassembler for the kernels `names` of a code object. Where possible, the disassembler
    /// reads the code object as its standard input, from a file without a name. Such a file disappears even if both
    /// programs are killed.
    fn run_one(self, program: &Path, names: &[&str], code: &[u8]) -> anyhow::Result<Output> {
        let mut command = Command::new(program);
        command.args(self.arguments(names)).stdin(Stdio::null());
        // The argument that means the standard input, or `None` if the program reads only files with a name.
        let standard_input = match self {
            Self::Objdump => Some("-"),
            Self::Nvdisasm => sys::STANDARD_INPUT,
        };
        let on_failure = "cannot write a code object for the disassembler";
        // A file with a name, which only Windows needs, is removed when it is dropped, after the program has ended.
        let _named_file = match standard_input {
            Some(name) => {
                let mut file = tempfile::tempfile().context(on_failure)?;
                file.write_all(code).context(on_failure)?;
                file.rewind().context(on_failure)?;
                command.arg(name).stdin(file);
                None
            }
            None => {
                let mut file = tempfile::NamedTempFile::new().context(on_failure)?;
                file.write_all(code).context(on_failure)?;
                command.arg(file.path());
                Some(file.into_temp_path())
            }
        };
        let output = command.output().with_context(|| format!("cannot run '{}'", program.display()))?;
        if !output.status.success() {
            let errors = String::from_utf8_lossy(&output.stderr);
            bail!("'{}' failed, with {}: {}", program.display(), output.status, errors.trim());
        }
        let printed = String::from_utf8_lossy(&output.stdout);
        // llvm-objdump also succeeds if it finds none of the names. The line before the instructions of a kernel has
        // its name: `0000000000001000 <name>:`.
        let labels = printed.lines().filter_map(|line| line.strip_suffix(">:")?.split_once(" <"));
        let labels: HashSet<&str> = labels.map(|(_, name)| name).collect();
        if let Some(missing) = names.iter().find(|name| !labels.contains(*name)) {
            bail!("'{}' printed no instructions of '{}'", program.display(), missing);
        }
        Ok(output)
    }
}

/// Returns the name of a kernel as an argument of `llvm-objdump`, which cannot select every name.
fn selectable_name(row: &NamedKernel) -> anyhow::Result<&str> {
    let Ok(name) = str::from_utf8(&row.kernel.name) else { return Err(not_selectable(row, "is not UTF-8")) };
    for (character, reason) in UNSELECTABLE {
        if name.contains(character) {
            return Err(not_selectable(row, reason));
        }
    }
    Ok(name)
}

fn not_selectable(row: &NamedKernel, reason: &str) -> anyhow::Error {
    let name = printable_name(&row.kernel.name);
    anyhow!("llvm-objdump cannot select '{name}': its name {reason}; choose kernels without it")
}

/// Returns LLVM's disassemblers, the newest first: an old one does not know new GPUs.
fn objdumps() -> Vec<PathBuf> {
    let names: Vec<String> =
        (10..100).rev().map(|version| format!("llvm-objdump-{version}")).chain(["llvm-objdump".to_owned()]).collect();
    let mut programs = find_programs(&names, ("ROCM_PATH", "/opt/rocm"), "llvm/bin");
    // A single program is not asked for its version, which takes time.
    if programs.len() > 1 {
        programs.sort_by_cached_key(|program| std::cmp::Reverse(version(program)));
    }
    programs
}

/// Returns the version of LLVM in the name of a program, or else in its output, or 0 if neither has one.
fn version(program: &Path) -> u32 {
    let stem = program.file_stem().unwrap_or_default().to_string_lossy();
    if let Some(number) = stem.rsplit('-').next()
        && let Ok(version) = number.parse()
    {
        return version;
    }
    printed_version(program).unwrap_or(0)
}

/// Returns the version of LLVM that a program prints, or `None` if it cannot be run or prints no version.
fn printed_version(program: &Path) -> Option<u32> {
    let output = Command::new(program).arg("--version").stdin(Stdio::null()).output().ok()?;
    let printed = String::from_utf8_lossy(&output.stdout);
    printed.split_once("version ")?.1.split(|digit: char| !digit.is_ascii_digit()).next()?.parse().ok()
}

/// Finds the programs with these names in the `PATH`. Also looks for the last name, which has no version, in a `folder`
/// of ROCm or CUDA. Their directory is in an environment variable, or is the default. Returns each program once, even
/// if directories and programs are links to others.
fn find_programs(names: &[String], (variable, default): (&str, &str), folder: &str) -> Vec<PathBuf> {
    let directory = match env::var_os(variable) {
        Some(directory) if !directory.is_empty() => directory,
        _ => default.into(),
    };
    let mut candidates = Vec::new();
    for name in names {
        candidates.extend(program::in_path(name));
    }
    if let Some(name) = names.last() {
        candidates.extend(program::executable_in(&Path::new(&directory).join(folder), name));
    }
    let mut known = HashSet::new();
    candidates.retain(|path| known.insert(fs::canonicalize(path).unwrap_or_else(|_| path.clone())));
    candidates
}

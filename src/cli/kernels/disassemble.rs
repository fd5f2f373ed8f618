//! `kernels --disassemble`: runs the disassembler of LLVM or NVIDIA on the code objects that define kernels.

use std::env;
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use anyhow::{Context as _, bail, ensure};
use offload_bundle::display::printable;
use offload_bundle::io::Input;
use offload_bundle::scan::{CodeObject, ContentKind, Scan};

use super::row::Row;

/// The number of code objects of a file that are disassembled. More are an error: nobody reads them.
const CODE_OBJECTS_MAX: usize = 100;

/// The bytes of the code objects of some kernels, in their order.
pub(super) type Contents = Vec<Vec<u8>>;

/// Reads the code objects of kernels, while their file is open.
pub(super) fn contents(rows: &[Row], scan: &Scan, input: &Input) -> offload_bundle::Result<Contents> {
    let wanted: Vec<&CodeObject> =
        by_code_object(rows).filter_map(|rows| Some(&*rows.first()?.code_object)).take(CODE_OBJECTS_MAX).collect();
    let (mut contents, mut failed) = (vec![Vec::new(); wanted.len()], None);
    scan.read(input, &wanted, |_, code| Ok(code.bytes().to_vec()), |code| code.len() / 256, &mut |read| {
        for (index, code) in read {
            match (code, contents.get_mut(index)) {
                (Ok(code), Some(content)) => *content = code,
                (Err(error), _) => failed = failed.take().or(Some(error)),
                (Ok(_), None) => {}
            }
        }
        std::ops::ControlFlow::Continue(())
    })?;
    failed.map_or(Ok(contents), Err)
}

/// Writes the instructions of kernels, after a line that says how they were disassembled.
pub(super) fn write(rows: &[Row], contents: &Contents, out: &mut dyn Write) -> anyhow::Result<()> {
    let count = by_code_object(rows).count();
    ensure!(
        count <= CODE_OBJECTS_MAX,
        "{count} code objects define such a kernel, at most {CODE_OBJECTS_MAX} are disassembled; choose with --target"
    );
    for (rows, code) in by_code_object(rows).zip(contents) {
        let Some(first) = rows.first() else { continue };
        let disassembler = Disassembler::of(code);
        let program = disassembler.program()?;
        let arguments = disassembler.arguments(rows)?;
        let shown: Vec<String> = arguments.iter().map(|argument| printable(&argument.to_string_lossy())).collect();
        let place = &first.code_object.bundle.place;
        writeln!(out, "# {place}, {}: {} {}", first.gpu, printable(&program.to_string_lossy()), shown.join(" "))?;
        out.write_all(&run(&program, &arguments, code)?)?;
    }
    Ok(())
}

fn by_code_object(rows: &[Row]) -> impl Iterator<Item = &[Row]> {
    rows.chunk_by(|a, b| Arc::ptr_eq(&a.code_object, &b.code_object))
}

/// What a disassembler prints for a code object, which it reads from a temporary file.
fn run(program: &Path, arguments: &[OsString], code: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut file = tempfile::NamedTempFile::new().context("cannot write a code object for the disassembler")?;
    file.write_all(code).context("cannot write a code object for the disassembler")?;
    let output = Command::new(program).args(arguments).arg(file.path()).output();
    let output = output.with_context(|| format!("cannot run '{}'", program.display()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("'{}' failed, with {}: {}", program.display(), output.status, printable(said.trim()));
    }
    Ok(output.stdout)
}

/// A program that disassembles code objects, by their kind.
#[derive(Clone, Copy)]
enum Disassembler {
    /// That of LLVM.
    Objdump,
    /// That of NVIDIA.
    Nvdisasm,
}

impl Disassembler {
    fn of(code: &[u8]) -> Self {
        match ContentKind::of(code) {
            ContentKind::Cubin => Self::Nvdisasm,
            _ => Self::Objdump,
        }
    }

    /// The program that is found first.
    fn program(self) -> anyhow::Result<PathBuf> {
        let paths = env::var_os("PATH").unwrap_or_default();
        let in_path = |name: &str| {
            // An empty entry means the current directory, whose files nobody asked to run.
            let directories = env::split_paths(&paths).filter(|directory| directory.is_absolute());
            directories.map(|directory| directory.join(name)).find(|path| path.is_file())
        };
        let found = match self {
            Self::Objdump => {
                let versions = (15..=30).rev().map(|version| format!("llvm-objdump-{version}"));
                let named = ["llvm-objdump".to_owned()].into_iter().chain(versions).find_map(|name| in_path(&name));
                named.or_else(|| installed("ROCM_PATH", "/opt/rocm", "llvm/bin/llvm-objdump"))
            }
            Self::Nvdisasm => in_path("nvdisasm").or_else(|| installed("CUDA_HOME", "/usr/local/cuda", "bin/nvdisasm")),
        };
        found.with_context(|| match self {
            Self::Objdump => "llvm-objdump was not found; it is in the package llvm (Debian), or rocm-llvm (ROCm)",
            Self::Nvdisasm => "nvdisasm was not found; it is in the package cuda-nvdisasm of the CUDA toolkit",
        })
    }

    /// The arguments before the file. NVIDIA's tool chooses functions by numbers only, so that it prints all of the code object.
    fn arguments(self, rows: &[Row]) -> anyhow::Result<Vec<OsString>> {
        match self {
            Self::Nvdisasm => Ok(vec!["-c".into()]),
            Self::Objdump => {
                let names = rows.iter().map(|row| str::from_utf8(&row.kernel.name));
                let names: Result<Vec<&str>, _> = names.collect();
                let names = names.context("the name of a kernel is not UTF-8")?;
                Ok(vec!["-d".into(), format!("--disassemble-symbols={}", names.join(",")).into()])
            }
        }
    }
}

/// A program in the directory that a variable names, or in the usual one.
fn installed(variable: &str, usual: &str, program: &str) -> Option<PathBuf> {
    let directory = env::var_os(variable).filter(|directory| !directory.is_empty()).unwrap_or_else(|| usual.into());
    Some(Path::new(&directory).join(program)).filter(|path| path.is_file())
}

//! Inputs of the rows: files in a separate directory, made before the first row that needs them.

use std::fs::{self, File};
use std::io::{BufWriter, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use object::{Object as _, ObjectSection as _};
use offload_bundle::container::{
    binary::Binary,
    sequence::{Bundles, Inflate},
};
use offload_bundle::io::{Input, Slice};

use crate::generate::{NEW_PERCENT, Random, code_object, sibling};
use crate::process;
use crate::rows::{all_ids, bundle, bundle_as, entry_id};
use crate::run::Tools;

/// The ID of the host's entry.
pub const HOST: &str = "host-x86_64-unknown-linux-gnu-";
/// The GPUs of rocSPARSE's and rocRAND's code objects, in their order.
pub const GPUS: [&str; 7] =
    ["gfx1030", "gfx803", "gfx900:xnack-", "gfx906:xnack-", "gfx908:xnack-", "gfx90a:xnack+", "gfx90a:xnack-"];
/// The total size of the code objects of the large rows, in bytes.
pub const LARGE: usize = 1_288_000_000;
/// The directory in which Debian installs libraries.
const LIBRARIES: &str = "/usr/lib/x86_64-linux-gnu";
const MAGIC: &[u8] = b"__CLANG_OFFLOAD_BUNDLE__";

/// The input of a row.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Data {
    /// `image.0`, `image.1`: code of 16 KiB.
    Images,
    /// `plain`: a 12 MB bundle for seven GPUs, of rocRAND's code objects if librocrand1 is installed.
    FatBinary,
    /// `host.o`, `image.0`, `image.1`, and `fat.o` of these.
    FatObject,
    /// `image`, and `bundle` with it as the content of `count` entries.
    Entries { count: usize },
    /// `archive.a`: bundles of a host and four GPUs.
    Archive { members: usize, bytes: usize },
    /// `gpu.0` to `gpu.6`, generated; `plain`, a bundle of them; the same compressed by LLVM and by us.
    Objects { bytes: usize },
    /// A library with the code objects of rocSPARSE.
    Rocsparse,
}

/// The file with a GPU's code object.
pub fn gpu_file(index: usize) -> String {
    format!("gpu.{index}")
}

/// Entry IDs that are unbundled from archives.
pub fn archive_targets() -> [String; 4] {
    ["gfx906", "gfx908", "gfx90a", "gfx1030"].map(|gpu| format!("hip-amdgcn-amd-amdhsa--{gpu}"))
}

impl Data {
    /// Makes the files in `dir`.
    pub fn prepare(self, dir: &Path, tools: &Tools) -> Result<()> {
        match self {
            Self::Images => write_images(dir, 16 << 10)?,
            Self::FatBinary => fat_binary(dir, tools)?,
            Self::FatObject => fat_object(dir, tools)?,
            Self::Entries { count } => {
                fs::write(dir.join("image"), code_object(&mut Random::new(1), 4096))?;
                let ids: Vec<String> = (0..count).map(entry_id).collect();
                tools.ours(&bundle_as("bc", &ids, &vec!["image".to_owned(); count], "bundle"), dir)?;
            }
            Self::Archive { members, bytes } => archive(&dir.join("archive.a"), members, bytes)?,
            Self::Objects { bytes } => {
                write_siblings(dir, bytes / GPUS.len())?;
                bundles(dir, tools)?;
            }
            Self::Rocsparse => {
                rocsparse(dir)?;
                bundles(dir, tools)?;
            }
        }
        // Writes that the disk has not finished would slow the first runs down.
        Command::new("sync").status()?;
        Ok(())
    }
}

fn write_images(dir: &Path, len: usize) -> Result<()> {
    let mut random = Random::new(1);
    let first = code_object(&mut random, len);
    fs::write(dir.join("image.1"), sibling(&mut random, &first, 60, len))?;
    Ok(fs::write(dir.join("image.0"), first)?)
}

/// Code objects for seven GPUs, each like the one before it.
fn write_siblings(dir: &Path, len: usize) -> Result<()> {
    let mut random = Random::new(1);
    let mut code = Vec::new();
    for (index, new_percent) in NEW_PERCENT.into_iter().enumerate() {
        code = sibling(&mut random, &code, new_percent, len);
        fs::write(dir.join(gpu_file(index)), &code)?;
    }
    Ok(())
}

/// The command line that bundles all GPUs' code objects for the driver.
fn bundle_of_all(output: &str) -> Vec<String> {
    let inputs: Vec<String> = std::iter::once("/dev/null".to_owned()).chain((0..GPUS.len()).map(gpu_file)).collect();
    let mut arguments = bundle(&all_ids(), &inputs, output);
    arguments.push("-bundle-align=4096".to_owned());
    arguments
}

/// Writes the bundles of all GPUs' code objects: `plain`, `ours.ccob` and `llvm.ccob`. Also writes `llvm.zst`, the zstd
/// frame in `llvm.ccob`, which the program `zstd` can read.
fn bundles(dir: &Path, tools: &Tools) -> Result<()> {
    let compressed = |output| [bundle_of_all(output), vec!["-compress".to_owned()]].concat();
    tools.ours(&bundle_of_all("plain"), dir)?;
    tools.ours(&compressed("ours.ccob"), dir)?;
    tools.theirs_or_ours(&compressed("llvm.ccob"), dir)?;
    let mut file = File::open(dir.join("llvm.ccob"))?;
    let mut head = [0; 64];
    file.read_exact(&mut head)?;
    let start = head.windows(4).position(|four| four == b"\x28\xb5\x2f\xfd").context("llvm.ccob: no zstd frame")?;
    file.seek(SeekFrom::Start(start as u64))?;
    std::io::copy(&mut file, &mut File::create(dir.join("llvm.zst"))?)?;
    Ok(())
}

/// Writes `plain`, a bundle of rocRAND's code objects or, without that library, of generated ones of the same size.
fn fat_binary(dir: &Path, tools: &Tools) -> Result<()> {
    let library = Path::new(LIBRARIES).join("librocrand.so.1");
    if library.exists() {
        // The code objects are bundled anew: LLVM 22 unbundles nothing from the library's own bundle, because its ID
        // for the host has no environment.
        write_objects_of(&library, dir)?;
    } else {
        write_siblings(dir, 1_760_000)?;
    }
    tools.ours(&bundle_of_all("plain"), dir)
}

/// Writes `host.o`, compiled with as many sections as a usual source file gives, and `fat.o`.
fn fat_object(dir: &Path, tools: &Tools) -> Result<()> {
    write_images(dir, 64 << 10)?;
    let functions = (0..200).map(|n| format!("int f{n}(int x) {{ return x * {n} + {n}; }}\n")).collect::<String>();
    fs::write(dir.join("host.c"), functions)?;
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let status =
        Command::new(compiler).args(["-O2", "-ffunction-sections", "-c", "host.c"]).current_dir(dir).status()?;
    ensure!(status.success(), "the C compiler failed");
    let ids = [HOST, "hip-amdgcn-amd-amdhsa--gfx906", "hip-amdgcn-amd-amdhsa--gfx90a"].map(str::to_owned);
    tools.ours(&bundle(&ids, &["host.o", "image.0", "image.1"].map(str::to_owned), "fat.o"), dir)
}

/// Writes an archive of about `bytes` bytes. Each member is a bundle of a small host and code for four GPUs, and no two
/// members are equal.
fn archive(path: &Path, members: usize, bytes: usize) -> Result<()> {
    let mut random = Random::new(1);
    let len = bytes / members / archive_targets().len() - (1 << 10);
    let name = |index: usize| format!("kernel{index}.o").into_bytes();
    let mut builder = ar::GnuBuilder::new(BufWriter::new(File::create(path)?), (0..members).map(name).collect());
    let host = code_object(&mut random, 2 << 10);
    for index in 0..members {
        let mut entries = vec![(HOST.to_owned(), host.clone())];
        for target in archive_targets() {
            let before = &entries.last().unwrap().1;
            let code = sibling(&mut random, before, 60, len);
            entries.push((target, code));
        }
        let member = plain_bundle(&entries);
        builder.append(&ar::Header::new(name(index), member.len() as u64), &member[..])?;
    }
    Ok(builder.into_inner()?.flush()?)
}

/// Returns a binary bundle without alignment.
fn plain_bundle(entries: &[(String, Vec<u8>)]) -> Vec<u8> {
    let header = MAGIC.len() + 8 + entries.iter().map(|(id, _)| 24 + id.len()).sum::<usize>();
    let mut bundle = MAGIC.to_vec();
    bundle.extend_from_slice(&(entries.len() as u64).to_le_bytes());
    let mut offset = header;
    for (id, code) in entries {
        for number in [offset, code.len(), id.len()] {
            bundle.extend_from_slice(&(number as u64).to_le_bytes());
        }
        bundle.extend_from_slice(id.as_bytes());
        offset += code.len();
    }
    entries.iter().for_each(|(_, code)| bundle.extend_from_slice(code));
    bundle
}

/// Writes rocSPARSE's code objects, and removes the library again if it was downloaded.
fn rocsparse(dir: &Path) -> Result<()> {
    let (library, unpacked) = rocsparse_library(dir)?;
    write_objects_of(&library, dir)?;
    unpacked.map_or(Ok(()), |unpacked| Ok(fs::remove_dir_all(unpacked)?))
}

/// Writes the code objects of a HIP library: a file for each GPU, with the code objects of all bundles one after
/// another.
fn write_objects_of(library: &Path, dir: &Path) -> Result<()> {
    let library = Input::read(library)?;
    let section = hip_fatbin(&library)?;
    let mut files = GPUS.iter().enumerate().map(|(index, gpu)| Ok((*gpu, File::create(dir.join(gpu_file(index)))?)));
    let mut files = files.by_ref().collect::<Result<Vec<_>>>()?;
    for found in Bundles::new(section, &Binary::default(), Inflate::AsNeeded) {
        let found = found?;
        let bytes = &section.bytes()[usize::try_from(found.offset - section.offset())?..];
        for entry in &found.entries {
            let (_, gpu) = std::str::from_utf8(&entry.id)?.split_once("--").unwrap_or_default();
            if let Some((_, file)) = files.iter_mut().find(|(name, _)| *name == gpu) {
                file.write_all(&entry.content(bytes).context("an entry cannot be read")?)?;
            }
        }
    }
    Ok(())
}

/// Returns the path of librocsparse.so.0. If the library is not installed, downloads it, and also returns the directory
/// to remove when it has been read.
fn rocsparse_library(dir: &Path) -> Result<(PathBuf, Option<PathBuf>)> {
    let installed = Path::new(LIBRARIES).join("librocsparse.so.0");
    if installed.exists() {
        return Ok((installed, None));
    }
    let unpacked = dir.join("librocsparse0");
    fs::create_dir(&unpacked)?;
    let script = "apt-get download -qq librocsparse0 && dpkg-deb -x librocsparse0_*.deb . && rm librocsparse0_*.deb";
    let status = Command::new(process::find("sh").context("no shell")?)
        .args(["-c", script])
        .current_dir(&unpacked)
        .stdout(std::io::stderr())
        .status()?;
    ensure!(status.success(), "librocsparse0 cannot be downloaded; `apt-get update` may help");
    let library = unpacked.join(LIBRARIES.trim_start_matches('/')).join("librocsparse.so.0");
    Ok((library, Some(unpacked)))
}

/// Returns the section of a HIP library that holds its code objects.
fn hip_fatbin(library: &Input) -> Result<Slice<'_>> {
    let file = object::File::parse(library.bytes())?;
    let (offset, len) =
        file.section_by_name(".hip_fatbin").and_then(|it| it.file_range()).context("no section .hip_fatbin")?;
    library.slice(offset, len).context("the file ends in .hip_fatbin")
}

//! `recompress`: makes bundles smaller, in a file of their own, inside a library, or in a wheel.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::beyond::codec::Codec;
use crate::beyond::job::{
    HoleReason, KernelNames, LocalVersion, MissedCode, Recompress, Recompressed, RecompressedZip, RemovedCode,
};
use crate::llvm::container::stream::{Compression, Method};
use anyhow::{bail, ensure};
use clap::{Parser, ValueEnum};

use super::files::SizeOption;
use super::gpus::Gpus;
use super::patterns::{self, ExactOption, Patterns};
use super::print::units::{bytes, count};
use super::subcommand::{Options, heading};
use crate::llvm::cli::print::console::Console;

/// The compression method.
const METHOD: Method = Method::Zstd;

/// The heading of the options about compression in the help.
const COMPRESSION: &str = "Compression options";

const PATTERNS: &str =
    "As in `extract`, the patterns are target IDs or bundle entry IDs, with wildcards * ? [...], in a comma list.";
const KEEP: &str = "Keep only host code, PTX, and code that matches any of the patterns";
const DROP: &str = "Drop code that matches any of the patterns";

/// Make bundles smaller: compress them, and drop GPUs
#[derive(Clone, Debug, Parser)]
pub(super) struct RecompressOptions {
    /// File to read.
    file: PathBuf,
    /// File to write, or directory for the same name; - is standard output.
    #[arg(
        short,
        long,
        value_name = "OUT",
        long_help = "File to write, which may be the input, or another directory for a file of the same name; - writes to standard output."
    )]
    output: PathBuf,
    /// Add a local version to a wheel: gfx942 makes 1.0 into 1.0+gfx942.
    #[arg(
        long, value_name = "LABEL", value_parser = parse_local_version,
        long_help = "Add a local version to a wheel, so that an index and pip can tell it from the old one: gfx942 makes 1.0 into 1.0+gfx942, and \
            1.0+rocm6.4 into 1.0+rocm6.4.gfx942. The file name, METADATA, RECORD and the directories NAME-VERSION.dist-info and \
            NAME-VERSION.data change. OUT is a directory, or has the new file name. A label has letters and digits, in parts with dots \
            between them. PyPI takes no local versions; other indexes do."
    )]
    local_version: Option<LocalVersion>,
    /// zstd compression level (default: 3); LZ4 in CUDA fatbins has none.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = parse_level, help_heading = COMPRESSION)]
    level: Option<i32>,
    /// Compression in CUDA fatbins: lz4, or zstd for CUDA 12.4 and later.
    #[arg(
        long, value_name = "METHOD", help_heading = COMPRESSION, hide_possible_values = true,
        long_help = "Compression of code in CUDA fatbins: lz4, which drivers before CUDA 12.4 read too, or zstd, which needs the \
            driver of CUDA 12.4 or later (default: zstd for a fatbin with any zstd entry, else lz4)."
    )]
    cuda_method: Option<CudaMethod>,
    /// Write plain bundles, and plain cubins in CUDA fatbins.
    #[arg(
        help_heading = COMPRESSION,
        long, conflicts_with_all = ["level", "cuda_method"],
        long_help = "Write plain bundles, and plain cubins in CUDA fatbins, whose PTX stays as it is. This undoes an earlier \
            `recompress` of plain bundles that dropped nothing: an ELF or PE file that no other tool has changed since is restored byte \
            for byte, and so is a file of bundles that are aligned as compilers align them, to a power of two up to 4096."
    )]
    none: bool,
    /// Shorten a library by the saved space; do not strip or patch it later.
    #[arg(
        long,
        long_help = "Shorten a library by the saved space, which is otherwise a hole in the file. Do not run strip, objcopy or \
            patchelf on it afterwards: after some sequences of them, it does not load. Libraries in wheels and other zip files always \
            become shorter, and a library that is shorter already stays so."
    )]
    close_gaps: bool,
    /// Remove the signature from PE files, which are an error otherwise.
    #[arg(
        long,
        long_help = "Remove the signature from PE files that are rewritten; otherwise a signed PE file is an error."
    )]
    drop_signature: bool,
    #[command(flatten)]
    size: SizeOption,
    #[arg(
        help_heading = heading::SELECTION,
        long, value_name = "PATTERN", value_delimiter = ',', value_parser = patterns::parse, help = KEEP,
        long_help = format!("{KEEP}. {PATTERNS}"),
    )]
    keep: Option<Vec<Patterns>>,
    /// Keep only host code, and code that runtimes load on any of these GPUs.
    #[arg(
        help_heading = heading::SELECTION,
        long, value_name = "GPUS", value_parser = Gpus::parse, conflicts_with = "keep",
        long_help = "Keep only host code, and code that runtimes load on any of these GPUs (sm_89, RTX 4090, native), or on the GPUs of a \
             list in a file. Of each bundle, an AMD GPU loads code for its processor with compatible features, or else code for its generic \
             target, or else SPIR-V; an NVIDIA GPU, the latest machine code for it or for an earlier version with the same major \
             number, or else the latest PTX for it or for an earlier version; an Intel GPU, code for it or for a GPU that Intel lists as \
             compatible, or else SPIR-V. Kept too are LTO-IR beside such code, code for an unknown \
             target, and, where a linker chooses, all code that a GPU could take: in offload binaries, fat objects, bundles of bitcode \
             and relocatable CUDA code. The GPUs are served as before, and there must be code for each. The \
             names are those of `verify --expect`, but mean GPUs: sm_90a is the GPU sm_90, and gfx11-generic means all processors of \
             this target."
    )]
    keep_for: Option<Gpus>,
    /// Keep only code objects with the kernels of a list, one in each line.
    #[arg(
        help_heading = heading::SELECTION,
        long, value_name = "FILE", value_parser = read_kernel_names,
        long_help = "Keep only host code and code objects that define a kernel or a global variable of the list in FILE, PTX too: a name in \
            each line, mangled or not, as profilers and `kernels` print them. A name may have the wildcards * ? and [...], unless it ends with a parenthesis or equals that of a kernel, and must \
            match the whole name; white space and .kd at the end are ignored, and so are lines that begin with #. \
            Code objects without kernels, or whose kernels are not known (SPIR-V, bitcode, AMD's code object version 2), are \
            kept. A program fails when it launches a kernel that was left out, or copies to a variable of one (cudaMemcpyToSymbol). Each name must match a kernel or variable that the other options keep."
    )]
    keep_kernels: Option<KernelNames>,
    /// With --keep-kernels, allow names that no code object defines.
    #[arg(long, requires = "keep_kernels", help_heading = heading::SELECTION)]
    allow_unused: bool,
    #[arg(
        help_heading = heading::SELECTION,
        long, value_name = "PATTERN", value_delimiter = ',', value_parser = patterns::parse, help = DROP,
        long_help = format!("{DROP}. {PATTERNS}"),
    )]
    drop: Option<Vec<Patterns>>,
    #[command(flatten)]
    comparison: ExactOption,
}

/// The compression of code in CUDA fatbins.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum CudaMethod {
    Lz4,
    Zstd,
}

impl Options for RecompressOptions {
    fn run(&self, console: &mut Console) -> anyhow::Result<ExitCode> {
        let recompress = self.job();
        Gpus::warn_of_unknown(&recompress.keep_for, console);
        let result = recompress.run(&mut |event| console.event_of_job(event))?;
        console.line(&summary(&result));
        if let Some(wheel) = &result.wheel {
            console.line(&format!("the new wheel is {}", wheel.display()));
        }
        if self.keep_kernels.is_some() {
            for line in removed_lines(&result.removed) {
                console.line(&line);
            }
        }
        for note in self.notes(&result) {
            console.line(&note);
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl RecompressOptions {
    /// Returns the job that the options ask for.
    fn job(&self) -> Recompress {
        let mut recompress = Recompress::new(&self.file, &self.output);
        recompress.compression = self.compression();
        recompress.keep = self.keep.as_deref().map(|patterns| self.comparison.selection(patterns));
        recompress.keep_for = self.keep_for.iter().flat_map(|Gpus(gpus)| gpus).cloned().collect();
        recompress.keep_kernels.clone_from(&self.keep_kernels);
        if let Some(names) = &mut recompress.keep_kernels {
            names.allow_unused = self.allow_unused;
        }
        recompress.drop = self.drop.as_deref().map(|patterns| self.comparison.selection(patterns));
        recompress.fatbin_codec = self.cuda_method.map(|method| match method {
            CudaMethod::Lz4 => Codec::Lz4,
            CudaMethod::Zstd => Codec::Zstd,
        });
        recompress.local_version.clone_from(&self.local_version);
        recompress.close_gaps = self.close_gaps;
        recompress.drop_signature = self.drop_signature;
        recompress.limits = self.size.limits();
        recompress
    }

    /// Returns the notes about the new file, one a line.
    fn notes(&self, result: &Recompressed) -> Vec<String> {
        let mut notes = Vec::new();
        if result.unlaunched > 0 {
            let bundles = count(result.unlaunched, "HIP bundle has", "HIP bundles have");
            let reason = "where the runtime loads all bundles at the start, the program fails there";
            notes.push(format!("note: {bundles} no code left for some GPU: {reason}"));
        }
        // Code that was left out although a GPU, which `--keep` names, would have used it.
        notes.extend(result.missed.iter().map(missed_note));
        // Code that stays although its GPU was left out.
        notes.extend(result.elsewhere.iter().map(|code| format!("note: {code}")));
        if !result.left.is_empty() {
            notes.push(remaining_note(&result.left));
        }
        // With --none, nobody expects compression.
        if result.uncompressed > 0 && self.compression().is_some() {
            let binaries = count(result.uncompressed, "offload binary stays", "offload binaries stay");
            notes.push(format!("note: {binaries} plain: recompress does not compress offload binaries"));
        }
        if result.packed > 0 {
            let needs = "compressed bundles need the HIP runtime of ROCm 6.2 or newer; Debian 12's is older";
            notes.push(format!("note: {needs}"));
        }
        notes.extend(hole_notes(result));
        // If the file itself became shorter, the summary names no hole.
        if result.holes > 0 && (result.shortened == 0 || result.zip.is_some()) {
            let filled = "copies by pip, unzip, dpkg, git or container images fill the hole with zeros";
            notes.push(format!("note: {filled}"));
        }
        notes
    }

    /// Returns the compression of bundles, or `None` if bundles are to be written plain (`--none`).
    fn compression(&self) -> Option<Compression> {
        if self.none {
            return None;
        }
        let mut compression = Compression::with_method(METHOD);
        compression.level = self.level.unwrap_or(compression.level);
        Some(compression)
    }
}

/// Parses the value of `--level`.
fn parse_level(text: &str) -> anyhow::Result<i32> {
    let (levels, level) = (METHOD.levels(), text.parse()?);
    let (least, most) = (levels.start(), levels.end());
    ensure!(levels.contains(&level), "it must be from {least} to {most} for {}, not {level}", METHOD.name());
    Ok(level)
}

/// Parses the value of `--local-version`.
fn parse_local_version(text: &str) -> anyhow::Result<LocalVersion> {
    match LocalVersion::new(text) {
        Some(label) => Ok(label),
        None => bail!(
            "a local version has letters and digits, in parts with dots between them, such as gfx942 or cu126.sm90"
        ),
    }
}

/// Reads the value of `--keep-kernels`.
fn read_kernel_names(path: &str) -> anyhow::Result<KernelNames> {
    let names = KernelNames::parse(&fs::read_to_string(path)?, patterns::demangled);
    ensure!(!names.names().is_empty(), "it names no kernel");
    Ok(names)
}

/// Returns a line for each target whose code objects were left out, and a line with the number of further targets.
fn removed_lines(removed: &BTreeMap<String, RemovedCode>) -> Vec<String> {
    const LINES_MAX: usize = 40;
    let mut lines = Vec::new();
    for (target, code) in removed.iter().take(LINES_MAX) {
        let code_objects = count(code.code_objects, "code object", "code objects");
        lines.push(format!("{target}: {code_objects} of {} left out", bytes(code.size)));
    }
    let more = removed.len() - lines.len();
    if more > 0 {
        lines.push(format!("and code for {more} more targets"));
    }
    lines
}

/// Returns the note about code that stays in the file, although its GPUs were left out. `remaining` has this code by
/// the kind of data that holds it, such as "Intel's SYCL images".
fn remaining_note(remaining: &BTreeMap<String, RemovedCode>) -> String {
    let code_objects = count(remaining.values().map(|code| code.code_objects).sum(), "code object", "code objects");
    let size = bytes(remaining.values().map(|code| code.size).fold(0, u64::saturating_add));
    let holders: Vec<&str> = remaining.keys().map(String::as_str).collect();
    format!(
        "note: the file still has {code_objects} of {size} for targets that were left out: recompress does not change {}",
        holders.join(", ")
    )
}

/// The largest number of places that a note names.
const PLACES_MAX: usize = 3;

/// Returns the first of some places, and the number of the others, as the end of a sentence.
fn first_places<'p>(places: impl IntoIterator<Item = &'p str>) -> String {
    let mut places = places.into_iter();
    let mut first: Vec<String> = places.by_ref().take(PLACES_MAX).map(str::to_owned).collect();
    let more = places.count();
    if more > 0 {
        first.push(format!("{more} more"));
    }
    first.join(", ")
}

/// Returns the notes about holes: ranges of zeros that take no space on disk, where a linked file had code. Each reason
/// why holes stay has a line, and so has each reason why a file was not written. A last line names files that an
/// earlier job made shorter, and that get their old length back only if no other tool has rewritten them.
fn hole_notes(result: &Recompressed) -> Vec<String> {
    let mut lines = Vec::new();
    // `holes_left` are the holes in files that were written. The files in `stayed` were not written: they would have got
    // a hole, and would not have become shorter.
    for (holes, is_written) in [(&result.holes_left, true), (&result.stayed, false)] {
        let mut by_reason: BTreeMap<HoleReason, (u64, Vec<&str>)> = BTreeMap::new();
        for hole in holes {
            let (size, places) = by_reason.entry(hole.reason).or_default();
            *size = size.saturating_add(hole.size);
            places.push(&hole.place);
        }
        for (reason, (size, places)) in by_reason {
            let (size, places) = (bytes(size), first_places(places));
            lines.push(if is_written {
                format!("note: {size} stays a hole in {places}: {reason}")
            } else {
                format!("note: nothing changed in {places}, where {size} would become a hole: {reason}")
            });
        }
    }
    if !result.not_restored.is_empty() {
        let places = first_places(result.not_restored.iter().map(String::as_str));
        lines.push(format!("note: {places} stays shorter: another tool has rewritten it since recompress did"));
    }
    lines
}

/// Returns the note about code that was left out although a GPU would have used it.
fn missed_note(MissedCode { device, bundles, targets, .. }: &MissedCode) -> String {
    let targets = targets.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    let bundles = count(*bundles, "bundle", "bundles");
    format!(
        "note: in {bundles}, {device} would have used code for {targets}, which was left out; --keep-for {device} keeps it"
    )
}

/// Returns the result in one line.
fn summary(result: &Recompressed) -> String {
    let Recompressed { bundles, unchanged, dropped, before, after, holes, shortened, lengthened, emptied, zip, .. } =
        *result;
    let mut text = format!("{}: {} before, {} now", count(bundles, "bundle", "bundles"), bytes(before), bytes(after));
    if dropped > 0 {
        text.push_str(&format!("; {} left out", count(dropped, "code object", "code objects")));
    }
    if unchanged > 0 {
        let as_before = if unchanged == 1 { "as it was" } else { "as they were" };
        let kept = count(unchanged, "bundle", "bundles");
        text.push_str(&format!("; {kept} would have become larger and stayed {as_before}"));
    }
    // For a zip file, its size before and after follows, and says more than the lengths of its members.
    if shortened > 0 && zip.is_none() {
        text.push_str(&format!("; the file is {} shorter", bytes(shortened)));
    } else if holes > 0 && zip.is_none() {
        let size = if lengthened > 0 { "is longer" } else { "has the size that it had" };
        text.push_str(&format!("; the file {size}, {} of it a hole", bytes(holes)));
    }
    if let Some(RecompressedZip { members, unchanged, before, after, .. }) = zip {
        let members = count(members, "member", "members");
        text.push_str(&format!("; {members} changed; zip file: {} before, {} now", bytes(before), bytes(after)));
        if unchanged > 0 {
            let as_before = if unchanged == 1 { "as it was" } else { "as they were" };
            let stayed = count(unchanged, "member", "members");
            text.push_str(&format!("; {stayed} would not have become smaller and stayed {as_before}"));
        }
    }
    if emptied > 0 {
        text.push_str(&format!("; {} left without device code", count(emptied, "member", "members")));
    }
    text
}

//! `extract`: copies code objects out of any file, selected by target.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::base::display::plain;
use crate::base::error::{self, Error};
use crate::base::id::OffloadKind;
use crate::beyond::inventory::request::Selection;
use crate::beyond::job::ExtractReport;
use crate::beyond::job::{Destination, Event, Extract, Extracted, OwnDirectory, Source};
use crate::beyond::runtime::Device;
use clap::Parser;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::error::ErrorKind;

use super::deep;
use super::files::{FollowOptions, WorkFile};
use super::gpus::Gpus;
use super::patterns::{self, ExactOption, Patterns};
use super::print::json;
use super::print::out::to_stdout;
use super::print::problem::Problem;
use super::subcommand::{Options, heading, refuse};
use super::suggest;
use crate::llvm::cli::print::console::Console;

/// Extensions of files with code objects. Directories rarely have one.
const CODE_EXTENSIONS: [&str; 9] = ["bc", "co", "cubin", "elf", "fatbin", "hsaco", "o", "ptx", "spv"];

/// The number of files that may go to the current directory without `--output`. More files go to a directory of their
/// own, because they would be hard to find and remove among other files.
const OWN_DIRECTORY_ABOVE: usize = 10;

/// The most bytes of the name of the input in the name of its directory. File systems allow 255 bytes, and `.extracted`
/// follows.
const OWN_DIRECTORY_NAME_MAX: usize = 240;

/// Extract GPU code objects to files
#[derive(Clone, Debug, Parser)]
pub(super) struct ExtractOptions {
    /// Files to read, and directories of such files.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    search: FollowOptions,
    /// Output directory, or - to write a single code object to standard output.
    #[arg(
        short, long, value_name = "DIR", help_heading = heading::OUTPUT,
        long_help = format!(
            "Output directory, created if necessary; - writes a single code object to standard output. By default, up to \
             {OWN_DIRECTORY_ABOVE} files are written to the current directory, and more to a directory named after FILE there."
        ),
    )]
    output: Option<PathBuf>,
    #[arg(
        help_heading = heading::SELECTION,
        short, long, value_name = "PATTERN", value_delimiter = ',', value_parser = patterns::parse, help = patterns::TARGETS,
        long_help = format!(
            "Target IDs (gfx90a:xnack+) or bundle entry IDs (hip-amdgcn-amd-amdhsa--gfx90a) to extract, with the wildcards * ? and \
             [...], in a comma list. May be repeated. Each must match something; what matches any of them is extracted. {}",
            patterns::MATCHING,
        ),
    )]
    target: Vec<Patterns>,
    /// Offload kinds to extract, in a comma list: hip, openmp, cuda, sycl, ...
    #[arg(
        help_heading = heading::SELECTION,
        short, long, value_delimiter = ',', hide_possible_values = true,
        long_help = format!(
            "Offload kinds to extract, in a comma list: {}. hip and hipv4 are equivalent.",
            OffloadKind::all().map(OffloadKind::name).collect::<Vec<_>>().join(", "),
        ),
        value_parser = PossibleValuesParser::new(OffloadKind::all().map(OffloadKind::name))
            .try_map(|name| OffloadKind::from_name(&name).ok_or("not an offload kind")),
    )]
    kind: Vec<OffloadKind>,
    /// Extract only code with this kernel: a part of its name, or =NAME.
    #[arg(
        help_heading = heading::SELECTION,
        long,
        value_name = "NAME",
        long_help = format!(
            "Extract only code objects that define this kernel or global variable, PTX too. {} May be repeated: each must be defined, \
             and what defines any of them is extracted. Code whose kernels are not known (SPIR-V, bitcode, AMD's code object \
             version 2) is not.",
            patterns::KERNEL_NAME,
        ),
        value_parser = patterns::check_kernel_name,
    )]
    kernel: Vec<String>,
    #[command(flatten)]
    comparison: ExactOption,
    /// Extract only the code that runtimes load on the GPUs of --target.
    #[arg(
        help_heading = heading::SELECTION,
        long,
        requires = "target",
        conflicts_with = "exact",
        long_help = "Extract from each bundle only the code that runtimes load on the GPUs of --target. On an AMD GPU (gfx1152), that is \
            code for the processor with compatible features, else for its generic target (gfx11-generic), else SPIR-V; for gfx90a, \
            what is loaded in each setting of its features. On an NVIDIA GPU (sm_89), it is the latest machine code that it runs, \
            else PTX. On an Intel GPU (bmg-g21), it is code for it or for a GPU that Intel lists as compatible, else SPIR-V. Names mean GPUs: sm_90a is the GPU sm_90, and gfx11-generic means all processors of that target. Wildcards and \
            entry IDs are not allowed."
    )]
    as_runtime: bool,
    /// Print a JSON document with the origin and SHA-256 of each file.
    #[arg(
        long, help_heading = heading::OUTPUT,
        long_help = "Print where each file is from, and its SHA-256, as a JSON document (docs/extract.schema.json)."
    )]
    json: bool,
    /// Do not write files; print their names, or with --json the document.
    #[arg(short = 'n', long, help_heading = heading::OUTPUT)]
    dry_run: bool,
}

impl Options for ExtractOptions {
    fn run(&self, console: &mut Console) -> anyhow::Result<ExitCode> {
        let destination = self.destination();
        if self.json && destination == Destination::StandardOutput {
            let text = "the argument '--json' cannot be used with '--output -': both print to the standard output";
            return refuse::<Self>(console, ErrorKind::ArgumentConflict, text);
        }
        let mut problems = Vec::new();
        let (selection, devices) = match self.requested() {
            Ok(requested) => requested,
            Err(text) => return refuse::<Self>(console, ErrorKind::ValueValidation, &text),
        };
        Gpus::warn_of_unknown(&devices, console);
        let (files, _, scan) = self.search.files(&self.files);
        let files_with_hints: Vec<WorkFile> = files.iter().flatten().take(deep::FILES_MAX).cloned().collect();
        let inputs = sources(files, &mut problems);
        // Without any input, the job would fail with an error that says less than these problems.
        if inputs.is_empty() && !problems.is_empty() {
            return Ok(console.problems(&problems));
        }
        let mut extract = Extract::new(inputs, selection, destination);
        (extract.scan, extract.devices, extract.sha256) = (scan, devices, self.json);
        extract.own_directory = self.own_directory();
        extract.kernels = patterns::typed_kernels(&self.kernel);
        let mut unread = BTreeMap::new();
        let extracted = extract.run(&mut |event| match event {
            Event::LeftOut { error } => problems.push(error.into()),
            Event::UnreadFile { file, format } => drop(unread.insert(file, format)),
            event => console.event_of_job(event),
        });
        // If no target is present at all, the files have no code that this search finds.
        if let Err(error) = &extracted
            && error.kind() == error::ErrorKind::NotFound
            && error.present_targets().is_empty()
            && !self.json
        {
            console.last_hints = deep::hints_for_empty(&files_with_hints, &unread, &extract.scan);
        }
        if let Ok(extracted) = &extracted {
            self.note_own_directory(&extract, extracted, console);
            self.note_directory_named_like_file(console);
        }
        let printed = match extracted {
            Ok(extracted) if self.json => to_stdout(|out| json::write(ExtractReport::new(&extracted), &problems, out)),
            Ok(extracted) => print_names(&extract, &extracted),
            Err(error) => Err(error.into()),
        };
        // Problems with some of the files are printed before the error that ends the command.
        let status = console.problems(&problems);
        printed?;
        Ok(status)
    }
}

impl ExtractOptions {
    /// Returns the selection and the GPUs that are asked for. With `--as-runtime`, GPUs select code in place of
    /// patterns. The error is a message about a target that is not a GPU.
    fn requested(&self) -> Result<(Selection, Vec<Device>), String> {
        let (mut selection, mut devices) = (self.comparison.selection(&self.target), Vec::new());
        selection.kinds.clone_from(&self.kind);
        if self.as_runtime {
            for target in std::mem::take(&mut selection.targets) {
                let gpus = suggest::devices_of(&target);
                devices.extend(gpus.map_err(|error| format!("--as-runtime needs names of GPUs: {error}"))?);
            }
        }
        Ok((selection, devices))
    }

    /// Returns the destination of the code objects: without `--output`, the current directory.
    fn destination(&self) -> Destination {
        let output = match &self.output {
            Some(output) => output.clone(),
            None => PathBuf::from("."),
        };
        if self.dry_run {
            Destination::Nowhere(output)
        } else if output.as_os_str() == "-" {
            Destination::StandardOutput
        } else {
            Destination::Directory(output)
        }
    }

    /// Returns the directory for many files, named after the only input, or `extracted` for several. Returns `None` if
    /// `--output` names a directory.
    fn own_directory(&self) -> Option<OwnDirectory> {
        if self.output.is_some() {
            return None;
        }
        let mut name = "extracted".to_owned();
        if let [file] = self.files.as_slice()
            && let Some(file_name) = file.file_name()
        {
            // `plain` returns only ASCII, so every index is the end of a character. A shorter name is taken whole.
            let file_name = plain(file_name.as_encoded_bytes());
            let start = file_name.get(..OWN_DIRECTORY_NAME_MAX).unwrap_or(&file_name);
            // A name that begins with a point would hide the directory.
            name = format!("{}.extracted", start.trim_start_matches('.'));
        }
        // Up to `other_max` files go to the current directory instead.
        Some(OwnDirectory { path: Path::new(".").join(name), other_max: OWN_DIRECTORY_ABOVE })
    }

    /// Prints a note that names the directory of the files, if they were too many for the current directory.
    fn note_own_directory(&self, extract: &Extract, extracted: &[Extracted], console: &Console) {
        if let Some(own) = &extract.own_directory
            && extracted.len() > own.other_max
        {
            let verb = if self.dry_run { "would be" } else { "are" };
            let directory = own.path.display();
            console
                .note(&format!("{} files {verb} in '{directory}'; --output names another directory", extracted.len()));
        }
    }

    /// Says that `--output` names a directory, if it looks like the name of a file.
    fn note_directory_named_like_file(&self, console: &Console) {
        let Some(output) = &self.output else { return };
        if self.dry_run {
            return;
        }
        if let Some(extension) = output.extension()
            && CODE_EXTENSIONS.iter().any(|known| extension == *known)
        {
            let directory = output.display();
            console.note(&format!(
                "'{directory}' is a directory; with -o -, a single code object goes to the standard output"
            ));
        }
    }
}

/// Returns the files to search. Adds directories, and files in them, that cannot be read to `problems`.
fn sources(files: Vec<Result<WorkFile, Error>>, problems: &mut Vec<Problem>) -> Vec<Source> {
    let mut sources = Vec::new();
    for file in files {
        match file {
            Ok(WorkFile { path, directory: None }) => sources.push(Source::named(path)),
            Ok(WorkFile { path, directory: Some(directory) }) => sources.push(Source::found(path, &directory)),
            Err(error) => problems.push(error.into()),
        }
    }
    sources
}

/// Prints the names of the written files. Prints nothing if the code object itself goes to the standard output.
fn print_names(extract: &Extract, extracted: &[Extracted]) -> anyhow::Result<()> {
    if extract.destination == Destination::StandardOutput {
        return Ok(());
    }
    to_stdout(|mut out| {
        for file in extracted {
            out.write_line(&file.path.to_string_lossy())?;
        }
        Ok(())
    })
}

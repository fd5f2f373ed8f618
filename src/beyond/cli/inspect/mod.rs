//! `inspect`: lists the code objects in files, with targets and sizes.

mod answer;
mod by_file;
mod lines;
mod matrix;
mod products;
mod table;

use std::cmp::Reverse;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::base::error::Result;
use crate::base::io::write_file;
use crate::beyond::inventory::{Contents, Coverage, Libraries, LibrariesBuilder, ServedBundles};
use crate::beyond::job::{Inspect, InspectReport, LibraryCoverage};
use crate::beyond::runtime::Device;
use clap::Parser;

use super::deep;
use super::files::{self, FollowOptions, WorkFile};
use super::picture::{ensure_apart, picture};
use super::print::json::Document;
use super::print::out::{Out, to_stdout};
use super::print::problem::Problem;
use super::print::text::{TableOptions, Text};
use super::subcommand::{Options, heading};
use crate::llvm::cli::print::console::Console;
use lines::TableRows;
use table::InspectTables;

/// List the GPU code objects in files, and their sizes
#[derive(Clone, Debug, Parser)]
pub(super) struct InspectOptions {
    /// Files to inspect, and directories of such files.
    #[arg(value_name = "FILE", required_unless_present = "gpus")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    search: FollowOptions,
    /// Print a line for each code object, not one for each entry ID.
    #[arg(long, help_heading = heading::OUTPUT)]
    each: bool,
    /// Print only the totals for each GPU, and how many files have no readable code.
    #[arg(long, conflicts_with_all = ["each", "json"], help_heading = heading::OUTPUT)]
    summary: bool,
    /// List the GPUs that the files have code for, each with all its products.
    #[arg(
        long, conflicts_with_all = ["each", "json", "summary"], help_heading = heading::OUTPUT,
        long_help = "List the GPUs that the files have code for, each with all its products; without a FILE, all known products."
    )]
    gpus: bool,
    /// Print tables of libraries and GPUs, with the gaps; --json adds them.
    #[arg(
        long, conflicts_with_all = ["each", "summary", "gpus"], help_heading = heading::OUTPUT,
        long_help = "Print tables of libraries and GPUs, with the gaps; with --json, add them to the document."
    )]
    matrix: bool,
    /// Print each code object with its URI: the file, members in it, range of bytes.
    #[arg(long, conflicts_with_all = ["summary", "gpus", "matrix"], help_heading = heading::OUTPUT)]
    uri: bool,
    /// Inflate compressed bundles completely, to detect image kinds and nested bundles.
    #[arg(long, help_heading = heading::SEARCH)]
    inflate: bool,
    /// Print a JSON document, described by docs/inspect.schema.json.
    #[arg(long, conflicts_with = "each", help_heading = heading::OUTPUT)]
    json: bool,
    /// Also draw a chart: the space of each GPU, and the bundles that serve it.
    #[arg(long, value_name = "FILE", help_heading = heading::OUTPUT)]
    svg: Option<PathBuf>,
    #[command(flatten)]
    table: TableOptions,
}

/// A file, its contents, and a hint if it has no device code.
type ReadContents = (WorkFile, Contents, Option<String>);

/// Returns the number of findings in a file, and one for the file and each bundle. It estimates the memory that they
/// take while they wait to be printed.
fn weight((_, contents, _): &ReadContents) -> usize {
    let Contents { bundles, unread, references, problems, .. } = contents;
    let code_objects: usize = bundles.iter().map(|bundle| bundle.code_objects.len() + 1).sum();
    code_objects + unread.len() + references.len() + problems.len() + 1
}

/// Sorts GPUs by the number of bundles that do not serve them, largest first. Single GPUs come before targets that
/// several GPUs run, such as PTX.
fn sort_by_need(gpus: &mut [(Device, ServedBundles)]) {
    gpus.sort_by_key(|(gpu, served)| (!gpu.is_one(), Reverse(served.missing())));
}

/// Inspects a file. If `wants_hints` is set, and the command line names the file, a file without device code gets a
/// hint at `--deep`. Fails with the error in `file` if the file could not be listed.
fn inspect(job: &Inspect, file: Result<WorkFile>, wants_hints: bool) -> Result<ReadContents> {
    let file = file?;
    let input = file.open(job.scan.limits)?;
    let contents = job.run(&input)?;
    let mut hint = None;
    if wants_hints && file.is_named() && contents.is_empty() {
        hint = deep::hint_at_deep(&input, &job.scan);
    }
    Ok((file, contents, hint))
}

impl Options for InspectOptions {
    fn run(&self, console: &mut Console) -> anyhow::Result<ExitCode> {
        if self.files.is_empty() {
            to_stdout(|out| Ok(products::write(&mut Text { style: self.table.style(), out })?))?;
            return Ok(ExitCode::SUCCESS);
        }
        let (files, paths, scan) = self.search.files(&self.files);
        ensure_apart(("--svg", self.svg.as_deref()), paths.iter())?;
        let mut job = Inspect::default();
        (job.scan, job.inflate) = (scan, self.inflate);
        let one_by_one = files::has_several_pipes(&files);
        let wants_hints = files.len() <= deep::FILES_MAX && !self.json;
        let has_directories = files.iter().flatten().any(|file| !file.is_named());
        let (mut all, mut libraries) = (AllFiles::default(), Libraries::default());
        let written = to_stdout(|out| {
            let mut printer = Printer::begin(self, out)?;
            let mut written = Ok(());
            files::for_each(
                files,
                one_by_one,
                |file| inspect(&job, file, wants_hints),
                weight,
                |read| match read {
                    Ok((file, contents, hint)) => {
                        all.add(&contents, hint, self);
                        if written.is_ok() {
                            written = printer.add_file(contents, file.is_named());
                        }
                    }
                    Err(error) => all.problems.push(error.into()),
                },
            );
            libraries = std::mem::take(&mut all.libraries).finish();
            written?;
            printer.end(&all.coverage, self.matrix.then_some(&libraries), &all.problems)
        });
        // `inspect` gives hints only for named files, so files in directories share one hint.
        let is_hint_missing = has_directories && all.hints.is_empty();
        if is_hint_missing && !all.has_found && !job.scan.deep && !self.json {
            all.hints.push("--deep also searches files of other formats, and all bytes of each".to_owned());
        }
        console.last_hints = all.hints;
        // Even if printing fails, problems are printed and the picture is drawn before the error is returned.
        let status = console.problems(&all.problems);
        let drawn = match &self.svg {
            // If nothing could be read, there is nothing to draw, and an earlier picture stays.
            Some(path) if all.has_read => write_file(path, picture(libraries).as_bytes()),
            _ => Ok(()),
        };
        written?;
        drawn?;
        Ok(status)
    }
}

/// The parts of all inspected files that are used after the last file.
#[derive(Default)]
struct AllFiles {
    /// The bundles that serve each GPU. Kept only for a JSON document.
    coverage: Coverage,
    /// The libraries in the files. Kept only for `--matrix` and `--svg`.
    libraries: LibrariesBuilder,
    problems: Vec<Problem>,
    /// The hints for named files without device code.
    hints: Vec<String>,
    /// Whether a file was read without a problem, or has a bundle.
    has_read: bool,
    /// Whether a file has device code.
    has_found: bool,
}

impl AllFiles {
    /// Adds the parts of a file that the options need after the last file.
    fn add(&mut self, contents: &Contents, hint: Option<String>, options: &InspectOptions) {
        self.hints.extend(hint);
        self.has_found |= !contents.is_empty();
        self.has_read |= contents.problems.is_empty() || !contents.bundles.is_empty();
        self.problems.extend(contents.problems.iter().map(Problem::from));
        if options.svg.is_some() || options.matrix {
            self.libraries.add(contents);
        }
        if options.json {
            self.coverage.merge(&contents.coverage());
        }
    }
}

impl InspectOptions {
    /// Returns the kind of rows that the options ask for. `--uri` implies `--each`.
    fn rows(&self) -> TableRows {
        if self.uri {
            TableRows::EachWithUri
        } else if self.each {
            TableRows::Each
        } else if self.summary {
            TableRows::Totals
        } else if self.gpus {
            TableRows::Gpus
        } else {
            TableRows::Grouped
        }
    }
}

/// Prints the report in one of its forms.
enum Printer<'o> {
    Json(Document<'o>),
    /// The table of libraries and GPUs, which is complete only after the last file.
    Matrix(Text<'o>),
    Tables(Box<InspectTables<'o>>),
}

impl<'o> Printer<'o> {
    /// Begins the report in the form that the options ask for.
    fn begin(options: &InspectOptions, out: Out<'o>) -> anyhow::Result<Self> {
        if options.json {
            return Ok(Self::Json(Document::begin(&InspectReport::default(), "files", out)?));
        }
        let text = Text { style: options.table.style(), out };
        Ok(if options.matrix {
            Self::Matrix(text)
        } else {
            Self::Tables(Box::new(InspectTables::new(options.rows(), text)))
        })
    }

    /// Adds a file, which is printed now or in the end.
    fn add_file(&mut self, contents: Contents, is_named: bool) -> anyhow::Result<()> {
        match self {
            Self::Json(document) => document.item(&contents),
            Self::Matrix(_) => Ok(()),
            Self::Tables(tables) => Ok(tables.add_file(contents, is_named)?),
        }
    }

    /// Prints what all files show together. `libraries` is `None` without `--matrix`.
    fn end(self, coverage: &Coverage, libraries: Option<&Libraries>, problems: &[Problem]) -> anyhow::Result<()> {
        match self {
            Self::Json(document) => {
                document.end(&InspectReport::on_all_files(coverage, libraries.map(LibraryCoverage::all)), problems)
            }
            Self::Matrix(mut text) => match libraries {
                Some(libraries) => Ok(matrix::write(libraries, &mut text)?),
                // Only `--matrix` has this printer, so the libraries are always there.
                None => Ok(()),
            },
            Self::Tables(tables) => Ok(tables.write_rest()?),
        }
    }
}

//! `kernels`: lists the kernels in files, with the registers and memory that they take.

pub(super) mod demangle;
mod disassemble;
pub(super) mod table;

use std::path::PathBuf;
use std::process::ExitCode;

use crate::base::display::alternatives;
use crate::base::error::Result;
use crate::beyond::job::{
    Judged, KernelCondition, KernelOrder, KernelSums, KernelsOfFile, KernelsReport, ListKernels, NamedKernel, SortKey,
    WantedKernels,
};
use anyhow::bail;
use clap::Parser;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use super::files::{self, FollowOptions, WorkFile};
use super::judged::Judgement;
use super::patterns::{self, ExactOption, Patterns};
use super::print::json::Document;
use super::print::out::{Out, to_stdout};
use super::print::problem::Problem;
use super::print::text::{TableOptions, Text};
use super::subcommand::{Options, heading};
use crate::llvm::cli::print::console::Console;
use demangle::Demangler;
use disassemble::CodeBytes;
use table::KernelTables;

/// List the kernels in files, with their registers and memory
#[derive(Clone, Debug, Parser)]
pub(super) struct KernelsOptions {
    /// Files to read, and directories of such files.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    search: FollowOptions,
    #[arg(
        help_heading = heading::SELECTION,
        short, long, value_name = "PATTERN", value_delimiter = ',', value_parser = patterns::parse, help = patterns::TARGETS,
        long_help = patterns::targets("kernels", "listed"),
    )]
    target: Vec<Patterns>,
    #[command(flatten)]
    comparison: ExactOption,
    /// List only kernels with this text in their name, or with =NAME this name.
    #[arg(
        help_heading = heading::SELECTION,
        long, value_name = "NAME", value_parser = patterns::check_kernel_name,
        long_help = format!("List only kernels with this name. {}", patterns::KERNEL_NAME),
    )]
    name: Option<String>,
    /// Print the instructions of kernels instead, selected as by --name.
    #[arg(
        help_heading = heading::OUTPUT,
        long, value_name = "NAME", value_parser = patterns::check_kernel_name,
        conflicts_with_all = ["name", "sort", "top", "json", "arguments", "uri", "fail_on", "markdown"],
        long_help = "Print the instructions of kernels instead, selected as by --name. For AMD GPUs, this runs the newest of llvm-objdump \
            and llvm-objdump-N in the PATH and the one in $ROCM_PATH or /opt/rocm; for NVIDIA GPUs, nvdisasm, in the PATH or in \
            $CUDA_HOME, which prints all kernels of a cubin. If one fails, the next is tried. A line before the instructions says which \
            program it was."
    )]
    disassemble: Option<String>,
    /// List only kernels that need calls of the host, such as those of `printf`.
    #[arg(
        help_heading = heading::SELECTION,
        long,
        long_help = "List only kernels of AMD GPUs that need calls of the host, such as those of `printf` and `assert`: they have an \
            argument of the kind hidden_hostcall_buffer. A thread of the host then has to serve them."
    )]
    hostcall: bool,
    /// Sort the kernels of all files by name, gpu or a number, such as vgpr.
    #[arg(
        help_heading = heading::OUTPUT,
        long, value_name = "COLUMN", hide_possible_values = true,
        long_help = format!(
            "Sort the kernels of all files: names and GPUs from a to z, numbers from the largest. COLUMN is {}.",
            alternatives(&SortKey::names()),
        ),
        value_parser = PossibleValuesParser::new(SortKey::names()).try_map(|name| SortKey::from_name(&name).ok_or("not a column")),
    )]
    sort: Option<SortKey>,
    /// List only the first N kernels of --sort.
    #[arg(long, value_name = "N", requires = "sort", help_heading = heading::OUTPUT)]
    top: Option<usize>,
    /// Fail on any of: spill, scratch, hostcall, 'COLUMN>N'; list what fails.
    #[arg(
        long, value_name = "CONDITION", value_delimiter = ',', value_parser = KernelCondition::parse,
        long_help = "Exit with status 1 on spill, scratch, hostcall or COLUMN>N (such as 'vgpr>128' or 'code > 5kB'), in a comma list. \
            The conditions apply to the kernels that --target, --name and --hostcall select, also to those that --top leaves out. \
            The tables list only the kernels that meet a condition; --json has all. `man offload-bundle-kernels` lists columns and \
            conditions."
    )]
    fail_on: Vec<KernelCondition>,
    /// Also print the arguments of each kernel, in the JSON document.
    #[arg(long, requires = "json", help_heading = heading::OUTPUT)]
    arguments: bool,
    /// Succeed even if a pattern matches nothing, or --fail-on judges nothing.
    #[arg(
        long,
        long_help = "Succeed even if --target or --name matches nothing, or a condition of --fail-on has nothing to judge."
    )]
    allow_none: bool,
    /// Print the URI of the code object of each kernel, a FILE for `extract`.
    #[arg(long, conflicts_with = "json", help_heading = heading::OUTPUT)]
    uri: bool,
    /// Print a JSON document, described by docs/kernels.schema.json.
    #[arg(long, help_heading = heading::OUTPUT)]
    json: bool,
    #[command(flatten)]
    table: TableOptions,
}

/// The job, its files, and the kernels to list.
struct Listing<'l> {
    job: ListKernels,
    paths: Vec<PathBuf>,
    wanted: WantedKernels<'l>,
}

/// The results of all files that were read: the sums over their kernels, and what could not be read.
#[derive(Default)]
struct FilesRead {
    sums: KernelSums,
    problems: Vec<Problem>,
    /// Whether all files were read without a problem.
    is_complete: bool,
}

impl Options for KernelsOptions {
    fn run(&self, console: &mut Console) -> anyhow::Result<ExitCode> {
        let (files, paths, scan) = self.search.files(&self.files);
        let is_one_file = files.len() == 1;
        let mut job = ListKernels::default();
        job.selection = self.comparison.selection(&self.target);
        (job.scan, job.arguments) = (scan, self.arguments);
        let order = self.sort.map(|key| KernelOrder { key, most: self.top.unwrap_or(usize::MAX) });
        let names = patterns::typed_kernels(self.name());
        let wanted = WantedKernels {
            name: names.as_ref(),
            hostcall: self.hostcall,
            fail_on: &self.fail_on,
            failing_only: !self.fail_on.is_empty() && !self.json,
            order,
        };
        let listing = Listing { job, paths, wanted };
        let mut results = FilesRead::default();
        let written = to_stdout(|out| {
            // Without `--sort`, the kernels of each file are printed as soon as the file is read.
            let Some(order) = order else {
                let (mut printer, mut written) = (Printer::begin(self, is_one_file, out)?, Ok(()));
                self.read(files, &listing, &mut results, &mut |rows, contents| {
                    if written.is_ok() {
                        written = printer.write(&rows, &contents);
                    }
                });
                written?;
                return printer.end(&results);
            };
            let mut rows = Vec::new();
            self.read(files, &listing, &mut results, &mut |more, _| order.add(&mut rows, more));
            order.keep_first(&mut rows);
            // Only now is it known which numbers the kernels record.
            ensure_recorded(&results.sums, order.key)?;
            let mut printer = Printer::begin(self, is_one_file, out)?;
            printer.write(&rows, &CodeBytes::new())?;
            printer.end(&results)
        });
        let FilesRead { sums, mut problems, is_complete } = results;
        problems.extend(sums.conditions.failures().iter().map(Problem::from));
        let status = console.problems(&problems);
        written?;
        self.ensure_match(&sums, &listing, is_complete)?;
        Ok(status)
    }
}

impl KernelsOptions {
    /// Reads the files, and adds sums and problems to `results`. Passes the kernels of each file to `take`, with the
    /// bytes of their code objects if they are disassembled.
    fn read(
        &self,
        files: Vec<Result<WorkFile>>,
        listing: &Listing<'_>,
        results: &mut FilesRead,
        take: &mut dyn FnMut(Vec<NamedKernel>, CodeBytes),
    ) {
        let FilesRead { sums, problems, is_complete } = results;
        let one_by_one = files::has_several_pipes(&files);
        files::for_each(
            files,
            one_by_one,
            |file| self.list(listing, file),
            // The weight of a result: 1 for each row, and 1 for the file itself.
            |(file, _)| file.rows.len() + 1,
            |listed| match listed {
                Ok((file, contents)) => {
                    problems.extend(file.problems.into_iter().map(Problem::from));
                    sums.add(file.sums);
                    take(file.rows, contents);
                }
                Err(error) => problems.push(error.into()),
            },
        );
        // The next call may add the error that nothing was judged, although all files were read.
        *is_complete = problems.is_empty();
        self.add_error_if_not_judged(listing, sums, problems);
    }

    /// Lists the kernels of a file, and reads their code objects if they are to be disassembled.
    fn list(&self, listing: &Listing<'_>, file: Result<WorkFile>) -> Result<(KernelsOfFile, CodeBytes)> {
        let (file, scan) = (file?, &listing.job.scan);
        let input = file.open(scan.limits)?;
        let demangler = Demangler::default();
        let list = listing.job.run(&input)?;
        let kernels = KernelsOfFile::new(list, listing.wanted, &|name| demangler.demangled(name))?;
        let mut contents = CodeBytes::new();
        if self.disassemble.is_some() {
            contents = disassemble::read_contents(&kernels.rows, scan, &input)?;
            input.ensure_unchanged()?;
        }
        Ok((kernels, contents))
    }

    /// Fails if `--target`, `--name` or `--disassemble` matches nothing. `is_complete` says whether all files were read
    /// without a problem.
    fn ensure_match(&self, sums: &KernelSums, listing: &Listing<'_>, is_complete: bool) -> anyhow::Result<()> {
        let Listing { job, paths, .. } = listing;
        patterns::ensure_match(self.allow_none, &sums.seen, &job.selection, paths, !is_complete)?;
        if let Some(name) = self.name()
            && !self.allow_none
            && let Some(error) = sums.unmatched_name(name, paths, is_complete)
        {
            bail!(error);
        }
        Ok(())
    }

    /// Adds the error that a condition of `--fail-on` had nothing to judge. Adds nothing if there are no conditions, or
    /// if [`ensure_match`](Self::ensure_match) fails, because that is the error then.
    fn add_error_if_not_judged(&self, listing: &Listing<'_>, sums: &KernelSums, problems: &mut Vec<Problem>) {
        if self.fail_on.is_empty() || self.ensure_match(sums, listing, problems.is_empty()).is_err() {
            return;
        }
        let judged = sums.conditions.judged();
        let error = || match judged {
            Judged::Unrecorded => {
                let conditions = sums.conditions.unrecorded();
                format!("no kernel records what --fail-on asks for: nothing was judged by {conditions}")
            }
            _ => "no kernels were read, so --fail-on judged nothing".to_owned(),
        };
        let judgement = Judgement::new(&self.search.search, self.files.iter(), self.allow_none);
        judgement.add_error_if_not_judged(judged, error, problems);
    }

    /// Returns the name that selects kernels, as typed: the value of `--name` or `--disassemble`.
    fn name(&self) -> Option<&String> {
        self.name.as_ref().or(self.disassemble.as_ref())
    }
}

/// Fails if no kernel records the column that sorts the kernels, although there are kernels.
fn ensure_recorded(KernelSums { sort_keys, .. }: &KernelSums, key: SortKey) -> anyhow::Result<()> {
    if sort_keys.have(key) {
        return Ok(());
    }
    bail!("no kernel records the column '{}'; --sort takes {}", key.name(), sort_keys.names().join(", "))
}

/// Prints the kernels of each file, and the sums over all files.
enum Printer<'o> {
    Json(Document<'o>),
    Tables(KernelTables<'o>),
    Instructions(Out<'o>),
}

impl<'o> Printer<'o> {
    /// Begins the report in the form that the options ask for. `is_one_file` says whether only one file is read.
    fn begin(options: &KernelsOptions, is_one_file: bool, out: Out<'o>) -> anyhow::Result<Self> {
        if options.disassemble.is_some() {
            return Ok(Self::Instructions(out));
        }
        if !options.json {
            let text = Text { style: options.table.style(), out };
            let mut tables = KernelTables::new(options.sort, is_one_file, options.uri, text);
            if !options.fail_on.is_empty() {
                tables.text_without_rows = "no kernel meets a condition of --fail-on";
            }
            return Ok(Self::Tables(tables));
        }
        Ok(Self::Json(Document::begin(&KernelsReport::default(), "kernels", out)?))
    }

    /// Writes the kernels of a file, or all of them if they are sorted.
    fn write(&mut self, rows: &[NamedKernel], contents: &CodeBytes) -> anyhow::Result<()> {
        match self {
            Self::Json(document) => rows.iter().try_for_each(|row| document.item(row)),
            Self::Tables(tables) => Ok(tables.write(rows)?),
            Self::Instructions(out) => disassemble::write(rows, contents, out),
        }
    }

    /// Prints the sums of all files, or ends the document.
    fn end(self, FilesRead { sums, problems, .. }: &FilesRead) -> anyhow::Result<()> {
        let report = sums.report();
        match self {
            Self::Json(document) => document.end(&report, problems),
            Self::Tables(mut tables) => {
                // Without any kernels, it would mislead to say that none of them meets a condition.
                if sums.conditions.judged() == Judged::Nothing {
                    tables.text_without_rows = "no kernels found";
                }
                Ok(tables.end(&report)?)
            }
            Self::Instructions(_) => Ok(()),
        }
    }
}

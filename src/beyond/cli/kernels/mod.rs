//! `kernels`: lists the kernels in files, with the registers and memory that they take.

pub(super) mod column;
pub(super) mod demangle;
mod disassemble;
mod fail;
pub(super) mod report;
mod row;
pub(super) mod table;

use std::cell::RefCell;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::base::error::Result;
use crate::beyond::job::ListKernels;
use crate::beyond::serialized::{KernelsReport, OtherCode};
use clap::Parser;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use super::files::{self, FollowOptions, Problems, WorkFile};
use super::judged::{Judged, Judgement};
use super::patterns::{self, ExactOption, Patterns};
use super::print::json::{self, ComputedLate, Streamed};
use super::print::out::Out;
use super::print::problem::Problem;
use super::print::text::{TableOptions, Text};
use super::subcommand::{Options, heading};
use crate::llvm::cli::print::console::Console;
use column::SortKey;
use fail::KernelCondition;
use report::{FileKernels, KernelOrder, KernelSums, WantedKernels, with_uris};
use row::NamedKernel;

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
    /// List only kernels with this text in their name, or with =NAME the kernel of this name.
    #[arg(
        help_heading = heading::SELECTION,
        long, value_name = "NAME", value_parser = patterns::check_kernel_name,
        long_help = format!("List only kernels with this name. {}", patterns::KERNEL_NAME),
    )]
    name: Option<String>,
    /// Print the instructions of kernels instead, selected as by --name, with llvm-objdump or nvdisasm.
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
    /// Sort the kernels of all files: names from a to z, numbers from the largest.
    #[arg(
        help_heading = heading::OUTPUT,
        long, value_name = "COLUMN",
        value_parser = PossibleValuesParser::new(SortKey::names()).try_map(|name| SortKey::from_name(&name).ok_or("not a column")),
    )]
    sort: Option<SortKey>,
    /// List only the first N kernels of --sort.
    #[arg(long, value_name = "N", requires = "sort", help_heading = heading::OUTPUT)]
    top: Option<usize>,
    /// Exit with status 1 on spill, scratch, hostcall or COLUMN>N, in a comma list.
    #[arg(
        long, value_name = "CONDITION", value_delimiter = ',', value_parser = KernelCondition::parse,
        long_help = "Exit with status 1 on spill, scratch, hostcall or COLUMN>N (such as 'vgpr>128'), in a comma list. The conditions \
            apply to the kernels that --target, --name and --hostcall select, also to those that --top leaves out. `man \
            offload-bundle-kernels` lists columns and conditions."
    )]
    fail_on: Vec<KernelCondition>,
    /// Also print the arguments of each kernel, in the JSON document.
    #[arg(long, requires = "json", help_heading = heading::OUTPUT)]
    arguments: bool,
    /// Succeed even if --target or --name matches nothing, or a condition of --fail-on has nothing to judge.
    #[arg(long)]
    allow_none: bool,
    /// Print the URI of the code object of each kernel, which `extract` takes as a file.
    #[arg(long, conflicts_with = "json", help_heading = heading::OUTPUT)]
    uri: bool,
    /// Print a JSON document, described by docs/kernels.schema.json.
    #[arg(long, help_heading = heading::OUTPUT)]
    json: bool,
    #[command(flatten)]
    table: TableOptions,
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
        let wanted =
            WantedKernels { name: names.as_ref(), hostcall: self.hostcall, fail_on: self.fail_on.as_slice(), order };
        let (problems, sums) = (Problems::default(), RefCell::new(KernelSums::default()));
        let in_turn = files::has_pipes(&files);
        let written = files::report(
            files,
            in_turn,
            |file| self.list(&job, file, wanted),
            // The weight of a result: 1 for each row, and 1 for the file itself.
            |file| file.rows.len() + 1,
            |file, problems| {
                problems.extend(file.problems.drain(..).map(Problem::from));
                sums.borrow_mut().add(std::mem::take(&mut file.sums));
            },
            &problems,
            |files, mut out| {
                if self.disassemble.is_some() {
                    for file in files {
                        disassemble::write(&file.rows, &file.contents, &mut out)?;
                    }
                    return Ok(());
                }
                let mut rows = files.map(|file| file.rows);
                let mut sorted = None;
                if let Some(order) = order {
                    // Only after all files are merged is it known which numbers the kernels record.
                    sorted = Some(std::iter::once(order.merge(&mut rows)));
                    sums.borrow().sort_keys.ensure_recorded(order.key)?;
                }
                let rows: &mut dyn Iterator<Item = Vec<NamedKernel>> = match &mut sorted {
                    Some(sorted) => sorted,
                    None => &mut rows,
                };
                if self.json {
                    return self.write_json(rows, &sums, &job, &paths, &problems, out);
                }
                let text = Text { style: self.table.style(), out };
                table::write(rows, self.sort, (is_one_file, self.uri), &sums, text)
            },
        );
        let sums = sums.into_inner();
        // This must come first: `add_error_if_not_judged` may add a problem, and then all files were read nevertheless.
        let is_complete = problems.borrow().is_empty();
        self.add_error_if_not_judged(&sums, &job, &paths, &problems);
        let mut problems = problems.into_inner();
        problems.extend(sums.conditions.failures().iter().map(Problem::from));
        let status = console.problems(&problems);
        written?;
        self.ensure_match(&sums, &job, &paths, is_complete)?;
        Ok(status)
    }
}

impl KernelsOptions {
    /// Lists the kernels of a file, and reads their code objects if they are to be disassembled.
    fn list(&self, job: &ListKernels, file: Result<WorkFile>, wanted: WantedKernels<'_>) -> Result<FileKernels> {
        let file = file?;
        let input = file.open(job.scan.limits)?;
        let mut kernels = FileKernels::new(job.run(&input)?, wanted)?;
        if self.disassemble.is_some() {
            kernels.contents = disassemble::read_contents(&kernels.rows, &job.scan, &input)?;
            input.ensure_unchanged()?;
        }
        Ok(kernels)
    }

    /// Writes the JSON report. Reading a file from `rows` also adds to `sums` and `problems`.
    fn write_json(
        &self,
        rows: &mut dyn Iterator<Item = Vec<NamedKernel>>,
        sums: &RefCell<KernelSums>,
        job: &ListKernels,
        paths: &[PathBuf],
        problems: &Problems,
        out: Out<'_>,
    ) -> anyhow::Result<()> {
        let kernels = Streamed::new(with_uris(rows.flatten()));
        // The rest is complete only after the last file.
        let others = ComputedLate(|| {
            let mut others = Vec::new();
            for (image_kind, code_objects) in sums.borrow().others.iter() {
                others.push(OtherCode { image_kind, code_objects });
            }
            others
        });
        let failures = ComputedLate(|| {
            let sums = sums.borrow();
            // `json::write` writes the problems after this field, so the error is among them.
            self.add_error_if_not_judged(&sums, job, paths, problems);
            sums.conditions.failures()
        });
        let not_judged = ComputedLate(|| sums.borrow().conditions.not_judged());
        json::write(KernelsReport { kernels, others, failures, not_judged }, problems, out)
    }

    /// Fails if a filter matches nothing.
    fn ensure_match(
        &self,
        sums: &KernelSums,
        job: &ListKernels,
        paths: &[PathBuf],
        is_complete: bool,
    ) -> anyhow::Result<()> {
        patterns::ensure_match(self.allow_none, &sums.seen, &job.selection, paths, !is_complete)?;
        match self.name() {
            Some(name) if !self.allow_none => sums.names.ensure_match(name, paths, is_complete),
            _ => Ok(()),
        }
    }

    /// Adds the error that a condition of `--fail-on` had nothing to judge. Adds nothing if there are no conditions, or
    /// if a filter matches nothing, which is another error.
    fn add_error_if_not_judged(&self, sums: &KernelSums, job: &ListKernels, paths: &[PathBuf], problems: &Problems) {
        let is_complete = problems.borrow().is_empty();
        if self.fail_on.is_empty() || self.ensure_match(sums, job, paths, is_complete).is_err() {
            return;
        }
        let judged = sums.conditions.judged();
        // `add_error_if_not_judged` uses the text only if something was not judged.
        let error = match judged {
            Judged::Unrecorded => {
                let conditions = sums.conditions.unrecorded();
                format!("no kernel records what --fail-on asks for: nothing was judged by {conditions}")
            }
            _ => "no kernels were read, so --fail-on judged nothing".to_owned(),
        };
        let judgement = Judgement::new(&self.search.search, self.files.iter(), self.allow_none);
        judgement.add_error_if_not_judged(judged, || error, &mut problems.borrow_mut());
    }

    /// Returns the name that selects kernels, as typed.
    fn name(&self) -> Option<&String> {
        self.name.as_ref().or(self.disassemble.as_ref())
    }
}

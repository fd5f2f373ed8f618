//! `diff`: compares the device code of two files, directories or wheels.

pub(super) mod sets;
mod table;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::beyond::inventory::pick::Seen;
use crate::beyond::job::{
    Compared, ComparedFiles, Diff, DiffCondition, DiffConditions, DiffReport, DiffTotals, Failure, Judged,
    ListedKernels,
};
use clap::Parser;

use super::files::{self, FollowOptions};
use super::judged::Judgement;
use super::kernels::demangle::Demangler;
use super::patterns::{self, ExactOption, Patterns};
use super::print::json::Document;
use super::print::out::{Out, to_stdout};
use super::print::problem::Problem;
use super::print::text::{TableOptions, Text};
use super::subcommand::{Options, heading};
use crate::llvm::cli::print::console::Console;
use sets::FileSets;
use table::DiffTable;

/// Compare the GPU code objects of two files, directories or wheels
#[derive(Clone, Debug, Parser)]
pub(super) struct DiffOptions {
    /// File, or directory of files, to compare with.
    old: PathBuf,
    /// File, or directory of files, to compare.
    new: PathBuf,
    #[command(flatten)]
    search: FollowOptions,
    #[arg(
        help_heading = heading::SELECTION,
        short, long, value_name = "PATTERN", value_delimiter = ',', value_parser = patterns::parse, help = patterns::TARGETS,
        long_help = patterns::targets("code objects", "compared"),
    )]
    target: Vec<Patterns>,
    #[command(flatten)]
    comparison: ExactOption,
    /// Do not read code of the same size and recorded hash or checksum.
    #[arg(
        long,
        long_help = "Do not read code with the same recorded hash or checksum, and the same size, in both: compressed bundles and \
            members of wheels. This is fast, but broken files may be called equal. The report ends with the number of code objects that are \
            equal by their recorded hash or checksum only."
    )]
    trust_hashes: bool,
    /// Show only the first N kernels; without it, 20 in the table and all in JSON.
    #[arg(long, value_name = "N", help_heading = heading::OUTPUT)]
    top: Option<usize>,
    /// Exit with status 1 on any of: lost-gpu, spill, size=+N%, total=+N%.
    #[arg(
        long, value_name = "CONDITION", value_delimiter = ',', value_parser = DiffCondition::parse,
        long_help = "Exit with status 1 on lost-gpu (code for a GPU is gone), spill (a kernel spills more), size=+N% (all device code, or \
            that for a GPU, grows by more than N percent) or total=+N% (all device code grows by more than N percent), in a comma list. \
            `man offload-bundle-diff` explains them."
    )]
    fail_on: Vec<DiffCondition>,
    /// Succeed even if --target matches nothing, or --fail-on judges nothing.
    #[arg(
        long,
        long_help = "Succeed even if --target matches nothing in either file, or --fail-on has nothing to judge."
    )]
    allow_none: bool,
    /// Print a JSON document, described by docs/diff.schema.json.
    #[arg(long, help_heading = heading::OUTPUT)]
    json: bool,
    #[command(flatten)]
    table: TableOptions,
}

/// The largest number of kernels in a table without `--top`.
const DEFAULT_TOP: usize = 20;

impl Options for DiffOptions {
    fn run(&self, console: &mut Console) -> anyhow::Result<ExitCode> {
        let Self { old, new, .. } = self;
        let conditions = DiffConditions(self.fail_on.clone());
        let FileSets { paths, pairs, mut problems } = FileSets::new(&self.search.search, [old, new])?;
        let mut job = Diff::default();
        job.selection = self.comparison.selection(&self.target);
        job.scan = self.search.scan(&paths);
        job.trust_hashes = self.trust_hashes;
        let (mut report, mut seen) = (DiffReport::new(old, new), Seen::default());
        // Pipes are read one at a time only if several items have one. Here, only files that the command line names may
        // be pipes, and these are a single pair.
        let one_by_one = false;
        let written = to_stdout(|out| {
            let (mut printer, mut written) = (Printer::begin(self, out)?, Ok(()));
            let mut compared_files = ComparedFiles::default();
            files::for_each(
                pairs,
                one_by_one,
                |pair| pair.compare(&job, self.listed()),
                Compared::weight,
                |compared| match compared {
                    Ok(mut compared) => {
                        problems.extend(compared.diff.problems.drain(..).map(Problem::from));
                        compared_files.add(&compared);
                        seen.extend(std::mem::take(&mut compared.diff.seen));
                        if written.is_ok() {
                            written = printer.add(compared);
                        }
                    }
                    Err(error) => problems.push(error.into()),
                },
            );
            let (total, errors) = compared_files.finish();
            problems.extend(errors.into_iter().map(Problem::from));
            report.total = total;
            report.failures = failures(&conditions, &report.total);
            let matches = patterns::ensure_match(self.allow_none, &seen, &job.selection, &paths, !problems.is_empty());
            // If `--target` matches nothing, that is the error, which is returned below.
            if matches.is_ok() {
                self.add_error_if_not_judged(&conditions, &report, &mut problems);
            }
            written?;
            printer.end(&report, &problems)
        });
        let has_problems = !problems.is_empty();
        problems.extend(report.failures.iter().map(Problem::from));
        let status = console.problems(&problems);
        for condition in conditions.unrecorded(&report.total) {
            console.warning(&format!("no code in '{}' records what '{condition}' asks for", old.display()));
        }
        written?;
        patterns::ensure_match(self.allow_none, &seen, &job.selection, &paths, has_problems)?;
        Ok(status)
    }
}

/// Returns a failure for each condition of `--fail-on` that is met.
fn failures(conditions: &DiffConditions, total: &DiffTotals) -> Vec<Failure> {
    let demangler = Demangler::default();
    conditions.failures(total, &|name| demangler.demangled(name))
}

/// Prints the differences of each pair of files, and the sums over all pairs.
enum Printer<'r, 'o> {
    Json(Document<'o>),
    Table(DiffTable<'r, 'o>),
}

impl<'r, 'o> Printer<'r, 'o> {
    /// Begins the report in the form that the options ask for.
    fn begin(options: &'r DiffOptions, out: Out<'o>) -> anyhow::Result<Self> {
        let DiffOptions { old, new, .. } = options;
        if options.json {
            return Ok(Self::Json(Document::begin(&DiffReport::new(old, new), "files", out)?));
        }
        let text = Text { style: options.table.style(), out };
        Ok(Self::Table(DiffTable::new([old, new], options.top(), text)))
    }

    /// Writes the differences of a pair, or adds them to the tables, which are written in the end. A document lists no
    /// pair without differences.
    fn add(&mut self, compared: Compared) -> anyhow::Result<()> {
        match self {
            Self::Json(_) if compared.diff.code_objects.is_empty() => Ok(()),
            Self::Json(document) => document.item(&compared),
            Self::Table(table) => {
                table.add(compared);
                Ok(())
            }
        }
    }

    fn end(self, report: &DiffReport, problems: &[Problem]) -> anyhow::Result<()> {
        match self {
            Self::Json(document) => document.end(report, problems),
            Self::Table(table) => Ok(table.write(&report.total)?),
        }
    }
}

/// Returns the error that `--fail-on` judged nothing, because a file has no code to compare with the other.
fn without_code(path: &Path) -> String {
    format!("'{}' has no device code to compare with, so --fail-on judged nothing", path.display())
}

impl DiffOptions {
    /// Returns the largest number of kernels that are listed: in the table, or of each file.
    fn top(&self) -> usize {
        self.top.unwrap_or(if self.json { usize::MAX } else { DEFAULT_TOP })
    }

    /// Returns the largest number of kernels that are listed of each pair of files, and which kernels these are. In a
    /// table, a kernel that relocatable and linked code have with the same numbers counts once.
    fn listed(&self) -> (usize, ListedKernels) {
        (self.top(), if self.json { ListedKernels::All } else { ListedKernels::WithoutRepeats })
    }

    /// Adds the error that `--fail-on` had nothing to judge. Adds nothing if there are no conditions, or if one of them
    /// is met.
    fn add_error_if_not_judged(
        &self,
        conditions: &DiffConditions,
        DiffReport { total, failures, .. }: &DiffReport,
        problems: &mut Vec<Problem>,
    ) {
        if conditions.is_empty() || !failures.is_empty() {
            return;
        }
        let judged = conditions.judged(total);
        let named = [&self.old, &self.new].into_iter();
        let judgement = Judgement::new(&self.search.search, named, self.allow_none);
        judgement.add_error_if_not_judged(judged, || self.error_if_not_judged(judged, total), problems);
    }

    /// Returns the error that `--fail-on` judged nothing: code that records no numbers, or a file without code.
    fn error_if_not_judged(&self, judged: Judged, total: &DiffTotals) -> String {
        if judged == Judged::Unrecorded {
            return "no code records what --fail-on asks for, so nothing was judged".to_owned();
        }
        match (total.all().old.code_objects, total.all().new.code_objects) {
            (0, 0) => "no device code was read, so --fail-on judged nothing".to_owned(),
            (0, _) => without_code(&self.old),
            // If both had code, the conditions would have had something to judge.
            _ => without_code(&self.new),
        }
    }
}

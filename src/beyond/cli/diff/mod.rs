//! `diff`: compares the device code of two files, directories or wheels.

pub(super) mod compared;
mod fail;
mod kernel;
pub(super) mod sets;
mod table;
pub(super) mod total;

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::base::io::write_file;
use crate::beyond::inventory::pick::Seen;
use crate::beyond::job::Diff;
use crate::beyond::serialized::DiffReport;
use clap::Parser;
use clap::error::ErrorKind;

use super::files::{self, FollowOptions, Problems};
use super::judged::{Judged, Judgement};
use super::patterns::{self, ExactOption, Patterns};
use super::picture::{changes, ensure_apart};
use super::print::json::{self, ComputedLate, Streamed};
use super::print::problem::Problem;
use super::print::text::{TableOptions, Text};
use super::subcommand::{Options, heading, refuse};
use crate::llvm::cli::print::console::Console;
use compared::Compared;
use fail::{DiffConditions, FailOnValue};
use sets::FileSets;
use total::DiffTotal;

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
    /// Do not read code with the same recorded hash or checksum, and the same size, in both.
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
    /// Exit with status 1 on lost-gpu, spill, size=+N% or total=+N%, in a comma list.
    #[arg(
        long, value_name = "CONDITION", value_delimiter = ',', value_parser = FailOnValue::parse,
        long_help = "Exit with status 1 on lost-gpu (code for a GPU is gone), spill (a kernel spills more), size=+N% (all device code, or \
            that for a GPU, grows by more than N percent, or bytes: +1MB) or total=+N% (all device code grows more), in a comma \
            list. With min=N in the list, size= counts only code of at least N bytes (100kB). `man offload-bundle-diff` explains them."
    )]
    fail_on: Vec<FailOnValue>,
    /// Succeed even if --target matches nothing in either file, or --fail-on has nothing to judge.
    #[arg(long)]
    allow_none: bool,
    /// Print a JSON document, described by docs/diff.schema.json.
    #[arg(long, help_heading = heading::OUTPUT)]
    json: bool,
    #[command(flatten)]
    table: TableOptions,
    /// Also draw the sizes of each GPU's code before and now.
    #[arg(long, value_name = "FILE", help_heading = heading::OUTPUT)]
    svg: Option<PathBuf>,
}

/// The number of kernels in a table.
const TOP: usize = 20;

impl Options for DiffOptions {
    fn run(&self, console: &mut Console) -> anyhow::Result<ExitCode> {
        let Self { old, new, .. } = self;
        let conditions = match DiffConditions::new(&self.fail_on) {
            Ok(conditions) => conditions,
            Err(text) => return refuse::<Self>(console, ErrorKind::ArgumentConflict, text),
        };
        let is_json = self.json;
        let top = self.top.unwrap_or(if is_json { usize::MAX } else { TOP });
        let FileSets { paths, pairs, problems } = FileSets::new(&self.search.search, [old, new])?;
        ensure_apart(("--svg", self.svg.as_deref()), paths.iter().chain([old, new]))?;
        let mut job = Diff::default();
        job.selection = self.comparison.selection(&self.target);
        job.scan = self.search.scan(&paths);
        job.trust_hashes = self.trust_hashes;
        let problems = RefCell::new(problems);
        let is_tree = old.is_dir();
        let (total, seen) = (RefCell::new(DiffTotal::default()), RefCell::new(Seen::default()));
        // Pipes are read one at a time only if several items have one. Here, only files that the command line names may
        // be pipes, and these are a single pair.
        let in_turn = false;
        let written = files::report(
            pairs,
            in_turn,
            |pair| if is_json { Compared::new(&job, pair, top) } else { Compared::for_table(&job, pair, top) },
            Compared::weight,
            |compared, problems| {
                problems.extend(compared.diff.problems.drain(..).map(Problem::from));
                total.borrow_mut().add(compared);
                seen.borrow_mut().extend(std::mem::take(&mut compared.diff.seen));
            },
            &problems,
            |compared, out| {
                if !is_json {
                    let text = Text { style: self.table.style(), out };
                    return table::write([old, new], compared, &total, is_tree, top, text);
                }
                let (old, new) = (old.to_string_lossy(), new.to_string_lossy());
                // Pairs without differences are not listed, but count in the total. The values after the files are
                // complete only after the last file.
                let files = Streamed::new(compared.filter(|compared| !compared.diff.code_objects.is_empty()));
                let failures = ComputedLate(|| {
                    self.add_error_if_not_judged(&conditions, &total.borrow(), &seen.borrow(), &job, &paths, &problems);
                    conditions.failures(&total.borrow())
                });
                json::write(DiffReport { old, new, files, total: &total, failures }, &problems, out)
            },
        );
        let (total, seen) = (total.into_inner(), seen.into_inner());
        // A JSON document has this error already. Then this call adds nothing, because there is a problem.
        self.add_error_if_not_judged(&conditions, &total, &seen, &job, &paths, &problems);
        let is_complete = problems.borrow().is_empty();
        let mut problems = problems.into_inner();
        problems.extend(conditions.failures(&total).iter().map(Problem::from));
        let status = console.problems(&problems);
        for condition in conditions.unrecorded(&total) {
            console.warning(&format!("no code in '{}' records what '{condition}' asks for", old.display()));
        }
        let drawn = match &self.svg {
            Some(path) if is_complete => write_file(path, changes::picture(&total).as_bytes()),
            // The picture would show unread code as lost or new.
            Some(path) => {
                console.last_hints.push(format!("'{}' is not written because of the errors", path.display()));
                Ok(())
            }
            None => Ok(()),
        };
        written?;
        drawn?;
        patterns::ensure_match(self.allow_none, &seen, &job.selection, &paths, !is_complete)?;
        Ok(status)
    }
}

/// Returns the error that `--fail-on` judged nothing, because a file has no code to compare with the other.
fn without_code(path: &Path) -> String {
    format!("'{}' has no device code to compare with, so --fail-on judged nothing", path.display())
}

impl DiffOptions {
    /// Adds the error that `--fail-on` had nothing to judge. Adds nothing if there are no conditions, if one of them is
    /// met, or if a filter matches nothing, which is another error.
    fn add_error_if_not_judged(
        &self,
        conditions: &DiffConditions,
        total: &DiffTotal,
        seen: &Seen,
        job: &Diff,
        paths: &[PathBuf],
        problems: &Problems,
    ) {
        let has_problems = !problems.borrow().is_empty();
        let matches = patterns::ensure_match(self.allow_none, seen, &job.selection, paths, has_problems);
        if matches.is_err() || conditions.is_empty() || !conditions.failures(total).is_empty() {
            return;
        }
        let judged = conditions.judged(total);
        let named = [&self.old, &self.new].into_iter();
        let judgement = Judgement::new(&self.search.search, named, self.allow_none);
        judgement.add_error_if_not_judged(
            judged,
            || self.error_if_not_judged(judged, total),
            &mut problems.borrow_mut(),
        );
    }

    /// Returns the error that `--fail-on` judged nothing: code that records no numbers, or a file without code.
    fn error_if_not_judged(&self, judged: Judged, total: &DiffTotal) -> String {
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

//! `report`: a page for a browser with the sizes, the GPUs and the kernels in files, and with what changed.

mod columns;
mod page;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::base::error::Result;
use crate::base::io::write_file;
use crate::beyond::job::{Diff, Inspected, ListKernels};
use anyhow::ensure;
use clap::Parser;

use super::diff::compared::Compared;
use super::diff::sets::FileSets;
use super::diff::total::DiffTotal;
use super::files::{self, FollowOptions, Problems, WorkFile};
use super::kernels::report::{FileKernels, WantedKernels, with_uris};
use super::picture::ensure_apart;
use super::print::problem::Problem;
use super::subcommand::Options;
use crate::llvm::cli::print::console::Console;
use columns::Columns;
use page::{Changes, Page};

/// Write a page for a browser: sizes, GPUs and kernels
#[derive(Clone, Debug, Parser)]
pub(super) struct ReportOptions {
    /// Files to read, and directories of such files.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Page to write, such as report.html; - writes to standard output.
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// Compare two files, directories or wheels: OLD NEW. The page is about NEW, and shows what changed.
    #[arg(long)]
    diff: bool,
    #[command(flatten)]
    search: FollowOptions,
}

impl Options for ReportOptions {
    fn run(&self, console: &mut Console) -> anyhow::Result<ExitCode> {
        ensure_apart(("-o", Some(&self.output)), self.files.iter())?;
        let problems = Problems::default();
        let mut page = Page::default();
        let shown = match (self.diff, self.files.as_slice()) {
            (false, files) => files,
            (true, [old, new]) => {
                let is_read_once = new == Path::new("-") || new.exists() && !new.is_file() && !new.is_dir();
                ensure!(
                    !is_read_once,
                    "'{}': --diff reads the new file twice: write it to a file first",
                    new.display()
                );
                page.changes = Some(self.compare([old, new], &problems)?);
                std::slice::from_ref(new)
            }
            (true, files) => {
                ensure!(files.len() == 2, "--diff compares two files: OLD NEW");
                files
            }
        };
        self.read(shown, &mut page, &problems)?;
        let (mut problems, mut known) = (problems.into_inner(), HashSet::new());
        problems.retain(|problem| known.insert(problem.text.clone()));
        let status = console.problems(&problems);
        if page.files == 0 && !problems.is_empty() {
            return Ok(status);
        }
        write_file(&self.output, page.html(shown, &problems)?.as_bytes())?;
        Ok(status)
    }
}

impl ReportOptions {
    /// Reads the code objects and kernels of files.
    fn read(&self, paths: &[PathBuf], page: &mut Page, problems: &Problems) -> anyhow::Result<()> {
        let (files, found, scan) = self.search.files(paths);
        ensure_apart(("-o", Some(&self.output)), found.iter())?;
        let mut job = ListKernels::default();
        job.scan = scan;
        let read = |file: Result<WorkFile>| -> Result<(Inspected, FileKernels)> {
            let (inspected, kernels) = job.run_with_inspected(&file?.open(job.scan.limits)?)?;
            let wanted = WantedKernels { name: None, hostcall: false, fail_on: &[], order: None };
            Ok((inspected, FileKernels::new(kernels, wanted)?))
        };
        let mut others = 0;
        let note = |(_, kernels): &mut (Inspected, FileKernels), problems: &mut Vec<Problem>| {
            problems.extend(kernels.problems.iter().map(Problem::from));
            others += kernels.sums.others.total();
        };
        let in_turn = files::has_pipes(&files);
        let weight = |(inspected, kernels): &(Inspected, FileKernels)| inspected.bundles.len() + kernels.rows.len() + 1;
        files::report(files, in_turn, read, weight, note, problems, |files, _| {
            for (inspected, kernels) in files {
                page.files += 1;
                page.libraries.add(&inspected);
                with_uris(kernels.rows.into_iter()).try_for_each(|row| page.kernels.add(&row, is_shown))?;
            }
            Ok(())
        })?;
        page.others = others;
        Ok(())
    }

    /// Compares two files or directories.
    fn compare(&self, paths: [&PathBuf; 2], problems: &Problems) -> anyhow::Result<Changes> {
        let sets = FileSets::new(&self.search.search, paths)?;
        ensure_apart(("-o", Some(&self.output)), sets.paths.iter())?;
        problems.borrow_mut().extend(sets.problems);
        let mut job = Diff::default();
        job.scan = self.search.scan(&sets.paths);
        let (mut total, mut kernels) = (DiffTotal::default(), Columns::default());
        let compare = |pair| Compared::new(&job, pair, usize::MAX);
        let note = |compared: &mut Compared, problems: &mut Vec<Problem>| {
            problems.extend(compared.diff.problems.drain(..).map(Problem::from));
            total.add(compared);
        };
        files::report(sets.pairs, false, compare, Compared::weight, note, problems, |compared, _| {
            for pair in compared {
                pair.kernels().try_for_each(|row| kernels.add(&row, is_shown))?;
            }
            Ok(())
        })?;
        Ok(Changes { total, kernels })
    }
}

/// Whether a field of a kernel is in the page.
fn is_shown(field: &str) -> bool {
    !matches!(field, "constant_bank" | "bundle" | "origin")
}

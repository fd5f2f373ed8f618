//! `report`: a page for a browser with the sizes, the GPUs and the kernels in files, and the differences between files.

mod changes;
mod columns;
mod page;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::base::error::Result;
use crate::base::io::write_file;
use crate::beyond::inventory::Contents;
use crate::beyond::job::{Compared, ComparedFiles, Diff, KernelsOfFile, ListKernels, ListedKernels, WantedKernels};
use anyhow::{bail, ensure};
use clap::Parser;

use super::diff::sets::FileSets;
use super::files::{self, FollowOptions, WorkFile};
use super::kernels::demangle::Demangler;
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
    /// Compare two files, directories or wheels: OLD NEW.
    #[arg(
        long,
        long_help = "Compare two files, directories or wheels: OLD NEW. The page is about NEW, and shows the differences."
    )]
    diff: bool,
    #[command(flatten)]
    search: FollowOptions,
}

impl Options for ReportOptions {
    fn run(&self, console: &mut Console) -> anyhow::Result<ExitCode> {
        ensure_apart(("-o", Some(&self.output)), self.files.iter())?;
        let mut problems = Vec::new();
        let mut page = Page::default();
        let mut shown_paths = self.files.as_slice();
        if self.diff {
            let [old, new] = shown_paths else { bail!("--diff compares two files: OLD NEW") };
            // Standard input and pipes have no content left for a second reading.
            let is_read_once = new == Path::new("-") || new.exists() && !new.is_file() && !new.is_dir();
            ensure!(!is_read_once, "'{}': --diff reads the new file twice: write it to a file first", new.display());
            page.changes = Some(self.compare([old, new], &mut problems)?);
            shown_paths = std::slice::from_ref(new);
        }
        self.read_into(shown_paths, &mut page, &mut problems)?;
        // With --diff, the new file is read twice, and each of its problems is found twice.
        let mut seen_texts = HashSet::new();
        problems.retain(|problem| seen_texts.insert(problem.text.clone()));
        let status = console.problems(&problems);
        // If no file could be read, no page is written, and an earlier one stays.
        if page.files == 0 && !problems.is_empty() {
            return Ok(status);
        }
        write_file(&self.output, page.html(&self.files, &problems)?.as_bytes())?;
        Ok(status)
    }
}

impl ReportOptions {
    /// Reads the code objects and kernels of files into the page. Adds errors of files to `problems`.
    fn read_into(&self, paths: &[PathBuf], page: &mut Page, problems: &mut Vec<Problem>) -> anyhow::Result<()> {
        let (files, found_paths, scan) = self.search.files(paths);
        ensure_apart(("-o", Some(&self.output)), found_paths.iter())?;
        let mut job = ListKernels::default();
        job.scan = scan;
        let one_by_one = files::has_several_pipes(&files);
        let mut added = Ok(());
        files::for_each(
            files,
            one_by_one,
            |file| read_file(&job, file),
            weight,
            |read| match read {
                Ok((contents, kernels)) => {
                    problems.extend(contents.problems.iter().chain(&kernels.problems).map(Problem::from));
                    if added.is_ok() {
                        added = page.add_file(&contents, &kernels);
                    }
                }
                Err(error) => problems.push(error.into()),
            },
        );
        Ok(added?)
    }

    /// Compares two files or directories. Adds the errors of files that cannot be listed or read to `problems`.
    fn compare(&self, paths: [&PathBuf; 2], problems: &mut Vec<Problem>) -> anyhow::Result<Changes> {
        let sets = FileSets::new(&self.search.search, paths)?;
        ensure_apart(("-o", Some(&self.output)), sets.paths.iter())?;
        problems.extend(sets.problems);
        let mut job = Diff::default();
        job.scan = self.search.scan(&sets.paths);
        let (mut files, mut kernels, mut added) = (ComparedFiles::default(), Columns::default(), Ok(()));
        // Only files that the command line names may be pipes, and these are a single pair.
        let one_by_one = false;
        // The page can sort and filter its kernels, so it has all of them.
        let all_kernels = (usize::MAX, ListedKernels::All);
        files::for_each(
            sets.pairs,
            one_by_one,
            |pair| pair.compare(&job, all_kernels),
            Compared::weight,
            |compared| match compared {
                Ok(mut compared) => {
                    problems.extend(compared.diff.problems.drain(..).map(Problem::from));
                    files.add(&compared);
                    if added.is_ok() {
                        added = compared.rows.kept.iter().try_for_each(|kernel| kernels.add(kernel, is_shown));
                    }
                }
                Err(error) => problems.push(error.into()),
            },
        );
        added?;
        let (total, errors) = files.finish();
        problems.extend(errors.into_iter().map(Problem::from));
        Ok(Changes { total, kernels })
    }
}

impl Page {
    /// Adds a file.
    fn add_file(&mut self, contents: &Contents, kernels: &KernelsOfFile) -> serde_json::Result<()> {
        self.files += 1;
        // Code of other kinds, such as PTX, has no registers before it is compiled.
        self.without_registers += kernels.sums.others.values().sum::<usize>();
        self.libraries.add(contents);
        kernels.rows.iter().try_for_each(|kernel| self.kernels.add(kernel, is_shown))
    }
}

/// The code objects and kernels of a file.
type ReadFile = (Contents, KernelsOfFile);

/// Reads a file once, for its code objects and its kernels.
fn read_file(job: &ListKernels, file: Result<WorkFile>) -> Result<ReadFile> {
    let (contents, kernels) = job.run_with_contents(&file?.open(job.scan.limits)?)?;
    // The page lists all kernels; its script filters and sorts them.
    let (wanted, demangler) = (WantedKernels::default(), Demangler::default());
    Ok((contents, KernelsOfFile::new(kernels, wanted, &|name| demangler.demangled(name))?))
}

/// Returns the number of findings in a file. The sum limits the files that wait to be added to the page.
fn weight((contents, kernels): &ReadFile) -> usize {
    contents.bundles.len() + kernels.rows.len() + 1
}

/// Returns whether a field of a kernel is in the page. No table of the page shows the other fields.
fn is_shown(field: &str) -> bool {
    !matches!(field, "constant_bank" | "bundle" | "origin")
}

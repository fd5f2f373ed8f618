//! `verify`: checks the device code in files.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::Hash;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use crate::base::error::Result;
use crate::beyond::inventory::UnreadPart;
use crate::beyond::job::{Expect, ExpectTree, Fault, KpackTree, Verified, Verify, VerifyRule};
use crate::beyond::runtime::Device;
use crate::beyond::scan::{Follow, Place};
use crate::beyond::serialized::{FaultOfTree, VerifyReport, VerifyTotal};
use clap::Parser;

use super::files::{self, Problems, SearchOptions, WorkFile};
use super::gpus::Gpus;
use super::judged::{Judged, Judgement};
use super::print::json::{self, ComputedLate, Streamed};
use super::print::out::Out;
use super::print::problem::Problem;
use super::print::units::{CountsByKind, count};
use super::subcommand::{Options, heading};
use crate::llvm::cli::print::console::Console;

/// Check bundles and GPU code objects for faults
#[derive(Clone, Debug, Parser)]
pub(super) struct VerifyOptions {
    /// Files to check, and directories of such files.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    search: SearchOptions,
    /// Succeed even if no device code was read, for trees without device code.
    #[arg(long)]
    allow_none: bool,
    /// GPUs that every bundle must serve (gfx90a, MI300X, native): a comma list, or a file of names.
    #[arg(long, value_name = "GPUS", value_parser = Gpus::parse)]
    expect: Option<Gpus>,
    /// Like --expect, and code that none of these GPUs needs is a fault.
    #[arg(long, value_name = "GPUS", value_parser = Gpus::parse, conflicts_with = "expect")]
    expect_exactly: Option<Gpus>,
    /// GPUs that every library must serve with any of its bundles.
    #[arg(long, value_name = "GPUS", value_parser = Gpus::parse, conflicts_with_all = ["expect", "expect_exactly"])]
    expect_any: Option<Gpus>,
    /// Report bundles, fatbins and offload binaries with more than SIZE bytes (default: 64K) of plain code.
    #[arg(
        long, value_name = "SIZE", num_args = 0..=1, require_equals = true, default_missing_value = "64K",
        value_parser = files::parse_size,
        long_help = "Report bundles, CUDA fatbins and offload binaries with more plain code than SIZE bytes, optionally with suffix K, M \
            or G; 64K without a SIZE. A compressed bundle has no plain code; in a fatbin, code that is not compressed \
            counts, PTX included. Text bundles, fat objects, device images of SYCL and code without a bundle are not reported."
    )]
    compressed: Option<u64>,
    /// Print a JSON document, described by docs/verify.schema.json.
    #[arg(long, help_heading = heading::OUTPUT)]
    json: bool,
}

/// A file and its result.
type CheckedFile = (WorkFile, Verified);

/// The results of all files so far.
struct Outcome {
    total: VerifyTotal,
    /// The number of unread parts of each kind.
    unread: CountsByKind,
    /// The split libraries of ROCm and the kpack archives with their code, which are compared after the last file.
    kpack: KpackTree,
    /// The files that must serve the expected GPUs together, or `None` if no GPUs are expected.
    together: Option<ExpectTree>,
    /// The expected GPUs that no file has served, and that no fault names.
    unserved: Vec<Device>,
    /// `None` as long as all bundles serve the expected GPUs. If some do not, whether each library with such a bundle
    /// serves the GPUs with other bundles. In that case, `--expect-any` would accept the libraries.
    is_served_by_libraries: Option<bool>,
    judgement: Judgement,
    /// The number of problems that the end of the search added: GPUs that no file serves, or that nothing was verified.
    /// All other problems are about data that could not be read.
    own_problems: usize,
}

impl Outcome {
    /// Returns the outcome before the first file. `paths` are those of all files: libraries of a directory may serve
    /// the expected GPUs together.
    fn new(expect: Option<&Expect>, paths: &[PathBuf], judgement: Judgement) -> Self {
        let (mut together, mut unserved) = (None, Vec::new());
        if let Some(expect) = expect {
            unserved.extend_from_slice(&expect.devices);
            together = Some(ExpectTree::new(expect.clone(), paths.iter().map(PathBuf::as_path)));
        }
        let (total, unread, kpack) = (VerifyTotal::default(), CountsByKind::default(), KpackTree::default());
        Self { total, unread, kpack, together, unserved, is_served_by_libraries: None, judgement, own_problems: 0 }
    }

    /// Adds the result of a file.
    fn add(&mut self, (file, verified): &mut CheckedFile) {
        if let Some(together) = &mut self.together {
            together.add(verified, file.is_named());
        }
        // A GPU is reported as served by no file only if no file serves it and no fault is about it already.
        self.unserved.retain(|gpu| {
            !verified.served.iter().any(|name| name == gpu.name()) && !is_in_faults(gpu.name(), &verified.faults)
        });
        // A file that serves all expected GPUs says nothing about `--expect-any`. The option would accept the files
        // only if it accepts each file that has such a fault.
        if verified.faults.iter().any(|fault| fault.rule == VerifyRule::Expected) {
            let are_earlier_served = self.is_served_by_libraries.unwrap_or(true);
            self.is_served_by_libraries = Some(are_earlier_served && verified.is_served_by_libraries);
        }
        self.total.add(verified);
        for unread in &verified.unread {
            self.unread.add(unread.what.name(), 1);
        }
        for (name, more) in &verified.more_unread {
            self.unread.add(name, *more);
        }
        let is_from_directory = !file.is_named();
        self.kpack.add(verified, is_from_directory);
    }

    /// Returns the faults that only several files together show. Adds problems for expected GPUs that no file serves,
    /// or one if nothing was verified. Call it after the last file; a second call does nothing.
    fn finish(&mut self, problems: &Problems) -> Vec<Fault> {
        let of_directories = self.together.take().map(ExpectTree::faults).unwrap_or_default();
        // A fault means that the libraries of a directory do not serve an expected GPU even together.
        if !of_directories.is_empty() {
            self.is_served_by_libraries = Some(false);
        }
        // A GPU that a fault names is not reported again as a problem.
        self.unserved.retain(|gpu| !is_in_faults(gpu.name(), &of_directories));
        let mut faults = std::mem::take(&mut self.kpack).faults();
        faults.extend(of_directories);
        self.total.faults += faults.len();
        // All problems that are added from here on are our own, and not errors of reading.
        let before = problems.borrow().len();
        // In a second call, there is a problem already if nothing was verified, and no other is added.
        self.judgement.add_error_if_not_judged(
            self.judged(),
            || "no device code was read, so nothing was verified".to_owned(),
            problems,
        );
        if !self.total.is_none() {
            let unserved = std::mem::take(&mut self.unserved);
            self.total.faults += unserved.len();
            for gpu in unserved {
                problems.borrow_mut().push(format!("no code in any file serves {gpu}").into());
            }
        }
        self.own_problems += problems.borrow().len() - before;
        faults
    }

    /// Returns [`Judged::Something`] if device code was verified, and [`Judged::Elsewhere`] if all of it is in kpack
    /// archives that were not searched.
    fn judged(&self) -> Judged {
        if !self.total.is_none() {
            Judged::Something
        } else if self.total.kpack_references == 0 {
            Judged::Nothing
        } else {
            Judged::Elsewhere
        }
    }

    /// Returns whether there are neither faults nor problems, which decides the exit status.
    fn is_clean(&self, problems: &[Problem]) -> bool {
        problems.is_empty() && self.total.faults == 0
    }

    /// Returns the last line of the report: the numbers of checked bundles and code objects, of faults and of errors.
    fn verdict(&self, problems: &[Problem]) -> String {
        let mut parts = vec![numbers_checked(&self.total)];
        if self.total.faults > 0 {
            parts.push(count(self.total.faults, "fault", "faults"));
        }
        // Our own problems are about all files. They count as faults, or say that nothing was verified.
        let errors = problems.len() - self.own_problems;
        if errors > 0 {
            parts.push(count(errors, "error", "errors"));
        }
        // These are not a fault: a program may define the symbols, or never load the code.
        if self.total.undefined > 0 {
            parts.push(format!("{} with undefined symbols", self.total.undefined));
        }
        if self.is_clean(problems) {
            parts.push("nothing wrong".to_owned());
        }
        parts.join(", ")
    }
}

/// Returns whether a fault names the GPU.
fn is_in_faults(gpu: &str, faults: &[Fault]) -> bool {
    faults.iter().any(|fault| fault.gpu.as_deref() == Some(gpu))
}

impl VerifyOptions {
    /// Returns the GPUs that an option expects, or `None` without such an option.
    fn expect(&self) -> Option<Expect> {
        if let Some(Gpus(gpus)) = &self.expect {
            return Some(Expect::new(gpus.clone()));
        }
        if let Some(Gpus(gpus)) = &self.expect_exactly {
            return Some(Expect::exactly(gpus.clone()));
        }
        if let Some(Gpus(gpus)) = &self.expect_any {
            return Some(Expect::libraries(gpus.clone()));
        }
        None
    }

    /// Prints the report of each file as soon as it is available, and then the total.
    fn print(
        &self,
        files: &mut dyn Iterator<Item = CheckedFile>,
        has_total: bool,
        outcome: &RefCell<Outcome>,
        problems: &Problems,
        mut out: Out<'_>,
    ) -> anyhow::Result<()> {
        if self.json {
            // Fields are serialized in order: going through `files` fills `outcome`, `faults` finishes it, and
            // `total` reads the result.
            let files = Streamed::new(files.map(|(_, verified)| verified));
            let faults = ComputedLate(|| {
                let faults = outcome.borrow_mut().finish(problems);
                faults.into_iter().map(FaultOfTree::new).collect::<Vec<_>>()
            });
            let total = ComputedLate(|| outcome.borrow().total.clone());
            return json::write(VerifyReport { files, faults, total }, problems, out);
        }
        for checked in files {
            write_file(&checked, has_total, &mut out)?;
        }
        let faults = outcome.borrow_mut().finish(problems);
        for fault in faults {
            out.write_line(&fault.to_string())?;
        }
        Ok(self.write_summary(has_total, &outcome.borrow(), &problems.borrow(), &mut out)?)
    }

    /// Writes the last line: the total of all files, or the result of the only one.
    fn write_summary(
        &self,
        has_total: bool,
        outcome: &Outcome,
        problems: &[Problem],
        out: &mut Out<'_>,
    ) -> io::Result<()> {
        let Outcome { total, unread, .. } = outcome;
        let verdict = outcome.verdict(problems);
        if has_total {
            let unread = if total.unread == 0 { String::new() } else { format!("; not read: {unread}") };
            return out.write_line(&format!("Total: {}, {verdict}{unread}", count(total.files, "file", "files")));
        }
        match self.files.as_slice() {
            // If the only file could not be read, its error is all there is to say.
            [file] if total.files > 0 => out.write_line(&format!("{}: {verdict}", file.to_string_lossy())),
            _ => Ok(()),
        }
    }
}

/// Opens a file and verifies it.
fn check_file(verify: &Verify, file: Result<WorkFile>) -> Result<CheckedFile> {
    let file = file?;
    let verified = verify.check(&file.open(verify.scan.limits)?)?;
    Ok((file, verified))
}

/// Returns the number of lines that a result needs, which limits how many results wait to be printed.
fn weight((_, verified): &CheckedFile) -> usize {
    1 + verified.faults.len() + verified.unread.len()
}

impl Options for VerifyOptions {
    fn run(&self, console: &mut Console) -> anyhow::Result<ExitCode> {
        let mut verify = Verify::default();
        verify.scan = self.search.scan(Some(Arc::new(Follow::from_environment())));
        verify.expect = self.expect();
        if let Some(expect) = &verify.expect {
            Gpus::warn_of_unknown(&expect.devices, console);
        }
        // With `--compressed=SIZE`, a bundle with more than SIZE bytes of plain code is a fault.
        verify.plain_max = self.compressed;
        let has_total = self.files.len() > 1 || self.files.iter().any(|path| path.is_dir());
        let judgement = Judgement::new(&self.search, self.files.iter(), self.allow_none);
        let files = self.search.files(&self.files);
        let outcome = RefCell::new(Outcome::new(verify.expect.as_ref(), &files::paths(&files), judgement));
        let problems = Problems::default();
        let in_turn = files::has_pipes(&files);
        let written = files::report(
            files,
            in_turn,
            |file| check_file(&verify, file),
            weight,
            |checked, _| outcome.borrow_mut().add(checked),
            &problems,
            |files, out| self.print(files, has_total, &outcome, &problems, out),
        );
        let mut outcome = outcome.into_inner();
        outcome.finish(&problems);
        let problems = problems.into_inner();
        // Faults fail too, so the outcome decides the exit status below, and not the problems alone.
        console.problems(&problems);
        written?;
        if outcome.is_served_by_libraries == Some(true) {
            console.hint("each library has code for these GPUs in some of its bundles, which --expect-any accepts");
        }
        if outcome.is_clean(&problems) {
            return Ok(ExitCode::SUCCESS);
        }
        Ok(ExitCode::FAILURE)
    }
}

/// Returns the numbers of checked code objects and bundles, or the reason why nothing was checked.
fn numbers_checked(total: &VerifyTotal) -> String {
    if total.bundles == 0 && total.without_bundle == 0 {
        if total.kpack_references > 0 {
            return "device code in kpack archives".to_owned();
        }
        // If there are faults, `is_none` is false: one may be the reason why nothing was read. The numbers are 0 then.
        if total.is_none() {
            return if total.unread == 0 { "no device code" } else { "no readable device code" }.to_owned();
        }
    }
    let bare = format!("{} without a bundle", count(total.without_bundle, "code object", "code objects"));
    if total.bundles == 0 && total.without_bundle > 0 {
        return bare;
    }
    let mut details = Vec::new();
    for (number, what) in [(total.without_code, "text"), (total.unchecked, "not read and not checked")] {
        if number > 0 {
            details.push(format!("{number} {what}"));
        }
    }
    let details = if details.is_empty() { String::new() } else { format!(" ({})", details.join(", ")) };
    let bundled = count(total.code_objects - total.without_bundle, "code object", "code objects");
    let in_bundles = format!("{bundled}{details} in {}", count(total.bundles, "bundle", "bundles"));
    if total.without_bundle == 0 { in_bundles } else { format!("{in_bundles}, {bare}") }
}

/// Writes the result of a file. Writes nothing about a file in a directory that has no device code. If a total over
/// several files follows (`has_total`), the numbers of the file are written too. Whether nothing is wrong is said by
/// the total, which of a single file has its name. For a file in a directory, only unread parts that are device code
/// are reported, because most files there have none.
fn write_file((file, verified): &CheckedFile, has_total: bool, out: &mut Out<'_>) -> io::Result<()> {
    let mut total = VerifyTotal::default();
    total.add(verified);
    let mut unread = Vec::new();
    for part in &verified.unread {
        if file.is_named() || part.what.is_device_code() {
            unread.push(part);
        }
    }
    for undefined in &verified.undefined {
        out.write_line(&undefined.to_string())?;
    }
    let has_no_device_code = total.is_none() && unread.is_empty() && total.kpack_references == 0;
    if has_no_device_code && !file.is_named() {
        return Ok(());
    }
    let name = file.path.to_string_lossy();
    write_faults(&verified.faults, out)?;
    if verified.more_faults > 0 {
        let more = count(verified.more_faults, "fault is", "faults are");
        out.write_line(&format!("{name}: {more} not listed"))?;
    }
    if verified.more_undefined > 0 {
        let more = count(verified.more_undefined, "code object", "code objects");
        out.write_line(&format!("{name}: {more} with undefined symbols not listed"))?;
    }
    // The first part of a kind at a place has the number of all; its key is removed, so the others are not written.
    let mut alike = counts(unread.iter().map(|UnreadPart { place, what, .. }| (place, what.name())));
    for UnreadPart { place, offset, what, .. } in unread {
        let more = match alike.remove(&(place, what.name())) {
            None => continue,
            Some(1) => String::new(),
            Some(all) => format!(" ({} in the same place)", count(all - 1, "more", "more")),
        };
        out.write_line(&format!("{place} at offset {offset}: {}, not read{more}", what.name()))?;
    }
    // The total also counts unread parts that are not listed, because there are too many.
    let more_unread = total.unread - verified.unread.len();
    if more_unread > 0 {
        let more = count(more_unread, "part", "parts");
        out.write_line(&format!("{name}: {more} not read and not listed"))?;
    }
    if !has_total {
        return Ok(());
    }
    let mut numbers = numbers_checked(&total);
    if total.faults > 0 {
        numbers.push_str(&format!(", {}", count(total.faults, "fault", "faults")));
    }
    out.write_line(&format!("{name}: {numbers}"))
}

/// Writes a line for each fault. If several bundles of a place lack code for the same GPU, only the first has a line,
/// with the number of the other bundles. A package with 1000 bundles would fill the screen otherwise.
fn write_faults(faults: &[Fault], out: &mut Out<'_>) -> io::Result<()> {
    // The text names the GPU, so faults about different GPUs have different keys.
    fn key(fault: &Fault) -> (&Place, VerifyRule, &str) {
        (&fault.place, fault.rule, &fault.text)
    }
    let mut alike = counts(faults.iter().map(key));
    for fault in faults {
        // The number of faults like this one, or `None` if the line of an earlier one had the number.
        let number_alike = alike.remove(&key(fault));
        match (&fault.gpu, number_alike) {
            (Some(_), None) => {}
            (Some(_), Some(all @ 2..)) => {
                let more = count(all - 1, "more bundle", "more bundles");
                out.write_line(&format!("{fault} (the same in {more})"))?;
            }
            // The fault is the only one of its kind, or is not about a GPU: each of those has its own line.
            _ => out.write_line(&fault.to_string())?,
        }
    }
    Ok(())
}

/// Counts how often each key appears.
fn counts<K: Eq + Hash>(keys: impl Iterator<Item = K>) -> HashMap<K, usize> {
    let mut counts = HashMap::new();
    for key in keys {
        *counts.entry(key).or_default() += 1;
    }
    counts
}

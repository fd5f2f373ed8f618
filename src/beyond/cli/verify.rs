//! `verify`: checks the device code in files.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::Hash;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use crate::base::display::printable;
use crate::base::error::Result;
use crate::beyond::job::{Expect, ExpectTree, Fault, KpackTree, NotRead, Rule, Verified, Verify};
use crate::beyond::runtime::Device;
use crate::beyond::scan::{Follow, Place};
use crate::beyond::serialized::{FaultOfTree, VerifyReport, VerifyTotal};
use clap::Parser;

use super::files::{self, Problems, SearchOptions, WorkFile};
use super::gpus::Gpus;
use super::judged::{Judged, Judgement};
use super::print::json::{self, Each, Late};
use super::print::problem::Problem;
use super::print::units::{Kinds, count};
use super::subcommand::Options;
use super::suggest;
use crate::llvm::cli::print::console::Console;

/// Check bundles and GPU code objects for faults
#[derive(Clone, Debug, Parser)]
pub(super) struct VerifyOptions {
    /// Files to check, and directories of such files.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    search: SearchOptions,
    /// Succeed even if no device code was read, for trees in which none is expected.
    #[arg(long)]
    allow_none: bool,
    /// GPUs that every bundle has to serve (gfx90a, MI300X): a comma list, or a file of names.
    #[arg(long, value_name = "GPUS", value_parser = Gpus::parse)]
    expect: Option<Gpus>,
    /// The same, and no code may be there that none of them needs.
    #[arg(long, value_name = "GPUS", value_parser = Gpus::parse, conflicts_with = "expect")]
    expect_exactly: Option<Gpus>,
    /// GPUs that every library has to serve with any of its bundles.
    #[arg(long, value_name = "GPUS", value_parser = Gpus::parse, conflicts_with_all = ["expect", "expect_exactly"])]
    expect_any: Option<Gpus>,
    /// Report bundles, fatbins and offload binaries with more than SIZE bytes (default: 64K) of plain code.
    #[arg(
        long, value_name = "SIZE", num_args = 0..=1, require_equals = true, default_missing_value = "64K",
        value_parser = files::size,
        long_help = "Report bundles, CUDA fatbins and offload binaries with more plain code than SIZE bytes, optionally with suffix K, M \
            or G; 64K without a SIZE. A compressed bundle has no plain code; in a fatbin, code counts that is not \
            compressed by itself, PTX included. Text bundles, fat objects, device images of SYCL and code without a bundle are not reported."
    )]
    compressed: Option<u64>,
    /// Print a JSON document, described by docs/verify.schema.json.
    #[arg(long)]
    json: bool,
}

/// A file and its result.
type CheckedFile = (WorkFile, Verified);

/// The outcome so far.
struct Outcome {
    total: VerifyTotal,
    /// The number of unread parts of each kind.
    unread: Kinds,
    kpack: KpackTree,
    /// The files that serve the expected GPUs together.
    together: Option<ExpectTree>,
    /// The expected GPUs that no file has served, and that no fault names.
    unserved: Vec<String>,
    /// Whether some bundles do not serve the GPUs, but all their libraries do.
    is_served_by_libraries: Option<bool>,
    judgement: Judgement,
    /// The number of problems that the end of the search added: expected GPUs that nothing serves, and that nothing was
    /// verified. All others are about what could not be read.
    own_problems: usize,
}

impl Outcome {
    fn new(expect: Option<&Expect>, paths: &[PathBuf], judgement: Judgement) -> Self {
        let devices = expect.iter().flat_map(|expect| &expect.devices);
        let unserved = devices.map(|device| device.name().to_owned()).collect();
        let (total, unread, kpack) = (VerifyTotal::default(), Kinds::default(), KpackTree::default());
        let together = expect.cloned().map(|expect| ExpectTree::new(expect, paths.iter().map(PathBuf::as_path)));
        Self { total, unread, kpack, together, unserved, is_served_by_libraries: None, judgement, own_problems: 0 }
    }

    /// Adds the result of a file.
    fn add(&mut self, (file, verified): &mut CheckedFile) {
        self.together.iter_mut().for_each(|together| together.add(verified));
        let is_told = |gpu: &String| verified.faults.iter().any(|fault| fault.gpu.as_ref() == Some(gpu));
        self.unserved.retain(|gpu| !verified.served.contains(gpu) && !is_told(gpu));
        if verified.faults.iter().any(|fault| fault.rule == Rule::Expected) {
            self.is_served_by_libraries =
                Some(self.is_served_by_libraries.unwrap_or(true) && verified.is_served_by_libraries);
        }
        self.total.add(verified);
        verified.unread.iter().for_each(|unread| self.unread.add(unread.what.name(), 1));
        verified.more_unread.iter().for_each(|(name, more)| self.unread.add(name, *more));
        self.kpack.add(verified, !file.is_named());
    }

    /// The faults that only several files show together, once: after the last file. Expected GPUs that nothing serves,
    /// and that nothing was verified, are problems then.
    fn finish(&mut self, problems: &Problems) -> Vec<Fault> {
        let of_directories = self.together.take().map(ExpectTree::faults).unwrap_or_default();
        if !of_directories.is_empty() {
            self.is_served_by_libraries = Some(false);
        }
        self.unserved.retain(|gpu| of_directories.iter().all(|fault| fault.gpu.as_ref() != Some(gpu)));
        let mut faults = std::mem::take(&mut self.kpack).faults();
        faults.extend(of_directories);
        self.total.faults += faults.len();
        let before = problems.borrow().len();
        let error = || "no device code was read, so nothing was verified".to_owned();
        self.judgement.ensure(self.judged(), error, problems);
        if !self.total.is_none() {
            let unserved = std::mem::take(&mut self.unserved);
            self.total.faults += unserved.len();
            let text = |gpu: String| format!("no code in any file serves {gpu}");
            problems.borrow_mut().extend(unserved.into_iter().map(|gpu| Problem::from(text(gpu))));
        }
        self.own_problems += problems.borrow().len() - before;
        faults
    }

    fn judged(&self) -> Judged {
        match (self.total.is_none(), self.total.kpack_references) {
            (false, _) => Judged::Something,
            (true, 0) => Judged::Nothing,
            (true, _) => Judged::Elsewhere,
        }
    }

    /// Whether nothing is wrong, which decides the exit status.
    fn is_clean(&self, problems: &[Problem]) -> bool {
        problems.is_empty() && self.total.faults == 0
    }

    /// The end of the report: what was checked, and how many faults and errors there are.
    fn verdict(&self, problems: &[Problem]) -> String {
        let mut parts = vec![checked(&self.total)];
        parts.extend(faults(&self.total));
        let errors = problems.len() - self.own_problems;
        parts.extend((errors > 0).then(|| count(errors, "error", "errors")));
        parts.extend(self.is_clean(problems).then(|| "nothing wrong".to_owned()));
        parts.join(", ")
    }
}

impl VerifyOptions {
    /// What is expected.
    fn expect(&self) -> Option<Expect> {
        let gpus = |gpus: &Option<Gpus>, expect: fn(Vec<Device>) -> Expect| gpus.clone().map(|Gpus(gpus)| expect(gpus));
        gpus(&self.expect, Expect::new)
            .or_else(|| gpus(&self.expect_exactly, Expect::exactly))
            .or_else(|| gpus(&self.expect_any, Expect::libraries))
    }

    /// Writes the last line: the total of all files, or the result of the only one.
    fn write_summary(
        &self,
        has_total: bool,
        outcome: &Outcome,
        problems: &[Problem],
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let Outcome { total, unread, .. } = outcome;
        let verdict = outcome.verdict(problems);
        match self.files.as_slice() {
            [file] if !has_total && total.files > 0 => {
                write_line(out, &format!("{}: {verdict}", file.to_string_lossy()))
            }
            _ if !has_total => Ok(()),
            _ => {
                let unread = if total.unread == 0 { String::new() } else { format!("; not read: {unread}") };
                write_line(out, &format!("Total: {}, {verdict}{unread}", count(total.files, "file", "files")))
            }
        }
    }
}

impl Options for VerifyOptions {
    fn run(&self, console: &mut Console) -> anyhow::Result<ExitCode> {
        let mut verify = Verify::default();
        verify.scan = self.search.scan(Some(Arc::new(Follow::from_environment())));
        verify.expect = self.expect();
        verify.plain_max = self.compressed;
        let check = |file: Result<WorkFile>| {
            let file = file?;
            let verified = verify.check(&file.open(verify.scan.limits)?)?;
            Ok((file, verified))
        };
        let weight = |(_, verified): &CheckedFile| 1 + verified.faults.len() + verified.unread.len();
        let has_total = self.files.len() > 1 || self.files.iter().any(|path| path.is_dir());
        let judgement = Judgement::new(&self.search, self.files.iter(), self.allow_none);
        let files = self.search.files(&self.files);
        let outcome = RefCell::new(Outcome::new(verify.expect.as_ref(), &files::paths(&files), judgement));
        let problems = Problems::default();
        let note = |checked: &mut CheckedFile, _: &mut Vec<Problem>| outcome.borrow_mut().add(checked);
        let in_turn = files::has_pipes(&files);
        let written = files::report(files, in_turn, check, weight, note, &problems, |checked, out| {
            if self.json {
                let files = Each::new(checked.map(|(_, verified)| verified));
                let faults = || outcome.borrow_mut().finish(&problems).into_iter().map(FaultOfTree::new);
                let faults = Late(|| faults().collect::<Vec<_>>());
                let total = Late(|| outcome.borrow().total.clone());
                return json::write(VerifyReport { files, faults, total }, &problems, out);
            }
            for checked in checked {
                write_file(&checked, has_total, out)?;
            }
            let faults = outcome.borrow_mut().finish(&problems);
            faults.iter().try_for_each(|fault| write_line(out, &fault.to_string()))?;
            Ok(self.write_summary(has_total, &outcome.borrow(), &problems.borrow(), out)?)
        });
        let mut outcome = outcome.into_inner();
        outcome.finish(&problems);
        let problems = problems.into_inner();
        console.problems(&problems);
        written?;
        let (clean, is_served_by_libraries) = (outcome.is_clean(&problems), outcome.is_served_by_libraries);
        if is_served_by_libraries == Some(true) {
            console.hint("each library has code for these GPUs in some of its bundles, which --expect-any accepts");
        }
        for device in verify.expect.iter().filter(|_| !clean).flat_map(|expect| &expect.devices) {
            if let Some(meant) = suggest::known_gpu(device.name()) {
                console.hint(&format!("'{device}' is not a known GPU; did you mean {meant}?"));
            }
        }
        Ok(if clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// The numbers of checked code objects and bundles, or why there are none.
fn checked(total: &VerifyTotal) -> String {
    let objects = |number| count(number, "code object", "code objects");
    let bundled = total.code_objects - total.without_bundle;
    let mut details = Vec::new();
    for (number, what) in [(total.without_code, "text or empty"), (total.unchecked, "not read and not checked")] {
        if number > 0 {
            details.push(format!("{number} {what}"));
        }
    }
    let details = if details.is_empty() { String::new() } else { format!(" ({})", details.join(", ")) };
    let in_bundles = || format!("{}{details} in {}", objects(bundled), count(total.bundles, "bundle", "bundles"));
    match (total.bundles, total.without_bundle) {
        (0, 0) if total.kpack_references > 0 => "device code in kpack archives".to_owned(),
        (0, 0) if total.is_none() && total.unread == 0 => "no device code".to_owned(),
        (0, 0) if total.is_none() => "no readable device code".to_owned(),
        (_, 0) => in_bundles(),
        (0, bare) => format!("{} without a bundle", objects(bare)),
        (_, bare) => format!("{}, {} without a bundle", in_bundles(), objects(bare)),
    }
}

/// The number of faults, if there are any.
fn faults(total: &VerifyTotal) -> Option<String> {
    (total.faults > 0).then(|| count(total.faults, "fault", "faults"))
}

/// Writes the result of a file, and what was checked if a total follows, which alone says whether nothing is wrong. For
/// a file in a directory, only parts that concern device code are reported, because most files there have none.
fn write_file((file, verified): &CheckedFile, has_total: bool, out: &mut dyn Write) -> io::Result<()> {
    let mut total = VerifyTotal::default();
    total.add(verified);
    let is_told = |unread: &&NotRead| file.is_named() || unread.what.is_device_code();
    let unread: Vec<&NotRead> = verified.unread.iter().filter(is_told).collect();
    if !file.is_named() && total.is_none() && unread.is_empty() && total.kpack_references == 0 {
        return Ok(());
    }
    let name = file.path.to_string_lossy();
    write_faults(&verified.faults, out)?;
    if verified.more_faults > 0 {
        let more = count(verified.more_faults, "fault is", "faults are");
        write_line(out, &format!("{name}: {more} not listed"))?;
    }
    let mut alike = counts(unread.iter().map(|NotRead { place, what, .. }| (place, what.name())));
    for NotRead { place, offset, what } in unread {
        let more = match alike.remove(&(place, what.name())) {
            None => continue,
            Some(1) => String::new(),
            Some(all) => format!(" ({} in the same place)", count(all - 1, "more", "more")),
        };
        write_line(out, &format!("{place} at offset {offset}: {}, not read{more}", what.name()))?;
    }
    let more_unread = total.unread - verified.unread.len();
    if more_unread > 0 {
        let more = count(more_unread, "part", "parts");
        write_line(out, &format!("{name}: {more} not read and not listed"))?;
    }
    if !has_total {
        return Ok(());
    }
    let faults = faults(&total).map_or_else(String::new, |faults| format!(", {faults}"));
    write_line(out, &format!("{name}: {}{faults}", checked(&total)))
}

/// Writes faults. Bundles that lack the same share the line of the first.
fn write_faults(faults: &[Fault], out: &mut dyn Write) -> io::Result<()> {
    fn key(fault: &Fault) -> (&Place, Rule, &str) {
        (&fault.place, fault.rule, &fault.text)
    }
    let mut alike = counts(faults.iter().map(key));
    faults.iter().try_for_each(|fault| match (&fault.gpu, alike.remove(&key(fault))) {
        (Some(_), None) => Ok(()),
        (Some(_), Some(all @ 2..)) => {
            let more = count(all - 1, "more bundle", "more bundles");
            write_line(out, &format!("{fault} (the same in {more})"))
        }
        _ => write_line(out, &fault.to_string()),
    })
}

/// How often each key is there.
fn counts<K: Eq + Hash>(keys: impl Iterator<Item = K>) -> HashMap<K, usize> {
    let mut counts = HashMap::new();
    for key in keys {
        *counts.entry(key).or_default() += 1;
    }
    counts
}

fn write_line(out: &mut dyn Write, line: &str) -> io::Result<()> {
    writeln!(out, "{}", printable(line))
}

//! `verify`: checks the device code in files.

use std::collections::HashMap;
use std::hash::Hash;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use crate::base::error;
use crate::beyond::inventory::UnreadPart;
use crate::beyond::job::{
    Expect, Fault, FaultOfTree, Verified, VerifiedFiles, Verify, VerifyReport, VerifyRule, VerifyTotal,
};
use crate::beyond::runtime::Device;
use crate::beyond::scan::{Follow, Place};
use clap::Parser;
use clap::error::ErrorKind;

use super::files::{self, SearchOptions, WorkFile};
use super::gpus::Gpus;
use super::judged::{Judged, Judgement};
use super::print::json::Document;
use super::print::out::{Out, to_stdout};
use super::print::problem::Problem;
use super::print::text::{Style, Text, Tone};
use super::print::units::{CountsByKind, count};
use super::subcommand::{Options, heading, refuse};
use crate::llvm::cli::print::console::Console;

/// Check bundles and GPU code objects for faults
#[derive(Clone, Debug, Parser)]
pub(super) struct VerifyOptions {
    /// Files to check, and directories of such files.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    search: SearchOptions,
    /// Succeed even if no device code was read.
    #[arg(long)]
    allow_none: bool,
    /// GPUs that every bundle must serve, such as gfx90a,MI300X or native.
    #[arg(
        long, value_name = "GPUS", value_parser = Gpus::parse, group = "expected",
        long_help = "GPUs that every bundle must serve (gfx90a, MI300X, native): a comma list, or a file of names."
    )]
    expect: Option<Gpus>,
    /// Like --expect, and code that none of these GPUs needs is a fault.
    #[arg(long, value_name = "GPUS", value_parser = Gpus::parse, group = "expected")]
    expect_exactly: Option<Gpus>,
    /// GPUs that every library must serve with any of its bundles.
    #[arg(long, value_name = "GPUS", value_parser = Gpus::parse, group = "expected")]
    expect_any: Option<Gpus>,
    /// For the options above, count only machine code, not PTX or SPIR-V.
    #[arg(
        long,
        requires = "expected",
        long_help = "With --expect, --expect-exactly or --expect-any, count only machine code. PTX and SPIR-V are compiled when a \
            program starts (JIT), which may take minutes, and needs a driver that knows the version of the PTX."
    )]
    no_jit: bool,
    /// Report bundles and fatbins with more plain code than SIZE (64K).
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

/// The end of a line if nothing follows the verdict.
const NO_END: &str = "";

/// A file and its result.
type CheckedFile = (WorkFile, Verified);

impl VerifyOptions {
    /// Returns the GPUs that an option expects, or `None` without such an option. With `--no-jit`, fails if no machine
    /// code can serve one of these GPUs; the error is its name.
    fn expect(&self) -> Result<Option<Expect>, String> {
        let (gpus, expect_of): (&Gpus, fn(Vec<Device>) -> Expect) =
            match (&self.expect, &self.expect_exactly, &self.expect_any) {
                (Some(gpus), ..) => (gpus, Expect::new),
                (_, Some(gpus), _) => (gpus, Expect::exactly),
                (.., Some(gpus)) => (gpus, Expect::libraries),
                (None, None, None) => return Ok(None),
            };
        let mut devices = gpus.0.clone();
        if self.no_jit {
            for device in &mut devices {
                *device = device.without_jit().ok_or_else(|| device.name().to_owned())?;
            }
        }
        Ok(Some(expect_of(devices)))
    }
}

/// Prints the report of each file, and the faults and sums of all files together.
enum Printer<'o> {
    Json(Document<'o>),
    Text {
        text: Text<'o>,
        /// Whether a total over several files follows the lines of the files.
        has_total: bool,
    },
}

impl<'o> Printer<'o> {
    /// Begins the report in the form that the options ask for. `has_total` is as in [`Printer::Text`].
    fn begin(options: &VerifyOptions, has_total: bool, out: Out<'o>) -> anyhow::Result<Self> {
        if !options.json {
            return Ok(Self::Text { text: Text { style: Style::of_stdout(), out }, has_total });
        }
        Ok(Self::Json(Document::begin(&VerifyReport::default(), "files", out)?))
    }

    fn write_file(&mut self, file: &WorkFile, verified: &Verified) -> anyhow::Result<()> {
        match self {
            Self::Json(document) => document.item(verified),
            Self::Text { text, has_total } => Ok(write_file(file, verified, *has_total, text)?),
        }
    }

    /// Writes the faults that only several files together show, and the total. `errors` is the number of files that
    /// could not be read. The other problems are about all files together.
    fn end(self, report: &VerifyReport, named: &[PathBuf], problems: &[Problem], errors: usize) -> anyhow::Result<()> {
        match self {
            Self::Json(document) => document.end(report, problems),
            Self::Text { mut text, has_total } => {
                for FaultOfTree { fault, .. } in &report.faults {
                    write_fault(fault, NO_END, &mut text)?;
                }
                Ok(write_summary(report, named, has_total, &verdict(report, problems, errors), &mut text)?)
            }
        }
    }
}

/// Adds the problems of all files together: that nothing was verified, or each GPU that no file serves.
fn add_problems_of_all(report: &VerifyReport, judgement: Judgement, problems: &mut Vec<Problem>) {
    let judged = match &report.total {
        total if !total.checked_nothing() => Judged::Something,
        // All device code may be in kpack archives that were not searched.
        VerifyTotal { kpack_references: 1.., .. } => Judged::Elsewhere,
        _ => Judged::Nothing,
    };
    let error = || "no device code was read, so nothing was verified".to_owned();
    judgement.add_error_if_not_judged(judged, error, problems);
    problems.extend(report.unserved.iter().map(|gpu| format!("no code in any file serves {gpu}").into()));
}

/// Returns whether there are neither faults nor problems, which decides the exit status.
fn is_clean(report: &VerifyReport, problems: &[Problem]) -> bool {
    problems.is_empty() && report.total.faults == 0
}

/// The end of the last line of the report: the numbers of checked bundles and code objects, and the numbers of
/// faults and errors.
struct Verdict {
    numbers: String,
    tone: Tone,
    text: String,
}

/// Returns the verdict on all files. `errors` is the number of files that could not be read.
fn verdict(report: &VerifyReport, problems: &[Problem], errors: usize) -> Verdict {
    let total = &report.total;
    let mut parts = Vec::new();
    if total.faults > 0 {
        parts.push(count(total.faults, "fault", "faults"));
    }
    if errors > 0 {
        parts.push(count(errors, "error", "errors"));
    }
    // Undefined symbols are not a fault: a program may define the symbols, or never load the code.
    if total.undefined > 0 {
        parts.push(format!("{} with undefined symbols", total.undefined));
    }
    let is_clean = is_clean(report, problems);
    if is_clean {
        parts.push("nothing wrong".to_owned());
    }
    let text = parts.iter().map(|part| format!(", {part}")).collect();
    Verdict { numbers: numbers_checked(total), tone: if is_clean { Tone::Good } else { Tone::Bad }, text }
}

/// Writes the last line: the total of all files, or the result of the only one of the `named` files.
fn write_summary(
    VerifyReport { total, unread, .. }: &VerifyReport,
    named: &[PathBuf],
    has_total: bool,
    Verdict { numbers, tone, text: verdict }: &Verdict,
    text: &mut Text<'_>,
) -> io::Result<()> {
    if has_total {
        let kinds = CountsByKind(unread.clone());
        let unread = if total.unread == 0 { String::new() } else { format!("; not read: {kinds}") };
        let start = format!("Total: {}, {numbers}", count(total.files, "file", "files"));
        return text.write_verdict(&start, *tone, verdict, &unread);
    }
    match named {
        // If the only file could not be read, its error is all there is to say.
        [file] if total.files > 0 => {
            text.write_verdict(&format!("{}: {numbers}", file.to_string_lossy()), *tone, verdict, NO_END)
        }
        _ => Ok(()),
    }
}

/// Opens a file and verifies it.
fn check_file(verify: &Verify, file: error::Result<WorkFile>) -> error::Result<CheckedFile> {
    let file = file?;
    let verified = verify.check(&file.open(verify.scan.limits)?)?;
    Ok((file, verified))
}

/// Returns the number of lines that a result needs. The sum limits the results that wait to be printed.
fn weight((_, verified): &CheckedFile) -> usize {
    1 + verified.faults.len() + verified.unread.len()
}

impl Options for VerifyOptions {
    fn run(&self, console: &mut Console) -> anyhow::Result<ExitCode> {
        let mut verify = Verify::default();
        verify.scan = self.search.scan(Some(Arc::new(Follow::from_environment())));
        // With `--compressed=SIZE`, a bundle with more than SIZE bytes of plain code is a fault.
        verify.plain_max = self.compressed;
        verify.expect = match self.expect() {
            Ok(expect) => expect,
            Err(gpu) => {
                let always = "which is always compiled when a program starts";
                let text = format!("--no-jit counts no code for '{gpu}', {always}");
                return refuse::<Self>(console, ErrorKind::ArgumentConflict, &text);
            }
        };
        if let Some(expect) = &verify.expect {
            Gpus::warn_of_unknown(&expect.devices, console);
        }
        let has_total = self.files.len() > 1 || self.files.iter().any(|path| path.is_dir());
        let judgement = Judgement::new(&self.search, self.files.iter(), self.allow_none);
        let files = self.search.files(&self.files);
        let paths = files::paths(&files);
        let mut all = VerifiedFiles::new(verify.expect.as_ref(), paths.iter().map(PathBuf::as_path));
        let (mut report, mut problems) = (VerifyReport::default(), Vec::new());
        let one_by_one = files::has_several_pipes(&files);
        let written = to_stdout(|out| {
            let mut printer = Printer::begin(self, has_total, out)?;
            let mut written = Ok(());
            files::for_each(
                files,
                one_by_one,
                |file| check_file(&verify, file),
                weight,
                |checked| match checked {
                    Ok((file, mut verified)) => {
                        all.add(&mut verified, file.is_named());
                        if written.is_ok() {
                            written = printer.write_file(&file, &verified);
                        }
                    }
                    Err(error) => problems.push(error.into()),
                },
            );
            report = all.finish();
            let errors = problems.len();
            add_problems_of_all(&report, judgement, &mut problems);
            written?;
            printer.end(&report, &self.files, &problems, errors)
        });
        // Faults fail too, so the report decides the exit status below, and not the problems alone.
        console.problems(&problems);
        written?;
        if report.is_served_by_libraries {
            console.hint("each library has code for these GPUs in some of its bundles, which --expect-any accepts");
        }
        if is_clean(&report, &problems) {
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
        // A file with faults but without code is not described so: a fault may be the reason why no code was read.
        if total.checked_nothing() {
            return if total.unread == 0 { "no device code" } else { "no readable device code" }.to_owned();
        }
    }
    let unbundled = format!("{} without a bundle", count(total.without_bundle, "code object", "code objects"));
    if total.bundles == 0 && total.without_bundle > 0 {
        return unbundled;
    }
    let mut details = Vec::new();
    for (number, state) in [(total.without_code, "text"), (total.unchecked, "not read and not checked")] {
        if number > 0 {
            details.push(format!("{number} {state}"));
        }
    }
    let details = if details.is_empty() { String::new() } else { format!(" ({})", details.join(", ")) };
    let bundled = count(total.code_objects - total.without_bundle, "code object", "code objects");
    let in_bundles = format!("{bundled}{details} in {}", count(total.bundles, "bundle", "bundles"));
    if total.without_bundle == 0 { in_bundles } else { format!("{in_bundles}, {unbundled}") }
}

/// Writes the result of a file: symbols, faults and unread parts. If a total over several files follows (`has_total`),
/// a line with the numbers of the file is written too. Otherwise, the last line of the report has them.
///
/// Most files in directories have no device code. Nothing is written about a file without device code, and unread parts
/// of a file in a directory are written only if they are device code.
fn write_file(file: &WorkFile, verified: &Verified, has_total: bool, text: &mut Text<'_>) -> io::Result<()> {
    let mut total = VerifyTotal::default();
    total.add(verified);
    let unread: Vec<&UnreadPart> =
        verified.unread.iter().filter(|part| file.is_named() || part.what.is_device_code()).collect();
    for undefined in &verified.undefined {
        text.write_line(&undefined.to_string())?;
    }
    let has_no_device_code = total.checked_nothing() && unread.is_empty() && total.kpack_references == 0;
    if has_no_device_code && !file.is_named() {
        return Ok(());
    }
    let name = file.path.to_string_lossy();
    write_faults(&verified.faults, text)?;
    if verified.more_faults > 0 {
        let more = count(verified.more_faults, "fault is", "faults are");
        text.write_line(&format!("{name}: {more} not listed"))?;
    }
    if verified.more_undefined > 0 {
        let more = count(verified.more_undefined, "code object", "code objects");
        text.write_line(&format!("{name}: {more} with undefined symbols not listed"))?;
    }
    write_unread(&unread, text)?;
    // The total also counts unread parts that are not listed, because there are too many.
    let more_unread = total.unread - verified.unread.len();
    if more_unread > 0 {
        let more = count(more_unread, "part", "parts");
        text.write_line(&format!("{name}: {more} not read and not listed"))?;
    }
    if !has_total {
        return Ok(());
    }
    let faults = match total.faults {
        0 => String::new(),
        faults => format!(", {}", count(faults, "fault", "faults")),
    };
    text.write_verdict(&format!("{name}: {}", numbers_checked(&total)), Tone::Bad, &faults, NO_END)
}

/// Writes a line for each unread part. Parts of one kind at the same place share the line of the first, with the number
/// of the others.
fn write_unread(unread: &[&UnreadPart], text: &mut Text<'_>) -> io::Result<()> {
    let mut alike = counts(unread.iter().map(|UnreadPart { place, what, .. }| (place, what.name())));
    for UnreadPart { place, offset, what, .. } in unread {
        let more = match alike.remove(&(place, what.name())) {
            // The first part took the count of all out of `alike`, and was written for this part too.
            None => continue,
            Some(1) => String::new(),
            Some(all) => format!(" ({} in the same place)", count(all - 1, "more", "more")),
        };
        text.write_line(&format!("{place} at offset {offset}: {}, not read{more}", what.name()))?;
    }
    Ok(())
}

/// Writes a line for each fault. If several bundles of a place lack code for the same GPU, only the first has a line,
/// with the number of the other bundles. A package with 1000 bundles would fill the screen otherwise.
fn write_faults(faults: &[Fault], text: &mut Text<'_>) -> io::Result<()> {
    // The text names the GPU, so faults about different GPUs have different keys.
    fn key(fault: &Fault) -> (&Place, VerifyRule, &str) {
        (&fault.place, fault.rule, &fault.text)
    }
    let mut alike = counts(faults.iter().map(key));
    for fault in faults {
        // The number of faults like this one, or `None` if an earlier fault took it out of `alike` for its own line.
        let number_alike = alike.remove(&key(fault));
        match (&fault.gpu, number_alike) {
            (Some(_), None) => {}
            (Some(_), Some(all @ 2..)) => {
                let more = count(all - 1, "more bundle", "more bundles");
                write_fault(fault, &format!(" (the same in {more})"), text)?;
            }
            // The fault is the only one of its kind, or is not about a GPU: each of those has its own line.
            _ => write_fault(fault, NO_END, text)?,
        }
    }
    Ok(())
}

/// Writes the line of a fault: its place, its description, and `end`.
fn write_fault(fault: &Fault, end: &str, text: &mut Text<'_>) -> io::Result<()> {
    let [place, description] = fault.parts();
    text.write_verdict(&place, Tone::Bad, &description, end)
}

/// Counts how often each key appears.
fn counts<K: Eq + Hash>(keys: impl Iterator<Item = K>) -> HashMap<K, usize> {
    let mut counts = HashMap::new();
    for key in keys {
        *counts.entry(key).or_default() += 1;
    }
    counts
}

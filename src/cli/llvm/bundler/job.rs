//! Turns the typed options into a job.
//!
//! The checks run in the order of LLVM 22.1.8, because only the first failure is reported.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsString;
use std::mem::take;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail, ensure};
use offload_bundle::Error;
use offload_bundle::Event;
use offload_bundle::container::sequence::Inflate;
use offload_bundle::container::stream::{Compression, Method};
use offload_bundle::container::{Limits, compressed};
use offload_bundle::id::{EntryId, IdError, OffloadKind, Rules};
use offload_bundle::io::Accept;
use offload_bundle::llvm::{BundleFiles, FileType, List, Unbundle, UnbundleArchive};

use super::raw::RawArgs;
use crate::cli::files::open;
use crate::cli::llvm::environment::EnvironmentSettings;
use crate::cli::print::console::Console;
use crate::cli::values::{self, limits};

/// A job with its parameters.
#[derive(Debug)]
pub(super) enum Job {
    List(List),
    Bundle(BundleFiles),
    Unbundle(Unbundle),
    UnbundleArchive(UnbundleArchive),
}

/// The files of a command line, whichever options named them.
struct Files {
    inputs: Vec<PathBuf>,
    outputs: Vec<PathBuf>,
    /// The type, which LLVM checks only after opening the inputs.
    file_type: offload_bundle::Result<FileType>,
    inflate: Inflate,
}

/// Plans the job for a command line.
pub(super) fn plan(mut raw: RawArgs, environment: &EnvironmentSettings, console: &Console) -> Result<Job> {
    let inputs = merge("input", take(&mut raw.input), take(&mut raw.inputs), console)?;
    let outputs = merge("output", take(&mut raw.output), take(&mut raw.outputs), console)?;
    // No file type has a name that is not UTF-8, so the lossy name is unknown too.
    let file_type = FileType::from_name(&raw.file_type.to_string_lossy());
    let inflate = if raw.verbose.unwrap_or(environment.verbose) { Inflate::Whole } else { Inflate::AsNeeded };
    let files = Files { inputs, outputs, file_type, inflate };
    if raw.list {
        return plan_list(&raw, files, console);
    }
    if raw.check_input_archive {
        ensure!(raw.unbundle, "-check-input-archive cannot be used while bundling");
        ensure!(
            matches!(files.file_type, Ok(FileType::Archive)),
            "-check-input-archive can only be used for unbundling archives (-type=a)"
        );
    }
    ensure!(!files.outputs.is_empty(), "no output file specified!");
    ensure!(raw.targets_given, "for the --targets option: must be specified at least once!");
    if raw.unbundle { plan_unbundle(&raw, files, console) } else { plan_bundle(&raw, files, environment) }
}

fn plan_list(raw: &RawArgs, files: Files, console: &Console) -> Result<Job> {
    let Files { inputs, outputs, file_type, inflate } = files;
    ensure!(!raw.unbundle, "-unbundle and -list cannot be used together");
    let input = only(inputs, "only one input file supported for -list")?;
    ensure!(outputs.is_empty(), "-outputs option is invalid for -list");
    ensure!(raw.targets.is_empty(), "-targets option is invalid for -list");
    let limits = limits(raw.max_size);
    let file_type = file_type.or_else(|unknown| refuse(unknown, &input, limits, console))?;
    let mut list = List::new(input, file_type);
    (list.inflate, list.limits) = (inflate, limits);
    Ok(Job::List(list))
}

fn plan_unbundle(raw: &RawArgs, files: Files, console: &Console) -> Result<Job> {
    let Files { inputs, outputs, file_type, inflate } = files;
    let input = only(inputs, "only one input file supported in unbundling mode")?;
    ensure!(outputs.len() == raw.targets.len(), "number of output files and targets should match in unbundling mode");
    let requests = parse_requests(&raw.targets, file_type.is_ok())?.into_iter().zip(outputs).collect();
    let mut rules = Rules::default();
    rules.hip_serves_openmp = raw.hip_openmp_compatible;
    let explain = raw.debug_only.iter().any(|name| name == "CodeObjectCompatibility");
    let limits = limits(raw.max_size);
    let file_type = file_type.or_else(|unknown| refuse(unknown, &input, limits, console))?;
    if file_type == FileType::Archive {
        let mut job = UnbundleArchive::new(input, requests);
        (job.rules, job.allow_missing, job.explain) = (rules, raw.allow_missing_bundles, explain);
        (job.check, job.limits) = (raw.check_input_archive, limits);
        return Ok(Job::UnbundleArchive(job));
    }
    let mut job = Unbundle::new(input, file_type, requests);
    (job.rules, job.allow_missing, job.explain) = (rules, raw.allow_missing_bundles, explain);
    (job.inflate, job.limits) = (inflate, limits);
    Ok(Job::Unbundle(job))
}

fn plan_bundle(raw: &RawArgs, files: Files, environment: &EnvironmentSettings) -> Result<Job> {
    let Files { inputs, outputs, file_type, .. } = files;
    ensure!(
        !file_type.as_ref().is_ok_and(|file_type| *file_type == FileType::Archive),
        "Archive files are only supported for unbundling"
    );
    let output = only(outputs, "only one output file supported in bundling mode")?;
    ensure!(inputs.len() == raw.targets.len(), "number of input files and targets should match in bundling mode");
    let targets = parse_targets(&raw.targets, EntryId::parse)?;
    for (target, typed) in targets.iter().zip(&raw.targets) {
        let id = typed.to_string_lossy().into_owned();
        target.target_id().check_features().map_err(|reason| IdError::TargetId { id, reason })?;
    }
    check_conflicts(&targets)?;
    let hip_only = targets.iter().all(|target| target.kind().is_hip());
    check_hosts(&targets, |hosts| hosts == 1 || hip_only)?;
    let mut compression = Compression::of(Method::Zstd);
    compression.level = raw.compression_level.or(environment.compression_level).unwrap_or(compression.level);
    if let Some(log) = raw.compression_window {
        compression.window_log_max = values::window("--compression-window", log)?;
    }
    if file_type.is_err() {
        inputs.iter().try_for_each(|input| open(input, Accept::Any, None).map(drop))?;
    }
    let mut job = BundleFiles::new(targets.into_iter().zip(inputs).collect(), output, file_type?);
    job.alignment = NonZeroU32::new(raw.bundle_align);
    job.compression = raw.compress.unwrap_or(environment.compress).then_some(compression);
    job.compressed_version = environment.format_version;
    Ok(Job::Bundle(job))
}

/// Rejects an unknown type after opening the input as LLVM does, which may fail or print a message.
fn refuse(unknown: Error, input: &Path, limits: Limits, console: &Console) -> offload_bundle::Result<FileType> {
    let input = open(input, Accept::Any, limits.streamed)?;
    if input.len() >= 8 && !input.bytes().starts_with(compressed::MAGIC) {
        console.event(Event::NotCompressed);
    }
    Err(unknown)
}

/// The values of an option or of its deprecated list form; giving both is an error.
fn merge(name: &str, values: Vec<OsString>, deprecated: Vec<OsString>, console: &Console) -> Result<Vec<PathBuf>> {
    ensure!(
        values.is_empty() || deprecated.is_empty(),
        "-{name}s and -{name} cannot be used together, use only -{name} instead"
    );
    if !deprecated.is_empty() {
        console.warning(&format!("-{name}s is deprecated, use -{name} instead"));
    }
    Ok(values.into_iter().chain(deprecated).map(PathBuf::from).collect())
}

fn only(paths: Vec<PathBuf>, otherwise: &'static str) -> Result<PathBuf> {
    match <[PathBuf; 1]>::try_from(paths) {
        Ok([path]) => Ok(path),
        Err(_) => bail!(otherwise),
    }
}

/// The requested entries. LLVM refuses an ID that it does not know before all else, but the file may hold an entry of
/// this name, if its type is known.
fn parse_requests(typed: &[OsString], may_hold: bool) -> Result<Vec<EntryId>> {
    let mut unknown = None;
    let parsed = parse_targets(typed, |text| {
        EntryId::parse(text).or_else(|error| {
            unknown.get_or_insert(error);
            Ok(EntryId::by_name(text))
        })
    });
    let checked = parsed.and_then(|targets| {
        check_conflicts(&targets)?;
        check_hosts(&targets, |hosts| hosts <= 1)?;
        Ok(targets)
    });
    match (checked, unknown) {
        (Err(_), Some(unknown)) => Err(unknown.into()),
        (Ok(_), Some(unknown)) if !may_hold => Err(unknown.into()),
        (checked, _) => checked,
    }
}

fn parse_targets(typed: &[OsString], mut parse: impl FnMut(&str) -> Result<EntryId, IdError>) -> Result<Vec<EntryId>> {
    let (mut texts, mut written) = (HashSet::new(), HashSet::new());
    let mut targets = Vec::with_capacity(typed.len());
    for text in typed {
        let target = parse(&text.to_string_lossy())?;
        // Two spellings of one ID would make two indistinguishable entries. Two hosts are rejected later.
        let is_new = texts.insert(text) && (target.kind() == OffloadKind::Host || written.insert(target.to_string()));
        ensure!(is_new, "Duplicate targets are not allowed");
        targets.push(target);
    }
    Ok(targets)
}

fn check_conflicts(targets: &[EntryId]) -> Result<()> {
    // LLVM checks the groups, and the target IDs in a group, in the order of their texts. It shows the triple as typed.
    let mut groups: BTreeMap<String, BTreeMap<String, &EntryId>> = BTreeMap::new();
    for target in targets {
        let target_id = target.target_id().to_string();
        let group = target.to_string().strip_suffix(&target_id).unwrap_or_default().to_owned();
        groups.entry(group).or_default().insert(target_id, target);
    }
    let shown =
        |target: &EntryId| format!("{}-{}-{}", target.kind().name(), target.triple().as_str(), target.target_id());
    for targets in groups.values() {
        // A target ID that agrees with the first one of its processor agrees with all earlier ones.
        let mut firsts: HashMap<&str, &EntryId> = HashMap::new();
        for target in targets.values() {
            let first = *firsts.entry(target.target_id().processor()).or_insert(target);
            ensure!(
                !target.target_id().conflicts_with(first.target_id()),
                "Cannot bundle inputs with conflicting targets: '{}' and '{}'",
                shown(first),
                shown(target)
            );
        }
    }
    Ok(())
}

fn check_hosts(targets: &[EntryId], fine: impl Fn(usize) -> bool) -> Result<()> {
    let hosts = targets.iter().filter(|target| target.kind() == OffloadKind::Host).count();
    ensure!(fine(hosts), "expecting exactly one host target but got {hosts}");
    Ok(())
}

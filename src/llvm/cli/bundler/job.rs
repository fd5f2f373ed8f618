//! Turns the typed options into a job.
//!
//! The checks run in the order of LLVM 22.1.8, because only the first failure is reported.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsString;
use std::num::NonZeroU32;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use crate::base::id::{EntryId, IdError, OffloadKind, Rules};
use crate::base::io::Accept;
use crate::llvm::container::Limits;
use crate::llvm::container::sequence::Inflate;
use crate::llvm::container::stream::{Compression, Method};
use crate::llvm::work::{BundleFiles, FileType, List, Unbundle, UnbundleArchive};
use anyhow::{Result, bail, ensure};

use super::BundlerOptions;
use crate::llvm::cli::environment::EnvironmentSettings;
use crate::llvm::cli::print::console::Console;
use crate::llvm::cli::values::{self, limits};
use crate::llvm::work::{NO_LIMIT, open, report_if_plain};

/// A job with its parameters.
#[derive(Debug)]
pub(super) enum Job {
    List(List),
    Bundle(BundleFiles),
    Unbundle(Unbundle),
    UnbundleArchive(UnbundleArchive),
}

/// The settings of a command line that all jobs share.
struct CommonSettings<'o> {
    options: &'o BundlerOptions,
    inputs: Vec<PathBuf>,
    outputs: Vec<PathBuf>,
    targets: &'o [OsString],
    /// The type, or the error for an unknown name. LLVM reports that error only after it has opened the inputs.
    file_type: crate::base::error::Result<FileType>,
    inflate: Inflate,
    limits: Limits,
}

/// Plans the job for a command line, or fails with LLVM's first complaint about the options.
pub(super) fn plan(options: &BundlerOptions, environment: &EnvironmentSettings, console: &Console) -> Result<Job> {
    let is_verbose = options.verbose.unwrap_or(environment.verbose);
    let common = CommonSettings {
        options,
        inputs: merge_deprecated("input", &options.input, &options.inputs, console)?,
        outputs: merge_deprecated("output", &options.output, &options.outputs, console)?,
        targets: &options.targets,
        // No file type has a name that is not UTF-8, so the lossy name is unknown too.
        file_type: FileType::from_name(&options.file_type.to_string_lossy()),
        inflate: if is_verbose { Inflate::Whole } else { Inflate::AsNeeded },
        limits: limits(options.max_size),
    };
    let unbundle = options.unbundle.unwrap_or_default();
    if options.list.unwrap_or_default() {
        ensure!(!unbundle, "-unbundle and -list cannot be used together");
        return plan_list(common, console);
    }
    if options.check_input_archive.unwrap_or_default() {
        ensure!(unbundle, "-check-input-archive cannot be used while bundling");
        ensure!(
            matches!(common.file_type, Ok(FileType::Archive)),
            "-check-input-archive can only be used for unbundling archives (-type=a)"
        );
    }
    ensure!(!common.outputs.is_empty(), "no output file specified!");
    ensure!(!options.targets.is_empty(), "for the --targets option: must be specified at least once!");
    if unbundle { plan_unbundle(common, console) } else { plan_bundle(common, environment) }
}

/// Plans `-list`, which takes one input and nothing else.
fn plan_list(common: CommonSettings<'_>, console: &Console) -> Result<Job> {
    let CommonSettings { inputs, outputs, targets, file_type, inflate, limits, .. } = common;
    let input = only_path(inputs, "only one input file supported for -list")?;
    ensure!(outputs.is_empty(), "-outputs option is invalid for -list");
    ensure!(targets.is_empty(), "-targets option is invalid for -list");
    let file_type = reject_unknown_type(file_type, &input, limits, console)?;
    let mut list = List::new(input, file_type);
    (list.inflate, list.limits) = (inflate, limits);
    Ok(Job::List(list))
}

/// Plans the unbundling of a file or, for the type of archives, of the members of an archive.
fn plan_unbundle(common: CommonSettings<'_>, console: &Console) -> Result<Job> {
    let CommonSettings { options, inputs, outputs, targets, file_type, inflate, limits } = common;
    let input = only_path(inputs, "only one input file supported in unbundling mode")?;
    ensure!(outputs.len() == targets.len(), "number of output files and targets should match in unbundling mode");
    let requests = parse_requests(targets)?.into_iter().zip(outputs).collect();
    let mut rules = Rules::default();
    rules.hip_serves_openmp = options.hip_openmp_compatible.unwrap_or_default();
    let allow_missing = options.allow_missing_bundles.unwrap_or_default();
    let file_type = reject_unknown_type(file_type, &input, limits, console)?;
    if file_type == FileType::Archive {
        let mut job = UnbundleArchive::new(input, requests);
        (job.rules, job.allow_missing) = (rules, allow_missing);
        (job.check, job.limits) = (options.check_input_archive.unwrap_or_default(), limits);
        return Ok(Job::UnbundleArchive(job));
    }
    let mut job = Unbundle::new(input, file_type, requests);
    (job.rules, job.allow_missing) = (rules, allow_missing);
    (job.inflate, job.limits) = (inflate, limits);
    Ok(Job::Unbundle(job))
}

/// Plans the bundling of the inputs, one for each target, into one output.
fn plan_bundle(common: CommonSettings<'_>, environment: &EnvironmentSettings) -> Result<Job> {
    let CommonSettings { options, inputs, outputs, targets: typed, file_type, .. } = common;
    ensure!(!matches!(file_type, Ok(FileType::Archive)), "Archive files are only supported for unbundling");
    let output = only_path(outputs, "only one output file supported in bundling mode")?;
    ensure!(inputs.len() == typed.len(), "number of input files and targets should match in bundling mode");
    let targets = parse_targets(typed)?;
    for (target, text) in targets.iter().zip(typed) {
        let id = text.to_string_lossy().into_owned();
        target.target_id().check_features().map_err(|reason| IdError::TargetId { id, reason })?;
    }
    check_conflicts(&targets)?;
    // As in LLVM, a bundle for HIP alone may have any number of hosts, also none.
    let is_for_hip_alone = targets.iter().all(|target| target.kind().is_hip());
    if !is_for_hip_alone {
        check_hosts(&targets, 1..=1)?;
    }
    let mut compression = Compression::with_method(Method::Zstd);
    if let Some(level) = options.compression_level.or(environment.compression_level) {
        // As in LLVM, a level that the method lacks is not an error: the nearest level is used.
        compression.level = level;
    }
    if let Some(log) = options.compression_window {
        compression.window_log_max = values::window(log)?;
    }
    if file_type.is_err() {
        // LLVM rejects an unknown type after opening the inputs, which may fail.
        for input in &inputs {
            open(input, Accept::Any, NO_LIMIT)?;
        }
    }
    let mut job = BundleFiles::new(targets.into_iter().zip(inputs).collect(), output, file_type?);
    // The job refuses `None`, which is an alignment of 0.
    job.alignment = NonZeroU32::new(options.bundle_align.unwrap_or(1));
    if options.compress.unwrap_or(environment.compress) {
        job.compression = Some(compression);
    }
    job.compressed_version = environment.format_version;
    Ok(Job::Bundle(job))
}

/// Returns a known type at once. For an unknown type, opens the input first, as LLVM does: an error of the file comes
/// before the error of the type, and a file that is not compressed is reported.
fn reject_unknown_type(
    file_type: crate::base::error::Result<FileType>,
    input: &Path,
    limits: Limits,
    console: &Console,
) -> crate::base::error::Result<FileType> {
    if file_type.is_err() {
        let input = open(input, Accept::Any, limits.streamed)?;
        report_if_plain(input.as_slice(), &mut |event| console.event(event));
    }
    file_type
}

/// Returns the values of the option `name`, or of its deprecated form `<name>s`, with a warning. Both are empty if
/// neither is given. It is an error to give both.
fn merge_deprecated(
    name: &str,
    values: &[OsString],
    deprecated: &[OsString],
    console: &Console,
) -> Result<Vec<PathBuf>> {
    ensure!(
        values.is_empty() || deprecated.is_empty(),
        "-{name}s and -{name} cannot be used together, use only -{name} instead"
    );
    if !deprecated.is_empty() {
        console.warning(&format!("-{name}s is deprecated, use -{name} instead"));
    }
    Ok(values.iter().chain(deprecated).map(PathBuf::from).collect())
}

/// Returns the only path. Any other number of paths is an error with this text.
fn only_path(paths: Vec<PathBuf>, error: &'static str) -> Result<PathBuf> {
    match <[PathBuf; 1]>::try_from(paths) {
        Ok([path]) => Ok(path),
        Err(_) => bail!(error),
    }
}

/// Parses the requested entries. Fails if LLVM would not accept them together. Unlike a bundle, requests need no host.
fn parse_requests(typed: &[OsString]) -> Result<Vec<EntryId>> {
    let requests = parse_targets(typed)?;
    check_conflicts(&requests)?;
    check_hosts(&requests, 0..=1)?;
    Ok(requests)
}

/// Parses the targets of a command line. Two targets that mean the same entry are an error.
fn parse_targets(typed: &[OsString]) -> Result<Vec<EntryId>> {
    let (mut typed_before, mut written_before) = (HashSet::new(), HashSet::new());
    let mut targets = Vec::with_capacity(typed.len());
    for text in typed {
        let Some(valid) = text.to_str() else { bail!("the target '{}' is not UTF-8", text.to_string_lossy()) };
        let target = EntryId::parse(valid)?;
        let is_typed_again = !typed_before.insert(text);
        ensure!(!is_typed_again, "Duplicate targets are not allowed");
        // Two spellings of one ID would make two entries that nobody can tell apart. LLVM's error for two hosts is
        // another one, which follows later.
        if target.kind() != OffloadKind::Host {
            let is_written_again = !written_before.insert(target.to_string());
            ensure!(!is_written_again, "Duplicate targets are not allowed");
        }
        targets.push(target);
    }
    Ok(targets)
}

/// Fails if two targets have the same kind, triple and processor, but set different features. They may not be in one
/// bundle, because both could then serve the same GPU.
fn check_conflicts(targets: &[EntryId]) -> Result<()> {
    // LLVM checks in the order of the texts, and so decides which conflict is reported: first by kind and triple, then
    // by target ID.
    let mut groups: BTreeMap<String, BTreeMap<String, &EntryId>> = BTreeMap::new();
    for target in targets {
        // The text of an ID is its kind, its triple and its target ID.
        let target_id = target.target_id().to_string();
        let kind_and_triple = target.to_string().strip_suffix(&target_id).unwrap_or_default().to_owned();
        groups.entry(kind_and_triple).or_default().insert(target_id, target);
    }
    for targets in groups.values() {
        // Target IDs agree if they set the same features. So one that agrees with the first of its processor agrees
        // with all earlier ones.
        let mut first_of_processor: HashMap<&str, &EntryId> = HashMap::new();
        for target in targets.values() {
            let first = *first_of_processor.entry(target.target_id().processor()).or_insert(target);
            if target.target_id().conflicts_with(first.target_id()) {
                let [first, second] = [first, target].map(with_typed_triple);
                bail!("Cannot bundle inputs with conflicting targets: '{first}' and '{second}'");
            }
        }
    }
    Ok(())
}

/// Returns the ID with its triple as typed, not normalized: LLVM's message shows it so.
fn with_typed_triple(target: &EntryId) -> String {
    format!("{}-{}-{}", target.kind().name(), target.triple().as_str(), target.target_id())
}

/// Fails if the number of hosts among the targets is not allowed.
fn check_hosts(targets: &[EntryId], allowed: RangeInclusive<usize>) -> Result<()> {
    let hosts = targets.iter().filter(|target| target.kind() == OffloadKind::Host).count();
    ensure!(allowed.contains(&hosts), "expecting exactly one host target but got {hosts}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llvm::cli::Additions;
    use crate::llvm::cli::options::filled;
    use crate::llvm::cli::parse::{ParsedCommandLine, parse};

    fn planned(words: &[&str], environment: &EnvironmentSettings) -> Result<Job> {
        let argv = [&["foo"], words].concat().into_iter().map(OsString::from).collect();
        match parse(super::super::TOOL, argv, &Additions::NONE) {
            ParsedCommandLine::Run { matches, .. } => {
                plan(&filled(matches).unwrap(), environment, &Console::new("foo".as_ref()))
            }
            other => panic!("{other:?}"),
        }
    }

    fn bundle(words: &[&str], environment: &EnvironmentSettings) -> BundleFiles {
        let files = ["-type=o", "-targets=host-x86_64-unknown-linux-gnu", "-input=a", "-output=b"];
        match planned(&[&files, words].concat(), environment) {
            Ok(Job::Bundle(bundle)) => bundle,
            other => panic!("{other:?}"),
        }
    }

    fn names(files: &[(EntryId, PathBuf)]) -> Vec<String> {
        files.iter().map(|(id, path)| format!("{id} {}", path.display())).collect()
    }

    fn refused(words: &[&str]) -> String {
        planned(words, &EnvironmentSettings::default()).unwrap_err().to_string()
    }

    const UNBUNDLING: [&str; 9] = [
        "-type",
        "ll",
        "-unbundle",
        "-input=in",
        "-output=a,b",
        "-output",
        "",
        "-targets=host-x86_64-unknown-linux-gnu,hip-amdgcn-amd-amdhsa--gfx900",
        "-max-size=3K",
    ];

    #[test]
    fn options_of_unbundling_arrive() {
        let environment = EnvironmentSettings::default();
        let more = ["-hip-openmp-compatible", "-allow-missing-bundles=1", "-verbose"];
        let job = planned(&[&UNBUNDLING[..], &more].concat(), &environment);
        let Ok(Job::Unbundle(job)) = job else { panic!("{job:?}") };
        assert_eq!((job.input, job.file_type, job.inflate), ("in".into(), FileType::Text(";"), Inflate::Whole));
        let requests = ["host-x86_64-unknown-linux-gnu- a,b", "hip-amdgcn-amd-amdhsa--gfx900 "];
        assert_eq!(names(&job.requests), requests);
        assert!(job.rules.hip_serves_openmp && job.allow_missing);
        assert_eq!(job.limits.streamed, Some(3 << 10));

        let job = planned(&[&UNBUNDLING[..], &["-type=a", "-check-input-archive"]].concat(), &environment);
        let Ok(Job::UnbundleArchive(job)) = job else { panic!("{job:?}") };
        assert!(job.check && !job.allow_missing && !job.rules.hip_serves_openmp);
        assert_eq!((job.input, job.limits.streamed, job.requests.len()), ("in".into(), Some(3 << 10), 2));
    }

    #[test]
    fn options_of_bundling_arrive_and_come_before_the_environment() {
        let mut environment = EnvironmentSettings::default();
        let plain = bundle(&[], &environment);
        assert_eq!((plain.alignment, plain.compression, plain.file_type), (NonZeroU32::new(1), None, FileType::Object));
        assert_eq!(
            (names(&plain.members), plain.output),
            (vec!["host-x86_64-unknown-linux-gnu- a".to_owned()], "b".into())
        );

        (environment.compress, environment.compression_level) = (true, Some(5));
        assert_eq!(bundle(&[], &environment).compression.map(|compression| compression.level), Some(5));
        assert_eq!(bundle(&["-compress=0"], &environment).compression, None);
        let words = ["-compression-level=-0x3", "-compression-window=27", "-bundle-align=8", "-bundle-align=0x1000"];
        let job = bundle(&words, &environment);
        let compression = job.compression.map(|compression| (compression.level, compression.window_log_max));
        assert_eq!((compression, job.alignment), (Some((-3, 27)), NonZeroU32::new(4096)));
    }

    #[test]
    fn options_of_listing_arrive() {
        let environment = EnvironmentSettings { verbose: true, ..EnvironmentSettings::default() };
        let words = ["-list", "-list=0", "-list=true", "-type=bc", "-inputs=in", "-max-size=1"];
        let Ok(Job::List(job)) = planned(&words, &environment) else { panic!() };
        assert_eq!((job.input, job.file_type), ("in".into(), FileType::Binary));
        assert_eq!((job.inflate, job.limits.streamed), (Inflate::Whole, Some(1)));
        let Ok(Job::List(job)) = planned(&[&words[..], &["-verbose=0"]].concat(), &environment) else { panic!() };
        assert_eq!(job.inflate, Inflate::AsNeeded);
    }

    #[test]
    fn an_empty_value_is_a_value() {
        let given = ["-type=", "-output=", "-unbundle", "-input=a"];
        assert_eq!(refused(&given), "for the --targets option: must be specified at least once!");
        let error = refused(&[&given[..], &["-targets="]].concat());
        assert!(error.starts_with("Targets need to follow the format"), "{error}");
        assert_eq!(refused(&["-type=o", "-targets="]), "no output file specified!");
    }
}

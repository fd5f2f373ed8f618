//! What was typed, option by option, before anything is made of it.

use std::ffi::OsString;

use clap::ArgMatches;

/// The options of one command line.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct RawArgs {
    /// `--list`
    pub(crate) list: bool,
    /// `--unbundle`
    pub(crate) unbundle: bool,
    /// `--###`
    pub(crate) print_commands: bool,
    /// `--allow-missing-bundles`
    pub(crate) allow_missing_bundles: bool,
    /// `--check-input-archive`
    pub(crate) check_input_archive: bool,
    /// `--hip-openmp-compatible`
    pub(crate) hip_openmp_compatible: bool,
    /// `--compress`, none when it was not given.
    pub(crate) compress: Option<bool>,
    /// `--verbose`, none when it was not given.
    pub(crate) verbose: Option<bool>,
    /// `--bundle-align`, 1 when it was not given.
    pub(crate) bundle_align: u32,
    /// `--compression-level`
    pub(crate) compression_level: Option<i32>,
    /// `--type`
    pub(crate) file_type: OsString,
    /// Every `--input`
    pub(crate) input: Vec<OsString>,
    /// Every element of every `--inputs`
    pub(crate) inputs: Vec<OsString>,
    /// Every `--output`
    pub(crate) output: Vec<OsString>,
    /// Every element of every `--outputs`
    pub(crate) outputs: Vec<OsString>,
    /// Every element of every `--targets`
    pub(crate) targets: Vec<OsString>,
    /// Whether `--targets` was given, be it with an empty value.
    pub(crate) targets_given: bool,
    /// Every element of every `--debug-only`
    pub(crate) debug_only: Vec<OsString>,
}

impl RawArgs {
    /// What `clap` found.
    pub(super) fn new(matches: &ArgMatches) -> RawArgs {
        let optional_flag = |name| matches.get_one::<bool>(name).copied();
        let flag = |name| optional_flag(name).unwrap_or_default();
        let texts =
            |name| -> Vec<OsString> { matches.get_many::<OsString>(name).into_iter().flatten().cloned().collect() };
        RawArgs {
            list: flag("list"),
            unbundle: flag("unbundle"),
            print_commands: flag("###"),
            allow_missing_bundles: flag("allow-missing-bundles"),
            check_input_archive: flag("check-input-archive"),
            hip_openmp_compatible: flag("hip-openmp-compatible"),
            compress: optional_flag("compress"),
            verbose: optional_flag("verbose"),
            bundle_align: matches.get_one("bundle-align").copied().unwrap_or(1),
            compression_level: matches.get_one("compression-level").copied(),
            file_type: matches.get_one::<OsString>("type").cloned().unwrap_or_default(),
            input: texts("input"),
            inputs: texts("inputs"),
            output: texts("output"),
            outputs: texts("outputs"),
            targets: texts("targets"),
            targets_given: matches.contains_id("targets"),
            debug_only: texts("debug-only"),
        }
    }
}

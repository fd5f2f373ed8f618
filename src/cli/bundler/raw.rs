//! What was typed, option by option, before anything is made of it.

use std::ffi::OsString;

use clap::ArgMatches;

/// The options of one command line.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::cli) struct RawArgs {
    /// `-h`
    pub(in crate::cli) help: bool,
    /// `--list`
    pub(in crate::cli) list: bool,
    /// `--unbundle`
    pub(in crate::cli) unbundle: bool,
    /// `--###`
    pub(in crate::cli) print_commands: bool,
    /// `--allow-missing-bundles`
    pub(in crate::cli) allow_missing_bundles: bool,
    /// `--check-input-archive`
    pub(in crate::cli) check_input_archive: bool,
    /// `--hip-openmp-compatible`
    pub(in crate::cli) hip_openmp_compatible: bool,
    /// `--compress`, none when it was not given.
    pub(in crate::cli) compress: Option<bool>,
    /// `--verbose`, none when it was not given.
    pub(in crate::cli) verbose: Option<bool>,
    /// `--bundle-align`, 1 when it was not given.
    pub(in crate::cli) bundle_align: u32,
    /// `--compression-level`
    pub(in crate::cli) compression_level: Option<i32>,
    /// `--compression-window`
    pub(crate) compression_window: Option<u32>,
    /// `--max-size`
    pub(in crate::cli) max_size: Option<u64>,
    /// `--type`
    pub(in crate::cli) file_type: OsString,
    /// Every `--input`
    pub(in crate::cli) input: Vec<OsString>,
    /// Every element of every `--inputs`
    pub(in crate::cli) inputs: Vec<OsString>,
    /// Every `--output`
    pub(in crate::cli) output: Vec<OsString>,
    /// Every element of every `--outputs`
    pub(in crate::cli) outputs: Vec<OsString>,
    /// Every element of every `--targets`
    pub(in crate::cli) targets: Vec<OsString>,
    /// Whether `--targets` was given, be it with an empty value.
    pub(in crate::cli) targets_given: bool,
    /// Every element of every `--debug-only`
    pub(in crate::cli) debug_only: Vec<OsString>,
}

impl RawArgs {
    /// What `clap` found.
    pub(in crate::cli) fn new(matches: &ArgMatches) -> RawArgs {
        let optional_flag = |name| matches.get_one::<bool>(name).copied();
        let flag = |name| optional_flag(name).unwrap_or_default();
        let texts =
            |name| -> Vec<OsString> { matches.get_many::<OsString>(name).into_iter().flatten().cloned().collect() };
        RawArgs {
            help: flag("h"),
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
            compression_window: matches.get_one("compression-window").copied(),
            max_size: matches.get_one("max-size").copied(),
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

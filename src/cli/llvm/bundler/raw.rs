//! The options as typed, before they are interpreted.

use std::ffi::OsString;

use clap::ArgMatches;

/// The options of a command line, under their long names: `None` if not given. Lists hold the elements of all
/// occurrences.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::cli) struct RawArgs {
    /// `-h`
    pub(in crate::cli) help: bool,
    pub(in crate::cli) list: bool,
    pub(in crate::cli) unbundle: bool,
    /// `-###`
    pub(in crate::cli) print_commands: bool,
    pub(in crate::cli) allow_missing_bundles: bool,
    pub(in crate::cli) check_input_archive: bool,
    pub(in crate::cli) hip_openmp_compatible: bool,
    pub(in crate::cli) compress: Option<bool>,
    pub(in crate::cli) verbose: Option<bool>,
    /// 1 if not given.
    pub(in crate::cli) bundle_align: u32,
    pub(in crate::cli) compression_level: Option<i32>,
    pub(in crate::cli) compression_window: Option<u32>,
    pub(in crate::cli) max_size: Option<u64>,
    pub(in crate::cli) file_type: OsString,
    pub(in crate::cli) input: Vec<OsString>,
    pub(in crate::cli) inputs: Vec<OsString>,
    pub(in crate::cli) output: Vec<OsString>,
    pub(in crate::cli) outputs: Vec<OsString>,
    pub(in crate::cli) targets: Vec<OsString>,
    /// Whether `targets` was given, even with an empty value.
    pub(in crate::cli) targets_given: bool,
    pub(in crate::cli) debug_only: Vec<OsString>,
}

impl RawArgs {
    /// Takes the options from `clap`.
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

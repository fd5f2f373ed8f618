//! The options as typed, before they are interpreted.

use std::ffi::OsString;

use clap::ArgMatches;
use offload_bundle::container::offload_binary::Version;
use offload_bundle::container::stream::Method;

/// The options of a command line, under their long names: `None` if not given.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct RawArgs {
    /// `-h`
    pub(super) help: bool,
    pub(super) archive: bool,
    pub(super) images: Vec<OsString>,
    /// `-o`; `None` if empty.
    pub(super) output: Option<OsString>,
    /// The file to extract from; `None` if empty.
    pub(super) input: Option<OsString>,
    pub(super) format_version: Option<Version>,
    pub(super) compress: Option<Method>,
    pub(super) compression_level: Option<i32>,
    pub(super) compression_window: Option<u32>,
    pub(super) max_size: Option<u64>,
}

impl RawArgs {
    /// Takes the options from `clap`.
    pub(super) fn new(matches: &ArgMatches) -> RawArgs {
        let flag = |name| matches.get_one::<bool>(name).copied().unwrap_or_default();
        let path = |name| matches.get_one::<OsString>(name).filter(|path| !path.is_empty()).cloned();
        let word = |name| matches.get_one::<String>(name);
        RawArgs {
            help: flag("h"),
            archive: flag("archive"),
            images: matches.get_many::<OsString>("image").into_iter().flatten().cloned().collect(),
            output: path("o"),
            input: path("input"),
            format_version: word("format-version").and_then(|word| Version::from_number(word.parse().ok()?)),
            compress: word("compress").and_then(|word| Method::from_name(word)),
            compression_level: matches.get_one("compression-level").copied(),
            compression_window: matches.get_one("compression-window").copied(),
            max_size: matches.get_one("max-size").copied(),
        }
    }
}

//! Turns the typed options into a job. LLVM's checks come first, in the order of 22.1.8.

use std::ffi::OsStr;
use std::path::PathBuf;

use crate::llvm::container::offload_binary::{HipNumber, Version};
use crate::llvm::container::stream::{Compression, Method};
use crate::llvm::work::{Package, Unpackage};
use anyhow::{Result, bail, ensure};

use super::PackagerOptions;
use super::image::Arguments;
use crate::llvm::cli::values::{self, limits, unsigned};

/// A job with its parameters.
#[derive(Debug)]
pub(super) enum Job {
    /// No file was named.
    Nothing,
    Package(Package),
    Unpackage(Unpackage),
}

/// Plans the job for a command line. `hip_number` reads the number that represents HIP from the environment, which may
/// print a warning. So it is called only if the number will be written.
pub(super) fn plan(options: &PackagerOptions, hip_number: impl FnOnce() -> HipNumber) -> Result<Job> {
    let images = options.image.iter().map(|image| Arguments::parse(image));
    match (path(options.input.as_deref()), path(options.output.as_deref())) {
        (None, None) => Ok(Job::Nothing),
        (Some(_), Some(_)) => {
            bail!("Packaging to an output file and extracting from an input file are mutually exclusive.")
        }
        (None, Some(output)) => {
            ensure!(options.max_size.is_none(), "--max-size is only for extracting from an input file.");
            let (version, compression) = plan_format(options)?;
            let images = images.map(Arguments::into_image).collect();
            let mut package = Package::new(images, output);
            (package.version, package.hip_number, package.compression) = (version, hip_number(), compression);
            Ok(Job::Package(package))
        }
        (Some(input), None) => {
            let packaging =
                [("format-version", options.format_version.is_some()), ("compress", options.compress.is_some())];
            for (option, is_given) in packaging.into_iter().chain(compression_options(options)) {
                ensure!(!is_given, "--{option} is only for packaging to an output file.");
            }
            let requests = images.map(Arguments::into_request).collect();
            let mut unpackage = Unpackage::new(input, requests);
            (unpackage.archive, unpackage.limits) = (options.archive.unwrap_or_default(), limits(options.max_size));
            Ok(Job::Unpackage(unpackage))
        }
    }
}

/// Returns the path, or `None` if it is empty.
fn path(typed: Option<&OsStr>) -> Option<PathBuf> {
    match typed {
        Some(path) if !path.is_empty() => Some(path.into()),
        _ => None,
    }
}

/// Returns the version to write, and the compression of images, or `None` for stored images. Without an option, LLVM's
/// version is written, or version 3 for compressed images, because no earlier one can hold them.
fn plan_format(options: &PackagerOptions) -> Result<(Version, Option<Compression>)> {
    let version = match &options.format_version {
        Some(number) => unsigned(number.as_bytes()).and_then(Version::from_number),
        None => None,
    };
    let Some(compress) = &options.compress else {
        return Ok((version.unwrap_or_default(), None));
    };
    if let Some(version) = version
        && version != Version::V3
    {
        bail!(
            "--compress and --format-version={} are mutually exclusive: only version 3 can hold compressed images.",
            version.number()
        );
    }
    let method = choose_method(compress.as_deref(), options.compression_format.as_deref())?;
    let mut compression = Compression::with_method(method);
    if let Some(level) = options.compression_level {
        compression.level = values::level(method, "--compression-level", level)?;
    }
    if let Some(log) = options.compression_window {
        compression.window_log_max = values::window(log)?;
    }
    Ok((Version::V3, Some(compression)))
}

/// Returns the method that the value of `--compress` names, or else that of `--compression-format`, or else zstd. Two
/// different methods are an error. The command line allows only names that are known here.
fn choose_method(compress: Option<&str>, compression_format: Option<&str>) -> Result<Method> {
    let compress = compress.and_then(Method::from_name);
    let format = compression_format.and_then(Method::from_name);
    if let (Some(one), Some(other)) = (compress, format)
        && one != other
    {
        let (one, other) = (one.name(), other.name());
        bail!("--compress={one} and --compression-format={other} are mutually exclusive: one file has one method.");
    }
    Ok(compress.or(format).unwrap_or(Method::Zstd))
}

/// The options that say how images are compressed, and whether each is given.
fn compression_options(options: &PackagerOptions) -> [(&'static str, bool); 3] {
    [
        ("compression-format", options.compression_format.is_some()),
        ("compression-level", options.compression_level.is_some()),
        ("compression-window", options.compression_window.is_some()),
    ]
}

/// Returns the options that have no effect because nothing is compressed. LLVM's main branch accepts them, since its
/// clang passes the level without `--compress` too.
pub(super) fn options_without_effect(options: &PackagerOptions) -> Vec<&'static str> {
    let mut without_effect = Vec::new();
    if options.compress.is_none() {
        for (option, is_given) in compression_options(options) {
            if is_given {
                without_effect.push(option);
            }
        }
    }
    without_effect
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;
    use crate::llvm::cli::Additions;
    use crate::llvm::cli::options::filled;
    use crate::llvm::cli::parse::{ParsedCommandLine, parse};

    fn options_of(words: &[&str]) -> PackagerOptions {
        let argv = [&["foo"], words].concat().into_iter().map(OsString::from).collect();
        match parse(super::super::TOOL, argv, &Additions::NONE) {
            ParsedCommandLine::Run { matches, .. } => filled(matches).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    fn planned(words: &[&str], hip_number: impl FnOnce() -> HipNumber) -> Result<Job> {
        plan(&options_of(words), hip_number)
    }

    fn message(words: &[&str]) -> String {
        planned(words, || HipNumber::Current).unwrap_err().to_string()
    }

    fn format(words: &[&str]) -> (Version, Option<Compression>) {
        match planned(&[&["-o=out"], words].concat(), || HipNumber::Old).unwrap() {
            Job::Package(package) => {
                assert_eq!(package.hip_number, HipNumber::Old);
                (package.version, package.compression)
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn files_tell_what_to_do() {
        for words in [&[][..], &["-o="], &["", "-o="]] {
            assert!(matches!(planned(words, || panic!()), Ok(Job::Nothing)));
        }
        let Ok(Job::Unpackage(job)) = planned(&["in"], || panic!()) else { panic!() };
        assert_eq!((job.input, job.requests, job.archive), ("in".into(), vec![], false));
        let Ok(Job::Unpackage(job)) = planned(&["in", "-archive", "-max-size=3K", "-image=file=a"], || panic!()) else {
            panic!()
        };
        assert_eq!((job.requests.len(), job.archive, job.limits.streamed), (1, true, Some(3 << 10)));
        assert_eq!(
            message(&["in", "-o=out"]),
            "Packaging to an output file and extracting from an input file are mutually exclusive."
        );
    }

    #[test]
    fn the_oldest_version_that_holds_all_is_written() {
        assert_eq!(format(&[]), (Version::V1, None));
        assert_eq!(format(&["-format-version=2"]), (Version::V2, None));
        assert_eq!(format(&["-format-version", "3"]), (Version::V3, None));
        let zlib = Some(Compression::with_method(Method::Zlib));
        assert_eq!(format(&["-format-version=3", "-compress=zlib"]), (Version::V3, zlib));
        let mut compression = Compression::with_method(Method::Zstd);
        (compression.level, compression.window_log_max) = (-1, 27);
        let words = ["-compress", "-compression-level=-1", "-compression-window=27"];
        assert_eq!(format(&words), (Version::V3, Some(compression)));
        let with_format = ["-compress", "-compression-format=zstd", "-compression-level=-1", "-compression-window=27"];
        assert_eq!(format(&with_format), (Version::V3, Some(compression)));
        assert_eq!(format(&["-compress", "-compression-format", "zlib"]), (Version::V3, zlib));
        assert_eq!(format(&["-compression-format=zlib", "-compress=zlib"]), (Version::V3, zlib));
    }

    #[test]
    fn nothing_is_compressed_without_the_option_for_it() {
        let words = ["-o=out", "-compression-format=zlib", "-compression-level=9", "-compression-window=27"];
        assert_eq!(format(&words[1..]), (Version::V1, None));
        let unused = options_without_effect(&options_of(&words));
        assert_eq!(unused, ["compression-format", "compression-level", "compression-window"]);
        assert!(options_without_effect(&options_of(&[&words[..], &["-compress"]].concat())).is_empty());
    }

    #[test]
    fn options_without_meaning_are_refused() {
        let old = message(&["-o=out", "-compress", "-format-version=2"]);
        assert!(old.contains("only version 3 can hold compressed images"));
        let two = message(&["-o=out", "-compress=zlib", "-compression-format=zstd"]);
        assert!(two.starts_with("--compress=zlib and --compression-format=zstd are mutually exclusive"));
        for option in
            ["compress", "format-version=3", "compression-format=zlib", "compression-level=3", "compression-window=27"]
        {
            let name = option.split('=').next().unwrap();
            let expected = format!("--{name} is only for packaging to an output file.");
            assert_eq!(message(&["in", &format!("-{option}")]), expected);
        }
        let size = message(&["-o=out", "-max-size=1"]);
        assert_eq!(size, "--max-size is only for extracting from an input file.");
    }
}

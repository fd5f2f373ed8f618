//! Turns the typed options into a job. LLVM's checks come first, in the order of 22.1.8.

use std::path::PathBuf;

use anyhow::{Result, bail, ensure};
use offload_bundle::container::offload_binary::{HipNumber, Version};
use offload_bundle::container::stream::{Compression, Method};
use offload_bundle::llvm::{Package, Unpackage};

use super::image::Arguments;
use crate::cli::llvm::settings::Settings;
use crate::cli::values::{self, limits, signed, size, unsigned};

/// The options that say how images are compressed.
const OF_COMPRESSION: [&str; 3] = ["compression-format", "compression-level", "compression-window"];

/// A job with its parameters.
#[derive(Debug)]
pub(super) enum Job {
    /// No file was named.
    Nothing,
    Package(Package),
    Unpackage(Unpackage),
}

/// Plans the job for a command line. `hip_number` is called only if that number is to be written.
pub(super) fn plan(settings: &Settings, hip_number: impl FnOnce() -> HipNumber) -> Result<Job> {
    let images = settings.all("image").map(Arguments::parse);
    let path = |name| settings.last(name).filter(|path| !path.is_empty()).map(PathBuf::from);
    match (path("input"), path("o")) {
        (None, None) => Ok(Job::Nothing),
        (Some(_), Some(_)) => {
            bail!("Packaging to an output file and extracting from an input file are mutually exclusive.")
        }
        (None, Some(output)) => {
            ensure!(settings.last("max-size").is_none(), "--max-size is only for extracting from an input file.");
            let (version, compression) = plan_format(settings)?;
            let images = images.map(Arguments::into_image).collect();
            let mut package = Package::new(images, output);
            (package.version, package.hip_number, package.compression) = (version, hip_number(), compression);
            Ok(Job::Package(package))
        }
        (Some(input), None) => {
            let mut packaging = ["format-version", "compress"].iter().chain(&OF_COMPRESSION);
            if let Some(option) = packaging.find(|option| settings.last(option).is_some()) {
                bail!("--{option} is only for packaging to an output file.");
            }
            let requests = images.map(Arguments::into_request).collect();
            let mut unpackage = Unpackage::new(input, requests);
            (unpackage.archive, unpackage.limits) =
                (settings.flag("archive"), limits(settings.parsed("max-size", size)));
            Ok(Job::Unpackage(unpackage))
        }
    }
}

/// The version to write, and the compression of images.
fn plan_format(settings: &Settings) -> Result<(Version, Option<Compression>)> {
    let version = settings.parsed("format-version", |text| Version::from_number(unsigned(text)?));
    let level = settings.parsed("compression-level", signed);
    let window = settings.parsed("compression-window", unsigned);
    if settings.last("compress").is_none() {
        return Ok((version.unwrap_or_default(), None));
    }
    if let Some(version) = version.filter(|version| *version != Version::V3) {
        bail!(
            "--compress and --format-version={} are mutually exclusive: only version 3 can hold compressed images.",
            version.number()
        );
    }
    let method = method(settings)?;
    let mut compression = Compression::of(method);
    if let Some(level) = level {
        compression.level = values::level(method, "--compression-level", level)?;
    }
    if let Some(log) = window {
        compression.window_log_max = values::window("--compression-window", log)?;
    }
    Ok((Version::V3, Some(compression)))
}

/// The method for `--compress`, which it names itself or leaves to `--compression-format`.
fn method(settings: &Settings) -> Result<Method> {
    let named = |option| settings.parsed(option, |word| Method::from_name(str::from_utf8(word).ok()?));
    match (named("compress"), named("compression-format")) {
        (Some(one), Some(other)) if one != other => {
            bail!(
                "--compress={} and --compression-format={} are mutually exclusive: one file has one method.",
                one.name(),
                other.name()
            )
        }
        (Some(method), _) | (None, Some(method)) => Ok(method),
        (None, None) => Ok(Method::Zstd),
    }
}

/// The options for packing that have no effect because nothing is compressed. As in LLVM's main branch, whose clang passes
/// the level without `--compress` too, they are no error.
pub(super) fn without_effect(settings: &Settings) -> impl Iterator<Item = &'static str> {
    let compresses = settings.last("compress").is_some();
    OF_COMPRESSION.into_iter().filter(move |option| !compresses && settings.last(option).is_some())
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;
    use crate::cli::llvm::parse::{Parsed, parse};

    fn planned(words: &[&str], hip_number: impl FnOnce() -> HipNumber) -> Result<Job> {
        let argv = [&["foo"], words].concat().into_iter().map(OsString::from).collect();
        match parse(super::super::TOOL, argv) {
            Parsed::Run { settings, .. } => plan(&settings, hip_number),
            other => panic!("{other:?}"),
        }
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
        let zlib = Some(Compression::of(Method::Zlib));
        assert_eq!(format(&["-format-version=3", "-compress=zlib"]), (Version::V3, zlib));
        let mut compression = Compression::of(Method::Zstd);
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
        let unused = |words: &[&str]| {
            let argv = [&["foo"], words].concat().into_iter().map(OsString::from).collect();
            match parse(super::super::TOOL, argv) {
                Parsed::Run { settings, .. } => without_effect(&settings).collect::<Vec<_>>(),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(unused(&words), OF_COMPRESSION);
        assert!(unused(&[&words[..], &["-compress"]].concat()).is_empty());
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

//! Turns the typed options into a job. LLVM's checks come first, in the order of 22.1.8.

use std::path::PathBuf;

use anyhow::{Result, bail, ensure};
use offload_bundle::container::offload_binary::{HipNumber, Version};
use offload_bundle::container::stream::{Compression, Method};
use offload_bundle::llvm::{Package, Unpackage};

use super::image::Arguments;
use crate::cli::llvm::settings::Settings;
use crate::cli::values::{self, limits, signed, size, unsigned};

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
            let packaging = ["format-version", "compress", "compression-level", "compression-window"];
            if let Some(option) = packaging.iter().find(|option| settings.last(option).is_some()) {
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
    let Some(method) = settings.parsed("compress", |word| Method::from_name(str::from_utf8(word).ok()?)) else {
        ensure!(level.is_none(), "--compression-level is only for --compress.");
        ensure!(window.is_none(), "--compression-window is only for --compress.");
        return Ok((version.unwrap_or_default(), None));
    };
    if let Some(version) = version.filter(|version| *version != Version::V3) {
        bail!(
            "--compress and --format-version={} are mutually exclusive: only version 3 can hold compressed images.",
            version.number()
        );
    }
    let mut compression = Compression::of(method);
    if let Some(level) = level {
        compression.level = values::level(method, "--compression-level", level)?;
    }
    if let Some(log) = window {
        compression.window_log_max = values::window("--compression-window", log)?;
    }
    Ok((Version::V3, Some(compression)))
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
    }

    #[test]
    fn options_without_meaning_are_refused() {
        let old = message(&["-o=out", "-compress", "-format-version=2"]);
        assert!(old.contains("only version 3 can hold compressed images"));
        for name in ["compression-level", "compression-window"] {
            assert_eq!(message(&["-o=out", &format!("-{name}=3")]), format!("--{name} is only for --compress."));
        }
        for option in ["compress", "format-version=3", "compression-level=3", "compression-window=27"] {
            let name = option.split('=').next().unwrap();
            let expected = format!("--{name} is only for packaging to an output file.");
            assert_eq!(message(&["in", &format!("-{option}")]), expected);
        }
        let size = message(&["-o=out", "-max-size=1"]);
        assert_eq!(size, "--max-size is only for extracting from an input file.");
    }
}

//! Turns the typed options into a job. LLVM's checks come first, in the order of 22.1.8.

use std::path::PathBuf;

use anyhow::{Result, bail, ensure};
use offload_bundle::container::offload_binary::{HipNumber, Version};
use offload_bundle::container::stream::Compression;
use offload_bundle::llvm::{Package, Unpackage};

use super::image::Arguments;
use super::raw::RawArgs;
use crate::cli::values::{self, limits};

/// A job with its parameters.
#[derive(Debug)]
pub(super) enum Job {
    /// No file was named.
    Nothing,
    Package(Package),
    Unpackage(Unpackage),
}

/// Plans the job for a command line. `hip_number` is called only if that number is to be written.
pub(super) fn plan(raw: RawArgs, hip_number: impl FnOnce() -> HipNumber) -> Result<Job> {
    let images = raw.images.iter().map(|typed| Arguments::parse(typed));
    let (input, output) = (raw.input.as_ref().map(PathBuf::from), raw.output.as_ref().map(PathBuf::from));
    match (input, output) {
        (None, None) => Ok(Job::Nothing),
        (Some(_), Some(_)) => {
            bail!("Packaging to an output file and extracting from an input file are mutually exclusive.")
        }
        (None, Some(output)) => {
            ensure!(raw.max_size.is_none(), "--max-size is only for extracting from an input file.");
            let (version, compression) = plan_format(&raw)?;
            let images = images.map(Arguments::into_image).collect();
            let mut package = Package::new(images, output);
            (package.version, package.hip_number, package.compression) = (version, hip_number(), compression);
            Ok(Job::Package(package))
        }
        (Some(input), None) => {
            let packaging = [
                ("--format-version", raw.format_version.is_some()),
                ("--compress", raw.compress.is_some()),
                ("--compression-level", raw.compression_level.is_some()),
                ("--compression-window", raw.compression_window.is_some()),
            ];
            if let Some((option, _)) = packaging.iter().find(|(_, given)| *given) {
                bail!("{option} is only for packaging to an output file.");
            }
            let requests = images.map(Arguments::into_request).collect();
            let mut unpackage = Unpackage::new(input, requests);
            (unpackage.archive, unpackage.limits) = (raw.archive, limits(raw.max_size));
            Ok(Job::Unpackage(unpackage))
        }
    }
}

/// The version to write, and the compression of images.
fn plan_format(raw: &RawArgs) -> Result<(Version, Option<Compression>)> {
    let Some(method) = raw.compress else {
        ensure!(raw.compression_level.is_none(), "--compression-level is only for --compress.");
        ensure!(raw.compression_window.is_none(), "--compression-window is only for --compress.");
        return Ok((raw.format_version.unwrap_or_default(), None));
    };
    if let Some(version) = raw.format_version.filter(|version| *version != Version::V3) {
        bail!(
            "--compress and --format-version={} are mutually exclusive: only version 3 can hold compressed images.",
            version.number()
        );
    }
    let mut compression = Compression::of(method);
    if let Some(level) = raw.compression_level {
        compression.level = values::level(method, "--compression-level", level)?;
    }
    if let Some(log) = raw.compression_window {
        compression.window_log_max = values::window("--compression-window", log)?;
    }
    Ok((Version::V3, Some(compression)))
}

#[cfg(test)]
mod tests {
    use offload_bundle::container::stream::Method;

    use super::*;

    fn message(raw: RawArgs) -> String {
        plan(raw, || HipNumber::Current).unwrap_err().to_string()
    }

    fn packing() -> RawArgs {
        RawArgs { output: Some("out".into()), ..RawArgs::default() }
    }

    fn format(raw: RawArgs) -> (Version, Option<Compression>) {
        match plan(raw, || HipNumber::Old).unwrap() {
            Job::Package(package) => {
                assert_eq!(package.hip_number, HipNumber::Old);
                (package.version, package.compression)
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn files_tell_what_to_do() {
        assert!(matches!(plan(RawArgs::default(), || panic!()), Ok(Job::Nothing)));
        let input = RawArgs { input: Some("in".into()), ..RawArgs::default() };
        let Ok(Job::Unpackage(job)) = plan(input, || panic!()) else { panic!() };
        assert_eq!((job.input, job.requests, job.archive), ("in".into(), vec![], false));
        let both = RawArgs { input: Some("in".into()), ..packing() };
        assert_eq!(
            message(both),
            "Packaging to an output file and extracting from an input file are mutually exclusive."
        );
    }

    #[test]
    fn the_oldest_version_that_holds_all_is_written() {
        let asked = |version| RawArgs { format_version: Some(version), ..packing() };
        assert_eq!(format(packing()), (Version::V1, None));
        assert_eq!(format(asked(Version::V2)), (Version::V2, None));
        assert_eq!(format(asked(Version::V3)), (Version::V3, None));
        let zlib = RawArgs { compress: Some(Method::Zlib), ..asked(Version::V3) };
        assert_eq!(format(zlib), (Version::V3, Some(Compression::of(Method::Zlib))));
        let zstd = RawArgs { compress: Some(Method::Zstd), compression_level: Some(-1), ..packing() };
        let mut compression = Compression::of(Method::Zstd);
        compression.level = -1;
        assert_eq!(format(zstd), (Version::V3, Some(compression)));
    }

    #[test]
    fn options_without_meaning_are_refused() {
        let compress = Some(Method::Zstd);
        let old = RawArgs { compress, format_version: Some(Version::V2), ..packing() };
        assert!(message(old).contains("only version 3 can hold compressed images"));
        let level = RawArgs { compression_level: Some(3), ..packing() };
        assert_eq!(message(level), "--compression-level is only for --compress.");
        let extracting = RawArgs { input: Some("in".into()), compress, ..RawArgs::default() };
        assert_eq!(message(extracting), "--compress is only for packaging to an output file.");
    }
}

//! Turns the typed options into a job. LLVM's checks come first, in the order of 22.1.8.

use std::ffi::OsStr;
use std::path::PathBuf;

use crate::llvm::work::{Package, Unpackage};
use anyhow::{Result, bail, ensure};

use super::PackagerOptions;
use super::image::Arguments;
use crate::llvm::cli::values::limits;

/// A job with its parameters.
#[derive(Debug)]
pub(super) enum Job {
    /// No file was named.
    Nothing,
    Package(Package),
    Unpackage(Unpackage),
}

/// Plans the job for a command line.
pub(super) fn plan(options: &PackagerOptions) -> Result<Job> {
    let images = options.image.iter().map(|image| Arguments::parse(image));
    match (path(options.input.as_deref()), path(options.output.as_deref())) {
        (None, None) => Ok(Job::Nothing),
        (Some(_), Some(_)) => {
            bail!("Packaging to an output file and extracting from an input file are mutually exclusive.")
        }
        (None, Some(output)) => {
            ensure!(options.max_size.is_none(), "--max-size is only for extracting from an input file.");
            Ok(Job::Package(Package::new(images.map(Arguments::into_image).collect(), output)))
        }
        (Some(input), None) => {
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

    fn planned(words: &[&str]) -> Result<Job> {
        plan(&options_of(words))
    }

    fn message(words: &[&str]) -> String {
        planned(words).unwrap_err().to_string()
    }

    #[test]
    fn files_tell_what_to_do() {
        for words in [&[][..], &["-o="], &["", "-o="]] {
            assert!(matches!(planned(words), Ok(Job::Nothing)));
        }
        let Ok(Job::Unpackage(job)) = planned(&["in"]) else { panic!() };
        assert_eq!((job.input, job.requests, job.archive), ("in".into(), vec![], false));
        let Ok(Job::Unpackage(job)) = planned(&["in", "-archive", "-max-size=3K", "-image=file=a"]) else { panic!() };
        assert_eq!((job.requests.len(), job.archive, job.limits.streamed), (1, true, Some(3 << 10)));
        assert_eq!(
            message(&["in", "-o=out"]),
            "Packaging to an output file and extracting from an input file are mutually exclusive."
        );
    }

    #[test]
    fn the_limit_on_inflated_sizes_is_for_reading() {
        let size = message(&["-o=out", "-max-size=1"]);
        assert_eq!(size, "--max-size is only for extracting from an input file.");
    }
}

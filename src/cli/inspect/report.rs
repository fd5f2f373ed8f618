//! The findings of `inspect` in a file, collected before they are printed.

use std::cmp::Reverse;

use offload_bundle::Result;
use offload_bundle::job::{Inspect, Inspected};
use offload_bundle::runtime::{Device, Served};

use crate::cli::files::{FileOrigin, WorkFile};

/// The findings in one file.
#[derive(Debug)]
pub(super) struct FileReport {
    pub(super) origin: FileOrigin,
    pub(super) inspected: Inspected,
}

impl FileReport {
    /// Searches a file.
    pub(super) fn new(file: WorkFile, inspect: &Inspect) -> Result<Self> {
        Ok(Self { inspected: inspect.run(&file.open(inspect.limits)?)?, origin: file.origin })
    }

    /// The number of its findings.
    pub(super) fn weight(&self) -> usize {
        let Inspected { bundles, unread, references, problems, .. } = &self.inspected;
        let code_objects: usize = bundles.iter().map(|bundle| bundle.code_objects.len() + 1).sum();
        code_objects + unread.len() + references.len() + problems.len() + 1
    }
}

/// Orders GPUs by what a reader needs to know: single ones first, of these the ones that most bundles do not serve.
pub(super) fn sort_by_need(gpus: &mut [(Device, Served)]) {
    gpus.sort_by_key(|(gpu, served)| (!gpu.is_one(), Reverse(served.missing())));
}

//! The JSON report of `inspect`, described by `docs/inspect.schema.json`.

use std::cell::RefCell;
use std::io::Write;
use std::path::PathBuf;

use offload_bundle::Result;
use offload_bundle::job::{self, Inspected};
use offload_bundle::runtime::{Device, Served};
use serde::{Serialize, Serializer};

use super::report::FileReport;
use crate::cli::print::code_object::{Fields, UnreadPart};
use crate::cli::print::json::{self, Each, Late};

/// The schema version. Adding a field does not change it.
const VERSION: u32 = 1;

#[derive(Serialize)]
struct Document<F, P> {
    version: u32,
    files: F,
    problems: P,
}

#[derive(Serialize)]
struct File<'r> {
    path: String,
    size: u64,
    code_objects: Vec<Fields>,
    unread: Vec<UnreadPart>,
    bundles: usize,
    coverage: Option<Vec<Gpu>>,
    kpack_references: Vec<ReferenceReport<'r>>,
}

/// In how many bundles a GPU is served.
#[derive(Serialize)]
struct Gpu {
    gpu: String,
    serving: usize,
    bundles: usize,
}

#[derive(Serialize)]
struct ReferenceReport<'r> {
    member: Option<String>,
    kernel_name: &'r str,
    search_paths: &'r [String],
    archives: Option<Vec<String>>,
}

/// Writes the document, each file as soon as its report is available. `problems` is complete only after the last one.
pub(super) fn write(
    files: impl Iterator<Item = FileReport>,
    problems: &RefCell<Vec<String>>,
    out: &mut dyn Write,
) -> Result<()> {
    let document = Document { version: VERSION, files: Each::new(files), problems: Late(|| problems.borrow().clone()) };
    json::write(&document, out)
}

impl Serialize for FileReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let Inspected { bundles, unread, references, .. } = &self.inspected;
        let code_objects = bundles.iter().flat_map(|bundle| &bundle.code_objects).map(Fields::new).collect();
        let unread = unread.iter().map(UnreadPart::new).collect();
        let path = self.path.to_string_lossy().into_owned();
        let kpack_references = references.iter().map(ReferenceReport::new).collect();
        let all = self.inspected.coverage();
        let gpu = |(gpu, served): (Device, Served)| Gpu {
            gpu: gpu.name().to_owned(),
            serving: served.serving,
            bundles: served.bundles,
        };
        let coverage = all.gpus().map(|gpus| gpus.into_iter().map(gpu).collect());
        let bundles = all.bundles();
        File { path, size: self.size, code_objects, unread, bundles, coverage, kpack_references }.serialize(serializer)
    }
}

impl<'r> ReferenceReport<'r> {
    fn new(reference: &'r job::KpackReference) -> Self {
        let shown = |paths: &Vec<PathBuf>| paths.iter().map(|path| path.to_string_lossy().into_owned()).collect();
        Self {
            member: reference.place.member(),
            kernel_name: &reference.kernel_name,
            search_paths: &reference.search_paths,
            archives: reference.archives.as_ref().map(shown),
        }
    }
}

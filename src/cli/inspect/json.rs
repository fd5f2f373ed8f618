//! The JSON report of `inspect`, described by `docs/inspect.schema.json`.

use std::cell::RefCell;
use std::io::Write;

use offload_bundle::Result;
use offload_bundle::job::Inspected;
use serde::Serialize;

use crate::cli::print::json::{self, Each, Late};

/// The schema version. Adding a field does not change it.
const VERSION: u32 = 1;

#[derive(Serialize)]
struct InspectDocument<F, P> {
    version: u32,
    files: F,
    problems: P,
}

/// Writes the document, each file as soon as its report is available. `problems` is complete only after the last one.
pub(super) fn write(
    files: impl Iterator<Item = Inspected>,
    problems: &RefCell<Vec<String>>,
    out: &mut dyn Write,
) -> Result<()> {
    let document =
        InspectDocument { version: VERSION, files: Each::new(files), problems: Late(|| problems.borrow().clone()) };
    json::write(&document, out)
}

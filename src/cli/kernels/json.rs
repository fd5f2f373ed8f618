//! The JSON report of `kernels`, described by `docs/kernels.schema.json`.

use std::cell::RefCell;
use std::io::Write;

use offload_bundle::Result;
use offload_bundle::kernels::Kernel;
use serde::Serialize;

use super::report::{Others, Row, mangled};
use crate::cli::print::code_object::At;
use crate::cli::print::json::{self, Each, Late};

/// The schema version. Adding a field does not change it.
const VERSION: u32 = 1;

#[derive(Serialize)]
struct KernelsDocument<K, O, P> {
    version: u32,
    kernels: K,
    others: O,
    problems: P,
}

#[derive(Serialize)]
struct KernelFields {
    path: String,
    #[serde(flatten)]
    at: At,
    target_id: String,
    name: String,
    mangled_name: String,
    #[serde(flatten)]
    numbers: Kernel,
}

/// Code objects of a kind without registers.
#[derive(Clone, Serialize)]
struct Other {
    image_kind: &'static str,
    code_objects: usize,
}

impl KernelFields {
    fn new(Row { from, gpu, name, kernel }: Row) -> Self {
        Self {
            path: from.bundle.place.file().to_string_lossy().into_owned(),
            at: At::new(&from),
            target_id: gpu.as_ref().to_owned(),
            name: name.as_ref().to_owned(),
            mangled_name: mangled(&kernel.name),
            numbers: kernel,
        }
    }
}

/// Writes the document, each file as soon as its kernels are available. `others` and `problems` are complete only after the
/// last one.
pub(super) fn write(
    files: &mut dyn Iterator<Item = Vec<Row>>,
    others: &RefCell<Others>,
    problems: &RefCell<Vec<String>>,
    out: &mut dyn Write,
) -> Result<()> {
    let other = |(&image_kind, &code_objects): (&&'static str, &usize)| Other { image_kind, code_objects };
    let others = Late(|| others.borrow().0.iter().map(other).collect::<Vec<_>>());
    let kernels = Each::new(files.flatten().map(KernelFields::new));
    let document = KernelsDocument { version: VERSION, kernels, others, problems: Late(|| problems.borrow().clone()) };
    json::write(&document, out)
}

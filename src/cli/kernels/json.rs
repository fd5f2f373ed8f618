//! The JSON report of `kernels`, described by `docs/kernels.schema.json`.

use std::cell::RefCell;
use std::io::Write;

use offload_bundle::kernels::Kernel;
use offload_bundle::scan::CodeObject;
use serde::{Serialize, Serializer};

use super::fail::Failing;
use super::report::{Row, mangled};
use crate::cli::files::Problems;
use crate::cli::print::json::{self, Each, Late};
use crate::cli::print::units::Kinds;

/// The schema version. Adding a field does not change it.
const VERSION: u32 = 1;

#[derive(Serialize)]
struct KernelsDocument<'r, K, F> {
    version: u32,
    kernels: K,
    #[serde(serialize_with = "others")]
    others: &'r RefCell<Kinds>,
    failures: F,
    problems: &'r Problems,
}

impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Fields<'r> {
            path: &'r str,
            #[serde(flatten, serialize_with = "CodeObject::serialize_location")]
            code_object: &'r CodeObject,
            target_id: &'r str,
            name: &'r str,
            mangled_name: String,
            #[serde(flatten)]
            numbers: &'r Kernel,
        }
        let Self { code_object, gpu, name, kernel } = self;
        let path = &code_object.bundle.place.file().to_string_lossy();
        let mangled_name = mangled(&kernel.name);
        Fields { path, code_object, target_id: gpu, name, mangled_name, numbers: kernel }.serialize(serializer)
    }
}

/// The numbers of code objects of kinds without registers.
fn others<S: Serializer>(others: &RefCell<Kinds>, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Other {
        image_kind: &'static str,
        code_objects: usize,
    }
    let others = others.borrow();
    serializer.collect_seq(others.iter().map(|(image_kind, code_objects)| Other { image_kind, code_objects }))
}

/// Writes the document, each file as soon as its kernels are available. The rest is complete only after the last one.
pub(super) fn write(
    files: &mut dyn Iterator<Item = Vec<Row>>,
    others: &RefCell<Kinds>,
    failing: &RefCell<Failing>,
    problems: &Problems,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let (kernels, failures) = (Each::new(files.flatten()), Late(|| failing.borrow().failures()));
    json::write(&KernelsDocument { version: VERSION, kernels, others, failures, problems }, out)
}

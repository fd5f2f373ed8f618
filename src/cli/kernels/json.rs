//! The JSON report of `kernels`, described by `docs/kernels.schema.json`.

use std::cell::RefCell;
use std::io::Write;

use offload_bundle::serialized::{KernelRow, KernelsReport, OtherCode};
use serde::{Serialize, Serializer};

use super::fail::Failing;
use super::report::{Row, mangled};
use crate::cli::files::Problems;
use crate::cli::print::json::{self, Each, Late};
use crate::cli::print::units::Kinds;

impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { code_object, gpu, name, kernel } = self;
        KernelRow::new(code_object, gpu, (name, mangled(&kernel.name)), kernel).serialize(serializer)
    }
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
    let other = |(image_kind, code_objects)| OtherCode { image_kind, code_objects };
    let others = Late(|| others.borrow().iter().map(other).collect::<Vec<_>>());
    json::write(KernelsReport { kernels, others, failures }, problems, out)
}

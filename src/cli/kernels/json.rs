//! The JSON report of `kernels`, described by `docs/kernels.schema.json`.

use std::cell::RefCell;
use std::io::Write;
use std::sync::Arc;

use offload_bundle::scan::CodeObject;
use offload_bundle::serialized::{KernelRow, KernelsReport, OtherCode};
use serde::ser::Error as _;
use serde::{Serialize, Serializer};

use super::report::{KernelSums, Row, mangled};
use crate::cli::files::Problems;
use crate::cli::print::json::{self, Each, Late};

/// A kernel with the URI of its code object, or why that cannot be told.
pub(crate) struct RowWithUri {
    row: Row,
    uri: offload_bundle::Result<Option<Arc<str>>>,
}

impl Serialize for RowWithUri {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Row { code_object, gpu, name, kernel } = &self.row;
        let uri = self.uri.as_ref().map_err(S::Error::custom)?.as_deref();
        KernelRow::new(code_object, uri, gpu, (name, mangled(&kernel.name)), kernel).serialize(serializer)
    }
}

/// Adds the URIs, each once for the kernels of a code object that follow each other.
pub(crate) fn with_uris(rows: impl Iterator<Item = Row>) -> impl Iterator<Item = RowWithUri> {
    let mut last: Option<(Arc<CodeObject>, Option<Arc<str>>)> = None;
    rows.map(move |row| {
        let known = last.as_ref().filter(|(code_object, _)| Arc::ptr_eq(code_object, &row.code_object));
        let uri = match known {
            Some((_, uri)) => Ok(uri.clone()),
            None => row.code_object.uri().map(|uri| uri.map(|uri| uri.to_string().into())),
        };
        last = uri.as_ref().ok().map(|uri| (Arc::clone(&row.code_object), uri.clone()));
        RowWithUri { row, uri }
    })
}

/// Writes the document, each file as soon as its kernels are available. The rest is complete only after the last one.
pub(super) fn write(
    files: &mut dyn Iterator<Item = Vec<Row>>,
    sums: &RefCell<KernelSums>,
    problems: &Problems,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let (kernels, failures) = (Each::new(with_uris(files.flatten())), Late(|| sums.borrow().failing.failures()));
    let other = |(image_kind, code_objects)| OtherCode { image_kind, code_objects };
    let others = Late(|| sums.borrow().others.iter().map(other).collect::<Vec<_>>());
    json::write(KernelsReport { kernels, others, failures }, problems, out)
}

//! The JSON report of `inspect`, described by `docs/inspect.schema.json`.

use std::cell::RefCell;
use std::io::Write;

use offload_bundle::Result;
use serde::{Serialize, Serializer};

use super::report::{BundleRow, FileReport, Row};
use crate::cli::code_object::{CodeObject, Entry, InBundle, UnreadPart};
use crate::cli::json::{self, Each, Late};

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
    code_objects: Vec<CodeObject<'r>>,
    unread: Vec<UnreadPart>,
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
        file(self).serialize(serializer)
    }
}

fn file(file: &FileReport) -> File<'_> {
    let rows = file.bundles.iter().flat_map(|bundle| bundle.code_objects.iter().map(move |row| (bundle, row)));
    let code_objects = rows.map(|(bundle, row)| code_object(bundle, row)).collect();
    let unread = file.unread.iter().map(UnreadPart::new).collect();
    File { path: file.path.to_string_lossy().into_owned(), size: file.size, code_objects, unread }
}

fn code_object<'r>(bundle: &'r BundleRow, row: &'r Row) -> CodeObject<'r> {
    let BundleRow { place, format, index, range, compressed, .. } = bundle;
    let bundle = InBundle { place, format: *format, index: *index, range, compressed: *compressed };
    let entry = Entry {
        id: &row.id,
        target: row.target.as_ref(),
        content: row.content,
        size: row.size,
        packed: row.packed.as_ref(),
        source: row.source.as_deref(),
        range: row.range.as_ref(),
        recorded_target: row.recorded_target.as_deref(),
        uri: row.uri.as_deref(),
    };
    CodeObject::new(&bundle, &entry)
}

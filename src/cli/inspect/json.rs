//! The JSON report of `inspect`, described by `docs/inspect.schema.json`.

use std::io::Write;

use offload_bundle::Result;
use offload_bundle::scan::{ContentKind, Origin};
use serde::Serialize;

use super::report::{BundleRow, FileReport, Report, Row};
use crate::cli::subcommand::write_json;

/// The schema version. Adding a field does not change it.
const VERSION: u32 = 1;

#[derive(Serialize)]
struct Document<'r> {
    version: u32,
    files: Vec<File<'r>>,
    problems: Vec<&'r str>,
}

#[derive(Serialize)]
struct File<'r> {
    path: String,
    size: u64,
    code_objects: Vec<CodeObject<'r>>,
}

#[derive(Serialize)]
struct CodeObject<'r> {
    path: String,
    member: Option<String>,
    section: Option<String>,
    container: &'static str,
    bundle: usize,
    bundle_offset: u64,
    bundle_size: u64,
    offset: Option<u64>,
    size: u64,
    compressed: Option<Compressed>,
    inflated_offset: Option<u64>,
    entry_id: &'r str,
    kind: Option<&'static str>,
    triple: Option<&'r str>,
    target_id: Option<&'r str>,
    recorded_target_id: Option<&'r str>,
    image_kind: Option<&'static str>,
    uri: Option<&'r str>,
}

#[derive(Serialize)]
struct Compressed {
    method: &'static str,
    format_version: u32,
    inflated_size: u64,
}

/// Writes the document.
pub(super) fn write(report: &Report, out: &mut dyn Write) -> Result<()> {
    let files = report.files.iter().map(file).collect();
    let document = Document { version: VERSION, files, problems: report.problems() };
    write_json(&document, out)
}

fn file(file: &FileReport) -> File<'_> {
    let path = file.path.to_string_lossy().into_owned();
    let rows = file.bundles.iter().flat_map(|bundle| bundle.code_objects.iter().map(move |row| (bundle, row)));
    let code_objects = rows.map(|(bundle, row)| code_object(&path, bundle, row)).collect();
    File { size: file.size, code_objects, path }
}

fn code_object<'r>(path: &str, bundle: &BundleRow, row: &'r Row) -> CodeObject<'r> {
    let in_file = matches!(bundle.place.origin(), Origin::File(_));
    let target = row.target.as_ref();
    let start = row.range.as_ref().map(|range| range.start);
    CodeObject {
        path: path.to_owned(),
        member: bundle.place.member(),
        section: bundle.place.section(),
        container: bundle.format.name(),
        bundle: bundle.index,
        bundle_offset: bundle.range.start,
        bundle_size: bundle.stored(),
        offset: start.filter(|_| in_file && bundle.compressed.is_none()),
        size: row.size,
        compressed: bundle.compressed.map(|recorded| Compressed {
            method: recorded.method.name(),
            format_version: recorded.version,
            inflated_size: recorded.inflated,
        }),
        inflated_offset: start.filter(|_| bundle.compressed.is_some()),
        entry_id: &row.id,
        kind: target.and_then(|target| target.kind).map(|kind| kind.name()),
        triple: target.map(|target| target.triple.as_str()),
        target_id: target.map(|target| target.target_id.as_str()).filter(|target_id| !target_id.is_empty()),
        recorded_target_id: row.recorded_target.as_deref(),
        image_kind: row.content.map(ContentKind::name),
        uri: row.uri.as_deref(),
    }
}

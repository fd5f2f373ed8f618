//! How the reports name a code object.

use offload_bundle::scan::CodeObject;
use serde::Serialize;

/// Where a code object is in its file.
#[derive(Serialize)]
pub(in crate::cli) struct At {
    origin: Option<String>,
    member: Option<String>,
    section: Option<String>,
    container: &'static str,
    bundle: usize,
    entry_id: String,
}

impl At {
    pub(in crate::cli) fn new(code_object: &CodeObject) -> Self {
        let bundle = &code_object.bundle;
        Self {
            origin: bundle.place.other_file().map(|path| path.to_string_lossy().into_owned()),
            member: bundle.place.member(),
            section: bundle.place.section(),
            container: bundle.format.name(),
            bundle: bundle.index,
            entry_id: code_object.shown_id(),
        }
    }
}

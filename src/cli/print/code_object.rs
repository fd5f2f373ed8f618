//! How the reports name a code object.

use std::path::Path;

use offload_bundle::scan::{CodeObject, Origin, Place};
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
            origin: other_file(&bundle.place).map(|path| path.to_string_lossy().into_owned()),
            member: bundle.place.member(),
            section: bundle.place.section(),
            container: bundle.format.name(),
            bundle: bundle.index,
            entry_id: code_object.shown_id(),
        }
    }
}

/// The file with the bytes of a place, if that is not the file that was searched.
pub(in crate::cli) fn other_file(place: &Place) -> Option<&Path> {
    match place.origin() {
        Origin::File(file) if file != place.file() => Some(file),
        _ => None,
    }
}

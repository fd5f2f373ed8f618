//! How the reports name a code object.

use std::path::Path;

use offload_bundle::id::OffloadKind;
use offload_bundle::scan::{CodeObject, Format, Origin, Place};
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

/// The target of a code object in one word: the target ID, or else `host`, the triple or the whole ID.
pub(in crate::cli) fn for_whom(code_object: &CodeObject) -> String {
    let is_host = |kind| kind == OffloadKind::Host && code_object.bundle.format != Format::CodeObject;
    match code_object.entry_id() {
        Some(id) if is_host(id.kind()) => "host".to_owned(),
        _ => code_object.target(),
    }
}

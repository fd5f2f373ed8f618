//! The GPUs that a code object is for.

use std::collections::HashMap;

use crate::base::display::printable;
use crate::base::id::{EntryId, OffloadKind};
use crate::beyond::container::ContentKind;
use crate::beyond::runtime::Code;
use crate::beyond::scan::{CodeObject, CodeObjectRef, Format};

/// The host or the GPUs that a code object is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CodeFor {
    /// The host.
    Host,
    /// GPUs: one, a family, or all whose driver compiles the code.
    Gpus(Code),
    /// A device that neither the entry ID nor the content names: its triple, or else the whole ID.
    Unknown(String),
}

impl CodeFor {
    /// Returns what a code object is for. `recorded` is the target ID that its content records, which counts if the
    /// entry ID has none. The content also decides what an ID such as `sm_90` means: PTX with this ID is for all GPUs
    /// that compile it.
    pub(crate) fn of(code_object: &CodeObject, recorded: Option<&str>) -> Self {
        match code_object.entry_id() {
            Some(id) => Self::of_entry(&id, code_object.bundle.format, code_object.kind, recorded),
            None => Self::Unknown(code_object.shown_id()),
        }
    }

    /// Returns what a code object with this entry ID is for, in a bundle of this format and with content of this kind.
    fn of_entry(id: &EntryId, format: Format, kind: Option<ContentKind>, recorded: Option<&str>) -> Self {
        // A code object without a bundle is never host code.
        if id.kind() == OffloadKind::Host && format != Format::CodeObject {
            return Self::Host;
        }
        // Without content, the ID still names the GPU.
        let content = kind.filter(|kind| *kind != ContentKind::Empty);
        match Code::of_entry(id, content, recorded) {
            Some(code) => Self::Gpus(code),
            None => Self::Unknown(unknown_device(id)),
        }
    }

    /// Returns the name: a target ID, an architecture of NVIDIA's such as `sm_90` or `compute_90`, or `host`; safe to
    /// print on a terminal.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Host => "host".to_owned(),
            Self::Gpus(code) => printable(&code.name()),
            Self::Unknown(device) => printable(device),
        }
    }
}

/// Returns the target in an entry ID that names none of the known GPUs, or else the triple.
fn unknown_device(id: &EntryId) -> String {
    let target_id = id.target().to_string();
    if target_id.is_empty() { id.triple().as_str().trim_end_matches('-').to_owned() } else { target_id }
}

impl CodeObject {
    /// Returns what the code object is for, by its entry ID and its content.
    pub(crate) fn code_for(&self) -> CodeFor {
        CodeFor::of(self, self.recorded_target.as_deref())
    }

    /// The target of the code object in one word, safe to print on a terminal: a target ID, an architecture of
    /// NVIDIA's, or else `host`, the triple or the whole ID. It is the target in the entry ID or, if the ID has none,
    /// the target that the content records. PTX has the name of its virtual architecture (`compute_90`), whatever its
    /// ID says.
    pub fn target(&self) -> String {
        self.code_for().name()
    }
}

impl CodeObjectRef<'_> {
    /// Returns what the code object is for, as [`CodeObject::code_for`].
    pub(crate) fn code_for(&self) -> CodeFor {
        match self.entry_id() {
            Some(id) => CodeFor::of_entry(&id, self.found.format, self.kind(), self.recorded_target().as_deref()),
            None => CodeFor::Unknown(self.shown_id()),
        }
    }

    /// The target of the code object in one word, as [`CodeObject::target`].
    pub fn target(&self) -> String {
        self.code_for().name()
    }
}

/// The targets of code objects, by their IDs, so that each ID is parsed once. Parsing an ID takes longer than
/// everything else that a report does for a code object.
#[derive(Default)]
pub(crate) struct Targets<'c>(HashMap<TargetKey<'c>, String>);

/// The properties of a code object that decide its target: its ID, the format of its bundle, its kind, and the target
/// that it records.
type TargetKey<'c> = (&'c [u8], Format, Option<ContentKind>, Option<&'c str>);

impl<'c> Targets<'c> {
    /// Returns the target of a code object, as [`CodeObject::target`].
    pub(crate) fn target_of(&mut self, code_object: &'c CodeObject) -> &str {
        let CodeObject { id, kind, recorded_target, bundle, .. } = code_object;
        let key = (&**id, bundle.format, *kind, recorded_target.as_deref());
        self.0.entry(key).or_insert_with(|| code_object.target())
    }
}

/// Shortens a target for lists. The triples of SPIR-V and of NVIDIA's libraries of bitcode name no system, so their
/// short form is the architecture alone: `spirv64`, `nvptx64`.
pub(crate) fn short_target(target: &str) -> &str {
    target.trim_end_matches("-unknown-unknown").trim_end_matches("-nvidia-gpulibs")
}

//! The code that stays although its target is to be removed, because recompress does not rewrite its container.

use std::collections::BTreeMap;

use super::RemovedCode;
use super::pick::Picker;
use crate::base::bytes::add;
use crate::base::error::Result;
use crate::base::id::EntryId;
use crate::base::io::input::Slice;
use crate::beyond::inventory::each_bundle;
use crate::beyond::job::size_limit::limits_of_result;
use crate::beyond::scan::sections;
use crate::beyond::scan::{CodeObjectRef, Format, FoundBundle, Place, Scan, Step};
use crate::llvm::container::Limits;

/// Code outside of the rewritten bundles that stays, although the job removes such code from bundles.
#[derive(Debug, Default)]
pub(super) struct RemainingCode {
    by_holder: BTreeMap<String, RemovedCode>,
}

impl RemainingCode {
    /// Adds the code of a written file, or of a written member, that stays although the job removes such code.
    pub(super) fn add(&mut self, picker: &Picker<'_>, place: &Place, written: Slice<'_>) -> Result<()> {
        visit_bundles(limits_of_result(picker.limits()), place, written, &mut |found| {
            for code_object in picker.unselected(found) {
                self.by_holder.entry(holder_of(&code_object)).or_default().add(code_object.size());
            }
        })
    }

    /// Adds the code that stays in another file or member.
    pub(super) fn extend(&mut self, more: Self) {
        for (holder, code) in more.by_holder {
            let known = self.by_holder.entry(holder).or_default();
            known.code_objects += code.code_objects;
            add(&mut known.size, code.size);
        }
    }

    /// Returns the code that stays, by the vendor and the kind of its container.
    pub(super) fn into_holders(self) -> BTreeMap<String, RemovedCode> {
        self.by_holder
    }
}

/// Names the vendor of a code object and the kind of its container, such as "Intel's SYCL images".
fn holder_of(code_object: &CodeObjectRef<'_>) -> String {
    let is_in_images = is_in_device_images(code_object.found.place);
    let format = if is_in_images { Format::DeviceImages } else { code_object.found.format };
    let kind = format.row().left_as_they_are;
    let id = code_object.parsed_id().parsed;
    match id.as_ref().and_then(vendor_name) {
        Some(vendor) => format!("{vendor}'s {kind}"),
        None => kind.to_owned(),
    }
}

/// Returns whether a place is in a section of device images. An image may be an archive with code for several GPUs.
fn is_in_device_images(place: &Place) -> bool {
    place.steps().iter().any(|step| matches!(step, Step::Section(name) if sections::has_device_images(name)))
}

/// Returns the vendor of the GPU that an entry ID is for, or `None` if it is not known.
fn vendor_name(id: &EntryId) -> Option<&'static str> {
    let triple = id.triple();
    match (triple.arch(), triple.vendor()) {
        ("amdgpu", _) | (_, "amd") => Some("AMD"),
        ("nvptx" | "nvptx64", _) => Some("NVIDIA"),
        _ if triple.arch_name().starts_with("spir") => Some("Intel"),
        _ => None,
    }
}

/// Calls `visit` with each bundle in some data.
pub(super) fn visit_bundles(
    limits: Limits,
    place: &Place,
    data: Slice<'_>,
    visit: &mut dyn FnMut(&FoundBundle<'_>),
) -> Result<()> {
    let scan = Scan { limits, ..Scan::default() };
    each_bundle(&scan, place, data, &mut |found| {
        visit(found);
        Ok(())
    })
    .map(drop)
}

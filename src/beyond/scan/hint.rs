//! Looks for device code in the bytes of a file as they are, for hints at a deep search.

use std::ops::ControlFlow;

use super::Scan;
use super::budget::Budget;
use super::found::{Finding, WalkEvent};
use super::outside::NO_TARGETS;
use super::place::Place;
use super::walk::{FilePart, Walk, is_package};
use crate::base::io::input::Slice;
use crate::beyond::container::Magic;
use crate::llvm::container::Limits;

/// The largest inflated size of a compressed bundle that [`has_device_code_in_bytes`] finds.
const BUNDLE_INFLATED_MAX: u64 = 64 << 20;

/// Returns whether a search by content finds device code in some bytes as they are, at any offset. In all, the search
/// reads and inflates at most twice the length of `data`, and one compressed bundle of at most
/// [`BUNDLE_INFLATED_MAX`] bytes.
pub(crate) fn has_device_code_in_bytes(data: Slice<'_>) -> bool {
    // Searching charges each byte once. As much again may be charged for magics at which no code is found.
    let limits = Limits { inflated: BUNDLE_INFLATED_MAX, nested: data.len().saturating_mul(2), streamed: None };
    let scan = Scan { limits, ..Scan::default() };
    let mut is_found = false;
    let mut visit = |event: WalkEvent<'_>| {
        if let WalkEvent::Found(Finding::Bundle(found)) = event {
            is_found |= found.code_objects().any(|code_object| !code_object.parsed_id().is_host());
        }
        Ok(if is_found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    };
    let mut walk = Walk::new(&scan, data, &mut visit);
    // A budget grows with the length of the file. Without a length, it is `limits.nested`.
    let no_len = 0;
    walk.budget = Budget::new(limits, no_len);
    let place = Place::of_file(data.path());
    let mut next_index = 0;
    let searched = walk.search_by_content(FilePart::of_file(&place, data), 0..data.len(), &mut next_index, NO_TARGETS);
    searched.is_ok() && is_found
}

/// Returns whether data may have compressed members that a search inflates.
pub(crate) fn may_have_compressed_members(data: Slice<'_>) -> bool {
    Magic::identify(data.bytes()).is_package() || is_package(data)
}

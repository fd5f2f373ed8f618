//! The formats that only a search reads: containers of other vendors, packages, and the parts of linked files.
//!
//! The steps for a new format:
//!
//! 1. Write its reader, in `src/llvm/container/` if LLVM has the format, otherwise here. A format that holds code
//!    objects is a `Container` (`read`, and a function `plan` if we write it). A format that holds files is an iterator
//!    of `ArchiveMember`s. The head of the file documents the fields, the release that it follows, and the faults that
//!    it rejects. A reader that knows the end of a broken bundle returns the faults together with the entries
//!    (`Contents::faults`), so that the rest is still found.
//! 2. Add a variant of `Magic` with a row in `MAGICS` (`src/llvm/container/magic/`: offset, bytes). It replaces the
//!    `Unread` row of a format that was only recognised so far. If sections and other containers may hold the format,
//!    add it to `Magic::is_container`. If a deep search looks for it, add it to `MAGICS` in `scan/outside.rs`.
//! 3. If objects hold it in special sections, add rows to `SECTIONS` (`scan/sections.rs`).
//! 4. Add an arm to `Walk::search_as` (`scan/walk.rs`):
//!    - `search_bundles` for a `Container`, which `BundleReader::for_magic` (`scan/bundle_reader.rs`) chooses
//!    - `report_entries` for a format that only this library treats as a bundle
//!    - `search_members` for an archive, or an arm in `Walk::search_package` for one that is read once, from start to end
//!
//!    For a `Container` also add a variant of `scan::Format` with its name, and the plural in `cli/inspect/table.rs`.
//! 5. For a new kind of code object add a variant of `ContentKind` (`src/llvm/container/content_kind.rs`) with its name
//!    and extension. `serialized/tests.rs` lists formats and kinds for the schemas.
//! 6. Add its rules to `job/verify/rules.rs`, and let `job/recompress/` write it. `Format::is_for_some_gpus` and
//!    `runtime/code.rs::vendor_of` say which GPUs each bundle has to serve.
//! 7. If LLVM's bundler has a `-type` for it, add a type to `llvm::FileType`.
//! 8. Add fixtures, a property in `tests/properties/` with a fuzz target, and rows in `tests/growth.rs`,
//!    `tests/bombs.rs` and `tests/faults.rs`.
//!
//! A format that is recognised but not read needs only a row of step 2 or 3.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

pub(crate) mod archive_rewrite;
pub(crate) mod dxbc;
pub(crate) mod entry;
pub mod fatbin;
pub(crate) mod hcf;
pub(crate) mod host;
pub mod kpack;
pub(crate) mod lto_ir;
pub(crate) mod offload_binary;
pub(crate) mod package;
pub(crate) mod packed;
pub(crate) mod ptx;
pub(crate) mod records;
pub(crate) mod sequence;
pub(crate) mod spirv;
pub(crate) mod sycl;
pub(crate) mod syclbin;
pub(crate) mod zip;

pub use entry::SearchEntry;
pub(crate) use entry::Stored;
pub use packed::Packed;
pub(crate) use sequence::Bundle;
pub use sequence::{SearchBundles, SearchContainer};

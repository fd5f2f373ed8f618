//! The formats that only a search reads: containers of other vendors, packages, and what linked files hold.
//!
//! A new format is:
//!
//! 1. a file with its reader, in `src/llvm/container/` if LLVM has the format, otherwise here: a `Container` (`read`; a
//!    `plan` beside it, if we write it) if it holds code objects, an iterator of `ArchiveMember`s if it holds files.
//!    The head of the file documents the fields, the release that it follows, and what it rejects. A reader that knows
//!    where a bundle ends reports faults in it beside the entries (`Contents::faults`), so that the rest is still
//!    found;
//! 2. a variant of `Magic` with a row in `MAGICS` (`src/llvm/container/magic/`: offset, bytes), which replaces the
//!    `Unread` row of a format that was only recognised so far. `Magic::is_container` has those that may lie in
//!    sections and in other containers, and `MAGICS` in `scan/outside.rs` those that a deep search looks for;
//! 3. rows in `SECTIONS` (`scan/sections.rs`), if objects hold it in sections of their own;
//! 4. an arm in `Walk::search_as` (`scan/walk.rs`): `search_bundles` for a `Container`, which
//!    `BundleReader::for_magic` (`scan/wide.rs`) chooses, `report_entries` for what is a bundle only to us,
//!    `search_members` for an archive, or an arm in `Walk::search_package` for what is read once; for a `Container` also
//!    a variant of `scan::Format` with its name, and the plural in
//!    `cli/inspect/table.rs`;
//! 5. for a new kind of code object a variant of `ContentKind` (`src/llvm/container/content_kind.rs`) with its name and
//!    extension. `serialized/tests.rs` lists formats and kinds for the schemas;
//! 6. its rules in `job/verify/rules.rs`, and how `job/recompress/` writes it; `Format::is_for_some_gpus` and
//!    `runtime/code.rs::vendor_of` say whether each bundle has to serve every GPU, and of whom;
//! 7. a type in `llvm::FileType`, only if LLVM's bundler has a `-type` for it;
//! 8. fixtures, a property in `tests/properties/` with a fuzz target, and rows in `tests/growth.rs`, `tests/bombs.rs`
//!    and `tests/faults.rs`.
//!
//! A format that is recognised but not read is a row of step 2 or 3 alone.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

pub(crate) mod archive_rewrite;
pub(crate) mod dxbc;
pub(crate) mod entry;
pub mod fatbin;
pub(crate) mod host;
pub mod kpack;
pub(crate) mod lto_ir;
pub(crate) mod package;
pub(crate) mod packed;
pub(crate) mod ptx;
pub(crate) mod spirv;
pub(crate) mod sycl;
pub(crate) mod syclbin;
pub(crate) mod zip;

pub use entry::SearchEntry;
pub(crate) use entry::{Bundle, Bundles, Stored};
pub use packed::Packed;

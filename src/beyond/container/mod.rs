//! The formats that only a search reads: containers of other vendors, packages, and the parts of linked files.
//!
//! The steps for a new container of code objects:
//!
//! 1. Write its reader in a file of its own: a `Container` with `read`, which is a `SearchContainer` too, and a function
//!    `plan` if we write the format. The head of the file documents the fields, the release that it follows, and the
//!    faults that it rejects. A reader that knows the end of a broken container returns the faults together with the
//!    entries (`Contents::faults`), so that the rest is still found.
//! 2. Add a variant of [`Format`], and its row to [`FORMATS`] in `formats.rs`: names, first bytes, reader, sections, whether
//!    a search by content looks for it, and the [rules](Rule) that apply. The search, `inspect`, `verify` and the rules of
//!    runtimes take all of that from the row. A row in `OTHERS` (`magic.rs`) that only names the format goes.
//! 3. Add it to the table of `docs/formats.md`, with a section. `BLESS=1 cargo test --lib schemas` writes its name into
//!    the schemas.
//! 4. Add a fixture, a property in `tests/properties/` with a fuzz target, and rows in `tests/growth.rs`,
//!    `tests/bombs.rs` and `tests/faults.rs`.
//!
//! More is needed only for more than that:
//!
//! | for | add |
//! |---|---|
//! | a format that is named but not read | a row in `OTHERS` (`magic.rs`) |
//! | a format of files: an archive or a package | a variant of [`Magic`] with its row in `OTHERS`, and an iterator of `ArchiveMember`s with an arm in `Walk::search_as`, or an arm in `Walk::search_package` if it is read once, from start to end |
//! | code objects that a section or table locates without a container | an arm that calls `Walk::report_entries` |
//! | a section that is not for containers | a row in `SECTIONS` (`section.rs`) |
//! | a new kind of code object | a variant of `CodeMagic` (`code/magic.rs`) and one of `ContentKind` (`content_kind.rs`) with its name and extension, also in the schemas (`scan/schemas.rs`) |
//! | a format that `recompress` writes | the steps in the head of `job/recompress/mod.rs` |
//!
//! A format of LLVM's tools is in `src/llvm/container/`, with its first bytes in `magic.rs` there if LLVM's tools tell it
//! from others, and a type of `llvm::FileType` if LLVM's bundler has a `-type` for it.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

pub(crate) mod archive_rewrite;
pub(crate) mod bundle_reader;
mod content_kind;
pub(crate) mod entry;
pub mod fatbin;
mod formats;
pub(crate) mod hcf;
pub(crate) mod host;
pub mod kpack;
pub(crate) mod magic;
pub(crate) mod offload_binary;
pub(crate) mod package;
pub(crate) mod packed;
pub(crate) mod records;
pub(crate) mod section;
pub(crate) mod sequence;
pub(crate) mod sycl;
pub(crate) mod syclbin;
pub(crate) mod text;
pub(crate) mod zip;

pub use content_kind::ContentKind;
pub use entry::SearchEntry;
pub(crate) use entry::Stored;
pub use formats::Format;
pub(crate) use formats::{FORMATS, FormatUse, LoadedFile, Rule};
pub(crate) use magic::Magic;
pub use magic::Unread;
pub use packed::Packed;
pub(crate) use sequence::Bundle;
pub use sequence::{SearchBundles, SearchContainer};

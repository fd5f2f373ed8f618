//! Finds device code in any file, by content.
//!
//! | a file, or a part of one, that begins like | is searched as |
//! |---|---|
//! | `__CLANG_OFFLOAD_BUNDLE__`, `CCOB` | bundles, plain and compressed, many in a row |
//! | a comment line with a start marker | a text bundle |
//! | an offload binary | offload binaries, many in a row |
//! | a CUDA fatbin | fatbins, many in a row |
//! | ELF, COFF or PE of a host | the sections that hold any of the above, fat objects, and the device images of DPC++ |
//! | Mach-O of a host | the sections that hold any of the above |
//! | ELF of a GPU, SPIR-V with kernels, PTX | a code object by itself |
//! | bitcode | the offload binaries that it embeds; for a GPU, a code object by itself |
//! | `ar`, tar or cpio archive, zip file (Python wheels), RPM package | each member as any of these |
//! | gzip, xz, bzip2, zstd | the inflated content, as any of these |
//! | a kpack archive | the code objects of one or more libraries |
//!
//! Formats that are recognised but not read (disk images and others) are reported by name.
//!
//! Bundles in other sections are found through the wrappers that register them. A [deep](Scan::deep) search finds
//! device code at any offset of any file.
//!
//! A code object that is itself a bundle, an offload binary or a fatbin is searched too. Only headers are read: the
//! beginning of a compressed bundle is inflated, and the whole of a compressed member if it begins like one of the
//! above. Broken parts are reported as findings, and the search continues with the rest, up to a cost limit that
//! depends on the size of the file.
//!
//! # Which GPUs does a file carry code for?
//!
//! ```
//! use offload_bundle::scan::{Finding, Scan};
//!
//! let data = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/offload/llvm22-embedded.o"))?;
//! let mut found = Vec::new();
//! Scan::default().run(&data, &mut |finding| {
//!     if let Finding::Bundle(bundle) = finding {
//!         for code_object in bundle.code_objects() {
//!             found.push((code_object.shown_id(), bundle.place.section(), code_object.kind()));
//!         }
//!     }
//!     Ok(())
//! })?;
//! assert_eq!(found[0].1.as_deref(), Some(".llvm.offloading"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod ahead;
mod budget;
mod code_object;
mod copies;
#[cfg(feature = "serde")]
pub(crate) mod fields;
mod found;
#[cfg(feature = "cli")]
mod hint;
mod kpack;
mod outside;
mod overlap;
mod packages;
mod parts;
mod place;
mod read;
mod resolve;
#[cfg(all(test, feature = "serde"))]
pub(crate) mod schemas;
pub(crate) mod sections;
mod segments;
mod stream;
mod sycl;
mod walk;

pub(crate) use crate::beyond::container::bundle_reader::{AnyBundle, BundleReader};
pub use crate::beyond::container::{Format, Unread};
pub use crate::llvm::uri::Uri;
pub(crate) use budget::Budget;
pub(crate) use code_object::ParsedId;
pub use code_object::{BundleInfo, CodeObject, CodeObjectRef, Sizes};
#[cfg(test)]
pub(crate) use found::EntryFacts;
pub use found::{Finding, Followed, FoundBundle, Split};
pub(crate) use found::{Linking, UNKNOWN_SPACE_END};
#[cfg(feature = "cli")]
pub(crate) use hint::{has_device_code_in_bytes, may_have_compressed_members};
pub use kpack::Follow;
pub(crate) use kpack::target_in;
pub(crate) use outside::source_files;
pub(crate) use overlap::{bundle_sections, movable_sections};
pub(crate) use packages::member_too_large;
pub(crate) use parts::CodeObjectsWithParts;
pub(crate) use place::member_of;
pub use place::{Place, PlaceOrigin, Step};
pub(crate) use read::{
    CodeObjectsOfBundle, OverlapLimit, ReadEvent, ReadList, contents, copy_bytes, top_member, weight_of,
    weight_of_bytes,
};
pub use resolve::Resolved;
pub(crate) use stream::HEAD;
pub(crate) use walk::{MemberFilter, is_package, is_zip};

use std::ops::ControlFlow;
use std::sync::Arc;

use found::WalkEvent;

use crate::base::error::Result;
use crate::base::io::input::Slice;
pub use crate::beyond::container::ContentKind;
use crate::llvm::container::Limits;
use crate::llvm::container::sequence::Inflate;

/// The settings of a search for device code.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Scan {
    /// How much of each compressed bundle is inflated.
    pub inflate: Inflate,
    /// The stored members of zip files to read completely and compare with their checksums. Compressed members that
    /// have to be inflated are always checked.
    pub checksums: Checksums,
    /// Whether all bytes are searched: also in other sections, between sections, and in files of other formats. Bytes
    /// that begin like a container of code objects or an ELF file for a GPU are reported if they can be read.
    pub deep: bool,
    /// The limits on the inflated size of compressed containers and members of zip files. Nested containers are limited
    /// to [`nested`](Limits::nested) bytes or 1040 times the size of the file, whichever is more, and to 250,000
    /// bundles, code objects and faults.
    pub limits: Limits,
    /// The way to find the kpack archives of a split library, which are searched too, or `None` if they are not. The
    /// library has to be an [`Input`](crate::io::Input) of a file.
    pub follow: Option<Arc<Follow>>,
    /// Whether members of zip files that are [copies](Finding::Copy) of others are reported.
    pub copies: bool,
}

impl Default for Scan {
    /// Reads headers only.
    fn default() -> Self {
        let (inflate, checksums, limits) = (Inflate::Headers, Checksums::None, Limits::default());
        Self { inflate, checksums, deep: false, limits, follow: None, copies: false }
    }
}

/// The members of a zip file to compare with their checksums. A search that compares all of them is a check of the
/// file, so it also checks the wrappers of bundles and fatbins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksums {
    /// No member is read for its checksum.
    None,
    /// Members with device code, after the visitor received it.
    OfFound,
    /// All members.
    OfAll,
}

/// The callback that receives findings. If it breaks off, the search ends without an error.
pub type Visitor<'v> = dyn FnMut(Finding<'_>) -> Result<ControlFlow<()>> + 'v;

impl Scan {
    /// Passes all findings in some bytes, or in an [`Input`](crate::io::Input), to `visitor`, in file order. The
    /// members of a thin archive are read only if the data is an input.
    ///
    /// # Errors
    /// The errors of the visitor, which end the search. Faults in the file are reported as [`Finding::Broken`].
    pub fn run<'a>(
        &self,
        data: impl Into<Slice<'a>>,
        visitor: &mut dyn FnMut(Finding<'_>) -> Result<()>,
    ) -> Result<()> {
        self.run_until(data, &mut |finding| visitor(finding).map(ControlFlow::Continue))
    }

    /// Passes findings to `visitor`, as [`run`](Self::run) does, until the visitor breaks off.
    ///
    /// # Errors
    /// The errors of [`run`](Self::run).
    pub fn run_until<'a>(&self, data: impl Into<Slice<'a>>, visitor: &mut Visitor<'_>) -> Result<()> {
        self.walk(data.into(), None, &mut |visit| match visit {
            WalkEvent::Found(finding) => visitor(finding),
            WalkEvent::End(..) => Ok(ControlFlow::Continue(())),
        })
    }

    /// Searches data that a caller has taken from `place` in another file, as [`run`](Self::run) does. The places of
    /// all findings begin with that place.
    pub(crate) fn run_at(
        &self,
        place: &Place,
        data: Slice<'_>,
        visitor: &mut dyn FnMut(Finding<'_>) -> Result<()>,
    ) -> Result<()> {
        let visitor = &mut |visit: WalkEvent<'_>| {
            if let WalkEvent::Found(finding) = visit {
                visitor(finding)?;
            }
            Ok(ControlFlow::Continue(()))
        };
        walk::Walk::new(self, data, visitor).search_file_at(place, data)?;
        Ok(())
    }

    /// Returns whether the search finds a bundle or code object in some bytes.
    ///
    /// # Errors
    /// The errors of [`run`](Self::run).
    pub fn finds_code<'a>(&self, data: impl Into<Slice<'a>>) -> Result<bool> {
        let mut is_found = false;
        self.run_until(data, &mut |finding| {
            // A code object outside of bundles is reported as a bundle with one entry.
            is_found = matches!(finding, Finding::Bundle(_));
            Ok(if is_found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        Ok(is_found)
    }

    /// Passes findings, and the ends of files and of inflated data, to `visitor` until the visitor breaks off. In a zip
    /// file, `members` accepts the names of the members that are searched; all are if it is `None`.
    fn walk(
        &self,
        data: Slice<'_>,
        members: Option<&mut MemberFilter<'_>>,
        visitor: &mut walk::Visitor<'_>,
    ) -> Result<()> {
        let mut walk = walk::Walk::new(self, data, visitor);
        if let Some(members) = members {
            walk.members = Some(members);
        }
        walk.search_file(data)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;
    use crate::base::bytes;
    use crate::base::error::ErrorKind;
    use crate::beyond::code::CodeMagic;
    use crate::beyond::container::entry::SearchFormat;
    use crate::beyond::container::magic::rows_to_test;
    use crate::beyond::container::{Magic, SearchBundles};
    use crate::llvm::container::binary::Binary;

    /// Consecutive bundles, plain and compressed.
    const MIXED: &[u8] = include_bytes!("../../../fixtures/sequence/mixed.bundle");

    #[test]
    #[cfg_attr(miri, ignore = "inflates")]
    fn bytes_of_the_program_are_read_without_a_file() {
        let binary = SearchFormat(Binary::default());
        let mut bundles = SearchBundles::new(MIXED, &binary, Inflate::AsNeeded).map(Result::unwrap);
        let of_first = bundles.next().unwrap().bytes(0).unwrap();
        drop(bundles);
        let mut seen = Vec::new();
        let mut visit = |finding: Finding<'_>| {
            if let Finding::Bundle(found) = finding {
                for code_object in found.code_objects() {
                    let bytes = code_object.bytes()?;
                    let mut written = Vec::new();
                    code_object.write_to(&mut written)?;
                    assert!(written == *bytes && code_object.size() == bytes::len_u64(&bytes));
                    assert_eq!(matches!(bytes, Cow::Borrowed(_)), found.bundle.compressed.is_none());
                    let is_named = code_object.uri()?.is_some();
                    seen.push((bytes.into_owned(), found.bundle.compressed.is_some(), is_named));
                }
            }
            Ok(())
        };
        Scan::default().run(MIXED, &mut visit).unwrap();
        assert!(seen[0].0 == *of_first && seen.iter().all(|(_, _, is_named)| !is_named));
        assert!(seen.iter().any(|(_, is_compressed, _)| *is_compressed));
    }

    /// Returns the findings in some bytes, in one word each.
    fn found(data: &[u8], deep: bool) -> Vec<&'static str> {
        let mut words = Vec::new();
        let mut visit = |finding: Finding<'_>| {
            words.push(match finding {
                Finding::Bundle(_) => "bundle",
                Finding::Broken { error, .. } => {
                    assert_ne!(error.kind(), ErrorKind::Internal, "{error}: {}", data.escape_ascii());
                    "broken"
                }
                Finding::Unread { .. } => "unread",
                _ => "other",
            });
            Ok(())
        };
        let scan = Scan { inflate: Inflate::Whole, checksums: Checksums::OfAll, deep, ..Scan::default() };
        scan.run(data, &mut visit).unwrap();
        words
    }

    /// A magic alone, or with zeros after it, is broken, or a format that is not read. Without its last byte, or as the
    /// beginning of a text, it is not device code.
    #[test]
    #[cfg_attr(miri, ignore = "decompresses")]
    fn a_magic_alone_is_a_fault_and_a_text_is_not() {
        for (at, magic, kind) in rows_to_test() {
            let file = [&vec![0; at], magic].concat();
            let with = |rest: &[u8]| [&file, rest].concat();
            let text = with(b" is the magic of a format.\n");
            let expected = |of_others: &'static [&'static str]| match kind {
                Magic::Script => &[][..],
                Magic::Unread(_) | Magic::Wasm | Magic::Code(CodeMagic::SpirV) => &["unread"],
                _ => of_others,
            };
            let is_empty_archive = matches!(magic, b"!<arch>\n" | b"!<thin>\n");
            let of_zeros: &[&str] = match magic {
                b"PK\x05\x06" => &[],
                b"__CLANG_OFFLOAD_BUNDLE__" => &["bundle"],
                _ => &["broken"],
            };
            let of_text = if Magic::identify(&text) == Magic::Unknown { &[][..] } else { expected(&["broken"]) };
            for deep in [false, true] {
                let name = magic.escape_ascii();
                let alone = if is_empty_archive { &[] } else { expected(&["broken"]) };
                assert_eq!(found(&file, deep), alone, "{name}");
                assert_eq!(found(&file[..file.len() - 1], deep), [""; 0], "{name}, cut");
                assert_eq!(found(&with(&[0; 600]), deep), expected(of_zeros), "{name} and zeros");
                assert_eq!(found(&text, deep), of_text, "{name} and text");
            }
        }
    }

    #[test]
    fn errors_of_bytes_of_the_program_name_no_file() {
        let mut texts = Vec::new();
        for data in [&b"CCOB"[..], b"!<thin>\nx.o/            0           0     0     644     5         `\n"] {
            let mut visit = |finding: Finding<'_>| {
                if let Finding::Broken { error, .. } = finding {
                    texts.push(error.to_string());
                }
                Ok(())
            };
            Scan::default().run(data, &mut visit).unwrap();
        }
        let [broken, beside] = texts.as_slice() else { panic!("{texts:?}") };
        assert!(broken.starts_with("the version of the compressed bundle needs 2 bytes"), "{broken}");
        assert!(beside.contains("x.o") && beside.ends_with("files beside it are not opened"), "{beside}");
    }
}

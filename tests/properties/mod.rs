//! Properties that must hold for any bytes: one for each fuzz target.
//!
//! A property is a function of bytes that panics if the property does not hold. `fuzz/fuzz_targets/` runs them on bytes
//! that libFuzzer generates, `tests/fuzz_corpus.rs` on the bytes stored in `fuzz/`.

use offload_bundle::error::{Error, ErrorKind};

pub mod aks2s;
mod archive;
mod bitcode;
mod choices;
pub mod code_objects;
mod compressed;
pub mod coverage;
mod diff;
mod differential;
mod extract;
mod fatbin;
pub mod fatbins;
pub mod formats;
mod hcf;
pub mod hcfs;
mod ids;
pub mod images;
mod kernels;
mod kpack;
pub mod kpacks;
mod list;
pub mod make;
mod names;
mod objects;
mod offload_binary;
mod package;
pub mod packages;
mod races;
mod recompress;
mod replace;
mod room;
mod roundtrip;
mod search;
mod sources;
mod static_libraries;
mod sycl;
mod syclbin;
pub mod syclbins;
mod text;
mod unbundle;
mod verify;
mod wheels;

pub use archive::archive;
pub use bitcode::bitcode;
pub use compressed::compressed;
pub use coverage::coverage;
pub use diff::diff;
pub use differential::{differential, reference};
pub use extract::extract;
pub use fatbin::fatbin;
pub use hcf::hcf;
pub use ids::ids;
pub use kernels::kernels;
pub use kpack::kpack;
pub use list::list;
pub use names::names;
pub use objects::{coff, elf};
pub use offload_binary::offload_binary;
pub use package::package;
pub use races::races;
pub use recompress::{comes_back, recompress};
pub use replace::replace;
pub use roundtrip::roundtrip;
pub use search::search;
pub use static_libraries::static_library;
pub use sycl::sycl;
pub use syclbin::syclbin;
pub use text::text;
pub use unbundle::unbundle;
pub use verify::verify;

pub type Property = fn(&[u8]);

/// The text of an error of a job. Whatever its files hold, it is not a bug of the library.
fn said(error: &Error) -> String {
    assert_ne!(error.kind(), ErrorKind::Internal, "{error}");
    error.to_string()
}

/// The properties, by the names of their fuzz targets.
pub const ALL: [(&str, Property); 29] = [
    ("archive", archive),
    ("bitcode", bitcode),
    ("coff", coff),
    ("compressed", compressed),
    ("coverage", coverage),
    ("diff", diff),
    ("differential", differential),
    ("elf", elf),
    ("extract", extract),
    ("fatbin", fatbin),
    ("hcf", hcf),
    ("ids", ids),
    ("kernels", kernels),
    ("kpack", kpack),
    ("list", list),
    ("names", names),
    ("offload_binary", offload_binary),
    ("package", package),
    ("races", races),
    ("recompress", recompress),
    ("replace", replace),
    ("roundtrip", roundtrip),
    ("search", search),
    ("static_library", static_library),
    ("sycl", sycl),
    ("syclbin", syclbin),
    ("text", text),
    ("unbundle", unbundle),
    ("verify", verify),
];

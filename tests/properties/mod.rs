//! What must hold for any bytes: one property for each fuzz target.
//!
//! A property is a function of bytes that panics where it does not hold. `fuzz/fuzz_targets/` tries them on bytes that
//! libFuzzer makes up, `tests/fuzz_corpus.rs` on those that were kept in `fixtures/fuzz/`.

mod archive;
mod bitcode;
mod choices;
mod compressed;
mod differential;
pub mod formats;
mod ids;
mod list;
mod objects;
mod offload_binary;
mod room;
mod roundtrip;
mod sources;
mod text;
mod unbundle;

pub use archive::archive;
pub use bitcode::bitcode;
pub use compressed::compressed;
pub use differential::{differential, reference};
pub use ids::ids;
pub use list::list;
pub use objects::{coff, elf};
pub use offload_binary::offload_binary;
pub use roundtrip::roundtrip;
pub use text::text;
pub use unbundle::unbundle;

/// A property.
pub type Property = fn(&[u8]);

/// All properties by the names of their targets.
pub const ALL: [(&str, Property); 12] = [
    ("archive", archive),
    ("bitcode", bitcode),
    ("coff", coff),
    ("compressed", compressed),
    ("differential", differential),
    ("elf", elf),
    ("ids", ids),
    ("list", list),
    ("offload_binary", offload_binary),
    ("roundtrip", roundtrip),
    ("text", text),
    ("unbundle", unbundle),
];

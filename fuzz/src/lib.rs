//! Code that the fuzz targets share: the properties, which `cargo test` tries too, and the changes of inputs.

mod mutate;
mod structure;

#[path = "../../tests/properties/mod.rs"]
pub mod properties;

pub use mutate::mutate;

/// Defines a fuzz target: a property, and the kind of changes to inputs. `files` changes parts of their structure,
/// `bytes` any bytes.
#[macro_export]
macro_rules! target {
    ($property:ident, bytes) => {
        libfuzzer_sys::fuzz_target!(|data: &[u8]| $crate::properties::$property(data));
    };
    ($property:ident, files) => {
        $crate::target!($property, bytes);
        libfuzzer_sys::fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
            $crate::mutate(data, size, max_size, seed)
        });
    };
}

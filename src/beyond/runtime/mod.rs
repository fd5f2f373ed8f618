//! The code that the runtimes of GPUs load: the code of a bundle that serves a GPU, and the number of bundles that
//! serve it.
//!
//! A program runs on a GPU only if each bundle that it registers serves that GPU.
//!
//! ```
//! use offload_bundle::runtime::{Coverage, Device};
//! use offload_bundle::scan::{Finding, Scan};
//!
//! let data = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/sequence/mixed.bundle"))?;
//! let mut coverage = Coverage::default();
//! Scan::default().run(&data, &mut |finding| {
//!     if let Finding::Bundle(found) = finding {
//!         coverage.add(&found);
//!     }
//!     Ok(())
//! })?;
//! let served = coverage.served(&Device::parse("gfx906:sramecc+:xnack-")?);
//! assert_eq!(served.to_string(), "4 of 4");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod code;
mod coverage;
mod device;
mod directory;
mod load;
pub(crate) mod loadable;
mod loaded;
mod needed;

#[cfg(feature = "cli")]
pub(crate) use code::GpuVendor;
pub(crate) use code::{BundleCodes, Code, UnfoundCode};
pub(crate) use coverage::{CodeSet, FileSet, LoadUnit, LoadUnits};
pub use coverage::{Coverage, ServedBundles, ServedDirectory};
pub use device::{Device, DeviceError, split_ptx};
pub(crate) use directory::directory_of;
pub use load::{LoadedCode, load};
pub(crate) use loaded::Loader;
pub use loaded::{LoadedCodeObject, loaded};
pub(crate) use needed::{CodeUse, NeedingGpus};

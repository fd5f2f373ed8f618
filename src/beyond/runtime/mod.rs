//! The code that the runtimes of GPUs load. [`inventory`](crate::inventory) counts the bundles that serve a GPU.

mod code;
mod device;
mod directory;
pub(crate) mod loadable;
mod needed;

pub(crate) use code::{BundleCodes, Code, FoundCode, GpuVendor, UnfoundCode};
pub use device::{Device, DeviceError, split_ptx};
pub(crate) use directory::{directory_of, is_loaded_file};
pub(crate) use needed::{CodeUse, NeedingGpus};

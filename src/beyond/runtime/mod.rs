//! The code that the runtimes of GPUs load. [`inventory`](crate::inventory) counts the bundles that serve a GPU.

mod code;
mod device;
mod directory;
pub(crate) mod loadable;
mod names;
mod native;
mod need;
mod needed;
mod ptx_versions;

pub(crate) use code::{BundleCodes, Code, FoundCode, GpuVendor, UnfoundCode, lacks_target};
pub use device::{Device, DeviceError};
pub(crate) use directory::{directory_of, is_loaded_file};
pub(crate) use names::processor_in;
#[cfg(feature = "cli")]
pub(crate) use names::{Named, products_of};
pub use native::{Machine, MachineError};
pub use need::Need;
pub(crate) use needed::{CodeUse, NeedingGpus};
pub use ptx_versions::cuda_of;

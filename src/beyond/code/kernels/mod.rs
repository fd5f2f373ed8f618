//! Reads the kernels of a code object for a GPU: their names, and the registers and memory that they take.
//!
//! | code object | source |
//! |---|---|
//! | AMD GPUs, code object version 3 and up | MessagePack metadata in a note; code sizes from the symbols |
//! | NVIDIA GPUs (cubin) | sections `.nv.info` and others; see `cubin.rs` |
//!
//! # Which kernels of a file spill registers?
//!
//! ```
//! use offload_bundle::kernels;
//! use offload_bundle::scan::{Finding, Scan};
//!
//! let data = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/kernels/llvm22-gfx90a.elf"))?;
//! let mut spilled = Vec::new();
//! Scan::default().run(&data, &mut |finding| {
//!     if let Finding::Bundle(bundle) = finding {
//!         for code_object in bundle.code_objects() {
//!             for kernel in kernels::list(&code_object.bytes()?).unwrap_or_default() {
//!                 if kernel.vgpr_spills > Some(0) {
//!                     spilled.push(String::from_utf8_lossy(&kernel.name).into_owned());
//!                 }
//!             }
//!         }
//!     }
//!     Ok(())
//! })?;
//! assert_eq!(spilled, ["_ZN2ns6spillsIiEEvPT_"]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod amdgpu;
mod arguments;
mod cubin;
pub(super) mod metadata;
pub(crate) mod ptx;

use std::sync::Arc;

use object::elf::{EM_AMDGPU, EM_CUDA};

use crate::base::bytes::{len_u64, to_u64};
use crate::base::error::{ErrorKind, Malformed};
use crate::beyond::base::error::fail_at;
use crate::beyond::code::elf::File;
use crate::beyond::limits::{ARGUMENT_LISTS_MAX, ARGUMENTS_MAX, CHECKED_MAX, KERNEL_NAMES_MAX, KERNELS_MAX};
use crate::llvm::container::limits::Allowance;
pub use arguments::Argument;
pub(crate) use arguments::ArgumentLists;

/// A kernel, as its code object describes it. A number has no value if the code object does not record it. With the
/// feature `serde`, the numbers are serialized.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(all(test, feature = "serde"), derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Kernel {
    /// The name, which may be mangled and may be any bytes.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub name: Arc<[u8]>,
    /// The number of vector registers of a work-item; for NVIDIA GPUs, the registers of a thread. On AMD GPUs that
    /// allocate vector and accumulation registers together (gfx90a and later), compilers count both here.
    pub vgprs: Option<u32>,
    /// The number of accumulation vector registers of a work-item.
    pub agprs: Option<u32>,
    /// The number of scalar registers of a wavefront.
    pub sgprs: Option<u32>,
    /// The number of spilled vector registers.
    pub vgpr_spills: Option<u32>,
    /// The number of spilled scalar registers.
    pub sgpr_spills: Option<u32>,
    /// The scratch memory of a work-item in bytes, without additions by calls at run time: AMD's private segment; for
    /// NVIDIA GPUs the stack of a thread, which linking determines.
    pub scratch: Option<u32>,
    /// The memory in bytes that a workgroup shares, without additions by a launch: AMD's group segment, NVIDIA's shared
    /// memory.
    pub lds: Option<u32>,
    /// The size of the arguments in bytes.
    pub kernarg: Option<u32>,
    /// The size of NVIDIA's constant bank 0 in bytes, which holds the arguments after values of the driver.
    pub constant_bank: Option<u32>,
    /// The maximum number of work-items in a workgroup.
    pub max_workgroup: Option<u32>,
    /// The size of the code in bytes, without functions that it calls.
    pub code_size: Option<u64>,
    /// Whether the stack may grow beyond [`scratch`](Self::scratch): only for AMD GPUs.
    pub dynamic_stack: Option<bool>,
    /// Whether it needs a thread of the host that serves calls, such as `printf`: it has an argument of the kind
    /// `hidden_hostcall_buffer`. Only for AMD GPUs.
    pub hostcall: Option<bool>,
    /// The arguments in their order, if they were [asked for](list_with_arguments).
    #[cfg_attr(
        feature = "serde",
        serde(skip_serializing_if = "Option::is_none", serialize_with = "crate::beyond::document::shared")
    )]
    #[cfg_attr(all(test, feature = "serde"), schemars(with = "Vec<Argument>"))]
    pub arguments: Option<Arc<[Argument]>>,
}

/// Returns the kernels of a code object, in its order; no kernels if it is not an ELF file for an AMD or NVIDIA GPU.
///
/// # Errors
/// [`Malformed`] if tables that describe the kernels are broken, for more than 262,144 kernels, and for AMD code
/// objects of version 2, which describe kernels in YAML.
pub fn list(code: &[u8]) -> Result<Vec<Kernel>, Malformed> {
    read(code, None)
}

/// Returns the kernels of a code object with their arguments.
///
/// # Errors
/// The errors of [`list`]; also if the arguments are broken, more than 65,536 of one kernel, or too many together.
pub fn list_with_arguments(code: &[u8]) -> Result<Vec<Kernel>, Malformed> {
    read(code, Some(ArgumentLists::new(ARGUMENT_LISTS_MAX)))
}

/// Reads the kernels of a code object, and their arguments if there are lists for them.
fn read(code: &[u8], arguments: Option<ArgumentLists>) -> Result<Vec<Kernel>, Malformed> {
    // Only ELF files of 32 and 64 bits are read: the magic, and 1 or 2 as the class.
    let [0x7f, b'E', b'L', b'F', 1 | 2, ..] = code else { return Ok(Vec::new()) };
    let file = File::read(code)?;
    let mut list = KernelsFound {
        kernels: Vec::new(),
        name_bytes: Allowance::new(KERNEL_NAMES_MAX),
        work: Allowance::times(CHECKED_MAX, code),
        arguments,
    };
    match file.header.machine() {
        EM_AMDGPU => amdgpu::read(&file, &mut list)?,
        EM_CUDA => cubin::read(&file, &mut list)?,
        _ => {}
    }
    Ok(list.kernels)
}

/// The kernels found so far, and the limits.
struct KernelsFound {
    kernels: Vec<Kernel>,
    /// The bytes that further names may take.
    name_bytes: Allowance,
    /// The bytes that may still be read: tables of a hostile file may all refer to the same bytes.
    work: Allowance,
    /// The lists of arguments, or `None` if arguments are not read.
    arguments: Option<ArgumentLists>,
}

impl KernelsFound {
    /// Adds a kernel that a table at `offset` describes, with a name.
    fn add(&mut self, name: &[u8], kernel: Kernel, offset: u64) -> Result<(), Malformed> {
        if to_u64(self.kernels.len()) >= KERNELS_MAX || self.name_bytes.take(len_u64(name)).is_none() {
            let text = format!(
                "the kernels at offset {offset} exceed the limits of {KERNELS_MAX} kernels and {KERNEL_NAMES_MAX} bytes of names"
            );
            return Err(Malformed::other(ErrorKind::Limit, offset, text));
        }
        if name.is_empty() {
            return fail_at("a kernel without a name", offset);
        }
        self.kernels.push(Kernel { name: name.into(), ..kernel });
        Ok(())
    }

    /// Reads the arguments of a kernel with `read`, and returns the list that kernels with equal arguments share.
    /// Returns `None` if arguments are not read. If `read` returns `None`, the arguments are broken: the error has the
    /// text `broken` and `offset`, the offset of the table that describes the kernel.
    fn share_arguments<A: Iterator<Item = Option<Argument>>>(
        &mut self,
        offset: u64,
        broken: &str,
        read: impl FnOnce() -> Option<A>,
    ) -> Result<Option<Arc<[Argument]>>, Malformed> {
        let Some(lists) = &mut self.arguments else { return Ok(None) };
        let Some(arguments) = read() else { return fail_at(broken, offset) };
        // Reading one argument more than allowed shows that there are too many.
        let Some(list) = arguments.take(ARGUMENTS_MAX + 1).collect::<Option<Arc<_>>>() else {
            return fail_at(broken, offset);
        };
        if list.len() > ARGUMENTS_MAX {
            return Err(too_many_arguments(offset));
        }
        match lists.share(list) {
            Some(shared) => Ok(Some(shared)),
            None => Err(too_many_arguments(offset)),
        }
    }
}

/// Returns the error for arguments that exceed the limits.
fn too_many_arguments(offset: u64) -> Malformed {
    let text = format!(
        "the arguments of kernels at offset {offset} exceed the limits of {ARGUMENTS_MAX} for a kernel and {ARGUMENT_LISTS_MAX} bytes of different ones"
    );
    Malformed::other(ErrorKind::Limit, offset, text)
}

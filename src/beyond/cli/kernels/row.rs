//! A row of the table.

use std::sync::Arc;

use crate::beyond::code::kernels::Kernel;
use crate::beyond::scan::CodeObject;

/// A kernel of a code object.
#[derive(Debug)]
pub(crate) struct NamedKernel {
    pub(super) code_object: Arc<CodeObject>,
    /// The target ID, or else the triple or the ID of the entry; safe to print on a terminal.
    pub(super) gpu: Arc<str>,
    /// The demangled name, safe to print on a terminal.
    pub(super) name: Arc<str>,
    pub(super) kernel: Kernel,
}

//! Changes linked files and relocatable objects, and reads the wrappers in them.

pub(crate) mod dynamic;
pub(crate) mod gaps;
pub(crate) mod relocatable;
pub(crate) mod wrapper;

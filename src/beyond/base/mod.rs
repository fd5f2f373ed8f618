//! Additions to the foundation for the search and its jobs: further methods of its types, and functions.

pub(crate) mod error;
pub(crate) mod io;
pub(crate) mod sys;
pub(crate) mod text;

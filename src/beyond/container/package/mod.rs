//! Archives and packages that are read once, from start to end: the headers of their members.

pub(crate) mod aks2;
pub(crate) mod cpio;
pub(crate) mod rpm;
pub(crate) mod sqlite;
pub(crate) mod tar;

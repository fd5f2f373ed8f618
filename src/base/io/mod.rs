//! Reads and writes files: inputs that are mapped or copied, outputs that appear complete or not at all, and the pieces
//! that outputs are made of.
//!
//! | module | holds |
//! |---|---|
//! | `input` | [`Input`], and ranges of it ([`Slice`]) |
//! | `once` | data that is read from start to end |
//! | `piece` | [`Piece`], a part of an output, and `Sink`, which receives them |
//! | `output` | outputs: staged, then put in place once all are complete |
//! | `staging` | unnamed temporary files, and giving them a name |
//! | `process` | state of the process: signals, the limit on open files |
//! | `mapping` | mapped files |
//! | `sys` | what differs between systems |

pub(crate) mod input;
pub(crate) mod mapping;
pub(crate) mod output;
pub(crate) mod piece;
pub(crate) mod process;
pub(crate) mod staging;
#[doc(hidden)]
pub mod sys;

pub use input::{Accept, Input, Slice};
// For the executable of this package, which shows progress.
#[doc(hidden)]
pub use input::{bytes_done, bytes_read};
// For the executable of this package.
#[doc(hidden)]
pub use output::{create_directory, write_file};
pub use piece::{Piece, write_to};
pub use process::hand_over;

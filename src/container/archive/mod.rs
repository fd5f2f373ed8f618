//! Archives of object files (`.a`, `.lib`): read in every common format, written as LLVM's GNU archives.
//!
//! | offset | width | meaning |
//! |---|---|---|
//! | 0 | 8 | magic: `!<arch>\n`, or `!<thin>\n` when the members are files beside the archive |
//! | 8 | | the members, one after another: |
//! | +0 | 16 | name, ended by `/` or spaces; `/N` stands at N in the names member `//`, `#1/N` leads the content |
//! | +16 | 12 | modification time, decimal |
//! | +28 | 6 | owner, decimal |
//! | +34 | 6 | group, decimal |
//! | +40 | 8 | mode, octal |
//! | +48 | 10 | size of the content in bytes, decimal |
//! | +58 | 2 | `` `\n `` |
//! | +60 | | the content, padded with a newline to an even offset |
//!
//! The members `/`, `/SYM64/` and `__.SYMDEF` hold the index: symbols, and the members that define them.
//!
//! [`read`](Archive::read) takes GNU, BSD, COFF and thin archives through the `object` crate and leaves the members
//! where they are. [`plan`] makes byte for byte what LLVM 22.1.8 makes for `K_GNU` with a symbol index, deterministic;
//! `symbols` finds what LLVM lists of ELF and COFF objects and of LLVM modules.
//!
//! Rejected: bytes that are no archive, a header that does not parse, a member that the archive does not hold
//! completely.

mod reader;
mod sources;
mod symbols;
mod writer;

pub use reader::{Archive, ArchiveMember, Location};
pub(crate) use sources::Sources;
pub use writer::{NewMember, plan};

use std::path::Path;

use crate::display::shown;
use crate::error::Error;

/// An error of a member with its name behind that of the archive, as linkers write it.
pub(crate) fn locate(error: Error, archive: &Path, member: &[u8]) -> Error {
    match error {
        Error::Malformed { path, source } if path == archive => {
            let path = format!("{}({})", path.display(), shown(member)).into();
            Error::Malformed { path, source }
        }
        error => error,
    }
}

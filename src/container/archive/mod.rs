//! Reads archives of object files (`.a`, `.lib`) in every common format, and writes them as LLVM's GNU archives.
//!
//! | offset | width | meaning |
//! |---|---|---|
//! | 0 | 8 | magic: `!<arch>\n`, or `!<thin>\n` if the members are separate files |
//! | 8 | | the members, one after another: |
//! | +0 | 16 | name, ended by `/` or spaces; `/N`: at offset N of member `//`; `#1/N`: first N bytes of the content |
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
//! [`read`](Archive::read) reads GNU, BSD, COFF and thin archives through the `object` crate, without copying members.
//! [`plan`] writes the same bytes as LLVM 22.1.8 for `K_GNU`, deterministic and with a symbol index; `symbols` finds
//! the symbols that LLVM lists for ELF and COFF objects and LLVM modules.
//!
//! Rejected: bytes that are not an archive, a header that does not parse, an incomplete member.

mod reader;
mod sources;
pub(crate) mod symbols;
mod writer;

pub use reader::{Archive, ArchiveMember, Location};
pub(crate) use sources::Sources;
pub use writer::{NewMember, plan};

use std::path::Path;

use crate::display::shown;
use crate::error::Error;

/// Adds the name of a member to the name of the archive in an error, as linkers write it.
pub(crate) fn locate(error: Error, archive: &Path, member: &[u8]) -> Error {
    match error {
        Error::Malformed { path, source } if path == archive => {
            let path = format!("{}({})", path.display(), shown(member)).into();
            Error::Malformed { path, source }
        }
        error => error,
    }
}

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

mod input_files;
pub(crate) mod reader;
pub(crate) mod symbols;
pub(crate) mod writer;

pub(crate) use input_files::InputFiles;
pub use reader::{Archive, ArchiveMember, MemberLocation};
pub use writer::{NewMember, plan};

use std::path::Path;

use crate::base::display::{printable, shown};
use crate::base::error::Error;

/// The place of a member of an archive, as linkers write it, escaped for terminals.
pub(crate) fn place_of(archive: &Path, member: &[u8]) -> String {
    format!("{}({})", printable(&archive.to_string_lossy()), shown(member))
}

/// Adds the name of a member to a fault found in the archive's bytes. Other errors already name their place: in a thin
/// archive, the file of the member.
pub(crate) fn locate(error: Error, archive: &Path, member: &[u8]) -> Error {
    match error.fault() {
        Some(_) if error.path() == archive => error.inside(archive, place_of(archive, member)),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_member_if_they_are_in_the_archive() {
        let archive = Path::new("x.a");
        let malformed =
            |path: &str| Error::malformed(Path::new(path), crate::base::error::Malformed::truncated("it", 0, 1, 0));
        let text = locate(malformed("x.a"), archive, b"m.o").to_string();
        assert!(text.contains("x.a(m.o)"), "{text}");
        // A member of a thin archive is a separate file.
        assert_eq!(locate(malformed("m.o"), archive, b"m.o").to_string(), malformed("m.o").to_string());
    }
}

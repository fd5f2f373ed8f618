//! The format of a linked file, and how holes are taken out of it.

use std::ops::Range;

use crate::base::error::Result;
use crate::base::io::input::Slice;
use crate::beyond::base::io::ChangedRange;
use crate::beyond::container::Magic;
use crate::beyond::container::host::gaps::{GapRemoval, HoleReason, elf, pe};

/// The format of a linked file, which decides how holes are taken out.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum LinkedFormat {
    Elf,
    Pe,
}

impl LinkedFormat {
    pub(crate) fn identify(data: Slice<'_>) -> Self {
        if Magic::identify(data.bytes()) == Magic::Pe { Self::Pe } else { Self::Elf }
    }

    /// Fails with the reason if holes cannot be taken out of this file, whatever its holes are.
    pub(crate) fn ensure_can_remove_holes(self, data: Slice<'_>) -> Result<(), HoleReason> {
        match self {
            Self::Elf => elf::ensure_can_close(data.bytes()),
            Self::Pe => pe::ensure_can_close(data.bytes()),
        }
    }

    /// Returns the changes that take the holes out of a file. Fails with the reason if none can be taken out.
    pub(crate) fn changes_to_remove_holes(
        self,
        made: Slice<'_>,
        holes: &[Range<u64>],
    ) -> Result<GapRemoval, HoleReason> {
        match self {
            Self::Elf => elf::close(made.bytes(), holes),
            Self::Pe => pe::close(made.bytes(), holes),
        }
    }

    /// Adds the change of the checksum that a PE file has. ELF files have none.
    pub(crate) fn with_checksum(
        self,
        made: Slice<'_>,
        changes: Vec<ChangedRange<'static>>,
    ) -> Result<Vec<ChangedRange<'static>>> {
        if self == Self::Pe { pe::with_checksum(made, changes) } else { Ok(changes) }
    }
}

/// Returns advice about a bundle that needs more room in a file than it has, or `None` if the reason is another one
/// than the two below.
pub(crate) fn no_room_hint(data: Slice<'_>) -> Option<&'static str> {
    let format = LinkedFormat::identify(data);
    // The holes of an earlier job, which would make room, cannot come back.
    if format == LinkedFormat::Elf && elf::open(data.bytes()).is_err() {
        return Some(
            "another tool has changed the file since recompress made it shorter: recompress --none has to run before it",
        );
    }
    match format.ensure_can_remove_holes(data) {
        Err(HoleReason::DataAfter) => {
            Some("other data follows the sections, so nothing can move: recompress the file before that data is added")
        }
        _ => None,
    }
}

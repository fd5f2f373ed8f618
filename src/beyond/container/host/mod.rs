//! Changes linked files and relocatable objects, and reads the wrappers in them.

pub(crate) mod dynamic;
pub(crate) mod gaps;
pub(crate) mod relocatable;
pub(crate) mod wrapper;

use object::SectionFlags;
use object::elf::{SHF_ALLOC, SHF_EXECINSTR, SHT_PROGBITS};
use object::pe::{
    IMAGE_SCN_CNT_INITIALIZED_DATA, IMAGE_SCN_LNK_REMOVE, IMAGE_SCN_MEM_DISCARDABLE, IMAGE_SCN_MEM_EXECUTE,
};

use crate::base::bytes::{is_zero, number, slice};
use crate::llvm::container::host::{COFF_HEADER_LEN, COFF_OPTIONAL_LEN_AT, COFF_SECTION_COUNT_AT, Section};

/// The length of the name at the start of a section header in COFF.
const COFF_NAME_LEN: u64 = 8;

/// Whether a file that begins like a COFF object certainly is one, so that it is broken if it cannot be read. COFF has
/// no magic. So the header has to be that of an object, and the name of the first section has to be valid.
pub(crate) fn is_certainly_coff(data: &[u8]) -> bool {
    let Some(section_count) = number::<2>(data, COFF_SECTION_COUNT_AT) else { return false };
    let Some(optional_len) = number::<2>(data, COFF_OPTIONAL_LEN_AT) else { return false };
    // Objects have no optional header, so the first section header follows.
    let Some(name) = slice(data, COFF_HEADER_LEN, COFF_NAME_LEN) else { return false };
    section_count != 0 && optional_len == 0 && is_section_name(name)
}

/// Whether the name field of a section holds a name of printable characters, padded with zeros.
fn is_section_name(field: &[u8]) -> bool {
    let len = field.iter().position(|&byte| byte == 0).unwrap_or(field.len());
    let (name, padding) = field.split_at(len);
    !name.is_empty() && name.iter().all(u8::is_ascii_graphic) && is_zero(padding)
}

impl Section<'_> {
    /// Whether the program loads the section and does not run it.
    pub(crate) fn is_data(&self) -> bool {
        match self.flags {
            SectionFlags::Elf { sh_type, sh_flags } => {
                sh_type == SHT_PROGBITS && sh_flags & (SHF_ALLOC | SHF_EXECINSTR) == SHF_ALLOC
            }
            SectionFlags::Coff { characteristics } => {
                let excluded = IMAGE_SCN_MEM_EXECUTE | IMAGE_SCN_MEM_DISCARDABLE | IMAGE_SCN_LNK_REMOVE;
                characteristics & (IMAGE_SCN_CNT_INITIALIZED_DATA | excluded) == IMAGE_SCN_CNT_INITIALIZED_DATA
            }
            _ => false,
        }
    }
}

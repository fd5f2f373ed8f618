//! Reads the GPU of an ELF file for Intel GPUs (zebin) from its notes.
//!
//! The notes are in the section `.note.intelgt.compat`, of the owner `IntelGT`:
//!
//! | type | value | meaning |
//! |---|---|---|
//! | 1 | 4 bytes | product family |
//! | 6 | 4 bytes | IP version: architecture in bits 22 to 31, release in bits 14 to 21, revision in bits 0 to 5 |
//!
//! The name is the value that `ocloc` takes for `-device`. A GPU that is not in the table has the name of its IP
//! version, as `ocloc` writes it: `35.12.0`. Files of before 2023 have only the product family. Sources: Intel's
//! Compute Runtime of 2026; files of `ocloc` 22.43.
//!
//! Not read: the device in ELF files of Intel's OpenCL compiler without zebin.

use crate::base::bytes::Cursor;
use crate::beyond::container::host::elf::File;

const SECTION: &[u8] = b".note.intelgt.compat";

/// The owner of the notes, with the zero at its end.
const OWNER: &[u8] = b"IntelGT\0";

const PRODUCT_FAMILY: u32 = 1;
const PRODUCT_CONFIG: u32 = 6;

/// The names of GPUs by architecture and release of their IP version.
const BY_VERSION: [((u32, u32), &str); 33] = [
    ((8, 0), "bdw"),
    ((9, 0), "skl"),
    ((9, 1), "kbl"),
    ((9, 2), "cfl"),
    ((9, 3), "apl"),
    ((9, 4), "glk"),
    ((9, 5), "whl"),
    ((9, 6), "aml"),
    ((9, 7), "cml"),
    ((11, 0), "icllp"),
    ((11, 1), "lkf"),
    ((11, 2), "ehl"),
    ((12, 0), "tgllp"),
    ((12, 1), "rkl"),
    ((12, 2), "adl-s"),
    ((12, 3), "adl-p"),
    ((12, 4), "adl-n"),
    ((12, 10), "dg1"),
    ((12, 50), "xehp-sdv"),
    ((12, 55), "dg2-g10"),
    ((12, 56), "dg2-g11"),
    ((12, 57), "dg2-g12"),
    ((12, 60), "pvc"),
    ((12, 61), "pvc-vg"),
    ((12, 70), "mtl-u"),
    ((12, 71), "mtl-h"),
    ((12, 74), "arl-h"),
    ((20, 1), "bmg-g21"),
    ((20, 2), "bmg-g31"),
    ((20, 4), "lnl-m"),
    ((30, 0), "ptl-h"),
    ((30, 1), "ptl-u"),
    ((30, 3), "wcl"),
];

/// The names of GPUs, or of their group, by product family.
const BY_FAMILY: [(u32, &str); 23] = [
    (16, "bdw"),
    (18, "skl"),
    (19, "kbl"),
    (20, "cfl"),
    (22, "apl"),
    (23, "glk"),
    (26, "icllp"),
    (27, "lkf"),
    (28, "ehl"),
    (29, "tgllp"),
    (30, "rkl"),
    (31, "adl-s"),
    (32, "adl-p"),
    (33, "adl-n"),
    (1210, "dg1"),
    (1250, "xehp-sdv"),
    (1270, "dg2"),
    (1271, "pvc"),
    (1272, "mtl"),
    (1273, "arl-h"),
    (1274, "bmg"),
    (1275, "lnl-m"),
    (1300, "ptl"),
];

/// The section with SPIR-V in an ELF file that the driver compiles for any GPU: the member `generic_ir` of archives of
/// `ocloc`.
const SPIRV: &[u8] = b"SPIRV Object";

/// Returns the SPIR-V in an ELF file that is for any GPU, or `None` for an ELF file with machine code.
pub(super) fn spirv(data: &[u8]) -> Option<&[u8]> {
    File::read(data).ok()?.section_named(SPIRV)
}

/// Returns the name of the GPU that an ELF file is for. Returns `None` if the file has no such notes, or if they have
/// no IP version and an unknown product family.
pub(super) fn name(data: &[u8]) -> Option<String> {
    let notes = File::read(data).ok()?.section_named(SECTION)?;
    match find_note(notes, PRODUCT_CONFIG) {
        // Without an IP version, the product family names the GPU.
        None | Some(0) => {}
        Some(config) => return Some(name_of_version(config)),
    }
    let family = find_note(notes, PRODUCT_FAMILY)?;
    let (_, name) = BY_FAMILY.iter().find(|(number, _)| *number == family)?;
    Some((*name).to_owned())
}

/// Returns the name of the GPU with an IP version, or the version as text for a GPU that is not in the table. The head
/// of this file says which bits hold the three numbers.
fn name_of_version(config: u32) -> String {
    let (architecture, release, revision) = (config >> 22, (config >> 14) & 0xff, config & 0x3f);
    match BY_VERSION.iter().find(|(version, _)| *version == (architecture, release)) {
        Some((_, name)) => (*name).to_owned(),
        None => format!("{architecture}.{release}.{revision}"),
    }
}

fn padded(len: u32) -> u64 {
    u64::from(len).next_multiple_of(4)
}

/// Finds the first note of a type, and returns the first four bytes of its value as a number. Returns `None` if there
/// is no such note, or if a note before it is cut off. Names and values are padded to 4 bytes, but the padding of the
/// last value may be missing.
fn find_note(notes: &[u8], wanted: u32) -> Option<u32> {
    let what = "a note";
    let mut cursor = Cursor::new(notes, 0);
    loop {
        let [name_len, len, number] = [cursor.u32(what).ok()?, cursor.u32(what).ok()?, cursor.u32(what).ok()?];
        let is_own = cursor.take(padded(name_len), what).ok()?.starts_with(OWNER);
        let value = cursor.take(padded(len).min(cursor.remaining()), what).ok()?;
        if is_own && number == wanted {
            return Some(u32::from_le_bytes(*value.first_chunk()?));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notes_of(notes: &[(u32, &[u8])]) -> Vec<u8> {
        let mut data = Vec::new();
        for (number, value) in notes {
            let len = u32::try_from(value.len()).unwrap();
            data.extend([8, len, *number].map(u32::to_le_bytes).concat());
            data.extend(OWNER);
            data.extend(*value);
            data.resize(data.len().next_multiple_of(4), 0);
        }
        data
    }

    #[test]
    fn notes_of_other_types_and_lengths_are_skipped() {
        let data = notes_of(&[(4, b"1.20\0"), (1, &1271_u32.to_le_bytes()), (6, &0x030f_0007_u32.to_le_bytes())]);
        let found = [1, 6, 2].map(|number| find_note(&data, number));
        assert_eq!(found, [Some(1271), Some(0x030f_0007), None]);
        assert!((0..data.len()).all(|len| find_note(&data[..len], 6).is_none()));
    }

    #[test]
    fn versions_have_the_names_of_ocloc() {
        for (config, name) in [
            (0x030f_0007, "pvc"),
            (0x030d_c008, "dg2-g10"),
            (0x0500_4000, "bmg-g21"),
            (0x0501_0004, "lnl-m"),
            (0x0300_0000, "tgllp"),
            (0x0242_4009, "9.9.9"),
        ] {
            assert_eq!(name_of_version(config), name, "{config:x}");
        }
    }

    #[test]
    fn tables_are_in_order_without_duplicates() {
        assert!(BY_VERSION.is_sorted_by(|one, other| one.0 < other.0));
        assert!(BY_FAMILY.is_sorted_by(|one, other| one.0 < other.0));
    }
}

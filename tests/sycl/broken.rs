//! Programs with device images that are broken in one way each: `verify` names the fault, and the rest is found.

use super::*;
use crate::properties::images::{ELF_X86_64, Section, elf};

/// A program with two images, whose sections can be changed before it is written.
fn program() -> Vec<Section> {
    Program::new(&[(SPIR64, &[Image::new(&spirv(9, 7)), Image::new(&spirv(90, 8)).packed()])]).to_sections()
}

/// The table is the last section.
fn table(sections: &mut [Section]) -> &mut Vec<u8> {
    &mut sections.last_mut().unwrap().2
}

fn set(data: &mut [u8], at: usize, value: u64) {
    data[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

fn get(data: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(data[at..at + 8].try_into().unwrap())
}

/// The name of a change, the change, and a part of the fault.
type Case = (&'static str, fn(&mut Vec<Section>), &'static str);

const CASES: &[Case] = &[
    ("an address in no section", |it| set(table(it), 0, 0x10), "a device image whose address is in no section"),
    ("a table that is cut", |it| table(it).truncate(24), "an entry of the table of device images"),
    ("a size beyond the section", |it| set(table(it), 8, 1 << 20), "the device image"),
    ("a size of 2^64-1", |it| set(table(it), 8, u64::MAX), "the device image"),
    (
        "a shorter size",
        |it| {
            let size = get(table(it), 8);
            set(table(it), 8, size - 4);
        },
        "impossible length",
    ),
    (
        "images that overlap",
        |it| {
            let size = get(table(it), 8);
            set(table(it), 8, size + 20);
        },
        "overlap",
    ),
    (
        "another inflated size",
        |it| {
            let size = get(table(it), 24);
            set(table(it), 24, size + 1);
        },
        "recorded as",
    ),
    (
        "a frame that is cut",
        |it| {
            it[0].2.pop();
        },
        "does not end before the next image",
    ),
    (
        "a changed frame",
        |it| {
            let last = it[0].2.len() - 3;
            it[0].2[last] ^= 0x55;
        },
        "the zstd stream is broken",
    ),
    ("no SPIR-V", |it| it[0].2[..4].copy_from_slice(b"text"), "an image of an unknown format"),
];

#[test]
fn faults_of_device_images_are_named() {
    for (what, change, fault) in CASES {
        let mut sections = program();
        change(&mut sections);
        let data = elf(ELF_X86_64, &sections);
        let outcome = tool(&["verify", "in"], &[("in", &data)]);
        let text = out(&outcome);
        assert!(outcome.status == 1 && text.contains(fault), "{what}: {text}");
        let outcome = tool(&["inspect", "in"], &[("in", &data)]);
        assert!(matches!(outcome.status, 0 | 1) && out(&outcome).contains("device image"), "{what}: {}", out(&outcome));
    }
}

#[test]
fn an_image_in_another_section_is_found_through_the_table() {
    for (name, id) in [(".rodata", "sycl-spir64"), ("spir64-unknown-unknown", "sycl-spir64-unknown-unknown")] {
        let data = Program::new(&[(name, &[Image::new(b"text").unlisted(), Image::new(&spirv(9, 7))])]).write();
        assert_eq!(extracted(&[], &data), [(id.to_owned(), spirv(9, 7))], "{name}");
        assert!(out(&run(&["verify"], &data)).ends_with("nothing wrong\n"), "{name}");
    }
    // An image is not found again as data of the program.
    let cubin = crate::properties::fatbins::cubin(90, 7);
    let data = Program::new(&[(".rodata", &[Image::new(b"text").unlisted(), Image::new(&cubin)])]).write();
    assert_eq!(extracted(&[], &data).into_iter().map(|(_, content)| content).collect::<Vec<_>>(), [cubin]);
    // Code for the host is a table of addresses.
    let data = Program::new(&[(".data.rel.ro", &[Image::new(&[0x10, 0x32, 0, 0, 0, 0, 0, 0])])]).write();
    let printed = out(&run(&["inspect"], &data));
    assert!(printed.contains(".data.rel.ro: not read: device image of an unknown format"), "{printed}");
}

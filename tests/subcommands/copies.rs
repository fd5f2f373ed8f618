//! Tests of copies in wheels: links to libraries that became files.

use super::*;
use crate::properties::make::{DEFLATED, Elf, STORED, Section, ZSTD, Zipped, zip};
use crate::reference::formats;

/// A library with code for a GPU. `fill` makes it compress badly.
fn library(fill: u8) -> Vec<u8> {
    let code: Vec<u8> = (0..9000_u32).map(|at| at.wrapping_mul(2_654_435_761).to_be_bytes()[0] ^ fill).collect();
    let bundle = formats::binary(&[(HOST, b""), (GFX90A, &code)], 64);
    Elf::LIBRARY.write(&[Section::new(".hip_fatbin", &bundle)])
}

/// Changes a content so that its length and its CRC-32 stay: the checksum is linear, and that of the polynomial is 0.
fn with_same_checksum(content: &[u8], at: usize) -> Vec<u8> {
    const POLYNOMIAL: u64 = 0x1_04c1_1db7;
    let mut changed = content.to_vec();
    for bit in 0..33 {
        if POLYNOMIAL >> (32 - bit) & 1 == 1 {
            changed[at + bit / 8] ^= 1 << (bit % 8);
        }
    }
    changed
}

/// The copies in the report of `inspect` on a wheel: the first member, the others, and both sizes.
fn copies(outcome: &Outcome) -> Vec<(String, Vec<String>, u64, u64)> {
    let document = json_of(outcome);
    let copies = document["files"][0]["copies"].as_array().unwrap().iter();
    let row = |row: &Value| {
        let names = row["copies"].as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned());
        let [size, stored] = ["size", "stored_size"].map(|field| row[field].as_u64().unwrap());
        (row["member"].as_str().unwrap().to_owned(), names.collect(), size, stored)
    };
    copies.map(row).collect()
}

#[test]
fn copies_of_a_library_are_named_once_with_their_cost() {
    let (one, two) = (library(0), library(1));
    let len = u64::try_from(one.len()).unwrap();
    for method in [STORED, DEFLATED, ZSTD] {
        let member = |name: &str, content: &[u8]| Zipped::new(name, method, content);
        let members = [
            member("a/libone.so", &one),
            member("a/libtwo.so", &two),
            member("a/libone.so.1", &one),
            member("a/text", b"text"),
            member("a/same text", b"text"),
            member("a/libone.so.1.2", &one),
        ];
        let stored = 2 * u64::try_from(members[0].stored.len()).unwrap();
        let wheel = zip(&members);
        let files: &[(&str, &[u8])] = &[("a.whl", &wheel)];
        let found = copies(&tool(&["inspect", "--json", "a.whl"], files));
        let names = ["a/libone.so.1", "a/libone.so.1.2"].map(str::to_owned).to_vec();
        assert_eq!(found, [("a/libone.so".to_owned(), names, 2 * len, stored)], "method {method}");
        for args in [&["inspect", "a.whl"][..], &["inspect", "--each", "a.whl"], &["inspect", "--markdown", "a.whl"]] {
            let outcome = tool(args, files);
            let out = String::from_utf8(outcome.stdout).unwrap();
            let lines: Vec<&str> =
                out.lines().filter(|line| line.contains("2 copies of a.whl(a/libone.so): ")).collect();
            assert_eq!(lines.len(), 1, "{args:?}: {out}");
            assert!(lines[0].ends_with(": a/libone.so.1, a/libone.so.1.2"), "{args:?}: {}", lines[0]);
        }
    }
}

#[test]
fn equal_sizes_and_checksums_alone_make_no_copies() {
    let one = library(0);
    // In the code, and where only the library around it differs.
    for at in [one.len() / 2, 9] {
        let other = with_same_checksum(&one, at);
        let members = [Zipped::new("one.so", DEFLATED, &one), Zipped::new("other.so", DEFLATED, &other)];
        assert!(members[0].crc == members[1].crc && members[0].size == members[1].size && one != other);
        let outcome = tool(&["inspect", "--json", "a.whl"], &[("a.whl", &zip(&members))]);
        assert_eq!(copies(&outcome), [], "changed at {at}");
    }
}

#[test]
fn large_copies_that_are_inflated_ahead_are_found() {
    let mut large = library(0);
    large.resize(3 << 20, 7);
    let members = ["a.so", "b.so", "c.so"].map(|name| Zipped::new(name, DEFLATED, &large));
    let stored = 2 * u64::try_from(members[0].stored.len()).unwrap();
    let outcome = tool(&["inspect", "--json", "a.whl"], &[("a.whl", &zip(&members))]);
    let names = ["b.so", "c.so"].map(str::to_owned).to_vec();
    assert_eq!(copies(&outcome), [("a.so".to_owned(), names, 2 * (3 << 20), stored)]);
}

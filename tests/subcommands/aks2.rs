//! AKS2 files of AOTriton: each fault is reported, and the other kernels are read.

use super::*;
use crate::properties::aks2s::{entry as aks2_entry, file as aks2_with, xz};

/// Code for gfx90a, with a kernel.
fn code() -> Vec<u8> {
    fixture(super::kernels::ELF)
}

#[test]
fn kernels_are_found_under_their_names() {
    let code = code();
    let directory = [
        aks2_entry(b"first", 0, code.len()),
        aks2_entry(b"not-compiled", 0, 0),
        aks2_entry(b"second", code.len(), code.len()),
    ];
    let file = aks2_with(3, &directory.concat(), &[&code[..], &code].concat());
    let wheel = crate::properties::make::zip(&[crate::properties::make::Zipped::new(
        "images/a.aks2",
        crate::properties::make::DEFLATED,
        &file,
    )]);
    for (data, before) in [(&file, ""), (&wheel, "images/a.aks2/")] {
        let listed = json_of(&tool(&["inspect", "--json", "in"], &[("in", data)]));
        let objects = listed["files"][0]["code_objects"].as_array().unwrap();
        let members: Vec<&str> = objects.iter().map(|object| object["member"].as_str().unwrap()).collect();
        assert_eq!(members, [format!("{before}first"), format!("{before}second")]);
        let outcome = tool(&["verify", "in"], &[("in", data)]);
        assert_eq!(outcome.status, 0, "{outcome:?}");
        // Each URI leads to the bytes.
        let dir = crate::machine::memory_directory();
        std::fs::write(dir.path().join("in"), data).unwrap();
        for object in objects {
            let uri = object["uri"].as_str().unwrap().replace("DIR", dir.path().to_str().unwrap());
            let output = tool_in(dir.path(), &["extract", &uri, "-o", "-"]);
            assert!(output.stdout == code, "{object}: {}", String::from_utf8_lossy(&output.stderr));
        }
    }
}

#[test]
fn claims_of_the_header_and_directory_are_compared() {
    let code = code();
    let len = code.len();
    let entry = |name: &str, offset| aks2_entry(name.as_bytes(), offset, len);
    let good = aks2_with(1, &entry("a", 0), &code);
    let changed = |at: usize, value: u32| {
        let mut data = good.clone();
        data[at..at + 4].copy_from_slice(&value.to_le_bytes());
        data
    };
    let inflated = u32::from_le_bytes(good[4..8].try_into().unwrap());
    let with = |directory: &[u8]| aks2_with(2, &[&entry("a", 0), directory].concat(), &[&code[..], &code].concat());
    let mut damaged = good.clone();
    damaged[good.len() - 60] ^= 1;
    let packed = |inflated: u32, stream: &[u8]| {
        let numbers = [inflated, 1, 22].map(u32::to_le_bytes).concat();
        [b"AKS2", numbers.as_slice(), stream].concat()
    };
    for (name, data, found, told) in [
        ("longer", changed(4, inflated + 1), 1, "AKS2 file broken: it ends early"),
        (
            "shorter",
            packed(inflated, &xz(&[&entry("a", 0)[..], &code, b"x"].concat())),
            1,
            "its stream is longer than its header says",
        ),
        ("cut image", changed(4, inflated - 1), 0, "the image of kernel 'a'"),
        ("kernels", changed(8, 2), 0, "size of the directory 22 at offset 12, expected room for all kernels"),
        ("no kernels", changed(8, 0), 0, "bytes in the directory after all kernels 22 at offset 0, expected 0"),
        ("directory", changed(12, 21), 0, "name of a kernel"),
        ("image", with(&entry("b", len + 1)), 1, "the image of kernel 'b'"),
        ("shared", with(&entry("b", len - 1)), 1, "the image of kernel 'b' at offset"),
        (
            "name",
            with(&entry("b\0c", len)),
            1,
            "the name of a kernel at offset 42, expected up to 4096 bytes and a NUL",
        ),
        ("stream", damaged, 0, "AKS2 file broken: "),
        ("no stream", packed(inflated, b""), 0, "AKS2 file broken: it ends early"),
        ("other stream", packed(inflated, b"not an xz stream"), 0, "AKS2 file broken: "),
        ("cut header", good[..10].to_vec(), 0, "AKS2 file broken: it ends early"),
        ("cut stream", good[..good.len() - 1].to_vec(), 1, "AKS2 file broken: it ends early"),
    ] {
        let outcome = tool(&["verify", "in"], &[("in", &data)]);
        let all = String::from_utf8([&outcome.stdout[..], &outcome.stderr].concat()).unwrap();
        assert!(outcome.status == 1 && all.contains(told), "{name}: {outcome:?}");
        let listed = tool(&["inspect", "--json", "in"], &[("in", &data)]);
        let document = json_of(&listed);
        assert_eq!(document["files"][0]["code_objects"].as_array().unwrap().len(), found, "{name}: {listed:?}");
    }
}

#[test]
fn files_for_other_systems_are_named() {
    for (head, name) in [
        (&b"MTLB"[..], "Metal library"),
        (b"DXBC", "DirectX shader container"),
        (b"SQLite format 3\0", "SQLite database"),
    ] {
        let outcome = tool(&["inspect", "in"], &[("in", &[head, &[0; 60]].concat())]);
        assert!(String::from_utf8_lossy(&outcome.stdout).contains(name), "{outcome:?}");
    }
}

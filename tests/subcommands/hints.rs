//! Hints for files without the requested code.

use std::fs;
use std::time::Duration;

use super::*;
use crate::machine::memory_directory;
use crate::measured;
use crate::properties::make::{DEFLATED, STORED, Zipped, archive, zip};
use crate::properties::packages;
use crate::reference::formats;

/// Code in the middle of a file of another format.
fn embedded() -> Vec<u8> {
    [&b"\0\x01flatbuffer"[..], &vec![7; 100_000], &fixture(kernels::ELF), &vec![0; 5000]].concat()
}

#[test]
fn device_code_that_only_a_deep_search_finds_is_reported() {
    let hint = "hint: --deep finds device code in 'model.vmfb'\n";
    let embedded = embedded();
    let (pointer, optix) = (
        b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12345\n",
        b"\xedCN\x7f\x01\x40\x02\x5d\x03\x02\x07\x00\x18\x00\x02\x00\x34\x00\x00\x00",
    );
    let (stored, deflated) = [STORED, DEFLATED].map(|method| zip(&[Zipped::new("a", method, &embedded)])).into();
    let host_only = [b"raw".to_vec(), formats::binary(&[(HOST, b"host")], 1)].concat();
    let files: [(&str, &[u8]); 7] = [
        ("model.vmfb", &embedded),
        ("none", &[1, 2, 3]),
        ("lib.so", pointer),
        ("x.optixir", optix),
        ("stored.zip", &stored),
        ("deflated.zip", &deflated),
        ("host.raw", &host_only),
    ];
    let (in_stored, perhaps) = (
        "hint: --deep finds device code in 'stored.zip'\n",
        "hint: --deep searches all bytes of 'deflated.zip', which takes longer\n",
    );
    for (args, expected) in [
        (&["inspect", "model.vmfb"][..], hint),
        (&["inspect", "--json", "model.vmfb"], ""),
        (&["inspect", "--deep", "model.vmfb"], ""),
        (&["inspect", "."], ""),
        (&["inspect", "none", "lib.so", "x.optixir", "host.raw"], ""),
        (&["inspect", "stored.zip"], in_stored),
        (&["inspect", "deflated.zip"], perhaps),
        (&["extract", "deflated.zip"], perhaps),
        (&["extract", "--json", "model.vmfb"], "'model.vmfb'; it has none for a device\n"),
        (&["extract", "host.raw"], "'host.raw'; it has none for a device\n"),
        (&["extract", "model.vmfb"], &format!("'model.vmfb'; it has none for a device\n{hint}")),
        (&["extract", "none"], "'none'; it has none for a device\n"),
        (&["extract", "lib.so"], "hint: 'lib.so' is not read: Git LFS pointer (run git lfs pull)\n"),
        (&["extract", "x.optixir"], "hint: 'x.optixir' is not read: OptiX IR\n"),
    ] {
        let said = tool(args, &files).stderr_text();
        assert!(said.ends_with(expected) && expected.is_empty() == said.is_empty(), "{args:?}: {said}");
    }
    let printed = String::from_utf8(tool(&["inspect", "lib.so", "x.optixir"], &files).stdout).unwrap();
    let expected = "lib.so: no readable device code\n  not read: Git LFS pointer (run git lfs pull)\n\
        x.optixir: no readable device code\n  not read: OptiX IR\n";
    assert_eq!(printed, expected);
}

/// Code in compressed data is not looked for in an ordinary search, and must not be inflated for a hint at it.
#[test]
fn a_hint_inflates_nothing() {
    let zeros = vec![0; 256 << 20];
    let dir = memory_directory();
    let time =
        |args: &[&str]| measured::run(Path::new(PROGRAM), PROGRAM, args, dir.path(), Duration::from_secs(60)).took;
    for (format, data) in [
        ("zip", zip(&[Zipped::new("text", DEFLATED, &zeros)])),
        ("gzip", packages::gzip(&zeros)),
        ("zstd", packages::zstd(&zeros)),
        ("gzip in ar", archive(&[("text.gz", &packages::gzip(&zeros))])),
    ] {
        fs::write(dir.path().join("in"), data).unwrap();
        let deep = time(&["inspect", "--deep", "in"]);
        for args in ["inspect in", "inspect --json in", "extract -n in", "extract --json -n in"] {
            let took = time(&args.split(' ').collect::<Vec<_>>());
            assert!(took < deep / 4, "{format}: {args}: {took:?}, with --deep {deep:?}");
        }
    }
}

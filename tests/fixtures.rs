//! Reads the files of `fixtures/` through the library, and checks their contents and the faults of the hostile ones.

use crate::machine::memory_directory;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use offload_bundle::container::offload_binary::{ImageKind, OffloadBinary};
use offload_bundle::container::sequence::{Bundles, Inflate};
use offload_bundle::error::{Error, Malformed};
use offload_bundle::id::EntryId;
use offload_bundle::io::Input;
use offload_bundle::llvm::{BundleFiles, FileType, List, Unbundle};

const HOST: &str = "host-x86_64-unknown-linux-gnu-";
const GFX906: &str = "hip-amdgcn-amd-amdhsa--gfx906";
const GFX90A: &str = "hip-amdgcn-amd-amdhsa--gfx90a";
const GFX90A_SET: &str = "hip-amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-";

const HOST_CODE: &[u8] = b"host code\n";
const GFX906_CODE: &[u8] = b"code object for gfx906";
const GFX90A_CODE: &[u8] = b"code object for gfx90a, with \0 zeros \0\0 and __CLANG_OFFLOAD_BUNDLE__ inside";
const SM70_CODE: &[u8] = b"cubin for sm_70";

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name)
}

/// The names of the fixtures in one folder.
fn folder(name: &str) -> Result<Vec<String>> {
    let entries = fs::read_dir(fixture(name))?;
    let mut names =
        entries.map(|entry| Ok(format!("{name}/{}", entry?.file_name().display()))).collect::<Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}

fn type_of(name: &str) -> &str {
    match name.rsplit_once('.') {
        Some((_, extension @ ("ii" | "s" | "ll"))) => extension,
        _ => "bc",
    }
}

fn list(path: &Path, file_type: &str) -> offload_bundle::Result<String> {
    let mut out = Vec::new();
    let job = List::new(path.to_owned(), FileType::from_name(file_type).unwrap());
    job.run(&mut out, &mut |_| {})?;
    Ok(String::from_utf8_lossy(&out).into_owned())
}

fn unbundle(path: &Path, file_type: &str, requests: &[(&str, &Path)]) -> Result<()> {
    let requests = requests.iter().map(|(id, path)| Ok((EntryId::parse(id)?, path.to_path_buf())));
    let job = Unbundle::new(path.to_owned(), FileType::from_name(file_type).unwrap(), requests.collect::<Result<_>>()?);
    Ok(job.run(&mut |_| {})?)
}

/// The code object that serves a request.
fn serve(name: &str, id: &str) -> Result<Vec<u8>> {
    let directory = memory_directory();
    let out = directory.path().join("out");
    unbundle(&fixture(name), type_of(name), &[(id, &out)]).with_context(|| format!("{name}: {id}"))?;
    Ok(fs::read(out)?)
}

fn failure(name: &str) -> Result<Malformed> {
    let error = list(&fixture(name), type_of(name)).err();
    error.as_ref().and_then(Error::fault).cloned().with_context(|| format!("{name}: {error:?}"))
}

#[test]
fn every_release_and_version_is_listed_in_file_order() {
    let lists = |name: &str, expected: &[&str]| {
        let listed = list(&fixture(name), type_of(name)).unwrap();
        assert_eq!(listed.lines().collect::<Vec<_>>(), expected, "{name}");
    };
    let plain = [HOST, GFX906, GFX90A_SET];
    lists("binary/llvm22-plain.bundle", &plain);
    lists("binary/llvm22-aligned.bundle", &[HOST, GFX906, GFX90A]);
    lists("binary/llvm22-host-empty.bundle", &[HOST, "hipv4-amdgcn-amd-amdhsa--gfx906"]);
    lists("binary/llvm22-hip-only.bundle", &[GFX906, GFX90A]);
    let openmp = ["openmp-nvptx64-nvidia-cuda-unknown-sm_70", "openmp-amdgcn-amd-amdhsa--gfx906"];
    lists("binary/llvm22-openmp.bundle", &[HOST, openmp[0], openmp[1]]);
    let short = ["host-x86_64-unknown-linux--", GFX906, "openmp-nvptx64-nvidia-cuda--sm_70"];
    lists("binary/llvm19-short-ids.bundle", &short);
    let shorter = ["host-x86_64-unknown-linux", "hip-amdgcn-amd-amdhsa-gfx906", "openmp-nvptx64-nvidia-cuda-sm_70"];
    lists("binary/llvm14-short-ids.bundle", &shorter);
    for name in ["text/llvm22-slashes.ii", "text/llvm22-hash.s", "text/llvm22-semicolon.ll"] {
        lists(name, &[HOST, GFX906]);
    }
    lists("text/llvm14-semicolon.ll", &[shorter[0], shorter[2]]);
    for name in ["llvm22-v3", "llvm22-v2", "v1-zstd", "v1-zlib", "v2-zlib"] {
        lists(&format!("compressed/{name}.ccob"), &plain);
    }
    let mixed = [&[GFX906, GFX90A][..], &plain, &plain, &plain].concat();
    lists("sequence/mixed.bundle", &mixed);
    lists("sequence/compressed.bundle", &plain.repeat(2));
    lists("sequence/plain-twice.bundle", &[&plain[..], &[GFX906, GFX90A]].concat());
    lists("sequence/padded-4096.bundle", &[HOST, GFX906, GFX90A, GFX906, GFX90A]);
    lists("sequence/tail.bundle", &[GFX906, GFX90A]);
}

#[test]
fn every_release_and_version_gives_its_code_objects() {
    let mut names = [folder("binary").unwrap(), folder("compressed").unwrap(), folder("sequence").unwrap()].concat();
    names.retain(|name| !name.contains("odd-ids") && !name.contains("duplicate-id"));
    for name in &names {
        let openmp = name.contains("openmp");
        let request = if openmp { "openmp-amdgcn-amd-amdhsa--gfx906" } else { GFX906 };
        assert_eq!(serve(name, request).unwrap(), GFX906_CODE, "{name}");
        if openmp || name.contains("short-ids") {
            assert_eq!(serve(name, "openmp-nvptx64-nvidia-cuda--sm_70").unwrap(), SM70_CODE, "{name}");
        }
        if name.contains("compressed") || name.contains("mixed") || name.contains("plain") {
            assert_eq!(serve(name, HOST).unwrap(), HOST_CODE, "{name}");
            assert_eq!(serve(name, GFX90A_SET).unwrap(), GFX90A_CODE, "{name}");
        }
    }
    assert_eq!(serve("text/llvm22-slashes.ii", GFX906).unwrap(), GFX906_CODE);
    assert_eq!(serve("text/llvm22-hash.s", GFX906).unwrap(), b"");
    assert_eq!(serve("binary/llvm22-host-empty.bundle", HOST).unwrap(), b"");
    assert_eq!(serve("binary/duplicate-id.bundle", GFX906).unwrap(), b"first");
    assert_eq!(serve("binary/odd-ids.bundle", "hip-amdgcn-amd-amdhsa--gfx9999:xnack+").unwrap(), b"unknown processor");
}

#[test]
fn bundles_are_written_as_llvm_writes_them() {
    let directory = memory_directory();
    let path = |name: &str| directory.path().join(name);
    fs::write(path("host"), HOST_CODE).unwrap();
    fs::write(path("gfx906"), GFX906_CODE).unwrap();
    fs::write(path("gfx90a"), GFX90A_CODE).unwrap();
    let write = |fixture_name: &str, alignment: u32, members: &[(&str, &str)]| {
        let members = members.iter().map(|(id, name)| (EntryId::parse(id).unwrap(), path(name))).collect();
        let file_type = FileType::from_name(type_of(fixture_name)).unwrap();
        let alignment = std::num::NonZeroU32::new(alignment);
        let mut job = BundleFiles::new(members, path("out"), file_type);
        job.alignment = alignment;
        job.run(&mut |_| {}).unwrap();
        assert!(fs::read(path("out")).unwrap() == fs::read(fixture(fixture_name)).unwrap(), "{fixture_name}");
    };
    write("binary/llvm22-plain.bundle", 1, &[(HOST, "host"), (GFX906, "gfx906"), (GFX90A_SET, "gfx90a")]);
    write("binary/llvm22-aligned.bundle", 256, &[(HOST, "host"), (GFX906, "gfx906"), (GFX90A, "gfx90a")]);
    write("binary/llvm22-hip-only.bundle", 1, &[(GFX906, "gfx906"), (GFX90A, "gfx90a")]);
    write("text/llvm22-slashes.ii", 1, &[(HOST, "host"), (GFX906, "gfx906")]);
}

#[test]
fn hostile_files_are_errors_that_say_where() {
    let error = |name: &str| failure(&format!("hostile/{name}")).unwrap();
    let said = |name: &str, text: &str| error(name).to_string().contains(text);
    assert!(said("count-2-63.bundle", "entry count 9223372036854775808 at offset 24 is too large: the data ends at"));
    assert!(said("count-2-63.bundle", "ends at offset 315, which leaves room for 11"));
    assert!(matches!(error("id-length-2-63.bundle"), Malformed::Truncated { offset: 56, end: 315, .. }));
    assert!(said("cut-in-header.bundle", "entry count 3 at offset 24 is too large"));
    assert!(matches!(error("cut-in-code-object.bundle"), Malformed::Truncated { offset: 240, end: 305, .. }));
    assert!(matches!(error("size-wraps.bundle"), Malformed::Truncated { offset: 208, end: 315, .. }));
    let overlap = "entry 0 claims 10 bytes at offset 40, inside the bundle's header, which ends at offset 208";
    assert!(said("overlapping-header.bundle", overlap));
    assert!(matches!(error("second-bundle-cut.bundle"), Malformed::Truncated { offset: 475, end: 547, .. }));
    assert!(said("no-end-line.ii", " that starts at offset 146 has no end line"));
    assert!(said("bad-version.ccob", "compressed bundle version 9 at offset 4, expected 1, 2 or 3"));
    assert!(said("bad-method.ccob", "compression method 7 at offset 6, expected 0 (zlib) or 1 (zstd)"));
    assert!(said("total-below-header.ccob", "total size 23 at offset 8, expected at least"));
    assert!(said("total-too-small.ccob", "compressed bundle at offset 0: the zstd stream is broken after"));
    assert!(matches!(error("cut.ccob"), Malformed::Truncated { offset: 0, end: 222, .. }));
    for (name, size) in [("small", 314), ("large", 316)] {
        let recorded = format!("the inflated size is recorded as {size} bytes, but is");
        assert!(said(&format!("inflated-too-{name}.ccob"), &recorded));
    }
    assert!(said("inflated-4-gib.ccob", "the inflated size is recorded as 4294967295 bytes, but is"));
    assert!(said("wrong-hash.ccob", "the recorded hash is 0x0123456789abcdef, but"));
    assert!(matches!(error("cut-inside.ccob"), Malformed::Inflated { offset: 0, .. }));
    let tested = 18;
    assert_eq!(folder("hostile").unwrap().len(), tested, "a hostile fixture without a line here");
}

#[test]
fn offload_binaries_of_every_version_hold_the_same_images() {
    for name in ["llvm22-v1", "v2", "v3-zstd"] {
        let input = Input::read(&fixture(&format!("offload/{name}.offload"))).unwrap();
        let container = OffloadBinary::default();
        let binaries = Bundles::new(input.as_slice(), &container, Inflate::AsNeeded);
        let entries: Vec<_> = binaries.flat_map(|binary| binary.unwrap().entries).collect();
        let ids: Vec<_> = entries.iter().map(|entry| String::from_utf8_lossy(&entry.id).into_owned()).collect();
        assert_eq!(ids, [GFX906, GFX90A], "{name}");
        let kinds: Vec<_> = entries.iter().filter_map(|entry| Some(entry.image.as_ref()?.image_kind)).collect();
        assert_eq!(kinds, [ImageKind::Object, ImageKind::Bitcode], "{name}");
        assert_eq!(entries[0].size(), u64::try_from(GFX906_CODE.len()).unwrap(), "{name}");
    }
}

#[test]
fn every_fixture_is_documented() {
    let readme = fs::read_to_string(fixture("README.md")).unwrap();
    for directory in ["binary", "text", "compressed", "sequence", "hostile", "bitcode", "offload", "fatbin", "kpack"] {
        for name in folder(directory).unwrap() {
            assert!(readme.contains(&format!("`{name}`")), "fixtures/README.md says nothing about {name}");
        }
    }
}

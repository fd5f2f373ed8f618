//! URIs of code objects: the bytes of a code object are where its URI leads.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use offload_bundle::container::Limits;
use offload_bundle::container::sequence::Inflate;
use offload_bundle::io::Input;
use offload_bundle::scan::{Finding, Scan, Uri};

use crate::look::make::{DEFLATED, Elf, STORED, Section, Zipped, archive, thin_archive, zip};
use crate::reference::formats;

const GFX906: &str = "hip-amdgcn-amd-amdhsa--gfx906";
const GFX90A: &str = "hip-amdgcn-amd-amdhsa--gfx90a";

/// Resolves the URI of every code object in a file, and returns the number of different URIs.
pub fn resolve_all(file: &Path) -> usize {
    let mut uris = HashSet::new();
    for (inflate, deep) in [(Inflate::Headers, false), (Inflate::Whole, false), (Inflate::Whole, true)] {
        let input = Input::read(file).unwrap();
        let mut scan = Scan::default();
        (scan.inflate, scan.deep) = (inflate, deep);
        let mut seen: Vec<(String, Vec<u8>)> = Vec::new();
        let mut visit = |finding: Finding<'_>| {
            if let Finding::Bundle(found) = finding {
                for code_object in found.code_objects() {
                    let (uri, bytes) = (code_object.uri()?, code_object.bytes());
                    seen.extend(uri.zip(bytes.ok()).map(|(uri, bytes)| (uri.to_string(), bytes.into_owned())));
                }
            }
            Ok(())
        };
        scan.run(&input, &mut visit).unwrap();
        for (text, bytes) in seen {
            let uri = Uri::parse(text.as_ref()).unwrap();
            let file = Input::read(uri.path()).unwrap();
            let resolved = uri.resolve(&file, Limits::default()).unwrap();
            assert!(resolved.as_slice().bytes() == bytes, "{text}");
            uris.insert(text);
        }
    }
    uris.len()
}

fn bundle(code: &[u8]) -> Vec<u8> {
    formats::binary(&[("host-x86_64-unknown-linux-gnu-", b""), (GFX906, code)], 4096)
}

fn library(bundle: &[u8]) -> Vec<u8> {
    Elf::LIBRARY.write(&[Section::new(".hip_fatbin", bundle).aligned(4096)])
}

fn deflated(name: &str, content: &[u8]) -> Zipped {
    Zipped::new(name, DEFLATED, content)
}

#[test]
fn what_has_one_name_has_several_uris() {
    let [one, two] = [&b"first"[..], b"second"].map(|code| library(&bundle(code)));
    let packed = |code: &[u8]| formats::compressed(3, 1, &bundle(code));
    let twice = [bundle(b"third"), packed(b"fourth"), packed(b"fifth")].concat();
    let both = zip(&[deflated("a;2/lib.so", &one), deflated("a;2/lib.so", &two)]);
    let sections = [Section::new(".hip_fatbin", &twice).aligned(4096), Section::new(".hip_fatbin", &twice)];
    // Bundles in entries of one name, in a bundle that is compressed. A zip file is not looked for there.
    let inner = [(GFX906, &twice[..]), (GFX90A, &both[..]), (GFX906, &packed(b"sixth")[..])];
    let nested = formats::compressed(2, 0, &formats::binary(&inner, 8));
    let files: [(&str, Vec<u8>, usize); 7] = [
        ("both.zip", both.clone(), 4),
        ("same steps.zip", zip(&[deflated("a", &archive(&[("b", &one)])), deflated("a/b", &two)]), 4),
        ("stored.zip", zip(&[Zipped::new("x.zip", STORED, &both), Zipped::new("x.zip", STORED, &both)]), 8),
        ("in.a", archive(&[("x.zip", &both), ("x.zip", &both), ("x.so", &one)]), 10),
        ("sections.so", Elf::LIBRARY.write(&sections), 12),
        ("nested.zip", zip(&[deflated("x", &nested), deflated("x", &nested), deflated("y", &twice)]), 28),
        ("odd#name?&%41.zip", zip(&[deflated("#&=;%41\n", &twice)]), 6),
    ];
    let dir = tempfile::tempdir().unwrap();
    for (name, data, expected) in files {
        let path = dir.path().join(name);
        fs::write(&path, &data).unwrap();
        assert_eq!(resolve_all(&path), expected, "{name}");
    }
    let thin = dir.path().join("thin.a");
    fs::write(dir.path().join("x.zip"), &both).unwrap();
    fs::write(&thin, thin_archive(&[("x.zip", both.len()), ("x.zip", both.len()), ("nested.zip", 1)])).unwrap();
    assert_eq!(resolve_all(&thin), 4 + 28);
}

#[test]
fn code_objects_of_all_fixtures_are_where_their_uris_lead() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let mut found = 0;
    for directory in fs::read_dir(fixtures).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()) {
        found += fs::read_dir(directory).unwrap().map(|entry| resolve_all(&entry.unwrap().path())).sum::<usize>();
    }
    assert!(found > 100, "{found}");
}

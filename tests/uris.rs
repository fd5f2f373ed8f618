//! URIs of code objects: the bytes of a code object are where its URI leads.

use crate::machine::memory_directory;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use offload_bundle::container::Limits;
use offload_bundle::container::sequence::Inflate;
use offload_bundle::io::Input;
use offload_bundle::job::Replace;
use offload_bundle::scan::{Finding, Scan, Uri};

use serde_json::Value;

use crate::properties::fatbins::{self, Code};
use crate::properties::images;
use crate::properties::make::{DEFLATED, Elf, STORED, Section, Zipped, archive, coff, thin_archive, zip};
use crate::reference::formats;
use crate::reference::harness::{Random, llvm23};
use crate::subcommands::{PROGRAM, text, tool_in};

const GFX906: &str = "hip-amdgcn-amd-amdhsa--gfx906";
const GFX90A: &str = "hip-amdgcn-amd-amdhsa--gfx90a";

/// Resolves the URI of every code object in a file, and returns the number of different URIs.
pub fn resolve_all(file: &Path) -> usize {
    let mut all: HashMap<String, Vec<u8>> = HashMap::new();
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
        for (index, (text, bytes)) in seen.into_iter().enumerate() {
            // A subcommand takes the URI of any code object, also of one that is no code.
            if index == 0 {
                let opened = Uri::open(Path::new(&text), Limits::default(), Input::read).unwrap();
                assert!(opened.bytes() == bytes, "{text}");
            }
            if let Some(known) = all.get(&text) {
                assert!(*known == bytes, "{text}");
                continue;
            }
            let uri = Uri::parse(text.as_ref()).unwrap();
            let file = Input::read(uri.path()).unwrap();
            let resolved = uri.resolve(&file, Limits::default()).unwrap();
            assert!(resolved.as_slice().bytes() == bytes, "{text}");
            all.insert(text, bytes);
        }
    }
    all.len()
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
fn code_objects_with_one_name_have_several_uris() {
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
    let dir = memory_directory();
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

/// The URIs of the code objects for devices that `inspect` finds.
fn inspected(dir: &Path, file: &str) -> Vec<String> {
    inspected_by(dir, &[file])
}

fn inspected_by(dir: &Path, args: &[&str]) -> Vec<String> {
    let (status, json, said) = text(&tool_in(dir, &[&["inspect", "--json"], args].concat()));
    assert_eq!((status, said.as_str()), (0, ""));
    let document: Value = serde_json::from_str(&json).unwrap();
    let objects = document["files"][0]["code_objects"].as_array().unwrap();
    let is_of_device = |object: &&Value| !object["entry_id"].as_str().is_some_and(|id| id.starts_with("host"));
    objects.iter().filter(is_of_device).map(|object| object["uri"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn uris_of_no_code_object_are_errors_of_each_subcommand() {
    let dir = memory_directory();
    let dir = dir.path();
    let elf = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/kernels/llvm22-gfx90a.elf")).unwrap();
    let [plain, other] = [bundle(&elf), bundle(b"text")];
    let offset = plain.len() - elf.len();
    fs::write(dir.join("x"), [&plain[..], &other].concat()).unwrap();
    let of = |range: &str| format!("file://{}#{range}", dir.join("x").display());
    let text_at = plain.len() + other.len() - 4;
    for (range, is_there) in [
        (format!("offset={offset}&size={}", elf.len()), true),
        (format!("offset={text_at}&size=4"), true),
        (format!("offset={text_at}&size=3"), false),
        ("offset=5&size=10".to_owned(), false),
        ("offset=1&size=0".to_owned(), false),
    ] {
        for subcommand in ["inspect", "kernels", "verify", "extract", "diff"] {
            let uri = of(&range);
            let words = match subcommand {
                "diff" => vec![subcommand, &uri, &uri],
                "verify" => vec![subcommand, "--allow-none", &uri],
                _ => vec![subcommand, &uri],
            };
            let (status, _, said) = text(&tool_in(dir, &words));
            let says = said.contains("no code object has the URI") && said.contains(&range);
            assert_eq!(says, !is_there, "{words:?}: {said}");
            // `extract` copies nothing of a text.
            assert!(!says || status != 0, "{words:?}");
            assert!(says || status == 0 || subcommand == "extract", "{words:?}: {said}");
        }
    }
    // A deep search finds code in any range.
    let (status, said, _) =
        text(&tool_in(dir, &["inspect", "--deep", &of(&format!("offset=9&size={}", plain.len() - 9))]));
    assert!(status == 0 && said.contains("gfx90a"), "{said}");
}

/// A file whose two bundles have the code objects `first` and `second`, and their URIs.
fn two_code_objects(dir: &Path) -> [String; 2] {
    let [plain, packed] = [bundle(b"first"), formats::compressed(3, 1, &bundle(b"second"))];
    fs::write(dir.join("x.so"), library(&[plain, packed].concat())).unwrap();
    inspected(dir, "x.so").try_into().unwrap()
}

/// Runs the third tool with these words and this standard input. Returns its status and its messages.
fn extract_bundle_entry(dir: &Path, words: &[&str]) -> (i32, String, String) {
    let link = dir.join("llvm-extract-bundle-entry");
    if !link.exists() {
        std::os::unix::fs::symlink(PROGRAM, &link).unwrap();
    }
    let mut command = Command::new("./llvm-extract-bundle-entry");
    text(&command.args(words).current_dir(dir).stdin(Stdio::null()).output().unwrap())
}

/// The files in a directory that the third tool made, and removes them.
fn taken(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut taken: Vec<_> = entries
        .filter(|path| path.extension().is_some_and(|extension| extension == "co"))
        .map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read(&path).unwrap()))
        .collect();
    taken.iter().for_each(|(name, _)| fs::remove_file(dir.join(name)).unwrap());
    taken.sort();
    taken
}

#[test]
fn the_third_tool_copies_what_uris_name() {
    let dir = memory_directory();
    let dir = dir.path();
    let uris = two_code_objects(dir);
    let [plain, packed] = [&uris[0], &uris[1]].map(|uri| {
        let numbers = uri.split_once('#').unwrap().1.replace('=', "").replace('&', "-");
        format!("x.so-{numbers}.co")
    });
    let both = [(plain.clone(), b"first".to_vec()), (packed.clone(), b"second".to_vec())];
    for words in [vec![uris[0].as_str(), &uris[1]], vec![uris[1].as_str(), &uris[0], &uris[1]]] {
        assert_eq!(extract_bundle_entry(dir, &words), (0, String::new(), String::new()), "{words:?}");
        assert_eq!(taken(dir).into_iter().collect::<HashSet<_>>(), both.iter().cloned().collect(), "{words:?}");
    }
    assert_eq!(extract_bundle_entry(dir, &["-o", "-", &uris[1]]), (0, "second".to_owned(), String::new()));
    assert_eq!(extract_bundle_entry(dir, &[&uris[0], "-o=out.co"]).0, 0);
    assert_eq!(taken(dir), [("out.co".to_owned(), b"first".to_vec())]);
    assert_eq!(extract_bundle_entry(dir, &["file://x.so?offset=0x1&size=03"]).0, 0);
    assert_eq!(taken(dir), [("x.so-offset1-size3.co".to_owned(), b"ELF".to_vec())]);
    // If one URI is wrong, nothing is written.
    for (words, said) in [
        (vec![uris[0].as_str(), "x.so"], "'x.so': not a URI of a code object, which begins with 'file://'"),
        (vec![&uris[0], "file://none"], "'none': No such file or directory"),
        (vec![&uris[0], &uris[1], "-o", "y.co"], "an output file cannot be given for more than one URI"),
        (
            vec!["memory://1#offset=0&size=1"],
            "'memory://1#offset=0&size=1': this names memory of a process, which no file holds; only 'file://' URIs can be read",
        ),
        (vec!["file://x.so#offset=0&size=99999999"], "'x.so': size in URI (99999999) is larger than source ("),
        (vec!["file://x.so#member=a&offset=0&size=1"], "'x.so': there is no data to inflate at 'a'"),
        (vec!["file://x.so#member=a;b&offset=0&size=1", "file://x.so#member=a_b&offset=0&size=1"], "'x.so': there"),
    ] {
        let (status, out, err) = extract_bundle_entry(dir, &words);
        let begins = err.starts_with(&format!("./llvm-extract-bundle-entry: error: {said}"));
        assert!((status, out.as_str()) == (1, "") && begins, "{words:?}: {err}");
        assert_eq!(taken(dir), [], "{words:?}");
    }
    // Two URIs of one name.
    fs::write(dir.join("x.zip"), zip(&[deflated("a/b", &bundle(b"x")), deflated("a_b", &bundle(b"x"))])).unwrap();
    let words = ["file://x.zip#member=a/b&offset=0&size=1", "file://x.zip#member=a_b&offset=0&size=1"];
    let (status, _, err) = extract_bundle_entry(dir, &words);
    assert!(status == 1 && err.contains("'x.zip-a_b-offset0-size1.co': both 'file://x.zip#member=a/b&"), "{err}");
    let (status, out, err) = extract_bundle_entry(dir, &[]);
    assert!(status == 1 && out.is_empty() && err.starts_with("OVERVIEW: llvm-extract-bundle-entry tool\n"), "{err}");
    for (word, begins) in
        [("-h", "OVERVIEW: llvm-extract-bundle-entry tool\n"), ("-V", "llvm-extract-bundle-entry\nLLVM version 23.")]
    {
        let (status, out, _) = extract_bundle_entry(dir, &[word]);
        assert!(status == 0 && out.starts_with(begins), "{out}");
    }
}

/// LLVM 23's tool copies the same bytes to files of the same names.
#[test]
fn the_third_tool_does_what_that_of_llvm_23_does() {
    // `llvm-extract-bundle-entry` is llvm-objcopy under another name.
    let Some(tools) = llvm23("llvm-extract-bundle-entry of LLVM 23", &["llvm-objcopy"]) else { return };
    let link = memory_directory();
    let llvm = link.path().join("llvm-extract-bundle-entry");
    std::os::unix::fs::symlink(tools.join("llvm-objcopy"), &llvm).unwrap();
    let dir = memory_directory();
    let dir = dir.path();
    two_code_objects(dir);
    fs::create_dir(dir.join("sub")).unwrap();
    fs::copy(dir.join("x.so"), dir.join("sub/y.so")).unwrap();
    for words in [
        vec!["file://x.so#offset=64&size=100"],
        vec!["file://x.so#offset=0&size=0", "file://x.so#offset=1&size=2"],
        vec!["file://x.so#offset=9&size=99999999"],
        vec!["file://x.so#offset=99999999&size=9"],
        vec!["file://none#offset=0&size=1"],
        vec!["file://sub/y.so#offset=1&size=2"],
        vec!["x.so#offset=0&size=1"],
        vec!["memory://1#offset=0&size=1"],
        vec!["file://x.so#offset=0"],
        vec![],
    ] {
        let theirs = Command::new(&llvm).args(&words).current_dir(dir).stdin(Stdio::null()).output().unwrap();
        let (status, out, err) = text(&theirs);
        let expected = ((status, out), [taken(dir), taken(&dir.join("sub"))]);
        let (status, out, said) = extract_bundle_entry(dir, &words);
        assert_eq!(((status, out), [taken(dir), taken(&dir.join("sub"))]), expected, "{words:?}");
        if err.contains("in URI (") {
            assert_eq!(said.split_once("error: ").unwrap().1, err.split_once("error: ").unwrap().1, "{words:?}");
        }
    }
}

/// LLVM 23's tool finds the same fault in a command line, or the same option that ends it.
#[test]
fn the_third_tool_reads_options_as_that_of_llvm_23_does() {
    let Some(tools) = llvm23("options of llvm-extract-bundle-entry of LLVM 23", &["llvm-objcopy"]) else { return };
    let link = memory_directory();
    let llvm = link.path().join("llvm-extract-bundle-entry");
    std::os::unix::fs::symlink(tools.join("llvm-objcopy"), &llvm).unwrap();
    let dir = memory_directory();
    // What a line leads to: an error of the options, help, the version, or work, which fails without the file.
    let outcome = |status: i32, out: &str, err: &str| {
        let error = err.split_once("error: ").map_or("", |(_, error)| error);
        let error = if error.starts_with("unknown argument") { error } else { "" };
        (status, out.split([' ', ':', '\n']).next().unwrap().to_owned(), error.to_owned())
    };
    let parts = ["-", "--", "h", "V", "x", "=", "help", "version", "err", "y=1", "é", "0"];
    let mut random = Random::new(11);
    let mut kinds = HashSet::new();
    for _ in 0..300 {
        let mut words: Vec<String> = Vec::new();
        for _ in 0..=random.below(3) {
            let mut word = ["-", "--", "--"][random.below(3)].to_owned();
            for _ in 0..=random.below(3) {
                word += parts[random.below(parts.len())];
            }
            words.push(word);
        }
        words.insert(random.below(words.len() + 1), "file://none#offset=0&size=1".to_owned());
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let theirs = Command::new(&llvm).args(&words).current_dir(dir.path()).stdin(Stdio::null()).output().unwrap();
        let lossy = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
        let theirs = outcome(theirs.status.code().unwrap(), &lossy(&theirs.stdout), &lossy(&theirs.stderr));
        let ours = Command::new(PROGRAM)
            .arg("extract-bundle-entry")
            .args(&words)
            .current_dir(dir.path())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let ours = outcome(ours.status.code().unwrap(), &lossy(&ours.stdout), &lossy(&ours.stderr));
        assert_eq!(ours, theirs, "{words:?}");
        kinds.insert((theirs.1, theirs.2.is_empty()));
    }
    assert_eq!(kinds.len(), 3, "{kinds:?}");
}

/// Compilers write sections of one name for one variable each; some hold no code, and some none that is compressed.
#[test]
fn sections_of_one_name_have_the_same_addresses_in_every_search() {
    let dir = memory_directory();
    let dir = dir.path();
    let codes = [7, 8, 9].map(|fill| Code::cubin(90, fill).with_flags(fatbins::ZSTD));
    let [a, b, c] = [0, 1, 2].map(|index| fatbins::fatbin(&[fatbins::entry(&codes[index])]));
    let plain = fatbins::fatbin(&[fatbins::entry(&Code::cubin(80, 5))]);
    let sections = [&b"text"[..], &a, b"more", &plain, &b, b"end", &c];
    let elf = |kind: Elf| kind.write(&sections.map(|content| Section::new(".rodata", content)));
    let object = coff(&sections.map(|content| (".rdata", content)));
    for data in [elf(Elf::OBJECT), elf(Elf::LIBRARY), object.clone(), archive(&[("m.o", &object)])] {
        fs::write(dir.join("in"), data).unwrap();
        let uris = inspected(dir, "in");
        assert_eq!(uris, inspected_by(dir, &["--deep", "in"]));
        assert_eq!(uris.len(), 4, "{uris:?}");
        for (uri, code) in [&uris[0], &uris[2], &uris[3]].into_iter().zip(&codes) {
            let output = tool_in(dir, &["extract", "-o", "-", uri]);
            assert!(output.stdout == code.content, "{uri}: {}", text(&output).2);
        }
    }
}

#[test]
fn our_subcommands_take_a_uri_for_a_file() {
    let dir = memory_directory();
    let dir = dir.path();
    let sound = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/kernels/llvm22-gfx90a.elf")).unwrap();
    let of = |code: &[u8]| formats::binary(&[(GFX90A, code)], 4096);
    let inner = of(&sound);
    let wheel = zip(&[deflated("a/x.so", &library(&formats::compressed(3, 1, &of(&inner))))]);
    fs::write(dir.join("x.whl"), wheel).unwrap();
    let outer = inspected(dir, "x.whl").remove(0);
    assert!(outer.contains("#member=a/x.so&offset=") && outer.contains("&inflated-offset="), "{outer}");
    let within = inspected(dir, &outer);
    let (_, listed, _) = text(&tool_in(dir, &["kernels", &outer]));
    assert!(listed.contains("fill(float*, int)"), "{listed}");
    // Offsets in it are added up to those in the file.
    let (status, _, said) = text(&tool_in(dir, &["extract-bundle-entry", "-o", "code", &within[0]]));
    assert_eq!((status, said.as_str()), (0, ""));
    assert!(fs::read(dir.join("code")).unwrap() == sound);
    for args in [&["verify", &outer][..], &["verify", &within[0]], &["extract", "-o", "-", &outer]] {
        let output = tool_in(dir, args);
        assert_eq!(text(&output).0, 0, "{args:?}: {}", text(&output).2);
        assert!(args[0] == "verify" || output.stdout == sound, "{args:?}");
    }
    let (status, out, _) = text(&tool_in(dir, &["inspect", &outer]));
    assert!(status == 0 && out.contains(&outer), "{out}");
    for (uri, error) in [
        ("file:///none#offset=0&size=1", "'/none': No such file or directory"),
        ("file://x.whl#offset=1", "'file://x.whl#offset=1': the field 'size' is missing"),
        ("file://x.whl#member=b", "'x.whl': there is no data to inflate at 'b'"),
        (
            "memory://12#offset=0&size=1",
            "'memory://12#offset=0&size=1': this names memory of a process, which no file holds",
        ),
    ] {
        for subcommand in ["inspect", "verify", "kernels"] {
            let (status, _, said) = text(&tool_in(dir, &[subcommand, uri]));
            assert!(status == 1 && said.contains(error), "{subcommand}: {said}");
        }
        let (status, _, said) = text(&tool_in(dir, &["extract", "-o", "out", uri]));
        assert!(status == 1 && said.contains(error) && !dir.join("out").exists(), "{said}");
    }
    // A file of that name is a file.
    fs::create_dir(dir.join("file:")).unwrap();
    fs::write(dir.join("file:/x.hipfb"), &inner).unwrap();
    let named = inspected(dir, "file://x.hipfb");
    assert!(named[0].contains("/file%3A") && named[0].contains("/x.hipfb#offset=4096&"), "{named:?}");
    assert_eq!(text(&tool_in(dir, &["inspect", &named[0]])).0, 0);
}

/// The URIs of all code objects of a file, hosts too, and their bytes.
fn code_objects(file: &Path) -> Vec<(String, Vec<u8>)> {
    let input = Input::read(file).unwrap();
    let mut seen = Vec::new();
    let mut visit = |finding: Finding<'_>| {
        if let Finding::Bundle(found) = finding {
            for code_object in found.code_objects() {
                seen.push((code_object.uri()?.unwrap().to_string(), code_object.bytes()?.into_owned()));
            }
        }
        Ok(())
    };
    let mut scan = Scan::default();
    scan.inflate = Inflate::Whole;
    scan.run(&input, &mut visit).unwrap();
    seen
}

/// Replaces the code object `index` of a file, where `verify` finds nothing wrong. Returns the tool's messages.
fn replace(dir: &Path, file: &str, index: usize, new: &[u8]) -> String {
    let path = dir.join(file);
    fs::write(dir.join("new"), new).unwrap();
    let before = code_objects(&path);
    let (status, out, said) = text(&tool_in(dir, &["replace", "--force", &before[index].0, "new"]));
    assert_eq!((status, out.as_str()), (0, ""), "{file} {index}: {said}");
    let expected = before.into_iter().map(|(_, bytes)| bytes).enumerate();
    let expected: Vec<_> = expected.map(|(at, bytes)| if at == index { new.to_vec() } else { bytes }).collect();
    let after: Vec<_> = code_objects(&path).into_iter().map(|(_, bytes)| bytes).collect();
    assert!(after == expected, "{file} {index}: other code objects");
    let (status, out, _) = text(&tool_in(dir, &["verify", file]));
    let is_sound = !out.contains("checksum") && !out.contains("wrappers") && !out.contains("RECORD");
    assert!((0..=1).contains(&status) && is_sound, "{out}");
    said
}

fn four(align: usize) -> Vec<u8> {
    let entries: [(&str, &[u8]); 4] = [
        ("host-x86_64-unknown-linux-gnu-", b""),
        (GFX906, b"one, 12bytes"),
        (GFX90A, b"two"),
        ("hip-amdgcn-amd-amdhsa--gfx942", b"three"),
    ];
    formats::binary(&entries, align)
}

#[test]
fn a_code_object_is_replaced_where_it_lies_and_put_back() {
    let dir = memory_directory();
    let dir = dir.path();
    let other = formats::binary(&[(GFX906, b"of the next bundle")], 4096);
    let padded = |bundle: Vec<u8>| [bundle, vec![0; 100]].concat();
    let files: [(&str, Vec<u8>); 5] = [
        ("alone.hipfb", padded(four(64))),
        ("row.hipfb", [padded(four(64)), other.clone()].concat()),
        ("x.so", library(&[padded(four(64)), other.clone()].concat())),
        ("x.a", archive(&[("x.o", &library(&padded(four(64)))), ("y.o", b"")])),
        ("compressed.hipfb", [padded(four(64)), formats::compressed(3, 1, &other)].concat()),
    ];
    for (name, data) in files {
        fs::write(dir.join(name), &data).unwrap();
        let index = code_objects(&dir.join(name)).iter().position(|(_, bytes)| bytes == b"one, 12bytes").unwrap();
        for (at, new) in
            [(index, &b"1"[..]), (index, &[b'x'; 64]), (index + 1, b"second, longer"), (index, b"same length!")]
        {
            let old = code_objects(&dir.join(name))[at].1.clone();
            let before = fs::read(dir.join(name)).unwrap();
            let said = replace(dir, name, at, new);
            assert!(said.ends_with("in place\n"), "{name}: {said}");
            let changed = fs::read(dir.join(name)).unwrap();
            let different = changed.iter().zip(&before).filter(|(one, other)| one != other).count();
            assert!(changed.len() == before.len() && different <= old.len().max(new.len()) + 8, "{name}");
            replace(dir, name, at, &old);
            assert!(fs::read(dir.join(name)).unwrap() == before, "{name}: {new:?}");
            replace(dir, name, at, new);
            replace(dir, name, at, &old);
        }
        assert!(fs::read(dir.join(name)).unwrap() == data, "{name}");
    }
}

/// Data around code in the data of a program belongs to the program, zeros too.
#[test]
fn code_in_data_of_a_library_is_replaced_where_it_lies() {
    let dir = memory_directory();
    let dir = dir.path();
    let code = Elf::amdgpu(0x3f).write(&[Section::new(".text", b"instructions")]);
    let shorter = Elf::amdgpu(0x3f).write(&[Section::new(".text", b"")]);
    let longer = [&code[..], &[0; 8]].concat();
    let content = [&b"text\0\0\0\0"[..], &code, &[0; 100], &four(64), &[0; 100], b"more"].concat();
    let data = Elf::LIBRARY.write(&[Section::new(".rodata", &content)]);
    fs::write(dir.join("x.so"), &data).unwrap();
    for (index, new) in [(0, &shorter[..]), (2, b"1"), (2, &[b'x'; 64]), (2, b"one, 12bytes"), (4, b"4")] {
        fs::write(dir.join("new"), new).unwrap();
        let before = code_objects(&dir.join("x.so"));
        let (status, _, said) = text(&tool_in(dir, &["replace", "--force", &before[index].0, "new"]));
        assert!(status == 0 && said.ends_with("in place\n"), "{index}: {said}");
        let after = code_objects(&dir.join("x.so"));
        assert!(after[index].1.starts_with(new) && after.len() == before.len(), "{index}");
    }
    let written = fs::read(dir.join("x.so")).unwrap();
    for (index, new) in [(0, &longer[..]), (4, &[b'4'; 10])] {
        fs::write(dir.join("new"), new).unwrap();
        let uri = &code_objects(&dir.join("x.so"))[index].0;
        let (status, _, said) = text(&tool_in(dir, &["replace", "--force", uri, "new"]));
        assert!(status == 1 && fs::read(dir.join("x.so")).unwrap() == written, "{index}: {said}");
    }
}

#[test]
fn a_bundle_is_written_again_where_a_code_object_does_not_fit() {
    let dir = memory_directory();
    let dir = dir.path();
    let packed = |bundle: &[u8]| formats::compressed(3, 1, bundle);
    let long: Vec<u8> = b"repeated ".repeat(2000);
    let roomy = [four(64), vec![0; 1000]].concat();
    let row = [four(64), packed(&four(16)), four(4096), packed(&four(8))].concat();
    let so = library(&[four(64), vec![0; 500], packed(&four(16)), vec![0; 4000], four(64), vec![0; 200]].concat());
    let record = |library: &[u8]| {
        zip(&[
            Zipped::new("x.hipfb", STORED, &row),
            deflated("x.so", library),
            deflated("x.so", library),
            deflated("x-1.dist-info/RECORD", b"x.so,sha256=wrong,1\nx-1.dist-info/RECORD,,\n"),
        ])
    };
    for (name, data) in [
        ("alone.hipfb", roomy.clone()),
        ("row.hipfb", row.clone()),
        ("x.ccob", packed(&four(64))),
        ("x.so", so.clone()),
        ("x.whl", record(&so)),
    ] {
        fs::write(dir.join(name), data).unwrap();
        for index in 0..code_objects(&dir.join(name)).len() {
            replace(dir, name, index, &long);
            replace(dir, name, index, b"short");
        }
    }
    let (status, out, said) = text(&tool_in(dir, &["recompress", "x.whl", "-o", "again.whl"]));
    assert_eq!((status, out.as_str()), (0, ""), "{said}");
}

#[test]
fn replace_refuses_wrong_content_and_keeps_the_file() {
    let dir = memory_directory();
    let dir = dir.path();
    let elf = |name: &str| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/kernels");
        fs::read(folder.join(name)).unwrap()
    };
    let gfx90a = elf("llvm22-gfx90a.elf");
    let empty = formats::binary(&[("host-x86_64-unknown-linux-gnu-", b""), (GFX906, b""), (GFX90A, b"code")], 8);
    let stored = zip(&[Zipped::new("x.hipfb", STORED, &bundle(b"code"))]);
    let marker = format!("code\n# __CLANG_OFFLOAD_BUNDLE____END__ {GFX906}\nmore");
    let old = "x".repeat(marker.len());
    let textual = formats::text("#", &[(GFX906, old.as_bytes()), (GFX90A, b"other")]);
    for (name, data, index, new, reason) in [
        ("empty.hipfb", empty, 1, &b"code"[..], "several code objects have this URI"),
        ("zip.a", archive(&[("x.zip", &stored)]), 1, b"edoc", "checksum would be wrong"),
        ("text.bundle", textual, 0, marker.as_bytes(), "would"),
        (
            "x.deb",
            archive(&[("debian-binary", b"2.0\n"), ("x.hipfb", &bundle(b"code"))]),
            1,
            b"edoc",
            "record checksums",
        ),
        ("x.elf", gfx90a.clone(), 0, b"", "would not be found there again"),
    ] {
        fs::write(dir.join(name), &data).unwrap();
        fs::write(dir.join("new"), new).unwrap();
        let uri = &code_objects(&dir.join(name))[index].0;
        let (status, _, said) = text(&tool_in(dir, &["replace", "--force", uri, "new"]));
        assert!(status == 1 && said.contains(reason), "{name}: {said}");
        assert!(fs::read(dir.join(name)).unwrap() == data, "{name}");
    }
}

#[test]
fn replace_refuses_unreplaceable_code_and_keeps_the_file() {
    let dir = memory_directory();
    let dir = dir.path();
    // Bytes that do not compress.
    let mut state = 1_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    };
    let noise: Vec<u8> = (0..5000).map(|_| next()).collect();
    let elf = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/kernels/llvm22-gfx90a.elf")).unwrap();
    let fixture = |name: &str| fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name)).unwrap();
    let shared = {
        let mut bundle = formats::binary(&[(GFX906, b"code"), (GFX90A, b"code")], 8);
        let start: [u8; 8] = bundle[32..40].try_into().unwrap();
        let second = 32 + 24 + GFX906.len();
        bundle[second..second + 8].copy_from_slice(&start);
        bundle
    };
    let longer = [elf.clone(), vec![1; 8]].concat();
    for (name, data, index, new, reason) in [
        ("x.so", library(&bundle(b"x")), 1, &noise, "needs"),
        (
            "x.a",
            archive(&[("x.o", &library(&bundle(b"x")))]),
            1,
            &noise,
            "the bundle has no room for 5000 bytes where it is, and cannot be written again there",
        ),
        (
            "elf.a",
            archive(&[("x.elf", &elf)]),
            0,
            &longer,
            "no bundle around it: the new code object must have at most",
        ),
        (
            "elf.zip",
            zip(&[deflated("x", &elf)]),
            0,
            &elf,
            "only code objects in bundles and fatbins can be replaced in zip files and in what is compressed",
        ),
        (
            "off.a",
            archive(&[("x.off", &fixture("offload/v2.offload"))]),
            0,
            &noise,
            "bytes and has 2776: it has to stay at its offset, and can grow only in a file of its own",
        ),
        ("x.off", fixture("offload/v3-zstd.offload"), 0, &noise, "compressed offload binaries are not written again"),
        (
            "x.kpack",
            fixture("kpack/zstd.kpack"),
            0,
            &noise,
            "kpack archives are not written; AMD's rocm-kpack makes them",
        ),
        ("plain.kpack", fixture("kpack/plain.kpack"), 0, &noise, "the new code object must have exactly "),
        ("shared.hipfb", shared, 0, &noise, "another code object shares its bytes"),
        (
            "nested.zip",
            zip(&[deflated("y", &zip(&[deflated("x", &bundle(b"x"))]))]),
            1,
            &noise,
            "the bundle is compressed with other data, which is not written again; unpack that",
        ),
    ] {
        fs::write(dir.join(name), &data).unwrap();
        fs::write(dir.join("new"), new).unwrap();
        let uri = &code_objects(&dir.join(name))[index].0;
        let (status, _, said) = text(&tool_in(dir, &["replace", "--force", uri, "new"]));
        assert!(status == 1 && said.contains(name) && said.contains(reason), "{name}: {said}");
        assert!(fs::read(dir.join(name)).unwrap() == data, "{name}");
    }
    let (status, _, said) = text(&tool_in(dir, &["replace", "file://x.so#offset=0&size=1", "new"]));
    assert!(status == 1 && said.contains("no code object has the URI 'file://x.so#offset=0&size=1'"), "{said}");
    // A separate file may become longer; a member may be replaced by one of the same size or smaller.
    fs::write(dir.join("x.elf"), &elf).unwrap();
    assert!(replace(dir, "x.elf", 0, &longer).ends_with("in place\n"));
    replace(dir, "elf.a", 0, &elf);
    fs::write(dir.join("new"), &elf[..elf.len() - 8]).unwrap();
    let uri = &code_objects(&dir.join("elf.a"))[0].0;
    let (status, _, said) = text(&tool_in(dir, &["replace", "--force", uri, "new", "-o", "other.a"]));
    assert_eq!(status, 0, "{said}");
    assert!(fs::read(dir.join("elf.a")).unwrap().len() == fs::read(dir.join("other.a")).unwrap().len());
}

/// Contents of different kinds or for different targets, each with the name of its kind.
fn kinds_of_code() -> Vec<(&'static str, Vec<u8>)> {
    let fixture = |name: &str| fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name)).unwrap();
    let amd = fixture("kernels/llvm22-gfx90a.elf");
    // Bits 0 to 7 of the flags are the processor, bits 8 and 9 the setting of XNACK.
    let with_flags = |at: usize, byte: u8| [&amd[..at], &[byte], &amd[at + 1..]].concat();
    let mut arm = Elf::LIBRARY.write(&[]);
    arm[18] = 183;
    vec![
        ("ELF", amd.clone()),
        ("ELF", with_flags(48, 0x2f)),
        ("ELF", with_flags(49, amd[49] ^ 1)),
        ("ELF", Elf::LIBRARY.write(&[])),
        ("ELF", arm),
        ("cubin", fatbins::cubin(80, 9)),
        ("cubin", fatbins::cubin(90, 9)),
        ("PTX", Code::ptx(80).extracted().to_vec()),
        ("PTX", Code::ptx(90).extracted().to_vec()),
        ("bitcode", fixture("bitcode/llvm22-link.bc")),
        ("SPIR-V", images::spirv(5, 0)),
        ("fatbin", fatbins::fatbin(&[fatbins::entry(&Code::cubin(75, 5))])),
        ("offload binary", fixture("offload/v2.offload")),
        ("compressed bundle", formats::compressed(3, 1, &bundle(b"code"))),
        ("text", b"hello".to_vec()),
        ("empty", Vec::new()),
        ("unknown", vec![7, 0, 7, 0]),
    ]
}

#[test]
fn replace_needs_the_same_kind_of_code_unless_forced() {
    let dir = memory_directory();
    let dir = dir.path();
    let run = |uri: &str, new: &[u8], force: bool| {
        fs::write(dir.join("new"), new).unwrap();
        let mut job = Replace::new(Uri::parse(uri.as_ref()).unwrap(), dir.join("new"));
        (job.output, job.force) = (dir.join("out"), force);
        let done = job.run(&mut |_| {});
        assert_eq!(dir.join("out").exists(), done.is_ok(), "{done:?}");
        let written = done.is_ok().then(|| code_objects(&dir.join("out"))[1].1.clone());
        assert!(written.is_none_or(|written| written == new));
        drop(fs::remove_file(dir.join("out")));
        done.map(drop).map_err(|error| error.to_string())
    };
    let kinds = kinds_of_code();
    for (index, (kind, old)) in kinds.iter().enumerate() {
        let bundle = formats::binary(&[("host-x86_64-unknown-linux-gnu-", b"host"), (GFX906, old)], 4096);
        fs::write(dir.join("x.hipfb"), [bundle, vec![0; 20_000]].concat()).unwrap();
        let uri = code_objects(&dir.join("x.hipfb"))[1].0.clone();
        for (other, (new_kind, new)) in kinds.iter().enumerate() {
            let what = format!("{kind} {index} by {new_kind} {other}");
            match run(&uri, new, false) {
                Ok(()) => assert_eq!(index, other, "{what}"),
                Err(error) => {
                    let reason = match kind == new_kind {
                        true => "the new code object is for ".to_owned(),
                        false => format!("the new code object is of the kind '{new_kind}', the old one '{kind}'"),
                    };
                    let is_it = error.contains(&reason) && error.ends_with("only --force replaces it all the same");
                    assert!(index != other && is_it, "{what}: {error}");
                }
            }
            // The code objects inside of a container would come or go with it.
            let is_container = |kind: &str| ["fatbin", "offload binary", "compressed bundle"].contains(&kind);
            match run(&uri, new, true) {
                Ok(()) => assert!(index == other || !(is_container(kind) || is_container(new_kind)), "{what}"),
                Err(error) => assert!(is_container(kind) || is_container(new_kind), "{what}: {error}"),
            }
        }
        if ["ELF", "cubin", "bitcode", "SPIR-V"].contains(kind) {
            let cut = &old[..old.len() - 8];
            let error = run(&uri, cut, false).unwrap_err();
            assert!(error.contains("the new code object is broken: "), "{kind} {index}: {error}");
            assert_eq!(run(&uri, cut, true), Ok(()), "{kind} {index}");
        }
    }
}

/// The contents for the code objects of [`fatbins::sample`] by index: smaller, larger.
fn other_code(index: usize) -> [Vec<u8>; 2] {
    let cubins = |sm: u8| [fatbins::cubin(sm, 1), fatbins::cubin(sm, 3001)];
    let ptx = |sm| {
        let text = Code::ptx(sm).extracted().to_vec();
        [text[..text.len() - 5].to_vec(), [&text[..], &b"// more\n".repeat(300)].concat()]
    };
    match index {
        0 => ptx(75),
        1 => ptx(90),
        8 => ptx(86),
        9 => ptx(120),
        _ => cubins([80, 100, 120, 75, 86, 89][index - 2]),
    }
}

#[test]
fn code_in_fatbins_is_replaced_by_code_of_any_size() {
    let dir = memory_directory();
    let dir = dir.path();
    let (sample, count) = (fatbins::sample(), 10);
    let so = |room: usize| {
        let content = [sample.clone(), vec![0; room], fatbins::sample(), vec![0; room]].concat();
        Elf::LIBRARY.write(&[Section::new(".nv_fatbin", &content).aligned(8)])
    };
    let wheel = |way| {
        zip(&[
            Zipped::new("x.so", way, &so(9000)),
            Zipped::new("x.fatbin", way, &sample),
            Zipped::new("x-1.dist-info/RECORD", DEFLATED, b"x.so,sha256=wrong,1\nx-1.dist-info/RECORD,,\n"),
        ])
    };
    for (name, data) in [
        ("x.fatbin", sample.clone()),
        ("row.fatbin", [sample.clone(), vec![0; 64], sample.clone()].concat()),
        ("x.so", so(9000)),
        ("x.a", archive(&[("x.o", &so(9000)), ("y.o", b"")])),
        ("x.whl", wheel(DEFLATED)),
        ("stored.whl", wheel(STORED)),
    ] {
        fs::write(dir.join(name), &data).unwrap();
        let old = code_objects(&dir.join(name));
        assert_eq!(old.len() % count, 0, "{name}: {}", old.len());
        for (index, (_, old)) in old.iter().enumerate() {
            for new in other_code(index % count) {
                replace(dir, name, index, &new);
                let (status, listed, said) = text(&tool_in(dir, &["inspect", name]));
                assert_eq!((status, said.as_str()), (0, ""), "{listed}");
            }
            replace(dir, name, index, old);
        }
    }
    // Entries that were not replaced, and those without compression, are the same bytes again.
    fs::write(dir.join("x.fatbin"), &sample).unwrap();
    replace(dir, "x.fatbin", 0, &other_code(0)[1]);
    let versions = |major: u8, minor: u8| [minor, 0, major, 0];
    assert_eq!(fs::read(dir.join("x.fatbin")).unwrap()[40..44], versions(8, 7));
    replace(dir, "x.fatbin", 0, b".version 9.10\n.target sm_75\n");
    assert_eq!(fs::read(dir.join("x.fatbin")).unwrap()[40..44], versions(9, 10));
    // PTX of the same size also needs another header.
    let older = String::from_utf8(Code::ptx(75).extracted().to_vec()).unwrap().replace(".version 8.7", ".version 8.6");
    replace(dir, "x.fatbin", 0, Code::ptx(75).extracted());
    replace(dir, "x.fatbin", 0, older.as_bytes());
    assert_eq!(fs::read(dir.join("x.fatbin")).unwrap()[40..44], versions(8, 6));
    replace(dir, "x.fatbin", 0, Code::ptx(75).extracted());
    let again = fs::read(dir.join("x.fatbin")).unwrap();
    assert!(again.len() == sample.len() && again[44..] == sample[44..]);
    let ptx = |text: &str| text.as_bytes().to_vec();
    let broken = fatbins::cubin(80, 5)[..100].to_vec();
    for (index, new, reason, forced) in [
        (
            2,
            fatbins::cubin(90, 5),
            "is for nvptx64-nvidia-cuda--sm_90, the old one for nvptx64-nvidia-cuda--sm_80",
            None,
        ),
        (0, Code::ptx(90).extracted().to_vec(), "the new code object is for sm_90, the old one for sm_75", None),
        (0, ptx(".version 9.0\n.target sm_75a\n"), "the new code object is for sm_75a, the old one for sm_75", None),
        (0, fatbins::cubin(75, 5), "is of the kind 'cubin', the old one 'PTX'", Some("PTX must not end in zeros")),
        (2, broken, "the new code object is broken: ", Some("a cubin has to be an ELF file without bytes after it")),
        (
            2,
            Code::ptx(80).extracted().to_vec(),
            "is of the kind 'PTX', the old one 'cubin'",
            Some("a cubin has to be an ELF"),
        ),
        (6, Vec::new(), "is of the kind 'empty', the old one 'cubin'", None),
        (
            2,
            [fatbins::cubin(80, 5), vec![0; 30]].concat(),
            "a cubin has to be an ELF file without bytes after it",
            Some("a cubin has to be an ELF file without bytes after it"),
        ),
        (0, ptx(".version 9.0\n.target sm_75\n\0"), "", Some("PTX must not end in zeros")),
    ] {
        fs::write(dir.join("new"), new).unwrap();
        let uri = &code_objects(&dir.join("x.fatbin"))[index].0;
        let (status, _, said) = text(&tool_in(dir, &["replace", uri, "new"]));
        assert!(status == 1 && said.contains(reason), "{said}");
        assert!(fs::read(dir.join("x.fatbin")).unwrap() == again, "{reason}");
        let (status, _, said) = text(&tool_in(dir, &["replace", "--force", uri, "new", "-o", "forced"]));
        assert!(status == i32::from(forced.is_some()) && said.contains(forced.unwrap_or_default()), "{said}");
    }
    let tight = so(0);
    fs::write(dir.join("x.so"), &tight).unwrap();
    fs::write(dir.join("new"), fatbins::cubin(80, 9000)).unwrap();
    let uri = &code_objects(&dir.join("x.so"))[2].0;
    let (status, _, said) = text(&tool_in(dir, &["replace", "--force", uri, "new"]));
    assert!(
        status == 1 && said.contains("the fatbin needs ") && said.contains("it has to stay at its offset"),
        "{said}"
    );
    assert!(fs::read(dir.join("x.so")).unwrap() == tight);
}

#[test]
fn images_of_offload_binaries_are_replaced_as_readers_find_them() {
    let dir = memory_directory();
    let dir = dir.path();
    let fixture =
        |name: &str| fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/offload").join(name)).unwrap();
    let row = [fixture("llvm22-v1.offload"), fixture("v2.offload"), fixture("llvm22-v1.offload")].concat();
    let object = Elf::LIBRARY.write(&[Section::new(".llvm.offloading", &row).aligned(8)]);
    fs::write(dir.join("x.off"), &row).unwrap();
    let long = b"a longer code object ".repeat(1000);
    for index in 0..code_objects(&dir.join("x.off")).len() {
        let old = code_objects(&dir.join("x.off"))[index].1.clone();
        for new in [&long[..], b"", b"short", &old] {
            replace(dir, "x.off", index, new);
            // Readers look for the next one directly after each.
            let found = read_offload(&fs::read(dir.join("x.off")).unwrap());
            let expected: Vec<_> = code_objects(&dir.join("x.off")).into_iter().map(|(_, bytes)| bytes).collect();
            assert!(found == expected, "{index}");
        }
        assert!(fs::read(dir.join("x.off")).unwrap() == row, "{index}");
    }
    for (name, data) in [("x.o", object.clone()), ("x.a", archive(&[("x.o", &object)]))] {
        fs::write(dir.join(name), &data).unwrap();
        for index in 0..code_objects(&dir.join(name)).len() {
            let old = code_objects(&dir.join(name))[index].1.clone();
            replace(dir, name, index, b"shorter");
            let changed = fs::read(dir.join(name)).unwrap();
            let start = memchr::memmem::find(&changed, &row[..8]).unwrap();
            assert_eq!(read_offload(&changed[start..start + row.len()])[index], b"shorter", "{name}, {index}");
            replace(dir, name, index, &old);
            fs::write(dir.join("new"), &long).unwrap();
            let (status, _, said) =
                text(&tool_in(dir, &["replace", "--force", &code_objects(&dir.join(name))[index].0, "new"]));
            assert!(status == 1 && said.contains("the offload binary needs "), "{said}");
        }
        assert!(fs::read(dir.join(name)).unwrap() == data, "{name}");
    }
}

/// The images of offload binaries, as LLVM finds them: each at the end of the one before it.
fn read_offload(data: &[u8]) -> Vec<Vec<u8>> {
    let number = |at: usize| usize::try_from(u64::from_le_bytes(data[at..at + 8].try_into().unwrap())).unwrap();
    let (mut at, mut images) = (0, Vec::new());
    while at < data.len() {
        assert_eq!(data[at..at + 4], [0x10, 0xff, 0x10, 0xad]);
        let count = if data[at + 4] == 1 { 1 } else { number(at + 24) };
        for entry in (0..count).map(|index| at + number(at + 16) + 40 * index) {
            let start = at + number(entry + 24);
            images.push(data[start..start + number(entry + 32)].to_vec());
        }
        at += number(at + 8);
    }
    images
}

#[test]
fn replace_changes_nothing_but_its_output() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let dir = memory_directory();
    let dir = dir.path();
    let file = four(64);
    let holds = |name: &str, code: &[u8]| {
        let found = code_objects(&dir.join(name));
        assert!(found[1].1 == code && found[2].1 == b"two", "{name}");
    };
    let run = |words: &[&str], expected: &str| {
        let uri = "file://x.hipfb#offset=256&size=12";
        let (status, _, said) = text(&tool_in(dir, &[&["replace", "--force", uri], words].concat()));
        assert!(said.contains(expected) && (status == 0) == expected.ends_with("in place\n"), "{said}");
    };
    fs::write(dir.join("x.hipfb"), &file).unwrap();
    assert!(code_objects(&dir.join("x.hipfb"))[1].0.ends_with("#offset=256&size=12"));
    fs::write(dir.join("new"), b"new").unwrap();
    fs::create_dir_all(dir.join("directory/x.hipfb")).unwrap();
    for (words, error) in [
        (["new", "-o", "directory"], "'directory/x.hipfb': Is a directory"),
        (["directory", "-o", "out"], "'directory': Is a directory"),
        (["none", "-o", "out"], "'none': No such file or directory"),
        (["new", "-o", "none/out"], "'none/out': No such file or directory"),
        (["/dev/zero", "-o", "out"], "is a device and may be endless"),
    ] {
        run(&words, error);
        assert!(fs::read(dir.join("x.hipfb")).unwrap() == file && !dir.join("out").exists(), "{words:?}");
    }
    // The file with the new content may be the output.
    run(&["new", "-o", "new"], "in place\n");
    holds("new", b"new");
    fs::write(dir.join("new"), b"new").unwrap();
    assert!(fs::read(dir.join("x.hipfb")).unwrap() == file);
    // A link stays one, and the mode stays.
    fs::rename(dir.join("x.hipfb"), dir.join("y.hipfb")).unwrap();
    fs::set_permissions(dir.join("y.hipfb"), fs::Permissions::from_mode(0o640)).unwrap();
    symlink("y.hipfb", dir.join("x.hipfb")).unwrap();
    run(&["new"], "in place\n");
    holds("y.hipfb", b"new");
    assert!(dir.join("x.hipfb").is_symlink());
    assert_eq!(fs::metadata(dir.join("y.hipfb")).unwrap().permissions().mode() & 0o777, 0o640);
    // The old URI names nothing any more.
    run(&["new"], "no code object has the URI 'file://x.hipfb#offset=256&size=12'");
    // A pipe is read to its end.
    fs::write(dir.join("x.hipfb"), &file).unwrap();
    let mut command = Command::new(PROGRAM);
    command.args(["replace", "--force", "file://x.hipfb#offset=256&size=12", "/dev/stdin"]).current_dir(dir);
    let mut running = command.stdin(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut running.stdin.take().unwrap(), b"from a pipe").unwrap();
    assert!(running.wait().unwrap().success());
    holds("x.hipfb", b"from a pipe");
    // A member of a thin archive is another file.
    fs::write(dir.join("m.o"), library(&bundle(b"code"))).unwrap();
    fs::write(dir.join("thin.a"), thin_archive(&[("m.o", fs::read(dir.join("m.o")).unwrap().len())])).unwrap();
    let (uri, _) = code_objects(&dir.join("thin.a")).remove(1);
    assert!(uri.contains("/m.o#"), "{uri}");
    let wrong = uri.replace("/m.o#", "/thin.a#");
    let (status, _, said) = text(&tool_in(dir, &["replace", "--force", &wrong, "new"]));
    assert!(status == 1 && said.contains("no code object has the URI"), "{said}");
    assert_eq!(text(&tool_in(dir, &["replace", "--force", &uri, "new"])).0, 0);
    assert!(code_objects(&dir.join("thin.a"))[1].1 == b"new");
}

/// Two sections share bytes: the zeros after a bundle may belong to the other one.
#[test]
fn a_bundle_grows_into_no_other_section() {
    let dir = memory_directory();
    let dir = dir.path();
    let data = [bundle(b"code"), vec![0; 300]].concat();
    let mut so = library(&data);
    fs::write(dir.join("x.so"), &so).unwrap();
    replace(dir, "x.so", 1, b"longer code");
    // The table of strings moves into the zeros: a zero is the name of a section without one.
    let table = usize::try_from(u64::from_le_bytes(so[40..48].try_into().unwrap())).unwrap();
    let names = usize::from(u16::from_le_bytes(so[62..64].try_into().unwrap()));
    let start = memchr::memmem::find(&so, &data).unwrap() + data.len() - 200;
    let header = table + 64 * names;
    let [old, len] = [24, 32]
        .map(|at| usize::try_from(u64::from_le_bytes(so[header + at..header + at + 8].try_into().unwrap())).unwrap());
    let strings = so[old..old + len].to_vec();
    so[start..start + len].copy_from_slice(&strings);
    so[header + 24..header + 32].copy_from_slice(&u64::try_from(start).unwrap().to_le_bytes());
    fs::write(dir.join("x.so"), &so).unwrap();
    fs::write(dir.join("new"), vec![b'x'; 105]).unwrap();
    let found = code_objects(&dir.join("x.so"));
    let (status, _, said) = text(&tool_in(dir, &["replace", &found[1].0, "new"]));
    assert!(status == 1 && said.contains("shares bytes") && fs::read(dir.join("x.so")).unwrap() == so, "{said}");
}

//! Trees that are broken in one way each, as builds and packages break them: `verify` has no fault in a sound tree, and
//! one in each of these.

use serde_json::Value;

use super::tree::{LIBRARY, PATH, Tree, archives, code_object, codes, program, program_with};
use crate::lists::places;
use crate::properties::kpacks::{self, Archive, Code, Scheme, file};
use crate::subcommands::{schema, text};

/// Two wrappers.
const WRAPPERS: usize = 2;

/// The archive for gfx906.
const FIRST: &str = ".kpack/test_lib_gfx906.kpack";

/// The texts of the faults that `verify` finds in the whole tree.
fn faults(tree: &Tree) -> Vec<String> {
    let (status, out, said) = text(&tree.run(&["verify", "--json", "-r", "."]));
    let document: Value = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{said}"));
    schema::check("verify", &document);
    let of_files = document["files"].as_array().unwrap().iter().flat_map(|file| file["faults"].as_array().unwrap());
    let faults = of_files.chain(document["faults"].as_array().unwrap());
    let faults: Vec<String> = faults
        .map(|fault| format!("{} [{}]", fault["text"].as_str().unwrap(), fault["rule"].as_str().unwrap()))
        .collect();
    assert_eq!((status, said.as_str()), (i32::from(!faults.is_empty()), ""), "{out}");
    // The text has the same faults.
    let (_, out, _) = text(&tree.run(&["verify", "-r", "."]));
    for fault in &faults {
        assert!(out.contains(fault.as_str()), "{fault}: {out}");
    }
    faults
}

fn first(scheme: Scheme, change: impl Fn(&mut Archive)) -> Vec<u8> {
    let (_, mut archive) = archives(scheme, &codes(WRAPPERS)).swap_remove(0);
    change(&mut archive);
    archive.write()
}

/// A change to the archive for gfx906, or to the whole tree.
type Change = fn(&Tree, Scheme);

/// Changes that a loader or a user would notice, and a part of a fault that names them.
const BROKEN: &[(&str, Change, &str)] = &[
    ("no archive", |tree, _| std::fs::remove_dir_all(tree.path(".kpack")).unwrap(), "no kpack archive"),
    (
        "no code for one of the wrappers",
        |tree, scheme| tree.put(FIRST, &first(scheme, |archive| archive.codes.truncate(1))),
        "#1",
    ),
    (
        "no code for any of them",
        |tree, scheme| tree.put(FIRST, &first(scheme, |archive| archive.codes.clear())),
        "gfx906",
    ),
    (
        "code for a wrapper that there is not",
        |tree, scheme| {
            let more = Code::new(&format!("{LIBRARY}#2"), "gfx906", &code_object("gfx906", 2));
            tree.put(FIRST, &first(scheme, |archive| archive.codes.push(more.clone())));
        },
        "#2",
    ),
    (
        "a target that the archive does not claim",
        |tree, scheme| tree.put(FIRST, &first(scheme, |archive| archive.arches = vec!["gfx942".to_owned()])),
        "does not claim 'gfx906'",
    ),
    (
        "a target that it claims without code for it",
        |tree, scheme| tree.put(FIRST, &first(scheme, |archive| archive.arches.push("gfx908".to_owned()))),
        "gfx908",
    ),
    (
        "a name for another target",
        |tree, _| std::fs::rename(tree.path(FIRST), tree.path(".kpack/test_lib_gfx908.kpack")).unwrap(),
        "gfx908",
    ),
    (
        "code for another target",
        |tree, scheme| {
            let other = code_object("gfx942", 0);
            tree.put(FIRST, &first(scheme, |archive| archive.codes[0].content.clone_from(&other)));
        },
        "[target]",
    ),
    (
        "a code object that is cut",
        |tree, scheme| tree.put(FIRST, &first(scheme, |archive| archive.codes[0].content.truncate(100))),
        "[code-object]",
    ),
    (
        "an archive that is cut",
        |tree, scheme| {
            let data = first(scheme, |_| {});
            tree.put(FIRST, &data[..data.len() - 1]);
        },
        "[readable]",
    ),
    ("an empty archive", |tree, _| tree.put(FIRST, b""), "[readable]"),
    ("a text", |tree, _| tree.put(FIRST, b"version https://git-lfs"), "[readable]"),
    (
        "another version",
        |tree, scheme| {
            let mut data = first(scheme, |_| {});
            data[4] = 2;
            tree.put(FIRST, &data);
        },
        "version 2",
    ),
    (
        "bytes after the table of contents",
        |tree, scheme| tree.put(FIRST, &[&first(scheme, |_| {})[..], b"tail"].concat()),
        "[readable]",
    ),
    (
        "bytes before the table of contents",
        |tree, scheme| {
            let (_, archive) = archives(scheme, &codes(WRAPPERS)).swap_remove(0);
            tree.put(FIRST, &file(&archive.blobs(), &[&[0xc0][..], &archive.toc().encode()].concat()));
        },
        "[readable]",
    ),
    (
        "a binary that is named twice",
        |tree, scheme| {
            let (_, archive) = archives(scheme, &codes(WRAPPERS)).swap_remove(0);
            let toc = archive.toc().encode();
            let at = memchr::memmem::find(&toc, b"libtest.so#1").unwrap() + "libtest.so#".len();
            tree.put(FIRST, &file(&archive.blobs(), &[&toc[..at], b"0", &toc[at + 1..]].concat()));
        },
        "twice",
    ),
    (
        "one ordinal twice",
        |tree, scheme| {
            let (_, archive) = archives(scheme, &codes(WRAPPERS)).swap_remove(0);
            let toc = archive.toc().encode();
            let at = memchr::memmem::rfind(&toc, b"ordinal").unwrap() + "ordinal".len();
            tree.put(FIRST, &file(&archive.blobs(), &[&toc[..at], &[0], &toc[at + 1..]].concat()));
        },
        "[readable]",
    ),
    (
        "an ordinal that there is not",
        |tree, scheme| {
            let (_, archive) = archives(scheme, &codes(WRAPPERS)).swap_remove(0);
            let toc = archive.toc().encode();
            let at = memchr::memmem::rfind(&toc, b"ordinal").unwrap() + "ordinal".len();
            tree.put(FIRST, &file(&archive.blobs(), &[&toc[..at], &[9], &toc[at + 1..]].concat()));
        },
        "ordinal",
    ),
    (
        "an unknown scheme",
        |tree, scheme| {
            let data = first(scheme, |_| {});
            let at = memchr::memmem::find(&data, b"compression_scheme").unwrap() + "compression_scheme".len() + 1;
            let mut data = data;
            data[at] ^= 1;
            tree.put(FIRST, &data);
        },
        "is not known",
    ),
    (
        "no archive for one target, and little in a more specific one",
        |tree, scheme| {
            let key = |index| format!("{LIBRARY}#{index}");
            let of_all = (0..WRAPPERS).map(|index| Code::new(&key(index), "gfx906", &code_object("gfx906", index)));
            let mut archive = Archive::new("test_lib", scheme, of_all.collect());
            tree.put(FIRST, &archive.write());
            archive.codes.truncate(1);
            archive.codes[0].target = "gfx906:xnack-".to_owned();
            archive.arches = vec!["gfx906:xnack-".to_owned()];
            tree.put(".kpack/test_lib_gfx906:xnack-.kpack", &archive.write());
        },
        "before August 2026",
    ),
    (
        "a library without wrappers",
        |tree, _| tree.put(LIBRARY, &program_with(&kpacks::reference(&[PATH], LIBRARY), b"")),
        "no wrappers",
    ),
    (
        "wrappers that point at nothing",
        |tree, _| {
            let wrappers = (0..2).flat_map(|index| kpacks::wrapper(0, index)).collect::<Vec<_>>();
            tree.put(LIBRARY, &program_with(&kpacks::reference(&[PATH], LIBRARY), &wrappers));
        },
        "does not point at the reference",
    ),
    (
        "a library with another name",
        |tree, _| tree.put(LIBRARY, &program(&kpacks::reference(&[PATH], "lib/other.so"), WRAPPERS)),
        "lack the code objects",
    ),
    (
        "a reference that leads elsewhere",
        |tree, _| tree.put(LIBRARY, &program(&kpacks::reference(&["../.kpack/x_@GFXARCH@.kpack"], LIBRARY), WRAPPERS)),
        "no kpack archive",
    ),
    (
        "a reference without a name",
        |tree, _| {
            tree.put(
                LIBRARY,
                &program(&kpacks::Value::map([("kpack_search_paths", kpacks::Value::texts(&[PATH]))]).encode(), 1),
            )
        },
        "kernel_name",
    ),
    (
        "an archive of another library",
        |tree, scheme| {
            let code = Code::new("lib/other.so#0", "gfx906", &code_object("gfx906", 0));
            tree.put("elsewhere/other_lib_gfx906.kpack", &Archive::new("other_lib", scheme, vec![code]).write());
        },
        "none of the libraries refers to",
    ),
];

#[test]
fn verify_finds_what_is_broken_in_a_tree() {
    for scheme in [Scheme::None, Scheme::Zstd] {
        assert_eq!(faults(&Tree::sound(scheme, WRAPPERS)), [""; 0], "{scheme:?}");
        for (what, change, part) in BROKEN {
            let tree = Tree::sound(scheme, WRAPPERS);
            change(&tree, scheme);
            let found = faults(&tree);
            assert!(found.iter().any(|fault| fault.contains(part)), "{scheme:?}, {what}: {found:#?}");
            // A sound code object is extracted, or the failure is reported.
            let (status, out, said) = text(&tree.run(&["extract", "-n", "-t", "gfx942", LIBRARY]));
            assert!((status == 0) != out.is_empty() && (status == 0) == said.is_empty(), "{what}: {out}{said}");
        }
    }
}

/// Frames have no checksum, so that a changed literal is not found. All else is.
#[test]
fn changed_counts_and_lengths_of_frames_are_found() {
    let sound = first(Scheme::Zstd, |_| {});
    let second = 72 + usize::try_from(u32::from_le_bytes(sound[68..72].try_into().unwrap())).unwrap();
    let tree = Tree::sound(Scheme::Zstd, WRAPPERS);
    // The count, and for each frame its length, magic and header.
    for at in (64..72 + 5).chain(second..second + 4 + 5) {
        let mut data = sound.clone();
        data[at] ^= 0x55;
        tree.put(FIRST, &data);
        assert_eq!(tree.run(&["verify", FIRST]).status.code(), Some(1), "byte {at}");
    }
}

/// Every byte of the table of contents: damage never adds a code object, and each lost code object is reported.
#[test]
fn a_changed_byte_of_the_table_of_contents_is_found_or_changes_nothing() {
    for scheme in [Scheme::None, Scheme::Zstd] {
        let sound = first(scheme, |_| {});
        let toc_at = usize::try_from(u64::from_le_bytes(sound[8..16].try_into().unwrap())).unwrap();
        let tree = Tree::sound(scheme, WRAPPERS);
        let whole = tree.extracted(&[FIRST]);
        for at in (0..16).chain(places(sound.len() - toc_at, 4).into_iter().map(|at| toc_at + at)) {
            let mut data = sound.clone();
            data[at] ^= 0x55;
            tree.put(FIRST, &data);
            if !faults(&tree).is_empty() {
                continue;
            }
            assert!(tree.extracted(&[FIRST]) == whole, "{scheme:?}, byte {at}: other code objects, and no fault");
        }
    }
}

#[test]
fn wheels_are_compared_as_if_they_were_installed_together() {
    use crate::properties::make::{DEFLATED, STORED, Zipped, zip};
    for method in [STORED, DEFLATED] {
        let tree = Tree::new();
        let library = program(&kpacks::reference(&[PATH], LIBRARY), WRAPPERS);
        let member = |name: &str, data: &[u8]| Zipped::new(&format!("torch/{name}"), method, data);
        tree.put("torch.whl", &zip(&[member(LIBRARY, &library)]));
        let archives = archives(Scheme::Zstd, &codes(WRAPPERS));
        for (name, archive) in &archives {
            tree.put(&format!("device-{}.whl", archive.arches[0]), &zip(&[member(name, &archive.write())]));
        }
        assert_eq!(faults(&tree), [""; 0], "method {method}");
        // A fault that only the set of files shows is in the last line, also for a single file.
        let alone = tree.run(&["verify", "torch.whl"]);
        let printed = String::from_utf8(alone.stdout).unwrap();
        assert!(alone.status.code() == Some(1) && printed.ends_with(", 1 fault\n"), "{printed}");
        let (_, archive) = &archives[0];
        let lacking = Archive { codes: archive.codes[..1].to_vec(), ..archive.clone() };
        tree.put("device-gfx906.whl", &zip(&[member(FIRST, &lacking.write())]));
        let found = faults(&tree);
        assert!(found.len() == 1 && found[0].contains("#1"), "{found:?}");
    }
}

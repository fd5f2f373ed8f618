//! kpack archives, and libraries whose device code is in them.
//!
//! The inputs are made here, by a writer of the tests' own (`properties/kpacks.rs`), from a few lines of assembly and
//! from Debian's librocrand. If `ROCM_KPACK_TOOLS` is the directory of a checkout of AMD's rocm-kpack, and `python3`
//! has the packages msgpack and zstandard, its tools write and read them too.
mod broken;
mod hostile;
mod linked;
mod oracle;
pub mod tree;

use serde_json::Value;

use crate::properties::kpacks::{self, Archive, Code, Scheme};
use crate::subcommands::{schema, text};
use tree::{LIBRARY, PATH, TARGETS, Tree, archives, codes, expected, program};

/// Targets and sizes.
type Brief = (String, u64);

/// The code objects that `inspect --json` prints for these arguments, in any order.
fn listed(tree: &Tree, args: &[&str]) -> Vec<Brief> {
    let mut found = listed_in_order(tree, args);
    found.sort();
    found
}

fn listed_in_order(tree: &Tree, args: &[&str]) -> Vec<Brief> {
    let out = tree.says(&[&["inspect", "--json"], args].concat());
    let document: Value = serde_json::from_str(&out).unwrap();
    schema::check("inspect", &document);
    brief(&document)
}

fn brief(document: &Value) -> Vec<Brief> {
    let files = document["files"].as_array().unwrap().iter();
    let objects = files.flat_map(|file| file["code_objects"].as_array().unwrap());
    objects.map(|object| (object["target_id"].as_str().unwrap().to_owned(), object["size"].as_u64().unwrap())).collect()
}

fn sizes(codes: &[Code]) -> Vec<Brief> {
    let brief = |code: &Code| (code.target.clone(), u64::try_from(code.content.len()).unwrap());
    let mut sizes: Vec<Brief> = codes.iter().map(brief).collect();
    sizes.sort();
    sizes
}

/// Returns an archive with code objects of several binaries and targets, in the order of its table of contents.
fn mixed(scheme: Scheme) -> Archive {
    let mut codes = codes(3);
    codes.push(Code::new("bin/program#0", "gfx906", &tree::code_object("gfx906", 7)));
    codes.sort_by(|one, other| one.key.cmp(&other.key));
    Archive::new("test_lib", scheme, codes)
}

#[test]
fn the_code_objects_of_an_archive_are_those_that_were_written() {
    for scheme in [Scheme::None, Scheme::Zstd] {
        let whole = mixed(scheme);
        for rotated in 0..8 {
            for has_metadata in [true, false] {
                let archive = Archive { rotated, has_metadata, ..whole.clone() };
                let tree = Tree::new();
                tree.put("in.kpack", &archive.write());
                let what = format!("{scheme:?}, rotated by {rotated}, metadata: {has_metadata}");
                assert_eq!(listed(&tree, &["in.kpack"]), sizes(&archive.codes), "{what}");
                assert!(tree.extracted(&["in.kpack"]) == expected(&archive.codes), "{what}");
                assert!(tree.says(&["verify", "in.kpack"]).contains("nothing wrong"), "{what}");
            }
        }
    }
}

/// The fixtures.
fn fixtures() -> [(&'static str, Vec<u8>); 3] {
    let split = program(&kpacks::reference(&["../.kpack/sample_lib_@GFXARCH@.kpack"], "lib/libone.so"), 2);
    [
        ("kpack/plain.kpack", kpacks::sample(Scheme::None).write()),
        ("kpack/zstd.kpack", kpacks::sample(Scheme::Zstd).write()),
        ("kpack/split.elf", split),
    ]
}

#[test]
fn fixtures_hold_what_is_written() {
    for (name, data) in fixtures() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name);
        if std::env::var_os("BLESS").is_some() {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, &data).unwrap();
        }
        // Another release of zstd may compress otherwise.
        let tree = Tree::new();
        tree.put("fixture", &std::fs::read(path).unwrap());
        tree.put("written", &data);
        assert_eq!(listed_in_order(&tree, &["fixture"]), listed_in_order(&tree, &["written"]), "{name}: BLESS=1");
    }
}

#[test]
fn a_library_of_several_sources_has_one_row_in_the_matrix() {
    let tree = Tree::sound(Scheme::None, 2);
    let out = tree.says(&["inspect", "--matrix", LIBRARY]);
    let name = LIBRARY.rsplit('/').next().unwrap();
    assert_eq!(out.lines().filter(|line| line.contains(name)).count(), 1, "{out}");
    assert!(out.contains("all") && !out.contains('#'), "{out}");
    // The row is the same, whether the archives are among the files or not; archives have no row.
    let row = |out: &str| out.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
    let whole = tree.says(&["inspect", "--matrix", "-r", "."]);
    assert_eq!(row(&whole), row(&out), "{whole}");
    assert!(whole.contains("\nnot in the table: ") && whole.contains("code without a bundle"), "{whole}");
    assert!(!whole.contains(".kpack"), "{whole}");
    let apart = tree.says(&["inspect", "--matrix", "--no-follow", LIBRARY]);
    assert!(apart.contains("not in the table: 1 place (code in kpack archives that were not searched)"), "{apart}");
}

#[test]
fn code_objects_are_listed_in_the_order_of_the_archive() {
    for scheme in [Scheme::None, Scheme::Zstd] {
        let archive = mixed(scheme);
        let tree = Tree::new();
        tree.put("in.kpack", &archive.write());
        let expected: Vec<Brief> = archive.codes.iter().flat_map(|code| sizes(std::slice::from_ref(code))).collect();
        assert_eq!(listed_in_order(&tree, &["in.kpack"]), expected, "{scheme:?}");
    }
}

#[test]
fn archives_without_sizes_are_read_as_far_as_the_sizes_are_known() {
    // Frames record the size too; AMD's loader refuses such archives, its Python tools read them.
    for scheme in [Scheme::None, Scheme::Zstd] {
        let archive = Archive { has_sizes: false, ..mixed(scheme) };
        let tree = Tree::new();
        tree.put("in.kpack", &archive.write());
        let (status, out, said) = text(&tree.run(&["inspect", "--json", "in.kpack"]));
        let document: Value = serde_json::from_str(&out).unwrap();
        let is_listed = {
            let mut found = brief(&document);
            found.sort();
            found == sizes(&archive.codes)
        };
        assert!(is_listed || (status, said.contains("original_size")) == (1, true), "{scheme:?}: {out}{said}");
        assert!(scheme == Scheme::Zstd || is_listed, "the sizes of plain code objects are known: {out}{said}");
    }
}

#[test]
fn a_library_leads_to_the_archives_beside_it() {
    for scheme in [Scheme::None, Scheme::Zstd] {
        for wrappers in [1, 3, 40] {
            let tree = Tree::sound(scheme, wrappers);
            let codes = codes(wrappers);
            let what = format!("{scheme:?}, {wrappers} wrappers");
            assert_eq!(listed(&tree, &[LIBRARY]), sizes(&codes), "{what}");
            assert!(tree.extracted(&[LIBRARY]) == expected(&codes), "{what}");
            let some: Vec<Code> = codes.iter().filter(|code| code.target == "gfx906").cloned().collect();
            assert!(tree.extracted(&[LIBRARY, "-t", "gfx906"]) == expected(&some), "{what}");
            assert!(
                tree.says(&["verify", "--allow-none", LIBRARY]).contains("device code in kpack archives"),
                "{what}"
            );
            assert!(tree.says(&["verify", "-r", "."]).contains("nothing wrong"), "{what}");
            // Text and JSON name the same targets.
            for args in [&["inspect"][..], &["inspect", "--each"], &["inspect", "--summary"]] {
                let out = tree.says(&[args, &[LIBRARY]].concat());
                assert!(TARGETS.iter().all(|(target, _)| out.contains(target)), "{what}: {out}");
            }
        }
    }
}

#[test]
fn without_following_no_other_file_is_read() {
    let tree = Tree::sound(Scheme::Zstd, 2);
    for args in [&["inspect", "--json", "--no-follow", LIBRARY][..], &["inspect", "--no-follow", LIBRARY]] {
        let (status, out, _) = text(&tree.run(args));
        assert_eq!(status, 0, "{out}");
        assert!(out.contains("kpack") && !out.contains("gfx90a"), "{out}");
    }
    let (status, out, _) = text(&tree.run(&["extract", "--no-follow", "-n", LIBRARY]));
    assert_eq!((status, out.as_str()), (1, ""));
}

/// A library does not use the archives of other libraries or groups, or archives without a reference.
#[test]
fn archives_of_other_libraries_in_the_same_directory_are_ignored() {
    let tree = Tree::sound(Scheme::None, 1);
    let other = |key: &str| Archive::new("test_lib", Scheme::None, vec![Code::new(key, "gfx906", b"another one")]);
    tree.put(".kpack/other_lib_gfx906.kpack", &other("lib/libtest.so#0").write());
    tree.put(".kpack/test_lib_gfx906.kpack.old", &other("lib/libtest.so#0").write());
    tree.put(".kpack/xtest_lib_gfx906.kpack", &other("lib/libtest.so#0").write());
    tree.put(".kpack/test_lib_gfx906.KPACK", &other("lib/libtest.so#0").write());
    let [mut first, ..] = <[_; 3]>::try_from(archives(Scheme::None, &codes(1))).unwrap();
    first.1.codes.push(Code::new("lib/libother.so#0", "gfx906", b"of another library"));
    tree.put(&first.0, &first.1.write());
    assert!(tree.extracted(&[LIBRARY]) == expected(&codes(1)));
    assert_eq!(listed(&tree, &[LIBRARY]), sizes(&codes(1)));
}

#[test]
fn paths_without_a_placeholder_and_several_paths_are_followed() {
    let tree = Tree::new();
    let codes = codes(2);
    let [first, second, third] = <[_; 3]>::try_from(archives(Scheme::Zstd, &codes)).unwrap();
    let absolute = tree.path("elsewhere/third.kpack");
    let paths = ["./first.kpack", "../two/./second.kpack", absolute.to_str().unwrap(), "missing.kpack"];
    tree.put(LIBRARY, &program(&kpacks::reference(&paths, LIBRARY), 2));
    for (name, (_, archive)) in
        [("lib/first.kpack", first), ("two/second.kpack", second), ("elsewhere/third.kpack", third)]
    {
        tree.put(name, &archive.write());
    }
    assert!(tree.extracted(&[LIBRARY]) == expected(&codes));
    // An archive of all targets.
    tree.put("lib/all.kpack", &Archive::new("g", Scheme::Zstd, codes.clone()).write());
    tree.put(LIBRARY, &program(&kpacks::reference(&["all.kpack"], LIBRARY), 2));
    assert!(tree.extracted(&[LIBRARY]) == expected(&codes));
}

/// Of two archives with the same code object, the loader takes the first.
#[test]
fn a_code_object_is_that_of_the_first_archive() {
    let tree = Tree::sound(Scheme::Zstd, 1);
    tree.put(LIBRARY, &program(&kpacks::reference(&["first.kpack", PATH], LIBRARY), 1));
    let other = Code::new(&format!("{LIBRARY}#0"), "gfx906", &tree::code_object("gfx906", 9));
    tree.put("lib/first.kpack", &Archive::new("g", Scheme::None, vec![other.clone()]).write());
    let mut codes = codes(1);
    codes[0] = other;
    assert!(tree.extracted(&[LIBRARY]) == expected(&codes));
    assert_eq!(listed(&tree, &[LIBRARY]), sizes(&codes));
}

#[test]
fn variables_of_the_loader_apply() {
    let tree = Tree::sound(Scheme::Zstd, 1);
    let code = |target, number| Code::new(&format!("{LIBRARY}#0"), target, &tree::code_object(target, number));
    let (one, two) = (code("gfx906", 5), code("gfx942", 6));
    tree.put("one.kpack", &Archive::new("g", Scheme::None, vec![one.clone()]).write());
    tree.put("two.kpack", &Archive::new("g", Scheme::None, vec![two.clone()]).write());
    let run = |name: &str, value: &str| {
        let mut command = std::process::Command::new(crate::subcommands::PROGRAM);
        command.args(["inspect", "--json", LIBRARY]).current_dir(tree.root()).env(name, value);
        let document: Value = serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
        let mut found = brief(&document);
        found.sort();
        found
    };
    let whole = codes(1);
    assert_eq!(run("ROCM_KPACK_PATH", "one.kpack::two.kpack:missing.kpack"), sizes(&[one.clone(), two]));
    assert_eq!(run("ROCM_KPACK_PATH", ""), sizes(&whole));
    // The variable holds paths of archives, and nothing in them is replaced.
    assert_eq!(run("ROCM_KPACK_PATH", ".kpack/test_lib_@GFXARCH@.kpack"), []);
    assert_eq!(run("ROCM_KPACK_PATH_PREFIX", "one.kpack"), sizes(&[&[one], &whole[1..]].concat()));
    for (value, is_disabled) in [("", false), ("0", false), ("1", true), ("yes", true)] {
        assert_eq!(run("ROCM_KPACK_DISABLE", value), if is_disabled { vec![] } else { sizes(&whole) }, "{value:?}");
    }
}

/// The dynamic loader opens the file that a link leads to, and a runtime looks in that file's directory.
#[test]
fn archives_are_beside_the_file_that_a_link_leads_to() {
    let tree = Tree::sound(Scheme::Zstd, 1);
    std::fs::create_dir(tree.path("other")).unwrap();
    std::os::unix::fs::symlink("../lib/libtest.so", tree.path("other/libtest.so.1")).unwrap();
    assert!(tree.extracted(&["other/libtest.so.1"]) == expected(&codes(1)));
    // So is the parent of a directory that is a link.
    std::fs::create_dir_all(tree.path("far/away")).unwrap();
    std::fs::rename(tree.path("lib"), tree.path("far/away/lib")).unwrap();
    std::fs::rename(tree.path(".kpack"), tree.path("far/away/.kpack")).unwrap();
    std::os::unix::fs::symlink("far/away/lib", tree.path("lib")).unwrap();
    assert!(tree.extracted(&[LIBRARY]) == expected(&codes(1)));
}

#[test]
fn a_windows_library_leads_to_its_archives() {
    let tree = Tree::new();
    let reference = kpacks::reference(&[PATH], LIBRARY);
    // The part of the old section that is not a whole page stays.
    let rest = [&b"the end of a code object"[..], &[7; 300]].concat();
    let wrapper = kpacks::wrapper(0x2000, 0);
    let library = crate::properties::make::pe(&[(".hipFatB", &wrapper), (".kpackrf", &reference), (".hip_fat", &rest)]);
    tree.put("lib/test.dll", &library);
    for (name, archive) in archives(Scheme::Zstd, &codes(1)) {
        tree.put(&name, &archive.write());
    }
    assert!(tree.extracted(&["lib/test.dll"]) == expected(&codes(1)));
    assert!(tree.says(&["verify", "-r", "."]).contains("nothing wrong"));
}

/// Archives are recognised by content, not by name, also in zip files and `ar` archives.
#[test]
fn archives_in_other_files_are_read() {
    use crate::properties::make::{DEFLATED, STORED, Zipped, archive, zip};
    let (inner, codes) = (mixed(Scheme::Zstd).write(), mixed(Scheme::Zstd).codes);
    let tree = Tree::new();
    for (name, data) in [
        ("stored.whl", zip(&[Zipped::new("torch/.kpack/a.kpack", STORED, &inner)])),
        ("deflated.whl", zip(&[Zipped::new("torch/.kpack/a.kpack", DEFLATED, &inner)])),
        ("lib.a", archive(&[("a.kpack", &inner)])),
    ] {
        tree.put(name, &data);
        assert_eq!(listed(&tree, &[name]), sizes(&codes), "{name}");
        assert!(tree.extracted(&[name]) == expected(&codes), "{name}");
    }
}

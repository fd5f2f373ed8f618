//! AMD's tools read archives that the tests write, and our tool reads archives that AMD's write.
//!
//! `ROCM_KPACK_TOOLS` is the directory of a checkout of rocm-kpack, `ROCM_KPACK_PYTHON` a Python with the packages
//! msgpack and zstandard, if `python3` has not got them.

use std::path::PathBuf;
use std::process::Command;

use super::tree::{LIBRARY, Tree, codes, expected};
use super::{listed, mixed};
use crate::machine::skipped;
use crate::properties::kpacks::{Archive, Code, Scheme};
use crate::subcommands::{librocrand, must};

/// AMD's Python tools.
struct Tools {
    python: String,
    path: PathBuf,
}

impl Tools {
    /// Returns AMD's tools. If the environment does not name them, prints that and returns `None`.
    fn find(test: &str) -> Option<Self> {
        let Some(checkout) = std::env::var_os("ROCM_KPACK_TOOLS") else {
            skipped(&format!("ROCM_KPACK_TOOLS does not name AMD's tools: {test}"), None);
            return None;
        };
        let python = std::env::var("ROCM_KPACK_PYTHON").unwrap_or_else(|_| "python3".to_owned());
        Some(Self { python, path: PathBuf::from(checkout).join("python") })
    }

    /// Runs one of the tools in a directory. Returns its output.
    fn run(&self, tree: &Tree, tool: &str, args: &[&str]) -> String {
        let mut command = Command::new(&self.python);
        command.args(["-m", &format!("rocm_kpack.tools.{tool}")]).args(args);
        let output = must(command.current_dir(tree.root()).env("PYTHONPATH", &self.path));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Keys, targets and sizes in KB, as `kpack_tool list` prints them.
    fn list(&self, tree: &Tree, archive: &str) -> Vec<(String, String, String)> {
        let out = self.run(tree, "kpack_tool", &["list", archive]);
        let lines = out.lines().skip_while(|line| !line.starts_with("-----")).skip(1);
        let mut last = String::new();
        let row = |line: &str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [.., target, size, "KB"] = words[..] else { panic!("{line}") };
            if words.len() == 4 {
                words[0].clone_into(&mut last);
            }
            (last.clone(), target.to_owned(), size.to_owned())
        };
        lines.map(row).collect()
    }

    /// The code object that `kpack_tool extract` writes.
    fn extract(&self, tree: &Tree, archive: &str, key: &str, target: &str) -> Code {
        self.run(tree, "kpack_tool", &["extract", archive, key, target, "-o", "theirs"]);
        Code::new(key, target, &std::fs::read(tree.path("theirs")).unwrap())
    }

    /// Returns all code objects of an archive.
    fn extract_all(&self, tree: &Tree, archive: &str) -> Vec<Code> {
        let rows = self.list(tree, archive);
        let extract = |(key, target, size): &(String, String, String)| {
            let code = self.extract(tree, archive, key, target);
            #[expect(clippy::as_conversions, clippy::cast_precision_loss, reason = "as Python divides")]
            let kilobytes = code.content.len() as f64 / 1024.0;
            assert_eq!(format!("{kilobytes:.1}"), *size, "{key} {target}");
            code
        };
        rows.iter().map(extract).collect()
    }
}

#[test]
fn amds_tools_read_the_archives_of_the_tests() {
    let Some(tools) = Tools::find("AMD's tools on archives of the tests") else { return };
    for scheme in [Scheme::None, Scheme::Zstd] {
        for rotated in [0, 3] {
            let archive = Archive { rotated, ..mixed(scheme) };
            let tree = Tree::new();
            tree.put("in.kpack", &archive.write());
            let theirs = tools.extract_all(&tree, "in.kpack");
            assert!(expected(&theirs) == expected(&archive.codes), "{scheme:?}, rotated by {rotated}");
            assert!(expected(&theirs) == tree.extracted(&["in.kpack"]), "{scheme:?}, rotated by {rotated}");
            let mut sizes = super::sizes(&theirs);
            sizes.sort();
            assert_eq!(listed(&tree, &["in.kpack"]), sizes, "{scheme:?}, rotated by {rotated}");
        }
    }
    let tree = Tree::sound(Scheme::Zstd, 2);
    let archives =
        [".kpack/test_lib_gfx906.kpack", ".kpack/test_lib_gfx90a:xnack-.kpack", ".kpack/test_lib_gfx942.kpack"];
    let theirs: Vec<Code> = archives.iter().flat_map(|archive| tools.extract_all(&tree, archive)).collect();
    assert!(expected(&theirs) == expected(&codes(2)));
    assert!(expected(&theirs) == tree.extracted(&[LIBRARY]));
}

#[test]
fn libraries_split_by_amds_tools_lead_to_all_code_objects() {
    let test = "AMD's tools on librocrand";
    let Some(tools) = Tools::find(test) else { return };
    let Some(library) = librocrand(test) else { return };
    let tree = Tree::new();
    let whole = tree.extracted(&[library.to_str().unwrap()]);
    tree.put("in/stage/lib/librocrand.so.1", &std::fs::read(&library).unwrap());
    tree.put("in/artifact_manifest.txt", b"stage\n");
    let args = ["--artifact-dir", "in", "--output-dir", "split", "--artifact-prefix", "rand_lib"];
    tools.run(&tree, "split_artifacts", &args);
    // An installation has the parts of all artifacts in one tree.
    let overlay = "mkdir tree && for part in split/*/stage; do cp -a \"$part/.\" tree; done";
    must(Command::new("sh").args(["-c", overlay]).current_dir(tree.root()));
    let library = "tree/lib/librocrand.so.1";
    assert!(tree.extracted(&[library]) == whole, "other code objects through the library");
    assert!(tree.extracted(&["tree/.kpack"]) == whole, "other code objects in the archives");
    assert!(tree.says(&["verify", "-r", "tree"]).contains("nothing wrong"));
    let mut theirs = Vec::new();
    for archive in std::fs::read_dir(tree.path("tree/.kpack")).unwrap() {
        theirs.extend(tools.extract_all(&tree, archive.unwrap().path().to_str().unwrap()));
    }
    assert!(expected(&theirs) == whole, "kpack_tool extracts others");
}

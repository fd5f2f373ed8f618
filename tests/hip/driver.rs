//! Checks the statements of `docs/llvm.md` about clang: the tools that it runs, and the directories where it looks for
//! them.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

use object::{Object, ObjectSection};

use super::{COMMON, SOURCE, tools_and_clang};
use crate::machine::{memory_directory, skip, write_program};
use crate::reference::harness::{Tools, llvm23};

/// Sections that hold device code.
const SECTIONS: [&str; 2] = [".hip_fatbin", ".llvm.offloading"];

/// A row of the table in that page.
struct Row {
    arguments: Vec<String>,
    /// The name of each tool, followed by some of its arguments.
    tools: Vec<Vec<String>>,
    sections: BTreeSet<String>,
}

impl Row {
    /// Compares the tools that clang would run with the tools of the row. Returns clang's arguments.
    fn compare(&self, clang: &Path, dir: &Path) -> Vec<&str> {
        let mut args = vec!["-x", "hip", "kernels.hip", "-B", "ours"];
        args.extend(self.arguments.iter().map(String::as_str));
        let commands = commands(clang, dir, &args);
        let names: Vec<&str> = commands.iter().map(|words| file_name(&words[0])).collect();
        let listed: Vec<&str> = self.tools.iter().map(|words| words[0].as_str()).collect();
        assert_eq!(names, listed, "{args:?}");
        for (command, words) in commands.iter().zip(&self.tools) {
            assert!(words[1..].iter().all(|word| command.contains(word)), "{args:?}: {command:?}");
        }
        args
    }
}

fn code_spans(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

fn words(span: &str) -> Vec<String> {
    span.split_whitespace().map(str::to_owned).collect()
}

/// The table whose first line begins so.
fn table(heading: &str) -> Vec<Row> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/llvm.md");
    let page = fs::read_to_string(page).unwrap();
    let rows = page.lines().skip_while(|line| !line.starts_with(heading)).skip(2);
    let rows = rows.take_while(|line| line.starts_with("| "));
    rows.map(|row| {
        let cells: Vec<&str> = row.split('|').collect();
        let [_, arguments, tools, result, _] = cells.as_slice() else { panic!("{row}") };
        Row {
            arguments: code_spans(arguments).flat_map(words).collect(),
            tools: code_spans(tools).map(words).collect(),
            sections: code_spans(result).map(str::to_owned).collect(),
        }
    })
    .collect()
}

/// A directory with a source, and with links to this tool under all its names in `ours`.
fn workshop(tools: &Tools) -> tempfile::TempDir {
    let dir = memory_directory();
    fs::write(dir.path().join("kernels.hip"), SOURCE).unwrap();
    fs::create_dir(dir.path().join("ours")).unwrap();
    for name in ["clang-offload-bundler", "llvm-offload-binary"] {
        symlink(&tools.ours, dir.path().join("ours").join(name)).unwrap();
    }
    dir
}

fn run(clang: &Path, dir: &Path, args: &[&str]) -> Output {
    let run = Command::new(clang).args(args).args(COMMON).current_dir(dir).output().unwrap();
    assert!(run.status.success(), "clang {args:?} failed:\n{}", String::from_utf8_lossy(&run.stderr));
    run
}

/// The commands that clang would run, split into words, except compilers and linkers.
fn commands(clang: &Path, dir: &Path, args: &[&str]) -> Vec<Vec<String>> {
    let said = run(clang, dir, &[args, &["-###"]].concat()).stderr;
    let said = String::from_utf8(said).unwrap();
    let lines = said.lines().filter(|line| line.starts_with(" \""));
    let commands = lines.map(|line| line.split('"').skip(1).step_by(2).map(str::to_owned).collect::<Vec<String>>());
    commands
        .filter(|words| ["offload", "linker-wrapper"].iter().any(|part| file_name(&words[0]).contains(part)))
        .collect()
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap()
}

/// The sections of an object that hold device code.
fn sections(file: &[u8]) -> BTreeSet<String> {
    let Ok(object) = object::File::parse(file) else { return BTreeSet::new() };
    let names = object.sections().filter_map(|section| section.name().ok().map(str::to_owned));
    names.filter(|name| SECTIONS.contains(&name.as_str())).collect()
}

#[test]
fn clang_runs_the_tools_that_the_page_lists() {
    let test = "tools that clang runs";
    let Some((tools, clang)) = tools_and_clang(test) else { return };
    let dir = workshop(&tools);
    let table = table("| arguments | tools that clang runs |");
    assert!(table.len() > 10, "{} rows", table.len());
    for row in table {
        let args = row.compare(&clang, dir.path());
        run(&clang, dir.path(), &args);
        assert_eq!(sections(&fs::read(dir.path().join("out")).unwrap()), row.sections, "{args:?}");
    }
}

/// The build of clang 23 from PyPI makes no code for GPUs, so it only prints its commands.
#[test]
fn clang_23_runs_the_tools_that_the_page_lists() {
    let Some(llvm) = llvm23("tools that clang 23 runs", &["clang"]) else { return };
    let (clang, dir) = (llvm.join("clang"), workshop(&Tools::ours_alone()));
    let table = table("| arguments | tools that clang 23 runs |");
    assert!(table.len() > 10, "{} rows", table.len());
    for row in table {
        row.compare(&clang, dir.path());
    }
    fs::write(dir.path().join("kernels.o"), "").unwrap();
    let link = |driver: &[&str]| {
        commands(&clang, dir.path(), &[&["--hip-link", "-fgpu-rdc", "kernels.o", "-B", "ours"], driver].concat())
    };
    let names = link(&[]).iter().map(|words| file_name(&words[0]).to_owned()).collect::<Vec<_>>();
    assert_eq!(names, ["clang-linker-wrapper"]);
    let old = link(&["--no-offload-new-driver"]);
    let (last, unbundling) = old.split_last().unwrap();
    assert!(old.iter().all(|words| words[0] == "ours/clang-offload-bundler"), "{old:?}");
    assert!(!unbundling.is_empty() && unbundling.iter().flatten().any(|word| word == "-unbundle"), "{old:?}");
    assert!(!last.contains(&"-unbundle".to_owned()), "{last:?}");
}

#[test]
fn clang_links_fat_objects_and_those_of_the_new_driver_as_the_page_says() {
    let test = "tools that clang links with";
    let Some((tools, clang)) = tools_and_clang(test) else { return };
    let dir = workshop(&tools);
    let link = |driver: &str| {
        let compile = ["-x", "hip", "kernels.hip", "-B", "ours", "-c", "-fgpu-rdc", driver];
        run(&clang, dir.path(), &compile);
        fs::rename(dir.path().join("out"), dir.path().join("kernels.o")).unwrap();
        commands(&clang, dir.path(), &["--hip-link", "-fgpu-rdc", "kernels.o", "-B", "ours", driver])
    };
    let commands = link("--no-offload-new-driver");
    let (last, unbundling) = commands.split_last().unwrap();
    assert!(!unbundling.is_empty(), "{commands:?}");
    assert!(unbundling.iter().all(|words| words.iter().any(|word| word == "-unbundle")), "{commands:?}");
    assert!(last.iter().any(|word| word == "-type=o") && !last.iter().any(|word| word == "-unbundle"), "{last:?}");
    assert!(commands.iter().all(|words| words[0] == "ours/clang-offload-bundler"), "{commands:?}");
    let commands = link("--offload-new-driver");
    let names: Vec<&str> = commands.iter().map(|words| file_name(&words[0])).collect();
    assert_eq!(names, ["clang-linker-wrapper"]);
}

#[test]
fn clang_looks_for_the_bundler_in_b_then_beside_itself_then_in_path_without_a_warning() {
    let test = "where clang looks";
    let Some((tools, clang)) = tools_and_clang(test) else { return };
    let dir = workshop(&tools);
    let at = |name: &str| dir.path().join(name);
    for folder in ["empty", "alone"] {
        fs::create_dir(at(folder)).unwrap();
    }
    write_program(&at("alone/clang"), &fs::read(&clang).unwrap());
    let path = std::env::join_paths([at("ours"), "/usr/bin".into(), "/bin".into()]).unwrap();
    let beside = clang.canonicalize().unwrap().with_file_name("clang-offload-bundler");
    let (beside, in_path) = (beside.to_str().unwrap(), at("ours/clang-offload-bundler"));
    for (clang, directory, expected) in [
        (clang.clone(), "ours", "ours/clang-offload-bundler"),
        (clang.clone(), "empty", beside),
        (clang.clone(), "missing", beside),
        (at("alone/clang"), "missing", in_path.to_str().unwrap()),
    ] {
        let mut command = Command::new(&clang);
        command.args(["-x", "hip", "kernels.hip", "-c", "-###", "-B", directory]).args(COMMON);
        let run = command.env("PATH", &path).current_dir(dir.path()).output().unwrap();
        let said = String::from_utf8(run.stderr).unwrap();
        assert!(said.contains(&format!(" \"{expected}\"")), "{clang:?} -B {directory}: {said}");
        assert!(!said.contains("warning"), "{said}");
    }
}

/// Writes a bundler that records its arguments.
fn noting(path: &Path, tool: &Path, note: &Path) {
    let script = format!("#!/bin/sh\necho \"$*\" >> '{}'\nexec '{}' \"$@\"\n", note.display(), tool.display());
    write_program(path, script.as_bytes());
}

#[test]
fn the_new_driver_runs_the_bundler_beside_its_linker_wrapper() {
    let test = "the new driver's bundler";
    let Some((tools, clang)) = tools_and_clang(test) else { return };
    let llvm = clang.canonicalize().unwrap();
    let wrapper = llvm.with_file_name("clang-linker-wrapper");
    if !wrapper.exists() {
        return skip(test, "clang-linker-wrapper is not installed");
    }
    let dir = workshop(&tools);
    let (note, mirror) = (dir.path().join("note"), dir.path().join("mirror"));
    fs::create_dir(&mirror).unwrap();
    for tool in fs::read_dir(llvm.parent().unwrap()).unwrap() {
        let tool = tool.unwrap();
        let kept = !["clang-linker-wrapper", "clang-offload-bundler"].map(Into::into).contains(&tool.file_name());
        if kept {
            symlink(tool.path(), mirror.join(tool.file_name())).unwrap();
        }
    }
    noting(&mirror.join("clang-offload-bundler"), &tools.ours, &note);
    let args = ["-x", "hip", "kernels.hip", "-c", "--offload-new-driver", "-B", "mirror"];
    let compile = || {
        run(&clang, dir.path(), &args);
        fs::read(dir.path().join("out")).unwrap()
    };
    // Called through a link, the wrapper is still in the directory of LLVM's bundler.
    symlink(&wrapper, mirror.join("clang-linker-wrapper")).unwrap();
    let theirs = compile();
    assert!(!note.exists());
    fs::remove_file(mirror.join("clang-linker-wrapper")).unwrap();
    write_program(&mirror.join("clang-linker-wrapper"), &fs::read(&wrapper).unwrap());
    let ours = compile();
    assert!(note.exists());
    assert!(ours == theirs, "the objects differ");
}

#[test]
fn clang_packs_openmp_code_with_the_packager_whose_name_changed_after_llvm_21() {
    let test = "OpenMP's packager";
    let Some((tools, clang)) = tools_and_clang(test) else { return };
    let dir = workshop(&tools);
    fs::write(dir.path().join("loop.c"), "void loop(void) {\n#pragma omp target\n  {}\n}\n").unwrap();
    let args = ["-fopenmp", "-c", "loop.c", "-B", "ours"];
    let packager = |clang: &Path| {
        let commands = commands(clang, dir.path(), &args);
        commands.iter().map(|words| file_name(&words[0]).to_owned()).collect::<Vec<String>>()
    };
    assert_eq!(packager(&clang), ["llvm-offload-binary"]);
    run(&clang, dir.path(), &args);
    assert_eq!(sections(&fs::read(dir.path().join("out")).unwrap()), BTreeSet::from([".llvm.offloading".to_owned()]));
    let older = Path::new("/usr/lib/llvm-19/bin/clang");
    if !older.exists() {
        return skip(test, "clang 19 is not installed");
    }
    assert_eq!(packager(older), ["clang-offload-packager"]);
}

#[test]
fn a_bundle_depends_on_the_name_of_the_output_unless_clang_is_told_otherwise() {
    let test = "clang's hash of its arguments";
    let Some((tools, clang)) = tools_and_clang(test) else { return };
    let dir = workshop(&tools);
    let compile = |output: &str, option: &str| {
        let args = ["-x", "hip", "kernels.hip", "-c", "--offload-device-only", "-B", "ours", option, "-o", output];
        let args = COMMON.iter().filter(|arg| !["-fuse-cuid=none", "-o", "out"].contains(*arg)).chain(&args);
        assert!(Command::new(&clang).args(args).current_dir(dir.path()).status().unwrap().success());
        fs::read(dir.path().join(output)).unwrap()
    };
    assert!(compile("once", "-fuse-cuid=hash") != compile("twice", "-fuse-cuid=hash"));
    for option in ["-fuse-cuid=none", "-cuid=kernels"] {
        assert!(compile("once", option) == compile("twice", option), "{option}");
    }
}

#[test]
fn ccache_knows_of_the_bundler_only_if_it_is_told() {
    let test = "ccache";
    let Some((tools, clang)) = tools_and_clang(test) else { return };
    if !Path::new("/usr/bin/ccache").exists() {
        return skip(test, "ccache is not installed");
    }
    let dir = workshop(&tools);
    let (note, bundler) = (dir.path().join("note"), dir.path().join("ours/clang-offload-bundler"));
    // Whether clang, which then runs the bundler, makes the object rather than ccache.
    let compiles = |version: &str, variables: &[(&str, &Path)]| {
        fs::remove_file(&bundler).unwrap();
        noting(&bundler, &tools.ours, &note);
        fs::write(&bundler, fs::read_to_string(&bundler).unwrap() + "# " + version + "\n").unwrap();
        drop(fs::remove_file(&note));
        let mut command = Command::new("/usr/bin/ccache");
        command.arg(&clang).args(["-x", "hip", "kernels.hip", "-c", "-B", "ours"]).args(COMMON);
        command.envs(variables.iter().copied()).env("CCACHE_DIR", dir.path().join("cache"));
        assert!(command.current_dir(dir.path()).status().unwrap().success());
        fs::read_to_string(&note).is_ok_and(|calls| calls.contains("-type=o"))
    };
    let told: &[(&str, &Path)] = &[("CCACHE_EXTRAFILES", &bundler)];
    assert!(compiles("1", &[]));
    assert!(!compiles("2", &[]));
    assert!(!compiles("2", &[("OFFLOAD_BUNDLER_COMPRESS", Path::new("1"))]));
    assert!(compiles("2", told));
    assert!(!compiles("2", told));
    assert!(compiles("3", told));
}

//! The tool's main use: clang runs it to bundle the code for several GPUs, and to unbundle it.
//!
//! clang 22 looks for `clang-offload-bundler` in the directories of `-B` first. Its output with our tool equals that
//! with LLVM's own tool, and so do the entries of a library that was linked for several GPUs.
mod driver;

use crate::reference::harness;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use crate::machine::{llvm_directory, memory_directory, skip};
use crate::reference::formats::Ccob;
use crate::reference::harness::{Case, Outcome, Report, Tools, replace};

pub const SOURCE: &str = "
struct dim3 { unsigned x, y, z; };
typedef struct ihipStream_t *hipStream_t;
extern \"C\" int hipLaunchKernel(const void *, dim3, dim3, void **, unsigned long, hipStream_t);
__attribute__((global)) void add(int *data, int count) {
  for (int i = 0; i < count; ++i) data[i] += 3;
}
";

/// Functions in another source that the kernels call.
const HELPER: &str = "
__attribute__((device)) int helper(int x) { return x + 1; }
extern \"C\" int host(void) { return 2; }
";

/// The common arguments. They disable the hash of the command line, which would differ because of `-B`.
const COMMON: &[&str] =
    &["--offload-arch=gfx906", "--offload-arch=gfx90a", "-nogpulib", "-nogpuinc", "-fuse-cuid=none", "-o", "out"];

/// The options with which clang bundles.
const BUNDLING: &[&[&str]] = &[
    &["--offload-device-only", "-c"],
    &["--offload-device-only", "-c", "--offload-compress"],
    &["--offload-device-only", "-c", "--offload-compress", "--offload-compression-level=9"],
    &["--offload-device-only", "-E", "--gpu-bundle-output"],
    &["--offload-device-only", "-S", "--gpu-bundle-output"],
    &["--offload-device-only", "-S", "-emit-llvm", "--gpu-bundle-output"],
    &["--offload-device-only", "-c", "-emit-llvm", "--gpu-bundle-output"],
    &["--no-offload-new-driver", "-c"],
    &["--no-offload-new-driver", "-E"],
    &["--no-offload-new-driver", "-S"],
    &["--no-offload-new-driver", "-S", "-emit-llvm"],
    &["--no-offload-new-driver", "-c", "-emit-llvm"],
    &["--no-offload-new-driver", "-M"],
];

fn clang() -> Option<PathBuf> {
    [llvm_directory().join("clang"), PathBuf::from("/usr/bin/clang-22")].into_iter().find(|path| path.exists())
}

/// Both bundlers, and clang. If LLVM 22 is not installed, prints that and returns none.
fn tools_and_clang(test: &str) -> Option<(Tools, PathBuf)> {
    let (tools, clang) = (Tools::find(test)?, clang());
    if clang.is_none() {
        skip(test, "clang 22 is not installed");
    }
    Some((tools, clang?))
}

/// Compiles, and returns the output file and clang's messages.
fn compile(clang: &Path, dir: &Path, bundlers: &str, args: &[&str]) -> (Vec<u8>, String) {
    let output = dir.join("out");
    drop(fs::remove_file(&output));
    let run = Command::new(clang).arg("-v").args(["-B", bundlers]).args(args).args(COMMON).current_dir(dir).output();
    let run = run.unwrap();
    let said = String::from_utf8_lossy(&run.stderr).into_owned();
    assert!(run.status.success(), "clang {args:?} failed:\n{said}");
    (fs::read(output).unwrap(), said)
}

/// A directory with the source, and with one bundler each in `ours` and `theirs`.
fn workshop(tools: &Tools) -> tempfile::TempDir {
    let dir = memory_directory();
    fs::write(dir.path().join("source.hip"), SOURCE).unwrap();
    for (name, tool) in [("ours", &tools.ours), ("theirs", &tools.theirs)] {
        fs::create_dir(dir.path().join(name)).unwrap();
        symlink(tool, dir.path().join(name).join("clang-offload-bundler")).unwrap();
    }
    dir
}

/// Compares clang's output with each of the bundlers; `-v` shows which one it ran.
fn compare(report: &mut Report, clang: &Path, dir: &Path, args: &[&str]) -> Vec<u8> {
    let (theirs, theirs_said) = compile(clang, dir, "theirs", args);
    let (ours, ours_said) = compile(clang, dir, "ours", args);
    let ran = |said: &str, which: &str| said.contains(&format!("\"{which}/clang-offload-bundler\""));
    report.check(ran(&theirs_said, "theirs") && !ran(&theirs_said, "ours"), || format!("{args:?}: {theirs_said}"));
    report.check(ran(&ours_said, "ours") && !ran(&ours_said, "theirs"), || format!("{args:?}: {ours_said}"));
    match (Ccob::read(&theirs), Ccob::read(&ours)) {
        (Some(theirs), Some(found)) => {
            let same = (theirs.method, theirs.hash, &theirs.payload) == (found.method, found.hash, &found.payload);
            let fits = found.version == 2 && found.is_consistent(ours.len());
            report.check(same && fits, || format!("{args:?}: version {} against {}", theirs.version, found.version));
        }
        _ => report.check(theirs == ours, || format!("{args:?}: {} bytes against {}", theirs.len(), ours.len())),
    }
    ours
}

#[test]
fn clang_bundles_and_unbundles_with_it() {
    let test = "clang with our bundler";
    let Some((tools, clang)) = tools_and_clang(test) else { return };
    let dir = workshop(&tools);
    let mut report = Report::new(test);
    for args in BUNDLING {
        compare(&mut report, &clang, dir.path(), &[&["-x", "hip", "source.hip"], *args].concat());
    }
    // The other direction: clang reads a bundle of preprocessed or compiled code.
    let ways: [(&str, &str, &[&str]); 2] =
        [("-E", "hip-cpp-output", &["-c", "-emit-llvm"]), ("-E", "hip-cpp-output", &["-S"])];
    for (first, language, second) in ways {
        let old = ["--no-offload-new-driver"];
        let bundle =
            compare(&mut report, &clang, dir.path(), &[&old, &["-x", "hip", "source.hip", first][..]].concat());
        fs::write(dir.path().join("bundle"), bundle).unwrap();
        compare(&mut report, &clang, dir.path(), &[&old, &["-x", language, "bundle"][..], second].concat());
    }
    report.finish();
}

/// A library of fat objects, compiled with the bundler in `bundlers`.
fn fat_library(clang: &Path, llvm_ar: &Path, dir: &Path, bundlers: &str) -> Vec<u8> {
    let place = dir.join(format!("{bundlers}-library"));
    fs::create_dir(&place).unwrap();
    for (name, source) in [("kernel", SOURCE), ("helper", HELPER)] {
        fs::write(place.join("source.hip"), source).unwrap();
        // llvm-objcopy removes the link from the table of significant addresses; our tool does not.
        let args = ["-x", "hip", "source.hip", "-fgpu-rdc", "--no-offload-new-driver", "-fno-addrsig", "-c"];
        let bundlers = format!("../{bundlers}");
        let (object, said) = compile(clang, &place, &bundlers, &args);
        assert!(said.contains(&format!("\"{bundlers}/clang-offload-bundler\"")), "{said}");
        fs::write(place.join(format!("{name}.o")), object).unwrap();
    }
    let run = Command::new(llvm_ar).args(["rcs", "lib.a", "kernel.o", "helper.o"]).current_dir(&place).status();
    assert!(run.unwrap().success());
    fs::read(place.join("lib.a")).unwrap()
}

/// The members of an archive, each object as a text that does not depend on the offsets of its sections.
fn members(tools: &Tools, archive: &[u8]) -> Vec<(String, String)> {
    let dir = memory_directory();
    let mut found = Vec::new();
    let mut archive = ar::Archive::new(archive);
    while let Some(member) = archive.next_entry() {
        let mut member = member.unwrap();
        let name = String::from_utf8_lossy(member.header().identifier()).into_owned();
        let path = dir.path().join("member");
        std::io::copy(&mut member, &mut fs::File::create(&path).unwrap()).unwrap();
        let yaml = Command::new(tools.theirs.with_file_name("obj2yaml")).arg(&path).output().unwrap();
        assert!(yaml.status.success(), "{name} is no object");
        found.push((name, String::from_utf8_lossy(&yaml.stdout).into_owned()));
    }
    found
}

#[test]
fn a_library_of_relocatable_device_code_comes_apart() {
    let test = "relocatable device code";
    let Some((tools, clang)) = tools_and_clang(test) else { return };
    let dir = workshop(&tools);
    let mut report = Report::new(test);
    let llvm_ar = tools.theirs.with_file_name("llvm-ar");
    let mut results: Vec<(String, Outcome)> = Vec::new();
    for bundlers in ["theirs", "ours"] {
        let library: Arc<[u8]> = fat_library(&clang, &llvm_ar, dir.path(), bundlers).into();
        let hip = "hip-amdgcn-amd-amdhsa--";
        let targets = format!("-targets=host-x86_64-pc-linux-gnu-,{hip}gfx906,{hip}gfx90a");
        let case = Case::new(&["-type=a", "-unbundle", "-input=lib.a", "-output=host.a", "-output=906.a"]);
        let case = case.arg("-output=90a.a").arg(targets).file("lib.a", library);
        results.push((format!("LLVM on the library by {bundlers}"), harness::run(&tools.theirs, &case)));
        results.push((format!("ours on the library by {bundlers}"), harness::run(&tools.ours, &case)));
    }
    let (_, first) = &results[0];
    assert_eq!(first.status, 0, "{}", first.stderr_text());
    let hosts = members(&tools, &first.files["host.a"]);
    assert_eq!(hosts.len(), 2);
    for (what, outcome) in &results {
        report.check(outcome.status == 0, || format!("{what}: {}", outcome.stderr_text()));
        for device in ["906.a", "90a.a"] {
            report.check(outcome.files.get(device) == first.files.get(device), || format!("{what}: {device}"));
        }
        let found = outcome.files.get("host.a").map(|archive| members(&tools, archive));
        report.check(found.as_ref() == Some(&hosts), || format!("{what}: the host's objects"));
    }
    report.finish();
}

/// The `.hip_fatbin` section of a library.
fn section(tools: &Tools, library: &Path) -> Option<Vec<u8>> {
    let beside = tools.theirs.with_file_name("llvm-objcopy");
    let objcopy = if beside.exists() { beside } else { PathBuf::from("objcopy") };
    let dir = memory_directory();
    let section = dir.path().join("section");
    let dump = format!(".hip_fatbin={}", section.display());
    let run = Command::new(objcopy).arg("--dump-section").arg(dump).arg(library).arg(dir.path().join("copy")).output();
    run.ok()?;
    fs::read(section).ok()
}

#[test]
fn the_entries_of_a_library_are_found() {
    let test = "librocrand";
    let Some(tools) = Tools::find(test) else { return };
    let library = fs::read_dir("/usr/lib/x86_64-linux-gnu").ok().and_then(|files| {
        let mut names = files.filter_map(|file| Some(file.ok()?.path()));
        names.find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("librocrand.so.1.")))
    });
    let Some(data) = library.and_then(|library| section(&tools, &library)) else {
        return skip(test, "librocrand1 is not installed");
    };
    let data: Arc<[u8]> = data.into();
    let mut report = Report::new(test);
    let listing = Case::new(&["-type=o", "-list", "-input=in"]).file("in", Arc::clone(&data));
    let (theirs, _) = report.compare(&tools, &listing);
    let listed = String::from_utf8(theirs.stdout).unwrap();
    assert!(listed.lines().count() > 4, "{listed}");
    // LLVM 22 stops at the host's ID, which an older release wrote without environment. If it is replaced with another
    // one of the same length, LLVM finds the rest.
    let patched: Arc<[u8]> = replace(&data, b"host-x86_64-unknown-linux", b"host-i386-unknown-linux--").into();
    for target in listed.lines() {
        let case = Case::new(&["-type=o", "-unbundle", "-input=in", "-output=out"]);
        report.compare(&tools, &case.clone().arg(format!("-targets={target}")).file("in", Arc::clone(&data)));
        let target = target.replace("host-x86_64-unknown-linux", "host-i386-unknown-linux--");
        let case = case.arg(format!("-targets={target}")).file("in", Arc::clone(&patched));
        let (theirs, ours) = report.compare(&tools, &case);
        let found = |outcome: &Outcome| outcome.status == 0 && outcome.files.contains_key("out");
        report.check(found(&theirs) && found(&ours), || format!("{target} is not found by both"));
    }
    report.finish();
}

//! The tool's main use: clang runs it to bundle the code for several GPUs, and to unbundle it.
//!
//! clang 22 looks for `clang-offload-bundler` in the directories of `-B` first. Its output with our tool equals that
//! with LLVM's own tool, and so do the entries of a library that was linked for several GPUs.
mod driver;

use crate::reference::harness;
use std::fs;
use std::io::Read as _;
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
extern \"C\" int hipLaunchKernel(const void *, dim3, dim3, void **, __SIZE_TYPE__, hipStream_t);
__attribute__((global)) void add(int *data, int count) {
  for (int i = 0; i < count; ++i) data[i] += 3;
}
";

/// Functions in another source that the kernels call.
const HELPER: &str = "
__attribute__((device)) int helper(int x) { return x + 1; }
extern \"C\" int host(void) { return 2; }
";

/// Sections of the host, more than the first version of COFF can have (`/bigobj`).
const BIG: &str = "
#ifndef __HIP_DEVICE_COMPILE__
__asm__(\".rept 65300\\n.section .s\\\\+,\\\"dr\\\"\\n.byte 1\\n.endr\\n\");
#endif
";

/// The hosts: arguments for clang, the triple, and whether sources have many sections. Objects for Windows have no
/// time, and nothing in them depends on the order of symbols, which LLVM's tool changes.
const HOSTS: [(&[&str], &str, bool); 3] = [
    (&[], "x86_64-pc-linux-gnu", false),
    (FOR_WINDOWS, "x86_64-pc-windows-msvc", false),
    (FOR_WINDOWS, "x86_64-pc-windows-msvc", true),
];
const FOR_WINDOWS: &[&str] = &["--target=x86_64-pc-windows-msvc", "-mno-incremental-linker-compatible"];

/// The common arguments. They disable the hash of the command line, which would differ because of `-B`.
const COMMON: &[&str] =
    &["--offload-arch=gfx906", "--offload-arch=gfx90a", "-nogpulib", "-nogpuinc", "-fuse-cuid=none", "-o", "out"];

/// The options that clang bundles with.
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

/// Returns both bundlers and clang. If LLVM 22 is not installed, prints that and returns `None`.
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
    for (host, args) in HOSTS[..2].iter().flat_map(|(host, ..)| BUNDLING.iter().map(move |args| (*host, *args))) {
        compare(&mut report, &clang, dir.path(), &[host, &["-x", "hip", "source.hip"], args].concat());
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

/// A library of fat objects for one of [`HOSTS`], compiled with the bundler in `bundlers`.
fn fat_library(clang: &Path, llvm_ar: &Path, dir: &Path, bundlers: &str, host: usize) -> Vec<u8> {
    let (arguments, _, is_big) = HOSTS[host];
    let place = dir.join(format!("{bundlers}-library-{host}"));
    fs::create_dir(&place).unwrap();
    for (name, source) in [("kernel", SOURCE), ("helper", HELPER)] {
        fs::write(place.join("source.hip"), [source, if is_big { BIG } else { "" }].concat()).unwrap();
        // llvm-objcopy removes the link from the table of significant addresses; our tool does not.
        let args = ["-x", "hip", "source.hip", "-fgpu-rdc", "--no-offload-new-driver", "-fno-addrsig", "-c"];
        let bundlers = format!("../{bundlers}");
        let (object, said) = compile(clang, &place, &bundlers, &[arguments, &args].concat());
        assert!(said.contains(&format!("\"{bundlers}/clang-offload-bundler\"")), "{said}");
        fs::write(place.join(format!("{name}.o")), object).unwrap();
    }
    let run = Command::new(llvm_ar).args(["rcs", "lib.a", "kernel.o", "helper.o"]).current_dir(&place).status();
    assert!(run.unwrap().success());
    fs::read(place.join("lib.a")).unwrap()
}

/// An object as a text that does not depend on the offsets of its sections.
fn yaml(tools: &Tools, object: &[u8]) -> String {
    let dir = memory_directory();
    let path = dir.path().join("object");
    fs::write(&path, object).unwrap();
    let yaml = Command::new(tools.theirs.with_file_name("obj2yaml")).arg(&path).output().unwrap();
    assert!(yaml.status.success(), "obj2yaml reads no object");
    String::from_utf8_lossy(&yaml.stdout).into_owned()
}

/// The members of an archive.
fn members(tools: &Tools, archive: &[u8]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut archive = ar::Archive::new(archive);
    while let Some(member) = archive.next_entry() {
        let mut member = member.unwrap();
        let name = String::from_utf8_lossy(member.header().identifier()).into_owned();
        let mut object = Vec::new();
        member.read_to_end(&mut object).unwrap();
        found.push((name, yaml(tools, &object)));
    }
    found
}

/// The hosts' objects are compared by their content, code for GPUs by its bytes.
#[test]
fn a_library_of_relocatable_device_code_comes_apart() {
    let test = "relocatable device code";
    let Some((tools, clang)) = tools_and_clang(test) else { return };
    let dir = workshop(&tools);
    let mut report = Report::new(test);
    let llvm_ar = tools.theirs.with_file_name("llvm-ar");
    let hip = "hip-amdgcn-amd-amdhsa--";
    for (host, (_, triple, is_big)) in HOSTS.into_iter().enumerate() {
        let targets = format!("-targets=host-{triple}-,{hip}gfx906,{hip}gfx90a");
        let unbundle = |kind: &str, input: &str, outputs: [&str; 3]| {
            let outputs = outputs.map(|output| format!("-output={output}"));
            let case = Case::new(&[kind, "-unbundle"]).arg(format!("-input={input}")).arg(targets.as_str());
            outputs.into_iter().fold(case, Case::arg)
        };
        let mut results: Vec<(String, Outcome)> = Vec::new();
        for bundlers in ["theirs", "ours"] {
            let library: Arc<[u8]> = fat_library(&clang, &llvm_ar, dir.path(), bundlers, host).into();
            let object = dir.path().join(format!("{bundlers}-library-{host}/kernel.o"));
            let object: Arc<[u8]> = fs::read(object).unwrap().into();
            assert_eq!(object.starts_with(&[0, 0, 0xff, 0xff]), is_big, "{triple}, bundled by {bundlers}");
            report.compare(&tools, &Case::new(&["-type=o", "-list", "-input=t.o"]).file("t.o", Arc::clone(&object)));
            let apart = unbundle("-type=a", "lib.a", ["host.a", "906.a", "90a.a"]).file("lib.a", library);
            // Our tool may also write the file that it reads, as clang-cl asks for with `-fgpu-rdc`; LLVM's loses the
            // object then.
            for (who, tool, host) in [("LLVM", &tools.theirs, "host.o"), ("ours", &tools.ours, "t.o")] {
                let one = unbundle("-type=o", "t.o", [host, "906.o", "90a.o"]).file("t.o", Arc::clone(&object));
                let [mut apart, mut one] = [&apart, &one].map(|case| harness::run(tool, case));
                report.check(one.status == 0, || format!("{who} on an object: {}", one.stderr_text()));
                let host = one.files.remove(host).unwrap_or_default();
                apart.files.extend(one.files.into_iter().chain([("host.o".to_owned(), host)]));
                results.push((format!("{who} on what {bundlers} made for {triple}"), apart));
            }
        }
        let hosts = |outcome: &Outcome| {
            let [object, library] = ["host.o", "host.a"].map(|name| outcome.files.get(name));
            Some((yaml(&tools, object?), members(&tools, library?)))
        };
        let (_, first) = &results[0];
        assert_eq!(first.status, 0, "{}", first.stderr_text());
        let expected = hosts(first).unwrap();
        assert_eq!(expected.1.len(), 2, "{triple}");
        for (what, outcome) in &results {
            report.check(outcome.status == 0, || format!("{what}: {}", outcome.stderr_text()));
            for device in ["906.a", "90a.a", "906.o", "90a.o"] {
                let same = outcome.files.get(device) == first.files.get(device);
                report.check(same && first.files.contains_key(device), || format!("{what}: {device}"));
            }
            report.check(hosts(outcome).as_ref() == Some(&expected), || format!("{what}: the host's objects"));
        }
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

//! The programs that call the packager or read its output: clang 22 and its linker wrapper.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{NAME, llvm};
use crate::machine::{memory_directory, skip};
use crate::reference::harness::{Report, Tools};
use crate::reference::offload;

const OPENMP: &str = "
int add(int *data) {
#pragma omp target map(tofrom: data[0:1])
  data[0] += 3;
  return data[0];
}
";

const NVIDIA: &[&str] =
    &["-fopenmp-targets=nvptx64-nvidia-cuda", "-Xopenmp-target", "-march=sm_70", "--cuda-feature=+ptx63"];

/// Returns the options that clang packages with, and whether the object can be linked.
fn ways() -> Vec<(Vec<&'static str>, bool)> {
    let hip = ["-x", "hip", "source.hip", "--offload-new-driver", "-fuse-cuid=none", "--offload-arch=gfx906"];
    let openmp = ["-x", "c", "source.c", "-fopenmp"];
    let with = |first: &[&'static str], more: &[&'static str]| [first, more].concat();
    vec![
        (with(&hip, &[]), false),
        (with(&hip, &["--offload-arch=gfx90a"]), false),
        (with(&hip, &["-fgpu-rdc"]), true),
        (with(&hip, &["-fgpu-rdc", "--offload-arch=gfx90a:xnack+"]), true),
        (with(&hip, &["-fgpu-rdc", "-emit-llvm"]), false),
        (with(&openmp, &["--offload-arch=gfx906"]), true),
        (with(&openmp, &["--offload-arch=gfx906,gfx90a", "-g"]), true),
        (with(&openmp, &with(NVIDIA, &["-foffload-lto"])), true),
        (with(&openmp, &["--offload-arch=gfx906", "-foffload-lto"]), true),
    ]
}

/// Compiles with the packager in the directory `packagers`. Returns the output file and the packager that was called.
fn compile(clang: &Path, dir: &Path, packagers: &str, args: &[&str]) -> (Vec<u8>, String) {
    drop(fs::remove_file(dir.join("out.o")));
    let mut command = Command::new(clang);
    command.args(["-v", "-B", packagers]).args(args).args(["-nogpulib", "-nogpuinc", "-c", "-o", "out.o"]);
    let run = command.current_dir(dir).output().unwrap();
    let said = String::from_utf8_lossy(&run.stderr).into_owned();
    assert!(run.status.success(), "clang {args:?} failed:\n{said}");
    let called = said.split('"').find(|word| word.ends_with("offload-binary") || word.ends_with("offload-packager"));
    (fs::read(dir.join("out.o")).unwrap(), called.unwrap_or_default().to_owned())
}

/// The commands of the linker wrapper for an object, without the varying parts of temporary names.
fn plan(tools: &Tools, dir: &Path, object: &[u8]) -> String {
    fs::write(dir.join("object.o"), object).unwrap();
    let mut command = Command::new(llvm(tools).join("clang-linker-wrapper"));
    command.args(["--dry-run", "--host-triple=x86_64-unknown-linux-gnu", "--linker-path=/usr/bin/ld"]);
    let run = command.args(["--", "object.o", "-o", "program"]).current_dir(dir).output().unwrap();
    let said = [run.stdout, run.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    assert!(run.status.success(), "{said}");
    let words = said.split('-').map(|word| match word.get(..6) {
        Some(number) if number.bytes().all(|byte| byte.is_ascii_hexdigit()) => format!("#{}", &word[6..]),
        _ => word.to_owned(),
    });
    words.collect::<Vec<_>>().join("-")
}

pub fn compare(report: &mut Report, tools: &Tools) {
    let clang: PathBuf = llvm(tools).join("clang");
    if !clang.exists() || !llvm(tools).join("clang-linker-wrapper").exists() {
        return skip("clang with our packager", "clang 22 or its linker wrapper is not installed");
    }
    let dir = memory_directory();
    let dir = dir.path();
    fs::write(dir.join("source.hip"), crate::hip::SOURCE).unwrap();
    fs::write(dir.join("source.c"), OPENMP).unwrap();
    for (name, tool) in [("ours", &tools.ours), ("theirs", &tools.theirs)] {
        fs::create_dir(dir.join(name)).unwrap();
        symlink(tool, dir.join(name).join(NAME)).unwrap();
    }
    for (args, links) in ways() {
        let (theirs, called) = compile(&clang, dir, "theirs", &args);
        report.check(called == format!("theirs/{NAME}"), || format!("{args:?} calls {called}"));
        let (ours, called) = compile(&clang, dir, "ours", &args);
        report.check(called == format!("ours/{NAME}"), || format!("{args:?} calls {called}"));
        report.check(theirs == ours, || format!("{args:?}: {} bytes, not {}", ours.len(), theirs.len()));
        if !links {
            continue;
        }
        let planned = plan(tools, dir, &ours);
        let devices = planned.lines().filter(|line| line.contains("--target=")).count();
        let expected = args.iter().map(|arg| arg.matches("gfx").count() + arg.matches("sm_").count()).sum::<usize>();
        report.check(devices == expected, || format!("{args:?}: {devices} devices are linked:\n{planned}"));
        report.check(planned == plan(tools, dir, &theirs), || format!("{args:?}: another plan:\n{planned}"));
        // The images of the object, extracted by both tools.
        let everything = super::packager(&["object.o", "--image=no such key="]).file("object.o", ours);
        report.compare(tools, &everything);
    }
    embedded(report, tools, &clang, dir);
}

/// The wrapper finds images that were packed and embedded manually.
fn embedded(report: &mut Report, tools: &Tools, clang: &Path, dir: &Path) {
    let device = ["-target", "amdgcn-amd-amdhsa", "-mcpu=gfx906", "-emit-llvm", "-nogpulib", "-x", "c", "device.c"];
    fs::write(dir.join("device.c"), "int device(int x) { return x; }").unwrap();
    let done = |command: &mut Command| assert!(command.current_dir(dir).status().unwrap().success());
    done(Command::new(clang).args(device).args(["-c", "-o", "device.bc"]));
    let image = "--image=file=device.bc,triple=amdgcn-amd-amdhsa,arch=gfx906,kind=openmp";
    done(Command::new(dir.join("ours").join(NAME)).args(["-o", "device.off", image]));
    let host = ["-x", "c", "device.c", "-Xclang", "-fembed-offload-object=device.off", "-c", "-o", "host.o"];
    done(Command::new(clang).args(host));
    let planned = plan(tools, dir, &fs::read(dir.join("host.o")).unwrap());
    report.check(planned.contains("-mcpu=gfx906"), || format!("the wrapper finds nothing:\n{planned}"));
    let packed = offload::read(&fs::read(dir.join("device.off")).unwrap()).unwrap();
    report.check(packed.len() == 1 && packed[0].image_kind == 2, || format!("{packed:?}"));
}

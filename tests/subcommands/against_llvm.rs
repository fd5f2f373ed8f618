//! Files built by clang 22 (code objects for every GPU, programs by both HIP drivers, OpenMP) and librocrand. The
//! findings must equal those of LLVM's tools.

use std::collections::BTreeMap;
use std::fs;

use super::*;
use crate::lists::half_of;
use crate::machine::{loud, memory_directory};

/// A few lines of device code, in a program.
pub const HIP: &str = "
struct dim3 { unsigned x, y, z; };
typedef struct ihipStream_t *hipStream_t;
extern \"C\" int hipLaunchKernel(const void *, dim3, dim3, void **, unsigned long, hipStream_t);
__attribute__((global)) void add(int *data, int count) {
  for (int i = 0; i < count; ++i) data[i] += 3;
}
extern \"C\" int puts(const char *);
int numbers[4] = {1, 2, 3, 4};
int main() {
  int sum = 0;
  for (int number : numbers) sum += number;
  return puts(\"hello\") < 0 || sum != 10;
}
";

/// Stubs for the functions of HIP's runtime that the program calls.
pub const RUNTIME: &str = "
void *__hipRegisterFatBinary(void *wrapper) { return wrapper; }
void __hipRegisterFunction() {}
void __hipRegisterVar() {}
void __hipUnregisterFatBinary() {}
int __hipPushCallConfiguration() { return 0; }
int __hipPopCallConfiguration() { return 0; }
int hipLaunchKernel() { return 0; }
";

/// Builds, with one of the drivers, an object (`kernel.o`), a library (`libkernel.so`) and a program (`program`).
pub fn build(test: &str, dir: &Path, driver: &str, more: &[&str]) -> Option<()> {
    let clang = llvm(test, "clang")?;
    llvm(test, "ld.lld")?;
    fs::write(dir.join("source.hip"), HIP).unwrap();
    fs::write(dir.join("runtime.c"), RUNTIME).unwrap();
    let mut hip = vec!["-x", "hip", "source.hip", driver, "-nogpulib", "-nogpuinc", "-fuse-cuid=none", "-fPIC", "-O1"];
    hip.extend(["--offload-arch=gfx906", "--offload-arch=gfx90a:xnack+"]);
    hip.extend(more);
    let run = |args: &[&str]| must(Command::new(&clang).args(args).current_dir(dir));
    run(&[&hip[..], &["-c", "-o", "kernel.o"]].concat());
    run(&["-c", "-fPIC", "runtime.c", "-o", "runtime.o"]);
    run(&["-fuse-ld=lld", "kernel.o", "runtime.o", "-o", "program"]);
    run(&["-fuse-ld=lld", "-shared", "kernel.o", "runtime.o", "-o", "libkernel.so"]);
    Some(())
}

/// The drivers, and additional options.
pub const DRIVERS: [(&str, &[&str]); 4] = [
    ("--no-offload-new-driver", &[]),
    ("--no-offload-new-driver", &["--offload-compress"]),
    ("--offload-new-driver", &[]),
    ("--offload-new-driver", &["--offload-compress"]),
];

/// The code objects that llvm-objdump extracts from a file, in any order. It writes to the directory of the file, so it
/// gets a link in another directory.
pub fn objdump(test: &str, file: &Path) -> Option<Vec<Vec<u8>>> {
    let tool = llvm(test, "llvm-objdump")?;
    let dir = memory_directory();
    let link = dir.path().join("in");
    std::os::unix::fs::symlink(file, &link).unwrap();
    must(Command::new(tool).arg("--offloading").arg(&link).current_dir(dir.path()));
    fs::remove_file(link).unwrap();
    let contents = fs::read_dir(dir.path()).unwrap().map(|entry| fs::read(entry.unwrap().path()).unwrap());
    Some(contents.collect())
}

/// Returns the contents of the code objects that `extract` writes, including hosts.
pub fn extracted(file: &Path, args: &[&str]) -> Vec<Vec<u8>> {
    let dir = memory_directory();
    let args = [&["extract", "-o", "out", file.to_str().unwrap()], args].concat();
    let (status, listed, said) = text(&tool_in(dir.path(), &args));
    assert_eq!((status, said.as_str()), (0, ""), "{args:?}");
    let contents: Vec<Vec<u8>> = listed.lines().map(|name| fs::read(dir.path().join(name)).unwrap()).collect();
    assert_eq!(contents.len(), fs::read_dir(dir.path().join("out")).unwrap().count());
    contents
}

fn sorted(mut contents: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    contents.retain(|content| !content.is_empty());
    contents.sort();
    contents
}

/// The code objects that LLVM's bundler extracts from the `.hip_fatbin` section of a file for each of these targets.
fn unbundled(test: &str, file: &Path, targets: &[&str]) -> Option<Vec<Vec<u8>>> {
    let (objcopy, bundler) = (llvm(test, "llvm-objcopy")?, llvm(test, "clang-offload-bundler")?);
    let dir = memory_directory();
    let mut command = Command::new(objcopy);
    must(command.arg("--dump-section=.hip_fatbin=section").arg(file).arg("copy").current_dir(dir.path()));
    let unbundle = |target: &&str| {
        let args = ["-type=o", "-unbundle", "-input=section", "-output=out", &format!("-targets={target}")];
        must(Command::new(&bundler).args(args).current_dir(dir.path()));
        fs::read(dir.path().join("out")).unwrap()
    };
    Some(targets.iter().map(unbundle).collect())
}

#[test]
fn llvm_takes_out_the_same_code_objects() {
    let test = "LLVM's tools on what clang builds";
    let targets = ["hipv4-amdgcn-amd-amdhsa--gfx906", "hipv4-amdgcn-amd-amdhsa--gfx90a:xnack+"];
    let mut compared = 0;
    for (driver, more) in DRIVERS {
        let dir = memory_directory();
        if build(test, dir.path(), driver, more).is_none() {
            return;
        }
        for name in ["kernel.o", "libkernel.so", "program"] {
            let file = dir.path().join(name);
            let ours = [extracted(&file, &[]), extracted(&file, &["--kind=hip"])];
            assert_eq!(ours[0].len(), 2, "{driver} {more:?} {name}");
            assert_eq!(ours[0], ours[1], "{driver} {more:?} {name}");
            let Some(theirs) = unbundled(test, &file, &targets) else { return };
            assert!(
                sorted(ours[0].clone()) == sorted(theirs),
                "{driver} {more:?} {name}: the bundler takes out others"
            );
            // For compressed bundles, llvm-objdump 22 writes bytes of the compressed stream.
            if more.is_empty() {
                let Some(theirs) = objdump(test, &file) else { return };
                let same = sorted(theirs) == sorted(ours[0].clone());
                assert!(same, "{driver} {name}: llvm-objdump takes out others");
            }
            compared += ours[0].len();
        }
    }
    loud(&format!("{test}: {compared} code objects of {} files", DRIVERS.len() * 3));
}

#[test]
fn llvm_objdump_takes_the_same_out_of_librocrand() {
    let test = "llvm-objdump on librocrand";
    let Some(library) = librocrand(test) else { return };
    let Some(theirs) = objdump(test, &library) else { return };
    let ours = extracted(&library, &[]);
    assert!(ours.len() > 4);
    assert!(sorted(theirs) == sorted(ours), "other code objects");
}

#[test]
fn rdc_objects_and_openmp_are_found() {
    let test = "objects for relocatable device code and OpenMP";
    let Some(clang) = llvm(test, "clang") else { return };
    let dir = memory_directory();
    let at = |name: &str| dir.path().join(name);
    fs::write(at("source.hip"), HIP).unwrap();
    fs::write(
        at("source.c"),
        "int f(int *d) {\n#pragma omp target map(tofrom: d[0:1])\n  d[0] += 3;\n  return d[0]; }\n",
    )
    .unwrap();
    let hip = ["-x", "hip", "source.hip", "-nogpulib", "-nogpuinc", "-fgpu-rdc", "-fuse-cuid=none"];
    let openmp = ["-x", "c", "source.c", "-nogpulib", "-fopenmp"];
    let gfx = ["--offload-arch=gfx906", "--offload-arch=gfx90a"];
    fs::write(at("device.hip"), "__attribute__((device, used)) int f(int x) { return x; }\n").unwrap();
    let device = [&["-x", "hip", "device.hip", "-target", "x86_64-pc-windows-msvc"], &hip[3..]].concat();
    for (name, base, more, section, kinds) in [
        ("rdc old", &hip[..], &["--no-offload-new-driver"][..], None, ["ELF", "bitcode", "bitcode"].as_slice()),
        ("rdc new", &hip, &["--offload-new-driver"], Some(".llvm.offloading"), &["bitcode", "bitcode"]),
        ("openmp", &openmp, &[], Some(".llvm.offloading"), &["bitcode", "bitcode"]),
        ("openmp bitcode", &openmp, &["-emit-llvm"], None, &["bitcode", "bitcode"]),
        ("windows old", &device, &["--no-offload-new-driver"], None, &["COFF", "bitcode", "bitcode"]),
        ("windows new", &device, &["--offload-new-driver"], Some(".llvm.offloading"), &["bitcode", "bitcode"]),
    ] {
        must(Command::new(&clang).args(base).args(gfx).args(more).args(["-c", "-o", "out"]).current_dir(dir.path()));
        let output = tool_in(dir.path(), &["inspect", "--json", "out"]);
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        schema::check("inspect", &document);
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        let objects = document["files"][0]["code_objects"].as_array().unwrap();
        let mut found: Vec<&str> = objects.iter().map(|object| object["image_kind"].as_str().unwrap()).collect();
        found.sort_unstable();
        assert_eq!(found, kinds, "{name}: {document:#}");
        for object in objects {
            assert_eq!(object["section"].as_str(), section, "{name}");
        }
        let devices = extracted(&at("out"), &["--target=gfx906", "--target=gfx90a"]);
        assert_eq!(devices.len(), 2, "{name}");
    }
}

/// Our target ID for the flags that llvm-readobj prints.
fn target_id(flags: &[&str]) -> String {
    let machine = flags.iter().find_map(|flag| flag.strip_prefix("EF_AMDGPU_MACH_")).unwrap();
    let name = machine.split_once('_').unwrap().1.to_ascii_lowercase().replace('_', "-");
    let mut id = name;
    for feature in ["sramecc", "xnack"] {
        let prefix = format!("EF_AMDGPU_FEATURE_{}_", feature.to_ascii_uppercase());
        match flags.iter().find_map(|flag| flag.strip_prefix(&prefix)) {
            Some("ON_V4" | "V3") => id.push_str(&format!(":{feature}+")),
            Some("OFF_V4") => id.push_str(&format!(":{feature}-")),
            _ => {}
        }
    }
    id
}

/// The processors that LLVM supports for an architecture.
fn processors(test: &str, arch: &str) -> Option<Vec<String>> {
    let tool = llvm(test, "llvm-mc")?;
    let shown = Command::new(tool).args([&format!("-triple={arch}"), "-mcpu=help", "/dev/null"]).output().unwrap();
    let shown = [shown.stdout, shown.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    let listed = shown.split("Available CPUs").nth(1).unwrap().split("Available features").next().unwrap().lines();
    let names = listed.filter_map(|line| Some(line.trim().split_once(" - Select the")?.0.trim().to_owned()));
    Some(names.filter(|name| !name.starts_with("generic")).collect())
}

#[test]
fn code_objects_record_what_llvm_readobj_says() {
    let test = "what ELF files for AMD GPUs record";
    let (Some(assembler), Some(readobj)) = (llvm(test, "llvm-mc"), llvm(test, "llvm-readobj")) else { return };
    let Some(names) = processors(test, "amdgcn") else { return };
    let dir = memory_directory();
    assert!(names.len() > 50, "{names:?}");
    let names = half_of(names);
    let settings = ["", "+xnack", "-xnack", "+sramecc", "-sramecc", "+xnack,-sramecc", "-xnack,+sramecc"];
    let mut files: Vec<String> = Vec::new();
    for name in &names {
        for (index, setting) in settings.iter().enumerate() {
            // The assembler omits settings that a processor does not have; three settings are enough for most
            // processors.
            if index > 2
                && !["gfx906", "gfx908", "gfx90a", "gfx942", "gfx950", "gfx9-4-generic"].contains(&name.as_str())
            {
                continue;
            }
            let version = if name.contains("generic") { 6 } else { 4 + index % 2 };
            let file = format!("{name}.{index}.o");
            fs::write(dir.path().join("in.s"), format!(".amdhsa_code_object_version {version}\n")).unwrap();
            let args = ["-triple=amdgcn-amd-amdhsa", &format!("-mcpu={name}"), &format!("-mattr={setting}")];
            let mut command = Command::new(&assembler);
            command.args(args).args(["-filetype=obj", "in.s", "-o", &file]).current_dir(dir.path());
            if command.output().unwrap().status.success() {
                files.push(file);
            }
        }
    }
    fs::remove_file(dir.path().join("in.s")).unwrap();
    let shown = must(Command::new(readobj).arg("-h").args(&files).current_dir(dir.path()));
    let shown = String::from_utf8(shown.stdout).unwrap();
    let mut theirs: BTreeMap<String, String> = BTreeMap::new();
    for block in shown.split("\nFile: ").filter(|block| !block.trim().is_empty()) {
        let file = block.trim_start().trim_start_matches("File: ").lines().next().unwrap();
        let flags: Vec<&str> = block.split("Flags [").nth(1).unwrap().split(']').next().unwrap().lines().collect();
        let flags: Vec<&str> = flags.iter().filter_map(|line| line.trim().split(' ').next()).collect();
        theirs.insert(file.to_owned(), target_id(&flags));
    }
    let output = tool_in(dir.path(), &["inspect", "--json", "."]);
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    schema::check("inspect", &document);
    let mut ours: BTreeMap<String, String> = BTreeMap::new();
    for object in document["files"].as_array().unwrap().iter().flat_map(|file| file["code_objects"].as_array().unwrap())
    {
        let file = object["path"].as_str().unwrap().trim_start_matches("./").to_owned();
        let recorded = object["recorded_target_id"].as_str().unwrap_or_default().to_owned();
        assert_eq!(object["container"], "code object");
        assert_eq!(object["target_id"].as_str().unwrap_or_default(), recorded, "{file}");
        assert_eq!(object["entry_id"].as_str().unwrap(), format!("amdgcn-amd-amdhsa--{recorded}"));
        ours.insert(file, recorded);
    }
    assert_eq!(ours, theirs);
    let distinct: std::collections::BTreeSet<&String> = ours.values().collect();
    assert!(distinct.len() > names.len(), "{}", distinct.len());
    loud(&format!("{test}: {} files, {} target IDs, {} processors", ours.len(), distinct.len(), names.len()));
    let (status, out, _) = text(&tool_in(dir.path(), &["verify", "."]));
    assert_eq!(status, 0, "{out}");
}

//! Tests that `verify` detects incomplete code objects, and accepts complete ones. The code objects are built by clang
//! 14, 19 and 22, lld and LLVM's tools, or are from librocrand.

use std::fs;
use std::sync::OnceLock;

use offload_bundle::job::{Verify, VerifyRule};

use super::*;
use crate::machine::{loud, memory_directory};
use crate::reference::formats;

const SOURCE: &str = "
kernel void add(global int *data, int count) { data[0] += count; }
kernel void times(global int *data, int count) { data[0] *= count; }
constant int numbers[4] = {1, 2, 3, 4};
kernel void pick(global int *data, int count) { data[0] = numbers[count]; }
";

/// Code objects and their descriptions.
type Objects = Vec<(String, Vec<u8>)>;

/// Runs a program of an LLVM release in `dir`. Returns whether it exists and succeeded.
fn run(dir: &Path, llvm: u32, program: &str, args: &[&str]) -> bool {
    let path = Path::new("/usr/lib").join(format!("llvm-{llvm}/bin")).join(program);
    path.exists() && Command::new(path).args(args).current_dir(dir).output().unwrap().status.success()
}

/// The outputs of compilers, linkers and tools for one source; empty if LLVM 22 is not installed.
fn built(test: &str) -> &'static Objects {
    static BUILT: OnceLock<Objects> = OnceLock::new();
    BUILT.get_or_init(|| build(test).unwrap_or_default())
}

fn build(test: &str) -> Option<Objects> {
    llvm(test, "clang")?;
    llvm(test, "ld.lld")?;
    let dir = memory_directory();
    let dir = dir.path();
    fs::write(dir.join("k.cl"), SOURCE).unwrap();
    fs::write(
        dir.join("h.c"),
        "int table[3] = {1, 2, 3}; static int hidden(int n) { return table[n]; } int f(int n) { return hidden(n); }",
    )
    .unwrap();
    let mut names = Vec::new();
    for (version, gpus, targets) in [
        (14, &["gfx906"][..], &["x86_64-linux-gnu"][..]),
        (19, &["gfx90a"], &["x86_64-linux-gnu"]),
        (22, &["gfx803", "gfx90a", "gfx1100"], &["x86_64-linux-gnu", "i386-linux-gnu", "powerpc64-linux-gnu"]),
    ] {
        let mut compile = |name: String, target: &[&str], source: &str, more: &[&str]| {
            let args = [target, more, &["-nogpulib", "-nostdlib", "-c", source, "-o", &name]].concat();
            if run(dir, version, "clang", &args) {
                names.push(name);
            }
        };
        for gpu in gpus {
            let target = ["--target=amdgcn-amd-amdhsa", &format!("-mcpu={gpu}")];
            compile(format!("{version}-{gpu}.o"), &target, "k.cl", &["-O1"]);
            compile(format!("{version}-{gpu}.g.o"), &target, "k.cl", &["-g", "-ffunction-sections"]);
            compile(format!("{version}-{gpu}.bc"), &target, "k.cl", &["-emit-llvm"]);
        }
        for name in targets {
            let target = [&*format!("--target={name}")];
            compile(format!("{version}-{name}.o"), &target, "h.c", &["-fPIC", "-g", "-ffunction-sections"]);
            compile(format!("{version}-{name}.bc"), &target, "h.c", &["-emit-llvm"]);
        }
        compile(format!("{version}-nvptx.bc"), &["--target=nvptx64-nvidia-cuda"], "h.c", &["-emit-llvm"]);
    }
    for name in names.clone().iter().filter(|name| name.ends_with(".o")) {
        for (kind, args) in [("so", &["-shared"][..]), ("r.o", &["-r"]), ("x.so", &["-shared", "--gc-sections", "-s"])]
        {
            let output = format!("{name}.{kind}");
            if run(dir, 22, "ld.lld", &[args, &[name, "-o", &output]].concat()) {
                names.push(output);
            }
        }
    }
    for name in names.clone().iter().filter(|name| name.starts_with("22-") && !name.ends_with(".bc")) {
        for (kind, args) in [
            ("all", &["--strip-all"][..]),
            ("unneeded", &["--strip-unneeded"]),
            ("only-debug", &["--only-keep-debug"]),
            ("sections", &["--strip-sections"]),
            ("zlib", &["--compress-debug-sections=zlib"]),
        ] {
            let output = format!("{name}.{kind}");
            if run(dir, 22, "llvm-objcopy", &[args, &[name, &output]].concat()) {
                names.push(output);
            }
        }
    }
    let objects: Objects = names.into_iter().map(|name| (name.clone(), fs::read(dir.join(name)).unwrap())).collect();
    assert!(objects.len() > 100, "{}", objects.len());
    Some(objects)
}

/// The seven code objects of librocrand.
fn of_librocrand(test: &str) -> Objects {
    let Some(library) = librocrand(test) else { return Vec::new() };
    let dir = memory_directory();
    must(Command::new(PROGRAM).args(["extract", "-o", "out"]).arg(library).current_dir(dir.path()));
    let files = fs::read_dir(dir.path().join("out")).unwrap().map(|entry| entry.unwrap().path());
    files
        .map(|path| (path.display().to_string(), fs::read(path).unwrap()))
        .filter(|(_, data)| !data.is_empty())
        .collect()
}

/// Reports why a code object is incomplete.
struct Bench {
    dir: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        Self { dir: memory_directory() }
    }

    fn fault(&self, data: &[u8]) -> Option<String> {
        let path = self.dir.path().join("in");
        fs::write(&path, formats::binary(&[("hip-amdgcn-amd-amdhsa--", data)], 8)).unwrap();
        let verified = Verify::default().run(&path).unwrap();
        assert_eq!(verified.code_objects, 1);
        verified.faults.into_iter().find(|fault| fault.rule == VerifyRule::CodeObject).map(|fault| fault.text)
    }
}

#[test]
fn code_objects_of_compilers_linkers_and_tools_are_whole() {
    let test = "whole code objects";
    let bench = Bench::new();
    let objects = [built(test).as_slice(), &of_librocrand(test)].concat();
    for (name, data) in &objects {
        assert_eq!(bench.fault(data), None, "{name}");
    }
    loud(&format!("whole code objects: {}", objects.len()));
}

/// Some objects of each kind: relocatable, linked, stripped, without section headers, bitcode.
fn few(test: &str) -> Objects {
    let wanted = [
        "22-gfx90a.o",
        "22-gfx90a.o.so",
        "14-gfx906.o.x.so",
        "22-gfx1100.o.so.sections",
        "22-gfx803.bc",
        "14-x86_64-linux-gnu.bc",
        "22-x86_64-linux-gnu.o",
        "22-powerpc64-linux-gnu.o",
        "22-i386-linux-gnu.o",
    ];
    let objects: Objects = built(test).iter().filter(|(name, _)| wanted.contains(&name.as_str())).cloned().collect();
    assert!(objects.is_empty() || objects.len() > 6, "{}", objects.len());
    objects
}

#[test]
fn a_code_object_that_is_cut_is_not_whole() {
    let bench = Bench::new();
    let mut cuts = 0;
    for (name, data) in few("cut code objects") {
        // All lengths that may leave tables at the end, and a sample of the others.
        let step = data.len() / 200 + 1;
        for len in (4..data.len()).filter(|len| len % step == 0 || *len < 70 || *len + 200 > data.len()) {
            assert!(bench.fault(&data[..len]).is_some(), "{name}: {len} of {} bytes", data.len());
            cuts += 1;
        }
    }
    loud(&format!("cut code objects: {cuts}"));
}

#[test]
fn a_header_of_zeros_is_not_whole() {
    let bench = Bench::new();
    // Offsets and widths of fields that are nonzero in every 64-bit ELF file that has the parts they describe.
    let of_all = [(4, 1), (5, 1), (6, 1), (16, 2), (18, 2), (20, 4), (52, 2), (0, 4), (0, 64)];
    let of_sections = [(40, 8), (58, 2), (60, 2), (62, 2)];
    let of_segments = [(32, 8), (54, 2), (56, 2)];
    for (name, data) in few("zeroed headers").into_iter().filter(|(_, data)| data.starts_with(b"\x7fELF\x02")) {
        let has = |at: usize| data[at..at + 2] != [0, 0];
        let fields =
            [&of_all[..], if has(60) { &of_sections } else { &[] }, if has(56) { &of_segments } else { &[] }].concat();
        for (at, width) in fields {
            // A missing table is not a fault if no other field refers to it.
            if at == 56 && !has(60) {
                continue;
            }
            let mut zeroed = data.clone();
            zeroed[at..at + width].fill(0);
            assert!(bench.fault(&zeroed).is_some(), "{name}: {width} bytes at {at}");
        }
    }
}

/// Returns the places of some bytes.
fn places(data: &[u8], bytes: &[u8]) -> Vec<usize> {
    data.windows(bytes.len()).enumerate().filter(|(_, window)| *window == bytes).map(|(at, _)| at).collect()
}

#[test]
fn kernels_and_their_metadata_agree() {
    let bench = Bench::new();
    let linked = |(name, data): &(String, Vec<u8>)| name == "22-gfx90a.o.so" && data.starts_with(b"\x7fELF");
    for (name, data) in few("kernels").iter().filter(|object| linked(object)) {
        let broken = |data: &[u8], expected: &str| {
            let fault = bench.fault(data).unwrap_or_default();
            assert!(fault.contains(expected), "{name}: {fault}");
        };
        // Entries of global objects of 64 bytes: name, type and binding, visibility, section, value, size.
        let symbols: Vec<usize> = (0..data.len() - 24)
            .filter(|&at| data[at + 4] == 0x11 && data[at + 16..at + 24] == 64_u64.to_le_bytes())
            .collect();
        assert!(symbols.len() >= 3, "{name}: {symbols:?}");
        for at in symbols {
            let mut moved = data.clone();
            moved[at + 10] ^= 0x10;
            broken(&moved, "outside of its section");
            let mut renamed = data.clone();
            renamed[at..at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
            broken(&renamed, "name outside of the string table");
            let mut elsewhere = data.clone();
            elsewhere[at + 6..at + 8].copy_from_slice(&0x7000_u16.to_le_bytes());
            broken(&elsewhere, "in a section that does not exist");
        }
        let mut renamed = data.clone();
        places(data, b"add.kd\0").into_iter().for_each(|at| renamed[at] = b'x');
        broken(&renamed, "whose descriptor 'add.kd' does not exist");
        let mut garbled = data.clone();
        places(data, b"amdhsa.kernels").into_iter().for_each(|at| garbled[at + 14] = 0x9f);
        broken(&garbled, "MessagePack");
    }
}

#[test]
fn spir_v_is_walked_instruction_by_instruction() {
    let bench = Bench::new();
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let module = words(&[0x0723_0203, 0x0001_0500, 0, 9, 0, 2 << 16 | 17, 6, 3 << 16 | 14, 2, 2]);
    let turned: Vec<u8> = module.chunks(4).flat_map(|word| word.iter().rev().copied()).collect();
    for (order, module) in [("little-endian", module), ("big-endian", turned)] {
        assert_eq!(bench.fault(&module), None, "{order}");
        // A module may end after the header and after each instruction.
        for len in (4..module.len()).filter(|len| ![20, 28].contains(len)) {
            assert!(bench.fault(&module[..len]).is_some(), "{len}");
        }
        for at in [4, 12, 20] {
            let mut zeroed = module.clone();
            zeroed[at..at + 4].fill(0);
            assert!(bench.fault(&zeroed).is_some(), "{at}");
        }
    }
}

#[test]
fn more_sections_than_16_bits_count_are_whole() {
    let test = "many sections";
    let Some(clang) = llvm(test, "clang") else { return };
    let dir = memory_directory();
    let source: String = (0..66_000).map(|n| format!(".section .s{n},\"a\"\n.byte 0\nsym{n}:\n")).collect();
    fs::write(dir.path().join("many.s"), source).unwrap();
    must(Command::new(clang).args(["-c", "many.s", "-o", "many.o"]).current_dir(dir.path()));
    let mut data = fs::read(dir.path().join("many.o")).unwrap();
    let bench = Bench::new();
    assert_eq!(bench.fault(&data), None);
    assert!(bench.fault(&data[..data.len() - 1]).is_some());
    // The number of sections, which is in the first section header, is set beyond the file.
    let table = usize::try_from(u64::from_le_bytes(data[40..48].try_into().unwrap())).unwrap();
    data[table + 32..table + 40].copy_from_slice(&100_000_u64.to_le_bytes());
    assert!(bench.fault(&data).is_some());
}

//! Fat objects, compared with LLVM 22: the objects that each tool writes and reads, and the results of linking them.
//!
//! Without LLVM 22 (`LLVM_BIN`, or `/usr/lib/llvm-22/bin`) the tests print `SKIPPED:` and pass;
//! `OFFLOAD_REQUIRE_LLVM=1` makes that a failure. Our tool runs with an empty `PATH`, because it needs no other
//! program.
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use offload_bundle::container::Container;
use offload_bundle::container::object::FatObject;

use crate::lists::{is_complete, share_of};
use crate::machine::{executable, llvm, memory_directory, skip};

const HOST: &str = "host-x86_64-unknown-linux-gnu-";
const DEVICES: [(&str, &[u8]); 3] = [
    ("hip-amdgcn-amd-amdhsa--gfx906", b"\x7fELF device code"),
    ("hip-amdgcn-amd-amdhsa--gfx90a:xnack+", b""),
    ("openmp-nvptx64-nvidia-cuda-unknown-sm_70", b"\0\0"),
];
const ELF_TARGETS: [&str; 12] = [
    "x86_64-linux-gnu",
    "i686-linux-gnu",
    "aarch64-linux-gnu",
    "armv7-linux-gnueabihf",
    "powerpc64-linux-gnu",
    "powerpc64le-linux-gnu",
    "s390x-linux-gnu",
    "riscv64-linux-gnu",
    "mips-linux-gnu",
    "mipsel-linux-gnu",
    "mips64el-linux-gnuabi64",
    "powerpc-linux-gnu",
];
const COFF_TARGETS: [&str; 4] =
    ["x86_64-pc-windows-msvc", "aarch64-pc-windows-msvc", "i686-pc-windows-msvc", "x86_64-w64-mingw32"];
const C: &str = "extern int ext; static int z[4]; const char *s = \"hello\";\
    __attribute__((section(\".odd\"))) int o = 3;\
    int foo(int x) { return x + ext + z[x & 3]; } int _start(void) { return foo(3) + s[1]; }";
const CXX: &str = "template <class T> struct V { T t; T get() const; virtual ~V() {} };\
    template <class T> T V<T>::get() const { static T n; return n++ + t; }\
    inline int twice(int x) { return 2 * x; }\
    int f(int x) { V<int> v{}; v.t = x; V<long> w{}; return v.get() + (int)w.get() + twice(x); }";
/// Name, language, source and options of the objects that are compiled for every target.
const VARIANTS: [(&str, &str, &str, &[&str]); 4] = [
    ("debug", "c", C, &["-O0", "-g"]),
    ("sections", "c", C, &["-O2", "-ffunction-sections", "-fdata-sections"]),
    ("comdat", "c++", CXX, &["-O1", "-g", "-ffunction-sections", "-fno-exceptions", "-fno-rtti"]),
    ("empty", "c", "", &[]),
];

/// A directory for one test, and LLVM's tools.
struct Bench {
    dir: tempfile::TempDir,
    llvm: PathBuf,
}

impl Bench {
    fn new(test: &str) -> Option<Self> {
        let needed = ["clang-offload-bundler", "clang", "llvm-objcopy", "llvm-readobj", "obj2yaml", "ld.lld"];
        Some(Self { llvm: llvm(test, &needed)?, dir: memory_directory() })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, data: impl AsRef<[u8]>) -> PathBuf {
        fs::write(self.path(name), data).unwrap();
        self.path(name)
    }

    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }

    fn run(&self, program: impl AsRef<OsStr>, arguments: &[&str]) -> Output {
        Command::new(program).args(arguments).current_dir(self.dir.path()).output().unwrap()
    }

    fn llvm(&self, tool: &str, arguments: &[&str]) -> String {
        text(self.run(self.llvm.join(tool), arguments), tool, arguments)
    }

    /// Our tool and LLVM's.
    fn bundlers(&self) -> [(&'static str, PathBuf); 2] {
        [("ours", executable()), ("theirs", self.llvm.join("clang-offload-bundler"))]
    }

    fn ours(&self, arguments: &[&str]) -> Output {
        let (_, ours) = &self.bundlers()[0];
        Command::new(ours).args(arguments).current_dir(self.dir.path()).env("PATH", "").output().unwrap()
    }

    fn compile(&self, name: &str, target: &str, language: &str, source: &str, options: &[&str]) -> String {
        let source = self.write(&format!("{name}.src"), source);
        let object = format!("{name}.o");
        let target = format!("--target={target}");
        let fixed = [
            target.as_str(),
            "-w",
            "-ffreestanding",
            "-faddrsig",
            "-x",
            language,
            source.to_str().unwrap(),
            "-c",
            "-o",
        ];
        let all: Vec<&str> = options.iter().chain(&fixed).copied().chain([object.as_str()]).collect();
        self.llvm("clang", &all);
        object
    }

    /// Bundles the host object and all devices into `ours-NAME` and `theirs-NAME`.
    fn bundle(&self, host: &str) -> [String; 2] {
        let mut arguments = vec!["-type=o".to_owned(), targets(), format!("-input={host}")];
        for (index, (_, content)) in DEVICES.iter().enumerate() {
            self.write(&format!("device{index}"), content);
            arguments.push(format!("-input=device{index}"));
        }
        self.bundlers().map(|(who, bundler)| {
            let output = format!("{who}-{host}");
            let mut arguments = arguments.clone();
            arguments.push(format!("-output={output}"));
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            text(self.run(bundler, &arguments), who, &arguments);
            output
        })
    }

    /// Lists and unbundles with both tools, checks the devices, and returns the two host objects.
    fn take_apart(&self, fat: &str) -> [String; 2] {
        let lists = self.bundlers().map(|(who, bundler)| {
            let list = ["-type=o", "-list", &format!("-input={fat}")];
            let mut lines: Vec<String> =
                text(self.run(bundler, &list), who, &list).lines().map(str::to_owned).collect();
            lines.sort();
            lines
        });
        let mut expected: Vec<&str> = DEVICES.iter().map(|(id, _)| *id).chain([HOST]).collect();
        expected.sort_unstable();
        assert_eq!(lists, [expected.clone(), expected], "{fat}");
        self.bundlers().map(|(who, bundler)| {
            let host = format!("{who}-host-of-{fat}");
            let mut arguments = vec!["-type=o".into(), "-unbundle".into(), targets(), format!("-input={fat}")];
            arguments.push(format!("-output={host}"));
            arguments.extend((0..DEVICES.len()).map(|index| format!("-output=out{index}")));
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            text(self.run(bundler, &arguments), who, &arguments);
            for (index, (id, content)) in DEVICES.iter().enumerate() {
                assert_eq!(&self.read(&format!("out{index}")), content, "{who}: {id} of {fat}");
            }
            host
        })
    }

    fn yaml(&self, object: &str) -> String {
        self.llvm("obj2yaml", &[object])
    }

    /// Sections, symbols, relocations and groups, without anything that depends on file offsets.
    fn dump(&self, object: &str) -> String {
        let dump = self.llvm("llvm-readobj", &["-h", "-S", "-s", "-r", "--section-groups", "--addrsig", object]);
        let places = ["File:", "Offset:", "PointerTo", "SectionHeaderOffset:", "StringTableSize:", "TimeDateStamp:"];
        let mut strings = false;
        let mut lines = Vec::new();
        for line in dump.lines() {
            let item = line.trim_start();
            strings = if item.starts_with("Type: ") { item.starts_with("Type: SHT_STRTAB") } else { strings };
            if places.iter().any(|place| item.starts_with(place)) || strings && item.starts_with("Size: ") {
                continue;
            }
            let named = item.starts_with("Name: ") || item.starts_with("Signature: ");
            lines.push(if named { line.split(" (").next().unwrap_or_default() } else { line });
        }
        lines.join("\n")
    }

    /// Runs all checks for one host object.
    fn check(&self, host: &str) {
        let [ours, theirs] = self.bundle(host);
        assert_same(&self.dump(&ours), &self.dump(&theirs), &format!("{host}: dumps"));
        self.check_hosts(host, &ours, &theirs);
    }

    /// Checks the hosts in both fat objects.
    fn check_hosts(&self, host: &str, ours: &str, theirs: &str) {
        let [own, foreign] = self.take_apart(ours);
        assert!(self.read(&own) == self.read(host), "{host}: the host is not the same");
        let [general, reference] = self.take_apart(theirs);
        assert_same(&self.yaml(&general), &self.yaml(&reference), &format!("{host}: restored from LLVM's"));
        // The offsets are not compared, because our tool keeps the host's bytes at their offsets; everything else is
        // equal.
        let expected = self.dump(&reference);
        assert_same(&self.dump(&foreign), &expected, &format!("{host}: restored by LLVM from ours"));
        assert_same(&self.dump(&general), &expected, &format!("{host}: dumps of what was restored"));
    }
}

/// Compares texts line by line and shows the first that differ.
fn assert_same(left: &str, right: &str, what: &str) {
    let differing = left.lines().zip(right.lines()).enumerate().find(|(_, (left, right))| left != right);
    let shown = differing.map(|(number, (left, right))| format!("line {}:\n{left:.200}\n{right:.200}", number + 1));
    assert!(left == right, "{what}: {}", shown.unwrap_or("one is longer".to_owned()));
}

fn targets() -> String {
    DEVICES.iter().fold(format!("-targets={HOST}"), |list, (id, _)| format!("{list},{id}"))
}

fn text(output: Output, program: &str, arguments: &[&str]) -> String {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {}: {stderr}", arguments.join(" "));
    assert!(!stderr.contains("warning:"), "{program} {}: {stderr}", arguments.join(" "));
    String::from_utf8(output.stdout).unwrap()
}

pub fn exists_in_path(program: &str) -> bool {
    let found = |directory: &Path| directory.join(program).exists();
    let exists =
        std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).any(|directory| found(&directory));
    if !exists {
        skip(program, "it is not installed");
    }
    exists
}

fn check_targets(test: &str, targets: &[&str]) {
    let Some(bench) = Bench::new(test) else { return };
    for target in targets {
        for (variant, language, source, options) in share_of(target, VARIANTS.to_vec(), 1) {
            bench.check(&bench.compile(&format!("{variant}-{target}"), target, language, source, options));
        }
    }
}

/// With `-allow-missing-bundles`, as clang unbundles, and the host under another triple: with and without an entry that
/// serves the request for a device.
#[test]
fn code_of_a_host_under_another_triple_is_linked() {
    let Some(bench) = Bench::new("code_of_a_host_under_another_triple_is_linked") else { return };
    let source = "int first(void) { return 1; } int second(void) { return first() + 1; }";
    for target in ["x86_64-linux-gnu", "i686-linux-gnu"] {
        let host = bench.compile("functions", target, "c", source, &["-O0", "-fPIC"]);
        for fat in bench.bundle(&host) {
            for device in ["hip-amdgcn-amd-amdhsa--gfx1030", DEVICES[0].0] {
                let targets = format!("-targets=host-x86_64-pc-linux-gnu-,{device}");
                let input = format!("-input={fat}");
                let unbundle =
                    ["-type=o", "-unbundle", "-allow-missing-bundles", &targets, &input, "-output=h.o", "-output=d.o"];
                assert_eq!(text(bench.ours(&unbundle), "ours", &unbundle), "", "{unbundle:?}");
                bench.llvm("ld.lld", &["-shared", "h.o", "-o", "linked.so"]);
                let symbols = bench.llvm("llvm-readobj", &["--dyn-symbols", "linked.so"]);
                assert_eq!(symbols.matches("Type: Function").count(), 2, "{fat}: {symbols}");
                assert!(!bench.dump("h.o").contains("__CLANG_OFFLOAD_BUNDLE__"), "{fat}");
            }
        }
    }
}

#[test]
fn elf_64_bit_and_x86() {
    check_targets("elf_64_bit_and_x86", &ELF_TARGETS[..6]);
}

#[test]
fn elf_other_machines() {
    check_targets("elf_other_machines", &ELF_TARGETS[6..]);
}

#[test]
fn coff() {
    check_targets("coff", &COFF_TARGETS);
}

/// A small assembler file with `count` sections, each with a symbol.
fn many_sections(count: usize, flags: &str) -> String {
    (0..count).map(|i| format!(".section .s{i},\"{flags}\"\n.globl g{i}\ng{i}: .byte 1\nl{i}: .byte 2\n")).collect()
}

#[test]
fn more_sections_than_16_bits_count() {
    let Some(bench) = Bench::new("more_sections_than_16_bits_count") else { return };
    if is_complete() {
        let large = many_sections(65_300, "a");
        let of_coff = large.replace("\"a\"", "\"dr\"");
        for (target, text) in [("x86_64-linux-gnu", &large), (COFF_TARGETS[0], &of_coff), ("powerpc-linux-gnu", &large)]
        {
            bench.check(&bench.compile(&format!("large-{target}"), target, "assembler", text, &[]));
        }
    }
    // The host is just below the limit, its fat object is above. LLVM's tool adds a table that ours does not need.
    let host = bench.compile("limit", "x86_64-linux-gnu", "assembler", &many_sections(65_270, "a"), &[]);
    let [ours, theirs] = bench.bundle(&host);
    let [own, _] = bench.take_apart(&ours);
    assert!(bench.read(&own) == bench.read(&host));
    bench.take_apart(&theirs);
}

#[test]
fn a_member_whose_names_are_lost_fails_the_archive_and_one_without_sections_does_not() {
    let Some(bench) = Bench::new("a_member_whose_names_are_lost_fails_the_archive") else { return };
    let object = bench.compile("sound", "x86_64-linux-gnu", "c", C, &[]);
    let sound = bench.read(&object);
    let number =
        |at: usize, width: usize| sound[at..at + width].iter().rev().fold(0, |sum, &byte| sum << 8 | usize::from(byte));
    let (table, names) = (number(40, 8), number(62, 2));
    let mut no_sections = sound.clone();
    no_sections[40..48].fill(0);
    let mut no_names = sound.clone();
    no_names[table + 64 * names + 4] = 0;
    for (name, data, is_read) in [("no-sections.o", &no_sections, true), ("no-names.o", &no_names, false)] {
        bench.write(name, data);
        let archive = format!("{name}.a");
        bench.llvm("llvm-ar", &["rcS", &archive, &object, name]);
        let (input, output) = (format!("-input={archive}"), format!("-output={archive}.out"));
        let target = format!("-targets={}", DEVICES[0].0);
        for (who, bundler) in bench.bundlers() {
            let run = bench.run(bundler, &["-type=a", "-unbundle", "-allow-missing-bundles", &target, &input, &output]);
            assert_eq!(run.status.success(), is_read, "{who}: {name}: {}", String::from_utf8_lossy(&run.stderr));
        }
    }
}

#[test]
fn objects_of_other_makers() {
    let Some(bench) = Bench::new("objects_of_other_makers") else { return };
    let a = bench.compile("a", "x86_64-linux-gnu", "c", C, &["-g", "-fPIC", "-ffunction-sections"]);
    let b = bench.compile("b", "x86_64-linux-gnu", "c++", CXX, &["-g", "-ffunction-sections"]);
    bench.llvm("ld.lld", &["-r", &a, &b, "-o", "lld-r.o"]);
    bench.check("lld-r.o");
    bench.llvm("ld.lld", &["-e", "foo", "--unresolved-symbols=ignore-all", "-shared", &a, "-o", "lib.so"]);
    bench.check("lib.so");
    for linker in ["ld", "gold"].into_iter().filter(|linker| exists_in_path(linker)) {
        let output = format!("{linker}-r.o");
        text(bench.run(linker, &["-r", &a, &b, "-o", &output]), linker, &[]);
        bench.check(&output);
    }
    if exists_in_path("gcc") {
        bench.write("gcc.c", C);
        text(bench.run("gcc", &["-g", "-w", "-c", "gcc.c", "-o", "gcc.o"]), "gcc", &[]);
        bench.check("gcc.o");
        text(bench.run("objcopy", &["--strip-debug", "gcc.o", "stripped.o"]), "objcopy", &[]);
        bench.check("stripped.o");
    }
    if exists_in_path("x86_64-w64-mingw32-as") {
        bench.write("big.s", ".text\nf: nop\n.section .a_section_with_a_long_name,\"dr\"\n.long f\n");
        let arguments = ["-mbig-obj", "big.s", "-o", "mingw-big.o"];
        text(bench.run("x86_64-w64-mingw32-as", &arguments), "as", &arguments);
        // LLVM's tool renumbers the symbols of sections that GNU as wrote; ours does not.
        let [ours, theirs] = bench.bundle("mingw-big.o");
        bench.check_hosts("mingw-big.o", &ours, &theirs);
    }
}

/// An object made by an assembler: the sections of a bundle have symbols and relocations, and are in groups.
const ELF_BUNDLE: &str = ".text\n.globl f\nf: .long 0\n.long h - .\n\
    .section .text.h,\"axG\",@progbits,kept,comdat\n.globl h\nh: .long 0\n\
    .section \"__CLANG_OFFLOAD_BUNDLE__host-x86_64-unknown-linux-gnu-\",\"e\",@progbits\n.byte 0\n\
    .section \"__CLANG_OFFLOAD_BUNDLE__hip-amdgcn-amd-amdhsa--gfx906\",\"eG\",@progbits,lost,comdat\n\
    .globl device_global\n.weak device_weak\ndevice_global: device_weak: device_local: .long f - .\n\
    .section \"__CLANG_OFFLOAD_BUNDLE__hip-amdgcn-amd-amdhsa--gfx90a\",\"eG\",@progbits,kept,comdat\n.long 1\n\
    .data\n.globl z\nz: .long f - .\n";
const COFF_BUNDLE: &str = ".text\n.globl f\nf: .long 0\n.data\n.globl z\nz: .long f\n\
    .section \"__CLANG_OFFLOAD_BUNDLE__host-x86_64-unknown-linux-gnu-\",\"n\"\n.byte 0\n\
    .section \"__CLANG_OFFLOAD_BUNDLE__hip-amdgcn-amd-amdhsa--gfx906\",\"n\"\n\
    .globl device_global\ndevice_global: device_local: .long 1\n\
    .section .other,\"dr\"\n.globl other\nother: .long z\n";

#[test]
fn symbols_and_groups_of_the_bundle_go_with_it() {
    let Some(bench) = Bench::new("symbols_and_groups_of_the_bundle_go_with_it") else { return };
    let hosts = |object: &str| {
        bench.bundlers().map(|(who, bundler)| {
            let output = format!("{who}-host-of-{object}");
            let target = format!("-targets={HOST}");
            let arguments =
                ["-type=o", "-unbundle", &target, &format!("-input={object}"), &format!("-output={output}")];
            bench.run(bundler, &arguments).status.success().then_some(output)
        })
    };
    let shown = |object: &str| {
        let dump = bench.llvm("llvm-readobj", &["-S", "-r", "--section-groups", object]);
        let is_shown = |line: &&str| ["Name: ", "Signature: ", "0x"].iter().any(|start| line.starts_with(start));
        let lines: Vec<&str> = dump.lines().map(str::trim).filter(is_shown).collect();
        let lines: Vec<&str> = lines.iter().filter_map(|line| line.split(" (").next()).collect();
        let globals = bench.llvm("llvm-nm", &["-g", "--defined-only", "-j", object]);
        format!("{}\n{globals}", lines.join("\n"))
    };
    for (target, source) in [
        ("x86_64-linux-gnu", ELF_BUNDLE),
        ("i686-linux-gnu", ELF_BUNDLE),
        ("powerpc64-linux-gnu", ELF_BUNDLE),
        ("x86_64-pc-windows-msvc", COFF_BUNDLE),
    ] {
        let object = bench.compile(target, target, "assembler", source, &[]);
        let [ours, theirs] = hosts(&object).map(Option::unwrap);
        assert!(!shown(&ours).contains("__CLANG_OFFLOAD_BUNDLE__"), "{target}");
        assert_same(&shown(&ours), &shown(&theirs), target);
        if source == ELF_BUNDLE {
            bench.llvm("ld.lld", &["-r", &ours, "-o", "linked"]);
            if target.starts_with("x86_64") && exists_in_path("ld") {
                text(bench.run("ld", &["-r", &ours, "-o", "linked"]), "ld", &[]);
                text(bench.run("ld", &["-e", "f", &ours, "-o", "linked"]), "ld", &[]);
            }
        } else {
            let arguments =
                ["/entry:f", "/subsystem:console", "/nodefaultlib", "/largeaddressaware:no", "/fixed", "/out:linked"];
            bench.llvm("lld-link", &[&arguments[..], &[&ours]].concat());
        }
        // The remaining code needs the symbol.
        let source = format!("{source}.text\n.long device_global - .\n");
        let used = bench.compile(&format!("used-{target}"), target, "assembler", &source, &[]);
        assert_eq!(hosts(&used), [None, None], "{target}");
    }
}

#[test]
fn linkers_drop_the_sections() {
    let Some(bench) = Bench::new("linkers_drop_the_sections") else { return };
    let has_bundle = |file: &str| bench.llvm("llvm-readobj", &["-S", file]).contains("__CLANG_OFFLOAD_BUNDLE__");
    for target in ELF_TARGETS {
        let host = bench.compile(target, target, "c", C, &["-O1", "-g", "-fPIC"]);
        for fat in bench.bundle(&host) {
            assert!(has_bundle(&fat), "{target}: {fat}");
            let arguments = ["-e", "foo", "--unresolved-symbols=ignore-all", "-shared", &fat, "-o", "linked"];
            bench.llvm("ld.lld", &arguments);
            assert!(!has_bundle("linked"), "ld.lld: {target}");
            for linker in ["ld", "gold"].into_iter().filter(|linker| exists_in_path(linker)) {
                if target.starts_with("x86_64") {
                    let arguments = ["-e", "foo", "--unresolved-symbols=ignore-all", &fat, "-o", "linked"];
                    text(bench.run(linker, &arguments), linker, &arguments);
                    assert!(!has_bundle("linked"), "{linker}: {target}");
                }
            }
        }
    }
    for target in &COFF_TARGETS[..2] {
        let host =
            bench.compile(target, target, "c", "int start(void) { return 3; } int data[3] = {1};", &["-O1", "-g"]);
        for fat in bench.bundle(&host) {
            bench.llvm("lld-link", &["/entry:start", "/subsystem:console", "/nodefaultlib", "/out:linked.exe", &fat]);
            assert!(!has_bundle("linked.exe"), "lld-link: {target}");
        }
    }
}

#[test]
fn our_fat_objects_can_be_read_after_other_tools() {
    let Some(bench) = Bench::new("our_fat_objects_can_be_read_after_other_tools") else { return };
    let host = bench.compile("tools", "x86_64-linux-gnu", "c++", CXX, &["-g", "-ffunction-sections"]);
    let [ours, _] = bench.bundle(&host);
    let strip = |output: &str| ["-g", &ours, "-o", output].map(str::to_owned);
    let relink = |output: &str| ["-r", &ours, "-o", output].map(str::to_owned);
    let runs = [
        (bench.llvm.join("llvm-strip"), strip("llvm-strip.o"), true),
        (PathBuf::from("strip"), strip("strip.o"), true),
        (bench.llvm.join("ld.lld"), relink("ld.lld.o"), false),
        (PathBuf::from("ld"), relink("ld.o"), false),
    ];
    for (tool, arguments, same) in runs {
        if tool.parent() == Some(Path::new("")) && !exists_in_path(tool.to_str().unwrap()) {
            continue;
        }
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        text(bench.run(&tool, &arguments), "tool", &arguments);
        let fat = arguments.last().unwrap();
        let [general, reference] = bench.take_apart(fat);
        if same {
            assert_eq!(bench.yaml(&general), bench.yaml(&reference), "{fat}");
        }
        // A linker gives each section a symbol. LLVM's tool removes the symbols of the bundle; ours empties them.
        bench.llvm("ld.lld", &["-e", "0", "--unresolved-symbols=ignore-all", &general, "-o", "linked"]);
        let dump = bench.llvm("llvm-readelf", &["-a", "-W", &general]);
        assert!(!dump.contains("__CLANG_OFFLOAD_BUNDLE__"), "{fat}");
    }
    // A host that is a fat object is restored as a fat object.
    let again = bench.bundle(&ours)[0].clone();
    let out =
        bench.ours(&["-type=o", "-unbundle", &format!("-targets={HOST}"), &format!("-input={again}"), "-output=x"]);
    assert!(out.status.success());
    assert!(bench.read("x") == bench.read(&ours));
}

/// Reads and unbundles the data, whatever the result.
fn try_all(data: &[u8]) {
    let length = u64::try_from(data.len()).unwrap();
    for contents in FatObject.read(data, length, 0).into_iter().flatten() {
        contents.entries.iter().for_each(|entry| drop(entry.content(data)));
    }
}

#[test]
fn damaged_objects_are_no_worse_than_errors() {
    let Some(bench) = Bench::new("damaged_objects_are_no_worse_than_errors") else { return };
    for target in ["x86_64-linux-gnu", "mips-linux-gnu", "x86_64-pc-windows-msvc"] {
        let host = bench.compile(target, target, "c++", CXX, &["-ffunction-sections", "-fno-exceptions", "-fno-rtti"]);
        for fat in bench.bundle(&host) {
            let fat = bench.read(&fat);
            (0..fat.len()).step_by(13).for_each(|len| try_all(&fat[..len]));
            let mut data = fat.clone();
            for at in (0..fat.len()).step_by(3) {
                data[at] = !fat[at];
                try_all(&data);
                data[at] = 0xff;
                try_all(&data);
                data[at] = fat[at];
            }
        }
    }
}

#[test]
fn the_command_of_a_fat_object_is_printed_as_the_reference_prints_it_and_nothing_is_written() {
    let Some(bench) = Bench::new("the_command_of_a_fat_object_is_printed") else { return };
    let host = bench.compile("commands", "x86_64-linux-gnu", "c", C, &[]);
    // This also writes the inputs of the devices.
    let [fat, _] = bench.bundle(&host);
    let inputs: Vec<String> = (0..DEVICES.len()).map(|index| format!("-input=device{index}")).collect();
    let (input, targets) = (format!("-input={host}"), targets());
    let words = ["-###", &targets, "-type=o", "-output=new", &input];
    let arguments: Vec<&str> = words.into_iter().chain(inputs.iter().map(String::as_str)).collect();
    let lines = bench.bundlers().map(|(_, bundler)| {
        bench.write("new", "old");
        let mut command = Command::new(bundler);
        command.args(&arguments).current_dir(bench.dir.path()).env("PATH", &bench.llvm);
        let output = command.output().unwrap();
        assert!(output.status.success());
        let line = String::from_utf8(output.stderr).unwrap();
        let number = line.find("/clang-offload-bundler-").unwrap() + "/clang-offload-bundler-".len();
        [&line[..number], "N", &line[number + 6..]].concat()
    });
    assert_eq!(lines[0], lines[1]);
    bench.write("new", "old");
    let alone = bench.ours(&arguments);
    assert!(String::from_utf8(alone.stderr).unwrap().starts_with("\"llvm-objcopy\" \"--"));
    assert_eq!(bench.read("new"), b"old");
    // Unbundling never needs llvm-objcopy, so there is no command to print.
    let input = format!("-input={fat}");
    let silent = bench.ours(&["-###", "-type=o", "-unbundle", &format!("-targets={HOST}"), &input, "-output=new"]);
    assert!(silent.status.success() && silent.stderr.is_empty());
    assert_eq!(bench.read("new"), bench.read(&host));
}

#[test]
fn other_object_formats_are_refused_by_name() {
    let Some(bench) = Bench::new("other_object_formats_are_refused_by_name") else { return };
    let formats =
        [("x86_64-apple-darwin", "Mach-O"), ("wasm32-unknown-unknown", "WebAssembly"), ("powerpc-ibm-aix", "XCOFF")];
    for (target, format) in formats {
        let object = bench.compile(target, target, "c", "int f(void) { return 1; }", &["-fno-addrsig"]);
        let targets = format!("-targets={HOST},{}", DEVICES[0].0);
        let input = format!("-input={object}");
        let output = bench.ours(&["-type=o", &targets, &input, &input, "-output=fat"]);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(stderr.contains(&format!("'{object}': {format} object files cannot hold a bundle")), "{stderr}");
        assert!(!bench.path("fat").exists());
    }
}

#[test]
fn code_objects_without_a_host_make_a_binary_bundle() {
    let Some(bench) = Bench::new("code_objects_without_a_host_make_a_binary_bundle") else { return };
    let code = bench.compile("code", "amdgcn-amd-amdhsa", "c", "int f(int x) { return x; }", &["-fno-addrsig"]);
    let targets = "-targets=hip-amdgcn-amd-amdhsa--gfx906,hip-amdgcn-amd-amdhsa--gfx90a";
    let input = format!("-input={code}");
    assert!(bench.ours(&["-type=o", targets, &input, &input, "-output=b.o"]).status.success());
    assert!(bench.read("b.o").starts_with(b"__CLANG_OFFLOAD_BUNDLE__"));
    assert!(bench.ours(&["-type=o", targets, "-unbundle", "-input=b.o", "-output=x", "-output=y"]).status.success());
    assert!(bench.read("x") == bench.read(&code) && bench.read("y") == bench.read(&code));
    // When read as an object, a code object holds no bundle.
    let list = bench.ours(&["-type=o", "-list", &input]);
    assert!(list.status.success() && list.stdout.is_empty());
}

//! Archives, compared with LLVM 22: unbundling, listing and checking, including broken archives.
//!
//! Both tools run on the same archive under the same name, and must agree in status, messages and bytes. LLVM reads the
//! entries of a bundle in the order of a hash table, so archives with several entries of one member are compared as
//! sets of members. `ar`, `llvm-ar` and `llvm-nm` also read the results.
//!
//! Without LLVM 22 the comparisons are skipped with a message; `OFFLOAD_REQUIRE_LLVM=1` makes that a failure.
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::lists::{sample, share_of};
use crate::machine::{executable, llvm, llvm_directory, memory_directory, skip};
use crate::properties::make::{self, archive_header};
use crate::reference::formats;

const HOST: &str = "host-x86_64-unknown-linux-gnu-";
const GFX906: &str = "hip-amdgcn-amd-amdhsa--gfx906";
const GFX90A: &str = "hip-amdgcn-amd-amdhsa--gfx90a";
const GFX90A_XNACK: &str = "hip-amdgcn-amd-amdhsa--gfx90a:xnack+";
const SM_70: &str = "openmp-nvptx64-nvidia-cuda--sm_70";

const SOURCE: &str = "int common; static int local = 3; int defined = 4; extern int external;
    __attribute__((weak)) int weak_v = 1; __attribute__((weak)) void weak_f(void) {}
    extern __attribute__((weak)) void weak_u(void);
    static int inner(int x) { return x * 2; }
    int f(void) { weak_u(); return inner(external) + local; }";

const MODULE: &str = "target triple = \"amdgcn-amd-amdhsa\"
    @g = addrspace(1) global i32 1\n@hidden = internal global i32 1\n@ext = external addrspace(1) global i32
    @meta = global i32 0, section \"llvm.metadata\"\n@\"\\01raw\" = global i32 2
    define amdgpu_kernel void @kernel() { ret void }\ndefine weak void @w() { ret void }
    define linkonce_odr hidden void @once() { ret void }\ndefine available_externally void @ae() { ret void }
    @alias = alias void (), ptr @w\n@i = ifunc void (), ptr @res
    define ptr @res() { ret ptr @w }\ndeclare void @undefined()";

/// Global symbols whose names tell code from data on some machines.
const MAPPING: &str = ".globl \"$a\", \"$b\", \"$d\", \"$d.1\", \"$t\", \"$x\", \"$xyz\", LABEL, EMPTY, f
    \"$a\": \"$b\": \"$d\": \"$d.1\": \"$t\": \"$x\": \"$xyz\": LABEL: EMPTY: f:";

/// A directory for one test, and that of LLVM 22's tools.
struct Lab {
    dir: tempfile::TempDir,
    llvm: PathBuf,
}

/// The comparison of the bytes of two archives.
#[derive(Clone, Copy, PartialEq)]
enum Order {
    Same,
    Any,
}

impl Lab {
    fn new() -> Self {
        Self { dir: memory_directory(), llvm: llvm_directory() }
    }

    /// Creates a directory if LLVM 22 is installed.
    fn with_llvm() -> Option<Self> {
        llvm("archives", &["clang-offload-bundler"]).map(|_| Self::new())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, data: &[u8]) {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), data).unwrap();
    }

    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }

    fn command(&self, program: &Path, arguments: &[&str]) -> Output {
        let mut command = Command::new(program);
        command.env("PATH", format!("{}:/usr/bin:/bin", self.llvm.display())).env("LLVM_DISABLE_SYMBOLIZATION", "1");
        command.arg0("clang-offload-bundler").args(arguments).current_dir(self.dir.path());
        command.output().unwrap()
    }

    /// Runs an LLVM tool, or a system tool if its name is a path.
    fn tool(&self, name: &str, arguments: &[&str]) -> String {
        let mut command = Command::new(self.llvm.join(name));
        let output = command.args(arguments).current_dir(self.dir.path()).output().unwrap();
        assert!(output.status.success(), "{name} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn ours(&self, arguments: &[&str]) -> Output {
        self.command(&executable(), arguments)
    }

    fn reference(&self, arguments: &[&str]) -> Output {
        self.command(&self.llvm.join("clang-offload-bundler"), arguments)
    }

    /// Creates an archive of files in the directory with `llvm-ar`.
    fn archive(&self, name: &str, options: &[&str], members: &[&str]) {
        drop(fs::remove_file(self.path(name)));
        self.tool("llvm-ar", &[options, &[name], members].concat());
    }

    /// Runs both tools on an archive and compares them. Returns our status and messages.
    fn compare(&self, archive: &str, targets: &[&str], options: &[&str], order: Order) -> (i32, String) {
        let case = format!("{archive} {targets:?} {options:?}");
        let run = |directory: &str, tool: &dyn Fn(&[&str]) -> Output| {
            drop(fs::remove_dir_all(self.path(directory)));
            fs::create_dir(self.path(directory)).unwrap();
            let input = format!("-input={archive}");
            let list = format!("-targets={}", targets.join(","));
            let outputs: Vec<String> = (0..targets.len()).map(|n| format!("-output={directory}/{n}.a")).collect();
            let mut arguments = vec!["-type=a", "-unbundle", &input, &list];
            arguments.extend(outputs.iter().map(String::as_str));
            arguments.extend(options);
            let output = tool(&arguments);
            (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&output.stderr).into_owned())
        };
        let theirs = run("ref", &|arguments| self.reference(arguments));
        let ours = run("our", &|arguments| self.ours(arguments));
        assert_eq!(ours, theirs, "{case}");
        for number in 0..targets.len() {
            let (their_path, our_path) = (format!("ref/{number}.a"), format!("our/{number}.a"));
            if ours.0 != 0 {
                // LLVM leaves the files that it wrote before it failed.
                assert!(!self.path(&our_path).exists(), "{case}");
                continue;
            }
            let same = self.read(&their_path) == self.read(&our_path);
            assert!(same || order == Order::Any, "{case}: the bytes of archive {number} differ");
            self.witness(&their_path, &our_path, same, &case);
        }
        ours
    }

    /// Compares both archives as read by other programs.
    fn witness(&self, theirs: &str, ours: &str, same_order: bool, case: &str) {
        let names = self.tool("llvm-ar", &["t", ours]);
        let members = members(&self.path(ours));
        assert_eq!(
            names.lines().map(str::to_owned).collect::<Vec<_>>(),
            members.iter().map(|m| m.0.clone()).collect::<Vec<_>>()
        );
        let sorted = |mut list: Vec<(String, Vec<u8>)>| {
            list.sort();
            list
        };
        assert_eq!(sorted(members), sorted(self::members(&self.path(theirs))), "{case}");
        let index = |path: &str| {
            // llvm-nm prints the index first, and then crashes on some objects.
            let mut command = Command::new(self.llvm.join("llvm-nm"));
            command.args(["--print-armap", "--quiet", path]).env("LLVM_DISABLE_SYMBOLIZATION", "1");
            let output = command.current_dir(self.dir.path()).output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let mut lines: Vec<String> = text.lines().take_while(|line| !line.is_empty()).map(str::to_owned).collect();
            if !same_order {
                lines.sort();
            }
            lines
        };
        assert_eq!(index(ours), index(theirs), "{case}");
    }
}

/// Names and contents, as read by the `ar` crate. Also checks that all other fields have their constant values.
fn members(path: &Path) -> Vec<(String, Vec<u8>)> {
    let mut archive = ar::Archive::new(fs::File::open(path).unwrap());
    let mut members = Vec::new();
    while let Some(entry) = archive.next_entry() {
        let mut entry = entry.unwrap();
        let header = entry.header();
        assert_eq!((header.mtime(), header.uid(), header.gid(), header.mode()), (0, 0, 0, 0o644));
        let name = String::from_utf8_lossy(header.identifier()).into_owned();
        let mut content = Vec::new();
        std::io::Read::read_to_end(&mut entry, &mut content).unwrap();
        members.push((name, content));
    }
    members
}

fn bundle(entries: &[(&str, &[u8])]) -> Vec<u8> {
    formats::binary(entries, 1)
}

#[test]
fn every_kind_of_code_object_gets_the_index_of_llvm() {
    let Some(lab) = Lab::with_llvm() else { return };
    lab.write("c.c", SOURCE.as_bytes());
    lab.write("k.ll", MODULE.as_bytes());
    let triples = "x86_64-linux-gnu i686-linux-gnu aarch64-linux-gnu arm-linux-gnueabi powerpc64-linux-gnu \
                   powerpc64le-linux-gnu s390x-linux-gnu riscv64-linux-gnu mips-linux-gnu x86_64-windows-msvc \
                   i686-windows-msvc aarch64-windows-msvc arm64ec-windows-msvc x86_64-w64-mingw32 x86_64-apple-macos";
    let mut objects = Vec::new();
    for triple in sample(triples.split_whitespace().collect(), 6) {
        for (suffix, option) in [("o", "-fcommon"), ("bc", "-flto"), ("g", "-g")] {
            let name = format!("{triple}.{suffix}");
            lab.tool("clang", &["-target", triple, "-ffreestanding", option, "-c", "c.c", "-o", &name]);
            objects.push(name);
        }
    }
    lab.tool("llvm-as", &["k.ll", "-o", "as.bc"]);
    lab.tool("opt", &["k.ll", "-o", "opt.bc"]);
    lab.tool("llvm-cat", &["-b", "as.bc", "x86_64-linux-gnu.bc", "-o", "two.bc"]);
    let bitcode = lab.read("opt.bc");
    let fields = [0x0B17_C0DE, 0, 20, u32::try_from(bitcode.len()).unwrap(), 7];
    let wrapper: Vec<u8> = fields.into_iter().flat_map(u32::to_le_bytes).collect();
    lab.write("wrapped.bc", &[wrapper, bitcode, vec![0; 12]].concat());
    let mut cubin = lab.read("x86_64-linux-gnu.o");
    cubin[18..20].copy_from_slice(&190_u16.to_le_bytes());
    lab.write("cubin", &cubin);
    // Names that mean something on some machines: EM_ARM, EM_AARCH64, EM_RISCV, EM_CSKY, EM_X86_64.
    lab.write("mapping.s", MAPPING.as_bytes());
    lab.tool("clang", &["-target", "x86_64-linux-gnu", "-c", "mapping.s", "-o", "mapping.o"]);
    let mut mapping = lab.read("mapping.o");
    // No assembler makes these names.
    for (name, other) in [(&b"LABEL\0"[..], &b".L0 \0\0"[..]), (b"EMPTY\0", b"\0\0\0\0\0\0")] {
        let at = mapping.windows(name.len()).position(|window| window == name).unwrap();
        mapping[at..at + other.len()].copy_from_slice(other);
    }
    for machine in [40, 183, 243, 252, 62] {
        let mut object = mapping.clone();
        object[18..20].copy_from_slice(&u16::to_le_bytes(machine));
        objects.push(format!("mapping-{machine}"));
        lab.write(objects.last().unwrap(), &object);
    }
    lab.tool("clang", &["-target", "x86_64-windows-msvc", "-c", "c.c", "-o", "plain.obj"]);
    for (search, section) in [(1, 0), (1, 1), (3, 1)] {
        let mut object = lab.read("plain.obj");
        change_weak_symbols(&mut object, search, section);
        objects.push(format!("weak-{search}-{section}"));
        lab.write(objects.last().unwrap(), &object);
    }
    lab.write("text", b".version 6.0");
    lab.write("empty", b"");
    lab.write("short.elf", b"\x7fELF\x02\x01\x01");
    lab.write("short.bc", b"BC\xc0\xde and so.");
    lab.write("odd.bc", b"BC\xc0\xde and so on.");
    objects.extend(
        ["as.bc", "opt.bc", "two.bc", "wrapped.bc", "cubin", "text", "empty", "short.elf", "short.bc", "odd.bc"]
            .map(str::to_owned),
    );
    let mut members = Vec::new();
    for object in &objects {
        let data = lab.read(object);
        let member = format!("{object}.member");
        lab.write(&member, &bundle(&[(HOST, &data), (GFX906, &data), (SM_70, &data)]));
        if !object.contains("linux") && !object.contains("windows") {
            lab.archive("one.a", &["rcD"], &[&member]);
            lab.compare("one.a", &[GFX906, HOST, SM_70], &[], Order::Same);
        }
        members.push(member);
    }
    let members: Vec<&str> = members.iter().map(String::as_str).collect();
    lab.archive("all.a", &["rcD"], &members);
    lab.compare("all.a", &[GFX906, HOST, SM_70], &[], Order::Same);
}

/// Gives the weak symbols of a COFF object this kind of search, a section and a value.
fn change_weak_symbols(object: &mut [u8], search: u8, section: u8) {
    let number = |at: usize| usize::try_from(u32::from_le_bytes(object[at..at + 4].try_into().unwrap())).unwrap();
    let (start, count) = (number(8), number(12));
    let (mut index, mut changed) = (0, 0);
    while index < count {
        let symbol = &mut object[start + 18 * index..];
        let more = usize::from(symbol[17]);
        if symbol[16] == 105 && more > 0 {
            (symbol[8], symbol[12], symbol[18 + 4]) = (7 * section, section, search);
            changed += 1;
        }
        index += 1 + more;
    }
    assert!(changed > 0);
}

/// The members that the format tests use: plain and compressed bundles, names of all kinds, and plain files.
fn mixed_members(lab: &Lab) -> Vec<&'static str> {
    lab.write("c.c", SOURCE.as_bytes());
    lab.write("k.ll", MODULE.as_bytes());
    lab.tool("opt", &["k.ll", "-o", "k.bc"]);
    lab.tool("clang", &["-target", "x86_64-linux-gnu", "-c", "c.c", "-o", "host.o"]);
    let (host, device) = (lab.read("host.o"), lab.read("k.bc"));
    lab.write("a.o", &bundle(&[(HOST, &host), (GFX906, &device)]));
    lab.write("plain.txt", b"nothing to unbundle");
    lab.write("a name with spaces.and.dots.o", &bundle(&[(HOST, &host), (GFX90A_XNACK, &device), (SM_70, b"odd")]));
    lab.write("sub/a.o", &bundle(&[(HOST, b""), (GFX906, b"the second of this name")]));
    lab.write("no_extension", &bundle(&[(GFX906, b"hip only"), ("openmp-amdgcn-amd-amdhsa--gfx908", b"x")]));
    lab.write("empty", b"");
    let large = [host.as_slice(), &[0; 100_000], &device].concat();
    lab.write("large", &large);
    let targets = format!("-targets={HOST},{GFX906}");
    let bundling = ["-type=bc", &targets, "-input=host.o", "-input=large", "-compress"];
    let made = lab.reference(&[&bundling[..], &["-output=compressed_bundle_file.o"]].concat());
    assert!(made.status.success());
    vec![
        "a.o",
        "plain.txt",
        "a name with spaces.and.dots.o",
        "sub/a.o",
        "no_extension",
        "empty",
        "compressed_bundle_file.o",
        "host.o",
    ]
}

fn requests() -> Vec<&'static [&'static str]> {
    vec![
        &[GFX906],
        &[HOST],
        &[GFX906, HOST, SM_70],
        &[GFX90A],
        &[GFX90A_XNACK, GFX906],
        &["hipv4-amdgcn-amd-amdhsa--gfx906"],
    ]
}

#[test]
fn every_format_of_archive_is_unbundled_as_llvm_does() {
    let Some(lab) = Lab::with_llvm() else { return };
    let members = mixed_members(&lab);
    for format in ["gnu", "bsd", "darwin", "coff", "bigarchive"] {
        lab.archive("lib.a", &["qcD", &format!("--format={format}")], &members);
        for targets in share_of(format, requests(), 2) {
            lab.compare("lib.a", targets, &[], Order::Same);
            lab.compare("lib.a", targets, &["-allow-missing-bundles"], Order::Same);
        }
    }
    for (name, options) in
        [("no_index.a", &["qcSD"][..]), ("thin.a", &["qcD", "--thin"]), ("x/y/thin.a", &["qcSD", "--thin"])]
    {
        lab.write("x/y/z", b"");
        lab.archive(name, options, &members);
        for targets in share_of(name, requests(), 2) {
            lab.compare(name, targets, &[], Order::Same);
        }
    }
    for (name, options) in [("ar.a", "qcD"), ("ar_thin.a", "qcDT")] {
        if !Path::new("/usr/bin/ar").exists() {
            skip("archives of GNU ar", "GNU ar is not installed");
            continue;
        }
        lab.archive_by_gnu(name, options, &members);
        for targets in share_of(name, requests(), 2) {
            lab.compare(name, targets, &[], Order::Same);
        }
    }
    // Some writers omit the padding of the last member.
    let mut unpadded = make::archive(&[("a.o", &lab.read("a.o")), ("b.o", &bundle(&[(HOST, b""), (GFX906, b"odd!")]))]);
    assert_eq!(unpadded.pop(), Some(b'\n'));
    lab.write("unpadded.a", &unpadded);
    lab.compare("unpadded.a", &[GFX906, HOST], &[], Order::Same);
    lab.write("none.a", b"!<arch>\n");
    lab.compare("none.a", &[GFX906], &[], Order::Same);
    lab.compare("none.a", &[GFX906], &["-allow-missing-bundles"], Order::Same);
    for missing in ["plain.txt", "empty", "nowhere.a"] {
        lab.compare(missing, &[GFX906], &[], Order::Same);
    }
}

impl Lab {
    fn archive_by_gnu(&self, name: &str, options: &str, members: &[&str]) {
        let mut command = Command::new("/usr/bin/ar");
        assert!(command.args([options, name]).args(members).current_dir(self.dir.path()).status().unwrap().success());
    }
}

#[test]
fn several_entries_and_requests_of_one_processor() {
    let Some(lab) = Lab::with_llvm() else { return };
    let id = |features: &str| format!("{GFX90A}{features}");
    let (both, sramecc, off) = (id(":sramecc+:xnack+"), id(":sramecc+"), id(":xnack-"));
    lab.write(
        "x.o",
        &bundle(&[(HOST, b"h"), (GFX90A, b"any"), (GFX90A_XNACK, b"xnack"), (&both, b"both"), (&off, b"off")]),
    );
    lab.write("y.o", &bundle(&[(HOST, b"h"), (&sramecc, b"sramecc"), ("openmp-amdgcn-amd-amdhsa--gfx90a", b"openmp")]));
    lab.archive("lib.a", &["qcD"], &["x.o", "y.o", "x.o"]);
    for targets in
        [&[GFX90A][..], &[GFX90A_XNACK], &[&both], &[&off], &[&both, HOST], &["openmp-amdgcn-amd-amdhsa--gfx90a"]]
    {
        lab.compare("lib.a", targets, &[], Order::Any);
        lab.compare("lib.a", targets, &["-hip-openmp-compatible"], Order::Any);
    }
    let served: Vec<_> = members(&lab.path("our/0.a")).into_iter().map(|(name, _)| name).collect();
    assert_eq!(served[0], "x-hip-amdgcn-amd-amdhsa--gfx90ax.bc");
    assert_eq!(lab.compare("lib.a", &[GFX906, GFX90A], &[], Order::Any).0, 1);
    assert_eq!(lab.compare("lib.a", &[GFX906, GFX90A], &["-allow-missing-bundles"], Order::Any).0, 0);
}

#[test]
fn an_input_archive_is_checked() {
    let Some(lab) = Lab::with_llvm() else { return };
    let id = |features: &str| format!("{GFX90A}{features}");
    lab.write("good.o", &bundle(&[(HOST, b""), (&id(":xnack+"), b"1"), (&id(":xnack-"), b"2"), (GFX906, b"3")]));
    lab.write("bad.o", &bundle(&[(HOST, b""), (&id(":xnack+"), b"1"), (GFX90A, b"2")]));
    lab.write("worse.o", &bundle(&[(HOST, b""), (&id(":sramecc+"), b"1"), (&id(":xnack+"), b"2")]));
    lab.write("fewer.o", &bundle(&[(&id(":sramecc+:xnack+"), b"1"), (&id(":xnack+"), b"2")]));
    lab.archive("good.a", &["qcD"], &["good.o", "fewer.o", "good.o"]);
    assert_eq!(lab.compare("good.a", &[HOST], &["-check-input-archive"], Order::Same).0, 0);
    for bad in ["bad.o", "worse.o"] {
        lab.archive("bad.a", &["qcD"], &["good.o", bad]);
        assert_eq!(lab.compare("bad.a", &[HOST], &["-check-input-archive"], Order::Same).0, 1, "{bad}");
        assert_eq!(lab.compare("bad.a", &[HOST], &[], Order::Same).0, 0, "{bad}");
    }
}

#[test]
fn code_objects_that_do_not_parse() {
    let Some(lab) = Lab::with_llvm() else { return };
    let run = |content: &[u8]| {
        lab.write("lib.a", &make::archive(&[("m.o", &bundle(&[(HOST, b""), (GFX906, content)]))]));
        let arguments = ["-type=a", "-unbundle", "-input=lib.a", &format!("-targets={GFX906}")];
        let ours = lab.ours(&[&arguments[..], &["-output=ours.a"]].concat());
        let theirs = lab.reference(&[&arguments[..], &["-output=theirs.a"]].concat());
        assert_eq!(ours.status.code(), theirs.status.code());
        if ours.status.success() {
            assert_eq!(lab.read("ours.a"), lab.read("theirs.a"));
        }
        String::from_utf8_lossy(&ours.stderr).into_owned()
    };
    let broken = "clang-offload-bundler: error: 'lib.a': the symbols of the code object for \
                  'm-hip-amdgcn-amd-amdhsa--gfx906m.bc' cannot be read: ";
    assert!(run(b"\x7fELF\x02\x01\x01 and nothing that is a header").starts_with(broken));
    // Any data may begin like a COFF object, whatever its length: the first two bytes are a machine.
    for machine in [[0, 0], [0x64, 0x86], [0x64, 0xaa], [0x66, 1], [0xf0, 2], [0x90, 2], [0x4e, 0xa6], [0xf1, 1]] {
        for (len, filler) in [(2, 0), (3, 0), (4, 0), (15, b'x'), (19, 0), (20, 0), (40, b'x'), (64, 0)] {
            let mut content = vec![filler; len];
            content[..2].copy_from_slice(&machine);
            run(&content);
        }
    }
    let unread = run(&[&b"BC\xc0\xde"[..], &[0; 100]].concat());
    assert_eq!(unread, "warning: 'm-hip-amdgcn-amd-amdhsa--gfx906m.bc': expected the start of a block\n");
}

#[test]
fn module_assembly_is_in_the_index_though_llvm_crashes_on_it() {
    let Some(lab) = Lab::with_llvm() else { return };
    let module = "target triple = \"x86_64-unknown-linux-gnu\"\nmodule asm \".globl asm_symbol\"
        module asm \"asm_symbol: nop\"\ndefine void @f() { ret void }";
    lab.write("m.ll", module.as_bytes());
    lab.tool("opt", &["m.ll", "-o", "m.bc"]);
    lab.write("lib.a", &make::archive(&[("m.o", &bundle(&[(HOST, &lab.read("m.bc"))]))]));
    let unbundled = lab.ours(&["-type=a", "-unbundle", "-input=lib.a", &format!("-targets={HOST}"), "-output=o.a"]);
    assert!(unbundled.status.success());
    let index = lab.tool("llvm-nm", &["--print-armap", "o.a"]);
    assert!(index.starts_with("Archive map\nf in m-host-x86_64-unknown-linux-gnu-m.o\nasm_symbol in"), "{index}");
}

#[test]
fn a_listing_has_the_entries_of_all_members_in_order() {
    let lab = Lab::new();
    let inner = bundle(&[(HOST, b""), (GFX906, b"1")]);
    let two = [inner.clone(), vec![0; 5], bundle(&[("no entry ID", b"")])].concat();
    lab.write("lib.a", &make::archive(&[("a.o", &two), ("text", b"plain"), ("b.o", &bundle(&[(SM_70, b"x")]))]));
    let listed = lab.ours(&["-type=a", "-list", "-input=lib.a"]);
    let expected = format!("{HOST}\n{GFX906}\nno entry ID\n{SM_70}\n");
    assert_eq!((String::from_utf8_lossy(&listed.stdout).into_owned(), listed.status.code()), (expected, Some(0)));
    // A file that is not an archive is listed like a bundle.
    lab.write("bundle", &inner);
    let listed = lab.ours(&["-type=a", "-list", "-input=bundle"]);
    assert_eq!(String::from_utf8_lossy(&listed.stdout), format!("{HOST}\n{GFX906}\n"));
    assert!(lab.ours(&["-type=a", "-list", "-input=/dev/null"]).status.success());
}

#[test]
fn requests_are_compared_as_they_would_be_written() {
    let lab = Lab::new();
    let written = "openmp-x86_64-unknown-linux-gnu-";
    lab.write("lib.a", &make::archive(&[("a.o", &bundle(&[(HOST, b"host"), (written, b"cpu"), (SM_70, b"gpu")]))]));
    for typed in [written, "openmp-x86_64-linux-gnu", "openmp-x86_64-linux-gnu--", "openmp-amd64-linux-gnu-"] {
        let done = lab.ours(&["-type=a", "-unbundle", "-input=lib.a", "-output=o.a", &format!("-targets={typed}")]);
        assert_eq!((done.status.code(), done.stderr.as_slice()), (Some(0), &b""[..]), "{typed}");
        assert!(lab.read("o.a").windows(3).any(|part| part == b"cpu"), "{typed}");
    }
}

#[test]
fn a_name_that_llvm_drops_is_looked_for_without_it() {
    let lab = Lab::new();
    let (unnamed, new) = ("hip-amdgcn-amd-amdhsa--", "hip-amdgcn-amd-amdhsa--gfx1300");
    let (dropped, kept) =
        (bundle(&[(HOST, b""), (unnamed, b"dropped")]), bundle(&[(unnamed, b"other"), (new, b"kept")]));
    lab.write("lib.a", &make::archive(&[("a.o", &dropped), ("b.o", &kept)]));
    let done = lab.ours(&["-type=a", "-unbundle", "-input=lib.a", "-output=o.a", &format!("-targets={new}")]);
    let warning = format!("'{new}' gets the entry '{unnamed}', which names no processor\n");
    assert!(String::from_utf8_lossy(&done.stderr).ends_with(&warning), "{:?}", String::from_utf8_lossy(&done.stderr));
    let archive = lab.read("o.a");
    let holds = |content: &[u8]| archive.windows(content.len()).any(|part| part == content);
    assert!(holds(b"dropped") && holds(b"kept") && !holds(b"other"));
}

#[test]
fn outputs_of_an_archive_appear_together_or_not_at_all() {
    let lab = Lab::new();
    lab.write("lib.a", &make::archive(&[("b.o", &bundle(&[(HOST, b"h"), (GFX906, b"1")]))]));
    lab.write("old.a", b"as it was");
    let targets = format!("-targets={HOST},{GFX906},{GFX90A}");
    let run = ["-type=a", "-unbundle", "-input=lib.a", "-output=old.a", "-output=new.a", "-output=other.a", &targets];
    assert_eq!(lab.ours(&run).status.code(), Some(1));
    assert_eq!(lab.read("old.a"), b"as it was");
    assert_eq!(fs::read_dir(lab.dir.path()).unwrap().count(), 2);
}

#[test]
fn names_of_members_are_names_and_not_paths() {
    let lab = Lab::new();
    let name = b"../../evil/\xe9 .o/\n";
    let mut archive = b"!<arch>\n".to_vec();
    archive.extend(format!("{:<48}{:<10}`\n", "//", name.len()).bytes());
    archive.extend(name);
    archive.resize(archive.len().next_multiple_of(2), b'\n');
    let inner = bundle(&[(HOST, b"")]);
    archive.extend(archive_header("/0", inner.len()).bytes());
    archive.extend(&inner);
    lab.write("lib.a", &archive);
    let run = ["-type=a", "-unbundle", "-input=lib.a", "-output=o.a", &format!("-targets={HOST}")];
    assert!(lab.ours(&run).status.success());
    let mut read = ar::Archive::new(fs::File::open(lab.path("o.a")).unwrap());
    let expected = b"\xe9 -host-x86_64-unknown-linux-gnu-\xe9 .o";
    assert_eq!(read.next_entry().unwrap().unwrap().header().identifier(), expected);
    if lab.llvm.join("clang-offload-bundler").exists() {
        assert!(lab.reference(&[&run[..3], &["-output=r.a"], &run[4..]].concat()).status.success());
        assert_eq!(lab.read("r.a"), lab.read("o.a"));
    }
}

#[test]
fn a_thin_archive_with_more_members_than_open_files() {
    let lab = Lab::new();
    let content = bundle(&[(HOST, b""), (GFX906, b"1")]);
    let mut names = String::new();
    let mut headers = String::new();
    for number in 0..1500 {
        headers += &archive_header(&format!("/{}", names.len()), content.len());
        names += &format!("{number}.o/\n");
        lab.write(&format!("m/{number}.o"), &content);
    }
    names += if names.len() % 2 == 1 { "\n" } else { "" };
    let thin = ["!<thin>\n", &format!("{:<48}{:<10}`\n", "//", names.len()), &names, &headers].concat();
    lab.write("m/lib.a", thin.as_bytes());
    let run = ["-type=a", "-unbundle", "-input=m/lib.a", "-output=o.a", &format!("-targets={GFX906}")];
    let unbundled = lab.ours(&run);
    assert_eq!(String::from_utf8_lossy(&unbundled.stderr), "");
    assert_eq!(members(&lab.path("o.a")).len(), 1500);
    fs::remove_file(lab.path("m/7.o")).unwrap();
    let error = String::from_utf8_lossy(&lab.ours(&run).stderr).into_owned();
    assert_eq!(error, "clang-offload-bundler: error: 'm/7.o': No such file or directory\n");
}

#[test]
fn damage_is_reported_with_its_place_and_nothing_is_written() {
    use offload_bundle::id::EntryId;
    use offload_bundle::llvm::UnbundleArchive;
    let lab = Lab::new();
    let members =
        [("a.o", bundle(&[(HOST, b"h"), (GFX906, b"BC\xc0\xde 12345678901234")])), ("b.o", bundle(&[(GFX906, b"1")]))];
    let archive = make::archive(&members.each_ref().map(|(name, content)| (*name, content.as_slice())));
    let run = |data: &[u8]| {
        lab.write("lib.a", data);
        let requests = vec![(EntryId::parse(GFX906).unwrap(), lab.path("o.a"))];
        let mut job = UnbundleArchive::new(lab.path("lib.a"), requests);
        job.check = true;
        let result = job.run(&mut |_| {});
        let written = fs::remove_file(lab.path("o.a")).is_ok();
        assert_eq!(written, result.is_ok());
        result.map_err(|error| error.to_string())
    };
    assert_eq!(run(&archive), Ok(()));
    for end in 0..archive.len() {
        drop(run(&archive[..end]));
        let mut flipped = archive.clone();
        flipped[end] ^= 0xff;
        drop(run(&flipped));
        flipped[end] ^= 0xfe;
        drop(run(&flipped));
    }
    let mut inner = archive.clone();
    inner[8 + 60 + 24] = 9;
    let error = run(&inner).unwrap_err();
    assert!(
        error.ends_with(
            "lib.a(a.o)': entry count 9 at offset 92 is too large: the data ends at offset 227, which leaves room for 5"
        ),
        "{error}"
    );
    let cut = run(&archive[..archive.len() - 3]).unwrap_err();
    assert!(cut.contains("the archive member 'b.o' needs"), "{cut}");
}

#[test]
fn headers_of_members_and_the_end_are_read_as_llvm_does() {
    let Some(lab) = Lab::with_llvm() else { return };
    let content = bundle(&[(HOST, b"h"), (GFX906, b"code")]);
    let run = |archive: &[u8]| {
        lab.write("lib.a", archive);
        let arguments =
            ["-type=a", "-unbundle", "-input=lib.a", &format!("-targets={GFX906}"), "-allow-missing-bundles"];
        let outputs = [
            ("ours.a", lab.ours(&[&arguments[..], &["-output=ours.a"]].concat())),
            ("theirs.a", lab.reference(&[&arguments[..], &["-output=theirs.a"]].concat())),
        ];
        outputs.map(|(name, output)| output.status.success().then(|| lab.read(name)))
    };
    let whole = make::archive(&[("m.o", &content)]);
    let [sound, _] = run(&whole);
    assert!(sound.is_some());
    let with = |at: usize, width: usize, field: &str| {
        let mut archive = whole.clone();
        archive[8 + at..8 + at + width].copy_from_slice(format!("{field:<width$}").as_bytes());
        archive
    };
    let len = content.len();
    for (at, width) in [(0, 16), (16, 12), (28, 6), (34, 6), (40, 8), (48, 10), (58, 2)] {
        let number = if at == 48 { len.to_string() } else { "7".to_owned() };
        let fields = ["", "A", "9", "\0", " 9", "   A", "\t", "\u{7f}"].map(|more| format!("{number}{more}"));
        let others = [String::new(), format!(" {number}"), format!("+{number}"), format!("0{number}")];
        let names = ["/x", "#1/", "#1/x", "/7", "/0 9", "#1/1", "#1/1 9"].map(str::to_owned);
        let fields = fields.into_iter().chain(others).chain(names.into_iter().filter(|_| at == 0));
        for field in fields.filter(|field| field.len() <= width) {
            let changed = with(at, width, &field);
            if at == 48 && field == format!("{number}9") {
                // LLVM ends silently at a member that is cut short.
                continue;
            }
            let [ours, theirs] = run(&changed);
            assert_eq!(ours.is_some(), theirs.is_some(), "{field:?} at {at}");
            // Control characters in names become `_`, and a name without `/` ends at a space.
            let is_odd_name = at == 0 && field.contains(|c: char| c.is_control() || c == ' ');
            assert!(ours == theirs || is_odd_name, "{field:?} at {at}");
        }
    }
    let zeros = "\0".repeat(200);
    for padding in ["\n", "\n\n", "\0", &zeros[..8], &zeros[..59], &zeros[..60], &zeros] {
        let [ours, theirs] = run(&[&whole, padding.as_bytes()].concat());
        assert_eq!(ours, sound, "{padding:?}");
        assert_eq!(ours, theirs, "{padding:?}");
        let [ours, theirs] = run(&[b"!<arch>\n", padding.as_bytes()].concat());
        assert_eq!((ours, theirs), (None, None), "{padding:?}");
    }
    for lost in ["m.o/", " ", "\n\nm.o", &archive_header("m.o/", 4)[..59]] {
        let [ours, theirs] = run(&[&whole, lost.as_bytes()].concat());
        assert_eq!((ours, theirs.is_some()), (None, true), "{lost:?}");
    }
}

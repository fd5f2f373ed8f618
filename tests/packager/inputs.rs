//! Files with embedded offload binaries: objects, linked files, bitcode, and archives of all dialects.

use crate::machine::memory_directory;
use std::fs;
use std::path::Path;
use std::process::Command;

use super::{call, llvm, packager};
use crate::reference::harness::{Case, Report, Tools};

const ALL: &str = "--image=no such key=";

/// Host targets: ELF of both widths and byte orders, and COFF.
const ELF: &[&str] =
    &["x86_64-linux-gnu", "i686-linux-gnu", "aarch64-linux-gnu", "s390x-linux-gnu", "powerpc64-linux-gnu"];
const COFF: &[&str] = &["x86_64-windows-msvc", "i686-windows-msvc", "aarch64-windows-msvc"];

/// A directory for generated files, and the tools that generate them.
pub struct Shop<'t> {
    pub tools: &'t Tools,
    dir: tempfile::TempDir,
}

impl<'t> Shop<'t> {
    /// Creates an offload binary for each of two GPUs, `gfx906.off` and `gfx90a.off`, and one for both.
    pub fn open(tools: &'t Tools) -> Self {
        let shop = Self { tools, dir: memory_directory() };
        let image = |gpu: &str| format!("--image=file={gpu}.o,triple=amdgcn-amd-amdhsa,arch={gpu},kind=hip");
        for gpu in ["gfx906", "gfx90a"] {
            shop.write(&format!("{gpu}.o"), format!("code object for {gpu}").as_bytes());
            shop.make(super::NAME, &["-o", &format!("{gpu}.off"), &image(gpu)]);
        }
        shop.make(super::NAME, &["-o", "both.off", &image("gfx906"), &image("gfx90a")]);
        shop
    }

    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub fn write(&self, name: &str, data: &[u8]) {
        fs::write(self.dir().join(name), data).unwrap();
    }

    pub fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.dir().join(name)).unwrap()
    }

    pub fn make(&self, program: &str, args: &[&str]) {
        call(self.tools, self.dir(), program, args);
    }

    /// Compiles a function with this name, with embedded offload binaries.
    pub fn compile(&self, target: &str, function: &str, offload: &[&str], more: &[&str]) -> String {
        let output = format!("{function}-{target}.o");
        let start = if target.contains("windows") { "_DllMainCRTStartup" } else { "_start" };
        let source =
            format!("int {function}(void) {{ return 1; }}\n#ifdef START\nint {start}(void) {{ return 1; }}\n#endif\n");
        self.write("source.c", source.as_bytes());
        let embed: Vec<String> = offload.iter().map(|name| format!("-fembed-offload-object={name}.off")).collect();
        let embed: Vec<&str> = embed.iter().flat_map(|option| ["-Xclang", option]).collect();
        self.make("clang", &[&["-target", target, "-c", "source.c", "-o", &output], embed.as_slice(), more].concat());
        output
    }

    /// A case with this input file and requests.
    fn case(&self, name: &str, args: &[&str]) -> Case {
        packager(&[&[name], args].concat()).file(name, self.read(name))
    }
}

/// All kinds of requests for images.
const REQUESTS: &[&[&str]] =
    &[&[ALL], &[], &["--image=arch=gfx90a,file=out"], &["--image=kind=hip,file=out"], &["--image=arch=none"]];

fn objects(shop: &Shop<'_>) -> Vec<String> {
    let mut names = Vec::new();
    for target in ELF.iter().chain(COFF) {
        names.push(shop.compile(target, "one", &["gfx906"], &[]));
    }
    names.push(shop.compile("x86_64-linux-gnu", "pair", &["gfx906", "gfx90a"], &[]));
    names.push(shop.compile("x86_64-linux-gnu", "sequence", &["both"], &["-g"]));
    names.push(shop.compile("x86_64-windows-msvc", "pair", &["gfx906", "gfx90a"], &[]));
    names.push(shop.compile("x86_64-windows-msvc", "large", &["gfx906"], &["-Wa,-mbig-obj"]));
    names.push(shop.compile("x86_64-linux-gnu", "nothing", &[], &[]));
    // Linkers merge them into one section with aligned parts.
    let x86 = "x86_64-linux-gnu";
    let other = shop.compile(x86, "other", &["gfx90a"], &["-DSTART"]);
    shop.make("ld.lld", &["-r", "one-x86_64-linux-gnu.o", &other, "-o", "merged-lld.o"]);
    let mut gnu = Command::new("ld");
    gnu.args(["-r", "one-x86_64-linux-gnu.o", &other, "-o", "merged-gnu.o"]);
    if gnu.current_dir(shop.dir()).status().is_ok_and(|status| status.success()) {
        names.push("merged-gnu.o".to_owned());
    }
    names.push("merged-lld.o".to_owned());
    // Linkers drop the section from their output, so llvm-objcopy adds it.
    for (output, args) in [("lib.so", &["-shared"][..]), ("program", &[])] {
        shop.make("ld.lld", &[args, &[&other, "-o", "linked"]].concat());
        let section = ["--add-section=.llvm.offloading=both.off", "--set-section-type=.llvm.offloading=0x6fff4c0b"];
        shop.make("llvm-objcopy", &[&section[..], &["linked", output]].concat());
        names.push(output.to_owned());
    }
    names
}

fn compare_bitcode(report: &mut Report, shop: &Shop<'_>) {
    let targets = ["x86_64-linux-gnu", "x86_64-windows-msvc", "x86_64-apple-darwin", "powerpc64-linux-gnu"];
    for (number, target) in targets.into_iter().enumerate() {
        for (offload, more) in [(&["gfx906"][..], &[][..]), (&["gfx906", "gfx90a", "both"], &["-g", "-O2"])] {
            let name = shop.compile(target, "bitcode", offload, &[&["-emit-llvm"], more].concat());
            for args in &REQUESTS[..if number == 0 { REQUESTS.len() } else { 1 }] {
                report.compare(shop.tools, &shop.case(&name, args));
            }
        }
    }
    let cut = shop.read("bitcode-x86_64-linux-gnu.o");
    for len in [8, 100, cut.len() / 2, cut.len() - 4] {
        report.compare(shop.tools, &packager(&["in", ALL]).file("in", &cut[..len]));
    }
}

fn compare_archives(report: &mut Report, shop: &Shop<'_>) {
    let bitcode = shop.compile("x86_64-linux-gnu", "code", &["gfx90a"], &["-emit-llvm"]);
    let long = "a-name-that-is-longer-than-the-field-for-it.o";
    shop.write(long, &shop.read("one-x86_64-linux-gnu.o"));
    shop.write("text", b"no code");
    let members = ["pair-x86_64-linux-gnu.o", long, "both.off", "text", &bitcode, "nothing-x86_64-linux-gnu.o"];
    for (name, flags) in [
        ("gnu.a", &["rcD", "--format=gnu"][..]),
        ("bsd.a", &["rcD", "--format=bsd"]),
        ("darwin.a", &["rcD", "--format=darwin"]),
        ("coff.lib", &["rcD", "--format=coff"]),
        ("no-index.a", &["rcDS"]),
        ("thin.a", &["rcD", "--thin"]),
        ("empty.a", &["rcD"]),
    ] {
        let members = if name == "empty.a" { &[][..] } else { &members };
        shop.make("llvm-ar", &[flags, &[name], members].concat());
        let with_members = |mut case: Case| {
            for member in members.iter().filter(|_| name == "thin.a") {
                case = case.file(*member, shop.read(member));
            }
            case
        };
        for args in REQUESTS {
            report.compare(shop.tools, &with_members(shop.case(name, args)));
        }
        if name == "empty.a" {
            continue;
        }
        let archived = with_members(shop.case(name, &["--archive", "--image=kind=hip,file=out.a"]));
        report.compare(shop.tools, &archived);
    }
    shop.make("llvm-ar", &["rcD", "outer.a", "gnu.a", "one-x86_64-linux-gnu.o"]);
    report.compare(shop.tools, &shop.case("outer.a", &[ALL]));
    let thin = shop.case("thin.a", &[ALL]);
    report.compare(shop.tools, &thin);
    let cut = shop.read("gnu.a");
    for len in [9, 30, 68, cut.len() / 2, cut.len() - 1] {
        report.compare(shop.tools, &packager(&["in.a", ALL]).file("in.a", &cut[..len]));
    }
    for more in [&b"\n"[..], b"\0\0\0\0\0\0\0\0", b"\n\n", b"junk", &[0; 60]] {
        report.compare(shop.tools, &packager(&["in.a", ALL]).file("in.a", [&cut, more].concat()));
        report.compare(shop.tools, &packager(&["in.a", ALL]).file("in.a", [b"!<arch>\n", more].concat()));
    }
}

/// Compares members with characters other than digits in one field of the header, in the first and in the second
/// member.
fn compare_member_headers(report: &mut Report, shop: &Shop<'_>) {
    let sound = format!("{:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\ntext", "m.o/", 0, 0, 0, 644, 4);
    for (at, width) in [(0, 16), (16, 12), (28, 6), (34, 6), (40, 8), (48, 10)] {
        let numbers = ["4", "4 A", "4 9", "4\0", " 4", "", "+4", "04", "4\t", "x"];
        let names = ["/x", "#1/", "#1/x", "/7", "#1/2", "#1/2 9"];
        for field in numbers.iter().chain(names.iter().filter(|_| at == 0)) {
            let mut member = sound.clone();
            member.replace_range(at..at + width, &format!("{field:<width$}"));
            for before in ["", &sound] {
                let archive = ["!<arch>\n", before, &member].concat();
                report.compare(shop.tools, &packager(&["in.a", ALL]).file("in.a", archive.into_bytes()));
            }
        }
    }
}

/// Data that begins like a COFF object for each machine, of every length up to that of its headers.
fn compare_coff_heads(report: &mut Report, shop: &Shop<'_>) {
    let machines = [
        0x0000, 0x014c, 0x024c, 0x0150, 0x0166, 0x0184, 0x01c4, 0x01f0, 0x01f1, 0x02f0, 0x0168, 0x0268, 0x0290, 0x8664,
        0xaa64, 0xa641, 0xa64e, 0x6486, 0xffff_u16,
    ];
    for machine in machines {
        for filler in [0, b't'] {
            for len in [2, 3, 4, 8, 19, 20, 21, 40] {
                let mut head = vec![filler; len];
                head[..2].copy_from_slice(&machine.to_le_bytes());
                report.compare(shop.tools, &packager(&["in", ALL]).file("in", head));
            }
        }
    }
    // Number of sections, symbols and the length of the optional header; import objects, resources.
    for (at, bytes) in [
        (2, &[1][..]),
        (2, &[0xff, 0xff]),
        (12, &[1]),
        (16, &[20]),
        (16, &[21]),
        (4, b"\x20\0\0\0\xff\xff\0\0\xff\xff"),
    ] {
        for machine in [0, 0x8664_u16] {
            let mut head = vec![0; 40];
            head[..2].copy_from_slice(&machine.to_le_bytes());
            head[at..at + bytes.len()].copy_from_slice(bytes);
            report.compare(shop.tools, &packager(&["in", ALL]).file("in", head));
        }
    }
}

/// PE files, which LLVM does not search.
fn compare_windows(report: &mut Report, shop: &Shop<'_>) {
    if !llvm(shop.tools).join("lld-link").exists() {
        return crate::machine::skip("PE files", "lld-link is not installed");
    }
    for (target, machine) in
        [("x86_64-windows-msvc", "x64"), ("i686-windows-msvc", "x86"), ("aarch64-windows-msvc", "arm64")]
    {
        let object = shop.compile(target, "start", &["gfx906"], &["-DSTART"]);
        let machine = format!("/machine:{machine}");
        let entry = ["/nodefaultlib", "/subsystem:console", "/entry:start", &machine, "/safeseh:no"];
        for (output, more) in [("program.exe", &[][..]), ("library.dll", &["/dll", "/noentry", "/force"])] {
            let out = format!("/out:{output}");
            shop.make("lld-link", &[&entry[..], &[&object, &out], more].concat());
            shop.make("llvm-objcopy", &["--add-section=.llvm.offloading=both.off", output, "in.bin"]);
            let gpu = |gpu: &str| format!("code object for {gpu}").into_bytes();
            let case = shop.case("in.bin", &[ALL]);
            let case = case.wants("in-amdgcn-amd-amdhsa-gfx906.0.o", gpu("gfx906"));
            report.compare(shop.tools, &case.wants("in-amdgcn-amd-amdhsa-gfx90a.1.o", gpu("gfx90a")));
            let case = shop.case("in.bin", &["--image=arch=gfx90a,file=out"]).wants("out", gpu("gfx90a"));
            report.compare(shop.tools, &case);
        }
    }
}

pub fn compare(report: &mut Report, tools: &Tools) {
    let shop = Shop::open(tools);
    for name in objects(&shop) {
        let requests = if name.starts_with("one") { &REQUESTS[..1] } else { REQUESTS };
        for args in requests {
            report.compare(tools, &shop.case(&name, args));
        }
    }
    compare_bitcode(report, &shop);
    compare_archives(report, &shop);
    compare_member_headers(report, &shop);
    compare_coff_heads(report, &shop);
    compare_windows(report, &shop);
}

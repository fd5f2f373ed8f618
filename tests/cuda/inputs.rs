//! Files with fatbins in every form that NVIDIA's tools and clang write. They are made from a kernel of ten lines.

use crate::machine::memory_directory;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use super::oracle::{self, Row};
use super::tools::{self, Tools};
use crate::properties::make::{self, DEFLATED, STORED, Zipped};
use crate::reference::formats;
use crate::subcommands::{llvm, must};

/// A file that holds device code.
pub struct Input {
    pub name: String,
    pub data: Vec<u8>,
    /// The code objects for NVIDIA's GPUs, in file order.
    pub rows: Vec<Row>,
    /// Whether cuobjdump reads files of this format.
    pub oracle: bool,
}

const KERNEL: &str = "
.version 9.0
.target {target}
.address_size 64
.visible .global .align 4 .u32 table[{len}] = { {table} };
.visible .entry add_three(.param .u64 data)
{
  .reg .b32 %r<3>;
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [data];
  cvta.to.global.u64 %rd2, %rd1;
  ld.global.u32 %r1, [%rd2];
  add.s32 %r2, %r1, 3;
  st.global.u32 [%rd2], %r2;
  ret;
}
";

const CUDA: &str = "
struct dim3 { unsigned x, y, z; };
extern \"C\" int cudaLaunchKernel(const void *, dim3, dim3, void **, unsigned long, void *);
__attribute__((global)) void add(int *data) { data[0] += 3; }
";

/// Stubs for the functions of CUDA's runtime that clang's registration code calls.
const RUNTIME: &str = "
void *__cudaRegisterFatBinary(void *wrapper) { return wrapper; }
void __cudaRegisterFatBinaryEnd() {}
void __cudaUnregisterFatBinary() {}
void __cudaRegisterFunction() {}
void __cudaRegisterVar() {}
void __cudaRegisterManagedVar() {}
void __cudaRegisterSurface() {}
void __cudaRegisterTexture() {}
int __cudaPushCallConfiguration() { return 0; }
int __cudaPopCallConfiguration() { return 0; }
int cudaLaunchKernel() { return 0; }
int main() { return 0; }
";

/// The architectures of the kernel: without suffix, architecture-specific and family-specific. Cubins for `sm_100` and
/// up have attributes in their entries.
const CUBINS: &[&str] = &["75", "90", "90a", "100f", "103a", "120", "121"];
const PTX: &[&str] = &["75", "90a", "100f"];

/// The options of `fatbinary`.
const FORMS: &[(&str, &[&str])] = &[
    ("default", &[]),
    ("plain", &["--compress=false"]),
    ("compressed", &["--compress-all"]),
    ("none", &["--compress-mode=none"]),
    ("speed", &["--compress-mode=speed"]),
    ("balance", &["--compress-mode=balance"]),
    ("size", &["--compress-mode=size"]),
    ("speed-all", &["--compress-mode=speed", "--compress-all"]),
    ("balance-all", &["--compress-mode=balance", "--compress-all"]),
    ("concat", &["--concat"]),
    ("concat-all", &["--concat", "--compress-all"]),
    ("concat-speed", &["--concat", "--compress-mode=speed"]),
    ("concat-speed-all", &["--concat", "--compress-mode=speed", "--compress-all"]),
    ("concat-size", &["--concat", "--compress-mode=size"]),
    ("concat-ident", &["--concat", "--ident=source.cu", "--cmdline=-O1"]),
    ("ident", &["--ident=dir/my source.cu"]),
    ("cmdline", &["--cmdline=-O3 --maxrregcount=32"]),
    ("ident-cmdline", &["--ident=a.cu", "--cmdline=-v", "--compress-all"]),
    ("debug", &["--debug"]),
    ("debug-plain", &["--debug", "--compress=false"]),
    ("relocatable", &["--device-c"]),
    ("linked", &["--link"]),
];

/// Fatbins in a section each of an object: two one after the other, a gap, and one more; then one that is linked later.
/// `{a}` and `{w}` stand for the attributes of sections that are read and written.
const OBJECT: &str = "
 .section .nv_fatbin,\"{a}\"
 .p2align 3
first: .incbin \"compressed.fatbin\"
second: .incbin \"default.fatbin\"
 .zero 4096
third: .incbin \"speed.fatbin\"
 .section .nvFatBinSegment,\"{w}\"
 .p2align 3
 .long 0x466243b1, 1
 .quad first, 0
 .long 0x466243b1, 1
 .quad second, 0
 .long 0x466243b1, 1
 .quad third, 0
 .section __nv_relfatbin,\"{a}\"
 .p2align 3
 .incbin \"ident.fatbin\"
";

/// Returns all inputs, or `None` if NVIDIA's tools or LLVM 22 are missing.
pub fn inputs(test: &str) -> Option<&'static [Input]> {
    static INPUTS: OnceLock<Vec<Input>> = OnceLock::new();
    let tools = Tools::find(test)?;
    llvm(test, "clang")?;
    Some(INPUTS.get_or_init(|| Maker::new(tools).all()))
}

struct Maker {
    tools: Tools,
    dir: tempfile::TempDir,
    inputs: Vec<Input>,
}

impl Maker {
    fn new(tools: Tools) -> Self {
        Self { tools, dir: memory_directory(), inputs: Vec::new() }
    }

    fn all(mut self) -> Vec<Input> {
        self.images();
        self.fatbins();
        self.elf_files();
        self.pe_files();
        self.clang();
        self.offload_binaries();
        self.collections();
        self.inputs
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn data(&self, name: &str) -> Vec<u8> {
        fs::read(self.path().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// The rows of these inputs, one after another.
    fn rows_of(&self, names: &[&str]) -> Vec<Row> {
        let find = |name: &&str| &self.inputs.iter().find(|input| input.name == *name).unwrap().rows;
        names.iter().flat_map(find).cloned().collect()
    }

    fn add(&mut self, name: &str, oracle: bool, data: Vec<u8>, rows: Vec<Row>) {
        fs::write(self.path().join(name), &data).unwrap();
        self.inputs.push(Input { name: name.to_owned(), data, rows, oracle });
    }

    /// Adds a file that cuobjdump reads, and its list.
    fn listed(&mut self, name: &str, data: Vec<u8>) -> &[Row] {
        let rows = oracle::rows(&self.tools, name, &data);
        self.add(name, true, data, rows);
        &self.inputs.last().unwrap().rows
    }

    /// Runs a program of LLVM's. It finds NVIDIA's programs in the directory `cuda`, and on the PATH.
    fn llvm(&self, program: &str, args: &[&str]) {
        let mut command = Command::new(llvm("inputs with fatbins", program).unwrap());
        let path = std::env::var("PATH").unwrap_or_default();
        let path = format!("{}:{path}", self.path().join("cuda/bin").display());
        must(command.args(args).current_dir(self.path()).env("PATH", path));
    }

    /// PTX and cubins. The files are named by GPU.
    fn images(&mut self) {
        for (prefix, len) in [("", 4), ("large-", 60_000)] {
            for arch in PTX {
                fs::write(self.path().join(format!("{prefix}{arch}.ptx")), kernel(&format!("sm_{arch}"), len)).unwrap();
            }
            for arch in CUBINS {
                self.ptxas(&[], arch, prefix, &format!("{prefix}{arch}.cubin"));
            }
        }
        self.ptxas(&["-g"], "90", "", "debug.cubin");
        self.ptxas(&["-c"], "120", "", "relocatable.cubin");
        for name in ["75.cubin", "90a.cubin", "100f.cubin", "debug.cubin", "relocatable.cubin"] {
            let arch = match name {
                "debug.cubin" => "sm_90",
                "relocatable.cubin" => "sm_120",
                "90a.cubin" => "sm_90a",
                // A cubin does not record that it is for a family.
                _ => &format!("sm_{}", name.trim_end_matches(".cubin").trim_end_matches(char::is_alphabetic)),
            };
            let (data, row) = (self.data(name), Row::new(arch, &self.data(name)));
            self.add(name, false, data, vec![row]);
        }
    }

    fn ptxas(&self, options: &[&str], arch: &str, prefix: &str, output: &str) {
        let args = [&format!("--gpu-name=sm_{arch}"), &format!("{prefix}75.ptx"), "-o", output];
        tools::run(&self.tools.ptxas, self.path(), &[options, &args].concat());
    }

    /// Makes a fatbin of files named by kind and GPU.
    fn fatbin(&mut self, name: &str, options: &[&str], images: &[String]) {
        let create = format!("--create={name}");
        let mut args = vec![create.as_str()];
        args.extend(options);
        let images: Vec<String> = images.iter().map(|file| image(file)).collect();
        args.extend(images.iter().map(String::as_str));
        tools::run(&self.tools.fatbinary, self.path(), &args);
        let data = self.data(name);
        assert_eq!(self.listed(name, data).len(), images.len(), "{name}");
    }

    fn fatbins(&mut self) {
        let all = |prefix: &str| -> Vec<String> {
            let cubins = CUBINS.iter().map(|arch| format!("{prefix}{arch}.cubin"));
            cubins.chain(PTX.iter().map(|arch| format!("{prefix}{arch}.ptx"))).collect()
        };
        for (form, options) in FORMS {
            self.fatbin(&format!("{form}.fatbin"), &[&["--64"], *options].concat(), &all(""));
        }
        for form in ["--compress=false", "--compress-mode=speed", "--compress-mode=size", "--concat"] {
            let name = format!("large{}.fatbin", form.trim_start_matches('-').replace('=', "-"));
            self.fatbin(&name, &["--64", "--compress-all", form], &all("large-"));
        }
        let names = |names: &[&str]| -> Vec<String> { names.iter().map(|&name| name.to_owned()).collect() };
        self.fatbin("order.fatbin", &["--64"], &names(&["90a.ptx", "90.cubin", "75.cubin"]));
        self.fatbin("twice.fatbin", &["--64"], &names(&["75.cubin", "75.cubin"]));
        self.fatbin("32.fatbin", &["--32"], &names(&["75.ptx"]));
        self.fatbin("one.fatbin", &["--64"], &names(&["90a.cubin"]));
        self.add("empty.fatbin", false, fatbin(&[]), Vec::new());
        self.unusual();
    }

    /// Fatbins that these tools do not write but cuobjdump reads.
    fn unusual(&mut self) {
        let cubin = self.data("120.cubin");
        let zlib = entry(2, 120, ZLIB, cubin.len(), &zlib(&cubin));
        let last = entry(2, 75, 0, 0, &self.data("75.cubin"));
        self.listed("zlib.fatbin", fatbin(&[zlib, last.clone()]));
        // A kind that cuobjdump does not know either.
        self.listed("unknown.fatbin", fatbin(&[entry(77, 90, 0, 0, b"something"), last.clone()]));
        // LTO-IR is obfuscated after compression.
        let lto = entry(8, 75, OBFUSCATED | ZSTD, 2056, b"not a zstd frame");
        self.add("lto.fatbin", false, fatbin(&[lto, last]), vec![Row::new("sm_75", &self.data("75.cubin"))]);
        let (first, second) = (self.data("compressed.fatbin"), self.data("order.fatbin"));
        self.listed("two.fatbin", [first.as_slice(), &second].concat());
        for gap in [8, 64, 4096] {
            self.listed(&format!("gap-{gap}.fatbin"), [&first, &vec![0; gap][..], &second].concat());
        }
    }

    fn elf_files(&mut self) {
        let stack = " .section .note.GNU-stack,\"\",@progbits\n";
        let source = OBJECT.replace("{a}", "a").replace("{w}", "aw") + stack;
        fs::write(self.path().join("kernel.s"), source).unwrap();
        fs::write(self.path().join("main.c"), RUNTIME).unwrap();
        let relocatable = " .section __nv_relfatbin,\"a\"\n .incbin \"relocatable.fatbin\"\n".to_owned() + stack;
        fs::write(self.path().join("later.s"), relocatable).unwrap();
        let names: &[(&str, &[&str])] = &[
            ("kernel.o", &["-c", "kernel.s"]),
            ("later.o", &["-c", "later.s"]),
            ("main.o", &["-c", "main.c"]),
            ("libkernel.so", &["-shared", "kernel.o"]),
            ("libkernel-lld.so", &["-shared", "-fuse-ld=lld", "kernel.o"]),
            ("libkernel-relr.so", &["-shared", "-fuse-ld=lld", "-Wl,-z,pack-relative-relocs", "kernel.o"]),
            ("program", &["kernel.o", "main.o"]),
        ];
        for (name, args) in names {
            self.llvm("clang", &[args, &["-o", name][..]].concat());
            if *name != "main.o" {
                let rows = if *name == "later.o" {
                    self.rows_of(&["relocatable.fatbin"])
                } else {
                    self.rows_of(&["compressed.fatbin", "default.fatbin", "speed.fatbin", "ident.fatbin"])
                };
                self.add(name, true, self.data(name), rows);
            }
        }
        self.with_hip();
    }

    /// A library with code for both vendors.
    fn with_hip(&mut self) {
        let ids = ["host-x86_64-unknown-linux-gnu-", "hipv4-amdgcn-amd-amdhsa--gfx90a"];
        let bundle = formats::binary(&[(ids[0], b""), (ids[1], b"code object")], 4096);
        fs::write(self.path().join("bundle"), bundle).unwrap();
        let add = ["--add-section", ".hip_fatbin=bundle", "libkernel.so", "libboth.so"];
        self.llvm("llvm-objcopy", &add);
        let rows = self.rows_of(&["libkernel.so"]);
        self.add("libboth.so", true, self.data("libboth.so"), rows);
    }

    /// cuobjdump does not read files for Windows.
    fn pe_files(&mut self) {
        fs::write(self.path().join("windows.s"), OBJECT.replace("{a}", "dr").replace("{w}", "dw")).unwrap();
        self.llvm("clang", &["--target=x86_64-w64-windows-gnu", "-c", "windows.s", "-o", "kernel.obj"]);
        // Names of sections are cut to eight characters.
        self.llvm("lld-link", &["/dll", "/noentry", "/opt:noref", "/out:kernel.dll", "kernel.obj"]);
        for name in ["kernel.obj", "kernel.dll"] {
            let rows = self.rows_of(&["kernel.o"]);
            self.add(name, false, self.data(name), rows);
        }
    }

    /// Objects and a program by both drivers of clang 22.
    fn clang(&mut self) {
        let home = self.path().join("cuda");
        for (name, tool) in
            [("ptxas", &self.tools.ptxas), ("fatbinary", &self.tools.fatbinary), ("nvlink", &self.tools.nvlink)]
        {
            fs::create_dir_all(home.join("bin")).unwrap();
            symlink(tool, home.join("bin").join(name)).unwrap();
        }
        for directory in ["include", "lib64", "nvvm/libdevice"] {
            fs::create_dir_all(home.join(directory)).unwrap();
        }
        fs::write(home.join("include/cuda.h"), "#define CUDA_VERSION 12090\n").unwrap();
        fs::write(home.join("nvvm/libdevice/libdevice.10.bc"), "").unwrap();
        fs::write(self.path().join("add.cu"), CUDA).unwrap();
        let common =
            ["-x", "cuda", "add.cu", "-nocudainc", "-nocudalib", "--cuda-path=cuda", "-Wno-unknown-cuda-version"];
        let archs = ["--offload-arch=sm_75", "--offload-arch=sm_90", "-fPIC", "-c", "-o"];
        let compile = |maker: &Self, name: &str, more: &[&str]| {
            maker.llvm("clang", &[&common[..], &archs, &[name], more].concat());
        };
        for driver in ["--no-offload-new-driver", "--offload-new-driver"] {
            let name = format!("clang{}.o", driver.trim_end_matches("-driver").replace("--", "-"));
            compile(self, &name, &[driver]);
            let data = self.data(&name);
            self.listed(&name, data);
        }
        compile(self, "clang-relocatable.o", &["--no-offload-new-driver", "-fgpu-rdc"]);
        self.listed("clang-relocatable.o", self.data("clang-relocatable.o"));
        // An offload binary until it is linked.
        compile(self, "clang-later.o", &["--offload-new-driver", "-fgpu-rdc"]);
        let link = ["clang-later.o", "main.o", "--offload-link", "--cuda-path=cuda", "-Lcuda/lib64"];
        self.llvm("clang", &[&link[..], &["-Wno-unknown-cuda-version", "-o", "clang-program"]].concat());
        self.listed("clang-program", self.data("clang-program"));
    }

    fn offload_binaries(&mut self) {
        let image =
            |file: &str, arch: &str| format!("--image=file={file},triple=nvptx64-nvidia-cuda,arch={arch},kind=cuda");
        // The packager treats a file with this extension as PTX.
        fs::copy(self.path().join("90a.ptx"), self.path().join("90a.s")).unwrap();
        let images = [
            image("one.fatbin", "sm_90a"),
            image("75.cubin", "sm_75"),
            image("default.fatbin", "sm_90"),
            image("90a.s", "sm_90a"),
        ];
        let args = [&["-o", "images.bin"], &images.each_ref().map(String::as_str)[..]].concat();
        self.llvm("llvm-offload-binary", &args);
        // A fatbin is an image, and has images.
        let image = |arch, name| vec![Row::new(arch, &self.data(name))];
        let one = [image("sm_90a", "one.fatbin"), self.rows_of(&["one.fatbin", "75.cubin"])].concat();
        let default = [image("sm_90", "default.fatbin"), self.rows_of(&["default.fatbin"])].concat();
        let rows = [one, default, image("sm_90a", "90a.s")].concat();
        self.add("images.bin", false, self.data("images.bin"), rows);
    }

    /// Archives and a wheel.
    fn collections(&mut self) {
        let (kernel, clang, dll) =
            (self.data("kernel.o"), self.data("clang-no-offload-new.o"), self.data("kernel.dll"));
        let rows = self.rows_of(&["kernel.o", "clang-no-offload-new.o"]);
        let members: [(&str, &[u8]); 3] =
            [("kernel.o", &kernel), ("main.o", &self.data("main.o")), ("clang.o", &clang)];
        self.add("libkernel.a", true, make::archive(&members), rows.clone());
        let library = self.data("libkernel.so");
        let wheel = [
            Zipped::new("pkg/__init__.py", STORED, b""),
            Zipped::new("pkg/lib/libkernel.so", DEFLATED, &library),
            Zipped::new("pkg/lib/kernel.dll", DEFLATED, &dll),
            Zipped::new("pkg/kernels/one.fatbin", STORED, &self.data("one.fatbin")),
        ];
        let rows = self.rows_of(&["libkernel.so", "kernel.dll", "one.fatbin"]);
        self.add("pkg-1.0-py3-none-any.whl", false, make::zip(&wheel), rows);
    }
}

/// PTX for a GPU, with a table of numbers that do not compress well.
fn kernel(target: &str, len: u32) -> String {
    let mut table = String::from("1");
    for index in 1..len {
        write!(table, ", {}", index.wrapping_mul(2_654_435_761) >> 8).unwrap();
    }
    KERNEL.replace("{target}", target).replace("{len}", &len.to_string()).replace("{table}", &table)
}

/// The option for a file, whose name ends in the GPU and the kind.
fn image(file: &str) -> String {
    let (stem, kind) = file.rsplit_once('.').unwrap();
    let arch = stem.rsplit('-').next().unwrap();
    let kind = if kind == "ptx" { "ptx" } else { "elf" };
    format!("--image3=kind={kind},sm={arch},file={file}")
}

/// Flags of entries.
const ZLIB: u64 = 0x1000;
const ZSTD: u64 = 0x8000;
const OBFUSCATED: u64 = 0x1_0000;

fn zlib(data: &[u8]) -> Vec<u8> {
    use std::io::Write as _;
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

/// An entry of a fatbin, from the description of its fields. `inflated` is 0 if the payload is not compressed.
pub fn entry(kind: u16, sm: u32, flags: u64, inflated: usize, payload: &[u8]) -> Vec<u8> {
    let number = |number: usize| u64::try_from(number).unwrap().to_le_bytes();
    let padded = payload.len().next_multiple_of(8);
    let compressed = if inflated == 0 { 0 } else { payload.len() };
    let mut data = [kind.to_le_bytes(), [1, 1]].concat();
    data.extend([&64_u32.to_le_bytes()[..], &number(padded), &number(compressed)].concat());
    data.extend([&[8, 0, 1, 0][..], &sm.to_le_bytes(), &[0; 8], &(flags | 0x11).to_le_bytes()].concat());
    data.extend([[0; 8], number(inflated)].concat());
    data.extend(payload);
    data.resize(64 + padded, 0);
    data
}

/// A fatbin of these entries.
pub fn fatbin(entries: &[Vec<u8>]) -> Vec<u8> {
    let entries = entries.concat();
    let size = u64::try_from(entries.len()).unwrap().to_le_bytes();
    [&[0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0][..], &size, &entries].concat()
}

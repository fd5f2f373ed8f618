//! The dimensions of growth of a file, and the command lines that read it.

use std::fs;
use std::process::Command;

use crate::bombs::files::{elf, thin};
use crate::kpack::tree::program;
use crate::machine::{llvm_directory, memory_directory, skip};
use crate::properties::aks2s;
use crate::properties::code_objects::{self, Argument, Kernel};
use crate::properties::fatbins::{self, Code};
use crate::properties::images::{self, Program};
use crate::properties::kpacks::{self, Archive, Scheme};
use crate::properties::make::{self, DEFLATED, Elf, STORED, Section, Zipped, archive_header, coff, pe, zip};
use crate::properties::packages;
use crate::properties::{hcfs, syclbins};
use crate::reference::formats;
use crate::reference::offload;
use crate::reference::offload::Image;

const HOST: &str = "host-x86_64-unknown-linux-gnu-";
const GFX906: &str = "hip-amdgcn-amd-amdhsa--gfx906";

type Files = Vec<(String, Vec<u8>)>;

/// A function that writes an object of these sections.
type Write = fn(&[(&str, &[u8])]) -> Vec<u8>;

/// A count or length that can grow.
pub struct Dimension {
    pub name: &'static str,
    /// The count or length in the smaller file.
    pub count: usize,
    /// The files of this size.
    pub files: Box<dyn Fn(usize) -> Files>,
    pub lines: Vec<String>,
}

/// Command lines of our own subcommands for any file.
const OWN: &[&str] = &[
    "inspect in",
    "inspect --inflate --json in",
    "inspect --svg out in",
    "report -o out in",
    "verify --json --expect-exactly gfx906,sm_80 --compressed=0 in",
    "inspect --deep --json in",
    "extract -n -t gfx906 --as-runtime in",
    "kernels --json --arguments in",
    "diff --json in in",
    "recompress in -o out",
    "recompress --none --keep gfx906 in -o out",
    "extract-bundle-entry -o out file://in#member=none",
    "replace -o out file://in#offset=1&size=1 in",
];

/// Command lines of the bundler for a file of the given type.
fn bundler(file_type: &str) -> Vec<String> {
    let unbundle = "-unbundle -input=in -output=out -allow-missing-bundles";
    let one = format!("-targets={GFX906}");
    let mut lines = vec![
        format!("-type={file_type} -list -input=in"),
        format!("-type={file_type} -list -verbose -input=in"),
        format!("-type={file_type} {unbundle} {one}"),
        format!("-type={file_type} {unbundle} -targets=hip-amdgcn-amd-amdhsa--gfx1"),
    ];
    if file_type == "a" {
        lines.push(format!("-type=a {unbundle} {one} -check-input-archive"));
    }
    lines
}

fn packager() -> Vec<String> {
    let lines = ["package in --image=arch=gfx906,file=out", "package in --archive --image=arch=gfx906,file=out"];
    lines.iter().map(|&line| line.to_owned()).collect()
}

fn one_file(
    name: &'static str,
    count: usize,
    of: impl Fn(usize) -> Vec<u8> + 'static,
    lines: &[Vec<String>],
) -> Dimension {
    let own = OWN.iter().map(|&line| line.to_owned()).collect();
    let lines = [&[own], lines].concat().concat();
    Dimension { name, count, files: Box::new(move |count| vec![("in".to_owned(), of(count))]), lines }
}

/// Distinct IDs with unknown processors.
fn id(number: usize) -> String {
    format!("hip-amdgcn-amd-amdhsa--gfx{}", 10_000 + number)
}

fn binary(ids: &[String]) -> Vec<u8> {
    let entries: Vec<(&str, &[u8])> = ids.iter().map(|id| (id.as_str(), &b"code"[..])).collect();
    formats::binary(&entries, 1)
}

fn small_bundle() -> Vec<u8> {
    formats::binary(&[(HOST, b""), (GFX906, b"code")], 1)
}

fn image(number: usize) -> Image {
    Image::new(1, 4, &[("triple", "amdgcn-amd-amdhsa"), ("arch", &format!("gfx{number}"))], b"image")
}

/// An archive whose members are bundles with names of this length.
fn library(count: usize, name_len: usize) -> Vec<u8> {
    let mut table = String::new();
    let mut members = Vec::new();
    let bundle = small_bundle();
    for number in 0..count {
        members.extend(archive_header(&format!("/{}", table.len()), bundle.len()).into_bytes());
        members.extend(&bundle);
        members.resize(members.len().next_multiple_of(2), b'\n');
        table += &format!("{number:m>name_len$}.o/\n");
    }
    table += if table.len() % 2 == 1 { "\n" } else { "" };
    ["!<arch>\n", &archive_header("//", table.len()), &table].concat().into_bytes().into_iter().chain(members).collect()
}

/// An object with `count` symbols with distinct names.
fn object_with_symbols(count: usize) -> Vec<u8> {
    let mut table = vec![0; 24];
    let mut names = vec![0];
    for number in 0..count {
        table.extend(u32::try_from(names.len()).unwrap().to_le_bytes());
        table.extend([0x12, 0, 1, 0]);
        table.extend([0; 16]);
        names.extend(format!("symbol_{number}\0").into_bytes());
    }
    elf::symbol_table(&table, &names)
}

fn sections(count: usize, name: impl Fn(usize) -> String, content: &[u8], write: Write) -> Vec<u8> {
    let names: Vec<String> = (0..count).map(name).collect();
    let sections: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), content)).collect();
    write(&sections)
}

fn elf_of(sections: &[(&str, &[u8])]) -> Vec<u8> {
    let sections: Vec<Section<'_>> = sections.iter().map(|(name, content)| Section::new(name, content)).collect();
    Elf::OBJECT.write(&sections)
}

fn nested(levels: usize, wrap: impl Fn(&[u8]) -> Vec<u8>) -> Vec<u8> {
    (0..levels).fold(b"leaf".to_vec(), |data, _| wrap(&data))
}

/// Bundles.
fn bundles() -> Vec<Dimension> {
    let bc = [bundler("bc")];
    vec![
        one_file("entries", 3000, |n| binary(&(0..n).map(id).collect::<Vec<_>>()), &bc),
        one_file("entries with one ID", 3000, |n| binary(&vec![GFX906.to_owned(); n]), &bc),
        one_file(
            "entries of one processor",
            2000,
            |n| {
                binary(
                    &(0..n)
                        .map(|i| format!("{GFX906}:{}", if i % 2 == 0 { "xnack+" } else { "sramecc+" }))
                        .collect::<Vec<_>>(),
                )
            },
            &bc,
        ),
        one_file("bundles in sequence", 1500, |n| small_bundle().repeat(n), &bc),
        one_file("compressed bundles in sequence", 300, |n| formats::compressed(2, 1, &small_bundle()).repeat(n), &bc),
        one_file(
            "entries, compressed",
            3000,
            |n| formats::compressed(2, 1, &binary(&(0..n).map(id).collect::<Vec<_>>())),
            &bc,
        ),
        one_file("length of an ID", 1 << 20, |n| binary(&[format!("{GFX906}:{}+", "x".repeat(n))]), &bc),
        one_file(
            "length of many IDs",
            40,
            |n| binary(&(0..n).map(|i| format!("{}:{}+", id(i), "x".repeat(20_000))).collect::<Vec<_>>()),
            &bc,
        ),
        one_file(
            "text entries",
            2000,
            |n| {
                let ids: Vec<String> = (0..n).map(id).collect();
                let entries: Vec<(&str, &[u8])> = ids.iter().map(|id| (id.as_str(), &b"x\n"[..])).collect();
                formats::text("#", &entries)
            },
            &[bundler("s")],
        ),
        one_file(
            "lines of a text entry",
            100_000,
            |n| formats::text("#", &[(GFX906, &b"#x\n".repeat(n))]),
            &[bundler("s")],
        ),
        one_file("bundles in one another", 500, |n| nested(n, |data| formats::binary(&[(GFX906, data)], 1)), &bc),
        one_file(
            "text bundles in one another",
            250,
            |n| nested(n, |data| formats::text("#", &[(GFX906, data)])),
            &[bundler("s")],
        ),
    ]
}

/// Objects.
fn objects() -> Vec<Dimension> {
    let o = [bundler("o")];
    let bundle_section = |number: usize| format!("__CLANG_OFFLOAD_BUNDLE__{}", id(number));
    vec![
        one_file("sections of a fat ELF object", 1500, move |n| sections(n, bundle_section, b"code", elf_of), &o),
        one_file("sections of a fat COFF object", 1500, move |n| sections(n, bundle_section, b"code", coff), &o),
        one_file(
            "other sections",
            8000,
            |n| sections(n, |i| format!(".text.{i}"), b"code", elf_of),
            &[bundler("o"), packager()],
        ),
        one_file(
            "sections with device code",
            800,
            |n| sections(n, |_| ".hip_fatbin".to_owned(), &small_bundle(), elf_of),
            &o,
        ),
        one_file(
            "sections of a PE file",
            800,
            |n| sections(n, |_| ".hip_fat".to_owned(), &small_bundle(), pe),
            &[packager()],
        ),
        one_file(
            "other sections of a PE file",
            8000,
            |n| sections(n, |i| format!(".t{i}"), b"code", pe),
            &[packager()],
        ),
        one_file(
            "sections with offload binaries",
            800,
            |n| {
                let content = offload::write(1, &[image(906)]);
                let section = |_| Section::new(".llvm.offloading", &content).offloading();
                Elf::OBJECT.write(&(0..n).map(section).collect::<Vec<_>>())
            },
            &[packager()],
        ),
    ]
}

/// Returns a module of bitcode with `functions` functions, or `None` if LLVM's assembler is missing.
fn bitcode(functions: usize) -> Option<Vec<u8>> {
    let tool = llvm_directory().join("llvm-as");
    let mut text = String::from("target triple = \"amdgcn-amd-amdhsa\"\n");
    (0..functions).for_each(|number| text += &format!("define void @function_{number}() {{ ret void }}\n"));
    let directory = memory_directory();
    fs::write(directory.path().join("in.ll"), text).unwrap();
    let made = Command::new(tool).args(["in.ll", "-o", "out.bc"]).current_dir(directory.path()).status().ok()?;
    made.success().then(|| fs::read(directory.path().join("out.bc")).unwrap())
}

/// Modules of bitcode.
fn modules() -> Vec<Dimension> {
    if bitcode(1).is_none() {
        skip("growth: symbols of bitcode", "LLVM 22 is not installed");
        return Vec::new();
    }
    let module = |functions| bitcode(functions).unwrap();
    let bundled = move |n| make::archive(&[("m.bc", &formats::binary(&[(GFX906, &module(n))], 1))]);
    let packed = move |n| offload::write(1, &[Image { content: module(n), ..image(906) }]);
    vec![
        one_file("symbols of bitcode in an archive", 4000, bundled, &[bundler("a")]),
        one_file("symbols of bitcode in an offload binary", 4000, packed, &[packager()]),
    ]
}

/// A wheel with `n` wrong lines in its `RECORD`.
fn wheel(n: usize) -> Vec<u8> {
    let lines: String = (0..n).map(|i| format!("\"a/{i}\",sha256=x,{i}\r\n")).collect();
    zip(&[Zipped::new("a", STORED, &small_bundle()), Zipped::new("a-1.dist-info/RECORD", DEFLATED, lines.as_bytes())])
}

/// Archives and zip files.
fn archives() -> Vec<Dimension> {
    let a = [bundler("a")];
    let zipped = |n: usize, method| {
        let members: Vec<Zipped> = (0..n).map(|i| Zipped::new(&i.to_string(), method, &small_bundle())).collect();
        zip(&members)
    };
    fn with_files(n: usize, write: fn(&[packages::File<'_>]) -> Vec<u8>) -> Vec<u8> {
        let (names, content) = ((0..n).map(|i| i.to_string()).collect::<Vec<_>>(), small_bundle());
        write(&names.iter().map(|name| packages::File::new(name, &content)).collect::<Vec<_>>())
    }
    let tarred = |n| with_files(n, packages::tar);
    vec![
        one_file("members", 1000, |n| library(n, 20), &[bundler("a"), packager()]),
        one_file("members with long names", 150, |n| library(n, 4000), &[bundler("a"), packager()]),
        one_file(
            "archives in one another",
            250,
            |n| nested(n, |data| make::archive(&[("x.a", data)])),
            &[bundler("a"), packager()],
        ),
        one_file(
            "symbols of a member",
            10_000,
            |n| make::archive(&[("m.o", &formats::binary(&[(GFX906, &object_with_symbols(n))], 1))]),
            &a,
        ),
        Dimension {
            files: Box::new(|n| {
                let member = format!("{:<15}", "m.o");
                vec![("in".to_owned(), thin(&vec![member.trim_end(); n])), ("m.o".to_owned(), small_bundle())]
            }),
            ..one_file("members of a thin archive", 500, |_| Vec::new(), &[bundler("a"), packager()])
        },
        one_file("members of a zip file", 1000, move |n| zipped(n, STORED), &[]),
        one_file("lines of the RECORD of a wheel", 2000, wheel, &[]),
        one_file("deflated members of a zip file", 400, move |n| zipped(n, DEFLATED), &[]),
        one_file("members of a tar archive", 1000, tarred, &[]),
        one_file("members of a compressed tar archive", 1000, move |n| packages::zstd(&tarred(n)), &[]),
        one_file("members of a cpio archive", 1000, move |n| with_files(n, packages::cpio), &[]),
        one_file("gzip files in one another", 10, |n| nested(n, packages::gzip), &[]),
        one_file("zip files in one another", 100, |n| nested(n, |data| zip(&[Zipped::new("x", STORED, data)])), &[]),
    ]
}

/// Offload binaries.
fn offload_binaries() -> Vec<Dimension> {
    let everything = [vec!["package in --image=kind=hip,file=out".to_owned()], packager()].concat();
    let lines = [everything];
    let strings =
        |n: usize| -> Vec<(String, String)> { (0..n).map(|i| (format!("key{i}"), "value".to_owned())).collect() };
    vec![
        one_file(
            "offload binaries in sequence",
            700,
            |n| offload::write(1, &(0..n).map(image).collect::<Vec<_>>()),
            &lines,
        ),
        one_file(
            "images of an offload binary",
            1000,
            |n| offload::write(2, &(0..n).map(image).collect::<Vec<_>>()),
            &lines,
        ),
        one_file(
            "images of a compressed one",
            1000,
            |n| offload::compressed(false, &(0..n).map(image).collect::<Vec<_>>()),
            &lines,
        ),
        one_file(
            "strings of an image",
            5000,
            move |n| {
                let strings = strings(n);
                let strings: Vec<(&str, &str)> =
                    strings.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
                offload::write(1, &[Image::new(1, 4, &strings, b"image")])
            },
            &lines,
        ),
        one_file(
            "offload binaries in one another",
            500,
            |n| nested(n, |data| offload::write(1, &[Image::new(1, 4, &[("triple", "t")], data)])),
            &lines,
        ),
    ]
}

/// CUDA fatbins.
fn fatbins() -> Vec<Dimension> {
    let entry = |sm: usize| fatbins::entry(&Code { sm: u32::try_from(sm).unwrap(), ..Code::ptx(90) });
    let small = move || fatbins::fatbin(&[entry(90)]);
    let wrappers = move |count: usize, each: usize| {
        let (fatbin, wrappers) = (small(), fatbins::wrapper(64).repeat(each));
        let mut sections = vec![Section::new(".nv_fatbin", &fatbin)];
        sections.extend((0..count).map(|_| Section::new(".nvFatBinSegment", &wrappers)));
        Elf::LIBRARY.write(&sections)
    };
    let records = |n: usize| {
        let parts: Vec<Code> = (0..n).map(|i| Code { sm: u32::try_from(i).unwrap(), ..Code::cubin(90, 8) }).collect();
        fatbins::fatbin(&[fatbins::concatenated(fatbins::ZSTD, &parts)])
    };
    vec![
        one_file("entries of a fatbin", 3000, move |n| fatbins::fatbin(&(0..n).map(entry).collect::<Vec<_>>()), &[]),
        one_file("fatbins in sequence", 1500, move |n| small().repeat(n), &[]),
        one_file("code objects compressed together", 2000, records, &[]),
        one_file("wrappers of fatbins", 20_000, move |n| wrappers(1, n), &[]),
        one_file("relocations of wrappers", 10_000, move |n| elf::relocated_wrappers(&small(), n), &[]),
        one_file("sections with wrappers", 2000, move |n| wrappers(n, 1), &[]),
    ]
}

/// kpack archives, and libraries that refer to them.
fn kpacks() -> Vec<Dimension> {
    let archive = |scheme, count: usize, key: &dyn Fn(usize) -> String, target: &dyn Fn(usize) -> String| {
        let code = |at: usize| kpacks::Code::new(&key(at), &target(at), format!("code object {at}").as_bytes());
        Archive::new("g", scheme, (0..count).map(code).collect())
    };
    let indexed = |at: usize| format!("lib/a.so#{at}");
    let one_target = |_| "gfx906".to_owned();
    let binaries = move |scheme| move |n| archive(scheme, n, &indexed, &one_target).write();
    let targets = move |n| archive(Scheme::None, n, &|_| indexed(0), &|at| format!("gfx{at}"));
    let claimed = move |n| Archive { arches: (0..n).map(|at| format!("gfx{at}")).collect(), ..targets(1) }.write();
    let reference = || kpacks::reference(&["a_@GFXARCH@.kpack"], "lib/a.so");
    // The files beside a library: their number, and the function that writes each.
    let split = move |name, count, archives: fn(usize) -> usize, of: Box<dyn Fn(usize) -> Vec<u8>>| Dimension {
        files: Box::new(move |n| {
            let archive = of(n);
            let beside = (0..archives(n)).map(|at| (format!("a_gfx{at:x}.kpack"), archive.clone()));
            beside.chain([("in".to_owned(), program(&reference(), if archives(n) == 1 { n } else { 1 }))]).collect()
        }),
        ..one_file(name, count, |_| Vec::new(), &[])
    };
    vec![
        one_file("binaries in a kpack archive", 2000, binaries(Scheme::None), &[]),
        one_file("frames in a kpack archive", 2000, binaries(Scheme::Zstd), &[]),
        one_file("targets in a kpack archive", 200, move |n| targets(n).write(), &[]),
        one_file("targets that a kpack archive claims", 200, claimed, &[]),
        split("code objects of a split library", 2000, |_| 1, Box::new(binaries(Scheme::Zstd))),
        split("kpack archives of a split library", 60, |n| n, Box::new(move |_| binaries(Scheme::Zstd)(3))),
        one_file("wrappers of a split library", 20_000, move |n| program(&reference(), n), &[]),
    ]
}

/// Programs with device images.
fn device_images() -> Vec<Dimension> {
    const NAME: &str = "__CLANG_OFFLOAD_BUNDLE__sycl-spir64";
    let module = |n: usize| images::Image::new(&images::spirv(5, u32::try_from(n).unwrap()));
    let of = move |change: fn(images::Image) -> images::Image| {
        move |n: usize| Program::new(&[(NAME, &(0..n).map(|n| change(module(n))).collect::<Vec<_>>())]).write()
    };
    let sections = move |n: usize| {
        let names: Vec<String> = (0..n).map(|n| format!("{NAME}-{n}")).collect();
        let images = [module(n)];
        Program::new(&names.iter().map(|name| (name.as_str(), &images[..])).collect::<Vec<_>>()).write()
    };
    vec![
        one_file("device images", 2000, of(|image| image), &[]),
        one_file("compressed device images", 2000, of(images::Image::packed), &[]),
        one_file("device images without a table", 2000, of(images::Image::unlisted), &[]),
        one_file("sections with device images", 100, sections, &[]),
        one_file("entries and sections of one ELF file", 400, |n| images::shared_zebin(n, n), &[]),
    ]
}

/// SYCLBIN files.
fn syclbins() -> Vec<Dimension> {
    let parts = |n: usize, modules: usize| -> Vec<syclbins::Part> {
        let part = |number: usize| {
            let code = images::spirv(5, u32::try_from(number).unwrap());
            let arch = (number % 2 == 1).then_some("pvc");
            syclbins::Part::new(number * modules / n, "spir64_gen-unknown-unknown", arch, &code)
        };
        (0..n).map(part).collect()
    };
    vec![
        one_file("parts of a SYCLBIN file", 2000, move |n| syclbins::version_2(&parts(n, 1)), &[packager()]),
        one_file("modules of a SYCLBIN file", 1000, move |n| syclbins::version_2(&parts(n, n)), &[]),
    ]
}

/// HCF data, as a file and in the data of a library.
fn hcf_data() -> Vec<Dimension> {
    let file = |n: usize| hcfs::write(hcfs::MARKERS[0], &vec![images::spirv(5, 1); n]);
    let beginnings = |n: usize| {
        let data = b"object-id = 1\ngenerator = x\nkey = value\n".repeat(n);
        Elf::LIBRARY.write(&[Section::new(".rodata", &data)])
    };
    vec![
        one_file("images of HCF data", 2000, file, &[]),
        one_file(
            "HCF data in a library",
            500,
            move |n| Elf::LIBRARY.write(&[Section::new(".rodata", &file(1).repeat(n))]),
            &[],
        ),
        one_file("beginnings of HCF data in a library", 2000, beginnings, &[]),
    ]
}

/// AKS2 files.
fn aks2_files() -> Vec<Dimension> {
    let file = |n: usize| {
        let names: Vec<String> = (0..n).map(|n| format!("kernel-{n}")).collect();
        let images: Vec<Vec<u8>> =
            (0..n).map(|n| code_objects::amd(&[Kernel::named(&format!("kernel-{n}"))])).collect();
        aks2s::kernels(
            &names.iter().zip(&images).map(|(name, image)| (name.as_bytes(), &image[..])).collect::<Vec<_>>(),
        )
    };
    vec![one_file("kernels of an AKS2 file", 1000, file, &[])]
}

/// Device code outside of the usual sections.
fn outside() -> Vec<Dimension> {
    let magics =
        [formats::MAGIC, b"CCOB\x7fELF", &offload::write(1, &[image(0)])[..4], fatbins::MAGIC, b"text"].concat();
    let magics = [&magics[..], &images::spirv(0, 0)[..4], b".version 8.7\n.target sm_80\n"].concat();
    let text = b".version 8.7\n.target sm_80\n";
    let code = [&images::spirv_with_function(6)[..], b".version 8.7 .target sm_80 .entry f {}\0"].concat();
    let unended = images::spirv_with_function(6)[..80].to_vec();
    let shaders = images::spirv_with_function(1);
    let data = |content: &[u8], n: usize| Elf::LIBRARY.write(&[Section::new(".data", &content.repeat(n))]);
    let registered = |count: usize| {
        let bundles: Vec<Vec<u8>> = (0..count).map(|number| binary(&[id(number)])).collect();
        // In the section after the wrappers.
        let mut address = 4096 + u64::try_from((24 * count).next_multiple_of(4096)).unwrap();
        let wrapper = |bundle: &Vec<u8>| {
            let fields = [0x1_4849_5046, address, 0].map(u64::to_le_bytes).concat();
            address += u64::try_from(bundle.len()).unwrap();
            fields
        };
        let wrappers = bundles.iter().map(wrapper).collect::<Vec<_>>().concat();
        (wrappers, bundles.concat())
    };
    let object = move |count: usize| {
        let (wrappers, bundles) = registered(count);
        pe(&[(".hipFatB", &wrappers), (".rdata", &bundles)])
    };
    let sections = |count: usize| {
        let bundle = small_bundle();
        Elf::LIBRARY.write(&(0..count).map(|_| Section::new(".rodata", &bundle)).collect::<Vec<_>>())
    };
    let lines = ["verify --deep --json in".to_owned()];
    vec![
        one_file("magics in a file", 20_000, move |n| magics.repeat(n), &[lines.to_vec()]),
        one_file("text like PTX", 20_000, move |n| data(text, n), &[lines.to_vec()]),
        one_file("SPIR-V and PTX in data", 1000, move |n| data(&code, n), &[lines.to_vec()]),
        one_file("SPIR-V without end in data", 20_000, move |n| data(&unended, n), &[lines.to_vec()]),
        one_file("shaders in data", 1000, move |n| data(&shaders, n), &[lines.to_vec()]),
        one_file("bundles among text", 3000, |n| [b"text", &small_bundle()[..]].concat().repeat(n), &[lines.to_vec()]),
        one_file("bundles in sections for data", 2000, sections, &[lines.to_vec()]),
        one_file("registered bundles", 2000, object, &[lines.to_vec()]),
    ]
}

/// Kernels of code objects. A cubin has four sections for each kernel.
fn kernels() -> Vec<Dimension> {
    let named =
        |n: usize| (0..n).map(|i| Kernel::named(&format!("_Z{}k{i}v", i.to_string().len() + 1))).collect::<Vec<_>>();
    let lines = ["kernels in", "kernels --sort name --top 10 in"].map(str::to_owned);
    let of_arguments = ["kernels --hostcall --fail-on hostcall in", "kernels --json --arguments in"].map(str::to_owned);
    let with_arguments = |n: usize| {
        let argument =
            |number: usize| Argument { offset: u32::try_from(number).unwrap(), ..Argument::of_kind("by_value") };
        let first = (0..n).map(argument).collect();
        let kernel = |i: usize| Kernel { arguments: vec![argument(i)], ..Kernel::named(&i.to_string()) };
        let all = std::iter::once(Kernel { arguments: first, ..Kernel::named("first") });
        all.chain((0..n).map(kernel)).collect::<Vec<_>>()
    };
    vec![
        one_file("kernels of AMD GPUs", 5000, move |n| code_objects::amd(&named(n)), &[lines.to_vec()]),
        one_file(
            "arguments of kernels",
            5000,
            move |n| code_objects::amd(&with_arguments(n)),
            &[of_arguments.to_vec()],
        ),
        one_file(
            "arguments of cubins",
            1000,
            move |n| code_objects::cubin(&with_arguments(n)),
            &[of_arguments.to_vec()],
        ),
        one_file("kernels of cubins", 2000, move |n| code_objects::cubin(&named(n)), &[lines.to_vec()]),
        Dimension {
            name: "kernels that differ",
            count: 5000,
            files: Box::new(move |n| {
                let wider = named(n).into_iter().map(|kernel| Kernel { vgprs: 1, ..kernel }).collect::<Vec<_>>();
                [("in", named(n)), ("new", wider)]
                    .map(|(name, kernels)| (name.to_owned(), code_objects::amd(&kernels)))
                    .to_vec()
            }),
            lines: ["diff in new", "diff --json in new"].map(str::to_owned).to_vec(),
        },
        Dimension {
            name: "patterns and code objects",
            count: 1000,
            files: Box::new(|n| {
                let ids: Vec<String> = (0..n).map(id).collect();
                let pattern = |(number, id): (usize, &String)| {
                    let target = id.rsplit('-').next().unwrap();
                    [
                        id.clone(),
                        target.to_owned(),
                        format!("*{target}"),
                        format!("*{target}*"),
                        format!("hip*{target}"),
                    ][number % 5]
                        .clone()
                };
                let patterns = ids.iter().enumerate().map(pattern).collect::<Vec<_>>().join(",");
                vec![("in".to_owned(), binary(&ids)), ("words".to_owned(), patterns.into_bytes())]
            }),
            lines: [
                "extract -n --target $words in",
                "kernels --target $words in",
                "diff --target $words in in",
                "recompress --keep $words in -o out",
                "recompress --drop $words in -o out",
            ]
            .map(str::to_owned)
            .to_vec(),
        },
        Dimension {
            name: "names of kernels and code objects",
            count: 500,
            files: Box::new(|n| {
                let codes: Vec<Vec<u8>> =
                    (0..n).map(|i| code_objects::amd(&[Kernel::named(&format!("kernel{i}"))])).collect();
                let ids: Vec<String> = (0..n).map(id).collect();
                let entries: Vec<(&str, &[u8])> =
                    ids.iter().map(String::as_str).zip(codes.iter().map(Vec::as_slice)).collect();
                let pattern = |i: usize| [format!("kernel{i}"), format!("*l{i}"), format!("*l{i}*")][i % 3].clone();
                let list = (0..n).map(pattern).collect::<Vec<_>>().join("\n");
                vec![("in".to_owned(), formats::binary(&entries, 1)), ("list".to_owned(), list.into_bytes())]
            }),
            lines: vec!["recompress --keep-kernels list in -o out".to_owned()],
        },
        Dimension {
            name: "code objects that differ",
            count: 2000,
            files: Box::new(|n| {
                let of = |number: usize| format!("{number:0100}").into_bytes();
                let bundles =
                    |from: usize| (from..from + n).flat_map(|i| formats::binary(&[(GFX906, &of(i)[..])], 1)).collect();
                [("in", 0), ("new", n / 2)].map(|(name, from)| (name.to_owned(), bundles(from))).to_vec()
            }),
            lines: ["diff in new", "diff --json in new"].map(str::to_owned).to_vec(),
        },
    ]
}

/// Command lines, in response files.
fn command_lines() -> Vec<Dimension> {
    let list =
        |n: usize, one: &dyn Fn(usize) -> String, separator: &str| (0..n).map(one).collect::<Vec<_>>().join(separator);
    let requests = move |n: usize| {
        let targets = list(n, &id, ",");
        let outputs = list(n, &|i| format!("-output=out/{i}"), " ");
        let present = |data: Vec<u8>| {
            let words = format!("-unbundle -allow-missing-bundles -input=in -targets={targets} {outputs}").into_bytes();
            vec![("in".to_owned(), data), ("words".to_owned(), words), ("out/keep".to_owned(), Vec::new())]
        };
        present(binary(&(0..n).map(id).collect::<Vec<_>>()))
    };
    let missing = move |n: usize| {
        let mut files = requests(n);
        files[0].1 = binary(&(0..n).map(|i| id(i + 40_000)).collect::<Vec<_>>());
        files
    };
    let bundle = move |n: usize| {
        let words = format!(
            "-type=bc -output=out -targets={HOST},{} -input=in {}",
            list(n, &id, ","),
            list(n, &|_| "-input=in".to_owned(), " ")
        );
        vec![("in".to_owned(), b"code".to_vec()), ("words".to_owned(), words.into_bytes())]
    };
    let package = move |n: usize| {
        let words = list(n, &|i| format!("--image=file=in,triple=amdgcn-amd-amdhsa,arch=gfx{i}"), " ");
        vec![("in".to_owned(), b"code".to_vec()), ("words".to_owned(), words.into_bytes())]
    };
    let unpackage = move |n: usize| {
        let words = list(n, &|i| format!("--image=file=out/{i},arch=gfx{i}"), " ");
        let images = offload::write(1, &(0..n).map(image).collect::<Vec<_>>());
        vec![("in".to_owned(), images), ("words".to_owned(), words.into_bytes()), ("out/keep".to_owned(), Vec::new())]
    };
    let patterns = move |n: usize| {
        // Each request is compared with each entry, so the number of entries is the same at both sizes.
        let words = list(n, &|i| format!("-t gfx{}", 10_000 + i % 400), " ");
        vec![("in".to_owned(), binary(&(0..400).map(id).collect::<Vec<_>>())), ("words".to_owned(), words.into_bytes())]
    };
    let from_archive = move |n: usize| {
        let targets = list(n, &id, ",");
        let outputs = list(n, &|i| format!("-output=out/{i}"), " ");
        let words = format!("-type=a -unbundle -input=in -targets={targets} {outputs}").into_bytes();
        let bundle = binary(&(0..n).map(id).collect::<Vec<_>>());
        vec![
            ("in".to_owned(), make::archive(&[("m.o", &bundle)])),
            ("words".to_owned(), words),
            ("out/keep".to_owned(), Vec::new()),
        ]
    };
    let words = move |n: usize| {
        vec![("in".to_owned(), small_bundle()), ("words".to_owned(), list(n, &|i| format!("w{i}"), " ").into_bytes())]
    };
    let found = |n: usize| (0..n).map(|i| (format!("in/{i}"), small_bundle())).collect();
    let dimension = |name, count, files: Box<dyn Fn(usize) -> Files>, lines: &[&str]| Dimension {
        name,
        count,
        files,
        lines: lines.iter().map(|&line| line.to_owned()).collect(),
    };
    vec![
        dimension("requests that are served", 500, Box::new(requests), &["-type=bc @words"]),
        dimension("requests for what is missing", 200, Box::new(missing), &["-type=bc @words"]),
        dimension("requests for members of an archive", 200, Box::new(from_archive), &["@words"]),
        dimension("patterns", 1000, Box::new(patterns), &["extract -n in $words"]),
        dimension("inputs to be bundled", 1000, Box::new(bundle), &["@words"]),
        dimension("images to be packaged", 1000, Box::new(package), &["package -o out @words"]),
        dimension("requests for images", 100, Box::new(unpackage), &["package in @words"]),
        dimension(
            "words of a response file",
            50_000,
            Box::new(words),
            &["-type=bc -list -input=in @words", "package in @words"],
        ),
        dimension(
            "files in a directory",
            500,
            Box::new(found),
            &["inspect in", "inspect --json -r in", "verify -r in", "extract -n -r in", "kernels -r in"],
        ),
    ]
}

pub fn all() -> Vec<Dimension> {
    let dimensions = [
        bundles(),
        objects(),
        modules(),
        archives(),
        offload_binaries(),
        fatbins(),
        kpacks(),
        device_images(),
        syclbins(),
        hcf_data(),
        aks2_files(),
        outside(),
        kernels(),
        command_lines(),
    ];
    dimensions.into_iter().flatten().collect()
}

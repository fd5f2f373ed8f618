//! Code that no loader takes serves no GPU: `verify --expect`, `extract --as-runtime`, `recompress --keep-for` and the
//! coverage agree, whatever the container.

use object::{Object as _, ObjectSection as _};
use offload_bundle::ErrorKind;
use offload_bundle::inventory::Selection;
use offload_bundle::inventory::{Contents, ServedBundles};
use offload_bundle::io::Input;
use offload_bundle::job::{Destination, Expect, Extract, Recompress, Source, Verify, VerifyRule};
use offload_bundle::runtime::Device;
use offload_bundle::scan::Scan;

use super::*;
use crate::machine::memory_directory;
use crate::properties::fatbins::{self, Code};
use crate::properties::make::{DEFLATED, Elf, Section, Zipped, archive, zip};
use crate::reference::formats;
use crate::reference::harness::Random;
use crate::reference::offload::{self, Image};

const REL: u8 = 1;
const DYN: u8 = 3;

/// The offsets of fields in the header of an ELF file: the operating system, the version of its interface, the type,
/// and the generic version in the flags.
const SYSTEM: usize = 7;
const VERSION: usize = 8;
const KIND: usize = 16;
const GENERIC: usize = 51;

/// A code object, the GPU that is asked for, and whether its runtime loads the code object.
struct Loaded {
    code: Vec<u8>,
    target: &'static str,
    gpu: &'static str,
    is_loaded: bool,
}

/// Changes the header of a code object for an AMD GPU, and says by a plain reading of the rules whether it is loaded.
fn with_header(code: &[u8], target: &'static str, [kind, system, version, generic]: [u8; 4]) -> Loaded {
    let mut code = code.to_vec();
    (code[KIND], code[SYSTEM], code[VERSION]) = (kind, system, version);
    let is_generic = target.ends_with("generic");
    if is_generic {
        code[GENERIC] = generic;
    }
    let is_compatible = !is_generic || (version == 4 && generic >= 1);
    let is_loaded = [2, DYN].contains(&kind) && system == 64 && version <= 4 && is_compatible;
    Loaded { code, target, gpu: "gfx1100", is_loaded }
}

/// Code objects for `gfx1100` and its generic target: made by clang and lld if they are installed, otherwise headers
/// alone. Both an object and a linked file.
fn amd_code(test: &str) -> Vec<(Vec<u8>, &'static str)> {
    let mut all =
        vec![(Elf::amdgpu(0x41).write(&[]), "gfx1100"), (Elf::amdgpu(0x54 | 1 << 24).write(&[]), "gfx11-generic")];
    let (Some(clang), Some(linker)) = (llvm(test, "clang"), llvm(test, "ld.lld")) else { return all };
    let dir = memory_directory();
    std::fs::write(dir.path().join("k.cl"), "kernel void add(global int *data) { data[0] += 1; }").unwrap();
    for gpu in ["gfx1100", "gfx11-generic"] {
        let options = ["-target", "amdgcn-amd-amdhsa", "-nogpulib", "-O1", "-c", "k.cl", "-o", "k.o"];
        must(Command::new(&clang).args(options).arg(format!("-mcpu={gpu}")).current_dir(dir.path()));
        must(Command::new(&linker).args(["-shared", "k.o", "-o", "k.co"]).current_dir(dir.path()));
        for file in ["k.o", "k.co"] {
            all.push((std::fs::read(dir.path().join(file)).unwrap(), gpu));
        }
    }
    all
}

/// Containers of a code object. The second value says whether tools link or compile the code later, so that its header
/// does not matter; the third, whether `recompress` rewrites the container.
fn wrapped(target: &str, code: &[u8]) -> Vec<(&'static str, Vec<u8>, bool, bool)> {
    let id = format!("hipv4-amdgcn-amd-amdhsa--{target}");
    let bundle = formats::binary(&[(HOST, b""), (&id, code)], 4096);
    let packed = formats::compressed(2, 1, &bundle);
    let image = Image::new(1, 4, &[("triple", "amdgcn-amd-amdhsa"), ("arch", target)], code);
    let images = offload::write(1, &[image]);
    let library = |name: &str, content: &[u8]| Elf::LIBRARY.write(&[Section::new(name, content).aligned(4096)]);
    let object = |name: &str, content: &[u8]| Elf::OBJECT.write(&[Section::new(name, content).aligned(4096)]);
    let [host_section, section] = [HOST, &id].map(|id| format!("__CLANG_OFFLOAD_BUNDLE__{id}"));
    let fat = Elf::OBJECT.write(&[Section::new(&host_section, b"\0"), Section::new(&section, code)]);
    let in_library = library(".hip_fatbin", &packed);
    let zipped = zip(&[Zipped::new("a.so", DEFLATED, &in_library), Zipped::new("b.txt", DEFLATED, b"text")]);
    let host = object(".text", b"host");
    vec![
        ("file", code.to_vec(), false, false),
        ("bundle", bundle.clone(), false, true),
        ("compressed bundle", packed.clone(), false, true),
        ("offload binary", images.clone(), false, false),
        ("library", library(".hip_fatbin", &bundle), false, true),
        ("object", object(".hip_fatbin", &bundle), false, true),
        ("library with offload binaries", library(".llvm.offloading", &images), false, false),
        ("archive of code", archive(&[("a.co", code)]), false, false),
        ("archive of libraries", archive(&[("a.so", &in_library)]), false, true),
        ("zip file", zipped, false, true),
        ("zip file of code", zip(&[Zipped::new("a.co", DEFLATED, code)]), false, false),
        // Inputs of tools.
        ("object with offload binaries", object(".llvm.offloading", &images), true, false),
        ("fat object", fat, true, false),
        ("bundle with host code", formats::binary(&[(HOST, &host), (&id, code)], 4096), true, true),
    ]
}

/// Checks that all jobs say whether the code in a file serves a GPU.
fn check(what: &str, data: &[u8], gpu: &str, is_served: bool, is_rewritten: bool) {
    let device = Device::parse(gpu).unwrap();
    let dir = memory_directory();
    let (input, output) = (dir.path().join("in"), dir.path().join("out"));
    std::fs::write(&input, data).unwrap();

    let mut verify = Verify::default();
    verify.expect = Some(Expect::new(vec![device.clone()]));
    let verified = verify.run(&input).unwrap();
    assert_eq!(verified.served, if is_served { vec![gpu] } else { vec![] }, "{what}: verify");
    let is_fault = verified.faults.iter().any(|fault| fault.rule == VerifyRule::Expected);
    assert!(!is_fault || !is_served, "{what}: {:?}", verified.faults);

    let file = Input::from_bytes("in", data.to_vec());
    let coverage = Contents::read(&file, &Scan::default()).unwrap().coverage();
    let served = coverage.served(&device);
    // Code in an archive without a bundle is not counted.
    if served.bundles > 0 {
        let mut expected = ServedBundles::default();
        (expected.serving, expected.bundles) = (usize::from(is_served), 1);
        assert_eq!(served, expected, "{what}: coverage");
        assert_eq!(coverage.unfound().is_empty(), is_served, "{what}: {:?}", coverage.unfound());
        assert_eq!(is_fault, !is_served, "{what}: {:?}", verified.faults);
    }

    let source = Source::named(input.clone());
    let mut extract = Extract::new(vec![source], Selection::default(), Destination::Nowhere(output.clone()));
    extract.devices = vec![device.clone()];
    match extract.run(&mut |_| {}) {
        Ok(extracted) => assert_eq!((extracted.len(), is_served), (1, true), "{what}: extract"),
        Err(error) => assert!(error.kind() == ErrorKind::NotFound && !is_served, "{what}: {error}"),
    }

    if is_rewritten {
        let mut recompress = Recompress::new(&input, &output);
        recompress.keep_for = vec![device];
        let result = recompress.run(&mut |_| {}).map_err(|error| error.kind());
        match result {
            Ok(_) => assert!(is_served, "{what}: recompress"),
            Err(kind) => assert!(kind == ErrorKind::NotFound && !is_served, "{what}: {kind:?}"),
        }
    }
}

#[test]
fn code_that_rocm_s_loader_refuses_serves_no_gpu() {
    let code = amd_code("code that ROCm's loader refuses");
    let mut headers = Vec::new();
    // Each field with each of its values, while the others are right.
    headers.extend((0..5).map(|kind| [kind, 64, 4, 1]));
    headers.extend([0, 3, 65, 66, 255].map(|system| [DYN, system, 4, 1]));
    headers.extend((0..6).map(|version| [DYN, 64, version, 1]));
    headers.extend((0..3).map(|generic| [DYN, 64, 4, generic]));
    let mut random = Random::new(41);
    for _ in 0..8 {
        let mut byte = |values: &[u8]| *random.pick(values);
        headers.push([byte(&[REL, 2, DYN]), byte(&[0, 64]), byte(&[0, 1, 2, 3, 4, 5]), byte(&[0, 1, 2])]);
    }
    for (content, target) in &code {
        for header in &headers {
            let loaded = with_header(content, target, *header);
            for (what, data, is_for_tools, is_rewritten) in wrapped(loaded.target, &loaded.code) {
                let what = format!("{what} for {target} with {header:?}");
                check(&what, &data, loaded.gpu, loaded.is_loaded || is_for_tools, is_rewritten);
            }
        }
    }
}

#[test]
fn cubins_that_are_not_linked_serve_no_gpu() {
    for kind in [REL, 2, DYN] {
        let mut cubin = fatbins::cubin(90, 300);
        cubin[KIND] = kind;
        // Cubins of CUDA 11.6 to 12 have no program headers.
        let mut without_segments = cubin.clone();
        without_segments[32..40].fill(0);
        without_segments[56] = 0;
        for cubin in [&cubin, &without_segments] {
            let is_linked = kind != REL;
            let code = Code::new(fatbins::CUBIN, 90, cubin);
            let fatbin = |flags: u64| fatbins::fatbin(&[fatbins::entry(&code.clone().with_flags(flags))]);
            let plain = fatbin(0);
            let library = |name: &str, content: &[u8]| Elf::LIBRARY.write(&[Section::new(name, content)]);
            check("cubin", cubin, "sm_90", is_linked, false);
            for flags in [0, fatbins::ZLIB, fatbins::LZ4, fatbins::ZSTD] {
                check(&format!("fatbin with flags {flags:x}"), &fatbin(flags), "sm_90", is_linked, true);
            }
            let image = Image::new(4, 2, &[("triple", "nvptx64-nvidia-cuda"), ("arch", "sm_90")], cubin);
            let zipped = zip(&[Zipped::new("a.fatbin", DEFLATED, &fatbin(fatbins::ZSTD))]);
            for (what, data, is_rewritten) in [
                ("library", library(".nv_fatbin", &plain), true),
                ("object", Elf::OBJECT.write(&[Section::new(".nv_fatbin", &plain)]), true),
                ("offload binary", offload::write(1, &[image]), false),
                ("archive", archive(&[("a.cubin", cubin)]), false),
                ("zip file", zip(&[Zipped::new("a.cubin", DEFLATED, cubin)]), false),
                ("zip file of a fatbin", zipped, true),
            ] {
                check(&format!("{what}: type {kind}"), &data, "sm_90", is_linked, is_rewritten);
            }
            // nvlink links these cubins with the object.
            check("relocatable", &Elf::OBJECT.write(&[Section::new("__nv_relfatbin", &plain)]), "sm_90", true, true);
        }
    }
}

#[test]
fn relocatable_cubins_that_the_driver_links_stay() {
    let mut cubin = Code::cubin(90, 300);
    cubin.content[KIND] = REL;
    let fatbin = fatbins::fatbin(&[fatbins::entry(&cubin), fatbins::entry(&Code::ptx(90))]);
    let library = Elf::LIBRARY.write(&[Section::new("__nv_relfatbin", &fatbin)]);
    let files = [("in", library.as_slice())];
    let verified = tool(&["verify", "--expect-any", "sm_90", "in"], &files);
    assert_eq!(verified.status, 0, "{}", String::from_utf8_lossy(&verified.stdout));
    let kept = tool(&["recompress", "--keep-for", "sm_90", "in", "-o", "out"], &files);
    assert!(kept.status == 0 && !kept.stderr_text().contains("removed"), "{}", kept.stderr_text());
}

#[test]
fn the_reason_is_said() {
    let of = |[kind, system, version, generic]: [u8; 4], target| {
        let flags = if target == "gfx1100" { 0x41 } else { 0x54 };
        with_header(&Elf::amdgpu(flags).write(&[]), target, [kind, system, version, generic]).code
    };
    let mut cubin = fatbins::cubin(90, 300);
    cubin[KIND] = REL;
    let amd = "HIP's runtime does not load 'amdgcn-amd-amdhsa--";
    for (code, gpu, reason) in [
        (of([REL, 64, 4, 1], "gfx1100"), "gfx1100", format!("{amd}gfx1100': it is not linked (ELF type REL)")),
        (of([4, 64, 4, 1], "gfx1100"), "gfx1100", format!("{amd}gfx1100': it is not a linked file (ELF type 4)")),
        (of([DYN, 0, 4, 1], "gfx1100"), "gfx1100", format!("{amd}gfx1100': it is not for HSA (OSABI 0 instead of 64)")),
        (
            of([DYN, 64, 5, 1], "gfx1100"),
            "gfx1100",
            format!("{amd}gfx1100': its ABI version is 5, and the latest is 4"),
        ),
        (
            of([DYN, 64, 4, 0], "gfx11-generic"),
            "gfx1100",
            format!("{amd}gfx11-generic': it is for a generic target, but has no generic version"),
        ),
        (
            cubin,
            "sm_90",
            "CUDA's driver does not load 'nvptx64-nvidia-cuda--sm_90': it is not linked (ELF type REL)".to_owned(),
        ),
    ] {
        let files = [("in", code.as_slice())];
        let verified = tool(&["verify", "--expect", gpu, "in"], &files);
        let printed = String::from_utf8_lossy(&verified.stdout).into_owned();
        assert!(verified.status == 1 && printed.contains(&format!("; {reason} [expected]")), "{reason}: {printed}");
        let extracted = tool(&["extract", "-n", "--as-runtime", "-t", gpu, "in"], &files);
        let errors = extracted.stderr_text();
        assert!(extracted.status == 1 && errors.contains(&reason), "{reason}: {errors}");
        let inspected = tool(&["inspect", "in"], &files);
        let printed = String::from_utf8_lossy(&inspected.stdout).into_owned();
        assert!(printed.contains(&reason), "{reason}: {printed}");
        // Without expected GPUs, none of these is a fault of this rule.
        let verified = tool(&["verify", "in"], &files);
        assert!(!String::from_utf8_lossy(&verified.stdout).contains("does not load"), "{reason}");
    }
}

/// Links a kernel that calls a function and reads a variable of other code, and calls a weak function. Returns `None`
/// if clang or lld is not installed.
fn with_undefined_symbols(test: &str, source: &str) -> Option<Vec<u8>> {
    let (clang, linker) = (llvm(test, "clang")?, llvm(test, "ld.lld")?);
    let dir = memory_directory();
    std::fs::write(dir.path().join("k.cl"), source).unwrap();
    let options = ["-target", "amdgcn-amd-amdhsa", "-mcpu=gfx1100", "-cl-std=CL2.0", "-nogpulib", "-O1", "-c", "k.cl"];
    must(Command::new(clang).args(options).args(["-o", "k.o"]).current_dir(dir.path()));
    must(Command::new(linker).args(["-shared", "k.o", "-o", "k.co"]).current_dir(dir.path()));
    Some(std::fs::read(dir.path().join("k.co")).unwrap())
}

/// Checks the note of `verify`, and the fault with expected GPUs. `names` are the undefined symbols, if there are any.
fn check_undefined(what: &str, data: &[u8], gpu: &str, names: &[&str], is_fault: bool) {
    let files = [("in", data)];
    let document: Value = serde_json::from_slice(&tool(&["verify", "--json", "in"], &files).stdout).unwrap();
    schema::check("verify", &document);
    let listed = document["files"][0]["undefined"].as_array().unwrap();
    let listed: Vec<&str> =
        listed.iter().flat_map(|code| code["symbols"].as_array().unwrap()).map(|name| name.as_str().unwrap()).collect();
    assert_eq!(listed, names, "{what}");
    let verified = tool(&["verify", "in"], &files);
    let printed = String::from_utf8_lossy(&verified.stdout).into_owned();
    let note = format!("needs symbols that it does not define: {}", names.join(", "));
    assert_eq!(printed.contains(&note), !names.is_empty(), "{what}: {printed}");
    assert!(
        verified.status == 0 && printed.contains("with undefined symbols") != names.is_empty(),
        "{what}: {printed}"
    );
    let expected = tool(&["verify", "--expect", gpu, "in"], &files);
    let printed = String::from_utf8_lossy(&expected.stdout).into_owned();
    let reason = format!("it does not define {} [expected]", names.join(", "));
    assert_eq!((expected.status, printed.contains(&reason)), (i32::from(is_fault), is_fault), "{what}: {printed}");
}

#[test]
fn undefined_symbols_of_linked_code_are_noted_and_faults_where_gpus_are_expected() {
    let test = "undefined symbols of linked code";
    let source =
        "#pragma clang attribute push(__attribute__((visibility(\"default\"))), apply_to = any(function, variable))
        extern int missing(int); extern __attribute__((weak)) int perhaps(int); extern global int variable;
        #pragma clang attribute pop
        kernel void add(global int *data) { data[0] += missing(data[1]) + perhaps(data[2]) + variable; }";
    let Some(code) = with_undefined_symbols(test, source) else { return };
    let defined = "int missing(int n) { return n; } kernel void add(global int *data) { data[0] += missing(data[1]); }";
    let defined = with_undefined_symbols(test, defined).unwrap();
    for (what, data, is_for_tools, _) in wrapped("gfx1100", &code) {
        let names: &[&str] = if is_for_tools { &[] } else { &["missing", "variable"] };
        // Code in an archive without a bundle need not serve every GPU, but something has to.
        if what != "archive of code" {
            check_undefined(what, &data, "gfx1100", names, !is_for_tools);
        }
    }
    for (what, data, ..) in wrapped("gfx1100", &defined) {
        check_undefined(what, &data, "gfx1100", &[], false);
    }
    // Of variables alone, whose type is known, a program may define each.
    let mut typed = code;
    let file = object::File::parse(&*typed).unwrap();
    let (at, len) = file.section_by_name(".dynsym").unwrap().file_range().unwrap();
    let [at, len] = [at, len].map(|number| usize::try_from(number).unwrap());
    for symbol in typed[at..at + len].chunks_exact_mut(24) {
        // Global and undefined.
        if symbol[4] == 0x10 && symbol[6..8] == [0, 0] {
            symbol[4] |= 1;
        }
    }
    check_undefined("variables", &typed, "gfx1100", &["missing", "variable"], false);
}

#[test]
fn undefined_functions_of_ptx_are_noted_and_faults_where_gpus_are_expected() {
    let ptx = |declaration: &str| {
        let body = "{ .param .b64 p; call.uni f, (p); call.uni vprintf, (p); ret; }";
        format!(
            ".version 8.7\n.target sm_80\n.address_size 64\n.extern .func vprintf (.param .b64 p);\n{declaration}\n.visible .entry k() {body}\n"
        )
    };
    let missing = ptx(".extern .func f (.param .b64 p);");
    let defined = ptx(".func f (.param .b64 p) { ret; }");
    for (ptx, names) in [(&missing, &["f"][..]), (&defined, &[])] {
        let code =
            |kind: u16| Code { kind, options: Some(vec![]), ..Code::new(kind, 80, format!("{ptx}\0").as_bytes()) };
        let fatbin = |code: &Code| fatbins::fatbin(&[fatbins::entry(code)]);
        let plain = fatbin(&code(fatbins::PTX));
        let library = |name: &str| Elf::LIBRARY.write(&[Section::new(name, &plain)]);
        for (what, data) in [
            ("PTX", ptx.clone().into_bytes()),
            ("fatbin", plain.clone()),
            ("compressed fatbin", fatbin(&code(fatbins::PTX).with_flags(fatbins::ZSTD))),
            ("library", library(".nv_fatbin")),
        ] {
            check_undefined(what, &data, "sm_80", names, !names.is_empty());
        }
        for (what, data) in [
            ("PTX that is linked at run time", fatbin(&code(64))),
            ("object", Elf::OBJECT.write(&[Section::new("__nv_relfatbin", &plain)])),
        ] {
            check_undefined(what, &data, "sm_80", &[], false);
        }
        // The driver links the PTX of a program.
        let verified = tool(&["verify", "--expect-any", "sm_80", "in"], &[("in", &library("__nv_relfatbin"))]);
        assert_eq!(verified.status, 0, "{}", String::from_utf8_lossy(&verified.stdout));
    }
}

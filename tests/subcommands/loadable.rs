//! Code that no loader takes serves no GPU: `verify --expect`, `extract --as-runtime`, `recompress --keep-for` and the
//! coverage agree, whatever the container.

use offload_bundle::ErrorKind;
use offload_bundle::io::Input;
use offload_bundle::job::{Destination, Expect, Extract, Recompress, Source, Verify, VerifyRule};
use offload_bundle::runtime::{Coverage, Device, ServedBundles};
use offload_bundle::scan::{Finding, Scan, Selection};

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
    let mut all = vec![
        (Elf::amdgpu(0x41).write(&[]), "gfx1100"),
        (Elf::amdgpu(0x54 | 1 << 24).write(&[]), "gfx11-generic"),
    ];
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

    let mut coverage = Coverage::default();
    let visitor = &mut |finding: Finding<'_>| {
        if let Finding::Bundle(found) = finding {
            coverage.add(&found);
        }
        Ok(())
    };
    Scan::default().run(&Input::from_bytes("in", data.to_vec()), visitor).unwrap();
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
    for _ in 0..20 {
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

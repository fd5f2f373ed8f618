//! Tests of the code that runtimes load: `verify --expect`, `extract --as-runtime`, and the GPUs that `inspect` lists
//! as served.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use super::*;
use crate::machine::memory_directory;
use crate::properties::make::{DEFLATED, Elf, STORED, Section, Zipped, zip};
use crate::properties::{coverage, fatbins};
use crate::reference::formats;
use crate::reference::harness::Random;
use crate::reference::offload::{self, Image};

/// A bundle with code for these targets.
fn bundle(targets: &[&str]) -> Vec<u8> {
    let ids: Vec<String> = targets.iter().map(|target| format!("hipv4-amdgcn-amd-amdhsa--{target}")).collect();
    let code = ids.iter().map(|id| (id.as_str(), &b"code"[..]));
    formats::binary(&[(HOST, &b""[..])].into_iter().chain(code).collect::<Vec<_>>(), 16)
}

/// A library with some bundles.
fn library(bundles: &[&[&str]]) -> Vec<u8> {
    let content: Vec<u8> = bundles.iter().flat_map(|targets| bundle(targets)).collect();
    Elf::LIBRARY.write(&[Section::new(".hip_fatbin", &content)])
}

/// Returns the exit status of `verify`, its lines about the expected GPUs, and its messages.
fn expecting(options: &[&str], data: &[u8]) -> (i32, Vec<String>, String) {
    let args = [&["verify"], options, &["in"]].concat();
    let outcome = tool(&args, &[("in", data)]);
    let lines = String::from_utf8(outcome.stdout.clone()).unwrap();
    let lines = lines.lines().filter(|line| line.contains("expected]")).map(str::to_owned).collect();
    (outcome.status, lines, outcome.stderr_text())
}

#[test]
fn random_bundles_serve_what_a_plain_reading_says() {
    let mut random = Random::new(19);
    for _ in 0..1500 {
        let bytes: Vec<u8> = (0..64).map(|_| u8::try_from(random.below(256)).unwrap()).collect();
        coverage(&bytes);
    }
}

#[test]
fn verify_prints_a_line_for_each_gap() {
    let data =
        library(&[&["gfx906", "gfx90a:xnack-"], &["gfx906"], &["gfx9-generic", "gfx90a:xnack+", "gfx90a:xnack-"]]);
    let (status, lines, errors) = expecting(&["--expect", "gfx906,gfx90a"], &data);
    assert!(status == 1 && errors.contains("--expect-any"), "{errors}");
    let second = bundle(&["gfx906", "gfx90a:xnack-"]).len() + 64;
    let expected = [
        "in(.hip_fatbin): bundle 0 at offset 64: it does not serve gfx90a with xnack+; it has code for gfx906, gfx90a:xnack- [expected]".to_owned(),
        format!("in(.hip_fatbin): bundle 1 at offset {second}: it does not serve gfx90a; it has code for gfx906 [expected]"),
    ];
    assert_eq!(lines, expected);
    for (gpus, gaps) in [("gfx906", 0), ("gfx90a:xnack-", 1), ("gfx900", 2), ("gfx906:xnack+,gfx900:xnack-", 2)] {
        let (status, lines, _) = expecting(&["--expect", gpus], &data);
        assert_eq!((status, lines.len()), (i32::from(gaps > 0), gaps), "{gpus}");
    }
    // A bundle for AMD GPUs need not serve others, but some code of the file has to.
    let (status, lines, _) = expecting(&["--expect", "sm_80"], &data);
    let of_file = "in: it does not serve sm_80, because it is not for NVIDIA GPUs; \
        it has code for gfx9-generic, gfx906, gfx90a:xnack+, gfx90a:xnack- [expected]";
    assert_eq!((status, lines), (1, vec![of_file.to_owned()]));
    let cuda = fatbins::fatbin(&[fatbins::entry(&fatbins::Code::cubin(80, 4))]);
    let both =
        zip(&[Zipped::new("hip.so", STORED, &library(&[&["gfx906"]])), Zipped::new("cuda.fatbin", STORED, &cuda)]);
    assert_eq!(expecting(&["--expect", "gfx906,sm_80"], &both), (0, vec![], String::new()));
    assert_eq!(expecting(&["--expect", "gfx906,sm_90"], &both).0, 1);
}

/// Each named file, and each wheel of a directory, has to serve each GPU. Other files of a directory do so together,
/// and so do fatbins beside one another.
#[test]
fn each_named_file_and_each_package_serves_each_gpu() {
    let cubin = fatbins::fatbin(&[fatbins::entry(&fatbins::Code::cubin(80, 4))]);
    let (mut random, mut failed, mut passed) = (Random::new(16), 0, 0);
    for _ in 0..150 {
        let dir = memory_directory();
        fs::create_dir(dir.path().join("dir")).unwrap();
        let mut args = vec!["dir".to_owned()];
        // The GPUs of each set of code that has to serve all expected GPUs, by the name of the set, and the AMD GPUs of
        // each library.
        let (mut sets, mut libraries) = (BTreeMap::<String, BTreeSet<&str>>::new(), Vec::new());
        for index in 0..1 + random.below(3) {
            let amd: BTreeSet<&str> = ["gfx906", "gfx90a"].into_iter().filter(|_| random.below(4) > 0).collect();
            let hip = library(&[&amd.iter().copied().collect::<Vec<_>>()]);
            let of_hip = Zipped::new("hip.so", DEFLATED, &hip);
            let of_cuda = Zipped::new("cuda.fatbin", STORED, &cubin);
            let (form, data, gpus) = match random.below(4) {
                0 => ("fatbin", cubin.clone(), BTreeSet::from(["sm_80"])),
                1 => ("so", hip.clone(), amd.clone()),
                2 => ("whl", zip(&[of_hip]), amd.clone()),
                _ => ("whl", zip(&[of_hip, of_cuda]), &amd | &BTreeSet::from(["sm_80"])),
            };
            if form != "fatbin" {
                libraries.push(amd);
            }
            let is_named = random.below(2) == 0;
            let path = format!("{}{index}.{form}", if is_named { "" } else { "dir/" });
            fs::write(dir.path().join(&path), data).unwrap();
            let set = match form {
                "fatbin" if is_named => "named fatbins".to_owned(),
                "so" | "fatbin" if !is_named => "dir".to_owned(),
                _ => path.clone(),
            };
            // Bundles without any code are no set.
            if !gpus.is_empty() {
                sets.entry(set).or_default().extend(gpus);
            }
            if is_named {
                args.push(path);
            }
        }
        let expected: Vec<&str> = ["gfx906", "gfx90a", "sm_80"].into_iter().filter(|_| random.below(2) == 0).collect();
        // What serves no GPU in its directory may be served by any other file.
        let of_directory = sets.remove("dir").unwrap_or_default();
        let all: BTreeSet<&str> = sets.values().flatten().chain(&of_directory).copied().collect();
        sets.insert("all".to_owned(), all);
        let is_served = sets.values().all(|set| expected.iter().all(|gpu| set.contains(gpu)));
        let of_amd = |gpu: &&&str| gpu.starts_with("gfx");
        let is_sound =
            is_served && libraries.iter().all(|set| expected.iter().filter(of_amd).all(|gpu| set.contains(gpu)));
        if expected.is_empty() {
            continue;
        }
        let list = expected.join(",");
        let args: Vec<&str> =
            ["verify", "--expect-any", &list].into_iter().chain(args.iter().map(String::as_str)).collect();
        let (status, out, errors) = text(&tool_in(dir.path(), &args));
        assert_eq!(status == 0, is_sound, "{args:?} {sets:?} {of_directory:?}\n{out}{errors}");
        passed += usize::from(is_sound);
        failed += usize::from(!is_sound);
    }
    assert!(passed > 10 && failed > 40, "{passed} {failed}");
}

#[test]
fn options_take_the_names_of_products_for_their_gpus() {
    let hip = library(&[&["gfx906", "gfx90a:xnack-"]]);
    let cuda = fatbins::fatbin(&[80, 90].map(|sm| fatbins::entry(&fatbins::Code::cubin(sm, 4))));
    let both = zip(&[Zipped::new("hip.so", STORED, &hip), Zipped::new("cuda.fatbin", STORED, &cuda)]);
    let run = |args: &[&str]| tool(args, &[("in", &both)]);
    for (products, gpus) in [
        ("Radeon VII,NVIDIA A100", "gfx906,sm_80"),
        ("mi250x:xnack-", "gfx90a:xnack-"),
        ("RTX 3090, H100", "sm_86,sm_90"),
    ] {
        for args in [
            &["verify", "in", "--expect"][..],
            &["recompress", "in", "-o", "out", "--keep-for"],
            &["extract", "in", "-o", "out", "--as-runtime", "--target"],
        ] {
            let [named, known] = [products, gpus].map(|gpus| run(&[args, &[gpus]].concat()));
            assert_eq!((named.status, named.stderr_text()), (0, known.stderr_text()), "{args:?} {products}");
            assert_eq!((named.stdout, named.files), (known.stdout, known.files), "{args:?} {products}");
        }
    }
    let extracted = run(&["extract", "in", "-n", "--target", "H100,Radeon Pro VII"]);
    let names = String::from_utf8(extracted.stdout.clone()).unwrap();
    assert_eq!((extracted.status, names.lines().count()), (0, 2), "{names}{}", extracted.stderr_text());
    for (args, hint) in [
        (&["extract", "in", "H100"][..], "'H100' is the name of a GPU: --target"),
        (
            &["verify", "in", "--expect", "A1000"],
            "the table of products has no 'A1000'; did you mean RTX A1000 (sm_86)?",
        ),
        (&["verify", "in", "--expect", "A1001"], "the table of products has no 'A1001': name its processor"),
        (&["verify", "in", "--expect", "5090"], "'5090' is not the name of a GPU; did you mean RTX 5090 (sm_120)?"),
        (&["extract", "in", "--target", "MI300"], "did you mean MI300X or MI300A (both gfx942)?"),
        (&["recompress", "in", "-o", "out", "--keep-for", "any"], "or a product like 'RTX 5090'"),
    ] {
        let outcome = run(args);
        assert!(outcome.status != 0 && outcome.stderr_text().contains(hint), "{}", outcome.stderr_text());
    }
}

#[cfg(unix)]
#[test]
fn native_means_the_gpus_of_this_machine() {
    use std::os::unix::fs::PermissionsExt as _;

    let dir = memory_directory();
    let bin = dir.path().join("bin");
    fs::create_dir(&bin).unwrap();
    fs::write(dir.path().join("in"), bundle(&["gfx906"])).unwrap();
    // The header of an entry has the version of PTX.
    let ptx = |major, minor| {
        let mut entry = fatbins::entry(&fatbins::Code::ptx(75));
        (entry[24], entry[26]) = (minor, major);
        fatbins::fatbin(&[entry])
    };
    fs::write(dir.path().join("new"), ptx(9, 0)).unwrap();
    fs::write(dir.path().join("old"), ptx(8, 4)).unwrap();
    let script = "case \"$1\" in --query-gpu*) echo 'NVIDIA A100-SXM4-80GB, 8.0';; *) echo 'CUDA Version: 12.4';; esac";
    fs::write(bin.join("nvidia-smi"), format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(bin.join("nvidia-smi"), fs::Permissions::from_mode(0o755)).unwrap();
    // This machine may have GPUs of other vendors too.
    for (args, expected) in [
        (
            &["verify", "in", "--expect", "NATIVE"][..],
            "it does not serve native (sm_80), because it is not for NVIDIA GPUs",
        ),
        (&["extract", "in", "-n", "--target", "gfx906,native"], "no code object matches 'native' (sm_80)"),
        (&["recompress", "in", "-o", "out", "--keep-for", "native"], "no code object matches 'native' (sm_80)"),
        (
            &["verify", "new", "--expect", "native"],
            "it does not serve native (sm_80); it has code for compute_75; PTX 9.0 needs a driver of CUDA 13.0, and this machine has 12.4",
        ),
        (&["extract", "new", "-n", "--as-runtime", "--target", "native"], "no code object"),
        (&["verify", "in", "--expect", "native+ptx"], "without '+ptx': native,ptx adds PTX"),
        (&["verify", "in", "--expect", "native:xnack+"], "':xnack+' cannot follow"),
    ] {
        let (status, out, said) =
            text(&Command::new(PROGRAM).args(args).current_dir(dir.path()).env("PATH", &bin).output().unwrap());
        assert!(status != 0 && [out.as_str(), said.as_str()].concat().contains(expected), "{args:?}: {out}{said}");
    }
    // The driver compiles older PTX, and the name of the GPU says nothing of a driver.
    for args in [
        &["verify", "old", "--expect", "native"][..],
        &["verify", "new", "--expect", "sm_80"],
        &["extract", "old", "-n", "--as-runtime", "--target", "native"],
    ] {
        let output = Command::new(PROGRAM).args(args).current_dir(dir.path()).env("PATH", &bin).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", text(&output).2);
    }
    // A terminal shows what the GPUs of this machine load.
    let code = |target: &str| fatbins::entry(&fatbins::Code::cubin(target[3..].parse().unwrap(), 4));
    let cubins = fatbins::fatbin(&["sm_75", "sm_80", "sm_86"].map(code));
    let library = Elf::LIBRARY.write(&[Section::new(".nv_fatbin", &cubins)]);
    fs::write(dir.path().join("lib.so"), library).unwrap();
    let path = bin.to_str().unwrap();
    let shown = text_output::on_a_terminal(80, &[("PATH", path)], &["inspect", "lib.so"], dir.path());
    let marked: Vec<&str> = shown.lines().filter(|line| line.contains(" * ")).collect();
    assert!(marked.len() == 1 && marked[0].starts_with("  sm_80 * "), "{shown}");
    assert!(shown.contains("  *: what the GPUs of this machine load\n"), "{shown}");
    let output = Command::new(PROGRAM).args(["inspect", "lib.so"]).current_dir(dir.path()).env("PATH", &bin).output();
    assert!(!text(&output.unwrap()).1.contains('*'));
}

#[test]
fn intel_gpus_are_served_by_their_own_code_compatible_code_and_spir_v() {
    let image = |triple, arch| Image::new(1, 1, &[("triple", triple), ("arch", arch)], b"code");
    let native = image("spir64_gen-unknown-unknown", "dg2-g10");
    let of_llvm = image("spirv64-intel-unknown", "bmg_g21");
    let spir_v = image("spirv64-intel-unknown", "");
    for (gpus, is_by_native, is_by_spir_v) in [
        ("dg2-g10", true, true),
        ("Arc A770", true, true),
        ("acm-g11", true, true),
        ("Arc B580", true, true),
        ("Lunar Lake", true, true),
        ("pvc", false, true),
        ("dg1,dg2-g12", false, true),
        ("Meteor Lake", false, true),
        ("sm_90", false, false),
        ("gfx90a", false, false),
    ] {
        for (images, is_served) in [
            (&[native.clone(), of_llvm.clone()][..], is_by_native),
            (&[native.clone(), spir_v.clone()], is_by_spir_v),
            (&[native.clone(), of_llvm.clone(), spir_v.clone()], is_by_native || is_by_spir_v),
        ] {
            let (status, lines, said) = expecting(&["--expect", gpus], &offload::write(1, images));
            assert_eq!(status == 0, is_served, "{gpus}: {lines:?} {said}");
        }
    }
    let (status, _, said) = expecting(&["--expect", "dg2_g10"], &offload::write(1, &[native]));
    assert!(status == 2 && said.contains("did you mean 'dg2-g10'?"), "{said}");
}

/// An object with offload binaries, each with an image of a kind for an architecture.
fn offloading(images: &[(u16, &str)]) -> Vec<u8> {
    let write = |(kind, arch): &(u16, &str)| {
        offload::write(1, &[Image::new(1, *kind, &[("triple", "amdgcn-amd-amdhsa"), ("arch", arch)], b"code")])
    };
    let data: Vec<u8> = images.iter().flat_map(write).collect();
    Elf::OBJECT.write(&[Section::new(".llvm.offloading", &data).offloading()])
}

#[test]
fn offload_binaries_of_other_sources_and_kinds_serve_by_themselves() {
    const OPENMP: u16 = 1;
    const HIP: u16 = 4;
    let (both, one) = (offloading(&[(HIP, "gfx906"), (HIP, "gfx90a")]), offloading(&[(HIP, "gfx906")]));
    for (name, data, gaps) in [
        ("one source", both.clone(), 0),
        ("linked into one object", offloading(&[(HIP, "gfx906"), (HIP, "gfx90a"), (HIP, "gfx906")]), 1),
        ("two kinds", offloading(&[(HIP, "gfx906"), (OPENMP, "gfx90a")]), 2),
        ("members of one name", crate::properties::make::archive(&[("a.o", &both), ("a.o", &one), ("a.o", &both)]), 1),
    ] {
        let (status, lines, _) = expecting(&["--expect", "gfx906,gfx90a"], &data);
        assert_eq!((status, lines.len()), (i32::from(gaps > 0), gaps), "{name}: {lines:?}");
    }
    let others = crate::properties::make::archive(&[("a.o", &offloading(&[(HIP, "gfx1030")])), ("a.o", &one)]);
    let outcome = tool(&["extract", "-n", "--as-runtime", "-t", "gfx906", "in.a"], &[("in.a", &others)]);
    let printed = String::from_utf8(outcome.stdout).unwrap();
    assert!(printed.lines().count() == 1 && printed.contains("gfx906"), "{printed}");
}

#[test]
fn reports_for_programs_name_gpu_and_source() {
    let codes = [fatbins::Code::cubin(80, 4).with_source("kernels.cu"), fatbins::Code::ptx(80)];
    let data = fatbins::fatbin(&codes.each_ref().map(fatbins::entry));
    let (status, lines, _) = expecting(&["--expect", "sm_80,sm_89+ptx,sm_90"], &data);
    assert_eq!((status, lines), (0, vec![]));
    let outcome = tool(&["verify", "--json", "--expect", "sm_75,sm_80+ptx", "in"], &[("in", &data)]);
    let document: Value = serde_json::from_slice(&outcome.stdout).unwrap();
    schema::check("verify", &document);
    let fault = &document["files"][0]["faults"][0];
    let of = |name: &str| fault[name].as_str().unwrap();
    assert_eq!((outcome.status, of("rule"), of("gpu"), of("source")), (1, "expected", "sm_75", "kernels.cu"));
    assert!(of("text").ends_with("it has code for sm_80, compute_80; its source is 'kernels.cu'"), "{fault}");
    assert_eq!(document["problems"].as_array().unwrap().len(), 0);
}

#[test]
fn a_linked_library_tells_the_sources_of_its_bundles() {
    let test = "a_linked_library_tells_the_sources_of_its_bundles";
    let (Some(clang), Some(lld)) = (llvm(test, "clang"), llvm(test, "ld.lld")) else { return };
    let dir = memory_directory();
    let mut objects = Vec::new();
    for (name, gpus) in [("one", &["gfx906", "gfx90a"][..]), ("two", &["gfx906"]), ("three", &["gfx90a"])] {
        let source = super::against_llvm::HIP.split("extern \"C\" int puts").next().unwrap().replace("add", name);
        std::fs::write(dir.path().join(format!("{name}.hip")), source).unwrap();
        let mut command = Command::new(&clang);
        command.args(["-x", "hip", "-nogpuinc", "-nogpulib", "-fPIC", "-c"]).current_dir(dir.path());
        command.args(gpus.iter().map(|gpu| format!("--offload-arch={gpu}")));
        must(command.args([&format!("{name}.hip"), "-o", &format!("{name}.o")]));
        objects.push(format!("{name}.o"));
    }
    must(Command::new(lld).args(["-shared", "-o", "lib.so"]).args(&objects).current_dir(dir.path()));
    let gaps = |file: &str| {
        let (_, printed, _) = text(&tool_in(dir.path(), &["verify", "--expect", "gfx906,gfx90a", file]));
        let gap = |line: &str| line.split("bundle ").nth(1)?.strip_suffix(" [expected]").map(str::to_owned);
        printed.lines().filter_map(gap).collect::<Vec<_>>()
    };
    let [second, third] = &*gaps("lib.so") else { panic!("{:?}", gaps("lib.so")) };
    assert!(
        second.starts_with('1') && second.contains("not serve gfx90a;") && second.ends_with("'two.hip'"),
        "{second}"
    );
    assert!(third.starts_with('2') && third.contains("not serve gfx906;") && third.ends_with("'three.hip'"), "{third}");
    let objcopy = llvm(test, "llvm-objcopy").unwrap();
    must(Command::new(objcopy).args(["--strip-all", "lib.so", "stripped.so"]).current_dir(dir.path()));
    let stripped = gaps("stripped.so");
    assert!(stripped.len() == 2 && stripped.iter().all(|gap| !gap.contains("source")), "{stripped:?}");
}

#[test]
fn code_that_was_not_asked_for_is_refused_on_request() {
    let data = library(&[&["gfx906", "gfx1100", "gfx11-generic"]]);
    for (gpus, unexpected) in [
        ("gfx906,gfx1100,gfx1101", &[][..]),
        ("gfx906,gfx1100", &["gfx11-generic"]),
        ("gfx906", &["gfx11-generic", "gfx1100"]),
        // A generic name means all processors of its target, and one of them prefers its own code.
        ("gfx906,gfx11-generic", &[]),
        // A runtime would prefer other code that is there.
        ("gfx906,gfx1100,gfx11-generic", &[]),
    ] {
        let (status, lines, _) = expecting(&["--expect-exactly", gpus], &data);
        let ends: Vec<String> = unexpected
            .iter()
            .map(|gpu| format!("it has code for {gpu}, which no expected GPU needs [unexpected]"))
            .collect();
        assert_eq!((status, lines.len()), (i32::from(!ends.is_empty()), ends.len()), "{gpus}: {lines:?}");
        assert!(lines.iter().zip(&ends).all(|(line, end)| line.ends_with(end)), "{lines:?}");
        assert_eq!(expecting(&["--expect", gpus], &data).0, 0);
    }
}

#[test]
fn gpus_may_be_listed_in_a_file() {
    let data = library(&[&["gfx906", "gfx1030"]]);
    let list = "# the GPUs of a release\ngfx906:xnack-  # as shipped\n\ngfx1030,gfx1100\n";
    let outcome = tool(&["verify", "--expect", "gpus.txt", "in"], &[("in", &data), ("gpus.txt", list.as_bytes())]);
    let text = String::from_utf8(outcome.stdout.clone()).unwrap();
    assert_eq!((outcome.status, text.matches("[expected]").count()), (1, 1), "{text}");
    assert!(text.contains("it does not serve gfx1100"), "{text}");
    let named =
        tool(&["verify", "--expect", "gfx906.txt", "in"], &[("in", &data), ("gfx906.txt", b"\xef\xbb\xbfgfx906\r\n")]);
    assert_eq!((named.status, named.stderr_text().as_str()), (0, ""));
    for (list, reason) in [
        ("gfx90", "'gfx90' is not"),
        (".", "not a file with a list"),
        ("gpus", "'gpus' is not the name of a GPU"),
        ("gfx1030:xnack+", "has no target feature 'xnack'"),
        ("sm_8", "two or three digits"),
        (",", "it names no GPU"),
    ] {
        let outcome = tool(&["verify", "--expect", list, "in"], &[("in", &data)]);
        let is_told = outcome.stderr_text().contains(reason);
        assert!(outcome.status == 2 && is_told, "{list}: {}", outcome.stderr_text());
    }
    let both = tool(&["verify", "--expect", "gfx906", "--expect-exactly", "gfx906", "in"], &[("in", &data)]);
    assert_eq!(both.status, 2);
}

#[test]
fn code_outside_of_bundles_serves_each_gpu_together() {
    let (one, other) = (Elf::amdgpu(0x3f).write(&[]), Elf::amdgpu(0x41).write(&[]));
    let files = [("a.co", one.as_slice()), ("b.co", other.as_slice())];
    let run = |gpus: &str| {
        let outcome = tool(&["verify", "--expect", gpus, "a.co", "b.co"], &files);
        (outcome.status, outcome.stderr_text())
    };
    assert_eq!(run("gfx90a,gfx1100"), (0, String::new()));
    let (status, errors) = run("gfx90a,gfx1101");
    assert_eq!((status, errors.as_str()), (1, ""));
    let outcome = tool(&["verify", "--expect-exactly", "gfx90a", "a.co", "b.co"], &files);
    assert_eq!((outcome.status, outcome.stderr_text().as_str()), (1, ""));
}

/// A bundle of machine code, as HIP's runtime loads it, with these entry IDs.
fn loaded_bundle(ids: &[&str]) -> Vec<u8> {
    let elf = Elf::amdgpu(0x4c).write(&[]);
    let code = ids.iter().map(|id| (*id, elf.as_slice()));
    formats::binary(&[(HOST, &b""[..])].into_iter().chain(code).collect::<Vec<_>>(), 16)
}

#[test]
fn hip_s_runtime_finds_entries_by_the_text_of_their_ids() {
    let library = |bundle: &[u8]| Elf::LIBRARY.write(&[Section::new(".hip_fatbin", bundle).aligned(4096)]);
    for (id, is_found) in [
        ("hipv4-amdgcn-amd-amdhsa--gfx942", true),
        ("hip-amdgcn-amd-amdhsa--gfx942", true),
        ("hipv4-spirv64-amd-amdhsa--amdgcnspirv", true),
        ("hipv4-spirv64-amd-amdhsa-unknown-amdgcnspirv", true),
        ("hipv4-amdgcn-amd-amdhsa-llvm-gfx942", false),
        ("hipv4-amdgcn-amd-amdhsa-unknown-gfx942", false),
        ("hip-amdgcn-amd-amdhsa-gfx942", false),
        ("hipv4-amdgcn-unknown-amdhsa--gfx942", false),
        ("hipv4-amdgcn-amd-amdpal--gfx942", false),
        // Another runtime loads it.
        ("openmp-amdgcn-amd-amdhsa-llvm-gfx942", true),
    ] {
        let plain = loaded_bundle(&[id]);
        let compressed = formats::compressed(2, 0, &plain);
        for bundle in [&plain, &compressed] {
            let data = library(bundle);
            for option in ["--expect", "--expect-any"] {
                let (status, lines, errors) = expecting(&[option, "gfx942"], &data);
                assert_eq!(lines.len(), usize::from(!is_found), "{id}: {errors}");
                // The machine code is not SPIR-V, which is another fault.
                assert!(status == i32::from(!is_found) || id.contains("spirv"), "{id}: {errors}");
                let told = format!("HIP's runtime does not find '{id}': it looks for IDs that begin with 'hipv4-");
                assert!(lines.iter().all(|line| line.contains(&told)), "{lines:?}");
            }
            let files = [("in", data.as_slice())];
            let extracted = tool(&["extract", "-n", "--as-runtime", "-t", "gfx942", "in"], &files);
            assert_eq!((extracted.status, extracted.stdout.is_empty()), (i32::from(!is_found), !is_found), "{id}");
            let kept = tool(&["recompress", "--keep-for", "gfx942", "in", "-o", "out"], &files);
            assert_eq!(kept.status, i32::from(!is_found), "{id}: {}", kept.stderr_text());
            for outcome in [extracted, kept].iter().filter(|_| !is_found) {
                let told = format!("HIP's runtime does not find '{id}'");
                assert!(outcome.stderr_text().contains(&told), "{}", outcome.stderr_text());
            }
            let document = json_of(&tool(&["inspect", "--json", "in"], &files));
            let gpu = &document["files"][0]["coverage"][0];
            assert_eq!(
                (gpu["serving"].as_u64(), gpu["bundles"].as_u64()),
                (Some(u64::from(is_found)), Some(1)),
                "{id}"
            );
            let matrix = String::from_utf8(tool(&["inspect", "--matrix", "in"], &files).stdout).unwrap();
            let cell = matrix.lines().find(|line| line.starts_with("in ")).unwrap().split_whitespace().nth(1);
            assert_eq!(cell, Some(if is_found { "all" } else { "-" }), "{id}: {matrix}");
        }
    }
}

#[test]
fn code_of_a_library_counts_whatever_library_follows() {
    let (old, new) = (Elf::amdgpu(0x2f).write(&[]), Elf::amdgpu(0x3f).write(&[]));
    let image = |arch, elf: &[u8]| Image::new(1, 1, &[("triple", "amdgcn-amd-amdhsa"), ("arch", arch)], elf);
    // The second of two source files has code for both GPUs.
    let images = [
        offload::write(1, &[image("gfx906", &old)]),
        offload::write(1, &[image("gfx906", &old), image("gfx90a", &new)]),
    ];
    let first = Elf::LIBRARY.write(&[Section::new(".llvm.offloading", &images.concat())]);
    let second = library(&[&["gfx906", "gfx90a"]]);
    let wheel = zip(&[Zipped::new("a.so", STORED, &first), Zipped::new("b.so", STORED, &second)]);
    assert_eq!(expecting(&["--expect-any", "gfx906,gfx90a"], &wheel), (0, vec![], String::new()));
    let (_, lines, _) = expecting(&["--expect-any", "gfx942"], &wheel);
    let places: Vec<&str> = lines.iter().filter_map(|line| Some(line.split_once(": ")?.0)).collect();
    assert_eq!(places, ["in(a.so)", "in(b.so)"], "{lines:?}");
}

#[test]
fn linkers_find_entries_that_hip_s_runtime_does_not() {
    let (elf, id) = (Elf::amdgpu(0x4c).write(&[]), "hipv4-amdgcn-amd-amdhsa-llvm-gfx942");
    let object = Elf::OBJECT.write(&[Section::new(".text", b"host")]);
    let image = Image::new(1, 4, &[("triple", "amdgcn-amd-amdhsa-llvm"), ("arch", "gfx942")], &elf);
    let name = format!("__CLANG_OFFLOAD_BUNDLE__{id}");
    let host = format!("__CLANG_OFFLOAD_BUNDLE__{HOST}");
    let fat = Elf::OBJECT.write(&[Section::new(&host, b"\0"), Section::new(&name, &elf)]);
    let bitcode = formats::binary(&[(HOST, b"BC\xc0\xde"), (id, b"BC\xc0\xde")], 8);
    for (what, data) in [
        ("with host code", formats::binary(&[(HOST, &object), (id, &elf)], 8)),
        ("offload binary", offload::write(1, &[image])),
        ("fat object", fat),
        ("bitcode", bitcode),
    ] {
        let (status, lines, errors) = expecting(&["--expect", "gfx942"], &data);
        assert!(lines.is_empty(), "{what}: {status} {lines:?} {errors}");
    }
}

#[test]
fn files_for_one_gpu_each_serve_together() {
    let of = |flags: u32| Elf::amdgpu(flags).write(&[]);
    let for_gpu = |gpu: &str, flags: u32| {
        let id = format!("hipv4-amdgcn-amd-amdhsa--{gpu}");
        formats::binary(&[(HOST, &b""[..]), (&id, &of(flags))], 4096)
    };
    let files: Vec<(String, Vec<u8>)> = [
        ("library/TensileLibrary_Type_HH_Contraction_l_Alik_Bljk_Cijk_Dijk_gfx90a.co", of(0x3f)),
        ("library/TensileLibrary_Type_HH_Contraction_l_Alik_Bljk_Cijk_Dijk_gfx1100.co", of(0x41)),
        ("library/TensileLibrary_Type_HH_gfx90a.dat", b"\x82\xa7version".to_vec()),
        ("library/Kernels.so-000-gfx90a-xnack+.hsaco", for_gpu("gfx90a:xnack+", 0x33f)),
        ("library/Kernels.so-000-gfx1100.hsaco", for_gpu("gfx1100", 0x41)),
        ("library/TensileManifest.txt", b"a list".to_vec()),
        ("hsa/gfx90a/gemm.co", of(0x3f)),
        ("hsa/gfx1100/gemm.co", of(0x41)),
    ]
    .map(|(name, data)| (name.to_owned(), data))
    .into();
    let dir = memory_directory();
    for (name, data) in &files {
        let path = dir.path().join("tree").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, data).unwrap();
    }
    let zipped: Vec<Zipped> = files.iter().map(|(name, data)| Zipped::new(name, DEFLATED, data)).collect();
    std::fs::write(dir.path().join("in.whl"), zip(&zipped)).unwrap();
    must(Command::new("tar").args(["-C", "tree", "-czf", "in.tar.gz", "."]).current_dir(dir.path()));
    for (option, input) in
        [("--expect", "tree"), ("--expect-any", "tree"), ("--expect", "in.whl"), ("--expect", "in.tar.gz")]
    {
        let verify = |gpus: &str| {
            let (status, printed, errors) = text(&tool_in(dir.path(), &["verify", "-r", option, gpus, input]));
            let lines = printed.lines().filter(|line| line.contains("[expected]")).map(str::to_owned);
            (status, lines.collect::<Vec<_>>(), errors)
        };
        assert_eq!(verify("gfx90a,gfx1100"), (0, vec![], String::new()), "{input}");
        let (status, lines, errors) = verify("gfx90a,gfx942");
        assert_eq!((status, errors.as_str()), (1, ""), "{input}");
        let place = |name: &str| if input == "tree" { format!("tree/{name}") } else { format!("{input}({name})") };
        let mut expected = ["hsa/*", "library"].map(|name| {
            let held = if name == "library" { "gfx90a, gfx90a:xnack+, gfx1100 in 4" } else { "gfx90a, gfx1100 in 2" };
            format!("{}: it does not serve gfx942; it has code for {held} files [expected]", place(name))
        });
        let mut lines = lines;
        lines.sort();
        expected.sort();
        assert_eq!(lines, expected);
        let matrix = text(&tool_in(dir.path(), &["inspect", "-r", "--matrix", input])).1;
        let rows: Vec<&str> =
            matrix.lines().filter(|line| line.contains('/') && !line.contains(" libraries: ")).collect();
        assert!(rows.iter().all(|row| row.contains("all")) && rows.len() == 2, "{matrix}");
        assert!(!matrix.contains("hsaco") && !matrix.contains("not in the table"), "{matrix}");
        let output = tool_in(dir.path(), &["inspect", "-r", "--json", input]);
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        schema::check("inspect", &document);
        let directories = document["directories"].as_array().unwrap();
        let files: Vec<u64> = directories.iter().map(|directory| directory["files"].as_u64().unwrap()).collect();
        assert_eq!(files, [2, 4], "{directories:?}");
        for directory in directories {
            let gpus = directory["coverage"].as_array().unwrap();
            assert!(gpus.iter().all(|gpu| gpu["serving"] == 1 && gpu["bundles"] == 1), "{directory}");
        }
        let summary = text(&tool_in(dir.path(), &["inspect", "-r", "--summary", input])).1;
        let of = |gpu: &str| summary.lines().find(|line| line.contains(&format!(" {gpu} "))).unwrap().to_owned();
        assert!(of("gfx1100").contains(" 2 of 2 "), "{summary}");
        assert!(of("gfx90a:xnack+").contains(" 2 of 2 "), "{summary}");
        tool_in(dir.path(), &["report", "-r", input, "-o", "page.html"]);
        let page = std::fs::read_to_string(dir.path().join("page.html")).unwrap();
        assert!(page.contains("2 bundles") && page.contains("library/"), "{page}");
    }
}

#[test]
fn a_file_that_is_named_alone_is_judged_alone() {
    let of = |gpu: &str| loaded_bundle(&[&format!("hipv4-amdgcn-amd-amdhsa--{gpu}")]);
    let (one, other) = (of("gfx942"), of("gfx90a"));
    let files = [("d/a.hsaco", one.as_slice()), ("d/b.hsaco", &other), ("e/a.hsaco", &one)];
    let dir = memory_directory();
    for (name, data) in files {
        std::fs::create_dir_all(dir.path().join(name).parent().unwrap()).unwrap();
        std::fs::write(dir.path().join(name), data).unwrap();
    }
    let lines = |paths: &[&str]| {
        let args = [&["verify", "--expect", "gfx942"], paths].concat();
        let (_, printed, _) = text(&tool_in(dir.path(), &args));
        let lines = printed.lines().filter(|line| line.contains("[expected]"));
        lines.filter_map(|line| Some(line.split_once(": ")?.0.to_owned())).collect::<Vec<_>>()
    };
    assert_eq!(lines(&["d/b.hsaco"]), ["d/b.hsaco"]);
    assert_eq!(lines(&["d/a.hsaco", "d/b.hsaco"]), [""; 0]);
    // Files of another directory do not count.
    assert_eq!(lines(&["e/a.hsaco", "d/b.hsaco"]), ["d/b.hsaco"]);
    // Bundles in a row belong to a library, so each has to serve.
    std::fs::write(dir.path().join("d/b.hsaco"), [one.clone(), other].concat()).unwrap();
    assert_eq!(lines(&["d/a.hsaco", "d/b.hsaco"]), ["d/b.hsaco"]);
    // Inputs of compilers are no files that a program loads.
    std::fs::write(dir.path().join("e/ocml.bc"), b"BC\xc0\xde").unwrap();
    assert_eq!(lines(&["e"]), [""; 0]);
}

#[test]
fn offload_binaries_in_one_section_serve_together() {
    let image = |arch: &str| Image::new(1, 4, &[("triple", "amdgcn-amd-amdhsa"), ("arch", arch)], b"code");
    let data: Vec<u8> =
        ["gfx906", "gfx90a", "gfx11-generic"].iter().flat_map(|arch| offload::write(1, &[image(arch)])).collect();
    let object = Elf::OBJECT.write(&[Section::new(".llvm.offloading", &data).offloading()]);
    assert_eq!(expecting(&["--expect", "gfx906,gfx90a,gfx1103"], &object), (0, vec![], String::new()));
    let (status, lines, _) = expecting(&["--expect", "gfx906,gfx1030"], &object);
    assert_eq!(status, 1);
    let told =
        "in(.llvm.offloading): it does not serve gfx1030; it has code for gfx906, gfx90a, gfx11-generic [expected]";
    assert_eq!(lines, [told]);
}

#[test]
fn verify_expect_applies_to_every_library_of_a_wheel() {
    let (good, bad) = (library(&[&["gfx90a", "gfx942"]]), library(&[&["gfx90a", "gfx942"], &["gfx90a"]]));
    let wheel = zip(&[Zipped::new("a/good.so", DEFLATED, &good), Zipped::new("a/bad.so", STORED, &bad)]);
    let (status, lines, _) = expecting(&["--expect", "gfx90a,gfx942"], &wheel);
    assert_eq!((status, lines.len()), (1, 1));
    assert!(lines[0].starts_with("in(a/bad.so)(.hip_fatbin): bundle 1 at offset "), "{lines:?}");
}

#[test]
fn a_library_may_serve_a_gpu_with_any_bundle() {
    let (mixed, bad) = (library(&[&["gfx90a"], &["gfx942"], &["gfx90a"], &["gfx90a"]]), library(&[&["gfx90a"]]));
    let gap = "it does not serve gfx942; it has code for gfx90a [expected]";
    let (status, lines, hint) = expecting(&["--expect", "gfx942"], &mixed);
    // A gap in several bundles is one line.
    assert!(status == 1 && lines.len() == 1 && lines[0].ends_with(&format!("{gap} (the same in 2 more bundles)")));
    assert!(hint.contains("--expect-any"), "{hint}");
    assert_eq!(expecting(&["--expect-any", "gfx942"], &mixed), (0, vec![], String::new()));
    let wheel = zip(&[Zipped::new("a/good.so", DEFLATED, &mixed), Zipped::new("a/bad.so", STORED, &bad)]);
    let (status, lines, hint) = expecting(&["--expect-any", "gfx942,gfx90a"], &wheel);
    assert_eq!((status, lines, hint), (1, vec![format!("in(a/bad.so): {gap}")], String::new()));
    // Without any code for the GPU, the milder form would fail, too.
    assert_eq!(expecting(&["--expect", "gfx942"], &bad).2, "");
}

#[test]
fn inspect_counts_the_bundles_that_serve_a_gpu() {
    let data = library(&[&["gfx906", "gfx11-generic"], &["gfx906", "gfx1152"], &["gfx906:xnack-", "gfx906:xnack+"]]);
    let outcome = tool(&["inspect", "--json", "in"], &[("in", &data)]);
    let document = json_of(&outcome);
    let file = &document["files"][0];
    let gpus = file["coverage"].as_array().unwrap().iter();
    let gpus: Vec<(&str, u64, u64)> = gpus
        .map(|gpu| (gpu["gpu"].as_str().unwrap(), gpu["serving"].as_u64().unwrap(), gpu["bundles"].as_u64().unwrap()))
        .collect();
    let expected = [
        ("gfx906", 3, 3),
        ("gfx906:xnack+", 3, 3),
        ("gfx906:xnack-", 3, 3),
        ("gfx11-generic", 1, 3),
        ("gfx1152", 2, 3),
    ];
    assert_eq!((gpus.as_slice(), file["bundles"].as_u64()), (&expected[..], Some(3)));
    let text = String::from_utf8(tool(&["inspect", "in"], &[("in", &data)]).stdout).unwrap();
    let of = |gpu: &str| text.lines().find(|line| line.trim_start().starts_with(gpu)).unwrap().to_owned();
    for (gpu, served) in [("gfx1152 ", " 2 of 3 "), ("gfx906", " 3 of 3 "), ("gfx11-generic ", " 1 of 3 ")] {
        assert!(of(gpu).contains(served), "{text}");
    }
    let summary = String::from_utf8(tool(&["inspect", "--summary", "in", "in"], &[("in", &data)]).stdout).unwrap();
    assert!(summary.contains(" 4 of 6 ") && summary.contains("gfx1152 (4 of 6)"), "{summary}");
}

#[test]
fn the_picture_names_every_gpu_with_its_bundles() {
    let gpus: Vec<String> = (0..20).map(|number| format!("gfx90{number:02x}")).collect();
    let all: Vec<&str> = gpus.iter().map(String::as_str).collect();
    let dir = memory_directory();
    std::fs::write(dir.path().join("in"), library(&[&all, &all[..7], &all[..7]])).unwrap();
    let outcome = tool_in(dir.path(), &["inspect", "--svg", "picture.svg", "in"]);
    assert!(outcome.status.success());
    let picture = std::fs::read_to_string(dir.path().join("picture.svg")).unwrap();
    let (_, served) = picture.split_once("Bundles that serve each GPU").unwrap();
    for (number, gpu) in gpus.iter().enumerate() {
        let (_, row) = served.split_once(&format!(">{gpu}</text>")).unwrap();
        let (row, _) = row.split_once("</text>").unwrap();
        let (numbers, color) = if number < 7 { ("all", "#0072b2") } else { ("1/3", "#d1242f") };
        assert!(row.ends_with(&format!(">{numbers}")) && row.contains(&format!("fill=\"{color}\"")), "{gpu}: {row}");
    }
    assert!(served.contains("3 bundles; 7 GPUs are served by all bundles for GPUs of their vendor"), "{served}");
}

#[test]
fn extract_takes_what_a_runtime_would() {
    let data = library(&[&["gfx906", "gfx11-generic"], &["gfx1152", "gfx11-generic"], &["amdgcnspirv", "gfx906"]]);
    let names = |options: &[&str]| {
        let outcome = tool(&[&["extract", "-n", "in"], options].concat(), &[("in", &data)]);
        (outcome.status, String::from_utf8(outcome.stdout.clone()).unwrap() + &outcome.stderr_text())
    };
    let (status, text) = names(&["--target", "gfx1152", "--as-runtime"]);
    let expected = "./in-0-hipv4-amdgcn-amd-amdhsa--gfx11-generic.txt\n./in-1-hipv4-amdgcn-amd-amdhsa--gfx1152.txt\n\
                    ./in-2-hipv4-amdgcn-amd-amdhsa--amdgcnspirv.txt\n";
    assert_eq!((status, text.as_str()), (0, expected));
    // A generic target means its processors. One of them has separate code.
    let (status, text) = names(&["--target", "gfx11-generic", "--as-runtime"]);
    let expected = "./in-0-hipv4-amdgcn-amd-amdhsa--gfx11-generic.txt\n./in-1-hipv4-amdgcn-amd-amdhsa--gfx1152.txt\n\
                    ./in-1-hipv4-amdgcn-amd-amdhsa--gfx11-generic.txt\n./in-2-hipv4-amdgcn-amd-amdhsa--amdgcnspirv.txt\n";
    assert_eq!((status, text.as_str()), (0, expected));
    let (status, text) = names(&["--target", "gfx1152,sm_80", "--as-runtime"]);
    assert!(status == 1 && text.contains("'sm_80'") && !text.contains("'gfx1152'"), "{text}");
    for target in ["gfx*", "gfx9*", "hip-amdgcn-amd-amdhsa--gfx906"] {
        let (status, text) = names(&["--target", target, "--as-runtime"]);
        assert!(status == 2 && text.contains("--as-runtime needs names of GPUs"), "{text}");
    }
    assert_eq!(names(&["--as-runtime"]).0, 2);
    assert_eq!(names(&["--target", "gfx906", "--as-runtime", "--exact"]).0, 2);
}

const LTO_IR: u16 = 8;
const LTO_IR_CODE: &[u8] = b"\xedCN\x7f1234";
/// The flags of code that is obfuscated, and of code that is compressed by a method that is not known.
const OBFUSCATED: u64 = 0x1_0000;
const UNKNOWN_METHOD: u64 = 0x4000;

/// A fatbin with code for these targets.
fn cuda(targets: &[&str]) -> Vec<u8> {
    let code = |target: &&str| {
        let (form, sm) = target.split_once('_').unwrap();
        let sm: u8 = sm.parse().unwrap();
        fatbins::entry(&match form {
            "compute" => fatbins::Code::ptx(sm.into()),
            "lto" => fatbins::Code::new(LTO_IR, sm.into(), LTO_IR_CODE),
            _ => fatbins::Code::cubin(sm, 4),
        })
    };
    fatbins::fatbin(&targets.iter().map(code).collect::<Vec<_>>())
}

/// A host file with linked code, if there is any, and relocatable code of some objects.
fn relocatable(host: Elf, linked: Option<&[&str]>, objects: &[&[&str]]) -> Vec<u8> {
    let linked = linked.map(cuda);
    let relocatable: Vec<u8> = objects.iter().flat_map(|targets| cuda(targets)).collect();
    let mut sections: Vec<Section<'_>> =
        linked.iter().map(|linked| Section::new(".nv_fatbin", linked).aligned(8)).collect();
    sections.push(Section::new("__nv_relfatbin", &relocatable).aligned(8));
    host.write(&sections)
}

#[test]
fn relocatable_code_serves_a_program_only_where_the_driver_can_link_it() {
    type Targets<'t> = &'t [&'t str];
    type Objects<'o> = &'o [Targets<'o>];
    type Linking<'c> = (Option<Targets<'c>>, Objects<'c>, Targets<'c>, Targets<'c>);
    let cases: &[Linking<'_>] = &[
        // Linked code decides, and machine code of another GPU is not linked again.
        (Some(&["sm_80"]), &[&["sm_80", "sm_90"]], &["sm_80", "sm_86"], &["sm_90", "sm_75", "compute_90"]),
        (
            Some(&["sm_80"]),
            &[&["sm_80", "compute_80"], &["sm_80", "compute_80"]],
            &["sm_80", "sm_90", "compute_80"],
            &["sm_75"],
        ),
        // The driver needs code of every object.
        (Some(&["sm_80"]), &[&["sm_80", "compute_80"], &["sm_80"]], &["sm_80"], &["sm_90", "compute_90"]),
        (Some(&["sm_80"]), &[&["compute_80"], &["sm_80", "sm_90"]], &["sm_80", "sm_90"], &["sm_100", "compute_90"]),
        (Some(&[]), &[&["compute_80"]], &["sm_80", "sm_120"], &["sm_75"]),
        // The driver does not link LTO-IR.
        (Some(&["sm_80"]), &[&["lto_80"]], &["sm_80"], &["sm_90"]),
        (None, &[&["sm_80"]], &[], &["sm_80", "sm_90"]),
    ];
    for (linked, objects, served, unserved) in cases {
        let data = relocatable(Elf::LIBRARY, *linked, objects);
        for (gpus, status) in [(served, 0), (unserved, 1)] {
            for gpu in *gpus {
                let (found, lines, errors) = expecting(&["--expect-any", gpu], &data);
                assert_eq!(found, status, "{linked:?} {objects:?} {gpu}: {lines:?} {errors}");
                // The command line of the hint passes.
                let (strict, _, errors) = expecting(&["--expect", gpu], &data);
                let is_hinted = errors.contains("--expect-any");
                assert_eq!(is_hinted, strict == 1 && status == 0, "{linked:?} {objects:?} {gpu}: {errors}");
                assert!(strict >= status, "{linked:?} {objects:?} {gpu}");
            }
        }
    }
    let data = relocatable(Elf::LIBRARY, Some(&["sm_80"]), &[&["sm_80", "sm_90"]]);
    let line = "in: it does not serve sm_90; it has code for sm_80; the driver links its relocatable code for another GPU \
                only if that has PTX [expected]";
    assert_eq!(expecting(&["--expect-any", "sm_90"], &data).1, [line]);
    // An object is still to be linked, for any GPU that its code is for.
    let object = relocatable(Elf::OBJECT, None, &[&["sm_80", "sm_90"]]);
    for (gpu, status) in [("sm_80", 0), ("sm_90", 0), ("sm_75", 1)] {
        assert_eq!(expecting(&["--expect", gpu], &object).0, status, "{gpu}");
        assert_eq!(expecting(&["--expect-any", gpu], &object).0, status, "{gpu}");
    }
}

#[test]
fn a_fatbin_without_code_is_a_fault_unless_the_driver_links_relocatable_code_in_its_place() {
    for (objects, expected) in
        [(&[&["sm_80", "compute_80"][..]][..], None), (&[&["sm_80"]], Some("it has no code for any GPU [expected]"))]
    {
        // The library after `recompress --keep-for sm_90`.
        let data = relocatable(Elf::LIBRARY, Some(&[]), objects);
        let (status, lines, _) = expecting(&["--expect", "sm_90"], &data);
        let is_expected = match expected {
            Some(end) => status == 1 && lines.len() == 1 && lines[0].ends_with(end),
            None => status == 0 && lines.is_empty(),
        };
        assert!(is_expected, "{objects:?}: {lines:?}");
    }
}

#[test]
fn verify_counts_a_gpu_that_no_file_serves_as_a_fault() {
    let data = library(&[&["gfx906"]]);
    for (gpus, gaps) in [("sm_80", 1), ("gfx906,sm_80", 1), ("sm_80,sm_90", 2)] {
        for option in ["--expect", "--expect-any"] {
            for files in [&["in"][..], &["in", "in"]] {
                let faults = match gaps * files.len() {
                    1 => ", 1 fault\n".to_owned(),
                    more => format!(", {more} faults\n"),
                };
                let outcome = tool(&[&["verify", option, gpus], files].concat(), &[("in", &data)]);
                let printed = String::from_utf8(outcome.stdout.clone()).unwrap();
                let is_counted = printed.ends_with(&faults) && !printed.contains("nothing wrong");
                assert!(outcome.status == 1 && is_counted, "{option} {gpus} {files:?}: {printed}");
            }
        }
    }
}

#[test]
fn relocatable_code_of_a_library_is_not_counted_among_its_bundles() {
    let data = relocatable(Elf::LIBRARY, Some(&["sm_80"]), &[&["sm_80", "sm_90", "compute_80"][..]; 3]);
    let file = &json_of(&tool(&["inspect", "--json", "in"], &[("in", &data)]))["files"][0];
    assert_eq!((file["bundles"].as_u64(), file["code_objects"].as_array().unwrap().len()), (Some(1), 10));
    // Everything is kept that the driver may link.
    let kept = tool(&["recompress", "in", "-o", "out", "--keep-for", "sm_90"], &[("in", &data)]);
    assert_eq!(kept.status, 0, "{}", kept.stderr_text());
    let file = &json_of(&tool(&["inspect", "--json", "in"], &[("in", &kept.files["out"])]))["files"][0];
    let targets = file["code_objects"].as_array().unwrap().iter().map(|object| object["target_id"].as_str().unwrap());
    assert_eq!(targets.collect::<Vec<_>>(), ["sm_90", "compute_80"].repeat(3));
}

#[test]
fn lto_ir_alone_is_code_for_later_gpus() {
    let lto_ir = fatbins::Code::new(LTO_IR, 80, LTO_IR_CODE);
    let obfuscated = fatbins::fatbin(&[fatbins::entry(&lto_ir.with_flags(OBFUSCATED))]);
    for data in [&cuda(&["lto_80"]), &obfuscated] {
        for (gpus, status) in [("sm_80,sm_90,lto_90", 0), ("sm_120", 0), ("sm_75", 1), ("compute_90", 1)] {
            for option in ["--expect", "--expect-any", "--expect-exactly"] {
                let (found, lines, errors) = expecting(&[option, gpus], data);
                assert_eq!(found, status, "{option} {gpus}: {lines:?} {errors}");
            }
        }
        let (_, lines, _) = expecting(&["--expect-any", "sm_75"], data);
        assert_eq!(lines, ["in: bundle 0 at offset 0: it does not serve sm_75; it has code for lto_80 [expected]"]);
        let kept = tool(&["recompress", "in", "-o", "out", "--keep-for", "sm_90"], &[("in", data)]);
        assert!(kept.status == 0 && kept.files["out"] == **data, "{}", kept.stderr_text());
        assert_eq!(tool(&["recompress", "in", "-o", "out", "--keep-for", "sm_75"], &[("in", data)]).status, 1);
        let matrix = String::from_utf8(tool(&["inspect", "--matrix", "in"], &[("in", data)]).stdout).unwrap();
        assert!(matrix.starts_with("LIBRARY  lto_80\nin          all\n"), "{matrix}");
        let file = &json_of(&tool(&["inspect", "--json", "in"], &[("in", data)]))["files"][0];
        let served: Value =
            serde_json::json!([{"gpu": "lto_80", "products": [], "serving": 1, "bundles": 1, "jit": 1}]);
        assert_eq!(file["coverage"], served);
    }
    // A program that finds code which its runtime loads links nothing.
    let both = cuda(&["sm_80", "lto_80"]);
    assert_eq!([("sm_80", 0), ("sm_90", 1)].map(|(gpu, _)| expecting(&["--expect", gpu], &both).0), [0, 1]);
}

#[test]
fn lto_ir_is_known_by_its_first_bytes() {
    let header = [&b"\xedCN\x7f\x01\x43"[..], &[0; 14], &[1, 0, 0x84, 3, 32, 0, 1, 0, 99, 0, 0, 0], &[7; 64]].concat();
    let archive = crate::properties::make::archive(&[("k.ltoir", &header)]);
    let wheel = zip(&[Zipped::new("a/k.ltoir", DEFLATED, &header), Zipped::new("b/k.ltoir", STORED, &header)]);
    let images =
        offload::write(1, &[Image::new(0, 2, &[("triple", "nvptx64-nvidia-cuda"), ("arch", "sm_90a")], &header)]);
    for (data, count, target) in
        [(&header, 1, "lto_90a"), (&archive, 1, "lto_90a"), (&wheel, 2, "lto_90a"), (&images, 1, "sm_90a")]
    {
        let document = json_of(&tool(&["inspect", "--json", "in"], &[("in", data)]));
        let objects = document["files"][0]["code_objects"].as_array().unwrap();
        let known = |object: &Value| object["target_id"] == target && object["image_kind"] == "LTO-IR";
        assert!(objects.len() == count && objects.iter().all(known), "{objects:?}");
        assert_eq!(expecting(&["--expect", "sm_90"], data), (0, vec![], String::new()));
        assert_eq!(expecting(&["--expect", "sm_100"], data).0, 1);
        let extracted = tool(&["extract", "in", "-o", "out"], &[("in", data)]);
        assert_eq!(extracted.status, 0, "{}", extracted.stderr_text());
        let names = String::from_utf8(extracted.stdout.clone()).unwrap();
        assert!(names.lines().count() == count && names.lines().all(|name| name.ends_with(".ltoir")), "{names}");
    }
}

#[test]
fn code_that_cannot_be_read_is_counted_and_passed_over() {
    use fatbins::Code;
    let lto_ir = Code::new(LTO_IR, 80, LTO_IR_CODE).with_flags(OBFUSCATED | fatbins::ZSTD);
    let unknown = Code::cubin(90, 4).with_flags(UNKNOWN_METHOD);
    let data = fatbins::fatbin(
        &[Code::cubin(80, 4), lto_ir.clone(), unknown, lto_ir.clone()].map(|code| fatbins::entry(&code)),
    );
    let report = tool(&["verify", "--json", "in"], &[("in", &data)]).stdout;
    let document: Value = serde_json::from_slice(&report).unwrap();
    schema::check("verify", &document);
    let unread = document["files"][0]["unread"].as_array().unwrap();
    let what: Vec<&str> = unread.iter().map(|unread| unread["what"].as_str().unwrap()).collect();
    let (obfuscated, method) = ("obfuscated code object", "code object of an unknown compression");
    assert_eq!(what, [obfuscated, method, obfuscated]);
    for counts in [&document["files"][0], &document["total"]] {
        assert_eq!((counts["code_objects"].as_u64(), counts["unchecked"].as_u64()), (Some(4), Some(3)));
    }
    let verified = String::from_utf8(tool(&["verify", "in"], &[("in", &data)]).stdout).unwrap();
    assert!(verified.contains("in: 4 code objects (3 not read and not checked) in 1 bundle"), "{verified}");
    assert!(verified.contains(&format!(": {obfuscated}, not read (1 more in the same place)")), "{verified}");

    let extracted = tool(&["extract", "in", "-o", "out"], &[("in", &data)]);
    assert_eq!((extracted.status, extracted.files.len()), (0, 2), "{}", extracted.stderr_text());
    let note = format!("note: 'in': left out, because it cannot be read: {method} (1), {obfuscated} (2)\n");
    assert!(extracted.stderr_text().ends_with(&note), "{}", extracted.stderr_text());
    // The only one that can be read.
    assert_eq!(tool(&["extract", "in", "-o", "-"], &[("in", &data)]).stdout, Code::cubin(80, 4).extracted());
    for selected in [&["-t", "lto_80"][..], &["-t", "sm_90"], &["-t", "sm_*,lto_*"], &["--kind", "cuda"]] {
        let outcome = tool(&[&["extract", "in", "-o", "out"], selected].concat(), &[("in", &data)]);
        assert!(outcome.status == 1 && outcome.files.len() == 1, "{selected:?}");
        assert!(outcome.stderr_text().contains("its compression is not known, or it is obfuscated"), "{selected:?}");
    }
    // `diff` compares such code as it is stored.
    let less = fatbins::fatbin(&[fatbins::entry(&Code::cubin(80, 4))]);
    for (new, all) in [(&data, "no differences in device code"), (&less, "3 removed")] {
        let outcome = tool(&["diff", "in", "new"], &[("in", &data), ("new", new)]);
        assert_eq!((outcome.status, outcome.stderr_text().as_str()), (0, ""));
        let told = String::from_utf8(outcome.stdout).unwrap();
        assert!(told.contains(all), "{told}");
    }
    let alone = fatbins::fatbin(&[fatbins::entry(&lto_ir)]);
    let outcome = tool(&["extract", "in", "-o", "out"], &[("in", &alone)]);
    let error = format!("error: 'in': no code object can be read: {obfuscated} (1)\n");
    assert!(outcome.status == 1 && outcome.stderr_text().ends_with(&error), "{}", outcome.stderr_text());
}

#[test]
fn forms_of_code_in_fatbins_have_the_names_of_cuobjdump() {
    let ptx = fatbins::Code { kind: 64, ..fatbins::Code::ptx(90) };
    let data = fatbins::fatbin(&[ptx, fatbins::Code::new(128, 100, b"Tile IR.")].map(|code| fatbins::entry(&code)));
    let document = json_of(&tool(&["inspect", "--json", "in"], &[("in", &data)]));
    let objects = document["files"][0]["code_objects"].as_array().unwrap().iter();
    let targets: Vec<&str> = objects.map(|object| object["target_id"].as_str().unwrap()).collect();
    assert_eq!(targets, ["compute_90", "tileir_100"]);
    for (gpus, status) in [("sm_90,sm_120,compute_90", 0), ("sm_89", 1)] {
        assert_eq!(expecting(&["--expect", gpus], &data).0, status, "{gpus}");
    }
    let kept = tool(&["recompress", "in", "-o", "out", "--keep", "compute_90"], &[("in", &data)]);
    let document = json_of(&tool(&["inspect", "--json", "in"], &[("in", &kept.files["out"])]));
    assert_eq!(document["files"][0]["code_objects"].as_array().unwrap().len(), 1);
}

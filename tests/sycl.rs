//! Device images of programs and libraries that Intel's DPC++ links, and code objects for Intel GPUs.
//!
//! The inputs are made here, by `properties/images.rs` and from a few lines of assembly with clang and lld. Code
//! objects in `fixtures/sycl/` were made by Intel's `ocloc`. Real libraries come from packages on PyPI; if they are not
//! installed, the tests print that and pass. `OFFLOAD_REQUIRE_SYCL=1` makes that a failure.
mod broken;
mod libraries;
mod linked;

use crate::machine::memory_directory;
use serde_json::Value;

use crate::properties::images::{self, Image, PVC, Program, spirv, zebin};
use crate::properties::make::{self, Zipped};
use crate::reference::formats;
use crate::reference::harness::Outcome;
use crate::subcommands::{json_of, schema, tool};

const SPIR64: &str = "__CLANG_OFFLOAD_BUNDLE__sycl-spir64";
const GEN: &str = "__CLANG_OFFLOAD_BUNDLE__sycl-spir64_gen";

fn fixture(name: &str) -> Vec<u8> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/sycl").join(name);
    std::fs::read(path).unwrap()
}

/// Runs the tool on a file. It must succeed and print no message.
fn run(args: &[&str], data: &[u8]) -> Outcome {
    let outcome = tool(&[args, &["in"]].concat(), &[("in", data)]);
    assert_eq!((outcome.status, outcome.stderr_text().as_str()), (0, ""), "{args:?}: {}", out(&outcome));
    outcome
}

fn out(outcome: &Outcome) -> String {
    String::from_utf8_lossy(&outcome.stdout).into_owned()
}

/// The code objects that `inspect --json` prints.
fn listed(data: &[u8]) -> Vec<Value> {
    json_of(&run(&["inspect", "--json"], data))["files"][0]["code_objects"].as_array().unwrap().clone()
}

/// A field of each, as text.
fn texts(objects: &[Value], field: &str) -> Vec<String> {
    objects.iter().map(|object| object[field].as_str().unwrap_or("-").to_owned()).collect()
}

/// The IDs and contents of the device images that `extract` writes, in the order of the file.
fn extracted(args: &[&str], data: &[u8]) -> Vec<(String, Vec<u8>)> {
    extracted_from("device images", args, data)
}

fn extracted_from(container: &str, args: &[&str], data: &[u8]) -> Vec<(String, Vec<u8>)> {
    let outcome = run(&[&["extract", "--json", "-o", "new"], args].concat(), data);
    let document: Value = serde_json::from_slice(&outcome.stdout).unwrap();
    schema::check("extract", &document);
    let content = |object: &Value| {
        let file = object["file"].as_str().unwrap();
        (object["entry_id"].as_str().unwrap().to_owned(), outcome.files[file].clone())
    };
    let objects = document["code_objects"].as_array().unwrap().iter();
    objects.filter(|object| object["container"] == container).map(content).collect()
}

/// A program with one image of each kind, compressed ones among them.
fn program() -> Program {
    let fat = make::archive(&[("64.12.60.7", &zebin(PVC, b"one")), ("generic_ir", &spirv(3, 1))]);
    let host = images::elf((62, 1), &[(".text".to_owned(), 0, b"cpu".to_vec())]);
    Program::new(&[
        (SPIR64, &[Image::new(&spirv(9, 7)), Image::new(&spirv(40, 8)).packed(), Image::new(&spirv(9, 7))]),
        (GEN, &[Image::new(&zebin(PVC, b"two")), Image::new(&zebin(0x0500_4000, b"three")).packed(), Image::new(&fat)]),
        (
            "OFFLOAD_DEVICE_CODE",
            &[
                Image::new(&spirv(5, 9)).packed(),
                Image::new(&zebin(0x08c0_0000, b"new")),
                Image::new(&fat).packed(),
                Image::new(&host),
                Image::new(b"//\n.version 8.0\n.target sm_80\n"),
            ],
        ),
        ("__CLANG_OFFLOAD_BUNDLE__openmp-spir64", &[Image::new(&spirv(1, 1))]),
    ])
}

#[test]
fn images_are_listed_and_extracted_one_by_one() {
    let program = program();
    let data = program.write();
    let images = [
        ["sycl-spir64"; 3].as_slice(),
        &["sycl-spir64_gen-unknown-unknown--pvc", "sycl-spir64_gen-unknown-unknown--bmg-g21", "sycl-spir64_gen"],
        &["sycl-spir64", "sycl-spir64_gen-unknown-unknown--35.0.0", "sycl-spir64_gen"],
        &["sycl-spir64_x86_64", "sycl-nvptx64-nvidia-cuda", "openmp-spir64"],
    ]
    .concat();
    let expected: Vec<_> =
        images.iter().zip(program.images()).map(|(id, (_, image))| ((*id).to_owned(), image)).collect();
    let objects = listed(&data);
    let (own, nested): (Vec<Value>, Vec<Value>) =
        objects.into_iter().partition(|object| object["container"] == "device images");
    assert_eq!(texts(&own, "entry_id"), images);
    let kinds =
        ["SPIR-V", "SPIR-V", "SPIR-V", "ELF", "ELF", "archive", "SPIR-V", "ELF", "archive", "ELF", "PTX", "SPIR-V"];
    assert_eq!(texts(&own, "image_kind"), kinds);
    for (object, (_, image)) in own.iter().zip(&expected) {
        let field = |name: &str| object[name].as_u64().map(|number| usize::try_from(number).unwrap());
        let sizes = [image.content.len(), image.stored().len()];
        assert_eq!(["size", "stored_size"].map(field), sizes.map(Some), "{object}");
        assert_eq!(object["compressed"]["method"] == "zstd", image.is_packed);
        let at = field("offset");
        assert!(at.is_none_or(|at| data[at..].starts_with(&image.content)), "{object}");
        assert_eq!(at.is_none(), image.is_packed);
    }
    // The two archives have two images each.
    assert_eq!(texts(&nested, "entry_id"), ["spir64_gen-unknown-unknown--pvc", "spirv64-unknown-unknown"].repeat(2));
    assert_eq!(texts(&nested, "member"), ["64.12.60.7", "generic_ir"].repeat(2));
    let found = extracted(&["--kind=sycl", "--kind=openmp"], &data);
    assert!(
        found.iter().eq(expected
            .iter()
            .map(|(id, image)| (id.clone(), image.content.clone()))
            .collect::<Vec<_>>()
            .iter())
    );
    for (args, count) in [
        (&["-t", "pvc"][..], 1),
        (&["-t", "bmg-g21"], 1),
        (&["-t", "sycl-spir64*"], 10),
        (&["--exact", "-t", "sycl-spir64"], 4),
        (&["-t", "openmp-spir64"], 1),
        (&["-t", "35.0.0"], 1),
    ] {
        assert_eq!(extracted(args, &data).len(), count, "{args:?}");
    }
    let verified = out(&run(&["verify"], &data));
    let counts = verified.starts_with("in: 10 code objects in 4 bundles, 4 code objects ");
    assert!(counts && verified.ends_with(", nothing wrong\n"), "{verified}");
}

#[test]
fn images_of_a_section_are_one_row() {
    let images: Vec<Image> = (0..2026).map(|fill| Image::new(&spirv(3, fill))).collect();
    let data = Program::new(&[(SPIR64, &images)]).write();
    let printed = out(&run(&["inspect", "--color=never"], &data));
    let rows: Vec<&str> = printed.lines().collect();
    assert_eq!(rows[3].trim(), format!("{SPIR64}: 2,026 device images"));
    assert!(rows.len() <= 5 && rows[2].contains("  spir64  "), "{printed}");
}

#[test]
fn images_are_found_without_a_table() {
    let mut program = program();
    for (_, images) in &mut program.sections {
        // Nothing but the table tells where PTX and other text ends.
        images.retain(|image| !image.content.starts_with(b"//"));
    }
    let listed = extracted(&[], &program.write());
    for kept in 0..3 {
        let mut count = 0;
        program.sections.iter_mut().flat_map(|(_, images)| images).for_each(|image| {
            count += 1;
            image.is_listed = kept > 0 && count % 3 < kept;
        });
        let data = program.write();
        assert!(extracted(&[], &data) == listed, "{kept} of 3");
        assert!(out(&run(&["verify"], &data)).ends_with("nothing wrong\n"));
    }
}

#[test]
fn recompress_refuses_device_images() {
    let outcome = tool(&["recompress", "in", "-o", "out"], &[("in", &program().write())]);
    assert_eq!(outcome.status, 1);
    assert!(outcome.stderr_text().contains("device images"), "{}", outcome.stderr_text());
    assert!(!outcome.files.contains_key("out"));
}

#[test]
fn recompress_says_that_device_images_stay_whose_gpus_were_left_out() {
    let id = |gpu: &str| format!("hip-amdgcn-amd-amdhsa--{gpu}");
    let bundle = formats::binary(&[(&id("gfx906"), &[6; 9000]), (&id("gfx90a"), &[9; 9000])], 4096);
    let images = program().write();
    let wheel =
        make::zip(&[Zipped::new("hip.co", make::STORED, &bundle), Zipped::new("sycl.so", make::STORED, &images)]);
    let outcome = tool(&["recompress", "in", "-o", "out", "--keep-for", "gfx90a"], &[("in", &wheel)]);
    let said = outcome.stderr_text();
    assert!(
        outcome.status == 0
            && said.contains("still has 12 code objects")
            && said.contains("for targets that were left out: recompress does not change Intel's SYCL images\n"),
        "{said}"
    );
}

#[test]
fn code_objects_of_ocloc_are_listed_with_their_gpus() {
    for (name, ids) in [
        ("tgllp.zebin", &["spir64_gen-unknown-unknown--tgllp"][..]),
        ("kernel.spv", &["spirv64-unknown-unknown"]),
        (
            "three-gpus.ar",
            &["tgllp", "pvc", "dg2"].map(|gpu| match gpu {
                "tgllp" => "spir64_gen-unknown-unknown--tgllp",
                "pvc" => "spir64_gen-unknown-unknown--pvc",
                _ => "spir64_gen-unknown-unknown--dg2",
            }),
        ),
    ] {
        let data = fixture(name);
        let objects = listed(&data);
        assert_eq!(texts(&objects, "entry_id"), ids, "{name}");
        assert!(
            objects.iter().all(|object| object["container"] == "code object" && object["kind"].is_null()),
            "{name}: {objects:?}"
        );
        assert!(out(&run(&["verify"], &data)).ends_with("nothing wrong\n"), "{name}");
        for id in ids {
            assert_eq!(extracted_from("code object", &["-t", id], &data).len(), 1, "{name}: {id}");
        }
    }
    // The same files are found as images of a program.
    let images = ["tgllp.zebin", "kernel.spv", "three-gpus.ar"].map(|name| Image::new(&fixture(name)));
    let data = Program::new(&[("OFFLOAD_DEVICE_CODE", &images)]).write();
    let objects = listed(&data);
    assert_eq!(objects.iter().filter(|object| object["container"] == "device images").count(), 3);
    assert_eq!(objects.len(), 6);
}

/// A module for graphics.
fn shader() -> Vec<u8> {
    let words = [0x0723_0203_u32, 0x1_0000, 0, 1, 0, 0x2_0011, 1, 0x3_000e, 0, 1];
    words.into_iter().flat_map(u32::to_le_bytes).collect()
}

#[test]
fn spirv_is_a_code_object_if_it_has_kernels() {
    let shown = out(&run(&["inspect"], &shader()));
    assert!(shown.contains("not read: SPIR-V module without kernels"), "{shown}");
    let broken = [&spirv(3, 3)[..], b"\x07\0\xff\0"].concat();
    let outcome = tool(&["verify", "in"], &[("in", &broken)]);
    assert!(outcome.status == 1 && out(&outcome).contains("impossible length"), "{}", out(&outcome));
}

#[test]
fn bitcode_is_a_code_object_if_it_is_for_a_device() {
    let test = "bitcode for devices";
    let Some(assembler) = crate::subcommands::llvm(test, "llvm-as") else { return };
    let dir = memory_directory();
    for (triple, id) in [
        ("amdgcn-amd-amdhsa", Some("amdgcn-amd-amdhsa")),
        ("nvptx64-nvidia-cuda", Some("nvptx64-nvidia-cuda")),
        ("spir64-unknown-unknown", Some("spir64-unknown-unknown")),
        ("x86_64-unknown-linux-gnu", None),
    ] {
        let source = format!("target triple = \"{triple}\"\ndefine void @f() {{\n  ret void\n}}\n");
        std::fs::write(dir.path().join("in.ll"), source).unwrap();
        crate::subcommands::must(
            std::process::Command::new(&assembler).args(["in.ll", "-o", "in.bc"]).current_dir(dir.path()),
        );
        let data = std::fs::read(dir.path().join("in.bc")).unwrap();
        let document = json_of(&tool(&["inspect", "--json", "in"], &[("in", &data)]));
        let objects = document["files"][0]["code_objects"].as_array().unwrap();
        assert_eq!(texts(objects, "entry_id"), id.into_iter().collect::<Vec<_>>(), "{triple}");
        assert!(objects.iter().all(|object| object["image_kind"] == "bitcode"), "{triple}: {objects:?}");
        if let Some(id) = id {
            assert_eq!(extracted_from("code object", &["-t", id], &data), [(id.to_owned(), data.clone())], "{triple}");
            assert!(out(&run(&["verify"], &data)).ends_with("nothing wrong\n"), "{triple}");
        }
    }
}

#[test]
fn random_programs_keep_the_property() {
    let mut random = crate::reference::harness::Random::new(7);
    for _ in 0..1500 {
        let len = random.below(160);
        crate::properties::sycl(&random.bytes(len));
    }
    // Damaged in more places than the property itself does.
    let whole = program().write();
    for _ in 0..300 {
        let mut data = whole.clone();
        for _ in 0..=random.below(8) {
            let at = random.below(data.len());
            data[at] = *random.pick(&[0, 1, 0x7f, 0x80, 0xff]);
        }
        data[..4].copy_from_slice(b"\x7fELF");
        crate::properties::sycl(&data);
    }
}

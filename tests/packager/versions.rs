//! Versions 2 and 3, with and without compression, and the two numbers for HIP.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{packager, unpack};
use crate::machine::{memory_directory, skip};
use crate::reference::harness::{Outcome, Report, Tools, llvm23, run};
use crate::reference::offload::{self, Image};

const IMAGES: [&str; 3] = [
    "--image=file=a.o,triple=amdgcn-amd-amdhsa,arch=gfx906,kind=hip",
    "--image=file=b.bc,triple=amdgcn-amd-amdhsa,arch=gfx90a,kind=hip",
    "--image=file=c.cubin,triple=nvptx64-nvidia-cuda,arch=sm_70,kind=cuda",
];

/// Packs three images with our tool.
fn pack(tools: &Tools, options: &[&str], contents: [&[u8]; 3]) -> Outcome {
    let case = packager(&[&["-o", "out"], options, &IMAGES].concat());
    let files = ["a.o", "b.bc", "c.cubin"].into_iter().zip(contents);
    run(&tools.ours, &files.fold(case, |case, (name, content)| case.file(name, content)))
}

fn expected(contents: [&[u8]; 3]) -> Vec<Image> {
    unpack::three()
        .into_iter()
        .zip(contents)
        .map(|(image, content)| Image { content: content.to_vec(), ..image })
        .collect()
}

fn number(data: &[u8], at: usize) -> usize {
    usize::try_from(u64::from_le_bytes(data[at..at + 8].try_into().unwrap())).unwrap()
}

fn come_back(report: &mut Report, tools: &Tools) {
    let long = vec![b'x'; 100_000];
    let sizes: [[&[u8]; 3]; 4] = [
        [b"object", b"BC\xc0\xdebitcode", b"cubin"],
        [b"", b"BC\xc0\xde", b""],
        [b"12345678", b"BC\xc0\xde1234", b"1"],
        [&long, b"BC\xc0\xde", &long],
    ];
    let ways: &[(&[&str], u8, bool)] = &[
        (&[], 1, false),
        (&["--format-version=1"], 1, false),
        (&["--format-version=2"], 2, false),
        (&["--format-version=3"], 3, false),
        (&["--compress"], 3, true),
        (&["--compress=zstd", "--compression-level=1"], 3, true),
        (&["--compress=zstd", "--compression-level=19"], 3, true),
        (&["--compress=zstd", "--compression-level=-5"], 3, true),
        (&["--compression-level=3"], 1, false),
        (&["--compress", "--compression-format=zstd", "--compression-level=-5"], 3, true),
        (&["--compress", "--compression-format=zlib", "--compression-level=0"], 3, true),
        (&["--compress=zlib"], 3, true),
        (&["--compress=zlib", "--compression-level=1"], 3, true),
        (&["--compress=zlib", "--compression-level=9", "--format-version=3"], 3, true),
    ];
    for contents in sizes {
        for &(options, version, compressed) in ways {
            let packed = pack(tools, options, contents);
            let data = packed.files.get("out").cloned().unwrap_or_default();
            let what = |detail: &str| format!("{options:?}: {detail}: {}", packed.stderr_text());
            report.check(packed.status == 0 && offload::read(&data) == Some(expected(contents)), || what("images"));
            // The recorded size includes header and stream; zeros pad the file.
            let inflated = if version == 3 { number(&data, 32) } else { 0 };
            let size = if version == 1 { data.len() } else { number(&data, 8) };
            let fits = data[4] == version && data.len() % 8 == 0 && data.len() == size.next_multiple_of(8);
            report.check(fits && (inflated != 0) == compressed, || what("sizes"));
            let methods =
                if options.iter().any(|option| option.contains("zlib")) { [0x78, 0x78] } else { [0x28, 0x28] };
            report.check(!compressed || methods.contains(&data[40]), || what("method"));
            let case = packager(&["in", "--image=no such key="]).file("in", data.clone());
            let (_, ours) = report.compare(tools, &case);
            report.check(ours.files.len() == 4, || what("files"));
            // LLVM 22 rejects unknown versions without harm.
            let theirs = run(&tools.theirs, &case);
            let refuses = theirs.status == 1 && theirs.stderr_text().contains("Invalid data was encountered");
            report.check(refuses == (version > 1), || what("LLVM"));
            let twice = [&data[..], &offload::write(1, &unpack::three()), &data].concat();
            report.compare(tools, &packager(&["in", "--image=kind=cuda"]).file("in", twice));
        }
    }
}

fn refusals(report: &mut Report, tools: &Tools) {
    for options in [
        &["--format-version=4"][..],
        &["--format-version=0"],
        &["--format-version="],
        &["--compress=lzma"],
        &["--compress", "--format-version=1"],
        &["--compress", "--format-version=2"],
        &["--compress", "--compression-level=x"],
        &["--compress", "--compression-format=zlib", "--compression-level=10"],
        &["--compress=zstd", "--compression-format=zlib"],
    ] {
        let packed = pack(tools, options, [b"a", b"BC\xc0\xde", b"c"]);
        report.check(packed.status == 1 && !packed.files.contains_key("out"), || {
            format!("{options:?}: status {}, {}", packed.status, packed.stderr_text())
        });
    }
}

/// The number for HIP that an old linker wrapper reads.
fn old_hip(report: &mut Report, tools: &Tools) {
    let packed = |value: Option<&str>| {
        let case = packager(&["-o", "out", IMAGES[0], IMAGES[2]]).file("a.o", *b"object").file("c.cubin", *b"cubin");
        let case = value.map_or(case.clone(), |value| case.env("OFFLOAD_BINARY_HIP_KIND", value));
        run(&tools.ours, &case)
    };
    let (new, old) = (packed(None), packed(Some("3")));
    let kinds = |outcome: &Outcome| -> Vec<u16> {
        offload::read(&outcome.files["out"]).unwrap().iter().map(|image| image.kind).collect()
    };
    report.check(kinds(&new) == [4, 2], || format!("HIP is {:?}", kinds(&new)));
    report.check(kinds(&old) == [3, 2], || format!("HIP is {:?}", kinds(&old)));
    report.check(kinds(&packed(Some("4"))) == [4, 2], || "HIP is not 4".to_owned());
    let release19 = PathBuf::from("/usr/lib/llvm-19/bin/clang-offload-packager");
    if !release19.exists() {
        return skip("the old number of HIP", "LLVM 19 is not installed");
    }
    let dir = memory_directory();
    fs::write(dir.path().join("in"), &old.files["out"]).unwrap();
    for (kind, content) in [("hip", "object"), ("cuda", "cubin")] {
        let request = format!("--image=kind={kind},file={kind}");
        let status = Command::new(&release19).args(["in", &request]).current_dir(dir.path()).status().unwrap();
        let found = fs::read(dir.path().join(kind)).unwrap_or_default();
        report.check(status.success() && found == content.as_bytes(), || format!("LLVM 19 does not find {kind}"));
    }
    // LLVM 19 writes this number for HIP too, and our tool reads it.
    fs::write(dir.path().join("a.o"), b"object").unwrap();
    let wrote = Command::new(&release19).args(["-o", "theirs", IMAGES[0]]).current_dir(dir.path()).status().unwrap();
    let theirs = fs::read(dir.path().join("theirs")).unwrap();
    report.check(wrote.success() && old.files["out"].len() > theirs.len(), || "LLVM 19 wrote nothing".to_owned());
    report.check(offload::read(&theirs).unwrap()[0].kind == 3, || "LLVM 19 numbers HIP in another way".to_owned());
    report.compare(tools, &packager(&["in", "--image=kind=hip,file=x"]).file("in", theirs));
}

/// From data larger than the inflation buffer, either the requested part or everything is read.
fn large(report: &mut Report, tools: &Tools) {
    let long = b"0123456789abcdef".repeat(80 << 16);
    let contents: [&[u8]; 3] = [b"first", b"BC\xc0\xde", &long];
    let packed = pack(tools, &["--compress"], contents);
    let data = std::sync::Arc::<[u8]>::from(packed.files["out"].as_slice());
    report.check(data.len() < 1 << 20, || format!("{} bytes", data.len()));
    let requests =
        [["--image=arch=gfx906,file=a", "--image=arch=sm_70,file=c"], ["--image=arch=gfx906", "--image=arch=sm_70"]];
    for request in requests {
        let ours = run(&tools.ours, &packager(&[&["in"][..], &request].concat()).file("in", data.clone()));
        let found: Vec<&[u8]> = ours.files.values().map(Vec::as_slice).filter(|&found| found != &*data).collect();
        report.check(found == [contents[0], contents[2]], || format!("{request:?}: {}", ours.stderr_text()));
    }
    let cut = packager(&["in", "--image=arch=sm_70,file=c"]).file("in", &data[..data.len() - 9]);
    let ours = run(&tools.ours, &cut);
    report.check(ours.status == 1 && ours.files.len() == 1, || ours.stderr_text());
}

/// The lines of llvm-objdump of LLVM 23 that describe images: kind of image, architecture, triple, kind of offloading,
/// size.
fn listed_by_23(llvm: &Path, file: &Path) -> Vec<[String; 5]> {
    let run = Command::new(llvm.join("llvm-objdump")).arg("--offloading").arg(file).output().unwrap();
    let text = String::from_utf8(run.stdout).unwrap();
    let images = text.split("OFFLOADING IMAGE").skip(1);
    let image = |text: &str| {
        let value =
            |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim().to_owned();
        ["kind", "arch", "triple", "producer", "image size"].map(value)
    };
    images.map(image).collect()
}

#[test]
fn llvm_23_reads_versions_1_and_2_and_not_3() {
    let Some(llvm) = llvm23("offload binaries for LLVM 23", &["llvm-objdump"]) else { return };
    let tools = Tools::ours_alone();
    let dir = memory_directory();
    let image = |kind: &str, arch: &str, triple: &str, producer: &str, size: &str| {
        [kind, arch, triple, producer, size].map(str::to_owned)
    };
    let expected = [
        image("elf", "gfx906", "amdgcn-amd-amdhsa", "hip", "6 bytes"),
        image("llvm ir", "gfx90a", "amdgcn-amd-amdhsa", "hip", "7 bytes"),
        image("cubin", "sm_70", "nvptx64-nvidia-cuda", "cuda", "5 bytes"),
    ];
    for (options, found) in [
        (&[][..], &expected[..]),
        (&["--format-version=2"], &expected),
        (&["--format-version=3"], &[]),
        (&["--compress"], &[]),
    ] {
        let packed = pack(&tools, options, [b"object", b"BC\xc0\xdebit", b"cubin"]);
        fs::write(dir.path().join("in"), &packed.files["out"]).unwrap();
        assert_eq!(listed_by_23(&llvm, &dir.path().join("in")), found, "{options:?}");
    }
}

/// clang-sycl-linker packs an image for each kernel, in one offload binary of version 2.
#[test]
fn offload_binaries_of_llvm_23_are_read() {
    const MODULE: &str = "target triple = \"x86_64-unknown-linux-gnu\"\n\
        target datalayout = \"e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128\"\n\
        define spir_kernel void @first() { ret void }\ndefine spir_kernel void @second() { ret void }\n";
    let Some(llvm) = llvm23("offload binaries by LLVM 23", &["clang-sycl-linker", "llvm-as", "llvm-objdump"]) else {
        return;
    };
    let dir = memory_directory();
    fs::write(dir.path().join("module.ll"), MODULE).unwrap();
    let done = |tool: &str, args: &[&str]| {
        assert!(Command::new(llvm.join(tool)).args(args).current_dir(dir.path()).status().unwrap().success(), "{tool}");
    };
    done("llvm-as", &["module.ll"]);
    let options = ["--triple=x86_64-unknown-linux-gnu", "--module-split-mode=kernel", "-o", "in"];
    done("clang-sycl-linker", &[&["module.bc"][..], &options].concat());
    let data = fs::read(dir.path().join("in")).unwrap();
    assert_eq!((data[4], number(&data, 8), number(&data, 24)), (2, data.len(), 2));
    let listed = listed_by_23(&llvm, &dir.path().join("in"));
    let ours = run(&Tools::ours_alone().ours, &packager(&["in", "--image=kind=sycl"]).file("in", data.clone()));
    assert_eq!((ours.status, ours.files.len(), listed.len()), (0, 3, 2), "{}", ours.stderr_text());
    for (index, listed) in listed.iter().enumerate() {
        let image = &ours.files[&format!("in-x86_64-unknown-linux-gnu.{index}.spv")];
        let (at, len) = (number(&data, 32 + 40 * index + 24), number(&data, 32 + 40 * index + 32));
        assert_eq!(image, &data[at..at + len], "{index}");
        assert_eq!([&listed[3], &listed[4]], ["sycl", &format!("{len} bytes")], "{index}");
    }
}

pub fn compare(report: &mut Report, tools: &Tools) {
    come_back(report, tools);
    large(report, tools);
    refusals(report, tools);
    old_hip(report, tools);
}

//! Versions 2 and 3, with and without compression, and the two numbers for HIP.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{packager, unpack};
use crate::machine::{memory_directory, skip};
use crate::reference::harness::{Report, Tools, llvm23, run};
use crate::reference::offload::{self, Image};

const HIP_IMAGE: &str = "--image=file=a.o,triple=amdgcn-amd-amdhsa,arch=gfx906,kind=hip";

/// Three images with these contents.
fn images(contents: [&[u8]; 3]) -> Vec<Image> {
    let images = unpack::three().into_iter().zip(contents);
    images.map(|(image, content)| Image { content: content.to_vec(), ..image }).collect()
}

fn number(data: &[u8], at: usize) -> usize {
    usize::try_from(u64::from_le_bytes(data[at..at + 8].try_into().unwrap())).unwrap()
}

/// Every version is read here. LLVM 22 rejects unknown versions without harm.
fn are_read(report: &mut Report, tools: &Tools) {
    let long = vec![b'x'; 100_000];
    let sizes: [[&[u8]; 3]; 4] = [
        [b"object", b"BC\xc0\xdebitcode", b"cubin"],
        [b"", b"BC\xc0\xde", b""],
        [b"12345678", b"BC\xc0\xde1234", b"1"],
        [&long, b"BC\xc0\xde", &long],
    ];
    for images in sizes.map(images) {
        let versions = [1, 2, 3].map(|version| offload::write(version, &images));
        for data in versions.into_iter().chain([false, true].map(|zlib| offload::compressed(zlib, &images))) {
            let what = |detail: &str| format!("version {}: {detail}", data[4]);
            let case = packager(&["in", "--image=no such key="]).file("in", data.clone());
            let (_, ours) = report.compare(tools, &case);
            report.check(ours.files.len() == 4, || what("files"));
            let theirs = run(&tools.theirs, &case);
            let refuses = theirs.status == 1 && theirs.stderr_text().contains("Invalid data was encountered");
            report.check(refuses == (data[4] > 1), || what("LLVM"));
            let twice = [&data[..], &offload::write(1, &unpack::three()), &data].concat();
            report.compare(tools, &packager(&["in", "--image=kind=cuda"]).file("in", twice));
        }
    }
}

/// The number for HIP of LLVM up to 20.
fn old_hip(report: &mut Report, tools: &Tools) {
    let release19 = PathBuf::from("/usr/lib/llvm-19/bin/clang-offload-packager");
    if !release19.exists() {
        return skip("the old number of HIP", "LLVM 19 is not installed");
    }
    let dir = memory_directory();
    fs::write(dir.path().join("a.o"), b"object").unwrap();
    let wrote = Command::new(&release19).args(["-o", "theirs", HIP_IMAGE]).current_dir(dir.path()).status().unwrap();
    let theirs = fs::read(dir.path().join("theirs")).unwrap();
    report.check(wrote.success(), || "LLVM 19 wrote nothing".to_owned());
    report.check(offload::read(&theirs).unwrap()[0].kind == 3, || "LLVM 19 numbers HIP in another way".to_owned());
    let (_, ours) = report.compare(tools, &packager(&["in", "--image=kind=hip,file=x"]).file("in", theirs));
    report
        .check(ours.files.get("x").is_some_and(|x| x == b"object"), || "the image of LLVM 19 is not found".to_owned());
}

/// From data larger than the inflation buffer, either the requested part or everything is read.
fn large(report: &mut Report, tools: &Tools) {
    let long = b"0123456789abcdef".repeat(80 << 16);
    let contents: [&[u8]; 3] = [b"first", b"BC\xc0\xde", &long];
    let data = std::sync::Arc::<[u8]>::from(offload::compressed(false, &images(contents)));
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
fn llvm_23_reads_what_is_packed() {
    let Some(llvm) = llvm23("offload binaries for LLVM 23", &["llvm-objdump"]) else { return };
    let dir = memory_directory();
    let packed = run(&Tools::ours_alone().ours, &packager(&["-o", "out", HIP_IMAGE]).file("a.o", *b"object"));
    fs::write(dir.path().join("in"), &packed.files["out"]).unwrap();
    let expected = ["elf", "gfx906", "amdgcn-amd-amdhsa", "hip", "6 bytes"].map(str::to_owned);
    assert_eq!(listed_by_23(&llvm, &dir.path().join("in")), [expected]);
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
        let image = &ours.files[&format!("in-x86_64-unknown-linux-gnu-.{index}.")];
        let (at, len) = (number(&data, 32 + 40 * index + 24), number(&data, 32 + 40 * index + 32));
        assert_eq!(image, &data[at..at + len], "{index}");
        assert_eq!([&listed[3], &listed[4]], ["sycl", &format!("{len} bytes")], "{index}");
    }
}

pub fn compare(report: &mut Report, tools: &Tools) {
    are_read(report, tools);
    large(report, tools);
    old_hip(report, tools);
}

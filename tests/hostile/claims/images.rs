//! Programs with device images, and the other files of Intel's and AdaptiveCpp's compilers.

use super::super::bomb::{Bomb, MB};
use super::super::files::Frame;
use super::search::looks_end;
use crate::properties::aks2s;
use crate::properties::images::{ELF_X86_64, Image, PVC, Section, elf, shared_zebin, spirv, zebin};
use crate::properties::{hcfs, syclbins};

const NAME: &str = "__CLANG_OFFLOAD_BUNDLE__sycl-spir64";

/// Runs our subcommands on a file.
fn ends(name: &'static str, data: &[u8], memory: u64) {
    looks_end(name, data, &[], &[&["extract", "-o", "new", "in"]], memory);
}

/// A program with this section of images at address 0x10000, and a table of addresses in it and sizes.
fn program(images: Vec<u8>, table: impl Iterator<Item = (u64, u64)>) -> Vec<u8> {
    let table = table.flat_map(|(at, size)| [0x1_0000 + at, size].map(u64::to_le_bytes).concat()).collect();
    let sections: [Section; 2] = [(NAME.to_owned(), 0x1_0000, images), (".tgtimg".to_owned(), 0x4000_0000, table)];
    elf(ELF_X86_64, &sections)
}

#[test]
fn tables_of_many_images() {
    let module = spirv(3, 3);
    let size = u64::try_from(module.len()).unwrap();
    let one = || program(module.clone(), std::iter::repeat_n((0, size), 75_000));
    ends("images: 75,000 entries of one image", &one(), 64 * MB);
    let overlapping = program(vec![1; 1 << 18], (0..25_000).map(|at| (at, (1 << 18) - at)));
    ends("images: 25,000 to the end of 256 KiB", &overlapping, 100 * MB);
    let sections = (0..1500)
        .flat_map(|at| [(NAME.to_owned(), 0x10_0000 + at, vec![3; 16]), (".tgtimg".to_owned(), 0x1_0000, vec![1; 16])]);
    ends("images: 1,500 sections and tables", &elf(ELF_X86_64, &sections.collect::<Vec<_>>()), 160 * MB);
}

/// The GPU of an ELF file for Intel GPUs is in a section, so each entry may cost a walk over the same sections.
#[test]
fn an_elf_file_of_many_sections_in_many_entries() {
    let data = shared_zebin(10_000, 60_000);
    Bomb::new("10,000 entries of one zebin", &["inspect", "in"]).file("in", data).reports("bytes to read");
}

#[test]
fn images_that_inflate_to_much() {
    // More than is kept in memory.
    let size = 20 << 20;
    let frame = Frame::new(27).zeros(size).finish();
    assert!(frame.len() < size / 20_000, "{}", frame.len());
    for claim in [0, size, size + 1, usize::MAX / 2] {
        let claim = u64::try_from(claim).unwrap();
        ends("images: zstd 32,000:1, 20 MiB", &program(frame.clone(), [(0, claim)].into_iter()), 100 * MB);
    }
    let limited = |args| {
        let data = program(frame.clone(), [(0, 20 << 20)].into_iter());
        Bomb::new("images: --max-size=16M", args).file("in", data).own_arg("--max-size=16M")
    };
    limited(&["verify", "in"]).finds("exceeds the limit of 16777216");
    limited(&["extract", "-o", "new", "in"]).fails("exceeds the limit of 16777216");
    // Of each, only the first block is inflated to list it.
    let small = Frame::new(20).zeros(1 << 20).finish();
    let len = u64::try_from(small.len()).unwrap();
    let many = program(small.repeat(5000), (0..5000).map(|at| (at * len, 1 << 20)));
    ends("images: 5,000 frames of 1 MiB", &many, 64 * MB);
    ends("images: a window of 2 GiB", &program(Frame::new(31).raw(b"code").finish(), [(0, 4)].into_iter()), 64 * MB);
    // Of images for Intel GPUs, all is inflated to find out which.
    let zebin = [zebin(PVC, b"code"), vec![0; 1 << 20]].concat();
    let frame = Image::new(&zebin).packed().stored();
    let (len, inflated) = (u64::try_from(frame.len()).unwrap(), u64::try_from(zebin.len()).unwrap());
    let many = program(frame.repeat(500), (0..500).map(|at| (at * len, inflated)));
    ends("images: 500 zebins of 1 MiB", &many, 64 * MB);
}

#[test]
fn syclbin_files_that_claim_much() {
    let parts: Vec<_> = (0..2500).map(|_| syclbins::Part::new(0, &"a".repeat(4096), None, b"")).collect();
    ends("SYCLBIN: 2,500 triples of 4096 bytes", &syclbins::version_2(&parts), 120 * MB);
}

#[test]
fn hcf_data_that_claims_much() {
    // All images have the same bytes, and nodes are nested or have long names.
    let text = |nodes: &str| format!("object-id = 1\ngenerator = x\n{nodes}{}", hcfs::MARKERS[0]).into_bytes();
    let node = "{.n\n{.__binary\nstart = 0\nsize = 60000\n}.__binary\n}.n\n";
    ends("HCF: 20,000 images of the same bytes", &[text(&node.repeat(20_000)), vec![0; 60_000]].concat(), 120 * MB);
    ends("HCF: 1,000,000 nested nodes", &text(&"{.n\n".repeat(1_000_000)), 120 * MB);
}

#[test]
fn aks2_files_that_claim_much() {
    let sound = aks2s::kernels(&[(b"a", b"\x7fELF")]);
    for (name, at) in [("AKS2: 4 GiB of data", 4), ("AKS2: 2^32 kernels", 8), ("AKS2: a directory of 4 GiB", 12)] {
        let mut data = sound.clone();
        data[at..at + 4].copy_from_slice(&[0xff; 4]);
        ends(name, &data, 64 * MB);
    }
    let directory = |count: usize, name: &str, offset: fn(usize) -> usize, size: usize| {
        (0..count).flat_map(|number| aks2s::entry(name.as_bytes(), offset(number), size)).collect::<Vec<u8>>()
    };
    let image = vec![0; 1 << 18];
    let same = aks2s::file(25_000, &directory(25_000, "a", |_| 0, image.len()), &image);
    ends("AKS2: 25,000 kernels with the same image", &same, 100 * MB);
    // 64 MiB of zeros in 10 kB.
    let zeros = vec![0; 64 << 20];
    ends("AKS2: 64 MiB in an image", &aks2s::file(1, &directory(1, "a", |_| 0, zeros.len()), &zeros), 128 * MB);
}

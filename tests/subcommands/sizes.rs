//! Tests of sums of sizes: every byte of code counts once, however deeply containers are nested.

use offload_bundle::inventory::{BundleContents, Contents};
use offload_bundle::io::Input;
use offload_bundle::job::Inspect;
use offload_bundle::scan::{Place, PlaceOrigin, Sizes};

use super::*;
use crate::machine::memory_directory;
use crate::properties::make::{DEFLATED, Elf, STORED, Section, Zipped, archive, zip};
use crate::properties::{fatbins, images};
use crate::reference::formats;
use crate::reference::harness::Random;
use crate::reference::offload::{self, Image};

/// The sum of all sizes in a file.
fn sum(inspected: &Contents) -> Sizes {
    let mut sum = Sizes::default();
    inspected.bundles.iter().map(BundleContents::sizes).for_each(|sizes| sum += sizes);
    sum
}

fn inspect(data: &[u8]) -> Contents {
    let mut job = Inspect::default();
    job.inflate = true;
    let inspected = job.run(&Input::from_bytes("in", data.to_vec())).unwrap();
    assert!(inspected.problems.is_empty(), "{:?}", inspected.problems);
    inspected
}

/// Data that the search looks into, the number of code objects in it that are not containers, and their size.
struct Nest {
    data: Vec<u8>,
    code_objects: usize,
    size: u64,
}

const TARGETS: [(&str, u32); 3] = [("gfx906", 0x2f), ("gfx90a", 0x3f), ("gfx1100", 0x41)];

fn leaf(random: &mut Random) -> Nest {
    let code = vec![7; random.below(3000)];
    let data = match random.below(4) {
        0 => fatbins::fatbin(&[fatbins::entry(&fatbins::Code::cubin(80, 4))]),
        _ => Elf::amdgpu(TARGETS[random.below(3)].1).write(&[Section::new(".text", &code)]),
    };
    let inspected = inspect(&data);
    Nest { code_objects: 1, size: sum(&inspected).size, data }
}

/// What may be an entry of a bundle: a code object, or a container of others.
fn nest(random: &mut Random, depth: usize) -> Nest {
    let form = if depth == 0 { 3 } else { random.below(4) };
    if form == 3 {
        return leaf(random);
    }
    let number = 1 + random.below(TARGETS.len());
    let inner: Vec<Nest> = (0..number).map(|_| nest(random, depth - 1)).collect();
    let (code_objects, size) = inner.iter().fold((0, 0), |(n, size), nest| (n + nest.code_objects, size + nest.size));
    let ids: Vec<String> = TARGETS.iter().map(|(gpu, _)| format!("hipv4-amdgcn-amd-amdhsa--{gpu}")).collect();
    let entries: Vec<(&str, &[u8])> =
        ids.iter().map(String::as_str).zip(inner.iter().map(|nest| &nest.data[..])).collect();
    let images = || {
        let image = |((gpu, _), nest): (&(&str, u32), &Nest)| {
            Image::new(1, 4, &[("triple", "amdgcn-amd-amdhsa"), ("arch", gpu)], &nest.data)
        };
        TARGETS.iter().zip(&inner).map(image).collect::<Vec<_>>()
    };
    let data = match form {
        0 => formats::binary(&entries, 8),
        1 => formats::compressed(2, 0, &formats::binary(&entries, 8)),
        _ => images().into_iter().flat_map(|image| offload::write(1, &[image])).collect(),
    };
    Nest { data, code_objects, size }
}

/// A file: nests in a row, in sections, or in members of archives and zip files.
fn file(random: &mut Random) -> Nest {
    let inner: Vec<Nest> = (0..1 + random.below(3)).map(|_| nest(random, 3)).collect();
    let (mut code_objects, mut size) =
        inner.iter().fold((0, 0), |(n, size), nest| (n + nest.code_objects, size + nest.size));
    let names = ["a.o", "b/c.co", "b/d.so"];
    let members: Vec<(&str, &[u8])> = names.into_iter().zip(inner.iter().map(|nest| &nest.data[..])).collect();
    let data = match random.below(4) {
        0 => archive(&members),
        1 => Elf::LIBRARY.write(&[Section::new(".rodata", &inner[0].data).aligned(16)]),
        _ => {
            let method = |random: &mut Random| if random.below(2) == 0 { STORED } else { DEFLATED };
            let zipped = members.iter().map(|(name, data)| Zipped::new(name, method(random), data));
            zip(&zipped.collect::<Vec<_>>())
        }
    };
    if data.starts_with(b"\x7fELF") {
        (code_objects, size) = (inner[0].code_objects, inner[0].size);
    }
    Nest { data, code_objects, size }
}

#[test]
fn every_code_object_counts_once() {
    let mut random = Random::new(23);
    for _ in 0..300 {
        let Nest { data, code_objects, size } = file(&mut random);
        let inspected = inspect(&data);
        let all = sum(&inspected);
        assert_eq!((all.code_objects, all.size), (code_objects, size), "{:?}", inspected.bundles);
        ensure_no_more_than_is_there(&inspected, &data);
    }
}

/// The stored sizes are at most the size of the file, and the sizes of code at most the inflated size.
fn ensure_no_more_than_is_there(inspected: &Contents, data: &[u8]) {
    let is_inflated = |place: &Place| *place.origin() == PlaceOrigin::Inflated;
    let (mut in_file, len) = (Sizes::default(), u64::try_from(data.len()).unwrap());
    for bundle in &inspected.bundles {
        let sizes = bundle.sizes();
        let inflated = bundle.info.compressed.map_or(bundle.info.stored(), |recorded| recorded.inflated);
        assert!(sizes.stored <= bundle.stored() && sizes.size <= inflated.max(bundle.info.size), "{bundle:?}");
        if !is_inflated(&bundle.info.place) {
            in_file += sizes;
        }
    }
    assert!(in_file.stored <= len, "{} of {len}", in_file.stored);
}

#[test]
fn bytes_that_entries_share_count_once() {
    let elf = Elf::amdgpu(0x3f).write(&[Section::new(".text", &[7; 500])]);
    let ids = ["gfx906", "gfx90a", "gfx1100"].map(|gpu| format!("hipv4-amdgcn-amd-amdhsa--{gpu}"));
    let sound = formats::binary(&ids.each_ref().map(|id| (id.as_str(), elf.as_slice())), 8);
    let mut random = Random::new(5);
    for _ in 0..200 {
        let mut data = sound.clone();
        // The offset and the size of each entry.
        let mut at = 32;
        for id in &ids {
            let offset = 256 + random.below(data.len() - 256);
            let size = random.below(data.len() - offset);
            data[at..at + 8].copy_from_slice(&u64::try_from(offset).unwrap().to_le_bytes());
            data[at + 8..at + 16].copy_from_slice(&u64::try_from(size).unwrap().to_le_bytes());
            at += 24 + id.len();
        }
        let inspected = Inspect::default().run(&Input::from_bytes("in", data.clone())).unwrap();
        let all = sum(&inspected);
        let mut covered = vec![false; data.len()];
        for range in
            inspected.bundles.iter().flat_map(|bundle| &bundle.code_objects).filter_map(|code| code.range.clone())
        {
            let [start, end] = [range.start, range.end].map(|at| usize::try_from(at).unwrap());
            covered[start..end].fill(true);
        }
        let covered = covered.iter().filter(|covered| **covered).count();
        assert_eq!((all.size, all.stored), (u64::try_from(covered).unwrap(), u64::try_from(covered).unwrap()));
    }
}

#[test]
fn archives_of_device_images_count_by_their_members() {
    let (pvc, ir) = (images::zebin(images::PVC, b"one"), images::spirv(300, 1));
    let generic = images::elf((0, 0xff02), &[("SPIRV Object".to_owned(), 0, ir)]);
    let fat = archive(&[("64.12.60.7", &pvc), ("generic_ir", &generic)]);
    let program = images::Program::new(&[(
        "__CLANG_OFFLOAD_BUNDLE__sycl-spir64_gen",
        &[images::Image::new(&fat), images::Image::new(&fat).packed()],
    )]);
    let data = program.write();
    let run = |args: &[&str]| {
        let outcome = tool(&[args, &["in"]].concat(), &[("in", &data)]);
        assert_eq!((outcome.status, outcome.stderr_text().as_str()), (0, ""), "{args:?}");
        String::from_utf8_lossy(&outcome.stdout).into_owned()
    };
    let expected = 2 * (pvc.len() + generic.len());
    let document = json_of(&tool(&["inspect", "--json", "in"], &[("in", &data)]));
    let objects = document["files"][0]["code_objects"].as_array().unwrap();
    let size = |object: &&Value| usize::try_from(object["size"].as_u64().unwrap()).unwrap();
    let is_counted = |object: &&Value| object["has_parts"] == false;
    assert_eq!(objects.iter().filter(is_counted).map(|object| size(&object)).sum::<usize>(), expected);
    assert_eq!(
        objects.iter().filter(|object| !is_counted(object)).map(|object| size(&object)).sum::<usize>(),
        2 * fat.len()
    );
    for args in [&["inspect", "--gpus"][..], &["inspect", "--summary"]] {
        let printed = run(args);
        let gpus = printed.lines().skip(1).filter_map(|line| line.split_whitespace().next());
        let mut gpus: Vec<&str> = gpus.filter(|gpu| *gpu != "GPU").collect();
        gpus.sort_unstable();
        assert_eq!(gpus, ["pvc", "spirv64-unknown-unknown"], "{printed}");
        assert!(printed.starts_with("Total: 4 code objects in 1 file, "), "{printed}");
    }
    // The archive is listed, and has no share of the sum.
    let listed = run(&["inspect", "--each"]);
    let line = listed.lines().find(|line| line.contains("sycl-spir64_gen ")).unwrap();
    assert!(line.contains("archive") && !line.contains('%'), "{listed}");
    let dir = memory_directory();
    std::fs::write(dir.path().join("in"), &data).unwrap();
    for args in [&["inspect", "--svg", "out", "in"][..], &["report", "in", "-o", "out"]] {
        assert!(tool_in(dir.path(), args).status.success(), "{args:?}");
        let shown = std::fs::read_to_string(dir.path().join("out")).unwrap();
        assert!(shown.contains("pvc") && !shown.contains("spir64_gen:"), "{shown}");
        std::fs::remove_file(dir.path().join("out")).unwrap();
    }
    let diff: Value = serde_json::from_slice(&tool(&["diff", "--json", "in", "in"], &[("in", &data)]).stdout).unwrap();
    let gpus = diff["gpus"].as_array().unwrap();
    let sizes: u64 = gpus.iter().map(|gpu| gpu["new"]["size"].as_u64().unwrap()).sum();
    assert_eq!((gpus.len(), sizes), (2, u64::try_from(expected).unwrap()), "{gpus:?}");
}

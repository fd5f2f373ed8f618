//! Truncated and changed samples of each format: every job ends soon, with a result or an error, and the reported
//! places lie in the file.

use std::fs;
use std::path::Path;
use std::time::Duration;

use offload_bundle::container::sequence::Inflate;
use offload_bundle::container::stream::{Compression, Method};
use offload_bundle::inventory::Contents;
use offload_bundle::inventory::{Pattern, Selection};
use offload_bundle::io::Input;
use offload_bundle::job::{Destination, Diff, Expect, Extract, ListKernels, Recompress, Source, Verify};
use offload_bundle::runtime::Device;
use offload_bundle::scan::{Checksums, Finding, Scan};

use super::{GFX90A, GFX906, HOST, fixture};
use crate::kpack::tree::program;
use crate::lists::sample;
use crate::machine::{loud, memory_directory};
use crate::measured::thread_time;
use crate::properties::fatbins::{self, Code};
use crate::properties::kpacks::{self, Scheme};
use crate::properties::make::{self, DEFLATED, Elf, STORED, Section, ZSTD, Zipped, archive, coff, mach_o, pe, zip};
use crate::properties::packages;
use crate::properties::syclbins;
use crate::properties::{hcfs, images};
use crate::reference::formats;
use crate::reference::harness;
use crate::reference::offload::{self, Image};

/// The processor time that a job may take for a file of some hundred bytes.
const PATIENCE: Duration = Duration::from_secs(5);

/// A set of jobs to run on many files.
struct Bench {
    dir: tempfile::TempDir,
    runs: usize,
}

impl Bench {
    fn new() -> Self {
        Self { dir: memory_directory(), runs: 0 }
    }

    /// Runs every job on some bytes.
    fn run(&mut self, what: &str, data: &[u8]) {
        let started = thread_time();
        for inflate in [Inflate::Headers, Inflate::Whole] {
            scan(what, data, inflate, false);
            scan(what, data, inflate, true);
        }
        let (input, output) = (self.dir.path().join("in"), self.dir.path().join("out"));
        fs::write(&input, data).unwrap();
        let mut verify = Verify::default();
        verify.expect = Some(Expect::exactly(Device::parse_list("gfx906,sm_80").unwrap()));
        let verified = verify.run(&input).unwrap();
        for fault in &verified.faults {
            assert!(!fault.text.is_empty() && !fault.to_string().contains('\0'), "{what}");
        }
        let read = Input::read(&input).unwrap();
        let diff = Diff::default().run(Some(&read), Some(&read)).unwrap();
        assert!(diff.code_objects.is_empty() || !diff.problems.is_empty(), "{what}: {diff:?}");
        let listed = ListKernels::default().run(&read).unwrap();
        for kernel in listed.code_objects.iter().flat_map(|code_object| &code_object.kernels) {
            assert!(!kernel.name.is_empty(), "{what}");
        }
        let targets = vec![Pattern::parse("gfx906").unwrap(), Pattern::parse("*").unwrap()];
        let mut selection = Selection::default();
        selection.targets = targets;
        let destination = Destination::Nowhere(self.dir.path().join("new"));
        let extract = Extract::new(vec![Source::named(input.clone())], selection.clone(), destination);
        if let Ok(extracted) = extract.run(&mut |_| {}) {
            assert!(!extracted.is_empty());
            for file in extracted {
                let name = file.path.file_name().unwrap().to_str().unwrap();
                assert!(name.len() < 256 && file.path.parent() == Some(&self.dir.path().join("new")), "{what}: {name}");
            }
        }
        // Skipped in most runs, because setting up the compressor takes longer than everything else here.
        let compression = self.runs.is_multiple_of(16).then(|| (None, Some(Compression::with_method(Method::Zstd))));
        for (keep, compression) in [(Some(selection), None), (None, None)].into_iter().chain(compression) {
            let (input, output) = (input.clone(), output.clone());
            let mut recompress = Recompress::new(input, output.clone());
            (recompress.compression, recompress.keep) = (compression, keep);
            let done = recompress.run(&mut |_| {});
            assert_eq!(done.is_ok(), output.exists(), "{what}");
            if done.is_ok() {
                fs::remove_file(output).unwrap();
            }
        }
        assert_eq!(fs::read_dir(self.dir.path()).unwrap().count(), 1, "{what}: something is left");
        let took = thread_time() - started;
        assert!(took < PATIENCE, "{what}: {took:?}");
        self.runs += 1;
    }
}

/// Searches the data, and compares the findings with the bytes.
fn scan(what: &str, data: &[u8], inflate: Inflate, deep: bool) {
    let input = Input::from_bytes(Path::new("in"), data.to_vec());
    let len = u64::try_from(data.len()).unwrap();
    let mut search = Scan::default();
    (search.inflate, search.deep) = (inflate, deep);
    search.checksums = if inflate == Inflate::Whole { Checksums::OfAll } else { Checksums::OfFound };
    let result = search.run(&input, &mut |finding| {
        match finding {
            Finding::Bundle(found) => {
                for code_object in found.code_objects() {
                    let (_, _, _) = (code_object.kind(), code_object.recorded_target(), code_object.uri().unwrap());
                    if code_object.is_in_file() && found.bundle.compressed.is_none() {
                        let range = code_object.range().unwrap_or_default();
                        assert!(range.end <= len && found.bundle.range().unwrap().end <= len, "{what}: {range:?}");
                        if let Some(slice) = code_object.in_place() {
                            assert_eq!((slice.offset(), slice.len()), (range.start, code_object.size()), "{what}");
                        }
                    }
                }
            }
            Finding::Broken { error, place } => assert!(!error.to_string().is_empty() && !place.to_string().is_empty()),
            _ => {}
        }
        Ok(())
    });
    assert!(result.is_ok(), "{what}: the search itself failed");
    let coverage = Contents::read(&input, &search).unwrap().coverage();
    for (gpu, served) in coverage.gpus().unwrap() {
        assert!(served.serving <= served.bundles && served.bundles <= coverage.bundles(), "{what}: {gpu}: {served}");
    }
}

/// A library with a fatbin and a wrapper, which points at nothing.
fn library_with_fatbins() -> Vec<u8> {
    let fatbin = fatbins::fatbin(&[fatbins::entry(&Code::ptx(90)), fatbins::entry(&Code::cubin(90, 3))]);
    let wrapper = fatbins::wrapper(64);
    Elf::LIBRARY.write(&[Section::new(".nv_fatbin", &fatbin), Section::new(".nvFatBinSegment", &wrapper)])
}

/// A program with device images, plain, compressed and for several GPUs.
fn device_images() -> Vec<u8> {
    let zebin = images::zebin(images::PVC, b"code");
    let [module, archive] =
        [images::spirv(2, 3), make::archive(&[("64.12.60.7", &zebin)])].map(|it| images::Image::new(&it));
    let images = [module.clone(), module.packed(), archive.clone(), archive.packed().unlisted()];
    images::Program::new(&[("OFFLOAD_DEVICE_CODE", &images)]).write()
}

/// Returns a program for Windows with one device image.
fn device_image_of_windows() -> Vec<u8> {
    let module = images::spirv(2, 3);
    let table = [8192_u64, u64::try_from(module.len()).unwrap()].map(u64::to_le_bytes).concat();
    pe(&[(".tgtimg", &table), ("__CLANG_", &module)])
}

/// Small files of every format.
pub fn samples() -> Vec<(&'static str, Vec<u8>)> {
    let bundle = formats::binary(&[(HOST, b""), (GFX906, b"first"), (GFX90A, b"second")], 16);
    let image = |gpu: &str| Image::new(1, 4, &[("triple", "amdgcn-amd-amdhsa"), ("arch", gpu)], b"image");
    let images = [image("gfx906"), image("gfx90a")];
    let packed = formats::compressed(2, 1, &bundle);
    let elf = Elf::LIBRARY.write(&[
        Section::new(".hip_fatbin", &packed),
        Section::new(".llvm.offloading", &offload::write(1, &images[..1])).offloading(),
    ]);
    let fat = format!("__CLANG_OFFLOAD_BUNDLE__{GFX906}");
    let files = [packages::File::new("a", &bundle), packages::File::new("b", &packed)];
    let registered = [0x1_4849_5046_u64, 8192, 0].map(u64::to_le_bytes).concat();
    vec![
        ("bundle", bundle.clone()),
        ("bundles", [&bundle[..], &[0; 20], &packed, &bundle].concat()),
        ("version 1, zlib", formats::compressed(1, 0, &bundle)),
        ("version 2, zstd", packed.clone()),
        ("version 3, zstd", formats::compressed(3, 1, &bundle)),
        ("text", formats::text("#", &[(HOST, b"host\n"), (GFX906, b"x")])),
        ("offload binaries", offload::write(1, &images)),
        ("offload binary", offload::write(2, &images)),
        ("compressed offload binary", offload::compressed(false, &images)),
        ("ELF", elf),
        ("fatbins", [fatbins::sample(), vec![0; 8], fatbins::fatbin(&[])].concat()),
        ("library with fatbins", library_with_fatbins()),
        ("registered bundle", pe(&[(".hipFatB", &registered), (".rdata", &bundle)])),
        ("device images", device_images()),
        ("device image of Windows", device_image_of_windows()),
        ("SYCLBIN file", syclbins::version_2(&syclbins::sample())),
        ("HCF data", hcfs::write(hcfs::MARKERS[1], &[images::spirv(2, 3)])),
        ("images of OpenMP", Elf::OBJECT.write(&[Section::new(".llvm.offloading", &Elf::amdgpu(0x3f).write(&[]))])),
        ("Mach-O", mach_o(&[("__HIP", "__hip_fatbin", &bundle[..]), ("__HIP", "__fatbin", &registered)])),
        ("zebin", images::zebin(images::PVC, b"code")),
        ("SPIR-V", images::spirv(2, 3)),
        ("kpack archive", kpacks::sample(Scheme::None).write()),
        ("kpack archive of frames", kpacks::sample(Scheme::Zstd).write()),
        ("split library", program(&kpacks::reference(&["a_@GFXARCH@.kpack", "in"], "a"), 2)),
        ("fat ELF", Elf::OBJECT.write(&[Section::new(&fat, b"code")])),
        ("cubin", fixture(super::kernels::CUBIN)),
        ("AMD code object", fixture(super::kernels::ELF)),
        ("kernels in zstd", formats::compressed(3, 1, &fixture(super::kernels::ELF))),
        ("GPU ELF", Elf::amdgpu(0x3f).write(&[])),
        ("COFF", coff(&[(".hip_fat", &bundle), (&fat, b"code")])),
        ("PE", pe(&[(".hip_fat", &packed)])),
        ("archive", archive(&[("a.o", &bundle), ("b", &packed)])),
        ("stored zip", zip(&[Zipped::new("a", STORED, &bundle)])),
        ("zip", zip(&[Zipped::new("a", DEFLATED, &bundle), Zipped::new("b", ZSTD, &bundle)])),
        ("wide zip", zip(&[Zipped { wide: true, ..Zipped::new("a", DEFLATED, &bundle) }])),
        ("tar", packages::tar(&files)),
        ("tar in gzip", packages::gzip(&packages::tar(&files))),
        ("cpio", packages::cpio(&files)),
        ("RPM", packages::rpm(&packages::zstd(&packages::cpio(&files)))),
        ("bundle in xz", liblzma::encode_all(&bundle[..], 1).unwrap()),
    ]
}

/// Returns the offsets to try below `end`: all of a short sample, and fewer of a longer one, so that all samples take
/// the same time. Most of a long sample is padding or a copy. A quarter of the offsets is tried unless
/// `OFFLOAD_COMPLETE=1` is set.
fn offsets(data: &[u8], end: usize, width: usize) -> Vec<usize> {
    let step = match data.len() {
        0..300 => 1,
        300..2000 => 3,
        _ => 11,
    };
    let offsets: Vec<usize> = (0..end).step_by(width * step).collect();
    let most = offsets.len().div_ceil(4);
    sample(offsets, most)
}

#[test]
fn truncated_files_are_results_or_errors() {
    let mut bench = Bench::new();
    for (name, data) in samples() {
        for len in offsets(&data, data.len() + 1, 1) {
            bench.run(&format!("{name}, {len} bytes"), &data[..len]);
        }
    }
    loud(&format!("truncations of {} samples: {} files, 7 jobs on each", samples().len(), bench.runs));
}

#[test]
fn files_with_a_flipped_byte_are_results_or_errors() {
    let mut bench = Bench::new();
    for (name, data) in samples() {
        for at in offsets(&data, data.len(), 1) {
            let mut flipped = data.clone();
            flipped[at] ^= if at % 2 == 0 { 0xff } else { 1 };
            bench.run(&format!("{name}, byte {at} flipped"), &flipped);
        }
    }
    loud(&format!("flipped bytes of {} samples: {} files, 7 jobs on each", samples().len(), bench.runs));
}

#[test]
fn files_with_any_number_changed_are_results_or_errors() {
    let mut bench = Bench::new();
    for (name, data) in samples() {
        let len = u32::try_from(data.len()).unwrap();
        for at in offsets(&data, data.len().saturating_sub(4), 4) {
            for value in [len, u32::MAX] {
                let mut changed = data.clone();
                changed[at..at + 4].copy_from_slice(&value.to_le_bytes());
                bench.run(&format!("{name}, {value:#x} at {at}"), &changed);
            }
        }
    }
    loud(&format!("numbers of {} samples: {} files, 7 jobs on each", samples().len(), bench.runs));
}

#[test]
fn broken_bitcode_is_borne() {
    let data = fixture("bitcode/llvm22-one.bc");
    for at in (0..data.len()).step_by(3) {
        let mut flipped = data.clone();
        flipped[at] ^= 0x55;
        scan(&format!("byte {at} flipped"), &flipped, Inflate::Whole, false);
        scan(&format!("{at} bytes"), &data[..at], Inflate::Headers, false);
    }
}

#[test]
fn random_bytes_behind_every_beginning_are_borne() {
    let mut random = harness::Random::new(11);
    let mut bench = Bench::new();
    for (name, data) in samples() {
        for start in [4, 8, 24, 32, 64] {
            let bytes = [&data[..start.min(data.len())], &random.bytes(300)].concat();
            bench.run(&format!("{name}, random from {start}"), &bytes);
        }
    }
}

/// Returns a bundle where every entry is the whole payload.
fn shared(ids: &[&str], payload: &[u8]) -> Vec<u8> {
    let header: usize = ids.iter().map(|id| 24 + id.len()).sum::<usize>() + 32;
    let numbers = |numbers: [usize; 3]| numbers.map(|number| u64::try_from(number).unwrap().to_le_bytes()).concat();
    let mut bundle = [&b"__CLANG_OFFLOAD_BUNDLE__"[..], &u64::try_from(ids.len()).unwrap().to_le_bytes()].concat();
    for id in ids {
        bundle.extend([&numbers([header, payload.len(), id.len()])[..], id.as_bytes()].concat());
    }
    [bundle, payload.to_vec()].concat()
}

/// The number of bundles that a search finds, and its messages about unreadable parts.
fn search(data: Vec<u8>) -> (usize, Vec<String>) {
    let (mut bundles, mut broken) = (0, Vec::new());
    let finding = &mut |finding: Finding<'_>| {
        match finding {
            Finding::Bundle(_) => bundles += 1,
            Finding::Broken { error, .. } => broken.push(error.to_string()),
            _ => {}
        }
        Ok(())
    };
    Scan::default().run(&Input::from_bytes(Path::new("in"), data), finding).unwrap();
    (bundles, broken)
}

#[test]
fn bundles_that_share_bytes_in_one_another_are_looked_at_once() {
    let mut fan = shared(&[GFX90A], b"code");
    for _ in 0..14 {
        fan = shared(&["a"; 10], &fan);
    }
    let (bundles, broken) = search(fan);
    // The innermost ones are smaller than the headers around them, and fit twice.
    assert!((15..30).contains(&bundles) && broken.len() == 14, "{bundles} {broken:?}");
    assert!(broken.iter().all(|error| error.contains("expected together no more than the bundle")), "{broken:?}");
    let apart = shared(&[GFX90A], b"code");
    let two = [&shared(&["a"], &apart)[..], &apart].concat();
    assert_eq!(search(two), (3, Vec::new()));
}

#[test]
fn nested_containers_are_limited() {
    let many = |data: Vec<u8>| zip(&[Zipped::new("y", DEFLATED, &zip(&[Zipped::new("x", DEFLATED, &data)]))]);
    let rows = many(shared(&[], b"").repeat(300_000));
    let inner = zip(&[Zipped::new("l", DEFLATED, &[&shared(&[], b"")[..], &vec![0; 1 << 20]].concat())]);
    let layer = |data: &[u8]| zip(&(0..300).map(|n| Zipped::new(&n.to_string(), DEFLATED, data)).collect::<Vec<_>>());
    let layers = zip(&[Zipped::new("q", DEFLATED, &layer(&inner))]);
    let members = |content: &[u8]| {
        let header = format!("{:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", "a/", 0, 0, 0, 644, content.len());
        many([&b"!<arch>\n"[..], &[header.as_bytes(), content].concat().repeat(300_000)].concat())
    };
    let bare = members(&Elf::amdgpu(0x3f).write(&[])[..20]);
    let too_many = "more than 250000 bundles, code objects and faults; stopped at offset ";
    for (what, data, reason) in [
        ("rows", rows, too_many),
        ("code objects", bare, too_many),
        ("layers", layers, "more than 268435456 bytes to read; stopped at offset "),
    ] {
        let (bundles, ends) = search(data);
        assert!(ends.len() == 1 && ends[0].contains(reason), "{what}: {ends:?}");
        assert!((1..=250_000).contains(&bundles), "{what}: {bundles}");
    }
    let (bundles, ends) = search(members(b"CCOB"));
    assert!(bundles == 0 && ends.len() == 250_001 && ends[250_000].contains(too_many), "{}", ends.len());
}

#[test]
fn shared_bytes_are_not_extracted_again_and_again() {
    let bundle = |count: usize| shared(&vec![GFX90A; count], &[7; 10_000]);
    let dir = memory_directory();
    let extract = |count| {
        fs::write(dir.path().join("in"), bundle(count)).unwrap();
        super::text(&super::tool_in(dir.path(), &["extract", "-n", "in"]))
    };
    let (status, out, _) = extract(16);
    assert_eq!((status, out.lines().count()), (0, 16));
    let (status, out, error) = extract(2000);
    assert_eq!((status, out.as_str()), (1, ""));
    assert!(error.contains("'in': size of all code objects 20000000 at offset 0"), "{error}");
}

#[test]
fn long_names_are_told_once() {
    let long = format!("{GFX90A}:{}+", "a".repeat(100_000));
    let xnack = format!("{GFX90A}:xnack+");
    let ids: Vec<&str> = std::iter::once(&*long).chain([&*xnack; 2000]).collect();
    let bundle = shared(&ids, b"code");
    let dir = memory_directory();
    fs::write(dir.path().join("in"), bundle).unwrap();
    let verified = Verify::default().run(&dir.path().join("in")).unwrap();
    assert!(verified.faults.len() > 2000);
    assert!(verified.faults.iter().all(|fault| fault.text.len() < 1000));
    let (_, table, error) = super::text(&super::tool_in(dir.path(), &["inspect", "in"]));
    assert!(table.len() < 2000 && error.is_empty(), "{} {error}", table.len());
}

#[test]
fn a_reader_that_goes_away_hides_no_fault() {
    use std::process::{Command, Stdio};
    let dir = memory_directory();
    fs::write(dir.path().join("in"), shared(&[GFX90A, GFX90A], b"code")).unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = Command::new(super::PROGRAM);
    command.args(["verify", "in"]).current_dir(dir.path()).stdout(Stdio::from(writer));
    assert_eq!(command.status().unwrap().code(), Some(1));
}

#[test]
fn a_picture_never_takes_the_place_of_an_input() {
    let dir = memory_directory();
    let bundle = shared(&[GFX90A], b"code");
    fs::write(dir.path().join("in"), &bundle).unwrap();
    let (status, _, error) = super::text(&super::tool_in(dir.path(), &["inspect", "in", "--svg", "./in"]));
    assert!(status == 1 && error.contains("'in': --svg would overwrite"), "{error}");
    assert_eq!(fs::read(dir.path().join("in")).unwrap(), bundle);
}

//! Properties of `recompress` and `replace` over generated files: limits, damage, GPUs and room.

use std::fs;

use offload_bundle::container::Limits;
use offload_bundle::container::sequence::Inflate;
use offload_bundle::inventory::{Pattern, Selection};
use offload_bundle::io::Input;
use offload_bundle::job::{Expect, Fault, Recompress, Recompressed, Replace, Verify, VerifyRule};
use offload_bundle::runtime::{self, Device};
use offload_bundle::scan::{Finding, Scan, Uri};

use super::*;
use crate::machine::memory_directory;
use crate::properties::fatbins::{self, Code};
use crate::properties::make::{DEFLATED, Elf, STORED, Section, Zipped, archive, number, pe, zip};
use crate::reference::formats;
use crate::reference::harness::Random;

/// Recompresses a file. An error leaves no output.
fn recompressed(data: &[u8], set: impl FnOnce(&mut Recompress)) -> Result<(Vec<u8>, Recompressed), String> {
    let dir = memory_directory();
    let [input, output] = ["in", "out"].map(|name| dir.path().join(name));
    fs::write(&input, data).unwrap();
    let mut job = Recompress::new(&input, &output);
    set(&mut job);
    match job.run(&mut |_| {}) {
        Ok(result) => Ok((fs::read(output).unwrap(), result)),
        Err(error) => {
            assert!(!output.exists(), "{error}");
            Err(error.to_string())
        }
    }
}

fn faults_of(verify: &Verify, data: &[u8]) -> Vec<Fault> {
    let dir = memory_directory();
    let input = dir.path().join("in");
    fs::write(&input, data).unwrap();
    verify.run(&input).unwrap().faults
}

/// The section of each code object, its ID, and its content if that can be read.
type Held = Vec<(Option<String>, Vec<u8>, Option<Vec<u8>>)>;

fn held(data: &[u8]) -> Held {
    let (mut held, mut scan) = (Held::new(), Scan::default());
    scan.inflate = Inflate::Whole;
    let input = Input::from_bytes("in", data.to_vec());
    let visitor = &mut |finding: Finding<'_>| {
        if let Finding::Bundle(found) = finding {
            for code_object in found.code_objects() {
                let content = code_object.bytes().ok().map(std::borrow::Cow::into_owned);
                held.push((found.place.section(), code_object.id().to_vec(), content));
            }
        }
        Ok(())
    };
    scan.run(&input, visitor).unwrap();
    held
}

/// Text in which a slow level of zstd finds more than a fast one.
fn code(random: &mut Random, len: usize) -> Vec<u8> {
    const WORDS: [&str; 12] = [
        "v_add_f32 ",
        "v_mul_f32 ",
        "s_load_dwordx2 ",
        "v0, ",
        "v1, ",
        "s[4:5], ",
        "0x10\n",
        "exec, ",
        "vcc\n",
        "s_endpgm\n",
        "global_store ",
        "v_fma_f64 ",
    ];
    let mut code = Vec::new();
    while code.len() < len {
        code.extend(random.pick(&WORDS).as_bytes());
        if random.below(9) == 0 {
            code.extend(random.bytes(3));
        }
    }
    code.truncate(len);
    code
}

fn hip_bundle(random: &mut Random, len: usize) -> Vec<u8> {
    let (first, second) = (code(random, len), code(random, len / 2));
    formats::binary(&[(HOST, b""), (GFX906, &first), (GFX90A, &second)], 8)
}

/// An object with this content in a section, which a symbol and a relocation lead to.
fn object(section: &str, content: &[u8]) -> Vec<u8> {
    let symbol = |kind: u8, of_section: usize| {
        [number(0, 4), vec![kind, 0], number(of_section, 2), number(0, 8), number(0, 8)].concat()
    };
    let symbols = [vec![0; 24], symbol(3, 2), symbol(1, 2)].concat();
    let relocation = [number(0, 8), number(1, 4), number(1, 4), number(0, 8)].concat();
    Elf::OBJECT.write(&[
        Section::new(".text", b"some code"),
        Section::new(section, content).aligned(4096),
        Section::new(".data", &[7; 64]).aligned(8),
        Section::new(".rela.data", &relocation).table(4, 5, 3, 24),
        Section::new(".symtab", &symbols).table(2, 6, 2, 24),
        Section::new(".strtab", &[0]).table(3, 0, 0, 0).aligned(1),
    ])
}

fn linked(section: &str, content: &[u8]) -> Vec<u8> {
    Elf::LIBRARY.write(&[
        Section::new(".text", b"some code"),
        Section::new(section, content).aligned(4096),
        Section::new(".data", b"some data"),
    ])
}

/// A file of every form that `recompress` writes, around some bundles or fatbins.
fn forms(content: &[u8], section: &str) -> Vec<(&'static str, Vec<u8>)> {
    let (library, object) = (linked(section, content), object(section, content));
    let wheel = |method| zip(&[Zipped::new("a/lib.so", method, &library), Zipped::new("a/text", method, b"text")]);
    vec![
        ("alone", content.to_vec()),
        ("archive", archive(&[("a.o", &object), ("text", b"text"), ("b.o", &object)])),
        ("stored", wheel(STORED)),
        ("deflated", wheel(DEFLATED)),
        ("object", object),
        ("library", library),
    ]
}

#[test]
fn limits_are_for_the_input_alone() {
    let mut random = Random::new(1);
    let plain = hip_bundle(&mut random, 9000);
    let compressed = formats::compressed(3, 1, &plain);
    let fatbin =
        fatbins::fatbin(&[Code::cubin(75, 9000), Code::ptx(90)].iter().map(fatbins::entry).collect::<Vec<_>>());
    let (packed, _) = recompressed(&fatbin, |_| {}).unwrap();
    let mut files = Vec::new();
    for (content, section) in
        [(&plain, ".hip_fatbin"), (&compressed, ".hip_fatbin"), (&fatbin, ".nv_fatbin"), (&packed, ".nv_fatbin")]
    {
        files.extend(forms(content, section));
    }
    files.push(("PE", pe(&[(".text", b"code"), (".hip_fat", &plain)])));
    files.push(("PE", pe(&[(".text", b"code"), (".hip_fat", &compressed)])));
    let (mut refused, mut written) = (0, 0);
    for (form, data) in files {
        let sizes = [data.len(), plain.len(), 9000, 9064];
        for size in sizes.into_iter().flat_map(|size| [size / 3, size - 1, size, size + 1, size + 200]) {
            let limits = Limits::up_to(u64::try_from(size).unwrap());
            let mut verify = Verify::default();
            verify.scan.limits = limits;
            let faults = faults_of(&verify, &data);
            let is_within = !faults.iter().any(|fault| fault.text.contains("limit of"));
            for is_plain in [false, true] {
                let result = recompressed(&data, |job| {
                    job.limits = limits;
                    if is_plain {
                        job.compression = None;
                    }
                });
                let is_room = result.as_ref().is_err_and(|error| error.contains("has room for only"));
                assert!(is_room || result.is_ok() == is_within, "{form} up to {size}: {faults:?}, {result:?}");
                *(if result.is_ok() { &mut written } else { &mut refused }) += 1;
            }
        }
    }
    assert!(refused > 50 && written > 300, "{refused} {written}");
}

#[test]
fn new_contents_may_be_larger_than_the_limit() {
    let mut random = Random::new(2);
    let id = "hipv4-amdgcn-amd-amdhsa--gfx906";
    let data = formats::compressed(3, 1, &formats::binary(&[(HOST, b""), (id, &code(&mut random, 3000))], 8));
    let dir = memory_directory();
    let [input, new, output] = ["in", "new", "out"].map(|name| dir.path().join(name));
    let content = code(&mut random, 90_000);
    fs::write(&input, &data).unwrap();
    fs::write(&new, &content).unwrap();
    let mut uri: Option<Uri> = None;
    let visitor = &mut |finding: Finding<'_>| {
        if let Finding::Bundle(found) = finding {
            uri = found.code_objects().nth(1).unwrap().uri()?;
        }
        Ok(())
    };
    Scan::default().run(&Input::read(&input).unwrap(), visitor).unwrap();
    let mut job = Replace::new(uri.unwrap(), &new);
    (job.output, job.limits, job.force) = (output.clone(), Limits::up_to(10_000), true);
    job.run(&mut |_| {}).unwrap();
    assert!(held(&fs::read(output).unwrap())[1].2.as_ref() == Some(&content));
}

/// A bundle with a length that a table of symbols may have.
fn bundle_like_symbols(random: &mut Random, len: usize) -> Vec<u8> {
    const SYMBOL_LEN: usize = 24;
    let len = (len..).find(|len| hip_bundle(&mut Random::new(7), *len).len().is_multiple_of(SYMBOL_LEN)).unwrap();
    hip_bundle(random, len)
}

/// An object with another type of a section in its header.
fn with_section_type(object: &[u8], index: usize, kind: u8) -> Vec<u8> {
    let mut data = object.to_vec();
    let table = usize::try_from(u64::from_le_bytes(data[40..48].try_into().unwrap())).unwrap();
    data[table + 64 * index + 4] = kind;
    data
}

#[test]
fn an_object_that_nothing_could_read_is_not_written() {
    let mut random = Random::new(3);
    let object = object(".hip_fatbin", &bundle_like_symbols(&mut random, 9000));
    const SYMTAB: u8 = 2;
    let damaged = with_section_type(&object, 2, SYMTAB);
    assert!(held(&damaged) == held(&object), "the object as it was is readable");
    for data in [damaged.clone(), archive(&[("a.o", &damaged)]), zip(&[Zipped::new("a.o", STORED, &damaged)])] {
        let error = recompressed(&data, |_| {}).unwrap_err();
        assert!(error.contains("cannot rewrite the bundles: other bundles would be found in the result"), "{error}");
    }
}

/// Whatever byte of a header is damaged, there is an error, or every code object is found again.
#[test]
fn damaged_headers_lose_no_code() {
    let mut random = Random::new(4);
    let object = object(".hip_fatbin", &bundle_like_symbols(&mut random, 3000));
    let table = usize::try_from(u64::from_le_bytes(object[40..48].try_into().unwrap())).unwrap();
    let in_archive = archive(&[("a.o", &object), ("b.o", &object)]);
    let second = harness::find(&in_archive, b"b.o/").unwrap();
    let wheel = zip(&[Zipped::new("a.o", DEFLATED, &object), Zipped::new("b.o", STORED, &object)]);
    let directory = harness::find(&wheel, b"PK\x01\x02").unwrap();
    let headers = |start: usize, end: usize| (start..end).collect::<Vec<_>>();
    let (mut written, mut refused) = (0, 0);
    for (name, data, places) in [
        ("object", &object, [headers(0, 64), headers(4096, 4096 + 120), headers(table, object.len())].concat()),
        ("archive", &in_archive, [headers(8, 68), headers(second, second + 60)].concat()),
        ("zip", &wheel, [headers(0, 34), headers(directory, wheel.len())].concat()),
    ] {
        for at in places {
            for mask in [1, 3, 0x80, 0xff] {
                let mut damaged = data.clone();
                damaged[at] ^= mask;
                match recompressed(&damaged, |job| job.compression.as_mut().unwrap().level = 1) {
                    Ok((output, _)) => {
                        assert!(held(&output) == held(&damaged), "{name}: byte {at} changed by {mask:#x}");
                        written += 1;
                    }
                    Err(_) => refused += 1,
                }
            }
        }
    }
    assert!(written > 200 && refused > 200, "{written} {refused}");
}

const GPUS: [&str; 14] = [
    "sm_75",
    "sm_80",
    "sm_89",
    "sm_90",
    "sm_90a",
    "sm_120",
    "compute_90",
    "gfx906",
    "gfx90a",
    "gfx90a:xnack+",
    "gfx942",
    "gfx1100",
    "gfx1151",
    "gfx11-generic",
];

fn some_hip_bundle(random: &mut Random) -> Vec<u8> {
    const TARGETS: [&str; 10] = [
        "gfx906",
        "gfx906:xnack-",
        "gfx9-generic",
        "gfx90a",
        "gfx90a:xnack+",
        "gfx90a:xnack-",
        "gfx942",
        "gfx1100",
        "gfx11-generic",
        "gfx1151",
    ];
    let mut ids = vec![HOST.to_owned()];
    for target in TARGETS {
        if random.below(3) == 0 {
            ids.push(format!("hipv4-amdgcn-amd-amdhsa--{target}"));
        }
    }
    if random.below(3) == 0 {
        ids.push("hipv4-spirv64-amd-amdhsa--amdgcnspirv".to_owned());
    }
    random.shuffle(&mut ids[1..]);
    let contents: Vec<Vec<u8>> =
        ids.iter().map(|id| if id == HOST { Vec::new() } else { id.repeat(9).into_bytes() }).collect();
    let entries: Vec<(&str, &[u8])> =
        ids.iter().zip(&contents).map(|(id, code)| (id.as_str(), code.as_slice())).collect();
    formats::binary(&entries, 8)
}

/// A bundle of ELF files, some of which alone name their GPU: their entry IDs have no target ID.
fn some_openmp_bundle(random: &mut Random) -> Vec<u8> {
    // The flags of the ELF files have the processor, and the settings of XNACK (0x200 off, 0x300 on).
    const TARGETS: [(&str, u32); 6] = [
        ("gfx906", 0x52f),
        ("gfx90a:xnack-", 0x63f),
        ("gfx90a:xnack+", 0x73f),
        ("gfx942", 0x54c),
        ("gfx1100", 0x41),
        ("gfx1151", 0x4a),
    ];
    let mut entries = vec![(HOST.to_owned(), Vec::new())];
    for (target, flags) in TARGETS {
        if random.below(2) == 0 {
            let target = if random.below(2) == 0 { target } else { "" };
            let code = Elf::amdgpu(flags).write(&[Section::new(".text", b"instructions")]);
            entries.push((format!("openmp-amdgcn-amd-amdhsa--{target}"), code));
        }
    }
    random.shuffle(&mut entries[1..]);
    let entries: Vec<(&str, &[u8])> = entries.iter().map(|(id, code)| (id.as_str(), code.as_slice())).collect();
    let plain = formats::binary(&entries, 8);
    if random.below(2) == 0 { formats::compressed(3, 1, &plain) } else { plain }
}

fn some_fatbin(random: &mut Random) -> Vec<u8> {
    const LTO_IR: u16 = 8;
    let mut codes = Vec::new();
    for sm in [75_u8, 80, 86, 90, 120, 90] {
        if random.below(3) == 0 {
            codes.push(Code::cubin(sm, 64));
        }
    }
    for sm in [75, 90, 100, 120] {
        if random.below(3) == 0 {
            codes.push(Code::ptx(sm));
        }
        if random.below(6) == 0 {
            codes.push(Code::new(LTO_IR, sm, b"\xedCN\x7f1234"));
        }
    }
    random.shuffle(&mut codes);
    if codes.is_empty() {
        codes.push(Code::ptx(75));
    }
    fatbins::fatbin(&codes.iter().map(fatbins::entry).collect::<Vec<_>>())
}

/// The IDs of the code objects that the runtimes of some GPUs load.
fn loaded(data: &[u8], gpus: &[Device]) -> Vec<(Vec<usize>, Box<[u8]>)> {
    let input = Input::from_bytes("in", data.to_vec());
    let loaded = runtime::loaded(&Scan::default(), &input, gpus).unwrap();
    loaded.into_iter().map(|loaded| (loaded.devices, loaded.code_object.id)).collect()
}

/// The faults of a file that has to serve some GPUs exactly.
fn faults(data: &[u8], gpus: &[Device], rule: VerifyRule) -> Vec<String> {
    let mut verify = Verify::default();
    verify.expect = Some(Expect::exactly(gpus.to_vec()));
    faults_of(&verify, data).into_iter().filter(|fault| fault.rule == rule).map(|fault| fault.text).collect()
}

/// What `--keep-for` keeps is what `--expect-exactly` accepts, and the GPUs load what they loaded before.
#[test]
fn kept_code_is_expected_code() {
    let mut random = Random::new(5);
    let (mut dropped, mut unexpected) = (0, 0);
    for _ in 0..400 {
        let (content, section) = match random.below(4) {
            0 => (some_openmp_bundle(&mut random), ".hip_fatbin"),
            1 => ([some_hip_bundle(&mut random)].concat(), ".hip_fatbin"),
            2 => ([some_fatbin(&mut random), some_fatbin(&mut random)].concat(), ".nv_fatbin"),
            _ => ([some_fatbin(&mut random), some_fatbin(&mut random)].concat(), "__nv_relfatbin"),
        };
        let mut forms = forms(&content, section);
        let (form, data) = forms.swap_remove(random.below(forms.len()));
        let gpus: Vec<Device> =
            (0..=random.below(3)).map(|_| Device::parse(GPUS[random.below(GPUS.len())]).unwrap()).collect();
        let Ok((kept, result)) = recompressed(&data, |job| job.keep_for.clone_from(&gpus)) else { continue };
        let what = format!(
            "{form} {section} {gpus:?}: {:?}",
            held(&data).iter().map(|code| String::from_utf8_lossy(&code.1).into_owned()).collect::<Vec<_>>()
        );
        assert_eq!(faults(&kept, &gpus, VerifyRule::Unexpected), [""; 0], "{what}");
        // No runtime loads LTO-IR of relocatable code, but linkers may need what stays of it.
        let is_relocatable = section == "__nv_relfatbin";
        let of_runtimes = |data: &[u8]| {
            let mut loaded = loaded(data, &gpus);
            loaded.retain(|(_, id)| !is_relocatable || !String::from_utf8_lossy(id).contains("--lto_"));
            loaded
        };
        assert_eq!(of_runtimes(&kept), of_runtimes(&data), "{what}");
        if !is_relocatable {
            let unserved = |data: &[u8]| faults(data, &gpus, VerifyRule::Expected).len();
            assert_eq!(unserved(&kept), unserved(&data), "{what}");
        }
        dropped += result.dropped;
        unexpected += faults(&data, &gpus, VerifyRule::Unexpected).len();
    }
    assert!(dropped > 200 && unexpected > 100, "{dropped} {unexpected}");
}

/// Code can be dropped whatever the level is at which the rest has to be compressed.
#[test]
fn dropping_entries_never_fails_for_room() {
    let mut random = Random::new(6);
    let (mut tried, mut slow) = (0, 0);
    for round in 0..40 {
        let ids: Vec<String> =
            ["gfx906", "gfx90a", "gfx942", "gfx1100"].map(|gpu| format!("hipv4-amdgcn-amd-amdhsa--{gpu}")).to_vec();
        let shared = code(&mut random, 400 + 300 * round);
        let contents: Vec<Vec<u8>> = ids
            .iter()
            .map(|_| {
                let len = if random.below(3) == 0 { 2000 } else { 10 };
                [&shared[..], &code(&mut random, len)].concat()
            })
            .collect();
        let mut entries = vec![(HOST, &b""[..])];
        entries.extend(ids.iter().zip(&contents).map(|(id, code)| (id.as_str(), code.as_slice())));
        let plain = formats::binary(&entries, *random.pick(&[1, 8, 4096]));
        let best = |job: &mut Recompress| job.compression.as_mut().unwrap().level = *random.pick(&[19, 22]);
        let (small, _) = recompressed(&plain, best).unwrap();
        // The section has no room but that of the bundle.
        let library = linked(".hip_fatbin", &small);
        for dropped in 1..15_usize {
            let patterns: Vec<Pattern> = ["gfx906", "gfx90a", "gfx942", "gfx1100"]
                .iter()
                .enumerate()
                .filter(|(index, _)| dropped >> index & 1 == 1)
                .map(|(_, gpu)| Pattern::parse(gpu).unwrap())
                .collect();
            let count = patterns.len();
            let mut selection = Selection::default();
            selection.targets = patterns;
            let dir = memory_directory();
            let [input, output] = ["in", "out"].map(|name| dir.path().join(name));
            fs::write(&input, &library).unwrap();
            let mut job = Recompress::new(&input, &output);
            job.drop = Some(selection.clone());
            let result = job.run(&mut |_| {}).unwrap_or_else(|error| panic!("{dropped:b} of {}: {error}", plain.len()));
            assert_eq!(result.dropped, count);
            let kept = held(&fs::read(output).unwrap());
            assert_eq!(kept.len(), 5 - count);
            assert!(kept.iter().all(|code| held(&library).contains(code)));
            tried += 1;
            // Without a limit on its room, the rest is compressed at the usual level.
            let (usual, _) = recompressed(&plain, |job| job.drop = Some(selection)).unwrap();
            slow += usize::from(usual.len() > small.len());
        }
    }
    assert!(tried > 500 && slow > 20, "{tried} {slow}");
}

//! Unpacking with generated requests, and with requests that show the intended differences.

use crate::machine::memory_directory;
use std::fs;
use std::sync::Arc;

use super::{call, packager};
use crate::reference::harness::{Case, Random, Report, Tools};
use crate::reference::offload::{self, Image};

const TRIPLES: &[&str] = &["amdgcn-amd-amdhsa", "nvptx64-nvidia-cuda", "nvptx64", "spirv64-unknown-unknown", ""];
const ARCHS: &[&str] = &["gfx906", "gfx90a:xnack+", "gfx90a", "sm_70", "generic", ""];
const KINDS: &[(u16, &str)] = &[(0, "none"), (1, "openmp"), (2, "cuda"), (4, "hip"), (8, "sycl")];
const OTHERS: &[(&str, &str)] = &[("x", "1"), ("x", "2"), ("feature", "a=b"), ("", "empty"), ("odd key", "\u{e9}")];

fn image(random: &mut Random) -> Image {
    let mut strings = Vec::new();
    for (key, values) in [("triple", TRIPLES), ("arch", ARCHS)] {
        if random.below(8) > 0 {
            strings.push((key, *random.pick(values)));
        }
    }
    for _ in 0..random.below(3) {
        let other = *random.pick(OTHERS);
        if !strings.iter().any(|(key, _)| *key == other.0) {
            strings.push(other);
        }
    }
    let len = if random.below(6) == 0 { 0 } else { random.below(60) };
    let content = random.bytes(len);
    Image::new(u16::try_from(random.below(7)).unwrap(), random.pick(KINDS).0, &strings, &content)
}

fn request(random: &mut Random, images: &[Image], number: usize) -> String {
    let mut filters = Vec::new();
    // Usually a string of one of the images, so that there are matches.
    let of = random.pick(images).clone();
    for key in ["triple", "arch", "x", "feature", "odd key", ""] {
        if random.below(3) == 0 {
            filters.push(format!("{key}={}", of.string(key)));
        }
    }
    if random.below(3) == 0 {
        let kind = KINDS.iter().find(|(number, _)| *number == of.kind).map_or("none", |(_, name)| name);
        filters.push(format!("kind={kind}"));
    }
    match random.below(8) {
        0 => filters.push(format!("arch={}", random.pick(ARCHS))),
        1 => filters.push(format!("triple={}", random.pick(TRIPLES))),
        2 => filters.push(format!("kind={}", random.pick(&["hip", "cuda", "what", "", "openmp"]))),
        3 => filters.push((*random.pick(&["x", "kind", "triple", "nothing"])).to_owned()),
        _ => {}
    }
    match random.below(5) {
        0 | 1 => filters.push(format!("file=out{}", random.below(number + 1))),
        2 => filters.insert(0, format!("file=out.{number}")),
        _ => {}
    }
    format!("--image={}", filters.join(","))
}

/// Images of version 1, and requests for them.
pub fn generated() -> Vec<Case> {
    let random = &mut Random::new(2);
    let cases = (0..280).map(|_| {
        let images: Vec<Image> = (0..1 + random.below(8)).map(|_| image(random)).collect();
        let name = *random.pick(&["in", "in.o", "dir/in.tar.o", ".in"]);
        let mut case = packager(&[name]).dir("dir").file(name, offload::write(1, &images));
        let requests = if random.below(4) == 0 { 2 + random.below(2) } else { 1 };
        for number in 0..requests {
            case = case.arg(request(random, &images, number));
        }
        case
    });
    cases.collect()
}

/// Two GPUs of HIP and an architecture of CUDA.
pub fn three() -> Vec<Image> {
    vec![
        Image::new(1, 4, &[("arch", "gfx906"), ("triple", "amdgcn-amd-amdhsa")], b"object for gfx906"),
        Image::new(2, 4, &[("arch", "gfx90a"), ("triple", "amdgcn-amd-amdhsa")], b"BC\xc0\xdebitcode"),
        Image::new(3, 2, &[("arch", "sm_70"), ("triple", "nvptx64-nvidia-cuda")], b"cubin"),
    ]
}

pub fn by_hand() -> Vec<Case> {
    let case = |args: &[&str], data: Vec<u8>| packager(&[&["in.bin"], args].concat()).file("in.bin", data);
    let plain = offload::write(1, &three());
    let all = "--image=no such key=";
    let mut cases: Vec<Case> = [
        &["--image=kind=hip,file=out"][..],
        &["--image=kind=hip"],
        &["--image=kind=hip", "--image=kind=hip"],
        &["--image=kind=hip", "--image=arch=gfx906"],
        &["--image=kind=hip,file=out", "--image=kind=cuda,file=out"],
        &["--image=kind=hip,file=a,file=b"],
        &["--image=file="],
        &["--image=file"],
        &["--image=kind=hip,file=missing/out"],
        &["--image=kind=cuda", "--image=kind=hip,file=missing/out"],
        &["--image=kind=hip,file=."],
        &["--image=kind=hip,file=-"],
        &["--image=kind=hip,file=in.bin"],
        &["--image=arch=gfx90", "--image=kind=sycl,file=out", all],
        &["--image=kind=nothing,file=out"],
        &["--archive"],
        &["--archive", "--image=kind=hip"],
        &["--archive", "--image=kind=sycl,file=out"],
        &["--archive", "--image=kind=sycl,file=out", "--image=kind=hip"],
    ]
    .map(|args| case(args, plain.clone()))
    .to_vec();
    // Inputs that are empty or have other contents.
    for data in [&b""[..], b"no offload binary", b"!<arch>\n", b"BC\xc0\xde", b"MZ", b"\x10\xff\x10\xad", b"\x7fELF"] {
        cases.push(case(&[all], data.to_vec()));
    }
    cases.push(packager(&["missing", all]));
    cases.push(packager(&["dir", all]).dir("dir"));
    cases.push(packager(&["-", all]).stdin(plain.clone()));
    // Unusual names in an image.
    for odd in ["../up", "/etc", "a\nb", "\u{1b}[31m", "..", "a b"] {
        let images = [Image::new(1, 1, &[("triple", odd), ("arch", odd)], b"odd")];
        cases.push(case(&[all], offload::write(1, &images)));
        cases.push(case(&["--image=kind=sycl"], offload::write(1, &images)));
    }
    // Two images with the same generated name.
    let twin = |x: &str| Image::new(1, 4, &[("triple", "t"), ("arch", "a"), ("x", x)], x.as_bytes());
    let twins = offload::write(1, &[twin("1"), twin("2"), twin("3")]);
    for args in
        [&["--image=x=1", "--image=x=2"][..], &["--image=x=3", "--image=arch=a"], &["--image=x=2", "--image=x=2"]]
    {
        cases.push(case(args, twins.clone()));
    }
    // Offload binaries in offload binaries.
    let inner = Image::new(1, 1, &[("triple", "outer"), ("arch", "o")], &plain);
    let deeper = Image::new(1, 1, &[("triple", "outermost")], &offload::write(1, std::slice::from_ref(&inner)));
    for images in [vec![inner.clone()], vec![deeper, inner]] {
        for args in [&[all][..], &["--image=triple=outer,file=out"], &["--image=kind=hip"]] {
            cases.push(case(args, offload::write(1, &images)));
        }
    }
    // Images of other kinds, versions and paddings.
    let mut old = three();
    old[0].kind = 3;
    for args in [&["--image=kind=hip"][..], &["--image=kind=none"], &["--image=kind=openmp"], &[all]] {
        cases.push(case(args, offload::write(1, &old)));
    }
    for args in [&["--image=kind=hip"][..], &["--image=arch=sm_70,file=out"], &[all]] {
        for data in [offload::write(2, &three()), offload::write(3, &three()), offload::compressed(false, &three())] {
            cases.push(case(args, data.clone()));
            cases.push(case(args, [&data[..], &plain].concat()));
        }
        cases.push(case(args, [&plain[..], &[0; 24], &plain].concat()));
        cases.push(case(args, [&plain[..], &[0; 4096]].concat()));
    }
    cases
}

/// With `--archive`, the bytes equal LLVM's, including an index of the symbols of objects and bitcode.
pub fn compare_archives(report: &mut Report, tools: &Tools) {
    let dir = memory_directory();
    let code = |name: &str, triple: &str, more: &[&str]| -> Vec<u8> {
        let source = format!("int {name}(int x) {{ return x; }}\nint {name}_data = 3;\nstatic int hidden;\n");
        fs::write(dir.path().join("source.c"), source).unwrap();
        let args = [&["-target", triple, "-c", "-x", "c", "source.c", "-o", "code"], more].concat();
        call(tools, dir.path(), "clang", &args);
        fs::read(dir.path().join("code")).unwrap()
    };
    let image =
        |kind: u16, arch: &str, content: &[u8]| Image::new(kind, 4, &[("arch", arch), ("triple", "t")], content);
    let elf = image(1, "elf", &code("first", "x86_64-linux-gnu", &[]));
    let gpu = image(1, "gfx906", &code("second", "amdgcn-amd-amdhsa", &["-mcpu=gfx906"]));
    let bitcode = image(2, "bitcode", &code("third", "x86_64-linux-gnu", &["-emit-llvm"]));
    let coff = image(1, "coff", &code("fourth", "x86_64-windows-msvc", &[]));
    let text = image(5, "text", b"no symbols");
    let sets = [
        vec![elf.clone()],
        vec![bitcode.clone(), gpu.clone()],
        vec![text.clone(), elf.clone(), gpu.clone(), bitcode.clone(), coff],
        vec![text],
        vec![elf, gpu, bitcode.clone(), bitcode],
    ];
    let mut cases = Vec::new();
    for images in sets {
        let data: Arc<[u8]> = offload::write(1, &images).into();
        for name in ["in", "in.o", "dir/a-name-that-is-longer-than-the-field-for-it.o"] {
            for requests in [
                &["--image=kind=hip,file=out.a"][..],
                &["--image=arch=elf,file=out.a", "--image=arch=bitcode,file=b.a"],
                &["--image=triple=t,file=out.a", "--image=arch=text,file=out.a"],
                &["--image=arch=nothing,file=out.a"],
            ] {
                let args = [&[name, "--archive"], requests].concat();
                cases.push(packager(&args).dir("dir").file(name, Arc::clone(&data)));
            }
        }
    }
    report.compare_all(tools, cases);
}

/// Broken files to unpack.
pub fn broken() -> Vec<Case> {
    [broken_offload_binaries(), broken_elf_headers()].concat()
}

/// Beginnings of ELF files, of every class, byte order and type.
fn broken_elf_headers() -> Vec<Case> {
    let mut cases = Vec::new();
    for (len, class, order) in [64, 20, 17]
        .into_iter()
        .flat_map(|len| (0..4).flat_map(move |class| [0, 1, 2, 7].map(|order| (len, class, order))))
    {
        for number in [0_u16, 1, 3, 4, 0x100] {
            let mut data = [b"\x7fELF", &[class, order, 1][..], &[0; 57]].concat();
            data[16..18].copy_from_slice(&if order == 2 { number.to_be_bytes() } else { number.to_le_bytes() });
            data.truncate(len);
            cases.push(packager(&["in", "--image=file=x,arch=gfx906"]).file("in", data));
        }
    }
    cases
}

fn broken_offload_binaries() -> Vec<Case> {
    let random = &mut Random::new(4);
    let sound = offload::write(1, &three());
    let cases = (0..70).map(|number| {
        let mut data = sound.clone();
        match number % 3 {
            0 => data.truncate(random.below(sound.len())),
            1 => {
                let at = random.below(sound.len());
                data[at] ^= u8::try_from(1 + random.below(255)).unwrap();
            }
            _ => {
                let at = 8 + 8 * random.below(9);
                let value = *random.pick(&[0, 1, 41, 1 << 31, 1 << 63, u64::MAX, u64::MAX - 7]);
                data[at..at + 8].copy_from_slice(&value.to_le_bytes());
            }
        }
        packager(&["in", "--image=no such key="]).file("in", data)
    });
    cases.collect()
}

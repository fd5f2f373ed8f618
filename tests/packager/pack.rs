//! Packing with generated command lines, whose output must equal LLVM's byte for byte.

use crate::machine::memory_directory;
use std::fs;
use std::sync::Arc;

use super::{call, packager};
use crate::reference::harness::{Case, Random, Report, Tools, run};
use crate::reference::offload;

/// Names of files, with all known extensions and others.
const NAMES: &[&str] = &[
    "a.o",
    "b.bc",
    "c.cubin",
    "d.fatbin",
    "e.s",
    "f.spv",
    "g",
    "h.out",
    "i.tar.o",
    ".o",
    "j.",
    "k.O",
    "l.hsaco",
    "dir/m.o",
    "dir.bc/n",
    "o.ptx",
    "p.ll",
    "with space.o",
    "q=r.s",
];

const CONTENTS: &[&[u8]] = &[
    b"",
    b"x",
    b"BC",
    b"BC\xc0\xde",
    b"BC\xc0\xdeand more of it",
    b"\xde\xc0\x17\x0b\0\0\0\0\x14\0\0\0\x04\0\0\0\0\0\0\0BC\xc0\xde",
    b"\xde\xc0\x17\x0b",
    b"\x7fELF\x02\x01\x01\0",
    b"!<arch>\n",
    b"\x10\xff\x10\xad\x01\0\0\0",
    b"\x03\x02\x23\x07\0\0\0\0",
    b"12345678",
    b"1234567",
    b"\0\0\0\0\0\0\0\0\0",
];

const KEYS: &[&str] = &[
    "triple",
    "arch",
    "kind",
    "x",
    "y",
    "feature",
    "",
    "member",
    "arc",
    "riple",
    "h",
    "\u{1}",
    "\u{e9}",
    "a key",
    "K",
    "-",
    "Triple",
    "a-rather-long-key-with-more-than-sixteen-bytes",
    "of-exactly-sixtee",
    "12345678",
    "123456789",
    "this key is longer than the sixty-four bytes that make up one block of the hash of LLVM's tables",
    "\"",
];

/// Some of the values are suffixes of others.
const VALUES: &[&str] = &[
    "amdgcn-amd-amdhsa",
    "nvptx64-nvidia-cuda",
    "nvptx64",
    "cuda",
    "a",
    "hsa",
    "",
    "gfx906",
    "gfx90a:sramecc+:xnack-",
    "906",
    "sm_70",
    "70",
    "=",
    "a=b",
    "hip",
    "openmp",
    "sycl",
    "none",
    "HIP",
    "host",
    "\u{7f}",
    "x y",
    "triple",
    "arch",
    "le",
    "r\u{e4}tsel",
    "4",
    "\"quoted\"",
    "back\\slash",
];

fn keys_and_values(random: &mut Random, argument: &mut Vec<String>) {
    for _ in 0..random.below(6) {
        let key = random.pick(KEYS);
        argument.push(match random.below(8) {
            0 => (*key).to_owned(),
            _ => format!("{key}={}", random.pick(VALUES)),
        });
    }
}

/// Generates one `--image`, and its files in addition to earlier ones.
fn image(random: &mut Random, files: &mut Vec<(String, Arc<[u8]>)>) -> String {
    let mut argument = Vec::new();
    for _ in 0..if random.below(6) == 0 { 2 + random.below(3) } else { 1 } {
        let name = *random.pick(NAMES);
        if !files.iter().any(|(known, _)| known == name) {
            let len = random.below(300);
            let content = if random.below(2) == 0 { random.bytes(len) } else { random.pick(CONTENTS).to_vec() };
            files.push((name.to_owned(), content.into()));
        }
        argument.push(format!("file={name}"));
    }
    let kind = *random.pick(&["hip", "openmp", "cuda", "sycl", "none", "host", "", "Hip"]);
    match random.below(3) {
        0 => {}
        1 => argument.push(format!("kind={kind}")),
        _ => argument.extend([format!("kind={kind}"), format!("triple={}", random.pick(VALUES))]),
    }
    keys_and_values(random, &mut argument);
    // Unusual values of `file`: none, empty, a missing file, a directory.
    if random.below(40) == 0 {
        argument.push((*random.pick(&["file", "file=", "file=missing", "file=dir"])).to_owned());
    }
    if random.below(3) == 0 {
        random.shuffle(&mut argument);
    }
    argument.join(",")
}

pub fn case(random: &mut Random) -> Case {
    let count = match random.below(10) {
        0 => 10 + random.below(41),
        1..=3 => 2 + random.below(8),
        _ => 1,
    };
    let mut files = Vec::new();
    let output = *random.pick(&["out", "out.o", "dir/out"]);
    let mut args = if random.below(2) == 0 { vec!["-o".to_owned(), output.to_owned()] } else { vec![] };
    for _ in 0..count {
        let image = image(random, &mut files);
        match random.below(4) {
            0 => args.extend(["--image".to_owned(), image]),
            1 => args.push(format!("-image={image}")),
            _ => args.push(format!("--image={image}")),
        }
    }
    if !args.iter().any(|arg| arg == "-o") {
        args.push(format!("-o={output}"));
    }
    files.into_iter().fold(packager(&args).dir("dir").dir("dir.bc"), |case, (name, content)| case.file(name, content))
}

/// Keys and values of any bytes, which only a response file can contain here.
fn any_bytes(random: &mut Random) -> Case {
    let mut file = b"-o out --image=file=in.o,kind=hip".to_vec();
    for _ in 0..=random.below(8) {
        let len = random.below(70);
        let mut pair = random.bytes(len);
        pair.retain(|byte| !b"\0\t\n\r \"'\\,\x0b\x0c".contains(byte));
        file.push(b',');
        file.extend(pair);
        if random.below(3) > 0 {
            file.extend(b"=gfx906\xff");
        }
    }
    packager(&["@args"]).file("args", file).file("in.o", *b"content")
}

pub fn by_hand() -> Vec<Case> {
    let file = |case: Case| case.file("a.o", *b"content").file("b.bc", *b"BC\xc0\xde");
    let lines: &[&[&str]] = &[
        &["-o", "out"],
        &["-o", "out", "--image=file=a.o"],
        &["-o", "out", "--image=triple=x"],
        &["-o", "out", "--image="],
        &["-o", "out", "--image=file=a.o", "--image=triple=x"],
        &["-o", "out", "--image=file=missing", "--image=triple=x"],
        &["-o", "out", "--image=file=a.o,file=missing"],
        &["-o", "missing/out", "--image=file=a.o"],
        &["-o", ".", "--image=file=a.o"],
        &["-o", "a.o", "--image=file=a.o,triple=x"],
        &["-o", "out", "--image=file=a.o,file=b.bc,triple=x,arch=gfx906,kind=hip"],
        &["-o", "out", "--image=kind=hip,kind=hip,file=a.o"],
        &["-o", "out", "--image=file=a.o,file=a.o,file=a.o"],
        &["-o", "out", "--archive", "--image=file=a.o"],
        &["-o", "out", "a.o", "--image=file=b.bc"],
        &["-o", "-", "--image=file=a.o"],
        &["-o", "out", "--image=file=-,kind=cuda"],
    ];
    lines.iter().map(|args| file(packager(args)).stdin("from the standard input")).collect()
}

pub fn compare(report: &mut Report, tools: &Tools) {
    let random = &mut Random::new(1);
    let mut cases: Vec<Case> = (0..220).map(|_| case(random)).collect();
    cases.extend((0..40).map(|_| any_bytes(random)));
    cases.extend(by_hand());
    report.each(cases.into_iter().enumerate().collect(), |report, (index, case)| {
        let (theirs, ours) = report.compare(tools, &case);
        let output = ["out", "out.o", "dir/out"].into_iter().find(|name| ours.files.contains_key(*name));
        let packed = output.map(|name| (&theirs.files[name], &ours.files[name]));
        // An image that begins like an offload binary is treated as one during unpacking.
        let nested = case.files.iter().any(|(_, content)| content.starts_with(offload::MAGIC));
        if let Some((theirs, ours)) = packed.filter(|(_, ours)| index % 5 == 0 && !nested && !ours.is_empty()) {
            compare_packed(report, tools, theirs, ours);
        }
    });
}

/// Checks that each tool reads the other's output, and that llvm-objdump finds the same in both.
fn compare_packed(report: &mut Report, tools: &Tools, theirs: &[u8], ours: &[u8]) {
    let reading = |packed: &[u8]| packager(&["in", "--image=no such key="]).file("in", packed);
    report.judge(&reading(ours), &run(&tools.theirs, &reading(ours)), &run(&tools.ours, &reading(theirs)));
    let images = offload::read(ours).unwrap().len();
    let dir = memory_directory();
    let listed = |name: &str, packed: &[u8]| {
        fs::write(dir.path().join(name), packed).unwrap();
        call(tools, dir.path(), "llvm-objdump", &["--offloading", name]).replace(name, "")
    };
    let (theirs, ours) = (listed("theirs", theirs), listed("ours", ours));
    report.check(theirs == ours && ours.matches("OFFLOADING IMAGE").count() == images, || {
        format!("llvm-objdump --offloading: {ours}, not {theirs}")
    });
}

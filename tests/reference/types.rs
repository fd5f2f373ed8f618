//! Every file type, bundled, listed and unbundled, with contents that resemble the format.

use std::sync::Arc;

use super::formats::{bundle, comment};
use super::harness::{Case, Random};

pub const TYPES: &[&str] = &["i", "ii", "cui", "hipi", "d", "ll", "bc", "s", "o", "gch", "ast"];

pub const TARGETS: &[&str] = &[
    "host-x86_64-unknown-linux-gnu-",
    "hip-amdgcn-amd-amdhsa--gfx906",
    "hip-amdgcn-amd-amdhsa--gfx90a:xnack-",
    "hipv4-amdgcn-amd-amdhsa--gfx90a:xnack+",
    "openmp-nvptx64-nvidia-cuda-unknown-sm_70",
    "openmp-amdgcn-amd-amdhsa--gfx9-4-generic",
    "hip-spirv64-amd-amdhsa--amdgcnspirv",
    "openmp-powerpc64le-ibm-linux-gnu-",
];

const SIZES: &[usize] = &[0, 1, 2, 63, 64, 65, 4095, 4096, 4097, 100_000];

/// Contents of one type: sizes, magic strings, line ends, NULs.
fn contents(file_type: &str, random: &mut Random) -> Vec<Vec<u8>> {
    let mark = comment(file_type).unwrap_or("//");
    let mut contents: Vec<Vec<u8>> = SIZES.iter().map(|&size| random.bytes(size)).collect();
    contents.extend(SIZES.iter().map(|&size| b"one line\n".iter().copied().cycle().take(size).collect()));
    let odd = [
        "\n",
        "\n\n",
        "\r\n",
        "\nx",
        "x\n",
        "\n\nx\n\n",
        "\r\nx\r\n",
        "\0",
        "\0\0x\0",
        "x\0\n\0",
        "CCOB",
        "CCO",
        "\r",
        "__CLANG_OFFLOAD_BUNDLE__",
        "__CLANG_OFFLOAD_BUNDLE__\0\0\0\0\0\0\0\0\0",
        "__CLANG_OFFLOAD_BUNDLE____START__ x\n",
        "!<arch>\n",
        "no end of line",
        "CCOB\u{2}\0\u{1}\0",
    ];
    contents.extend(odd.iter().map(|text| text.as_bytes().to_vec()));
    contents.push(format!("x\n{mark} a comment\n{mark}\n").into_bytes());
    contents.push(format!("{mark} __CLANG_OFFLOAD_BUNDLE__").into_bytes());
    contents
}

fn line(file_type: &str, count: usize, rest: &[&str]) -> Case {
    let targets = format!("-targets={}", TARGETS[..count].join(","));
    Case::new(&[&[format!("-type={file_type}").as_str(), targets.as_str()], rest].concat())
}

/// Cases that bundle, and that list and unbundle the result.
fn round(file_type: &str, contents: &[Arc<[u8]>]) -> Vec<Case> {
    let count = contents.len();
    let names: Vec<String> = (0..count).map(|index| format!("f{index}")).collect();
    let mut bundling = line(file_type, count, &["-output=out"]);
    for (name, content) in names.iter().zip(contents) {
        bundling = bundling.arg(format!("-input={name}")).file(name, Arc::clone(content));
    }
    let entries: Vec<(&str, &[u8])> = TARGETS.iter().copied().zip(contents.iter().map(|content| &**content)).collect();
    let whole: Arc<[u8]> = bundle(file_type, &entries).into();
    let listed = TARGETS[..count].iter().map(|&target| target.to_owned()).collect();
    let listing = Case::new(&[&format!("-type={file_type}"), "-list", "-input=in"]).file("in", Arc::clone(&whole));
    let mut unbundling = line(file_type, count, &["-unbundle", "-input=in"]).file("in", whole);
    for (name, content) in names.iter().zip(contents) {
        unbundling = unbundling.arg(format!("-output={name}")).wants(name, Arc::clone(content));
    }
    vec![bundling, listing.listing(listed), unbundling]
}

pub fn rounds() -> Vec<Case> {
    let mut random = Random::new(21);
    let mut cases = Vec::new();
    for file_type in TYPES {
        let all: Vec<Arc<[u8]>> = contents(file_type, &mut random).into_iter().map(Arc::from).collect();
        for count in 1..=TARGETS.len() {
            let chosen: Vec<Arc<[u8]>> = (0..count).map(|_| Arc::clone(random.pick(&all))).collect();
            cases.extend(round(file_type, &chosen));
        }
        let step = if ["ll", "i", "bc"].contains(file_type) { 1 } else { 4 };
        for content in all.iter().step_by(step) {
            cases.extend(round(file_type, &[Arc::clone(content), Arc::clone(random.pick(&all))]));
        }
    }
    cases
}

/// A bundle as an entry of another, and lines that look like markers.
pub fn nested() -> Vec<Case> {
    let mut cases = Vec::new();
    for file_type in TYPES {
        let inner =
            bundle(file_type, &[("host-i386-unknown-linux-gnu-", b"1\n"), ("hip-amdgcn-amd-amdhsa--gfx803", b"2")]);
        let plain: Arc<[u8]> = (*b"3\n").into();
        cases.extend(round(file_type, &[inner.clone().into(), Arc::clone(&plain)]));
        cases.extend(round(file_type, &[Arc::clone(&plain), inner.into()]));
        let mark = comment(file_type).unwrap_or("//");
        for word in ["START", "END", "MIDDLE"] {
            let text = format!("x\n{mark} __CLANG_OFFLOAD_BUNDLE____{word}__ hip-amdgcn-amd-amdhsa--gfx1030\ny");
            let marked: Arc<[u8]> = text.into_bytes().into();
            if word != "START" {
                cases.extend(round(file_type, &[Arc::clone(&marked), Arc::clone(&plain)]));
            }
        }
    }
    cases.iter_mut().for_each(|case| case.nested = true);
    cases
}

/// Returns text bundles of three entries where a marker line has lost its first newline, or is missing.
pub fn lost_lines() -> Vec<Case> {
    let contents = ["1\n", "2", "\n3\n"];
    let mut cases = Vec::new();
    for file_type in TYPES {
        let Some(mark) = comment(file_type) else { continue };
        let marker = format!("\n{mark} __CLANG_OFFLOAD_BUNDLE__");
        let entries: Vec<(&str, &[u8])> = TARGETS.iter().copied().zip(contents.map(str::as_bytes)).collect();
        let whole = String::from_utf8(bundle(file_type, &entries)).unwrap();
        let starts: Vec<usize> = whole.match_indices(&marker).map(|(start, _)| start).collect();
        for (line, &start) in starts.iter().enumerate() {
            let (before, after) = whole.split_at(start);
            let next_line = 1 + after[1..].find('\n').unwrap() + 1;
            let (shared, missing) = ([before, &after[1..]].concat(), [before, &after[next_line..]].concat());
            // After another end line, the entry is still there.
            let keeps_all = line > 0 && line % 2 == 0;
            // Without any end line, LLVM writes gigabytes of memory from beyond the input.
            let missing = (line + 1 < starts.len()).then_some((missing, false));
            for (damaged, keeps_all) in [(shared, keeps_all)].into_iter().chain(missing) {
                let damaged: Arc<[u8]> = damaged.into_bytes().into();
                let case = |rest: &[&str]| {
                    let kind = format!("-type={file_type}");
                    Case::new(&[&[kind.as_str(), "-input=in"], rest].concat()).file("in", Arc::clone(&damaged))
                };
                let listing = case(&["-list"]);
                let wanted = TARGETS[..3].iter().map(|&target| target.to_owned()).collect();
                cases.push(if keeps_all { listing.listing(wanted) } else { listing });
                for asked in [&[0][..], &[1], &[2], &[0, 1], &[1, 2], &[2, 0], &[0, 1, 2]] {
                    let targets: Vec<&str> = asked.iter().map(|&index| TARGETS[index]).collect();
                    let mut unbundling = case(&["-unbundle", &format!("-targets={}", targets.join(","))]);
                    for &index in asked {
                        unbundling = unbundling.arg(format!("-output=f{index}"));
                        if keeps_all {
                            unbundling = unbundling.wants(format!("f{index}"), contents[index].as_bytes());
                        }
                    }
                    cases.push(unbundling.clone().arg("-allow-missing-bundles"));
                    cases.push(unbundling);
                }
            }
        }
    }
    cases
}

/// Standard input and output instead of files.
pub fn streams() -> Vec<Case> {
    let mut cases = Vec::new();
    for file_type in TYPES {
        let entries: [(&str, &[u8]); 2] = [(TARGETS[0], b"host code\n"), (TARGETS[1], b"gpu\n")];
        let whole = bundle(file_type, &entries);
        cases.push(line(file_type, 2, &["-input=-", "-input=b", "-output=out"]).file("b", *b"b").stdin("a"));
        cases.push(line(file_type, 2, &["-input=a", "-input=b", "-output=-"]).file("a", *b"a").file("b", *b"b"));
        cases.push(line(file_type, 2, &["-unbundle", "-input=-", "-output=x", "-output=y"]).stdin(whole.clone()));
        cases.push(line(file_type, 2, &["-unbundle", "-input=in", "-output=-", "-output=y"]).file("in", whole));
        cases.push(line(file_type, 2, &["-input=a", "-input=nowhere", "-output=out"]).file("a", *b"a"));
        cases.push(line(file_type, 2, &["-input=a", "-input=a", "-output=a"]).file("a", *b"a"));
        cases.push(line(file_type, 2, &["-input=a", "-input=d", "-output=out"]).file("a", *b"a").dir("d"));
    }
    cases
}

/// Alignments.
pub fn alignments() -> Vec<Case> {
    let powers = (0..=16).map(|bits| 1_u64 << bits);
    let others = [0, 3, 5, 7, 24, 100, 1000, 4095, 4097, 65535, 0x0010_0001];
    let mut random = Random::new(31);
    let mut cases = Vec::new();
    for align in powers.chain(others) {
        for file_type in ["bc", "gch", "o", "ll"] {
            let count = 1 + random.below(TARGETS.len());
            let mut case = line(file_type, count, &["-output=out", &format!("-bundle-align={align}")]);
            for index in 0..count {
                let size = *random.pick(&SIZES[..9]);
                case = case.arg(format!("-input=f{index}")).file(format!("f{index}"), random.bytes(size));
            }
            cases.push(case);
        }
    }
    cases
}

//! Compressed bundles: header fields and inflated payload of both tools' output, and each tool reading the other's.

use std::sync::Arc;

use super::formats::{Ccob, bundle, compressed, compressed_as};
use super::harness::{Case, Random, Release, Report, Tools};
use super::types::{TARGETS, TYPES};

/// The contents of the entries, in order.
type Contents = Vec<Arc<[u8]>>;

const LEVELS: &[&str] = &["-5", "-1", "0", "1", "3", "6", "10", "19", "20", "22"];

/// Levels that zlib has. With any other, a build of LLVM without zstd writes a header without data, and reports no
/// error.
const LEVELS_OF_ZLIB: &[&str] = &["-1", "0", "1", "3", "6"];

fn contents(random: &mut Random) -> Vec<Arc<[u8]>> {
    let words: Vec<u8> = (0..30_000).map(|_| *random.pick(b"the quick brown fox\n")).collect();
    vec![Arc::from(*b""), Arc::from(*b"short\n"), Arc::from(vec![b'x'; 5000]), random.bytes(9000).into(), words.into()]
}

fn bundling(file_type: &str, contents: &[Arc<[u8]>]) -> Case {
    let targets = format!("-targets={}", TARGETS[..contents.len()].join(","));
    let mut case = Case::new(&["-output=out", &targets]).arg(format!("-type={file_type}"));
    for (index, content) in contents.iter().enumerate() {
        case = case.arg(format!("-input=f{index}")).file(format!("f{index}"), Arc::clone(content));
    }
    case
}

fn unbundling(file_type: &str, contents: &[Arc<[u8]>], data: Arc<[u8]>) -> Case {
    let targets = format!("-targets={}", TARGETS[..contents.len()].join(","));
    let mut case = Case::new(&["-unbundle", "-input=in", &targets]).arg(format!("-type={file_type}")).file("in", data);
    for (index, content) in contents.iter().enumerate() {
        case = case.arg(format!("-output=f{index}")).wants(format!("f{index}"), Arc::clone(content));
    }
    case
}

fn listing(file_type: &str, count: usize, data: Arc<[u8]>) -> Case {
    let lines = TARGETS[..count].iter().map(|&target| target.to_owned()).collect();
    Case::new(&["-list", "-input=in"]).arg(format!("-type={file_type}")).file("in", data).listing(lines)
}

/// Bundles of every type, at every level, with both versions of the header.
fn written(levels: &[&str]) -> Vec<(&'static str, Contents, Case)> {
    let mut random = Random::new(61);
    let all = contents(&mut random);
    let mut cases = Vec::new();
    for (index, file_type) in TYPES.iter().enumerate() {
        for version in ["2", "3"] {
            let chosen: Vec<_> = (0..1 + random.below(6)).map(|_| Arc::clone(random.pick(&all))).collect();
            let case = bundling(file_type, &chosen).arg("-compress");
            let case = case.env("COMPRESSED_BUNDLE_FORMAT_VERSION", version);
            let case = if index % 2 == 0 { case.arg("-verbose") } else { case };
            cases.push((*file_type, chosen, case));
        }
    }
    for level in levels {
        for (version, by_env) in [("2", false), ("3", true)] {
            let chosen = all[1..].to_vec();
            let case = bundling("bc", &chosen).arg("-verbose").env("COMPRESSED_BUNDLE_FORMAT_VERSION", version);
            let case = if by_env {
                case.env("OFFLOAD_BUNDLER_COMPRESS", "1").env("OFFLOAD_BUNDLER_COMPRESSION_LEVEL", *level)
            } else {
                case.arg("-compress").arg(format!("-compression-level={level}"))
            };
            let case = if *level == "3" { case.arg("-bundle-align=4096") } else { case };
            cases.push(("bc", chosen, case));
        }
    }
    cases
}

/// Compares the output of both tools, and then reads each output with both.
pub fn compare_written(report: &mut Report, tools: &Tools) {
    let levels = if tools.release == Release::Llvm23 { LEVELS_OF_ZLIB } else { LEVELS };
    report.each(written(levels), |report, (file_type, contents, case)| {
        let (theirs, ours) = report.compare(tools, &case);
        for (who, outcome) in [("LLVM", &theirs), ("ours", &ours)] {
            let Some(data) = outcome.files.get("out") else { continue };
            let consistent = Ccob::read(data).is_some_and(|ccob| ccob.is_consistent(data.len()));
            report.check(consistent, || format!("{:?}: the file of {who} contradicts itself", case.args));
            let data: Arc<[u8]> = data.as_slice().into();
            report.compare(tools, &listing(file_type, contents.len(), Arc::clone(&data)));
            report.compare(tools, &unbundling(file_type, &contents, data));
        }
    });
}

/// Reads bundles that are several zstd frames.
pub fn in_frames() -> Vec<Case> {
    let contents: Contents = vec![Arc::from(*b"host code"), Arc::from(vec![b'x'; 5000])];
    let entries: Vec<(&str, &[u8])> = TARGETS.iter().copied().zip(contents.iter().map(|content| &**content)).collect();
    let whole = bundle("bc", &entries);
    let files = (1..=3).flat_map(|version| frames(&whole).map(|stream| compressed_as(version, 1, &whole, &stream)));
    let cases = files
        .map(Arc::<[u8]>::from)
        .flat_map(|data| [listing("bc", contents.len(), Arc::clone(&data)), unbundling("bc", &contents, data)]);
    cases.collect()
}

/// Streams of several zstd frames that inflate to `whole`, some of them with skippable frames.
fn frames(whole: &[u8]) -> [Vec<u8>; 5] {
    let frame = |data: &[u8]| zstd::encode_all(data, 3).unwrap();
    let skippable = |data: &[u8]| {
        [&0x184d_2a50_u32.to_le_bytes()[..], &u32::try_from(data.len()).unwrap().to_le_bytes(), data].concat()
    };
    let (first, second) = whole.split_at(whole.len() / 3);
    [
        [frame(first), frame(second)].concat(),
        [skippable(b""), frame(whole)].concat(),
        [frame(whole), skippable(b"CCOB")].concat(),
        [skippable(b"a"), frame(first), skippable(b"b"), skippable(b"c"), frame(second), skippable(b"")].concat(),
        [frame(b""), frame(whole), frame(b"")].concat(),
    ]
}

/// Reads bundles of all versions and methods, and compares the statistics.
pub fn read() -> Vec<Case> {
    let mut random = Random::new(67);
    let all = contents(&mut random);
    let mut cases = Vec::new();
    for file_type in ["bc", "ll", "s", "i", "o", "ast"] {
        let entries: Vec<(&str, &[u8])> = TARGETS.iter().copied().zip(all.iter().map(|content| &**content)).collect();
        let whole = bundle(file_type, &entries);
        for version in 1..=3 {
            for method in 0..=1 {
                let data: Arc<[u8]> = compressed(version, method, &whole).into();
                cases.push(listing(file_type, all.len(), Arc::clone(&data)));
                cases.push(listing(file_type, all.len(), Arc::clone(&data)).arg("-verbose"));
                cases.push(unbundling(file_type, &all, Arc::clone(&data)));
                cases.push(unbundling(file_type, &all, data).arg("-verbose"));
            }
        }
        let plain: Arc<[u8]> = whole.into();
        cases.push(listing(file_type, all.len(), Arc::clone(&plain)).arg("-verbose"));
        cases.push(unbundling(file_type, &all, Arc::clone(&plain)).arg("-verbose"));
        cases.push(bundling(file_type, &all).arg("-verbose"));
        cases.push(bundling(file_type, &all).arg("-compression-level=5"));
    }
    cases
}

/// Compressed data that is not a bundle, and damaged bundles.
pub fn broken() -> Vec<Case> {
    let entries: [(&str, &[u8]); 2] = [(TARGETS[0], b"host code"), (TARGETS[1], b"gpu code")];
    let good = compressed(2, 1, &bundle("bc", &entries));
    let mut files: Vec<Vec<u8>> = vec![compressed(2, 1, b""), compressed(2, 1, b"no bundle"), compressed(3, 0, b"")];
    files.extend([4, 6, 8, 12, 20, 24, 30, good.len() - 1].map(|len| good[..len].to_vec()));
    for at in [4, 5, 6, 8, 12, 16, 24, 28] {
        let mut changed = good.clone();
        changed[at] ^= 0x15;
        files.push(changed);
    }
    let mut cases = Vec::new();
    for data in files {
        let data: Arc<[u8]> = data.into();
        let targets = format!("-targets={},{}", TARGETS[0], TARGETS[1]);
        let unbundling = Case::new(&["-type=bc", "-unbundle", "-input=in", &targets, "-output=x", "-output=y"]);
        cases.push(Case::new(&["-type=bc", "-list", "-input=in"]).file("in", Arc::clone(&data)));
        cases.push(unbundling.clone().file("in", Arc::clone(&data)));
        cases.push(unbundling.arg("-allow-missing-bundles").file("in", data));
    }
    cases
}

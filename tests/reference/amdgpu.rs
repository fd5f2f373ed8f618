//! AMD's triples with sub-architectures, which LLVM 23 knows and LLVM 22 does not: IDs are bundled and listed, and
//! every request is tried on every entry, in bundles and in archives.

use std::sync::Arc;

use super::formats::{binary, bundle};
use super::harness::{Case, Random, Report, Tools};
use super::names;
use super::unbundling::unbundle;
use crate::properties::make::archive;

const ARCHES: &str = "amdgcn amdgpu amdgpu6 amdgpu6.00 amdgpu6.01 amdgpu6.02 amdgpu7 amdgpu7.00 amdgpu7.01 amdgpu7.02 \
    amdgpu7.03 amdgpu7.04 amdgpu7.05 amdgpu8 amdgpu8.01 amdgpu8.02 amdgpu8.03 amdgpu8.05 amdgpu8.10 amdgpu9 amdgpu9.00 \
    amdgpu9.02 amdgpu9.04 amdgpu9.06 amdgpu9.08 amdgpu9.09 amdgpu9.0a amdgpu9.0c amdgpu9.4 amdgpu9.5 amdgpu9.42 \
    amdgpu9.50 amdgpu10 amdgpu10.1 amdgpu10.10 amdgpu10.11 amdgpu10.12 amdgpu10.13 amdgpu10.3 amdgpu10.30 amdgpu10.31 \
    amdgpu10.32 amdgpu10.33 amdgpu10.34 amdgpu10.35 amdgpu10.36 amdgpu11 amdgpu11.00 amdgpu11.01 amdgpu11.02 \
    amdgpu11.03 amdgpu11.50 amdgpu11.51 amdgpu11.52 amdgpu11.53 amdgpu11.54 amdgpu11.7 amdgpu11.70 amdgpu11.71 \
    amdgpu11.72 amdgpu12 amdgpu12.00 amdgpu12.01 amdgpu12.5 amdgpu12.50 amdgpu12.51 amdgpu13 amdgpu13.10";
/// Versions that no GPU has, other spellings, and other architectures.
const OTHER_ARCHES: &str = "amdgpu9.99 amdgpu9. amdgpu9.0A amdgpu9.040 amdgpu09.42 amdgpu8.1 amdgpu13.1 amdgpu14 \
    amdgpu942 amdgpu9.4.2 amdgpu.9 amdgpux amdgpu_9 amdgpuv9.42 amdgcn9 amdgcn9.42 AMDGPU amdgp amd gpu9.42 r600 spirv64 \
    x86_64";
const VENDORS: &[&str] = &["amd", "amd", "amd", "amd", "", "unknown", "mesa", "apple", "pc", "none", "amdgpu9.42"];
const SYSTEMS: &[&str] =
    &["amdhsa", "amdhsa", "amdhsa", "amdhsa", "amdpal", "mesa3d", "", "unknown", "linux", "amdhsa1.0", "amdgpu9"];
const ENVIRONMENTS: &[&str] = &["", "", "", "", "unknown", "llvm", "gnu", "elf", "macho", "amdgpu9.0a", "gfx942"];
const PROCESSORS: &str = "gfx600 gfx701 gfx803 gfx810 gfx9-generic gfx900 gfx906 gfx908 gfx90a gfx90c gfx9-4-generic \
    gfx942 gfx950 gfx10-1-generic gfx1010 gfx10-3-generic gfx1030 gfx11-generic gfx1100 gfx1151 gfx12-generic gfx1200 \
    gfx1250 sm_70 amdgcnspirv";
/// Processors that LLVM 22 writes without their names. Requests for them find entries without a target ID here, which
/// is a separate difference.
const OTHER_PROCESSORS: &str = "gfx1154 gfx12-5-generic gfx13-generic gfx1310 fiji gfx9999";
const FEATURES: &[&str] = &["", "", "", ":xnack+", ":xnack-", ":sramecc+", ":sramecc+:xnack-", ":sramecc-:xnack+"];
const KINDS: &[&str] = &["hip", "hip", "hip", "hipv4", "openmp"];
/// Few enough that every request can be tried on every entry, with each rule of families.
const NEAR_ARCHES: &[&str] = &[
    "amdgcn",
    "amdgpu",
    "amdgpu9",
    "amdgpu9.06",
    "amdgpu9.0a",
    "amdgpu9.4",
    "amdgpu9.5",
    "amdgpu9.42",
    "amdgpu9.50",
    "amdgpu10",
    "amdgpu10.10",
    "amdgpu10.3",
    "amdgpu9.99",
    "r600",
];

fn words(table: &'static str) -> Vec<&'static str> {
    table.split_whitespace().collect()
}

fn arch(random: &mut Random) -> &'static str {
    let table = if random.below(6) == 0 { OTHER_ARCHES } else { ARCHES };
    let words = words(table);
    words[random.below(words.len())]
}

fn target_id(random: &mut Random) -> String {
    match random.below(4) {
        0 => String::new(),
        1 => (*random.pick(&words(PROCESSORS))).to_owned(),
        // Processors that have both features, and are often asked for with them.
        _ => format!("{}{}", random.pick(&["gfx90a", "gfx942", "gfx906"]), random.pick(FEATURES)),
    }
}

/// A triple with four fields, the target ID and no kind.
fn name(random: &mut Random) -> String {
    let mut fields = [arch(random), *random.pick(VENDORS), *random.pick(SYSTEMS), *random.pick(ENVIRONMENTS)];
    if random.below(12) == 0 {
        random.shuffle(&mut fields);
    }
    let target_id = match random.below(8) {
        0 => (*random.pick(&words(OTHER_PROCESSORS))).to_owned(),
        _ => target_id(random),
    };
    if target_id.is_empty() && random.below(2) == 0 { fields.join("-") } else { fields.join("-") + "-" + &target_id }
}

/// An ID as LLVM writes it.
fn written(random: &mut Random) -> String {
    let vendor = *random.pick(&["amd", "amd", "amd", "amd", "unknown"]);
    let system = *random.pick(&["amdhsa-", "amdhsa-", "amdhsa-", "amdhsa-", "amdpal-unknown", "mesa3d-llvm"]);
    format!("{}-{}-{vendor}-{system}-{}", random.pick(KINDS), arch(random), target_id(random))
}

/// An ID as a user may type it.
fn typed(random: &mut Random) -> String {
    match random.below(4) {
        0 => {
            let system: &&str = random.pick(&["-amdhsa-llvm-", "-amdhsa-unknown-", "-amdhsa1.0--"]);
            written(random).replace("-amdhsa--", system)
        }
        _ => written(random),
    }
}

fn with_openmp(random: &mut Random) -> &'static [&'static str] {
    if random.below(3) == 0 { &["-hip-openmp-compatible"] } else { &[] }
}

/// Returns cases of one request for one entry: every pair of architectures, kinds and kinds of target IDs.
fn pairs() -> Vec<Case> {
    let mut random = Random::new(61);
    let mut pairs: Vec<(String, String)> = Vec::new();
    for (own, wanted) in NEAR_ARCHES.iter().flat_map(|own| NEAR_ARCHES.iter().map(move |wanted| (own, wanted))) {
        for target_id in ["gfx942", "", "gfx906:xnack+"] {
            let id = |arch: &str| format!("hip-{arch}-amd-amdhsa--{target_id}");
            pairs.push((id(own), id(wanted)));
        }
        let mut id = |arch: &str| {
            let features = *random.pick(FEATURES);
            format!("{}-{arch}-amd-amdhsa--gfx90a{features}", random.pick(KINDS))
        };
        pairs.extend((0..6).map(|_| (id(own), id(wanted))));
    }
    let known = words(ARCHES);
    for _ in 0..1500 {
        let (own, wanted) = (*random.pick(&known), *random.pick(&known));
        pairs.push((format!("hip-{own}-amd-amdhsa--gfx90a"), format!("hip-{wanted}-amd-amdhsa--gfx90a")));
    }
    pairs.extend((0..1500).map(|_| (written(&mut random), typed(&mut random))));
    let case = |(entry, request): (String, String)| {
        let held = bundle("bc", &[("host-x86_64-unknown-linux-gnu-", b"host"), (&entry, b"code")]);
        unbundle("bc", &[&request], with_openmp(&mut random)).file("in", held)
    };
    pairs.into_iter().map(case).collect()
}

/// Archives of bundles with one entry each, and requests for all of them: each entry is compared with each request.
fn archives() -> Vec<Case> {
    let mut random = Random::new(67);
    let mut cases = Vec::new();
    for _ in 0..160 {
        let mut entries: Vec<String> = (0..40).map(|_| written(&mut random)).collect();
        entries.extend(NEAR_ARCHES.iter().map(|arch| format!("openmp-{arch}-amd-amdhsa--gfx90a:xnack+")));
        let mut requests: Vec<String> = (0..9).map(|_| typed(&mut random)).collect();
        let near = *random.pick(NEAR_ARCHES);
        requests.push(format!("openmp-{near}-amd-amdhsa--gfx90a:xnack+"));
        requests.push(format!("hip-{near}-amd-amdhsa--gfx90a:sramecc+:xnack+"));
        requests.sort_unstable();
        requests.dedup();
        let bundle_of = |(index, entry): (usize, &String)| {
            (format!("m{index}.o"), binary(&[(entry, format!("{index}: {entry}").as_bytes())], 1))
        };
        let members: Vec<(String, Vec<u8>)> = entries.iter().enumerate().map(bundle_of).collect();
        let members: Vec<(&str, &[u8])> =
            members.iter().map(|(name, content)| (name.as_str(), content.as_slice())).collect();
        let archive: Arc<[u8]> = archive(&members).into();
        let requests: Vec<&str> = requests.iter().map(String::as_str).collect();
        for rest in [&["-allow-missing-bundles"][..], &["-allow-missing-bundles", "-hip-openmp-compatible"]] {
            cases.push(unbundle("a", &requests, rest).file("in", Arc::clone(&archive)));
        }
        cases.push(unbundle("a", &requests[..1], &["-check-input-archive"]).file("in", archive));
    }
    cases
}

/// Bundles with several entries, listed and searched for one.
fn listings() -> Vec<Case> {
    let mut random = Random::new(71);
    let mut cases = Vec::new();
    for index in 0..300 {
        let mut entries: Vec<String> = (0..1 + random.below(8)).map(|_| written(&mut random)).collect();
        entries.sort_unstable();
        entries.dedup();
        random.shuffle(&mut entries);
        let file_type = *random.pick(&["bc", "o", "ll", "s"]);
        let contents: Vec<(&str, &[u8])> = entries.iter().map(|entry| (entry.as_str(), &b"code"[..])).collect();
        let held: Arc<[u8]> = bundle(file_type, &contents).into();
        cases.push(Case::new(&["-list", "-input=in"]).arg(format!("-type={file_type}")).file("in", Arc::clone(&held)));
        let missing: &[&str] = if index % 2 == 0 { &["-allow-missing-bundles"] } else { &[] };
        cases.push(unbundle(file_type, &[&typed(&mut random)], missing).file("in", held));
    }
    cases
}

pub fn compare(report: &mut Report, tools: &Tools) {
    let mut random = Random::new(59);
    let names = (0..4000).map(|_| name(&mut random)).collect();
    names::compare_bundled(report, tools, names);
    report.compare_all(tools, pairs());
    report.compare_all(tools, archives());
    report.compare_all(tools, listings());
}

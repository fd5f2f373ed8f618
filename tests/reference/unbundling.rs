//! Unbundling: the entry that serves each request, and the outputs if entries are missing.

use std::sync::Arc;

use super::formats::{binary, bundle, text};
use super::harness::{Case, Random};
use super::types::TARGETS;

fn contents(targets: &[&str]) -> Vec<Vec<u8>> {
    targets.iter().enumerate().map(|(index, target)| format!("{index}: {target}\n").into_bytes()).collect()
}

fn bundle_of(file_type: &str, targets: &[&str]) -> Arc<[u8]> {
    let contents = contents(targets);
    let entries: Vec<(&str, &[u8])> = targets.iter().copied().zip(contents.iter().map(Vec::as_slice)).collect();
    bundle(file_type, &entries).into()
}

/// Unbundles `requests`, each into a separate file.
pub fn unbundle(file_type: &str, requests: &[&str], rest: &[&str]) -> Case {
    let mut case = Case::new(&["-unbundle", "-input=in"]).arg(format!("-type={file_type}"));
    case.args.extend(requests.iter().map(|request| format!("-targets={request}")));
    case.args.extend((0..requests.len()).map(|index| format!("-output=o{index}")));
    case.args.extend(rest.iter().map(|&arg| arg.to_owned()));
    case
}

/// Subsets of the entries of a bundle, in any order, with and without missing ones.
pub fn requests() -> Vec<Case> {
    const ABSENT: &[&str] = &[
        "hip-amdgcn-amd-amdhsa--gfx1030",
        "hip-amdgcn-amd-amdhsa--gfx1100",
        "hipv4-amdgcn-amd-amdhsa--gfx803",
        "openmp-nvptx64-nvidia-cuda-unknown-sm_80",
        "host-aarch64-unknown-linux-gnu-",
        "openmp-x86_64-unknown-linux-gnu-",
    ];
    let mut random = Random::new(41);
    let mut cases = Vec::new();
    for index in 0..220 {
        let file_type = *random.pick(&["bc", "bc", "ll", "o", "s", "hipi", "gch"]);
        let mut targets = TARGETS.to_vec();
        random.shuffle(&mut targets);
        let held = &targets[..1 + random.below(TARGETS.len())];
        let mut wanted = held.to_vec();
        random.shuffle(&mut wanted);
        wanted.truncate(1 + random.below(wanted.len()));
        for _ in 0..random.below(3) {
            wanted.insert(random.below(wanted.len() + 1), *random.pick(ABSENT));
        }
        if random.below(6) == 0 {
            wanted.push(wanted[0]);
        }
        let old = |case: Case| if index % 3 == 0 { case.file("o0", *b"an older file") } else { case };
        let case = |rest: &[&str]| old(unbundle(file_type, &wanted, rest).file("in", bundle_of(file_type, held)));
        cases.push(case(&[]));
        cases.push(case(&["-allow-missing-bundles"]));
    }
    for (entry, request) in [
        ("sycl-spir64-unknown-unknown", "sycl-spir64-unknown-unknown"),
        ("sycl-spir64_gen-unknown-unknown", "sycl-spir64_gen"),
        ("sycl-amdgcn-amd-amdhsa-gfx90a", "sycl-amdgcn-amd-amdhsa--gfx90a"),
        ("sycl-spir64", "sycl-native_cpu"),
        ("sycl-spir64", "sycl-gen-unknown-unknown-unknown"),
        ("openmp-spir64", "openmp-spir64"),
    ] {
        for wanted in [vec![request], vec![TARGETS[0], request]] {
            let case = unbundle("bc", &wanted, &[]);
            cases.push(case.file("in", bundle_of("bc", &[TARGETS[0], entry])));
        }
    }
    cases
}

/// Kinds and features: every request against every entry.
pub fn compatibility() -> Vec<Case> {
    let mut ids = Vec::new();
    for kind in ["hip", "hipv4", "openmp"] {
        for id in
            ["gfx90a", "gfx90a:xnack+", "gfx90a:xnack-", "gfx90a:sramecc+:xnack-", "gfx90a:sramecc+", "gfx906", ""]
        {
            ids.push(format!("{kind}-amdgcn-amd-amdhsa--{id}"));
        }
    }
    ids.extend(["hip-amdgcn-amd-amdpal--gfx90a", "hip-amdgcn-unknown-amdhsa--gfx90a"].map(str::to_owned));
    ids.extend(["hip-amdgcn-amd-amdhsa-unknown-gfx90a", "openmp-nvptx64-nvidia-cuda--sm_70"].map(str::to_owned));
    let mut random = Random::new(43);
    let mut cases = Vec::new();
    for entry in &ids {
        for request in &ids {
            let near = entry.contains("gfx90a") && request.contains("gfx90a");
            if near || random.below(5) == 0 {
                let held = bundle_of("bc", &["host-x86_64-unknown-linux-gnu-", entry]);
                let rest: &[&str] = if random.below(2) == 0 { &["-hip-openmp-compatible"] } else { &[] };
                cases.push(unbundle("bc", &[request], rest).file("in", held));
            }
        }
    }
    for _ in 0..120 {
        let pick =
            |random: &mut Random| (0..1 + random.below(4)).map(|_| random.pick(&ids).as_str()).collect::<Vec<_>>();
        let (mut held, mut wanted) = (pick(&mut random), pick(&mut random));
        for ids in [&mut held, &mut wanted] {
            ids.sort_unstable();
            ids.dedup();
            random.shuffle(ids);
        }
        let rest: &[&str] = if random.below(2) == 0 { &["-hip-openmp-compatible"] } else { &[] };
        cases.push(unbundle("bc", &wanted, rest).file("in", bundle_of("bc", &held)));
    }
    cases
}

/// Files without a bundle or with a bundle of another type, and outputs that cannot be written.
pub fn places() -> Vec<Case> {
    let (host, gpu, other) = (TARGETS[0], TARGETS[1], TARGETS[2]);
    let mut cases = Vec::new();
    let inputs: Vec<Arc<[u8]>> = vec![
        Arc::from(*b""),
        Arc::from(*b"x"),
        Arc::from(*b"no bundle at all, but longer than the magic string of one\n"),
        Arc::from(vec![0_u8; 100]),
        Arc::from(*b"__CLANG_OFFLOAD_BUNDLE_"),
        bundle_of("bc", &[host, gpu]),
        bundle_of("ll", &[host, gpu]),
        bundle_of("s", &[host, gpu]),
        bundle_of("i", &[host, gpu]),
        binary(&[], 1).into(),
        Arc::from(*b"CCOB"),
        Arc::from(*b"CCOBx"),
    ];
    for file_type in ["bc", "ll", "s", "o", "x"] {
        for input in &inputs {
            for requests in [&[host, gpu][..], &[gpu, other], &[host]] {
                for rest in [&[][..], &["-allow-missing-bundles"]] {
                    cases.push(unbundle(file_type, requests, rest).file("in", Arc::clone(input)));
                }
            }
            cases.push(
                Case::new(&["-list", "-input=in"]).arg(format!("-type={file_type}")).file("in", Arc::clone(input)),
            );
        }
        cases.push(unbundle(file_type, &[host, gpu], &[]));
        cases.push(unbundle(file_type, &[host, gpu], &["-allow-missing-bundles"]));
        cases.push(unbundle(file_type, &[host, gpu], &[]).dir("in"));
        cases.push(Case::new(&["-list", "-input=in"]).arg(format!("-type={file_type}")));
        cases.push(Case::new(&["-list", "-input=in"]).arg(format!("-type={file_type}")).dir("in"));
    }
    for outputs in
        [["o0", "no/o1"], ["no/o0", "o1"], ["d", "o1"], ["o0", "d"], ["/dev/null", "/dev/null"], ["", "o1"], ["-", "-"]]
    {
        let targets = format!("-targets={host},{gpu}");
        let mut case = Case::new(&["-type=bc", "-unbundle", "-input=in", &targets]).dir("d");
        case.args.extend(outputs.map(|output| format!("-output={output}")));
        cases.push(case.file("in", bundle_of("bc", &[host, gpu])));
        let case = Case::new(&["-type=bc", &targets, "-input=in", "-input=in"]).dir("d").file("in", *b"x");
        cases.push(case.arg(format!("-output={}", outputs[0])));
    }
    cases
}

/// Compatible and conflicting targets in one bundle.
pub fn conflicts() -> Vec<Case> {
    let mut random = Random::new(47);
    let features = ["", ":xnack+", ":xnack-", ":sramecc+", ":sramecc+:xnack+", ":xnack-:sramecc-", ":xnack", ":foo+"];
    let mut cases = Vec::new();
    for _ in 0..260 {
        let mut targets = Vec::new();
        for _ in 0..1 + random.below(3) {
            let kind = random.pick(&["hip", "hip", "hipv4", "openmp", "host"]);
            let triple = random.pick(&[
                "amdgcn-amd-amdhsa-",
                "amdgcn-amd-amdhsa-",
                "amdgcn-amd-amdhsa-unknown",
                "x86_64-pc-linux-gnu",
            ]);
            let processor = random.pick(&["gfx90a", "gfx90a", "gfx906", "gfx803", ""]);
            let features = if random.below(2) == 0 || processor.is_empty() { "" } else { random.pick(&features) };
            targets.push(format!("{kind}-{triple}-{processor}{features}"));
        }
        let mut case =
            Case::new(&["-type=bc", "-output=out"]).arg(format!("-targets={}", targets.join(","))).file("in", *b"x");
        case.args.extend(targets.iter().map(|_| "-input=in".to_owned()));
        cases.push(case);
        let names: Vec<&str> = targets.iter().map(String::as_str).collect();
        cases.push(unbundle("bc", &names, &[]).file("in", bundle_of("bc", &[TARGETS[0], TARGETS[1], TARGETS[2]])));
    }
    cases
}

/// Bundles that are truncated or have a wrong number, and some that are valid but unusual.
pub fn broken() -> Vec<Case> {
    let (host, gpu) = (TARGETS[0], TARGETS[1]);
    let whole = bundle_of("bc", &[host, gpu]);
    let mut random = Random::new(53);
    let mut files: Vec<(&str, Vec<u8>)> = Vec::new();
    for _ in 0..12 {
        files.push(("bc", whole[..random.below(whole.len())].to_vec()));
        let mut changed = whole.to_vec();
        changed[24 + random.below(100)] ^= 1 << random.below(8);
        files.push(("bc", changed));
    }
    let lines = text(";", &[(host, b"1\n"), (gpu, b"2\n")]);
    files.extend([10, 40, 70, 100, 150, 200].map(|len| ("ll", lines[..len.min(lines.len())].to_vec())));
    files.push(("ll", [b"before\n".as_slice(), &lines, b"behind\n"].concat()));
    files.push(("ll", [lines.as_slice(), &lines].concat()));
    files.push(("bc", [&whole[..], b"behind"].concat()));
    files.push(("bc", [&whole[..], &[0; 64]].concat()));
    files.push(("bc", [b"x", &whole[..]].concat()));
    files.push(("bc", binary(&[("nonsense", b"1"), (host, b"2"), (gpu, b"3")], 1)));
    files.push(("bc", binary(&[("", b"1"), (host, b"2"), (gpu, b"3")], 1)));
    files.push(("bc", binary(&[("host-x86_64-unknown-linux", b"2"), ("hip-amdgcn-amd-amdhsa-gfx906", b"3")], 1)));
    files.push(("bc", binary(&[("host-x86_64-unknown-linux--", b"2"), ("hip-amdgcn-amd-amdhsa--gfx906", b"3")], 1)));
    files.push(("bc", binary(&[(host, b"2"), ("hipv4-amdgcn-amd-amdhsa--gfx906", b"3"), (gpu, b"4")], 4096)));
    files.push(("bc", binary(&[(host, b"2"), (gpu, b"3"), (gpu, b"4")], 1)));
    let mut cases = Vec::new();
    for (file_type, data) in files {
        let data: Arc<[u8]> = data.into();
        cases.push(Case::new(&["-list", "-input=in"]).arg(format!("-type={file_type}")).file("in", Arc::clone(&data)));
        cases.push(unbundle(file_type, &[host, gpu], &[]).file("in", Arc::clone(&data)));
        cases.push(unbundle(file_type, &[gpu], &["-allow-missing-bundles"]).file("in", data));
    }
    cases
}

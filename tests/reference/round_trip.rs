//! Round trips: an entry that a tool bundled under a name is unbundled by our tool under that name, under the listed
//! name, and under any name with the same written form. Each output has a distinct content.

use offload_bundle::id::EntryId;

use super::harness::{Case, Outcome, Random, Report, Tools, run};
use super::rules::spelled_out;
use super::view::ids;

const ARCHES: &[&str] = &[
    "x86_64",
    "amd64",
    "i386",
    "i686",
    "aarch64",
    "arm64",
    "arm64e",
    "arm",
    "armv7",
    "thumbv7",
    "thumbv7em",
    "ppc64le",
    "powerpc64le",
    "riscv64",
    "amdgcn",
    "nvptx64",
    "spirv64",
    "mips",
    "mipsn32",
    "wasm32",
    "s390x",
];
const VENDORS: &[&str] = &["unknown", "pc", "w64", "apple", "amd", "nvidia", "ibm", "suse", "none", "mesa", "xx", ""];
const SYSTEMS: &[&str] = &[
    "linux",
    "linux5",
    "windows",
    "win32",
    "mingw32",
    "cygwin",
    "amdhsa",
    "amdpal",
    "cuda",
    "cuda12",
    "macosx13",
    "macosx14",
    "darwin20",
    "ios",
    "freebsd14.0",
    "none",
    "uefi",
    "",
];
const ENVIRONMENTS: &[&str] = &[
    "gnu",
    "musl",
    "msvc",
    "msvc19.11",
    "gnueabi",
    "gnueabihf",
    "eabi",
    "android21",
    "android30",
    "macho",
    "elf",
    "coff",
    "gnux32",
    "cygnus",
    "simulator",
    "unknown",
    "",
];
const REAL: &[&str] = &[
    "x86_64-unknown-linux-gnu",
    "x86_64-pc-linux-gnu",
    "x86_64-linux-gnu",
    "x86_64-linux",
    "x86_64-pc-windows-msvc",
    "x86_64-pc-windows-",
    "x86_64-pc-cygwin-",
    "x86_64-w64-mingw32",
    "x86_64-freebsd14.0--",
    "i386-pc-linux-gnu",
    "i686-pc-linux-gnu",
    "aarch64-linux-android21-",
    "arm-none-eabi-",
    "arm-suse-linux-gnueabi",
    "riscv64-linux-gnu",
    "thumbv7em-none-eabihf",
    "thumbv7-amdhsa-amd-macho",
    "amdgcn-amd-amdhsa-",
    "amdgcn-amdhsa--gfx906",
    "amdgcn-amd-amdhsa--gfx90a:xnack+",
    "amdgcn-amd-amdhsa-gfx90a:xnack-",
    "amdgcn-amd-amdhsa--gfx1300",
    "nvptx64-nvidia-cuda--sm_70",
    "powerpc64le-linux",
    "powerpc64le-ibm-linux-gnu",
];

/// A triple, often with a suffix.
fn name(random: &mut Random) -> String {
    let mut fields =
        vec![*random.pick(ARCHES), *random.pick(VENDORS), *random.pick(SYSTEMS), *random.pick(ENVIRONMENTS)];
    match random.below(8) {
        0 | 1 => return (*random.pick(REAL)).to_owned(),
        2 | 3 => {}
        4 => random.shuffle(&mut fields),
        5 => random.shuffle(&mut fields[1..]),
        _ => {
            let words = [ARCHES, VENDORS, SYSTEMS, ENVIRONMENTS].concat();
            fields.extend([*random.pick(&words), *random.pick(&words)]);
            random.shuffle(&mut fields[1..]);
            fields.truncate(1 + random.below(6));
        }
    }
    fields.join("-") + random.pick::<&str>(&["", "", "-", "--"])
}

/// The names of one bundle, including the host's.
fn names(random: &mut Random) -> Vec<String> {
    let mut names = vec![format!("host-{}", name(random))];
    for _ in 0..1 + random.below(4) {
        names.push(format!("{}-{}", random.pick(&["openmp", "openmp", "hip", "hipv4"]), name(random)));
    }
    random.shuffle(&mut names);
    names
}

fn content(names: &[String], name: &String) -> Vec<u8> {
    let index = names.iter().position(|other| other == name).unwrap();
    format!("{index}: {name}").into_bytes()
}

fn bundling(names: &[String]) -> Case {
    let args = ["-type=bc".to_owned(), "-output=in".to_owned(), format!("-targets={}", names.join(","))];
    let inputs = (0..names.len()).map(|index| format!("-input=i{index}"));
    let case = Case::new(&args.into_iter().chain(inputs).collect::<Vec<_>>());
    names.iter().enumerate().fold(case, |case, (index, name)| case.file(format!("i{index}"), content(names, name)))
}

/// Unbundles with our tool and checks the contents.
fn check(report: &mut Report, tools: &Tools, what: &str, bundle: &[u8], wanted: &[(String, Vec<u8>)]) {
    let requests: Vec<&str> = wanted.iter().map(|(request, _)| request.as_str()).collect();
    let args = ["-type=bc".to_owned(), "-unbundle".to_owned(), "-input=in".to_owned()];
    let targets = [format!("-targets={}", requests.join(","))];
    let outputs = (0..wanted.len()).map(|index| format!("-output=o{index}"));
    let case = Case::new(&args.into_iter().chain(targets).chain(outputs).collect::<Vec<_>>()).file("in", bundle);
    let Outcome { status, stderr, files, .. } = run(&tools.ours, &case);
    let gets = |(index, (_, content)): (usize, &(String, Vec<u8>))| files.get(&format!("o{index}")) == Some(content);
    report.check(status == 0 && wanted.iter().enumerate().all(gets), || {
        format!("{what}: {requests:?} of {:?}\n  status {status} {}", ids(bundle), String::from_utf8_lossy(&stderr))
    });
}

pub fn compare(report: &mut Report, tools: &Tools) {
    let mut random = Random::new(61);
    let bundles = (0..500).map(|seed| (names(&mut random), Random::new(seed))).collect();
    report.each(bundles, |report, (names, mut random)| {
        let case = bundling(&names);
        let ours = run(&tools.ours, &case);
        if let Some(bundle) = ours.files.get("in") {
            check_names(report, tools, &mut random, "ours", bundle, &names);
        }
        let theirs = run(&tools.theirs, &case);
        let Some(bundle) = theirs.files.get("in").filter(|bundle| Some(*bundle) != ours.files.get("in")) else {
            return;
        };
        let held = ids(bundle);
        // LLVM 22 writes a GPU in the place of the environment as an environment, and writes several entries with one
        // name.
        let distinct = held.iter().enumerate().all(|(index, id)| !held[..index].contains(id));
        if distinct && ours.status == 0 && !names.iter().any(|name| spelled_out(name).is_some()) {
            check_names(report, tools, &mut random, "LLVM's", bundle, &names);
        }
    });
}

fn check_names(report: &mut Report, tools: &Tools, random: &mut Random, whose: &str, bundle: &[u8], names: &[String]) {
    let mut typed: Vec<(String, Vec<u8>)> = names.iter().map(|name| (name.clone(), content(names, name))).collect();
    let listed: Vec<_> = ids(bundle).into_iter().zip(&typed).map(|(id, (_, content))| (id, content.clone())).collect();
    check(report, tools, &format!("{whose}, as listed"), bundle, &listed);
    let written = |name: &String| EntryId::parse(name).map_or_else(|_| name.clone(), |id| id.to_string());
    let alike: Vec<_> = typed.iter().map(|(name, content)| (written(name), content.clone())).collect();
    check(report, tools, &format!("{whose}, as written"), bundle, &alike);
    random.shuffle(&mut typed);
    check(report, tools, &format!("{whose}, as typed"), bundle, &typed);
    check(report, tools, &format!("{whose}, one of them"), bundle, &typed[..1]);
}

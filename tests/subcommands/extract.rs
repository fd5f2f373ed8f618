//! Tests of `extract`: the extracted code objects, their file names, and that no file is written unless all are complete.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;

use sha2::Digest as _;

use super::inspect::bundle;
use super::*;
use crate::lists::share_of;
use crate::machine::{loud, memory_directory, skipped};
use crate::properties::make::{DEFLATED, Elf, STORED, Section, Zipped, archive, thin_archive, zip};
use crate::reference::formats;
use crate::reference::harness::Random;
use crate::reference::offload::{self, Image};

/// The contents of the written files by name, without the inputs.
fn written(outcome: &Outcome, inputs: &[&str]) -> BTreeMap<String, Vec<u8>> {
    let is_input = |name: &str| inputs.contains(&name);
    outcome.files.iter().filter(|(name, _)| !is_input(name)).map(|(name, data)| (name.clone(), data.clone())).collect()
}

fn lines(outcome: &Outcome) -> Vec<String> {
    String::from_utf8(outcome.stdout.clone()).unwrap().lines().map(str::to_owned).collect()
}

/// Extracts from one file, and checks that a dry run reports the same names. Returns the written files.
fn extract(args: &[&str], data: &[u8]) -> BTreeMap<String, Vec<u8>> {
    let args = if args.contains(&"-o") { args.to_vec() } else { [args, &["-o", "."]].concat() };
    let outcome = tool(&[&["extract", "in"], &args[..]].concat(), &[("in", data)]);
    assert_eq!((outcome.status, outcome.stderr_text().as_str()), (0, ""), "{args:?}");
    let mut names = lines(&outcome);
    let dry = tool(&[&["extract", "in", "--dry-run"], &args[..]].concat(), &[("in", data)]);
    assert_eq!((dry.status, lines(&dry)), (0, names.clone()), "{args:?}");
    assert_eq!(written(&dry, &["in"]).len(), 0);
    let written: BTreeMap<String, Vec<u8>> = written(&outcome, &["in"]);
    names.iter_mut().for_each(|name| *name = name.trim_start_matches("./").to_owned());
    names.sort();
    assert_eq!(names, written.keys().cloned().collect::<Vec<_>>(), "{args:?}");
    written
}

/// A bundle with many targets. The content of each code object is its ID.
fn zoo() -> Vec<u8> {
    let ids = [
        HOST,
        "hipv4-amdgcn-amd-amdhsa--gfx906",
        "hipv4-amdgcn-amd-amdhsa--gfx90a:xnack+",
        "hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-",
        "hip-amdgcn-amd-amdhsa--gfx90a",
        "hipv4-amdgcn-amd-amdhsa--gfx1100",
        "hipv4-amdgcn-amd-amdhsa--gfx1101",
        "openmp-amdgcn-amd-amdhsa--gfx906",
        "openmp-nvptx64-nvidia-cuda--sm_70",
        "no entry ID",
        "musa-mtgpu-mt-musa--mp_31",
    ];
    let entries: Vec<(&str, &[u8])> = ids.iter().map(|id| (*id, id.as_bytes())).collect();
    formats::binary(&entries, 8)
}

#[test]
fn patterns_take_what_they_say() {
    let zoo = zoo();
    let xnack = ["hipv4-amdgcn-amd-amdhsa--gfx90a:xnack+", "hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-"];
    let any = "hip-amdgcn-amd-amdhsa--gfx90a";
    let (gfx906, openmp) = ("hipv4-amdgcn-amd-amdhsa--gfx906", "openmp-amdgcn-amd-amdhsa--gfx906");
    let (gfx1100, gfx1101) = ("hipv4-amdgcn-amd-amdhsa--gfx1100", "hipv4-amdgcn-amd-amdhsa--gfx1101");
    let (sm_70, mp_31) = ("openmp-nvptx64-nvidia-cuda--sm_70", "musa-mtgpu-mt-musa--mp_31");
    let cases: &[(&[&str], &[&str])] = &[
        (&["--target=gfx906"], &[gfx906, openmp]),
        (&["-t", "gfx906", "-k", "hip"], &[gfx906]),
        (&["-t", "gfx906", "-k", "openmp"], &[openmp]),
        (&["--target=gfx90a"], &[xnack[0], xnack[1], any]),
        (&["--target=gfx90a:xnack+"], &[xnack[0], any]),
        (&["--target=gfx90a:sramecc+:xnack-"], &[xnack[1], any]),
        (&["--exact", "--target=gfx90a"], &[any]),
        (&["--exact", "--target=gfx90a:xnack+"], &[xnack[0]]),
        (&["--target=hipv4-amdgcn-amd-amdhsa--gfx90a:xnack+"], &[xnack[0], any]),
        (&["--target=hip-amdgcn-amd-amdhsa--gfx90a:xnack+", "--exact"], &[]),
        (&["--target=hipv4-amdgcn-amd-amdhsa--gfx90a:xnack+", "--exact"], &[xnack[0]]),
        (&["--target=hip-amdgcn-amd-amdhsa-gfx906"], &[gfx906]),
        (&["--target=hip-amdgcn-amd-amdhsa--gfx90a"], &[xnack[0], xnack[1], any]),
        (&["--target=gfx11*"], &[gfx1100, gfx1101]),
        (&["--target=gfx110?", "--target=sm_70"], &[gfx1100, gfx1101, sm_70]),
        (&["--target=gfx110[02-9]"], &[gfx1100]),
        (&["--target=*gfx90*"], &[gfx906, xnack[0], xnack[1], any, openmp]),
        (&["--target=openmp-*"], &[openmp, sm_70]),
        (&["--target=no*"], &["no entry ID"]),
        (&["--target=no entry ID", "--exact"], &["no entry ID"]),
        (&["--target=host-*"], &[HOST]),
        (&["--kind=host"], &[HOST]),
        (&["--kind=openmp"], &[openmp, sm_70]),
        (&["--kind=hipv4"], &[gfx906, xnack[0], xnack[1], any, gfx1100, gfx1101]),
        (&["--target=gfx1101", "--target=gfx1100", "--target=gfx1100"], &[gfx1100, gfx1101]),
        (&[], &[gfx906, xnack[0], xnack[1], any, gfx1100, gfx1101, openmp, sm_70, "no entry ID", mp_31]),
        (&["--target=mp_31"], &[mp_31]),
        (&["--target=mp_31", "--exact"], &[mp_31]),
        (&["--target=mp_*"], &[mp_31]),
        (&["--target=mp_3"], &[]),
        (&["--target=mp_31", "--kind=hip"], &[]),
        (&["--target=gfx942"], &[]),
        (&["--target=gfx9"], &[]),
        (&["--kind=sycl"], &[]),
        (&["--target=sm_70", "--kind=hip"], &[]),
    ];
    for (args, ids) in cases {
        for data in
            [zoo.clone(), formats::compressed(3, 1, &zoo), Elf::LIBRARY.write(&[Section::new(".hip_fatbin", &zoo)])]
        {
            if ids.is_empty() {
                let outcome = tool(&[&["extract", "in", "-o", "out"], *args].concat(), &[("in", &data)]);
                assert_eq!((outcome.status, outcome.files.len()), (1, 1), "{args:?}");
                assert!(outcome.stderr_text().contains("no code object matches"), "{}", outcome.stderr_text());
                continue;
            }
            let mut found: Vec<String> =
                extract(args, &data).into_values().map(|content| String::from_utf8(content).unwrap()).collect();
            found.sort();
            let mut ids: Vec<&str> = ids.to_vec();
            ids.sort_unstable();
            assert_eq!(found, ids, "{args:?}");
        }
    }
    loud(&format!("extract: {} patterns on 3 forms", cases.len()));
}

/// Entry IDs as DPC++ writes them.
fn sycl_ids() -> Vec<String> {
    let arches = "spir64 spir64_gen spir64_x86_64 spir64_fpga spir64_fpga_image spir spir_gen spirv64 native_cpu";
    let tails = ["", "-unknown-unknown", "-unknown-unknown-sycldevice", "-intel-unknown", "-unknown-linux-gnu"];
    let mut ids: Vec<String> = [HOST, GFX906, GFX90A].map(str::to_owned).to_vec();
    ids.extend(arches.split(' ').flat_map(|arch| tails.map(|tail| format!("sycl-{arch}{tail}"))));
    ids.extend(["sycl-nvptx64-nvidia-cuda", "sycl-amdgcn-amd-amdhsa"].map(str::to_owned));
    ids.extend(["sm_50", "sm_90a"].map(|gpu| format!("sycl-nvptx64-nvidia-cuda-{gpu}")));
    ids.extend(["gfx90a", "gfx90a:xnack+", "gfx1030"].map(|gpu| format!("sycl-amdgcn-amd-amdhsa-{gpu}")));
    ids.extend(["-sm_70", "-gfx906"].map(|gpu| format!("sycl-nvptx64-nvidia-cuda-{gpu}")));
    ids
}

#[test]
fn printed_sycl_ids_can_be_requested() {
    let ids = sycl_ids();
    let entries: Vec<(&str, &[u8])> = ids.iter().map(|id| (id.as_str(), id.as_bytes())).collect();
    let sections: Vec<String> = ids.iter().map(|id| format!("__CLANG_OFFLOAD_BUNDLE__{id}")).collect();
    let sections: Vec<Section<'_>> =
        sections.iter().zip(&ids).map(|(name, id)| Section::new(name, id.as_bytes()).aligned(1)).collect();
    let binary = formats::binary(&entries, 1);
    let sycl: Vec<&str> = ids.iter().map(String::as_str).filter(|id| id.starts_with("sycl-")).collect();
    for (kind, data) in
        [("bc", binary.clone()), ("o", Elf::OBJECT.write(&sections)), ("bc", formats::compressed(3, 1, &binary))]
    {
        let outcome = tool(&["-list", &format!("-type={kind}"), "-input=in"], &[("in", &data)]);
        assert_eq!(lines(&outcome), ids, "-type={kind}");
        let found = |args: &[&str]| extract(args, &data).into_values().map(|id| String::from_utf8(id).unwrap());
        assert_eq!(found(&["--kind=sycl"]).collect::<HashSet<_>>(), sycl.iter().map(|id| (*id).to_owned()).collect());
        for id in share_of(kind, sycl.clone(), sycl.len() / 4) {
            assert_eq!(found(&["--exact", "--target", id]).collect::<Vec<_>>(), [id]);
        }
        for (pattern, count) in
            [("sycl-spir64_gen*", 5), ("sycl-*", sycl.len()), ("sycl-native_cpu", 3), ("sycl-spir64_fpga", 3)]
        {
            assert_eq!(found(&["--target", pattern]).count(), count, "{pattern}");
        }
        let document = json_of(&tool(&["inspect", "--json", "in"], &[("in", &data)]));
        let objects = document["files"][0]["code_objects"].as_array().unwrap();
        assert_eq!(objects.len(), ids.len());
        for (object, id) in objects.iter().zip(&ids) {
            let (kind, rest) = id.split_once('-').unwrap();
            let triple = object["triple"].as_str().unwrap();
            assert!(object["entry_id"] == **id && object["kind"] == kind && rest.starts_with(triple), "{object}");
            let target_id = rest[triple.len()..].trim_matches('-');
            assert_eq!(object["target_id"].as_str().unwrap_or_default(), target_id, "{id}");
        }
        let outcome = tool(&["verify", "in"], &[("in", &data)]);
        assert!(!String::from_utf8_lossy(&outcome.stdout).contains("not a valid bundle entry ID"));
    }
}

/// IDs of OpenMP that DPC++ writes.
fn other_ids_of_dpcpp() -> Vec<String> {
    let tails = ["", "-unknown-unknown", "-unknown-unknown--pvc"];
    let arches = ["openmp-spir64_gen", "openmp-spir64_x86_64"];
    let ids = arches.iter().flat_map(|arch| tails.map(|tail| format!("{arch}{tail}")));
    ids.chain(["openmp-spir64", "openmp-spir", "openmp-spir64-unknown-unknown-"].map(str::to_owned)).collect()
}

#[test]
fn printed_ids_of_dpcpp_can_be_requested() {
    let ids = other_ids_of_dpcpp();
    let entries: Vec<(&str, &[u8])> = ids.iter().map(|id| (id.as_str(), id.as_bytes())).collect();
    let data = formats::binary(&entries, 1);
    let found = |args: &[&str]| extract(args, &data).into_values().map(|id| String::from_utf8(id).unwrap());
    for id in &ids {
        assert_eq!(found(&["--exact", "--target", id]).collect::<Vec<_>>(), [id.as_str()]);
        assert!(found(&["--target", &format!("{id}*")]).any(|found| found == *id), "{id}");
    }
    assert_eq!(found(&["--kind", "openmp"]).count(), ids.len());
    let document = json_of(&tool(&["inspect", "--json", "in"], &[("in", &data)]));
    for (object, id) in document["files"][0]["code_objects"].as_array().unwrap().iter().zip(&ids) {
        let (kind, rest) = id.split_once('-').unwrap();
        assert!(object["kind"] == kind && rest.starts_with(object["triple"].as_str().unwrap()), "{object}");
        assert_eq!(object["target_id"].as_str(), rest.ends_with("pvc").then_some("pvc"), "{id}");
    }
    let verified = tool(&["verify", "in"], &[("in", &data)]);
    assert!(!String::from_utf8_lossy(&verified.stdout).contains("not a valid bundle entry ID"));
}

#[test]
fn pairs_of_ids_keep_the_property_of_ids() {
    let ids = [sycl_ids(), other_ids_of_dpcpp()].concat();
    for (first, second) in ids.iter().flat_map(|first| ids.iter().map(move |second| (first, second))) {
        crate::properties::ids(format!("{first}\n{second}").as_bytes());
    }
    let mut random = Random::new(61);
    let words: Vec<&str> = ids.iter().flat_map(|id| id.split('-')).collect();
    for _ in 0..3000 {
        let mut id = || {
            let rest: Vec<&str> = (0..1 + random.below(5)).map(|_| *random.pick(&words)).collect();
            format!("sycl-{}", rest.join("-"))
        };
        crate::properties::ids(format!("{}\n{}", id(), id()).as_bytes());
    }
}

#[test]
fn without_a_match_the_error_lists_what_is_there() {
    let zoo = zoo();
    let outcome = tool(&["extract", "in", "-o", "out", "-t", "gfx942", "-t", "gfx12*"], &[("in", &zoo)]);
    let said = outcome.stderr_text();
    assert!(said.contains("error: no code object matches 'gfx942' or 'gfx12*' in 'in'; it has: gfx906, "), "{said}");
    assert!(!said.contains("host") && said.contains("no entry ID"), "{said}");
    let ids: Vec<String> = (0..500).map(|number| format!("hip-amdgcn-amd-amdhsa--gfx{number}")).collect();
    let entries: Vec<(&str, &[u8])> = ids.iter().map(|id| (id.as_str(), &b""[..])).collect();
    let outcome = tool(&["extract", "in", "-t", "x"], &[("in", &formats::binary(&entries, 1))]);
    assert!(outcome.stderr_text().contains(", and 480 more"), "{}", outcome.stderr_text());
    let outcome = tool(&["extract", "in"], &[("in", b"text")]);
    assert!(outcome.stderr_text().contains("no code object matches in 'in'; it has none"), "{}", outcome.stderr_text());
}

#[test]
fn extract_fails_if_a_target_or_kind_matches_nothing() {
    let zoo = zoo();
    // Where kinds are named, whole IDs are listed.
    let there = |args: &[&str]| match args.contains(&"-k") {
        true => " in 'in'; it has: host-x86_64-unknown-linux-gnu-, hipv4-amdgcn-amd-amdhsa--gfx906, ",
        false => " in 'in'; it has: gfx906, ",
    };
    let cases: [(&[&str], &str); 8] = [
        (&["-t", "gfx90a", "-t", "gfx1103"], "'gfx1103'"),
        (&["-t", "gfx942,gfx90a,gfx12*"], "'gfx942' or 'gfx12*'"),
        (&["-t", "gfx90a", "-t", "gfx90a:xnack+", "-t", "gfx90a:sramecc+", "--exact"], "'gfx90a:sramecc+'"),
        (&["-k", "hip,sycl"], "the kind 'sycl'"),
        (&["-k", "hip", "-k", "cuda", "-k", "sycl"], "the kind 'cuda' or the kind 'sycl'"),
        // Each pattern matches something, but not in combination with the others.
        (&["-t", "gfx1100,gfx906", "-k", "openmp"], "'gfx1100'"),
        (&["-t", "gfx1100", "-k", "hip,openmp"], "the kind 'openmp'"),
        (&["-t", "gfx1100,gfx942", "-k", "hip,openmp"], "'gfx942' or the kind 'openmp'"),
    ];
    for (args, unmatched) in cases {
        for dry in [&["-n"][..], &[]] {
            let outcome = tool(&[&["extract", "in", "-o", "out"], args, dry].concat(), &[("in", &zoo)]);
            let said = outcome.stderr_text();
            assert_eq!((outcome.status, outcome.stdout.as_slice(), outcome.files.len()), (1, &b""[..], 1), "{args:?}");
            let says = format!("error: no code object matches {unmatched}{}", there(args));
            assert!(said.contains(&says), "{args:?}: {said}");
        }
    }
    // A target may be in only one of the files.
    let other = formats::binary(&[("hipv4-amdgcn-amd-amdhsa--gfx942", b"942")], 8);
    let outcome = tool(&["extract", "in", "other", "-t", "gfx942,gfx906", "-n"], &[("in", &zoo), ("other", &other)]);
    assert_eq!((outcome.status, lines(&outcome).len()), (0, 3), "{}", outcome.stderr_text());
    let small = tool(&["recompress", "in", "-o", "out", "--keep=gfx906,gfx90a", "--none"], &[("in", &zoo)]);
    assert_eq!(small.status, 0, "{}", small.stderr_text());
    let kept = extract(&[], &small.files["out"]);
    assert_eq!(kept.len(), 5, "{:?}", kept.keys());
    let small = tool(&["recompress", "in", "-o", "out", "--drop=gfx906,gfx90a", "--none"], &[("in", &zoo)]);
    assert_eq!(extract(&[], &small.files["out"]).len(), 5);
    let small = tool(&["recompress", "in", "-o", "out", "--keep=gfx906,gfx942"], &[("in", &zoo)]);
    assert_eq!((small.status, small.files.len()), (1, 1));
    let says = format!("no code object matches 'gfx942'{}", there(&[]));
    assert!(small.stderr_text().contains(&says), "{}", small.stderr_text());
}

#[test]
fn patterns_that_are_none_say_why() {
    for (pattern, why) in [
        ("", "a name is missing"),
        ("gfx906,", "a name is missing"),
        ("gfx[", "range"),
        ("gfx90a:xnack", "no sign"),
        (":xnack+", "no processor"),
    ] {
        for args in [
            ["extract", "in", "--target", pattern].to_vec(),
            ["recompress", "in", "-o", "out", "--keep", pattern].to_vec(),
        ] {
            let outcome = tool(&args, &[("in", &bundle())]);
            let said = outcome.stderr_text();
            assert_eq!((outcome.status, outcome.files.len()), (2, 1), "{args:?}");
            let option = args[args.len() - 2];
            let part = pattern.trim_start_matches("gfx906,");
            assert!(said.contains(&format!("invalid value '{part}' for '{option} <PATTERN>': ")), "{said}");
            assert!(said.contains(why), "{said}");
        }
    }
}

#[test]
fn names_are_stable_and_tell_what_is_in_the_file() {
    let elf = Elf::amdgpu(0x3f).write(&[]);
    let contents: [(&str, &[u8], &str); 8] = [
        ("gfx900", &elf, "elf"),
        ("gfx902", b"BC\xc0\xde bitcode", "bc"),
        ("gfx904", b"\x03\x02\x23\x07", "spv"),
        ("gfx906", b".version 7.0\n.target sm_70\n", "ptx"),
        ("gfx908", b"plain text", "txt"),
        ("gfx909", b"", "bin"),
        ("gfx90a", b"\0\x01", "bin"),
        ("gfx90c", b"\x50\xed\x55\xba\x01\0\x10\0\0\0\0\0\0\0\0\0", "fatbin"),
    ];
    let ids: Vec<String> = contents.iter().map(|(gpu, _, _)| format!("hip-amdgcn-amd-amdhsa--{gpu}")).collect();
    let entries: Vec<(&str, &[u8])> = ids.iter().zip(contents).map(|(id, (_, data, _))| (id.as_str(), data)).collect();
    let bundle = formats::binary(&entries, 1);
    for data in [bundle.clone(), formats::compressed(2, 1, &bundle)] {
        let written = extract(&[], &data);
        for (gpu, data, extension) in contents {
            let name = format!("in-0-hip-amdgcn-amd-amdhsa--{gpu}.{extension}");
            assert!(written.get(&name).is_some_and(|content| content == data), "{name}: {:?}", written.keys());
        }
    }
    // Later bundles have later numbers.
    let outcome = tool(&["extract", "a/in.so", "-t", "gfx90a", "-n"], &[]);
    assert_eq!(outcome.status, 1);
    let twice = [bundle.clone(), bundle].concat();
    let names: Vec<String> = extract(&["-t", "gfx900", "-o", "new/dir"], &twice).into_keys().collect();
    let id = "hip-amdgcn-amd-amdhsa--gfx900";
    assert_eq!(names, [format!("new/dir/in-0-{id}.elf"), format!("new/dir/in-1-{id}.elf")]);
}

#[test]
fn no_id_leads_out_of_the_directory_or_onto_another_file() {
    let long = "x".repeat(10_000);
    let longer = format!("{long}y");
    let ids = [
        "../../x",
        "..",
        ".",
        "/etc/passwd",
        "a\x1b[2Jb",
        "new\nline",
        "",
        "same",
        "same",
        "same-2",
        "sa me",
        "sa/me",
        &long,
        &longer,
    ];
    let entries: Vec<(&str, &[u8])> = ids.iter().map(|id| (*id, &id.as_bytes()[..id.len().min(20)])).collect();
    let mut data = formats::binary(&entries, 1);
    let at = data.windows(7).position(|window| window == b"../../x").unwrap();
    data[at + 6] = 0xff;
    for data in [data.clone(), formats::compressed(3, 1, &data)] {
        let written = extract(&["-o", "out"], &data);
        assert_eq!(written.len(), ids.len());
        for name in written.keys() {
            let name = name.strip_prefix("out/in-0-").unwrap();
            assert!(
                name.len() < 256 && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-._=".contains(&byte)),
                "{name}"
            );
        }
        let mut contents: Vec<&[u8]> = written.values().map(Vec::as_slice).collect();
        let mut expected: Vec<&[u8]> = entries.iter().map(|(_, content)| *content).collect();
        contents.sort_unstable();
        expected.sort_unstable();
        assert_eq!(contents, expected);
    }
}

#[test]
fn more_than_ten_files_go_to_a_directory_named_after_the_input() {
    let bundle = |number: usize| {
        let ids: Vec<String> = (0..number).map(|number| format!("hip-amdgcn-amd-amdhsa--gfx{number}")).collect();
        let entries: Vec<(&str, &[u8])> = ids.iter().map(|id| (id.as_str(), &b"x"[..])).collect();
        formats::binary(&entries, 1)
    };
    let (ten, eleven) = (bundle(10), bundle(11));
    for (args, data, directory, said) in [
        (&["in.so"][..], &ten, "", ""),
        (&["in.so"], &eleven, "in.so.extracted/", "11 files are in './in.so.extracted'"),
        (&["in.so", "-n"], &eleven, "in.so.extracted/", "11 files would be in './in.so.extracted'"),
        (&["in.so", "in.so"], &ten, "extracted/", "20 files are in './extracted'"),
        (&["in.so", "-o", "."], &eleven, "", ""),
        (&["in.so", "-o", "out"], &eleven, "out/", ""),
    ] {
        let outcome = tool(&[&["extract"], args].concat(), &[("in.so", data)]);
        assert_eq!(outcome.status, 0, "{args:?}");
        if said.is_empty() {
            assert_eq!(outcome.stderr_text(), "", "{args:?}");
        } else {
            let note = format!("clang-offload-bundler extract: note: {said}; --output names another directory\n");
            assert_eq!(outcome.stderr_text(), note, "{args:?}");
        }
        let mut names: Vec<String> =
            lines(&outcome).iter().map(|name| name.trim_start_matches("./").to_owned()).collect();
        assert!(names.iter().all(|name| name.starts_with(&format!("{directory}in.so-0-"))), "{args:?}: {names:?}");
        if !args.contains(&"-n") {
            names.sort();
            assert_eq!(names, written(&outcome, &["in.so"]).into_keys().collect::<Vec<_>>(), "{args:?}");
        }
    }
    // Files of an earlier run are replaced, and a failure leaves nothing behind. Large contents are not in buffers when
    // the number of files becomes known. The second run has the first ten files already.
    let dir = memory_directory();
    let contents = |byte: u8| vec![vec![byte; 200_000]; 11];
    for (byte, inputs) in [(1, &["in"][..]), (2, &["in"]), (3, &["in", "in"]), (4, &["in", "in"])] {
        let contents = contents(byte);
        let ids: Vec<String> = (0..11).map(|number| format!("hip-amdgcn-amd-amdhsa--gfx{number}")).collect();
        let entries: Vec<(&str, &[u8])> =
            ids.iter().map(String::as_str).zip(contents.iter().map(Vec::as_slice)).collect();
        fs::write(dir.path().join("in"), formats::binary(&entries, 1)).unwrap();
        assert_eq!(text(&tool_in(dir.path(), &[&["extract"], inputs].concat())).0, 0);
        let directory = dir.path().join(if inputs.len() == 1 { "in.extracted" } else { "extracted" });
        let mut number = 0;
        for file in fs::read_dir(directory).unwrap() {
            assert_eq!(fs::read(file.unwrap().path()).unwrap(), contents[0], "{byte}");
            number += 1;
        }
        assert_eq!(number, 11 * inputs.len(), "{byte}");
    }
    fs::write(dir.path().join("in"), &eleven).unwrap();
    fs::remove_dir_all(dir.path().join("extracted")).unwrap();
    fs::remove_dir_all(dir.path().join("in.extracted")).unwrap();
    #[cfg(unix)]
    {
        fs::create_dir(dir.path().join("elsewhere")).unwrap();
        std::os::unix::fs::symlink("elsewhere", dir.path().join("in.extracted")).unwrap();
        let (status, _, said) = text(&tool_in(dir.path(), &["extract", "in"]));
        assert!(status == 1 && said.contains("has the name of a link"), "{said}");
        assert_eq!(fs::read_dir(dir.path().join("elsewhere")).unwrap().count(), 0);
        fs::remove_file(dir.path().join("in.extracted")).unwrap();
        fs::remove_dir(dir.path().join("elsewhere")).unwrap();
    }
    fs::write(dir.path().join("in.extracted"), "").unwrap();
    let (status, out, said) = text(&tool_in(dir.path(), &["extract", "in"]));
    assert!(status == 1 && out.is_empty() && said.contains("Not a directory"), "{said}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
}

#[test]
fn names_differ_in_more_than_the_case_of_letters() {
    let ids = ["abc", "ABC", "Abc-2", "aBc", "abc", "other"];
    let entries: Vec<(&str, &[u8])> = ids.iter().map(|id| (*id, &b"x"[..])).collect();
    let data = formats::binary(&entries, 1);
    let outcome = tool(&["extract", "in", "IN", "-n", "-o", "."], &[("in", &data), ("IN", &data)]);
    assert_eq!((outcome.status, lines(&outcome).len()), (0, 2 * ids.len()));
    let mut names: Vec<String> = lines(&outcome).iter().map(|name| name.to_ascii_lowercase()).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 2 * ids.len(), "{:?}", lines(&outcome));
    assert!(lines(&outcome).contains(&"./in-0-abc.txt".to_owned()), "{:?}", lines(&outcome));
    assert!(lines(&outcome).contains(&"./IN-0-other-2.txt".to_owned()), "{:?}", lines(&outcome));
}

#[test]
fn names_have_room_for_the_input_the_member_and_the_id() {
    let inputs = ["in".to_owned(), "i".repeat(200)];
    let members =
        ["m".to_owned(), format!("{}/lib.so", "d".repeat(1000)), "../../\u{1b}[2J\n".to_owned(), "é/x".to_owned()];
    let ids = [GFX906.to_owned(), "x".repeat(1000)];
    for input in &inputs {
        for member in &members {
            let entries: Vec<(&str, &[u8])> = ids.iter().map(|id| (id.as_str(), &b"x"[..])).collect();
            let bundle = formats::binary(&entries, 1);
            let library = Elf::LIBRARY.write(&[Section::new(".hip_fatbin", &[&bundle[..], &bundle].concat())]);
            let wheel = zip(&[Zipped::new(member, STORED, &library), Zipped::new(member, DEFLATED, &library)]);
            let outcome = tool(&["extract", input, "-o", "out"], &[(input, &wheel)]);
            let names = lines(&outcome);
            assert_eq!((outcome.status, names.len()), (0, 8), "{}", outcome.stderr_text());
            assert_eq!(written(&outcome, &[input]).len(), 8);
            for (number, name) in names.iter().enumerate() {
                let name = name.strip_prefix("out/").unwrap();
                assert!(name.len() <= 255 && !name.contains(['/', '\n', '\u{1b}']), "{name}");
                assert!(name.contains(&input[..input.len().min(70)]), "{name}");
                let end = |text: &str| text[text.len().saturating_sub(20)..].to_owned();
                let member: String =
                    member.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '_' }).collect();
                if member.is_ascii() && !member.contains("2J") {
                    assert!(name.contains(&format!("{}-{}-", end(&member), number / 2 % 2)), "{name}");
                }
                assert!(name.contains(&ids[number % 2][..ids[number % 2].len().min(90)]), "{name}");
            }
        }
    }
}

/// The code objects of a report, without the names of the written files.
fn objects(command: &str, document: &Value) -> Vec<Value> {
    schema::check(command, document);
    let list = |value: &Value| value.as_array().unwrap().clone();
    let mut objects = match command {
        "inspect" => list(&document["files"]).iter().flat_map(|file| list(&file["code_objects"])).collect(),
        _ => list(&document["code_objects"]),
    };
    let only_of_files =
        |object: &mut Value| ["file", "sha256"].map(|field| object.as_object_mut().unwrap().remove(field));
    objects.iter_mut().for_each(|object| drop(only_of_files(object)));
    objects
}

#[test]
fn the_report_says_what_inspect_says_and_which_file_it_is() {
    let data = bundle();
    let elf = Elf::amdgpu(0x3f).write(&[]);
    let images = [Image::new(1, 4, &[("triple", "amdgcn-amd-amdhsa"), ("arch", "gfx906")], &elf)];
    let both = [&data[..], &formats::compressed(3, 1, &zoo())].concat();
    let library = Elf::LIBRARY.write(&[
        Section::new(".hip_fatbin", &both),
        Section::new(".llvm.offloading", &offload::write(1, &images)).offloading(),
    ]);
    let wheel = zip(&[Zipped::new("a/lib.so", DEFLATED, &library), Zipped::new("b", STORED, &data)]);
    let lib = archive(&[("x.o", &library), ("y\x1b[2J", &data), ("z", &wheel)]);
    let files: Vec<(&str, &[u8])> = vec![("bare", &elf), ("lib.a", &lib), ("lib.so", &library), ("whl", &wheel)];
    let names: Vec<&str> = files.iter().map(|(name, _)| *name).collect();
    let parse = |outcome: &Outcome| -> Value {
        assert_eq!((outcome.status, outcome.stderr_text().as_str()), (0, ""));
        assert!(!outcome.stdout.contains(&0x1b));
        serde_json::from_slice(&outcome.stdout).unwrap()
    };
    let inspected = tool(&[&["inspect", "--inflate", "--json"], &names[..]].concat(), &files);
    let mut inspected = objects("inspect", &parse(&inspected));
    for args in [&["-t", "*"][..], &[], &["-t", "gfx90a"]] {
        let outcome = tool(&[&["extract", "--json", "-o", "out"], args, &names].concat(), &files);
        let document = parse(&outcome);
        let dry = tool(&[&["extract", "--json", "-o", "out", "-n"], args, &names].concat(), &files);
        // URIs contain the directory, which differs between runs.
        let without_uri = |mut objects: Vec<Value>| {
            objects.iter_mut().for_each(|object| drop(object.as_object_mut().unwrap().remove("uri")));
            objects
        };
        let whole = |document: &Value| without_uri(document["code_objects"].as_array().unwrap().clone());
        assert_eq!(whole(&parse(&dry)), whole(&document));
        let extracted = objects("extract", &document);
        match args {
            ["-t", "*"] => inspected = without_uri(inspected),
            ["-t", _] => inspected.retain(|object| object["entry_id"].as_str().unwrap().contains("gfx90a")),
            _ => inspected.retain(|object| object["kind"] != "host"),
        }
        assert_eq!(without_uri(extracted), inspected, "{args:?}");
        let files = written(&outcome, &names);
        let told: Vec<&Value> = document["code_objects"].as_array().unwrap().iter().collect();
        assert_eq!(told.len(), files.len());
        for object in told {
            let content = &files[object["file"].as_str().unwrap()];
            assert_eq!(u64::try_from(content.len()).unwrap(), object["size"].as_u64().unwrap());
            assert_eq!(object["sha256"].as_str().unwrap(), format!("{:x}", sha2::Sha256::digest(content)));
        }
    }
}

#[test]
fn the_report_tells_files_apart_whose_names_differ_in_a_number() {
    let wheel = zip(&[
        Zipped::new("gfx906/lib.co", DEFLATED, &bundle()),
        Zipped::new("gfx906/LIB.co", STORED, &bundle()),
        Zipped::new("gfx90a/lib.co", STORED, &bundle()),
        Zipped::new("gfx906_lib.co", STORED, &bundle()),
    ]);
    let lib = archive(&[("x.o", &bundle()), ("x.o", &bundle())]);
    let dir = memory_directory();
    for (name, data) in [("one/in", &wheel), ("two/in", &wheel), ("lib.a", &lib)] {
        fs::create_dir_all(dir.path().join(name).parent().unwrap()).unwrap();
        fs::write(dir.path().join(name), data).unwrap();
    }
    let told = |args: &[&str]| {
        let args = [&["extract", "--json", "-t", "gfx906", "-o", "out", "one/in", "two/in", "lib.a"], args].concat();
        let outcome = tool_in(dir.path(), &args);
        assert!(outcome.status.success(), "{outcome:?}");
        let document: Value = serde_json::from_slice(&outcome.stdout).unwrap();
        schema::check("extract", &document);
        let text = |object: &Value, field: &str| object[field].as_str().unwrap_or_default().to_owned();
        let row = |object: &Value| ["file", "path", "member", "sha256"].map(|field| text(object, field));
        document["code_objects"].as_array().unwrap().iter().map(row).collect::<Vec<_>>()
    };
    let written = told(&[]);
    assert_eq!(written, told(&["--dry-run"]));
    let names: BTreeSet<String> = written.iter().map(|[file, ..]| file.to_ascii_lowercase()).collect();
    assert_eq!((written.len(), names.len()), (10, 10), "{written:?}");
    let members = ["gfx906/lib.co", "gfx906/LIB.co", "gfx90a/lib.co", "gfx906_lib.co"];
    let from = ["one/in", "two/in"].into_iter().flat_map(|path| members.map(|member| (path, member)));
    for ([file, path, member, _], expected) in written.iter().zip(from) {
        assert_eq!((path.as_str(), member.as_str()), expected);
        assert!(file.starts_with(&format!("out/in-{}-0-hip-", member.replace('/', "_"))), "{file}");
    }
}

#[test]
fn a_report_of_nothing_is_none_and_problems_are_in_it() {
    let sound = bundle();
    let nothing = tool(&["extract", "--json", "in", "-t", "gfx942"], &[("in", &sound)]);
    assert_eq!((nothing.status, nothing.stdout.as_slice()), (1, &b""[..]));
    let to_output = tool(&["extract", "--json", "in", "-t", "gfx906", "-o", "-"], &[("in", &sound)]);
    assert_eq!((to_output.status, to_output.stdout.as_slice()), (2, &b""[..]));
    assert!(
        to_output.stderr_text().contains("'--json' cannot be used with '--output -'"),
        "{}",
        to_output.stderr_text()
    );
    let dir = memory_directory();
    fs::create_dir(dir.path().join("d")).unwrap();
    fs::write(dir.path().join("d/sound"), &sound).unwrap();
    fs::write(dir.path().join("d/cut"), &sound[..sound.len() - 1]).unwrap();
    let (status, out, said) = text(&tool_in(dir.path(), &["extract", "--json", "d", "-t", "gfx906", "-o", "out"]));
    let document: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((status, objects("extract", &document).len()), (1, 1));
    let problem = document["problems"][0].as_str().unwrap();
    assert!(problem.starts_with("'d/cut': ") && said.contains(problem), "{document:#}: {said}");
}

#[test]
fn many_outputs_wait_without_their_buffers() {
    // Thousands of code objects that share bytes, and a large one that keeps the total size within the limit.
    let (count, size) = (1500, 60_000);
    let ids: Vec<String> = (0..=count).map(|number| format!("hip-amdgcn-amd-amdhsa--gfx{number}")).collect();
    let header: usize = 32 + ids.iter().map(|id| 24 + id.len()).sum::<usize>();
    let mut data = [formats::MAGIC, &u64::try_from(ids.len()).unwrap().to_le_bytes()].concat();
    for (number, id) in ids.iter().enumerate() {
        let (start, size) = if number == count { (header + size, 100 * size) } else { (header, size) };
        data.extend([start, size, id.len()].iter().flat_map(|&field| u64::try_from(field).unwrap().to_le_bytes()));
        data.extend(id.as_bytes());
    }
    data.resize(header + 101 * size, b'x');
    // 64 MB of memory, where buffers for all outputs would need 90 MB.
    let limited = |args: &str| {
        let line = format!("ulimit -v 64000; ulimit -c 0; \"$TOOL\" extract in -o out {args}");
        let case = Case::new(&["-c", &line]).env("TOOL", PROGRAM).file("in", data.clone());
        harness::run(Path::new("/bin/sh"), &case)
    };
    if limited("--exact -t gfx7").status != 0 {
        return skipped("the tool does not start with 64 MB: many outputs wait without their buffers", None);
    }
    let outcome = limited("");
    assert_eq!(outcome.status, 0, "{}", outcome.stderr_text());
    assert_eq!(lines(&outcome).len(), ids.len());
    assert!(written(&outcome, &["in"]).values().all(|content| content.iter().all(|&byte| byte == b'x')));
}

#[test]
fn broken_files_in_directories_are_left_out_and_told() {
    let sound = bundle();
    let cut = &sound[..sound.len() - 1];
    // The first bundle of the broken file is valid. Nevertheless, nothing is written from the file.
    let half = [&sound[..], cut].concat();
    let elf = Elf::LIBRARY.write(&[Section::new(".hip_fatbin", &half)]);
    let dir = memory_directory();
    let at = |name: &str| dir.path().join(name);
    fs::create_dir_all(at("d/e")).unwrap();
    let files = [("d/a", &sound[..]), ("d/b", &half), ("d/c", &elf), ("d/e/f", &sound), ("d/e/g", cut), ("d/h", b"no")];
    for (name, data) in files {
        fs::write(at(name), data).unwrap();
    }
    fs::write(at("cut"), cut).unwrap();
    for dry in [&["-n"][..], &[]] {
        let args = [&["extract", "-r", "d", "-t", "gfx906", "-o", "out"], dry].concat();
        let (status, out, said) = text(&tool_in(dir.path(), &args));
        assert_eq!((status, out), (1, format!("out/a-0-{GFX906}.txt\nout/e_f-0-{GFX906}.txt\n")), "{said}");
        let errors: Vec<&str> = said.lines().collect();
        assert_eq!(errors.len(), 3, "{said}");
        for (error, name) in errors.iter().zip(["d/b", "d/c(.hip_fatbin)", "d/e/g"]) {
            assert!(error.contains(&format!("error: '{name}': ")), "{said}");
        }
        assert_eq!(at("out").exists(), dry.is_empty());
    }
    assert_eq!(fs::read_dir(at("out")).unwrap().count(), 2);
    assert_eq!(fs::read(at(&format!("out/e_f-0-{GFX906}.txt"))).unwrap(), b"first");
    // A named file is not skipped, and neither is an error of an output.
    for args in [&["d", "cut"][..], &["cut", "d"], &["d", "d/b"], &["d", "nowhere"]] {
        let (status, out, _) = text(&tool_in(dir.path(), &[&["extract", "-o", "new"], args].concat()));
        assert_eq!((status, out.as_str(), at("new").exists()), (1, "", false), "{args:?}");
    }
    let (status, out, said) = text(&tool_in(dir.path(), &["extract", "-r", "d", "-o", "d/a"]));
    assert_eq!((status, out.as_str()), (1, ""), "{said}");
    // If no valid file matches, the broken ones are reported too.
    let (status, out, said) = text(&tool_in(dir.path(), &["extract", "-r", "d", "-t", "gfx942", "-o", "new"]));
    assert_eq!((status, out.as_str(), at("new").exists()), (1, "", false));
    let nothing = "no code object matches 'gfx942'; the other files have: gfx906, ";
    assert!(said.contains("'d/b': ") && said.contains(nothing), "{said}");
}

#[test]
fn a_file_that_is_left_out_leaves_no_traces() {
    let gfx942 = "hipv4-amdgcn-amd-amdhsa--gfx942";
    let both = formats::binary(&[(GFX90A, b"left out"), (gfx942, b"left out")], 16);
    let half = [&both[..], &both[..both.len() - 1]].concat();
    let sound = formats::binary(&[(HOST, b""), (gfx942, b"taken")], 16);
    let dir = memory_directory();
    let at = |name: &str| dir.path().join(name);
    // Skipping a file discards only its own results.
    for (name, data) in [("a", &half), ("b", &sound), ("c", &half), ("d", &sound)] {
        fs::create_dir_all(at("q").join(name)).unwrap();
        fs::write(at("q").join(name).join("lib.so"), data).unwrap();
    }
    for dry in [&["-n"][..], &[]] {
        let args = [&["extract", "-r", "q", "-t", "gfx942", "-o", "out"], dry].concat();
        let (status, out, said) = text(&tool_in(dir.path(), &args));
        let expected = format!("out/b_lib.so-0-{gfx942}.txt\nout/d_lib.so-0-{gfx942}.txt\n");
        assert_eq!((status, out), (1, expected), "{said}");
        assert_eq!(said.lines().count(), 2, "{said}");
    }
    let mut contents = fs::read_dir(at("out")).unwrap().map(|file| fs::read(file.unwrap().path()).unwrap());
    assert!(contents.all(|content| content == b"taken"));
    // The error lists the available targets.
    let last = |args: &[&str]| {
        let (status, out, said) = text(&tool_in(dir.path(), &[&["extract", "-o", "new", "-r"], args].concat()));
        assert_eq!((status, out.as_str(), at("new").exists()), (1, "", false));
        let last = said.lines().find(|line| line.contains("no code object")).unwrap();
        last.split_once("error: ").unwrap().1.to_owned()
    };
    let hold = "; the other files have: gfx942";
    assert_eq!(last(&["q", "-t", "gfx90a"]), format!("no code object matches 'gfx90a' except in skipped files{hold}"));
    assert_eq!(last(&["q", "-t", "gfx906"]), format!("no code object matches 'gfx906'{hold}"));
    assert_eq!(
        last(&["q", "-t", "gfx90a,gfx942"]),
        format!("no code object matches 'gfx90a' except in skipped files{hold}")
    );
    assert_eq!(
        last(&["q", "-t", "gfx906,gfx90a,gfx942"]),
        format!("no code object matches 'gfx906', and none matches 'gfx90a' except in skipped files{hold}")
    );
    let none = "; the other files have none for a device";
    assert_eq!(
        last(&["q/a", "-t", "gfx90a"]),
        format!("no code object matches 'gfx90a' except in skipped files{none}")
    );
    assert_eq!(last(&["q/a", "-t", "gfx906"]), format!("no code object matches 'gfx906'{none}"));
}

#[test]
fn broken_parts_are_reported_with_their_places() {
    let sound = bundle();
    let cut = &sound[..sound.len() - 1];
    let library = Elf::LIBRARY.write(&[Section::new(".hip_fatbin", cut)]);
    let broken = Zipped { crc: 1, ..Zipped::new("x/lib.so", DEFLATED, &library) };
    let thin = thin_archive(&[("cut.o", cut.len())]);
    // The beginning of this bundle is valid, so the fault is found only during extraction.
    let code: Vec<u8> = harness::Random::new(5).bytes(1 << 20).iter().map(|byte| byte % 16).collect();
    let mut stream = formats::compressed(3, 1, &formats::binary(&[(HOST, b""), (GFX906, &code)], 16));
    let len = stream.len();
    stream[len - 2000..].fill(0xff);
    let stream = archive(&[("stream.o", &stream)]);
    assert_eq!(tool(&["inspect", "in"], &[("in", &stream)]).status, 0);
    let said = tool(&["extract", "in"], &[("in", &stream)]).stderr_text();
    assert!(said.contains("error: 'in(stream.o)': compressed bundle at offset 68: "), "{said}");
    let files: [(&str, &[u8]); 5] = [
        ("zb.zip", &zip(&[Zipped::new("sound", STORED, &sound), broken])),
        ("lib.a", &archive(&[("sound.o", &sound), ("lib.so", &library)])),
        ("thin.a", &thin),
        ("cut.o", cut),
        ("gone.a", &thin_archive(&[("gone.o", 7)])),
    ];
    for (name, begins) in [
        ("zb.zip", "'zb.zip(x/lib.so)': zip file broken at offset "),
        ("lib.a", "'lib.a(lib.so)(.hip_fatbin)': the code object of entry 2 "),
        ("thin.a", "'thin.a(cut.o)': 'cut.o': the code object of entry 2 "),
        ("cut.o", "'cut.o': the code object of entry 2 "),
        ("gone.a", "'gone.a(gone.o)': 'gone.o': No such file or directory"),
    ] {
        // `inspect` reports the same.
        for args in [&["extract", "-o", "out", name][..], &["inspect", name]] {
            let outcome = tool(args, &files);
            assert_eq!((outcome.status, outcome.files.len()), (1, files.len()), "{args:?}");
            let said = outcome.stderr_text();
            assert!(said.contains(&format!("error: {begins}")), "{args:?}: {said}");
            assert_eq!(said.matches(begins).count(), 1, "{args:?}: {said}");
        }
    }
    // In a directory, such a file is skipped nevertheless.
    let dir = memory_directory();
    fs::create_dir(dir.path().join("d")).unwrap();
    for (name, data) in files {
        fs::write(dir.path().join("d").join(name), data).unwrap();
    }
    fs::write(dir.path().join("d/sound"), &sound).unwrap();
    let (status, out, said) = text(&tool_in(dir.path(), &["extract", "d", "-t", "gfx906", "-o", "out"]));
    assert_eq!((status, out), (1, format!("out/sound-0-{GFX906}.txt\n")), "{said}");
    assert_eq!(said.lines().count(), files.len(), "{said}");
    assert!(said.contains("error: 'd/zb.zip(x/lib.so)': zip file broken"), "{said}");
}

#[test]
fn names_that_are_told_hold_nothing_that_a_terminal_obeys() {
    let directory = "a\x1b[2J\u{9b}\u{202e}";
    let outcome = tool(&["extract", "in", "-t", "gfx906", "-o", directory], &[("in", &bundle())]);
    assert_eq!(outcome.status, 0, "{}", outcome.stderr_text());
    assert_eq!(lines(&outcome), [format!("a\\u{{1b}}[2J\\u{{9b}}\\u{{202e}}/in-0-{GFX906}.txt")]);
    assert!(outcome.files.contains_key(&format!("{directory}/in-0-{GFX906}.txt")));
}

#[test]
fn many_entries_with_one_id_take_no_longer_than_others() {
    let entries: Vec<(&str, &[u8])> = (0..30_000).map(|_| (GFX906, &b"x"[..])).collect();
    let data = formats::binary(&entries, 1);
    // The test harness stops a run that takes many seconds.
    let outcome = tool(&["extract", "in", "--dry-run"], &[("in", &data)]);
    assert_eq!((outcome.status, lines(&outcome).len()), (0, 30_000));
    let ids: Vec<String> = (0..30_000).map(|number| format!("id number {number}")).collect();
    let entries: Vec<(&str, &[u8])> = ids.iter().map(|id| (id.as_str(), &b"x"[..])).collect();
    let data = formats::binary(&entries, 1);
    let outcome = tool(&["extract", "in", "-t", "gfx906"], &[("in", &data)]);
    assert_eq!(outcome.status, 1);
    let outcome = tool(&["recompress", "in", "-o", "out", "--keep", "gfx906"], &[("in", &data)]);
    assert_eq!(outcome.status, 1);
}

#[test]
fn a_file_in_place_of_the_directory_is_named() {
    let data = bundle();
    for (file, directory) in [("text.txt", "text.txt"), ("text.txt", "./text.txt/")] {
        let outcome = tool(&["extract", "in", "-o", directory], &[("in", &data), (file, b"text")]);
        let said = outcome.stderr_text();
        assert_eq!(outcome.status, 1);
        assert!(said.contains(&format!("error: '{}': Not a directory", directory.trim_end_matches('/'))), "{said}");
    }
    let outcome = tool(&["man", "-o", "text.txt"], &[("text.txt", b"text")]);
    assert!(outcome.stderr_text().contains("error: 'text.txt': Not a directory"), "{}", outcome.stderr_text());
}

/// Two files with any of three IDs each: the hint is typed as it is printed.
#[test]
fn the_hint_of_several_matches_can_be_typed() {
    let ids = [GFX90A, "hipv4-amdgcn-amd-amdhsa--gfx90a", "hip-amdgcn-amd-amdhsa--gfx90a:xnack+"];
    for chosen in 0..64_u32 {
        let of =
            |shift: usize| (0..3).filter(|at| chosen >> (shift + at) & 1 == 1).map(|at| ids[at]).collect::<Vec<_>>();
        let data = |ids: &[&str]| formats::binary(&ids.iter().map(|id| (*id, id.as_bytes())).collect::<Vec<_>>(), 1);
        let (one, two) = (of(0), of(3));
        let (data_of_one, data_of_two) = (data(&one), data(&two));
        let files = [("one", &data_of_one[..]), ("two", &data_of_two[..])];
        let said = tool(&["extract", "one", "two", "-t", "gfx90a*", "-o", "-"], &files).stderr_text();
        let all = [one, two].concat();
        let is_sole = |id: &&str| all.iter().filter(|other| *other == id).count() == 1;
        let hint = said.split_once("hint: ").map(|(_, hint)| hint);
        assert_eq!(hint.is_some(), all.len() > 1, "{all:?}: {said}");
        let Some(hint) = hint else { continue };
        let id = hint.split_once("--exact --target='").map(|(_, id)| id.split('\'').next().unwrap());
        assert_eq!(id.is_some(), all.iter().any(is_sole), "{all:?}: {said}");
        let Some(id) = id else { continue };
        let outcome = tool(&["extract", "one", "two", "--exact", &format!("--target={id}"), "-o", "-"], &files);
        assert_eq!((outcome.status, outcome.stdout.as_slice()), (0, id.as_bytes()), "{all:?}: {said}");
    }
}

#[test]
fn extract_writes_one_code_object_to_standard_output() {
    let data = bundle();
    let outcome = tool(&["extract", "in", "-t", "gfx906", "-o", "-"], &[("in", &data)]);
    assert_eq!((outcome.status, outcome.stdout.as_slice(), outcome.files.len()), (0, &b"first"[..], 1));
    let packed = formats::compressed(2, 0, &data);
    let outcome = tool(&["extract", "in", "-t", "gfx90a", "-o", "-"], &[("in", &packed)]);
    assert_eq!((outcome.status, outcome.stdout.as_slice()), (0, &b"second"[..]));
    for args in [&["-o", "-"][..], &["-t", "gfx906", "-t", "gfx90a", "-o-"], &["-t", "gfx9*", "-o", "-", "-n"]] {
        let outcome = tool(&[&["extract", "in"], args].concat(), &[("in", &data)]);
        assert_eq!((outcome.status, outcome.stdout.as_slice()), (1, &b""[..]), "{args:?}");
        let said = outcome.stderr_text();
        let both =
            format!("'in': several code objects match, but standard output takes only one: {GFX906}, {GFX90A}\nhint: ");
        assert!(said.replace(&format!("{HOST}, "), "").contains(&both), "{said}");
    }
    let outcome = tool(&["extract", "in", "in", "-t", "gfx906", "-o", "-"], &[("in", &data)]);
    // No option can select one of several code objects with the same ID.
    let once = format!("only one: {GFX906} (2 times)\nhint: write all of them into a directory with -o DIR\n");
    assert!(outcome.stderr_text().ends_with(&once), "{}", outcome.stderr_text());
    let outcome = tool(&["extract", "in", "in", "-t", "gfx906", "-t", "gfx90a", "-o", "-"], &[("in", &data)]);
    let both = format!("only one: {GFX906} (2 times), {GFX90A} (2 times)\nhint: write all of them");
    assert!(outcome.stderr_text().contains(&both), "{}", outcome.stderr_text());
    let outcome = tool(&["extract", "in", "-t", "gfx906", "-o", "-", "--dry-run"], &[("in", &data)]);
    assert_eq!((outcome.status, outcome.stdout.as_slice()), (0, &b"-\n"[..]));
    let outcome = tool(&["extract", "in", "in", "-t", "gfx906", "-o", "-"], &[("in", &data)]);
    assert_eq!((outcome.status, outcome.stdout.as_slice()), (1, &b""[..]));
}

#[test]
fn a_failure_leaves_nothing_behind() {
    let sound = bundle();
    let cut = &sound[..sound.len() - 1];
    let files: [(&str, &[u8]); 3] = [("sound", &sound), ("cut", cut), ("out-0", b"old")];
    for args in [
        &["extract", "sound", "cut", "-o", "new/dir"][..],
        &["extract", "sound", "nowhere", "-o", "new/dir"],
        &["extract", "sound", "-t", "gfx942", "-o", "new/dir"],
        &["extract", "cut", "-o", "new"],
        &["extract", "sound", "cut", "-o", "new/dir", "--dry-run"],
    ] {
        let outcome = tool(args, &files);
        assert_eq!((outcome.status, outcome.stdout.as_slice()), (1, &b""[..]), "{args:?}");
        assert_eq!(outcome.files.len(), 3, "{args:?}: {:?}", outcome.files.keys());
        let dir = memory_directory();
        for (name, data) in files {
            fs::write(dir.path().join(name), data).unwrap();
        }
        assert!(!tool_in(dir.path(), args).status.success());
        assert!(!dir.path().join("new").exists(), "{args:?}: a directory is left");
    }
    // A file in the place of the directory, and a directory in the place of a file.
    let outcome = tool(&["extract", "sound", "-o", "cut"], &files);
    assert_eq!((outcome.status, outcome.files.len()), (1, 3));
    let dir = memory_directory();
    fs::write(dir.path().join("in"), &sound).unwrap();
    fs::create_dir(dir.path().join(format!("in-0-{GFX90A}.txt"))).unwrap();
    let (status, _, said) = text(&tool_in(dir.path(), &["extract", "in"]));
    assert_eq!(status, 1);
    assert!(said.contains("Is a directory"), "{said}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
}

#[test]
fn an_input_is_not_overwritten() {
    let data = bundle();
    let own = format!("in-0-{GFX906}.txt");
    let files: [(&str, &[u8]); 2] = [("in", &data), (&own, &data)];
    let outcome = tool(&["extract", "in", &own, "-t", "gfx906"], &files);
    assert_eq!(outcome.status, 1, "{:?}", outcome.files.keys());
    assert!(outcome.files.len() == 2 && outcome.files[&own] == data);
    // A file that is none is.
    let outcome = tool(&["extract", "in", "-t", "gfx906"], &files);
    assert_eq!((outcome.status, outcome.files[&own].as_slice()), (0, &b"first"[..]));
}

#[test]
fn names_count_from_the_directory_that_led_to_the_file() {
    let dir = memory_directory();
    fs::create_dir_all(dir.path().join("d/a")).unwrap();
    fs::write(dir.path().join("d/a/f"), bundle()).unwrap();
    let run = |paths: &[&str]| {
        let args = [&["extract", "-n", "-r", "-t", "gfx906", "-o", "out"], paths].concat();
        let (status, out, said) = text(&tool_in(dir.path(), &args));
        assert_eq!(status, 0, "{said}");
        out
    };
    let (from_d, from_a) = (format!("out/a_f-0-{GFX906}.txt\n"), format!("out/f-0-{GFX906}.txt\n"));
    assert_eq!(run(&["d", "d/a"]), [from_d.as_str(), &from_a].concat());
    assert_eq!(run(&["d/a", "d"]), [from_a.as_str(), &from_d].concat());
}

#[test]
fn from_wheels_archives_and_directories() {
    let data = bundle();
    let library = Elf::LIBRARY.write(&[Section::new(".hip_fatbin", &formats::compressed(2, 1, &data))]);
    let members =
        [Zipped::new("a/lib.so", DEFLATED, &library), Zipped::new("b", STORED, &data), Zipped::new("c", 93, &data)];
    let wheel = zip(&members);
    let found = extract(&["-t", "gfx90a"], &wheel);
    assert_eq!(
        found.into_iter().collect::<Vec<_>>(),
        ["a_lib.so", "b", "c"].map(|member| (format!("in-{member}-0-{GFX90A}.txt"), b"second".to_vec()))
    );
    let archive = archive(&[("same.o", &data), ("same.o", &library), ("inner.whl", &wheel)]);
    let found = extract(&["-t", "gfx906"], &archive);
    let members = ["inner.whl_a_lib.so", "inner.whl_b", "inner.whl_c", "same.o"];
    let mut names: Vec<String> = members.iter().map(|member| format!("in-{member}-0-{GFX906}.txt")).collect();
    names.push(format!("in-same.o-0-{GFX906}-2.txt"));
    names.sort();
    assert_eq!(found.keys().cloned().collect::<Vec<_>>(), names);
    assert!(found.values().all(|content| content == b"first"));
    let thin = thin_archive(&[("one.o", data.len())]);
    let outcome = tool(&["extract", "lib.a", "-t", "gfx906", "-o", "out"], &[("lib.a", &thin), ("one.o", &data)]);
    assert_eq!(outcome.files[&format!("out/lib.a-one.o-0-{GFX906}.txt")], b"first");
    let dir = memory_directory();
    fs::create_dir_all(dir.path().join("d/e")).unwrap();
    fs::write(dir.path().join("d/e/in"), &data).unwrap();
    fs::write(dir.path().join("d/in"), &data).unwrap();
    let (status, out, _) = text(&tool_in(dir.path(), &["extract", "-r", "d", "-t", "gfx906", "-o", "out"]));
    assert_eq!((status, out), (0, format!("out/e_in-0-{GFX906}.txt\nout/in-0-{GFX906}.txt\n")));
}

#[test]
fn extracted_bytes_equal_the_input_in_every_form() {
    let data = bundle();
    let images = vec![
        Image::new(1, 4, &[("triple", "amdgcn-amd-amdhsa"), ("arch", "gfx906")], b"first"),
        Image::new(1, 4, &[("triple", "amdgcn-amd-amdhsa"), ("arch", "gfx90a")], b"second"),
    ];
    let texts: [(&str, &[u8]); 3] = [(HOST, b""), (GFX906, b"first"), (GFX90A, b"second")];
    let mut forms = vec![data.clone(), [data.clone(), data.clone()].concat()];
    forms.extend(
        [(1, 0), (1, 1), (2, 0), (2, 1), (3, 0), (3, 1)]
            .map(|(version, method)| formats::compressed(version, method, &data)),
    );
    forms.extend(["//", "#", ";"].map(|comment| formats::text(comment, &texts)));
    forms.push(formats::compressed(2, 1, &formats::text("#", &texts)));
    forms.extend((1..=3).map(|version| offload::write(version, &images)));
    forms.extend([true, false].map(|zlib| offload::compressed(zlib, &images)));
    for form in &forms {
        for (gpu, content) in [("gfx906", &b"first"[..]), ("gfx90a", b"second")] {
            let found = extract(&["-t", gpu], form);
            assert!(!found.is_empty() && found.values().all(|data| data == content), "{}", form.escape_ascii());
        }
    }
}

/// The bytes that a URI of `inspect --json` refers to.
fn resolve(uri: &str) -> Vec<u8> {
    let (path, fields) = uri.strip_prefix("file://").unwrap().split_once('#').unwrap();
    let field = |name: &str| {
        let found = fields.split('&').find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
        found.map(|value| value.parse::<usize>().unwrap())
    };
    let file = fs::read(path).unwrap();
    let (offset, size) = (field("offset").unwrap(), field("size").unwrap());
    let range = &file[offset..offset + size];
    let Some(inner) = field("inflated-offset") else { return range.to_vec() };
    // A client must inflate the compressed formats itself; here, the readers of the tests do.
    let payload = formats::Ccob::read(range).map(|ccob| ccob.payload).unwrap();
    payload[inner..inner + field("inflated-size").unwrap()].to_vec()
}

#[test]
fn uris_lead_to_the_bytes_that_are_extracted() {
    let test = "URIs";
    let dir = memory_directory();
    let data = bundle();
    let packed = formats::compressed(3, 1, &zoo());
    let padded = [&data[..], &vec![0; 4096 - data.len()], &packed, &data].concat();
    let library =
        Elf::LIBRARY.write(&[Section::new(".text", b"x"), Section::new(".hip_fatbin", &padded).aligned(4096)]);
    let wheel = zip(&[Zipped::new("lib.so", STORED, &library)]);
    let mut files = vec![("bundles", padded.clone()), ("lib.so", library.clone()), ("in.whl", wheel)];
    files.push(("lib.a", archive(&[("x.o", &library), ("y", &packed)])));
    for (name, data) in &files {
        fs::write(dir.path().join(name), data).unwrap();
    }
    let mut paths: Vec<PathBuf> = files.iter().map(|(name, _)| dir.path().join(name)).collect();
    for (driver, more) in against_llvm::DRIVERS {
        let place = dir.path().join(format!("{driver}{}", more.concat()));
        fs::create_dir(&place).unwrap();
        if against_llvm::build(test, &place, driver, more).is_some() {
            paths.extend(["kernel.o", "libkernel.so", "program"].map(|name| place.join(name)));
        }
    }
    paths.extend(librocrand(test));
    let mut resolved = 0;
    for path in paths {
        let output = tool_in(dir.path(), &["inspect", "--json", path.to_str().unwrap()]);
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        schema::check("inspect", &document);
        let objects = document["files"][0]["code_objects"].as_array().unwrap();
        let contents = against_llvm::extracted(&path, &["-t", "*"]);
        assert_eq!(objects.len(), contents.len(), "{}", path.display());
        for (object, content) in objects.iter().zip(&contents) {
            assert!(&resolve(object["uri"].as_str().unwrap()) == content, "{object:#}");
            if let Some(offset) = object["offset"].as_u64() {
                let file = fs::read(&path).unwrap();
                assert!(file[usize::try_from(offset).unwrap()..].starts_with(content), "{object:#}");
            }
            resolved += 1;
        }
    }
    loud(&format!("{test}: {resolved} lead to the bytes that are extracted"));
}

#[test]
fn unbundle_and_the_packager_give_the_same() {
    for name in [fixtures("binary"), fixtures("compressed"), fixtures("sequence")].concat() {
        let data = fixture(&name);
        let (listing, ids): (Outcome, Vec<String>) = {
            let outcome = tool(&["-list", "-type=bc", "-input=in"], &[("in", &data)]);
            let ids = lines(&outcome);
            (outcome, ids)
        };
        assert_eq!(listing.status, 0);
        for id in ids {
            let unbundled = tool(
                &["-unbundle", "-type=bc", "-input=in", &format!("-targets={id}"), "-output=out"],
                &[("in", &data)],
            );
            let extracted = tool(&["extract", "in", "--exact", "-o", "new", "-t", &id], &[("in", &data)]);
            if unbundled.status != 0 {
                continue;
            }
            assert_eq!(extracted.status, 0, "{name} {id}: {}", extracted.stderr_text());
            let first = lines(&extracted).remove(0);
            assert!(extracted.files[&first] == unbundled.files["out"], "{name} {id}");
        }
    }
    for name in [
        "offload/llvm22-v1.offload",
        "offload/v2.offload",
        "offload/v3-zstd.offload",
        "offload/llvm22-embedded.o",
        "bitcode/llvm22-link.bc",
        "bitcode/llvm22-debug.bc",
    ] {
        let data = fixture(name);
        let packaged = tool(&["package", "in", "--image=kind=hip"], &[("in", &data)]);
        let extracted = tool(&["extract", "in"], &[("in", &data)]);
        let contents = |outcome: &Outcome| {
            let mut contents: Vec<Vec<u8>> = written(outcome, &["in"]).into_values().collect();
            contents.sort();
            contents
        };
        assert!(!contents(&packaged).is_empty() && contents(&packaged) == contents(&extracted), "{name}");
    }
}

#[test]
fn a_large_compressed_bundle_is_inflated_once() {
    let mut random = harness::Random::new(3);
    let noise = random.bytes(1 << 16);
    let code = |seed: u8| (0..300).flat_map(|_| noise.iter().map(move |byte| byte ^ seed)).collect::<Vec<u8>>();
    let (first, second, third) = (code(1), code(2), b"small".to_vec());
    let plain = formats::binary(
        &[(HOST, b""), (GFX906, &first), (GFX90A, &second), ("hip-amdgcn-amd-amdhsa--gfx942", &third)],
        4096,
    );
    assert!(plain.len() > 32 << 20);
    let packed = formats::compressed(3, 1, &plain);
    let dir = memory_directory();
    fs::write(dir.path().join("in"), &packed).unwrap();
    let (status, out, said) = text(&tool_in(dir.path(), &["extract", "in", "-o", "out"]));
    assert_eq!((status, said.as_str()), (0, ""));
    let contents: Vec<Vec<u8>> = out.lines().map(|name| fs::read(dir.path().join(name)).unwrap()).collect();
    assert!(contents == [first.clone(), second, third]);
    // The first code object needs only the beginning of the stream, so a broken end does not matter.
    let mut broken = packed.clone();
    let len = broken.len();
    broken[len - 2000..].fill(0xff);
    fs::write(dir.path().join("broken"), &broken).unwrap();
    let (status, out, _) = text(&tool_in(dir.path(), &["extract", "broken", "-t", "gfx942", "-o", "out"]));
    assert_eq!((status, out.as_str()), (1, ""));
    let strace = Path::new("/usr/bin/strace");
    if !strace.exists() {
        return skip("reading an input once", "strace is not installed");
    }
    // The input is read about once in total.
    let log = dir.path().join("log");
    let args = [
        "-f",
        "-y",
        "-e",
        "trace=read,pread64,readv,preadv,copy_file_range,sendfile,splice",
        "-o",
        log.to_str().unwrap(),
        PROGRAM,
    ];
    let traced = Command::new(strace)
        .args(args)
        .args(["extract", "in", "-o", "traced"])
        .current_dir(dir.path())
        .output()
        .unwrap();
    if !traced.status.success() {
        return skip("reading an input once", "strace may not trace here");
    }
    let log = fs::read_to_string(log).unwrap();
    let input = format!("{}>", fs::canonicalize(dir.path().join("in")).unwrap().display());
    let read: usize = log
        .lines()
        .filter(|line| line.contains(&input))
        .filter_map(|line| line.rsplit_once("= ")?.1.trim().parse::<usize>().ok())
        .sum();
    assert!(
        read >= packed.len() - 4096 && read <= packed.len() + (1 << 20),
        "{read} bytes of {} were read",
        packed.len()
    );
}

/// In every form of file, a kernel selects exactly the code objects that `kernels` lists it for.
#[test]
fn a_kernel_leads_to_the_code_objects_that_define_it() {
    let (first, second) = (kernels::bundle(), kernels::changed_bundle());
    let packed = formats::compressed(3, 1, &second);
    let library = Elf::LIBRARY.write(&[Section::new(".hip_fatbin", &second).aligned(4096)]);
    let files = [
        ("bundle", first.clone()),
        ("row", [&first[..], &vec![0; 4096 - first.len() % 4096], &packed].concat()),
        ("lib.a", archive(&[("x.o", &library), ("y", &packed)])),
        ("in.whl", zip(&[Zipped::new("lib.so", DEFLATED, &library), Zipped::new("b", STORED, &first)])),
    ];
    for (name, data) in &files {
        let file = [(*name, &data[..])];
        let document = kernels::kernels_of(&tool(&["kernels", "--json", name], &file).stdout);
        let rows = document["kernels"].as_array().unwrap();
        let names: BTreeSet<&str> = rows.iter().map(|row| row["mangled_name"].as_str().unwrap()).collect();
        assert!(names.len() > 2, "{name}: {names:?}");
        for kernel in names {
            let is_it = |row: &&Value| row["mangled_name"].as_str() == Some(kernel);
            let expected: Vec<&Value> = rows.iter().filter(is_it).map(|row| &row["uri"]).collect();
            let demangled = rows.iter().find(is_it).unwrap()["name"].as_str().unwrap();
            for spelling in [kernel, demangled] {
                let exact = format!("={spelling}");
                let outcome = tool(&["extract", name, "-n", "--json", "--kernel", &exact], &file);
                assert_eq!((outcome.status, outcome.stderr_text().as_str()), (0, ""), "{name} {spelling}");
                let document: Value = serde_json::from_slice(&outcome.stdout).unwrap();
                let written = document["code_objects"].as_array().unwrap().iter().map(|row| &row["uri"]);
                // Each run has a new directory.
                let tail = |uri: &Value| uri.as_str().unwrap().rsplit('/').next().unwrap().to_owned();
                let expected: Vec<String> = expected.iter().map(|uri| tail(uri)).collect();
                assert_eq!(written.map(tail).collect::<Vec<_>>(), expected, "{name} {spelling}");
            }
        }
    }
}

#[test]
fn kernels_narrow_what_targets_and_runtimes_choose() {
    let data = kernels::bundle();
    let names = |args: &[&str]| extract(args, &data).into_keys().collect::<Vec<_>>();
    let fill = ["--kernel", "fill(float*, int)"];
    let one = names(&fill);
    assert!(matches!(&one[..], [name] if name.contains("gfx90a")), "{one:?}");
    assert_eq!(names(&[&fill[..], &["-t", "gfx90a:xnack-"]].concat()), one);
    // Several typed names can mean one kernel.
    let twice = ["--kernel", "=fill(float*, int)", "--kernel", "=fill(float*, int).kd", "--kernel", "fill(float*,int)"];
    assert_eq!(names(&twice), one);
    assert_eq!(names(&[&fill[..], &["-t", "gfx90a:xnack-", "--as-runtime"]].concat()), one);
    for (args, text) in [
        (vec!["--kernel", "nothing"], "no code object defines a kernel 'nothing'"),
        ([&fill[..], &["--kernel", "nothing"]].concat(), "no code object defines a kernel 'nothing'"),
        (
            vec!["--kernel", "fill*", "--kernel", "_Z3fooPfi", "-t", "gfx90a:xnack-", "--as-runtime"],
            "no code object defines a kernel '_Z3fooPfi'",
        ),
        ([&fill[..], &["-t", "sm_80"]].concat(), "no code object defines a kernel 'fill(float*, int)'"),
        ([&fill[..], &["-t", "gfx1030"]].concat(), "no code object matches 'gfx1030'"),
    ] {
        let outcome = tool(&[&["extract", "in"][..], &args].concat(), &[("in", &data)]);
        assert!(outcome.status == 1 && outcome.stderr_text().contains(text), "{args:?}: {}", outcome.stderr_text());
        assert_eq!(written(&outcome, &["in"]).len(), 0);
    }
    // Code whose kernels cannot be read may define it.
    let mut damaged = fixture("kernels/llvm22-gfx90a.elf");
    let note = memchr::memmem::find(&damaged, b"amdhsa.kernels").unwrap() + 14;
    damaged[note] = 0xc1;
    let ids = ["hip-amdgcn-amd-amdhsa--gfx90a:xnack-", "hip-amdgcn-amd-amdhsa--gfx90a:xnack+"];
    let code = fixture("kernels/llvm22-gfx90a.elf");
    let data = formats::binary(&[(HOST, b""), (ids[0], &code), (ids[1], &damaged)], 64);
    let outcome = tool(&[&["extract", "in"], &fill[..]].concat(), &[("in", &data)]);
    let text = "the kernels of 'hip-amdgcn-amd-amdhsa--gfx90a:xnack+' cannot be read";
    assert!(outcome.status == 1 && outcome.stderr_text().contains(text), "{}", outcome.stderr_text());
    assert_eq!(extract(&[&fill[..], &["-t", "gfx90a:xnack-"]].concat(), &data).len(), 1);
}

/// `sm_80+ptx` and `ptx` mean the same for each option that takes targets, and for `--expect`.
#[test]
fn names_with_ptx_mean_in_targets_what_they_mean_in_expect() {
    use crate::properties::code_objects::{self, Kernel};
    use crate::properties::fatbins;
    let text = |sm: u32| format!(".version 8.7\n.target sm_{sm}\n.address_size 64\n.visible .entry k()\n{{ret;}}\n\0");
    let ptx = |sm: u32| fatbins::Code {
        options: Some(Vec::new()),
        ..fatbins::Code::new(fatbins::PTX, sm, text(sm).as_bytes())
    };
    let cubin = |sm: u32| fatbins::Code::new(fatbins::CUBIN, sm, &code_objects::cubin(&[Kernel::named("k")]));
    let fatbin = |codes: &[fatbins::Code]| fatbins::fatbin(&codes.iter().map(fatbins::entry).collect::<Vec<_>>());
    let (all, machine_code) = (fatbin(&[cubin(80), ptx(80), cubin(86), ptx(75)]), fatbin(&[cubin(80)]));
    let targets = |text: &str| {
        let names = regex_lite::Regex::new("(sm|compute)_[0-9]+").unwrap();
        names.find_iter(text).map(|name| name.as_str().to_owned()).collect::<std::collections::BTreeSet<_>>()
    };
    for (typed, expected) in [
        ("sm_80+ptx", &["sm_80", "compute_80"][..]),
        ("A100+ptx", &["sm_80", "compute_80"]),
        ("sm_86,ptx", &["sm_86", "compute_80", "compute_75"]),
        ("PTX", &["compute_80", "compute_75"]),
    ] {
        let expected = expected.iter().map(|name| (*name).to_owned()).collect();
        let outcome = tool(&["extract", "-n", "in", "--target", typed], &[("in", &all)]);
        assert_eq!(targets(&String::from_utf8_lossy(&outcome.stdout)), expected, "{typed}: {}", outcome.stderr_text());
        let verified = tool(&["verify", "in", "--expect", typed], &[("in", &all)]);
        let printed = String::from_utf8_lossy(&verified.stdout).into_owned() + &verified.stderr_text();
        let lacks = ["does not serve", "has no PTX", "not the name of a GPU"];
        assert!(!lacks.iter().any(|lack| printed.contains(lack)), "{typed}: {printed}");
    }
    // The file must have both parts.
    let outcome = tool(&["extract", "-n", "in", "--target", "sm_86+ptx"], &[("in", &all)]);
    assert!(outcome.stderr_text().contains("'compute_86'"), "{}", outcome.stderr_text());
    let outcome = tool(&["extract", "-n", "in", "--target", "ptx"], &[("in", &machine_code)]);
    assert!(outcome.stderr_text().contains("'ptx'") && outcome.status == 1, "{}", outcome.stderr_text());
    let verified = tool(&["verify", "in", "--expect", "ptx"], &[("in", &machine_code)]);
    assert!(String::from_utf8_lossy(&verified.stdout).contains(": it has no PTX; it has code for sm_80"));
    let kept = tool(&["recompress", "in", "-o", "out", "--drop", "ptx"], &[("in", &all)]).files["out"].clone();
    let listed = tool(&["inspect", "in"], &[("in", &kept)]).stdout;
    assert_eq!(targets(&String::from_utf8_lossy(&listed)), targets("sm_80 sm_86"));
}

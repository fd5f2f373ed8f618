//! Names of kernels in options: one that equals that of a kernel means this kernel, whatever characters it has.

use std::collections::BTreeSet;
use std::fs;

use super::*;
use crate::machine::memory_directory;
use crate::properties::code_objects::{Kernel, amd};
use crate::reference::formats;

/// Names of kernels with every kind of wildcard.
const NAMES: [&str; 14] = [
    "k*",
    "k",
    "kx",
    "k?",
    "k??",
    "k[x]",
    "k[",
    "*",
    "?",
    "[k]*",
    "_Z1kIPfEvT_",
    "_Z1kIfEvT_",
    "void k<float*>",
    "k(float*)",
];

/// Code objects with some of the names each, in a bundle of GPUs with their numbers.
fn code() -> (Vec<u8>, Vec<Vec<&'static str>>) {
    let held: Vec<Vec<&str>> = (0..NAMES.len()).map(|at| vec![NAMES[at], NAMES[(at * 5 + 2) % NAMES.len()]]).collect();
    let of = |names: &Vec<&str>| amd(&names.iter().map(|name| Kernel::named(name)).collect::<Vec<_>>());
    let codes: Vec<Vec<u8>> = held.iter().map(of).collect();
    let ids: Vec<String> =
        (0..codes.len()).map(|number| format!("hip-amdgcn-amd-amdhsa--gfx{}", 2000 + number)).collect();
    let entries: Vec<(&str, &[u8])> = ids.iter().map(String::as_str).zip(codes.iter().map(Vec::as_slice)).collect();
    (formats::binary(&entries, 8), held)
}

/// The numbers of the code objects that a text names.
fn numbers(text: &str) -> BTreeSet<usize> {
    let gpus = regex_lite::Regex::new("gfx2(0[0-9]{2})").unwrap();
    gpus.captures_iter(text).map(|gpu| gpu[1].parse().unwrap()).collect()
}

#[test]
fn a_name_that_equals_that_of_a_kernel_is_that_kernel() {
    let (bundle, held) = code();
    let dir = memory_directory();
    fs::write(dir.path().join("in"), &bundle).unwrap();
    let demangled = |name: &str| match name {
        "_Z1kIPfEvT_" => "void k<float*>(float*)".to_owned(),
        "_Z1kIfEvT_" => "void k<float>(float)".to_owned(),
        name => name.to_owned(),
    };
    let typed = NAMES.iter().map(|name| (*name, *name)).chain([
        ("_Z1kIPfEvT_", "void k<float*>(float*)"),
        ("_Z1kIPfEvT_", "void k<float *>(float *)"),
        ("void k<float*>", "void k<float *>"),
    ]);
    for (name, typed) in typed {
        let expected: BTreeSet<usize> = (0..held.len()).filter(|number| held[*number].contains(&name)).collect();
        assert!(!expected.is_empty() && expected.len() < held.len());
        // A name without wildcards is also a part of other names, unless it is exact.
        let has_wildcards = typed.contains(['*', '?', '[']);
        let exact = format!("={typed}");
        for selector in [&exact[..], typed].into_iter().take(if has_wildcards { 2 } else { 1 }) {
            let (status, out, said) =
                text(&tool_in(dir.path(), &["extract", "-n", "in", "-o", ".", "--kernel", selector]));
            assert_eq!((status, numbers(&out)), (0, expected.clone()), "{selector}: {said}");
            let (status, out, said) = text(&tool_in(dir.path(), &["kernels", "--json", "in", "--name", selector]));
            assert_eq!(status, 0, "{selector}: {said}");
            let listed = kernels::kernels_of(out.as_bytes());
            let names =
                listed["kernels"].as_array().unwrap().iter().map(|kernel| kernel["name"].as_str().unwrap().to_owned());
            assert_eq!(names.collect::<BTreeSet<_>>(), BTreeSet::from([demangled(name)]), "{selector}");
        }
        fs::write(dir.path().join("list"), typed).unwrap();
        let keep = ["recompress", "in", "-o", "out", "--keep-kernels", "list"];
        let (status, _, said) = text(&tool_in(dir.path(), &keep));
        assert_eq!(status, 0, "{typed}: {said}");
        let (_, out, _) = text(&tool_in(dir.path(), &["inspect", "out"]));
        assert_eq!(numbers(&out), expected, "{typed}");
    }
    // Other names are parts and patterns, and mean the same for each option.
    for (pattern, matching) in [
        ("k?*", &["k*", "kx", "k?", "k??", "k[x]", "k[", "k(float*)"][..]),
        ("[!k]", &["*", "?"]),
        ("(float *", &["_Z1kIPfEvT_", "k(float*)"]),
        ("[x", &["k[x]"]),
        ("_Z1kIf", &["_Z1kIfEvT_"]),
    ] {
        let expected: BTreeSet<usize> =
            (0..held.len()).filter(|number| held[*number].iter().any(|name| matching.contains(name))).collect();
        let (_, out, said) = text(&tool_in(dir.path(), &["extract", "-n", "in", "-o", ".", "--kernel", pattern]));
        assert_eq!(numbers(&out), expected, "{pattern}: {said}");
        let (_, out, said) = text(&tool_in(dir.path(), &["kernels", "in", "--name", pattern]));
        let listed: BTreeSet<usize> = numbers(&out);
        assert_eq!(listed, expected, "{pattern}: {said}");
    }
}

//! Tests of `diff` on pairs of files that differ in one way each.

use std::fs;

use crate::machine::memory_directory;
use serde_json::Value;

use super::*;
use crate::properties::code_objects::{self, Kernel, amd};
use crate::properties::make::{DEFLATED, Elf, STORED, Section, Zipped, archive, zip};
use crate::reference::formats;
use crate::reference::harness::Random;

const GFX1030: &str = "hip-amdgcn-amd-amdhsa--gfx1030";

/// A code object with a kernel that spills.
pub fn code(name: &str, spills: u32) -> Vec<u8> {
    let kernel = |name: &str| Kernel { vgprs: 24, code_size: 256, ..Kernel::named(name) };
    amd(&[Kernel { vgpr_spills: spills, ..kernel(name) }, kernel("other")])
}

/// A bundle with such a code object for each ID.
fn bundle(entries: &[(&str, &[u8])]) -> Vec<u8> {
    formats::binary(entries, 64)
}

fn library(section: &[u8]) -> Vec<u8> {
    Elf::LIBRARY.write(&[Section::new(".hip_fatbin", section)])
}

/// Runs `diff` on two files.
fn diff(args: &[&str], old: &[u8], new: &[u8]) -> Outcome {
    tool(&[&["diff", "old", "new"], args].concat(), &[("old", old), ("new", new)])
}

/// The report for programs, checked against its schema.
fn report(outcome: &Outcome) -> Value {
    let document: Value = serde_json::from_slice(&outcome.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&outcome.stdout)));
    schema::check("diff", &document);
    document
}

/// The numbers of code objects that are equal, changed, added and removed.
fn counts(document: &Value) -> [u64; 4] {
    let counts = &document["summary"]["code_objects"];
    ["equal", "changed", "added", "removed"].map(|name| counts[name].as_u64().unwrap())
}

/// Returns these numbers and the report for two files that can be read.
fn numbers(old: &[u8], new: &[u8]) -> ([u64; 4], Value) {
    let outcome = diff(&["--json"], old, new);
    assert_eq!((outcome.status, outcome.stderr_text().as_str()), (0, ""));
    let document = report(&outcome);
    (counts(&document), document)
}

#[test]
fn equal_code_objects_are_only_counted_in_whatever_form_and_order() {
    let [a, b, c] = ["a", "b", "c"].map(|name| code(name, 0));
    let (first, second) = (bundle(&[(HOST, b""), (GFX906, &a), (GFX90A, &b)]), bundle(&[(GFX906, &c)]));
    let [packed_first, packed_second] = [&first, &second].map(|bundle| formats::compressed(3, 1, bundle));
    let plain = library(&[&first[..], &second].concat());
    for (what, other, by_hash) in [
        ("the same", plain.clone(), 0),
        ("another order", library(&[&bundle(&[(GFX90A, &b), (GFX906, &c)])[..], &bundle(&[(GFX906, &a)])].concat()), 0),
        ("compressed", library(&[&packed_first[..], &packed_second].concat()), 0),
        ("another container", [&second[..], &first].concat(), 0),
        ("an archive", archive(&[("x.o", &library(&second)), ("y.o", &packed_first)]), 0),
    ] {
        for (old, new) in [(&plain, &other), (&other, &plain)] {
            let (numbers, document) = numbers(old, new);
            assert_eq!(numbers, [3, 0, 0, 0], "{what}");
            assert_eq!(document["summary"]["equal_by_hash"], by_hash, "{what}");
            assert!(document["files"].as_array().unwrap().is_empty(), "{what}");
        }
        let out = String::from_utf8(diff(&[], &plain, &other).stdout).unwrap();
        assert!(out.starts_with("old -> new: no differences in device code; code objects compared: 3\n"), "{out}");
        assert_eq!(out.lines().count() > 1, ["compressed", "an archive"].contains(&what), "{out}");
    }
    // If it is trusted, the hash in the header decides, even if the method and the order are others.
    let other = library(&[&formats::compressed(2, 0, &second)[..], &packed_first].concat());
    let packed = library(&[&packed_first[..], &packed_second].concat());
    for (args, by_hash) in [(&["--json", "--trust-hashes"][..], 3), (&["--json"], 0)] {
        let document = report(&diff(args, &packed, &other));
        assert_eq!((counts(&document), &document["summary"]["equal_by_hash"]), ([3, 0, 0, 0], &Value::from(by_hash)));
    }
    let out = String::from_utf8(diff(&["--trust-hashes"], &packed, &other).stdout).unwrap();
    assert!(out.ends_with("\nequal by their recorded hash or checksum only, not read: 3 code objects\n"), "{out}");
}

#[test]
fn claims_of_broken_files_make_nothing_equal() {
    let [a, b] = ["a", "b"].map(|name| bundle(&[(GFX906, &code(name, 0))]));
    let [packed, other] = [&a, &b].map(|bundle| formats::compressed(3, 1, bundle));
    // A hash is checked even if the other file has nothing that could be equal.
    let mut broken = packed.clone();
    broken[24] ^= 1;
    let elsewhere = bundle(&[(GFX90A, &code("a", 0)[..100])]);
    for (old, new) in [(&broken, &elsewhere), (&elsewhere, &broken)] {
        let outcome = diff(&[], old, new);
        assert!(outcome.status == 1 && outcome.stderr_text().contains("hash"), "{outcome:?}");
        assert_eq!(diff(&["--trust-hashes"], old, new).status, 0);
    }
    // A changed content keeps the hash.
    let mut lying = other;
    lying[24..32].copy_from_slice(&packed[24..32]);
    let wheel = |method, changed: bool| {
        let mut member = Zipped::new("a.so", method, &library(&a));
        if changed {
            member.stored = Zipped::new("a.so", method, &library(&b)).stored;
        }
        zip(&[member])
    };
    for (what, old, new) in [
        ("a hash", packed, lying),
        ("a deflated member", wheel(DEFLATED, false), wheel(DEFLATED, true)),
        ("a stored member", wheel(STORED, false), wheel(STORED, true)),
    ] {
        for (old, new) in [(&old, &new), (&new, &old), (&new, &new)] {
            let outcome = diff(&[], old, new);
            assert!(outcome.status == 1 && !outcome.stderr.is_empty(), "{what}: {outcome:?}");
        }
        assert_eq!(diff(&[], &old, &old).status, 0, "{what}");
        let trusting = diff(&["--trust-hashes"], &old, &new);
        let out = String::from_utf8(trusting.stdout).unwrap();
        assert!(trusting.status == 0 && out.ends_with("only, not read: 1 code object\n"), "{what}: {out}");
    }
}

#[test]
fn changed_code_objects_are_found_with_their_kernels() {
    let (before, after, same) = (code("_Z4fillPf", 0), code("_Z4fillPf", 3), code("same", 0));
    let old = bundle(&[(GFX906, &same), (GFX90A, &before)]);
    let new = bundle(&[(GFX906, &same), (GFX90A, &after)]);
    for (what, old, new) in [
        ("plain", old.clone(), new.clone()),
        ("compressed", formats::compressed(3, 1, &old), formats::compressed(3, 1, &new)),
        ("one compressed", old.clone(), formats::compressed(3, 1, &new)),
        ("in a library", library(&old), library(&new)),
        (
            "in a wheel",
            zip(&[Zipped::new("a", DEFLATED, &library(&old))]),
            zip(&[Zipped::new("a", DEFLATED, &library(&new))]),
        ),
        ("in an archive", archive(&[("x", &old)]), archive(&[("x", &new)])),
    ] {
        let (numbers, document) = numbers(&old, &new);
        assert_eq!(numbers, [1, 1, 0, 0], "{what}");
        let file = &document["files"][0];
        assert_eq!(file["code_objects"][0]["new"]["entry_id"], GFX90A, "{what}");
        let kernels = file["kernels"].as_array().unwrap();
        assert_eq!(kernels.len(), 1, "{what}");
        let of = |version: &str| kernels[0][version]["vgpr_spills"].as_u64();
        assert_eq!(
            (&kernels[0]["name"], of("old"), of("new")),
            (&Value::from("fill(float*)"), Some(0), Some(3)),
            "{what}"
        );
        assert_eq!((&kernels[0]["spills_more"], &document["summary"]["kernels"]["equal"]), (&true.into(), &1.into()));
    }
}

#[test]
fn kernels_that_moved_to_another_code_object_are_the_same_kernels() {
    let of =
        |names: &[&str]| amd(&names.iter().map(|name| Kernel { vgprs: 8, ..Kernel::named(name) }).collect::<Vec<_>>());
    let pair =
        |first: &[&str], second: &[&str]| [bundle(&[(GFX906, &of(first))]), bundle(&[(GFX906, &of(second))])].concat();
    // The order of the translation units changes, and a kernel moves.
    let (numbers, document) = numbers(&pair(&["a", "b", "c"], &["x", "y"]), &pair(&["x", "y", "c"], &["a", "b"]));
    assert_eq!(numbers, [0, 2, 0, 0]);
    let summary = &document["summary"]["kernels"];
    assert_eq!((&summary["equal"], &summary["added"], &summary["removed"]), (&5.into(), &0.into(), &0.into()));
    let sizes = document["files"][0]["code_objects"].as_array().unwrap();
    let of = |number: usize| (sizes[number]["old"]["bundle"].as_u64(), sizes[number]["new"]["bundle"].as_u64());
    assert_eq!((of(0), of(1)), ((Some(0), Some(1)), (Some(1), Some(0))));
}

#[test]
fn lost_gpus_fail_if_that_is_asked_for() {
    let [a, b] = ["a", "b"].map(|name| code(name, 0));
    let both = bundle(&[(GFX906, &a), (GFX90A, &b)]);
    let one = bundle(&[(GFX90A, &b)]);
    let fails = |old: &[u8], new: &[u8]| {
        let plain = diff(&["--json"], old, new);
        assert_eq!(plain.status, 0, "{}", plain.stderr_text());
        let outcome = diff(&["--json", "--fail-on=lost-gpu"], old, new);
        let reasons = report(&outcome)["failures"].as_array().unwrap().clone();
        assert_eq!(outcome.status, i32::from(!reasons.is_empty()));
        assert_eq!(outcome.stderr_text().lines().count(), reasons.len());
        reasons.iter().map(|reason| reason["reason"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(fails(&both, &one), ["no code for gfx906 any longer, before 1 code object"]);
    assert_eq!(fails(&one, &both), [""; 0]);
    // One of two bundles serves it, where both did.
    let partly = [&both[..], &one].concat();
    let whole = [&both[..], &both].concat();
    assert_eq!(fails(&whole, &partly), ["1 of 2 bundles of 'new' serve gfx906, before 2 of 2 bundles"]);
    let selected = diff(&["--fail-on=lost-gpu", "-t", "gfx906"], &whole, &partly);
    assert_eq!(selected.status, 1, "{}", selected.stderr_text());
    // In one library of a wheel, which has it in another one.
    let wheel =
        |second: &[u8]| zip(&[Zipped::new("a.so", DEFLATED, &library(&both)), Zipped::new("b.so", STORED, second)]);
    assert_eq!(
        fails(&wheel(&library(&both)), &wheel(&library(&one))),
        ["no bundle of 'new(b.so)' serves gfx906 any longer, before 1 of 1 bundle"]
    );
    // Code for a generic target still serves it.
    let generic = bundle(&[("hip-amdgcn-amd-amdhsa--gfx9-generic", &a), (GFX90A, &b)]);
    assert_eq!(fails(&both, &generic), [""; 0]);
    let document = report(&diff(&["--json"], &both, &generic));
    assert_eq!(document["gpus"].as_array().unwrap().iter().filter(|gpu| gpu["presence"] == "replaced").count(), 1);
    let out = String::from_utf8(diff(&[], &both, &one).stdout).unwrap();
    assert!(out.contains("\n  GPUs lost: gfx906\n"), "{out}");
    let out = String::from_utf8(diff(&[], &one, &both).stdout).unwrap();
    assert!(out.contains("\n  GPUs gained: gfx906\n"), "{out}");
}

#[test]
fn spills_fail_if_that_is_asked_for() {
    let status = |old: &[u8], new: &[u8]| {
        let outcome = diff(&["--fail-on", "spill"], old, new);
        (outcome.status, outcome.stderr_text())
    };
    let one = |name, spills| bundle(&[(GFX90A, &code(name, spills))]);
    let (failed, reason) = status(&one("a", 1), &one("a", 2));
    assert!(
        failed == 1 && reason.contains("1 kernel spills more registers on gfx90a, 2 (before 1) in 'a'"),
        "{reason}"
    );
    assert_eq!(status(&one("a", 2), &one("a", 2)), (0, String::new()));
    // A GPU that the old file has no code for.
    let with_other = bundle(&[(GFX90A, &code("a", 1)), (GFX1030, &code("a", 9))]);
    assert_eq!(status(&one("a", 1), &with_other), (0, String::new()));
}

#[test]
fn growth_fails_if_that_is_asked_for() {
    let files = |small: usize, large: usize| bundle(&[(GFX906, &vec![b'x'; small]), (GFX90A, &vec![b'y'; large])]);
    let (old, new) = (files(100, 10_000), files(200, 10_000));
    for (conditions, reasons) in [
        ("size=+20%", &["size: device code for gfx906 grew by more than 20 %, from 100 B to 200 B"][..]),
        ("lost-gpu,total=+0%", &["total: all device code grew by more than 0 %, from 10.1 kB to 10.2 kB"]),
    ] {
        let outcome = diff(&["--fail-on", conditions], &old, &new);
        let expected: String =
            reasons.iter().map(|reason| format!("clang-offload-bundler diff: error: {reason}\n")).collect();
        assert_eq!((outcome.status, outcome.stderr_text()), (i32::from(!reasons.is_empty()), expected), "{conditions}");
        let document = report(&diff(&["--json", "--fail-on", conditions], &old, &new));
        assert_eq!(document["failures"].as_array().unwrap().len(), reasons.len(), "{conditions}");
    }
}

/// A library with the same CUDA kernels in linked and in relocatable code.
fn cuda_library(linked: &[Kernel], relocatable: &[Kernel]) -> Vec<u8> {
    use crate::properties::fatbins;
    let [linked, relocatable] = [linked, relocatable].map(|kernels| {
        fatbins::fatbin(&[fatbins::entry(&fatbins::Code::new(fatbins::CUBIN, 80, &code_objects::cubin(kernels)))])
    });
    Elf::LIBRARY.write(&[
        Section::new(".nv_fatbin", &linked).aligned(8),
        Section::new("__nv_relfatbin", &relocatable).aligned(8),
    ])
}

#[test]
fn a_kernel_in_relocatable_and_linked_code_has_one_row_and_two_in_json() {
    let kernel = |name: &str, vgprs: u32, lds: u32| Kernel { vgprs, lds, code_size: 256, ..Kernel::named(name) };
    let library = |vgprs: u32| {
        // Shared memory is known only after linking. The kernel `apart` differs otherwise, too.
        let linked = [kernel("same", vgprs, 64), kernel("apart", vgprs, 0), kernel("once", vgprs, 0)];
        let relocatable = [kernel("same", vgprs, 0), kernel("apart", vgprs + 1, 0)];
        cuda_library(&linked, &relocatable)
    };
    let (old, new) = (library(10), library(20));
    let outcome = diff(&[], &old, &new);
    let out = String::from_utf8(outcome.stdout).unwrap();
    let head = "  kernels: 5 changed; not listed: 1 of relocatable code that linked code has too\n";
    let rows = "    GPU        VGPR  FILE              KERNEL\n    \
                sm_80  10 -> 20  (.nv_fatbin)      same\n    \
                sm_80  10 -> 20  (.nv_fatbin)      apart\n    \
                sm_80  10 -> 20  (.nv_fatbin)      once\n    \
                sm_80  11 -> 21  (__nv_relfatbin)  apart\n";
    assert!(out.ends_with(&(head.to_owned() + rows)), "{out}");
    let document = report(&diff(&["--json"], &old, &new));
    assert_eq!(document["files"][0]["kernels"].as_array().unwrap().len(), 5);
}

#[test]
fn the_table_of_kernels_leaves_out_the_wheel_and_the_common_directory() {
    let wheel = |spills: u32| {
        let library = library(&bundle(&[(GFX906, &code("k", spills))]));
        zip(&["pack/lib/a.so", "pack/lib/b.so"].map(|name| Zipped::new(name, DEFLATED, &library)))
    };
    let table = |args: &[&str]| {
        let outcome = diff(args, &wheel(0), &wheel(3));
        let out = String::from_utf8(outcome.stdout).unwrap();
        let at = out.find("  kernels:").unwrap_or_else(|| panic!("{out}"));
        out[at..].to_owned()
    };
    assert_eq!(
        table(&[]),
        "  kernels: 2 changed, 2 without a difference in numbers; in files of pack/lib/:\n    \
         GPU     VSPILL  FILE               KERNEL\n    \
         gfx906  0 -> 3  a.so(.hip_fatbin)  k\n    \
         gfx906  0 -> 3  b.so(.hip_fatbin)  k\n"
    );
    let first = table(&["--top=1"]);
    let head =
        "  kernels: 2 changed, 2 without a difference in numbers; the first 1, all in pack/lib/a.so(.hip_fatbin):\n";
    assert!(first.starts_with(head), "{first}");
}

#[test]
fn invalid_command_lines_are_usage_errors() {
    for (args, text) in [
        (&["--fail-on=lost"][..], "the conditions are lost-gpu, spill, size=+N%"),
        (&["--fail-on=spill,"], "the conditions are lost-gpu, spill, size=+N%"),
        (&["--fail-on=size"], "by how much may it grow?"),
        (&["--fail-on=size=5 percent"], "expected a whole number of percent, such as size=+5%"),
        (&["--fail-on=total"], "by how much may it grow? expected total=+5%"),
        (&["--top=x"], "invalid value 'x'"),
        (&["third"], "unexpected argument 'third'"),
    ] {
        let outcome = diff(args, b"", b"");
        assert!(outcome.status == 2 && outcome.stderr_text().contains(text), "{args:?}: {}", outcome.stderr_text());
    }
    assert_eq!(tool(&["diff", "old"], &[("old", b"")]).status, 2);
    let outcome = tool(&["diff", "old", "."], &[("old", b"")]);
    assert!(outcome.status == 1 && outcome.stderr_text().contains("cannot compare a directory with a file"));
}

#[test]
fn wheels_are_compared_member_by_member() {
    let [a, b, c] = ["a", "b", "c"].map(|name| library(&bundle(&[(GFX906, &code(name, 0))])));
    let wheel = |members: &[(&str, &[u8])]| {
        zip(&members.iter().map(|(name, data)| Zipped::new(name, DEFLATED, data)).collect::<Vec<_>>())
    };
    let old = wheel(&[("l/a.so", &a), ("l/b.so.1.0", &b), ("p-1.dist-info/RECORD", b"old")]);
    let new = wheel(&[("l/b.so.1.1", &c), ("l/a.so", &a), ("p-2.dist-info/RECORD", b"new")]);
    let (numbers, document) = numbers(&old, &new);
    assert_eq!((numbers, &document["summary"]["equal_by_checksum"]), ([1, 1, 0, 0], &0.into()));
    let document = report(&diff(&["--json", "--trust-hashes"], &old, &new));
    assert_eq!((counts(&document), &document["summary"]["equal_by_checksum"]), ([1, 1, 0, 0], &1.into()));
    let changed = &document["files"][0]["code_objects"][0];
    assert_eq!((&changed["old"]["member"], &changed["new"]["member"]), (&"l/b.so.1.0".into(), &"l/b.so.1.1".into()));
    // Equal code objects count for both files.
    let sizes = &document["gpus"][0];
    assert_eq!((&sizes["old"]["code_objects"], &sizes["new"]["code_objects"]), (&2.into(), &2.into()));
    let out = String::from_utf8(diff(&["--trust-hashes"], &old, &new).stdout).unwrap();
    assert!(out.contains("1 changed, 1 equal\n") && out.ends_with("only, not read: 1 code object\n"), "{out}");
}

#[test]
fn directories_are_compared_file_by_file() {
    let [a, b, c] = ["a", "b", "c"].map(|name| bundle(&[(GFX906, &code(name, 0))]));
    let dir = memory_directory();
    for (path, data) in [
        ("old/same.so", &a),
        ("old/sub/only.so", &b),
        ("old/lib.so.1.2", &b),
        ("new/same.so", &a),
        ("new/lib.so.1.3", &c),
        ("new/added.so", &c),
        ("old/none", &b"text".to_vec()),
    ] {
        let path = dir.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, data).unwrap();
    }
    let run = |args: &[&str]| text(&tool_in(dir.path(), &[&["diff", "old", "new"], args].concat()));
    let (status, out, err) = run(&["-r"]);
    assert_eq!((status, err.as_str()), (0, ""));
    for line in [
        "old -> new: code objects: 1 changed, 1 added, 1 removed, 1 equal",
        "  added.so: only in the new directory, 1 code object",
        "  lib.so.1.3: 1 changed",
        "  sub/only.so: only in the old directory, 1 code object",
    ] {
        assert!(out.lines().any(|printed| printed == line), "{line}: {out}");
    }
    let (_, out, _) = run(&[]);
    assert!(!out.contains("only.so") && out.contains("added.so"), "{out}");
    // The GPU is still there.
    assert_eq!(run(&["-r", "--fail-on=lost-gpu"]).0, 0);
    let (status, out, _) = run(&["-r", "--json"]);
    let document: Value = serde_json::from_str(&out).unwrap();
    schema::check("diff", &document);
    assert_eq!((status, counts(&document)), (0, [1, 1, 1, 1]));
}

#[test]
fn broken_parts_are_problems_and_the_rest_is_compared() {
    let whole = bundle(&[(GFX906, &code("a", 0)), (GFX90A, &code("b", 0))]);
    let packed = formats::compressed(3, 1, &whole);
    let mut broken = formats::compressed(3, 1, &bundle(&[(GFX906, &code("a", 0)), (GFX90A, &code("c", 0))]));
    let end = broken.len() - 20;
    broken[end] ^= 0x55;
    for (old, new, equal) in [
        (&whole, &whole[..whole.len() - 1000], 0),
        (&packed, &broken, 0),
        (&whole, &[&whole[..], &whole[..100]].concat()[..], 2),
    ] {
        let outcome = diff(&["--json"], old, new);
        let problem = outcome.stderr_text();
        assert_eq!((outcome.status, problem.lines().count()), (1, 1), "{problem}");
        assert!(problem.contains("'new'"), "{problem}");
        assert_eq!(counts(&report(&outcome))[0], equal, "{problem}");
    }
    for missing in [["diff", "old", "none"], ["diff", "none", "old"]] {
        let outcome = tool(&missing, &[("old", &whole)]);
        assert_eq!(outcome.status, 1);
        assert!(outcome.stderr_text().contains("'none': No such file or directory"), "{}", outcome.stderr_text());
    }
}

#[test]
fn the_worst_kernels_come_first() {
    let of = |worse: u32| {
        let mut kernels = ["code", "spills"].map(|name| Kernel { vgpr_spills: 10, ..Kernel::named(name) });
        kernels[0].code_size = 100 + worse;
        kernels[1].vgpr_spills += worse;
        bundle(&[(GFX906, &amd(&kernels))])
    };
    let document = report(&diff(&["--json"], &of(0), &of(1)));
    let kernels = document["files"][0]["kernels"].as_array().unwrap().iter();
    assert_eq!(kernels.map(|kernel| kernel["name"].as_str().unwrap()).collect::<Vec<_>>(), ["spills", "code"]);
    let out = String::from_utf8(diff(&["--top=1"], &of(0), &of(1)).stdout).unwrap();
    assert!(
        out.contains("kernels: 2 changed; the first 1:\n    GPU       VSPILL  KERNEL\n    gfx906  10 -> 11  spills\n"),
        "{out}"
    );
}

#[test]
fn a_library_that_is_left_without_code_has_lost_its_gpus() {
    let (with, without) = (library(&bundle(&[(GFX906, b"code")])), Elf::LIBRARY.write(&[Section::new(".text", b"x")]));
    let wheel = |a: &[u8], name: &str| zip(&[Zipped::new(name, STORED, a), Zipped::new("b.so", DEFLATED, &with)]);
    let status = |new: &[u8]| {
        let outcome = diff(&["--fail-on", "lost-gpu"], &wheel(&with, "a.so.1"), new);
        (outcome.status, outcome.stderr_text())
    };
    let (failed, said) = status(&wheel(&without, "a.so.2"));
    assert!(failed == 1 && said.contains("a.so"), "{said}");
    // Its code may be in another library now.
    assert_eq!(status(&zip(&[Zipped::new("b.so", DEFLATED, &with)])).0, 0);
    assert_eq!(status(&wheel(&with, "lib/a.so")).0, 0);
}

#[test]
fn files_that_moved_are_compared() {
    let dir = memory_directory();
    let put = |path: &str, data: &[u8]| {
        let path = dir.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, data).unwrap();
    };
    let of = |spills: u32| library(&bundle(&[(GFX90A, &code("k", spills))]));
    put("old/lib/liba.so", &of(0));
    put("new/lib64/liba.so", &of(7));
    put("old/foo-1.0-py3-none-any.whl", &zip(&[Zipped::new("k.so", STORED, &of(0))]));
    put("new/foo-1.1-py3-none-any.whl", &zip(&[Zipped::new("k.so", STORED, &of(5))]));
    let run = |args: &[&str]| text(&tool_in(dir.path(), &[&["diff", "-r", "old", "new"], args].concat()));
    let (status, printed, said) = run(&["--fail-on", "spill"]);
    assert!(status == 1 && printed.contains("2 changed") && said.contains("2 kernels"), "{printed}{said}");
    let (status, _, said) = text(&tool_in(dir.path(), &["diff", "-", "-"]));
    assert!(status == 1 && said.contains("only one of the two"), "{said}");
}

#[test]
fn a_target_that_is_in_neither_file_is_an_error() {
    let [a, b] = ["a", "b"].map(|name| code(name, 0));
    let [old, new] = [bundle(&[(GFX906, &a)]), bundle(&[(GFX90A, &b)])];
    for target in ["gfx906", "gfx90a", "gfx906,gfx90a"] {
        for args in [&["-t", target][..], &["-t", target, "--trust-hashes"]] {
            assert_eq!(diff(args, &old, &new).status, 0, "{target}");
        }
    }
    let outcome = diff(&["-t", "gfx90b,gfx906"], &old, &new);
    let error = "no code object matches 'gfx90b' in 2 files; they have: gfx906, gfx90a";
    let expected = format!("clang-offload-bundler diff: error: {error}\nhint: did you mean 'gfx906' or 'gfx90a'?\n");
    assert_eq!((outcome.status, outcome.stderr_text()), (1, expected));
    let outcome = diff(&["-t", "gfx90b", "--allow-none"], &old, &new);
    assert_eq!((outcome.status, outcome.stderr_text().as_str()), (0, ""));
}

/// Libraries that tools for wheels name by a hash of their content.
#[test]
fn a_hash_in_the_name_of_a_library_makes_no_difference() {
    let mut random = Random::new(24);
    let names = ["libnvjpeg", "libnvjpeg2k", "libcufft", "libcufftw", "libz", "libabc-12345678"];
    for number in 0..40 {
        // Some libraries with code that changes, in both files or in one.
        let mut members = [Vec::new(), Vec::new(), Vec::new()];
        for name in names {
            let hash = |random: &mut Random| format!("{:08x}", random.next() & 0xffff_ffff);
            let separator = *random.pick(&["-", "."]);
            let with = |hash: String| format!("a.libs/{name}{separator}{hash}.so.1");
            let (old_name, new_name) = (with(hash(&mut random)), with(hash(&mut random)));
            let content = |spills: usize| {
                library(&bundle(&[(GFX906, &code(name, u32::try_from(spills).unwrap())), (GFX90A, &code(name, 9))]))
            };
            let (old, new) = (content(random.below(3)), content(random.below(3)));
            let is_in = random.below(6);
            if is_in != 0 {
                members[0].push((old_name.clone(), old));
            }
            if is_in != 1 {
                members[1].push((old_name, new.clone()));
                members[2].push((new_name, new));
            }
        }
        let wheel = |members: &[(String, Vec<u8>)]| {
            let members = members.iter().map(|(name, data)| Zipped::new(name, DEFLATED, data));
            zip(&members.collect::<Vec<_>>())
        };
        let [old, kept, renamed] = members.each_ref().map(|members| wheel(members));
        let sums = |new: &[u8]| {
            let (numbers, document) = numbers(&old, new);
            (numbers, document["summary"].clone(), document["gpus"].clone(), document["losses"].clone())
        };
        assert_eq!(sums(&kept), sums(&renamed), "{number}: {:?}", members.each_ref().map(Vec::len));
        let dir = memory_directory();
        for (directory, members) in ["old", "kept", "renamed"].iter().zip(&members) {
            fs::create_dir_all(dir.path().join(directory).join("a.libs")).unwrap();
            members.iter().for_each(|(name, data)| fs::write(dir.path().join(directory).join(name), data).unwrap());
        }
        let sums = |new: &str| {
            let (status, out, said) = text(&tool_in(dir.path(), &["diff", "-r", "--json", "old", new]));
            assert_eq!((status, said.as_str()), (0, ""));
            let document: Value = serde_json::from_str(&out).unwrap();
            (document["summary"].clone(), document["gpus"].clone(), document["files"].as_array().unwrap().len())
        };
        assert_eq!(sums("kept"), sums("renamed"), "{number}");
    }
}

#[test]
fn different_libraries_are_never_taken_for_one_because_of_a_hash() {
    let of = |name: &str| library(&bundle(&[(GFX906, &code(name, 0))]));
    let wheel = |members: &[(&str, &str)]| {
        let data: Vec<Vec<u8>> = members.iter().map(|(_, kernel)| of(kernel)).collect();
        let members = members.iter().zip(&data).map(|((name, _), data)| Zipped::new(name, DEFLATED, data));
        zip(&members.collect::<Vec<_>>())
    };
    for (old, new, changed) in [
        (&[("liba-11111111.so", "k")][..], &[("liba-22222222.so", "j")][..], 1),
        (&[("liba-11111111.so", "k")], &[("liba.so", "j")], 1),
        (&[("liba-11111111.so", "k")], &[("libb-11111111.so", "j")], 0),
        (&[("x/liba-11111111.so", "k")], &[("y/liba-22222222.so", "j")], 0),
        (&[("liba-11111111.so", "k"), ("liba-22222222.so", "j")], &[("liba-33333333.so", "i")], 0),
        (&[("liba-11111111.so", "k")], &[("liba-22222222.so", "j"), ("liba-33333333.so", "i")], 0),
        (&[("liba-11111111.so", "k"), ("liba-2.so", "j")], &[("liba-11111111.so", "i"), ("liba-33333333.so", "h")], 1),
    ] {
        let (numbers, _) = numbers(&wheel(old), &wheel(new));
        assert_eq!(numbers[..2], [0, changed], "{old:?} {new:?}");
    }
}

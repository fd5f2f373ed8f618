//! Tests of `kernels` on samples and on librocrand, compared with the output of `llvm-readelf`.

use crate::machine::memory_directory;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use super::*;
use crate::properties::code_objects::{Argument, Kernel, amd};
use crate::properties::make::{DEFLATED, Elf, Section, Zipped, zip};
use crate::reference::formats;

pub const ELF: &str = "kernels/llvm22-gfx90a.elf";
pub const CUBIN: &str = "kernels/ptxas13-sm_80.cubin";

/// The document printed by `kernels --json`, checked against its schema.
pub fn kernels_of(stdout: &[u8]) -> Value {
    let document: Value =
        serde_json::from_slice(stdout).unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(stdout)));
    schema::check("kernels", &document);
    document
}

/// A bundle with code for both fixtures' GPUs, and PTX.
pub fn bundle() -> Vec<u8> {
    let (elf, cubin) = (fixture(ELF), fixture(CUBIN));
    let ids = [
        HOST,
        "hip-amdgcn-amd-amdhsa--gfx90a:xnack-",
        "hip-nvptx64-nvidia-cuda--sm_80",
        "hip-nvptx64-nvidia-cuda--sm_90",
    ];
    let ptx = b"//\n.version 8.0\n.target sm_90\n";
    formats::binary(&[(ids[0], b""), (ids[1], &elf), (ids[2], &cubin), (ids[3], ptx)], 64)
}

/// Returns that bundle as of another build: one GPU is lost, one is gained, a kernel of the third spills, and one is
/// new.
pub fn changed_bundle() -> Vec<u8> {
    let mut elf = fixture(ELF);
    let spills = memchr::memmem::rfind(&elf, b".vgpr_spill_count").unwrap() + 17;
    elf[spills] = 90;
    let new = super::diff::code("_Z3newv", 1);
    let ids = ["hip-amdgcn-amd-amdhsa--gfx90a:xnack-", "hip-amdgcn-amd-amdhsa--gfx1030"];
    let ptx = b"//\n.version 8.0\n.target sm_90\n";
    let bundle = [(HOST, &b""[..]), (ids[0], &elf), (ids[1], &new), ("hip-nvptx64-nvidia-cuda--sm_90", ptx)];
    [formats::binary(&bundle, 64), formats::binary(&[(ids[0], &new)], 64)].concat()
}

/// The names of the kernels that a command line on the bundle prints as JSON, each with its GPU.
fn listed(args: &[&str]) -> Vec<String> {
    let outcome = tool(&[&["kernels", "--json", "--allow-none", "in"], args].concat(), &[("in", &bundle())]);
    assert_eq!((outcome.status, outcome.stderr_text().as_str()), (0, ""), "{args:?}");
    let document = kernels_of(&outcome.stdout);
    let kernels = document["kernels"].as_array().unwrap().iter();
    kernels.map(|kernel| [&kernel["target_id"], &kernel["name"]].map(|text| text.as_str().unwrap()).join(" ")).collect()
}

/// One search gives the results of two searches: for code objects, with or without `--inflate`, and for kernels.
#[test]
fn kernels_and_code_objects_are_listed_by_one_search() {
    use offload_bundle::inventory::Contents;
    use offload_bundle::io::Input;
    use offload_bundle::job::{Inspect, ListKernels};
    let dir = memory_directory();
    let library = Elf::LIBRARY.write(&[Section::new(".hip_fatbin", &bundle())]);
    let packed = fixture("compressed/llvm22-v3.ccob");
    let members = [Zipped::new("a/lib.so", DEFLATED, &library), Zipped::new("b.ccob", DEFLATED, &packed)];
    let made = [("lib.so", library.clone()), ("in.whl", zip(&members)), ("none", b"text".to_vec())];
    let folders = ["binary", "compressed", "fatbin", "hostile", "kernels", "offload", "sequence", "sycl"];
    let fixtures: Vec<String> = folders.iter().flat_map(|folder| fixtures(folder)).collect();
    let fixtures = fixtures.iter().map(|name| (name.rsplit('/').next().unwrap(), fixture(name)));
    let (mut kernels, mut bundles) = (0, 0);
    for (name, data) in made.into_iter().chain(fixtures) {
        let path = dir.path().join(name);
        fs::write(&path, &data).unwrap();
        let input = Input::read(&path).unwrap();
        let mut job = ListKernels::default();
        for deep in [false, true] {
            job.scan.deep = deep;
            let (inspected, list) = job.run_with_contents(&input).unwrap();
            let only_list = job.run(&input).unwrap();
            let listed = |list: &offload_bundle::job::KernelList| {
                format!("{:?} {:?} {:?}", list.code_objects, list.others, list.seen)
            };
            assert_eq!(listed(&list), listed(&only_list), "{name}");
            // Each problem is either one of the contents or one of the kernels.
            let texts =
                |problems: &[offload_bundle::Error]| problems.iter().map(ToString::to_string).collect::<Vec<_>>();
            let mut together = [texts(&inspected.problems), texts(&list.problems)].concat();
            let mut of_list = texts(&only_list.problems);
            together.sort();
            of_list.sort();
            assert_eq!(together, of_list, "{name}");
            let parts = |inspected: &Contents| {
                let Contents { path, size, bundles, unread, references, problems, .. } = inspected;
                let found = format!("{path:?} {size} {bundles:?} {unread:?} {references:?} {problems:?}");
                format!("{found} {:?}", inspected.coverage().gpus())
            };
            let alone = [false, true].map(|inflate| {
                let mut job = Inspect::default();
                (job.inflate, job.scan.deep) = (inflate, deep);
                parts(&job.run(&input).unwrap())
            });
            assert!(alone.contains(&parts(&inspected)), "{name}: {inspected:?}");
            kernels += list.code_objects.iter().map(|listed| listed.kernels.len()).sum::<usize>();
            bundles += inspected.bundles.len();
        }
    }
    assert!(kernels > 20 && bundles > 50, "{kernels} {bundles}");
}

const FILL: &str = "gfx90a:xnack- fill(float*, int)";
const SPILLS: &str = "gfx90a:xnack- void ns::spills<int>(int*)";
const PLAIN: &str = "gfx90a:xnack- plain";
const STACK: &str = "sm_80 stack";
const BAR: &str = "sm_80 bar";
const FOO: &str = "sm_80 foo(float*, int)";

#[test]
fn kernels_are_selected_by_target_and_name() {
    assert_eq!(listed(&[]), [FILL, SPILLS, PLAIN, STACK, BAR, FOO]);
    for target in ["gfx90a", "gfx90a:xnack-", "gfx*", "hip-amdgcn-amd-amdhsa--gfx90a:xnack-"] {
        assert_eq!(listed(&["--target", target]), [FILL, SPILLS, PLAIN], "{target}");
    }
    assert_eq!(listed(&["-t", "sm_*,gfx90a"]).len(), 6);
    assert_eq!(listed(&["--exact", "-t", "gfx90a"]), [""; 0]);
    for (pattern, expected) in [
        ("spill", &[SPILLS][..]),
        ("_ZN2ns6", &[SPILLS]),
        ("float", &[FILL, FOO]),
        ("*(float\\*, int)", &[]),
        ("*(float[*], int)", &[FILL, FOO]),
        ("_Z3*", &[FOO]),
        ("ba?", &[BAR]),
        ("ba", &[BAR]),
        ("Ba", &[]),
        ("fill(float *", &[FILL]),
        ("=bar", &[BAR]),
        ("=ba", &[]),
        ("=fill(float*, int)", &[FILL]),
        ("=ba?", &[]),
        ("[", &[]),
    ] {
        assert_eq!(listed(&["--name", pattern]), expected, "{pattern}");
    }
    for bad in
        [&["--name="][..], &["--name=="], &["--target="], &["--sort=size"], &["--top=3"], &["--sort=name", "--top=x"]]
    {
        assert_eq!(tool(&[&["kernels", "in"], bad].concat(), &[("in", b"")]).status, 2, "{bad:?}");
    }
}

#[test]
fn a_sort_by_a_column_that_no_kernel_has_is_an_error_that_names_the_others() {
    let bundle = bundle();
    for format in [&[][..], &["--json"], &["--top=1"]] {
        let run = |args: &[&str]| tool(&[&["kernels", "in"], args, format].concat(), &[("in", &bundle)]);
        for key in ["spills", "sgpr"] {
            let outcome = run(&["-t", "sm_80", "--sort", key]);
            let error = format!(
                "clang-offload-bundler kernels: error: no kernel records the column '{key}'; \
                 --sort takes name, gpu, vgpr, scratch, lds, kernarg, group, code\n"
            );
            assert_eq!((outcome.status, outcome.stderr_text(), outcome.stdout), (1, error, Vec::new()), "{format:?}");
            // Kernels of another vendor have it.
            assert_eq!(run(&["--sort", key]).status, 0);
        }
        assert_eq!(run(&["-t", "sm_90", "--sort", "spills"]).status, 0);
    }
    let (_, out, _) = text(&machine_output(&["kernels", "in", "--sort", "spills"], &bundle));
    let rows: Vec<&str> = out.lines().skip(1).take(6).map(str::trim_start).collect();
    assert!(rows[..3].iter().all(|row| row.starts_with("gfx90a")), "{out}");
    assert!(rows[3..].iter().all(|row| row.starts_with("sm_80") && row.contains("  -  ")), "{out}");
}

/// Runs the tool on a file `in`.
fn machine_output(args: &[&str], data: &[u8]) -> std::process::Output {
    let dir = memory_directory();
    fs::write(dir.path().join("in"), data).unwrap();
    tool_in(dir.path(), args)
}

#[test]
fn a_pattern_that_matches_nothing_is_an_error_that_lists_what_there_is() {
    let (bundle, packed) = (bundle(), formats::compressed(3, 1, &bundle()));
    let have = "in 'in'; it has: gfx90a:xnack-, sm_80, sm_90";
    let names = "in 'in'; it has: fill(float*, int), void ns::spills<int>(int*), plain, stack, bar, foo(float*, int)";
    for (args, error) in [
        (&["-t", "gfx9a0"][..], format!("no code object matches 'gfx9a0' {have}\nhint: did you mean 'gfx90a'?")),
        (&["-t", "gfx90a,gfx1030"], format!("no code object matches 'gfx1030' {have}")),
        (
            &["-t", "gfx90a", "--exact"],
            format!(
                "no code object matches 'gfx90a' {have}\nhint: gfx90a runs the code for gfx90a:xnack-: \
                 extract --as-runtime and recompress --keep-for take it"
            ),
        ),
        (&["--name", "axpy"], format!("no kernel matches 'axpy' {names}")),
        (
            &["--name", "fill", "-t", "sm_80"],
            "no kernel matches 'fill' in 'in'; it has: stack, bar, foo(float*, int)".into(),
        ),
        (&["--name", "spilz"], "no kernel matches 'spilz' in 'in'; did you mean 'spills'?".into()),
        (&["--name", "=fill"], "no kernel matches '=fill' in 'in'; did you mean '=fill(float*, int)'?".into()),
        (&["--name", "STACK"], "no kernel matches 'STACK' in 'in'; did you mean 'stack'?".into()),
        (&["--name", "bar", "-t", "sm_90"], "no kernel matches 'bar' in 'in'; it has none".into()),
    ] {
        for data in [&bundle, &packed] {
            let run = |more: &[&str]| tool(&[&["kernels", "in"], args, more].concat(), &[("in", data)]);
            let outcome = run(&[]);
            let expected = format!("clang-offload-bundler kernels: error: {error}\n");
            assert_eq!((outcome.status, outcome.stderr_text()), (1, expected), "{args:?}");
            let outcome = run(&["--allow-none"]);
            assert_eq!((outcome.status, outcome.stderr_text().as_str()), (0, ""), "{args:?}");
        }
    }
    // A target or name may be in only one of several files. A file that cannot be read has nothing to list.
    let (dir, elf) = (memory_directory(), fixture(ELF));
    fs::write(dir.path().join("a"), &elf).unwrap();
    fs::write(dir.path().join("b"), fixture(CUBIN)).unwrap();
    let run = |args: &[&str]| text(&tool_in(dir.path(), &[&["kernels", "."], args].concat()));
    assert_eq!(run(&["-t", "gfx90a,sm_80"]).0, 0);
    assert_eq!(run(&["--name", "plain"]).0, 0);
    let (status, _, said) = run(&["-t", "gfx906"]);
    assert!(status == 1 && said.contains("'gfx906' in 2 files; they have: gfx90a:xnack-, sm_80\n"), "{said}");
    let (status, _, said) = text(&tool_in(dir.path(), &["kernels", "none", "-t", "gfx906", "--name", "x"]));
    assert!(status == 1 && said.lines().count() == 1 && said.contains("'none': No such file"), "{said}");
}

#[test]
fn kernels_are_sorted_over_all_files() {
    for (column, expected) in [
        ("name", [BAR, FILL, FOO, PLAIN, STACK, SPILLS]),
        ("gpu", [FILL, SPILLS, PLAIN, STACK, BAR, FOO]),
        ("vgpr", [SPILLS, FOO, FILL, STACK, BAR, PLAIN]),
        ("agpr", [SPILLS, FILL, FOO, STACK, BAR, PLAIN]),
        ("sgpr", [SPILLS, FILL, PLAIN, FOO, STACK, BAR]),
        ("spills", [SPILLS, FILL, PLAIN, STACK, BAR, FOO]),
        ("scratch", [STACK, SPILLS, FOO, FILL, PLAIN, BAR]),
        ("lds", [SPILLS, FOO, FILL, STACK, BAR, PLAIN]),
        ("kernarg", [FILL, FOO, STACK, SPILLS, BAR, PLAIN]),
        ("group", [FILL, SPILLS, FOO, BAR, PLAIN, STACK]),
        ("code", [FOO, STACK, BAR, SPILLS, FILL, PLAIN]),
    ] {
        assert_eq!(listed(&["--sort", column]), expected, "{column}");
        for top in [0, 1, 4, 6, 7] {
            let wanted: Vec<&str> = expected.into_iter().take(top).collect();
            assert_eq!(listed(&["--sort", column, "--top", &top.to_string()]), wanted, "{column} {top}");
        }
    }
}

#[test]
fn code_objects_without_registers_are_counted() {
    let outcome = tool(&["kernels", "in"], &[("in", &bundle())]);
    let out = String::from_utf8(outcome.stdout).unwrap();
    assert!(out.ends_with("\ncode objects of other kinds, not listed: PTX (1)\n"), "{out}");
    for (name, data) in [("empty", &b""[..]), ("text", b"text")] {
        let outcome = tool(&["kernels", name], &[(name, data)]);
        assert_eq!((outcome.status, outcome.stdout.as_slice()), (0, &b"no kernels found\n"[..]), "{name}");
    }
}

#[test]
fn kernels_are_found_in_files_of_every_form() {
    let bundle = bundle();
    let library = Elf::LIBRARY.write(&[Section::new(".hip_fatbin", &bundle)]);
    let packed = formats::compressed(3, 1, &bundle);
    let wheel = zip(&[Zipped::new("a/lib.so", DEFLATED, &library), Zipped::new("b.ccob", 0, &packed)]);
    let [nested, old] =
        [3, 1].map(|version| formats::compressed(version, 1, &formats::binary(&[(GFX906, &packed)], 8)));
    let packed_library = Elf::LIBRARY.write(&[Section::new(".hip_fatbin", &packed.repeat(5))]);
    let in_row = [&packed[..], &formats::compressed(1, 1, &bundle), &nested, &old].concat();
    for (name, data, times) in [
        ("lib.so", library, 1),
        ("packed", packed.clone(), 1),
        ("packed.so", packed_library, 5),
        ("nested", nested, 1),
        ("in a row", in_row, 4),
        ("in.whl", wheel, 2),
    ] {
        let outcome = tool(&["kernels", "--json", name], &[(name, &data)]);
        assert_eq!((outcome.status, outcome.stderr_text().as_str()), (0, ""), "{name}");
        let document = kernels_of(&outcome.stdout);
        let kernels = document["kernels"].as_array().unwrap();
        assert_eq!(kernels.len(), 6 * times, "{name}");
        assert_eq!(document["others"][0]["code_objects"], times, "{name}");
    }
}

#[test]
fn a_broken_compressed_bundle_is_a_problem_and_the_others_are_listed() {
    let packed = formats::compressed(3, 1, &bundle());
    let mut broken = packed.clone();
    let end = broken.len() - 20;
    broken[end] ^= 0x55;
    let outcome = tool(&["kernels", "--json", "in"], &[("in", &[&packed[..], &broken, &packed].concat())]);
    let problem = outcome.stderr_text();
    assert_eq!((outcome.status, problem.lines().count()), (1, 1), "{problem}");
    assert!(problem.contains("'in': ") && problem.contains(&format!("offset {}", packed.len())), "{problem}");
    assert_eq!(kernels_of(&outcome.stdout)["kernels"].as_array().unwrap().len(), 12);
}

/// An ELF note.
fn note(name: &[u8], kind: u32, content: &[u8]) -> Vec<u8> {
    let mut note: Vec<u8> =
        [name.len(), content.len()].iter().flat_map(|len| u32::try_from(*len).unwrap().to_le_bytes()).collect();
    note.extend(kind.to_le_bytes());
    for part in [name, content] {
        note.extend(part);
        note.resize(note.len().next_multiple_of(4), 0);
    }
    note
}

/// A code object with a note.
pub fn with_note(name: &[u8], kind: u32, content: &[u8]) -> Vec<u8> {
    let note = note(name, kind, content);
    let section = Section::new(".note", &note).notes().aligned(4);
    Elf::amdgpu(0x3f).write(&[section])
}

/// The finalizer of HSAIL wrote such code, which is in ROCm's runtime.
#[test]
fn notes_of_amd_gpus_are_aligned_to_four_whatever_their_section_says() {
    let notes = [note(b"AMD\0", 3, &[1; 26]), note(b"AMD\0", 4, &[1; 41]), note(b"AMD\0", 5, &[1; 26])].concat();
    let data = Elf::amdgpu(0).write(&[Section::new(".note", &notes).notes().aligned(8)]);
    let outcome = tool(&["verify", "in"], &[("in", &data)]);
    assert_eq!(outcome.status, 0, "{}", String::from_utf8_lossy(&outcome.stdout));
}

#[test]
fn broken_code_objects_are_problems_and_the_rest_is_listed() {
    let yaml = with_note(b"AMD\0", 10, b"---\nVersion: [ 1, 0 ]\nKernels:\n  - Name: old\n...\n");
    let broken = with_note(b"AMDGPU\0", 32, b"\x81\xaeamdhsa.kernels\x91\x81\xa5.name\x01");
    let unnamed = with_note(b"AMDGPU\0", 32, b"\x81\xaeamdhsa.kernels\x91\x80");
    let cut = fixture(ELF)[..2000].to_vec();
    let elf = fixture(ELF);
    for (what, code, text) in [
        ("yaml", yaml, "code object version 2 has kernel metadata in YAML at offset 80, which is not supported"),
        ("broken", broken, "kernel metadata that is not a complete MessagePack map, at offset 84"),
        ("unnamed", unnamed, "a kernel without a name at offset 84"),
        ("cut", cut, ""),
    ] {
        let gfx = |number: usize| format!("hip-amdgcn-amd-amdhsa--gfx90{number}");
        let data = formats::binary(&[(&gfx(6), &code), (GFX90A, &elf)], 1);
        let library = Elf::LIBRARY.write(&[Section::new(".hip_fatbin", &data)]);
        let outcome = tool(&["kernels", "--json", "lib.so"], &[("lib.so", &library)]);
        let (problem, document) = (outcome.stderr_text(), kernels_of(&outcome.stdout));
        assert_eq!(outcome.status, 1, "{what}");
        assert!(
            problem.contains("'lib.so': in lib.so(.hip_fatbin): ") || problem.contains("lib.so(.hip_fatbin)"),
            "{problem}"
        );
        assert!(problem.contains(&format!("the kernels of '{}' cannot be read", gfx(6))), "{problem}");
        assert!(problem.contains(text), "{what}: {problem}");
        assert_eq!(problem.lines().count(), 1, "{problem}");
        assert_eq!(document["kernels"].as_array().unwrap().len(), 3, "{what}");
        assert_eq!(document["problems"].as_array().unwrap().len(), 1, "{what}");
    }
}

#[test]
fn names_of_kernels_obey_no_terminal() {
    let mut content = b"\x81\xaeamdhsa.kernels\x92".to_vec();
    for name in ["_Z3\u{1b}[2Jv", "\u{202e}\u{9b}31m\n"] {
        content.extend(b"\x81\xa5.name");
        content.extend([0xd9, u8::try_from(name.len()).unwrap()]);
        content.extend(name.bytes());
    }
    let code = with_note(b"AMDGPU\0", 32, &content);
    for args in [&["kernels", "in"][..], &["kernels", "--json", "in"]] {
        let outcome = tool(args, &[("in", &code)]);
        let out = String::from_utf8(outcome.stdout).unwrap();
        assert!(outcome.status == 0 && out.contains("[2J"), "{out}");
        assert!(!out.chars().any(|c| c != '\n' && (c.is_control() || c == '\u{202e}')), "{out:?}");
    }
}

/// Returns kernels: one spills, one uses scratch memory and may use more, and two need calls of the host.
fn failing() -> Vec<u8> {
    let kernel = |name: &str, vgprs: u32| Kernel { vgprs, code_size: 64, ..Kernel::named(name) };
    let [buffer, value] = ["hidden_hostcall_buffer", "by_value"].map(Argument::of_kind);
    // The text alone makes no argument for calls.
    let named = Argument { name: b"hidden_hostcall_buffer".to_vec(), ..value.clone() };
    amd(&[
        Kernel { arguments: vec![named], ..kernel("_Z5plainv", 8) },
        Kernel { sgpr_spills: 3, vgpr_spills: 4, ..kernel("_Z6spillsv", 256) },
        Kernel { arguments: vec![value, buffer.clone()], ..kernel("_Z6printsv", 130) },
        Kernel { arguments: vec![buffer], scratch: 16, dynamic_stack: true, ..kernel("_Z7recursev", 128) },
    ])
}

#[test]
fn properties_of_some_kernels_are_columns_and_filters() {
    let code = failing();
    let out = |args: &[&str]| {
        let outcome = tool(&[&["kernels", "in"], args].concat(), &[("in", &code)]);
        assert_eq!((outcome.status, outcome.stderr_text().as_str()), (0, ""), "{args:?}");
        String::from_utf8(outcome.stdout).unwrap()
    };
    let all = out(&[]);
    let lines: Vec<&str> = all.lines().collect();
    assert!(lines[1].ends_with("CODE  DYNSTACK  HOSTCALL  KERNEL"), "{all}");
    for (line, [dynamic, hostcall]) in lines[2..].iter().zip([["", ""], ["", ""], ["", "yes"], ["yes", "yes"]]) {
        assert!(line.contains(&format!("  64  {dynamic:8}  {hostcall:8}  ")), "{line}");
    }
    let hostcalls = out(&["--hostcall"]);
    assert_eq!(hostcalls.lines().count(), 4, "{hostcalls}");
    assert!(hostcalls.contains("2 kernels in 1") && hostcalls.contains("prints()") && hostcalls.contains("recurse()"));
    // Empty columns are left out.
    let plain = out(&["--name", "s()"]);
    assert!(plain.contains("HOSTCALL") && !plain.contains("DYNSTACK"), "{plain}");
    assert!(!out(&["--name", "spills"]).contains("HOSTCALL"));
    assert_eq!(out(&["--hostcall", "--name", "spills"]), "no kernels found\n");
    let document = kernels_of(out(&["--json"]).as_bytes());
    let of = |field: &str| {
        document["kernels"].as_array().unwrap().iter().map(|kernel| kernel[field].clone()).collect::<Vec<_>>()
    };
    assert_eq!(of("dynamic_stack"), [false, false, false, true]);
    assert_eq!(of("hostcall"), [false, false, true, true]);
    assert!(document["kernels"][0].get("arguments").is_none());
    assert_eq!(tool(&["kernels", "in", "--arguments"], &[("in", &code)]).status, 2);
    // `diff` shows the changes.
    let old = amd(&[Kernel { vgprs: 128, code_size: 64, scratch: 16, ..Kernel::named("_Z7recursev") }]);
    let outcome = tool(&["diff", "old", "in"], &[("old", &old), ("in", &code)]);
    let out = String::from_utf8(outcome.stdout).unwrap();
    let row = out.lines().find(|line| line.ends_with("recurse()")).unwrap();
    assert!(row.contains("no -> yes  no -> yes  "), "{out}");
}

#[test]
fn conditions_that_kernels_meet_are_errors() {
    let code = failing();
    let bundle = formats::binary(&[(GFX90A, &code), (GFX906, &fixture(ELF))], 64);
    let run = |args: &[&str]| tool(&[&["kernels", "in"], args].concat(), &[("in", &bundle)]);
    let offset = memchr::memmem::find(&bundle, &code).unwrap();
    let at = format!("in#offset={offset}&size={}", code.len());
    for (args, expected) in [
        (
            &["--fail-on", "spill", "-t", "gfx90a"][..],
            format!("spill: 1 kernel spills registers: 7 in 'spills()' for gfx90a in {at}\n"),
        ),
        (
            &["--fail-on", "vgpr>128,hostcall", "-t", "gfx90a", "--sort", "name", "--top", "0"],
            format!(
                "vgpr>128: 2 kernels with VGPR above 128: 256 in 'spills()' for gfx90a in {at}; 130 in 'prints()' for gfx90a in {at}\n\
                 hostcall: 2 kernels need calls of the host: 'prints()' for gfx90a in {at}; 'recurse()' for gfx90a in {at}\n"
            ),
        ),
        (
            &["--fail-on=scratch", "--hostcall", "--json"],
            format!("scratch: 1 kernel with SCRATCH above 0: 16 in 'recurse()' for gfx90a in {at}\n"),
        ),
    ] {
        let expected: String =
            expected.lines().map(|line| format!("clang-offload-bundler kernels: error: {line}\n")).collect();
        let error = run(args).stderr_text();
        let uri = &error[error.find("file://").unwrap()..=error.find("/in#").unwrap()];
        assert_eq!((run(args).status, error.replace(uri, "")), (1, expected), "{args:?}");
    }
    assert_eq!(run(&["--fail-on", "spill", "--name", "plain"]).status, 0);
    for (bad, text) in
        [("lost-gpu", "the conditions are spill,"), ("vgpr", "'vgpr>128', in quotes"), ("vgpr>x", "a number")]
    {
        let outcome = run(&["--fail-on", bad]);
        assert!(outcome.status == 2 && outcome.stderr_text().contains(text), "{}", outcome.stderr_text());
    }
    let document = kernels_of(&run(&["--json", "--fail-on", "scratch,vgpr>1000,spill", "-t", "gfx90a"]).stdout);
    let failures = document["failures"].as_array().unwrap();
    assert_eq!(failures.iter().map(|failure| failure["condition"].clone()).collect::<Vec<_>>(), ["scratch", "spill"]);
    assert!(failures[0]["reason"].as_str().unwrap().ends_with(&at));
}

/// Kernels with a large argument, a stack whose size is not known, and calls of the host.
const HIP_KERNELS: &str = "
#define KERNEL __attribute__((global)) void
#define CONSTANT __attribute__((address_space(4)))
struct Large { int numbers[100]; };
KERNEL large(float *out, int n, Large large) { out[0] = n + large.numbers[3]; }
KERNEL stack(int *data, int n) {
  int *copy = (int *)__builtin_alloca(n * 4);
  for (int i = 0; i < n; ++i) copy[i] = data[i];
  data[0] = copy[n / 2];
}
KERNEL hostcall(long *out) {
  const char CONSTANT *implicit = (const char CONSTANT *)__builtin_amdgcn_implicitarg_ptr();
  out[0] = *(const long CONSTANT *)(implicit + 80);
}
";

/// A kernel whose arguments have names.
const OPENCL_KERNELS: &str = "
typedef float float4 __attribute__((ext_vector_type(4)));
kernel void named(global float4 *out, float4 value, local int *shared) { out[shared[0]] = value; }
kernel void none() {}
";

#[test]
fn arguments_are_those_of_readelf() {
    const TEST: &str = "arguments of kernels";
    let (Some(clang), Some(readelf)) = (llvm(TEST, "clang"), llvm(TEST, "llvm-readelf")) else { return };
    let dir = memory_directory();
    fs::write(dir.path().join("hip"), HIP_KERNELS).unwrap();
    fs::write(dir.path().join("cl"), OPENCL_KERNELS).unwrap();
    let hip = ["--target=x86_64-linux-gnu", "-x", "hip", "hip", "--offload-device-only", "-nogpuinc"];
    let hip = [&hip[..], &["--no-gpu-bundle-output"]].concat();
    let opencl = ["--target=amdgcn-amd-amdhsa", "-x", "cl", "cl", "-cl-kernel-arg-info"];
    let mut seen = BTreeSet::new();
    for (source, cpu, more, kernels) in [
        (&hip[..], "--offload-arch=gfx90a", "-O1", 3),
        (&hip, "--offload-arch=gfx1100", "-O0", 3),
        (&hip, "--offload-arch=gfx906", "-mcode-object-version=4", 3),
        (&opencl, "-mcpu=gfx90a", "-O1", 2),
    ] {
        let mut command = Command::new(&clang);
        must(command.args(source).args([cpu, more, "-nogpulib", "-o", "out"]).current_dir(dir.path()));
        let (status, document, error) = text(&tool_in(dir.path(), &["kernels", "--json", "--arguments", "out"]));
        assert_eq!((status, error.as_str()), (0, ""), "{cpu}");
        let document = kernels_of(document.as_bytes());
        let printed = printed(&readelf, &dir.path().join("out"));
        assert_eq!((printed.len(), document["kernels"].as_array().unwrap().len()), (kernels, kernels), "{cpu}");
        for kernel in document["kernels"].as_array().unwrap() {
            let name = kernel["mangled_name"].as_str().unwrap();
            same_arguments(kernel, &printed[name], name);
            let arguments = kernel["arguments"].as_array().unwrap();
            seen.extend(arguments.iter().map(|argument| argument["kind"].as_str().unwrap().to_owned()));
            seen.extend(arguments.iter().filter_map(|argument| argument["name"].as_str().map(str::to_owned)));
            let has_hostcall = arguments.iter().any(|argument| argument["kind"] == "hidden_hostcall_buffer");
            assert_eq!(kernel["hostcall"], has_hostcall, "{name}");
            assert!(has_hostcall || !name.contains("hostcall"));
            assert!(kernel["dynamic_stack"] == true || !name.contains("stack") || more == "-mcode-object-version=4");
        }
    }
    for text in ["global_buffer", "by_value", "dynamic_shared_pointer", "hidden_hostcall_buffer", "value", "shared"] {
        assert!(seen.contains(text), "{text}: {seen:?}");
    }
}

/// Compares the arguments in a document with the output of `llvm-readelf`.
fn same_arguments(kernel: &Value, printed: &Printed, name: &str) {
    let arguments = kernel["arguments"].as_array().unwrap();
    let texts = arguments.iter().map(|argument| {
        let number = |field: &str| argument[field].as_u64().map(|number| number.to_string());
        let text = |field: &str| argument[field].as_str().map(str::to_owned);
        let fields = [
            (".offset", number("offset")),
            (".size", number("size")),
            (".value_kind", text("kind")),
            (".name", text("name")),
        ];
        fields.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect::<BTreeMap<_, _>>()
    });
    assert_eq!(texts.collect::<Vec<_>>(), printed.arguments, "{name}");
    let stack = printed.fields.get(".uses_dynamic_stack").map(|value| value == "true");
    assert_eq!(kernel["dynamic_stack"].as_bool(), stack, "{name}");
}

/// The output of `llvm-readelf` for a kernel: the values of the metadata by their keys, with the size of the function
/// as `size`, and the values of each argument.
#[derive(Default)]
struct Printed {
    fields: BTreeMap<String, String>,
    arguments: Vec<BTreeMap<String, String>>,
}

impl Printed {
    fn number(&self, key: &str) -> Option<u64> {
        self.fields.get(key)?.parse().ok()
    }
}

/// The kernels of a code object, by name.
fn printed(readelf: &Path, code: &Path) -> BTreeMap<String, Printed> {
    let run = |args: &[&str]| String::from_utf8(must(Command::new(readelf).args(args).arg(code)).stdout).unwrap();
    let (mut kernels, mut kernel) = (BTreeMap::new(), Printed::default());
    let notes = run(&["--notes"]);
    let metadata = notes.split_once("amdhsa.kernels:").unwrap().1;
    for line in metadata.lines().skip(1).take_while(|line| line.starts_with(' ')) {
        if line.starts_with("  - ") && !kernel.fields.is_empty() {
            let read = std::mem::take(&mut kernel);
            kernels.insert(read.fields[".name"].clone(), read);
        }
        if line.starts_with("      - .") {
            kernel.arguments.push(BTreeMap::new());
        }
        let is_of_argument = line.starts_with("      - .") || line.starts_with("        ");
        let field = line.get(if is_of_argument { 8.. } else { 4.. }).and_then(|field| field.split_once(':'));
        let Some((key, value)) = field.map(|(key, value)| (key.to_owned(), value.trim().to_owned())) else { continue };
        match kernel.arguments.last_mut() {
            Some(argument) if is_of_argument => {
                if [".offset", ".size", ".value_kind", ".name"].contains(&key.as_str()) {
                    argument.insert(key, value);
                }
            }
            _ => drop(kernel.fields.insert(key, value)),
        }
    }
    kernels.insert(kernel.fields[".name"].clone(), kernel);
    for line in run(&["--symbols", "--wide"]).lines() {
        if let [_, _, size, "FUNC", .., name] = line.split_whitespace().collect::<Vec<_>>().as_slice()
            && let Some(kernel) = kernels.get_mut(*name)
        {
            kernel.fields.insert("size".to_owned(), (*size).to_owned());
        }
    }
    kernels
}

#[test]
fn numbers_are_those_of_readelf_for_all_kernels_of_librocrand() {
    const TEST: &str = "kernels of librocrand";
    let (Some(library), Some(readelf)) = (librocrand(TEST), llvm(TEST, "llvm-readelf")) else { return };
    let dir = memory_directory();
    let library = library.to_str().unwrap();
    let (status, document, err) = text(&tool_in(dir.path(), &["kernels", "--json", "--arguments", library]));
    assert_eq!((status, err.as_str()), (0, ""));
    let document = kernels_of(document.as_bytes());
    let mut left: BTreeMap<(String, String), &Value> = BTreeMap::new();
    for kernel in document["kernels"].as_array().unwrap() {
        let [id, name] = ["entry_id", "mangled_name"].map(|field| kernel[field].as_str().unwrap().to_owned());
        assert!(left.insert((id, name), kernel).is_none());
    }
    let extracted =
        must(Command::new(PROGRAM).args(["extract", library, "--json", "-o", "out"]).current_dir(dir.path()));
    let extracted: Value = serde_json::from_slice(&extracted.stdout).unwrap();
    let mut gpus = BTreeSet::new();
    for code_object in extracted["code_objects"].as_array().unwrap() {
        let (file, id) = (code_object["file"].as_str().unwrap(), code_object["entry_id"].as_str().unwrap());
        gpus.insert(id);
        for (name, expected) in printed(&readelf, &dir.path().join(file)) {
            let kernel = left.remove(&(id.to_owned(), name.clone())).unwrap_or_else(|| panic!("{id} has no {name}"));
            for (field, key) in [
                ("vgprs", ".vgpr_count"),
                ("agprs", ".agpr_count"),
                ("sgprs", ".sgpr_count"),
                ("vgpr_spills", ".vgpr_spill_count"),
                ("sgpr_spills", ".sgpr_spill_count"),
                ("scratch", ".private_segment_fixed_size"),
                ("lds", ".group_segment_fixed_size"),
                ("kernarg", ".kernarg_segment_size"),
                ("max_workgroup", ".max_flat_workgroup_size"),
                ("code_size", "size"),
            ] {
                assert_eq!(kernel[field].as_u64(), expected.number(key), "{id} {name} {field}");
            }
            same_arguments(kernel, &expected, &name);
            assert!(expected.number("size") > Some(0) && !kernel["name"].as_str().unwrap().starts_with("_Z"), "{name}");
        }
    }
    assert!(left.is_empty() && gpus.len() > 5, "{} of {}", left.len(), gpus.len());
}

/// Runs `kernels --disassemble` where only these programs are in the `PATH`; each is a link to another one.
fn disassembled(args: &[&str], data: &[u8], programs: &[(&str, &Path)]) -> (i32, String, String) {
    let dir = memory_directory();
    let bin = dir.path().join("bin");
    fs::create_dir(&bin).unwrap();
    for (name, program) in programs {
        std::os::unix::fs::symlink(program, bin.join(name)).unwrap();
    }
    fs::write(dir.path().join("in"), data).unwrap();
    let mut command = Command::new(PROGRAM);
    command.args(["kernels", "in", "--disassemble"]).args(args).current_dir(dir.path()).env("PATH", &bin);
    text(&command.env("ROCM_PATH", "none").env("CUDA_HOME", "none").output().unwrap())
}

#[test]
fn a_kernel_is_disassembled_in_any_file() {
    let Some(objdump) = llvm("kernels --disassemble", "llvm-objdump") else { return };
    let code = fixture("kernels/llvm22-gfx90a.elf");
    let bundle = formats::binary(&[(HOST, b""), (GFX90A, &code)], 64);
    let wheel = zip(&[Zipped::new("lib.so", DEFLATED, &Elf::LIBRARY.write(&[Section::new(".hip_fatbin", &bundle)]))]);
    for data in [&code, &bundle, &wheel] {
        let (status, printed, errors) = disassembled(&["plain"], data, &[("llvm-objdump", &objdump)]);
        assert_eq!((status, errors.as_str()), (0, ""));
        let head = printed.lines().next().unwrap();
        assert!(
            head.starts_with("# in") && head.ends_with("bin/llvm-objdump -d --disassemble-symbols=plain"),
            "{head}"
        );
        assert!(printed.contains("<plain>:") && printed.contains("s_endpgm"), "{printed}");
        assert!(!printed.contains("fill"), "{printed}");
    }
}

/// Shell scripts, in a directory, that take the place of disassemblers.
fn scripts(dir: &Path, scripts: &[(&'static str, &str)]) -> Vec<(&'static str, PathBuf)> {
    let script = |&(name, script): &(&'static str, &str)| {
        let path = dir.join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        (name, path)
    };
    scripts.iter().map(script).collect()
}

/// A script in place of LLVM's disassembler. Prints its arguments, and a heading for each requested symbol.
const OBJDUMP: &str = r#"echo "$@"; IFS=,; for name in ${2#*=}; do echo "0000 <$name>:"; done"#;

#[test]
fn a_kernel_with_a_very_long_name_is_disassembled_in_one_run() {
    let dir = memory_directory();
    let made = scripts(dir.path(), &[("works", OBJDUMP)]);
    let data = formats::binary(&[(GFX906, &amd(&[Kernel::named(&"k".repeat(25_000))]))], 4096);
    let (status, printed, errors) = disassembled(&["k*"], &data, &[("llvm-objdump", &made[0].1)]);
    assert_eq!((status, printed.matches("# in").count(), errors.as_str()), (0, 1, ""), "{printed:.300}");
}

#[test]
fn the_disassembler_is_the_newest_that_works_and_fits_the_code() {
    let dir = memory_directory();
    let of_version =
        |version: u32| format!("test \"$1\" = --version && echo LLVM version {version}.1.0 && exit\n{OBJDUMP}");
    let made = scripts(
        dir.path(),
        &[
            ("works", OBJDUMP),
            ("23", &of_version(23)),
            ("9", &of_version(9)),
            ("warns", &format!("echo old >&2; {OBJDUMP}")),
            ("fails", "echo no such GPU >&2; exit 3"),
            ("forgets", "echo nothing"),
        ],
    );
    let script = |name: &str| made.iter().find(|(known, _)| *known == name).unwrap().1.as_path();
    let (works, fails) = (script("works"), script("fails"));
    let data = bundle();
    let nvdisasm = ("nvdisasm", works);
    let (gpu, cubin) = ("fill*", "foo*");
    // The arguments, the programs, and the name of the one that ran.
    for (name, programs, ran) in [
        (gpu, &[("llvm-objdump-19", fails), ("llvm-objdump-22", works)][..], "llvm-objdump-22"),
        (gpu, &[("llvm-objdump-19", works), ("llvm-objdump-22", fails)], "llvm-objdump-19"),
        (gpu, &[("llvm-objdump-19", works), ("llvm-objdump-22", script("forgets"))], "llvm-objdump-19"),
        (gpu, &[("llvm-objdump", script("23")), ("llvm-objdump-22", works)], "llvm-objdump"),
        (gpu, &[("llvm-objdump", script("9")), ("llvm-objdump-22", works)], "llvm-objdump-22"),
        (gpu, &[("llvm-objdump", works), ("llvm-objdump-22", fails)], "llvm-objdump"),
        (cubin, &[nvdisasm, ("llvm-objdump", works)], "nvdisasm"),
    ] {
        let (status, printed, errors) = disassembled(&[name], &data, programs);
        assert_eq!((status, errors.as_str()), (0, ""));
        let (head, rest) = printed.split_once('\n').unwrap();
        let arguments = if name == gpu { "-d --disassemble-symbols=_Z4fillPfi" } else { "-c" };
        assert!(head.starts_with("# in, ") && head.ends_with(&format!("/{ran} {arguments}")), "{printed}");
        let input = if name == gpu { "-" } else { "/dev/stdin" };
        assert!(rest.starts_with(&format!("{arguments} {input}\n")), "{printed}");
    }
    let (_, printed, _) = disassembled(&[gpu], &data, &[("llvm-objdump", script("warns"))]);
    assert_eq!(printed.lines().nth(1), Some("# old"), "{printed}");
    for (name, programs, error) in [
        (gpu, &[nvdisasm][..], "in, gfx90a:xnack-: llvm-objdump was not found; it is in the package llvm"),
        (cubin, &[("llvm-objdump", works)], "nvdisasm was not found; it is in the package cuda-nvdisasm"),
        (gpu, &[("llvm-objdump", fails)], "llvm-objdump' failed, with exit status: 3: no such GPU"),
        (gpu, &[("llvm-objdump-20", fails), ("llvm-objdump-21", script("forgets"))], "instructions of '_Z4fillPfi'; '"),
        (gpu, &[("llvm-objdump-21", script("forgets"))], "-21' printed no instructions of '_Z4fillPfi'"),
        ("nothing", &[("llvm-objdump", works)], "no kernel matches 'nothing'"),
    ] {
        let (status, _, errors) = disassembled(&[name], &data, programs);
        assert!(status == 1 && errors.contains(error), "{errors}");
        assert!(!errors.contains("'-'"), "{errors}");
    }
    for option in [&["--json"][..], &["--top", "1"], &["--sort", "vgpr"], &["--json", "--arguments"]] {
        assert_eq!(disassembled(&[&["fill*"], option].concat(), &data, &[nvdisasm]).0, 2, "{option:?}");
    }
}

#[test]
fn kernels_are_disassembled_however_long_their_names_are() {
    let dir = memory_directory();
    let made = scripts(dir.path(), &[("llvm-objdump", OBJDUMP)]);
    let names: Vec<String> = (0..2000).map(|index| format!("kernel_{index:0200}")).collect();
    let names: Vec<Kernel> = names.iter().map(|name| Kernel::named(name)).collect();
    let (status, printed, errors) = disassembled(&["kernel_*"], &amd(&names), &[("llvm-objdump", &made[0].1)]);
    assert_eq!((status, errors.as_str()), (0, ""));
    let labels = printed.lines().filter(|line| line.ends_with(">:")).count();
    assert_eq!(labels, names.len());
}

#[test]
fn names_that_no_program_can_select_are_refused_before_any_runs() {
    let dir = memory_directory();
    let made = scripts(dir.path(), &[("llvm-objdump", "exit 1")]);
    for (name, error) in [
        ("a,b", "'a,b': its name has a comma"),
        ("a\0b", "'a\\x00b': its name has a NUL"),
        ("a\nb", "'a\\nb': its name has a line end"),
    ] {
        let data = amd(&[Kernel::named("first"), Kernel::named(name)]);
        let (status, printed, errors) = disassembled(&["*"], &data, &[("llvm-objdump", &made[0].1)]);
        assert_eq!((status, printed.as_str()), (1, ""), "{errors}");
        let error = format!("llvm-objdump cannot select {error}; choose kernels without it\n");
        assert!(errors.ends_with(&error) && errors.lines().count() == 1, "{errors}");
    }
}

#[test]
fn output_of_a_disassembler_is_escaped_for_terminals() {
    let dir = memory_directory();
    let made = scripts(dir.path(), &[("llvm-objdump", OBJDUMP)]);
    let data = amd(&[Kernel::named("\x1b[2J\u{202e}\tx")]);
    let (status, printed, errors) = disassembled(&["*"], &data, &[("llvm-objdump", &made[0].1)]);
    assert_eq!((status, errors.as_str()), (0, ""));
    assert!(printed.ends_with("\n0000 <\\u{1b}[2J\\u{202e}\tx>:\n"), "{printed}");
    assert!(printed.chars().all(|c| !c.is_control() || matches!(c, '\n' | '\t')), "{printed:?}");
}

#[test]
fn a_disassembler_is_run_once_by_whichever_links_it_is_found() {
    let dir = memory_directory();
    let made = scripts(dir.path(), &[("llvm-objdump", "echo ran >&2; exit 3")]);
    let links = ["llvm-objdump", "llvm-objdump-20", "llvm-objdump-21"].map(|name| (name, made[0].1.as_path()));
    let (status, _, errors) = disassembled(&["*"], &amd(&[Kernel::named("x")]), &links);
    assert!(status == 1 && errors.matches("exit status: 3").count() == 1, "{errors}");
}

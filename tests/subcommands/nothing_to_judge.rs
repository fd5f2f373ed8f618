//! Tests of subcommands that judge: with nothing to judge, they fail and print a hint.

use std::fs;

use super::*;
use crate::machine::memory_directory;
use crate::properties::code_objects::{Kernel, cubin};
use crate::properties::make::{DEFLATED, Zipped, zip};
use crate::reference::formats;
use crate::subcommands::diff::code;

/// The command lines of all gates, without the inputs; `diff` takes two.
const GATES: [&[&str]; 9] = [
    &["verify"],
    &["verify", "--expect=gfx90a"],
    &["verify", "--expect-any=gfx90a"],
    &["verify", "--expect-exactly=gfx90a"],
    &["kernels", "--fail-on=spill"],
    &["kernels", "--fail-on=vgpr>1000,hostcall"],
    &["diff", "--fail-on=lost-gpu"],
    &["diff", "--fail-on=spill,lost-gpu"],
    &["diff", "--fail-on=size=+5%"],
];

/// A directory with code in a subdirectory, files without any, and a sound one.
fn tree() -> tempfile::TempDir {
    let dir = memory_directory();
    let good = formats::binary(&[(HOST, b""), (GFX90A, &code("k", 0))], 64);
    let wheel = zip(&[Zipped::new("text", DEFLATED, b"text")]);
    let files: [(&str, &[u8]); 7] = [
        ("below/README", b"text"),
        ("below/lib/good.so", &good),
        ("none/README", b"text"),
        ("none/sub/empty", b""),
        ("pure.whl", &wheel),
        ("text", b"text"),
        ("good", &good),
    ];
    for (name, data) in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, data).unwrap();
    }
    fs::create_dir(dir.path().join("empty")).unwrap();
    dir
}

/// The arguments of a gate with inputs: `diff` compares the first with the last.
fn with_inputs<'a>(gate: &[&'a str], inputs: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    let ends = [inputs[0], inputs[inputs.len() - 1]];
    let inputs = if gate[0] == "diff" { &ends[..] } else { inputs };
    [gate, inputs, more].concat()
}

#[test]
fn no_gate_passes_on_nothing() {
    let dir = tree();
    let run = |args: &[&str]| text(&tool_in(dir.path(), args));
    for gate in GATES {
        for (inputs, more, hint) in [
            (&["below"][..], &[][..], "hint: -r also searches subdirectories; --deep searches all bytes; --allow-none"),
            (&["none"], &["-r"], "hint: --deep searches all bytes; --allow-none"),
            (&["none"], &["-r", "--deep"], "hint: --allow-none"),
            (&["empty"], &[], "hint: -r also"),
            (&["text"], &[], "hint: --deep"),
            (&["pure.whl"], &[], "hint: --deep"),
        ] {
            let args = with_inputs(gate, inputs, more);
            let (status, out, said) = run(&args);
            assert!(status == 1 && said.contains(hint) && !out.contains("nothing wrong"), "{args:?}: {out}{said}");
            assert_eq!(said.matches("error: no ").count(), 1, "{args:?}: {said}");
            let (status, out, said) = run(&[&args[..], &["--allow-none"]].concat());
            assert_eq!((status, said.as_str()), (0, ""), "{args:?}: {out}");
            // The document and the messages for programs say the same.
            let (status, out, said) = run(&[&args[..], &["--json", "--message-format=json"]].concat());
            let document: Value = serde_json::from_str(&out).unwrap();
            schema::check(gate[0], &document);
            let messages: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            assert_eq!((status, messages.len()), (1, 2), "{args:?}: {said}");
            assert_eq!((&messages[0]["level"], &messages[1]["level"]), (&"error".into(), &"hint".into()), "{said}");
            assert_eq!(document["problems"], serde_json::json!([messages[0]["message"]]), "{args:?}");
        }
        for (inputs, more) in [(&["below"][..], &["-r"][..]), (&["good"], &[]), (&["good", "text", "good"], &[])] {
            let args = with_inputs(gate, inputs, more);
            let (status, out, said) = run(&args);
            assert_eq!(status, 0, "{args:?}: {out}{said}");
        }
        // A file that cannot be read is the only error.
        let (status, _, said) = run(&with_inputs(gate, &["nowhere"], &[]));
        assert!(status == 1 && !said.contains("judged") && !said.contains("verified"), "{gate:?}: {said}");
    }
    // Without a condition, nothing is judged, and there is no need to.
    for args in [&["kernels", "none", "-r"][..], &["diff", "none", "none"], &["inspect", "none", "-r"]] {
        assert_eq!(run(args).0, 0, "{args:?}");
    }
    // In tables for GitHub too.
    for args in [
        &["kernels", "--fail-on=spill", "--markdown", "text"][..],
        &["diff", "--fail-on=spill", "--markdown", "text", "text"],
    ] {
        let (status, _, said) = run(args);
        assert!(status == 1 && said.contains("judged nothing"), "{args:?}: {said}");
    }
}

#[test]
fn a_baseline_without_code_judges_nothing() {
    let dir = tree();
    let run = |args: &[&str]| text(&tool_in(dir.path(), args));
    let (status, _, said) = run(&["diff", "text", "good", "--fail-on=lost-gpu,spill"]);
    assert!(status == 1 && said.contains("'text' has no device code to compare with"), "{said}");
    assert_eq!(run(&["diff", "text", "good", "--fail-on=lost-gpu,spill", "--allow-none"]).0, 0);
    let (status, _, said) = run(&["diff", "good", "text", "--fail-on=lost-gpu"]);
    assert!(status == 1 && said.contains("no code for gfx90a any longer"), "{said}");
    // A new file without code has nothing that could be larger or spill.
    for args in
        [&["diff", "good", "text", "--fail-on=size=+5%,spill"][..], &["diff", "good", "text", "--fail-on=spill"]]
    {
        let (status, _, said) = run(args);
        assert!(status == 1 && said.contains("'text' has no device code to compare with"), "{args:?}: {said}");
        assert_eq!(run(&[args, &["--allow-none"]].concat()).0, 0, "{args:?}");
    }
    // A filter that matches nothing is the reason, and is reported alone.
    for args in [
        &["kernels", "good", "--fail-on=spill", "-t", "gfx1100"][..],
        &["kernels", "good", "--fail-on=spill", "--name", "nothing"],
        &["diff", "good", "good", "--fail-on=spill", "-t", "gfx1100"],
    ] {
        let (status, _, said) = run(args);
        assert!(status == 1 && !said.contains("judged"), "{args:?}: {said}");
    }
    // All kernels are judged, whether they are listed or not.
    assert_eq!(run(&["kernels", "good", "--fail-on=spill", "--hostcall"]).0, 0);
}

#[test]
fn numbers_that_no_kernel_records_judge_nothing() {
    let dir = memory_directory();
    let kernel = Kernel { vgprs: 30, code_size: 128, workgroup: 64, ..Kernel::named("k") };
    fs::write(dir.path().join("cubin"), cubin(&[kernel])).unwrap();
    fs::write(dir.path().join("bundle"), formats::binary(&[(GFX90A, &code("k", 0))], 64)).unwrap();
    let run = |args: &[&str]| text(&tool_in(dir.path(), args));
    for args in [&["kernels", "cubin", "--fail-on=spill"][..], &["diff", "cubin", "cubin", "--fail-on=spill"]] {
        let (status, out, said) = run(args);
        assert!(status == 1 && said.contains("records what --fail-on asks for"), "{args:?}: {out}{said}");
        assert_eq!(run(&[args, &["--allow-none"]].concat()).0, 0, "{args:?}");
    }
    let (status, out, said) = run(&["diff", "cubin", "cubin", "--fail-on=spill,lost-gpu"]);
    assert!(status == 0 && said.contains("warning: no ") && said.contains("'spill'"), "{out}{said}");
}

#[test]
fn each_condition_judges_a_kernel_and_counts_those_that_it_does_not_judge() {
    let dir = memory_directory();
    let kernel = |name| Kernel { vgprs: 30, code_size: 128, workgroup: 64, ..Kernel::named(name) };
    fs::write(dir.path().join("cubin"), cubin(&[kernel("k"), kernel("l")])).unwrap();
    fs::write(dir.path().join("bundle"), formats::binary(&[(GFX90A, &code("k", 0))], 64)).unwrap();
    let run = |args: &[&str]| text(&tool_in(dir.path(), &[&["kernels"], args].concat()));
    let columns = ["vgpr", "agpr", "sgpr", "vspill", "sspill", "scratch", "lds", "kernarg", "group", "code"];
    let limits = columns.map(|column| format!("{column}>1000000"));
    let conditions = limits.iter().map(String::as_str).chain(["spill", "scratch", "hostcall"]);
    let mut unrecorded = 0;
    for condition in conditions {
        let fail_on = format!("--fail-on=code>1000000,{condition}");
        // The number of kernels in each file that the report lists without the number.
        let not_judged = |file: &str| {
            let (_, out, _) = run(&[file, &fail_on, "--json", "--allow-none"]);
            let document: Value = serde_json::from_str(&out).unwrap();
            schema::check("kernels", &document);
            let kernels = document["not_judged"].as_array().unwrap();
            kernels.iter().find(|row| row["condition"] == condition).map_or(0, |row| row["kernels"].as_u64().unwrap())
        };
        let (of_cubin, of_bundle) = (not_judged("cubin"), not_judged("bundle"));
        assert!(
            [of_cubin, of_bundle].iter().all(|number| [0, 2].contains(number)),
            "{condition}: {of_cubin} {of_bundle}"
        );
        unrecorded += of_cubin;
        for (files, not_judged, all) in [
            (&["cubin"][..], of_cubin, 2),
            (&["bundle"], of_bundle, 2),
            (&["cubin", "bundle"], of_cubin + of_bundle, 4),
        ] {
            let (status, out, said) = run(&[files, &[&fail_on]].concat());
            let line = format!("not judged by '{condition}': {not_judged} of {all} kernel");
            assert_eq!(out.contains(&line), not_judged > 0, "{condition} on {files:?}: {out}");
            let error = format!("nothing was judged by '{condition}'\nhint: --allow-none accepts");
            let is_nothing = not_judged == all;
            assert_eq!(
                (status == 1, said.contains(&error)),
                (is_nothing, is_nothing),
                "{condition} on {files:?}: {said}"
            );
            let (status, _, said) = run(&[files, &[&fail_on, "--allow-none"]].concat());
            assert_eq!((status, said.as_str()), (0, ""), "{condition} on {files:?}");
        }
    }
    assert!(unrecorded > 2, "a cubin records everything but one number");
}

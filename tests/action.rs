//! The GitHub Action in `action.yml`: its steps run as GitHub runs them, in a directory of their own.
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::machine::{memory_directory, write_program};
use crate::subcommands::{PROGRAM, kernels};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

#[derive(Debug, Default)]
struct Step {
    id: String,
    shell: String,
    env: Vec<(String, String)>,
    run: String,
}

/// The inputs and the steps. This reads the part of YAML that the file is written in, and refuses all else.
fn action() -> (Vec<String>, Vec<Step>) {
    let text = fs::read_to_string(root().join("action.yml")).unwrap();
    let (head, steps) = text.split_once("\nruns:\n  using: composite\n  steps:\n").unwrap();
    let (_, inputs) = head.split_once("\ninputs:\n").unwrap();
    let inputs = inputs.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let inputs: Vec<String> = inputs.map(|line| line.trim().strip_suffix(':').unwrap().to_owned()).collect();
    let mut read: Vec<Step> = Vec::new();
    let mut lines = steps.lines().peekable();
    while let Some(line) = lines.next() {
        if line.starts_with("    - name: ") {
            read.push(Step::default());
            continue;
        }
        let step = read.last_mut().unwrap();
        let key = line.strip_prefix("      ").filter(|key| !key.starts_with(' ')).unwrap();
        let mut nested = || -> Vec<&str> {
            let inner = std::iter::from_fn(|| lines.next_if(|line| line.starts_with("        ")));
            inner.map(|line| &line[8..]).collect()
        };
        match key.split_once(':').unwrap() {
            ("id", id) => step.id = id.trim().to_owned(),
            ("shell", shell) => step.shell = shell.trim().to_owned(),
            ("env", "") => {
                let pair = |line: &str| line.split_once(": ").map(|(key, value)| (key.to_owned(), value.to_owned()));
                step.env = nested().into_iter().map(|line| pair(line).unwrap()).collect();
            }
            ("run", " |") => step.run = nested().join("\n") + "\n",
            other => panic!("{other:?}"),
        }
    }
    (inputs, read)
}

/// Runs a step in a directory with some inputs, as GitHub does. Returns the result of the command, the step's outputs
/// and the summary.
fn run(step: &Step, inputs: &[(&str, &str)], dir: &Path, variables: &[(&str, &str)]) -> (Output, String, String) {
    assert_eq!(step.shell, "bash");
    let temporary = dir.parent().unwrap();
    let (script, output, summary) = (temporary.join("script.sh"), temporary.join("output"), temporary.join("summary"));
    fs::write(&script, &step.run).unwrap();
    fs::write(&output, "").unwrap();
    let inputs: HashMap<&str, &str> = inputs.iter().copied().collect();
    let value = |expression: &str| -> String {
        let Some(name) = expression.strip_prefix("${{ inputs.").and_then(|rest| rest.strip_suffix(" }}")) else {
            return expression.replace("${{ steps.install.outputs.python }}", "python3");
        };
        inputs.get(name).map_or(String::new(), |value| (*value).to_owned())
    };
    let outcome = Command::new("bash")
        .args(["--noprofile", "--norc", "-eo", "pipefail"])
        .arg(&script)
        .current_dir(dir)
        .env_clear()
        .envs(step.env.iter().map(|(key, expression)| (key, value(expression))))
        .env("PATH", format!("{}:{}", temporary.join("bin").display(), std::env::var("PATH").unwrap()))
        .env("PYTHONPATH", root().join("packaging/python"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("GITHUB_ACTION_PATH", root())
        .env("GITHUB_OUTPUT", &output)
        .env("GITHUB_STEP_SUMMARY", &summary)
        .env("RUNNER_OS", "Linux")
        .env("RUNNER_TEMP", temporary)
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    let text = |path| fs::read_to_string(path).unwrap_or_default();
    (outcome, text(&output), text(&summary))
}

/// A directory for temporary files with an empty one for the job, and `offload-bundle` in `bin`.
fn machine() -> (tempfile::TempDir, PathBuf) {
    let temporary = memory_directory();
    fs::create_dir_all(temporary.path().join("bin")).unwrap();
    std::os::unix::fs::symlink(PROGRAM, temporary.path().join("bin/offload-bundle")).unwrap();
    let dir = temporary.path().join("job");
    fs::create_dir(&dir).unwrap();
    (temporary, dir)
}

#[test]
fn inputs_reach_the_shell_only_in_variables() {
    let (inputs, steps) = action();
    let mut used: Vec<String> = Vec::new();
    for Step { env, run, shell, .. } in &steps {
        assert!(!run.contains("${{") && shell == "bash", "{run}");
        for (key, value) in env {
            assert!(run.contains(&format!("${key}")) || !key.starts_with("VERSION"), "{key}");
            used.extend(value.strip_prefix("${{ inputs.").map(|rest| rest.strip_suffix(" }}").unwrap().to_owned()));
        }
    }
    used.sort();
    let mut inputs = inputs;
    inputs.sort();
    assert_eq!((used, steps.len()), (inputs, 2));
    let hook = fs::read_to_string(root().join(".pre-commit-hooks.yaml")).unwrap();
    let entry = hook.lines().find_map(|line| line.strip_prefix("  entry: offload-bundle ")).unwrap();
    let fixture = "fixtures/binary/llvm22-plain.bundle";
    let run = |file: &str| Command::new(PROGRAM).args(entry.split(' ')).arg(file).current_dir(root()).output().unwrap();
    assert!(run(fixture).status.success() && run("LICENSE").status.success());
    assert!(!run("fixtures/hostile/cut-in-header.bundle").status.success());
    // pre-commit appends names as git prints them.
    let dir = memory_directory();
    for (name, data, status) in [("-f.so", fixture, 0), ("--json", "fixtures/hostile/cut-in-header.bundle", 1)] {
        fs::copy(root().join(data), dir.path().join(name)).unwrap();
        let outcome = Command::new(PROGRAM).args(entry.split(' ')).arg(name).current_dir(dir.path()).output().unwrap();
        assert_eq!(outcome.status.code(), Some(status), "{outcome:?}");
        assert!(String::from_utf8_lossy(&outcome.stdout).starts_with(&format!("{name}:")), "{outcome:?}");
    }
}

/// The first step installs the release or package that the input names, once.
#[test]
fn the_release_that_is_named_is_installed() {
    let (_, steps) = action();
    let (temporary, dir) = machine();
    let place = temporary.path().join("offload-bundle");
    // Python, which notes how it is called; an environment gets a copy of it.
    let python = "#!/bin/sh\necho \"$*\" >>\"$RUNNER_TEMP/calls\"\n\
        [ \"$2\" != venv ] || { mkdir -p \"$4/bin\" && cp \"$0\" \"$4/bin/python\" && rm -f \"$4/package\"; }\n";
    write_program(&temporary.path().join("bin/python3"), python.as_bytes());
    let source = root().display().to_string();
    for (version, package) in [
        ("", source.as_str()),
        ("1.2.3", "offload-bundle==1.2.3"),
        ("dist/a b.whl", "dist/a b.whl"),
        ("--index-url=https://evil", "offload-bundle==--index-url=https://evil"),
        ("$(touch owned)", "offload-bundle==$(touch owned)"),
        ("1\npython=evil", "offload-bundle==1\npython=evil"),
    ] {
        let venv = format!("-m venv --clear {}\n", place.display());
        let pip = format!("-m pip install --quiet --disable-pip-version-check -- {package}\n");
        for calls in [venv + &pip, String::new()] {
            let (outcome, output, _) = run(&steps[0], &[("version", version)], &dir, &[]);
            assert!(outcome.status.success(), "{outcome:?}");
            assert_eq!(output, format!("python={}\n", place.join("bin/python").display()));
            assert_eq!(fs::read_to_string(temporary.path().join("calls")).unwrap_or_default(), calls);
            let _ = fs::remove_file(temporary.path().join("calls"));
        }
    }
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
}

#[test]
fn faults_are_annotations_and_tables_are_in_the_summary() {
    let (_, steps) = action();
    let broken = fs::read(root().join("fixtures/hostile/cut-in-header.bundle")).unwrap();
    let cut = "entry count 3 at offset 24 is too large: the data ends at offset 100, which leaves room for 2";
    let missing = "it does not serve sm_75; it has code for gfx90a:xnack-";
    let escaped = "a%2Cb%3A%25%0A%3A%3Aset-env.bundle";
    let one_of_two =
        "expected either 'files', with or without 'expect' and 'no-jit', or 'old' and 'new', with or without 'fail-on'";
    let no_size =
        "invalid value 'x' for '--max-size <BYTES>': expected a number of bytes, optionally with suffix K, M or G";
    let lost = "lost-gpu: no code for sm_80 any longer, before 1 code object";
    let good = "1 file, 1 bundle, 3 code objects: nothing wrong".to_owned();
    let fatbin = good.clone();
    let no_machine_code = "it has no machine code for sm_100; it has code for sm_80, sm_90, compute_90; \
        its source is 'dir/b.cu'";
    type Case<'c> = (&'c [(&'c str, &'c str)], i32, Vec<String>, &'c str);
    let cases: &[Case<'_>] = &[
        (&[("files", "old\n\n  o[k-m]? ")], 0, vec![good.clone()], "\n### Total: 3 code objects in 1 file"),
        (
            &[("files", "sub"), ("arguments", "-r --deep --max-size='1G'")],
            0,
            vec![good.clone()],
            "\n### Total: 3 code objects in 1 file",
        ),
        (
            &[("files", "broken")],
            1,
            vec![
                format!("::error file=broken,title=readable::{cut}"),
                "1 file, 0 bundles, 0 code objects: 1 fault".to_owned(),
            ],
            "\nNothing readable in 1 file\n",
        ),
        (
            &[("files", "sub/**/*"), ("expect", "sm_75")],
            1,
            vec![
                format!("::error file=sub/{escaped},title=expected::bundle 0 at offset 0: {missing}"),
                "1 file, 1 bundle, 3 code objects: 1 fault".to_owned(),
            ],
            "### 1 file, 1 bundle, 3 code objects: 1 fault\n\n\
            | File | Result | sm\\_75 (T4, Quadro RTX 8000, Quadro RTX 6000, …) |\n| --- | --- | --: |\n\
            | sub/a,b\\:% \\:\\:set\\-env.bundle | **1 fault** | 0 of 1 |\n\n### Total: ",
        ),
        // The driver compiles PTX for this GPU.
        (&[("files", "fatbin"), ("expect", "sm_100"), ("no-jit", "false")], 0, vec![fatbin], "| 1 of 1 by JIT |\n"),
        (
            &[("files", "fatbin"), ("expect", "sm_100"), ("no-jit", "true")],
            1,
            vec![
                format!("::error file=fatbin,title=expected::bundle 0 at offset 0: {no_machine_code}"),
                "1 file, 1 bundle, 3 code objects: 1 fault".to_owned(),
            ],
            "| fatbin | **1 fault** | 0 of 1 |",
        ),
        (
            &[("files", "old"), ("no-jit", "yes")],
            1,
            vec!["::error::'no-jit' has to be true or false, and is 'yes'".to_owned()],
            "",
        ),
        (
            &[("old", "old"), ("new", "new"), ("fail-on", "lost-gpu"), ("arguments", "--exact")],
            1,
            vec![format!("::error::{lost}")],
            "\n- GPUs lost: sm\\_80\n",
        ),
        (&[("old", "old"), ("new", "new")], 0, vec![], "**all**"),
        (&[("files", "old"), ("old", "old")], 1, vec![format!("::error::{one_of_two}")], ""),
        (
            // Each is checked once; a search does not follow the link.
            &[("files", "bad/**\n./bad\nbad/../bad\nbad//in/broken\nbad/in")],
            1,
            ["bad/in/broken", "bad/link", "bad/../bad/in/broken"]
                .map(|file| format!("::error file={file},title=readable::{cut}"))
                .into_iter()
                .chain(["3 files, 0 bundles, 0 code objects: 3 faults".to_owned()])
                .collect(),
            "\nNothing readable in 3 files\n",
        ),
        (
            &[("old", "ol[d]"), ("new", "x\u{2028}*")],
            1,
            vec![format!("::error file=x\u{2028}y::'x\u{2028}y': {cut}")],
            "| 3 removed |",
        ),
        (
            &[("old", "old"), ("new", "*e*")],
            1,
            vec!["::error::'new' has to be one file or directory; 2 match '*e*', among them 'broken'".to_owned()],
            "",
        ),
        (&[("files", "old"), ("arguments", "--max-size=x")], 2, vec![format!("::error::{no_size}")], ""),
        (&[("files", "*.none")], 1, vec!["::error::no file matches '*.none'".to_owned()], ""),
        (&[("files", "old"), ("arguments", "'")], 1, vec!["::error::arguments: No closing quotation".to_owned()], ""),
    ];
    for &(inputs, status, ref annotations, summary) in cases {
        let (_temporary, dir) = machine();
        fs::create_dir(dir.join("sub")).unwrap();
        fs::create_dir_all(dir.join("bad/in")).unwrap();
        fs::write(dir.join("bad/in/broken"), &broken).unwrap();
        std::os::unix::fs::symlink("../broken", dir.join("bad/link")).unwrap();
        fs::write(dir.join("x\u{2028}y"), &broken).unwrap();
        fs::write(dir.join("sub/a,b:%\n::set-env.bundle"), kernels::bundle()).unwrap();
        fs::copy(root().join("fixtures/fatbin/plain.fatbin"), dir.join("fatbin")).unwrap();
        for (name, data) in [("old", kernels::bundle()), ("new", kernels::changed_bundle()), ("broken", broken.clone())]
        {
            fs::write(dir.join(name), data).unwrap();
        }
        let (outcome, _, written) = run(&steps[1], inputs, &dir, &[]);
        let printed = String::from_utf8(outcome.stdout).unwrap();
        let errors = String::from_utf8(outcome.stderr).unwrap();
        assert_eq!((outcome.status.code(), errors.as_str()), (Some(status), ""), "{inputs:?}: {printed}");
        assert_eq!(printed.lines().collect::<Vec<_>>(), *annotations, "{inputs:?}");
        assert!(written.contains(summary) && written.is_empty() == summary.is_empty(), "{inputs:?}: {written}");
    }
}

/// Arguments reach the tool unchanged, and its second call gets the arguments about the search too.
#[test]
fn arguments_are_passed_on_or_refused() {
    let (_, steps) = action();
    let (temporary, dir) = machine();
    let calls = temporary.path().join("calls");
    fs::write(dir.join("in"), "").unwrap();
    fs::remove_file(temporary.path().join("bin/offload-bundle")).unwrap();
    let none = r#"{"files": [], "faults": [], "problems": [], "total": {"files": 1, "bundles": 0, "code_objects": 0, "faults": 0}}"#;
    let program = format!("#!/bin/sh\necho \"$*\" >>'{}'\n[ \"$1\" = inspect ] || echo '{none}'\n", calls.display());
    write_program(&temporary.path().join("bin/offload-bundle"), program.as_bytes());
    let run = |arguments: &str| {
        let _ = fs::remove_file(&calls);
        let (outcome, ..) = run(&steps[1], &[("files", "in"), ("arguments", arguments)], &dir, &[]);
        (String::from_utf8(outcome.stdout).unwrap(), fs::read_to_string(&calls).unwrap_or_default())
    };
    for (arguments, search) in [
        ("-r --max-size 1K --deep --compressed", "-r --max-size=1K --deep"),
        ("-r -max-size=2G -deep --allow-none", "-r -max-size=2G -deep"),
        ("-recursive --expect-any sm_80", "-recursive"),
        ("-r --compressed=1K", "-r"),
    ] {
        let expected = format!(
            "verify --message-format=json --json {arguments} -- in\ninspect --summary --markdown {search} -- in\n"
        );
        assert_eq!(run(arguments), ("1 file, 0 bundles, 0 code objects: nothing wrong\n".to_owned(), expected));
    }
    for refused in [
        "--",
        "-",
        "--help",
        "-h",
        "-rh",
        "-help",
        "-V",
        "-rV",
        "--version",
        "--json",
        "-json",
        "--expect",
        "-expect=sm_80",
        "--fail-on=spill",
        "--markdown",
        "--no-jit",
        "--message-format",
        "--message-format=text",
    ] {
        let (printed, called) = run(&format!("--deep {refused}"));
        let start = format!("::error::arguments: the action does not take '{refused}'; ");
        assert!(printed.starts_with(&start) && printed.lines().count() == 1 && called.is_empty(), "{printed}{called}");
    }
}

/// Whatever inputs and names of files hold, no shell and no command of GitHub's is run, and no summary is too long.
#[test]
fn inputs_and_files_run_nothing() {
    let (inputs, steps) = action();
    let (temporary, dir) = machine();
    let hostile = ["$(touch owned)`touch owned` || touch owned", "--help", "::add-path::x\n::x::"];
    let verify = ["files", "expect", "no-jit", "arguments"].map(|name| (name, &["files"][..]));
    let diff = ["old", "new", "fail-on", "arguments"].map(|name| (name, &["old", "new"][..]));
    assert!(inputs.iter().all(|input| input == "version" || verify.iter().chain(&diff).any(|(name, _)| name == input)));
    for text in hostile {
        for (name, others) in verify.iter().chain(&diff) {
            let kept = others.iter().filter(|other| *other != name).map(|other| (*other, "sub"));
            let given: Vec<(&str, &str)> = kept.chain([(*name, text)]).collect();
            fs::create_dir_all(dir.join("sub")).unwrap();
            fs::write(dir.join("sub/::add-path::x##[add-path]x"), b"__CLANG_OFFLOAD_BUNDLE__").unwrap();
            let (outcome, ..) = run(&steps[1], &given, &dir, &[]);
            let printed = String::from_utf8(outcome.stdout).unwrap();
            let is_annotation =
                |line: &str| ["::error ", "::error::", "::notice::"].iter().any(|start| line.starts_with(start));
            let is_verdict = |line: &str| line.starts_with("1 file, ") && line.ends_with(": 1 fault");
            let mut lines = printed.lines();
            assert!(lines.all(|line| is_annotation(line) || is_verdict(line)), "{given:?}: {printed}");
            assert_eq!(fs::read_dir(&dir).unwrap().count(), 1, "{given:?}");
        }
    }
    let full = "a\n".repeat(499_990);
    fs::write(temporary.path().join("summary"), &full).unwrap();
    let (_, _, written) = run(&steps[1], &[("files", "sub")], &dir, &[]);
    let more = written.strip_prefix(&full).unwrap();
    assert!(more.ends_with("\nThe summary is too long to be shown in full.\n") && more.len() < 80, "{more}");
}

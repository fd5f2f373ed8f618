//! Exhausted resources and missing permissions: space, file sizes, open files, threads, directories.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Command, Output};

use super::matrix::{has_strace, run_with_late_error};
use super::scenario::{self, OLD, OURS, Place, Scenario, bundling, has_unnamed_files, noise};
use crate::inputs::{UNSHARE, has_namespaces};
use crate::machine::{memory_directory, skipped, write_program};
use crate::reference::formats;

/// Runs a script in the directory of a scenario, with the tool as `$TOOL`, its arguments as `"$@"`, and the options of
/// `unshare` as `$UNSHARE`.
fn script(scenario: &Scenario, place: &Place, script: &str) -> Output {
    let mut command = place.command(scenario, Path::new("sh"));
    command.env("TOOL", OURS).env("UNSHARE", UNSHARE.unwrap_or_default());
    command.args(["-c", script, "sh"]).args(&scenario.arguments).output().unwrap()
}

fn stderr(run: &Output) -> String {
    String::from_utf8_lossy(&run.stderr).into_owned()
}

fn assert_failed(run: &Output, message: &str) {
    assert_eq!(run.status.code(), Some(1), "{:?} {}", run.status, stderr(run));
    assert!(stderr(run).contains(message), "{}", stderr(run));
}

fn assert_nothing_changed(scenario: &Scenario, place: &Place) {
    assert!(place.is_tidy());
    let outputs = place.outputs(scenario);
    assert!(outputs.keys().eq(&scenario.old), "{:?}", outputs.keys());
    assert!(outputs.values().all(|content| content == OLD));
}

#[test]
fn a_full_disk() {
    if !has_namespaces() {
        return;
    }
    for options in [&["-type=bc"][..], &["-type=bc", "-compress"]] {
        let mut scenario = bundling("full disk", options, 100_000, &[]);
        scenario.arguments.pop();
        let place = Place::new(&scenario);
        fs::create_dir(place.work.join("full")).unwrap();
        let run = script(
            &scenario,
            &place,
            "exec unshare $UNSHARE sh -c 'mount -t tmpfs -o size=64k none full && printf old >full/out \
             && { \"$TOOL\" \"$@\" -output=full/out; echo status $?; ls -A full; cat full/out; \
                  rm full/out; \"$TOOL\" \"$@\" -output=full/out; echo status $?; ls -A full; }' sh \"$@\"",
        );
        assert_eq!(String::from_utf8_lossy(&run.stdout), "status 1\nout\noldstatus 1\n", "{options:?}");
        let lines: Vec<_> = run.stderr.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()).collect();
        assert_eq!(lines.len(), 2, "{options:?}: {}", stderr(&run));
        assert!(stderr(&run).matches("'full/out': No space left on device").count() == 2, "{}", stderr(&run));
    }
}

#[test]
fn a_full_disk_under_what_is_written_in_place() {
    if !has_namespaces() {
        return;
    }
    // A file that is a mount point cannot be replaced, only written into. There is room only for its old content.
    let mut scenario = bundling("full disk", &["-type=bc"], 100_000, &["out"]);
    scenario.arguments.pop();
    let place = Place::new(&scenario);
    fs::create_dir(place.work.join("full")).unwrap();
    let run = script(
        &scenario,
        &place,
        "exec unshare $UNSHARE sh -c 'mount -t tmpfs -o size=64k none full && head -c 50000 input-b >full/file \
         && head -c 50000 input-b >old && mount --bind full/file out \
         && { \"$TOOL\" \"$@\" -output=out; echo status $?; ls -A full; cmp old out; rm old; }' sh \"$@\"",
    );
    assert_eq!(String::from_utf8_lossy(&run.stdout), "status 1\nfile\n", "{}", stderr(&run));
    assert!(stderr(&run).contains("'out': No space left on device"), "{}", stderr(&run));
    fs::remove_dir(place.work.join("full")).unwrap();
    assert_nothing_changed(&scenario, &place);
}

#[test]
fn a_mounted_file_is_written_in_place() {
    if !has_namespaces() {
        return;
    }
    for scenario in scenario::named(&["bundle over an old file", "bundle a fat object", "compress", "package"]) {
        let run = script(
            &scenario,
            &Place::new(&scenario),
            "exec unshare $UNSHARE sh -c 'echo old >file && mount --bind file out && \"$TOOL\" \"$@\" && cat file' sh \"$@\"",
        );
        assert!(run.status.success(), "{}: {}", scenario.name, stderr(&run));
        assert!(run.stdout == scenario.product(), "{}: another content", scenario.name);
    }
}

#[test]
fn a_full_disk_under_temporary_files() {
    if !has_namespaces() {
        return;
    }
    const FULL: &str = "cannot write a temporary file in 'full': No space left on device";
    let scenario = bundling("full temporary disk", &["-type=bc"], 100_000, &[]);
    let place = Place::new(&scenario);
    fs::create_dir(place.work.join("full")).unwrap();
    // More inflated or piped data than is kept in memory.
    let targets = "targets=-targets=hip-amdgcn-amd-amdhsa--gfx906";
    let make = "head -c 20000000 /dev/urandom >device && \"$TOOL\" -type=bc $targets -input=device -output=plain \
         && \"$TOOL\" -type=bc -compress $targets -input=device -output=compressed";
    assert!(script(&scenario, &place, &format!("{targets} && {make}")).status.success());
    let full = "exec unshare $UNSHARE sh -c 'mount -t tmpfs -o size=1m none full && export TMPDIR=full";
    for (command, message) in [
        ("cat plain | \"$TOOL\" -type=bc -list -input=-", FULL),
        ("cat plain | \"$TOOL\" verify /dev/stdin", FULL),
        ("\"$TOOL\" verify compressed", FULL),
        ("\"$TOOL\" recompress --none -o new compressed", FULL),
        ("\"$TOOL\" -type=bc -unbundle -verbose $targets -input=compressed -output=new", FULL),
        ("\"$TOOL\" -type=bc -unbundle $targets -input=plain -output=- >written", "'-': No space left on device"),
        ("\"$TOOL\" extract -o - compressed >written", "'-': No space left on device"),
    ] {
        assert_failed(&script(&scenario, &place, &format!("{full} && {targets} && {command}'")), message);
        let written = fs::read(place.work.join("written")).unwrap_or_default();
        assert!(!place.work.join("new").exists() && written.is_empty(), "{command}");
    }
}

#[test]
fn devices_that_take_nothing() {
    let mut scenario = bundling("full device", &["-type=bc"], 100_000, &[]);
    scenario.arguments.pop();
    let place = Place::new(&scenario);
    assert_failed(
        &script(&scenario, &place, "\"$TOOL\" \"$@\" -output=/dev/full"),
        "'/dev/full': No space left on device",
    );
    assert_failed(&script(&scenario, &place, "\"$TOOL\" \"$@\" -output=- >/dev/full"), "'-': No space left on device");
    assert_nothing_changed(&scenario, &place);
    let bundle = bundling("", &["-type=bc"], 100, &[]).product();
    let list = Scenario::new("list", &["-type=bc", "-list", "-input=input"], &[("input", &bundle)], &[]);
    let place = Place::new(&list);
    assert_failed(&script(&list, &place, "\"$TOOL\" \"$@\" >/dev/full"), "'-': No space left on device");
}

#[test]
fn the_limit_on_file_sizes() {
    for options in [&["-type=bc"][..], &["-type=bc", "-compress"]] {
        for old in [&[][..], &["out"]] {
            let scenario = bundling("limit", options, 100_000, old);
            let place = Place::new(&scenario);
            // Blocks have 512 or 1024 bytes, depending on the shell. The limit first shortens a write and then rejects
            // the next one.
            let run = script(&scenario, &place, "ulimit -f 21 && exec \"$TOOL\" \"$@\"");
            assert_failed(&run, "'out': File too large");
            assert_nothing_changed(&scenario, &place);
        }
    }
    for scenario in scenario::all() {
        if !["extract all over old files", "recompress a library", "recompress bundles"].contains(&scenario.name) {
            continue;
        }
        let place = Place::new(&scenario);
        assert_failed(&script(&scenario, &place, "ulimit -f 21 && exec \"$TOOL\" \"$@\""), "': File too large");
        assert_nothing_changed(&scenario, &place);
    }
}

#[test]
fn the_limit_on_file_sizes_holds_for_all_that_is_written() {
    const LIMITED: &str = "cannot write a temporary file in '.': File too large";
    let scenario = bundling("limit on anything", &["-type=bc"], 100_000, &[]);
    let place = Place::new(&scenario);
    // More inflated or piped data than is kept in memory.
    let make = "truncate -s 20M zeros && \"$TOOL\" -type=bc -compress -input=zeros -input=zeros -output=compressed \
         -targets=host-x86_64-unknown-linux-gnu-,hip-amdgcn-amd-amdhsa--gfx906 \
         && \"$TOOL\" -type=bc -unbundle -input=compressed -output=/dev/null -targets=hip-amdgcn-amd-amdhsa--gfx906 \
         && \"$TOOL\" recompress --none -o plain compressed >/dev/null";
    assert!(script(&scenario, &place, make).status.success());
    let device = "-unbundle -targets=hip-amdgcn-amd-amdhsa--gfx906";
    for (limit, command, names) in [
        (21, format!("\"$TOOL\" -type=bc {device} -input=plain -output=- >written"), "'-': File too large"),
        (21, format!("\"$TOOL\" -type=bc {device} -input=compressed -output=- >written"), "'-': File too large"),
        (21, "\"$TOOL\" extract -o - plain >written".to_owned(), "'-': File too large"),
        (21, "cat plain | \"$TOOL\" -type=bc -list -input=-".to_owned(), LIMITED),
        (21, "cat plain | \"$TOOL\" verify /dev/stdin".to_owned(), LIMITED),
        (21, "cat plain | \"$TOOL\" inspect /dev/stdin".to_owned(), LIMITED),
        (21, "\"$TOOL\" verify compressed".to_owned(), LIMITED),
        (21, "\"$TOOL\" inspect --inflate compressed".to_owned(), LIMITED),
        (21, format!("\"$TOOL\" -type=bc {device} -verbose -input=compressed -output=new"), LIMITED),
        (0, "\"$TOOL\" -type=bc -list -input=plain >written".to_owned(), "'-': File too large"),
        (0, "\"$TOOL\" inspect plain >written".to_owned(), "'-': File too large"),
        (0, "\"$TOOL\" verify --json plain >written".to_owned(), "'-': File too large"),
        (0, "\"$TOOL\" --help >written".to_owned(), "File too large"),
    ] {
        let run = script(&scenario, &place, &format!("export TMPDIR=. && ulimit -f {limit} && {command}"));
        assert_failed(&run, names);
        assert!(!place.work.join("new").exists(), "{command}");
    }
}

/// The number of inputs or outputs of a job with more of them than the process may have open files.
const MANY: usize = 301;

fn numbered(form: impl Fn(usize) -> String) -> Vec<String> {
    (0..MANY).map(form).collect()
}

/// Jobs with many inputs, many outputs, or both. The outputs of some replace old files.
fn with_many_files() -> Vec<Scenario> {
    let ids = numbered(|number| format!("hip-amdgcn-amd-amdhsa--gfx{number:04}"));
    let targets = format!("-targets={}", ids.join(","));
    // Some are copied by the kernel, others are gathered.
    let code: Vec<Vec<u8>> = (0..MANY).map(|number| vec![7; if number % 50 == 9 { 90_000 } else { number }]).collect();
    let entries: Vec<(&str, &[u8])> = ids.iter().zip(&code).map(|(id, code)| (id.as_str(), code.as_slice())).collect();
    let bundle = formats::binary(&entries, 1);
    let scenario = |name, arguments: &[&str], more: Vec<String>, input: &[u8]| {
        let old = if name == "unbundle" { vec!["output-0000", "output-0300"] } else { Vec::new() };
        let mut scenario = Scenario::new(name, arguments, &[("input", input)], &old);
        scenario.arguments.extend(more);
        scenario
    };
    let outputs = || numbered(|number| format!("-output=output-{number:04}"));
    let unbundle = |file_type, input| ["-unbundle", file_type, &targets, input].map(str::to_owned).to_vec();
    let mut all = vec![scenario("extract", &["extract", "-o", ".", "input"], Vec::new(), &bundle)];
    for (name, file_type, input) in [
        ("unbundle", "-type=bc", bundle.clone()),
        ("unbundle, compressed", "-type=bc", formats::compressed(3, 1, &bundle)),
        ("unbundle an archive", "-type=a", crate::properties::make::archive(&[("a.bc", &bundle)])),
    ] {
        let more = [unbundle(file_type, "-input=input"), outputs()].concat();
        all.push(scenario(name, &[], more, &input));
    }
    let inputs: scenario::Files =
        code.iter().enumerate().map(|(at, code)| (format!("input-{at:04}"), code.clone())).collect();
    let mut bundling = scenario("bundle", &["-type=bc", &targets, "-output=out"], Vec::new(), b"");
    bundling.arguments.extend(numbered(|number| format!("-input=input-{number:04}")));
    bundling.inputs.extend(inputs.clone());
    let mut packaging = scenario("package", &["package", "-o=out"], Vec::new(), b"");
    let image =
        |number| format!("--image=file=input-{number:04},triple=amdgcn-amd-amdhsa,arch=gfx{number:04},kind=hip");
    packaging.arguments.extend(numbered(image));
    packaging.inputs.extend(inputs);
    let package = packaging.product();
    let files = numbered(|number| format!("--image=file=output-{number:04},arch=gfx{number:04}"));
    all.push(scenario("unpackage to generated names", &["package", "input", "--image=kind=hip"], Vec::new(), &package));
    all.push(scenario("unpackage to files", &["package", "input"], files, &package));
    all.extend([bundling, packaging]);
    all
}

#[test]
fn more_files_than_may_be_open() {
    for scenario in with_many_files() {
        let clean = Place::new(&scenario);
        let run = script(&scenario, &clean, "exec \"$TOOL\" \"$@\"");
        assert!(run.status.success(), "{}: {}", scenario.name, stderr(&run));
        let expected = clean.outputs(&scenario);
        // The second limit is a soft one, which the tool raises.
        for limit in ["-n 128", "-Sn 40", "-n 24"] {
            let place = Place::new(&scenario);
            let run = script(&scenario, &place, &format!("ulimit {limit} && exec \"$TOOL\" \"$@\""));
            assert!(run.status.success(), "{} {limit}: {}", scenario.name, stderr(&run));
            assert!(place.outputs(&scenario) == expected, "{} {limit}", scenario.name);
            assert!(place.is_tidy(), "{} {limit}", scenario.name);
        }
    }
}

/// The last output cannot be put in place, when all others wait under hidden names.
#[test]
fn more_outputs_than_may_be_open_are_all_written_or_none() {
    let all = with_many_files();
    for scenario in all.iter().filter(|scenario| ["unbundle", "unpackage to files"].contains(&scenario.name)) {
        for broken in ["output-0300", "output-0150"] {
            let place = Place::new(scenario);
            drop(fs::remove_file(place.work.join(broken)));
            fs::create_dir(place.work.join(broken)).unwrap();
            let run = script(scenario, &place, "ulimit -n 40 && exec \"$TOOL\" \"$@\"");
            assert_failed(&run, &format!("'{broken}': Is a directory"));
            fs::remove_dir(place.work.join(broken)).unwrap();
            let outputs = place.outputs(scenario);
            let old: Vec<_> = scenario.old.iter().filter(|old| **old != broken).collect();
            assert!(outputs.keys().eq(old), "{}: {:?}", scenario.name, outputs.keys());
            assert!(outputs.values().all(|content| content == OLD) && place.is_tidy());
        }
    }
}

/// A directory with the executable as `tool`, where everybody can run it.
fn public_directory() -> tempfile::TempDir {
    let public = memory_directory();
    fs::set_permissions(public.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    write_program(&public.path().join("tool"), &fs::read(OURS).unwrap());
    public
}

#[test]
fn a_directory_that_takes_no_new_files() {
    if !rustix::process::geteuid().is_root() {
        skipped("only root can be somebody else; a directory of another user is not tried", None);
        return;
    }
    let public = public_directory();
    let tool = public.path().join("tool");
    let run_as_nobody = |output: &str| {
        let mut scenario = bundling("forbidden directory", &["-type=bc"], 100_000, &["out"]);
        scenario.arguments.pop();
        scenario.arguments.push(format!("-output={output}"));
        let place = Place::new(&scenario);
        let all = "chmod a+rx .. ../.. \"${TOOL%/*}\" 2>/dev/null; chmod a+rwx \"$TMPDIR\"; chmod a+rw out; \
                   exec setpriv --reuid=65534 --regid=65534 --clear-groups \"$TOOL\" \"$@\"";
        let mut command = place.command(&scenario, Path::new("sh"));
        let parents = [place.work.parent().unwrap(), place.work.as_path()];
        parents.iter().for_each(|path| {
            fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        });
        let run = command.env("TOOL", &tool).args(["-c", all, "sh"]).args(&scenario.arguments).output().unwrap();
        (scenario, place, run)
    };
    let (scenario, place, run) = run_as_nobody("new");
    assert_failed(&run, "'new': Permission denied");
    assert_nothing_changed(&scenario, &place);
    // An old file that is writable is written in place.
    let (scenario, place, run) = run_as_nobody("out");
    assert!(run.status.success(), "{}", stderr(&run));
    assert!(place.outputs(&scenario).keys().eq(["out"]) && place.is_tidy());
    assert_ne!(place.outputs(&scenario)["out"], OLD);
}

#[test]
fn files_are_read_without_further_threads_where_none_can_be_started() {
    if !rustix::process::geteuid().is_root() {
        skipped("only root can be somebody who may start no thread", None);
        return;
    }
    let public = public_directory();
    let bundle = formats::binary(&[("hip-amdgcn-amd-amdhsa--gfx906", b"code")], 1);
    ["a", "b", "c"].iter().for_each(|name| fs::write(public.path().join(name), &bundle).unwrap());
    for command in ["inspect", "verify"] {
        let run = |before: &[&str]| {
            let mut run = Command::new("setpriv");
            run.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).args(before);
            run.args(["./tool", command, "a", "b", "c"]).current_dir(public.path()).output().unwrap()
        };
        let expected = run(&[]);
        assert!(expected.status.success(), "{}", stderr(&expected));
        // The second limit may leave one thread, where the first leaves none.
        for limit in ["--nproc=1", "--nproc=2"] {
            let limited = run(&["prlimit", limit]);
            assert_eq!(limited, expected, "{command} {limit}: {}", stderr(&limited));
        }
    }
}

#[test]
fn outputs_on_another_file_system_than_temporary_files_are_complete() {
    let mut scenario = bundling("other file system", &["-type=bc"], 100_000, &["out"]);
    let place = Place::new(&scenario);
    let elsewhere = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let device = |path: &Path| fs::metadata(path).unwrap().dev();
    if device(elsewhere.path()) == device(&place.work) {
        skipped("there is only one file system, without /dev/shm", None);
        return;
    }
    let expected = bundling("", &["-type=bc"], 100_000, &[]).product();
    let run = script(&scenario, &place, &format!("TMPDIR='{}' exec \"$TOOL\" \"$@\"", elsewhere.path().display()));
    assert!(run.status.success(), "{}", stderr(&run));
    assert!(place.outputs(&scenario)["out"] == expected);
    let there = elsewhere.path().join("out");
    scenario.arguments.pop();
    scenario.arguments.push(format!("-output={}", there.display()));
    let run = script(&scenario, &place, "exec \"$TOOL\" \"$@\"");
    assert!(run.status.success(), "{}", stderr(&run));
    assert!(fs::read(there).unwrap() == expected);
    assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 1);
    // Without a directory for temporary files, only runs that need one fail.
    let run = script(&scenario, &place, "TMPDIR=/nonexistent exec \"$TOOL\" \"$@\"");
    assert!(run.status.success(), "{}", stderr(&run));
    scenario.arguments.pop();
    let run = script(&scenario, &place, "TMPDIR=/nonexistent exec \"$TOOL\" \"$@\" -output=-");
    assert_failed(&run, "'-': No such file or directory");
}

#[test]
fn no_process_file_system() {
    if !has_namespaces() {
        return;
    }
    let expected = bundling("", &["-type=bc"], 100_000, &[]).product();
    for old in [&[][..], &["out"]] {
        let scenario = bundling("no /proc", &["-type=bc"], 100_000, old);
        let place = Place::new(&scenario);
        let run = script(
            &scenario,
            &place,
            "exec unshare $UNSHARE sh -c 'mount -t tmpfs none /proc && exec \"$TOOL\" \"$@\"' sh \"$@\"",
        );
        assert!(run.status.success(), "{}", stderr(&run));
        assert!(place.outputs(&scenario).into_iter().eq([("out".to_owned(), expected.clone())]));
    }
}

#[test]
fn closed_streams() {
    let scenario = bundling("closed streams", &["-type=bc"], 100_000, &["out"]);
    let expected = Scenario { old: vec![], ..scenario.clone() }.product();
    for close in ["<&-", ">&-", "2>&-", "<&- >&-", "<&- >&- 2>&-"] {
        let place = Place::new(&scenario);
        let run = script(&scenario, &place, &format!("exec \"$TOOL\" \"$@\" {close}"));
        assert!(run.status.success(), "{close}: {}", stderr(&run));
        assert!(place.outputs(&scenario)["out"] == expected, "{close}");
        // Messages must not be written to an output that has the file descriptor of a standard stream.
        let mut wrong = scenario.clone();
        wrong.inputs.remove("input-b");
        let place = Place::new(&wrong);
        let run = script(&wrong, &place, &format!("exec \"$TOOL\" \"$@\" {close}"));
        assert_eq!(run.status.code(), Some(1), "{close}");
        assert_nothing_changed(&wrong, &place);
    }
}

#[test]
fn a_closed_pipe_for_messages() {
    let mut scenario = bundling("closed pipe", &["-type=bc"], 100_000, &["out"]);
    scenario.inputs.remove("input-b");
    let place = Place::new(&scenario);
    let run =
        script(&scenario, &place, "{ \"$TOOL\" \"$@\" 2>&3; echo $?; } 3>&1 >status | true; cat status; rm status");
    assert_eq!(String::from_utf8_lossy(&run.stdout), "1\n");
    assert_nothing_changed(&scenario, &place);
}

#[test]
fn many_runs_with_one_output() {
    const RUNS: usize = 8;
    let directory = memory_directory();
    let bundle = |run: usize, output: &str| {
        let input = format!("-input=in{run}");
        let arguments = ["-type=bc", "-targets=host-x86_64-unknown-linux-gnu-", &input, &format!("-output={output}")];
        let run = Command::new(OURS).current_dir(directory.path()).args(arguments).output().unwrap();
        assert!(run.status.success(), "{}", stderr(&run));
    };
    let expected: Vec<Vec<u8>> = (0..RUNS)
        .map(|run| {
            fs::write(directory.path().join(format!("in{run}")), noise(60_000 + run * 20_000, 9)).unwrap();
            bundle(run, "alone");
            fs::read(directory.path().join("alone")).unwrap()
        })
        .collect();
    let output = directory.path().join("out");
    for round in 0..20 {
        // Alternates between an old file and a free name.
        if round % 2 == 0 && round > 0 {
            fs::remove_file(&output).unwrap();
        }
        std::thread::scope(|scope| {
            for run in 0..RUNS {
                let bundle = &bundle;
                scope.spawn(move || bundle(run, "out"));
            }
        });
        let result = fs::read(&output).unwrap();
        assert!(expected.contains(&result), "round {round}: {} bytes of nobody", result.len());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), RUNS + 2, "round {round}");
    }
}

#[test]
fn no_thread_to_be_had() {
    if !has_strace() {
        return;
    }
    let mut scenario = bundling("no thread", &["-type=bc", "-compress"], 100, &["out"]);
    let place = Place::new(&scenario);
    // Several threads compress; a hole is read quickly.
    fs::File::create(place.work.join("input-large")).unwrap().set_len(130 << 20).unwrap();
    scenario.arguments.iter_mut().filter(|argument| *argument == "-input=input-b").for_each(|argument| {
        *argument = "-input=input-large".to_owned();
    });
    let run = script(
        &scenario,
        &place,
        "exec strace -f -qq -o /dev/null -e trace=clone,clone3 -e inject=clone,clone3:error=EAGAIN \"$TOOL\" \"$@\"",
    );
    assert!(run.status.success(), "{}", stderr(&run));
    let list =
        ["-type=bc", "-unbundle", "-input=out", "-verbose", "-targets=hip-amdgcn-amd-amdhsa--gfx90a", "-output=back"];
    let back = place.command(&scenario, Path::new(OURS)).args(list).output().unwrap();
    assert!(back.status.success(), "{}", stderr(&back));
    assert_eq!(fs::metadata(place.work.join("back")).unwrap().len(), 130 << 20);
}

#[test]
fn errors_of_closing_an_output_are_reported() {
    if !has_strace() || !has_unnamed_files() {
        return;
    }
    for old in [&[][..], &["out"]] {
        let scenario = bundling("late error", &["-type=bc"], 100_000, old);
        let (place, run) = run_with_late_error(&scenario, Path::new(OURS));
        assert_failed(&run, "'out': No space left on device");
        assert_nothing_changed(&scenario, &place);
    }
}

//! Files without an end or a length, and pipes.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;

use super::*;
use crate::hostile::files::thin;
use crate::machine::skipped;
use crate::reference::formats;

/// A regular file that records no length, is readable by every user, and is larger than any disk.
const ENDLESS: &str = "/proc/self/pagemap";

fn has_endless() -> bool {
    let there = fs::File::open(ENDLESS).is_ok();
    if !there {
        skipped("there is no /proc/self/pagemap; files without an end are not tried", None);
    }
    there
}

#[test]
fn a_file_without_a_length_is_read_up_to_a_limit() {
    if !has_endless() {
        return;
    }
    for line in readers() {
        let line = on(ENDLESS, &line);
        let bench = Bench::new(&[]);
        let run = bench.run(&words(&line));
        assert_fails(&line.join(" "), &run, "'/proc/self/pagemap': longer than 67108864 bytes");
        bench.assert_only(&[], &line.join(" "));
        let takes_limit = !line.iter().any(|word| word.contains("host-") || word.starts_with("--image=file"));
        if takes_limit {
            let run = bench.run(&[words(&line), vec!["--max-size=1M"]].concat());
            assert_fails(&line.join(" "), &run, "'/proc/self/pagemap': longer than 1048576 bytes");
        }
    }
    // A file that ends is read even if it records no size.
    let bench = Bench::new(&[]);
    let run =
        bench.run(&["-type=bc", "-targets=host-x86_64-unknown-linux-gnu-", "-input=/proc/version", "-output=out"]);
    assert_succeeds("/proc/version", &run);
    let version = fs::read("/proc/version").unwrap();
    assert!(fs::read(bench.path("out")).unwrap().ends_with(&version));
}

#[test]
fn members_of_thin_archives_without_a_length_are_empty() {
    if !has_endless() {
        return;
    }
    // Reading the kernel's messages blocks.
    if !rustix::process::geteuid().is_root() {
        skipped("only root may read the kernel's messages; no member of an archive waits", None);
    }
    let members = [("endless", ENDLESS), ("waits", "/proc/kmsg"), ("version", "/proc/version")];
    for line in readers() {
        let bench = Bench::new(&[]);
        members.iter().for_each(|(name, path)| std::os::unix::fs::symlink(path, bench.path(name)).unwrap());
        fs::write(bench.path("lib.a"), thin(&members.map(|(name, _)| name))).unwrap();
        let line = on("lib.a", &line);
        let run = bench.run(&words(&line));
        assert!(matches!(run.status.code(), Some(0 | 1)), "{line:?}: {:?} {}", run.status, stderr(&run));
        assert!(!stderr(&run).contains("longer than") && !stderr(&run).contains("too large"), "{}", stderr(&run));
        assert!(list(bench.temporary.path()).is_empty());
    }
}

#[test]
fn members_of_thin_archives_are_regular_files() {
    let bench = Bench::new(&[("lib.a", &thin(&["pipe"])), ("dev.a", &thin(&["null"]))]);
    make_pipe(&bench.path("pipe"));
    std::os::unix::fs::symlink("/dev/null", bench.path("null")).unwrap();
    for (archive, member) in [("lib.a", "pipe"), ("dev.a", "null")] {
        for words in [&["-type=a", "-list"][..], &["package"], &["inspect"], &["extract"]] {
            let input = format!("-input={archive}");
            let file = if words[0] == "-type=a" { &input } else { archive };
            let run = bench.run(&[words, &[file]].concat());
            assert_fails(archive, &run, &format!("'{member}': not a regular file"));
        }
        let run = bench.run(&["verify", archive]);
        assert_eq!(run.status.code(), Some(1), "{archive}");
        assert!(stdout(&run).contains("not a regular file"), "{}", stdout(&run));
    }
}

fn make_pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[test]
fn a_file_in_a_directory_that_becomes_a_pipe_is_not_waited_for() {
    let bundle = formats::binary(&[(GFX906, b"code")], 1);
    for words in [&["inspect", "-r"][..], &["verify", "-r"], &["extract", "-r", "-n"]] {
        let bench = Bench::new(&[]);
        fs::create_dir(bench.path("dir")).unwrap();
        fs::write(bench.path("dir/x"), &bundle).unwrap();
        // With two pipes, the files are read one after another.
        let pipes = ["pipe0", "pipe1"];
        pipes.iter().for_each(|pipe| make_pipe(&bench.path(pipe)));
        let mut command = bench.command("", &[words, &pipes, &["dir"]].concat());
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // The tool opens the first pipe after it has read the directory.
        let open = |pipe: &str| fs::OpenOptions::new().write(true).open(bench.path(pipe)).unwrap();
        let first = open(pipes[0]);
        fs::remove_file(bench.path("dir/x")).unwrap();
        make_pipe(&bench.path("dir/x"));
        let feed = |mut pipe: fs::File| pipe.write_all(&bundle).unwrap();
        feed(first);
        feed(open(pipes[1]));
        let run = child.wait_with_output().unwrap();
        assert_fails(&words.join(" "), &run, "'dir/x': not a regular file");
        assert!(words[0] == "verify" || stdout(&run).contains("gfx906"), "{}", stdout(&run));
    }
}

#[test]
fn named_pipes_are_read_to_their_end() {
    let code = vec![7; 20 << 20];
    let bundle = formats::binary(&[(HOST, b""), (GFX906, &code)], 1);
    let expected = format!("{HOST}\n{GFX906}\n");
    for name in ["-", "/dev/stdin", "/proc/self/fd/0", "pipe"] {
        let bench = Bench::new(&[("bundle", &bundle)]);
        make_pipe(&bench.path("pipe"));
        for (words, says) in
            [(vec!["-type=bc", "-list"], Ok(&expected)), (vec!["-type=bc", "-list", "--max-size=1M"], Err(()))]
        {
            let input = format!("-input={name}");
            let feed = if name == "pipe" { "cat bundle >pipe &" } else { "" };
            let mut command = bench.command(feed, &[words, vec![&input]].concat());
            let mut child =
                command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            let mut pipe = child.stdin.take().unwrap();
            std::thread::scope(|scope| {
                // The pipe may be rejected, or not be read at all.
                let fed: &[u8] = if name == "pipe" { b"" } else { &bundle };
                scope.spawn(move || drop(pipe.write_all(fed)));
                let run = child.wait_with_output().unwrap();
                match says {
                    Ok(text) => assert_eq!((stdout(&run), stderr(&run)), (text.clone(), String::new()), "{name}"),
                    Err(()) => {
                        assert_fails(name, &run, &format!("'{name}': longer than 1048576 bytes, the limit for a pipe"))
                    }
                }
            });
        }
        bench.assert_only(&["bundle", "pipe"], name);
    }
    let bench = Bench::new(&[]);
    let run = bench.run(&["-type=bc", "-targets=host-x86_64-unknown-linux-gnu-", "-input=/dev/null", "-output=out"]);
    assert_succeeds("/dev/null", &run);
    assert_eq!(fs::read(bench.path("out")).unwrap(), formats::binary(&[(HOST, b"")], 1));
}

//! Tests of the line that shows on a terminal that long work goes on.

use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::{Child, Stdio};

use super::*;

/// Starts a command that reads from a pipe and has got the beginning. The end comes when its standard input is closed.
fn waiting(args: &[&str], stdout: Stdio, stderr: Stdio, term: &str) -> Child {
    let mut command = Command::new(PROGRAM);
    command.args(args).env("TERM", term).stdin(Stdio::piped()).stdout(stdout).stderr(stderr);
    let mut child = command.spawn().unwrap();
    child.stdin.as_mut().unwrap().write_all(&inspect::bundle()).unwrap();
    child
}

/// Reads from one end of a terminal until `is_enough`, or until the other end is closed.
fn read(master: &mut std::fs::File, is_enough: impl Fn(&str) -> bool) -> String {
    let (mut printed, mut block) = (Vec::new(), [0; 4096]);
    // Reading from a terminal whose other end is closed gives an error.
    while let Ok(count @ 1..) = master.read(&mut block) {
        printed.extend(&block[..count]);
        if is_enough(&String::from_utf8_lossy(&printed)) {
            break;
        }
    }
    String::from_utf8(printed).unwrap()
}

const INSPECT: &[&str] = &["inspect", "--color=never", "-"];

fn end(slave: &OwnedFd) -> Stdio {
    Stdio::from(slave.try_clone().unwrap())
}

fn terminal() -> (std::fs::File, OwnedFd) {
    let pty = nix::pty::openpty(None, None).unwrap();
    (pty.master.into(), pty.slave)
}

#[test]
fn long_work_is_shown_on_a_terminal_and_nowhere_else() {
    let [(mut shown, both), (mut piped, only_stderr), (mut dumb, without_escapes), (mut quiet, asked)] =
        [(); 4].map(|()| terminal());
    let mut others = [
        waiting(INSPECT, Stdio::piped(), only_stderr.into(), "xterm"),
        waiting(INSPECT, end(&without_escapes), without_escapes.into(), "dumb"),
        waiting(INSPECT, Stdio::null(), Stdio::piped(), "xterm"),
        waiting(&[INSPECT, &["--quiet"]].concat(), end(&asked), asked.into(), "xterm"),
    ];
    let mut child = waiting(INSPECT, end(&both), both.into(), "xterm");
    let first = read(&mut shown, |printed| printed.contains("\x1b[K"));
    assert!(first.starts_with("\rinspect: 0 MB read, ") && first.contains(" s\x1b[K"), "{first:?}");
    // The other commands were started before, so they would show something by now.
    others.iter_mut().for_each(|child| drop(child.stdin.take()));
    drop(child.stdin.take());
    let rest = read(&mut shown, |_| false);
    let (line, table) = rest.rsplit_once("\r\x1b[K").unwrap();
    assert!(line.is_empty() || line.starts_with('\r'), "{rest:?}");
    assert!(table.starts_with("-: ") && !table.contains("MB read"), "{rest:?}");
    assert!(child.wait().unwrap().success());
    assert_eq!(read(&mut piped, |_| false), "");
    for without in [&mut dumb, &mut quiet] {
        let printed = read(without, |_| false);
        assert!(printed.starts_with("-: ") && !printed.contains("MB read"), "{printed:?}");
    }
    for child in others {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty());
    }
}

#[test]
fn the_line_shows_which_part_of_the_files_is_done_and_makes_way_for_errors() {
    let dir = crate::machine::memory_directory();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let [first, last] = ["first", "last"].map(path);
    for file in [&first, &last] {
        std::fs::write(file, inspect::bundle()).unwrap();
    }
    let (mut shown, both) = terminal();
    // Two pipes are read in turn, so that the work stops at the first of them, after one of two files of the same size.
    let mut child = waiting(
        &["inspect", "--color=never", &first, "-", "/dev/stdin", &last, "missing"],
        end(&both),
        both.into(),
        "xterm",
    );
    let printed = read(&mut shown, |printed| printed.contains("% ["));
    assert!(printed.contains("\rinspect:  50% [##########..........] 0 of 0 MB, "), "{printed:?}");
    drop(child.stdin.take());
    let rest = read(&mut shown, |_| false);
    let line = rest.split("\r\n").find(|line| line.contains("'missing': No such file")).unwrap();
    let line = line.rsplit_once("\r\x1b[K").map_or(line, |(_, line)| line);
    assert!(line.contains(" inspect: ") && !line.contains("% ["), "{rest:?}");
    assert_eq!(child.wait().unwrap().code(), Some(1));
}

#[test]
fn short_work_shows_no_progress() {
    let (mut shown, both) = terminal();
    let mut command = Command::new(PROGRAM);
    let input = memory_directory_with(&inspect::bundle());
    command.args(["inspect", "--color=never"]).arg(input.path().join("in")).env("TERM", "xterm");
    let mut child = command.stdin(Stdio::null()).stdout(end(&both)).stderr(end(&both)).spawn().unwrap();
    drop((command, both));
    let printed = read(&mut shown, |_| false);
    assert!(
        child.wait().unwrap().success() && !printed.contains('\x1b') && !printed.contains("MB read"),
        "{printed:?}"
    );
}

fn memory_directory_with(data: &[u8]) -> tempfile::TempDir {
    let dir = crate::machine::memory_directory();
    std::fs::write(dir.path().join("in"), data).unwrap();
    dir
}

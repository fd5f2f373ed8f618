//! Tests of the line that shows on a terminal that long work goes on.

use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::{Child, Stdio};

use super::*;

/// A command that reads from a pipe, of which it has got the beginning: the end comes when its standard input is closed.
fn waiting(stdout: Stdio, stderr: Stdio, term: &str) -> Child {
    let mut command = Command::new(PROGRAM);
    command
        .args(["inspect", "--color=never", "-"])
        .env("TERM", term)
        .stdin(Stdio::piped())
        .stdout(stdout)
        .stderr(stderr);
    let mut child = command.spawn().unwrap();
    child.stdin.as_mut().unwrap().write_all(&inspect::bundle()).unwrap();
    child
}

/// What is read from one end of a terminal until `is_enough`, or the other end is closed.
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

fn terminal() -> (std::fs::File, OwnedFd) {
    let pty = nix::pty::openpty(None, None).unwrap();
    (pty.master.into(), pty.slave)
}

#[test]
fn long_work_is_shown_on_a_terminal_and_nowhere_else() {
    let [(mut shown, both), (mut piped, only_stderr), (mut dumb, without_escapes)] = [(); 3].map(|()| terminal());
    let end = |slave: &OwnedFd| Stdio::from(slave.try_clone().unwrap());
    let mut others = [
        waiting(Stdio::piped(), only_stderr.into(), "xterm"),
        waiting(end(&without_escapes), without_escapes.into(), "dumb"),
        waiting(Stdio::null(), Stdio::piped(), "xterm"),
    ];
    let mut child = waiting(end(&both), both.into(), "xterm");
    let first = read(&mut shown, |printed| printed.contains("\x1b[K"));
    assert!(first.starts_with("\r0 MB read, ") && first.contains(" s\x1b[K"), "{first:?}");
    // All others were started before, so that they would show something by now.
    others.iter_mut().for_each(|child| drop(child.stdin.take()));
    drop(child.stdin.take());
    let rest = read(&mut shown, |_| false);
    let (line, table) = rest.rsplit_once("\r\x1b[K").unwrap();
    assert!(line.is_empty() || line.starts_with('\r'), "{rest:?}");
    assert!(table.starts_with("-: ") && !table.contains("MB read"), "{rest:?}");
    assert!(child.wait().unwrap().success());
    assert_eq!(read(&mut piped, |_| false), "");
    assert!(read(&mut dumb, |_| false).starts_with("-: "));
    for child in others {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty());
    }
}

//! Runs LLVM's tools in forks of processes that have loaded LLVM's libraries, see `fork_server.c`.

use std::fs;
use std::io::{Error, ErrorKind, Read as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{LazyLock, Mutex};

use super::harness::{self, Case, Tools};
use super::view::view;
use super::{options, unbundling};
use crate::machine::{memory_directory, skip};

/// The directory of [`LIBRARY`].
const DIRECTORY: &str = env!("CARGO_TARGET_TMPDIR");

/// The library with the server, as seen from its directory, or `None` if there is no C compiler.
static LIBRARY: LazyLock<Option<&str>> = LazyLock::new(|| {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/reference/fork_server.c");
    // Renamed when it is complete: other test processes may use the same file.
    let new = tempfile::tempdir_in(DIRECTORY).unwrap();
    let built = Command::new("cc").args(["-O1", "-shared", "-fPIC", source, "-o", "new"]).current_dir(&new).status();
    if !built.as_ref().is_ok_and(ExitStatus::success) {
        skip("forks of LLVM's tools", &format!("no C compiler ({built:?}), so each case starts a tool"));
        return None;
    }
    fs::rename(new.path().join("new"), Path::new(DIRECTORY).join("fork_server.so")).unwrap();
    Some("./fork_server.so")
});

/// The servers that wait for a request. They end when this process ends, which closes their standard input.
static IDLE: Mutex<Vec<Server>> = Mutex::new(Vec::new());

struct Server {
    tool: PathBuf,
    process: Child,
}

/// Runs one of LLVM's tools with the strings that `fork_server.c` describes. Returns `None` if there is no C compiler.
pub fn run(tool: &Path, strings: &[&str]) -> Option<ExitStatus> {
    let library = (*LIBRARY)?;
    let idle = || {
        let mut servers = IDLE.lock().unwrap();
        let place = servers.iter().position(|server| server.tool == tool)?;
        Some(servers.swap_remove(place))
    };
    let mut server = idle().unwrap_or_else(|| Server::start(tool, library));
    let status = server.run(strings).unwrap_or_else(|error| panic!("{}: no answer: {error}", tool.display()));
    IDLE.lock().unwrap().push(server);
    Some(status)
}

impl Server {
    fn start(tool: &Path, library: &str) -> Self {
        let mut command = Command::new(tool);
        // Spaces and colons divide LD_PRELOAD, and the path of the directory may have them.
        command.current_dir(DIRECTORY).env_clear().env("LD_PRELOAD", library);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        Self { tool: tool.to_owned(), process: command.spawn().unwrap() }
    }

    fn run(&mut self, strings: &[&str]) -> std::io::Result<ExitStatus> {
        let mut request = vec![0; 4];
        strings.iter().for_each(|string| request.extend(string.bytes().chain([0])));
        let len = u32::try_from(request.len() - 4).map_err(|_| Error::from(ErrorKind::InvalidInput))?;
        request[..4].copy_from_slice(&len.to_ne_bytes());
        self.process.stdin.as_mut().unwrap().write_all(&request)?;
        let mut status = [0; 4];
        self.process.stdout.as_mut().unwrap().read_exact(&mut status)?;
        Ok(ExitStatus::from_raw(i32::from_ne_bytes(status)))
    }
}

#[test]
fn a_fork_gives_what_a_plain_start_gives() {
    let Some(tools) = Tools::find("forks and plain starts of LLVM's tool") else { return };
    // The harness forks only the tools in LLVM's directory.
    let directory = memory_directory();
    let link = directory.path().join("bundler");
    std::os::unix::fs::symlink(&tools.theirs, &link).unwrap();
    let lists = [options::combinations(), options::nearly_right(), options::environment(), unbundling::broken()];
    let some = |list: Vec<Case>| {
        let step = (list.len() / 15).max(1);
        list.into_iter().step_by(step)
    };
    let mut cases: Vec<Case> = lists.into_iter().flat_map(some).collect();
    cases.push(Case::new(&["-list", "-type=o", "-input=missing"]));
    cases.push(Case::new(&["--no-such-option"]));
    let (mut crashes, mut failures) = (0, 0);
    for case in &cases {
        let [mut forked, mut started] = [&tools.theirs, &link].map(|tool| view(case, &harness::run(tool, case)));
        failures += usize::from(forked.status == 1);
        if forked.crashed() {
            crashes += 1;
            // The stack trace has addresses.
            forked.stderr.clear();
            started.stderr.clear();
        }
        assert!(forked == started, "{:?}:\n{forked:?}\n{started:?}", case.args);
    }
    assert!(crashes > 0 && failures > 1, "{crashes} crashes, {failures} failures");
}

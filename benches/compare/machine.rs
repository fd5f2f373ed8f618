//! The machine and the tools that were measured.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::report::bytes;
use crate::run::Tools;

/// The machine, the tools and the day, in words.
pub struct Machine {
    pub facts: Vec<(&'static str, String)>,
}

impl Machine {
    pub fn ask(tools: &Tools) -> Self {
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        let mut facts = vec![
            ("date", first_line("date", &["+%F"])),
            ("processor", format!("{}, {cores} cores", field("/proc/cpuinfo", "model name"))),
            ("memory", memory()),
            ("system", first_line("uname", &["-srm"])),
            ("ours", format!("{} {}", env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"))),
            ("theirs", tools.theirs.as_deref().map_or("none".to_owned(), version)),
        ];
        facts.extend(["zstd", "cp"].map(|name| (name, first_line(name, &["--version"]))));
        Self { facts }
    }
}

/// Returns the value of `name` in a file of `name: value` lines.
fn field(file: &str, name: &str) -> String {
    let text = fs::read_to_string(file).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix(':'));
    line.unwrap_or("unknown").trim().to_owned()
}

fn memory() -> String {
    let kib = field("/proc/meminfo", "MemTotal").trim_end_matches(" kB").parse::<f64>();
    kib.map_or("unknown".to_owned(), |kib| bytes(kib * 1024.0))
}

/// The line of an LLVM tool's `--version` that has the version.
fn version(tool: &Path) -> String {
    let text = output(tool.as_os_str(), &["--version"]);
    text.lines().find(|line| line.contains("version")).unwrap_or("unknown").trim().to_owned()
}

fn first_line(program: &str, arguments: &[&str]) -> String {
    output(program.as_ref(), arguments).lines().next().unwrap_or("not there").trim_matches(['*', ' ']).to_owned()
}

fn output(program: &std::ffi::OsStr, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    output.map_or_else(|_| String::new(), |output| String::from_utf8_lossy(&output.stdout).into_owned())
}

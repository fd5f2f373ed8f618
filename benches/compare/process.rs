//! Measures a run of a program from outside.
//!
//! The operating system reports the peak memory of a process only to its parent. A parent of several processes learns
//! only the largest peak. So this program starts itself once for each run, as a small process that starts exactly one
//! program, waits for it, and reports its time and memory.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, anyhow, ensure};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

/// The first argument of the process that measures: the file for the program's standard output, then the program and
/// its arguments, follow.
pub const MEASURE: &str = "--measure";

/// Environment variables that change the behaviour of the tools, and are removed for each run.
const VARIABLES: [&str; 5] = [
    "OFFLOAD_BUNDLER_COMPRESS",
    "OFFLOAD_BUNDLER_VERBOSE",
    "OFFLOAD_BUNDLER_COMPRESSION_LEVEL",
    "OFFLOAD_BUNDLER_IGNORE_ENV_VAR",
    "COMPRESSED_BUNDLE_FORMAT_VERSION",
];

/// The time and memory of a run.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// From start to end, in seconds.
    pub wall: f64,
    /// Of the processors, in user and system mode, in seconds.
    pub cpu: f64,
    /// The largest resident set, in bytes.
    pub memory: f64,
}

/// Runs `program` in the directory `dir`, with its standard output in the file `stdout`. A failure of the program is an
/// error.
pub fn run(program: &Path, arguments: &[String], dir: &Path, stdout: &Path) -> Result<Cost> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(MEASURE).arg(stdout).arg(program).args(arguments).current_dir(dir).stdin(Stdio::null());
    for variable in VARIABLES {
        command.env_remove(variable);
    }
    let output = command.output()?;
    let shown = || format!("{} {}", program.display(), arguments.join(" ").chars().take(300).collect::<String>());
    ensure!(output.status.success(), "failed: {}\n{}", shown(), String::from_utf8_lossy(&output.stderr));
    let figures: Vec<f64> = String::from_utf8(output.stdout)?.split_whitespace().flat_map(str::parse).collect();
    match figures[..] {
        [wall, cpu, memory] => Ok(Cost { wall, cpu, memory }),
        _ => Err(anyhow!("no figures of {}", shown())),
    }
}

/// Does the work of the process that measures, for the words after [`MEASURE`]. Returns its exit status.
pub fn measure_one_program(words: impl Iterator<Item = OsString>) -> ExitCode {
    match run_and_print_cost(words) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs a program and prints its cost. Returns whether the program succeeded.
fn run_and_print_cost(mut words: impl Iterator<Item = OsString>) -> Result<bool> {
    let stdout = File::create(words.next().context("no file")?)?;
    let mut command = Command::new(words.next().context("no program")?);
    command.args(words).stdout(stdout);
    let start = Instant::now();
    let status = command.status()?;
    let wall = start.elapsed().as_secs_f64();
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let cpu = (usage.user_time() + usage.system_time()).num_microseconds() as f64 / 1e6;
    let memory = usage.max_rss() as f64 * 1024.0;
    println!("{wall} {cpu} {memory}");
    Ok(status.success())
}

/// Returns the first program of this name in `PATH`, or `None` if no directory has it.
pub fn find(name: &str) -> Option<std::path::PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| fs::metadata(file).is_ok_and(|it| it.is_file()))
}

//! Time, memory and size against LLVM 22's clang-offload-bundler, on the same inputs in the same minutes.
//!
//! `cargo bench --bench compare` measures all rows; `cargo bench --bench compare -- --help` lists the options, and
//! `docs/performance.md` says how it measures and holds the last run. It is a benchmark and no test: it fails when a
//! tool fails or the tools disagree, never because something took long. Without LLVM 22 it measures our tool alone.
//!
//! | file | holds |
//! |---|---|
//! | `rows.rs` | what is measured: the table of rows with their goals |
//! | `data.rs`, `generate.rs` | what it is measured on |
//! | `run.rs`, `process.rs`, `stats.rs` | how: alternating runs, one process each, medians |
//! | `report.rs`, `svg.rs`, `machine.rs` | what is shown: tables, CSV, Markdown, pictures, the machine |
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::unwrap_used,
    clippy::as_conversions,
    unreachable_pub,
    reason = "a program for developers, in several modules: it prints, and its figures are rounded for people"
)]

#[path = "compare/data.rs"]
mod data;
#[path = "compare/generate.rs"]
mod generate;
#[path = "compare/machine.rs"]
mod machine;
#[path = "compare/options.rs"]
mod options;
#[path = "compare/process.rs"]
mod process;
#[path = "compare/report.rs"]
mod report;
#[path = "compare/rows.rs"]
mod rows;
#[path = "compare/run.rs"]
mod run;
#[path = "compare/stats.rs"]
mod stats;
#[path = "compare/svg.rs"]
mod svg;

use std::process::ExitCode;

use anyhow::Result;

use options::Options;

fn main() -> ExitCode {
    // This comes first, so that the process that measures stays small. A tool begins as a copy of this process, so the
    // operating system never reports less memory for the tool than this process had.
    let mut words = std::env::args_os().skip(1).peekable();
    if words.next_if(|word| word == process::MEASURE).is_some() {
        return process::measure_one_program(words);
    }
    let words: Vec<String> = words.map(|word| word.to_string_lossy().into_owned()).collect();
    let done = match Options::parse(&words) {
        Ok(Some(options)) => compare(&options),
        Ok(None) => Ok(()),
        Err(error) => Err(error),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("compare: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the rows that the options select, prints the report, and writes its files if the options ask for them.
fn compare(options: &Options) -> Result<()> {
    let tools = run::Tools::find()?;
    let rows: Vec<rows::Row> = rows::table(options.rocsparse).into_iter().filter(|row| options.wants(row)).collect();
    let report = report::Report {
        machine: machine::Machine::ask(&tools),
        floor: run::floor(options)?,
        real_data: options.rocsparse,
        outcomes: run::all(rows, &tools, options)?,
    };
    report.print();
    options.out.as_deref().map_or(Ok(()), |out| report.write(out))
}

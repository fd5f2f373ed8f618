//! Running the rows: data is made, outputs are compared, then the tools take turns.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use tempfile::TempDir;

use crate::data::Data;
use crate::options::Options;
use crate::process::{self, Cost};
use crate::rows::{Check, Row, Weight};
use crate::stats::Summary;

/// The two tools.
pub struct Tools {
    ours: PathBuf,
    /// LLVM 22's, if the machine has it.
    pub theirs: Option<PathBuf>,
}

/// The measurements of one program.
#[derive(Clone, Copy)]
pub struct Sample {
    pub wall: Summary,
    pub cpu: Summary,
    pub memory: Summary,
}

/// The measurements of a row.
pub struct Outcome {
    pub row: Row,
    pub runs: usize,
    pub ours: Sample,
    pub theirs: Option<Sample>,
    pub limits: Vec<(&'static str, Sample)>,
    /// The sizes of the files that each tool writes in its own way: ours, LLVM's.
    pub sizes: Option<(u64, Option<u64>)>,
}

impl Tools {
    pub fn find() -> Result<Self> {
        let name = "clang-offload-bundler";
        let asked = std::env::var_os("LLVM_BIN").map(|dir| PathBuf::from(dir).join(name));
        if let Some(asked) = asked.as_deref() {
            ensure!(asked.exists(), "{}: there is no such tool", asked.display());
        }
        let usual = || Some(Path::new("/usr/lib/llvm-22/bin").join(name)).filter(|tool| tool.exists());
        let theirs = asked.or_else(usual).or_else(|| process::find("clang-offload-bundler-22"));
        if theirs.is_none() {
            eprintln!("compare: LLVM 22 is not installed: only our tool is measured, and nothing compared");
        }
        // LLVM's tool looks for llvm-objcopy in its own directory, so a link to the tool would not do.
        let theirs = theirs.map(fs::canonicalize).transpose()?;
        Ok(Self { ours: env!("CARGO_BIN_EXE_clang-offload-bundler").into(), theirs })
    }

    /// Runs our tool to make data.
    pub fn ours(&self, arguments: &[String], dir: &Path) -> Result<()> {
        process::run(&self.ours, arguments, dir, Path::new("/dev/null")).map(drop)
    }

    /// Runs LLVM's tool, if there is one, to make data.
    pub fn theirs_or_ours(&self, arguments: &[String], dir: &Path) -> Result<()> {
        let tool = self.theirs.as_deref().unwrap_or(&self.ours);
        process::run(tool, arguments, dir, Path::new("/dev/null")).map(drop)
    }
}

/// Returns the cost of a process that does nothing.
pub fn floor(options: &Options) -> Result<Sample> {
    let program = process::find("true").context("there is no `true`")?;
    let cost = || process::run(&program, &[], Path::new("/"), Path::new("/dev/null"));
    cost()?;
    Ok(Sample::of(&(0..options.runs(Weight::Small)).map(|_| cost()).collect::<Result<Vec<_>>>()?))
}

/// Runs all rows. Rows with the same data must be neighbours, because each new kind of data replaces the old one.
pub fn all(rows: Vec<Row>, tools: &Tools, options: &Options) -> Result<Vec<Outcome>> {
    fs::create_dir_all(&options.dir)?;
    let mut prepared: Option<(Data, TempDir)> = None;
    let mut outcomes = Vec::new();
    for row in rows {
        let is_prepared = prepared.as_ref().is_some_and(|(data, _)| *data == row.data);
        if !is_prepared {
            // The old data is removed first, because the disk may not have room for both.
            drop(prepared.take());
            let dir = tempfile::Builder::new().prefix("compare-").tempdir_in(&options.dir)?;
            row.data.prepare(dir.path(), tools).with_context(|| format!("data for {}", row.name))?;
            prepared = Some((row.data, dir));
        }
        let (_, dir) = prepared.as_ref().context("no data")?;
        let dir = fs::canonicalize(dir.path())?;
        eprintln!("compare: {}", row.name);
        let bench = Bench { row: &row, tools, dir: &dir };
        let sizes = bench.check().with_context(|| row.name.clone())?;
        let runs = options.runs(row.weight);
        let (ours, theirs, limits) = bench.measure(runs).with_context(|| row.name.clone())?;
        outcomes.push(Outcome { row, runs, ours, theirs, limits, sizes });
    }
    Ok(outcomes)
}

/// A row that is being run in a directory.
struct Bench<'a> {
    row: &'a Row,
    tools: &'a Tools,
    dir: &'a Path,
}

type Samples = (Sample, Option<Sample>, Vec<(&'static str, Sample)>);

impl Bench<'_> {
    /// Runs each tool once and compares the outputs. Returns the sizes of the file that each tool writes in its own
    /// way, or `None` if the row has no such file.
    fn check(&self) -> Result<Option<(u64, Option<u64>)>> {
        self.clear()?;
        self.run(&self.tools.ours, "stdout.ours")?;
        let checked = self.compare();
        self.clear()?;
        self.clear_files("checked.")?;
        checked
    }

    /// Runs LLVM's tool, and compares its outputs with the outputs of our tool, which has just run. Compares nothing
    /// without LLVM's tool. Returns sizes as [`Bench::check`].
    fn compare(&self) -> Result<Option<(u64, Option<u64>)>> {
        if let Check::TakenApart { .. } = &self.row.check {
            return Ok(Some(self.compare_taken_apart()?));
        }
        let Some(theirs) = &self.tools.theirs else { return Ok(None) };
        match &self.row.check {
            Check::Same(outputs) => self.compare_files(theirs, outputs)?,
            _ => self.compare_lines(theirs)?,
        }
        Ok(None)
    }

    /// Lets each tool unbundle the file that the other has written. Returns the sizes of our file and of LLVM's.
    fn compare_taken_apart(&self) -> Result<(u64, Option<u64>)> {
        let ours = self.check_taken_apart_by(self.tools.theirs.as_deref())?;
        let Some(theirs) = &self.tools.theirs else { return Ok((ours, None)) };
        self.clear()?;
        self.run(theirs, "stdout.theirs")?;
        let theirs = self.check_taken_apart_by(Some(&self.tools.ours))?;
        Ok((ours, Some(theirs)))
    }

    /// Checks that a tool, if there is one, unbundles the written file to the inputs. Returns the size of the file.
    fn check_taken_apart_by(&self, tool: Option<&Path>) -> Result<u64> {
        let Check::TakenApart { file, unbundle, outputs, inputs } = &self.row.check else {
            bail!("the row has no file to take apart");
        };
        if let Some(tool) = tool {
            process::run(tool, unbundle, self.dir, &self.dir.join("stdout"))?;
            for (input, output) in inputs.iter().zip(outputs) {
                self.same(input, output)?;
            }
        }
        Ok(fs::metadata(self.dir.join(file))?.len())
    }

    /// Checks that LLVM's tool writes the same files as ours.
    fn compare_files(&self, theirs: &Path, outputs: &[String]) -> Result<()> {
        for output in outputs {
            fs::rename(self.dir.join(output), self.dir.join(format!("checked.{output}")))?;
        }
        self.run(theirs, "stdout.theirs")?;
        for output in outputs {
            self.same(&format!("checked.{output}"), output)?;
        }
        Ok(())
    }

    /// Checks that both tools print something, and the same lines unless any lines will do.
    fn compare_lines(&self, theirs: &Path) -> Result<()> {
        self.run(theirs, "stdout.theirs")?;
        let (ours, theirs) = (self.sorted_lines("stdout.ours")?, self.sorted_lines("stdout.theirs")?);
        ensure!(!ours.is_empty() && !theirs.is_empty(), "a tool prints nothing");
        ensure!(matches!(self.row.check, Check::Any) || ours == theirs, "the tools print {ours:?} and {theirs:?}");
        Ok(())
    }

    fn sorted_lines(&self, name: &str) -> Result<Vec<String>> {
        let mut lines: Vec<String> = fs::read_to_string(self.dir.join(name))?.lines().map(str::to_owned).collect();
        lines.sort();
        Ok(lines)
    }

    /// Runs our tool, LLVM's and the limits in turns, so that a slow moment of the machine affects all of them. Leaves
    /// out programs that the machine does not have.
    fn measure(&self, runs: usize) -> Result<Samples> {
        const TOOLS: usize = 2;
        let limits = self.row.limits.iter().filter_map(|limit| Some((limit, process::find(limit.program)?)));
        let limits: Vec<_> = limits.collect();
        let mut costs = vec![Vec::new(); TOOLS + limits.len()];
        for turn in 0..=runs {
            let ours = Some((&self.tools.ours, &self.row.arguments));
            let theirs = self.tools.theirs.as_ref().map(|tool| (tool, &self.row.arguments));
            let others = limits.iter().map(|(limit, program)| Some((program, &limit.arguments)));
            for (costs, contestant) in costs.iter_mut().zip([ours, theirs].into_iter().chain(others)) {
                let Some((program, arguments)) = contestant else { continue };
                self.clear()?;
                let cost = process::run(program, arguments, self.dir, &self.dir.join("stdout"))?;
                // The first turn warms the page cache.
                if turn > 0 {
                    costs.push(cost);
                }
            }
        }
        self.clear()?;
        let mut samples = costs.iter().map(|costs| (!costs.is_empty()).then(|| Sample::of(costs)));
        let (ours, theirs) = (samples.next().flatten().context("no run")?, samples.next().flatten());
        Ok((ours, theirs, limits.iter().map(|(limit, _)| limit.what).zip(samples.flatten()).collect()))
    }

    fn run(&self, tool: &Path, stdout: &str) -> Result<Cost> {
        process::run(tool, &self.row.arguments, self.dir, &self.dir.join(stdout))
    }

    /// Removes the outputs of a run, `out` and `out.*`, so that each run creates them anew.
    fn clear(&self) -> Result<()> {
        self.clear_files("out")
    }

    /// Removes the file `out`, and all files whose names begin with `prefix` and a dot.
    fn clear_files(&self, prefix: &str) -> Result<()> {
        for entry in fs::read_dir(self.dir)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name == "out" || name.starts_with(&format!("{}.", prefix.trim_end_matches('.'))) {
                fs::remove_file(&path)?;
            }
        }
        Ok(())
    }

    /// Fails if two files in the directory do not have the same bytes.
    fn same(&self, one: &str, other: &str) -> Result<()> {
        ensure!(same_bytes(&self.dir.join(one), &self.dir.join(other))?, "{one} and {other} differ");
        Ok(())
    }
}

impl Sample {
    fn of(costs: &[Cost]) -> Self {
        let of = |part: fn(&Cost) -> f64| Summary::of(costs.iter().map(part).collect());
        Self { wall: of(|cost| cost.wall), cpu: of(|cost| cost.cpu), memory: of(|cost| cost.memory) }
    }
}

fn same_bytes(one: &Path, other: &Path) -> Result<bool> {
    let mut one = BufReader::with_capacity(1 << 20, File::open(one)?);
    let mut other = BufReader::with_capacity(1 << 20, File::open(other)?);
    loop {
        let (left, right) = (one.fill_buf()?, other.fill_buf()?);
        let len = left.len().min(right.len());
        if len == 0 || left[..len] != right[..len] {
            return Ok(left.is_empty() && right.is_empty());
        }
        one.consume(len);
        other.consume(len);
    }
}

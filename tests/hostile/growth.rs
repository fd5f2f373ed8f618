//! Checks that run time and peak memory are about linear in the size of the input. Each dimension (entries, members,
//! sections, strings, requests ...) has files that grow in it. Every command line that applies reads them, and the
//! executable's processor time and peak memory are compared with their size.
//!
//! `GROWTH=1 cargo test --test suite growth:: -- --nocapture` prints every row; `GROWTH=text` only those with `text` in
//! their name.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use super::dimensions::{self, Dimension};
use crate::lists::{half_of, share_of};
use crate::machine::{loud, memory_directory};
use crate::measured;

const OURS: &str = env!("CARGO_BIN_EXE_clang-offload-bundler");

/// The ratio of the larger to the smaller file.
const TIMES: u32 = 4;

/// The counts of the smaller file, as parts of the dimension's count. If a command line costs too little to be measured,
/// or seems to grow too fast because fixed costs weigh more, the next part is tried.
const PARTS: [usize; 3] = [8, 2, 1];

/// A command line that still costs little with this part passes.
const ENOUGH: usize = 2;

/// The maximum exponent: the cost may grow by `TIMES` to the power of it.
const EXPONENT_MAX: f64 = 1.3;

/// Costs at the larger size below these count as little, whatever their growth: they cannot be measured well. The units
/// are seconds and bytes.
const LITTLE: Cost = Cost { time: 0.012, memory: 24e6 };

/// Differences below these are not told apart.
const LEAST: Cost = Cost { time: 0.000_5, memory: 1e6 };

/// The number of repeated measurements if the growth seems too fast.
const RETRIES: u32 = 6;

/// The processor time after which a run is stopped.
const HANGS: Duration = Duration::from_secs(60);

/// The cost of a run, without that of a run that does nothing: seconds of processor time, and peak memory in bytes.
#[derive(Clone, Copy, Debug)]
struct Cost {
    time: f64,
    memory: f64,
}

impl Cost {
    fn each(self, other: Self, of: impl Fn(f64, f64) -> f64) -> Self {
        Self { time: of(self.time, other.time), memory: of(self.memory, other.memory) }
    }
}

/// A command line, measured on files of two sizes.
struct Row {
    name: String,
    /// The least costs of all runs: other processes add to them.
    small: Cost,
    large: Cost,
}

impl Row {
    fn exponents(&self) -> Cost {
        let [small, large] = [self.small, self.large].map(|cost| cost.each(LEAST, f64::max));
        large.each(small, |large, small| (large / small).log(f64::from(TIMES)))
    }

    fn costs_much(&self) -> bool {
        self.large.time > LITTLE.time || self.large.memory > LITTLE.memory
    }

    fn grows_too_fast(&self) -> bool {
        let exponents = self.exponents();
        (self.large.time > LITTLE.time && exponents.time > EXPONENT_MAX)
            || (self.large.memory > LITTLE.memory && exponents.memory > EXPONENT_MAX)
    }

    fn describe(&self) -> String {
        let (Self { name, small, large }, exponents) = (self, self.exponents());
        let [small, large] =
            [small, large].map(|cost| format!("{:.1} ms and {:.1} MB", cost.time * 1e3, cost.memory / 1e6));
        let Cost { time, memory } = exponents;
        format!("{name}: {small}, {large} for {TIMES} times as much, exponents {time:.2} and {memory:.2}")
    }
}

/// The cost of a command line. Files that it creates are removed.
fn run(directory: &Path, words: &[String]) -> Cost {
    // Our own subcommands do not read response files.
    let from_file = fs::read_to_string(directory.join("words")).unwrap_or_default();
    let expand = |word: &'_ String| {
        if word == "$words" { from_file.split(' ').map(str::to_owned).collect() } else { vec![word.clone()] }
    };
    let words: Vec<String> = words.iter().flat_map(expand).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let run = measured::run(Path::new(OURS), OURS, &words, directory, HANGS);
    assert!(matches!(run.status, Some(0 | 1)), "{words:.200?}: {:?} {:.2000}", run.signal, run.stderr);
    // The files that a list names.
    let names = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    for entry in names.filter(|entry| entry.file_name().to_string_lossy().starts_with("in-")) {
        fs::remove_file(entry.path()).unwrap();
    }
    let outputs = directory.join("out");
    if outputs.is_dir() {
        fs::remove_dir_all(&outputs).unwrap();
        fs::create_dir(&outputs).unwrap();
    } else {
        drop(fs::remove_file(&outputs));
    }
    let kib = u32::try_from(run.peak / 1024).unwrap();
    Cost { time: run.took.as_secs_f64(), memory: 1024.0 * f64::from(kib) }
}

/// The files of a dimension, of each size that is measured.
struct Bench<'d> {
    dimension: &'d Dimension,
    directories: BTreeMap<usize, tempfile::TempDir>,
    /// The cost of a run that does nothing.
    start: Cost,
}

impl Bench<'_> {
    /// Runs a command line on files with this count.
    fn measure(&mut self, count: usize, words: &[String]) -> Cost {
        let files = &self.dimension.files;
        let directory = self.directories.entry(count).or_insert_with(|| {
            let directory = memory_directory();
            for (name, data) in files(count) {
                let path = directory.path().join(name);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, data).unwrap();
            }
            directory
        });
        run(directory.path(), words).each(self.start, |cost, start| (cost - start).max(0.0))
    }

    fn row(&mut self, line: &str) -> Row {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let name = format!("{}: {line}", self.dimension.name);
        let times = usize::try_from(TIMES).unwrap();
        let mut row = Row { name, small: LEAST, large: LEAST };
        let mut count = self.dimension.count;
        for part in PARTS {
            count = (self.dimension.count / part).max(1);
            row.large = self.measure(count * times, &words);
            row.small = row.large;
            // If the larger size costs little, the smaller one is not measured.
            if row.costs_much() {
                row.small = self.measure(count, &words);
            }
            let passes = if row.costs_much() { !row.grows_too_fast() } else { part <= ENOUGH };
            if passes {
                break;
            }
        }
        for _ in 0..RETRIES {
            if row.grows_too_fast() {
                row.small = row.small.each(self.measure(count, &words), f64::min);
                row.large = row.large.each(self.measure(count * times, &words), f64::min);
            }
        }
        row
    }
}

#[test]
fn four_times_as_much_costs_four_times_as_much() {
    let asked = std::env::var("GROWTH").ok();
    let here = memory_directory();
    let starts = (0..5).map(|_| run(here.path(), &["--version".to_owned()]));
    let start = starts.reduce(|one, other| one.each(other, f64::min)).unwrap();
    let mut wrong = Vec::new();
    let mut dimensions = dimensions::all();
    match &asked {
        Some(text) => dimensions.retain(|dimension| text == "1" || dimension.name.contains(text.as_str())),
        None => dimensions = half_of(dimensions),
    }
    for dimension in dimensions {
        let mut bench = Bench { dimension: &dimension, directories: BTreeMap::new(), start };
        let lines = match asked {
            Some(_) => dimension.lines.iter().collect(),
            None => share_of(dimension.name, dimension.lines.iter().collect(), 1),
        };
        for line in lines {
            let row = bench.row(line);
            if asked.is_some() {
                loud(&row.describe());
            }
            if row.grows_too_fast() {
                wrong.push(row.describe());
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

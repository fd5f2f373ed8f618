//! Checks that run time is about linear in the size of the input. Each dimension (entries, members, sections, strings,
//! requests ...) has files that grow in it. Every command line that applies reads them, and the executable's processor
//! time is compared with their size.
//!
//! `GROWTH=1 cargo test --test suite growth:: -- --nocapture` prints every row; `GROWTH=text` only those with `text` in
//! their name.
mod dimensions;
mod memory;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::lists::{half_of, share_of};
use crate::machine::{loud, memory_directory};
use crate::measured;

use dimensions::Dimension;

const OURS: &str = env!("CARGO_BIN_EXE_clang-offload-bundler");

/// The ratio of the larger to the smaller file.
const TIMES: u32 = 4;

/// The counts of the smaller file, as parts of the dimension's count. If a command line is too quick to be measured, or
/// seems to grow too fast because fixed costs weigh more, the next part is tried.
const PARTS: [usize; 3] = [8, 2, 1];

/// A command line that is still quick with this part passes.
const ENOUGH: usize = 2;

/// The maximum exponent: the cost may grow by `TIMES` to the power of it.
const EXPONENT_MAX: f64 = 1.3;

/// Times at the larger size below this count as quick, whatever their growth: they cannot be measured well.
const QUICK: Duration = Duration::from_millis(12);

/// The number of repeated measurements if the growth seems too fast.
const RETRIES: u32 = 6;

/// The processor time after which a run is stopped.
const HANGS: Duration = Duration::from_secs(60);

/// Rows that are known to grow too fast: the dimension, the beginning of the command line, and the reason.
const KNOWN: &[(&str, &str, &str)] = &[];

/// A command line, measured on files of two sizes.
struct Row {
    name: String,
    runs: u32,
    /// The total time of all runs.
    small: Duration,
    large: Duration,
    /// The shortest times.
    least: [Duration; 2],
}

impl Row {
    /// The exponent of the means or of the shortest times, whichever is less: other processes increase the means.
    fn exponent(&self, start: Duration) -> f64 {
        let cost = |took: Duration| took.saturating_sub(start).as_secs_f64().max(0.000_5);
        let of = |small, large| (cost(large) / cost(small)).log(f64::from(TIMES));
        let [small, large] = self.least;
        of(self.small / self.runs, self.large / self.runs).min(of(small, large))
    }

    fn grows_too_fast(&self, start: Duration) -> bool {
        self.large / self.runs > QUICK + start && self.exponent(start) > EXPONENT_MAX
    }

    fn add(&mut self, times: [Duration; 2]) {
        self.runs += 1;
        let [small, large] = times;
        (self.small, self.large) = (self.small + small, self.large + large);
        self.least.iter_mut().zip(times).for_each(|(least, time)| *least = time.min(*least));
    }

    fn describe(&self, start: Duration) -> String {
        let (small, large) = (self.small / self.runs, self.large / self.runs);
        format!(
            "{}: {small:.1?}, {large:.1?} for {TIMES} times as much, exponent {:.2}",
            self.name,
            self.exponent(start)
        )
    }
}

/// The processor time of a command line. Files that it creates are removed.
fn run(directory: &Path, words: &[String]) -> Duration {
    // Our own subcommands do not read response files.
    let from_file = fs::read_to_string(directory.join("words")).unwrap_or_default();
    let expand = |word: &'_ String| {
        if word == "$words" { from_file.split(' ').map(str::to_owned).collect() } else { vec![word.clone()] }
    };
    let words: Vec<String> = words.iter().flat_map(expand).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let took = measured::time(Path::new(OURS), &words, directory, HANGS);
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
    took
}

/// The files of a dimension, of each size that is measured.
struct Bench<'d> {
    dimension: &'d Dimension,
    directories: BTreeMap<usize, tempfile::TempDir>,
}

impl<'d> Bench<'d> {
    fn new(dimension: &'d Dimension) -> Self {
        Self { dimension, directories: BTreeMap::new() }
    }

    /// Runs a command line on files with this count.
    fn measure(&mut self, count: usize, words: &[String]) -> Duration {
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
        run(directory.path(), words)
    }

    fn row(&mut self, line: &str, start: Duration) -> Row {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let name = format!("{}: {line}", self.dimension.name);
        let times = usize::try_from(TIMES).unwrap();
        let mut row = Row { name, runs: 1, small: Duration::ZERO, large: Duration::ZERO, least: [Duration::ZERO; 2] };
        let mut count = self.dimension.count;
        for part in PARTS {
            count = (self.dimension.count / part).max(1);
            let large = self.measure(count * times, &words);
            // If the larger size is quick, the smaller one is not measured.
            let small = if large > QUICK + start { self.measure(count, &words) } else { large };
            (row.small, row.large, row.least) = (small, large, [small, large]);
            let passes = if large <= QUICK + start { part <= ENOUGH } else { !row.grows_too_fast(start) };
            if passes {
                break;
            }
        }
        for _ in 0..RETRIES {
            if row.grows_too_fast(start) {
                row.add([count, count * times].map(|count| self.measure(count, &words)));
            }
        }
        row
    }
}

fn is_known(row: &Row) -> bool {
    KNOWN.iter().any(|(dimension, line, _)| row.name.starts_with(&format!("{dimension}: {line}")))
}

#[test]
fn twice_as_much_takes_twice_as_long() {
    let asked = std::env::var("GROWTH").ok();
    let here = memory_directory();
    let start = (0..5).map(|_| run(here.path(), &["--version".to_owned()])).min().unwrap();
    let mut wrong = Vec::new();
    let mut dimensions = dimensions::all();
    match &asked {
        Some(text) => dimensions.retain(|dimension| text == "1" || dimension.name.contains(text.as_str())),
        None => dimensions = half_of(dimensions),
    }
    for dimension in dimensions {
        let mut bench = Bench::new(&dimension);
        let lines = match asked {
            Some(_) => dimension.lines.iter().collect(),
            None => share_of(dimension.name, dimension.lines.iter().collect(), 1),
        };
        for line in lines {
            let row = bench.row(line, start);
            if asked.is_some() {
                loud(&row.describe(start));
            }
            if row.grows_too_fast(start) && !is_known(&row) {
                wrong.push(row.describe(start));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

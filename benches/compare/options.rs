//! The options of the benchmark.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::rows::{Row, Weight};

const HELP: &str = "\
Usage: cargo bench --bench compare -- [OPTIONS]

  --small         only the small rows: less than a minute
  --rows PATTERN  only the rows with PATTERN in their names (repeatable)
  --runs N        runs of each tool for large rows (default: 5; small rows have 21, small points of the growth tables 9)
  --dir DIR       where data is kept while it runs: 6 GB of free disk for all rows (default: below the target directory)
  --rocsparse     large rows on the code objects of Debian's librocsparse0 instead of generated ones; it is taken from
                  /usr/lib if installed, otherwise downloaded with apt-get (94 MB)
  --out DIR       write performance.csv, performance.svg, growth.svg, and the figures into performance.md, to DIR

LLVM's tool is looked for in the directory $LLVM_BIN, in /usr/lib/llvm-22/bin, and as clang-offload-bundler-22.";

/// The options of the command line.
pub struct Options {
    small: bool,
    patterns: Vec<String>,
    runs: Option<usize>,
    pub dir: PathBuf,
    pub rocsparse: bool,
    pub out: Option<PathBuf>,
}

impl Options {
    /// Returns the options in `words`, or `None` if they only ask for help or do not ask for a benchmark.
    pub fn parse(words: &[String]) -> Result<Option<Self>> {
        let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        let mut options =
            Self { small: false, patterns: Vec::new(), runs: None, dir: target, rocsparse: false, out: None };
        let mut asked = false;
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().with_context(|| format!("{word} needs a value"));
            match word.as_str() {
                // `cargo bench` gives it, `cargo test --benches` does not.
                "--bench" => asked = true,
                "--small" => options.small = true,
                "--rows" => options.patterns.push(value()?.clone()),
                "--runs" => options.runs = Some(value()?.parse::<usize>()?.max(1)),
                "--dir" => options.dir = value()?.into(),
                "--rocsparse" => options.rocsparse = true,
                "--out" => options.out = Some(value()?.into()),
                "-h" | "--help" => {
                    println!("{HELP}");
                    return Ok(None);
                }
                _ => bail!("unknown option {word}\n{HELP}"),
            }
        }
        if !asked {
            println!("nothing is measured: this is for `cargo bench`");
            return Ok(None);
        }
        Ok(Some(options))
    }

    pub fn wants(&self, row: &Row) -> bool {
        (!self.small || row.weight != Weight::Large)
            && (self.patterns.is_empty() || self.patterns.iter().any(|pattern| row.name.contains(pattern)))
    }

    pub fn runs(&self, weight: Weight) -> usize {
        match weight {
            Weight::Small => 21,
            Weight::Growth => 9,
            Weight::Large => self.runs.unwrap_or(5),
        }
    }
}

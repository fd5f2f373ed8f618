//! The report of the benchmark: tables for people, on the console and in Markdown, and a CSV file for programs.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

use crate::machine::Machine;
use crate::rows::Axis;
use crate::run::{Outcome, Sample};
use crate::stats::Summary;
use crate::svg;

/// The lines around the figures in `performance.md`.
const BEGIN: &str = "<!-- figures: begin (written by `cargo bench --bench compare -- --out docs`) -->";
const END: &str = "<!-- figures: end -->";

/// The measurements of all rows, and of the machine.
pub struct Report {
    pub machine: Machine,
    /// The cost of a process that does nothing.
    pub floor: Sample,
    /// Whether the large rows ran on the code objects of a library, not on generated ones.
    pub real_data: bool,
    pub outcomes: Vec<Outcome>,
}

/// A table of text; the first row is the head.
struct Table(Vec<Vec<String>>);

impl Outcome {
    /// Returns our median divided by LLVM's, of the measurement that `of` selects, or `None` without LLVM's tool.
    fn ratio(&self, of: fn(&Sample) -> &Summary) -> Option<f64> {
        Some(of(&self.ours).median / of(self.theirs.as_ref()?).median)
    }

    pub fn time_ratio(&self) -> Option<f64> {
        self.ratio(|sample| &sample.wall)
    }

    pub fn memory_ratio(&self) -> Option<f64> {
        self.ratio(|sample| &sample.memory)
    }

    pub fn size_ratio(&self) -> Option<f64> {
        let (ours, theirs) = self.sizes?;
        Some(ours as f64 / theirs? as f64)
    }

    /// Whether the row is listed alone, and not only as a point of a table that shows growth.
    pub fn stands_alone(&self) -> bool {
        self.row.growth.is_none() || self.row.goal.is_some()
    }
}

impl Report {
    pub fn print(&self) {
        for (name, fact) in &self.machine.facts {
            println!("{name:10} {fact}");
        }
        println!("{}", self.floor_line());
        for (title, table) in self.tables().into_iter().chain(self.growth_tables()) {
            println!("\n{title}\n\n{}", table.aligned());
        }
    }

    /// Writes all files into `dir`.
    pub fn write(&self, dir: &Path) -> Result<()> {
        fs::create_dir_all(dir)?;
        fs::write(dir.join("performance.csv"), self.csv())?;
        fs::write(dir.join("performance.svg"), svg::ratios(&self.outcomes))?;
        fs::write(dir.join("growth.svg"), svg::growth(&self.outcomes))?;
        let page = dir.join("performance.md");
        let old = fs::read_to_string(&page).unwrap_or_else(|_| format!("# Performance\n\n{BEGIN}\n{END}\n"));
        let around = old.split_once(BEGIN).and_then(|(before, rest)| Some((before, rest.split_once(END)?.1)));
        let (before, after) = around.context("performance.md has no markers around the figures")?;
        Ok(fs::write(page, format!("{before}{BEGIN}\n\n{}\n{END}{after}", self.markdown()))?)
    }

    fn markdown(&self) -> String {
        let mut text = String::from("| machine | |\n|---|---|\n");
        for (name, fact) in &self.machine.facts {
            writeln!(text, "| {name} | {fact} |").unwrap();
        }
        writeln!(text, "\n{}", self.floor_line()).unwrap();
        writeln!(text, "\n![Ratios to LLVM 22](performance.svg)\n\n![How cost grows](growth.svg)").unwrap();
        for (title, table) in self.tables() {
            write!(text, "\n### {title}\n\n{}", table.markdown()).unwrap();
        }
        text
    }

    fn floor_line(&self) -> String {
        let (data, floor) = (if self.real_data { "rocSPARSE's code objects" } else { "generated data" }, &self.floor);
        format!(
            "Large rows on {data}. A process that does nothing (`true`) takes {} and {}: no ratio can go below that.",
            seconds(floor.wall.median),
            bytes(floor.memory.median)
        )
    }

    fn tables(&self) -> Vec<(&'static str, Table)> {
        let tables = [
            ("Against LLVM 22", self.main_table()),
            ("Sizes of what each tool writes in its own way", self.size_table()),
            ("Limits: other programs on the same bytes", self.limit_table()),
        ];
        tables.into_iter().filter(|(_, table)| table.0.len() > 1).collect()
    }

    /// Returns the tables that the page leaves out, because a picture shows them.
    fn growth_tables(&self) -> Vec<(&'static str, Table)> {
        let tables = [
            ("Growth with the number of entries and members", self.growth_table(&[Axis::Entries, Axis::Members])),
            ("Growth with size", self.growth_table(&[Axis::Bytes])),
        ];
        tables.into_iter().filter(|(_, table)| table.0.len() > 1).collect()
    }

    fn main_table(&self) -> Table {
        let mut table =
            Table::new(&["work", "runs", "time", "LLVM 22", "ratio", "goal", "memory", "LLVM 22", "ratio", "goal"]);
        for outcome in self.outcomes.iter().filter(|outcome| outcome.stands_alone()) {
            let (ours, theirs, goal) = (&outcome.ours, outcome.theirs.as_ref(), outcome.row.goal);
            table.0.push(vec![
                outcome.row.what.clone(),
                outcome.runs.to_string(),
                range(&ours.wall, seconds),
                theirs.map_or("–".to_owned(), |theirs| range(&theirs.wall, seconds)),
                ratio(outcome.time_ratio()),
                goal_and_result(outcome.time_ratio(), goal.map(|goal| goal.time)),
                range(&ours.memory, bytes),
                theirs.map_or("–".to_owned(), |theirs| range(&theirs.memory, bytes)),
                ratio(outcome.memory_ratio()),
                goal_and_result(outcome.memory_ratio(), goal.map(|goal| goal.memory)),
            ]);
        }
        table
    }

    fn size_table(&self) -> Table {
        let mut table = Table::new(&["work", "size", "LLVM 22", "ratio", "goal"]);
        for outcome in &self.outcomes {
            let Some((ours, theirs)) = outcome.sizes else { continue };
            table.0.push(vec![
                outcome.row.what.clone(),
                bytes(ours as f64),
                theirs.map_or("–".to_owned(), |theirs| bytes(theirs as f64)),
                ratio(outcome.size_ratio()),
                goal_and_result(outcome.size_ratio(), outcome.row.goal.and_then(|goal| goal.size)),
            ]);
        }
        table
    }

    fn limit_table(&self) -> Table {
        let mut table = Table::new(&["work", "limit", "its time", "ours by it", "limit by LLVM 22", "its memory"]);
        for outcome in &self.outcomes {
            for (what, limit) in &outcome.limits {
                let theirs = outcome.theirs.as_ref().map(|theirs| limit.wall.median / theirs.wall.median);
                table.0.push(vec![
                    outcome.row.what.clone(),
                    format!("`{what}`"),
                    range(&limit.wall, seconds),
                    ratio(Some(outcome.ours.wall.median / limit.wall.median)),
                    ratio(theirs),
                    bytes(limit.memory.median),
                ]);
            }
        }
        table
    }

    /// Returns two lines for each work, time and memory, with ours, LLVM's and the ratio at each point.
    fn growth_table(&self, axes: &[Axis]) -> Table {
        let points: Vec<_> =
            self.outcomes.iter().filter(|it| it.row.growth.is_some_and(|it| axes.contains(&it.axis))).collect();
        let at = |outcome: &Outcome| outcome.row.growth.map_or(0, |growth| growth.at);
        let mut columns: Vec<usize> = points.iter().map(|outcome| at(outcome)).collect();
        columns.sort_unstable();
        columns.dedup();
        let is_size = axes.contains(&Axis::Bytes);
        let head = |&at: &usize| if is_size { bytes(at as f64) } else { at.to_string() };
        let mut table =
            Table(vec![["work", "cost"].map(str::to_owned).into_iter().chain(columns.iter().map(head)).collect()]);
        let mut works: Vec<&str> = Vec::new();
        for work in points.iter().filter_map(|outcome| outcome.row.growth).map(|growth| growth.work) {
            if !works.contains(&work) {
                works.push(work);
            }
        }
        for work in works {
            let mine = |column: usize| {
                points.iter().find(|it| it.row.growth.is_some_and(|it| it.work == work) && at(it) == column)
            };
            let line = |cost: &str, cell: &dyn Fn(&Outcome) -> String| {
                let cells =
                    columns.iter().map(|&column| mine(column).map_or("–".to_owned(), |outcome| cell(outcome)));
                [work.to_owned(), cost.to_owned()].into_iter().chain(cells).collect()
            };
            table.0.push(line("time", &|it| pair(it, |sample| &sample.wall, seconds)));
            table.0.push(line("memory", &|it| pair(it, |sample| &sample.memory, bytes)));
        }
        table
    }

    /// Returns a line for each program of each row.
    fn csv(&self) -> String {
        let mut text = String::from(
            "row,work,program,runs,wall_s,wall_min_s,wall_max_s,cpu_s,memory_bytes,memory_min_bytes,memory_max_bytes,\
             size_bytes,time_ratio,time_goal,memory_ratio,memory_goal,size_ratio,size_goal\n",
        );
        for outcome in &self.outcomes {
            let (row, goal) = (&outcome.row, outcome.row.goal);
            let mut line = |program: &str, sample: &Sample, size: Option<u64>, rest: &[Option<f64>]| {
                let (wall, memory) = (&sample.wall, &sample.memory);
                write!(text, "{},\"{}\",{program},{}", row.name, row.what, outcome.runs).unwrap();
                for figure in [wall.median, wall.min, wall.max, sample.cpu.median] {
                    write!(text, ",{figure:.6}").unwrap();
                }
                write!(text, ",{:.0},{:.0},{:.0}", memory.median, memory.min, memory.max).unwrap();
                write!(text, ",{}", size.map_or(String::new(), |size| size.to_string())).unwrap();
                for figure in rest {
                    write!(text, ",{}", figure.map_or(String::new(), |figure| format!("{figure:.4}"))).unwrap();
                }
                text.push('\n');
            };
            let ratios = [
                outcome.time_ratio(),
                goal.map(|goal| goal.time),
                outcome.memory_ratio(),
                goal.map(|goal| goal.memory),
                outcome.size_ratio(),
                goal.and_then(|goal| goal.size),
            ];
            line("ours", &outcome.ours, outcome.sizes.map(|(ours, _)| ours), &ratios);
            if let Some(theirs) = &outcome.theirs {
                line("LLVM 22", theirs, outcome.sizes.and_then(|(_, theirs)| theirs), &[None; 6]);
            }
            for (what, limit) in &outcome.limits {
                line(what, limit, None, &[None; 6]);
            }
        }
        text
    }
}

impl Table {
    fn new(head: &[&str]) -> Self {
        Self(vec![head.iter().map(|&cell| cell.to_owned()).collect()])
    }

    fn aligned(&self) -> String {
        let columns = self.0[0].len();
        let width = |column: usize| self.0.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let line = |row: &Vec<String>| {
            let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| match column {
                0 => format!("{cell:width$}"),
                _ => format!("{cell:>width$}"),
            });
            cells.collect::<Vec<_>>().join("  ")
        };
        self.0.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    fn markdown(&self) -> String {
        let line = |row: &[String]| format!("| {} |\n", row.join(" | "));
        let rule = format!("|---{}|\n", "|--:".repeat(self.0[0].len() - 1));
        line(&self.0[0]) + &rule + &self.0[1..].iter().map(|row| line(row)).collect::<String>()
    }
}

/// Returns the median, and in brackets the smallest and the largest figure if they differ at this precision.
fn range(summary: &Summary, show: fn(f64) -> String) -> String {
    let (median, min, max) = (show(summary.median), show(summary.min), show(summary.max));
    if min == max { median } else { format!("{median} ({min} – {max})") }
}

/// Returns our median, LLVM's and the ratio, or only ours without LLVM's tool.
fn pair(outcome: &Outcome, of: fn(&Sample) -> &Summary, show: fn(f64) -> String) -> String {
    let ours = show(of(&outcome.ours).median);
    match &outcome.theirs {
        None => ours,
        Some(theirs) => format!("{ours}, {}: {}", show(of(theirs).median), ratio(outcome.ratio(of))),
    }
}

/// Returns a goal and whether it is met, or only the goal without a ratio.
fn goal_and_result(ratio: Option<f64>, goal: Option<f64>) -> String {
    match (ratio, goal) {
        (Some(ratio), Some(goal)) => format!("{goal} {}", if ratio <= goal { "met" } else { "missed" }),
        (None, Some(goal)) => goal.to_string(),
        (_, None) => String::new(),
    }
}

/// A ratio with two significant digits.
pub fn ratio(ratio: Option<f64>) -> String {
    ratio.map_or("–".to_owned(), |ratio| {
        let digits = if ratio >= 9.95 {
            0.0
        } else if ratio >= 1.0 {
            1.0
        } else {
            (1.0 - ratio.max(1e-6).log10()).ceil()
        };
        format!("{ratio:.*}", digits as usize)
    })
}

/// Seconds with three significant digits.
pub fn seconds(seconds: f64) -> String {
    let (figure, unit) = if seconds < 1.0 { (seconds * 1e3, "ms") } else { (seconds, "s") };
    format!("{} {unit}", three_digits(figure))
}

/// Bytes with three significant digits, in decimal units.
pub fn bytes(bytes: f64) -> String {
    let units = [(1e9, "GB"), (1e6, "MB"), (1e3, "kB")];
    let (unit, name) = units.into_iter().find(|(unit, _)| bytes >= *unit).unwrap_or((1.0, "B"));
    format!("{} {name}", three_digits(bytes / unit))
}

fn three_digits(figure: f64) -> String {
    let decimals = if figure < 10.0 {
        2
    } else if figure < 100.0 {
        1
    } else {
        0
    };
    let text = format!("{figure:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

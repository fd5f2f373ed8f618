//! The rows: command lines, their inputs, and their limits of time and memory against LLVM 22.

use crate::data::{Data, GPUS, HOST, LARGE, gpu_file};

/// A command line that both tools run, and how the results are judged.
pub struct Row {
    /// The name that `--rows` matches.
    pub name: String,
    /// The work, in words for the report.
    pub what: String,
    pub data: Data,
    pub weight: Weight,
    pub arguments: Vec<String>,
    pub check: Check,
    pub goal: Option<Goal>,
    pub limits: Vec<Limit>,
    pub growth: Option<Growth>,
}

/// The cost of a row, which decides how often it runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    /// Milliseconds; the report has a separate line for the row.
    Small,
    /// Milliseconds; the row is only a point of a growth table.
    Growth,
    /// Files of 100 MB and more, which take seconds to make; few runs.
    Large,
}

/// The condition that both tools have done the same.
#[derive(Clone)]
pub enum Check {
    /// The tools print the same lines, in any order, because LLVM prints in the order of a hash table.
    Lines,
    /// Each tool prints at least one line.
    Any,
    /// The files named here have the same bytes.
    Same(Vec<String>),
    /// Each tool writes `file` in its own way, and each unbundles the other's file to the inputs.
    TakenApart { file: String, unbundle: Vec<String>, outputs: Vec<String>, inputs: Vec<String> },
}

/// The most that a row should cost, as ratios to the cost of LLVM 22.
#[derive(Clone, Copy)]
pub struct Goal {
    pub time: f64,
    pub memory: f64,
    /// The size of the output, or `None` if both tools write the same bytes.
    pub size: Option<f64>,
}

/// Another program that does a part of the row's work on the same bytes. No tool can be expected to need less.
#[derive(Clone)]
pub struct Limit {
    pub what: &'static str,
    pub program: &'static str,
    pub arguments: Vec<String>,
}

/// The place of a row in the tables that show how cost grows.
#[derive(Clone, Copy)]
pub struct Growth {
    pub axis: Axis,
    pub work: &'static str,
    pub at: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Axis {
    Entries,
    Members,
    Bytes,
}

/// The goals of the five rows of [`growing`] that are only points of a growth table.
const WITHOUT_GOALS: [Option<Goal>; 5] = [None; 5];

/// Returns all rows, grouped by their inputs.
pub fn table(rocsparse: bool) -> Vec<Row> {
    let mut rows = small();
    rows.extend([1, 10, 100, 1000].into_iter().flat_map(entries));
    rows.extend([1, 10, 100, 1000].map(members));
    for (bytes, name, weight) in [
        (1_000_000, "1 MB", Weight::Growth),
        (10_000_000, "10 MB", Weight::Growth),
        (100_000_000, "100 MB", Weight::Large),
    ] {
        rows.extend(growing(Data::Objects { bytes }, name, bytes, weight, WITHOUT_GOALS));
    }
    rows.extend(large(if rocsparse { Data::Rocsparse } else { Data::Objects { bytes: LARGE } }));
    rows.push(archive());
    rows
}

/// Returns the rows of everyday work of clang and developers.
fn small() -> Vec<Row> {
    let fixture = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/binary/llvm22-plain.bundle");
    let target = |gpu: &str| format!("hipv4-amdgcn-amd-amdhsa--{gpu}");
    let images = [HOST.to_owned(), target("gfx906"), target("gfx90a")];
    let fat = [HOST.to_owned(), "hip-amdgcn-amd-amdhsa--gfx906".to_owned(), "hip-amdgcn-amd-amdhsa--gfx90a".to_owned()];
    let sources = words("host.o image.0 image.1");
    let parts = words("out.0 out.1 out.2");
    let one = Check::Same(words("out"));
    // The host is not compared, because LLVM lays out its sections anew.
    let devices = Check::TakenApart {
        file: "out".to_owned(),
        unbundle: unbundle("o", &fat[1..], "out", &words("out.1 out.2")),
        outputs: words("out.1 out.2"),
        inputs: words("image.0 image.1"),
    };
    let driver = [bundle(&images, &words("/dev/null image.0 image.1"), "out"), words("-bundle-align=4096")].concat();
    let from_fatbin = unbundle("o", &[target("gfx906:xnack-")], "plain", &words("out"));
    vec![
        row("start-up", "print the version", Data::Images, words("--version"), Check::Any),
        row("tiny-list", "list a bundle of 315 bytes", Data::Images, list("bc", fixture), Check::Lines),
        row("driver-bundle", "bundle two small images for the driver", Data::Images, driver, one.clone())
            .goal(0.08, 0.10),
        row("fatbin-list", "list a 12 MB fat binary", Data::FatBinary, list("o", "plain"), Check::Lines)
            .goal(0.08, 0.10),
        row("fatbin-one", "unbundle one GPU's object from it", Data::FatBinary, from_fatbin, one.clone())
            .goal(0.12, 0.25),
        row("fat-bundle", "bundle a fat object", Data::FatObject, bundle(&fat, &sources, "out"), devices)
            .goal(0.05, 0.10),
        row(
            "fat-unbundle",
            "unbundle a fat object",
            Data::FatObject,
            unbundle("o", &fat, "fat.o", &parts),
            Check::Same(words("out.1 out.2")),
        )
        .goal(0.05, 0.10),
    ]
}

/// Returns the rows of a bundle with `count` entries of 4 KiB.
fn entries(count: usize) -> Vec<Row> {
    let data = Data::Entries { count };
    let ids: Vec<String> = (0..count).map(entry_id).collect();
    let inputs = vec!["image".to_owned(); count];
    let output = Check::Same(words("out"));
    let last = unbundle("bc", &ids[count - 1..], "bundle", &words("out"));
    [
        ("bundle", bundle_as("bc", &ids, &inputs, "out"), output.clone()),
        ("list", list("bc", "bundle"), Check::Lines),
        ("unbundle one", last, output),
    ]
    .map(|(work, arguments, check)| {
        let (name, what) = (format!("entries-{count}-{work}"), format!("{work}, {count} entries"));
        row(&name, &what, data, arguments, check).grows(Axis::Entries, work, count)
    })
    .into()
}

/// Returns an ID for each entry of a large bundle. The IDs differ in the vendor, which may have any name, because there
/// are too few processors.
pub fn entry_id(index: usize) -> String {
    format!("hip-amdgcn-vendor{index}-amdhsa--gfx906")
}

/// An archive of `count` bundles of 25 kB.
fn members(count: usize) -> Row {
    let data = Data::Archive { members: count, bytes: count * 25_000 };
    let (arguments, outputs) = unbundle_archive();
    row(&format!("members-{count}"), &format!("unbundle, {count} members"), data, arguments, Check::Same(outputs))
        .grows(Axis::Members, "unbundle archive", count)
}

fn archive() -> Row {
    let data = Data::Archive { members: 600, bytes: 417_000_000 };
    let (arguments, outputs) = unbundle_archive();
    row("archive", "unbundle a 417 MB archive of 600 bundles into 4 archives", data, arguments, Check::Same(outputs))
        .goal(0.50, 0.10)
        .large(&[copy("archive.a")])
}

fn unbundle_archive() -> (Vec<String>, Vec<String>) {
    let outputs: Vec<String> = (0..4).map(|index| format!("out.{index}.a")).collect();
    let targets: Vec<String> = crate::data::archive_targets().into();
    (unbundle("a", &targets, "archive.a", &outputs), outputs)
}

/// Returns the rows that show how cost grows with the size of seven GPUs' code objects: bundle, list, unbundle,
/// compress and decompress, with a goal for each.
fn growing(data: Data, name: &str, bytes: usize, weight: Weight, goals: [Option<Goal>; 5]) -> Vec<Row> {
    let ids = all_ids();
    let inputs: Vec<String> = std::iter::once("/dev/null".to_owned()).chain((0..GPUS.len()).map(gpu_file)).collect();
    let outputs: Vec<String> = (0..ids.len()).map(|index| format!("out.{index}")).collect();
    let aligned = |mut arguments: Vec<String>, more: &str| {
        arguments.extend(words(more));
        arguments
    };
    let bundled = aligned(bundle(&ids, &inputs, "out"), "-bundle-align=4096");
    let inflates = Check::TakenApart {
        file: "out".to_owned(),
        unbundle: unbundle("o", &ids, "out", &outputs),
        outputs: outputs.clone(),
        inputs,
    };
    let works = [
        ("bundle", bundled.clone(), Check::Same(words("out")), vec![copy("plain")]),
        ("list", list("o", "plain"), Check::Lines, vec![]),
        ("unbundle", unbundle("o", &ids, "plain", &outputs), Check::Same(outputs.clone()), vec![copy("plain")]),
        ("compress", aligned(bundled, "-compress"), inflates, vec![zstd(), md5sum("plain")]),
        (
            "decompress",
            unbundle("o", &ids, "llvm.ccob", &outputs),
            Check::Same(outputs),
            vec![unzstd(), md5sum("plain"), copy("plain")],
        ),
    ];
    let mut rows = Vec::new();
    for ((work, arguments, check, limits), goal) in works.into_iter().zip(goals) {
        let what = match work {
            "bundle" => format!("bundle {name} (8 entries)"),
            "unbundle" => format!("unbundle {name}, all entries"),
            "compress" => format!("compress {name} at the default level"),
            "decompress" => format!("unbundle all of {name}, compressed by LLVM"),
            _ => format!("{work} {name}"),
        };
        let row = row(&format!("size-{}-{work}", name.replace(' ', "")), &what, data, arguments, check).grows(
            Axis::Bytes,
            work,
            bytes,
        );
        let limits = if goal.is_some() { limits } else { Vec::new() };
        rows.push(Row { goal, weight, limits, ..row });
    }
    rows
}

/// The rows of gigabytes.
fn large(data: Data) -> Vec<Row> {
    let goal = |time, memory, size| Some(Goal { time, memory, size });
    let goals = [
        goal(0.25, 0.02, None),
        goal(0.01, 0.01, None),
        goal(0.35, 0.02, None),
        goal(0.45, 0.25, Some(0.72)),
        goal(0.80, 0.10, None),
    ];
    let mut rows = growing(data, "1.29 GB", LARGE, Weight::Large, goals);
    let ids = all_ids();
    let first = |file: &str| unbundle("o", &ids[1..2], file, &words("out"));
    let outputs: Vec<String> = (0..ids.len()).map(|index| format!("out.{index}")).collect();
    let one = Check::Same(words("out"));
    let all_of_ours = unbundle("o", &ids, "ours.ccob", &outputs);
    rows.extend([
        row("large-list-compressed", "list 1.29 GB, compressed by LLVM", data, list("o", "llvm.ccob"), Check::Lines)
            .goal(0.01, 0.05)
            .large(&[]),
        row(
            "large-first",
            "unbundle the first GPU's object, compressed by LLVM",
            data,
            first("llvm.ccob"),
            one.clone(),
        )
        .goal(0.20, 0.10)
        .large(&[]),
        row("large-ours-list", "list 1.29 GB, compressed by us", data, list("o", "ours.ccob"), Check::Lines).large(&[]),
        row("large-ours-first", "unbundle the first GPU's object, compressed by us", data, first("ours.ccob"), one)
            .large(&[]),
        row("large-ours-all", "unbundle all of 1.29 GB, compressed by us", data, all_of_ours, Check::Same(outputs))
            .large(&[]),
    ]);
    rows
}

/// The IDs of the host and of the seven GPUs.
pub fn all_ids() -> Vec<String> {
    std::iter::once(HOST.to_owned()).chain(GPUS.map(|gpu| format!("hipv4-amdgcn-amd-amdhsa--{gpu}"))).collect()
}

fn copy(file: &str) -> Limit {
    Limit { what: "cp", program: "cp", arguments: vec![file.to_owned(), "out".to_owned()] }
}

fn md5sum(file: &str) -> Limit {
    Limit { what: "md5sum", program: "md5sum", arguments: words(file) }
}

fn zstd() -> Limit {
    Limit { what: "zstd -3 --long=28", program: "zstd", arguments: words("-qf -3 --long=28 plain -o out") }
}

fn unzstd() -> Limit {
    Limit { what: "zstd -d", program: "zstd", arguments: words("-qf -d --long=31 llvm.zst -o out") }
}

fn row(name: &str, what: &str, data: Data, arguments: Vec<String>, check: Check) -> Row {
    let (name, what) = (name.replace(' ', "-"), what.to_owned());
    Row { name, what, data, arguments, check, weight: Weight::Small, goal: None, limits: Vec::new(), growth: None }
}

impl Row {
    fn goal(self, time: f64, memory: f64) -> Self {
        Self { goal: Some(Goal { time, memory, size: None }), ..self }
    }

    fn large(self, limits: &[Limit]) -> Self {
        Self { weight: Weight::Large, limits: limits.to_vec(), ..self }
    }

    /// Makes the row a point of a growth table.
    fn grows(self, axis: Axis, work: &'static str, at: usize) -> Self {
        Self { growth: Some(Growth { axis, work, at }), weight: Weight::Growth, ..self }
    }
}

pub fn bundle(ids: &[String], inputs: &[String], output: &str) -> Vec<String> {
    bundle_as("o", ids, inputs, output)
}

pub fn bundle_as(file_type: &str, ids: &[String], inputs: &[String], output: &str) -> Vec<String> {
    let mut arguments = vec![format!("-type={file_type}"), format!("-targets={}", ids.join(","))];
    arguments.extend(inputs.iter().map(|input| format!("-input={input}")));
    arguments.push(format!("-output={output}"));
    arguments
}

fn unbundle(file_type: &str, ids: &[String], input: &str, outputs: &[String]) -> Vec<String> {
    let mut arguments = words("-unbundle");
    arguments.extend([format!("-type={file_type}"), format!("-targets={}", ids.join(",")), format!("-input={input}")]);
    arguments.extend(outputs.iter().map(|output| format!("-output={output}")));
    arguments
}

fn list(file_type: &str, input: &str) -> Vec<String> {
    vec!["-list".to_owned(), format!("-type={file_type}"), format!("-input={input}")]
}

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

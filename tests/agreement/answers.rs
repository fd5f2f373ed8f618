//! What the subcommands answer, and how it differs from what was put in.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::content::{GPUS, Row};
use super::tree::{Expected, Given, Tree};
use crate::machine::memory_directory;
use crate::reference::harness::Random;
use crate::subcommands::{PROGRAM, schema};

/// An answer that is not the expected one.
pub struct Disagreement {
    pub question: &'static str,
    pub form: &'static str,
    pub told: String,
}

/// The questions about a tree, and the wrong answers.
pub struct Asked<'t> {
    tree: &'t Tree,
    expected: Expected,
    dir: tempfile::TempDir,
    argument: String,
    pub answers: usize,
    pub wrong: Vec<Disagreement>,
}

/// The result of a command.
struct Run {
    line: String,
    status: i32,
    stdout: Vec<u8>,
    stderr: String,
}

impl Run {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    fn json(&self, schema: &str) -> Value {
        let value: Value = serde_json::from_slice(&self.stdout)
            .unwrap_or_else(|error| panic!("{}: {error}: {}{}", self.line, self.text(), self.stderr));
        schema::check(schema, &value);
        value
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn number(value: &Value) -> usize {
    usize::try_from(value.as_u64().unwrap()).unwrap()
}

/// The last name in the path of a member or file.
fn leaf(value: &Value) -> String {
    let name = value["member"].as_str().or(value["path"].as_str()).unwrap_or("(none)");
    name.trim_end_matches('/').rsplit('/').next().unwrap().to_owned()
}

impl<'t> Asked<'t> {
    /// Asks all questions about a tree.
    pub fn about(tree: &'t Tree, random: &mut Random) -> Self {
        let dir = memory_directory();
        let argument = tree.write(dir.path());
        let mut asked = Self { tree, expected: tree.expected(), dir, argument, answers: 0, wrong: Vec::new() };
        let document = asked.inspect();
        asked.table();
        asked.summary();
        asked.verify();
        asked.kernels();
        asked.report();
        for number in 0..3 {
            // Two that have code, unless they are not among the GPUs.
            let targets: Vec<&'static str> = asked.expected.targets().into_iter().collect();
            let gpu = if number < 2 { *random.pick(&targets) } else { *random.pick(&GPUS) };
            asked.expect(gpu);
            asked.extract(gpu);
            if number != 1 {
                asked.recompress(gpu, &document);
            }
        }
        asked.diff(random);
        asked
    }

    fn run(&self, args: &[&str]) -> Run {
        self.run_with(args, self.dir.path())
    }

    /// Runs the tool on the tree that was written into a directory.
    fn run_with(&self, args: &[&str], input: &Path) -> Run {
        let mut command = Command::new(PROGRAM);
        command.args(args).current_dir(self.dir.path()).env("LC_ALL", "C.UTF-8").stdin(Stdio::null());
        if self.tree.given == Given::StandardInput {
            command.stdin(File::open(input.join("input")).unwrap());
        }
        let output = command.output().unwrap();
        Run {
            line: format!("offload-bundle {}", args.join(" ")),
            status: output.status.code().unwrap_or(-1),
            stdout: output.stdout,
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// The arguments with the tree.
    fn with_tree<'a>(&'a self, args: &[&'a str]) -> Vec<&'a str> {
        let recursive: &[&str] = if self.tree.is_directory() { &["-r"] } else { &[] };
        [args, recursive, &[self.argument.as_str()]].concat()
    }

    fn ask(&self, args: &[&str]) -> Run {
        self.run(&self.with_tree(args))
    }

    /// Compares an answer.
    fn same<T: Debug + PartialEq>(&mut self, question: &'static str, run: &Run, got: T, expected: T) {
        self.answers += 1;
        if got == expected {
            return;
        }
        let told = format!(
            "  {:?}\n  $ {}\n  expected {expected:?}\n  got      {got:?} (status {}){}",
            self.tree.root,
            run.line,
            run.status,
            run.stderr.lines().next().map_or(String::new(), |line| format!("\n  {line}"))
        );
        self.wrong.push(Disagreement { question, form: self.tree.label, told });
    }

    fn inspect(&mut self) -> Value {
        let run = self.ask(&["inspect", "--matrix", "--json"]);
        let document = run.json("inspect");
        self.same("inspect: status", &run, run.status, 0);
        let mut rows: Vec<Row> = list(&document["files"])
            .iter()
            .flat_map(|file| list(&file["code_objects"]))
            .map(|object| {
                let text = |name: &str| object[name].as_str().unwrap_or_default().to_owned();
                let is_host = object["kind"] == "host";
                let target = if is_host { "host".to_owned() } else { text("target_id") };
                let place = format!("{}:{}", leaf(object), text("section"));
                (place, text("container"), target, number(&object["size"]))
            })
            .collect();
        let mut expected = self.expected.rows.clone();
        rows.sort();
        expected.sort();
        self.same("inspect --json: code objects", &run, rows, expected);
        let libraries = list(&document["libraries"]);
        let names = |names: &mut dyn Iterator<Item = String>| -> Vec<String> {
            let mut names: Vec<String> = names.collect();
            names.sort();
            names
        };
        let got = names(&mut libraries.iter().map(leaf));
        let wanted = names(&mut self.expected.libraries.iter().map(|library| library.leaf.clone()));
        let has_same_libraries = got == wanted;
        self.same("inspect --matrix --json: libraries", &run, got, wanted);
        if has_same_libraries {
            let bundles = libraries.iter().map(|library| (leaf(library), number(&library["bundles"]))).collect();
            let expected = self.expected.libraries.iter().map(|library| (library.leaf.clone(), library.units()));
            self.same::<BTreeMap<String, usize>>("inspect --matrix --json: bundles", &run, bundles, expected.collect());
            let served = libraries.iter().map(|library| {
                let gpus = list(&library["coverage"]).iter().map(|gpu| {
                    let name = gpu["gpu"].as_str().unwrap().to_owned();
                    (name, (number(&gpu["serving"]), number(&gpu["bundles"])))
                });
                (leaf(library), gpus.collect())
            });
            self.same("inspect --matrix --json: served", &run, served.collect(), self.expected.matrix());
        }
        // The coverage of files, which counts bundles; that of files which serve together is in `directories`.
        if !self.tree.is_directory() {
            let file = &document["files"][0];
            let served: BTreeMap<String, (usize, usize)> = list(&file["coverage"])
                .iter()
                .map(|gpu| {
                    let name = gpu["gpu"].as_str().unwrap().to_owned();
                    (name, (number(&gpu["serving"]), number(&gpu["bundles"])))
                })
                .collect();
            let mut expected: BTreeMap<String, (usize, usize)> = BTreeMap::new();
            for (gpu, (serving, bundles)) in self.expected.matrix().into_values().flatten() {
                let all = expected.entry(gpu).or_default();
                *all = (all.0 + serving, all.1 + bundles);
            }
            self.same("inspect --json: coverage of the file", &run, served, expected);
        }
        document
    }

    /// The table of GPUs in `inspect`: how many libraries serve each with all their units, with some, and how many there
    /// are; of a single library, its units.
    fn table(&mut self) {
        let run = self.ask(&["inspect"]);
        let (text, libraries) = (run.text(), self.expected.libraries.len());
        let mut served: BTreeMap<String, (usize, usize, usize)> = BTreeMap::new();
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let Some(at) = words.iter().position(|word| *word == "of") else { continue };
            let (Some(serving), Some(all)) = (words.get(at.wrapping_sub(1)), words.get(at + 1)) else { continue };
            let (complete, partial) = serving.split_once('+').unwrap_or((serving, "0"));
            if let (Ok(complete), Ok(partial), Ok(all)) = (complete.parse(), partial.parse(), all.parse())
                && line.starts_with("  ")
                && GPUS.contains(&words[0])
            {
                served.insert(words[0].to_owned(), (complete, partial, all));
            }
        }
        let matrix = self.expected.matrix();
        let expected = served.keys().map(|gpu| {
            let of_gpu: Vec<(usize, usize)> = matrix.values().filter_map(|gpus| gpus.get(gpu).copied()).collect();
            let complete = of_gpu.iter().filter(|(serving, units)| serving == units).count();
            let partial = of_gpu.iter().filter(|(serving, units)| *serving > 0 && serving < units).count();
            let numbers = match of_gpu[..] {
                [(serving, units)] if libraries == 1 => (serving, 0, units),
                _ => (complete, partial, of_gpu.len()),
            };
            (gpu.clone(), numbers)
        });
        let expected: BTreeMap<_, _> = expected.collect();
        self.same("inspect: table of GPUs", &run, served, expected);
    }

    fn summary(&mut self) {
        let run = self.ask(&["inspect", "--summary"]);
        let text = run.text();
        let total = text.lines().find_map(|line| line.strip_prefix("Total: ")).unwrap_or_default();
        let total = total.split(' ').next().unwrap_or_default().to_owned();
        self.same("inspect --summary: code objects", &run, total, self.expected.code_objects().to_string());
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            if let [gpu, count, ..] = words[..]
                && line.starts_with("    ")
                && gpu != "GPU"
                && gpu != "host"
                && let Ok(count) = count.parse()
            {
                counts.insert(gpu.to_owned(), count);
            }
        }
        self.same("inspect --summary: code objects of each GPU", &run, counts, self.counts());
    }

    /// The number of code objects for each target.
    fn counts(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for code in &self.expected.codes {
            *counts.entry(code.target.to_owned()).or_default() += 1;
        }
        counts
    }

    fn verify(&mut self) {
        let run = self.ask(&["verify", "--json"]);
        let document = run.json("verify");
        self.same("verify: status", &run, run.status, 0);
        let code_objects = number(&document["total"]["code_objects"]);
        self.same("verify --json: code objects", &run, code_objects, self.expected.code_objects());
    }

    fn kernels(&mut self) {
        let run = self.ask(&["kernels", "--json"]);
        let document = run.json("kernels");
        self.same("kernels: status", &run, run.status, 0);
        let others: usize = list(&document["others"]).iter().map(|other| number(&other["code_objects"])).sum();
        let all = list(&document["kernels"]).len() + others;
        self.same("kernels --json: code objects", &run, all, self.expected.codes.len());
    }

    fn report(&mut self) {
        let run = self.ask(&["report", "-o", "page.html"]);
        self.same("report: status", &run, run.status, 0);
        let page = fs::read_to_string(self.dir.path().join("page.html")).unwrap_or_default();
        let heading =
            page.split(" of code objects: ").nth(1).and_then(|rest| rest.split("</p>").next()).unwrap_or_default();
        let numbers: Vec<usize> = heading.split(' ').filter_map(|word| word.parse().ok()).collect();
        let expected = &self.expected;
        let numbers_expected = vec![expected.code_objects(), expected.targets().len(), expected.libraries.len()];
        self.same("report: code objects, targets, libraries", &run, numbers, numbers_expected);
        // The cells of a library that has nothing for GPUs of the vendor are empty.
        let table = page.split("<table class=\"cells\"").nth(1).and_then(|rest| rest.split("</table>").next());
        let mut cells: Vec<(String, Vec<(usize, usize)>)> = Vec::new();
        for row in table.unwrap_or_default().split("<th scope=\"row\"").skip(1) {
            let (head, row) = row.split_once("</th>").unwrap();
            // A short name has the whole one as its title.
            let (_, gpus) = head.split_once('>').unwrap();
            let served = row.split("<td").filter_map(|cell| {
                let text = cell.split_once('>')?.1.split('<').next()?;
                let (serving, all) = text.split_once(" of ")?;
                // By JIT or not is another question.
                let all = all.split([' ', ',']).next()?;
                Some((serving.parse().ok()?, all.parse().ok()?))
            });
            let mut served: Vec<(usize, usize)> = served.collect();
            served.sort_unstable();
            cells.push((gpus.to_owned(), served));
        }
        let matrix = self.expected.matrix();
        let expected = cells.iter().map(|(gpu, _)| {
            let mut served: Vec<(usize, usize)> =
                matrix.values().filter_map(|gpus| gpus.get(gpu.as_str()).copied()).collect();
            served.sort_unstable();
            (gpu.clone(), served)
        });
        // A row may stand for several GPUs.
        let expected: Vec<(String, Vec<(usize, usize)>)> =
            expected.filter(|(gpu, _)| GPUS.contains(&gpu.as_str())).collect();
        cells.retain(|(gpu, _)| GPUS.contains(&gpu.as_str()));
        self.same("report: table of libraries", &run, cells, expected);
    }

    fn expect(&mut self, gpu: &str) {
        for (question, option, passes) in [
            ("verify --expect", "--expect", self.expected.passes(gpu)),
            ("verify --expect-any", "--expect-any", self.expected.passes_any(gpu)),
        ] {
            let run = self.ask(&["verify", option, gpu]);
            self.same(question, &run, run.status, i32::from(!passes));
        }
    }

    fn extract(&mut self, gpu: &str) {
        let run = self.ask(&["extract", "--as-runtime", "--target", gpu, "--dry-run"]);
        let expected = self.expected.loaded(gpu);
        let got = (run.status, run.text().lines().count());
        self.same("extract --as-runtime", &run, got, (i32::from(expected == 0), expected));
    }

    fn recompress(&mut self, gpu: &str, before: &Value) {
        if !self.tree.is_writable() {
            return;
        }
        let run = self.ask(&["recompress", "--keep-for", gpu, "-o", "kept"]);
        let kept = self.expected.kept(gpu);
        self.same("recompress --keep-for: status", &run, run.status, i32::from(kept == 0));
        if run.status != 0 {
            return;
        }
        let result = self.run(&["inspect", "--matrix", "--json", "kept"]);
        let after = result.json("inspect");
        let count = list(&after["files"][0]["code_objects"])
            .iter()
            .filter(|object| object["kind"] != "host" && object["has_parts"] == false)
            .count();
        self.same("recompress --keep-for: code objects", &run, count, kept);
        let serving = |document: &Value| -> BTreeSet<(String, usize)> {
            let all = list(&document["libraries"]).iter().flat_map(|library| {
                let gpus = list(&library["coverage"]).iter().filter(|served| served["gpu"] == gpu);
                gpus.map(|served| (leaf(library), number(&served["serving"])))
            });
            // The file itself has another name now.
            let all = all.map(|(name, serving)| (if name == "kept" { self.argument.clone() } else { name }, serving));
            all.filter(|(_, serving)| *serving > 0).collect()
        };
        let (got, expected) = (serving(&after), serving(before));
        self.same("recompress --keep-for: libraries that serve the GPU", &run, got, expected);
    }

    fn diff(&mut self, random: &mut Random) {
        let Some(lesser) = self.tree.with_loss(random) else { return };
        for (what, tree) in [("old", self.tree), ("new", &lesser)] {
            tree.write(&self.dir.path().join(what));
        }
        let (is_input, argument) = (self.tree.given == Given::StandardInput, self.argument.clone());
        let at = |what: &str| format!("{what}/{}", if is_input { "input" } else { &argument });
        let recursive: &[&str] = if self.tree.is_directory() { &["-r"] } else { &[] };
        let run = |asked: &Self, new: &str| {
            let (old, input) = (at("old"), asked.dir.path().join(new));
            let new = if is_input { "-".to_owned() } else { at(new) };
            asked.run_with(&[&["diff", "--json", "--fail-on", "lost-gpu"], recursive, &[&old, &new]].concat(), &input)
        };
        let same = run(self, "old");
        let document = same.json("diff");
        self.same("diff with itself: status", &same, same.status, 0);
        let counts = list(&document["gpus"]).iter().map(|gpu| {
            let of = |side: &str| number(&gpu[side]["code_objects"]);
            (gpu["target_id"].as_str().unwrap().to_owned(), (of("old"), of("new")))
        });
        let expected = self.counts().into_iter().map(|(gpu, count)| (gpu, (count, count)));
        self.same::<BTreeMap<_, _>>("diff: code objects of each GPU", &same, counts.collect(), expected.collect());
        let equal = number(&document["summary"]["code_objects"]["equal"]);
        self.same("diff: equal code objects", &same, equal, self.expected.codes.len());
        let worse = run(self, "new");
        let new = lesser.expected();
        let targets = self.expected.targets();
        let lost: BTreeSet<&str> = targets.into_iter().filter(|gpu| self.expected.loses(&new, gpu)).collect();
        let document = worse.json("diff");
        self.same(
            "diff --fail-on lost-gpu",
            &worse,
            (worse.status, &new.codes.len()),
            (i32::from(!lost.is_empty()), &new.codes.len()),
        );
        let removed = number(&document["summary"]["code_objects"]["removed"]);
        self.same("diff: removed code objects", &worse, removed, 1);
        let got: BTreeSet<(String, String)> = list(&document["losses"])
            .iter()
            .map(|loss| {
                let name = loss["library"].as_str().unwrap().trim_end_matches([')', '/']);
                let name = name.rsplit(['/', '(']).next().unwrap();
                // Names are paths below the directories that are compared.
                let name = if name == "." { self.argument.clone() } else { name.to_owned() };
                (loss["target_id"].as_str().unwrap().to_owned(), name)
            })
            .collect();
        let losses = self.expected.losses(&new).into_iter();
        let expected: BTreeSet<(String, String)> = losses.map(|(gpu, library)| (gpu.to_owned(), library)).collect();
        self.same("diff: losses", &worse, got, expected);
    }
}

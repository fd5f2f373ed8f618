//! All subcommands agree about what files hold: about libraries, code objects, and the GPUs that are served, whatever
//! the content is put into, whatever that is called, and however the tool gets it.
//!
//! The content is generated from a seed, and so are the files around it. The expected answers come from what was put
//! in and from a plain reading of the rules of runtimes (`properties/coverage.rs`), never from the code under test.

mod answers;
mod content;
mod tree;

use std::collections::BTreeMap;

use crate::lists::is_complete;
use crate::machine::{loud, memory_directory};
use crate::reference::harness::Random;
use crate::subcommands::python::python;
use crate::subcommands::text;
use answers::{Asked, Disagreement};
use content::{GPUS, Maker};
use tree::{Given, Tree};

/// The trees of a seed: the same content in all kinds of files.
fn trees(seed: u64) -> Vec<Tree> {
    Tree::all(Maker::new(Random::new(seed)))
}

/// The number of wrong answers of a kind that are printed in full.
const PRINTED: usize = 2;

#[test]
fn the_same_content_gets_the_same_answers_in_any_file() {
    let seeds = if is_complete() { 600 } else { 20 };
    let first = std::env::var("SEED").ok().map(|seed| seed.parse::<u64>().unwrap());
    let seeds: Vec<u64> = first.map_or_else(|| (1..=seeds).collect(), |seed| vec![seed]);
    let (mut count, mut answers) = (0, 0);
    let mut wrong: BTreeMap<(&str, &str), Vec<(u64, Disagreement)>> = BTreeMap::new();
    for seed in seeds {
        for tree in trees(seed) {
            let asked = Asked::about(&tree, &mut Random::new(seed));
            count += 1;
            answers += asked.answers;
            for disagreement in asked.wrong {
                let key = (disagreement.question, disagreement.form);
                wrong.entry(key).or_default().push((seed, disagreement));
            }
        }
    }
    loud(&format!("agreement: {answers} answers about {count} files and directories"));
    let mut told = String::new();
    for ((question, form), all) in &wrong {
        told += &format!("\n{} wrong: {question}: {form}\n", all.len());
        for (seed, disagreement) in all.iter().take(PRINTED) {
            told += &format!("  SEED={seed}\n{}\n", disagreement.told);
        }
    }
    let all: usize = wrong.values().map(Vec::len).sum();
    assert!(wrong.is_empty(), "{all} of {answers} answers are wrong:\n{told}");
}

/// The Python package gives the same answers.
#[test]
fn python_gives_the_same_answers() {
    let dir = memory_directory();
    let mut cases = Vec::new();
    for seed in 1..=if is_complete() { 40 } else { 3 } {
        let mut random = Random::new(seed);
        for (number, tree) in trees(seed).iter().enumerate() {
            let (expected, gpu) = (tree.expected(), *random.pick(&GPUS));
            let at = format!("{seed}-{number}");
            let name = tree.write(&dir.path().join(&at));
            let is_input = tree.given == Given::StandardInput;
            let libraries: BTreeMap<String, _> = expected.matrix();
            cases.push(serde_json::json!({
                "tree": format!("SEED={seed} {:?}", tree.root),
                "path": format!("{at}/{}", if is_input { "input" } else { &name }),
                "bytes": is_input,
                "recursive": tree.is_directory(),
                "gpu": gpu,
                "codes": expected.codes.len(),
                "libraries": libraries,
                "passes": expected.passes(gpu),
                "passes_any": expected.passes_any(gpu),
                "loaded": expected.loaded(gpu),
            }));
        }
    }
    std::fs::write(dir.path().join("cases.json"), serde_json::to_vec(&cases).unwrap()).unwrap();
    let output = python(dir.path(), "agreement/python.py").current_dir(dir.path()).output().unwrap();
    let (status, told, errors) = text(&output);
    assert!(status == 0 && errors.is_empty(), "{told}{errors}");
    loud(&format!("agreement: Python was asked about {} files and directories", cases.len()));
}

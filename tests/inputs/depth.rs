//! Deeply nested files, read with a stack of one megabyte.

use std::fs;

use super::*;
use crate::hostile::bits;
use crate::hostile::files::{Frame, ccob};
use crate::properties::make::{STORED, Zipped, archive, zip};
use crate::reference::formats;
use crate::reference::offload;

const SMALL_STACK: &str = "ulimit -s 1024";

/// This stack must be enough for any number of levels.
const TINY_STACK: &str = "ulimit -s 256";

#[test]
fn directories_of_two_thousand_levels() {
    let bundle = formats::binary(&[(GFX906, b"code")], 1);
    let bench = Bench::new(&[]);
    let deepest = bench.path(&["top", &"d/".repeat(1950)].join("/"));
    fs::create_dir_all(&deepest).unwrap();
    fs::write(deepest.join("x"), &bundle).unwrap();
    for words in [&["inspect", "-r"][..], &["verify", "-r"], &["extract", "-r", "-n"]] {
        let run = bench.command(TINY_STACK, &[words, &["top"]].concat()).output().unwrap();
        assert_succeeds(words[0], &run);
        assert!(
            stdout(&run).contains(if words[0] == "verify" { "1 code object" } else { "gfx906" }),
            "{}",
            stdout(&run)
        );
    }
    // More levels than the limit of open files.
    assert!(Command::new("rm").arg("-rf").arg(bench.path("top")).status().unwrap().success());
}

/// Wraps bytes `levels` times.
fn nested(levels: usize, innermost: &[u8], wrap: impl Fn(&[u8]) -> Vec<u8>) -> Vec<u8> {
    (0..levels).fold(innermost.to_vec(), |data, _| wrap(&data))
}

type Wrap<'w> = &'w dyn Fn(&[u8]) -> Vec<u8>;

/// Nested files of every format that can hold others.
fn deep() -> Vec<(&'static str, Vec<u8>)> {
    let bundle = |data: &[u8]| formats::binary(&[(GFX906, data)], 1);
    let image = |data: &[u8]| offload::write(1, &[offload::Image::new(1, 4, &[("triple", "t")], data)]);
    let packed = |data: &[u8]| {
        let bundle = formats::binary(&[(GFX906, data)], 1);
        ccob(3, 1, u64::try_from(bundle.len()).unwrap(), &Frame::new(20).raw(&bundle).finish())
    };
    let text = |data: &[u8]| formats::text("#", &[(GFX906, data)]);
    let member = |data: &[u8]| archive(&[("x.a", data)]);
    let zipped = |data: &[u8]| zip(&[Zipped::new("x", STORED, data)]);
    let turns: [Wrap<'_>; 4] = [&bundle, &image, &member, &zipped];
    let mixed = (0..200).fold(b"leaf".to_vec(), |data, level| turns[level % turns.len()](&data));
    vec![
        ("bundles", nested(2000, b"leaf", bundle)),
        ("offload binaries", nested(2000, b"leaf", image)),
        ("compressed bundles", nested(200, b"leaf", packed)),
        ("text bundles", nested(500, b"leaf\n", text)),
        ("archives", nested(1000, b"leaf", member)),
        ("zip files", nested(300, b"leaf", zipped)),
        ("all of them", mixed),
        ("bitcode", bits::literals(1 << 10)),
    ]
}

#[test]
fn nested_containers_need_no_large_stack() {
    for (what, data) in deep() {
        let bench = Bench::new(&[("in", &data)]);
        for line in readers() {
            let line = on("in", &line);
            let run = bench.command(SMALL_STACK, &words(&line)).output().unwrap();
            assert!(
                matches!(run.status.code(), Some(0 | 1)),
                "{what}: {}: {:?} {}",
                line.join(" "),
                run.status,
                stderr(&run)
            );
        }
    }
}

#[test]
fn response_files_in_one_another_need_no_large_stack() {
    const LEVELS: usize = 3000;
    let bench = Bench::new(&[]);
    for level in 0..LEVELS {
        fs::write(bench.path(&level.to_string()), format!("@{}", level + 1)).unwrap();
    }
    fs::write(bench.path(&LEVELS.to_string()), "-type=bc -list -input=/dev/null").unwrap();
    let run = bench.command(SMALL_STACK, &["@0"]).output().unwrap();
    assert_succeeds("response files", &run);
}

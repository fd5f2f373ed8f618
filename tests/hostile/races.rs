//! Files that another process changes while they are read.

use std::fs::{self, File, OpenOptions};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use super::samples::{GFX906, HOST, Reader, samples};
use crate::lists::is_complete;
use crate::machine::memory_directory;
use crate::reference::formats;

/// The most harmful bytes: the start of a multi-byte character, a control character, a digit, the end of a name.
const VALUES: [u8; 6] = [0xf0, 0xff, 0x00, b'9', b'/', 0x80];

/// The command lines for a file with this reader.
fn command_lines(reader: Reader) -> Vec<Vec<String>> {
    let file_type = match reader {
        Reader::Bundler(file_type) => file_type,
        Reader::Archive | Reader::Packager => "a",
    };
    let (all, file_type) = (format!("-targets={HOST},{GFX906}"), format!("-type={file_type}"));
    let unbundle = ["-unbundle", &file_type, &all, "-input=in", "-output=o0", "-output=o1", "-allow-missing-bundles"];
    let lines: [&[&str]; 9] = [
        &["inspect", "in"],
        &["inspect", "--json", "--inflate", "in"],
        &["verify", "in"],
        &["extract", "-o", "out", "in"],
        &["recompress", "in", "-o", "smaller"],
        &["-list", &file_type, "-input=in"],
        &unbundle,
        &["package", "in", "--image=kind=hip"],
        &["package", "in", "--archive", "--image=file=all.a"],
    ];
    lines.iter().map(|line| line.iter().map(|&word| word.to_owned()).collect()).collect()
}

/// Changes one byte after another and restores each, until `stop` is set.
fn change(file: &File, data: &[u8], places: Range<usize>, stop: &AtomicBool) {
    // The order avoids changing adjacent bytes one after another.
    let mut places = (0..places.len()).map(|step| places.start + step.wrapping_mul(7919) % places.len()).cycle();
    let mut values = VALUES.into_iter().cycle();
    while let (false, Some(at), Some(value)) = (stop.load(Ordering::Relaxed), places.next(), values.next()) {
        let offset = u64::try_from(at).unwrap();
        file.write_all_at(&[value], offset).unwrap();
        file.write_all_at(&data[at..=at], offset).unwrap();
    }
}

/// Runs all command lines on a file while bytes at `places` change, `times` times if `OFFLOAD_COMPLETE=1` is set. Each
/// must end, with a result or an error.
fn race(name: &str, data: &[u8], places: Range<usize>, reader: Reader, times: usize) {
    let dir = memory_directory();
    let input = dir.path().join("in");
    fs::write(&input, data).unwrap();
    let times = if is_complete() { times } else { times.div_ceil(4) };
    let file = OpenOptions::new().write(true).open(&input).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| change(&file, data, places, &stop));
        let ends = command_lines(reader).into_iter().map(|line| (0..times).find_map(|_| run(dir.path(), &line)));
        let bad: Vec<String> = ends.flatten().collect();
        stop.store(true, Ordering::Relaxed);
        assert!(bad.is_empty(), "{name}: {}", bad.join("\n"));
    });
}

/// Describes the problem with how a command line ended, if any.
fn run(dir: &Path, line: &[String]) -> Option<String> {
    let output =
        Command::new(env!("CARGO_BIN_EXE_clang-offload-bundler")).args(line).current_dir(dir).output().unwrap();
    let fine = matches!(output.status.code(), Some(0 | 1));
    (!fine).then(|| format!("{line:?}: {}: {}", output.status, output.stderr.escape_ascii()))
}

/// A multi-byte character that begins with the last byte of a text extends beyond the end of the text.
#[test]
fn text_whose_end_changes_while_it_is_read() {
    // Many code objects that share their bytes, so that the end of one is read at any time.
    let text = [b'a'; 512];
    let mut bundle = formats::binary(&vec![(GFX906, &b""[..]); 2000], 1);
    let (start, len) = (u64::try_from(bundle.len()).unwrap(), u64::try_from(text.len()).unwrap());
    let entry = 24 + GFX906.len();
    for field in (0..2000).map(|index| 32 + index * entry) {
        bundle[field..field + 16].copy_from_slice(&[start, len].map(u64::to_le_bytes).concat());
    }
    let end = bundle.len() + text.len() - 1;
    bundle.extend(text);
    race("text in a bundle", &bundle, end..end + 1, Reader::Bundler("bc"), 6);
    // The sizes of an index of names, and the names.
    let names = "dir/\u{e9}\u{20ac}name of a member.o/\n".repeat(16);
    let mut archive = format!("!<arch>\n{:<48}{:<10}`\n{names}", "//", names.len()).into_bytes();
    for member in 0..16 {
        let name = format!("/{}", member * names.len() / 16);
        archive.extend(format!("{name:<48}{:<10}`\nab", 2).into_bytes());
    }
    race("names in an archive", &archive, 8 + 48..8 + 60 + names.len(), Reader::Archive, 10);
}

#[test]
fn files_that_change_while_they_are_read() {
    for sample in samples() {
        race(sample.name, &sample.data, 0..sample.data.len(), sample.reader, 2);
    }
}

//! The Python package `offload_bundle`, over the executable under test. `packaging/test-wheel` tests it as it is
//! installed.

use std::path::Path;
use std::process::Command;

use super::{PROGRAM, must};
use crate::machine::memory_directory;

/// A script of `tests/` that uses the package. `room` is an empty directory, or one without an `offload-bundle`.
pub fn python(room: &Path, script: &str) -> Command {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    std::os::unix::fs::symlink(PROGRAM, room.join("offload-bundle")).unwrap();
    let path = format!("{}:{}", room.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("python3");
    command.args(["-W", "error"]).arg(root.join("tests").join(script)).current_dir(root).env("PATH", path);
    command.env("PYTHONPATH", root.join("packaging/python")).env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

#[test]
fn functions_return_the_reports_and_raise_what_cannot_be_read() {
    let room = memory_directory();
    must(&mut python(room.path(), "subcommands/python.py"));
}

/// Each line is an object, whose text is that of the message for people.
#[test]
fn messages_for_programs_have_the_parts_of_an_error() {
    let run = |args: &[&str]| {
        let output = Command::new(PROGRAM).args(args).current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
        String::from_utf8(output.stderr).unwrap()
    };
    let files = ["inspect", "missing", "fixtures/hostile/cut-in-header.bundle", "gfx90a"];
    let text = run(&files);
    let json = run(&[&files[..], &["--message-format", "json"]].concat());
    let messages: Vec<serde_json::Value> = json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(messages.len(), text.lines().count());
    for (message, line) in messages.iter().zip(text.lines()) {
        let of = |key: &str| message[key].as_str().unwrap();
        assert!(line.ends_with(&format!("{}: {}", of("level"), of("message"))), "{message} {line}");
    }
    let facts = |index: usize| {
        let message: &serde_json::Value = &messages[index];
        (message["kind"].as_str(), message["path"].as_str(), message["offset"].as_u64())
    };
    assert_eq!(facts(0), (Some("io"), Some("missing"), None));
    assert_eq!(facts(1), (Some("malformed"), Some(files[2]), Some(24)));
    assert_eq!(messages[3]["level"], "hint");
}

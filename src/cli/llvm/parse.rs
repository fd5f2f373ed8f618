//! Parses `argv`: expands response files, applies LLVM's grammar, then uses `clap`.

use std::ffi::{OsStr, OsString};

use clap::ArgMatches;

use super::grammar::{self, Verdict};
use super::help;
use super::options::{Action, Tool};
use super::response;
use crate::cli::program::Program;
use crate::cli::subcommand;

/// The result of parsing a command line.
#[derive(Debug)]
pub(in crate::cli) enum Parsed {
    /// Run the tool.
    Run {
        matches: ArgMatches,
        /// The program's name as typed.
        called: OsString,
    },
    /// Only print these texts and exit with this status.
    Exit {
        stdout: Vec<u8>,
        /// Printed first.
        stderr: Vec<u8>,
        /// A way to fix the command line, printed last.
        hint: Option<String>,
        status: u8,
    },
}

/// Parses a command line, including `argv[0]`.
pub(in crate::cli) fn parse(tool: &Tool, argv: Vec<OsString>) -> Parsed {
    let typed = argv.first().cloned().unwrap_or_default();
    let words = argv.get(1..).unwrap_or_default();
    let hint = if tool.has_subcommands() { subcommand::hint(&typed, words) } else { None };
    let argv = match response::expand(argv) {
        Ok(argv) => argv,
        Err(message) => return refused([message, b"\n".to_vec(), without_options(tool, &typed)].concat()),
    };
    let called = argv.first().cloned().unwrap_or_default();
    let program = Program::new(&called);
    match grammar::read(tool, &program, argv.get(1..).unwrap_or_default()) {
        Verdict::Settings(settings) => match tool.command().try_get_matches_from(settings) {
            Ok(matches) => Parsed::Run { matches, called },
            Err(error) => refused([program.name, b": ", error.to_string().as_bytes()].concat()),
        },
        Verdict::Act(action, stderr) => {
            let stdout = match action {
                Action::Help(style) => help::text(tool, program.name, style),
                Action::Version => help::version(tool),
            };
            Parsed::Exit { stdout, stderr, hint: None, status: 0 }
        }
        Verdict::Refused(stderr) => Parsed::Exit { stdout: Vec::new(), stderr, hint, status: 1 },
    }
}

/// LLVM's message if it continues without any option.
fn without_options(tool: &Tool, typed: &OsStr) -> Vec<u8> {
    let Some(missing) = tool.without_options else { return Vec::new() };
    let colon = if typed.is_empty() { "" } else { ": " };
    [typed.as_encoded_bytes(), colon.as_bytes(), b"error: ", missing.as_bytes(), b"\n"].concat()
}

fn refused(stderr: Vec<u8>) -> Parsed {
    Parsed::Exit { stdout: Vec::new(), stderr, hint: None, status: 1 }
}

#[cfg(test)]
mod tests {
    use offload_bundle::io::sys;

    use super::*;
    use crate::cli::llvm::bundler::{RawArgs, TOOL};
    use crate::cli::llvm::packager;

    fn parsed(words: &[&[u8]]) -> Parsed {
        let argv = [&[b"foo".as_slice()], words].concat();
        parse(TOOL, argv.into_iter().map(|word| sys::os_string(word.to_vec())).collect())
    }

    fn raw(words: &[&[u8]]) -> RawArgs {
        match parsed(words) {
            Parsed::Run { matches, .. } => RawArgs::new(&matches),
            other => panic!("{other:?}"),
        }
    }

    fn exit(words: &[&[u8]]) -> (String, String, u8) {
        match parsed(words) {
            Parsed::Exit { stdout, stderr, status, .. } => {
                (String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap(), status)
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_not_given_has_its_default() {
        let expected = RawArgs { file_type: "o".into(), bundle_align: 1, ..RawArgs::default() };
        assert_eq!(raw(&[b"-type=o"]), expected);
    }

    #[test]
    fn every_option_arrives() {
        let raw = raw(&[
            b"-type",
            b"a",
            b"-type=o",
            b"-list",
            b"-unbundle",
            b"-###",
            b"-allow-missing-bundles",
            b"-check-input-archive",
            b"-hip-openmp-compatible",
            b"-compress=0",
            b"-verbose",
            b"-bundle-align=0x1000",
            b"-compression-level=-3",
            b"-compression-window=27",
            b"-max-size=3K",
            b"-input=a",
            b"-input=b,c",
            b"-inputs=d,e",
            b"-output=f",
            b"-outputs=g,",
            b"-targets=host-x,hip-y",
            b"-debug-only=one,two",
            b"-print-options",
            b"-print-all-options=0",
            b"-h=0",
        ]);
        let texts = |texts: &[&str]| texts.iter().map(OsString::from).collect::<Vec<_>>();
        let expected = RawArgs {
            help: false,
            list: true,
            unbundle: true,
            print_commands: true,
            allow_missing_bundles: true,
            check_input_archive: true,
            hip_openmp_compatible: true,
            compress: Some(false),
            verbose: Some(true),
            bundle_align: 4096,
            compression_level: Some(-3),
            compression_window: Some(27),
            max_size: Some(3 << 10),
            file_type: "o".into(),
            input: texts(&["a", "b,c"]),
            inputs: texts(&["d", "e"]),
            output: texts(&["f"]),
            outputs: texts(&["g", ""]),
            targets: texts(&["host-x", "hip-y"]),
            targets_given: true,
            debug_only: texts(&["one", "two"]),
        };
        assert_eq!(raw, expected);
    }

    #[test]
    fn lists_are_split_at_commas_and_keep_empty_elements() {
        let raw = raw(&[b"-type=o", b"-inputs=a,b", b"-inputs", b",c", b"-input=a,b"]);
        assert_eq!(raw.inputs, ["a", "b", "", "c"]);
        assert_eq!(raw.input, ["a,b"]);
    }

    #[test]
    fn numbers_may_have_any_base() {
        let raw = raw(&[b"-type=o", b"-bundle-align=0x10", b"-compression-level", b"-010"]);
        assert_eq!((raw.bundle_align, raw.compression_level), (16, Some(-8)));
    }

    #[test]
    fn empty_values_are_values() {
        let raw = raw(&[b"-type=", b"-inputs=", b"-output", b"", b"-targets="]);
        assert_eq!(raw.file_type, "");
        assert_eq!(raw.inputs, [""]);
        assert_eq!(raw.output, [""]);
        assert_eq!(raw.targets, [""]);
        assert!(raw.targets_given);
    }

    #[test]
    fn values_need_not_be_text() {
        let raw = raw(&[b"-type=o", b"-input=\xff\xfe", b"-targets=\xff,\x80"]);
        assert_eq!(raw.input, [&*sys::os_str(b"\xff\xfe")]);
        assert_eq!(raw.targets, [&*sys::os_str(b"\xff"), &*sys::os_str(b"\x80")]);
    }

    #[test]
    fn the_last_value_counts() {
        let raw = raw(&[b"-type=o", b"-list", b"-list=false", b"-bundle-align=8", b"-bundle-align=2"]);
        assert!(!raw.list);
        assert_eq!(raw.bundle_align, 2);
    }

    #[test]
    fn short_help_waits_for_the_end() {
        assert!(raw(&[b"-h", b"-type=o", b"-list"]).help);
        let (stdout, stderr, status) = exit(&[b"-h"]);
        assert_eq!(stdout, "");
        assert_eq!(
            (stderr.lines().next(), status),
            (Some("foo: for the --type option: must be specified at least once!"), 1)
        );
    }

    #[test]
    fn an_unreadable_response_file_leaves_no_option() {
        let (stdout, stderr, status) = exit(&[b"--help", b"@/"]);
        assert_eq!(stdout, "");
        assert_eq!(stderr, "cannot not open file '/': Is a directory\nfoo: error: no output file specified!\n");
        assert_eq!(status, 1);
        let Parsed::Exit { stderr, status, .. } = parse(packager::TOOL, ["foo", "@/"].map(OsString::from).to_vec())
        else {
            panic!()
        };
        assert_eq!((stderr.as_slice(), status), (&b"cannot not open file '/': Is a directory\n"[..], 1));
    }

    #[test]
    fn no_words_at_all_are_refused_too() {
        let Parsed::Exit { stderr, hint, status, .. } = parse(TOOL, Vec::new()) else { panic!() };
        assert!(stderr.starts_with(b": for the --type option: must be specified at least once!\n"));
        assert!(hint.is_some_and(|hint| hint.starts_with("'clang-offload-bundler help' explains the subcommands: ")));
        assert_eq!(status, 1);
    }
}

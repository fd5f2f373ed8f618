//! From `argv` to what is to be done: response files, LLVM's grammar, then `clap`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use super::grammar::{self, Verdict};
use super::help;
use super::options::{self, Action, HelpStyle};
use super::program::Program;
use super::raw::RawArgs;
use super::response;

/// What a command line asks for.
#[derive(Debug)]
pub(crate) enum Parsed {
    /// The tool's work.
    Run(RawArgs),
    /// Nothing more than these texts and this status.
    Exit {
        /// To print on the standard output.
        stdout: Vec<u8>,
        /// To print on the standard error stream, before the other.
        stderr: Vec<u8>,
        /// The status to end with.
        status: u8,
    },
}

/// What `-h` prints.
const SHORT_HELP: HelpStyle = HelpStyle { by_category: false, hidden: false };

/// Reads a command line, `argv[0]` included.
pub(crate) fn parse(argv: Vec<OsString>) -> Parsed {
    let typed = argv.first().cloned().unwrap_or_default();
    let argv = match response::expand(argv) {
        Ok(argv) => argv,
        Err(message) => {
            // The reference goes on as if no option had been given, and misses the output file.
            let colon = if typed.is_empty() { "" } else { ": " };
            let missing = b"error: no output file specified!\n";
            let parts = [&message, &b"\n"[..], typed.as_bytes(), colon.as_bytes(), missing];
            return refused(parts.concat());
        }
    };
    let called = argv.first().cloned().unwrap_or_default();
    let program = Program::new(&called);
    match grammar::read(&program, argv.get(1..).unwrap_or_default()) {
        Verdict::Settings(settings) => settle(&program, settings),
        Verdict::Act(action, stderr) => {
            let stdout = match action {
                Action::Help(style) => help::text(program.name, style),
                Action::Version => help::version(),
            };
            Parsed::Exit { stdout, stderr, status: 0 }
        }
        Verdict::Refused(stderr) => refused(stderr),
    }
}

/// Hands the options to `clap`.
fn settle(program: &Program<'_>, settings: Vec<OsString>) -> Parsed {
    match options::command().try_get_matches_from(settings) {
        Err(error) => refused([program.name, b": ", error.to_string().as_bytes()].concat()),
        Ok(matches) if matches.get_one("h").copied().unwrap_or(false) => {
            Parsed::Exit { stdout: help::text(program.name, SHORT_HELP), stderr: Vec::new(), status: 0 }
        }
        Ok(matches) => Parsed::Run(RawArgs::new(&matches)),
    }
}

fn refused(stderr: Vec<u8>) -> Parsed {
    Parsed::Exit { stdout: Vec::new(), stderr, status: 1 }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    fn parsed(words: &[&[u8]]) -> Parsed {
        let argv = [&[b"foo".as_slice()], words].concat();
        parse(argv.into_iter().map(|word| OsStr::from_bytes(word).to_owned()).collect())
    }

    fn raw(words: &[&[u8]]) -> RawArgs {
        match parsed(words) {
            Parsed::Run(raw) => raw,
            other => panic!("{other:?}"),
        }
    }

    fn exit(words: &[&[u8]]) -> (String, String, u8) {
        match parsed(words) {
            Parsed::Exit { stdout, stderr, status } => {
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
        assert_eq!(raw.input, [OsStr::from_bytes(b"\xff\xfe")]);
        assert_eq!(raw.targets, [OsStr::from_bytes(b"\xff"), OsStr::from_bytes(b"\x80")]);
    }

    #[test]
    fn the_last_value_counts() {
        let raw = raw(&[b"-type=o", b"-list", b"-list=false", b"-bundle-align=8", b"-bundle-align=2"]);
        assert!(!raw.list);
        assert_eq!(raw.bundle_align, 2);
    }

    #[test]
    fn short_help_waits_for_the_end() {
        let (stdout, stderr, status) = exit(&[b"-h", b"-type=o", b"-list"]);
        assert!(stdout.contains("USAGE: foo [options]\n\nOPTIONS:\n  --###"));
        assert_eq!((stderr.as_str(), status), ("", 0));
        let (stdout, stderr, status) = exit(&[b"-h"]);
        assert_eq!(stdout, "");
        assert_eq!((stderr.as_str(), status), ("foo: for the --type option: must be specified at least once!\n", 1));
    }

    #[test]
    fn an_unreadable_response_file_leaves_no_option() {
        let (stdout, stderr, status) = exit(&[b"--help", b"@/"]);
        assert_eq!(stdout, "");
        assert_eq!(stderr, "cannot not open file '/': Is a directory\nfoo: error: no output file specified!\n");
        assert_eq!(status, 1);
    }

    #[test]
    fn no_words_at_all_are_refused_too() {
        let Parsed::Exit { stderr, status, .. } = parse(Vec::new()) else { panic!() };
        assert_eq!(stderr, b": for the --type option: must be specified at least once!\n");
        assert_eq!(status, 1);
    }
}

//! Parses the command line of a tool that LLVM builds with a table of options (`llvm/Option`), and rewrites its words
//! for `clap`.
//!
//! Follows LLVM 23.1.4's `llvm-objcopy` and the tools that are links to it. An option has one letter after one dash, or
//! a name after two. Letters may be written together. Help has priority over the version, and the version over an
//! error, wherever they are; the first unknown option is the error. Empty words are ignored.
//!
//! Options of our own may have values: after `=`, directly after a letter, or as the next word.

use std::ffi::OsString;

use clap::{Arg, Command};

use super::grammar::{GrammarReader, GrammarResult};
use super::options::{ImmediateAction, find_option, takes_value};
use crate::llvm::cli::program::Program;

/// Reads the words after the program's name.
pub(crate) fn read(command: &Command, program: &Program<'_>, words: &[OsString]) -> GrammarResult {
    let mut table = TableReader {
        reader: GrammarReader::new(command, program),
        command,
        help: None,
        version: None,
        first_unknown: None,
    };
    let mut words = words.iter().map(|word| word.as_encoded_bytes()).filter(|word| !word.is_empty());
    while let Some(word) = words.next() {
        match word {
            [b'-', b'-', name @ ..] => table.read_name(name, &mut words),
            [b'-', letters @ ..] if !letters.is_empty() => table.read_letters(letters, &mut words),
            _ => table.reader.add_positional(word),
        }
    }
    table.into_result(program)
}

/// The state of reading a command line.
struct TableReader<'a> {
    reader: GrammarReader<'a>,
    command: &'a Command,
    help: Option<ImmediateAction>,
    version: Option<ImmediateAction>,
    /// The first unknown option, with its dashes.
    first_unknown: Option<Vec<u8>>,
}

impl<'a> TableReader<'a> {
    /// Reads what follows two dashes: a name, and a value after `=`.
    fn read_name<'w>(&mut self, word: &'w [u8], words: &mut impl Iterator<Item = &'w [u8]>) {
        let mut halves = word.splitn(2, |&byte| byte == b'=');
        let (name, value) = (halves.next().unwrap_or_default(), halves.next());
        let is_letter = name.len() == 1;
        match find_option(self.command, name) {
            Some(arg) if !is_letter && (value.is_none() || takes_value(arg)) => self.apply(arg, value, words),
            _ => self.note_unknown([b"--", word].concat()),
        }
    }

    /// Reads what follows one dash: a letter with a value, or letters without. As in LLVM, a dash after a letter makes
    /// the rest of the word a name, as two dashes do.
    fn read_letters<'w>(&mut self, mut letters: &'w [u8], words: &mut impl Iterator<Item = &'w [u8]>) {
        let mut is_first = true;
        while let Some((letter, rest)) = letters.split_at_checked(1) {
            if letter == b"-" {
                return self.read_name(rest, words);
            }
            match find_option(self.command, letter) {
                Some(arg) if takes_value(arg) && is_first => {
                    let value = if rest.is_empty() { None } else { Some(rest.strip_prefix(b"=").unwrap_or(rest)) };
                    return self.apply(arg, value, words);
                }
                Some(_) if rest.starts_with(b"=") => return self.note_unknown([b"-", letters].concat()),
                Some(arg) if !takes_value(arg) => self.apply(arg, None, words),
                _ => self.note_unknown([b"-", letter].concat()),
            }
            (letters, is_first) = (rest, false);
        }
    }

    /// Applies an option, and keeps help or version for the end of the command line.
    fn apply<'w>(&mut self, arg: &'a Arg, value: Option<&'w [u8]>, words: &mut impl Iterator<Item = &'w [u8]>) {
        match self.reader.apply(arg, value, words) {
            Some(help @ ImmediateAction::Help(_)) => self.help = Some(help),
            Some(ImmediateAction::Version) => self.version = Some(ImmediateAction::Version),
            None => {}
        }
    }

    fn note_unknown(&mut self, option: Vec<u8>) {
        self.first_unknown.get_or_insert(option);
    }

    /// Returns help or version if either is asked for, otherwise the first unknown option as the error, and without one
    /// the result of the words.
    fn into_result(self, program: &Program<'_>) -> GrammarResult {
        if let Some(action) = self.help.or(self.version) {
            return GrammarResult::Immediate(action, Vec::new());
        }
        match self.first_unknown {
            Some(option) => {
                let error = [program.typed, b": error: unknown argument '", &option, b"'\n"];
                GrammarResult::Refused(error.concat())
            }
            None => self.reader.into_result(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;
    use crate::llvm::cli::bundle_entry::TOOL;

    fn result(words: &[&str]) -> GrammarResult {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        read(&TOOL.command(), &Program::new(OsStr::new("/bin/foo")), &words)
    }

    #[test]
    fn the_first_unknown_option_is_the_error() {
        for (words, unknown) in [
            (&["--error"][..], "--error"),
            (&["a", "-xy", "--error"], "-x"),
            (&["--", "-o"], "--"),
            (&["-V=1"], "-V=1"),
            (&["a", "-o=b", "-x--V"], "-x"),
            (&["-o=b", "-eo"], "-e"),
            (&["--help=1"], "--help=1"),
            (&["--o=1"], "--o=1"),
            (&["-ob", "-max-size=3"], "-m"),
        ] {
            let expected = format!("/bin/foo: error: unknown argument '{unknown}'\n");
            assert_eq!(result(words), GrammarResult::Refused(expected.into_bytes()), "{words:?}");
        }
    }

    #[test]
    fn help_wins_over_the_version_and_both_over_an_error() {
        for (words, is_help) in [
            (&["-x-version"][..], false),
            (&["-xhV"], true),
            (&["--version", "--error", "--help"], true),
            (&["--error", "-V", "a"], false),
        ] {
            let GrammarResult::Immediate(action, _) = result(words) else { panic!("{words:?}") };
            assert_eq!(matches!(action, ImmediateAction::Help(_)), is_help, "{words:?}");
        }
    }

    #[test]
    fn values_follow_in_every_way() {
        for words in [&["-ob"][..], &["-o=b"], &["-o", "b"], &["", "-o", "", "b"]] {
            let expected = GrammarResult::Words(["-o=b", "--", "-"].map(OsString::from).to_vec());
            assert_eq!(result(&[words, &["-"]].concat()), expected, "{words:?}");
        }
        for words in [&["--max-size=3k"][..], &["--max-size", "3k"]] {
            assert_eq!(result(words), GrammarResult::Words(vec!["--max-size=3072".into()]), "{words:?}");
        }
        let expected = b"foo: for the -o option: requires a value!\n".to_vec();
        assert_eq!(result(&["-o"]), GrammarResult::Refused(expected));
    }
}

//! Parses LLVM's option grammar, and rewrites the words of a command line for `clap`.
//!
//! Follows LLVM 22.1.8. An option has one dash or two. Its value follows `=` or, if required, is the next word,
//! whatever that looks like. One-letter flags can be combined (`-hh`), and `--` ends the options. One word that is not
//! an option is allowed if the tool uses it. All errors are reported, in order, before the command line is rejected.
//! Options such as `--help` take effect where they appear.
//!
//! The rewritten words are `--name=value`, with the value as [`options::rewrite_value`] spells it, and after `--` the
//! words that are not options.

use std::ffi::OsString;

use crate::base::io::sys;
use clap::{Arg, Command};

use super::options::{self, ImmediateAction, ValueKind, find_option, requires_value, spelled};
use crate::llvm::cli::program::Program;
use crate::llvm::cli::suggest::nearest;

/// The result of reading a command line by LLVM's grammar.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum GrammarResult {
    /// The words of a valid command line, in the form that `clap` parses.
    Words(Vec<OsString>),
    /// An option that takes effect at once, such as `--help`, and the complaints about the words before it.
    Immediate(ImmediateAction, Vec<u8>),
    /// The complaints about an invalid command line.
    Refused(Vec<u8>),
}

/// Reads the words after the program's name, up to an option that takes effect at once.
pub(crate) fn read(command: &Command, program: &Program<'_>, words: &[OsString]) -> GrammarResult {
    let mut reader = GrammarReader::new(command, program);
    let mut words = words.iter().map(|word| word.as_encoded_bytes());
    let mut options_ended = false;
    while let Some(word) = words.next() {
        let name = if options_ended { None } else { option_name(word) };
        let Some(name) = name else {
            reader.add_positional(word);
            continue;
        };
        // For `option_name`, this word is an option with an empty name.
        if word == b"--" {
            options_ended = true;
            continue;
        }
        match reader.recognise(name) {
            Ok((arg, value)) => {
                if let Some(action) = reader.apply(arg, value, &mut words) {
                    return GrammarResult::Immediate(action, reader.complaints);
                }
            }
            Err(misspelt) => reader.complain_unknown(word, misspelt),
        }
    }
    reader.into_result()
}

/// Returns the word without its one or two dashes, or `None` for a word that is not an option. A dash alone is not an
/// option, but a file: standard input or output.
fn option_name(word: &[u8]) -> Option<&[u8]> {
    match word {
        b"-" => None,
        [b'-', b'-', name @ ..] | [b'-', name @ ..] => Some(name),
        _ => None,
    }
}

/// The state of reading a command line.
pub(super) struct GrammarReader<'a> {
    command: &'a Command,
    program: &'a Program<'a>,
    complaints: Vec<u8>,
    /// The options that were read, rewritten for `clap`.
    words: Vec<OsString>,
    /// The required options that have not been found yet.
    missing_required: Vec<&'a Arg>,
    /// The words that are not options.
    positionals: Vec<OsString>,
}

impl<'a> GrammarReader<'a> {
    pub(super) fn new(command: &'a Command, program: &'a Program<'a>) -> Self {
        let missing_required = command.get_arguments().filter(|arg| arg.is_required_set()).collect();
        Self { command, program, complaints: Vec::new(), words: Vec::new(), missing_required, positionals: Vec::new() }
    }

    /// Finds the option that a word (without its dashes) names, and the value after `=`.
    ///
    /// A word that names no option may be a group of one-letter options, such as `hh`. All of them except the last are
    /// added at once, and the last one is returned.
    ///
    /// The error is the part of the word that names no option. As in LLVM, a letter that requires a value, but is not
    /// the last of its group, is reported for this reason and as unknown too.
    fn recognise<'w>(&mut self, word: &'w [u8]) -> Result<(&'a Arg, Option<&'w [u8]>), &'w [u8]> {
        let mut halves = word.splitn(2, |&byte| byte == b'=');
        let (name, value) = (halves.next().unwrap_or_default(), halves.next());
        if let Some(arg) = find_option(self.command, name) {
            return Ok((arg, value));
        }
        let mut rest = word;
        while let Some((letter, tail)) = rest.split_at_checked(1)
            && let Some(arg) = find_option(self.command, letter)
        {
            if tail.is_empty() {
                return Ok((arg, None));
            }
            if let Some(value) = tail.strip_prefix(b"=") {
                return Ok((arg, Some(value)));
            }
            if requires_value(arg) {
                self.complain(arg, &[b"may not occur within a group!"]);
                return Err(letter);
            }
            self.add_without_value(arg);
            rest = tail;
        }
        Err(rest)
    }

    /// Applies an option. An option that requires a value, and has none after `=`, consumes the next word. Returns the
    /// action of an option that takes effect at once, and `None` for any other.
    pub(super) fn apply<'w>(
        &mut self,
        arg: &'a Arg,
        value: Option<&'w [u8]>,
        words: &mut impl Iterator<Item = &'w [u8]>,
    ) -> Option<ImmediateAction> {
        match (ValueKind::of(arg), value) {
            (ValueKind::Immediate(action), None) => return Some(action),
            (ValueKind::Immediate(_), Some(value)) => {
                self.complain(arg, &[b"does not allow a value! '", value, b"' specified."]);
            }
            (_, Some(value)) => self.add_with_value(arg, value),
            (_, None) if requires_value(arg) => match words.next() {
                Some(word) => self.add_with_value(arg, word),
                None => self.complain(arg, &[b"requires a value!"]),
            },
            (_, None) => self.add_without_value(arg),
        }
        None
    }

    /// Adds an option with the typed value, or complains if the value is not valid. A required option is found either
    /// way, so that only one complaint is about it.
    fn add_with_value(&mut self, arg: &Arg, typed: &[u8]) {
        self.missing_required.retain(|missing| missing.get_id() != arg.get_id());
        match options::rewrite_value(arg, typed) {
            Ok(value) => self.words.push(sys::os_string([spelled(arg).as_bytes(), b"=", &value].concat())),
            Err(refusal) => self.complain(arg, &[b"'", typed, b"' ", refusal.as_bytes()]),
        }
    }

    /// Adds a boolean without its value. An option that takes effect at once comes here only from the middle of a group
    /// of letters, such as `h` in `-hV`, and has no effect there; anywhere else, `apply` returns its action.
    fn add_without_value(&mut self, arg: &Arg) {
        if ValueKind::of(arg) == ValueKind::Flag {
            self.add_with_value(arg, b"");
        }
    }

    /// Adds LLVM's complaint about an option. The parts of `message` are joined.
    fn complain(&mut self, arg: &Arg, message: &[&[u8]]) {
        let option = [self.program.name, b": for the ", spelled(arg).as_bytes(), b" option: "].concat();
        self.complaints.extend([option, message.concat(), b"\n".to_vec()].concat());
    }

    /// Accepts a word that is not an option, or rejects it if the tool does not use such words.
    pub(super) fn add_positional(&mut self, word: &[u8]) {
        if self.command.get_positionals().next().is_some() {
            self.positionals.push(sys::os_string(word.to_vec()));
        } else {
            // The word is not meant as an option, so none is suggested.
            self.complain_unknown(word, b"");
        }
    }

    /// Reports an unknown word, and suggests an option for the part `misspelt`, unless that is empty.
    fn complain_unknown(&mut self, word: &[u8], misspelt: &[u8]) {
        let Program { typed, name } = *self.program;
        let unknown = [name, b": Unknown command line argument '", word, b"'.  Try: '", typed, b" --help'\n"];
        self.complaints.extend(unknown.concat());
        if let Some(spelling) = nearest(self.command, misspelt) {
            self.complaints.extend([name, b": Did you mean '", &spelling, b"'?\n"].concat());
        }
    }

    /// Complains about too many words and about missing options. Then returns the complaints or, without any, the
    /// rewritten words.
    pub(super) fn into_result(mut self) -> GrammarResult {
        if self.positionals.len() > most_positionals(self.command) {
            let Program { typed, name } = *self.program;
            // A tool allows no positional words, 1, or any number. A tool that allows none keeps none (see
            // `add_positional`), so the maximum is 1 here.
            let text = b": Too many positional arguments specified!\nCan specify at most 1 positional arguments: See: ";
            self.complaints.extend([name, text, typed, b" --help\n"].concat());
        }
        for arg in std::mem::take(&mut self.missing_required) {
            self.complain(arg, &[b"must be specified at least once!"]);
        }
        if !self.complaints.is_empty() {
            return GrammarResult::Refused(self.complaints);
        }
        if !self.positionals.is_empty() {
            // Otherwise `clap` would read a word that begins with a dash as an option.
            self.words.push("--".into());
            self.words.append(&mut self.positionals);
        }
        GrammarResult::Words(self.words)
    }
}

/// The maximum number of words that are not options.
fn most_positionals(command: &Command) -> usize {
    let Some(positional) = command.get_positionals().next() else { return 0 };
    match positional.get_num_args() {
        Some(count) => count.max_values(),
        None => 1,
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;
    use crate::llvm::cli::TOOLS;
    use crate::llvm::cli::options::Tool;
    use crate::llvm::cli::{bundler, packager};

    fn result_of(tool: &Tool, words: &[&str]) -> GrammarResult {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        read(&tool.command(), &Program::new(OsStr::new("/bin/foo")), &words)
    }

    fn result(words: &[&str]) -> GrammarResult {
        result_of(bundler::TOOL, words)
    }

    fn words_of(tool: &Tool, words: &[&str]) -> Vec<String> {
        match result_of(tool, words) {
            GrammarResult::Words(words) => words.into_iter().map(|word| word.into_string().unwrap()).collect(),
            other => panic!("{words:?} gave {other:?}"),
        }
    }

    fn packager_words(words: &[&str]) -> Vec<String> {
        words_of(packager::TOOL, words)
    }

    fn packager_complaints(words: &[&str]) -> String {
        match result_of(packager::TOOL, words) {
            GrammarResult::Refused(complaints) => String::from_utf8(complaints).unwrap(),
            other => panic!("{words:?} gave {other:?}"),
        }
    }

    /// The rewritten words of a valid command line, without the type that each has.
    fn rewritten(words: &[&str]) -> Vec<String> {
        words_of(bundler::TOOL, &[&["--type=t"], words].concat()).split_off(1)
    }

    /// The complaints about an invalid command line, without the program's name.
    fn complaints(words: &[&str]) -> Vec<String> {
        let words = [words, &["--type=t"]].concat();
        match result(&words) {
            GrammarResult::Refused(complaints) => {
                let text = String::from_utf8(complaints).unwrap();
                text.lines().map(|line| line.strip_prefix("foo: ").unwrap().to_owned()).collect()
            }
            other => panic!("{words:?} gave {other:?}"),
        }
    }

    #[test]
    fn one_dash_or_two_and_either_place_for_the_value() {
        for words in [&["-input=a"][..], &["--input=a"], &["-input", "a"], &["--input", "a"]] {
            assert_eq!(rewritten(words), ["--input=a"]);
        }
        assert_eq!(rewritten(&["-input", "-list", "-input", "--"]), ["--input=-list", "--input=--"]);
        assert_eq!(rewritten(&["-input=a=b"]), ["--input=a=b"]);
    }

    #[test]
    fn flags_do_not_take_the_next_word() {
        assert_eq!(rewritten(&["-list", "-list=0", "-list="]), ["--list=true", "--list=false", "--list=true"]);
        assert_eq!(complaints(&["-list", "0"]), ["Unknown command line argument '0'.  Try: '/bin/foo --help'"]);
    }

    #[test]
    fn letters_may_be_written_together() {
        assert_eq!(rewritten(&["-hh=0"]), ["-h=true", "-h=false"]);
        assert_eq!(rewritten(&["--h"]), ["-h=true"]);
        assert_eq!(
            complaints(&["-hlp"]),
            ["Unknown command line argument '-hlp'.  Try: '/bin/foo --help'", "Did you mean '--help'?"]
        );
        assert_eq!(
            complaints(&["-hh=2"]),
            ["for the -h option: '2' is invalid value for boolean argument! Try 0 or 1"]
        );
    }

    #[test]
    fn a_letter_with_a_value_closes_a_group() {
        for words in [&["-o=x"][..], &["--o", "x"]] {
            assert_eq!(packager_words(words), ["-o=x"]);
        }
        for words in [&["-ho=x"][..], &["-ho", "x"]] {
            assert_eq!(packager_words(words), ["-h=true", "-o=x"]);
        }
        for word in ["-ox", "-hox"] {
            let expected = format!(
                "foo: for the -o option: may not occur within a group!\n\
                 foo: Unknown command line argument '{word}'.  Try: '/bin/foo --help'\n\
                 foo: Did you mean '-o'?\n"
            );
            assert_eq!(packager_complaints(&[word]), expected);
        }
    }

    #[test]
    fn one_word_may_stand_besides_the_options() {
        for word in ["a", "", "-", "list"] {
            assert_eq!(packager_words(&[word, "-o="]), ["-o=", "--", word]);
        }
        assert_eq!(packager_words(&["--", "-o"]), ["--", "-o"]);
        assert_eq!(
            packager_complaints(&["a", "-hlp", "b", "c"]),
            "foo: Unknown command line argument '-hlp'.  Try: '/bin/foo --help'\n\
             foo: Did you mean '--help'?\n\
             foo: Too many positional arguments specified!\n\
             Can specify at most 1 positional arguments: See: /bin/foo --help\n"
        );
    }

    #[test]
    fn everything_wrong_is_said_in_order() {
        assert_eq!(
            complaints(&["-list=x", "-bundle-align=-1", "-compression-level=", "--help=", "-typ=o"]),
            [
                "for the --list option: 'x' is invalid value for boolean argument! Try 0 or 1",
                "for the --bundle-align option: '-1' value invalid for uint argument!",
                "for the --compression-level option: '' value invalid for integer argument!",
                "for the --help option: does not allow a value! '' specified.",
                "Unknown command line argument '-typ=o'.  Try: '/bin/foo --help'",
                "Did you mean '--type=o'?",
            ]
        );
    }

    #[test]
    fn the_type_must_be_given_and_have_a_value() {
        let GrammarResult::Refused(complaints) = result(&["-type"]) else { panic!() };
        assert_eq!(
            String::from_utf8(complaints).unwrap(),
            "foo: for the --type option: requires a value!\n\
             foo: for the --type option: must be specified at least once!\n"
        );
        assert!(matches!(result(&["-type="]), GrammarResult::Words(_)));
    }

    #[test]
    fn words_that_are_no_options_get_no_suggestion() {
        for word in ["", "-", "list", "@missing"] {
            assert_eq!(complaints(&[word]).len(), 1, "{word}");
        }
        let GrammarResult::Refused(complaints) = result(&["-type=o", "--", "-lst", "--"]) else { panic!() };
        assert_eq!(
            String::from_utf8(complaints).unwrap(),
            "foo: Unknown command line argument '-lst'.  Try: '/bin/foo --help'\n\
             foo: Unknown command line argument '--'.  Try: '/bin/foo --help'\n"
        );
    }

    #[test]
    fn actions_come_at_once_with_the_complaints_so_far() {
        let GrammarResult::Immediate(action, complaints) = result(&["-", "--version", "-nonsense"]) else { panic!() };
        assert_eq!(action, ImmediateAction::Version);
        assert_eq!(complaints, b"foo: Unknown command line argument '-'.  Try: '/bin/foo --help'\n");
    }

    /// Random words: options and values that the grammar knows, and pieces of them.
    fn random_words(command: &Command, random: &mut dyn FnMut(usize) -> usize) -> Vec<OsString> {
        const VALUES: [&[u8]; 14] =
            [b"", b"0", b"1", b"true", b"-1", b"--", b"-x", b"a,b", b",", b"zstd", b"2", b"0x10", b"3K", b"\xff,=\xfe"];
        let options: Vec<String> = command.get_opts().map(options::name_of).collect();
        let mut words = Vec::new();
        for _ in 0..random(7) {
            let option = options[random(options.len())].as_bytes();
            let value = VALUES[random(VALUES.len())];
            let dashes: &[u8] = if random(2) == 0 { b"-" } else { b"--" };
            match random(8) {
                0 => words.push(value.to_vec()),
                1 => words.push([dashes, &option[..random(option.len() + 1)]].concat()),
                2 => words.push([dashes, option].concat()),
                3 => words.extend([[dashes, option].concat(), value.to_vec()]),
                _ => words.push([dashes, option, b"=", value].concat()),
            }
        }
        words.into_iter().map(sys::os_string).collect()
    }

    #[test]
    fn clap_parses_what_the_grammar_accepts() {
        for tool in TOOLS {
            let (mut state, mut accepted) = (1_u64, 0);
            let mut random = |below: usize| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                usize::try_from(state >> 33).unwrap() % below
            };
            for _ in 0..600 {
                let mut command = tool.command();
                let words = random_words(&command, &mut random);
                let required = OsString::from("-type=o");
                let words = if tool.serves_every_name() { [&[required], words.as_slice()].concat() } else { words };
                if let GrammarResult::Words(rewritten) = read(&command, &Program::new(OsStr::new("foo")), &words) {
                    let parsed = command.try_get_matches_from_mut(&rewritten);
                    assert!(parsed.is_ok(), "{words:?} {rewritten:?} {}", parsed.unwrap_err());
                    accepted += 1;
                }
            }
            assert!(accepted > 60, "{accepted}");
        }
    }
}

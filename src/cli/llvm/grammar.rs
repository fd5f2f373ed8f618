//! Parses LLVM's option grammar: from the words of a command line to options with their values.
//!
//! Follows LLVM 22.1.8. An option has one dash or two. Its value follows `=` or, if required, is the next word,
//! whatever that looks like. One-letter flags can be combined (`-hh`), and `--` ends the options. One word that is not
//! an option is allowed if the tool uses it. All errors are reported, in order, before the command line is rejected.
//! Options such as `--help` take effect where they appear.

use std::ffi::OsString;

use super::options::{Action, Row, Tool, ValueKind};
use super::settings::Settings;
use crate::cli::program::Program;
use crate::cli::suggest::nearest;

/// The result of parsing a command line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// A valid command line.
    Settings(Settings),
    /// An option that takes effect at once, and the complaints before it.
    Act(Action, Vec<u8>),
    /// The complaints about an invalid command line.
    Refused(Vec<u8>),
}

/// Parses the words after the program's name.
pub(crate) fn read(tool: &Tool, program: &Program<'_>, words: &[OsString]) -> Verdict {
    let missing = tool.rows.iter().filter(|row| row.required).collect();
    let mut reader =
        Reader { tool, program, complaints: Vec::new(), settings: Settings::default(), missing, positionals: 0 };
    let mut words = words.iter().map(|word| word.as_encoded_bytes());
    let mut options_ended = false;
    while let Some(word) = words.next() {
        let Some(name) = option_name(word).filter(|_| !options_ended) else {
            reader.positional(word);
            continue;
        };
        if word == b"--" {
            options_ended = true;
            continue;
        }
        match reader.recognise(name) {
            Ok((row, value)) => {
                if let Some(action) = reader.apply(row, value, &mut words) {
                    return Verdict::Act(action, reader.complaints);
                }
            }
            Err(remainder) => reader.unknown(word, remainder),
        }
    }
    reader.finish()
}

/// The word without its one or two dashes; none for a word that is not an option.
fn option_name(word: &[u8]) -> Option<&[u8]> {
    let name = word.strip_prefix(b"-").filter(|name| !name.is_empty())?;
    Some(name.strip_prefix(b"-").unwrap_or(name))
}

/// The state of parsing.
struct Reader<'a> {
    tool: &'a Tool,
    program: &'a Program<'a>,
    complaints: Vec<u8>,
    settings: Settings,
    /// The required options that have not been found yet.
    missing: Vec<&'static Row>,
    /// The number of words that are not options.
    positionals: usize,
}

impl Reader<'_> {
    /// The option that a word (without its dashes) names, and the value after `=`. The error is the part of the word
    /// that names no option.
    fn recognise<'w>(&mut self, word: &'w [u8]) -> Result<(&'static Row, Option<&'w [u8]>), &'w [u8]> {
        let (name, value) = match word.iter().position(|&byte| byte == b'=').and_then(|at| word.split_at_checked(at)) {
            Some((name, value)) => (name, value.strip_prefix(b"=")),
            None => (word, None),
        };
        if let Some(row) = self.tool.find(name) {
            return Ok((row, value));
        }
        let mut rest = word;
        while let Some((letter, tail)) = rest.split_at_checked(1)
            && let Some(row) = self.tool.find(letter)
        {
            if tail.is_empty() {
                return Ok((row, None));
            }
            if let Some(value) = tail.strip_prefix(b"=") {
                return Ok((row, Some(value)));
            }
            if row.requires_value() {
                self.complain(row, &[b"may not occur within a group!"]);
                return Err(letter);
            }
            self.settings.add(row.name, b"");
            rest = tail;
        }
        Err(rest)
    }

    /// Applies an option, which may consume the next word. Returns its action if it takes effect at once.
    fn apply<'w>(
        &mut self,
        row: &'static Row,
        value: Option<&'w [u8]>,
        words: &mut impl Iterator<Item = &'w [u8]>,
    ) -> Option<Action> {
        match (row.kind, value) {
            (ValueKind::Act(action), None) => return Some(action),
            (ValueKind::Act(_), Some(value)) => {
                self.complain(row, &[b"does not allow a value! '", value, b"' specified."]);
            }
            (_, Some(value)) => self.check(row, value),
            (ValueKind::Flag, None) => self.settings.add(row.name, b""),
            (ValueKind::Choice { bare: Some(word), .. }, None) => self.settings.add(row.name, word.as_bytes()),
            (_, None) => match words.next() {
                Some(word) => self.check(row, word),
                None => self.complain(row, &[b"requires a value!"]),
            },
        }
        None
    }

    /// Sets an option to the typed value, if that is valid.
    fn check(&mut self, row: &'static Row, value: &[u8]) {
        self.missing.retain(|missing| missing.name != row.name);
        match row.kind.refusal(value) {
            None => self.settings.add(row.name, value),
            Some(refusal) => self.complain(row, &[b"'", value, b"' ", refusal.as_bytes()]),
        }
    }

    fn complain(&mut self, row: &Row, message: &[&[u8]]) {
        let dashes: &[u8] = if row.name.len() == 1 { b"-" } else { b"--" };
        let option = [self.program.name, b": for the ", dashes, row.name.as_bytes(), b" option: "].concat();
        self.complaints.extend([option, message.concat(), b"\n".to_vec()].concat());
    }

    /// Accepts or rejects a word that is not an option.
    fn positional(&mut self, word: &[u8]) {
        let Some(positional) = &self.tool.positional else { return self.unknown(word, b"") };
        self.positionals += 1;
        self.settings.add(positional.id, word);
    }

    /// Reports an unknown word, and suggests an option for the part `misspelt`.
    fn unknown(&mut self, word: &[u8], misspelt: &[u8]) {
        let Program { typed, name } = *self.program;
        let unknown = [name, b": Unknown command line argument '", word, b"'.  Try: '", typed, b" --help'\n"];
        self.complaints.extend(unknown.concat());
        if let Some(spelling) = nearest(self.tool.rows, misspelt) {
            self.complaints.extend([name, b": Did you mean '", &spelling, b"'?\n"].concat());
        }
    }

    fn finish(mut self) -> Verdict {
        if self.tool.positional.as_ref().is_some_and(|words| self.positionals > words.most) {
            let Program { typed, name } = *self.program;
            let text = b": Too many positional arguments specified!\nCan specify at most 1 positional arguments: See: ";
            self.complaints.extend([name, text, typed, b" --help\n"].concat());
        }
        for row in std::mem::take(&mut self.missing) {
            self.complain(row, &[b"must be specified at least once!"]);
        }
        if self.complaints.is_empty() { Verdict::Settings(self.settings) } else { Verdict::Refused(self.complaints) }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;
    use crate::cli::llvm::{bundler, packager};

    fn verdict_of(tool: &Tool, words: &[&str]) -> Verdict {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        read(tool, &Program::new(OsStr::new("/bin/foo")), &words)
    }

    fn verdict(words: &[&str]) -> Verdict {
        verdict_of(bundler::TOOL, words)
    }

    fn settings_of(tool: &Tool, words: &[&str]) -> Vec<String> {
        match verdict_of(tool, words) {
            Verdict::Settings(settings) => settings.words(),
            other => panic!("{words:?} gave {other:?}"),
        }
    }

    fn packager_settings(words: &[&str]) -> Vec<String> {
        settings_of(packager::TOOL, words)
    }

    fn packager_complaints(words: &[&str]) -> String {
        match verdict_of(packager::TOOL, words) {
            Verdict::Refused(complaints) => String::from_utf8(complaints).unwrap(),
            other => panic!("{words:?} gave {other:?}"),
        }
    }

    /// The settings of a valid command line, without the type that every one has.
    fn settings(words: &[&str]) -> Vec<String> {
        settings_of(bundler::TOOL, &[&["--type=t"], words].concat()).split_off(1)
    }

    /// The complaints about an invalid command line, without the program's name.
    fn complaints(words: &[&str]) -> Vec<String> {
        let words = [words, &["--type=t"]].concat();
        match verdict(&words) {
            Verdict::Refused(complaints) => {
                let text = String::from_utf8(complaints).unwrap();
                text.lines().map(|line| line.strip_prefix("foo: ").unwrap().to_owned()).collect()
            }
            other => panic!("{words:?} gave {other:?}"),
        }
    }

    #[test]
    fn one_dash_or_two_and_either_place_for_the_value() {
        for words in [&["-input=a"][..], &["--input=a"], &["-input", "a"], &["--input", "a"]] {
            assert_eq!(settings(words), ["--input=a"]);
        }
        assert_eq!(settings(&["-input", "-list", "-input", "--"]), ["--input=-list", "--input=--"]);
        assert_eq!(settings(&["-input=a=b"]), ["--input=a=b"]);
    }

    #[test]
    fn flags_do_not_take_the_next_word() {
        assert_eq!(settings(&["-list", "-list=0", "-list="]), ["--list=", "--list=0", "--list="]);
        assert_eq!(complaints(&["-list", "0"]), ["Unknown command line argument '0'.  Try: '/bin/foo --help'"]);
    }

    #[test]
    fn letters_may_be_written_together() {
        assert_eq!(settings(&["-hh=0"]), ["--h=", "--h=0"]);
        assert_eq!(settings(&["--h"]), ["--h="]);
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
            assert_eq!(packager_settings(words), ["--o=x"]);
        }
        for words in [&["-ho=x"][..], &["-ho", "x"]] {
            assert_eq!(packager_settings(words), ["--h=", "--o=x"]);
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
            assert_eq!(packager_settings(&[word, "-o="]), [format!("--input={word}"), "--o=".to_owned()]);
        }
        assert_eq!(packager_settings(&["--", "-o"]), ["--input=-o"]);
        assert_eq!(
            packager_complaints(&["a", "-hlp", "b", "c"]),
            "foo: Unknown command line argument '-hlp'.  Try: '/bin/foo --help'\n\
             foo: Did you mean '--help'?\n\
             foo: Too many positional arguments specified!\n\
             Can specify at most 1 positional arguments: See: /bin/foo --help\n"
        );
    }

    #[test]
    fn choices_are_one_of_their_words() {
        assert_eq!(packager_settings(&["--compress", "--compress=zlib"]), ["--compress=", "--compress=zlib"]);
        assert_eq!(packager_settings(&["--format-version", "2"]), ["--format-version=2"]);
        assert_eq!(
            packager_complaints(&["--compress=", "--format-version=4", "--format-version"]),
            "foo: for the --compress option: '' is invalid value! Try zstd or zlib\n\
             foo: for the --format-version option: '4' is invalid value! Try 1, 2 or 3\n\
             foo: for the --format-version option: requires a value!\n"
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
        let Verdict::Refused(complaints) = verdict(&["-type"]) else { panic!() };
        assert_eq!(
            String::from_utf8(complaints).unwrap(),
            "foo: for the --type option: requires a value!\n\
             foo: for the --type option: must be specified at least once!\n"
        );
        assert!(matches!(verdict(&["-type="]), Verdict::Settings(_)));
    }

    #[test]
    fn words_that_are_no_options_get_no_suggestion() {
        for word in ["", "-", "list", "@missing"] {
            assert_eq!(complaints(&[word]).len(), 1, "{word}");
        }
        let Verdict::Refused(complaints) = verdict(&["-type=o", "--", "-lst", "--"]) else { panic!() };
        assert_eq!(
            String::from_utf8(complaints).unwrap(),
            "foo: Unknown command line argument '-lst'.  Try: '/bin/foo --help'\n\
             foo: Unknown command line argument '--'.  Try: '/bin/foo --help'\n"
        );
    }

    #[test]
    fn actions_come_at_once_with_the_complaints_so_far() {
        let Verdict::Act(action, complaints) = verdict(&["-", "--version", "-nonsense"]) else { panic!() };
        assert_eq!(action, Action::Version);
        assert_eq!(complaints, b"foo: Unknown command line argument '-'.  Try: '/bin/foo --help'\n");
    }
}

//! LLVM's option grammar: from the words of a command line to options with their values.
//!
//! Follows LLVM 22.1.8. One dash or two; a value after `=` or, where one is required, in the next
//! word whatever that looks like; one-letter flags that may be written together (`-hh`); `--` ends
//! the options. All that is wrong is complained of, in order, before the command line is refused;
//! options such as `--help` act where they stand.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use super::options::{Action, Kind, ROWS, Row, find};
use super::program::Program;
use super::suggest::nearest;
use super::values::{boolean, signed, unsigned};

/// What a command line comes to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing is wrong: every option as one word of the form `--name=value`.
    Settings(Vec<OsString>),
    /// An option that acts at once, and the complaints before it.
    Act(Action, Vec<u8>),
    /// The complaints.
    Refused(Vec<u8>),
}

/// Reads the words after the program's name.
pub(super) fn read(program: &Program<'_>, words: &[OsString]) -> Verdict {
    let mut reader = Reader { program, complaints: Vec::new(), settings: Vec::new(), missing: required() };
    let mut words = words.iter().map(|word| word.as_bytes());
    let mut options_ended = false;
    while let Some(word) = words.next() {
        let Some(name) = option_name(word).filter(|_| !options_ended) else {
            reader.unknown(word, b"");
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

/// The options no command line may lack.
fn required() -> Vec<&'static Row> {
    ROWS.iter().filter(|row| row.required).collect()
}

/// The word without its dash or two; none for a word that is no option.
fn option_name(word: &[u8]) -> Option<&[u8]> {
    let name = word.strip_prefix(b"-").filter(|name| !name.is_empty())?;
    Some(name.strip_prefix(b"-").unwrap_or(name))
}

/// What has been read so far.
struct Reader<'a> {
    program: &'a Program<'a>,
    complaints: Vec<u8>,
    settings: Vec<OsString>,
    missing: Vec<&'static Row>,
}

impl Reader<'_> {
    /// The option a word (its dashes taken off) stands for and the value after `=`, or else the
    /// part of the word in which there is no option.
    fn recognise<'w>(&mut self, word: &'w [u8]) -> Result<(&'static Row, Option<&'w [u8]>), &'w [u8]> {
        let (name, value) = match word.iter().position(|&byte| byte == b'=').and_then(|at| word.split_at_checked(at)) {
            Some((name, value)) => (name, value.strip_prefix(b"=")),
            None => (word, None),
        };
        if let Some(row) = find(name) {
            return Ok((row, value));
        }
        let mut rest = word;
        while let Some((letter, tail)) = rest.split_at_checked(1)
            && let Some(row) = find(letter)
        {
            if tail.is_empty() {
                return Ok((row, None));
            }
            if let Some(value) = tail.strip_prefix(b"=") {
                return Ok((row, Some(value)));
            }
            self.set(row, b"true");
            rest = tail;
        }
        Err(rest)
    }

    /// Takes up an option, which may use the next word; returns what it does at once, if it does.
    fn apply<'w>(
        &mut self,
        row: &'static Row,
        value: Option<&'w [u8]>,
        words: &mut impl Iterator<Item = &'w [u8]>,
    ) -> Option<Action> {
        match (row.kind, value) {
            (Kind::Act(action), None) => return Some(action),
            (Kind::Act(_), Some(value)) => {
                self.complain(row, &[b"does not allow a value! '", value, b"' specified."]);
            }
            (Kind::Flag, value) => self.convert(row, value.unwrap_or_default()),
            (_, Some(value)) => self.convert(row, value),
            (_, None) => match words.next() {
                Some(word) => self.convert(row, word),
                None => self.complain(row, &[b"requires a value!"]),
            },
        }
        None
    }

    /// Sets an option to the value typed, if it is one.
    fn convert(&mut self, row: &'static Row, value: &[u8]) {
        self.missing.retain(|missing| missing.name != row.name);
        let (converted, invalid): (Option<String>, &[u8]) = match row.kind {
            Kind::Flag => {
                (boolean(value).map(|value| value.to_string()), b"' is invalid value for boolean argument! Try 0 or 1")
            }
            Kind::Uint => (unsigned(value).map(|value| value.to_string()), b"' value invalid for uint argument!"),
            Kind::Int => (signed(value).map(|value| value.to_string()), b"' value invalid for integer argument!"),
            Kind::List => {
                return value.split(|&byte| byte == b',').for_each(|element| self.set(row, element));
            }
            Kind::Text | Kind::Texts | Kind::Act(_) => return self.set(row, value),
        };
        match converted {
            Some(value) => self.set(row, value.as_bytes()),
            None => self.complain(row, &[b"'", value, invalid]),
        }
    }

    fn set(&mut self, row: &Row, value: &[u8]) {
        let word = [b"--", row.name.as_bytes(), b"=", value].concat();
        self.settings.push(OsString::from_vec(word));
    }

    fn complain(&mut self, row: &Row, message: &[&[u8]]) {
        let dashes: &[u8] = if row.name.len() == 1 { b"-" } else { b"--" };
        let option = [self.program.name, b": for the ", dashes, row.name.as_bytes(), b" option: "].concat();
        self.complaints.extend_from_slice(&option);
        self.complaints.extend_from_slice(&message.concat());
        self.complaints.push(b'\n');
    }

    /// Complains of a word, and says what `misspelt` in it may have meant.
    fn unknown(&mut self, word: &[u8], misspelt: &[u8]) {
        let Program { typed, name } = *self.program;
        let complaint =
            [name, b": Unknown command line argument '", word, b"'.  Try: '", typed, b" --help'\n"].concat();
        self.complaints.extend_from_slice(&complaint);
        if let Some(spelling) = nearest(misspelt) {
            self.complaints.extend_from_slice(&[name, b": Did you mean '", &spelling, b"'?\n"].concat());
        }
    }

    fn finish(mut self) -> Verdict {
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

    fn verdict(words: &[&str]) -> Verdict {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        read(&Program::new(OsStr::new("/bin/foo")), &words)
    }

    /// What a correct command line is read as, without the type every one of them has.
    fn settings(words: &[&str]) -> Vec<String> {
        let words = [&["--type=t"], words].concat();
        match verdict(&words) {
            Verdict::Settings(settings) => {
                settings.into_iter().skip(1).map(|word| word.into_string().unwrap()).collect()
            }
            other => panic!("{words:?} gave {other:?}"),
        }
    }

    /// What is said of a wrong one, without the program's name.
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
    fn lists_are_split_at_commas_and_keep_empty_elements() {
        assert_eq!(settings(&["-inputs=a,b", "-inputs", ",c"]), ["a", "b", "", "c"].map(|e| format!("--inputs={e}")));
        assert_eq!(settings(&["-inputs="]), ["--inputs="]);
        assert_eq!(settings(&["-input=a,b"]), ["--input=a,b"]);
    }

    #[test]
    fn flags_do_not_take_the_next_word() {
        assert_eq!(settings(&["-list", "-list=0", "-list="]), ["--list=true", "--list=false", "--list=true"]);
        assert_eq!(complaints(&["-list", "0"]), ["Unknown command line argument '0'.  Try: '/bin/foo --help'"]);
    }

    #[test]
    fn numbers_are_made_decimal() {
        assert_eq!(
            settings(&["-bundle-align=0x10", "-compression-level", "-010"]),
            ["--bundle-align=16", "--compression-level=-8"]
        );
    }

    #[test]
    fn letters_may_be_written_together() {
        assert_eq!(settings(&["-hh=0"]), ["--h=true", "--h=false"]);
        assert_eq!(settings(&["--h"]), ["--h=true"]);
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

//! The definition, the parsing and the help of our subcommands. Their command lines are plain `clap`.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write as _};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::base::display::{is_shown, printable};
use crate::base::error::Error;
use crate::base::io::sys;
use crate::base::threads;
use crate::beyond::cli::BUNDLER;
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, Parser, ValueEnum};
use memchr::memmem;

use super::print::problem::json_line;
use super::print::progress;
use super::suggest;
use crate::llvm::cli::TOOLS;
use crate::llvm::cli::print::console::Console;
use crate::llvm::cli::program::Program;

/// The name of the executable that has subcommands only, and none of LLVM's options.
pub(super) const OFFLOAD_BUNDLE: &str = "offload-bundle";

/// The options of a subcommand.
pub(super) trait Options: Parser {
    /// Runs the subcommand. An error ends with status 1. [`ExitCode::FAILURE`] means that the reason has been printed
    /// already.
    fn run(&self, console: &mut Console) -> anyhow::Result<ExitCode>;
}

/// The options of a subcommand that describes all of them.
pub(super) trait OptionsAboutAll: Parser {
    /// Runs the subcommand, as [`Options::run`] does.
    fn run(&self, all: &Catalogue, console: &mut Console) -> anyhow::Result<ExitCode>;
}

/// The form of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum MessageFormat {
    /// Sentences
    #[default]
    Text,
    /// A JSON object in each line: level, message and, for an error in a file, its kind, path, place and offset
    Json,
}

/// The headings of options that several subcommands have.
pub(super) mod heading {
    pub(in super::super) const SEARCH: &str = "Search options";
    pub(in super::super) const SELECTION: &str = "Selection options";
    pub(in super::super) const OUTPUT: &str = "Output options";
    pub(in super::super) const COMMON: &str = "Common options";
}

/// The options that all or most subcommands have, by the names of their fields. They come last in the help.
const COMMON_OPTIONS: [&str; 5] = ["max_size", "threads", "color", "message_format", "quiet"];

// The options of every subcommand. As a documentation comment, it would replace their descriptions.
#[derive(Clone, Copy, Debug, Args)]
struct CommonOptions {
    /// Number of threads for the work: all processors that the process may use, at most 16, unless another number is
    /// given. With 1, no thread is started. The output does not depend on it.
    #[arg(long, value_name = "N", hide_short_help = true)]
    threads: Option<NonZero<usize>>,
    /// Form of the messages on standard error.
    #[arg(long, value_name = "FORMAT", value_enum, default_value = "text", hide_short_help = true)]
    message_format: MessageFormat,
    /// Do not show progress. By default, work of more than a second shows its progress on a terminal.
    #[arg(long, hide_short_help = true)]
    quiet: bool,
}

/// The group of subcommands in the help, by their use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Group {
    Look,
    Check,
    Change,
    /// Help, manual pages and completions of the program itself.
    Program,
}

impl Group {
    /// All groups in the order of the help, with their titles.
    pub(super) const TITLES: [(Self, &str); 4] = [
        (Self::Look, "See what is in files"),
        (Self::Check, "Check and compare"),
        (Self::Change, "Write smaller or changed files"),
        (Self::Program, "About this program"),
    ];
}

/// A subcommand.
#[derive(Clone, Copy, Debug)]
pub(super) struct Subcommand {
    /// The first word, which selects it.
    pub(super) name: &'static str,
    pub(super) group: Group,
    /// The description and, from `Examples:` on, the text after the options. The help has only the first paragraph of
    /// the description; the manual page has all of it.
    texts: &'static str,
    command: fn() -> Command,
    run: fn(&ArgMatches, &Catalogue, &mut Console) -> anyhow::Result<ExitCode>,
}

/// Our own subcommands.
#[derive(Debug)]
pub(super) struct Catalogue {
    pub(super) subcommands: &'static [Subcommand],
}

/// Returns the description of a command in one line.
pub(super) fn about(command: &Command) -> String {
    command.get_about().map(StyledStr::to_string).unwrap_or_default()
}

impl Catalogue {
    /// Returns the subcommand that the first word of a command line names.
    pub(super) fn find(&self, word: &OsStr) -> Option<Subcommand> {
        self.subcommands.iter().copied().find(|subcommand| word == subcommand.name)
    }

    /// Every first word that selects a subcommand or one of LLVM's tools.
    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> {
        let ours = self.subcommands.iter().map(|subcommand| subcommand.name);
        ours.chain(TOOLS.into_iter().filter_map(|tool| tool.subcommand))
    }

    /// All subcommands, each with its description in one line.
    pub(super) fn abouts(&self) -> impl Iterator<Item = (&'static str, String)> {
        let ours = self.subcommands.iter().map(|ours| (ours.name, about(&ours.command())));
        ours.chain(TOOLS.into_iter().filter_map(|tool| Some((tool.subcommand?, about(&tool.command())))))
    }

    /// Returns one `clap` command with our own subcommands, for manual pages and completions.
    pub(super) fn command(&self) -> Command {
        Command::new(BUNDLER)
            .about("Bundle, unbundle, inspect and check GPU code objects")
            .version(env!("CARGO_PKG_VERSION"))
            .disable_help_subcommand(true)
            .subcommands(self.subcommands.iter().copied().map(Subcommand::command))
    }

    /// Returns the hint that names the subcommands, for a command line that LLVM's tool refuses and that only a person
    /// types. A person types an empty command line, only `-h`, or a first word that is neither a subcommand nor an
    /// option. Returns `None` for all other command lines: a compiler may have passed them, and the messages stay
    /// LLVM's. `program` is the name that was typed.
    pub(super) fn hint(&self, program: &OsStr, words: &[OsString]) -> Option<String> {
        let nearest = match words {
            [] => None,
            // LLVM's bundler does not have the usual short form of `--help`, with one dash or two.
            [word] if word == "-h" || word == "--h" => None,
            [word, ..] => match word.as_encoded_bytes() {
                // An option, or a file with options.
                [] | [b'-' | b'@', ..] => return None,
                _ => suggest::nearest_subcommand(word, self.names()),
            },
        };
        let suggestion = match nearest {
            Some(name) => format!("did you mean '{name}'? "),
            None => String::new(),
        };
        let program = match Program::new(program).name {
            // A program can be started without a name for itself.
            b"" => BUNDLER.into(),
            name => String::from_utf8_lossy(name),
        };
        let names = self.names().collect::<Vec<_>>().join(", ");
        Some(format!("{suggestion}'{program} help' explains the subcommands: {names}"))
    }
}

impl Subcommand {
    /// Returns the subcommand with the options `O`. `texts` are its description and examples.
    pub(super) const fn new<O: Options>(name: &'static str, group: Group, texts: &'static str) -> Self {
        Self { name, group, texts, command: O::command, run: run_matches::<O> }
    }

    /// Returns a subcommand that describes all subcommands, such as `man`.
    pub(super) const fn about_all<O: OptionsAboutAll>(name: &'static str, group: Group, texts: &'static str) -> Self {
        Self { name, group, texts, command: O::command, run: run_matches_about_all::<O> }
    }

    /// Returns the description, and the text after the options, which begins with the examples. Without examples, all
    /// of the text follows the options.
    fn split_texts(self) -> (&'static str, &'static str) {
        let (description, text_after) = self.texts.split_at(self.texts.find("Examples:").unwrap_or_default());
        (description.trim_end(), text_after.trim_end())
    }

    /// Returns the definition of the command line for `clap`, with the whole description and the options that every
    /// subcommand has.
    pub(super) fn command(self) -> Command {
        let (description, text_after) = self.split_texts();
        let command = CommonOptions::augment_args((self.command)()).name(self.name).after_long_help(text_after);
        let command = with_common_options_last(command);
        if description.is_empty() { command } else { command.long_about(unwrapped(description)) }
    }

    /// Returns the definition with the name of the executable that is typed, for the usage and the examples.
    pub(super) fn command_named(self, program: &str) -> Command {
        let name = format!("{program} {}", self.name);
        let command = self.command();
        let examples = command.get_after_long_help().map(StyledStr::to_string).unwrap_or_default();
        let command = command.bin_name(&name).display_name(name).version(env!("CARGO_PKG_VERSION"));
        command.after_long_help(examples.replace(BUNDLER, program))
    }

    /// Returns the definition for command lines and their help. `-h` has one line for each option, and none of the
    /// texts after them. `--help` is shorter than the manual page: it has only the first paragraph of the description,
    /// and leaves out the sections of [`MANUAL_SECTIONS`].
    pub(super) fn command_with_help(self, program: &str) -> Command {
        let mut command = self.command_named(program).disable_help_flag(true).disable_version_flag(true);
        command = command.after_help(format!("More, with examples: `{program} {} --help`", self.name));
        let (description, _) = self.split_texts();
        let whole_text_after = command.get_after_long_help().map(StyledStr::to_string).unwrap_or_default();
        let mut text_after = without_manual_sections(&whole_text_after);
        // If the help leaves out a part of the texts, it names the manual page, which has all of them.
        let mut paragraphs = description.split("\n\n");
        let first = paragraphs.next().unwrap_or_default();
        if paragraphs.next().is_some() || text_after != whole_text_after {
            text_after.push_str(&format!(
                "\n\nManual page:\n  man {OFFLOAD_BUNDLE}-{}\n  (`{program} man -o DIR` writes all pages)",
                self.name
            ));
            command = command.long_about(unwrapped(first)).after_long_help(text_after);
        }
        // clap's `--help` and `--version` have no heading, and would come before the common options.
        let help = Arg::new("help").short('h').long("help").action(ArgAction::Help);
        let help = help.help("Print help (see more with '--help')").long_help("Print help (see a summary with '-h')");
        let version = Arg::new("version").short('V').long("version").action(ArgAction::Version).help("Print version");
        command.args([help, version].map(|arg| arg.help_heading(heading::COMMON)))
    }

    /// Parses the command line, without the name of the subcommand, and runs the subcommand. `all` has all subcommands,
    /// for those that describe them. Also returns a hint if a file is missing and its name is the name of a GPU.
    pub(super) fn run(
        self,
        all: &Catalogue,
        argv: &[OsString],
        console: &mut Console,
    ) -> (anyhow::Result<ExitCode>, Option<String>) {
        let mut command = self.command_with_help(&program(console));
        let argv = with_two_dashes(&command, argv);
        match command.try_get_matches_from_mut(&argv) {
            Ok(matches) => (self.run_parsed(&matches, all, console), hint_for_missing_file(&command, &matches)),
            Err(error) => {
                let usage = command.render_usage();
                (usage_error(console, with_better_tip(error, usage, &argv)), None)
            }
        }
    }

    /// Runs the subcommand after its command line has been parsed.
    fn run_parsed(self, matches: &ArgMatches, all: &Catalogue, console: &mut Console) -> anyhow::Result<ExitCode> {
        let options = CommonOptions::from_arg_matches(matches)?;
        if let Some(count) = options.threads {
            threads::set(count);
        }
        if options.message_format == MessageFormat::Json {
            console.as_line = Some(json_line);
        }
        if options.quiet {
            progress::end();
        }
        (self.run)(matches, all, console)
    }
}

/// Runs the subcommand with the options `O`. They do not need the catalogue, but [`Subcommand::run`] is a function of
/// one type for all subcommands.
fn run_matches<O: Options>(matches: &ArgMatches, _: &Catalogue, console: &mut Console) -> anyhow::Result<ExitCode> {
    O::from_arg_matches(matches)?.run(console)
}

/// Runs the subcommand with the options `O`, which describes all subcommands.
fn run_matches_about_all<O: OptionsAboutAll>(
    matches: &ArgMatches,
    all: &Catalogue,
    console: &mut Console,
) -> anyhow::Result<ExitCode> {
    O::from_arg_matches(matches)?.run(all, console)
}

/// Moves the options that all or most subcommands have to the end, below their own heading.
fn with_common_options_last(mut command: Command) -> Command {
    for id in COMMON_OPTIONS {
        if command.get_arguments().any(|arg| arg.get_id() == id) {
            // `mut_arg` moves the argument to the end.
            command = command.mut_arg(id, |arg| arg.help_heading(heading::COMMON));
        }
    }
    command
}

/// Joins the lines of each paragraph into one, because `clap` breaks lines for the width of the terminal. Indented
/// paragraphs, such as lists, keep their lines.
fn unwrapped(text: &str) -> String {
    let mut paragraphs = Vec::new();
    for paragraph in text.trim_end().split("\n\n") {
        if paragraph.starts_with(' ') {
            paragraphs.push(paragraph.to_owned());
        } else {
            paragraphs.push(paragraph.replace('\n', " "));
        }
    }
    paragraphs.join("\n\n")
}

/// The headings of the sections after the options that only the manual page has.
const MANUAL_SECTIONS: [&str; 2] = ["Columns:", "Conditions of --fail-on:"];

/// Returns the text after the options without the sections that only the manual page has.
fn without_manual_sections(text: &str) -> String {
    let mut kept = String::new();
    let mut is_kept = true;
    for line in text.lines() {
        if !line.is_empty() && !line.starts_with(' ') {
            is_kept = !MANUAL_SECTIONS.contains(&line);
        }
        if is_kept {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept.trim_end().to_owned()
}

/// Returns the name of the executable as typed, without the subcommand after it.
pub(super) fn program(console: &Console) -> String {
    let typed = console.program();
    match typed.rsplit_once(' ') {
        Some((program, _)) => program.to_owned(),
        None => typed,
    }
}

/// Returns the words of a command line, with two dashes before each long option. Users of LLVM's tools type one dash,
/// which `clap` would read as several short options.
fn with_two_dashes(command: &Command, argv: &[OsString]) -> Vec<OsString> {
    let options = command.get_arguments().filter_map(Arg::get_long).chain(["help", "version"]);
    let options: Vec<String> = options.map(str::to_owned).collect();
    // After `--`, words are files, even if they begin with a dash.
    let end = argv.iter().position(|word| word == "--").unwrap_or(argv.len());
    let (words, rest) = argv.split_at(end);
    let mut corrected = Vec::with_capacity(argv.len());
    for word in words {
        corrected.push(suggest::with_two_dashes(word, &options).unwrap_or_else(|| word.clone()));
    }
    corrected.extend_from_slice(rest);
    corrected
}

/// Returns the hint for a path that does not exist and is the name of a GPU: the user forgot the option before it, or
/// put spaces into a list. Returns `None` if all paths exist or are not names of GPUs.
fn hint_for_missing_file(command: &Command, matches: &ArgMatches) -> Option<String> {
    let positionals = command.get_positionals().map(|arg| arg.get_id().as_str());
    let mut paths = positionals.filter_map(|id| matches.try_get_many::<PathBuf>(id).ok()?).flatten();
    let missing = paths.find(|path| is_gpu_name(path) && !path.exists())?;
    // Options that take GPUs. The hint names the first one that the subcommand has.
    let mut options = ["target", "keep", "expect"].into_iter();
    let advice = match options.find(|option| command.get_arguments().any(|arg| arg.get_id() == option)) {
        Some(option) => format!("--{option} selects GPUs, with commas and no spaces between them"),
        None => "extract --target selects code for it".to_owned(),
    };
    Some(format!("'{}' is the name of a GPU: {advice}", missing.display()))
}

fn is_gpu_name(path: &Path) -> bool {
    path.to_str().is_some_and(suggest::is_gpu)
}

/// Prints an error in the command line, for options that do not go together by rules that `clap` cannot express.
/// Returns the exit status.
pub(super) fn refuse<O: Options>(console: &Console, kind: ErrorKind, text: &str) -> anyhow::Result<ExitCode> {
    usage_error(console, O::command().bin_name(console.program()).error(kind, printable(text)))
}

/// Prints an error of `clap` in the form of all other messages, or a help text. Returns the exit status.
fn usage_error(console: &Console, error: clap::Error) -> anyhow::Result<ExitCode> {
    if !error.use_stderr() {
        print_to_stdout(&error).map_err(|error| Error::io("-", error))?;
        return Ok(ExitCode::SUCCESS);
    }
    for paragraph in escaped_error(error).trim_end().split("\n\n") {
        let words = paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
        if let Some(text) = words.strip_prefix("error: ") {
            console.error(text, None);
        } else if words.starts_with("Usage: ") {
            console.line(paragraph);
            console.hint(&format!("'{} --help' explains the options", console.program()));
        } else {
            // The paragraph has tips, or clap's sentence about `--help`, which our hint above replaces.
            let tips = paragraph.lines().filter_map(|line| line.trim_start().strip_prefix("tip: "));
            tips.for_each(|tip| console.hint(tip));
        }
    }
    Ok(ExitCode::from(USAGE_STATUS))
}

/// Returns the text of an error. Words of the command line in it are escaped.
fn escaped_error(mut error: clap::Error) -> String {
    let context: Vec<_> = error.context().map(|(kind, value)| (kind, value.clone())).collect();
    let refused_word = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(word)) => word.clone(),
        _ => String::new(),
    };
    for (kind, value) in context {
        let escaped = match value {
            ContextValue::String(word) => ContextValue::String(printable(&word)),
            ContextValue::Strings(words) => ContextValue::Strings(words.iter().map(|word| printable(word)).collect()),
            // Tips quote the refused word between clap's codes for colours, which must stay.
            ContextValue::StyledStrs(tips) if refused_word.contains(|c| !is_shown(c)) => {
                let escaped =
                    |tip: &StyledStr| tip.ansi().to_string().replace(&refused_word, &printable(&refused_word)).into();
                ContextValue::StyledStrs(tips.iter().map(escaped).collect())
            }
            _ => continue,
        };
        error.insert(kind, escaped);
    }
    let text = error.render().to_string();
    // The source is the reason why a value is not valid. It may quote the value.
    match std::error::Error::source(&error).map(ToString::to_string) {
        Some(reason) => text.replace(&reason, &printable(&reason)),
        None => text,
    }
}

/// Prints a help text. Fails if standard output cannot be written, or was closed before the program started.
fn print_to_stdout(help: &clap::Error) -> io::Result<()> {
    sys::ensure_output()?;
    help.print()?;
    io::stdout().flush()
}

/// Returns the name in a typed option, without dashes and value.
fn name_of(option: &str) -> &str {
    option.trim_start_matches('-').split('=').next().unwrap_or_default()
}

/// Improves the tips of an error about an unknown option. Other errors stay as they are.
///
/// Adds a tip for the name of a GPU that no option takes, and removes clap's tip if it names an unrelated option. For a
/// file whose name begins with a dash, replaces clap's tip, which quotes only the first letter of the name.
fn with_better_tip(mut error: clap::Error, usage: StyledStr, argv: &[OsString]) -> clap::Error {
    let refused = match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (ErrorKind::UnknownArgument, Some(ContextValue::String(refused))) => refused.clone(),
        _ => return error,
    };
    let suggested = match error.get(ContextKind::SuggestedArg) {
        Some(ContextValue::String(suggested)) => suggested.as_str(),
        _ => "",
    };
    if !suggested.is_empty() && !suggest::is_slip(name_of(&refused), name_of(suggested)) {
        error.remove(ContextKind::SuggestedArg);
        // The usage that clap shows names the suggested option.
        error.insert(ContextKind::Usage, ContextValue::StyledStr(usage));
    }
    if suggest::is_gpu(&refused) {
        let tip = "a list of GPUs has commas and no spaces: gfx90a,gfx942".to_owned();
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    // clap reads `-name` as several short options, and names only the first letter that it does not know.
    let Some(word) = argv.iter().skip(1).find(|word| is_group_with(word, &refused)) else { return error };
    error.remove(ContextKind::Suggested);
    if Path::new(word).exists() {
        let name = printable(&word.to_string_lossy());
        let tip = format!("'{name}' is a file; type './{name}', or '--' before it");
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

/// Returns whether a word is a group of short options, such as `-xyz`, that includes `option`, such as `-x`.
fn is_group_with(word: &OsStr, option: &str) -> bool {
    let word = word.as_encoded_bytes();
    if word.len() <= 2 || !word.starts_with(b"-") || word.starts_with(b"--") {
        return false;
    }
    match option.strip_prefix('-') {
        Some(letter) => memmem::find(word, letter.as_bytes()).is_some(),
        None => false,
    }
}

/// The exit status for an invalid command line.
pub(super) const USAGE_STATUS: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::beyond::cli::catalogue::CATALOGUE;

    #[test]
    fn every_long_option_may_have_one_dash_up_to_two_dashes_alone() {
        for subcommand in CATALOGUE.subcommands {
            let command = subcommand.command_named(BUNDLER);
            for option in command.get_arguments().filter_map(Arg::get_long).chain(["help", "version"]) {
                let [one, two] = ["-", "--"].map(|dashes| format!("{dashes}{option}=x"));
                let typed = ["x", &one, "--", &one].map(OsString::from);
                assert_eq!(with_two_dashes(&command, &typed), ["x", &two, "--", &one], "{}", subcommand.name);
            }
            let shorts = command.get_arguments().filter_map(Arg::get_short);
            let groups: Vec<OsString> =
                shorts.flat_map(|short| [format!("-{short}"), format!("-{short}gfx90a")]).map(OsString::from).collect();
            assert_eq!(with_two_dashes(&command, &groups), groups, "{}", subcommand.name);
        }
    }
}

//! The subcommands that LLVM's tools do not have. Their command lines are plain `clap`.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::base::display::printable;
use crate::base::error::Error;
use crate::base::io::sys;
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, Parser, ValueEnum};
use memchr::memmem;

use super::print::json;
use super::suggest;
use crate::llvm::cli::print::console::Console;
use crate::llvm::cli::print::progress;
use crate::llvm::cli::program::Program;
use crate::llvm::cli::suggest::is_slip;
use crate::llvm::cli::{PROGRAM, TOOLS};

/// The name of the executable that has subcommands only, and none of LLVM's options.
pub(super) const SHORT: &str = "offload-bundle";

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
    /// A JSON object in each line: level, message and, of an error in a file, kind, path, place and offset
    Json,
}

// The options of every subcommand. As a documentation comment, it would replace their descriptions.
#[derive(Clone, Copy, Debug, Args)]
struct MessageOptions {
    /// Form of the messages on standard error.
    #[arg(long, value_name = "FORMAT", value_enum, default_value = "text", hide_short_help = true)]
    message_format: MessageFormat,
    /// Show no progress. Without it, work of more than a second shows on a terminal how far it is.
    #[arg(long, hide_short_help = true)]
    quiet: bool,
}

/// A subcommand.
#[derive(Clone, Copy, Debug)]
pub(super) struct Subcommand {
    /// The first word, which selects it.
    pub(super) name: &'static str,
    /// The long description and, from the examples on, what follows the options in the help.
    texts: &'static str,
    command: fn() -> Command,
    run: fn(&ArgMatches, &Catalogue, &mut Console) -> anyhow::Result<ExitCode>,
}

/// Our own subcommands.
#[derive(Debug)]
pub(super) struct Catalogue {
    pub(super) subcommands: [Subcommand; 11],
}

/// The description of a command in one line.
fn about(command: &Command) -> String {
    command.get_about().map_or_else(String::new, ToString::to_string)
}

impl Catalogue {
    /// The subcommand named by the first word of a command line.
    pub(super) fn find(&self, word: &OsStr) -> Option<Subcommand> {
        self.subcommands.into_iter().find(|subcommand| word == subcommand.name)
    }

    /// Every first word that selects a subcommand: our own, and those that select LLVM's tools.
    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> {
        let own = self.subcommands.into_iter().map(|subcommand| subcommand.name);
        own.chain(TOOLS.into_iter().filter_map(|tool| tool.subcommand))
    }

    /// All subcommands, each with its description in one line.
    pub(super) fn abouts(&self) -> impl Iterator<Item = (&'static str, String)> {
        let own = self.subcommands.into_iter().map(|own| (own.name, about(&own.command())));
        own.chain(TOOLS.into_iter().filter_map(|tool| Some((tool.subcommand?, about(&tool.command())))))
    }

    /// The subcommands as those of one `clap` command, for manual pages and completions.
    pub(super) fn command(&self) -> Command {
        Command::new(PROGRAM)
            .about("Bundle, unbundle, inspect and check GPU code objects")
            .version(env!("CARGO_PKG_VERSION"))
            .disable_help_subcommand(true)
            .subcommands(self.subcommands.into_iter().map(Subcommand::command))
    }

    /// The hint that names the subcommands, for a command line that is empty, is only `-h`, or begins with a word that
    /// is neither a subcommand nor an option. Compilers never pass such command lines. `program` is the name that was
    /// typed.
    pub(super) fn hint(&self, program: &OsStr, words: &[OsString]) -> Option<String> {
        let nearest = match words {
            [] => None,
            [word] if ["-h", "--h"].map(OsStr::new).contains(&word.as_os_str()) => None,
            [word, ..] if word.as_encoded_bytes().first().is_some_and(|first| !b"-@".contains(first)) => {
                suggest::subcommand(word, self.names())
            }
            _ => return None,
        };
        let meant = nearest.map_or(String::new(), |name| format!("did you mean '{name}'? "));
        let program = match Program::new(program).name {
            b"" => PROGRAM.into(),
            name => String::from_utf8_lossy(name),
        };
        let names = self.names().collect::<Vec<_>>().join(", ");
        Some(format!("{meant}'{program} help' explains the subcommands: {names}"))
    }
}

impl Subcommand {
    pub(super) const fn of<O: Options>(name: &'static str, texts: &'static str) -> Self {
        let run =
            |matches: &ArgMatches, _: &Catalogue, console: &mut Console| O::from_arg_matches(matches)?.run(console);
        Self { name, texts, command: O::command, run }
    }

    /// A subcommand that describes all of them.
    pub(super) const fn about_all<O: OptionsAboutAll>(name: &'static str, texts: &'static str) -> Self {
        let run = |matches: &ArgMatches, all: &Catalogue, console: &mut Console| {
            O::from_arg_matches(matches)?.run(all, console)
        };
        Self { name, texts, command: O::command, run }
    }

    /// The definition of its command line.
    pub(super) fn command(self) -> Command {
        let (about, after) = self.texts.split_at(self.texts.find("Examples:").unwrap_or_default());
        let command = MessageOptions::augment_args((self.command)()).name(self.name).after_help(after.trim_end());
        if about.is_empty() { command } else { command.long_about(unwrapped(about)) }
    }

    /// The same for a name of the executable, which its usage and examples show.
    pub(super) fn named(self, program: &str) -> Command {
        let name = format!("{program} {}", self.name);
        let command = self.command();
        let examples = command.get_after_help().map(|text| text.to_string().replace(PROGRAM, program));
        let command = command.bin_name(&name).display_name(name).version(env!("CARGO_PKG_VERSION"));
        command.after_help(examples.unwrap_or_default())
    }

    /// Parses the command line, without the name of the subcommand, and runs the subcommand, one of `all`. Returns a
    /// hint, too, if files are missing whose names are those of GPUs.
    pub(super) fn run(
        self,
        all: &Catalogue,
        argv: &[OsString],
        console: &mut Console,
    ) -> (anyhow::Result<ExitCode>, Option<String>) {
        let mut command = self.named(&program(console));
        let argv = with_two_dashes(&command, argv);
        match command.try_get_matches_from_mut(&argv) {
            Ok(matches) => {
                let run = MessageOptions::from_arg_matches(&matches).map_err(anyhow::Error::new).and_then(|options| {
                    if options.message_format == MessageFormat::Json {
                        console.as_json = Some(json::message);
                    }
                    if options.quiet {
                        progress::end();
                    }
                    (self.run)(&matches, all, console)
                });
                (run, missing_gpu(&command, &matches))
            }
            Err(error) => {
                let usage = command.render_usage();
                (usage_error(&with_better_tip(error, usage, &argv)), None)
            }
        }
    }
}

/// Paragraphs, each as one line, which `clap` breaks again. What is indented stays.
fn unwrapped(text: &str) -> String {
    let paragraphs = text.trim_end().split("\n\n");
    let line = |text: &str| if text.starts_with(' ') { text.to_owned() } else { text.replace('\n', " ") };
    paragraphs.map(line).collect::<Vec<_>>().join("\n\n")
}

/// The name of the executable as typed, without the subcommand after it.
pub(super) fn program(console: &Console) -> String {
    let typed = console.program();
    typed.rsplit_once(' ').map_or(typed.clone(), |(program, _)| program.to_owned())
}

/// The words of a command line, in which long options have two dashes.
fn with_two_dashes(command: &Command, argv: &[OsString]) -> Vec<OsString> {
    let options = command.get_arguments().filter_map(Arg::get_long).chain(["help", "version"]);
    let options: Vec<String> = options.map(str::to_owned).collect();
    let end = argv.iter().position(|word| word == "--").unwrap_or(argv.len());
    let (words, rest) = argv.split_at(end);
    let with_two = |word: &OsString| suggest::with_two_dashes(word, &options).unwrap_or_else(|| word.clone());
    words.iter().map(with_two).chain(rest.iter().cloned()).collect()
}

/// The hint for a file that does not exist and has the name of a GPU: its option is missing, or a list has spaces.
fn missing_gpu(command: &Command, matches: &ArgMatches) -> Option<String> {
    let positionals = command.get_positionals().map(|arg| arg.get_id().as_str());
    let mut paths = positionals.filter_map(|id| matches.try_get_many::<PathBuf>(id).ok()?).flatten();
    let named = |path: &PathBuf| path.to_str().filter(|name| suggest::is_gpu(name)).map(str::to_owned);
    let name = paths.find_map(|path| named(path).filter(|_| !path.exists()))?;
    let options = ["target", "keep", "expect"].into_iter();
    let option = options.into_iter().find(|option| command.get_arguments().any(|arg| arg.get_id() == option));
    let advice = option.map_or_else(
        || "extract --target selects code for it".to_owned(),
        |option| format!("--{option} selects GPUs, with commas and no spaces between them"),
    );
    Some(format!("'{name}' is the name of a GPU: {advice}"))
}

/// Prints an error or a help text of `clap`. Returns the exit status.
pub(super) fn usage_error(error: &clap::Error) -> anyhow::Result<ExitCode> {
    if error.use_stderr() {
        // If the stream fails, the failure cannot be reported.
        drop(error.print());
        return Ok(ExitCode::from(USAGE));
    }
    let printed = sys::ensure_output().and_then(|()| error.print()).and_then(|()| io::stdout().flush());
    printed.map_err(|error| Error::io("-", error))?;
    Ok(ExitCode::SUCCESS)
}

/// The name in a typed option, without dashes and value.
fn name_of(option: &str) -> &str {
    option.trim_start_matches('-').split('=').next().unwrap_or_default()
}

/// Adds a tip for a GPU that no option takes, removes clap's tip if it names an option for something else, and replaces
/// its tip for a file whose name begins with a dash, which quotes only the first letter instead of the word.
fn with_better_tip(mut error: clap::Error, usage: StyledStr, argv: &[OsString]) -> clap::Error {
    let refused = match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (ErrorKind::UnknownArgument, Some(ContextValue::String(refused))) => refused.clone(),
        _ => return error,
    };
    let suggested = match error.get(ContextKind::SuggestedArg) {
        Some(ContextValue::String(suggested)) => suggested.as_str(),
        _ => "",
    };
    if !suggested.is_empty() && !is_slip(name_of(&refused), name_of(suggested)) {
        error.remove(ContextKind::SuggestedArg);
        // Clap's names the suggested option.
        error.insert(ContextKind::Usage, ContextValue::StyledStr(usage));
    }
    if suggest::is_gpu(&refused) {
        let tip = "a list of GPUs has commas and no spaces: gfx90a,gfx942".to_owned();
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    let Some(word) = argv.iter().skip(1).find(|word| is_group_with(word, &refused)) else { return error };
    error.remove(ContextKind::Suggested);
    if Path::new(word).exists() {
        let name = printable(&word.to_string_lossy());
        let tip = format!("'{name}' is a file; type './{name}', or '--' before it");
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

/// Whether a word combines several short options, including this one.
fn is_group_with(word: &OsStr, option: &str) -> bool {
    let is_group =
        word.len() > 2 && word.as_encoded_bytes().starts_with(b"-") && !word.as_encoded_bytes().starts_with(b"--");
    is_group
        && option
            .strip_prefix('-')
            .is_some_and(|letter| memmem::find(word.as_encoded_bytes(), letter.as_bytes()).is_some())
}

/// The exit status for an invalid command line.
pub(super) const USAGE: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::beyond::cli::catalogue::CATALOGUE;

    #[test]
    fn every_long_option_may_have_one_dash_up_to_two_dashes_alone() {
        for subcommand in CATALOGUE.subcommands {
            let command = subcommand.named(PROGRAM);
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

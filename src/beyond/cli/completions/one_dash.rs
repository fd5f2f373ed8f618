//! LLVM's options, which may begin with one dash: `-type=o`. `clap_complete` knows only `--type`, so its scripts for
//! fish and zsh get the other spelling here.

use clap::{Arg, Command, ValueHint};

use super::words_of;

/// The heading that marks options as LLVM's.
pub(super) const LLVM_HEADING: &str = "LLVM's options";

/// Returns the spelling of an option with one dash, or `None` if it is not LLVM's or has only a letter.
pub(super) fn spelled_with_one_dash(arg: &Arg) -> Option<String> {
    if arg.get_help_heading() != Some(LLVM_HEADING) {
        return None;
    }
    Some(format!("-{}", arg.get_long()?))
}

/// Returns whether a command has LLVM's options, which may begin with one dash.
fn takes_one_dash(command: &Command) -> bool {
    command.get_arguments().any(|arg| spelled_with_one_dash(arg).is_some())
}

/// Adds LLVM's options with one dash to a script for fish.
pub(super) fn fish_script(script: &str, root: &Command) -> String {
    // A function of the script looks for the subcommand among the typed words. It gives up at an option that it does
    // not know, and knows LLVM's options only with two dashes. So a second line is added after the one that removes the
    // name of the program from the words.
    const WITHOUT_PROGRAM: &str = "    set -e cmd[1]\n";
    const WITH_TWO_DASHES: &str =
        "    set -q cmd[1]; and set cmd (string replace -r -- '^-([a-z][a-z])' '--$1' $cmd)\n";
    let script = script.replace(WITHOUT_PROGRAM, &[WITHOUT_PROGRAM, WITH_TWO_DASHES].concat());
    let mut script = without_stacking(&script, root);
    let program = root.get_name();
    let function = format!("__fish_{}", program.replace('-', "_"));
    let condition = if root.has_subcommands() { format!(" -n {function}_needs_command") } else { String::new() };
    script.push_str(&fish_options(program, &condition, root));
    for command in root.get_subcommands() {
        let condition = format!(" -n \"{function}_using_subcommand {}\"", command.get_name());
        script.push_str(&fish_options(program, &condition, command));
    }
    script
}

/// Declares options of one letter with `-o` (old-style) in place of `-s` (short), for commands with LLVM's options.
/// Otherwise, fish would offer each letter after any other letter, as in `-th`.
fn without_stacking(script: &str, root: &Command) -> String {
    let mut written = String::new();
    for line in script.lines() {
        // A line for a subcommand has the condition `-n "__fish_…_using_subcommand NAME"`. All other lines are about
        // the executable itself.
        let subcommand = match line.split_once("_using_subcommand ") {
            Some((_, rest)) => rest.split('"').next().and_then(|name| root.find_subcommand(name)),
            None => Some(root),
        };
        if line.starts_with("complete ") && subcommand.is_some_and(takes_one_dash) {
            written.push_str(&line.replace(" -s ", " -o "));
        } else {
            written.push_str(line);
        }
        written.push('\n');
    }
    written
}

/// Returns a line for each of LLVM's options with one dash and several letters. fish calls these old-style options
/// (`-o`).
fn fish_options(program: &str, condition: &str, command: &Command) -> String {
    let mut lines = String::new();
    for arg in command.get_arguments() {
        let Some(spelled) = spelled_with_one_dash(arg) else { continue };
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default().replace('\'', "\\'");
        let name = spelled.trim_start_matches('-');
        let value = fish_value(arg);
        lines.push_str(&format!("complete -c {program}{condition} -o {name} -d '{help}'{value}\n"));
    }
    lines
}

/// Returns the flags of `complete` that say what fish suggests for the value of an option: files, or words of a list.
/// Returns an empty text if the option takes no value.
fn fish_value(arg: &Arg) -> String {
    if !arg.get_action().takes_values() {
        String::new()
    } else if arg.get_value_hint() == ValueHint::FilePath {
        " -r -F".to_owned()
    } else {
        format!(" -r -f -a '{}'", words_of(arg))
    }
}

/// Adds LLVM's options with one dash to a script for zsh, beside each line for an option with two.
pub(super) fn zsh_script(script: &str, root: &Command) -> String {
    const ARGUMENTS: &str = "_arguments \"${_arguments_options[@]}\" :";
    // Without `-s`, zsh does not read several letters after one dash as several options. The matcher after `-M` finds
    // an option only by its beginning. The default matcher also finds it by a part after a dash, so that `--` would
    // match `-max-size`.
    const NOT_STACKED: &str = "_arguments \"${(@)_arguments_options:#-s}\" -M 'r:|=*' :";
    let mut written = String::new();
    let mut has_llvm_options = false;
    let mut previous = "";
    for line in script.lines() {
        // The options of a command follow this line. The line before has the name of the subcommand in parentheses,
        // or is about the executable itself.
        if line.contains(ARGUMENTS) {
            let name = previous.trim_matches(['(', ')']);
            has_llvm_options = takes_one_dash(root.find_subcommand(name).unwrap_or(root));
        }
        if has_llvm_options {
            written.push_str(&line.replace(ARGUMENTS, NOT_STACKED));
        } else {
            written.push_str(line);
        }
        written.push('\n');
        // A star before an option says that it may be repeated.
        if has_llvm_options && let Some(option) = line.strip_prefix("'--") {
            written.push_str(&format!("'-{option}\n"));
        } else if has_llvm_options && let Some(option) = line.strip_prefix("'*--") {
            written.push_str(&format!("'*-{option}\n"));
        }
        previous = line.trim();
    }
    written
}

//! The completion script for bash. The script that `clap_complete` generates offers options where files are expected.

use clap::{Arg, Command, ValueHint};

use super::one_dash::spelled_with_one_dash;
use super::words_of;

/// The part of the script that takes the subcommand from the first word, once the cursor is after this word.
const FIND_SUBCOMMAND: &str = r"    if ((COMP_CWORD > 1)) && [[ ${COMP_WORDS[1]} != -* ]]; then
        command=${COMP_WORDS[1]}
    fi
";

/// Returns the script. Its suggestions depend on the subcommand and on the word before the cursor.
pub(super) fn script(root: &Command) -> String {
    let program = root.get_name();
    let function = format!("_{}", program.replace('-', "_"));
    let names: Vec<&str> = root.get_subcommands().map(Command::get_name).collect();
    // The branch of each subcommand sets `options`, `words` and `files` of the script. The branch `''` is for command
    // lines without a subcommand.
    let commands: String = std::iter::once(("''", root))
        .chain(root.get_subcommands().map(|command| (command.get_name(), command)))
        .map(|(name, command)| subcommand_branch(name, command, &names.join(" ")))
        .collect();
    let find_subcommand = if root.has_subcommands() { FIND_SUBCOMMAND } else { "" };
    format!(
        r#"{function}() {{
    local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD - 1]}}
    local command='' options='' words='' files='' name
    COMPREPLY=()
    # bash may have cut a word at its '='.
    if [[ $cur == '=' ]]; then
        cur=''
    elif [[ $prev == '=' ]]; then
        prev=${{COMP_WORDS[COMP_CWORD - 2]}}
    fi
{find_subcommand}    case $command in
{commands}    esac
    if [[ -n $options && $cur == -* ]]; then
        words=$options files=''
    fi
    if [[ -n $files ]]; then
        compopt -o filenames 2>/dev/null
        while IFS= read -r name; do
            COMPREPLY+=("$name")
        done < <(compgen -f -- "$cur")
    else
        while IFS= read -r name; do
            COMPREPLY+=("$name")
        done < <(compgen -W "$words" -- "$cur")
    fi
}}
complete -F {function} {program}
"#
    )
}

/// Returns the branch of the script for a subcommand: the suggestions for options, for the positional argument, and for
/// the values of options.
fn subcommand_branch(name: &str, command: &Command, subcommands: &str) -> String {
    let options: Vec<String> = command.get_arguments().flat_map(spellings).collect();
    let positional = if let Some(arg) = command.get_positionals().next() {
        suggestions(arg)
    } else if command.has_subcommands() {
        // Only the first word can be a subcommand.
        format!("((COMP_CWORD > 1)) || words='{subcommands}'")
    } else {
        ":".to_owned()
    };
    let value_branches: String = command.get_arguments().filter(|arg| suggests_values(arg)).map(value_branch).collect();
    format!(
        "        {name})\n            options='{}'\n            {positional}\n            case $prev in\n{value_branches}            esac\n            ;;\n",
        options.join(" ")
    )
}

/// Returns the spellings of an option, or nothing for a positional argument.
fn spellings(arg: &Arg) -> Vec<String> {
    let short = arg.get_short().map(|letter| format!("-{letter}"));
    let long = arg.get_long().map(|name| format!("--{name}"));
    short.into_iter().chain(spelled_with_one_dash(arg)).chain(long).collect()
}

/// Returns whether values are suggested for the word after an option. A value that may be left out is typed after a `=`,
/// which bash takes for an end of a word, and the next word is usually a file. So only words of a list are suggested.
fn suggests_values(arg: &Arg) -> bool {
    if arg.is_positional() || !arg.get_action().takes_values() {
        return false;
    }
    match arg.get_num_args() {
        Some(count) if count.min_values() == 0 => !arg.get_possible_values().is_empty(),
        _ => true,
    }
}

/// Returns the branch of the script for the word after an option: only values of this option are suggested there, and
/// no other options or files.
fn value_branch(arg: &Arg) -> String {
    let spellings = spellings(arg).join(" | ");
    format!("                {spellings}) options='' words='' files=''; {} ;;\n", suggestions(arg))
}

/// Returns the command of the script that sets the suggestions for the value of an argument: words, files or nothing.
/// The command `:` does nothing.
fn suggestions(arg: &Arg) -> String {
    let words = words_of(arg);
    if !words.is_empty() {
        return format!("words='{words}'");
    }
    match arg.get_value_hint() {
        ValueHint::AnyPath | ValueHint::FilePath => "files=1".to_owned(),
        _ => ":".to_owned(),
    }
}

//! The completion script for bash. The one that `clap_complete` generates offers options where files are expected.

use clap::{Arg, Command, ValueHint};

use super::one_dash::spelled_with_one_dash;

/// The script, whose suggestions depend on the subcommand and on the word before the cursor.
pub(super) fn script(all: &Command) -> String {
    let program = all.get_name();
    let function = format!("_{}", program.replace('-', "_"));
    let names: Vec<&str> = all.get_subcommands().map(Command::get_name).collect();
    let commands: String = std::iter::once(("''", all))
        .chain(all.get_subcommands().map(|command| (command.get_name(), command)))
        .map(|(name, command)| case(name, command, &names.join(" ")))
        .collect();
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
    if ((COMP_CWORD > 1)) && [[ ${{COMP_WORDS[1]}} != -* ]]; then
        command=${{COMP_WORDS[1]}}
    fi
    case $command in
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

/// The branch for a subcommand.
fn case(name: &str, command: &Command, subcommands: &str) -> String {
    let options: Vec<String> = command.get_arguments().flat_map(spellings).collect();
    let first =
        if command.has_subcommands() { format!("((COMP_CWORD > 1)) || words='{subcommands}'") } else { ":".to_owned() };
    let positional = command.get_positionals().next().map_or(first, |arg| completed(arg, ""));
    let values: String = command.get_arguments().filter(|arg| takes_value(arg)).map(value).collect();
    format!(
        "        {name})\n            options='{}'\n            {positional}\n            case $prev in\n{values}            esac\n            ;;\n",
        options.join(" ")
    )
}

/// Returns the spellings of an option, or nothing for a positional argument.
fn spellings(arg: &Arg) -> Vec<String> {
    let short = arg.get_short().map(|letter| format!("-{letter}"));
    let long = arg.get_long().map(|name| format!("--{name}"));
    short.into_iter().chain(spelled_with_one_dash(arg)).chain(long).collect()
}

/// Whether the next word may be the value of an option. A value that may be left out follows `=`, so only words from a
/// list are suggested for it.
fn takes_value(arg: &Arg) -> bool {
    if arg.is_positional() || !arg.get_action().takes_values() {
        return false;
    }
    match arg.get_num_args() {
        Some(count) if count.min_values() == 0 => !arg.get_possible_values().is_empty(),
        _ => true,
    }
}

/// The branch for the value of an option.
fn value(arg: &Arg) -> String {
    let clear = "options='' words='' files=''; ";
    format!("                {}) {} ;;\n", spellings(arg).join(" | "), completed(arg, clear))
}

fn completed(arg: &Arg, before: &str) -> String {
    let words: Vec<String> = arg.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
    match arg.get_value_hint() {
        _ if !words.is_empty() => format!("{before}words='{}'", words.join(" ")),
        ValueHint::AnyPath | ValueHint::FilePath => format!("{before}files=1"),
        _ => format!("{before}:"),
    }
}

//! Completions, manual pages and help texts: each lists every option, and the programs that read them accept them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::process::CommandExt;

use super::*;
use crate::machine::{loud, memory_directory, skip};
use crate::reference::formats;
use crate::reference::rules::{all_subcommands, own_subcommands};

/// The names of the executable that have subcommands.
const NAMES: [&str; 2] = ["clang-offload-bundler", "offload-bundle"];
const SHELLS: [&str; 5] = ["bash", "elvish", "fish", "powershell", "zsh"];

/// The long options of each subcommand, according to its help.
fn options() -> BTreeMap<&'static str, Vec<String>> {
    let long = regex_lite::Regex::new("(?m)^ +(?:-., )?--([a-z-]+)").unwrap();
    let of = |subcommand: &'static str| {
        let (status, help, said) = text(&tool_in(Path::new("."), &[subcommand, "--help"]));
        assert_eq!((status, said.as_str()), (0, ""));
        let names: Vec<String> = long.captures_iter(&help).map(|found| found[1].to_owned()).collect();
        (subcommand, names)
    };
    own_subcommands().into_iter().map(of).collect()
}

fn completions(name: &str, shell: &str) -> String {
    let (status, script, said) = text(&Command::new(PROGRAM).arg0(name).args(["completions", shell]).output().unwrap());
    assert_eq!((status, said.as_str()), (0, ""));
    script
}

#[test]
fn completions_have_every_option() {
    let options = options();
    assert!(options["inspect"].len() >= 7 && options["recompress"].len() >= 8, "{options:?}");
    for (shell, name) in SHELLS.iter().flat_map(|shell| NAMES.map(|name| (*shell, name))) {
        let script = completions(name, shell);
        for (subcommand, names) in &options {
            assert!(script.contains(subcommand), "{shell}: {subcommand}");
            for name in names {
                let written = if shell == "fish" { format!("-l {name}") } else { format!("--{name}") };
                assert!(script.contains(&written), "{shell}: {written}");
            }
        }
        assert!(script.contains(name), "{shell}: {name}");
        assert_eq!(script.contains("unbundle"), name == NAMES[0], "{shell}: {name}");
    }
}

#[test]
fn shells_take_the_completions() {
    let dir = memory_directory();
    let shells = [("bash", "-n"), ("zsh", "-n"), ("fish", "--no-execute")];
    for ((shell, checks), name) in shells.iter().flat_map(|shell| NAMES.map(|name| (*shell, name))) {
        let script = dir.path().join(shell);
        fs::write(&script, completions(name, shell)).unwrap();
        match Command::new(shell).arg(checks).arg(&script).output() {
            Ok(run) => {
                assert!(run.status.success() && run.stderr.is_empty(), "{}", String::from_utf8_lossy(&run.stderr))
            }
            Err(_) => skip("completions", &format!("{shell} is not installed")),
        }
    }
}

/// A shell that suggests completions of a command line, in a directory with two files and a directory.
struct Shell {
    name: &'static str,
    program: &'static str,
    dir: tempfile::TempDir,
}

impl Shell {
    /// Returns a shell with our completions. If it is not installed, prints that and returns `None`.
    fn new(name: &'static str) -> Option<Self> {
        Self::completing(NAMES[0], name)
    }

    /// Returns a shell with the completions of a program.
    fn completing(program: &'static str, name: &'static str) -> Option<Self> {
        if Command::new(name).arg("--version").output().is_err() {
            skip("completions", &format!("{name} is not installed"));
            return None;
        }
        let dir = memory_directory();
        let (status, script, _) = text(&tool_in(dir.path(), &["completions", name, program]));
        assert!(status == 0 && (program != NAMES[0] || script == completions(program, name)));
        fs::write(dir.path().join("script"), script).unwrap();
        fs::create_dir_all(dir.path().join("work/sub")).unwrap();
        for file in ["libk.so", "kernels.hipfb"] {
            fs::write(dir.path().join("work").join(file), "").unwrap();
        }
        Some(Self { name, program, dir })
    }

    /// The words that may complete each of the lines, sorted. One process completes all of them.
    fn offers<S: AsRef<str>>(&self, lines: &[S]) -> Vec<Vec<String>> {
        let lines: Vec<String> = lines.iter().map(|line| format!("{} {}", self.program, line.as_ref())).collect();
        let script = self.dir.path().join("script");
        let script = script.to_str().unwrap();
        let mut command = Command::new(self.name);
        match self.name {
            "bash" => command
                .args(["-c", &lines.iter().map(|line| bash_line(script, self.program, line)).collect::<String>()]),
            "fish" => command.args(["--no-config", "-c", FISH, script]).args(&lines),
            _ => command.args(["-f", COMPLETE_ZSH, script]).args(&lines),
        };
        let home = self.dir.path();
        let run = must(command.current_dir(home.join("work")).env("HOME", home).env("LC_ALL", "C.UTF-8"));
        let text = String::from_utf8(run.stdout).unwrap();
        let words = |offered: &str| {
            let words = offered.lines().map(|line| line.split('\t').next().unwrap().trim_end_matches('/').to_owned());
            let words: BTreeSet<String> = words.filter(|word| !word.is_empty()).collect();
            words.into_iter().collect()
        };
        let offered: Vec<Vec<String>> = text.split_terminator(END).map(words).collect();
        assert_eq!(offered.len(), lines.len(), "{}: {text}", self.name);
        offered
    }
}

/// The line after the words for each command line.
const END: &str = "--end--\n";

const FISH: &str = "source $argv[1]; for line in $argv[2..]; complete -C $line; echo --end--; end";

const COMPLETE_ZSH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/subcommands/complete.zsh");

/// Calls the function like bash, which splits words at `=`.
fn bash_line(script: &str, program: &str, line: &str) -> String {
    let mut words: Vec<String> = Vec::new();
    for word in line.split(' ') {
        match word.split_once('=') {
            Some((name, "")) => words.extend([name, "="].map(str::to_owned)),
            Some((name, value)) => words.extend([name, "=", value].map(str::to_owned)),
            None => words.push(word.to_owned()),
        }
    }
    let last = words.len() - 1;
    let words: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    format!(
        "source '{script}'; COMP_WORDS=({}); COMP_CWORD={last}; _{}; \
         for word in \"${{COMPREPLY[@]}}\"; do echo \"$word\"; done; echo --end--\n",
        words.join(" "),
        program.replace('-', "_")
    )
}

/// The tested shells.
const TRIED: [&str; 3] = ["bash", "fish", "zsh"];

#[test]
fn shells_offer_what_may_stand_there() {
    let commands = "completions diff extract extract-bundle-entry help inspect kernels man package recompress replace report verify";
    let here = "kernels.hipfb libk.so sub";
    for shell in TRIED.into_iter().filter_map(Shell::new) {
        let expected = [
            ("", commands),
            ("ins", "inspect"),
            ("help ", commands),
            ("completions ", "bash elvish fish powershell zsh"),
            ("inspect ", here),
            ("inspect lib", "libk.so"),
            ("inspect --json ", here),
            ("inspect libk.so ker", "kernels.hipfb"),
            ("extract ", here),
            ("verify ", here),
            ("recompress ", here),
            ("package ", here),
            ("inspect --color ", "always auto never"),
            ("inspect --svg ", here),
            ("extract -o ", here),
            ("extract --kind ", "cuda hcc hip hipv4 host maca musa openmp sycl tops"),
            ("extract --target ", ""),
            ("inspect --max-size ", ""),
            ("man -o ", here),
            ("--type=b", "bc"),
            ("--input=lib", "libk.so"),
            ("package --max", "--max-size"),
        ];
        assert_offers(&shell, &expected);
    }
}

fn assert_offers(shell: &Shell, expected: &[(&str, &str)]) {
    let lines: Vec<&str> = expected.iter().map(|(line, _)| *line).collect();
    for ((line, words), offered) in expected.iter().zip(shell.offers(&lines)) {
        // Some shells repeat the name of the option before its value.
        let option = line.split(' ').next_back().unwrap().split_once('=').map(|(name, _)| format!("{name}="));
        let offered = offered.join(" ");
        let offered = option.map_or(offered.clone(), |option| offered.replace(&option, ""));
        assert_eq!(offered, *words, "{}: '{} {line}'", shell.name, shell.program);
    }
}

#[test]
fn shells_offer_llvms_options_with_one_dash() {
    let types = "a ast bc cui d gch hipi i ii ll o s";
    let bundler = [
        ("-t", "-targets -type"),
        ("-type=", types),
        ("-type=b", "bc"),
        ("-type=o -unb", "-unbundle"),
        ("-type=o --unb", "--unbundle"),
        ("-type=o -input=lib", "libk.so"),
        ("package -max", "-max-size"),
        ("inspect -js", ""),
    ];
    let packager = [
        ("-max", "-max-size"),
        ("--arc", "--archive"),
        ("-o ", "kernels.hipfb libk.so sub"),
        ("lib", "libk.so"),
        ("libk.so -arc", "-archive"),
    ];
    for name in TRIED {
        let Some(shell) = Shell::completing(NAMES[0], name) else { continue };
        assert_offers(&shell, &bundler);
        for program in ["llvm-offload-binary", "clang-offload-packager"] {
            assert_offers(&Shell::completing(program, name).unwrap(), &packager);
        }
        let entries = Shell::completing("llvm-extract-bundle-entry", name).unwrap();
        assert_offers(&entries, &[("-max", "-max-size"), ("lib", "libk.so")]);
    }
}

#[test]
fn shells_offer_the_options_that_are_in_the_help_and_no_others() {
    let mut expected = options();
    let row = regex_lite::Regex::new("(?m)^  --([a-z-]+)").unwrap();
    for (subcommand, args) in [("", &["--help-hidden"][..]), ("package", &["package", "--help-hidden"])] {
        let (_, help, _) = text(&tool_in(Path::new("."), args));
        expected.insert(subcommand, row.captures_iter(&help).map(|found| found[1].to_owned()).collect());
    }
    for shell in TRIED.into_iter().filter_map(Shell::new) {
        let lines: Vec<String> = expected.keys().map(|name| format!("{name} --").trim_start().to_owned()).collect();
        for ((subcommand, names), offered) in expected.iter().zip(shell.offers(&lines)) {
            let names: BTreeSet<String> = names.iter().map(|name| format!("--{name}")).collect();
            assert!(offered.iter().eq(&names), "{}: '{subcommand}': {offered:?}", shell.name);
        }
    }
}

#[test]
fn manual_pages_have_every_option_and_no_faults() {
    let dir = memory_directory();
    let (status, out, said) = text(&tool_in(dir.path(), &["man", "-o", "new/man1"]));
    assert_eq!((status, out.as_str(), said.as_str()), (0, "", ""));
    let pages = dir.path().join("new/man1");
    let mut names: Vec<String> =
        fs::read_dir(&pages).unwrap().map(|page| page.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    let tools = ["offload-bundle.1", "clang-offload-bundler.1", "llvm-extract-bundle-entry.1", "llvm-offload-binary.1"];
    let mut expected = tools.map(str::to_owned).to_vec();
    expected.extend(own_subcommands().iter().map(|subcommand| format!("offload-bundle-{subcommand}.1")));
    expected.sort();
    assert_eq!(names, expected);
    for (subcommand, names) in options() {
        let page = fs::read_to_string(pages.join(format!("offload-bundle-{subcommand}.1"))).unwrap();
        for name in names {
            assert!(page.contains(&format!("\\-\\-{}", name.replace('-', "\\-"))), "{subcommand}: {name}");
        }
        assert!(page.contains(".SH EXIT STATUS\n") && page.contains(".SH EXAMPLES\n"), "{subcommand}");
    }
    // The page has the bundler's own options, as `--help` lists them.
    let page = fs::read_to_string(pages.join("clang-offload-bundler.1")).unwrap();
    for name in [
        "targets",
        "type",
        "unbundle",
        "list",
        "compress",
        "compression-level",
        "bundle-align",
        "allow-missing-bundles",
    ] {
        assert!(page.contains(&name.replace('-', "\\-")), "{name}");
    }
    let mut lint = 0;
    for name in &names {
        let args = ["-man", "-Tutf8", "-ww", "-z"];
        let Ok(run) = Command::new("groff").args(args).arg(pages.join(name)).output() else {
            return skip("manual pages", "groff is not installed");
        };
        assert!(run.status.success() && run.stderr.is_empty(), "{name}: {}", String::from_utf8_lossy(&run.stderr));
        lint += 1;
    }
    loud(&format!("manual pages: {lint} without a warning of groff"));
}

/// A manual page rendered with 80 columns, and the warnings of `man`.
fn shown(args: &[&str], home: &Path) -> (String, String) {
    let mut man = Command::new("man");
    man.args(args).env("MANWIDTH", "80").env("LC_ALL", "C.UTF-8").env_remove("MANPATH").env("HOME", home);
    let path = format!("{}:/usr/bin:/bin", home.join(".cargo/bin").display());
    let (_, out, said) = text(&man.env("PATH", path).output().unwrap());
    (out, said)
}

#[test]
fn man_finds_the_pages_and_shows_examples_as_they_are_typed() {
    if !Path::new("/usr/bin/man").exists() {
        return skip("manual pages", "man-db is not installed");
    }
    let home = memory_directory();
    fs::create_dir_all(home.path().join(".cargo/bin")).unwrap();
    // The directory that docs/install.md names.
    must(Command::new(PROGRAM).args(["man", "-o"]).arg(home.path().join(".cargo/share/man/man1")));
    for subcommand in own_subcommands() {
        let name = format!("offload-bundle-{subcommand}");
        let (page, said) = shown(&["--warnings", &name], home.path());
        assert_eq!(said, "", "{name}");
        let title = format!("{}(1)", name.to_uppercase());
        let first = page.lines().next().unwrap();
        assert_eq!(
            first,
            format!("{title}{}{title}", " ".repeat(80_usize.saturating_sub(2 * title.len() + 2))),
            "{name}"
        );
        let help = Command::new(PROGRAM).arg0("offload-bundle").args([subcommand, "--help"]).output().unwrap();
        let (_, help, _) = text(&help);
        let examples = help.split_once("\nExamples:\n").unwrap().1;
        let typed: Vec<&str> = examples.lines().filter_map(|line| line.strip_prefix("    offload")).collect();
        assert!(!typed.is_empty() && typed.iter().all(|line| page.contains(&format!(" offload{line}\n"))), "{page}");
    }
    let (page, said) = shown(&["--warnings", "offload-bundle"], home.path());
    assert_eq!(said, "");
    let (_, list) = page.split_once("\nSUBCOMMANDS\n").unwrap();
    let (list, examples) = list.split_once("\nEXAMPLES\n").unwrap();
    for subcommand in all_subcommands() {
        assert!(list.lines().any(|line| line.split_whitespace().next() == Some(subcommand)), "{subcommand}: {list}");
    }
    let (examples, _) = examples.split_once("\nSEE ALSO\n").unwrap();
    let typed = examples.lines().filter_map(|line| line.trim().strip_prefix("offload-bundle "));
    let typed: Vec<&str> = typed.filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(typed, ["inspect", "verify", "recompress", "extract", "kernels"]);
    let synopsis = |page: &str| {
        let (page, _) = shown(&[page], home.path());
        page.split_once("SYNOPSIS\n").unwrap().1.lines().next().unwrap().trim().to_owned()
    };
    assert_eq!(synopsis("offload-bundle-inspect"), "offload-bundle inspect [OPTIONS] [FILE]...");
    assert_eq!(synopsis("offload-bundle-recompress"), "offload-bundle recompress [OPTIONS] --output <OUT> <FILE>");
    assert_eq!(synopsis("offload-bundle"), "offload-bundle [SUBCOMMAND]");
    assert_eq!(synopsis("clang-offload-bundler"), "clang-offload-bundler [OPTIONS]");
    assert_eq!(synopsis("llvm-offload-binary"), "llvm-offload-binary [OPTIONS] [FILE]");
    assert_eq!(synopsis("llvm-extract-bundle-entry"), "llvm-extract-bundle-entry [OPTIONS] [URI]...");
}

#[test]
fn command_lines_that_are_wrong_end_with_2() {
    for args in [
        &["inspect"][..],
        &["inspect", "--no-such-option", "x"],
        &["inspect", "--json", "--each", "x"],
        &["inspect", "--color=sometimes", "x"],
        &["extract", "--kind=hop", "x"],
        &["completions"],
        &["completions", "tcsh"],
        &["man"],
        &["recompress", "x", "-o", "y", "--level=high"],
        &["recompress", "x", "-o", "y", "--level=23"],
        &["recompress", "x", "-o", "y", "--window=9"],
        &["recompress", "x", "-o", "y", "--keep=gfx["],
        &["recompress", "x", "-o", "y", "--drop="],
        &["extract", "x", "--target=gfx90a:xnack"],
        &["extract", "x", "--max-size=many"],
    ] {
        let (status, out, said) = text(&tool_in(Path::new("."), args));
        assert_eq!((status, out.as_str()), (2, ""), "{args:?}: {said}");
        let begins = format!("clang-offload-bundler {}: error: ", args[0]);
        assert!(said.contains(&begins), "{args:?}: {said}");
    }
}

#[test]
fn versions_and_helps_have_the_names_that_are_typed() {
    let version = env!("CARGO_PKG_VERSION");
    for subcommand in own_subcommands() {
        for flag in ["--version", "-V"] {
            let (status, out, _) = text(&tool_in(Path::new("."), &[subcommand, flag]));
            assert_eq!((status, out), (0, format!("clang-offload-bundler {subcommand} {version}\n")));
        }
        let help = |args: &[&str]| text(&tool_in(Path::new("."), args));
        assert_eq!(help(&["help", subcommand]), help(&[subcommand, "--help"]), "{subcommand}");
    }
    let (status, out, _) = text(&tool_in(Path::new("."), &["help", "package"]));
    assert!(status == 0 && out.contains("USAGE: clang-offload-bundler package [options]"), "{out}");
    let (status, out, said) = text(&tool_in(Path::new("."), &["help", "foo"]));
    assert_eq!((status, out.as_str()), (2, ""));
    assert!(all_subcommands().iter().all(|name| said.contains(name)), "{said}");
}

#[test]
fn a_file_whose_name_begins_with_a_dash_is_recognised() {
    let dir = memory_directory();
    for name in ["-dash.hipfb", "-n.so", "-r.so", "-é.so"] {
        fs::write(dir.path().join(name), inspect::bundle()).unwrap();
        for args in [&["inspect"][..], &["extract"], &["kernels"], &["verify"], &["recompress", "-o", "out"]] {
            let (status, _, said) = text(&tool_in(dir.path(), &[args, &[name]].concat()));
            assert_eq!(status, 2, "{said}");
            assert!(said.contains(&format!("'{name}' is a file; type './{name}'")), "{args:?}: {said}");
            assert!(!said.contains("as a value"), "{said}");
        }
        let (status, _, said) = text(&tool_in(dir.path(), &["inspect", "--", name]));
        assert_eq!(status, 0, "{said}");
    }
    let (_, _, said) = text(&tool_in(dir.path(), &["inspect", "-zero"]));
    assert!(said.contains("'-z'") && !said.contains("tip"), "{said}");
}

#[test]
fn the_manual_tells_what_inspect_does_not_find() {
    let dir = memory_directory();
    assert_eq!(text(&tool_in(dir.path(), &["man", "-o", "."])).0, 0);
    let page = fs::read_to_string(dir.path().join("offload-bundle-inspect.1")).unwrap();
    let page = page.replace('\\', "").split_whitespace().collect::<Vec<_>>().join(" ");
    for sentence in
        ["Use --inflate to find bundles that are nested in its code objects", "are not reported; use `verify`"]
    {
        assert!(page.contains(sentence), "{page}");
    }
}

/// The headings of a help text, which are not indented and end with a colon.
fn headings(help: &str) -> Vec<&str> {
    help.lines().filter(|line| line.ends_with(':') && !line.starts_with(' ')).collect()
}

#[test]
fn a_help_has_one_paragraph_then_groups_of_options_and_the_common_ones_are_last() {
    for subcommand in own_subcommands() {
        let (_, help, _) = text(&tool_in(Path::new("."), &[subcommand, "--help"]));
        let (about, _) = help.split_once("\n\nUsage: ").unwrap();
        assert!(about.lines().count() <= 5 && !about.contains("\n\n"), "{about}");
        let headings = headings(&help);
        let common = headings.iter().position(|heading| *heading == "Common options:").unwrap();
        assert_eq!(headings[common + 1], "Examples:", "{subcommand}");
    }
}

#[test]
fn tables_of_columns_and_conditions_are_in_the_manual_page_and_not_in_the_help() {
    let dir = memory_directory();
    assert_eq!(text(&tool_in(dir.path(), &["man", "-o", "."])).0, 0);
    for (subcommand, headings) in
        [("kernels", &["Columns", "Conditions of --fail-on"][..]), ("diff", &["Conditions of --fail-on"])]
    {
        let (_, help, _) = text(&tool_in(dir.path(), &[subcommand, "--help"]));
        let page = fs::read_to_string(dir.path().join(format!("offload-bundle-{subcommand}.1"))).unwrap();
        for heading in headings {
            assert!(!help.contains(&format!("\n{heading}:\n")), "{help}");
            assert!(page.contains(&format!(".SH {}\n", heading.to_uppercase().replace('-', "\\-"))), "{page}");
        }
        assert!(
            help.contains("\nExit status:\n") && help.contains(&format!("man offload-bundle-{subcommand}\n")),
            "{help}"
        );
    }
}

#[test]
fn a_closed_pipe_is_no_error() {
    let dir = memory_directory();
    let ids: Vec<String> = (0..5000).map(|number| format!("hip-amdgcn-amd-amdhsa--gfx{number}")).collect();
    let entries: Vec<(&str, &[u8])> = ids.iter().map(|id| (id.as_str(), &b"x"[..])).collect();
    fs::write(dir.path().join("in"), formats::binary(&entries, 1)).unwrap();
    for command in ["inspect in", "inspect --json in", "extract -n in -o .", "completions bash"] {
        let line = format!("{{ \"$TOOL\" {command}; echo $? >&2; }} | head -n 1");
        let run = shell(&line).current_dir(dir.path()).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&run.stderr), "0\n", "{command}");
    }
    // Nor does it hide one.
    fs::write(dir.path().join("broken"), b"CCOB\x02\0").unwrap();
    for command in ["inspect in in broken", "inspect --json in in broken", "verify in in broken"] {
        let line = format!("{{ \"$TOOL\" {command} 2>/dev/null; echo $? >&2; }} | head -n 1");
        let run = shell(&line).current_dir(dir.path()).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&run.stderr), "1\n", "{command}");
    }
    // Nor does a report that cannot be written.
    for command in ["inspect broken in", "verify broken in", "kernels broken in", "diff broken in"] {
        let run = shell(&format!("\"$TOOL\" {command} > /dev/full")).current_dir(dir.path()).output().unwrap();
        let said = String::from_utf8_lossy(&run.stderr);
        let is_fault = command.starts_with("verify");
        assert!(!run.status.success() && said.contains("'-': No space left on device"), "{command}: {said}");
        assert!(is_fault || said.contains("'broken': "), "{command}: {said}");
    }
    fs::write(dir.path().join("few"), inspect::bundle()).unwrap();
    let run = shell("\"$TOOL\" inspect few --svg=x.svg > /dev/full").current_dir(dir.path()).output().unwrap();
    assert!(!run.status.success() && dir.path().join("x.svg").exists());
}

#[test]
fn no_picture_is_drawn_of_files_that_could_not_be_read() {
    let files: [(&str, &[u8]); 2] = [("in", &inspect::bundle()), ("broken", b"CCOB\x02\0")];
    for (args, is_drawn) in [
        (&["inspect", "in", "broken", "--svg=x.svg"][..], true),
        (&["inspect", "broken", "--svg=x.svg"], false),
        (&["inspect", "missing", "--svg=x.svg"], false),
    ] {
        let outcome = tool(args, &files);
        assert_eq!(outcome.files.contains_key("x.svg"), is_drawn, "{args:?}: {}", outcome.stderr_text());
    }
}

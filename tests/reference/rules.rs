//! The intended differences, each with its reason. Any other difference is a failure.

use std::collections::BTreeSet;

use offload_bundle::id::processors;
use offload_bundle::id::triple::{Form, Triple, normalize};
use offload_bundle::id::{EntryId, Rules};

use super::formats::MAGIC;
use super::harness::{Case, HANGS, Outcome, find, replace};
use super::packager_rules;
use super::view::held_ids;

/// An intended difference.
pub struct Rule {
    pub name: &'static str,
    #[expect(dead_code, reason = "for whoever reads the table")]
    pub reason: &'static str,
    pub explains: Explains,
}

/// The predicate of a rule for two results: LLVM's first, ours second.
pub enum Explains {
    /// Compares the outcomes of a case.
    Outcomes(fn(&Case, &Outcome, &Outcome) -> bool),
    /// Compares the written IDs for a target as typed.
    Ids(fn(&str, &str, &str) -> bool),
}

use Explains::{Ids, Outcomes};

#[rustfmt::skip]
pub const RULES: &[Rule] = &[
    Rule { name: "GPU in the fifth field", explains: Ids(fifth_field),
        reason: "LLVM 22 takes the GPU for an environment and drops it; the documents say that it is the target ID" },
    Rule { name: "dash behind the processor", explains: Ids(trailing_dash),
        reason: "LLVM knows no processor of that name; the dash separates nothing" },
    Rule { name: "unknown processor", explains: Ids(unknown_processor),
        reason: "LLVM writes an empty target ID for it, so that two new GPUs become the same entry" },
    Rule { name: "alias of a processor", explains: Ids(alias),
        reason: "LLVM drops the processor; all that is written has the primary name" },
    Rule { name: "order of features", explains: Ids(feature_order),
        reason: "the canonical form has them in alphabetical order" },
    Rule { name: "default format version 2", explains: Outcomes(format_version),
        reason: "runtimes before ROCm 7 cannot read version 3, so 2 is our default, and the warning says so" },
    Rule { name: "--version", explains: Outcomes(version_text),
        reason: "each tool says what it is" },
    Rule { name: "triple without environment", explains: Outcomes(short_triple),
        reason: "the documents allow it, LLVM up to 20 took it, LLVM 22 refuses it" },
    Rule { name: "-bundle-align=0", explains: Outcomes(no_alignment),
        reason: "LLVM divides by zero" },
    Rule { name: "wrong features", explains: Outcomes(wrong_features),
        reason: "LLVM crashes on a feature without sign, and bundles what no GPU has" },
    Rule { name: "conflicting features", explains: Outcomes(conflict),
        reason: "LLVM finds a conflict depending on how the target IDs sort" },
    Rule { name: "duplicates after normalisation", explains: Outcomes(duplicate),
        reason: "two spellings of one ID would be two entries that no one can tell apart" },
    Rule { name: "a failure writes nothing", explains: Outcomes(writes_nothing),
        reason: "LLVM leaves some outputs written and others not" },
    Rule { name: "broken file", explains: Outcomes(broken_file),
        reason: "LLVM crashes, lists nothing or takes what lies behind the data" },
    Rule { name: "order of features, in bundles and messages", explains: Outcomes(feature_order_everywhere),
        reason: "the canonical form has them in alphabetical order" },
    Rule { name: "several entries fit", explains: Outcomes(ambiguous),
        reason: "LLVM goes by the order of its hash tables; ours by the order in the file and of the requests" },
    Rule { name: "the same ID twice in a bundle", explains: Outcomes(repeated_entry),
        reason: "LLVM takes the last one and says nothing; here it is the first, with a warning, and all are listed" },
    Rule { name: "IDs of other spellings in a bundle", explains: Outcomes(other_spellings),
        reason: "older releases wrote them; LLVM 22 gives up on the whole file" },
    Rule { name: "marker lines inside an entry", explains: Outcomes(nested),
        reason: "LLVM ends an entry at the next end line, whatever entry that ends" },
    Rule { name: "an end line and a start line that share a newline", explains: Outcomes(shared_newline),
        reason: "LLVM finds the second entry if the first one is not wanted, and else loses it" },
    Rule { name: "one file for several outputs", explains: Outcomes(same_output),
        reason: "in LLVM the order of a hash table decides which entry is left, and the others are lost" },
    Rule { name: "a bundle is not its host", explains: Outcomes(bundle_as_host),
        reason: "with -allow-missing-bundles LLVM hands out a whole bundle in which it finds no request as the host's code" },
    Rule { name: "a text bundle without its first newline", explains: Outcomes(|_, _, _| false),
        reason: "LLVM loses the entry whose start line is the first line of the file; with a newline before it, it does the same" },
    Rule { name: "options of LLVM's libraries", explains: Outcomes(library_options),
        reason: "LLVM's tool takes the hidden options of all code in libLLVM; none of them is about bundles" },
    Rule { name: "help names our own options", explains: Outcomes(own_options_named),
        reason: "whoever looks for an option should find all that there are" },
    Rule { name: "subcommands are named", explains: Outcomes(|_, _, _| false),
        reason: "whoever looks for what the tool can do should find it; taken out before the other rules" },
    Rule { name: "options of our own", explains: Outcomes(own_options),
        reason: "LLVM's packager has no limits" },
    Rule { name: "LLVM crashes", explains: Outcomes(crash),
        reason: "a crash is no behaviour to copy" },
    Rule { name: "LLVM hangs", explains: Outcomes(hang),
        reason: "a hang is no behaviour to copy" },
];

/// Returns the names of the rules that explain a difference between outcomes, or an empty list if it is not intended.
pub fn explain(case: &Case, theirs: &Outcome, ours: &Outcome) -> Vec<&'static str> {
    match without_subcommands(case, ours) {
        Some(rest) if rest == *theirs => vec!["subcommands are named"],
        Some(rest) => explain_rest(case, theirs, &rest),
        None => explain_rest(case, theirs, ours),
    }
}

fn explain_rest(case: &Case, theirs: &Outcome, ours: &Outcome) -> Vec<&'static str> {
    if case.called == Some(packager_rules::NAME) {
        let names = packager_rules::explain(case, theirs, ours);
        if !names.is_empty() {
            return names;
        }
    }
    let explains = |rule: &&Rule| matches!(rule.explains, Outcomes(rule) if rule(case, theirs, ours));
    RULES.iter().find(explains).map(|rule| rule.name).into_iter().collect()
}

/// The name of the rule that explains a difference between two IDs.
pub fn explain_id(typed: &str, theirs: &str, ours: &str) -> Option<&'static str> {
    let explains = |rule: &&Rule| matches!(rule.explains, Ids(rule) if rule(typed, theirs, ours));
    RULES.iter().find(explains).map(|rule| rule.name)
}

/// The text after the four fields of the triple.
fn target_id(typed: &str) -> &str {
    typed.splitn(6, '-').nth(5).unwrap_or("")
}

/// The processor's primary name and the features in order.
fn canonical(target_id: &str) -> String {
    let (processor, features) = target_id.split_once(':').unwrap_or((target_id, ""));
    let processor = processors::find(processor).map_or(processor, |known| known.name);
    let mut features: Vec<&str> = features.split(':').filter(|feature| !feature.is_empty()).collect();
    features.sort_unstable();
    [&[processor], features.as_slice()].concat().join(":")
}

/// The target ID in the place of the system or the environment, with its position.
fn early_gpu(fields: &[&str]) -> Option<(usize, String)> {
    (3..=4).filter(|&index| index < fields.len()).find_map(|index| {
        let gpu = fields[index..].join("-");
        let gpu = if gpu.contains(':') { gpu.as_str() } else { gpu.trim_end_matches('-') };
        let processor = gpu.split(':').next().unwrap().trim_end_matches('-');
        let names_gpu = ["gfx", "sm_", "amdgcnspirv"].iter().any(|start| processor.starts_with(start))
            || (processors::find(processor).is_some() && ["amdgpu", "r600"].contains(&Triple::parse(fields[1]).arch()));
        names_gpu.then(|| (index, gpu.to_owned()))
    })
}

/// Returns the ID with four fields before the target ID.
pub fn spelled_out(typed: &str) -> Option<String> {
    let fields: Vec<&str> = typed.split('-').collect();
    let (index, gpu) = early_gpu(&fields)?;
    let triple = normalize(&fields[1..index].join("-"), Form::Three);
    Some(format!("{}-{triple}--{gpu}", fields[0]))
}

fn fifth_field(typed: &str, _: &str, ours: &str) -> bool {
    spelled_out(typed).is_some_and(|same| EntryId::parse(&same).is_ok_and(|id| id.to_string() == ours))
}

fn trailing_dash(typed: &str, theirs: &str, ours: &str) -> bool {
    let Some(processor) = target_id(typed).strip_suffix('-') else { return false };
    let processor = processor.trim_end_matches('-');
    theirs.ends_with('-') && !processor.contains(':') && ours == format!("{theirs}{processor}")
}

fn unknown_processor(typed: &str, theirs: &str, ours: &str) -> bool {
    let id = target_id(typed);
    let unknown = processors::find(id.split(':').next().unwrap_or("")).is_none_or(|known| known.since > 22);
    unknown && theirs.ends_with('-') && ours == format!("{theirs}{}", canonical(id))
}

fn alias(typed: &str, theirs: &str, ours: &str) -> bool {
    let id = target_id(typed);
    let name = id.split(':').next().unwrap_or("");
    !processors::is_offload_arch(name)
        && processors::find(name).is_some()
        && theirs.ends_with('-')
        && (ours == format!("{theirs}{}", canonical(id)) || ours == format!("{theirs}{id}"))
}

fn feature_order(typed: &str, theirs: &str, ours: &str) -> bool {
    let id = target_id(typed);
    theirs.strip_suffix(id).is_some_and(|stem| ours == format!("{stem}{}", canonical(id))) && id.contains(':')
}

fn format_version(_: &Case, theirs: &Outcome, ours: &Outcome) -> bool {
    let two = |outcome: &Outcome| {
        let stderr = outcome.stderr_text().replace("Using default version 3.", "Using default version 2.");
        let stderr = stderr.replace("bundle format version: 3\n", "bundle format version: 2\n");
        let text = |data: &Vec<u8>| replace(data, b"CCOB version 3", b"CCOB version 2");
        let files: Vec<_> = outcome.files.iter().map(|(name, data)| (name.clone(), text(data))).collect();
        (outcome.status, outcome.stdout.clone(), stderr, files)
    };
    let three =
        ours.stderr_text().contains("version 3") || ours.files.values().any(|data| data.starts_with(b"CCOB version 3"));
    two(theirs) == two(ours) && !three
}

fn version_text(case: &Case, theirs: &Outcome, ours: &Outcome) -> bool {
    let says = |outcome: &Outcome| String::from_utf8_lossy(&outcome.stdout).contains("version 22.1.8");
    case.has("version") && theirs.status == 0 && ours.status == 0 && says(theirs) && says(ours)
}

fn short_triple(case: &Case, theirs: &Outcome, ours: &Outcome) -> bool {
    let short = |target: &&str| matches!(target.split('-').count(), 3 | 4);
    let refused = |outcome: &Outcome| outcome.stderr_text().contains("Targets need to follow the format");
    case.values("targets").iter().any(short) && refused(theirs) && !refused(ours)
}

fn no_alignment(case: &Case, _: &Outcome, ours: &Outcome) -> bool {
    case.values("bundle-align").contains(&"0") && ours.status == 1 && ours.stderr_text().contains("at least 1")
}

fn wrong_features(_: &Case, theirs: &Outcome, ours: &Outcome) -> bool {
    const REASONS: &[&str] = &["has no sign", "is set twice", "has no target feature", "has features but no processor"];
    let says = |outcome: &Outcome| REASONS.iter().any(|reason| outcome.stderr_text().contains(reason));
    ours.status == 1 && says(ours) && !says(theirs)
}

fn conflict(case: &Case, theirs: &Outcome, ours: &Outcome) -> bool {
    let says = |outcome: &Outcome| outcome.status == 1 && outcome.stderr_text().contains("with conflicting targets");
    let features = case.values("targets").iter().any(|target| target.contains(':'));
    features && says(theirs) != says(ours)
}

fn duplicate(case: &Case, theirs: &Outcome, ours: &Outcome) -> bool {
    let targets = case.values("targets");
    let written = |typed: &&str| EntryId::parse(typed).map_or_else(|_| (*typed).to_owned(), |id| id.to_string());
    let same = |a: usize, b: usize| targets[a] != targets[b] && written(&targets[a]) == written(&targets[b]);
    let says = |outcome: &Outcome| outcome.stderr_text().contains("Duplicate targets are not allowed");
    (0..targets.len()).any(|b| (0..b).any(|a| same(a, b))) && says(ours) && !says(theirs)
}

fn writes_nothing(case: &Case, theirs: &Outcome, ours: &Outcome) -> bool {
    let untouched = |(name, content): (&String, &Vec<u8>)| {
        case.files.iter().any(|(known, old)| known == name && old.as_ref() == content.as_slice())
    };
    theirs.status == 1 && ours.status == 1 && theirs.stderr == ours.stderr && ours.files.iter().all(untouched)
}

fn broken_file(_: &Case, theirs: &Outcome, ours: &Outcome) -> bool {
    const REASONS: &[&str] = &[" at offset ", "has no end line"];
    let says = ours.stderr_text();
    ours.status == 1 && REASONS.iter().any(|reason| says.contains(reason)) && theirs.stderr != ours.stderr
}

fn crash(_: &Case, theirs: &Outcome, ours: &Outcome) -> bool {
    theirs.crashed() && theirs.status != HANGS && matches!(ours.status, 0 | 1)
}

fn hang(_: &Case, theirs: &Outcome, ours: &Outcome) -> bool {
    theirs.status == HANGS && matches!(ours.status, 0 | 1)
}

fn nested(case: &Case, theirs: &Outcome, ours: &Outcome) -> bool {
    case.nested && theirs.status == 0 && ours.status == 0
}

fn shared_newline(case: &Case, theirs: &Outcome, ours: &Outcome) -> bool {
    let has = |line: &[u8], word: &[u8]| find(line, &[b" ", MAGIC, word].concat()).is_some();
    let follows = |content: &[u8]| {
        let lines: Vec<&[u8]> = content.split(|&byte| byte == b'\n').collect();
        lines.windows(2).any(|pair| has(pair[0], b"__END__ ") && has(pair[1], b"__START__ "))
    };
    case.files.iter().any(|(_, content)| follows(content)) && matches!(theirs.status, 0 | 1) && ours.status == 0
}

fn same_output(case: &Case, theirs: &Outcome, ours: &Outcome) -> bool {
    let outputs = [case.values("output"), case.values("outputs")].concat();
    let twice = outputs.iter().any(|name| outputs.iter().filter(|output| *output == name).count() > 1);
    let refused = ours.status == 1 && ours.stderr_text().contains("several outputs go to this file");
    let lines =
        |outcome: &Outcome| outcome.stdout.split(|&byte| byte == b'\n').map(<[u8]>::to_vec).collect::<BTreeSet<_>>();
    let in_request_order = outputs.contains(&"-") && ours.status == 0 && lines(theirs) == lines(ours);
    twice && theirs.status == 0 && (refused || in_request_order)
}

fn library_options(case: &Case, theirs: &Outcome, ours: &Outcome) -> bool {
    let unknown = |option: &str| {
        let complaint = format!("argument '{option}'");
        case.args.iter().any(|arg| arg == option)
            && !theirs.stderr_text().contains(&complaint)
            && ours.stderr_text().contains(&complaint)
    };
    ["--color", "-color", "-stats", "-time-passes"].into_iter().any(unknown)
}

/// Returns our subcommands, in the order of the help: those of the catalogue in the source.
pub fn own_subcommands() -> Vec<&'static str> {
    let (_, rows) = include_str!("../../src/beyond/cli/catalogue.rs").split_once("subcommands: &[").unwrap();
    let (rows, _) = rows.split_once("    ],\n").unwrap();
    rows.split("Subcommand::").skip(1).map(|row| row.split('"').nth(1).unwrap()).collect()
}

/// Returns our subcommands, and those that are LLVM's other tools.
pub fn all_subcommands() -> Vec<&'static str> {
    [own_subcommands(), vec!["package", "extract-bundle-entry"]].concat()
}

/// Returns our outcome without the text about the subcommands, if that is in an allowed place: a list at the end of a
/// help text, or a line at the end of the messages. The line is allowed for a command line that is empty, only requests
/// help, or begins with a word.
fn without_subcommands(case: &Case, ours: &Outcome) -> Option<Outcome> {
    let subcommands = all_subcommands();
    let mut rest = ours.clone();
    let help = String::from_utf8_lossy(&ours.stdout);
    let lines: Vec<&str> = help.split_inclusive('\n').collect();
    let block = subcommands.len() + 2;
    if case.called.is_none() && lines.iter().filter(|line| explains_subcommands(line)).count() == block {
        // Listings are compared with sorted lines, which puts blank lines first.
        let is_sorted = help.starts_with('\n');
        let (blank, from) = if is_sorted { (3, 0) } else { (0, lines.len() - block - 3) };
        let is_ours = |(at, line): &(usize, &&str)| *at >= from && (explains_subcommands(line) || **line == "\n");
        let kept = lines.iter().enumerate().skip(blank).filter(|line| is_sorted && line.1 == &"\n" || !is_ours(line));
        rest.stdout = kept.map(|(_, line)| *line).collect::<String>().into_bytes();
        return Some(rest);
    }
    let first = case.args.first().map_or("", String::as_str);
    let asks = first.is_empty() && case.args.is_empty() || case.args.len() == 1 && ["-h", "--h"].contains(&first);
    if case.called.is_some() || ours.status != 1 || !asks && (first.is_empty() || first.starts_with(['-', '@'])) {
        return None;
    }
    let said = rest.stderr_text();
    let hint = said.lines().last()?;
    let plain =
        hint.strip_prefix("hint: ")?.strip_suffix(&format!(" explains the subcommands: {}", subcommands.join(", ")))?;
    let meant = plain.strip_prefix("did you mean '").and_then(|rest| rest.split_once("'? "));
    let (meant, help) = meant.map_or((None, plain), |(meant, help)| (Some(meant), help));
    if !help.ends_with(" help'") || meant.is_some_and(|meant| !subcommands.contains(&meant)) {
        return None;
    }
    rest.stderr.truncate(said.len() - hint.len() - 1);
    Some(rest)
}

/// Whether a line of a help text explains the subcommands.
fn explains_subcommands(line: &str) -> bool {
    let is_row =
        |name: &str| line.strip_prefix("  ").and_then(|line| line.strip_prefix(name)?.trim_start().strip_prefix("- "));
    line == "Subcommands that LLVM's tool does not have:\n"
        || (line.starts_with("Help of a subcommand: ") && line.ends_with(" help SUBCOMMAND\n"))
        || all_subcommands().into_iter().any(|name| is_row(name).is_some())
}

/// The packager's options that LLVM's does not have.
const OWN_OPTIONS: [&str; 1] = ["--max-size"];

fn own_options_named(_: &Case, theirs: &Outcome, ours: &Outcome) -> bool {
    let more = ours.stdout.strip_prefix(theirs.stdout.as_slice()).map(String::from_utf8_lossy);
    let help = more.is_some_and(|more| OWN_OPTIONS.iter().any(|option| more.contains(option)));
    help && (theirs.status, &theirs.stderr, &theirs.files) == (ours.status, &ours.stderr, &ours.files)
}

fn own_options(case: &Case, theirs: &Outcome, ours: &Outcome) -> bool {
    let unknown = |outcome: &Outcome, arg: &str| {
        outcome.stderr_text().contains(&format!("Unknown command line argument '{arg}'"))
    };
    let own = |arg: &&String| OWN_OPTIONS.contains(&arg.split('=').next().unwrap());
    case.args.iter().filter(own).any(|arg| unknown(theirs, arg) && !unknown(ours, arg))
}

fn feature_order_everywhere(case: &Case, theirs: &Outcome, ours: &Outcome) -> bool {
    let mut sorted = theirs.clone();
    for typed in case.values("targets") {
        let (from, to) = (target_id(typed), canonical(target_id(typed)));
        if from.contains(':') && from != to {
            for text in sorted.files.values_mut().chain([&mut sorted.stderr]) {
                *text = replace(text, from.as_bytes(), to.as_bytes());
            }
        }
    }
    sorted != *theirs && (sorted == *ours || writes_nothing(case, &sorted, ours))
}

/// Whether an entry fits several requests, or a request several entries.
fn ambiguous(case: &Case, theirs: &Outcome, ours: &Outcome) -> bool {
    let mut rules = Rules::default();
    rules.hip_serves_openmp = case.has("hip-openmp-compatible");
    let parsed = |ids: Vec<String>| ids.iter().filter_map(|id| EntryId::parse(id).ok()).collect::<Vec<_>>();
    let held = parsed(held_ids(case));
    let wanted = parsed(case.values("targets").into_iter().map(str::to_owned).collect());
    let fits = |entry: &EntryId, request: &EntryId| entry.compatibility(request, rules).is_compatible();
    let several = |count: usize| count > 1;
    let alike = theirs.status == ours.status || (theirs.status < 2 && ours.status < 2);
    let ambiguous = held.iter().any(|entry| several(wanted.iter().filter(|request| fits(entry, request)).count()))
        || wanted.iter().any(|request| several(held.iter().filter(|entry| fits(entry, request)).count()));
    case.has("unbundle") && alike && ambiguous
}

fn repeated_entry(case: &Case, theirs: &Outcome, ours: &Outcome) -> bool {
    let held = held_ids(case);
    let repeated = held.iter().collect::<BTreeSet<_>>().len() < held.len();
    let warned = ours.stderr_text().contains("holds several entries");
    repeated && theirs.status == ours.status && (warned || case.has("list"))
}

fn bundle_as_host(case: &Case, theirs: &Outcome, ours: &Outcome) -> bool {
    let differs = |(name, _): &(&String, &Vec<u8>)| theirs.files.get(*name) != ours.files.get(*name);
    let whole_input = |(name, content): (&String, &Vec<u8>)| {
        // Of a fat object, the host's object is left.
        let is_code = |own: &Vec<u8>| own.is_empty() || own.starts_with(&content[..4]) && find(own, MAGIC).is_none();
        case.files.iter().any(|(_, input)| input.as_ref() == content.as_slice())
            && ours.files.get(name).is_some_and(is_code)
    };
    let missing_allowed = case.has("allow-missing-bundles") && theirs.status == 0 && ours.status == 0;
    let is_bundle = case.files.iter().any(|(name, input)| name == "in" && find(input, MAGIC).is_some());
    missing_allowed && is_bundle && theirs.files.iter().filter(differs).all(whole_input)
}

/// Returns the case with a newline before the input, if the input begins with a start line. LLVM's outcome for it is
/// the expected outcome for the input without the newline.
pub fn with_first_newline(case: &Case) -> Option<Case> {
    const COMMENTS: [&str; 3] = ["//", "#", ";"];
    let begins = |line: &[u8]| COMMENTS.iter().any(|comment| line.starts_with(format!("{comment} __CLANG").as_bytes()));
    let mut other = case.clone();
    let (_, input) = other.files.iter_mut().find(|(name, input)| name == "in" && begins(input))?;
    *input = [b"\n", &input[..]].concat().into();
    Some(other)
}

fn other_spellings(_: &Case, theirs: &Outcome, ours: &Outcome) -> bool {
    let gave_up = theirs.status == 1 && theirs.stderr_text().contains("invalid bundle id read from the bundle");
    gave_up && matches!(ours.status, 0 | 1)
}

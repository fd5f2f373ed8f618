//! Differences of LLVM 23's bundler from LLVM 22's. Each rule turns its outcome back into that of LLVM 22, which is
//! then compared with ours by the rules of `rules.rs`.

use offload_bundle::id::{EntryId, processors};

use super::formats::{Ccob, MAGIC};
use super::harness::{Case, Outcome, find, replace};

/// A difference between the releases.
pub struct Rule {
    pub name: &'static str,
    #[expect(dead_code, reason = "for whoever reads the table")]
    pub reason: &'static str,
    /// Turns LLVM 23's outcome into that of LLVM 22. Our outcome shows the messages that must be there.
    pub turns_back: fn(&Case, &mut Outcome, &Outcome),
}

#[rustfmt::skip]
pub const RULES: &[Rule] = &[
    Rule { name: "LLVM 23 without zstd", turns_back: without_zstd,
        reason: "this build of LLVM 23 compresses with zlib and reads nothing else" },
    Rule { name: "opencl is an operating system", turns_back: |_, _, _| {},
        reason: "to LLVM 22 it is an environment; IDs are compared one by one" },
    Rule { name: "GPUs of LLVM 23 in the ID of a host", turns_back: |_, _, _| {},
        reason: "a host has no GPU; LLVM drops what it does not know, and LLVM 23 knows more; compared one by one" },
    Rule { name: "table of times", turns_back: without_times,
        reason: "how long the tool took is no fact about the bundle" },
    Rule { name: "first letters and full stops", turns_back: messages,
        reason: "the texts are those of LLVM 22" },
    Rule { name: "options that are equally near", turns_back: suggestions,
        reason: "of options that are equally near, the order of a hash table picks one" },
    Rule { name: "--version of LLVM 23", turns_back: version,
        reason: "the tool says which release it follows" },
    Rule { name: "unknown type of an empty file", turns_back: unknown_type,
        reason: "a mistyped type looks like success" },
    Rule { name: "bundles are searched inside entries", turns_back: inside_entries,
        reason: "LLVM 23 looks for the next magic, which an entry may hold, and takes its contents apart" },
    Rule { name: "empty words in response files", turns_back: empty_words,
        reason: "LLVM 22 leaves them out" },
    Rule { name: "compressed data without a bundle", turns_back: no_bundle,
        reason: "LLVM 23 hands out the compressed bytes as the host's code, LLVM 22 what they inflate to" },
];

/// Turns an outcome of LLVM 23 into that of LLVM 22. Returns the names of the rules that changed it.
pub fn turn_back(case: &Case, theirs: &mut Outcome, ours: &Outcome) -> Vec<&'static str> {
    let mut names = Vec::new();
    for rule in RULES {
        let before = theirs.clone();
        (rule.turns_back)(case, theirs, ours);
        if *theirs != before {
            names.push(rule.name);
        }
    }
    names
}

/// Returns the name of the rule that explains why LLVM 23 writes an ID differently from LLVM 22.
pub fn explain_id(typed: &str, theirs: &str, ours: &str) -> Option<&'static str> {
    let gpu = typed.splitn(6, '-').nth(5).unwrap_or_default();
    let is_new = processors::find(gpu.split(':').next().unwrap_or_default()).is_some_and(|gpu| gpu.since == 23);
    if is_new && typed.starts_with("host-") && theirs == format!("{ours}{gpu}") {
        return Some("GPUs of LLVM 23 in the ID of a host");
    }
    // Another word of the same length for an operating system.
    let is_system = EntryId::parse(&typed.replace("opencl", "vulkan"));
    let same =
        typed.contains("opencl") && is_system.is_ok_and(|id| id.to_string().replace("vulkan", "opencl") == theirs);
    same.then_some("opencl is an operating system")
}

fn without_zstd(case: &Case, theirs: &mut Outcome, ours: &Outcome) {
    let reads_zstd = case.files.iter().any(|(_, data)| data.starts_with(b"CCOB") && data.get(6) == Some(&1));
    if reads_zstd && theirs.stderr_text().contains("zlib error") {
        *theirs = ours.clone();
        return;
    }
    let zlib = |data: &mut Vec<u8>, ours: &[u8]| {
        let head = |data: &[u8], method: &[u8]| data.starts_with(b"CCOB version ") && data.get(14..24) == Some(method);
        if head(data, b" method 0 ") && head(ours, b" method 1 ") {
            *data = replace(data, b" method 0 ", b" method 1 ");
        }
    };
    for (name, content) in &mut theirs.files {
        let ours = ours.files.get(name).map_or(&[][..], Vec::as_slice);
        zlib(content, ours);
        // A level that zlib does not have: a header without data.
        let is_empty = content.starts_with(b"CCOB") && content.get(6) == Some(&0) && Ccob::read(content).is_none();
        if is_empty && ours.starts_with(b"CCOB version ") {
            *content = ours.to_vec();
        }
    }
    zlib(&mut theirs.stdout, &ours.stdout);
    let says = theirs.stderr_text();
    for line in ["Compression method used: ", "Compression level: "] {
        let find = |text: &str| text.lines().find(|text| text.starts_with(line)).map(str::to_owned);
        if let (Some(from), Some(to), true) = (find(&says), find(&ours.stderr_text()), says.contains("used: zlib")) {
            theirs.stderr = replace(&theirs.stderr, from.as_bytes(), to.as_bytes());
        }
    }
}

fn without_times(_: &Case, theirs: &mut Outcome, _: &Outcome) {
    let text = theirs.stderr_text();
    let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
    while let Some(title) = lines.iter().position(|line| line.trim() == "Timer group for offload bundler") {
        let Some(rows) = lines[title..].iter().position(|line| line.ends_with("  Total\n")) else { return };
        // A ruled line before the title, and an empty one after the last row.
        lines.drain(title - 1..title + rows + 2);
    }
    theirs.stderr = lines.concat().into_bytes();
}

fn messages(_: &Case, theirs: &mut Outcome, _: &Outcome) {
    for (from, to) in [
        ("could not decompress embedded", "Could not decompress embedded"),
        ("compressed bundle header size", "Compressed bundle header size"),
        ("Uncompressed bundle\n", "Uncompressed bundle.\n"),
    ] {
        theirs.stderr = replace(&theirs.stderr, from.as_bytes(), to.as_bytes());
    }
}

fn suggestions(_: &Case, theirs: &mut Outcome, ours: &Outcome) {
    let (text, our_text) = (theirs.stderr_text(), ours.stderr_text());
    let suggests = |line: &str| line.contains(": Did you mean '");
    if text.lines().count() == our_text.lines().count() {
        let pick = |(theirs, ours): (&str, &str)| {
            if suggests(theirs) && suggests(ours) { ours.to_owned() } else { theirs.to_owned() }
        };
        theirs.stderr =
            text.split_inclusive('\n').zip(our_text.split_inclusive('\n')).map(pick).collect::<String>().into_bytes();
    }
}

fn version(case: &Case, theirs: &mut Outcome, _: &Outcome) {
    if case.has("version") {
        theirs.stdout = replace(&theirs.stdout, b"bundler version 23.1.", b"bundler version 22.1.8, not 23.1.");
    }
}

fn unknown_type(case: &Case, theirs: &mut Outcome, ours: &Outcome) {
    let is_empty = case.files.iter().any(|(name, data)| name == "in" && data.is_empty());
    if is_empty && ours.status == 1 && ours.stderr_text().contains("invalid file type specified") {
        *theirs = ours.clone();
    }
}

/// The case has the outputs and the list that our tool must write.
fn inside_entries(case: &Case, theirs: &mut Outcome, ours: &Outcome) {
    let known = !case.wanted.is_empty() || case.file_order.is_some();
    let magics = |data: &[u8]| data.windows(MAGIC.len()).filter(|window| *window == MAGIC).count();
    let holds_magic = || case.files.iter().any(|(_, data)| magics(data) > 1);
    if known && ours.status == 0 && (case.nested || holds_magic()) {
        *theirs = ours.clone();
    }
}

fn empty_words(case: &Case, theirs: &mut Outcome, ours: &Outcome) {
    let quotes = |data: &[u8]| find(data, b"''").is_some() || find(data, b"\"\"").is_some();
    let named = case.files.iter().filter(|(name, _)| case.args.contains(&format!("@{name}")));
    let complains = theirs.stderr_text().contains("Unknown command line argument ''");
    if complains && named.map(|(_, data)| &**data).any(quotes) {
        *theirs = ours.clone();
    }
}

fn no_bundle(case: &Case, theirs: &mut Outcome, ours: &Outcome) {
    let input = case.files.iter().find(|(name, _)| name == "in").map(|(_, data)| &**data);
    let Some(inflated) = input.and_then(Ccob::read).map(|input| input.payload) else { return };
    let compressed = input.and_then(Ccob::read).map(|input| input.comparable());
    if case.has("allow-missing-bundles") && !inflated.starts_with(MAGIC) && ours.status == 0 {
        let outputs = theirs.files.iter_mut().filter(|(name, _)| *name != "in");
        let whole = outputs.filter(|(_, content)| compressed.as_ref() == Some(*content));
        whole.for_each(|(_, content)| content.clone_from(&inflated));
    }
}

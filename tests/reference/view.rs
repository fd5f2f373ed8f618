//! Masks the parts of an outcome that are not compared: the order of listings, the bytes of compressed streams, and
//! numbers that depend on these or on time.

use super::formats::{Ccob, MAGIC};
use super::harness::{Case, Outcome};

/// Lines of verbose output whose numbers depend on time or on the version of the compression library.
const MASKED: &[&str] = &[
    "Total file size",
    "Binary size after compression",
    "Size before decompression",
    "Compression rate",
    "Compression ratio",
    "Compression speed",
    "Decompression speed",
];

/// Returns the form of an outcome that is compared.
pub fn view(case: &Case, outcome: &Outcome) -> Outcome {
    let mut seen = outcome.clone();
    if is_listing(case) {
        seen.stdout = sorted_lines(&seen.stdout);
    }
    seen.stderr = masked(&seen.stderr);
    for content in seen.files.values_mut().chain([&mut seen.stdout]) {
        if let Some(compressed) = Ccob::read(content) {
            *content = compressed.comparable();
        }
    }
    seen
}

/// Whether entries may be listed, according to the arguments or those in a response file.
fn is_listing(case: &Case) -> bool {
    let list = |arg: &String| {
        let arg = arg.trim_start_matches('-');
        arg == "list" || arg.starts_with("list=") || arg == "@first"
    };
    case.args.iter().any(list)
}

fn sorted_lines(text: &[u8]) -> Vec<u8> {
    let mut lines: Vec<&[u8]> = text.split_inclusive(|&byte| byte == b'\n').collect();
    lines.sort_unstable();
    lines.concat()
}

fn masked(text: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(text);
    let mask = |line: &str| {
        if !MASKED.iter().any(|start| line.starts_with(start)) {
            return line.to_owned();
        }
        let mut result = String::new();
        for c in line.chars() {
            let number = c.is_ascii_digit() || c == '.' || c == ',';
            match (number, result.ends_with('#')) {
                (true, true) => {}
                (true, false) => result.push('#'),
                _ => result.push(c),
            }
        }
        // Replaces the result for a time too short to measure.
        result.replace("inf", "#")
    };
    text.split_inclusive('\n').map(mask).collect::<String>().into_bytes()
}

impl Ccob {
    /// The fields of the header except the total, and the inflated payload.
    pub fn comparable(&self) -> Vec<u8> {
        let head = format!(
            "CCOB version {} method {} inflated {} hash {:#x}\n",
            self.version, self.method, self.inflated, self.hash
        );
        [head.as_bytes(), &self.payload].concat()
    }
}

/// The entry IDs in a binary bundle.
pub fn ids(bundle: &[u8]) -> Vec<String> {
    assert!(bundle.starts_with(MAGIC), "no bundle: {}", bundle.escape_ascii());
    let number = |at: usize| usize::try_from(u64::from_le_bytes(bundle[at..at + 8].try_into().unwrap())).unwrap();
    let mut at = MAGIC.len() + 8;
    let mut ids = Vec::new();
    for _ in 0..number(MAGIC.len()) {
        // A broken bundle has the entries before the fault.
        if bundle.len() < at + 24 || bundle.len() - at - 24 < number(at + 16) {
            break;
        }
        let len = number(at + 16);
        ids.push(String::from_utf8_lossy(&bundle[at + 24..at + 24 + len]).into_owned());
        at += 24 + len;
    }
    ids
}

/// The entry IDs in the bundle that a case reads.
pub fn held_ids(case: &Case) -> Vec<String> {
    let Some((_, data)) = case.files.iter().find(|(name, _)| name == "in" || name == "bundle") else { return vec![] };
    if data.starts_with(MAGIC) && data.len() >= MAGIC.len() + 8 {
        return ids(data);
    }
    let text = String::from_utf8_lossy(data);
    let id = |line: &str| line.split_once("__CLANG_OFFLOAD_BUNDLE____START__ ").map(|(_, id)| id.to_owned());
    text.lines().filter_map(id).collect()
}

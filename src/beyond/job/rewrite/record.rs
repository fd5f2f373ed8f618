//! The `RECORD` of a wheel: a CSV file with path, hash and size of each member ("Recording installed projects" of
//! PyPA).
//!
//! A hash is `sha256=` and the digest in URL-safe base64 without padding. `RECORD` itself and its signatures
//! (`RECORD.jws`, `RECORD.p7s`) have no hash.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use std::collections::{HashMap, HashSet};

use crate::base::bytes::text;
use data_encoding::BASE64URL_NOPAD;

/// The ends of the names of the files that sign a `RECORD`, after its own name.
const SIGNATURES: [&str; 2] = [".jws", ".p7s"];

/// The ends of the names of the files that sign a JAR file.
const SIGNATURES_OF_JAR: [&str; 4] = [".SF", ".RSA", ".DSA", ".EC"];

/// The number of fields of a line: path, hash and size.
const FIELDS: usize = 3;

/// Returns whether a member is the `RECORD` of the wheel, rather than of a package in it.
pub(crate) fn is_record(name: &[u8]) -> bool {
    // A package that is contained in the wheel has its own such directory, but not at the top.
    let Some(directory) = name.strip_suffix(b".dist-info/RECORD") else { return false };
    !directory.is_empty() && !directory.contains(&b'/')
}

/// Returns whether a member is a signature of a `RECORD`.
pub(crate) fn is_signature(name: &[u8], record: &str) -> bool {
    let Some(rest) = name.strip_prefix(record.as_bytes()) else { return false };
    SIGNATURES.iter().any(|end| end.as_bytes() == rest)
}

/// Returns whether a member belongs to the signature of a JAR file: a list of hashes of the other members, or the
/// signature of that list. The names may have small letters.
pub(crate) fn is_signature_of_jar(name: &[u8]) -> bool {
    let name = name.to_ascii_uppercase();
    let Some(name) = name.strip_prefix(b"META-INF/") else { return false };
    if name.contains(&b'/') {
        return false;
    }
    name.starts_with(b"SIG-") || SIGNATURES_OF_JAR.iter().any(|end| name.ends_with(end.as_bytes()))
}

/// Returns the text of a hash, as in a `RECORD`: its name, and base64.
pub(crate) fn hash_text(sha256: &[u8]) -> String {
    format!("sha256={}", BASE64URL_NOPAD.encode(sha256))
}

/// The hash and the size of a member, as in a `RECORD`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HashAndSize {
    pub(crate) hash: String,
    pub(crate) size: u64,
}

/// Returns the `RECORD` for a wheel with these members. Correct lines of the `old` one stay as they are, wrong lines
/// are corrected, and lines of members that the wheel does not have are removed.
///
/// `record` is the new name of the `RECORD` itself, and `members` has the new names of the members. `old` has the old
/// names, and `renamed` the new name of each renamed member by its old name.
pub(crate) fn rewrite(
    old: &[u8],
    record: &str,
    members: &[(String, HashAndSize)],
    renamed: &HashMap<String, String>,
) -> Vec<u8> {
    // Readers take the last of several members with one name.
    let hashes: HashMap<&str, &HashAndSize> =
        members.iter().map(|(name, hash_and_size)| (name.as_str(), hash_and_size)).collect();
    let line_end = if old.windows(2).any(|pair| pair == b"\r\n") { "\r\n" } else { "\n" };
    let (mut new, mut seen) = (Vec::new(), HashSet::new());
    for line in Lines(old) {
        let fields = fields(line);
        let Some(old_path) = fields.first().and_then(|path| text(path)) else { continue };
        let new_path = renamed.get(&old_path);
        let path = new_path.unwrap_or(&old_path).clone();
        let expected = match hashes.get(path.as_str()) {
            // `RECORD` cannot contain its own hash, nor that of a signature of itself.
            _ if path == record || is_signature(path.as_bytes(), record) => [String::new(), String::new()],
            Some(hash_and_size) => [hash_and_size.hash.clone(), hash_and_size.size.to_string()],
            // Readers skip empty lines.
            None if path.is_empty() && fields.len() == 1 => {
                new.extend(line);
                continue;
            }
            // The wheel does not have the member of this line.
            None => continue,
        };
        // The fields after the path. A line without a line end is written again, because other lines may follow it.
        let is_right = fields.iter().skip(1).map(Vec::as_slice).eq(expected.iter().map(String::as_bytes));
        if is_right && new_path.is_none() && (line.ends_with(b"\n") || line.ends_with(b"\r")) {
            new.extend(line);
        } else {
            add_line(&mut new, &path, &expected, line_end);
        }
        seen.insert(path);
    }
    // Members without a line get one, except for signatures, which are made after the `RECORD`. `insert` returns false
    // for a name that has a line already.
    let nothing = [String::new(), String::new()];
    for (name, _) in members {
        if is_signature(name.as_bytes(), record) || !seen.insert(name.clone()) {
            continue;
        }
        if let Some(hash_and_size) = hashes.get(name.as_str()) {
            add_line(&mut new, name, &[hash_and_size.hash.clone(), hash_and_size.size.to_string()], line_end);
        }
    }
    if !seen.contains(record) {
        add_line(&mut new, record, &nothing, line_end);
    }
    new
}

/// Adds a line to a `RECORD`, with quotes around a path that CSV requires them for.
fn add_line(record: &mut Vec<u8>, path: &str, [hash, size]: &[String; 2], line_end: &str) {
    let path = if path.contains([',', '"', '\r', '\n']) {
        format!("\"{}\"", path.replace('"', "\"\""))
    } else {
        path.to_owned()
    };
    record.extend(format!("{path},{hash},{size}{line_end}").into_bytes());
}

/// The lines of a CSV file, each with its end. A quoted field may contain line ends.
struct Lines<'r>(&'r [u8]);

impl<'r> Iterator for Lines<'r> {
    type Item = &'r [u8];

    /// Returns the next line. A quote within a quoted field is written twice, so it ends the field and begins it again.
    fn next(&mut self) -> Option<&'r [u8]> {
        let mut is_quoted = false;
        let end = self.0.iter().position(|&byte| {
            is_quoted ^= byte == b'"';
            byte == b'\n' && !is_quoted
        });
        let len = match end {
            Some(end) => end.saturating_add(1),
            None => self.0.len(),
        };
        let (line, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        if line.is_empty() { None } else { Some(line) }
    }
}

/// Returns the fields of a line, without their quotes. Fields after the first [`FIELDS`] are returned as one.
fn fields(line: &[u8]) -> Vec<Vec<u8>> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let (mut fields, mut field) = (Vec::new(), Vec::new());
    let (mut is_quoted, mut bytes) = (false, line.iter().copied().peekable());
    while let Some(byte) = bytes.next() {
        match byte {
            // Two quotes in a quoted field are one.
            b'"' if is_quoted && bytes.next_if_eq(&b'"').is_some() => field.push(b'"'),
            b'"' => is_quoted = !is_quoted,
            b',' if !is_quoted && fields.len() < FIELDS => fields.push(std::mem::take(&mut field)),
            byte => field.push(byte),
        }
    }
    fields.push(field);
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORD: &str = "a-1.dist-info/RECORD";

    fn hash_and_size(seed: u8) -> HashAndSize {
        HashAndSize { hash: hash_text(&[seed; 32]), size: u64::from(seed) }
    }

    fn rewritten(old: &str, members: &[(&str, u8)]) -> String {
        let members: Vec<_> = members.iter().map(|(name, seed)| ((*name).to_owned(), hash_and_size(*seed))).collect();
        String::from_utf8(rewrite(old.as_bytes(), RECORD, &members, &HashMap::new())).unwrap()
    }

    #[test]
    fn signatures_are_named_after_their_record() {
        for (end, is_one) in [(".jws", true), (".p7s", true), ("", false), (".txt", false), (".jws.p7s", false)] {
            assert_eq!(is_signature(format!("{RECORD}{end}").as_bytes(), RECORD), is_one, "{end}");
        }
        assert!(!is_signature(b"b-1.dist-info/RECORD.jws", RECORD));
    }

    #[test]
    fn signatures_of_jar_files_are_in_one_directory() {
        for (name, is_one) in [
            ("META-INF/ACME.SF", true),
            ("META-INF/acme.rsa", true),
            ("meta-inf/A.DSA", true),
            ("META-INF/A.EC", true),
            ("META-INF/SIG-x", true),
            ("META-INF/MANIFEST.MF", false),
            ("META-INF/services/a.SF", false),
            ("x/META-INF/A.SF", false),
            ("A.RSA", false),
        ] {
            assert_eq!(is_signature_of_jar(name.as_bytes()), is_one, "{name}");
        }
    }

    #[test]
    fn only_wrong_lines_change() {
        let [a, b, c] = [1, 2, 3].map(|seed| format!("{},{}", hash_and_size(seed).hash, seed));
        let right = format!("\"a,\"\"x\",{a}\n\"b\",{b}\n\nc,{c}\n{RECORD},,\n");
        let members = [("a,\"x", 1), ("b", 2), ("c", 3)];
        assert_eq!(rewritten(&right, &members), right);
        for (from, to) in [
            (a.clone(), c.clone()),
            (format!("\"b\",{b}"), "\"b\",,".to_owned()),
            (format!("\"b\",{b}"), format!("b,{b},more")),
            (format!("c,{c}"), format!("c,{c}\ngone,{b}")),
            (format!("{RECORD},,"), format!("{RECORD},{a}")),
        ] {
            let wrong = right.replace(&from, &to);
            assert!(wrong != right);
            assert_eq!(
                rewritten(&wrong, &members),
                right.replace("\"b\"", if from.starts_with("\"b") { "b" } else { "\"b\"" })
            );
        }
    }

    #[test]
    fn missing_lines_are_added() {
        let [a, b] = [1, 2].map(|seed| format!("{},{}", hash_and_size(seed).hash, seed));
        let all = format!("a,{a}\nb,{b}\n{RECORD},,\n");
        let signature = format!("{RECORD}.jws");
        let members = [("a", 1), ("b", 2), (signature.as_str(), 3)];
        assert_eq!(rewritten("", &members), all);
        assert_eq!(rewritten(&format!("a,{a}"), &members), all);
        assert_eq!(rewritten(&format!("b,{b}\r\n"), &members), format!("b,{b}\r\na,{a}\r\n{RECORD},,\r\n"));
        // The last of several members with one name.
        assert_eq!(rewritten("", &[("a", 2), ("a", 1)]), format!("a,{a}\n{RECORD},,\n"));
    }

    #[test]
    fn lines_of_renamed_members_keep_their_places() {
        let [a, b] = [1, 2].map(|seed| format!("{},{}", hash_and_size(seed).hash, seed));
        let old = format!("a-1.dist-info/b,{b}\n\"a\",{a}\n{RECORD},,\n");
        let renamed = ["b", "RECORD"].map(|name| (format!("a-1.dist-info/{name}"), format!("a-1+x.dist-info/{name}")));
        let members = [("a-1+x.dist-info/b".to_owned(), hash_and_size(2)), ("a".to_owned(), hash_and_size(1))];
        let new = rewrite(old.as_bytes(), "a-1+x.dist-info/RECORD", &members, &HashMap::from(renamed));
        assert_eq!(String::from_utf8(new).unwrap(), old.replace("a-1.", "a-1+x."));
    }

    #[test]
    fn only_the_wheel_itself_has_a_record() {
        for (name, is) in
            [(RECORD, true), ("x/a-1.dist-info/RECORD", false), (".dist-info/RECORD", false), ("RECORD", false)]
        {
            assert_eq!(is_record(name.as_bytes()), is, "{name}");
        }
    }

    #[test]
    fn lines_keep_their_places_and_quoted_fields_their_line_ends() {
        let [a, b] = [1, 2].map(|seed| format!("{},{}", hash_and_size(seed).hash, seed));
        let right = format!("\"a\nx\",{a}\n{RECORD},,\nb,{b}\n");
        let members = [("a\nx", 1), ("b", 2)];
        assert_eq!(rewritten(&right, &members), right);
        for gone in ["gone", "gone,", ",gone", "\"gone\n\""] {
            assert_eq!(rewritten(&format!("{gone}\n{right}"), &members), right, "{gone}");
        }
    }
}

//! Makes texts and names safe for terminals and directories.
//!
//! A name from a file may be any bytes, of any length. On a terminal it is escaped; in a file name, everything that
//! would make it a path is replaced. Long names are cut first, so that the cost is limited by the displayed length.

use std::borrow::Borrow;
use std::fmt::{self, Display};
use std::io;

use crate::base::bytes;

/// The maximum length of a name in a message, in characters.
const NAME_MAX: usize = 200;

/// A number with commas between groups of three digits.
#[cfg(any(feature = "llvm", feature = "search"))]
pub(crate) fn grouped(number: impl ToString) -> String {
    let (digits, mut out) = (number.to_string(), String::new());
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Returns whether a terminal displays a character instead of interpreting it: it is neither a control character nor
/// one that changes the text direction.
pub fn is_shown(c: char) -> bool {
    let changes_direction =
        matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    !c.is_control() && !changes_direction
}

/// A text that is safe to print on a terminal: characters that it would interpret are escaped.
pub fn printable(text: &str) -> String {
    if text.chars().all(is_shown) {
        return text.to_owned();
    }
    text.chars().map(|c| if is_shown(c) { c.to_string() } else { c.escape_default().to_string() }).collect()
}

/// A printable line in which no CI system finds a command: GitHub, Gitea and Azure obey lines that begin with `::`, and
/// `##[` or `##vso[` anywhere in a line.
#[cfg(feature = "llvm")]
pub(crate) fn inert(line: &str) -> std::borrow::Cow<'_, str> {
    let text = line.trim_start();
    let begins_with_command = text.starts_with("::");
    if !begins_with_command && !line.contains("##") {
        return line.into();
    }
    let escaped = |c: char| c.escape_unicode().to_string();
    let mut inert = line.replace("##[", &format!("#{}[", escaped('#')));
    inert = inert.replace("##vso[", &format!("#{}vso[", escaped('#')));
    if begins_with_command {
        let colon = line.len() - text.len();
        inert.replace_range(colon..=colon, &escaped(':'));
    }
    inert.into()
}

/// The first `most` characters of a text, safe to print, and an ellipsis if the text is longer.
#[doc(hidden)]
pub fn printable_start(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => printable(text.get(..end).unwrap_or(text)) + "...",
        None => printable(text),
    }
}

/// A name from a file, safe to print: escaped byte by byte unless it is printable UTF-8.
pub fn printable_name(name: &[u8]) -> String {
    printable_text(name).unwrap_or_else(|| bytes::escaped(name))
}

/// Writes a name as [`printable_name`] returns it, without having all of its escapes in memory.
pub(crate) fn write_name(name: &[u8], to: &mut dyn io::Write) -> io::Result<()> {
    const BLOCK: usize = 16 << 10;
    if let Some(text) = printable_text(name) {
        return to.write_all(text.as_bytes());
    }
    name.chunks(BLOCK).try_for_each(|block| to.write_all(bytes::escaped(block).as_bytes()))
}

/// Returns a name that is printable UTF-8, or `None` for any other.
fn printable_text(name: &[u8]) -> Option<String> {
    let text = bytes::text(name)?;
    // U+FFFD, which many programs show in place of invalid bytes, is escaped so that it is not mistaken for them.
    text.chars().all(|c| is_shown(c) && c != char::REPLACEMENT_CHARACTER).then_some(text)
}

/// A name from a file, safe to print, of at most `most` characters, and an ellipsis if it is longer.
pub(crate) fn short_name(name: &[u8], most: usize) -> String {
    // No character takes more than four bytes.
    let enough = name.get(..4 * most).unwrap_or(name);
    // The cut may be inside of a character. This character is left out, so that the name does not count as invalid
    // UTF-8. An error without a length means that the bytes end early.
    let start = match String::from_utf8(enough.to_vec()) {
        Err(error) if enough.len() < name.len() && error.utf8_error().error_len().is_none() => {
            enough.get(..error.utf8_error().valid_up_to()).unwrap_or(enough)
        }
        _ => enough,
    };
    let mut text = printable_name(start);
    let mut is_cut = start.len() < name.len();
    if let Some((end, _)) = text.char_indices().nth(most) {
        text.truncate(end);
        is_cut = true;
    }
    if is_cut { text + "..." } else { text }
}

/// Returns a name from a file as messages show it. The text is only made when it is printed.
pub(crate) fn shown(name: &[u8]) -> impl Display + '_ {
    ShownBytes(name)
}

struct ShownBytes<'a>(&'a [u8]);

impl Display for ShownBytes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&short_name(self.0, NAME_MAX))
    }
}

/// Joins words as `a, b or c`.
#[doc(hidden)]
pub fn alternatives<S: Borrow<str>>(words: &[S]) -> String {
    match words.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} or {}", others.join(", "), last.borrow()),
        _ => words.concat(),
    }
}

/// The treatment of slashes in a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slashes {
    Keep,
    Replace,
}

/// Makes a name that a file records safe for a directory, an archive or a terminal. `_` replaces control characters
/// and, with [`Slashes::Replace`], slashes.
#[allow(clippy::disallowed_methods, reason = "of a copy")]
pub(crate) fn harmless(name: &[u8], slashes: Slashes) -> Vec<u8> {
    // Copied, because the bytes of a mapped file may change while they are read.
    let name = name.to_vec();
    let mut safe = Vec::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        let valid = chunk.valid().replace(|c| !is_shown(c) || (c == '/' && slashes == Slashes::Replace), "_");
        safe.extend(valid.into_bytes());
        // Bytes that are not UTF-8 are kept, except for those that are control characters in Latin-1.
        safe.extend(chunk.invalid().iter().map(|&byte| if (0x80..0xa0).contains(&byte) { b'_' } else { byte }));
    }
    safe
}

/// Returns a name from a file as a part of an output file name. `_` replaces each byte except for the ASCII characters
/// that no shell or file system interprets.
pub(crate) fn plain(name: &[u8]) -> String {
    let mut plain = String::with_capacity(name.len());
    for &byte in name {
        let is_plain = byte.is_ascii_alphanumeric() || b"+-._=".contains(&byte);
        plain.push(if is_plain { char::from(byte) } else { '_' });
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut() {
        assert_eq!(printable_start(&"é".repeat(200), 200), "é".repeat(200));
        assert_eq!(printable_start(&"é".repeat(100_000), 200), "é".repeat(200) + "...");
        assert_eq!(printable_start("a\x1b[31mb", 2), "a\\u{1b}...");
    }

    #[test]
    fn names_are_written_as_they_are_returned() {
        for name in [&b"plain"[..], b"", b"\x1b[31m", b"caf\xe9", "é\u{fffd}".as_bytes()] {
            for count in [1, 10_000] {
                let (name, mut written) = (name.repeat(count), Vec::new());
                write_name(&name, &mut written).unwrap();
                assert_eq!(written, printable_name(&name).into_bytes());
            }
        }
    }

    #[test]
    fn long_names_are_cut_before_they_are_escaped() {
        for (name, most, expected) in [
            (&b"short"[..], 5, "short"),
            (b"longer", 5, "longe..."),
            ("éééé".as_bytes(), 3, "ééé..."),
            (b"\xff\xff", 4, "\\xff..."),
            (&"é".repeat(1_000_000).into_bytes()[..999_999], 2, "éé..."),
            (&[b"abc".as_slice(), "é".repeat(9).as_bytes()].concat(), 2, "ab..."),
            (b"", 0, ""),
        ] {
            assert_eq!(short_name(name, most), expected);
        }
    }

    #[test]
    fn names_lose_all_that_does_harm() {
        for (name, kept, replaced) in [
            (&b"a.o"[..], &b"a.o"[..], &b"a.o"[..]),
            (b"../a\n\0b", b"../a__b", b".._a__b"),
            ("\u{9b}m\u{202e}\u{e9}".as_bytes(), "_m_\u{e9}".as_bytes(), "_m_\u{e9}".as_bytes()),
            (b"\x9b1m\xff\xe2\x82\x7f", b"_1m\xff\xe2__", b"_1m\xff\xe2__"),
        ] {
            assert_eq!(harmless(name, Slashes::Keep), kept);
            assert_eq!(harmless(name, Slashes::Replace), replaced);
        }
    }
}

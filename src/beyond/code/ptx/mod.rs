//! PTX, the assembly language that NVIDIA's driver compiles for the GPU that runs it.
//!
//! After blanks and comments, it begins with its version and its target:
//!
//! ```text
//! .version 8.7
//! .target sm_90a, debug
//! .address_size 64
//! ```
//!
//! Source: PTX ISA 9.0.
#![allow(clippy::arithmetic_side_effects, reason = "positions in bytes that are in memory")]

mod header;

use memchr::{memchr, memchr2_iter, memchr3, memmem, memrchr2};

use crate::base::bytes::{len_u64, to_u64};
use crate::base::error::Malformed;
use crate::beyond::base::error::fail_at;
pub(crate) use header::{Header, VERSION};
use header::{after, after_blanks};

/// The largest number of bytes before the first directive that are searched for comments.
const COMMENTS_MAX: usize = 512;

/// Returns the start of PTX with its first directive at `at`, in data with other bytes before it, or `None` if `at` is
/// in the middle of a line. Comments before the directive belong to the PTX, back to a byte that is not text.
pub(crate) fn start(data: &[u8], at: usize) -> Option<usize> {
    let before = data.get(at.saturating_sub(COMMENTS_MAX)..at)?;
    let last_non_text = before.iter().rposition(|byte| !is_text_byte(byte));
    let mut start = at - before.len();
    if let Some(last_non_text) = last_non_text {
        start += last_non_text + 1;
    }
    // If all bytes that were searched are text, a comment may begin before them.
    let is_start_of_text = start == 0 || last_non_text.is_some();
    let has_only_comments = matches!(after_blanks(data.get(start..at)?), Some([]));
    if is_start_of_text && has_only_comments {
        return Some(start);
    }
    // Something other than comments precedes. The PTX begins at the directive if a newline or binary data ends there.
    match before.last() {
        Some(byte) if is_text_byte(byte) && *byte != b'\n' => None,
        _ => Some(at),
    }
}

/// Returns the text at the start of data, up to the first control character. Names of files may be in any encoding.
pub(crate) fn text_at(data: &[u8]) -> &[u8] {
    data.split(|byte| byte.is_ascii() && !is_text_byte(byte)).next().unwrap_or_default()
}

/// Returns the PTX at the start of text. Returns `None` for text that only looks like PTX, because it has no function
/// with a body, and for PTX that is cut short.
pub(crate) fn whole(text: &[u8]) -> Option<&[u8]> {
    let mut ptx = text;
    // Data such as tables of numbers may follow the last statement.
    if let Some(at) = find_foreign(text)
        && let Some(last) = memrchr2(b'}', b';', text.get(..at)?)
    {
        ptx = text.get(..=last)?;
    }
    if is_whole(ptx) { Some(ptx) } else { None }
}

/// Finds the first byte that cannot be PTX: it is not ASCII, and no comment or string can hold it, because its line has
/// no `"`, `/` or `*` before it. A line in a comment of several lines is expected to begin with `*`.
fn find_foreign(text: &[u8]) -> Option<usize> {
    let mut start = 0;
    for line in text.split_inclusive(|&byte| byte == b'\n') {
        if let Some(at) = line.iter().position(|byte| !byte.is_ascii()) {
            let is_quoted = memchr3(b'"', b'/', b'*', line.get(..at)?).is_some();
            if !is_quoted {
                return Some(start + at);
            }
        }
        start += line.len();
    }
    None
}

/// Whether PTX has a function with a body, and passes [`check`].
fn is_whole(ptx: &[u8]) -> bool {
    has_body(ptx) && check(ptx).is_ok()
}

/// Whether PTX has a function with a body: a brace after its declaration.
fn has_body(ptx: &[u8]) -> bool {
    let mut start = 0;
    for end in memchr2_iter(b'{', b';', ptx) {
        let statement = ptx.get(start..end).unwrap_or_default();
        if ptx.get(end) == Some(&b'{') {
            let declares_kernel = memmem::find(statement, b".entry").is_some();
            if declares_kernel || memmem::find(statement, b".func").is_some() {
                return true;
            }
        }
        start = end + 1;
    }
    false
}

/// Whether a byte may be in ASCII text.
fn is_text_byte(byte: &u8) -> bool {
    byte.is_ascii_graphic() || byte.is_ascii_whitespace()
}

/// Checks that PTX is complete: its braces are paired, and its comments and strings end. It may end in zeros.
///
/// # Errors
/// [`Malformed`] at the brace, comment or string without its end.
pub(crate) fn check(data: &[u8]) -> Result<(), Malformed> {
    // Containers pad PTX with zeros.
    let zeros = data.iter().rev().take_while(|&&byte| byte == 0).count();
    let ptx = data.get(..data.len() - zeros).unwrap_or_default();
    if let Some(at) = memchr(0, ptx) {
        return fail_at("a zero byte in PTX", to_u64(at));
    }
    let (mut rest, mut depth, mut outermost_at) = (ptx, 0_usize, 0);
    while let Some(skipped) = rest.iter().position(|byte| matches!(byte, b'{' | b'}' | b'"' | b'/')) {
        let special = rest.get(skipped..).unwrap_or_default();
        let at = len_u64(ptx) - len_u64(special);
        let next = special.get(1..).unwrap_or_default();
        rest = match special {
            [b'{', ..] => {
                if depth == 0 {
                    outermost_at = at;
                }
                depth += 1;
                next
            }
            [b'}', ..] if depth == 0 => return fail_at("a closing brace without an opening one", at),
            [b'}', ..] => {
                depth -= 1;
                next
            }
            [b'"', ..] => match after_string(next) {
                Some(rest) => rest,
                None => return fail_at("a string without end", at),
            },
            [b'/', b'/', ..] => after(next, b"\n").unwrap_or_default(),
            [b'/', b'*', comment @ ..] => match after(comment, b"*/") {
                Some(rest) => rest,
                None => return fail_at("a comment without end", at),
            },
            _ => next,
        };
    }
    if depth > 0 { fail_at("a brace without end", outermost_at) } else { Ok(()) }
}

/// Returns the text after a string literal. `text` begins after the opening quote. The literal ends at its closing
/// quote or at the end of the line; `None` if the text has neither.
pub(crate) fn after_string(text: &[u8]) -> Option<&[u8]> {
    let mut is_escaped = false;
    for (at, &byte) in text.iter().enumerate() {
        if byte == b'\n' || (byte == b'"' && !is_escaped) {
            return text.get(at + 1..);
        }
        is_escaped = byte == b'\\' && !is_escaped;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_strings_and_comments_end() {
        for (data, fault) in [
            ("", None),
            (".entry f() { { ret; } }\0\0", None),
            ("{ // }\n}", None),
            ("{ /* } \" */ }", None),
            (".file 1 \"a}\\\"}b\" {}", None),
            (".file 1 \"C:\\\"\n{}", None),
            ("a / b", None),
            ("{ // }", Some("a brace without end at offset 0")),
            (" { {}", Some("a brace without end at offset 1")),
            ("{} }", Some("a closing brace without an opening one at offset 3")),
            ("{ \"a", Some("a string without end at offset 2")),
            ("{ /* }", Some("a comment without end at offset 2")),
            ("{\0}", Some("a zero byte in PTX at offset 1")),
        ] {
            let found = check(data.as_bytes()).err().map(|error| error.to_string());
            assert_eq!(found.as_deref(), fault, "{data:?}");
        }
    }

    #[test]
    fn ptx_among_other_bytes_has_its_comments_and_ends_with_the_text() {
        let ptx = ".version 8.7\n.target sm_80\n.entry f() { ret; }\n";
        let long = format!("//{}\n", "x".repeat(600));
        for (before, comments, expected) in [
            ("text\0", "// by nvcc\n\n", true),
            ("", "// by nvcc\n/* x */ ", true),
            ("", "", true),
            ("text\0", " ", true),
            ("some text\n", "", true),
            ("some text ", "", false),
            ("text\0", &long, true),
        ] {
            for after in ["", "\0other", "\u{1}"] {
                let at = before.len() + comments.len();
                let data = [before, comments, ptx, after].concat();
                let comments_found = comments.len() < 600 && !before.ends_with("text\n");
                let first = if comments_found { before.len() } else { at };
                let expected = if expected { Some(first) } else { None };
                assert_eq!(start(data.as_bytes(), at), expected, "{data:?}");
                assert_eq!(text_at(&data.as_bytes()[at..]), ptx.as_bytes(), "{data:?}");
            }
        }
        assert!(is_whole(ptx.as_bytes()));
        let named = ".version 8.7\n.target sm_80\n.file 1 \"/J\u{f6}rg/a.cu\"\n.func f { ret; }";
        assert!(text_at(named.as_bytes()) == named.as_bytes() && is_whole(named.as_bytes()));
        for garbage in ["\u{fb}", " &R\u{fb}@&R\u{fb}", "  \u{fb}\n\u{fb}}"] {
            assert_eq!(whole([ptx, garbage].concat().as_bytes()), Some(ptx.trim_end().as_bytes()), "{garbage}");
        }
        for comment in ["// \u{f6}\n", "/*\n * \u{f6}\n*/", ".file 1 \"\u{f6}\"\n"] {
            let commented = [comment, ptx, comment].concat();
            assert_eq!(whole(commented.as_bytes()), Some(commented.as_bytes()), "{comment}");
        }
        for other in ["", ".func f {", ".entry ", "with .entry functions", ".func f; {}", "{}"] {
            let other = format!(".version 8.7\n.target sm_80\n{other}");
            assert!(!is_whole(other.as_bytes()), "{other:?}");
        }
    }
}

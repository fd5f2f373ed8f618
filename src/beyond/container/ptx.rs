//! PTX, the assembly language from which NVIDIA's driver makes code for the GPU that runs it.
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

use memchr::{memchr, memchr2_iter, memchr3, memmem, memrchr2};

use crate::base::bytes::{len_u64, to_u64};
use crate::base::error::{Malformed, wrong};
pub(crate) use crate::llvm::container::magic::ptx::{Header, VERSION};
use crate::llvm::container::magic::ptx::{after, after_blanks};

/// The most bytes of comments before the first directive that are looked for.
const COMMENTS_MAX: usize = 512;

/// Returns the start of the PTX whose first directive is at `at`, in data with other bytes before it: after a byte that
/// is not text, and comments, or `None` if `at` is in the middle of a line.
pub(crate) fn start(data: &[u8], at: usize) -> Option<usize> {
    let before = data.get(at.saturating_sub(COMMENTS_MAX)..at)?;
    let other = before.iter().rposition(|byte| !is_text_byte(byte));
    let start = at - before.len() + other.map_or(0, |other| other + 1);
    let rest = data.get(start..at).and_then(after_blanks).filter(|_| start == 0 || other.is_some());
    let is_comment = rest.is_some_and(<[u8]>::is_empty);
    let is_line = before.last().is_none_or(|byte| *byte == b'\n' || !is_text_byte(byte));
    if is_comment { Some(start) } else { is_line.then_some(at) }
}

/// The text with which data begins: up to the first control character. Names of files may be in any encoding.
pub(crate) fn text_at(data: &[u8]) -> &[u8] {
    data.split(|byte| byte.is_ascii() && !is_text_byte(byte)).next().unwrap_or_default()
}

/// Returns the PTX with which text begins, or `None` unless it has a function with a body, and is complete.
pub(crate) fn whole(text: &[u8]) -> Option<&[u8]> {
    let end = foreign(text).and_then(|at| Some(memrchr2(b'}', b';', text.get(..at)?)? + 1));
    text.get(..end.unwrap_or(text.len())).filter(|ptx| is_whole(ptx))
}

/// The first byte that is not ASCII, on a line without a comment or string before it: what follows PTX may be data,
/// such as tables of numbers.
fn foreign(text: &[u8]) -> Option<usize> {
    let mut end = 0;
    text.split_inclusive(|&byte| byte == b'\n').find_map(|line| {
        end += line.len();
        let at = line.iter().position(|byte| !byte.is_ascii())?;
        let is_quoted = memchr3(b'"', b'/', b'*', line.get(..at)?).is_some();
        (!is_quoted).then_some(end - line.len() + at)
    })
}

/// Whether PTX has a function with a body, and is complete.
fn is_whole(ptx: &[u8]) -> bool {
    let mut start = 0;
    let has_body = memchr2_iter(b'{', b';', ptx).any(|end| {
        let statement = ptx.get(start..end).unwrap_or_default();
        start = end + 1;
        let declares = |directive: &[u8]| memmem::find(statement, directive).is_some();
        ptx.get(end) == Some(&b'{') && (declares(b".entry") || declares(b".func"))
    });
    has_body && check(ptx).is_ok()
}

/// Whether text has a byte, but for letters of other alphabets.
fn is_text_byte(byte: &u8) -> bool {
    byte.is_ascii_graphic() || byte.is_ascii_whitespace()
}

/// Checks that PTX is complete: its braces are paired, and its comments and strings end. It may end in zeros.
///
/// # Errors
/// [`Malformed`] at the brace, comment or string without its end.
pub(crate) fn check(data: &[u8]) -> Result<(), Malformed> {
    let zeros = data.iter().rev().take_while(|&&byte| byte == 0).count();
    let ptx = data.get(..data.len() - zeros).unwrap_or_default();
    if let Some(at) = memchr(0, ptx) {
        return wrong("a zero byte in PTX", to_u64(at));
    }
    let is_special = |byte: &u8| matches!(byte, b'{' | b'}' | b'"' | b'/');
    let (mut rest, mut depth, mut outermost) = (ptx, 0_usize, 0);
    while let Some(special) = rest.iter().position(is_special).and_then(|at| rest.get(at..)) {
        let at = len_u64(ptx) - len_u64(special);
        let ended = |what, after: Option<_>| after.map_or_else(|| wrong(format!("{what} without end"), at), Ok);
        let next = special.get(1..).unwrap_or_default();
        rest = match special {
            [b'{', ..] => {
                outermost = if depth == 0 { at } else { outermost };
                depth += 1;
                next
            }
            [b'}', ..] if depth == 0 => return wrong("a closing brace without an opening one", at),
            [b'}', ..] => {
                depth -= 1;
                next
            }
            [b'"', ..] => ended("a string", after_string(next))?,
            [b'/', b'/', ..] => after(next, b"\n").unwrap_or_default(),
            [b'/', b'*', comment @ ..] => ended("a comment", after(comment, b"*/"))?,
            _ => next,
        };
    }
    if depth > 0 { wrong("a brace without end", outermost) } else { Ok(()) }
}

/// What follows a string, which ends with its line at the latest; none if neither ends.
fn after_string(string: &[u8]) -> Option<&[u8]> {
    let mut is_escaped = false;
    let end = string.iter().position(|&byte| {
        let is_end = byte == b'\n' || (byte == b'"' && !is_escaped);
        is_escaped = byte == b'\\' && !is_escaped;
        is_end
    });
    string.get(end? + 1..)
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
            assert_eq!(check(data.as_bytes()).err().map(|error| error.to_string()).as_deref(), fault, "{data:?}");
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
                assert_eq!(start(data.as_bytes(), at), expected.then_some(first), "{data:?}");
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

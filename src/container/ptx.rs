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

use memchr::{memchr, memmem};

use crate::bytes::{len_u64, text, to_u64};
use crate::error::{Malformed, wrong};

/// The first directives.
pub(crate) struct Header {
    /// The version of the language: 8 and 7.
    pub(crate) version: (u16, u16),
    /// The architecture, such as `sm_90a`.
    pub(crate) sm: String,
    /// Whether it says that addresses have 32 bits.
    is_32_bit: bool,
}

impl Header {
    /// Reads the header of PTX; none if `data` does not begin with one.
    pub(crate) fn of(data: &[u8]) -> Option<Self> {
        let (version, rest) = argument(data, b".version")?;
        let (sm, rest) = argument(rest, b".target")?;
        let (major, minor) = version.split_once('.')?;
        let is_sm = sm.strip_prefix("sm_")?.starts_with(|c: char| c.is_ascii_digit());
        let is_32_bit = address_size(rest).is_some_and(|size| size == "32");
        is_sm.then_some(Self { version: (major.parse().ok()?, minor.parse().ok()?), sm, is_32_bit })
    }

    /// The triple and target as in a bundle entry ID: `nvptx64-nvidia-cuda--compute_90a`.
    pub(crate) fn target(&self) -> String {
        let arch = if self.is_32_bit { "nvptx" } else { "nvptx64" };
        format!("{arch}-nvidia-cuda--{}", self.sm.replacen("sm_", "compute_", 1))
    }
}

/// The size of addresses that follows a target, after other words of the target.
fn address_size(mut rest: &[u8]) -> Option<String> {
    while let [b',', word @ ..] = after_blanks(rest)? {
        rest = after_blanks(word)?;
        rest = rest.get(rest.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count()..)?;
    }
    argument(rest, b".address_size").map(|(size, _)| size)
}

/// The word after a directive with which `data` begins, and the rest.
fn argument<'p>(data: &'p [u8], directive: &[u8]) -> Option<(String, &'p [u8])> {
    let blank = after_blanks(data)?.strip_prefix(directive)?;
    let word = after_blanks(blank).filter(|word| word.len() < blank.len())?;
    let is_part = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_');
    let (word, rest) = word.split_at_checked(word.iter().take_while(is_part).count())?;
    Some((text(word)?, rest))
}

/// What follows blanks and comments; none if a comment has no end.
fn after_blanks(mut data: &[u8]) -> Option<&[u8]> {
    loop {
        data = data.trim_ascii_start();
        data = match data {
            [b'/', b'/', comment @ ..] => after(comment, b"\n")?,
            [b'/', b'*', comment @ ..] => after(comment, b"*/")?,
            _ => return Some(data),
        }
    }
}

fn after<'p>(data: &'p [u8], end: &[u8]) -> Option<&'p [u8]> {
    data.get(memmem::find(data, end)? + end.len()..)
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
    fn ptx_begins_with_its_version_and_target() {
        for (data, target) in [
            (".version 8.7\n.target sm_80\n", Some("compute_80")),
            (".version 8.7\n.target sm_80\n.address_size 64\n", Some("compute_80")),
            (".version 8.7\n.target sm_80, debug // x\n.address_size 64\n", Some("compute_80")),
            ("\n\t .version\t9.0\r\n.target sm_90a, debug", Some("compute_90a")),
            (".version 7.0 .target sm_100f", Some("compute_100f")),
            ("//\n// .version 1.0\n/* .target */ .version /* */ 8.7 // x\n/**/.target sm_75;", Some("compute_75")),
            (".version 8.7\n.address_size 64\n.target sm_80\n", None),
            (".version 8.7\n", None),
            (".version 8\n.target sm_80", None),
            (".version 8.x\n.target sm_80", None),
            (".version8.7\n.target sm_80", None),
            (".version 8.7\n.target gfx90a", None),
            (".version 8.7\n.target sm_", None),
            ("x .version 8.7\n.target sm_80", None),
            ("/* .version 8.7\n.target sm_80", None),
            ("// no end", None),
            ("", None),
        ] {
            let target = target.map(|target| format!("nvptx64-nvidia-cuda--{target}"));
            assert_eq!(Header::of(data.as_bytes()).map(|header| header.target()), target, "{data:?}");
        }
        assert_eq!(Header::of(b".version 12.34 .target sm_80").unwrap().version, (12, 34));
        for rest in
            ["\n.address_size 32", ", debug\n.address_size 32\n", ",map_f64_to_f32 , debug/**/.address_size 32;"]
        {
            let target = Header::of(format!(".version 3.2\n.target sm_20{rest}").as_bytes()).unwrap().target();
            assert_eq!(target, "nvptx-nvidia-cuda--compute_20", "{rest}");
        }
    }

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
}

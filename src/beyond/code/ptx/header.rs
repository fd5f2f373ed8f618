//! The beginning of PTX: after blanks and comments, its version and its target.
//!
//! ```text
//! .version 8.7
//! .target sm_90a, debug
//! .address_size 64
//! ```
//!
//! Source: PTX ISA 9.0.
#![allow(clippy::arithmetic_side_effects, reason = "positions in bytes that are in memory")]

use memchr::memmem;

use crate::base::bytes::text;

/// The first directive.
pub(crate) const VERSION: &[u8] = b".version";

/// The values of the first directives of PTX.
pub(crate) struct Header {
    /// The version of the language, such as 8 and 7.
    pub(crate) version: (u16, u16),
    /// The architecture, such as `sm_90a`.
    pub(crate) sm: String,
    /// Whether the header says that addresses have 32 bits.
    is_32_bit: bool,
}

impl Header {
    /// Reads the header of PTX. Returns `None` if `data` does not begin with one.
    pub(crate) fn of(data: &[u8]) -> Option<Self> {
        // No blank is needed between the version and `.target`, so the digits are read one by one.
        let (major, rest) = word(directive(data, VERSION)?, u8::is_ascii_digit)?;
        let (minor, rest) = word(rest.strip_prefix(b".")?, u8::is_ascii_digit)?;
        let (sm, rest) = word(directive(rest, b".target")?, is_word_byte)?;
        if !sm.strip_prefix("sm_")?.starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        let is_32_bit = read_address_size(rest).as_deref() == Some("32");
        Some(Self { version: (major.parse().ok()?, minor.parse().ok()?), sm, is_32_bit })
    }

    /// The triple and target as in a bundle entry ID: `nvptx64-nvidia-cuda--compute_90a`.
    pub(crate) fn target(&self) -> String {
        let arch = if self.is_32_bit { "nvptx" } else { "nvptx64" };
        format!("{arch}-nvidia-cuda--{}", self.sm.replacen("sm_", "compute_", 1))
    }
}

/// Reads the size of addresses from the directive after `.target`. The target may have options, such as `, debug`,
/// which are skipped. Returns `None` if another directive follows: then addresses have 64 bits.
fn read_address_size(mut rest: &[u8]) -> Option<String> {
    while let [b',', option @ ..] = after_blanks(rest)? {
        rest = word(after_blanks(option)?, is_word_byte)?.1;
    }
    let (size, _) = word(directive(rest, b".address_size")?, is_word_byte)?;
    Some(size)
}

/// Returns the rest of `data` from the argument of the directive `name` on. Returns `None` if `data` begins with
/// another word: a directive ends with a blank or a comment, so `.versions` is not `.version`.
pub(crate) fn directive<'p>(data: &'p [u8], name: &[u8]) -> Option<&'p [u8]> {
    let after_word = after_blanks(data)?.strip_prefix(name)?;
    let argument = after_blanks(after_word)?;
    let has_blank = argument.len() < after_word.len();
    if has_blank { Some(argument) } else { None }
}

/// Splits `data` after the bytes at its start that are part of a word. Returns the word and the rest.
fn word(data: &[u8], is_part: fn(&u8) -> bool) -> Option<(String, &[u8])> {
    let (word, rest) = data.split_at_checked(data.iter().take_while(|byte| is_part(byte)).count())?;
    Some((text(word)?, rest))
}

fn is_word_byte(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || *byte == b'_'
}

/// Returns the bytes after blanks and comments, or `None` if a comment has no end.
pub(crate) fn after_blanks(mut data: &[u8]) -> Option<&[u8]> {
    loop {
        data = data.trim_ascii_start();
        data = match data {
            [b'/', b'/', comment @ ..] => after(comment, b"\n")?,
            [b'/', b'*', comment @ ..] => after(comment, b"*/")?,
            _ => return Some(data),
        }
    }
}

/// Returns the bytes after the first occurrence of `end`, or `None` without one.
pub(crate) fn after<'p>(data: &'p [u8], end: &[u8]) -> Option<&'p [u8]> {
    data.get(memmem::find(data, end)? + end.len()..)
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
            (".version 3.2.target sm_35.address_size 64 .entry x", Some("compute_35")),
            (".version 8.7.1.target sm_35", None),
            (".version 8.70000 .target sm_35", None),
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
}

//! File names taken apart as LLVM does: `.o` is an extension without a stem, `.` and `..` have none.

use crate::error::is_shown;

/// The last component of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileName<'a> {
    /// What stands before the last dot.
    pub(super) stem: &'a [u8],
    /// The rest, with the dot; empty if there is none.
    pub(super) extension: &'a [u8],
}

impl<'a> FileName<'a> {
    /// The file name at the end of a path of any bytes.
    pub(super) fn of(path: &'a [u8]) -> Self {
        let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        let dot = name.iter().rposition(|&byte| byte == b'.').filter(|_| !matches!(name, b"." | b".."));
        let (stem, extension) = dot.and_then(|dot| name.split_at_checked(dot)).unwrap_or((name, b""));
        Self { stem, extension }
    }
}

/// What becomes of the slashes in a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slashes {
    Keep,
    Replace,
}

/// A name that a file claims as it may stand in a directory, in an archive or on a terminal: `_` stands for all that would
/// end it, make a path of it or be obeyed.
#[allow(clippy::disallowed_methods, reason = "of a copy")]
pub(super) fn harmless(name: &[u8], slashes: Slashes) -> Vec<u8> {
    let is_harmful = |c: char| !is_shown(c) || (c == '/' && slashes == Slashes::Replace);
    // A copy: the bytes of a mapped file may change while they are walked.
    let name = name.to_vec();
    let mut safe = Vec::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        safe.extend(chunk.valid().replace(is_harmful, "_").into_bytes());
        // Where text is no UTF-8, these bytes are control characters.
        safe.extend(chunk.invalid().iter().map(|&byte| if (0x80..0xa0).contains(&byte) { b'_' } else { byte }));
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn names_are_taken_apart_at_the_last_dot() {
        for (path, stem, extension) in [
            ("dir/a.b.o", "a.b", ".o"),
            ("a", "a", ""),
            ("a.", "a", "."),
            (".o", "", ".o"),
            ("..o", ".", ".o"),
            ("..", "..", ""),
            ("d.x/.", ".", ""),
            ("", "", ""),
        ] {
            let expected = FileName { stem: stem.as_bytes(), extension: extension.as_bytes() };
            assert_eq!(FileName::of(path.as_bytes()), expected, "{path}");
        }
    }
}

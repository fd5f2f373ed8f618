//! Splits file names as LLVM does. `.o` is an extension without a stem. `.` and `..` have no extension. A path that
//! ends with a slash is a directory, named `.`. Unlike in LLVM, `//host` is a file name, not the root of a network.

/// The last component of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileName<'a> {
    /// The part before the last dot.
    pub(super) stem: &'a [u8],
    /// The part from the last dot on; empty if there is no extension.
    pub(super) extension: &'a [u8],
}

impl<'a> FileName<'a> {
    /// Returns the file name at the end of a path, which may contain any bytes. As in LLVM, it is `.` after a closing
    /// slash, and `/` for a root directory.
    pub(super) fn of(path: &'a [u8]) -> Self {
        let name = match path.rsplit(|&byte| byte == b'/').next().unwrap_or_default() {
            // After a closing slash.
            b"" if path.iter().any(|&byte| byte != b'/') => b".",
            // The path consists of slashes, or is empty.
            b"" => path.get(..1).unwrap_or_default(),
            name => name,
        };
        if !matches!(name, b"." | b"..")
            && let Some(dot) = name.iter().rposition(|&byte| byte == b'.')
            && let Some((stem, extension)) = name.split_at_checked(dot)
        {
            return Self { stem, extension };
        }
        Self { stem: name, extension: b"" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            ("d.x/", ".", ""),
            ("d.x//", ".", ""),
            ("/", "/", ""),
            ("//", "/", ""),
            ("", "", ""),
        ] {
            let expected = FileName { stem: stem.as_bytes(), extension: extension.as_bytes() };
            assert_eq!(FileName::of(path.as_bytes()), expected, "{path}");
        }
    }
}

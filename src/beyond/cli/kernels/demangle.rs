//! Demangles the names of kernels.
//!
//! Names may be hostile: a few bytes can expand to gigabytes of text, because a mangled name refers to its own parts.
//! The parser limits its recursion. This module limits the lengths, and the expressions that make the parser try
//! everything twice. Limits are in proportion to the name, and invalid names are counted. So the time for the names
//! of a file is in proportion to the file.

use std::fmt::{self, Write};
use std::sync::atomic::{AtomicUsize, Ordering};

use cpp_demangle::{DemangleOptions, ParseOptions, Symbol};

/// The longest name that is demangled, and the longest result, in bytes. The longest names of real kernels have a few
/// thousand.
const MANGLED_MAX: usize = 16 << 10;
const DEMANGLED_MAX: usize = 64 << 10;

/// The most work for each byte of a name. Each written byte and each call of the writer is a unit of work.
const WORK_MAX: usize = 64;

/// The depth to which the parser reads, enough for 16 nested template arguments. The parser reads some parts twice if
/// it fails after them, so each level may double its work: up to half a second for a name that is not valid.
const DEPTH_MAX: u32 = 96;

/// Compilers write no invalid names, and reading one to the full depth may take half a second. So after this many
/// invalid names, further names of a file are read only to [`DEPTH_AFTER_INVALID`].
const INVALID_MAX: usize = 64;
/// The depth to which names are read after [`INVALID_MAX`] invalid ones.
const DEPTH_AFTER_INVALID: u32 = 40;

/// The most expressions with `new` or `delete` in a name. If the parser fails after such an expression, it goes back
/// and reads the expression again, so nested ones double its work. The names of real kernels have none.
const NEW_AND_DELETE_MAX: usize = 8;

/// Demangles the names of a file.
#[derive(Debug, Default)]
pub(crate) struct Demangler {
    /// The number of invalid names so far.
    invalid: AtomicUsize,
}

impl Demangler {
    /// Returns the C++ name of a kernel, or `None` if the name is not mangled as in the Itanium ABI, is too long or too
    /// deep.
    pub(crate) fn demangled(&self, name: &[u8]) -> Option<String> {
        if !name.starts_with(b"_Z") || name.len() > MANGLED_MAX || count_new_and_delete(name) > NEW_AND_DELETE_MAX {
            return None;
        }
        let depth = match self.invalid.load(Ordering::Relaxed) {
            0..INVALID_MAX => DEPTH_MAX,
            _ => DEPTH_AFTER_INVALID,
        };
        let Ok(symbol) = Symbol::new_with_options(name, &ParseOptions::default().recursion_limit(depth)) else {
            self.invalid.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        let mut out = BoundedText { text: String::new(), work_left: name.len() * WORK_MAX };
        symbol.structured_demangle(&mut out, &DemangleOptions::default()).ok()?;
        Some(out.text)
    }
}

/// Counts `new` and `delete` in a name, for [`NEW_AND_DELETE_MAX`]. Mangled, they are `nw`, `na` (`new[]`), `dl` and
/// `da`. The count may be too high, but never lower than the parser's.
///
/// Identifiers may have these letters, and are skipped: each follows its length. A literal that is not plain may end
/// with digits that look like the length of an identifier. So after the first such literal, nothing is skipped any
/// more.
fn count_new_and_delete(name: &[u8]) -> usize {
    // The name of a function with internal linkage begins with `_ZL`. Any other `L` is read as the start of a literal.
    let mut rest = name.strip_prefix(b"_ZL").unwrap_or(name);
    let (mut previous, mut count) = (NO_LETTER, 0_usize);
    let mut skips_identifiers = true;
    while let Some((&first, after)) = rest.split_first() {
        let is_identifier = skips_identifiers && first.is_ascii_digit() && is_length(rest, previous);
        skips_identifiers &= first != b'L' || is_plain_literal(after);
        count += usize::from(matches!(rest, [b'n', b'w' | b'a', ..] | [b'd', b'l' | b'a', ..]));
        if is_identifier && let Some(after) = after_identifier(rest) {
            (previous, rest) = (NO_LETTER, after);
        } else {
            (previous, rest) = (first, after);
        }
    }
    count
}

/// Stands for the byte before a number, if the number begins the name or follows an identifier.
const NO_LETTER: u8 = b' ';

/// Returns whether the number at the start of `text` is the length of an identifier. `previous` is the byte before it
/// in the name, or [`NO_LETTER`]. A number after a digit, or after a letter that gives it another meaning, is not: `C1`
/// is a constructor, and `S1_` refers to an earlier part. Nor is a number that may be the end of a literal, before `E`,
/// or of an index, before `_`.
fn is_length(text: &[u8], previous: u8) -> bool {
    let rest = skip(text, |byte| byte.is_ascii_digit());
    let may_be_index = rest.first() == Some(&b'_');
    // A literal ends with `E` or `_`. A number at the end of the name has no identifier after it.
    let may_end_literal = matches!(skip(rest, is_hexadecimal).first(), None | Some(b'E' | b'_'));
    let belongs_to_letter = matches!(previous, b'v' | b'_' | b'.' | b'C' | b'D' | b'F' | b'L' | b'S');
    !may_be_index && !may_end_literal && !previous.is_ascii_digit() && !belongs_to_letter
}

/// Returns whether the text after an `L` is a plain literal, which can only be read in one way: a mangled name, or a
/// type and a number. The type is an identifier, identifiers in a namespace, a builtin type or a substitution.
fn is_plain_literal(text: &[u8]) -> bool {
    let value = match text {
        [b'_', b'Z', ..] => return true,
        [b'N', names @ ..] => {
            let mut rest = after_substitution(names).unwrap_or(names);
            while let Some(next) = after_identifier(rest) {
                rest = next;
            }
            rest.strip_prefix(b"E")
        }
        [b'S', ..] => after_substitution(text),
        // These letters are not types themselves: the type that `restrict` qualifies, or a vendor's name, follows.
        [b'r' | b'u', ..] => None,
        [b'a'..=b'z', value @ ..] => Some(value),
        _ => after_identifier(text),
    };
    let Some(value) = value else { return false };
    // `n` is the sign of a negative number.
    let digits = value.strip_prefix(b"n").unwrap_or(value);
    // Floating-point numbers have hexadecimal digits.
    skip(digits, is_hexadecimal).first() == Some(&b'E')
}

/// Returns the bytes after an identifier, which begins with its length. Returns `None` if the text has no number, or is
/// shorter than the number says.
fn after_identifier(text: &[u8]) -> Option<&[u8]> {
    let rest = skip(text, |byte| byte.is_ascii_digit());
    let number = text.get(..text.len().checked_sub(rest.len())?)?;
    rest.get(std::str::from_utf8(number).ok()?.parse().ok()?..)
}

/// Returns the bytes after a substitution such as `S1_`, or `None` if the text begins with something else.
fn after_substitution(text: &[u8]) -> Option<&[u8]> {
    skip(text.strip_prefix(b"S")?, |byte| byte.is_ascii_digit() || byte.is_ascii_uppercase()).strip_prefix(b"_")
}

fn is_hexadecimal(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

/// Skips the bytes at the start that `is_skipped` selects.
fn skip(text: &[u8], is_skipped: impl Fn(u8) -> bool) -> &[u8] {
    let end = text.iter().position(|byte| !is_skipped(*byte)).unwrap_or(text.len());
    text.get(end..).unwrap_or_default()
}

/// The demangled name as it is written. Writing fails beyond [`DEMANGLED_MAX`], and when no work is left.
struct BoundedText {
    text: String,
    /// The units of work that are left, see [`WORK_MAX`].
    work_left: usize,
}

impl Write for BoundedText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.text.len() + text.len() > DEMANGLED_MAX {
            return Err(fmt::Error);
        }
        // Even writing an empty text costs work.
        self.work_left = self.work_left.checked_sub(text.len() + 1).ok_or(fmt::Error)?;
        self.text.push_str(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demangled(name: &[u8]) -> Option<String> {
        Demangler::default().demangled(name)
    }

    #[test]
    fn names_of_kernels_are_demangled() {
        for (name, expected) in [
            (&b"_Z3fooPfi"[..], Some("foo(float*, int)")),
            (b"_ZN2ns3barIiEEvPT_", Some("void ns::bar<int>(int*)")),
            (b"_ZN12_GLOBAL__N_13barEv", Some("(anonymous namespace)::bar()")),
            (b"plain", None),
            (b"__omp_offloading_10302_2b_main_l10", None),
            (b"_Z", None),
            (b"_Z3fo", None),
            (b"_Z3f\xffo", None),
        ] {
            assert_eq!(demangled(name).as_deref(), expected);
        }
    }

    /// The reference to a part of a name, by its number in the order of the text.
    fn part(number: usize) -> String {
        let digits = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
        match number.checked_sub(1) {
            None => "S_".to_owned(),
            Some(at) if at < 36 => format!("S{}_", char::from(digits[at])),
            Some(at) => format!("S{}{}_", char::from(digits[at / 36]), char::from(digits[at % 36])),
        }
    }

    #[test]
    fn names_with_many_new_and_delete_are_not_parsed() {
        for (name, count) in [
            ("_ZplAnwnwnwdsscE", 3),
            ("_Z1aDTnw1bnw1bE", 2),
            ("_Z1fIXdldanaE", 3),
            // In identifiers.
            ("_ZN4data4downE7dlnwdana", 0),
            ("_Z8newdatadv", 0),
            // Numbers that are something else hide nothing.
            ("_Z1fIXLf9aEdldldldl", 4),
            ("_Z1fDF16bdldldldldldldldl", 8),
            ("_ZN1av15dldldldldldldldl", 8),
            ("_Z1fLj12Edldldldldldl", 6),
            ("_ZZ1fvE1a_5dldlnw", 3),
            ("_Z1aDTplLi7x0EnwnwdlsscE", 3),
            ("_Z1aIXplLPi7x0EnwnwdlsscE", 3),
            ("_Z1aIXplL1bI1cLi3EE7x0EnwnwdlsscE", 3),
            ("_Z1aIXplLN1b1EE7x0EnwnwdlsscE", 3),
            ("_ZN1aC5nwdlEv", 2),
            // Plain literals.
            ("_Z1aILi3ELin16ELj0E4dataE", 0),
            ("_Z1aILN2ns4dataE1ELS0_1E4dldaLNS1_1bE2EL1a3EE4data", 0),
            ("_ZL4dataI4dldaLb1EEvv", 0),
            ("_Z1aILf3da00000EE4data", 1),
        ] {
            assert_eq!(count_new_and_delete(name.as_bytes()), count, "{name}");
        }
        // Parsing any of these names would take seconds or hours.
        for piece in ["nw", "na", "dl", "da", "nw1b"] {
            for start in
                ["_ZplA", "_Z1aDT", "_Z1aIX", "_Zpl", "_Z1aDTplLi240x0E", "_Z1aIXplLf240a9E", "_Z1aDTplL1bIiE240x0E"]
            {
                assert_eq!(demangled([start, &piece.repeat(60), "dsscE"].concat().as_bytes()), None);
            }
        }
        assert_eq!(demangled(b"_Z1fdl").as_deref(), Some("f(double, long)"));
    }

    /// A name in which each argument has the argument before it twice, so the text doubles.
    fn doubling(times: usize) -> Option<String> {
        let arguments = (0..times).map(|at| format!("1aI{0}{0}E", part(2 * at + 1))).collect::<String>();
        demangled(format!("_Z1f1aIiiE{arguments}").as_bytes())
    }

    fn nested(depth: usize) -> String {
        ["_Z1f", &"1aI".repeat(depth), "i", &"E".repeat(depth)].concat()
    }

    #[test]
    fn hostile_names_take_little_memory() {
        assert_eq!(doubling(1).as_deref(), Some("f(a<int, int>, a<a<int, int>, a<int, int> >)"));
        assert!(doubling(4).unwrap().len() > 400);
        // Each byte of a name pays for a few written bytes: many names cost no more than one name of the same length.
        for times in [12, 20, 40] {
            assert_eq!(doubling(times), None, "{times}");
        }
        assert!(demangled(nested(16).as_bytes()).is_some() && demangled(nested(20).as_bytes()).is_none());
        // Each of these names takes long to read to the full depth.
        let demangler = Demangler::default();
        demangler.invalid.store(INVALID_MAX, Ordering::Relaxed);
        for number in 0..20_000 {
            assert_eq!(demangler.demangled(format!("_ZN1a{}{number}", "1aS_I".repeat(16)).as_bytes()), None);
        }
        assert!(
            demangler.demangled(nested(4).as_bytes()).is_some() && demangler.demangled(nested(16).as_bytes()).is_none()
        );
        for piece in
            ["P", "1aI", "1aS_I", "N", "DpT_", "IJ", "L", "FvS_E", "sr", "cv", "U8__vectorP", "St", "Z1fv", "S_", "T_"]
        {
            for len in [100, MANGLED_MAX, 100 * MANGLED_MAX] {
                for tail in ["", "i", "E", "Ev"] {
                    let name = ["_Z1f", &piece.repeat(len / piece.len()), tail].concat();
                    assert!(demangled(name.as_bytes()).is_none_or(|name| name.len() <= DEMANGLED_MAX));
                }
            }
        }
    }
}

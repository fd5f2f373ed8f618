//! URIs of code objects, as ROCm's debuggers and profilers and LLVM 23's `llvm-extract-bundle-entry` write them, and
//! the bytes that they name.
//!
//! ```text
//! uri     = "file://" path [ ("#" | "?") field { "&" field } ]
//! field   = "offset=" number | "size=" number
//!         | "member=" name [ ";" number ] | "inflated-offset=" number | "inflated-size=" number
//! number  = decimal, hexadecimal after "0x", or octal after "0"
//! ```
//!
//! `path` and `name` are percent-encoded. A URI without a range names the whole file. The fields of the second line are
//! ours:
//!
//! - each `member` is a step to data that had to be inflated, from the file on: the name of a member, a section or a
//!   bundle entry, and its number among the steps of the same name, counted from 1. `offset` then counts from the start
//!   of that data;
//! - `inflated-offset` and `inflated-size` are a range of the inflated bytes of the compressed bundle at `offset`.

use std::ffi::OsStr;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode, percent_encode};

use crate::base::bytes::{len_of, text};
use crate::base::display::shown;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::io::input::Slice;
use crate::base::io::sys;

/// The first characters of a URI.
pub(crate) const SCHEME: &[u8] = b"file://";

/// The first characters of a URI that names memory of a process.
pub(crate) const MEMORY: &[u8] = b"memory://";

/// The bytes that are escaped in a URI.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// The URI of a code object, or of any other range of bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uri {
    pub(crate) path: PathBuf,
    /// The steps to the inflated data that `range` counts in; empty if it counts in the file itself.
    pub(crate) steps: Vec<UriStep>,
    /// The range in the file or member; `None` for all of it.
    pub(crate) range: Option<Range<u64>>,
    /// The range in the inflated bytes of the compressed bundle at `range`; `None` for stored bytes.
    pub(crate) inflated: Option<Range<u64>>,
}

/// A step of the path to inflated data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UriStep {
    pub(crate) name: Vec<u8>,
    /// The number among the steps of this name from the same place, counted from 1.
    pub(crate) number: u64,
}

impl Uri {
    /// Parses a URI.
    ///
    /// # Errors
    /// An [`Error`] of the kind [`Usage`](crate::ErrorKind::Usage) for any other text.
    pub fn parse(uri: &OsStr) -> Result<Self> {
        Self::read(uri.as_encoded_bytes()).map_err(|reason| Error::usage(&format!("'{}': {reason}", uri.display())))
    }

    /// Parses a URI. The error is a sentence without the URI.
    fn read(uri: &[u8]) -> Result<Self, String> {
        let Some(rest) = uri.strip_prefix(SCHEME) else { return Err(wrong_scheme(uri).to_owned()) };
        let mut parts = rest.splitn(2, |byte| b"#?".contains(byte));
        let path = PathBuf::from(sys::os_str(&percent_decoded(parts.next().unwrap_or_default())).into_owned());
        if path.as_os_str().is_empty() {
            return Err("the URI names no file".to_owned());
        }
        let mut uri = Self { path, steps: Vec::new(), range: None, inflated: None };
        if let Some(fields) = parts.next() {
            uri.read_fields(fields)?;
        }
        Ok(uri)
    }

    /// Reads the fields after the path. Each number may be given once; steps are kept in their order.
    fn read_fields(&mut self, fields: &[u8]) -> Result<(), String> {
        let mut numbers = [None; 4];
        for field in fields.split(|&byte| byte == b'&') {
            let Some((key, value)) = pair(field.splitn(2, |&byte| byte == b'=')) else {
                return Err(format!("'{}' is not a field", shown(field)));
            };
            let number = match key {
                b"offset" => &mut numbers[0],
                b"size" => &mut numbers[1],
                b"inflated-offset" => &mut numbers[2],
                b"inflated-size" => &mut numbers[3],
                b"member" => {
                    self.steps.push(UriStep::read(value));
                    continue;
                }
                _ => return Err(format!("unknown field '{}'", shown(key))),
            };
            if number.is_some() {
                return Err(format!("the field '{}' stands twice", shown(key)));
            }
            let Some(parsed) = c_number(value) else {
                return Err(format!("'{}' is not a number: {}", shown(key), shown(value)));
            };
            *number = Some(parsed);
        }
        let [offset, size, inflated_offset, inflated_size] = numbers;
        self.range = range_of_fields("offset", offset, "size", size)?;
        self.inflated = range_of_fields("inflated-offset", inflated_offset, "inflated-size", inflated_size)?;
        Ok(())
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The steps to the inflated data that holds the bytes, from the file on: the name of each step, and its number
    /// among the steps of this name, counted from 1.
    pub fn members(&self) -> impl Iterator<Item = (&[u8], u64)> {
        self.steps.iter().map(|step| (step.name.as_slice(), step.number))
    }

    /// Returns the range of the file or, with [members](Self::members), of the inflated data, or `None` for all of it.
    pub fn range(&self) -> Option<&Range<u64>> {
        self.range.as_ref()
    }

    /// The range of the inflated bytes of the compressed bundle at the [range](Self::range), or `None` if the URI names
    /// stored bytes.
    pub(crate) fn inflated_range(&self) -> Option<&Range<u64>> {
        self.inflated.as_ref()
    }

    /// Whether the file stores the bytes as they are, without members or compressed bundles in between.
    pub(crate) fn is_stored(&self) -> bool {
        self.steps.is_empty() && self.inflated.is_none()
    }

    /// Returns the bytes that the URI names, from the data that its steps lead to.
    pub(crate) fn part_of<'d>(&self, data: Slice<'d>) -> Result<Slice<'d>> {
        let range = self.range.clone().unwrap_or(0..data.len());
        ensure_inside(&self.path, "source", &range, data.len())?;
        data.claimed(&range)
    }
}

/// The reason why a text that does not begin with [`SCHEME`] is refused.
fn wrong_scheme(uri: &[u8]) -> &'static str {
    if uri.starts_with(MEMORY) {
        "this names memory of a process, which no file holds; only 'file://' URIs can be read"
    } else {
        "not a URI of a code object, which begins with 'file://'"
    }
}

/// Fails if a range is not within `len` bytes, with the texts of LLVM 23. `what` is the name of the `len` bytes.
pub(crate) fn ensure_inside(path: &Path, what: &str, range: &Range<u64>, len: u64) -> Result<()> {
    let (offset, size) = (range.start, len_of(range));
    let reason = if offset > len {
        format!("offset in URI ({offset}) is beyond the end of the {what} ({len})")
    } else if size > len {
        format!("size in URI ({size}) is larger than {what} ({len})")
    } else if range.end > len {
        format!("offset + size ({}) in URI is beyond the end of the {what} ({len})", range.end)
    } else {
        return Ok(());
    };
    Err(Error::refused(ErrorKind::NotFound, path, offset, reason))
}

impl UriStep {
    /// Reads the value of a field `member`: the name, and a number after the last semicolon. A semicolon without a
    /// number after it belongs to the name.
    fn read(value: &[u8]) -> Self {
        if let Some((number, name)) = pair(value.rsplitn(2, |&byte| byte == b';'))
            && let Some(number) = c_number(number)
        {
            return Self { name: percent_decoded(name), number };
        }
        Self { name: percent_decoded(value), number: 1 }
    }
}

impl fmt::Display for Uri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "file://{}", percent_encode(self.path.as_os_str().as_encoded_bytes(), ESCAPED))?;
        let mut separator = '#';
        for UriStep { name, number } in &self.steps {
            write!(f, "{separator}member={}", percent_encode(name, ESCAPED))?;
            // The first step of a name is written without its number.
            if *number != 1 {
                write!(f, ";{number}")?;
            }
            separator = '&';
        }
        for (prefix, range) in [("", &self.range), ("inflated-", &self.inflated)] {
            if let Some(range) = range {
                write!(f, "{separator}{prefix}offset={}&{prefix}size={}", range.start, len_of(range))?;
                separator = '&';
            }
        }
        Ok(())
    }
}

fn percent_decoded(text: &[u8]) -> Vec<u8> {
    percent_decode(text).collect()
}

/// Returns the first two parts of a text that was split, or `None` if it has fewer.
fn pair<'t>(mut parts: impl Iterator<Item = &'t [u8]>) -> Option<(&'t [u8], &'t [u8])> {
    Some((parts.next()?, parts.next()?))
}

/// Parses a number as C writes it: hexadecimal after `0x`, octal after `0`, otherwise decimal. Returns `None` for
/// another text.
fn c_number(digits: &[u8]) -> Option<u64> {
    let digits = text(digits)?;
    let (digits, radix) = match (digits.strip_prefix("0x").or(digits.strip_prefix("0X")), digits.strip_prefix('0')) {
        (Some(digits), _) => (digits, 16),
        (None, Some(digits)) if !digits.is_empty() => (digits, 8),
        _ => (&*digits, 10),
    };
    // The standard library also accepts a sign.
    if !digits.bytes().all(|digit| digit.is_ascii_alphanumeric()) {
        return None;
    }
    u64::from_str_radix(digits, radix).ok()
}

/// Returns the range that two fields give, or `None` without both fields. One field alone is an error.
fn range_of_fields(
    offset_name: &str,
    offset: Option<u64>,
    size_name: &str,
    size: Option<u64>,
) -> Result<Option<Range<u64>>, String> {
    match (offset, size) {
        (None, None) => Ok(None),
        (Some(offset), Some(size)) => match offset.checked_add(size) {
            Some(end) => Ok(Some(offset..end)),
            None => Err(format!("'{offset_name}' and '{size_name}' lead beyond all offsets")),
        },
        (Some(_), None) => Err(format!("the field '{size_name}' is missing")),
        (None, Some(_)) => Err(format!("the field '{offset_name}' is missing")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::error::ErrorKind;

    fn parsed(uri: &str) -> Uri {
        Uri::parse(OsStr::new(uri)).unwrap()
    }

    #[test]
    fn uris_are_read_as_they_are_written() {
        for uri in [
            "file:///a/b.so",
            "file:///a%20b/lib%231.so#offset=8&size=16",
            "file:///x#offset=0&size=18446744073709551615&inflated-offset=1&inflated-size=2",
            "file:///x#member=a%3B2/b&member=.hip_fatbin;2&offset=1&size=0",
            "file:///%FF#member=%FF%00;18446744073709551615",
        ] {
            assert_eq!(parsed(uri).to_string(), uri);
        }
        for (written, uri) in [
            ("file:///x?offset=0x10&size=010", "file:///x#offset=16&size=8"),
            ("file:///x#size=0X1f&offset=0", "file:///x#offset=0&size=31"),
            ("file://x/y#offset=1&size=2", "file://x/y#offset=1&size=2"),
            ("file:///100%.so#member=a;b;1", "file:///100%25.so#member=a%3Bb"),
        ] {
            assert_eq!(parsed(written).to_string(), uri);
        }
    }

    #[test]
    fn what_is_wrong_with_a_uri_is_said() {
        for (uri, reason) in [
            ("x.so#offset=0&size=1", "not a URI of a code object, which begins with 'file://'"),
            (
                "memory://12#offset=0&size=1",
                "this names memory of a process, which no file holds; only 'file://' URIs can be read",
            ),
            ("file://#offset=0&size=1", "the URI names no file"),
            ("file:///x#", "'' is not a field"),
            ("file:///x#offset=0", "the field 'size' is missing"),
            ("file:///x#size=0", "the field 'offset' is missing"),
            ("file:///x#offset=0&size=1&inflated-size=1", "the field 'inflated-offset' is missing"),
            ("file:///x#offset=0&offset=0", "the field 'offset' stands twice"),
            ("file:///x#offset=-1&size=1", "'offset' is not a number: -1"),
            ("file:///x#offset=+1&size=1", "'offset' is not a number: +1"),
            ("file:///x#offset=1a&size=1", "'offset' is not a number: 1a"),
            ("file:///x#offset=0x&size=1", "'offset' is not a number: 0x"),
            ("file:///x#offset=09&size=1", "'offset' is not a number: 09"),
            ("file:///x#offset=0&size=18446744073709551616", "'size' is not a number: 18446744073709551616"),
            ("file:///x#offset=1&size=18446744073709551615", "'offset' and 'size' lead beyond all offsets"),
            ("file:///x#begin=1", "unknown field 'begin'"),
        ] {
            let error = Uri::parse(OsStr::new(uri)).unwrap_err();
            assert_eq!((error.to_string(), error.kind()), (format!("'{uri}': {reason}"), ErrorKind::Usage));
        }
    }
}

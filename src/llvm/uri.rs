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
//! `path` and `name` are percent-encoded. Without a range, the whole file is meant. The fields of the second line are
//! ours:
//!
//! - each `member` is a step to data that had to be inflated, from the file on: the name of a member, a section or a
//!   bundle entry, and, if several have the same name, which of them, counted from 1. `offset` then counts from the
//!   start of that data;
//! - `inflated-offset` and `inflated-size` are a range of what the compressed bundle at `offset` inflates to.

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
    pub(crate) way: Vec<Level>,
    /// The range in the file or member; `None` for all of it.
    pub(crate) range: Option<Range<u64>>,
    pub(crate) inflated: Option<Range<u64>>,
}

/// A step on the way to inflated data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Level {
    pub(crate) name: Vec<u8>,
    /// Its number among the steps of this name from the same place, counted from 1.
    pub(crate) number: u64,
}

impl Uri {
    /// The URI of a range of a file, or of what is inflated on a `way` through it.
    pub(crate) fn new(path: PathBuf, way: Vec<Level>, range: Range<u64>, inflated: Option<Range<u64>>) -> Self {
        Self { path, way, range: Some(range), inflated }
    }

    /// Reads a URI.
    ///
    /// # Errors
    /// an [`Error`] of the kind [`Usage`](crate::ErrorKind::Usage) for anything else.
    pub fn parse(uri: &OsStr) -> Result<Self> {
        Self::read(uri.as_encoded_bytes()).map_err(|reason| Error::usage(&format!("'{}': {reason}", uri.display())))
    }

    fn read(uri: &[u8]) -> Result<Self, String> {
        let rest = uri.strip_prefix(SCHEME).ok_or_else(|| match uri.starts_with(MEMORY) {
            true => "this names memory of a process, which no file holds; only 'file://' URIs can be read".to_owned(),
            false => "not a URI of a code object, which begins with 'file://'".to_owned(),
        })?;
        let mut parts = rest.splitn(2, |byte| b"#?".contains(byte));
        let path = PathBuf::from(sys::os_str(&decoded(parts.next().unwrap_or_default())).into_owned());
        if path.as_os_str().is_empty() {
            return Err("the URI names no file".to_owned());
        }
        let (mut way, mut numbers) = (Vec::new(), [None; 4]);
        for field in parts.next().into_iter().flat_map(|fields| fields.split(|&byte| byte == b'&')) {
            let (key, value) = two(field.splitn(2, |&byte| byte == b'='))
                .ok_or_else(|| format!("'{}' is not a field", shown(field)))?;
            let number = match key {
                b"offset" => &mut numbers[0],
                b"size" => &mut numbers[1],
                b"inflated-offset" => &mut numbers[2],
                b"inflated-size" => &mut numbers[3],
                b"member" => {
                    way.push(Level::read(value));
                    continue;
                }
                _ => return Err(format!("unknown field '{}'", shown(key))),
            };
            if number.is_some() {
                return Err(format!("the field '{}' stands twice", shown(key)));
            }
            let read = c_number(value);
            *number = Some(read.ok_or_else(|| format!("'{}' is not a number: {}", shown(key), shown(value)))?);
        }
        let [offset, size, inflated_offset, inflated_size] = numbers;
        let range = range("offset", offset, "size", size)?;
        let inflated = self::range("inflated-offset", inflated_offset, "inflated-size", inflated_size)?;
        Ok(Self { path, way, range, inflated })
    }

    /// Whether both URIs name the same bytes of one file of `len` bytes.
    pub(crate) fn is_same_part(&self, other: &Self, len: u64) -> bool {
        let [one, other_range] = [self, other].map(|uri| uri.range.clone().unwrap_or(0..len));
        one == other_range && self.way == other.way && self.inflated == other.inflated
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The steps to the inflated data that holds the bytes, from the file on: the name of each, and which of that name
    /// it is, counted from 1.
    pub fn members(&self) -> impl Iterator<Item = (&[u8], u64)> {
        self.way.iter().map(|level| (level.name.as_slice(), level.number))
    }

    /// Returns the range of the file or, with [members](Self::members), of the inflated data, or `None` for all of it.
    pub fn range(&self) -> Option<&Range<u64>> {
        self.range.as_ref()
    }

    /// The range of what the compressed bundle at the [range](Self::range) inflates to, if the bytes are in one.
    pub(crate) fn inflated_range(&self) -> Option<&Range<u64>> {
        self.inflated.as_ref()
    }

    /// Whether the file stores the bytes as they are, without members or compressed bundles on the way.
    pub(crate) fn is_stored(&self) -> bool {
        self.way.is_empty() && self.inflated.is_none()
    }

    /// The range of the data that holds it.
    pub(crate) fn part_of<'d>(&self, data: Slice<'d>) -> Result<Slice<'d>> {
        let range = self.range.clone().unwrap_or(0..data.len());
        ensure_inside(&self.path, "source", &range, data.len())?;
        data.claimed(&range)
    }

    /// This URI of something in the bytes of `outer`, as a URI of its file; none if it has no such URI, because a file
    /// would have to be inflated twice.
    pub(crate) fn inside(self, outer: Self) -> Option<Self> {
        let Self { path, way, range, inflated } = outer;
        if let (true, None, None) = (way.is_empty(), &range, &inflated) {
            return Some(Self { path, ..self });
        }
        let moved = |base: u64| {
            let inner = self.range.clone().unwrap_or_default();
            Some(base.checked_add(inner.start)?..base.checked_add(inner.end)?)
        };
        match (self.way.is_empty(), inflated, self.inflated.clone()) {
            (true, Some(outer), None) => Some(Self { path, way, range, inflated: Some(moved(outer.start)?) }),
            (true, None, inflated) => {
                let range = Some(moved(range.map_or(0, |range| range.start))?);
                Some(Self { path, way, range, inflated })
            }
            _ => None,
        }
    }
}

/// Fails if a range does not lie in `len` bytes. The texts are those of LLVM 23.
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

impl Level {
    fn read(value: &[u8]) -> Self {
        let numbered = two(value.rsplitn(2, |&byte| byte == b';'));
        let numbered = numbered.and_then(|(number, name)| Some((name, c_number(number)?)));
        let (name, number) = numbered.unwrap_or((value, 1));
        Self { name: decoded(name), number }
    }
}

impl fmt::Display for Uri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "file://{}", percent_encode(self.path.as_os_str().as_encoded_bytes(), ESCAPED))?;
        let mut separator = '#';
        let mut next = || std::mem::replace(&mut separator, '&');
        for Level { name, number } in &self.way {
            write!(f, "{}member={}", next(), percent_encode(name, ESCAPED))?;
            if *number != 1 {
                write!(f, ";{number}")?;
            }
        }
        for (prefix, range) in [("", &self.range), ("inflated-", &self.inflated)] {
            if let Some(range) = range {
                write!(f, "{}{prefix}offset={}&{prefix}size={}", next(), range.start, len_of(range))?;
            }
        }
        Ok(())
    }
}

fn decoded(text: &[u8]) -> Vec<u8> {
    percent_decode(text).collect()
}

/// The first two parts of a text that was split.
fn two<'t>(mut parts: impl Iterator<Item = &'t [u8]>) -> Option<(&'t [u8], &'t [u8])> {
    Some((parts.next()?, parts.next()?))
}

/// A number as C writes it.
fn c_number(digits: &[u8]) -> Option<u64> {
    let digits = text(digits)?;
    let (digits, radix) = match (digits.strip_prefix("0x").or(digits.strip_prefix("0X")), digits.strip_prefix('0')) {
        (Some(digits), _) => (digits, 16),
        (None, Some(digits)) if !digits.is_empty() => (digits, 8),
        _ => (&*digits, 10),
    };
    digits.bytes().all(|digit| digit.is_ascii_alphanumeric()).then(|| u64::from_str_radix(digits, radix).ok())?
}

/// The range that two fields give, of which both or none is there.
fn range(start: &str, offset: Option<u64>, len: &str, size: Option<u64>) -> Result<Option<Range<u64>>, String> {
    match (offset, size) {
        (None, None) => Ok(None),
        (Some(offset), Some(size)) => match offset.checked_add(size) {
            Some(end) => Ok(Some(offset..end)),
            None => Err(format!("'{start}' and '{len}' lead beyond all offsets")),
        },
        (Some(_), None) => Err(format!("the field '{len}' is missing")),
        (None, Some(_)) => Err(format!("the field '{start}' is missing")),
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

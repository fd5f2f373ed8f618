//! Streams JSON documents.

use std::cell::RefCell;
use std::io::{self, Write};

use super::out::Out;
use super::problem::Message;
use crate::base::display::is_shown;
use crate::beyond::serialized::{Document, Report};
use memchr::memmem;
use serde::{Serialize, Serializer};

/// Writes the document of a report. The problems are serialized last, when everything streamed before them is complete.
pub(crate) fn write(report: impl Report, problems: impl Serialize, out: Out<'_>) -> anyhow::Result<()> {
    write_value(&Document::new(report, problems), &mut out.for_json())
}

/// Writes a value. Escapes everything that a terminal would interpret, which JSON alone does not require.
fn write_value(document: &impl Serialize, out: &mut dyn Write) -> anyhow::Result<()> {
    if let Err(error) = serde_json::to_writer_pretty(Escaping(&mut *out), document) {
        // The caller names the standard output in a bare I/O error, which must not be inside another error.
        if error.is_io() {
            return Err(io::Error::from(error).into());
        }
        return Err(error.into());
    }
    Ok(out.write_all(b"\n")?)
}

/// Writes a message in one line, without the end of the line.
pub(crate) fn message(message: &Message<'_>) -> String {
    let mut line = Vec::new();
    // Writing to memory does not fail. Nor does serializing: that fails only for a map with keys that are not
    // strings, and the keys of a message are names of fields.
    drop(serde_json::to_writer(Escaping(&mut line), message));
    String::from_utf8_lossy(&line).into_owned()
}

/// Appends a character of a string as JSON escapes it: with a `\u` for each of its one or two units of UTF-16.
pub(crate) fn push_escaped(out: &mut String, c: char) {
    for unit in c.encode_utf16(&mut [0; 2]) {
        out.push_str(&format!("\\u{unit:04x}"));
    }
}

/// A field of a document that is computed only when it is serialized. Fields are serialized in order, so the field may
/// be a sum over the items of a [`Streamed`] field before it.
pub(crate) struct ComputedLate<F>(pub(crate) F);

impl<T: Serialize, F: Fn() -> T> Serialize for ComputedLate<F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (self.0)().serialize(serializer)
    }
}

/// A field of a document with a list of items. Each item is made, serialized and dropped before the next one, so that
/// only one is in memory. It can be serialized only once.
pub(crate) struct Streamed<I>(RefCell<I>);

impl<I> Streamed<I> {
    pub(crate) fn new(items: I) -> Self {
        Self(RefCell::new(items))
    }
}

impl<I: Iterator<Item: Serialize>> Serialize for Streamed<I> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(&mut *self.0.borrow_mut())
    }
}

/// A writer that escapes all characters of a JSON document that a terminal would interpret, and commands of CI systems,
/// which begin with `##` anywhere in a line. Each call gets whole
/// characters, because `serde_json` splits a string only where it escapes an ASCII character.
struct Escaping<'o>(&'o mut dyn Write);

impl Write for Escaping<'_> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        // Most text is printable ASCII, and nothing in it needs escaping.
        if data.iter().all(|byte| matches!(byte, b'\n' | b' '..=b'~')) && memmem::find(data, b"##").is_none() {
            self.0.write_all(data)?;
            return Ok(data.len());
        }
        let text = std::str::from_utf8(data).map_err(io::Error::other)?;
        let mut escaped = String::new();
        let mut last = ' ';
        for c in text.chars() {
            if c == '\n' || is_shown(c) && (c, last) != ('#', '#') {
                escaped.push(c);
            } else {
                push_escaped(&mut escaped, c);
            }
            last = c;
        }
        self.0.write_all(escaped.as_bytes())?;
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_holds_nothing_that_a_terminal_obeys() {
        let hostile = "\x1b[2J \u{9b}2J \x7f \u{202e} \n \\ é \u{1f600} ##[a]";
        let mut out = Vec::new();
        write_value(&vec![hostile, "plain"], &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(
            text,
            "[\n  \"\\u001b[2J \\u009b2J \\u007f \\u202e \\n \\\\ é \u{1f600} #\\u0023[a]\",\n  \"plain\"\n]\n"
        );
        assert_eq!(serde_json::from_str::<Vec<String>>(&text).unwrap(), [hostile, "plain"]);
    }

    #[test]
    fn an_error_of_a_value_is_not_one_of_writing() {
        struct Broken;
        impl Serialize for Broken {
            fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
                Err(serde::ser::Error::custom("'k.so': the current directory is not known"))
            }
        }
        let error = write_value(&[Broken], &mut Vec::new()).unwrap_err();
        assert_eq!(error.to_string(), "'k.so': the current directory is not known");
        assert!(!error.is::<io::Error>());
        let error = write_value(&[1], &mut [0; 1].as_mut_slice()).unwrap_err();
        assert!(error.is::<io::Error>(), "{error:?}");
    }
}

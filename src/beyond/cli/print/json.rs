//! JSON documents, written field by field.

use std::io::{self, Write};

use super::out::Out;
use super::problem::{Message, Problem};
use crate::base::display::is_shown;
use crate::base::error::Error;
use crate::beyond::document::{self, Report};
use memchr::memmem;
use serde::Serialize;
use serde_json::ser::{Formatter as _, PrettyFormatter};

/// The JSON document of a report with a long list. Its items are written one by one as they become known, so that only
/// one has to be in memory. The bytes are those of a report that is written as a whole.
pub(crate) struct Document<'o> {
    out: Escaping<'o>,
    /// The formatter, which knows the indentation of the items.
    format: PrettyFormatter<'static>,
    /// The document up to the list, without escapes.
    beginning: String,
    /// Whether no item of the list has been written yet.
    is_list_empty: bool,
}

impl<'o> Document<'o> {
    /// Writes the beginning of a document: the version, and the fields of the report before `list`, which must not
    /// change later. `list` is the name of the field whose items are written one by one: an empty list in `report`.
    pub(crate) fn begin(report: &impl Report, list: &str, out: Out<'o>) -> anyhow::Result<Self> {
        const NO_PROBLEMS: [Problem; 0] = [];
        let mut beginning = serde_json::to_string_pretty(&document::Document::new(report, NO_PROBLEMS))?;
        // Only fields of the report itself are indented by two spaces, and strings have no line ends. So this text
        // cannot be anywhere else.
        let start_of_list = format!("\n  \"{list}\": [");
        let Some(at) = beginning.find(&format!("{start_of_list}]")) else {
            return Err(Error::internal("a report has no empty list of this name").into());
        };
        beginning.truncate(at + start_of_list.len());
        let mut out = Escaping(out.for_json());
        out.write_all(beginning.as_bytes())?;
        // The formatter must know that items are inside an object and a list. The text of both has been written above.
        let mut format = PrettyFormatter::new();
        format.begin_object(&mut io::sink())?;
        format.begin_array(&mut io::sink())?;
        Ok(Self { out, format, beginning, is_list_empty: true })
    }

    /// Writes an item of the list.
    pub(crate) fn item(&mut self, value: &impl Serialize) -> anyhow::Result<()> {
        let is_first = std::mem::replace(&mut self.is_list_empty, false);
        self.format.begin_array_value(&mut self.out, is_first)?;
        // The indentation after a value is the same as before it, so `self.format` need not see the value: a copy does.
        let mut serializer = serde_json::Serializer::with_formatter(&mut self.out, self.format.clone());
        value.serialize(&mut serializer).map_err(error_of)?;
        Ok(self.format.end_array_value(&mut self.out)?)
    }

    /// Ends the list, and writes the other fields of the report, which are known now, and the problems.
    pub(crate) fn end(mut self, report: &impl Report, problems: &[Problem]) -> anyhow::Result<()> {
        self.format.end_array(&mut self.out)?;
        let rest = AfterBeginning { beginning: format!("{}]", self.beginning).into_bytes(), skipped: 0, out: self.out };
        write_pretty(&document::Document::new(report, problems), rest)
    }
}

/// A writer for a whole document whose beginning is written already. It leaves the beginning out, and fails if the
/// document begins with something else.
struct AfterBeginning<'o> {
    beginning: Vec<u8>,
    /// The number of bytes of the beginning that were left out so far.
    skipped: usize,
    out: Escaping<'o>,
}

impl Write for AfterBeginning<'_> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let left_to_skip = self.beginning.get(self.skipped..).unwrap_or_default();
        let (repeated, rest) = data.split_at(left_to_skip.len().min(data.len()));
        if !left_to_skip.starts_with(repeated) {
            return Err(io::Error::other("the report does not begin as its document"));
        }
        self.skipped += repeated.len();
        if !rest.is_empty() {
            self.out.write_all(rest)?;
        }
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Converts an error of `serde_json`. An I/O error stays a plain one: the caller recognises it, and adds the name of
/// standard output.
fn error_of(error: serde_json::Error) -> anyhow::Error {
    if error.is_io() { io::Error::from(error).into() } else { error.into() }
}

/// Writes the document of a report that is complete.
pub(crate) fn write(report: impl Report, problems: impl Serialize, out: Out<'_>) -> anyhow::Result<()> {
    write_value(&document::Document::new(report, problems), out.for_json())
}

/// Writes a value. Escapes everything that a terminal would interpret, which JSON alone does not require.
fn write_value(value: &impl Serialize, out: &mut dyn Write) -> anyhow::Result<()> {
    write_pretty(value, Escaping(out))
}

/// Writes a value and the end of the last line.
fn write_pretty(value: &impl Serialize, mut out: impl Write) -> anyhow::Result<()> {
    serde_json::to_writer_pretty(&mut out, value).map_err(error_of)?;
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

/// A writer that escapes all characters of a JSON document that a terminal would interpret, and commands of CI systems,
/// which begin with `##` anywhere in a line. Each call gets whole characters, because `serde_json` splits a string only
/// where it escapes an ASCII character.
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
        let mut previous = ' ';
        for c in text.chars() {
            if c == '\n' || is_shown(c) && (c, previous) != ('#', '#') {
                escaped.push(c);
            } else {
                push_escaped(&mut escaped, c);
            }
            previous = c;
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
    use super::super::out::Buffer;
    use super::*;
    use serde::Serializer;

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

    #[derive(Clone, Serialize)]
    struct Listed {
        name: &'static str,
        numbers: Vec<u8>,
        inner: Option<Box<Listed>>,
    }

    #[derive(Default, Serialize)]
    struct TestReport {
        old: &'static str,
        files: Vec<Listed>,
        nothing: [u8; 0],
        total: Option<Listed>,
    }

    impl Report for TestReport {
        const VERSION: u32 = 7;
    }

    #[test]
    fn a_document_has_the_bytes_of_the_whole_report() {
        let listed = |name, numbers, inner| Listed { name, numbers, inner };
        let nested = || listed("a\x1b ##", vec![1, 2], Some(Box::new(listed("b", vec![], None))));
        let lists = [vec![], vec![nested()], vec![nested(), listed("é", vec![3], None)]];
        for (files, total, problems) in [
            (0, None, vec![]),
            (1, None, vec![Problem::from("'k.so': \u{202e}".to_owned())]),
            (2, Some(nested()), vec![]),
        ] {
            let report = TestReport { old: "k.so", files: lists[files].clone(), nothing: [], total };
            let (mut whole, mut parts) = (Buffer::default(), Buffer::default());
            let beginning = TestReport { old: "k.so", ..TestReport::default() };
            let mut document = Document::begin(&beginning, "files", parts.out()).unwrap();
            for file in &report.files {
                document.item(file).unwrap();
            }
            let rest = TestReport { old: "k.so", total: report.total.clone(), ..TestReport::default() };
            document.end(&rest, &problems).unwrap();
            write(report, &problems, whole.out()).unwrap();
            assert_eq!(parts.text(), whole.text());
        }
    }

    #[test]
    fn a_document_that_would_not_be_its_report_is_an_error() {
        let report = |old, files| TestReport { old, files, ..TestReport::default() };
        let listed = || vec![Listed { name: "a", numbers: Vec::new(), inner: None }];
        for (list, end, expected) in [
            ("files", report("", Vec::new()), true),
            // No list of the report itself has this name.
            ("file", report("", Vec::new()), false),
            ("old", report("", Vec::new()), false),
            ("numbers", report("", Vec::new()), false),
            // The field before the list has changed, or the list has items that were not written.
            ("files", report("k.so", Vec::new()), false),
            ("files", report("", listed()), false),
        ] {
            let mut buffer = Buffer::default();
            let document = Document::begin(&TestReport::default(), list, buffer.out());
            let written = document.and_then(|document| document.end(&end, &[]));
            assert_eq!(written.is_ok(), expected, "{list}: {}", end.old);
        }
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

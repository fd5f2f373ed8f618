//! The standard output of subcommands. It takes lines of text, which it escapes, and JSON documents; nothing else can
//! write to it. So no name from a file reaches a terminal or a CI log unescaped.

use std::io::{self, Write};

use crate::base::display::{inert, printable};
use crate::llvm::cli::print::stdout;

use super::progress::StdoutBelowLine;

/// Runs `work`, which prints to the standard output, as [`stdout::to_stdout`] does. On a terminal, the progress line is
/// removed before anything is printed.
pub(crate) fn to_stdout(work: impl FnOnce(Out<'_>) -> anyhow::Result<()>) -> anyhow::Result<()> {
    stdout::print_to(StdoutBelowLine::new(), |out| work(Out(out)))
}

/// Prints a text of the program itself, such as a help text.
pub(crate) fn own_text_to_stdout(text: &[u8]) -> anyhow::Result<()> {
    stdout::to_stdout(|out| Ok(out.write_all(text)?))
}

/// An output for lines and documents.
pub(crate) struct Out<'o>(&'o mut dyn Write);

impl<'o> Out<'o> {
    /// Returns the same output, borrowed for a part of the work.
    pub(crate) fn reborrow(&mut self) -> Out<'_> {
        Out(&mut *self.0)
    }

    /// Writes a line. Line ends in it are escaped too.
    pub(crate) fn write_line(&mut self, line: &str) -> io::Result<()> {
        self.write_escaped(&printable(line))
    }

    /// Writes a line of fields with tabs between them.
    pub(crate) fn write_fields<'f>(&mut self, fields: impl Iterator<Item = &'f str>) -> io::Result<()> {
        let fields: Vec<String> = fields.map(printable).collect();
        self.write_escaped(&fields.join("\t"))
    }

    /// Writes a line whose texts are escaped already, and which may have colours.
    pub(super) fn write_escaped(&mut self, line: &str) -> io::Result<()> {
        writeln!(self.0, "{}", inert(line))
    }

    /// Writes the lines of a buffer.
    pub(crate) fn write_buffer(&mut self, buffer: &Buffer) -> io::Result<()> {
        self.0.write_all(&buffer.0)
    }

    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }

    /// Returns the plain writer. The caller escapes as JSON does.
    pub(super) fn for_json(self) -> &'o mut dyn Write {
        self.0
    }
}

/// Lines that are kept in memory until they are printed.
#[derive(Default)]
pub(crate) struct Buffer(Vec<u8>);

impl Buffer {
    pub(crate) fn out(&mut self) -> Out<'_> {
        Out(&mut self.0)
    }

    /// The length in bytes.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the lines, for tests.
    #[cfg(test)]
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.clone()).unwrap()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_stays_one_line_that_nothing_interprets() {
        let mut buffer = Buffer::default();
        buffer.out().write_line("a\n::error::b\x1b[2J\u{202e}").unwrap();
        buffer.out().write_line(" ::error::b").unwrap();
        buffer.out().write_fields(["a\t\r", "##[error]b"].into_iter()).unwrap();
        let lines = "a\\n::error::b\\u{1b}[2J\\u{202e}\n \\u{3a}:error::b\na\\t\\r\t#\\u{23}[error]b\n";
        assert_eq!(buffer.text(), lines);
    }
}

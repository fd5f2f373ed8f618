//! Messages on standard error, in LLVM's form: `NAME: error: TEXT`.

use std::ffi::OsStr;
use std::io::{self, Write};

use crate::base::display::{grouped, inert, printable_start};
use crate::base::error::Error;
use crate::base::io::sys;
use crate::llvm::container::compressed::Deflation;
use crate::llvm::container::stream::Inflation;
use crate::llvm::event::Event;

const WARNING: MessageKind = MessageKind { name: "warning", color: "\x1b[0;1;35m" };

/// The name for a message that is printed without the program's name.
const NO_NAME: &[u8] = b"";

/// The kind of a message.
#[derive(Clone, Copy)]
struct MessageKind {
    name: &'static str,
    color: &'static str,
}

/// Turns a message into a line for programs: the name of its kind, its text and, for an error of the library, the error.
pub(crate) type MessageLine = fn(&'static str, &str, Option<&Error>) -> String;

/// An error with LLVM's text, and a note with the details that LLVM omits.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub(crate) struct NotedError {
    pub(crate) text: String,
    pub(crate) note: String,
}

/// Standard error, under the name of the program.
pub(crate) struct Console {
    /// `argv[0]` as typed.
    pub(crate) name: Vec<u8>,
    /// Whether standard error is a terminal.
    is_terminal: bool,
    color: bool,
    /// Whether compression statistics are printed.
    pub(crate) verbose: bool,
    /// Turns a message into a line for programs. With `None`, messages are sentences for people.
    pub(crate) as_line: Option<MessageLine>,
    /// Writes a message to standard error.
    pub(crate) write: fn(&[u8]),
    /// Hints that follow all other messages.
    pub(crate) last_hints: Vec<String>,
}

impl Console {
    pub(crate) fn new(name: &OsStr) -> Self {
        let (name, is_terminal) = (name.as_encoded_bytes().to_vec(), sys::takes_escapes());
        let (verbose, last_hints) = (false, Vec::new());
        Self { name, is_terminal, color: is_terminal, verbose, as_line: None, write: write_to_stderr, last_hints }
    }

    /// Sets whether messages are coloured; `None` colours them on a terminal.
    pub(crate) fn set_color(&mut self, color: Option<bool>) {
        self.color = color.unwrap_or(self.is_terminal);
    }

    /// Prints an error by its text. `error` is the error of the library that the text is of, if any.
    pub(crate) fn error(&self, text: &str, error: Option<&Error>) {
        self.tagged(&self.name, MessageKind { name: "error", color: "\x1b[0;1;31m" }, text, error);
    }

    pub(crate) fn warning(&self, text: &str) {
        self.tagged(&self.name, WARNING, text, None);
    }

    /// Prints details of an error.
    pub(crate) fn note(&self, text: &str) {
        self.tagged(&self.name, MessageKind { name: "note", color: "\x1b[0;1;30m" }, text, None);
    }

    /// Prints a way to fix an error.
    pub(crate) fn hint(&self, text: &str) {
        self.tagged(NO_NAME, MessageKind { name: "hint", color: "\x1b[0;1;36m" }, text, None);
    }

    /// Prints a warning that LLVM prints without the program's name.
    pub(crate) fn unnamed_warning(&self, text: &str) {
        self.tagged(NO_NAME, WARNING, text, None);
    }

    /// Prints a line without name and tag.
    pub(crate) fn line(&self, text: &str) {
        self.escaped_lines(text, &visible(text));
    }

    /// Prints lines whose names are escaped already.
    fn lines(&self, text: &str) {
        self.escaped_lines(text, text);
    }

    /// Prints lines: `escaped` for people, or `text`, which is not escaped, for programs.
    fn escaped_lines(&self, text: &str, escaped: &str) {
        match self.as_line {
            None => self.write_line(escaped),
            Some(as_line) => self.write_line(&as_line("info", text, None)),
        }
    }

    /// Writes an escaped line.
    pub(crate) fn write_line(&self, line: &str) {
        (self.write)(&[line.as_bytes(), b"\n"].concat());
    }

    /// Prints the message for an event. An event without a message, or with one that was not asked for, prints nothing.
    pub(crate) fn event(&self, event: Event<'_>) {
        match event {
            Event::Deflated(deflation) if self.verbose => self.lines(&deflation_figures(&deflation)),
            Event::Inflated(inflation) if self.verbose => self.lines(&inflation_figures(&inflation)),
            Event::NotCompressed if self.verbose => self.line("Uncompressed bundle."),
            Event::DuplicateEntry(id) => {
                self.warning(&format!("the bundle holds several entries '{id}', the first is used"));
            }
            Event::NoProcessor { entry, request } => {
                self.warning(&format!("'{request}' gets the entry '{entry}', which names no processor"));
            }
            Event::SeveralMatches { file } => {
                self.warning(&format!("Multiple inputs match to a single file, '{}'", file.display()));
            }
            // LLVM prints this warning without the program's name.
            Event::NotIndexed { name, reason } => self.line(&format!("warning: '{name}': {reason}")),
            _ => {}
        }
    }

    /// Prints a message of this kind in LLVM's form, or as a line for programs without the name. An empty name is left
    /// out.
    fn tagged(&self, name: &[u8], kind: MessageKind, text: &str, error: Option<&Error>) {
        if let Some(as_line) = self.as_line {
            return self.write_line(&as_line(kind.name, text, error));
        }
        let MessageKind { name: tag, color } = kind;
        let (color, reset) = if self.color { (color, "\x1b[0m") } else { ("", "") };
        let colon = if name.is_empty() { "" } else { ": " };
        let text = [colon, color, tag, ": ", reset, &visible(text), "\n"].concat();
        (self.write)(&[name, text.as_bytes()].concat());
    }
}

/// Escapes a text for terminals and CI logs, and cuts it off: it may quote names from a file, of any length.
fn visible(text: &str) -> String {
    const SHOWN_MAX: usize = 64 << 10;
    inert(&printable_start(text, SHOWN_MAX)).into_owned()
}

/// Writes to standard error. Ignores failures, because they cannot be reported.
pub(crate) fn write_to_stderr(message: &[u8]) {
    drop(io::stderr().write_all(message));
}

/// Returns the lines that LLVM prints with `-verbose` after it has compressed a bundle. The header of a new bundle
/// always records its total size and its hash.
fn deflation_figures(figures: &Deflation) -> String {
    let Deflation { recorded, stream_len, level, elapsed, .. } = figures;
    [
        format!("Compressed bundle format version: {}", recorded.version),
        format!("Total file size (including headers): {} bytes", grouped(recorded.total.unwrap_or_default())),
        format!("Compression method used: {}", recorded.method.name()),
        format!("Compression level: {level}"),
        format!("Binary size before compression: {} bytes", grouped(recorded.inflated)),
        format!("Binary size after compression: {} bytes", grouped(*stream_len)),
        rates(recorded.inflated, *stream_len),
        format!("Compression speed: {}", speed(recorded.inflated, elapsed.as_secs_f64())),
        format!("Truncated MD5 hash: {}", in_hex(recorded.hash.unwrap_or_default())),
    ]
    .join("\n")
}

/// Returns the lines that LLVM prints with `-verbose` after it has inflated a bundle. Every compressed bundle records a
/// hash; only offload binaries, which the bundler does not read, have none.
fn inflation_figures(figures: &Inflation) -> String {
    let Inflation { recorded, stream_len, elapsed, .. } = figures;
    let hash = in_hex(recorded.hash.unwrap_or_default());
    let mut lines = vec![format!("Compressed bundle format version: {}", recorded.version)];
    if let Some(total) = recorded.total {
        lines.push(format!("Total file size (from header): {} bytes", grouped(total)));
    }
    lines.extend([
        format!("Decompression method: {}", recorded.method.name()),
        format!("Size before decompression: {} bytes", grouped(*stream_len)),
        format!("Size after decompression: {} bytes", grouped(recorded.inflated)),
        rates(recorded.inflated, *stream_len),
        format!("Decompression speed: {}", speed(recorded.inflated, elapsed.as_secs_f64())),
        format!("Stored hash: {hash}"),
        // A hash that differs is an error before these statistics are printed.
        format!("Recalculated hash: {hash}"),
        "Hashes match: Yes".to_owned(),
    ]);
    lines.join("\n")
}

fn rates(inflated: u64, deflated: u64) -> String {
    let rate = float(inflated) / float(deflated);
    format!("Compression rate: {rate:.2}\nCompression ratio: {:.2}%", 100.0 / rate)
}

fn speed(bytes: u64, seconds: f64) -> String {
    format!("{:.2} MB/s", float(bytes) / (1024.0 * 1024.0) / seconds)
}

fn in_hex(hash: u64) -> String {
    format!("{hash:#016x}")
}

#[allow(clippy::as_conversions, reason = "figures for people; the nearest number is the right one")]
fn float(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_shown_and_not_sent() {
        assert_eq!(visible("a\x1b[31mb\r\n\tc \u{e9}"), "a\\u{1b}[31mb\\r\\n\\tc \u{e9}");
        assert_eq!(visible("a\u{202e}b\u{9b}"), "a\\u{202e}b\\u{9b}");
        assert_eq!(visible(&"x".repeat(100_000)).len(), 65_539);
    }

    #[test]
    fn figures_have_the_form_of_the_reference() {
        assert_eq!(in_hex(0x1f), "0x0000000000001f");
        assert_eq!(rates(208, 141), "Compression rate: 1.48\nCompression ratio: 67.79%");
    }
}

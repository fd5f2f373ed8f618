//! Shows the progress of long work on a terminal. A thread draws one line again and again. Code that prints anything
//! else removes the line first.

use std::io::{self, IsTerminal as _, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::base::io::sys::{self, Stat};
use crate::base::io::{bytes_done, bytes_read};
use crate::llvm::cli::print::console;
use crate::llvm::cli::print::stdout::Stdout;

/// The delay before the line appears.
const PATIENCE: Duration = Duration::from_secs(1);

/// The time between two updates.
const INTERVAL: Duration = Duration::from_millis(100);

/// The width of the bar in characters.
const WIDTH: u64 = 20;

/// The number of bytes in a megabyte.
const MB: u64 = 1_000_000;

/// The work must have taken this long before the time left is estimated.
const ESTIMATE_AFTER: Duration = Duration::from_secs(2);

/// The total divided by this must be done before the time left is estimated, because early estimates are far off.
const ESTIMATE_DIVISOR: u64 = 50;

/// No share is shown while the last bytes of the files are read: 1/33, which is 3 percent. A file counts as read before
/// it is processed, and that may take long. A share near 100 percent would then stand still.
const LAST_BYTES_DIVISOR: u64 = 33;

/// The only line of the process.
static LINE: Mutex<ProgressLine> = Mutex::new(ProgressLine::new(""));

/// The state of the line.
pub(crate) struct ProgressLine {
    /// The name of the work.
    work_name: &'static str,
    /// The bytes done and the bytes expected, if a job reports them.
    reported: Option<(u64, u64)>,
    /// The size of all files that will be read, as far as known.
    pub(crate) expected_bytes: u64,
    /// Whether the line may be shown.
    pub(crate) is_on: bool,
    /// Whether the line is on the terminal now.
    is_drawn: bool,
    /// Whether the other output on the terminal ends within a line. Progress would be drawn over that line.
    is_blocked: bool,
}

/// Shows progress of some work from now on, if standard error is a terminal. If standard output is a pipe, its reader
/// may use the same terminal, as pagers do, so nothing is shown.
pub(crate) fn start(work_name: &'static str) {
    if !sys::takes_escapes() || is_stdout_pipe() {
        return;
    }
    *lock() = ProgressLine { is_on: true, ..ProgressLine::new(work_name) };
    let started = Instant::now();
    // If the system cannot start a thread, nothing is shown.
    drop(thread::Builder::new().spawn(move || {
        thread::sleep(PATIENCE);
        loop {
            // The last column stays free. Without a known width, the line is not cut.
            let width = match sys::error_columns() {
                Some(columns) if columns > 1 => columns - 1,
                _ => usize::MAX,
            };
            lock().draw([bytes_read(), bytes_done()], started.elapsed(), width, &mut io::stderr());
            thread::sleep(INTERVAL);
        }
    }));
}

fn is_stdout_pipe() -> bool {
    let Ok(stdout) = sys::standard_output() else { return false };
    let Ok(stat) = Stat::of(&stdout) else { return false };
    stat.is_pipe()
}

/// Sets how many bytes of the work are done, as its job reports them, and how many there are.
pub(crate) fn set(done: u64, total: u64) {
    lock().reported = Some((done, total));
}

/// Writes to standard error, where the line makes way.
pub(crate) fn write_to_stderr(message: &[u8]) {
    let _held = hold();
    console::write_to_stderr(message);
}

/// Standard output. On a terminal, the line makes way for what is printed.
pub(crate) struct StdoutBelowLine {
    is_terminal: bool,
}

impl StdoutBelowLine {
    pub(crate) fn new() -> Self {
        Self { is_terminal: io::stdout().is_terminal() }
    }
}

impl Write for StdoutBelowLine {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        if !self.is_terminal {
            return Stdout.write(data);
        }
        let mut line = hold();
        let written = Stdout.write(data)?;
        line.note_printed(data.get(..written).unwrap_or_default());
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Stdout.flush()
    }
}

/// Removes the line. It is not drawn again while the caller keeps the result.
pub(crate) fn hold() -> MutexGuard<'static, ProgressLine> {
    let mut line = lock();
    line.clear(&mut io::stderr());
    line
}

/// Removes the line for good.
pub(crate) fn end() {
    hold().is_on = false;
}

pub(crate) fn lock() -> MutexGuard<'static, ProgressLine> {
    LINE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ProgressLine {
    const fn new(work_name: &'static str) -> Self {
        Self { work_name, reported: None, expected_bytes: 0, is_on: false, is_drawn: false, is_blocked: false }
    }

    /// Notes that this data was printed on the terminal. Until it ends with a newline, the line is not drawn.
    pub(crate) fn note_printed(&mut self, data: &[u8]) {
        if let Some(last) = data.last() {
            self.is_blocked = *last != b'\n';
        }
    }

    /// Draws the line, cut to `width` characters. Does nothing before anything was read, or while the line may not be
    /// shown. `read_bytes` are the bytes read so far, and `done_bytes` those of files that are done.
    fn draw(&mut self, [read_bytes, done_bytes]: [u64; 2], elapsed: Duration, width: usize, to: &mut dyn Write) {
        if read_bytes == 0 || !self.is_on || self.is_blocked {
            return;
        }
        self.is_drawn = true;
        let text = text(self.work_name, self.share(done_bytes), read_bytes, elapsed);
        let text: String = text.chars().take(width).collect();
        // A failure to draw does not stop the work.
        drop(to.write_all(format!("\r{text}\x1b[K").as_bytes()));
    }

    /// Returns the bytes done and the bytes expected: as a job reports them, or else `done_bytes` and the size of the
    /// files. Returns `None` if no files are expected, and near their end, see [`LAST_BYTES_DIVISOR`].
    fn share(&self, done_bytes: u64) -> Option<(u64, u64)> {
        if self.reported.is_some() {
            return self.reported;
        }
        let near_end = self.expected_bytes - self.expected_bytes / LAST_BYTES_DIVISOR;
        if done_bytes < near_end { Some((done_bytes, self.expected_bytes)) } else { None }
    }

    /// Removes the line from the terminal, if it is there.
    fn clear(&mut self, to: &mut dyn Write) {
        if std::mem::take(&mut self.is_drawn) {
            drop(to.write_all(b"\r\x1b[K"));
        }
    }
}

/// Returns the text of the line: the share of the work that is done and, if it can be estimated, the time left. `share`
/// has the bytes done and all bytes. Without it, the line only shows the bytes read.
fn text(work_name: &str, share: Option<(u64, u64)>, read_bytes: u64, elapsed: Duration) -> String {
    let seconds = elapsed.as_secs();
    let Some((done, total)) = share else { return format!("{work_name}: {} MB read, {seconds} s", read_bytes / MB) };
    let done = done.min(total);
    // Without bytes to do, 100 percent and all cells of the bar are done.
    let [percent, filled_cells] = [100, WIDTH].map(|of| done.saturating_mul(of).checked_div(total).unwrap_or(of));
    let bar: String = (0..WIDTH).map(|cell| if cell < filled_cells { '#' } else { '.' }).collect();
    let mut text = format!("{work_name}: {percent:3}% [{bar}] {} of {} MB, {seconds} s", done / MB, total / MB);
    let can_estimate = elapsed >= ESTIMATE_AFTER && done >= total / ESTIMATE_DIVISOR;
    if can_estimate && let Some(left) = seconds.saturating_mul(total - done).checked_div(done) {
        text.push_str(&format!(", about {left} s left"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of_verify(share: Option<(u64, u64)>, read: u64) -> String {
        text("verify", share, read, Duration::from_millis(12_900))
    }

    /// Draws a line after `read` bytes. Returns all output since the last call.
    fn drawn(line: &mut ProgressLine, read: u64, to: &mut Vec<u8>) -> String {
        line.draw([read, read], PATIENCE, 20, to);
        String::from_utf8(std::mem::take(to)).unwrap()
    }

    #[test]
    fn the_line_shows_how_much_is_done_and_left() {
        let half = format!("{}{}", "#".repeat(10), ".".repeat(10));
        let expected = format!("verify:  50% [{half}] 645 of 1290 MB, 12 s, about 12 s left");
        assert_eq!(text_of_verify(Some((645_000_000, 1_290_000_000)), 7), expected);
        assert!(text_of_verify(Some((0, 1_000_000)), 7).starts_with("verify:   0% [...."));
        assert!(text_of_verify(Some((7, 5)), 7).starts_with("verify: 100% [####"));
        assert!(text_of_verify(Some((0, 0)), 7).contains(": 100%"));
        assert_eq!(text_of_verify(None, 340_999_999), "verify: 340 MB read, 12 s");
        // Little work gives no estimate.
        for (done, seconds, end) in [(1, 9, ", 9 s"), (50, 1, ", 1 s"), (2, 2, ", 2 s, about 98 s left")] {
            let text = text("x", Some((done, 100)), 7, Duration::from_secs(seconds));
            assert!(text.ends_with(end), "{text}");
        }
    }

    #[test]
    fn the_line_makes_way_for_other_output() {
        let mut line = ProgressLine { is_on: true, ..ProgressLine::new("x") };
        let mut out = Vec::new();
        assert_eq!(drawn(&mut line, 0, &mut out), "");
        line.clear(&mut out);
        assert_eq!(drawn(&mut line, 1, &mut out), "\rx: 0 MB read, 1 s\x1b[K");
        line.clear(&mut out);
        line.note_printed(b"part of a line");
        assert_eq!(drawn(&mut line, 2, &mut out), "\r\x1b[K");
        line.note_printed(b"");
        assert_eq!(drawn(&mut line, 2, &mut out), "");
        line.note_printed(b"the rest\n");
        assert_eq!(drawn(&mut line, 2, &mut out), "\rx: 0 MB read, 1 s\x1b[K");
        // No line is wider than the terminal: the cursor could not go back to its start.
        line.expected_bytes = 10;
        assert_eq!(drawn(&mut line, 2, &mut out), "\rx:  20% [####.......\x1b[K");
        line.is_on = false;
        assert_eq!(drawn(&mut line, 2, &mut out), "");
    }
}

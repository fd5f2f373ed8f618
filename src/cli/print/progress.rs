//! Shows on a terminal that long work goes on: one line, which a thread draws again and again, and which makes way for all
//! other output.

use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use offload_bundle::io::bytes_read;
use offload_bundle::io::sys::{self, Stat};

/// The delay before the line appears.
const PATIENCE: Duration = Duration::from_secs(1);

/// The time between two updates.
const INTERVAL: Duration = Duration::from_millis(100);

/// The width of the bar in characters.
const WIDTH: u64 = 32;

/// The line, of which a process has one.
static LINE: Mutex<Line> = Mutex::new(Line { share: None, is_drawn: false, is_blocked: false });

/// The state of the line.
pub(in crate::cli) struct Line {
    /// The bytes done and the bytes expected, if a job reports them.
    share: Option<(u64, u64)>,
    is_drawn: bool,
    /// Whether it must not be drawn: the work is done, or the last line of the output is not complete.
    is_blocked: bool,
}

/// Whether standard error is a terminal that understands escape sequences.
pub(in crate::cli) fn is_terminal() -> bool {
    sys::takes_escapes()
}

/// Shows progress from now on, if standard error is a terminal. If standard output is a pipe, its reader may use the same
/// terminal, as pagers do, so nothing is shown.
pub(in crate::cli) fn start() {
    let stdout = sys::standard_output().and_then(|stdout| Stat::of(&stdout));
    if !is_terminal() || stdout.is_ok_and(|stdout| stdout.is_pipe()) {
        return;
    }
    let started = Instant::now();
    // If the system cannot start a thread, nothing is shown.
    drop(thread::Builder::new().spawn(move || {
        thread::sleep(PATIENCE);
        loop {
            lock().draw(bytes_read(), started.elapsed(), &mut io::stderr());
            thread::sleep(INTERVAL);
        }
    }));
}

/// Sets how much of the work is done.
pub(in crate::cli) fn set(done: u64, total: u64) {
    lock().share = Some((done, total));
}

/// Removes the line, which stays away as long as the result is held.
pub(in crate::cli) fn hold() -> MutexGuard<'static, Line> {
    let mut line = lock();
    line.clear(&mut io::stderr());
    line
}

/// Removes the line for good.
pub(in crate::cli) fn end() {
    hold().is_blocked = true;
}

fn lock() -> MutexGuard<'static, Line> {
    LINE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Line {
    /// Notes that this was printed on the terminal.
    pub(in crate::cli) fn printed(&mut self, data: &[u8]) {
        self.is_blocked = data.last().map_or(self.is_blocked, |last| *last != b'\n');
    }

    /// Draws the line, if anything was read.
    fn draw(&mut self, read: u64, elapsed: Duration, to: &mut dyn Write) {
        if read > 0 && !self.is_blocked {
            self.is_drawn = true;
            // A failure to draw does not stop the work.
            drop(to.write_all(format!("\r{}\x1b[K", text(self.share, read, elapsed)).as_bytes()));
        }
    }

    fn clear(&mut self, to: &mut dyn Write) {
        if std::mem::take(&mut self.is_drawn) {
            drop(to.write_all(b"\r\x1b[K"));
        }
    }
}

fn text(share: Option<(u64, u64)>, read: u64, elapsed: Duration) -> String {
    let mb = |bytes: u64| bytes / 1_000_000;
    let read = format!("{} MB read, {} s", mb(read), elapsed.as_secs());
    let Some((done, total)) = share else { return read };
    let done = done.min(total);
    let share = |of: u64| done.saturating_mul(of).checked_div(total).unwrap_or(of);
    let filled = share(WIDTH);
    let bar: String = (0..WIDTH).map(|cell| if cell < filled { '#' } else { '.' }).collect();
    format!("{:3}% [{bar}] {} of {} MB; {read}", share(100), mb(done), mb(total))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_shows_how_much_is_done() {
        let text = |share, read| text(share, read, Duration::from_millis(12_900));
        let half = format!("{}{}", "#".repeat(16), ".".repeat(16));
        let expected = format!(" 50% [{half}] 645 of 1290 MB; 0 MB read, 12 s");
        assert_eq!(text(Some((645_000_000, 1_290_000_000)), 7), expected);
        assert!(text(Some((0, 1_000_000)), 7).starts_with("  0% [...."));
        assert!(text(Some((7, 5)), 7).starts_with("100% [####"));
        assert!(text(Some((0, 0)), 7).starts_with("100%"));
        assert_eq!(text(None, 340_999_999), "340 MB read, 12 s");
    }

    #[test]
    fn the_line_makes_way_for_other_output() {
        let mut line = Line { share: None, is_drawn: false, is_blocked: false };
        let mut out = Vec::new();
        let draw = |line: &mut Line, read, to: &mut Vec<u8>| {
            line.draw(read, PATIENCE, to);
            String::from_utf8(std::mem::take(to)).unwrap()
        };
        assert_eq!(draw(&mut line, 0, &mut out), "");
        line.clear(&mut out);
        assert_eq!(draw(&mut line, 1, &mut out), "\r0 MB read, 1 s\x1b[K");
        line.clear(&mut out);
        line.printed(b"part of a line");
        assert_eq!(draw(&mut line, 2, &mut out), "\r\x1b[K");
        line.printed(b"");
        assert_eq!(draw(&mut line, 2, &mut out), "");
        line.printed(b"the rest\n");
        assert_eq!(draw(&mut line, 2, &mut out), "\r0 MB read, 1 s\x1b[K");
    }
}

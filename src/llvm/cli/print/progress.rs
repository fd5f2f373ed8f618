//! Shows on a terminal that long work goes on: one line, which a thread draws again and again, and which makes way for
//! all other output.

use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::base::io::sys::{self, Stat};
use crate::base::io::{bytes_done, bytes_read};

/// The delay before the line appears.
const PATIENCE: Duration = Duration::from_secs(1);

/// The time between two updates.
const INTERVAL: Duration = Duration::from_millis(100);

/// The width of the bar in characters.
const WIDTH: u64 = 20;

/// The time after which the work left is estimated, and the least part of it that is done then, as a divisor.
const ESTIMATED: (Duration, u64) = (Duration::from_secs(2), 50);

/// The part of the files at their end, as a divisor, in which no share is shown.
const NEAR_END: u64 = 33;

/// The line, of which a process has one.
static LINE: Mutex<ProgressLine> = Mutex::new(ProgressLine::new(""));

/// The state of the line.
pub(crate) struct ProgressLine {
    /// The name of the work.
    what: &'static str,
    /// The bytes done and the bytes expected, if a job reports them.
    share: Option<(u64, u64)>,
    /// The size of all files that will be read, as far as known.
    expected: u64,
    /// Whether it may be shown.
    is_on: bool,
    is_drawn: bool,
    /// Whether the last line of the output is not complete.
    is_blocked: bool,
}

/// Whether standard error is a terminal that understands escape sequences.
pub(crate) fn is_terminal() -> bool {
    sys::takes_escapes()
}

/// Shows progress of some work from now on, if standard error is a terminal. If standard output is a pipe, its reader
/// may use the same terminal, as pagers do, so nothing is shown.
pub(crate) fn start(what: &'static str) {
    let stdout = sys::standard_output().and_then(|stdout| Stat::of(&stdout));
    if !is_terminal() || stdout.is_ok_and(|stdout| stdout.is_pipe()) {
        return;
    }
    *lock() = ProgressLine { is_on: true, ..ProgressLine::new(what) };
    let started = Instant::now();
    // If the system cannot start a thread, nothing is shown.
    drop(thread::Builder::new().spawn(move || {
        thread::sleep(PATIENCE);
        loop {
            let width = sys::error_columns().filter(|width| *width > 1).map_or(usize::MAX, |width| width - 1);
            lock().draw([bytes_read(), bytes_done()], started.elapsed(), width, &mut io::stderr());
            thread::sleep(INTERVAL);
        }
    }));
}

/// Adds files that will be read.
pub(crate) fn expect<'f>(files: impl Iterator<Item = &'f Path>) {
    if lock().is_on {
        let size = |path: &Path| path.metadata().ok().filter(|file| file.is_file()).map_or(0, |file| file.len());
        let expected = files.map(size).fold(0, u64::saturating_add);
        let mut line = lock();
        line.expected = line.expected.saturating_add(expected);
    }
}

/// Sets how much of the work is done.
pub(crate) fn set(done: u64, total: u64) {
    lock().share = Some((done, total));
}

/// Removes the line, which stays away as long as the result is held.
pub(crate) fn hold() -> MutexGuard<'static, ProgressLine> {
    let mut line = lock();
    line.clear(&mut io::stderr());
    line
}

/// Removes the line for good.
pub(crate) fn end() {
    hold().is_on = false;
}

fn lock() -> MutexGuard<'static, ProgressLine> {
    LINE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ProgressLine {
    const fn new(what: &'static str) -> Self {
        Self { what, share: None, expected: 0, is_on: false, is_drawn: false, is_blocked: false }
    }

    /// Notes that this was printed on the terminal.
    pub(crate) fn printed(&mut self, data: &[u8]) {
        self.is_blocked = data.last().map_or(self.is_blocked, |last| *last != b'\n');
    }

    /// Draws the line in a width, if anything was read. The bytes are those read, and those done of files.
    fn draw(&mut self, [read, done]: [u64; 2], elapsed: Duration, width: usize, to: &mut dyn Write) {
        if read > 0 && self.is_on && !self.is_blocked {
            self.is_drawn = true;
            // A file that is read to its end may take more work, of which nothing is known.
            let is_within = |(done, expected): &(u64, u64)| *done < *expected - expected / NEAR_END;
            let share = self.share.or(Some((done, self.expected)).filter(is_within));
            let text: String = text(self.what, share, read, elapsed).chars().take(width).collect();
            // A failure to draw does not stop the work.
            drop(to.write_all(format!("\r{text}\x1b[K").as_bytes()));
        }
    }

    fn clear(&mut self, to: &mut dyn Write) {
        if std::mem::take(&mut self.is_drawn) {
            drop(to.write_all(b"\r\x1b[K"));
        }
    }
}

fn text(what: &str, share: Option<(u64, u64)>, read: u64, elapsed: Duration) -> String {
    let mb = |bytes: u64| bytes / 1_000_000;
    let what = if what.is_empty() { String::new() } else { format!("{what}: ") };
    let seconds = elapsed.as_secs();
    let Some((done, total)) = share else { return format!("{what}{} MB read, {seconds} s", mb(read)) };
    let done = done.min(total);
    let share = |of: u64| done.saturating_mul(of).checked_div(total).unwrap_or(of);
    let filled = share(WIDTH);
    let bar: String = (0..WIDTH).map(|cell| if cell < filled { '#' } else { '.' }).collect();
    let (after, least) = ESTIMATED;
    let left = match elapsed >= after && done >= total / least {
        true => seconds.saturating_mul(total - done).checked_div(done),
        false => None,
    };
    let left = left.map_or(String::new(), |left| format!(", about {left} s left"));
    format!("{what}{:3}% [{bar}] {} of {} MB, {seconds} s{left}", share(100), mb(done), mb(total))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_shows_how_much_is_done_and_left() {
        let text = |share, read| text("verify", share, read, Duration::from_millis(12_900));
        let half = format!("{}{}", "#".repeat(10), ".".repeat(10));
        let expected = format!("verify:  50% [{half}] 645 of 1290 MB, 12 s, about 12 s left");
        assert_eq!(text(Some((645_000_000, 1_290_000_000)), 7), expected);
        assert!(text(Some((0, 1_000_000)), 7).starts_with("verify:   0% [...."));
        assert!(text(Some((7, 5)), 7).starts_with("verify: 100% [####"));
        assert!(text(Some((0, 0)), 7).contains(": 100%"));
        assert_eq!(text(None, 340_999_999), "verify: 340 MB read, 12 s");
        // Of little, no estimate is made.
        let text = |done, seconds| super::text("", Some((done, 100)), 7, Duration::from_secs(seconds));
        assert!(text(1, 9).ends_with(", 9 s") && text(50, 1).ends_with(", 1 s"), "{}", text(1, 9));
        assert!(text(2, 2).ends_with(", 2 s, about 98 s left"), "{}", text(2, 2));
    }

    #[test]
    fn the_line_makes_way_for_other_output() {
        let mut line = ProgressLine { is_on: true, ..ProgressLine::new("") };
        let mut out = Vec::new();
        let draw = |line: &mut ProgressLine, read, to: &mut Vec<u8>| {
            line.draw([read, read], PATIENCE, 20, to);
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
        // No line is wider than the terminal: the cursor could not go back to its start.
        line.expected = 10;
        assert_eq!(draw(&mut line, 2, &mut out), "\r 20% [####..........\x1b[K");
        line.is_on = false;
        assert_eq!(draw(&mut line, 2, &mut out), "");
    }
}

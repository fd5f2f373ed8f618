//! A progress bar on a terminal: one line, redrawn during the work and removed at its end.

use std::cell::Cell;
use std::io::{self, Write};
use std::time::{Duration, Instant};

/// The delay before the bar appears.
const PATIENCE: Duration = Duration::from_secs(1);

/// The shortest time between two updates.
const INTERVAL: Duration = Duration::from_millis(100);

/// The width of the bar in characters.
const WIDTH: u64 = 32;

pub(super) struct Progress {
    started: Instant,
    drawn: Cell<Option<Instant>>,
}

impl Progress {
    pub(super) fn new() -> Self {
        Self { started: Instant::now(), drawn: Cell::new(None) }
    }

    /// Draws the bar if an update is due.
    pub(super) fn show(&self, done: u64, total: u64) {
        let now = Instant::now();
        let recent = self.drawn.get().is_some_and(|drawn| now.duration_since(drawn) < INTERVAL);
        if recent || now.duration_since(self.started) < PATIENCE {
            return;
        }
        self.drawn.set(Some(now));
        write(&format!("\r{}\x1b[K", line(done, total)));
    }

    /// Removes the bar, to make room for other output.
    pub(super) fn clear(&self) {
        if self.drawn.take().is_some() {
            write("\r\x1b[K");
        }
    }
}

fn write(text: &str) {
    // A failure to draw the bar does not stop the work.
    drop(io::stderr().write_all(text.as_bytes()));
}

fn line(done: u64, total: u64) -> String {
    let done = done.min(total);
    let share = |of: u64| done.saturating_mul(of).checked_div(total).unwrap_or(of);
    let filled = share(WIDTH);
    let bar: String = (0..WIDTH).map(|cell| if cell < filled { '#' } else { '.' }).collect();
    format!("{:3}% [{bar}] {} of {} MB", share(100), done / 1_000_000, total / 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_shows_how_much_is_done() {
        let half = format!("{}{}", "#".repeat(16), ".".repeat(16));
        assert_eq!(line(645_000_000, 1_290_000_000), format!(" 50% [{half}] 645 of 1290 MB"));
        assert!(line(0, 1_000_000).starts_with("  0% [...."));
        assert!(line(7, 5).starts_with("100% [####"));
        assert!(line(0, 0).starts_with("100%"));
    }

    #[test]
    fn quick_work_has_no_bar() {
        let progress = Progress::new();
        progress.show(1, 2);
        assert_eq!(progress.drawn.get(), None);
        let slow = Progress { started: Instant::now().checked_sub(PATIENCE * 2).unwrap(), drawn: Cell::new(None) };
        slow.show(1, 2);
        assert!(slow.drawn.get().is_some());
        slow.clear();
        assert_eq!(slow.drawn.get(), None);
    }
}

//! The figures as pictures, on light and on dark pages.

use std::fmt::Write as _;

use crate::report::{bytes, ratio, seconds};
use crate::rows::{Axis, Growth};
use crate::run::{Outcome, Sample};

/// Colours in classes; text and lines in a tone that can be read on both grounds, and better ones where the reader says
/// which it is.
const STYLE: &str = "<style>
text { font: 13px system-ui, 'DejaVu Sans', sans-serif; fill: #6e7781 }
.small { font-size: 11px } .head { font-weight: 600 } .title { font-size: 15px; font-weight: 600 }
.grid { stroke: #8c959f; stroke-opacity: .35 } .one { stroke: #8c959f; stroke-width: 1.5 }
.goal { stroke: #cf222e; stroke-width: 2.5 }
.time { fill: #2f81c7 } .memory { fill: #d08a1d } .size { fill: #3d9a50 }
.ours { stroke: #2f81c7; fill: #2f81c7 } .theirs { stroke: #d08a1d; fill: #d08a1d }
.line { stroke-width: 2 } polyline { fill: none !important } .theirs.line { stroke-dasharray: 5 3 }
@media (prefers-color-scheme: dark) { text { fill: #b1bac4 } .goal { stroke: #ff7b72 } }
</style>
";

/// A picture that is being drawn.
struct Picture {
    width: f64,
    height: f64,
    body: String,
}

/// A logarithmic scale: from these values to these coordinates.
#[derive(Clone, Copy)]
struct Scale {
    values: (f64, f64),
    at: (f64, f64),
}

impl Scale {
    fn place(self, value: f64) -> f64 {
        let (low, high) = (self.values.0.log10(), self.values.1.log10());
        let part = (value.clamp(self.values.0, self.values.1).log10() - low) / (high - low);
        self.at.0 + part * (self.at.1 - self.at.0)
    }

    /// The powers of ten on the scale.
    fn decades(self) -> impl Iterator<Item = f64> {
        let (low, high) = (self.values.0.log10() - 1e-9, self.values.1.log10() + 1e-9);
        (low.ceil() as i32..=high.floor() as i32).map(|power| 10_f64.powi(power))
    }
}

impl Picture {
    fn text(&mut self, x: f64, y: f64, anchor: &str, class: &str, text: &str) {
        let text = text.replace('&', "&amp;").replace('<', "&lt;");
        writeln!(self.body, "<text x='{x:.1}' y='{y:.1}' text-anchor='{anchor}' class='{class}'>{text}</text>")
            .unwrap();
    }

    fn rect(&mut self, x: f64, y: f64, width: f64, height: f64, class: &str) {
        writeln!(
            self.body,
            "<rect x='{x:.1}' y='{y:.1}' width='{width:.1}' height='{height}' rx='1.5' class='{class}'/>"
        )
        .unwrap();
    }

    fn line(&mut self, from: (f64, f64), to: (f64, f64), class: &str) {
        let ((x1, y1), (x2, y2)) = (from, to);
        writeln!(self.body, "<line x1='{x1:.1}' y1='{y1:.1}' x2='{x2:.1}' y2='{y2:.1}' class='{class}'/>").unwrap();
    }

    fn finish(self, title: &str) -> String {
        let Self { width, height, body } = self;
        format!(
            "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' width='{width}' height='{height}' \
             role='img'>\n<title>{title}</title>\n{STYLE}{body}</svg>\n"
        )
    }
}

/// For each row bars from 1 down to the ratios of time, memory and size, and ticks at the goals.
pub fn ratios(outcomes: &[Outcome]) -> String {
    const BAR: f64 = 12.0;
    let rows: Vec<&Outcome> = outcomes.iter().filter(|it| it.stands_alone() && it.theirs.is_some()).collect();
    let bars = |it: &Outcome| {
        let goal = it.row.goal;
        [
            ("time", it.time_ratio(), goal.map(|goal| goal.time)),
            ("memory", it.memory_ratio(), goal.map(|goal| goal.memory)),
            ("size", it.size_ratio(), goal.and_then(|goal| goal.size)),
        ]
    };
    let heights: Vec<f64> =
        rows.iter().map(|it| bars(it).iter().filter(|bar| bar.1.is_some()).count() as f64 * BAR + 14.0).collect();
    let (top, height) = (76.0, heights.iter().sum::<f64>());
    let mut picture = Picture { width: 980.0, height: top + height + 34.0, body: String::new() };
    let shown = rows.iter().flat_map(|it| bars(it)).flat_map(|(_, share, goal)| [share, goal]).flatten();
    let least = shown.fold(0.02, f64::min).max(1e-5);
    let scale = Scale { values: (least / 2.0, 2.0), at: (400.0, 950.0) };

    picture.text(16.0, 24.0, "start", "title", "Cost as a share of LLVM 22's");
    picture.text(16.0, 44.0, "start", "small", "logarithmic; the longer the bar, the less we need");
    for (index, name) in ["time", "memory", "size"].into_iter().enumerate() {
        let x = 560.0 + 90.0 * index as f64;
        picture.rect(x, 14.0, 12.0, 12.0, name);
        picture.text(x + 18.0, 24.0, "start", "", name);
    }
    picture.line((836.0, 12.0), (836.0, 28.0), "goal");
    picture.text(844.0, 24.0, "start", "", "goal");
    for value in scale.decades() {
        let (x, class) = (scale.place(value), if value == 1.0 { "one" } else { "grid" });
        picture.line((x, top - 8.0), (x, top + height), class);
        let label = if value == 1.0 { "as LLVM 22".to_owned() } else { format!("1/{:.0}", 1.0 / value) };
        picture.text(x, top - 14.0, "middle", "small", &label);
        picture.text(x, top + height + 18.0, "middle", "small", &label);
    }
    let mut y = top;
    for (row, height) in rows.into_iter().zip(heights) {
        picture.text(16.0, y + (height - 14.0) / 2.0 + 9.0, "start", "", &shortened(&row.row.what));
        let mut bar_y = y + 4.0;
        for (class, share, goal) in bars(row) {
            let Some(share) = share else { continue };
            let (one, end) = (scale.place(1.0), scale.place(share));
            picture.rect(one.min(end), bar_y, (one - end).abs(), BAR - 2.0, class);
            let goal = goal.map(|goal| scale.place(goal));
            if let Some(goal) = goal {
                picture.line((goal, bar_y - 1.0), (goal, bar_y + BAR - 1.0), "goal");
            }
            // Where a missed goal's tick stands just left of the bar, the figure goes to the left of both.
            let left = goal.filter(|&goal| goal < end && goal > end - 40.0).unwrap_or(end).min(one);
            picture.text(left - 5.0, bar_y + BAR - 3.0, "end", "small", &ratio(Some(share)));
            bar_y += BAR;
        }
        y += height;
    }
    picture.finish("Time, memory and size as shares of LLVM 22's")
}

fn shortened(what: &str) -> String {
    const MAX: usize = 56;
    if what.chars().count() <= MAX {
        return what.to_owned();
    }
    what.chars().take(MAX - 1).chain(['…']).collect()
}

/// Draws, for each kind of work, a panel with time and one with memory, over the dimension that grows.
pub fn growth(outcomes: &[Outcome]) -> String {
    let counts = panels(outcomes, |growth| growth.axis != Axis::Bytes);
    let sizes = panels(outcomes, |growth| growth.axis == Axis::Bytes);
    let mut picture = Picture { width: 1040.0, height: 60.0, body: String::new() };
    picture.text(16.0, 24.0, "start", "title", "How cost grows");
    for (x, class, name) in [(200.0, "ours", "ours"), (290.0, "theirs", "LLVM 22")] {
        picture.line((x, 20.0), (x + 26.0, 20.0), &format!("{class} line"));
        picture.text(x + 34.0, 24.0, "start", "", name);
    }
    let time: Cost = |sample| sample.wall.median;
    let memory: Cost = |sample| sample.memory.median;
    for (panels, over) in [(counts, "the number of entries and members"), (sizes, "size")] {
        if !panels.is_empty() {
            row_of_panels(&mut picture, &panels, &format!("Time over {over}"), time, seconds, 1e-3);
            row_of_panels(&mut picture, &panels, &format!("Memory over {over}"), memory, bytes, 1e6);
        }
    }
    picture.finish("How time and memory grow with the number of entries and members, and with size")
}

type Cost = fn(&Sample) -> f64;
type Show = fn(f64) -> String;

/// The power of ten at or below `value`.
fn decade_below(value: f64) -> f64 {
    10_f64.powf((value.log10() + 1e-9).floor())
}

/// A panel: a kind of work, and the rows that measure it.
struct Panel<'a> {
    growth: Growth,
    points: Vec<(f64, &'a Outcome)>,
}

fn panels(outcomes: &[Outcome], wanted: fn(&Growth) -> bool) -> Vec<Panel<'_>> {
    let mut panels: Vec<Panel> = Vec::new();
    for outcome in outcomes {
        let Some(growth) = outcome.row.growth.filter(wanted) else { continue };
        let point = (growth.at as f64, outcome);
        match panels.iter_mut().find(|it| it.growth.axis == growth.axis && it.growth.work == growth.work) {
            Some(panel) => panel.points.push(point),
            None => panels.push(Panel { growth, points: vec![point] }),
        }
    }
    panels
}

/// Panels side by side, with one scale of cost for all.
fn row_of_panels(picture: &mut Picture, panels: &[Panel], title: &str, of: Cost, show: Show, least: f64) {
    const WIDTH: f64 = 150.0;
    const HEIGHT: f64 = 130.0;
    let (top, left) = (picture.height + 26.0, 78.0);
    picture.text(16.0, top - 28.0, "start", "head", title);
    let samples = panels.iter().flat_map(|panel| &panel.points);
    let costs = samples.flat_map(|(_, it)| [Some(&it.ours), it.theirs.as_ref()]).flatten().map(of);
    let (low, high) = costs.fold((least, least * 10.0), |(low, high), cost| (low.min(cost), high.max(cost)));
    let y = Scale { values: (decade_below(low), 10.0 * decade_below(high * 0.999)), at: (top + HEIGHT, top) };
    for (index, panel) in panels.iter().enumerate() {
        let start = left + index as f64 * (WIDTH + 42.0);
        let values = match panel.growth.axis {
            Axis::Bytes => (1e6, 2e9),
            Axis::Entries | Axis::Members => (1.0, 1000.0),
        };
        let x = Scale { values, at: (start, start + WIDTH) };
        picture.text(start, top - 8.0, "start", "", panel.growth.work);
        for value in y.decades() {
            picture.line((start, y.place(value)), (start + WIDTH, y.place(value)), "grid");
            if index == 0 {
                picture.text(start - 6.0, y.place(value) + 4.0, "end", "small", &show(value));
            }
        }
        for value in x.decades() {
            picture.line((x.place(value), top + HEIGHT), (x.place(value), top + HEIGHT + 4.0), "one");
            let label = if panel.growth.axis == Axis::Bytes { bytes(value) } else { format!("{value}") };
            picture.text(x.place(value), top + HEIGHT + 16.0, "middle", "small", &label);
        }
        let mine = |it: &Outcome| Some(of(&it.ours));
        let other = |it: &Outcome| it.theirs.as_ref().map(of);
        curve(picture, panel, x, y, "theirs", &other);
        curve(picture, panel, x, y, "ours", &mine);
    }
    picture.height = top + HEIGHT + 44.0;
}

fn curve(
    picture: &mut Picture,
    panel: &Panel,
    x: Scale,
    y: Scale,
    class: &str,
    cost: &dyn Fn(&Outcome) -> Option<f64>,
) {
    let place = |(at, outcome): &(f64, &Outcome)| Some((x.place(*at), y.place(cost(outcome)?)));
    let places: Vec<(f64, f64)> = panel.points.iter().filter_map(place).collect();
    let points = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect::<Vec<_>>().join(" ");
    writeln!(picture.body, "<polyline points='{points}' class='{class} line'/>").unwrap();
    for (x, y) in places {
        writeln!(picture.body, "<circle cx='{x:.1}' cy='{y:.1}' r='2.5' class='{class}'/>").unwrap();
    }
}

//! The text report of `diff`: GPUs, sizes by GPU, files, and kernels.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::base::display::printable;
use crate::beyond::job::{GpuDiff, KernelDiff};
use crate::beyond::serialized::Counts;

use super::compared::Compared;
use super::fail::lost_in;
use super::kernel::KernelRows;
use super::sets::FilePair;
use super::total::{DiffTotal, Presence, sum};
use crate::beyond::cli::kernels;
use crate::beyond::cli::kernels::table::{Listed, Where, either};
use crate::beyond::cli::print::table::{Cell, Column, Fit, Table};
use crate::beyond::cli::print::text::Text;
use crate::beyond::cli::print::units::{bytes, count, grouped, percent};

/// Writes the report: what differs in all files, which is known after the last one.
pub(super) fn write(
    [old, new]: [&PathBuf; 2],
    files: &mut dyn Iterator<Item = Compared>,
    total: &RefCell<DiffTotal>,
    (is_tree, top): (bool, usize),
    text: Text<'_>,
) -> anyhow::Result<()> {
    let (mut rows, mut of_files) = (KernelRows::default(), Vec::new());
    for Compared { pair, diff, rows: more } in files {
        if is_tree && !diff.code_objects.is_empty() {
            of_files.push(file(&pair, &sum(diff.gpus.values())));
        }
        rows.add(more, top);
    }
    rows.keep(top);
    let (rows, total) = (rows.kept, total.borrow());
    let shown = |path: &PathBuf| printable(&path.to_string_lossy());
    let mut report = DiffText { total: &total, presences: total.presences(), text };
    report.head(&format!("{} -> {}", shown(old), shown(new)))?;
    report.gpus()?;
    of_files.iter().try_for_each(|file| report.text.item(file))?;
    report.kernels(&rows)?;
    Ok(report.not_read()?)
}

/// What differs in a file of two directories.
fn file(pair: &FilePair, sum: &GpuDiff) -> String {
    let path = pair.shown();
    let objects = |number| count(number, "code object", "code objects");
    match (&pair.old, &pair.new) {
        (_, None) => format!("{path}: only in the old directory, {}", objects(sum.removed)),
        (None, _) => format!("{path}: only in the new directory, {}", objects(sum.added)),
        _ => format!("{path}: {}", of_objects(sum)),
    }
}

/// The numbers of code objects that differ.
fn of_objects(gpu: &GpuDiff) -> String {
    changes(gpu.changed, gpu.added, gpu.removed)
}

fn changes(changed: usize, added: usize, removed: usize) -> String {
    let numbers = [(changed, "changed"), (added, "added"), (removed, "removed")];
    let told = numbers.into_iter().filter(|(number, _)| *number > 0);
    told.map(|(number, what)| format!("{} {what}", grouped(number))).collect::<Vec<_>>().join(", ")
}

struct DiffText<'r, 'o> {
    total: &'r DiffTotal,
    presences: HashMap<&'r str, Presence>,
    text: Text<'o>,
}

impl DiffText<'_, '_> {
    fn head(&mut self, title: &str) -> io::Result<()> {
        let (all, total) = (self.total.all(), self.total);
        let (changed, equal) = (of_objects(&all), grouped(total.equal.all));
        let is_empty = all.old.code_objects == 0 && all.new.code_objects == 0;
        let facts = match changed.as_str() {
            _ if is_empty && total.pairs == 0 => "nothing was compared",
            _ if is_empty => "no code objects to compare in either",
            "" => &format!("no differences in device code; code objects compared: {equal}"),
            changed => &format!("code objects: {changed}, {equal} equal"),
        };
        self.text.heading(title, &format!(": {facts}"))?;
        for gpus in total.lost_and_gained(&self.presences) {
            self.text.item(&gpus)?;
        }
        for (library, loss) in &total.losses {
            if !self.is(&loss.gpu, Presence::Lost) {
                self.text.item(&lost_in(library, loss))?;
            }
        }
        Ok(())
    }

    /// Writes how many code objects are equal only by what the files record.
    fn not_read(&mut self) -> io::Result<()> {
        let equal = &self.total.equal;
        match equal.by_hash + equal.by_checksum {
            0 => Ok(()),
            number => {
                let objects = count(number, "code object", "code objects");
                self.text.line(&format!("equal by their recorded hash or checksum only, not read: {objects}"))
            }
        }
    }

    fn is(&self, gpu: &str, presence: Presence) -> bool {
        self.presences.get(gpu) == Some(&presence)
    }

    /// Writes the sizes by GPU: GPUs that are lost, GPUs that are gained, then those with the largest difference.
    fn gpus(&mut self) -> io::Result<()> {
        let differs = |gpu: &GpuDiff| gpu.changed > 0 || gpu.added > 0 || gpu.removed > 0;
        // If bundles are compressed, any change in them changes the shares of all code objects.
        let is_any = self.total.gpus.values().any(differs);
        let is_shown = |gpu: &GpuDiff| if is_any { differs(gpu) } else { gpu.old.stored != gpu.new.stored };
        let mut rows: Vec<(&str, GpuDiff)> =
            self.total.gpus.iter().filter(|(_, gpu)| is_shown(gpu)).map(|(name, gpu)| (&**name, *gpu)).collect();
        if rows.is_empty() {
            return Ok(());
        }
        let presence = |name: &str| self.presences.get(name).copied().unwrap_or(Presence::Both);
        let weight = |name: &str, gpu: &GpuDiff| {
            let rank = match presence(name) {
                Presence::Lost => 2,
                Presence::Gained => 1,
                Presence::Replaced | Presence::Both => 0,
            };
            Reverse((rank, gpu.new.stored.abs_diff(gpu.old.stored)))
        };
        rows.sort_by_key(|(name, gpu)| weight(name, gpu));
        rows.push(("all", self.total.all()));
        let share = |(name, gpu): &(&str, GpuDiff)| match presence(name) {
            Presence::Both => changed(gpu, |difference| percent(difference, gpu.old.stored)),
            _ => String::new(),
        };
        let note = |(name, gpu): &(&str, GpuDiff)| match presence(name) {
            Presence::Both => of_objects(gpu),
            presence => presence.name().to_owned(),
        };
        let number =
            |title, of: fn(&GpuDiff) -> String| Column::number(title, move |(_, gpu): &(&str, GpuDiff)| of(gpu));
        let columns = vec![
            Column::label("GPU", |(name, _): &(&str, GpuDiff)| Cell::Bold((*name).to_owned())),
            number("OBJECTS", |gpu| either(gpu.old.code_objects, gpu.new.code_objects, grouped)),
            number("OLD", |gpu| bytes(gpu.old.stored)),
            number("NEW", |gpu| bytes(gpu.new.stored)),
            Column { fit: Fit::Stays, ..number("DIFFERENCE", |gpu| changed(gpu, bytes)) },
            Column::number("", share),
            Column::name("", note),
        ];
        self.text.table(Table { indent: 4, columns }, || rows.iter())
    }

    fn kernels(&mut self, rows: &[(KernelDiff, Arc<str>)]) -> io::Result<()> {
        let Counts { equal, changed, added, removed } = self.total.kernels;
        let (told, all) = (changes(changed, added, removed), changed + added + removed);
        if all == 0 && equal == 0 {
            return Ok(());
        }
        let same = match equal {
            0 => String::new(),
            same => format!("{}{} without a difference in numbers", if all == 0 { "" } else { ", " }, grouped(same)),
        };
        let shown = match rows.len() {
            len if len < all && len > 0 => format!("; the first {}:", grouped(len)),
            _ => String::new(),
        };
        self.text.item(&format!("kernels: {told}{same}{shown}"))?;
        let is_elsewhere = |first| rows.iter().any(|(kernel, _)| !has_same_place(first, kernel));
        let has_places = rows.first().is_some_and(|(first, _)| is_elsewhere(first));
        let place_column = if has_places { Where::File } else { Where::Nowhere };
        kernels::table::table(|| rows.iter().map(listed), place_column, None, 4, &mut self.text)
    }
}

/// The difference of the stored sizes, with its sign; empty if there is none.
fn changed(GpuDiff { old, new, .. }: &GpuDiff, text: impl Fn(u64) -> String) -> String {
    match new.stored.abs_diff(old.stored) {
        0 => String::new(),
        difference => format!("{}{}", if new.stored < old.stored { "-" } else { "+" }, text(difference)),
    }
}

fn listed((kernel, name): &(KernelDiff, Arc<str>)) -> Listed<'_> {
    let (gpu, code_object, change) = (&*kernel.gpu, &*kernel.code_object, Some(kernel.change()));
    Listed { gpu, code_object, name, change, old: kernel.old.as_ref(), new: kernel.new.as_ref() }
}

/// Whether the places of two kernels are the same in the old and the new file.
fn has_same_place(a: &KernelDiff, b: &KernelDiff) -> bool {
    let [a, b] = [a, b].map(|kernel| &kernel.code_object.bundle.place);
    a.steps() == b.steps() && a.file().file_name() == b.file().file_name()
}

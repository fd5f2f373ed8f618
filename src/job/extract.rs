//! Extracts code objects from any file.

use std::cell::LazyCell;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::present::Present;
use super::share::check_size;
use super::unmatched::Unmatched;
use super::{Event, Observer, open};
use crate::bytes::len_u64;
use crate::container::Limits;
use crate::display::plain;
use crate::error::{Error, ErrorKind, Result};
use crate::io::input::{Accept, Input, Slice};
use crate::io::meter::Meter;
use crate::io::output::{self, Manner, Output};
use crate::io::piece::Sink;
use crate::scan::{Checksums, ContentKind, Finding, Found, Place, Provenance, Scan, Selection, recorded_target};

/// The name of standard output.
const STANDARD_OUTPUT: &str = "-";

/// The maximum length of a generated file name without extension and number, in bytes: below the limit of file systems.
const NAME_MAX: usize = 240;

/// The maximum length of an entry ID in such a name, in bytes. The IDs that compilers write are shorter.
const ID_MAX: usize = 96;

/// Extracts the code objects of some files that match a selection, each into a separate file.
///
/// The name of such a file consists of the [input's name](Source::name), the names of the enclosing members if there
/// are any, the number of the bundle at its place, the entry ID, and an extension for the kind of content. It contains
/// only letters, digits and `+-._=`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Extract {
    /// The files to search.
    pub inputs: Vec<Source>,
    /// The code objects to extract.
    pub selection: Selection,
    /// The destination.
    pub destination: Destination,
    /// Limits on the inflated size of compressed containers.
    pub limits: Limits,
}

/// A file to search.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Source {
    /// The file.
    pub path: PathBuf,
    /// The prefix of the names of the extracted files. Separators in it are replaced.
    pub name: PathBuf,
    /// The reaction if the file cannot be read or a part of it is broken.
    pub if_broken: IfBroken,
}

impl Source {
    /// A file named by the user. It must be valid.
    pub fn named(path: PathBuf) -> Self {
        let name = path.file_name().unwrap_or_default().into();
        Self { path, name, if_broken: IfBroken::Fail }
    }

    /// A file found in a directory. It is skipped if it is broken; its name is its path relative to the directory.
    pub fn found(path: PathBuf, directory: &Path) -> Self {
        let name = path.strip_prefix(directory).unwrap_or(&path).to_owned();
        Self { path, name, if_broken: IfBroken::LeaveOut }
    }

    fn open(&self, limits: Limits) -> Result<Input> {
        match self.if_broken {
            IfBroken::Fail => open(&self.path, Accept::Finite, limits.streamed),
            IfBroken::LeaveOut => open(&self.path, Accept::Regular, None),
        }
    }
}

/// The reaction to a broken input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfBroken {
    /// The job fails and writes nothing.
    Fail,
    /// The job reports [`Event::LeftOut`] and writes nothing from this file. For files that the user did not name.
    LeaveOut,
}

/// The destination of extracted code objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// This directory, which is created if it does not exist.
    Directory(PathBuf),
    /// Nowhere: only the names of the files that would be written to this directory are reported. `-` is standard
    /// output.
    Nowhere(PathBuf),
    /// Standard output, for which exactly one code object must match.
    StandardOutput,
}

/// An extracted code object.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Extracted {
    /// The file.
    pub path: PathBuf,
    /// Its size in bytes.
    pub size: u64,
    /// The origin of the code object.
    pub from: Provenance,
    /// The kind of its content.
    pub kind: ContentKind,
    /// The target ID recorded in the code object, as
    /// [`CodeObject::recorded_target`](crate::scan::CodeObject::recorded_target).
    pub recorded_target: Option<String>,
}

impl Extract {
    /// Extracts the code objects of the inputs that match the selection to the destination.
    pub fn new(inputs: Vec<Source>, selection: Selection, destination: Destination) -> Self {
        Self { inputs, selection, destination, limits: Limits::default() }
    }

    /// Extracts, and returns the written files in the order of the inputs.
    ///
    /// # Errors
    /// Any [`Error`]; nothing is written then. The kind is [`NotFound`](ErrorKind::NotFound) if the selection, or any
    /// target or kind that it names, matches nothing, or nothing but in skipped files.
    pub fn run(&self, observer: &mut Observer<'_>) -> Result<Vec<Extracted>> {
        let missing = self.missing_directories();
        let done = self.extract(observer);
        if done.is_err() {
            // A directory that is not empty was not created by this job, or is already used by others.
            missing.into_iter().for_each(|directory| drop(std::fs::remove_dir(directory)));
        }
        done
    }

    fn extract(&self, observer: &mut Observer<'_>) -> Result<Vec<Extracted>> {
        let mut work = Work::new(self);
        for source in &self.inputs {
            let before = work.mark();
            match source.open(self.limits).and_then(|input| work.file(&input, &source.name)) {
                Err(error) if source.if_broken == IfBroken::LeaveOut && is_of_input(&error, &source.path) => {
                    work.leave_out(&before);
                    observer(Event::LeftOut { error: &error });
                }
                done => done?,
            }
        }
        work.finish()
    }

    /// The directories that must be created, innermost first.
    fn missing_directories(&self) -> Vec<&Path> {
        let Destination::Directory(directory) = &self.destination else { return Vec::new() };
        let is_missing = |path: &&Path| !path.as_os_str().is_empty() && !path.exists();
        directory.ancestors().take_while(is_missing).collect()
    }
}

impl Destination {
    fn is_standard_output(&self) -> bool {
        match self {
            Self::StandardOutput => true,
            Self::Nowhere(directory) => directory.as_os_str() == STANDARD_OUTPUT,
            Self::Directory(_) => false,
        }
    }
}

/// The state of an extraction.
struct Work<'j> {
    job: &'j Extract,
    /// The canonical paths of the inputs.
    inputs: HashSet<PathBuf>,
    names: Names,
    /// The entry IDs found so far.
    present: Present,
    unmatched: Unmatched<'j>,
    /// The number of code objects that match the selection.
    taken: usize,
    /// `None` if no file was skipped.
    left_out: Option<LeftOut>,
    outputs: Vec<Output>,
    done: Vec<Extracted>,
    /// The entry ID of the code object for standard output.
    only: Vec<String>,
}

/// The matches in skipped files.
#[derive(Default)]
struct LeftOut {
    /// The number of code objects.
    taken: usize,
    /// The indices of the targets and kinds that matched.
    matched: HashSet<usize>,
}

/// The state of an extraction at the start of a file, for rolling back.
struct Mark {
    names: usize,
    present: usize,
    matched: usize,
    taken: usize,
    outputs: usize,
    done: usize,
}

impl<'j> Work<'j> {
    fn new(job: &'j Extract) -> Self {
        Self {
            job,
            inputs: job.inputs.iter().filter_map(|input| input.path.canonicalize().ok()).collect(),
            names: Names::default(),
            present: Present::default(),
            unmatched: Unmatched::of(&job.selection),
            taken: 0,
            left_out: None,
            outputs: Vec::new(),
            done: Vec::new(),
            only: Vec::new(),
        }
    }

    fn file(&mut self, input: &Input, name: &Path) -> Result<()> {
        let scan = Scan { checksums: Checksums::OfFound, limits: self.job.limits, ..Scan::default() };
        let scanned = scan.run(input, &mut |finding| match finding {
            Finding::Bundle(found) => self.bundle(input, name, &found).map_err(|error| located(error, found.place)),
            Finding::Broken { place, error } => Err(error.at(place)),
            _ => Ok(()),
        });
        input.vouch_for(scanned)
    }

    /// Extracts from one bundle.
    fn bundle(&mut self, input: &Input, name: &Path, found: &Found<'_>) -> Result<()> {
        let mut sinks = Vec::new();
        let place = LazyCell::new(|| Arc::new(found.place.clone()));
        for code_object in found.code_objects() {
            let id = code_object.known_id();
            self.present.note(&id.shown);
            if self.unmatched.takes(&id) {
                let from = Provenance::new(&place, found.index, &code_object)?;
                let stem = self.names.stem(name, &from);
                sinks.push((code_object.index(), Pending::new(&self.job.destination, stem, from, code_object.size())));
            }
        }
        self.taken = self.taken.saturating_add(sinks.len());
        if self.job.destination.is_standard_output() {
            self.only_one(input, &sinks)?;
        }
        check_size(input.path(), found.bundle, sinks.iter().map(|(index, _)| *index))?;
        let mut wanted: Vec<(usize, &mut Pending)> = sinks.iter_mut().map(|(index, sink)| (*index, sink)).collect();
        if !wanted.is_empty() {
            found.bundle.extract(&mut wanted, &mut Meter::silent())?;
        }
        for (_, sink) in sinks {
            self.take(sink)?;
        }
        Ok(())
    }

    /// Refuses a second code object for standard output.
    fn only_one(&mut self, input: &Input, sinks: &[(usize, Pending)]) -> Result<()> {
        self.only.extend(sinks.iter().map(|(_, pending)| pending.from.shown_id()));
        if self.only.len() > 1 {
            return Err(Error::SeveralMatch { path: input.path().to_owned(), ids: std::mem::take(&mut self.only) });
        }
        Ok(())
    }

    fn take(&mut self, mut sink: Pending) -> Result<()> {
        sink.start(&[])?;
        if sink.path.canonicalize().is_ok_and(|path| self.inputs.contains(&path)) {
            return Err(Error::overwrites_input(&sink.path));
        }
        let Pending { path, size, from, kind, recorded_target, output, .. } = sink;
        self.done.push(Extracted { path, size, from, kind, recorded_target });
        self.outputs.extend(output);
        Ok(())
    }

    fn mark(&self) -> Mark {
        Mark {
            names: self.names.given.len(),
            present: self.present.len(),
            matched: self.unmatched.len(),
            taken: self.taken,
            outputs: self.outputs.len(),
            done: self.done.len(),
        }
    }

    /// Rolls back a skipped file, keeping only its match count.
    fn leave_out(&mut self, before: &Mark) {
        self.names.truncate(before.names);
        self.present.truncate(before.present);
        self.outputs.truncate(before.outputs);
        self.done.truncate(before.done);
        self.only.truncate(before.done);
        let left_out = self.left_out.get_or_insert_default();
        left_out.taken = left_out.taken.saturating_add(self.taken.saturating_sub(before.taken));
        left_out.matched.extend(self.unmatched.truncate(before.matched));
        self.taken = before.taken;
    }

    fn finish(self) -> Result<Vec<Extracted>> {
        let has_left_out = self.left_out.is_some();
        let LeftOut { taken: left_out, matched } = self.left_out.unwrap_or_default();
        let (unmatched, only_left_out) = self.unmatched.into_wants(&matched);
        if self.done.is_empty() || !unmatched.is_empty() || !only_left_out.is_empty() {
            let present = self.present.into_shown();
            let inputs: Vec<_> = self.job.inputs.iter().map(|input| input.path.clone()).collect();
            return Err(match has_left_out {
                false => Error::no_match(&inputs, &unmatched, &present),
                true => Error::no_sound_match(&unmatched, &only_left_out, &present, left_out),
            });
        }
        output::commit(self.outputs)?;
        Ok(self.done)
    }
}

/// The names of new files without their extensions, unique even on case-insensitive file systems.
#[derive(Default)]
struct Names {
    /// The names in the order in which they were assigned.
    given: Vec<Given>,
    /// All names, in lower case.
    taken: HashSet<String>,
    /// The number of files that would have had each name, by the name in lower case.
    numbers: HashMap<String, u64>,
}

/// An assigned name, in lower case.
struct Given {
    /// The name without its number.
    name: String,
    stem: String,
    /// The number of earlier files that would have had the name.
    number: u64,
}

impl Names {
    /// Assigns a new name.
    fn stem(&mut self, input: &Path, from: &Provenance) -> String {
        let name = name_of(input, from);
        let key = name.to_ascii_lowercase();
        let before = self.numbers.get(&key).copied().unwrap_or_default();
        let mut number = before;
        loop {
            number = number.saturating_add(1);
            let stem = if number == 1 { name.clone() } else { format!("{name}-{number}") };
            let small = stem.to_ascii_lowercase();
            if self.taken.insert(small.clone()) {
                self.numbers.insert(key.clone(), number);
                self.given.push(Given { name: key, stem: small, number: before });
                return stem;
            }
        }
    }

    /// Releases all names except the first `kept`.
    fn truncate(&mut self, kept: usize) {
        for given in self.given.drain(kept.min(self.given.len())..).rev() {
            self.taken.remove(&given.stem);
            self.numbers.insert(given.name, given.number);
        }
    }
}

/// The file name for a code object, which several code objects may share. Parts that are too long are shortened: to the
/// beginning of the entry ID, and to the ends of the names of the input and the member. Each of these two names gets at
/// least half of the space for both.
fn name_of(input: &Path, from: &Provenance) -> String {
    let end = |text: &str, most: usize| text.get(text.len().saturating_sub(most)..).unwrap_or_default().to_owned();
    let id = plain(&from.id);
    let rest = format!("{}-{}", from.bundle, id.get(..ID_MAX.min(id.len())).unwrap_or_default());
    let room = NAME_MAX.saturating_sub(rest.len()).saturating_sub(2);
    let members = from.place.member().map(|member| plain(member.as_bytes()));
    let members_len = members.as_ref().map_or(0, String::len);
    let input = end(&plain(input.as_os_str().as_encoded_bytes()), room.saturating_sub(members_len).max(room / 2));
    let members = members.map(|members| end(&members, room.saturating_sub(input.len())));
    [Some(input), members, Some(rest)].into_iter().flatten().collect::<Vec<_>>().join("-")
}

/// Whether an error is about an input. Other errors are about an output or the request.
fn is_of_input(error: &Error, input: &Path) -> bool {
    match error {
        Error::Io { path, .. } => path == input,
        Error::Malformed { .. } | Error::Member { .. } => true,
        Error::Refused { kind, .. } => matches!(kind, ErrorKind::Malformed | ErrorKind::Unsupported | ErrorKind::Limit),
        Error::Inside { error, .. } => is_of_input(error, input),
        _ => false,
    }
}

/// Adds the place of a bundle to an error about its bytes.
fn located(error: Error, place: &Place) -> Error {
    if matches!(error, Error::Malformed { .. }) { error.at(place) } else { error }
}

/// A code object being written to a file. The first bytes of the code object determine the name of the file.
struct Pending {
    stem: PathBuf,
    from: Provenance,
    kind: ContentKind,
    recorded_target: Option<String>,
    destination: Target,
    head: Vec<u8>,
    started: bool,
    /// The expected size in bytes.
    expected: u64,
    /// The number of bytes written so far.
    size: u64,
    path: PathBuf,
    output: Option<Output>,
}

/// The destination of the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    File,
    Nowhere,
    StandardOutput,
}

impl Pending {
    fn new(destination: &Destination, stem: String, from: Provenance, expected: u64) -> Self {
        let (stem, destination) = match destination {
            Destination::Directory(directory) => (directory.join(stem), Target::File),
            Destination::StandardOutput => (PathBuf::from(STANDARD_OUTPUT), Target::StandardOutput),
            nowhere if nowhere.is_standard_output() => (PathBuf::from(STANDARD_OUTPUT), Target::Nowhere),
            Destination::Nowhere(directory) => (directory.join(stem), Target::Nowhere),
        };
        let (kind, recorded_target) = (ContentKind::Empty, None);
        let (head, size, path) = (Vec::new(), 0, PathBuf::new());
        Self {
            stem,
            from,
            kind,
            recorded_target,
            destination,
            head,
            started: false,
            expected,
            size,
            path,
            output: None,
        }
    }

    /// Opens the file, whose name the first bytes determine: those kept so far, and `next`.
    fn start(&mut self, next: &[u8]) -> Result<()> {
        if self.started {
            return Ok(());
        }
        self.started = true;
        let known = [&self.head, next].concat();
        let head = crate::bytes::slice(&known, 0, ContentKind::HEAD_LEN).unwrap_or(&known);
        (self.kind, self.recorded_target) = (ContentKind::of(head), recorded_target(head));
        let mut path = self.stem.clone().into_os_string();
        if self.stem.as_os_str() != STANDARD_OUTPUT {
            path.push(".");
            path.push(self.kind.extension());
        }
        self.path = path.into();
        if self.destination == Target::Nowhere {
            return Ok(());
        }
        if let (Target::File, Some(directory)) = (self.destination, self.path.parent()) {
            output::create_directory(directory)?;
        }
        let mut output = Output::stage_as(&self.path, Manner::Generated)?;
        output.write(&std::mem::take(&mut self.head))?;
        self.output = Some(output);
        Ok(())
    }

    /// Releases the buffer once everything is written: thousands of outputs may wait for the last one.
    fn complete(&mut self) -> Result<()> {
        if self.size < self.expected { Ok(()) } else { self.output.as_mut().map_or(Ok(()), Output::complete) }
    }
}

impl Sink for Pending {
    fn write(&mut self, data: &[u8]) -> Result<()> {
        self.size = self.size.saturating_add(len_u64(data));
        if !self.started && len_u64(&self.head).saturating_add(len_u64(data)) < ContentKind::HEAD_LEN {
            self.head.extend_from_slice(data);
            return Ok(());
        }
        self.start(data)?;
        self.output.as_mut().map_or(Ok(()), |output| output.write(data))?;
        self.complete()
    }

    fn copy(&mut self, slice: Slice<'_>) -> Result<()> {
        self.size = self.size.saturating_add(slice.len());
        let head = slice.slice(0, slice.len().min(ContentKind::HEAD_LEN)).map_or(&[][..], |head| head.bytes());
        self.start(head)?;
        self.output.as_mut().map_or(Ok(()), |output| output.copy(slice))?;
        self.complete()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_temporary_file_that_cannot_be_written_is_no_fault_of_the_input() {
        let full = || Error::temporary(std::io::Error::from_raw_os_error(28));
        let input = Path::new("lib.a");
        let error = Error::io(input, full());
        assert!(!is_of_input(&error, input));
        let text =
            format!("cannot write a temporary file in '{}': No space left on device", std::env::temp_dir().display());
        assert_eq!(error.to_string(), text);
        assert!(is_of_input(&Error::io(input, std::io::Error::from_raw_os_error(5)), input));
    }
}

//! Taking code objects out of any file.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use super::present::Present;
use super::{Event, Observer};
use crate::bytes::len_u64;
use crate::container::{Entry, Limits};
use crate::error::{Error, Malformed, Result, WithPath};
use crate::input::{Input, Slice};
use crate::meter::Meter;
use crate::output::{self, Output};
use crate::piece::Sink;
use crate::scan::{CodeObject, ContentKind, Finding, Found, Scan, Selection};

/// What stands for the standard output.
const STANDARD_OUTPUT: &str = "-";

/// The longest name of a file that is made, in bytes, below what file systems allow.
const NAME_MAX: usize = 240;

/// How often the bytes of a bundle may be extracted.
const SHARED_MAX: u64 = 16;

/// Writes the code objects of some files that a selection takes, each into a file of its own.
///
/// The name of such a file is made of the input's name, the number of the bundle in it, the entry ID, and an extension
/// for what the code object is; only letters, digits and `+-._=` stand in it.
#[derive(Clone, Debug)]
pub struct Extract {
    /// The files to look into.
    pub inputs: Vec<Source>,
    /// Which code objects.
    pub selection: Selection,
    /// Where they go.
    pub destination: Destination,
    /// How much compressed containers may inflate to.
    pub limits: Limits,
}

/// A file to look into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The file.
    pub path: PathBuf,
    /// What happens if it cannot be read, or something in it is broken.
    pub if_broken: IfBroken,
}

/// What happens if an input is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfBroken {
    /// The job fails, and nothing is written.
    Fail,
    /// [`Event::LeftOut`] tells it, and nothing of this file is written. For files that nobody named.
    LeaveOut,
}

/// Where extracted code objects go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// Into this directory, which is made if there is none.
    Directory(PathBuf),
    /// Nowhere, but the names of the files that would be in this directory are told; `-` stands for the standard output.
    Nowhere(PathBuf),
    /// To the standard output, for which exactly one must be taken.
    StandardOutput,
}

/// A code object that was extracted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extracted {
    /// The file.
    pub path: PathBuf,
    /// Its size in bytes.
    pub size: u64,
}

impl Extract {
    /// Extracts, and returns what went where, in the order of the inputs.
    ///
    /// # Errors
    /// Any of [`Error`]; nothing is written then. [`Error::NoMatch`] if the selection takes nothing.
    pub fn run(&self, observer: &mut Observer<'_>) -> Result<Vec<Extracted>> {
        let missing = self.missing_directories();
        let done = self.extract(observer);
        if done.is_err() {
            // What is not empty was not made here, or is no longer ours.
            missing.into_iter().for_each(|directory| drop(std::fs::remove_dir(directory)));
        }
        done
    }

    fn extract(&self, observer: &mut Observer<'_>) -> Result<Vec<Extracted>> {
        let mut work = Work::new(self);
        for source in &self.inputs {
            let before = work.done.len();
            match work.file(&source.path) {
                Err(error) if source.if_broken == IfBroken::LeaveOut && is_of_input(&error, &source.path) => {
                    work.take_back(before);
                    observer(Event::LeftOut { error: &error });
                }
                done => done?,
            }
        }
        work.finish()
    }

    /// The directories that would have to be made, the innermost first.
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

/// An extraction under way.
struct Work<'j> {
    job: &'j Extract,
    /// The inputs, by the names behind all links.
    inputs: HashSet<PathBuf>,
    /// The names that were given, in small letters.
    names: HashSet<String>,
    /// How often each name, in small letters, would have been given to a file.
    numbers: HashMap<String, u64>,
    /// What was met and not taken.
    present: Present,
    outputs: Vec<Output>,
    done: Vec<Extracted>,
}

impl<'j> Work<'j> {
    fn new(job: &'j Extract) -> Self {
        Self {
            job,
            inputs: job.inputs.iter().filter_map(|input| input.path.canonicalize().ok()).collect(),
            names: HashSet::new(),
            numbers: HashMap::new(),
            present: Present::default(),
            outputs: Vec::new(),
            done: Vec::new(),
        }
    }

    fn file(&mut self, path: &Path) -> Result<()> {
        let input = Input::open_finite(path)?;
        let mut bundles: usize = 0;
        let scanned = Scan { limits: self.job.limits, ..Scan::default() }.run(&input, &mut |finding| match finding {
            Finding::Bundle(found) => {
                self.bundle(&input, &found, bundles)?;
                bundles = bundles.saturating_add(1);
                Ok(())
            }
            Finding::Broken { error, .. } => Err(error),
            _ => Ok(()),
        });
        input.vouch_for(scanned)
    }

    /// Extracts from one bundle, the one with this number in its file.
    fn bundle(&mut self, input: &Input, found: &Found<'_>, number: usize) -> Result<()> {
        let mut sinks = Vec::new();
        for code_object in found.code_objects() {
            if self.job.selection.takes(&code_object) {
                let stem = self.stem(input.path(), number, &code_object);
                sinks.push((code_object.index(), Pending::new(&self.job.destination, stem, code_object.size())));
            } else {
                self.present.note(&code_object);
            }
        }
        if self.job.destination.is_standard_output() && self.done.len().saturating_add(sinks.len()) > 1 {
            return Err(Error::SeveralMatch { path: input.path().to_owned() });
        }
        check_size(input, found, sinks.iter().map(|(index, _)| *index))?;
        let mut wanted: Vec<(usize, &mut Pending)> = sinks.iter_mut().map(|(index, sink)| (*index, sink)).collect();
        if !wanted.is_empty() {
            found.bundle.extract(&mut wanted, &mut Meter::silent())?;
        }
        for (_, sink) in sinks {
            self.take(sink)?;
        }
        Ok(())
    }

    fn take(&mut self, mut sink: Pending) -> Result<()> {
        sink.start(&[])?;
        if sink.path.canonicalize().is_ok_and(|path| self.inputs.contains(&path)) {
            return Err(Error::OverwritesInput { path: sink.path });
        }
        self.done.push(Extracted { path: sink.path, size: sink.size });
        self.outputs.extend(sink.output);
        Ok(())
    }

    /// Forgets all outputs but the first ones.
    fn take_back(&mut self, kept: usize) {
        self.done.truncate(kept);
        self.outputs.truncate(kept);
    }

    /// The name of a new file without its extension; no two are the same, nor on a file system that does not tell
    /// capital letters from small ones.
    fn stem(&mut self, input: &Path, number: usize, code_object: &CodeObject<'_>) -> String {
        let input = input.file_name().unwrap_or_default().as_encoded_bytes();
        let name = [&safe(input), &number.to_string(), &safe(code_object.id())].map(String::as_str).join("-");
        let name = name.get(..NAME_MAX.min(name.len())).unwrap_or_default();
        let given = self.numbers.entry(name.to_ascii_lowercase()).or_default();
        loop {
            *given = given.saturating_add(1);
            let stem = if *given == 1 { name.to_owned() } else { format!("{name}-{given}") };
            if self.names.insert(stem.to_ascii_lowercase()) {
                return stem;
            }
        }
    }

    fn finish(self) -> Result<Vec<Extracted>> {
        if self.done.is_empty() {
            let targets = self.job.selection.targets.iter().map(|pattern| pattern.as_str().to_owned()).collect();
            return Err(Error::NoMatch { targets, present: self.present.into_ids() });
        }
        output::commit(self.outputs)?;
        Ok(self.done)
    }
}

/// Whether an error tells what is wrong with an input; any other is about what is written, or about the request.
fn is_of_input(error: &Error, input: &Path) -> bool {
    match error {
        Error::Io { path, .. } | Error::Device { path } => path == input,
        Error::Malformed { .. } | Error::Member { .. } | Error::NoFile { .. } => true,
        Error::ArchiveCycle { .. } | Error::TooManyFiles { .. } => true,
        _ => false,
    }
}

/// Code objects that share bytes must not make much of little.
fn check_size(input: &Input, found: &Found<'_>, taken: impl Iterator<Item = usize>) -> Result<()> {
    let bundle = found.bundle;
    let len = bundle.compressed.map_or(bundle.stored_len, |recorded| recorded.inflated);
    let sizes = taken.filter_map(|index| bundle.entries.get(index)).map(Entry::size);
    let size = sizes.fold(0, u64::saturating_add);
    if size <= len.saturating_mul(SHARED_MAX) {
        return Ok(());
    }
    let (what, expected) = ("size of all code objects", "no more than 16 times the bundle");
    Err(Error::malformed(input.path(), Malformed::Value { what, found: size, offset: bundle.offset, expected }))
}

/// A code object on its way into a file whose name depends on how the code object begins.
struct Pending {
    stem: PathBuf,
    destination: Place,
    head: Vec<u8>,
    started: bool,
    /// How many bytes will come.
    expected: u64,
    /// How many have come.
    size: u64,
    path: PathBuf,
    output: Option<Output>,
}

/// What is done with the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    File,
    Nowhere,
    StandardOutput,
}

impl Pending {
    fn new(destination: &Destination, stem: String, expected: u64) -> Self {
        let (stem, destination) = match destination {
            Destination::Directory(directory) => (directory.join(stem), Place::File),
            Destination::StandardOutput => (PathBuf::from(STANDARD_OUTPUT), Place::StandardOutput),
            nowhere if nowhere.is_standard_output() => (PathBuf::from(STANDARD_OUTPUT), Place::Nowhere),
            Destination::Nowhere(directory) => (directory.join(stem), Place::Nowhere),
        };
        let (head, size, path) = (Vec::new(), 0, PathBuf::new());
        Self { stem, destination, head, started: false, expected, size, path, output: None }
    }

    /// Opens the file, now that what comes first is known: what was kept so far, and `next`.
    fn start(&mut self, next: &[u8]) -> Result<()> {
        if self.started {
            return Ok(());
        }
        self.started = true;
        let known = [&self.head, next].concat();
        let head = crate::bytes::slice(&known, 0, ContentKind::HEAD_LEN).unwrap_or(&known);
        let mut path = self.stem.clone().into_os_string();
        if self.stem.as_os_str() != STANDARD_OUTPUT {
            path.push(".");
            path.push(ContentKind::of(head).extension());
        }
        self.path = path.into();
        if self.destination == Place::Nowhere {
            return Ok(());
        }
        if let (Place::File, Some(directory)) = (self.destination, self.path.parent()) {
            std::fs::create_dir_all(directory).with_path(directory)?;
        }
        let mut output = Output::stage(&self.path)?;
        output.write(&std::mem::take(&mut self.head))?;
        self.output = Some(output);
        Ok(())
    }
}

impl Pending {
    /// Lets go of the buffer when everything is there: thousands of outputs may wait for the last one.
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

/// A name from a file as a part of a file's name: it has no separator, no control character, and is never `..`.
fn safe(name: &[u8]) -> String {
    let plain =
        |&byte: &u8| if byte.is_ascii_alphanumeric() || b"+-._=".contains(&byte) { char::from(byte) } else { '_' };
    name.iter().map(plain).collect()
}

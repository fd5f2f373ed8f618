//! Extracts code objects from any file.

mod names;
mod pending;
#[cfg(feature = "serde")]
mod report;

#[cfg(feature = "serde")]
pub use report::ExtractReport;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::kernels::{in_order, locate_kernel_error};
use super::size_limit::ensure_size_limit;
use crate::base::display::shown;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::io::input::{Accept, Input};
use crate::base::io::output;
use crate::beyond::container::ContentKind;
use crate::beyond::inventory::kernel_names::{KernelNames, MeantNames};
use crate::beyond::inventory::pick::{Seen, pick};
use crate::beyond::inventory::request::{Comparison, Facts, Pattern, Request, Selection};
use crate::beyond::inventory::similar_names::SimilarNames;
use crate::beyond::inventory::{Bad, Keep, LoadedCodeObject, Loader, Reading, Visit};
use crate::beyond::job::event::{Event, Observer};
use crate::beyond::runtime::Device;
use crate::beyond::scan::{
    Checksums, CodeObject, CodeObjectRef, CodeObjectsOfBundle, CodeObjectsWithParts, FoundBundle, ParsedId, Place,
    ReadList, Scan, Split, contents, weight_of,
};
use crate::llvm::container::sequence::Inflate;
use crate::llvm::uri::Uri;
use crate::llvm::work::open;
use names::FileNames;
use pending::Pending;

/// The name of standard output.
const STANDARD_OUTPUT: &str = "-";

/// Extracts the code objects of some files that match a selection, each into a separate file.
///
/// The name of a file begins with the [input's name](Source::name) and the names of the enclosing members. Then follow
/// the number of the bundle at its place, the name of the source file if it is recorded, and the entry ID. An extension
/// gives the kind of content. Names contain only letters, digits and `+-._=`, and do not begin with a dot.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Extract {
    /// The files to search.
    pub inputs: Vec<Source>,
    /// The code objects to extract.
    pub selection: Selection,
    /// GPUs. If there are any, only code objects are extracted that their runtimes load for them, as
    /// [`loaded`](crate::runtime::loaded) returns them.
    pub devices: Vec<Device>,
    /// Names of kernels. If there are any, only code objects are extracted that define one of them, or a variable of
    /// this name.
    pub kernels: Option<KernelNames>,
    /// The destination.
    pub destination: Destination,
    /// The options of the search. The job itself sets how much is inflated and which checksums are compared, whatever
    /// is set here.
    pub scan: Scan,
    /// Whether [`Extracted::sha256`] is computed, also for [`Destination::Nowhere`].
    pub sha256: bool,
    /// The directory for the files if there are too many for the [`destination`](Self::destination).
    pub(crate) own_directory: Option<OwnDirectory>,
}

/// A directory that gets all files if there are too many for the [destination](Extract::destination).
#[derive(Clone, Debug)]
pub(crate) struct OwnDirectory {
    pub(crate) path: PathBuf,
    /// The largest number of files that still go to the other directory, which is the destination.
    pub(crate) other_max: usize,
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
    /// Creates a source for a file named by the user. The job fails if the file is broken.
    pub fn named(path: PathBuf) -> Self {
        let name = path.file_name().unwrap_or_default().into();
        Self { path, name, if_broken: IfBroken::Fail }
    }

    /// Creates a source for a file found in a directory. It is skipped if it is broken. Its name is its path relative
    /// to the directory.
    pub fn found(path: PathBuf, directory: &Path) -> Self {
        let name = path.strip_prefix(directory).unwrap_or(&path).to_owned();
        Self { path, name, if_broken: IfBroken::LeaveOut }
    }

    /// Returns whether the file is left out if it is broken.
    fn is_optional(&self) -> bool {
        self.if_broken == IfBroken::LeaveOut
    }
}

/// The reaction to a broken input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfBroken {
    /// The job fails and writes nothing.
    Fail,
    /// The job reports [`Event::LeftOut`] and writes nothing from this file. This is for files that the user did not
    /// name.
    LeaveOut,
}

/// The destination of extracted code objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// A directory, which is created if it does not exist.
    Directory(PathBuf),
    /// Nowhere: only the names of the files that would be written to this directory are reported. `-` is standard
    /// output.
    Nowhere(PathBuf),
    /// Standard output. Exactly one code object must match.
    StandardOutput,
}

/// An extracted code object.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Extracted {
    /// The file.
    pub path: PathBuf,
    /// The SHA-256 of its bytes, if it was [asked for](Extract::sha256).
    pub sha256: Option<[u8; 32]>,
    /// The code object, with the size, the kind and the recorded target of the written file.
    pub code_object: CodeObject,
}

impl Extract {
    /// Creates a job that extracts the code objects of the inputs that match the selection.
    pub fn new(inputs: Vec<Source>, selection: Selection, destination: Destination) -> Self {
        Self {
            inputs,
            selection,
            devices: Vec::new(),
            kernels: None,
            destination,
            scan: Scan::default(),
            sha256: false,
            own_directory: None,
        }
    }

    /// Extracts code objects, and returns the written files in the order of the inputs.
    ///
    /// # Errors
    /// Any [`Error`]; nothing is written then. The kind is [`NotFound`](ErrorKind::NotFound) if the selection, or any
    /// target or kind that it names, matches nothing, or nothing but in skipped files.
    pub fn run(&self, observer: &mut Observer<'_>) -> Result<Vec<Extracted>> {
        let missing = self.missing_directories();
        let done = self.extract(observer);
        if done.is_err() {
            // A directory that is not empty was not created by this job, or is already used by others.
            for directory in missing {
                drop(std::fs::remove_dir(directory));
            }
        }
        done
    }

    /// Extracts the code objects as [`run`](Self::run) does, but leaves created directories behind if it fails.
    fn extract(&self, observer: &mut Observer<'_>) -> Result<Vec<Extracted>> {
        let request = Request::new(&self.selection).with(&self.devices, self.kernels.as_ref());
        let mut work = Extraction::new(self, &request);
        for source in &self.inputs {
            let mut part = ExtractedPart::default();
            let extracted = self.open(source).and_then(|input| work.extract_file(&input, &source.name, &mut part));
            let pending = match extracted {
                Ok(pending) => pending,
                Err(error) if source.is_optional() && is_of_input(&error, &source.path) => {
                    work.leave_out(part);
                    observer(Event::LeftOut { error: &error });
                    continue;
                }
                Err(error) => return Err(error),
            };
            if let Some(format) = part.unread_format {
                observer(Event::UnreadFile { file: source.path.clone(), format });
            }
            if !part.unread.is_empty() {
                let (file, code_objects) = (source.path.clone(), part.unread.clone());
                observer(Event::NotReadable { file, code_objects });
            }
            work.all.add(part, pending);
        }
        work.finish()
    }

    /// Opens a file to extract from.
    fn open(&self, source: &Source) -> Result<Input> {
        // A pipe would block, so a file that the user did not name must be regular. `max` limits the bytes that are
        // read from a pipe, and is not needed for regular files.
        let (accept, max) =
            if source.is_optional() { (Accept::Regular, None) } else { (Accept::Finite, self.scan.limits.streamed) };
        Uri::open(&source.path, self.scan.limits, |path| open(path, accept, max))
    }

    /// Returns the error that no code object of the inputs can be read. Returns `None` if something was extracted, or
    /// if there is another reason: an unknown kernel, or no code objects at all.
    fn all_unread_error(&self, all: &ExtractedPart<'_>) -> Option<Error> {
        if !all.done.is_empty() || all.unread.is_empty() || self.kernels.is_some() {
            return None;
        }
        let input = self.inputs.first()?;
        let kinds = all.unread.iter().map(|(what, number)| format!("{what} ({number})")).collect::<Vec<_>>();
        let reason = format!("no code object can be read: {}", kinds.join(", "));
        Some(Error::refused(ErrorKind::Unsupported, &input.path, None, reason))
    }

    /// Finds the code objects that match the selection and define kernels that are asked for. Returns `None` if no
    /// kernels are asked for.
    ///
    /// This search comes before the extraction, because a name may mean a kernel in different ways, and only the
    /// strongest way in the whole file counts.
    fn find_defining(&self, request: &Request<'_>, scan: &Scan, input: &Input) -> Result<Option<DefiningCodeObjects>> {
        let Some(names) = &self.kernels else { return Ok(None) };
        // The names that each code object defines, by its position, and the names that any of them defines.
        let (mut meant_by_position, mut in_file) = (Vec::new(), MeantNames::default());
        // The position of the first code object of a bundle among all code objects of the file.
        let mut first_position = 0;
        let read = &|together: CodeObjectsOfBundle<'_, usize, CodeObject>| {
            contents(together, |code_object, code| {
                let (meant, _) = locate_kernel_error(code_object, names.find_in_code(code.bytes()))?;
                Ok(meant)
            })
        };
        let reading = Reading::new(scan, Keep::Nothing);
        reading.run(input, read, &|read| weight_of(read, MeantNames::len), &mut |visit| {
            match visit {
                Visit::Bundle(_, found, reads) => {
                    add_selected(request, input, &found, first_position, reads)?;
                    first_position += found.bundle.entries.len();
                }
                Visit::Read(read) => {
                    for ((position, _), meant) in read {
                        let meant = meant?;
                        in_file.extend(&meant);
                        if meant.len() > 0 {
                            meant_by_position.push((position, meant));
                        }
                    }
                }
                Visit::Split(..) | Visit::Archive(..) | Visit::Bad(_) | Visit::Unread(_) | Visit::End(..) => {}
            }
            Ok(ControlFlow::Continue(()))
        })?;
        let mut names_by_position = HashMap::new();
        for (position, meant) in meant_by_position {
            let names = meant.strongest(&in_file);
            if !names.is_empty() {
                names_by_position.insert(position, names);
            }
        }
        Ok(Some(DefiningCodeObjects { names_by_position, similar: in_file.similar }))
    }

    /// Returns the directories that may have to be created, innermost first: in this order they can be removed again.
    fn missing_directories(&self) -> Vec<&Path> {
        let Destination::Directory(directory) = &self.destination else { return Vec::new() };
        let mut missing = Vec::new();
        if let Some(own) = &self.own_directory
            && !own.path.exists()
        {
            missing.push(&*own.path);
        }
        missing.extend(directory.ancestors().take_while(|path| !path.as_os_str().is_empty() && !path.exists()));
        missing
    }
}

impl Destination {
    /// Returns whether the code object itself goes to the standard output, or would go there.
    fn is_standard_output(&self) -> bool {
        match self {
            Self::StandardOutput => true,
            // A dry run writes nothing, but reports names as for this directory, or for the standard output if that is
            // `-`.
            Self::Nowhere(directory) => directory.as_os_str() == STANDARD_OUTPUT,
            Self::Directory(_) => false,
        }
    }

    /// Returns the path of the new file for a code object, or `-` for standard output.
    fn path_for(&self, stem: &str, kind: ContentKind) -> PathBuf {
        match self {
            Self::Directory(directory) | Self::Nowhere(directory) if !self.is_standard_output() => {
                directory.join(format!("{stem}.{}", kind.extension()))
            }
            _ => STANDARD_OUTPUT.into(),
        }
    }
}

/// The code objects of a file that define kernels that are asked for.
struct DefiningCodeObjects {
    /// The indices of the names that a code object defines, by its position among the code objects of the file.
    names_by_position: HashMap<usize, BTreeSet<usize>>,
    /// The names of kernels that are similar to the names that are asked for.
    similar: SimilarNames,
}

/// The state of an extraction.
struct Extraction<'j> {
    job: &'j Extract,
    request: &'j Request<'j>,
    /// The canonical paths of the inputs.
    inputs: Arc<HashSet<PathBuf>>,
    names: FileNames,
    /// The error for the first split library whose kpack archives have no code for it or were not found.
    missing_archives: Option<Error>,
    /// The results of all files that were not skipped.
    all: ExtractedPart<'j>,
    /// The code objects of skipped files, or `None` if no file was skipped.
    left_out: Option<Seen>,
}

/// The code objects that were found in one file or several, and those that were extracted.
#[derive(Default)]
struct ExtractedPart<'j> {
    seen: Seen,
    /// The files and IDs of all code objects that match the whole request, for standard output: only one of them may be
    /// written there.
    competing: Vec<(PathBuf, ParsedId)>,
    /// The numbers of code objects that the selection takes and that cannot be read, by the name of their kind.
    unread: BTreeMap<&'static str, usize>,
    /// The name of the format of the whole file, if it is recognised but not read.
    unread_format: Option<&'static str>,
    /// The files that are written, but not yet in place.
    done: Vec<Pending<'j>>,
}

impl<'j> ExtractedPart<'j> {
    /// Adds the part of a file, and the files `done` with its code objects.
    fn add(&mut self, part: Self, done: Vec<Pending<'j>>) {
        self.seen.extend(part.seen);
        self.competing.extend(part.competing);
        for (what, more) in part.unread {
            *self.unread.entry(what).or_default() += more;
        }
        self.done.extend(done);
    }
}

impl<'j> Extraction<'j> {
    fn new(job: &'j Extract, request: &'j Request<'j>) -> Self {
        Self {
            job,
            request,
            // An input that does not exist fails later, when it is opened.
            inputs: Arc::new(job.inputs.iter().filter_map(|input| input.path.canonicalize().ok()).collect()),
            names: FileNames::default(),
            missing_archives: None,
            all: ExtractedPart::default(),
            left_out: None,
        }
    }

    /// Extracts the matching code objects of a file. Returns the new files, which are not in place yet, or the error
    /// that comes first in the file. Adds the matches to `part`.
    fn extract_file(&mut self, input: &Input, name: &Path, part: &mut ExtractedPart<'j>) -> Result<Vec<Pending<'j>>> {
        // If this file is left out, only its own names are undone.
        self.names.keep();
        let (job, inputs) = (self.job, Arc::clone(&self.inputs));
        // Compressed bundles are inflated when their code objects are read, on all processors.
        let scan = Scan { inflate: Inflate::Headers, checksums: Checksums::OfFound, ..job.scan.clone() };
        // If kernels are asked for, a search before the extraction finds the code objects that define them. Only these
        // are extracted (`add_code_object`).
        let mut defining = None;
        if let Some(found) = job.find_defining(self.request, &scan, input)? {
            part.seen.similar.extend(&found.similar);
            defining = Some(found.names_by_position);
        }
        let mut file = FileSearch {
            input,
            name,
            loader: if job.devices.is_empty() { None } else { Some(Loader::new(&job.devices)) },
            defining,
            code_objects: 0,
            part,
            done: Vec::new(),
            search_error: None,
            broken: None,
        };
        let extract = &|together: CodeObjectsOfBundle<'_, ReadTarget, CodeObject>| extract(job, &inputs, together);
        const SAME_WEIGHT: usize = 1;
        let reading = Reading::new(&scan, Keep::Nothing).up_to_fault();
        let read = reading.run(input, extract, &|_| SAME_WEIGHT, &mut |visit| Ok(self.visit(&mut file, visit)));
        let contents = input.unless_changed(read)?;
        input.unless_changed(file.into_pending(&contents.holders))
    }

    /// Takes part in the search of a file: adds the code objects to be extracted, and keeps what was extracted. Breaks
    /// off after an error.
    fn visit(
        &mut self,
        file: &mut FileSearch<'_, 'j>,
        visit: Visit<'_, ReadTarget, CodeObject, Vec<(usize, Result<Pending<'j>>)>>,
    ) -> ControlFlow<()> {
        let mut is_over = false;
        match visit {
            Visit::Bundle(_, found, reads) => {
                if let Err(error) = self.add_bundle(&found, file, reads) {
                    file.search_error.get_or_insert(add_place(error, found.place));
                }
                // Code objects that were found before the error are still extracted, because one of them may have an
                // error that comes first in the file.
                is_over = file.search_error.is_some();
            }
            Visit::End(place, reads) => {
                self.add_loaded_at_end(place, file, reads);
                is_over = file.search_error.is_some();
            }
            Visit::Read(extracted) => {
                is_over = extracted.iter().any(|(_, extracted)| extracted.is_err());
                file.done.extend(extracted);
            }
            Visit::Split(_, split) => self.keep_missing_archives(file.input, &split),
            // The reading ends at this part by itself.
            Visit::Bad(part) if matches!(part.fault, Bad::Broken(_)) => file.broken = part.into_error(),
            Visit::Unread(part) if part.place.steps().is_empty() => {
                file.part.unread_format = Some(part.what.name());
            }
            Visit::Bad(_) | Visit::Unread(_) | Visit::Archive(..) => {}
        }
        if is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Adds the code objects that runtimes choose at a place to `reads`, if GPUs are asked for, and notes the code that
    /// they do not find or load. A runtime chooses among all offload binaries at one place, so this is called when the
    /// place ends.
    fn add_loaded_at_end(
        &mut self,
        place: &Place,
        file: &mut FileSearch<'_, 'j>,
        reads: &mut ReadList<ReadTarget, CodeObject>,
    ) {
        if let Some(loader) = &mut file.loader {
            // `place` is a file, or inflated data in it. All units in that data are complete now.
            for chosen in loader.finish_places(|unit| unit.data() == *place) {
                let no_current_bundle = None;
                self.add_code_object(file, no_current_bundle, chosen, reads);
            }
        }
        // The error for a GPU without code mentions code that its runtime does not find or load.
        for (device_index, code) in file.loader.iter_mut().flat_map(Loader::take_unfound) {
            file.part.seen.add_unfound(device_index, code);
        }
    }

    /// Keeps the error for a split library whose kpack archives were not found, were not searched, or have no code for
    /// it. Only the first such error is kept.
    fn keep_missing_archives(&mut self, input: &Input, split: &Split<'_>) {
        let name = shown(&split.reference.kernel_name);
        let why = match split.archives {
            Some([]) => "none of which was found".to_owned(),
            Some(_) if split.code_objects() == 0 => format!("which hold no code for '{name}'"),
            None => "which are not searched".to_owned(),
            // The archives have code for the library, and the search finds it there.
            Some(_) => return,
        };
        let paths: Vec<String> = split.reference.search_paths.iter().map(|path| format!("'{}'", shown(path))).collect();
        let reason = format!("its device code is in the kpack archives {}, {why}", paths.join(", "));
        self.missing_archives.get_or_insert_with(|| Error::refused(ErrorKind::NotFound, input.path(), None, reason));
    }

    /// Adds the matching code objects of a bundle to `reads`. If GPUs are asked for, adds the code objects that their
    /// runtimes choose, which may be in earlier bundles at the same place.
    fn add_bundle(
        &mut self,
        found: &FoundBundle<'_>,
        file: &mut FileSearch<'_, 'j>,
        reads: &mut ReadList<ReadTarget, CodeObject>,
    ) -> Result<()> {
        let selected = self.select_in_bundle(found, file);
        // Positions count all code objects in the order of the file, as `Loader` counts them.
        let first_position = file.code_objects;
        file.code_objects += found.bundle.entries.len();
        if !selected.is_empty() {
            ensure_size_limit(file.input.path(), found.bundle, selected.iter().map(CodeObjectRef::index))?;
        }
        let chosen = match &mut file.loader {
            // A runtime chooses among all code objects. `add_code_object` applies the selection to its choice.
            Some(loader) => loader.add(found)?,
            None if selected.is_empty() => return Ok(()),
            None => {
                let info = found.info()?;
                let mut chosen = Vec::new();
                for code_object in selected {
                    let loaded = LoadedCodeObject { code_object: code_object.keep(&info), devices: Vec::new() };
                    chosen.push((first_position + code_object.index(), loaded));
                }
                chosen
            }
        };
        for code_object in chosen {
            self.add_code_object(file, Some(found), code_object, reads);
        }
        Ok(())
    }

    /// Returns the code objects of a bundle that the selection takes. Counts unreadable code objects instead of
    /// returning them if all code objects are asked for.
    fn select_in_bundle<'f>(&self, found: &FoundBundle<'f>, file: &mut FileSearch<'_, 'j>) -> Vec<CodeObjectRef<'f>> {
        let mut selected = Vec::new();
        for code_object in found.code_objects() {
            file.part.seen.add(code_object.id(), found.format, Facts::default());
            if !self.request.takes(&code_object.parsed_id()) {
                continue;
            }
            match passed_over(self.request, &code_object) {
                Some(kind) => *file.part.unread.entry(kind).or_default() += 1,
                None => selected.push(code_object),
            }
        }
        selected
    }

    /// Adds a code object to `reads`, with the name of its new file, and notes which parts of the request it matches.
    /// Leaves it out if it does not match the whole request, or if standard output already gets another one. The code
    /// object is from the bundle that was `found`, or from an earlier one. `found` is `None` at the end of a place,
    /// after all of its bundles.
    fn add_code_object(
        &mut self,
        file: &mut FileSearch<'_, 'j>,
        found: Option<&FoundBundle<'_>>,
        (position, LoadedCodeObject { code_object, devices }): (usize, LoadedCodeObject),
        reads: &mut ReadList<ReadTarget, CodeObject>,
    ) {
        let (id, part) = (code_object.parsed_id(), &mut *file.part);
        if !self.request.takes(&id) {
            return;
        }
        let mut facts = Facts { gpus: devices.into_iter().collect(), ..Facts::default() };
        let mut is_match = true;
        if let Some(defining) = &file.defining {
            match defining.get(&position) {
                Some(names) => facts.kernels.clone_from(names),
                None => is_match = false,
            }
        }
        part.seen.add(&code_object.id, code_object.bundle.format, facts);
        if !is_match {
            return;
        }
        let earlier = self.names.len();
        if self.job.destination.is_standard_output() {
            part.competing.push((file.input.path().to_owned(), id));
            if earlier > 0 {
                return;
            }
        }
        let stem = self.names.assign_stem(file.name, &code_object);
        reads.add(found, (ReadTarget { position, stem, earlier }, code_object));
    }

    /// Leaves out a broken file, but keeps what was seen in it for messages.
    fn leave_out(&mut self, part: ExtractedPart<'j>) {
        self.names.undo();
        self.left_out.get_or_insert_default().extend(part.seen);
    }

    /// Returns an entry ID that selects exactly one of the matches and can be typed, as advice in a message. Returns
    /// `None` if none of the first few IDs does so.
    fn sole_id(&self) -> Option<String> {
        const TRIED_MAX: usize = 20;
        // Runtimes choose code objects by other rules than exact IDs.
        if !self.job.devices.is_empty() {
            return None;
        }
        let mut candidates = self.all.competing.iter().map(|(_, id)| &id.shown).take(TRIED_MAX);
        candidates.find(|id| !id.contains([',', '\'', '\\']) && self.matches_one(id)).cloned()
    }

    /// Returns whether an entry ID, as an exact pattern, selects only one of the matches.
    fn matches_one(&self, id: &str) -> bool {
        let Ok(pattern) = Pattern::parse(id) else { return false };
        let exact = Selection { targets: vec![pattern], comparison: Comparison::Exact, ..Selection::default() };
        let exact = Request::new(&exact);
        self.all.competing.iter().filter(|(_, id)| exact.takes(id)).count() == 1
    }

    /// Puts all files in place and returns them. Fails if the request was not met.
    fn finish(mut self) -> Result<Vec<Extracted>> {
        // Standard output takes only one code object, so a second match is an error.
        if let Some((path, _)) = self.all.competing.get(1) {
            let ids: Vec<String> = self.all.competing.iter().map(|(_, id)| id.shown.clone()).collect();
            return Err(Error::several_match(path, &ids, self.sole_id()));
        }
        self.ensure_request_met()?;
        self.commit_files()
    }

    /// Fails if a part of the request has matched nothing, or if nothing was extracted. The most specific error comes
    /// first.
    fn ensure_request_met(&mut self) -> Result<()> {
        let ExtractedPart { seen, done, .. } = &self.all;
        let picked = pick(seen, self.request);
        // The message tells the parts of the request that match only in files that were left out from the parts that
        // match nowhere.
        let left_out = self.left_out.as_ref().map(|seen| pick(seen, self.request));
        let (unmatched, only_left_out) = match &left_out {
            Some(left_out) => picked.unmatched_names_without(left_out),
            None => (picked.unmatched_names(), Vec::new()),
        };
        // A target or kind that matches nothing can be the reason why a kernel is missing, so its error comes first.
        if let Some(names) = &self.job.kernels
            && unmatched.is_empty()
        {
            let files: Vec<&Path> = self.job.inputs.iter().map(|input| &*input.path).collect();
            names.ensure_used(&seen.defined_kernels(), &seen.similar, &files)?;
        }
        if !done.is_empty() && unmatched.is_empty() && only_left_out.is_empty() {
            return Ok(());
        }
        if done.is_empty()
            && let Some(error) = self.missing_archives.take()
        {
            return Err(error);
        }
        if let Some(error) = self.job.all_unread_error(&self.all) {
            return Err(error);
        }
        let (present, unfound) = (picked.present(), picked.unfound());
        let error = match left_out {
            None => {
                let inputs: Vec<_> = self.job.inputs.iter().map(|input| input.path.clone()).collect();
                Error::no_match(&inputs, &unmatched, &present)
            }
            Some(left_out) => Error::no_sound_match(&unmatched, &only_left_out, &present, !left_out.chosen.is_empty()),
        };
        Err(error.with_unfound_code(unfound))
    }

    /// Puts all files in place and returns them.
    fn commit_files(self) -> Result<Vec<Extracted>> {
        let mut pending = self.all.done;
        // If there are more files than the destination may get, all files go to the own directory. `Pending::new` has
        // put the files from `other_max` on there already, so this moves the first ones.
        if let Some(own) = &self.job.own_directory
            && pending.len() > own.other_max
        {
            for file in &mut pending {
                file.move_to(&own.path, &self.inputs)?;
            }
        }
        let (mut extracted, mut outputs) = (Vec::new(), Vec::new());
        for file in pending {
            extracted.push(file.extracted);
            outputs.extend(file.output);
        }
        output::commit(outputs)?;
        Ok(extracted)
    }
}

/// Returns whether an error is about the input, which may then be left out. Other errors are about an output or the
/// request, and stop the job.
fn is_of_input(error: &Error, input: &Path) -> bool {
    match error.kind() {
        ErrorKind::Io => error.path() == input,
        ErrorKind::Referred | ErrorKind::Malformed | ErrorKind::Unsupported | ErrorKind::Limit => true,
        // An error of any other kind is about the input if it is a fault in its bytes.
        _ => error.fault().is_some(),
    }
}

/// The state of the search in a file.
struct FileSearch<'f, 'j> {
    input: &'f Input,
    /// The [name](Source::name) of the file.
    name: &'f Path,
    /// Chooses the code objects that runtimes load, if GPUs are asked for.
    loader: Option<Loader>,
    /// The indices of the names of kernels that a code object defines, by its position, if kernels are asked for.
    defining: Option<HashMap<usize, BTreeSet<usize>>>,
    /// The number of code objects in the bundles so far, matching or not.
    code_objects: usize,
    part: &'f mut ExtractedPart<'j>,
    /// The files that are written, or the errors, each with the position of its code object.
    done: Vec<(usize, Result<Pending<'j>>)>,
    /// The first error about a bundle, after which no further code object is added.
    search_error: Option<Error>,
    /// The error for a part that begins like device code but cannot be read, where the reading ended.
    broken: Option<Error>,
}

impl<'j> FileSearch<'_, 'j> {
    /// Returns the written files in the order of their code objects, or the error that comes first in the file.
    fn into_pending(mut self, holders: &CodeObjectsWithParts) -> Result<Vec<Pending<'j>>> {
        // The mark `has_parts` is for reports: the sizes of the parts count instead of the size of the whole.
        for (_, extracted) in &mut self.done {
            if let Ok(pending) = extracted {
                holders.mark(&mut pending.extracted.code_object);
            }
        }
        if let Some(error) = self.search_error.or(self.broken) {
            // The error of the search comes after those of the code objects that were found before it.
            const LAST_POSITION: usize = usize::MAX;
            self.done.push((LAST_POSITION, Err(error)));
        }
        // The results are collected in the order of the file, so the first error is returned.
        in_order(self.done).into_iter().collect()
    }
}

/// A code object to extract.
struct ReadTarget {
    /// The position of the code object in its file.
    position: usize,
    /// The name of the new file without the extension.
    stem: String,
    /// The number of code objects, of all files, that are extracted before this one.
    earlier: usize,
}

/// Extracts code objects of a bundle. Returns the position of each, and its written file or the error. If the bundle
/// fails as a whole, the first code object gets the error, and the others are left out.
fn extract<'j>(
    job: &'j Extract,
    inputs: &HashSet<PathBuf>,
    (bundle, targets): CodeObjectsOfBundle<'_, ReadTarget, CodeObject>,
) -> Vec<(usize, Result<Pending<'j>>)> {
    let mut pending = Vec::with_capacity(targets.len());
    for (index, (target, code_object)) in targets {
        let ReadTarget { position, stem, earlier } = target;
        pending.push((index, position, Pending::new(job, stem, earlier, code_object)));
    }
    let mut wanted: Vec<_> = pending.iter_mut().map(|(index, _, pending)| (*index, pending)).collect();
    // The error is in an `Option`, so that the loop below can move it to the first code object.
    let mut extracted = bundle.and_then(|bundle| bundle.extract(&mut wanted)).map_err(Some);
    let mut finished = Vec::with_capacity(pending.len());
    for (_, position, pending) in pending {
        match &mut extracted {
            Ok(()) => finished.push((position, pending.finish(inputs))),
            Err(error) => {
                let Some(error) = error.take() else { break };
                finished.push((position, Err(add_place(error, &pending.extracted.code_object.bundle.place))));
            }
        }
    }
    finished
}

/// Returns the name of the kind of a code object that cannot be read and is left out without an error, or `None` for
/// others. If the user asked for some code objects only, an unreadable one is an error instead.
fn passed_over(request: &Request<'_>, code_object: &CodeObjectRef<'_>) -> Option<&'static str> {
    if request.takes_all() { code_object.unread().map(|unread| unread.name()) } else { None }
}

/// Adds the selected code objects of a bundle to `reads`, each with its position among the code objects of the file.
/// Leaves out unreadable ones.
fn add_selected(
    request: &Request<'_>,
    input: &Input,
    found: &FoundBundle<'_>,
    first_position: usize,
    reads: &mut ReadList<usize, CodeObject>,
) -> Result<()> {
    let mut selected = Vec::new();
    for code_object in found.code_objects() {
        if request.takes(&code_object.parsed_id()) && passed_over(request, &code_object).is_none() {
            selected.push(code_object);
        }
    }
    if selected.is_empty() {
        return Ok(());
    }
    ensure_size_limit(input.path(), found.bundle, selected.iter().map(CodeObjectRef::index))
        .map_err(|error| add_place(error, found.place))?;
    let info = found.info()?;
    for code_object in selected {
        reads.add(Some(found), (first_position + code_object.index(), code_object.keep(&info)));
    }
    Ok(())
}

/// Adds the place of a bundle to an error in it. An error of an output has no place.
fn add_place(error: Error, place: &Place) -> Error {
    if error.fault().is_some() { error.at(place) } else { error }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_temporary_file_that_cannot_be_written_is_no_fault_of_the_input() {
        let full = || Error::temporary(std::io::ErrorKind::StorageFull.into());
        let input = Path::new("lib.a");
        let error = Error::io(input, full());
        assert!(!is_of_input(&error, input));
        let text = format!("cannot write a temporary file in '{}': ", std::env::temp_dir().display());
        assert!(error.to_string().starts_with(&text), "{error}");
        assert!(is_of_input(&Error::io(input, std::io::Error::from_raw_os_error(5)), input));
    }
}

//! Unpackages selected images from offload binaries, wherever a file holds them.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::file_name::FileName;
use super::library::{MemberNames, write_archive};
use super::stored_contents::{StoredContents, stored_range};
use super::walk::{FoundBinary, Walk, trailing_data};
use crate::base::bytes;
use crate::base::display::{Slashes, harmless};
use crate::base::error::{Error, Malformed, Result};
use crate::base::id::OffloadKind;
use crate::base::io::input::{Accept, Input, Slice};
use crate::base::io::output::{self, Output, OverwriteMode};
use crate::base::io::sys::{self, Stat};
use crate::llvm::container::archive::{InputFiles, NewMember};
use crate::llvm::container::limits::{Allowance, INFLATED_MIN};
use crate::llvm::container::magic::Magic;
use crate::llvm::container::offload_binary::{HipNumber, ImageInfo, OffloadBinary};
use crate::llvm::container::sequence::{Bundle, Bundles, Inflate};
use crate::llvm::container::{Entry, Limits};
use crate::llvm::event::{Event, Observer};
use crate::llvm::work::open;
use crate::llvm::work::present::PresentNames;

/// The maximum number of kinds of images that are listed if a request matches none. It bounds memory.
const PRESENT_MAX: usize = 1000;

/// The maximum depth of offload binaries inside offload binaries.
const NESTED_MAX: u32 = 8;

/// Unpackages images from offload binaries.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Unpackage {
    /// The file to read: offload binaries; an object, library or program with a section of them; bitcode that embeds
    /// them; or an archive of any of these.
    pub input: PathBuf,
    /// The requests. If there are none, all images are written to files with generated names.
    pub requests: Vec<ImageRequest>,
    /// Whether the file of a request becomes an archive of all images that match it.
    pub archive: bool,
    /// Limits on the inflated size of compressed offload binaries, and on the total inflated size of those inside
    /// images.
    pub limits: Limits,
}

/// A request for images.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImageRequest {
    /// The request as typed, for messages.
    pub arguments: String,
    /// The file that gets the last matching image. Without it, each image is written to a file in the current directory
    /// named `<stem of the input>-<triple>[-<architecture>].<number>.<extension>`.
    pub file: Option<PathBuf>,
    /// The conditions. An image must meet all of them.
    pub filters: Vec<Filter>,
}

/// A condition for an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Filter {
    /// The offload kind; `None` matches images without one.
    Kind(Option<OffloadKind>),
    /// The value of a key; images without the key have an empty value. The key `member` also matches the name of the
    /// archive member that the image is from.
    String {
        /// The key.
        key: Vec<u8>,
        /// The value.
        value: Vec<u8>,
    },
}

impl Filter {
    /// Whether an image meets the condition. `member` is the name of the archive member that the image is from.
    fn accepts(&self, image: &ImageInfo, member: Option<&[u8]>) -> bool {
        match self {
            // HIP has two numbers, and an image may have either.
            Self::Kind(kind) => HipNumber::ALL.iter().any(|hip| hip.kind_number(*kind) == image.kind_number),
            Self::String { key, value } => {
                if image.string(key).unwrap_or_default() == value {
                    return true;
                }
                match member {
                    // The directory of a member of a thin archive may be omitted.
                    Some(name) if key == b"member" => name == value || last_component(name) == value,
                    _ => false,
                }
            }
        }
    }

    /// Whether the condition is about the archive member that an image is from.
    fn is_for_member(&self) -> bool {
        matches!(self, Self::String { key, .. } if key == b"member")
    }
}

/// The part of a path after the last slash.
fn last_component(path: &[u8]) -> &[u8] {
    path.rsplit(|&byte| byte == b'/').next().unwrap_or_default()
}

impl Unpackage {
    /// Writes the images of each request to its file, or all images to files with generated names if there are no
    /// requests.
    pub fn new(input: impl Into<PathBuf>, requests: Vec<ImageRequest>) -> Self {
        Self { input: input.into(), requests, archive: false, limits: Limits::default() }
    }

    /// Writes the images. If there are no requests, `out` gets a line for each file. A request without a match is not
    /// an error, but is reported to the observer.
    ///
    /// # Errors
    /// Any [`Error`]; all files are then unchanged. An error of `out` names the file `-`.
    pub fn run(&self, out: &mut dyn Write, observer: &mut Observer<'_>) -> Result<()> {
        let input = open(&self.input, Accept::Any, self.limits.streamed)?;
        // A request without conditions and without a file: all images match, and get generated names.
        let everything = [ImageRequest::default()];
        let requests = if self.requests.is_empty() { &everything } else { self.requests.as_slice() };
        // Without a request, no archive has a name, so every image goes to a file of its own.
        if self.archive && self.requests.is_empty() {
            observer(Event::NoArchiveFile);
        }
        // With a file for each request, one pass over a compressed binary writes all images that are needed. Otherwise
        // images are read one by one: for a new archive, each is stored; without a file, each is searched for offload
        // binaries. Inflating the whole binary first avoids inflating it again for each image.
        let one_pass_suffices = !self.archive && requests.iter().all(|request| request.file.is_some());
        let inflate = if one_pass_suffices { Inflate::AsNeeded } else { Inflate::Whole };
        let mut unpacking = Unpacking::new(self, input.len(), requests, observer);
        let mut visitor = |found: FoundBinary<'_>| unpacking.take_images(&found);
        let walk = Walk::new(input.as_slice(), inflate, self.limits, &mut visitor);
        let sources = input.unless_changed(walk.run())?;
        let names = unpacking.commit_outputs(&input, &sources)?;
        if self.requests.is_empty() {
            for name in names {
                let line = [b"Extracted: ", name.as_encoded_bytes(), b"\n"].concat();
                out.write_all(&line).map_err(|error| Error::io("-", error))?;
            }
        }
        Ok(())
    }

    /// Whether every request must name a file, which `--archive` requires.
    fn needs_files(&self) -> bool {
        self.archive && !self.requests.is_empty()
    }
}

/// The images found and staged so far.
struct Unpacking<'j, 'o> {
    job: &'j Unpackage,
    requests: &'j [ImageRequest],
    observer: &'j mut Observer<'o>,
    /// The results of each request, in the order of the requests.
    results: Vec<RequestResults>,
    /// The outputs with generated names, in order.
    generated: Vec<(OsString, Output)>,
    /// The generated names, each with the number of its image (see `image_number`).
    used_names: HashMap<OsString, usize>,
    /// A number that grows with each image that gets a generated name: the current image has a number that no earlier
    /// one had.
    image_number: usize,
    /// The kinds of images in the file, without duplicates, up to [`PRESENT_MAX`].
    present: PresentNames,
    /// Whether a request names a member of an archive, so that `present` distinguishes members.
    by_member: bool,
    /// The remaining limit on the inflated size of offload binaries inside images.
    nested: NestedLimit,
    /// The images for archives.
    stored: StoredContents,
    /// The limit on the names of the members of new archives.
    member_names: MemberNames<'j>,
}

/// The remaining limit on the inflated size of the offload binaries inside images.
///
/// Offload binaries on all levels share the limit. With a limit for each alone, a small file could inflate without
/// bounds: each level can inflate one byte to a thousand.
struct NestedLimit {
    limits: Limits,
    bytes: Allowance,
}

impl NestedLimit {
    fn new(limits: Limits) -> Self {
        Self { limits, bytes: Allowance::new(limits.nested) }
    }

    /// Reads the next offload binary, and subtracts its inflated size from the limit. Returns `None` after the last
    /// one.
    ///
    /// # Errors
    /// The errors of the walk. If the recorded inflated size exceeds only the rest of this limit, the error names it.
    fn next_binary<'a>(&mut self, binaries: &mut Bundles<'a>) -> Result<Option<Bundle<'a>>> {
        // A binary must keep the limit on each container, and the rest of the limit on all of them.
        let inflated = self.limits.inflated.min(self.bytes.left());
        let next = binaries.next_within(Limits { inflated, ..self.limits });
        let Some(binary) = next.map_err(|error| self.name_shared_limit(error))? else { return Ok(None) };
        if let Some(recorded) = binary.compressed {
            // Even a tiny binary costs `INFLATED_MIN`, which may be more than is left: then nothing is left.
            self.bytes.take_up_to(recorded.inflated.max(INFLATED_MIN));
        }
        Ok(Some(binary))
    }

    /// Returns the error with the limit on all nested containers, if a recorded size was rejected that is within the
    /// limit on each container: too little of the other limit was left. Returns any other error as it is.
    fn name_shared_limit(&self, error: Error) -> Error {
        match error.fault() {
            Some(&Malformed::Claim { what, offset, claimed, .. }) if claimed <= self.limits.inflated => {
                let limit = format!("what is left of the limit of {} for nested containers", self.bytes.most());
                Error::malformed(error.path(), Malformed::Claim { what, offset, claimed, limit })
            }
            _ => error,
        }
    }
}

/// The results of a request.
#[derive(Default)]
struct RequestResults {
    /// The number of matching images.
    matches: usize,
    /// The number for the next generated name.
    next_name_number: usize,
    /// The file with the last matching image.
    last: Option<Output>,
    /// The reason why an output cannot be opened. As in LLVM, the results of earlier requests are reported before it.
    failed: Option<Error>,
    /// The members of the new archive: their names, and the ranges of the stored images.
    members: Vec<(Vec<u8>, Range<u64>)>,
}

impl<'j, 'o> Unpacking<'j, 'o> {
    fn new(job: &'j Unpackage, input_len: u64, requests: &'j [ImageRequest], observer: &'j mut Observer<'o>) -> Self {
        let results = requests.iter().map(|_| RequestResults::default()).collect();
        Self {
            job,
            requests,
            observer,
            results,
            generated: Vec::new(),
            used_names: HashMap::new(),
            image_number: 0,
            present: PresentNames::default(),
            by_member: requests.iter().flat_map(|request| &request.filters).any(Filter::is_for_member),
            nested: NestedLimit::new(job.limits),
            stored: StoredContents::new(&job.input),
            member_names: MemberNames::new(&job.input, input_len),
        }
    }

    /// Stores or stages the images of an offload binary that match requests.
    fn take_images(&mut self, found: &FoundBinary<'_>) -> Result<()> {
        let FoundBinary { binary, member } = *found;
        // The index of the last matching image for each request with a file.
        let mut last: Vec<Option<usize>> = vec![None; self.requests.len()];
        for (index, entry) in binary.entries.iter().enumerate() {
            if let Some(image) = entry.image.as_deref() {
                if self.present.shown().len() < PRESENT_MAX {
                    self.present.note(&describe(image, if self.by_member { member } else { None }));
                }
                self.take_image(binary, index, image, member, &mut last)?;
            }
        }
        self.extract_last(binary, &last)
    }

    /// Passes an image, given by its index in the binary, to each request that it matches:
    ///
    /// - for a new archive, the image is stored;
    /// - for a file, `last` gets the index, because a later image may replace this one;
    /// - without a file, the image is staged at once under a generated name.
    fn take_image(
        &mut self,
        binary: &Bundle<'_>,
        index: usize,
        image: &ImageInfo,
        member: Option<&[u8]>,
        last: &mut [Option<usize>],
    ) -> Result<()> {
        let mut without_file = Vec::new();
        // The image is stored once, for all archives that get it.
        let mut stored: Option<Range<u64>> = None;
        for (number, ((request, results), last)) in self.requests.iter().zip(&mut self.results).zip(last).enumerate() {
            if !request.filters.iter().all(|filter| filter.accepts(image, member)) {
                continue;
            }
            results.matches += 1;
            match &request.file {
                Some(_) if self.job.archive => {
                    let range = match &stored {
                        Some(range) => range.clone(),
                        None => stored.insert(self.stored.store(binary, index)?).clone(),
                    };
                    let name = self.job.member_name(member);
                    // Names from the file count against a limit on their total length. Without a member, the name is
                    // the path of the input, which the user gave.
                    if member.is_some() {
                        self.member_names.charge(&name)?;
                    }
                    results.members.push((name, range));
                }
                Some(_) => *last = Some(index),
                // `commit_outputs` reports the missing file name.
                None if self.job.needs_files() => {}
                None => without_file.push(number),
            }
        }
        if without_file.is_empty() {
            return Ok(());
        }
        self.stage_image(image, binary.content(index)?, NESTED_MAX, &without_file)
    }

    /// Stages an image under generated names, for the requests with these indices. If the image consists of offload
    /// binaries, their images are staged instead, down to `depth` levels. An error of an output is kept in the results
    /// of its request, and `outputs_of_requests` returns it.
    fn stage_image(&mut self, image: &ImageInfo, content: Slice<'_>, depth: u32, requests: &[usize]) -> Result<()> {
        if Magic::identify(content.bytes()) != Magic::OffloadBinary {
            self.image_number += 1;
            for &request in requests {
                let staged = self.stage_under_generated_name(request, image, content);
                if let (Err(error), Some(results)) = (staged, self.results.get_mut(request)) {
                    results.failed.get_or_insert(error);
                }
            }
            return Ok(());
        }
        let Some(depth) = depth.checked_sub(1) else {
            let (what, offset) = ("offload binaries", content.offset());
            return Err(Error::malformed(content.path(), Malformed::nested(what, NESTED_MAX, offset)));
        };
        let container = OffloadBinary::default();
        let mut binaries = Bundles::new(content, &container, Inflate::Whole);
        while let Some(binary) = self.nested.next_binary(&mut binaries)? {
            for (index, Entry { image, .. }) in binary.entries.iter().enumerate() {
                if let Some(image) = image.as_deref() {
                    self.stage_image(image, binary.content(index)?, depth, requests)?;
                }
            }
        }
        match binaries.stopped_at() {
            Some(offset) => Err(trailing_data(content.path(), offset)),
            None => Ok(()),
        }
    }

    /// Stages the last matching image of each request that has a file, in one pass over the offload binary. If a file
    /// cannot be opened, the error is kept in the results of its request, and `outputs_of_requests` returns it.
    fn extract_last(&mut self, binary: &Bundle<'_>, last: &[Option<usize>]) -> Result<()> {
        let mut wanted = Vec::new();
        for ((request, results), last) in self.requests.iter().zip(&mut self.results).zip(last) {
            if let (Some(path), Some(index)) = (&request.file, *last) {
                // As in LLVM, an empty image is written into the old file, and any other image replaces that file.
                let size = binary.entries.get(index).map_or(0, Entry::size);
                match Output::stage_as(path, OverwriteMode::for_len(size)) {
                    // This output takes the place of one with an image of an earlier offload binary.
                    Ok(output) => wanted.push((index, results.last.insert(output))),
                    Err(error) => results.failed = Some(error),
                }
            }
        }
        if wanted.is_empty() {
            return Ok(());
        }
        binary.extract(&mut wanted)
    }

    /// Stages the current image under a generated name. As in LLVM, numbers count within a request. Writes nothing if
    /// another request has given this image the same name, and skips a name that another image has.
    fn stage_under_generated_name(&mut self, request: usize, image: &ImageInfo, content: Slice<'_>) -> Result<()> {
        let Some(results) = self.results.get_mut(request) else { return Err(Error::internal("no such request")) };
        let name = loop {
            let name = generated_name(self.job.input.as_os_str().as_encoded_bytes(), image, results.next_name_number);
            results.next_name_number += 1;
            match self.used_names.get(&name) {
                None => break name,
                Some(&owner) if owner == self.image_number => return Ok(()),
                Some(_other_image) => {}
            }
        };
        let mut output = Output::stage_as(name.as_ref(), OverwriteMode::Generated)?;
        // There may be thousands of outputs, so none may keep a buffer in memory.
        content.copy_to_file(output.writer()?.out, name.as_ref())?;
        output.complete()?;
        self.used_names.insert(name.clone(), self.image_number);
        self.generated.push((name, output));
        Ok(())
    }

    /// Stages the outputs that need all images, reports requests without a match, and puts all outputs in place.
    /// Returns the generated names. Fails if one of them is the name of a file that was read.
    fn commit_outputs(self, input: &Input, sources: &InputFiles<'_>) -> Result<Vec<OsString>> {
        let Self { job, requests, observer, results, generated, present, stored, .. } = self;
        let stored = stored.into_input()?;
        let mut unmatched = Vec::new();
        for (request, results) in requests.iter().zip(&results) {
            if results.matches == 0 {
                unmatched.push(request);
            }
        }
        let by_path = outputs_of_requests(job, requests, results, &stored, observer)?;
        // LLVM does not report requests without a match. So these reports follow LLVM's reports, and are missing after
        // a failure.
        report_unmatched(job, &unmatched, present.shown(), observer);
        let (names, mut outputs): (Vec<OsString>, Vec<Output>) = generated.into_iter().unzip();
        if let Some(name) = names.iter().find(|name| sources.contains(name.as_ref())) {
            return Err(Error::overwrites_input(Path::new(name)));
        }
        outputs.extend(by_path.into_iter().map(|(_, output)| output));
        // The input was checked after the walk. Writing new archives takes time, so it is checked once more.
        input.ensure_unchanged()?;
        output::commit(outputs)?;
        Ok(names)
    }
}

/// Returns the output of each request with a file and a match, in order. As in LLVM, a later output replaces an earlier
/// one of the same path. Unlike in LLVM, this is reported.
fn outputs_of_requests<'j>(
    job: &Unpackage,
    requests: &'j [ImageRequest],
    results: Vec<RequestResults>,
    stored: &Input,
    observer: &mut Observer<'_>,
) -> Result<Vec<(&'j Path, Output)>> {
    let mut by_path: Vec<(&Path, Output)> = Vec::new();
    for (request, results) in requests.iter().zip(results) {
        if results.matches == 0 {
            continue;
        }
        let Some(path) = request.file.as_deref() else {
            if job.needs_files() {
                return Err(Error::usage("Image must have a 'file' argument."));
            }
            if let Some(error) = results.failed {
                return Err(error);
            }
            continue;
        };
        let replaced = by_path.iter().position(|(other, _)| *other == path && is_replaced_by_second_output(path));
        if replaced.is_some() || (results.matches > 1 && !job.archive) {
            observer(Event::SeveralMatches { file: path.to_owned() });
        }
        let output = results.into_output(path, stored, observer)?;
        if let Some(index) = replaced {
            by_path.remove(index);
        }
        by_path.push((path, output));
    }
    Ok(by_path)
}

/// Reports each request without a match, with the images that are present. A file without images is reported once.
fn report_unmatched(job: &Unpackage, unmatched: &[&ImageRequest], present: &[String], observer: &mut Observer<'_>) {
    if present.is_empty() {
        observer(Event::NoMatch { input: job.input.clone(), request: None, present: Vec::new() });
        return;
    }
    for request in unmatched {
        let (input, arguments) = (job.input.clone(), Some(request.arguments.clone()));
        observer(Event::NoMatch { input, request: arguments, present: present.to_vec() });
    }
}

impl RequestResults {
    /// Returns the output of a request with a file: the file with the last matching image, or else an archive of all
    /// matching images. The error is an earlier failure to open the output.
    fn into_output(self, path: &Path, stored: &Input, observer: &mut Observer<'_>) -> Result<Output> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        if let Some(output) = self.last {
            return Ok(output);
        }
        let mut members = Vec::with_capacity(self.members.len());
        for (name, range) in self.members {
            members.push(NewMember { name, content: stored_range(stored, &range)? });
        }
        write_archive(path, &members, observer)
    }
}

/// Whether a second output at a path replaces the first one. Standard output, the null device and pipes get both
/// outputs one after the other.
fn is_replaced_by_second_output(path: &Path) -> bool {
    if path.as_os_str() == "-" || sys::is_null(path) {
        return false;
    }
    match Stat::at(path) {
        Ok(found) => found.is_file(),
        // Nothing is there yet, so each output becomes a file.
        Err(_) => true,
    }
}

impl Unpackage {
    /// The name of an image in an archive. As in LLVM, it is the name of the member or file that the image is from.
    ///
    /// The name of a member is changed where it could harm whoever extracts the archive: it cannot lead out of a
    /// directory, and has no control characters. The input's path is kept, because the user gave it.
    fn member_name(&self, member: Option<&[u8]>) -> Vec<u8> {
        let Some(member) = member else {
            let path = self.input.as_os_str().as_encoded_bytes();
            return if path == b"-" { b"<stdin>".to_vec() } else { path.to_vec() };
        };
        let leads_out = member.starts_with(b"/") || member.split(|&byte| byte == b'/').any(|part| part == b"..");
        let name = if leads_out { last_component(member) } else { member };
        // Readers of archives take a member without a name for the index of symbols.
        let name = if name.is_empty() { b"_" } else { name };
        harmless(name, Slashes::Keep)
    }
}

/// The file name for an image, as [`ImageRequest::file`] describes it. No name is a path, whatever strings the image
/// has.
fn generated_name(input: &[u8], image: &ImageInfo, number: usize) -> OsString {
    let FileName { stem, .. } = FileName::of(input);
    let mut name = [stem, b"-", image.triple()].concat();
    if !image.arch().is_empty() {
        name.extend([b"-", image.arch()].concat());
    }
    name.extend(format!(".{number}.{}", image.image_kind.extension()).into_bytes());
    sys::new_name(harmless(&name, Slashes::Replace))
}

/// Describes an image as a request would.
fn describe(image: &ImageInfo, member: Option<&[u8]>) -> String {
    let kind = match (image.offload_kind(), image.kind_number) {
        (Some(kind), _) => kind.name().to_owned(),
        (None, 0) => "none".to_owned(),
        (None, number) => number.to_string(),
    };
    let (triple, arch) = (shortened(image.triple()), shortened(image.arch()));
    match member {
        Some(member) => format!("kind={kind},triple={triple},arch={arch},member={}", shortened(member)),
        None => format!("kind={kind},triple={triple},arch={arch}"),
    }
}

/// The first characters of a text from a file, which may be of any length, for messages.
fn shortened(text: &[u8]) -> String {
    const SHOWN: usize = 200;
    bytes::text_lossy(text).chars().take(SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llvm::container::offload_binary::{ImageKind, NewImage, Version, plan};

    fn image(strings: &[(&str, &[u8])]) -> ImageInfo {
        let strings = strings.iter().map(|(key, value)| (key.as_bytes().to_vec(), value.to_vec())).collect();
        ImageInfo { image_kind: ImageKind::Object, kind_number: 4, flags: 0, strings }
    }

    fn target(triple: &[u8], arch: &[u8]) -> ImageInfo {
        image(&[("triple", triple), ("arch", arch)])
    }

    #[test]
    fn generated_names_are_never_paths_and_have_no_control_characters() {
        for (input, triple, arch, expected) in [
            ("dir/in.bin", &b"amdgcn-amd-amdhsa"[..], &b"gfx90a:xnack+"[..], "in-amdgcn-amd-amdhsa-gfx90a:xnack+.7.o"),
            ("in", b"nvptx64", b"", "in-nvptx64.7.o"),
            ("-", b"t", b"a", "--t-a.7.o"),
            ("in", b"../../tmp/x", b"/etc", "in-.._.._tmp_x-_etc.7.o"),
            ("in", b"a\nb\x1b[31m", "\u{9b}m".as_bytes(), "in-a_b_[31m-_m.7.o"),
        ] {
            assert_eq!(generated_name(input.as_bytes(), &target(triple, arch), 7), sys::new_name(expected.into()));
        }
        let bytes = generated_name(b"in", &target(b"\xff/\n\x9b", b""), 0);
        assert_eq!(bytes, sys::new_name(b"in-\xff___.0.o".to_vec()));
    }

    #[test]
    fn members_of_new_archives_have_names_that_stay_inside() {
        let job =
            |input: &str| Unpackage { input: input.into(), requests: vec![], archive: true, limits: Limits::default() };
        assert_eq!(job("../in").member_name(None), b"../in");
        assert_eq!(job("-").member_name(None), b"<stdin>");
        for (member, expected) in [
            ("a.o", "a.o"),
            ("dir/a.o", "dir/a.o"),
            ("../../x", "x"),
            ("/etc/x", "x"),
            ("a/../b\nc", "b_c"),
            ("d/\x1b[2J", "d/_[2J"),
            ("", "_"),
            ("//", "_"),
        ] {
            assert_eq!(job("in").member_name(Some(member.as_bytes())), expected.as_bytes());
        }
    }

    fn string(key: &str, value: &str) -> Filter {
        Filter::String { key: key.into(), value: value.into() }
    }

    #[test]
    fn filters_hold_for_kinds_strings_and_members() {
        let hip = image(&[("arch", b"gfx90a"), ("member", b"x")]);
        let old = ImageInfo { kind_number: 3, ..hip.clone() };
        let unknown = ImageInfo { kind_number: 16, ..hip.clone() };
        for kind in [OffloadKind::Hip, OffloadKind::HipV4] {
            assert!([&hip, &old].iter().all(|image| Filter::Kind(Some(kind)).accepts(image, None)));
            assert!(!Filter::Kind(Some(kind)).accepts(&unknown, None));
        }
        assert!(![&hip, &old, &unknown].iter().any(|image| Filter::Kind(None).accepts(image, None)));
        assert!(Filter::Kind(None).accepts(&ImageInfo::default(), None));
        assert!(string("arch", "gfx90a").accepts(&hip, None) && !string("arch", "gfx90").accepts(&hip, None));
        assert!(string("triple", "").accepts(&hip, None) && string("", "").accepts(&hip, None));
        assert!(string("member", "x").accepts(&hip, Some(b"y")) && !string("member", "z").accepts(&hip, Some(b"y")));
        assert!(string("member", "y").accepts(&hip, Some(b"y")) && string("member", "y").accepts(&hip, Some(b"d/y")));
    }

    /// Writes offload binaries to a file in the directory.
    fn write(dir: &Path, version: Version, images: &[(ImageInfo, &[u8])]) -> PathBuf {
        let path = dir.join("in");
        let inputs: Vec<_> = images.iter().map(|(info, data)| (info, Input::from_bytes("x", data.to_vec()))).collect();
        let images: Vec<_> =
            inputs.iter().map(|(info, input)| NewImage { info: (*info).clone(), content: input.as_slice() }).collect();
        let mut bytes = Vec::new();
        crate::base::io::piece::emit(&plan(version, &images).unwrap(), &mut bytes).unwrap();
        std::fs::write(&path, bytes).unwrap();
        path
    }

    #[test]
    fn of_several_matches_the_last_one_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let images = [(target(b"t", b"a"), &b"one"[..]), (target(b"t", b"b"), b"two"), (target(b"t", b"a"), b"three")];
        let input = write(dir.path(), Version::V2, &images);
        let requests = [("x", "a"), ("y", "b"), ("x", "b"), ("z", "c")].map(|(file, arch)| ImageRequest {
            arguments: arch.to_owned(),
            file: Some(dir.path().join(file)),
            filters: vec![string("arch", arch)],
        });
        let requests = requests.to_vec();
        let job = Unpackage { input, requests, archive: false, limits: Limits::default() };
        let mut reported = Vec::new();
        job.run(&mut Vec::new(), &mut |event| match event {
            Event::SeveralMatches { file } => reported.push(file.file_name().unwrap().to_owned()),
            Event::NoMatch { request, present, .. } => {
                reported.extend([request.unwrap().into(), present.concat().into()]);
            }
            _ => {}
        })
        .unwrap();
        let contents = ["x", "y", "z"].map(|file| std::fs::read_to_string(dir.path().join(file)).unwrap_or_default());
        assert_eq!(contents, ["two", "two", ""]);
        assert_eq!(reported, ["x", "x", "c", "kind=hip,triple=t,arch=akind=hip,triple=t,arch=b"]);
    }

    #[test]
    fn what_a_file_holds_is_told_once_and_not_at_any_length() {
        let dir = tempfile::tempdir().unwrap();
        let archs: Vec<String> = (0..2 * PRESENT_MAX + 2).map(|number| (number / 2).to_string()).collect();
        let images: Vec<_> = archs.iter().map(|arch| (target(&b"t".repeat(1000), arch.as_bytes()), &b""[..])).collect();
        let filters = vec![string("arch", "none")];
        let request = ImageRequest { file: Some(dir.path().join("x")), filters, ..ImageRequest::default() };
        let input = write(dir.path(), Version::V1, &images);
        let job = Unpackage { input, requests: vec![request], archive: false, limits: Limits::default() };
        let mut shown = Vec::new();
        job.run(&mut Vec::new(), &mut |event| {
            if let Event::NoMatch { present, .. } = event {
                shown = present;
            }
        })
        .unwrap();
        assert_eq!(shown.len(), PRESENT_MAX);
        assert_eq!(shown[1], format!("kind=hip,triple={},arch=1", "t".repeat(200)));
    }
}

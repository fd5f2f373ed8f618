//! Unpackages selected images from offload binaries, wherever a file holds them.

use std::collections::HashMap;
use std::ffi::OsString;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::file_name::FileName;
use super::library::{MemberNames, write_archive};
use super::stored_contents::{StoredContents, stored_range};
use super::walk::{FoundBinary, Walk};
use crate::base::display::{Slashes, harmless};
use crate::base::error::{Error, Result};
use crate::base::id::OffloadKind;
use crate::base::io::input::{Accept, Input, Slice};
use crate::base::io::output::{self, Output, OverwriteMode};
use crate::base::io::sys::{self, Stat};
use crate::llvm::container::archive::{InputFiles, NewMember};
use crate::llvm::container::offload_binary::ImageInfo;
use crate::llvm::container::sequence::{Bundle, Inflate};
use crate::llvm::container::{Entry, Limits};
use crate::llvm::event::{Event, Observer};
use crate::llvm::work::open;

/// Unpackages images from offload binaries.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Unpackage {
    /// The file to read: offload binaries; an object, library or program with a section of them; bitcode that embeds
    /// them; or an archive of any of these.
    pub input: PathBuf,
    /// The requests.
    pub requests: Vec<ImageRequest>,
    /// Whether the file of a request becomes an archive of all images that match it.
    pub archive: bool,
    /// Limits on the inflated size of compressed offload binaries.
    pub limits: Limits,
}

/// A request for images.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImageRequest {
    /// The file that gets the last matching image. Without it, each image is written to a file in the current directory
    /// named `<stem of the input>-<triple>-<architecture>.<number>.<extension>`.
    pub file: Option<PathBuf>,
    /// The conditions. An image must meet all of them.
    pub filters: Vec<Filter>,
}

/// A condition for an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Filter {
    /// The offload kind; `None` matches images without one.
    Kind(Option<OffloadKind>),
    /// The value of a key; images without the key have an empty value.
    String {
        /// The key.
        key: Vec<u8>,
        /// The value.
        value: Vec<u8>,
    },
}

impl Filter {
    /// Whether an image meets the condition.
    fn accepts(&self, image: &ImageInfo) -> bool {
        match self {
            Self::Kind(None) => image.kind_number == 0,
            Self::Kind(kind) => image.offload_kind() == *kind,
            Self::String { key, value } => image.string(key).unwrap_or_default() == value,
        }
    }
}

/// The part of a path after the last slash.
fn last_component(path: &[u8]) -> &[u8] {
    path.rsplit(|&byte| byte == b'/').next().unwrap_or_default()
}

impl Unpackage {
    /// Writes the images of each request to its file.
    pub fn new(input: impl Into<PathBuf>, requests: Vec<ImageRequest>) -> Self {
        Self { input: input.into(), requests, archive: false, limits: Limits::default() }
    }

    /// Writes the images. A request without a match is not an error.
    ///
    /// # Errors
    /// Any [`Error`].
    pub fn run(&self, observer: &mut Observer<'_>) -> Result<()> {
        let input = open(&self.input, Accept::Any, self.limits.streamed)?;
        // With a file for each request, one pass over a compressed binary writes all images that are needed. Otherwise
        // images are read one by one. Inflating the whole binary first avoids inflating it again for each image.
        let one_pass_suffices = !self.archive && self.requests.iter().all(|request| request.file.is_some());
        let inflate = if one_pass_suffices { Inflate::AsNeeded } else { Inflate::Whole };
        let mut unpacking = Unpacking::new(self, input.len(), observer);
        let mut visitor = |found: FoundBinary<'_>| unpacking.take_images(&found);
        let walk = Walk::new(input.as_slice(), inflate, self.limits, &mut visitor);
        let sources = input.unless_changed(walk.run())?;
        unpacking.commit_outputs(&input, &sources)
    }
}

/// The images found and staged so far.
struct Unpacking<'j, 'o> {
    job: &'j Unpackage,
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
    /// The images for archives.
    stored: StoredContents,
    /// The limit on the names of the members of new archives.
    member_names: MemberNames<'j>,
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
    /// Starts without images. `input_len` is the length of the input in bytes, which limits the names of new members.
    fn new(job: &'j Unpackage, input_len: u64, observer: &'j mut Observer<'o>) -> Self {
        Self {
            job,
            observer,
            results: job.requests.iter().map(|_| RequestResults::default()).collect(),
            generated: Vec::new(),
            used_names: HashMap::new(),
            image_number: 0,
            stored: StoredContents::new(&job.input),
            member_names: MemberNames::new(&job.input, input_len),
        }
    }

    /// Stores or stages the images of an offload binary that match requests.
    fn take_images(&mut self, found: &FoundBinary<'_>) -> Result<()> {
        let FoundBinary { binary, member } = *found;
        // The index of the last matching image for each request with a file.
        let mut last: Vec<Option<usize>> = vec![None; self.results.len()];
        for (index, entry) in binary.entries.iter().enumerate() {
            if let Some(image) = entry.image.as_deref() {
                self.take_image(binary, index, image, member, &mut last)?;
            }
        }
        self.extract_last(binary, &last)
    }

    /// Passes an image, given by its index in the binary, to each request that it matches:
    ///
    /// - for a new archive, the image is stored;
    /// - for a file, `last_matches` gets the index, because a later image may replace this one;
    /// - without a file, the image is staged at once under a generated name.
    fn take_image(
        &mut self,
        binary: &Bundle<'_>,
        index: usize,
        image: &ImageInfo,
        member: Option<&[u8]>,
        last_matches: &mut [Option<usize>],
    ) -> Result<()> {
        let mut without_file = Vec::new();
        // The image is stored once, for all archives that get it.
        let mut stored: Option<Range<u64>> = None;
        for (request_index, ((request, results), last_match)) in
            self.job.requests.iter().zip(&mut self.results).zip(last_matches).enumerate()
        {
            if !request.filters.iter().all(|filter| filter.accepts(image)) {
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
                Some(_) => *last_match = Some(index),
                // `commit_outputs` reports the missing file name.
                None if self.job.archive => {}
                None => without_file.push(request_index),
            }
        }
        if without_file.is_empty() {
            return Ok(());
        }
        self.image_number += 1;
        let content = binary.content(index)?;
        for request_index in without_file {
            let staged = self.stage_under_generated_name(request_index, image, content);
            // `outputs_of_requests` returns the error.
            if let (Err(error), Some(results)) = (staged, self.results.get_mut(request_index)) {
                results.failed.get_or_insert(error);
            }
        }
        Ok(())
    }

    /// Stages the last matching image of each request that has a file, in one pass over the offload binary. If a file
    /// cannot be opened, the error is kept in the results of its request, and `outputs_of_requests` returns it.
    fn extract_last(&mut self, binary: &Bundle<'_>, last: &[Option<usize>]) -> Result<()> {
        let mut wanted = Vec::new();
        for ((request, results), last) in self.job.requests.iter().zip(&mut self.results).zip(last) {
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
    fn stage_under_generated_name(
        &mut self,
        request_index: usize,
        image: &ImageInfo,
        content: Slice<'_>,
    ) -> Result<()> {
        let Some(results) = self.results.get_mut(request_index) else { return Err(Error::internal("no such request")) };
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

    /// Stages the outputs that need all images, and puts all outputs in place. Fails if a generated name is the name of a
    /// file that was read.
    fn commit_outputs(self, input: &Input, sources: &InputFiles<'_>) -> Result<()> {
        let Self { job, observer, results, generated, stored, .. } = self;
        let stored = stored.into_input()?;
        let by_path = outputs_of_requests(job, results, &stored, observer)?;
        let (names, mut outputs): (Vec<OsString>, Vec<Output>) = generated.into_iter().unzip();
        if let Some(name) = names.iter().find(|name| sources.contains(name.as_ref())) {
            return Err(Error::overwrites_input(Path::new(name)));
        }
        outputs.extend(by_path.into_iter().map(|(_, output)| output));
        // The input was checked after the walk. Writing new archives takes time, so it is checked once more.
        input.ensure_unchanged()?;
        output::commit(outputs)
    }
}

/// Returns the output of each request with a file and a match, in order. As in LLVM, a later output replaces an earlier
/// one of the same path.
fn outputs_of_requests<'j>(
    job: &'j Unpackage,
    results: Vec<RequestResults>,
    stored: &Input,
    observer: &mut Observer<'_>,
) -> Result<Vec<(&'j Path, Output)>> {
    let mut by_path: Vec<(&Path, Output)> = Vec::new();
    for (request, results) in job.requests.iter().zip(results) {
        if results.matches == 0 {
            continue;
        }
        let Some(path) = request.file.as_deref() else {
            if job.archive {
                return Err(Error::usage("Image must have a 'file' argument."));
            }
            if let Some(error) = results.failed {
                return Err(error);
            }
            // The images are already staged under generated names.
            continue;
        };
        let replaced = by_path.iter().position(|(other, _)| *other == path && is_replaced_by_second_output(path));
        if results.matches > 1 && !job.archive {
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
    let end = format!(".{number}.{}", image.image_kind.extension());
    let name = [stem, b"-", image.triple(), b"-", image.arch(), end.as_bytes()].concat();
    sys::new_name(harmless(&name, Slashes::Replace))
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
            ("in", b"nvptx64", b"", "in-nvptx64-.7.o"),
            ("-", b"t", b"a", "--t-a.7.o"),
            ("in", b"../../tmp/x", b"/etc", "in-.._.._tmp_x-_etc.7.o"),
            ("in", b"a\nb\x1b[31m", "\u{9b}m".as_bytes(), "in-a_b_[31m-_m.7.o"),
        ] {
            assert_eq!(generated_name(input.as_bytes(), &target(triple, arch), 7), sys::new_name(expected.into()));
        }
        let bytes = generated_name(b"in", &target(b"\xff/\n\x9b", b""), 0);
        assert_eq!(bytes, sys::new_name(b"in-\xff___-.0.o".to_vec()));
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
    fn filters_hold_for_kinds_and_strings() {
        let hip = image(&[("arch", b"gfx90a")]);
        let old = ImageInfo { kind_number: 3, ..hip.clone() };
        let unknown = ImageInfo { kind_number: 16, ..hip.clone() };
        let is_hip = Filter::Kind(Some(OffloadKind::Hip));
        assert!(is_hip.accepts(&hip) && is_hip.accepts(&old) && !is_hip.accepts(&unknown));
        assert!(![&hip, &old, &unknown].iter().any(|image| Filter::Kind(None).accepts(image)));
        assert!(Filter::Kind(None).accepts(&ImageInfo::default()));
        assert!(string("arch", "gfx90a").accepts(&hip) && !string("arch", "gfx90").accepts(&hip));
        assert!(string("triple", "").accepts(&hip) && string("", "").accepts(&hip));
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
            file: Some(dir.path().join(file)),
            filters: vec![string("arch", arch)],
        });
        let requests = requests.to_vec();
        let job = Unpackage { input, requests, archive: false, limits: Limits::default() };
        let mut reported = Vec::new();
        job.run(&mut |event| {
            if let Event::SeveralMatches { file } = event {
                reported.push(file.file_name().unwrap().to_owned());
            }
        })
        .unwrap();
        let contents = ["x", "y", "z"].map(|file| std::fs::read_to_string(dir.path().join(file)).unwrap_or_default());
        assert_eq!(contents, ["two", "two", ""]);
        assert_eq!(reported, ["x"]);
    }
}

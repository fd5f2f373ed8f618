//! Unpackaging: chosen images out of whatever holds offload binaries.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use super::file_name::FileName;
use super::regions::{self, Region};
use super::{Event, Observer};
use crate::container::Entry;
use crate::container::archive::{self, NewMember};
use crate::container::offload_binary::{self, ImageInfo, OffloadBinary};
use crate::container::sequence::{Bundle, Bundles, Inflate};
use crate::error::{Error, Malformed, Result, WithPath};
use crate::id::OffloadKind;
use crate::input::{Input, Slice};
use crate::meter::Meter;
use crate::output::{self, Output};
use crate::piece::Sink;

/// How deep offload binaries may lie in offload binaries.
const NESTED_MAX: u32 = 8;

/// Unpackages images.
#[derive(Clone, Debug)]
pub struct Unpackage {
    /// The file to read: offload binaries, an object, library or program with a section of them, bitcode that embeds
    /// them, or an archive of any of these.
    pub input: PathBuf,
    /// Which images are wanted and where they go. Without a request all go to files with generated names.
    pub requests: Vec<ImageRequest>,
    /// The file of a request becomes an archive of all images that match it.
    pub archive: bool,
}

/// A request for images.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageRequest {
    /// The request as typed, for messages.
    pub arguments: String,
    /// Where the last image that matches goes. Without it each goes to a file in the current directory, named
    /// `<stem of the input>-<triple>[-<architecture>].<number>.<extension>`.
    pub file: Option<PathBuf>,
    /// What an image must have, all of it.
    pub filters: Vec<Filter>,
}

/// Something that an image must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Filter {
    /// The offload kind, or none.
    Kind(Option<OffloadKind>),
    /// A value for a key; images without the key have an empty one. The key `member` also stands for the name of the
    /// archive member that the image is from.
    String {
        /// The key.
        key: Vec<u8>,
        /// The value.
        value: Vec<u8>,
    },
}

impl Filter {
    fn accepts(&self, image: &ImageInfo, member: Option<&[u8]>) -> bool {
        match self {
            Self::Kind(Some(kind)) => image.offload_kind() == Some(*kind),
            Self::Kind(None) => image.kind_number == 0,
            Self::String { key, value } => {
                let is_member = || key == b"member" && member.is_some_and(|name| is_name(name, value));
                image.string(key).unwrap_or_default() == value || is_member()
            }
        }
    }
}

/// Whether a member has this name, which may leave out the directory that members of thin archives have.
fn is_name(member: &[u8], name: &[u8]) -> bool {
    member == name || member.rsplit(|&byte| byte == b'/').next() == Some(name)
}

impl Unpackage {
    /// Writes the images. If there is no request, `out` gets a line for each file. A request without a match is no
    /// error, but the observer is told.
    ///
    /// # Errors
    /// Any of [`Error`]; all files are then what they were before. A failing `out` is an [`Error::Io`] on the path `-`.
    pub fn run(&self, out: &mut dyn Write, observer: &mut Observer<'_>) -> Result<()> {
        let input = Input::open(&self.input)?;
        let everything = [ImageRequest::default()];
        let requests = if self.requests.is_empty() { &everything } else { self.requests.as_slice() };
        if self.archive && self.requests.is_empty() {
            observer(Event::NoArchiveFile);
        } else if self.archive && requests.iter().any(|request| request.file.is_none()) {
            return Err(Error::Usage("Image must have a 'file' argument."));
        }
        let mut run = Run::new(self, requests);
        regions::visit(input.as_slice(), &mut |region| run.visit(region))?;
        let names = run.finish(observer)?;
        if self.requests.is_empty() {
            let mut lines = names.iter().map(|name| [b"Extracted: ", name.as_bytes(), b"\n"].concat());
            lines.try_for_each(|line| out.write_all(&line)).map_err(|error| Error::io("-", error))?;
        }
        Ok(())
    }
}

/// What is found and staged so far.
struct Run<'j> {
    job: &'j Unpackage,
    requests: &'j [ImageRequest],
    served: Vec<Served>,
    /// The generated names, in their order, each with the number of the image that it is for.
    names: Vec<OsString>,
    taken: HashMap<OsString, usize>,
    /// How many images were seen, those in nested offload binaries included.
    seen: usize,
    outputs: Vec<Output>,
    present: Vec<String>,
    /// Whether a request is for members of an archive, so that their names tell why it fails.
    by_member: bool,
}

/// What a request has got.
#[derive(Default)]
struct Served {
    matches: usize,
    /// How many names were generated.
    named: usize,
    last: Option<Output>,
    /// For an archive.
    members: Vec<(Vec<u8>, Input)>,
}

impl<'j> Run<'j> {
    fn new(job: &'j Unpackage, requests: &'j [ImageRequest]) -> Self {
        let served = requests.iter().map(|_| Served::default()).collect();
        let (names, taken, outputs, present) = Default::default();
        let is_member = |filter: &Filter| matches!(filter, Filter::String { key, .. } if key == b"member");
        let by_member = requests.iter().flat_map(|request| &request.filters).any(is_member);
        Self { job, requests, served, names, taken, seen: 0, outputs, present, by_member }
    }

    fn visit(&mut self, region: Region<'_>) -> Result<()> {
        // Whatever goes to a file of its own may be an offload binary again, and has to be looked at.
        let in_part = !self.job.archive && self.requests.iter().all(|request| request.file.is_some());
        let inflate = if in_part { Inflate::AsNeeded } else { Inflate::Whole };
        each_binary(region.data, inflate, &mut |binary| {
            let images = binary.entries.iter().map(|entry| entry.image.as_deref());
            for (index, image) in images.enumerate() {
                let Some(image) = image else { continue };
                let shown = describe(image, region.member.filter(|_| self.by_member));
                if !self.present.contains(&shown) {
                    self.present.push(shown);
                }
                let accepts =
                    |request: &ImageRequest| request.filters.iter().all(|filter| filter.accepts(image, region.member));
                let wanted: Vec<bool> = self.requests.iter().map(accepts).collect();
                self.take(binary, index, &wanted, region)?;
            }
            Ok(())
        })
    }

    /// Stages an image for the requests that want it.
    fn take(&mut self, binary: &Bundle<'_>, index: usize, wanted: &[bool], region: Region<'_>) -> Result<()> {
        let mut by_name = Vec::new();
        for (number, (request, served)) in self.requests.iter().zip(&mut self.served).enumerate() {
            if wanted.get(number) != Some(&true) {
                continue;
            }
            served.matches = served.matches.saturating_add(1);
            match &request.file {
                Some(_) if self.job.archive => {
                    let content = binary.content(index)?;
                    let kept = Input::set_aside(&self.job.input, content.as_slice().bytes());
                    let name = region.member.map_or_else(|| self.job.identifier(), <[u8]>::to_vec);
                    served.members.push((name, kept.with_path(&self.job.input)?));
                }
                Some(path) => {
                    let output = served.last.insert(Output::stage(path)?);
                    binary.extract(&mut [(index, output)], &mut Meter::silent())?;
                }
                None => by_name.push(number),
            }
        }
        let Some(image) = binary.entries.get(index).and_then(|entry| entry.image.as_deref()) else { return Ok(()) };
        if by_name.is_empty() {
            self.seen = self.seen.saturating_add(1);
            return Ok(());
        }
        let content = binary.content(index)?;
        each_leaf(image, content.as_slice(), NESTED_MAX, &mut |image, content| {
            self.seen = self.seen.saturating_add(1);
            by_name.iter().try_for_each(|&number| self.stage_by_name(number, image, content))
        })
    }

    /// Stages an image under a generated name. As in LLVM numbers count within a request; one that another request has
    /// given to another image is left out.
    fn stage_by_name(&mut self, request: usize, image: &ImageInfo, content: Slice<'_>) -> Result<()> {
        let Some(served) = self.served.get_mut(request) else { return Err(Error::Internal("no such request")) };
        let name = loop {
            let name = generated_name(self.job.input.as_os_str().as_bytes(), image, served.named);
            served.named = served.named.saturating_add(1);
            match self.taken.get(&name) {
                None => break name,
                Some(&owner) if owner == self.seen => return Ok(()),
                Some(_) => {}
            }
        };
        let mut output = Output::stage(name.as_ref())?;
        output.copy(content)?;
        self.outputs.push(output);
        self.taken.insert(name.clone(), self.seen);
        self.names.push(name);
        Ok(())
    }

    /// Puts all in place and returns the generated names.
    fn finish(mut self, observer: &mut Observer<'_>) -> Result<Vec<OsString>> {
        if self.present.is_empty() {
            observer(Event::NoMatch { input: self.job.input.clone(), request: None, present: Vec::new() });
        }
        let mut by_path: HashMap<PathBuf, Output> = HashMap::new();
        for (request, served) in self.requests.iter().zip(self.served) {
            if served.matches == 0 && !self.present.is_empty() {
                let (input, arguments) = (self.job.input.clone(), Some(request.arguments.clone()));
                observer(Event::NoMatch { input, request: arguments, present: self.present.clone() });
            }
            let Some(path) = request.file.as_ref().filter(|_| served.matches > 0) else { continue };
            let output = match served.last {
                Some(output) => output,
                None => write_archive(path, &served.members, observer)?,
            };
            let replaced = by_path.insert(path.clone(), output).is_some();
            if replaced || (served.matches > 1 && !self.job.archive) {
                observer(Event::SeveralMatches { file: path.clone() });
            }
        }
        self.outputs.extend(by_path.into_values());
        output::commit(self.outputs)?;
        Ok(self.names)
    }
}

impl Unpackage {
    /// What LLVM calls the bytes of the input, and with them the members of an archive.
    fn identifier(&self) -> Vec<u8> {
        let path = self.input.as_os_str().as_bytes();
        if path == b"-" { b"<stdin>".to_vec() } else { path.to_vec() }
    }
}

fn write_archive(path: &std::path::Path, members: &[(Vec<u8>, Input)], observer: &mut Observer<'_>) -> Result<Output> {
    let members: Vec<NewMember<'_>> =
        members.iter().map(|(name, input)| NewMember { name: name.clone(), content: input.as_slice() }).collect();
    let mut output = Output::stage(path)?;
    archive::write(&members, &mut output, &mut |name, reason| {
        observer(Event::NotIndexed { name: name.to_owned(), reason: reason.to_owned() });
    })?;
    Ok(output)
}

/// Takes the offload binaries that make up `data`, one by one.
fn each_binary(data: Slice<'_>, inflate: Inflate, take: &mut dyn FnMut(&Bundle<'_>) -> Result<()>) -> Result<()> {
    let container = OffloadBinary::default();
    let mut binaries = Bundles::new(data, &container, inflate);
    while let Some(binary) = binaries.next().transpose()? {
        take(&binary)?;
    }
    match binaries.stopped_at() {
        None => Ok(()),
        Some(offset) => {
            let what = "neither an offload binary nor zeros up to the end".to_owned();
            Err(Error::malformed(data.path(), Malformed::Object { what, offset }))
        }
    }
}

/// Takes an image, or, if it is made of offload binaries again, their images.
fn each_leaf(
    image: &ImageInfo,
    content: Slice<'_>,
    depth: u32,
    take: &mut dyn FnMut(&ImageInfo, Slice<'_>) -> Result<()>,
) -> Result<()> {
    if !content.bytes().starts_with(&offload_binary::MAGIC) {
        return take(image, content);
    }
    let Some(depth) = depth.checked_sub(1) else {
        let what = format!("an offload binary lies in more than {NESTED_MAX} others");
        return Err(Error::malformed(content.path(), Malformed::Object { what, offset: content.offset() }));
    };
    each_binary(content, Inflate::Whole, &mut |binary| {
        for (index, Entry { image, .. }) in binary.entries.iter().enumerate() {
            if let Some(image) = image.as_deref() {
                each_leaf(image, binary.content(index)?.as_slice(), depth, take)?;
            }
        }
        Ok(())
    })
}

/// The name of a file for an image. It is never a path, whatever the image says of itself.
fn generated_name(input: &[u8], image: &ImageInfo, number: usize) -> OsString {
    let FileName { stem, .. } = FileName::of(input);
    let mut name = [stem, b"-", image.triple()].concat();
    if !image.arch().is_empty() {
        name.extend([b"-", image.arch()].concat());
    }
    name.extend(format!(".{number}.{}", image.image_kind.extension()).into_bytes());
    name.iter_mut().filter(|byte| **byte == b'/' || byte.is_ascii_control()).for_each(|byte| *byte = b'_');
    OsString::from_vec(name)
}

/// An image as it would be asked for.
fn describe(image: &ImageInfo, member: Option<&[u8]>) -> String {
    let kind = match (image.offload_kind(), image.kind_number) {
        (Some(kind), _) => kind.name().to_owned(),
        (None, 0) => "none".to_owned(),
        (None, number) => number.to_string(),
    };
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    let member = member.map_or(String::new(), |member| format!(",member={}", text(member)));
    format!("kind={kind},triple={},arch={}{member}", text(image.triple()), text(image.arch()))
}

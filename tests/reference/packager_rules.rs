//! The intended differences of the packager. Each rule removes its difference from the outcomes of both tools; the rest
//! must be equal.

use std::collections::BTreeMap;

use super::harness::{Case, Outcome, find};
use super::offload::{self, Image};

/// The name of the packager.
pub const NAME: &str = "llvm-offload-binary";

/// An intended difference.
struct Rule {
    name: &'static str,
    #[expect(dead_code, reason = "for whoever reads the table")]
    reason: &'static str,
    /// Removes the difference from LLVM's outcome (first) and ours (second).
    evens_out: fn(&Scene<'_>, &mut Outcome, &mut Outcome),
}

#[rustfmt::skip]
const RULES: &[Rule] = &[
    Rule { name: "broken offload binary", evens_out: broken,
        reason: "LLVM crashes, or reads what the file does not hold; here it is an error that says where" },
    Rule { name: "reason of an error", evens_out: reason,
        reason: "LLVM's words say neither which file nor what is wrong with it; a note below them does" },
    Rule { name: "an error leaves no file", evens_out: nothing_left,
        reason: "LLVM leaves the files that it wrote before the error" },
    Rule { name: "names are no paths", evens_out: safe_names,
        reason: "what an image says of itself must not choose a directory or reach a terminal" },
    Rule { name: "generated names that collide", evens_out: collisions,
        reason: "in LLVM each request counts from 0 and overwrites the files of the one before" },
    Rule { name: "older number of HIP", evens_out: old_hip,
        reason: "LLVM up to 20 wrote 3, which LLVM 22 takes for no kind" },
    Rule { name: "zeros between offload binaries", evens_out: zeros,
        reason: "a linker aligns what it merges; LLVM takes the zeros for a broken file" },
    Rule { name: "offload binaries of versions 2 and 3", evens_out: versions,
        reason: "LLVM 22 refuses what LLVM 23 and later write" },
    Rule { name: "offload binaries in PE files", evens_out: portable_executable,
        reason: "LLVM 22 finds nothing in a linked program for Windows" },
    Rule { name: "order of strings", evens_out: string_order,
        reason: "LLVM writes the strings of an image in the order of a hash table; readers look for keys" },
];

/// Returns the names of the rules that make the outcomes equal, or an empty list if they remain different.
pub fn explain(case: &Case, theirs: &Outcome, ours: &Outcome) -> Vec<&'static str> {
    let scene = Scene::of(case);
    let (mut theirs, mut ours) = (theirs.clone(), ours.clone());
    let mut names = Vec::new();
    for rule in RULES {
        let before = (theirs.clone(), ours.clone());
        (rule.evens_out)(&scene, &mut theirs, &mut ours);
        if (&theirs, &ours) != (&before.0, &before.1) {
            names.push(rule.name);
        }
    }
    if theirs == ours { names } else { vec![] }
}

/// An option `--image`. The values of repeated keys are joined.
#[derive(Clone, Debug, Default)]
pub struct Request {
    pub file: Option<String>,
    pub filters: Vec<(String, String)>,
}

impl Request {
    fn parse(typed: &str) -> Self {
        let mut pairs: Vec<(String, String)> = Vec::new();
        for argument in typed.split(',') {
            let (key, value) = argument.split_once('=').unwrap_or((argument, ""));
            match pairs.iter_mut().find(|(known, _)| known == key) {
                Some((_, values)) => *values = format!("{values},{value}"),
                None => pairs.push((key.to_owned(), value.to_owned())),
            }
        }
        let file = pairs.iter().find(|(key, _)| key == "file").map(|(_, value)| value.clone());
        Self { file, filters: pairs.into_iter().filter(|(key, _)| key != "file").collect() }
    }

    pub fn wants(&self, image: &Image) -> bool {
        self.filters.iter().all(|(key, value)| match (key.as_str(), value.as_str()) {
            ("kind", "openmp") => image.kind == 1,
            ("kind", "cuda") => image.kind == 2,
            ("kind", "hip") => matches!(image.kind, 3 | 4),
            ("kind", "sycl") => image.kind == 8,
            ("kind", _) => image.kind == 0,
            (key, value) => image.string(key) == value,
        })
    }
}

/// A case, with the contents of its input.
struct Scene<'c> {
    case: &'c Case,
    input: &'c [u8],
    /// `None` if the input is not a valid file of offload binaries.
    images: Option<Vec<Image>>,
    requests: Vec<Request>,
}

impl<'c> Scene<'c> {
    fn of(case: &'c Case) -> Self {
        let named = case.args.iter().find_map(|arg| case.files.iter().find(|(name, _)| name == arg));
        let input = named.map_or(&[][..], |(_, data)| data);
        let typed = case.args.iter().filter_map(|arg| arg.strip_prefix("--image="));
        let requests = typed.map(Request::parse).collect();
        Self { case, input, images: offload::read(input), requests }
    }

    /// The new and changed files.
    fn written(&self, outcome: &Outcome) -> BTreeMap<String, Vec<u8>> {
        let old = |name: &String, content: &Vec<u8>| {
            self.case.files.iter().any(|(known, old)| known == name && old.as_ref() == content.as_slice())
        };
        let files = outcome.files.iter().filter(|(name, content)| !old(name, content));
        files.map(|(name, content)| (name.clone(), content.clone())).collect()
    }

    fn found(&self) -> &[Image] {
        self.images.as_deref().unwrap_or_default()
    }

    /// The expected output files of our tool.
    fn wanted(&self) -> Option<BTreeMap<String, Vec<u8>>> {
        let images = self.images.as_ref()?;
        let mut files = BTreeMap::new();
        let mut owners: BTreeMap<String, usize> = BTreeMap::new();
        let mut numbers = vec![0; self.requests.len()];
        for (index, image) in images.iter().enumerate() {
            for (request, number) in self.requests.iter().zip(&mut numbers).filter(|(request, _)| request.wants(image))
            {
                if let Some(file) = &request.file {
                    files.insert(file.clone(), image.content.clone());
                    continue;
                }
                let name = loop {
                    let name = self.generated_name(image, *number);
                    *number += 1;
                    match owners.get(&name) {
                        None => break Some(name),
                        Some(&owner) if owner == index => break None,
                        Some(_) => {}
                    }
                };
                if let Some(name) = name {
                    owners.insert(name.clone(), index);
                    files.insert(name, image.content.clone());
                }
            }
        }
        Some(files)
    }

    fn generated_name(&self, image: &Image, number: usize) -> String {
        let path = self.case.args.iter().find(|arg| self.case.files.iter().any(|(name, _)| name == *arg)).unwrap();
        let name = path.rsplit('/').next().unwrap();
        let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
        let extension = ["", "o", "bc", "cubin", "fatbin", "s"];
        let extension = extension.get(usize::from(image.image_kind)).copied().unwrap_or_default();
        let name = format!("{stem}-{}-{}.{number}.{extension}", image.string("triple"), image.string("arch"));
        name.replace(|c: char| c == '/' || c.is_ascii_control(), "_")
    }

    /// Replaces LLVM's files with ours if ours are as expected.
    fn right(&self, theirs: &mut Outcome, ours: &Outcome) {
        if ours.status == 0 && self.wanted().is_some_and(|wanted| wanted == self.written(ours)) {
            theirs.status = 0;
            theirs.files = ours.files.clone();
            theirs.stderr = ours.stderr.clone();
        }
    }
}

fn lines_without(outcome: &mut Outcome, drops: impl Fn(&str) -> bool) {
    let text = outcome.stderr_text();
    let kept: String = text.split_inclusive('\n').filter(|line| !drops(line)).collect();
    if kept != text {
        outcome.stderr = kept.into_bytes();
    }
}

/// Replaces LLVM's offload binaries with ours if they have the same length and images, except for the order of strings.
/// Clang's own keys have one order in both tools.
fn string_order(scene: &Scene<'_>, theirs: &mut Outcome, ours: &mut Outcome) {
    const KEYS_OF_CLANG: [&[u8]; 3] = [b"arch", b"feature", b"triple"];
    let sorted = |data: &[u8]| {
        let mut images = offload::read(data)?;
        images.iter_mut().for_each(|image| image.strings.sort());
        Some(images)
    };
    let has_other_keys = |images: &[Image]| {
        images.iter().flat_map(|image| &image.strings).any(|(key, _)| !KEYS_OF_CLANG.contains(&key.as_slice()))
    };
    for (name, data) in scene.written(ours) {
        let Some(other) = theirs.files.get_mut(&name) else { continue };
        let images = sorted(&data);
        let is_same = other.len() == data.len() && images == sorted(other);
        if is_same && images.is_some_and(|images| has_other_keys(&images)) {
            *other = data;
        }
    }
}

fn is_note(line: &str) -> bool {
    line.starts_with(&format!("{NAME}: note: "))
}

fn broken(scene: &Scene<'_>, theirs: &mut Outcome, ours: &mut Outcome) {
    let error = ours.status == 1 && ours.stderr_text().contains(" at offset ");
    let mut stderr = ours.clone();
    lines_without(&mut stderr, is_note);
    if error && scene.images.is_none() && (theirs.status != 1 || theirs.stderr != stderr.stderr) {
        *theirs = ours.clone();
    }
}

fn reason(_: &Scene<'_>, theirs: &mut Outcome, ours: &mut Outcome) {
    if theirs.status == 1 && ours.status == 1 {
        // LLVM's text about members of archives, and about archives, is in the note.
        let of_member =
            ours.stderr_text().lines().any(|line| theirs.stderr_text() == line.replace("note:", "error:") + "\n");
        let of_archive = theirs.stderr_text().contains("truncated or malformed archive")
            && ours.stderr_text().contains(" offset ")
            && ours.stderr_text().contains("archive");
        if of_member || of_archive {
            theirs.stderr = ours.stderr.clone();
        }
        lines_without(theirs, is_note);
        lines_without(ours, is_note);
    }
}

fn nothing_left(scene: &Scene<'_>, theirs: &mut Outcome, ours: &mut Outcome) {
    if theirs.status == 1 && ours.status == 1 && scene.written(ours).is_empty() {
        theirs.files = ours.files.clone();
        let warning = |line: &str| line.contains("warning: Multiple inputs match");
        lines_without(theirs, warning);
        lines_without(ours, warning);
    }
}

fn renamed(outcome: &mut Outcome, rename: impl Fn(&str) -> String) {
    outcome.files = std::mem::take(&mut outcome.files).into_iter().map(|(name, data)| (rename(&name), data)).collect();
}

fn safe_names(scene: &Scene<'_>, theirs: &mut Outcome, ours: &mut Outcome) {
    // LLVM shows an invalid UTF-8 byte as the replacement character. Our tool does too, unless the byte is a control
    // character in text that is not UTF-8.
    let masked = |name: &str| name.replace(|c: char| c.is_ascii_control() || c == char::REPLACEMENT_CHARACTER, "_");
    renamed(theirs, |name| {
        let same = ours.files.keys().find(|our_name| masked(our_name) == masked(name));
        same.cloned().unwrap_or_else(|| masked(name))
    });
    let is_path = |image: &Image| image.string("triple").contains('/') || image.string("arch").contains('/');
    if scene.found().iter().any(is_path) {
        scene.right(theirs, ours);
    }
}

fn unnamed(scene: &Scene<'_>) -> usize {
    scene.requests.iter().filter(|request| request.file.is_none()).count()
}

fn collisions(scene: &Scene<'_>, theirs: &mut Outcome, ours: &mut Outcome) {
    if unnamed(scene) > 1 && theirs.status == 0 && theirs.files != ours.files {
        scene.right(theirs, ours);
    }
}

fn old_hip(scene: &Scene<'_>, theirs: &mut Outcome, ours: &mut Outcome) {
    if scene.found().iter().any(|image| image.kind == 3) && theirs.status == 0 && theirs.files != ours.files {
        scene.right(theirs, ours);
    }
}

fn refused(theirs: &Outcome) -> bool {
    theirs.status == 1 && theirs.stderr_text().contains("Invalid data was encountered while parsing the file")
}

fn zeros(scene: &Scene<'_>, theirs: &mut Outcome, ours: &mut Outcome) {
    let gap = [&[0; 16], offload::MAGIC].concat();
    if refused(theirs) && (find(scene.input, &gap).is_some() || scene.input.ends_with(&[0; 16])) {
        scene.right(theirs, ours);
    }
}

fn versions(scene: &Scene<'_>, theirs: &mut Outcome, ours: &mut Outcome) {
    if refused(theirs) && matches!(scene.input.get(4), Some(2 | 3)) {
        scene.right(theirs, ours);
    }
}

fn portable_executable(scene: &Scene<'_>, theirs: &mut Outcome, ours: &mut Outcome) {
    // The case specifies the expected files.
    if scene.input.starts_with(b"MZ") && scene.written(theirs).is_empty() && !scene.case.wanted.is_empty() {
        theirs.files = ours.files.clone();
    }
}

//! Runs the jobs on one file and checks that the results are plausible.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use memchr::memmem;
use offload_bundle::container::Entry;
use offload_bundle::container::binary::Binary;
use offload_bundle::container::object::Objects;
use offload_bundle::container::sequence::{Bundles, Inflate};
use offload_bundle::container::text::Text;
use offload_bundle::container::{Container, Limits};
use offload_bundle::id::EntryId;
use offload_bundle::io::Input;
use offload_bundle::llvm::{FileType, ImageRequest, List, Unbundle, UnbundleArchive, Unpackage};

use super::samples::{BESIDE, GFX906, HOST, Held, Reader, Sample};
use crate::machine::memory_directory;
use crate::measured::thread_time;
use crate::reference::formats;

/// The processor time that any file may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// More than any damaged file here inflates to, so that no time is lost with files that are rejected anyway.
const LIMITS: Limits = Limits::up_to(1 << 24);

/// The directory where one file after another is tried.
pub struct Lab {
    dir: tempfile::TempDir,
    /// The number of tried files.
    pub tried: usize,
    /// The time of the slowest file.
    pub slowest: Duration,
}

impl Lab {
    pub fn new() -> Self {
        let dir = memory_directory();
        fs::write(dir.path().join("beside"), formats::binary(&[(GFX906, BESIDE)], 1)).unwrap();
        Self { dir, tried: 0, slowest: Duration::ZERO }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Runs the jobs on a damaged form of a sample. Returns the size of the outputs.
    pub fn survive(&mut self, sample: &Sample, how: &str, data: Vec<u8>) -> usize {
        let started = thread_time();
        fs::write(self.path("in"), &data).unwrap();
        let found = match sample.reader {
            Reader::Bundler(file_type) => self.bundler(file_type, &data),
            Reader::Archive => self.archive(),
            Reader::Packager => self.packager(),
        };
        let took = thread_time() - started;
        assert!(took < PATIENCE, "{}, {how}: {took:?}", sample.name);
        for content in &found {
            assert!(
                is_held(content, &data, &sample.held),
                "{}, {how}: bytes from nowhere: {}",
                sample.name,
                content.escape_ascii()
            );
        }
        assert_eq!(fs::read_dir(self.dir.path()).unwrap().count(), 2, "{}, {how}: files are left", sample.name);
        self.tried += 1;
        self.slowest = self.slowest.max(took);
        found.len()
    }

    /// Reads and removes an output. After a failure there must be none.
    fn take(&self, succeeded: bool) -> Option<Vec<u8>> {
        let content = fs::read(self.path("out")).ok();
        assert_eq!(content.is_some(), succeeded, "an output in spite of a failure, or none");
        if content.is_some() {
            fs::remove_file(self.path("out")).unwrap();
        }
        content
    }

    fn list(&self, file_type: &str) {
        let (input, inflate) = (self.path("in"), Inflate::Whole);
        let mut job = List::new(input, FileType::from_name(file_type).unwrap());
        (job.inflate, job.limits) = (inflate, LIMITS);
        let mut listed = Vec::new();
        drop(job.run(&mut listed, &mut |_| {}));
        let obeyed = |c: char| c.is_control() && c != '\n';
        assert!(!String::from_utf8(listed).unwrap().contains(obeyed), "a control character is printed");
    }

    fn bundler(&self, file_type: &str, data: &[u8]) -> Vec<Vec<u8>> {
        self.list(file_type);
        let mut found = entries(file_type, data);
        for id in [GFX906, HOST] {
            let mut job = Unbundle::new(
                self.path("in"),
                FileType::from_name(file_type).unwrap(),
                vec![(EntryId::parse(id).unwrap(), self.path("out"))],
            );
            job.limits = LIMITS;
            let content = self.take(job.run(&mut |_| {}).is_ok());
            // The host of a fat object is reassembled, so its bytes are not one range of the file.
            found.extend(content.filter(|_| id != HOST || file_type != "o"));
        }
        found
    }

    fn archive(&self) -> Vec<Vec<u8>> {
        self.list("a");
        let mut job = UnbundleArchive::new(self.path("in"), vec![(EntryId::parse(GFX906).unwrap(), self.path("out"))]);
        (job.check, job.limits) = (true, LIMITS);
        self.take(job.run(&mut |_| {}).is_ok()).map_or(Vec::new(), |archive| members(&archive))
    }

    fn packager(&self) -> Vec<Vec<u8>> {
        let run = |archive: bool| {
            let mut request = ImageRequest::default();
            request.file = Some(self.path("out"));
            let mut job = Unpackage::new(self.path("in"), vec![request]);
            (job.archive, job.limits) = (archive, LIMITS);
            let done = job.run(&mut |_| {});
            self.take(done.is_ok() && self.path("out").exists())
        };
        let mut found = run(true).map_or(Vec::new(), |archive| members(&archive));
        found.extend(run(false));
        found
    }
}

/// The IDs and contents that the reader of a format finds.
fn entries(file_type: &str, data: &[u8]) -> Vec<Vec<u8>> {
    let container: Box<dyn Container<Entry = Entry>> = match FileType::from_name(file_type).unwrap() {
        FileType::Text(comment) => Box::new(Text { comment }),
        FileType::Object | FileType::Archive => Box::new(Objects::default()),
        FileType::Binary => Box::new(Binary::default()),
    };
    let input = Input::from_bytes("in", data.to_vec());
    let bundles = Bundles::new(input.as_slice(), &*container, Inflate::Whole).with_limits(LIMITS);
    let entries = bundles.map_while(Result::ok).flat_map(|bundle| bundle.entries);
    entries.map(|entry| entry.id).collect()
}

fn members(archive: &[u8]) -> Vec<Vec<u8>> {
    let mut archive = ar::Archive::new(archive);
    let mut found = Vec::new();
    while let Some(member) = archive.next_entry() {
        let mut member = member.unwrap();
        let name = member.header().identifier();
        assert!(!name.iter().any(u8::is_ascii_control), "a control character in a name: {}", name.escape_ascii());
        let mut content = Vec::new();
        std::io::copy(&mut member, &mut content).unwrap();
        found.push(content);
    }
    found
}

fn is_held(content: &[u8], data: &[u8], held: &Held) -> bool {
    let within = |whole: &[u8]| content.is_empty() || memmem::find(whole, content).is_some();
    match held {
        Held::InFile => within(data),
        Held::Inflated(inflated) => within(data) || within(inflated),
        Held::UpTo(most) => content.len() <= *most,
    }
}

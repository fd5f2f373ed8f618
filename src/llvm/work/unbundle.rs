//! Unbundles selected code objects from one file.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::requests::Requests;
use super::{FileType, report_if_inflated, report_if_plain};
use crate::base::error::{Error, Result, WithPath};
use crate::base::id::{EntryId, OffloadKind, Rules};
use crate::base::io::input::{Accept, Input};
use crate::base::io::output::{self, Output};
use crate::base::io::piece::Sink;
use crate::llvm::container::object::FatObject;
use crate::llvm::container::sequence::{Bundle, Bundles, Inflate};
use crate::llvm::container::{Limits, compressed};
use crate::llvm::event::Observer;
use crate::llvm::work::open;

/// Unbundles code objects.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Unbundle {
    /// The file to read.
    pub input: PathBuf,
    /// The type of the file.
    pub file_type: FileType,
    /// The requested entries, and the output for each.
    pub requests: Vec<(EntryId, PathBuf)>,
    /// The rules of compatibility.
    pub rules: Rules,
    /// Whether entries may be missing: a request that no entry serves then gets an empty file. For a host, the code may
    /// be outside the entries: a file without a bundle is copied, and a fat object without the sections of its bundle.
    pub allow_missing: bool,
    /// How much of compressed bundles is inflated to find their entries.
    pub inflate: Inflate,
    /// Limits on the inflated size of the file.
    pub limits: Limits,
}

impl Unbundle {
    /// Unbundles by the rules of target IDs. Every request must be served.
    pub fn new(input: impl Into<PathBuf>, file_type: FileType, requests: Vec<(EntryId, PathBuf)>) -> Self {
        Self {
            input: input.into(),
            file_type,
            requests,
            rules: Rules::default(),
            allow_missing: false,
            inflate: Inflate::AsNeeded,
            limits: Limits::default(),
        }
    }

    /// Writes the code objects. Each request gets an entry of the first bundle that can serve it: the entry with its
    /// exact name, otherwise the first compatible one that serves no other request.
    ///
    /// # Errors
    /// Any [`Error`]. The kind is [`NotFound`](crate::ErrorKind::NotFound) for missing entries.
    pub fn run(&self, observer: &mut Observer<'_>) -> Result<()> {
        let input = open(&self.input, Accept::Any, self.limits.streamed)?;
        let outputs = self.stage(&input, observer);
        output::commit(input.unless_changed(outputs)?)
    }

    /// Writes the outputs of all requests, but does not put them in place. Stops at the bundle that serves the last
    /// open request, and fails if a request is not served and must be.
    fn stage(&self, input: &Input, observer: &mut Observer<'_>) -> Result<Vec<Output>> {
        report_if_plain(input.as_slice(), observer);
        if self.file_type == FileType::Archive {
            return Err(Error::usage("an archive is taken apart by UnbundleArchive"));
        }
        let container = self.file_type.container();
        let mut outputs: Vec<Option<Output>> = self.requests.iter().map(|_| None).collect();
        let mut has_bundle = false;
        let mut requests = Requests::new(&self.requests, self.rules);
        let mut bundles = Bundles::new(input.as_slice(), &*container, self.inflate).with_limits(self.limits);
        while !requests.are_served()
            && let Some(bundle) = bundles.next().transpose()?
        {
            // A compressed file that holds something else than a bundle comes as a bundle without bytes.
            let is_real_bundle = bundle.inflated_len > 0;
            has_bundle |= is_real_bundle;
            report_if_inflated(&bundle, observer);
            self.stage_entries(&bundle, &mut requests, &mut outputs, observer)?;
        }
        if !self.allow_missing {
            self.check_all_served(&outputs)?;
        }
        self.stage_unserved(input, has_bundle, outputs)
    }

    /// Fails if a request has no output, with an error that names the IDs in alphabetical order.
    fn check_all_served(&self, outputs: &[Option<Output>]) -> Result<()> {
        let mut missing = BTreeSet::new();
        for ((id, _), output) in self.requests.iter().zip(outputs) {
            if output.is_none() {
                missing.insert(id.to_string());
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        Err(Error::missing_entries(&missing.into_iter().collect::<Vec<_>>()))
    }

    /// Adds the outputs of the requests that no entry serves, and returns the outputs of all requests. `has_bundle`
    /// says whether the input holds a bundle. If no entry serves a host, each requested host gets the code that the
    /// file has outside its entries, if it has any. All others get empty files.
    fn stage_unserved(&self, input: &Input, has_bundle: bool, outputs: Vec<Option<Output>>) -> Result<Vec<Output>> {
        let is_host_served =
            self.requests.iter().zip(&outputs).any(|((id, _), output)| is_host(id) && output.is_some());
        let mut complete = Vec::with_capacity(self.requests.len());
        for ((id, path), output) in self.requests.iter().zip(outputs) {
            if let Some(output) = output {
                complete.push(output);
                continue;
            }
            let mut output = Output::stage(path)?;
            if is_host(id) && !is_host_served {
                self.copy_host(input, has_bundle, &mut output)?;
            }
            complete.push(output);
        }
        Ok(complete)
    }

    /// Copies the host's code from outside the entries: all of a file without a bundle, which is the host's own, or a
    /// fat object without the sections of its bundle. Copies nothing of any other file.
    fn copy_host(&self, input: &Input, has_bundle: bool, output: &mut Output) -> Result<()> {
        if has_bundle && self.file_type != FileType::Object {
            return Ok(());
        }
        // As in LLVM 22, compressed data that is not a bundle reaches the output inflated.
        let inflated = match compressed::read(input.as_slice(), self.limits)? {
            Some(compressed) => Some(compressed.inflate_whole()?.0),
            None => None,
        };
        let whole = inflated.as_ref().unwrap_or(input).as_slice();
        if !has_bundle {
            return output.copy(whole);
        }
        let host = FatObject::host(whole.bytes(), whole.offset()).with_path(whole.path())?;
        let Some(host) = host else { return Ok(()) };
        // The host's object is read like a bundle with one entry.
        const ONLY_ENTRY: usize = 0;
        Bundle::plain(whole, host).extract(&mut [(ONLY_ENTRY, output)])
    }

    /// Stages the code objects of the entries of the bundle that serve an open request.
    fn stage_entries(
        &self,
        bundle: &Bundle<'_>,
        requests: &mut Requests<'_>,
        outputs: &mut [Option<Output>],
        observer: &mut Observer<'_>,
    ) -> Result<()> {
        let candidates = requests.candidates(&bundle.entries, observer);
        let mut assigned = requests.assign(&candidates);
        // Outputs are staged in the order of the requests, so the first one that cannot be opened is reported.
        assigned.sort_unstable_by_key(|(request, _)| *request);
        let mut staged = Vec::with_capacity(assigned.len());
        for (request, candidate) in &assigned {
            let (id, path) = self.requests.get(*request).ok_or_else(|| Error::internal("no such request"))?;
            candidate.report_missing_processor(id, observer);
            staged.push(Output::stage(path)?);
        }
        // Extraction also inflates the bundle and checks its hash. Without a code object to write, that matters only if
        // missing entries become empty files: a broken bundle must not look like one without the entry.
        if staged.is_empty() && !self.allow_missing {
            return Ok(());
        }
        let entries = assigned.iter().map(|(_, candidate)| candidate.index);
        let mut wanted: Vec<(usize, &mut Output)> = entries.zip(&mut staged).collect();
        bundle.extract(&mut wanted)?;
        for ((request, _), new) in assigned.into_iter().zip(staged) {
            if let Some(output) = outputs.get_mut(request) {
                *output = Some(new);
            }
        }
        Ok(())
    }
}

fn is_host(id: &EntryId) -> bool {
    id.kind() == OffloadKind::Host
}

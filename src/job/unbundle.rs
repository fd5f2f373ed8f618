//! Unbundles selected code objects from one file.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::requests::Requests;
use super::{Event, FileType, Observer, observe_inflated, observe_plain, open};
use crate::container::sequence::{self, Bundles, Inflate};
use crate::container::{Limits, compressed};
use crate::error::{Error, Result};
use crate::id::{EntryId, OffloadKind, Rules};
use crate::io::input::{Accept, Input};
use crate::io::meter::Meter;
use crate::io::output::{self, Output};
use crate::io::piece::Sink;

/// Unbundles code objects.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Unbundle {
    /// The file to read.
    pub input: PathBuf,
    /// Its type.
    pub file_type: FileType,
    /// The requested entries, and the output for each.
    pub requests: Vec<(EntryId, PathBuf)>,
    /// The rules of compatibility.
    pub rules: Rules,
    /// Whether entries may be missing: a request that no entry serves then gets an empty file, and a file without a
    /// bundle is treated as the host's code object.
    pub allow_missing: bool,
    /// Whether to report each comparison of an entry with a request as [`Event::Compared`].
    pub explain: bool,
    /// The extent to which compressed bundles are inflated.
    pub inflate: Inflate,
    /// Limits on the inflated size of the file.
    pub limits: Limits,
}

/// The output of each request that an entry serves.
type Served = Vec<Option<Output>>;

impl Unbundle {
    /// Unbundles by the rules of target IDs. Every request must be served; events that LLVM does not report are not
    /// reported.
    pub fn new(input: impl Into<PathBuf>, file_type: FileType, requests: Vec<(EntryId, PathBuf)>) -> Self {
        Self {
            input: input.into(),
            file_type,
            requests,
            rules: Rules::default(),
            allow_missing: false,
            explain: false,
            inflate: Inflate::AsNeeded,
            limits: Limits::default(),
        }
    }

    /// Writes the code objects. Each request gets an entry of the first bundle that can serve it: the entry with its
    /// exact name, otherwise the first compatible one that is not taken.
    ///
    /// # Errors
    /// Any [`Error`], including [`Error::MissingEntries`]. All outputs are then unchanged.
    pub fn run(&self, observer: &mut Observer<'_>) -> Result<()> {
        self.run_on(&open(&self.input, Accept::Any, self.limits.streamed)?, observer)
    }

    /// Writes the code objects of an open input.
    ///
    /// # Errors
    /// As [`Unbundle::run`].
    pub fn run_on(&self, input: &Input, observer: &mut Observer<'_>) -> Result<()> {
        let staged = self.stage(input, observer);
        let complete = staged.and_then(|(served, is_bundle)| self.complete(input, served, is_bundle));
        output::commit(input.vouch_for(complete)?)
    }

    /// Does the work of [`Unbundle::run_on`] without putting any output in place. Returns for each request whether an
    /// entry serves it.
    ///
    /// # Errors
    /// As [`Unbundle::run`].
    pub fn rehearse(&self, input: &Input, observer: &mut Observer<'_>) -> Result<Vec<bool>> {
        let (served, _) = input.vouch_for(self.stage(input, observer))?;
        Ok(served.iter().map(Option::is_some).collect())
    }

    /// Writes the code objects that serve the requests, but does not put them in place. Also returns whether the file
    /// holds a bundle.
    fn stage(&self, input: &Input, observer: &mut Observer<'_>) -> Result<(Served, bool)> {
        observe_plain(input.as_slice(), observer);
        if self.file_type.is_archive() {
            return Err(Error::Usage("an archive is taken apart by UnbundleArchive or UnbundleObjects"));
        }
        let container = self.file_type.container();
        let mut outputs: Served = self.requests.iter().map(|_| None).collect();
        let mut requests = Requests::new(&self.requests, self.rules);
        let mut bundles = Bundles::new(input.as_slice(), &*container, self.inflate).with_limits(self.limits);
        let mut is_bundle = false;
        while !requests.are_served()
            && let Some(bundle) = bundles.next().transpose()?
        {
            // A compressed container around something that is not a bundle counts as a bundle without bytes.
            is_bundle |= bundle.inflated_len > 0;
            observe_inflated(&bundle, observer);
            self.serve(&bundle, &mut requests, &mut outputs, observer)?;
        }
        let open = self.requests.iter().zip(&outputs).filter(|(_, output)| output.is_none());
        let missing: BTreeSet<String> = open.map(|((id, _), _)| id.to_string()).collect();
        if !missing.is_empty() && !self.allow_missing {
            return Err(Error::MissingEntries(missing.into_iter().collect()));
        }
        Ok((outputs, is_bundle))
    }

    /// Adds outputs for the requests that no entry serves.
    fn complete(&self, input: &Input, served: Served, is_bundle: bool) -> Result<Vec<Output>> {
        let complete = |((id, path), output): (&(EntryId, PathBuf), Option<Output>)| {
            if let Some(output) = output {
                return Ok(output);
            }
            let mut empty = Output::stage(path)?;
            if !is_bundle && id.kind() == OffloadKind::Host {
                match compressed::read(input.as_slice(), self.limits)? {
                    Some(compressed) => empty.copy(compressed.inflate_whole()?.0.as_slice())?,
                    None => empty.copy(input.as_slice())?,
                }
            }
            Ok(empty)
        };
        self.requests.iter().zip(served).map(complete).collect()
    }

    /// Writes the code objects of all entries of the bundle that serve an open request.
    fn serve(
        &self,
        bundle: &sequence::Bundle<'_>,
        requests: &mut Requests<'_>,
        outputs: &mut [Option<Output>],
        observer: &mut Observer<'_>,
    ) -> Result<()> {
        let candidates = requests.candidates(&bundle.entries, observer);
        if self.explain {
            requests.explain(&candidates, observer);
        }
        let mut served = requests.assign(&candidates);
        served.sort_unstable_by_key(|(request, _)| *request);
        let mut staged = Vec::with_capacity(served.len());
        for (request, candidate) in &served {
            let (id, path) = self.requests.get(*request).ok_or(Error::Internal("no such request"))?;
            candidate.report_guess(id, observer);
            staged.push(Output::stage(path)?);
        }
        let entries = served.iter().map(|(_, candidate)| candidate.index);
        let mut wanted: Vec<(usize, &mut Output)> = entries.zip(&mut staged).collect();
        // Missing entries may be replaced by empty files only if the rest of the file is valid.
        if wanted.is_empty() && !self.allow_missing {
            return Ok(());
        }
        let mut tell = |done, total| observer(Event::Progress { done, total });
        bundle.extract(&mut wanted, &mut Meter::new(&mut tell))?;
        for ((request, _), new) in served.into_iter().zip(staged) {
            if let Some(output) = outputs.get_mut(request) {
                *output = Some(new);
            }
        }
        Ok(())
    }
}

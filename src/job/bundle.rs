//! Bundles several code objects into one file.

use std::num::NonZeroU32;
use std::path::PathBuf;

use super::{Event, FileType, Observer, open, target_symbols};
use crate::container::binary::Binary;
use crate::container::compressed;
use crate::container::object::{FatObject, Objects};
use crate::container::stream::Compression;
use crate::container::text::Text;
use crate::container::{Container, Member};
use crate::error::{Error, Result};
use crate::id::{EntryId, OffloadKind};
use crate::io::input::{self, Accept, Input};
use crate::io::meter::{Meter, emit};
use crate::io::output::{self, Manner, Output};
use crate::runtime::loadable;
use crate::scan::ContentKind;

const NO_ALIGNMENT: &str = "for the --bundle-align option: the alignment must be at least 1";

/// Bundles code objects.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BundleFiles {
    /// The code objects' entry IDs and files, in the order of the bundle.
    pub members: Vec<(EntryId, PathBuf)>,
    /// The file to write.
    pub output: PathBuf,
    /// The type of the files.
    pub file_type: FileType,
    /// The alignment of code objects in a binary bundle, in bytes. `None` is an error for a bundle that needs it: any
    /// bundle except a text bundle or a fat object.
    pub alignment: Option<NonZeroU32>,
    /// The compression, or `None` for none. A fat object is never compressed, because linkers read it.
    pub compression: Option<Compression>,
    /// The version of the compressed bundle's header. `None` selects the oldest version that can hold the sizes.
    pub compressed_version: Option<compressed::HeaderVersion>,
    /// Whether a fat object gets a section with the names of the symbols of its code objects, for DPC++'s linker. `None`
    /// is for what DPC++ and LLVM do: only if one of the IDs is [only of DPC++](EntryId::is_only_of_dpcpp).
    pub target_symbols: Option<bool>,
}

impl BundleFiles {
    /// A bundle without compression and without alignment of code objects.
    pub fn new(members: Vec<(EntryId, PathBuf)>, output: impl Into<PathBuf>, file_type: FileType) -> Self {
        let alignment = Some(NonZeroU32::MIN);
        let (compression, compressed_version, target_symbols) = (None, None, None);
        let output = output.into();
        Self { members, output, file_type, alignment, compression, compressed_version, target_symbols }
    }

    /// Writes the bundle.
    ///
    /// # Errors
    /// Any [`Error`]. The output is then unchanged.
    pub fn run(&self, observer: &mut Observer<'_>) -> Result<()> {
        let inputs = self.members.iter().map(|(_, path)| open(path, Accept::Any, None)).collect::<Result<Vec<_>>>()?;
        self.run_on(&inputs, observer)
    }

    /// Writes the bundle from open inputs: one for each member, in the same order.
    ///
    /// # Errors
    /// As [`BundleFiles::run`].
    pub fn run_on(&self, inputs: &[Input], observer: &mut Observer<'_>) -> Result<()> {
        let staged = self.stage(inputs, observer);
        output::commit(vec![input::vouch_for(inputs, staged)?])
    }

    /// Writes the bundle, but does not put it in place.
    fn stage(&self, inputs: &[Input], observer: &mut Observer<'_>) -> Result<Output> {
        let ids = self.recorded_ids();
        let members = ids.into_iter().zip(inputs).map(|(id, input)| Member { id, content: input.as_slice() });
        let mut members: Vec<Member<'_>> = members.collect();
        let host = self.members.iter().position(|(id, _)| id.kind() == OffloadKind::Host);
        let fat_host = host.filter(|_| self.file_type == FileType::Object && Objects::is_fat(&members));
        let new_host = match fat_host.filter(|_| self.target_symbols.unwrap_or_else(|| self.is_of_dpcpp())) {
            Some(host) => self.host_with_symbols(&members, host, observer)?,
            None => None,
        };
        let replaced = fat_host.and_then(|host| members.get_mut(host)).zip(new_host.as_ref());
        if let Some((host, new)) = replaced {
            host.content = new.as_slice();
        }
        let plan = match self.file_type {
            FileType::Archive | FileType::ArchiveOfObjects(_) => {
                return Err(Error::Usage("Archive files are only supported for unbundling"));
            }
            FileType::Text(comment) => Text { comment }.plan(&members)?,
            FileType::Object if fat_host.is_some() => FatObject.plan(&members)?,
            FileType::Object | FileType::Binary => {
                let alignment = self.alignment.ok_or(Error::Usage(NO_ALIGNMENT))?;
                if self.file_type == FileType::Object && self.compression.is_none() {
                    self.check_loadable(&members, observer);
                }
                Binary { alignment }.plan(&members)?
            }
        };
        // A user who cannot read the host's object must not be able to read the fat object.
        let mode = fat_host.and_then(|host| inputs.get(host)?.mode());
        let mut output = Output::stage_as(&self.output, mode.map_or(Manner::Rewrite, Manner::WithMode))?;
        let mut tell = |done, total| observer(Event::Progress { done, total });
        let meter = &mut Meter::new(&mut tell);
        match self.compression.as_ref().filter(|_| fat_host.is_none()) {
            None => emit(&plan, &mut output, meter)?,
            Some(compression) => {
                let (version, to) = (self.compressed_version, &mut output.writer()?);
                let deflation = compressed::write_metered(&plan, compression, version, to, meter)?;
                observer(Event::Deflated(deflation));
            }
        }
        Ok(output)
    }

    /// Whether DPC++ makes such a bundle, and LLVM does not.
    fn is_of_dpcpp(&self) -> bool {
        self.members.iter().any(|(id, _)| id.is_only_of_dpcpp())
    }

    /// The host's object, given by its index, with the names of the symbols of the other members.
    fn host_with_symbols(
        &self,
        members: &[Member<'_>],
        host: usize,
        observer: &mut Observer<'_>,
    ) -> Result<Option<Input>> {
        let Some(object) = members.get(host) else { return Ok(None) };
        let ids = self.members.iter().map(|(id, _)| id).zip(members).enumerate();
        let others = ids.filter(|(index, _)| *index != host).map(|(_, other)| other);
        target_symbols::host_with_symbols(object.content, others, observer)
    }

    /// The IDs as they are recorded: as LLVM 22.1.8 writes them or, in bundles that it would refuse, as DPC++ does.
    pub fn recorded_ids(&self) -> Vec<String> {
        let is_of_dpcpp = self.is_of_dpcpp();
        let written = |(id, _): &(EntryId, PathBuf)| if is_of_dpcpp { id.as_of_dpcpp() } else { id.to_string() };
        self.members.iter().map(written).collect()
    }

    /// Reports that HIP's runtime will not find all entries of a plain bundle.
    fn check_loadable(&self, members: &[Member<'_>], observer: &mut Observer<'_>) {
        let Some(index) = loadable::first_lost(members.iter().map(|member| member.id.as_bytes())) else { return };
        let contents = members.iter().map(|member| Some(ContentKind::of(member.content.bytes())));
        let kinds = self.members.iter().map(|(id, _)| Some(id.kind()));
        if let Some((first, _)) = self.members.get(index)
            && loadable::is_for_runtime(kinds.zip(contents))
        {
            let entries = members.len();
            observer(Event::NotLoadable { first, lost: entries.saturating_sub(index), entries });
        }
    }
}

//! The JSON report of `diff`, described by `docs/diff.schema.json`.

use std::borrow::Cow;
use std::cell::RefCell;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use offload_bundle::job::{CodeObjectDiff, GpuDiff, KernelDiff, Loss};
use offload_bundle::kernels::Kernel;
use offload_bundle::runtime::Served;
use offload_bundle::scan::CodeObject;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::Compared;
use super::fail::failures;
use super::total::{Counts, DiffTotal, Presence};
use crate::cli::conditions::Condition;
use crate::cli::files::{Problems, WorkFile};
use crate::cli::kernels::report::mangled;
use crate::cli::print::json::{self, Each, Late};

/// The schema version. Adding a field does not change it.
const VERSION: u32 = 1;

#[derive(Serialize)]
struct DiffDocument<'r, F, C> {
    version: u32,
    old: Cow<'r, str>,
    new: Cow<'r, str>,
    files: F,
    #[serde(flatten)]
    total: &'r RefCell<DiffTotal>,
    failures: C,
    problems: &'r Problems,
}

/// Writes the document, each file as soon as it is compared. What follows is complete only after the last one.
pub(super) fn write(
    [old, new]: [&PathBuf; 2],
    files: &mut dyn Iterator<Item = Compared>,
    total: &RefCell<DiffTotal>,
    conditions: &[Condition],
    problems: &Problems,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let differs = |compared: &Compared| !compared.diff.code_objects.is_empty();
    let document = DiffDocument {
        version: VERSION,
        old: old.to_string_lossy(),
        new: new.to_string_lossy(),
        files: Each::new(files.filter(differs)),
        total,
        failures: Late(|| failures(conditions, &total.borrow())),
        problems,
    };
    json::write(&document, out)
}

impl Serialize for Compared {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Fields<'r> {
            path: Cow<'r, str>,
            old: Option<Cow<'r, str>>,
            new: Option<Cow<'r, str>>,
            code_objects: &'r [CodeObjectDiff],
            kernels: Vec<KernelFields<'r>>,
        }
        fn path(file: &WorkFile) -> Cow<'_, str> {
            file.path.to_string_lossy()
        }
        let Self { pair, diff, rows } = self;
        let fields = Fields {
            path: pair.path.to_string_lossy(),
            old: pair.old.as_ref().map(path),
            new: pair.new.as_ref().map(path),
            code_objects: &diff.code_objects,
            kernels: rows.iter().map(|(kernel, name)| KernelFields::new(kernel, name)).collect(),
        };
        fields.serialize(serializer)
    }
}

#[derive(Serialize)]
struct KernelFields<'r> {
    change: &'static str,
    target_id: &'r str,
    name: &'r str,
    mangled_name: String,
    #[serde(flatten, serialize_with = "CodeObject::serialize_location")]
    code_object: &'r CodeObject,
    spills_more: bool,
    old: Option<&'r Kernel>,
    new: Option<&'r Kernel>,
}

impl<'r> KernelFields<'r> {
    fn new(kernel: &'r KernelDiff, shown: &'r str) -> Self {
        Self {
            change: kernel.change().name(),
            target_id: &kernel.gpu,
            name: shown,
            mangled_name: mangled(&kernel.name),
            code_object: &kernel.code_object,
            spills_more: kernel.spills_more(),
            old: kernel.old.as_ref(),
            new: kernel.new.as_ref(),
        }
    }
}

#[derive(Serialize)]
struct Gpu<'r> {
    target_id: &'r str,
    presence: &'static str,
    #[serde(flatten)]
    numbers: &'r GpuDiff,
}

#[derive(Serialize)]
struct LostGpu<'r> {
    target_id: &'r str,
    library: &'r str,
    old: Served,
    new: Served,
}

#[derive(Serialize)]
struct Summary {
    code_objects: Counts,
    kernels: Counts,
    equal_by_hash: usize,
    equal_by_checksum: usize,
}

impl Serialize for DiffTotal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let presences = self.presences();
        let gpu = |(name, numbers)| {
            let name: &Arc<str> = name;
            let presence = presences.get(&**name).copied().unwrap_or(Presence::Both).name();
            Gpu { target_id: name, presence, numbers }
        };
        fn lost((library, Loss { gpu, old, new, .. }): &(String, Loss)) -> LostGpu<'_> {
            LostGpu { target_id: gpu, library, old: *old, new: *new }
        }
        let (GpuDiff { changed, added, removed, .. }, equal) = (self.all(), self.equal);
        let summary = Summary {
            code_objects: Counts { equal: equal.all, changed, added, removed },
            kernels: self.kernels,
            equal_by_hash: equal.by_hash,
            equal_by_checksum: equal.by_checksum,
        };
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("gpus", &self.gpus.iter().map(gpu).collect::<Vec<_>>())?;
        map.serialize_entry("losses", &self.losses.iter().map(lost).collect::<Vec<_>>())?;
        map.serialize_entry("summary", &summary)?;
        map.end()
    }
}

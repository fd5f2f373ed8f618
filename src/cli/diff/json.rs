//! The JSON report of `diff`, described by `docs/diff.schema.json`.

use std::cell::RefCell;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use offload_bundle::Result;
use offload_bundle::job::{CodeObjectDiff, GpuDiff, KernelDiff, Loss};
use offload_bundle::kernels::Kernel;
use offload_bundle::runtime::Served;
use offload_bundle::scan;
use serde::ser::Error as _;
use serde::{Serialize, Serializer};

use super::Compared;
use super::fail::{Condition, Failure, failures};
use super::kernel::{KernelChange, name};
use super::total::{DiffTotal, Presence};
use crate::cli::files::WorkFile;
use crate::cli::kernels::report::mangled;
use crate::cli::print::code_object::At;
use crate::cli::print::json::{self, Each, Late};

/// The schema version. Adding a field does not change it.
const VERSION: u32 = 1;

#[derive(Serialize)]
struct DiffDocument<F, G, L, S, C, P> {
    version: u32,
    old: String,
    new: String,
    files: F,
    gpus: G,
    losses: L,
    summary: S,
    failures: C,
    problems: P,
}

#[derive(Serialize)]
struct File<'r> {
    path: String,
    old: Option<String>,
    new: Option<String>,
    code_objects: Vec<CodeObjectReport<'r>>,
    kernels: Vec<KernelDiffFields<'r>>,
}

#[derive(Serialize)]
struct CodeObjectReport<'r> {
    change: &'static str,
    target_id: &'r str,
    old: Option<VersionReport>,
    new: Option<VersionReport>,
}

#[derive(Serialize)]
struct VersionReport {
    #[serde(flatten)]
    at: At,
    size: u64,
    stored_size: u64,
    uri: Option<String>,
}

#[derive(Serialize)]
struct KernelDiffFields<'r> {
    change: &'static str,
    target_id: &'r str,
    name: &'r str,
    mangled_name: String,
    #[serde(flatten)]
    at: At,
    spills_more: bool,
    old: Option<&'r Kernel>,
    new: Option<&'r Kernel>,
}

#[derive(Serialize)]
struct GpuReport {
    target_id: String,
    presence: &'static str,
    #[serde(flatten)]
    numbers: GpuDiff,
}

#[derive(Serialize)]
struct LossReport {
    target_id: String,
    library: String,
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

#[derive(Serialize)]
struct Counts {
    equal: usize,
    changed: usize,
    added: usize,
    removed: usize,
}

/// Writes the document, each file as soon as it is compared. What follows is complete only after the last one.
pub(super) fn write(
    [old, new]: [&PathBuf; 2],
    files: &mut dyn Iterator<Item = Compared>,
    total: &RefCell<DiffTotal>,
    conditions: &[Condition],
    problems: &RefCell<Vec<String>>,
    out: &mut dyn Write,
) -> Result<()> {
    let differs = |compared: &Compared| !compared.diff.code_objects.is_empty();
    let document = DiffDocument {
        version: VERSION,
        old: lossy(old),
        new: lossy(new),
        files: Each::new(files.filter(differs)),
        gpus: Late(|| gpus(&total.borrow())),
        losses: Late(|| losses(&total.borrow())),
        summary: Late(|| summary(&total.borrow())),
        failures: Late(|| -> Vec<Failure> { failures(conditions, &total.borrow()) }),
        problems: Late(|| problems.borrow().clone()),
    };
    json::write(&document, out)
}

fn lossy(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

impl Serialize for Compared {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let path = |file: &Option<WorkFile>| file.as_ref().map(|file| lossy(&file.path));
        let (old, new) = (path(&self.pair.old), path(&self.pair.new));
        let code_objects = self
            .diff
            .code_objects
            .iter()
            .map(CodeObjectReport::new)
            .collect::<Result<_>>()
            .map_err(S::Error::custom)?;
        let kernels = self.rows.iter().map(|(kernel, name)| KernelDiffFields::new(kernel, name)).collect();
        File { path: lossy(&self.pair.path), old, new, code_objects, kernels }.serialize(serializer)
    }
}

impl<'r> CodeObjectReport<'r> {
    fn new(CodeObjectDiff { gpu, old, new, .. }: &'r CodeObjectDiff) -> Result<Self> {
        let change = KernelChange::of(old.as_ref(), new.as_ref()).name();
        let version =
            |code_object: &Option<Arc<scan::CodeObject>>| code_object.as_deref().map(VersionReport::new).transpose();
        Ok(Self { change, target_id: gpu, old: version(old)?, new: version(new)? })
    }
}

impl VersionReport {
    fn new(code_object: &scan::CodeObject) -> Result<Self> {
        Ok(Self {
            at: At::new(code_object),
            size: code_object.size,
            stored_size: code_object.stored(),
            uri: code_object.uri()?.map(|uri| uri.to_string()),
        })
    }
}

impl<'r> KernelDiffFields<'r> {
    fn new(kernel: &'r KernelDiff, shown: &'r str) -> Self {
        let (old, new) = (kernel.old.as_ref(), kernel.new.as_ref());
        Self {
            change: KernelChange::of(old, new).name(),
            target_id: &kernel.gpu,
            name: shown,
            mangled_name: mangled(name(kernel)),
            at: At::new(&kernel.from),
            spills_more: kernel.spills_more(),
            old,
            new,
        }
    }
}

fn gpus(total: &DiffTotal) -> Vec<GpuReport> {
    let presences = total.presences();
    let gpu = |(name, numbers): (&Arc<str>, &GpuDiff)| GpuReport {
        target_id: name.to_string(),
        presence: presences.get(&**name).copied().unwrap_or(Presence::Both).name(),
        numbers: *numbers,
    };
    total.gpus.iter().map(gpu).collect()
}

fn losses(total: &DiffTotal) -> Vec<LossReport> {
    let report = |(library, loss): &(String, Loss)| LossReport {
        target_id: loss.gpu.to_string(),
        library: library.clone(),
        old: loss.old,
        new: loss.new,
    };
    total.losses.iter().map(report).collect()
}

fn summary(total: &DiffTotal) -> Summary {
    let (all, kernels, equal) = (total.all(), total.kernels, total.equal);
    Summary {
        code_objects: Counts { equal: equal.all, changed: all.changed, added: all.added, removed: all.removed },
        kernels: Counts {
            equal: total.same_kernels,
            changed: kernels.changed,
            added: kernels.added,
            removed: kernels.removed,
        },
        equal_by_hash: equal.by_hash,
        equal_by_checksum: equal.by_checksum,
    }
}

//! Options that select code objects by patterns over bundle entry IDs and target IDs.

use std::path::PathBuf;
use std::sync::LazyLock;

use crate::beyond::inventory::kernel_names::{EXACT, KernelNames, plain};
use crate::beyond::inventory::pick::{Seen, pick};
use crate::beyond::inventory::request::{Comparison, Pattern, Request, Selection};
use crate::beyond::runtime::{Device, Named};
use clap::Args;

use super::kernels::demangle::Demangler;
use super::subcommand::heading;
use super::suggest;

/// The part of the long help that says how patterns match targets.
pub(super) const MATCHING: &str = "A target ID matches all code objects that can run on it: gfx90a:xnack+ also matches gfx90a, which \
    runs with any xnack setting. Without features, it matches every code object for that processor. The name of a product (MI300X, RTX 5090) \
    means its processor, and native the GPUs of this machine. As for `verify --expect`, sm_90+ptx means sm_90 and its PTX, compute_90, and ptx means PTX of any version.";

/// The patterns that an item of a comma list means: `sm_90+ptx` means `sm_90` and `compute_90`. The type has a name,
/// because `clap` would read `Vec<Vec<Pattern>>` as values grouped by occurrence of the option.
pub(super) type Patterns = Vec<Pattern>;

/// Parses an item of a comma list: a pattern, or the name of a product or series. `+ptx` after it adds a second
/// pattern, for the PTX of the same version.
pub(super) fn parse(text: &str) -> Result<Patterns, String> {
    let text = text.trim();
    if text.is_empty() {
        return Err("a name is missing; a list has commas and no spaces: gfx90a,gfx942".to_owned());
    }
    if let Some(native) = suggest::native_gpus(text) {
        let pattern = |device: &Device| Pattern::parse(device.name()).map_err(|error| error.reason().to_owned());
        return native?.iter().map(|device| Ok(pattern(device)?.typed_as(text))).collect();
    }
    let named = Named::of(text);
    let mut patterns = Vec::new();
    for target in &named.targets {
        let pattern = Pattern::parse(target).map_err(|error| error.reason().to_owned())?;
        patterns.push(match named.name {
            Some(name) => pattern.typed_as(name),
            None => pattern,
        });
    }
    Ok(patterns)
}

/// The short help of an option `--target`.
pub(super) const TARGETS: &str = "Target IDs or bundle entry IDs, with wildcards * ? [...], in a comma list";

/// Returns the long help of an option `--target`. `things` are the things that the subcommand lists or compares, such
/// as `kernels`, and `participle` says so, such as `listed`.
pub(super) fn targets(things: &str, participle: &str) -> String {
    format!(
        "Target IDs (gfx90a:xnack+) or bundle entry IDs (hip-amdgcn-amd-amdhsa--gfx90a), with the wildcards * ? and [...], in \
         a comma list. May be repeated. Each must match something; only {things} for a target that matches any of them are \
         {participle}. {MATCHING}"
    )
}

/// The option that compares names exactly.
#[derive(Clone, Debug, Args)]
pub(super) struct ExactOption {
    /// Match only the exact target ID or entry ID, not compatible ones.
    #[arg(long, help_heading = heading::SELECTION)]
    pub(super) exact: bool,
}

impl ExactOption {
    /// Returns the selection that some patterns make. Without patterns, it matches everything.
    pub(super) fn selection(&self, patterns: &[Patterns]) -> Selection {
        let mut selection = Selection::default();
        selection.targets = patterns.iter().flatten().cloned().collect();
        if self.exact {
            selection.comparison = Comparison::Exact;
        }
        selection
    }
}

/// Fails if a part of the selection matches nothing in any of the files, unless that is allowed. Does not fail either
/// if the files have problems and no code at all was found: the problems may be the reason. `seen` has the code objects
/// of the files.
pub(super) fn ensure_match(
    allow_none: bool,
    seen: &Seen,
    selection: &Selection,
    files: &[PathBuf],
    has_problems: bool,
) -> crate::base::error::Result<()> {
    let request = Request::new(selection);
    let picked = pick(seen, &request);
    if allow_none || (has_problems && picked.present().is_empty()) {
        return Ok(());
    }
    picked.ensure_all_match(files)
}

/// The part of the long help that says how options read the name of a kernel.
pub(super) const KERNEL_NAME: &str = "A NAME is a part of the name of a kernel, mangled or not, and its white space is ignored. With the \
    wildcards * ? and [...], it must match the whole name, unless the name of a kernel in the file contains it as it stands. \
    =NAME means only the kernel of exactly this name.";

/// Checks the value of an option that takes the name of a kernel, and returns it as typed. A value without a name, such
/// as `=`, is an error. [`typed_kernels`] reads the values later, all of them together.
pub(super) fn check_kernel_name(text: &str) -> Result<String, String> {
    if plain(text.strip_prefix(EXACT).unwrap_or(text)).is_empty() {
        return Err("a name is missing".to_owned());
    }
    Ok(text.to_owned())
}

/// Returns the kernels that the values of an option mean, or `None` if there are no values. [`check_kernel_name`] has
/// accepted each value.
pub(super) fn typed_kernels<'n>(names: impl IntoIterator<Item = &'n String>) -> Option<KernelNames> {
    let names = KernelNames::typed(names.into_iter().map(String::as_str), demangled);
    if names.names().is_empty() { None } else { Some(names) }
}

/// Returns the C++ name of a kernel that an option names, or `None` if the name is not mangled.
pub(super) fn demangled(name: &[u8]) -> Option<String> {
    static DEMANGLER: LazyLock<Demangler> = LazyLock::new(Demangler::default);
    DEMANGLER.demangled(name)
}

//! Bundle entry IDs: offload kind, target triple and target ID.
//!
//! ```text
//! <kind>-<arch>-<vendor>-<os>-<environment>[-<target ID>]
//! ```
//!
//! The Clang Offload Bundler documentation has two spellings, and both are accepted. A triple has all four fields, or
//! it has no environment and the target ID follows the operating system (which LLVM up to 20 accepted too). The
//! written form has four fields, normalised as LLVM 22.1.8 does, and a dash before the target ID even if that is
//! empty. For the operating system amdhsa, the environment is written as an empty field.
//!
//! Only the rules of LLVM are here. The search also reads the IDs of other compilers: see `src/beyond/ids.rs`.

/// Implements equality, hash and order of a type by the result of its `key`.
macro_rules! compared_by_key {
    ($type:ty) => {
        impl PartialEq for $type {
            fn eq(&self, other: &Self) -> bool {
                self.key() == other.key()
            }
        }

        impl Eq for $type {}

        impl std::hash::Hash for $type {
            fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
                self.key().hash(state);
            }
        }

        impl PartialOrd for $type {
            fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
                Some(self.cmp(other))
            }
        }

        impl Ord for $type {
            fn cmp(&self, other: &Self) -> std::cmp::Ordering {
                self.key().cmp(&other.key())
            }
        }
    };
}

pub(crate) mod amdgpu;
mod arm;
mod compatibility;
mod kind;
mod normalize;
pub mod processors;
pub mod target_id;
pub mod triple;
mod triple_tables;

use std::borrow::Cow;
use std::fmt;

use crate::base::id::target_id::TargetId;
use crate::base::id::triple::{Form, Triple};

pub use compatibility::Compatibility;
pub use kind::OffloadKind;

/// Options of [`EntryId::compatibility`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rules {
    /// HIP and OpenMP code objects serve each other's requests (`-hip-openmp-compatible`).
    pub hip_serves_openmp: bool,
}

/// A parsed bundle entry ID.
///
/// `Display` writes the written form. With the feature `search`, `FromStr` accepts every kind, like `parse_any`. Two
/// IDs are equal, and have the same hash, if their written forms are equal, however they were spelled. They are
/// ordered by kind, then by triple and target ID in written form. The spelling is kept because
/// [`EntryId::compatibility`] uses it.
///
/// ```
/// use offload_bundle::id::{EntryId, IdError};
///
/// let short: EntryId = "hip-amdgcn-amd-amdhsa-gfx90a:xnack+".parse()?;
/// let written: EntryId = "hip-amdgcn-amd-amdhsa--gfx90a:xnack+".parse()?;
/// assert_eq!(short, written);
/// assert_eq!(short.to_string(), "hip-amdgcn-amd-amdhsa--gfx90a:xnack+");
/// assert!(short > "hip-amdgcn-amd-amdhsa--gfx906".parse()?);
/// # Ok::<(), IdError>(())
/// ```
#[derive(Clone, Debug)]
pub struct EntryId {
    kind: OffloadKind,
    triple: Triple,
    /// The triple in written form.
    written: Triple,
    target_id: TargetId,
}

/// The reason why a text is not a bundle entry ID. `Display` gives LLVM 22's message where LLVM has one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IdError {
    /// The text has too few fields.
    #[error(
        "Targets need to follow the format '<offload kind>-<target triple>', where '<target triple>' follows the \
         format '<kind>-<arch>-<vendor>-<os>-<env>[-<target id>[:target features]]'."
    )]
    Format,
    /// The offload kind or the architecture is unknown.
    #[error("invalid target '{id}'{}{}", unknown_part("offloading kind", .kind), unknown_part("target triple", .triple))]
    Unknown {
        /// The whole text.
        id: String,
        /// The unknown offload kind.
        kind: Option<String>,
        /// The triple, if its architecture is unknown.
        triple: Option<String>,
    },
    /// The target ID breaks a rule for target features.
    #[error("invalid target '{id}', {reason}")]
    TargetId {
        /// The whole text.
        id: String,
        /// The broken rule.
        reason: target_id::FeatureError,
    },
}

/// Returns the end of the message that names an unknown part of an ID, or an empty text if the part is known.
fn unknown_part(name: &str, value: &Option<String>) -> String {
    match value {
        Some(value) => format!(", unknown {name} '{value}'"),
        None => String::new(),
    }
}

impl EntryId {
    /// Parses the ID of an entry that LLVM's bundler writes, in any of its spellings.
    ///
    /// # Errors
    /// The first [`IdError`] that applies.
    pub fn parse(id: &str) -> Result<Self, IdError> {
        Self::parse_with(id, OffloadKind::from_name_in_bundle)
    }

    /// Parses the ID of an entry that LLVM's bundler reads. In contrast to [`EntryId::parse`], all kinds are allowed.
    ///
    /// # Errors
    /// The first [`IdError`] that applies.
    pub(crate) fn parse_recorded(id: &str) -> Result<Self, IdError> {
        Self::parse_with(id, OffloadKind::from_name)
    }

    /// Parses an ID of a kind that `kind_of_name` allows. That function returns the kind with a name, or `None` for a
    /// name that is not allowed.
    fn parse_with(id: &str, kind_of_name: fn(&str) -> Option<OffloadKind>) -> Result<Self, IdError> {
        let (kind_name, rest) = id.split_once('-').ok_or(IdError::Format)?;
        let (triple, target_id) = split_triple(rest);
        let triple = Triple::parse(&with_four_fields(triple)?);
        let kind = match kind_of_name(kind_name) {
            Some(kind) if triple.is_known() => kind,
            kind => return Err(unknown_error(id, kind_name, kind, rest)),
        };
        let mut id = Self::from_parts(kind, triple, target_id, || id.to_owned())?;
        // As in LLVM, text after a host's triple is a target ID only if it begins with a processor that clang's driver
        // knows. Other text, such as an object format, is dropped.
        if kind == OffloadKind::Host && !processors::is_offload_arch(id.target_id.processor()) {
            id.target_id = TargetId::default();
        }
        Ok(id)
    }

    /// Returns the ID of an image with the kind, triple and target ID that an offload binary records.
    ///
    /// # Errors
    /// [`IdError`] if LLVM does not know the architecture of the triple, or the target ID breaks a rule.
    pub(crate) fn of_image(kind: OffloadKind, triple: &str, target_id: &str) -> Result<Self, IdError> {
        let parsed = Triple::of_image(triple);
        if !parsed.is_known() {
            let id = joined(kind, triple, target_id);
            // The error has only the parts that are unknown, and the kind is known.
            return Err(IdError::Unknown { id, kind: None, triple: Some(triple.to_owned()) });
        }
        Self::from_parts(kind, parsed, target_id, || joined(kind, triple, target_id))
    }

    /// Returns the ID of these parts, with any triple. `whole_id` returns the text of the ID for errors.
    pub(crate) fn from_parts(
        kind: OffloadKind,
        triple: Triple,
        target_id: &str,
        whole_id: impl Fn() -> String,
    ) -> Result<Self, IdError> {
        let target_id = TargetId::parse(target_id, triple.arch());
        let target_id = target_id.map_err(|reason| IdError::TargetId { id: whole_id(), reason })?;
        Ok(Self { kind, written: to_written_form(&triple), triple, target_id })
    }

    /// The offload kind.
    pub fn kind(&self) -> OffloadKind {
        self.kind
    }

    /// The target triple as spelled. It has four fields, except in IDs of SYCL.
    pub fn triple(&self) -> &Triple {
        &self.triple
    }

    /// The target ID in canonical form; empty if there is none. See [`EntryId::target`] for the GPU.
    pub fn target_id(&self) -> &TargetId {
        &self.target_id
    }

    /// The target ID of the GPU that runs the code. If the entry ID has no target ID, this is the processor that the
    /// triple names. Empty if neither names a GPU.
    ///
    /// ```
    /// use offload_bundle::id::EntryId;
    ///
    /// let id: EntryId = "hip-amdgpu9.42-amd-amdhsa--".parse()?;
    /// assert!(id.target_id().is_empty());
    /// assert_eq!(id.target().to_string(), "gfx942");
    /// # Ok::<(), offload_bundle::id::IdError>(())
    /// ```
    pub fn target(&self) -> Cow<'_, TargetId> {
        if self.target_id.is_empty()
            && let Some(processor) = self.triple.amd_processor()
            && let Ok(target) = TargetId::parse(&processor, self.triple.arch())
        {
            return Cow::Owned(target);
        }
        Cow::Borrowed(&self.target_id)
    }

    fn key(&self) -> (OffloadKind, &str, &TargetId) {
        (self.kind, self.written.as_str(), &self.target_id)
    }

    /// Returns the ID with its triple as it was parsed, not normalized. LLVM 22 writes IDs in this form.
    pub(crate) fn spelled(&self) -> String {
        format!("{}-{}-{}", self.kind.name(), self.triple.as_str(), self.target_id)
    }

    /// Compares the ID of a code object with a request. The result says whether the code object can run there, and why
    /// or why not.
    ///
    /// The rules of the Clang Offload Bundler documentation apply: compatible kinds and triples, the same processor,
    /// and every feature that the code object sets has the same setting in the request. As in LLVM 22.1.8, the
    /// written form of the request is used. The code object's ID is tried as spelled, which is how LLVM 22 writes it,
    /// and in its written form, since LLVM up to 20 wrote triples as typed.
    pub fn compatibility(&self, request: &Self, rules: Rules) -> Compatibility {
        let is_triple_compatible = self.is_triple_compatible(request);
        if self.kind == request.kind && is_triple_compatible && self.target_id == request.target_id {
            return Compatibility::Exact;
        }
        if !is_triple_compatible || !self.kind.is_compatible_with(request.kind, rules) {
            return Compatibility::KindOrTriple;
        }
        if !self.target_id.may_be_of_arch(self.triple.arch())
            || !request.target_id.may_be_of_arch(request.triple.arch())
        {
            return Compatibility::Processor;
        }
        self.target_id.compatibility(&request.target_id)
    }

    /// Whether this entry serves the request only because LLVM 22.1.8 drops target IDs with an unknown processor. Kinds
    /// and triples match, and one of the two has such a target ID while the other has none.
    pub(crate) fn is_exact_without_target_id(&self, request: &Self) -> bool {
        let (own, wanted) = (&self.target_id, &request.target_id);
        let request_loses_target_id = own.is_empty() && wanted.is_dropped_by_llvm();
        // Code for a GPU that LLVM does not know is still for this GPU alone, so it serves no request without a GPU.
        let entry_loses_target_id = wanted.is_empty() && own.is_dropped_by_llvm() && !self.names_gpu();
        (request_loses_target_id || entry_loses_target_id)
            && self.kind == request.kind
            && self.is_triple_compatible(request)
    }

    /// Whether the target ID looks like that of a GPU, known or not.
    pub(crate) fn names_gpu(&self) -> bool {
        target_id::names_gpu(self.target_id.processor(), self.triple.arch_name())
    }

    /// Whether any request may be served by the entry. In LLVM, a triple with an unknown version of AMD GPUs is not
    /// even compatible with itself.
    pub(crate) fn is_requestable(&self) -> bool {
        self.triple.is_compatible_with(&self.triple)
    }

    /// Whether the triple of this code object, as spelled or in written form, is compatible with that of a request.
    fn is_triple_compatible(&self, request: &Self) -> bool {
        for own in [&self.triple, &self.written] {
            // LLVM's rules treat all unknown architectures as one, so their names are compared here.
            let may_be_same_arch = own.is_known() || own.arch_name() == request.written.arch_name();
            if may_be_same_arch && own.is_compatible_with(&request.written) {
                return true;
            }
        }
        false
    }
}

compared_by_key!(EntryId);

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.kind.name(), self.written.as_str())?;
        // Triples with fewer fields, which only DPC++ writes, have no target ID after them.
        if self.written.has_four_fields() { write!(f, "-{}", self.target_id) } else { Ok(()) }
    }
}

/// Returns kind, triple and target ID as one text, for messages.
pub(crate) fn joined(kind: OffloadKind, triple: &str, target_id: &str) -> String {
    [kind.name(), "-", triple, "-", target_id].concat()
}

/// Returns the triple in written form: normalised as LLVM does. Other compilers' triples, with unknown architectures or
/// fewer than four fields, are written as they are spelled.
fn to_written_form(triple: &Triple) -> Triple {
    if !triple.is_known() || !triple.has_four_fields() {
        return triple.clone();
    }
    Triple::parse(&if triple.os() == "amdhsa" {
        // Runtimes look for `amdgcn-amd-amdhsa--`, not for an environment written as `unknown`.
        triple::normalize(triple.as_str(), Form::Three) + "-"
    } else {
        triple::normalize(triple.as_str(), Form::Four)
    })
}

/// Returns the error for an ID with an unknown kind (`kind` is `None`) or architecture. `rest` is the text after the
/// kind. For its message, LLVM reads the triple from exactly the first four fields; fewer fields are an error of their
/// format.
pub(crate) fn unknown_error(id: &str, kind_name: &str, kind: Option<OffloadKind>, rest: &str) -> IdError {
    let fields: Vec<&str> = rest.splitn(5, '-').take(4).collect();
    if fields.len() < 4 {
        return IdError::Format;
    }
    let triple = Triple::parse(&fields.join("-"));
    let unknown_kind = if kind.is_none() { Some(kind_name.to_owned()) } else { None };
    let unknown_triple = if triple.is_known() { None } else { Some(triple.as_str().to_owned()) };
    IdError::Unknown { id: id.to_owned(), kind: unknown_kind, triple: unknown_triple }
}

/// Adds empty fields to a triple until it has four.
///
/// # Errors
/// [`IdError::Format`] if the triple has one field.
pub(crate) fn with_four_fields(mut triple: String) -> Result<String, IdError> {
    let dashes = triple.matches('-').count();
    if dashes == 0 {
        return Err(IdError::Format);
    }
    triple.push_str("---".get(dashes..).unwrap_or_default());
    Ok(triple)
}

/// Splits the text after the kind into a triple of at most four fields and the target ID, which may be empty.
pub(crate) fn split_triple(text: &str) -> (String, &str) {
    let arch_name = text.split('-').next().unwrap_or_default();
    // In the short spelling, a GPU follows a triple of two or three fields. The dashes complete such a triple.
    for (field_count, missing_dashes) in [(2, "--"), (3, "-")] {
        let Some((short, rest)) = split_after_fields(text, field_count) else { break };
        if !target_id::names_gpu(rest, arch_name) {
            continue;
        }
        // Normalising shows which of the fields is the operating system. The dash after the three fields is that of an
        // empty environment. LLVM has no normal form for an unknown architecture.
        let triple = if Triple::parse(short).is_known() {
            triple::normalize(short, Form::Three) + "-"
        } else {
            [short, missing_dashes].concat()
        };
        return (triple, trim_dash(rest));
    }
    match split_after_fields(text, 4) {
        Some((triple, target_id)) => (triple.to_owned(), trim_dash(target_id)),
        None => (text.to_owned(), ""),
    }
}

/// Splits a text at the dash after `count` fields. Returns `None` if the text has only `count` fields or fewer.
fn split_after_fields(text: &str, count: usize) -> Option<(&str, &str)> {
    let (dash, _) = text.match_indices('-').nth(count.checked_sub(1)?)?;
    let (fields, rest) = text.split_at_checked(dash)?;
    Some((fields, rest.strip_prefix('-')?))
}

/// Removes dashes after a target ID without features, where they separate nothing. A dash after a feature is kept: it
/// switches the feature off.
pub(crate) fn trim_dash(target_id: &str) -> &str {
    if target_id.contains(':') { target_id } else { target_id.trim_end_matches('-') }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(id: &str) -> String {
        match EntryId::parse(id) {
            Ok(id) => id.to_string(),
            Err(error) => error.to_string(),
        }
    }

    fn compare(entry: &str, request: &str, rules: Rules) -> Compatibility {
        EntryId::parse(entry).unwrap().compatibility(&EntryId::parse(request).unwrap(), rules)
    }

    fn target_id(text: &str) -> TargetId {
        text.parse().unwrap()
    }

    fn hip(target_id: &str) -> String {
        format!("hip-amdgcn-amd-amdhsa--{target_id}")
    }

    #[test]
    fn the_written_form_has_four_fields_and_a_target_id() {
        for (typed, expected) in [
            ("host-x86_64-unknown-linux-gnu", "host-x86_64-unknown-linux-gnu-"),
            ("host-x86_64-unknown-linux-gnu-", "host-x86_64-unknown-linux-gnu-"),
            ("hip-amdgcn-amd-amdhsa-unknown-gfx906", "hip-amdgcn-amd-amdhsa--gfx906"),
            ("hipv4-amdgcn-amd-amdhsa--gfx9-4-generic", "hipv4-amdgcn-amd-amdhsa--gfx9-4-generic"),
            ("openmp-nvptx64-nvidia-cuda--sm_70", "openmp-nvptx64-nvidia-cuda-unknown-sm_70"),
            ("hip-spirv64-amd-amdhsa--amdgcnspirv", "hip-spirv64-amd-amdhsa--amdgcnspirv"),
        ] {
            assert_eq!(written(typed), expected);
            assert_eq!(written(expected), expected);
        }
    }

    #[test]
    fn an_environment_may_be_left_out() {
        for (typed, expected) in [
            ("host-x86_64-unknown-linux", "host-x86_64-unknown-linux-unknown-"),
            ("hip-amdgcn-amd-amdhsa-gfx906", "hip-amdgcn-amd-amdhsa--gfx906"),
            ("hip-amdgcn-amd-amdhsa-gfx906-", "hip-amdgcn-amd-amdhsa--gfx906"),
            ("hip-amdgcn-amd-amdhsa-gfx90a:xnack-", "hip-amdgcn-amd-amdhsa--gfx90a:xnack-"),
            ("hip-amdgcn-amd-amdhsa-gfx9-4-generic", "hip-amdgcn-amd-amdhsa--gfx9-4-generic"),
            ("hip-amdgcn-amd-amdhsa-fiji", "hip-amdgcn-amd-amdhsa--gfx803"),
            ("openmp-nvptx64-nvidia-cuda-sm_70", "openmp-nvptx64-nvidia-cuda-unknown-sm_70"),
            ("openmp-amdgcn-amdhsa-gfx906:sramecc+:xnack+", "openmp-amdgcn-unknown-amdhsa--gfx906:sramecc+:xnack+"),
        ] {
            assert_eq!(written(typed), expected);
        }
    }

    #[test]
    fn what_is_written_is_canonical() {
        for (typed, expected) in [
            ("hip-amdgcn-amd-amdhsa--fiji", "hip-amdgcn-amd-amdhsa--gfx803"),
            ("hip-amdgcn-amd-amdhsa--gfx90a:xnack+:sramecc-", "hip-amdgcn-amd-amdhsa--gfx90a:sramecc-:xnack+"),
            ("hip-amdgcn-amd-amdhsa--gfx1300:xnack+", "hip-amdgcn-amd-amdhsa--gfx1300:xnack+"),
            ("hip-amdgcn-amd-amdhsa--gfx906-", "hip-amdgcn-amd-amdhsa--gfx906"),
            ("openmp-x86_64-pc-linux-gnu-fiji", "openmp-x86_64-pc-linux-gnu-fiji"),
            ("host-x86_64-unknown-linux-gnu-elf", "host-x86_64-unknown-linux-gnu-"),
        ] {
            assert_eq!(written(typed), expected);
        }
    }

    #[test]
    fn what_is_no_id_says_why() {
        for (typed, start) in [
            ("", "Targets need to follow the format"),
            ("host-x86_64", "Targets need to follow the format"),
            ("foo-x86_64-pc-linux-gnu", "invalid target 'foo-x86_64-pc-linux-gnu', unknown offloading kind 'foo'"),
            (
                "hip-foo-amd-amdhsa--gfx906",
                "invalid target 'hip-foo-amd-amdhsa--gfx906', unknown target triple 'foo-amd-amdhsa-'",
            ),
            (
                "hip-amdgcn-amd-amdhsa--gfx906:xnack",
                "invalid target 'hip-amdgcn-amd-amdhsa--gfx906:xnack', target feature 'xnack' has no sign",
            ),
            (
                "hip-amdgcn-amd-amdhsa--gfx906:xnack+:xnack-",
                "invalid target 'hip-amdgcn-amd-amdhsa--gfx906:xnack+:xnack-', target feature 'xnack' is set twice",
            ),
            (
                "hip-amdgcn-amd-amdhsa--:xnack+",
                "invalid target 'hip-amdgcn-amd-amdhsa--:xnack+', the target ID has features but",
            ),
        ] {
            assert!(written(typed).starts_with(start), "{}", written(typed));
        }
    }

    #[test]
    fn compatibility_follows_kind_triple_processor_and_features() {
        use Compatibility::*;
        for (entry, request, expected) in [
            ("gfx906", "gfx906", Exact),
            ("fiji", "gfx803", Exact),
            ("gfx1300", "gfx1300", Exact),
            ("gfx906", "gfx906:xnack+", Compatible),
            ("gfx90a:xnack+", "gfx90a:sramecc-:xnack+", Compatible),
            ("gfx906", "gfx908", Processor),
            ("gfx906:xnack+", "gfx906", MoreFeatures),
            ("gfx90a:sramecc+", "gfx90a:xnack+", FeatureUnset),
            ("gfx906:xnack-", "gfx906:xnack+", FeatureDiffers),
            ("gfx1030:xnack+", "gfx1030:xnack+:sramecc+", Processor),
        ] {
            assert_eq!(compare(&hip(entry), &hip(request), Rules::default()), expected, "{entry} for {request}");
        }
        let all = Rules { hip_serves_openmp: true };
        let openmp = "openmp-amdgcn-amd-amdhsa--gfx906";
        assert_eq!(compare("hipv4-amdgcn-amd-amdhsa--gfx906", &hip("gfx906"), Rules::default()), Compatible);
        assert_eq!(compare(&hip("gfx906"), openmp, Rules::default()), KindOrTriple);
        assert_eq!(compare(&hip("gfx906"), openmp, all), Compatible);
        assert_eq!(compare(openmp, &hip("gfx906"), all), Compatible);
        assert_eq!(compare("hip-amdgcn-mesa-amdhsa--gfx906", &hip("gfx906"), all), KindOrTriple);
        // Processors and features of another architecture are compared as they are.
        for (arch, target_id, served) in [
            ("amdgcn", "gfx906", true),
            ("amdgcn", "gfx1300", true),
            ("amdgcn", "sm_70", false),
            ("amdgcn", "amdgcnspirv", false),
            ("r600", "gfx906", false),
            ("r600", "cayman", true),
            ("spirv64", "amdgcnspirv", true),
            ("spirv64", "gfx906", true),
            ("spirv64", "gfx906:xnack+", false),
            ("nvptx64", "gfx906:xnack+", false),
        ] {
            let [hip, hipv4] = ["hip", "hipv4"].map(|kind| format!("{kind}-{arch}-amd-amdhsa--{target_id}"));
            assert_eq!(compare(&hip, &hip, Rules::default()), Exact, "{arch} {target_id}");
            let expected = if served { Compatible } else { Processor };
            assert_eq!(compare(&hip, &hipv4, Rules::default()), expected, "{arch} {target_id}");
        }
        // As in LLVM, a missing target ID is a missing processor.
        assert_eq!(compare("hipv4-amdgcn-amd-amdhsa--", &hip(""), all), Processor);
    }

    #[test]
    fn the_architecture_of_amd_gpus_may_have_a_version() {
        use Compatibility::*;
        for (typed, expected, target) in [
            ("hip-amdgpu9.42-amd-amdhsa--gfx942", "hip-amdgpu9.42-amd-amdhsa--gfx942", "gfx942"),
            ("hip-amdgpu9.42-amd-amdhsa-unknown-gfx942", "hip-amdgpu9.42-amd-amdhsa--gfx942", "gfx942"),
            ("hip-amdgpu9.42-amd-amdhsa-gfx942:xnack+", "hip-amdgpu9.42-amd-amdhsa--gfx942:xnack+", "gfx942:xnack+"),
            ("hip-amdgpu8.03-amd-amdhsa-fiji", "hip-amdgpu8.03-amd-amdhsa--gfx803", "gfx803"),
            ("openmp-amdgpu9.0a--amdhsa-", "openmp-amdgpu9.0a-unknown-amdhsa--", "gfx90a"),
            ("openmp-amdgpu9.4-amd-amdhsa-", "openmp-amdgpu9.4-amd-amdhsa--", "gfx9-4-generic"),
            ("hip-amdgpu-amd-amdhsa--", "hip-amdgpu-amd-amdhsa--", ""),
            ("hip-amdgpu9.99-amd-amdhsa--", "hip-amdgpu9.99-amd-amdhsa--", ""),
        ] {
            let id = EntryId::parse(typed).unwrap();
            assert_eq!((id.to_string().as_str(), id.target().to_string().as_str()), (expected, target), "{typed}");
            assert_eq!(id.triple().arch(), "amdgpu");
        }
        for (entry, request, expected) in [
            ("hip-amdgpu9.42-amd-amdhsa--gfx942", "hip-amdgcn-amd-amdhsa--gfx942", Exact),
            ("hip-amdgcn-amd-amdhsa--gfx942", "hipv4-amdgpu9.4-amd-amdhsa--gfx942:xnack+", Compatible),
            ("hip-amdgpu9.42-amd-amdhsa--gfx942", "hip-amdgpu9.50-amd-amdhsa--gfx942", KindOrTriple),
            ("hip-amdgpu9.42-amd-amdhsa--", "hip-amdgpu9.42-amd-amdhsa--gfx942", Processor),
            ("hip-amdgpu9.42-amd-amdhsa--", "hip-amdgcn-amd-amdhsa--", Exact),
            ("hip-amdgpu9.42-amd-amdhsa--sm_70", "hipv4-amdgpu9.42-amd-amdhsa--sm_70", Processor),
            ("hip-amdgpu9.99-amd-amdhsa--gfx942", "hip-amdgpu9.99-amd-amdhsa--gfx942", KindOrTriple),
        ] {
            assert_eq!(compare(entry, request, Rules::default()), expected, "{entry} for {request}");
        }
        assert!(!EntryId::parse("hip-amdgpu9.99-amd-amdhsa--gfx942").unwrap().is_requestable());
        assert!(EntryId::parse("hip-amdgpu9.42-amd-amdhsa--gfx942").unwrap().is_requestable());
    }

    #[test]
    fn a_feature_is_set_in_all_entries_of_a_processor_or_in_none() {
        for (a, b, conflict) in [
            ("gfx90a", "gfx90a:xnack+", true),
            ("gfx90a:sramecc+:xnack+", "gfx90a:xnack+", true),
            ("gfx90a:xnack+", "gfx90a:xnack-", false),
            ("gfx90a", "gfx908:xnack+", false),
        ] {
            assert_eq!(target_id(a).conflicts_with(&target_id(b)), conflict, "{a} and {b}");
            assert_eq!(target_id(b).conflicts_with(&target_id(a)), conflict, "{b} and {a}");
        }
    }

    #[test]
    fn a_known_processor_must_have_the_features_that_are_set() {
        for text in ["gfx906:sramecc+:xnack-", "gfx1300:anything+", ""] {
            assert!(target_id(text).check_features().is_ok(), "{text}");
        }
        for text in ["gfx1030:xnack+", "sm_70:xnack+", "gfx906:foo+"] {
            assert!(target_id(text).check_features().is_err(), "{text}");
        }
    }

    #[test]
    fn an_unknown_kind_or_architecture_needs_four_fields() {
        for (id, is_format) in [
            ("hipp-amdgcn-amd", true),
            ("hipp-amdgcn-amd-amdhsa", true),
            ("hipp-amdgcn-amd-amdhsa-", false),
            ("hipp-amdgcn-amd-amdhsa--gfx906", false),
            ("hip-nothing-amd-amdhsa-", false),
        ] {
            assert_eq!(EntryId::parse(id).unwrap_err() == IdError::Format, is_format, "{id}");
        }
    }

    #[test]
    fn a_target_id_that_llvm_drops_may_be_on_one_side() {
        for (own, wanted, expected) in [
            ("", "gfx9999", true),
            ("", "gfx906", false),
            ("", "", false),
            ("gfx906", "gfx9999", false),
            ("gfx9999", "gfx9998", false),
            ("something", "", true),
            ("gfx9999", "", false),
            ("gfx906", "", false),
        ] {
            let [entry, request] = [own, wanted].map(|target_id| EntryId::parse(&hip(target_id)).unwrap());
            assert_eq!(entry.is_exact_without_target_id(&request), expected, "{own} {wanted}");
        }
        let spelled = "hip-amdgcn-amd-amdhsa-unknown-gfx906";
        assert_eq!(EntryId::parse(spelled).unwrap().spelled(), spelled);
    }
}

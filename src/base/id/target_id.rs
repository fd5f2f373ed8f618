//! Target IDs: a processor and the settings of its features.
//!
//! ```text
//! <processor> ( ":" <feature> ( "+" | "-" ) )*
//! ```
//!
//! The canonical form has the processor's primary name and the features in alphabetical order. A feature that is absent
//! is *Any*. The rules are from the Clang Offload Bundler documentation, the names from LLVM 22.1.8.

use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;

use crate::base::id::compatibility::Compatibility;
use crate::base::id::processors::{self, Processor, ProcessorKind};
use crate::base::id::{amdgpu, triple_tables};

/// A target ID in canonical form, which `Display`, equality, hash and order use.
///
/// `FromStr` parses target IDs of AMD GPUs, [`TargetId::parse`] target IDs of any architecture.
///
/// ```
/// use offload_bundle::id::target_id::{FeatureError, TargetId};
///
/// let typed: TargetId = "gfx90a:xnack+:sramecc-".parse()?;
/// assert_eq!(typed.to_string(), "gfx90a:sramecc-:xnack+");
/// assert_eq!("fiji".parse::<TargetId>()?, "gfx803".parse()?);
/// # Ok::<(), FeatureError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct TargetId {
    processor: String,
    /// Features and whether they are on, sorted by name.
    features: Vec<(String, bool)>,
    /// The processor in the table of processors, or `None` if the table does not have it.
    known: Option<&'static Processor>,
    /// Whether LLVM 22.1.8 would write the target ID. LLVM drops a target ID if its offloading driver does not know the
    /// processor under the name that was parsed.
    kept_by_llvm: bool,
}

/// The reason why a target ID breaks the rules for features.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FeatureError {
    /// A feature without `+` or `-`.
    #[error("target feature '{0}' has no sign, expected '+' or '-' after it")]
    NoSign(String),
    /// A feature that is set twice.
    #[error("target feature '{0}' is set twice")]
    Twice(String),
    /// A feature that the processor does not have.
    #[error("processor '{processor}' has no target feature '{feature}'")]
    Unsupported {
        /// The processor.
        processor: String,
        /// The feature.
        feature: String,
    },
    /// Features without a processor.
    #[error("the target ID has features but no processor")]
    NoProcessor,
}

impl TargetId {
    /// Parses a target ID of a triple with the [architecture](super::triple::Triple::arch) `arch`. An unknown processor
    /// keeps its name. Features are not compared with the processor: see [`TargetId::check_features`].
    ///
    /// # Errors
    /// [`FeatureError`] for a feature without sign, a repeated feature, or features without a processor.
    pub fn parse(text: &str, arch: &str) -> Result<Self, FeatureError> {
        let mut parts = text.split(':');
        let name = parts.next().unwrap_or_default();
        let mut features: Vec<(String, bool)> = Vec::new();
        let mut seen = HashSet::new();
        for part in parts {
            let (feature, on) = if let Some(feature) = part.strip_suffix('+') {
                (feature, true)
            } else if let Some(feature) = part.strip_suffix('-') {
                (feature, false)
            } else {
                return Err(FeatureError::NoSign(part.to_owned()));
            };
            if !seen.insert(feature) {
                return Err(FeatureError::Twice(feature.to_owned()));
            }
            features.push((feature.to_owned(), on));
        }
        if name.is_empty() && !features.is_empty() {
            return Err(FeatureError::NoProcessor);
        }
        features.sort_unstable();
        // A processor is found by its primary name or an alternative one, such as `fiji` for `gfx803`. An alternative
        // name is valid only in a triple for AMD GPUs. In another triple, the same word is an unknown processor.
        let (known, processor) = match processors::find(name) {
            Some(known) if known.name == name || is_native(known, arch) => (Some(known), known.name),
            _ => (None, name),
        };
        // LLVM keeps a target ID only if the processor is in its list of offload architectures. It looks for the name
        // as it was typed, not for the primary name.
        let kept_by_llvm = processors::is_offload_arch(name);
        Ok(Self { processor: processor.to_owned(), features, known, kept_by_llvm })
    }

    /// The processor's primary name; empty if there is no target ID.
    pub fn processor(&self) -> &str {
        &self.processor
    }

    /// The features that are set, by name, and whether they are on.
    pub fn features(&self) -> impl Iterator<Item = (&str, bool)> {
        self.features.iter().map(|(name, on)| (name.as_str(), *on))
    }

    fn key(&self) -> (&str, &[(String, bool)]) {
        (&self.processor, &self.features)
    }

    /// Whether there is no target ID.
    pub fn is_empty(&self) -> bool {
        self.processor.is_empty()
    }

    /// Whether LLVM 22.1.8 would drop this target ID from a bundle; false if it is empty.
    pub(crate) fn is_dropped_by_llvm(&self) -> bool {
        !self.is_empty() && !self.kept_by_llvm
    }

    /// Checks that the processor supports all features that are set. An unknown processor is not checked.
    ///
    /// # Errors
    /// [`FeatureError::Unsupported`] for the first unsupported feature.
    pub fn check_features(&self) -> Result<(), FeatureError> {
        let Some(known) = self.known else { return Ok(()) };
        match self.features.iter().find(|(name, _)| !known.features.contains(&name.as_str())) {
            None => Ok(()),
            Some((feature, _)) => {
                Err(FeatureError::Unsupported { processor: self.processor.clone(), feature: feature.clone() })
            }
        }
    }

    /// Whether the target ID may belong to an [architecture](super::triple::Triple::arch), so that LLVM 22.1.8 compares
    /// it with others. For AMD GPUs, a known processor must be of that architecture. For others, LLVM does not check
    /// the processor, but there must be no features.
    pub(crate) fn may_be_of_arch(&self, arch: &str) -> bool {
        if !matches!(arch, amdgpu::NAME | "r600") {
            return self.features.is_empty();
        }
        match self.known {
            Some(known) => is_native(known, arch),
            None => true,
        }
    }

    /// Whether code objects for both may not be in one bundle: the processor is the same, but one target ID sets a
    /// feature that the other leaves at *Any*.
    pub fn conflicts_with(&self, other: &Self) -> bool {
        if self.processor != other.processor {
            return false;
        }
        // Features are sorted by name, so equal sets of features have the same sequence of names.
        let own_names = self.features().map(|(name, _)| name);
        own_names.ne(other.features().map(|(name, _)| name))
    }

    /// Whether LLVM compares the target ID with others: it names a processor, which supports all features that are set.
    fn is_comparable(&self) -> bool {
        !self.is_empty() && self.check_features().is_ok()
    }

    /// Compares this target ID of a code object with that of a request. Code without a feature's setting runs with
    /// either, so each feature of the code object must have the same setting in the request.
    pub(crate) fn compatibility(&self, request: &Self) -> Compatibility {
        if self.processor != request.processor || !self.is_comparable() || !request.is_comparable() {
            return Compatibility::Processor;
        }
        // LLVM compares the numbers of features first, so this reason comes before the others.
        if self.features.len() > request.features.len() {
            return Compatibility::MoreFeatures;
        }
        for (name, on) in &self.features {
            match request.features.iter().find(|(other, _)| other == name) {
                None => return Compatibility::FeatureUnset,
                Some((_, requested)) if requested != on => return Compatibility::FeatureDiffers,
                Some(_) => {}
            }
        }
        Compatibility::Compatible
    }
}

compared_by_key!(TargetId);

impl FromStr for TargetId {
    type Err = FeatureError;

    fn from_str(text: &str) -> Result<Self, FeatureError> {
        Self::parse(text, amdgpu::NAME)
    }
}

impl fmt::Display for TargetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.processor)?;
        for (name, on) in &self.features {
            write!(f, ":{name}{}", if *on { '+' } else { '-' })?;
        }
        Ok(())
    }
}

/// Whether the processor is an AMD GPU of the architecture. Alternative names are valid for this architecture alone:
/// `fiji` means `gfx803` for `amdgpu`.
fn is_native(processor: &Processor, arch: &str) -> bool {
    matches!((processor.kind, arch), (ProcessorKind::AmdGcn, amdgpu::NAME) | (ProcessorKind::R600, "r600"))
}

/// Whether `text`, found where a triple may have its environment, is a target ID instead. `arch_name` is the first
/// field of the triple. Names in the style of AMD and NVIDIA are target IDs even if the processor is unknown.
pub(crate) fn names_gpu(text: &str, arch_name: &str) -> bool {
    // Dashes may follow a processor without features. They separate nothing.
    let processor = text.split(':').next().unwrap_or_default().trim_end_matches('-');
    for prefix in ["gfx", "sm_"] {
        if let Some(number) = processor.strip_prefix(prefix)
            && number.starts_with(|c: char| c.is_ascii_hexdigit())
        {
            return true;
        }
    }
    if processor == "amdgcnspirv" {
        return true;
    }
    // Alternative names (`fiji`) are words that only a triple for AMD GPUs makes target IDs. After such a triple,
    // processors of other vendors have no place.
    if !matches!(triple_tables::arch(arch_name), amdgpu::NAME | "r600") {
        return false;
    }
    matches!(processors::find(processor), Some(known) if known.kind != ProcessorKind::Other)
}

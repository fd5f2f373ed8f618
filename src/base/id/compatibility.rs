//! The outcome of comparing a code object with a request.

/// The result of comparing a code object with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compatibility {
    /// Kind, triple and target ID are the same.
    Exact,
    /// Compatible kinds and triples, the same processor, and no contradicting features.
    Compatible,
    /// Kinds or triples are incompatible.
    KindOrTriple,
    /// The processors differ, or one of them is missing.
    Processor,
    /// The code object sets more features than the request.
    MoreFeatures,
    /// The code object sets a feature that the request does not set.
    FeatureUnset,
    /// The code object sets a feature on that the request sets off, or the other way round.
    FeatureDiffers,
}

impl Compatibility {
    /// Whether the code object may serve the request.
    pub fn is_compatible(self) -> bool {
        matches!(self, Self::Exact | Self::Compatible)
    }
}

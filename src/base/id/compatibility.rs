//! The outcome of comparing a code object with a request.

/// The result of comparing a code object with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compatibility {
    /// Kind, triple and target ID are the same.
    Exact,
    /// Compatible by the rules of target IDs.
    Compatible,
    /// Kinds or triples are incompatible.
    KindOrTriple,
    /// The processors differ, or one of them is missing.
    Processor,
    /// The code object sets more features than the request.
    MoreFeatures,
    /// The code object sets a feature that the request does not set.
    FeatureUnset,
    /// The code object and the request set a feature to different values.
    FeatureDiffers,
}

impl Compatibility {
    /// Whether the code object may serve the request.
    pub fn is_compatible(self) -> bool {
        matches!(self, Self::Exact | Self::Compatible)
    }
}

//! What the tests of several modules share.

/// Where a test damages its sample: at every byte, or under miri, where each takes a thousand times as long, at a few.
pub(crate) fn places(sample: &[u8]) -> impl Iterator<Item = usize> + use<> {
    let step = if cfg!(miri) { sample.len().div_ceil(8).max(1) } else { 1 };
    (0..sample.len()).step_by(step)
}

//! The CUDA release that knows each version of PTX. A driver compiles PTX of the release that it belongs to and of
//! earlier ones.
//!
//! Source: the release history in NVIDIA's manual "PTX ISA" of CUDA 13.5.

/// Versions of PTX, each with the CUDA release that introduced it.
#[rustfmt::skip]
const RELEASES: [((u16, u16), (u16, u16)); 47] = [
    ((1, 0), (1, 0)), ((1, 1), (1, 1)), ((1, 2), (2, 0)), ((1, 3), (2, 1)), ((1, 4), (2, 2)), ((2, 0), (3, 0)),
    ((2, 1), (3, 1)), ((2, 2), (3, 2)), ((2, 3), (4, 0)), ((3, 0), (4, 1)), ((3, 1), (5, 0)), ((3, 2), (5, 5)),
    ((4, 0), (6, 0)), ((4, 1), (6, 5)), ((4, 2), (7, 0)), ((4, 3), (7, 5)), ((5, 0), (8, 0)), ((6, 0), (9, 0)),
    ((6, 1), (9, 1)), ((6, 2), (9, 2)), ((6, 3), (10, 0)), ((6, 4), (10, 1)), ((6, 5), (10, 2)), ((7, 0), (11, 0)),
    ((7, 1), (11, 1)), ((7, 2), (11, 2)), ((7, 3), (11, 3)), ((7, 4), (11, 4)), ((7, 5), (11, 5)), ((7, 6), (11, 6)),
    ((7, 7), (11, 7)), ((7, 8), (11, 8)), ((8, 0), (12, 0)), ((8, 1), (12, 1)), ((8, 2), (12, 2)), ((8, 3), (12, 3)),
    ((8, 4), (12, 4)), ((8, 5), (12, 5)), ((8, 6), (12, 7)), ((8, 7), (12, 8)), ((8, 8), (12, 9)), ((9, 0), (13, 0)),
    ((9, 1), (13, 1)), ((9, 2), (13, 2)), ((9, 3), (13, 3)), ((9, 4), (13, 4)), ((9, 5), (13, 5)),
];

/// Returns the CUDA release whose driver compiles PTX of a version, as major and minor numbers, or `None` if the version
/// is not in NVIDIA's table.
pub fn cuda_of(ptx: (u16, u16)) -> Option<(u16, u16)> {
    RELEASES.iter().find(|(version, _)| *version == ptx).map(|(_, cuda)| *cuda)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_have_the_release_that_introduced_them() {
        for (ptx, cuda) in [
            ((9, 5), Some((13, 5))),
            ((9, 0), Some((13, 0))),
            ((8, 6), Some((12, 7))),
            ((8, 5), Some((12, 5))),
            ((6, 5), Some((10, 2))),
            ((5, 1), None),
            ((9, 9), None),
        ] {
            assert_eq!(cuda_of(ptx), cuda, "{ptx:?}");
        }
        assert!(RELEASES.is_sorted_by(|one, other| one.0 < other.0 && one.1 < other.1));
    }
}

//! The methods that compress whole files.

/// A method that compresses a whole file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coding {
    Gzip,
    Xz,
    Bzip2,
    Zstd,
}

impl Coding {
    /// The name of a file that is compressed with this method.
    pub(crate) const fn file_name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip file",
            Self::Xz => "xz file",
            Self::Bzip2 => "bzip2 file",
            Self::Zstd => "zstd file",
        }
    }
}

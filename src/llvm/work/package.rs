//! Packages device images into offload binaries.

use std::path::{Path, PathBuf};

use super::file_name::FileName;
use crate::base::bytes::to_u64;
use crate::base::error::{Error, Result};
use crate::base::id::OffloadKind;
use crate::base::io::input::{self, Accept, Input};
use crate::base::io::output::{self, Output, OverwriteMode};
use crate::base::io::piece::emit;
use crate::llvm::container::magic::Magic;
use crate::llvm::container::offload_binary::{self, ImageInfo, ImageKind, NewImage, Strings, Version, kind_number};
use crate::llvm::work::{NO_LIMIT, open};

/// Packages device images into offload binaries.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Package {
    /// The images in their order.
    pub images: Vec<ImageFiles>,
    /// The file to write.
    pub output: PathBuf,
    /// The number to write for HIP: 4, or 3 for readers up to LLVM 20.
    pub hip_number: u16,
}

/// Images with the same offload kind and strings, from one or more files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImageFiles {
    /// The file of each image.
    pub files: Vec<PathBuf>,
    /// The offload kind.
    pub offload_kind: Option<OffloadKind>,
    /// The keys and values, in the order of the file.
    pub strings: Strings,
}

impl Package {
    /// Packages images in the version that every release reads.
    pub fn new(images: Vec<ImageFiles>, output: impl Into<PathBuf>) -> Self {
        Self { images, output: output.into(), hip_number: kind_number(Some(OffloadKind::Hip)) }
    }

    /// Writes the offload binaries; without images, an empty file.
    ///
    /// # Errors
    /// Any [`Error`]. The output is then unchanged.
    pub fn run(&self) -> Result<()> {
        let mut inputs = Vec::new();
        for image in &self.images {
            if image.files.is_empty() {
                // The wording is LLVM's.
                return Err(Error::usage("'file' is a required image arguments"));
            }
            for file in &image.files {
                inputs.push((image, open(file, Accept::Any, NO_LIMIT)?));
            }
        }
        let staged = self.stage(&inputs);
        output::commit(vec![input::unless_changed(inputs.iter().map(|(_, input)| input), staged)?])
    }

    /// Writes the offload binaries, but does not put them in place.
    fn stage(&self, inputs: &[(&ImageFiles, Input)]) -> Result<Output> {
        let mut images = Vec::with_capacity(inputs.len());
        for (image, input) in inputs {
            images.push(NewImage { info: self.info_of(image, input), content: input.as_slice() });
        }
        // The mode depends only on whether the output is empty, and without images it is.
        let overwrite = OverwriteMode::for_len(to_u64(images.len()));
        let mut output = Output::stage_as(&self.output, overwrite)?;
        emit(&offload_binary::plan(Version::V1, &images)?, &mut output)?;
        Ok(output)
    }

    /// Returns the header fields of an image for one of its files. The number for HIP depends on who is to read it. This
    /// tool sets no flags.
    fn info_of(&self, image: &ImageFiles, input: &Input) -> ImageInfo {
        let kind_number = match image.offload_kind {
            Some(OffloadKind::Hip) => self.hip_number,
            kind => kind_number(kind),
        };
        let image_kind = image_kind(input.path(), input.bytes());
        ImageInfo { image_kind, kind_number, flags: 0, strings: image.strings.clone() }
    }
}

/// Identifies the kind of an image as LLVM does: bitcode by content, because clang may name it `.o`, and any other kind
/// by the extension of the file.
fn image_kind(path: &Path, content: &[u8]) -> ImageKind {
    if Magic::identify(content) == Magic::Bitcode {
        return ImageKind::Bitcode;
    }
    let extension = FileName::of(path.as_os_str().as_encoded_bytes()).extension;
    ImageKind::from_extension(extension.strip_prefix(b".").unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_of_an_image_is_told_by_content_then_by_name() {
        for (path, content, kind) in [
            ("a.o", "BC\u{c0}\u{de}", ImageKind::Object),
            ("a.o", "", ImageKind::Object),
            ("dir.o/a", "", ImageKind::None),
            (".o", "", ImageKind::Object),
            ("a.tar.cubin", "", ImageKind::Cubin),
            ("a.", "", ImageKind::None),
            ("a.spv", "", ImageKind::None),
            ("a.O", "", ImageKind::None),
            ("-", "", ImageKind::None),
        ] {
            assert_eq!(image_kind(Path::new(path), content.as_bytes()), kind, "{path}");
        }
        assert_eq!(image_kind(Path::new("a.o"), b"BC\xc0\xde"), ImageKind::Bitcode);
    }
}

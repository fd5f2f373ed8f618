//! Writes offload binaries again, with another image.

use std::ops::Range;

use crate::base::error::{Error, Malformed, Result, WithPath};
use crate::base::io::input::Slice;
use crate::base::io::piece::{Piece, total_len};
use crate::llvm::container::offload_binary::read::read_header;
use crate::llvm::container::offload_binary::{NewImage, OffloadBinary, plan};
use crate::llvm::container::records::Encoding;
use crate::llvm::container::{Container as _, Part};

/// The field of the header with the size of the offload binary.
const SIZE: Range<usize> = 8..16;

/// Plans the plain offload binary in `data` again, with other content for the image `index`. The result is padded to at
/// least `min_len` bytes, so that it can keep its length although the new image is smaller.
///
/// # Errors
/// [`ErrorKind::Malformed`](crate::ErrorKind::Malformed) if `data` does not begin with an offload binary.
pub(crate) fn plan_with<'a>(data: Slice<'a>, index: usize, content: Slice<'a>, min_len: u64) -> Result<Vec<Piece<'a>>> {
    let header = read_header(data.bytes(), data.offset()).with_path(data.path())?;
    let contents = OffloadBinary::default().read(data.bytes(), data.len(), data.offset()).with_path(data.path())?;
    let (Some(header), Some(contents)) = (header, contents) else {
        return Err(Error::malformed(data.path(), Malformed::at("no offload binary", data.offset())));
    };
    let mut images = Vec::with_capacity(contents.entries.len());
    for (position, entry) in contents.entries.into_iter().enumerate() {
        let content = match entry.parts.as_slice() {
            _ if position == index => content,
            [Part::Range(range)] => data.claimed(range)?,
            _ => return Err(Error::internal("an image of an offload binary has no range")),
        };
        // Each entry of an offload binary has an `image`. Its default is never used.
        images.push(NewImage { info: entry.image.map(|info| *info).unwrap_or_default(), content });
    }
    let mut pieces = plan(header.version, &images)?;
    let len = total_len(&pieces)?;
    if len < min_len {
        let size = match pieces.first_mut() {
            Some(Piece::Bytes(head)) => head.get_mut(SIZE),
            _ => None,
        };
        let Some(size) = size else { return Err(Error::internal("an offload binary begins without a header")) };
        Encoding::LITTLE_64.write(min_len, size);
        pieces.push(Piece::Zeros(min_len.saturating_sub(len)));
    }
    Ok(pieces)
}

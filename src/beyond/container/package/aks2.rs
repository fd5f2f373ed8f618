//! Reads AKS2 files: kernels of AOTriton, each compiled for one GPU, in one xz stream.
//!
//! | offset | width | meaning |
//! |---|---|---|
//! | 0 | 4 | magic `AKS2` |
//! | 4 | 4 | size of the inflated stream |
//! | 8 | 4 | number of kernels |
//! | 12 | 4 | size of the directory |
//! | 16 | | an xz stream: the directory, then the images |
//! | | | the directory has an entry for each kernel: |
//! | +0, +4 | 4 | shared memory in bytes, and threads of a workgroup |
//! | +8, +12 | 4 | image: offset from the end of the directory, size |
//! | +16 | 4 | length of the name with its NUL |
//! | +20 | | the name |
//!
//! Integers are little-endian. A kernel that could not be compiled has no image: its size is 0. Sources: the reader and
//! writer of AOTriton 0.12; files of version 0.11.2.
//!
//! Rejected: a directory that is not as long as its entries, or longer than 64 MiB. Reported in addition to the other
//! kernels: images that end beyond the data or share bytes, and names that do not end with their only NUL.

use std::io::{self, Read};
use std::ops::Range;

use crate::base::bytes::{Bounds, Cursor, to_u64};
use crate::base::display::shown;
use crate::base::error::Malformed;
use crate::llvm::container::limits::{HEADER_MAX, NAME_MAX, check_entry_count};

/// The first bytes of a file.
pub(crate) const MAGIC: [u8; 4] = *b"AKS2";

/// The lengths of the header and of a directory entry without its name, in bytes.
pub(crate) const HEADER_LEN: u64 = 16;
const ENTRY_LEN: u64 = 20;

/// The header of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// The sizes in bytes of the inflated stream, and of the directory at its start.
    pub(crate) inflated_len: u64,
    pub(crate) directory_len: u64,
    /// The number of kernels in the directory.
    kernel_count: u64,
}

/// A kernel that has an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Aks2Kernel {
    pub(crate) name: Vec<u8>,
    /// The image, counted from the end of the directory.
    pub(crate) image: Range<u64>,
}

impl Header {
    /// Reads the header of a file, and checks its numbers. `base` is the offset of the file. The outer error is one of
    /// the reader, and the inner error a fault of the header.
    pub(crate) fn read(reader: &mut impl Read, base: u64) -> io::Result<Result<Self, Malformed>> {
        let mut header = [0; 16];
        reader.read_exact(&mut header)?;
        Ok(Self::parse(&header, base))
    }

    /// Parses the 16 bytes of a header, which are at the offset `base`, and checks its numbers.
    fn parse(header: &[u8], base: u64) -> Result<Self, Malformed> {
        let mut fields = Cursor::new(header, base);
        fields.take(to_u64(MAGIC.len()), "magic")?;
        let inflated_len = fields.u32("inflated size")?.into();
        let kernel_count = fields.u32("number of kernels")?.into();
        let kernel_count_at = fields.last();
        check_entry_count(kernel_count, kernel_count_at)?;
        let directory_len = fields.u32("size of the directory")?.into();
        let min_len = kernel_count.saturating_mul(ENTRY_LEN);
        // The directory is kept in memory, so it is limited like the headers of other containers.
        if directory_len < min_len || directory_len > HEADER_MAX.min(inflated_len) {
            let expected = "room for all kernels, no more than the inflated size and 64 MiB";
            return Err(fields.invalid("size of the directory", directory_len, expected));
        }
        Ok(Self { inflated_len, directory_len, kernel_count })
    }

    /// Returns the kernels of a directory that have images, in the order of their images, and the faults of the others.
    pub(crate) fn kernels(&self, directory: &[u8]) -> Result<(Vec<Aks2Kernel>, Vec<Malformed>), Malformed> {
        let images = Bounds { base: self.directory_len, len: self.inflated_len.saturating_sub(self.directory_len) };
        let (mut kernels, mut faults) = (Vec::new(), Vec::new());
        // The directory begins the inflated data, from whose start all offsets in errors count.
        let mut fields = Cursor::new(directory, 0);
        for _ in 0..self.kernel_count {
            // Shared memory and the number of threads, which are not used here.
            fields.take(8, "what a kernel needs")?;
            let offset = fields.u32("offset of an image")?.into();
            let size = fields.u32("size of an image")?.into();
            let name_len = fields.u32("length of a name")?;
            let name = fields.take(name_len.into(), "name of a kernel")?;
            let name_at = fields.last();
            match name.split_last() {
                Some((0, name)) if !name.contains(&0) && name.len() <= NAME_MAX => {
                    match images.claim(offset, size, image_of(name)) {
                        Ok(image) if size > 0 => kernels.push(Aks2Kernel { name: name.to_vec(), image }),
                        // The kernel could not be compiled.
                        Ok(_) => {}
                        Err(fault) => faults.push(fault),
                    }
                }
                _ => {
                    let problem = ", expected up to 4096 bytes and a NUL";
                    faults.push(Malformed::fault("the name of a kernel", name_at, problem));
                }
            }
        }
        if fields.remaining() > 0 {
            let found = fields.remaining();
            return Err(Malformed::value("bytes in the directory after all kernels", found, fields.offset(), "0"));
        }
        // Sorted by their starts, images share bytes if one begins before an earlier one ends.
        kernels.sort_by_key(|kernel| kernel.image.start);
        let mut end = 0;
        kernels.retain(|kernel| {
            if kernel.image.start < end {
                let at = images.absolute(kernel.image.start);
                faults.push(Malformed::fault(image_of(&kernel.name), at, " shares bytes with the one before"));
                return false;
            }
            end = kernel.image.end;
            true
        });
        Ok((kernels, faults))
    }
}

/// The image of a kernel, for messages.
fn image_of(name: &[u8]) -> String {
    format!("the image of kernel '{}'", shown(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(numbers: [u32; 3]) -> Result<Header, Malformed> {
        let data = [MAGIC, numbers[0].to_le_bytes(), numbers[1].to_le_bytes(), numbers[2].to_le_bytes()].concat();
        Header::read(&mut data.as_slice(), 7).unwrap()
    }

    fn entry(offset: u32, size: u32, name: &[u8]) -> Vec<u8> {
        let len = u32::try_from(name.len()).unwrap();
        [&[8192, 64, offset, size, len].map(u32::to_le_bytes).concat(), name].concat()
    }

    /// Reads the names and images of a directory before 100 bytes of images, and its faults.
    fn read(entries: &[Vec<u8>]) -> (Vec<(String, Range<u64>)>, Vec<String>) {
        let directory = entries.concat();
        let len = u32::try_from(directory.len()).unwrap();
        let header = header([len + 100, u32::try_from(entries.len()).unwrap(), len]).unwrap();
        let (kernels, faults) = header.kernels(&directory).unwrap();
        let kernels = kernels.into_iter().map(|kernel| (String::from_utf8(kernel.name).unwrap(), kernel.image));
        (kernels.collect(), faults.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn kernels_are_in_the_order_of_their_images() {
        let (kernels, faults) = read(&[entry(60, 40, b"b\0"), entry(0, 0, b"none\0"), entry(0, 60, b"a\0")]);
        assert_eq!(kernels, [("a".to_owned(), 0..60), ("b".to_owned(), 60..100)]);
        assert_eq!(faults, [""; 0]);
    }

    #[test]
    fn faults_of_one_kernel_hide_no_other() {
        let long = [&[b'n'; NAME_MAX + 1][..], b"\0"].concat();
        let (kernels, faults) = read(&[
            entry(0, 60, b"a\0"),
            entry(59, 2, b"shared\0"),
            entry(99, 2, b"beyond\0"),
            entry(u32::MAX, u32::MAX, b"far\0"),
            entry(60, 1, b"no NUL"),
            entry(60, 1, b"two\0NULs\0"),
            entry(60, 1, b""),
            entry(60, 1, &long),
            entry(99, 1, b"b\0"),
        ]);
        assert_eq!(kernels, [("a".to_owned(), 0..60), ("b".to_owned(), 99..100)]);
        assert_eq!(faults.len(), 7, "{faults:?}");
        assert!(faults[0].contains("kernel 'beyond'") && faults[1].contains("kernel 'far'"), "{faults:?}");
        assert!(faults[2..6].iter().all(|fault| fault.contains("expected up to 4096 bytes and a NUL")), "{faults:?}");
        assert!(faults[6].contains("kernel 'shared'") && faults[6].contains("shares bytes"), "{faults:?}");
    }

    #[test]
    fn numbers_of_the_header_have_to_fit_together() {
        assert!(header([100, 2, 60]).is_ok());
        for (numbers, at) in [
            ([100, 3, 59], "size of the directory 59 at offset 19"),
            ([59, 2, 60], "size of the directory 60 at offset 19"),
            ([u32::MAX, 2, (64 << 20) + 1], "size of the directory 67108865 at offset 19"),
            ([u32::MAX, 100_001, 64 << 20], "entry count 100001 at offset 15"),
        ] {
            let error = header(numbers).unwrap_err().to_string();
            assert!(error.starts_with(at), "{error}");
        }
        let cut = header([100, 2, 60]).unwrap();
        let one = entry(0, 1, b"name of a kernel....\0");
        assert!(cut.kernels(&one).is_err(), "an entry is missing");
        let more = [entry(0, 1, b"a\0"), entry(1, 1, b"b\0"), vec![0; 16]].concat();
        let error = cut.kernels(&more).unwrap_err().to_string();
        assert_eq!(error, "bytes in the directory after all kernels 16 at offset 44, expected 0");
    }
}

//! Writes AKS2 files from the description of their format, independent of the library.

/// The directory entry of a kernel.
pub fn entry(name: &[u8], offset: usize, size: usize) -> Vec<u8> {
    let numbers = [8192, 64, offset, size, name.len() + 1].map(|number| u32::try_from(number).unwrap().to_le_bytes());
    [&numbers.concat(), name, b"\0"].concat()
}

/// A file of a number of kernels, whose header says how long the directory and the images are.
pub fn file(count: usize, directory: &[u8], images: &[u8]) -> Vec<u8> {
    let numbers = [directory.len() + images.len(), count, directory.len()];
    let header = numbers.map(|number| u32::try_from(number).unwrap().to_le_bytes()).concat();
    [b"AKS2", header.as_slice(), &xz(&[directory, images].concat())].concat()
}

/// A file with these kernels.
pub fn kernels(kernels: &[(&[u8], &[u8])]) -> Vec<u8> {
    let (mut directory, mut images) = (Vec::new(), Vec::new());
    for (name, image) in kernels {
        directory.extend(entry(name, images.len(), image.len()));
        images.extend_from_slice(image);
    }
    file(kernels.len(), &directory, &images)
}

pub fn xz(data: &[u8]) -> Vec<u8> {
    liblzma::encode_all(data, 0).unwrap()
}

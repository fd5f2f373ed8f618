//! Writes SYCLBIN files, as DPC++ does.

use offload_bundle::container::offload_binary::{ImageInfo, ImageKind, NewImage, Version, plan};
use offload_bundle::io::write_to;

use super::formats::{number, read_number};
use super::images;

/// An IR module, or a native image if it has an architecture.
#[derive(Clone, Debug)]
pub struct Part {
    /// The number of its abstract module.
    pub module: usize,
    pub triple: String,
    pub arch: Option<String>,
    pub code: Vec<u8>,
}

impl Part {
    pub fn new(module: usize, triple: &str, arch: Option<&str>, code: &[u8]) -> Self {
        Self { module, triple: triple.to_owned(), arch: arch.map(str::to_owned), code: code.to_vec() }
    }

    /// The metadata, which are property sets.
    fn metadata(&self) -> Vec<u8> {
        let target = format!("target=2|{}\n", array(self.triple.as_bytes()));
        let text = match &self.arch {
            None => format!("[SYCLBIN/ir module metadata]\n{target}type=1|0\n"),
            Some(arch) => {
                format!("[SYCLBIN/native device code image metadata]\narch=2|{}\n{target}", array(arch.as_bytes()))
            }
        };
        text.into_bytes()
    }
}

/// A module with SPIR-V and code for a GPU.
pub fn sample() -> Vec<Part> {
    let triple = "spir64_gen-unknown-unknown";
    let native = images::zebin(images::PVC, b"code");
    vec![Part::new(0, "spir64-unknown-unknown", None, &images::spirv(5, 0)), Part::new(0, triple, Some("pvc"), &native)]
}

const GLOBAL: &[u8] = b"[SYCLBIN/global metadata]\nstate=1|2\n";

const MODULE: &[u8] = b"[SYCL/devicelib req mask]\nDeviceLibReqMask=1|0\n[SYCL/misc properties]\noptLevel=1|2\n";

/// An array of bytes in property sets: its length in bits and its bytes, in base64 that has the lowest bits first.
pub fn array(bytes: &[u8]) -> String {
    let characters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let all = [&number(bytes.len() * 8)[..], bytes].concat();
    let digits = |bytes: &[u8]| {
        let bits = read_number(bytes);
        (0..(8 * bytes.len()).div_ceil(6))
            .map(move |at| char::from(characters[usize::try_from(bits >> (6 * at) & 63).unwrap()]))
    };
    all.chunks(3).flat_map(digits).collect()
}

/// The strings and the image of an entry of an offload binary.
pub type Entry = (Vec<(&'static str, String)>, Vec<u8>);

/// An offload binary of SYCLBIN entries.
pub fn write(version: Version, entries: &[Entry]) -> Vec<u8> {
    let bytes = |(key, value): &(&str, String)| (key.as_bytes().to_vec(), value.as_bytes().to_vec());
    let image = |(strings, content): &Entry| {
        let mut info = ImageInfo::default();
        (info.image_kind, info.kind_number) = (ImageKind::from_number(7), 8);
        info.strings = strings.iter().map(bytes).collect();
        (info, content.clone())
    };
    let images: Vec<_> = entries.iter().map(image).collect();
    let images: Vec<NewImage<'_>> = images
        .iter()
        .map(|(info, content)| NewImage { info: info.clone(), content: content.as_slice().into() })
        .collect();
    let mut data = Vec::new();
    write_to(&plan(version, &images).unwrap(), &mut data).unwrap();
    data
}

fn modules(parts: &[Part]) -> usize {
    parts.iter().map(|part| part.module + 1).max().unwrap_or(0)
}

/// The entries of version 2.
pub fn entries(parts: &[Part]) -> Vec<Entry> {
    let version = |role: &str| vec![("role", role.to_owned()), ("sycl_format_version", "2".to_owned())];
    let mut entries = vec![(version("global_metadata"), GLOBAL.to_vec())];
    for module in 0..modules(parts) {
        let index = || ("am_index", module.to_string());
        entries.push(([version("am_metadata"), vec![index()]].concat(), MODULE.to_vec()));
        for part in parts.iter().filter(|part| part.module == module) {
            let metadata = part.metadata();
            let content = [&number(metadata.len())[..], &metadata, &part.code].concat();
            let (role, own) = match &part.arch {
                None => ("ir", ("ir_type", "0".to_owned())),
                Some(arch) => ("native", ("arch", arch.clone())),
            };
            entries.push(([version(role), vec![index(), own, ("triple", part.triple.clone())]].concat(), content));
        }
    }
    entries
}

/// Version 2. Parts are in the order of their abstract modules.
pub fn version_2(parts: &[Part]) -> Vec<u8> {
    write(Version::V2, &entries(parts))
}

/// Version 1 as the image of an offload binary.
pub fn version_1(version: Version, parts: &[Part]) -> Vec<u8> {
    write(version, &[(Vec::new(), bare(parts))])
}

/// Returns a file of version 1. Parts come in the order of IR modules and native images.
pub fn bare(parts: &[Part]) -> Vec<u8> {
    let of = |module: usize, is_native: bool| {
        parts.iter().filter(move |part| part.module == module && part.arch.is_some() == is_native)
    };
    let count = modules(parts);
    let all: Vec<&Part> =
        [false, true].into_iter().flat_map(|native| (0..count).flat_map(move |module| of(module, native))).collect();
    let (mut metadata, mut code, mut headers) = ([GLOBAL, &MODULE.repeat(count)].concat(), Vec::new(), Vec::new());
    let mut firsts = [0_u32; 2];
    for module in 0..count {
        let at = GLOBAL.len() + module * MODULE.len();
        headers.extend([at, MODULE.len()].map(number).concat());
        for (first, is_native) in firsts.iter_mut().zip([false, true]) {
            let count = u32::try_from(of(module, is_native).count()).unwrap();
            headers.extend([count, *first].map(u32::to_le_bytes).concat());
            *first += count;
        }
    }
    for part in all {
        let own = part.metadata();
        let fields = [metadata.len(), own.len(), code.len(), part.code.len()];
        headers.extend(fields.map(number).concat());
        metadata.extend(own);
        code.extend(&part.code);
    }
    let counts = [u32::try_from(count).unwrap(), firsts[0], firsts[1], 0];
    let sizes = [metadata.len(), code.len(), 0, GLOBAL.len()];
    metadata.resize(metadata.len().next_multiple_of(8), 0);
    let head = [b"IBYS".as_slice(), &1_u32.to_le_bytes(), &counts.map(u32::to_le_bytes).concat()].concat();
    [head, sizes.map(number).concat(), headers, metadata, code].concat()
}

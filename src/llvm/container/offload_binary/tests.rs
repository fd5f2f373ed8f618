use super::*;
use crate::base::bytes::len_u64;
#[cfg(all(feature = "zlib", feature = "zstd"))]
use crate::base::codec::{Compression, Method, deflate};
use crate::base::io::input::Input;
#[cfg(all(feature = "zlib", feature = "zstd"))]
use crate::base::io::piece::{Piece, Writer};
use crate::base::io::piece::{emit, total_len};
use crate::base::testing::places;
use crate::llvm::container::Entry;
use crate::llvm::container::sequence::{Bundles, Inflate};

const VERSIONS: [Version; 3] = [Version::V1, Version::V2, Version::V3];

fn info(kind: OffloadKind, strings: &[(&str, &str)]) -> ImageInfo {
    let strings = strings.iter().map(|(key, value)| (key.as_bytes().to_vec(), value.as_bytes().to_vec())).collect();
    let kind_number = kind_number(Some(kind));
    ImageInfo { image_kind: ImageKind::Object, kind_number, flags: 7, strings }
}

/// Two images whose strings share their ends.
fn images(inputs: &[Input; 2]) -> [NewImage<'_>; 2] {
    let hip = info(OffloadKind::Hip, &[("triple", "amdgcn-amd-amdhsa"), ("arch", "gfx90a:xnack+"), ("x", "")]);
    let cuda = info(OffloadKind::Cuda, &[("triple", "nvptx64-nvidia-cuda"), ("rch", "hsa"), ("arch", "sm_70")]);
    [NewImage { info: hip, content: inputs[0].as_slice() }, NewImage { info: cuda, content: inputs[1].as_slice() }]
}

fn inputs() -> [Input; 2] {
    [Input::from_bytes("a", b"first image".to_vec()), Input::from_bytes("b", [&MAGIC[..], b"no second"].concat())]
}

fn written(version: Version) -> Vec<u8> {
    let inputs = inputs();
    let pieces = plan(version, &images(&inputs)).unwrap();
    let mut bytes = Vec::new();
    emit(&pieces, &mut bytes).unwrap();
    assert_eq!(total_len(&pieces).unwrap(), len_u64(&bytes));
    bytes
}

#[cfg(all(feature = "zlib", feature = "zstd"))]
fn compressed(method: Method) -> Vec<u8> {
    let plain = written(Version::V3);
    let mut stream = std::io::Cursor::new(Vec::new());
    let pieces = [Piece::Bytes(plain[40..].to_vec())];
    deflate(&pieces, &Compression::with_method(method), 0, &mut Writer::new(&mut stream)).unwrap();
    let stream = stream.into_inner();
    let mut data = plain[..8].to_vec();
    data.extend((40 + len_u64(&stream)).to_le_bytes());
    data.extend(&plain[16..32]);
    data.extend(len_u64(&plain).to_le_bytes());
    data.extend(stream);
    data.resize(data.len().next_multiple_of(8), 0);
    data
}

/// The images with their bytes.
type Found = Vec<(Entry, Vec<u8>)>;

/// The images, and the offset of other data after them.
fn read(data: &[u8]) -> Result<(Found, Option<u64>)> {
    let input = Input::from_bytes("in", data.to_vec());
    let container = OffloadBinary::default();
    let mut found = Vec::new();
    let mut binaries = Bundles::new(input.as_slice(), &container, Inflate::Whole);
    for binary in &mut binaries {
        let binary = binary?;
        for (index, entry) in binary.entries.iter().enumerate() {
            found.push((entry.clone(), binary.content(index)?.bytes().to_vec()));
        }
    }
    Ok((found, binaries.stopped_at()))
}

fn assert_complete(data: &[u8]) {
    let (found, stopped_at) = read(data).unwrap();
    let inputs = inputs();
    assert_eq!(found.len(), 2);
    for ((entry, content), image) in found.iter().zip(images(&inputs)) {
        assert_eq!(entry.image.as_deref(), Some(&image.info));
        assert_eq!(content, image.content.bytes());
    }
    assert_eq!(stopped_at, None);
}

#[test]
fn version_1_has_the_documented_layout() {
    let input = Input::from_bytes("a", b"image".to_vec());
    let mut info = info(OffloadKind::OpenMp, &[("triple", "x"), ("e", "le")]);
    info.image_kind = ImageKind::Cubin;
    let mut bytes = Vec::new();
    emit(&plan(Version::V1, &[NewImage { info, content: input.as_slice() }]).unwrap(), &mut bytes).unwrap();
    let mut expected = MAGIC.to_vec();
    expected.extend(1_u32.to_le_bytes());
    expected.extend([128_u64, 32, 40].map(u64::to_le_bytes).concat());
    expected.extend([3_u16, 1].map(u16::to_le_bytes).concat());
    expected.extend(7_u32.to_le_bytes());
    expected.extend([72_u64, 2, 120, 5].map(u64::to_le_bytes).concat());
    // "le" and "e" are the end of "triple".
    expected.extend([107_u64, 105, 112, 111].map(u64::to_le_bytes).concat());
    expected.extend(b"\0x\0triple\0\0\0\0\0\0\0image\0\0\0");
    assert_eq!(bytes, expected);
}

#[test]
fn what_is_written_is_read_back() {
    for version in VERSIONS {
        let data = written(version);
        assert!(data.len().is_multiple_of(8));
        assert_complete(&data);
        // Linkers align sections further than the format does.
        assert_complete(&[&data[..], &[0; 4096]].concat());
    }
    assert!(plan(Version::V1, &[]).unwrap().is_empty() && plan(Version::V2, &[]).unwrap().is_empty());
}

#[cfg(all(feature = "zlib", feature = "zstd"))]
#[test]
#[cfg_attr(miri, ignore = "compresses")]
fn compressed_ones_come_back_whatever_the_method() {
    for method in [Method::Zstd, Method::Zlib] {
        let data = compressed(method);
        assert!(data.len().is_multiple_of(8));
        assert_complete(&data);
        let two = [&data[..], &data].concat();
        assert_eq!(read(&two).unwrap().0.len(), 4);
        let mut wrong = data.clone();
        wrong[32] ^= 1;
        assert!(matches!(read(&wrong).unwrap_err().fault(), Some(Malformed::Fault { .. })));
    }
}

#[test]
fn what_follows_and_is_none_is_noticed() {
    let data = [&written(Version::V1)[..], b"garbage"].concat();
    let (found, stopped_at) = read(&data).unwrap();
    assert_eq!((found.len(), stopped_at), (2, Some(len_u64(&data) - 7)));
}

#[test]
fn both_numbers_of_hip_are_read() {
    assert_eq!(kind_number(Some(OffloadKind::Hip)), 4);
    for kind_number in [3, 4] {
        assert_eq!(ImageInfo { kind_number, ..ImageInfo::default() }.offload_kind(), Some(OffloadKind::Hip));
    }
    assert_eq!(ImageInfo { kind_number: 5, ..ImageInfo::default() }.offload_kind(), None);
}

#[test]
fn images_have_the_entry_ids_of_bundles() {
    for (kind, triple, arch, id) in [
        (OffloadKind::Hip, "amdgcn-amd-amdhsa", "gfx90a:xnack+", "hip-amdgcn-amd-amdhsa--gfx90a:xnack+"),
        (OffloadKind::OpenMp, "amdgcn-amd-amdhsa-", "gfx906", "openmp-amdgcn-amd-amdhsa--gfx906"),
        (OffloadKind::Cuda, "nvptx64-nvidia-cuda", "sm_70", "cuda-nvptx64-nvidia-cuda-unknown-sm_70"),
        (OffloadKind::Sycl, "spirv64", "", "sycl-spirv64-unknown-unknown-unknown-"),
        (OffloadKind::Sycl, "spir64_gen-unknown-unknown", "pvc", "sycl-spir64_gen-unknown-unknown-pvc"),
        (OffloadKind::OpenMp, "nonsense", "x", "openmp-nonsense-x"),
        (OffloadKind::Host, "amdgcn-amd-amdhsa", "gfx906", "none-amdgcn-amd-amdhsa-gfx906"),
    ] {
        let info = info(kind, &[("triple", triple), ("arch", arch)]);
        assert_eq!(String::from_utf8(info.entry_id()).unwrap(), id);
    }
}

#[test]
fn members_of_a_bundle_become_images() {
    let input = Input::from_bytes("a", b"\x7fELF".to_vec());
    let member = Member { id: "hip-amdgcn-amd-amdhsa--gfx90a:xnack+".to_owned(), content: input.as_slice() };
    let mut data = Vec::new();
    emit(&OffloadBinary::default().plan(&[member]).unwrap(), &mut data).unwrap();
    let (found, _) = read(&data).unwrap();
    let (entry, content) = &found[0];
    let info = entry.image.as_deref().unwrap();
    assert_eq!((info.triple(), info.arch()), (&b"amdgcn-amd-amdhsa"[..], &b"gfx90a:xnack+"[..]));
    assert_eq!((info.image_kind, info.kind_number), (ImageKind::Object, 4));
    assert_eq!(entry.id, b"hip-amdgcn-amd-amdhsa--gfx90a:xnack+");
    assert_eq!(content, b"\x7fELF");
    let cuda = Member { id: "cuda-nvptx64-nvidia-cuda-unknown-sm_70".to_owned(), content: input.as_slice() };
    let mut data = Vec::new();
    emit(&OffloadBinary::default().plan(&[cuda]).unwrap(), &mut data).unwrap();
    assert_eq!(read(&data).unwrap().0[0].0.id, b"cuda-nvptx64-nvidia-cuda-unknown-sm_70");
    for (content, kind) in [(&b"BC\xc0\xde"[..], ImageKind::Bitcode), (b"other", ImageKind::None)] {
        let input = Input::from_bytes("a", content.to_vec());
        let member = Member { id: "hip-amdgcn-amd-amdhsa--gfx90a".to_owned(), content: input.as_slice() };
        let mut data = Vec::new();
        emit(&OffloadBinary::default().plan(&[member]).unwrap(), &mut data).unwrap();
        assert_eq!(read(&data).unwrap().0[0].0.image.as_deref().unwrap().image_kind, kind);
    }
    let other = Member { id: "something else".to_owned(), content: input.as_slice() };
    assert!(OffloadBinary::default().plan(&[other]).is_err());
}

#[test]
fn a_prefix_asks_for_more_until_the_strings_are_there() {
    for version in VERSIONS {
        let data = written(version);
        let container = OffloadBinary::default();
        let whole = container.read(&data, len_u64(&data), 0).unwrap();
        for end in places(&data).filter(|&end| end >= MAGIC.len()) {
            match container.read(&data[..end], len_u64(&data), 0) {
                Ok(contents) => assert_eq!(contents, whole),
                Err(error) => assert!(matches!(error, Malformed::Truncated { .. }), "{end}: {error}"),
            }
        }
    }
}

#[test]
fn damage_is_an_error_or_gives_images_from_the_file() {
    for whole in VERSIONS.map(written) {
        let (images, _) = read(&whole).unwrap();
        for at in places(&whole) {
            let cut = read_or_none(&whole[..at]);
            assert!(images.starts_with(&cut) && cut.len() < images.len(), "cut at {at}");
            for flipped in flipped(&whole, at) {
                for (_, content) in read_or_none(&flipped) {
                    assert!(memchr::memmem::find(&flipped, &content).is_some(), "{at}: {content:?}");
                }
            }
        }
    }
}

#[cfg(all(feature = "zlib", feature = "zstd"))]
#[test]
#[cfg_attr(miri, ignore = "zstd is C, and inflating is slow")]
fn damage_of_compressed_images_is_an_error_or_gives_no_more_bytes() {
    for whole in [Method::Zlib, Method::Zstd].map(compressed) {
        let (images, _) = read(&whole).unwrap();
        for at in places(&whole) {
            // Only the padding at the end may be missing.
            let cut = read_or_none(&whole[..at]);
            assert!(cut.is_empty() || cut == images && at + 8 > whole.len(), "cut at {at}");
            for flipped in flipped(&whole, at) {
                let found = read_or_none(&flipped);
                assert!(
                    found.is_empty() || found.len() == images.len() && content_len(&found) <= content_len(&images),
                    "{at}: {found:?}"
                );
            }
        }
    }
}

#[cfg(all(feature = "zlib", feature = "zstd"))]
fn content_len(found: &Found) -> usize {
    found.iter().map(|(_, content)| content.len()).sum()
}

/// The images, or an empty list after an error.
fn read_or_none(data: &[u8]) -> Found {
    match read(data) {
        Ok((found, _)) => found,
        Err(_) => Vec::new(),
    }
}

/// The bytes with a change of one byte: of its lowest bit, of its highest bit, and of all bits.
fn flipped(whole: &[u8], at: usize) -> impl Iterator<Item = Vec<u8>> {
    [1, 0x80, 0xff].into_iter().map(move |flip| {
        let mut flipped = whole.to_vec();
        flipped[at] ^= flip;
        flipped
    })
}

#[test]
fn claims_are_checked_before_they_are_used() {
    for (version, position, value, text) in [
        (Version::V1, 8, 1_u64 << 40, "the offload binary needs 1099511627776 bytes at offset 0"),
        (Version::V2, 24, 1 << 60, "the table of entries needs"),
        (Version::V1, 48, 1 << 60, "the table of strings of image 0 needs"),
        (Version::V1, 24, 1 << 40, "the table of entries needs 1099511627776 bytes at offset 32"),
        (Version::V1, 64, u64::MAX, "image 0 needs 18446744073709551615 bytes"),
    ] {
        let mut data = written(version);
        data[position..position + 8].copy_from_slice(&value.to_le_bytes());
        let error = read(&data).unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    }
}

fn put_number(data: &mut [u8], at: usize, value: usize) {
    data[at..at + 8].copy_from_slice(&u64::try_from(value).unwrap().to_le_bytes());
}

#[test]
fn entries_that_share_images_or_strings_make_no_more_of_them() {
    let whole = written(Version::V2);
    // Each image is the whole offload binary.
    let mut data = whole.clone();
    for entry in [32, 72] {
        put_number(&mut data, entry + 24, 0);
        put_number(&mut data, entry + 32, whole.len());
    }
    let error = read(&data).unwrap_err().to_string();
    assert!(error.contains("size of an image"), "{error}");
    // The two entries share the string entries, which fill the space after the entries. Their strings are empty.
    let mut data = whole.clone();
    let count = (data.len() - 112) / 24;
    for entry in [32, 72] {
        put_number(&mut data, entry + 8, 112);
        put_number(&mut data, entry + 16, count);
    }
    data[112..].fill(0);
    for string in 0..count {
        for field in 0..2 {
            put_number(&mut data, 112 + string * 24 + field * 8, 96);
        }
    }
    let error = read(&data).unwrap_err().to_string();
    assert!(error.contains("size of a table of strings"), "{error}");
    assert!(read::read_with_limit(&whole, len_u64(&whole), 0, 1000).is_ok());
    let error = read::read_with_limit(&whole, len_u64(&whole), 0, 20).unwrap_err().to_string();
    assert!(error.contains("length of a string"), "{error}");
}

#[cfg(all(feature = "zlib", feature = "zstd"))]
#[test]
fn the_inflated_size_counts_the_header() {
    let whole = compressed(Method::Zstd);
    for inflated in [1, 39, 40] {
        let mut data = whole.clone();
        data[32..40].copy_from_slice(&u64::to_le_bytes(inflated));
        let said = read(&data).unwrap_err().to_string();
        assert_eq!(said.contains("inflated size") && said.contains("offset 32"), inflated < 40, "{inflated}: {said}");
    }
}

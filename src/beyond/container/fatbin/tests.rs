use super::*;
use crate::base::io::piece::{Piece, Writer};
use crate::beyond::codec::StreamForm;
use crate::beyond::container::SearchBundles;
use crate::llvm::container::sequence::Inflate;

const FLAG_ZLIB: u64 = 0x1000;
const FLAG_LZ4: u64 = 0x2000;
const FLAG_ZSTD: u64 = 0x8000;
const FLAG_UNKNOWN_METHOD: u64 = 0x4000;

/// An entry to write.
#[derive(Clone)]
struct Code {
    kind: u16,
    sm: u32,
    flags: u64,
    source: &'static str,
    content: Vec<u8>,
}

fn code(kind: u16, sm: u32, flags: u64, content: &[u8]) -> Code {
    Code { kind, sm, flags: flags | FLAG_64_BIT, source: "", content: content.to_vec() }
}

/// Makes a small ELF file for an SM architecture, which ends at an odd offset.
fn cubin(sm: u8, fill: usize) -> Vec<u8> {
    let mut elf = b"\x7fELF\x02\x01\x01\x41\x08".to_vec();
    elf.resize(64, 0);
    (elf[18], elf[49]) = (190, sm);
    (elf[52], elf[54], elf[58]) = (64, 56, 64);
    elf.extend(vec![sm; fill]);
    // One program header, at the end.
    let end = u64::try_from(elf.len()).unwrap();
    elf[32..40].copy_from_slice(&end.to_le_bytes());
    elf[56] = 1;
    elf.extend([0; 56]);
    elf
}

fn zstd(data: &[u8]) -> Vec<u8> {
    Codec::Zstd.compress(data, 3, "x".as_ref()).unwrap()
}

fn padded(mut data: Vec<u8>) -> Vec<u8> {
    data.resize(data.len().next_multiple_of(8), 0);
    data
}

/// Makes the header of an entry or record: the field at offset 4, the stored, exact and inflated lengths.
fn header(code: &Code, at_4: Option<u32>, stored: usize, exact: usize, inflated: usize) -> Vec<u8> {
    let source = if code.source.is_empty() { vec![] } else { padded([code.source.as_bytes(), b"\0"].concat()) };
    let mut header = Vec::new();
    header.extend(code.kind.to_le_bytes());
    header.extend([1, 1]);
    header.extend(at_4.unwrap_or(64 + u32::try_from(source.len()).unwrap()).to_le_bytes());
    header.extend(u64::try_from(stored).unwrap().to_le_bytes());
    header.extend(u32::try_from(exact).unwrap().to_le_bytes());
    header.extend([0; 8]);
    header.extend(code.sm.to_le_bytes());
    header.extend(if source.is_empty() { [0; 4] } else { 64_u32.to_le_bytes() });
    header.extend(u32::try_from(code.source.len()).unwrap().to_le_bytes());
    header.extend(code.flags.to_le_bytes());
    header.extend([0; 8]);
    header.extend(u64::try_from(inflated).unwrap().to_le_bytes());
    [header, source].concat()
}

fn entry(code: &Code) -> Vec<u8> {
    let stored = match code.flags & (FLAG_ZLIB | FLAG_LZ4 | FLAG_ZSTD) {
        0 => {
            return [header(code, None, code.content.len().next_multiple_of(8), 0, 0), padded(code.content.clone())]
                .concat();
        }
        FLAG_LZ4 => Codec::Lz4.compress(&code.content, 0, "x".as_ref()).unwrap(),
        FLAG_ZSTD => zstd(&code.content),
        _ => {
            let write =
                |to: &mut dyn std::io::Write| crate::base::io::write_to(&[Piece::Bytes(code.content.clone())], to);
            StreamForm::Zlib.write(1, Vec::new(), "x".as_ref(), write).unwrap()
        }
    };
    let (exact, inflated) = (stored.len(), code.content.len());
    let stored = padded(stored);
    [header(code, None, stored.len(), exact, inflated), stored].concat()
}

/// Makes an entry with code objects that are compressed together.
fn concatenated(parts: &[Code]) -> Vec<u8> {
    let (mut whole, mut records) = (Vec::new(), Vec::new());
    for part in parts {
        let content = padded(part.content.clone());
        records.extend(header(part, Some(u32::try_from(whole.len()).unwrap()), content.len(), 0, 0));
        whole.extend(content);
    }
    let packed = zstd(&whole);
    let (exact, outer) = (packed.len(), code(256, 0, FLAG_ZSTD, &[]));
    let packed = padded(packed);
    let header_len = u32::try_from(72 + records.len()).unwrap();
    let mut entry = header(&outer, Some(header_len), packed.len(), exact, whole.len());
    entry.extend(u32::try_from(parts.len()).unwrap().to_le_bytes());
    entry.extend((header_len - 64).to_le_bytes());
    [entry, records, packed].concat()
}

fn fatbin(entries: &[Vec<u8>]) -> Vec<u8> {
    let entries = entries.concat();
    [&MAGIC[..], &[1, 0, 16, 0], &u64::try_from(entries.len()).unwrap().to_le_bytes(), &entries].concat()
}

const PTX: &[u8] = b".version 8.7\n.target sm_90\n.address_size 64\n\0";

fn large_code(sm: u8) -> Code {
    Code { source: "a.cu", ..code(2, sm.into(), 0, &cubin(sm, 901)) }
}

/// Makes a fatbin with each kind of entry.
fn sample() -> Vec<u8> {
    fatbin(&[
        entry(&code(1, 90, 0, PTX)),
        entry(&code(1, 90, FLAG_ARCHITECTURE | FLAG_ZSTD, PTX)),
        entry(&Code { source: "dir/b.cu", ..code(2, 80, 0, &cubin(80, 5)) }),
        entry(&code(2, 100, FLAG_FAMILY | FLAG_LZ4, &cubin(100, 700))),
        entry(&code(16, 120, FLAG_ZLIB, &cubin(120, 3))),
        concatenated(&[large_code(75), large_code(86), large_code(89)]),
        entry(&code(8, 90, 0, b"\xedCN\x7flto ir")),
        concatenated(&[code(1, 86, 0, PTX), code(1, 120, FLAG_FAMILY, PTX)]),
        entry(&code(32, 90, 0, b"of no known kind")),
        entry(&code(64, 90, FLAG_ZSTD, PTX)),
        entry(&code(128, 100, 0, b"Tile IR.")),
    ])
}

/// The ID, the source and the content of a code object.
type EntryCode = (String, String, Vec<u8>);

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns the code objects, and the errors.
fn read(data: &[u8]) -> (Vec<EntryCode>, Vec<String>) {
    let (mut found, mut errors) = (Vec::new(), Vec::new());
    for bundle in SearchBundles::new(data, &Fatbin, Inflate::Headers) {
        match bundle {
            Err(error) => errors.push(error.to_string()),
            Ok(bundle) => {
                errors.extend(bundle.faults.iter().map(ToString::to_string));
                for (index, entry) in bundle.entries.iter().enumerate() {
                    match bundle.bytes(index) {
                        Ok(bytes) => {
                            assert!(entry.size() - len_u64(&bytes) <= 8);
                            let source = text(&entry.cuda.as_ref().unwrap().source);
                            found.push((text(entry.id()), source, bytes.into_owned()));
                        }
                        Err(error) => errors.push(error.to_string()),
                    }
                }
            }
        }
    }
    (found, errors)
}

fn rewritten(data: &[u8], keeps: impl Fn(usize) -> bool, packing: CodePacking) -> Vec<u8> {
    let mut out = std::io::Cursor::new(Vec::new());
    let len = rewrite(data.into(), keeps, packing, u64::MAX, &mut Writer::new(&mut out)).unwrap();
    assert_eq!(len, len_u64(out.get_ref()));
    out.into_inner()
}

const SMALLEST: CodePacking = CodePacking::Smallest { codec: None, level: 3 };

#[test]
fn every_form_is_read() {
    let (found, errors) = read(&[sample(), vec![0; 24], sample()].concat());
    assert_eq!(errors, [""; 0]);
    let ids: Vec<_> = found.iter().map(|(id, source, _)| format!("{id} {source}")).collect();
    let names = [
        "compute_90 ",
        "compute_90a ",
        "sm_80 dir/b.cu",
        "sm_100f ",
        "sm_120 ",
        "sm_75 a.cu",
        "sm_86 a.cu",
        "sm_89 a.cu",
        "lto_90 ",
        "compute_86 ",
        "compute_120f ",
        "kind32_90 ",
        "compute_90 ",
        "tileir_100 ",
    ];
    let expected: Vec<_> = names.iter().map(|name| format!("cuda-nvptx64-nvidia-cuda--{name}")).collect();
    assert_eq!(ids, [&expected[..], &expected].concat());
    let without_zero = &PTX[..PTX.len() - 1];
    assert!(found[0].2 == without_zero && found[1].2 == without_zero);
    assert!(found[2].2 == cubin(80, 5) && found[3].2 == cubin(100, 700) && found[4].2 == cubin(120, 3));
    assert!(found[6].2 == cubin(86, 901));
    assert!(found[12].2 == without_zero);
}

#[test]
fn rewritten_fatbins_hold_the_same_code() {
    let data = sample();
    let (all, _) = read(&data);
    let packings = [
        SMALLEST,
        CodePacking::Smallest { codec: Some(Codec::Lz4), level: 3 },
        CodePacking::Smallest { codec: Some(Codec::Zstd), level: 19 },
        CodePacking::Plain,
    ];
    for packing in packings {
        for kept in (0_u32..4096).step_by(31) {
            let out = rewritten(&data, |index| kept & (1 << index) != 0, packing);
            let (found, errors) = read(&out);
            assert_eq!(errors, [""; 0], "{packing:?} {kept:b}");
            let mut expected = Vec::new();
            for (index, code) in all.iter().enumerate() {
                if kept & (1 << index) != 0 {
                    expected.push(code.clone());
                }
            }
            assert!(found == expected, "{packing:?} {kept:b}");
            assert!(packing == CodePacking::Plain || out.len() <= data.len(), "{packing:?} {kept:b}");
        }
    }
}

#[test]
fn code_whose_end_only_compression_records_stays_compressed() {
    for content in [&b"no ELF file"[..], b"LTO-IR of 19 bytes."] {
        for kind in [2, 8, 32] {
            let data = fatbin(&[entry(&code(kind, 80, FLAG_ZSTD, content))]);
            for packing in [SMALLEST, CodePacking::Plain] {
                assert!(read(&rewritten(&data, |_| true, packing)) == read(&data), "{kind} {packing:?}");
            }
        }
    }
}

#[test]
fn code_objects_compressed_together_share_no_bytes() {
    let part = code(2, 80, 0, &cubin(80, 8000));
    let stored = padded(part.content.clone());
    let records = header(&part, Some(0), stored.len(), 0, 0).repeat(100);
    let numbers = [100_u32, u32::try_from(records.len() + 8).unwrap()].map(u32::to_le_bytes).concat();
    let outer = header(&code(256, 0, 0, &[]), Some(u32::try_from(72 + records.len()).unwrap()), stored.len(), 0, 0);
    let data = fatbin(&[[outer, numbers, records, stored].concat()]);
    let expected = "offset of a code object compressed with others 0 at";
    let (found, errors) = read(&data);
    assert!(found.is_empty() && errors.len() == 1 && errors[0].contains(expected), "{errors:?}");
    for packing in [SMALLEST, CodePacking::Plain] {
        let mut out = std::io::Cursor::new(Vec::new());
        let error =
            rewrite(data.as_slice().into(), |_| true, packing, u64::MAX, &mut Writer::new(&mut out)).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn a_plain_fatbin_is_restored() {
    let entries =
        [code(1, 90, 0, PTX), code(2, 80, 0, &cubin(80, 2000)), code(2, 90, FLAG_ARCHITECTURE, &cubin(90, 11))];
    let plain = fatbin(&entries.each_ref().map(entry));
    // The PTX gets no smaller.
    for codec in [Codec::Lz4, Codec::Zstd] {
        let packed = rewritten(&plain, |_| true, CodePacking::Smallest { codec: Some(codec), level: 3 });
        assert!(packed.len() < plain.len(), "{codec:?}");
        assert!(rewritten(&packed, |_| true, CodePacking::Plain) == plain, "{codec:?}");
    }
}

#[test]
fn a_fault_leaves_the_rest_readable() {
    let good = entry(&code(2, 80, 0, &cubin(80, 5)));
    let unknown = entry(&code(2, 90, 0x4000, b"of no known method"));
    let mut source = entry(&Code { source: "a.cu", ..code(2, 90, 0, &cubin(90, 5)) });
    source[36] = 200;
    let mut longer = good.clone();
    longer[8] = 0xff;
    for (broken, error) in [
        (&unknown, "its compression is not known, or it is obfuscated"),
        (&source, "the identifier of a fatbin entry needs 200 bytes"),
        (&longer, "the code object of a fatbin entry needs 255 bytes"),
    ] {
        let (found, errors) =
            read(&[fatbin(&[good.clone(), broken.clone()]), fatbin(std::slice::from_ref(&good))].concat());
        assert_eq!((found.len(), errors.len()), (2, 1), "{errors:?}");
        assert!(errors[0].contains(error), "{errors:?}");
        if broken == &source {
            assert_eq!(read(&fatbin(&[broken.clone(), good.clone()])).0.len(), 1, "{error}");
        }
    }
}

#[test]
fn a_fatbin_that_ends_early_gives_its_complete_code_objects() {
    let data = sample();
    let (all, _) = read(&data);
    for len in 0..data.len() {
        let (found, errors) = read(&data[..len]);
        assert!(found.len() < all.len() && found == all[..found.len()], "{len}");
        assert_eq!(errors.len(), usize::from(len >= MAGIC.len()), "{len}: {errors:?}");
    }
}

#[test]
fn damage_is_an_error_or_changes_few_code_objects() {
    let data = sample();
    let (all, _) = read(&data);
    for at in MAGIC.len()..data.len() {
        for change in [0xff, 0x01, 0x80] {
            let mut changed = data.clone();
            changed[at] ^= change;
            let (found, errors) = read(&changed);
            assert!(found.len() <= all.len(), "{at}");
            assert!(errors.len() <= all.len(), "{at}: {errors:?}");
            // Nothing reads versions, padding and unknown flags.
            if !errors.is_empty() || found == all {
                continue;
            }
            let same = found.iter().filter(|code| all.contains(code)).count();
            assert!(same + 3 >= all.len(), "{at}: {same}");
        }
    }
}

#[test]
fn the_length_of_compressed_code_is_checked() {
    let whole = fatbin(&[entry(&code(2, 100, FLAG_ZSTD, &cubin(100, 701)))]);
    let stored = u64::from_le_bytes(whole[24..32].try_into().unwrap());
    for (exact, is_sound) in [(0, false), (stored, true), (stored + 1, false), (u32::MAX.into(), false)] {
        let mut data = whole.clone();
        data[32..36].copy_from_slice(&u64::to_le_bytes(exact)[..4]);
        let errors = read(&data).1.concat();
        let is_reported = errors.contains("length of a compressed code object") && errors.contains("offset 32");
        assert_eq!(is_reported, !is_sound, "{exact}: {errors}");
    }
}

#[test]
fn the_size_of_unknown_compression_is_the_recorded_one_if_there_is_one() {
    for (flags, inflated, expected) in
        [(FLAG_UNKNOWN_METHOD, 0, 8), (FLAG_UNKNOWN_METHOD, 5, 5), (FLAG_ZSTD, 0, 0), (FLAG_ZSTD, 5, 5)]
    {
        let code = code(2, 90, flags, &[]);
        let data = fatbin(&[[header(&code, None, 8, 8, inflated), vec![0; 8]].concat()]);
        let bundle = SearchBundles::new(&data[..], &Fatbin, Inflate::Headers).next().unwrap().unwrap();
        assert_eq!(bundle.entries[0].packed.as_ref().unwrap().inflated, expected, "{flags:#x} {inflated}");
    }
}

/// Returns the entries of a fatbin: the kind, the flag of the compression, and the stored bytes.
fn forms(data: &[u8]) -> Vec<(CudaKind, u64, &[u8])> {
    let compressions = FLAG_ZLIB | FLAG_LZ4 | FLAG_ZSTD;
    let mut forms = Vec::new();
    for record in Record::all(data, 0, HEADER_LEN..len_u64(data)) {
        let record = record.unwrap();
        let stored = record.stored().unwrap();
        let bytes = slice(data, stored.start, stored.end - stored.start).unwrap();
        forms.push((record.kind(), record.fields.flags & compressions, bytes));
    }
    forms
}

/// Makes a cubin with random bytes, each below `end`.
fn random_cubin(sm: u8, fill: usize, end: u8) -> Vec<u8> {
    let mut cubin = cubin(sm, fill);
    let mut number = 1_u32;
    for byte in &mut cubin[64..64 + fill] {
        number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        *byte = number.to_be_bytes()[0] % end;
    }
    cubin
}

/// Rewrites a fatbin, and returns flag and stored bytes of its entries.
fn rewritten_forms(data: &[u8], packing: CodePacking) -> Vec<(u64, Vec<u8>)> {
    let out = rewritten(data, |_| true, packing);
    assert!(read(&out).0 == read(data).0, "{packing:?}");
    forms(&out).into_iter().map(|(_, flag, stored)| (flag, stored.to_vec())).collect()
}

#[test]
fn the_form_is_the_smallest_that_the_method_allows() {
    let [lz4, zstd] = [Codec::Lz4, Codec::Zstd].map(|codec| CodePacking::Smallest { codec: Some(codec), level: 3 });
    // No method makes this PTX smaller, so it becomes plain, also from zstd.
    let mut noise: Vec<u8> = random_cubin(80, 2000, 255)[64..2064].iter().map(|byte| byte + 1).collect();
    noise.push(0);
    for flag in [0, FLAG_ZLIB, FLAG_LZ4, FLAG_ZSTD] {
        for packing in [lz4, zstd] {
            let forms = rewritten_forms(&fatbin(&[entry(&code(1, 80, flag, &noise))]), packing);
            assert_eq!(forms, [(0, padded(noise.clone()))], "{flag:#x}");
        }
    }
    // LZ4 finds nothing in bytes of four bits.
    let nibbles = code(2, 80, 0, &random_cubin(80, 2000, 16));
    let with_zlib = fatbin(&[entry(&Code { flags: FLAG_ZLIB | FLAG_64_BIT, ..nibbles.clone() })]);
    assert!(rewritten(&with_zlib, |_| true, lz4) == with_zlib);
    let with_zstd = fatbin(&[entry(&Code { flags: FLAG_ZSTD | FLAG_64_BIT, ..nibbles.clone() })]);
    assert_ne!(rewritten_forms(&with_zstd, lz4)[0].0, FLAG_ZSTD);
    assert!(rewritten(&with_zstd, |_| true, zstd) == with_zstd);
    // A code object that is alone in an entry for several is written as a single one.
    let alone = fatbin(&[concatenated(std::slice::from_ref(&nibbles))]);
    assert_ne!(rewritten_forms(&alone, lz4)[0].0, FLAG_ZSTD);
    let pair = fatbin(&[concatenated(&[nibbles.clone(), nibbles.clone()])]);
    let plain = rewritten_forms(&pair, CodePacking::Plain);
    assert_eq!(plain.iter().map(|(flag, _)| *flag).collect::<Vec<_>>(), [0, 0]);
    assert!(plain.iter().all(|(_, stored)| stored.starts_with(&nibbles.content)));
}

#[test]
fn a_replaced_code_object_keeps_its_form_and_the_others_their_bytes() {
    let data = sample();
    let (all, _) = read(&data);
    let new_cubin = cubin(7, 5000);
    for (index, (id, source, _)) in all.iter().enumerate() {
        let content = if id.contains("compute") { &PTX[..PTX.len() - 1] } else { &new_cubin };
        let content = if id.contains("--sm") || id.contains("compute") { content } else { b"sixteen bytes..." };
        let (found, errors) = read(&rewritten(&data, |_| true, CodePacking::Replacing { index, content }));
        assert_eq!(errors, [""; 0]);
        let mut expected = all.clone();
        expected[index] = (id.clone(), source.clone(), content.to_vec());
        assert!(found == expected, "{id}");
    }
    for (flag, codec) in
        [(0, None), (FLAG_ZLIB, Some(Codec::Lz4)), (FLAG_LZ4, Some(Codec::Lz4)), (FLAG_ZSTD, Some(Codec::Zstd))]
    {
        // Only content that would be longer than the old one is compressed harder.
        let content = random_cubin(7, 3000, 5);
        for (old, level) in [(random_cubin(80, 4000, 255), 9), (cubin(80, 100), 19)] {
            let data = fatbin(&[entry(&code(2, 80, flag, &old))]);
            let out = rewritten(&data, |_| true, CodePacking::Replacing { index: 0, content: &content });
            let packed = codec.map(|codec| codec.compress(&content, level, "x".as_ref()).unwrap());
            let stored = packed.unwrap_or_else(|| padded(content.clone()));
            assert!(forms(&out)[0].2 == stored, "{flag:#x} {level}");
            // The version of the ELF file, whose ABI is 8.
            assert_eq!(out[16 + 24..16 + 28], [8, 0, 1, 0]);
        }
    }
}

#[test]
fn content_that_would_lose_its_end_or_its_attributes_is_refused() {
    /// Makes a plain cubin with a copy of its attributes in the header.
    fn with_attributes(kind: u16) -> Vec<u8> {
        let mut entry = entry(&code(kind, 100, FLAG_ATTRIBUTES, &cubin(100, 8)));
        entry[20..24].copy_from_slice(&64_u32.to_le_bytes());
        entry[4..8].copy_from_slice(&88_u32.to_le_bytes());
        let options = [&[72, 0, 0, 0, 3, 0, 0, 0][..], b"\0abc", &[0; 12]].concat();
        entry.splice(64..64, options);
        entry
    }
    let first = entry(&code(1, 90, 0, PTX));
    let at = 1000 + HEADER_LEN + len_u64(&first);
    let (ends, attributes) = ("does not record where the new content ends", "copy of the section '.nv.compat'");
    for (second, content, reason) in [
        (entry(&code(2, 80, 0, &cubin(80, 8))), &b"no ELF file"[..], Some(ends)),
        (entry(&code(1, 80, 0, PTX)), b"PTX\0", Some(ends)),
        (entry(&code(8, 80, 0, b"LTO-IR..")), b"7 bytes", Some(ends)),
        (entry(&code(8, 80, 0, b"LTO-IR..")), b"8 bytes.", None),
        (with_attributes(2), &cubin(100, 8), Some(attributes)),
        (with_attributes(8), b"8 bytes.", None),
    ] {
        let file = [&[0; 1000], &fatbin(&[first.clone(), second])[..]].concat();
        let data = Slice::from(&file).tail(1000).unwrap();
        let mut out = std::io::Cursor::new(Vec::new());
        let packing = CodePacking::Replacing { index: 1, content };
        let result = rewrite(data, |_| true, packing, u64::MAX, &mut Writer::new(&mut out));
        match reason {
            Some(reason) => {
                let error = result.unwrap_err();
                assert!(error.to_string().contains(reason), "{error}");
                assert_eq!(error.offset(), Some(at));
            }
            None => assert!(result.is_ok(), "{result:?}"),
        }
    }
}

#[test]
fn faults_are_bounded() {
    let mut broken = entry(&Code { source: "a.cu", ..code(2, 90, 0, &cubin(90, 5)) });
    broken[36] = 200;
    for count in [1, FAULTS_MAX - 1, FAULTS_MAX, FAULTS_MAX + 1] {
        let data = fatbin(&vec![broken.clone(); count]);
        let contents = Fatbin.read(&data, len_u64(&data), 0).unwrap().unwrap();
        assert_eq!(contents.faults.len(), count.min(FAULTS_MAX));
    }
}

#[test]
fn an_unknown_compression_has_the_recorded_length() {
    for (exact, expected) in [(0, 8), (5, 5), (8, 8)] {
        let data = fatbin(&[[header(&code(2, 90, FLAG_UNKNOWN_METHOD, &[]), None, 8, exact, 9), vec![0; 8]].concat()]);
        assert_eq!(forms(&data)[0].2.len(), expected);
    }
}

#[test]
fn code_objects_compressed_together_count_once() {
    let [one, two] = [75, 86].map(|sm| code(2, sm, 0, &cubin(80, 900)));
    let single = code(2, 90, FLAG_ZSTD, &cubin(90, 500));
    let data = fatbin(&[concatenated(&[one.clone(), two.clone()]), entry(&single), entry(&one), concatenated(&[two])]);
    let bundle = SearchBundles::new(&data[..], &Fatbin, Inflate::Headers).next().unwrap().unwrap();
    let packed = len_u64(&padded(one.content)) * 3 + len_u64(&single.content);
    assert_eq!((bundle.inflated_len_of_packed(), bundle.full_len().unwrap()), (packed, len_u64(&data) + packed));
    assert_eq!((bundle.stored_len().unwrap(), bundle.entries.len()), (len_u64(&data), 5));
}

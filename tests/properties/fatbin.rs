use offload_bundle::container::Codec;
use offload_bundle::container::SearchBundles;
use offload_bundle::container::fatbin::Fatbin;
use offload_bundle::container::sequence::Inflate;
use offload_bundle::container::stream::{Compression, Method};
use offload_bundle::io::Input;
use offload_bundle::job::Recompress;

use super::choices::Choices;
use super::fatbins::{self, Code};
use super::room::Room;
use super::said;
use super::search::LIMITS;

/// Any bytes that begin like a fatbin are fatbins, or errors. In all packings (their own method, LZ4, zstd, plain),
/// they hold the same code objects, with the same IDs and sources in the same order. With their own method, they are
/// not larger. Doing it again with a given method changes nothing.
///
/// From other bytes, a fatbin is written. Its code objects come back as they are, and it can be written in all
/// packings. Without PTX and compression, it is restored byte for byte.
pub fn fatbin(data: &[u8]) {
    if data.starts_with(fatbins::MAGIC) {
        repacked(data);
        return;
    }
    let (written, codes) = write(&mut Choices::new(data));
    let found: Vec<_> = codes.iter().map(|code| (code.source.clone(), Some(code.extracted().to_vec()))).collect();
    let read = read(&written);
    assert!(read.errors.is_empty(), "{:?}", read.errors);
    assert!(read.codes.into_iter().map(|(_, source, content)| (source, content)).eq(found), "read otherwise");
    let packed = repacked(&written);
    let is_plain = |code: &Code| code.kind != fatbins::PTX && code.flags & METHODS == 0;
    if let Some(packed) = packed.filter(|_| codes.iter().all(is_plain)) {
        let room = Room::with(&packed);
        assert!(recompress(&room, &PACKINGS[0]).unwrap() == written, "a plain fatbin is not restored");
    }
}

/// The flag of cubins for sm_100 and later.
const NEEDS_ATTRIBUTES: u64 = 0x100_0000;

const METHODS: u64 = fatbins::ZLIB | fatbins::LZ4 | fatbins::ZSTD;

/// Writes a fatbin.
fn write(choices: &mut Choices<'_>) -> (Vec<u8>, Vec<Code>) {
    let (mut entries, mut codes) = (Vec::new(), Vec::new());
    for _ in 0..choices.below(6) {
        let count = choices.pick(&[1, 1, 1, 2, 5]);
        let method = choices.pick(&[0, fatbins::ZSTD, fatbins::LZ4, fatbins::ZLIB]);
        let mut parts: Vec<Code> = (0..count).map(|_| code(choices)).collect();
        if count == 1 {
            parts[0].flags |= method;
            entries.push(fatbins::entry(&parts[0]));
        } else {
            let method = if method == 0 { fatbins::ZSTD } else { method };
            entries.push(fatbins::concatenated(method, &parts));
            // Which can be plain only if each is.
            parts.iter_mut().for_each(|part| part.flags |= method);
        }
        codes.extend(parts);
    }
    (fatbins::fatbin(&entries), codes)
}

fn code(choices: &mut Choices<'_>) -> Code {
    let sm = choices.pick(&[50, 75, 90, 100, 120]);
    let code = match choices.below(3) {
        0 => Code::ptx(sm.into()),
        1 => Code::cubin(sm, choices.below(256) * choices.below(8)),
        _ => {
            // PTX has text without a zero byte. Other code comes back with its padding unless the code object alone is
            // compressed.
            let text = choices.take(40).iter().map(|byte| byte | 1).chain([0]).collect::<Vec<u8>>();
            Code::new(fatbins::PTX, sm.into(), &text)
        }
    };
    let source = choices.pick(&["", "a.cu", "a/b.cu", "../name\n"]);
    let options = choices.pick(&[None, Some(""), Some("-lineinfo")]).map(|options| options.as_bytes().to_vec());
    let flags = choices.pick(&[0, fatbins::FAMILY, fatbins::SPECIFIC, NEEDS_ATTRIBUTES]);
    Code { options, ..code.with_source(source).with_flags(flags) }
}

/// A way to write code objects: whether they are compressed, and the method.
type CodePacking = (bool, Option<Codec>);

const PACKINGS: [CodePacking; 4] = [(false, None), (true, None), (true, Some(Codec::Lz4)), (true, Some(Codec::Zstd))];

/// The ID, the source and the content of a code object; no content if it cannot be read.
type CodeRead = (Vec<u8>, Vec<u8>, Option<Vec<u8>>);

#[derive(PartialEq)]
struct Read {
    codes: Vec<CodeRead>,
    errors: Vec<String>,
}

fn read(data: &[u8]) -> Read {
    let mut read = Read { codes: Vec::new(), errors: Vec::new() };
    let input = Input::from_bytes("in", data.to_vec());
    for bundle in SearchBundles::new(input.as_slice(), &Fatbin, Inflate::Headers).with_limits(LIMITS) {
        let bundle = match bundle {
            Ok(bundle) => bundle,
            Err(error) => {
                read.errors.push(said(&error));
                continue;
            }
        };
        read.errors.extend(bundle.faults.iter().map(ToString::to_string));
        let end = bundle.range().unwrap().end;
        assert!(end <= u64::try_from(data.len()).unwrap(), "ends at {end}");
        for (index, entry) in bundle.entries.iter().enumerate() {
            let mut content = Vec::new();
            let written = bundle.write_to(index, &mut content);
            let len = u64::try_from(content.len()).unwrap();
            // The zero byte after PTX, and padding to 8.
            let is_near = len <= entry.size() && entry.size() - len <= 8;
            assert!(written.is_err() || is_near, "{len} of {}", entry.size());
            read.errors.extend(written.as_ref().err().map(said));
            let image = entry.cuda.as_ref().unwrap();
            read.codes.push((entry.id().to_vec(), image.source.clone(), written.ok().map(|_| content)));
        }
    }
    read
}

/// Writes the fatbins in all packings. Returns them in the last.
fn repacked(data: &[u8]) -> Option<Vec<u8>> {
    let before = read(data);
    assert!(read(data) == before, "read twice");
    let mut last = None;
    for packing in &PACKINGS {
        let room = Room::with(data);
        let output = match recompress(&room, packing) {
            Ok(output) => output,
            Err(error) => {
                let is_sound = before.errors.is_empty() && !before.codes.is_empty();
                assert!(!is_sound || error.contains("limit"), "{packing:?}: {error}");
                continue;
            }
        };
        let after = read(&output);
        assert!(after.codes == before.codes, "{packing:?}: other code objects");
        assert!(after.errors.len() <= before.errors.len(), "{packing:?}: {:?}", after.errors);
        assert!(*packing != PACKINGS[1] || output.len() <= data.len(), "larger");
        // The method that is used may be another afterwards.
        if *packing != PACKINGS[1] {
            room.write("in", &output);
            assert!(recompress(&room, packing).as_ref() == Ok(&output), "{packing:?}: done again, it is changed");
        }
        last = Some(output);
    }
    last
}

fn recompress(room: &Room, (is_packed, codec): &CodePacking) -> Result<Vec<u8>, String> {
    let mut job = Recompress::new(room.input(), room.path("out"));
    job.compression = is_packed.then(|| Compression::with_method(Method::Zstd));
    job.fatbin_codec = *codec;
    job.limits = LIMITS;
    let result = job.run(&mut |_| {}).map_err(|error| said(&error));
    let output = room.take("out");
    assert_eq!(output.is_some(), result.is_ok(), "{result:?}");
    room.holds_only(&["in"]);
    result.map(|_| output.unwrap())
}

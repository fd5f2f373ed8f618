//! Wheels around any bytes, and any zip files.

use std::io::{Read as _, Write as _};

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use offload_bundle::container::sequence::Inflate;
use offload_bundle::io::Input;
use offload_bundle::job::Recompressed;
use offload_bundle::scan::FoundBundle;
use sha2::{Digest as _, Sha256};

use super::choices::{Choices, digest};
use super::make::number;
use super::recompress::Change;
use super::room::Room;
use super::search::search_with;

const LIBRARY: &str = "a/lib.so";
const RECORD: &str = "a-1.dist-info/RECORD";

/// The maximum number of compared bytes of code objects.
const COMPARED_MAX: usize = 8 << 20;

/// A member of a wheel is recompressed as it would be alone, unless the member would not be smaller then. All other
/// members keep their bytes, `RECORD` is right, and doing it again changes nothing.
pub(super) fn as_a_member(data: &[u8], change: &Change) {
    let digest = digest(&[data, b"wheel"].concat());
    let mut choices = Choices::new(&digest);
    let mut files =
        vec![("a/__init__.py", b"x = 1".to_vec()), (LIBRARY, data.to_vec()), ("a,\"b.txt", b"text".to_vec())];
    let right = record(&files);
    let text =
        choices.pick(&[&right[..], "", &right.replace("sha256=", "sha256=A"), &right.replace(",,", ",x,1")]).to_owned();
    match choices.below(4) {
        0 => {}
        1 => files.insert(0, (RECORD, text.into_bytes())),
        _ => files.push((RECORD, text.into_bytes())),
    }
    let has_record = files.iter().any(|(name, _)| *name == RECORD);
    let wheel = write(&files, choices.pick(&[0, 8]), choices.below(2) == 1);
    let alone = change.run_once(&Room::with(data));
    let room = Room::with(&wheel);
    let (output, result) = change.run_once(&room);
    let Some(output) = output else {
        let said = result.unwrap_err();
        assert!(alone.0.is_none() || said.contains("more than") || said.contains("limit"), "{said}");
        return;
    };
    assert!(alone.0.is_some(), "in a wheel, but not alone: {:?}", alone.1);
    let result = result.unwrap();
    let is_kept = result.zip.is_some_and(|zip| zip.unchanged > 0);
    assert!(!is_larger(&wheel, &output, &result, change), "larger than before");
    let mut written = read(&output);
    assert!(written.iter().map(|(name, _)| name).eq(files.iter().map(|(name, _)| name)), "other names");
    for ((name, old), (_, new)) in files.iter().zip(&written) {
        match *name {
            RECORD => {}
            LIBRARY if is_kept => assert!(old == new, "{name} was said to stay"),
            LIBRARY => assert!(alone.0.as_ref() == Some(new), "it is not what it would be alone"),
            name => assert!(old == new, "{name} has changed"),
        }
    }
    // A wheel that would be larger stays as it was, with its RECORD.
    if has_record && output != wheel {
        let at = written.iter().position(|(name, _)| name == RECORD).unwrap();
        let record_written = String::from_utf8(written.remove(at).1).unwrap();
        let named: Vec<_> = written.iter().map(|(name, content)| (name.as_str(), content.clone())).collect();
        let lines = |text: &str| {
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            lines.sort();
            lines
        };
        assert_eq!(lines(&record_written), lines(&record(&named)));
    }
    room.write("in", &output);
    let again = Change { compression: change.compression, ..Change::default() }.run_once(&room);
    let is_smaller = |again: &Vec<u8>| again.len() < output.len();
    assert!(again.0.is_none_or(|again| again == output || is_smaller(&again)), "done again, it is changed");
}

/// If any zip file is recompressed, a search finds the same code objects in the same members.
pub(super) fn as_it_is(data: &[u8], change: &Change) {
    is_searched_as_before(data, change, |output, result, change| {
        assert!(!is_larger(data, output, result, change), "larger than before");
    });
}

/// If a file is recompressed, a search finds the same code objects in the same members, and doing it again changes
/// nothing.
pub(super) fn is_searched_as_before(data: &[u8], change: &Change, check: impl Fn(&[u8], &Recompressed, &Change)) {
    let room = Room::with(data);
    let change = Change { compression: change.compression, ..Change::default() };
    let Some((output, result)) = change.run(&room) else { return };
    check(&output, &result, &change);
    assert!(code_objects(data) == code_objects(&output), "other code objects than before");
    room.write("in", &output);
    let again = change.run_once(&room).0.unwrap();
    assert!(again == output || again.len() < output.len(), "done again, it is changed");
}

/// Whether a zip file has become larger although it was to become smaller.
fn is_larger(before: &[u8], after: &[u8], result: &Recompressed, change: &Change) -> bool {
    change.compression.is_some() && result.dropped == 0 && after.len() > before.len()
}

/// The steps to each code object, its ID, and its bytes if they can be read.
pub(super) fn code_objects(data: &[u8]) -> Vec<(String, String, Option<Vec<u8>>)> {
    let (mut objects, mut left) = (Vec::new(), COMPARED_MAX);
    let look = &mut |found: &FoundBundle<'_>| {
        for code_object in found.code_objects() {
            let size = usize::try_from(code_object.size()).unwrap_or(usize::MAX);
            let bytes = if size <= left { code_object.bytes().ok() } else { None };
            left -= bytes.as_ref().map_or(0, |_| size);
            let bytes = bytes.map(std::borrow::Cow::into_owned);
            objects.push((found.place.to_string(), code_object.shown_id(), bytes));
        }
    };
    search_with(&Input::from_bytes("in", data.to_vec()), Inflate::Whole, false, look);
    objects
}

/// A correct `RECORD`.
fn record(files: &[(&str, Vec<u8>)]) -> String {
    let line = |(name, content): &(&str, Vec<u8>)| {
        let name =
            if name.contains(['"', ',']) { format!("\"{}\"", name.replace('"', "\"\"")) } else { (*name).to_owned() };
        format!("{name},sha256={},{}\n", base64(&Sha256::digest(content)), content.len())
    };
    files.iter().map(line).collect::<String>() + RECORD + ",,\n"
}

fn base64(bytes: &[u8]) -> String {
    let bits: String = bytes.iter().map(|byte| format!("{byte:08b}")).collect();
    let digits: Vec<char> = ('A'..='Z').chain('a'..='z').chain('0'..='9').chain(['-', '_']).collect();
    let digit =
        |bits: &[u8]| digits[usize::from_str_radix(&format!("{:0<6}", str::from_utf8(bits).unwrap()), 2).unwrap()];
    bits.as_bytes().chunks(6).map(digit).collect()
}

/// A zip file. `streamed` members have their sizes after their data.
pub(super) fn write(files: &[(&str, Vec<u8>)], method: usize, streamed: bool) -> Vec<u8> {
    let (mut data, mut directory) = (Vec::new(), Vec::new());
    for (name, content) in files {
        let stored = match method {
            0 => content.clone(),
            _ => {
                let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
                encoder.write_all(content).unwrap();
                encoder.finish().unwrap()
            }
        };
        let mut crc = flate2::Crc::new();
        crc.update(content);
        let sizes = [crc.sum().to_le_bytes().to_vec(), number(stored.len(), 4), number(content.len(), 4)].concat();
        let fixed =
            [number(20, 2), number(if streamed { 8 } else { 0 }, 2), number(method, 2), vec![0, 0, 33, 0]].concat();
        let start = data.len();
        let local = if streamed { vec![0; 12] } else { sizes.clone() };
        data.extend([b"PK\x03\x04", &fixed[..], &local].concat());
        data.extend([&number(name.len(), 2)[..], &[0, 0], name.as_bytes(), &stored].concat());
        if streamed {
            data.extend([b"PK\x07\x08", &sizes[..]].concat());
        }
        directory.extend([b"PK\x01\x02\x14\x03", &fixed[..], &sizes, &number(name.len(), 2), &[0; 12]].concat());
        directory.extend([&number(start, 4)[..], name.as_bytes()].concat());
    }
    let counts = number(files.len(), 2).repeat(2);
    let end =
        [b"PK\x05\x06\0\0\0\0", &counts[..], &number(directory.len(), 4), &number(data.len(), 4), &[0, 0]].concat();
    [data, directory, end].concat()
}

/// The members of a zip file without zip64 fields and comments, in order.
fn read(data: &[u8]) -> Vec<(String, Vec<u8>)> {
    let number = |at: usize, width: usize| {
        let value = data[at..at + width].iter().rev().fold(0_u64, |value, byte| value << 8 | u64::from(*byte));
        usize::try_from(value).unwrap()
    };
    let end = data.len() - 22;
    let mut at = number(end + 16, 4);
    let mut members = Vec::new();
    for _ in 0..number(end + 10, 2) {
        let (method, len, name_len, start) =
            (number(at + 10, 2), number(at + 20, 4), number(at + 28, 2), number(at + 42, 4));
        let name = String::from_utf8(data[at + 46..at + 46 + name_len].to_vec()).unwrap();
        let stored = start + 30 + number(start + 26, 2) + number(start + 28, 2);
        let stored = &data[stored..stored + len];
        let mut content = stored.to_vec();
        if method == 8 {
            content.clear();
            DeflateDecoder::new(stored).read_to_end(&mut content).unwrap();
        }
        assert_eq!(content.len(), number(at + 24, 4), "{name}");
        members.push((name, content));
        at += 46 + name_len + number(at + 30, 2) + number(at + 32, 2);
    }
    assert_eq!(at, end);
    members
}

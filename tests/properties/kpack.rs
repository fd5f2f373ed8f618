use std::collections::BTreeSet;

use offload_bundle::container::kpack::{self, Reference};
use offload_bundle::container::sequence::Inflate;
use offload_bundle::io::Input;
use offload_bundle::scan::{Finding, Format, Scan};

use super::choices::Choices;
use super::kpacks::{self, Archive, Code, Scheme, Value};
use super::said;
use super::search::LIMITS;

/// Any bytes that begin like a kpack archive are an archive, or an error with a place in them. Its code objects are
/// inside it, share no bytes, and are not more than 100,000. A search finds the same, and can read or reports each.
///
/// From other bytes, an archive and a reference are written. Both are read back. Damage to the archive adds no code
/// object that can be read.
pub fn kpack(data: &[u8]) {
    if data.starts_with(kpacks::MAGIC) {
        hostile(data);
        return;
    }
    let choices = &mut Choices::new(data);
    reference(choices);
    let archive = write(choices);
    let mut written = archive.write();
    let read = hostile(&written);
    assert_eq!(read.faults, [""; 0], "written with a fault");
    assert_eq!(read.targets, archive.arches.iter().map(|arch| arch.as_bytes().to_vec()).collect::<Vec<_>>());
    let expected: BTreeSet<_> = archive.codes.iter().map(found).collect();
    assert!(read.codes == expected, "read otherwise");
    for _ in 0..=choices.below(3) {
        let at = (choices.below(256) << 8 | choices.below(256)) % written.len();
        written[at] ^= choices.byte() | 1;
    }
    if written.starts_with(kpacks::MAGIC) {
        let damaged = hostile(&written);
        let (found, written) = (damaged.codes.len(), archive.codes.len());
        assert!(found <= written, "{found} of {written}");
    }
}

/// A binary key, a target ID and the content.
type Found = (Vec<u8>, Vec<u8>, Vec<u8>);

fn found(code: &Code) -> Found {
    (code.key.clone().into_bytes(), code.target.clone().into_bytes(), code.content.clone())
}

/// The content of an archive as it was read.
#[derive(Debug, Default, PartialEq)]
struct Read {
    targets: Vec<Vec<u8>>,
    codes: BTreeSet<Found>,
    faults: Vec<String>,
    /// The number of code objects, readable or not.
    count: usize,
}

/// Reads any bytes, and compares the reader with the search.
fn hostile(data: &[u8]) -> Read {
    let read = search(data);
    assert!(search(data) == read, "searched twice");
    let input = Input::from_bytes("in", data.to_vec());
    match kpack::KpackArchive::read(&input) {
        Ok(archive) => {
            assert_eq!(archive.targets, read.targets);
            let entries: Vec<_> = archive.binaries.iter().flat_map(|binary| &binary.entries).collect();
            assert!(entries.len() <= 100_000 && entries.len() == read.count, "{} {}", entries.len(), read.count);
            assert!(entries.len() <= data.len(), "more code objects than bytes");
            archive.faults.iter().for_each(|fault| {
                let text = fault.to_string();
                assert!(!text.is_empty() && !text.contains(char::is_control), "{text:?}");
            });
        }
        Err(error) => {
            assert!(read.count == 0 && !read.faults.is_empty(), "{error}");
            assert!(read.faults.contains(&error.to_string()), "{error}: {:?}", read.faults);
        }
    }
    read
}

fn search(data: &[u8]) -> Read {
    let mut read = Read::default();
    let input = Input::from_bytes("in", data.to_vec());
    let mut search = Scan::default();
    (search.inflate, search.limits) = (Inflate::Headers, LIMITS);
    let result = search.run(&input, &mut |finding| {
        match finding {
            Finding::Bundle(found) if found.format == Format::Kpack && found.place.steps().len() == 1 => {
                let key = found.place.steps()[0].to_string().into_bytes();
                for (index, code_object) in found.code_objects().enumerate() {
                    read.count += 1;
                    let prefix = b"hipv4-amdgcn-amd-amdhsa--";
                    let target = code_object.id().strip_prefix(prefix).unwrap_or(code_object.id()).to_vec();
                    let mut content = Vec::new();
                    match found.bundle.write_to(index, &mut content) {
                        Ok(_) => {
                            assert_eq!(u64::try_from(content.len()).unwrap(), code_object.size());
                            read.codes.insert((key.clone(), target, content));
                        }
                        Err(error) => {
                            let text = said(&error);
                            assert!(text.contains("'in") && !text.contains(char::is_control), "{text:?}");
                        }
                    }
                }
            }
            Finding::Kpack { place, archive } if place.steps().is_empty() => read.targets.clone_from(&archive.targets),
            Finding::Broken { place, error } if place.steps().is_empty() => {
                let text = said(&error);
                assert!(text.contains("'in'") && !text.contains(char::is_control), "{text:?}");
                read.faults.push(text);
            }
            _ => {}
        }
        Ok(())
    });
    assert!(result.is_ok(), "the search itself failed");
    read
}

const KEYS: [&str; 5] = ["lib/libone.so#0", "lib/libone.so#1", "bin/two#0", "a", "../x#4294967295"];
const TARGETS: [&str; 5] = ["gfx906", "gfx90a:xnack-", "gfx942:sramecc+:xnack-", "gfx9-4-generic", "gfx1100"];

fn write(choices: &mut Choices<'_>) -> Archive {
    let mut codes: Vec<Code> = Vec::new();
    for _ in 0..choices.below(8) {
        let (key, target) = (choices.pick(&KEYS), choices.pick(&TARGETS));
        let fill = choices.byte();
        let content = [choices.take(12), &vec![fill; choices.below(64) * choices.below(8)]].concat();
        if !codes.iter().any(|code| (code.key.as_str(), code.target.as_str()) == (key, target)) {
            codes.push(Code::new(key, target, &content));
        }
    }
    let mut archive = Archive::new(choices.pick(&["", "g", "rand_lib"]), Scheme::None, codes);
    archive.scheme = choices.pick(&[Scheme::Zstd, Scheme::None]);
    archive.rotated = choices.below(8);
    archive.has_metadata = choices.pick(&[true, false]);
    // Frames record their sizes too.
    archive.has_sizes = choices.pick(&[true, true, false]);
    if archive.arches.is_empty() {
        archive.arches.push(choices.pick(&TARGETS).to_owned());
    }
    archive
}

fn reference(choices: &mut Choices<'_>) {
    let paths: Vec<&str> =
        (0..=choices.below(32)).map(|_| choices.pick(&["../.kpack/a_@GFXARCH@.kpack", "/x", "", "a/../b"])).collect();
    let name = choices.pick(&KEYS);
    let pairs = [("kpack_search_paths", Value::texts(&paths)), ("kernel_name", Value::text(name))];
    let mut pairs: Vec<_> = pairs.into_iter().chain([("other", Value::Int(choices.byte().into()))]).collect();
    pairs.rotate_left(choices.below(3));
    let mut written = [Value::map(pairs).encode(), choices.take(3).to_vec()].concat();
    let read = Reference::read(&written, 0).unwrap();
    assert_eq!(read.kernel_name, name.as_bytes());
    assert!(read.search_paths.iter().map(Vec::as_slice).eq(paths.iter().map(|path| path.as_bytes())));
    let at = choices.below(256) % written.len();
    written[at] ^= choices.byte() | 1;
    if let Ok(damaged) = Reference::read(&written, 0) {
        assert!(!damaged.search_paths.is_empty() && damaged.search_paths.len() <= 32);
    }
}

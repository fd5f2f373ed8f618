use offload_bundle::container::sequence::Inflate;
use offload_bundle::io::Input;
use offload_bundle::scan::{Finding, Format, Scan};

use super::choices::Choices;
use super::images;
use super::said;
use super::search::LIMITS;
use super::syclbins::{self, Part};

/// In any bytes, the parts of SYCLBIN files are inside of them and are not more than 100,000.
///
/// From other bytes, such a file is written. Its parts are read back, with the IDs that they
/// record. Damage to the file ends no search.
pub fn syclbin(data: &[u8]) {
    if data.starts_with(b"\x10\xff\x10\xad") {
        hostile(data);
        return;
    }
    let choices = &mut Choices::new(data);
    let parts = parts(choices);
    let mut written = syclbins::version_2(&parts);
    let (found, faults) = hostile(&written);
    assert_eq!(faults, [""; 0], "written with a fault: {parts:?}");
    let expected: Vec<_> = parts.iter().map(|part| (id(part), part.code.clone())).collect();
    assert!(found == expected, "{found:?}\n{parts:?}");
    for _ in 0..=choices.below(3) {
        let at = (choices.below(256) << 8 | choices.below(256)) % written.len();
        written[at] ^= choices.byte() | 1;
    }
    hostile(&written);
}

/// Triples and architectures, and the IDs that they form.
const TARGETS: [(&str, Option<&str>, &str); 6] = [
    ("spir64-unknown-unknown", None, "sycl-spir64-unknown-unknown-unknown-"),
    ("spirv64-unknown-unknown", None, "sycl-spirv64-unknown-unknown-unknown-"),
    ("spir64_gen-unknown-unknown", Some("pvc"), "sycl-spir64_gen-unknown-unknown--pvc"),
    ("spir64_gen-unknown-unknown", Some("bmg_g21"), "sycl-spir64_gen-unknown-unknown--bmg_g21"),
    ("nvptx64-nvidia-cuda", Some("sm_80"), "sycl-nvptx64-nvidia-cuda-unknown-sm_80"),
    ("amdgcn-amd-amdhsa", Some("gfx90a"), "sycl-amdgcn-amd-amdhsa--gfx90a"),
];

fn id(part: &Part) -> String {
    let is_of = |row: &&(&str, Option<&str>, &str)| row.0 == part.triple && row.1 == part.arch.as_deref();
    TARGETS.iter().find(is_of).unwrap().2.to_owned()
}

fn parts(choices: &mut Choices<'_>) -> Vec<Part> {
    let count = choices.below(6);
    let mut module = 0;
    let mut parts: Vec<Part> = Vec::new();
    for number in 0..count {
        module += usize::from(number > 0 && choices.below(2) == 1);
        let (triple, arch, _) = choices.pick(&TARGETS);
        let words = u16::from(choices.byte());
        parts.push(Part::new(module, triple, arch, &images::spirv(words, words.into())));
    }
    parts
}

type Found = (Vec<(String, Vec<u8>)>, Vec<String>);

/// Searches any bytes, twice.
fn hostile(data: &[u8]) -> Found {
    let read = search(data);
    assert!(search(data) == read, "searched twice");
    read
}

fn search(data: &[u8]) -> Found {
    let (mut found, mut faults) = (Vec::new(), Vec::new());
    let input = Input::from_bytes("in", data.to_vec());
    let mut search = Scan::default();
    (search.inflate, search.limits) = (Inflate::Headers, LIMITS);
    let mut left = 64_u64 << 20;
    let result = search.run(&input, &mut |finding| {
        match finding {
            Finding::Bundle(bundle) if bundle.format == Format::SyclBin && bundle.place.steps().is_empty() => {
                assert!(bundle.bundle.entries.len() <= 100_000);
                for (index, code_object) in bundle.code_objects().enumerate() {
                    if bundle.bundle.compressed.is_none() {
                        let range = code_object.range().unwrap();
                        assert!(range.end <= u64::try_from(data.len()).unwrap(), "{range:?}");
                    }
                    if code_object.size() > left {
                        continue;
                    }
                    let mut content = Vec::new();
                    match bundle.bundle.write_to(index, &mut content) {
                        Ok(()) => {
                            left -= code_object.size();
                            assert_eq!(u64::try_from(content.len()).unwrap(), code_object.size());
                            found.push((code_object.shown_id(), content));
                        }
                        Err(error) => faults.push(said(&error)),
                    }
                }
            }
            Finding::Broken { error, .. } => {
                let text = said(&error);
                assert!(text.contains("'in") && !text.contains(char::is_control), "{text:?}");
                faults.push(text);
            }
            _ => {}
        }
        Ok(())
    });
    assert!(result.is_ok(), "the search itself failed");
    (found, faults)
}

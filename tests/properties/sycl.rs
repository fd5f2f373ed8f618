use offload_bundle::container::sequence::Inflate;
use offload_bundle::io::Input;
use offload_bundle::scan::{Finding, Format, Scan};

use super::choices::Choices;
use super::images::{self, Image, PVC, Program};
use super::make;
use super::said;
use super::search::LIMITS;

/// In any ELF or PE file, device images are inside of it, are not more than 100,000, and can be read or have an error.
///
/// From other bytes, a program with device images is written. The images are read back in the order of the file, with
/// the IDs that their sections or contents give. Damage to the program ends no search.
pub fn sycl(data: &[u8]) {
    if data.starts_with(b"\x7fELF") || data.starts_with(b"MZ") {
        hostile(data);
        return;
    }
    let choices = &mut Choices::new(data);
    let program = write(choices);
    let mut written = program.write();
    let read = hostile(&written);
    assert_eq!(read.faults, [""; 0], "written with a fault: {program:?}");
    let expected: Vec<_> =
        program.images().map(|(section, image)| (id(section, image), image.content.clone())).collect();
    assert!(read.images == expected, "{:?}\n{program:?}", read.images);
    for _ in 0..=choices.below(3) {
        let at = (choices.below(256) << 8 | choices.below(256)) % written.len();
        written[at] ^= choices.byte() | 1;
    }
    hostile(&written);
}

/// The ID for an image of [`write`] in a section.
fn id(section: &str, image: &Image) -> String {
    let id = match section.strip_prefix("__CLANG_OFFLOAD_BUNDLE__") {
        Some(id) => id,
        None if image.content.starts_with(b"\x7fELF") || image.content.starts_with(b"!<arch>") => "sycl-spir64_gen",
        None => "sycl-spir64",
    };
    let (kind, arch) = id.split_once('-').unwrap();
    match arch == "spir64_gen" && image.content.starts_with(b"\x7fELF") {
        true => format!("{kind}-{arch}-unknown-unknown--pvc"),
        false => id.to_owned(),
    }
}

const SECTIONS: [&str; 5] = [
    "__CLANG_OFFLOAD_BUNDLE__sycl-spir64",
    "OFFLOAD_DEVICE_CODE",
    "__CLANG_OFFLOAD_BUNDLE__sycl-spir64_gen",
    "__CLANG_OFFLOAD_BUNDLE__openmp-spir64",
    "__CLANG_OFFLOAD_BUNDLE__sycl-native_cpu",
];

fn write(choices: &mut Choices<'_>) -> Program {
    let mut sections = Vec::new();
    for _ in 0..choices.below(4) {
        let name = choices.pick(&SECTIONS);
        if sections.iter().any(|(other, _)| other == name) {
            continue;
        }
        let images = (0..=choices.below(6)).map(|_| image(choices)).collect();
        sections.push((name.to_owned(), images));
    }
    Program { sections, rotated: choices.below(7) }
}

fn image(choices: &mut Choices<'_>) -> Image {
    let (words, fill) = (u16::from(choices.byte()), u32::from(choices.byte()));
    let zebin = || images::zebin(PVC, &vec![0x90; usize::from(words)]);
    let content = match choices.below(4) {
        0 | 1 => images::spirv(words, fill),
        2 => zebin(),
        _ => make::archive(&[("64.12.60.7", &zebin())]),
    };
    let [is_packed, is_listed] = [choices.pick(&[false, true]), choices.pick(&[true, true, false])];
    Image { content, is_packed, is_listed }
}

/// The images of a program as they were read.
#[derive(Debug, Default, PartialEq)]
struct Read {
    /// IDs and contents of readable images.
    images: Vec<(String, Vec<u8>)>,
    faults: Vec<String>,
}

/// Searches any bytes, twice.
fn hostile(data: &[u8]) -> Read {
    let read = search(data);
    assert!(search(data) == read, "searched twice");
    read
}

fn search(data: &[u8]) -> Read {
    let mut read = Read::default();
    let input = Input::from_bytes("in", data.to_vec());
    let mut search = Scan::default();
    (search.inflate, search.limits) = (Inflate::Headers, LIMITS);
    let mut left = 64 << 20;
    let result = search.run(&input, &mut |finding| {
        match finding {
            Finding::Bundle(found) if found.format == Format::DeviceImages && found.place.steps().len() == 1 => {
                let range = found.bundle.range().unwrap();
                assert!(range.end <= u64::try_from(data.len()).unwrap(), "{range:?}");
                let mut count = 0;
                for (index, code_object) in found.code_objects().enumerate() {
                    count += 1;
                    let inside = |own: &std::ops::Range<u64>| range.start <= own.start && own.end <= range.end;
                    assert!(code_object.range().as_ref().is_none_or(inside), "{:?}", code_object.range());
                    // Damaged tables may list the same bytes many times.
                    if code_object.size() > left {
                        continue;
                    }
                    let mut content = Vec::new();
                    match found.bundle.write_to(index, &mut content) {
                        Ok(()) => {
                            left -= code_object.size();
                            assert_eq!(u64::try_from(content.len()).unwrap(), code_object.size());
                            read.images.push((code_object.shown_id(), content));
                        }
                        Err(error) => {
                            let text = said(&error);
                            assert!(text.contains("'in") && !text.contains(char::is_control), "{text:?}");
                            read.faults.push(text);
                        }
                    }
                }
                assert!(count <= 100_001, "{count}");
            }
            Finding::Broken { error, .. } => {
                let text = said(&error);
                assert!(text.contains("'in") && !text.contains(char::is_control), "{text:?}");
                read.faults.push(text);
            }
            _ => {}
        }
        Ok(())
    });
    assert!(result.is_ok(), "the search itself failed");
    read
}

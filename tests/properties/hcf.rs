use offload_bundle::container::sequence::Inflate;
use offload_bundle::io::Input;
use offload_bundle::scan::{Finding, Format, Scan};

use super::choices::Choices;
use super::hcfs::{self, MARKERS};
use super::make::{Elf, Section};
use super::search::LIMITS;
use super::{images, said};

/// In any bytes, the images of HCF data are inside of the data and are not more than 100,000.
///
/// From other bytes, HCF data is written: as a file, and in the data of a library. Its images are read back. Damage to
/// it ends no search.
pub fn hcf(data: &[u8]) {
    if data.starts_with(b"object-id") {
        search(data);
        return;
    }
    let choices = &mut Choices::new(data);
    let count = choices.below(5);
    let image = |choices: &mut Choices<'_>| match choices.below(3) {
        0 => images::spirv(choices.byte().into(), 1),
        1 => Elf::amdgpu(0x3f).write(&[]),
        _ => vec![choices.byte(); choices.below(9)],
    };
    let images: Vec<Vec<u8>> = (0..count).map(|_| image(choices)).collect();
    let mut written = hcfs::write(choices.pick(&MARKERS), &images);
    let data = [&b"text\0"[..], &written, b"object-id = 5", &written].concat();
    let library = Elf::LIBRARY.write(&[Section::new(".rodata", &data)]);
    let twice = if count > 0 { [&images[..], &images].concat() } else { Vec::new() };
    for (file, expected) in [(&written, &images), (&library, &twice)] {
        let (found, faults) = search(file);
        assert_eq!(faults, [""; 0], "{images:?}");
        assert!(&found == expected, "{found:?}\n{images:?}");
    }
    for _ in 0..=choices.below(3) {
        let at = (choices.below(256) << 8 | choices.below(256)) % written.len();
        written[at] ^= choices.byte() | 1;
    }
    search(&written);
}

/// Searches any bytes. Returns the images of HCF data, and the faults.
fn search(data: &[u8]) -> (Vec<Vec<u8>>, Vec<String>) {
    let (mut found, mut faults) = (Vec::new(), Vec::new());
    let input = Input::from_bytes("in", data.to_vec());
    let mut search = Scan::default();
    (search.inflate, search.limits) = (Inflate::Headers, LIMITS);
    let result = search.run(&input, &mut |finding| {
        match finding {
            Finding::Bundle(bundle) if bundle.format == Format::Hcf => {
                assert!(bundle.bundle.entries.len() <= 100_000);
                for code_object in bundle.code_objects() {
                    let content = code_object.bytes().unwrap();
                    assert!(content.len() <= data.len(), "{}", content.len());
                    assert!(code_object.shown_id().starts_with("sycl-"));
                    found.push(content.into_owned());
                }
            }
            Finding::Broken { error, .. } => faults.push(said(&error)),
            _ => {}
        }
        Ok(())
    });
    assert!(result.is_ok(), "the search itself failed");
    (found, faults)
}

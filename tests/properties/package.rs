use offload_bundle::scan::{Finding, Scan, Step};

use super::aks2s;
use super::choices::Choices;
use super::make::{BZIP2, DEFLATED, LZMA, XZ, ZSTD, Zipped, zip};
use super::packages::{self, File};
use super::said;
use super::search::LIMITS;

/// The names of members in packages that are written.
const NAMES: [&str; 5] = ["usr/lib/libone.so", "a", "gfx950/fmha_fwd.co", "", LONG];
const LONG: &str = "opt/rocm/lib/a/path/of/more/than/a/hundred/characters/which/tar/cannot/keep/in/its/header/so/that/it/has/one/of/its/own/libtwo.so";

/// A search of bytes in a package finds the same code objects as a search of the bytes alone, and the same number of
/// faults.
///
/// The first byte decides on the package: archives in one another, and methods of compression, around the other bytes.
/// An archive that is read in the file and one that is inflated are read by different code, and so are compared too.
pub fn package(data: &[u8]) {
    let (choices, content) = data.split_at(data.len().min(4));
    let choices = &mut Choices::new(choices);
    let alone = Seen::of(content);
    let mut packed = content.to_vec();
    let mut steps = Vec::new();
    for _ in 0..=choices.below(3) {
        let name = choices.pick(&NAMES);
        let file = [File::new(name, &packed), File { name: "link", kind: b'2', content: &[] }];
        packed = match choices.below(4) {
            0 => packages::tar(&file),
            1 => packages::cpio(&file),
            2 => packages::rpm(&packages::zstd(&packages::cpio(&file))),
            _ => packages::gzip(&packages::tar(&file)),
        };
        steps.insert(0, name.as_bytes().to_vec());
    }
    alone.agrees_with(&Seen::of(&packed), &steps);
    let coded = Seen::of(&if choices.below(2) == 0 { packages::gzip(&packed) } else { packages::zstd(&packed) });
    // The content of a compressed file is a member, unless it is an archive. Bytes without a file give it an empty
    // name.
    if !is_archive(&packed) {
        steps.insert(0, Vec::new());
    }
    alone.agrees_with(&coded, &steps);
    // A member of a zip file holds the same, whatever method compresses it.
    let member = |method| Seen::of(&zip(&[Zipped::new("a", method, content), Zipped::new("b", DEFLATED, b"text")]));
    member(DEFLATED).agrees_with(&member(choices.pick(&[BZIP2, LZMA, XZ, ZSTD])), &[]);
    // Any bytes as the inside of a package: none is too much for its reader.
    let _ = Seen::of(&aks2s::file(choices.below(3), content, content));
    if !content.is_empty() {
        alone.agrees_with(&Seen::of(&aks2s::kernels(&[(b"a", content)])), &[b"a".to_vec()]);
    }
    for package in [packages::gzip(content), packages::zstd(content), packages::rpm(content)] {
        let inside = Seen::of(&package);
        if is_archive(content) && package.starts_with(&[0x1f, 0x8b]) {
            alone.agrees_with(&inside, &[]);
        }
    }
}

/// Whether data begins like a tar or cpio archive that is read.
fn is_archive(data: &[u8]) -> bool {
    let sum = |header: &[u8]| {
        let rest = header[..148].iter().chain(&header[156..]).map(|&byte| u32::from(byte)).sum::<u32>() + 8 * 32;
        header[148..155] == *format!("{rest:06o}\0").as_bytes()
    };
    data.get(257..263) == Some(b"ustar\0") && data.get(..512).is_some_and(sum)
        || [b"070701", b"070702", b"070707"].iter().any(|magic| data.starts_with(*magic))
}

/// The names of the members on the path, the bundle entry ID, and the bytes or why they cannot be had.
type Object = (Vec<Vec<u8>>, Vec<u8>, Result<Vec<u8>, String>);

/// The findings of a search.
#[derive(Debug, Default)]
struct Seen {
    objects: Vec<Object>,
    faults: usize,
    /// Whether a limit ended a part of it. Limits depend on the size of the file.
    is_limited: bool,
}

impl Seen {
    fn of(data: &[u8]) -> Self {
        let mut seen = Self::default();
        let mut scan = Scan::default();
        scan.limits = LIMITS;
        let mut room = 16 << 20;
        let visited = scan.run(data, &mut |finding| {
            match finding {
                Finding::Bundle(found) => {
                    for code_object in found.code_objects() {
                        let members = found.place.steps().iter().filter_map(|step| match step {
                            Step::Member(name) => Some(name.clone()),
                            _ => None,
                        });
                        room -= i64::try_from(code_object.size()).unwrap_or(i64::MAX).min(1 << 40);
                        let bytes = match room {
                            0.. => code_object.bytes().map(|bytes| bytes.into_owned()).map_err(|_| String::new()),
                            _ => Err("too much to compare".to_owned()),
                        };
                        seen.objects.push((members.collect(), code_object.id().to_vec(), bytes));
                    }
                }
                Finding::Broken { error, .. } => {
                    seen.faults += 1;
                    let text = said(&error);
                    seen.is_limited |= text.contains("exceed") || text.contains("nested");
                }
                _ => {}
            }
            Ok(())
        });
        visited.unwrap();
        seen
    }

    /// Compares the findings in some bytes with those in a package of them.
    fn agrees_with(&self, packed: &Self, steps: &[Vec<u8>]) {
        if self.is_limited || packed.is_limited {
            return;
        }
        let expected = self
            .objects
            .iter()
            .map(|(members, id, bytes)| (steps.iter().chain(members).cloned().collect(), id.clone(), bytes.clone()));
        let expected: Vec<Object> = expected.collect();
        assert!(expected == packed.objects, "{steps:?}: {} and {} objects", expected.len(), packed.objects.len());
        assert_eq!(self.faults, packed.faults, "{steps:?}: faults");
    }
}

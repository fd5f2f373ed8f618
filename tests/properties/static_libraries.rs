//! Relocatable objects and archives: symbols and relocations into their device code lead to the same code after it has
//! moved.

use object::read::archive::{ArchiveFile, ArchiveMember};
use object::read::elf::{FileHeader as _, Rela as _, SectionHeader as _, Sym as _};
use object::{LittleEndian, elf};
use offload_bundle::container::offload_binary::{ImageInfo, NewImage, Version, plan};
use offload_bundle::container::sequence::Inflate;
use offload_bundle::container::stream::{Compression, Method};
use offload_bundle::inventory::{Pattern, Selection};
use offload_bundle::io::{Input, write_to};
use offload_bundle::scan::FoundBundle;

use super::choices::Choices;
use super::fatbins::{Code, entry, fatbin};
use super::formats;
use super::make::{Elf, Section, number};
use super::recompress::Change;
use super::room::Room;
use super::search::search_with;
use super::wheels::{code_objects, is_searched_as_before};

/// The IDs of the entries of bundles.
const IDS: [&str; 3] =
    ["host-x86_64-unknown-linux-gnu-", "hip-amdgcn-amd-amdhsa--gfx906", "hip-amdgcn-amd-amdhsa--gfx90a"];

/// The input bytes describe relocatable objects with bundles, fatbins and offload binaries, an archive of one of the
/// dialects, and the code that is kept.
///
/// Each object is written as it would be alone. In it, everything but device code, symbols and relocations has the same
/// bytes and the same alignment. Each symbol and each relocation leads to the same bundle, and symbols have its size;
/// one that leads into the middle of a bundle is an error. Of the archive, the order, the names and the headers stay,
/// and each symbol of the index leads to the same member. Plain code comes back.
pub fn static_library(data: &[u8]) {
    let choices = &mut Choices::new(data);
    let mut change = Change {
        compression: Some(Compression::with_method(choices.pick(&[Method::Zstd, Method::Zlib]))),
        ..Change::default()
    };
    if choices.below(2) == 1 {
        let mut keep = Selection::default();
        keep.targets = ["gfx90a", "sm_90"].map(|pattern| Pattern::parse(pattern).unwrap()).to_vec();
        change.keep = Some(keep);
    }
    let dialect = choices.pick(&[Dialect::Gnu, Dialect::Gnu64, Dialect::Bsd]);
    let made: Vec<Made> = (0..=choices.below(3)).map(|_| Made::new(choices)).collect();
    let mut members: Vec<(String, Vec<u8>)> = vec![("text".into(), choices.take(3).to_vec())];
    for (index, made) in made.iter().enumerate() {
        let name = choices.pick(&["a.o", "an object with a long name.o"]);
        members.insert(choices.below(index + 2), (name.to_owned(), made.data.clone()));
    }
    let library = dialect.write(&members);
    let room = Room::with(&library);
    let (output, result) = change.run_once(&room);
    if made.iter().any(|made| made.is_wrong) {
        assert!(result.unwrap_err().contains("leads into the middle of one"));
        return;
    }
    let output = output.unwrap_or_else(|| panic!("{result:?}"));
    follows(&library, &output);
    let (before, after) = (contents(&library), contents(&output));
    for ((name, old), (_, new)) in before.iter().zip(&after) {
        if name == "text" {
            assert!(old == new, "another member has changed");
            continue;
        }
        let (alone, _) = change.run_once(&Room::with(old));
        assert!(alone.as_ref() == Some(new), "not what it becomes alone");
        is_followed(old, new);
    }
    let kept = |(place, id, content): (String, String, Option<Vec<u8>>)| {
        let is_kept =
            change.keep.is_none() || ["host-", "gfx90a", "sm_90", "compute"].iter().any(|part| id.contains(part));
        is_kept.then_some((place, id, content))
    };
    let kept: Vec<_> = code_objects(&library).into_iter().filter_map(kept).collect();
    assert!(code_objects(&output) == kept, "other code objects than those that are kept");
    room.write("in", &output);
    let (again, _) = Change { compression: change.compression, ..Change::default() }.run_once(&room);
    assert!(again.is_some_and(|again| again == output), "done again, it is changed");
    let (back, _) = Change::default().run_once(&room);
    assert!(change.keep.is_some() || back.is_some_and(|back| back == library), "plain code does not come back");
}

/// If any archive is recompressed, a search finds the same code objects in the same members, whose headers and symbols
/// stay.
pub(super) fn as_it_is(data: &[u8], change: &Change) {
    is_searched_as_before(data, change, |output, _, change| {
        assert!(change.compression.is_none() || output.len() <= data.len(), "larger than before");
        follows(data, output);
    });
}

/// A relocatable object keeps its content and its order, except for device code. If its bundles are known, symbols and
/// relocations lead to them.
pub(super) fn is_followed(before: &[u8], after: &[u8]) {
    let (Some(before), Some(after)) = (Held::of(before), Held::of(after)) else { return };
    assert_eq!(before.sections.len(), after.sections.len(), "other sections");
    for (old, new) in before.sections.iter().zip(&after.sections) {
        assert_eq!((&old.name, old.kind, old.alignment), (&new.name, new.kind, new.alignment));
        let is_aligned =
            |section: &HeldSection| section.alignment == 0 || section.offset.is_multiple_of(section.alignment);
        assert!(is_aligned(new) || !is_aligned(old), "a section is not aligned any more");
        let may_change = !old.bundles.is_empty() || [elf::SHT_SYMTAB.0, elf::SHT_RELA.0].contains(&old.kind);
        assert!(may_change || old.content == new.content, "another section has changed");
    }
    assert_eq!(before.led, after.led, "something leads elsewhere");
}

/// A reference into a section with bundles: its source, the bundle at its start, and the bundle at its end.
type Led = (String, Option<usize>, Option<usize>);

/// The content of a relocatable object.
struct Held {
    sections: Vec<HeldSection>,
    led: Vec<Led>,
}

struct HeldSection {
    name: Vec<u8>,
    kind: u32,
    alignment: u64,
    offset: u64,
    content: Vec<u8>,
    /// The start and the end of each of its bundles.
    bundles: Vec<(u64, u64)>,
}

impl Held {
    fn of(data: &[u8]) -> Option<Self> {
        let header = elf::FileHeader64::<LittleEndian>::parse(data).ok()?;
        let table = header.sections(LittleEndian, data).ok()?;
        let mut bundles = Vec::new();
        let look = &mut |found: &FoundBundle<'_>| {
            bundles.extend(found.bundle.range().ok().filter(|range| !bundles.contains(range)))
        };
        search_with(&Input::from_bytes("in", data.to_vec()), Inflate::Headers, false, look);
        let sections = table.iter().map(|section| {
            let offset = section.sh_offset(LittleEndian);
            let content = section.data(LittleEndian, data).unwrap_or_default().to_vec();
            let range = offset..offset + u64::try_from(content.len()).unwrap();
            let inside = bundles.iter().filter(|bundle| range.start <= bundle.start && bundle.end <= range.end);
            HeldSection {
                name: table.section_name(LittleEndian, section).unwrap_or_default().to_vec(),
                kind: section.sh_type(LittleEndian).0,
                alignment: section.sh_addralign(LittleEndian),
                offset,
                content,
                bundles: inside.map(|bundle| (bundle.start - offset, bundle.end - offset)).collect(),
            }
        });
        let sections: Vec<HeldSection> = sections.collect();
        let symbols = table.symbols(LittleEndian, data, elf::SHT_SYMTAB).ok()?;
        let mut led = Vec::new();
        let starts = |section: &HeldSection, at: u64| section.bundles.iter().position(|bundle| bundle.0 == at);
        let ends = |section: &HeldSection, at: u64| section.bundles.iter().position(|bundle| bundle.1 == at);
        for (index, symbol) in symbols.iter().enumerate() {
            let section = sections.get(usize::from(symbol.st_shndx(LittleEndian).0));
            let Some(section) = section.filter(|section| !section.bundles.is_empty()) else { continue };
            let (start, size) = (symbol.st_value(LittleEndian), symbol.st_size(LittleEndian));
            let end = if size > 0 { ends(section, start + size) } else { None };
            led.push((format!("symbol {index}"), starts(section, start), end));
        }
        for section in table.iter() {
            let Ok(Some((relocations, _))) = section.rela(LittleEndian, data) else { continue };
            for (index, relocation) in relocations.iter().enumerate() {
                let number = usize::try_from(relocation.r_sym(LittleEndian, false)).unwrap();
                let Ok(symbol) = symbols.symbol(object::SymbolIndex(number)) else { continue };
                let section = sections.get(usize::from(symbol.st_shndx(LittleEndian).0));
                let Some(section) = section.filter(|section| !section.bundles.is_empty()) else { continue };
                let addend = relocation.r_addend(LittleEndian).cast_unsigned();
                let at = symbol.st_value(LittleEndian).wrapping_add(addend);
                led.push((format!("relocation {index}"), starts(section, at), None));
            }
        }
        Some(Self { sections, led })
    }
}

/// An object to recompress.
struct Made {
    data: Vec<u8>,
    /// Whether a symbol or a relocation leads into the middle of a bundle.
    is_wrong: bool,
}

impl Made {
    fn new(choices: &mut Choices<'_>) -> Self {
        let (hip, hip_starts) = row(choices, 4096);
        let (cuda, cuda_starts) = row(choices, 8);
        let text = choices.take(20).to_vec();
        // The device code is in sections 2 and 4.
        let (mut symbols, mut relocations) = (vec![0; 24], Vec::new());
        symbols.extend([symbol(3, 2, 0, 0), symbol(3, 4, 0, 0)].concat());
        let mut is_wrong = false;
        for (of_section, section, starts) in [(1, 2, &hip_starts), (2, 4, &cuda_starts)] {
            for (start, end) in starts {
                let more = if choices.below(12) == 11 { 20 } else { 0 };
                is_wrong |= more > 0;
                let size = choices.pick(&[0, end - start]);
                let own = symbols.len() / 24;
                symbols.extend(symbol(1, section, *start, size));
                let (to, addend) = choices.pick(&[(own, more), (of_section, start + more)]);
                relocations.extend(
                    [number(relocations.len() / 3, 8), number(1, 4), number(to, 4), number(addend, 8)].concat(),
                );
            }
        }
        let mut sections = vec![
            Section::new(".text", &text),
            Section::new(".hip_fatbin", &hip).aligned(4096),
            Section::new(".bss", &[0; 40]).without_content(),
            Section::new(choices.pick(&[".nv_fatbin", "__nv_relfatbin"]), &cuda).aligned(8),
            Section::new(".data", &[7; 64]).aligned(choices.pick(&[1, 8, 64])),
            Section::new(".rela.data", &relocations).table(4, 7, 5, 24),
            Section::new(".symtab", &symbols).table(2, 8, 1, 24),
            Section::new(".strtab", &[0]).table(3, 0, 0, 0).aligned(1),
        ];
        let offload_binaries = offload_binaries(choices);
        sections.push(Section::new(".llvm.offloading", &offload_binaries).offloading().aligned(8));
        if choices.below(3) == 2 {
            sections.push(Section::new(".note", &[1; 5]).aligned(1));
        }
        Self { data: Elf::OBJECT.write(&sections), is_wrong }
    }
}

/// Offload binaries in a row, with images for two GPUs.
fn offload_binaries(choices: &mut Choices<'_>) -> Vec<u8> {
    let version = choices.pick(&[Version::V1, Version::V2]);
    let contents: Vec<Vec<u8>> = (0..choices.below(4)).map(|_| choices.take(30).to_vec()).collect();
    let image = |(number, content): (usize, &Vec<u8>)| {
        let arch = if number % 2 == 0 { "gfx906" } else { "gfx90a" };
        let strings = [("triple", "amdgcn-amd-amdhsa"), ("arch", arch)];
        let strings = strings.map(|(key, value)| (key.as_bytes().to_vec(), value.as_bytes().to_vec())).to_vec();
        let info = ImageInfo { kind_number: 4, strings, ..ImageInfo::default() };
        (info, content.clone())
    };
    let images: Vec<(ImageInfo, Vec<u8>)> = contents.iter().enumerate().map(image).collect();
    let images = images.iter().map(|(info, content)| NewImage { info: info.clone(), content: content.into() });
    let mut data = Vec::new();
    for pieces in images.collect::<Vec<_>>().chunks(2).map(|images| plan(version, images).unwrap()) {
        write_to(&pieces, &mut data).unwrap();
    }
    data
}

/// A symbol: type, section, value and size.
fn symbol(kind: u8, section: usize, value: usize, size: usize) -> Vec<u8> {
    [number(0, 4), vec![kind, 0], number(section, 2), number(value, 8), number(size, 8)].concat()
}

/// Bundles or fatbins in a row, and where each begins and ends.
fn row(choices: &mut Choices<'_>, align: usize) -> (Vec<u8>, Vec<(usize, usize)>) {
    let (mut row, mut places) = (Vec::new(), Vec::new());
    for _ in 0..=choices.below(3) {
        let start = row.len().next_multiple_of(align);
        row.resize(start, 0);
        let fill = choices.byte();
        let len = 100 * choices.below(20);
        row.extend(match align {
            8 => {
                let codes = [Code::cubin(75, len), Code::cubin(90, len + 1), Code::ptx(90)];
                fatbin(&codes[..choices.below(2) + 2].iter().map(entry).collect::<Vec<_>>())
            }
            _ => {
                let code = [vec![fill; len], choices.take(40).to_vec()].concat();
                formats::binary(
                    &[(IDS[0], &[][..]), (IDS[1], &code), (IDS[2], &[&code[..], &[1]].concat())],
                    choices.pick(&[1, 4096]),
                )
            }
        });
        places.push((start, row.len()));
    }
    let trailing = choices.pick(&[0, 8, 100]);
    row.resize(row.len() + trailing, 0);
    (row, places)
}

/// How an archive stores its index and long names.
#[derive(Clone, Copy)]
enum Dialect {
    Gnu,
    Gnu64,
    Bsd,
}

impl Dialect {
    /// An archive whose index has two symbols of each member.
    fn write(self, members: &[(String, Vec<u8>)]) -> Vec<u8> {
        let (mut payload, mut starts, mut names) = (Vec::new(), Vec::new(), Vec::new());
        for (number, (name, content)) in members.iter().enumerate() {
            starts.push(payload.len());
            let mut content = content.clone();
            let field = match self {
                Self::Bsd => {
                    content.splice(..0, name.bytes());
                    format!("#1/{}", name.len())
                }
                _ if name.len() > 15 => {
                    let at = names.len();
                    names.extend(format!("{name}/\n").bytes());
                    format!("/{at}")
                }
                _ => format!("{name}/"),
            };
            payload.extend(header(&field, number, content.len()));
            payload.extend(&content);
            payload.resize(payload.len().next_multiple_of(2), b'\n');
        }
        let count = 2 * starts.len();
        let symbols: String = (0..count).map(|number| format!("s{number}\0")).collect();
        let names = if names.is_empty() { names } else { [header("//", 0, names.len()), names].concat() };
        let names = pad(names);
        let width = if matches!(self, Self::Gnu64) { 8 } else { 4 };
        let index_len = match self {
            Self::Bsd => 8 + 8 * count + symbols.len(),
            _ => width * (1 + count) + symbols.len(),
        };
        let name = match self {
            Self::Gnu => "/",
            Self::Gnu64 => "/SYM64/",
            Self::Bsd => "__.SYMDEF",
        };
        let first = 8 + 60 + index_len.next_multiple_of(2) + names.len();
        let offsets = starts.iter().flat_map(|start| [first + start; 2]);
        let big = |value: usize| number(value, width).into_iter().rev().collect::<Vec<u8>>();
        let numbers: Vec<u8> = match self {
            Self::Bsd => {
                let pairs =
                    (0..).zip(offsets).flat_map(|(symbol, offset)| [number(3 * symbol, 4), number(offset, 4)].concat());
                [number(8 * count, 4), pairs.collect(), number(symbols.len(), 4)].concat()
            }
            _ => [big(count), offsets.flat_map(big).collect()].concat(),
        };
        let index = pad([header(name, 0, index_len), numbers, symbols.into_bytes()].concat());
        [&b"!<arch>\n"[..], &index, &names, &payload].concat()
    }
}

fn pad(mut member: Vec<u8>) -> Vec<u8> {
    member.resize(member.len().next_multiple_of(2), b'\n');
    member
}

fn header(name: &str, number: usize, size: usize) -> Vec<u8> {
    format!("{name:<16}{:<12}{number:<6}{:<6}{:<8}{size:<10}`\n", 1_700_000_000 + number, 7, 100_644).into_bytes()
}

/// The names and contents of the members of an archive.
fn contents(data: &[u8]) -> Vec<(String, Vec<u8>)> {
    let members = ArchiveFile::parse(data).unwrap();
    let members = members.members().map(|member| {
        let member = member.unwrap();
        (String::from_utf8_lossy(member.name()).into_owned(), member.data(data).unwrap().to_vec())
    });
    members.collect()
}

/// The members of an archive have the same headers but for their sizes, and each symbol leads to the same member.
fn follows(before: &[u8], after: &[u8]) {
    let described = |data: &[u8]| {
        let archive = ArchiveFile::parse(data).ok()?;
        let describe = |member: &ArchiveMember<'_>| {
            let header = member.header().unwrap();
            [member.name(), &header.date[..], &header.uid, &header.gid, &header.mode].concat()
        };
        let members: Vec<_> = archive.members().map_while(|member| Some(describe(&member.ok()?))).collect();
        let symbols = archive.symbols().ok().flatten().into_iter().flatten().map_while(Result::ok);
        let led = symbols.map(|symbol| {
            let member = archive.member(symbol.offset()).ok().map(|member| describe(&member));
            (symbol.name().to_vec(), member)
        });
        Some((members, led.collect::<Vec<_>>()))
    };
    assert!(described(before) == described(after), "other members or symbols than before");
}

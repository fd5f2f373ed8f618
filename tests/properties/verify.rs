use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use memchr::memmem;
use offload_bundle::container::object;
use offload_bundle::container::sequence::Inflate;
use offload_bundle::container::stream::{Compression, Method};
use offload_bundle::id::{EntryId, OffloadKind};
use offload_bundle::inventory::Contents;
use offload_bundle::io::Input;
use offload_bundle::job::{Verified, Verify, VerifyRule};
use offload_bundle::llvm::{BundleFiles, FileType, ImageFiles, List, Package};
use offload_bundle::scan::{Checksums, Format, Scan};

use super::choices::{Choices, digest};
use super::formats;
use super::room::Room;
use super::roundtrip::compression_of;
use super::search::{LIMITS, Seen, harmless, leads_elsewhere, search_with};
use super::sources::Sources;
use super::unbundle::{Missing, unbundling};

/// The maximum length of the text of a fault, in characters, before escaping.
const TEXT_MAX: usize = 803;

/// Any bytes are verified, with the same result in two runs. The counts equal a search's, each broken part and each
/// trailing part is a fault, and unread parts are listed. Faults are short and contain no control characters.
///
/// If a file has no faults, all its code objects can be extracted; bundles in a row can be listed, and the first entry
/// of each ID can be unbundled.
///
/// The tool's own output (bundles of any type and offload binaries, with and without compression) is readable, without
/// overlaps and trailing bytes, and with valid entry IDs.
pub fn verify(data: &[u8]) {
    hostile(data);
    own(data);
}

fn run(path: &Path) -> Verified {
    let mut verify = Verify::default();
    verify.scan.limits = LIMITS;
    verify.run(path).unwrap()
}

fn hostile(data: &[u8]) {
    let sources = Sources::nested(data);
    if leads_elsewhere(&sources) {
        return;
    }
    let room = Room::with(data);
    let verified = run(&room.input());
    assert_eq!(format!("{verified:?}"), format!("{:?}", run(&room.input())), "verified twice");
    room.holds_only(&["in"]);
    let found = search_with(&Input::read(&room.input()).unwrap(), Inflate::Whole, false, &mut |_| {});
    let bundled = verified.bundles + verified.without_bundle;
    assert_eq!((bundled, verified.code_objects), (found.bundles.len(), counted(&room.input())));
    let of_rule = |rule: VerifyRule| verified.faults.iter().filter(move |fault| fault.rule == rule);
    if verified.more_faults == 0 {
        let broken = of_rule(VerifyRule::Readable).filter(|fault| fault.bundle.is_none());
        assert_eq!(broken.count(), found.broken.len() + found.hidden.len(), "{:?} {:?}", found.broken, found.hidden);
        let trailing = of_rule(VerifyRule::Trailing).map(|fault| (fault.place.clone(), fault.offset));
        assert!(trailing.eq(found.trailing.iter().cloned()), "{:?}", found.trailing);
    }
    // Code in a kpack archive that is compressed by an unknown method is a fault of the archive.
    let bundles = found.bundles.iter().filter(|bundle| bundle.format != Format::Kpack);
    let obfuscated = bundles.flat_map(|bundle| &bundle.objects).filter(|object| object.is_obfuscated).count();
    assert_eq!(verified.unchecked, obfuscated);
    assert_eq!(
        verified.unread.len() + verified.more_unread.values().sum::<usize>(),
        found.unread.len() + obfuscated,
        "{:?}",
        found.unread
    );
    for fault in &verified.faults {
        harmless(&fault.to_string());
        assert!(!fault.text.contains("internal error"), "{fault}");
        // An escaped character takes up to ten characters.
        assert!(fault.text.chars().count() <= TEXT_MAX * 10 && !fault.text.is_empty(), "{fault}");
    }
    // Obfuscated code is not a fault, and is skipped.
    let is_any_readable = found.code_objects() > obfuscated;
    if verified.faults.is_empty() && is_any_readable {
        sound(&room, &found);
    }
}

/// The number of code objects in a file that sums count.
fn counted(path: &Path) -> usize {
    let mut scan = Scan::default();
    (scan.inflate, scan.limits, scan.checksums) = (Inflate::Whole, LIMITS, Checksums::OfAll);
    let contents = Contents::read(&Input::read(path).unwrap(), &scan).unwrap();
    let code_objects = contents.bundles.iter().flat_map(|bundle| &bundle.code_objects);
    code_objects.filter(|code_object| code_object.size > 0 && !code_object.has_parts).count()
}

/// Checks that a file without faults can be processed.
fn sound(room: &Room, found: &Seen) {
    let headers = search_with(&Input::read(&room.input()).unwrap(), Inflate::Headers, false, &mut |_| {});
    match super::extract::run(room, &super::extract::all()) {
        Ok(files) => {
            let objects = headers.bundles.iter().flat_map(|bundle| &bundle.objects);
            let obfuscated = objects.filter(|object| object.is_obfuscated).count();
            assert_eq!(files.len(), headers.code_objects() - obfuscated, "not all is extracted");
        }
        Err(error) => panic!("no faults, and {error}"),
    }
    let own: Vec<_> = found.bundles.iter().filter(|bundle| bundle.place.steps().is_empty()).collect();
    if own.is_empty() || own.iter().any(|bundle| bundle.format != Format::Bundle) {
        return;
    }
    let input = room.input();
    let mut lines = Vec::new();
    let (file_type, inflate) = ("bc".to_owned(), Inflate::AsNeeded);
    let mut list = List::new(input.clone(), FileType::from_name(&file_type).unwrap());
    (list.inflate, list.limits) = (inflate, LIMITS);
    list.run(&mut lines, &mut |_| {}).unwrap();
    let ids: Vec<&[u8]> = own.iter().flat_map(|bundle| &bundle.objects).map(|object| object.id.as_slice()).collect();
    assert_eq!(String::from_utf8(lines).unwrap().lines().count(), ids.len(), "not all is listed");
    let mut seen = BTreeSet::new();
    let first = own[0].objects.iter().filter(|object| seen.insert(&object.id)).take(20);
    let requests: Vec<EntryId> =
        first.filter_map(|object| EntryId::parse(std::str::from_utf8(&object.id).ok()?).ok()).collect();
    let names: Vec<String> = (0..requests.len()).map(|index| format!("out{index}")).collect();
    let requests = requests.into_iter().zip(names.iter().map(|name| room.path(name))).collect();
    let mut job = unbundling(input, &file_type, requests, Missing::Refused);
    job.limits = LIMITS;
    job.run(&mut |_| {}).unwrap();
    names.iter().for_each(|name| drop(room.take(name).unwrap()));
}

/// The rules that the tool's own output never breaks. The other rules depend on the user's requests.
const OWN: [VerifyRule; 4] = [VerifyRule::Readable, VerifyRule::Trailing, VerifyRule::Overlap, VerifyRule::EntryId];

/// Writes files with these bytes, and verifies them.
fn own(data: &[u8]) {
    let digest = digest(data);
    let mut choices = Choices::new(&digest);
    let (first, second) = data.split_at(data.len() * choices.below(9) / 8);
    let room = Room::with(first);
    room.write("in1", second);
    let method = choices.pick(&[None, Some(Method::Zstd), Some(Method::Zlib)]);
    let compression = method.map(|method| compression_of(method, &mut choices));
    if choices.below(4) == 0 {
        package(&room);
    } else if !bundle(&room, data, compression, &mut choices) {
        return;
    }
    let verified = run(&room.path("written"));
    let found = search_with(&Input::read(&room.path("written")).unwrap(), Inflate::Whole, false, &mut |_| {});
    assert!(verified.bundles >= 1 && found.code_objects() >= 2, "not all of it is found: {verified:?}");
    assert_eq!(verified.code_objects, counted(&room.path("written")));
    for fault in &verified.faults {
        // Code objects may be broken bundles.
        let is_own = fault.place.steps().is_empty() && OWN.contains(&fault.rule);
        assert!(!is_own, "written with a fault: {fault}");
    }
}

fn package(room: &Room) {
    let text = |text: &str| text.as_bytes().to_vec();
    let image = |file: &str| {
        let mut image = ImageFiles::default();
        (image.files, image.offload_kind) = (vec![room.path(file)], Some(OffloadKind::Hip));
        image.strings = vec![(text("triple"), text("amdgcn-amd-amdhsa")), (text("arch"), text("gfx906"))];
        image
    };
    Package::new(vec![image("in"), image("in1")], room.path("written")).run().unwrap();
}

/// Writes a bundle. Returns whether it must be without faults.
fn bundle(room: &Room, data: &[u8], compression: Option<Compression>, choices: &mut Choices<'_>) -> bool {
    let file_type = choices.pick(&["bc", "o", "s", "ll"]);
    // Marker lines in text contents are read as marker lines.
    if matches!(file_type, "s" | "ll") && memmem::find(data, formats::MAGIC).is_some() {
        return false;
    }
    let members = [choices.id(), choices.id()].into_iter().zip(["in", "in1"].map(|name| room.path(name)));
    let members: Vec<(EntryId, PathBuf)> = members.collect();
    let mut job = BundleFiles::new(members.clone(), room.path("written"), FileType::from_name(file_type).unwrap());
    (job.alignment, job.compression) = (NonZeroU32::new(choices.pick(&[1, 8, 4096])), compression);
    if let Err(error) = job.run(&mut |_| {}) {
        // A content that begins like an object but is not one cannot be a host.
        assert_eq!(file_type, "o", "not written: {error}");
        return false;
    }
    let written = std::fs::read(room.path("written")).unwrap();
    // Zeros are a COFF object of no machine for LLVM, but not for a search.
    if file_type == "o" && written.starts_with(&[0, 0]) {
        return false;
    }
    // A fat object has the faults of its host; one for a GPU is checked as a code object.
    let is_fat = object::HostFormat::identify(&written).is_some();
    let found = search_with(&Input::read(&room.path("written")).unwrap(), Inflate::Headers, false, &mut |_| {});
    let is_device = found.bundles.iter().any(|bundle| bundle.format == Format::CodeObject);
    let hosts = members.iter().filter(|(id, _)| id.kind() == OffloadKind::Host);
    !is_fat || (!is_device && hosts.map(|(_, path)| run(path)).all(|verified| verified.faults.is_empty()))
}

use object::read::{Object as _, ObjectSection as _};
use offload_bundle::container::object::{FatObject, Format};
use offload_bundle::container::{Container, Member};
use offload_bundle::error::Malformed;
use offload_bundle::input::Input;

use super::choices::{Choices, digest};
use super::text::emit;

const MAGIC: &str = "__CLANG_OFFLOAD_BUNDLE__";
const HOST: &str = "host-x86_64-unknown-linux-gnu-";

/// Any bytes that begin like ELF are a fat object, none, or an error. As the host of a fat object they come back byte for
/// byte, and so do the code objects; other readers find a section for each.
pub fn elf(data: &[u8]) {
    if Format::of(data) == Some(Format::Elf) {
        object(data);
    }
}

/// The same for COFF, the kind with 32-bit section numbers included.
pub fn coff(data: &[u8]) {
    if Format::of(data) == Some(Format::Coff) {
        object(data);
    }
}

/// IDs and contents; a content that cannot be restored is none.
type Entries = Vec<(Vec<u8>, Option<Vec<u8>>)>;

fn read(data: &[u8]) -> Result<Entries, Malformed> {
    let contents = FatObject.read(data, u64::try_from(data.len()).unwrap(), 0)?;
    let entries = contents.map_or(Vec::new(), |contents| contents.entries);
    Ok(entries.into_iter().map(|entry| (entry.id.clone(), entry.content(data))).collect())
}

fn object(data: &[u8]) {
    let before = read(data);
    let Some(Fat { fat, ids, code_objects }) = append(data) else { return };
    let after = read(&fat).unwrap();
    assert!(after.len() >= 3, "{} of 3 sections were added", after.len());
    let (old, new) = after.split_at(after.len() - 3);
    // All of them, also those of a fat object that became the host of another, are the file without the last three.
    let hosts = after.iter().filter(|(id, content)| id.starts_with(b"host-") && content.as_deref() == Some(data));
    assert!(hosts.count() > 0, "the host comes back changed");
    let expected = [data, &code_objects[0], &code_objects[1]];
    for ((entry, id), content) in new.iter().zip(ids).zip(expected) {
        assert_eq!(entry.0, id.as_bytes());
        assert!(entry.1.as_deref() == Some(content), "{id} comes back changed");
    }
    if let Ok(before) = before {
        let ids = |entries: &[(Vec<u8>, _)]| entries.iter().map(|(id, _)| id.clone()).collect::<Vec<_>>();
        assert_eq!(ids(old), ids(&before), "the sections that were there");
    }
    witness(data, &fat, ids, [&[0], &code_objects[0], &code_objects[1]]);
}

/// A fat object, and what was added to the host.
struct Fat {
    fat: Vec<u8>,
    ids: [&'static str; 3],
    code_objects: [Vec<u8>; 2],
}

/// A fat object with this host and two code objects, if it can be one.
fn append(data: &[u8]) -> Option<Fat> {
    let digest = digest(data);
    let mut choices = Choices::new(&digest);
    let ids =
        [HOST, "hip-amdgcn-amd-amdhsa--gfx906", choices.pick(&["hipv4-amdgcn-amd-amdhsa--gfx90a:xnack+", "x", ""])];
    let ids = [ids[choices.below(2)], ids[1], ids[2]];
    let ids = if ids[0] == ids[1] { [HOST, ids[2], ids[1]] } else { ids };
    let code_objects = [data[..choices.below(data.len())].to_vec(), vec![choices.byte(); choices.below(3)]];
    let inputs = [data, &code_objects[0], &code_objects[1]].map(|content| Input::from_bytes("in", content.to_vec()));
    let members: Vec<Member<'_>> =
        ids.iter().zip(&inputs).map(|(id, input)| Member { id: (*id).to_owned(), content: input.as_slice() }).collect();
    let fat = emit(&FatObject.plan(&members).ok()?);
    Some(Fat { fat, ids, code_objects })
}

/// A reader that is not ours, where it can read the host.
fn witness(host: &[u8], fat: &[u8], ids: [&str; 3], contents: [&[u8]; 3]) {
    if object::File::parse(host).is_err() {
        return;
    }
    let fat = object::File::parse(fat).unwrap();
    let sections: Vec<_> = fat.sections().collect();
    let sections = &sections[sections.len() - 3..];
    for ((section, id), content) in sections.iter().zip(ids).zip(contents) {
        assert_eq!(section.name_bytes().unwrap().escape_ascii().to_string(), format!("{MAGIC}{id}"));
        assert!(section.data().unwrap() == content, "{id}");
    }
}

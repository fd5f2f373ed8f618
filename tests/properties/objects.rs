use object::read::{Object as _, ObjectSection as _};
use offload_bundle::container::object::{FatObject, HostFormat};
use offload_bundle::container::{Container, Member};
use offload_bundle::error::Malformed;
use offload_bundle::io::Input;

use super::choices::{Choices, digest};
use super::text::emit;

const MAGIC: &str = "__CLANG_OFFLOAD_BUNDLE__";
const HOST: &str = "host-x86_64-unknown-linux-gnu-";
const GFX906: &str = "hip-amdgcn-amd-amdhsa--gfx906";

/// Any bytes that begin like ELF are a fat object, another object, or an error. As the host of a fat object they are
/// restored byte for byte, as are the code objects; other readers find a section for each.
pub fn elf(data: &[u8]) {
    if HostFormat::identify(data) == Some(HostFormat::Elf) {
        object(data);
    }
}

/// Any bytes that begin like COFF are a fat object, another object, or an error, including the variant with 32-bit
/// section numbers.
pub fn coff(data: &[u8]) {
    if HostFormat::identify(data) == Some(HostFormat::Coff) {
        object(data);
    }
}

/// IDs and contents; `None` for a content that cannot be restored.
type Entries = Vec<(Vec<u8>, Option<Vec<u8>>)>;

fn read(data: &[u8]) -> Result<Entries, Malformed> {
    let contents = FatObject.read(data, u64::try_from(data.len()).unwrap(), 0)?;
    let entries = contents.map_or(Vec::new(), |contents| contents.entries);
    Ok(entries.into_iter().map(|entry| (entry.id.clone(), entry.content(data))).collect())
}

fn object(data: &[u8]) {
    let digest = digest(data);
    let mut choices = Choices::new(&digest);
    let small = vec![choices.byte(); choices.below(3)];
    let other = choices.pick(&["hipv4-amdgcn-amd-amdhsa--gfx90a:xnack+", "x", "y"]);
    let mut added = [(HOST, data), (GFX906, &data[..choices.below(data.len())]), (other, &small)];
    added.rotate_left(choices.below(3));
    let inputs = added.map(|(_, content)| Input::from_bytes("in", content.to_vec()));
    let members: Vec<Member<'_>> = added
        .iter()
        .zip(&inputs)
        .map(|((id, _), input)| Member { id: (*id).to_owned(), content: input.as_slice() })
        .collect();
    let before = read(data);
    let Ok(plan) = FatObject.plan(&members) else { return };
    let fat = emit(&plan);
    let after = read(&fat).unwrap();
    assert!(after.len() >= added.len(), "{} of 3 sections were added", after.len());
    let (old, new) = after.split_at(after.len() - added.len());
    if let Ok(before) = before {
        let ids = |entries: &[(Vec<u8>, _)]| entries.iter().map(|(id, _)| id.clone()).collect::<Vec<_>>();
        assert_eq!(ids(old), ids(&before), "the sections that were there");
    }
    // With this many hosts, the last one is not examined.
    let crowded = old.iter().filter(|(id, _)| id.starts_with(b"host-")).count() >= 64;
    for ((id, content), (added_id, added)) in new.iter().zip(added) {
        assert_eq!(id, added_id.as_bytes());
        let same = content.as_deref() == Some(added);
        assert!(same || (crowded && added_id == HOST), "{added_id} comes back changed");
    }
    witness(data, &fat, added);
}

/// Compares with another reader, if it can read the host.
fn witness(host: &[u8], fat: &[u8], added: [(&str, &[u8]); 3]) {
    if object::File::parse(host).is_err() {
        return;
    }
    let fat = object::File::parse(fat).unwrap();
    let sections: Vec<_> = fat.sections().collect();
    let sections = &sections[sections.len() - added.len()..];
    for (section, (id, content)) in sections.iter().zip(added) {
        assert_eq!(section.name_bytes().unwrap().escape_ascii().to_string(), format!("{MAGIC}{id}"));
        assert!(section.data().unwrap() == if id == HOST { &[0] } else { content }, "{id}");
    }
}

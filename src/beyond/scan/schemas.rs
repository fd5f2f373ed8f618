//! The schemas of texts in code objects: one of some names, or of a form.

use schemars::{Schema, SchemaGenerator, json_schema};

use crate::base::id::OffloadKind;
use crate::beyond::codec::Codec;
use crate::beyond::container::{ContentKind, FORMATS};
use crate::beyond::document::schemas::{names, names_or_null};

pub(crate) fn formats(_: &mut SchemaGenerator) -> Schema {
    names(&FORMATS.each_ref().map(|row| row.name))
}

pub(crate) fn kinds(_: &mut SchemaGenerator) -> Schema {
    names_or_null(&OffloadKind::all().map(OffloadKind::name).collect::<Vec<_>>())
}

pub(crate) fn content_kinds(_: &mut SchemaGenerator) -> Schema {
    use ContentKind::*;
    let all = [Empty, Elf, Bitcode, SpirV, Ptx, Cubin, LtoIr, FatBinary, Bundle, Archive, Coff, Text, Unknown];
    names_or_null(&all.map(ContentKind::name))
}

pub(crate) fn methods(_: &mut SchemaGenerator) -> Schema {
    names(&[Codec::Zlib, Codec::Zstd, Codec::Lz4, Codec::Unknown].map(Codec::name))
}

pub(crate) fn uri(_: &mut SchemaGenerator) -> Schema {
    let inflated = "(&inflated-offset=[0-9]+&inflated-size=[0-9]+)?";
    let pattern = format!("^file://[^#]*#(member=[^&]*&)*offset=[0-9]+&size=[0-9]+{inflated}$");
    json_schema!({ "type": ["string", "null"], "pattern": pattern })
}

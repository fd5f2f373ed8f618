//! The schemas in `docs`, which are generated from the types of reports.

use schemars::generate::SchemaSettings;
use schemars::transform::{Transform, transform_subschemas};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use super::{Document, Report};
use crate::base::id::OffloadKind;
use crate::beyond::code::ContentKind;
use crate::beyond::codec::Codec;
use crate::beyond::container::FORMATS;
use crate::beyond::job::{
    DiffChange, DiffReport, ExtractReport, InspectReport, KernelsReport, VerifyReport, VerifyRule,
};

fn names(names: &[&str]) -> Schema {
    json_schema!({ "type": "string", "enum": names })
}

fn names_or_null(names: &[&str]) -> Schema {
    let names: Vec<Option<&str>> = names.iter().copied().map(Some).chain([None]).collect();
    json_schema!({ "type": ["string", "null"], "enum": names })
}

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

pub(crate) fn changes(_: &mut SchemaGenerator) -> Schema {
    names(&[DiffChange::Changed, DiffChange::Added, DiffChange::Removed].map(DiffChange::name))
}

pub(crate) fn presences(_: &mut SchemaGenerator) -> Schema {
    names(&["lost", "gained", "replaced", "in both"])
}

pub(crate) fn rules(_: &mut SchemaGenerator) -> Schema {
    use VerifyRule::*;
    let of_bundles = [Readable, Trailing, EntryId, Feature, Duplicate, Conflict, Overlap, Target];
    let others = [VerifyRule::CodeObject, Loadable, Kpack, Expected, Unexpected, Compressed];
    names(&of_bundles.into_iter().chain(others).map(VerifyRule::name).collect::<Vec<_>>())
}

pub(crate) fn uri(_: &mut SchemaGenerator) -> Schema {
    let inflated = "(&inflated-offset=[0-9]+&inflated-size=[0-9]+)?";
    let pattern = format!("^file://[^#]*#(member=[^&]*&)*offset=[0-9]+&size=[0-9]+{inflated}$");
    json_schema!({ "type": ["string", "null"], "pattern": pattern })
}

/// Gives schemas the form of this project: paragraphs are single lines, links are their texts, and objects may have
/// more fields.
#[derive(Clone)]
struct ProjectForm;

impl Transform for ProjectForm {
    fn transform(&mut self, schema: &mut Schema) {
        if schema.get("description").is_some() {
            let text = description_of(schema);
            schema.insert("description".to_owned(), text.into());
        }
        schema.remove("format");
        if schema.get("properties").is_some() {
            schema.insert("additionalProperties".to_owned(), true.into());
        }
        transform_subschemas(self, schema);
    }
}

/// Returns the description of a schema as one line without links.
fn description_of(schema: &Schema) -> String {
    let comment = schema.get("description").unwrap().as_str().unwrap();
    let link = regex_lite::Regex::new(r"\[`?([^]`]*)`?\]\([^)]*\)").unwrap();
    let text = comment.split("\n\n").map(|paragraph| paragraph.replace('\n', " ")).collect::<Vec<_>>().join(" ");
    link.replace_all(&text, "$1").into_owned()
}

fn generate_schema<R: Report + JsonSchema>(subcommand: &str) -> String {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let mut generator = settings.into_generator();
    let report = description_of(&R::json_schema(&mut generator));
    let mut schema = generator.into_root_schema_for::<Document<R, Vec<String>>>();
    // The first sentence is about the type.
    let of_all = description_of(&schema);
    let of_all = of_all.split_once(". ").unwrap().1.to_owned();
    schema.insert("title".to_owned(), format!("The report of `offload-bundle {subcommand} --json`").into());
    schema.insert("description".to_owned(), format!("{report} {of_all}").into());
    ProjectForm.transform(&mut schema);
    let version = &mut schema.as_object_mut().unwrap()["properties"]["version"];
    *version = serde_json::json!({ "description": version["description"], "const": R::VERSION });
    serde_json::to_string_pretty(&schema).unwrap() + "\n"
}

#[test]
fn the_schemas_in_docs_match_the_types() {
    let bless = std::env::var("BLESS").as_deref() == Ok("1");
    for (subcommand, schema) in [
        ("inspect", generate_schema::<InspectReport>("inspect")),
        ("extract", generate_schema::<ExtractReport<'_>>("extract")),
        ("kernels", generate_schema::<KernelsReport>("kernels")),
        ("diff", generate_schema::<DiffReport>("diff")),
        ("verify", generate_schema::<VerifyReport>("verify")),
    ] {
        let path = format!("{}/docs/{subcommand}.schema.json", env!("CARGO_MANIFEST_DIR"));
        if bless {
            std::fs::write(&path, &schema).unwrap();
        }
        assert!(std::fs::read_to_string(&path).unwrap() == schema, "{path} is out of date; BLESS=1 writes it again");
    }
}

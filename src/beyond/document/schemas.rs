//! The form of the schemas in `docs`, which are generated from the types of reports.

use schemars::generate::SchemaSettings;
use schemars::transform::{Transform, transform_subschemas};
use schemars::{JsonSchema, Schema, json_schema};

use super::{Document, Report};

/// The schema of a text that is one of some names.
pub(crate) fn names(names: &[&str]) -> Schema {
    json_schema!({ "type": "string", "enum": names })
}

/// The schema of a text that is one of some names, or null.
pub(crate) fn names_or_null(names: &[&str]) -> Schema {
    let names: Vec<Option<&str>> = names.iter().copied().map(Some).chain([None]).collect();
    json_schema!({ "type": ["string", "null"], "enum": names })
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

/// Generates the schema of the report of a subcommand.
pub(crate) fn generate_schema<R: Report + JsonSchema>(subcommand: &str) -> String {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let mut generator = settings.into_generator();
    let report = description_of(&R::json_schema(&mut generator));
    let mut schema = generator.into_root_schema_for::<Document<R, Vec<String>>>();
    // The schema so far has the description of `Document`. Its first sentence says what that type is, and is replaced
    // by the description of the report.
    let of_document = description_of(&schema);
    let (_, shared) = of_document.split_once(". ").unwrap();
    schema.insert("title".to_owned(), format!("The report of `offload-bundle {subcommand} --json`").into());
    schema.insert("description".to_owned(), format!("{report} {shared}").into());
    ProjectForm.transform(&mut schema);
    let version = &mut schema.as_object_mut().unwrap()["properties"]["version"];
    *version = serde_json::json!({ "description": version["description"], "const": R::VERSION });
    serde_json::to_string_pretty(&schema).unwrap() + "\n"
}

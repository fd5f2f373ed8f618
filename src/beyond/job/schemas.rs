//! The schemas of texts in reports, and the test of the schemas in `docs`.

use schemars::{Schema, SchemaGenerator};

use super::{DiffChange, DiffReport, ExtractReport, InspectReport, KernelsReport, VerifyReport, VerifyRule};
use crate::beyond::document::schemas::{generate_schema, names};

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

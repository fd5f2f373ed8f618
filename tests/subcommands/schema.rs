//! Checks the printed documents against the committed schemas. Supports only the part of JSON Schema that they use; any
//! other keyword fails, so that no rule is ignored.

use std::path::Path;

use serde_json::{Value, json};

/// Checks a document of `inspect`, `extract`, `kernels` or `verify`.
pub fn check(name: &str, document: &Value) {
    let faults = faults(&read(name), document);
    assert!(faults.is_empty(), "{name}: {}\n{document:#}", faults.join("\n"));
}

fn read(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("docs/{name}.schema.json"));
    serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap()
}

fn faults(schema: &Value, document: &Value) -> Vec<String> {
    let mut validator = Validator { root: schema, faults: Vec::new() };
    validator.value(schema, document, "");
    validator.faults
}

struct Validator<'s> {
    root: &'s Value,
    faults: Vec<String>,
}

impl Validator<'_> {
    fn value(&mut self, schema: &Value, value: &Value, at: &str) {
        for (keyword, rule) in schema.as_object().unwrap() {
            self.keyword(keyword, rule, schema, value, at);
        }
    }

    fn keyword(&mut self, keyword: &str, rule: &Value, schema: &Value, value: &Value, at: &str) {
        let holds = match keyword {
            "$schema" | "$defs" | "title" | "description" => true,
            "type" => one_or_many(rule).iter().any(|name| has_type(name.as_str().unwrap(), value)),
            "const" => rule == value,
            "enum" => rule.as_array().unwrap().contains(value),
            "minimum" => value.as_i64().is_none_or(|number| number >= rule.as_i64().unwrap()),
            "pattern" => {
                let pattern = regex_lite::Regex::new(rule.as_str().unwrap()).unwrap();
                value.as_str().is_none_or(|text| pattern.is_match(text))
            }
            "$ref" => {
                let name = rule.as_str().unwrap().strip_prefix('#').unwrap();
                return self.value(self.root.pointer(name).unwrap(), value, at);
            }
            "anyOf" => {
                let fits = |schema: &Value| {
                    let mut inner = Validator { root: self.root, faults: Vec::new() };
                    inner.value(schema, value, at);
                    inner.faults.is_empty()
                };
                rule.as_array().unwrap().iter().any(fits)
            }
            "items" => {
                let items = value.as_array().into_iter().flatten().enumerate();
                return items.for_each(|(index, item)| self.value(rule, item, &format!("{at}/{index}")));
            }
            "properties" => {
                for (name, inner) in rule.as_object().unwrap() {
                    value.get(name).into_iter().for_each(|found| self.value(inner, found, &format!("{at}/{name}")));
                }
                true
            }
            "required" => rule.as_array().unwrap().iter().all(|name| value.get(name.as_str().unwrap()).is_some()),
            // Clients must accept additional fields; this test checks that the schema describes all fields of this
            // release.
            "additionalProperties" => {
                let known = |name: &String| schema["properties"].get(name).is_some();
                rule == true && value.as_object().is_none_or(|object| object.keys().all(known))
            }
            other => panic!("the validator does not know the keyword '{other}'"),
        };
        if !holds {
            self.faults.push(format!("{at}: {value} breaks {keyword}: {rule}"));
        }
    }
}

fn one_or_many(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_else(|| vec![value.clone()])
}

fn has_type(name: &str, value: &Value) -> bool {
    match name {
        "null" => value.is_null(),
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "boolean" => value.is_boolean(),
        other => panic!("the validator does not know the type '{other}'"),
    }
}

#[test]
fn the_validator_finds_what_breaks_a_schema() {
    let object = json!({
        "path": "p", "origin": null, "member": null, "section": null, "container": "bundle", "bundle": 0, "bundle_offset": 0,
        "bundle_size": 1, "offset": 0, "size": 1, "stored_size": 1, "has_parts": false, "compressed": null, "inflated_offset": null,
        "entry_id": "x", "kind": null, "triple": null, "target_id": null, "recorded_target_id": null,
        "ptx_version": null, "image_kind": "ELF", "source": null,
        "uri": "file:///p#offset=0&size=1"
    });
    let with = |name: &str, value: Value| {
        let mut object = object.clone();
        object[name] = value;
        json!({"version": 1, "problems": [], "directories": [], "libraries": null, "files": [{"path": "p", "size": 1, "code_objects": [object], "unread": [], "bundles": 1, "coverage": [], "needs": [], "kpack_references": [], "copies": []}]})
    };
    let schema = read("inspect");
    assert_eq!(faults(&schema, &with("size", json!(2))), [""; 0]);
    let compressed = json!({"method": "zstd", "format_version": 3, "inflated_size": 1});
    assert_eq!(faults(&schema, &with("compressed", compressed)), [""; 0]);
    for (name, wrong) in [
        ("size", json!(-1)),
        ("size", json!("1")),
        ("size", json!(1.5)),
        ("offset", json!("0")),
        ("member", json!(1)),
        ("kind", json!("sysl")),
        ("container", json!(null)),
        ("compressed", json!({"method": "lzma", "format_version": 3, "inflated_size": 1})),
        ("compressed", json!({"method": "zstd", "format_version": 3})),
        ("uri", json!("file:///p#offset=&size=1")),
        ("uri", json!("/p#offset=0&size=1")),
        ("new field", json!(1)),
    ] {
        assert_ne!(faults(&schema, &with(name, wrong.clone())), [""; 0], "{name}: {wrong}");
    }
    assert_ne!(faults(&schema, &json!({"version": 2, "problems": [], "files": []})), [""; 0]);
    assert_ne!(faults(&schema, &json!({"version": 1, "files": []})), [""; 0]);
}

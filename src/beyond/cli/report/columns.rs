//! The rows of a JSON report as columns. A column has every different value once, and for each row the index of its
//! value. So a page with 88,137 kernels stays small, and is quick to sort.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;
use serde_json::Value;

use crate::beyond::base::text::file_name;
use crate::beyond::cli::picture::LibraryName;

/// Rows with the same fields, for one table of the page. `page.js` reads this form.
#[derive(Debug, Default, Serialize)]
pub(super) struct Columns {
    /// The number of rows.
    rows: usize,
    /// The columns, by the name of the field. The fields of a nested object are columns too, such as `old.vgprs`.
    columns: BTreeMap<String, PageColumn>,
}

/// A column. Equal values are kept once.
#[derive(Debug, Default, Serialize)]
struct PageColumn {
    /// The different values.
    values: Vec<Value>,
    /// For each row, the index of its value in `values`.
    rows: Vec<usize>,
    /// The index of each value in `values`, by the JSON text of the value.
    #[serde(skip)]
    indices: HashMap<String, usize>,
}

impl Columns {
    /// Adds a row. Only fields whose names `is_wanted` accepts become columns.
    pub(super) fn add(&mut self, row: &impl Serialize, is_wanted: fn(&str) -> bool) -> serde_json::Result<()> {
        if let Value::Object(fields) = serde_json::to_value(row)? {
            for (name, value) in fields {
                if is_wanted(&name) {
                    self.add_value(name, value);
                }
            }
            self.rows += 1;
        }
        Ok(())
    }

    /// Adds the value of a field to its column, or the fields of an object to theirs.
    fn add_value(&mut self, name: String, value: Value) {
        match value {
            Value::Object(fields) => {
                for (field, value) in fields {
                    self.add_value(format!("{name}.{field}"), value);
                }
            }
            value => {
                let column = self.columns.entry(name).or_default();
                // Earlier rows may not have had the field.
                column.fill(self.rows);
                column.push(value);
            }
        }
    }

    /// Adds the columns `file` and `library`: for each row, the names of the library at its `path` and `member`. A
    /// library that `names` does not have gets the last part of its member or path.
    pub(super) fn add_libraries(&mut self, names: &HashMap<(String, Option<String>), LibraryName>) {
        let path_and_member = ["path", "member"].map(|field| self.columns.get(field));
        let [mut files, mut libraries] = [PageColumn::default(), PageColumn::default()];
        for row in 0..self.rows {
            let [path, member] = path_and_member.map(|column| Some(column?.text(row)?.to_owned()));
            let path = path.unwrap_or_default();
            let last_part = file_name(member.as_deref().unwrap_or(&path).as_ref());
            let LibraryName { file, library } = match names.get(&(path, member)) {
                Some(name) => name.clone(),
                None => LibraryName { library: last_part, ..LibraryName::default() },
            };
            files.push(file.into());
            libraries.push(library.into());
        }
        self.columns.insert("file".to_owned(), files);
        self.columns.insert("library".to_owned(), libraries);
    }

    /// Gives all columns the same number of rows, because the last rows may lack some fields. Call it after the last
    /// row.
    pub(super) fn fill_columns(&mut self) {
        for column in self.columns.values_mut() {
            column.fill(self.rows);
        }
    }
}

impl PageColumn {
    /// Returns the value of a row, or `None` if it is not a text.
    fn text(&self, row: usize) -> Option<&str> {
        self.values.get(*self.rows.get(row)?)?.as_str()
    }

    /// Adds null for rows without the field, up to this number of rows.
    fn fill(&mut self, rows: usize) {
        while self.rows.len() < rows {
            self.push(Value::Null);
        }
    }

    /// Adds the value of the next row.
    fn push(&mut self, value: Value) {
        let values = &mut self.values;
        let index = *self.indices.entry(value.to_string()).or_insert_with(|| {
            values.push(value);
            values.len() - 1
        });
        self.rows.push(index);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn column(values: &Value, rows: &[usize]) -> Value {
        json!({"values": values, "rows": rows})
    }

    #[test]
    fn rows_have_the_names_of_their_libraries() {
        let mut columns = Columns::default();
        for row in [json!({"path": "d/w.whl", "member": "l/k.so"}), json!({"path": "d/a.so", "member": null})] {
            columns.add(&row, |_| true).unwrap();
        }
        columns.fill_columns();
        let name = LibraryName { file: "w".to_owned(), library: "k".to_owned() };
        columns.add_libraries(&HashMap::from([(("d/w.whl".to_owned(), Some("l/k.so".to_owned())), name)]));
        let found = serde_json::to_value(&columns).unwrap();
        assert_eq!(found["columns"]["file"], column(&json!(["w", ""]), &[0, 1]));
        assert_eq!(found["columns"]["library"], column(&json!(["k", "a.so"]), &[0, 1]));
    }

    #[test]
    fn columns_have_every_value_once_and_all_rows() {
        let mut columns = Columns::default();
        for row in [json!({"a": "x", "n": {"b": 1}}), json!({"a": "x", "n": null}), json!({"a": "y", "n": {"b": 1}})] {
            columns.add(&row, |name| name != "c").unwrap();
        }
        columns.add(&json!({"a": 1, "c": 2}), |name| name != "c").unwrap();
        columns.fill_columns();
        let expected = json!({"rows": 4, "columns": {
            "a": column(&json!(["x", "y", 1]), &[0, 0, 1, 2]),
            "n": column(&json!([null]), &[0, 0, 0, 0]),
            "n.b": column(&json!([1, null]), &[0, 1, 0, 1]),
        }});
        assert_eq!(serde_json::to_value(&columns).unwrap(), expected);
    }
}

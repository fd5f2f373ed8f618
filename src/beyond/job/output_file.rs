//! The file that a job writes if its output is a directory.

use std::path::{Path, PathBuf};

/// Returns the path of the file to write: `output` itself or, if that is a directory, a file in it with the name of
/// `named`. `-` is standard output, and as input it has no name.
pub(crate) fn output_file(output: &Path, named: &Path) -> PathBuf {
    let is_stream = [output, named].iter().any(|path| path.as_os_str() == "-");
    match named.file_name() {
        Some(name) if !is_stream && output.is_dir() => output.join(name),
        _ => output.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_gets_a_file_of_the_same_name() {
        let directory = tempfile::TempDir::new().unwrap();
        let [output, missing] = [directory.path().to_owned(), directory.path().join("missing")];
        for (output, named, expected) in [
            (&output, "a.whl", output.join("a.whl")),
            (&output, "/tree/a.whl", output.join("a.whl")),
            (&output, "-", output.clone()),
            (&output, "..", output.clone()),
            (&missing, "a.whl", missing.clone()),
            (&"-".into(), "a.whl", "-".into()),
        ] {
            assert_eq!(output_file(output, named.as_ref()), expected, "{named}");
        }
    }
}

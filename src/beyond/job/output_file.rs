//! The file that a job writes if its output is a directory.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::base::error::{Error, ErrorKind, Result};

/// Returns the path of the file to write: `output` itself or, if that is a directory, a file in it with the name of
/// `input`. `-` is standard output, and as input it has no name.
///
/// # Errors
/// [`ErrorKind::Conflict`] if the directory already has the input itself under this name: a job changes its input only
/// if its output is named. The errors of [`named_output`].
pub(crate) fn output_file(output: &Path, input: &Path) -> Result<PathBuf> {
    let Some(name) = input.file_name().filter(|_| input.as_os_str() != "-") else { return Ok(output.to_owned()) };
    let file = named_output(output, name)?;
    if file != output
        && let (Ok(written), Ok(read)) = (file.canonicalize(), input.canonicalize())
        && written == read
    {
        let hint = "name another directory, or the file itself if it is to be changed in place";
        return Err(Error::refused(ErrorKind::Conflict, &file, None, "it is the input itself").with_hint(hint));
    }
    Ok(file)
}

/// Returns the path of the file to write: `output` itself or, if that is a directory, a file in it with this name.
///
/// # Errors
/// The errors of [`ensure_directory`].
pub(crate) fn named_output(output: &Path, name: &OsStr) -> Result<PathBuf> {
    ensure_directory(output)?;
    Ok(if output.as_os_str() != "-" && output.is_dir() { output.join(name) } else { output.to_owned() })
}

/// Fails if an output ends like the name of a directory, and nothing has this name.
///
/// # Errors
/// [`ErrorKind::Io`]
pub(crate) fn ensure_directory(output: &Path) -> Result<()> {
    let ends_with_separator = output.to_string_lossy().ends_with(std::path::is_separator);
    if !ends_with_separator || output.exists() {
        return Ok(());
    }
    let hint = "create it with mkdir first, or leave out the slash to write a file of this name";
    Err(Error::refused(ErrorKind::Io, output, None, "the directory does not exist").with_hint(hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_gets_a_file_of_the_same_name() {
        let directory = tempfile::TempDir::new().unwrap();
        let [output, missing] = [directory.path().to_owned(), directory.path().join("missing")];
        for (output, input, expected) in [
            (&output, "a.whl", output.join("a.whl")),
            (&output, "/tree/a.whl", output.join("a.whl")),
            (&output, "-", output.clone()),
            (&output, "..", output.clone()),
            (&missing, "a.whl", missing.clone()),
            (&"-".into(), "a.whl", "-".into()),
        ] {
            assert_eq!(output_file(output, input.as_ref()).unwrap(), expected, "{input}");
        }
    }

    #[test]
    fn only_an_output_that_is_named_replaces_the_input() {
        let directory = tempfile::TempDir::new().unwrap();
        let at = |name: &str| directory.path().join(name);
        std::fs::create_dir(at("other")).unwrap();
        std::fs::write(at("a.whl"), b"").unwrap();
        let kind = |output: &Path| output_file(output, &at("a.whl")).map_err(|error| error.kind());
        assert_eq!(kind(directory.path()), Err(ErrorKind::Conflict));
        assert_eq!(kind(&at("other/..")), Err(ErrorKind::Conflict));
        assert_eq!(kind(&at("a.whl")), Ok(at("a.whl")));
        assert_eq!(kind(&at("other")), Ok(at("other/a.whl")));
        // Another file of the same name is replaced, as `cp` does.
        std::fs::write(at("other/a.whl"), b"").unwrap();
        assert_eq!(kind(&at("other")), Ok(at("other/a.whl")));
    }

    #[test]
    fn a_directory_must_exist() {
        let directory = tempfile::TempDir::new().unwrap();
        let missing = directory.path().join("missing/");
        let error = output_file(&missing, "a.whl".as_ref()).unwrap_err();
        assert_eq!(error.to_string(), format!("'{}': the directory does not exist", missing.display()));
        assert!(error.hint().unwrap().contains("mkdir"));
    }
}

//! Parses the value of `--image`: keys and values, `key=value,key=value,...`.
//!
//! As in LLVM 22.1.8, a value ends at a comma and a key at its first `=`. The values of a repeated key are joined with
//! commas. `file` and `kind` have a meaning; all other keys become part of the image's strings.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::PathBuf;

use crate::base::id::OffloadKind;
use crate::base::io::sys;
use crate::llvm::work::{Filter, ImageFiles, ImageRequest};

/// Keys and their values, in the order of the keys.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Arguments<'t> {
    pairs: BTreeMap<&'t [u8], Value>,
}

/// A value, or `None` for a key without `=`.
type Value = Option<Vec<u8>>;

impl<'t> Arguments<'t> {
    /// Parses the value of one `--image`: pairs `key=value` with commas between them. The values of a repeated key
    /// become one, with commas between them.
    pub(super) fn parse(typed: &'t OsStr) -> Self {
        let mut pairs: BTreeMap<&[u8], Value> = BTreeMap::new();
        for argument in typed.as_encoded_bytes().split(|&byte| byte == b',') {
            let mut halves = argument.splitn(2, |&byte| byte == b'=');
            let (key, value) = (halves.next().unwrap_or_default(), halves.next());
            match pairs.get_mut(key) {
                Some(values) => {
                    let values = values.get_or_insert_default();
                    values.push(b',');
                    values.extend_from_slice(value.unwrap_or_default());
                }
                None => drop(pairs.insert(key, value.map(<[u8]>::to_vec))),
            }
        }
        Self { pairs }
    }

    /// Returns the files to pack, one image for each, and the kind and strings that these images share. `files` is
    /// empty if no file is named, which [`Package::run`](crate::llvm::work::Package::run) rejects.
    pub(super) fn into_image(self) -> ImageFiles {
        let mut image = ImageFiles::default();
        for (key, value) in self.pairs {
            match (key, value) {
                (b"file", Some(names)) => {
                    image.files = names.split(|&byte| byte == b',').map(path).collect();
                }
                // For `file` without `=`, LLVM's tool silently packs nothing. Here, no file is named, which is an
                // error.
                (b"file", None) => {}
                (b"kind", value) => image.offload_kind = kind(&value),
                (key, value) => image.strings.push((key.to_vec(), value.unwrap_or_default())),
            }
        }
        // LLVM writes the strings in the order of a hash table, which is this one for the keys of clang: `feature`,
        // `arch` and `triple`.
        image.strings.sort_by_key(|(key, _)| key != b"feature");
        image
    }

    /// Returns the request for images to extract: `file` is the output, and every other pair is a condition. A kind
    /// that LLVM's tool does not know selects images without a kind.
    pub(super) fn into_request(self) -> ImageRequest {
        let mut request = ImageRequest::default();
        for (key, value) in self.pairs {
            match key {
                b"file" => request.file = Some(path(&value.unwrap_or_default())),
                b"kind" => request.filters.push(Filter::Kind(kind(&value))),
                _ => request.filters.push(Filter::String { key: key.to_vec(), value: value.unwrap_or_default() }),
            }
        }
        request
    }
}

fn path(name: &[u8]) -> PathBuf {
    sys::os_string(name.to_vec()).into()
}

/// Returns the offload kind, or `None` if LLVM's tool does not know the name.
fn kind(name: &Value) -> Option<OffloadKind> {
    match name.as_deref()? {
        b"openmp" => Some(OffloadKind::OpenMp),
        b"cuda" => Some(OffloadKind::Cuda),
        b"hip" => Some(OffloadKind::Hip),
        b"sycl" => Some(OffloadKind::Sycl),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(typed: &str) -> ImageFiles {
        Arguments::parse(typed.as_ref()).into_image()
    }

    fn request(typed: &str) -> ImageRequest {
        Arguments::parse(typed.as_ref()).into_request()
    }

    fn strings(strings: &[(&str, &str)]) -> Vec<(Vec<u8>, Vec<u8>)> {
        strings.iter().map(|(key, value)| (key.as_bytes().to_vec(), value.as_bytes().to_vec())).collect()
    }

    #[test]
    fn files_and_kind_are_not_among_the_strings() {
        let image = image("file=a.o,triple=nvptx64,arch=sm_70,kind=openmp");
        assert_eq!(image.files, [PathBuf::from("a.o")]);
        assert_eq!(image.offload_kind, Some(OffloadKind::OpenMp));
        assert_eq!(image.strings, strings(&[("arch", "sm_70"), ("triple", "nvptx64")]));
    }

    #[test]
    fn repeated_keys_are_joined_and_only_the_first_sign_separates() {
        let image = image("file=a,x=1=2,file=b,x,kind=hip,x=3,kind=hip");
        assert_eq!(image.files, ["a", "b"].map(PathBuf::from));
        assert_eq!(image.offload_kind, None);
        assert_eq!(image.strings, strings(&[("x", "1=2,,3")]));
    }

    #[test]
    fn an_empty_key_is_a_key() {
        assert_eq!(image("").strings, strings(&[("", "")]));
        assert_eq!(image("=x,").strings, strings(&[("", "x,")]));
    }

    #[test]
    fn a_file_without_value_is_no_file_and_an_empty_value_is_one() {
        assert!(image("file").files.is_empty());
        assert!(image("triple=x").files.is_empty());
        assert_eq!(image("file=").files, [PathBuf::new()]);
        assert_eq!(image("file,file").files, [PathBuf::new(), PathBuf::new()]);
    }

    #[test]
    fn requests_have_a_file_and_filters() {
        let request = request("arch=a,kind=host,file=x,file=y,arch=b,k");
        assert_eq!(request.file, Some("x,y".into()));
        let [arch, k] =
            [("arch", "a,b"), ("k", "")].map(|(key, value)| Filter::String { key: key.into(), value: value.into() });
        assert_eq!(request.filters, [arch, k, Filter::Kind(None)]);
    }
}

//! Reads the reference of a split library to its kpack archives.
//!
//! The section `.rocm_kpack_ref` (`.kpackrf` in PE) begins with one MessagePack map:
//!
//! | key | value |
//! |---|---|
//! | `kpack_search_paths` | array of paths, relative to the directory of the library; `@GFXARCH@` is a placeholder for a target ID |
//! | `kernel_name` | the path of the library in its tree, which begins its binary keys |
//!
//! Rejected: a map that does not end in the first 64 KiB of its section (ROCm's loader reads no more), more than 32
//! search paths.

use crate::base::error::Malformed;
use crate::beyond::messagepack::Value;

/// The placeholder for a target ID in a search path.
pub(crate) const PLACEHOLDER: &[u8] = b"@GFXARCH@";

/// The largest length of a reference that is read, in bytes.
const LEN_MAX: usize = 64 << 10;

/// The maximum number of search paths.
const PATHS_MAX: usize = 32;

/// The reference of a split library.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reference {
    /// The path of the library in its tree, which begins its binary keys: `lib/librocrand.so.1`.
    pub kernel_name: Vec<u8>,
    /// The paths of archives, relative to the directory of the library. `@GFXARCH@` is a placeholder for a target ID.
    pub search_paths: Vec<Vec<u8>>,
}

impl Reference {
    /// Reads the reference at the start of the section `data`. Offsets in errors count from `base`.
    ///
    /// # Errors
    /// [`Malformed`] if it is not complete, or has no name or no search paths.
    pub fn read(data: &[u8], base: u64) -> Result<Self, Malformed> {
        let data = data.get(..LEN_MAX).unwrap_or(data);
        let Some((map, _)) = Value::first(data, base) else {
            return Err(broken(base, "is not complete MessagePack"));
        };
        let Some(kernel_name) = map.get(b"kernel_name").and_then(Value::text) else {
            return Err(broken(base, "has no string 'kernel_name'"));
        };
        let paths = map.get(b"kpack_search_paths").and_then(Value::array);
        // One more than allowed shows that there are too many.
        let paths: Vec<_> = paths.into_iter().flatten().filter_map(Value::text).take(PATHS_MAX + 1).collect();
        if paths.is_empty() {
            return Err(broken(base, "has no 'kpack_search_paths'"));
        }
        if paths.len() > PATHS_MAX {
            return Err(broken(base, &format!("has more than {PATHS_MAX} search paths")));
        }
        let search_paths = paths.into_iter().map(<[u8]>::to_vec).collect();
        Ok(Self { kernel_name: kernel_name.to_vec(), search_paths })
    }

    /// Returns the index of the wrapper that loads the code of a binary key, or `None` for a key of another library.
    pub(crate) fn index_of(&self, key: &[u8]) -> Option<u32> {
        let digits = key.strip_prefix(self.kernel_name.as_slice())?.strip_prefix(b"#")?;
        let text = crate::base::bytes::text(digits)?;
        let index: u32 = text.parse().ok()?;
        // The loader compares whole keys, so another spelling of the index, such as `00`, is another key.
        if index.to_string() == text { Some(index) } else { None }
    }
}

/// A fault of the reference at the offset `base`. `problem` continues the message: "has no string 'kernel_name'".
fn broken(base: u64, problem: &str) -> Malformed {
    Malformed::fault("the reference to kpack archives", base, format!(" {problem}"))
}

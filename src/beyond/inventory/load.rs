//! Reads the code objects of a file that the runtime of a GPU loads.

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::slice;

use super::contents::Keep;
use super::loader::Loader;
use super::read::{Reading, Visit};
use crate::base::error::Result;
use crate::base::io::input::Input;
use crate::beyond::runtime::Device;
use crate::beyond::scan::{
    CodeObject, CodeObjectsOfBundle, FoundBundle, ReadList, Scan, contents, copy_bytes, weight_of, weight_of_bytes,
};

/// A code object that the runtime of a GPU loads, with its bytes.
#[derive(Debug)]
pub struct LoadedCode<'i> {
    code_object: CodeObject,
    bytes: Result<Cow<'i, [u8]>>,
}

impl<'i> LoadedCode<'i> {
    /// Returns the bundle entry ID, safe to print on a terminal.
    pub fn id(&self) -> String {
        self.code_object.shown_id()
    }

    /// Returns the target in one word, as [`CodeObject::target`].
    pub fn target(&self) -> String {
        self.code_object.target()
    }

    /// Returns everything that the search knows of the code object.
    pub fn code_object(&self) -> &CodeObject {
        &self.code_object
    }

    /// Returns the bytes: borrowed from the file if they are in it as they are, otherwise inflated or restored.
    ///
    /// # Errors
    /// The error of inflating or restoring the code object.
    pub fn bytes(self) -> Result<Cow<'i, [u8]>> {
        self.bytes
    }
}

/// Returns the code objects of a file that the runtime of a GPU loads, with their bytes, in the order of a search: the
/// best of every bundle, as [`loaded`](super::loaded()) chooses it. Code objects that are compressed are inflated into
/// memory, on all processors.
///
/// ```
/// use std::path::Path;
///
/// use offload_bundle::io::Input;
/// use offload_bundle::runtime;
///
/// # #[cfg(feature = "zstd")] {
/// let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/compressed/llvm22-v3.ccob");
/// let input = Input::read(&file)?;
/// for code in runtime::load(&input, &"gfx90a:sramecc+:xnack-".parse()?)? {
///     println!("{}", code.id());
///     assert_eq!(code.bytes()?.len(), 75);
/// }
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// The errors of [`Scan::run`]. Broken parts of the file are passed over. If a bundle cannot be inflated, that is an
/// error of the first of its code objects, and the others are left out.
pub fn load<'i>(input: &'i Input, device: &Device) -> Result<Vec<LoadedCode<'i>>> {
    let mut load = Load { input, loaded: Vec::new() };
    let mut loader = Loader::new(slice::from_ref(device));
    let read = |together: CodeObjectsOfBundle<'_, usize, CodeObject>| contents(together, copy_bytes);
    let weight = |read: &Vec<_>| weight_of(read, weight_of_bytes);
    Reading::new(&Scan::default(), Keep::Nothing).run(input, &read, &weight, &mut |visit| {
        match visit {
            Visit::Bundle(_, found, reads) => {
                for (position, loaded) in loader.add(&found)? {
                    load.add(position, loaded.code_object, Some(&found), reads);
                }
            }
            Visit::End(place, reads) => {
                // A choice among several bundles (a unit) stays open until the data that holds them ends. It is made
                // now, because the bytes cannot be read afterwards.
                for (position, loaded) in loader.finish_places(|unit| unit.data() == *place) {
                    load.add(position, loaded.code_object, None, reads);
                }
            }
            Visit::Read(contents) => {
                for ((position, code_object), bytes) in contents {
                    load.loaded.push((position, LoadedCode { code_object, bytes: bytes.map(Cow::Owned) }));
                }
            }
            Visit::Split(..) | Visit::Archive(..) | Visit::Bad(_) | Visit::Unread(_) => {}
        }
        Ok(ControlFlow::Continue(()))
    })?;
    load.loaded.sort_unstable_by_key(|(position, _)| *position);
    Ok(load.loaded.into_iter().map(|(_, loaded)| loaded).collect())
}

/// The code objects that are loaded so far, with their positions in the search.
struct Load<'i> {
    input: &'i Input,
    loaded: Vec<(usize, LoadedCode<'i>)>,
}

impl Load<'_> {
    /// Borrows a code object from the file if the file has its bytes as they are. Otherwise adds the code object to
    /// `reads`, so that the search inflates or restores it. `found` is the bundle that is being visited, or `None` at
    /// the end of its data.
    fn add(
        &mut self,
        position: usize,
        code_object: CodeObject,
        found: Option<&FoundBundle<'_>>,
        reads: &mut ReadList<usize, CodeObject>,
    ) {
        // A code object that is compressed on its own is stored in the file too, but the stored bytes are not its
        // content.
        let stored = if code_object.packed.is_none() { code_object.stored_in(self.input) } else { None };
        match stored {
            Some(stored) => {
                let bytes = Ok(Cow::Borrowed(stored.bytes()));
                self.loaded.push((position, LoadedCode { code_object, bytes }));
            }
            None => reads.add(found, (position, code_object)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::beyond::inventory::loaded;

    #[test]
    #[cfg_attr(miri, ignore = "inflates")]
    fn load_returns_the_bytes_of_what_loaded_chooses() {
        for (fixture, gpu) in [
            ("binary/llvm22-plain.bundle", "gfx906"),
            ("sequence/mixed.bundle", "gfx906"),
            ("compressed/v1-zlib.ccob", "gfx90a"),
            ("fatbin/every-form.fatbin", "sm_80"),
            ("offload/v3-zstd.offload", "gfx90a"),
            ("kpack/zstd.kpack", "gfx942"),
        ] {
            let input = Input::read(&Path::new("fixtures").join(fixture)).unwrap();
            let device: Device = gpu.parse().unwrap();
            let chosen = loaded(&Scan::default(), &input, slice::from_ref(&device)).unwrap();
            let code = load(&input, &device).unwrap();
            let ids: Vec<_> = chosen.iter().map(|chosen| chosen.code_object.shown_id()).collect();
            assert_eq!(code.iter().map(LoadedCode::id).collect::<Vec<_>>(), ids, "{fixture}");
            for code in code {
                let (size, is_exact) = (code.code_object.size, code.code_object.packed.is_none());
                let bytes = code.bytes().unwrap();
                assert!(!bytes.is_empty() && (!is_exact || u64::try_from(bytes.len()).unwrap() == size), "{fixture}");
            }
        }
    }
}

//! The kind and the target of a code object. A replacement must have the same.

use object::read::{File, Object as _};

use crate::beyond::code::target;
use crate::beyond::container::fatbin::{CudaKind, Image, made_for};
use crate::beyond::container::{ContentKind, Magic};
use crate::beyond::scan::CodeObjectRef;

/// The kind of a code object, and its target.
pub(super) struct KindAndTarget {
    kind: &'static str,
    /// The triple and target ID of code for a device, or the architecture of another object. The suffix of an SM
    /// architecture is left out, because cubins do not always record it.
    target: Option<String>,
    /// The SM architecture with its suffix, as in `sm_90a`, if the compiler recorded it in the code.
    made_for: Option<String>,
}

impl KindAndTarget {
    /// Identifies a code object by its content.
    pub(super) fn identify(data: &[u8]) -> Self {
        let (magic, kind) = (Magic::identify(data), ContentKind::identify(data));
        let made_for = match kind {
            ContentKind::Cubin | ContentKind::Ptx => made_for(data),
            _ => None,
        };
        let target = match kind {
            // Host code is compared by its architecture alone.
            ContentKind::Elf | ContentKind::Coff if !magic.is_gpu_elf() => {
                File::parse(data).ok().map(|file| format!("{:?}", file.architecture()))
            }
            ContentKind::Elf | ContentKind::SpirV | ContentKind::Bitcode => Some(target::triple_and_target_id(data)),
            // Cubins do not always record the suffix, as in `sm_90a`. If they do, it is in `made_for`.
            ContentKind::Cubin | ContentKind::Ptx => Some(without_suffix(&target::triple_and_target_id(data))),
            _ => None,
        };
        // Each of these kinds covers several formats, so the format is compared instead.
        let kind = match kind {
            ContentKind::Bundle | ContentKind::Coff | ContentKind::Text | ContentKind::Unknown => {
                magic.name().unwrap_or(kind.name())
            }
            _ => kind.name(),
        };
        Self { kind, target, made_for }
    }

    /// Identifies an old code object: as its fatbin records it, or by its content. Returns `None` if no fatbin records
    /// it and the content cannot be read.
    pub(super) fn identify_old(code_object: &CodeObjectRef<'_>) -> Option<Self> {
        let found = match code_object.bytes() {
            Ok(bytes) => Some(Self::identify(&bytes)),
            Err(_) => None,
        };
        if let Some(image) = code_object.cuda()
            && let Some(recorded) = Self::recorded(image, found.as_ref())
        {
            return Some(recorded);
        }
        found
    }

    /// Returns the kind and the target that a fatbin records for a code object, or `None` for TileIR and unknown kinds,
    /// which the content decides. `found` is the code object as identified by its content: a fatbin does not record the
    /// suffix of the architecture.
    fn recorded(image: &Image, found: Option<&Self>) -> Option<Self> {
        let (kind, target) = match image.kind {
            CudaKind::Cubin => (ContentKind::Cubin, Some(format!("nvptx64-nvidia-cuda--sm_{}", image.sm))),
            CudaKind::Ptx => (ContentKind::Ptx, Some(format!("nvptx64-nvidia-cuda--compute_{}", image.sm))),
            CudaKind::LtoIr => (ContentKind::LtoIr, None),
            CudaKind::TileIr | CudaKind::Other(_) => return None,
        };
        let made_for = found.and_then(|found| found.made_for.clone());
        Some(Self { kind: kind.name(), target, made_for })
    }

    /// Returns the reason why a new code object cannot replace this one, or `None` if it can.
    pub(super) fn difference(&self, new: &Self) -> Option<String> {
        if self.kind != new.kind {
            return Some(format!("the new code object is of the kind '{}', the old one '{}'", new.kind, self.kind));
        }
        const UNKNOWN: &str = "nothing that is known";
        // Architectures with suffixes are more specific, but are compared only if both code objects record them.
        let (new, old) = match (&new.made_for, &self.made_for) {
            (Some(new), Some(old)) => (&**new, &**old),
            _ => (new.target.as_deref().unwrap_or(UNKNOWN), self.target.as_deref().unwrap_or(UNKNOWN)),
        };
        if new == old {
            return None;
        }
        Some(format!("the new code object is for {new}, the old one for {old}"))
    }
}

fn without_suffix(target: &str) -> String {
    target.trim_end_matches(char::is_alphabetic).to_owned()
}

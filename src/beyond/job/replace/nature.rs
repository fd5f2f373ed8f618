//! What a code object is, as far as one that replaces it has to be the same.

use object::read::{File, Object as _};

use crate::beyond::code::target;
use crate::beyond::container::fatbin::{CudaKind, Image, made_for};
use crate::beyond::scan::CodeObjectRef;
use crate::llvm::container::content_kind::ContentKind;
use crate::llvm::container::magic::Magic;

/// The kind of a code object, and what it was made for.
pub(super) struct Nature {
    kind: &'static str,
    /// The triple and target ID of code for a device, without the suffix of an SM architecture, which cubins do not
    /// always record; the architecture of other objects.
    target: Option<String>,
    /// The SM architecture, with its suffix, for which a compiler made it.
    made_for: Option<String>,
}

impl Nature {
    pub(super) fn of(data: &[u8]) -> Self {
        let (magic, kind) = (Magic::identify(data), ContentKind::of(data));
        let made_for = matches!(kind, ContentKind::Cubin | ContentKind::Ptx).then(|| made_for(data)).flatten();
        let target = match kind {
            ContentKind::Elf | ContentKind::Coff if !magic.is_gpu_elf() => {
                File::parse(data).ok().map(|file| format!("{:?}", file.architecture()))
            }
            ContentKind::Elf | ContentKind::SpirV | ContentKind::Bitcode => Some(target::of(data)),
            ContentKind::Cubin | ContentKind::Ptx => Some(without_suffix(&target::of(data))),
            _ => None,
        };
        let kind = match kind {
            ContentKind::Bundle | ContentKind::Coff | ContentKind::Text | ContentKind::Unknown => magic.name(),
            _ => None,
        }
        .unwrap_or_else(|| kind.name());
        Self { kind, target, made_for }
    }

    /// That of an old code object; none if it cannot be read, and nothing else tells.
    pub(super) fn of_old(code_object: &CodeObjectRef<'_>) -> Option<Self> {
        let found = code_object.bytes().ok().map(|bytes| Self::of(&bytes));
        code_object.cuda().and_then(|image| Self::recorded(image, found.as_ref())).or(found)
    }

    /// That which a fatbin records of code, whatever the code is.
    fn recorded(image: &Image, found: Option<&Self>) -> Option<Self> {
        let target = |form: &str| Some(format!("nvptx64-nvidia-cuda--{form}_{}", image.sm));
        let (kind, target) = match image.kind {
            CudaKind::Cubin => (ContentKind::Cubin, target("sm")),
            CudaKind::Ptx => (ContentKind::Ptx, target("compute")),
            CudaKind::LtoIr => (ContentKind::LtoIr, None),
            CudaKind::TileIr | CudaKind::Other(_) => return None,
        };
        Some(Self { kind: kind.name(), target, made_for: found.and_then(|found| found.made_for.clone()) })
    }

    /// Why a new code object is not what this one is; none if it is.
    pub(super) fn difference(&self, new: &Self) -> Option<String> {
        if self.kind != new.kind {
            return Some(format!("the new code object is of the kind '{}', the old one '{}'", new.kind, self.kind));
        }
        let unknown = || "nothing that is known".to_owned();
        let targets = [&new.target, &self.target].map(|target| target.clone().unwrap_or_else(unknown));
        let both = new.made_for.clone().zip(self.made_for.clone()).map_or(targets, |(new, old)| [new, old]);
        let [new, old] = both;
        (new != old).then(|| format!("the new code object is for {new}, the old one for {old}"))
    }
}

fn without_suffix(target: &str) -> String {
    target.trim_end_matches(char::is_alphabetic).to_owned()
}

//! The arguments of kernels. Kernels of one source often have equal arguments, which share memory.

use std::collections::HashSet;
use std::sync::Arc;

use crate::base::bytes::{len_u64, to_u64, total};
use crate::llvm::container::limits::Allowance;

/// An argument of a kernel. A field is `None` if the code object does not record it. With the feature `serde`, the
/// argument is serialized.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Argument {
    /// The offset in bytes among the arguments.
    pub offset: Option<u32>,
    /// The size in bytes.
    pub size: Option<u32>,
    /// The kind, such as `by_value`, `global_buffer` or `hidden_hostcall_buffer`: only for AMD GPUs. It may be any
    /// bytes.
    pub kind: Option<Arc<[u8]>>,
    /// The name in the source, which clang records for OpenCL C with `-cl-kernel-arg-info`. It may be any bytes.
    pub name: Option<Arc<[u8]>>,
}

impl Argument {
    /// Returns the memory that the argument takes, in bytes.
    fn weight(&self) -> u64 {
        /// The memory that an `Arc` takes for its two counts and for rounding, in bytes.
        const COUNTS: u64 = 24;
        let texts = [&self.kind, &self.name].into_iter().flatten().map(|text| len_u64(text).saturating_add(COUNTS));
        total(texts.chain([to_u64(size_of::<Self>())]))
    }
}

/// Lists of arguments. Equal lists share memory.
pub(crate) struct ArgumentLists {
    lists: HashSet<Arc<[Argument]>>,
    /// The bytes that further lists may take.
    room: Allowance,
}

impl ArgumentLists {
    /// Returns an empty set of lists, which may take up to `max_bytes` bytes.
    pub(crate) fn new(max_bytes: u64) -> Self {
        Self { lists: HashSet::new(), room: Allowance::new(max_bytes) }
    }

    /// Charges the memory of one argument before its list is complete. Returns `None` if there is no room for it.
    pub(super) fn charge_one(&mut self) -> Option<()> {
        self.room.take(Argument::default().weight())
    }

    /// Returns the known list that is equal to `list`. A new list is charged, added and returned, or `None` if there is
    /// no room for it.
    pub(crate) fn share(&mut self, list: Arc<[Argument]>) -> Option<Arc<[Argument]>> {
        if let Some(known) = self.lists.get(&list) {
            return Some(Arc::clone(known));
        }
        self.room.take(total(list.iter().map(Argument::weight)))?;
        self.lists.insert(Arc::clone(&list));
        Some(list)
    }
}

/// The fields of an argument in documents.
#[cfg(feature = "serde")]
mod fields {
    use std::sync::Arc;

    #[cfg(test)]
    use schemars::JsonSchema;
    use serde::Serialize;

    use super::Argument;
    use crate::base::display::short_name;
    use crate::beyond::document::serialized_as;

    /// The length of the longest name of an argument that is shown in full, in characters.
    const NAME_MAX: usize = 16 << 10;

    serialized_as!(Argument => ArgumentFields);

    /// An argument of a kernel.
    #[derive(Serialize)]
    #[cfg_attr(test, derive(JsonSchema), schemars(rename = "Argument"))]
    struct ArgumentFields {
        /// The offset among the arguments.
        offset: Option<u32>,
        /// The size.
        size: Option<u32>,
        /// The kind, as AMD's metadata names it: `by_value`, `global_buffer`, or a name that begins with `hidden_` for
        /// arguments that the runtime adds, such as `hidden_hostcall_buffer`. Null for NVIDIA GPUs.
        kind: Option<String>,
        /// The name in the source, which clang records for OpenCL C with `-cl-kernel-arg-info`. Null if it is not recorded.
        name: Option<String>,
    }

    impl ArgumentFields {
        fn of(Argument { offset, size, kind, name }: &Argument) -> Self {
            Self { offset: *offset, size: *size, kind: shown_text(kind), name: shown_text(name) }
        }
    }

    fn shown_text(text: &Option<Arc<[u8]>>) -> Option<String> {
        Some(short_name(text.as_ref()?, NAME_MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn argument(name: &str) -> Argument {
        Argument { name: Some(name.as_bytes().into()), ..Argument::default() }
    }

    fn list(name: &str) -> Arc<[Argument]> {
        Arc::from([argument("first"), argument(name)])
    }

    #[test]
    fn equal_lists_share_memory_and_others_are_charged() {
        let weight = argument("first").weight() + argument("x").weight();
        let mut lists = ArgumentLists::new(2 * weight);
        let first = lists.share(list("x")).unwrap();
        assert!(Arc::ptr_eq(&first, &lists.share(list("x")).unwrap()));
        assert!(!Arc::ptr_eq(&first, &lists.share(list("y")).unwrap()));
        assert!(lists.share(list("z")).is_none() && lists.share(list("x")).is_some());
    }
}

//! Derives decisions from bytes, so that a fuzzer that changes the bytes changes the decisions.

use offload_bundle::id::EntryId;

const KINDS: [&str; 4] = ["host", "hip", "hipv4", "openmp"];
const TRIPLES: [&str; 8] = [
    "amdgcn-amd-amdhsa-",
    "x86_64-unknown-linux-gnu",
    "nvptx64-nvidia-cuda-",
    "spirv64-amd-amdhsa-",
    "amdgcn-amd-amdhsa-unknown",
    "aarch64-unknown-linux-android21",
    "x86_64-pc-windows-msvc",
    "powerpc64le-unknown-linux-gnu",
];
const TARGET_IDS: [&str; 10] = [
    "",
    "gfx906",
    "gfx90a:xnack+",
    "gfx90a:sramecc-:xnack-",
    "gfx90a",
    "sm_70",
    "gfx9-4-generic",
    "fiji",
    "gfx9999",
    "generic",
];

/// Bytes that decide, from the front. When they are used up, every decision is the first alternative.
pub(super) struct Choices<'d> {
    data: &'d [u8],
}

impl<'d> Choices<'d> {
    pub(super) fn new(data: &'d [u8]) -> Self {
        Self { data }
    }

    pub(super) fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.data.split_first() else { return 0 };
        self.data = rest;
        *first
    }

    pub(super) fn below(&mut self, limit: usize) -> usize {
        usize::from(self.byte()) % limit
    }

    pub(super) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// The next bytes, up to `len` of them.
    pub(super) fn take(&mut self, len: usize) -> &'d [u8] {
        let (taken, rest) = self.data.split_at(len.min(self.data.len()));
        self.data = rest;
        taken
    }

    /// The remaining bytes.
    pub(super) fn rest(&mut self) -> &'d [u8] {
        self.take(usize::MAX)
    }

    /// A valid entry ID.
    pub(super) fn id(&mut self) -> EntryId {
        loop {
            let id = format!("{}-{}-{}", self.pick(&KINDS), self.pick(&TRIPLES), self.pick(&TARGET_IDS));
            if let Ok(id) = EntryId::parse(&id) {
                return id;
            }
        }
    }
}

/// Eight decisions derived from all of the bytes, for properties that use the bytes themselves as a file.
pub(super) fn digest(data: &[u8]) -> [u8; 8] {
    // FNV-1a; its upper bits are of better quality.
    let hash = data
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3));
    (hash ^ hash.rotate_left(29).wrapping_mul(0x9e37_79b9_7f4a_7c15)).to_be_bytes()
}

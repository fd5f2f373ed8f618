//! Bytes that behave like GPU code objects when they are compressed, the same in every run.
//!
//! Modelled on rocSPARSE's code objects for seven GPUs (Debian's librocsparse0 5.3.0, about 185 MB each). Zstd at level
//! 3 shows two properties of them. Alone, each code object shrinks to 14 %: kernels are instances of a few templates,
//! so most runs of bytes repeat an earlier run except for some words. And each code object repeats a part of the one
//! before it, 185 MB back: beyond a window of 2^27 bytes and within one of 2^28.

/// The part of each code object that does not repeat the one before it, in percent; the first one is all new. The
/// others follow rocSPARSE's objects for gfx803, gfx900, gfx906, gfx908, gfx90a:xnack+ and gfx90a:xnack-: the size of
/// each when it is compressed after its predecessor, divided by its size when it is compressed alone.
pub const NEW_PERCENT: [u64; 7] = [100, 90, 90, 66, 5, 82, 39];

/// The size of a unit in bytes. Like the code of one source file, a unit is copied from the code object before, or new.
const UNIT: usize = 256 << 10;
/// A copied unit differs from the original in one word out of this many, on average.
const WORDS_PER_CHANGE: usize = 1024;
/// The size in bytes of the runs that make up a new unit. Most runs repeat an earlier part of the unit.
const RUN: usize = 4096;
/// One run out of this many repeats nothing.
const FRESH: u64 = 40;
/// A run that repeats differs in one word out of this many, on average.
const WORDS_PER_EDIT: usize = 11;

/// Random numbers that are the same in every run (xorshift64*).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `limit`.
    fn below(&mut self, limit: u64) -> u64 {
        (self.next() >> 32) % limit
    }

    /// The bytes of at least one word and at most `limit` words.
    fn words(&mut self, limit: usize) -> usize {
        4 * (1 + usize::try_from(self.next() >> 32).unwrap() % limit)
    }
}

/// A code object of `len` bytes that repeats nothing but itself.
pub fn code_object(random: &mut Random, len: usize) -> Vec<u8> {
    sibling(random, &[], 100, len)
}

/// A code object of `len` bytes like `before`, with `new_percent` of its units made anew.
pub fn sibling(random: &mut Random, before: &[u8], new_percent: u64, len: usize) -> Vec<u8> {
    let mut code = Vec::with_capacity(len + 2 * UNIT);
    let mut units = before.chunks(UNIT);
    while code.len() < len {
        match units.next() {
            Some(unit) if random.below(100) >= new_percent => append_changed(random, &mut code, unit),
            _ => append_unit(random, &mut code),
        }
    }
    code.truncate(len);
    let header = elf_header();
    code[..header.len()].copy_from_slice(&header);
    code
}

/// Returns the header of a shared object for AMD GPUs without sections. With it, every tool treats the bytes as code
/// for a GPU.
fn elf_header() -> [u8; 64] {
    let mut header = [0; 64];
    header[..8].copy_from_slice(b"\x7fELF\x02\x01\x01\x40");
    for (offset, half) in [(16, 3_u16), (18, 224), (20, 1), (52, 64), (54, 56), (58, 64)] {
        header[offset..offset + 2].copy_from_slice(&half.to_le_bytes());
    }
    header
}

/// Appends a copy of a unit with some words changed. The copy is a little longer, so that the distance to the original
/// changes from unit to unit.
fn append_changed(random: &mut Random, code: &mut Vec<u8>, mut unit: &[u8]) {
    while !unit.is_empty() {
        let (same, rest) = unit.split_at(random.words(2 * WORDS_PER_CHANGE).min(unit.len()));
        code.extend_from_slice(same);
        code.extend_from_slice(&word(random));
        unit = rest.get(4..).unwrap_or_default();
    }
}

/// Appends a unit that repeats nothing but itself.
fn append_unit(random: &mut Random, code: &mut Vec<u8>) {
    let start = code.len();
    while code.len() < start + UNIT {
        let end = code.len() + RUN - 64 + random.words(32);
        if code.len() < start + 2 * RUN || random.below(FRESH) == 0 {
            while code.len() < end {
                code.extend_from_slice(&word(random));
            }
        } else {
            let from = start + random.words((code.len() - start - RUN) / 4);
            append_repeated(random, code, from, end);
        }
    }
}

/// Appends a copy of the bytes from `from` on, with some words changed, until the code ends at `end`.
fn append_repeated(random: &mut Random, code: &mut Vec<u8>, mut from: usize, end: usize) {
    while code.len() < end {
        let len = random.words(2 * WORDS_PER_EDIT);
        code.extend_from_within(from..from + len);
        code.extend_from_slice(&word(random));
        from += len + 4;
    }
}

/// Returns a random instruction. As in real code, some opcodes and registers are far more frequent than others.
fn word(random: &mut Random) -> [u8; 4] {
    let bits = random.next();
    let [a, b, c, d, e, f, ..] = bits.to_le_bytes();
    [a & b & 0x3f, c & 0x1f, d & e, 0x80 | (f & 0x0f & a)]
}

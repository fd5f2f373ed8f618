//! The order of the keys of an image in LLVM's tool, which writes them in the order of a hash table. The same order
//! here makes the same bytes.
//!
//! LLVM 22.1.8 keeps the keys in a `DenseMap`, a table of slots with open addressing, and writes them in slot order.
//! The table begins with 64 slots. Before an insertion that would leave no more than a quarter of them free, the number
//! is doubled and all keys are inserted again in the order of the old slots. The slot of a key is its hash modulo the
//! number of slots; if it is taken, the search continues 1, 2, 3, … slots further.
//!
//! The hash is the 64-bit one of LLVM's `Hashing.h` (22.1.8) with its fixed seed, a relative of CityHash. The table
//! uses its low 32 bits. The functions for ranges of lengths follow `Hashing.h` step by step.

const SEED: u64 = 0xff51_afd7_ed55_8ccd;
const K0: u64 = 0xc3a5_c85c_97cb_3127;
const K1: u64 = 0xb492_b66f_be98_f273;
const K2: u64 = 0x9ae1_6a3b_2f90_404f;
const K3: u64 = 0xc949_d7c7_509e_6557;
const PAIR: u64 = 0x9ddf_ea08_eb38_2d69;

/// The initial number of slots.
const FIRST_SLOTS: usize = 64;
/// The block size for hashing long keys, in bytes.
const BLOCK: usize = 64;

/// Returns the indices of `keys` in the order of LLVM's table. All keys must be different.
pub(super) fn iteration_order(keys: &[&[u8]]) -> Vec<usize> {
    let hashes: Vec<u32> = keys.iter().map(|key| hash(key)).collect();
    let mut slots = vec![None; FIRST_SLOTS];
    for index in 0..keys.len() {
        // As in LLVM, the table grows before three quarters of it are used.
        if (index + 1) * 4 >= slots.len() * 3 {
            let mut wider = vec![None; slots.len() * 2];
            for moved in slots.into_iter().flatten() {
                insert(&mut wider, &hashes, moved);
            }
            slots = wider;
        }
        insert(&mut slots, &hashes, index);
    }
    slots.into_iter().flatten().collect()
}

/// Inserts the key of this index into the first free slot of its probe sequence. The sequence begins at the hash and
/// goes 1, 2, 3, … slots further. The table always has free slots.
fn insert(slots: &mut [Option<usize>], hashes: &[u32], index: usize) {
    let hash = hashes.get(index).copied().unwrap_or_default();
    let mut at = usize::try_from(hash).unwrap_or_default();
    for step in 1.. {
        let count = slots.len();
        match slots.get_mut(at % count) {
            Some(Some(_)) => at += step,
            Some(free) => {
                *free = Some(index);
                return;
            }
            None => return,
        }
    }
}

/// Returns the lower 32 bits of a key's hash. The table uses no others.
fn hash(key: &[u8]) -> u32 {
    let hash = match key.len() {
        0 => K2 ^ SEED,
        1..=3 => up_to_3(key),
        4..=8 => up_to_8(key),
        9..=16 => up_to_16(key),
        17..=32 => up_to_32(key),
        33..=64 => up_to_64(key),
        _ => over_64(key),
    };
    u32::try_from(hash & u64::from(u32::MAX)).unwrap_or_default()
}

/// The little-endian number in up to eight bytes from `at` on.
fn word(bytes: &[u8], at: usize) -> u64 {
    let bytes = bytes.iter().skip(at).take(8);
    bytes.enumerate().fold(0, |number, (place, &byte)| number | u64::from(byte) << (8 * place))
}

/// The little-endian number in the eight bytes that begin `back` bytes before the end.
fn word_back(bytes: &[u8], back: usize) -> u64 {
    word(bytes, bytes.len() - back)
}

fn length(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

/// Folds the upper bits of a number into the lower ones, as LLVM's `shift_mix`.
fn fold(number: u64) -> u64 {
    number ^ number >> 47
}

/// Hashes two numbers, as LLVM's `hash_16_bytes`.
fn pair(low: u64, high: u64) -> u64 {
    let inner = fold((low ^ high).wrapping_mul(PAIR));
    fold((high ^ inner).wrapping_mul(PAIR)).wrapping_mul(PAIR)
}

fn sum<const N: usize>(numbers: [u64; N]) -> u64 {
    numbers.into_iter().fold(0, u64::wrapping_add)
}

/// Hashes a short key, as LLVM's `hash_1to3_bytes`.
fn up_to_3(key: &[u8]) -> u64 {
    let [first, middle, last] = [0, key.len() / 2, key.len() - 1].map(|index| word(key, index) & 0xff);
    let beginning = (first + (middle << 8)).wrapping_mul(K2);
    let end = (length(key) + (last << 2)).wrapping_mul(K3);
    fold(beginning ^ end ^ SEED).wrapping_mul(K2)
}

/// Hashes a short key, as LLVM's `hash_4to8_bytes`.
fn up_to_8(key: &[u8]) -> u64 {
    let [first, last] = [word(key, 0), word_back(key, 4)].map(|number| number & u64::from(u32::MAX));
    pair(length(key) + (first << 3), SEED ^ last)
}

/// Hashes a short key, as LLVM's `hash_9to16_bytes`.
fn up_to_16(key: &[u8]) -> u64 {
    let last = word_back(key, 8);
    let turned = last.wrapping_add(length(key)).rotate_right(u32::try_from(key.len()).unwrap_or_default());
    pair(SEED ^ word(key, 0), turned) ^ last
}

/// Hashes a short key, as LLVM's `hash_17to32_bytes`.
fn up_to_32(key: &[u8]) -> u64 {
    let first = word(key, 0).wrapping_mul(K1);
    let second = word(key, 8);
    let last = word_back(key, 8).wrapping_mul(K2);
    let last_but_one = word_back(key, 16).wrapping_mul(K0);
    let low = sum([first.wrapping_sub(second).rotate_right(43), (last ^ SEED).rotate_right(30), last_but_one]);
    let high = sum([first, (second ^ K3).rotate_right(20), length(key), SEED]).wrapping_sub(last);
    pair(low, high)
}

/// Hashes a short key, as LLVM's `hash_33to64_bytes`.
fn up_to_64(key: &[u8]) -> u64 {
    let start = sum([length(key), word_back(key, 16)]).wrapping_mul(K0).wrapping_add(word(key, 0));
    let (front_sum, front_mix) = half_of_64(start, [word(key, 8), word(key, 16), word(key, 24)]);
    let start = word(key, 16).wrapping_add(word_back(key, 32));
    let (back_sum, back_mix) = half_of_64(start, [word_back(key, 24), word_back(key, 16), word_back(key, 8)]);
    let crossed =
        [front_sum.wrapping_add(back_mix).wrapping_mul(K2), back_sum.wrapping_add(front_mix).wrapping_mul(K0)];
    let joined = fold(sum(crossed)).wrapping_mul(K0);
    fold((SEED ^ joined).wrapping_add(front_mix)).wrapping_mul(K2)
}

/// Returns the two numbers that LLVM's `hash_33to64_bytes` makes of each half of a key: `vf` and `vs`, or `wf` and
/// `ws`.
fn half_of_64(start: u64, [second, third, last]: [u64; 3]) -> (u64, u64) {
    let two = start.wrapping_add(second);
    let three = two.wrapping_add(third);
    let turned = [start.wrapping_add(last).rotate_right(52), start.rotate_right(37), two.rotate_right(7)];
    (three.wrapping_add(last), sum([sum(turned), three.rotate_right(31)]))
}

/// Hashes a key longer than a block, as LLVM's `hash_combine_range_impl`. The last block ends at the end of the key, so
/// it may overlap the previous one.
fn over_64(key: &[u8]) -> u64 {
    let keyed = SEED.wrapping_mul(K1);
    let folded = fold(SEED);
    let turned = (SEED ^ K1).rotate_right(49);
    let start = [0, SEED, pair(SEED, K1), turned, keyed, folded, pair(keyed, folded)];
    let (blocks, rest) = key.as_chunks::<BLOCK>();
    let last = if rest.is_empty() { None } else { key.last_chunk::<BLOCK>() };
    let [a, b, c, d, e, f, g] = blocks.iter().chain(last).fold(start, mix);
    let low = sum([pair(d, f), fold(b).wrapping_mul(K1), c]);
    let high = sum([pair(e, g), fold(length(key)).wrapping_mul(K1), a]);
    pair(low, high)
}

/// Mixes a block into the seven numbers of the state, as LLVM's `hash_state::mix`.
fn mix([a, b, c, d, e, f, g]: [u64; 7], block: &[u8; BLOCK]) -> [u64; 7] {
    let w: [u64; 8] = std::array::from_fn(|index| word(block, 8 * index));
    let [_, second, third, _, _, sixth, seventh, _] = w;
    let outer = sum([a, b, d, second]).rotate_right(37).wrapping_mul(K1) ^ g;
    let inner = sum([sum([b, e, seventh]).rotate_right(42).wrapping_mul(K1), d, sixth]);
    let turned = sum([c, f]).rotate_right(33).wrapping_mul(K1);
    let (first_half, second_half) = w.split_at(4);
    let (next_d, next_e) = mix_half(first_half, e.wrapping_mul(K1), outer.wrapping_add(f));
    let (next_f, next_g) = mix_half(second_half, turned.wrapping_add(g), inner.wrapping_add(third));
    [turned, inner, outer, next_d, next_e, next_f, next_g]
}

/// Mixes half a block into two of the numbers, as LLVM's `hash_state::mix_32_bytes`.
fn mix_half(words: &[u64], one: u64, other: u64) -> (u64, u64) {
    let &[first, second, third, last] = words else { return (one, other) };
    let begun = one.wrapping_add(first);
    let ended = sum([begun, second, third]);
    let other = sum([sum([other, begun, last]).rotate_right(21), ended.rotate_right(44), begun]);
    (ended.wrapping_add(last), other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_the_reference() {
        let cases: [(&str, u32); 6] = [
            ("", 0xc2c5_cc82),
            ("file", 0xd4e6_b353),
            ("triple", 0x0819_b0d8),
            ("arch", 0xf386_c709),
            ("kind", 0xc820_7aa5),
            ("a long key with more than sixteen bytes in it", 0x8797_474e),
        ];
        for (key, expected) in cases {
            assert_eq!(hash(key.as_bytes()), expected, "{key}");
        }
    }

    #[test]
    fn hashes_of_every_length_are_those_of_the_reference() {
        let mut total = 0_u32;
        for len in 0..=300_usize {
            let key: Vec<u8> = (0..len).map(|at| (at * 7 + len).to_le_bytes()[0]).collect();
            total = total.rotate_left(1) ^ hash(&key);
        }
        // The result of the same loop with LLVM 22.1.8's function.
        assert_eq!(total, 0x6621_6b9c);
    }

    /// The order of the first numbers as keys.
    fn order_of(count: usize) -> Vec<usize> {
        let keys: Vec<String> = (0..count).map(|number| number.to_string()).collect();
        iteration_order(&keys.iter().map(|key| key.as_bytes()).collect::<Vec<_>>())
    }

    #[test]
    fn the_order_is_that_of_the_reference() {
        assert_eq!(order_of(40)[..12], [33, 26, 25, 24, 29, 31, 15, 35, 12, 23, 27, 36]);
        assert_eq!(order_of(100)[..12], [42, 67, 72, 97, 37, 56, 46, 99, 86, 55, 59, 85]);
        assert!(order_of(0).is_empty());
    }
}

//! Changes an input: a number of its format, a payload with correct headers around it, or any bytes.

use libfuzzer_sys::fuzzer_mutate;

use crate::structure::{Field, Parts, fields};

/// The maximum depth of containers in containers that are taken apart for a change.
const DEPTH_MAX: u32 = 3;

/// Changes the first `size` bytes of `data` in place, to at most `max_size` bytes. Returns the new size.
pub fn mutate(data: &mut [u8], size: usize, max_size: usize, seed: u32) -> usize {
    let mut random = Random(u64::from(seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let input = data[..size].to_vec();
    let changed = changed(&input, max_size, &mut random, DEPTH_MAX).filter(|changed| changed.len() <= max_size);
    match changed {
        Some(changed) => {
            data[..changed.len()].copy_from_slice(&changed);
            changed.len()
        }
        None => fuzzer_mutate(data, size, max_size),
    }
}

/// The random numbers of xorshift64*.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next()).unwrap_or(0) % limit.max(1)
    }
}

/// Returns the input with its structure changed. Returns `None` if there is no structure, or by chance: any bytes
/// should then be changed. `depth` is the number of levels that may still be taken apart.
fn changed(input: &[u8], max_size: usize, random: &mut Random, depth: u32) -> Option<Vec<u8>> {
    match random.below(8) {
        0..3 => change_number(input, random),
        3..6 if depth > 0 => change_payload(input, max_size, random, depth - 1),
        6 if input.len() * 2 < max_size => Some(repeated(input, random)),
        _ => None,
    }
}

/// Changes one number of the format to an edge, a near value, the value of another number, or by one bit.
fn change_number(input: &[u8], random: &mut Random) -> Option<Vec<u8>> {
    let fields = fields(input);
    let field = fields.get(random.below(fields.len()))?;
    let old = read(input, field);
    let other = read(input, &fields[random.below(fields.len())]);
    let len = u64::try_from(input.len()).ok()?;
    let edges =
        [0, 1, u64::MAX, u64::MAX >> 1, 1 << 63, 1 << 31, u64::from(u32::MAX), len, len + 1, len.wrapping_sub(1)];
    let new = match random.below(6) {
        0 => edges[random.below(edges.len())],
        1 => old.wrapping_add(1),
        2 => old.wrapping_sub(1),
        3 => other,
        4 => old.wrapping_add(random.next() % 64).wrapping_sub(32),
        _ => u64::from_le_bytes((1 << random.below(64) ^ old).to_le_bytes()),
    };
    let mut output = input.to_vec();
    let bytes = new.to_le_bytes();
    for index in 0..field.width.min(8) {
        let at = if field.big { field.at + field.width - 1 - index } else { field.at + index };
        output[at] = bytes[index];
    }
    Some(output)
}

fn read(data: &[u8], field: &Field) -> u64 {
    let bytes = data[field.at..field.at + field.width].iter();
    let push = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
    if field.big { bytes.fold(0, push) } else { bytes.rev().fold(0, push) }
}

/// Changes one payload of a container, and puts the container together again with correct headers.
fn change_payload(input: &[u8], max_size: usize, random: &mut Random, depth: u32) -> Option<Vec<u8>> {
    let mut parts = Parts::of(input)?;
    let mut payloads = parts.payloads();
    let index = random.below(payloads.len());
    let payload = payloads.get_mut(index)?;
    **payload = changed(payload, max_size, random, depth).unwrap_or_else(|| any_bytes(payload, max_size));
    Some(parts.join(random.next()))
}

/// Changes any bytes of a payload, which may grow by 64 bytes.
fn any_bytes(payload: &[u8], max_size: usize) -> Vec<u8> {
    let room = max_size.min(payload.len() + 64).max(1);
    let mut buffer = payload.to_vec();
    buffer.resize(room.max(payload.len()), 0);
    let size = fuzzer_mutate(&mut buffer, payload.len(), room.max(payload.len()));
    buffer.truncate(size);
    buffer
}

/// Returns the input twice, with some zeros in between, as bundles follow one another in linked files.
fn repeated(input: &[u8], random: &mut Random) -> Vec<u8> {
    [input, &[0; 64][..random.below(3) * 20], input].concat()
}

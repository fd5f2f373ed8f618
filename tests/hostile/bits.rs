//! Generates bitcode that is slow to read.

/// Bits, lowest of each byte first.
#[derive(Default)]
struct Bits(Vec<bool>);

impl Bits {
    fn put(&mut self, value: u64, width: u32) {
        self.0.extend((0..width).map(|bit| value >> bit & 1 == 1));
    }

    fn vbr(&mut self, mut value: u64, width: u32) {
        let half = 1 << (width - 1);
        while value >= half {
            self.put(value % half + half, width);
            value /= half;
        }
        self.put(value, width);
    }

    fn align(&mut self) {
        self.0.resize(self.0.len().next_multiple_of(32), false);
    }

    fn into_bytes(self) -> Vec<u8> {
        self.0.chunks(8).map(|bits| bits.iter().rev().fold(0, |byte, &bit| byte * 2 + u8::from(bit))).collect()
    }
}

/// A module with the given content after its version; records have IDs of three bits.
fn module(content: impl FnOnce(&mut Bits)) -> Vec<u8> {
    let mut inner = Bits::default();
    inner.put(3, 3);
    inner.vbr(1, 6);
    inner.vbr(1, 6);
    inner.vbr(2, 6);
    content(&mut inner);
    inner.put(0, 3);
    inner.align();
    let mut file = Bits::default();
    file.put(u64::from(u32::from_le_bytes(*b"BC\xc0\xde")), 32);
    file.put(1, 2);
    file.vbr(8, 8);
    file.vbr(3, 4);
    file.align();
    file.put(u64::try_from(inner.0.len() / 32).unwrap(), 32);
    file.0.extend(inner.0);
    // A string table without content.
    file.put(1, 2);
    file.vbr(23, 8);
    file.vbr(3, 4);
    file.align();
    file.put(1, 32);
    file.put(0, 32);
    file.into_bytes()
}

/// Records of three bits each that have 255 values.
pub fn literals(len: usize) -> Vec<u8> {
    module(|bits| {
        bits.put(2, 3);
        bits.vbr(256, 5);
        for _ in 0..256 {
            bits.put(1, 1);
            bits.vbr(99, 8);
        }
        (0..len * 8 / 3).for_each(|_| bits.put(4, 3));
    })
}

/// A record that is an array of `count` elements.
pub fn array(count: u64) -> Vec<u8> {
    module(|bits| {
        bits.put(2, 3);
        bits.vbr(3, 5);
        bits.put(1, 1);
        bits.vbr(99, 8);
        bits.put(3 << 1, 4);
        bits.put(1 << 1, 4);
        bits.vbr(8, 5);
        bits.put(4, 3);
        bits.vbr(count, 6);
    })
}

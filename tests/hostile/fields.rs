//! The locations of the numbers in a file, from the descriptions of the formats, and the values to set them to.

/// The encoding of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Little-endian with this many bytes.
    Little(usize),
    /// Decimal with this many digits, padded with blanks.
    Decimal(usize),
}

/// A number in a file.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    pub at: usize,
    form: Form,
}

impl Field {
    fn get(&self, data: &[u8]) -> u64 {
        match self.form {
            Form::Little(width) => {
                data[self.at..self.at + width].iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
            }
            Form::Decimal(width) => {
                let digits = data[self.at..self.at + width].iter().take_while(|byte| byte.is_ascii_digit());
                digits.fold(0, |number, byte| number * 10 + u64::from(byte - b'0'))
            }
        }
    }

    /// The values to set it to: zero, the limits of integers of all widths, and the neighbours of the correct value.
    pub fn values(&self, data: &[u8]) -> Vec<u64> {
        let most = match self.form {
            Form::Little(width) => u64::MAX >> (64 - 8 * width),
            Form::Decimal(width) => 10_u64.pow(u32::try_from(width).unwrap()) - 1,
        };
        let (old, len) = (self.get(data), u64::try_from(data.len()).unwrap());
        let near = [old.wrapping_sub(1), old.wrapping_add(1), len - 1, len, len + 1];
        let borders = [1 << 15, 1 << 16, 1 << 31, 1 << 32, 1 << 63].into_iter().flat_map(|border| [border - 1, border]);
        let far = [0, 1, 2, most / 40, most / 24, most - 7, most - 1, most];
        let mut values: Vec<u64> =
            near.into_iter().chain(borders).chain(far).map(|value| value & most.max(old)).collect();
        values.retain(|&value| value <= most && value != old);
        values.sort_unstable();
        values.dedup();
        values
    }

    pub fn set(&self, data: &[u8], value: u64) -> Vec<u8> {
        let mut data = data.to_vec();
        match self.form {
            Form::Little(width) => data[self.at..self.at + width].copy_from_slice(&value.to_le_bytes()[..width]),
            Form::Decimal(width) => {
                data[self.at..self.at + width].copy_from_slice(format!("{value:<width$}").as_bytes());
            }
        }
        data
    }
}

/// Numbers of these widths, one after another.
pub fn numbers(at: usize, widths: &[usize]) -> Vec<Field> {
    let mut end = at;
    widths
        .iter()
        .map(|&width| {
            end += width;
            Field { at: end - width, form: Form::Little(width) }
        })
        .collect()
}

fn number(data: &[u8], at: usize, width: usize) -> usize {
    usize::try_from(Field { at, form: Form::Little(width) }.get(data)).unwrap()
}

/// A binary bundle at an offset.
pub fn binary(data: &[u8], at: usize) -> Vec<Field> {
    let mut fields = numbers(at + 24, &[8]);
    let mut entry = at + 32;
    for _ in 0..number(data, at + 24, 8) {
        fields.extend(numbers(entry, &[8, 8, 8]));
        entry += 24 + number(data, entry + 16, 8);
    }
    fields
}

/// A compressed bundle at an offset.
pub fn compressed(data: &[u8], at: usize) -> Vec<Field> {
    let widths: &[usize] = match number(data, at + 4, 2) {
        1 => &[2, 2, 4, 8],
        2 => &[2, 2, 4, 4, 8],
        _ => &[2, 2, 8, 8, 8],
    };
    // The first bytes of the stream specify the window and the inflated size.
    let stream = at + 4 + widths.iter().sum::<usize>();
    [numbers(at + 4, widths), numbers(stream + 4, &[1, 1, 2, 4])].concat()
}

/// An offload binary at an offset; only its header if it is compressed.
pub fn offload(data: &[u8], at: usize) -> Vec<Field> {
    let version = number(data, at + 4, 4);
    let mut fields = numbers(at + 4, &[4, 8, 8, 8]);
    if version == 3 {
        fields.extend(numbers(at + 32, &[8]));
        if number(data, at + 32, 8) != 0 {
            return fields;
        }
    }
    let count = if version == 1 { 1 } else { number(data, at + 24, 8) };
    for index in 0..count {
        let entry = at + number(data, at + 16, 8) + 40 * index;
        fields.extend(numbers(entry, &[2, 2, 4, 8, 8, 8, 8]));
        let widths: &[usize] = if version == 1 { &[8, 8] } else { &[8, 8, 8] };
        for string in 0..number(data, entry + 16, 8) {
            let len: usize = widths.iter().sum();
            fields.extend(numbers(at + number(data, entry + 8, 8) + string * len, widths));
        }
    }
    fields
}

/// An ELF object of 64 bits.
pub fn elf(data: &[u8]) -> Vec<Field> {
    let mut fields = numbers(4, &[1, 1]);
    fields.extend(numbers(16, &[2, 2, 4, 8, 8, 8, 4, 2, 2, 2, 2, 2, 2]));
    for index in 0..number(data, 60, 2) {
        fields.extend(numbers(number(data, 40, 8) + 64 * index, &[4, 4, 8, 8, 8, 8, 4, 4, 8, 8]));
    }
    fields
}

/// A COFF object.
pub fn coff(data: &[u8]) -> Vec<Field> {
    let mut fields = numbers(2, &[2, 4, 4, 4, 2, 2]);
    for index in 0..number(data, 2, 2) {
        fields.extend(numbers(20 + 40 * index + 8, &[4, 4, 4, 4, 4, 4, 2, 2, 4]));
    }
    fields.extend(numbers(number(data, 8, 4) + 18 * number(data, 12, 4), &[4]));
    fields
}

/// The members of an archive. Members of a thin archive have no content except the names.
pub fn archive(data: &[u8]) -> Vec<Field> {
    let mut fields = Vec::new();
    let mut at = 8;
    while at < data.len() {
        let size = Field { at: at + 48, form: Form::Decimal(10) };
        fields.push(size);
        // A name may be a number: `/N` and `#1/N`.
        for (prefix, width) in [(&b"/"[..], 9), (b"#1/", 9)] {
            let digits = at + prefix.len();
            if data[at..].starts_with(prefix) && data[digits].is_ascii_digit() {
                fields.push(Field { at: digits, form: Form::Decimal(width) });
            }
        }
        let is_names = data[at..].starts_with(b"//");
        let content =
            if data.starts_with(b"!<thin>") && !is_names { 0 } else { usize::try_from(size.get(data)).unwrap() };
        at = (at + 60 + content).next_multiple_of(2);
    }
    fields
}

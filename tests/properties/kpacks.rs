//! Writes kpack archives and the references to them from the description of their format, independent of the library.

pub const MAGIC: &[u8] = b"KPAK";

/// The offset of the first code object.
const BLOBS_AT: usize = 64;

/// A MessagePack value. Integers and lengths take the shortest form.
#[derive(Clone, Debug)]
pub enum Value {
    Int(u64),
    Text(String),
    List(Vec<Value>),
    /// Any values as keys, in this order, with duplicates.
    Map(Vec<(Value, Value)>),
    /// Bytes that are written unchanged.
    Raw(Vec<u8>),
}

impl Value {
    pub fn text(text: &str) -> Self {
        Self::Text(text.to_owned())
    }

    pub fn texts<S: AsRef<str>>(texts: &[S]) -> Self {
        Self::List(texts.iter().map(|text| Self::text(text.as_ref())).collect())
    }

    pub fn len(len: usize) -> Self {
        Self::Int(u64::try_from(len).unwrap())
    }

    /// A map whose keys are texts.
    pub fn map<'k>(pairs: impl IntoIterator<Item = (&'k str, Self)>) -> Self {
        Self::Map(pairs.into_iter().map(|(key, value)| (Self::text(key), value)).collect())
    }

    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Int(number) => integer(*number),
            Self::Text(text) => [header(text.len(), &TEXT), text.as_bytes().to_vec()].concat(),
            Self::List(values) => [header(values.len(), &LIST)]
                .into_iter()
                .chain(values.iter().map(Self::encode))
                .collect::<Vec<_>>()
                .concat(),
            Self::Map(pairs) => {
                let items = pairs.iter().flat_map(|(key, value)| [key.encode(), value.encode()]);
                [header(pairs.len(), &MAP)].into_iter().chain(items).collect::<Vec<_>>().concat()
            }
            Self::Raw(bytes) => bytes.clone(),
        }
    }
}

/// How a length is written: the first byte of the short form and the lengths that it holds, then the first bytes of the
/// forms with 8, 16 and 32 bits.
type Form = (u8, usize, Option<u8>, u8, u8);

const TEXT: Form = (0xa0, 32, Some(0xd9), 0xda, 0xdb);
const LIST: Form = (0x90, 16, None, 0xdc, 0xdd);
const MAP: Form = (0x80, 16, None, 0xde, 0xdf);

fn header(len: usize, (short, short_end, narrow, half, word): &Form) -> Vec<u8> {
    if len < *short_end {
        return vec![short | u8::try_from(len).unwrap()];
    }
    if let (Some(narrow), Ok(len)) = (narrow, u8::try_from(len)) {
        return vec![*narrow, len];
    }
    match u16::try_from(len) {
        Ok(len) => [&[*half][..], &len.to_be_bytes()].concat(),
        Err(_) => [&[*word][..], &u32::try_from(len).unwrap().to_be_bytes()].concat(),
    }
}

fn integer(number: u64) -> Vec<u8> {
    let bytes = number.to_be_bytes();
    match number {
        0..0x80 => vec![bytes[7]],
        0x80..0x100 => vec![0xcc, bytes[7]],
        0x100..0x1_0000 => [&[0xcd], &bytes[6..]].concat(),
        0x1_0000..0x1_0000_0000 => [&[0xce], &bytes[4..]].concat(),
        _ => [&[0xcf], &bytes[..]].concat(),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    None,
    Zstd,
}

/// A code object to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Code {
    /// The binary and the index of its wrapper: `lib/libfoo.so#0`.
    pub key: String,
    pub target: String,
    pub content: Vec<u8>,
}

impl Code {
    pub fn new(key: &str, target: &str, content: &[u8]) -> Self {
        Self { key: key.to_owned(), target: target.to_owned(), content: content.to_vec() }
    }
}

/// An archive to write.
#[derive(Clone, Debug)]
pub struct Archive {
    pub group: String,
    pub arches: Vec<String>,
    pub scheme: Scheme,
    /// Code objects in the order of their ordinals. Code objects with the same key are together in the table of
    /// contents.
    pub codes: Vec<Code>,
    /// The number of places by which the keys of the maps are rotated.
    pub rotated: usize,
    pub has_metadata: bool,
    pub has_sizes: bool,
}

impl Archive {
    /// An archive as AMD's tools write it. It serves the targets of its code objects.
    pub fn new(group: &str, scheme: Scheme, codes: Vec<Code>) -> Self {
        let mut arches: Vec<String> = Vec::new();
        for code in &codes {
            if !arches.contains(&code.target) {
                arches.push(code.target.clone());
            }
        }
        Self { group: group.to_owned(), arches, scheme, codes, rotated: 0, has_metadata: true, has_sizes: true }
    }

    fn rotate(&self, mut map: Vec<(&str, Value)>) -> Value {
        let by = self.rotated % map.len();
        map.rotate_left(by);
        Value::map(map)
    }

    fn entry(&self, ordinal: usize, code: &Code) -> Value {
        let mut entry = vec![("type", Value::text("hsaco")), ("ordinal", Value::len(ordinal))];
        if self.has_sizes {
            entry.push(("original_size", Value::len(code.content.len())));
        }
        if self.has_metadata {
            let target = format!("hipv4-amdgcn-amd-amdhsa--{}", code.target);
            entry.push((
                "metadata",
                Value::map([("target", Value::Text(target)), ("source_prefix", Value::text("lib"))]),
            ));
        }
        self.rotate(entry)
    }

    /// The map of the binaries.
    fn binaries(&self) -> Value {
        let mut binaries: Vec<(&str, Vec<(Value, Value)>)> = Vec::new();
        for (ordinal, code) in self.codes.iter().enumerate() {
            let entry = (Value::text(&code.target), self.entry(ordinal, code));
            match binaries.iter_mut().find(|(key, _)| *key == code.key) {
                Some((_, entries)) => entries.push(entry),
                None => binaries.push((&code.key, vec![entry])),
            }
        }
        Value::map(binaries.into_iter().map(|(key, entries)| (key, Value::Map(entries))))
    }

    /// The table of contents.
    pub fn toc(&self) -> Value {
        let mut toc = vec![
            ("format_version", Value::Int(1)),
            ("group_name", Value::text(&self.group)),
            ("gfx_arch_family", Value::text(self.arches.first().map_or("", String::as_str))),
            ("gfx_arches", Value::texts(&self.arches)),
            ("toc", self.binaries()),
        ];
        let contents = self.codes.iter().map(|code| code.content.len());
        match self.scheme {
            Scheme::None => {
                let blob = |at: &mut usize, len: usize| {
                    let offset = std::mem::replace(at, *at + len);
                    Some(Value::map([("offset", Value::len(offset)), ("size", Value::len(len))]))
                };
                toc.push(("compression_scheme", Value::text("none")));
                toc.push(("blobs", Value::List(contents.scan(BLOBS_AT, blob).collect())));
            }
            Scheme::Zstd => toc.extend([
                ("compression_scheme", Value::text("zstd-per-kernel")),
                ("zstd_offset", Value::len(BLOBS_AT)),
                ("zstd_size", Value::len(self.blobs().len())),
            ]),
        }
        self.rotate(toc)
    }

    /// The code objects as they are stored.
    pub fn blobs(&self) -> Vec<u8> {
        let contents = self.codes.iter().map(|code| code.content.as_slice());
        match self.scheme {
            Scheme::None => contents.collect::<Vec<_>>().concat(),
            Scheme::Zstd => {
                frames(&contents.map(|content| zstd::bulk::compress(content, 3).unwrap()).collect::<Vec<_>>())
            }
        }
    }

    pub fn write(&self) -> Vec<u8> {
        file(&self.blobs(), &self.toc().encode())
    }
}

/// Compressed code objects with their number and lengths.
pub fn frames(frames: &[Vec<u8>]) -> Vec<u8> {
    let len = |len: usize| u32::try_from(len).unwrap().to_le_bytes().to_vec();
    let frames_with_len = frames.iter().flat_map(|frame| [len(frame.len()), frame.clone()]);
    [len(frames.len())].into_iter().chain(frames_with_len).collect::<Vec<_>>().concat()
}

/// An archive of these bytes.
pub fn file(blobs: &[u8], toc: &[u8]) -> Vec<u8> {
    let toc_at = u64::try_from(BLOBS_AT + blobs.len()).unwrap();
    [MAGIC, &[1, 0, 0, 0], &toc_at.to_le_bytes(), &[0; 48], blobs, toc].concat()
}

/// The reference in a library: where its archives are, and the name of its code objects in them.
pub fn reference<S: AsRef<str>>(paths: &[S], name: &str) -> Vec<u8> {
    Value::map([("kpack_search_paths", Value::texts(paths)), ("kernel_name", Value::text(name))]).encode()
}

/// A wrapper with the address of a reference and the index of a code object.
pub fn wrapper(address: u64, index: u32) -> Vec<u8> {
    [b"HIPK", &[1, 0, 0, 0][..], &address.to_le_bytes(), &index.to_le_bytes(), &[0; 4]].concat()
}

/// Two binaries with code objects for several targets.
pub fn sample(scheme: Scheme) -> Archive {
    let code = |key: &str, target: &str, fill: u8| Code::new(key, target, &[b"code object ", &[fill; 90][..]].concat());
    let codes = vec![
        code("lib/libone.so#0", "gfx906", b'a'),
        code("lib/libone.so#0", "gfx90a:xnack-", b'b'),
        code("lib/libone.so#1", "gfx906", b'c'),
        code("bin/two#0", "gfx90a:xnack-", b'd'),
    ];
    Archive::new("sample_lib", scheme, codes)
}

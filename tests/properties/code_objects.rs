//! Writes code objects with kernels, from the descriptions of their formats.

/// A kernel to be written.
#[derive(Clone, Debug, Default)]
pub struct Kernel {
    pub name: Vec<u8>,
    pub vgprs: u32,
    pub agprs: u32,
    pub sgprs: u32,
    pub vgpr_spills: u32,
    pub sgpr_spills: u32,
    pub scratch: u32,
    pub lds: u32,
    pub kernarg: u32,
    pub workgroup: u32,
    pub code_size: u32,
    pub dynamic_stack: bool,
    pub arguments: Vec<Argument>,
}

/// An argument of a kernel. Cubins record no kind and no name, and numbers of 14 bits.
#[derive(Clone, Debug, Default)]
pub struct Argument {
    pub offset: u32,
    pub size: u32,
    pub kind: Vec<u8>,
    pub name: Vec<u8>,
}

impl Argument {
    pub fn of_kind(kind: &str) -> Self {
        Self { size: 8, kind: kind.as_bytes().to_vec(), ..Self::default() }
    }
}

impl Kernel {
    pub fn named(name: &str) -> Self {
        Self { name: name.as_bytes().to_vec(), ..Self::default() }
    }
}

const SHT_PROGBITS: u32 = 1;
const SHT_SYMTAB: u32 = 2;
const SHT_STRTAB: u32 = 3;
const SHT_NOTE: u32 = 7;
const SHT_NOBITS: u32 = 8;
const SHT_CUDA_INFO: u32 = 0x7000_0000;

/// A section; one without content takes `size` bytes in memory.
struct Section {
    name: Vec<u8>,
    kind: u32,
    link: u32,
    info: u32,
    content: Vec<u8>,
    size: u32,
}

impl Section {
    fn new(name: impl Into<Vec<u8>>, kind: u32, content: Vec<u8>) -> Self {
        let size = len(&content);
        Self { name: name.into(), kind, link: 0, info: 0, content, size }
    }

    fn sized(name: impl Into<Vec<u8>>, info: u32, size: u32) -> Self {
        Self { name: name.into(), kind: SHT_NOBITS, link: 0, info, content: Vec::new(), size }
    }
}

fn len(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).unwrap()
}

/// Strings that end with zeros, after an empty one.
#[derive(Default)]
struct Strings(Vec<u8>);

impl Strings {
    fn add(&mut self, text: &[u8]) -> u32 {
        if self.0.is_empty() {
            self.0.push(0);
        }
        let at = len(&self.0);
        self.0.extend(text);
        self.0.push(0);
        at
    }
}

/// An ELF file for a GPU, with 64 bits; the first section has the number 1.
fn elf(machine: u16, system: [u8; 2], flags: u32, mut sections: Vec<Section>) -> Vec<u8> {
    let mut names = Strings::default();
    let mut starts: Vec<u32> = sections.iter().map(|section| names.add(&section.name)).collect();
    starts.push(names.add(b".shstrtab"));
    sections.push(Section::new(".shstrtab", SHT_STRTAB, names.0));
    let (mut data, mut headers) = (vec![0; 64], vec![0; 64]);
    for (section, start) in sections.iter().zip(starts) {
        data.resize(data.len().next_multiple_of(8), 0);
        [start, section.kind].iter().for_each(|field| headers.extend(field.to_le_bytes()));
        let offset = u64::from(len(&data));
        // Code is loaded and run.
        let flags = if section.name == b".text" { 6 } else { 0 };
        [flags, 0, offset, section.size.into()].iter().for_each(|field: &u64| headers.extend(field.to_le_bytes()));
        [section.link, section.info].iter().for_each(|field| headers.extend(field.to_le_bytes()));
        let entry = if section.kind == SHT_SYMTAB { 24 } else { 0 };
        [4, entry].iter().for_each(|field: &u64| headers.extend(field.to_le_bytes()));
        data.extend(&section.content);
    }
    data.resize(data.len().next_multiple_of(8), 0);
    // A linked file has program headers; one that means nothing is enough.
    let segments_at = u64::from(len(&data));
    data.extend([0; 56]);
    data[32..40].copy_from_slice(&segments_at.to_le_bytes());
    data[54..58].copy_from_slice(&[56, 0, 1, 0]);
    let at = u64::from(len(&data));
    let count = u16::try_from(sections.len() + 1).unwrap();
    data[..9].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1, 1, system[0], system[1]]);
    // Linked, as loaders want them: a shared object for AMD, a program for NVIDIA.
    data[16] = if machine == 224 { 3 } else { 2 };
    data[18..20].copy_from_slice(&machine.to_le_bytes());
    data[20] = 1;
    data[40..48].copy_from_slice(&at.to_le_bytes());
    data[48..52].copy_from_slice(&flags.to_le_bytes());
    data[52] = 64;
    data[58] = 64;
    data[60..62].copy_from_slice(&count.to_le_bytes());
    data[62..64].copy_from_slice(&(count - 1).to_le_bytes());
    [data, headers].concat()
}

/// A symbol: type and binding, other, section and size.
fn symbol(name: u32, kind: u8, other: u8, section: u16, size: u32) -> Vec<u8> {
    let size = u64::from(size).to_le_bytes();
    [&name.to_le_bytes()[..], &[kind, other], &section.to_le_bytes(), &[0; 8], &size].concat()
}

/// A string in MessagePack.
fn text(text: &[u8]) -> Vec<u8> {
    [&[0xdb][..], &len(text).to_be_bytes(), text].concat()
}

/// Metadata in MessagePack, with a map of each kernel.
pub fn metadata(kernels: &[Kernel]) -> Vec<u8> {
    let count = |count: usize| u32::try_from(count).unwrap().to_be_bytes();
    let mut data = [&[0x81][..], &text(b"amdhsa.kernels"), &[0xdd], &count(kernels.len())].concat();
    for kernel in kernels {
        data.extend([&[0x8d][..], &text(b".args"), &[0xdd], &count(kernel.arguments.len())].concat());
        for argument in &kernel.arguments {
            data.push(0x84);
            for (key, value) in [(".name", &argument.name), (".value_kind", &argument.kind)] {
                data.extend([text(key.as_bytes()), text(value)].concat());
            }
            for (key, number) in [(".offset", argument.offset), (".size", argument.size)] {
                data.extend([&text(key.as_bytes())[..], &[0xce], &number.to_be_bytes()].concat());
            }
        }
        data.extend([&text(b".uses_dynamic_stack")[..], &[0xc2 + u8::from(kernel.dynamic_stack)]].concat());
        data.extend([text(b".name"), text(&kernel.name)].concat());
        data.extend([text(b".symbol"), text(&[&kernel.name[..], b".kd"].concat())].concat());
        for (key, number) in [
            (".vgpr_count", kernel.vgprs),
            (".agpr_count", kernel.agprs),
            (".sgpr_count", kernel.sgprs),
            (".vgpr_spill_count", kernel.vgpr_spills),
            (".sgpr_spill_count", kernel.sgpr_spills),
            (".private_segment_fixed_size", kernel.scratch),
            (".group_segment_fixed_size", kernel.lds),
            (".kernarg_segment_size", kernel.kernarg),
            (".max_flat_workgroup_size", kernel.workgroup),
        ] {
            data.extend([&text(key.as_bytes())[..], &[0xce], &number.to_be_bytes()].concat());
        }
    }
    data
}

/// A code object for an AMD GPU with this metadata, and symbols for kernels.
pub fn amd_with(metadata: &[u8], kernels: &[Kernel]) -> Vec<u8> {
    let mut note = [7, len(metadata), 32].iter().flat_map(|field: &u32| field.to_le_bytes()).collect::<Vec<_>>();
    note.extend([b"AMDGPU\0\0", metadata].concat());
    note.resize(note.len().next_multiple_of(4), 0);
    let mut strings = Strings::default();
    let mut symbols = symbol(0, 0, 0, 0, 0);
    for kernel in kernels {
        let name = strings.add(&kernel.name);
        symbols.extend(symbol(name, 0x12, 0, 2, kernel.code_size));
        let name = strings.add(&[&kernel.name[..], b".kd"].concat());
        symbols.extend(symbol(name, 0x11, 0, 2, 64));
    }
    if kernels.is_empty() {
        strings.add(b"");
    }
    let sections = vec![
        Section::new(".note", SHT_NOTE, note),
        Section::new(".text", SHT_PROGBITS, vec![0; 64]),
        Section { link: 4, ..Section::new(".symtab", SHT_SYMTAB, symbols) },
        Section::new(".strtab", SHT_STRTAB, strings.0),
    ];
    elf(224, [64, 4], 0x3f, sections)
}

/// A code object for gfx90a with kernels.
pub fn amd(kernels: &[Kernel]) -> Vec<u8> {
    amd_with(&metadata(kernels), kernels)
}

/// An attribute of a cubin with values.
fn attribute(number: u8, values: &[u32]) -> Vec<u8> {
    let size = u16::try_from(4 * values.len()).unwrap();
    [&[4, number][..], &size.to_le_bytes(), &values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>()]
        .concat()
}

/// A cubin for sm_80 with kernels, whose arguments take less than 64 KiB. Spills, scalar and accumulation registers are
/// not recorded.
pub fn cubin(kernels: &[Kernel]) -> Vec<u8> {
    let mut strings = Strings::default();
    let (mut symbols, mut info, mut of_kernels) = (symbol(0, 0, 0, 0, 0), Vec::new(), Vec::new());
    for (index, kernel) in (0..).zip(kernels) {
        let (number, code) = (index + 1, 4 + 4 * index);
        let named = |prefix: &str| [prefix.as_bytes(), &kernel.name].concat();
        symbols.extend(symbol(strings.add(&kernel.name), 0x12, 0x10, u16::try_from(code).unwrap(), kernel.code_size));
        info.extend(attribute(0x2f, &[number, kernel.vgprs]));
        info.extend(attribute(0x12, &[number, kernel.scratch]));
        let mut own =
            [&[3, 0x19][..], &u16::try_from(kernel.kernarg).unwrap().to_le_bytes(), &[1, 0x36, 0, 0]].concat();
        own.extend(attribute(0x05, &[kernel.workgroup, 1, 1]));
        for (position, argument) in kernel.arguments.iter().enumerate().rev() {
            let place = argument.offset << 16 | u32::try_from(position).unwrap();
            // ptxas writes the second form if a kernel has more than 4 KiB of arguments.
            own.extend(match kernel.kernarg {
                ..=4096 => attribute(0x17, &[0, place, argument.size << 18 | 0x1f000]),
                _ => attribute(0x45, &[0, place, argument.size]),
            });
        }
        of_kernels.extend([
            Section::sized(named(".text."), number, kernel.code_size),
            Section { info: code, ..Section::new(named(".nv.info."), SHT_CUDA_INFO, own) },
            Section::sized(named(".nv.shared."), code, kernel.lds),
            Section::sized(named(".nv.constant0."), code, kernel.kernarg + 352),
        ]);
    }
    if kernels.is_empty() {
        strings.add(b"");
    }
    let tables = [
        Section { link: 2, ..Section::new(".symtab", SHT_SYMTAB, symbols) },
        Section::new(".strtab", SHT_STRTAB, strings.0),
        Section::new(".nv.info", SHT_CUDA_INFO, info),
    ];
    elf(190, [65, 8], 0x600_5004, tables.into_iter().chain(of_kernels).collect())
}

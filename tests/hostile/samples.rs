//! Valid samples, one of each kind of file.

use crate::machine::memory_directory;
use std::fs;
use std::path::Path;

use offload_bundle::id::EntryId;
use offload_bundle::llvm::{BundleFiles, FileType};

use super::fields::{self, Field, numbers};
use crate::hostile::files;
use crate::properties::make;
use crate::reference::formats;
use crate::reference::offload::{self, Image};

pub const HOST: &str = "host-x86_64-unknown-linux-gnu-";
pub const GFX906: &str = "hip-amdgcn-amd-amdhsa--gfx906";

/// The reader of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// The bundler, as a file of this type.
    Bundler(&'static str),
    /// The bundler, as an archive.
    Archive,
    /// The packager.
    Packager,
}

/// The allowed origin of output bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Held {
    /// In the file.
    InFile,
    /// The file, or these bytes, which a part of it inflates to.
    Inflated(Vec<u8>),
    /// Unknown, because a changed stream inflates to other data and bits may be at any offset. Only the size is
    /// limited.
    UpTo(usize),
}

/// A sound file.
pub struct Sample {
    pub name: &'static str,
    pub data: Vec<u8>,
    pub reader: Reader,
    pub held: Held,
    pub fields: Vec<Field>,
}

fn fixture(name: &str) -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name)).unwrap()
}

fn images() -> Vec<Image> {
    vec![
        Image::new(1, 4, &[("arch", "gfx906"), ("triple", "amdgcn-amd-amdhsa")], b"object for gfx906"),
        Image::new(2, 4, &[("arch", "gfx90a"), ("triple", "amdgcn-amd-amdhsa")], b"BC\xc0\xdebitcode"),
    ]
}

/// A fat object around a host.
fn fat(host: &[u8]) -> Vec<u8> {
    let dir = memory_directory();
    let path = |name: &str| dir.path().join(name);
    fs::write(path("host"), host).unwrap();
    fs::write(path("device"), b"code object for gfx906").unwrap();
    let member = |id: &str, name: &str| (EntryId::parse(id).unwrap(), path(name));
    let job = BundleFiles::new(vec![member(HOST, "host"), member(GFX906, "device")], path("out"), FileType::Object);
    job.run(&mut |_| {}).unwrap();
    fs::read(path("out")).unwrap()
}

/// A COFF object with one section, whose name is in the string table.
fn coff(name: &str, content: &[u8]) -> Vec<u8> {
    let size = u32::try_from(content.len()).unwrap();
    let mut data = [0x8664_u16, 1].map(u16::to_le_bytes).concat();
    [0, 60 + size, 0, 0].iter().for_each(|field| data.extend(field.to_le_bytes()));
    data.extend(b"/4\0\0\0\0\0\0");
    [0, 0, size, 60, 0, 0, 0, 0x4000_0040].iter().for_each(|field| data.extend(field.to_le_bytes()));
    data.extend(content);
    data.extend(u32::try_from(name.len() + 5).unwrap().to_le_bytes());
    [data, name.as_bytes().to_vec(), vec![0]].concat()
}

/// Returns all samples.
pub fn samples() -> Vec<Sample> {
    [bundles(), compressed(), fat_objects(), archives(), offload_binaries(), hosts()].into_iter().flatten().collect()
}

fn sample(name: &'static str, reader: Reader, data: Vec<u8>, fields: Vec<Field>) -> Sample {
    Sample { name, data, reader, held: Held::InFile, fields }
}

fn bundles() -> Vec<Sample> {
    let read = |name: &'static str, file_type| {
        let data = fixture(name);
        let fields = fields::binary(&data, 0);
        sample(name, Reader::Bundler(file_type), data, fields)
    };
    // Text has no numbers; the end of an ID is used instead.
    let text = |name: &'static str, file_type| {
        let data = fixture(name);
        sample(name, Reader::Bundler(file_type), data, numbers(36, &[8]))
    };
    let twice = fixture("sequence/plain-twice.bundle");
    let second = fixture("binary/llvm22-plain.bundle").len();
    let of_both = [fields::binary(&twice, 0), fields::binary(&twice, second)].concat();
    vec![
        read("binary/llvm22-plain.bundle", "bc"),
        read("binary/llvm22-host-empty.bundle", "o"),
        read("binary/odd-ids.bundle", "bc"),
        text("text/llvm22-slashes.ii", "ii"),
        text("text/llvm22-hash.s", "s"),
        sample("sequence/plain-twice.bundle", Reader::Bundler("bc"), twice, of_both),
    ]
}

fn compressed() -> Vec<Sample> {
    let read = |name: &'static str| {
        let data = fixture(name);
        let fields = fields::compressed(&data, 0);
        let held = Held::Inflated(fixture("binary/llvm22-plain.bundle"));
        Sample { held, ..sample(name, Reader::Bundler("bc"), data, fields) }
    };
    let mut samples: Vec<Sample> = [
        "compressed/llvm22-v3.ccob",
        "compressed/llvm22-v2.ccob",
        "compressed/v2-zlib.ccob",
        "compressed/v1-zstd.ccob",
        "compressed/v1-zlib.ccob",
    ]
    .map(read)
    .into();
    let [plain, one, two] =
        [b"first".as_slice(), b"second", b"third"].map(|code| formats::binary(&[(GFX906, code)], 1));
    let [one, two] = [formats::compressed(2, 1, &one), formats::compressed(3, 0, &two)];
    let data = [plain.as_slice(), &one, &two].concat();
    let fields = [
        fields::binary(&data, 0),
        fields::compressed(&data, plain.len()),
        fields::compressed(&data, plain.len() + one.len()),
    ];
    samples.push(sample("plain and compressed in one file", Reader::Bundler("bc"), data, fields.concat()));
    samples
}

fn fat_objects() -> Vec<Sample> {
    let elf = fat(&files::elf::sections(1, 1, b"host code"));
    let coff = fat(&coff(".text$a_long_name", b"host code"));
    let (elf_fields, coff_fields) = (fields::elf(&elf), fields::coff(&coff));
    vec![
        sample("fat object, ELF", Reader::Bundler("o"), elf, elf_fields),
        sample("fat object, COFF", Reader::Bundler("o"), coff, coff_fields),
    ]
}

fn archives() -> Vec<Sample> {
    let bundle = formats::binary(&[(HOST, b""), (GFX906, b"code object")], 1);
    let header =
        |name: &str, size: usize| format!("{name:<16}0           0     0     644     {size:<10}`\n").into_bytes();
    let pad = |mut data: Vec<u8>| {
        data.resize(data.len().next_multiple_of(2), b'\n');
        data
    };
    let gnu = [
        b"!<arch>\n".to_vec(),
        header("/", 4),
        vec![0; 4],
        header("//", 20),
        b"a long member name/\n".to_vec(),
        header("/0", bundle.len()),
        pad(bundle.clone()),
        header("b.o/", 4),
        b"text".to_vec(),
    ];
    let bsd = [
        b"!<arch>\n".to_vec(),
        header("#1/20", 24),
        b"__.SYMDEF\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0".to_vec(),
        header("#1/12", 12 + bundle.len()),
        b"long name.o\0".to_vec(),
        pad(bundle.clone()),
    ];
    let coff = [
        b"!<arch>\n".to_vec(),
        header("/", 4),
        vec![0; 4],
        header("/", 8),
        vec![0; 8],
        header("//", 14),
        b"dir/long.obj\0\0".to_vec(),
        header("/0", bundle.len()),
        pad(bundle.clone()),
    ];
    let thin = [b"!<thin>\n".to_vec(), header("//", 8), b"beside/\n".to_vec(), header("/0", bundle.len())];
    let compressed = formats::compressed(2, 1, &bundle);
    let packed = make::archive(&[("m.o", &compressed)]);
    let make = |name, data: Vec<u8>| {
        let fields = fields::archive(&data);
        sample(name, Reader::Archive, data, fields)
    };
    vec![
        make("archive, GNU", gnu.concat()),
        make("archive, BSD", bsd.concat()),
        make("archive, COFF", coff.concat()),
        Sample { held: Held::Inflated(BESIDE.to_vec()), ..make("archive, thin", thin.concat()) },
        Sample { held: Held::Inflated(bundle), ..make("archive of a compressed bundle", packed) },
    ]
}

/// The content of a member of a thin archive: a bundle of this.
pub const BESIDE: &[u8] = b"a member beside the archive";

fn offload_binaries() -> Vec<Sample> {
    let make = |name, version, count: usize| {
        let data = offload::write(version, &images()[..count]);
        let fields = fields::offload(&data, 0);
        sample(name, Reader::Packager, data, fields)
    };
    let compressed = |name, zlib| {
        let data = offload::compressed(zlib, &images());
        let fields = fields::offload(&data, 0);
        // An image is not larger than the total inflated data.
        Sample { held: Held::UpTo(1000), ..sample(name, Reader::Packager, data, fields) }
    };
    vec![
        make("offload binary, version 1", 1, 1),
        make("offload binaries, version 1", 1, 2),
        make("offload binary, version 2", 2, 2),
        make("offload binary, version 3", 3, 2),
        compressed("offload binary, version 3, zstd", false),
        compressed("offload binary, version 3, zlib", true),
    ]
}

/// Files with embedded offload binaries.
fn hosts() -> Vec<Sample> {
    let binary = offload::write(1, &images()[..1]);
    let elf = files::elf::sections(1, 0x6fff_4c0b, &binary);
    let coff = coff(".llvm.offloading", &binary);
    let archive = make::archive(&[("a.off", &binary), ("b.o", &elf)]);
    let wrapper = fixture("bitcode/llvm22-wrapper.bc");
    let (elf_fields, coff_fields) = ([fields::elf(&elf), fields::offload(&elf, 64)], fields::coff(&coff));
    let archive_fields = fields::archive(&archive);
    let in_bitcode = |name, data: Vec<u8>, fields| {
        let held = Held::UpTo(data.len());
        Sample { held, ..sample(name, Reader::Packager, data, fields) }
    };
    vec![
        sample("ELF object with an offload binary", Reader::Packager, elf, elf_fields.concat()),
        sample("COFF object with an offload binary", Reader::Packager, coff, coff_fields),
        sample("archive of offload binaries", Reader::Packager, archive, archive_fields),
        // The numbers of the wrapper, and of the first block.
        in_bitcode("bitcode in a wrapper", wrapper, numbers(4, &[4, 4, 4, 4, 4, 4, 4, 4])),
    ]
}

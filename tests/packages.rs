//! The code objects found in packages are those of the files that the packages were made of.
//!
//! The packages are made by tar, cpio, dpkg-deb, rpmbuild, Python and the compressors of Debian. If one of these is not
//! installed, the test prints that and passes; `OFFLOAD_REQUIRE_LLVM=1` makes that a failure.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::lists::sample;
use crate::machine::{loud, memory_directory, skip};
use crate::properties::make::{DEFLATED, Elf, STORED, Section, Zipped, archive, zip};
use crate::properties::packages::{self, File};
use crate::reference::formats;
use crate::subcommands::{must, text, tool, tool_in};
use crate::uris::resolve_all;

const GFX906: &str = "hip-amdgcn-amd-amdhsa--gfx906";
const GFX90A: &str = "hip-amdgcn-amd-amdhsa--gfx90a";

/// A name that tar cannot keep in a header.
const LONG: &str = "opt/rocm/lib/a/path/of/more/than/a/hundred/characters/which/tar/cannot/keep/in/its/header/so/that/it/has/one/of/its/own/libtwo.so";

/// The end of the name of the file that holds a code object, its ID and its bytes.
type Found = BTreeSet<(String, String, Vec<u8>)>;

/// Pieces of a command line, which a shell runs in the directory of the tree.
struct Maker {
    name: &'static str,
    command: &'static str,
}

const fn maker(name: &'static str, command: &'static str) -> Maker {
    Maker { name, command }
}

/// Each writes to `$OUT`.
const MAKERS: [Maker; 31] = [
    maker("ustar", "tar --format=ustar -cf $OUT --exclude='*libtwo.so' . && tar --format=gnu -rf $OUT opt"),
    maker("gnu", "tar --format=gnu -cf $OUT ."),
    maker("posix", "tar --format=posix -cf $OUT ."),
    maker("sparse gnu", "tar --format=gnu -S -cf $OUT ."),
    maker("sparse pax 0.0", "tar --format=posix -S --sparse-version=0.0 -cf $OUT ."),
    maker("sparse pax 0.1", "tar --format=posix -S --sparse-version=0.1 -cf $OUT ."),
    maker("sparse pax 1.0", "tar --format=posix -S --sparse-version=1.0 -cf $OUT ."),
    maker("sparse pax in gzip", "tar --format=posix -S -czf $OUT ."),
    maker("Unix 7", "tar --format=v7 -cf $OUT --exclude=./opt . && tar -c opt >>$OUT"),
    maker("archives in a row", "tar -cf $OUT usr && tar -c opt >>$OUT"),
    maker("gzip", "tar -czf $OUT *"),
    maker("bzip2", "tar -cjf $OUT *"),
    maker("xz", "tar -cJf $OUT *"),
    maker("zstd", "tar --zstd -cf $OUT *"),
    maker("xz of several blocks", "tar -c * | xz -T2 --block-size=64KiB >$OUT"),
    maker(
        "xz of several streams",
        "tar -c * >$OUT.tar && (head -c 70000 $OUT.tar | xz -c; head -c 512 /dev/zero; tail -c +70001 $OUT.tar | xz -c) >$OUT",
    ),
    maker(
        "gzip of several members",
        "tar -c * >$OUT.tar && (head -c 70000 $OUT.tar | gzip -c; tail -c +70001 $OUT.tar | gzip -c) >$OUT",
    ),
    maker(
        "bzip2 of several streams",
        "tar -c * >$OUT.tar && (head -c 70000 $OUT.tar | bzip2 -c; tail -c +70001 $OUT.tar | bzip2 -c) >$OUT",
    ),
    maker(
        "zstd of several frames",
        "tar -c * >$OUT.tar && (head -c 70000 $OUT.tar | zstd -c; tail -c +70001 $OUT.tar | zstd -c) >$OUT",
    ),
    maker("sparse in gzip", "tar --format=gnu -S -czf $OUT ."),
    maker("cpio", "find . | cpio --quiet -o -H newc >$OUT"),
    maker("cpio with checksums", "find . | cpio --quiet -o -H crc >$OUT"),
    maker("cpio of POSIX", "find . -type f | cpio --quiet -o -H odc | gzip >$OUT"),
    maker("Debian, xz", "dpkg-deb --root-owner-group -Zxz -b . $OUT"),
    maker("Debian, gzip", "dpkg-deb --root-owner-group -Zgzip -b . $OUT"),
    maker("Debian, zstd", "dpkg-deb --root-owner-group -Zzstd -b . $OUT"),
    maker("Debian, plain", "dpkg-deb --root-owner-group -Znone -b . $OUT"),
    maker(
        "RPM, zstd",
        "TREE=$PWD && rpmbuild --quiet --define \"tree $TREE\" --define \"_rpmdir $OUT.d\" --define '_binary_payload w3.zstdio' -bb ../x.spec && mv $OUT.d/*/*.rpm $OUT",
    ),
    maker(
        "RPM, xz",
        "TREE=$PWD && rpmbuild --quiet --define \"tree $TREE\" --define \"_rpmdir $OUT.d\" --define '_binary_payload w2.xzdio' -bb ../x.spec && mv $OUT.d/*/*.rpm $OUT",
    ),
    maker(
        "conda",
        "tar -c * | zstd >$OUT.tar.zst && python3 -c \"import zipfile,os; z=zipfile.ZipFile(os.environ['OUT'],'w'); z.writestr('metadata.json','{}'); z.write(os.environ['OUT']+'.tar.zst','pkg-x.tar.zst')\"",
    ),
    maker(
        "tar in zip in tar in xz",
        "tar -c * >$OUT.tar && python3 -c \"import zipfile,os; z=zipfile.ZipFile(os.environ['OUT']+'.zip','w',zipfile.ZIP_DEFLATED); z.write(os.environ['OUT']+'.tar','x.tar')\" && tar -cJf $OUT -C / ${OUT#/}.zip",
    ),
];

const SPEC: &str = "\
Name: x
Version: 1
Release: 1
Summary: x
License: x
BuildArch: noarch
%global __os_install_post %{nil}
%description
%install
cp -a %{tree}/. %{buildroot}/
rm -r %{buildroot}/DEBIAN
%files
/*
";

fn library(code: &[u8]) -> Vec<u8> {
    let bundle = formats::binary(&[("host-x86_64-unknown-linux-gnu-", b""), (GFX906, code), (GFX90A, b"second")], 4096);
    Elf::LIBRARY.write(&[Section::new(".hip_fatbin", &bundle).aligned(4096)])
}

/// Writes files that hold device code in all kinds of places, and others.
fn write_tree(tree: &Path) {
    // Bytes that do not compress, so that there are several blocks.
    let mut state = 1_u32;
    let mut noise = |len: usize| -> Vec<u8> {
        let next = |_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state.to_be_bytes()[0]
        };
        (0..len).map(next).collect()
    };
    let bundle = formats::binary(&[(GFX906, &noise(90_000)), (GFX90A, b"x")], 16);
    let holes = library(&[noise(5000), vec![0; 300_000], noise(5000)].concat());
    let wheel =
        zip(&[Zipped::new("a/libthree.so", DEFLATED, &library(&noise(3000))), Zipped::new("b", STORED, &bundle)]);
    let files: [(&str, Vec<u8>); 9] = [
        ("usr/lib/libone.so", library(&noise(100_000))),
        (LONG, library(&noise(70_000))),
        ("usr/lib/libholes.so", holes),
        ("usr/share/kernels.hipfb", bundle),
        ("usr/share/doc/README", b"text".repeat(5000)),
        ("usr/share/doc/empty", Vec::new()),
        ("usr/lib/libx.a", archive(&[("x.o", &library(b"in an archive")), ("y.o", b"text")])),
        ("usr/share/x.whl", wheel),
        (
            "DEBIAN/control",
            b"Package: x\nVersion: 1\nArchitecture: all\nMaintainer: x <x@example.org>\nDescription: x\n".to_vec(),
        ),
    ];
    for (name, data) in files {
        let path = tree.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, data).unwrap();
    }
    // dpkg-deb refuses the permissions that some umasks leave.
    fs::set_permissions(tree.join("DEBIAN"), fs::Permissions::from_mode(0o755)).unwrap();
    // A file with holes, for archives that record where they are.
    must(
        Command::new("cp")
            .arg("--sparse=always")
            .args(["usr/lib/libholes.so", "usr/lib/libsparse.so"])
            .current_dir(tree),
    );
    std::os::unix::fs::symlink("libone.so", tree.join("usr/lib/liblink.so")).unwrap();
    fs::hard_link(tree.join("usr/lib/libone.so"), tree.join("usr/lib/libhard.so")).unwrap();
}

/// Extracts everything from some paths. Returns names, IDs and contents.
fn extracted(dir: &Path, args: &[&str], name_of: impl Fn(&Value) -> String) -> Found {
    let out = memory_directory();
    let to = out.path().to_str().unwrap();
    let output = tool_in(dir, &[&["extract", "--json", "-o", to], args].concat());
    let (status, stdout, stderr) = text(&output);
    assert!(status == 0 && stderr.is_empty(), "{args:?}: {stderr}");
    let document: Value = serde_json::from_str(&stdout).unwrap();
    let of = |object: &Value| {
        let bytes = fs::read(object["file"].as_str().unwrap()).unwrap();
        (name_of(object), object["entry_id"].as_str().unwrap().to_owned(), bytes)
    };
    document["code_objects"].as_array().unwrap().iter().map(of).collect()
}

/// The names of the archives that are around everything in some packages.
const AROUND: [&str; 4] = ["data.tar", "pkg-x.tar.zst", "x.tar", ".zip"];

/// The path of a code object in the tree: the names of files and members, without the names of archives around it.
fn path_in_tree(object: &Value) -> String {
    let member = object["member"].as_str().unwrap();
    let parts: Vec<&str> = member.split('/').collect();
    let is_around = |part: &&&str| AROUND.iter().any(|around| part.contains(around));
    let last = parts.iter().rposition(|part| is_around(&part));
    parts[last.map_or(0, |last| last + 1)..].join("/")
}

#[test]
fn code_objects_in_packages_are_found() {
    let test = "packages of all kinds";
    for program in ["tar", "cpio", "dpkg-deb", "rpmbuild", "xz", "bzip2", "zstd", "gzip", "python3"] {
        if Command::new(program).arg("--version").output().is_err() {
            return skip(test, &format!("{program} is not installed"));
        }
    }
    let dir = memory_directory();
    let tree = dir.path().join("tree");
    write_tree(&tree);
    fs::write(dir.path().join("x.spec"), SPEC).unwrap();
    let expected = extracted(&tree, &["-r", "."], |object| {
        let path = object["path"].as_str().unwrap().trim_start_matches("./");
        object["member"].as_str().map_or(path.to_owned(), |member| format!("{path}/{member}"))
    });
    assert_eq!(expected.len(), 2 * 9, "{:?}", expected.iter().map(|found| &found.0).collect::<Vec<_>>());
    // Members that have no content of their own.
    let hard = |found: &Found| -> Found {
        found
            .iter()
            .filter(|(name, ..)| !name.ends_with("libhard.so") && !name.ends_with("libone.so"))
            .cloned()
            .collect()
    };
    for Maker { name, command } in MAKERS {
        let out = dir.path().join("out");
        let made = Command::new("sh")
            .args(["-ec", command])
            .current_dir(&tree)
            .env("OUT", &out)
            .env("HOME", dir.path())
            .output()
            .unwrap();
        assert!(made.status.success(), "{name}: {}", String::from_utf8_lossy(&made.stderr));
        let found = extracted(dir.path(), &["out"], path_in_tree);
        assert!(
            hard(&found) == hard(&expected),
            "{name}: {:?}",
            found.iter().map(|found| &found.0).collect::<Vec<_>>()
        );
        assert!(
            found.is_subset(&expected)
                && found.iter().any(|(name, ..)| name.ends_with("libone.so") || name.ends_with("libhard.so")),
            "{name}"
        );
        let verified = tool_in(dir.path(), &["verify", "out"]);
        assert_eq!(text(&verified).0, 0, "{name}: {}", text(&verified).1);
        assert!(resolve_all(&out) > expected.len() / 2, "{name}");
        cut(name, &out);
        must(Command::new("sh").args(["-c", "rm -rf out*"]).current_dir(dir.path()));
    }
    loud(&format!("packages: {} kinds, {} code objects in each", MAKERS.len(), expected.len()));
}

/// Every package that ends early is reported, wherever it ends, except in the zeros at the end of an archive.
fn cut(name: &str, package: &Path) {
    let data = fs::read(package).unwrap();
    let content = data.iter().rposition(|&byte| byte != 0).unwrap() + 1;
    for part in sample((1..12).collect(), 4) {
        let len = content * part / 12;
        let file = [("in", &data[..len])];
        let inspected = tool(&["inspect", "in"], &file);
        let is_told = inspected.status == 1 && !inspected.stderr.is_empty();
        assert!(is_told, "{name}: {len} of {content} bytes: {}", String::from_utf8_lossy(&inspected.stdout));
    }
}

/// Debian's package of librocrand, which CI downloads, has the code objects of the installed library.
#[test]
fn a_package_of_debian_holds_what_it_installs() {
    let test = "a package of Debian";
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/debian");
    let package = fs::read_dir(folder).ok().and_then(|mut files| files.next()).map(|file| file.unwrap().path());
    let Some(package) = package else { return skip(test, "librocrand1's package is not in target/debian") };
    let dir = memory_directory();
    must(Command::new("dpkg-deb").arg("-x").args([&package, dir.path()]));
    let name = |path: &str| path.rsplit('/').next().unwrap().to_owned();
    let expected = extracted(dir.path(), &["-r", "."], |object| name(object["path"].as_str().unwrap()));
    let found = extracted(dir.path(), &[package.to_str().unwrap()], |object| name(object["member"].as_str().unwrap()));
    assert_eq!(expected.len(), 7);
    assert!(found == expected, "{:?}", found.iter().map(|found| &found.0).collect::<Vec<_>>());
}

#[test]
fn a_file_that_is_compressed_by_itself_is_a_member() {
    let data = library(b"code");
    let archive = packages::tar(&[File::new("lib/libx.so.gz", &packages::gzip(&data))]);
    let listed = |name: &str, data: &[u8]| -> String {
        let outcome = tool(&["inspect", "--json", name], &[(name, data)]);
        let document = crate::subcommands::json_of(&outcome);
        document["files"][0]["code_objects"][1]["member"].as_str().unwrap().to_owned()
    };
    assert_eq!(listed("libx.so.1.gz", &packages::gzip(&data)), "libx.so.1");
    assert_eq!(listed("libx.so.tar.zst", &packages::zstd(&archive)), "lib/libx.so.gz/libx.so");
    assert_eq!(listed("twice.gz.zst", &packages::zstd(&packages::gzip(&data))), "twice.gz/twice");
}

/// Other programs read these packages too.
#[test]
fn unusual_packages_are_read() {
    let data = library(b"code");
    let tar = packages::tar(&[File::new("b.so", &data)]);
    let with = |kind: u8, size: u64| [packages::tar_header(b"a", kind, size), tar.clone()].concat();
    let pax = |lines: &str| {
        packages::tar(&[File { name: "x", kind: b'x', content: lines.as_bytes() }, File::new("a", &data)])
    };
    let zeros = vec![0; 1000];
    let skipped = [&[0x50, 0x2a, 0x4d, 0x18, 2, 0, 0, 0, 1, 1][..], &packages::zstd(&tar)].concat();
    let cpio = packages::cpio(&[File::new("b.so", &data)]);
    for (name, package) in [
        ("a link with a size", with(b'1', 5000)),
        ("a directory with a size", with(b'5', 5000)),
        ("a file of an unknown type", packages::tar(&[File { name: "b.so", kind: b'Z', content: &data }])),
        ("the last of two paths", pax("9 path=a\n13 path=b.so\n")),
        ("zeros between members", [packages::tar_header(b"a", b'0', 0), vec![0; 512], tar.clone()].concat()),
        (
            "attributes for all members",
            packages::tar(&[File { name: "g", kind: b'g', content: &vec![b'x'; 500 << 10] }, File::new("b.so", &data)]),
        ),
        ("zeros after gzip", [packages::gzip(&tar), zeros.clone()].concat()),
        ("a frame to skip before zstd", skipped),
        ("cpio in xz", liblzma::encode_all(&cpio[..], 1).unwrap()),
        ("an empty stream before bzip2", [b"BZh9\x17\x72\x45\x38\x50\x90\0\0\0\0".to_vec(), bzip2(&tar)].concat()),
    ] {
        for (form, package) in [("", package.clone()), (" in gzip", packages::gzip(&package))] {
            let outcome = tool(&["inspect", "in"], &[("in", &package)]);
            let out = String::from_utf8_lossy(&outcome.stdout).into_owned();
            let is_named = out.contains("b.so");
            assert!(
                outcome.status == 0 && outcome.stderr.is_empty() && is_named,
                "{name}{form}: {out}{}",
                outcome.stderr_text()
            );
        }
    }
    for (what, package) in [
        ("LZ4 file", b"\x50\x2a\x4d\x18\x01\0\0\0x\x04\x22\x4d\x18".to_vec()),
        ("lzma file", b"\x5d\0\0\x80\0\xff\xff\xff\xff\xff\xff\xff\xff\0".to_vec()),
        ("binary cpio archive", [&b"\xc7\x71"[..], &[0; 18], &[2, 0, 0, 0, 0, 0], b"a\0"].concat()),
        ("cpio archive without names, of an RPM package", packages::rpm(&packages::gzip(b"07070X00000000"))),
        (
            "part of a file in a tar archive of several volumes",
            packages::tar(&[File { name: "b.so", kind: b'M', content: &data }]),
        ),
    ] {
        let outcome = tool(&["inspect", "in"], &[("in", &package)]);
        let out = String::from_utf8_lossy(&outcome.stdout).into_owned();
        assert!(outcome.status == 0 && out.contains(&format!("not read: {what}\n")), "{what}: {out}");
    }
}

fn bzip2(data: &[u8]) -> Vec<u8> {
    let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

fn gunzip(data: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut inflated = Vec::new();
    flate2::read::MultiGzDecoder::new(data).read_to_end(&mut inflated)?;
    Ok(inflated)
}

/// Wherever a package of small texts and a library ends or changes, the fault is reported, or all of the library is
/// found.
#[test]
fn no_end_and_no_damage_of_a_package_hides_a_library() {
    let text = vec![b'a'; 1500];
    let names: Vec<String> = (0..40).map(|number| format!("doc/{number}")).collect();
    let mut files: Vec<File<'_>> = names.iter().map(|name| File::new(name, &text)).collect();
    let library = library(b"code");
    files.push(File::new("b.so", &library));
    let (tar, cpio) = (packages::tar(&files), packages::cpio(&files));
    for (name, package) in [
        ("tar.gz", packages::gzip(&tar)),
        ("tar.zst", packages::zstd(&tar)),
        ("cpio.gz", packages::gzip(&cpio)),
        ("rpm", packages::rpm(&packages::gzip(&cpio))),
    ] {
        let step = package.len() / 60;
        // The magic has to be there.
        for at in (16..package.len()).step_by(step) {
            let mut changed = package.clone();
            changed[at] ^= 0x55;
            // Only gzip has a checksum here.
            let changed = name.ends_with("gz").then_some(("changed", &changed[..]));
            for (how, data) in [Some(("cut", &package[..at])), changed].into_iter().flatten() {
                let command = if how == "cut" { "inspect" } else { "verify" };
                let outcome = tool(&[command, "in"], &[("in", data)]);
                // Some changes mean nothing.
                let is_same = || how == "changed" && gunzip(data).is_ok_and(|data| data == gunzip(&package).unwrap());
                let is_found = String::from_utf8_lossy(&outcome.stdout).contains("gfx906") || is_same();
                let faults = outcome.stderr_text().lines().count();
                assert!(is_found || outcome.status == 1, "{name}, {how} at {at} is silent");
                // Changed data may decode to several faults.
                assert!(how == "changed" || faults <= 1, "{name}, {how} at {at}: {}", outcome.stderr_text());
            }
        }
    }
}

#[test]
fn damaged_packages_are_reported_and_the_rest_is_found() {
    let good = library(b"code");
    let cut = &packages::gzip(&good)[..200];
    let inside = packages::tar(&[File::new("a.so.gz", cut), File::new("b.so", &good)]);
    for package in [
        inside.clone(),
        packages::zstd(&inside),
        packages::rpm(&packages::gzip(&packages::cpio(&[File::new("a.so.gz", cut), File::new("b.so", &good)]))),
    ] {
        let outcome = tool(&["inspect", "in"], &[("in", &package)]);
        let (out, said) = (String::from_utf8_lossy(&outcome.stdout).into_owned(), outcome.stderr_text());
        assert!(outcome.status == 1 && out.contains("gfx906") && out.contains("b.so"), "{out}{said}");
        assert!(said.contains("'in(a.so.gz)(a.so)': gzip file broken: it ends early"), "{said}");
    }
    let mut wrong = packages::tar(&[File::new("b.so", &good)]);
    wrong[150] ^= 1;
    for (data, what) in [
        (wrong.clone(), "tar archive broken: the checksum of a header is wrong"),
        (packages::gzip(&wrong), "tar archive broken: the checksum of a header is wrong"),
        (b"\x1f\x8b\x08\0".to_vec(), "gzip file broken: it ends early"),
        (b"\xfd7zXZ\0".to_vec(), "xz file broken: it ends early"),
        (b"BZh91AY&SYxxxxxxxxx".to_vec(), "bzip2 file broken: "),
        (b"\x28\xb5\x2f\xfd".to_vec(), "zstd file broken: "),
        (
            packages::cpio(&[File::new("b.so", &good)]).replacing(b"TRAILER", b"TRAILED"),
            "cpio archive broken: it ends early",
        ),
        (
            packages::rpm(b"").replacing(&[0x8e, 0xad], &[0, 0]),
            "RPM package broken: a header does not begin with its magic number",
        ),
        (packages::tar_header(&[b'x'; 9], b'L', 1 << 32), "tar archive broken: it ends early"),
        (
            packages::tar(&[File { name: "x", kind: b'x', content: b"9 path\n" }]),
            "tar archive broken: the attributes of a member",
        ),
    ] {
        let outcome = tool(&["inspect", "in"], &[("in", &data)]);
        assert!(outcome.status == 1 && outcome.stderr_text().contains(what), "{what}: {}", outcome.stderr_text());
    }
}

trait Replacing {
    fn replacing(self, old: &[u8], new: &[u8]) -> Self;
}

impl Replacing for Vec<u8> {
    /// Replaces the last occurrence of some bytes.
    fn replacing(mut self, old: &[u8], new: &[u8]) -> Self {
        let at = self.windows(old.len()).rposition(|window| window == old).unwrap();
        self[at..at + old.len()].copy_from_slice(new);
        self
    }
}

type Encoder = fn(&[u8]) -> Vec<u8>;

fn xz(data: &[u8]) -> Vec<u8> {
    let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 0);
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

/// Other data after a package is a fault with its offset, and hides no part of the package. Zeros may follow.
#[test]
fn data_after_a_package_is_a_fault_and_hides_nothing() {
    let library = library(b"code");
    let files = [File::new("k.so", &library)];
    let (tar, cpio) = (packages::tar(&files), packages::cpio(&files));
    let codings: [(&str, Encoder); 4] =
        [("gzip", packages::gzip), ("zstd", packages::zstd), ("xz", xz), ("bzip2", bzip2)];
    let contents = [&library, &tar, &cpio].map(|content| content.split_at(content.len() / 3));
    let coded = codings.iter().flat_map(|(name, coding)| {
        let in_parts = contents.map(|(start, rest)| (*name, [coding(start), coding(rest)].concat()));
        let whole = contents.map(|(start, rest)| (*name, coding(&[start, rest].concat())));
        in_parts.into_iter().chain(whole)
    });
    let zip = zip(&[Zipped::new("k.so", DEFLATED, &library)]);
    for (name, package) in coded.chain([("tar", tar.clone()), ("cpio", cpio.clone()), ("zip", zip)]) {
        for (zeros, tail) in
            [(0, &b""[..]), (0, b"x"), (0, b"more data"), (1024, b"more"), (512, b""), (0, &[b'y'; 70_000])]
        {
            let file = [&package[..], &vec![0; zeros], tail].concat();
            let files = [("in", &file[..])];
            let listed = crate::subcommands::json_of(&tool(&["inspect", "--json", "in"], &files));
            assert_eq!(listed["files"][0]["code_objects"].as_array().unwrap().len(), 3, "{name} {zeros} {tail:?}");
            let verified: Value = serde_json::from_slice(&tool(&["verify", "--json", "in"], &files).stdout).unwrap();
            let faults = verified["files"][0]["faults"].as_array().unwrap();
            let told: Vec<_> = faults
                .iter()
                .map(|fault| (fault["rule"].as_str(), fault["offset"].as_u64(), fault["text"].as_str().unwrap()))
                .collect();
            let offset = u64::try_from(package.len() + zeros).unwrap();
            let kind = if ["tar", "cpio"].contains(&name) { "archive" } else { "file" };
            let text = format!("unexpected data after the {name} {kind}");
            let expected = if tail.is_empty() { vec![] } else { vec![(Some("trailing"), Some(offset), &*text)] };
            assert_eq!(told, expected, "{name} {zeros} {}", tail.len());
        }
    }
    // Inflated data has no offset in the file.
    for (archive, text) in [(tar, "after the tar archive"), (cpio, "after the cpio archive")] {
        let file = packages::gzip(&[&archive[..], b"more"].concat());
        let verified: Value =
            serde_json::from_slice(&tool(&["verify", "--json", "in"], &[("in", &file)]).stdout).unwrap();
        let fault = &verified["files"][0]["faults"][0];
        assert!(fault["offset"].is_null() && fault["text"].as_str().unwrap().ends_with(text), "{fault}");
    }
}

/// The code objects of the first part of a package are listed, whatever is wrong with the second part.
#[test]
fn a_broken_second_part_of_a_package_hides_nothing() {
    let library = library(b"code");
    let noise: Vec<u8> = (0..3000_u32).map(|at| u8::try_from(at.wrapping_mul(2_654_435_761) >> 24).unwrap()).collect();
    let (files, others) = ([File::new("k.so", &library)], [File::new("noise", &noise)]);
    let (tar, cpio) = (packages::tar(&files), packages::cpio(&files));
    let bundle = formats::binary(&[(GFX906, b"1"), (GFX90A, b"2"), (GFX90A, b"3")], 16);
    let codings: [(Encoder, &[u8]); 4] = [
        (packages::gzip, b"\x1f\x8b\x08GARBAGE"),
        (packages::zstd, b"\x28\xb5\x2f\xfdgarbage"),
        (xz, b"\xfd7zXZ\0garbage"),
        (bzip2, b"BZh91AY&SYgarbage"),
    ];
    let coded = codings.iter().flat_map(|(coding, garbage)| {
        let firsts = [&library, &tar, &cpio, &bundle].map(|content| coding(content));
        firsts.into_iter().map(|first| (first, coding(&noise), *garbage))
    });
    let archives = [
        (tar.clone(), packages::tar(&others), &b"garbage"[..]),
        (cpio.clone(), packages::cpio(&others), b"070701garbage"),
    ];
    for (first, second, garbage) in coded.chain(archives) {
        let cuts = [1, 2, 5, 9, 20, 200, second.len() / 2, second.len() / 4 * 3].map(|len| &second[..len]);
        for tail in cuts.into_iter().chain([garbage, b"\x1f\x8bGARBAGE", b"BZhello world"]) {
            let file = [&first[..], tail].concat();
            let outcome = tool(&["inspect", "--json", "in"], &[("in", &file)]);
            let listed = crate::subcommands::json_of(&outcome);
            let found = listed["files"][0]["code_objects"].as_array().unwrap();
            assert_eq!(found.len(), 3, "{:x?} {}: {}", &first[..4], tail.len(), outcome.stderr_text());
            let status = tool(&["verify", "in"], &[("in", &file)]).status;
            assert_eq!(status, 1, "{:x?} {}", &first[..4], tail.len());
        }
    }
}

/// Archives in a row are read, as in the initramfs of Linux.
#[test]
fn cpio_archives_in_a_row_are_read() {
    let library = library(b"code");
    let parts = ["a.so", "b.so", "c.so"].map(|name| packages::cpio(&[File::new(name, &library)]));
    for zeros in [0, 1, 508, 9000] {
        let row = parts.join(&vec![0; zeros][..]);
        for file in [packages::gzip(&row), packages::tar(&[File::new("initrd", &row)]), row] {
            let listed = crate::subcommands::json_of(&tool(&["inspect", "--json", "in"], &[("in", &file)]));
            assert_eq!(listed["files"][0]["code_objects"].as_array().unwrap().len(), 9, "{zeros}");
            assert_eq!(tool(&["verify", "in"], &[("in", &file)]).status, 0, "{zeros}");
        }
    }
}

/// A zip file is found after any data that does not extend to the end of the file. Its offsets may count from the start
/// of the file or of the zip file, and its members are the same as without that data. The parts before it are searched
/// too.
#[test]
fn a_zip_file_after_other_data_is_read() {
    let (code, elf) = (formats::binary(&[(GFX906, b"first"), (GFX90A, b"second")], 16), library(b"in the program"));
    let plain = Elf::LIBRARY.write(&[Section::new(".text", b"code")]);
    let mut stub = vec![0; 512];
    stub[..6].copy_from_slice(b"MZ\x80\0\x01\0");
    let before: [(&[u8], usize); 8] = [
        (b"#!/usr/bin/env python3\n", 0),
        (b"any text\n", 0),
        (&[0; 5000], 0),
        (b"\x01", 0),
        (&stub, 0),
        (b"PK", 0),
        (&plain, 0),
        (&elf, 3),
    ];
    for (before, count) in before {
        for (method, comment, moves) in
            [0, 3, 5, 6].map(|bits| ([STORED, DEFLATED][bits & 1], bits & 2 > 0, bits & 4 > 0))
        {
            let mut zip = zip(&[Zipped::new("a/k.hipfb", method, &code), Zipped::new("b.txt", method, b"text")]);
            if moves {
                move_offsets(&mut zip, u32::try_from(before.len()).unwrap());
            }
            if comment {
                let at = zip.len() - 2;
                zip[at..].copy_from_slice(&[5, 0]);
                zip.extend(b"hello");
            }
            let file = [before, &zip].concat();
            for deep in [&[][..], &["--deep"]] {
                let listed = tool(&[&["inspect", "--json", "in"], deep].concat(), &[("in", &file[..])]);
                let listed = crate::subcommands::json_of(&listed);
                let objects = listed["files"][0]["code_objects"].as_array().unwrap();
                let members = objects.iter().filter(|object| object["member"] == "a/k.hipfb").count();
                assert_eq!((members, objects.len()), (2, 2 + count), "{} {method} {comment} {moves}", before.len());
            }
            let dir = memory_directory();
            let path = dir.path().join("in");
            fs::write(&path, &file).unwrap();
            assert!(resolve_all(&path) >= 2);
            let (status, _, said) = text(&tool_in(dir.path(), &["verify", "in"]));
            assert_eq!((status, said.as_str()), (0, ""));
            let (status, _, said) = text(&tool_in(dir.path(), &["recompress", "in", "-o", "out"]));
            if count == 0 {
                assert!(status == 1 && (said.contains("zip file after other data") || said.contains("ELF")), "{said}");
            } else {
                assert_eq!(status, 0, "{said}");
                let out = fs::read(dir.path().join("out")).unwrap();
                assert!(out.len() == file.len() && out.ends_with(&zip));
            }
        }
    }
}

/// Adds to the offsets in a zip file without comment, as writers do that begin after other data.
fn move_offsets(zip: &mut [u8], by: u32) {
    let end = zip.len() - 22;
    let directory = usize::try_from(u32::from_le_bytes(zip[end + 16..end + 20].try_into().unwrap())).unwrap();
    let headers = (directory..end).filter(|&at| zip[at..].starts_with(b"PK\x01\x02")).map(|at| at + 42);
    for at in headers.chain([end + 16]).collect::<Vec<_>>() {
        let offset = u32::from_le_bytes(zip[at..at + 4].try_into().unwrap()) + by;
        zip[at..at + 4].copy_from_slice(&offset.to_le_bytes());
    }
}

//! Tests of `recompress` on wheels and other zip files. `wheel.py` writes them with Python's zipfile, and compares.

use crate::machine::memory_directory;
use std::fs;

use super::*;
use crate::properties::fatbins;
use crate::properties::make::{
    BZIP2, DEFLATED, Elf, LZMA, STORED, Section, XZ, ZSTD, Zipped, archive, coff, thin_archive, zip,
};
use crate::reference::formats;
use crate::reference::harness::find;

/// Code objects that are almost the same, at a distance that is too large for deflate.
fn bundle(seed: u8) -> Vec<u8> {
    let noise = (0..40_000_u32).map(|at| at.wrapping_mul(at).wrapping_mul(0x9e37_79b1).to_be_bytes()[0]);
    let code = |seed: u8| [vec![seed; 100], noise.clone().collect()].concat();
    formats::binary(&[(HOST, b""), (GFX906, &code(seed)), (GFX90A, &code(seed + 1))], 4096)
}

fn library(bundle: &[u8]) -> Vec<u8> {
    let padded = [bundle, &[0; 4096][bundle.len() % 4096..]].concat();
    Elf::LIBRARY.write(&[Section::new(".hip_fatbin", &padded).aligned(4096)])
}

/// Runs `wheel.py`. Returns the lines that it prints, or `None` if Python is missing.
fn python(test: &str, args: &[&Path]) -> Option<Vec<String>> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/subcommands/wheel.py");
    let output = match Command::new("python3").args(["-W", "ignore"]).arg(script).args(args).output() {
        Ok(output) => output,
        Err(_) => {
            machine::skip(test, "python3 is not installed");
            return None;
        }
    };
    let (status, printed, said) = text(&output);
    assert_eq!(status, 0, "{args:?}: {said}");
    Some(printed.lines().map(str::to_owned).collect())
}

/// Runs `recompress` from one path to another. Returns the exit status and the messages.
fn recompress(from: &Path, to: &Path, args: &[&str]) -> (i32, String) {
    let [from, to] = [from, to].map(|path| path.to_str().unwrap());
    let (status, _, said) = text(&tool_in(Path::new("."), &[&["recompress", from, "-o", to], args].concat()));
    (status, said)
}

/// Writes a file into a new directory.
fn in_new_directory(data: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let dir = memory_directory();
    let path = dir.path().join("in");
    fs::write(&path, data).unwrap();
    (dir, path)
}

/// The contents of the members of a zip file, in order.
pub fn contents(data: &[u8]) -> Vec<(String, Vec<u8>)> {
    use std::io::Read as _;
    let archive = rawzip::ZipArchive::from_slice(data).unwrap();
    let entries = archive.entries().map(|entry| {
        let entry = entry.unwrap();
        let stored = archive.get_entry(entry.wayfinder()).unwrap().data();
        let name = String::from_utf8(entry.file_path().as_bytes().to_vec()).unwrap();
        let mut content = Vec::new();
        match entry.compression_method().as_u16() {
            DEFLATED => drop(flate2::read::DeflateDecoder::new(stored).read_to_end(&mut content).unwrap()),
            ZSTD => content = zstd::decode_all(stored).unwrap(),
            _ => content = stored.to_vec(),
        }
        assert_eq!(rawzip::crc32(&content), entry.crc32(), "{name}");
        (name, content)
    });
    entries.collect()
}

/// Recompresses a zip file, which must succeed. Returns the written file and the messages.
fn small(data: &[u8], args: &[&str]) -> (Vec<u8>, String) {
    let (dir, path) = in_new_directory(data);
    let out = dir.path().join("out");
    let (status, said) = recompress(&path, &out, args);
    assert_eq!(status, 0, "{args:?}: {said}");
    (fs::read(out).unwrap(), said)
}

/// Recompresses a zip file, which must fail and write nothing. Returns the messages.
fn refused(data: &[u8], args: &[&str]) -> String {
    let (dir, path) = in_new_directory(data);
    let (status, said) = recompress(&path, &dir.path().join("out"), args);
    assert_eq!((status, fs::read_dir(dir.path()).unwrap().count()), (1, 1), "{args:?}: {said}");
    said.replace(&*path.to_string_lossy(), "in")
}

#[test]
fn wheels_of_all_forms_are_recompressed_and_come_back() {
    const TEST: &str = "wheels of all forms";
    let (dir, from) = in_new_directory(&library(&bundle(1)));
    let at = |name: &str| dir.path().join(name);
    let Some(forms) = python(TEST, &[Path::new("write"), dir.path(), &from]) else { return };
    assert!(forms.len() >= 20, "{forms:?}");
    let (mut pairs, mut expected) = (Vec::new(), Vec::new());
    for form in forms.iter().filter(|form| *form != "jws") {
        let [old, new, again, back] = ["whl", "new", "again", "back"].map(|end| at(&format!("{form}.{end}")));
        let (status, said) = recompress(&old, &new, &[]);
        assert_eq!(status, 0, "{form}: {said}");
        assert!(said.starts_with("1 bundle: ") && said.contains("; 1 member changed; zip file: "), "{said}");
        // Done again, nothing changes.
        assert_eq!(recompress(&new, &again, &[]).0, 0, "{form}");
        assert!(fs::read(&again).unwrap() == fs::read(&new).unwrap(), "{form}");
        assert_eq!(recompress(&new, &back, &["--none"]).0, 0, "{form}");
        for args in [&["inspect", "--summary"][..], &["verify"]] {
            let (status, _, said) = text(&tool_in(dir.path(), &[args, &[new.to_str().unwrap()]].concat()));
            assert_eq!(status, 0, "{form}: {said}");
        }
        let record = if form == "no-record" { "" } else { "sample-1.0.dist-info/RECORD" };
        expected.push((form, format!("{record} sample/lib.so").trim_start().to_owned()));
        // And back: RECORD differs only where it was wrong.
        let was_wrong = ["wrong-", "missing-", "more-", "empty-", "record-with", "twice"]
            .iter()
            .any(|wrong| form.starts_with(wrong));
        expected.push((form, if was_wrong { record } else { "" }.to_owned()));
        pairs.extend([old.clone(), new, old, back]);
    }
    let paths: Vec<&Path> = [Path::new("compare")].into_iter().chain(pairs.iter().map(PathBuf::as_path)).collect();
    let differs = python(TEST, &paths).unwrap();
    assert!(differs.iter().eq(expected.iter().map(|(_, differs)| differs)), "{expected:#?}, not {differs:#?}");
    let (status, said) = recompress(&at("jws.whl"), &at("signed"), &[]);
    assert!(
        status == 1 && said.contains("'sample-1.0.dist-info/RECORD.jws' signs RECORD, which has to change"),
        "{said}"
    );
    assert!(!at("signed").exists());
}

#[test]
fn wheels_of_all_forms_get_a_local_version() {
    const TEST: &str = "local versions of wheels of all forms";
    let (dir, from) = in_new_directory(&library(&bundle(1)));
    let at = |name: &str| dir.path().join(name);
    let Some(forms) = python(TEST, &[Path::new("write"), dir.path(), &from]) else { return };
    let mut paths = vec![PathBuf::from("version"), PathBuf::from("gfx906")];
    for form in forms.iter().filter(|form| !["jws", "no-record"].contains(&form.as_str())) {
        let (named, out) = (at(form), at(&format!("{form}.out")));
        fs::create_dir(&named).unwrap();
        fs::create_dir(&out).unwrap();
        let old = named.join("sample-1.0-1-py3-none-any.whl");
        fs::rename(at(&format!("{form}.whl")), &old).unwrap();
        let (status, said) = recompress(&old, &out, &["--local-version", "GFX906"]);
        assert_eq!(status, 0, "{form}: {said}");
        let new = out.join("sample-1.0+gfx906-1-py3-none-any.whl");
        assert!(said.contains(&format!("\nthe new wheel is {}\n", new.display())), "{form}: {said}");
        // The name may be given, too.
        let again = at("sample-1.0+gfx906-1-py3-none-any.whl");
        assert_eq!(recompress(&old, &again, &["--local-version", "gfx906"]).0, 0, "{form}");
        assert!(fs::read(&again).unwrap() == fs::read(&new).unwrap(), "{form}");
        // A second label follows the first.
        let (status, said) = recompress(&new, &out, &["--local-version", "again"]);
        assert!(status == 0 && out.join("sample-1.0+gfx906.again-1-py3-none-any.whl").exists(), "{form}: {said}");
        paths.extend([old, new]);
    }
    let paths: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
    let differs = python(TEST, &paths).unwrap();
    let expected = "sample-1.0.dist-info/METADATA sample-1.0.dist-info/RECORD sample/lib.so";
    assert!(differs.len() >= 18 && differs.iter().all(|line| line == expected), "{differs:#?}");
}

#[test]
fn local_versions_are_refused_for_other_files_than_wheels_whose_names_agree() {
    let library = library(&bundle(1));
    let info = |version: &str| format!("sample-{version}.dist-info");
    let wheel = |directory: &str, left_out: &str, metadata: &str, more: &[&str]| {
        let mut members = vec![Zipped::new("lib.so", STORED, &library)];
        let files = ["METADATA", "WHEEL", "RECORD"].map(|file| (format!("{directory}/{file}"), file));
        for (path, file) in &files {
            let content = if *file == "METADATA" { metadata } else { "" };
            if *file != left_out {
                members.push(Zipped::new(path, STORED, content.as_bytes()));
            }
        }
        members.extend(more.iter().map(|name| Zipped::new(name, STORED, b"")));
        zip(&members)
    };
    let good = "Name: Sample\nVersion: 1.0\n\n";
    let sound = wheel(&info("1.0"), "", good, &[]);
    const FILE: &str = "sample-1.0-py3-none-any.whl";
    for (name, data, out, reason) in [
        (FILE, sound.clone(), ".", None),
        (FILE, sound.clone(), "sample-1.0+x-py3-none-any.whl", None),
        (FILE, sound.clone(), "small.whl", Some("the new wheel must have the name 'sample-1.0+x-py3-none-any.whl'")),
        (FILE, sound.clone(), "-", Some("the new wheel must have the name")),
        (FILE, sound.clone(), FILE, Some("the new wheel must have the name")),
        ("sample.whl", sound.clone(), ".", Some("is not that of a wheel")),
        ("sample-1.1-py3-none-any.whl", sound.clone(), ".", Some("'sample-1.0.dist-info' has another name or version")),
        ("other-1.0-py3-none-any.whl", sound, ".", Some("'sample-1.0.dist-info' has another name or version")),
        (FILE, library.clone(), ".", Some("it is not a zip file")),
        (FILE, wheel("x", "", good, &[]), ".", Some("it has no directory NAME-VERSION.dist-info")),
        (FILE, wheel(&info("1.0"), "", good, &["a-1.dist-info/x"]), ".", Some("it has more than one directory")),
        (FILE, wheel(&info("1.0"), "RECORD", good, &[]), ".", Some("it has no 'sample-1.0.dist-info/RECORD'")),
        (FILE, wheel(&info("1.0"), "WHEEL", good, &[]), ".", Some("it has no 'sample-1.0.dist-info/WHEEL'")),
        (FILE, wheel(&info("1.0"), "", "Name: sample\n", &[]), ".", Some("METADATA must have one line 'Version: …'")),
        (
            FILE,
            wheel(&info("1.0"), "", "Name: sample\nVersion: 2\n", &[]),
            ".",
            Some("the name and version 'sample-2'"),
        ),
        (FILE, wheel(&info("1.0"), "", good, &["sample-1.0.dist-info/RECORD.jws"]), ".", Some("signs RECORD")),
        (FILE, wheel(&info("1.0"), "", good, &["sample-1.0.data/a", "sample-1.0+x.data/a"]), ".", Some("already")),
        (
            "sample-1.0+x-py3-none-any.whl",
            wheel(&info("1.0+x"), "", good, &[]),
            ".",
            Some("has the local version x already"),
        ),
    ] {
        let outcome = tool(&["recompress", name, "-o", out, "--local-version", "x"], &[(name, &data)]);
        let said = outcome.stderr_text();
        match reason {
            None => assert!(outcome.status == 0 && outcome.files.len() == 2, "{said}"),
            Some(reason) => {
                assert!(outcome.status == 1 && outcome.files.len() == 1 && said.contains(reason), "{reason}: {said}");
            }
        }
    }
}

#[test]
fn pip_and_unzip_take_recompressed_wheels() {
    const TEST: &str = "recompressed wheels and pip";
    let (dir, from) = in_new_directory(&library(&bundle(1)));
    if python(TEST, &[Path::new("write"), dir.path(), &from]).is_none() {
        return;
    }
    fs::create_dir(dir.path().join("small")).unwrap();
    let old = dir.path().join("sample-1.0-py3-none-any.whl");
    fs::rename(dir.path().join("wrong-hash.whl"), &old).unwrap();
    let wheel = dir.path().join("small/sample-1.0+gfx906-py3-none-any.whl");
    let (status, said) = recompress(&old, &wheel, &["--local-version", "gfx906"]);
    assert_eq!(status, 0, "{said}");
    match Command::new("unzip").arg("-tq").arg(&wheel).output() {
        Ok(tested) => assert!(tested.status.success(), "{tested:?}"),
        Err(_) => machine::skip(TEST, "unzip is not installed"),
    }
    let mut pip = Command::new("python3");
    pip.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        "--no-compile",
        "--disable-pip-version-check",
        "--target",
    ]);
    let pip = pip.arg(dir.path().join("installed")).arg(&wheel).env("PIP_ROOT_USER_ACTION", "ignore").output().unwrap();
    if String::from_utf8_lossy(&pip.stderr).contains("No module named pip") {
        return machine::skip(TEST, "pip is not installed");
    }
    assert!(pip.status.success(), "{}", String::from_utf8_lossy(&pip.stderr));
    let mut show = Command::new("python3");
    show.args(["-m", "pip", "show", "--disable-pip-version-check", "sample"]);
    let shown = show.env("PYTHONPATH", dir.path().join("installed")).output().unwrap();
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("\nVersion: 1.0+gfx906\n"), "{shown}");
    let installed = fs::read(dir.path().join("installed/sample/lib.so")).unwrap();
    let members = contents(&fs::read(&wheel).unwrap());
    assert!(members.iter().any(|(name, content)| name == "sample/lib.so" && *content == installed));
    assert!(installed != fs::read(&from).unwrap());
}

#[test]
fn members_of_a_wheel_are_recompressed_as_they_would_be_alone() {
    let alone = |data: &[u8]| {
        let outcome = tool(&["recompress", "in", "-o", "out"], &[("in", data)]);
        assert_eq!(outcome.status, 0, "{}", outcome.stderr_text());
        outcome.files["out"].clone()
    };
    let (one, packed) = (bundle(1), formats::compressed(2, 0, &bundle(2)));
    let lib = library(&bundle(3));
    let object = Elf::OBJECT.write(&[Section::new(".hip_fatbin", &bundle(4)).aligned(4096)]);
    let static_library = archive(&[("a", &object), ("b", b"text")]);
    let kept = [
        &b"text"[..],
        b"",
        &coff(&[(".text", b"x")]),
        &thin_archive(&[("a", 3)]),
        &zip(&[Zipped::new("a", STORED, &one)]),
    ];
    for method in [STORED, DEFLATED, ZSTD] {
        let rewritten = [("one.hipfb", &one), ("dir/packed.co", &packed), ("lib.so", &lib), ("lib.a", &static_library)];
        let mut members: Vec<_> = rewritten.iter().map(|(name, data)| Zipped::new(name, method, data)).collect();
        members.extend(kept.iter().map(|data| Zipped::new("kept", method, data)));
        let data = zip(&members);
        let (new, said) = small(&data, &[]);
        // With zstd, a plain bundle is as small as a compressed one.
        let stays = |name: &str| method == ZSTD && name == "one.hipfb";
        let told = if method == ZSTD { "3 members changed; " } else { "4 members changed; " };
        assert!(said.starts_with("4 bundles: ") && said.contains(told), "{method}: {said}");
        assert!(new.len() <= data.len(), "{} bytes, not {}", new.len(), data.len());
        let (before, after) = (contents(&data), contents(&new));
        for ((name, old), (new_name, new)) in before.iter().zip(&after) {
            assert_eq!(name, new_name);
            let expected = if name == "kept" || stays(name) { old.clone() } else { alone(old) };
            assert!(*new == expected, "{name}: {} bytes, not {}", new.len(), expected.len());
        }
    }
}

#[test]
fn patterns_are_for_all_members_together() {
    let other = formats::binary(&[(HOST, b""), (GFX90A, &[7; 5000])], 4096);
    let data = zip(&[Zipped::new("both.so", DEFLATED, &library(&bundle(1))), Zipped::new("other.co", STORED, &other)]);
    let held = |data: &[u8]| {
        let outcome = tool(&["inspect", "--json", "in"], &[("in", data)]);
        told(&json_of(&outcome)).into_iter().map(|row| (row.0, row.2)).collect::<Vec<_>>()
    };
    let row = |place: &str, id: &str| (place.to_owned(), id.to_owned());
    let (new, said) = small(&data, &["--keep", "gfx906"]);
    assert_eq!(
        held(&new),
        [row("both.so:.hip_fatbin", HOST), row("both.so:.hip_fatbin", GFX906), row("other.co:", HOST)]
    );
    assert!(said.contains("1 member left without device code"), "{said}");
    let (new, said) = small(&data, &["--drop", "gfx906"]);
    assert_eq!(held(&new).iter().filter(|(_, id)| id == GFX90A).count(), 2);
    assert!(!said.contains("without device code"), "{said}");
    let said = refused(&data, &["--keep", "gfx90a,gfx1100"]);
    assert!(said.contains("no code object matches 'gfx1100' in 'in'; it has: "), "{said}");
    let said = refused(&data, &["--drop", "gfx*"]);
    assert!(said.ends_with("error: 'in': no device code would be left\n"), "{said}");
}

#[test]
fn hip_libraries_without_code_are_not_expected_to_serve_gpus_of_nvidia() {
    let fatbin = fatbins::fatbin(&[fatbins::entry(&fatbins::Code::cubin(90, 3))]);
    let cuda = Elf::LIBRARY.write(&[Section::new(".nv_fatbin", &fatbin)]);
    let data = zip(&[Zipped::new("cuda.so", DEFLATED, &cuda), Zipped::new("hip.so", DEFLATED, &library(&bundle(1)))]);
    let (nvidia, said) = small(&data, &["--keep-for", "sm_90"]);
    assert!(said.contains("1 member left without device code"), "{said}");
    let table = tool(&["inspect", "in"], &[("in", &nvidia)]);
    let table = String::from_utf8(table.stdout).unwrap();
    // All libraries for NVIDIA's GPUs serve it, so their number has no column.
    assert!(table.contains("  sm_90  ") && !table.contains("LIBRARIES"), "{table}");
    for (gpu, option, status) in [
        ("sm_90", "--expect", 0),
        ("sm_90", "--expect-any", 0),
        ("gfx906", "--expect", 1),
        ("gfx906", "--expect-any", 1),
    ] {
        let verified = tool(&["verify", option, gpu, "in"], &[("in", &nvidia)]);
        let printed = String::from_utf8(verified.stdout).unwrap();
        assert_eq!(verified.status, status, "{option} {gpu}: {printed}");
        assert_eq!(printed.contains("hip.so"), status == 1, "{option} {gpu}: {printed}");
    }
}

#[test]
fn members_of_all_usual_methods_keep_their_method() {
    let lib = library(&bundle(1));
    for method in [STORED, DEFLATED, BZIP2, LZMA, XZ, ZSTD] {
        let members = [Zipped::new("lib.so", method, &lib), Zipped::new("b", method, b"text")];
        let dir = memory_directory();
        fs::write(dir.path().join("in.zip"), zip(&members)).unwrap();
        let (status, _, said) =
            text(&tool_in(dir.path(), &["recompress", "--drop", "gfx906", "in.zip", "-o", "out.zip"]));
        assert_eq!(status, 0, "{method}: {said}");
        let written = fs::read(dir.path().join("out.zip")).unwrap();
        let headers = written.windows(4).enumerate().filter(|(_, four)| *four == b"PK\x01\x02");
        let fields = headers
            .map(|(at, _)| [8, 10].map(|field| u16::from_le_bytes([written[at + field], written[at + field + 1]])));
        for [flags, found] in fields {
            assert_eq!(found, method);
            // An LZMA stream that was written has a mark at its end, and says so.
            assert!(flags == 0 || (method == LZMA && flags == 2), "{method}: {flags}");
        }
        let (status, out, said) = text(&tool_in(dir.path(), &["inspect", "out.zip"]));
        assert!(status == 0 && !out.contains("gfx906") && out.contains("gfx90a"), "{method}: {out}{said}");
        let (status, out, said) = text(&tool_in(dir.path(), &["verify", "out.zip"]));
        assert_eq!(status, 0, "{method}: {out}{said}");
    }
}

#[test]
fn wheels_that_cannot_be_rewritten_are_refused() {
    let lib = library(&bundle(1));
    let good = [Zipped::new("lib.so", STORED, &lib), Zipped::new("b", STORED, b"b")];
    let sound = zip(&good);
    let end = sound.len() - 22;
    let replaced = |from: &[u8], to: &[u8]| {
        let at = find(&sound, from).unwrap();
        [&sound[..at], to, &sound[at + from.len()..]].concat()
    };
    let shared = Zipped { same_as: Some(0), ..Zipped::new("again.so", STORED, &lib) };
    let encrypted = Zipped { flags: 1, ..Zipped::new("secret", STORED, b"x") };
    let wrong = Zipped { crc: 1, ..Zipped::new("lib.so", STORED, &lib) };
    let unknown = Zipped { method: 98, ..Zipped::new("b", STORED, b"x") };
    let descriptor = Zipped { flags: 8, ..Zipped::new("lib.so", STORED, &lib) };
    let signature = b"PK\x05\x05\x03\0abc";
    let mut signed = [&sound[..end], signature, &sound[end..]].concat();
    signed[end + 9 + 12] += 9;
    let mut later = [b"PK\x03\x04 not a member", &sound[..]].concat();
    later.truncate(later.len());
    let mut headless = sound.clone();
    let second = 4 + find(&sound[4..], b"PK\x03\x04").unwrap();
    headless[second] = b'Q';
    for (data, reason) in [
        (zip(&[good[0].clone(), shared]), "members overlap"),
        (zip(&[good[0].clone(), encrypted]), "the member is encrypted"),
        (zip(&[wrong]), "its checksum is wrong"),
        (zip(&[good[0].clone(), unknown]), "compressed with method 98, which is not supported"),
        (zip(&[descriptor]), "the data descriptor of a member is not what the directory says"),
        (replaced(b"lib.so\x7fELF", b"lib.xx\x7fELF"), "name or method of a member are not those in the directory"),
        (signed, "its directory holds more than headers, such as a signature"),
        (later, "it begins with other data"),
        (headless, "'in(b)': zip file broken at offset "),
        (zip(&[good[1].clone()]), "a zip file in which no member can be recompressed: not supported"),
        (zip(&[]), "a zip file in which no member can be recompressed: not supported"),
    ] {
        let said = refused(&data, &[]);
        assert!(said.contains(reason), "{reason}: {said}");
    }
    // A broken library is named, with the place of the fault.
    let broken = [b"CCOB\x02\0\x01\0".as_slice(), &[0xff; 16]].concat();
    let said = refused(&zip(&[Zipped::new("dir/broken.co", DEFLATED, &broken)]), &[]);
    assert!(said.contains("error: 'in(dir/broken.co)': "), "{said}");
}

#[test]
fn holes_that_stay_in_members_are_reported_as_for_a_file() {
    let library = library(&bundle(1));
    let (_, alone) = small(&library, &["--close-gaps"]);
    let note = alone.lines().find(|line| line.contains(" stays a hole in ")).unwrap_or_else(|| panic!("{alone}"));
    let (_, reason) = note.split_once("in: ").unwrap();
    let members = [("a/one.so", DEFLATED), ("a/two.so", STORED)];
    let wheel = zip(&members.map(|(name, method)| Zipped::new(name, method, &library)));
    let (_, said) = small(&wheel, &[]);
    for text in [&format!("in(a/two.so): {reason}\n"), "in(a/one.so), ", "fill the hole with zeros\n"] {
        assert!(said.contains(text), "{text}: {said}");
    }
}

#[test]
fn a_wheel_may_replace_itself() {
    let data = zip(&[Zipped::new("lib.so", DEFLATED, &library(&bundle(1)))]);
    let (_dir, path) = in_new_directory(&data);
    assert_eq!(recompress(&path, &path, &[]).0, 0);
    assert!(fs::read(&path).unwrap() == small(&data, &[]).0);
}

#[test]
fn signed_jar_files_are_refused_if_they_would_change() {
    let library = library(&bundle(1));
    let jar = |signature: &str| {
        let member = |name: &str, data: &[u8]| Zipped::new(name, DEFLATED, data);
        zip(&[member("META-INF/MANIFEST.MF", b"x"), member(signature, b"x"), member("lib.so", &library)])
    };
    for (name, is_signed) in [
        ("META-INF/ACME.SF", true),
        ("META-INF/acme.rsa", true),
        ("META-INF/A.DSA", true),
        ("META-INF/A.EC", true),
        ("META-INF/x/A.EC", false),
        ("A.SF", false),
    ] {
        let outcome = tool(&["recompress", "in", "-o", "out"], &[("in", &jar(name))]);
        let said = outcome.stderr_text();
        assert_eq!(outcome.status == 0, !is_signed, "{name}: {said}");
        let expected = format!("'in': '{name}' signs the members of the JAR file, which have to change");
        assert_eq!(said.contains(&expected), is_signed, "{said}");
        // A signed file that would not change is not an error.
        let unsigned = tool(&["recompress", "in", "-o", "out"], &[("in", &jar("A"))]).files["out"].clone();
        assert!(!unsigned.is_empty());
        let outcome = tool(&["recompress", "in", "-o", "out", "--none"], &[("in", &jar(name))]);
        assert!(outcome.status == 0 && outcome.files["out"] == jar(name), "{name}: {}", outcome.stderr_text());
    }
}

/// A wheel with libraries for all kinds of work: fatbins of many code objects, several bundles in a row, compressed
/// ones, a library of more than a block of DEFLATE, and small files.
fn varied() -> Vec<Zipped> {
    let codes = (0..40).map(|at| fatbins::entry(&fatbins::Code::cubin(70 + at % 30, 3000 + usize::from(at))));
    let fatbin = fatbins::fatbin(&codes.collect::<Vec<_>>());
    let cuda = Elf::LIBRARY.write(&[Section::new(".nv_fatbin", &fatbin.repeat(5))]);
    let row: Vec<u8> = (0..9).flat_map(|seed| [&bundle(seed)[..], &[0; 4096]].concat()).collect();
    let noise: Vec<u8> = (0..2_500_000_u32).map(|at| at.wrapping_mul(at).to_be_bytes()[1]).collect();
    let large = Elf::LIBRARY.write(&[Section::new(".rodata", &noise), Section::new(".nv_fatbin", &fatbin)]);
    let mut members: Vec<Zipped> =
        (0..20).map(|at| Zipped::new(&format!("lib{at}.so"), DEFLATED, &library(&bundle(at)))).collect();
    for (name, content) in [("cuda.so", &cuda), ("row.so", &library(&row)), ("row.hipfb", &row), ("large.so", &large)] {
        members.push(Zipped::new(name, DEFLATED, content));
    }
    members.extend((0..100).map(|at| Zipped::new(&format!("file{at}.py"), DEFLATED, b"import this")));
    members.push(Zipped::new("a-1.dist-info/RECORD", DEFLATED, b"lib0.so,,\n"));
    members
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let with_broken = |broken: &[usize]| {
        let mut members = varied();
        for &at in broken {
            let middle = members[at].stored.len() / 2;
            members[at].stored[middle..][..40].fill(0xff);
        }
        members
    };
    let (good, broken, two_broken) = (with_broken(&[]), with_broken(&[20]), with_broken(&[21, 5]));
    let dir = memory_directory();
    for (name, members) in [("good.whl", &good), ("broken.whl", &broken), ("two-broken.whl", &two_broken)] {
        fs::write(dir.path().join(name), zip(members)).unwrap();
        for (command, is_written) in [
            ("recompress -o out", true),
            ("recompress -o out --keep-for sm_80 --drop gfx906", true),
            ("recompress -o out --none", true),
            ("recompress -o out --cuda-method zstd --level 9", true),
            ("verify", false),
            ("verify --expect-any sm_80 --message-format json", false),
            ("kernels --json", false),
            ("inspect --json", false),
            ("inspect --matrix", false),
            ("extract --target gfx906 -o out", false),
            ("diff good.whl", false),
        ] {
            let run = |threads: &str| {
                let mut args: Vec<&str> = command.split(' ').collect();
                args.extend(["--threads", threads, name]);
                let outcome = text(&tool_in(dir.path(), &args));
                let out = dir.path().join("out");
                let written = if is_written { fs::read(&out).ok() } else { None };
                drop(fs::remove_file(&out));
                drop(fs::remove_dir_all(&out));
                (outcome, written)
            };
            let (outcome, written) = run("1");
            assert_ne!(outcome.0, 2, "{command}: {}", outcome.2);
            for threads in ["2", "8"] {
                let (other, other_written) = run(threads);
                assert_eq!(other, outcome, "{command} {name} --threads {threads}");
                assert!(other_written == written, "{command} {name} --threads {threads}: another file");
            }
        }
    }
}

/// A file that is written may have so many blocks of 512 bytes, or of 1024 in some shells.
#[test]
fn a_worker_that_lacks_space_is_the_same_error_for_any_number_of_threads() {
    let mut members = varied();
    // Larger than what is kept in memory.
    let row: Vec<u8> = (0..200).flat_map(|seed| [&bundle(seed)[..], &[0; 4096]].concat()).collect();
    members.insert(3, Zipped::new("too-large.so", DEFLATED, &library(&row)));
    let dir = memory_directory();
    fs::write(dir.path().join("in.whl"), zip(&members)).unwrap();
    let run = |threads: &str| {
        let line = format!("ulimit -f 6000; exec \"$TOOL\" recompress in.whl -o out.whl --threads {threads}");
        let outcome = text(&shell(&line).current_dir(dir.path()).env("TMPDIR", dir.path()).output().unwrap());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "{outcome:?}");
        outcome
    };
    let alone = run("1");
    assert!(alone.0 == 1 && alone.2.contains("too-large.so"), "{alone:?}");
    assert_eq!([run("2"), run("8")], [alone.clone(), alone]);
}

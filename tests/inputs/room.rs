//! Tests with no space for temporary files, which hold unmappable and inflated data of more than 16 MiB.

use super::*;
use crate::properties::make::{self, DEFLATED, Zipped, zip};
use crate::reference::formats;
use crate::reference::offload;

/// 17 MiB that compress well.
const LARGE: usize = 17 << 20;

/// Runs the tool with `megabytes` for temporary files. A file can be passed through a pipe.
fn run_with_room(megabytes: u32, bench: &Bench, pipe: Option<&str>, words: &[&str]) -> Output {
    let mut command = Command::new("timeout");
    let input = pipe.map_or_else(|| "\"$@\"".to_owned(), |pipe| format!("cat {pipe} | \"$@\""));
    let script = format!(
        "mount -t tmpfs -o size={megabytes}m none \"$TMPDIR\" && {input}; status=$?; ls -A \"$TMPDIR\"; exit $status"
    );
    let unshare = ["unshare", UNSHARE.unwrap_or_default()];
    command.arg(PATIENCE).args(unshare).args(["sh", "-c", &script, "sh"]).arg(executable()).args(words);
    command.current_dir(bench.work.path()).env("TMPDIR", bench.temporary.path()).stdin(Stdio::null());
    command.output().unwrap()
}

#[test]
fn a_full_disk_for_temporary_files() {
    if !has_namespaces() {
        return;
    }
    let bundle = formats::binary(&[(HOST, b""), (GFX906, &vec![7; LARGE])], 1);
    let package =
        offload::write(1, &[offload::Image::new(1, 4, &[("triple", "t"), ("arch", "gfx906")], &vec![7; LARGE])]);
    let library = make::archive(&[("m.o", &bundle)]);
    let bench = Bench::new(&[("bundle", &bundle), ("package", &package), ("library", &library)]);
    for line in readers() {
        let file = match line[0] {
            "-type=a" | "-type=ao" | "-type=aoo" => "library",
            "package" => "package",
            _ => "bundle",
        };
        check(&bench, Some(file), &words(&on("/dev/stdin", &line)));
    }
    for line in readers().into_iter().filter(|line| line.iter().any(|word| word.starts_with("-input"))) {
        check(&bench, Some(if line[0].starts_with("-type=a") { "library" } else { "bundle" }), &words(&on("-", &line)));
    }
}

#[test]
fn a_full_disk_for_what_is_inflated() {
    if !has_namespaces() {
        return;
    }
    let bundle = formats::binary(&[(HOST, b""), (GFX906, &vec![7; LARGE])], 1);
    let nested = formats::binary(&[(HOST, b""), (GFX906, &bundle)], 1);
    let wheel = zip(&[Zipped::new("lib.so", DEFLATED, &bundle)]);
    let packed = |data: &[u8]| formats::compressed(3, 1, data);
    let images = offload::compressed(
        false,
        &[offload::Image::new(1, 4, &[("triple", "t"), ("arch", "gfx906")], &vec![7; LARGE])],
    );
    let library = make::archive(&[("m.o", &packed(&bundle))]);
    let bench = Bench::new(&[
        ("wheel", &wheel),
        ("packed", &packed(&bundle)),
        ("nested", &packed(&nested)),
        ("package", &images),
        ("library", &library),
    ]);
    for line in [
        "inspect wheel",
        "verify wheel",
        "extract wheel -o out",
        "inspect --inflate packed",
        "verify packed",
        "recompress --none packed -o -",
        "inspect --inflate nested",
        "extract nested -o -",
        "-type=bc -list -verbose -input=packed",
        "-type=bc -unbundle -targets=hip-amdgcn-amd-amdhsa--gfx906 -verbose -input=packed -output=-",
        "-type=a -unbundle -targets=hip-amdgcn-amd-amdhsa--gfx906 -input=library -output=out",
        "package package --image=arch=gfx906,file=-",
    ] {
        check(&bench, None, &line.split(' ').collect::<Vec<_>>());
    }
}

/// Two bundles in a row are inflated at a time where there is room for both, otherwise one after the other. A file is
/// not changed if its code objects could not be compared.
#[test]
fn room_for_one_of_two() {
    if !has_namespaces() {
        return;
    }
    let large = formats::compressed(3, 1, &formats::binary(&[(HOST, b""), (GFX906, &vec![7; LARGE])], 1));
    let library = make::archive(&[("m.o", &formats::binary(&[(GFX906, b"\x7fELF")], 1)), ("n.o", &large)]);
    let at = library.windows(4).position(|bytes| bytes == b"\x7fELF").unwrap();
    let bench = Bench::new(&[("two", &large.repeat(2)), ("library", &library), ("new", b"code")]);
    for line in ["verify two", "inspect --inflate two"] {
        let run = run_with_room(20, &bench, None, &line.split(' ').collect::<Vec<_>>());
        assert_succeeds(line, &run);
    }
    let line = format!("replace --force file://library#offset={at}&size=4 new");
    check(&bench, None, &line.split(' ').collect::<Vec<_>>());
    assert!(fs::read(bench.work.path().join("library")).unwrap() == library, "{line}");
}

/// Expects an error, and no files written or left.
fn check(bench: &Bench, pipe: Option<&str>, words: &[&str]) {
    let before = list(bench.work.path());
    let run = run_with_room(1, bench, pipe, words);
    let what = words.join(" ");
    let text = if words[0] == "verify" { [stderr(&run), stdout(&run)].concat() } else { stderr(&run) };
    assert_eq!(run.status.code(), Some(1), "{what}: {:?} {text}", run.status);
    assert!(text.contains("No space left on device"), "{what}: {text}");
    let is_report = ["inspect", "kernels", "diff", "verify"].contains(&words[0]);
    assert!(is_report || run.stdout.is_empty(), "{what}: {}", stdout(&run));
    bench.assert_only(&before.iter().map(String::as_str).collect::<Vec<_>>(), &what);
}

//! Tests of the text output of `inspect` against stored tables, and of its chart.
//!
//! `BLESS=1` rewrites the tables.

use crate::machine::memory_directory;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::*;
use crate::properties::make::{DEFLATED, Elf, Section, Zipped, archive, zip};
use crate::reference::formats;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/subcommands/tables").join(name)
}

/// Files that do not depend on the version of a compression library.
fn files() -> Vec<(&'static str, Vec<u8>)> {
    let bundle = formats::binary(&[(HOST, b""), (GFX906, &[1; 1000]), (GFX90A, &[2; 3000])], 64);
    let packed = fixture("compressed/llvm22-v3.ccob");
    let sections = [Section::new(".hip_fatbin", &bundle), Section::new(".llvm.offloading", &[]).offloading()];
    let library = Elf::LIBRARY.write(&sections);
    let wheel = zip(&[Zipped::new("a/lib.so", DEFLATED, &library), Zipped::new("b.ccob", 0, &packed)]);
    let many = [&bundle[..], &bundle, &packed, &packed, &bundle].concat();
    let broken = [&bundle[..], &bundle[..100]].concat();
    let code = Elf::amdgpu(0x3f).write(&[]);
    let hidden = Elf::LIBRARY.write(&[Section::new(".rodata", &[b"strings\0", &bundle[..]].concat())]);
    let firmware = [b"\0boot", &code[..], b"CCOB", &packed, &bundle, &[0xff; 100]].concat();
    vec![
        ("one", bundle),
        ("packed", packed),
        ("text", fixture("text/llvm22-hash.s")),
        ("images", fixture("offload/v2.offload")),
        ("lib.so", library),
        ("in.whl", wheel),
        ("many", many),
        ("odd", fixture("binary/odd-ids.bundle")),
        ("broken", broken),
        ("cuda", fixture("fatbin/every-form.fatbin")),
        ("none", b"text".to_vec()),
        ("hidden.so", hidden),
        ("firmware.bin", firmware),
        ("kernels", super::kernels::bundle()),
        ("kernels.new", super::kernels::changed_bundle()),
    ]
}

/// Runs `inspect`, and compares the output with the stored file in `tables`.
fn holds(name: &str, args: &[&str], environment: &[(&'static str, &str)]) {
    prints(name, &[&["inspect"], args].concat(), environment);
}

/// Runs a subcommand, and compares the output with the stored file in `tables`.
fn prints(name: &str, args: &[&str], environment: &[(&'static str, &str)]) {
    let mut case = Case::new(args);
    for (file, data) in files() {
        case = case.file(file, data);
    }
    for (variable, value) in environment {
        case = case.env(variable, *value);
    }
    let outcome = harness::run(Path::new(PROGRAM), &case);
    let printed = format!(
        "$ {}\n{}{}status {}\n",
        args.join(" "),
        String::from_utf8_lossy(&outcome.stdout),
        outcome.stderr_text(),
        outcome.status
    );
    if std::env::var_os("BLESS").is_some() {
        fs::create_dir_all(golden("")).unwrap();
        fs::write(golden(name), &printed).unwrap();
    }
    // One empty line is between tables, and none after the last one. Markdown needs more.
    let said = String::from_utf8_lossy(&outcome.stdout);
    let is_plain = !args.contains(&"--markdown");
    assert!(!is_plain || !said.ends_with("\n\n") && !said.contains("\n\n\n"), "{name}: {said}");
    let expected = fs::read_to_string(golden(name)).unwrap();
    assert_eq!(printed, expected, "{name}: what is printed changed; BLESS=1 takes it over");
}

const UTF_8: (&str, &str) = ("LC_ALL", "C.UTF-8");

#[test]
fn tables_stay_as_they_are() {
    for (file, _) in files() {
        holds(file, &[file], &[UTF_8]);
    }
    holds("each", &["--each", "many", "lib.so"], &[UTF_8]);
    holds("deep", &["--deep", "hidden.so", "firmware.bin"], &[UTF_8]);
    holds("inflate", &["--inflate", "packed"], &[UTF_8]);
    holds("all", &["."], &[UTF_8]);
    holds("summary", &["--summary", "."], &[UTF_8]);
    holds("matrix", &["--matrix", "."], &[UTF_8]);
    holds("each-uri", &["--each", "--uri", "many", "in.whl"], &[UTF_8]);
    holds("gpus", &["--gpus", "."], &[UTF_8]);
    holds("named", &["one", "none", "packed"], &[UTF_8]);
    holds("ascii", &["in.whl"], &[("LC_ALL", "C")]);
    holds("colour", &["--color=always", "in.whl"], &[UTF_8]);
    holds("markdown", &["--markdown", "many", "in.whl", "odd", "none"], &[("LC_ALL", "C")]);
    holds("markdown-totals", &["--markdown", "--gpus", "."], &[UTF_8]);
    holds("markdown-matrix", &["--markdown", "--matrix", "."], &[UTF_8]);
    prints("markdown-diff", &["diff", "--markdown", "kernels", "kernels.new"], &[UTF_8]);
    prints("kernels-each", &["kernels", "kernels", "none"], &[UTF_8]);
    prints("kernels-sorted", &["kernels", ".", "--sort", "vgpr", "--top", "4"], &[UTF_8]);
    prints("diff", &["diff", "kernels", "kernels.new", "--fail-on=lost-gpu,spill,size=+10%"], &[UTF_8]);
}

#[test]
fn no_table_is_left_over() {
    let mut names: Vec<String> = files().iter().map(|(name, _)| (*name).to_owned()).collect();
    names.extend(
        [
            "deep",
            "each",
            "inflate",
            "all",
            "summary",
            "gpus",
            "matrix",
            "each-uri",
            "named",
            "ascii",
            "colour",
            "markdown",
            "markdown-totals",
            "markdown-matrix",
            "markdown-diff",
            "kernels-each",
            "kernels-sorted",
            "diff",
        ]
        .map(str::to_owned),
    );
    for entry in fs::read_dir(golden("")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(names.contains(&name), "no test prints {name}");
    }
}

#[test]
fn colours_and_characters_follow_the_environment() {
    let (_, data) = files().swap_remove(0);
    let print = |args: &[&str], environment: &[(&'static str, &str)]| {
        let mut case = Case::new(&[&["inspect", "in"], args].concat()).file("in", data.clone());
        for (variable, value) in environment {
            case = case.env(variable, *value);
        }
        String::from_utf8(harness::run(Path::new(PROGRAM), &case).stdout).unwrap()
    };
    let is_ascii = |environment: &[(&'static str, &str)]| print(&[], environment).is_ascii();
    assert!(is_ascii(&[("LC_ALL", "C")]) && is_ascii(&[("LANG", "C")]) && is_ascii(&[("LC_CTYPE", "de_DE")]));
    assert!(is_ascii(&[("LC_ALL", "C"), ("LANG", "C.UTF-8")]));
    assert!(!is_ascii(&[("LC_ALL", ""), ("LANG", "de_DE.utf8")]) && !is_ascii(&[UTF_8]));
    let plain = print(&[], &[UTF_8]);
    assert!(!plain.contains('\x1b'));
    let painted = print(&["--color=always"], &[UTF_8, ("NO_COLOR", "1"), ("TERM", "dumb")]);
    assert!(painted.contains('\x1b'));
    // Colours change nothing else.
    let without = regex_lite::Regex::new("\x1b\\[[0-9]*m").unwrap();
    assert_eq!(without.replace_all(&painted, ""), plain);
    assert_eq!(print(&["--color=never"], &[UTF_8]), plain);
    assert_eq!(print(&["--color", "auto"], &[UTF_8]), plain);
}

/// The output of a subcommand on a terminal of this width.
pub fn on_a_terminal(width: u16, environment: &[(&str, &str)], args: &[&str], dir: &Path) -> String {
    use std::io::Read as _;
    let size = nix::pty::Winsize { ws_row: 24, ws_col: width, ws_xpixel: 0, ws_ypixel: 0 };
    let pty = nix::pty::openpty(Some(&size), None).unwrap();
    let mut command = Command::new(PROGRAM);
    command.args(args).arg("--color=never").current_dir(dir).env_remove("COLUMNS");
    command.env("LC_ALL", "C.UTF-8").envs(environment.iter().copied()).stdout(pty.slave);
    let mut child = command.spawn().unwrap();
    drop(command);
    let mut printed = Vec::new();
    // Reading from a terminal whose other end is closed gives an error.
    drop(fs::File::from(pty.master).read_to_end(&mut printed));
    assert!(child.wait().unwrap().success());
    String::from_utf8(printed).unwrap().replace('\r', "")
}

#[test]
fn tables_fit_the_terminal() {
    let dir = memory_directory();
    for (name, data) in files().into_iter().filter(|(name, _)| *name != "broken") {
        fs::write(dir.path().join(name), data).unwrap();
    }
    // Names of files and places are never shortened.
    let rows = |printed: &str| {
        let lines = printed.lines().filter(|line| line.starts_with("    ") || line.starts_with("  gfx"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let widest = |printed: &str| rows(printed).iter().map(|line| line.chars().count()).max().unwrap();
    for args in [
        &["inspect", "."][..],
        &["inspect", "--each", "."],
        &["inspect", "--summary", "."],
        &["inspect", "--gpus", "."],
    ] {
        let wide = on_a_terminal(500, &[], args, dir.path());
        for width in [100, 80, 60, 40] {
            let printed = on_a_terminal(width, &[], args, dir.path());
            assert!(widest(&printed) <= width.into(), "{width}: {printed}");
            // Where columns for the files are too wide, a table of files follows.
            assert!(args == ["inspect", "."] || printed.lines().count() == wide.lines().count(), "{printed}");
            assert_eq!(on_a_terminal(500, &[("COLUMNS", &width.to_string())], args, dir.path()), printed);
        }
        assert_eq!(on_a_terminal(100, &[], args, dir.path()).contains('█'), !args.contains(&"--gpus"));
        // If the width is unknown, or the output is not a terminal, nothing is omitted, but the tables of GPUs and
        // libraries are as on a terminal of 80 columns.
        let is_in_short = args == ["inspect", "."];
        let expected = if is_in_short { on_a_terminal(80, &[], args, dir.path()) } else { wide };
        assert!(is_in_short || !on_a_terminal(40, &[], args, dir.path()).contains('█'));
        assert_eq!(on_a_terminal(0, &[("COLUMNS", "wide")], args, dir.path()), expected);
        let piped = tool_in(dir.path(), args);
        assert_eq!(text(&piped).1, expected);
    }
}

#[test]
fn tables_of_kernels_fit_the_terminal_too() {
    let dir = memory_directory();
    let deep = dir.path().join("a/rather/deep/directory");
    fs::create_dir_all(&deep).unwrap();
    fs::write(deep.join("old.so"), kernels::bundle()).unwrap();
    fs::write(deep.join("new.so"), kernels::changed_bundle()).unwrap();
    let [old, new] = ["old.so", "new.so"].map(|name| format!("a/rather/deep/directory/{name}"));
    let sorted = ["kernels", &old, &new, "--sort", "vgpr"];
    for args in [&["kernels", &old][..], &sorted, &["diff", &old, &new]] {
        // Only tables are indented; those of `diff` are indented more.
        let indent = if args[0] == "diff" { "    " } else { "  " };
        let rows = |printed: &str| {
            printed.lines().filter(|line| line.starts_with(indent)).map(str::to_owned).collect::<Vec<_>>()
        };
        let piped = text(&tool_in(dir.path(), args)).1;
        for width in [200, 100, 80, 60, 40] {
            let printed = on_a_terminal(width, &[], args, dir.path());
            assert!(rows(&printed).iter().all(|line| line.chars().count() <= width.into()), "{width}: {printed}");
            assert_eq!(printed.lines().count(), piped.lines().count(), "{printed}");
        }
        if args != sorted {
            assert_eq!(on_a_terminal(300, &[], args, dir.path()), piped);
        }
    }
    // The FILE column has no directories that all files are in, and a long name loses its middle.
    let printed = on_a_terminal(80, &[], &sorted, dir.path());
    assert!(printed.contains("  old.so  ") && !printed.contains("directory"), "{printed}");
    let narrow = on_a_terminal(40, &[], &sorted, dir.path());
    assert!(narrow.contains("VGPR") && narrow.contains('…'), "{narrow}");
    let piped = text(&tool_in(dir.path(), &sorted)).1;
    assert!(piped.contains("  a/rather/deep/directory/old.so  ") && !piped.contains('…'), "{piped}");
    let painted = text(&tool_in(dir.path(), &[&sorted[..], &["--color=always"]].concat())).1;
    assert!(painted.starts_with("\x1b[2m  GPU") && painted.contains("\x1b[1mgfx90a:xnack-\x1b[0m"), "{painted}");
}

#[test]
fn several_libraries_begin_with_their_gpus_and_have_no_table_for_each_place() {
    let all = formats::binary(&[(HOST, b""), (GFX906, &[1; 1000]), (GFX90A, &[2; 3000])], 64);
    let one = formats::binary(&[(HOST, b""), (GFX906, &[1; 1000])], 64);
    let printed = |args: &[&str], bundles: &[&Vec<u8>]| {
        let names: Vec<String> = (0..bundles.len()).map(|number| format!("d/lib{number}.so")).collect();
        let libraries: Vec<Vec<u8>> =
            bundles.iter().map(|bundle| Elf::LIBRARY.write(&[Section::new(".hip_fatbin", bundle)])).collect();
        let members: Vec<Zipped> =
            names.iter().zip(&libraries).map(|(name, data)| Zipped::new(name, 0, data)).collect();
        let args = [&["inspect", "in.whl"], args].concat();
        String::from_utf8(tool(&args, &[("in.whl", &zip(&members))]).stdout).unwrap()
    };
    let several = printed(&[], &[&all, &one, &all]);
    let lines: Vec<Vec<&str>> = several.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[1], ["GPU", "LIBRARIES", "SIZE", "PRODUCTS"], "{several}");
    assert_eq!(
        lines[2],
        ["gfx906", "3", "of", "3", "3.00", "kB", "████", "MI60,", "MI50,", "Radeon", "VII,", "Radeon", "Pro", "VII"]
    );
    assert_eq!(lines[3][..6], ["gfx90a", "2", "of", "3", "6.00", "kB"], "{several}");
    assert_eq!(lines[4].join(" "), "3 libraries: d/*.so");
    assert_eq!(lines[6][..4], ["lib0", "2", "4.00", "kB"], "{several}");
    assert!(several.lines().last().unwrap().starts_with("more: --matrix") && !several.contains("ENTRY"), "{several}");
    assert_eq!(printed(&["--each"], &[&all, &one, &all]).matches(".hip_fatbin: 1 bundle").count(), 3);
    // AMD's GPUs of a family that the same libraries serve are one line; --gpus has each with all its products.
    let equal = printed(&[], &[&all, &all]);
    assert!(equal.contains("\n  gfx906,90a     2 of 2   8.00 kB  MI60, "), "{equal}");
    let each = printed(&["--gpus"], &[&all, &all]);
    assert!(each.contains("\n  gfx906      2     2 of 2   2.00 kB  Instinct MI60, "), "{each}");
    // Of a single library too, people ask for the GPUs.
    let single = printed(&[], &[&all]);
    assert!(single.contains("\n  gfx906,90a   4.00 kB  MI60, ") && !single.contains("ENTRY"), "{single}");
    assert!(single.contains("\n  d/lib0.so > .hip_fatbin: 1 bundle\n"), "{single}");
    // A file of bundles is looked into by users of compilers.
    let many = String::from_utf8(tool(&["inspect", "many"], &[("many", &files().swap_remove(6).1)]).stdout).unwrap();
    assert!(many.contains("\n  GPU ") && many.find("  GPU ") < many.find("  2 bundles\n    ENTRY ID"), "{many}");
}

/// Which wheel runs on a GPU is in the first table, and what each needs below it.
#[test]
fn several_packages_have_a_column_each() {
    let both = formats::binary(&[(HOST, b""), (GFX906, &[1; 1000]), (GFX90A, &[2; 3000])], 64);
    let one = formats::binary(&[(HOST, b""), (GFX906, &[1; 1000])], 64);
    let packed = fixture("compressed/llvm22-v3.ccob");
    let wheel = |bundles: &[&[u8]]| {
        let section = bundles.iter().map(|bundle| padded(bundle)).collect::<Vec<_>>().concat();
        let library = Elf::LIBRARY.write(&[Section::new(".hip_fatbin", &section)]);
        zip(&[Zipped::new("a/lib.so", DEFLATED, &library)])
    };
    let cuda = zip(&[Zipped::new("a/k.fatbin", DEFLATED, &fixture("fatbin/plain.fatbin"))]);
    let printed = |given: &[(&str, &[u8])]| {
        let names = given.iter().map(|(name, _)| *name);
        String::from_utf8(tool(&["inspect"].into_iter().chain(names).collect::<Vec<_>>(), given).stdout).unwrap()
    };
    let wheels = [wheel(&[&both, &one]), wheel(&[&one, &packed])];
    let names = ["all-1.0-py3-none-any.whl", "one-1.0-py3-none-any.whl", "cuda-1.0-py3-none-any.whl"];
    let said = printed(&[(names[0], &wheels[0]), (names[1], &wheels[1]), (names[2], &cuda)]);
    let rows: Vec<String> =
        said.lines().skip(1).map(|line| line.split_whitespace().take(3).collect::<Vec<_>>().join(" ")).collect();
    assert!(
        said.lines().nth(1).unwrap().split_whitespace().eq(["GPU", "all", "cuda", "one", "SIZE", "PRODUCTS"]),
        "{said}"
    );
    assert_eq!(rows[1..3], ["gfx906 all all", "gfx90a 1/2 -"], "{said}");
    assert!(rows.iter().any(|row| row.starts_with("sm_90 all ")), "{said}");
    assert!(said.contains("\n  all: all bundles serve the GPU; 1/3: one of three does; -: none does"), "{said}");
    assert!(said.contains("\n  one needs: compressed bundles of version 3: ") && !said.contains("all needs"), "{said}");
    // Two versions of a package differ after its name.
    let names = ["all-1.0-py3-none-any.whl", "all-2.0-py3-none-any.whl"];
    let said = printed(&[(names[0], &wheels[0]), (names[1], &wheels[1])]);
    assert_eq!(
        said.lines().nth(1).unwrap().split_whitespace().collect::<Vec<_>>(),
        ["GPU", "all-1.0", "all-2.0", "SIZE", "PRODUCTS"]
    );
}

/// A place whose bundles are compressed and plain in turn has a line for each kind, not for each change.
#[test]
fn a_place_is_named_once_for_each_kind_of_bundles() {
    let plain = formats::binary(&[(HOST, b""), (GFX906, &[1; 1000])], 64);
    let packed = fixture("compressed/llvm22-v3.ccob");
    let section = [&plain, &packed, &plain, &packed, &plain].map(|bundle| padded(bundle)).concat();
    let library = Elf::LIBRARY.write(&[Section::new(".hip_fatbin", &section)]);
    let said = String::from_utf8(tool(&["inspect", "lib.so"], &[("lib.so", &library)]).stdout).unwrap();
    let places: Vec<&str> = said.lines().filter(|line| line.starts_with("  .hip_fatbin: ")).collect();
    assert!(places.len() == 2 && places[0].ends_with(": 3 bundles") && places[1].contains(": 2 bundles, "), "{said}");
}

fn padded(data: &[u8]) -> Vec<u8> {
    [data, &vec![0; data.len().next_multiple_of(4096) - data.len()]].concat()
}

#[test]
fn a_library_that_serves_a_gpu_with_some_bundles_is_counted_apart() {
    let all = formats::binary(&[(HOST, b""), (GFX906, &[1; 1000]), (GFX90A, &[2; 3000])], 64);
    let one = formats::binary(&[(HOST, b""), (GFX906, &[1; 1000])], 64);
    let given: [(&str, &[u8]); 2] = [("a", &[&all[..], &one].concat()), ("b", &[&all[..], &all].concat())];
    let printed = String::from_utf8(tool(&["inspect", "a", "b"], &given).stdout).unwrap();
    assert!(printed.starts_with("Total: 7 code objects in 2 files, 13.0 kB\n"), "{printed}");
    assert!(printed.contains("\n  gfx906     2 of 2 ") && printed.contains("\n  gfx90a   1+1 of 2 "), "{printed}");
    assert!(
        printed.contains("\n  5+2 of 9: five libraries serve the GPU with all bundles, two with some\n"),
        "{printed}"
    );
}

#[test]
fn several_wheels_have_columns_or_a_table_that_say_which_of_them_serves_a_gpu() {
    let bundle = |ids: &[&str]| {
        let entries: Vec<(&str, &[u8])> = ids.iter().map(|id| (*id, &b"x"[..])).collect();
        formats::binary(&entries, 1)
    };
    let (both, one) = (bundle(&[HOST, GFX906, GFX90A]), bundle(&[HOST, GFX90A]));
    let wheel = |members: &[(&str, &[u8])]| {
        zip(&members.iter().map(|(name, data)| Zipped::new(name, DEFLATED, data)).collect::<Vec<_>>())
    };
    let (a, b) = (wheel(&[("a.so", &both), ("b.so", &one)]), wheel(&[("c.so", &one)]));
    let dir = memory_directory();
    fs::write(dir.path().join("left-1-py3-none-any.whl"), a).unwrap();
    fs::write(dir.path().join("right-2-py3-none-any.whl"), b).unwrap();
    let args = ["inspect", "left-1-py3-none-any.whl", "right-2-py3-none-any.whl"];
    let printed = on_a_terminal(80, &[("NO_COLOR", "1")], &args, dir.path());
    let words = |start: &str| {
        let line = printed.lines().find(|line| line.trim_start().starts_with(start));
        line.unwrap_or_else(|| panic!("{start}: {printed}")).split_whitespace().take(3).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(
        (words("GPU"), words("gfx906"), words("gfx90a")),
        ("GPU left right".into(), "gfx906 1/2 -".into(), "gfx90a all all".into())
    );
    let narrow = on_a_terminal(50, &[("NO_COLOR", "1")], &args, dir.path());
    assert!(narrow.contains("    left   gfx906 (1/2), gfx90a") && narrow.contains("    right  gfx90a"), "{narrow}");
    // A gap has the colour of an error.
    let colored = text(&tool_in(dir.path(), &[&args[..], &["--color=always"]].concat())).1;
    assert!(colored.contains("\u{1b}[31m 1/2\u{1b}[0m"), "{colored}");
}

#[test]
fn the_products_are_listed_without_a_file() {
    let printed = String::from_utf8(tool(&["inspect", "--gpus"], &[]).stdout).unwrap();
    assert!(printed.starts_with("GPU      PRODUCTS\n"), "{printed}");
    assert!(
        printed.contains("\ngfx942   Instinct MI325X, Instinct MI308X, Instinct MI300X, Instinct MI300A\n"),
        "{printed}"
    );
    let narrow = on_a_terminal(60, &[], &["inspect", "--gpus"], memory_directory().path());
    let table = narrow.split("\n\n").next().unwrap();
    assert!(table.lines().all(|line| line.chars().count() <= 60) && !table.contains('…'), "{narrow}");
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(words(&narrow), words(&printed));
    assert_eq!(tool(&["inspect"], &[]).status, 2);
}

/// The cells of the tables of a matrix that say that bundles serve a GPU, each with its library and GPU. Rows may be
/// libraries or GPUs.
fn cells_of(printed: &str) -> BTreeSet<(String, String, String)> {
    let (mut cells, mut pattern) = (BTreeSet::new(), "*");
    for table in printed.split("\n\n") {
        if let Some((_, names)) = table.split_once(" libraries: ") {
            pattern = names;
        }
        let Some(titles) = table.lines().next().filter(|line| line.starts_with("LIBRARY ") || line.starts_with("GPU "))
        else {
            continue;
        };
        let first = |line: &str| line.split(' ').next().map_or(0, str::len);
        let names_end = table.lines().map(first).max().unwrap();
        for line in table.lines().skip(1) {
            let mut start = names_end;
            for title in titles.split_whitespace().skip(1) {
                // Numbers end where their title ends.
                let end = titles[start..].find(title).unwrap() + start + title.len();
                let cell = line.get(start..end.min(line.len())).unwrap_or("").trim();
                start = end;
                let name = line.split(' ').next().unwrap();
                let (library, gpus) = if titles.starts_with("GPU") { (title, name) } else { (name, title) };
                let series = gpus.trim_end_matches(|c: char| c != '_' && c != 'x');
                for (index, gpu) in gpus.split(',').enumerate() {
                    let gpu = if index == 0 { gpu.to_owned() } else { format!("{series}{gpu}") };
                    if !["", "-"].contains(&cell) {
                        cells.insert((pattern.replace('*', library), gpu, cell.to_owned()));
                    }
                }
            }
        }
    }
    cells
}

#[test]
fn the_matrix_has_all_libraries_and_gpus_in_each_width() {
    let dir = memory_directory();
    for (name, data) in files().into_iter().filter(|(name, _)| *name != "broken") {
        fs::write(dir.path().join(name), data).unwrap();
    }
    let args = ["inspect", "--matrix", "."];
    let whole = cells_of(&on_a_terminal(500, &[], &args, dir.path()));
    assert!(whole.len() > 40, "{whole:?}");
    for width in [60, 80, 120] {
        let printed = on_a_terminal(width, &[], &args, dir.path());
        for table in printed.split("\n\n").filter(|table| table.starts_with("LIBRARY ") || table.starts_with("GPU ")) {
            assert!(table.lines().all(|line| line.chars().count() <= width.into()), "{width}: {table}");
        }
        assert_eq!(cells_of(&printed), whole, "{width}: {printed}");
    }
    // Elsewhere, the tables are as on a terminal of 80 columns.
    assert_eq!(text(&tool_in(dir.path(), &args)).1, on_a_terminal(80, &[], &args, dir.path()));
}

/// The libraries of a wheel, whose names differ in the middle, with code for many GPUs.
fn wheel_of_many_gpus() -> Vec<u8> {
    let ids = |gpus: &[&str]| {
        let ids: Vec<String> = gpus.iter().map(|gpu| format!("hipv4-amdgcn-amd-amdhsa--{gpu}")).collect();
        let entries: Vec<(&str, &[u8])> = ids.iter().map(|id| (id.as_str(), &b"code"[..])).collect();
        Elf::LIBRARY.write(&[Section::new(".hip_fatbin", &formats::binary(&entries, 1))])
    };
    let old = ["gfx906", "gfx908", "gfx90a", "gfx1030", "gfx1100", "gfx1101", "gfx1102", "gfx1103"];
    let new =
        [&old[..], &["gfx942", "gfx950", "gfx1031", "gfx1032", "gfx1150", "gfx1151", "gfx1200", "gfx1201"]].concat();
    let members = [("rocm72", &new[..]), ("rocm714", &new), ("rocm64", &old)];
    let names = members.map(|(name, _)| format!("package/lib/libkernels_{name}.so"));
    let libraries = members.map(|(_, gpus)| ids(gpus));
    let members: Vec<Zipped> = names.iter().zip(&libraries).map(|(name, data)| Zipped::new(name, 0, data)).collect();
    zip(&members)
}

#[test]
fn the_matrix_turns_if_it_is_too_wide_and_names_are_cut_and_sorted() {
    let wheel = wheel_of_many_gpus();
    let args = ["inspect", "--matrix", "in.whl"];
    let case = Case::new(&args).file("in.whl", wheel.clone()).env("LC_ALL", "C.UTF-8");
    let printed = String::from_utf8(harness::run(Path::new(PROGRAM), &case).stdout).unwrap();
    let expected = "3 libraries: in.whl(package/lib/libkernels_*.so)

GPU             rocm64  rocm72  rocm714
gfx906,908,90a     all     all      all
gfx942               -     all      all
gfx950               -     all      all
gfx1030            all     all      all
gfx1031,1032         -     all      all
gfx1100…1103       all     all      all
gfx1150,1151         -     all      all
gfx1200,1201         -     all      all

all: all bundles serve the GPU; -: none does
";
    assert_eq!(printed, expected);
    let json = json_of(&tool(&["inspect", "--matrix", "--json", "in.whl"], &[("in.whl", &wheel)]));
    schema::check("inspect", &json);
    let libraries = json["libraries"].as_array().unwrap();
    let members: Vec<&str> = libraries.iter().map(|library| library["member"].as_str().unwrap()).collect();
    assert_eq!(members, ["rocm64", "rocm72", "rocm714"].map(|name| format!("package/lib/libkernels_{name}.so")));
    let served = |library: usize, gpu: &str| {
        let gpus = libraries[library]["coverage"].as_array().unwrap();
        gpus.iter()
            .find(|served| served["gpu"] == gpu)
            .map(|served| (served["serving"].clone(), served["bundles"].clone()))
    };
    assert_eq!(served(0, "gfx942"), Some((0.into(), 1.into())));
    assert_eq!(served(2, "gfx942"), Some((1.into(), 1.into())));
    assert!(json_of(&tool(&["inspect", "--json", "in.whl"], &[("in.whl", &wheel)]))["libraries"].is_null());
}

/// Each library is in the matrix by a name that no other has, or counted below it.
#[test]
fn the_matrix_leaves_out_no_library_uncounted() {
    let dir = memory_directory();
    let bundle = files().swap_remove(0).1;
    let members = ["a/lib.so", "b/lib.so", "c/other.so"].map(|name| Zipped::new(name, DEFLATED, &bundle));
    let code = archive(&[("k.o", &Elf::amdgpu(0x3f).write(&[]))]);
    for (name, data) in [
        ("x/one/lib.so", &bundle),
        ("x/two/lib.so", &bundle),
        ("y/in.whl", &zip(&members)),
        ("z/in.whl", &zip(&members)),
        ("code.a", &code),
    ] {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, data).unwrap();
    }
    for index in 0..30 {
        fs::write(dir.path().join(format!("{index:02}.a")), &code).unwrap();
    }
    let printed = text(&tool_in(dir.path(), &["inspect", "--matrix", "-r", "."])).1;
    let rows = printed.lines().skip(1).map_while(|line| line.split_whitespace().next());
    let rows: Vec<&str> = rows.collect();
    let wheel =
        |directory: &str| ["a/lib.so", "b/lib.so", "c/other.so"].map(|member| format!("{directory}/in.whl({member})"));
    let expected =
        [vec!["one/lib.so".to_owned(), "two/lib.so".to_owned()], wheel("y").to_vec(), wheel("z").to_vec()].concat();
    assert_eq!(rows, expected, "{printed}");
    assert!(printed.contains("\nnot in the table: 31 places (code without a bundle)\n"), "{printed}");
    // The map of a page has the names too.
    assert!(tool_in(dir.path(), &["report", "-r", ".", "-o", "page.html"]).status.success());
    let page = fs::read_to_string(dir.path().join("page.html")).unwrap();
    assert!(expected.iter().all(|name| page.contains(&format!("<td>{name}</td>"))), "{page}");
    for name in ["<span>a/lib</span>", "<span>two/lib</span>", ">y/in.whl"] {
        assert!(page.contains(&format!("{name}</th>")), "{name}: {page}");
    }
}

#[test]
fn the_matrix_without_gpus_says_why() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let dir = memory_directory();
    let host = "-type=bc -targets=host-x86_64-unknown-linux-gnu- -input=in.bc -output=host.bundle";
    fs::write(dir.path().join("in.bc"), "code").unwrap();
    assert!(tool_in(dir.path(), &host.split(' ').collect::<Vec<_>>()).status.success());
    for name in ["kpack/split.elf", "text/llvm22-hash.s"] {
        let copy = dir.path().join(name.rsplit('/').next().unwrap());
        fs::copy(root.join("fixtures").join(name), copy).unwrap();
    }
    for (files, left_out) in [
        (&["split.elf"][..], "1 place (kpack archives not found)"),
        (&["llvm22-hash.s"], "1 place (no code for GPUs)"),
        (&["host.bundle"], "1 place (no code for GPUs)"),
        (&["host.bundle", "split.elf"], "2 places (1: kpack archives not found; 1: no code for GPUs)"),
    ] {
        let printed = text(&tool_in(dir.path(), &[&["inspect", "--matrix"], files].concat())).1;
        assert_eq!(printed, format!("no bundles with code for GPUs\nnot in the table: {left_out}\n"), "{files:?}");
    }
}

#[test]
fn uris_in_tables_are_those_of_the_json_report() {
    let dir = memory_directory();
    for (name, data) in files() {
        fs::write(dir.path().join(name), data).unwrap();
    }
    for (args, files, rows) in [
        (&["inspect", "--each"][..], &["one", "many", "in.whl", "cuda", "lib.so"][..], "code_objects"),
        (&["kernels"], &["kernels", "kernels.new"], "kernels"),
    ] {
        for file in files {
            let table = text(&tool_in(dir.path(), &[args, &["--uri", file]].concat())).1;
            let json: Value = serde_json::from_slice(&tool_in(dir.path(), &[args[0], "--json", file]).stdout).unwrap();
            let all = json["files"][0][rows].as_array().or(json[rows].as_array()).unwrap();
            let uris: Vec<&str> = all.iter().filter_map(|row| row["uri"].as_str()).collect();
            let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            let shown = table.lines().map(words).filter(|words| words.iter().any(|word| word.starts_with("file://")));
            let shown: Vec<Vec<String>> = shown.collect();
            assert!(!uris.is_empty() && shown.len() == uris.len(), "{table}");
            for (words, uri) in shown.iter().zip(&uris) {
                assert!(words.iter().any(|word| word == uri), "{table}{uri}");
            }
        }
    }
}

#[test]
fn a_summary_counts_all_files() {
    let bundle = files().swap_remove(0).1;
    let files: Vec<(String, Vec<u8>)> = (0..300)
        .map(|number| (format!("{number:03}"), if number % 3 == 0 { bundle.clone() } else { b"text".to_vec() }))
        .collect();
    let given: Vec<(&str, &[u8])> = files.iter().map(|(name, data)| (name.as_str(), data.as_slice())).collect();
    let outcome = tool(&["inspect", "--summary", "."], &given);
    let printed = String::from_utf8(outcome.stdout).unwrap();
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines.len(), 5, "{printed}");
    assert_eq!(lines[0], "Total: 200 code objects in 100 files, 400 kB");
    // All files are in one directory, and serve together.
    assert!(lines[2].starts_with("    gfx90a      100    300 kB  75.0 %"), "{printed}");
    assert!(lines[3].starts_with("    gfx906      100    100 kB  25.0 %"), "{printed}");
    assert_eq!(lines[4], "No device code in 200 files");
    let outcome = tool(&["inspect", "--summary", "001"], &given);
    assert_eq!(String::from_utf8(outcome.stdout).unwrap(), "No device code in 1 file\n");
    for other in ["--json", "--each"] {
        assert_eq!(tool(&["inspect", "--summary", other, "001"], &given).status, 2);
    }
}

#[test]
fn a_summary_tells_broken_and_unread_files_from_files_without_device_code() {
    let bundle = files().swap_remove(0).1;
    let given: [(&str, &[u8]); 6] = [
        ("cut", &bundle[..bundle.len() / 2]),
        ("lz4", b"\x04\x22\x4d\x18"),
        ("more.lz4", b"\x04\x22\x4d\x18"),
        ("spirv", b"\x03\x02\x23\x07"),
        ("text", b"text"),
        ("whole", &bundle),
    ];
    let last = |args: &[&str]| {
        let printed = tool(&[&["inspect", "--summary"], args].concat(), &given).stdout;
        let printed = String::from_utf8(printed).unwrap();
        printed.lines().skip_while(|line| line.starts_with(['T', ' '])).collect::<Vec<_>>().join("; ")
    };
    let unread = "Not read in 3 files: LZ4 file (2), SPIR-V module without kernels (1)";
    assert_eq!(last(&["."]), format!("No device code in 1 file; Nothing readable in 1 file; {unread}"));
    assert_eq!(
        last(&["cut", "spirv"]),
        "Nothing readable in 1 file; Not read in 1 file: SPIR-V module without kernels (1)"
    );
    assert_eq!(last(&["cut"]), "Nothing readable in 1 file");
    assert_eq!(last(&["spirv"]), "Not read in 1 file: SPIR-V module without kernels (1)");
    assert_eq!(last(&["whole"]), "");
}

#[test]
fn ids_that_are_not_inflated_are_question_marks() {
    let note = "?: not inflated; use --inflate to see the kind\n";
    let code = vec![b'x'; 100_000];
    let packed = formats::compressed(3, 1, &formats::binary(&[(GFX906, &code), (GFX90A, &code)], 1));
    let out = |args: &[&str]| {
        let outcome = tool(&[&["inspect", "in"], args].concat(), &[("in", &packed)]);
        String::from_utf8(outcome.stdout).unwrap()
    };
    assert!(out(&[]).ends_with(note) && out(&[]).contains("  ?  "), "{}", out(&[]));
    assert!(!out(&["--inflate"]).contains('?'), "{}", out(&["--inflate"]));
}

#[test]
fn an_id_has_one_row_however_far_its_code_objects_are_inflated() {
    let packed = |len: usize| {
        let code = vec![b'x'; len];
        formats::compressed(3, 1, &formats::binary(&[(GFX906, &code), (GFX90A, &code)], 1))
    };
    for data in [[packed(10), packed(100_000)].concat(), [packed(100_000), packed(10)].concat()] {
        let outcome = tool(&["inspect", "in"], &[("in", &data)]);
        let out = String::from_utf8(outcome.stdout).unwrap();
        assert_eq!((out.matches(GFX906).count(), out.matches(GFX90A).count()), (1, 1), "{out}");
        assert!(out.contains(&format!("{GFX906}  text         2 ")), "{out}");
        assert!(out.contains(&format!("{GFX90A}  text?        2 ")), "{out}");
        // The sizes of code objects and the stored sizes are both shown.
        let (size, stored) = ("code objects 200 kB", format!("stored in {} B", data.len()));
        assert!(out.contains(size) && out.contains(&stored), "{out}");
    }
    // A code object of unknown kind is not empty, whatever the others with its ID are.
    for data in [[packed(0), packed(100_000)].concat(), [packed(100_000), packed(0)].concat()] {
        let rows = |args: &[&str]| {
            let out = String::from_utf8(tool(&[&["inspect", "in"], args].concat(), &[("in", &data)]).stdout).unwrap();
            let rows = out.lines().filter(|line| line.contains(GFX90A));
            let mut rows: Vec<String> = rows.map(|line| line.split_whitespace().skip(1).take(2).collect()).collect();
            rows.sort();
            rows
        };
        assert_eq!(
            (rows(&[]), rows(&["--inflate"])),
            (vec!["?1".into(), "empty1".into()], vec!["empty1".into(), "text1".into()])
        );
    }
}

#[test]
fn shares_and_totals_add_up() {
    let (_, many) = files().swap_remove(6);
    let document = json_of(&tool(&["inspect", "--json", "many"], &[("many", &many)]));
    let total: u64 = told(&document).iter().map(|row| row.3).sum();
    let files = &document["files"][0];
    assert_eq!(
        total,
        3 * 4000
            + 2 * told(&json_of(&tool(
                &["inspect", "--json", "packed"],
                &[("packed", &fixture("compressed/llvm22-v3.ccob"))]
            )))
            .iter()
            .map(|row| row.3)
            .sum::<u64>()
    );
    // Bundles are at the reported offsets, and hold their code objects.
    let mut end = 0;
    for object in files["code_objects"].as_array().unwrap() {
        let number = |name: &str| object[name].as_u64();
        let (start, size) = (number("bundle_offset").unwrap(), number("bundle_size").unwrap());
        assert!(start == end || start + size == end, "{object:#}");
        end = start + size;
        match number("offset") {
            Some(at) => assert!(at >= start && at + number("size").unwrap() <= end, "{object:#}"),
            None => {
                assert!(object["compressed"]["inflated_size"].as_u64().unwrap() >= number("inflated_offset").unwrap())
            }
        }
    }
    assert_eq!(end, u64::try_from(many.len()).unwrap());
}

/// The elements of an XML document, with attributes and the text after each start tag. The document must be
/// well-formed.
fn elements(xml: &str) -> Vec<(String, String)> {
    let (mut open, mut found) = (Vec::new(), Vec::new());
    let mut parts = xml.split('<');
    assert_eq!(parts.next().unwrap().trim(), "");
    for part in parts {
        let (tag, text) = part.split_once('>').unwrap_or_else(|| panic!("no end: {part}"));
        assert!(!text.contains('>'), "{part}");
        for reference in text.split('&').skip(1) {
            assert!(["amp;", "lt;", "gt;", "quot;"].iter().any(|known| reference.starts_with(known)), "{text}");
        }
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name), "{xml}");
            continue;
        }
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
        if !tag.ends_with('/') && !tag.starts_with('?') {
            open.push(tag.split_whitespace().next().unwrap().to_owned());
        }
        found.push((tag.to_owned(), text.to_owned()));
    }
    assert!(open.is_empty(), "{open:?}");
    found
}

#[test]
fn the_picture_is_well_formed_and_holds_the_totals() {
    let bundle = |first: usize, second: usize, odd: &str| {
        let entries = [(HOST, &b""[..]), (GFX906, &vec![1; first]), (GFX90A, &vec![2; second]), (odd, b"x")];
        Elf::LIBRARY.write(&[Section::new(".hip_fatbin", &formats::binary(&entries, 1))])
    };
    let (a, b) = (bundle(1_000_000, 3_000_000, "<&\">"), bundle(2_000_000, 500_000, "]]>\u{7}"));
    let files: [(&str, &[u8]); 3] = [("a&b<c>.so", &a), ("b\"'.so", &b), ("none", b"")];
    let outcome = tool(&["inspect", "--svg", "out.svg", "a&b<c>.so", "b\"'.so", "none"], &files);
    assert_eq!(outcome.status, 0, "{}", outcome.stderr_text());
    assert!(!outcome.stdout.is_empty());
    let picture = String::from_utf8(outcome.files["out.svg"].clone()).unwrap();
    let elements = elements(&picture);
    let texts: Vec<&str> = elements.iter().map(|(_, text)| text.trim()).filter(|text| !text.is_empty()).collect();
    for wanted in [
        "6.50 MB of code objects",
        "AMD: 6.50 MB, 100.0 %",
        "gfx906,90a",
        "a&amp;b&lt;c&gt;",
        "b&quot;'",
        "6 code objects for 4 targets in 2 libraries",
        "gfx90a (MI250X, MI250, MI210): 3.00 MB (46.2 %), 1 code object; a&amp;b&lt;c&gt;.so, .hip_fatbin",
    ] {
        assert!(texts.contains(&wanted), "{wanted}: {texts:#?}");
    }
    // Areas are proportional to sizes.
    let area = |hint: &str| {
        let at = elements
            .iter()
            .position(|(_, text)| text.starts_with(hint))
            .unwrap_or_else(|| panic!("no {hint}: {texts:#?}"));
        let (tag, _) = &elements[at - 1];
        let number = |name: &str| {
            let rest = tag.split(&format!(" {name}=\"")).nth(1).unwrap_or_else(|| panic!("{tag}"));
            rest.split('"').next().unwrap().parse::<i64>().unwrap()
        };
        (number("width") + 2) * (number("height") + 2)
    };
    let (large, small) = (
        area("gfx90a (MI250X, MI250, MI210): 3.00 MB"),
        area("gfx906 (MI60, MI50, Radeon VII, Radeon Pro VII): 1.00 MB"),
    );
    assert!((large - 3 * small).abs() <= large / 50 && large + small > 200_000, "{large} {small}");
    // A chart without findings is valid too, and a chart of many files has a limited length.
    let outcome = tool(&["inspect", "--svg=out.svg", "none"], &files);
    assert_eq!(outcome.status, 0);
    self::elements(&String::from_utf8(outcome.files["out.svg"].clone()).unwrap());
    let many: Vec<String> = (0..60).map(|number| format!("{number}x.so")).collect();
    let given: Vec<(&str, &[u8])> = many.iter().map(|name| (name.as_str(), a.as_slice())).collect();
    let outcome = tool(&["inspect", "-r", ".", "--svg=out.svg"], &given);
    let elements = self::elements(&String::from_utf8(outcome.files["out.svg"].clone()).unwrap());
    let names = elements
        .iter()
        .filter(|(tag, text)| {
            let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            let is_in_matrix = is_number && tag.contains("faint") && tag.contains("middle");
            !text.contains(": ") && text.ends_with('x') || is_in_matrix || text == "20 more libraries"
        })
        .count();
    // The map names 40 and the rest, the matrix 30.
    assert_eq!(names, 41 + 30);
    // A chart that cannot be written.
    let outcome = tool(&["inspect", "--svg=no/where.svg", "a&b<c>.so"], &files);
    assert_eq!(outcome.status, 1);
}

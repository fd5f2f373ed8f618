//! Checks the documents: every listed difference names existing tests, and every link leads to an existing file and
//! heading.
use crate::machine::{memory_directory, skipped};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The tables of rules, as text.
fn rules() -> String {
    ["rules.rs", "packager_rules.rs", "llvm23.rs"]
        .map(|name| fs::read_to_string(root().join("tests/reference").join(name)).unwrap())
        .concat()
}

/// Whether a test named in a row exists: as a rule, a function in a file, a file, or a case.
fn exists(test: &str) -> bool {
    let text = |path: &Path| fs::read_to_string(path).unwrap_or_default();
    if let Some(rule) = test.strip_prefix("rule: ") {
        return rules().contains(&format!("name: \"{rule}\""));
    }
    match test.split_once("::") {
        Some((file, function)) => text(&root().join(file)).contains(&format!("fn {function}(")),
        None if test.ends_with(".rs") => text(&root().join(test)).contains("#[test]"),
        None => root().join("tests/cli").join(format!("{test}.test")).exists(),
    }
}

#[test]
fn every_difference_names_tests_that_exist() {
    let page = fs::read_to_string(root().join("docs/differences.md")).unwrap();
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| here |")).collect();
    assert!(rows.len() > 50, "{} rows", rows.len());
    for row in rows {
        let cells: Vec<&str> = row.trim_matches([' ', '|']).split(" | ").collect();
        let [sentence, names] = cells.as_slice() else { panic!("a row has a sentence and its tests: {row}") };
        let words = sentence.split_whitespace().count();
        assert!(words <= 30, "{words} words, and the tests have the details: {row}");
        let tests: Vec<&str> = names.split('`').skip(1).step_by(2).collect();
        assert!(!tests.is_empty(), "no test is named: {row}");
        for test in tests {
            assert!(exists(test), "there is no test '{test}': {row}");
        }
    }
}

#[test]
fn every_rule_of_the_comparisons_is_a_difference_that_is_listed() {
    let page = fs::read_to_string(root().join("docs/differences.md")).unwrap();
    let rules = rules();
    let names = rules.lines().filter_map(|line| line.trim().strip_prefix("Rule { name: \"")?.split('"').next());
    // A crash or hang of LLVM has no rule; the rows describe the behaviour that replaces it.
    for name in names.filter(|name| !name.starts_with("LLVM ")) {
        assert!(page.contains(&format!("`rule: {name}`")), "docs/differences.md does not name the rule '{name}'");
    }
}

/// The anchor of a heading: letters in lower case, dashes for spaces, no other punctuation.
fn anchor(heading: &str) -> String {
    let kept = heading.trim_start_matches('#').trim().chars().filter(|c| c.is_alphanumeric() || "-_ ".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

/// Whether a link from a page leads to an existing target. Pictures and figures are not part of the package.
fn resolves(page: &Path, link: &str) -> bool {
    let (file, heading) = link.split_once('#').unwrap_or((link, ""));
    let target = if file.is_empty() { page.to_path_buf() } else { page.parent().unwrap().join(file) };
    if link.contains("://") || [".svg", ".csv"].iter().any(|end| file.ends_with(end)) {
        return true;
    }
    let Ok(text) = fs::read_to_string(&target) else { return target.is_dir() };
    heading.is_empty() || text.lines().any(|line| line.starts_with('#') && anchor(line) == heading)
}

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    let pages = [
        "README.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        ".github/SECURITY.md",
        "fixtures/README.md",
        "tests/cli/README.md",
    ];
    let mut pages = pages.map(PathBuf::from).to_vec();
    let docs = fs::read_dir(root().join("docs")).unwrap().map(|file| file.unwrap().path());
    pages.extend(docs.filter(|path| path.extension().is_some_and(|extension| extension == "md")));
    let mut count = 0;
    for page in pages.iter().map(|page| root().join(page)) {
        let text = fs::read_to_string(&page).unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0)) {
            assert!(resolves(&page, link), "{}: the link to {link} leads nowhere", page.display());
            count += 1;
        }
    }
    assert!(count > 30, "{count} links");
}

/// The value of a key in `Cargo.toml`, in its first section.
fn manifest_value(key: &str) -> String {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let line = manifest.lines().find_map(|line| line.strip_prefix(&format!("{key} = "))).unwrap();
    line.trim_matches('"').to_owned()
}

/// The files that may name the repository or the version, as far as the package has them.
fn texts_about_the_project() -> Vec<(PathBuf, String)> {
    let mut waiting =
        ["README.md", "CONTRIBUTING.md", "Cargo.toml", "pyproject.toml", "action.yml"].map(PathBuf::from).to_vec();
    waiting.extend([".github", ".pre-commit-hooks.yaml", "docs", "packaging"].map(PathBuf::from));
    let mut texts = Vec::new();
    while let Some(path) = waiting.pop() {
        if let Ok(entries) = fs::read_dir(root().join(&path)) {
            waiting.extend(entries.map(|entry| path.join(entry.unwrap().file_name())));
        } else if let Ok(text) = fs::read_to_string(root().join(&path)) {
            texts.push((path, text));
        }
    }
    texts
}

#[test]
fn the_repository_has_the_same_address_everywhere() {
    let address = manifest_value("repository");
    assert_eq!(manifest_value("homepage"), address);
    let named = regex_lite::Regex::new(r"(?:github\.com/|uses: )([\w.-]+/offload-bundle)\b").unwrap();
    let mut count = 0;
    for (path, text) in texts_about_the_project() {
        for found in named.captures_iter(&text) {
            assert_eq!(format!("https://github.com/{}", &found[1]), address, "{}", path.display());
            count += 1;
        }
    }
    assert!(count >= 7, "{count} addresses");
}

#[test]
fn the_documents_name_the_version_of_the_package() {
    let version = env!("CARGO_PKG_VERSION");
    let named = regex_lite::Regex::new(r"offload[-_]bundle[-_](?:version=)?(\d+\.\d+\.\d+)").unwrap();
    let mut count = 0;
    for (path, text) in texts_about_the_project() {
        for found in named.captures_iter(&text.to_lowercase()) {
            assert_eq!(&found[1], version, "{}", path.display());
            count += 1;
        }
    }
    assert!(count >= 6, "{count} versions");
    let changes = fs::read_to_string(root().join("CHANGELOG.md")).unwrap();
    let release = changes.lines().find_map(|line| line.strip_prefix("## ")).unwrap();
    assert!([version, "Unreleased"].contains(&release), "CHANGELOG.md: {release}");
}

#[test]
fn files_of_a_release_are_optimized_as_a_whole() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let (_, profile) = manifest.split_once("\n[profile.dist]\n").unwrap();
    let (profile, _) = profile.split_once("\n[").unwrap();
    for line in ["lto = \"fat\"", "codegen-units = 1"] {
        assert!(profile.lines().any(|found| found == line), "{line}: {profile}");
    }
    let script = fs::read_to_string(root().join("packaging/release")).unwrap();
    assert!(script.contains("options=(--profile dist "), "packaging/release builds with another profile");
}

/// The lines of a page or a script, each without indentation and with those that continue it.
fn commands(text: &str) -> Vec<String> {
    let joined = text.replace("\\\n", "");
    joined.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn the_pages_about_installation_quote_the_commands_of_the_scripts() {
    let scripts = [".ci/run", ".ci/install"].map(|name| fs::read_to_string(root().join(name)));
    let [Ok(run), Ok(install)] = scripts else {
        return skipped(".ci/ is not part of a package: the commands of the pages", None);
    };
    let scripts = commands(&(run + &install));
    let mut count = 0;
    for page in ["README.md", "docs/install.md"] {
        let lines = commands(&fs::read_to_string(root().join(page)).unwrap());
        for command in
            lines.iter().filter(|line| line.starts_with("cargo ") || line.starts_with("python3 -m pip download "))
        {
            assert!(scripts.iter().any(|line| line.ends_with(command)), "{page}: no script runs '{command}'");
            count += 1;
        }
    }
    assert!(count >= 4, "{count} commands");
}

#[test]
fn the_page_about_the_library_names_the_package_and_its_features() {
    let page = fs::read_to_string(root().join("docs/rust.md")).unwrap();
    assert!(page.contains(&format!("\npackage = \"{}\"\n", manifest_value("name"))));
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let (_, features) = manifest.split_once("\n[features]\n").unwrap();
    let (_, named) = page.split_once("\nfeatures = [").unwrap();
    let (named, _) = named.split_once("]\n").unwrap();
    for name in named.split(", ").map(|name| name.trim_matches('"')) {
        assert!(features.lines().any(|line| line.starts_with(&format!("{name} = ["))), "there is no feature {name}");
    }
}

#[test]
fn the_readme_and_the_changes_are_short() {
    let lines = |name: &str| fs::read_to_string(root().join(name)).unwrap().lines().count();
    assert!(lines("README.md") <= 150, "{} lines", lines("README.md"));
    let changes = fs::read_to_string(root().join("CHANGELOG.md")).unwrap();
    for release in changes.split("\n## ").skip(1).filter(|release| !release.starts_with("0.1.0\n")) {
        let name = release.lines().next().unwrap();
        assert!(release.lines().count() <= 61, "{name}: {} lines", release.lines().count());
        for line in release.lines().skip(1).filter(|line| !line.is_empty() && !line.starts_with("### ")) {
            assert!(line.starts_with("- ") || line.ends_with(':'), "{name}: an entry is one line: {line}");
        }
    }
}

/// The words in backticks and brackets in the first column of a table in the documentation of the library.
fn first_column(heading: &str) -> Vec<String> {
    let library = fs::read_to_string(root().join("src/lib.rs")).unwrap();
    let (_, table) = library.split_once(heading).unwrap();
    let rows = table.lines().skip(2).take_while(|line| line.starts_with("//! |"));
    let cells = rows.map(|row| row.split('|').nth(1).unwrap().replace(['`', '[', ']', ' '], ""));
    let mut names: Vec<String> =
        cells.flat_map(|cell| cell.split(',').map(str::to_owned).collect::<Vec<_>>()).collect();
    names.sort();
    names
}

#[test]
fn the_library_names_its_features_and_modules() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let (_, features) = manifest.split_once("\n[features]\n").unwrap();
    let features = features.split("\n[").next().unwrap().lines().filter_map(|line| line.split_once(" = ["));
    let mut features: Vec<&str> = features.map(|(name, _)| name).filter(|name| *name != "default").collect();
    features.sort_unstable();
    assert_eq!(first_column("//! | feature | enables |"), features);

    let library = fs::read_to_string(root().join("src/lib.rs")).unwrap();
    let is_module = |name: &&str| !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    let mut modules = Vec::new();
    let mut is_hidden = false;
    for line in library.lines().map(str::trim_end) {
        if line == "#[doc(hidden)]" {
            is_hidden = true;
            continue;
        }
        if std::mem::take(&mut is_hidden) {
            continue;
        }
        if let Some(declared) = line.strip_prefix("pub mod ") {
            modules.push(declared.trim_end_matches([';', '{', ' ']).to_owned());
        } else if let Some((_, used)) = line.strip_prefix("pub use ").and_then(|path| path.rsplit_once("::")) {
            let names = used.trim_matches(['{', '}', ';']).split(", ");
            modules.extend(names.map(|name| name.trim_matches(['{', '}', ';'])).filter(is_module).map(str::to_owned));
        }
    }
    modules.sort();
    assert_eq!(first_column("//! | module | purpose |"), modules);
}

fn shell(script: &str) -> (Option<i32>, String) {
    let dir = memory_directory();
    let bundle = root().join("fixtures/binary");
    let bundle = fs::read_dir(bundle).unwrap().map(|file| file.unwrap().path()).find(|path| path.is_file()).unwrap();
    let run = Command::new("sh")
        .args(["-c", script])
        .env("TOOL", env!("CARGO_BIN_EXE_clang-offload-bundler"))
        .env("BUNDLE", bundle)
        .current_dir(dir.path())
        .output()
        .unwrap();
    (run.status.code(), String::from_utf8(run.stderr).unwrap())
}

#[test]
fn a_reader_that_stops_is_no_error() {
    let script = "{ sleep 0.1; \"$TOOL\" -type=bc -list -input=\"$BUNDLE\"; echo $? >status; } | true; cat status >&2";
    assert_eq!(shell(script), (Some(0), "0\n".to_owned()));
}

/// Every command that prints, or writes to standard output, fails if that is closed, as LLVM's tools do. Others
/// succeed.
#[test]
fn closed_streams_are_errors() {
    let ours = [
        "-h",
        "--help",
        "--help-hidden",
        "--version",
        "-type=bc -list -input=\"$BUNDLE\"",
        "-type=bc -unbundle -targets=host-x86_64-unknown-linux-gnu- -input=new -output=-",
        "-type=bc -targets=host-x86_64-unknown-linux-gnu- -input=\"$BUNDLE\" -output=-",
        "package --help",
        "package --version",
        "package -o - --image=file=new,triple=t,arch=gfx906,kind=hip",
        "extract-bundle-entry --help",
        "extract-bundle-entry -o - \"file://$PWD/new#offset=0&size=4\"",
        "inspect new",
        "inspect --json new",
        "inspect --matrix new",
        "inspect --help",
        "inspect --version",
        "extract -n -t '*' new",
        "extract -t gfx906 -o - new",
        "extract --json -n -t '*' new",
        "kernels new",
        "kernels --json new",
        "diff new new",
        "verify new",
        "verify --json new",
        "recompress new -o -",
        "replace -o - \"file://$PWD/new#offset=0&size=4\" new",
        "report new -o -",
        "completions bash",
        "completions fish",
        "help",
        "help inspect",
        "help package",
    ];
    let make = "printf x > x; \"$TOOL\" -type=bc -targets=host-x86_64-unknown-linux-gnu-,hip-amdgcn-amd-amdhsa--gfx906 \
        -input=x -input=x -output=new || exit 9";
    for command in ours {
        let (status, said) = shell(&format!("{make}; \"$TOOL\" {command} >&-"));
        assert_eq!(status, Some(1), "{command}: {said}");
        // A URI that is not that of a code object is another error.
        let is_other = command.starts_with("replace") || command == "-h";
        assert!(is_other || said.contains("Bad file descriptor"), "{command}: {said}");
    }
    for command in [
        "-type=bc -unbundle -targets=host-x86_64-unknown-linux-gnu- -input=new -output=out",
        "package -o out --image=file=new,triple=t,arch=gfx906,kind=hip",
        "recompress new -o out",
    ] {
        let (status, said) = shell(&format!("{make}; \"$TOOL\" {command} >&-"));
        assert_eq!(status, Some(0), "{command}: {said}");
    }
    for command in ["-type=bc -list -input=-", "inspect -", "verify -", "recompress - -o out"] {
        let (status, said) = shell(&format!("\"$TOOL\" {command} <&-"));
        assert_eq!(status, Some(1), "{command}: {said}");
        assert!(said.contains("'-': Bad file descriptor"), "{command}: {said}");
    }
}

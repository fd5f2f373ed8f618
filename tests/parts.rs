//! The walls between the parts of the source: which file uses which, by its imports and by paths in its code.
//!
//! The compiler holds the wall between the clone and the rest (`.ci/run clone`): the clone uses nothing of the rest, and
//! has nothing that only the rest uses. It does not hold the others.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use regex_lite::Regex;

/// The path of a module: `base`, `id`, `triple`.
type Module = Vec<String>;

/// The files of `src/` by their modules, and the items that modules re-export from others.
struct Source {
    files: BTreeMap<Module, PathBuf>,
    reexports: BTreeMap<Module, Module>,
}

/// Returns the code of a file, without comments and unit tests.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let code = text.split("#[cfg(test)]\nmod tests").next().unwrap();
    Regex::new("//[^\n]*").unwrap().replace_all(code, "").into_owned()
}

/// Returns the paths that a `use` tree names.
fn paths_in(tree: &str) -> Vec<Module> {
    let Some((start, group)) = tree.split_once('{') else {
        let path = tree.split(" as ").next().unwrap();
        return vec![path.split("::").map(|name| name.trim().to_owned()).collect()];
    };
    let (mut depth, mut items, mut item) = (0, Vec::new(), String::new());
    for character in group.strip_suffix('}').unwrap_or(group).chars() {
        match character {
            ',' if depth == 0 => items.push(std::mem::take(&mut item)),
            _ => {
                depth += i32::from(character == '{') - i32::from(character == '}');
                item.push(character);
            }
        }
    }
    items.push(item);
    let mut paths = Vec::new();
    for item in items.iter().map(|item| item.trim()).filter(|item| !item.is_empty()) {
        paths.extend(paths_in(&format!("{}{item}", start.trim())));
    }
    paths
}

/// Returns the absolute path of one that begins in a module.
fn absolute(module: &[String], path: &[String]) -> Module {
    let supers = path.iter().take_while(|name| *name == "super").count();
    match path.first().map(String::as_str) {
        Some("crate") => path[1..].to_vec(),
        Some("self") => [module, &path[1..]].concat(),
        Some("super") => [&module[..module.len() - supers], &path[supers..]].concat(),
        _ => [module, path].concat(),
    }
}

impl Source {
    fn read() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut source = Self { files: BTreeMap::new(), reexports: BTreeMap::new() };
        let mut directories = vec![root.clone()];
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    directories.push(path);
                } else if path.extension().is_some_and(|extension| extension == "rs") {
                    let names = path.strip_prefix(&root).unwrap().with_extension("");
                    let names = names.iter().map(|name| name.to_str().unwrap().to_owned());
                    let module = names.filter(|name| !["mod", "lib", "main"].contains(&name.as_str())).collect();
                    source.files.insert(module, path);
                }
            }
        }
        let reexport = Regex::new(r"\bpub(?:\([^)]*\))?\s+use\s+([^;]+);").unwrap();
        for (module, file) in &source.files {
            for found in reexport.captures_iter(&code(file)) {
                for path in paths_in(&found[1]) {
                    let name = [module.as_slice(), &path[path.len() - 1..]].concat();
                    source.reexports.insert(name, absolute(module, &path));
                }
            }
        }
        source
    }

    /// Returns the module whose file defines the item of a path.
    fn definition(&self, path: &[String]) -> Option<&Module> {
        let mut path = path.to_vec();
        for _ in 0..8 {
            let found = (1..=path.len())
                .rev()
                .find(|&len| self.reexports.contains_key(&path[..len]) || self.files.contains_key(&path[..len]))?;
            match self.reexports.get(&path[..found]) {
                Some(other) => path = [other, &path[found..]].concat(),
                None => return self.files.get_key_value(&path[..found]).map(|(module, _)| module),
            }
        }
        None
    }

    /// Returns the modules that a module uses.
    fn used_by(&self, module: &Module) -> BTreeSet<&Module> {
        let code = code(&self.files[module]);
        let import = Regex::new(r"(pub(?:\([^)]*\))?\s+)?\buse\s+([^;]+);").unwrap();
        let mut paths = Vec::new();
        for found in import.captures_iter(&code).filter(|found| found.get(1).is_none()) {
            paths.extend(paths_in(&found[2]));
        }
        let inline = Regex::new(r"\b(?:crate|super)(?:::\w+)+").unwrap();
        paths.extend(inline.find_iter(&import.replace_all(&code, "")).flat_map(|found| paths_in(found.as_str())));
        let defined = paths.iter().filter_map(|path| self.definition(&absolute(module, path)));
        defined.filter(|used| *used != module).collect()
    }
}

#[test]
fn parts_use_only_the_parts_below_them() {
    let source = Source::read();
    let mut uses = 0;
    for (part, allowed) in [("base", &["base"][..]), ("llvm", &["base", "llvm"])] {
        let modules: Vec<&Module> =
            source.files.keys().filter(|module| module.first().is_some_and(|top| top == part)).collect();
        for module in modules {
            for used in source.used_by(module) {
                let top = used.first().map_or("", String::as_str);
                assert!(allowed.contains(&top), "{} uses {}", module.join("::"), used.join("::"));
                uses += 1;
            }
        }
    }
    assert!(uses > 400, "only {uses} uses are found");
}

#[test]
fn base_and_llvm_spell_no_ids_of_other_compilers() {
    for (module, file) in &Source::read().files {
        let is_checked = ["base", "llvm"].iter().any(|part| module.first().is_some_and(|top| top == part));
        if !is_checked || module.last().is_some_and(|name| name == "tests") {
            continue;
        }
        let code = code(file).to_lowercase();
        for word in ["dpcpp", "native_cpu", "spir64_", "mtgpu", "metax", "macahca", "xcore1000", "enflame", "efgcu"] {
            assert!(!code.contains(word), "{} contains {word}", module.join("::"));
        }
    }
}

/// Names from files reach a terminal only through `print::out`, which escapes them, and through `Console`. `mod` prints
/// help texts of the program, and `print::progress` numbers beside a text of the program.
#[test]
fn subcommands_print_through_one_door() {
    let doors = ["beyond::cli", "beyond::cli::print::out", "beyond::cli::print::progress"];
    let raw = Regex::new(r"print::stdout|\bstd(out|err)\(\)(\.lock|\.write|;|\)\?)|\be?print(ln)?!").unwrap();
    let mut doors_found = 0;
    for (module, file) in &Source::read().files {
        let name = module.join("::");
        if !name.starts_with("beyond") {
            continue;
        }
        let is_door = doors.contains(&name.as_str());
        let is_raw = raw.is_match(&code(file));
        assert!(is_door || !is_raw, "{name} prints without escaping");
        doors_found += usize::from(is_door && is_raw);
    }
    assert_eq!(doors_found, doors.len());
}

/// Returns the names that are in a circle of uses, or use one that is. `uses` has what each name uses.
fn in_circles<N: Clone + Ord>(mut uses: BTreeMap<N, BTreeSet<N>>) -> BTreeSet<N> {
    // A name that uses nothing that is left is in no circle.
    loop {
        let left: BTreeSet<N> = uses.keys().cloned().collect();
        uses.retain(|_, used| used.iter().any(|used| left.contains(used)));
        if uses.len() == left.len() {
            return left;
        }
    }
}

#[test]
fn no_files_of_base_and_llvm_use_each_other_in_a_circle() {
    let source = Source::read();
    let is_checked = |module: &&Module| module.first().is_some_and(|top| top == "base" || top == "llvm");
    let uses = source.files.keys().filter(is_checked).map(|module| (module, source.used_by(module))).collect();
    let circles: Vec<String> = in_circles(uses).iter().map(|module| module.join("::")).collect();
    assert_eq!(circles, [""; 0], "each of these uses another of them");
}

/// A room is a module directly in `beyond`, with all that is in it.
#[test]
fn no_rooms_of_beyond_use_each_other_in_a_circle() {
    let source = Source::read();
    let room_of = |module: &Module| match module.as_slice() {
        [top, room, ..] if top == "beyond" => Some(room.clone()),
        _ => None,
    };
    let mut uses: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for module in source.files.keys() {
        let Some(room) = room_of(module) else { continue };
        let others = source.used_by(module).into_iter().filter_map(room_of).filter(|other| *other != room);
        uses.entry(room.clone()).or_default().extend(others);
    }
    let count: usize = uses.values().map(BTreeSet::len).sum();
    assert!(count > 40, "only {count} uses are found");
    assert_eq!(in_circles(uses), BTreeSet::new(), "each of these rooms uses another of them");
}

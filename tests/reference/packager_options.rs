//! Command lines of the packager with one or more errors, and command lines that only ask for information.

use super::harness::{Case, Random};

/// The names to call it by, with and without the warning about the old name.
const NAMES: &[&str] = &[
    "llvm-offload-binary",
    "clang-offload-packager",
    "/usr/bin/clang-offload-packager",
    "x86_64-linux-gnu-llvm-offload-binary-22",
    "x-clang-offload-packager.exe",
    "clang-offload-packager-22",
    "clang-offload-packager.a.b",
    ".clang-offload-packager",
];

const OPTIONS: &[&str] = &[
    "archive",
    "image",
    "o",
    "h",
    "help",
    "help-hidden",
    "help-list",
    "help-list-hidden",
    "print-all-options",
    "print-options",
    "version",
];

/// Words of command lines, compatible and incompatible.
const PIECES: &[&str] = &[
    "--archive",
    "-archive=0",
    "--archive=x",
    "--image=file=a,triple=nvptx64,arch=sm_70,kind=openmp",
    "--image=file=a",
    "--image=triple=x",
    "--image=",
    "--image",
    "-image",
    "-o",
    "-o=x",
    "--o=x",
    "-o=",
    "-ox",
    "-hox",
    "-ho=x",
    "-ho",
    "-h",
    "-hh",
    "-h=0",
    "-h=x",
    "--help",
    "-help=1",
    "--help-list",
    "--version",
    "a",
    "b",
    "-",
    "--",
    "",
    " ",
    "@nowhere",
    "-nonsense",
    "--imgae=file=a",
    "-print-options",
    "--print-all-options=0",
    "---o",
    "-x=y",
];

fn base(name: &'static str, args: &[&str]) -> Case {
    Case::new(args).called(name).file("a", *b"contents of a\n").file("b", *b"contents of b\n")
}

/// Every help text and the version, under all names, alone and among other words.
pub fn information() -> Vec<Case> {
    let mut cases = Vec::new();
    for name in NAMES {
        cases.push(base(name, &[]));
        for option in OPTIONS {
            for dashes in ["-", "--"] {
                let word = format!("{dashes}{option}");
                cases.push(base(name, &[&word]));
                cases.push(base(name, &["-nonsense", &word]));
                cases.push(base(name, &[&word, "-nonsense", "-nonsense"]));
                cases.push(base(name, &["a", "b", &word]));
                cases.push(base(name, &[&word, ""]));
                cases.push(base(name, &["-o=x", "a", &word]));
            }
        }
    }
    cases
}

/// Returns random command lines made of the pieces, which open no files.
pub fn combinations() -> Vec<Case> {
    let mut random = Random::new(17);
    let mut cases: Vec<Case> = PIECES.iter().map(|piece| base(NAMES[0], &[piece, "-h", "-h"])).collect();
    for _ in 0..500 {
        let count = 1 + random.below(6);
        let mut args: Vec<&str> = (0..count).map(|_| *random.pick(PIECES)).collect();
        match random.below(3) {
            0 => args.extend(["-o=x", "-o=x", "a"]),
            1 => args.insert(0, "-h"),
            _ => args.extend(["-h", "-h"]),
        }
        if args.contains(&"-h=0") {
            args.extend(["-o", "y", "b"]);
        }
        let name: &&str = random.pick(NAMES);
        cases.push(base(name, &args));
    }
    cases
}

/// Values, spellings and suggestions.
pub fn spellings() -> Vec<Case> {
    let name = NAMES[0];
    let mut cases = Vec::new();
    for option in OPTIONS {
        for word in
            [format!("-{option}="), format!("---{option}"), format!("-{option}=1"), format!("-{}", &option[1..])]
        {
            cases.push(base(name, &[&word, "-o=x", "a"]));
            cases.push(base(name, &["-h", &word]));
        }
    }
    for value in ["true", "TRUE", "True", "false", "FALSE", "False", "1", "0", "", "yes", "tRUE", "01", "-1", "2"] {
        for option in ["archive", "h", "hh", "hhh", "print-options"] {
            cases.push(base(name, &[&format!("-{option}={value}")]));
            cases.push(base(name, &["-o=x", "a", &format!("--{option}={value}")]));
        }
    }
    for word in ["-o", "-ho", "-hho", "--o", "-o=", "-o=-", "-oh", "-oo", "-oarchive", "-o-", "-o=x=y", "-h-", "-hx"] {
        cases.push(base(name, &[word, "-o=x", "a"]));
        for next in ["x", "", "-h", "--", "-o", "@nowhere", "--help"] {
            cases.push(base(name, &[word, next, "a", "-h"]));
            cases.push(base(name, &["a", word, next]).arg("b"));
        }
    }
    for word in
        ["--color", "-stats", "-time-passes", "-debug-only=x", "@", "-\u{e9}", "-Archive", "-O", "-O3", "-i=", "-v"]
    {
        cases.push(base(name, &["-h", word]));
    }
    cases
}

/// Prefixes, suffixes and mixtures of the options' names, with a few letters exchanged.
pub fn misspellings() -> Vec<Case> {
    let mut random = Random::new(19);
    let letters: Vec<char> = OPTIONS.concat().chars().collect();
    let mut cases = Vec::new();
    while cases.len() < 700 {
        let (first, second) = (*random.pick(OPTIONS), *random.pick(OPTIONS));
        let mut word: Vec<char> = match random.below(3) {
            0 => (0..random.below(16)).map(|_| *random.pick(&letters)).collect(),
            1 => first.chars().collect(),
            _ => {
                let (end, start) = (random.below(first.len() + 1), random.below(second.len() + 1));
                first[..end].chars().chain(second[start..].chars()).collect()
            }
        };
        for _ in 0..1 + random.below(3) {
            let at = random.below(word.len() + 1);
            match random.below(3) {
                0 => word.insert(at, *random.pick(&letters)),
                1 if at < word.len() => word[at] = *random.pick(&letters),
                _ if at < word.len() => drop(word.remove(at)),
                _ => {}
            }
        }
        let value = *random.pick(&["", "", "=", "=x", "=a=b"]);
        let word: String = word.into_iter().collect();
        // If the word happens to be a valid option, `-h` ends the run; the first `-h` may be its value.
        cases.push(base(NAMES[0], &[&format!("-{word}{value}"), "-h", "-h"]));
    }
    cases
}

/// Response files, valid and invalid.
pub fn response_files() -> Vec<Case> {
    const FILES: &[&str] = &[
        "-h",
        "-o=x a",
        "-o\nx\r\n\ta",
        "'-o' \"x\" a",
        "a b",
        "--help",
        "-nonsense @second",
        "@words",
        "@nowhere b",
        "\u{feff}-h",
        "",
        "   \n",
        "\"\" ''",
        "-o=x \"\" a",
        "-o \\",
        "-- -h b",
    ];
    let mut cases = Vec::new();
    for name in &NAMES[..2] {
        for text in FILES {
            let with_files = |case: Case| case.file("words", text.as_bytes()).file("second", *b"-o=x");
            cases.push(with_files(base(name, &["@words", "-h"])));
            cases.push(with_files(base(name, &["-o=x", "b", "@words"])));
        }
        cases.extend(["@/", "@."].map(|word| base(name, &["-h", word])));
    }
    cases
}

/// Options of our own and of later releases, and other spellings of them.
pub fn own_options() -> Vec<Case> {
    const OWN: &[&str] = &[
        "--compress",
        "--compress=zlib",
        "--compress=x",
        "--compression-format=zlib",
        "--compression-format=x",
        "--compression-formats=zlib",
        "--compression-mode=x",
        "--decompress",
        "--compression-level=3",
        "--compression-level=x",
        "--format-version=3",
        "--format-version=x",
        "--format-version",
        "--format-versoin=3",
        "--max-size=1K",
        "--max-size=x",
        "--max-siez=1K",
    ];
    let with = |word: &&str| [base(NAMES[0], &[word]), base(NAMES[1], &["-o=x", "a", word])];
    OWN.iter().flat_map(with).collect()
}

//! Command lines with one or more errors, and command lines that only ask for information.

use super::formats::bundle;
use super::harness::{Case, Random};

const HOST: &str = "host-x86_64-unknown-linux-gnu-";
const GPU: &str = "hip-amdgcn-amd-amdhsa--gfx906";

/// Words of command lines, compatible and incompatible.
const PIECES: &[&str] = &[
    "-list",
    "-unbundle",
    "-check-input-archive",
    "-type=bc",
    "-type=bc",
    "-type=ll",
    "-type=o",
    "-type=a",
    "-type=x",
    "-type=",
    "-input=a",
    "-input=a",
    "-input=b",
    "-input=bundle",
    "-input=nowhere",
    "-inputs=a,b",
    "-inputs=a",
    "-output=x",
    "-output=x",
    "-output=y",
    "-output=nodir/x",
    "-outputs=x,y",
    "-outputs=x",
    "-targets=host-x86_64-unknown-linux-gnu-",
    "-targets=hip-amdgcn-amd-amdhsa--gfx906",
    "-targets=host-x86_64-unknown-linux-gnu-,hip-amdgcn-amd-amdhsa--gfx906",
    "-targets=hip-amdgcn-amd-amdhsa--gfx906,hip-amdgcn-amd-amdhsa--gfx906",
    "-targets=host-x86_64-unknown-linux-gnu-,host-i386-unknown-linux-gnu-",
    "-targets=openmp-amdgcn-amd-amdhsa--gfx906",
    "-targets=hip-amdgcn-amd-amdhsa--gfx906:xnack+,hip-amdgcn-amd-amdhsa--gfx906",
    "-targets=foo-x86_64-unknown-linux-gnu",
    "-targets=hip-nonsense-unknown-linux-gnu",
    "-targets=hip",
    "-targets=",
    "-allow-missing-bundles",
    "-hip-openmp-compatible",
    "-compress",
    "-verbose",
    "-bundle-align=4096",
    "-bundle-align=x",
    "-compression-level=3",
    "-compression-level=x",
    "-###",
    "stray",
    "inspekt",
    "-h",
    "-nonsense",
    "--",
    "-list=false",
    "-unbundle=0",
];

fn base(args: &[&str]) -> Case {
    let inside = bundle("bc", &[(HOST, b"host code"), (GPU, b"gpu code")]);
    Case::new(args).file("a", *b"contents of a\n").file("b", *b"contents of b\n").file("bundle", inside)
}

/// Random command lines made of the pieces, and all pairs of pieces with a type.
pub fn combinations() -> Vec<Case> {
    let mut random = Random::new(11);
    let mut cases: Vec<Case> = PIECES.iter().map(|piece| base(&[piece])).collect();
    for _ in 0..850 {
        let count = 2 + random.below(7);
        let mut args: Vec<&str> = (0..count).map(|_| *random.pick(PIECES)).collect();
        if random.below(4) > 0 {
            args.push("-type=bc");
        }
        if random.below(2) > 0 {
            args.push("-output=z");
        }
        cases.push(base(&args));
    }
    for (index, first) in PIECES.iter().enumerate() {
        for second in &PIECES[index..] {
            if random.below(4) == 0 {
                cases.push(base(&["-type=bc", first, second]));
            }
        }
    }
    cases
}

/// Valid command lines with one piece removed or inserted.
pub fn nearly_right() -> Vec<Case> {
    let both = "-targets=host-x86_64-unknown-linux-gnu-,hip-amdgcn-amd-amdhsa--gfx906";
    let right: [&[&str]; 3] = [
        &["-type=bc", both, "-input=a", "-input=b", "-output=x"],
        &["-type=bc", "-unbundle", both, "-input=bundle", "-output=x", "-output=y"],
        &["-type=bc", "-list", "-input=bundle"],
    ];
    let mut cases = Vec::new();
    for line in right {
        cases.push(base(line));
        for index in 0..line.len() {
            let without: Vec<&str> =
                line.iter().enumerate().filter(|(i, _)| *i != index).map(|(_, arg)| *arg).collect();
            cases.push(base(&without));
            cases.extend(PIECES.iter().step_by(3).map(|piece| base(&[&without, [*piece].as_slice()].concat())));
        }
        cases.extend(PIECES.iter().map(|piece| base(&[line, [*piece].as_slice()].concat())));
    }
    cases
}

const OPTIONS: &[&str] = &[
    "###",
    "allow-missing-bundles",
    "bundle-align",
    "check-input-archive",
    "compress",
    "compression-level",
    "help",
    "help-hidden",
    "help-list",
    "help-list-hidden",
    "hip-openmp-compatible",
    "input",
    "inputs",
    "list",
    "output",
    "outputs",
    "print-all-options",
    "print-options",
    "targets",
    "type",
    "unbundle",
    "verbose",
    "version",
    "h",
    "hh",
];
const BOOLEANS: &[&str] =
    &["true", "TRUE", "True", "false", "FALSE", "False", "1", "0", "", "yes", "tRUE", "01", "-1", "2"];
const NUMBERS: &[&str] = &[
    "0",
    "1",
    "+1",
    "-1",
    "-0",
    "0x10",
    "0X1f",
    "0b11",
    "0B1",
    "010",
    "08",
    "0o17",
    "0O7",
    "1k",
    " 1",
    "1 ",
    "0x",
    "-",
    "4294967295",
    "4294967296",
    "2147483647",
    "2147483648",
    "-2147483648",
    "-2147483649",
    "99999999999999999999",
    "1.5",
    "1e3",
    "1_000",
    "é",
];
const WRONG: &[&str] = &[
    "-lst",
    "--lst",
    "-unbundel",
    "-inptu=a",
    "-inptu=",
    "-outputt",
    "-ouput=x=y",
    "-targt=host",
    "-typ=bc",
    "-x",
    "-X=1",
    "--verbos",
    "-compresion-level=3",
    "-compress-level",
    "-hip-compatible",
    "-help=1",
    "--help-",
    "-hx",
    "-xh",
    "-hhh",
    "-h=0",
    "-hh=1",
    "-",
    "@",
    "---list",
    "-list-",
    "--version=1",
    "-debug",
    "-debug-only",
    "-debug=1",
    "--color",
    "-color",
    "-stats",
    "-time-passes",
    "-print",
    "-o",
    "-bundle-align",
    "",
    " ",
    "-Type=bc",
    "-é",
    "-some-very-long-option-that-is-near-to-nothing=value",
    "-help-list-hiden",
    "-allow",
    "-check",
    "-v",
    "-l",
    "-u",
];

/// Values, spellings and suggestions.
pub fn spellings() -> Vec<Case> {
    let mut cases = Vec::new();
    for option in OPTIONS {
        cases.extend(
            [format!("-{option}"), format!("--{option}"), format!("-{option}="), format!("---{option}")]
                .map(|word| base(&[&word])),
        );
        cases.push(base(&["-type=bc", &format!("--{option}")]));
        cases.push(base(&["-type=bc", "-list", "-input=bundle", &format!("-{option}=1")]));
        cases.push(base(&["-type=bc", "-list", "-input=bundle", &format!("-{}", &option[1..])]));
    }
    for option in ["list", "unbundle", "compress", "verbose", "allow-missing-bundles", "h", "###"] {
        cases.extend(BOOLEANS.iter().map(|value| base(&["-type=bc", "-input=bundle", &format!("-{option}={value}")])));
    }
    for option in ["bundle-align", "compression-level"] {
        let line = |value: &&str| base(&["-type=bc", "-list", "-input=bundle", &format!("-{option}={value}")]);
        cases.extend(NUMBERS.iter().map(line));
        cases.extend(
            NUMBERS.iter().map(|value| base(&["-type=bc", "-list", "-input=bundle", &format!("-{option}"), value])),
        );
    }
    cases.extend(WRONG.iter().map(|word| base(&["-type=bc", "-list", "-input=bundle", word])));
    cases.extend(WRONG.windows(2).map(base));
    cases
}

const FILES: &[&str] = &[
    "-type=bc -list -input=bundle",
    "-type=bc\n-list\r\n\t-input=bundle\n",
    "'-type=bc' \"-list\" -input='bun'\"dle\"",
    "-type=bc -list -input=bun\\dle",
    "-type=bc -list \\\n-input=bundle",
    "-type=bc -list -input=bundle # no comment",
    "-type=bc -list '-input=bundle",
    "-type=bc -list -input=bundle '' \"\"",
    "-type=bc -list -input=bundle \\",
    "-type=bc -list @second",
    "-type=bc -list @first",
    "-type=bc -list @nowhere",
    "\u{feff}-type=bc -list -input=bundle",
    "",
    "   \n",
    "-list -input=\"a b\" -type=bc",
    "-input=\"\\\"\" -type=bc -list -input='\\x'",
];

/// Response files, and values in separate words.
pub fn response_files() -> Vec<Case> {
    let mut cases: Vec<Case> = FILES
        .iter()
        .map(|text| base(&["@first"]).file("first", text.as_bytes()).file("second", *b"-input=bundle"))
        .collect();
    let utf16: Vec<u8> = "\u{feff}-type=bc -list -input=bundle".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let reversed: Vec<u8> = utf16.chunks(2).flat_map(|pair| [pair[1], pair[0]]).collect();
    cases.push(base(&["@first"]).file("first", utf16.clone()));
    cases.push(base(&["@first"]).file("first", reversed));
    cases.push(base(&["@first"]).file("first", &utf16[..21]));
    cases.push(base(&["@first"]).file("first", *b"-type=bc -list -input=\xff\xfe"));
    cases.extend(["@nowhere", "@", "@.", "@/", "@//a"].map(|word| base(&["-type=bc", "-list", "-input=bundle", word])));
    cases.push(base(&["-type=bc", "-list", "-input", "@first"]).file("first", *b"bundle"));
    cases.push(base(&["-type", "bc", "-list", "-input", "bundle"]));
    cases.push(base(&["--type", "bc", "--list", "--input", "bundle"]));
    cases.push(base(&["-type", "-list", "-input=bundle"]));
    cases.push(base(&["-type=bc", "-type=ll", "-list", "-input=bundle"]));
    cases.push(base(&["-type=ll", "-type=bc", "-list", "-input=bundle"]));
    cases.push(base(&["-type=bc", "-list", "-list=0", "-input=bundle"]));
    cases.push(base(&["-type=bc", "-list", "-", "-input=bundle"]));
    cases.push(base(&["-type=bc", "-list", "-input=bundle", "--", "-list"]));
    cases.push(base(&["-type=bc", "-list", "-input=-"]).stdin(bundle("bc", &[(HOST, b"x"), (GPU, b"y")])));
    cases.push(base(&["-type=ll", "-list", "-input=-"]).stdin(bundle("ll", &[(HOST, b"x"), (GPU, b"y")])));
    cases.push(base(&["-type=bc", "-list", "-input=-"]));
    cases
}

/// Environment variables, with valid and invalid values.
pub fn environment() -> Vec<Case> {
    const VALUES: &[&str] = &["", "0", "1", "2", "3", "4", "-1", "03", "+3", "x", "65536"];
    const NAMES: &[&str] = &[
        "OFFLOAD_BUNDLER_COMPRESS",
        "OFFLOAD_BUNDLER_VERBOSE",
        "OFFLOAD_BUNDLER_COMPRESSION_LEVEL",
        "COMPRESSED_BUNDLE_FORMAT_VERSION",
        "OFFLOAD_BUNDLER_IGNORE_ENV_VAR",
    ];
    let targets = format!("-targets={HOST},{GPU}");
    let bundling = ["-type=bc", &targets, "-input=a", "-input=b", "-output=x"];
    let mut cases = Vec::new();
    for name in NAMES {
        for value in VALUES {
            let versioned = |case: Case| {
                if *name == "COMPRESSED_BUNDLE_FORMAT_VERSION" {
                    case
                } else {
                    case.env("COMPRESSED_BUNDLE_FORMAT_VERSION", "3")
                }
            };
            cases.push(base(&bundling).env(name, *value));
            let wide = *name == "OFFLOAD_BUNDLER_IGNORE_ENV_VAR" && *value == "1";
            if !wide {
                cases.push(versioned(base(&bundling).arg("-compress").env(name, *value)));
                cases.push(versioned(base(&bundling).arg("-compress").arg("-verbose").env(name, *value)));
            }
            cases.push(base(&["-type=bc", "-list", "-input=bundle"]).env(name, *value));
            cases.push(base(&["-type=bc", "-input=bundle"]).env(name, *value));
            cases.push(base(&["-nonsense"]).env(name, *value));
        }
    }
    for (compress, verbose) in
        [("", ""), ("-compress=0", ""), ("", "-verbose=0"), ("-compress=0", "-verbose"), ("-compress", "-verbose=0")]
    {
        let mut case = base(&bundling).env(NAMES[0], "1").env(NAMES[1], "1").env(NAMES[3], "3");
        case.args.extend([compress, verbose].into_iter().filter(|arg| !arg.is_empty()).map(str::to_owned));
        cases.push(case.clone());
        cases.push(case.clone().env(NAMES[2], "9").arg("-compression-level=1"));
        cases.push(case.arg("-compression-level=0"));
    }
    cases
}

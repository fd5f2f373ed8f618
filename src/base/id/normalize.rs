//! Normalises target triples by moving their words to the right positions, with the result of LLVM 22.1.8.

use super::triple_tables::{self as tables, DXIL_WORDS};

/// The number of words in a normalised triple.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Exactly three: architecture, vendor, operating system.
    Three,
    /// Exactly four: architecture, vendor, operating system, environment.
    Four,
    /// As many words as the text has.
    Any,
}

/// The number of positions with a meaning: architecture, vendor, operating system, environment.
const POSITIONS: usize = 4;

const ARCH: usize = 0;
const VENDOR: usize = 1;
const OS: usize = 2;
const ENVIRONMENT: usize = 3;
const FORMAT: usize = 4;

const UNKNOWN: &str = "unknown";

/// Rewrites a target triple in canonical order and spelling, as LLVM 22.1.8 does.
///
/// The text may have any number of words, separated by dashes, in any order; words may be empty. Missing words become
/// `unknown`.
///
/// LLVM aborts on `dxil` with a shader model 6.N that has no DXIL version (N above 9). Here, such a triple gets
/// `dxilv1.0`, like other shader models without a DXIL version.
pub fn normalize(text: &str, form: Form) -> String {
    let mut words = Words::split(text);
    words.sort_into_positions();
    words.name_the_missing();
    // `words` only borrows its texts, so this variable keeps the new text for `androideabi`.
    let android = words.android_without_eabi();
    if let Some(word) = &android {
        words.set(ENVIRONMENT, word);
    }
    words.respell_environment();
    words.respell_windows();
    words.respell_dxil();
    match form {
        Form::Three => words.list.resize(3, UNKNOWN),
        Form::Four => words.list.resize(4, UNKNOWN),
        Form::Any => {}
    }
    words.list.join("-")
}

/// The meanings of the most recently tried words. As in LLVM, a failed try overwrites an earlier result, and the
/// respelling rules use these values.
struct Meaning {
    arch: &'static str,
    vendor: &'static str,
    os: &'static str,
    is_mingw: bool,
    is_cygwin: bool,
    environment: &'static str,
    format: &'static str,
}

/// The words of a triple while they are moved to their positions. A word is settled once it is in the position of its
/// meaning: `linux` as the operating system. Settled words keep their positions when others are moved.
struct Words<'a> {
    list: Vec<&'a str>,
    /// Whether the word at each position is settled. An object format, in a fifth position, never is: LLVM moves a
    /// word for it only to the position of the environment.
    settled: [bool; POSITIONS],
    meaning: Meaning,
}

/// Whether an operating system is Cygwin, by either of its names.
fn is_cygwin(os: &str) -> bool {
    os.starts_with("cygwin") || os.starts_with("msys")
}

impl<'a> Words<'a> {
    /// Splits the text, and marks the words that are already in the right position as settled.
    fn split(text: &'a str) -> Self {
        let list: Vec<&str> = text.split('-').collect();
        let [arch, vendor, os, environment, format] =
            [ARCH, VENDOR, OS, ENVIRONMENT, FORMAT].map(|position| list.get(position).copied().unwrap_or(""));
        let meaning = Meaning {
            arch: tables::arch(arch),
            vendor: tables::vendor(vendor),
            os: tables::os(os),
            is_mingw: os.starts_with("mingw"),
            is_cygwin: is_cygwin(os),
            environment: tables::environment(environment),
            format: tables::object_format(format),
        };
        // An object format in the fifth position is never settled, as in LLVM.
        let settled = [
            !meaning.arch.is_empty(),
            !meaning.vendor.is_empty(),
            !meaning.os.is_empty(),
            !meaning.environment.is_empty(),
        ];
        Words { list, settled, meaning }
    }

    fn get(&self, position: usize) -> &'a str {
        self.list.get(position).copied().unwrap_or("")
    }

    fn set(&mut self, position: usize, word: &'a str) {
        if let Some(slot) = self.list.get_mut(position) {
            *slot = word;
        }
    }

    fn is_settled(&self, position: usize) -> bool {
        self.settled.get(position).copied().unwrap_or(false)
    }

    /// Returns the first position from `position` on that has no settled word; it may be after the last word.
    fn next_unsettled(&self, mut position: usize) -> usize {
        while self.is_settled(position) {
            position += 1;
        }
        position
    }

    /// Finds a word for each position that has no settled word yet, and moves the word there.
    fn sort_into_positions(&mut self) {
        for position in 0..POSITIONS {
            if self.is_settled(position) {
                continue;
            }
            let Some(from) = self.find_word_for(position) else { continue };
            self.move_word(from, position);
            if let Some(settled) = self.settled.get_mut(position) {
                *settled = true;
            }
        }
        // As in LLVM, the `none` of `<architecture>-none-<environment>` is the operating system and not the vendor.
        let [arch, vendor, os, environment] = self.settled;
        if arch && !vendor && !os && environment && self.get(VENDOR) == "none" && self.get(OS).is_empty() {
            self.list.swap(VENDOR, OS);
        }
    }

    /// Returns the position of the first unsettled word that has a meaning at `position`, or `None` if no word does.
    /// Records the meaning of the last word that was tried.
    fn find_word_for(&mut self, position: usize) -> Option<usize> {
        let mut from = 0;
        while from < self.list.len() {
            if !self.is_settled(from) && self.meaning.try_word(position, self.get(from)) {
                return Some(from);
            }
            from += 1;
        }
        None
    }

    /// Moves the word at `from` to the position `to`, as LLVM does. Unsettled words in between move aside.
    fn move_word(&mut self, from: usize, to: usize) {
        if to < from {
            let word = self.get(from);
            self.set(from, "");
            self.insert(to, word);
            return;
        }
        // Each empty word that is inserted at the word's position pushes the word to the next unsettled position.
        let mut at = from;
        while at < to {
            self.insert(at, "");
            at = self.next_unsettled(at + 1);
        }
    }

    /// Puts `word` at the unsettled position `at`. The old word there moves to the next unsettled position and pushes
    /// the old word of that position on. This ends where an empty word is overwritten, or at the end of the text.
    fn insert(&mut self, at: usize, word: &'a str) {
        let mut carried = word;
        let mut position = at;
        while let Some(slot) = self.list.get_mut(position) {
            std::mem::swap(slot, &mut carried);
            if carried.is_empty() {
                return;
            }
            position = self.next_unsettled(position + 1);
        }
        self.list.push(carried);
    }

    /// Replaces empty words with `unknown`.
    fn name_the_missing(&mut self) {
        for word in &mut self.list {
            if word.is_empty() {
                *word = UNKNOWN;
            }
        }
    }

    /// Returns the environment `android<version>` for `androideabi<version>`, its older spelling, or `None` for another
    /// environment.
    fn android_without_eabi(&self) -> Option<String> {
        // As in LLVM, both the word and the recorded meaning are checked. The meaning is that of the last word that was
        // tried as an environment, which may be another word.
        let version = self.get(ENVIRONMENT).strip_prefix("androideabi")?;
        if self.meaning.environment != "android" {
            return None;
        }
        Some(format!("android{version}"))
    }

    /// Replaces `gnueabi` of SUSE with `gnueabihf`, the hard-float ABI that SUSE means by it.
    fn respell_environment(&mut self) {
        if self.meaning.vendor == "suse" && self.meaning.environment == "gnueabi" {
            self.set(ENVIRONMENT, "gnueabihf");
        }
    }

    /// Respells the names of Windows as `windows-<environment>`, and appends an object format other than COFF. Does
    /// nothing for other systems.
    fn respell_windows(&mut self) {
        let Meaning { os, is_mingw, is_cygwin, environment, format, .. } = self.meaning;
        let is_win32 = os == "win32";
        if !(is_win32 || is_mingw || is_cygwin) {
            return;
        }
        // COFF is the default on Windows, so it is not named.
        let other_format = if matches!(format, "" | "coff") { None } else { Some(format) };
        let is_environment_known = !environment.is_empty();
        // As in LLVM, an object format without an environment takes the position of the environment.
        let (environment, appended_format) = if is_win32 && is_environment_known {
            (self.get(ENVIRONMENT), other_format)
        } else if is_win32 {
            (other_format.unwrap_or("msvc"), None)
        } else if is_mingw {
            ("gnu", other_format)
        } else {
            ("cygnus", other_format)
        };
        // As in LLVM, words after the environment are dropped. A format other than COFF is appended again.
        self.list.resize(POSITIONS, "");
        self.set(OS, "windows");
        self.set(ENVIRONMENT, environment);
        if let Some(name) = appended_format {
            self.list.push(name);
        }
    }

    /// Replaces the architecture `dxil`, which has no version, with `dxilv1.N` if the operating system is the shader
    /// model 6.N.
    fn respell_dxil(&mut self) {
        if self.get(ARCH) != "dxil" {
            return;
        }
        // As in LLVM, a triple for DXIL names no object format.
        self.list.truncate(POSITIONS);
        if self.meaning.os == "shadermodel" {
            self.set(ARCH, dxil_word(self.get(OS)));
        }
    }
}

impl Meaning {
    /// Tries a word at a position: records the meaning that it has there, and returns whether it has one.
    fn try_word(&mut self, position: usize, word: &str) -> bool {
        match position {
            ARCH => {
                self.arch = tables::arch(word);
                !self.arch.is_empty()
            }
            VENDOR => {
                self.vendor = tables::vendor(word);
                !self.vendor.is_empty()
            }
            OS => {
                // The table lacks MinGW and Cygwin. `respell_windows` replaces their names.
                self.os = tables::os(word);
                self.is_mingw = word.starts_with("mingw");
                self.is_cygwin = is_cygwin(word);
                !self.os.is_empty() || self.is_mingw || self.is_cygwin
            }
            // As in LLVM, an object format may also be in the position of the environment.
            _ => {
                self.environment = tables::environment(word);
                if !self.environment.is_empty() {
                    return true;
                }
                self.format = tables::object_format(word);
                !self.format.is_empty()
            }
        }
    }
}

/// Returns the architecture word for DXIL of a shader model: `dxilv1.3` for `shadermodel6.3`, and the latest version
/// for `shadermodel6.x`. As in LLVM, other shader models get the oldest version.
fn dxil_word(shader_model: &str) -> &'static str {
    let [oldest, .., latest] = DXIL_WORDS;
    let version = shader_model.strip_prefix("shadermodel").unwrap_or("");
    if version == "6.x" {
        return latest;
    }
    let Some((6, minor)) = major_minor(version) else { return oldest };
    let Ok(minor) = usize::try_from(minor) else { return oldest };
    DXIL_WORDS.get(minor).copied().unwrap_or(oldest)
}

/// Returns the first two numbers of a version, which LLVM accepts with two to four numbers separated by dots, or `None`
/// for another text.
fn major_minor(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.split('.').map(decimal);
    let major = numbers.next()??;
    // LLVM keeps 31 bits of the minor number.
    let minor = numbers.next()?? & (u32::MAX >> 1);
    let mut further = 0;
    for number in numbers {
        number?;
        further += 1;
    }
    if further <= 2 { Some((major, minor)) } else { None }
}

/// Returns a decimal number modulo 2^32, or `None` for another text. As in LLVM, too large a number wraps around.
fn decimal(digits: &str) -> Option<u32> {
    if digits.is_empty() {
        return None;
    }
    let mut number = 0_u32;
    for digit in digits.chars() {
        number = number.wrapping_mul(10).wrapping_add(digit.to_digit(10)?);
    }
    Some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Input and result, from LLVM 22.1.8.
    const FOUR: &[(&str, &str)] = &[
        ("x86_64-unknown-linux-gnu", "x86_64-unknown-linux-gnu"),
        ("x86_64-pc-linux-gnu", "x86_64-pc-linux-gnu"),
        ("x86_64", "x86_64-unknown-unknown-unknown"),
        ("x86_64-linux", "x86_64-unknown-linux-unknown"),
        ("x86_64-linux-gnu", "x86_64-unknown-linux-gnu"),
        ("x86_64--linux", "x86_64-unknown-linux-unknown"),
        ("x86_64-unknown-linux-", "x86_64-unknown-linux-unknown"),
        ("amdgcn-amd-amdhsa", "amdgcn-amd-amdhsa-unknown"),
        ("amdgcn-amd-amdhsa-", "amdgcn-amd-amdhsa-unknown"),
        ("amdgcn-amd-amdhsa--", "amdgcn-amd-amdhsa-unknown"),
        ("amdgcn-amd-amdhsa--gfx906", "amdgcn-amd-amdhsa-unknown"),
        ("amdgcn-amd-amdhsa-unknown", "amdgcn-amd-amdhsa-unknown"),
        ("amdgcn--amdhsa", "amdgcn-unknown-amdhsa-unknown"),
        ("amdgcn", "amdgcn-unknown-unknown-unknown"),
        ("amd-amdgcn-amdhsa", "amdgcn-amd-amdhsa-unknown"),
        ("amdhsa-amd-amdgcn", "amdgcn-amd-amdhsa-unknown"),
        ("nvptx64-nvidia-cuda", "nvptx64-nvidia-cuda-unknown"),
        ("nvptx64-nvidia", "nvptx64-nvidia-unknown-unknown"),
        ("nvptx64-cuda", "nvptx64-unknown-cuda-unknown"),
        ("spirv64-amd-amdhsa", "spirv64-amd-amdhsa-unknown"),
        ("spirv64-intel-unknown", "spirv64-intel-unknown-unknown"),
        ("spir64", "spir64-unknown-unknown-unknown"),
        ("gnu-linux-pc-i386", "i386-pc-linux-gnu"),
        ("i386-linux", "i386-unknown-linux-unknown"),
        ("linux-i386", "i386-unknown-linux-unknown"),
        ("pc-i386", "i386-pc-unknown-unknown"),
        ("i386-mingw32", "i386-unknown-windows-gnu"),
        ("i686-w64-mingw32", "i686-w64-windows-gnu"),
        ("i686-pc-mingw32-macho", "i686-pc-windows-gnu"),
        ("mingw32", "unknown-unknown-windows-gnu"),
        ("i686-pc-cygwin", "i686-pc-windows-cygnus"),
        ("i686-pc-cygwin-elf", "i686-pc-windows-cygnus"),
        ("cygwin-i686", "i686-unknown-windows-cygnus"),
        ("cygwin", "unknown-unknown-windows-cygnus"),
        ("i386-pc-win32", "i386-pc-windows-msvc"),
        ("x86_64-pc-windows", "x86_64-pc-windows-msvc"),
        ("x86_64-pc-windows-msvc19.11", "x86_64-pc-windows-msvc19.11"),
        ("x86_64-pc-win32-elf", "x86_64-pc-windows-elf"),
        ("x86_64-pc-windows-gnu-elf", "x86_64-pc-windows-gnu"),
        ("x86_64-pc-windows-coff", "x86_64-pc-windows-msvc"),
        ("x86_64-windows-macho", "x86_64-unknown-windows-macho"),
        ("x86_64-windows-macho-gnu", "x86_64-unknown-windows-gnu"),
        ("windows", "unknown-unknown-windows-msvc"),
        ("win32-pc", "unknown-pc-windows-msvc"),
        ("x86_64-windows-gnu-elf-macho", "x86_64-unknown-windows-gnu"),
        ("thumbv7-pc-windows-elf-msvc", "thumbv7-pc-windows-elf"),
        ("arm-none-eabi", "arm-unknown-none-eabi"),
        ("arm-none-none-eabi", "arm-none-none-eabi"),
        ("arm-none-linux-eabi", "arm-none-linux-eabi"),
        ("arm-pc-none-eabi", "arm-pc-none-eabi"),
        ("arm-none", "arm-none-unknown-unknown"),
        ("arm-other-eabi", "arm-other-unknown-eabi"),
        ("other-none-eabi", "other-none-unknown-eabi"),
        ("armv7m-none-eabi-elf", "armv7m-unknown-none-eabi"),
        ("arm-eabi", "arm-unknown-unknown-eabi"),
        ("none-arm-eabi", "arm-unknown-none-eabi"),
        ("aarch64-none-elf", "aarch64-unknown-none-elf"),
        ("riscv64-unknown-elf", "riscv64-unknown-unknown-elf"),
        ("elf-riscv64", "riscv64-unknown-unknown-elf"),
        ("arm-linux-androideabi", "arm-unknown-linux-android"),
        ("arm-linux-androideabi21", "arm-unknown-linux-android21"),
        ("arm-unknown-linux-androideabi16-elf", "arm-unknown-linux-android16"),
        ("aarch64-linux-android21", "aarch64-unknown-linux-android21"),
        ("androideabi", "unknown-unknown-unknown-android"),
        ("armv7-suse-linux-gnueabi", "armv7-suse-linux-gnueabihf"),
        ("arm-suse-linux-gnueabi", "arm-suse-linux-gnueabihf"),
        ("arm-suse-gnueabi", "arm-suse-unknown-gnueabihf"),
        ("armv7-suse-linux-gnueabihf", "armv7-suse-linux-gnueabihf"),
        ("suse-linux-gnueabi-arm", "arm-suse-linux-gnueabihf"),
        ("dxil-pc-shadermodel6.3-hull", "dxilv1.3-pc-shadermodel6.3-hull"),
        ("dxil-pc-shadermodel6.0", "dxilv1.0-pc-shadermodel6.0-unknown"),
        ("dxil-pc-shadermodel6.9-library", "dxilv1.9-pc-shadermodel6.9-library"),
        ("dxil-pc-shadermodel6.x-hull", "dxilv1.9-pc-shadermodel6.x-hull"),
        ("dxil-pc-shadermodel", "dxilv1.0-pc-shadermodel-unknown"),
        ("dxil-shadermodel5.1-pixel", "dxilv1.0-unknown-shadermodel5.1-pixel"),
        ("dxil-pc-shadermodel6.2.1-hull-elf", "dxilv1.2-pc-shadermodel6.2.1-hull"),
        ("dxilv1.2-pc-shadermodel6.7-hull", "dxilv1.2-pc-shadermodel6.7-hull"),
        ("dxil-pc-linux", "dxil-pc-linux-unknown"),
        ("dxil-unknown-unknown-hull-elf-x", "dxil-unknown-unknown-hull"),
        ("shadermodel6.5-dxil", "dxilv1.5-unknown-shadermodel6.5-unknown"),
        ("dxil-pc-shadermodel4294967302.3", "dxilv1.3-pc-shadermodel4294967302.3-unknown"),
        ("dxil-pc-shadermodel6.2147483650", "dxilv1.2-pc-shadermodel6.2147483650-unknown"),
        ("dxil-pc-shadermodel6.2.3.4.5", "dxilv1.0-pc-shadermodel6.2.3.4.5-unknown"),
        ("", "unknown-unknown-unknown-unknown"),
        ("-", "unknown-unknown-unknown-unknown"),
        ("--", "unknown-unknown-unknown-unknown"),
        ("---", "unknown-unknown-unknown-unknown"),
        ("----", "unknown-unknown-unknown-unknown"),
        ("a", "a-unknown-unknown-unknown"),
        ("a-b", "a-b-unknown-unknown"),
        ("a-b-c", "a-b-c-unknown"),
        ("a-b-c-d", "a-b-c-d"),
        ("a-b-c-d-e", "a-b-c-d"),
        ("a-b-c-d-e-f-g", "a-b-c-d"),
        ("unknown", "unknown-unknown-unknown-unknown"),
        ("unknown-unknown", "unknown-unknown-unknown-unknown"),
        ("none", "none-unknown-unknown-unknown"),
        ("a-b-i386", "i386-a-b-unknown"),
        ("a-pc-b", "a-pc-b-unknown"),
        ("pc-a", "unknown-pc-a-unknown"),
        ("linux", "unknown-unknown-linux-unknown"),
        ("gnu", "unknown-unknown-unknown-gnu"),
        ("elf", "unknown-unknown-unknown-elf"),
        ("macho-a", "unknown-unknown-unknown-macho"),
        ("a-b-c-d-elf", "a-b-c-elf"),
        ("a-b-c-d-linux", "a-b-linux-c"),
        ("a-b-c-d-e-f-i386", "i386-a-b-c"),
        ("i386-a-b-c-d-pc", "i386-pc-a-b"),
        ("i386--pc", "i386-pc-unknown-unknown"),
        ("-i386", "i386-unknown-unknown-unknown"),
        ("--i386-pc", "i386-pc-unknown-unknown"),
        ("linux-linux-linux", "linux-linux-linux-unknown"),
        ("i386-i386", "i386-i386-unknown-unknown"),
        ("pc-pc-pc-pc", "pc-pc-pc-pc"),
        ("x86_64-apple-macosx10.15-macho", "x86_64-apple-macosx10.15-macho"),
        ("arm64-apple-ios14.0-simulator", "arm64-apple-ios14.0-simulator"),
        ("x86_64-apple-darwin20", "x86_64-apple-darwin20-unknown"),
        ("ppc64-ibm-aix7.2", "ppc64-ibm-aix7.2-unknown"),
        ("wasm32-wasip2", "wasm32-unknown-wasip2-unknown"),
        ("wasm32-unknown-unknown-wasm", "wasm32-unknown-unknown-wasm"),
        ("x86_64-meta-linux-mtia", "x86_64-meta-linux-mtia"),
        ("mips64el-img-linux-gnuabi64", "mips64el-img-linux-gnuabi64"),
        ("X86_64-Linux", "X86_64-Linux-unknown-unknown"),
        ("\u{e9}-linux-pc", "\u{e9}-pc-linux-unknown"),
        ("generic-linux-\u{e9}", "generic-unknown-linux-\u{e9}"),
        ("gnu-none-i386-x", "i386-unknown-unknown-gnu"),
        ("elf-mingw32-pc-i686-x-cygwin", "i686-pc-windows-gnu"),
    ];

    const THREE: &[(&str, &str)] = &[
        ("x86_64-pc-linux-gnu", "x86_64-pc-linux"),
        ("x86_64-linux", "x86_64-unknown-linux"),
        ("i686-pc-cygwin-elf", "i686-pc-windows"),
        ("x86_64-windows-macho", "x86_64-unknown-windows"),
        ("arm-none-eabi", "arm-unknown-none"),
        ("dxil-pc-shadermodel6.3-hull", "dxilv1.3-pc-shadermodel6.3"),
        ("", "unknown-unknown-unknown"),
        ("----", "unknown-unknown-unknown"),
        ("a", "a-unknown-unknown"),
        ("a-b-c-d-e", "a-b-c"),
        ("gnu", "unknown-unknown-unknown"),
    ];

    const ANY: &[(&str, &str)] = &[
        ("x86_64-pc-linux-gnu", "x86_64-pc-linux-gnu"),
        ("x86_64-linux", "x86_64-unknown-linux"),
        ("i686-pc-cygwin-elf", "i686-pc-windows-cygnus-elf"),
        ("x86_64-windows-macho", "x86_64-unknown-windows-macho"),
        ("arm-none-eabi", "arm-unknown-none-eabi"),
        ("dxil-pc-shadermodel6.3-hull", "dxilv1.3-pc-shadermodel6.3-hull"),
        ("", "unknown"),
        ("----", "unknown-unknown-unknown-unknown-unknown"),
        ("a", "a"),
        ("a-b-c-d-e", "a-b-c-d-e"),
        ("gnu", "unknown-unknown-unknown-gnu"),
    ];

    #[test]
    fn same_as_llvm() {
        for (table, form) in [(FOUR, Form::Four), (THREE, Form::Three), (ANY, Form::Any)] {
            for (text, expected) in table {
                assert_eq!(normalize(text, form), *expected, "{text:?} {form:?}");
            }
        }
    }

    #[test]
    fn normal_form_stays() {
        for (_, normal) in FOUR {
            assert_eq!(normalize(normal, Form::Four), *normal);
        }
    }

    #[test]
    fn shader_model_llvm_aborts_on() {
        for version in ["6.10", "6.99", "6.010"] {
            let text = format!("dxil-pc-shadermodel{version}-hull");
            assert_eq!(normalize(&text, Form::Four), format!("dxilv1.0-pc-shadermodel{version}-hull"));
        }
    }

    #[test]
    fn dxil_words_are_architectures() {
        for word in DXIL_WORDS {
            assert_eq!(tables::arch(word), "dxil", "{word}");
        }
    }
}

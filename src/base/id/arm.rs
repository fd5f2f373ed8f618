//! Reads architecture words of the ARM family (`armv7a`, `thumbebv6m`, `aarch64v8.2a`) as LLVM 22.1.8 does.
//!
//! LLVM is lenient here: any text after the family name that looks like a version (`v` and a digit), and any single
//! character, gives the architecture, even if the version is unknown. Only the sub-architecture requires a known
//! version. The end of its name is enough (`armm` is the M profile of version 6).

/// ARM versions in LLVM's order, each followed by other spellings that LLVM replaces with it. The order matters: a text
/// such as `m` means the first version that ends with it.
#[rustfmt::skip]
const VERSIONS: &[&[&str]] = &[
    &["v4"], &["v4t"], &["v5t", "v5"], &["v5te", "v5e"], &["v5tej"], &["v6", "v6j"], &["v6k", "v6hl"], &["v6t2"],
    &["v6kz", "v6z", "v6zk"], &["v6-m", "v6m", "v6sm", "v6s-m"], &["v7-a", "v7", "v7a", "v7hl", "v7l"], &["v7ve"],
    &["v7-r", "v7r"], &["v7-m", "v7m"], &["v7e-m", "v7em"], &["v8-a", "v8", "v8a", "v8l", "aarch64", "arm64"],
    &["v8.1-a", "v8.1a"], &["v8.2-a", "v8.2a"], &["v8.3-a", "v8.3a"], &["v8.4-a", "v8.4a"], &["v8.5-a", "v8.5a"],
    &["v8.6-a", "v8.6a"], &["v8.7-a", "v8.7a"], &["v8.8-a", "v8.8a"], &["v8.9-a", "v8.9a"], &["v9-a", "v9", "v9a"],
    &["v9.1-a", "v9.1a"], &["v9.2-a", "v9.2a"], &["v9.3-a", "v9.3a"], &["v9.4-a", "v9.4a"], &["v9.5-a", "v9.5a"],
    &["v9.6-a", "v9.6a"], &["v9.7-a", "v9.7a"], &["v8-r", "v8r"], &["v8-m.base", "v8m.base"],
    &["v8-m.main", "v8m.main"], &["v8.1-m.main", "v8.1m.main"], &["iwmmxt"], &["iwmmxt2"], &["xscale"], &["v7s"],
    &["v7k"],
];

/// Family names, which begin words. A name that begins with another one precedes it.
const FAMILIES: &[&str] = &["arm64_32", "arm64e", "arm64", "arm", "aarch64_32", "aarch64_be", "aarch64", "thumb"];

/// Returns LLVM's main name of the ARM architecture that `word`, the first field of a triple, names. Returns an empty
/// text for other families, and for a word that cannot have a version. Words in the table of architectures do not get
/// here: see [`triple_tables::arch`](super::triple_tables::arch).
pub(super) fn arch(word: &str) -> &'static str {
    let is_thumb = word.starts_with("thumb");
    let is_64_bit = word.starts_with("aarch64") || word.starts_with("arm64");
    if !(is_thumb || is_64_bit || word.starts_with("arm")) {
        return "";
    }
    let Some(version) = version_part(word) else {
        return "";
    };
    // Thumb was introduced in version 4.
    if is_thumb && (version.starts_with("v2") || version.starts_with("v3")) {
        return "";
    }
    let is_big = is_big_endian(word);
    // The M profile of version 6 has no ARM instruction set, whatever the family name.
    if is_thumb || sub_arch(version) == "v6-m" {
        return if is_big { "thumbeb" } else { "thumb" };
    }
    if is_64_bit {
        return if is_big { "aarch64_be" } else { "aarch64" };
    }
    if is_big { "armeb" } else { "arm" }
}

/// Whether a word of the ARM family names a big-endian architecture: `_be` for `aarch64`, `eb` for the others.
fn is_big_endian(word: &str) -> bool {
    if word.starts_with("aarch64") {
        word.starts_with("aarch64_be")
    } else {
        word.starts_with("armeb") || word.starts_with("thumbeb") || word.ends_with("eb")
    }
}

/// Returns the version part of an architecture word, as LLVM's function `getCanonicalArchName` does: the word without
/// its family name and `eb`. Returns `None` if the rest cannot be a version.
///
/// A word of nothing but a family name and `eb` is returned whole (`thumb`). A word without a family name, which may be
/// a version itself (`xscale`), only loses a trailing `eb`.
pub(super) fn version_part(word: &str) -> Option<&str> {
    if word.is_empty() {
        return None;
    }
    let Some(rest) = FAMILIES.iter().find_map(|family| word.strip_prefix(family)) else {
        let rest = word.strip_suffix("eb").unwrap_or(word);
        return Some(if rest.is_empty() { word } else { rest });
    };
    // The 64-bit names spell big-endian as `_be`.
    if word.starts_with("aarch64") && !word.starts_with("aarch64_32") && word.contains("eb") {
        return None;
    }
    let rest = rest.strip_prefix("eb").or_else(|| rest.strip_suffix("eb")).unwrap_or(rest);
    // As in LLVM, a version of one character may be any character. A longer version begins with `v` and a digit.
    let looks_like_version = match rest.as_bytes() {
        [] => return Some(word),
        [_] => true,
        [first, second, ..] => *first == b'v' && second.is_ascii_digit(),
    };
    if looks_like_version && !rest.contains("eb") { Some(rest) } else { None }
}

/// Returns the sub-architecture that LLVM's triples have for a result of [`version_part`]; empty if they have none.
pub(super) fn sub_arch(version: &str) -> &'static str {
    // LLVM takes the version part of its own result again, which removes a second trailing `eb`.
    let Some(text) = version_part(version) else {
        return "";
    };
    let text = match VERSIONS.iter().find(|names| names.contains(&text)) {
        Some([name, ..]) => name,
        _ => text,
    };
    // LLVM compares only the ends of its full names, and takes the first version that fits.
    let mut versions = VERSIONS.iter().filter_map(|names| names.first().copied());
    match versions.find(|version| full_name_ends_with(version, text)).unwrap_or_default() {
        // LLVM knows more versions than its triples have sub-architectures.
        "v4" => "",
        "v5tej" | "iwmmxt" | "iwmmxt2" | "xscale" => "v5te",
        "v6kz" => "v6k",
        "v7-r" => "v7-a",
        version => version,
    }
}

/// Whether LLVM's full name of a version ends with `text`. In LLVM, names that begin with `v` have `arm` before them
/// (`armv7-a`), which [`VERSIONS`] leaves out; other names have not (`xscale`).
fn full_name_ends_with(version: &str, text: &str) -> bool {
    if version.ends_with(text) {
        return true;
    }
    match text.strip_suffix(version) {
        Some(before) if version.starts_with('v') => "arm".ends_with(before),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_parts() {
        let cases = [
            ("armv7a", Some("v7a")),
            ("armebv7a", Some("v7a")),
            ("armv7aeb", Some("v7a")),
            ("armebv7aeb", None),
            ("aarch64_bev8", Some("v8")),
            ("aarch64eb", None),
            ("arm64_32v8", Some("v8")),
            ("thumb", Some("thumb")),
            ("armx", Some("x")),
            ("armxy", None),
            ("armvx", None),
            ("xscaleeb", Some("xscale")),
            ("eb", Some("eb")),
            ("", None),
        ];
        for (word, expected) in cases {
            assert_eq!(version_part(word), expected, "{word:?}");
        }
    }

    #[test]
    fn names_are_unique() {
        let mut seen = std::collections::HashSet::new();
        for name in VERSIONS.iter().copied().flatten() {
            assert!(seen.insert(name), "{name}");
        }
        for (row, family) in FAMILIES.iter().enumerate() {
            assert!(!FAMILIES[..row].iter().any(|earlier| family.starts_with(earlier)), "{family}");
        }
    }
}

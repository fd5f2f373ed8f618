//! Gives a wheel a local version, such as `1.0+gfx942`, because package indexes never take two files of one name.
//!
//! A wheel has its version in its file name, in `METADATA`, and in the names of its directories
//! `NAME-VERSION.dist-info` and `NAME-VERSION.data`, and so in `RECORD`. All of them change, or installers refuse the
//! wheel. The sources are PyPA's "Version specifiers" (PEP 440) and "Binary distribution format".
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::base::bytes::text;
use crate::base::error::{Error, ErrorKind, Result};
use crate::beyond::job::output_file::named_output;

/// A local version label in the normal form of PEP 440: letters, digits and dots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalVersion(String);

impl LocalVersion {
    /// Returns the label in its normal form: lower-case letters, parts separated by dots, numbers without leading
    /// zeros. Returns `None` if a part between separators (`.`, `-` or `_`) is empty or has other characters than ASCII
    /// letters and digits.
    pub fn new(label: &str) -> Option<Self> {
        let mut parts = Vec::new();
        for part in label.split(['.', '-', '_']) {
            if part.is_empty() || !part.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
                return None;
            }
            parts.push(normal_part(&part.to_ascii_lowercase()));
        }
        Some(Self(parts.join(".")))
    }

    /// Adds the label to a version. A version can have only one label, so this one is appended to a label that is
    /// there.
    fn add_to(&self, version: &str) -> String {
        // A plus sign begins the label of a version.
        let separator = if version.contains('+') { '.' } else { '+' };
        format!("{version}{separator}{}", self.0)
    }

    /// Returns whether the label of a version is this one, or ends with this one after a dot.
    fn is_last_label_of(&self, version: &str) -> bool {
        let Some((_, local)) = version.split_once('+') else { return false };
        let Some(Self(local)) = Self::new(local) else { return false };
        local == self.0 || local.ends_with(&format!(".{}", self.0))
    }
}

/// Returns a part of a label, without leading zeros if it is a number.
fn normal_part(part: &str) -> String {
    if !part.bytes().all(|byte| byte.is_ascii_digit()) {
        return part.to_owned();
    }
    match part.trim_start_matches('0') {
        "" => "0".to_owned(),
        number => number.to_owned(),
    }
}

/// The directories at the top of a wheel whose names have its version.
const INFO: &str = ".dist-info";
const DATA: &str = ".data";

/// A wheel that gets a local version.
pub(super) struct WheelVersion<'j> {
    path: &'j Path,
    label: &'j LocalVersion,
    /// The name and the version of the wheel, as its file name has them.
    name: String,
    version: String,
    /// The rest of the file name: the tags, with the build number before them if there is one.
    tags: String,
}

impl<'j> WheelVersion<'j> {
    /// Reads the file name of a wheel.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if it is not the name of a wheel; [`ErrorKind::Conflict`] if the wheel has the label
    /// already.
    pub(super) fn of_file(path: &'j Path, label: &'j LocalVersion) -> Result<Self> {
        let Some((name, version, tags)) = split_file_name(path) else {
            let reason = "a local version is only for wheels, and the name of the file is not that of a wheel: \
                          NAME-VERSION-PYTHON-ABI-PLATFORM.whl";
            return Err(Error::refused(ErrorKind::Unsupported, path, None, reason));
        };
        if label.is_last_label_of(&version) {
            let reason = format!("the version {version} has the local version {} already", label.0);
            return Err(Error::refused(ErrorKind::Conflict, path, None, reason));
        }
        Ok(Self { path, label, name, version, tags })
    }

    /// Returns the path of the new wheel: in the directory `output`, or `output` itself if it has the name of the new
    /// wheel.
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`] if `output` is no directory and has another name: installers refuse a wheel
    /// with another file name.
    pub(super) fn output_path(&self, output: &Path) -> Result<PathBuf> {
        let file_name = format!("{}-{}-{}", self.name, self.label.add_to(&self.version), self.tags);
        let path = named_output(output, file_name.as_ref())?;
        if path.file_name() == Some(file_name.as_ref()) {
            return Ok(path);
        }
        let reason =
            format!("the new wheel must have the name '{file_name}': give this name, or a directory that exists");
        Err(Error::refused(ErrorKind::Conflict, output, None, reason))
    }

    /// Checks that a zip file with members of these names is a wheel of this name and version. Returns the path of its
    /// `.dist-info` directory, with a slash at its end.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if there is not exactly one `.dist-info` directory, if it lacks a file that
    /// wheels have, or if its name has another project or version.
    pub(super) fn find_info(&self, names: &[&[u8]]) -> Result<String> {
        let mut found: Option<&[u8]> = None;
        for name in names {
            let Some((directory, _)) = split_top(name) else { continue };
            if !directory.ends_with(INFO.as_bytes()) || found == Some(directory) {
                continue;
            }
            if found.is_some() {
                return Err(self.refused("it is not a wheel: it has more than one directory NAME-VERSION.dist-info"));
            }
            found = Some(directory);
        }
        let Some(directory) = found else {
            return Err(self.refused("it is not a wheel: it has no directory NAME-VERSION.dist-info"));
        };
        let Some(directory) = text(directory) else {
            return Err(self.refused("it is not a wheel: the name of its .dist-info directory is not UTF-8"));
        };
        if self.split_directory(&directory).is_none() {
            return Err(self.refused(format!(
                "its directory '{directory}' has another name or version than the file name, '{}-{}'",
                self.name, self.version
            )));
        }
        let directory = format!("{directory}/");
        // Installers need these files.
        for file in ["METADATA", "RECORD", "WHEEL"] {
            let path = format!("{directory}{file}");
            if !names.contains(&path.as_bytes()) {
                return Err(self.refused(format!("it is not a wheel: it has no '{path}'")));
            }
        }
        Ok(directory)
    }

    /// Returns the new name of a member, or `None` if the version is not in its name.
    pub(super) fn new_name(&self, member: &[u8]) -> Option<Vec<u8>> {
        let (directory, rest) = split_top(member)?;
        let directory = text(directory)?;
        let (stem, kind) = self.split_directory(&directory)?;
        Some([self.label.add_to(stem).as_bytes(), kind.as_bytes(), rest].concat())
    }

    /// Returns `METADATA` with the new version.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if its name or version is missing or is not that of the file name.
    pub(super) fn new_metadata(&self, old: &[u8]) -> Result<Vec<u8>> {
        let (name, version) = (self.field(old, "Name")?, self.field(old, "Version")?);
        if comparable_name(&name.value) != comparable_name(&self.name)
            || comparable_version(&version.value) != comparable_version(&self.version)
        {
            return Err(self.refused(format!(
                "METADATA has the name and version '{}-{}', and the file name has '{}-{}'",
                name.value, version.value, self.name, self.version
            )));
        }
        let new = self.label.add_to(&version.value);
        let (before, after) = (old.get(..version.range.start), old.get(version.range.end..));
        Ok([before.unwrap_or_default(), new.as_bytes(), after.unwrap_or_default()].concat())
    }

    /// Returns a field of `METADATA`. Fails if it is missing or there several times.
    fn field(&self, metadata: &[u8], name: &str) -> Result<Field> {
        match find_field(metadata, name) {
            Some(field) => Ok(field),
            None => Err(self.refused(format!("it is not a wheel: METADATA must have one line '{name}: …'"))),
        }
    }

    /// Splits the name of a directory into `NAME-VERSION`, and [`INFO`] or [`DATA`]. Returns `None` for directories
    /// that do not belong to this wheel.
    fn split_directory<'d>(&self, directory: &'d str) -> Option<(&'d str, &'d str)> {
        for kind in [INFO, DATA] {
            if let Some(stem) = directory.strip_suffix(kind) {
                let (name, version) = stem.rsplit_once('-')?;
                let is_of_wheel = comparable_name(name) == comparable_name(&self.name)
                    && comparable_version(version) == comparable_version(&self.version);
                return if is_of_wheel { Some((stem, kind)) } else { None };
            }
        }
        None
    }

    pub(super) fn refused(&self, reason: impl std::fmt::Display) -> Error {
        Error::refused(ErrorKind::Unsupported, self.path, None, reason)
    }
}

/// Splits the file name of a wheel into name, version and the rest, or returns `None` for another name.
fn split_file_name(path: &Path) -> Option<(String, String, String)> {
    let name = path.file_name()?.to_str()?;
    let parts: Vec<&str> = name.strip_suffix(".whl")?.split('-').collect();
    // A build number may precede the three tags.
    if !matches!(parts.len(), 5 | 6) || parts.iter().any(|part| part.is_empty()) {
        return None;
    }
    let mut parts = name.splitn(3, '-').map(str::to_owned);
    Some((parts.next()?, parts.next()?, parts.next()?))
}

/// Splits the name of a member before its first slash, or returns `None` if it is not in a directory.
fn split_top(member: &[u8]) -> Option<(&[u8], &[u8])> {
    let slash = member.iter().position(|&byte| byte == b'/')?;
    member.split_at_checked(slash)
}

/// Returns the name of a project in its normal form (PEP 503), for comparisons: small letters, and one dash for each
/// run of separators.
fn comparable_name(name: &str) -> String {
    let mut normal = String::with_capacity(name.len());
    for letter in name.chars() {
        let letter = if matches!(letter, '-' | '_' | '.') { '-' } else { letter.to_ascii_lowercase() };
        if letter != '-' || !normal.ends_with('-') {
            normal.push(letter);
        }
    }
    normal
}

/// Returns a version in a form that all spellings of one version share. Names of files have underscores instead of
/// dashes. A text that is not a version stays as it is, except for these and for capital letters.
fn comparable_version(version: &str) -> String {
    let version = version.trim().to_ascii_lowercase().replace('_', "-");
    normal_version(&version).unwrap_or(version)
}

/// The words before the number of a pre-release, post-release or development release, each with its normal form. A word
/// comes before the words that it begins with.
const PRE: [(&str, &str); 8] = [
    ("alpha", "a"),
    ("a", "a"),
    ("beta", "b"),
    ("b", "b"),
    ("preview", "rc"),
    ("pre", "rc"),
    ("rc", "rc"),
    ("c", "rc"),
];
const POST: [(&str, &str); 3] = [("post", ".post"), ("rev", ".post"), ("r", ".post")];
const DEV: [(&str, &str); 1] = [("dev", ".dev")];

/// Returns a version in the normal form of PEP 440, without zeros at the end of its release, which do not matter.
/// Returns `None` if the text is not a version. The text has small letters and no underscores.
fn normal_version(version: &str) -> Option<String> {
    let version = version.strip_prefix('v').unwrap_or(version);
    let (public, local) = match version.split_once('+') {
        Some((public, local)) => (public, format!("+{}", LocalVersion::new(local)?.0)),
        None => (version, String::new()),
    };
    let (epoch, public) = match public.split_once('!') {
        Some((epoch, public)) => (whole_number(epoch)?, public),
        None => ("0".to_owned(), public),
    };
    let (release, rest) = split_release(public)?;
    let (pre, rest) = split_suffix(rest, &PRE);
    let (post, rest) = match rest.strip_prefix('-').map(split_number) {
        // The number alone means a post-release.
        Some((Some(number), rest)) => (format!(".post{number}"), rest),
        _ => split_suffix(rest, &POST),
    };
    let (dev, rest) = split_suffix(rest, &DEV);
    if !rest.is_empty() {
        return None;
    }
    let epoch = if epoch == "0" { String::new() } else { format!("{epoch}!") };
    Some(format!("{epoch}{release}{pre}{post}{dev}{local}"))
}

/// Splits the release at the start of a version, such as `1.0`, and returns it without zeros at its end.
fn split_release(version: &str) -> Option<(String, &str)> {
    let (first, mut rest) = split_number(version);
    let mut numbers = vec![first?];
    while let Some((Some(number), after)) = rest.strip_prefix('.').map(split_number) {
        numbers.push(number);
        rest = after;
    }
    while numbers.len() > 1 && numbers.last().is_some_and(|last| last == "0") {
        numbers.pop();
    }
    Some((numbers.join("."), rest))
}

/// Splits one of some words and its number at the start of a text. A separator may precede each of the two. A missing
/// number is 0. Returns the word and the number in their normal form, or nothing if the text starts with another word.
fn split_suffix<'v>(text: &'v str, words: &[(&str, &str)]) -> (String, &'v str) {
    let after_separator = |text: &'v str| text.strip_prefix(['-', '.']).unwrap_or(text);
    for (word, normal) in words {
        if let Some(rest) = after_separator(text).strip_prefix(word) {
            let (number, rest) = split_number(after_separator(rest));
            return (format!("{normal}{}", number.as_deref().unwrap_or("0")), rest);
        }
    }
    (String::new(), text)
}

/// Splits the number at the start of a text, and returns it without leading zeros, or `None` if there is none.
fn split_number(text: &str) -> (Option<String>, &str) {
    let rest = text.trim_start_matches(|letter: char| letter.is_ascii_digit());
    let number = text.strip_suffix(rest).filter(|digits| !digits.is_empty());
    (number.map(normal_part), rest)
}

/// Returns a text that is a number, without leading zeros, or `None` for another text.
fn whole_number(text: &str) -> Option<String> {
    let (number, rest) = split_number(text);
    number.filter(|_| rest.is_empty())
}

/// A field of `METADATA`.
struct Field {
    value: String,
    /// The range of the value in `METADATA`.
    range: Range<usize>,
}

/// Returns a field of `METADATA`, or `None` if it is missing or there several times. The fields end at the first empty
/// line, after which a description may follow.
fn find_field(metadata: &[u8], name: &str) -> Option<Field> {
    let (mut found, mut line_start) = (None, 0_usize);
    for line in metadata.split_inclusive(|&byte| byte == b'\n') {
        if line.trim_ascii().is_empty() {
            break;
        }
        // `key` has the colon at its end, so `strip_suffix` never returns `None`.
        if let Some(colon) = line.iter().position(|&byte| byte == b':')
            && let Some((key, value)) = line.split_at_checked(colon.saturating_add(1))
            && key.strip_suffix(b":")?.eq_ignore_ascii_case(name.as_bytes())
        {
            if found.is_some() {
                return None;
            }
            // The range is that of the value without white space around it.
            let blanks = value.len().saturating_sub(value.trim_ascii_start().len());
            let value_start = line_start.saturating_add(key.len()).saturating_add(blanks);
            let value = text(value.trim_ascii())?;
            let range = value_start..value_start.saturating_add(value.len());
            found = Some(Field { value, range });
        }
        line_start = line_start.saturating_add(line.len());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(text: &str) -> LocalVersion {
        LocalVersion::new(text).unwrap()
    }

    #[test]
    fn labels_are_normalized_and_other_characters_rejected() {
        for (text, normal) in
            [("gfx942", "gfx942"), ("GFX942", "gfx942"), ("cu124_sm-90.1", "cu124.sm.90.1"), ("007.0.0a", "7.0.0a")]
        {
            assert_eq!(label(text).0, normal, "{text}");
        }
        for text in ["", ".", "a.", "-a", "a..b", "gfx90a:xnack+", "a b", "größe", "a+b", "a/b"] {
            assert_eq!(LocalVersion::new(text), None, "{text}");
        }
    }

    #[test]
    fn a_label_follows_one_that_is_there() {
        for (version, new) in [("1.0", "1.0+gfx942"), ("2.9+rocm6.4", "2.9+rocm6.4.gfx942"), ("1!2", "1!2+gfx942")] {
            assert_eq!(label("gfx942").add_to(version), new);
        }
        for (version, is_end) in [
            ("1.0+gfx942", true),
            ("1.0+rocm6.4.gfx942", true),
            ("1.0+rocm6_4-GFX942", true),
            ("1.0+xgfx942", false),
            ("1.0", false),
            ("1.0.gfx942", false),
        ] {
            assert_eq!(label("gfx942").is_last_label_of(version), is_end, "{version}");
        }
    }

    #[test]
    fn file_names_of_wheels_are_split_before_their_tags() {
        for (name, expected) in [
            ("a_b-1.0-py3-none-any.whl", Some(("a_b", "1.0", "py3-none-any.whl"))),
            ("a-1.0+x-1-cp39-abi3-linux_x86_64.whl", Some(("a", "1.0+x", "1-cp39-abi3-linux_x86_64.whl"))),
            ("a-1.0-none-any.whl", None),
            ("a-1-2-3-4-5-6.whl", None),
            ("a--1-py3-none-any.whl", None),
            ("a-1.0-py3-none-any.zip", None),
            ("small.whl", None),
        ] {
            let expected = expected.map(|(name, version, tags)| (name.to_owned(), version.to_owned(), tags.to_owned()));
            assert_eq!(split_file_name(&Path::new("dir").join(name)), expected, "{name}");
        }
    }

    #[test]
    fn only_directories_of_this_wheel_are_renamed() {
        let (path, label) = (Path::new("Big_Name-1.0_1-py3-none-any.whl"), label("x"));
        let version = WheelVersion::of_file(path, &label).unwrap();
        for (name, expected) in [
            ("Big_Name-1.0_1.dist-info/METADATA", Some("Big_Name-1.0_1+x.dist-info/METADATA")),
            ("big.name-1.0_1.data/purelib/a", Some("big.name-1.0_1+x.data/purelib/a")),
            ("big_name-1.0_1.dist-info/", Some("big_name-1.0_1+x.dist-info/")),
            ("big_name-1.0_1.dist-info", None),
            ("big_name-1.0.dist-info/METADATA", None),
            ("other-1.0_1.data/a", None),
            ("big_name/big_name-1.0_1.dist-info/a", None),
        ] {
            let new = version.new_name(name.as_bytes());
            assert_eq!(new.as_deref(), expected.map(str::as_bytes), "{name}");
        }
    }

    #[test]
    fn all_spellings_of_a_version_are_equal() {
        // Each line is a version, in its normal form first.
        let versions = [
            "0 0.0 v00 0!0.0.0",
            "1 1.0 1.0.0 1.00 01.0 v1.0 V1.0.0 0!1.0 00!1",
            "1!1 1!1.0.0 01!1.0",
            "1.0.1 1.0.01 1.0.1.0",
            "1a0 1.0a 1.0.0alpha 1.0-ALPHA.0 1.0.a-00 1.0_a",
            "1b2 1.0beta2 1.0.Beta-02 1.0-b_2",
            "1rc1 1.0c1 1.0.pre1 1.0-preview_1 1RC.01 1.0.0rc01",
            "1.post0 1.0post 1.0-r 1.0.rev 1.0-0 1.0.post.0",
            "1.post1 1-1 1.0-01 1.0r1 1.0_rev-1 1.POST1",
            "1.dev0 1dev 1.0-dev 1.0.DEV.0",
            "1a1.post2.dev3 1.0a1-2dev3 1.0-alpha_1_r2_dev03 1.0.0.a.1.rev.2.dev.3",
            "1+cu124.1 1.0+CU124-01 1.0.0+cu124_1",
            "1+a0 1.0+A0",
        ];
        for line in versions {
            let normal = line.split(' ').next();
            for version in line.split(' ') {
                assert_eq!(Some(&*comparable_version(version)), normal, "{version}");
            }
        }
        // Names of files have underscores instead of dashes.
        assert_eq!(comparable_version("1.0_1"), "1.post1");
        for text in
            ["", "v", "1.", "1..0", "!1", "1!", "x1", "1x", "1.0a1b1", "1.0-1-2", "1.0+", "1.0+a..b", "1.0dev1post1"]
        {
            assert_eq!(normal_version(text), None, "{text}");
        }
        assert_eq!(comparable_version(" Unknown_1 "), "unknown-1");
    }

    #[test]
    fn all_spellings_of_a_name_are_equal() {
        for (name, normal) in
            [("Big.Name", "big-name"), ("big__-name", "big-name"), ("_x.", "-x-"), ("bigname", "bigname")]
        {
            assert_eq!(comparable_name(name), normal, "{name}");
        }
    }

    #[test]
    fn only_the_version_in_the_head_of_metadata_changes() {
        let (path, label) = (Path::new("big_name-1.0_1-py3-none-any.whl"), label("x"));
        let version = WheelVersion::of_file(path, &label).unwrap();
        let old =
            "Metadata-Version: 2.1\r\nname: Big.Name\r\nVERSION:\t1.0-1 \r\nSummary: Version: 2\r\n\r\nVersion: 3\r\n";
        let new = version.new_metadata(old.as_bytes()).unwrap();
        assert_eq!(String::from_utf8(new).unwrap(), old.replace("1.0-1", "1.0-1+x"));
        let spelled = old.replace("1.0-1", "1.post1");
        let new = version.new_metadata(spelled.as_bytes()).unwrap();
        assert_eq!(String::from_utf8(new).unwrap(), spelled.replace("1.post1", "1.post1+x"));
        for (from, to) in [
            ("1.0-1", "1.0.1"),
            ("Big.Name", "other"),
            ("VERSION", "Versions"),
            ("name:", "Version: 1.0-1\r\nname:"),
            ("Metadata", "\r\nMetadata"),
        ] {
            assert!(version.new_metadata(old.replace(from, to).as_bytes()).is_err(), "{to}");
        }
    }
}

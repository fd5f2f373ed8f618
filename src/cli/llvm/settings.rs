//! The options of a command line that LLVM's grammar accepts, as typed.

use std::ffi::{OsStr, OsString};

use offload_bundle::io::sys;

use crate::cli::values::boolean;

/// The options and the other words of a command line, in their order: the name of each, and its value. Every value is
/// one that the option's [`ValueKind`](super::options::ValueKind) accepts.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Settings(Vec<(&'static str, OsString)>);

impl Settings {
    pub(super) fn add(&mut self, name: &'static str, value: &[u8]) {
        self.0.push((name, sys::os_string(value.to_vec())));
    }

    /// All values of an option.
    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = &OsStr> {
        self.0.iter().filter(move |(known, _)| *known == name).map(|(_, value)| value.as_os_str())
    }

    /// The elements of all lists of an option.
    pub(crate) fn elements(&self, name: &str) -> Vec<OsString> {
        let lists = self.all(name).map(OsStr::as_encoded_bytes);
        lists.flat_map(|list| list.split(|&byte| byte == b',')).map(|text| sys::os_string(text.to_vec())).collect()
    }

    /// The last value of an option, which is the one that counts.
    pub(crate) fn last(&self, name: &str) -> Option<&OsStr> {
        self.all(name).last()
    }

    /// The last value, as `parse` understands it.
    pub(crate) fn parsed<T>(&self, name: &str, parse: fn(&[u8]) -> Option<T>) -> Option<T> {
        parse(self.last(name)?.as_encoded_bytes())
    }

    /// Whether a boolean is set.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.parsed(name, boolean).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Settings {
        /// The settings in the form `--name=value`.
        pub(crate) fn words(&self) -> Vec<String> {
            self.0.iter().map(|(name, value)| format!("--{name}={}", value.to_str().unwrap())).collect()
        }
    }

    fn settings(words: &[(&'static str, &[u8])]) -> Settings {
        let mut settings = Settings::default();
        words.iter().for_each(|(name, value)| settings.add(name, value));
        settings
    }

    #[test]
    fn lists_are_split_at_commas_and_keep_empty_elements() {
        let settings = settings(&[("inputs", b"a,b"), ("input", b"a,b"), ("inputs", b",c"), ("targets", b"")]);
        assert_eq!(settings.elements("inputs"), ["a", "b", "", "c"]);
        assert_eq!(settings.elements("targets"), [""]);
        assert_eq!(settings.elements("outputs"), [""; 0]);
        assert!(settings.all("input").eq(["a,b"]));
    }

    #[test]
    fn values_need_not_be_text() {
        let settings = settings(&[("input", b"\xff\xfe"), ("targets", b"\xff,\x80")]);
        assert_eq!(settings.last("input"), Some(&*sys::os_str(b"\xff\xfe")));
        assert_eq!(settings.elements("targets"), [&*sys::os_str(b"\xff"), &*sys::os_str(b"\x80")]);
    }

    #[test]
    fn the_last_value_counts() {
        let settings = settings(&[("list", b""), ("list", b"false"), ("unbundle", b"0"), ("unbundle", b"")]);
        assert!(!settings.flag("list") && settings.flag("unbundle") && !settings.flag("verbose"));
        assert_eq!((settings.parsed("list", boolean), settings.parsed("verbose", boolean)), (Some(false), None));
    }
}

//! Reads the environment variables that replace options, as LLVM 22.1.8 does.
//!
//! | variable | meaning |
//! |---|---|
//! | `OFFLOAD_BUNDLER_COMPRESS` | `-compress`, if `1` |
//! | `OFFLOAD_BUNDLER_VERBOSE` | `-verbose`, if `1` |
//! | `OFFLOAD_BUNDLER_COMPRESSION_LEVEL` | `-compression-level` |
//! | `COMPRESSED_BUNDLE_FORMAT_VERSION` | the version of compressed bundles: 2 or 3 |
//! | `OFFLOAD_BUNDLER_IGNORE_ENV_VAR` | all of the above are ignored, if `1` |
//! | `OFFLOAD_BINARY_HIP_KIND` | the number that represents HIP in offload binaries: 3 or 4; not an LLVM variable |

use std::ffi::OsString;

use crate::llvm::container::compressed::HeaderVersion;

/// The settings from the environment.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct EnvironmentSettings {
    pub(crate) compress: bool,
    pub(crate) verbose: bool,
    pub(crate) compression_level: Option<i32>,
    /// The version of compressed bundles to write.
    pub(crate) format_version: Option<HeaderVersion>,
}

impl EnvironmentSettings {
    /// Reads the variables through `get`; `warn` gets a line for each invalid value.
    pub(crate) fn read(get: impl Fn(&str) -> Option<OsString>, warn: &mut dyn FnMut(&str)) -> Self {
        if is_one("OFFLOAD_BUNDLER_IGNORE_ENV_VAR", &get) {
            return Self::default();
        }
        Self {
            compress: is_one("OFFLOAD_BUNDLER_COMPRESS", &get),
            verbose: is_one("OFFLOAD_BUNDLER_VERBOSE", &get),
            compression_level: read_valid("OFFLOAD_BUNDLER_COMPRESSION_LEVEL", &get, parse_level, warn),
            format_version: read_valid("COMPRESSED_BUNDLE_FORMAT_VERSION", &get, parse_format_version, warn),
        }
    }
}

/// Reads the number that represents HIP in offload binaries, if the variable has a valid one. `warn` gets a line for an
/// invalid value.
pub(crate) fn hip_number(get: impl Fn(&str) -> Option<OsString>, warn: &mut dyn FnMut(&str)) -> Option<u16> {
    read_valid("OFFLOAD_BINARY_HIP_KIND", &get, parse_hip_number, warn)
}

/// Whether a variable is `1`. As in LLVM, any other value counts as unset.
fn is_one(name: &str, get: &dyn Fn(&str) -> Option<OsString>) -> bool {
    get(name).is_some_and(|value| value == "1")
}

/// Reads a variable through `parse`. If the value is not valid, warns with the reason that `parse` gives, and returns
/// `None`.
fn read_valid<T>(
    name: &str,
    get: &dyn Fn(&str) -> Option<OsString>,
    parse: fn(&str) -> Result<T, &'static str>,
    warn: &mut dyn FnMut(&str),
) -> Option<T> {
    let value = get(name)?.to_string_lossy().into_owned();
    match parse(&value) {
        Ok(valid) => Some(valid),
        Err(reason) => {
            warn(&format!("Warning: Invalid value for {name}: {value}. {reason}"));
            None
        }
    }
}

fn parse_level(value: &str) -> Result<i32, &'static str> {
    decimal(value).ok_or("Ignoring it.")
}

fn parse_format_version(value: &str) -> Result<HeaderVersion, &'static str> {
    match decimal::<u16>(value) {
        Some(2) => Ok(HeaderVersion::V2),
        Some(3) => Ok(HeaderVersion::V3),
        Some(_) => Err("Valid values are 2 or 3. Using default version 2."),
        None => Err("Using default version 2."),
    }
}

fn parse_hip_number(value: &str) -> Result<u16, &'static str> {
    decimal(value).filter(|number| [3, 4].contains(number)).ok_or("Valid values are 3 or 4. Using default 4.")
}

/// Parses a decimal number. Rejects a plus sign, as LLVM does and Rust does not.
fn decimal<T: std::str::FromStr>(text: &str) -> Option<T> {
    if text.starts_with('+') {
        return None;
    }
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn read(variables: &[(&str, &str)]) -> (EnvironmentSettings, Vec<String>) {
        let variables: HashMap<&str, &str> = variables.iter().copied().collect();
        let mut warnings = Vec::new();
        let environment = EnvironmentSettings::read(|name| variables.get(name).map(OsString::from), &mut |text| {
            warnings.push(text.to_owned())
        });
        (environment, warnings)
    }

    #[test]
    fn one_means_yes_and_anything_else_no() {
        for (value, expected) in [("1", true), ("0", false), ("true", false), ("", false)] {
            assert_eq!(read(&[("OFFLOAD_BUNDLER_COMPRESS", value)]).0.compress, expected);
            assert_eq!(read(&[("OFFLOAD_BUNDLER_VERBOSE", value)]).0.verbose, expected);
        }
        let all = [("OFFLOAD_BUNDLER_COMPRESS", "1"), ("OFFLOAD_BUNDLER_IGNORE_ENV_VAR", "1")];
        assert_eq!(read(&all), (EnvironmentSettings::default(), vec![]));
    }

    #[test]
    fn numbers_are_plain_decimals() {
        for (value, level) in [("5", Some(5)), ("-3", Some(-3)), ("010", Some(10)), ("+5", None), ("x", None)] {
            let (environment, warnings) = read(&[("OFFLOAD_BUNDLER_COMPRESSION_LEVEL", value)]);
            assert_eq!(environment.compression_level, level);
            assert_eq!(warnings.len(), usize::from(level.is_none()));
        }
        for (value, version) in
            [("2", Some(HeaderVersion::V2)), ("03", Some(HeaderVersion::V3)), ("4", None), ("", None)]
        {
            assert_eq!(read(&[("COMPRESSED_BUNDLE_FORMAT_VERSION", value)]).0.format_version, version);
        }
        let (_, warnings) = read(&[("COMPRESSED_BUNDLE_FORMAT_VERSION", "4")]);
        let text = "Warning: Invalid value for COMPRESSED_BUNDLE_FORMAT_VERSION: 4. \
                    Valid values are 2 or 3. Using default version 2.";
        assert_eq!(warnings, [text]);
    }
}

//! Sub-architectures of AMD GPUs, as LLVM 23.1 writes them in triples: `amdgpu9.42-amd-amdhsa`.
//!
//! The architecture is `amdgpu`, whose older name is `amdgcn`. A sub-architecture is the version of a processor: the
//! major number, a dot, and one hexadecimal digit each for the minor number and the stepping. `gfx90a` has `9.0a`. A
//! family has a sub-architecture too, for code that runs on all its members.

/// The names of the architecture: `amdgpu` may be followed by a sub-architecture, the older name is not.
pub(super) const NAME: &str = "amdgpu";
pub(super) const OLD_NAME: &str = "amdgcn";

/// A family of processors.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Family {
    /// The sub-architectures that name the whole family; empty if the family has one member and no name.
    names: &'static [&'static str],
    /// The sub-architectures of its members.
    pub(crate) members: &'static [&'static str],
    /// The processor of code for the family as a whole.
    pub(crate) processor: &'static str,
}

const fn family(names: &'static [&'static str], members: &'static [&'static str], processor: &'static str) -> Family {
    Family { names, members, processor }
}

#[rustfmt::skip]
pub(crate) static FAMILIES: &[Family] = &[
    family(&["6"], &["6.00", "6.01", "6.02"], "gfx600"),
    family(&["7"], &["7.00", "7.01", "7.02", "7.03", "7.04", "7.05"], "gfx700"),
    family(&["8"], &["8.01", "8.02", "8.03", "8.05"], "gfx801"),
    family(&[], &["8.10"], "gfx810"),
    family(&["9"], &["9.00", "9.02", "9.04", "9.06", "9.09", "9.0c"], "gfx9-generic"),
    family(&[], &["9.08"], "gfx908"),
    family(&[], &["9.0a"], "gfx90a"),
    family(&["9.4", "9.5"], &["9.42", "9.50"], "gfx9-4-generic"),
    family(&["10.1", "10"], &["10.10", "10.11", "10.12", "10.13"], "gfx10-1-generic"),
    family(&["10.3"], &["10.30", "10.31", "10.32", "10.33", "10.34", "10.35", "10.36"], "gfx10-3-generic"),
    family(&["11"], &["11.00", "11.01", "11.02", "11.03", "11.50", "11.51", "11.52", "11.53", "11.54"], "gfx11-generic"),
    family(&["11.7"], &["11.70", "11.71", "11.72"], "gfx11-7-generic"),
    family(&["12"], &["12.00", "12.01"], "gfx12-generic"),
    family(&["12.5"], &["12.50", "12.51"], "gfx12-5-generic"),
    family(&["13"], &["13.10"], "gfx13-generic"),
];

/// The sub-architecture in a triple for AMD GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum SubArch {
    /// No sub-architecture: code for any GPU, or for one that is named beside the triple.
    Any,
    /// A whole family.
    Family(&'static Family),
    /// A member of a family.
    Member(&'static Family, &'static str),
    /// A version that LLVM 23.1.4 does not know.
    Unknown,
}

impl SubArch {
    /// Parses the first field of a triple. Returns `None` for an architecture that is not that of AMD GPUs.
    pub(super) fn parse(arch_name: &str) -> Option<Self> {
        if arch_name == OLD_NAME {
            return Some(Self::Any);
        }
        let version = arch_name.strip_prefix(NAME)?;
        if version.is_empty() {
            return Some(Self::Any);
        }
        for family in FAMILIES {
            if family.names.contains(&version) {
                return Some(Self::Family(family));
            }
            if let Some(member) = family.members.iter().find(|member| **member == version) {
                return Some(Self::Member(family, member));
            }
        }
        Some(Self::Unknown)
    }

    /// Whether LLVM 23.1.4 considers code for `wanted` usable for `self`. `Any` uses all code. `Unknown` uses no code,
    /// not even its own. A family uses code for itself and its members, a member code for itself and its family, and
    /// both use code for `Any`.
    pub(crate) fn is_compatible_with(self, wanted: Self) -> bool {
        match (self, wanted) {
            (Self::Any, _) => true,
            (Self::Unknown, _) | (_, Self::Unknown) => false,
            (_, Self::Any) => true,
            (Self::Member(_, own), Self::Member(_, wanted)) => own == wanted,
            (Self::Family(own) | Self::Member(own, _), Self::Family(wanted) | Self::Member(wanted, _)) => own == wanted,
        }
    }

    /// Returns the processor that the triple names, or `None` if it names no processor.
    pub(crate) fn processor(self) -> Option<String> {
        match self {
            Self::Any | Self::Unknown => None,
            Self::Family(family) => Some(family.processor.to_owned()),
            Self::Member(_, version) => Some(processor_of(version)),
        }
    }
}

/// Returns the processor with this version: `gfx942` for `9.42`.
pub(crate) fn processor_of(version: &str) -> String {
    format!("gfx{}", version.replace('.', ""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::id::processors::{self, ProcessorKind};

    fn processor(arch_name: &str) -> Option<String> {
        SubArch::parse(arch_name)?.processor()
    }

    #[test]
    fn a_sub_architecture_names_a_processor() {
        for (arch_name, expected) in [
            ("amdgpu9.42", "gfx942"),
            ("amdgpu9.0a", "gfx90a"),
            ("amdgpu10.30", "gfx1030"),
            ("amdgpu8.10", "gfx810"),
            ("amdgpu9.5", "gfx9-4-generic"),
            ("amdgpu10", "gfx10-1-generic"),
            ("amdgpu6", "gfx600"),
        ] {
            assert_eq!(processor(arch_name).as_deref(), Some(expected), "{arch_name}");
        }
        for arch_name in ["amdgcn", "amdgpu", "amdgpu9.99", "amdgpu9.0A", "amdgpu8.1", "amdgpu14", "amdgcn9.42", "r600"]
        {
            assert_eq!(processor(arch_name), None, "{arch_name}");
        }
    }

    #[test]
    fn every_processor_has_one_sub_architecture() {
        let mut named: Vec<String> = Vec::new();
        for family in FAMILIES {
            named.extend(family.members.iter().filter_map(|member| processor(&format!("{NAME}{member}"))));
            if family.processor.ends_with("-generic") {
                named.push(family.processor.to_owned());
            }
        }
        named.sort_unstable();
        let mut known: Vec<&str> =
            processors::all().filter(|known| known.kind == ProcessorKind::AmdGcn).map(|known| known.name).collect();
        known.sort_unstable();
        assert_eq!(named, known);
        for family in FAMILIES {
            assert!(known.contains(&family.processor), "{}", family.processor);
        }
    }

    #[test]
    fn versions_are_unique() {
        let mut versions: Vec<&str> =
            FAMILIES.iter().flat_map(|family| family.names.iter().chain(family.members)).copied().collect();
        let count = versions.len();
        versions.sort_unstable();
        versions.dedup();
        assert_eq!(versions.len(), count);
    }

    #[test]
    fn a_family_and_its_members_are_compatible_and_members_are_not() {
        for (own, wanted, expected) in [
            ("", "", true),
            ("", "9.42", true),
            ("9.42", "", true),
            ("9", "", true),
            ("9", "9.06", true),
            ("9.06", "9", true),
            ("9", "9.4", false),
            ("9", "9.0a", false),
            ("9.0a", "9.0a", true),
            ("9.5", "9.42", true),
            ("9.5", "9.4", true),
            ("9.50", "9.42", false),
            ("10", "10.13", true),
            ("10", "10.3", false),
            ("", "9.99", true),
            ("9.99", "", false),
            ("9.99", "9.99", false),
            ("9.42", "9.99", false),
        ] {
            let [entry, request] = [own, wanted].map(|version| SubArch::parse(&format!("{NAME}{version}")).unwrap());
            assert_eq!(entry.is_compatible_with(request), expected, "{own:?} {wanted:?}");
        }
    }
}

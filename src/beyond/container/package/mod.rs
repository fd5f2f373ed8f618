//! Reads the headers of members in archives and packages that are read once, from start to end.

pub(crate) mod aks2;
pub(crate) mod cpio;
pub(crate) mod rpm;
pub(crate) mod tar;

/// Whether an archive is a package of Debian. Its first member has to be `debian-binary`.
pub(crate) fn is_debian_package(data: &[u8]) -> bool {
    match data.strip_prefix(b"!<arch>\ndebian-binary") {
        Some(after) => matches!(after, [b' ' | b'/', ..]),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_of_debian_are_known_by_their_first_member() {
        for (name, is_package) in [("debian-binary   ", true), ("debian-binary/  ", true), ("debian-binary2  ", false)]
        {
            let data = ["!<arch>\n", name, "0           0     0     100644  4         `\n2.0\n"].concat();
            assert_eq!(is_debian_package(data.as_bytes()), is_package, "{name}");
        }
        assert!(!is_debian_package(b"!<arch>\ndebian-binary"));
    }
}

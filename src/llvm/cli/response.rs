//! Expands response files: an argument `@file` is replaced with the arguments in that file.
//!
//! Follows LLVM 22.1.8: GNU quoting, on Windows that of Windows, nested files (relative names always start from the
//! current directory), byte order marks, and a missing file left as an ordinary argument.

use std::ffi::OsString;
use std::io::{self, Read};
use std::path::{MAIN_SEPARATOR_STR, Path};
use std::vec;

use crate::base::bytes::to_u64;
use crate::base::error::OsText;
use crate::base::io::sys::{self, Stat};

use crate::llvm::cli::program::is_network_root;

/// The maximum total size of nested response files, in bytes. Without a limit, ten files that each name the next one
/// ten times would expand to more arguments than fit into memory.
const NESTED_MAX: u64 = 4 << 20;

/// The minimum that each nested file counts for, in bytes, because even an empty file takes time to open.
const NESTED_FILE_COST_MIN: u64 = 1 << 10;

/// The maximum size of a response file that is not a regular file, in bytes: a device may be endless.
const STREAM_MAX: u64 = 64 << 20;

/// A response file being read.
struct OpenFile {
    /// The absolute path, for messages.
    path: Vec<u8>,
    /// The device and the number of the file, which are equal for all its names.
    identity: (u64, u64),
    /// The words that are still to be expanded.
    words: vec::IntoIter<OsString>,
}

/// Replaces every `@file`, including one in `argv[0]` and in response files themselves. The error is the line to print,
/// without its newline.
pub(crate) fn expand(argv: Vec<OsString>) -> Result<Vec<OsString>, Vec<u8>> {
    if !argv.iter().any(|word| word.as_encoded_bytes().starts_with(b"@")) {
        return Ok(argv);
    }
    let mut expanded = Vec::new();
    let mut typed = argv.into_iter();
    // The files being read, each named by the one before it.
    let mut open: Vec<OpenFile> = Vec::new();
    let mut nested_left = NESTED_MAX;
    loop {
        let next = match open.last_mut() {
            Some(file) => file.words.next(),
            None => typed.next(),
        };
        let Some(word) = next else {
            if open.pop().is_none() {
                return Ok(expanded);
            }
            continue;
        };
        let opened = match word.as_encoded_bytes().strip_prefix(b"@") {
            Some(name) => open_file(name, &open, &mut nested_left)?,
            None => None,
        };
        match opened {
            Some(file) => open.push(file),
            None => expanded.push(word),
        }
    }
}

/// Reads the response file `name`. Returns `None` if the file does not exist: the word is then an ordinary argument.
///
/// `enclosing` are the files being read: the last one holds this name, and each is named by the one before it. A file
/// among them would be expanded without end, so it is an error. `nested_left` is the remaining size for nested files.
fn open_file(name: &[u8], enclosing: &[OpenFile], nested_left: &mut u64) -> Result<Option<OpenFile>, Vec<u8>> {
    let path = absolute(name)?;
    let found = match Stat::at(Path::new(&*sys::os_str(&path))) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(cannot_open(&path, &error)),
    };
    let identity = found.identity();
    if let Some(outer) = enclosing.iter().find(|file| file.identity == identity) {
        return Err([b"recursive expansion of: '", outer.path.as_slice(), b"'"].concat());
    }
    let content = read(&path, &found).map_err(|error| cannot_open(&path, &error))?;
    let is_nested = !enclosing.is_empty();
    if is_nested {
        let cost = to_u64(content.len()).max(NESTED_FILE_COST_MIN);
        let Some(rest) = nested_left.checked_sub(cost) else {
            let reason = format!("': files named in response files may hold no more than {NESTED_MAX} bytes together");
            return Err([b"cannot expand '", &*path, reason.as_bytes()].concat());
        };
        *nested_left = rest;
    }
    let tokenize = if sys::HAS_WINDOWS_QUOTING { tokenize_on_windows } else { tokenize };
    let words = tokenize(&decode(content)?).into_iter();
    Ok(Some(OpenFile { path, identity, words }))
}

/// Reads the content of a file. As in LLVM, a regular file is read up to its recorded size; a file under `/proc`
/// records 0, so nothing is read. A pipe or device is read to its end, and has a limit because it may be endless.
fn read(path: &[u8], found: &Stat) -> io::Result<Vec<u8>> {
    // One byte more than allowed shows that a pipe or device is too long.
    let limit = if found.is_file() { found.len() } else { STREAM_MAX + 1 };
    let mut content = Vec::new();
    sys::open(Path::new(&*sys::os_str(path)))?.take(limit).read_to_end(&mut content)?;
    if !found.is_file() && to_u64(content.len()) > STREAM_MAX {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(content)
}

/// Returns LLVM's message, with its mistake "cannot not".
fn cannot_open(path: &[u8], error: &io::Error) -> Vec<u8> {
    [b"cannot not open file '", path, b"': ", OsText(error).to_string().as_bytes()].concat()
}

/// Returns the absolute path of the file, which messages show. As in LLVM, `//name` counts as a relative path: it has a
/// root name, but no root directory.
fn absolute(name: &[u8]) -> Result<Vec<u8>, Vec<u8>> {
    if Path::new(&*sys::os_str(name)).is_absolute() && !is_network_root(name) {
        return Ok(name.to_vec());
    }
    let Ok(directory) = current_directory() else {
        return Err([b"cannot get absolute path for: ", name].concat());
    };
    let mut path = directory.into_encoded_bytes();
    if !name.is_empty() && !name.starts_with(b"/") && !path.ends_with(b"/") {
        path.extend_from_slice(MAIN_SEPARATOR_STR.as_bytes());
    }
    path.extend_from_slice(name);
    Ok(path)
}

/// Returns the current directory as LLVM names it: by the variable `PWD` if that still names this directory, otherwise
/// as the system does. The name in `PWD` may lead through links.
fn current_directory() -> io::Result<OsString> {
    if let Some(path) = std::env::var_os("PWD")
        && Path::new(&path).is_absolute()
        && let (Ok(there), Ok(here)) = (Stat::at(Path::new(&path)), Stat::at(Path::new(".")))
        && there.identity() == here.identity()
    {
        return Ok(path);
    }
    std::env::current_dir().map(OsString::from)
}

/// Removes a UTF-8 byte order mark, and converts UTF-16 with a byte order mark to UTF-8. Returns any other content as
/// it is. Fails for broken UTF-16, with LLVM's message.
fn decode(mut content: Vec<u8>) -> Result<Vec<u8>, Vec<u8>> {
    // The byte order marks of UTF-16, little-endian and big-endian, and of UTF-8.
    let read_unit: fn([u8; 2]) -> u16 = match content.as_slice() {
        [0xff, 0xfe, ..] => u16::from_le_bytes,
        [0xfe, 0xff, ..] => u16::from_be_bytes,
        [0xef, 0xbb, 0xbf, ..] => {
            content.drain(..3);
            return Ok(content);
        }
        _ => return Ok(content),
    };
    let (pairs, odd) = content.as_chunks::<2>();
    let units_after_mark = pairs.iter().skip(1);
    let units: Vec<u16> = units_after_mark.map(|&pair| read_unit(pair)).collect();
    match String::from_utf16(&units) {
        Ok(text) if odd.is_empty() => Ok(text.into_bytes()),
        _ => Err(b"Could not convert UTF16 to UTF8".to_vec()),
    }
}

/// Splits at white space, by GNU's rules. Quotes preserve white space. A backslash preserves the next byte, even
/// between quotes.
fn tokenize(content: &[u8]) -> Vec<OsString> {
    let mut words = Vec::new();
    let mut word = Vec::new();
    let mut quote = None;
    let mut bytes = content.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        match byte {
            // At the end of the file, a backslash has nothing to escape.
            b'\\' if bytes.peek().is_some() => word.extend(bytes.next()),
            _ if quote == Some(byte) => quote = None,
            b'"' | b'\'' if quote.is_none() => quote = Some(byte),
            b' ' | b'\t' | b'\r' | b'\n' if quote.is_none() => finish_word(&mut word, &mut words),
            _ => word.push(byte),
        }
    }
    finish_word(&mut word, &mut words);
    words
}

/// Splits at white space or zero bytes, by the rules of Windows.
///
/// - Double quotes preserve white space. Between quotes, two of them are one quote that is part of the word.
/// - Backslashes before a double quote are halved. If their number is odd, the quote is part of the word.
/// - Any other backslash is an ordinary byte.
fn tokenize_on_windows(content: &[u8]) -> Vec<OsString> {
    let mut words = Vec::new();
    // `None` between words. A word of quotes alone is empty, and is kept.
    let mut word: Option<Vec<u8>> = None;
    let mut is_quoted = false;
    let mut rest = content;
    loop {
        let backslashes = rest.iter().take_while(|&&byte| byte == b'\\').count();
        let (run, after) = rest.split_at_checked(backslashes).unwrap_or_default();
        let is_before_quote = after.starts_with(b"\"");
        let kept = if is_before_quote { backslashes / 2 } else { backslashes };
        if backslashes > 0 {
            word.get_or_insert_default().extend(run.iter().take(kept));
        }
        let Some((&byte, next)) = after.split_first() else { break };
        rest = next;
        match byte {
            b'"' if backslashes % 2 == 1 => word.get_or_insert_default().push(byte),
            b'"' if is_quoted && next.starts_with(b"\"") => {
                word.get_or_insert_default().push(byte);
                rest = next.get(1..).unwrap_or_default();
            }
            b'"' => {
                is_quoted = !is_quoted;
                word.get_or_insert_default();
            }
            b' ' | b'\t' | b'\r' | b'\n' | 0 if !is_quoted => words.extend(word.take().map(sys::os_string)),
            _ => word.get_or_insert_default().push(byte),
        }
    }
    words.extend(word.take().map(sys::os_string));
    words
}

/// Ends a word, and starts the next one. As in LLVM, an empty word is dropped, even `""`, and a word ends at a zero
/// byte like any C string.
fn finish_word(word: &mut Vec<u8>, words: &mut Vec<OsString>) {
    if !word.is_empty() {
        let mut word = std::mem::take(word);
        if let Some(end) = word.iter().position(|&byte| byte == 0) {
            word.truncate(end);
        }
        words.push(sys::os_string(word));
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::*;

    fn words(content: &[u8]) -> Vec<String> {
        strings(tokenize(content))
    }

    fn words_on_windows(content: &[u8]) -> Vec<String> {
        strings(tokenize_on_windows(content))
    }

    fn strings(words: Vec<OsString>) -> Vec<String> {
        words.into_iter().map(|word| word.into_string().unwrap()).collect()
    }

    fn decoded(content: &[u8]) -> Result<Vec<u8>, Vec<u8>> {
        decode(content.to_vec())
    }

    fn expanded(argv: &[&str]) -> Result<Vec<String>, String> {
        match expand(argv.iter().map(OsString::from).collect()) {
            Ok(words) => Ok(strings(words)),
            Err(message) => Err(String::from_utf8(message).unwrap()),
        }
    }

    #[test]
    fn white_space_separates() {
        assert_eq!(words(b" a\tb\r\nc\n\n d "), ["a", "b", "c", "d"]);
        assert_eq!(words(b"a\x0bb\x0cc"), ["a\x0bb\x0cc"]);
        assert!(words(b" \n").is_empty());
    }

    #[test]
    fn quotes_and_backslashes_keep_bytes() {
        assert_eq!(words(br#"a\ b "c d" 'e"f' "g\"h" 'i\'j' k"l"m"#), ["a b", "c d", "e\"f", "g\"h", "i'j", "klm"]);
        assert_eq!(words(b"a\\\nb"), ["a\nb"]);
        assert_eq!(words(b"\"unterminated x"), ["unterminated x"]);
        assert_eq!(words(b"i\\"), ["i\\"]);
    }

    #[test]
    fn on_windows_backslashes_only_count_before_quotes() {
        assert_eq!(words_on_windows(br#"-input=C:\a\b.o  "C:\a b" x"#), [r"-input=C:\a\b.o", r"C:\a b", "x"]);
        assert_eq!(words_on_windows(b"a\\\\b c\\\"d \\\\\"e f\" 'g h'"), ["a\\\\b", "c\"d", "\\e f", "'g", "h'"]);
        assert_eq!(words_on_windows(b"\"\" a\"b\"\"c\" \"d"), ["", "ab\"c", "d"]);
        assert_eq!(words_on_windows(b" \r\n\t"), [""; 0]);
        assert_eq!(words_on_windows(b"a\\"), ["a\\"]);
    }

    #[test]
    fn empty_words_are_lost_and_zero_bytes_end_words() {
        assert_eq!(words(b"a \"\" '' b"), ["a", "b"]);
        assert_eq!(words(b"a\0b c \0d"), ["a", "c", ""]);
    }

    #[test]
    fn byte_order_marks_are_understood() {
        assert_eq!(decoded(b"\xef\xbb\xbfa b"), Ok(b"a b".to_vec()));
        assert_eq!(decoded(b"\xff\xfea\0b\0"), Ok(b"ab".to_vec()));
        assert_eq!(decoded(b"\xfe\xff\0a\0b"), Ok(b"ab".to_vec()));
        assert_eq!(decoded(b"\xff\xfe\x3d\xd8\x00\xde"), Ok("\u{1f600}".as_bytes().to_vec()));
        assert_eq!(decoded(b"\xff\xfe"), Ok(Vec::new()));
        assert_eq!(decoded(b"\xff a"), Ok(b"\xff a".to_vec()));
        for broken in [&b"\xff\xfea"[..], b"\xff\xfe\x3d\xd8", b"\xff\xfe\0\xd8a\0"] {
            assert_eq!(decoded(broken), Err(b"Could not convert UTF16 to UTF8".to_vec()));
        }
    }

    #[test]
    fn files_within_files_are_expanded_in_place() {
        let folder = tempfile::tempdir().unwrap();
        let [inner, outer, empty] = ["inner", "outer", "empty"].map(|name| folder.path().join(name));
        fs::write(&inner, "b c").unwrap();
        fs::write(&outer, format!("a \"@{0}\" \"@{0}\" d", inner.display())).unwrap();
        fs::write(&empty, "").unwrap();
        let argv = ["p", &format!("@{}", empty.display()), "-x", &format!("@{}", outer.display()), "y"];
        assert_eq!(expanded(&argv).unwrap(), ["p", "-x", "a", "b", "c", "b", "c", "d", "y"]);
    }

    #[test]
    fn files_that_name_others_many_times_come_to_an_end() {
        let folder = tempfile::tempdir().unwrap();
        let paths: Vec<PathBuf> = (0..13).map(|level| folder.path().join(level.to_string())).collect();
        for level in paths.windows(2) {
            fs::write(&level[0], format!("\"@{}\" ", level[1].display()).repeat(10)).unwrap();
        }
        fs::write(&paths[12], "x").unwrap();
        let message = expanded(&["p", &format!("@{}", paths[0].display())]).unwrap_err();
        assert!(message.ends_with("may hold no more than 4194304 bytes together"), "{message}");
        let message = expanded(&["p", "@/dev/zero"]).unwrap_err();
        assert_eq!(message, "cannot not open file '/dev/zero': file too large");
    }

    #[test]
    fn missing_files_stay_and_others_are_errors() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().display().to_string();
        let missing = format!("@{path}/missing");
        assert_eq!(expanded(&["p", &missing]).unwrap(), ["p", &missing]);
        let message = expanded(&["p", &format!("@{path}")]).unwrap_err();
        assert_eq!(message, format!("cannot not open file '{path}': Is a directory"));
        fs::write(folder.path().join("loop"), format!("a \"@{path}/loop\"")).unwrap();
        let message = expanded(&["p", &format!("@{path}/loop")]).unwrap_err();
        assert_eq!(message, format!("recursive expansion of: '{path}/loop'"));
    }
}

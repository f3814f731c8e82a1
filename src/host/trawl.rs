//! Looks for byte strings in every file below some directories, as `grep -raF` would, in several encodings at once.
//!
//! For probes: "it is nowhere on disk" is worth what was searched, so what was searched is told. Links are not
//! followed, only regular files are opened, and nothing of a file's times changes where the kernel allows that.

use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use aho_corasick::AhoCorasick;
use base64::Engine;
use rustix::fs::{Mode, OFlags};

use super::fact::Fact;

/// The encodings that are searched, for a person.
pub const ENCODINGS: &str = "UTF-8 (and so Latin-1 and JSON), UTF-16 of either order, hex of either case, base64 at all three offsets";

/// What a search came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Catch {
    /// Regular files that were read to their end.
    pub files: usize,
    /// Bytes read.
    pub bytes: u64,
    /// Where each string was found: its number in the question, the file, the encoding.
    pub found: Vec<(usize, PathBuf, &'static str)>,
    /// What could not be read, and why.
    pub unread: Vec<(PathBuf, String)>,
}

impl Catch {
    /// The files that hold the string of this number, with the encoding.
    pub fn holding(&self, number: usize) -> Vec<String> {
        let of_it = self.found.iter().filter(|(which, ..)| *which == number);
        of_it.map(|(_, path, encoding)| format!("{} ({encoding})", path.display())).collect()
    }
}

/// Searches every regular file below `places` for `strings` (plain ASCII of 16 characters or more).
///
/// # Errors
/// When the strings are too many to search for at once.
pub fn trawl(places: &[PathBuf], strings: &[&str]) -> Fact<Catch> {
    let mut patterns: Vec<(usize, &'static str, Vec<u8>)> = Vec::new();
    for (number, string) in strings.iter().enumerate() {
        patterns.extend(encoded(string).into_iter().map(|(encoding, bytes)| (number, encoding, bytes)));
    }
    let finder =
        AhoCorasick::new(patterns.iter().map(|(_, _, bytes)| bytes)).map_err(|error| super::Unknown::Malformed(error.to_string()))?;
    let longest = patterns.iter().map(|(_, _, bytes)| bytes.len()).max().unwrap_or(0);
    let mut catch = Catch::default();
    let mut open: Vec<PathBuf> = places.to_vec();
    while let Some(path) = open.pop() {
        match std::fs::symlink_metadata(&path) {
            Ok(stat) if stat.is_dir() => match std::fs::read_dir(&path) {
                Ok(entries) => open.extend(entries.flatten().map(|entry| entry.path())),
                Err(error) => catch.unread.push((path, error.to_string())),
            },
            Ok(stat) if stat.is_file() => match search(&path, &finder, longest) {
                Ok((bytes, hits)) => {
                    catch.files += 1;
                    catch.bytes += bytes;
                    for hit in hits {
                        let (number, encoding, _) = &patterns[hit];
                        catch.found.push((*number, path.clone(), encoding));
                    }
                }
                Err(error) => catch.unread.push((path, error.to_string())),
            },
            Ok(_) => {}
            // A host deletes files while they are listed.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => catch.unread.push((path, error.to_string())),
        }
    }
    catch.found.sort();
    catch.found.dedup();
    Ok(catch)
}

/// Bytes read, and the numbers of the patterns found.
fn search(path: &Path, finder: &AhoCorasick, longest: usize) -> std::io::Result<(u64, Vec<usize>)> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOFOLLOW;
    let file = match rustix::fs::open(path, flags | OFlags::NOATIME, Mode::empty()) {
        // Only the owner of a file may leave its time of access alone.
        Err(rustix::io::Errno::PERM) => rustix::fs::open(path, flags, Mode::empty())?,
        other => other?,
    };
    let mut file = std::fs::File::from(file);
    let mut buffer = vec![0; 256 << 10];
    let (mut kept, mut total) = (0, 0u64);
    let mut hits = Vec::new();
    loop {
        let read = file.read(&mut buffer[kept..])?;
        if read == 0 {
            return Ok((total, hits));
        }
        total += read as u64;
        let filled = kept + read;
        hits.extend(finder.find_overlapping_iter(&buffer[..filled]).map(|hit| hit.pattern().as_usize()));
        kept = longest.saturating_sub(1).min(filled);
        buffer.copy_within(filled - kept..filled, 0);
    }
}

/// A string in every encoding of [`ENCODINGS`].
fn encoded(text: &str) -> Vec<(&'static str, Vec<u8>)> {
    let wide = |order: fn(u16) -> [u8; 2]| text.encode_utf16().flat_map(order).collect::<Vec<u8>>();
    let hex = super::hex(text.as_bytes());
    let mut forms = vec![
        ("UTF-8", text.as_bytes().to_vec()),
        ("UTF-16LE", wide(u16::to_le_bytes)),
        ("UTF-16BE", wide(u16::to_be_bytes)),
        ("hex", hex.to_ascii_uppercase().into_bytes()),
        ("hex", hex.into_bytes()),
    ];
    for shift in 0..3 {
        let mut bytes = vec![0; shift];
        bytes.extend_from_slice(text.as_bytes());
        let whole = base64::engine::general_purpose::STANDARD_NO_PAD.encode(&bytes);
        // The signs that also depend on what stands before or after are left out.
        let first = [0, 2, 3][shift];
        let last = whole.len() - usize::from(bytes.len() % 3 != 0);
        forms.push(("base64", whole.as_bytes()[first..last].to_vec()));
    }
    forms
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_encoding_is_found_wherever_it_stands() {
        const CANARY: &str = "canary0123456789abcdef";
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("below")).unwrap();
        let base64 = |before: &str| base64::engine::general_purpose::STANDARD.encode(format!("{before}{CANARY}xyz"));
        let utf16: Vec<u8> = CANARY.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let hex: String = CANARY.bytes().map(|byte| format!("{byte:02X}")).collect();
        let far = [vec![b'.'; (256 << 10) - 5], CANARY.as_bytes().to_vec()].concat();
        let files = [
            ("plain", CANARY.as_bytes().to_vec()),
            ("below/wide", utf16),
            ("hex", hex.into_bytes()),
            ("b0", base64("").into_bytes()),
            ("b1", base64("1").into_bytes()),
            ("b2", base64("12").into_bytes()),
            ("far", far),
            ("none", b"another".to_vec()),
        ];
        for (name, bytes) in &files {
            std::fs::write(dir.path().join(name), bytes).unwrap();
        }
        std::os::unix::fs::symlink("/etc", dir.path().join("link")).unwrap();
        let catch = trawl(&[dir.path().to_owned()], &["something else 0123456789", CANARY]).unwrap();
        let mut names: Vec<_> = catch.found.iter().map(|(_, path, _)| path.file_name().unwrap().to_str().unwrap().to_owned()).collect();
        names.sort();
        assert_eq!(names, ["b0", "b1", "b2", "far", "hex", "plain", "wide"]);
        assert!(catch.found.iter().all(|(number, ..)| *number == 1));
        assert_eq!((catch.files, catch.unread.len()), (8, 0));
    }
}

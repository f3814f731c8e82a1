//! Parts of a program file, read with `pread`: a file that shrinks while it is read ends early, where a mapping would end
//! the program (SIGBUS).
//!
//! A program is foreign input of up to hundreds of megabytes: every length in it is checked against the file, and
//! nothing is read that was not asked for.

use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};

use memchr::memmem::Finder;

/// A file, or bytes that stand in for one.
pub trait ReadAt: Sync {
    /// Its length in bytes, when it was opened.
    fn length(&self) -> u64;

    /// Fills as much of `buffer` as the file has from `offset` on; returns how much.
    ///
    /// # Errors
    /// What the system says.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// A part, shorter where the file ends.
    ///
    /// # Errors
    /// What the system says.
    fn part(&self, range: Range<u64>) -> io::Result<Vec<u8>> {
        let end = range.end.min(self.length());
        let length = usize::try_from(end.saturating_sub(range.start)).map_err(|_| io::ErrorKind::InvalidData)?;
        let mut bytes = vec![0; length];
        let filled = self.read_at(range.start, &mut bytes)?;
        bytes.truncate(filled);
        Ok(bytes)
    }
}

/// An open program file.
pub struct Program {
    file: std::fs::File,
    length: u64,
    modified: (i64, i64),
}

impl Program {
    /// A regular file that is open.
    ///
    /// # Errors
    /// When it cannot be asked for its length.
    pub fn new(file: std::fs::File) -> io::Result<Program> {
        let meta = file.metadata()?;
        Ok(Program { length: meta.len(), modified: (meta.mtime(), meta.mtime_nsec()), file })
    }

    /// Device and inode, which tell whether two programs are one file.
    ///
    /// # Errors
    /// When it cannot be asked.
    pub fn inode(&self) -> io::Result<(u64, u64)> {
        let meta = self.file.metadata()?;
        Ok((meta.dev(), meta.ino()))
    }

    /// What happened to the file since it was opened, in words; none where length and time of change are as they were.
    ///
    /// # Errors
    /// When it cannot be asked.
    pub fn changed(&self) -> io::Result<Option<String>> {
        let meta = self.file.metadata()?;
        Ok(match meta.len() {
            bytes if bytes != self.length => Some(format!("it had {} bytes and has {bytes} now", self.length)),
            _ if (meta.mtime(), meta.mtime_nsec()) != self.modified => Some("it was written to".to_owned()),
            _ => None,
        })
    }
}

impl ReadAt for Program {
    fn length(&self) -> u64 {
        self.length
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.file.read_at(&mut buffer[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }
}

/// Reads `range` piece by piece and hands each to `look`, with `overlap` bytes of the piece before in front.
/// Ends early when `look` says it has seen enough.
///
/// # Errors
/// What the system says.
pub fn pieces(file: &dyn ReadAt, range: Range<u64>, overlap: usize, mut look: impl FnMut(&[u8]) -> bool) -> io::Result<()> {
    const PIECE: usize = 256 << 10;
    let mut buffer = vec![0; overlap + PIECE];
    let mut kept = 0;
    let mut at = range.start;
    while at < range.end {
        let wanted = usize::try_from(range.end - at).unwrap_or(PIECE).min(PIECE);
        let read = file.read_at(at, &mut buffer[kept..kept + wanted])?;
        if read == 0 {
            return Ok(());
        }
        let filled = kept + read;
        if look(&buffer[..filled]) {
            return Ok(());
        }
        kept = overlap.min(filled);
        buffer.copy_within(filled - kept..filled, 0);
        at += read as u64;
    }
    Ok(())
}

/// Whether a part of the file holds the string.
///
/// # Errors
/// What the system says.
pub fn holds(file: &dyn ReadAt, range: Range<u64>, needle: &[u8]) -> io::Result<bool> {
    let finder = Finder::new(needle);
    let mut found = false;
    pieces(file, range, needle.len().saturating_sub(1), |piece| {
        found = finder.find(piece).is_some();
        found
    })?;
    Ok(found)
}

/// 16 little-endian bits; 0 behind the end.
pub fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).and_then(|part| part.try_into().ok()).map_or(0, u16::from_le_bytes)
}

/// 32 little-endian bits; 0 behind the end.
pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|part| part.try_into().ok()).map_or(0, u32::from_le_bytes)
}

/// 64 little-endian bits; 0 behind the end.
pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|part| part.try_into().ok()).map_or(0, u64::from_le_bytes)
}

impl ReadAt for Vec<u8> {
    fn length(&self) -> u64 {
        self.len() as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let rest = usize::try_from(offset).ok().and_then(|offset| self.get(offset..)).unwrap_or_default();
        let length = rest.len().min(buffer.len());
        buffer[..length].copy_from_slice(&rest[..length]);
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_across_two_pieces_is_found() {
        let mut file = vec![b'.'; 600 << 10];
        file[(256 << 10) - 3..(256 << 10) + 4].copy_from_slice(b"session");
        assert!(holds(&file, 0..file.length(), b"session").unwrap());
        assert!(!holds(&file, 0..256 << 10, b"session").unwrap());
        assert!(!holds(&file, 0..u64::MAX, b"inbox").unwrap());
    }

    #[test]
    fn a_file_that_changes_says_so() {
        let path = tempfile::NamedTempFile::new().unwrap().into_temp_path();
        std::fs::write(&path, b"four").unwrap();
        let program = Program::new(std::fs::File::open(&path).unwrap()).unwrap();
        assert_eq!(program.changed().unwrap(), None);
        std::fs::write(&path, b"fo").unwrap();
        assert_eq!(program.changed().unwrap().as_deref(), Some("it had 4 bytes and has 2 now"));
        assert_eq!(program.part(0..4).unwrap(), b"fo");
    }
}

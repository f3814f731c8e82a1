//! Parts of a program file: where its sections are, and whether a part of it holds a string.
//!
//! A program is foreign input of up to hundreds of megabytes: every length in it is checked against the file, and
//! nothing is read that was not asked for.

use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use memchr::memmem::Finder;

/// A file, or bytes that stand in for one.
pub(super) trait ReadAt {
    /// Its length in bytes.
    fn length(&self) -> u64;
    /// Fills as much of `buffer` as the file has from `offset` on; returns how much.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// A part, shorter where the file ends.
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
pub(super) struct Program {
    file: std::fs::File,
    length: u64,
}

impl Program {
    pub(super) fn new(file: std::fs::File) -> io::Result<Program> {
        let length = file.metadata()?.len();
        Ok(Program { file, length })
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

/// The sections of an ELF file that are of interest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sections {
    /// `.bun`: the payload of a Bun program.
    pub bun: Option<Range<u64>>,
    /// `.rodata`: constants.
    pub rodata: Option<Range<u64>>,
}

/// A linker makes a few dozen sections; a file that names more is no program worth reading.
const SECTIONS: u64 = 1024;
/// The names of that many sections.
const NAMES: u64 = 64 << 10;

/// The sections of a 64-bit little-endian ELF file; none for any other file.
pub(super) fn sections(file: &dyn ReadAt) -> io::Result<Option<Sections>> {
    const HEADER: u64 = 64;
    const ENTRY: usize = 64;
    let header = file.part(0..HEADER)?;
    if header.len() < HEADER as usize || !header.starts_with(b"\x7fELF\x02\x01") {
        return Ok(None);
    }
    let table = u64_at(&header, 0x28);
    let (size, count, names) = (u16_at(&header, 0x3a), u64::from(u16_at(&header, 0x3c)), usize::from(u16_at(&header, 0x3e)));
    let mut found = Sections::default();
    let Some(end) = table.checked_add(count * ENTRY as u64) else { return Ok(Some(found)) };
    if usize::from(size) != ENTRY || count > SECTIONS || end > file.length() {
        return Ok(Some(found));
    }
    let table = file.part(table..end)?;
    let range = |entry: &[u8]| {
        let (offset, bytes) = (u64_at(entry, 0x18), u64_at(entry, 0x20));
        let end = offset.checked_add(bytes).filter(|end| *end <= file.length())?;
        Some(offset..end)
    };
    let entries: Vec<&[u8]> = table.chunks_exact(ENTRY).collect();
    let Some(strings) = entries.get(names).and_then(|entry| range(entry)) else { return Ok(Some(found)) };
    let strings = file.part(strings.start..strings.end.min(strings.start + NAMES))?;
    for entry in entries {
        const NOBITS: u32 = 8;
        let name = strings.get(u32_at(entry, 0) as usize..).unwrap_or_default();
        if u32_at(entry, 4) == NOBITS {
            continue;
        }
        if name.starts_with(b".bun\0") {
            found.bun = range(entry);
        } else if name.starts_with(b".rodata\0") {
            found.rodata = range(entry);
        }
    }
    Ok(Some(found))
}

/// Reads `range` piece by piece and hands each to `look`, with `overlap` bytes of the piece before in front.
/// Ends early when `look` says it has seen enough.
pub(super) fn pieces(file: &dyn ReadAt, range: Range<u64>, overlap: usize, mut look: impl FnMut(&[u8]) -> bool) -> io::Result<()> {
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
pub(super) fn holds(file: &dyn ReadAt, range: Range<u64>, needle: &[u8]) -> io::Result<bool> {
    let finder = Finder::new(needle);
    let mut found = false;
    pieces(file, range, needle.len().saturating_sub(1), |piece| {
        found = finder.find(piece).is_some();
        found
    })?;
    Ok(found)
}

pub(super) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).and_then(|part| part.try_into().ok()).map_or(0, u16::from_le_bytes)
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|part| part.try_into().ok()).map_or(0, u32::from_le_bytes)
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|part| part.try_into().ok()).map_or(0, u64::from_le_bytes)
}

#[cfg(test)]
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

/// An ELF file with the given sections, for tests.
#[cfg(test)]
pub(super) fn made_elf(sections: &[(&str, &[u8])]) -> Vec<u8> {
    let mut file = vec![0; 64];
    file[..6].copy_from_slice(b"\x7fELF\x02\x01");
    let mut names = vec![0u8];
    let mut entries = vec![[0u8; 64]];
    let names_entry = [(".shstrtab", &[][..])];
    for (name, bytes) in sections.iter().chain(&names_entry) {
        let mut entry = [0u8; 64];
        entry[..4].copy_from_slice(&(names.len() as u32).to_le_bytes());
        entry[4] = 1;
        names.extend_from_slice(name.as_bytes());
        names.push(0);
        entry[0x18..0x20].copy_from_slice(&(file.len() as u64).to_le_bytes());
        let body = if *name == ".shstrtab" { names.clone() } else { bytes.to_vec() };
        entry[0x20..0x28].copy_from_slice(&(body.len() as u64).to_le_bytes());
        file.extend_from_slice(&body);
        entries.push(entry);
    }
    let table = file.len() as u64;
    file[0x28..0x30].copy_from_slice(&table.to_le_bytes());
    file[0x3a..0x3c].copy_from_slice(&64u16.to_le_bytes());
    file[0x3c..0x3e].copy_from_slice(&(entries.len() as u16).to_le_bytes());
    file[0x3e..0x40].copy_from_slice(&(entries.len() as u16 - 1).to_le_bytes());
    for entry in entries {
        file.extend_from_slice(&entry);
    }
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_are_found_by_name() {
        let file = made_elf(&[(".text", b"code"), (".bun", b"payload"), (".rodata", b"constants")]);
        let found = sections(&file).unwrap().unwrap();
        assert_eq!(file.part(found.bun.unwrap()).unwrap(), b"payload");
        assert_eq!(file.part(found.rodata.unwrap()).unwrap(), b"constants");
        assert_eq!(sections(&b"#!/bin/sh\n".to_vec()).unwrap(), None);
        assert_eq!(sections(&b"\x7fELF\x02\x01".to_vec()).unwrap(), None);
    }

    #[test]
    fn a_string_across_two_pieces_is_found() {
        let mut file = vec![b'.'; 600 << 10];
        file[(256 << 10) - 3..(256 << 10) + 4].copy_from_slice(b"session");
        assert!(holds(&file, 0..file.length(), b"session").unwrap());
        assert!(!holds(&file, 0..256 << 10, b"session").unwrap());
        assert!(!holds(&file, 0..u64::MAX, b"inbox").unwrap());
    }

    proptest::proptest! {
        #[test]
        fn no_header_panics_or_reads_beyond_the_file(mut file in proptest::collection::vec(proptest::num::u8::ANY, 0..400), lies: bool) {
            if lies && file.len() >= 64 {
                file[..6].copy_from_slice(b"\x7fELF\x02\x01");
                file[0x3a..0x3c].copy_from_slice(&64u16.to_le_bytes());
            }
            if let Some(found) = sections(&file).unwrap() {
                for range in [found.bun, found.rodata].into_iter().flatten() {
                    proptest::prop_assert!(range.end <= file.length());
                }
            }
        }

        #[test]
        fn lying_offsets_in_a_sound_table_are_refused(at in 64usize..300, byte: u8) {
            let mut file = made_elf(&[(".bun", b"payload"), (".rodata", b"constants")]);
            if let Some(place) = file.get_mut(at) {
                *place = byte;
            }
            if let Some(found) = sections(&file).unwrap() {
                for range in [found.bun, found.rodata].into_iter().flatten() {
                    proptest::prop_assert!(range.end <= file.length());
                }
            }
        }
    }
}

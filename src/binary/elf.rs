//! ELF files: where sections are, and what the headers say of the program.
//!
//! Headers are foreign input: an offset, length or count that the file does not bear out is no section, and tables are read
//! up to a size that no linker reaches.

use std::io;
use std::ops::Range;

use schemars::JsonSchema;
use serde::Serialize;

use super::read::{ReadAt, u16_at, u32_at, u64_at};

/// What the headers of an ELF file say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Facts {
    /// `x86_64`, `aarch64`, …; a number where it has no name here.
    pub machine: String,
    /// 32 or 64.
    pub bits: u8,
    /// `exec`, `dyn` (position-independent, as most are), `rel`, `core`; a number where it has no name here.
    pub kind: String,
    /// The linker's id of this build, in hexadecimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub build_id: Option<String>,
    /// The loader that it asks for; absent in a static program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interpreter: Option<String>,
    /// No symbol table for debuggers. Absent where the section table cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stripped: Option<bool>,
    /// What in the headers the file does not bear out.
    pub doubts: Vec<String>,
}

/// A section that lies in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// Its name, 64 bytes of it at most.
    pub name: Vec<u8>,
    /// Type, as the section table has it.
    pub kind: u32,
    /// Where it is.
    pub range: Range<u64>,
    /// Where the loader puts it.
    pub address: u64,
}

impl Section {
    /// Where the loader puts it, from the first byte to behind the last.
    pub fn addresses(&self) -> Range<u64> {
        self.address..self.address.saturating_add(self.range.end - self.range.start)
    }
}

/// The sections of an ELF file that are of interest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sections {
    /// `.bun`: the payload of a Bun program.
    pub bun: Option<Range<u64>>,
    /// `.rodata`: constants.
    pub rodata: Option<Range<u64>>,
}

/// A linker makes a few dozen sections; a file that names more is no program worth reading.
const SECTIONS: u64 = 1024;
/// The names of that many sections.
const NAMES: u64 = 64 << 10;
/// Program headers that are looked at; a program has a dozen.
const SEGMENTS: u64 = 256;
/// Notes that are looked at; a program has a handful.
const NOTES: usize = 256;
/// An interpreter's path is read up to this many bytes.
const SMALL: u64 = 4096;

const HEADER: u64 = 64;
const ENTRY: usize = 64;
const SEGMENT: usize = 56;
/// Type of a segment of notes.
const NOTE: u32 = 4;

/// The header of a 64-bit little-endian ELF file.
fn header(file: &dyn ReadAt) -> io::Result<Option<Vec<u8>>> {
    let header = file.part(0..HEADER)?;
    Ok((header.len() >= HEADER as usize && header.starts_with(b"\x7fELF\x02\x01")).then_some(header))
}

/// The sections of a 64-bit little-endian ELF file, in the order of its table; none for any other file.
///
/// # Errors
/// What the system says.
pub fn table(file: &dyn ReadAt) -> io::Result<Option<Vec<Section>>> {
    let Some(header) = header(file)? else { return Ok(None) };
    let table = u64_at(&header, 0x28);
    let (size, count, names) = (u16_at(&header, 0x3a), u64::from(u16_at(&header, 0x3c)), usize::from(u16_at(&header, 0x3e)));
    let Some(end) = table.checked_add(count * ENTRY as u64) else { return Ok(Some(Vec::new())) };
    if usize::from(size) != ENTRY || count > SECTIONS || end > file.length() {
        return Ok(Some(Vec::new()));
    }
    let table = file.part(table..end)?;
    let range = |entry: &[u8]| {
        let (offset, bytes) = (u64_at(entry, 0x18), u64_at(entry, 0x20));
        let end = offset.checked_add(bytes).filter(|end| *end <= file.length())?;
        Some(offset..end)
    };
    let entries: Vec<&[u8]> = table.chunks_exact(ENTRY).collect();
    let Some(strings) = entries.get(names).and_then(|entry| range(entry)) else { return Ok(Some(Vec::new())) };
    let strings = file.part(strings.start..strings.end.min(strings.start + NAMES))?;
    let section = |entry: &&[u8]| {
        const NOBITS: u32 = 8;
        let kind = u32_at(entry, 4);
        let name = strings.get(u32_at(entry, 0) as usize..).unwrap_or_default();
        let name = name.iter().take(64).copied().take_while(|byte| *byte != 0).collect();
        let address = u64_at(entry, 0x10);
        Some(Section { name, kind, range: range(entry).filter(|_| kind != NOBITS)?, address })
    };
    Ok(Some(entries.iter().filter_map(section).collect()))
}

/// The sections of a 64-bit little-endian ELF file; none for any other file.
///
/// # Errors
/// What the system says.
pub fn sections(file: &dyn ReadAt) -> io::Result<Option<Sections>> {
    let Some(table) = table(file)? else { return Ok(None) };
    let find = |name: &[u8]| table.iter().rfind(|section| section.name == name).map(|section| section.range.clone());
    Ok(Some(Sections { bun: find(b".bun"), rodata: find(b".rodata") }))
}

/// What the headers of an ELF file say; none for any other file. Of 32-bit and big-endian files only what the first bytes say.
///
/// # Errors
/// What the system says.
pub fn facts(file: &dyn ReadAt) -> io::Result<Option<Facts>> {
    let start = file.part(0..HEADER)?;
    if start.len() < 20 || !start.starts_with(b"\x7fELF") {
        return Ok(None);
    }
    let (bits, little) = (if start[4] == 2 { 64 } else { 32 }, start[5] != 2);
    let word = |at: usize| if little { u16_at(&start, at) } else { u16_at(&start, at).swap_bytes() };
    let mut facts = Facts { machine: machine(word(18)), bits, kind: kind(word(16)), ..Facts::default() };
    let Some(header) = header(file)? else {
        facts.doubts.push("only 64-bit little-endian ELF files are looked into".to_owned());
        return Ok(Some(facts));
    };
    segments(file, &header, &mut facts)?;
    facts.build_id = build_id(file)?;
    const SYMTAB: u32 = 2;
    match table(file)? {
        Some(table) if !table.is_empty() => facts.stripped = Some(table.iter().all(|section| section.kind != SYMTAB)),
        _ if u16_at(&header, 0x3c) == 0 => facts.stripped = Some(true),
        _ => facts.doubts.push("the section table lies outside of the file or makes no sense".to_owned()),
    }
    Ok(Some(facts))
}

fn segments(file: &dyn ReadAt, header: &[u8], facts: &mut Facts) -> io::Result<()> {
    const INTERPRETER: u32 = 3;
    let (start, size, count) = (u64_at(header, 0x20), u16_at(header, 0x36), u64::from(u16_at(header, 0x38)));
    let end = start.checked_add(count * SEGMENT as u64).filter(|end| *end <= file.length());
    let (true, true, Some(end)) = (usize::from(size) == SEGMENT || count == 0, count <= SEGMENTS, end) else {
        facts.doubts.push("the program headers lie outside of the file or make no sense".to_owned());
        return Ok(());
    };
    for segment in file.part(start..end)?.chunks_exact(SEGMENT) {
        let (kind, offset, bytes) = (u32_at(segment, 0), u64_at(segment, 8), u64_at(segment, 32));
        if !matches!(kind, INTERPRETER | NOTE) {
            continue;
        }
        if offset.checked_add(bytes).is_none_or(|end| end > file.length()) {
            facts.doubts.push("a segment lies outside of the file".to_owned());
            continue;
        }
        if kind == INTERPRETER {
            let part = file.part(offset..offset + bytes.min(SMALL))?;
            let path = part.split(|byte| *byte == 0).next().unwrap_or_default();
            facts.interpreter = Some(String::from_utf8_lossy(path).into_owned());
        }
    }
    Ok(())
}

/// A note that a linker, or whoever changed the program later, left in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Type, which means something beside the name alone.
    pub kind: u32,
    /// Whose it is.
    pub name: Vec<u8>,
    /// Where its content is.
    pub range: Range<u64>,
}

/// Every note that lies in the file.
///
/// # Errors
/// What the system says.
pub fn notes(file: &dyn ReadAt) -> io::Result<Vec<Note>> {
    let Some(header) = header(file)? else { return Ok(Vec::new()) };
    let (start, size, count) = (u64_at(&header, 0x20), u16_at(&header, 0x36), u64::from(u16_at(&header, 0x38)));
    let end = start.checked_add(count * SEGMENT as u64).filter(|end| *end <= file.length());
    let (true, true, Some(end)) = (usize::from(size) == SEGMENT, count <= SEGMENTS, end) else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for segment in file.part(start..end)?.chunks_exact(SEGMENT) {
        let (offset, bytes) = (u64_at(segment, 8), u64_at(segment, 32));
        let end = offset.checked_add(bytes).filter(|end| *end <= file.length());
        if let (NOTE, Some(end)) = (u32_at(segment, 0), end) {
            notes_in(file, offset..end, &mut found)?;
        }
    }
    Ok(found)
}

fn notes_in(file: &dyn ReadAt, mut segment: Range<u64>, found: &mut Vec<Note>) -> io::Result<()> {
    const HEAD: u64 = 12;
    const NAME: u64 = 64;
    while segment.end - segment.start >= HEAD && found.len() < NOTES {
        let head = file.part(segment.start..segment.start + HEAD)?;
        let (name, bytes) = (u64::from(u32_at(&head, 0)), u64::from(u32_at(&head, 4)));
        // Both are 32 bits long: no sum of these overflows.
        let content = segment.start + HEAD + name.next_multiple_of(4);
        if content + bytes > segment.end {
            return Ok(());
        }
        let mut owner = file.part(segment.start + HEAD..segment.start + HEAD + name.min(NAME))?;
        owner.truncate(owner.iter().position(|byte| *byte == 0).unwrap_or(owner.len()));
        found.push(Note { kind: u32_at(&head, 8), name: owner, range: content..content + bytes });
        segment.start = (content + bytes.next_multiple_of(4)).min(segment.end);
    }
    Ok(())
}

/// The note of type 3 and name `GNU`, as linkers write it.
fn build_id(file: &dyn ReadAt) -> io::Result<Option<String>> {
    const BUILD_ID: u32 = 3;
    const LONGEST: u64 = 64;
    let Some(note) = notes(file)?.into_iter().find(|note| note.kind == BUILD_ID && note.name == b"GNU") else { return Ok(None) };
    let id = file.part(note.range.start..note.range.end.min(note.range.start + LONGEST))?;
    Ok(Some(crate::host::hex(&id)))
}

fn machine(number: u16) -> String {
    match number {
        3 => "x86".to_owned(),
        40 => "arm".to_owned(),
        62 => "x86_64".to_owned(),
        183 => "aarch64".to_owned(),
        243 => "riscv".to_owned(),
        other => other.to_string(),
    }
}

fn kind(number: u16) -> String {
    match number {
        1 => "rel".to_owned(),
        2 => "exec".to_owned(),
        3 => "dyn".to_owned(),
        4 => "core".to_owned(),
        other => other.to_string(),
    }
}

/// An ELF file with the given sections, for tests.
#[cfg(test)]
pub(crate) fn made_elf(sections: &[(&str, &[u8])]) -> Vec<u8> {
    made_elf_at(&sections.iter().map(|(name, bytes)| (*name, *bytes, 0)).collect::<Vec<_>>())
}

/// An ELF file whose only segment holds these notes, for tests.
#[cfg(test)]
pub(crate) fn made_elf_with_notes(notes: &[(u32, &str, &[u8])]) -> Vec<u8> {
    let mut segment = Vec::new();
    for (kind, name, content) in notes {
        for number in [name.len() as u32 + 1, content.len() as u32, *kind] {
            segment.extend_from_slice(&number.to_le_bytes());
        }
        for bytes in [[name.as_bytes(), b"\0"].concat(), content.to_vec()] {
            segment.extend_from_slice(&bytes);
            segment.resize(segment.len().next_multiple_of(4), 0);
        }
    }
    let mut file = vec![0; 64 + SEGMENT];
    file[..6].copy_from_slice(b"\x7fELF\x02\x01");
    file[0x20] = 64;
    file[0x36] = SEGMENT as u8;
    file[0x38] = 1;
    file[64] = NOTE as u8;
    file[64 + 8] = (64 + SEGMENT) as u8;
    file[64 + 32..64 + 40].copy_from_slice(&(segment.len() as u64).to_le_bytes());
    file.extend_from_slice(&segment);
    file
}

/// The same, each section with the address that the loader puts it at.
#[cfg(test)]
pub(crate) fn made_elf_at(sections: &[(&str, &[u8], u64)]) -> Vec<u8> {
    let mut file = vec![0; 64];
    file[..6].copy_from_slice(b"\x7fELF\x02\x01");
    let mut names = vec![0u8];
    let mut entries = vec![[0u8; 64]];
    let names_entry = [(".shstrtab", &[][..], 0)];
    for (name, bytes, address) in sections.iter().chain(&names_entry) {
        let mut entry = [0u8; 64];
        entry[..4].copy_from_slice(&(names.len() as u32).to_le_bytes());
        entry[4] = 1;
        names.extend_from_slice(name.as_bytes());
        names.push(0);
        entry[0x10..0x18].copy_from_slice(&address.to_le_bytes());
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
    fn notes_are_found_one_behind_the_other() {
        let file = made_elf_with_notes(&[(1, "GNU", b"abi"), (3, "GNU", b"\x0f\xa0\xff"), (0, "NODE_SEA_BLOB", b"blob here")]);
        let found = notes(&file).unwrap();
        assert_eq!(found.len(), 3);
        assert_eq!(file.part(found[2].range.clone()).unwrap(), b"blob here");
        assert_eq!(facts(&file).unwrap().unwrap().build_id.as_deref(), Some("0fa0ff"));
        let mut lying = file.clone();
        lying[120..124].fill(0xff);
        assert_eq!(notes(&lying).unwrap(), []);
    }

    #[test]
    fn sections_are_found_by_name() {
        let file = made_elf(&[(".text", b"code"), (".bun", b"payload"), (".rodata", b"constants")]);
        let found = sections(&file).unwrap().unwrap();
        assert_eq!(file.part(found.bun.unwrap()).unwrap(), b"payload");
        assert_eq!(file.part(found.rodata.unwrap()).unwrap(), b"constants");
        assert_eq!(sections(&b"#!/bin/sh\n".to_vec()).unwrap(), None);
        assert_eq!(sections(&b"\x7fELF\x02\x01".to_vec()).unwrap(), None);
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

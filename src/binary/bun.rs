//! The payload of a Bun single-file program: which modules it holds and where.
//!
//! Seen in OpenCode 1.18.34 and next-16350: the ELF section `.bun` (older Bun: the end of the file) ends with
//! the arguments compiled in, a table of offsets (32 bytes) and `\n---- Bun! ----\n`. The offsets count from
//! the start of the payload; the module table has 52 bytes a module (36 in older Bun). OpenCode 0.1.174 and 0.5.29: no
//! arguments, and a table of offsets of 24 bytes.

use std::io;
use std::ops::Range;

use super::elf::Sections;
use super::read::{ReadAt, u32_at, u64_at};
use super::regions::merged;

const TRAILER: &[u8] = b"\n---- Bun! ----\n";
/// With the place of the arguments, and before there were any.
const OFFSETS: [u64; 2] = [32, 24];
/// Before the trailer: offsets and compiled-in arguments. After it, in older programs: the payload's length.
const TAIL: u64 = 4096;
/// 65,536 modules of 52 bytes; OpenCode 1.18.34 has 1,318.
const TABLE: u64 = 65_536 * 52;

/// As much of a payload belongs to no module (1.2.1 to 1.18.34 and next-16350: a thousandth). A table that names few of the
/// modules would hide the others.
const SILENT: u64 = 64 << 10;

/// What a Bun program carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload {
    /// The `--user-agent=` among the arguments compiled in.
    pub user_agent: Option<String>,
    /// Where the sources of its JavaScript modules are in the file, the one that starts first.
    pub scripts: Vec<Range<u64>>,
    /// Where the payload is; the trailer alone, where it does not say how long the payload is.
    pub range: Range<u64>,
    /// What stands before the trailer makes no sense: where the modules are is not known.
    pub lost: bool,
}

/// The payload of a Bun program; none for any other file.
///
/// # Errors
/// What the system says.
pub fn payload(file: &dyn ReadAt, sections: &Sections) -> io::Result<Option<Payload>> {
    let end = sections.bun.as_ref().map_or(file.length(), |bun| bun.end);
    let start = end.saturating_sub(TAIL);
    let tail = file.part(start..end)?;
    let Some(at) = memchr::memmem::rfind(&tail, TRAILER) else { return Ok(None) };
    // After the trailer comes nothing, or the length of the whole in 8 bytes.
    if tail.len() - at - TRAILER.len() > 8 {
        return Ok(None);
    }
    let trailer = start + at as u64;
    let (mut range, mut scripts) = (trailer..trailer + TRAILER.len() as u64, Vec::new());
    for size in OFFSETS {
        let Some(offsets) = at.checked_sub(size as usize).map(|start| &tail[start..at]) else { continue };
        // Where the payload starts, by the length that it states.
        let end = trailer - size;
        let Some(base) = end.checked_sub(u64_at(offsets, 0)) else { continue };
        if let Some(found) = modules(file, base..end, offsets)? {
            (range.start, scripts) = (base, found);
            break;
        }
        if size == OFFSETS[0] {
            range.start = base;
        }
    }
    let lost = scripts.is_empty();
    Ok(Some(Payload { user_agent: user_agent(&tail[..at]), scripts, range, lost }))
}

fn user_agent(tail: &[u8]) -> Option<String> {
    const FLAG: &[u8] = b"--user-agent=";
    let value = &tail[memchr::memmem::rfind(tail, FLAG)? + FLAG.len()..];
    let length = value.iter().take(128).take_while(|byte| byte.is_ascii_graphic()).count();
    String::from_utf8(value[..length].to_vec()).ok()
}

fn modules(file: &dyn ReadAt, payload: Range<u64>, offsets: &[u8]) -> io::Result<Option<Vec<Range<u64>>>> {
    let (base, bytes) = (payload.start, payload.end - payload.start);
    let (table, length, entry) = (u64::from(u32_at(offsets, 8)), u64::from(u32_at(offsets, 12)), u32_at(offsets, 16) as usize);
    if length == 0 || length > TABLE || table + length > bytes {
        return Ok(None);
    }
    let rows = file.part(base + table..base + table + length)?;
    for stride in [52, 36] {
        if rows.len() % stride == 0
            && let Some(scripts) = scripts(file, base, bytes, &rows, stride, entry)?
        {
            return Ok(Some(scripts));
        }
    }
    Ok(None)
}

/// The sources, if rows of this size make sense: every range inside, and names that Bun gives.
fn scripts(file: &dyn ReadAt, base: u64, bytes: u64, rows: &[u8], stride: usize, entry: usize) -> io::Result<Option<Vec<Range<u64>>>> {
    /// How the module is loaded: JavaScript and its dialects. The others are files that it merely carries.
    const JAVASCRIPT: Range<u8> = 0..4;
    let range = |row: &[u8], at: usize| {
        let (offset, length) = (u64::from(u32_at(row, at)), u64::from(u32_at(row, at + 4)));
        (offset + length <= bytes).then(|| base + offset..base + offset + length)
    };
    let (table, rows) = (rows.len() as u64, rows.chunks_exact(stride).collect::<Vec<_>>());
    let (mut found, mut named) = (Vec::new(), Vec::new());
    for (index, row) in rows.iter().enumerate() {
        let (Some(name), Some(source)) = (range(row, 0), range(row, 8)) else { return Ok(None) };
        if (index == 0 || index == entry || index + 1 == rows.len())
            && !file.part(name.start..name.end.min(name.start + 64))?.starts_with(b"/$bunfs/")
        {
            return Ok(None);
        }
        named.extend((0..(stride - 4) / 8).filter_map(|place| range(row, place * 8)));
        // The last four bytes: encoding, loader, module format, side.
        if !JAVASCRIPT.contains(&row[stride - 3]) {
            continue;
        }
        if index == entry {
            found.insert(0, source);
        } else {
            found.push(source);
        }
    }
    let told: u64 = merged(named).iter().map(|range| range.end - range.start).sum();
    let silent = bytes.saturating_sub(told).saturating_sub(table);
    Ok((silent <= (bytes / 10).max(SILENT)).then_some(found))
}

/// A Bun payload with these JavaScript modules, the first one being the entry, for tests.
#[cfg(test)]
pub(crate) fn made_payload(arguments: &str, sources: &[&str]) -> Vec<u8> {
    let mut body = Vec::new();
    let mut table = Vec::new();
    for (index, source) in sources.iter().enumerate() {
        let name = format!("/$bunfs/root/chunk-{index}.js");
        for text in [name.as_str(), source] {
            table.extend_from_slice(&(body.len() as u32).to_le_bytes());
            table.extend_from_slice(&(text.len() as u32).to_le_bytes());
            body.extend_from_slice(text.as_bytes());
            body.push(0);
        }
        table.extend_from_slice(&[0; 32]);
        table.extend_from_slice(&[1, 1, 1, 0]);
    }
    let (table_at, table_length) = (body.len() as u32, table.len() as u32);
    body.extend_from_slice(&table);
    let (arguments_at, arguments_length) = (body.len() as u32, arguments.len() as u32);
    body.extend_from_slice(arguments.as_bytes());
    body.push(0);
    let mut offsets = (body.len() as u64).to_le_bytes().to_vec();
    for number in [table_at, table_length, 0, arguments_at, arguments_length, 3] {
        offsets.extend_from_slice(&number.to_le_bytes());
    }
    body.extend_from_slice(&offsets);
    body.extend_from_slice(TRAILER);
    body
}

#[cfg(test)]
mod tests {
    use super::super::elf::{made_elf, sections};
    use super::*;

    fn read(file: &Vec<u8>) -> Option<Payload> {
        payload(file, &sections(file).unwrap().unwrap_or_default()).unwrap()
    }

    #[test]
    fn the_payload_is_found_in_its_section_and_at_the_end() {
        let body = made_payload("--user-agent=opencode/1.18.34 --use-system-ca --", &["entry source", "other source"]);
        let mut section = 17u64.to_le_bytes().to_vec();
        section.extend_from_slice(&body);
        let in_section = made_elf(&[(".bun", &section), (".rodata", b"after")]);
        let mut at_end = made_elf(&[(".rodata", b"x")]);
        at_end.extend_from_slice(&body);
        let mut with_length = at_end.clone();
        with_length.extend_from_slice(&(at_end.len() as u64).to_le_bytes());
        for file in [in_section, at_end, with_length] {
            let payload = read(&file).unwrap();
            assert_eq!(payload.user_agent.as_deref(), Some("opencode/1.18.34"));
            let sources: Vec<_> = payload.scripts.iter().map(|range| file.part(range.clone()).unwrap()).collect();
            assert_eq!(sources, [b"entry source".to_vec(), b"other source".to_vec()]);
        }
    }

    #[test]
    fn a_trailer_in_the_middle_of_a_file_is_no_payload() {
        let mut file = made_elf(&[(".rodata", TRAILER)]);
        file.extend_from_slice(&[0; 64]);
        assert_eq!(read(&file), None);
    }

    proptest::proptest! {
        #[test]
        fn lying_lengths_are_refused(at in 0usize..400, byte: u8, cut in 0usize..400) {
            let mut file = made_elf(&[]);
            file.extend_from_slice(&made_payload("--user-agent=opencode/1.18.34 --", &["entry", "other"]));
            let length = file.len();
            file[length - 1 - at.min(length - 1)] = byte;
            for file in [file.clone(), file[cut.min(length)..].to_vec()] {
                if let Some(payload) = read(&file) {
                    for range in payload.scripts {
                        proptest::prop_assert!(range.end <= file.length());
                    }
                }
            }
        }
    }
}

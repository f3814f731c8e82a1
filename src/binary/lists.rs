//! Lists of names that a compiled program carries, such as the variables that it hands on to a shell.
//!
//! A list of strings in Rust is a row of pairs, address and length, in a section that the loader fills in. The addresses
//! stand in the table of relocations. Seen on zeroclaw 0.8.7: the nine names of its shell's environment are such a row.

use std::collections::HashMap;
use std::io;

use memchr::memmem;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::elf::{Section, table};
use super::read::{ReadAt, pieces, u64_at};

/// A list of names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NameList {
    /// The names, in order.
    pub names: Vec<String>,
    /// Where in the file its first pair stands.
    pub offset: u64,
}

/// Bytes of a relocation: where, kind, address.
const RELOCATION: usize = 24;
/// Bytes of a pair.
const PAIR: u64 = 16;
/// Longest list, on either side of the name that is looked for.
const LONGEST: u64 = 256;
/// Longest name.
const NAME: u64 = 64;
/// More constants than this are not searched through.
const CONSTANTS: u64 = 64 << 20;
/// More relocations than this are not read: zeroclaw 0.8.7 has 522,135.
const RELOCATIONS: u64 = 96 << 20;

struct Image<'f> {
    file: &'f dyn ReadAt,
    constants: Section,
    pairs: Section,
    /// Addresses by the place that they are filled in at.
    filled: HashMap<u64, u64>,
}

/// The lists that hold every one of `names`, which are looked for by the first of them.
///
/// # Errors
/// What the system says.
pub fn holding(file: &dyn ReadAt, names: &[&str]) -> io::Result<Vec<NameList>> {
    let Some(first) = names.first() else { return Ok(Vec::new()) };
    let Some(image) = Image::read(file)? else { return Ok(Vec::new()) };
    let starts = image.addresses_of(first.as_bytes())?;
    let mut slots: Vec<u64> = image.filled.iter().filter(|(_, address)| starts.contains(address)).map(|(slot, _)| *slot).collect();
    slots.sort_unstable();
    let mut lists = Vec::new();
    for slot in slots {
        let before = (1..LONGEST).map_while(|step| slot.checked_sub(step * PAIR).filter(|slot| image.name(*slot).is_some())).last();
        let start = before.unwrap_or(slot);
        let found: Vec<String> = (0..LONGEST * 2).map_while(|step| image.name(start.checked_add(step * PAIR)?)).collect();
        let list = NameList { names: found, offset: image.pairs.range.start + (start - image.pairs.address) };
        if names.iter().all(|name| list.names.iter().any(|known| known == name)) && !lists.contains(&list) {
            lists.push(list);
        }
    }
    Ok(lists)
}

impl<'f> Image<'f> {
    fn read(file: &'f dyn ReadAt) -> io::Result<Option<Image<'f>>> {
        /// The loader adds its base to the address: on x86-64, on AArch64.
        const RELATIVE: [u64; 2] = [8, 1027];
        let sections = table(file)?.unwrap_or_default();
        let named = |name: &[u8]| sections.iter().find(|section| section.name == name).cloned();
        let (Some(constants), Some(pairs), Some(relocations)) = (named(b".rodata"), named(b".data.rel.ro"), named(b".rela.dyn")) else {
            return Ok(None);
        };
        let bytes = |section: &Section| section.range.end - section.range.start;
        if bytes(&relocations) > RELOCATIONS || bytes(&constants) > CONSTANTS {
            return Ok(None);
        }
        let (here, there) = (pairs.addresses(), constants.addresses());
        let mut filled = HashMap::new();
        let mut rest = Vec::new();
        pieces(file, relocations.range, 0, |piece| {
            rest.extend_from_slice(piece);
            let whole = rest.len() - rest.len() % RELOCATION;
            for row in rest[..whole].chunks_exact(RELOCATION) {
                let (place, kind, address) = (u64_at(row, 0), u64_at(row, 8) & 0xffff_ffff, u64_at(row, 16));
                if RELATIVE.contains(&kind) && here.contains(&place) && there.contains(&address) {
                    filled.insert(place, address);
                }
            }
            rest.drain(..whole);
            false
        })?;
        Ok(Some(Image { file, constants, pairs, filled }))
    }

    /// Where a string stands among the constants.
    fn addresses_of(&self, string: &[u8]) -> io::Result<Vec<u64>> {
        let finder = memmem::Finder::new(string);
        let (mut found, mut end) = (Vec::new(), self.constants.address);
        let overlap = string.len().saturating_sub(1);
        let mut carried = 0;
        pieces(self.file, self.constants.range.clone(), overlap, |piece| {
            let start = end - carried as u64;
            found.extend(finder.find_iter(piece).map(|at| start + at as u64));
            end = start + piece.len() as u64;
            carried = overlap.min(piece.len());
            false
        })?;
        Ok(found)
    }

    /// The name that a pair leads to, if it is a variable's.
    fn name(&self, slot: u64) -> Option<String> {
        let address = *self.filled.get(&slot)?;
        let at = self.pairs.range.start + (slot - self.pairs.address);
        let length = u64_at(&self.file.part(at + 8..at + 16).ok()?, 0);
        if !(2..=NAME).contains(&length) {
            return None;
        }
        let start = self.constants.range.start + (address - self.constants.address);
        let bytes = self.file.part(start..(start + length).min(self.constants.range.end)).ok()?;
        let is_name = bytes.len() as u64 == length
            && bytes[0].is_ascii_uppercase()
            && bytes.iter().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b'_');
        is_name.then(|| String::from_utf8(bytes).ok()).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::binary::elf::made_elf_at;

    /// A program with these names in a row, and something else on either side.
    fn made(names: &[&str]) -> Vec<u8> {
        let (constants_at, pairs_at) = (0x1000u64, 0x8000u64);
        let (mut constants, mut pairs, mut relocations) = (b"lower".to_vec(), vec![0; 16], Vec::new());
        for name in names {
            relocations.extend((pairs_at + pairs.len() as u64).to_le_bytes());
            relocations.extend(8u64.to_le_bytes());
            relocations.extend((constants_at + constants.len() as u64).to_le_bytes());
            pairs.extend(0u64.to_le_bytes());
            pairs.extend((name.len() as u64).to_le_bytes());
            constants.extend(name.as_bytes());
        }
        pairs.extend([0; 16]);
        made_elf_at(&[(".rodata", &constants, constants_at), (".data.rel.ro", &pairs, pairs_at), (".rela.dyn", &relocations, 0)])
    }

    #[test]
    fn a_list_is_read_from_its_first_name_to_its_last() {
        let file = made(&["PATH", "HOME", "LC_CTYPE", "TMPDIR"]);
        let lists = holding(&file, &["LC_CTYPE", "PATH"]).unwrap();
        assert_eq!(lists.len(), 1);
        assert_eq!(lists[0].names, ["PATH", "HOME", "LC_CTYPE", "TMPDIR"]);
        assert_eq!(holding(&file, &["LC_CTYPE", "DISPLAY"]).unwrap(), []);
        assert_eq!(holding(&made(&["PATH", "lower", "LC_CTYPE"]), &["LC_CTYPE"]).unwrap()[0].names, ["LC_CTYPE"]);
        assert_eq!(holding(&b"\x7fELF\x02\x01".to_vec(), &["PATH"]).unwrap(), []);
    }

    proptest::proptest! {
        #[test]
        fn no_table_panics(at in 0usize..700, bytes in proptest::collection::vec(proptest::num::u8::ANY, 1..9)) {
            let mut file = made(&["PATH", "HOME", "LC_CTYPE", "TMPDIR"]);
            let length = file.len();
            for (index, byte) in bytes.iter().enumerate() {
                file[(at + index) % length] = *byte;
            }
            let _ = holding(&file, &["LC_CTYPE", "PATH"]);
        }
    }
}

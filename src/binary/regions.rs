//! The parts of a file that are code, joined to one.

use std::io;
use std::ops::Range;

use super::read::ReadAt;
use super::{bun, elf};

/// The ranges in order, those that overlap as one: a module table may name one source twice, or lie, and nothing is read twice.
pub(super) fn merged(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.retain(|range| range.start < range.end);
    ranges.sort_unstable_by_key(|range| (range.start, range.end));
    let mut merged: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start < last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

/// Parts of a file, read as if they stood one behind the other, with a line break after each: what is found lies in one part.
pub struct Regions<'f> {
    file: &'f dyn ReadAt,
    /// Where each begins in the whole, and where it lies in the file.
    parts: Vec<(u64, Range<u64>)>,
    length: u64,
    kind: Kind,
}

/// What the parts are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The modules of a bundle.
    Scripts,
    /// The constants of a compiled program, or all of a file that says nothing of itself.
    Constants,
    /// All of a file that carries a bundle whose modules are not where it says.
    Lost,
}

/// Why code is all of a file: as a note says it.
pub const LOST: &str = "the bundle's trailer makes no sense: where its modules are is not known, and all of the file was searched";

impl<'f> Regions<'f> {
    /// These parts.
    pub fn new(file: &'f dyn ReadAt, parts: impl IntoIterator<Item = Range<u64>>) -> Regions<'f> {
        let mut length = 0;
        let part = |range: Range<u64>| {
            let start = length;
            length += range.end - range.start + 1;
            (start, range)
        };
        let parts = parts.into_iter().filter(|range| range.start < range.end && range.end <= file.length()).map(part).collect();
        Regions { file, parts, length, kind: Kind::Constants }
    }

    /// Where the code of a program is: the JavaScript of a Bun bundle, else the constants of a compiled program, else all of it.
    ///
    /// # Errors
    /// What the system says.
    pub fn code(file: &'f dyn ReadAt) -> io::Result<Regions<'f>> {
        let sections = elf::sections(file)?.unwrap_or_default();
        Ok(match (bun::payload(file, &sections)?, sections.rodata) {
            (Some(bundle), _) if bundle.lost => Regions { kind: Kind::Lost, ..Regions::new(file, std::iter::once(0..file.length())) },
            (Some(bundle), _) => Regions { kind: Kind::Scripts, ..Regions::new(file, merged(bundle.scripts)) },
            (None, Some(constants)) => Regions::new(file, std::iter::once(constants)),
            (None, None) => Regions::new(file, std::iter::once(0..file.length())),
        })
    }

    /// What the parts are.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Where a place in the whole lies in the file.
    pub fn place(&self, at: u64) -> u64 {
        let index = self.parts.partition_point(|(start, _)| *start <= at).saturating_sub(1);
        self.parts.get(index).map_or(at, |(start, range)| range.start + (at - start))
    }

    /// The parts, as they lie in the file.
    pub fn parts(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.parts.iter().map(|(_, range)| range.clone())
    }
}

impl ReadAt for Regions<'_> {
    fn length(&self) -> u64 {
        self.length
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            let at = offset + filled as u64;
            let index = self.parts.partition_point(|(start, _)| *start <= at).saturating_sub(1);
            let Some((start, range)) = self.parts.get(index).filter(|_| at < self.length) else { break };
            let inside = range.start + (at - start);
            if inside >= range.end {
                buffer[filled] = b'\n';
                filled += 1;
                continue;
            }
            let wanted = usize::try_from(range.end - inside).unwrap_or(usize::MAX).min(buffer.len() - filled);
            let read = self.file.read_at(inside, &mut buffer[filled..filled + wanted])?;
            // A file that shrank: what is gone reads as line breaks, so that what follows keeps its place.
            buffer[filled + read..filled + wanted].fill(b'\n');
            filled += wanted;
        }
        Ok(filled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_that_lies_makes_no_code_longer_than_the_file() {
        assert_eq!(merged(vec![4..9, 0..2, 2..4, 5..6, 8..10, 7..7, 0..2]), [0..2, 2..4, 4..10]);
        let staggered: Vec<Range<u64>> = (0..60_000).map(|start| start..60_000).collect();
        assert_eq!(merged(staggered), std::iter::once(0..60_000).collect::<Vec<_>>());
    }

    #[test]
    fn parts_are_read_as_one_and_places_lead_back() {
        let file = b"0123456789".to_vec();
        let regions = Regions::new(&file, [2..5, 7..7, 8..10, 9..20]);
        assert_eq!(regions.part(0..100).unwrap(), b"234\n89\n");
        assert_eq!(regions.part(2..5).unwrap(), b"4\n8");
        assert_eq!([0, 2, 4, 5].map(|at| regions.place(at)), [2, 4, 8, 9]);
        assert_eq!(Regions::new(&file, []).part(0..9).unwrap(), b"");
    }
}

//! Frames of a WAL that SQLite cannot use: what was committed in them is lost.
//!
//! The format is that of sqlite.org/fileformat2.html, section 4: a header of 32 bytes, then frames, each of 24 bytes and a page; the
//! checksum of each goes on from the one before. SQLite reads up to the first frame that does not check, and says nothing of the rest.

use std::io::{BufReader, Read};
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::host::interrupt;

use super::{Refusal, beside};

/// What is lost of a WAL.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lost {
    /// Frames before, which check.
    pub sound: u64,
    /// Frames from there on that belong to this WAL.
    pub frames: u64,
    /// Transactions that end in them.
    pub commits: u64,
    /// Its header does not check, so that nothing of it is read; then nothing else is known.
    pub header: bool,
}

/// How often a WAL is looked at again: its host may be in the middle of a frame.
const AGAIN: usize = 3;

/// What is lost of the `-wal` beside a store; none where nothing is, or there is none.
///
/// # Errors
/// When it cannot be read.
pub fn lost(store: &Path) -> Result<Option<Lost>, Refusal> {
    let path = beside::name(store, "-wal");
    let mut last = None;
    for attempt in 0..=AGAIN {
        let Some(seen) = beside::wal(&path)? else { return Ok(None) };
        if seen.stamp.bytes <= HEADER as u64 {
            return Ok(None);
        }
        let found = frames(BufReader::with_capacity(1 << 20, beside::open(&path)?))?;
        if found.is_none() || attempt > 0 && found == last {
            return Ok(found);
        }
        last = found;
        std::thread::sleep(Duration::from_millis(30));
    }
    // Another one each time: somebody writes, and what is seen is a frame on its way.
    Ok(None)
}

const HEADER: usize = 32;
const FRAME: usize = 24;

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |word| u32::from_be_bytes([word[0], word[1], word[2], word[3]]))
}

/// The checksum of the format, over 8 bytes at a time.
fn checksum(bytes: &[u8], big: bool, mut sum: (u32, u32)) -> (u32, u32) {
    let number = |word: &[u8]| {
        let word = [word[0], word[1], word[2], word[3]];
        if big { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) }
    };
    for pair in bytes.chunks_exact(8) {
        sum.0 = sum.0.wrapping_add(number(&pair[..4])).wrapping_add(sum.1);
        sum.1 = sum.1.wrapping_add(number(&pair[4..])).wrapping_add(sum.0);
    }
    sum
}

/// Reads as far as there is something; false at the end.
fn fill(source: &mut impl Read, piece: &mut [u8]) -> Result<bool, Refusal> {
    match source.read_exact(piece) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Goes through the frames of a WAL.
///
/// # Errors
/// When it cannot be read.
pub fn frames(mut source: impl Read) -> Result<Option<Lost>, Refusal> {
    let mut header = [0; HEADER];
    if !fill(&mut source, &mut header)? {
        return Ok(None);
    }
    let (magic, page) = (word(&header, 0), word(&header, 8) as usize);
    let big = magic & 1 == 1;
    let mut sum = checksum(&header[..24], big, (0, 0));
    if magic & !1 != 0x377f_0682
        || sum != (word(&header, 24), word(&header, 28))
        || !page.is_power_of_two()
        || !(512..=65_536).contains(&page)
    {
        return Ok(Some(Lost { sound: 0, frames: 0, commits: 0, header: true }));
    }
    let mut frame = vec![0; FRAME + page];
    let mut found = Lost { sound: 0, frames: 0, commits: 0, header: false };
    let mut checks = true;
    while fill(&mut source, &mut frame)? {
        if interrupt::came().is_some() {
            return Err(Refusal::Interrupted);
        }
        // Frames of the time before it began anew stay behind the end.
        let ours = frame[8..16] == header[16..24];
        if checks && ours {
            sum = checksum(&frame[FRAME..], big, checksum(&frame[..8], big, sum));
        }
        checks = checks && ours && word(&frame, 0) > 0 && sum == (word(&frame, 16), word(&frame, 20));
        if checks {
            found.sound += 1;
        } else if ours {
            found.frames += 1;
            found.commits += u64::from(word(&frame, 4) > 0);
        }
    }
    // The end of a transaction that was being written when its host was killed is no loss: it was never committed.
    Ok((found.commits > 0).then_some(found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wal_as_sqlite_writes_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.db");
        let conn = rusqlite::Connection::open(&path).unwrap();
        conn.execute_batch(
            "pragma page_size=1024; pragma journal_mode=wal; create table t(a); insert into t values(1); insert into t values(2)",
        )
        .unwrap();
        let sound = std::fs::read(beside::name(&path, "-wal")).unwrap();
        assert_eq!(frames(&sound[..]).unwrap(), None);
        let count = (sound.len() - HEADER) / (FRAME + 1024);
        // One bit of the last commit: a killed host or a bad disk, and in both cases SQLite reads one transaction less.
        for (at, sound_frames, commits) in [(sound.len() - 1, count - 1, 1), (HEADER + FRAME, 0, 3)] {
            let mut wrong = sound.clone();
            wrong[at] ^= 1;
            let lost = frames(&wrong[..]).unwrap().unwrap();
            assert_eq!((lost.sound, lost.frames, lost.commits), (sound_frames as u64, (count - sound_frames) as u64, commits));
        }
        // Frames of the time before the WAL began anew are none of its own.
        conn.execute_batch("pragma wal_checkpoint(restart); insert into t values(3)").unwrap();
        let anew = std::fs::read(beside::name(&path, "-wal")).unwrap();
        assert_eq!((anew.len(), frames(&anew[..]).unwrap()), (sound.len(), None));
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..2000)) {
            let _ = frames(&bytes[..]);
        }
    }
}

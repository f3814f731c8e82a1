//! Fixed strings in a file: how often, on how many lines, and where; with the file's SHA-256 in the same pass.
//!
//! Counts are GNU grep's in the C locale: lines as `grep -acF`, occurrences as `grep -aoF | wc -l`, each string for itself.
//! Lines end at the byte 0x0A, in UTF-16 too. So no match spans two lines, and a file may be cut behind any 0x0A: pieces are
//! counted on all cores, and the sums are those of one pass.

use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Mutex, PoisonError};

use aho_corasick::packed::{Config, Searcher};
use aho_corasick::{AhoCorasick, MatchKind, Span};
use sha2::{Digest, Sha256};

use super::read::ReadAt;

/// A core takes so much at once.
const UNIT: u64 = if cfg!(test) { 4 << 10 } else { 4 << 20 };
/// So much is read at once: it stays in the core's own cache until it has been searched.
const BLOCK: usize = if cfg!(test) { 1 << 10 } else { 256 << 10 };
/// Where reads begin, in the file and in memory: the kernel copies whole pages a good deal faster.
const PAGE: usize = if cfg!(test) { 16 } else { 4 << 10 };
/// So much is read first to find the end of a line.
const LINE: u64 = if cfg!(test) { 16 } else { 4 << 10 };
/// With the hash: blocks that one thread has read and the other has not yet hashed.
const AHEAD: usize = 16;

/// Why strings cannot be searched for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SetError {
    /// An empty string is everywhere.
    #[error("an empty string is everywhere: there is nothing to count")]
    Empty,
    /// No match spans two lines.
    #[error("a string with a line break in it cannot be on one line: search for its parts")]
    LineBreak,
    /// A string, or all of them together, too long to search for.
    #[error("the strings are too long or too many: {0}")]
    Large(String),
}

/// The longest string that is searched for, in bytes.
pub const LONGEST: usize = 1 << 20;

/// Strings to search for, made ready.
pub struct Set {
    needles: Vec<Vec<u8>>,
    /// Those of one byte.
    single: Vec<usize>,
    /// The others, by their first byte.
    starts: Vec<Vec<usize>>,
    engine: Engine,
    longest: usize,
}

enum Engine {
    None,
    /// Finds where any of the strings is, for some sixty strings at most.
    Packed(Box<Searcher>),
    /// Finds all of them; the numbers are indexes into `needles`.
    Automaton(Box<AhoCorasick>, Vec<usize>),
}

impl Set {
    /// Strings, each of which is counted for itself.
    ///
    /// # Errors
    /// When one of them is empty, has a line break, or is too long.
    pub fn new(needles: Vec<Vec<u8>>) -> Result<Set, SetError> {
        let mut starts = vec![Vec::new(); 256];
        let (mut single, mut longer) = (Vec::new(), Vec::new());
        for (index, needle) in needles.iter().enumerate() {
            match needle.as_slice() {
                [] => return Err(SetError::Empty),
                bytes if memchr::memchr(b'\n', bytes).is_some() => return Err(SetError::LineBreak),
                bytes if bytes.len() > LONGEST => return Err(SetError::Large(format!("one has {} bytes, at most {LONGEST}", bytes.len()))),
                [_] => single.push(index),
                [first, ..] => {
                    starts[usize::from(*first)].push(index);
                    longer.push(index);
                }
            }
        }
        let strings = || longer.iter().map(|index| needles[*index].as_slice());
        let engine = if longer.is_empty() {
            Engine::None
        } else {
            match Config::new().builder().extend(strings()).build() {
                Some(searcher) => Engine::Packed(Box::new(searcher)),
                None => {
                    let built = AhoCorasick::builder().match_kind(MatchKind::Standard).build(strings());
                    let automaton = built.map_err(|error| SetError::Large(error.to_string()))?;
                    Engine::Automaton(Box::new(automaton), longer.clone())
                }
            }
        };
        let longest = needles.iter().map(Vec::len).max().unwrap_or(1);
        Ok(Set { needles, single, starts, engine, longest })
    }

    /// How many strings there are.
    pub fn len(&self) -> usize {
        self.needles.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.needles.is_empty()
    }
}

/// What was counted of one string.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Lines that hold it.
    pub lines: u64,
    /// How often it is there, without overlaps.
    pub occurrences: u64,
    /// Where it is, the first ones.
    pub offsets: Vec<u64>,
}

/// What a pass over a file came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scanned {
    /// By string, in the order of the set.
    pub counts: Vec<Count>,
    /// Bytes that were read: fewer than the file's length where it shrank meanwhile.
    pub bytes: u64,
    /// SHA-256 of exactly these bytes, where it was asked for.
    pub sha256: Option<[u8; 32]>,
}

/// How a pass is made.
#[derive(Clone, Copy)]
pub struct Pass<'p> {
    /// With SHA-256.
    pub hash: bool,
    /// Offsets that are kept of each string.
    pub offsets: usize,
    /// Told how many bytes are done, every few megabytes.
    pub told: &'p (dyn Fn(u64) + Sync),
}

/// Counts the strings in a file.
///
/// # Errors
/// What the system says.
pub fn scan(file: &dyn ReadAt, set: &Set, pass: Pass<'_>) -> io::Result<Scanned> {
    if pass.hash { hashed(file, set, pass) } else { spread(file, set, pass) }
}

/// Counts of one stretch of lines, fed piece by piece.
struct Counter<'s> {
    set: &'s Set,
    keep: usize,
    counts: Vec<Count>,
    last: Vec<Last>,
}

/// Where the last occurrence of a string was.
#[derive(Clone, Copy, Default)]
struct Last {
    /// Behind its last byte.
    end: u64,
    /// Its line had no end up to here.
    open: Option<u64>,
}

impl<'s> Counter<'s> {
    fn new(set: &'s Set, keep: usize) -> Counter<'s> {
        Counter { set, keep, counts: vec![Count::default(); set.len()], last: vec![Last::default(); set.len()] }
    }

    /// Counts what ends behind `fresh` in a piece that begins at `base` in the file. The bytes before `fresh` are the end of
    /// the piece before: as many as the longest string has, less one.
    fn feed(&mut self, piece: &[u8], base: u64, fresh: usize) {
        let set = self.set;
        for &index in &set.single {
            for at in memchr::memchr_iter(set.needles[index][0], &piece[fresh..]) {
                self.hit(index, fresh + at, piece, base);
            }
        }
        match &set.engine {
            Engine::None => {}
            Engine::Packed(searcher) => {
                let mut from = 0;
                while let Some(found) = searcher.find_in(piece, Span { start: from, end: piece.len() }) {
                    let start = found.start();
                    for &index in &set.starts[usize::from(piece[start])] {
                        let needle = &set.needles[index];
                        if start + needle.len() > fresh && piece[start..].starts_with(needle) {
                            self.hit(index, start, piece, base);
                        }
                    }
                    from = start + 1;
                }
            }
            Engine::Automaton(automaton, indexes) => {
                for found in automaton.find_overlapping_iter(piece) {
                    if found.end() > fresh {
                        self.hit(indexes[found.pattern().as_usize()], found.start(), piece, base);
                    }
                }
            }
        }
        if self.last.iter().any(|last| last.open.is_some()) {
            let end = memchr::memrchr(b'\n', piece).map_or(0, |at| base + at as u64 + 1);
            for last in &mut self.last {
                last.open = last.open.filter(|searched| end <= *searched).map(|_| base + piece.len() as u64);
            }
        }
    }

    fn hit(&mut self, index: usize, start: usize, piece: &[u8], base: u64) {
        let (count, last) = (&mut self.counts[index], &mut self.last[index]);
        let at = base + start as u64;
        // It overlaps the one that was counted.
        if at < last.end {
            return;
        }
        count.occurrences += 1;
        if count.offsets.len() < self.keep {
            count.offsets.push(at);
        }
        // What begins before the end of the piece before was searched through already.
        let since = |searched: u64| piece.get(searched.saturating_sub(base) as usize..start).unwrap_or_default();
        let same_line = last.open.is_some_and(|searched| memchr::memchr(b'\n', since(searched)).is_none());
        count.lines += u64::from(!same_line);
        let end = at + self.set.needles[index].len() as u64;
        *last = Last { end, open: Some(end) };
    }
}

/// Stretches of whole lines on all cores.
fn spread(file: &dyn ReadAt, set: &Set, pass: Pass<'_>) -> io::Result<Scanned> {
    let units = file.length().div_ceil(UNIT).max(1);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let (next, done) = (AtomicU64::new(0), AtomicU64::new(0));
    let found = Mutex::new(Vec::new());
    let work = || {
        let mut memory = vec![0; PAGE + (set.longest - 1).next_multiple_of(PAGE) + BLOCK];
        let at = memory.as_ptr().align_offset(PAGE).min(PAGE);
        let end = memory.len() - PAGE + at;
        let buffer = &mut memory[at..end];
        loop {
            let unit = next.fetch_add(1, Ordering::Relaxed);
            if unit >= units {
                return;
            }
            let counted = stretch(file, set, pass.offsets, unit, unit + 1 == units, buffer);
            (pass.told)(done.fetch_add(UNIT, Ordering::Relaxed) + UNIT);
            let failed = counted.is_err();
            found.lock().unwrap_or_else(PoisonError::into_inner).push((unit, counted));
            if failed {
                next.store(units, Ordering::Relaxed);
                return;
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..cores.min(usize::try_from(units).unwrap_or(usize::MAX)) {
            // Where the system has no thread to give, the one that asks does it all.
            let _ = std::thread::Builder::new().spawn_scoped(scope, work);
        }
        work();
    });
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.sort_unstable_by_key(|(unit, _)| *unit);
    let mut sum = Scanned { counts: vec![Count::default(); set.len()], bytes: 0, sha256: None };
    for (_, counted) in found {
        let (counts, bytes) = counted?;
        sum.bytes += bytes;
        for (sum, count) in sum.counts.iter_mut().zip(counts) {
            sum.lines += count.lines;
            sum.occurrences += count.occurrences;
            let room = pass.offsets - sum.offsets.len();
            sum.offsets.extend(count.offsets.into_iter().take(room));
        }
    }
    Ok(sum)
}

/// The lines that begin in a unit: from behind the first line break at or behind its last byte before, to behind the first one
/// at or behind its own last byte. A file without line breaks is one stretch, of the first unit. Read is into the last block of the
/// buffer; what is kept of the piece before ends where that begins.
fn stretch(file: &dyn ReadAt, set: &Set, keep: usize, unit: u64, last: bool, buffer: &mut [u8]) -> io::Result<(Vec<Count>, u64)> {
    let mut counter = Counter::new(set, keep);
    let border = |number: u64| (number * UNIT).saturating_sub(1);
    let (open, close, lead) = (border(unit), border(unit + 1), buffer.len() - BLOCK);
    let mut at = open - open % PAGE as u64;
    let (mut carried, mut started, mut bytes) = (0usize, unit == 0, 0u64);
    loop {
        // Behind the border only the rest of a line is wanted, which is short, unless there are no lines.
        let rest = if at > close { (at - close).max(LINE) } else { close + 1 - at };
        let wanted = if last { BLOCK } else { BLOCK.min(usize::try_from(rest).unwrap_or(BLOCK)) };
        let read = file.read_at(at, &mut buffer[lead..lead + wanted])?;
        if read == 0 {
            return Ok((counter.counts, bytes));
        }
        let mut fresh = lead..lead + read;
        let mut ends = false;
        if !last && at + read as u64 > close {
            let from = lead + close.saturating_sub(at) as usize;
            if let Some(line) = memchr::memchr(b'\n', &buffer[from..fresh.end]) {
                fresh.end = from + line + 1;
                ends = true;
            }
        }
        if !started {
            fresh.start += (open.saturating_sub(at) as usize).min(read);
            match memchr::memchr(b'\n', &buffer[fresh.clone()]) {
                Some(line) => {
                    fresh.start += line + 1;
                    started = true;
                }
                None if at + read as u64 > close && !last => return Ok((counter.counts, bytes)),
                None => {
                    at += read as u64;
                    continue;
                }
            }
        }
        bytes += fresh.len() as u64;
        let begin = lead - carried;
        counter.feed(&buffer[begin..fresh.end], at - carried as u64, fresh.start - begin);
        if ends {
            return Ok((counter.counts, bytes));
        }
        at += read as u64;
        carried = (set.longest - 1).min(fresh.end - begin);
        buffer.copy_within(fresh.end - carried..fresh.end, lead - carried);
    }
}

/// One thread reads and counts, the other hashes the very bytes that were counted.
fn hashed(file: &dyn ReadAt, set: &Set, pass: Pass<'_>) -> io::Result<Scanned> {
    let overlap = set.longest - 1;
    let (to_hash, blocks) = sync_channel::<(Vec<u8>, usize, usize)>(AHEAD);
    let (give_back, free) = sync_channel::<Vec<u8>>(AHEAD + 1);
    let made = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let hasher = std::thread::Builder::new().spawn_scoped(scope, move || {
            let mut hash = Sha256::new();
            while let Ok((block, start, end)) = blocks.recv() {
                hash.update(&block[start..end]);
                let _ = give_back.try_send(block);
            }
            hash
        })?;
        let mut counter = Counter::new(set, pass.offsets);
        let mut tail = Vec::with_capacity(overlap);
        let mut at = 0u64;
        loop {
            let mut block = match free.try_recv() {
                Ok(block) => block,
                Err(_) if made.load(Ordering::Relaxed) <= AHEAD => {
                    made.fetch_add(1, Ordering::Relaxed);
                    vec![0; overlap + BLOCK]
                }
                Err(_) => match free.recv() {
                    Ok(block) => block,
                    Err(_) => return Err(io::Error::other("the thread that hashes ended")),
                },
            };
            let carried = tail.len();
            block[..carried].copy_from_slice(&tail);
            let read = file.read_at(at, &mut block[carried..carried + BLOCK])?;
            if read == 0 {
                break;
            }
            let end = carried + read;
            counter.feed(&block[..end], at - carried as u64, carried);
            tail.clear();
            tail.extend_from_slice(&block[end - overlap.min(end)..end]);
            at += read as u64;
            if at.is_multiple_of(UNIT) {
                (pass.told)(at);
            }
            if to_hash.send((block, carried, end)).is_err() {
                return Err(io::Error::other("the thread that hashes ended"));
            }
        }
        drop(to_hash);
        let hash = hasher.join().map_err(|_| io::Error::other("the thread that hashes ended"))?;
        Ok(Scanned { counts: counter.counts, bytes: at, sha256: Some(hash.finalize().into()) })
    })
}

#[cfg(test)]
mod tests;

//! Rows that are told while they are read, in memory that does not depend on how many there are.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ScopedJoinHandle;
use std::time::Duration;

use crate::report::{Problem, Progress};
use crate::store::{Opened, ReadAs, Refusal, Tables};

use super::{End, Question, Store, Telling, each};

/// Hands rows to `tell` as lines of JSON while they are read. A store that its host has open is read as fast as it can be: whoever reads
/// our output slowly must not keep the host's checkpoints waiting.
///
/// # Errors
/// What `tell` says; and inside, why the rows are not all, or not of one moment.
pub fn stream(
    store: &Store,
    question: &Question,
    telling: &Telling<'_>,
    progress: &Progress,
    tell: &mut dyn FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<Result<(), Problem>> {
    let mut streamed = || -> Result<(), End> {
        let (opened, tables) = store.open(progress, false)?;
        let (mut opened, tables) = if opened.read_as == ReadAs::Shared {
            match beside_a_host(opened, &tables, question, telling, progress, tell) {
                Err(Cut::Moment) => {}
                Err(Cut::End(end)) => return Err(end),
                Ok(()) => return Ok(()),
            }
            let (opened, tables) = store.open(progress, true)?;
            if opened.read_as == ReadAs::Shared {
                return match beside_a_host(opened, &tables, question, telling, progress, tell) {
                    Err(Cut::Moment) => Err(Refusal::Endless.into()),
                    Err(Cut::End(end)) => Err(end),
                    Ok(()) => Ok(()),
                };
            }
            (opened, tables)
        } else {
            (opened, tables)
        };
        let told = each(&mut opened, &tables, question, telling, progress, tell);
        match told {
            Err(End::Output(error)) => Err(End::Output(error)),
            // What a changing file says, good or bad, is worth nothing.
            told if store.kept.is_none() => opened.still().map_err(End::Store).and(told),
            told => told,
        }
    };
    match streamed() {
        Ok(()) => Ok(Ok(())),
        Err(End::Store(refusal)) => Ok(Err(store.problem(&refusal))),
        Err(End::Output(error)) => Err(error),
    }
}

/// Why a store was not read to its end beside its host.
enum Cut {
    /// The question takes longer than the host is to be kept waiting, and nothing was handed on yet.
    Moment,
    /// As everywhere.
    End(End),
}

/// Reads to the end in a thread of its own, and lets the store go, while rows are still handed on. None is handed on before it is known
/// that the host writes little meanwhile: where it writes much, the same question is put to a copy.
fn beside_a_host(
    mut opened: Opened,
    tables: &Tables,
    question: &Question,
    telling: &Telling<'_>,
    progress: &Progress,
    tell: &mut dyn FnMut(&[u8]) -> io::Result<()>,
) -> Result<(), Cut> {
    let clock = opened.clock.clone();
    let spool = Spool::default();
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| {
            let _ended = Ended(&spool);
            let read = each(&mut opened, tables, question, telling, &Progress::hidden(), &mut |lines| spool.fill(lines));
            drop(opened);
            read
        });
        let join = |reading: ScopedJoinHandle<'_, Result<(), End>>| {
            reading.join().unwrap_or_else(|_| Err(Refusal::Io("the reader of the store ended".to_owned()).into()))
        };
        let (mut reading, mut read) = (Some(reading), Ok(()));
        while !clock.settle() && reading.as_ref().is_some_and(|reading| !reading.is_finished()) {
            std::thread::sleep(Duration::from_millis(2));
        }
        if let Some(reading) = reading.take_if(|_| !clock.settle()) {
            read = join(reading);
            if matches!(read, Err(End::Store(Refusal::Endless))) {
                return Err(Cut::Moment);
            }
        }
        let (mut rows, mut told) = (Vec::new(), 0);
        let mut hand_on = || {
            while spool.next(&mut rows)? {
                told += rows.len() as u64;
                progress.reached(told);
                tell(&rows)?;
            }
            Ok(())
        };
        let handed_on = hand_on();
        spool.end();
        handed_on.map_err(|error| Cut::End(End::Output(error)))?;
        if let Some(reading) = reading {
            read = join(reading);
        }
        read.map_err(Cut::End)
    })
}

/// However the reader ends, nobody waits for it.
struct Ended<'s>(&'s Spool);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Rows on their way to whoever takes them: as many as memory holds, and those behind them in a file without a name. The store is read
/// as fast as it can be, however slowly they are taken.
#[derive(Default)]
struct Spool {
    inside: Mutex<Inside>,
    changed: Condvar,
}

#[derive(Default)]
struct Inside {
    /// What comes first.
    memory: Vec<u8>,
    /// What comes behind it: the bytes from `taken` to `filled`.
    file: Option<File>,
    taken: u64,
    filled: u64,
    ended: bool,
}

impl Spool {
    const MEMORY: usize = 8 << 20;

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes rows in; fails when nobody takes them out any more.
    fn fill(&self, lines: &[u8]) -> io::Result<()> {
        let mut inside = self.inside();
        if inside.ended {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        if inside.filled > inside.taken || inside.memory.len() + lines.len() > Spool::MEMORY {
            let at = inside.filled;
            let file = match &mut inside.file {
                Some(file) => file,
                None => inside.file.insert(unnamed()?),
            };
            file.write_all_at(lines, at)?;
            inside.filled += lines.len() as u64;
        } else {
            inside.memory.extend_from_slice(lines);
        }
        self.changed.notify_one();
        Ok(())
    }

    /// Nothing more comes, or nobody takes what comes.
    fn end(&self) {
        self.inside().ended = true;
        self.changed.notify_one();
    }

    /// The next rows, of any number; none when there are no more.
    fn next(&self, rows: &mut Vec<u8>) -> io::Result<bool> {
        const PIECE: u64 = 1 << 20;
        rows.clear();
        let mut inside = self.inside();
        while inside.memory.is_empty() && inside.filled == inside.taken {
            if inside.ended {
                return Ok(false);
            }
            inside = self.changed.wait(inside).unwrap_or_else(PoisonError::into_inner);
        }
        if !inside.memory.is_empty() {
            std::mem::swap(rows, &mut inside.memory);
            return Ok(true);
        }
        let (at, bytes) = (inside.taken, (inside.filled - inside.taken).min(PIECE));
        rows.resize(usize::try_from(bytes).unwrap_or_default(), 0);
        if let Some(file) = &inside.file {
            file.read_exact_at(rows, at)?;
        }
        inside.taken += bytes;
        if inside.taken == inside.filled {
            (inside.taken, inside.filled) = (0, 0);
        }
        Ok(true)
    }
}

/// A file that no directory lists: it is gone with the program, however that ends.
fn unnamed() -> io::Result<std::fs::File> {
    use std::os::unix::fs::OpenOptionsExt;
    let flags = rustix::fs::OFlags::TMPFILE.bits() as i32;
    std::fs::OpenOptions::new().read(true).write(true).mode(0o600).custom_flags(flags).open(std::env::temp_dir())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_out_as_they_went_in_however_slowly_they_are_taken() {
        let spool = Spool::default();
        let chunk = |at: u32| at.to_le_bytes().repeat(25_000);
        let (mut rows, mut out) = (Vec::new(), Vec::new());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _ended = Ended(&spool);
                (0..300).try_for_each(|at| spool.fill(&chunk(at))).unwrap();
            });
            // Thirty megabytes: most of them wait in the file.
            std::thread::sleep(std::time::Duration::from_millis(300));
            while spool.next(&mut rows).unwrap() {
                out.extend_from_slice(&rows);
            }
        });
        assert!(out == (0..300).flat_map(chunk).collect::<Vec<u8>>());
        assert!(spool.inside().file.is_some());
    }

    #[test]
    fn nobody_fills_what_nobody_takes() {
        let spool = Spool::default();
        spool.fill(b"a\n").unwrap();
        spool.end();
        assert_eq!(spool.fill(b"b\n").unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        let mut rows = Vec::new();
        assert!(spool.next(&mut rows).unwrap() && rows == b"a\n" && !spool.next(&mut rows).unwrap());
    }
}

//! Rows that are told while they are read, in memory that does not depend on how many there are.

use std::io::{self, Read, Seek, Write};

use crate::report::{Problem, Progress};
use crate::store::{ReadAs, Refusal};

use super::{End, Question, Store, Telling, each};

/// Hands rows to `tell` as lines of JSON while they are read. A store that its host has open is read to the end first: whoever reads our
/// output slowly must not keep the host's checkpoints waiting.
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
        let mut long = false;
        let (mut opened, tables) = loop {
            let (mut opened, tables) = store.open(progress, long)?;
            if opened.read_as != ReadAs::Shared {
                break (opened, tables);
            }
            let mut spool = Spool::default();
            let read = each(&mut opened, &tables, question, telling, progress, &mut |lines| spool.write(lines));
            let hurried = opened.is_hurried();
            drop(opened);
            match read {
                Ok(()) => return spool.read(tell).map_err(End::Output),
                Err(End::Store(Refusal::Endless)) if hurried => long = true,
                Err(end) => return Err(end),
            }
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

/// Rows that wait for whoever reads them: in memory, and if they are many in a file without a name.
#[derive(Default)]
struct Spool {
    memory: Vec<u8>,
    file: Option<std::fs::File>,
}

impl Spool {
    const MEMORY: usize = 16 << 20;

    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        if self.memory.len() + lines.len() > Spool::MEMORY {
            let file = match &mut self.file {
                Some(file) => file,
                None => self.file.insert(unnamed()?),
            };
            file.write_all(&self.memory)?;
            self.memory.clear();
        }
        self.memory.extend_from_slice(lines);
        Ok(())
    }

    fn read(mut self, tell: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        if let Some(file) = &mut self.file {
            file.rewind()?;
            let mut piece = vec![0; 1 << 20];
            loop {
                match file.read(&mut piece)? {
                    0 => break,
                    read => tell(&piece[..read])?,
                }
            }
        }
        tell(&self.memory)
    }
}

/// A file that no directory lists: it is gone with the program, however that ends.
fn unnamed() -> io::Result<std::fs::File> {
    use std::os::unix::fs::OpenOptionsExt;
    let flags = rustix::fs::OFlags::TMPFILE.bits() as i32;
    std::fs::OpenOptions::new().read(true).write(true).mode(0o600).custom_flags(flags).open(std::env::temp_dir())
}

//! A process of its own that asks a file system which may hang, before any thread of ours does.
//!
//! A thread that looks up a name which another process has been looking up for ever waits where no signal reaches it, not even
//! SIGKILL (`d_alloc_parallel`): with it the whole program could not end any more. Another process can be left behind. It asks
//! first; what it came back from does not hold up a thread either.

use std::io::{Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::files::Place;

/// What the scout says first: a program that is started as ours and is another does not.
const READY: u8 = b'!';

/// What it says when it came back.
const BACK: u8 = b'.';

/// How far it has to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Errand {
    /// To what stands there.
    Stat,
    /// To each name in the directory.
    Entries,
}

/// Whether the file system answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// It did, whatever it said.
    Back,
    /// Not in time.
    Lost,
    /// There is no scout: it cannot be started here.
    NoScout,
}

struct Scout {
    process: Child,
    tell: ChildStdin,
    hear: ChildStdout,
}

static SCOUT: Mutex<Option<Scout>> = Mutex::new(None);

/// Sends the scout to a path, and waits so long for it. One that does not come back is left behind.
pub fn send(patience: Duration, path: &Path, errand: Errand) -> Report {
    let mut kept = SCOUT.lock().unwrap_or_else(PoisonError::into_inner);
    let mut scout = match kept.take().map_or_else(Scout::start, Ok) {
        Ok(scout) => scout,
        Err(_) => return Report::NoScout,
    };
    let report = scout.go(patience, path, errand);
    match report {
        Report::Back => *kept = Some(scout),
        // It may be where it cannot be ended: nobody waits for it, and it goes to pid 1 when this process ends.
        Report::Lost | Report::NoScout => drop(scout.process.kill()),
    }
    report
}

impl Scout {
    fn start() -> std::io::Result<Scout> {
        let mut command = Command::new("/proc/self/exe");
        command.args(["readback", "scout"]).env_clear().current_dir("/").process_group(0);
        // Nothing of ours stays open in it: who reads what we print waits for the last one that could print.
        let mut process = super::child::spawn_wanted(command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()))?;
        let streams = process.stdin.take().zip(process.stdout.take());
        let (tell, hear) = streams.ok_or_else(|| std::io::Error::other("no pipes"))?;
        let mut scout = Scout { process, tell, hear };
        match scout.said(Duration::from_secs(2)) {
            Some(READY) => Ok(scout),
            _ => {
                let _ = scout.process.kill();
                Err(std::io::Error::other("no scout"))
            }
        }
    }

    fn go(&mut self, patience: Duration, path: &Path, errand: Errand) -> Report {
        let bytes = path.as_os_str().as_bytes();
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes();
        let message = [&[u8::from(errand == Errand::Entries)][..], &length, bytes].concat();
        if self.tell.write_all(&message).is_err() {
            return Report::NoScout;
        }
        match self.said(patience) {
            Some(BACK) => Report::Back,
            Some(_) => Report::NoScout,
            None if self.process.try_wait().is_ok_and(|ended| ended.is_some()) => Report::NoScout,
            None => Report::Lost,
        }
    }

    /// The next byte, if it comes in time.
    fn said(&mut self, patience: Duration) -> Option<u8> {
        let until = Timespec::try_from(patience).ok()?;
        let ready = poll(&mut [PollFd::new(&self.hear, PollFlags::IN)], Some(&until)).ok()?;
        let mut byte = [0];
        (ready == 1 && self.hear.read_exact(&mut byte).is_ok()).then_some(byte[0])
    }
}

/// What the scout does, until nobody sends it any more.
pub fn serve() -> std::io::Result<()> {
    let (mut hear, mut tell) = (std::io::stdin().lock(), std::io::stdout().lock());
    let mut say = |byte: u8| tell.write_all(&[byte]).and_then(|()| tell.flush());
    say(READY)?;
    loop {
        let mut head = [0; 5];
        if hear.read_exact(&mut head).is_err() {
            return Ok(());
        }
        let length = u32::from_le_bytes([head[1], head[2], head[3], head[4]]);
        let mut path = Vec::new();
        Read::by_ref(&mut hear).take(length.into()).read_to_end(&mut path)?;
        let place = Place::at(Path::new(&std::ffi::OsString::from_vec(path)));
        // What it finds is asked again; that an answer comes is all that counts.
        let _ = place.stat();
        if head[0] != 0 {
            let _ = place.programs();
        }
        say(BACK)?;
    }
}

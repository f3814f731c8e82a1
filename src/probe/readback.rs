//! What a host's shell was given, read out of band.
//!
//! The host's shell runs this program with a one-time token; the shell stays alive behind it. The helper calls a private
//! socket and says the token. Who called is known from the kernel (peer credentials), and what counts is the
//! environment block of the *shell* above it: what a profile or the shell itself adds is told apart. So no value
//! passes through the host's output, database or log. The helper goes when it is told to.

use std::collections::{HashMap, HashSet};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::host::listen::{Address, Caller, Ear};
use crate::host::{Environ, Host, Pid};

use super::token;

/// Longest time between the helper's call and its token, and between being told to go and going.
const TALK: Duration = Duration::from_secs(5);

/// How long a helper stays when nobody tells it to go: a prober that was killed must not leave it behind.
pub const STAY: Duration = Duration::from_secs(60);

/// More than any environment.
const BLOCK_LIMIT: u64 = 64 << 20;

/// What the helper is told.
const GO: u8 = b'g';
const TELL: u8 = b't';

/// What a shell was given.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The shell: the host's own child, where the host is above it.
    pub shell: Pid,
    /// Kernel's name of the shell.
    pub shell_name: String,
    /// The shell's parent.
    pub parent: Pid,
    /// Kernel's name of the parent.
    pub parent_name: String,
    /// The shell's block, as it was at execve.
    pub block: Environ,
    /// Names that the shell gave the helper and did not get itself, or got otherwise: a profile's, PWD, SHLVL, `_`.
    pub added: Vec<String>,
    /// Names that the shell was given and the helper was not: taken away on the way.
    pub removed: Vec<String>,
    /// Where the block was read.
    pub source: String,
}

impl Seen {
    /// A value of the shell's block.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.block.bytes(name)
    }

    /// Whether the shell was given exactly this.
    pub fn has(&self, name: &str, value: &str) -> bool {
        self.get(name) == Some(value.as_bytes())
    }

    /// The names of the shell's block, in order.
    pub fn names(&self) -> Vec<String> {
        self.block.entries.iter().map(|entry| entry.name.lossy().into_owned()).collect()
    }
}

/// The socket that helpers call.
pub struct Readback {
    address: Address,
    argument: String,
    program: String,
    expected: Arc<Mutex<Calls>>,
    over: Arc<AtomicBool>,
}

/// The calls that are expected, by token, and those that came.
#[derive(Default)]
struct Calls {
    waiting: HashMap<String, Sender<Caller>>,
    spent: HashSet<String>,
    again: u32,
}

/// A call that is expected.
pub struct Expected {
    token: String,
    command: String,
    caller: Receiver<Caller>,
}

/// Why a shell told nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Silence {
    /// Nobody called yet.
    NotYet,
    /// The call broke off, or the shell could not be read.
    Broken(String),
}

impl Readback {
    /// Listens.
    ///
    /// # Errors
    /// When the socket cannot be made, or this program has no path.
    pub fn open(address: Address) -> std::io::Result<Readback> {
        /// A path of a socket has 108 bytes at most.
        const LONGEST: usize = 107;
        let address = match address {
            Address::Path(path) if path.as_os_str().len() > LONGEST => Address::Abstract(format!("whoseenv-{}", token()?)),
            address => address,
        };
        let ear = Ear::open(address)?;
        let program = std::env::current_exe()?.into_os_string().into_string();
        let program = program.map_err(|_| std::io::Error::other("the path of this program is no text"))?;
        let readback = Readback {
            argument: ear.address().argument(),
            address: ear.address().clone(),
            program,
            expected: Arc::default(),
            over: Arc::default(),
        };
        let (expected, over) = (Arc::clone(&readback.expected), Arc::clone(&readback.over));
        std::thread::Builder::new().name("readback".to_owned()).spawn(move || {
            while let Ok(caller) = ear.accept() {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                let expected = Arc::clone(&expected);
                // A caller that says nothing keeps nobody else waiting.
                let _ = std::thread::Builder::new().spawn(move || receive(caller, &expected));
            }
        })?;
        Ok(readback)
    }

    /// A new token, good for one call.
    ///
    /// # Errors
    /// When the system has no randomness.
    pub fn expect(&self) -> std::io::Result<Expected> {
        let token = token()?;
        let (sender, caller) = channel();
        self.expected.lock().unwrap_or_else(PoisonError::into_inner).waiting.insert(token.clone(), sender);
        // The colon is why the shell stays: it does not become its last command.
        let command = format!("{} readback call {} {token}; :", quoted(&self.program), quoted(&self.argument));
        Ok(Expected { token, command, caller })
    }

    /// How many calls came with a token that another had come with: what a shell ran once more was not looked at.
    pub fn again(&self) -> u32 {
        self.expected.lock().unwrap_or_else(PoisonError::into_inner).again
    }

    /// The socket, as the helper's argument names it.
    pub fn address(&self) -> &str {
        &self.argument
    }

    /// The path of the program that helpers are.
    pub fn program(&self) -> &str {
        &self.program
    }
}

impl Drop for Readback {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        let _ = self.address.call(TALK);
        if let Address::Path(path) = &self.address {
            let _ = std::fs::remove_file(path);
        }
    }
}

fn receive(mut caller: Caller, expected: &Mutex<Calls>) {
    let _ = caller.stream.set_read_timeout(Some(TALK));
    let mut said = [0; 33];
    if caller.stream.read_exact(&mut said).is_err() || said[32] != b'\n' {
        return;
    }
    let Ok(token) = std::str::from_utf8(&said[..32]) else { return };
    let waiting = {
        let mut calls = expected.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = calls.waiting.remove(token);
        let first = waiting.is_some() && calls.spent.insert(token.to_owned());
        calls.again += u32::from(!first && calls.spent.contains(token));
        waiting
    };
    if let Some(waiting) = waiting {
        let _ = waiting.send(caller);
    }
}

impl Expected {
    /// The line for the host's shell.
    pub fn command(&self) -> &str {
        &self.command
    }

    /// The token, and the socket, as a program that makes its own line needs them.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// What the shell was given, once it has called; the helper goes then.
    ///
    /// # Errors
    /// When it has not called within `wait`, or could not be read.
    pub fn read(&self, wait: Duration, host: Option<Pid>) -> Result<Seen, Silence> {
        let caller = self.caller.recv_timeout(wait).map_err(|error| match error {
            RecvTimeoutError::Timeout => Silence::NotYet,
            RecvTimeoutError::Disconnected => Silence::Broken("the helper's call broke off".to_owned()),
        })?;
        look(caller, host)
    }
}

/// Reads the shell above the caller, and lets the caller go.
fn look(mut caller: Caller, host_pid: Option<Pid>) -> Result<Seen, Silence> {
    let machine = Host::live();
    let seen = caller.pid.and_then(|pid| from_outside(&machine, pid, host_pid));
    let seen = match seen {
        Some(seen) => Ok(seen),
        // Of another pid namespace, or another account's: the helper itself can read its parent.
        None => from_inside(&mut caller.stream, &machine, caller.pid)
            .map_err(|error| Silence::Broken(format!("the shell could not be read: {error}"))),
    };
    let _ = caller.stream.write_all(&[GO]);
    seen
}

fn from_outside(machine: &Host, helper: Pid, host_pid: Option<Pid>) -> Option<Seen> {
    let chain = machine.chain(helper);
    // The host's own child, whatever stands between it and the helper; else the helper's parent.
    let of_host = host_pid.and_then(|host| chain.iter().position(|stat| stat.pid == host)).filter(|at| *at > 0);
    // Where the shell became the helper, the helper's own block is what was given: above it are the host and this program.
    let became = chain.get(1).is_some_and(|parent| parent.pid == std::process::id());
    let at = of_host.map_or(usize::from(!became), |host| host - 1);
    let shell = chain.get(at)?;
    let parent = machine.process(shell.ppid).stat().ok();
    let block = machine.process(shell.pid).environ().ok()?;
    let own = machine.process(helper).environ().ok()?;
    Some(Seen {
        shell: shell.pid,
        shell_name: shell.comm.lossy().into_owned(),
        parent: shell.ppid,
        parent_name: parent.map(|stat| stat.comm.lossy().into_owned()).unwrap_or_default(),
        added: added(&block, &own),
        removed: removed(&block, &own),
        block,
        source: format!("/proc/{}/environ", shell.pid),
    })
}

/// Names in `after` that are not in `before` with the same value.
fn added(before: &Environ, after: &Environ) -> Vec<String> {
    let is_new = |name: &str| before.get(name) != after.get(name);
    let names = after.entries.iter().map(|entry| entry.name.lossy().into_owned());
    names.filter(|name| is_new(name)).collect()
}

/// Names in `before` that are not in `after` at all.
fn removed(before: &Environ, after: &Environ) -> Vec<String> {
    before.entries.iter().map(|entry| entry.name.lossy().into_owned()).filter(|name| after.get(name).is_none()).collect()
}

fn from_inside(stream: &mut UnixStream, machine: &Host, helper: Option<Pid>) -> std::io::Result<Seen> {
    stream.write_all(&[TELL])?;
    let mut number = || -> std::io::Result<u32> {
        let mut bytes = [0; 4];
        stream.read_exact(&mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    };
    let (shell, parent, length) = (number()?, number()?, number()?);
    if u64::from(length) > BLOCK_LIMIT {
        return Err(std::io::Error::other("it tells too much"));
    }
    let mut block = vec![0; length as usize];
    stream.read_exact(&mut block)?;
    // Whose number it is: only where both sides count processes alike.
    let alike = helper.and_then(|helper| machine.process(helper).stat().ok()).is_some_and(|helper| helper.ppid == shell);
    let name = |pid: Pid| machine.process(pid).stat().ok().filter(|_| alike).map(|stat| stat.comm.lossy().into_owned());
    Ok(Seen {
        shell,
        shell_name: name(shell).unwrap_or_else(|| "a shell".to_owned()),
        parent,
        parent_name: name(parent).unwrap_or_else(|| "a process".to_owned()),
        block: Environ::parse(&block),
        added: Vec::new(),
        removed: Vec::new(),
        source: format!("/proc/{shell}/environ, read by the helper beside it"),
    })
}

/// The helper: calls, says its token, and stays until told to go.
///
/// # Errors
/// When nobody listens any more.
pub fn call(address: &str, token: &str) -> std::io::Result<()> {
    let mut stream = Address::parse(address).call(STAY)?;
    stream.write_all(format!("{token}\n").as_bytes())?;
    let mut told = [0];
    loop {
        match stream.read(&mut told)? {
            1 if told[0] == TELL => {
                let machine = Host::live();
                let parent = machine.process(std::process::id()).stat().map(|stat| stat.ppid).unwrap_or_default();
                let above = machine.process(parent).stat().map(|stat| stat.ppid).unwrap_or_default();
                let block = machine.process(parent).environ_block(<[u8]>::to_vec).unwrap_or_default();
                let length = u32::try_from(block.len()).unwrap_or_default();
                for number in [parent, above, length] {
                    stream.write_all(&number.to_le_bytes())?;
                }
                stream.write_all(&block)?;
            }
            _ => return Ok(()),
        }
    }
}

/// As a word of a shell's.
pub fn quoted(text: &str) -> String {
    let plain = |char: char| char.is_ascii_alphanumeric() || "/._-+:@,%=".contains(char);
    if !text.is_empty() && text.chars().all(plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stranger_to_the_socket_is_not_heard() {
        let dir = tempfile::tempdir().unwrap();
        let readback = Readback::open(Address::Path(dir.path().join("ear"))).unwrap();
        let expected = readback.expect().unwrap();
        for said in [&b"wrong\n"[..], b"0123456789abcdef0123456789abcdef\n", b""] {
            let mut stream = readback.address.call(TALK).unwrap();
            let _ = stream.write_all(said);
        }
        assert_eq!(expected.read(Duration::from_millis(50), None).err(), Some(Silence::NotYet));
    }

    #[test]
    fn the_parent_of_who_called_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let readback = Readback::open(Address::Path(dir.path().join("ear"))).unwrap();
        let expected = readback.expect().unwrap();
        let (address, token) = (readback.address.argument(), expected.token().to_owned());
        let helper = std::thread::spawn(move || call(&address, &token));
        let seen = expected.read(Duration::from_secs(5), None).unwrap();
        helper.join().unwrap().unwrap();
        assert_eq!(seen.shell, std::os::unix::process::parent_id());
        let block = std::fs::read(format!("/proc/{}/environ", seen.shell)).unwrap();
        assert_eq!(seen.block, Environ::parse(&block));
    }

    #[test]
    fn words_survive_a_shell() {
        for word in ["plain/path", "a b", "it's", "$x", ""] {
            let echoed = std::process::Command::new("sh").arg("-c").arg(format!("printf %s {}", quoted(word))).output().unwrap();
            assert_eq!(String::from_utf8(echoed.stdout).unwrap(), word);
        }
    }
}

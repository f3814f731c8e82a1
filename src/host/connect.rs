//! Asks the thing that a value names whether it answers (`--connect`). The only file that opens a host's socket.
//!
//! Each question has a deadline and asks for nothing but an answer: an X11 connection setup, the list of
//! an ssh agent's keys of which only the count is kept, a Wayland registry, a D-Bus greeting.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use x11rb_protocol::connect::Connect;
use x11rb_protocol::errors::ConnectError;

use super::Host;
use super::fact::{Fact, Unknown};
use super::process::View;
use super::xauth;

/// How long connecting and answering may take together.
pub const PATIENCE: Duration = Duration::from_secs(2);

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// It answers; what it said of itself.
    Answers(String),
    /// It answers and says no; why.
    Rejected(String),
    /// Nothing takes the connection.
    Refused(String),
    /// It did not answer in time; what it did.
    Silent(String),
}

/// What to connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A Unix socket at a path.
    Unix {
        /// In whose view.
        view: View,
        /// The path.
        path: Vec<u8>,
    },
    /// A Unix socket with an abstract name.
    Abstract {
        /// In whose view.
        view: View,
        /// The name, without the leading NUL.
        name: Vec<u8>,
    },
    /// A TCP port.
    Tcp {
        /// In whose view.
        view: View,
        /// Where.
        address: SocketAddr,
    },
}

impl Target {
    /// The IP address, for TCP.
    pub fn ip(&self) -> Option<IpAddr> {
        match self {
            Target::Tcp { address, .. } => Some(address.ip()),
            Target::Unix { .. } | Target::Abstract { .. } => None,
        }
    }

    fn view(&self) -> View {
        match self {
            Target::Unix { view, .. } | Target::Abstract { view, .. } | Target::Tcp { view, .. } => *view,
        }
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Target::Unix { path, .. } => write!(f, "{}", String::from_utf8_lossy(path)),
            Target::Abstract { name, .. } => write!(f, "@{}", String::from_utf8_lossy(name)),
            Target::Tcp { address, .. } => write!(f, "{address}"),
        }
    }
}

trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

/// A place that can be connected to without asking the host for more.
enum Door {
    Path(OwnedFd),
    Abstract(Vec<u8>),
    Tcp(SocketAddr),
}

impl Host {
    /// Sets up an X11 connection with the cookie that `authority` holds for the display, and closes it.
    /// `address` is where a display of another address than this host's own is listed in that file.
    pub fn call_x11(&self, target: &Target, authority: Option<&[u8]>, number: u16, address: Option<IpAddr>) -> Fact<Answer> {
        let cookie = || -> (Vec<u8>, Vec<u8>) {
            let Some(file) = authority.and_then(|path| self.small_file(target.view(), path).ok()) else { return Default::default() };
            let hostname = self.machine().hostname.as_bytes();
            let (records, _) = xauth::records(&file);
            let found = records.iter().find(|record| record.fits(hostname, address, number));
            found.map(|record| (record.protocol.to_vec(), record.data.to_vec())).unwrap_or_default()
        };
        self.call("x11", target, || {
            let (protocol, data) = cookie();
            move |stream: &mut dyn Stream| x11(stream, protocol, data)
        })
    }

    /// Asks an ssh agent for its identities and keeps their number.
    pub fn call_agent(&self, target: &Target) -> Fact<Answer> {
        self.call("ssh-agent", target, || agent)
    }

    /// Asks a Wayland compositor for its registry.
    pub fn call_wayland(&self, target: &Target) -> Fact<Answer> {
        self.call("wayland", target, || wayland)
    }

    /// Greets a D-Bus daemon as the invoking user.
    pub fn call_bus(&self, target: &Target) -> Fact<Answer> {
        let uid = self.machine().uid;
        self.call("dbus", target, || move |stream: &mut dyn Stream| bus(stream, uid))
    }

    fn call<T>(&self, protocol: &str, target: &Target, talk: impl FnOnce() -> T) -> Fact<Answer>
    where
        T: FnOnce(&mut dyn Stream) -> std::io::Result<Answer> + Send + 'static,
    {
        let view = target.view();
        let key = format!("{protocol} {target} mount={:?} net={:?}", view.mount, view.net);
        self.fact("connect.json", &key, || {
            // Nothing but this machine can be called: a made-up tree has no sockets.
            if self.live_root() != Some(std::path::Path::new("/")) {
                return Err(Unknown::NotCaptured);
            }
            let door = match target {
                Target::Unix { path, .. } => match self.handle(view, path) {
                    Ok(handle) => Door::Path(handle),
                    Err(unknown) if unknown.is_absence() => return Ok(Answer::Refused("the path is gone".to_owned())),
                    Err(unknown) => return Err(unknown),
                },
                Target::Abstract { .. } | Target::Tcp { .. } if view.net.is_some() => return Err(Unknown::OtherNamespace),
                Target::Abstract { name, .. } => Door::Abstract(name.clone()),
                Target::Tcp { address, .. } => Door::Tcp(*address),
            };
            within_patience(door, talk())
        })
    }
}

fn within_patience(door: Door, talk: impl FnOnce(&mut dyn Stream) -> std::io::Result<Answer> + Send + 'static) -> Fact<Answer> {
    let (sender, answer) = channel();
    let taken = Arc::new(AtomicBool::new(false));
    let connected = taken.clone();
    let ask = move || {
        let result = match open(&door) {
            Ok(mut stream) => {
                connected.store(true, Ordering::Release);
                talk(&mut *stream).or_else(|error| silence(&error))
            }
            Err(error) => match error.kind() {
                ErrorKind::ConnectionRefused | ErrorKind::NotFound => Ok(Answer::Refused("it takes no connection".to_owned())),
                _ => Err(error.into()),
            },
        };
        drop(sender.send(result));
    };
    std::thread::Builder::new().name("connect".to_owned()).spawn(ask)?;
    match answer.recv_timeout(PATIENCE) {
        Ok(fact) => fact,
        Err(RecvTimeoutError::Timeout) if taken.load(Ordering::Acquire) => Ok(no_answer()),
        Err(RecvTimeoutError::Timeout) => Ok(Answer::Silent(format!("it did not take the connection within {} ms", PATIENCE.as_millis()))),
        Err(RecvTimeoutError::Disconnected) => Err(Unknown::Io("the question could not be asked".to_owned())),
    }
}

fn open(door: &Door) -> std::io::Result<Box<dyn Stream>> {
    Ok(match door {
        // By way of the handle: no link in the path can lead elsewhere in between, and no path is too long.
        Door::Path(handle) => unix(UnixStream::connect(format!("/proc/self/fd/{}", handle.as_raw_fd()))?)?,
        Door::Abstract(name) => unix(UnixStream::connect_addr(&std::os::unix::net::SocketAddr::from_abstract_name(name)?)?)?,
        Door::Tcp(address) => {
            let stream = TcpStream::connect_timeout(address, PATIENCE)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            Box::new(stream)
        }
    })
}

fn unix(stream: UnixStream) -> std::io::Result<Box<dyn Stream>> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(Box::new(stream))
}

/// What an error in mid-talk means. A forwarder whose cookie one lacks takes the connection and closes it.
fn silence(error: &std::io::Error) -> Fact<Answer> {
    match error.kind() {
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => {
            Ok(Answer::Rejected("it took the connection and closed it without an answer".to_owned()))
        }
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Ok(no_answer()),
        ErrorKind::InvalidData => Ok(Answer::Rejected(format!("its answer makes no sense: {error}"))),
        _ => Err(Unknown::Io(error.to_string())),
    }
}

fn no_answer() -> Answer {
    Answer::Silent(format!("it took the connection and did not answer within {} ms", PATIENCE.as_millis()))
}

fn nonsense(what: &str) -> std::io::Error {
    std::io::Error::new(ErrorKind::InvalidData, what.to_owned())
}

fn x11(stream: &mut dyn Stream, protocol: Vec<u8>, data: Vec<u8>) -> std::io::Result<Answer> {
    let bare = data.is_empty();
    let (mut connect, request) = Connect::with_authorization(protocol, data);
    stream.write_all(&request)?;
    let mut done = false;
    while !done && !connect.buffer().is_empty() {
        let read = stream.read(connect.buffer())?;
        if read == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        done = connect.advance(read);
    }
    let without = if bare { ", asked without a cookie" } else { "" };
    match connect.into_setup() {
        Ok(setup) => Ok(Answer::Answers(format!("an X server answers: {}", String::from_utf8_lossy(&setup.vendor)))),
        Err(ConnectError::SetupFailed(failed)) => {
            Ok(Answer::Rejected(format!("the X server says: {}{without}", String::from_utf8_lossy(&failed.reason).trim())))
        }
        Err(ConnectError::SetupAuthenticate(_)) => Ok(Answer::Rejected(format!("the X server wants another kind of proof{without}"))),
        Err(error) => Err(nonsense(&error.to_string())),
    }
}

fn agent(stream: &mut dyn Stream) -> std::io::Result<Answer> {
    const REQUEST_IDENTITIES: [u8; 5] = [0, 0, 0, 1, 11];
    stream.write_all(&REQUEST_IDENTITIES)?;
    let mut head = [0; 5];
    stream.read_exact(&mut head)?;
    match head[4] {
        12 => {
            let mut count = [0; 4];
            stream.read_exact(&mut count)?;
            Ok(Answer::Answers(match u32::from_be_bytes(count) {
                1 => "the agent answers and has 1 key".to_owned(),
                count => format!("the agent answers and has {count} keys"),
            }))
        }
        5 => Ok(Answer::Rejected("the agent says no".to_owned())),
        other => Err(nonsense(&format!("message {other}"))),
    }
}

fn wayland(stream: &mut dyn Stream) -> std::io::Result<Answer> {
    let mut request = Vec::new();
    // wl_display (object 1): get_registry into object 2, then sync into object 3.
    for (opcode, object) in [(1u32, 2u32), (0, 3)] {
        request.extend([1, (12 << 16) | opcode, object].into_iter().flat_map(u32::to_ne_bytes));
    }
    stream.write_all(&request)?;
    let mut head = [0; 8];
    stream.read_exact(&mut head)?;
    let word = |at: usize| u32::from_ne_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    match (word(0), word(4) & 0xffff) {
        (1, 0) => Ok(Answer::Rejected("the compositor reports an error".to_owned())),
        (1..=3, _) => Ok(Answer::Answers("a Wayland compositor answers".to_owned())),
        _ => Err(nonsense("an event for an unknown object")),
    }
}

fn bus(stream: &mut dyn Stream, uid: u32) -> std::io::Result<Answer> {
    let hex = super::hex(uid.to_string().as_bytes());
    stream.write_all(format!("\0AUTH EXTERNAL {hex}\r\n").as_bytes())?;
    let mut line = Vec::new();
    let mut byte = [0];
    while line.last() != Some(&b'\n') && line.len() < 512 {
        stream.read_exact(&mut byte)?;
        line.push(byte[0]);
    }
    let line = String::from_utf8_lossy(&line);
    match line.split_ascii_whitespace().next() {
        Some("OK") => Ok(Answer::Answers("the bus answers".to_owned())),
        Some("REJECTED") => Ok(Answer::Rejected(format!("the bus does not take uid {uid}"))),
        _ => Err(nonsense("no greeting of a bus")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    /// A server that takes one connection, reads, and answers with these bytes.
    fn server(dir: &std::path::Path, reply: &'static [u8]) -> Target {
        let path = dir.join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = [0; 256];
            let _ = stream.read(&mut asked).unwrap();
            stream.write_all(reply).unwrap();
        });
        Target::Unix { view: View::OURS, path: path.into_os_string().into_encoded_bytes() }
    }

    fn answer(reply: &'static [u8], call: impl Fn(&Host, &Target) -> Fact<Answer>) -> Fact<Answer> {
        let dir = tempfile::tempdir().unwrap();
        call(&Host::live(), &server(dir.path(), reply))
    }

    #[test]
    fn an_agent_is_asked_for_a_number_only() {
        let keys = b"\0\0\0\x1d\x0c\0\0\0\x02\0\0\0\x04blob\0\0\0\x01c\0\0\0\x01x\0\0\0\0";
        assert_eq!(answer(keys, Host::call_agent), Ok(Answer::Answers("the agent answers and has 2 keys".to_owned())));
        assert_eq!(answer(b"\0\0\0\x01\x05", Host::call_agent), Ok(Answer::Rejected("the agent says no".to_owned())));
    }

    #[test]
    fn a_forwarder_that_closes_at_once_rejects() {
        let closed = Ok(Answer::Rejected("it took the connection and closed it without an answer".to_owned()));
        assert_eq!(answer(b"", |host, target| host.call_x11(target, None, 10, None)), closed);
    }

    #[test]
    fn an_x_server_says_why_not() {
        let no = b"\x00\x0e\x0b\x00\x00\x00\x04\x00No such cookie\x00\x00";
        let said = Ok(Answer::Rejected("the X server says: No such cookie, asked without a cookie".to_owned()));
        assert_eq!(answer(no, |host, target| host.call_x11(target, None, 10, None)), said);
    }

    #[test]
    fn a_bus_greets_or_refuses() {
        assert_eq!(answer(b"OK 1234deadbeef\r\n", Host::call_bus), Ok(Answer::Answers("the bus answers".to_owned())));
        assert!(matches!(answer(b"REJECTED EXTERNAL\r\n", Host::call_bus), Ok(Answer::Rejected(_))));
        assert!(matches!(answer(b"HTTP/1.0 400 x\r\n", Host::call_bus), Ok(Answer::Rejected(_))));
    }

    #[test]
    fn nothing_there_is_refused_and_silence_is_not_no() {
        let gone = Target::Unix { view: View::OURS, path: b"/no/such/socket".to_vec() };
        assert!(matches!(Host::live().call_agent(&gone), Ok(Answer::Refused(_))));
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let _silent = UnixListener::bind(&path).unwrap();
        let target = Target::Unix { view: View::OURS, path: path.into_os_string().into_encoded_bytes() };
        assert_eq!(Host::live().call_wayland(&target), Ok(no_answer()));
    }
}

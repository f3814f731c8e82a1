//! Sockets of our own, which a probed host's children call: the read-back and the stub model.
//!
//! Nothing but loopback and private Unix sockets; whoever calls is known by what the kernel says of the peer.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::time::Duration;

use super::Pid;

/// Whether this machine has that address: only then can something here be bound to it.
pub fn is_own_address(ip: IpAddr) -> bool {
    UdpSocket::bind((ip, 0)).is_ok()
}

/// Where a Unix socket of ours is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A path, mode 0600.
    Path(PathBuf),
    /// An abstract name, without its leading NUL: for callers of another uid, or with a `/tmp` of their own.
    Abstract(String),
}

impl Address {
    /// As an argument names it: an abstract one begins with `@`.
    pub fn argument(&self) -> String {
        match self {
            Address::Path(path) => path.display().to_string(),
            Address::Abstract(name) => format!("@{name}"),
        }
    }

    /// From an argument.
    pub fn parse(text: &str) -> Address {
        match text.strip_prefix('@') {
            Some(name) => Address::Abstract(name.to_owned()),
            None => Address::Path(text.into()),
        }
    }

    /// Calls it.
    ///
    /// # Errors
    /// When nothing listens there.
    pub fn call(&self, patience: Duration) -> io::Result<UnixStream> {
        let stream = match self {
            Address::Path(path) => UnixStream::connect(path)?,
            Address::Abstract(name) => UnixStream::connect_addr(&std::os::unix::net::SocketAddr::from_abstract_name(name)?)?,
        };
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        Ok(stream)
    }
}

/// A Unix socket of ours.
pub struct Ear {
    listener: UnixListener,
    address: Address,
}

/// Somebody who called.
pub struct Caller {
    /// The connection.
    pub stream: UnixStream,
    /// Its process, if that can be seen from here.
    pub pid: Option<Pid>,
    /// Its account.
    pub uid: u32,
}

impl Ear {
    /// Listens at a path that is not there yet, in a directory of ours, or at an abstract name.
    ///
    /// # Errors
    /// Whatever the system says.
    pub fn open(address: Address) -> io::Result<Ear> {
        let listener = match &address {
            Address::Path(path) => {
                let listener = UnixListener::bind(path)?;
                std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
                listener
            }
            Address::Abstract(name) => UnixListener::bind_addr(&std::os::unix::net::SocketAddr::from_abstract_name(name)?)?,
        };
        Ok(Ear { listener, address })
    }

    /// Where it listens.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// The next caller.
    ///
    /// # Errors
    /// Whatever the system says.
    pub fn accept(&self) -> io::Result<Caller> {
        let (stream, _) = self.listener.accept()?;
        let peer = rustix::net::sockopt::socket_peercred(&stream)?;
        // A process of another pid namespace has the number 0 here, which the type has no room for.
        let pid = u32::try_from(peer.pid.as_raw_pid()).ok().filter(|pid| *pid != 0);
        Ok(Caller { stream, pid, uid: peer.uid.as_raw() })
    }
}

/// A TCP socket on 127.0.0.1, at a port that the kernel chooses.
///
/// # Errors
/// Whatever the system says.
pub fn loopback() -> io::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

/// A port on 127.0.0.1 that nobody has at this moment.
///
/// # Errors
/// Whatever the system says.
pub fn free_port() -> io::Result<u16> {
    Ok(loopback()?.1.port())
}

/// Wakes a thread that waits in `accept` on this address, so that it sees that it should end.
pub fn wake(address: SocketAddr) {
    let _ = TcpStream::connect_timeout(&address, Duration::from_millis(200));
}

/// Whether an error of a read means that the other side was too slow.
pub fn is_slow(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

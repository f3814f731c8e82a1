//! The kernel's socket tables: TCP, TCP over IPv6 and Unix, as one network namespace sees them.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, PoisonError};

use procfs::FromBufReadSI;
use procfs::net::{TcpNetEntries, TcpState};
use serde::{Deserialize, Serialize};

use super::fact::{Fact, Raw, Unknown};
use super::{Host, Pid, UNRECORDED, View, files};

/// The tables of one network namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Net {
    /// `/proc/net/tcp`.
    pub tcp: Fact<Vec<Tcp>>,
    /// `/proc/net/tcp6`; absent where the kernel has no IPv6.
    pub tcp6: Fact<Vec<Tcp>>,
    /// `/proc/net/unix`.
    pub unix: UnixTable,
    /// The directory the tables were read from, for evidence.
    pub source: String,
}

/// A TCP socket that listens or is established.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tcp {
    /// Address on this machine.
    pub local: SocketAddr,
    /// Address of the peer; port 0 for a listener.
    pub remote: SocketAddr,
    /// Listening; else established.
    pub listen: bool,
    /// Owner of the socket.
    pub uid: u32,
    /// Inode in sockfs, which `/proc/<pid>/fd` links name.
    pub inode: u64,
}

/// The table of the Unix sockets, or why there is none.
pub type UnixTable = Fact<Arc<Vec<Unix>>>;

/// A Unix socket that has a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unix {
    /// The bound path; the first byte is `@` for an abstract name.
    pub path: Raw,
    /// Listening (the kernel's SO_ACCEPTCON flag).
    pub listen: bool,
    /// A stream or seqpacket socket; else datagram.
    pub connected: bool,
    /// Inode in sockfs.
    pub inode: u64,
}

/// Parses a `tcp` or `tcp6` table and keeps what listens or is established.
pub fn parse_tcp(text: &[u8]) -> Fact<Vec<Tcp>> {
    let TcpNetEntries(rows) =
        TcpNetEntries::from_buf_read(text, procfs::current_system_info()).map_err(|error| Unknown::Malformed(error.to_string()))?;
    Ok(rows
        .into_iter()
        .filter(|row| matches!(row.state, TcpState::Listen | TcpState::Established))
        .map(|row| Tcp {
            local: plain(row.local_address),
            remote: plain(row.remote_address),
            listen: row.state == TcpState::Listen,
            uid: row.uid,
            inode: row.inode,
        })
        .collect())
}

/// An IPv4 address mapped into IPv6 is the IPv4 address: that is how sshd and the user write it.
pub fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(plain_ip(address.ip()), address.port())
}

/// See [`plain`].
pub fn plain_ip(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V6(six) => six.to_ipv4_mapped().map_or(ip, IpAddr::V4),
        IpAddr::V4(_) => ip,
    }
}

/// Parses `/proc/net/unix` and keeps the sockets that have a name.
///
/// Columns: `Num RefCount Protocol Flags Type St Inode Path`. The path is the rest of the line, bytes as bound.
pub fn parse_unix(text: &[u8]) -> Fact<Vec<Unix>> {
    let mut rows = Vec::new();
    for line in text.split(|&byte| byte == b'\n').skip(1) {
        let Some(row) = parse_unix_line(line) else { continue };
        rows.push(row);
    }
    Ok(rows)
}

fn parse_unix_line(line: &[u8]) -> Option<Unix> {
    const ACCEPTS: u64 = 1 << 16;
    let mut rest = line;
    let mut columns = [&b""[..]; 7];
    for column in &mut columns {
        let start = rest.iter().position(|byte| *byte != b' ')?;
        rest = &rest[start..];
        let end = rest.iter().position(|byte| *byte == b' ')?;
        *column = &rest[..end];
        rest = &rest[end..];
    }
    let path = rest.strip_prefix(b" ")?;
    if path.is_empty() {
        return None;
    }
    let flags = u64::from_str_radix(std::str::from_utf8(columns[3]).ok()?, 16).ok()?;
    let kind = u16::from_str_radix(std::str::from_utf8(columns[4]).ok()?, 16).ok()?;
    let inode = std::str::from_utf8(columns[6]).ok()?.parse().ok()?;
    Some(Unix { path: Raw::from(path), listen: flags & ACCEPTS != 0, connected: kind != 2, inode })
}

impl Host {
    /// The socket tables of our own network namespace, or of a process's.
    pub fn net(&self, view: View) -> Arc<Net> {
        let mut nets = self.nets.lock().unwrap_or_else(PoisonError::into_inner);
        let read = || {
            let (file, source) = places(view.net);
            let tcp = |name: &str| Host::shared(|| self.fact(&file, name, || parse_tcp(&self.socket_table(&source, name)?)));
            Arc::new(Net { tcp: tcp("tcp"), tcp6: tcp("tcp6"), unix: self.unix_sockets(view), source })
        };
        nets.entry(view.net).or_insert_with(read).clone()
    }

    /// Of these tables the one of the Unix sockets. To read those of TCP takes milliseconds each: the kernel looks into every slot of a
    /// table that it made for the machine's memory.
    pub fn unix_sockets(&self, view: View) -> UnixTable {
        let mut unix = self.unix.lock().unwrap_or_else(PoisonError::into_inner);
        let read = || {
            let (file, source) = places(view.net);
            let read = || parse_unix(&self.socket_table(&source, "unix")?);
            Host::shared(|| self.fact(&file, "unix", read)).map(Arc::new)
        };
        unix.entry(view.net).or_insert_with(read).clone()
    }

    /// The tables are nobody's value, and are read once: whoever asks first, a snapshot has them.
    fn shared<T>(read: impl FnOnce() -> T) -> T {
        let before = UNRECORDED.replace(false);
        let table = read();
        UNRECORDED.set(before);
        table
    }

    fn socket_table(&self, source: &str, name: &str) -> Fact<Vec<u8>> {
        let root = self.live_root().ok_or(Unknown::NotCaptured)?;
        // `/proc/net` is a link to `self/net`, which a made-up tree need not have.
        files::read_small(&root.join(&source[1..]).join(name), usize::MAX)
    }
}

/// Where a snapshot has the tables, and where a live machine.
fn places(namespace: Option<Pid>) -> (String, String) {
    match namespace {
        None => ("net/ours.json".to_owned(), "/proc/net".to_owned()),
        Some(pid) => (format!("net/{pid}.json"), format!("/proc/{pid}/net")),
    }
}

impl Net {
    /// All rows of both TCP tables. The IPv6 table may be absent; any other gap makes the answer unknown.
    pub fn tcp_rows(&self) -> Fact<impl Iterator<Item = &Tcp>> {
        let four = self.tcp.as_ref().map_err(Clone::clone)?;
        let six: &[Tcp] = match &self.tcp6 {
            Ok(rows) => rows,
            Err(Unknown::Absent) => &[],
            Err(other) => return Err(other.clone()),
        };
        Ok(four.iter().chain(six))
    }

    /// The listener that a connection to `ip:port` would reach, wildcard addresses included.
    pub fn listener(&self, ip: IpAddr, port: u16) -> Fact<Option<&Tcp>> {
        let exact = |row: &&Tcp| row.listen && row.local.port() == port && row.local.ip() == ip;
        if let Some(row) = self.tcp_rows()?.find(exact) {
            return Ok(Some(row));
        }
        // A wildcard IPv6 listener serves IPv4 too, unless IPV6_V6ONLY, which no table shows.
        let wild =
            |row: &&Tcp| row.listen && row.local.port() == port && row.local.ip().is_unspecified() && (ip.is_ipv4() || row.local.is_ipv6());
        Ok(self.tcp_rows()?.find(wild))
    }

    /// Whether a connection with these two ends is established.
    pub fn established(&self, local: SocketAddr, remote: SocketAddr) -> Fact<Option<&Tcp>> {
        Ok(self.tcp_rows()?.find(|row| !row.listen && row.local == local && row.remote == remote))
    }

    /// The listening Unix socket bound to exactly these bytes.
    pub fn unix_listener(&self, path: &[u8]) -> Fact<Option<&Unix>> {
        let rows = self.unix.as_ref().map_err(Clone::clone)?;
        Ok(rows.iter().find(|row| row.listen && row.path.as_bytes() == path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIX: &[u8] = b"Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0001 01 20001 /run/user/1000/wayland 1
0000000000000000: 00000003 00000000 00000000 0001 03 20002
0000000000000000: 00000002 00000000 00010000 0001 01 20003 @/tmp/.X11-unix/X7
0000000000000000: 00000002 00000000 00000000 0002 01 20004 /run/systemd/notify
torn line
";

    #[test]
    fn unix_rows_keep_spaces_in_paths_and_drop_nameless_and_torn_lines() {
        let rows = parse_unix(UNIX).unwrap();
        let seen: Vec<_> = rows.iter().map(|row| (row.path.lossy().into_owned(), row.listen, row.connected, row.inode)).collect();
        assert_eq!(
            seen,
            [
                ("/run/user/1000/wayland 1".to_owned(), true, true, 20001),
                ("@/tmp/.X11-unix/X7".to_owned(), true, true, 20003),
                ("/run/systemd/notify".to_owned(), false, false, 20004),
            ]
        );
    }

    const TCP: &[u8] = b"  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:177A 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 41 1 0000000000000000 100 0 0 10 0
   1: 0100007F:0016 0200007F:C000 01 00000000:00000000 00:00000000 00000000     0        0 42 1 0000000000000000 20 4 30 10 -1
   2: 0100007F:0016 0300007F:C001 06 00000000:00000000 00:00000000 00000000     0        0 0 1 0000000000000000 20 4 30 10 -1
";
    const TCP6: &[u8] = b"  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000000000000000000000000000:1F90 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 51 1 0000000000000000 100 0 0 10 0
   1: 0000000000000000FFFF00000100007F:0016 0000000000000000FFFF00000500007F:D000 01 00000000:00000000 00:00000000 00000000     0        0 52 1 0000000000000000 20 4 30 10 -1
";

    fn net() -> Net {
        Net { tcp: parse_tcp(TCP), tcp6: parse_tcp(TCP6), unix: parse_unix(UNIX).map(Arc::new), source: "/proc/net".to_owned() }
    }

    #[test]
    fn a_forwarded_display_and_its_connection_are_found() {
        let net = net();
        let six_ten = net.listener("127.0.0.1".parse().unwrap(), 6010).unwrap().unwrap();
        assert_eq!((six_ten.uid, six_ten.inode), (1000, 41));
        assert!(net.listener("127.0.0.1".parse().unwrap(), 6011).unwrap().is_none());
        let local = "127.0.0.1:22".parse().unwrap();
        assert!(net.established(local, "127.0.0.2:49152".parse().unwrap()).unwrap().is_some());
        assert!(
            net.established(local, "127.0.0.3:49153".parse().unwrap()).unwrap().is_none(),
            "TIME_WAIT is no connection, and stands for a minute after one"
        );
    }

    #[test]
    fn mapped_addresses_and_wildcards_are_the_ipv4_ones() {
        let net = net();
        assert!(net.established("127.0.0.1:22".parse().unwrap(), "127.0.0.5:53248".parse().unwrap()).unwrap().is_some());
        assert!(net.listener("127.0.0.1".parse().unwrap(), 8080).unwrap().is_some());
    }

    #[test]
    fn a_missing_ipv6_table_is_no_gap_but_an_unreadable_one_is() {
        let mut net = net();
        net.tcp6 = Err(Unknown::Absent);
        assert!(net.listener("127.0.0.1".parse().unwrap(), 6010).unwrap().is_some());
        net.tcp6 = Err(Unknown::NotCaptured);
        assert_eq!(net.listener("127.0.0.1".parse().unwrap(), 6010).unwrap_err(), Unknown::NotCaptured);
    }
}

//! The ssh connection that a process was born in, and whether it is still there.
//!
//! sshd writes `SSH_CONNECTION` from the two ends of its own socket, so the kernel's TCP table holds a
//! row with exactly these ends as long as the connection lives. Every user may read that table.

use std::net::{IpAddr, SocketAddr};

use crate::host::{Fact, Tcp, Unknown, View};
use crate::verdict::{Evidence, State};

use super::owner::{self, Hint};
use super::{Carrier, Named};

/// The two ends of an ssh connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Connection {
    /// Address and port of the client.
    pub client: SocketAddr,
    /// Address and port of the server, on this machine.
    pub server: SocketAddr,
}

/// What became of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is in the TCP table.
    Established,
    /// It is not in the TCP table any more.
    Ended,
    /// It is not in the TCP table, and need not be: the program named keeps its sessions without it.
    ByDesign(&'static str),
    /// The table could not be read.
    Unknown(Unknown),
}

/// Programs below which a session outlives the ssh connection that started it, or never had one in the kernel.
const WITHOUT_TCP: [(&str, &str); 4] =
    [("mosh-server", "mosh"), ("etserver", "Eternal Terminal"), ("etterminal", "Eternal Terminal"), ("tailscaled", "Tailscale SSH")];

impl Connection {
    /// Parses `client_ip client_port server_ip server_port`. sshd behind a pipe writes `UNKNOWN`, which is none.
    pub fn parse(value: &[u8]) -> Option<Connection> {
        let mut words = std::str::from_utf8(value).ok()?.split_ascii_whitespace();
        let client = end(words.next()?, words.next()?)?;
        let server = end(words.next()?, words.next()?)?;
        words.next().is_none().then_some(Connection { client, server })
    }

    /// The connection of a socket in the TCP table, seen from the server.
    pub fn of_row(row: &Tcp) -> Connection {
        Connection { client: row.remote, server: row.local }
    }

    /// The connection in which the carrier was born.
    pub fn of_birth(carrier: &Carrier<'_>) -> Option<Connection> {
        Connection::parse(carrier.born.bytes("SSH_CONNECTION")?)
    }
}

impl std::fmt::Display for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {} {}", self.client.ip(), self.client.port(), self.server.ip(), self.server.port())
    }
}

fn end(ip: &str, port: &str) -> Option<SocketAddr> {
    // A link-local address carries its interface, which the table does not.
    let ip: IpAddr = ip.split('%').next()?.parse().ok()?;
    Some(SocketAddr::new(crate::host::sockets::plain_ip(ip), port.parse().ok()?))
}

/// What became of `connection`, and what showed it.
pub fn standing(carrier: &Carrier<'_>, connection: &Connection) -> (Standing, Evidence) {
    let wanted = |row: &Tcp| row.local == connection.server && row.remote == connection.client;
    let (standing, _, seen) = look_up(carrier, wanted, &format!("{} ← {}", connection.server, connection.client));
    (standing, seen)
}

/// What was found out of a value that the carrier does not have: as long as its own login lives, nothing of that was given to another.
pub fn of_others(carrier: &Carrier<'_>, mut named: Named) -> Named {
    let lives = || Connection::of_birth(carrier).is_some_and(|birth| standing(carrier, &birth).0 == Standing::Established);
    if named.liveness.state == State::Reused && named.same_connection == Some(false) && lives() {
        named.liveness.state = State::Alive;
    }
    named
}

fn look_up(carrier: &Carrier<'_>, wanted: impl Fn(&Tcp) -> bool, ends: &str) -> (Standing, Option<Tcp>, Evidence) {
    let mut source = String::new();
    for view in views(carrier) {
        let net = carrier.host.net(view);
        source = format!("{}/tcp", net.source);
        let find = || -> Fact<Option<Tcp>> { Ok(net.tcp_rows()?.find(|row| !row.listen && wanted(row)).cloned()) };
        match find() {
            Ok(Some(row)) => {
                let seen = carrier.saw(source, format!("{ends} is established (inode {})", row.inode));
                return (Standing::Established, Some(row), seen);
            }
            Ok(None) => {}
            Err(unknown) => {
                let seen = carrier.saw(source, format!("not read: {unknown}"));
                return (Standing::Unknown(unknown), None, seen);
            }
        }
    }
    let seen = carrier.saw(source, format!("no row {ends}: the connection has ended"));
    match outlives(carrier) {
        Ok(Some(program)) => (Standing::ByDesign(program), None, seen),
        Ok(None) => (Standing::Ended, None, seen),
        Err(unknown) => (Standing::Unknown(unknown), None, seen),
    }
}

/// A login's connection is in our network's table even when the process moved into another network since.
fn views(carrier: &Carrier<'_>) -> impl Iterator<Item = View> + use<> {
    std::iter::once(carrier.view).chain(carrier.view.net.is_some().then_some(View::OURS))
}

/// What of a process outlives its connection, asked so that a snapshot holds it: a connection may be asked for later.
pub fn remember(carrier: &Carrier<'_>) {
    let _ = outlives(carrier);
}

fn outlives(carrier: &Carrier<'_>) -> Fact<Option<&'static str>> {
    // A snapshot masks the variable below, so what it told is a fact of its own.
    let find = || {
        // mosh-server sets this for its shells, also for those that have left its process tree since.
        if carrier.born.text("NCURSES_NO_UTF8_ACS") == Some("1") {
            return Ok("mosh".to_owned());
        }
        let chain = carrier.process.map(|process| carrier.host.chain(process.pid)).unwrap_or_default();
        let known = chain.iter().find_map(|stat| WITHOUT_TCP.iter().find(|(comm, _)| stat.comm.as_bytes() == comm.as_bytes()));
        known.map(|(_, name)| (*name).to_owned()).ok_or(Unknown::Absent)
    };
    let key = carrier.process.map_or_else(|| "none".to_owned(), |process| process.pid.to_string());
    match carrier.host.fact("outlives.json", &key, find) {
        Ok(found) => Ok(WITHOUT_TCP.iter().map(|(_, name)| *name).find(|name| *name == found)),
        Err(unknown) if unknown.is_absence() => Ok(None),
        Err(unknown) => Err(unknown),
    }
}

/// `SSH_CONNECTION`.
pub(super) fn examine_connection(carrier: &Carrier<'_>, value: &[u8]) -> Named {
    let Some(connection) = Connection::parse(value) else { return unreadable("client_ip client_port server_ip server_port") };
    let wanted = |row: &Tcp| row.local == connection.server && row.remote == connection.client;
    told(carrier, look_up(carrier, wanted, &format!("{} ← {}", connection.server, connection.client)))
}

/// `SSH_CLIENT`: client address and port, server port.
pub(super) fn examine_client(carrier: &Carrier<'_>, value: &[u8]) -> Named {
    let parse = || {
        let mut words = std::str::from_utf8(value).ok()?.split_ascii_whitespace();
        let client = end(words.next()?, words.next()?)?;
        let port: u16 = words.next()?.parse().ok()?;
        words.next().is_none().then_some((client, port))
    };
    let Some((client, port)) = parse() else { return unreadable("client_ip client_port server_port") };
    let wanted = |row: &Tcp| row.local.port() == port && row.remote == client;
    told(carrier, look_up(carrier, wanted, &format!("port {port} ← {client}")))
}

fn told(carrier: &Carrier<'_>, (standing, row, seen): (Standing, Option<Tcp>, Evidence)) -> Named {
    let mut named = match standing {
        Standing::Established => Named::new(State::Alive, "the connection is established"),
        Standing::Ended => Named::new(State::Dangling, "the connection has ended"),
        Standing::ByDesign(program) => {
            Named::new(State::Dangling, "the connection has ended").note(format!("That is how {program} works: its sessions go on."))
        }
        Standing::Unknown(unknown) => Named::unknown("the TCP table", &unknown),
    }
    .with([seen]);
    if let Some(row) = row {
        named.same_connection = Connection::of_birth(carrier).map(|birth| birth == Connection::of_row(&row));
        let found = owner::of_listener(carrier.host, row.inode, None, &Hint::names(owner::SSHD));
        named.evidence.extend(found.evidence.map(|(source, detail)| carrier.saw(source, detail)));
        named.owner = found.owner;
    }
    named
}

fn unreadable(form: &str) -> Named {
    Named::new(State::Unknown, format!("not of the form {form:?}, so no connection can be looked up"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_forms_that_sshd_writes() {
        let shown = |text: &str| Connection::parse(text.as_bytes()).map(|connection| connection.to_string());
        assert_eq!(shown("127.0.0.2 49152 127.0.0.1 22").as_deref(), Some("127.0.0.2 49152 127.0.0.1 22"));
        assert_eq!(shown("::ffff:10.0.0.5 1 ::ffff:10.0.0.1 22").as_deref(), Some("10.0.0.5 1 10.0.0.1 22"));
        assert_eq!(shown("fe80::1%eth0 50000 fe80::2%eth0 22").as_deref(), Some("fe80::1 50000 fe80::2 22"));
        for odd in ["UNKNOWN 65535 UNKNOWN 65535", "", "1.2.3.4 5 6.7.8.9", "1.2.3.4 5 6.7.8.9 22 x", "1.2.3.4 99999 6.7.8.9 22"] {
            assert_eq!(shown(odd), None, "{odd:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_value_panics(value in proptest::collection::vec(proptest::num::u8::ANY, 0..60)) {
            let _ = Connection::parse(&value);
        }
    }
}

//! What nobody's value names when a snapshot is taken, and may be asked for later: every listening socket, every terminal, every
//! display and login here; and what directories hold, so that what is not there is known to be absent.

use std::collections::BTreeSet;
use std::net::IpAddr;

use crate::diagnose::subject::Subject;
use crate::diagnose::values::{judge_typed, typical_name};
use crate::host::{Host, Raw, View};
use crate::origin::{self, Kind};
use crate::redact::Redactor;

/// Directories in which the kernel, X servers and login managers give out names, which tell of nobody.
const NUMBERED: [(&str, &[&str]); 4] = [("/dev", &["console", "tty"]), ("/dev/pts", &[]), ("/tmp/.X11-unix", &[]), ("/run/user", &[])];

/// Directories for everybody, and what is asked for in them.
const SHARED: [(&str, &[&str]); 3] = [("/tmp", &[".X", "dbus-", "ssh-", "tmux-"]), ("/run", &[]), ("/run/dbus", &[])];

/// Ports of displays: those that sshd gives out, and the servers' own below them.
const DISPLAYS: std::ops::RangeInclusive<u16> = 6000..=6999;

/// How many questions of one kind are asked beforehand.
const MOST: usize = 512;

/// Asks what a later `owner VALUE` may ask.
pub fn ask(host: &Host, redactor: &Redactor, terminal: &Subject, anonymize: bool, connect: bool) {
    let carrier = terminal.carrier(host, connect);
    // A pseudonym in a list would make the real name one that is not there.
    if !anonymize {
        directories(host);
    }
    NUMBERED.iter().for_each(|(dir, begin)| drop(host.contents(dir.as_bytes(), begin)));
    origin::ssh::remember(&carrier);
    for (kind, value) in values(host) {
        judge_typed(&carrier, redactor, typical_name(kind).as_bytes(), kind, &value);
    }
    origin::owner::list_is_whole(host);
}

fn directories(host: &Host) {
    for (dir, begin) in SHARED {
        let names = host.contents(dir.as_bytes(), begin).unwrap_or_default();
        for name in names.iter().filter(|name| name.as_bytes().starts_with(b"tmux-")).take(MOST) {
            let _ = host.contents(&below(dir, name), &[]);
        }
    }
    for user in host.contents(b"/run/user", &[]).unwrap_or_default().iter().take(MOST) {
        let _ = host.contents(&below("/run/user", user), &[]);
    }
    // What is asked for below the one is listed below the other.
    let _ = host.path(View::OURS, b"/var/run");
}

fn below(dir: &str, name: &Raw) -> Vec<u8> {
    [dir.as_bytes(), b"/", name.as_bytes()].concat()
}

/// Values by which a person may ask for what is here, with what each is.
fn values(host: &Host) -> BTreeSet<(Kind, Vec<u8>)> {
    let mut values = BTreeSet::new();
    let mut add = |kind: Kind, found: Vec<Vec<u8>>| values.extend(found.into_iter().take(MOST).map(|value| (kind, value)));
    for (dir, begin) in NUMBERED.iter().filter(|(dir, _)| dir.starts_with("/dev")) {
        let terminals = host.contents(dir.as_bytes(), begin).unwrap_or_default();
        add(Kind::Tty, terminals.iter().map(|name| below(dir, name)).collect());
    }
    let on_it = host.table().map(|table| table.values().filter_map(|stat| stat.tty()).collect::<BTreeSet<String>>());
    add(Kind::Tty, on_it.unwrap_or_default().into_iter().map(|tty| format!("/dev/{tty}").into_bytes()).collect());
    let screens = host.contents(b"/tmp/.X11-unix", &[]).unwrap_or_default();
    let screen = |name: &Raw| Some([b":", name.as_bytes().strip_prefix(b"X")?].concat());
    add(Kind::Display, screens.iter().filter_map(screen).collect());
    let net = host.net(View::OURS);
    let bound: Vec<&[u8]> = net.unix.iter().flatten().filter(|row| row.listen || !row.connected).map(|row| row.path.as_bytes()).collect();
    add(Kind::Display, bound.iter().filter_map(|path| Some([b":", path.strip_prefix(b"@/tmp/.X11-unix/X")?].concat())).collect());
    let paths: Vec<Vec<u8>> = bound.iter().filter(|path| path.starts_with(b"/")).map(|path| path.to_vec()).collect();
    for path in &paths {
        let base = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        let text = String::from_utf8_lossy(base);
        let also = [("wayland", Kind::WaylandDisplay), ("bus", Kind::UnixSocket), ("agent", Kind::SshAgent)];
        add(origin::kind_of_value(path).unwrap_or(Kind::UnixSocket), vec![path.clone()]);
        also.iter().filter(|(part, _)| text.contains(part)).for_each(|(_, kind)| add(*kind, vec![path.clone()]));
    }
    let rows: Vec<_> = net.tcp_rows().map(|rows| rows.cloned().collect()).unwrap_or_default();
    let here = |ip: IpAddr| if ip.is_ipv6() { format!("[{ip}]") } else { ip.to_string() };
    let listening = || rows.iter().filter(|row| row.listen);
    let display = |port: u16| format!("localhost:{}.0", port - DISPLAYS.start()).into_bytes();
    add(Kind::Display, listening().map(|row| row.local.port()).filter(|port| DISPLAYS.contains(port)).map(display).collect());
    let address = |row: &crate::host::Tcp| format!("tcp://{}:{}", here(row.local.ip()), row.local.port()).into_bytes();
    add(Kind::SocketAddress, listening().map(address).collect());
    let logins = rows.iter().filter(|row| !row.listen && listening().any(|own| own.local.port() == row.local.port()));
    add(Kind::SshConnection, logins.map(|row| origin::ssh::Connection::of_row(row).to_string().into_bytes()).collect());
    values
}

//! `DISPLAY`: which X server it leads to, whether that lives, and whether it is still the one of birth.
//!
//! A display that ssh forwards is a TCP listener on port 6000 + N in the sshd that serves the login.
//! When that login ends the port refuses, and the next login is given the same number: so "alive"
//! needs three facts, of which the kernel's tables show every user two: something listens, and the
//! connection of birth is established. Who owns the listener only root can see.

use crate::host::connect::Target;
use crate::host::{Tcp, Unknown};
use crate::verdict::State;

use super::address::{self, Reached, Where};
use super::owner::{self, Hint};
use super::socket;
use super::ssh::{self, Connection, Standing};
use super::{Carrier, Named, xauthority};

mod forwarded;

/// A parsed value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Display {
    /// Which way it leads.
    pub way: Way,
    /// The display's number.
    pub number: u16,
    /// The screen's number.
    pub screen: u16,
}

/// Which way a display leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// To a Unix socket of this machine.
    Local,
    /// To a TCP port of a host.
    Tcp(String),
    /// To a Unix socket at this path.
    Path(Vec<u8>),
}

/// sshd gives forwarded displays numbers from here (X11DisplayOffset).
const FORWARDED_FROM: u16 = 10;

/// TCP port of display 0.
const PORT: u16 = 6000;

/// Programs that serve X displays.
const SERVERS: &[&str] = &[
    "X",
    "sshd",
    "nxagent",
    "x2goagent",
    "xpra",
    "gnome-shell",
    "mutter",
    "kwin_wayland",
    "weston",
    "sway",
    "Hyprland",
    "xwayland-satell",
    "labwc",
    "niri",
    "cage",
    "xpra",
    "ssh",
    "socat",
    "waypipe",
];

impl Display {
    /// Parses `[protocol/][host]:number[.screen]` or a path of a socket, as libxcb does.
    pub fn parse(value: &[u8]) -> Option<Display> {
        let bare = value.strip_prefix(b"unix:").unwrap_or(value);
        if bare.starts_with(b"/") {
            // A launchd-like path ends in `:N` and is nevertheless the whole name of the socket.
            let number = bare.rsplit(|&byte| byte == b':').next().and_then(numbers).unwrap_or((0, 0));
            return Some(Display { way: Way::Path(bare.to_vec()), number: number.0, screen: number.1 });
        }
        let text = std::str::from_utf8(value).ok()?;
        let (protocol, rest) = match text.split_once('/') {
            Some((protocol, rest)) => (Some(protocol), rest),
            None => (None, text),
        };
        let (host, numbers_text) = rest.rsplit_once(':')?;
        let (number, screen) = numbers(numbers_text.as_bytes())?;
        let way = match (protocol, host) {
            (Some("unix" | "local"), _) | (None, "" | "unix") => Way::Local,
            (None | Some("tcp" | "inet" | "inet6"), host) => {
                Way::Tcp(if host.is_empty() { "localhost".to_owned() } else { host.to_owned() })
            }
            _ => return None,
        };
        // DECnet wrote two colons; what is no address and ends in one is no TCP host.
        if matches!(&way, Way::Tcp(host) if host.ends_with(':') && host != "::") {
            return None;
        }
        Some(Display { way, number, screen })
    }

    /// Whether sshd gave it out: on this machine's loopback, numbered from where sshd begins.
    pub fn is_forwarded(&self) -> bool {
        self.number >= FORWARDED_FROM
            && matches!(&self.way, Way::Tcp(host) if matches!(host.as_str(), "localhost" | "127.0.0.1" | "::1" | "[::1]"))
    }

    /// The TCP port that a display of this number has.
    pub fn port(&self) -> Option<u16> {
        self.number.checked_add(PORT)
    }
}

fn numbers(text: &[u8]) -> Option<(u16, u16)> {
    let text = std::str::from_utf8(text).ok()?;
    let (number, screen) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit()).then(|| part.parse().ok()).flatten();
    Some((digits(number)?, digits(screen)?))
}

/// `DISPLAY`.
pub(super) fn examine(carrier: &Carrier<'_>, value: &[u8]) -> Named {
    let Some(display) = Display::parse(value) else {
        return Named::new(State::Unknown, "not of the form [host]:number[.screen], so no display can be looked up");
    };
    match &display.way {
        Way::Local => local(carrier, &display),
        Way::Path(path) => {
            let found = socket::at_path(carrier, path, &Hint::names(SERVERS));
            let named = socket::note_age(carrier, found.named, found.fact.as_ref());
            ask(carrier, named, &display, Target::Unix { view: carrier.view, path: path.clone() })
        }
        Way::Tcp(host) => over_tcp(carrier, &display, host),
    }
}

fn local(carrier: &Carrier<'_>, display: &Display) -> Named {
    let path = format!("/tmp/.X11-unix/X{}", display.number);
    let found = socket::at_path(carrier, path.as_bytes(), &Hint::names(SERVERS));
    let mut by_path = socket::note_age(carrier, found.named, found.fact.as_ref());
    if by_path.liveness.state == State::Alive {
        return ask(carrier, by_path, display, Target::Unix { view: carrier.view, path: path.into_bytes() });
    }
    // Clients on Linux try the abstract name first; a server may have only that.
    let by_name = socket::at_abstract(carrier, path.as_bytes(), &Hint::names(SERVERS));
    match by_name.liveness.state {
        State::Alive => {
            let named = by_name.with(by_path.evidence);
            ask(carrier, named, display, Target::Abstract { view: carrier.view, name: path.into_bytes() })
        }
        State::Refused => {
            if by_path.liveness.state == State::Dangling {
                by_path.liveness.detail = format!("no X server has the display :{}", display.number);
            }
            by_path.with(by_name.evidence)
        }
        _ => by_name.with(by_path.evidence),
    }
}

fn over_tcp(carrier: &Carrier<'_>, display: &Display, host: &str) -> Named {
    let place = address::locate(carrier, host);
    if place == Where::Elsewhere {
        return Named::new(State::Unknown, format!("the display is on another host ({host}), which is not looked at"));
    }
    let Some(port) = display.port() else { return Named::new(State::Refused, "a display number beyond the last TCP port") };
    let net = carrier.host.net(carrier.view);
    let source = format!("{}/tcp", net.source);
    match address::tcp_listener(&net, &place, port) {
        Ok(Reached::Listener(row)) => {
            let named = whose(carrier, display, &row);
            let named = Named { evidence: [vec![carrier.saw(source, address::row_in_words(&row))], named.evidence].concat(), ..named };
            ask(carrier, named, display, Target::Tcp { view: carrier.view, address: address::callable(&row) })
        }
        Ok(Reached::Unresolved) => address::unresolved(carrier, host),
        Ok(Reached::Nothing) => {
            let detail = format!("nothing listens on port {port}, which is display {}", display.number);
            let mut named = Named::new(State::Refused, detail).with([carrier.saw(source, address::no_row(port))]);
            if carrier.view.net.is_some() {
                named = named.note("The process is in a network of its own, in which nothing of ours listens.");
            }
            if let Some(birth) = Connection::of_birth(carrier) {
                let (standing, seen) = ssh::standing(carrier, &birth);
                named.evidence.push(seen);
                if matches!(standing, Standing::Ended | Standing::ByDesign(_)) {
                    named = named.note(format!("The connection of birth, from {}, has ended.", birth.client));
                }
            }
            named
        }
        Err(unknown) => Named::unknown("the TCP table", &unknown).with([carrier.saw(source, unknown.to_string())]),
    }
}

/// The display of birth, or another one that has its number now.
fn whose(carrier: &Carrier<'_>, display: &Display, row: &Tcp) -> Named {
    let found = owner::of_listener(carrier.host, row.inode, Some(row.uid), &Hint::names(SERVERS));
    let seen = found.evidence.map(|(source, detail)| carrier.saw(source, detail));
    let number = display.number;
    let by_sshd = found.owner.as_ref().map(|owner| owner::SSHD.contains(&owner.comm.as_str()));
    // A server of its own is no matter of connections, and low numbers are theirs.
    let forwarded = by_sshd.unwrap_or(number >= FORWARDED_FROM);
    let user = carrier.host.user_name(row.uid).map_or_else(|| format!("uid {}", row.uid), |name| format!("{name} (uid {})", row.uid));
    let foreign = is_foreign(carrier, row.uid);
    let owned_by = found.owner.as_ref().and_then(|owner| Connection::parse(owner.connection.as_ref()?.as_bytes()));
    let stranger = found.owner.as_ref().filter(|owner| by_sshd == Some(false) && !SERVERS.iter().any(|name| owner.comm.starts_with(name)));
    let mut named = match Connection::of_birth(carrier) {
        birth if let Some(owner) = stranger => no_server(carrier, display, birth.as_ref(), &owner.comm),
        _ if !forwarded => Named::new(State::Alive, format!("an X server listens for display {number}")),
        None => Named::new(
            State::Alive,
            match by_sshd {
                Some(_) => format!("display {number} is forwarded by sshd, and the process does not say in which login it was born"),
                None => format!("something of {user} listens as display {number}, and the process does not say in which login it was born"),
            },
        ),
        Some(birth) => {
            let since = found.owner.as_ref().and_then(|owner| owner.start_ticks);
            let owned_by = owned_by.map(|connection| (connection, since));
            forwarded::judge(carrier, number, row.uid, birth, owned_by, foreign && display.is_forwarded())
        }
    };
    named.evidence.extend(seen);
    named.owner = found.owner;
    if named.owner.is_none() && forwarded {
        named = named.note(match found.hidden {
            Some(Unknown::NotPermitted) => format!("The listener is of {user}; its program may not be read from this account."),
            Some(unknown) => format!("The listener is of {user}; its program is not known: {unknown}."),
            None => format!("The listener is of {user}; its program was not found."),
        });
    }
    match carrier.process.map(|process| process.euid) {
        Some(own) if own != row.uid => named.note(format!("The listener belongs to {user}; this process is of uid {own}.")),
        _ => named,
    }
}

/// Something listens that is neither sshd nor an X server by name: it may be a proxy that somebody set up by hand. Where the display
/// has the form of a forward, it is not that forward, and whether it leads to a screen nobody knows.
fn no_server(carrier: &Carrier<'_>, display: &Display, birth: Option<&Connection>, comm: &str) -> Named {
    let number = display.number;
    if !display.is_forwarded() {
        return Named::new(State::Alive, format!("{comm} listens for display {number}"));
    }
    let what = format!("{comm} listens as display {number}, which is neither sshd nor an X server");
    match birth.map(|birth| ssh::standing(carrier, birth)) {
        Some((Standing::Ended, seen)) => {
            let mut named = Named::new(State::Reused, what).with([seen]);
            named.same_connection = Some(false);
            named
        }
        _ => Named::new(State::Unknown, format!("{what} by its name")),
    }
}

/// Whether a listener of this uid cannot be the forward of the carrier's own login: sshd listens as the user who logged in, or as root.
///
/// The carrier may have changed its user since its login: then a parent of it, or what sudo left behind, still tells who that was.
fn is_foreign(carrier: &Carrier<'_>, uid: u32) -> bool {
    let Some(process) = carrier.process else { return false };
    let by_sudo = || carrier.born.filled("SUDO_UID").is_some_and(|caller| caller.parse() == Ok(uid));
    let above = || carrier.host.chain(process.pid).iter().any(|stat| stat.euid == uid);
    let sshd = || carrier.host.user_name(uid).as_deref() == Some("sshd");
    uid != 0 && uid != process.euid && !by_sudo() && !above() && !sshd()
}

/// Asks the server itself where that was wanted.
fn ask(carrier: &Carrier<'_>, named: Named, display: &Display, target: Target) -> Named {
    if !carrier.connect || !named.may_answer() {
        return named;
    }
    // A cookie that the process may not read is none that it could show.
    let file = xauthority::file_of(carrier).filter(|file| !xauthority::is_shut(carrier, file));
    let forwarded_or_local = match &display.way {
        Way::Tcp(host) => matches!(address::locate(carrier, host), Where::Here(ips) if ips.iter().all(|ip| ip.is_loopback())),
        _ => true,
    };
    let address = if forwarded_or_local { None } else { target.ip() };
    let answer = carrier.host.call_x11(&target, file.as_deref(), display.number, address);
    named.answered(carrier, target.to_string(), answer)
}

//! A display that sshd forwards: whose it is now, and whether it is the one that a process was started with.

use crate::host::Stat;
use crate::origin::address::{self, Where};
use crate::origin::owner;
use crate::origin::ssh::{self, Connection, Standing};
use crate::origin::{Carrier, Named};
use crate::verdict::State;

use super::{Display, Way};

/// The display that sshd forwards under this number: that of birth, another one that the process was started with, or one that got its
/// number since. `owner` is the connection of the sshd that has it, with the start of that sshd in ticks.
pub(super) fn judge(
    carrier: &Carrier<'_>,
    number: u16,
    uid: u32,
    birth: Connection,
    owner: Option<(Connection, Option<u64>)>,
    foreign: bool,
) -> Named {
    let (standing, seen) = ssh::standing(carrier, &birth);
    let given = given(carrier, number, uid);
    let owned_by = owner.map(|(connection, _)| connection);
    // Root sees the owner. Else the shells to which sshd gave this number tell, if they all say the same.
    let by_shells = match given.as_slice() {
        [(first, _), rest @ ..] if rest.iter().all(|(other, _)| other == first) => Some(*first),
        _ => None,
    };
    // A value that somebody asks about and the carrier does not have is not one that it got.
    let its_own = carrier.environ.bytes("DISPLAY").and_then(Display::parse).is_some_and(|own| own.number == number);
    let since = its_own && carrier.got_since("DISPLAY");
    let anew = its_own && carrier.was_given_anew("DISPLAY");
    let older = |other: &Connection| anew && is_older(carrier, &given, other, owner.and_then(|(_, since)| since));
    let mut named = match (owned_by, standing) {
        (Some(other), _) if other == birth => same(number, &birth),
        (Some(other), _) if since || older(&other) => anothers(number, Some(&other), since),
        (None, Standing::Ended | Standing::Established)
            if let Some(other) = by_shells.filter(|other| *other != birth && (since || older(other))) =>
        {
            anothers(number, Some(&other), since)
        }
        (None, Standing::Ended) if since => anothers(number, None, since),
        (Some(other), Standing::ByDesign(program)) => by_design(number, program).note(format!("It belongs to the connection {other}.")),
        (Some(other), _) => reused(number, &birth, Some(other)),
        (None, Standing::Ended) => reused(number, &birth, None),
        (None, Standing::ByDesign(program)) => by_design(number, program),
        (None, Standing::Unknown(unknown)) => Named::unknown("the TCP table", &unknown),
        (None, Standing::Established) => match by_shells {
            Some(other) if other != birth => reused(number, &birth, Some(other)),
            Some(_) => same(number, &birth),
            None if foreign => of_another_account(carrier, number, uid, &birth),
            None => Named::new(State::Alive, format!("display {number} listens, and the connection of birth is established")),
        },
    };
    named.evidence.push(seen);
    for (connection, stat) in given {
        let source = format!("/proc/{}/environ", stat.pid);
        let detail = format!("{}, started by sshd, has this display and the connection {connection}", stat.comm.lossy());
        named.evidence.push(carrier.saw(source, detail));
        if owned_by.is_none() && connection != birth {
            let comm = stat.comm.lossy();
            named
                .notes
                .push(format!("The login from {} was given display {number}: its {comm} (pid {}) has it.", connection.client, stat.pid));
        }
    }
    named
}

/// The logins of the listener's user whose shell was given this number by sshd and whose connection still is established.
fn given(carrier: &Carrier<'_>, number: u16, uid: u32) -> Vec<(Connection, Stat)> {
    let same = |value: &[u8]| {
        Display::parse(value).is_some_and(|display| {
            let here = match &display.way {
                Way::Tcp(host) => address::locate(carrier, host) != Where::Elsewhere,
                _ => false,
            };
            here && display.number == number
        })
    };
    let mut given = owner::given_by_sshd(carrier.host, "DISPLAY", same);
    given.retain(|(connection, stat)| stat.euid == uid && ssh::standing(carrier, connection).0 == Standing::Established);
    given
}

/// Whether a login had the display before the carrier began. A value that was set anew is then the one that the carrier was started with,
/// whichever login it says it is of. One that came down from the login of birth is not: the number was given to another meanwhile.
///
/// A shell tells that sshd gave it the number. Without one sshd's own age does; a later session of an older connection may have got
/// the number since, and that has a shell.
fn is_older(carrier: &Carrier<'_>, given: &[(Connection, Stat)], of: &Connection, sshd_since: Option<u64>) -> bool {
    let Some(process) = carrier.process else { return false };
    let before = |ticks: u64| ticks <= process.start_ticks;
    let mut shells = given.iter().filter(|(connection, _)| connection == of).peekable();
    match shells.peek() {
        Some(_) => shells.any(|(_, stat)| before(stat.start_ticks)),
        None => sshd_since.is_some_and(before),
    }
}

/// The display of another login than the one of birth, and the one that the process was started with or has got since.
fn anothers(number: u16, other: Option<&Connection>, since: bool) -> Named {
    let whose = other.map_or_else(|| "is another login's".to_owned(), |other| format!("is forwarded by the login from {}", other.client));
    let when = if since { "and this process was not started with it" } else { "which had it before this process began" };
    let mut named = Named::new(State::Alive, format!("display {number} {whose}, {when}"));
    named.same_connection = Some(false);
    named
}

fn same(number: u16, birth: &Connection) -> Named {
    let mut named = Named::new(State::Alive, format!("display {number} is forwarded by the connection of birth, from {}", birth.client));
    named.same_connection = Some(true);
    named
}

fn reused(number: u16, birth: &Connection, owned_by: Option<Connection>) -> Named {
    let mut named = Named::new(
        State::Reused,
        match owned_by {
            Some(other) => {
                format!(
                    "display {number} belongs to the login from {} now; this process was born in the one from {}",
                    other.client, birth.client
                )
            }
            None => format!("the login from {} has ended, and something else listens as display {number} now", birth.client),
        },
    );
    named.same_connection = Some(false);
    named
}

/// sshd listens as the account that logged in. Which that was, a shell tells that sshd gave the same connection; without one, the
/// process may have changed its account since (`su`), and what listens may be its login's forward all the same.
fn of_another_account(carrier: &Carrier<'_>, number: u16, uid: u32, birth: &Connection) -> Named {
    let shells = owner::given_by_sshd(carrier.host, "SSH_CONNECTION", |value| Connection::parse(value).as_ref() == Some(birth));
    let Some((_, shell)) = shells.into_iter().next() else {
        let detail = format!(
            "what listens as display {number} is of uid {uid}; whether that is the forward of the login from {} cannot be told: this process may have changed its account since",
            birth.client
        );
        return Named::new(State::Unknown, detail);
    };
    let seen =
        carrier.saw(format!("/proc/{}/environ", shell.pid), format!("started by sshd as uid {} for the connection {birth}", shell.euid));
    if shell.euid == uid {
        return Named::new(
            State::Alive,
            format!("display {number} listens as the account of the login, and the connection of birth is established"),
        )
        .with([seen]);
    }
    let detail = format!("what listens as display {number} is of uid {uid}, and so not the forward of the login from {}", birth.client);
    let mut named = Named::new(State::Reused, detail).with([seen]);
    named.same_connection = Some(false);
    named
}

fn by_design(number: u16, program: &str) -> Named {
    Named::new(State::Alive, format!("something listens as display {number}; below {program} there is no connection to compare it with"))
}

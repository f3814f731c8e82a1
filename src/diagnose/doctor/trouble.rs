//! A daemon's variables that lead nowhere, to somebody else, or are not there; and what one repair of it brings.

use crate::agent::{Fix, HandedOn, note, quote};
use crate::host::files::FileKind;
use crate::host::{Entry, Environ, Fact, Raw, Value};
use crate::origin::Carrier;
use crate::origin::agent_socket::Scheme;
use crate::origin::display::Display;
use crate::origin::one_place;
use crate::origin::xauthority::{self, Cookie};
use crate::redact;
use crate::verdict::registry::{Problem, Topic};
use crate::verdict::{Finding, Outcome, State};

use super::super::subject::Subject;
use super::points::{Judged, is_missed, is_needed, is_used, trouble_of};
use super::{needs, usable};

/// Where a link to the agent's socket can stand whatever login comes and goes.
const AGENT_LINK: &str = "~/.ssh/agent.sock";

/// Where X programs look for the cookie.
pub const AUTHORITY: &str = "XAUTHORITY";

/// Values that a repair brings to a daemon's tools: the terminal's, and the cookie file of the daemon's own that its tools do not get.
pub type Carried<'p> = Vec<(&'p str, &'p [u8])>;

/// What is wrong with a daemon's variables, alone and against the terminal's, and what the repair brings.
pub fn daemon_findings<'p>(
    daemon: &Subject,
    carrier: &Carrier<'p>,
    points: &'p [Judged],
    (terminal, terminal_carrier, terminal_points): (&Subject, &Carrier<'_>, &'p [Judged]),
    handed: Option<&'p HandedOn>,
    files: &'p [Vec<u8>],
) -> (Vec<Finding>, Carried<'p>) {
    let here_too = (terminal, terminal_carrier);
    let here = |name: &str| terminal_points.iter().find(|ours| ours.name == name);
    let barred = |ours: Option<&Judged>| {
        let ours = ours.filter(|ours| ours.state() == State::Alive)?;
        usable::barred(terminal, terminal_carrier, daemon, ours.topic?, ours.value.clear()?)
    };
    let taken = |name: &str| taken(handed, name);
    let mut troubles = Vec::new();
    for point in points {
        let Some(topic) = point.topic.filter(|topic| is_used(*topic)) else { continue };
        let (ours, taken) = (here(&point.name), taken(&point.name));
        let alive = ours.filter(|ours| ours.state() == State::Alive);
        if let Some(problem) = trouble_of(topic, point.state()) {
            let relink = relink(daemon, carrier, terminal, (point, ours)).filter(|_| taken.is_none());
            troubles.push(Trouble { topic, problem, point, ours, taken, barred: barred(ours), relink });
        } else if let (Some(ours), Some(_)) = (alive, taken) {
            // Alive in the daemon, and of no use to a shell of it.
            if is_needed(topic) {
                troubles.push(Trouble {
                    topic,
                    problem: Problem::Missing,
                    point: ours,
                    ours: Some(ours),
                    taken,
                    barred: barred(Some(ours)),
                    relink: None,
                });
            }
        } else if ours.is_some_and(|ours| is_foreign(topic, (daemon, carrier, point), (terminal, terminal_carrier, ours))) {
            troubles.push(Trouble { topic, problem: Problem::Foreign, point, ours, taken, barred: barred(ours), relink: None });
        }
    }
    // Set to the empty string counts as unset, as programs take it.
    let has = |name: &str| points.iter().any(|point| point.name == name && point.state() != State::Missing);
    let absent = |ours: &&Judged| ours.topic.is_some_and(is_missed) && ours.state() == State::Alive && !has(&ours.name);
    for ours in terminal_points.iter().filter(absent) {
        let Some(topic) = ours.topic else { continue };
        let again = topic == Topic::Proxy
            && points.iter().any(|point| is_other_case(&point.name, &ours.name) && !differ(&point.value, &ours.value));
        let by_default =
            ours.value.clear().is_some_and(|value| one_place::is_default(&ours.name, topic, carrier, (terminal_carrier, value)));
        if again || by_default {
            continue;
        }
        let (ours, barred) = (Some(ours), barred(Some(ours)));
        troubles.extend(ours.map(|point| Trouble { topic, problem: Problem::Missing, point, ours, taken: None, barred, relink: None }));
    }
    let mut carried: Carried<'_> = troubles.iter().filter_map(Trouble::offer).collect();
    // A display without its cookie opens nothing. One list for every repair: pasted one after the other, none undoes another.
    carried.extend(cookie(daemon, carrier, points, here_too, &carried, (handed, files)).map(|file| (AUTHORITY, file)));
    let renewal = daemon.fix(carrier.host, &if carried.is_empty() { Fix::Restart } else { Fix::Carry(&carried) });
    let lost = Lost::of(&troubles, daemon, carrier);
    (troubles.iter().map(|trouble| trouble.finding(daemon, carrier, terminal, (&renewal, &lost))).collect(), carried)
}

/// What keeps a variable of the daemon's from its tools.
fn taken<'h>(handed: Option<&'h HandedOn>, name: &str) -> Option<&'h str> {
    handed?.dropped.get(name).map(String::as_str)
}

/// Files that may hold the cookie which a repair has to name: the daemon's own, then the terminal's.
pub fn cookie_files(daemon: &Carrier<'_>, terminal: &Carrier<'_>) -> Vec<Vec<u8>> {
    let own = daemon.environ.bytes(AUTHORITY).map(<[u8]>::to_vec);
    let files = own.into_iter().chain(xauthority::file_of(terminal));
    files.filter(|file| file.starts_with(b"/") && redact::secret(AUTHORITY.as_bytes(), file, false).is_none()).collect()
}

/// The cookie file that the daemon's tools have to be told of: they would not find the cookie of their display by themselves.
fn cookie<'p>(
    daemon: &Subject,
    carrier: &Carrier<'_>,
    points: &[Judged],
    (terminal, terminal_carrier): (&Subject, &Carrier<'_>),
    carried: &Carried<'p>,
    (handed, files): (Option<&HandedOn>, &'p [Vec<u8>]),
) -> Option<&'p [u8]> {
    if carried.iter().any(|(name, _)| *name == AUTHORITY) {
        return None;
    }
    let taken = |name: &str| taken(handed, name);
    let own = || carrier.environ.bytes("DISPLAY").filter(|_| taken("DISPLAY").is_none());
    let brought = carried.iter().find(|(name, _)| *name == "DISPLAY").map(|(_, value)| *value);
    let display = brought.or_else(own)?;
    let is_own = |file: &[u8]| carrier.environ.bytes(AUTHORITY) == Some(file);
    let opens = |file: Option<&[u8]>| opens(carrier, display, file);
    let kept_back = files.iter().find(|file| is_own(file) && taken(AUTHORITY).is_some());
    if let Some(file) = kept_back.filter(|file| !matches!(opens(Some(file)), Ok(Cookie::NotListed | Cookie::NoFile))) {
        return Some(file);
    }
    let by_itself = opens(carrier.environ.bytes(AUTHORITY).filter(|_| taken(AUTHORITY).is_none()));
    let leads = brought.is_some() || points.iter().any(|point| point.name == "DISPLAY" && point.state() == State::Alive);
    if !leads || !matches!(by_itself, Ok(Cookie::NotListed | Cookie::NoFile)) {
        return None;
    }
    let barred = |file: &[u8]| usable::barred(terminal, terminal_carrier, daemon, Topic::XAuthority, file).is_some();
    files.iter().find(|file| opens(Some(file)) == Ok(Cookie::Listed) && (is_own(file) || !barred(file))).map(Vec::as_slice)
}

/// Whether this file, or the one in its home, has a cookie of this display for the carrier.
fn opens(carrier: &Carrier<'_>, display: &[u8], file: Option<&[u8]>) -> Fact<Cookie> {
    let entry = |name: &str, value: &[u8]| Entry { name: Raw::from(name), value: Some(Value::Clear(Raw::from(value))) };
    let file = file.map(|file| entry(AUTHORITY, file));
    let home = carrier.environ.bytes("HOME").map(|home| entry("HOME", home));
    let entries = [Some(entry("DISPLAY", display)), file, home].into_iter().flatten().collect();
    xauthority::cookie(&Carrier { environ: &Environ { entries, overwritten: false }, ..*carrier })
}

/// What the daemon names in vain and this terminal has no better value for: one list, so that a person reads one line.
struct Lost {
    /// What a tool needs: another terminal may have it.
    needed: Vec<String>,
    /// Lines after which a repair does not bring the rest along again; none where this terminal does not have it anyway.
    shed: Vec<String>,
}

impl Lost {
    fn of(troubles: &[Trouble<'_>], daemon: &Subject, carrier: &Carrier<'_>) -> Lost {
        let (needed, rest): (Vec<&Trouble<'_>>, Vec<&Trouble<'_>>) =
            troubles.iter().filter(|trouble| trouble.is_lost()).partition(|trouble| is_needed(trouble.topic));
        let names = |lost: Vec<&Trouble<'_>>| -> Vec<String> { lost.iter().map(|trouble| trouble.point.name.clone()).collect() };
        let here: Vec<&str> = rest.iter().filter(|trouble| trouble.ours.is_some()).map(|trouble| trouble.point.name.as_str()).collect();
        let all: Vec<&str> = rest.iter().map(|trouble| trouble.point.name.as_str()).collect();
        Lost { needed: names(needed), shed: daemon.shed(carrier.host, &here, &all) }
    }

    fn lines(&self, topic: Topic) -> Vec<String> {
        if !is_needed(topic) {
            return self.shed.clone();
        }
        vec![note(format!("this terminal has no live {} to offer: do this from one that has", self.needed.join(", ")))]
    }
}

/// A variable of a daemon that leads nowhere, to somebody else, or is not there.
struct Trouble<'p> {
    topic: Topic,
    problem: Problem,
    point: &'p Judged,
    ours: Option<&'p Judged>,
    /// What keeps it from the daemon's tools although the daemon has it.
    taken: Option<&'p str>,
    /// Why the terminal's value would be of no use to the daemon's user.
    barred: Option<String>,
    /// The line that points the link, which the daemon has for a value, at this terminal's socket.
    relink: Option<String>,
}

impl<'p> Trouble<'p> {
    /// The terminal's value, which is offered only after it was found alive, only if it may be shown, and only to a
    /// daemon whose user could use it.
    fn offer(&self) -> Option<(&'p str, &'p [u8])> {
        let usable = self.barred.is_none() && self.relink.is_none();
        let ours = self.ours.filter(|ours| usable && self.problem != Problem::Unknown && ours.open && ours.state() == State::Alive)?;
        Some((&ours.name, ours.value.clear()?))
    }

    /// A restart from this terminal takes the value along without anybody reading it.
    fn is_hidden(&self) -> bool {
        self.ours.is_some_and(|ours| !ours.open && ours.state() == State::Alive)
    }

    /// It is dead, and this terminal has nothing to put in its place.
    fn is_lost(&self) -> bool {
        self.problem != Problem::Unknown && self.barred.is_none() && self.relink.is_none() && !self.is_hidden() && self.offer().is_none()
    }

    fn finding(&self, daemon: &Subject, carrier: &Carrier<'_>, terminal: &Subject, (renewal, lost): (&[String], &Lost)) -> Finding {
        let Trouble { topic, problem, point, ours, taken, barred, relink } = self;
        let message = match (problem, ours) {
            (Problem::Missing, _) if let Some(by) = taken => {
                format!("{} is {}; {}'s {} is alive", point.name, needs::dropped(by), terminal.label, point.shown)
            }
            (Problem::Missing, _) => {
                let unset = if carrier.environ.get(&point.name).is_some() { "set to the empty string" } else { "not set" };
                format!("{} is {unset}; {}'s {} is alive", point.name, terminal.label, point.shown)
            }
            (Problem::Foreign, Some(ours)) => {
                let (theirs, own) = (of_login(*topic, daemon, point), of_login(*topic, terminal, ours));
                format!("{}={}: alive{theirs}; {}'s is {}{own}", point.name, point.shown, terminal.label, ours.shown)
            }
            _ => {
                let kept = taken.map_or_else(String::new, |by| format!("; no shell of it gets this, dropped by {by}"));
                format!("{}={}: {}{kept}", point.name, point.shown, point.named.liveness.detail)
            }
        };
        let outcome = if *problem == Problem::Unknown { Outcome::Undetermined } else { Outcome::Confirmed };
        let seen = point
            .named
            .evidence
            .iter()
            .chain(ours.filter(|_| *problem == Problem::Foreign).into_iter().flat_map(|ours| &ours.named.evidence));
        let there = taken.map(|by| carrier.saw(&daemon.source, format!("has {}, dropped by {by}", point.name)));
        let finding = Finding::new(topic.kind(*problem), outcome, &daemon.label, message).evidence(seen.cloned().chain(there));
        match (problem, self.offer()) {
            (Problem::Unknown, _) => finding,
            (_, None) if let Some(why) = barred => {
                let user = daemon.stat.as_ref().and_then(|stat| carrier.host.user_name(stat.euid));
                let user = user.unwrap_or_else(|| "the daemon's user".to_owned());
                let first = format!("{}'s {} is no use to it ({why}): {user} has to ask from a login with one", terminal.label, point.name);
                finding.fix([note(first)].into_iter().chain(renewal.iter().cloned()))
            }
            (_, None) if let Some(line) = relink => finding
                .fix([note(format!("its {} is a link, and {}'s agent can be put behind it:", point.name, terminal.label)), line.clone()]),
            (_, None) if self.is_hidden() => finding.fix(renewal.iter().cloned()),
            (_, Some((_, value))) => finding.fix(renewal.iter().cloned().chain(lasting(*topic, *problem, value))),
            (_, None) => finding.fix(lost.lines(*topic).into_iter().chain(renewal.iter().cloned())),
        }
    }
}

/// What makes the repair outlast the next login: a link that each login points to its own agent. Worth a word only
/// where a login took the socket with it.
fn lasting(topic: Topic, problem: Problem, value: &[u8]) -> Vec<String> {
    // A terminal that follows the advice already has the link itself for a value.
    let is_link = value.ends_with(AGENT_LINK.trim_start_matches('~').as_bytes());
    if is_link || topic != Topic::SshAgent || !matches!(problem, Problem::Dangling | Problem::Reused) {
        return Vec::new();
    }
    vec![
        note(format!("to keep it beyond this login, give it {AGENT_LINK} as SSH_AUTH_SOCK instead, and in each login:")),
        format!("mkdir -pm 700 ~/.ssh && ln -sfn {} {AGENT_LINK}", quote(value)),
    ]
}

/// The line that puts this terminal's agent behind the link that the daemon has for a socket: it sees that at once.
fn relink(daemon: &Subject, carrier: &Carrier<'_>, terminal: &Subject, (point, ours): (&Judged, Option<&Judged>)) -> Option<String> {
    let uid = |subject: &Subject| subject.stat.as_ref().map(|stat| stat.euid);
    let ours = ours.filter(|ours| ours.open && ours.state() == State::Alive && differ(&ours.value, &point.value))?;
    let link = point.value.clear().filter(|_| point.open && point.topic == Some(Topic::SshAgent) && uid(daemon) == uid(terminal))?;
    carrier.host.path(carrier.view, link).ok()?.link?;
    Some(format!("ln -sfn {} {}", quote(ours.value.clear()?), quote(link)))
}

/// Whose it is, in a sentence: of the login that is known to serve it.
fn of_login(topic: Topic, subject: &Subject, point: &Judged) -> String {
    let connection = serves(topic, subject, point);
    connection.map_or_else(String::new, |connection| format!(", of the login from {}", connection.split(' ').next().unwrap_or_default()))
}

/// The ssh connection that a display or agent is forwarded by.
fn serves(topic: Topic, subject: &Subject, point: &Judged) -> Option<String> {
    if let Some(owner) = &point.named.owner {
        return owner.connection.clone();
    }
    // Served by another login than that of birth: by which is not known.
    let value = point.value.clear().filter(|_| point.named.same_connection != Some(false))?;
    let forwarded = match topic {
        Topic::Display => Display::parse(value)?.is_forwarded(),
        Topic::SshAgent => Scheme::of(value) != Scheme::Stable,
        _ => false,
    };
    subject.birth.ssh_connection.clone().filter(|_| forwarded)
}

/// Both alive, and not the same: the daemon's windows and keys are somebody else's, or another login's.
fn is_foreign(
    topic: Topic,
    (daemon, carrier, point): (&Subject, &Carrier<'_>, &Judged),
    (terminal, terminal_carrier, ours): (&Subject, &Carrier<'_>, &Judged),
) -> bool {
    let belongs_to_a_login =
        matches!(topic, Topic::Display | Topic::Wayland | Topic::SshAgent | Topic::Bus | Topic::RuntimeDir | Topic::Editor);
    if !belongs_to_a_login || point.state() != State::Alive || ours.state() != State::Alive || !differ(&point.value, &ours.value) {
        return false;
    }
    // Two displays or agents of one connection are one person's, at one screen and with one set of keys.
    let served = serves(topic, daemon, point);
    if matches!(topic, Topic::Display | Topic::SshAgent) && served.is_some() && served == serves(topic, terminal, ours) {
        return false;
    }
    let theirs = point.value.clear().and_then(|path| carrier.host.path(carrier.view, path).ok());
    // A link to an agent is kept so that logins come and go behind it.
    let is_link = topic == Topic::SshAgent && theirs.is_some_and(|fact| fact.link.is_some() && fact.kind == FileKind::Socket);
    let values = point.value.clear().zip(ours.value.clear());
    let is_one = || values.is_some_and(|(theirs, own)| one_place::is_one(topic, (carrier, theirs), (terminal_carrier, own)));
    !is_link && !one_place::is_one_server(&point.named, &ours.named) && !is_one()
}

/// Whether programs that look for the second find the first: most take a proxy by either case, and curl takes `HTTP_PROXY` not at all.
fn is_other_case(name: &str, wanted: &str) -> bool {
    name.eq_ignore_ascii_case(wanted) && wanted != "http_proxy"
}

fn differ(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Masked(a), Value::Masked(b)) => a.fingerprint != b.fingerprint,
        (a, b) => a != b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_never_pointed_at_itself() {
        let lines = lasting(Topic::SshAgent, Problem::Dangling, b"/tmp/ssh-XXX/agent.7");
        assert_eq!(lines[1], "mkdir -pm 700 ~/.ssh && ln -sfn /tmp/ssh-XXX/agent.7 ~/.ssh/agent.sock");
        assert_eq!(lasting(Topic::SshAgent, Problem::Dangling, b"/home/ann/.ssh/agent.sock"), [""; 0]);
        assert_eq!(lasting(Topic::Display, Problem::Dangling, b"localhost:11.0"), [""; 0]);
    }
}

//! A running daemon: found, asked with its own password, probed in sessions that the probe made, and left as it was.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::api::{self, Condition, Dialect};
use super::bed::Bed;
use super::removal::Outputs;
use super::{Options, experiments};
use crate::agent::opencode::service_file::{endpoint, parse_password};
use crate::agent::{AgentProcess, Listener, Role, discover};
use crate::host::http::{self, Http, NoAnswer, Password};
use crate::host::listen::{self, Address};
use crate::host::{Environ, Host, Unknown, View, files, interrupt};
use crate::probe::nest::Nest;
use crate::probe::readback::Readback;
use crate::probe::{Cleanup, Data, Probed, token};
use crate::report::{Exit, Problem, Progress};

/// A daemon that can be asked.
struct Found {
    url: String,
    process: AgentProcess,
    password: Option<Password>,
}

/// Finds the daemon, makes every experiment that a live one can be asked for, and removes what it made.
///
/// # Errors
/// When there is none, there are several, or it may not be asked.
pub fn probe(host: &Host, url: Option<&str>, options: &Options, progress: &Progress) -> Result<Data, Problem> {
    progress.doing("looking for the daemon");
    let found = find(host, url, options)?;
    let unreachable = |no: NoAnswer| {
        let exit = match no {
            NoAnswer::Remote(_) => Exit::Usage,
            NoAnswer::Denied(_) => Exit::NotPermitted,
            _ => Exit::Undetermined,
        };
        let problem = Problem::new(exit, format!("{}: {no}", http::told(&found.url))).hint("See what runs: whoseenv ps");
        if exit == Exit::Usage { problem } else { problem.hint("Name its password: --password-file FILE") }
    };
    let http = Http::new(&found.url, found.password.as_ref(), options.allow_remote.as_deref()).map_err(unreachable)?;
    let health = api::health(&http, options.patience.min(Duration::from_secs(10))).map_err(unreachable)?;
    let health = match health {
        Condition::Well(health) => health,
        Condition::Unwell(said) => {
            return Err(Problem::new(Exit::Undetermined, format!("{} is not healthy: {said}", http::told(&found.url))));
        }
    };
    let io = |error: std::io::Error| Problem::new(Exit::Io, format!("a private directory cannot be made: {error}"));
    let nest = Nest::new().map_err(io)?;
    // Another account's shells can neither enter the private directory nor call a socket in it.
    let foreign = found.process.stat.euid != host.machine().uid;
    let address = if foreign { Address::Abstract(format!("whoseenv-{}", token().map_err(io)?)) } else { Address::Path(nest.join("ear")) };
    let readback = Readback::open(address).map_err(io)?;
    let daemon = found.process.stat.pid;
    // Always the same one: a host keeps a row, watchers and workers for every directory that it saw.
    let place = std::env::temp_dir();
    let bed = Bed::new(http, health.clone(), daemon, readback, (place, nest.dir().to_owned()), options.patience);
    let mut bed = bed
        .map_err(|stop| Problem::new(Exit::NotPermitted, stop.why()).hint("Run it as the account that the daemon runs as, or as root."))?;
    let (mark, url) = (bed.mark.digits(), http::told(&found.url));
    let stays = format!("sessions, PTYs and shells with {mark} in title or id, in the daemon at {url} (the next live probe removes them)");
    let stays = interrupt::stays(stays);
    let places = places(&bed.block);
    let outputs = Outputs::now(places.first().map(PathBuf::as_path));
    let claims = experiments(&mut bed, None, &places, progress);
    let mut cleanup = Cleanup::default();
    progress.doing("removing what was made");
    bed.remove(&outputs, &mut cleanup);
    by_nature(&places, &bed, &mut cleanup);
    drop((bed, stays));
    let looked = cleanup.looked_again;
    nest.remove(&mut cleanup);
    cleanup.looked_again &= looked;
    let probed = Probed { product: "opencode".to_owned(), version: Some(health.version), pid: Some(daemon), spawned: false };
    Ok(Data { host: Some(probed), claims, cleanup, plan: Vec::new() })
}

fn find(host: &Host, url: Option<&str>, options: &Options) -> Result<Found, Problem> {
    let processes = discover(host).map_err(|reason| Problem::new(Exit::Io, format!("the list of processes: {reason}")))?;
    let daemons: Vec<&AgentProcess> =
        processes.iter().filter(|process| process.agent == "opencode" && process.role == Role::Daemon).collect();
    let wanted = url.map(wanted).transpose()?;
    let at = |process: &AgentProcess| match (wanted, url) {
        (Some(wanted), Some(url)) => listens(process, wanted).then(|| base(url).to_owned()),
        _ => address(process),
    };
    let found: Vec<(String, &AgentProcess)> = daemons.iter().filter_map(|process| Some((at(process)?, *process))).collect();
    let list = || found.iter().map(|(url, process)| format!("--live {}   (pid {})", http::told(url), process.stat.pid));
    match found.as_slice() {
        [(url, process)] => Ok(Found { url: url.clone(), process: (*process).clone(), password: password(process, options)? }),
        [] => Err(nobody(host, url, wanted, &daemons)),
        _ => Err(list().fold(Problem::new(Exit::Usage, "several OpenCode daemons run; name one"), Problem::hint)),
    }
}

/// Address and port of `http://ADDRESS:PORT`.
///
/// # Errors
/// When it is none, or says more: nothing of that would be heeded.
pub fn wanted(url: &str) -> Result<(IpAddr, u16), Problem> {
    let refused = |more: &str| {
        let hint = match url.contains('@') {
            true => "A password is read from a file: --password-file FILE",
            false => "Such as: --live http://127.0.0.1:49374",
        };
        Problem::new(Exit::Usage, format!("{} is no http://ADDRESS:PORT{more}", http::told(url))).hint(hint)
    };
    let place = url.strip_prefix("http://").filter(|place| !place.contains('@')).ok_or_else(|| refused(""))?;
    if place.trim_end_matches('/').contains(['/', '?', '#']) {
        return Err(refused(" and nothing behind it"));
    }
    endpoint(url).ok_or_else(|| refused(""))
}

/// Why there is no daemon to ask: one that may not be looked into may be it.
fn nobody(host: &Host, url: Option<&str>, wanted: Option<(IpAddr, u16)>, daemons: &[&AgentProcess]) -> Problem {
    let unread: Vec<String> =
        daemons.iter().filter(|process| process.listeners.is_err()).map(|process| process.stat.pid.to_string()).collect();
    let net = host.net(View::default());
    let row = wanted.and_then(|(ip, port)| net.listener(ip, port).ok().flatten());
    let owner = row.map(|row| row.uid).filter(|uid| *uid != host.machine().uid && host.machine().uid != 0);
    if let (Some(url), Some((ip, _))) = (url, wanted)
        && !listen::is_own_address(ip)
    {
        return Problem::new(Exit::NotFound, format!("{url} is no address of this machine, or of another network namespace of it"))
            .hint("A probe reads the daemon and its shells in /proc: run whoseenv where the daemon runs.")
            .hint("--allow-remote allows addresses of this machine that are not on loopback, and no others.");
    }
    let problem = match (url, owner) {
        (Some(url), Some(uid)) => {
            let name = host.user_name(uid).unwrap_or_else(|| uid.to_string());
            Problem::new(Exit::NotPermitted, format!("what listens at {url} is {name}'s, and may not be looked into from this account"))
        }
        (Some(url), None) if row.is_some() && unread.is_empty() => {
            Problem::new(Exit::NotFound, format!("what listens at {url} is not known as an OpenCode daemon"))
        }
        (Some(url), None) if row.is_none() => Problem::new(Exit::NotFound, format!("nothing of this machine listens at {url}")),
        _ if !unread.is_empty() => Problem::new(
            Exit::NotPermitted,
            format!(
                "which addresses the OpenCode daemons of other accounts have (pid {}) may not be seen from this account",
                unread.join(", ")
            ),
        ),
        _ => Problem::new(Exit::NotFound, "no OpenCode daemon runs here whose address is known"),
    };
    let problem = problem.hint("See what runs: whoseenv ps");
    match problem.exit {
        Exit::NotPermitted => problem.hint("Run it as the account that the daemon runs as, or as root."),
        _ => problem.hint("Or let one be started: whoseenv probe opencode --spawn BIN"),
    }
}

/// `http://ADDRESS:PORT` of an address.
fn base(url: &str) -> &str {
    let rest = url.split_once("://").map_or(0, |(scheme, _)| scheme.len() + 3);
    url[rest..].find(['/', '?', '#']).map_or(url, |end| &url[..rest + end])
}

/// Whether a daemon is reached there: at what its registration says, or at one of its sockets, of which one may be every address's.
fn listens(process: &AgentProcess, (ip, port): (IpAddr, u16)) -> bool {
    let registered = process.registration.as_ref().and_then(|registration| registration.registered());
    registered.is_some_and(|registered| endpoint(&registered.url) == Some((ip, port)))
        || process.listeners.iter().flatten().any(|listener| match listener {
            Listener::Tcp(theirs) if theirs.ip().is_unspecified() => theirs.port() == port && listen::is_own_address(ip),
            Listener::Tcp(theirs) => *theirs == SocketAddr::new(ip, port),
            Listener::Unix(_) => false,
        })
}

/// Where a daemon answers: what its registration says, else where it listens.
fn address(process: &AgentProcess) -> Option<String> {
    if let Some(registered) = process.registration.as_ref().and_then(|registration| registration.registered()) {
        return Some(registered.url.clone());
    }
    let listeners = process.listeners.as_ref().ok()?;
    listeners.iter().find_map(|listener| match listener {
        Listener::Tcp(address) => Some(format!("http://{}", reachable(*address))),
        Listener::Unix(_) => None,
    })
}

fn reachable(address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() { SocketAddr::from(([127, 0, 0, 1], address.port())) } else { address }
}

/// The daemon's password: from the file that was named, else from its registration.
fn password(process: &AgentProcess, options: &Options) -> Result<Option<Password>, Problem> {
    let read = |path: &Path| files::read_named(path).map_err(|reason| unreadable(path, &reason));
    if let Some(path) = &options.password_file {
        let text = String::from_utf8(read(path)?).map_err(|_| Problem::new(Exit::Usage, format!("{}: it is no text", path.display())))?;
        return Ok(Some(Password::new(text.trim_end_matches(['\r', '\n']))));
    }
    let Some(registration) = process.registration.as_ref().filter(|it| it.registered().is_some_and(|it| it.has_password)) else {
        return Ok(None);
    };
    if registration.roots.view.mount.is_some() {
        return Ok(None);
    }
    Ok(parse_password(&read(registration.path.as_path())?))
}

fn unreadable(path: &Path, reason: &Unknown) -> Problem {
    let exit = match reason {
        Unknown::NotPermitted => Exit::NotPermitted,
        Unknown::Absent => Exit::NotFound,
        _ => Exit::Io,
    };
    Problem::new(exit, format!("{}: {reason}", path.display()))
}

/// The directories in which a daemon with this environment keeps its files.
fn places(block: &Environ) -> Vec<PathBuf> {
    let roots = [
        ("XDG_DATA_HOME", ".local/share"),
        ("XDG_STATE_HOME", ".local/state"),
        ("XDG_CACHE_HOME", ".cache"),
        ("XDG_CONFIG_HOME", ".config"),
    ];
    let root = |(name, below): (&str, &str)| {
        let root = block.filled(name).map(PathBuf::from).or_else(|| Some(Path::new(block.filled("HOME")?).join(below)));
        root.map(|root| root.join("opencode"))
    };
    roots.into_iter().filter_map(root).collect()
}

/// What stays by the host's own nature, so that nobody has to find it.
fn by_nature(places: &[PathBuf], bed: &Bed, cleanup: &mut Cleanup) {
    let place = |at: usize| places.get(at).map(|place| place.display().to_string()).unwrap_or_default();
    let (data, state, config) = (place(0), place(1), place(3));
    let temporary = bed.block.filled("TMPDIR").unwrap_or("/tmp");
    // Seen on both: each daemon unpacks its libraries at their first use.
    cleanup.by_nature(
        "libraries that the program unpacks",
        format!(
            "{temporary}/.*-0000000N.so, of the daemon's account: the first PTY or watched directory of a daemon brings them, whoever asks"
        ),
    );
    match bed.dialect() {
        // Seen on 1.18.34.
        Dialect::V1 => cleanup.by_nature(
            "what the program makes for the first session of an account",
            format!(
                "{config}/.gitignore and the packages that plugins need beside it; npm's cache, .npm in the daemon's HOME; {state}/locks"
            ),
        ),
        // Seen on next-16350: made for the first command of a project, and for the first directory.
        Dialect::V2 => cleanup.by_nature(
            "empty directories",
            format!("{data}/shell and one below it for the project, where the output of commands was; {state}/locks"),
        ),
    }
    cleanup.by_nature(
        "one project row for the probe's directory",
        format!("in the database below {data}: OpenCode keeps every directory that it saw"),
    );
    cleanup.by_nature("lines in the log", format!("below {data}/log: each request is logged"));
    cleanup.by_nature("freed database pages", "they may hold the text of the commands, in which there is a token that is spent");
}

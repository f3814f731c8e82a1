//! A running daemon: asked what needs no model, with sessions that the probe made.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::Options;
use super::bed::NOT_FOUND;
use super::client::Client;
use super::sessions::{marked, onto, words};
use crate::agent::{Listener, Role, discover};
use crate::host::files::stat_named;
use crate::host::http::NoAnswer;
use crate::host::lines::Said;
use crate::host::{Host, interrupt};
use crate::probe::claims::{Z5, ZEROCLAW};
use crate::probe::trail::judge;
use crate::probe::{Cleanup, Data, Probed, Stop, Trail, nonce};
use crate::report::{Exit, Problem, Progress};

/// Why the other claims are not judged.
const NO_MODEL: &str = "a live daemon has a model of its own, and no call of its shell tool without it: --spawn judges this claim";

/// Asks the daemon what needs no model, and removes what it made.
///
/// # Errors
/// When there is none, there are several, or it may not be asked.
pub fn probe(host: &Host, socket: Option<&Path>, options: &Options, progress: &Progress) -> Result<Data, Problem> {
    progress.doing("looking for the daemon");
    let (socket, pid) = find(host, socket)?;
    let failed = |no: NoAnswer| match no {
        NoAnswer::Denied(said) => Problem::new(Exit::NotPermitted, said).hint("Run it as the account that the daemon runs as, or as root."),
        no => Problem::new(Exit::Undetermined, no.to_string()).hint("See what runs: whoseenv ps"),
    };
    let mut client = Client::connect(&socket, None, None, options.patience).map_err(failed)?;
    let version = client.version.clone();
    let agent = first_agent(&mut client).map_err(failed)?;
    let mut sessions = Vec::new();
    let claims = ZEROCLAW.iter().map(|claim| match claim.id {
        "Z5" => judge(&Z5, |trail| attaching(&socket, agent.as_deref(), options, &mut sessions, trail)),
        _ => judge(claim, |_| Err(Stop::NotAsked(NO_MODEL.to_owned()))),
    });
    let claims = claims.collect();
    let mut cleanup = Cleanup::default();
    // Also after Ctrl-C.
    interrupt::ignoring(|| remove(&mut client, &sessions, &mut cleanup));
    let probed = Probed { product: "zeroclaw".to_owned(), version, pid, spawned: false };
    Ok(Data { host: Some(probed), claims, cleanup, plan: Vec::new() })
}

fn find(host: &Host, socket: Option<&Path>) -> Result<(PathBuf, Option<u32>), Problem> {
    let processes = discover(host).map_err(|reason| Problem::new(Exit::Io, format!("the list of processes: {reason}")))?;
    let daemons = processes.iter().filter(|process| process.agent == "zeroclaw" && process.role == Role::Daemon);
    let unread: Vec<String> =
        daemons.clone().filter(|process| process.listeners.is_err()).map(|process| process.stat.pid.to_string()).collect();
    let listening = daemons.flat_map(|process| {
        let unix = process.listeners.iter().flatten().filter_map(|listener| match listener {
            Listener::Unix(path) => Some(path.as_path().to_owned()),
            Listener::Tcp(_) => None,
        });
        unix.map(|path| (path, Some(process.stat.pid))).collect::<Vec<_>>()
    });
    let mut found: Vec<(PathBuf, Option<u32>)> = listening.collect();
    if let Some(socket) = socket {
        if let Err(unknown) = stat_named(socket) {
            let exit = if unknown.is_absence() { Exit::NotFound } else { Exit::NotPermitted };
            return Err(Problem::new(exit, format!("{}: {unknown}", socket.display())).hint("See what runs: whoseenv ps"));
        }
        let pid = found.iter().find(|(path, _)| path == socket).and_then(|(_, pid)| *pid);
        return Ok((socket.to_owned(), pid));
    }
    found.dedup();
    match found.as_slice() {
        [one] => Ok(one.clone()),
        [] if !unread.is_empty() => Err(Problem::new(
            Exit::NotPermitted,
            format!(
                "which sockets the ZeroClaw daemons of other accounts have (pid {}) may not be seen from this account",
                unread.join(", ")
            ),
        )
        .hint("Run it as the account that the daemon runs as, or as root.")),
        [] => Err(Problem::new(Exit::NotFound, "no ZeroClaw daemon runs here whose socket is known")
            .hint("See what runs: whoseenv ps")
            .hint("Or let one be started: whoseenv probe zeroclaw --spawn BIN")),
        _ => Err(found.iter().fold(Problem::new(Exit::Usage, "several ZeroClaw daemons run; name one"), |problem, (path, _)| {
            problem.hint(format!("--live {}", path.display()))
        })),
    }
}

/// The name of an agent that sessions can be made for.
fn first_agent(client: &mut Client) -> Result<Option<String>, NoAnswer> {
    let listed = client.call("agents/list", &json!({}))?.result("agents/list")?;
    let agents = listed.as_array().or_else(|| listed["agents"].as_array());
    let name = |agent: &Value| ["alias", "agent_alias", "name", "id"].iter().find_map(|key| agent[*key].as_str().map(str::to_owned));
    Ok(agents.and_then(|agents| agents.iter().find_map(|agent| agent.as_str().map(str::to_owned).or_else(|| name(agent)))))
}

/// Z5, with sessions in a directory that is there on every machine.
fn attaching(
    socket: &Path,
    agent: Option<&str>,
    options: &Options,
    made: &mut Vec<(String, interrupt::Stays)>,
    trail: &mut Trail,
) -> Result<(), Stop> {
    let agent = agent.ok_or_else(|| Stop::Failed("the daemon lists no agent".to_owned()))?;
    let directory = std::env::temp_dir();
    let connect = |env: Option<&Value>| Client::connect(socket, env, None, options.patience);
    let (mark, other) = (nonce("own")?, nonce("other")?);
    let mut owner = connect(Some(&marked(&mark)))?;
    let session = owner.session(&directory, &json!({"agent_alias": agent}))?;
    let stays = |session: &str| interrupt::stays(format!("session {session} in the daemon on {}", socket.display()));
    made.push((session.clone(), stays(&session)));
    let mut bare = connect(None)?;
    let without = bare.session(&directory, &json!({"agent_alias": agent}))?;
    made.push((without.clone(), stays(&without)));
    let attach = |client: &mut Client, session: &str| client.new_session(&directory, &json!({"agent_alias": agent, "session_id": session}));
    let own = attach(&mut owner, &session)?;
    trail.control(own.code().is_none(), format!("its own client may not attach: {}", words(&own)))?;
    onto(trail, (&mark, &other), (&session, &without), |env, session| Ok(attach(&mut connect(env)?, session)?))
}

/// Ends and deletes the sessions, and looks again.
fn remove(client: &mut Client, sessions: &[(String, interrupt::Stays)], cleanup: &mut Cleanup) {
    let mut gone = 0;
    cleanup.looked_again = true;
    for (session, _) in sessions {
        let which = json!({"session_id": session});
        let _ = client.call("session/close", &which);
        let _ = client.call("session/delete", &which);
        // A second deletion tells whether the first one left anything.
        match client.call("session/close", &which) {
            Ok(said) if said.code() == Some(NOT_FOUND) => gone += 1,
            Ok(said @ Said::Error { .. }) => cleanup.failed(format!("session {session}"), words(&said)),
            Ok(Said::Result(_)) => cleanup.failed(format!("session {session}"), "it can still be closed"),
            Err(no) => {
                cleanup.looked_again = false;
                cleanup.failed(format!("session {session}"), no.to_string());
            }
        }
    }
    cleanup.removed(gone, "session", "sessions");
    if !sessions.is_empty() {
        cleanup.by_nature("lines in the daemon's log", "each connection and session is logged; none holds a value");
        // Seen on 0.8.7: made for the first session of an agent.
        cleanup.by_nature(
            "the agent's workspace",
            "agents/NAME/workspace below the daemon's directory, with AGENTS, HEARTBEAT, IDENTITY, MEMORY, SOUL, TOOLS and USER.md: ZeroClaw makes \
             them for an agent's first session, and they are the agent's own from then on",
        );
    }
}

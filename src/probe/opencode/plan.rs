//! What a probe would ask, without asking: what each experiment takes, in numbers, beside the claim that it is for.
//!
//! The experiments are not derived from this: tests compare it with what real hosts were asked.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::api::{self, Dialect, Name, Request};
use super::bed::added;
use super::live::wanted;
use super::plain::additions;
use super::{NO_SESSION, Target, runnable};
use crate::probe::{Data, map};
use crate::report::Problem;

/// The command that calls back, as the plan names it.
const CALLS: &str = "WHOSEENV readback call SOCKET TOKEN; :";

/// What an experiment asks of a host, in numbers.
#[derive(Clone, Copy, Default)]
struct Asks {
    sessions: u32,
    sub_sessions: u32,
    forks: u32,
    /// Commands in a session, each of which calls back.
    shells: u32,
    /// The same once with each addition.
    additions: u32,
    /// A command in a session that prints a nonce.
    printing: u32,
    /// Turns of the model.
    turns: u32,
    ptys: u32,
    bare: u32,
    bare_of_session: u32,
    uploads: u32,
    uploads_of_nothing: u32,
    uploads_of_a_number: u32,
    uploads_to_nobody: u32,
    /// Reads of a session, of its messages, of the list.
    reads: [u32; 3],
    /// Further starts of the host.
    restarts: u32,
}

const NONE: Asks = Asks {
    sessions: 0,
    sub_sessions: 0,
    forks: 0,
    shells: 0,
    additions: 0,
    printing: 0,
    turns: 0,
    ptys: 0,
    bare: 0,
    bare_of_session: 0,
    uploads: 0,
    uploads_of_nothing: 0,
    uploads_of_a_number: 0,
    uploads_to_nobody: 0,
    reads: [0; 3],
    restarts: 0,
};

/// The kinds of hosts, each of which is asked more than the one before.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    V1,
    V2,
    Uploads,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Kind::V1 => "1.x",
            Kind::V2 => "2.0 without uploads",
            Kind::Uploads => "2.0 with uploads",
        }
    }

    fn dialect(self) -> Dialect {
        if self == Kind::V1 { Dialect::V1 } else { Dialect::V2 }
    }
}

/// For which claim, of which hosts, whether only of one that was started for the probe, and what.
type Row = (&'static str, Kind, bool, Asks);

const ROWS: [Row; 19] = [
    ("O1, O2", Kind::V1, false, Asks { sessions: 1, shells: 1, ..NONE }),
    ("O13", Kind::V1, false, Asks { sessions: 1, shells: 1, additions: 1, ..NONE }),
    ("whether uploads are taken", Kind::V1, false, Asks { sessions: 1, uploads: 1, uploads_to_nobody: 1, ..NONE }),
    ("O7", Kind::V1, false, Asks { ptys: 1, ..NONE }),
    ("O7", Kind::V1, true, Asks { sessions: 1, turns: 1, ..NONE }),
    ("O7", Kind::Uploads, false, Asks { sessions: 1, uploads: 1, shells: 1, ..NONE }),
    ("O10", Kind::V1, false, Asks { sessions: 1, ptys: 1, ..NONE }),
    ("O10", Kind::V2, false, Asks { bare: 1, ..NONE }),
    ("O10", Kind::Uploads, false, Asks { sessions: 1, uploads: 1, shells: 2, ..NONE }),
    ("O3", Kind::Uploads, false, Asks { sessions: 1, uploads: 1, shells: 1, bare_of_session: 1, ..NONE }),
    ("O3", Kind::Uploads, true, Asks { turns: 1, ..NONE }),
    ("O4", Kind::Uploads, false, Asks { sessions: 2, uploads: 1, shells: 2, ..NONE }),
    ("O5", Kind::Uploads, false, Asks { sessions: 1, uploads: 2, shells: 2, ..NONE }),
    ("O6", Kind::Uploads, false, Asks { sessions: 2, uploads: 1, uploads_of_nothing: 1, shells: 2, ..NONE }),
    ("O8", Kind::Uploads, false, Asks { sessions: 20, uploads: 20, shells: 20, ..NONE }),
    ("O9", Kind::Uploads, false, Asks { sessions: 2, uploads: 1, shells: 4, sub_sessions: 1, forks: 1, ..NONE }),
    ("O14", Kind::Uploads, false, Asks { sessions: 2, uploads: 1, uploads_to_nobody: 1, uploads_of_a_number: 1, ..NONE }),
    ("O11", Kind::Uploads, false, Asks { sessions: 1, uploads: 1, shells: 1, printing: 1, reads: [1; 3], ..NONE }),
    ("O12", Kind::Uploads, true, Asks { sessions: 1, uploads: 1, shells: 2, reads: [1, 0, 0], restarts: 1, ..NONE }),
];

/// What all experiments ask of such a host.
fn total(kind: Kind, spawned: bool) -> Asks {
    let of_it = ROWS.iter().filter(|(_, least, spawned_alone, _)| kind >= *least && (spawned || !spawned_alone));
    of_it.fold(NONE, |mut sum, (.., asks)| {
        for (sum, more) in [
            (&mut sum.sessions, asks.sessions),
            (&mut sum.sub_sessions, asks.sub_sessions),
            (&mut sum.forks, asks.forks),
            (&mut sum.shells, asks.shells),
            (&mut sum.additions, asks.additions),
            (&mut sum.printing, asks.printing),
            (&mut sum.turns, asks.turns),
            (&mut sum.ptys, asks.ptys),
            (&mut sum.bare, asks.bare),
            (&mut sum.bare_of_session, asks.bare_of_session),
            (&mut sum.uploads, asks.uploads),
            (&mut sum.uploads_of_nothing, asks.uploads_of_nothing),
            (&mut sum.uploads_of_a_number, asks.uploads_of_a_number),
            (&mut sum.uploads_to_nobody, asks.uploads_to_nobody),
            (&mut sum.restarts, asks.restarts),
        ] {
            *sum += more;
        }
        for (sum, more) in sum.reads.iter_mut().zip(asks.reads) {
            *sum += more;
        }
        sum
    })
}

/// What a probe of this target would do.
///
/// # Errors
/// When there is no such program, or the address is none.
pub fn plan(target: &Target) -> Result<Data, Problem> {
    let spawned = matches!(target, Target::Spawn(_));
    let mut plan = Vec::new();
    let place = match target {
        Target::Spawn(program) => {
            runnable(program)?;
            plan.push("make a private home below the directory for temporary files, mode 0700".to_owned());
            plan.push("listen on loopback as a model, and on a private socket".to_owned());
            plan.push(format!("1 × run {} serve --port PORT, with a fixed environment", program.display()));
            PathBuf::from("HOME/work")
        }
        Target::Live(url) => {
            url.as_deref().map(wanted).transpose()?;
            plan.push(
                "make a private directory below the directory for temporary files, mode 0700, and listen on a socket in it".to_owned(),
            );
            plan.push("read the password from the daemon's registration file".to_owned());
            std::env::temp_dir()
        }
    };
    let paths = api::HEALTH.map(|(path, _)| path).join(", ");
    let again = if spawned { "again and again until the host answers" } else { "once" };
    plan.push(format!("GET {paths}, until one answers: {again}, and once more after a claim that stays undetermined"));
    for kind in [Kind::V1, Kind::V2, Kind::Uploads] {
        let asked = requests(kind, spawned, &place).into_iter().filter(|(times, ..)| *times > 0);
        plan.extend(asked.map(|(times, (method, path, body), more)| {
            let body = body.map(|body| format!(" {body}")).unwrap_or_default();
            format!("{}: {times} × {method} {path}{body}{more}", kind.word())
        }));
        if kind == Kind::Uploads && spawned {
            plan.push(format!(
                "{}: {} × end the host and start it once more on the same files",
                kind.word(),
                total(kind, spawned).restarts
            ));
        }
    }
    plan.push(
        "where no session's shell can call, its commands print set or unset, length and equality instead: one session and two commands \
         more, and on 2.0 GET /api/session/ID/message after each"
            .to_owned(),
    );
    plan.push(format!("1.x before 1.14.48, which hands unknown paths on to the web: GET {} instead of both PUT", api::CONTRACT));
    plan.push("where a host gives its ids alone, a session is asked for once more, without one".to_owned());
    plan.push(match target {
        Target::Spawn(_) => "end the host and whatever it left running; remove the private home; look again".to_owned(),
        Target::Live(_) => {
            "remove the output files of the probe's own commands, DATA/shell/PROJECT/sh_ID.out; what a probe that was killed left in the \
             daemon, in the same way; the private directory; look again"
                .to_owned()
        }
    });
    Ok(Data { plan, ..Data::default() })
}

/// Every request of a kind of host: how often, what, and in words what else is in it.
fn requests(kind: Kind, spawned: bool, place: &Path) -> Vec<(u32, Request, String)> {
    let (dialect, asks) = (kind.dialect(), total(kind, spawned));
    let name = Name { title: "whoseenv probe MARK".to_owned(), session: "ID".to_owned() };
    let get = |path: String| ("GET", path, None);
    let delete = |path: String| ("DELETE", path, None);
    let nonce = map(&[("WHOSEENV_MARK", "NONCE")]);
    let mut all = vec![
        (asks.sessions, dialect.create(place, &name)),
        (asks.sub_sessions, ("POST", "/api/session".to_owned(), Some(json!({"parentID": "ID", "location": {"directory": place}})))),
        (asks.forks, ("POST", format!("{}/fork", dialect.session("ID")), Some(json!({})))),
        (asks.uploads, api::upload("ID", &nonce)),
        (asks.uploads_of_nothing, api::upload("ID", &json!({}))),
        (asks.uploads_of_a_number, api::upload("ID", &json!({"WHOSEENV_MARK": 1}))),
        (asks.uploads_to_nobody, api::upload(NO_SESSION, &nonce)),
        (asks.shells, dialect.shell("ID", CALLS)),
        (asks.printing, dialect.shell("ID", "echo NONCE")),
        (asks.turns, dialect.turn("ID", "whoseenv TOKEN")),
        (asks.ptys, dialect.pty(place, &name.title, &format!("{CALLS}; read -r _"))),
        // A PTY is closed as soon as its shell was read.
        (asks.ptys, dialect.close_pty(place, "ID")),
        (asks.bare, api::bare_shell(place, None, &format!("{CALLS} '{}'", name.title))),
        (asks.bare_of_session, api::bare_shell(place, Some("ID"), &format!("{CALLS} '{}'", name.title))),
        (asks.reads[0], get(dialect.session("ID"))),
        (asks.reads[1], get(dialect.messages("ID"))),
        (asks.reads[2], get("/api/session?limit=50".to_owned())),
    ];
    let made = asks.sessions + asks.sub_sessions + asks.forks;
    if !spawned {
        // What was made is looked for in lists, removed, and asked for again.
        all.extend([(1, get(dialect.sessions(place))), (1, get(dialect.ptys(place)))]);
        all.extend([
            (made, delete(dialect.session("ID"))),
            (made, get(dialect.session("ID"))),
            (asks.ptys, dialect.close_pty(place, "ID")),
            (asks.ptys, get(dialect.close_pty(place, "ID").1)),
        ]);
        if dialect == Dialect::V2 {
            let shells = asks.bare + asks.bare_of_session;
            all.extend([
                (1, get(api::bare_shells(place))),
                (made, get(format!("{}?limit=200", dialect.messages("ID")))),
                (shells, delete(api::bare_path(place, "ID"))),
                (shells, get(api::bare_path(place, "ID"))),
            ]);
        }
    }
    let mut all: Vec<_> = all.into_iter().map(|(times, request)| (times, request, String::new())).collect();
    for addition in additions("NONCE") {
        let names: Vec<_> = addition.headers.iter().map(|(name, _)| *name).collect();
        let more = if names.is_empty() { String::new() } else { format!(", with a nonce in the headers {}", names.join(", ")) };
        all.push((asks.additions, added(dialect.shell("ID", CALLS), &addition), more));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_claim_stands_in_the_table() {
        let rows: Vec<_> = ROWS.iter().flat_map(|(ids, ..)| ids.split(", ")).collect();
        for claim in crate::probe::claims::OPENCODE {
            assert!(rows.contains(&claim.id), "{}", claim.id);
        }
    }
}

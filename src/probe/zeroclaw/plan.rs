//! What a probe would ask, without asking: what each experiment takes, in numbers, beside the claim that it is for.
//!
//! The experiments are not derived from this: tests compare it with what a real daemon was asked.

use serde_json::{Value, json};

use super::Target;
use crate::probe::Data;
use crate::probe::opencode::runnable;
use crate::report::Problem;

/// What an experiment asks of a daemon, in numbers.
#[derive(Clone, Copy, Default)]
struct Asks {
    /// Connections with an environment, without one, with an empty one, and once more as the same client.
    clients: [u32; 4],
    /// New sessions, attaching to a session, naming another client, attaching with the other chat mode.
    sessions: [u32; 4],
    turns: u32,
    /// Turns that print a nonce.
    printing: u32,
    /// Further starts of the daemon.
    restarts: u32,
}

const NONE: Asks = Asks { clients: [0; 4], sessions: [0; 4], turns: 0, printing: 0, restarts: 0 };

const ROWS: [(&str, Asks); 15] = [
    ("the daemon answers", Asks { clients: [0, 1, 0, 0], ..NONE }),
    ("Z1", Asks { clients: [1, 0, 0, 0], sessions: [1, 0, 0, 0], turns: 1, ..NONE }),
    ("Z2", Asks { clients: [0, 1, 1, 0], sessions: [2, 0, 0, 0], turns: 2, ..NONE }),
    ("Z3", Asks { clients: [0, 1, 0, 0], sessions: [1, 0, 0, 0], turns: 1, ..NONE }),
    ("Z4", Asks { clients: [20, 0, 0, 0], sessions: [20, 0, 0, 0], turns: 20, ..NONE }),
    ("Z5", Z5),
    ("Z6", Asks { clients: [1, 0, 0, 1], sessions: [2, 0, 0, 0], turns: 3, ..NONE }),
    ("Z7", Asks { clients: [1, 0, 0, 1], sessions: [2, 0, 0, 0], turns: 2, ..NONE }),
    ("Z8", Asks { clients: [2, 1, 0, 0], sessions: [2, 0, 0, 0], turns: 2, restarts: 1, ..NONE }),
    ("Z9", Asks { clients: [2, 0, 0, 0], sessions: [1, 0, 1, 0], turns: 2, ..NONE }),
    ("Z10", Asks { clients: [2, 0, 0, 0], sessions: [1, 1, 0, 1], turns: 2, ..NONE }),
    ("Z11", Asks { clients: [2, 0, 0, 0], sessions: [1, 0, 0, 0], turns: 2, ..NONE }),
    ("Z12", Asks { clients: [1, 0, 0, 0], sessions: [1, 0, 0, 0], turns: 1, printing: 1, ..NONE }),
    ("Z13", Asks { clients: [2, 0, 0, 0], sessions: [2, 0, 0, 0], turns: 3, ..NONE }),
    ("Z14", Asks { clients: [0, 1, 0, 0], sessions: [1, 0, 0, 0], turns: 1, ..NONE }),
];

/// The one claim that a live daemon is asked for.
const Z5: Asks = Asks { clients: [4, 2, 0, 0], sessions: [2, 5, 0, 0], ..NONE };

/// Sessions that a live daemon makes for it.
const MADE: u32 = Z5.sessions[0];

fn total() -> Asks {
    ROWS.iter().fold(NONE, |mut sum, (_, asks)| {
        let more = asks.clients.iter().chain(&asks.sessions).chain([&asks.turns, &asks.printing, &asks.restarts]);
        let sums = sum.clients.iter_mut().chain(&mut sum.sessions).chain([&mut sum.turns, &mut sum.printing, &mut sum.restarts]);
        sums.zip(more).for_each(|(sum, more)| *sum += more);
        sum
    })
}

/// What a probe of this target would do.
///
/// # Errors
/// When there is no such program.
pub fn plan(target: &Target, default_policy: bool) -> Result<Data, Problem> {
    let mut plan = Vec::new();
    match target {
        Target::Spawn(program) => {
            runnable(program)?;
            let asks = total();
            let starts = 1 + asks.restarts;
            plan.push("make a private home below the directory for temporary files, mode 0700, with a config.toml".to_owned());
            plan.push("listen on loopback as a model, and on a private socket".to_owned());
            plan.push(format!("{starts} × run {} daemon --config-dir DIR, with a fixed environment", program.display()));
            plan.push("on its socket, and the first of each start again and again until it answers:".to_owned());
            calls(&asks, &mut plan);
            let turns = asks.turns + asks.printing;
            plan.push(format!(
                "up to {turns} × session/approve {{\"session_id\":\"ID\",\"request_id\":\"ID\",\"decision\":\"allow_once\"}}"
            ));
            let way = if default_policy { "python3 on a script in the session's directory, which runs" } else { "with" };
            plan.push(format!(
                "in {} of the turns the model calls the shell tool {way} WHOSEENV readback call SOCKET TOKEN, in {} with echo NONCE",
                asks.turns, asks.printing
            ));
            plan.push("after a claim that stays undetermined one initialize more".to_owned());
            plan.push("end the daemons and whatever they left running; remove the private home; look again".to_owned());
        }
        Target::Live(_) => {
            // One client asks for the agents, and removes what was made.
            let asks = Asks { clients: [Z5.clients[0], Z5.clients[1] + 1, 0, 0], ..Z5 };
            plan.push("on its socket:".to_owned());
            plan.push("1 × agents/list {}".to_owned());
            calls(&asks, &mut plan);
            plan.push(format!("{MADE} × session/delete {{\"session_id\":\"ID\"}}"));
            plan.push(format!("{} × session/close {{\"session_id\":\"ID\"}}: before the deletion, and to look again", 2 * MADE));
        }
    }
    Ok(Data { plan, ..Data::default() })
}

/// Every call but those that end a session.
fn calls(asks: &Asks, plan: &mut Vec<String>) {
    let initialize = |more: Value| ("initialize", with(json!({"protocol_version": 1}), more));
    let env = json!({"PATH": "/usr/bin:/bin", "WHOSEENV_MARK": "NONCE"});
    let new = |more: Value| ("session/new", with(json!({"agent_alias": "main", "cwd": "DIR", "keep_siblings": true}), more));
    let clients = [
        initialize(json!({"env": env})),
        initialize(json!({})),
        initialize(json!({"env": {}})),
        initialize(json!({"env": env, "tui_id": "ID", "tui_sig": "SIG"})),
    ];
    let sessions = [
        new(json!({})),
        new(json!({"session_id": "ID"})),
        new(json!({"tui_id": "ID"})),
        new(json!({"session_id": "ID", "chat_mode": "acp"})),
    ];
    let prompt = ("session/prompt", json!({"session_id": "ID", "prompt": "whoseenv TOKEN"}));
    let counted = asks.clients.into_iter().zip(clients).chain(asks.sessions.into_iter().zip(sessions));
    let all = counted.chain([(asks.turns + asks.printing, prompt)]).filter(|(times, _)| *times > 0);
    plan.extend(all.map(|(times, (method, parameters))| format!("{times} × {method} {parameters}")));
}

fn with(mut base: Value, more: Value) -> Value {
    for (name, value) in more.as_object().into_iter().flatten() {
        base[name] = value.clone();
    }
    base
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_claim_stands_in_the_table() {
        let claims: Vec<_> = crate::probe::claims::ZEROCLAW.iter().map(|claim| claim.id).collect();
        assert_eq!(ROWS[1..].iter().map(|(id, _)| *id).collect::<Vec<_>>(), claims);
    }
}

//! Tool children and helpers: processes that are an agent's because an agent's process started them.
//!
//! Markers in an environment prove nothing alone, since they leak into whatever is started from a tool's shell. A
//! process is a tool child when it carries an agent's markers *and* descends from a process of that agent. A daemon
//! that was itself started from inside an agent carries such markers too; it is known by its program and stays a daemon.

use std::collections::HashMap;

use super::recognise::{Look, Mark, Recogniser};
use super::{Identity, KnownBy, Mode, Role};
use crate::host::{Fact, Pid, Stat, Unknown};

/// What a process is to which agent, its parents considered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Id of the agent in the catalogue.
    pub agent: String,
    /// What it is to the agent.
    pub role: Role,
    /// How it was started.
    pub mode: Option<Mode>,
    /// The session it works for.
    pub session_id: Option<String>,
    /// The agent process that a tool child or helper descends from.
    pub parent: Option<Pid>,
    /// What made it known.
    pub known_by: KnownBy,
}

impl Recogniser<'_> {
    /// What each process is, in the order given. `looks` must hold every process of the machine, or the parent chains have holes.
    ///
    /// Only the environments of processes that descend from an agent's are read.
    pub fn relate(&self, looks: &[(Stat, Look)]) -> Vec<Option<Seen>> {
        let index: HashMap<Pid, usize> = looks.iter().enumerate().map(|(index, (stat, _))| (stat.pid, index)).collect();
        looks
            .iter()
            .map(|(stat, look)| match &look.identity {
                Ok(Some(identity)) => Some(Seen {
                    agent: identity.agent.clone(),
                    role: identity.role,
                    mode: identity.mode,
                    session_id: None,
                    parent: None,
                    known_by: identity.known_by.clone(),
                }),
                // Not even a process whose program is unknown is kept from being somebody's child.
                _ if stat.kernel_thread || stat.is_zombie() => None,
                _ => self.descendant(stat, looks, &index),
            })
            .collect()
    }

    fn descendant(&self, stat: &Stat, looks: &[(Stat, Look)], index: &HashMap<Pid, usize>) -> Option<Seen> {
        let mut marks: Option<Fact<Vec<Mark>>> = None;
        let mut next = stat.ppid;
        // A table read while processes come and go may hold a circle.
        for _ in 0..looks.len() {
            let (ancestor, look) = index.get(&next).map(|&at| &looks[at])?;
            // A process cannot be older than its parent; this one's pid was given to another since.
            if ancestor.start_ticks > stat.start_ticks {
                return None;
            }
            if let Ok(Some(identity)) = &look.identity
                && let Some(seen) = self.child(stat, ancestor, identity, &mut marks)
            {
                return Some(seen);
            }
            next = ancestor.ppid;
        }
        None
    }

    /// What `stat` is to this ancestor; nothing where the ancestor makes it nothing.
    fn child(&self, stat: &Stat, ancestor: &Stat, identity: &Identity, marks: &mut Option<Fact<Vec<Mark>>>) -> Option<Seen> {
        let entry = self.catalog().get(&identity.agent)?;
        if entry.markers.is_empty() || identity.role == Role::Other {
            return None;
        }
        let marks = marks.get_or_insert_with(|| self.marks_now(stat));
        let mark = marks.iter().flatten().find(|mark| mark.agent == identity.agent).filter(|mark| self.is_of(mark, stat, ancestor));
        let seen = |role, mode, session_id| Seen {
            agent: identity.agent.clone(),
            role,
            mode: Some(mode),
            session_id,
            parent: Some(ancestor.pid),
            known_by: KnownBy::Parents,
        };
        match mark {
            Some(mark) => Some(seen(Role::Tool, Mode::Shell, mark.session.clone())),
            // A daemon starts language servers, MCP servers and git; what a client starts is not the agent's.
            None if identity.role == Role::Daemon && entry.helpers => Some(seen(Role::Other, Mode::Helper, None)),
            None => None,
        }
    }

    /// Whether the marker was laid on by this ancestor, and did not come with the ancestor's own environment.
    fn is_of(&self, mark: &Mark, stat: &Stat, ancestor: &Stat) -> bool {
        // Tools run in a session of their own (setsid); helpers stay in the daemon's. OpenCode 1.x sets its markers in
        // its own environment, so that an MCP server or a language server of it carries them all.
        let own_session = stat.session != ancestor.session;
        if let Some(daemon) = mark.daemon {
            return daemon == ancestor.pid && own_session;
        }
        let leaked = || self.marks_now(ancestor).is_ok_and(|marks| marks.contains(mark));
        own_session || !leaked()
    }

    fn marks_now(&self, stat: &Stat) -> Fact<Vec<Mark>> {
        let process = self.host().process(stat.pid);
        if process.stat()?.start_ticks != stat.start_ticks {
            return Err(Unknown::Gone);
        }
        self.marks_of(&process)
    }
}

//! What narrows a name that fits several processes, and whether the names in it mean anything.

use crate::agent::Catalog;
use crate::env::reference::Reference;
use crate::host::{Host, Pid, Stat};
use crate::report::{Exit, Problem};

use super::Subject;

/// What narrows a name that fits several processes.
#[derive(Clone, Debug, Default)]
pub struct Narrow {
    /// Login name or uid.
    pub user: Option<String>,
    /// Process id.
    pub pid: Option<Pid>,
    /// Agent name.
    pub agent: Option<String>,
}

impl Narrow {
    /// Whether a process passes.
    pub fn admits(&self, host: &Host, stat: &Stat, agent: &str) -> bool {
        self.admits_user(host, stat.euid)
            && self.pid.is_none_or(|pid| pid == stat.pid)
            && self.agent.as_ref().is_none_or(|name| name == agent)
    }

    /// Whether a file of an agent's passes that belongs to no process.
    pub fn admits_file(&self, host: &Host, uid: u32, agent: &str) -> bool {
        self.admits_user(host, uid) && self.pid.is_none() && self.agent.as_ref().is_none_or(|name| name == agent)
    }

    fn admits_user(&self, host: &Host, uid: u32) -> bool {
        self.user.as_ref().is_none_or(|user| user.parse() == Ok(uid) || host.user_name(uid).as_deref() == Some(user))
    }

    /// What is meant where no environment was named: this terminal, or what the narrowing leads to. Nothing that was said
    /// is passed over.
    ///
    /// # Errors
    /// A user alone names no environment (2).
    pub fn target(&self, named: Option<Reference>) -> Result<Reference, Problem> {
        match (named, self) {
            (Some(named), _) => Ok(named),
            (None, Narrow { pid: Some(pid), .. }) => Ok(Reference::Pid(*pid)),
            (None, Narrow { agent: Some(agent), .. }) => Ok(Reference::Agent(agent.clone())),
            (None, Narrow { user: Some(user), .. }) => Err(Problem::new(Exit::Usage, "--user narrows a name, and none was given")
                .hint(format!("Name an agent, such as: opencode --user {user}. See what runs: whoseenv ps --user {user}"))),
            (None, _) => Ok(Reference::Terminal),
        }
    }

    /// Whether what it names exists: a typing error must not pass for "nothing runs".
    ///
    /// # Errors
    /// No agent of this name is known (2); there is no such account or process (3), or it may not be seen (4).
    pub fn check(&self, host: &Host) -> Result<(), Problem> {
        if let Some(name) = self.agent.as_ref().filter(|name| Catalog::in_force().get(name).is_none()) {
            return Err(unknown_agent(name, format!("no agent {name:?} is known")));
        }
        if let Some(user) = self.user.as_ref().filter(|user| !is_account(host, user)) {
            if let Some(lost) = host.lost_users() {
                return Err(Problem::new(
                    Exit::Undetermined,
                    format!("whether there is an account {user:?} in this snapshot is not known: {lost}"),
                )
                .hint("Give its uid, or take the snapshot again."));
            }
            let place = if host.is_captured() { "in this snapshot" } else { "on this machine" };
            return Err(Problem::new(Exit::NotFound, format!("there is no account {user:?} {place}"))
                .hint("Give a login name or a uid. An account of a directory service may be known by its uid alone."));
        }
        self.pid.map_or(Ok(()), |pid| super::stat_of(host, pid).map(drop))
    }

    /// Whether nothing was said.
    pub fn is_empty(&self) -> bool {
        self.user.is_none() && self.pid.is_none() && self.agent.is_none()
    }

    /// Refuses what narrows nothing. An agent's name is narrowed when it is looked up; a process that was named itself has to be
    /// what else was said of it, and what is no process cannot be.
    ///
    /// # Errors
    /// The process is another one than was said (3), or there is nothing to narrow (2).
    pub fn fits(&self, host: &Host, subjects: &[&Subject]) -> Result<(), Problem> {
        if self.is_empty() || subjects.iter().any(|subject| matches!(subject.reference, Reference::Agent(_))) {
            return Ok(());
        }
        let named: Vec<(&Stat, &Subject)> = subjects
            .iter()
            .filter(|subject| matches!(subject.reference, Reference::Pid(_) | Reference::Snapshot { .. }))
            .filter_map(|subject| Some((subject.stat.as_ref()?, *subject)))
            .collect();
        match (named.is_empty(), subjects.first()) {
            (true, Some(first)) => Err(self.narrows_nothing(&first.label)),
            _ => named.into_iter().try_for_each(|(stat, subject)| {
                let agent = subject.agent.as_ref().map(|agent| agent.agent.as_str());
                self.is_of(subject.elsewhere.as_deref().unwrap_or(host), stat, agent)
            }),
        }
    }

    /// Whether a process that was named itself is what else was said of it.
    ///
    /// # Errors
    /// It is another one (3).
    pub fn is_of(&self, host: &Host, stat: &Stat, agent: Option<&str>) -> Result<(), Problem> {
        let not = |what: String| Err(Problem::new(Exit::NotFound, format!("process {} {what}", stat.pid)).hint("Name one, or the other."));
        match self {
            Narrow { pid: Some(pid), .. } if *pid != stat.pid => not(format!("is not the one that --pid names, {pid}")),
            Narrow { user: Some(user), .. } if !self.admits_user(host, stat.euid) => {
                let owner = host.user_name(stat.euid).unwrap_or_else(|| format!("uid {}", stat.euid));
                not(format!("is of the account {owner}, not of {user}"))
            }
            Narrow { agent: Some(name), .. } if agent != Some(name) => match agent {
                Some(other) => not(format!("is of {other}, not of {name}")),
                None => not(format!("({}) is none of {name}", stat.comm.lossy())),
            },
            _ => Ok(()),
        }
    }

    /// What narrows stands beside something that is one already.
    pub fn narrows_nothing(&self, what: &str) -> Problem {
        let options = [("--user", self.user.is_some()), ("--pid", self.pid.is_some()), ("--agent", self.agent.is_some())];
        let options: Vec<&str> = options.into_iter().filter_map(|(option, said)| said.then_some(option)).collect();
        let verb = if options.len() == 1 { "narrows" } else { "narrow" };
        Problem::new(Exit::Usage, format!("{} {verb} the name of an agent, and {what} is none", options.join(" and ")))
            .hint("Name an agent, or leave it out.")
    }

    /// As a sentence names the processes that pass: ` of aider`, ` of the account alice`; empty where everything does.
    pub fn words(&self) -> String {
        let agent = self.agent.as_ref().map(|agent| format!(" of {agent}"));
        let user = self.user.as_ref().map(|user| format!(" of the account {user}"));
        let pid = self.pid.map(|pid| format!(" with the pid {pid}"));
        [agent, user, pid].into_iter().flatten().collect()
    }
}

/// A uid counts also without a name, where something runs as it.
fn is_account(host: &Host, user: &str) -> bool {
    match user.parse::<u32>() {
        Ok(uid) => host.user_name(uid).is_some() || host.table().is_ok_and(|table| table.values().any(|stat| stat.euid == uid)),
        Err(_) => host.users().iter().any(|(_, name)| name == user),
    }
}

/// Names that are typed alike first, then all that are known.
pub(super) fn unknown_agent(name: &str, message: String) -> Problem {
    let known: Vec<&str> = Catalog::in_force().agents().iter().map(|agent| agent.id.as_str()).collect();
    let wanted = name.to_ascii_lowercase();
    let mut near: Vec<(usize, &str)> = known.iter().map(|id| (distance(&wanted, id), *id)).collect();
    near.retain(|(steps, id)| *steps <= 2 || (wanted.len() > 2 && (id.starts_with(&wanted) || wanted.starts_with(id))));
    near.sort_unstable();
    let problem = Problem::new(Exit::Usage, message);
    let near: Vec<&str> = near.into_iter().map(|(_, id)| id).take(3).collect();
    let problem = if near.is_empty() { problem } else { problem.hint(format!("Did you mean {}?", near.join(" or "))) };
    problem.hint(format!("Agents: {}", known.join(", ")))
}

/// How many letters must be put in, taken out or replaced to make the one of the other (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (at, from) in a.chars().take(64).enumerate() {
        let mut corner = row[0];
        row[0] = at + 1;
        for (column, to) in b.iter().enumerate() {
            let replaced = corner + usize::from(from != *to);
            corner = row[column + 1];
            row[column + 1] = replaced.min(corner + 1).min(row[column] + 1);
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_typed_alike_is_offered_first() {
        for (typed, meant) in [("opencod", "opencode"), ("zeroclaws", "zeroclaw"), ("claude", "claude-code"), ("Aider", "aider")] {
            let problem = unknown_agent(typed, String::new());
            assert!(problem.hints[0].starts_with("Did you mean ") && problem.hints[0].contains(meant), "{typed}: {:?}", problem.hints);
        }
        let far = unknown_agent("frobnicate", String::new());
        assert!(far.hints[0].starts_with("Agents: ") && far.hints[0].contains("opencode"), "{:?}", far.hints);
    }

    #[test]
    fn the_distance_is_levenshteins() {
        assert_eq!((distance("kitten", "sitting"), distance("", "abc"), distance("abc", ""), distance("a", "a")), (3, 3, 3, 0));
    }
}

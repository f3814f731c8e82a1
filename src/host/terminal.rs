//! `self`: the terminal that the tool was started from.
//!
//! It is the nearest ancestor on the controlling tty (without a tty: the parent; where that cannot be seen either, the tool itself).
//! It and its environment are of one account: what the tool was given belongs to the account that the tool runs as, so where an
//! ancestor of another account is all there is (`su` from root's shell, cron, a unit), the tool itself is taken.
//! Programs that change the user (sudo, doas, pkexec, su, runuser) are passed over, with what else they started for this one
//! job, so `sudo whoseenv` still speaks of the person's terminal. Which environment is taken:
//!
//! | above the tool | environment of `self` |
//! |---|---|
//! | no change of user, or setpriv, which leaves no process behind | what the tool itself was started with: what that shell exports now, `export` since its start included, which its own block would not show |
//! | a change of user, and the terminal's block may be read (root, or the same account) | the terminal's own block, since such a program makes ours anew |
//! | a change of user, and it may not be read (`su - other -c`, `runuser -u other`) | what the tool was given, as the tool itself: nothing else is known, and it is what the other account has to work with |
//!
//! A shell with job control inside (`sudo -i`) gives each job a process group of its own, and is a terminal of its own; a script
//! that sudo or su started is one job with the tool, and is not.

use serde::{Deserialize, Serialize};

use super::Host;
use super::environ::Environ;
use super::fact::{Fact, Raw, Unknown};
use super::files;
use super::process::{Pid, Stat};
use super::snapshot::Mask;

/// The terminal that the tool was started from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terminal {
    /// The process taken for it.
    pub stat: Stat,
    /// The tool's own pid, which is gone when the answer is read.
    pub tool: Pid,
    /// Its environment.
    pub environ: Fact<Environ>,
    /// The environment is the tool's own; else the block that the process was started with.
    pub exported: bool,
    /// The program between the terminal and the tool that changed the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub through: Option<Raw>,
}

const USER_CHANGERS: [&[u8]; 7] = [b"sudo", b"sudo-rs", b"doas", b"pkexec", b"su", b"runuser", b"setpriv"];

impl Terminal {
    pub(super) fn find(host: &Host) -> Fact<Terminal> {
        let root = host.live_root().ok_or(Unknown::NotCaptured)?;
        let own = files::link(&root.join("proc/self"))?;
        let tool: Pid = std::str::from_utf8(&own).ok().and_then(|pid| pid.parse().ok()).ok_or(Unknown::NotCaptured)?;
        let chain = host.chain(tool);
        let (stat, through) = choose(&chain).ok_or(Unknown::Absent)?;
        let own = host.process(tool).environ();
        let through = through.cloned().or_else(|| became(stat, chain.first()?, own.as_ref().ok()?));
        let block = through.as_ref().map(|_| host.process(stat.pid).environ());
        let (exported, environ) = match block {
            Some(block) if block != Err(Unknown::NotPermitted) => (false, block),
            _ => (true, own),
        };
        let stat = if exported { of_one_account(stat, chain.first().ok_or(Unknown::Absent)?) } else { stat };
        Ok(Terminal { stat: stat.clone(), tool, environ, exported, through })
    }

    pub(super) fn masked(&self, mask: &dyn Mask) -> Terminal {
        Terminal { environ: self.environ.as_ref().map(|environ| mask.environ(environ)).map_err(Clone::clone), ..self.clone() }
    }

    /// In words: which process, on which tty, and what its environment is.
    pub fn described(&self) -> String {
        let comm = self.stat.comm.lossy();
        let tty = self.stat.tty().map_or_else(|| "no tty".to_owned(), |tty| format!("on {tty}"));
        let which = match &self.through {
            Some(program) if self.stat.pid == self.tool => {
                format!("the tool itself: no terminal of this account is above it; what it was given through {}", program.lossy())
            }
            None if self.stat.pid == self.tool => "the tool itself: no terminal of this account is above it; what it was given".to_owned(),
            None => "what it exports now".to_owned(),
            Some(program) if self.exported => {
                format!("whose own environment may not be read; what the tool was given through {}", program.lossy())
            }
            Some(program) => format!("as it was started; {} gave the tool another", program.lossy()),
        };
        format!("{comm} (pid {}, {tty}), {which}", self.stat.pid)
    }
}

/// The changer of users that has become the tool itself, and left its mark in the environment: pkexec always does, sudo where it
/// has nothing to do afterwards.
fn became(terminal: &Stat, tool: &Stat, environ: &Environ) -> Option<Raw> {
    let caller = |name: &str| environ.filled(name).and_then(|uid| uid.parse::<u32>().ok());
    let called = |(name, program): &(&str, &'static str)| (caller(name)? == terminal.euid).then_some(*program);
    let marks = [("SUDO_UID", "sudo"), ("PKEXEC_UID", "pkexec")];
    (terminal.euid != tool.euid).then(|| marks.iter().find_map(called)).flatten().map(Raw::from)
}

/// The ancestor, or the tool where that runs as another account: what the tool was given is then not the ancestor's.
fn of_one_account<'s>(ancestor: &'s Stat, tool: &'s Stat) -> &'s Stat {
    if ancestor.euid == tool.euid { ancestor } else { tool }
}

/// The process taken for the terminal, out of the tool and its ancestors, and the changer of users passed over on the way.
fn choose(chain: &[Stat]) -> Option<(&Stat, Option<&Raw>)> {
    let (tool, ancestors) = chain.split_first()?;
    let changes = |stat: &Stat| USER_CHANGERS.contains(&stat.comm.as_bytes());
    // `sudo -i` in one terminal and the tool started from the shell inside it: that shell is the terminal.
    let of_this_job = |stat: &&Stat| changes(stat) || stat.pgrp == tool.pgrp;
    let job = ancestors.iter().take_while(of_this_job).count();
    let first = ancestors[..job].iter().position(changes);
    // What stands above it belongs to the terminal, up to the next change (`sudo su`).
    let through = first.map(|first| first + ancestors[first..].iter().take_while(|stat| changes(stat)).count() - 1);
    let candidates = &ancestors[through.map_or(0, |at| at + 1)..];
    let on_tty = |stat: &&Stat| stat.tty_nr != 0 && (through.is_some() || stat.tty_nr == tool.tty_nr);
    // Pid 1 of a container, or a parent that /proc hides: then the tool itself, which carries what it was given.
    let stat = candidates.iter().find(on_tty).or_else(|| candidates.first()).unwrap_or(tool);
    Some((stat, through.map(|at| &ancestors[at].comm)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: Pid, comm: &str, euid: u32, tty_nr: u32) -> Stat {
        Stat { pid, comm: comm.into(), state: 'S', ppid: 0, pgrp: pid, session: pid, tty_nr, kernel_thread: false, start_ticks: 1, euid }
    }

    fn chosen(chain: &[Stat]) -> (Pid, Option<String>) {
        let (stat, through) = choose(chain).unwrap();
        (stat.pid, through.map(|raw| raw.lossy().into_owned()))
    }

    #[test]
    fn the_shell_on_the_tty_is_the_terminal() {
        let chain = [process(9, "whoseenv", 7, 34816), process(8, "bash", 7, 34816), process(7, "sshd", 7, 0)];
        assert_eq!(chosen(&chain), (8, None));
    }

    #[test]
    fn sudo_keeps_the_terminal_even_on_a_pty_of_its_own() {
        let chain = [
            process(9, "whoseenv", 0, 34818),
            process(8, "sudo", 0, 34818),
            process(7, "sudo", 0, 34816),
            process(6, "bash", 7, 34816),
            process(5, "sshd", 7, 0),
        ];
        assert_eq!(chosen(&chain), (6, Some("sudo".to_owned())));
    }

    #[test]
    fn a_root_shell_inside_sudo_is_a_terminal_of_its_own() {
        let chain =
            [process(9, "whoseenv", 0, 34818), process(8, "bash", 0, 34818), process(7, "sudo", 0, 34816), process(6, "bash", 7, 34816)];
        assert_eq!(chosen(&chain), (8, None));
    }

    #[test]
    fn a_script_below_sudo_or_su_is_no_terminal() {
        let script = |pid, comm, euid, tty_nr| Stat { pgrp: 9, ..process(pid, comm, euid, tty_nr) };
        let chain = [
            script(9, "whoseenv", 0, 34818),
            script(8, "sh", 0, 34818),
            process(7, "sudo", 0, 34818),
            process(6, "sudo", 0, 34816),
            process(5, "bash", 7, 34816),
        ];
        assert_eq!(chosen(&chain), (5, Some("sudo".to_owned())));
    }

    #[test]
    fn su_and_runuser_keep_the_terminal_and_are_none_themselves() {
        for changer in ["su", "runuser", "doas"] {
            let chain = [process(9, "whoseenv", 8, 34816), process(8, changer, 0, 34816), process(7, "bash", 7, 34816)];
            assert_eq!(chosen(&chain), (7, Some(changer.to_owned())));
            let daemon = [process(9, "whoseenv", 8, 0), process(8, changer, 0, 0), process(7, "cron", 0, 0)];
            assert_eq!(chosen(&daemon), (7, Some(changer.to_owned())), "without a tty the one who started it");
        }
        let both = [process(9, "whoseenv", 0, 1), process(8, "su", 0, 1), process(7, "sudo", 0, 1), process(6, "bash", 7, 1)];
        assert_eq!(chosen(&both), (6, Some("sudo".to_owned())));
        let replaced = [process(9, "whoseenv", 8, 34816), process(7, "bash", 0, 34816)];
        assert_eq!(chosen(&replaced), (7, None), "setpriv has become the tool");
    }

    #[test]
    fn a_sudo_that_became_the_tool_left_its_mark() {
        let (shell, tool) = (process(8, "bash", 7, 1), process(9, "whoseenv", 0, 1));
        let marked = |text: &[u8]| became(&shell, &tool, &Environ::parse(text)).map(|raw| raw.lossy().into_owned());
        assert_eq!(marked(b"SUDO_UID=7").as_deref(), Some("sudo"));
        assert_eq!(marked(b"PKEXEC_UID=7").as_deref(), Some("pkexec"));
        assert_eq!(marked(b"SUDO_UID=8"), None, "another shell's sudo, long ago");
        assert_eq!(marked(b"A=1"), None, "setpriv hands the environment on as it is");
        let inside = process(9, "whoseenv", 7, 1);
        assert_eq!(became(&shell, &inside, &Environ::parse(b"SUDO_UID=7")), None);
    }

    #[test]
    fn what_the_tool_was_given_is_not_an_ancestors_of_another_account() {
        let tool = process(9, "whoseenv", 1003, 0);
        let taken = |ancestor: &Stat| of_one_account(ancestor, &tool).pid;
        assert_eq!(taken(&process(7, "bash", 0, 34816)), 9, "su from root's shell");
        assert_eq!(taken(&process(1, "systemd", 0, 0)), 9, "a unit, or an orphan");
        assert_eq!(taken(&process(8, "sh", 1003, 0)), 8, "cron starts a shell of the account");
    }

    #[test]
    fn without_a_tty_it_is_the_parent() {
        let chain = [process(9, "whoseenv", 7, 0), process(8, "runner", 7, 0), process(7, "bash", 7, 34816)];
        assert_eq!(chosen(&chain), (8, None));
        assert_eq!(chosen(&chain[..1]), (9, None), "nobody above it is to be seen");
    }
}

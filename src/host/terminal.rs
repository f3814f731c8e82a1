//! `self`: the terminal that the tool was started from.
//!
//! It is the nearest ancestor on the controlling tty (without a tty: the parent; where that cannot be seen either, the tool itself). Programs that change
//! the user (sudo, doas, pkexec) are passed over, so `sudo whoseenv` still speaks of the person's
//! terminal, and with its environment, since sudo has made ours anew. Without such a program in
//! between, the environment is the one the tool itself was started with: what that shell exports now,
//! `export` since its start included, which its own block would not show.

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
    /// The environment is what the process exports to the tool; else the block it was started with.
    pub exported: bool,
    /// The program between the terminal and the tool that changed the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub through: Option<Raw>,
}

const USER_CHANGERS: [&[u8]; 3] = [b"sudo", b"doas", b"pkexec"];

impl Terminal {
    pub(super) fn find(host: &Host) -> Fact<Terminal> {
        let root = host.live_root().ok_or(Unknown::NotCaptured)?;
        let own = files::link(&root.join("proc/self"))?;
        let tool: Pid = std::str::from_utf8(&own).ok().and_then(|pid| pid.parse().ok()).ok_or(Unknown::NotCaptured)?;
        let chain = host.chain(tool);
        let (stat, through) = choose(&chain).ok_or(Unknown::Absent)?;
        let exported = through.is_none();
        let environ = host.process(if exported { tool } else { stat.pid }).environ();
        Ok(Terminal { stat: stat.clone(), tool, environ, exported, through: through.cloned() })
    }

    pub(super) fn masked(&self, mask: &dyn Mask) -> Terminal {
        Terminal { environ: self.environ.as_ref().map(|environ| mask.environ(environ)).map_err(Clone::clone), ..self.clone() }
    }

    /// In words: which process, on which tty, and what its environment is.
    pub fn described(&self) -> String {
        let comm = self.stat.comm.lossy();
        let tty = self.stat.tty().map_or_else(|| "no tty".to_owned(), |tty| format!("on {tty}"));
        let which = match &self.through {
            None => "what it exports now".to_owned(),
            Some(program) => format!("as it was started; {} gave the tool another", program.lossy()),
        };
        format!("{comm} (pid {}, {tty}), {which}", self.stat.pid)
    }
}

/// The process taken for the terminal, out of the tool and its ancestors, and the changer of users passed over on the way.
fn choose(chain: &[Stat]) -> Option<(&Stat, Option<&Raw>)> {
    let (tool, ancestors) = chain.split_first()?;
    let changer = ancestors.iter().rposition(|stat| USER_CHANGERS.contains(&stat.comm.as_bytes()));
    // `sudo -i` in one terminal and the tool started from the shell inside it: that shell is the terminal.
    let through = changer.filter(|&at| ancestors[..at].iter().all(|stat| USER_CHANGERS.contains(&stat.comm.as_bytes())));
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
    fn without_a_tty_it_is_the_parent() {
        let chain = [process(9, "whoseenv", 7, 0), process(8, "runner", 7, 0), process(7, "bash", 7, 34816)];
        assert_eq!(chosen(&chain), (8, None));
        assert_eq!(chosen(&chain[..1]), (9, None), "nobody above it is to be seen");
    }
}

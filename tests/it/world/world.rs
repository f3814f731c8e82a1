//! A machine with people on it, and the story that the tool is for.

use super::accounts::{self, Account};
use super::daemons::{Opencode, Start, keep_at_home};
use super::display::Display;
use super::look;
use super::need::Needed;
use super::peers;
use super::sshd::{Answer, Login, Session, Sshd, Terminal, X11};
use serde_json::Value;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The first display that sshd gives out: 10, as on any machine, or `$WHOSEENV_TEST_FIRST_DISPLAY`; where somebody
/// has one of the ten from there on, ten later.
fn first_display() -> u16 {
    let wanted = std::env::var("WHOSEENV_TEST_FIRST_DISPLAY").ok().and_then(|n| n.parse().ok()).unwrap_or(10);
    let taken: Vec<u16> = look::tcp_rows().iter().filter(|r| r.state == look::LISTEN).map(|r| r.local.port()).collect();
    let free = |first: &u16| !taken.iter().any(|port| (6000 + first..6010 + first).contains(port));
    (wanted..).step_by(10).find(free).expect("a port")
}

/// One machine, one user's screen, one sshd, two accounts. Only one world exists on a machine at a time: display
/// numbers, the accounts and the service's port are the whole machine's.
///
/// Fields end in the order written here; the lock goes last.
#[derive(Debug)]
pub struct World {
    pub sshd: Sshd,
    pub screen: Display,
    /// `whoseenv`, where every account can run it.
    pub whoseenv: PathBuf,
    /// sshd gives out this display first, then the next.
    pub first_display: u16,
    pub user: Account,
    pub stranger: Account,
    homes: Homes,
    dir: tempfile::TempDir,
    lock: File,
}

/// Leaves nothing of the accounts' behind.
#[derive(Debug)]
struct Homes(Vec<Account>);

impl Drop for Homes {
    fn drop(&mut self) {
        self.0.iter().for_each(Account::reset);
    }
}

/// How the directory of a world is called.
const PREFIX: &str = "whoseenv-world-";

/// A killed run leaves its directory; whoever holds the lock may take it away.
fn remove_what_was_left() {
    use std::os::unix::fs::MetadataExt;
    for entry in fs::read_dir("/tmp").expect("/tmp is there").flatten() {
        let ours = entry.path().symlink_metadata().is_ok_and(|m| m.is_dir() && m.uid() == 0);
        if ours && entry.file_name().to_string_lossy().starts_with(PREFIX) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Waits until no world exists on this machine, in this process or another, and lets none begin while it is held.
pub fn alone() -> File {
    peers::lock(&peers::public_dir().join(".world"))
}

impl World {
    pub fn new() -> Needed<World> {
        accounts::possible()?;
        let lock = alone();
        let (user, stranger) = (accounts::ordinary()?, accounts::stranger()?);
        let homes = Homes(vec![user.clone(), stranger.clone()]);
        homes.0.iter().for_each(Account::reset);
        homes.0.iter().for_each(keep_at_home);
        remove_what_was_left();
        let dir = tempfile::Builder::new().prefix(PREFIX).tempdir_in("/tmp").expect("a directory in /tmp");
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("its mode can be set");
        let whoseenv = peers::whoseenv_into(dir.path());
        let screen = Display::start(dir.path())?;
        let first_display = first_display();
        let sshd = Sshd::start(&dir.path().join("sshd"), first_display, &[&user, &stranger])?;
        Ok(World { sshd, screen, whoseenv, first_display, user, stranger, homes, dir, lock })
    }

    /// What the `n`th login's DISPLAY is, from 0: `localhost:10.0`, where nobody else on the machine has it.
    pub fn display(&self, n: u16) -> String {
        format!("localhost:{}.0", self.first_display + n)
    }

    /// The TCP port behind it.
    pub fn port(&self, n: u16) -> u16 {
        6000 + self.first_display + n
    }

    /// A world-readable directory that goes with the world.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub fn login(&self, wanted: Login) -> Needed<Session> {
        let mut session = self.sshd.login(&wanted, &self.screen)?;
        session.whoseenv = Some(self.whoseenv.clone());
        Ok(session)
    }

    /// The user, from 127.0.0.`last`, with `ssh -Y` and no terminal.
    pub fn user_from(&self, last: u8) -> Needed<Session> {
        self.login(Login::from(last, &self.user).x11(X11::Trusted))
    }

    /// `sudo whoseenv` in a login.
    pub fn ask_as_root(&self, login: &mut Session, arguments: &[&str]) -> Needed<(Value, i32)> {
        Ok(self.as_root(login, &self.whoseenv, arguments)?.json())
    }

    /// A program run from a login as root, with the login's environment and what sudo adds to it: a child of the
    /// login's shell, on its terminal.
    pub fn as_root(&self, login: &mut Session, program: &Path, arguments: &[&str]) -> Needed<Answer> {
        let sudo = Sudo::new(self)?;
        let account = &login.account;
        let added = [format!("SUDO_UID={}", account.uid), format!("SUDO_GID={}", account.gid), format!("SUDO_USER={}", account.name)];
        let mut all = vec!["--reuid=0", "--regid=0", "--clear-groups", "/usr/bin/env"];
        all.extend(added.iter().map(String::as_str));
        all.push(program.to_str().expect("a readable path"));
        all.extend(arguments);
        Ok(login.program(&sudo.program, &all))
    }
}

/// What stands in for sudo, whose rules live in /etc: a set-uid copy of setpriv that only the user's group may run,
/// and that is gone after one question.
#[derive(Debug)]
struct Sudo {
    program: PathBuf,
}

impl Sudo {
    fn new(world: &World) -> Needed<Sudo> {
        let program = world.dir().join("sudo");
        fs::copy(super::need::tool("setpriv", "util-linux")?, &program).expect("a program can be copied");
        std::os::unix::fs::chown(&program, Some(0), Some(world.user.gid)).expect("root can give a file away");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o4750)).expect("its mode can be set");
        let sudo = Sudo { program };
        let flags = rustix::fs::statvfs(world.dir()).expect("/tmp is mounted").f_flag;
        if flags.contains(rustix::fs::StatVfsMountFlags::NOSUID) {
            return super::need::Missing::new("/tmp is mounted nosuid: nobody can ask as root from a login");
        }
        Ok(sudo)
    }
}

impl Drop for Sudo {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.program);
    }
}

/// The story: a daemon that login A started, and what becomes of A's display.
///
/// | after | A (127.0.0.2) | B (127.0.0.3) | C (127.0.0.5) |
/// |---|---|---|---|
/// | `new` | `localhost:10.0`, starts the service | `localhost:11.0` | – |
/// | `a_disconnects` | gone; 6010 refuses | `localhost:11.0` | – |
/// | `c_logs_in` | gone | `localhost:11.0` | `localhost:10.0` again |
#[derive(Debug)]
pub struct Story {
    pub service: Opencode,
    pub a: Option<Session>,
    pub b: Session,
    pub c: Option<Session>,
    /// `DISPLAY` and `SSH_CONNECTION` that the daemon was born with.
    pub birth_display: String,
    pub birth_connection: String,
    pub world: World,
}

impl Story {
    /// State 1: the preview's service runs with A's environment; A and B are connected.
    pub fn new() -> Needed<Story> {
        Story::with_terminals(Terminal::None)
    }

    /// State 1, with this terminal for A and B (and C).
    pub fn with_terminals(terminal: Terminal) -> Needed<Story> {
        peers::opencode_preview()?;
        let world = World::new()?;
        let login = |last| world.login(Login::from(last, &world.user).x11(X11::Trusted).terminal(terminal));
        let mut a = login(2)?;
        let b = login(3)?;
        let service = Opencode::service(Start::In(&mut a))?;
        let (birth_display, birth_connection) = (a.display().to_owned(), a.connection().to_owned());
        Ok(Story { service, a: Some(a), b, c: None, birth_display, birth_connection, world })
    }

    /// State 2: A is gone, for the server too.
    pub fn a_disconnects(&mut self) {
        self.a.take().expect("A is connected").disconnect();
    }

    /// State 3: C logs in and is given the display that was A's.
    pub fn c_logs_in(&mut self) -> Needed<()> {
        let c = self.world.user_from(5)?;
        assert_eq!(c.display(), self.birth_display, "sshd gives out the first free display");
        self.c = Some(c);
        Ok(())
    }

    /// State 4: another account logs in, from 127.0.0.4.
    pub fn stranger(&self) -> Needed<Session> {
        self.world.login(Login::from(4, &self.world.stranger).x11(X11::Trusted))
    }
}

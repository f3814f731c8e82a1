//! A headless Wayland compositor in an account's private runtime directory.

use super::accounts::Account;
use super::guard::Proc;
use super::look;
use super::need::{Needed, tool};
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub struct Wayland {
    server: Proc,
    /// What `WAYLAND_DISPLAY` is: `wayland-1`.
    pub name: String,
    /// What `XDG_RUNTIME_DIR` is.
    pub runtime_dir: PathBuf,
}

impl Wayland {
    /// Starts weston as `account`; `runtime_dir` is made private to it.
    pub fn start(account: &Account, runtime_dir: &Path, name: &str) -> Needed<Wayland> {
        let weston = tool("weston", "weston")?;
        let runtime_dir = account.private_dir(runtime_dir);
        let log = std::fs::File::create(runtime_dir.join("weston.log")).expect("a log can be made");
        let server = Proc::spawn(
            "weston",
            account
                .tied(weston)?
                .args(["--backend=headless-backend.so", "--idle-time=0", "--no-config"])
                .arg(format!("--socket={name}"))
                .env("XDG_RUNTIME_DIR", &runtime_dir)
                .stdout(log.try_clone().expect("a second handle"))
                .stderr(log),
        );
        let mut wayland = Wayland { server, name: name.to_owned(), runtime_dir };
        look::wait_until("the compositor's socket", || {
            let ended = wayland.server.ended();
            assert!(
                ended.is_none(),
                "weston ended: {}",
                std::fs::read_to_string(wayland.runtime_dir.join("weston.log")).unwrap_or_default()
            );
            look::unix_socket_listens(&wayland.socket())
        });
        Ok(wayland)
    }

    /// The full path that `name` stands for.
    pub fn socket(&self) -> PathBuf {
        self.runtime_dir.join(&self.name)
    }

    pub fn pid(&self) -> u32 {
        self.server.pid()
    }

    /// Ends the compositor as a logout does: its socket goes.
    pub fn stop(mut self) {
        self.server.stop();
    }

    /// Ends it as a crash does: its socket file stays, and nothing listens.
    pub fn crash(mut self) {
        self.server.kill();
        // A child that it was just starting may hold the socket a moment longer.
        look::wait_until("the socket to be nobody's", || !look::unix_socket_listens(&self.socket()));
    }
}

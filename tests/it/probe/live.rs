//! `--live`: a daemon that runs is probed in sessions of the probe's own, and left as it was.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Room, ids, outcomes, with_outcome};
use crate::run::ran;
use crate::world::guard::{Other, Proc, tied};
use crate::world::http::Endpoint;
use crate::world::look::{Process, free_port, unix_socket_listens, wait_for, wait_until};
use crate::world::peers;
use crate::world::stub_model::StubModel;

/// The preview's background service, with a home of its own.
pub struct Service {
    pub home: tempfile::TempDir,
    program: PathBuf,
    pub daemon: Other,
    pub registration: PathBuf,
    pub endpoint: Endpoint,
    password: String,
}

impl Service {
    pub fn start() -> crate::world::Needed<Service> {
        let program = peers::opencode_preview()?;
        let home = tempfile::tempdir().unwrap();
        let config = home.path().join(".config/opencode");
        std::fs::create_dir_all(&config).unwrap();
        std::fs::create_dir(home.path().join("tmp")).unwrap();
        std::fs::write(config.join("service.json"), json!({"port": free_port()}).to_string()).unwrap();
        let started = Service::command(&program, home.path()).args(["service", "start"]).output().unwrap();
        assert!(started.status.success(), "{started:?}");
        let registration = home.path().join(".local/state/opencode/service.json");
        let (told, daemon) = wait_for("the registration", || {
            let told: Value = serde_json::from_slice(&std::fs::read(&registration).ok()?).ok()?;
            let daemon = Other::new(u32::try_from(told["pid"].as_u64()?).ok()?)?;
            Some((told, daemon))
        });
        let password = told["password"].as_str().unwrap().to_owned();
        let endpoint = Endpoint::new(told["url"].as_str().unwrap(), Some(("opencode", &password)));
        wait_for("its health", || endpoint.request("GET", "/api/health", None).ok().filter(|(status, _)| *status == 200));
        Ok(Service { home, program, daemon, registration, endpoint, password })
    }

    fn command(program: &Path, home: &Path) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("HOME", home).env("PATH", "/usr/bin:/bin").env("TERM", "vt220").env("DISPLAY", ":77");
        command.env("TMPDIR", home.join("tmp")).current_dir(home);
        command
    }

    pub fn probe(&self, room: &Room, more: &[&str]) -> crate::run::Ran {
        let url = self.endpoint.url();
        ran(&mut room.command(&[&["probe", "opencode", "--json", "--live", &url], more].concat()))
    }

    pub fn sessions(&self) -> usize {
        let listed = self.endpoint.json("GET", "/api/session?limit=500", None);
        listed["data"].as_array().unwrap().len()
    }

    pub fn outputs(&self) -> usize {
        self.output_files().len()
    }

    pub fn output_files(&self) -> Vec<PathBuf> {
        fn below(dir: &Path) -> Vec<PathBuf> {
            let entries = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
            entries.flat_map(|path| if path.is_dir() { below(&path) } else { vec![path] }).collect()
        }
        below(self.home.path()).into_iter().filter(|path| path.extension().is_some_and(|ext| ext == "out")).collect()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = Service::command(&self.program, self.home.path()).args(["service", "stop"]).output();
        self.daemon.stop_within(Duration::from_secs(3));
    }
}

#[test]
fn a_live_daemon_is_left_as_it_was() {
    let service = need!(Service::start());
    let room = Room::new();
    let stamp = || {
        let stat = std::fs::metadata(&service.registration).unwrap();
        (std::fs::read(&service.registration).unwrap(), stat.modified().unwrap(), std::os::unix::fs::MetadataExt::ino(&stat))
    };
    let before = (service.sessions(), service.outputs(), stamp());
    let told = service.probe(&room, &[]);
    let json = told.json();
    assert_eq!(told.code, 0, "{json:#}");
    assert_eq!(with_outcome(&json, "confirmed"), ids('O', &[1, 2, 7, 10, 13]));
    assert_eq!((service.sessions(), service.outputs(), stamp()), before);
    room.is_empty();
    assert!(!told.stdout.contains(&service.password) && !told.stderr.contains(&service.password));
    let left = json["data"]["cleanup"]["left"].as_array().unwrap();
    assert!(left.iter().all(|left| left["by_nature"] == true), "{left:?}");
    let words: String = left.iter().map(|left| left["what"].as_str().unwrap()).collect();
    assert!(words.contains("project row") && words.contains("log") && words.contains("freed"), "{words}");
    assert_eq!(
        (json["data"]["host"]["pid"].as_u64(), json["data"]["host"]["spawned"].as_bool()),
        (Some(service.daemon.pid.into()), Some(false))
    );
    let data = service.home.path().join(".local/share");
    let found = Command::new("grep").arg("-raF").arg(&service.password).arg(&data).output().unwrap();
    assert!(found.stdout.is_empty(), "the password reached the host's database or log");
    assert_eq!(room.command(&["probe", "opencode", "--live", "http://127.0.0.1:1"]).output().unwrap().status.code(), Some(3));
}

#[test]
fn a_live_daemon_that_hangs_or_dies_ends_the_probe() {
    let service = need!(Service::start());
    let room = Room::new();
    let pid = rustix::process::Pid::from_raw(i32::try_from(service.daemon.pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    let begun = Instant::now();
    let hung = service.probe(&room, &["--timeout", "2"]);
    rustix::process::kill_process(pid, rustix::process::Signal::CONT).unwrap();
    assert_eq!(hung.code, 5, "{}", hung.stdout);
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    room.is_empty();
    let url = service.endpoint.url();
    let mut prober = room.command(&["probe", "opencode", "--json", "--timeout", "5", "--live", &url]);
    let prober = prober.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    wait_until("the probe's first session", || service.sessions() > 0);
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    let ended = prober.wait_with_output().unwrap();
    let json: Value = serde_json::from_slice(&ended.stdout).unwrap();
    assert_eq!(with_outcome(&json, "refuted"), Vec::<String>::new());
    let left = json["data"]["cleanup"]["left"].as_array().unwrap();
    assert!(left.iter().any(|left| left["by_nature"] == false), "what could not be removed is listed: {left:?}");
    room.is_empty();
}

/// Open files, threads and sessions of a daemon.
fn weight(service: &Service) -> (usize, usize, usize) {
    let process = Process::read(service.daemon.pid).expect("the daemon runs");
    let threads = std::fs::read_dir(format!("/proc/{}/task", service.daemon.pid)).unwrap().count();
    (process.fds().len(), threads, service.sessions())
}

/// So many plain sessions, made, used and deleted without us.
fn plain(service: &Service, place: &Path, count: usize) {
    for _ in 0..count {
        let made = service.endpoint.json("POST", "/api/session", Some(&json!({"location": {"directory": place}})));
        let session = made["data"]["id"].as_str().unwrap();
        service.endpoint.json("POST", &format!("/api/session/{session}/shell"), Some(&json!({"command": "true"})));
        service.endpoint.json("DELETE", &format!("/api/session/{session}"), None);
    }
}

#[test]
fn a_hundred_probes_leave_no_trend() {
    const PROBES: usize = 100;
    let (probed, compared) = (need!(Service::start()), need!(Service::start()));
    let room = Room::new();
    // Each probe makes four sessions: the other daemon gets as many without us.
    for _ in 0..10 {
        assert_eq!(probed.probe(&room, &[]).code, 0);
        plain(&compared, room.path(), 4);
    }
    let (early, early_plain) = (weight(&probed), weight(&compared));
    for _ in 10..PROBES {
        assert_eq!(probed.probe(&room, &[]).code, 0);
        plain(&compared, room.path(), 4);
    }
    let (late, late_plain) = (weight(&probed), weight(&compared));
    let grown = |early: usize, late: usize| i64::try_from(late).unwrap() - i64::try_from(early).unwrap();
    let seen = format!("probed {early:?} → {late:?}, plain {early_plain:?} → {late_plain:?}");
    assert_eq!(late.2, early.2, "open files, threads, sessions: {seen}");
    // Idle connections and workers come and go: one for every ten probes would be a trend.
    assert!(grown(early.0, late.0) <= grown(early_plain.0, late_plain.0).max(0) + 8, "open files, threads, sessions: {seen}");
    assert!(grown(early.1, late.1) <= grown(early_plain.1, late_plain.1).max(0) + 8, "open files, threads, sessions: {seen}");
    room.is_empty();
}

#[test]
fn a_live_zeroclaw_is_asked_what_needs_no_model() {
    let program = need!(peers::zeroclaw());
    let home = tempfile::tempdir().unwrap();
    let model = StubModel::start("true");
    let config = format!(
        "schema_version = 3\n\n[providers.models.custom.stub]\nuri = \"{}\"\napi_key = \"none\"\nmodel = \"stub\"\nnative_tools = true\n\n\
         [risk_profiles.open]\nlevel = \"full\"\n\n[runtime_profiles.plain]\nagentic = true\n\n\
         [agents.main]\nmodel_provider = \"custom.stub\"\nrisk_profile = \"open\"\nruntime_profile = \"plain\"\n",
        model.base_url()
    );
    std::fs::write(home.path().join("config.toml"), config).unwrap();
    let mut command = need!(tied(program));
    command.args(["daemon", "--config-dir"]).arg(home.path()).env_clear().env("HOME", home.path()).env("PATH", "/usr/bin:/bin");
    let _daemon = Proc::spawn("zeroclaw", command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()));
    let socket = home.path().join("data/daemon.sock");
    wait_until("ZeroClaw's socket", || unix_socket_listens(&socket));
    let room = Room::new();
    let told = room.run(&["probe", "zeroclaw", "--json", "--live", socket.to_str().unwrap()]);
    let json = told.json();
    assert_eq!((told.code, outcomes(&json)["Z5"].as_str()), (0, "confirmed"), "{json:#}");
    assert!(json["data"]["claims"].as_array().unwrap().iter().all(|claim| (claim["id"] == "Z5") == (claim["asked"] == true)));
    assert_eq!(json["data"]["cleanup"]["removed"][0], "2 sessions", "{json:#}");
}

/// The account that the daemon runs as probes it; root probes another account's daemon; a stranger is told what is missing.
#[test]
fn an_ordinary_account_root_and_a_stranger() {
    use crate::world::World;
    use crate::world::daemons::{Opencode, Start};
    let world = need!(World::new());
    let service = need!(Opencode::service(Start::as_account(&world.user, &[("DISPLAY", ":77"), ("TERM", "vt220")])));
    let url = service.endpoint.url();
    let arguments = ["probe", "opencode", "--json", "--live", &url];
    let confirmed = ids('O', &[1, 2, 7, 10, 13]);
    let mut own = world.user.command(&world.whoseenv);
    // The test's own terminal is root's: its home must not pass for the account's.
    let told = ran(own.args(arguments).env("HOME", "/"));
    assert_eq!((told.code, with_outcome(&told.json(), "confirmed")), (0, confirmed.clone()), "{}", told.stdout);
    let mut root = Command::new(&world.whoseenv);
    let told = ran(root.args(arguments).env_clear().env("PATH", "/usr/bin:/bin").env("HOME", "/root").current_dir("/"));
    assert_eq!((told.code, with_outcome(&told.json(), "confirmed")), (0, confirmed.clone()), "{}", told.stdout);
    let mut stranger = world.stranger.command(&world.whoseenv);
    let told = ran(stranger.args(arguments));
    assert!([3, 4].contains(&told.code), "{}", told.stdout);
    let mut spawn = world.user.command(&world.whoseenv);
    let program = need!(peers::opencode_preview());
    let told = ran(spawn.args(["probe", "opencode", "--json", "--spawn"]).arg(program));
    assert_eq!((told.code, with_outcome(&told.json(), "confirmed")), (0, confirmed), "{}", told.stdout);
}

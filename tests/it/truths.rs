//! What other programs and the kernel say of the same value decides what this one has to say: whether ssh-add may open the
//! agent, whether a connection is let in, whether two spellings lead to one server.

use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::bad_input::{NOBODY, envelope, own_root, text};
use crate::run::{PROGRAM, Sleeper, ran, run, write};
use crate::world::World;
use crate::world::accounts::{ordinary, stranger};
use crate::world::display::Display;
use crate::world::look::{self, wait_until};
use crate::world::need::tool;
use crate::world::parts::{Agent, Bus};
use crate::world::sshd::{Login, X11};

/// A daemon that the catalogue knows by its signature, with exactly these variables.
pub struct Daemon {
    process: Sleeper,
    _dir: tempfile::TempDir,
}

impl Daemon {
    pub fn start(environment: &[(&str, &str)]) -> Daemon {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("codex");
        // By another process: a child that is forked meanwhile would hold it open for writing.
        assert!(Command::new("cp").arg("/bin/bash").arg(&program).status().unwrap().success());
        let mut command = Command::new(program);
        command.args(["-c", "read x", "app-server"]).env_clear().envs(environment.iter().copied());
        Daemon { process: Sleeper::of(command.stdin(Stdio::piped()).stdout(Stdio::null())), _dir: dir }
    }

    /// What `doctor` says of it beside a terminal with these variables: ids, the whole answer, and the exit code.
    pub fn beside(&self, terminal: &Sleeper) -> (Vec<String>, Value, i32) {
        let ran = run(&["doctor", "--pid", &self.process.pid(), "--against", &terminal.pid(), "--json"]);
        let document = envelope(&ran);
        assert_eq!(document["data"]["daemons"].as_array().map(Vec::len), Some(1), "{document:#}");
        let ids = document["findings"].as_array().unwrap().iter().map(|finding| finding["id"].as_str().unwrap().to_owned()).collect();
        (ids, document, ran.code)
    }
}

fn liveness(name: &str, pid: &str) -> Value {
    envelope(&run(&["owner", name, pid, "--json"]))["data"]["liveness"].clone()
}

fn state(name: &str, pid: &str) -> String {
    liveness(name, pid)["state"].as_str().unwrap().to_owned()
}

/// Sockets that listen, of a kind each.
fn listening(dir: &Path, names: &[&str]) -> Vec<UnixListener> {
    names.iter().map(|name| UnixListener::bind(dir.join(name)).unwrap()).collect()
}

/// To programs an empty variable is an unset one: what is found with the one has to be found with the other.
#[test]
fn an_empty_variable_is_missing_like_one_that_is_not_set() {
    let dir = tempfile::tempdir().unwrap();
    let _open = listening(dir.path(), &["agent", "bus", "wayland"]);
    let at = |name: &str| dir.path().join(name).display().to_string();
    let bus = format!("unix:path={}", at("bus"));
    let (agent, wayland) = (at("agent"), at("wayland"));
    let all = [("SSH_AUTH_SOCK", &agent), ("DBUS_SESSION_BUS_ADDRESS", &bus), ("WAYLAND_DISPLAY", &wayland)];
    let terminal = Sleeper::start(&all.map(|(name, value)| (name, value.as_str())));
    let without = Daemon::start(&[("LANG", "C")]).beside(&terminal);
    let empty = Daemon::start(&all.map(|(name, _)| (name, ""))).beside(&terminal);
    for id in ["ssh_agent.missing", "bus.missing", "wayland.missing"] {
        assert!(
            without.0.iter().any(|found| found == id) && empty.0.iter().any(|found| found == id),
            "{id}: {:?} {:?}",
            without.0,
            empty.0
        );
    }
    assert_eq!((without.2, empty.2), (1, 1));
    assert!(text(&empty.1).contains("SSH_AUTH_SOCK is set to the empty string"), "{:#}", empty.1);
    let with = Daemon::start(&all.map(|(name, value)| (name, value.as_str()))).beside(&terminal);
    assert!(with.0.iter().all(|id| !id.ends_with(".missing")), "{:?}", with.0);
}

/// What the terminal has alive and the daemon lacks, beside what opens windows: its runtime directory, its proxy, its sound.
#[test]
fn a_living_place_that_the_daemon_lacks_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let _open = listening(dir.path(), &["pulse"]);
    let proxy = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = format!(
        "http://{}",
        proxy
            .local_addr()
            .map(|at| (proxy, at))
            .map(|(kept, at)| {
                std::mem::forget(kept);
                at
            })
            .unwrap()
    );
    let (runtime, pulse) = (dir.path().display().to_string(), format!("unix:{}", dir.path().join("pulse").display()));
    let all = [("XDG_RUNTIME_DIR", runtime.as_str()), ("HTTP_PROXY", &proxy), ("PULSE_SERVER", &pulse)];
    let (ids, document, code) = Daemon::start(&[("LANG", "C")]).beside(&Sleeper::start(&all));
    for id in ["runtime_dir.missing", "proxy.missing", "audio.missing"] {
        assert!(ids.iter().any(|found| found == id), "{id}: {document:#}");
    }
    assert_eq!(code, 1);
    let (ids, ..) = Daemon::start(&all).beside(&Sleeper::start(&all));
    assert!(ids.iter().all(|id| !id.ends_with(".missing")), "{ids:?}");
}

/// One X server, one bus and one compositor by two spellings. What each leads to, its own client says.
#[test]
fn one_server_by_two_spellings_is_not_foreign() {
    // A world ends whatever runs as this account.
    let _alone = crate::world::world::alone();
    let user = need!(ordinary());
    let dir = tempfile::Builder::new().prefix("whoseenv-truths-").tempdir_in("/tmp").unwrap();
    let screen = need!(Display::start(dir.path()));
    let runtime = user.private_dir(&dir.path().join("runtime"));
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let bus = need!(Bus::start(&user, &runtime));
    let _open = listening(&runtime, &["wayland-1"]);
    // Whoever listens there is another.
    let another = need!(Agent::start(&runtime));
    assert!(bus.address.contains(",guid="), "{}", bus.address);
    let plain = format!("unix:path={}", bus.socket.display());
    let (runtime, authority) = (runtime.display().to_string(), screen.authority.display().to_string());
    let absolute = format!("{runtime}/wayland-1");
    let longer = format!("{}.0", screen.name);
    let common = [("XDG_RUNTIME_DIR", runtime.as_str()), ("XAUTHORITY", &authority)];
    let with = |display: &str, bus: &str, wayland: &str| {
        let own = [("DISPLAY", display), ("DBUS_SESSION_BUS_ADDRESS", bus), ("WAYLAND_DISPLAY", wayland)];
        Daemon::start(&[&common[..], &own[..]].concat())
    };
    let own = [("DISPLAY", screen.name.as_str()), ("DBUS_SESSION_BUS_ADDRESS", &bus.address), ("WAYLAND_DISPLAY", &absolute)];
    let terminal = Sleeper::start(&[&common[..], &own[..]].concat());
    let (ids, document, _) = with(&longer, &plain, "wayland-1").beside(&terminal);
    assert!(ids.iter().all(|id| !id.ends_with(".foreign")), "{document:#}");
    let unix = format!("unix{}", screen.name);
    let (ids, document, _) = with(&unix, &bus.address, "wayland-1").beside(&terminal);
    assert!(ids.iter().all(|id| !id.ends_with(".foreign")), "{document:#}");
    // Another compositor is.
    let (ids, document, _) = with(&longer, &plain, another.socket.to_str().unwrap()).beside(&terminal);
    assert_eq!(ids.iter().filter(|id| id.ends_with(".foreign")).collect::<Vec<_>>(), ["wayland.foreign"], "{document:#}");
}

/// ssh-add of the daemon's account says whether that account may use the agent; who asks is root.
#[test]
fn an_agent_that_ssh_add_may_not_open_is_rejected() {
    // A world ends whatever runs as this account.
    let _alone = crate::world::world::alone();
    let (user, other) = (need!(ordinary()), need!(stranger()));
    let dir = tempfile::Builder::new().prefix("whoseenv-truths-").tempdir_in("/tmp").unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let roots = need!(Agent::start(dir.path()));
    let hers = user.private_dir(&dir.path().join("hers"));
    let own = need!(Agent::start_as(&user, &hers));
    let add = need!(tool("ssh-add", "openssh-client"));
    for (account, socket) in [(&user, &roots.socket), (&user, &own.socket), (&other, &own.socket)] {
        let listed = account.command(&add).arg("-l").env("SSH_AUTH_SOCK", socket).output().unwrap();
        let works = listed.status.success();
        let said = String::from_utf8_lossy(&listed.stderr).into_owned();
        assert!(works || said.contains("Permission denied"), "{said}");
        let mut command = need!(account.tied("sleep"));
        let carrier = Sleeper::of(command.arg("600").env("SSH_AUTH_SOCK", socket).stdin(Stdio::null()));
        let judged = liveness("SSH_AUTH_SOCK", &carrier.pid());
        assert_eq!(judged["state"] == "alive", works, "{}: ssh-add: {said}; {judged}", account.name);
        assert!(works || judged["state"] == "rejected", "{judged}");
        let snapshot = dir.path().join(format!("snapshot-{}", carrier.pid()));
        assert_eq!(run(&["snapshot", snapshot.to_str().unwrap(), "--pid", &carrier.pid()]).code, 0);
        let captured = envelope(&run(&["--from", snapshot.to_str().unwrap(), "owner", "SSH_AUTH_SOCK", &carrier.pid(), "--json"]));
        assert_eq!(
            (&captured["data"]["liveness"]["state"], &captured["data"]["liveness"]["detail"]),
            (&judged["state"], &judged["detail"]),
            "{captured:#}"
        );
        // Nor does root's own right to open it count.
        let connected = envelope(&run(&["owner", "SSH_AUTH_SOCK", &carrier.pid(), "--connect", "--json"]));
        assert_eq!(connected["data"]["liveness"]["state"] == "alive", works, "{connected:#}");
    }
}

/// What connect(2) lets in, by account, group, directory and access list, against what is said of a process with the same rights.
#[test]
fn what_the_kernel_lets_in_is_alive_and_nothing_else() {
    need!(own_root());
    let dir = tempfile::Builder::new().prefix("whoseenv-truths-").tempdir_in("/tmp").unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    const GROUP: u32 = 61_777;
    let (mut open, mut seen) = (Vec::new(), [0, 0]);
    let mut case = |name: &str, (mode, uid, gid): (u32, u32, u32), directory: u32, list: bool, groups: &[u32]| {
        let inside = dir.path().join(name);
        std::fs::create_dir(&inside).unwrap();
        let socket = inside.join("socket");
        open.push(UnixListener::bind(&socket).unwrap());
        chown(&socket, Some(uid), Some(gid)).unwrap();
        std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(mode)).unwrap();
        std::fs::set_permissions(&inside, std::fs::Permissions::from_mode(directory)).unwrap();
        if list && !let_in(&socket, NOBODY) {
            return;
        }
        let lets_in = connects(&socket, groups);
        let mut command = Command::new("setpriv");
        let listed = groups.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        let uid = NOBODY.to_string();
        command.args(["--reuid", &uid, "--regid", &uid]);
        let command = if groups.is_empty() { command.arg("--clear-groups") } else { command.args(["--groups", &listed]) };
        command.args(["sleep", "600"]).env_clear().env("PATH", "/usr/bin:/bin").env("SOME_SOCK", &socket).stdin(Stdio::null());
        let carrier = Sleeper::of(command);
        let comm = format!("/proc/{}/comm", carrier.pid());
        wait_until("setpriv becomes it", || std::fs::read_to_string(&comm).is_ok_and(|comm| comm.trim() == "sleep"));
        let judged = liveness("SOME_SOCK", &carrier.pid());
        assert_eq!(judged["state"] == "alive", lets_in, "{name}: {judged}");
        assert!(lets_in || judged["state"] == "rejected", "{name}: {judged}");
        seen[usize::from(lets_in)] += 1;
    };
    case("own", (0o600, NOBODY, 0), 0o755, false, &[]);
    case("own-closed", (0o066, NOBODY, 0), 0o755, false, &[]);
    case("roots", (0o600, 0, 0), 0o755, false, &[]);
    case("everybody", (0o666, 0, 0), 0o755, false, &[]);
    case("readable", (0o644, 0, 0), 0o755, false, &[]);
    case("group", (0o660, 0, GROUP), 0o755, false, &[GROUP]);
    case("no-member", (0o660, 0, GROUP), 0o755, false, &[]);
    case("group-shut-out", (0o606, 0, GROUP), 0o755, false, &[GROUP]);
    case("closed-directory", (0o666, 0, 0), 0o700, false, &[]);
    case("searchable-directory", (0o666, 0, 0), 0o711, false, &[]);
    case("unsearchable-directory", (0o666, 0, 0), 0o744, false, &[]);
    case("access-list", (0o600, 0, 0), 0o755, true, &[]);
    assert!(seen[0] >= 5 && seen[1] >= 4, "{seen:?}");
}

/// Gives an account read and write by an access list (acl(5), in the form of the xattr); false where the file system has none.
fn let_in(path: &Path, uid: u32) -> bool {
    let entry = |tag: u16, may: u16, id: u32| [&tag.to_le_bytes()[..], &may.to_le_bytes(), &id.to_le_bytes()].concat();
    let none = u32::MAX;
    let list =
        [&2u32.to_le_bytes()[..], &entry(1, 6, none), &entry(2, 6, uid), &entry(4, 0, none), &entry(16, 6, none), &entry(32, 0, none)];
    rustix::fs::setxattr(path, "system.posix_acl_access", &list.concat(), rustix::fs::XattrFlags::empty()).is_ok()
}

/// Whether the kernel lets that account, with these groups, connect.
fn connects(socket: &Path, groups: &[u32]) -> bool {
    use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
    let (uid, gid) = (rustix::process::Uid::from_raw(NOBODY), rustix::process::Gid::from_raw(NOBODY));
    let groups: Vec<_> = groups.iter().map(|group| rustix::process::Gid::from_raw(*group)).collect();
    let socket = socket.to_owned();
    let acting = std::thread::spawn(move || {
        set_thread_groups(&groups).and_then(|()| set_thread_res_gid(gid, gid, gid)).unwrap();
        set_thread_res_uid(uid, uid, uid).unwrap();
        UnixStream::connect(socket).is_ok()
    });
    acting.join().unwrap()
}

/// Directories and files too: a runtime directory of root's is no use to another account, whoever asks.
#[test]
fn a_place_that_the_process_may_not_enter_is_rejected() {
    need!(own_root());
    let dir = tempfile::Builder::new().prefix("whoseenv-truths-").tempdir_in("/tmp").unwrap();
    let closed = dir.path().join("closed");
    std::fs::create_dir(&closed).unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o700)).unwrap();
    let _open = listening(&closed, &["bus"]);
    let secret = write(dir.path(), "kubeconfig", b"");
    std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o600)).unwrap();
    let values = [
        ("XDG_RUNTIME_DIR", closed.display().to_string()),
        ("DBUS_SESSION_BUS_ADDRESS", format!("unix:path={}/bus", closed.display())),
        ("KUBECONFIG", secret.display().to_string()),
    ];
    let mut command = Command::new("sleep");
    command.arg("600").env_clear().envs(values.iter().map(|(name, value)| (name, value))).stdin(Stdio::null()).uid(NOBODY).gid(NOBODY);
    let carrier = Sleeper::of(&mut command);
    let root = Sleeper::start(&values.each_ref().map(|(name, value)| (*name, value.as_str())));
    for (name, _) in &values {
        assert_eq!((state(name, &carrier.pid()), state(name, &root.pid())), ("rejected".to_owned(), "alive".to_owned()), "{name}");
    }
    // In a snapshot that lost who may enter, nobody knows.
    let snapshot = dir.path().join("snapshot");
    assert_eq!(run(&["snapshot", snapshot.to_str().unwrap(), "--pid", &carrier.pid()]).code, 0);
    let captured = || {
        let ran = run(&["--from", snapshot.to_str().unwrap(), "owner", "DBUS_SESSION_BUS_ADDRESS", &carrier.pid(), "--json"]);
        (envelope(&ran)["data"]["liveness"]["state"].clone(), ran.code)
    };
    assert_eq!(captured(), (json!("rejected"), 0));
    let paths = snapshot.join("paths/ours.json");
    let mut kept: Value = serde_json::from_slice(&std::fs::read(&paths).unwrap()).unwrap();
    let key = closed.to_str().unwrap();
    let facts = if kept.get(key).is_some() { &mut kept } else { &mut kept["facts"] };
    assert!(facts.as_object_mut().unwrap().remove(key).is_some(), "{key}");
    std::fs::write(&paths, serde_json::to_vec(&kept).unwrap()).unwrap();
    assert_eq!(captured().0, "unknown");
}

/// A cookie that the process may not read opens nothing for it: `--connect` shows what it could show itself.
#[test]
fn root_does_not_lend_a_process_its_cookie() {
    need!(own_root());
    let dir = tempfile::Builder::new().prefix("whoseenv-truths-").tempdir_in("/tmp").unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let screen = need!(Display::start(dir.path()));
    std::fs::set_permissions(&screen.authority, std::fs::Permissions::from_mode(0o600)).unwrap();
    let authority = screen.authority.display().to_string();
    let ask = |uid: u32| {
        let mut command = Command::new("sleep");
        command.arg("600").env_clear().env("DISPLAY", &screen.name).env("XAUTHORITY", &authority).uid(uid).gid(uid).stdin(Stdio::null());
        let carrier = Sleeper::of(&mut command);
        let ran = run(&["owner", "DISPLAY", &carrier.pid(), "--connect", "--json"]);
        envelope(&ran)["data"]["liveness"].clone()
    };
    assert_eq!(ask(0)["state"], "alive");
    let xdpyinfo = need!(tool("xdpyinfo", "x11-utils"));
    let mut client = Command::new(xdpyinfo);
    client.env_clear().env("DISPLAY", &screen.name).env("XAUTHORITY", &authority).uid(NOBODY).gid(NOBODY);
    let client = client.output().unwrap();
    assert!(!client.status.success(), "{}", String::from_utf8_lossy(&client.stdout));
    let judged = ask(NOBODY);
    assert_eq!((&judged["state"], &judged["how"]), (&json!("rejected"), &json!("connects")), "{judged}");
}

/// After `su` a process has another account than its login. Root sees that the display is that login's forward.
#[test]
fn after_su_the_display_of_the_login_is_not_called_reused() {
    let world = need!(World::new());
    let (other, a) = (need!(stranger()), need!(world.login(Login::from(2, &world.user).x11(X11::Trusted))));
    let mut command = need!(other.tied("sleep"));
    command.arg("600").env("DISPLAY", a.display()).env("SSH_CONNECTION", a.connection()).stdin(Stdio::null());
    let carrier = Sleeper::of(&mut command);
    let root = envelope(&run(&["owner", "DISPLAY", &carrier.pid(), "--json"]));
    assert_eq!((&root["data"]["liveness"]["state"], &root["data"]["same_connection"]), (&json!("alive"), &json!(true)), "{root:#}");
    let mut ask = other.command(&world.whoseenv);
    let hers = envelope(&ran(ask.args(["owner", "DISPLAY", &carrier.pid(), "--json"])));
    let judged = &hers["data"]["liveness"];
    assert!(["alive", "unknown"].contains(&judged["state"].as_str().unwrap()), "{judged}");
    let pid = carrier.pid();
    a.disconnect();
    assert_eq!(state("DISPLAY", &pid), "refused");
}

/// The forms that the programs take which read them: a list for kubectl, a host for PulseAudio, a path with a blank for all.
#[test]
fn lists_hosts_blanks_and_names_on_path_are_what_programs_take_them_for() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).display().to_string();
    let _open = listening(dir.path(), &["sp ace.sock"]);
    assert!(UnixStream::connect(dir.path().join("sp ace.sock")).is_ok());
    write(dir.path(), "k1", b"");
    write(dir.path(), "k2", b"");
    let (space, gone) = (at("sp ace.sock"), at("gone"));
    let judged = |name: &str, value: &str| {
        let carrier = Sleeper::start(&[(name, value), ("PATH", "/usr/bin:/bin"), ("XDG_RUNTIME_DIR", dir.path().to_str().unwrap())]);
        state(name, &carrier.pid())
    };
    for (name, value, expected) in [
        ("KUBECONFIG", format!("{}:{}", at("k1"), at("k2")), "alive"),
        ("KUBECONFIG", format!("{gone}:{}", at("k2")), "alive"),
        ("KUBECONFIG", format!("{gone}:{gone}"), "dangling"),
        ("KUBECONFIG", gone.clone(), "dangling"),
        ("PULSE_SERVER", "mediahost".to_owned(), "unknown"),
        ("PULSE_SERVER", format!("unix:{gone}"), "dangling"),
        ("DOCKER_HOST", format!("unix://{space}"), "alive"),
        ("NVIM_LISTEN_ADDRESS", space.clone(), "alive"),
        ("KITTY_LISTEN_ON", format!("unix:{space}"), "alive"),
        ("GPG_AGENT_INFO", format!("{space}:4711:1"), "alive"),
        ("DOCKER_HOST", format!("unix://{gone}"), "dangling"),
        ("GIT_ASKPASS", "true".to_owned(), "alive"),
        ("GIT_ASKPASS", "echo".to_owned(), "alive"),
        ("SSH_ASKPASS", "no-such-program-anywhere".to_owned(), "dangling"),
        ("GIT_ASKPASS", gone.clone(), "dangling"),
    ] {
        assert_eq!(judged(name, &value), expected, "{name}={value}");
    }
    let (_, document, code) =
        Daemon::start(&[("GIT_ASKPASS", "true"), ("PATH", "/usr/bin:/bin")]).beside(&Sleeper::start(&[("PATH", "/usr/bin:/bin")]));
    assert_eq!(code, 0, "{document:#}");
}

/// connect(2) and isatty(3) decide: a socket of datagrams takes no connection, and /dev/null is no terminal.
#[test]
fn a_datagram_socket_is_no_agent_and_dev_null_no_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("datagrams");
    let _open = UnixDatagram::bind(&socket).unwrap();
    assert!(UnixStream::connect(&socket).is_err());
    let carrier =
        Sleeper::start(&[("SSH_AUTH_SOCK", socket.to_str().unwrap()), ("SSH_TTY", "/dev/null"), ("SOME_SOCKET", socket.to_str().unwrap())]);
    assert!(!rustix::termios::isatty(std::fs::File::open("/dev/null").unwrap()));
    let states = ["SSH_AUTH_SOCK", "SSH_TTY", "SOME_SOCKET"].map(|name| state(name, &carrier.pid()));
    assert_eq!(states, ["refused", "dangling", "alive"]);
}

/// A shell and a program on a terminal of its own, which `script` makes.
struct OnTerminal(Sleeper);

impl OnTerminal {
    fn new() -> OnTerminal {
        let mut command = Command::new("script");
        command.args(["-qfc", "sleep 600", "/dev/null"]).stdin(Stdio::null()).stdout(Stdio::null());
        OnTerminal(Sleeper::of(&mut command))
    }

    fn tty(&self) -> String {
        look::wait_for("a terminal", || {
            let listed = Command::new("ps").args(["-o", "tty=", "--ppid", &self.0.pid()]).output().unwrap();
            let tty = String::from_utf8(listed.stdout).unwrap().trim().to_owned();
            tty.starts_with("pts/").then(|| format!("/dev/{tty}"))
        })
    }
}

/// A number that another terminal has now is not the one of birth, also seen from another mount namespace and of a process in one.
#[test]
fn a_reused_terminal_is_told_across_mount_namespaces() {
    need!(own_root());
    // Another test may wait for a number of a terminal too.
    let _alone = crate::world::world::alone();
    let first = OnTerminal::new();
    let tty = first.tty();
    let ended = "192.0.2.9 50001 192.0.2.1 22";
    let start = |private: bool| {
        let mut command = Command::new(if private { "unshare" } else { "env" });
        let command = if private { command.args(["-m", "sleep", "600"]) } else { command.args(["sleep", "600"]) };
        let carrier = Sleeper::of(command.env_clear().env("PATH", "/usr/bin:/bin").env("SSH_TTY", &tty).env("SSH_CONNECTION", ended));
        let comm = format!("/proc/{}/comm", carrier.pid());
        wait_until("it sleeps", || std::fs::read_to_string(&comm).is_ok_and(|comm| comm.trim() == "sleep"));
        carrier
    };
    let (plain, private) = (start(false), start(true));
    drop(first);
    std::thread::sleep(Duration::from_millis(100));
    let second = (0..8).map(|_| OnTerminal::new()).find(|terminal| terminal.tty() == tty);
    let Some(_second) = second else { skip!("the number was not given again") };
    for (carrier, who) in [(&plain, "plain"), (&private, "in a mount namespace of its own")] {
        assert_eq!(state("SSH_TTY", &carrier.pid()), "reused", "{who}");
    }
    let mut outside = Command::new("unshare");
    outside.args(["-m", PROGRAM, "owner", "SSH_TTY", &plain.pid(), "--json"]).env_clear().env("PATH", "/usr/bin:/bin");
    assert_eq!(envelope(&ran(&mut outside))["data"]["liveness"]["state"], "reused");
    // With a devpts of its own the number is another terminal, and who is on that nobody sees.
    let script = "mount -t devpts -o newinstance,ptmxmode=0666 devpts /dev/pts || exit 99; exec sleep 600";
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", script]).env_clear().env("PATH", "/usr/bin:/bin").env("SSH_TTY", "/dev/pts/ptmx");
    let inside = Sleeper::of(command.stdin(Stdio::null()));
    assert_ne!(state("SSH_TTY", &inside.pid()), "alive");
}

/// Evidence of another mount namespace names where it was looked for: on this side that path may well be there.
#[test]
fn a_path_in_another_mount_namespace_is_named_as_we_reach_it() {
    need!(own_root());
    let dir = tempfile::tempdir_in("/tmp").unwrap();
    let _open = listening(dir.path(), &["agent"]);
    let socket = dir.path().join("agent");
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", "mount -t tmpfs none /tmp && exec sleep 600"]).env_clear().env("PATH", "/usr/bin:/bin");
    let inside = Sleeper::of(command.env("SSH_AUTH_SOCK", &socket).stdin(Stdio::null()));
    let root = PathBuf::from(format!("/proc/{}/root", inside.pid()));
    let comm = format!("/proc/{}/comm", inside.pid());
    wait_until("it sleeps", || std::fs::read_to_string(&comm).is_ok_and(|comm| comm.trim() == "sleep"));
    let seen_at = root.join(socket.strip_prefix("/").unwrap());
    assert!(socket.exists() && !seen_at.exists());
    let answer = envelope(&run(&["owner", "SSH_AUTH_SOCK", &inside.pid(), "--json"]));
    let sources: Vec<&str> = answer["data"]["evidence"].as_array().unwrap().iter().filter_map(|piece| piece["source"].as_str()).collect();
    assert!(sources.contains(&seen_at.to_str().unwrap()), "{sources:?}");
}

/// `show` of a program whose options look like paths.
#[test]
fn a_password_behind_a_slash_is_not_shown() {
    let secrets = ["/p:Hunter2Secret", "/pass:Hunter2Secret", "//h/s%Hunter2Secret", "/bot123456:AAHunter2Secretxyz/sendMessage"];
    let mut command = Command::new("bash");
    command.args(["-c", "read x; :", "xfreerdp", "/u:bob"]).args(secrets).env_clear().stdin(Stdio::piped());
    let process = Sleeper::of(&mut command);
    for arguments in [&["show", &process.pid()][..], &["show", &process.pid(), "--json"], &["ps", "--all", "--pid", &process.pid(), "-v"]] {
        let shown = run(arguments);
        assert!(shown.code == 0 && !shown.stdout.contains("Hunter2"), "{}", shown.stdout);
    }
}

/// What is said of a value is said of what it was taken for, and leads to something that is there.
#[test]
fn hints_and_words_fit_what_was_asked() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let owner = envelope(&run(&["owner", &address, "--json"]));
    assert_eq!((&owner["data"]["kind"], &owner["data"]["liveness"]["state"]), (&json!("socket_address"), &json!("alive")), "{owner:#}");
    let dir = tempfile::tempdir().unwrap();
    let snapshot = dir.path().join("snapshot");
    let taken = run(&["snapshot", snapshot.to_str().unwrap(), "--anonymize"]);
    assert!(taken.stdout.contains("whoseenv --from DIR doctor"), "{}", taken.stdout);
    let gone = run(&["show", &format!("snapshot:{}#4194303", snapshot.display())]);
    assert!(gone.code == 3 && gone.stderr.contains(&format!("whoseenv --from {} ps --all", snapshot.display())), "{}", gone.stderr);
    let carrier = Sleeper::start(&[("WAYLAND_DISPLAY", "wayland-0"), ("GIT_ASKPASS", "")]);
    let wayland = envelope(&run(&["owner", "WAYLAND_DISPLAY", &carrier.pid(), "--json"]));
    assert_eq!(wayland["data"]["evidence"][0]["detail"], "XDG_RUNTIME_DIR is not set");
    let askpass = envelope(&run(&["owner", "GIT_ASKPASS", &carrier.pid(), "--json"]));
    assert!(text(&askpass["data"]["liveness"]).contains("empty"), "{askpass:#}");
}

/// A list of accounts that a snapshot lost says nothing of who is not on it.
#[test]
fn an_account_of_a_snapshot_without_its_list_is_not_called_absent() {
    let dir = tempfile::tempdir().unwrap();
    let snapshot = dir.path().join("snapshot");
    assert_eq!(run(&["snapshot", snapshot.to_str().unwrap()]).code, 0);
    let ask = |user: &str| run(&["--from", snapshot.to_str().unwrap(), "doctor", "--user", user]).code;
    assert_eq!(ask("nosuchaccount"), 3);
    std::fs::remove_file(snapshot.join("users.json")).unwrap();
    assert_eq!((ask("daemon"), ask("nosuchaccount")), (5, 5));
}

/// A file system that never answers, in which another process is stuck already: a lookup of the same name then waits where no signal
/// reaches it. The answer comes, and the program ends.
#[test]
fn a_lookup_that_nothing_can_end_is_left_behind() {
    need!(own_root());
    let dir = tempfile::tempdir().unwrap();
    let hang = dir.path().join("hang");
    std::fs::create_dir(&hang).unwrap();
    std::os::unix::fs::symlink(hang.join("bin"), dir.path().join("link")).unwrap();
    // Closing the last handle on /dev/fuse ends every lookup, and so does the abort, should the program not end.
    let script = "exec 3<>/dev/fuse && mount -i -t fuse -o fd=3,rootmode=40000,user_id=0,group_id=0 none \"$HANG\" || exit 99\n\
                  number=$(awk -v at=\"$HANG\" '$5 == at { split($3, part, \":\"); print part[2] }' /proc/self/mountinfo)\n\
                  mount -t fusectl none /sys/fs/fuse/connections 2>/dev/null\n\
                  (exec 3>&- 4>&-; sleep 25; echo 1 >\"/sys/fs/fuse/connections/$number/abort\") >/dev/null 2>&1 &\n\
                  guard=$!\n\
                  for name in agent bin; do (exec stat \"$HANG/$name\") >/dev/null 2>&1 3>&- & stuck=\"$stuck $!\"; done\n\
                  sleep 0.5\n\
                  /usr/bin/env -i PATH=\"$LINK:$HANG/bin:/usr/bin:/bin\" HOME=/nonexistent SSH_AUTH_SOCK=\"$HANG/agent\" LANG=C \"$@\" 3>&-\n\
                  code=$?\n\
                  echo 1 >\"/sys/fs/fuse/connections/$number/abort\"; exec 3>&-; umount -l \"$HANG\"; kill $guard $stuck 2>/dev/null; exit $code";
    for arguments in [&["owner", "SSH_AUTH_SOCK", "--json"][..], &["show", "--json"], &["doctor", "--json", "--against", "self"]] {
        let begin = Instant::now();
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", script, "sh", PROGRAM]).args(arguments).env("HANG", &hang).env("LINK", dir.path().join("link"));
        let ran = ran(command.stdin(Stdio::null()));
        if ran.code == 99 {
            skip!("/dev/fuse cannot be mounted here");
        }
        assert!(begin.elapsed() < Duration::from_secs(8), "{arguments:?} took {:?}", begin.elapsed());
        let document = envelope(&ran);
        if arguments[0] == "owner" {
            assert_eq!((ran.code, &document["data"]["liveness"]["state"]), (5, &json!("unknown")), "{document:#}");
            assert!(text(&document).contains("did not answer in time"), "{document:#}");
        }
    }
    // Nothing of ours stays behind once the mount is gone.
    wait_until("the scouts end", || {
        let argv = |pid: &str| std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let pids = std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().into_string().ok());
        pids.filter(|pid| pid.parse::<u32>().is_ok()).all(|pid| argv(&pid) != b"/proc/self/exe\0readback\0scout\0")
    });
}

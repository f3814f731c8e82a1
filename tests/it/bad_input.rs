//! Bad input from the host: a clear line each, the rest of the answer intact, the right exit code.

use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::puppet::{self, Puppet};
use crate::run::{PROGRAM, Ran, Sleeper, ran, run, whoseenv, write};
use crate::world::need::{Missing, Needed, tool};

/// An ordinary account that nobody has.
pub const NOBODY: u32 = 61_234;

/// Bytes that move a cursor, set a title, turn the direction of writing, or hide.
const HOSTILE: &[u8] = b"\x1b[31m\x07\x1b]0;title\x07\xe2\x80\xae\xe2\x80\x8b\xc2\x9b31m\xe2\x80\xa8\xef\xbb\xbf";

/// Whether a terminal would act on a character of the text, or not show it.
fn raw(text: &str) -> Option<char> {
    let acts = |char: char| char != '\n' && char.is_control();
    let hides = |char: char| matches!(char, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}');
    text.chars().find(|char| acts(*char) || hides(*char))
}

pub fn own_root() -> Needed<()> {
    if rustix::process::geteuid().is_root() { Ok(()) } else { Missing::new("changing the account and mounting take root") }
}

/// A copy of the program where any account may run it.
pub fn public() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::Builder::new().prefix("whoseenv-bad-").tempdir_in("/tmp").unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let program = dir.path().join("whoseenv");
    std::fs::copy(PROGRAM, &program).unwrap();
    (dir, program)
}

/// The program as an ordinary account, behind a shell in a mount namespace of its own where root first does `prepare`.
pub fn as_nobody(prepare: &str, program: &Path, arguments: &[&str]) -> Ran {
    let script = format!("{prepare}\nexec setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups -- \"$@\"");
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", &script, "sh"]).arg(program).args(arguments);
    ran(command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").stdin(Stdio::null()))
}

pub fn envelope(ran: &Ran) -> Value {
    let document = ran.json();
    assert!(document["schema"].is_string(), "{document:#}");
    document
}

pub fn text(value: &Value) -> String {
    value.to_string()
}

#[test]
fn a_thousand_processes_that_come_and_go_are_no_error() {
    let _churn = Puppet::new(&[b"puppet"], &[b"PUPPET=churn"]);
    let before = forks();
    for round in 0..100 {
        let mut arguments = vec!["ps", "--all", "--json"];
        if round % 10 == 0 {
            arguments.push("--names");
        }
        let ran = run(&arguments);
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "round {round}");
        assert_eq!(envelope(&ran)["status"], "ok");
    }
    assert!(forks() - before >= 1_000, "{} processes came and went", forks() - before);
}

/// How many processes this machine has started since its boot.
fn forks() -> u64 {
    let stat = std::fs::read_to_string("/proc/stat").unwrap();
    stat.lines().find_map(|line| line.strip_prefix("processes ")).unwrap().parse().unwrap()
}

#[test]
fn every_entry_of_a_block_is_shown_in_order_whatever_it_is() {
    let long = [b"DISPLAY=".to_vec(), vec![b'x'; 120_000]].concat();
    let entries: [&[u8]; 9] =
        [b"LANG=2", b"LC_ALL=one\ntwo", b"LANG=3", b"lonely", b"TERM=", b"LC_X=v\xff\xfe", b"N\xff=v", b"=C:=C:\\", &long];
    let puppet = Puppet::new(&[b"puppet"], &entries);
    let ran = run(&["show", &puppet.pid(), "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let document = envelope(&ran);
    let rows = document["data"]["environment"].as_array().unwrap();
    assert_eq!(rows.len(), entries.len());
    assert_eq!((&rows[0]["name"], &rows[0]["value"]), (&json!("LANG"), &json!("2")));
    assert_eq!((&rows[1]["name"], &rows[1]["value"]), (&json!("LC_ALL"), &json!("one\ntwo")));
    assert_eq!((&rows[2]["name"], &rows[2]["value"]), (&json!("LANG"), &json!("3")));
    assert_eq!((rows[3].get("name"), &rows[3]["raw"]["masked"]["len"]), (None, &json!(6)));
    assert_eq!((&rows[4]["name"], &rows[4]["value"]), (&json!("TERM"), &json!("")));
    assert_eq!((&rows[5]["name"], &rows[5]["value_b64"]), (&json!("LC_X"), &json!("dv/+")));
    assert_eq!(rows[6]["name_b64"], json!("Tv8="));
    assert_eq!(rows[7]["name"], json!("=C:"));
    let human = ran_at(40, &["show", &puppet.pid()]);
    assert!(human.code == 0 && human.stdout.contains("LC_ALL=one\\ntwo"), "{}", human.stdout);
}

/// Entries that are no assignments are no title written over the block, and an empty one is an entry too.
#[test]
fn lone_and_empty_entries_come_first_and_the_block_is_what_it_is() {
    let puppet = Puppet::new(&[b"puppet"], &[b"lonely", b"", b"LANG=1", b"odd"]);
    let shown = run(&["show", &puppet.pid(), "--json"]);
    let document = envelope(&shown);
    let rows = document["data"]["environment"].as_array().unwrap();
    assert_eq!((shown.code, &document["findings"]), (0, &json!([])), "{document:#}");
    let lengths: Vec<&Value> = rows.iter().map(|row| &row["raw"]["masked"]["len"]).collect();
    assert_eq!(lengths, [&json!(6), &json!(0), &Value::Null, &json!(3)], "{rows:#?}");
    assert_eq!((&rows[2]["name"], &rows[2]["value"]), (&json!("LANG"), &json!("1")));
    let dir = tempfile::tempdir().unwrap();
    let file = format!("file:{}", write(dir.path(), "lines", b"export LANG=1\nNOEQ\n").display());
    let diff = envelope(&run(&["diff", &file, &puppet.pid(), "--same", "--json"]));
    assert_eq!(diff["data"]["variables"][0]["state"], "same", "{diff:#}");
    let notes = text(&diff["notes"]);
    assert!(notes.contains("1 entry of") && notes.contains("3 entries of"), "{notes}");
}

fn ran_at(width: usize, arguments: &[&str]) -> Ran {
    ran(whoseenv(arguments).env("WHOSEENV_WIDTH", width.to_string()))
}

#[test]
fn values_of_a_mebibyte_in_a_file_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let file = write(dir.path(), "big", &[b"LANG=".to_vec(), vec![b'x'; 1 << 20], b"\0PATH=/bin\0".to_vec()].concat());
    let named = format!("file:{}", file.display());
    let document = envelope(&run(&["show", &named, "--json", "--show", "LANG"]));
    assert_eq!(document["data"]["environment"][0]["value"].as_str().unwrap().len(), 1 << 20);
    assert_eq!(run(&["diff", &named, &named]).code, 0);
    assert_eq!(ran_at(40, &["show", &named, "--show", "LANG"]).code, 0);
}

#[test]
fn nothing_from_the_host_reaches_a_terminal_raw() {
    let dir = tempfile::tempdir().unwrap();
    let odd = |prefix: &[u8]| std::ffi::OsString::from_vec([prefix, HOSTILE].concat());
    let cwd = dir.path().join(odd(b"cwd"));
    std::fs::create_dir(&cwd).unwrap();
    let exe = dir.path().join(odd(b"exe"));
    std::fs::copy(puppet::program(), &exe).unwrap();
    let with = |name: &[u8]| [name, HOSTILE].concat();
    let values: Vec<Vec<u8>> = [
        &b"DISPLAY="[..],
        b"WAYLAND_DISPLAY=",
        b"XAUTHORITY=/tmp/",
        b"SSH_AUTH_SOCK=/tmp/",
        b"SSH_CONNECTION=1.2.3.4 5 6.7.8.9 22 ",
        b"SSH_TTY=/dev/pts/",
        b"DBUS_SESSION_BUS_ADDRESS=unix:path=/tmp/",
        b"XDG_RUNTIME_DIR=/tmp/",
        b"TMUX=/tmp/",
        b"STY=",
        b"PATH=/bin:/tmp/",
        b"HOME=/home/",
        b"LANG=",
        b"XDG_SESSION_ID=",
        b"ZEROCLAW_SESSION_ID=",
        b"OPENCODE_PID=",
        b"KITTY_LISTEN_ON=unix:/tmp/",
        b"DOCKER_HOST=unix:///tmp/",
        b"HTTP_PROXY=http://",
        b"OPENCODE_SERVER=",
    ]
    .iter()
    .map(|name| with(name))
    .chain([with(b"NAME"), [&with(b"NAME")[..], b"=v"].concat(), [b"PUPPET=name:", &HOSTILE[..5]].concat()])
    .collect();
    let mut block: Vec<&[u8]> = vec![values.last().unwrap()];
    block.extend(values.iter().map(Vec::as_slice));
    let arguments = [with(b"argv"), with(b"--option="), with(b"/tmp/")];
    let puppet = Puppet::of(&exe, &cwd, &arguments.each_ref().map(Vec::as_slice), &block);
    let environment = write(dir.path(), "environment", &block.join(&0));
    let file = format!("file:{}", environment.display());
    let snapshot = dir.path().join("snapshot");
    let snapshot = snapshot.to_str().unwrap();
    let pid = puppet.pid();
    let mut commands: Vec<Vec<&str>> = vec![
        vec!["show", &pid],
        vec!["show", &pid, "--show-all"],
        vec!["show", &file, "--show-all"],
        vec!["diff", &pid, "--same"],
        vec!["diff", &pid, &file, "--show-all", "--same"],
        vec!["doctor", "--against", &pid],
        vec!["doctor", "--against", &pid, "--show-all"],
        vec!["ps", "--all", "--names"],
        vec!["snapshot", snapshot, "--pid", &pid],
    ];
    for name in ["DISPLAY", "WAYLAND_DISPLAY", "SSH_AUTH_SOCK", "DBUS_SESSION_BUS_ADDRESS", "TMUX", "SSH_CONNECTION", "SSH_TTY", "STY"] {
        commands.push(vec!["owner", name, &pid]);
    }
    commands.push(vec!["--from", snapshot, "show", &pid, "--show-all"]);
    commands.push(vec!["--from", snapshot, "ps", "--all", "--names"]);
    commands.push(vec!["--from", snapshot, "doctor", "--against", &pid]);
    for arguments in commands {
        for (width, verbose) in [("40", false), ("80", true), ("", false)] {
            let _ = if arguments[0] == "snapshot" { std::fs::remove_dir_all(snapshot) } else { Ok(()) };
            let mut command = whoseenv(&arguments);
            command.env("WHOSEENV_WIDTH", width).args(verbose.then_some("-v"));
            let human = ran(&mut command);
            assert!([0, 1, 3, 4, 5].contains(&human.code), "{arguments:?}: {} {}", human.code, human.stderr);
            assert_eq!(raw(&human.stdout), None, "{arguments:?} at {width}: {:?}", human.stdout);
            assert_eq!(raw(&human.stderr), None, "{arguments:?} at {width}: {:?}", human.stderr);
        }
        let _ = if arguments[0] == "snapshot" { std::fs::remove_dir_all(snapshot) } else { Ok(()) };
        let json = ran(whoseenv(&arguments).arg("--json"));
        envelope(&json);
        assert_eq!(raw(&json.stdout), None, "{arguments:?} --json");
        if arguments.contains(&"ps") {
            let lines = ran(whoseenv(&arguments).args(["--format", "ndjson"])).stdout;
            assert!(lines.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "{arguments:?}");
        }
    }
}

#[test]
fn a_zombie_and_a_thread_of_the_kernel_have_no_environment_and_are_told() {
    let parent = Puppet::new(&[b"puppet"], &[b"PUPPET=zombie", b"DISPLAY=:7"]);
    let zombie = run(&["show", &parent.said, "--json"]);
    assert_eq!(zombie.code, 0, "{}", zombie.stderr);
    let document = envelope(&zombie);
    assert_eq!((&document["data"]["process"]["state"], &document["data"]["environment"]), (&json!("Z"), &json!([])));
    assert!(text(&document["notes"]).contains("a zombie has no environment"), "{:#}", document["notes"]);
    assert_eq!(envelope(&run(&["diff", &parent.said, "--json"]))["data"]["a"].get("unreadable"), None);
    // Where pid 2 is in sight it is the kernel's.
    if std::fs::read_to_string("/proc/2/comm").is_ok_and(|comm| comm.trim() == "kthreadd") {
        let kernel = run(&["show", "2", "--json"]);
        assert_eq!(kernel.code, 0);
        assert!(text(&envelope(&kernel)["notes"]).contains("a thread of the kernel has no environment"), "{}", kernel.stdout);
    }
}

#[test]
fn a_block_that_was_written_over_is_told() {
    let puppet = Puppet::new(&[b"puppet"], &[b"PUPPET=title:worker [idle]", b"DISPLAY=:7", b"HOME=/home/somebody/with/a/long/path"]);
    let show = run(&["show", &puppet.pid(), "--json"]);
    let document = envelope(&show);
    assert!(document["findings"].as_array().unwrap().iter().any(|finding| finding["id"] == "environ.overwritten"), "{document:#}");
    assert!(document["data"]["environment"].as_array().unwrap().iter().all(|row| row["name"] != "DISPLAY"));
    let diff = envelope(&run(&["diff", &puppet.pid(), "--json"]));
    assert!(text(&diff["notes"]).contains("wrote over its environment block"), "{:#}", diff["notes"]);
}

/// In the middle of an execve the kernel gives an empty block. What begins is asked again: never "nothing is set".
#[test]
fn a_process_in_the_middle_of_an_execve_has_its_environment() {
    let script = r#"[ -t 3 ]; exec sh -c "$AGAIN""#;
    let mut command = Command::new("sh");
    command.args(["-c", script]).env_clear().env("AGAIN", script).env("PATH", "/usr/bin:/bin").stdin(Stdio::null());
    let process = Sleeper::of(&mut command);
    let (mut empty, mut looked) = (0, 0);
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(8) && looked < 150 {
        let shown = run(&["show", &process.pid(), "--json"]);
        assert_eq!(shown.code, 0, "{} {}", shown.stdout, shown.stderr);
        let document = shown.json();
        let rows = document["data"]["environment"].as_array().expect("rows");
        empty += usize::from(!rows.iter().any(|row| row["name"] == "AGAIN"));
        looked += 1;
    }
    assert_eq!(empty, 0, "of {looked}");
    // What was started with an empty environment has one, and nobody waits for it.
    let bare = Sleeper::start(&[]);
    let begin = Instant::now();
    let shown = run(&["show", &bare.pid(), "--json"]);
    assert_eq!((shown.code, shown.json()["data"]["environment"].as_array().map(Vec::len)), (0, Some(0)), "{}", shown.stdout);
    assert!(begin.elapsed() < Duration::from_secs(3));
}

#[test]
fn a_decoy_is_no_agent() {
    let decoy = Puppet::new(&[b"opencode", b"serve", b"--service"], &[b"PUPPET=name:opencode", b"OPENCODE=1"]);
    let document = envelope(&run(&["ps", "--json"]));
    let rows = document["data"]["processes"].as_array().unwrap();
    assert!(rows.iter().all(|row| row["pid"] != decoy.pid().parse::<u32>().unwrap()), "{document:#}");
}

#[test]
fn what_may_not_be_read_is_unknown_and_exit_4() {
    need!(own_root());
    need!(tool("setpriv", "util-linux"));
    let (_dir, program) = public();
    let sleeper = Sleeper::start(&[("DISPLAY", ":77"), ("SSH_AUTH_SOCK", "/tmp/none")]);
    let show = as_nobody("", &program, &["show", &sleeper.pid(), "--json"]);
    assert_eq!(show.code, 4, "{}", show.stdout);
    let document = envelope(&show);
    assert_eq!(document["status"], "not_permitted");
    assert_eq!(document["data"]["process"]["comm"], "sleep", "what may be seen is shown");
    let diff = as_nobody("", &program, &["diff", &sleeper.pid(), "--json"]);
    assert_eq!(diff.code, 4, "{}", diff.stdout);
    assert!(envelope(&diff)["data"]["variables"].as_array().unwrap().iter().all(|row| row["state"] == "unknown"));
    let owner = as_nobody("", &program, &["owner", "DISPLAY", &sleeper.pid(), "--json"]);
    assert_eq!((owner.code, &envelope(&owner)["data"]["liveness"]["state"]), (4, &json!("unknown")));
    let human = as_nobody("", &program, &["owner", "DISPLAY", &sleeper.pid()]);
    assert_eq!(human.stdout.lines().next(), Some("DISPLAY, whose value is not known"), "{}", human.stdout);
    let all = as_nobody("", &program, &["ps", "--all", "--json"]);
    assert_eq!(all.code, 0, "nobody asked about that process: a note");
    assert!(text(&envelope(&all)["notes"]).contains("could not be read"));
}

#[test]
fn hidepid_is_told_and_nothing_is_sure_then() {
    need!(own_root());
    need!(tool("unshare", "util-linux"));
    let (_dir, program) = public();
    let mounted = "mount -t proc -o hidepid=2 proc /proc || exit 99";
    let ps = as_nobody(mounted, &program, &["ps"]);
    if ps.code == 99 {
        skip!("/proc cannot be mounted here");
    }
    assert_eq!(ps.code, 0, "{}", ps.stderr);
    assert!(!ps.stdout.contains("No agent runs here"), "{}", ps.stdout);
    assert!(ps.stdout.contains("could not be seen") && ps.stdout.contains("hidepid=invisible"), "{}", ps.stdout);
    let doctor = as_nobody(mounted, &program, &["doctor"]);
    assert!(!doctor.stdout.contains("No agent daemon runs here") && !doctor.stdout.contains("Nothing wrong."), "{}", doctor.stdout);
    assert!(doctor.stdout.contains("hidepid=invisible"), "{}", doctor.stdout);
    let hidden = as_nobody(mounted, &program, &["show", "1", "--json"]);
    assert_eq!((hidden.code, &envelope(&hidden)["status"]), (4, &json!("not_permitted")));
    assert_eq!(as_nobody(mounted, &program, &["show", "4194301"]).code, 3, "nobody has that pid");
    let agent = as_nobody(mounted, &program, &["diff", "zeroclaw"]);
    assert_eq!(agent.code, 4, "{}", agent.stderr);
    assert!(agent.stderr.contains("hidepid=invisible"), "{}", agent.stderr);
    for arguments in [["ps", "--pid", "1"], ["doctor", "--pid", "1"]] {
        assert_eq!(as_nobody(mounted, &program, &arguments).code, 4, "{arguments:?}: it is there and hidden");
    }
    let closed = "mount -t proc -o hidepid=1 proc /proc || exit 99";
    assert_eq!(as_nobody(closed, &program, &["show", "1"]).code, 4);
    assert!(as_nobody(closed, &program, &["ps"]).stdout.contains("hidepid=noaccess"));
}

#[test]
fn a_mount_that_hangs_takes_only_what_is_on_it() {
    need!(own_root());
    let dir = tempfile::tempdir().unwrap();
    let hang = dir.path().join("hang");
    std::fs::create_dir(&hang).unwrap();
    let script = "exec 3<>/dev/fuse && mount -i -t fuse -o fd=3,rootmode=40000,user_id=0,group_id=0 none \"$HANG\" || exit 99\n\
                  /usr/bin/env -i PATH=\"$HANG/bin:/usr/bin:/bin\" HOME=/nonexistent SSH_AUTH_SOCK=\"$HANG/agent\" LANG=C \"$@\" 3>&-\n\
                  code=$?; umount -l \"$HANG\"; exit $code";
    let hanging = |arguments: &[&str]| {
        let begin = Instant::now();
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", script, "sh", PROGRAM]).args(arguments).env("HANG", &hang).stdin(Stdio::null());
        (ran(&mut command), begin.elapsed())
    };
    let (owner, took) = hanging(&["owner", "SSH_AUTH_SOCK", "--json"]);
    if owner.code == 99 {
        skip!("/dev/fuse cannot be mounted here");
    }
    assert!(took < Duration::from_secs(4), "{took:?}");
    let liveness = envelope(&owner)["data"]["liveness"].clone();
    assert_eq!((owner.code, &liveness["state"]), (5, &json!("unknown")));
    assert!(text(&liveness).contains("did not answer in time"), "{liveness}");
    let (show, took) = hanging(&["show", "--json"]);
    assert!(took < Duration::from_secs(4), "{took:?}");
    let document = envelope(&show);
    let rows = document["data"]["environment"].as_array().unwrap();
    assert!(rows.iter().any(|row| row["name"] == "LANG" && row["value"] == "C"), "the rest is intact: {rows:?}");
    let (doctor, took) = hanging(&["doctor", "--json"]);
    assert!(took < Duration::from_secs(6), "{took:?}");
    assert_eq!(envelope(&doctor)["schema"], "whoseenv.doctor/1");
    let on_it = hang.join("snapshot");
    let (from, took) = hanging(&["--from", on_it.to_str().unwrap(), "ps"]);
    assert!(from.code == 74 && from.stderr.contains("did not answer in time") && took < Duration::from_secs(4), "{}", from.stderr);
}

#[test]
fn another_namespace_is_judged_in_its_own_view() {
    need!(own_root());
    let dir = tempfile::tempdir_in("/tmp").unwrap();
    let (here, there) = (dir.path().join("here"), dir.path().join("there"));
    let _listener = std::os::unix::net::UnixListener::bind(&here).unwrap();
    let script = "mount -t tmpfs none /tmp || exit 99; mkdir -p \"$1\"; exec \"$2\" x";
    let mut command = Command::new("unshare");
    // The private /tmp has the directory, and no socket in it.
    command.args(["-m", "-n", "sh", "-c", script, "sh", dir.path().to_str().unwrap(), "/bin/cat"]).env_clear();
    command.env("PATH", "/usr/bin:/bin").env("SSH_AUTH_SOCK", &here).env("DISPLAY", "localhost:77.0").env("XAUTHORITY", &there);
    let child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.unwrap();
    drop(child.stdin.take());
    let _ = child.wait();
    let script = "mount -t tmpfs none /tmp || exit 99; mkdir -p \"$1\"; exec sleep 60";
    let mut command = Command::new("unshare");
    command.args(["-m", "-n", "sh", "-c", script, "sh", dir.path().to_str().unwrap()]).env_clear();
    command.env("PATH", "/usr/bin:/bin").env("SSH_AUTH_SOCK", &here).env("DISPLAY", "localhost:77.0");
    let inside = Sleeper(command.spawn().unwrap());
    let comm = format!("/proc/{}/comm", inside.pid());
    for _ in 0..400 {
        if std::fs::read_to_string(&comm).is_ok_and(|comm| comm.trim() == "sleep") {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    if std::fs::read_to_string(&comm).is_ok_and(|comm| comm.trim() != "sleep") {
        skip!("namespaces cannot be made here");
    }
    let agent = envelope(&run(&["owner", "SSH_AUTH_SOCK", &inside.pid(), "--json"]));
    assert_eq!(agent["data"]["liveness"]["state"], "dangling", "its /tmp has no such socket: {agent:#}");
    let port = std::net::TcpListener::bind("127.0.0.1:6077");
    let display = envelope(&run(&["owner", "DISPLAY", &inside.pid(), "--json"]));
    assert_ne!(display["data"]["liveness"]["state"], "alive", "{port:?} is not in its network: {display:#}");
}

fn own_uid() -> String {
    rustix::process::geteuid().as_raw().to_string()
}

/// A registration file for the terminal that asks, and what doctor says of it.
fn registration(make: impl FnOnce(&Path)) -> (Ran, Value) {
    let home = tempfile::tempdir().unwrap();
    let state = home.path().join(".local/state/opencode");
    std::fs::create_dir_all(&state).unwrap();
    make(&state.join("service.json"));
    let begin = Instant::now();
    let mut command = whoseenv(&["doctor", "--json", "--agent", "opencode", "--user", &own_uid()]);
    let ran = ran(command.env("HOME", home.path()));
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    let document = envelope(&ran);
    assert!(!ran.stdout.contains("canary"), "{}", ran.stdout);
    // Of another agent, account or process it is none.
    for narrowed in [["--agent", "aider"], ["--user", "nobody"], ["--pid", &std::process::id().to_string()]] {
        let mut command = whoseenv(&["doctor", "--json"]);
        let narrowed = self::ran(command.args(narrowed).env("HOME", home.path()));
        assert!(!narrowed.stdout.contains("opencode/service.json"), "{}", narrowed.stdout);
    }
    (ran, document)
}

fn messages(document: &Value, id: &str) -> Vec<String> {
    let findings = document["findings"].as_array().unwrap().iter().filter(|finding| finding["id"] == id);
    findings.map(|finding| finding["message"].as_str().unwrap().to_owned()).collect()
}

fn private(path: &Path, text: &[u8]) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

const LINE: &[u8] = br#"{"id":"i","version":"2.0.24","url":"http://127.0.0.1:1","pid":4194301,"password":"canary"}"#;

#[test]
fn a_registration_file_that_cannot_be_used_is_explained() {
    let said = |make: &dyn Fn(&Path)| {
        let (ran, document) = registration(make);
        assert_eq!(ran.code, 1, "{}", ran.stdout);
        messages(&document, "registration.unreadable").join("\n")
    };
    assert!(said(&|path| private(path, &LINE[..LINE.len() - 9])).contains("half written"));
    assert!(said(&|path| private(path, b"")).contains("empty"));
    assert!(said(&|path| private(path, b"canary")).contains("no JSON"));
    let huge = said(&|path| private(path, &vec![b' '; 3 << 20]));
    assert!(huge.contains("3145728 bytes"), "{huge}");
    let link = said(&|path| {
        private(&path.with_file_name("elsewhere"), LINE);
        symlink("elsewhere", path).unwrap();
    });
    assert!(link.contains("symbolic link to elsewhere"), "{link}");
    assert!(said(&|path| std::fs::create_dir(path).unwrap()).contains("a directory"));
    if rustix::process::geteuid().is_root() {
        assert!(said(&|path| drop(symlink("/dev/zero", path))).contains("a device"));
        let other = said(&|path| {
            private(path, LINE);
            std::os::unix::fs::chown(path, Some(NOBODY), None).unwrap();
        });
        assert!(other.contains(&format!("belongs to uid {NOBODY}")), "{other}");
    }
    let (ran, open) = registration(|path| {
        private(path, LINE);
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o644)).unwrap();
    });
    assert_eq!((ran.code, messages(&open, "registration.exposed").len()), (1, 1), "{open:#}");
    assert_eq!(messages(&open, "registration.pid").len(), 1, "the process it names has ended: {open:#}");
}

#[test]
fn a_fifo_for_a_registration_is_not_opened_and_no_writer_is_woken() {
    let (sender, woken) = std::sync::mpsc::channel();
    let (ran, document) = registration(|path| {
        assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
        let path = path.to_owned();
        std::thread::spawn(move || {
            // Waits for a reader, which must never come.
            let opened = std::fs::OpenOptions::new().write(true).open(path);
            let _ = sender.send(opened.is_ok());
        });
        std::thread::sleep(Duration::from_millis(50));
    });
    assert_eq!(ran.code, 1);
    assert!(messages(&document, "registration.unreadable").join("").contains("a FIFO"), "{document:#}");
    assert!(!matches!(woken.try_recv(), Ok(true)), "the writer was woken");
}

#[test]
fn a_bare_machine_is_enough() {
    let bare = |arguments: &[&str]| {
        let mut command = Command::new(PROGRAM);
        ran(command.args(arguments).env_clear().stdin(Stdio::null()).current_dir("/"))
    };
    for arguments in [vec!["doctor", "--agent", "aider"], vec!["show"], vec!["ps"], vec!["ps", "--all"], vec!["doctor", "--demo"]] {
        let ran = bare(&arguments);
        assert!([0, 1].contains(&ran.code), "{arguments:?}: {}: {}", ran.code, ran.stderr);
        assert!(!ran.stdout.is_empty() && ran.stderr.is_empty(), "{arguments:?}: {}", ran.stderr);
    }
    assert_eq!(bare(&["owner", "DISPLAY"]).code, 3, "no variable at all");
    assert_eq!(bare(&["show", "login-shell"]).code, 0);
    assert_eq!(bare(&["show", "tmux:none"]).code, 3);
}

#[test]
fn closed_stdin_and_stdout_are_no_reason_to_panic() {
    for redirect in ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"] {
        for arguments in ["ps --all", "show 4194301", "doctor --demo --json", "frobnicate"] {
            let output = Command::new("sh").arg("-c").arg(format!("{PROGRAM} {arguments} {redirect}")).output().unwrap();
            let code = output.status.code().unwrap();
            assert!([0, 1, 2, 3].contains(&code), "{arguments} {redirect}: {code}");
            assert!(!String::from_utf8_lossy(&output.stderr).contains("bug at"), "{arguments} {redirect}");
        }
    }
}

#[test]
fn a_reader_that_reads_one_line_gets_it() {
    for arguments in [vec!["ps", "--all"], vec!["ps", "--all", "--format", "ndjson"], vec!["doctor", "--demo", "--json"]] {
        let mut child = whoseenv(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut first = [0u8; 16];
        child.stdout.take().unwrap().read_exact(&mut first).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(matches!(output.status.code(), Some(0 | 1)) && output.stderr.is_empty(), "{arguments:?}: {:?}", output.status);
    }
}

#[test]
fn arguments_that_are_not_utf_8_are_a_usage_error() {
    let odd = std::ffi::OsStr::from_bytes(b"\xff\x1b[31m");
    for before in [vec![], vec!["show"], vec!["owner"], vec!["diff"], vec!["ps", "--user"]] {
        let mut command = whoseenv(&before);
        let output = command.arg(odd).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{before:?}");
        assert!(!output.stderr.is_empty());
        let json = whoseenv(&before).arg(odd).arg("--json").output().unwrap();
        assert_eq!(json.status.code(), Some(2));
        assert_eq!(serde_json::from_slice::<Value>(&json.stdout).unwrap()["status"], "failed", "{before:?}");
    }
    let from = whoseenv(&["ps", "--from"]).arg(odd).output().unwrap();
    assert_eq!((from.status.code(), raw(&String::from_utf8_lossy(&from.stderr))), (Some(3), None));
}

#[test]
fn a_file_reference_reads_regular_files_only() {
    let dir = tempfile::tempdir().unwrap();
    let named = |name: &str| format!("file:{}", dir.path().join(name).display());
    assert!(Command::new("mkfifo").arg(dir.path().join("fifo")).status().unwrap().success());
    let fifo = run(&["show", &named("fifo")]);
    assert!(fifo.code == 2 && fifo.stderr.contains("a FIFO, not a regular file"), "{}", fifo.stderr);
    std::fs::File::create(dir.path().join("huge")).unwrap().set_len(300 << 20).unwrap();
    let huge = run(&["show", &named("huge")]);
    assert!(huge.code == 2 && huge.stderr.contains("314572800 bytes"), "{}", huge.stderr);
    assert_eq!(run(&["show", "file:/dev/zero"]).code, 2);
    assert_eq!(run(&["show", &named("none")]).code, 3);
    assert_eq!(run(&["show", &named("")]).code, 2, "a directory");
    assert_eq!(run(&["show", "file:/proc/self/environ"]).code, 0);
}

#[test]
fn a_user_file_that_is_broken_is_named_with_its_line() {
    let dir = tempfile::tempdir().unwrap();
    let own = dir.path().join("whoseenv");
    std::fs::create_dir(&own).unwrap();
    for name in ["variables.toml", "agents.toml"] {
        let file = own.join(name);
        let asked = |arguments: &[&str]| ran(whoseenv(arguments).env("XDG_CONFIG_HOME", dir.path()));
        for (broken, line) in [(&b"# fine\n\nid = = 3\n"[..], "line 3"), (b"# fine\n\xff\n", "line 2")] {
            std::fs::write(&file, broken).unwrap();
            let human = asked(&["ps"]);
            assert_eq!(human.code, 2, "{}", human.stderr);
            assert!(human.stderr.contains(file.to_str().unwrap()) && human.stderr.contains(line), "{}", human.stderr);
            assert!(!human.stderr.contains("\\n") && human.stderr.lines().count() == 3, "the message is one line: {}", human.stderr);
            assert_eq!(asked(&["ps", "--json"]).json()["status"], "failed");
        }
        std::fs::remove_file(&file).unwrap();
        assert!(Command::new("mkfifo").arg(&file).status().unwrap().success());
        let fifo = asked(&["ps"]);
        assert!(fifo.code == 2 && fifo.stderr.contains("a FIFO"), "{}", fifo.stderr);
        assert_eq!(asked(&["doctor", "--demo"]).code, 1, "not read for a snapshot");
        std::fs::remove_file(&file).unwrap();
    }
}

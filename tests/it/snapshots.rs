//! Bad snapshots, and good ones: what is damaged is said and undetermined, the rest answers as the machine did.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::puppet::Puppet;
use crate::run::{PROGRAM, Ran, ran, run, whoseenv};

/// A few processes with odd environments, sockets that live and sockets that do not, and a snapshot of them.
struct Machine {
    puppets: Vec<Puppet>,
    dir: tempfile::TempDir,
    _agent: UnixListener,
}

const KEY: &str = "a key for the tests";

fn keyed(arguments: &[&str]) -> Command {
    let mut command = whoseenv(arguments);
    command.env("WHOSEENV_FINGERPRINT_KEY", KEY).env("LANG", "C.UTF-8").env("DISPLAY", ":79").env("API_TOKEN", "Xy1");
    command
}

impl Machine {
    fn new() -> Machine {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("agent");
        let agent = UnixListener::bind(&socket).unwrap();
        let alive = format!("SSH_AUTH_SOCK={}", socket.display());
        let gone = format!("SSH_AUTH_SOCK={}", dir.path().join("gone").display());
        let secret_path = format!("MY_PRIVATE_SOCKET={}", socket.display());
        let path = format!("PATH={}:/usr/bin:/nonexistent", dir.path().display());
        let first: Vec<&[u8]> = vec![
            b"LANG=C",
            b"LANG=D",
            b"lonely",
            b"EMPTY=",
            b"DISPLAY=localhost:78.0",
            b"SSH_CONNECTION=192.0.2.7 50022 192.0.2.1 22",
            b"HOME=/nonexistent",
            alive.as_bytes(),
            secret_path.as_bytes(),
            path.as_bytes(),
            b"LC_X=v\xff",
            b"N\xff=v",
            b"INNOCENT=value",
            b"DBUS_SESSION_BUS_ADDRESS=unix:path=/nonexistent/bus",
        ];
        let second: Vec<&[u8]> = vec![b"LANG=C", b"DISPLAY=:77", gone.as_bytes(), b"PATH=/bin", b"INNOCENT=value", b"GH_TOKEN=abc"];
        let argv: [&[u8]; 4] = [b"puppet", b"--token", b"hush-hush", b"serve"];
        let puppets = vec![
            Puppet::new(&argv, &first),
            Puppet::new(&[b"puppet"], &second),
            Puppet::new(&[b"puppet"], &[b"PUPPET=title:idle", b"DISPLAY=:7", b"A=some length to write over"]),
            Puppet::new(&[b""], &[]),
        ];
        Machine { puppets, dir, _agent: agent }
    }

    fn pids(&self) -> Vec<String> {
        self.puppets.iter().map(Puppet::pid).collect()
    }

    fn snapshot(&self, name: &str, more: &[&str]) -> PathBuf {
        let path = self.dir.path().join(name);
        let mut command = keyed(&["snapshot", path.to_str().unwrap(), "--json"]);
        for pid in self.pids() {
            command.args(["--pid", &pid]);
        }
        let taken = ran(command.args(more));
        assert_eq!(taken.code, 0, "{} {}", taken.stdout, taken.stderr);
        path
    }
}

fn from(dir: &Path, arguments: &[&str]) -> Ran {
    ran(keyed(&["--from", dir.to_str().unwrap()]).args(arguments))
}

/// Times and ages replaced: a snapshot was taken at another moment.
fn timeless(value: &mut Value) {
    match value {
        Value::Object(object) => {
            for (key, value) in object.iter_mut() {
                if matches!(key.as_str(), "taken_at" | "at" | "age_ms" | "start_time") && !value.is_object() {
                    *value = json!(0);
                }
                timeless(value);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(timeless),
        _ => {}
    }
}

fn answer(ran: &Ran) -> (Value, i32) {
    let mut document = ran.json();
    timeless(&mut document);
    (document, ran.code)
}

/// Every captured fact of two machines taken away, one at a time: what argued from it is undetermined or gone, and nothing is
/// confirmed that was not before.
#[test]
fn no_fact_that_is_missing_makes_a_finding_confirmed() {
    let confirmed = |document: &Value| -> Vec<(String, String)> {
        let all = document["findings"].as_array().unwrap().iter().filter(|finding| finding["outcome"] == "confirmed");
        all.map(|finding| (finding["id"].to_string(), finding["subject"].to_string())).collect()
    };
    for machine in ["demo", "foreign"] {
        let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(machine);
        let dir = tempfile::tempdir().unwrap();
        let copy = dir.path().join("copy");
        assert!(Command::new("cp").arg("-r").args([&fixture, &copy]).status().unwrap().success());
        let before = confirmed(&from(&copy, &["doctor", "--json"]).json());
        let manifest: Value = serde_json::from_slice(&std::fs::read(fixture.join("manifest.json")).unwrap()).unwrap();
        for (file, listed) in manifest["files"].as_object().unwrap().iter().filter(|(file, _)| *file != "machine.json") {
            let whole = std::fs::read(copy.join(file)).unwrap();
            let facts: serde_json::Map<String, Value> = serde_json::from_slice(&whole).unwrap();
            for key in listed["facts"].as_object().unwrap().keys() {
                let mut less = facts.clone();
                less.remove(key);
                std::fs::write(copy.join(file), serde_json::to_vec(&less).unwrap()).unwrap();
                let document = from(&copy, &["doctor", "--json"]).json();
                for finding in confirmed(&document) {
                    // That the snapshot lacks it is itself confirmed.
                    let new = !before.contains(&finding) && !finding.0.contains("snapshot.");
                    assert!(!new, "{machine} without {file} {key}: {finding:?}");
                }
            }
            std::fs::write(copy.join(file), whole).unwrap();
        }
    }
}

fn findings(document: &Value, id: &str) -> usize {
    document["findings"].as_array().expect("an envelope").iter().filter(|finding| finding["id"] == id).count()
}

fn edit(path: &Path, change: impl FnOnce(&mut Value)) {
    let mut value: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    change(&mut value);
    std::fs::write(path, serde_json::to_vec_pretty(&value).unwrap()).unwrap();
}

#[test]
fn a_snapshot_answers_as_the_machine_did() {
    let machine = Machine::new();
    let snapshot = machine.snapshot("snapshot", &[]);
    let pids = machine.pids();
    let mut commands: Vec<Vec<&str>> = vec![vec!["show"], vec!["doctor", "--agent", "aider"], vec!["owner", "DISPLAY"]];
    for pid in &pids {
        commands.extend([vec!["show", pid], vec!["diff", pid], vec!["diff", "self", pid], vec!["diff", pid, &pids[0]]]);
        commands.push(vec!["doctor", "--agent", "aider", "--against", pid]);
        commands.push(vec!["ps", "--all", "--names", "--pid", pid]);
        for name in ["DISPLAY", "SSH_AUTH_SOCK", "MY_PRIVATE_SOCKET", "DBUS_SESSION_BUS_ADDRESS", "SSH_CONNECTION", "PATH", "NOT_SET"] {
            commands.push(vec!["owner", name, pid]);
        }
    }
    for command in commands {
        let live = answer(&ran(keyed(&command).arg("--json")));
        let captured = answer(&from(&snapshot, &[&command[..], &["--json"]].concat()));
        assert_eq!(captured, live, "{command:?}");
    }
    assert_eq!(from(&snapshot, &["show", "1", "--json"]).json()["data"]["process"]["pid"], 1, "parents are kept");
}

#[test]
fn a_snapshot_is_private_and_holds_no_secret() {
    let machine = Machine::new();
    let snapshot = machine.snapshot("snapshot", &[]);
    let mut dirs = vec![snapshot];
    while let Some(dir) = dirs.pop() {
        assert_eq!(dir.metadata().unwrap().permissions().mode() & 0o7777, 0o700, "{dir:?}");
        for entry in std::fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
                continue;
            }
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o7777, 0o600, "{path:?}");
            let text = std::fs::read_to_string(&path).unwrap();
            assert!(!text.contains("hush-hush") && !text.contains("\"abc\""), "{path:?}");
        }
    }
}

#[test]
fn a_directory_that_is_no_snapshot_is_explained() {
    let machine = Machine::new();
    let whole = machine.snapshot("whole", &[]);
    let scratch = tempfile::tempdir().unwrap();
    let told = |make: &dyn Fn(&Path), code: i32, words: &str| {
        let dir = scratch.path().join("x");
        let _ = std::fs::remove_dir_all(&dir);
        copy(&whole, &dir);
        make(&dir);
        for arguments in [vec!["ps"], vec!["doctor"], vec!["show"]] {
            let said = from(&dir, &arguments);
            assert_eq!(said.code, code, "{arguments:?}: {} {}", said.stdout, said.stderr);
            assert!(said.stdout.is_empty() && said.stderr.contains(words), "{words}: {}", said.stderr);
            assert!(said.stderr.contains(dir.to_str().unwrap()), "{}", said.stderr);
            let json = from(&dir, &[&arguments[..], &["--json"]].concat()).json();
            assert!(json["error"]["message"].as_str().unwrap().contains(words), "{json:#}");
        }
        let reference = format!("snapshot:{}#1", dir.display());
        assert_eq!(run(&["show", &reference]).code, code, "{words}");
    };
    let manifest = |dir: &Path| dir.join("manifest.json");
    told(&|dir| std::fs::remove_dir_all(dir).unwrap(), 3, "no such file");
    told(&|dir| empty(dir), 74, "manifest.json");
    told(&|dir| std::fs::write(manifest(dir), "{").unwrap(), 74, "manifest.json");
    told(&|dir| std::fs::write(manifest(dir), "not JSON").unwrap(), 74, "manifest.json");
    told(&|dir| edit(&manifest(dir), |value| value["schema"] = json!("whoseenv.snapshot/9")), 74, "whoseenv.snapshot/9");
    told(&|dir| std::fs::remove_file(dir.join("machine.json")).unwrap(), 74, "machine.json");
    told(&|dir| std::fs::write(dir.join("machine.json"), "{}").unwrap(), 74, "machine.json");
    told(&|dir| std::fs::File::create(manifest(dir)).unwrap().set_len(300 << 20).unwrap(), 74, "314572800 bytes");
    told(
        &|dir| {
            std::fs::remove_file(manifest(dir)).unwrap();
            symlink("/etc/passwd", manifest(dir)).unwrap();
        },
        74,
        "leads out of the snapshot directory",
    );
    told(
        &|dir| {
            std::fs::remove_file(manifest(dir)).unwrap();
            assert!(Command::new("mkfifo").arg(manifest(dir)).status().unwrap().success());
        },
        74,
        "not a regular file",
    );
}

fn empty(dir: &Path) {
    std::fs::remove_dir_all(dir).unwrap();
    std::fs::create_dir(dir).unwrap();
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else {
            std::fs::copy(&path, &target).unwrap();
        }
    }
}

/// What happens to one file of a snapshot, and the finding that tells it.
type Damage = (&'static str, &'static dyn Fn(&Path), &'static str);

#[test]
fn damage_to_one_file_is_told_and_leaves_the_rest() {
    let machine = Machine::new();
    let whole = machine.snapshot("whole", &[]);
    let pids = machine.pids();
    let scratch = tempfile::tempdir().unwrap();
    let damages: [Damage; 9] = [
        ("cut", &|file| cut(file), "snapshot.incomplete"),
        ("deleted", &|file| std::fs::remove_file(file).unwrap(), "snapshot.incomplete"),
        ("no JSON", &|file| std::fs::write(file, "\x1b[31m{{{").unwrap(), "snapshot.incomplete"),
        ("value edited", &|file| edit(file, |facts| facts["stat"]["value"]["euid"] = json!(1)), "snapshot.altered"),
        ("key deleted", &|file| edit(file, |facts| drop(facts.as_object_mut().unwrap().remove("stat"))), "snapshot.incomplete"),
        (
            "a link that leads out",
            &|file| {
                std::fs::remove_file(file).unwrap();
                symlink("/etc/passwd", file).unwrap();
            },
            "snapshot.incomplete",
        ),
        (
            "a FIFO",
            &|file| {
                std::fs::remove_file(file).unwrap();
                assert!(Command::new("mkfifo").arg(file).status().unwrap().success());
            },
            "snapshot.incomplete",
        ),
        (
            "a directory",
            &|file| {
                std::fs::remove_file(file).unwrap();
                std::fs::create_dir(file).unwrap();
            },
            "snapshot.incomplete",
        ),
        ("300 MB", &|file| std::fs::File::create(file).unwrap().set_len(300 << 20).unwrap(), "snapshot.incomplete"),
    ];
    let other = |dir: &Path| {
        let (mut document, code) = answer(&from(dir, &["show", &pids[1], "--json"]));
        document["findings"] = json!([]);
        document["status"] = json!(null);
        (document, [0, 1, 5].contains(&code))
    };
    let expected = other(&whole);
    for (what, damage, id) in damages {
        let dir = scratch.path().join("x");
        let _ = std::fs::remove_dir_all(&dir);
        copy(&whole, &dir);
        damage(&dir.join(format!("processes/{}.json", pids[0])));
        let shown = from(&dir, &["show", &pids[0], "--json"]);
        assert!([1, 5].contains(&shown.code), "{what}: {} {}", shown.code, shown.stdout);
        assert_ne!(shown.json()["status"], "ok");
        let human = from(&dir, &["show", &pids[0]]);
        assert!(!human.stdout.contains('\x1b') && !human.stderr.contains('\x1b'), "{what}");
        assert_eq!(other(&dir), expected, "{what}: another process answers as before");
        let all = from(&dir, &["ps", "--all", "--json"]);
        assert!(findings(&all.json(), id) >= 1, "{what}: {}", all.stdout);
        let code = if id == "snapshot.altered" { 1 } else { 5 };
        assert_eq!(all.code, code, "{what}: {}", all.stdout);
        let pid: u32 = pids[1].parse().unwrap();
        assert!(all.json()["data"]["processes"].as_array().unwrap().iter().any(|row| row["pid"] == pid), "{what}");
    }
}

fn cut(file: &Path) {
    let text = std::fs::read(file).unwrap();
    std::fs::write(file, &text[..text.len() / 2]).unwrap();
}

#[test]
fn no_name_in_a_manifest_leads_out() {
    let machine = Machine::new();
    let whole = machine.snapshot("whole", &[]);
    let outside = machine.dir.path().join("outside.json");
    std::fs::write(&outside, r#"{"stat":{"value":"secret-of-another-directory"}}"#).unwrap();
    let absolute = outside.to_str().unwrap().to_owned();
    for name in ["../outside.json", absolute.as_str(), "processes/../../outside.json", "/proc/self/environ", "processes/\u{1b}[31m.json"] {
        let dir = machine.dir.path().join("x");
        let _ = std::fs::remove_dir_all(&dir);
        copy(&whole, &dir);
        edit(&dir.join("manifest.json"), |manifest| {
            let listed = json!({"sha256": "0", "facts": {"stat": "0"}});
            manifest["files"].as_object_mut().unwrap().insert(name.to_owned(), listed);
        });
        for arguments in [&["ps", "--all", "--json"][..], &["ps", "--all"], &["doctor"]] {
            let said = from(&dir, arguments);
            assert!([1, 5].contains(&said.code), "{name}: {} {}", said.code, said.stderr);
            assert!(!said.stdout.contains("secret-of-another-directory") && !said.stdout.contains('\u{1b}'), "{name}");
        }
        assert!(findings(&from(&dir, &["ps", "--json"]).json(), "snapshot.incomplete") >= 1, "{name}");
    }
}

#[test]
fn facts_that_the_manifest_does_not_list_are_not_believed() {
    let machine = Machine::new();
    let snapshot = machine.snapshot("snapshot", &[]);
    let pid = &machine.pids()[0];
    let before = answer(&from(&snapshot, &["show", pid, "--json"]));
    edit(&snapshot.join(format!("processes/{pid}.json")), |facts| facts["fds"] = json!({"value": [{"fd": 0, "target": "/etc/shadow"}]}));
    std::fs::write(snapshot.join("processes/4194300.json"), r#"{"stat":{"value":1}}"#).unwrap();
    assert_eq!(answer(&from(&snapshot, &["show", pid, "--json"])), before);
    assert_eq!(from(&snapshot, &["show", "4194300"]).code, 3);
}

/// Deletes one fact from file and manifest's view alike: the file loses it, the manifest says that it was there.
fn lose(dir: &Path, file: &str, key: &str) {
    edit(&dir.join(file), |facts| assert!(facts.as_object_mut().unwrap().remove(key).is_some(), "{file} has no {key}"));
}

fn row<'v>(document: &'v Value, name: &str) -> &'v Value {
    let rows = document["data"]["environment"].as_array().unwrap();
    rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("no {name} in {document:#}"))
}

#[test]
fn one_lost_fact_leaves_undetermined_what_depends_on_it_and_nothing_else() {
    let machine = Machine::new();
    let whole = machine.snapshot("whole", &[]);
    let pid = &machine.pids()[0];
    let process = format!("processes/{pid}.json");
    let socket = machine.dir.path().join("agent").display().to_string();
    let lost = |file: &str, key: &str| {
        let dir = machine.dir.path().join("x");
        let _ = std::fs::remove_dir_all(&dir);
        copy(&whole, &dir);
        lose(&dir, file, key);
        let ran = from(&dir, &["show", pid, "--json"]);
        assert_eq!(ran.code, 5, "{file} {key}: {}", ran.stdout);
        let document = ran.json();
        assert_eq!((&document["status"], findings(&document, "snapshot.incomplete")), (&json!("undetermined"), 1));
        document
    };
    let before = from(&whole, &["show", pid, "--json"]).json();
    let states = |document: &Value, but: &str| {
        let rows = document["data"]["environment"].as_array().unwrap().clone();
        rows.into_iter()
            .filter(|row| row["name"] != but)
            .map(|row| (row["name"].clone(), row["liveness"]["state"].clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(row(&before, "SSH_AUTH_SOCK")["liveness"]["state"], "alive");
    assert_eq!(row(&before, "DISPLAY")["liveness"]["state"], "refused");

    let environ = lost(&process, "environ");
    assert!(environ["data"]["process"]["unreadable"].as_str().unwrap().contains("does not hold"), "{environ:#}");
    assert_eq!(environ["data"]["chain"], before["data"]["chain"], "the parents are known all the same");

    let path = lost("paths/ours.json", &socket);
    assert_eq!(row(&path, "SSH_AUTH_SOCK")["liveness"]["state"], "unknown");
    let others = |document: &Value| {
        let mut states = states(document, "SSH_AUTH_SOCK");
        // It names the same socket.
        states.retain(|(name, _)| name != "MY_PRIVATE_SOCKET");
        states
    };
    assert_eq!(others(&path), others(&before));

    let tcp = lost("net/ours.json", "tcp");
    assert_eq!(row(&tcp, "DISPLAY")["liveness"]["state"], "unknown");
    assert_eq!(row(&tcp, "SSH_AUTH_SOCK")["liveness"]["state"], "alive");

    let unix = lost("net/ours.json", "unix");
    assert_eq!(row(&unix, "SSH_AUTH_SOCK")["liveness"]["state"], "unknown");
    assert_eq!(row(&unix, "DISPLAY")["liveness"]["state"], "refused");

    let exe = lost(&process, "exe");
    assert_eq!(exe["data"]["process"].get("exe"), None);
    assert_eq!(states(&exe, ""), states(&before, ""));

    let dir = machine.dir.path().join("x");
    let _ = std::fs::remove_dir_all(&dir);
    copy(&whole, &dir);
    lose(&dir, "terminal.json", "terminal");
    let doctor = from(&dir, &["doctor", "--json", "--agent", "aider"]);
    assert_eq!(doctor.code, 5, "{}", doctor.stdout);
    assert_eq!(from(&dir, &["diff", pid, "--json"]).json()["status"], "undetermined");
    assert!(states(&from(&dir, &["show", pid, "--json"]).json(), "") == states(&before, ""));
}

#[test]
fn where_no_snapshot_can_be_written_nothing_stays() {
    let machine = Machine::new();
    let pid = &machine.pids()[0];
    let existing = machine.dir.path().join("existing");
    std::fs::create_dir(&existing).unwrap();
    let again = run(&["snapshot", existing.to_str().unwrap(), "--pid", pid]);
    assert!(again.code == 2 && again.stderr.contains("exists already"), "{}", again.stderr);
    assert_eq!(std::fs::read_dir(&existing).unwrap().count(), 0);
    let nowhere = run(&["snapshot", "/nonexistent/there/x", "--pid", pid]);
    assert!(nowhere.code == 74 && nowhere.stderr.contains("/nonexistent/there/x"), "{}", nowhere.stderr);
    let proc = run(&["snapshot", "/proc/x", "--pid", pid]);
    assert_eq!(proc.code, 74, "{}", proc.stderr);
    let none = machine.dir.path().join("none");
    assert_eq!(run(&["snapshot", none.to_str().unwrap(), "--pid", "4194301"]).code, 3);
    assert!(!none.exists());
    let whole = machine.snapshot("whole", &[]);
    let twice = from(&whole, &["snapshot", none.to_str().unwrap()]);
    assert!(twice.code == 2 && twice.stderr.contains("cp -a"), "{}", twice.stderr);
    assert!(!none.exists());
}

#[test]
fn a_full_file_system_keeps_no_half_snapshot() {
    if !rustix::process::geteuid().is_root() {
        skip!("mounting takes root");
    }
    let machine = Machine::new();
    let full = machine.dir.path().join("full");
    std::fs::create_dir(&full).unwrap();
    let script = "mount -t tmpfs -o size=16k none \"$1\" || exit 99; shift; \"$@\"; code=$?; ls -A \"$FULL\" >&2; exit $code";
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", script, "sh"]).arg(&full).args([PROGRAM, "snapshot"]).arg(full.join("x"));
    let ran = ran(command.args(["--pid", &machine.pids()[0]]).env("FULL", &full).stdin(Stdio::null()));
    if ran.code == 99 {
        skip!("a tmpfs cannot be mounted here");
    }
    assert_eq!(ran.code, 74, "{}", ran.stderr);
    assert!(ran.stderr.contains("No space left on device"), "{}", ran.stderr);
    assert!(!ran.stderr.lines().any(|line| line == "x"), "{}", ran.stderr);
}

#[test]
fn with_anonymize_no_name_of_a_person_remains() {
    let dir = tempfile::tempdir().unwrap();
    let person = "zaphodbx";
    let home = format!("/srv/people/{person}");
    let block: Vec<String> = [
        format!("HOME={home}"),
        format!("USER={person}"),
        format!("LOGNAME={person}"),
        format!("XAUTHORITY={home}/.Xauthority"),
        format!("PWD={home}/work"),
        format!("PATH={home}/bin:/usr/bin"),
        format!("LC_X=a\n{person}"),
        "SSH_CONNECTION=203.0.113.99 50022 198.18.7.7 22".to_owned(),
        "SSH_CLIENT=203.0.113.99 50022 22".to_owned(),
        "DISPLAY=zaphods-laptop:0".to_owned(),
        "LANG=C".to_owned(),
    ]
    .into();
    let entries: Vec<&[u8]> = block.iter().map(String::as_bytes).collect();
    let account = std::fs::read_to_string("/etc/passwd").unwrap();
    assert!(!account.contains(person));
    // Who runs as an account of the machine's own is a person from uid 1000 on; as root, the process is made one.
    let Ok(setpriv) = crate::world::need::tool("setpriv", "util-linux") else { return };
    if !rustix::process::geteuid().is_root() {
        skip!("another account's processes take root");
    }
    let public = tempfile::Builder::new().prefix("whoseenv-bad-").tempdir_in("/tmp").unwrap();
    std::fs::set_permissions(public.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let helper = public.path().join("puppet");
    std::fs::copy(crate::puppet::program(), &helper).unwrap();
    let mut command = Command::new(setpriv);
    command.args(["--reuid=61234", "--regid=61234", "--clear-groups", "--"]).arg(&helper).arg("rest").env_clear();
    command.envs(block.iter().map(|entry| entry.split_once('=').unwrap())).current_dir("/");
    let puppet = Puppet::start(&mut command, tempfile::tempdir().unwrap());
    assert_eq!(entries.len(), block.len());
    let pid = puppet.pid();
    let snapshot = dir.path().join("snapshot");
    let asked = |arguments: &[&str]| ran(keyed(arguments).arg("--anonymize"));
    let taken = asked(&["snapshot", snapshot.to_str().unwrap(), "--pid", &pid]);
    assert_eq!(taken.code, 0, "{}", taken.stderr);
    let hostname = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap().trim().to_owned();
    let names = [person, &home, "203.0.113.99", "198.18.7.7", "zaphods-laptop"];
    let clean = |what: &str, text: &str| {
        for name in names {
            assert!(!text.contains(name), "{name} in {what}: {text}");
        }
        let word = |at: usize| text[..at].chars().next_back().is_some_and(char::is_alphanumeric);
        let whole =
            text.match_indices(&hostname).any(|(at, _)| !word(at) && !text[at + hostname.len()..].starts_with(char::is_alphanumeric));
        assert!(hostname.is_empty() || hostname == "localhost" || !whole, "{hostname} in {what}: {text}");
    };
    let mut dirs = vec![snapshot.clone()];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
            } else {
                clean(path.to_str().unwrap(), &std::fs::read_to_string(&path).unwrap());
            }
        }
    }
    let snapshot = snapshot.to_str().unwrap();
    for arguments in
        [vec!["show", &pid], vec!["diff", &pid], vec!["owner", "DISPLAY", &pid], vec!["doctor", "--against", &pid, "--agent", "aider"]]
    {
        for face in ["human", "json", "ndjson"] {
            let live = asked(&[&arguments[..], &["--format", face, "-v"]].concat());
            clean(&format!("{arguments:?} {face}"), &live.stdout);
            clean(&format!("{arguments:?} {face}"), &live.stderr);
            let captured = ran(keyed(&["--from", snapshot]).args(&arguments).args(["--format", face, "-v"]));
            clean(&format!("--from {arguments:?} {face}"), &captured.stdout);
            assert_eq!(captured.code, live.code, "{arguments:?}");
        }
    }
    let document = ran(&mut keyed(&["--from", snapshot, "show", &pid, "--json"])).json();
    let value = |name: &str| row(&document, name)["value"].as_str().unwrap().to_owned();
    assert!(value("PWD").starts_with(&value("HOME")) && value("XAUTHORITY").starts_with(&value("HOME")), "equal stays equal");
    assert_eq!(value("SSH_CONNECTION").split(' ').next(), value("SSH_CLIENT").split(' ').next());
    assert_ne!(value("SSH_CONNECTION").split(' ').next(), value("SSH_CONNECTION").split(' ').nth(2));
}

//! What another account, another namespace and a program that changes the user make of the same question.

use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::bad_input::{NOBODY, as_nobody, envelope, own_root, public, text};
use crate::puppet::Puppet;
use crate::run::{Sleeper, ran, run, write};
use crate::world::daemons::{Opencode, Start};
use crate::world::look::wait_for;
use crate::world::need::tool;
use crate::world::{Story, World};

#[test]
fn a_zombie_and_a_thread_of_the_kernel_are_told_to_every_account() {
    need!(own_root());
    need!(tool("setpriv", "util-linux"));
    let (_dir, program) = public();
    let parent = Puppet::new(&[b"puppet"], &[b"PUPPET=zombie", b"DISPLAY=:7"]);
    let mut dead = vec![(parent.said.clone(), "a zombie has no environment")];
    if std::fs::read_to_string("/proc/2/comm").is_ok_and(|comm| comm.trim() == "kthreadd") {
        dead.push(("2".to_owned(), "a thread of the kernel has no environment"));
    }
    for (pid, words) in dead {
        let roots = envelope(&run(&["show", &pid, "--json"]));
        let show = as_nobody("", &program, &["show", &pid, "--json"]);
        let document = envelope(&show);
        assert_eq!((show.code, &document["status"]), (0, &json!("ok")), "{document:#}");
        assert_eq!(document["data"]["process"].get("unreadable"), None);
        assert!(text(&document["notes"]).contains(words), "{:#}", document["notes"]);
        assert_eq!(document["notes"], roots["notes"]);
        // Nothing can be said of what it could do, nor that it lacks what this terminal has.
        assert_eq!(document["data"]["needs"], json!([]));
        for diff in [run(&["diff", &pid, "--json"]), as_nobody("", &program, &["diff", &pid, "--json"])] {
            let (document, code) = (envelope(&diff), diff.code);
            let rows = document["data"]["variables"].as_array().unwrap();
            assert!(!rows.is_empty() && rows.iter().all(|row| row["state"] == "unknown"), "{document:#}");
            assert_eq!(code, 5, "{document:#}");
            assert!(text(&document["notes"]).contains(words), "{:#}", document["notes"]);
        }
        let all = as_nobody("", &program, &["ps", "--all", "--json", "--pid", &pid]);
        assert_eq!(envelope(&all)["data"]["processes"][0].get("unreadable"), None, "{}", all.stdout);
    }
}

/// What `self` is where another account asks: by whom it was made to, and what it has to work with.
#[test]
fn self_is_the_terminal_and_not_the_program_that_changed_the_user() {
    need!(own_root());
    let (_dir, program) = public();
    let nobody = NOBODY.to_string();
    // A world ends whatever runs as this account.
    let _alone = crate::world::world::alone();
    let ordinary = need!(crate::world::accounts::ordinary());
    let quoted = format!("{} show self --json", program.display());
    let ask = |command: &mut Command| {
        let command = command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("HOME", "/nonexistent").env("LC_ASKED", "yes");
        let ran = ran(command.stdin(Stdio::null()));
        assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
        let document = envelope(&ran);
        let asked = document["data"]["environment"].as_array().unwrap().iter().any(|row| row["name"] == "LC_ASKED");
        let number = |key: &str| document["data"]["process"][key].as_u64().unwrap();
        ((number("pid"), number("uid")), asked, document["notes"][0].as_str().unwrap().to_owned())
    };
    let own = u64::from(std::process::id());
    let arguments = ["show", "self", "--json"];
    // What another account is given is not root's: then `self` is the tool, which is gone by now.
    let ((pid, uid), asked, note) =
        ask(Command::new("setpriv").args(["--reuid", &nobody, "--regid", &nobody, "--clear-groups"]).arg(&program).args(arguments));
    assert!(pid != own && asked, "setpriv becomes the tool: {note}");
    assert_eq!(uid, u64::from(NOBODY), "{note}");
    assert!(note.contains("the tool itself: no terminal of this account is above it"), "{note}");
    let ((pid, uid), asked, note) = ask(Command::new("runuser").args(["-u", &ordinary.name, "--"]).arg(&program).args(arguments));
    assert!(pid != own && asked && uid == u64::from(ordinary.uid), "{uid} {note}");
    assert!(note.contains("what it was given through runuser"), "{note}");
    let ((pid, uid), asked, note) = ask(Command::new("su").args(["-", &ordinary.name, "-c", &quoted]));
    assert!(pid != own && !asked && uid == u64::from(ordinary.uid), "a login has an environment of its own: {note}");
    assert!(note.contains("what it was given through su"), "{note}");
    let ((pid, _), asked, note) = ask(Command::new("su").args(["root", "-c", &format!("{quoted}; true")]));
    assert_eq!(pid, own, "the shell in between is no terminal: {note}");
    assert!(!asked && note.contains("as it was started; su gave the tool another"), "the test's own block, which has no LC_ASKED: {note}");
    let ((pid, _), asked, note) = ask(Command::new("sh").args(["-c", &format!("{quoted}; true")]));
    assert!(pid != own && asked && note.contains("no tty"), "a script without a tty is what started it: {note}");
}

#[test]
fn a_display_with_the_hosts_own_name_leads_where_the_process_s_etc_hosts_says() {
    need!(own_root());
    let hostname = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap().trim().to_owned();
    let dir = tempfile::tempdir().unwrap();
    let hosts = write(dir.path(), "hosts", format!("127.0.0.1 localhost {hostname}\n").as_bytes());
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().max(6_100);
    let Ok(listener) = std::net::TcpListener::bind(("127.0.0.1", free)) else { skip!("the port was taken") };
    let display = format!("{hostname}:{}", free - 6_000);
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", &format!("mount --bind {} /etc/hosts && exec sleep 600", hosts.display())]).env_clear();
    let inside = Sleeper(command.env("PATH", "/usr/bin:/bin").env("DISPLAY", &display).stdin(Stdio::null()).spawn().unwrap());
    let comm = format!("/proc/{}/comm", inside.pid());
    let mounted = (0..400).any(|_| {
        std::thread::sleep(Duration::from_millis(5));
        std::fs::read_to_string(&comm).is_ok_and(|comm| comm.trim() == "sleep")
    });
    if !mounted {
        skip!("namespaces cannot be made here");
    }
    let state = || envelope(&run(&["owner", "DISPLAY", &inside.pid(), "--json"]))["data"]["liveness"]["state"].clone();
    assert_eq!(state(), "alive", "{display}");
    let snapshot = dir.path().join("snapshot");
    assert_eq!(run(&["snapshot", snapshot.to_str().unwrap(), "--pid", &inside.pid()]).code, 0);
    let captured = run(&["owner", "DISPLAY", &inside.pid(), "--json", "--from", snapshot.to_str().unwrap()]);
    assert_eq!(envelope(&captured)["data"]["liveness"]["state"], "alive");
    drop(listener);
    assert_eq!(state(), "refused", "{display}");
}

#[test]
fn a_pid_of_another_pid_namespace_is_nobody_here() {
    need!(own_root());
    let own = Sleeper::start(&[]);
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--kill-child", "sleep", "600"]).env_clear();
    command.env("PATH", "/usr/bin:/bin").env("SSH_AGENT_PID", own.pid()).stdin(Stdio::null());
    let outside = Sleeper(command.spawn().unwrap());
    let children = format!("/proc/{0}/task/{0}/children", outside.pid());
    let inside = (0..400).find_map(|_| {
        std::thread::sleep(Duration::from_millis(5));
        let child = std::fs::read_to_string(&children).ok()?.trim().to_owned();
        std::fs::read_to_string(format!("/proc/{child}/comm")).is_ok_and(|comm| comm.trim() == "sleep").then_some(child)
    });
    let Some(inside) = inside else { skip!("pid namespaces cannot be made here") };
    let state = |pid: &str| envelope(&run(&["owner", "SSH_AGENT_PID", pid, "--json"]))["data"]["liveness"].clone();
    // It shares our files: only the link of its pid namespace tells.
    assert_eq!(state(&inside)["state"], "unknown", "{:#}", state(&inside));
    assert!(text(&state(&inside)).contains("another namespace"));
    assert_eq!(state(&outside.pid())["state"], "alive", "{:#}", state(&outside.pid()));
    let dir = tempfile::tempdir().unwrap();
    let snapshot = dir.path().join("snapshot");
    assert_eq!(run(&["snapshot", snapshot.to_str().unwrap(), "--pid", &inside]).code, 0);
    let captured = envelope(&run(&["owner", "SSH_AGENT_PID", &inside, "--json", "--from", snapshot.to_str().unwrap()]));
    assert_eq!(captured["data"]["liveness"], state(&inside));
}

/// A healthy service asked about by its own account, where no terminal of that account is above the question: root's `su` and
/// `runuser`, and an orphan, which is what a unit's program and a cron job come to. Whoever asks, the file is its owner's.
#[test]
fn a_healthy_service_is_found_healthy_from_su_runuser_and_an_orphan() {
    let world = need!(World::new());
    let mut a = need!(world.user_from(2));
    let service = need!(Opencode::service(Start::In(&mut a)));
    let user = &world.user;
    let program = a.whoseenv.clone().unwrap();
    let program = program.to_str().unwrap();
    let line = format!("{program} doctor --user {} --json", user.name);
    let out = user.private_dir(&world.dir().join("orphan")).join("out");
    let words: Vec<&str> = line.split(' ').collect();
    let mut su = Command::new("su");
    su.args([&user.name, "-c", &line]);
    let mut runuser = Command::new("runuser");
    runuser.args(["-u", &user.name, "--"]).args(&words);
    let mut orphan = user.command("setsid");
    let done = out.with_extension("done");
    orphan.args(["sh", "-c", &format!("(sleep 0.3; {line} >{0}; mv {0} {1}) & exit 0", out.display(), done.display())]);
    for command in [&mut su, &mut runuser] {
        command.env_clear().envs(user.env()).env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").stdin(Stdio::null());
    }
    let orphaned = |command: &mut Command| {
        assert_eq!(command.status().unwrap().code(), Some(0));
        wait_for("the orphan's answer", || std::fs::read_to_string(&done).ok())
    };
    let roots_own = run(&["doctor", "--user", &user.name, "--json"]);
    let mut as_root = Command::new(program);
    as_root.args(&words[1..]).env_clear().envs(user.env()).stdin(Stdio::null());
    let answers =
        [("su", ran(&mut su).stdout), ("runuser", ran(&mut runuser).stdout), ("orphan", orphaned(&mut orphan)), ("root", roots_own.stdout)];
    for (how, answer) in answers.into_iter().chain([("root with her HOME", ran(&mut as_root).stdout)]) {
        let document: Value = serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{how}: {error}: {answer}"));
        let daemon = &document["data"]["daemons"][0];
        assert_eq!((&daemon["pid"], &daemon["registration"]["pid_is"]), (&json!(service.pid()), &json!("agent")), "{how}: {document:#}");
        let ids = text(&document["findings"]);
        assert!(!ids.contains("registration."), "{how}: {ids}");
    }
}

/// A registration file that names another account's service is told to the one whose file it is, and spoils nothing of the other's.
#[test]
fn a_registration_that_names_another_account_s_process_is_told_to_its_owner() {
    let story = need!(Story::new());
    let stranger = &story.world.stranger;
    let said = std::fs::read_to_string(story.world.user.home.join(".local/state/opencode/service.json")).unwrap();
    let file = stranger.home.join(".local/state/opencode/service.json");
    stranger.write(&file, &said);
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let program = story.b.whoseenv.clone().unwrap();
    let asked = ran(stranger.command(&program).args(["doctor", "--user", &stranger.name, "--json"]));
    let document = envelope(&asked);
    let found: Vec<&Value> = document["findings"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|finding| finding["id"].as_str().unwrap().starts_with("registration."))
        .collect();
    let pid = story.service.pid();
    assert_eq!((found.len(), asked.code), (1, 1), "{document:#}");
    assert_eq!((&found[0]["id"], &found[0]["outcome"]), (&json!("registration.pid"), &json!("confirmed")));
    let message = found[0]["message"].as_str().unwrap();
    assert!(message.contains(&format!("pid {pid}")), "{message}");
    assert!(message.ends_with(&format!("that process is {}'s, and the file is {}'s", story.world.user.name, stranger.name)), "{message}");
    // Of root too, whose question meets both files.
    let everyone = run(&["doctor", "--json"]).json();
    let daemons = everyone["data"]["daemons"].as_array().unwrap();
    let daemon = daemons.iter().find(|daemon| daemon["pid"] == pid).unwrap();
    assert_eq!(daemon["registration"]["path"], story.world.user.home.join(".local/state/opencode/service.json").to_str().unwrap());
}

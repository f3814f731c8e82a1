//! Canary secrets: invented strings under secret and under innocent names must appear in no output of any face.

use std::path::Path;
use std::process::Command;

use crate::puppet::Puppet;
use crate::run::{Sleeper, ran, run, whoseenv};
use crate::world::World;
use crate::world::daemons::{Opencode, Start};

/// Made up for this test; each stands in one place.
const ENVIRON: [(&str, &str); 16] = [
    ("API_TOKEN", "canary-aaaa-plain-words"),
    ("PGPASSWORD", "canary-bbbb"),
    ("INNOCENT", "canary-cccc-under-an-innocent-name"),
    ("EDITOR_THEME", "canary-dddd"),
    ("LC_API_TOKEN", "canary-eeee"),
    ("HTTPS_PROXY", "http://user:canary-ffff@127.0.0.1:3128"),
    ("LANG", "ghp_canarygggg0123456789canarygggg0123"),
    ("TERM", "Zk3vQ9xW1pL7rT5yB2nM8canaryHH"),
    ("OPENCODE_SERVER_PASSWORD", "canary-iiii"),
    // Shown by name, and secret by shape: what follows from them must not tell them either.
    ("PATH", "/usr/bin:/opt/ghp_canary0123456789canary0123456789zz:/bin"),
    ("SSH_TTY", "/dev/pts/sk-ant-api03-canary0123456789canary"),
    ("SSH_CONNECTION", "Zk3vQ9xW1pL7rT5yB2nM8canary 50001 127.0.0.1 22"),
    ("TMUX", "/tmp/ghp_canary0123456789canary0123456789yy/default,1,0"),
    ("XDG_RUNTIME_DIR", "/run/ghp_canary0123456789canary0123456789xx"),
    ("WAYLAND_DISPLAY", "wayland-0"),
    ("ZEROCLAW_SESSION_ID", "ghp_canary0123456789canary0123456789ww"),
];

/// Entries that are no assignments of a name that anybody chose.
const ODD: [&[u8]; 3] = [
    b"canary-jjjj-without-an-equals-sign",
    b"MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7canaryKK==",
    b"sk-canaryllll0123456789abcdefABCDEF=v",
];

const ARGV: [&[u8]; 14] = [
    b"puppet",
    b"--token",
    b"canary-mmmm",
    b"--password=canary-nnnn",
    b"Canary-oooo:innocent",
    b"NAME=canary-pppp",
    b"http://u:canary-qqqq@127.0.0.1/",
    b"-k",
    b"canary",
    b"--pin",
    b"2262799",
    b"-p",
    b"canary-word",
    b"-wcanary",
];

/// What any canary has in common, whatever its letters' case.
const MARK: &str = "canary";

/// The one of digits alone: `canary` on a telephone's keys, and a 9.
const DIGITS: &str = "2262799";

fn leak(text: &str) -> Option<String> {
    let lower = text.to_lowercase();
    let at = lower.find(MARK).or_else(|| lower.find(DIGITS))?;
    let start = lower[..at].char_indices().rev().nth(80).map_or(0, |(at, _)| at);
    Some(lower[start..].chars().take(200).collect())
}

/// In a snapshot of one process; other processes in it may be of another run of the tests, with canaries that may be shown.
fn leak_in_files(dir: &Path, pid: &str) -> Option<String> {
    std::fs::read_dir(dir).unwrap().find_map(|entry| {
        let path = entry.unwrap().path();
        if path.is_dir() {
            leak_in_files(&path, pid)
        } else if dir.ends_with("processes") && path.file_stem().is_some_and(|stem| stem != pid) {
            None
        } else {
            leak(&std::fs::read_to_string(&path).unwrap()).map(|leak| format!("{path:?}: {leak}"))
        }
    })
}

struct Scene {
    puppet: Puppet,
    home: tempfile::TempDir,
}

impl Scene {
    fn new() -> Scene {
        let home = tempfile::tempdir().unwrap();
        let state = home.path().join(".local/state/opencode");
        let config = home.path().join(".config/opencode");
        let units = home.path().join(".config/systemd/user");
        for dir in [&state, &config, &units] {
            std::fs::create_dir_all(dir).unwrap();
        }
        let registration = r#"{"id":"i","url":"http://u:canary-rrrr@127.0.0.1:1/canary-xxxx?token=canary-yyyy&q=ghp_canary0123456789canary","pid":4194301,"password":"canary-ssss","version":"2.0.24"}"#;
        std::fs::write(state.join("service.json"), registration).unwrap();
        // Half written, in the middle of the password.
        std::fs::write(state.join("service-next.json"), &registration[..registration.len() - 24]).unwrap();
        std::fs::write(config.join("service.json"), r#"{"password":"canary-tttt","env":{"API_TOKEN":"canary-uuuu"}}"#).unwrap();
        std::fs::write(
            units.join("opencode.service"),
            "[Service]\nExecStart=/bin/x --token canary-vvvv\nEnvironment=API_TOKEN=canary-wwww\n",
        )
        .unwrap();
        let assigned: Vec<Vec<u8>> = ENVIRON.iter().map(|(name, value)| format!("{name}={value}").into_bytes()).collect();
        let home_entry = format!("HOME={}", home.path().display());
        let mut block: Vec<&[u8]> = vec![home_entry.as_bytes(), b"DISPLAY=:76"];
        block.extend(assigned.iter().map(Vec::as_slice));
        block.extend(ODD);
        Scene { puppet: Puppet::new(&ARGV, &block), home }
    }

    /// The program with the canaries in its own environment too, which is the terminal's.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = whoseenv(arguments);
        command.envs(ENVIRON).env("HOME", self.home.path()).env("DISPLAY", ":76");
        command
    }
}

#[test]
fn canaries_appear_in_no_output_of_any_face() {
    let scene = Scene::new();
    let pid = scene.puppet.pid();
    let work = tempfile::tempdir().unwrap();
    let snapshot = work.path().join("snapshot").to_str().unwrap().to_owned();
    let taken = ran(&mut scene.command(&["snapshot", &snapshot, "--pid", &pid, "-v"]));
    assert_eq!((taken.code, leak(&taken.stdout), leak(&taken.stderr)), (0, None, None));
    assert_eq!(leak_in_files(Path::new(&snapshot), &pid), None);
    let pseudonyms = work.path().join("pseudonyms").to_str().unwrap().to_owned();
    assert_eq!(ran(&mut scene.command(&["snapshot", &pseudonyms, "--pid", &pid, "--anonymize"])).code, 0);
    assert_eq!(leak_in_files(Path::new(&pseudonyms), &pid), None);
    let file = work.path().join("environment");
    std::fs::write(&file, std::fs::read(format!("/proc/{pid}/environ")).unwrap()).unwrap();
    let file = format!("file:{}", file.display());
    let mut commands: Vec<Vec<&str>> = vec![
        vec!["show"],
        vec!["show", &pid],
        vec!["show", &file],
        vec!["diff", &pid],
        vec!["diff", &pid, "--same"],
        vec!["diff", &file, &pid, "--same"],
        vec!["doctor"],
        vec!["doctor", "--against", &pid],
        vec!["ps", "--all", "--names", "--pid", &pid],
        vec!["ps", "--all", "--pid", &pid],
    ];
    for (name, _) in ENVIRON {
        commands.push(vec!["owner", name, &pid]);
        commands.push(vec!["owner", name]);
    }
    let captured: Vec<Vec<&str>> = commands.iter().map(|command| [&["--from", &snapshot][..], command].concat()).collect();
    for arguments in commands.iter().chain(&captured) {
        for face in [&["-v"][..], &["--json"], &["--format", "ndjson"]] {
            for width in if face == ["-v"] { &["40", ""][..] } else { &[""] } {
                let ran = ran(scene.command(arguments).args(face).env("WHOSEENV_WIDTH", width));
                assert!([0, 1, 3, 5].contains(&ran.code), "{arguments:?}: {} {}", ran.code, ran.stderr);
                // Wrapped lines would hide a canary that was cut in two.
                let joined: String = ran.stdout.split_whitespace().collect();
                for text in [&ran.stdout, &ran.stderr, &joined] {
                    assert_eq!(leak(text), None, "{arguments:?} {face:?} at {width}");
                }
            }
        }
    }
}

/// A real daemon that was started in a directory, with a PATH and with variables of birth that have secrets in them.
#[test]
fn what_a_daemon_s_masked_values_lead_to_is_masked_too() {
    let world = need!(World::new());
    let mut a = need!(world.user_from(2));
    let mut b = need!(world.user_from(3));
    let work = world.user.private_dir(&world.dir().join("ghp_canary0123456789canary0123456789vv"));
    a.stdout(&format!("cd {}", work.display()));
    for name in ["PATH", "SSH_TTY", "SSH_CONNECTION"] {
        let (_, value) = ENVIRON.iter().find(|(known, _)| *known == name).unwrap();
        a.stdout(&format!("export {name}='{value}'"));
    }
    let daemon = need!(Opencode::v1(Start::In(&mut a), "serve"));
    let pid = daemon.pid().to_string();
    a.disconnect();
    let snapshot = world.dir().join("exchange-snapshot");
    let snapshot = world.user.private_dir(&snapshot).join("s").to_str().unwrap().to_owned();
    let program = b.whoseenv.clone().unwrap();
    let taken = b.program(&program, &["snapshot", &snapshot, "--pid", &pid]);
    assert_eq!((taken.code, leak(&taken.stdout)), (0, None));
    assert_eq!(leak_in_files(Path::new(&snapshot), &pid), None);
    for from in [&[][..], &["--from", &snapshot]] {
        for command in
            [&["doctor", "--pid", &pid][..], &["show", &pid], &["diff", &pid], &["ps", "--pid", &pid], &["owner", "SSH_TTY", &pid]]
        {
            for face in [&["-v"][..], &["--json"], &["--format", "ndjson"]] {
                let answer = b.program(&program, &[from, command, face].concat());
                assert!([0, 1, 5].contains(&answer.code), "{command:?}: {answer:?}");
                let joined: String = answer.stdout.split_whitespace().collect();
                for text in [&answer.stdout, &answer.stderr, &joined] {
                    assert_eq!(leak(text), None, "{from:?} {command:?} {face:?}");
                }
            }
        }
        let (doctor, _) = b.program(&program, &[from, &["doctor", "--pid", &pid, "--json"]].concat()).json();
        // What its PATH leads to is not told: neither a directory that is missing nor a program that is.
        assert!(doctor["data"]["daemons"][0].get("path").is_none(), "{doctor:#}");
        let paths: Vec<&str> = doctor["findings"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|finding| finding["id"].as_str().unwrap().starts_with("path."))
            .map(|finding| finding["outcome"].as_str().unwrap())
            .collect();
        assert_eq!(paths, ["undetermined"], "{doctor:#}");
        let (show, _) = b.program(&program, &[from, &["show", &pid, "--json"]].concat()).json();
        assert_eq!(show["data"]["process"]["cwd"]["value"], "‹masked›");
    }
}

#[test]
fn with_show_just_what_was_named_appears() {
    let scene = Scene::new();
    let pid = scene.puppet.pid();
    for face in ["human", "json"] {
        let ran = ran(&mut scene.command(&["show", &pid, "--show", "INNOCENT", "--format", face]));
        assert!(ran.stdout.contains("canary-cccc-under-an-innocent-name"), "{}", ran.stdout);
        let rest = ran.stdout.replace("canary-cccc-under-an-innocent-name", "");
        assert_eq!(leak(&rest), None, "{face}");
    }
    let two = ran(&mut scene.command(&["show", &pid, "--show", "API_TOKEN,PGPASSWORD"]));
    assert!(two.stdout.contains("canary-aaaa-plain-words") && two.stdout.contains("canary-bbbb"), "{}", two.stdout);
    assert!(!two.stdout.contains("canary-cccc"));
}

/// What is read about a value that must not be shown names it: neither a verdict's evidence nor a snapshot may.
#[test]
fn what_is_read_about_a_masked_value_does_not_tell_it() {
    let dir = tempfile::tempdir().unwrap();
    let secret = "kube-innocent-canary-name";
    let gone = format!("{}/{secret}", dir.path().display());
    let sleeper = Sleeper::start(&[("KUBECONFIG", &gone), ("TMUX", "/tmp/ghp_0123456789abcdefghijABCDEFGHIJ012345,1,0")]);
    let snapshot = dir.path().join("snapshot");
    let taken = run(&["snapshot", snapshot.to_str().unwrap(), "--pid", &sleeper.pid()]);
    assert_eq!(taken.code, 0, "{}", taken.stderr);
    let found = Command::new("grep").args(["-rlE", "canary-name|ghp_0123"]).arg(&snapshot).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&found.stdout), "", "files of the snapshot that tell it");
    for arguments in [
        vec!["owner", "KUBECONFIG", &sleeper.pid(), "--verbose"],
        vec!["owner", "TMUX", &sleeper.pid()],
        vec!["show", &sleeper.pid(), "--json"],
    ] {
        let ran = run(&arguments);
        assert!(!ran.stdout.contains("canary-name") && !ran.stdout.contains("ghp_0123"), "{arguments:?}: {}", ran.stdout);
    }
    let owner = run(&["owner", "KUBECONFIG", &sleeper.pid(), "--json"]);
    assert_eq!(owner.json()["data"]["liveness"]["state"], "dangling");
}

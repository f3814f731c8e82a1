use proptest::prelude::*;

use super::*;
use crate::env::redactor;

fn usual() -> Redactor {
    redactor(FingerprintKey::from_text(b"test"), ShowPolicy::default())
}

fn rule(name: &str, value: &str) -> Option<&'static str> {
    usual().rule(name.as_bytes(), value.as_bytes()).map(Rule::word)
}

fn argv(words: &[&str]) -> Vec<String> {
    let argv: Vec<Value> = words.iter().map(|word| Value::Clear(Raw::from(*word))).collect();
    let shown = |value: Value| match value {
        Value::Clear(raw) => raw.lossy().into_owned(),
        Value::Masked(masked) => format!("<{}>", masked.rule),
    };
    usual().argv(&argv).into_iter().map(shown).collect()
}

#[test]
fn a_sentence_without_its_tokens() {
    let token = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
    let mut text = format!("PATH names /opt/{token}, /usr/bin; http://u:pw@h/x");
    let redactor = |show: ShowPolicy| crate::env::redactor(FingerprintKey::from_text(b""), show);
    redactor(ShowPolicy::default()).sentence(&mut text);
    assert_eq!(text, "PATH names ‹masked›, /usr/bin; ‹masked›");
    let mut asked = format!("PATH names /opt/{token}");
    redactor(ShowPolicy { names: vec!["PATH".to_owned()], all: false }).sentence(&mut asked);
    assert!(asked.ends_with(token));
    assert_eq!(place(format!("/srv/{token}").as_bytes()), "‹masked›".as_bytes());
    assert_eq!(place(b"/home/u/work (deleted)"), b"/home/u/work (deleted)");
}

#[test]
fn the_allow_list_is_shown_and_the_rest_is_not() {
    let shown = [
        ("DISPLAY", "localhost:10.0"),
        ("WAYLAND_DISPLAY", "wayland-0"),
        ("XAUTHORITY", "/run/user/1000/.mutter-Xwaylandauth.AB12CD"),
        ("SSH_AUTH_SOCK", "/tmp/ssh-XXXXabcd12/agent.4242"),
        ("SSH_CONNECTION", "127.0.0.2 51234 127.0.0.1 2222"),
        ("SSH_TTY", "/dev/pts/3"),
        ("DBUS_SESSION_BUS_ADDRESS", "unix:path=/run/user/1000/bus,guid=7b1d2f0c9e8a4d5f6a7b8c9d0e1f2a3b"),
        ("XDG_RUNTIME_DIR", "/run/user/1000"),
        ("XDG_SESSION_ID", "c2"),
        ("TMUX", "/tmp/tmux-1000/default,4242,0"),
        ("STY", "4242.pts-0.box"),
        ("TERM", "xterm-256color"),
        ("PATH", "/usr/local/bin:/usr/bin:/bin"),
        ("HOME", "/home/alice"),
        ("USER", "alice"),
        ("LANG", "en_US.UTF-8"),
        ("VSCODE_IPC_HOOK_CLI", "/run/user/1000/vscode-ipc-3f2b8c1e-5d7a-4e9b-8c6d-1a2b3c4d5e6f.sock"),
        ("CLAUDECODE", "1"),
        ("CLAUDE_CODE_SESSION_ID", "3f2b8c1e-5d7a-4e9b-8c6d-1a2b3c4d5e6f"),
        ("OPENCODE_SESSION_ID", "ses_3f2b8c1e5ffeAbCdEfGhIjKlMn"),
        ("SOME_TOOL_SOCK", "/run/user/1000/tool.sock"),
        ("DOCKER_HOST", "unix:///run/user/1000/docker.sock"),
        ("PULSE_SERVER", "tcp:192.0.2.7:4713"),
        ("PATH", "/opt/homebrew/opt/node@20/bin:/opt/a@b/bin:/usr/bin"),
        ("LANG", "de_DE.UTF-8@euro"),
    ];
    for (name, value) in shown {
        assert_eq!(rule(name, value), None, "{name}");
    }
    let masked = [
        ("MY_NOTES", "buy milk", "not-listed"),
        ("HTTP_PROXY", "http://proxy:3128", "not-listed"),
        ("HTTP_PROXY", "http://u:p@proxy:3128", "secret-shape"),
        ("LC_API_TOKEN", "x", "secret-name"),
        ("OPENCODE_SERVER_PASSWORD", "x", "secret-name"),
        ("LC_NOTES", "ghp_0123456789abcdefghijABCDEFGHIJ012345", "secret-shape"),
        ("LC_NOTES", "7b1d2f0c9e8a4d5f6a7b8c9d0e1f2a3b", "entropy"),
        ("PATH", "/usr/bin:https://u:pw@mirror/bin", "secret-shape"),
        ("DOCKER_HOST", "tcp://u:pw@box:2376", "secret-shape"),
        ("PULSE_SERVER", "tcp:u:Secret@127.0.0.1", "secret-shape"),
        ("PULSE_SERVER", "unix:/run/user/1/pulse/native tcp4:u:Secret@box:4713", "secret-shape"),
        ("LC_NOTES", "u:Secret@box", "secret-shape"),
        ("SOME_TOOL_SOCK", "not a path", "not-listed"),
        ("CLAUDE_CODE_SESSION_ID", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "entropy"),
    ];
    for (name, value, expected) in masked {
        assert_eq!(rule(name, value), Some(expected), "{name}={value}");
    }
}

#[test]
fn what_was_asked_for_is_shown() {
    let show = ShowPolicy { names: vec!["API_TOKEN".to_owned()], all: false };
    let redactor = redactor(FingerprintKey::from_text(b"test"), show);
    assert!(redactor.value(b"API_TOKEN", b"hunter2").is_ok());
    assert!(redactor.value(b"OTHER_TOKEN", b"hunter2").is_err());
    let all = crate::env::redactor(FingerprintKey::from_text(b"test"), ShowPolicy { names: Vec::new(), all: true });
    assert!(all.value(b"OTHER_TOKEN", b"hunter2").is_ok() && all.raw(b"lonely").is_ok());
    let words = [Value::Clear(Raw::from("a")), Value::Clear(Raw::from("--password=x"))];
    assert_eq!(all.argv(&words), words);
}

#[test]
fn a_fingerprint_is_hmac_sha256_under_the_reports_key() {
    // python3 -c 'import hmac,hashlib; print(hmac.new(hashlib.sha256(b"key").digest(),b"value",hashlib.sha256).hexdigest()[:12])'
    assert_eq!(FingerprintKey::from_text(b"key").fingerprint(b"value"), "34495e6e680b");
    let (one, other) = (FingerprintKey::random().unwrap(), FingerprintKey::random().unwrap());
    assert_eq!(one.fingerprint(b"x"), one.fingerprint(b"x"));
    assert_ne!(one.fingerprint(b"x"), other.fingerprint(b"x"));
    let masked = usual().value(b"MY_NOTES", b"buy milk").unwrap_err();
    assert_eq!((masked.len, masked.rule.as_str(), masked.fingerprint.len()), (8, "not-listed", 12));
}

#[test]
fn a_masked_block_keeps_order_names_and_duplicates() {
    let block = b"B=1\0LANG=C\0B=2\0N\xc3\xa9\xff=1\0lonely secret\0MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcw==\0";
    let masked = usual().environ(&Environ::parse(block));
    let shown: Vec<(String, String)> = masked
        .entries
        .iter()
        .map(|entry| {
            let value = match entry.value.as_ref().unwrap() {
                Value::Clear(raw) => raw.lossy().into_owned(),
                Value::Masked(masked) => format!("<{}>", masked.rule),
            };
            (entry.name.lossy().into_owned(), value)
        })
        .collect();
    let expected =
        [("B", "<not-listed>"), ("LANG", "C"), ("B", "<not-listed>"), ("Né\u{fffd}", "<not-listed>"), ("", "<raw>"), ("", "<raw>")];
    assert_eq!(shown, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    assert_eq!(usual().environ(&masked), masked, "masking again changes nothing");
}

#[test]
fn command_lines_read_well() {
    let whole = [
        &["opencode", "serve", "--port", "4096", "--hostname", "127.0.0.1"][..],
        &["/home/u/bin/opencode2", "serve", "--service"],
        &["zeroclaw", "daemon", "--config-dir", "/home/u/.zeroclaw"],
        &["sshd: user@pts/0"],
        &["sshd-session: user1 [priv]"],
        &["sshd: /usr/sbin/sshd -D [listener] 0 of 10-100 startups"],
        &["nginx: master process /usr/sbin/nginx"],
        &["tmux", "new-session", "-d", "-s", "work"],
        &["tmux", "-L", "name", "-f", "/dev/null", "attach-session"],
        &["bash", "-l"],
        &["-bash"],
        &["(sd-pam)"],
        &["Xorg", ":0", "-nolisten", "tcp", "-auth", "/run/user/1000/gdm/Xauthority"],
        &["weston", "--backend=headless-backend.so", "--socket=wl-test", "--idle-time=0"],
        &["ssh-agent", "-a", "/tmp/agent.sock"],
        &["python3", "probe.py"],
        &["curl", "http://127.0.0.1:4096/api/info"],
        &["bash", "-c", "sleep 60 && exec /usr/bin/true"],
        &["env", "LANG=C", "DISPLAY=localhost:10.0", "xterm"],
    ];
    for words in whole {
        assert_eq!(argv(words), words);
    }
}

#[test]
fn secrets_in_command_lines_are_masked() {
    let cases = [
        (&["x", "--password=hunter2"][..], &["x", "<secret-name>"][..]),
        (&["x", "--token", "abc", "run"], &["x", "--token", "<secret-name>", "run"]),
        (&["docker", "run", "-e", "MY_NOTES=milk", "-e", "API_KEY=x"], &["docker", "run", "-e", "<not-listed>", "-e", "<secret-name>"]),
        (&["git", "clone", "https://u:pw@example.org/r"], &["git", "clone", "<secret-shape>"]),
        (&["curl", "-H", "Authorization: Bearer abcdef"], &["curl", "-H", "<secret-shape>"]),
        (&["/usr/bin/bash", "-c", "curl -u me:hunter2 x"], &["/usr/bin/bash", "-c", "<argv>"]),
        (&["/usr/bin/bash", "-c", "TOKEN=x run"], &["/usr/bin/bash", "-c", "<secret-shape>"]),
        (&["mysql", "-phunter"], &["mysql", "<argv>"]),
        (&["x", "CANARY-innocent"], &["x", "<argv>"]),
        (&["title --token abc"], &["<secret-name>"]),
        (&["ssh", "me@host.example.org"], &["ssh", "<argv>"]),
        // Options that look like paths: xfreerdp(1), smbclient's `//SERVER/SHARE%PASSWORD`, a bot's URL path.
        (&["xfreerdp", "/u:bob", "/p:Hunter2Secret", "/v:h"], &["xfreerdp", "<argv>", "<argv>", "<argv>"]),
        (&["xfreerdp", "/pass:hunter2", "/password:/hunter2"], &["xfreerdp", "<argv>", "<argv>"]),
        (&["smbclient", "//h/s%Hunter2Secret"], &["smbclient", "<argv>"]),
        (&["x", "/bot123456:AAHunter2Secretxyz/sendMessage"], &["x", "<argv>"]),
        (&["x", "--path=/p:Hunter2Secret", "/usr/bin:/bin"], &["x", "<argv>", "/usr/bin:/bin"]),
    ];
    for (words, expected) in cases {
        assert_eq!(argv(words), expected, "{words:?}");
    }
}

/// What a secret may look like when it is a plain word or number: nothing of its form tells.
const PLAIN: [&str; 5] = ["hunter", "correct-horse", "1234", "864209", "server.key"];

#[test]
fn a_plain_word_behind_what_announces_a_secret_is_masked() {
    let announced = [
        "--pin",
        "--password",
        "--pass",
        "-pass",
        "--passphrase",
        "--key",
        "-key",
        "--api-key",
        "--secret",
        "--token",
        "--otp",
        "--psk",
        "--auth",
        "-k",
        "-K",
        "-p",
        "-P",
        "-a",
        "-w",
        "-xp",
        "-sk",
        "password",
        "token",
    ];
    for option in announced {
        for secret in PLAIN {
            let masked = argv(&["tool", option, secret, "serve"]);
            let doubtful = option.starts_with('-') && option.len() <= 3;
            let rule = if doubtful { "<argv>" } else { "<secret-name>" };
            assert_eq!(masked, ["tool", option, rule, "serve"], "{option} {secret}");
            let script = format!("tool {option} {secret} serve");
            for words in [vec!["sh", "-c", &script], vec![script.as_str()]] {
                assert!(argv(&words).iter().all(|word| !word.contains(secret)), "{words:?}");
            }
        }
        if option.starts_with('-') {
            let joined = format!("{option}=hunter");
            assert!(argv(&["tool", &joined])[1].starts_with('<'), "{joined}");
        }
    }
    for joined in ["-phunter", "-khunter", "-Phunter", "-p1234", "-k864209", "-whunter"] {
        assert!(argv(&["tool", joined])[1].starts_with('<'), "{joined}");
    }
    for words in [["sshpass", "-p", "4096"], ["ssh", "-p", "0123"], ["ssh", "-p", "hunter"], ["opencode", "--password", "4096"]] {
        assert!(argv(&words)[2].starts_with('<'), "{words:?}");
    }
    assert!(argv(&["sshpass", "ssh", "-p", "4096"])[3].starts_with('<'), "which of the two it is for is not known");
    // A path is no secret, a switch has no value, and what is known to be harmless stays.
    for words in [
        &["ssh-agent", "-a", "/tmp/agent.sock"][..],
        &["opencode", "serve", "--port", "4096"],
        &["curl", "-k", "-s", "http://127.0.0.1:4096/"],
        &["rsync", "-ap", "/srv/a", "/srv/b"],
        &["Xorg", "-ac", "vt7"],
        &["/usr/bin/ssh", "-p", "2222", "localhost", "uptime"],
        &["node", "/usr/lib/bin/opencode", "-p", "4096", "serve"],
        &["strace", "-p", "12345", "-f"],
    ] {
        assert_eq!(argv(words)[..words.len() - 1], words[..words.len() - 1], "{words:?}");
    }
}

/// Random bytes as people write them.
fn written(bytes: &[u8], how: usize) -> String {
    use base64::Engine;
    let hex = || bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    match how {
        0 => hex(),
        1 => hex().to_uppercase(),
        2 => base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes),
        _ => base64::engine::general_purpose::STANDARD.encode(bytes),
    }
}

fn leaks(argv: &[Value], canary: &[u8]) -> bool {
    argv.iter().any(|value| value.clear().is_some_and(|shown| memchr::memmem::find(shown, canary).is_some()))
}

proptest! {
    #[test]
    fn a_canary_under_an_innocent_name_is_never_shown(
        name in "MY_[A-Z]{1,8}|notes|LOG_LEVEL|APP_[A-Z]{2,6}_SETTING|CODEX_NOTES|OPENCODE_[A-Z]{12}",
        bytes in proptest::collection::vec(any::<u8>(), 16..48),
        how in 0usize..4,
    ) {
        let text = written(&bytes, how);
        prop_assert!(usual().value(name.as_bytes(), text.as_bytes()).is_err());
        prop_assert!(usual().value(name.as_bytes(), &bytes).is_err());
        prop_assert!(usual().raw(&bytes).is_err());
    }

    #[test]
    fn a_canary_at_any_place_of_a_command_line_is_never_shown(
        bytes in proptest::collection::vec(1u8..=255, 16..48),
        how in 0usize..4,
        at in 0usize..5,
        form in prop::sample::select(vec!["{}", "--name={}", "NOTES={}", "--{}", "run {}", "-x{}", "http://127.0.0.1/{}?a={}"]),
    ) {
        for canary in [written(&bytes, how).into_bytes(), bytes.clone()] {
            let form: Vec<u8> = form.split("{}").map(str::as_bytes).collect::<Vec<_>>().join(&canary[..]);
            let mut words: Vec<Value> = ["prog", "serve", "--port", "4096"].iter().map(|word| Value::Clear(Raw::from(*word))).collect();
            words.insert(at, Value::Clear(Raw::from(form)));
            prop_assert!(!leaks(&usual().argv(&words), &canary));
        }
    }
}

//! The field reports: what people hit, each as the smallest real case, with what the tool has to say of it.
//!
//! The name says what the answer must be; the comment says where it was reported, which command answers and in which
//! field of its JSON.

use std::os::unix::net::UnixListener;
use std::path::Path;

use serde_json::{Value, json};

use crate::made_up::{Made, MadeUp};
use crate::run::{Sleeper, run};
use crate::story::{USER, evidence, findings, fix, one, row};
use crate::world::daemons::{Opencode, Start};
use crate::world::look::{self, Process};
use crate::world::parts::Agent;
use crate::world::sshd::{Login, Session};
use crate::world::wayland::Wayland;
use crate::world::{Needed, World};

/// `doctor`, narrowed to the account of the tests.
pub fn doctor(asker: &mut Session) -> (Value, i32) {
    let (document, code) = asker.whoseenv(&["doctor", "--user", USER, "--json"]);
    crate::one_mind::assert_of_one_mind(&document);
    (document, code)
}

/// The entry of `data.needs` for a purpose.
pub fn need_for<'v>(needs: &'v Value, purpose: &str) -> &'v Value {
    let needs = needs.as_array().expect("a matrix");
    needs.iter().find(|need| need["purpose"] == purpose).unwrap_or_else(|| panic!("nothing on {purpose} in {needs:?}"))
}

/// A part of a need, by the variable or program it is.
fn part<'v>(need: &'v Value, name: &str) -> &'v Value {
    need["parts"].as_array().expect("parts").iter().find(|part| part["name"] == name).unwrap_or_else(|| panic!("no {name} in {need:#}"))
}

/// The first entry of a name in `show`'s environment.
pub fn variable<'v>(show: &'v Value, name: &str) -> &'v Value {
    let all = show["data"]["environment"].as_array().expect("an environment");
    all.iter().find(|entry| entry["name"] == name).unwrap_or_else(|| panic!("no {name} in {show:#}"))
}

fn message(finding: &Value) -> &str {
    finding["message"].as_str().expect("a message")
}

/// R01, osquery/osquery#1356: the output ends after the first variable, or at a newline.
/// `show PID`, `data.environment[]`.
#[test]
fn r01_every_variable_in_order_with_duplicates_and_bytes_that_are_no_text() {
    let dir = tempfile::tempdir().unwrap();
    let entries: [&[u8]; 9] = [
        b"LANG=first",
        b"XDG_TWO_LINES=one\ntwo=2\n",
        b"no-equals-sign",
        b"LC_BYTES=\xff\xfe",
        b"LANG=second",
        b"LC_EMPTY=",
        b"=hidden",
        b"\xf0\x28=name",
        b"PATH=/usr/bin:/bin",
    ];
    let block = [entries.join(&0), b"\0".to_vec()].concat();
    std::fs::write(dir.path().join("block"), &block).unwrap();
    // execve with exactly this block: no shell and no library in between that would tidy it up.
    let script = "import ctypes, sys\n\
        block = open(sys.argv[1], 'rb').read().split(b'\\0')[:-1]\n\
        envp = (ctypes.c_char_p * (len(block) + 1))(*block, None)\n\
        argv = (ctypes.c_char_p * 3)(b'sleep', b'600', None)\n\
        ctypes.CDLL(None).execve(b'/bin/sleep', argv, envp)\n";
    let python = need!(crate::world::need::tool("python3", "python3"));
    let sleeper = Sleeper::of(std::process::Command::new(python).args(["-c", script]).arg(dir.path().join("block")));
    look::wait_until("execve", || Process::read(sleeper.0.id()).is_some_and(|process| process.comm == "sleep"));
    // In the middle of execve the name is the new one already, and the block is still empty.
    let kept = || std::fs::read(format!("/proc/{}/environ", sleeper.pid())).unwrap();
    look::wait_until("the block", || !kept().is_empty());
    assert_eq!(kept(), block, "the kernel has the block as it was given");

    let shown = run(&["show", &sleeper.pid(), "--show-all", "--json"]);
    let document = shown.json();
    let plain = |name: &str, value: &str| json!({"name": name, "value": value});
    let expected = [
        plain("LANG", "first"),
        plain("XDG_TWO_LINES", "one\ntwo=2\n"),
        json!({"raw": {"value": "no-equals-sign"}}),
        json!({"name": "LC_BYTES", "value_b64": "//4="}),
        plain("LANG", "second"),
        plain("LC_EMPTY", ""),
        json!({"raw": {"value": "=hidden"}}),
        json!({"name_b64": "8Cg=", "value": "name"}),
        plain("PATH", "/usr/bin:/bin"),
    ];
    let seen: Vec<Value> = document["data"]["environment"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| {
            let kept = entry.as_object().unwrap().iter().filter(|(key, _)| *key != "class" && *key != "liveness");
            Value::Object(kept.map(|(key, value)| (key.clone(), value.clone())).collect())
        })
        .collect();
    assert_eq!(seen, expected);

    // Masked, it is as many entries, and the text's own newline does not break a line of the table.
    let document = run(&["show", &sleeper.pid(), "--json"]).json();
    assert_eq!(document["data"]["environment"].as_array().unwrap().len(), entries.len());
    let human = run(&["show", &sleeper.pid(), "--show-all"]).stdout;
    assert!(!human.lines().any(|line| line.trim_start().starts_with("two=2")), "{human}");
}

/// Two logins with forwarded agents; the service was started in the first.
struct Agents {
    service: Opencode,
    a: Option<Session>,
    b: Session,
    world: World,
    /// The client's side agent, which both forward.
    _agent: Agent,
}

fn agents() -> Needed<Agents> {
    let world = World::new()?;
    let agent = Agent::start(world.dir())?;
    let login = |last| world.login(Login::from(last, &world.user).agent(&agent));
    let (mut a, b) = (login(2)?, login(3)?);
    let service = Opencode::service(Start::In(&mut a))?;
    Ok(Agents { service, a: Some(a), b, world, _agent: agent })
}

/// R02, openai/codex#22567: a server keeps the agent socket of the login that started it; `Permission denied (publickey)`.
/// `doctor`, `findings[] ssh_agent.dangling` with its fix, and `data.daemons[].needs[]`; `owner SSH_AUTH_SOCK`.
#[test]
fn r02_the_agent_socket_of_the_login_that_started_it_is_gone_and_this_terminal_s_is_alive() {
    let mut world = need!(agents());
    let a = world.a.take().unwrap();
    let socket = a.var("SSH_AUTH_SOCK").unwrap().to_owned();
    a.disconnect();
    assert!(!Path::new(&socket).exists());
    let ours = world.b.var("SSH_AUTH_SOCK").unwrap().to_owned();

    let (document, code) = doctor(&mut world.b);
    assert_eq!(code, 1);
    let dangling = one(&document, "ssh_agent.dangling");
    assert_eq!((&dangling["severity"], &dangling["outcome"]), (&json!("error"), &json!("confirmed")));
    assert!(message(dangling).contains(&socket), "{dangling:#}");
    assert!(dangling["subject"].as_str().unwrap().contains(&world.service.pid().to_string()), "{dangling:#}");
    let fix = fix(dangling);
    assert!(fix.contains("service restart") && fix.contains(&format!("SSH_AUTH_SOCK={ours}")), "{fix}");
    assert!(fix.contains(&format!("ln -sfn {ours} ")), "a stable link outlives the login: {fix}");
    let need = need_for(&document["data"]["daemons"][0]["needs"], "git_over_ssh");
    assert_eq!(need["verdict"], "broken");

    let state = |document: Value| document["data"]["liveness"]["state"].clone();
    assert_eq!(state(world.b.whoseenv(&["owner", "SSH_AUTH_SOCK", "opencode", "--user", USER, "--json"]).0), "dangling");
    assert_eq!(state(world.b.whoseenv(&["owner", "SSH_AUTH_SOCK", "--json"]).0), "alive");
    assert!(world.b.stdout("ssh-add -l").contains("whoseenv-test-key"), "and so it is");
}

/// R03, pingdotgg/t3code#11872 and #10179: started over ssh it has that login's socket, started by a manager it has none.
/// `doctor`, `findings[] ssh_agent.foreign` and `ssh_agent.missing`; R02 is `ssh_agent.dangling`.
#[test]
fn r03_another_login_s_agent_is_alive_and_the_login_is_named() {
    let mut world = need!(agents());
    let (document, code) = doctor(&mut world.b);
    assert_eq!(code, 1);
    let foreign = one(&document, "ssh_agent.foreign");
    assert_eq!((&foreign["severity"], &foreign["outcome"]), (&json!("warning"), &json!("confirmed")));
    assert!(message(foreign).contains("127.0.0.2") && message(foreign).contains("127.0.0.3"), "{foreign:#}");
    assert!(findings(&document, "ssh_agent.dangling").is_empty() && findings(&document, "ssh_agent.missing").is_empty());
    let (diff, _) = world.b.whoseenv(&["diff", "opencode", "--user", USER, "--json"]);
    let agent = row(&diff, "SSH_AUTH_SOCK");
    assert_eq!(
        (&agent["state"], &agent["liveness_a"]["state"], &agent["liveness_b"]["state"]),
        (&json!("differs"), &json!("alive"), &json!("alive"))
    );

    // Asked as root, the login is a connection: sshd's process holds both.
    let (owner, _) = need!(world.world.ask_as_root(&mut world.b, &["owner", "SSH_AUTH_SOCK", "opencode", "--user", USER, "--json"]));
    let a = world.a.as_ref().unwrap().connection();
    assert_eq!((&owner["data"]["owner"]["connection"], &owner["data"]["same_connection"]), (&json!(a), &json!(true)), "{owner:#}");
}

/// R03, the other half: a service that a manager started has no agent at all.
#[test]
fn r03_a_service_that_no_login_started_has_no_agent_and_that_is_missing_not_dead() {
    let world = need!(World::new());
    let agent = need!(Agent::start(world.dir()));
    let service = need!(Opencode::service(Start::as_account(&world.user, &[])));
    let mut b = need!(world.login(Login::from(3, &world.user).agent(&agent)));
    let (document, code) = doctor(&mut b);
    assert_eq!(code, 1);
    let missing = one(&document, "ssh_agent.missing");
    assert_eq!((&missing["severity"], &missing["outcome"]), (&json!("warning"), &json!("confirmed")));
    assert!(fix(missing).contains(&format!("SSH_AUTH_SOCK={}", b.var("SSH_AUTH_SOCK").unwrap())), "{}", fix(missing));
    for other in ["ssh_agent.dangling", "ssh_agent.foreign", "ssh_agent.refused"] {
        assert!(findings(&document, other).is_empty(), "{other}");
    }
    let (shown, _) = b.whoseenv(&["show", &service.pid().to_string(), "--json"]);
    let need = need_for(&shown["data"]["needs"], "git_over_ssh");
    assert_eq!((&need["verdict"], &part(need, "SSH_AUTH_SOCK")["state"]), (&json!("missing"), &json!("missing")));
    // git over https and a key file without a passphrase still work: no login of birth is made up either.
    assert_eq!(shown["data"]["birth"]["ssh_connection"], Value::Null);
}

/// R04, microsoft/vscode-remote-release#267: `story.rs`, step 3, is this report. What a person holds in her hand there is
/// a bare value: `owner localhost:10.0`, `data.owner.connection` and `data.same_connection`.
#[test]
fn r04_the_value_alone_is_enough_to_learn_whose_the_display_is() {
    let world = need!(World::new());
    let a = need!(world.user_from(2));
    let display = a.display().to_owned();
    a.disconnect();
    let mut b = need!(world.user_from(3));
    assert_eq!(b.display(), display, "the next login gets the number");
    let (owner, code) = need!(world.ask_as_root(&mut b, &["owner", &display, "--json"]));
    let data = &owner["data"];
    assert_eq!((code, &data["kind"], &data["liveness"]["state"]), (0, &json!("display"), &json!("alive")));
    assert_eq!((&data["owner"]["connection"], &data["same_connection"]), (&json!(b.connection()), &json!(true)));
    // ss says which process has the port; sshd's session is what it names.
    let ss = world.dir().join("ss");
    std::fs::copy(need!(crate::world::need::tool("ss", "iproute2")), &ss).unwrap();
    let port = b.display_port();
    let says = need!(world.as_root(&mut b, &ss, &["-Hltnp", &format!("sport = :{port}")]));
    assert!(says.stdout.contains(&format!("pid={},", data["owner"]["pid"])), "{says:?}\n{data:#}");

    let gone = format!("localhost:{}.0", world.first_display + 5);
    let (owner, _) = b.whoseenv(&["owner", &gone, "--json"]);
    assert_eq!(owner["data"]["liveness"]["state"], "refused");
}

/// A daemon in a service of the user's manager, on a machine with systemd.
fn managed(made: &MadeUp, path: &str) {
    let environ = [path, "HOME=/home/ann", "USER=ann", "DEBUG=0"];
    made.process(&Made {
        pid: 200,
        ppid: 1,
        comm: "codex",
        exe: "/opt/bin/codex",
        argv: &["codex", "app-server"],
        environ: &environ,
        cgroup: "0::/user.slice/user-0.slice/user@0.service/app.slice/agent.service",
        ..Made::default()
    });
    made.file(
        "home/ann/.config/systemd/user/agent.service",
        "[Service]\nExecStart=/opt/bin/codex app-server\nEnvironment=PATH=/usr/bin DEBUG=0\n",
    );
    made.file("home/ann/.config/systemd/user/agent.service.d/path.conf", "[Service]\nEnvironment=\"PATH=/home/ann/.nvm/bin:/usr/bin\"\n");
    made.file("run/systemd/system/.keep", "");
    made.terminal(&["HOME=/home/ann", "USER=ann", "PATH=/home/ann/.nvm/bin:/usr/bin"]);
    made.program("home/ann/.nvm/bin/node");
}

/// R06, openclaw/openclaw#11128: a doctor says that PATH is unset though a drop-in sets it.
/// `show PID`, `data.unit_environment[] {unit_file, drop_in, live}`; `doctor`, `findings[] unit.differs`.
#[test]
fn r06_unit_file_drop_in_and_live_value_are_three_columns() {
    let made = MadeUp::new();
    managed(&made, "PATH=/usr/bin");
    let (shown, _) = made.ask(&["show", "200", "--json"]);
    let rows = shown["data"]["unit_environment"].as_array().unwrap_or_else(|| panic!("no columns in {shown:#}"));
    let path = rows.iter().find(|row| row["name"] == "PATH").expect("a row for PATH");
    assert_eq!(
        [&path["unit_file"]["value"], &path["drop_in"]["value"], &path["live"]["value"], &path["same"]],
        [&json!("/usr/bin"), &json!("/home/ann/.nvm/bin:/usr/bin"), &json!("/usr/bin"), &json!(false)]
    );
    assert!(path["drop_in"]["source"].as_str().unwrap().ends_with("/agent.service.d/path.conf"));
    assert_eq!(shown["data"]["birth"]["unit"], "agent.service");

    let (document, code) = made.ask(&["doctor", "--json"]);
    assert_eq!(code, 1, "{document:#}");
    let differs = one(&document, "unit.differs");
    assert_eq!((&differs["severity"], &differs["outcome"]), (&json!("warning"), &json!("confirmed")));
    assert!(message(differs).contains("PATH"), "{differs:#}");
    assert_eq!(fix(differs), "systemctl --user daemon-reload\nsystemctl --user restart agent.service");
    // The live environment is the truth: PATH is there.
    assert!(findings(&document, "path.unset").is_empty());

    // After the restart that it advises, nothing differs, and the drop-in alone sets it.
    let made = MadeUp::new();
    managed(&made, "PATH=/home/ann/.nvm/bin:/usr/bin");
    let (document, _) = made.ask(&["doctor", "--json"]);
    assert!(findings(&document, "unit.differs").is_empty(), "{document:#}");
}

/// R13, anthropics/claude-code#85116 and #91798: settings that were removed live on in the daemon; the git author leaks.
/// `diff opencode login-shell` and `diff opencode CHILD`, `data.variables[].state`; `doctor`, `findings[] environ.inherited_only`.
#[test]
fn r13_what_the_daemon_has_by_inheritance_alone_and_no_login_shell_has_any_more() {
    let world = need!(World::new());
    let mut a = need!(world.user_from(2));
    a.stdout("export GIT_AUTHOR_NAME='The Other Project' GIT_AUTHOR_EMAIL=other@example.org");
    let service = need!(Opencode::service(Start::In(&mut a)));
    let mut b = need!(world.user_from(3));
    b.stdout("export GIT_AUTHOR_EMAIL=mine@example.org");

    let (diff, code) = b.whoseenv(&["diff", "opencode", "login-shell", "--user", USER, "--json"]);
    assert_eq!(code, 1, "{diff:#}");
    for name in ["GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "SSH_CONNECTION"] {
        assert_eq!(row(&diff, name)["state"], "only_a", "{name}");
    }
    assert_eq!(row(&diff, "HOME")["state"], "same");
    assert_eq!(diff["data"]["b"]["reference"], "login-shell");

    let (document, _) = doctor(&mut b);
    let inherited = one(&document, "environ.inherited_only");
    assert_eq!((&inherited["severity"], &inherited["outcome"]), (&json!("info"), &json!("confirmed")));
    assert!(message(inherited).contains("GIT_AUTHOR_NAME") && !message(inherited).contains("GIT_AUTHOR_EMAIL"), "{inherited:#}");
    assert!(message(one(&document, "environ.differs")).contains("GIT_AUTHOR_EMAIL"));

    let child = service.shell_child();
    let (diff, _) = b.whoseenv(&["diff", "opencode", &child.shell.pid.to_string(), "--user", USER, "--json"]);
    assert_eq!(row(&diff, "GIT_AUTHOR_NAME")["state"], "same", "the author reaches every tool");
    let terminal = row(&diff, "OPENCODE_TERMINAL");
    assert_eq!((&terminal["state"], &terminal["b"]["value"]), (&json!("only_b"), &json!("1")));
}

/// R15, cluesmith/codev#1219 and thedotmack/claude-mem#1352: markers leak into daemons that an agent starts.
/// `doctor`, `findings[] environ.leaked_marker`, one an agent.
#[test]
fn r15_markers_of_other_agents_are_named_by_agent() {
    let world = need!(World::new());
    let mut a = need!(world.user_from(2));
    a.stdout("export CLAUDECODE=1 CLAUDE_CODE_ENTRYPOINT=cli CODEX_THREAD_ID=0198a7c2-1111-7000-8000-000000000001 GEMINI_CLI=1");
    let service = need!(Opencode::service(Start::In(&mut a)));
    let mut b = need!(world.user_from(3));
    let (document, code) = doctor(&mut b);
    assert_eq!(code, 1);
    let leaked = findings(&document, "environ.leaked_marker");
    let told = |agent: &str, names: &[&str]| {
        let of = |finding: &&&Value| names.iter().all(|name| message(finding).contains(name)) && message(finding).contains(agent);
        assert_eq!(leaked.iter().filter(of).count(), 1, "{agent}: {leaked:#?}");
    };
    told("claude-code", &["CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT"]);
    told("codex", &["CODEX_THREAD_ID"]);
    told("gemini", &["GEMINI_CLI"]);
    assert_eq!(leaked.len(), 3);
    assert!(leaked.iter().all(|finding| finding["severity"] == "warning" && finding["outcome"] == "confirmed"));
    assert!(fix(leaked[0]).contains("unset CLAUDECODE") || fix(leaked[0]).contains("env -u CLAUDECODE"), "{}", fix(leaked[0]));
    // Its own markers in its own tool are no leak, and those of the others are named there too.
    let child = service.shell_child();
    let (ps, _) = b.whoseenv(&["ps", "--user", USER, "--json"]);
    let tool =
        ps["data"]["processes"].as_array().unwrap().iter().find(|row| row["pid"] == child.shell.pid).expect("the tool's shell").clone();
    assert_eq!((&tool["agent"], &tool["role"]), (&json!("opencode"), &json!("tool")));
}

/// R18, anomalyco/opencode#31778: MCP servers inherit every API key.
/// `doctor`, `data.daemons[].children[].secrets[] {name, masked, from_daemon}` and `findings[] secret.inherited`.
#[test]
fn r18_secrets_in_children_by_name_and_fingerprint_without_a_value() {
    const BY_NAME: &str = "invented-b7c1e9";
    const BY_SHAPE: &str = "ghp_inventedinventedinventedinvented0000";
    let world = need!(World::new());
    let mut a = need!(world.user_from(2));
    a.stdout(&format!("export EXAMPLE_API_KEY={BY_NAME} HARMLESS_NOTE={BY_SHAPE} PLAIN_SETTING=on"));
    // An MCP server that never answers is a child that stays as long as the daemon waits for it.
    let config = json!({"autoupdate": false, "mcp": {"quiet": {"type": "local", "command": ["/bin/sleep", "611"], "enabled": true, "timeout": 60_000}}});
    world.user.write(&world.user.home.join(".config/opencode/opencode.json"), &config.to_string());
    let server = need!(Opencode::v1(Start::In(&mut a), "serve"));
    // Asking for the state of the servers starts them; nobody waits for the answer.
    let _asking = server.endpoint.ask("GET", "/mcp", &json!({}));
    let daemon = server.pid();
    let mcp = look::wait_for("the MCP server", || {
        look::processes().into_iter().find(|process| process.ppid == daemon && process.argv() == ["/bin/sleep", "611"])
    });
    let mut b = need!(world.user_from(3));
    let (document, _) = doctor(&mut b);
    let children = document["data"]["daemons"][0]["children"].as_array().expect("children");
    let child = children.iter().find(|child| child["pid"] == mcp.pid).unwrap_or_else(|| panic!("no child {} in {children:#?}", mcp.pid));
    assert_eq!(child["role"], "other");
    let secret = |name: &str| child["secrets"].as_array().unwrap().iter().find(|secret| secret["name"] == name).cloned();
    for (name, value) in [("EXAMPLE_API_KEY", BY_NAME), ("HARMLESS_NOTE", BY_SHAPE)] {
        let secret = secret(name).unwrap_or_else(|| panic!("{name} is not told: {child:#}"));
        assert_eq!((&secret["from_daemon"], &secret["masked"]["len"]), (&json!(true), &json!(value.len())));
        assert!(secret["masked"]["fingerprint"].as_str().is_some_and(|print| !print.is_empty()));
    }
    assert!(secret("PLAIN_SETTING").is_none() && secret("SSH_CONNECTION").is_none());
    let inherited = one(&document, "secret.inherited");
    assert!(message(inherited).contains("EXAMPLE_API_KEY") && message(inherited).contains("HARMLESS_NOTE"), "{inherited:#}");

    let pid = mcp.pid.to_string();
    for arguments in
        [vec!["doctor", "--user", USER], vec!["doctor", "--user", USER, "-v", "--json"], vec!["show", &pid], vec!["show", &pid, "--json"]]
    {
        let program = b.whoseenv.clone().unwrap();
        let said = b.program(&program, &arguments);
        assert!(!said.stdout.contains(BY_NAME) && !said.stdout.contains(BY_SHAPE), "{arguments:?}");
        assert!(!said.stderr.contains(BY_NAME) && !said.stderr.contains(BY_SHAPE), "{arguments:?}");
    }
}

/// R21, microsoft/vscode-remote-release#6362: `code` in tmux, connection refused on a socket that a variable names.
/// `show PID`, `data.environment[].liveness.state`, whether the catalogue knows the variable or not.
#[test]
fn r21_any_variable_that_names_a_socket_is_dangling_refused_or_alive() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let listening = UnixListener::bind(path("alive.sock")).unwrap();
    drop(UnixListener::bind(path("left.sock")).unwrap());
    let (alive, left, gone) = (path("alive.sock"), path("left.sock"), path("gone.sock"));
    let url = format!("unix://{left}");
    let gpg = format!("{left}:2711:1");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = format!("http://{}", listener.local_addr().unwrap());
    let sleeper = Sleeper::start(&[
        ("VSCODE_IPC_HOOK_CLI", &left),
        ("VSCODE_GIT_IPC_HANDLE", &gone),
        ("MYTOOL_SOCKET", &left),
        ("MYTOOL_SOCK", &gone),
        ("OTHER_TOOL_SOCKET_PATH", &alive),
        ("DOCKER_HOST", &url),
        ("MYTOOL_NOTE", "no path at all"),
        ("PIPEWIRE_REMOTE", &gone),
        ("XDG_RUNTIME_DIR", dir.path().to_str().unwrap()),
        ("HYPRLAND_INSTANCE_SIGNATURE", "5e54c88_1747_3"),
        ("GPG_AGENT_INFO", &gpg),
        ("HTTPS_PROXY", "http://127.0.0.1:9"),
        ("http_proxy", &proxy),
        ("ALL_PROXY", "http://proxy.example:3128"),
    ]);
    let document = run(&["show", &sleeper.pid(), "--json"]).json();
    for (name, state) in [
        ("VSCODE_IPC_HOOK_CLI", "refused"),
        ("VSCODE_GIT_IPC_HANDLE", "dangling"),
        ("MYTOOL_SOCKET", "refused"),
        ("MYTOOL_SOCK", "dangling"),
        ("OTHER_TOOL_SOCKET_PATH", "alive"),
        ("DOCKER_HOST", "refused"),
        ("PIPEWIRE_REMOTE", "dangling"),
        ("HYPRLAND_INSTANCE_SIGNATURE", "dangling"),
        ("GPG_AGENT_INFO", "refused"),
        ("HTTPS_PROXY", "refused"),
        ("http_proxy", "alive"),
        ("ALL_PROXY", "unknown"),
    ] {
        assert_eq!(variable(&document, name)["liveness"]["state"], state, "{name}: {document:#}");
    }
    assert!(variable(&document, "MYTOOL_NOTE").get("liveness").is_none_or(|liveness| liveness["state"] == "none"));
    // In a daemon they are findings.
    let world = need!(World::new());
    let gone = |name: &str| world.dir().join(name).display().to_string();
    let (ipc, other) = (gone("vscode-ipc.sock"), gone("mytool.sock"));
    let (hyprland, proxy) = ("5e54c88_1747_3", "http://127.0.0.1:9");
    let env = [
        ("VSCODE_IPC_HOOK_CLI", ipc.as_str()),
        ("MYTOOL_SOCKET", &other),
        ("HYPRLAND_INSTANCE_SIGNATURE", hyprland),
        ("PIPEWIRE_REMOTE", &other),
        ("HTTPS_PROXY", proxy),
        ("ALL_PROXY", "http://proxy.example:3128"),
    ];
    let service = need!(Opencode::service(Start::as_account(&world.user, &env)));
    let mut login = need!(world.login(Login::from(2, &world.user)));
    let (document, code) = doctor(&mut login);
    assert_eq!(code, 1);
    assert!(findings(&document, "proxy.unknown").is_empty(), "another machine was not asked about");
    for id in ["editor.dangling", "socket.dangling", "window_manager.dangling", "audio.dangling", "proxy.refused"] {
        let finding = one(&document, id);
        assert_eq!((&finding["severity"], &finding["outcome"]), (&json!("error"), &json!("confirmed")));
        assert!(finding["subject"].as_str().unwrap().contains(&service.pid().to_string()), "{finding:#}");
    }
    drop(listening);
    let document = run(&["show", &sleeper.pid(), "--json"]).json();
    assert_eq!(variable(&document, "OTHER_TOOL_SOCKET_PATH")["liveness"]["state"], "refused");
    let owner = run(&["owner", "OTHER_TOOL_SOCKET_PATH", &sleeper.pid(), "--json"]).json();
    assert_eq!(owner["data"]["liveness"]["state"], "refused");
}

/// R22, anthropics/claude-code#82890: a child without DISPLAY, XAUTHORITY or bus; xdg-open exits 3.
/// `show PID`, `data.needs[] {purpose, verdict, parts[]}`.
#[test]
fn r22_what_a_gui_program_needs_is_a_matrix_of_each_process() {
    let world = need!(World::new());
    let mut login = need!(world.user_from(2));
    let bare = login.spawn("env -i PATH=/usr/bin HOME=/nonexistent sleep 300");
    let no_cookie = login.spawn("env XAUTHORITY=/nonexistent/Xauthority sleep 300");
    let whole = login.spawn("sleep 300");
    let mut gui = |pid: u32| {
        let (shown, _) = login.whoseenv(&["show", &pid.to_string(), "--json"]);
        need_for(&shown["data"]["needs"], "gui").clone()
    };
    let need = gui(bare.pid);
    assert_eq!(need["verdict"], "missing");
    for name in ["DISPLAY", "XAUTHORITY", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"] {
        assert_eq!(part(&need, name)["state"], "missing", "{name}");
    }
    let need = gui(no_cookie.pid);
    assert_eq!(
        (&need["verdict"], &part(&need, "DISPLAY")["state"], &part(&need, "XAUTHORITY")["state"]),
        (&json!("broken"), &json!("alive"), &json!("dangling")),
        "the display answers, and nobody gets in without the cookie"
    );
    let need = gui(whole.pid);
    assert_eq!((&need["verdict"], &part(&need, "DISPLAY")["state"]), (&json!("works"), &json!("alive")), "{need:#}");
    assert_eq!(part(&need, "~/.Xauthority")["state"], "alive");
    for process in [bare, no_cookie, whole] {
        process.stop();
    }
}

/// R23, anthropics/claude-code#88898: the clipboard tool succeeds with stale text under Wayland.
/// `doctor`, `findings[] clipboard.unreliable`; `show PID`, `data.needs[] clipboard`.
#[test]
fn r23_under_wayland_an_x_tool_that_comes_first_is_unreliable() {
    let world = need!(World::new());
    let wayland = need!(Wayland::start(&world.user, &world.dir().join("runtime"), "wayland-7"));
    let (x_first, native) = (world.dir().join("x-first"), world.dir().join("native"));
    for (dir, tool) in [(&x_first, "xclip"), (&native, "wl-copy")] {
        std::fs::create_dir(dir).unwrap();
        std::os::unix::fs::symlink("/bin/true", dir.join(tool)).unwrap();
    }
    let path = |dirs: &[&Path]| dirs.iter().map(|dir| dir.display().to_string()).collect::<Vec<_>>().join(":");
    let (runtime, bad) = (wayland.runtime_dir.display().to_string(), path(&[&x_first, &native, Path::new("/usr/bin"), Path::new("/bin")]));
    let env = [("WAYLAND_DISPLAY", "wayland-7"), ("XDG_RUNTIME_DIR", runtime.as_str()), ("PATH", &bad)];
    let service = need!(Opencode::service(Start::as_account(&world.user, &env)));
    let mut login = need!(world.login(Login::from(3, &world.user)));
    let (document, code) = doctor(&mut login);
    assert_eq!(code, 1);
    let unreliable = one(&document, "clipboard.unreliable");
    assert_eq!((&unreliable["severity"], &unreliable["outcome"]), (&json!("warning"), &json!("confirmed")));
    assert!(evidence(unreliable).contains(&x_first.join("xclip").display().to_string()), "{}", evidence(unreliable));
    let (shown, _) = login.whoseenv(&["show", &service.pid().to_string(), "--json"]);
    assert_eq!(need_for(&shown["data"]["needs"], "clipboard")["verdict"], "unreliable");
    assert_eq!(need_for(&shown["data"]["needs"], "gui")["verdict"], "works", "a window opens all the same");

    // The order alone decides.
    let good = path(&[&native, &x_first, Path::new("/usr/bin"), Path::new("/bin")]);
    let right = login.spawn(&format!("env WAYLAND_DISPLAY=wayland-7 XDG_RUNTIME_DIR={runtime} PATH={good} /bin/sleep 300"));
    let (shown, _) = login.whoseenv(&["show", &right.pid.to_string(), "--json"]);
    assert_eq!(need_for(&shown["data"]["needs"], "clipboard")["verdict"], "works");
    right.stop();
}

/// R24, kdlbs/kandev#1526: a service's PATH lacks the version manager.
/// `doctor`, `findings[] path.resolves_differently` and `path.missing_directory`, `data.daemons[].path`.
#[test]
fn r24_a_path_without_the_version_manager_resolves_differently() {
    let world = need!(World::new());
    let managed = world.user.home.join(".nvm/versions/node/v24.1.0/bin");
    world.user.write(&managed.join("node"), "#!/bin/sh\n");
    let gone = world.user.home.join(".nvm/versions/node/v20.0.0/bin");
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", gone.display());
    let service = need!(Opencode::service(Start::as_account(&world.user, &[("PATH", &path)])));
    let mut login = need!(world.user_from(3));
    login.stdout(&format!("chmod 755 {0}/node; export PATH={0}:$PATH", managed.display()));
    let (document, code) = doctor(&mut login);
    assert_eq!(code, 1);
    let differently = one(&document, "path.resolves_differently");
    assert_eq!((&differently["severity"], &differently["outcome"]), (&json!("warning"), &json!("confirmed")));
    assert!(evidence(differently).contains("node") && evidence(differently).contains(&managed.display().to_string()), "{differently:#}");
    let missing = one(&document, "path.missing_directory");
    assert_eq!(missing["outcome"], "confirmed");
    assert!(message(missing).contains(&gone.display().to_string()), "{missing:#}");
    let daemon = &document["data"]["daemons"][0];
    assert_eq!(daemon["pid"], service.pid());
    assert_eq!(daemon["path"]["missing"], json!([gone]));
    assert!(daemon["path"]["only_terminal"].as_array().unwrap().contains(&json!(managed)), "{:#}", daemon["path"]);
}

/// R24, netclaw-dev/netclaw#1544: without lingering the service ends with the last login.
/// `doctor`, `findings[] login.linger_off`.
#[test]
fn r24_a_user_service_without_lingering_ends_at_logout() {
    let made = MadeUp::new();
    managed(&made, "PATH=/usr/bin");
    let (document, code) = made.ask(&["doctor", "--json"]);
    assert_eq!(code, 1);
    let linger = one(&document, "login.linger_off");
    assert_eq!((&linger["severity"], &linger["outcome"]), (&json!("warning"), &json!("confirmed")));
    assert_eq!(fix(linger), "loginctl enable-linger root", "the manager is that of uid 0 here");
    assert!(evidence(one(&document, "path.resolves_differently")).contains("node"));

    made.file("var/lib/systemd/linger/root", "");
    let (document, _) = made.ask(&["doctor", "--json"]);
    assert!(findings(&document, "login.linger_off").is_empty(), "{document:#}");

    // A machine without systemd is not one that does not linger.
    let made = MadeUp::new();
    made.process(&Made { pid: 200, ppid: 1, comm: "codex", exe: "/opt/bin/codex", argv: &["codex", "app-server"], ..Made::default() });
    made.terminal(&["PATH=/usr/bin"]);
    let (document, _) = made.ask(&["doctor", "--json"]);
    assert_eq!(document["data"]["daemons"][0]["pid"], 200);
    assert!(findings(&document, "login.linger_off").is_empty());
}

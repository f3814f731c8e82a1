//! `probe exec`: the recipes that come with the program, and a person's own.

use super::{Room, evidence, fits_schema, outcomes};
use crate::run::write;
use crate::world::need::tool;

fn recipe(id: &str) -> (i32, serde_json::Value) {
    let room = Room::new();
    let ran = room.run(&["probe", "exec", "--json", id]);
    (ran.code, ran.json())
}

#[test]
fn recipes_hold() {
    for (id, program) in [("env-i", "env"), ("login-shell", "bash"), ("tmux-e", "tmux"), ("tmux-update-environment", "tmux")] {
        need!(tool(program, program));
        let (code, json) = recipe(id);
        assert_eq!((code, outcomes(&json)[id].as_str()), (0, "confirmed"), "{json:#}");
        fits_schema("probe", &json);
    }
}

#[test]
fn ssh_hands_on_what_both_ends_name() {
    need!(tool("sshd", "openssh-server"));
    need!(tool("ssh", "openssh-client"));
    need!(crate::world::accounts::possible());
    let _ = std::fs::create_dir_all("/run/sshd");
    let (code, json) = recipe("ssh-sendenv");
    assert_eq!((code, outcomes(&json)["ssh-sendenv"].as_str()), (0, "confirmed"), "{json:#}");
}

#[test]
fn a_login_drops_the_callers_variables() {
    need!(crate::world::accounts::possible());
    let (code, json) = recipe("su-login");
    assert_eq!((code, outcomes(&json)["su-login"].as_str()), (0, "confirmed"), "{json:#}");
}

#[test]
fn what_is_not_here_is_not_supported_and_no_failure() {
    for id in ["sudo", "systemd-run", "systemd-import-environment"] {
        let (code, json) = recipe(id);
        assert_eq!(code, 0, "{id}: {json:#}");
        assert!(["confirmed", "not_supported"].contains(&outcomes(&json)[id].as_str()), "{id}");
    }
    assert_eq!(Room::new().run(&["probe", "exec", "no-such-recipe"]).code, 3);
}

#[test]
fn ones_own_recipe_injects_by_file_stdin_and_request() {
    let room = Room::new();
    let dir = tempfile::tempdir().unwrap();
    let server = write(
        dir.path(),
        "server.py",
        b"import http.server, os, subprocess, sys\nkept = {}\nclass H(http.server.BaseHTTPRequestHandler):\n  def do_PUT(self):\n    body = self.rfile.read(int(self.headers['Content-Length']))\n    open(sys.argv[2], 'wb').write(body)\n    self.send_response(204)\n    self.end_headers()\n  def log_message(self, *a): pass\nhttp.server.HTTPServer(('127.0.0.1', int(sys.argv[1])), H).serve_forever()\n",
    );
    let own = format!(
        r#"
[[recipe]]
id = "by-file"
text = "A file of assignments reaches the shell."
files = {{ "work/env" = "A={{nonce}}\n" }}
run = ["sh", "-c", "set -a; . ./env; exec sh -c \"$0\"", "{{command}}"]
expect.set = {{ A = "{{nonce}}" }}

[[recipe]]
id = "by-stdin"
text = "What a shell reads, it runs."
run = ["sh"]
stdin = "export A={{nonce}}\n{{command}}\n"
expect.added = ["A"]

[[recipe]]
id = "by-request"
text = "What a request brought reaches the shell."
needs = ["/usr/bin/python3"]
start = ["/usr/bin/python3", "{}", "{{port}}", "{{dir}}/kept"]
http = {{ method = "PUT", url = "http://127.0.0.1:{{port}}/env", body = "\"{{nonce}}\"" }}
run = ["sh", "-c", "A=$(cat {{dir}}/kept | tr -d '\"') exec sh -c \"$0\"", "{{command}}"]
expect.set = {{ A = "{{nonce}}" }}
"#,
        server.display()
    );
    let file = write(dir.path(), "own.toml", own.as_bytes());
    for id in ["by-file", "by-stdin", "by-request"] {
        let ran = room.run(&["probe", "exec", "--json", "--file", file.to_str().unwrap(), id]);
        assert_eq!((ran.code, outcomes(&ran.json())[id].as_str()), (0, "confirmed"), "{}", ran.stdout);
    }
    // The user's own file is read without being named.
    let config = tempfile::tempdir().unwrap();
    std::fs::create_dir(config.path().join("whoseenv")).unwrap();
    std::fs::copy(&file, config.path().join("whoseenv/probes.toml")).unwrap();
    let mut command = room.command(&["probe", "exec", "-q", "by-file"]);
    assert_eq!(crate::run::ran(command.env("XDG_CONFIG_HOME", config.path())).code, 0);
    let broken = write(dir.path(), "broken.toml", b"[[recipe]]\nid = 1\n");
    assert_eq!(room.run(&["probe", "exec", "--file", broken.to_str().unwrap(), "env-i"]).code, 2);
}

#[test]
fn in_band_tells_set_and_unset_and_equality_and_no_value() {
    let room = Room::new();
    let arguments = ["probe", "exec", "--json", "--in-band", "--set", "A=a value", "--absent", "SECRET_TOKEN", "--"];
    let ran = room.run(&[&arguments[..], &["env", "-u", "SECRET_TOKEN", "sh", "-c", "{command}"]].concat());
    let json = ran.json();
    assert_eq!((ran.code, json["data"]["claims"][0]["readback"].as_str()), (0, Some("output")), "{json:#}");
    let seen = evidence(&json, "command");
    assert!(seen.contains("in band") && seen.contains("A is set, 7 bytes") && seen.contains("SECRET_TOKEN is unset"), "{seen}");
    let leaked = room.run(&[&arguments[..], &["sh", "-c", "{command}"]].concat());
    assert_eq!(leaked.code, 1);
    // A shell that cannot run the helper at all: the fall-back is taken, and said.
    let sandbox = "case \"$0\" in *readback*) exit 127;; esac; eval \"$0\"";
    let fallback = room.run(&["probe", "exec", "--json", "--set", "A=1", "--", "sh", "-c", sandbox, "{command}"]);
    let json = fallback.json();
    assert_eq!((fallback.code, json["data"]["claims"][0]["readback"].as_str()), (0, Some("output")), "{json:#}");
    assert!(evidence(&json, "command").contains("in band"));
}

#[test]
fn an_experiment_whose_control_fails_tells_nothing() {
    let room = Room::new();
    let dir = tempfile::tempdir().unwrap();
    let own = "[[recipe]]\nid = \"same\"\ntext = \"x\"\nenv = { A = \"{nonce}\" }\nrun = [\"sh\", \"-c\", \"{command}\"]\ncontrol = [\"sh\", \"-c\", \"{command}\"]\nexpect.set = { A = \"{nonce}\" }\n";
    let file = write(dir.path(), "own.toml", own.as_bytes());
    let ran = room.run(&["probe", "exec", "--json", "--file", file.to_str().unwrap(), "same"]);
    assert_eq!((ran.code, outcomes(&ran.json())["same"].as_str()), (5, "undetermined"));
    assert!(evidence(&ran.json(), "same").contains("it did not hold: what is expected is there without the injection too"));
}

/// The injection is not in the control, whichever way it comes; where it comes with every command, nothing is told.
#[test]
fn the_control_is_without_the_injection() {
    let room = Room::new();
    let dir = tempfile::tempdir().unwrap();
    let own = r#"
[[recipe]]
id = "by-run-env"
text = "x"
run = ["sh", "-c", "{command}"]
run_env = { A = "{nonce}" }
control = ["sh", "-c", "{command}"]
expect.set = { A = "{nonce}" }

[[recipe]]
id = "by-stdin"
text = "x"
run = ["sh"]
stdin = "A={nonce} exec sh -c '{command}'\n"
control = ["sh", "-c", "{command}"]
expect.set = { A = "{nonce}" }

[[recipe]]
id = "by-file"
text = "x"
files = { "work/env" = "A={nonce}\n" }
run = ["sh", "-c", "set -a; . ./env; exec sh -c \"$0\"", "{command}"]
control = ["sh", "-c", "set -a; . ./env; exec sh -c \"$0\"", "{command}"]
expect.set = { A = "{nonce}" }

[[recipe]]
id = "by-command"
text = "x"
inject = [["sh", "-c", "echo A={nonce} > {dir}/kept"]]
run = ["sh", "-c", "set -a; [ ! -e {dir}/kept ] || . {dir}/kept; exec sh -c \"$0\"", "{command}"]
expect.set = { A = "{nonce}" }

[[recipe]]
id = "by-file-literally"
text = "x"
files = { "work/env" = "B=b\nA=\"a b\"\n" }
run = ["sh", "-c", "set -a; . ./env; exec sh -c \"$0\"", "{command}"]
expect.set = { A = "a b" }

[[recipe]]
id = "by-stdin-literally"
text = "x"
run = ["sh"]
stdin = "export A=literal\nsh -c '{command}'\n"
expect.set = { A = "literal" }

[[recipe]]
id = "there-anyhow"
text = "x"
files = { "work/env" = "TERM=vt220\n" }
run = ["sh", "-c", "set -a; . ./env; exec sh -c \"$0\"", "{command}"]
expect.set = { TERM = "vt220" }

[[recipe]]
id = "without"
text = "x"
env = { A = "{nonce}" }
run = ["sh", "-c", "{command}"]
expect.set = { A = "{nonce}" }
"#;
    let file = write(dir.path(), "own.toml", own.as_bytes());
    for (id, outcome) in [
        ("by-run-env", "confirmed"),
        ("by-stdin", "confirmed"),
        ("by-file", "confirmed"),
        ("by-command", "confirmed"),
        ("by-file-literally", "confirmed"),
        ("by-stdin-literally", "confirmed"),
        ("there-anyhow", "undetermined"),
        ("without", "undetermined"),
    ] {
        let ran = room.run(&["probe", "exec", "--json", "--file", file.to_str().unwrap(), id]);
        assert_eq!(outcomes(&ran.json())[id], outcome, "{}", ran.stdout);
        assert!(evidence(&ran.json(), id).contains("without the injection"));
    }
    // What is there anyhow is not of the injection.
    let fixed = room.run(&["probe", "exec", "--json", "--set", "TERM=vt220", "--", "sh", "-c", "{command}"]);
    assert_eq!((fixed.code, outcomes(&fixed.json())["command"].as_str()), (5, "undetermined"), "{}", fixed.stdout);
}

#[test]
fn in_band_no_value_is_in_the_command_of_the_host() {
    let room = Room::new();
    let dir = tempfile::tempdir().unwrap();
    let seen = dir.path().join("seen");
    let host = format!("printf '%s\\n' \"$0\" >> {}; exec sh -c \"$0\"", seen.display());
    let secret = "TOKEN=hunter2SECRETxyz";
    let ran = room.run(&["probe", "exec", "--json", "--in-band", "--set", secret, "--", "sh", "-c", &host, "{command}"]);
    assert_eq!((ran.code, outcomes(&ran.json())["command"].as_str()), (0, "confirmed"), "{}", ran.stdout);
    let commands = std::fs::read_to_string(&seen).unwrap();
    assert!(commands.contains("TOKEN") && !commands.contains("hunter2SECRETxyz"), "{commands}");
    assert!(!ran.stdout.contains("hunter2SECRETxyz"));
    let refused = room.run(&["probe", "exec", "--in-band", "--only", "PATH", "--", "sh", "-c", "{command}"]);
    assert_eq!(refused.code, 2, "{}", refused.stderr);
}

#[test]
fn a_dry_run_says_all_that_is_run_and_given_in_order() {
    let room = Room::new();
    let plan = |arguments: &[&str]| {
        let json = room.run(&[&["probe", "exec", "--json", "--dry-run"], arguments].concat()).json();
        json["data"]["plan"].as_array().unwrap().iter().map(|line| line.as_str().unwrap().to_owned()).collect::<Vec<_>>().join("\n")
    };
    let ssh = plan(&["ssh-sendenv"]);
    assert!(ssh.contains("-N '' -C whoseenv-probe"), "{ssh}");
    assert!(ssh.contains("with WHOSEENV_CANARY, WHOSEENV_MARK") && ssh.contains("in band"), "{ssh}");
    let (run, control) = ssh.split_once("the control, without the injection:").expect("the control");
    assert!(run.contains("SendEnv=WHOSEENV_*") && !control.contains("SendEnv") && !control.contains("WHOSEENV_MARK, "), "{control}");
    let dir = tempfile::tempdir().unwrap();
    let own = "[[recipe]]\nid = \"a\"\ntext = \"x\"\nstart = [\"server\"]\nhttp = { method = \"PUT\", url = \"http://127.0.0.1:{port}/\", body = \"1\" }\nrun = [\"sh\"]\nstdin = \"{command}\"\nenv = { B = \"b\" }\nexpect.present = [\"B\"]\n";
    let file = write(dir.path(), "own.toml", own.as_bytes());
    let own = plan(&["--file", file.to_str().unwrap(), "a"]);
    let at = |text: &str| own.find(text).unwrap_or_else(|| panic!("{text}: {own}"));
    assert!(
        at("with B") < at("start server") && at("start server") < at("send PUT") && at("send PUT") < at("run sh; it reads 9 bytes"),
        "{own}"
    );
}

#[test]
fn the_list_is_json_where_json_is_asked_for() {
    let json = Room::new().run(&["probe", "exec", "--list", "--json"]).json();
    assert_eq!(json["data"]["recipes"][0]["id"], "env-i", "{json}");
    fits_schema("probe-recipes", &json);
}

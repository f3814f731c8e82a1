//! Probes as people run them: other accounts, other people's daemons, no terminal.

use std::process::{Command, Stdio};

use super::v1_live::Server;
use super::{Room, contract_host, evidence, ids, outcomes, python, with_outcome};
use crate::run::ran;
use crate::world::World;
use crate::world::daemons::{Opencode, Start, Zeroclaw};
use crate::world::look::free_port;
use crate::world::need::tool;
use crate::world::peers;
use crate::world::stub_model::StubModel;

/// A root without a terminal becomes an account, as cron jobs and provisioning do: the registration is the account's.
#[test]
fn the_password_is_found_through_su_without_a_terminal() {
    let world = need!(World::new());
    let service = need!(Opencode::service(Start::as_account(&world.user, &[("DISPLAY", ":77"), ("TERM", "vt220")])));
    let asked = format!("{} probe opencode --json --live {}", world.whoseenv.display(), service.endpoint.url());
    let su = need!(tool("su", "util-linux"));
    let mut command = Command::new("setsid");
    command.arg("--wait").arg(su).args(["-", &world.user.name, "-c", &asked]).env_clear().env("PATH", "/usr/bin:/bin").env("HOME", "/root");
    let told = ran(command.stdin(Stdio::null()));
    assert_eq!((told.code, with_outcome(&told.json(), "confirmed")), (0, ids('O', &[1, 2, 7, 10, 13])), "{}", told.stdout);
}

#[test]
fn verify_of_a_file_means_ones_own_daemon_of_that_file() {
    let world = need!(World::new());
    let program = need!(peers::opencode_preview());
    let stranger_port = free_port().to_string();
    let config = world.stranger.home.join(".config/opencode/service.json");
    world.stranger.write(&config, &format!("{{\"port\":{stranger_port}}}"));
    let theirs = need!(Opencode::service(Start::as_account(&world.stranger, &[("DISPLAY", ":66"), ("TERM", "vt220")])));
    let verify = || {
        let mut command = world.user.command(&world.whoseenv);
        let told = ran(command.args(["verify", "opencode", "--json", "--bin"]).arg(&program));
        assert_eq!(told.code, 0, "{}", told.stdout);
        told.json()["data"]["lines"][0].clone()
    };
    let alone = verify();
    assert_eq!((alone["outcome"].as_str(), alone["says"].as_str()), (None, Some("not looked at: no daemon of it runs here")), "{alone}");
    let own = need!(Opencode::service(Start::as_account(&world.user, &[("DISPLAY", ":77"), ("TERM", "vt220")])));
    let beside = verify();
    assert_eq!(beside["outcome"], "confirmed", "{beside}");
    let read = beside["evidence"].to_string();
    let environ = |pid: u32| format!("/proc/{pid}/environ");
    assert!(read.contains(&environ(own.pid())) && !read.contains(&environ(theirs.pid())), "{read}");
}

/// What `grep` finds nothing known in is told, and is no success.
#[test]
fn verify_of_a_file_whose_code_nobody_knows_is_undetermined() {
    need!(python());
    let (room, dir) = (Room::new(), tempfile::tempdir().unwrap());
    let host = contract_host(dir.path(), &[]);
    let told = room.run(&["verify", "opencode", "--json", "--user", "bin", "--bin", host.to_str().unwrap()]);
    let json = told.json();
    assert_eq!((told.code, json["data"]["lines"][3]["outcome"].as_str()), (5, Some("undetermined")), "{json:#}");
    assert_eq!(json["data"]["lines"][1]["outcome"], "confirmed", "the injection itself");
}

#[test]
fn through_sudo_the_shell_has_its_name() {
    need!(crate::world::accounts::possible());
    need!(tool("sudo", "sudo"));
    let json = Room::new().run(&["probe", "exec", "--json", "sudo"]).json();
    assert_eq!(outcomes(&json)["sudo"], "confirmed", "{json:#}");
    assert!(evidence(&json, "sudo").contains(": sh ("), "{}", evidence(&json, "sudo"));
}

/// As `ss` shows the account: its sockets are there, and whose they are; what runs behind them may not be looked into.
#[test]
fn another_accounts_daemon_may_not_be_looked_into_and_that_is_said() {
    let world = need!(World::new());
    let program = need!(peers::opencode_preview());
    let config = world.stranger.home.join(".config/opencode/service.json");
    world.stranger.write(&config, &format!("{{\"port\":{}}}", free_port()));
    let theirs = need!(Opencode::service(Start::as_account(&world.stranger, &[("DISPLAY", ":66"), ("TERM", "vt220")])));
    let ask = |arguments: &[&str]| {
        let mut command = world.user.command(&world.whoseenv);
        ran(command.args(arguments))
    };
    let live = ask(&["probe", "opencode", "--live", &theirs.endpoint.url()]);
    assert!(live.code == 4 && live.stderr.contains(&world.stranger.name), "{} {}", live.code, live.stderr);
    let any = ask(&["probe", "opencode", "--live"]);
    assert!(any.code == 4 && any.stderr.contains(&theirs.pid().to_string()), "{} {}", any.code, any.stderr);
    let nothing = ask(&["probe", "opencode", "--live", &format!("http://127.0.0.1:{}", free_port())]);
    assert!(nothing.code == 3 && nothing.stderr.contains("nothing of this machine listens"), "{} {}", nothing.code, nothing.stderr);
    // What --pid names is asked for.
    let bin = program.to_str().unwrap();
    let pinned = ask(&["verify", "opencode", "--json", "--pid", &theirs.pid().to_string(), "--bin", bin]);
    let json = pinned.json();
    assert_eq!((pinned.code, json["status"].as_str()), (4, Some("not_permitted")), "{json:#}");
    assert_eq!(json["data"]["lines"][2]["outcome"], "confirmed", "the rest is shown");
    for pid in ["999999", "1"] {
        let told = ask(&["verify", "opencode", "--pid", pid, "--bin", bin]);
        assert!(told.code == 3 && told.stderr.contains(pid), "{pid}: {} {}", told.code, told.stderr);
    }
}

/// A daemon on every address is reached at the machine's own, once that is allowed: `curl` reaches it there too.
#[test]
fn a_daemon_on_every_address_is_known_at_each() {
    let server = need!(Server::of(need!(peers::opencode_v1()), &["--hostname", "0.0.0.0"]));
    let ip = std::net::UdpSocket::bind("0.0.0.0:0").and_then(|socket| {
        socket.connect("192.0.2.1:9")?;
        socket.local_addr()
    });
    let Some(ip) = ip.ok().map(|address| address.ip()).filter(|ip| !ip.is_loopback()) else {
        skip!("this machine has no address but loopback");
    };
    let (room, url) = (Room::new(), format!("http://{ip}:{}", server.endpoint.address.port()));
    let refused = room.run(&["probe", "opencode", "--live", &url]);
    assert!(refused.code == 2 && refused.stderr.contains("--allow-remote"), "{} {}", refused.code, refused.stderr);
    let allowed = room.run(&["probe", "opencode", "--json", "--live", &url, "--allow-remote", &url]);
    assert_eq!((allowed.code, with_outcome(&allowed.json(), "confirmed")), (0, ids('O', &[1, 2, 7, 10, 13])), "{}", allowed.stdout);
    let elsewhere = room.run(&["probe", "opencode", "--live", &url.replace(&ip.to_string(), "198.51.100.7")]);
    assert_eq!(elsewhere.code, 3, "{}", elsewhere.stderr);
}

#[test]
fn another_accounts_zeroclaw_may_not_be_looked_into_and_that_is_said() {
    let world = need!(World::new());
    let model = StubModel::start("true");
    let config = Zeroclaw::configure(&world.stranger, &model, &[]);
    let theirs = need!(Zeroclaw::start(Start::as_account(&world.stranger, &[]), &config));
    for more in [&[][..], &[theirs.socket.to_str().unwrap()]] {
        let mut command = world.user.command(&world.whoseenv);
        let told = ran(command.args(["probe", "zeroclaw", "--live"]).args(more));
        assert_eq!(told.code, 4, "{more:?}: {}", told.stderr);
    }
}

//! Probes as people run them: other accounts, other people's daemons, no terminal.

use std::process::{Command, Stdio};

use super::{Room, contract_host, evidence, ids, outcomes, python, with_outcome};
use crate::run::ran;
use crate::world::World;
use crate::world::daemons::{Opencode, Start};
use crate::world::look::free_port;
use crate::world::need::tool;
use crate::world::peers;

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

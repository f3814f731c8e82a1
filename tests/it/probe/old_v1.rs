//! Releases of 1.x before 1.14.48: they hand every path that they do not know on to a machine of their vendor's. Seen on 1.2.27:
//! without a network `GET /api/info` is answered with 500, "Unable to connect", and `/global/health` with its version.

use std::collections::BTreeSet;

use super::plans::recorded;
use super::v1_live::Server;
use super::{Room, evidence, ids, python, with_outcome};
use crate::world::peers;

const EVERY_HOST: [u32; 5] = [1, 2, 7, 10, 13];
const UPLOADS: [u32; 9] = [3, 4, 5, 6, 8, 9, 11, 12, 14];

#[test]
fn an_old_1x_is_probed_and_asked_nothing_that_it_does_not_know() {
    need!(python());
    let real = need!(peers::opencode("1.2.27"));
    let (room, dir) = (Room::new(), tempfile::tempdir().unwrap());
    let (host, log) = recorded(dir.path(), &real);
    let ran = room.run(&["probe", "opencode", "--json", "--spawn", host.to_str().unwrap()]);
    let json = ran.json();
    assert_eq!(json["data"]["host"]["version"], "1.2.27", "{json:#}");
    assert_eq!(with_outcome(&json, "confirmed"), ids('O', &EVERY_HOST), "{json:#}");
    assert_eq!(with_outcome(&json, "not_supported"), ids('O', &UPLOADS));
    assert!(evidence(&json, "O3").contains("its own contract"), "{}", evidence(&json, "O3"));
    let log = std::fs::read_to_string(log).unwrap();
    let asked: BTreeSet<&str> = log.lines().filter_map(|line| line.split([' ', '?']).nth(1)).collect();
    let known =
        |path: &&str| ["/global/health", "/doc", "/pty"].contains(path) || path.starts_with("/session") || path.starts_with("/pty/");
    let unknown: Vec<_> = asked.into_iter().filter(|path| !known(path)).collect();
    assert_eq!(unknown, Vec::<&str>::new(), "paths of which its contract has none");
}

#[test]
fn a_live_old_1x_is_healthy_by_its_own_word() {
    let server = need!(Server::of(need!(peers::opencode("1.2.27")), &[]));
    let room = Room::new();
    let told = crate::run::ran(&mut server.command(&room, "30"));
    let json = told.json();
    assert_eq!((told.code, json["data"]["host"]["version"].as_str()), (0, Some("1.2.27")), "{json:#} {}", told.stderr);
    assert_eq!(with_outcome(&json, "confirmed"), ids('O', &EVERY_HOST));
    server.is_left_empty(&room, "a probe to its end");
}

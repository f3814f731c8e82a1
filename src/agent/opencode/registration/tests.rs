//! Registration files of a made-up machine, against its processes.

use super::*;
use crate::agent::discover;
use crate::agent::made::{Made, Process, opencode_preview};
use std::os::unix::fs::{PermissionsExt, symlink};

const FILE: &str = "/home/u/.local/state/opencode/service.json";

fn line(pid: u32, version: &str, port: u16) -> String {
    format!(r#"{{"id":"i","version":"{version}","url":"http://127.0.0.1:{port}","pid":{pid},"password":"canary"}}"#)
}

/// A preview service (pid 20, started 990 s ago) that listens on port 49374, and this text in its registration file.
fn machine(text: &str) -> Made {
    let mut made = Made::new();
    made.tcp(49374, 500);
    made.tcp(49375, 501);
    made.program("/opt/opencode2", &opencode_preview());
    let argv: &[&str] = &["/opt/opencode2", "serve", "--service"];
    let environ: &[&str] = &["HOME=/home/u"];
    Process { comm: "opencode2", exe: "/opt/opencode2", argv, environ, fds: &["socket:[500]"], ..made.process(20, 1) }.write();
    made.file(FILE, text.as_bytes());
    std::fs::set_permissions(made.at(FILE), std::fs::Permissions::from_mode(0o600)).unwrap();
    made
}

fn findings(made: &Made) -> Vec<(String, Outcome)> {
    let host = made.host();
    let processes = discover(&host).unwrap();
    let all: Vec<Finding> = registrations(&host, &processes).iter().flat_map(|registration| registration.findings(&host)).collect();
    let text = serde_json::to_string(&all).unwrap();
    assert!(!text.contains("canary"), "{text}");
    all.into_iter().map(|finding| (finding.id, finding.outcome)).collect()
}

fn confirmed(ids: &[&str]) -> Vec<(String, Outcome)> {
    ids.iter().map(|id| ((*id).to_owned(), Outcome::Confirmed)).collect()
}

#[test]
fn a_registration_that_agrees_is_given_to_its_process() {
    let made = machine(&line(20, "0.0.0-next-16350", 49374));
    assert_eq!(findings(&made), []);
    let processes = discover(&made.host()).unwrap();
    let registration = processes[0].registration.as_ref().unwrap();
    assert_eq!((&registration.pid, &registration.listener, registration.deleted_exe), (&PidFact::Agent, &ListenerFact::Named, Some(false)));
}

/// What a file would say that was written by half, or is none, is not known: it may name the service.
#[test]
fn a_file_that_cannot_be_understood_proves_no_absence() {
    let outcome = |made: &Made| {
        let host = made.host();
        let service = discover(&host).unwrap().into_iter().find(|process| process.stat.pid == 20).unwrap();
        super::super::unregistered::finding(&host, &service).map(|finding| finding.outcome)
    };
    let whole = line(20, "0.0.0-next-16350", 49374);
    assert_eq!(outcome(&machine(&whole)), None);
    assert_eq!(outcome(&machine(&line(77, "0.0.0-next-16350", 49374))), Some(Outcome::Confirmed));
    assert_eq!(outcome(&machine(&whole[..whole.len() / 2])), Some(Outcome::Undetermined));
    assert_eq!(outcome(&machine(&format!("{whole}{}", " ".repeat(2 << 20)))), Some(Outcome::Undetermined));
    let fifo = machine("");
    std::fs::remove_file(fifo.at(FILE)).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, fifo.at(FILE), rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
    assert_eq!(outcome(&fifo), Some(Outcome::Undetermined));
    let none = machine("");
    std::fs::remove_file(none.at(FILE)).unwrap();
    assert_eq!(outcome(&none), Some(Outcome::Confirmed));
}

#[test]
fn every_disagreement_is_told() {
    assert_eq!(findings(&machine(&line(77, "0.0.0-next-16350", 49376))), confirmed(&["registration.pid"]));
    assert_eq!(
        findings(&machine(&line(77, "0.0.0-next-16350", 49374))),
        confirmed(&["registration.pid", "registration.listener"]),
        "the one named is gone and somebody else answers"
    );
    assert_eq!(findings(&machine(&line(900, "0.0.0-next-16350", 49376))), confirmed(&["registration.pid", "registration.listener"]));
    assert_eq!(findings(&machine(&line(20, "0.0.0-next-16351", 49374))), confirmed(&["registration.version"]));
    assert_eq!(findings(&machine(&line(20, "0.0.0-next-16350", 49375))), confirmed(&["registration.listener"]));
    assert_eq!(findings(&machine(&line(20, "0.0.0-next-16350", 49376))), confirmed(&["registration.listener"]));
}

fn fixes(made: &Made) -> Vec<Vec<String>> {
    let host = made.host();
    let processes = discover(&host).unwrap();
    let root = made.at("/").display().to_string();
    let registrations = registrations(&host, &processes);
    let all = registrations.iter().flat_map(|registration| registration.findings(&host));
    all.map(|finding| finding.fix.into_iter().map(|line| line.replace(&root, "/")).collect()).collect()
}

/// A daemon whose state directory is the same by a link, and the one who asks: one file, told once.
#[test]
fn a_file_that_several_ways_lead_to_is_told_once() {
    let made = machine(&line(77, "0.0.0-next-16350", 49376));
    symlink(".local/state", made.at("/home/u/linked")).unwrap();
    let argv: &[&str] = &["/opt/opencode2", "serve"];
    let environ: &[&str] = &["HOME=/home/u", "XDG_STATE_HOME=/home/u/linked"];
    Process { comm: "opencode2", exe: "/opt/opencode2", argv, environ, ..made.process(21, 1) }.write();
    assert_eq!(findings(&made), confirmed(&["registration.pid"]));
}

#[test]
fn the_fix_names_the_program_that_runs_whatever_version_the_file_says() {
    assert_eq!(fixes(&machine(&line(20, "2.0.24", 49374))), [["/opt/opencode2 service restart"]]);
    // The one named is gone; another of that version runs.
    assert_eq!(fixes(&machine(&line(77, "0.0.0-next-16350", 49376))), [["/opt/opencode2 service restart"]]);
}

#[test]
fn the_fix_reaches_the_service_whose_file_it_is() {
    let made = machine("");
    std::fs::remove_file(made.at(FILE)).unwrap();
    made.environ(20, &["HOME=/home/u", "XDG_STATE_HOME=/srv/my state"]);
    let other = "/srv/my state/opencode/service.json";
    made.file(other, line(77, "0.0.0-next-16350", 49376).as_bytes());
    std::fs::set_permissions(made.at(other), std::fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(fixes(&made), [["XDG_STATE_HOME='/srv/my state' /opt/opencode2 service restart"]]);
}

#[test]
fn a_service_that_no_file_names_is_told() {
    let missing = |made: &Made| {
        let host = made.host();
        let processes = discover(&host).unwrap();
        let service = processes.iter().find(|process| process.stat.pid == 20).unwrap();
        crate::agent::agent(ID).findings(&host, service).into_iter().filter(|finding| finding.id == "registration.missing").collect()
    };
    let made = machine(&line(20, "0.0.0-next-16350", 49374));
    assert_eq!(missing(&made), []);
    std::fs::remove_file(made.at(FILE)).unwrap();
    let gone: Vec<Finding> = missing(&made);
    assert_eq!((gone.len(), gone[0].outcome, gone[0].evidence[0].detail.as_str()), (1, Outcome::Confirmed, "no service*.json"));
    let gone: Vec<Finding> = missing(&machine(&line(77, "0.0.0-next-16350", 49376)));
    assert_eq!(gone[0].evidence[0].detail, "1 service*.json, none of which names pid 20");
}

#[test]
fn a_file_older_than_the_process_it_names_is_of_another_start() {
    let made = machine(&line(20, "0.0.0-next-16350", 49374));
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(3_000);
    std::fs::File::options().write(true).open(made.at(FILE)).unwrap().set_modified(long_ago).unwrap();
    assert_eq!(findings(&made), confirmed(&["registration.pid"]));
}

#[test]
fn a_file_that_cannot_be_used_gets_a_line_and_no_more() {
    let half = line(20, "0.0.0-next-16350", 49374);
    assert_eq!(findings(&machine(&half[..half.len() - 5])), confirmed(&["registration.unreadable"]));

    let made = machine("");
    std::fs::remove_file(made.at(FILE)).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, made.at(FILE), rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
    assert_eq!(findings(&made), confirmed(&["registration.unreadable"]));

    let made = machine(&half);
    std::fs::rename(made.at(FILE), made.at("/home/u/elsewhere")).unwrap();
    symlink("/home/u/elsewhere", made.at(FILE)).unwrap();
    assert_eq!(findings(&made), confirmed(&["registration.unreadable"]));

    let made = machine(&half);
    std::fs::set_permissions(made.at(FILE), std::fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(findings(&made), confirmed(&["registration.exposed"]));
}

#[test]
fn what_another_user_wrote_says_nothing_of_a_daemon() {
    let made = machine(&line(77, "0.0.0-next-16350", 49374));
    // Only root can give a file away.
    if rustix::fs::chown(made.at(FILE), Some(rustix::fs::Uid::from_raw(65_534)), None).is_ok() {
        assert_eq!(findings(&made), confirmed(&["registration.unreadable"]));
    }
}

#[test]
fn a_stale_file_is_found_without_any_daemon() {
    let made = Made::new();
    made.file(FILE, line(77, "2.0.24", 49374).as_bytes());
    std::fs::set_permissions(made.at(FILE), std::fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(findings(&made), confirmed(&["registration.pid"]));
    let host = made.host();
    assert_eq!(registrations(&host, &[])[0].findings(&host)[0].fix, ["opencode service restart"], "no program of it is known here");
    // The one that a shell would find.
    std::fs::set_permissions(made.at("/bin/sleep"), std::fs::Permissions::from_mode(0o755)).unwrap();
    made.program("/my tools/opencode", b"");
    std::fs::set_permissions(made.at("/my tools/opencode"), std::fs::Permissions::from_mode(0o755)).unwrap();
    made.environ(900, &["HOME=/home/u", "PATH=/bin:/my tools"]);
    let host = made.host();
    assert_eq!(registrations(&host, &[])[0].findings(&host)[0].fix, ["'/my tools/opencode' service restart"]);
}

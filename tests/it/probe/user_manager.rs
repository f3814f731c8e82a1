//! The recipes of the systemd user manager, on a real one: it starts without systemd as the first process, in mounts and a
//! control group of its own.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{evidence, outcomes};
use crate::world::accounts;
use crate::world::need::tool;
use crate::world::{Missing, Needed};

/// Control groups that the account may manage; gone when the test is.
struct Groups(Vec<PathBuf>);

impl Groups {
    fn new(owner: u32) -> Needed<Groups> {
        let roots = ["/sys/fs/cgroup/systemd", "/sys/fs/cgroup/unified", "/sys/fs/cgroup"];
        let is_group = |root: &&str| Path::new(root).join("cgroup.procs").exists();
        let groups = Groups(roots.into_iter().filter(is_group).map(|root| Path::new(root).join("whoseenv-test")).collect());
        for group in &groups.0 {
            if std::fs::create_dir_all(group).is_err() {
                return Missing::new(format!("{} cannot be made: control groups are read-only here", group.display()));
            }
            let of_it = std::fs::read_dir(group).expect("a control group can be listed").flatten().map(|entry| entry.path());
            for path in of_it.chain([group.clone()]) {
                let _ = std::os::unix::fs::chown(&path, Some(owner), None);
            }
        }
        if groups.0.is_empty() { Missing::new("no control groups are mounted here") } else { Ok(groups) }
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        fn remove(group: &Path) {
            let below = std::fs::read_dir(group).into_iter().flatten().flatten();
            below.map(|entry| entry.path()).filter(|path| path.is_dir()).for_each(|path| remove(&path));
            let _ = std::fs::remove_dir(group);
        }
        self.0.iter().for_each(|group| remove(group));
    }
}

/// As root, in mounts of its own, so that whatever a manager tidies up is there alone: a machine that looks as if systemd had booted it, and the account's user manager on it.
const MANAGER: &str = r#"
set -e
uid=$1; program=$2; shift 2
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/system "/run/user/$uid" /run/probe
cp "$program" /run/probe/whoseenv
mount -t tmpfs -o mode=1777 tmpfs /tmp
mount -t tmpfs -o mode=1777 tmpfs /var/tmp
chown "$uid" "/run/user/$uid"; chmod 700 "/run/user/$uid"
for group in $GROUPS_OF_IT; do echo $$ > "$group/cgroup.procs"; done
exec setpriv --reuid="$uid" --regid="$uid" --init-groups env -i HOME=/tmp PATH=/usr/bin:/bin XDG_RUNTIME_DIR="/run/user/$uid" sh -c '
    cd /tmp
    /lib/systemd/systemd --user >/dev/null 2>&1 & manager=$!
    for try in $(seq 100); do systemctl --user show-environment >/dev/null 2>&1 && break; sleep 0.1; done
    "$@"; code=$?
    systemctl --user show-environment | grep -c WHOSEENV >&2
    kill -TERM $manager; wait $manager; exit $code' sh /run/probe/whoseenv "$@"
"#;

#[test]
fn what_is_given_to_a_unit_and_what_is_imported_arrive() {
    need!(accounts::possible());
    for (program, package) in [("systemd-run", "systemd"), ("dbus-daemon", "dbus"), ("unshare", "util-linux"), ("setpriv", "util-linux")] {
        need!(tool(program, package));
    }
    // systemd-run waits for the unit over the user's bus.
    if !Path::new("/usr/lib/systemd/user/dbus.socket").exists() {
        skip!("the user manager has no bus (package dbus-user-session)");
    }
    let _alone = crate::world::world::alone();
    let account = need!(accounts::ordinary());
    account.reset();
    let groups = need!(Groups::new(account.uid));
    let list = groups.0.iter().map(|group| group.display().to_string()).collect::<Vec<_>>().join(" ");
    // Where the account can run it.
    let place = tempfile::tempdir().unwrap();
    std::fs::set_permissions(place.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let program = place.path().join("whoseenv");
    std::fs::copy(crate::run::PROGRAM, &program).unwrap();
    assert_eq!(std::fs::metadata(&program).unwrap().mode() & 0o5, 0o5);
    for recipe in ["systemd-run", "systemd-import-environment"] {
        let mut command = Command::new("unshare");
        command.args(["--mount", "bash", "-c", MANAGER, "bash", &account.uid.to_string()]).arg(&program);
        command.args(["probe", "exec", "--json", recipe]).env("GROUPS_OF_IT", &list).stdin(Stdio::null());
        let ran = crate::run::ran(&mut command);
        let Ok(json) = serde_json::from_str(&ran.stdout) else { panic!("{}\n{}", ran.stdout, ran.stderr) };
        assert_eq!((ran.code, outcomes(&json)[recipe].as_str()), (0, "confirmed"), "{json:#}");
        assert!(evidence(&json, recipe).contains("without the injection"));
        assert_eq!(ran.stderr.trim(), "0", "nothing of the probe's is left in the manager's environment");
    }
    account.reset();
}

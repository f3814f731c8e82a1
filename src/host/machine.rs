//! The machine as a whole, and the privilege it was looked at with.

use std::path::Path;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Host, Unknown, files};

/// What kind of machine it is, and when and with which privilege it was looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Random id of this boot.
    pub boot_id: String,
    /// Host name.
    pub hostname: String,
    /// Kernel release.
    pub kernel: String,
    /// Operating system, as it calls itself.
    pub os: String,
    /// When the facts were read, milliseconds since the epoch.
    pub taken_ms: i64,
    /// Time since boot at that moment, in milliseconds, suspended time included.
    pub uptime_ms: u64,
    /// When the machine was started, milliseconds since the epoch: `btime` of `/proc/stat`, which counts whole seconds. None in
    /// older snapshots, and where the kernel does not tell; start times are then computed from the uptime.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_ms: Option<i64>,
    /// Clock ticks a second, the unit of process start times.
    pub ticks_per_second: u64,
    /// Effective uid of the one who looked.
    pub uid: u32,
    /// Effective capabilities of the one who looked, without the `CAP_`.
    pub caps: Vec<String>,
}

impl Machine {
    pub(super) fn read(root: &Path) -> Machine {
        let text = |path: &str| {
            let bytes = files::read_small(&root.join(path), 4096).unwrap_or_default();
            String::from_utf8_lossy(&bytes).trim().to_owned()
        };
        let uptime = text("proc/uptime");
        let uptime_ms =
            uptime.split(' ').next().and_then(|seconds| seconds.parse::<f64>().ok()).map_or(0, |seconds| (seconds * 1000.0) as u64);
        let boot_ms = files::read_small(&root.join("proc/stat"), 16 << 20).ok().and_then(|text| boot_ms(&text));
        let caps = rustix::thread::capabilities(None).map(|sets| sets.effective.iter_names().map(|(name, _)| name.to_owned()).collect());
        Machine {
            boot_id: text("proc/sys/kernel/random/boot_id"),
            hostname: text("proc/sys/kernel/hostname"),
            kernel: text("proc/sys/kernel/osrelease"),
            os: sysinfo::System::long_os_version().unwrap_or_default(),
            taken_ms: Timestamp::now().as_millisecond(),
            uptime_ms,
            boot_ms,
            ticks_per_second: rustix::param::clock_ticks_per_second(),
            uid: rustix::process::geteuid().as_raw(),
            caps: caps.unwrap_or_default(),
        }
    }

    /// How long ago a process with this start time was started, in milliseconds.
    pub fn age_ms(&self, start_ticks: u64) -> u64 {
        self.uptime_ms.saturating_sub(self.since_boot_ms(start_ticks))
    }

    /// When a process with this start time was started, milliseconds since the epoch: the same in every run, as `ps` has it.
    pub fn started_ms(&self, start_ticks: u64) -> i64 {
        // The uptime has hundredths of a second, and is read at another moment than the clock: it moves from run to run.
        self.boot_ms.unwrap_or(self.taken_ms - self.uptime_ms as i64).saturating_add_unsigned(self.since_boot_ms(start_ticks))
    }

    fn since_boot_ms(&self, ticks: u64) -> u64 {
        ticks.saturating_mul(1000) / self.ticks_per_second.max(1)
    }

    /// When the facts were read, RFC 3339.
    pub fn taken_at(&self) -> String {
        rfc3339(self.taken_ms)
    }
}

/// `btime` of `/proc/stat`, seconds since the epoch, as milliseconds.
fn boot_ms(stat: &[u8]) -> Option<i64> {
    let line = stat.split(|&byte| byte == b'\n').find_map(|line| line.strip_prefix(b"btime "))?;
    std::str::from_utf8(line).ok()?.trim().parse::<i64>().ok()?.checked_mul(1000)
}

/// Accounts below this uid belong to the system and tell nothing of a person.
pub const FIRST_PERSON: u32 = 1000;

/// What `/proc` keeps from this account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hiding {
    /// The mount option, as the kernel shows it: `hidepid=invisible`.
    pub option: String,
    /// Other users' processes are not even listed; else they are listed and cannot be looked into.
    pub unlisted: bool,
}

/// What the mount of `/proc` in a mountinfo table hides from one who is in `groups`; none where it hides nothing.
pub(super) fn hiding(table: &str, groups: &[u32]) -> Option<Hiding> {
    // The last mount on a place covers those before it.
    let line = table.lines().rfind(|line| line.split(' ').nth(4) == Some("/proc"))?;
    let options = line.split_once(" - ")?.1.split(' ').nth(2)?;
    let value = |name: &str| options.split(',').find_map(|option| option.strip_prefix(name)?.strip_prefix('='));
    let hidepid = value("hidepid")?;
    let exempt = value("gid").and_then(|gid| gid.parse().ok()).is_some_and(|gid| groups.contains(&gid));
    let unlisted = match hidepid {
        "0" | "off" => return None,
        "1" | "noaccess" => false,
        _ => true,
    };
    (!exempt).then(|| Hiding { option: format!("hidepid={hidepid}"), unlisted })
}

/// The home directories of the persons among the accounts of a passwd file.
pub(super) fn homes(passwd: &[u8], first: u32) -> Vec<String> {
    let home = |line: &[u8]| {
        let fields: Vec<&[u8]> = line.split(|&byte| byte == b':').collect();
        let text = |at: usize| std::str::from_utf8(fields.get(at)?).ok();
        (text(2)?.parse::<u32>().ok()? >= first).then(|| text(5).map(str::to_owned)).flatten()
    };
    passwd.split(|&byte| byte == b'\n').filter_map(home).collect()
}

impl Host {
    /// The home directory of a uid, as far as the machine's own list of accounts has it.
    pub fn home_of(&self, uid: u32) -> Option<String> {
        let read = || {
            let root = self.live_root().ok_or(Unknown::NotCaptured)?;
            home(&files::read_small(&root.join("etc/passwd"), 16 << 20)?, uid).ok_or(Unknown::Absent)
        };
        self.fact("users.json", &format!("home of {uid}"), read).ok()
    }
}

/// The home directory of one account of a passwd file.
fn home(passwd: &[u8], uid: u32) -> Option<String> {
    let home = |line: &[u8]| {
        let text = |at: usize| std::str::from_utf8(line.split(|&byte| byte == b':').nth(at)?).ok();
        (text(2)?.parse() == Ok(uid)).then(|| text(5).map(str::to_owned)).flatten()
    };
    passwd.split(|&byte| byte == b'\n').find_map(home)
}

/// The login names of this machine, by uid.
pub(super) fn users() -> std::collections::HashMap<u32, String> {
    let Ok(users) = sysinfo::Users::new_with_refreshed_list() else { return std::collections::HashMap::new() };
    users.iter().map(|user| (**user.id(), user.name().to_owned())).collect()
}

/// Milliseconds since the epoch as RFC 3339 in UTC.
pub fn rfc3339(ms: i64) -> String {
    Timestamp::from_millisecond(ms).map(|time| format!("{time:.3}")).unwrap_or_else(|_| format!("{ms} ms"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_proc_hides_is_in_its_mount_options() {
        let table = |options: &str| format!("20 1 0:5 / / rw - ext4 /dev/vda rw\n21 20 0:6 / /proc rw,nosuid - proc proc rw{options}\n");
        assert_eq!(hiding(&table(""), &[]), None);
        assert_eq!(hiding(&table(",hidepid=0"), &[]), None);
        let invisible = Some(Hiding { option: "hidepid=invisible".to_owned(), unlisted: true });
        assert_eq!(hiding(&table(",hidepid=invisible"), &[1000]), invisible);
        assert!(hiding(&table(",gid=27,hidepid=2"), &[1000]).is_some_and(|hiding| hiding.unlisted));
        assert_eq!(hiding(&table(",gid=27,hidepid=2"), &[1000, 27]), None, "a member of the group sees all");
        assert!(hiding(&table(",hidepid=noaccess"), &[]).is_some_and(|hiding| !hiding.unlisted));
        let covered = format!("{}22 21 0:7 / /proc rw - proc proc rw\n", table(",hidepid=2"));
        assert_eq!(hiding(&covered, &[]), None, "the mount on top counts");
    }

    #[test]
    fn ages_and_starts_come_from_one_clock() {
        let machine = Machine {
            boot_id: String::new(),
            hostname: String::new(),
            kernel: String::new(),
            os: String::new(),
            taken_ms: 1_700_000_100_000,
            uptime_ms: 100_000,
            boot_ms: None,
            ticks_per_second: 100,
            uid: 0,
            caps: Vec::new(),
        };
        assert_eq!(machine.age_ms(4_000), 60_000);
        assert_eq!(machine.started_ms(4_000), 1_700_000_040_000);
        let later = Machine { taken_ms: 1_700_000_100_007, boot_ms: Some(1_700_000_000_000), ..machine.clone() };
        assert_eq!(later.started_ms(4_000), 1_700_000_040_000, "the moment of asking does not move it");
        assert_eq!(boot_ms(b"cpu  1 2\nintr 7 0\nbtime 1700000000\nprocesses 3\n"), Some(1_700_000_000_000));
        assert_eq!((boot_ms(b"xbtime 1\n"), boot_ms(b"btime x"), boot_ms(b"btime 9223372036854775807")), (None, None, None));
        assert_eq!(machine.age_ms(u64::MAX), 0, "a start in the future is no panic");
        assert_eq!(rfc3339(1_700_000_040_000), "2023-11-14T22:14:00.000Z");
    }
}

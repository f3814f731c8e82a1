//! The machine as a whole, and the privilege it was looked at with.

use std::path::Path;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::files;

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
        let caps = rustix::thread::capabilities(None).map(|sets| sets.effective.iter_names().map(|(name, _)| name.to_owned()).collect());
        Machine {
            boot_id: text("proc/sys/kernel/random/boot_id"),
            hostname: text("proc/sys/kernel/hostname"),
            kernel: text("proc/sys/kernel/osrelease"),
            os: sysinfo::System::long_os_version().unwrap_or_default(),
            taken_ms: Timestamp::now().as_millisecond(),
            uptime_ms,
            ticks_per_second: rustix::param::clock_ticks_per_second(),
            uid: rustix::process::geteuid().as_raw(),
            caps: caps.unwrap_or_default(),
        }
    }

    /// How long ago a process with this start time was started, in milliseconds.
    pub fn age_ms(&self, start_ticks: u64) -> u64 {
        self.uptime_ms.saturating_sub(self.since_boot_ms(start_ticks))
    }

    /// When a process with this start time was started, milliseconds since the epoch.
    pub fn started_ms(&self, start_ticks: u64) -> i64 {
        self.taken_ms - self.uptime_ms as i64 + self.since_boot_ms(start_ticks) as i64
    }

    fn since_boot_ms(&self, ticks: u64) -> u64 {
        ticks.saturating_mul(1000) / self.ticks_per_second.max(1)
    }

    /// When the facts were read, RFC 3339.
    pub fn taken_at(&self) -> String {
        rfc3339(self.taken_ms)
    }
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
    fn ages_and_starts_come_from_one_clock() {
        let machine = Machine {
            boot_id: String::new(),
            hostname: String::new(),
            kernel: String::new(),
            os: String::new(),
            taken_ms: 1_700_000_100_000,
            uptime_ms: 100_000,
            ticks_per_second: 100,
            uid: 0,
            caps: Vec::new(),
        };
        assert_eq!(machine.age_ms(4_000), 60_000);
        assert_eq!(machine.started_ms(4_000), 1_700_000_040_000);
        assert_eq!(machine.age_ms(u64::MAX), 0, "a start in the future is no panic");
        assert_eq!(rfc3339(1_700_000_040_000), "2023-11-14T22:14:00.000Z");
    }
}

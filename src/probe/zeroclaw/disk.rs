//! Whether a snapshot leaves the daemon's memory, and who may send one.

use super::bed::{Bed, called};
use super::claims::MARK;
use crate::host::files;
use crate::probe::{Stop, Trail, map, nonce};
use crate::verdict::How;

/// Z12: a snapshot is nowhere on disk.
pub fn nowhere(bed: &mut Bed<'_>, trail: &mut Trail) -> Result<(), Stop> {
    let (canary, printed) = (nonce("canary")?, nonce("printed")?);
    let mut client = bed.client(Some(&map(&[("PATH", "/usr/bin:/bin"), ("WHOSEENV_CANARY", &canary)])))?;
    let session = bed.session(&mut client)?;
    let seen = bed.turn(&mut client, &session)?;
    trail.control(seen.has("WHOSEENV_CANARY", &canary), "the canary is not in the shell")?;
    trail.shell(&seen, "the canary is in the shell's environment");
    bed.print(&mut client, &session, &printed)?;
    let places = [bed.nest.dir().to_owned()];
    trail.nowhere(&places, &canary, &printed)?;
    Ok(())
}

/// Z8: a principal without admin rights. Starts the daemon anew, with this account in its roster.
pub fn not_admin(bed: &mut Bed<'_>, trail: &mut Trail) -> Result<(), Stop> {
    let (before, after) = (nonce("admin")?, nonce("roster")?);
    let env = |mark: &str| map(&[("PATH", "/usr/bin:/bin"), (MARK, mark)]);
    let mut admin = bed.client(Some(&env(&before)))?;
    let session = bed.session(&mut admin)?;
    let seen = bed.turn(&mut admin, &session)?;
    trail.control(seen.has(MARK, &before), "with the first daemon the environment does not arrive")?;
    drop(admin);
    let uid = rustix::process::geteuid().as_raw();
    bed.start_with(&format!(
        "\n[security]\ntrust_daemon_uid = false\n\n[permission_profiles.dev]\nadmin = false\nallowed_agents = [\"main\"]\nallowed_tools = [\"*\"]\n\n\
         [permission_profiles.dev.grants]\nsessions = [\"create\", \"read\", \"update\", \"delete\", \"execute\"]\ntools = [\"execute\", \"read\"]\n\
         agents = [\"read\"]\ntui = [\"read\"]\nsystem = [\"read\"]\n\n[users.probe]\nuid = {uid}\npermission_profiles = [\"dev\"]\n"
    ))?;
    let mut client = bed.client(Some(&env(&after)))?;
    let session = bed.session(&mut client)?;
    let turn = bed.begin(&mut client, &session)?;
    let seen = called(bed.end_turn(&mut client, &turn)?)?;
    let beyond = bed.beyond_layer_one(&seen);
    trail.shell(&seen, format!("a roster client's shell: {} names beyond layer 1", beyond.len()));
    trail.holds(seen.get(MARK).is_none(), || "the environment arrives all the same".to_owned());
    let log = bed.nest.join("config/zc/data/state/runtime-trace.jsonl");
    let text = files::read_named(&log).map_err(|reason| Stop::Failed(format!("{}: {reason}", log.display())))?;
    let lines = || text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let holds = |line: &[u8], what: &str| memchr::memmem::find(line, what.as_bytes()).is_some();
    let said = lines().any(|line| holds(line, "not retained") && holds(line, "dropped_vars"));
    if !said {
        // A log that lacks other lines too, as on a full disk, does not tell that this one was never written.
        trail.control(lines().any(|line| holds(line, turn.trace())), "the log has not the call of this session's shell either")?;
        let torn = lines().filter(|line| serde_json::from_slice::<serde::de::IgnoredAny>(line).is_err()).count();
        trail.control(torn == 0, format!("{torn} lines of the log are broken off"))?;
    }
    trail.saw(
        log.display().to_string(),
        How::Passive,
        format!("a line with dropped_vars {}", if said { "is there" } else { "is not there" }),
    );
    trail.holds(said, || "the log does not say that it was dropped".to_owned());
    Ok(())
}

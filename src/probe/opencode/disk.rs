//! Whether an upload leaves the daemon's memory: disk, logs, answers, a new start.

use std::path::PathBuf;

use super::api::{self, Dialect};
use super::bed::Bed;
use crate::probe::{Stop, Trail, map, nonce};
use crate::verdict::How;

/// O11: an upload is nowhere on disk, in no log, in no answer.
pub fn nowhere(bed: &mut Bed, places: &[PathBuf], trail: &mut Trail) -> Result<(), Stop> {
    let (canary, printed) = (nonce("canary")?, nonce("printed")?);
    bed.http.listen_for(canary.as_bytes());
    let session = bed.uploaded(&map(&[("WHOSEENV_CANARY", &canary)]))?;
    let seen = bed.look(&session, &[("WHOSEENV_CANARY", &canary)])?;
    trail.control(seen.equals("WHOSEENV_CANARY", &canary), "the canary is not in the shell")?;
    trail.shown(&seen, "the canary is in the shell's environment");
    bed.send(&bed.dialect().shell(&session, &format!("echo {printed}")))?;
    for path in [bed.dialect().messages(&session), bed.dialect().session(&session), "/api/session?limit=50".to_owned()] {
        api::ask(&bed.http, "GET", &path, None, bed.patience)?;
    }
    trail.nowhere(places, &canary, &printed)?;
    let heard = bed.http.heard(canary.as_bytes());
    trail.saw("every answer to this probe", How::Connects, format!("{} hold the canary", heard.len()));
    trail.holds(heard.is_empty(), || format!("the canary is in the answer to {}", heard.join(", ")));
    Ok(())
}

/// O12: what an upload to this session came to before the daemon was started anew.
pub struct Before {
    session: String,
    mark: String,
}

/// Uploads, and sees that it took effect.
///
/// # Errors
/// When it did not.
pub fn before_restart(bed: &mut Bed, trail: &mut Trail) -> Result<Before, Stop> {
    let mark = nonce("restart")?;
    let session = bed.uploaded(&map(&[("WHOSEENV_MARK", &mark)]))?;
    let seen = bed.look(&session, &[("WHOSEENV_MARK", &mark)])?;
    trail.control(seen.equals("WHOSEENV_MARK", &mark), "the upload took no effect before the restart")?;
    trail.shown(&seen, "before the restart the nonce is there");
    Ok(Before { session, mark })
}

/// Looks at the same session of the new daemon.
///
/// # Errors
/// When the session is gone.
pub fn after_restart(bed: &mut Bed, before: &Before, trail: &mut Trail) -> Result<(), Stop> {
    let there = api::ask(&bed.http, "GET", &Dialect::V2.session(&before.session), None, bed.patience)?;
    trail.control(there.status == 200 && there.json().is_some(), format!("the session itself is gone: {}", there.shape()))?;
    let seen = bed.look(&before.session, &[("WHOSEENV_MARK", &before.mark)])?;
    let still = seen.equals("WHOSEENV_MARK", &before.mark);
    trail.shown(&seen, format!("after the restart the nonce is {}", if still { "still there" } else { "gone" }));
    trail.holds(!still, || "the upload outlived the daemon".to_owned());
    Ok(())
}

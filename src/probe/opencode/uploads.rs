//! What an upload does, on a host that takes uploads.

use serde_json::{Value, json};

use super::api;
use super::bed::{Bed, OVERLAY, Way};
use crate::probe::in_band::Shown;
use crate::probe::{Stop, Trail, listed, map, nonce};
use crate::verdict::How;

/// The variable that carries a nonce.
const MARK: &str = "WHOSEENV_MARK";

/// A display that nobody has, unlike the daemon's.
const DISPLAY: &str = "localhost:99.9";

/// O3: all three ways see the upload.
pub fn arrives(bed: &mut Bed, trail: &mut Trail) -> Result<(), Stop> {
    let mark = nonce("upload")?;
    trail.control(bed.block.get(MARK).is_none(), format!("the daemon itself has {MARK}"))?;
    let session = bed.uploaded(&map(&[(MARK, &mark), ("DISPLAY", DISPLAY)]))?;
    let mut ways = vec![("the session's shell", Way::Session(&session)), ("/api/shell that names the session", Way::Bare(Some(&session)))];
    if bed.model.is_some() {
        ways.push(("the model's tool", Way::Tool(&session)));
    } else {
        trail.saw("the model's tool", How::Connects, "not asked: a live host has a model of its own");
    }
    let service = bed.block.text("DISPLAY").unwrap_or("unset").to_owned();
    for (what, way) in ways {
        let seen = match way {
            Way::Session(session) => match bed.look(session, &[(MARK, &mark), ("DISPLAY", DISPLAY)])? {
                Shown::Shell(seen) => *seen,
                Shown::Told(told) => {
                    trail.saw(
                        "out of band",
                        How::RunsACommand,
                        "the session's shell cannot call; it is read in band instead, and it alone",
                    );
                    trail.output("the command's output, in band", format!("{what}: {}", told.words()));
                    trail.holds(told.equals(MARK) && told.equals("DISPLAY"), || format!("{what} does not see the upload"));
                    return Ok(());
                }
            },
            way => bed.run(way)?,
        };
        let effective = match seen.block.text("DISPLAY") {
            Some(DISPLAY) => "the session's",
            Some(display) if display == service => "the service's",
            Some(_) => "another",
            None => "unset",
        };
        let arrived = if seen.has(MARK, &mark) { "is there" } else { "is not there" };
        trail.shell(
            &seen,
            format!("{what}: the nonce {arrived}; DISPLAY is {service} in the service, {DISPLAY} in the session, and {effective} here"),
        );
        trail.holds(seen.has(MARK, &mark), || format!("{what} does not see the upload"));
    }
    Ok(())
}

/// O4: nothing of the daemon's remains.
pub fn replaces(bed: &mut Bed, trail: &mut Trail) -> Result<(), Stop> {
    let plain = bed.session()?;
    let before = bed.look(&plain, &[])?;
    trail.control(before.is_set("HOME"), "without an upload there is no HOME that could vanish")?;
    let mark = nonce("replace")?;
    let session = bed.uploaded(&map(&[(MARK, &mark)]))?;
    let seen = bed.look(&session, &[(MARK, &mark)])?;
    trail.control(seen.equals(MARK, &mark), "the upload took no effect")?;
    let left = bed.of_daemon(&seen, &[MARK]);
    let names = if let Shown::Shell(seen) = &seen { listed(&seen.names()) } else { "set or unset".to_owned() };
    trail.shown(&seen, format!("after an upload of one name: {names}"));
    trail.holds(left.is_empty(), || format!("of the daemon's there are still {}", listed(&left)));
    Ok(())
}

/// O5: the last one wins, whole.
pub fn last_wins(bed: &mut Bed, trail: &mut Trail) -> Result<(), Stop> {
    let (first, second) = (nonce("first")?, nonce("second")?);
    let session = bed.uploaded(&map(&[(MARK, &first), ("WHOSEENV_FIRST_ONLY", &first)]))?;
    let before = bed.look(&session, &[("WHOSEENV_FIRST_ONLY", &first)])?;
    trail.control(before.equals("WHOSEENV_FIRST_ONLY", &first), "the first upload took no effect")?;
    bed.upload(&session, &map(&[(MARK, &second)]))?;
    let seen = bed.look(&session, &[(MARK, &second), ("WHOSEENV_FIRST_ONLY", &first)])?;
    let left = if seen.is_set("WHOSEENV_FIRST_ONLY") { "still there" } else { "gone" };
    trail.shown(&seen, format!("after the second upload the first one's own name is {left}"));
    trail.holds(seen.equals(MARK, &second), || "the second value is not there".to_owned());
    trail.holds(!seen.is_set("WHOSEENV_FIRST_ONLY"), || "a name of the first upload alone is still there".to_owned());
    Ok(())
}

/// O6: an empty one is an environment.
pub fn empty(bed: &mut Bed, trail: &mut Trail) -> Result<(), Stop> {
    let mark = nonce("full")?;
    let full = bed.uploaded(&map(&[(MARK, &mark)]))?;
    let other = bed.look(&full, &[(MARK, &mark)])?;
    let replaced = other.equals(MARK, &mark) && bed.of_daemon(&other, &[MARK]).is_empty();
    trail.control(replaced, "an upload that is not empty does not replace the daemon's environment")?;
    let session = bed.uploaded(&json!({}))?;
    let seen = match bed.look(&session, &[])? {
        Shown::Shell(seen) => seen,
        told => {
            let left = bed.of_daemon(&told, &[]);
            trail.shown(&told, "after an upload of {}");
            trail.holds(left.is_empty(), || format!("of the daemon's there are still {}", listed(&left)));
            let unknown =
                Stop::Failed("in band it cannot be told that there is nothing else: names are told that are asked about".to_owned());
            return if left.is_empty() { Err(unknown) } else { Ok(()) };
        }
    };
    trail.shell(&seen, format!("after an upload of {{}}: {}", listed(&seen.names())));
    let left: Vec<_> = seen.names().into_iter().filter(|name| !OVERLAY.contains(&name.as_str()) && !bed.plugins.contains(name)).collect();
    trail.holds(left.is_empty(), || format!("{} names beside the overlay: {}", left.len(), listed(&left)));
    Ok(())
}

/// O8: isolation, twenty at once.
pub fn isolated(bed: &mut Bed, trail: &mut Trail) -> Result<(), Stop> {
    const AT_ONCE: usize = 20;
    let mut sessions = Vec::new();
    for number in 0..AT_ONCE {
        let mark = nonce(&format!("one-of-{number}"))?;
        sessions.push((bed.uploaded(&map(&[(MARK, &mark)]))?, mark));
    }
    let own: Vec<(bool, bool)> = if bed.mute.is_some() {
        let asking =
            sessions.iter().map(|(session, mark)| bed.ask_in_band(session, &[(MARK, mark)], None)).collect::<Result<Vec<_>, _>>()?;
        let told = sessions.iter().zip(&asking).map(|((session, _), asking)| bed.hear(session, asking)).collect::<Result<Vec<_>, _>>()?;
        if let Some(first) = told.first() {
            trail.output("the command's output, in band", format!("of the first of them: {}", first.words()));
        }
        told.iter().map(|told| (told.is_set(MARK), told.equals(MARK))).collect()
    } else {
        let running = sessions.iter().map(|(session, _)| bed.start(Way::Session(session), &[])).collect::<Result<Vec<_>, _>>()?;
        let seen = running.into_iter().map(|running| bed.finish(running)).collect::<Result<Vec<_>, _>>()?;
        seen.iter().zip(&sessions).map(|(seen, (_, mark))| (seen.get(MARK).is_some(), seen.has(MARK, mark))).collect()
    };
    trail.control(own.iter().all(|(set, _)| *set), "not every shell sees an upload at all")?;
    let own = own.iter().filter(|(_, own)| *own).count();
    trail.shells(format!("{AT_ONCE} shells at once"), format!("{own} see their own session's nonce"));
    trail.holds(own == AT_ONCE, || format!("{} of {AT_ONCE} see another session's upload", AT_ONCE - own));
    Ok(())
}

/// O9: children do not inherit.
pub fn children(bed: &mut Bed, trail: &mut Trail) -> Result<(), Stop> {
    let mark = nonce("parent")?;
    let parent = bed.uploaded(&map(&[(MARK, &mark)]))?;
    let own = bed.look(&parent, &[(MARK, &mark)])?;
    trail.control(own.equals(MARK, &mark), "the parent session does not see its upload")?;
    let stranger = bed.session()?;
    let plain = bed.look(&stranger, &[])?;
    trail.control(bed.deviations(&plain).is_empty(), "a session of no relation has not the daemon's environment")?;
    let place = bed.place.clone();
    let child = ("POST", "/api/session".to_owned(), Some(json!({"parentID": parent, "location": {"directory": place}})));
    let fork = ("POST", format!("{}/fork", bed.dialect().session(&parent)), Some(json!({})));
    let mut seen_any = false;
    for (what, request) in [("a sub-session", child), ("a fork", fork)] {
        let session = match bed.creating(&request) {
            Ok(session) => session,
            // No such route or field; a host that could not do it says otherwise.
            Err(Stop::Answered(200..=299 | 400 | 404 | 405 | 422, why)) => {
                trail.saw(what, How::Connects, format!("cannot be made here: {why}"));
                continue;
            }
            Err(stop) => return Err(stop),
        };
        let seen = bed.look(&session, &[(MARK, &mark)])?;
        seen_any = true;
        let deviations = bed.deviations(&seen);
        trail.shown(&seen, format!("{what}: {} of the daemon's values are not there as they are", deviations.len()));
        trail.holds(!seen.equals(MARK, &mark), || format!("{what} has the parent's upload"));
        trail.holds(deviations.is_empty(), || format!("{what}: {}", deviations.join(", ")));
    }
    trail.control(seen_any, "neither a sub-session nor a fork could be made")
}

/// O14: the contract's refusals.
pub fn refusals(bed: &mut Bed, trail: &mut Trail) -> Result<(), Stop> {
    bed.uploaded(&map(&[(MARK, "x")]))?;
    let unknown = api::decided(bed.send(&api::upload(super::NO_SESSION, &map(&[(MARK, "x")])))?)?;
    let tag = |body: Option<Value>, key: &str| body.and_then(|body| body[key].as_str().map(str::to_owned)).unwrap_or_default();
    let said = format!("{} {}", unknown.shape(), tag(unknown.json(), "_tag"));
    trail.saw("PUT to an unknown session", How::Connects, said.clone());
    trail.holds(unknown.status == 404 && tag(unknown.json(), "_tag") == "SessionNotFoundError", || {
        format!("an unknown session is answered with {said}")
    });
    let session = bed.session()?;
    let number = api::decided(bed.send(&api::upload(&session, &json!({MARK: 1})))?)?;
    let said = format!("{} {} kind {}", number.shape(), tag(number.json(), "_tag"), tag(number.json(), "kind"));
    trail.saw("PUT of a number", How::Connects, said.clone());
    let right = number.status == 400 && tag(number.json(), "_tag") == "InvalidRequestError" && tag(number.json(), "kind") == "Payload";
    trail.holds(right, || format!("a value that is no string is answered with {said}"));
    Ok(())
}
